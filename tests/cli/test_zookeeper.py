"""tests/cli/test_zookeeper.py -- tasks that find each other through a real ZooKeeper, are killed, and come back elsewhere.

Times are only bounded by deadlines; how fast it is says `make soak-zookeeper`."""
import functools
import os
import re
import signal
import subprocess
import time

import zookeeper
from harness import check, has, kill, wait_until
from test_docs import run_page

WAIT_S = 60


def with_server(fn):
    """A server for the test alone, or a word why there is none."""
    @functools.wraps(fn)
    def run(t):
        why = zookeeper.missing() or (None if os.path.exists(t.build + "/lib/libmillrace-zookeeper.so") else
                                      "libmillrace-zookeeper.so was not built, for want of libzookeeper-mt-dev")
        if why:
            print("skipped %s: %s" % (fn.__name__[5:], why), flush=True)
            return
        env = {k: v for k, v in os.environ.items() if k != "TEST_MARK"}  # it is no process of the command
        with zookeeper.Server(t.ports(1), env=env) as z:
            fn(t, z)
    return run


def serve(t, z, path, *more, job="ps", env=None):
    """A task that is up; the process and its port."""
    p = t.start("serve", "--zookeeper", z.address + path, "--zookeeper-timeout", "1000", "--ps", "1", "--workers", "1", "--job", job, *more,
                env=env)
    line = p.stderr.readline()
    found = re.search(r"serving /job:%s/task:0 at grpc://127.0.0.1:(\d+)" % job, line)
    check(found, line)
    if "MILLRACE_TLS_DIR" not in (env or {}):
        has(p.stderr.readline(), "warning: there are no keys")
    return p, int(found.group(1))


def entry(z, path):
    with zookeeper.Client(z) as c:
        return c.get(path)


def wait_for_entry(z, path, condition, what):
    wait_until(lambda: condition(entry(z, path) or ""), WAIT_S, "%s: %s" % (path, what))


def without_server(fn):
    """Only the client's library is needed."""
    @functools.wraps(fn)
    def run(t):
        if os.path.exists(t.build + "/lib/libmillrace-zookeeper.so"):
            fn(t)
        else:
            print("skipped %s: libmillrace-zookeeper.so was not built" % fn.__name__[5:], flush=True)
    return run


@without_server
def test_zookeeper_that_is_not_there_is_named_with_the_reason_again_and_again(t):
    for where, why in (("127.0.0.1:1", "127.0.0.1:1: Connection refused"),
                       ("no-such-host.invalid:2181", "no-such-host.invalid:2181: ")):
        p = t.start("serve", "--zookeeper", where, "--ps", "1", "--workers", "1", "--job", "ps", env={"MILLRACE_WAIT_LOG_MS": "200"})
        has(p.stderr.readline(), "serving /job:ps/task:0")
        has(p.stderr.readline(), "warning: there are no keys")
        for _ in range(2):
            line = p.stderr.readline()
            has(line, "warning: ZooKeeper cannot be reached (")
            has(line, why)
            has(line, "can neither find the other tasks nor be found by them")
        p.terminate()
        check(t.finish(p).code == 0, "it did not end well")


ASK = """
import sys
import millrace as tf
try:
    tf.Session(sys.argv[1]).run(tf.constant(1))
except tf.errors.DeadlineExceededError as e:
    print("late:", e.message)
"""


@without_server
def test_zookeeper_that_is_not_there_ends_a_session_at_the_deadline(t):
    # However rarely it is logged.
    p = t.start("serve", "--zookeeper", "127.0.0.1:1", "--ps", "1", "--workers", "1", "--job", "ps",
                env={"MILLRACE_WAIT_LOG_MS": "86400000", "MILLRACE_ZOOKEEPER_DEADLINE_MS": "500"})
    target = re.search(r"grpc://\S+", p.stderr.readline()).group(0)
    r = t.run("python", t.file("ask.py", ASK), target)
    p.terminate()
    t.finish(p)
    check(r.code == 0, "%d: %s%s" % (r.code, r.out, r.err))
    has(r.out, "/job:worker/replica:0/task:0 cannot be found: ZooKeeper could not be reached for ")
    has(r.out, "127.0.0.1:1: Connection refused")


@with_server
def test_zookeeper_has_the_address_of_a_task_as_long_as_it_lives(t, z):
    p, port = serve(t, z, "/a/b")
    wait_for_entry(z, "/a/b/ps/0", lambda v: re.fullmatch("127.0.0.1:%d [0-9a-f]{16}" % port, v), "is at its port")
    with zookeeper.Client(z) as c:
        check(c.owner("/a/b/ps/0") != 0, "the node is not ephemeral")
    p.send_signal(signal.SIGTERM)
    check(t.finish(p).code == 0, "it did not end well")
    check(entry(z, "/a/b/ps/0") is None, "the node is there without its task")


