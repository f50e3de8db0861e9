"""tests/cli/zookeeper.py -- a real ZooKeeper server for tests, and a small client to see what is in it.

The server is Debian's: its jar names the rest of its class path.  It listens at the loopback, in a folder of its own."""
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time

JAR = os.environ.get("ZOOKEEPER_JAR", "/usr/share/java/zookeeper.jar")
CONF = "/etc/zookeeper/conf"


def missing():
    """Why no server can be started here; None: one can."""
    if not shutil.which("java"):
        return "there is no java"
    return None if os.path.exists(JAR) else "there is no " + JAR


class Server:
    """tick_ms: sessions last at least two ticks."""

    def __init__(self, port, tick_ms=500, env=None):
        self.port, self.address = port, "127.0.0.1:%d" % port
        self.dir = tempfile.mkdtemp(prefix="millrace-zookeeper-")
        self.env, self.process = env, None
        with open(self.dir + "/zoo.cfg", "w") as f:
            f.write("tickTime=%d\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
                    "maxClientCnxns=0\n" % (tick_ms, self.dir, port))
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", CONF + ":" + JAR,
             "org.apache.zookeeper.server.quorum.QuorumPeerMain", self.dir + "/zoo.cfg"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env)
        end = time.monotonic() + 60
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("ZooKeeper does not come up at " + self.address)
            time.sleep(0.05)

    def answers(self):
        """Whether sessions can be had.  It listens a little earlier, and what asks it then may never be answered: so not for long."""
        try:
            with Client(self, timeout_s=0.5):
                return True
        except OSError:
            return False

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.end()

    def forget(self):
        """While it is stopped: all nodes, and all sessions."""
        shutil.rmtree(self.dir + "/data", ignore_errors=True)

    def end(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


class Client:
    """A session of its own, for one question after the other."""
    OPEN_ACL = struct.pack(">ii", 1, 31) + struct.pack(">i5si6s", 5, b"world", 6, b"anyone")

    def __init__(self, server, timeout_s=10):
        self.s = socket.create_connection(("127.0.0.1", server.port), timeout_s)
        self.xid = 0
        self.send(struct.pack(">iqiqi16s", 0, 0, 10000, 0, 16, b""))
        self.receive()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.s.close()

    def send(self, body):
        self.s.sendall(struct.pack(">i", len(body)) + body)

    def receive(self):
        def exactly(n):
            data = b""
            while len(data) < n:
                part = self.s.recv(n - len(data))
                if not part:
                    raise OSError("ZooKeeper has closed the connection")
                data += part
            return data
        return exactly(struct.unpack(">i", exactly(4))[0])

    def ask(self, opcode, body):
        """(error, answer)"""
        self.xid += 1
        self.send(struct.pack(">ii", self.xid, opcode) + body)
        answer = self.receive()
        return struct.unpack(">i", answer[12:16])[0], answer[16:]

    @staticmethod
    def text(v):
        v = v.encode() if isinstance(v, str) else v
        return struct.pack(">i", len(v)) + v

    def get(self, path):
        """What a node holds; None: there is none."""
        error, answer = self.ask(4, self.text(path) + b"\0")
        if error:
            return None
        n = struct.unpack(">i", answer[:4])[0]
        return answer[4:4 + max(n, 0)].decode("latin-1")

    def owner(self, path):
        """The session of an ephemeral node; 0: it is none, or there is none."""
        error, answer = self.ask(3, self.text(path) + b"\0")
        return 0 if error else struct.unpack(">qqqqiiiqiiq", answer[:68])[7]

    def children(self, path):
        error, answer = self.ask(8, self.text(path) + b"\0")
        names, at = [], 4
        for _ in range(0 if error else struct.unpack(">i", answer[:4])[0]):
            n = struct.unpack(">i", answer[at:at + 4])[0]
            names.append(answer[at + 4:at + 4 + n].decode())
            at += 4 + n
        return sorted(names)

    def set(self, path, value):
        return self.ask(5, self.text(path) + self.text(value) + struct.pack(">i", -1))[0]

    def create(self, path, value="", ephemeral=False):
        return self.ask(1, self.text(path) + self.text(value) + self.OPEN_ACL + struct.pack(">i", int(ephemeral)))[0]

    def delete(self, path):
        return self.ask(2, self.text(path) + struct.pack(">i", -1))[0]
