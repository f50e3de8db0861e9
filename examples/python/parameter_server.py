"""Sparse logistic regression with a parameter server: workers push gradients of the few weights an example has.

    python parameter_server.py [--servers=3] [--workers=2] [--steps=150] [--nokill]

Servers and workers are processes.  Half way one server is killed, a new one takes its place, and nothing that was pushed is lost: every
range of weights has a copy.  Weights are L1-regularised by FTRL at the servers, so most of them stay zero.
"""

import signal
import subprocess
import sys
import time

import numpy as np

import millrace as tf

import options

flags = tf.app.flags
flags.DEFINE_integer("servers", 3, "processes that hold weights")
flags.DEFINE_integer("workers", 2, "processes that push gradients")
flags.DEFINE_integer("steps", 150, "batches of each worker")
flags.DEFINE_boolean("kill", True, "kill a server half way")
flags.DEFINE_string("manager", None, "where the manager is (of servers and workers)")
flags.DEFINE_string("task", None, "server, or the number of a worker; started by this program itself")
FLAGS = flags.FLAGS

FEATURES, BATCH, PER_EXAMPLE, USEFUL = 100000, 500, 20, 1000


def batch(random):
    """Features of each example, few of them common and most rare, and labels that follow from USEFUL weights."""
    truth = np.zeros(FEATURES, np.float32)
    truth[:USEFUL] = np.random.RandomState(7).randn(USEFUL) * 2
    rows = np.minimum(random.zipf(1.3, [BATCH, PER_EXAMPLE]) - 1, FEATURES - 1)
    return rows, (truth[rows].sum(1) > 0).astype(np.float32)


def weights(client):
    return client.table("weights", num_keys=FEATURES, update="ftrl", rate=0.5, l1=0.002)


def server():
    with tf.ps.Server(FLAGS.manager):
        signal.pause()


def worker(number):
    random = np.random.RandomState(100 + number)
    with tf.ps.connect(FLAGS.manager, name="worker %d" % number, delay=4, compress=True) as client:
        table = weights(client)
        for _ in range(FLAGS.steps):
            rows, labels = batch(random)
            keys, places = np.unique(rows, return_inverse=True)
            places = places.reshape(rows.shape)
            w = table.pull(keys).wait()[:, 0]
            error = 1 / (1 + np.exp(-w[places].sum(1))) - labels
            gradient = np.bincount(places.ravel(), np.repeat(error, PER_EXAMPLE), len(keys)) / BATCH
            table.push(keys, gradient).wait()
            client.iteration()


def start(address, task):
    return subprocess.Popen([sys.executable, __file__, "--manager=" + address, "--task=" + task, "--steps=%d" % FLAGS.steps])


def wait_until(what, seconds=60):
    until = time.time() + seconds
    while not what() and time.time() < until:
        time.sleep(0.05)


def replace_a_server(address, servers, client):
    wait_until(lambda: client.stats()["servers"] == FLAGS.servers and client.settled())
    servers[0].kill()
    servers[0].wait()
    servers[0] = start(address, "server")
    print("a server was killed; another one takes its place")


def accuracy(table):
    w = table.values()[:, 0]
    rows, labels = batch(np.random.RandomState(1))
    return 100 * np.mean((w[rows].sum(1) > 0) == (labels > 0)), np.mean(w == 0)


def main(_):
    if FLAGS.task == "server":
        return server()
    if FLAGS.task:
        return worker(int(FLAGS.task))
    with tf.ps.Manager(servers=FLAGS.servers) as manager:
        servers = [start(manager.address, "server") for _ in range(FLAGS.servers)]
        workers = []
        try:
            with tf.ps.connect(manager.address, observer=True) as client:
                table = weights(client)
                workers = [start(manager.address, str(i)) for i in range(FLAGS.workers)]
                if FLAGS.kill:
                    replace_a_server(manager.address, servers, client)
                codes = [w.wait() for w in workers]
                right, zeros = accuracy(table)
        finally:
            for p in servers + workers:
                p.kill()
                p.wait()
    if any(codes):
        sys.exit("a worker failed: %s" % codes)
    print("%d workers, %d servers: accuracy %.1f %%, %.1f %% of the weights are zero" % (FLAGS.workers, FLAGS.servers, right, 100 * zeros))


if __name__ == "__main__":
    options.run(main)
