"""What a parameter server's filters save, and what bounded delay saves: lines of `name value unit`.

    python3 bench/ps_traffic.py BUILD [--small]

Runs examples/sparse_logistic, which trains sparse logistic regression by delayed block proximal gradient: first plain, then with key
lists cached, then with values compressed too, then with features left out that would stay zero.  Bytes are those of the workers'
messages, as the client counts them.  Then with one worker at a time sleeping four times as long as it computes (now this one, now that;
then always the same), and delays of 0, 1, 4 and 16 iterations: the time until the objective has come 98 % of the way from where it began to what no delay
comes to, with more passes for a delay that takes them, and how long each worker was idle.

Ends with 1 when a promise does not hold: 2 times less by caching, 5 times less with compression, over 90 % of features dropped in the
last pass, and an objective within 0.1 % of the plain one's.  --small: the same in seconds, without judging times.
"""
import re
import subprocess
import sys

SMALL = "--small" in sys.argv
SIZE = "--features 100000 --examples 20000 --blocks 20 --passes 8" if SMALL else "--features 1e7 --examples 1e6 --passes 8"
DELAYED = "--features 20000 --examples 4000 --workers 3 --evaluations 2 --l1 3" if SMALL else \
          "--features 1e6 --examples 4e5 --workers 3 --evaluations 2"
PASSES = 5 if SMALL else 14
VARIANTS = [("plain", ""), ("cached", "--cache-keys 1"), ("compressed", "--cache-keys 1 --compress 1 --half 1"),
            ("filtered", "--cache-keys 1 --compress 1 --half 1 --kkt 1")]
DELAYS = [0, 1, 4, 16]
failed = []


def train(build, arguments):
    """Rows of the program's table, as numbers, and one (computed, slept, idle) a worker."""
    done = subprocess.run([build + "/examples/sparse_logistic"] + arguments.split(), capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit("sparse_logistic %s: %s" % (arguments, done.stderr.strip() or "ended with %d" % done.returncode))
    rows = [[float(x) for x in line.split()] for line in done.stdout.splitlines() if re.match(r" *\d", line)]
    workers = [[float(x) for x in m] for m in re.findall(r"computed (\S+) s, slept (\S+) s, idle (\S+) s", done.stdout)]
    return rows, workers


def say(name, value, unit, holds=True):
    print("%s %.6g %s" % (name, value, unit), flush=True)
    if not holds:
        failed.append(name)


def traffic(build):
    plain = None
    for name, options in VARIANTS:
        rows, workers = train(build, SIZE + " " + options)
        megabytes, objective = rows[-1][4] / len(workers), rows[-1][2]
        plain = plain or (megabytes, objective)
        less = plain[0] / megabytes
        say("ps_traffic_%s" % name, megabytes, "MB/worker")
        if name != "plain":
            say("ps_traffic_%s_less" % name, less, "times", less >= {"cached": 2, "compressed": 5, "filtered": 5}[name])
            away = abs(objective - plain[1]) / plain[1] * 100
            say("ps_objective_%s_off" % name, away, "%", away <= 0.1)
        say("ps_objective_%s" % name, objective, "", objective < rows[0][2])
        say("ps_seconds_%s" % name, rows[-1][1], "s")
    say("ps_kkt_dropped_last_pass", rows[-1][5], "%", rows[-1][5] > 90)


def until(build, arguments, target):
    """Rows and workers of a run that comes to the target, with more passes where it takes them."""
    passes = PASSES
    while True:
        rows, workers = train(build, "%s --passes %d" % (arguments, passes))
        if passes >= 8 * PASSES or any(row[2] <= target for row in rows):
            return rows, workers
        passes *= 2


def delays(build, name, slow):
    """One worker at a time is slow; says what each delay makes of it."""
    options = ["%s --cache-keys 1 --compress 1 --half 1 --kkt 1 --slow 4 %s --delay %d" % (DELAYED, slow, d) for d in DELAYS]
    rows, workers = train(build, "%s --passes %d" % (options[0], PASSES))
    start, best = rows[0][2], rows[-1][2]
    target = best + 0.02 * (start - best)
    say(name + "_target", target, "")
    for delay, o in zip(DELAYS, options):
        if delay:
            rows, workers = until(build, o, target)
        reached = [row[1] for row in rows if row[2] <= target]
        say("%s_%d_seconds_to_target" % (name, delay), reached[0] if reached else float("inf"), "s", bool(reached))
        say("%s_%d_seconds" % (name, delay), rows[-1][1], "s")
        say("%s_%d_passes" % (name, delay), rows[-1][0], "")
        say("%s_%d_objective" % (name, delay), rows[-1][2], "", rows[-1][2] < start)
        for i, (_, _, idle) in enumerate(workers):
            say("%s_%d_idle_of_worker_%d" % (name, delay, i), idle, "s")


def main():
    build = sys.argv[1]
    traffic(build)
    delays(build, "ps_delay", "--wander 1")
    delays(build, "ps_slow", "--wander 0")
    if failed:
        sys.exit("does not hold: " + ", ".join(failed))


main()
