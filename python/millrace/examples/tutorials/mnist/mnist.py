"""A network for MNIST of two hidden layers: inference, then loss, then training; and what it gets right."""
import math

import millrace as tf

NUM_CLASSES, IMAGE_SIZE = 10, 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _layer(scope, x, n_in, n_out, activation=None):
    with tf.name_scope(scope):
        weights = tf.Variable(tf.truncated_normal([n_in, n_out], stddev=1.0 / math.sqrt(float(n_in))), name="weights")
        biases = tf.Variable(tf.zeros([n_out]), name="biases")
        out = tf.matmul(x, weights) + biases
        return activation(out) if activation else out


def inference(images, hidden1_units, hidden2_units):
    """The logits of a batch of images [batch, 784]."""
    hidden1 = _layer("hidden1", images, IMAGE_PIXELS, hidden1_units, tf.nn.relu)
    hidden2 = _layer("hidden2", hidden1, hidden1_units, hidden2_units, tf.nn.relu)
    return _layer("softmax_linear", hidden2, hidden2_units, NUM_CLASSES)


def loss(logits, labels):
    return tf.losses.sparse_softmax_cross_entropy(labels=tf.to_int64(labels), logits=logits)


def training(loss, learning_rate):
    """The op of a step, which also counts steps in `global_step`."""
    tf.summary.scalar("loss", loss)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    return tf.train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=global_step)


def evaluation(logits, labels):
    """How many of the batch are right."""
    return tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
