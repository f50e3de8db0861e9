"""tests/cli/harness.py -- what the tests of the `millrace` command are written with.

A test is a function test_NAME(t); t runs commands with a deadline and knows every process they started, also those that
left their parents: all carry the same variable TEST_MARK."""
import concurrent.futures
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_S = 60
GOLDEN = os.path.join(HERE, "..", "golden")  # the golden files of our own making
TENSORFLOW_GOLDEN = os.environ.get("MILLRACE_GOLDEN", os.path.join(HERE, "../../../shared/golden"))


def needs_tensorflow(fn):
    """For a test of the golden files made by TensorFlow, which are not part of the repository."""
    fn.needs_tensorflow = True
    return fn


class Failed(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Failed(what)


def has(text, part):
    check(part in text, "'%s' is not in:\n%s" % (part, text))


def has_not(text, part):
    check(part not in text, "'%s' is in:\n%s" % (part, text))


def read_proc(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as f:
            return f.read()
    except OSError:
        return b""


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, "not within %g s: %s" % (seconds, what))
        time.sleep(0.02)


def leads(pid):
    """Its group; not one that has just ended."""
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()
    return len(fields) > 2 and int(fields[2]) == pid


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds


class Test:
    def __init__(self, build):
        self.build = build
        self.millrace = os.path.join(build, "bin", "millrace")
        self.dir = tempfile.mkdtemp(prefix="millrace-cli-test-")
        self.mark = "TEST_MARK=" + uuid.uuid4().hex
        self.ssh_log = os.path.join(self.dir, "ssh.log")

    # ---- running ----

    def env(self, **more):
        """Of a person who has set nothing, so that no test depends on who runs it."""
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("MILLRACE", "TF_", "SLURM", "OMPI", "PMI", "PBS"))}
        keep["TEST_MARK"] = self.mark.split("=")[1]
        keep["MILLRACE_SSH"] = os.path.join(HERE, "fake_ssh")
        keep["FAKE_SSH_LOG"] = self.ssh_log
        keep.update(more)
        return keep

    def start(self, *args, env=None, **kw):
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        kw.setdefault("preexec_fn", lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))  # nohup leaves it ignored
        return subprocess.Popen([self.millrace] + list(args), env=self.env(**(env or {})), stdin=subprocess.DEVNULL, text=True,
                                cwd=self.dir, **kw)

    def finish(self, p, since=None):
        try:
            out, err = p.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.end()  # others may hold its pipes
            kill(p.pid)
            out, err = p.communicate()
            raise Failed("it did not end:\n%s%s" % (out, err))
        return Result(p.returncode, out, err, time.monotonic() - (since or time.monotonic()))

    def run(self, *args, env=None):
        since = time.monotonic()
        return self.finish(self.start(*args, env=env), since)

    # ---- programs of tasks ----

    def program(self, text, name="program"):
        """A shell script; its path."""
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path

    def file(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    next_port, port_lock = 20000 + os.getpid() * 37 % 10000, threading.Lock()

    def ports(self, n):
        """The first of n ports in a row that are free now, below those that the system gives; no two tests get the same."""
        for _ in range(1000):
            with Test.port_lock:
                first = Test.next_port
                Test.next_port = first + n if first + 2 * n < 32000 else 20000
            held = []
            try:
                for i in range(n):
                    s = socket.socket()
                    held.append(s)
                    s.bind(("0.0.0.0", first + i))
                return first
            except OSError:
                pass
            finally:
                for s in held:
                    s.close()
        raise Failed("no free ports")

    # ---- processes ----

    def processes(self, mark=None):
        """All that carry the mark, or another variable, and still run."""
        mark = (mark or self.mark).encode()
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid() and mark in read_proc(int(name), "environ").split(b"\0"):
                state = read_proc(int(name), "stat").rpartition(b")")[2].split()
                if state and state[0] not in (b"Z", b"X"):
                    found.append(int(name))
        return found

    def none_left(self, seconds=10):
        wait_until(lambda: not self.processes(), seconds,
                   "processes end: %s" % [read_proc(p, "cmdline") for p in self.processes()])

    def task(self, name):
        """The process of a task: the one that leads its group."""
        found = []

        def find():
            marked = self.processes()
            ours = [p for p in self.processes("MILLRACE_TASK=" + name) if p in marked]
            found[:] = [p for p in ours if leads(p)]
            return found
        wait_until(find, 20, "task %s runs" % name)
        return found[0]

    def end(self):
        for p in self.processes():
            if not read_proc(p, "comm").startswith(b"millrace-warden"):  # it ends by itself, and cleans up
                kill(p)
        shutil.rmtree(self.dir, ignore_errors=True)


def run_one(name, fn, build):
    """None, or what was wrong."""
    t = Test(build)
    try:
        fn(t)
        t.none_left()
        return None
    except Exception as e:  # one red line, whatever it was
        return str(e) if isinstance(e, Failed) else traceback.format_exc()
    finally:
        t.end()


def main(tests, build, part=""):
    """Several at a time: they mostly wait for processes."""
    wanted = [(name, fn) for name, fn in tests if part in name]
    without = 0 if os.path.isdir(TENSORFLOW_GOLDEN) else sum(hasattr(fn, "needs_tensorflow") for _, fn in wanted)
    if without:
        wanted = [(name, fn) for name, fn in wanted if not hasattr(fn, "needs_tensorflow")]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ends = [(name, pool.submit(run_one, name, fn, build)) for name, fn in wanted]
        for name, end in ends:
            wrong = end.result()
            failed += wrong is not None
            print("ok " + name if wrong is None else "FAIL %s\n%s" % (name, wrong), flush=True)
    if without:
        print("%d tests need the golden files made by TensorFlow, which are not here: set MILLRACE_GOLDEN to their folder" % without)
    print("%d passed, %d failed" % (len(wanted) - failed, failed))
    return failed == 0


def collect(*modules):
    return [(name[5:], fn) for m in modules for name, fn in vars(m).items() if name.startswith("test_")]


if __name__ == "__main__":
    sys.exit("this is no test; tests/cli/run is")
