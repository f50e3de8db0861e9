"""tests/cli/test_sim_docs.py -- the pages about the training simulator show what it says.

A block ```sh is run at the root of the project, and each line of the ```text block behind it must have been written; ... stands for
the rest of the line.  Numbers may have moved by 3 %, or by two of their last digit: they follow from estimates of what an op costs,
which get better now and then."""
import os
import re
import subprocess

from harness import check
from test_docs import ROOT, blocks

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?$")


def same_word(a, b):
    if not (NUMBER.match(a) and NUMBER.match(b)):
        return a == b
    last = 10.0 ** -len(a.partition(".")[2])
    return abs(float(a) - float(b)) <= max(0.03 * abs(float(a)), 2 * last)


def same_line(page, written):
    a, b = page.split(), written.split()
    if a[-1:] == ["..."]:
        a = a[:-1]
        b = b[:len(a)]
    return len(a) == len(b) and all(map(same_word, a, b))


def run_page(t, name):
    n, out = 0, None
    env = t.env(PATH=os.pathsep.join([os.path.join(t.build, "bin"), t.build, os.environ["PATH"]]))
    for kind, _, text in blocks(os.path.join(ROOT, "docs", name)):
        if kind == "sh":
            r = t.finish(subprocess.Popen(["sh", "-eu", "-c", text], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            check(r.code == 0, "exit code %d of\n%s\n%s" % (r.code, text, r.out))
            out, n = r.out, n + 1
        elif kind == "text" and out is not None:
            for line in text.splitlines():
                check(any(same_line(line, l) for l in out.splitlines()), "'%s' is not in\n%s" % (line, out))
    return n


def test_page_of_the_calibration_is_true(t):
    if os.path.basename(t.build) in ("gcc", "clang"):  # sanitizers make it long
        check(run_page(t, "sim-calibration.md") == 2, "blocks")


def test_page_of_scaling_is_true(t):
    if os.path.basename(t.build) in ("gcc", "clang"):
        check(run_page(t, "sim-scaling.md") == 2, "blocks")
