"""tests/cli/test_help.py -- --help and the man pages."""
import os
import re
import subprocess

from harness import HERE, check, has


def commands(t):
    r = t.run("--help")
    check(r.code == 0 and not r.err, r.err)
    return re.findall(r"^  (\w+) +\S", r.out, re.M)


def test_help_lists_the_commands(t):
    check({"launch", "serve", "keys", "ops", "inspect", "convert", "version", "agent", "help"} <= set(commands(t)), str(commands(t)))
    has(t.run("--help").out, "millrace COMMAND --help")


def test_help_of_every_command_is_complete(t):
    for c in commands(t):
        for flag in ("--help", "-h"):
            r = t.run(c, flag)
            check(r.code == 0 and not r.err, "%s: %s" % (c, r.err))
            has(r.out, "usage: millrace " + c)
            for line in r.out.splitlines():
                check(len(line) <= 80, "%s: a long line: %s" % (c, line))
                if line.startswith("  --"):
                    check(re.match(r"  --[a-z-]+( [A-Z]\S*)? {1,}\S", line), "%s: %s" % (c, line))


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
    r = t.run("help", "lanch")
    check(r.code == 1, str(r.code))
    has(r.err, "there is no command 'lanch'")


def test_help_writes_a_man_page_for_each_command(t):
    names = ["millrace"] + ["millrace-" + c for c in commands(t)]
    r = t.run("help", "--man", t.dir)
    check(r.code == 0 and not r.out, r.err)
    for name in names:
        path = os.path.join(t.dir, name + ".1")
        has(open(path).read(), ".TH %s 1 " % name.upper())
        try:
            r = subprocess.run(["man", "--warnings", "-l", path], capture_output=True, text=True, env=dict(os.environ, MANWIDTH="80"))
        except FileNotFoundError:
            continue  # no man on this machine
        check(r.returncode == 0 and not r.stderr, r.stderr)


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


# Each program in a process of its own, with the package imported once: PROGRAMS[i] with ARGS[k] writes to i.k.out and i.k.err.
RUN_ALL = """
import os, runpy, sys
programs, lines = sys.argv[1].split(","), [["--help"], ["-h"], ["--no-such-option=1"], ["--no-such-option"], ["a", "b"]]
sys.path.insert(0, os.path.dirname(programs[0]))
import millrace
for i, program in enumerate(programs):
    for k, args in enumerate(lines):
        pid = os.fork()
        if pid == 0:
            for fd, end in ((1, "out"), (2, "err")):
                os.dup2(os.open("../%d.%d.%s" % (i, k, end), os.O_WRONLY | os.O_CREAT), fd)
            sys.argv, code = [program] + args, 0
            try:
                runpy.run_path(program, run_name="__main__")
            except SystemExit as e:
                code = e.code or 0
            except BaseException as e:
                print(repr(e), file=sys.stderr)
                code = 100
            sys.stdout.flush()
            os._exit(code)
        print(i, k, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def test_help_of_every_example_in_python(t):
    extension = os.path.join(t.build, "share", "millrace", "python", "_millrace.so")
    if os.path.basename(t.build) not in ("gcc", "clang") or not os.path.exists(extension):
        return  # the interpreter has no sanitizers
    folder = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "python")
    names = [n for n in sorted(os.listdir(folder)) if n.endswith(".py") and n not in ("digits.py", "options.py")]  # parts of the others
    check(len(names) > 20, str(names))
    here = os.path.join(t.dir, "here")
    os.mkdir(here)
    with open(os.path.join(t.dir, "run_all.py"), "w") as f:
        f.write(RUN_ALL)
    r = subprocess.run([t.millrace, "python", f.name, ",".join(os.path.join(folder, n) for n in names)], cwd=here, capture_output=True,
                       text=True, timeout=300)
    codes = [tuple(map(int, line.split())) for line in r.stdout.splitlines()]
    check(r.returncode == 0 and len(codes) == 5 * len(names), r.stderr)
    for i, k, code in codes:
        out, err = (open(os.path.join(t.dir, "%d.%d.%s" % (i, k, end))).read() for end in ("out", "err"))
        what = "%s: exit code %d\n%s%s" % (names[i], code, out, err)
        check(code == 0 and not err and names[i] in out if k < 2 else code == 2 and not out and err.count("\n") == 1, what)
        for option in re.findall(r"\[--(?:no)?(\w+)", out):
            check(re.search(r"^ *--(\[no\])?%s:" % option, out, re.M), "%s: --%s is not among the flags\n%s" % (names[i], option, out))
    check(not os.listdir(here), "something was written: %s" % os.listdir(here))
