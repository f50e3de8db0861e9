"""A random forest whose trees are tensors: growing them is Python's, what is counted and decided is the graph's.

    millrace python examples/python/random_forest.py

All trees grow a level at a time.  Every node of a level is offered some random splits (a feature and a threshold); the graph
counts the classes on both sides of all of them at once, and the split with the least Gini impurity is taken.  A trained
forest is three tensors, and a prediction is a loop down the trees.
"""
import numpy as np

import millrace as tf

import options

N_TREES, DEPTH, N_SPLITS, N_CLASSES, N_FEATURES = 20, 6, 24, 3, 4


def make_data(n, random):
    """Three classes in four dimensions: two of them make rings, two are noise."""
    labels = random.randint(N_CLASSES, size=n)
    angle, radius = random.uniform(0, 2 * np.pi, n), 1.0 + labels + random.normal(0, 0.2, n)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), random.normal(size=n), random.normal(size=n)], 1)
    return points.astype(np.float32), labels.astype(np.int32)


def level_graph(width):
    """Placeholders and results of the growth of one level of one tree, which has `width` nodes."""
    p = {"points": tf.placeholder(tf.float32, [None, N_FEATURES]), "labels": tf.placeholder(tf.int32, [None]),
         "node": tf.placeholder(tf.int32, [None]), "feature": tf.placeholder(tf.int32, [width, N_SPLITS]),
         "threshold": tf.placeholder(tf.float32, [width, N_SPLITS])}
    features, thresholds = tf.gather(p["feature"], p["node"]), tf.gather(p["threshold"], p["node"])
    rows = tf.tile(tf.expand_dims(tf.range(tf.shape(p["points"])[0]), 1), [1, N_SPLITS])
    right = tf.cast(tf.gather_nd(p["points"], tf.stack([rows, features], 2)) > thresholds, tf.float32)
    one_hot = tf.expand_dims(tf.one_hot(p["labels"], N_CLASSES), 1)
    counts = [tf.unsorted_segment_sum(tf.expand_dims(side, 2) * one_hot, p["node"], width) for side in (1 - right, right)]
    impurity = sum(tf.reduce_sum(c, 2) - tf.reduce_sum(tf.square(c), 2) / tf.maximum(tf.reduce_sum(c, 2), 1.0) for c in counts)
    best = tf.argmin(impurity, 1, output_type=tf.int32)
    at = tf.stack([tf.range(width), best], 1)
    feature, threshold = tf.gather_nd(p["feature"], at), tf.gather_nd(p["threshold"], at)
    rows = tf.range(tf.shape(p["points"])[0])
    value = tf.gather_nd(p["points"], tf.stack([rows, tf.gather(feature, p["node"])], 1))
    child = 2 * p["node"] + tf.cast(value > tf.gather(threshold, p["node"]), tf.int32)
    return p, (feature, threshold, child)


def leaves_graph():
    labels, node = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    counts = tf.unsorted_segment_sum(tf.one_hot(labels, N_CLASSES), node, 2 ** DEPTH)
    return labels, node, counts / tf.maximum(tf.reduce_sum(counts, 1, keepdims=True), 1.0)


def grow(sess, levels, leaves, points, labels, random):
    """One tree on examples drawn with replacement: features and thresholds in the order of a heap, classes of its leaves."""
    drawn = random.randint(len(points), size=len(points))
    points, labels = points[drawn], labels[drawn]
    node, features, thresholds = np.zeros(len(points), np.int32), [], []
    for depth, (p, results) in enumerate(levels):
        feature = random.randint(N_FEATURES, size=(2 ** depth, N_SPLITS))
        threshold = points[random.randint(len(points), size=feature.shape), feature]
        f, t, node = sess.run(results, {p["points"]: points, p["labels"]: labels, p["node"]: node, p["feature"]: feature,
                                        p["threshold"]: threshold})
        features.append(f)
        thresholds.append(t)
    share = sess.run(leaves[2], {leaves[0]: labels, leaves[1]: node})
    return np.concatenate(features), np.concatenate(thresholds), share


def vote(x, features, thresholds, shares):
    """The class that most trees are for; tensors of all trees."""
    n = tf.shape(x)[0]
    trees = tf.tile(tf.expand_dims(tf.range(N_TREES), 1), [1, n])
    rows = tf.tile(tf.expand_dims(tf.range(n), 0), [N_TREES, 1])

    def down(depth, at):
        place = tf.stack([trees, at], 2)
        value = tf.gather_nd(x, tf.stack([rows, tf.gather_nd(features, place)], 2))
        return depth + 1, 2 * at + 1 + tf.cast(value > tf.gather_nd(thresholds, place), tf.int32)

    _, at = tf.while_loop(lambda depth, at: depth < DEPTH, down, [0, tf.zeros_like(trees)])
    leaf = at - (2 ** DEPTH - 1)
    return tf.argmax(tf.reduce_sum(tf.gather_nd(shares, tf.stack([trees, leaf], 2)), 0), 1)


def main(_):
    random = np.random.RandomState(1)
    points, labels = make_data(2000, random)
    test_points, test_labels = make_data(1000, random)
    levels, leaves = [level_graph(2 ** d) for d in range(DEPTH)], leaves_graph()
    with tf.Session() as sess:
        trees = [grow(sess, levels, leaves, points, labels, random) for _ in range(N_TREES)]
        x = tf.placeholder(tf.float32, [None, N_FEATURES])
        answer = vote(x, *[tf.constant(np.stack(part)) for part in zip(*trees)])
        accuracy = np.mean(sess.run(answer, {x: test_points}) == test_labels)
    print("%d trees of depth %d: accuracy %.2f %%" % (N_TREES, DEPTH, 100 * accuracy))


if __name__ == "__main__":
    options.run()