@with_server
def test_zookeeper_a_task_that_is_started_again_takes_its_place_at_once(t, z):
    first, port = serve(t, z, "")
    wait_for_entry(z, "/millrace/ps/0", lambda v: ":%d " % port in v, "is there")
    os.kill(first.pid, signal.SIGSTOP)  # it lives, and so does its session, for a while
    second, again = serve(t, z, "")
    wait_for_entry(z, "/millrace/ps/0", lambda v: ":%d " % again in v, "is that of the second")
    os.kill(first.pid, signal.SIGCONT)
    line = first.stderr.readline()  # after its session has ended, or when it sees the other one
    has(line, "another process has registered as this task")
    check(":%d " % again in entry(z, "/millrace/ps/0"), "the first one has taken it back")
    for p in (first, second):
        p.terminate()
        t.finish(p)


@with_server
def test_zookeeper_an_entry_that_is_removed_or_overwritten_comes_back(t, z):
    p, port = serve(t, z, "/x")
    wait_for_entry(z, "/x/ps/0", lambda v: ":%d " % port in v, "is there")
    with zookeeper.Client(z) as c:
        check(c.delete("/x/ps/0") == 0, "it cannot be removed")
        wait_for_entry(z, "/x/ps/0", lambda v: ":%d " % port in v, "is back")
        check(c.set("/x/ps/0", "\xff" * 5000) == 0, "it cannot be overwritten")
        wait_for_entry(z, "/x/ps/0", lambda v: ":%d " % port in v, "is right again")
    p.terminate()
    check(t.finish(p).code == 0, "it did not end well")


# ---- training ----

