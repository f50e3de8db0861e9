"""tests/python/main.py BUILD [PART] -- runs tests/python/test_*.py, each in a process of its own.

A test is named FILE.CLASS.METHOD (test_flags.Parsing.test_lists); PART is any part of that.  Two files at most run at a time,
for tests with sessions have threads of their own.  A file's output is shown when a test of it failed, or when it did not end;
where all its threads were is told when it crashed, and shortly before it is given up.
"""
import concurrent.futures
import faulthandler
import glob
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_S = 300
PROCESSES = 2
groups = set()  # of processes that run, by the number of the first


def flat(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flat(t)
        else:
            yield t


def short_id(test):
    """test_flags.Parsing.test_lists; a file that cannot be imported is named as unittest does."""
    return test.id().replace("unittest.loader._FailedTest.", "")


def run_file(name, part):
    """In the process for one file: its tests, and `== passed failed skipped without` at the end."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(DEADLINE_S - 10)
    sys.path.insert(0, HERE)
    tests = list(flat(unittest.defaultTestLoader.loadTestsFromName(name)))
    # A name of tf.test.TestCase, which is no test.
    wanted = [t for t in tests if part in short_id(t) and not short_id(t).endswith(".test_session")]
    out = io.StringIO()
    result = unittest.TextTestRunner(stream=out, verbosity=0).run(unittest.TestSuite(wanted))
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    sys.stdout.flush()
    if bad:
        print(out.getvalue())
    without = sum("made by TensorFlow" in reason for _, reason in result.skipped)
    skipped = len(result.skipped) - without
    print("== %d %d %d %d" % (result.testsRun - bad - without, bad, skipped, without), flush=True)


def end_group(pid):
    """Processes that a file has started, and left behind."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_in_process(name, part):
    """The output goes to a file: the end of a pipe is the end of whoever has it, as servers do that a test has started and a crash
    of it has left behind."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as said:
        p = subprocess.Popen([sys.executable, "-B", __file__, "--file", name, part], stdout=said, stderr=subprocess.STDOUT,
                             start_new_session=True)
        groups.add(p.pid)
        try:
            code, late = p.wait(DEADLINE_S), ""
        except subprocess.TimeoutExpired:
            code, late = -1, "\n%s: not done after %d s" % (name, DEADLINE_S)
        finally:
            end_group(p.pid)
            groups.discard(p.pid)
            p.wait()
        said.seek(0)
        out = said.read().decode(errors="replace") + late
    counts = re.findall(r"^== (\d+) (\d+) (\d+) (\d+)$", out, re.M)
    passed, failed, skipped, without = (int(n) for n in counts[-1]) if counts else (0, 1, 0, 0)
    if counts and code and not failed:
        out, failed = out + "\n%s: the process ended with code %d" % (name, code), 1
    elif not counts:
        out += "\n%s: the process ended with code %d in the middle" % (name, code)
    return name, passed, failed, skipped, without, out, time.monotonic() - begin


def environment(build):
    build = os.path.abspath(build)
    os.environ["PYTHONPATH"] = os.path.join(build, "share", "millrace", "python")
    os.environ["MILLRACE_BUILD"] = build
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def tell(name, passed, failed, skipped, _without, out, seconds):
    if failed:
        print(out)
    if passed or failed or skipped:
        print("%-6s %s: %d passed, %d failed%s  %.1f s" % ("FAILED" if failed else "ok", name, passed, failed,
                                                          ", %d of them skipped" % skipped if skipped else "", seconds),
              flush=True)


def main(build, part=""):
    environment(build)
    files = sorted(os.path.splitext(os.path.basename(f))[0] for f in glob.glob(os.path.join(HERE, "test_*.py")))
    own = [f for f in files if part.startswith(f)]  # the name says which file: no need to open the others
    total, without = [0, 0], 0
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        try:
            for result in pool.map(lambda f: run_in_process(f, part), own or files):
                total = [a + b for a, b in zip(total, result[1:3])]
                without += result[4]
                tell(*result)
        finally:
            for group in list(groups):  # when it was interrupted: they are not of the terminal
                end_group(group)
    if without:
        print("%d tests need the golden files made by TensorFlow, which are not here: set MILLRACE_GOLDEN to their folder" % without)
    print("%d passed, %d failed" % tuple(total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    if sys.argv[1] == "--file":
        run_file(*sys.argv[2:4])
    else:
        sys.exit(main(*sys.argv[1:3]))
