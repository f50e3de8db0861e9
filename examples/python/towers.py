"""One model on several devices: a tower each, which share variables and whose gradients are averaged.

    millrace python examples/python/towers.py [--towers=N]

Towers stand on GPUs where there are some, else on as many CPU devices.
"""
import numpy as np

import millrace as tf

import options

flags = tf.app.flags
flags.DEFINE_integer("towers", 2, "how many")
FLAGS = flags.FLAGS


def model(x):
    h = tf.layers.dense(x, 32, activation=tf.nn.tanh, name="hidden")
    return tf.layers.dense(h, 1, name="out")


def average(tower_gradients):
    """One (gradient, variable) for the same pair of all towers."""
    averaged = []
    for pairs in zip(*tower_gradients):
        gradient = tf.reduce_mean(tf.stack([g for g, _ in pairs]), 0)
        averaged.append((gradient, pairs[0][1]))
    return averaged


def main(_):
    tf.set_random_seed(1)
    random = np.random.RandomState(1)
    config = tf.ConfigProto(device_count={"CPU": FLAGS.towers}, allow_soft_placement=True)
    with tf.Session(config=config) as probe:
        kinds = [d.device_type for d in probe.list_devices()]
    kind = "gpu" if kinds.count("GPU") >= FLAGS.towers else "cpu"
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    optimizer = tf.train.AdamOptimizer(0.01)
    gradients, losses = [], []
    for i, (part_x, part_y) in enumerate(zip(tf.split(x, FLAGS.towers), tf.split(y, FLAGS.towers))):
        with tf.device("/%s:%d" % (kind, i)), tf.name_scope("tower_%d" % i):
            with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
                losses.append(tf.losses.mean_squared_error(part_y, model(part_x)))
            gradients.append(optimizer.compute_gradients(losses[-1]))
    train = optimizer.apply_gradients(average(gradients))
    loss = tf.add_n(losses) / FLAGS.towers
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(1001):
            points = random.uniform(-1, 1, [32 * FLAGS.towers, 2])
            heights = np.sin(3 * points[:, :1]) * points[:, 1:]
            value, _ = sess.run([loss, train], feed_dict={x: points, y: heights})
            if step % 200 == 0:
                print("step %d loss %.4f" % (step, value))
    print("%d towers on %s, %d variables, loss %.4f" % (FLAGS.towers, kind, len(tf.trainable_variables()), value))


if __name__ == "__main__":
    options.run()
