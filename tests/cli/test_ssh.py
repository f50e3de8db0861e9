"""tests/cli/test_ssh.py -- `millrace launch --hosts`, with a script in place of ssh."""
import os
import signal

from harness import HERE, check, has, has_not, read_proc, wait_until
from test_launch import READY, taken_port

FOREVER = "while :; do sleep 1; done\n"


def ssh_lines(t):
    with open(t.ssh_log) as f:
        return f.read().splitlines()


def test_ssh_tasks_run_on_their_hosts(t):
    p = t.program('echo "$MILLRACE_TASK on $FAKE_HOST in $PWD, $SECRET_WORD"; sleep 0.5\n')
    r = t.run("launch", "--ps", "2", "--workers", "3", "--hosts", "127.0.0.2,127.0.0.3:2", "--port", str(t.ports(5)), "--env",
              "SECRET_WORD,NOT_SET", "--", p, env={"SECRET_WORD": "xyzzy"})
    check(r.code == 0, r.err)
    for task, host in ((0, 3), (1, 2), (2, 3)):
        has(r.out, "[worker/%d] worker/%d on 127.0.0.%d in %s, xyzzy\n" % (task, task, host, t.dir))
    has(r.err, "[ps/0    ] serving /job:ps/task:0 at grpc://127.0.0.2:")
    has(r.err, "[ps/1    ] serving /job:ps/task:1 at grpc://127.0.0.3:")
    check(len(ssh_lines(t)) == 5, str(ssh_lines(t)))


def test_ssh_tasks_can_be_reached_from_other_hosts(t):
    port = t.ports(2)
    # on the port, not through the socket that only this host has
    p = t.program('python3 -c "import socket, time\n'
                  'for i in range(200):\n'
                  '    s = socket.socket()\n'
                  '    if s.connect_ex((\'127.0.0.2\', %d)) == 0: print(\'reached\'); break\n'
                  '    time.sleep(0.05)"\n' % port)
    r = t.run("launch", "--ps", "1", "--hosts", "127.0.0.2", "--port", str(port), "--", p)
    has(r.out, "[worker/0] reached")
    has_not(r.err, "warning")


def test_ssh_gets_no_secret_on_its_command_line(t):
    p = t.program('sed -n 2p "$MILLRACE_TLS_DIR/worker-0.key"; od -An -tx1 "$MILLRACE_TLS_DIR/token" | head -1; ls "$MILLRACE_TLS_DIR"\n')
    r = t.run("launch", "--ps", "0", "--hosts", "127.0.0.2", "--port", str(t.ports(1)), "--env", "SECRET_WORD", "--", p,
              env={"SECRET_WORD": "xyzzy"})
    check(r.code == 0, r.err)
    key = r.out.splitlines()[0].partition("] ")[2]
    check(len(key) > 20, r.out)
    log = "\n".join(ssh_lines(t))
    has_not(log, key)
    has_not(log, "xyzzy")
    has_not(r.out, "ca.key")  # a task cannot make keys for others
    has(log, "agent")


def test_ssh_hosts_come_from_a_file(t):
    hosts = t.file("hosts", "# two machines\n127.0.0.2\n127.0.0.3 slots=1\n")
    p = t.program('echo "$MILLRACE_TASK on $FAKE_HOST"; sleep 0.5\n')
    r = t.run("launch", "--ps", "0", "--workers", "2", "--hostfile", hosts, "--port", str(t.ports(2)), "--", p)
    has(r.out, "worker/0 on 127.0.0.2")
    has(r.out, "worker/1 on 127.0.0.3")


def test_ssh_task_gives_its_exit_code_and_is_restarted(t):
    p = t.program('echo life\n' + READY + 'exit 5\n')
    r = t.run("launch", "--ps", "0", "--hosts", "127.0.0.2", "--port", str(t.ports(1)), "--restarts", "1", "--", p)
    check(r.code == 5 and r.out.count("life") == 2, "%d: %s%s" % (r.code, r.out, r.err))
    has(r.err, "worker/0 ended with exit code 5 on 127.0.0.2; restart 1 of 1")


