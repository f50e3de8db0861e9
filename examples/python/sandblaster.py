"""Sandblaster L-BFGS: a coordinator minimises the loss over all digits by L-BFGS, and replicas compute portions of it.

    python sandblaster.py [--servers=2] [--replicas=2] [--iterations=40]

Servers and replicas are processes.  The coordinator, this one, never sees a parameter: vectors are added and multiplied on the servers.
The model is logistic regression, whose loss has one minimum.  MNIST comes from MNIST_DIR; without it, digits are drawn.
"""

import signal
import subprocess
import sys

import millrace as tf

import digits as examples
import options

flags = tf.app.flags
flags.DEFINE_integer("servers", 2, "processes that hold parameters")
flags.DEFINE_integer("replicas", 2, "processes that compute")
flags.DEFINE_integer("iterations", 40, "of L-BFGS, at most")
flags.DEFINE_float("l2", 0.001, "penalty")
flags.DEFINE_string("manager", None, "where the manager is (of servers and replicas)")
flags.DEFINE_string("coordinator", None, "where the coordinator is (of replicas)")
flags.DEFINE_string("task", None, "server or replica; started by this program itself")
FLAGS = flags.FLAGS

EXAMPLES = 5000


class Regression:
    def __init__(self):
        self.x = tf.placeholder(tf.float32, [None, 784])
        self.y = tf.placeholder(tf.float32, [None, 10])
        logits = tf.layers.dense(self.x, 10, kernel_initializer=tf.zeros_initializer())
        self.loss = tf.losses.softmax_cross_entropy(self.y, logits)
        self.right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(self.y, 1)), tf.float32))
        self.replica = tf.distbelief.SandblasterReplica(self.loss, [self.x, self.y])

    def session(self):
        sess = tf.Session()
        sess.run(tf.global_variables_initializer())
        return sess


def server():
    with tf.ps.Server(FLAGS.manager):
        signal.pause()


def replica():
    train, model = examples.read().train, Regression()
    images, labels = train.images[:EXAMPLES], train.labels[:EXAMPLES]
    with model.session() as sess, tf.ps.connect(FLAGS.manager, delay=tf.ps.EVENTUAL) as client:
        model.replica.work(sess, client, FLAGS.coordinator, lambda i, n: (images[i::n], labels[i::n]))


def start(task, manager, coordinator=""):
    return subprocess.Popen([sys.executable, __file__, "--task=" + task, "--manager=" + manager, "--coordinator=" + coordinator])


def report(iteration, loss, gradient_norm):
    if iteration % 10 == 0:
        print("iteration %d: loss %.5f, gradient %.5f" % (iteration, loss, gradient_norm))


def minimize(manager, client, replicas):
    with tf.distbelief.Sandblaster(client, portions=4 * FLAGS.replicas, iterations=FLAGS.iterations, l2=FLAGS.l2) as s:
        replicas += [start("replica", manager.address, s.address) for _ in range(FLAGS.replicas)]
        return s.minimize(report), s.stats()


def test(client):
    model, data = Regression(), examples.read().test
    with model.session() as sess:
        model.replica.fetch(sess, client)
        return 100 * sess.run(model.right, {model.x: data.images, model.y: data.labels})


def main(_):
    if FLAGS.task:
        return server() if FLAGS.task == "server" else replica()
    with tf.ps.Manager(servers=FLAGS.servers) as manager:
        servers, replicas = [start("server", manager.address) for _ in range(FLAGS.servers)], []
        try:
            with tf.ps.connect(manager.address, delay=tf.ps.EVENTUAL) as client:
                loss, stats = minimize(manager, client, replicas)
                codes = [r.wait() for r in replicas]
                right = test(client)
        finally:
            for p in servers + replicas:
                p.kill()
                p.wait()
    if any(codes):
        sys.exit("a replica failed: %s" % codes)
    print("%d replicas, %d servers, %d iterations: loss %.4f, the coordinator sent %d bytes, accuracy %.1f %%" %
          (FLAGS.replicas, FLAGS.servers, stats["iterations"], loss, stats["bytes_sent"], right))


if __name__ == "__main__":
    options.run(main)
