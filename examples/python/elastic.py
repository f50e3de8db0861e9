"""Elastic all-reduce: every worker has all variables, and all make the same step.  One is killed on the way and comes back.

    millrace launch --ps 1 --workers 3 -- millrace python examples/python/elastic.py [--steps=N] [--nokill]

The last worker kills itself after a third of the steps.  The others go on without it, with the variables that they have; the launcher
starts it again, it takes theirs, and is in the group again.  The parameter server has no variables: it only knows who is in, so that any
worker may be lost.  (With --ps 0 the first worker knows it, and the others wait for that one when it is gone.)
"""
import os
import signal
import time

import millrace as tf

import digits
import options

flags = tf.app.flags
flags.DEFINE_integer("steps", 300, "steps to train; more, until all workers are in again")
flags.DEFINE_integer("batch", 50, "images of each worker in a step")
flags.DEFINE_boolean("kill", True, "the last worker kills itself on the way")
flags.DEFINE_string("checkpoints", None, "folder for checkpoints")
flags.DEFINE_string("dir", "", "folder with the idx files of MNIST")
FLAGS = flags.FLAGS


def build(task):
    with tf.device(task.device("all_reduce")):  # all of it on this worker
        x = tf.placeholder(tf.float32, [None, 784], name="images")
        y = tf.placeholder(tf.float32, [None, 10], name="labels")
        logits = tf.layers.dense(tf.layers.dense(x, 64, tf.nn.relu), 10)
        loss = tf.losses.softmax_cross_entropy(y, logits)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1)), tf.float32))
    return x, y, loss, accuracy


def train(training, task, data, x, y, loss):
    """Who is in a step sees the same size of the group behind it, so all end with the same one."""
    killed_at = FLAGS.steps // 3 if FLAGS.kill and task.worker == task.num_workers - 1 else -1
    generation, size = training.generation, 0
    while training.step < FLAGS.steps or size < task.num_workers:
        images, labels = data.train.next_batch(FLAGS.batch)
        value = training.train(loss, {x: images, y: labels})
        if training.generation != generation and training.is_chief:
            print("step %d: %d workers, loss %.3f" % (training.step, training.size, value), flush=True)
        generation, size = training.generation, training.size
        if training.step == killed_at:  # when it is back, the others are further
            os.kill(os.getpid(), signal.SIGKILL)
        if training.step > FLAGS.steps:
            time.sleep(0.05)  # for one that is on its way back


def main(_):
    task = tf.cluster.Task()
    if task.worker < 0:
        task.serve()
    data = digits.read(FLAGS.dir, seed=task.worker + 1)  # batches of its own
    x, y, loss, accuracy = build(task)
    training = tf.cluster.Training(tf.train.AdamOptimizer(0.002), loss, task, synchrony="all_reduce", checkpoints=FLAGS.checkpoints)
    with training.start():
        train(training, task, data, x, y, loss)
        training.finish()
        if training.is_chief:
            right = training.run(accuracy, {x: data.test.images, y: data.test.labels})
            print("%d workers in generation %d on %s: accuracy %.1f %%" % (training.size, training.generation, data.name, 100 * right), flush=True)


if __name__ == "__main__":
    options.run()
