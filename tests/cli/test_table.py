"""tests/cli/test_table.py -- `millrace launch` on a terminal: the table below the lines."""
import os
import pty
import re
import select
import struct
import fcntl
import termios
import time

from harness import DEADLINE_S, Failed, check, has, has_not

# A task that says what the library says: a step every 20 ms, then a wait.
REPORTER = '''
exec python3 - <<'END'
import os, socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
me, path = os.environ["MILLRACE_TASK"], os.environ["MILLRACE_STATUS"]
for i in range(100):
    s.sendto(b"%s %d %d " % (me.encode(), 1000 + i, i), path)
    time.sleep(0.02)
    if i % 25 == 0:
        print("line", i, flush=True)
s.sendto(b"%s 1100 100 the token of step 1101" % me.encode(), path)
time.sleep(0.5)
END
'''


def on_terminal(t, *args, rows=24, cols=100, env=None, both=True):
    """Runs it on a terminal of its own; all that was written, and the exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
    e = dict({"TERM": "xterm-256color"}, **(env or {}))
    p = t.start(*args, env=e, stderr=slave, **({"stdout": slave} if both else {}))
    os.close(slave)
    text, end = b"", time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if select.select([master], [], [], 0.1)[0]:
            try:
                text += os.read(master, 65536)
            except OSError:
                break  # the last writer is gone
    else:
        p.kill()
        raise Failed("it did not end")
    os.close(master)
    out = p.stdout.read() if not both else ""
    return text.decode(), out, p.wait()


class Screen:
    """As much of a terminal as the table needs: what is on it after all was written."""

    def __init__(self, cols):
        self.lines, self.y, self.x, self.cols, self.hidden = [""], 0, 0, cols, False
        self.widest = 0

    def put(self, c):
        line = self.lines[self.y].ljust(self.x)
        self.lines[self.y] = line[:self.x] + c + line[self.x + 1:]
        self.x += 1
        self.widest = max(self.widest, self.x)

    def escape(self, args, end):
        if end == "A":
            self.y = max(0, self.y - int(args or 1))
        elif end == "K":
            self.lines[self.y] = self.lines[self.y][:self.x]
        elif end == "J":
            self.lines[self.y] = self.lines[self.y][:self.x]
            del self.lines[self.y + 1:]
        elif args == "?25":
            self.hidden = end == "l"

    def write(self, text):
        for m in re.finditer(r"\x1b\[([?0-9;]*)([A-Za-z])|(.)", text, re.S):
            if m.group(3) is None:
                self.escape(m.group(1), m.group(2))
            elif m.group(3) == "\r":
                self.x = 0
            elif m.group(3) == "\n":
                self.y += 1
                if self.y == len(self.lines):
                    self.lines.append("")
            else:
                self.put(m.group(3))
        return "\n".join(self.lines)


def frames(text):
    """What the screen showed after each frame."""
    s = Screen(100)
    return [s.write(f) for f in re.split(r"(?<=\x1b\[\?2026l)", text)], s


def test_table_shows_state_rate_and_what_is_waited_for(t):
    text, _, code = on_terminal(t, "launch", "--ps", "1", "--workers", "2", "--", t.program(REPORTER))
    check(code == 0, text)
    shown, _ = frames(text)
    check(any(re.search(r"worker/1 +starting", f) for f in shown), "starting")
    rates = [float(m) for f in shown for m in re.findall(r"worker/0 +training +10\d\d +(\d+\.\d)", f)]
    check(rates and all(1 < r < 60 for r in rates), str(rates))
    check(any(re.search(r"ps/0 +serving", f) for f in shown), "serving")
    check(any(re.search(r"worker/0 +waiting +1100 +0.0 +the token of step 1101", f) for f in shown), shown[-3])


# The chief tells how all workers fare.
JUDGE = REPORTER.replace("for i in range(100):", """for w in range(2):
    s.sendto(b"figures %d 40 %d %d 125 3" % (w, 3 * w, 1500 * (1 + w)), path)
