"""A line through points: the least squares found by gradient descent, and the same in closed form.

    millrace python examples/python/regression.py
"""
import numpy as np

import millrace as tf

import options

RATE, EPOCHS, SHOW_EVERY = 0.05, 400, 100


def points(n=200, seed=3):
    """Around y = 0.7 x - 1.5, with noise."""
    random = np.random.RandomState(seed)
    x = random.uniform(-3, 3, n).astype(np.float32)
    return x, (0.7 * x - 1.5 + random.normal(0, 0.2, n)).astype(np.float32)


def main(_):
    xs, ys = points()
    x = tf.placeholder(tf.float32, name="x")
    y = tf.placeholder(tf.float32, name="y")
    weight = tf.Variable(0.0, name="weight")
    bias = tf.Variable(0.0, name="bias")
    cost = tf.reduce_mean(tf.square(weight * x + bias - y))
    train = tf.train.GradientDescentOptimizer(RATE).minimize(cost)

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for epoch in range(EPOCHS):
            _, value = sess.run([train, cost], feed_dict={x: xs, y: ys})
            if (epoch + 1) % SHOW_EVERY == 0:
                print("epoch %d: cost %.5f" % (epoch + 1, value))
        found = sess.run([weight, bias])
        # The same by the normal equations, on the graph too.
        rows = tf.stack([xs, tf.ones_like(xs)], axis=1)
        exact = sess.run(tf.matrix_solve_ls(rows, ys[:, None], fast=True))[:, 0]
    off = np.abs(np.array(found) - exact).max()
    print("y = %.4f x + %.4f; off the least squares by %.6f" % (found[0], found[1], off))


if __name__ == "__main__":
    options.run()
