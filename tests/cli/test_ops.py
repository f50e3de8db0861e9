"""tests/cli/test_ops.py -- the list of ops, the description of one, and the op reference."""
import os
import re

from harness import check, has


def test_ops_lists_and_describes(t):
    names = [line.partition("(")[0] for line in t.run("ops").out.splitlines()]
    check(len(names) > 1000 and names == sorted(names), str(len(names)))
    has(t.run("ops", "MatMul").out, "MatMul(a: T, b: T) -> (product: T)")
    has(t.run("ops", "Round").out, "gradient: stops here")
    has(t.run("ops", "Rpc").out, "kernels: none")
    r = t.run("ops", "NoSuchOp")
    check(r.code == 1, str(r.code))
    has(r.err, "there is no op 'NoSuchOp'")


def test_ops_reference_describes_every_op_once_and_its_links_work(t):
    folder = os.path.join(t.dir, "new", "ops")
    r = t.run("ops", "--markdown", folder)
    check(r.code == 0 and not r.out and not r.err, r.err)
    pages = {name: open(os.path.join(folder, name)).read() for name in os.listdir(folder)}
    described = [op for name, text in pages.items() if name != "README.md" for op in re.findall(r"^## (\w+)$", text, re.M)]
    check(sorted(described) == [line.partition("(")[0] for line in t.run("ops").out.splitlines()], "not every op once")
    for name, text in pages.items():
        for page, op in re.findall(r"\]\((\w+\.md)#?(\w*)\)", text):
            check(page in pages, "%s links to %s" % (name, page))
            check(not op or re.search("^## %s$" % op, pages[page], re.M | re.I), "%s links to %s#%s" % (name, page, op))
    for name in set(pages) - {"README.md"}:
        has(pages["README.md"], "(%s)" % name)


def test_ops_reference_takes_no_op(t):
    r = t.run("ops", "--markdown", t.dir, "MatMul")
    check(r.code == 1, str(r.code))
    has(r.err, "got 'MatMul'")
