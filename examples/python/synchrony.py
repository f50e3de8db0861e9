"""Softmax regression on digits by workers that keep together as one flag says.

    millrace launch --ps 1 --workers 3 --synchrony backup -- millrace python examples/python/synchrony.py

or with the flag of the program itself, --synchrony=async|sync|backup|backup:K|bounded|bounded:T|all_reduce (the last needs no
parameter server: --ps 0).  With --slow=MS the last worker sleeps for so long in every step: with `sync` all wait for it, with
`backup` it is soon left out, with `bounded:T` nobody is more than T steps ahead.  At the end the chief tells how each worker
fared, where it knows it: its iterations, how long it waited for others, how many updates of others came while it worked on one,
and how many of its gradients came too late.
"""
import time

import millrace as tf

import digits
import options

flags = tf.app.flags
flags.DEFINE_string("synchrony", None, "how workers keep together; else as the launcher says, or async")
flags.DEFINE_integer("steps", 300, "training steps of the cluster")
flags.DEFINE_integer("slow", 0, "milliseconds that the last worker sleeps in each of its steps")
flags.DEFINE_string("checkpoints", None, "folder for checkpoints, which all see")
flags.DEFINE_string("dir", "", "folder with the idx files of MNIST")
FLAGS = flags.FLAGS


def build(task):
    with tf.device(task.device(FLAGS.synchrony)):
        x = tf.placeholder(tf.float32, [None, 784], name="images")
        y = tf.placeholder(tf.float32, [None, 10], name="labels")
        logits = tf.matmul(x, tf.Variable(tf.zeros([784, 10]), name="weights")) + tf.Variable(tf.zeros([10]), name="biases")
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1)), tf.float32))
    return x, y, loss, accuracy


def tell(training, task):
    for i in range(task.num_workers):
        f = training.figures(i)
        if f:
            print("worker %d: %d iterations, %d too late, waited %.1f s, staleness %.2f (at most %d)"
                  % (i, f["iterations"], f["late"], f["waited_s"], f["staleness"], f["staleness_max"]), flush=True)


def main(_):
    task = tf.cluster.Task()
    if task.worker < 0:
        task.serve()
    data = digits.read(FLAGS.dir, seed=task.worker + 1)  # batches of its own
    x, y, loss, accuracy = build(task)
    training = tf.cluster.Training(tf.train.MomentumOptimizer(0.1, 0.9), loss, task, synchrony=FLAGS.synchrony, checkpoints=FLAGS.checkpoints)
    with training.start():
        step = training.step
        while step < FLAGS.steps:
            while training.step < FLAGS.steps:
                images, labels = data.train.next_batch(100)
                training.train(loss, {x: images, y: labels})
                if FLAGS.slow and task.worker == task.num_workers - 1:
                    time.sleep(FLAGS.slow / 1000)
            step = training.finish()
        if training.is_chief:
            tell(training, task)
            right = training.run(accuracy, {x: data.test.images, y: data.test.labels})
            print("%s on %s: step %d, accuracy %.2f %%" % (training.synchrony, data.name, step, 100 * right), flush=True)


if __name__ == "__main__":
    options.run()
