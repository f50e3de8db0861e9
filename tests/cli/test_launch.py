"""tests/cli/test_launch.py -- `millrace launch` on this machine: what is written, how it ends, and that nothing is left."""
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import termios
import time

from harness import check, has, has_not, read_proc, wait_until

FOREVER = "while :; do sleep 1; done\n"


def test_launch_merges_lines_behind_the_names_of_tasks(t):
    p = t.program('echo "out of $MILLRACE_TASK"; echo "err of $MILLRACE_TASK" >&2; printf "no end"; sleep 0.5\n')
    r = t.run("launch", "--ps", "1", "--workers", "2", "--", p)
    check(r.code == 0, r.err)
    for i in (0, 1):
        has(r.out, "[worker/%d] out of worker/%d\n" % (i, i))
        has(r.err, "[worker/%d] err of worker/%d\n" % (i, i))
        has(r.out, "[worker/%d] no end\n" % i)
    has(r.err, "[ps/0    ] serving /job:ps/task:0 at grpc://127.0.0.1:")


def test_launch_gives_arguments_and_the_cluster(t):
    p = t.program('printf "<%s>" "$@"; echo; echo "$TF_CONFIG"\n')
    r = t.run("launch", "--ps", "2", "--workers", "1", "--port", str(t.ports(3)), "--", p, "a b", "--help", "")
    check(r.code == 0, r.err)
    has(r.out, "<a b><--help><>")
    has(r.out, '"task": {"type": "worker", "index": 0}')
    check(r.out.count("127.0.0.1:") == 3, r.out)


def test_launch_ends_all_when_the_chief_is_done(t):
    p = t.program('[ "$MILLRACE_TASK" = worker/0 ] && { sleep 0.5; exit 0; }\n' + FOREVER)
    r = t.run("launch", "--ps", "2", "--workers", "3", "--", p)
    check(r.code == 0 and r.seconds < 20, "%d after %g s: %s" % (r.code, r.seconds, r.err))


def test_launch_kills_what_does_not_end(t):
    p = t.program('[ "$MILLRACE_TASK" = worker/0 ] && { sleep 0.5; exit 0; }\ntrap "" TERM\n' + FOREVER)
    r = t.run("launch", "--workers", "2", "--grace", "300", "--", p)
    check(r.code == 0 and r.seconds < 20, "%d after %g s: %s" % (r.code, r.seconds, r.err))


# What the library does when a task listens: the program has begun.
READY = """python3 -c 'import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(b"ready " + os.environ["MILLRACE_TASK"].encode(), os.environ["MILLRACE_STATUS"])'
"""


def test_launch_restarts_within_the_limit_then_gives_the_exit_code(t):
    p = t.program('echo life\n' + READY + 'exit 7\n')
    r = t.run("launch", "--ps", "0", "--restarts", "2", "--", p)
    check(r.code == 7, "%d: %s" % (r.code, r.err))
    check(r.out.count("life") == 3, r.out)
    has(r.err, "worker/0 ended with exit code 7; restart 2 of 2")
    has(r.err, "worker/0 ended with exit code 7; it was restarted 2 times: the job ends")


def test_launch_a_program_that_never_began_is_reported_once_and_not_restarted(t):
    p = t.program('echo life; echo "usage: train --data FOLDER" >&2; echo "error: --data is missing" >&2; exit 2\n')
    r = t.run("launch", "--ps", "1", "--workers", "2", "--", p)
    check(r.code == 2, "%d: %s" % (r.code, r.err))
    check(r.out.count("life") <= 2, r.out)
    has_not(r.err, "restart 1")
    said = [l for l in r.err.splitlines() if l.startswith("millrace: ")]
    check(len(said) == 1 and re.match(r"millrace: worker/\d ended with exit code 2 before it began, so it is not restarted: the job ends",
                                      said[0]), r.err)
    around = r.err.split(said[0])[1 if said[0].endswith("; its last lines:") else 0]  # above it, unless others wrote meanwhile
    has(around, "] usage: train --data FOLDER\n")
    has(around, "] error: --data is missing\n")


