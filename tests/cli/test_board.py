"""tests/cli/test_board.py -- `millrace board`: the page, its API, and who may use them. Requests go over real sockets."""
import glob
import http.client
import json
import os
import re
import resource
import signal
import socket
import threading
import time

from harness import GOLDEN, HERE, check, has, has_not, wait_until

PLANS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "sim")
NOT_BUILT = "the page was not built"


def plan(name):
    return os.path.join(PLANS, name + ".json")


class Board:
    """A running board."""

    def __init__(self, t, *args, files=None):
        self.tmp = os.path.join(t.dir, "tmp")
        os.makedirs(self.tmp, exist_ok=True)
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))} if files else {}
        self.process = t.start("board", *args, env={"TMPDIR": self.tmp}, **limit)
        line = self.process.stdout.readline()
        found = re.fullmatch(r"http://([^/]+):(\d+)/(?:\?token=([0-9a-f]{64}))?\n", line)
        check(found, "no address: %r %s" % (line, self.process.stderr.read() if not line else ""))
        self.host, self.port, self.token = found.group(1), int(found.group(2)), found.group(3)

    def ask(self, method, path, body=None, **headers):
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if method == "POST":
            headers.setdefault("Content-Type", "application/octet-stream" if path.startswith("/api/files") else "application/json")
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        c.request(method, path, body, headers)
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, text, r

    def raw(self, data, timeout=30):
        """Bytes as they are; everything that comes back until the connection is closed, or nothing more comes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it need not read everything
            out = b""
            while True:
                try:
                    got = s.recv(65536)
                except (ConnectionResetError, socket.timeout):
                    break
                if not got:
                    break
                out += got
        return out

    def uploads(self):
        return [f for _, _, files in os.walk(self.tmp) for f in files]

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        check(self.process.wait(20) == 0, "exit code %d" % self.process.returncode)
        out, err = self.process.stdout.read(), self.process.stderr.read()
        check(not out, "more than a line: " + out)
        check(err == "Press Ctrl+C to stop.\n", err)
        wait_until(lambda: not os.listdir(self.tmp), 5, "the folder of uploads is removed")


def is_built(t):
    """Whether the page was built: it needs Node.js. Without it the command says so."""
    p = t.start("board", "--port", "999999")
    err = p.communicate(timeout=30)[1]
    check(p.returncode == 1, "exit code %d" % p.returncode)
    if NOT_BUILT in err:
        has(err, "make web")
        return False
    has(err, "out of range")
    return True


def with_board(fn):
    def test(t):
        if is_built(t):
            fn(t)
    return test


@with_board
def test_board_serves_the_page(t):
    b = Board(t, "--port", "0")
    check(b.host == "localhost" and b.token is None, "%s %s" % (b.host, b.token))
    code, text, r = b.ask("GET", "/")
    check(code == 200 and r.getheader("Content-Type") == "text/html; charset=utf-8", "%d %s" % (code, r.headers))
    has(text.decode(), "<script")
    has(r.getheader("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    check(r.getheader("X-Content-Type-Options") == "nosniff" and r.getheader("X-Frame-Options") == "DENY", str(r.headers))
    for name, kind in (("/board.js", "text/javascript"), ("/board.css", "text/css"), ("/licenses.txt", "text/plain")):
        code, text, r = b.ask("GET", name)
        check(code == 200 and r.getheader("Content-Type").startswith(kind) and r.getheader("ETag"), "%s: %d %s" % (name, code, r.headers))
        check(b.ask("GET", name, If_None_Match=r.getheader("ETag"))[0] == 304, "the browser's copy of %s" % name)
    code, text, r = b.ask("HEAD", "/board.js")
    check(code == 200 and not text and int(r.getheader("Content-Length")) > 10, str(r.headers))
    start = json.loads(b.ask("GET", "/api/start")[1])
    check(start["files"] == [] and "lenet" in [m["name"] for m in start["models"]] and start["version"], str(start)[:300])
    s = socket.socket(socket.AF_INET6)
    try:
        s.connect(("::1", b.port))
        s.sendall(b"GET /api/start HTTP/1.0\r\nHost: [::1]:%d\r\n\r\n" % b.port)
        has(s.recv(100).decode(), " 200 ")
    except OSError:
        pass  # no IPv6 here
    s.close()
    b.stop()


@with_board
def test_board_gives_what_sim_prints(t):
    b = Board(t, "--port", "0")
    names = [p for p in sorted(glob.glob(PLANS + "/*.json")) if "\"file\"" not in open(p).read()]
    check(len(names) > 10, str(names))
    for path in names:
        text = open(path, "rb").read()
        code, out, _ = b.ask("POST", "/api/simulate", text)
        check(code == 200 and out.decode() == t.run("sim", "--json", path).out, path)
    lenet = open(plan("lenet"), "rb").read()
    node = json.loads(b.ask("POST", "/api/simulate", lenet)[1])["nodes"][0]["name"]
    out = b.ask("POST", "/api/explain?node=" + node.replace("/", "%2F"), lenet)[1]
    check(out.decode() == t.run("sim", "--json", "--explain", plan("lenet"), node).out and json.loads(out)["reasons"], "explain")
    sweep = open(plan("lenet-workers"), "rb").read()
    for what in ("workers", "device:cpu0.speedup"):
        r = t.run("sim", "--json", "--sweep", what + "=1..8", plan("lenet-workers"))
        code, out, _ = b.ask("POST", "/api/sweep?what=%s&from=1&to=8" % what, sweep)
        check(out.decode() == r.out if r.code == 0 else code >= 400, "sweep of " + what)
    code, out, _ = b.ask("POST", "/api/simulate", b"{")
    check(code == 400 and json.loads(out)["error"]["code"] == "INVALID_ARGUMENT", out)
    b.stop(signal.SIGINT)


@with_board
def test_board_reads_only_given_files(t):
    secret = t.file("secret.pbtxt", open(PLANS + "/graph.pbtxt").read())
    link = os.path.join(t.dir, "link.pbtxt")
    os.symlink(PLANS + "/graph.pbtxt", link)
    b = Board(t, "--port", "0", plan("measured"), link, GOLDEN + "/saved_model/half_plus_two/00000001")
    start = json.loads(b.ask("GET", "/api/start")[1])
    names = {f["name"]: f for f in start["files"]}
    check(set(names) == {"graph.pbtxt", "measured.json", "00000001"}, str(start["files"]))  # the link is the same graph
    given = names["measured.json"]["plan"]
    check(given["graph"]["file"] == names["graph.pbtxt"]["id"], str(given))
    code, out, _ = b.ask("POST", "/api/simulate", json.dumps(given))
    check(code == 200 and out.decode() == t.run("sim", "--json", plan("measured")).out, "a given plan")
    code, out, _ = b.ask("POST", "/api/simulate", json.dumps({"graph": {"file": names["00000001"]["id"]}}))
    check(code == 200, out)
    for file in (secret, "secret.pbtxt", "file://" + secret, "../" + secret, "/proc/self/environ", names["graph.pbtxt"]["id"] + "/..", "f99"):
        for key in ("file", "costs"):
            p = {"graph": {"file": file, "fetches": ["sum"]}} if key == "file" else {"graph": {"model": "mlp"}, "costs": file}
            code, out, _ = b.ask("POST", "/api/simulate", json.dumps(p))
            check(code == 400 and "not the id of a file" in out.decode(), out)
    os.remove(link)
    os.symlink(secret, link)  # too late
    check(json.loads(b.ask("GET", "/api/start")[1]) == start, "links are followed once")
    b.stop()


@with_board
def test_board_takes_uploads_and_removes_them(t):
    b = Board(t, "--port", "0")
    model = GOLDEN + "/saved_model/half_plus_two/00000001"
    code, out, _ = b.ask("POST", "/api/files?name=..%2F..%2Fsaved_model.pb", open(model + "/saved_model.pb", "rb").read())
    check(code == 200 and json.loads(out) == {"id": "u1", "name": "saved_model.pb"}, out)
    code, out, _ = b.ask("POST", "/api/simulate", json.dumps({"graph": {"file": "u1"}}))
    t.file("p.json", json.dumps({"graph": {"file": model}}))
    check(code == 200 and out.decode() == t.run("sim", "--json", t.dir + "/p.json").out, out[:300])
    code, out, _ = b.ask("POST", "/api/files?name=dense.pb", open(GOLDEN + "/graphs/dense_net.pb", "rb").read())
    check(json.loads(out)["id"] == "u2", out)
    check(sorted(b.uploads()) == ["saved_model.pb", "u2.pb"], str(b.uploads()))
    check(b.ask("POST", "/api/simulate", json.dumps({"graph": {"file": "u2"}}))[0] == 200, "an uploaded graph")
    code, out, _ = b.ask("POST", "/api/files?name=x.sh", b"x")
    check(code == 400 and "expected a plan" in out.decode(), out)
    b.stop()


@with_board
def test_board_removes_uploads_when_it_is_killed(t):
    b = Board(t, "--port", "0")
    check(b.ask("POST", "/api/files?name=saved_model.pb", b"x")[0] == 200 and b.uploads(), "an upload")
    b.process.kill()
    b.process.wait(20)
    wait_until(lambda: not os.listdir(b.tmp), 5, "the folder of uploads is removed")


@with_board
def test_board_finds_nothing_by_traversal(t):
    b = Board(t, "--port", "0")
    for target in (b"/../../../../etc/passwd", b"/..%2f..%2fetc%2fpasswd", b"/%2e%2e/%2e%2e/etc/passwd", b"/..\\..\\etc\\passwd",
                   b"/%c0%ae%c0%ae/etc/passwd", b"//etc/passwd", b"/etc/passwd", b"/board.js%00.txt", b"/board.js/", b"/./board.js",
                   b"/%62oard.js", b"/api/../board.js", b"file:///etc/passwd", b"board.js", b"*", b"/" + b"../" * 500 + b"etc/passwd"):
        out = b.raw(b"GET %s HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n" % (target, b.port))
        check(re.match(rb"HTTP/1.1 40[04] ", out) and b"root:x:0:" not in out, "%r: %r" % (target, out[:200]))
    for data in (b"GET\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 100 + b"x y z\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: localhost:%d\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n" % (b.port, b.port),
                 b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n", b"GET /%s HTTP/1.1\r\n\r\n" % (b"a" * 100000)):
        out = b.raw(data, timeout=2)
        check(not out or re.match(rb"HTTP/1.\d (400|403|404|405|413|414|431|505) ", out), "%r: %r" % (data[:60], out[:200]))
    check(b.ask("GET", "/")[0] == 200, "it still works")
    b.stop()


@with_board
def test_board_refuses_other_hosts_and_origins(t):
    b = Board(t, "--port", "0")
    lenet = open(plan("lenet"), "rb").read()
    for host in ("evil.example", "evil.example:%d" % b.port, "localhost:%d.evil.example" % b.port, "127.0.0.1", ""):  # DNS rebinding
        for path in ("/", "/board.js", "/api/start"):
            check(b.ask("GET", path, Host=host)[0] == 403, "Host %s" % host)
        check(b.ask("POST", "/api/simulate", lenet, Host=host)[0] == 403, "Host %s" % host)
    here = "127.0.0.1:%d" % b.port
    check(b.ask("POST", "/api/simulate", lenet, Origin="http://" + here)[0] == 200, "its own origin")
    for origin in ("http://evil.example", "null", "http://localhost:%d" % b.port, "https://" + here):
        check(b.ask("POST", "/api/simulate", lenet, Origin=origin)[0] == 403, "Origin %s" % origin)
    check(b.ask("GET", "/api/start", Sec_Fetch_Site="cross-site")[0] == 403, "Sec-Fetch-Site")
    check(b.ask("POST", "/api/simulate", lenet, Content_Type="text/plain")[0] == 415, "a form")
    check(b.ask("OPTIONS", "/api/simulate", Origin="http://evil.example")[0] == 405, "preflight")
    check(b.ask("PUT", "/", lenet)[0] == 405 and b.ask("DELETE", "/api/files")[0] == 405, "methods")
    b.stop()


@with_board
def test_board_with_a_host_needs_its_token(t):
    b = Board(t, "--port", "0", "--host", "127.0.0.1")
    check(b.host == "127.0.0.1" and b.token and len(b.token) == 64, "%s %s" % (b.host, b.token))
    check(b.ask("GET", "/")[0] == 403 and b.ask("GET", "/?token=" + "0" * 64)[0] == 403, "the page without a token")
    check(b.ask("GET", "/?token=" + b.token)[0] == 200, "the page")
    check(b.ask("GET", "/api/start")[0] == 403 and b.ask("GET", "/api/start?token=" + b.token)[0] == 403, "the API without a token")
    check(b.ask("GET", "/api/start", X_Millrace_Token=b.token)[0] == 200, "the API")
    check(b.ask("GET", "/api/start", X_Millrace_Token=b.token[:-1])[0] == 403, "a part of the token")
    other = Board(t, "--port", "0", "--host", "127.0.0.1")
    check(other.token != b.token, "tokens are random")
    for x in (other, b):
        x.process.terminate()
        x.process.wait(20)


@with_board
def test_board_listens_at_loopback_only(t):
    b = Board(t, "--port", "0")
    port = "%04X" % b.port
    found = []
    for name in ("tcp", "tcp6"):
        for line in open("/proc/net/" + name).read().splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            if address.endswith(":" + port) and state == "0A":
                found.append(address.split(":")[0])
    check(found and set(found) <= {"0100007F", "00000000000000000000000001000000"}, str(found))
    b.stop()


@with_board
def test_board_takes_the_next_free_port(t):
    held = []
    try:
        for port in range(8600, 8604):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                s.listen()
            except OSError:
                pass
            held.append(s)
        b = Board(t)
        check(8604 <= b.port <= 8699, str(b.port))
        r = t.run("board", "--port", str(b.port))
        check(r.code == 1 and "port %d" % b.port in r.err, r.err)
        b.stop()
    finally:
        for s in held:
            s.close()


@with_board
def test_board_answers_despite_idle_connections(t):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    b = Board(t, "--port", "0")
    lenet = open(plan("lenet"), "rb").read()
    idle = []
    try:
        for i in range(1000):
            s = socket.create_connection(("127.0.0.1", b.port), timeout=30)
            if i % 2:
                s.sendall(b"GET / HTTP/1.1\r\nHost: loc"[: i % 25])
            idle.append(s)
        since = time.monotonic()
        for _ in range(5):
            check(b.ask("POST", "/api/simulate", lenet)[0] == 200 and b.ask("GET", "/")[0] == 200, "an answer")
        check(time.monotonic() - since < 10, "%g s" % (time.monotonic() - since))
    finally:
        for s in idle:
            s.close()
    b.stop()


@with_board
def test_board_closes_idle_connections_when_there_are_too_many(t):
    b = Board(t, "--port", "0", files=364)  # so it has room for 150 connections at each of two sockets, or 300 at one
    first = socket.create_connection(("127.0.0.1", b.port), timeout=30)
    idle = [first]
    try:
        for _ in range(600):
            idle.append(socket.create_connection(("127.0.0.1", b.port), timeout=30))
        check(b.ask("GET", "/")[0] == 200, "an answer")
        first.settimeout(20)
        check(first.recv(1) == b"", "the oldest idle connection is closed")
    finally:
        for s in idle:
            s.close()
    b.stop()


@with_board
def test_board_stays_usable_while_it_simulates(t):
    b = Board(t, "--port", "0")
    big = json.dumps({"graph": {"model": "inception", "blocks": 6}, "devices": [{"type": "GPU"}] * 8})
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(b.ask("POST", "/api/simulate", big)[0])) for _ in range(6)]
    for x in threads:
        x.start()
    for _ in range(20):
        since = time.monotonic()
        check(b.ask("GET", "/")[0] == 200 and time.monotonic() - since < 5, "the page waits for simulations")
    for x in threads:
        x.join()
    check(codes == [200] * 6, str(codes))
    b.stop()


HUGE = json.dumps({"graph": {"model": "inception", "blocks": 20}, "devices": [{"type": "GPU"}] * 64, "visits": 20000000})


def post_huge_plan(b):
    """Sends a plan that keeps a core busy for half a minute; returns the connection once some core is busy."""
    with open("/proc/%d/stat" % b.process.pid) as f:
        before = ticks(f.read())
    s = socket.create_connection(("127.0.0.1", b.port), timeout=30)
    s.sendall(b"POST /api/simulate HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
              % (b.port, len(HUGE), HUGE.encode()))

    def is_busy():
        with open("/proc/%d/stat" % b.process.pid) as f:
            return ticks(f.read()) >= before + 5
    wait_until(is_busy, 30, "the board simulates")
    return s


def ticks(stat):
    """Processor time of a process, of its line in /proc."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@with_board
