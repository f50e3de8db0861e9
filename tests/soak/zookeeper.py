"""tests/soak/zookeeper.py BUILD [--runs N] [--seed S] [--keep] -- kill -9 of tasks that come back at other ports, and worse.

Each run is a cluster of tests/soak/kill_program.c whose tasks find each other through one real ZooKeeper at the loopback, through
shared memory and through gRPC by turns.  In each run one thing happens after the other:

    ps, worker, chief   a task is killed (kill -9), and started again at another port: by the launcher, at any; or (`by hand`)
                        by this program, at a port that was not used before, as a scheduler would on another host
    host lost           a parameter server falls silent (SIGSTOP: no connection breaks), and is started again at another port; nothing
                        but ZooKeeper tells
    frozen              a parameter server is stopped (SIGSTOP) until its session has expired and it is let on again: it is lost
                        meanwhile, and enters again
    restarted           ZooKeeper is killed and started again; training goes on meanwhile; then a task is killed
    forgotten           the same, without its data: all sessions have expired, and all tasks enter again

After each, every worker must have made a step that it began after the blow, within the session time-out and a second; a
frozen one counts from when it was let on.  At the end of a run the line must have been learnt."""
import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "cli"))
import zookeeper  # noqa: E402

SESSION_MS, LIMIT_S, GIVE_UP_S = 4000, 5.0, 60
BLOWS = ("ps", "worker", "chief", "by hand", "host lost", "frozen", "restarted", "forgotten")


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def free_port(used):
    import socket
    for _ in range(1000):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        if port not in used:
            used.add(port)
            return port
    raise RuntimeError("no free port")


class Wrong(Exception):
    pass


def wait_for(condition, what, seconds=GIVE_UP_S):
    end = now() + seconds
    while not condition():
        if now() > end:
            raise Wrong("not within %g s: %s" % (seconds, what))
        time.sleep(0.01)