def test_launch_last_lines_of_a_program_that_never_began_are_shown_again_behind_those_of_others(t):
    wait = "while [ ! -e %s/%s ]; do sleep 0.02; done\n"
    other = wait % (t.dir, "fault") + "echo noise; touch %s/noise; sleep 1000\n" % t.dir
    p = t.program('if [ "$MILLRACE_TASK" = worker/1 ]; then\n' + other + 'fi\n' + 'echo "the fault" >&2; touch %s/fault\n' % t.dir +
                  wait % (t.dir, "noise") + "exit 3\n")
    r = t.run("launch", "--ps", "0", "--workers", "2", "--", p)
    check(r.code == 3, "%d: %s" % (r.code, r.err))
    has(r.err, "worker/0 ended with exit code 3 before it began, so it is not restarted: the job ends; its last lines:\n[worker/0] the fault\n")
    check(r.err.count("the fault") == 2, r.err)


def test_launch_a_killed_program_is_restarted_before_it_began(t):
    p = t.program('[ -e %s/second ] && exit 0\ntouch %s/second; kill -SEGV $$\n' % (t.dir, t.dir))
    r = t.run("launch", "--ps", "0", "--", p)
    check(r.code == 0, "%d: %s" % (r.code, r.err))
    has(r.err, "worker/0 was killed by signal 11 (Segmentation fault); restart 1 of 3")


def taken_port(port, host="0.0.0.0"):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((host, port))
    s.listen(1)
    return s


def test_launch_a_taken_port_that_was_asked_for_is_one_line(t):
    port = t.ports(2)
    with taken_port(port):
        r = t.run("launch", "--port", str(port), "--", t.program("sleep 30\n"))
    check(r.code == 1, "%d: %s" % (r.code, r.err))
    check(r.err == "millrace launch: ps/0: Could not start gRPC server: cannot listen at 127.0.0.1:%d: another process uses port %d\n"
          % (port, port), r.err)


def test_launch_looks_for_a_taken_port_where_its_tasks_listen(t):
    port = t.ports(1)
    with taken_port(port, "127.0.0.1"):  # as a proxy has it that passes calls on to the task
        r = t.run("launch", "--ps", "0", "--port", str(port), "--", "true", env={"MILLRACE_BIND": "127.0.0.9"})
    check(r.code == 0, "%d: %s" % (r.code, r.err))
    with taken_port(port, "127.0.0.9"):
        r = t.run("launch", "--ps", "0", "--port", str(port), "--", "true", env={"MILLRACE_BIND": "127.0.0.9"})
    check(r.code == 1, "%d: %s" % (r.code, r.err))
    has(r.err, "worker/0: Could not start gRPC server: cannot listen at 127.0.0.9:%d: another process uses port %d" % (port, port))


def test_launch_takes_other_ports_where_it_chose_a_taken_one(t):
    # What a task says that could not listen; the second time all goes well.
    p = t.program('[ -e %s/second ] && { echo "at $TF_CONFIG"; exit 0; }\ntouch %s/second\n' % (t.dir, t.dir) +
                  READY.replace("ready", "taken") + 'exit 1\n')
    r = t.run("launch", "--ps", "0", "--", p)
    check(r.code == 0, "%d: %s" % (r.code, r.err))
    has(r.err, "millrace: another process has taken the port of worker/0: all tasks start again at other ports\n")
    has(r.out, "at {")
    first = t.ports(1)
    os.unlink(t.dir + "/second")
    r = t.run("launch", "--ps", "0", "--port", str(first), "--", p)  # this one nobody may change
    check(r.code == 1, "%d: %s" % (r.code, r.err))
    has(r.err, "worker/0 could not listen, because another process uses its port: the job ends")


