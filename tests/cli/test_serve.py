"""tests/cli/test_serve.py -- `millrace serve` and `millrace keys`."""
import os
import signal
import stat

from harness import check, has, wait_until


def serve_until_up(t, args, env, name):
    p = t.start("serve", *args, env=env)
    line = p.stderr.readline()
    p.send_signal(signal.SIGTERM)
    r = t.finish(p)
    check(r.code == 0, "%d: %s%s" % (r.code, line, r.err))
    has(line, "serving " + name)


def test_serve_takes_the_cluster_from_flags_a_file_and_tf_config(t):
    a = "127.0.0.1:%d" % t.ports(1)
    cluster = '{"cluster": {"ps": ["%s"], "worker": ["127.0.0.1:1"]}}' % a
    both = cluster[:-1] + ', "task": {"type": "ps", "index": 0}}'
    ways = [(["--ps-hosts", a, "--worker-hosts", "127.0.0.1:1", "--job", "ps"], {}),
            (["--cluster", t.file("c.json", cluster), "--job", "ps", "--task", "0"], {}),
            (["--cluster", t.file("b.json", both)], {}), ([], {"TF_CONFIG": both}), (["--job", "ps"], {"TF_CONFIG": cluster})]
    for args, env in ways:
        serve_until_up(t, args, env, "/job:ps/task:0 at grpc://" + a)


def test_serve_refuses_a_public_address_without_keys_in_one_line(t):
    r = t.run("serve", "--ps-hosts", "0.0.0.0:0", "--job", "ps")
    check(r.code == 1 and r.err.count("\n") == 1, "%d: %s" % (r.code, r.err))
    has(r.err, "0.0.0.0:0 can be reached from outside and there are no keys")
    has(r.err, "`millrace keys`")
    has(r.err, "MILLRACE_TLS_DIR")
    has(r.err, "MILLRACE_TLS=off")


def test_serve_runs_on_a_public_address_with_either_way_out(t):
    a = "0.0.0.0:%d" % t.ports(1)
    keys = t.dir + "/keys"
    check(t.run("keys", keys).code == 0, "no keys")
    for env in ({"MILLRACE_TLS": "off"}, {"MILLRACE_TLS_DIR": keys}):
        serve_until_up(t, ["--ps-hosts", a, "--worker-hosts", "127.0.0.1:1", "--job", "ps"], env, "/job:ps/task:0")


def test_serve_listens_where_it_is_told_under_the_name_others_know(t):
    port = t.ports(1)
    args = ["--ps-hosts", "ps-0.not.yet.known:%d" % port, "--job", "ps"]
    r = t.run("serve", *args, env={"MILLRACE_BIND": "0.0.0.0"})
    check(r.code == 1 and "0.0.0.0:%d can be reached from outside" % port in r.err, r.err)
    serve_until_up(t, args, {"MILLRACE_BIND": "127.0.0.1"}, "/job:ps/task:0 at grpc://ps-0.not.yet.known:%d" % port)


def test_serve_says_what_is_missing(t):
    cases = [([], "no cluster: give --ps-hosts and --worker-hosts, or --cluster, or set TF_CONFIG"),
             (["--ps-hosts", "127.0.0.1:1"], "no task: give --job and --task"),
             (["--ps-hosts", "127.0.0.1:1", "--job", "worker"], "there is no task 0 of job 'worker': the cluster has 0 tasks"),
             (["--ps-hosts", "127.0.0.1:1", "--task", "0"], "--task 0 needs --job"),
             (["--ps-hosts", "here", "--job", "ps"], "--ps-hosts: Task 0 of job ps: 'here' is not host:port"),
             (["--ps-hosts", "a:1", "--cluster", "x", "--job", "ps"], "give either --cluster or --ps-hosts"),
             (["extra"], "too many arguments"), (["--nonsense"], "unknown option --nonsense")]
    for args, message in cases:
        r = t.run("serve", *args)
        check(r.code in (1, 2), "%s: %d" % (args, r.code))
        has(r.err, message)


def test_serve_says_when_its_port_is_taken(t):
    a = "127.0.0.1:%d" % t.ports(1)
    first = t.start("serve", "--ps-hosts", a, "--job", "ps")
    first.stderr.readline()
    r = t.run("serve", "--ps-hosts", a, "--job", "ps")
    first.terminate()
    t.finish(first)
    check(r.code == 1 and a in r.err, "%d: %s" % (r.code, r.err))


HOLD = """
import os, sys, threading, time
import millrace as tf
fifo, target = sys.argv[1], sys.argv[2]
with tf.device("/job:ps/task:0"):
    held, x = tf.read_file(fifo), tf.constant(1) + 1
s = tf.Session(target, config=tf.ConfigProto(operation_timeout_in_ms=500))
for _ in range(3):
    try:
        s.run(held)
    except tf.errors.DeadlineExceededError:
        print("late", flush=True)
print(s.run(x), flush=True)
threading.Thread(target=lambda: s.run(held, options=tf.RunOptions(timeout_in_ms=600000)), daemon=True).start()
time.sleep(600)
"""


def test_serve_goes_on_and_ends_under_steps_that_wait_for_a_pipe(t):
    a = "127.0.0.1:%d" % t.ports(1)
    fifo = t.dir + "/fifo"
    os.mkfifo(fifo)
    p = t.start("serve", "--ps-hosts", a, "--job", "ps")
    has(p.stderr.readline(), "serving")
    client = t.start("python", t.file("hold.py", HOLD), fifo, "grpc://" + a)
    lines = [client.stdout.readline().strip() for _ in range(4)]
    check(lines == ["late", "late", "late", "2"], str(lines))
    p.terminate()
    r = t.finish(p)
    check(r.code == 0, "%d: %s" % (r.code, r.err))
    client.kill()
    t.finish(client)


def test_keys_are_private_and_stay(t):
    keys = t.dir + "/keys"
    r = t.run("keys", "--ps", "2", "--workers", "3", keys)
    check(r.code == 0, r.err)
    has(r.out, "keys for 5 tasks and for clients are in " + keys)
    names = sorted(os.listdir(keys))
    check(set(names) >= {"ca.pem", "ca.key", "ps-1.key", "worker-2.pem", "client.key"}, str(names))
    for n in names:
        check(stat.S_IMODE(os.stat(os.path.join(keys, n)).st_mode) == 0o600, n)
    before = open(keys + "/ps-0.key").read()
    check(t.run("keys", "--ps", "3", "--workers", "3", keys).code == 0, "again")
    check(open(keys + "/ps-0.key").read() == before and os.path.exists(keys + "/ps-2.key"), "keys that exist stay, new ones come")
    check(t.run("keys", "--days", "0", keys).code == 1, "days")


def test_keys_are_made_for_all_tasks_of_a_cluster(t):
    cluster = t.file("c.json", '{"cluster": {"ps": ["a:1", "b:1"], "chief": ["c:1"]}}')
    r = t.run("keys", "--cluster", cluster, t.dir + "/keys")
    check(r.code == 0 and "keys for 3 tasks" in r.out, r.out + r.err)
    check({"ps-0.key", "ps-1.key", "chief-0.key", "client.key"} <= set(os.listdir(t.dir + "/keys")), "names")
    r = t.run("keys", "--cluster", cluster, "--ps", "2", t.dir + "/keys")
    check(r.code == 1 and "give either --cluster or --ps and --workers, not both" in r.err, r.err)
