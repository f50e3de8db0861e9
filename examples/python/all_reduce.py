"""Data-parallel training by all-reduce, with Horovod's interface: every process has all variables, and all make the same step.

    millrace launch --ps 0 --workers 2 -- millrace python examples/python/all_reduce.py [--steps=N] [--batch=N]

Each process trains with batches of its own; what changes the variables is the mean of the gradients of all.
"""
import millrace as tf
import millrace.horovod as hvd

import digits
import options

flags = tf.flags
flags.DEFINE_integer("steps", 300, "steps to train")
flags.DEFINE_integer("batch", 50, "images of each process in a step")
FLAGS = flags.FLAGS


def network(images):
    h = tf.layers.dense(images, 128, tf.nn.relu)
    return tf.layers.dense(h, 10)


def main(_):
    hvd.init()
    data = digits.read(one_hot=False, seed=hvd.rank() + 1)  # batches of its own
    images = tf.placeholder(tf.float32, [None, 784])
    labels = tf.placeholder(tf.int32, [None])
    logits = network(images)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels), tf.float32))
    step = tf.train.get_or_create_global_step()
    train = hvd.DistributedOptimizer(tf.train.AdamOptimizer(0.001 * hvd.size())).minimize(loss, global_step=step)
    with tf.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as sess:
        for _ in range(FLAGS.steps):
            x, y = data.train.next_batch(FLAGS.batch)
            sess.run(train, {images: x, labels: y})
        hits = sess.run(accuracy, {images: data.test.images, labels: data.test.labels})
    if hvd.rank() == 0:
        print("%d processes, %d steps on %s: accuracy %.1f %%" % (hvd.size(), FLAGS.steps, data.name, 100 * hits))


if __name__ == "__main__":
    options.run(main)