def test_launch_uses_no_folder_that_another_user_could_have_made(t):
    run = os.path.join(t.dir, "run")
    os.makedirs(run + "/elsewhere", 0o700)
    os.symlink(run + "/elsewhere", run + "/millrace")
    p = t.program('echo "in $MILLRACE_SOCKETS of $MILLRACE_TLS_DIR, $MILLRACE_SHM"\n')
    r = t.run("launch", "--ps", "1", "--", p, env={"XDG_RUNTIME_DIR": run})
    check(r.code == 0, "%d: %s" % (r.code, r.err))
    found = re.search(r"in (\S+) of (\S+), on", r.out)
    check(found and found.group(1) == found.group(2) and found.group(1).startswith(run + "/millrace-job-"), r.out)
    check(os.listdir(run + "/elsewhere") == [], "something was put where the link leads")
    r = t.run("launch", "--ps", "0", "--", p, env={"MILLRACE_SHM": "off"})
    has(r.out, ", off\n")


def test_launch_shows_what_a_program_without_a_log_of_its_own_waits_for(t):
    p = t.program(READY.replace('b"ready "', 'b"log "').replace('.encode(),', '.encode() + b" still waiting for ps/0",') + "sleep 0.3\n")
    r = t.run("launch", "--ps", "0", "--", p)
    check(r.code == 0, r.err)
    has(r.err, "[worker/0] still waiting for ps/0\n")


def test_launch_a_program_that_is_not_there_is_not_tried_again(t):
    r = t.run("launch", "--", "./no-such-program")
    check(r.code == 127, "%d: %s" % (r.code, r.err))
    has(r.err, "millrace: cannot run ./no-such-program: No such file or directory")
    has_not(r.err, "restart 1")


def test_launch_a_killed_task_is_soon_back(t):
    p = t.program(FOREVER)
    l = t.start("launch", "--ps", "1", "--workers", "2", "--", p)
    for name in ("worker/1", "ps/0", "worker/0"):
        pid = t.task(name)
        wait_until(lambda: name != "ps/0" or b"serve" in read_proc(pid, "cmdline"), 5, "it runs its program")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: any(p != pid for p in [t.task(name)]), 3, name + " is back")
    l.terminate()
    r = t.finish(l)
    has(r.err, "worker/0 was killed by signal 9 (Killed); restart 1 of 3")
    check(r.code == 143, str(r.code))


def test_launch_ctrl_c_and_sigterm_end_all(t):
    p = t.program('sleep 1000 &\n' + FOREVER)
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        l = t.start("launch", "--ps", "1", "--workers", "2", "--", p)
        t.task("worker/1")
        l.send_signal(sig)
        r = t.finish(l)
        check(r.code == 128 + sig, "%d: %s" % (r.code, r.err))
        t.none_left()


def folders_of(pid):
    """Folders of secrets that tasks below were given."""
    env = read_proc(pid, "environ").split(b"\0")
    return [v.partition(b"=")[2].decode() for v in env if v.startswith(b"MILLRACE_TLS_DIR=")]


def test_launch_ends_at_the_second_signal_though_nobody_reads_what_it_writes(t):
    l = t.start("launch", "--ps", "0", "--workers", "1", "--", "yes", "0123456789" * 50)
    t.task("worker/0")
    there = lambda: struct.unpack("i", fcntl.ioctl(l.stdout, termios.FIONREAD, b"    "))[0]
    wait_until(lambda: there() > 60000, 20, "its pipe is full")
    l.send_signal(signal.SIGTERM)
    pending = lambda: int(read_proc(l.pid, "status").partition(b"ShdPnd:")[2].split()[0], 16)
    wait_until(lambda: not pending(), 10, "the first signal is taken")
    l.send_signal(signal.SIGINT)
    check(l.wait(30) == 128 + signal.SIGINT, "%d" % l.returncode)
    t.none_left()


