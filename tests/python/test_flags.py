"""tf.flags and tf.app."""
import copy
import enum
import os
import subprocess
import sys
import tempfile
import unittest

import millrace as tf
from millrace import flags
from millrace.flags.values import main_name


class Parsing(unittest.TestCase):
    def setUp(self):
        self.f = flags.FlagValues()
        flags.DEFINE_string("name", "a", "text", flag_values=self.f)
        flags.DEFINE_integer("n", 3, "number", flag_values=self.f, short_name="k")
        flags.DEFINE_float("rate", 0.5, "number", flag_values=self.f)
        flags.DEFINE_boolean("on", False, "switch", flag_values=self.f)
        flags.DEFINE_bool("quiet", True, "switch", flag_values=self.f)
        flags.DEFINE_string("none", None, "text", flag_values=self.f)

    def parse(self, *words, **args):
        return self.f(["prog"] + list(words), **args)

    def test_defaults(self):
        self.assertEqual(self.parse(), ["prog"])
        self.assertEqual((self.f.name, self.f.n, self.f.rate, self.f.on, self.f.quiet, self.f.none),
                         ("a", 3, 0.5, False, True, None))

    def test_values_with_and_without_equals_sign(self):
        rest = self.parse("--name=b", "-n", "4", "x", "--rate", "1e-3", "--on", "--noquiet", "y", "--none=")
        self.assertEqual(rest, ["prog", "x", "y"])
        self.assertEqual((self.f.name, self.f.n, self.f.rate, self.f.on, self.f.quiet, self.f.none),
                         ("b", 4, 1e-3, True, False, ""))

    def test_undefined_flags_that_are_no_error(self):
        self.assertEqual(self.parse("--undefok=other,more", "--other=3", "--nomore", "x"), ["prog", "x"])
        self.assertEqual(self.parse("--undefok", "other", "--other", "x"), ["prog", "x"])
        self.assertRaises(flags.UnrecognizedFlagError, self.parse, "--other=3")

    def test_copies_stand_alone(self):
        self.parse()
        other = copy.deepcopy(self.f)
        other.n = 7
        self.assertEqual((self.f.n, other.n), (3, 7))

    def test_names_of_methods(self):
        with self.assertRaises(flags.FlagNameConflictsWithMethodError):
            flags.DEFINE_string("is_parsed", "", "", flag_values=self.f)
        flags.DEFINE_string("is_parsed", "", "", flag_values=self.f, allow_using_method_names=True)
        self.assertEqual(self.f["is_parsed"].value, "")

    def test_forgotten_flags(self):
        self.f.remove_flag_values(["n", "k", "rate", "nothing"])
        self.assertEqual([n in self.f for n in ("n", "k", "rate", "name")], [False, False, False, True])

    def test_files_after_the_first_word_that_is_no_flag(self):
        with tempfile.NamedTemporaryFile("w", suffix=".flags") as f:
            f.write("--n=8\n")
            f.flush()
            words = ["x", "--flagfile=" + f.name]
            self.f.set_gnu_getopt(False)
            self.assertEqual(self.f.read_flags_from_files(words, force_gnu=False), words)
            self.assertEqual(self.f.read_flags_from_files(words), ["x", "--n=8"])

    def test_values_by_name(self):
        self.parse()
        self.assertEqual([self.f.get_flag_value(n, 5) for n in ("n", "none", "nothing")], [3, 5, 5])

    def test_key_flags(self):
        flags.DEFINE_integer("far", 1, "of another module", flag_values=self.f, module_name="elsewhere")
        here = main_name() if __name__ == "__main__" else __name__
        self.assertNotIn("--far", self.f.module_help(here))
        flags.declare_key_flag("far", self.f)
        self.assertIn("--far", self.f.module_help(here))
        self.assertRaises(flags.UnrecognizedFlagError, flags.declare_key_flag, "nothing", self.f)

    def test_booleans_with_values(self):
        self.parse("--on=true", "--quiet=0")
        self.assertIs(self.f.on, True)
        self.assertIs(self.f.quiet, False)
        with self.assertRaisesRegex(flags.IllegalFlagValueError, "--on=maybe"):
            self.parse("--on=maybe")

    def test_a_boolean_takes_no_value_from_the_next_word(self):
        self.assertEqual(self.parse("--on", "false"), ["prog", "false"])
        self.assertIs(self.f.on, True)

    def test_short_names(self):
        self.parse("-k=7")
        self.assertEqual(self.f.n, 7)

    def test_two_dashes_end_the_flags(self):
        self.assertEqual(self.parse("--n=1", "--", "--n=2"), ["prog", "--n=2"])
        self.assertEqual(self.f.n, 1)

    def test_wrong_values_and_unknown_flags(self):
        with self.assertRaisesRegex(flags.IllegalFlagValueError, "--n=x"):
            self.parse("--n=x")
        with self.assertRaisesRegex(flags.UnrecognizedFlagError, "'nama'. Did you mean: name"):
            self.parse("--nama=3")
        with self.assertRaisesRegex(flags.Error, "Missing value for flag --name"):
            self.parse("--name")
        self.assertEqual(self.parse("--nama=3", "--n=5", known_only=True), ["prog", "--nama=3"])
        self.assertEqual(self.f.n, 5)

    def test_a_flag_may_not_be_defined_twice(self):
        with self.assertRaisesRegex(flags.DuplicateFlagError, "'name' is defined twice"):
            flags.DEFINE_integer("name", 1, "", flag_values=self.f)

    def test_values_cannot_be_read_before_parsing(self):
        with self.assertRaises(flags.UnparsedFlagAccessError):
            self.f.name
        with self.assertRaises(AttributeError):
            self.f.nothing

    def test_assigning(self):
        self.parse()
        self.f.n = 9
        self.assertEqual(self.f.flag_values_dict()["n"], 9)
        with self.assertRaises(AttributeError):
            self.f.nothing = 1

    def test_what_a_flag_tells(self):
        self.parse("--n=8")
        flag = self.f["n"]
        self.assertEqual((flag.name, flag.value, flag.default, flag.present, flag.help), ("n", 8, 3, 1, "number"))
        self.assertIn("n", self.f)
        self.assertEqual(flag.serialize(), "--n=8")
        self.assertEqual(self.f["on"].serialize(), "--noon")

    def test_how_old_scripts_look_at_all_flags(self):
        self.f._parse_flags(["--n=2"])
        self.assertEqual(getattr(self.f, "__flags")["n"].value, 2)
        self.assertEqual(self.f.__dict__["__flags"]["n"].value, 2)
        for name in list(self.f._flags()):
            if name in self.f:
                self.f.__delattr__(name)
        self.assertEqual(len(self.f), 0)

    def test_lists_enums_and_flags_that_stand_several_times(self):
        flags.DEFINE_list("hosts", "a,b", "", flag_values=self.f)
        flags.DEFINE_spaceseplist("words", [], "", flag_values=self.f)
        flags.DEFINE_enum("kind", "x", ["x", "y"], "", flag_values=self.f)
        flags.DEFINE_multi_integer("size", [1], "", flag_values=self.f)
        flags.DEFINE_multi_string("part", None, "", flag_values=self.f)
        color = enum.Enum("Color", "RED GREEN")
        flags.DEFINE_enum_class("color", color.RED, color, "", flag_values=self.f)
        self.parse()
        self.assertEqual((self.f.hosts, self.f.words, self.f.kind, self.f.size, self.f.part), (["a", "b"], [], "x", [1], None))
        self.parse("--hosts=c:1, d:2", "--words", "u v", "--kind=y", "--size=2", "--size=3", "--part=p", "--color=GREEN")
        self.assertEqual((self.f.hosts, self.f.words, self.f.kind, self.f.size, self.f.part),
                         (["c:1", "d:2"], ["u", "v"], "y", [2, 3], ["p"]))
        self.assertIs(self.f.color, color.GREEN)
        with self.assertRaisesRegex(flags.IllegalFlagValueError, "one of <x|y>"):
            self.parse("--kind=z")

    def test_bounds_and_required_flags(self):
        flags.DEFINE_integer("age", 1, "", lower_bound=0, upper_bound=9, flag_values=self.f)
        with self.assertRaisesRegex(flags.IllegalFlagValueError, "in the range"):
            self.parse("--age=10")
        self.parse("--age=9")
        with self.assertRaises(flags.IllegalFlagValueError):
            self.f.age = -1
        self.assertEqual(self.f.age, 9)
        flags.mark_flag_as_required("none", self.f)
        with self.assertRaisesRegex(flags.IllegalFlagValueError, "must have a value other than None"):
            self.parse()
        self.parse("--none=1")

    def test_exclusive_flags(self):
        flags.mark_flags_as_mutual_exclusive(["none", "name"], flag_values=self.f)
        self.parse()
        with self.assertRaisesRegex(flags.IllegalFlagValueError, "At most one"):
            self.parse("--none=x")

    def test_files_of_flags(self):
        with tempfile.NamedTemporaryFile("w", suffix=".flags") as f:
            f.write("# a comment\n--n=6\n\n--on\n")
            f.flush()
            self.parse("--flagfile=" + f.name, "--rate=2")
        self.assertEqual((self.f.n, self.f.on, self.f.rate), (6, True, 2.0))

    def test_aliases_and_old_argument_names(self):
        flags.DEFINE_alias("number", "n", flag_values=self.f)
        self.parse("--number=12")
        self.assertEqual((self.f.n, self.f.number), (12, 12))
        flags.DEFINE_string(flag_name="old", default_value="o", docstring="d", flag_values=self.f)
        self.assertEqual(self.f["old"].help, "d")


