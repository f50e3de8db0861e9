"""tests/soak/board.py BUILD [--requests N] [--sockets N] [--seed S] -- hostile requests to `millrace board`.

BUILD is a build with sanitizers. Most requests go straight to mr_board_handle (BUILD/fuzz board, tests/fuzz/board.c); the
others (--sockets, default 1 in 20, at least 50,000) go to the command through sockets: damaged heads, wrong lengths and chunks,
several requests in one piece, connections that break or stay open. A request counts when it was sent.

Meanwhile a request of the page must be answered within 20 s, and no answer may be a server error, except 503 when too many
requests wait. At the end the command must stop by itself with exit code 0, and must not have printed anything: a sanitizer would."""
import argparse
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

THREADS, MOST_IDLE, PATIENCE_S = 8, 160, 20
PLAN = {"graph": {"model": "neuron"}, "visits": 500}
GRAPH = b"""node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }
node { name: 'y' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }"""
TARGETS = (b"/", b"/board.js", b"/board.css", b"/api/start", b"/api/simulate", b"/api/explain?node=y", b"/api/sweep?what=device:cpu0.speedup&from=1&to=2",
           b"/api/files?name=a.pbtxt", b"/api/files?name=saved_model.pb", b"/../../etc/passwd", b"/%2e%2e/%00", b"/..\\..", b"//", b"*", b"http://evil.example/",
           b"/api/files?name=..%2f..%2fx.pb", b"/" + b"a" * 9000, b"/?" + b"&" * 2000)
METHODS = (b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"TRACE", b"GE T", b"", b"\0\xff", b"X" * 300)
HEADERS = (b"Origin: http://evil.example", b"Origin: null", b"Sec-Fetch-Site: cross-site", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, gzip",
           b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Content-Length: 5, 6", b"Content-Length: 1e3", b"Expect: 100-continue",
           b"Connection: close", b"Connection: upgrade, keep-alive", b"Upgrade: websocket", b"X-Millrace-Token: " + b"0" * 64, b"Host: evil.example",
           b"Range: bytes=0-", b"If-None-Match: *", b"Cookie: " + b"a=b; " * 500, b"A" * 2000 + b": b", b": b", b"no colon", b" folded: line", b"A: \0\x01\x7f\xff",
           b"Content-Type: text/plain", b"Accept-Encoding: gzip", b"Date: x" * 200)