def test_launch_killed_by_9_leaves_nothing(t):
    # sh, what it started, and what that has put into the background
    p = t.program('(sleep 1000 & sleep 1000) &\n' + FOREVER)
    l = t.start("launch", "--ps", "2", "--workers", "2", "--", p)
    folder = folders_of(t.task("worker/1"))[0]
    t.task("ps/1")
    wait_until(lambda: len(t.processes()) >= 9, 10, "all have started")
    check(os.path.isdir(folder), folder)
    l.kill()
    l.wait()
    t.none_left()
    wait_until(lambda: not os.path.exists(folder), 10, "%s is removed" % folder)


def test_launch_kills_what_a_task_leaves_behind(t):
    p = t.program('sleep 1000 &\nexit 0\n')
    r = t.run("launch", "--ps", "0", "--", p)
    check(r.code == 0, r.err)
    t.none_left()


def test_launch_secrets_are_private_and_on_no_command_line(t):
    p = t.program('ls -ld "$MILLRACE_TLS_DIR"; ls -l "$MILLRACE_TLS_DIR"; sleep 1\n')
    l = t.start("launch", "--", p)
    pid = t.task("worker/0")
    folder = folders_of(pid)[0]
    key = open(os.path.join(folder, "worker-0.key"), "rb").read().split(b"\n")[1]
    for q in t.processes():
        check(key not in read_proc(q, "cmdline") + read_proc(q, "environ"), "a key can be seen")
    r = t.finish(l)
    has(r.out, "drwx------")
    for line in r.out.splitlines():
        if ".key" in line or line.endswith("token"):
            has(line, "-rw-------")
    check(not os.path.exists(folder), folder)


def test_launch_without_tls_makes_no_keys(t):
    r = t.run("launch", "--no-tls", "--", t.program('ls "$MILLRACE_TLS_DIR"; echo "TLS=$MILLRACE_TLS"\n'))
    has_not(r.out, ".key")
    has(r.out, "TLS=off")


def test_launch_a_public_task_without_keys_is_refused_in_one_line(t):
    cluster = t.file("cluster.json", '{"cluster": {"ps": ["10.1.2.3:2222"], "worker": ["10.1.2.4:2222"]}}')
    r = t.run("launch", "--cluster", cluster, "--job", "worker", "--", "true")
    check(r.code == 1 and r.err.count("\n") == 1, "%d: %s" % (r.code, r.err))
    has(r.err, "10.1.2.4:2222 can be reached from outside and there are no keys")
    has(r.err, "`millrace keys`")
    has(r.err, "MILLRACE_TLS=off")


def test_launch_takes_the_cluster_from_a_file_from_flags_and_from_tf_config(t):
    first = t.ports(3)
    a = ["127.0.0.1:%d" % (first + i) for i in range(3)]
    json = '{"cluster": {"ps": ["%s"], "worker": ["%s", "%s"]}}' % tuple(a)
    p = t.program('echo "$MILLRACE_TASK $TF_CONFIG"; sleep 0.5\n')
    ways = [(["--cluster", t.file("c.json", json)], {}), (["--cluster", json], {}), ([], {"TF_CONFIG": json}),
            (["--ps-hosts", a[0], "--worker-hosts", ",".join(a[1:])], {})]
    for args, env in ways:
        r = t.run("launch", *args, "--", p, env=env)
        check(r.code == 0, "%s: %s" % (args, r.err))
        for name in ("worker/0", "worker/1"):
            has(r.out, "] %s {" % name)
        has(r.out, '"worker": ["%s", "%s"]' % (a[1], a[2]))


def test_launch_is_the_task_that_tf_config_names(t):
    json = '{"cluster": {"ps": ["127.0.0.1:%d"], "worker": ["127.0.0.1:1", "127.0.0.1:2"]}, "task": {"type": "worker", "index": 0}}' % t.ports(1)
    r = t.run("launch", "--", t.program('echo "I am $MILLRACE_TASK"\n'), env={"TF_CONFIG": json})
    check(r.code == 0, r.err)
    check(r.out == "[worker/0] I am worker/0\n", r.out)


