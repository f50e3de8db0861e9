"""tests/cli/test_sim.py -- `millrace sim` as a person meets it."""
import fcntl
import glob
import json
import os
import pty
import re
import struct
import subprocess
import termios

from harness import HERE, DEADLINE_S, check, has, has_not

PLANS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "sim")


def plan(name):
    return os.path.join(PLANS, name + ".json")


def ok(t, *args):
    r = t.run("sim", *args)
    check(r.code == 0 and not r.err, "%s: exit code %d\n%s" % (" ".join(args), r.code, r.err))
    return r.out


def refused(t, what, *args):
    r = t.run("sim", *args)
    check(r.code == 1, "exit code %d" % r.code)
    has(r.err, what)
    check(len(r.err.splitlines()) == 1, "more than a line:\n" + r.err)


def test_sim_runs_every_example(t):
    plans = sorted(glob.glob(os.path.join(PLANS, "*.json")))
    check(len(plans) >= 15, "%d plans" % len(plans))
    for path in plans:
        out = ok(t, path)
        has(" ".join(out.split()), json.load(open(path))["title"])  # a long title takes two lines
        has(out, "\nstep       ")
        check(ok(t, path) == out, path + " is not the same twice")


def test_sim_without_a_plan_shows_one(t):
    out = ok(t)
    for part in ("LeNet on a CPU and two GPUs", "placement\n", "why the heaviest nodes", "timeline\n", "gpu0>gpu1"):
        has(out, part)


def test_sim_json_is_json(t):
    d = json.loads(ok(t, "--json"))
    check([x["name"] for x in d["devices"]] == ["cpu0", "gpu0", "gpu1"], str(d["devices"]))
    check(max(n["end_s"] for n in d["nodes"]) == d["step_s"] > 0, "the last node ends with the step")
    check(d["step_s"] < min(x["alone_s"] for x in d["devices"]), "faster than any device alone")
    check(all(n["start_s"] >= n["ready_s"] for n in d["nodes"]), "nothing runs before it is ready")
    d = json.loads(ok(t, plan("crash"), "--json"))["training"]
    check(len(d["losses"]) == 2 and d["losses"][0]["saved_steps"] > 0, str(d["losses"]))
    check(d["total_s"] > d["ideal_s"] > 0, "a crash costs time")


def test_sim_writes_a_chrome_trace(t):
    path = os.path.join(t.dir, "trace.json")
    ok(t, plan("inception-2"), "--trace", path)
    events = json.load(open(path))
    events = events["traceEvents"] if isinstance(events, dict) else events
    check(len([e for e in events if e.get("ph") == "X"]) > 200, "%d events" % len(events))


def test_sim_step_tells_the_flow(t):
    out = ok(t, plan("neuron-2"), "--step")
    has(out, "cpu0>gpu0  x is sent, 48 B, arrives at")
    has(out, "neuron/MatMul runs (MatMul)")
    check(out.rstrip().endswith("the step is over"), out[-200:])


