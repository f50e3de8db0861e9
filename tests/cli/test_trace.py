"""tests/cli/test_trace.py -- traces of real jobs: docs/trace.md does what it says, and the JSON is a trace."""
import json
import os
import re

from harness import check, has
from test_docs import ROOT, blocks, install, matches, run_block

PAGE = os.path.join(ROOT, "docs", "trace.md")


def run_page(t, **more):
    """Runs the page's blocks; its folder `traces` is left in t.dir."""
    p = install(t)
    env = t.env(P=p, PATH=p + "/bin:" + os.environ["PATH"], **more)
    out, n = None, 0
    for kind, mark, text in blocks(PAGE):
        if kind == "c":
            t.file(re.search(r"file=(\S+)", mark).group(1), text)
        elif kind == "sh":
            out = run_block(t, text, env)
            n += 1
        elif kind == "text":
            for line in text.splitlines():
                check(matches(line, out), "'%s' is not in\n%s" % (line, out))
    return n, out


def load(t):
    with open(os.path.join(t.dir, "traces", "trace.json")) as f:
        return json.load(f)["traceEvents"]


def lanes(events):
    found = {}
    for e in events:
        if e["ph"] == "X":
            check(e["dur"] >= 0, str(e))
            found.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"], e))
    for spans in found.values():
        spans.sort(key=lambda s: (s[0], s[1]))
    return found


def check_lanes(found):
    """No two spans of a lane at once, a nanosecond of rounding aside."""
    for spans in found.values():
        for a, b in zip(spans, spans[1:]):
            check(b[0] >= a[1] - 0.002, "%s and %s overlap" % (a[2], b[2]))


def check_arrows(events, found):
    """Every arrow has two ends, each inside of a span, and does not go back in time; how many there are."""
    ends = {}
    for e in events:
        if e["ph"] in "sf":
            ends.setdefault(e["id"], {})[e["ph"]] = e
    for a in ends.values():
        check(set(a) == {"s", "f"}, "an arrow has one end: %s" % a)
        check(a["f"]["ts"] >= a["s"]["ts"] - 0.002 or a["f"]["ts"] >= start_of(found, a["s"]), "an arrow goes back: %s" % a)
        for e in a.values():
            check(any(s[0] - 0.002 <= e["ts"] <= s[1] + 0.002 for s in found[(e["pid"], e["tid"])]), "an end is nowhere: %s" % e)
    return len(ends)


def start_of(found, e):
    """Of the span that an arrow leaves."""
    return min(s[0] for s in found[(e["pid"], e["tid"])] if s[0] - 0.002 <= e["ts"] <= s[1] + 0.002)


def names(events):
    return {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}


def test_trace_page_does_what_it_says_and_the_json_is_whole(t):
    if os.path.basename(t.build) not in ("gcc", "clang"):
        return  # a person's program is not built with sanitizers
    n, _ = run_page(t)
    check(n == 2, "%d blocks were run" % n)
    events = load(t)
    found = lanes(events)
    check_lanes(found)
    check(check_arrows(events, found) > 20, "there are few arrows")
    check(names(events) == {"steps", "ps:0", "worker:0", "worker:1"}, str(names(events)))
    kinds = {e.get("cat") for e in events if e["ph"] == "X"}
    check({"compute", "send", "wait", "step"} <= kinds, str(kinds))
    for width in (60, 80):
        r = t.run("trace", "--text", "--width", str(width), "traces")
        check(r.code == 0 and "\x1b" not in r.out, r.err + r.out)
        for line in r.out.splitlines():
            check(len(line) <= width, "%d columns instead of %d:\n%s" % (len(line), width, line))
    has(t.run("trace", "--text", "--color", "always", "traces").out, "\x1b[97;41m>")  # transfers are red


def test_trace_of_tasks_with_wrong_clocks_is_by_one_clock(t):
    if os.path.basename(t.build) not in ("gcc", "clang"):
        return
    run_page(t, MILLRACE_CLOCK_SKEW="worker:1=5000,ps:0=-3000")
    events = load(t)
    found = lanes(events)
    check_arrows(events, found)
    steps = {}
    for e in events:
        if e.get("cat") == "step" and e["name"].startswith("step "):
            steps.setdefault(e["name"], []).append(e)
    check(len(steps) == 3 and all(len(s) == 2 for s in steps.values()), str(steps))
    for both in steps.values():  # the workers wait for each other, so their steps lie beside each other
        check(max(s["ts"] for s in both) < min(s["ts"] + s["dur"] for s in both), "steps are apart: %s" % both)


def test_trace_says_what_is_wrong_with_a_file(t):
    r = t.run("trace", os.path.join(t.dir, "none.pb"))
    check(r.code == 1, str(r.code))
    has(r.err, "none.pb")
    r = t.run("trace", t.file("bad.pb", "\x0a\x7f"))
    check(r.code == 1, str(r.code))
    has(r.err, "bad.pb: malformed protobuf")
    r = t.run("trace", t.dir, "-o")
    has(r.err, "-o needs a file name")
    r = t.run("trace", "--step", "5", t.file("empty.pb", ""))
    has(r.err, "there is no step 5")
