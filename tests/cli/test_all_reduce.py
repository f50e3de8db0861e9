"""tests/cli/test_all_reduce.py -- training by all-reduce goes on when workers are killed, and with them when they are back."""
import os
import subprocess
import time

from harness import check, kill, wait_until

WAIT_S = 40


class Training:
    """Workers of tests/soak/kill_program.c, and what they have written."""

    def __init__(self, t):
        self.folder = os.path.join(t.dir, "run")
        os.mkdir(self.folder)
        self.program = os.path.join(t.build, "soak", "kill_program")

    def lines(self, worker):
        try:
            with open("%s/worker-%d.log" % (self.folder, worker)) as f:
                return [line.split() for line in f if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def goes_on(self, workers, since_ns, what):
        """Each makes five steps that it began after that time."""
        for w in workers:
            wait_until(lambda: sum(int(a[0]) > since_ns for a in self.lines(w) if len(a) == 3) >= 5, WAIT_S,
                       "worker %d goes on after %s" % (w, what))

    def enough(self, workers):
        last = max([int(a[2]) for w in workers for a in self.lines(w) if len(a) == 3 and a[2].isdigit()] + [0]) + 60
        with open(self.folder + "/enough.new", "w") as f:
            f.write("%d\n" % last)
        os.rename(self.folder + "/enough.new", self.folder + "/enough")


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def test_all_reduce_goes_on_when_workers_are_killed_and_come_back(t):
    if os.path.basename(t.build) not in ("gcc", "clang") or not os.path.exists(os.path.join(t.build, "soak", "kill_program")):
        return
    r = Training(t)
    launch = t.start("launch", "--local", "--ps", "1", "--workers", "3", "--restarts", "20", "--", r.program, r.folder,
                     "all-reduce", stdout=subprocess.DEVNULL, stderr=open(t.dir + "/err", "w"))
    r.goes_on(range(3), 0, "the start")
    for victim in (1, 0):  # the first one saves, too
        pid, then = t.task("worker/%d" % victim), now_ns()
        kill(pid)
        r.goes_on([w for w in range(3) if w != victim], then, "worker %d was killed" % victim)
        r.goes_on([victim], then, "its own death")
    r.enough(range(3))
    check(t.finish(launch).code == 0, open(t.dir + "/err").read())
    ends = [a for a in r.lines(0) if len(a) == 5 and a[2] == "end"]
    check(ends and float(ends[-1][4]) < 0.05, "the line was not learnt: %s" % ends)