for i in range(100):""")


def test_table_shows_how_long_workers_wait_and_how_stale_they_are(t):
    text, _, code = on_terminal(t, "launch", "--ps", "1", "--workers", "2", "--", t.program(JUDGE))
    check(code == 0, text)
    shown, _ = frames(text)
    check(any(re.search(r"steps/s +waited +stale +late +waiting for", f) for f in shown), shown[-3])
    check(any(re.search(r"worker/0 +training +10\d\d +\S+ +1\.5 s +1\.25 +0\n", f) for f in shown), shown[-3])
    check(any(re.search(r"worker/1 +\S+ +1100 +0\.0 +3\.0 s +1\.25 +3 +the token", f) for f in shown), shown[-3])
    has(shown[-1], "worker/1: 40 iterations, 3 came too late, waited 3.0 s for others, staleness 1.25, at most 3")


def test_table_leaves_only_lines_behind(t):
    text, _, _ = on_terminal(t, "launch", "--ps", "1", "--workers", "2", "--", t.program(REPORTER))
    shown, screen = frames(text)
    has_not(shown[-1], "steps/s")
    check(not screen.hidden, "the cursor is hidden")
    for i in (0, 1):
        for n in (0, 25, 50, 75):
            check(shown[-1].count("[worker/%d] line %d\n" % (i, n)) == 1, shown[-1])


def test_table_draws_each_frame_in_one_piece(t):
    text, _, _ = on_terminal(t, "launch", "--ps", "0", "--", t.program(REPORTER))
    pieces = [p for p in re.split(r"(?<=\x1b\[\?2026l)", text) if p]
    check(3 < len(pieces) < 100, "%d frames" % len(pieces))
    for p in pieces:
        check(p.startswith("\x1b[?2026h") and p.endswith("\x1b[?2026l"), repr(p[:200]))
        has_not(p[:-20], "\x1b[2J")  # nothing is cleared before it is drawn again


def test_table_keeps_to_the_size_of_the_terminal(t):
    text, _, _ = on_terminal(t, "launch", "--ps", "8", "--workers", "8", "--", t.program("sleep 1\n"), rows=10, cols=40)
    shown, screen = frames(text)
    check(screen.widest <= 60, "a line of the table is %d wide" % screen.widest)  # lines of tasks may be longer
    has("".join(shown), "and 11 more:")
    for f in shown:
        table = [l for l in f.split("\n") if re.match(r" (ps|worker|task|and)|--", l)]
        check(len(table) <= 10 and all(len(l) < 40 for l in table), f)


def test_table_is_not_drawn_off_a_terminal_nor_when_not_wanted(t):
    p = t.program("echo hello; sleep 0.4\n")
    has_not(t.run("launch", "--", p).err, "\x1b")
    for args, env in ((["--no-table"], {}), (["--quiet"], {}), ([], {"TERM": "dumb"})):
        text, _, code = on_terminal(t, "launch", *args, "--", p, env=env)
        check(code == 0, text)
        has_not(text, "steps/s")
        has(text, "hello")


def test_table_goes_to_the_terminal_while_output_goes_to_a_file(t):
    text, out, code = on_terminal(t, "launch", "--ps", "0", "--", t.program("echo result; sleep 0.5\n"), both=False)
    check(code == 0 and out == "[worker/0] result\n", repr(out))
    has(text, "steps/s")
    has_not(text, "result")


def test_table_has_no_colours_where_they_are_not_wanted(t):
    text, _, _ = on_terminal(t, "launch", "--ps", "0", "--", t.program("echo hi; sleep 0.3\n"), env={"NO_COLOR": "1"})
    check(not re.search(r"\x1b\[[0-9;]*m", text), repr(text[:300]))


def test_table_shows_tasks_of_other_hosts(t):
    text, _, code = on_terminal(t, "launch", "--ps", "0", "--workers", "2", "--hosts", "127.0.0.2,127.0.0.3", "--port", str(t.ports(2)),
                                "--", t.program(REPORTER))
    check(code == 0, text)
    shown, _ = frames(text)
    check(any(re.search(r"worker/1 +127.0.0.3 +training +10\d\d", f) for f in shown), shown[len(shown) // 2])
    has_not(shown[-1], "\x1e")
    has_not(shown[-1], "worker/0 1000")  # reports are no lines
