"""k-means: points are given to the nearest of k centres, which move to the middle of theirs, until nothing changes.

    millrace python examples/python/kmeans.py

Both halves of a round are one graph: distances by broadcasting, middles by sums over segments.
"""
import numpy as np

import millrace as tf

import options

K, POINTS, ROUNDS = 4, 2000, 100
TRUE = np.array([[0, 0], [6, 1], [1, 7], [-5, 4]], np.float32)


def make_points(seed=2):
    random = np.random.RandomState(seed)
    labels = random.randint(K, size=POINTS)
    return (TRUE[labels] + random.normal(0, 0.8, (POINTS, 2))).astype(np.float32)


def spread_out(points, k, seed=2):
    """First centres that are far from each other: each is the point that is farthest from those before it."""
    chosen = [points[np.random.RandomState(seed).randint(len(points))]]
    while len(chosen) < k:
        away = np.min([((points - c) ** 2).sum(1) for c in chosen], axis=0)
        chosen.append(points[away.argmax()])
    return np.array(chosen)


def main(_):
    points = make_points()
    data = tf.constant(points)
    centres = tf.Variable(spread_out(points, K), name="centres")
    nearest = tf.Variable(tf.zeros([POINTS], tf.int64), trainable=False, name="nearest")

    distances = tf.reduce_sum(tf.squared_difference(tf.expand_dims(data, 1), tf.expand_dims(centres, 0)), axis=2)
    assigned = tf.argmin(distances, axis=1)
    inertia = tf.reduce_mean(tf.reduce_min(distances, axis=1))
    changed = tf.reduce_sum(tf.cast(tf.not_equal(assigned, nearest), tf.int32))
    counts = tf.unsorted_segment_sum(tf.ones([POINTS]), assigned, K)
    sums = tf.unsorted_segment_sum(data, assigned, K)
    middles = tf.where(counts > 0, sums / tf.expand_dims(tf.maximum(counts, 1), 1), centres)
    with tf.control_dependencies([changed, middles]):
        step = tf.group(tf.assign(nearest, assigned), tf.assign(centres, middles))

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(ROUNDS):
            moved, mean, _ = sess.run([changed, inertia, step])
            print("round %d: %d points changed, mean square distance %.4f" % (i + 1, moved, mean))
            if i and moved == 0:
                break
        found = sess.run(centres)
    off = max(np.sqrt(((found - t) ** 2).sum(1)).min() for t in TRUE)
    print("%d centres after %d rounds, each within %.3f of a true one" % (K, i + 1, off))


if __name__ == "__main__":
    options.run()