def test_launch_as_one_task_ends_with_it_or_stays(t):
    cluster = '{"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}}'
    p = t.program('echo done\n')
    r = t.run("launch", "--cluster", cluster, "--job", "worker", "--task", "1", "--", p)
    check(r.code == 0 and r.out == "[worker/1] done\n", r.out + r.err)
    l = t.start("launch", "--cluster", cluster, "--job", "worker", "--task", "1", "--stay", "--", p)
    check(l.stdout.readline() == "[worker/1] done\n", "its line")
    time.sleep(0.3)
    check(l.poll() is None, "it has ended")
    l.terminate()
    check(t.finish(l).code == 143, "asked to end")


def test_launch_chief_writes_straight_to_the_terminal(t):
    p = t.program('echo "as it is"; sleep 0.3\n')
    r = t.run("launch", "--ps", "0", "--workers", "2", "--bare-chief", "--", p)
    has(r.out, "[worker/1] as it is\n")
    check("as it is" in r.out.splitlines(), r.out)


def test_launch_says_what_is_wrong_with_its_options(t):
    cases = [
        (["--workers", "0", "--", "true"], "--ps 1 --workers 0: a job has at least one worker"),
        (["--ps", "-5", "--", "true"], "at least one worker"),
        (["--workers", "100000", "--", "true"], "at most 1024 tasks"),
        ([], "no program: give one after the options: millrace launch [OPTION]... -- PROGRAM"),
        (["--hosts", "a;b", "--", "true"], "--hosts: 'a;b' is not a valid host name"),
        (["--hosts", "a:x", "--", "true"], "after the colon, give the number of tasks"),
        (["--hosts", "localhost,far", "--", "true"], "localhost means a different machine on each host"),
        (["--hostfile", "no-such-file", "--", "true"], "no-such-file"),
        (["--cluster", "no-such-file", "--", "true"], "no-such-file"),
        (["--cluster", "{}", "--", "true"], "there are no tasks"),
        (["--cluster", '{"cluster": {"worker": ["x"]}}', "--", "true"], "'x' is not host:port"),
        (["--cluster", '{"cluster": {"ps": ["a:1"]}}', "--", "true"], "the cluster has no worker"),
        (["--worker-hosts", "a:1", "--workers", "2", "--", "true"], "the cluster already has addresses"),
        (["--worker-hosts", "a:1", "--job", "worker", "--task", "3", "--", "true"], "there is no task 3 of job 'worker'"),
        (["--job", "ps", "--", "true"], "--job ps needs a cluster"),
        (["--port", "65535", "--workers", "3", "--", "true"], "ports from there on, all from 1 to 65535"),
        (["--port", "-1", "--", "true"], "all from 1 to 65535"),
        (["--ps", "9223372036854775807", "--", "true"], "at most 1024 tasks"),
        (["--grace", "-1", "--", "true"], "neither may be negative"),
    ]
    for args, message in cases:
        r = t.run("launch", *args)
        check(r.code in (1, 2), "%s: %d" % (args, r.code))
        has(r.err, message)
        check(r.err.startswith("millrace launch: "), r.err)
    r = t.run("launch", "--ps", "x", "--", "true")
    check(r.code == 2, str(r.code))
    has(r.err, "missing or invalid value for --ps")


def test_launch_ends_when_descriptors_run_out(t):
    limit = "ulimit -n 64; exec %s launch --no-tls --ps 0 --workers 60 -- sleep 1000" % t.millrace
    p = subprocess.Popen(["sh", "-c", limit], env=t.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    r = t.finish(p)
    check(r.code == 1, "%d: %s" % (r.code, r.err))
    has(r.err, "Too many open files")


def test_launch_of_many_tasks_is_up_quickly(t):
    p = t.program('[ "$MILLRACE_TASK" = worker/0 ] || ' + FOREVER)
    since = time.monotonic()
    r = t.run("launch", "--ps", "4", "--workers", "16", "--", p)
    check(r.code == 0, r.err)
    check(time.monotonic() - since < 30, "20 tasks took %g s" % r.seconds)
