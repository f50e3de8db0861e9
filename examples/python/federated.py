"""Federated averaging: clients that each know two digits train one network, and no digit leaves its client.

    python federated.py [--rounds=20] [--clients=20] [--fraction=0.5] [--secure] [--iid]

Digits are sorted and dealt in two pieces a client, after McMahan et al. 2017; with --secure the server sees nothing but sums
of updates.  MNIST comes from MNIST_DIR; without it, digits are drawn.
"""

import numpy as np

import millrace as tf
from millrace.examples.tutorials.mnist import input_data

import options

flags = tf.app.flags
flags.DEFINE_integer("rounds", 20, "rounds of averaging")
flags.DEFINE_integer("clients", 20, "how many there are")
flags.DEFINE_float("fraction", 0.5, "of the clients, asked in each round")
flags.DEFINE_float("rate", 0.1, "learning rate of the clients")
flags.DEFINE_boolean("secure", False, "the server sees only sums")
flags.DEFINE_boolean("iid", False, "all clients know all digits")
FLAGS = flags.FLAGS


def deal(images, labels, clients, iid):
    """Examples of each client: two pieces of the sorted digits, or as they come."""
    order = np.random.RandomState(1).permutation(len(labels)) if iid else np.argsort(labels, kind="stable")
    pieces = np.array_split(order, 2 * clients)
    mixed = np.random.RandomState(2).permutation(2 * clients)
    rows = [np.concatenate([pieces[a], pieces[b]]) for a, b in mixed.reshape(clients, 2)]
    return [(images[r], labels[r]) for r in rows]


def main(_):
    digits = input_data.read_data_sets(None)
    x = tf.placeholder(tf.float32, [None, 784])
    y = tf.placeholder(tf.int64, [None])
    rate = tf.placeholder(tf.float32, [])
    hidden = tf.layers.dense(x, 100, tf.nn.relu)
    logits = tf.layers.dense(hidden, 10)
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    train = tf.train.GradientDescentOptimizer(rate).minimize(loss)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
    work = tf.federated.Work([x, y], train, loss, rate)

    clients = deal(digits.train.images, digits.train.labels.astype(np.int64), FLAGS.clients, FLAGS.iid)
    test = {x: digits.test.images, y: digits.test.labels.astype(np.int64)}
    with tf.Session() as sess, tf.federated.Averaging(work, clients, fraction=FLAGS.fraction, epochs=1, batch=20, secure=FLAGS.secure,
                                                      server_momentum=0.5, seed=1) as averaging:
        for _ in range(FLAGS.rounds):
            report = averaging.round(rate=FLAGS.rate)
            averaging.load(sess)
            right = 100 * sess.run(accuracy, test)
            print("round %d: loss %.4f, %d updates, accuracy %.1f %%" % (report.round, report.loss, report.updates, right))
    print("federated averaging over %d clients: accuracy %.1f %%" % (FLAGS.clients, right))


if __name__ == "__main__":
    options.run(main)
