"""A generative adversarial network: one network makes points, another tells them from real ones; each learns from the other.

    millrace python examples/python/gan.py

Real points lie on a ring of eight heaps.  What the generator has learnt is told by how many of its points lie on a heap, and
on how many heaps they lie.
"""
import numpy as np

import millrace as tf

import options

HEAPS, DEVIATION, NOISE, BATCH, STEPS = 8, 0.05, 8, 256, 2500


def centres():
    angle = 2 * np.pi * np.arange(HEAPS) / HEAPS
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def real_points(random, n):
    return centres()[random.randint(HEAPS, size=n)] + random.normal(0, DEVIATION, (n, 2))


def generator(z):
    with tf.variable_scope("generator"):
        h = tf.layers.dense(z, 64, tf.nn.relu)
        h = tf.layers.dense(h, 64, tf.nn.relu)
        return tf.layers.dense(h, 2)


def discriminator(x, reuse=False):
    """The logit of being real."""
    with tf.variable_scope("discriminator", reuse=reuse):
        h = tf.layers.dense(x, 64, tf.nn.leaky_relu, name="first")
        h = tf.layers.dense(h, 64, tf.nn.leaky_relu, name="second")
        return tf.layers.dense(h, 1, name="logit")


def cross_entropy(logits, label):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=label * tf.ones_like(logits)))


def main(_):
    tf.set_random_seed(3)
    random = np.random.RandomState(3)
    real = tf.placeholder(tf.float32, [None, 2])
    z = tf.placeholder(tf.float32, [None, NOISE])
    made = generator(z)
    of_real, of_made = discriminator(real), discriminator(made, reuse=True)
    # Labels a little below one keep the discriminator from being too sure.
    d_loss = cross_entropy(of_real, 0.9) + cross_entropy(of_made, 0.0)
    g_loss = cross_entropy(of_made, 1.0)
    d_vars = tf.trainable_variables("discriminator")
    g_vars = tf.trainable_variables("generator")
    d_train = tf.train.AdamOptimizer(1e-3, beta1=0.5).minimize(d_loss, var_list=d_vars)
    g_train = tf.train.AdamOptimizer(1e-3, beta1=0.5).minimize(g_loss, var_list=g_vars)

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(1, STEPS + 1):
            feeds = {real: real_points(random, BATCH), z: random.normal(size=(BATCH, NOISE))}
            _, d = sess.run([d_train, d_loss], feeds)
            _, g = sess.run([g_train, g_loss], {z: random.normal(size=(BATCH, NOISE))})
            if step % 500 == 0:
                print("step %d: discriminator %.3f, generator %.3f" % (step, d, g))
        points = sess.run(made, {z: random.normal(size=(2000, NOISE))})

    away = np.sqrt(((points[:, None] - centres()[None]) ** 2).sum(2))
    good = away.min(1) < 5 * DEVIATION
    covered = len(set(away.argmin(1)[good]))
    print("%.1f %% of the points on %d of %d heaps" % (100 * good.mean(), covered, HEAPS))


if __name__ == "__main__":
    options.run()
