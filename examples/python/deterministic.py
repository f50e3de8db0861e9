"""The same bits: with any number of threads, any order of workers, and any way of adding up.

    millrace python examples/python/deterministic.py

MILLRACE_DETERMINISTIC=1 is all that is asked for (set it to 0 to see what is there without it).  A network is trained with one thread and with several; gradients of four workers come to
an accumulator in different orders; three processes add up arrays by different algorithms.
"""
import hashlib
import itertools
import os
import socket
import subprocess
import sys

os.environ.setdefault("MILLRACE_DETERMINISTIC", "1")  # the library looks when it is first used

import numpy as np

import millrace as tf

import options

flags = tf.app.flags
flags.DEFINE_integer("rank", -1, "of a process that adds up arrays; started by this program itself")
flags.DEFINE_string("places", None, "of all of them")
FLAGS = flags.FLAGS

XS = np.random.RandomState(1).rand(96, 144).astype(np.float32)
YS = np.arange(96) % 10
MEMBERS, ALGORITHMS = 3, ("direct", "ring", "halving")


def digest(arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def train(threads):
    """The variables of a network after some steps; its dropout has no seed."""
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [None, 144]), tf.placeholder(tf.int64, [None])
        h = tf.layers.conv2d(tf.reshape(x, [-1, 12, 12, 1]), 16, 5, padding="same", activation=tf.nn.relu, name="conv")
        h = tf.nn.dropout(tf.layers.dense(tf.layers.flatten(h), 64, tf.nn.relu, name="hidden"), 0.5)
        loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(h, 10, name="out"))
        step = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
        config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads, use_per_session_threads=True)
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(5):
                sess.run(step, {x: XS, y: YS})
            return digest(sess.run(tf.trainable_variables()))


def accumulate(order):
    """The mean of four workers' gradients that come in this order."""
    with tf.Graph().as_default(), tf.Session() as sess:
        accumulator = tf.ConditionalAccumulator(tf.float32, shape=[1000])
        gradient = tf.placeholder(tf.float32, [1000])
        apply, mean = accumulator.apply_grad(gradient), accumulator.take_grad(4)
        for worker in order:
            sess.run(apply, {gradient: 1 / (np.arange(1000) % 17 + 3 * worker + 1)})
        return digest([sess.run(mean)])


def reduce_by(algorithm):
    """What three processes have added up: the same for all of them."""
    taken = [socket.socket() for _ in range(MEMBERS)]
    for s in taken:
        s.bind(("localhost", 0))
    places = ",".join("127.0.0.1:%d" % s.getsockname()[1] for s in taken)
    for s in taken:
        s.close()
    env = dict(os.environ, MILLRACE_GROUP_ALGORITHM=algorithm)
    members = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank=%d" % r, "--places=" + places], env=env,
                                stdout=subprocess.PIPE, text=True) for r in range(MEMBERS)]
    said = [m.communicate(timeout=120)[0].strip() for m in members]
    if any(m.returncode for m in members) or len(set(said)) != 1:
        raise RuntimeError("Members of a group disagree: %s" % said)
    return said[0]


def member(rank, places):
    with tf.collective.join(size=MEMBERS, rank=rank, transport="grpc", addresses=places) as group:
        values = (1 / (np.arange(30000) % 17 + 3 * rank + 1)).astype(np.float32)
        print(digest([group.all_reduce(values), group.all_reduce(values, "mean")]))


def main(_):
    if FLAGS.places:
        return member(FLAGS.rank, FLAGS.places)
    trained = [train(threads) for threads in (1, 2, 5)]
    print("threads: %d trainings, bits of %d kinds" % (len(trained), len(set(trained))))
    summed = [accumulate(order) for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 5)]
    print("workers: %d orders, bits of %d kinds" % (len(summed), len(set(summed))))
    reduced = [reduce_by(a) for a in ALGORITHMS]
    print("groups: %d algorithms, bits of %d kinds" % (len(reduced), len(set(reduced))))
    print("%d trainings and %d sums, bits of %d and %d kinds" %
          (len(trained), len(summed) + len(reduced), len(set(trained)), max(len(set(summed)), len(set(reduced)))))


if __name__ == "__main__":
    options.run()
