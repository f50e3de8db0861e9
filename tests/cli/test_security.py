"""tests/cli/test_security.py -- what protects a server and its files from others."""
import os
import shutil
import signal
import socket
import struct
import subprocess

from harness import check, has, read_proc, wait_until

CALL = """
import sys
import millrace as tf
with tf.Session(sys.argv[1], config=tf.ConfigProto(operation_timeout_in_ms=20000, device_filters=["/job:ps"])) as s:
    print("got", s.run(tf.constant(3) * 2))
"""


def elf(path, *what):
    return subprocess.run(["readelf", "-W"] + list(what) + [path], capture_output=True, text=True, check=True).stdout


def test_files_are_hardened(t):
    if not shutil.which("readelf"):
        return
    files = [t.millrace] + [os.path.join(t.build, "lib", f) for f in os.listdir(os.path.join(t.build, "lib")) if f.endswith((".so", ".so.2"))]
    files.append(os.path.join(t.build, "share", "millrace", "python", "_millrace.so"))
    for f in files:
        dynamic, program = elf(f, "-d"), elf(f, "-l")
        check("NOW" in dynamic, "%s: symbols are bound late" % f)
        has(program, "GNU_RELRO")
        stack = [line for line in program.splitlines() if "GNU_STACK" in line]
        check(stack and "RWE" not in stack[0], "%s: its stack can be executed" % f)
    has(elf(t.millrace, "-h"), "DYN")
    for f in (t.millrace, os.path.join(t.build, "lib", "libtensorflow.so.2")):
        symbols = elf(f, "--dyn-syms")
        has(symbols, "__stack_chk_fail")
        has(symbols, "_chk@")


def test_serve_warns_when_everybody_can_use_it(t):
    a = "127.0.0.1:%d" % t.ports(1)
    keys = t.dir + "/keys"
    check(t.run("keys", keys).code == 0, "no keys")
    for env, warned in (({}, True), ({"MILLRACE_TLS_DIR": keys}, False)):
        p = t.start("serve", "--ps-hosts", a, "--job", "ps", env=env)
        has(p.stderr.readline(), "serving")
        p.terminate()
        err = p.stderr.read()  # not t.finish: readline may have taken more than a line into its buffer
        code = t.finish(p).code
        check(code == 0 and ("warning: there are no keys" in err) == warned, "%d: %s" % (code, err))


def test_a_job_without_keys_asks_for_its_token(t):
    """Its ports are open to every user of the host; a client of the job gets in, another does not."""
    client = t.file("client.py", CALL)
    port = t.ports(2)
    hosts = ["--ps-hosts", "127.0.0.1:%d" % port, "--worker-hosts", "127.0.0.1:%d" % (port + 1)]
    inside = t.program('export MILLRACE_SHM=off; %s python %s grpc://127.0.0.1:%d; touch %s/asked; sleep 1000\n'
                       % (t.millrace, client, port, t.dir))
    l = t.start("launch", "--no-tls", *hosts, "--", inside)
    wait_until(lambda: os.path.exists(t.dir + "/asked"), 40, "the client of the job has asked")
    r = t.run("python", client, "grpc://127.0.0.1:%d" % port, env={"MILLRACE_SHM": "off", "MILLRACE_TLS": "off"})
    l.send_signal(signal.SIGTERM)
    said = t.finish(l)
    has(said.out, "got 6")
    check(r.code != 0 and "token" in r.err, "%d: %s%s" % (r.code, r.out, r.err))


def test_launch_killed_early_leaves_no_keys(t):
    run_dir = t.dir + "/run"
    os.mkdir(run_dir)
    # Keys of many tasks take a while to make.
    l = t.start("launch", "--ps", "20", "--workers", "20", "--", "sleep", "1000", env={"XDG_RUNTIME_DIR": run_dir})
    keys = lambda: [f for _, _, files in os.walk(run_dir) for f in files]
    wait_until(lambda: keys() or l.poll() is not None, 20, "the first key is there")
    l.kill()
    t.finish(l)
    wait_until(lambda: not keys(), 10, "the keys are removed")


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def resident_mb(pid):
    return int(read_proc(pid, "statm").split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def test_serve_gives_back_the_memory_of_headers_without_an_end(t):
    port = t.ports(1)
    p = t.start("serve", "--ps-hosts", "127.0.0.1:%d" % port, "--job", "ps")
    has(p.stderr.readline(), "serving")
    before = resident_mb(p.pid)
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        s.sendall(frame(1, 0, 1, header(b":method", b"POST") + header(b":path", b"/tensorflow.MasterService/RunStep")
                        + header(b":scheme", b"http") + header(b":authority", b"x")))
        block = b"".join(header(b"k%07d" % i, b"v" * 10) for i in range(700))
        try:
            for _ in range((45 << 20) // len(block)):
                s.sendall(frame(9, 0, 1, block))
        except OSError:
            pass  # it has had enough
    wait_until(lambda: resident_mb(p.pid) < before + 40, 40, "the memory is given back, %d MB at first" % before)
    p.terminate()
    t.finish(p)