class Soak:
    def __init__(self, build, seed):
        self.dir = tempfile.mkdtemp(prefix="millrace-soak-board-")
        self.seed, self.sent, self.answers, self.lock, self.failed = seed, 0, {}, threading.Lock(), []
        self.err = open(os.path.join(self.dir, "stderr"), "w+")
        self.process = subprocess.Popen([os.path.join(build, "bin", "millrace"), "board", "--port", "0"], stdout=subprocess.PIPE, stderr=self.err,
                                        text=True, env=dict(os.environ, TMPDIR=self.dir))
        line = self.process.stdout.readline()
        if not line.startswith("http://localhost:"):
            self.err.seek(0)
            sys.exit("soak board: " + (self.err.read() or line))
        self.port = int(re.search(r":(\d+)/", line).group(1))

    def damage(self, r, data):
        data = bytearray(data)
        for _ in range(r.randrange(1, 4)):
            at = r.randrange(len(data) + 1)
            kind = r.randrange(4)
            if kind == 0:
                data[at:at + r.randrange(1, 9)] = b""
            elif kind == 1:
                data[at:at] = r.choice((b"\r\n", b"\n", b"\0", b" ", b"\xff", b"%", b"0", b"\r"))
            elif kind == 2 and at < len(data):
                data[at] = r.randrange(256)
            else:
                del data[r.randrange(len(data) // 2 + 1):at]
        return bytes(data)

    def plan(self, r):
        p = dict(PLAN)
        if r.random() < 0.3:
            p["graph"] = {"file": r.choice(("u1", "u7", "/etc/passwd", "../x", ""))}
        if r.random() < 0.3:
            p["devices"] = [{"type": r.choice(("CPU", "GPU", 7))}] * r.randrange(4)
        if r.random() < 0.2:
            p["cluster"] = {"mode": r.choice(("sync", "async", "backup", "x")), "workers": r.randrange(4), "steps": 3}
        text = json.dumps(p).encode()
        return self.damage(r, text) if r.random() < 0.3 else text

    def request(self, r):
        target = r.choice(TARGETS)
        posts = target.startswith(b"/api/") and target != b"/api/start"
        body = (GRAPH if b"files" in target and r.random() < 0.5 else self.plan(r)) if posts or r.random() < 0.05 else b""
        method = r.choice(METHODS) if r.random() < 0.15 else b"POST" if posts else b"GET"
        lines = [b"%s %s HTTP/1.%d" % (method, target, r.random() < 0.95), b"Host: localhost:%d" % self.port]
        if posts:
            lines.append(b"Content-Type: " + (b"application/octet-stream" if b"files" in target else b"application/json"))
        chunked = body and r.random() < 0.1
        if chunked:
            lines.append(b"Transfer-Encoding: chunked")
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        elif body:
            lines.append(b"Content-Length: %d" % (len(body) if r.random() < 0.95 else r.randrange(2 * len(body))))
        for _ in range(r.randrange(4) if r.random() < 0.4 else 0):
            lines.insert(r.randrange(1, len(lines) + 1), r.choice(HEADERS))
        data = b"\r\n".join(lines) + b"\r\n\r\n" + body
        return self.damage(r, data) if r.random() < 0.3 else data

    def read(self, s, n=1):
        """What comes back within a moment, up to n answers; counts their codes."""
        out = b""
        try:
            while len(re.findall(rb"HTTP/1\.\d \d+ ", out)) < n or b"\r\n\r\n" not in out:
                got = s.recv(1 << 16)
                if not got:
                    break
                out += got
        except OSError:
            pass
        for code in re.findall(rb"HTTP/1\.\d (\d+) ", out):
            with self.lock:
                self.answers[int(code)] = self.answers.get(int(code), 0) + 1
            if code[:1] == b"5" and code not in (b"501", b"503", b"505"):
                self.failed.append(out[:500].decode("latin-1"))
            if b"root:x:0:" in out:
                self.failed.append("a file was read: " + out[:500].decode("latin-1"))

    def attack(self, number, n):
        r = random.Random(self.seed * 1000 + number)
        idle, done = [], 0
        while done < n and not self.failed:
            try:
                s = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
                for _ in range(r.choice((1, 1, 4, 16))):
                    k = r.choice((1, 1, 1, 3))  # several in one piece
                    s.settimeout(PATIENCE_S)
                    s.sendall(b"".join(self.request(r) for _ in range(k)))
                    done += k
                    s.settimeout(0.1)
                    if r.random() < 0.9:
                        self.read(s, k)
                    if r.random() < 0.05:
                        break
            except OSError:
                pass  # it may close a connection at any time
            kind = r.random()
            if kind < 0.05 and len(idle) < MOST_IDLE // THREADS:
                idle.append(s)
                continue
            if kind < 0.3:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            elif kind < 0.4:
                try:
                    s.shutdown(socket.SHUT_WR)
                    self.read(s)
                except OSError:
                    pass
            s.close()
            if len(idle) >= MOST_IDLE // THREADS:
                idle.pop(r.randrange(len(idle))).close()
        for s in idle:
            s.close()
        with self.lock:
            self.sent += done

    def use(self, ended):
        """The page, at the same time."""
        n, longest = 0, 0.0
        while not ended.wait(0.2) and not self.failed:
            since = time.monotonic()
            try:
                c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
                c.request("POST", "/api/simulate", json.dumps(PLAN), {"Content-Type": "application/json"})
                a = c.getresponse()
                text = a.read()
                if a.status != 200 and a.status != 503 or a.status == 200 and b"step_s" not in text:
                    self.failed.append("the page got %d: %s" % (a.status, text[:300]))
                c.close()
            except OSError as e:
                self.failed.append("the page got no answer: %s" % e)
            n, longest = n + 1, max(longest, time.monotonic() - since)
        self.used, self.longest = n, longest

    def run(self, n):
        ended = threading.Event()
        user = threading.Thread(target=self.use, args=(ended,))
        user.start()
        threads = [threading.Thread(target=self.attack, args=(i, n // THREADS + 1)) for i in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        ended.set()
        user.join()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "none: it does not end"
        self.err.seek(0)
        err = self.err.read()
        left = [f for f in os.listdir(self.dir) if f != "stderr"]
        for _ in range(100):  # another process removes the uploads
            if not left:
                break
            time.sleep(0.1)
            left = [f for f in os.listdir(self.dir) if f != "stderr"]
        if left:
            self.failed.append("files are left: %s" % left)
        shutil.rmtree(self.dir, ignore_errors=True)
        if code != 0 or err != "Press Ctrl+C to stop.\n":
            self.failed.append("exit code %s\n%s" % (code, err[:4000]))
        return not self.failed


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("build")
    a.add_argument("--requests", type=int, default=1000000)
    a.add_argument("--sockets", type=int, default=None)
    a.add_argument("--seed", type=int, default=1)
    a = a.parse_args()
    over_sockets = min(a.sockets if a.sockets is not None else max(a.requests // 20, 50000), a.requests)
    since = time.monotonic()
    s = Soak(a.build, a.seed)
    ok = s.run(over_sockets)
    print("soak_board sockets %d answers %s page_requests %d longest_s %.2f seconds %.0f" % (
        s.sent, " ".join("%d:%d" % x for x in sorted(s.answers.items())), s.used, s.longest, time.monotonic() - since), flush=True)
    for what in s.failed[:3]:
        print("soak board: FAIL " + what, file=sys.stderr)
    direct = max(a.requests - s.sent, 0)
    if ok and direct:
        since = time.monotonic()
        ok = subprocess.run([os.path.join(a.build, "fuzz"), "board", "--runs", str(-(-direct // 4)), "--seed", str(a.seed)]).returncode == 0
        print("soak_board direct %d seconds %.0f" % (-(-direct // 4) * 4, time.monotonic() - since))
    print("soak_board %s: %d requests through sockets, %d direct" % ("ok" if ok else "FAILED", s.sent, -(-direct // 4) * 4))
    sys.exit(not ok)


if __name__ == "__main__":
    main()
