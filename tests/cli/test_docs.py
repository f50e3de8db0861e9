"""tests/cli/test_docs.py -- docs/cluster.md, docs/devices.md and docs/opencl.md do what they say.

A block ```c file=NAME is written to a file, a block ```sh is run, and each line of the ```text block behind it must have been
written; ... stands for anything.  Blocks ```console are for other machines, those with `zookeeper` for test_zookeeper.py."""
import glob
import os
import re
import subprocess

from harness import HERE, DEADLINE_S, Failed, check, has

ROOT = os.path.dirname(os.path.dirname(HERE))


def blocks(path):
    with open(path) as f:
        return re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", f.read(), re.M | re.S)


def matches(line, text):
    pattern = ".*".join(re.escape(part) for part in line.split("..."))
    return re.search("^" + pattern + "$", text, re.M) is not None


def run_block(t, text, env):
    p = subprocess.Popen(["sh", "-eu", "-c", text], cwd=t.dir, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    r = t.finish(p)
    check(r.code == 0, "exit code %d of\n%s\n%s" % (r.code, text, r.out))
    return r.out


def install(t):
    """What `make install` makes, from what was built, without building it again."""
    prefix = os.path.join(t.dir, "p")
    for d in ("bin", "lib"):
        os.makedirs(os.path.join(prefix, d))
        for name in os.listdir(os.path.join(t.build, d)):
            os.symlink(os.path.join(t.build, d, name), os.path.join(prefix, d, name))
    os.symlink(os.path.join(ROOT, "include"), os.path.join(prefix, "include"))
    return prefix


def test_docs_of_the_cluster_do_what_they_say(t):
    n = run_page(t, lambda n, more: "zookeeper" not in more, {})
    check(n >= 6 or not n, "%d blocks were run" % n)


def test_docs_of_devices_do_what_they_say(t):
    n = run_page(t, lambda n, more: True, {}, "devices.md")
    check(n >= 3 or not n, "%d blocks were run" % n)


def test_docs_of_opencl_do_what_they_say(t):
    """Where there is a driver; pocl keeps what it compiled in build/, as in the unit tests."""
    library = os.path.join(t.build, "lib", "libmillrace-opencl.so")
    if not os.path.exists(library) or not glob.glob("/etc/OpenCL/vendors/*.icd"):
        return
    os.environ.setdefault("POCL_CACHE_DIR", os.path.join(ROOT, "build", "pocl"))
    n = run_page(t, lambda n, more: True, {}, "opencl.md")
    check(n == 2 or not n, "%d blocks were run" % n)


def adapt(text, first_port, replaced):
    """A block with other ports in place of the page's (231xx to 233xx), and with the replacements.  The ports come first: a
    replacement may have a port in the same range, which must stay."""
    text = re.sub(r"\b23([123])(\d\d)\b", lambda m: str(first_port(m[1]) + int(m[2])), text)
    for a, b in replaced.items():
        text = text.replace(a, b)
    return text


def test_docs_keep_the_address_of_a_server_whose_port_is_like_one_of_the_page(t):
    text = adapt("ZK=127.0.0.1:2181; serve 127.0.0.1:23201", {"2": 30000}.get, {"127.0.0.1:2181": "127.0.0.1:23165"})
    check(text == "ZK=127.0.0.1:23165; serve 127.0.0.1:30001", text)


def run_page(t, wanted, replaced, page="cluster.md"):
    """Runs the blocks that are wanted by their number and mark; how many there were."""
    if os.path.basename(t.build) not in ("gcc", "clang"):
        return 0  # a person's program is not built with sanitizers
    p = install(t)
    env = t.env(P=p, SRC=ROOT, PATH=p + "/bin:" + os.environ["PATH"])
    out, n, met, ports = None, 0, 0, {}
    for kind, more, text in blocks(os.path.join(ROOT, "docs", page)):
        text = adapt(text, lambda hundred: ports.setdefault(hundred, t.ports(10)), replaced)
        if kind == "c":
            t.file(re.search(r"file=(\S+)", more).group(1), text)
        elif kind == "sh":
            run = wanted(met, more)
            out = run_block(t, text, env) if run else None
            met += 1
            n += run
        elif kind == "text" and out is not None:
            for line in text.splitlines():
                check(matches(line, out), "'%s' is not in\n%s" % (line, out))
    return n


def test_docs_know_every_option_of_the_cluster_commands(t):
    """Each is in --help by nature; those that name files, hosts and keys are explained too."""
    text = open(os.path.join(ROOT, "docs", "cluster.md")).read()
    for flag in ("--ps", "--workers", "--hosts", "--hostfile", "--port", "--env", "--remote", "--cluster", "--job", "--task", "--local",
                 "--restarts", "--no-tls", "--ps-hosts", "--worker-hosts", "--zookeeper", "--zookeeper-timeout"):
        has(text, flag)
        has(t.run("launch", "--help").out, flag + " ")


def test_docs_list_the_variables_that_are_read(t):
    """Every MILLRACE_ variable of the sources is in the table, and the other way round."""
    text = open(os.path.join(ROOT, "docs", "cluster.md")).read()
    told = set(re.findall(r"^\| `(MILLRACE_\w+)`", text, re.M))
    read = set()
    for folder, _, files in os.walk(os.path.join(ROOT, "src")):
        for name in files:
            if name.endswith((".c", ".h")) and not name.endswith(("_test.c", "_fixture.c")):
                read |= set(re.findall(r'[ (]"(MILLRACE_[A-Z_]+)"[,)]', open(os.path.join(folder, name)).read()))
    check(told == read, "told and not read: %s, read and not told: %s" % (sorted(told - read), sorted(read - told)))
