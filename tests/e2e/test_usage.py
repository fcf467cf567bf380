"""What the program says when it is used wrongly, and that it says it in one line with exit status 2."""
import subprocess

from support import NANO, PROGRAM, Case, cortiq, main


class Usage(Case):
    def test_unknown_command_names_the_nearest(self):
        self.refused("Usage", "convrt", naming=["convrt", "convert"], status=2)

    def test_unknown_flag_names_the_nearest(self):
        self.refused("Usage", "verify", "x.cmf", "--jsn", naming=["--jsn", "--json"], status=2)

    def test_missing_value_and_wrong_number(self):
        self.refused("Usage", "run", "x.cmf", "-n", status=2)
        self.refused("Usage", "run", "x.cmf", "-n", "x", status=2)

    def test_missing_positional(self):
        self.refused("Usage", "verify", status=2)

    def test_unknown_quant_names_the_nearest(self):
        self.refused("Usage", "convert", "/nonexistent", "-o", self.dir / "x.cmf", "--quant", "q4tq", naming="q4t", status=2)

    def test_sampler_parameters_out_of_range(self):
        for flag, value in (("--temperature", "-1"), ("--top-p", "1.5"), ("--min-p", "2"), ("--repeat-penalty", "0"),
                            ("--top-k", "-3"), ("--temperature", "nan")):
            self.refused("Usage", "run", "x.cmf", "-p", "a", flag, value, status=2)

    def test_directory_instead_of_file(self):
        self.refused("Io", "info", self.dir)

    def test_unwritable_streams_are_an_error_and_no_crash(self):
        with open("/dev/full", "w") as full:
            for command, status in ((["--help"], 1), (["nonsense"], 2), (["tokenize", str(NANO), "--jsonl"], 1)):
                done = subprocess.run([PROGRAM, *command], stdout=full, stderr=full, input=b'"a"\n')
                self.assertEqual(done.returncode, status, command)

    def test_negative_and_fractional_counts(self):
        for flags in (["-n", "-1"], ["--seed", "-1"], ["--seed", "1.5"], ["--context", "x"]):
            self.refused("Usage", "run", "x.cmf", "-p", "a", *flags, status=2)

    def test_missing_file(self):
        self.refused("Io", "info", self.dir / "none.cmf", naming="none.cmf")

    def test_unknown_instruction_set(self):
        for command in (["--version"], ["verify", "x.cmf"], ["run", "x.cmf", "-p", "a"]):
            self.refused("Usage", *command, env={"CORTIQ_ISA": "mmx"}, status=2, naming="mmx")

    def test_help_and_version_print_to_stdout(self):
        for arguments in (["--help"], ["--version"], ["convert", "--help"], ["mask", "--help"], ["skill", "--help"]):
            result = self.ok(*arguments)
            self.assertTrue(result.out.strip())
            self.assertEqual(result.err, "")

    def test_every_command_has_help_with_an_example(self):
        names = [line.split()[0] for line in self.ok("--help").out.splitlines() if line.startswith("  ")]
        self.assertGreater(len(names), 12)
        for name in names:
            if name in ("mask", "skill"):
                continue
            self.assertIn("cortiq " + name, cortiq(name, "--help").out)


main()