SCRIPT = '''"""Trains nothing."""
import millrace as tf
flags = tf.app.flags
flags.DEFINE_string("job_name", "", "One of 'ps', 'worker'")
flags.DEFINE_integer("task_index", 0, "Index of task")
FLAGS = flags.FLAGS
def main(_):
    print(FLAGS.job_name, FLAGS.task_index, _[1:])
    return 3
if __name__ == "__main__":
    tf.app.run()
'''


class App(unittest.TestCase):
    def run_script(self, text, *words):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "script.py")
            with open(path, "w") as f:
                f.write(text)
            return subprocess.run([sys.executable, path] + list(words), capture_output=True, text=True, timeout=60)

    def test_main_gets_what_is_left_and_its_result_is_the_exit_code(self):
        r = self.run_script(SCRIPT, "--job_name=ps", "--task_index", "1", "--unknown=2", "file")
        self.assertEqual((r.stdout, r.returncode), ("ps 1 ['--unknown=2', 'file']\n", 3), r.stderr)

    def test_help_shows_the_flags_of_the_script(self):
        r = self.run_script(SCRIPT, "--help")
        self.assertIn("Trains nothing.", r.stdout)
        self.assertIn("--job_name: One of 'ps', 'worker'\n    (default: '')", r.stdout)
        self.assertIn("--task_index: Index of task\n    (default: '0')\n    (an integer)", r.stdout)
        self.assertEqual(r.returncode, 1)

    def test_wrong_flags_end_the_program(self):
        r = self.run_script(SCRIPT, "--task_index=x")
        self.assertEqual(r.returncode, 1)
        self.assertIn("--task_index=x", r.stderr)

    def test_the_first_look_parses_the_command_line(self):
        r = self.run_script("import millrace as tf\ntf.flags.DEFINE_float('rate', 1, '')\nprint(tf.flags.FLAGS.rate)\n",
                            "--rate=2")
        self.assertEqual(r.stdout, "2.0\n", r.stderr)

    def test_it_is_in_the_namespace(self):
        self.assertIs(tf.app.flags, tf.flags)


if __name__ == "__main__":
    unittest.main()
