"""Writes the wheel of cmf_reader (PEP 517, PEP 427): one module, its metadata and the list of both."""
import base64
import hashlib
import pathlib
import re
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
MODULE = HERE / "cmf_reader.py"


def _version():
    return re.search(r'^__version__ = "([^"]+)"', MODULE.read_text(encoding="utf-8"), re.M).group(1)


def _metadata(version):
    return f"""Metadata-Version: 2.1
Name: cmf-reader
Version: {version}
Summary: Reads, checks and decodes CMF v2 model files
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
Provides-Extra: signature
Requires-Dist: cryptography ; extra == 'signature'
Description-Content-Type: text/markdown

{(HERE / "README.md").read_text(encoding="utf-8")}"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version = _version()
    info = f"cmf_reader-{version}.dist-info"
    files = {
        "cmf_reader.py": MODULE.read_bytes(),
        f"{info}/METADATA": _metadata(version).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: cmf_reader\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": b"[console_scripts]\ncmf-reader = cmf_reader:main\n",
    }
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"cmf_reader-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), data)
    return name
