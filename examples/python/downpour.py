"""Downpour SGD: replicas of a network train against parameter servers, each on its own digits, and never wait for each other.

    python downpour.py [--servers=2] [--replicas=3] [--steps=300] [--nokill]

Servers and replicas are processes.  One replica is killed after a third of its steps; the others do not notice (Dean et al.
2012).  MNIST comes from MNIST_DIR; without it, digits are drawn.
"""

import os
import signal
import subprocess
import sys

import millrace as tf

import digits as examples
import options

flags = tf.app.flags
flags.DEFINE_integer("servers", 2, "processes that hold parameters")
flags.DEFINE_integer("replicas", 3, "processes that train")
flags.DEFINE_integer("steps", 300, "batches of each replica")
flags.DEFINE_float("rate", 0.05, "of Adagrad, at the servers")
flags.DEFINE_boolean("kill", True, "kill a replica on the way")
flags.DEFINE_integer("last", -1, "the replica that is killed (of replicas)")
flags.DEFINE_string("manager", None, "where the manager is (of servers and replicas)")
flags.DEFINE_string("task", None, "server, or the number of a replica; started by this program itself")
FLAGS = flags.FLAGS

BATCH = 50


class Network:
    def __init__(self, replica):
        self.x = tf.placeholder(tf.float32, [None, 784])
        self.y = tf.placeholder(tf.float32, [None, 10])
        logits = tf.layers.dense(tf.layers.dense(self.x, 64, tf.nn.relu), 10)
        self.loss = tf.losses.softmax_cross_entropy(self.y, logits)
        self.right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(self.y, 1)), tf.float32))
        # The second replica would give the initial values when the first has not done so within its patience.
        self.downpour = tf.distbelief.Downpour(self.loss, replica, rate=FLAGS.rate, n_fetch=2, n_push=2, patience_ms=30000)

    def session(self):
        sess = tf.Session()
        sess.run(tf.global_variables_initializer())
        return sess


def server():
    with tf.ps.Server(FLAGS.manager):
        signal.pause()


def replica(number):
    train = examples.read(seed=number).train
    network = Network(number)
    with network.session() as sess, tf.ps.connect(FLAGS.manager, delay=tf.ps.EVENTUAL) as client, \
            network.downpour.start(sess, client) as downpour:
        for step in range(FLAGS.steps):
            if number == FLAGS.last and step == FLAGS.steps // 3:
                os.kill(os.getpid(), signal.SIGKILL)
            images, labels = train.next_batch(BATCH)
            downpour.train(network.loss, {network.x: images, network.y: labels})
        downpour.finish()


def start(address, task):
    return subprocess.Popen([sys.executable, __file__, "--manager=" + address, "--task=" + task, "--steps=%d" % FLAGS.steps,
                             "--rate=%g" % FLAGS.rate, "--last=%d" % (FLAGS.replicas - 1 if FLAGS.kill and FLAGS.replicas > 1 else -1)])


def test(address):
    """Accuracy with what the servers have, and the steps that made it."""
    network, data = Network(FLAGS.replicas), examples.read().test
    with network.session() as sess, tf.ps.connect(address) as client, network.downpour.start(sess, client) as downpour:
        return 100 * sess.run(network.right, {network.x: data.images, network.y: data.labels}), downpour.stats()["steps_of_all"]


def main(_):
    if FLAGS.task == "server":
        return server()
    if FLAGS.task:
        return replica(int(FLAGS.task))
    with tf.ps.Manager(servers=FLAGS.servers) as manager:
        servers = [start(manager.address, "server") for _ in range(FLAGS.servers)]
        replicas = [start(manager.address, str(i)) for i in range(FLAGS.replicas)]
        try:
            codes = [r.wait() for r in replicas]
            right, steps = test(manager.address)
        finally:
            for p in servers + replicas:
                p.kill()
                p.wait()
    if any(codes[:-1]) or codes[-1] not in (0, -signal.SIGKILL):
        sys.exit("a replica failed: %s" % codes)
    print("%d replicas, %d killed, %d servers: %d steps, accuracy %.1f %%" % (FLAGS.replicas, codes[-1] != 0, FLAGS.servers, steps, right))


if __name__ == "__main__":
    options.run(main)