def test_board_ends_simulations_whose_clients_leave(t):
    b = Board(t, "--port", "0")
    for s in [post_huge_plan(b) for _ in range(8)]:  # more than run at a time; together they would take minutes
        s.close()
    code, out, _ = b.ask("POST", "/api/simulate", open(plan("lenet"), "rb").read())
    check(code == 200, out)
    b.stop()


@with_board
def test_board_does_not_wait_for_a_simulation_when_it_is_stopped(t):
    b = Board(t, "--port", "0")
    s = post_huge_plan(b)
    since = time.monotonic()
    b.stop(signal.SIGINT)
    check(time.monotonic() - since < 8, "%g s" % (time.monotonic() - since))
    s.close()


@with_board
def test_board_refuses_long_bodies_before_it_reads_them(t):
    b = Board(t, "--port", "0")
    head = b"POST %s HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    out = b.raw(head % (b"/api/simulate", b.port, b"application/json", 1 << 40))
    check(out.startswith(b"HTTP/1.1 413 "), out[:100])
    out = b.raw(head % (b"/api/files?name=a.pb", b.port, b"application/octet-stream", (256 << 20) + 1))
    check(out.startswith(b"HTTP/1.1 413 "), out[:100])
    out = b.raw(head % (b"/api/files?name=a.pb", b.port, b"text/plain", 100 << 20))
    check(out.startswith(b"HTTP/1.1 415 "), out[:100])
    code, out, _ = b.ask("POST", "/api/simulate", b"x" * 1100000)
    check(code == 413, out)
    code, out, _ = b.ask("POST", "/api/files?name=a.pb", b"x" * (20 << 20))
    check(code == 200, out)
    chunked = b"POST /api/simulate HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n" \
              b"Connection: close\r\n\r\n" % b.port
    out = b.raw(chunked + b"1c\r\n{\"graph\": {\"model\": \"mlp\"}}\n\r\n0\r\n\r\n")
    check(out.startswith(b"HTTP/1.1 200 "), out[:200])
    out = b.raw(chunked + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 64)
    check(not out or out.startswith(b"HTTP/1.1 413 "), out[:100])
    check(b.ask("GET", "/")[0] == 200, "it still works")
    b.stop()


def test_board_says_what_is_missing(t):
    r = t.run("board", env={"MILLRACE_BOARD_LIB": "/nothing.so"})
    check(r.code == 1, str(r.code))
    has(r.err, "libmicrohttpd")
    has_not(r.out, "http")


@with_board
def test_board_refuses_wrong_arguments(t):
    for args, what in ((["nothing.json"], "nothing.json"), ([t.dir], "not a SavedModel"), (["/dev/null"], "expected a file"),
                       (["--host", "no.such.host.invalid"], "--host"), (["--host", "192.0.2.1"], "192.0.2.1"), ([t.file("a.txt", "")], "expected a plan")):
        r = t.run("board", "--port", "0", *args)
        check(r.code == 1 and not r.out, "%s: %d %s" % (args, r.code, r.out))
        has(r.err, what)