class Training:
    """Workers of tests/soak/kill_program.c, and what they have written."""

    def __init__(self, t):
        self.folder = os.path.join(t.dir, "run")
        os.mkdir(self.folder)
        self.program = os.path.join(t.build, "soak", "kill_program")

    def steps(self, worker):
        try:
            with open("%s/worker-%d.log" % (self.folder, worker)) as f:
                lines = [line.split() for line in f if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [(int(a[0]), int(a[2])) for a in lines if len(a) == 3 and a[2].isdigit()]

    def goes_on(self, workers, since_ns, what):
        """Each makes a step that it began after that time."""
        for w in workers:
            wait_until(lambda: any(began > since_ns for began, _ in self.steps(w)), WAIT_S, "worker %d goes on after %s" % (w, what))

    def enough(self):
        last = max([s for _, s in self.steps(0)] + [0]) + 20
        with open(self.folder + "/enough.new", "w") as f:
            f.write("%d\n" % last)
        os.rename(self.folder + "/enough.new", self.folder + "/enough")


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def ready(t):
    return os.path.basename(t.build) in ("gcc", "clang") and os.path.exists(os.path.join(t.build, "soak", "kill_program"))


@with_server
def test_zookeeper_training_goes_on_when_tasks_are_killed_and_come_back_at_other_ports(t, z):
    if not ready(t):
        return
    r = Training(t)
    launch = t.start("launch", "--zookeeper", z.address, "--zookeeper-timeout", "1000", "--ps", "2", "--workers", "2", "--restarts", "20", "--",
                     r.program, r.folder, stdout=subprocess.DEVNULL, stderr=open(t.dir + "/err", "w"))
    r.goes_on((0, 1), now_ns(), "the start")
    with zookeeper.Client(z) as c:
        path = "/millrace/" + c.children("/millrace")[0]
        check(path.startswith("/millrace/launch-"), path)
        for task in ("ps/0", "worker/1", "worker/0", "ps/1"):
            before, since = c.get(path + "/" + task), now_ns()
            kill(t.task(task))
            wait_for_entry(z, path + "/" + task, lambda v: v and v != before, "another life")
            r.goes_on((0, 1), since, "the end of " + task)
    r.enough()
    check(t.finish(launch).code == 0, open(t.dir + "/err").read())


@with_server
def test_zookeeper_a_parameter_server_moves_to_a_port_that_is_told(t, z):
    if not ready(t):
        return
    r, first, keys = Training(t), t.ports(3), t.dir + "/keys"
    where, since, env = z.address + "/moves", now_ns(), {"MILLRACE_TLS_DIR": keys, "MILLRACE_SHM": "off"}
    check(t.run("keys", "--ps", "1", "--workers", "1", keys).code == 0, "no keys")
    launch = t.start("launch", "--zookeeper", where, "--zookeeper-timeout", "1000", "--ps", "1", "--workers", "1", "--job", "worker", "--",
                     r.program, r.folder, env=env, stdout=subprocess.DEVNULL, stderr=open(t.dir + "/err", "w"))
    for move in range(4):
        port = first + move % 3
        ps, taken = serve(t, z, "/moves", "--address", "127.0.0.1:%d" % port, env=env)
        check(taken == port, "%d" % taken)
        r.goes_on((0,), since, "the move to port %d" % port)
        if move < 3:
            since = now_ns()
            kill(ps.pid)
            ps.communicate()
    r.enough()
    check(t.finish(launch).code == 0, open(t.dir + "/err").read())
    ps.terminate()
    t.finish(ps)


@with_server
def test_zookeeper_may_go_and_come_back_without_its_memory(t, z):
    if not ready(t):
        return
    r = Training(t)
    launch = t.start("launch", "--zookeeper", z.address + "/j", "--zookeeper-timeout", "1000", "--ps", "1", "--workers", "2", "--restarts", "20", "--",
                     r.program, r.folder, stdout=subprocess.DEVNULL, stderr=open(t.dir + "/err", "w"))
    r.goes_on((0, 1), now_ns(), "the start")
    z.stop()
    r.goes_on((0, 1), now_ns(), "the end of ZooKeeper")
    z.forget()
    z.start()
    for task in ("ps/0", "worker/0", "worker/1"):
        wait_for_entry(z, "/j/" + task, lambda v: v, "has entered again")
    before, since = entry(z, "/j/ps/0"), now_ns()
    kill(t.task("ps/0"))
    wait_for_entry(z, "/j/ps/0", lambda v: v and v != before, "another life")
    r.goes_on((0, 1), since, "the end of ps/0")
    r.enough()
    check(t.finish(launch).code == 0, open(t.dir + "/err").read())


@with_server
def test_zookeeper_page_of_the_docs_does_what_it_says(t, z):
    n = run_page(t, lambda n, more: n == 0 or "zookeeper" in more, {"127.0.0.1:2181": z.address})
    check(n == 3 or not n, "%d blocks were run" % n)


# ---- without a server ----

def test_zookeeper_that_is_not_installed_is_one_line(t):
    r = t.run("serve", "--zookeeper", "127.0.0.1:1", "--ps", "1", "--workers", "1", "--job", "ps", env={"MILLRACE_ZOOKEEPER_LIB": "/nowhere/lib.so"})
    check(r.code == 1 and r.err.count("\n") == 1, "%d: %s" % (r.code, r.err))
    for part in ("cannot load ZooKeeper's client", "/nowhere/lib.so", "MILLRACE_ZOOKEEPER_LIB", "libzookeeper-mt2"):
        has(r.err, part)


def test_zookeeper_options_that_make_no_sense_are_named(t):
    cases = [(["serve", "--zookeeper", "a b", "--ps", "1", "--job", "ps"], "--zookeeper: 'a b' is not the address of a ZooKeeper"),
             (["serve", "--zookeeper", "", "--ps", "1", "--job", "ps"], "give no addresses: give --zookeeper too"),
             (["serve", "--ps", "1", "--job", "ps"], "give --zookeeper too"),
             (["serve", "--zookeeper", "a:1", "--ps", "0", "--workers", "0", "--job", "ps"], "1 to 100000 tasks"),
             (["serve", "--zookeeper", "a:1", "--ps", "1", "--ps-hosts", "b:1", "--job", "ps"], "do not give --ps or --workers with --ps-hosts"),
             (["serve", "--zookeeper", "a:1", "--ps", "1", "--job", "ps", "--task", "1"], "there is no task 1 of job 'ps'"),
             (["serve", "--ps-hosts", "zk", "--job", "ps"], "has no address; give one, or set MILLRACE_ZOOKEEPER"),
             (["serve", "--zookeeper", "a:1", "--zookeeper-timeout", "-1", "--ps", "1", "--job", "ps"], "--zookeeper-timeout -1"),
             (["launch", "--zookeeper", "a:1//", "--", "true"], "--zookeeper: 'a:1//' is not the address of a ZooKeeper")]
    for args, message in cases:
        r = t.run(*args)
        check(r.code == 1 and r.err.count("\n") == 1, "%s: %d: %s" % (args, r.code, r.err))
        has(r.err, message)
