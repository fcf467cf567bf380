"""What the program says when it is used wrongly, and that it says it in one line with exit status 2."""
from support import Case, cortiq, main


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

    def test_missing_file(self):
        self.refused("Io", "info", self.dir / "none.cmf", naming="none.cmf")

    def test_unknown_instruction_set(self):
        self.refused("Usage", "--version", env={"CORTIQ_ISA": "mmx"}, status=2, naming="mmx")

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