def on_terminal(t, *args, typed=b"", columns=80, **env):
    """The output of `millrace sim` on a terminal, with its escape sequences."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    before = {"TERM": "xterm", "NO_COLOR": "", "CLICOLOR_FORCE": "", "LC_ALL": "C.UTF-8"}
    p = subprocess.Popen([t.millrace, "sim"] + list(args), stdin=slave, stdout=slave, stderr=slave, env=t.env(**{**before, **env}), cwd=t.dir)
    os.close(slave)
    os.write(master, typed)
    text = b""
    try:
        while True:
            more = os.read(master, 65536)
            if not more:
                break
            text += more
    except OSError:
        pass  # so a terminal ends
    os.close(master)
    check(p.wait(DEADLINE_S) == 0, "exit code %d" % p.returncode)
    return text.decode()


def test_sim_step_waits_on_a_terminal(t):
    text = plain(on_terminal(t, plan("neuron"), "--step", typed=b"\n\nq\n"))  # two more, then the end
    check(2 <= text.count(" cpu0 ") <= 3, repr(text))


# ---- width and color ----

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def plain(text):
    return ESCAPE.sub("", text)


def check_width(out, width, what):
    for line in plain(out).splitlines():
        check(len(line) <= width, "%s: %d columns instead of %d:\n%s" % (what, len(line), width, line))


def test_sim_fits_its_width(t):
    sweeps = [[plan("async"), "--sweep", "workers=1..64"], [plan("backup"), "--sweep", "backup=0..4"],
              ["--sweep", "device:gpu1.speedup=0.25..4"], [plan("inception-4"), "--sweep", "link.latency_us=1..4"]]
    shown = [[path] for path in sorted(glob.glob(os.path.join(PLANS, "*.json")))] + [[]]
    for name in ("neuron-2", "lenet", "two-tasks"):
        shown += [[plan(name), how] for how in ("--graph", "--step", "--explain")]
    for args in shown + sweeps + [["--list"], ["--keys"]]:
        for width in (60, 80):
            check_width(ok(t, "--width", str(width), *args), width, " ".join(args))


def test_sim_breaks_no_word(t):
    wide = ok(t, "--width", "1000", plan("crash"))
    narrow = ok(t, "--width", "60", plan("crash"))
    words = lambda text: text[text.index("training\n"):text.index("the first")].split()
    check(words(wide) == words(narrow), narrow)
    names = set(re.findall(r"[\w/]+ \(", ok(t, "--width", "1000", "--explain")))
    check(names == set(re.findall(r"[\w/]+ \(", ok(t, "--width", "80", "--explain"))), "a name is broken")


def test_sim_shows_names_in_boxes(t):
    out = ok(t, "--width", "80")
    has(out, "[>fc/kernel/Read>>]")  # all of it
    has(out, "[Conv2D=")             # the last part of conv2/Conv2D
    has(out, "[BiasAddGr\u2026]")   # the beginning of the last part
    check(not re.search(r"\[[A-Za-z]{1,2}\u2026", out), "too short to say anything:\n" + out)


def test_sim_colors_only_terminals(t):
    quiet = {"TERM": "xterm", "NO_COLOR": "", "CLICOLOR_FORCE": ""}

    def piped(*args, **env):
        r = t.run("sim", *args, env={**quiet, **env})
        check(r.code == 0 and not r.err, r.err)
        return r.out
    black = piped("--width", "80")
    has_not(black, "\x1b")
    for always in (piped("--width", "80", "--color", "always"), piped("--width", "80", CLICOLOR_FORCE="1")):
        has(always, "\x1b[1mtimeline\x1b[0m")
        has(always, "\x1b[97;41m")  # transfers are red
        check_width(always, 80, "in color")
        check(plain(always).split("timeline")[0] == black.split("timeline")[0], "the same text")
    has_not(piped(CLICOLOR_FORCE="1", NO_COLOR="1"), "\x1b")
    has_not(piped("--color", "never", CLICOLOR_FORCE="1"), "\x1b")
    for args in ((plan("neuron-2"), "--step"), (plan("neuron-2"), "--graph"), (plan("neuron-2"), "--explain"), ("--list",)):
        has(piped(*args, "--color", "always"), "\x1b[")
        has_not(piped(*args), "\x1b")
    has_not(piped("--json", "--color", "always"), "\x1b")
    refused(t, "--color 'red': expected auto, always or never", "--color", "red")


def test_sim_colors_a_terminal(t):
    text = on_terminal(t, plan("crash"), columns=72)
    for part in ("\x1b[1mtraining\x1b[0m", "\x1b[36mgpu0\x1b[0m", "\x1b[97;41m>", "\x1b[1;7m[xx", "\x1b[30;43ms"):
        has(text, part)
    check_width(text, 72, "on a terminal")
    has_not(on_terminal(t, plan("crash"), NO_COLOR="1"), "\x1b")
    has_not(on_terminal(t, plan("crash"), TERM="dumb"), "\x1b")
    has_not(on_terminal(t, plan("crash"), "--color", "never"), "\x1b")
    has(on_terminal(t, LC_ALL="C.UTF-8"), "\u2026")
    has(on_terminal(t, LC_ALL="C", NO_COLOR="1"), "[BiasAddGr~]")
    has(on_terminal(t, "--keys"), "devices[].speedup")


def test_sim_title_cannot_move_the_cursor(t):
    path = t.file("title.json", '{"title": "a\\u001b[2Jb\\nc", "graph": {"model": "neuron"}}')
    out = ok(t, path)
    has_not(out, "\x1b")
    has(out, "a [2Jb c\n")


def test_sim_explains(t):
    out = ok(t, plan("inception-2"), "--explain", "block1/a_1x1/Conv2D")
    has(out, "block1/a_1x1/Conv2D (Conv2D) on gpu")
    has(out, "it would end at")
    check(out.count("\n") == 2, out)
    check(ok(t, plan("neuron-2"), "--explain").count(" (") > 20, "all nodes")
    refused(t, "The step does not run a node 'nobody'", plan("neuron"), "--explain", "nobody")


def test_sim_sweeps(t):
    out = ok(t, "--sweep", "device:gpu1.speedup=0.25..4")
    check([line.split()[0] for line in out.splitlines()[3:]] == ["0.25", "0.5", "1", "2", "4"], out)
    has(ok(t, plan("async"), "--sweep", "workers=1..32"), "twice as many add less than 5 %")
    has(ok(t, plan("async"), "--sweep", "ps=1..4"), "examples/s")
    has(ok(t, plan("backup"), "--sweep", "backup=0..2"), "examples/s")
    for wrong, why in (("speed", "expected WHAT=FROM..TO"), ("device:x.speedup=1..2", "unknown device"),
                       ("graph.batch=0..2", "0 is out of range, expected 1 to"), ("device:gpu0.speedup=4..1", "not a valid range"),
                       ("graph.colour=1..2", "unknown number")):
        refused(t, why, "--sweep", wrong)


def test_sim_uses_measured_costs(t):
    estimated = ok(t, plan("graph-file"))
    measured = ok(t, plan("graph-file"), "--costs", os.path.join(PLANS, "costs.txt"))
    has_not(estimated, "times      measured")
    has(measured, "times      measured")
    refused(t, "costs.txt:1: expected device, node, runs and seconds", "--costs", t.file("costs.txt", "hello\n"))


def test_sim_measures_this_machine(t):
    costs = os.path.join(t.dir, "costs.txt")
    small = t.file("small.json", '{"graph": {"model": "mlp", "batch": 32, "hidden": 64}}')
    out = ok(t, small, "--measure", "--rounds", "3", "--save-costs", costs)
    has(out, "predicted/measured")
    has(ok(t, small, "--costs", costs), "times      measured")


def test_sim_says_what_is_wrong_with_a_plan(t):
    refused(t, "no.json", "no.json")
    bad = t.file("bad.json", '{"graph": {"model": "mlp"}, "devices": [{}, {"speedup": -1}]}')
    refused(t, "bad.json: devices[1].speedup: -1 is out of range, expected 1e-06 to 1e+06", bad)
    refused(t, "bad JSON at byte", t.file("worse.json", "{"))
    refused(t, "g.pb", t.file("file.json", '{"graph": {"file": "g.pb", "targets": ["x"]}}'))
    refused(t, "cluster: ", t.file("many.json", '{"graph": {"model": "mlp"}, "cluster": {"workers": 10000, "steps": 1000000}}'))


def test_sim_lists_networks_and_keys(t):
    models = [line.split()[0] for line in ok(t, "--list").splitlines() if not line.startswith(" ")]
    check(models == ["inception", "lenet", "lstm", "mlp", "neuron", "transformer"], str(models))
    keys = ok(t, "--keys")
    for key in ("devices[].speedup", "links[].latency_us", "cluster.checkpoint_s", "cluster.crashes[].at_s", "graph.file"):
        has(keys, "| `%s` |" % key)
