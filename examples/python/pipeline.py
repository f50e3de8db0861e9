"""A network in four stages on four devices, with micro-batches in flight.

    millrace python examples/python/pipeline.py [--order=fill-drain] [--micro=8]

The devices are simulated: each multiplies as slowly as it is told, whatever this machine has.  The same training is run with one
micro-batch, so that three of four devices always wait, and with several; the step gets shorter, the losses stay.
"""
import functools
import os
import time

import numpy as np

import millrace as tf

import options

flags = tf.app.flags
flags.DEFINE_integer("steps", 8, "how many")
flags.DEFINE_integer("micro", 8, "micro-batches")
flags.DEFINE_string("order", "1f1b", "of the work in a stage: 1f1b or fill-drain")
FLAGS = flags.FLAGS

STAGES, WIDTH, BATCH = 4, 64, 64
SPEED = 2 * BATCH * WIDTH * WIDTH / 40e-3  # a product of 64 rows takes 40 ms, other operations little


def layer(i, x, inputs):
    """A layer each; the last one compares with what is wanted."""
    last = i == STAGES - 1
    h = tf.layers.dense(x, WIDTH, None if last else tf.nn.tanh, name="layer%d" % i, kernel_initializer=tf.glorot_uniform_initializer(i))
    return tf.reduce_mean(tf.square(h - inputs[1])) if last else h


def train(micro):
    """(seconds a step, loss)"""
    random = np.random.RandomState(1)
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [None, WIDTH]), tf.placeholder(tf.float32, [None, WIDTH])
        step, loss = tf.pipeline.minimize([functools.partial(layer, i) for i in range(STAGES)], [x, y], tf.train.AdamOptimizer(0.01),
                                          ["/device:SIM:%d" % i for i in range(STAGES)], micro, order=FLAGS.order)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(FLAGS.steps + 1):
                if i == 1:  # the first one makes the program
                    began = time.monotonic()
                xs = random.uniform(-1, 1, [BATCH, WIDTH])
                value, _ = sess.run([loss, step], {x: xs, y: xs[:, ::-1] ** 2})
            return (time.monotonic() - began) / FLAGS.steps, value


def main(_):
    os.environ["MILLRACE_SIMULATE"] = ";".join("SIM:%d=flops_per_s=%g,bytes_per_s=1e12,op_us=20" % (i, SPEED) for i in range(STAGES))
    alone, loss = train(1)
    together, same = train(FLAGS.micro)
    p = tf.pipeline.predict([1] * STAGES, [1] + [2] * (STAGES - 1), FLAGS.micro, FLAGS.order)
    print("one stage at a time: %.1f ms a step, loss %.4f" % (1e3 * alone, loss))
    print("%d micro-batches:     %.1f ms a step, loss %.4f" % (FLAGS.micro, 1e3 * together, same))
    print("%.2f times as fast; by the model %.2f, with %.0f %% of the time idle; losses differ by %.6f" %
          (alone / together, p["alone"] / p["step"], 100 * p["bubble"], abs(loss - same)))


if __name__ == "__main__":
    options.run()