class Run:
    """One cluster: ps 0 by hand, ps 1 and two workers by a launcher each of their own kind."""

    def __init__(self, build, z, number, rng):
        self.build, self.z, self.rng = build, z, rng
        self.folder = tempfile.mkdtemp(prefix="millrace-soak-zookeeper-")
        self.path = "/soak/run-%d" % number
        self.shared = number % 2 == 0
        self.used, self.ps0 = set(), None
        self.longest, self.at = 0.0, ""
        self.output = open(self.folder + "/output", "a")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MILLRACE", "TF_", "SLURM", "OMPI", "PMI"))}
        self.env.update(MILLRACE_ZOOKEEPER=z.address + self.path, MILLRACE_ZOOKEEPER_TIMEOUT_MS=str(SESSION_MS), SOAK_RUN=self.folder,
                        MILLRACE_SHM="auto" if self.shared else "off")
        cluster = '{"cluster": {"ps": ["zk", "zk"], "worker": ["zk", "zk"]}}'
        self.others = [self.start(["launch", "--cluster", cluster, "--job", job, "--task", str(i), "--restarts", "1000", "--no-tls", "--stay", "--"]
                                  + [build + "/soak/kill_program", self.folder])
                       for job, i in (("ps", 1), ("worker", 0), ("worker", 1))]
        self.start_ps0()

    def start(self, args):
        return subprocess.Popen([self.build + "/bin/millrace"] + args, env=self.env, stdin=subprocess.DEVNULL, stdout=self.output,
                                stderr=self.output)

    def start_ps0(self):
        port = free_port(self.used)
        self.ps0 = self.start(["serve", "--cluster", '{"cluster": {"ps": ["zk", "zk"], "worker": ["zk", "zk"]}}', "--job", "ps", "--address",
                               "127.0.0.1:%d" % port])

    # ---- what has come of it ----

    def steps(self, worker):
        try:
            with open("%s/worker-%d.log" % (self.folder, worker)) as f:
                lines = [line.split() for line in f if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [(int(a[0]) / 1e9, int(a[1]) / 1e9, int(a[2])) for a in lines if len(a) == 3 and a[2].isdigit()]

    def first_step(self, worker, since):
        """When the first one was complete that was begun after that time; None: there is none."""
        return next((end for begun, end, _ in self.steps(worker) if begun > since), None)

    def recovers(self, since, what):
        for w in (0, 1):
            wait_for(lambda: self.first_step(w, since), "worker %d goes on after: %s" % (w, what))
            took = self.first_step(w, since) - since
            if took > self.longest:
                self.longest, self.at = took, "worker %d after: %s" % (w, what)

    def entry(self, task):
        with zookeeper.Client(self.z) as c:
            return c.get(self.path + "/" + task)

    # ---- blows ----

    def pid_of(self, task):
        """The process of a task: a child of its launcher."""
        found = []

        def find():
            for name in os.listdir("/proc"):
                try:
                    env = open("/proc/%s/environ" % name, "rb").read().split(b"\0") if name.isdigit() else []
                    state = open("/proc/%s/stat" % name).read().rpartition(")")[2].split()[0] if env else "Z"
                except OSError:
                    continue
                if ("SOAK_RUN=" + self.folder).encode() in env and ("MILLRACE_TASK=" + task).encode() in env and state not in "ZX":
                    found.append(int(name))
            return found
        wait_for(find, task + " runs")
        return found[0]

    def kill_task(self, task):
        before, since = self.entry(task), now()
        os.kill(self.pid_of(task), signal.SIGKILL)
        self.recovers(since, "kill -9 of " + task)
        wait_for(lambda: self.entry(task) not in (None, before), task + " enters again")
        if before and before.split(":")[1].split()[0] == self.entry(task).split(":")[1].split()[0]:
            print("%s has come back at the same port by chance" % task, file=sys.stderr)

    def move_ps0(self):
        since = now()
        self.ps0.kill()
        self.ps0.wait()
        self.start_ps0()
        self.recovers(since, "move of ps/0 to another port")

    def lose_ps0(self):
        silent, since = self.ps0, now()
        silent.send_signal(signal.SIGSTOP)
        try:
            self.start_ps0()
            self.recovers(since, "the loss of the host of ps/0")
        finally:
            silent.kill()
            silent.wait()

    def freeze_ps0(self):
        self.ps0.send_signal(signal.SIGSTOP)
        wait_for(lambda: self.entry("ps/0") is None, "the session of ps/0 expires")
        self.ps0.send_signal(signal.SIGCONT)
        since = now()
        self.recovers(since, "an expired session of ps/0")
        wait_for(lambda: self.entry("ps/0"), "ps/0 enters again")

    def restart_zookeeper(self, forget):
        since = now()
        self.z.stop()
        self.recovers(since, "the end of ZooKeeper")
        if forget:
            self.z.forget()
        self.z.start()
        for task in ("ps/0", "ps/1", "worker/0", "worker/1"):
            wait_for(lambda: self.entry(task), task + " is in ZooKeeper again")
        self.kill_task(self.rng.choice(["ps/1", "worker/0", "worker/1"]))
        self.move_ps0()

    def strike(self, blow):
        if blow in ("ps", "worker", "chief"):
            self.kill_task({"ps": "ps/1", "worker": "worker/1", "chief": "worker/0"}[blow])
        elif blow == "by hand":
            self.move_ps0()
        elif blow == "host lost":
            self.lose_ps0()
        elif blow == "frozen":
            self.freeze_ps0()
        else:
            self.restart_zookeeper(blow == "forgotten")

    # ---- life ----

    def play(self, blows):
        self.recovers(now(), "the start")
        self.longest = 0.0  # a start is none
        for blow in blows:
            time.sleep(self.rng.uniform(0.1, 1.0))
            self.strike(blow)
        last = max(s for w in (0, 1) for _, _, s in self.steps(w)) + 300
        with open(self.folder + "/enough.new", "w") as f:
            f.write("%d\n" % last)
        os.rename(self.folder + "/enough.new", self.folder + "/enough")
        log = self.folder + "/worker-0.log"
        wait_for(lambda: re.search(r" end \d+ ", open(log).read()), "the chief is done")
        step, difference = re.search(r" end (\d+) (\S+)", open(log).read()).groups()
        if int(step) < last or not float(difference) < 1e-3:
            raise Wrong("step %s of %d, difference %s" % (step, last, difference))

    def end(self):
        for p in self.others + [self.ps0]:
            p.terminate()
        for p in self.others + [self.ps0]:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.output.close()


def one(build, z, number, rng, keep):
    """The longest recovery in seconds; None: something was wrong."""
    first = BLOWS[number % len(BLOWS)]
    blows = [first] + [rng.choice(BLOWS[:5]) for _ in range(2)]
    r = Run(build, z, number, rng)
    wrong = None
    try:
        r.play(blows)
        if r.longest > LIMIT_S:
            wrong = "recovery took %.2f s: %s" % (r.longest, r.at)
    except (Wrong, OSError, ValueError) as e:
        wrong = str(e) or repr(e)
    finally:
        r.end()
    if wrong or keep:
        print("run %d (%s, %s): %s; what was written is in %s" % (number, ", ".join(blows), "shared memory" if r.shared else "gRPC",
                                                                  wrong or "well", r.folder), file=sys.stderr)
    else:
        shutil.rmtree(r.folder, ignore_errors=True)
    if not z.process:
        z.start()
    return wrong, r.longest, len(blows)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("build")
    a.add_argument("--runs", type=int, default=20)
    a.add_argument("--seed", type=int, default=int(time.time()))
    a.add_argument("--keep", action="store_true")
    o = a.parse_args()
    why = zookeeper.missing()
    if why:
        print("no ZooKeeper server can be started: " + why, file=sys.stderr)
        return 1
    rng, wrong, longest, blows = random.Random(o.seed), 0, 0.0, 0
    with zookeeper.Server(free_port(set()), tick_ms=1000) as z:
        for i in range(o.runs):
            bad, took, n = one(os.path.abspath(o.build), z, i, rng, o.keep)
            wrong += bad is not None
            longest = max(longest, took)
            blows += n
            if sys.stderr.isatty():
                print("\rrun %d of %d  wrong %d  longest recovery %.2f s " % (i + 1, o.runs, wrong, longest), end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print("runs %d blows %d wrong %d session_timeout_s %.1f longest_recovery_s %.2f seed %d" % (o.runs, blows, wrong, SESSION_MS / 1e3, longest, o.seed))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
