"""tests/cli/test_help.py -- what the command says of itself."""
import os
import re
import subprocess

from harness import HERE, check, has


def commands(t):
    r = t.run("--help")
    check(r.code == 0 and not r.err, r.err)
    return re.findall(r"^  (\w+) +\S", r.out, re.M)


def test_help_lists_the_commands(t):
    check({"launch", "serve", "keys", "ops", "inspect", "convert", "version", "agent"} <= set(commands(t)), str(commands(t)))
    has(t.run("--help").out, "millrace COMMAND --help")


def test_help_of_every_command_is_complete(t):
    for c in commands(t):
        for flag in ("--help", "-h"):
            r = t.run(c, flag)
            check(r.code == 0 and not r.err, "%s: %s" % (c, r.err))
            has(r.out, "usage: millrace " + c)
            for line in r.out.splitlines():
                check(len(line) <= 110, "%s: a long line: %s" % (c, line))
                if line.startswith("  --"):
                    check(re.match(r"  --[a-z-]+( [A-Z]+)? {1,}\S", line), "%s: %s" % (c, line))


def test_help_of_a_command_is_the_same_by_either_name(t):
    check(t.run("help", "serve").out == t.run("serve", "--help").out != "", "help serve")


def test_help_comes_before_anything_is_done(t):
    r = t.run("launch", "--ps", "2", "--help", "--", "true")
    check(r.code == 0 and "usage: millrace launch" in r.out, r.out)


def test_help_a_wrong_command_or_option_is_named(t):
    r = t.run("lanch")
    check(r.code == 2, str(r.code))
    has(r.err, "there is no command 'lanch'")
    r = t.run("launch", "--worker", "2")
    check(r.code == 2, str(r.code))
    has(r.err, "unknown option --worker")
    has(r.err, "try `millrace launch --help`")


def test_help_of_every_example(t):
    folder = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples")
    names = [n[:-2] for n in sorted(os.listdir(folder)) if n.endswith(".c")]
    check(len(names) > 5, str(names))
    for name in names:
        def run(*args):
            return subprocess.run([os.path.join(t.build, "examples", name), *args], capture_output=True, text=True, timeout=30)
        r = run("--help")
        check(r.returncode == 0 and not r.stderr and name in r.stdout, "%s: %d %s" % (name, r.returncode, r.stderr))
        r = run("--no-such-option", "1")
        check(r.returncode == 2 and not r.stdout and r.stderr, "%s: %d %s" % (name, r.returncode, r.stdout))
