"""Converting needs room for its largest tensor, not for the model: at most twice that tensor as f32 and 256 MB."""
import json
import os
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from support import PROGRAM, Case

HIDDEN, ROWS = 4096, 24576  # the embedding is 402 MB of f32


def write_checkpoint(folder):
    shapes = {
        "model.embed_tokens.weight": [ROWS, HIDDEN],
        "model.norm.weight": [HIDDEN],
        "model.layers.0.input_layernorm.weight": [HIDDEN],
        "model.layers.0.post_attention_layernorm.weight": [HIDDEN],
        "model.layers.0.self_attn.q_proj.weight": [HIDDEN, HIDDEN],
        "model.layers.0.self_attn.k_proj.weight": [512, HIDDEN],
        "model.layers.0.self_attn.v_proj.weight": [512, HIDDEN],
        "model.layers.0.self_attn.o_proj.weight": [HIDDEN, HIDDEN],
        "model.layers.0.mlp.gate_proj.weight": [1024, HIDDEN],
        "model.layers.0.mlp.up_proj.weight": [1024, HIDDEN],
        "model.layers.0.mlp.down_proj.weight": [HIDDEN, 1024],
    }
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)  # zeros that take no room on the disk
    config = {"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": 1024, "num_hidden_layers": 1,
              "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": ROWS, "tie_word_embeddings": True}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)


class Memory(Case):
    def test_peak_stays_below_twice_the_largest_tensor_plus_256_mb(self):
        folder = self.dir / "large"
        os.mkdir(folder)
        write_checkpoint(folder)
        for quant in ("f32", "q8", "q4tp"):
            output = self.dir / (quant + ".cmf")
            process = subprocess.Popen([PROGRAM, "convert", folder, "-o", output, "--quant", quant, "--quiet"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0, process.stderr.read())
            process.stderr.close()
            os.unlink(output)
            limit = 2 * 4 * ROWS * HIDDEN + (256 << 20)
            self.assertLessEqual(usage.ru_maxrss * 1024, limit, quant)


if __name__ == "__main__":
    unittest.main()