def test_ssh_that_does_not_get_through_is_reported_again_and_again_until_the_task_runs(t):
    slow = t.program('sleep 1.5\nexec %s/fake_ssh "$@"\n' % HERE, "slow_ssh")
    r = t.run("launch", "--ps", "0", "--hosts", "127.0.0.2", "--port", str(t.ports(1)), "--", t.program("echo begins >&2; sleep 0.7\n"),
              env={"MILLRACE_SSH": slow, "MILLRACE_WAIT_LOG_MS": "100"})
    check(r.code == 0, r.err)
    line = "millrace: still waiting for worker/0: ssh to 127.0.0.2 has not started it ("
    before, begins, after = r.err.partition("[worker/0] begins")
    check(begins and before.count(line) >= 2 and line not in after, r.err)


def test_ssh_a_taken_port_on_another_host_is_passed_by(t):
    try:
        held = taken_port(2222)
    except OSError:
        held = None  # somebody else has it: as good
    try:
        r = t.run("launch", "--ps", "1", "--hosts", "127.0.0.2,127.0.0.3", "--",
                  t.program('case "$TF_CONFIG" in *:2222*) sleep 1000;; esac\necho $TF_CONFIG\n'))
    finally:
        if held:
            held.close()
    check(r.code == 0, "%d: %s" % (r.code, r.err))
    has(r.err, "another process has taken the port of ps/0: all tasks start again at other ports")
    has_not(r.out, ":2222")
    has_not(r.err, "gRPC: ")


def test_ssh_a_host_that_cannot_be_reached_is_named(t):
    r = t.run("launch", "--ps", "0", "--hosts", "127.0.0.9", "--restarts", "1", "--", "true", env={"FAKE_SSH_REFUSES": "127.0.0.9"})
    check(r.code == 255, str(r.code))
    has(r.err, "Connection refused")
    has(r.err, "ssh to 127.0.0.9 failed")


def test_ssh_a_program_that_is_not_there_ends_the_job(t):
    r = t.run("launch", "--ps", "0", "--hosts", "127.0.0.2", "--port", str(t.ports(1)), "--", "./no-such-program")
    check(r.code == 127, str(r.code))
    has(r.err, "cannot run ./no-such-program")


def test_ssh_remote_tasks_end_well_when_the_chief_is_done(t):
    p = t.program('[ "$MILLRACE_TASK" = worker/0 ] && { sleep 1; exit 0; }\ntrap "echo asked to end; exit 0" TERM\n' + FOREVER)
    r = t.run("launch", "--ps", "1", "--workers", "2", "--hosts", "127.0.0.2,127.0.0.3", "--port", str(t.ports(3)), "--", p)
    check(r.code == 0, r.err)
    has(r.out, "[worker/1] asked to end")


def test_ssh_remote_tasks_die_with_the_launcher(t):
    p = t.program("sleep 1000 &\n" + FOREVER)
    l = t.start("launch", "--ps", "1", "--workers", "2", "--hosts", "127.0.0.2,127.0.0.3", "--port", str(t.ports(3)), "--", p)
    folders = [v.partition(b"=")[2].decode() for v in read_proc(t.task("worker/1"), "environ").split(b"\0")
               if v.startswith(b"MILLRACE_TLS_DIR=")]
    t.task("ps/0")
    t.task("worker/0")
    l.kill()
    l.wait()
    t.none_left()
    check(folders and not os.path.exists(folders[0]), str(folders))


def test_ssh_a_connection_that_is_cut_ends_its_task_and_starts_it_again(t):
    p = t.program(FOREVER)
    l = t.start("launch", "--ps", "0", "--workers", "2", "--hosts", "127.0.0.2,127.0.0.3", "--port", str(t.ports(2)), "--", p)
    before = t.task("worker/1")
    t.task("worker/0")
    cut = [q for q in t.processes() if b"fake_ssh" in read_proc(q, "cmdline") and b"127.0.0.3" in read_proc(q, "cmdline")]
    check(cut, "no ssh runs")
    for q in cut:
        os.kill(q, signal.SIGKILL)
    wait_until(lambda: before not in t.processes(), 10, "the task has ended")
    wait_until(lambda: t.task("worker/1") != before, 10, "the task is back")
    l.terminate()
    r = t.finish(l)
    check(r.code == 143, str(r.code))


def test_ssh_agent_is_not_for_people(t):
    r = t.run("agent")
    check(r.code == 1, str(r.code))
    has(r.err, "`millrace launch --hosts` starts this command")
