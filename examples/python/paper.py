"""The first program of the TensorFlow white paper: relu(W x + b), a cost, and a session in a loop.

    millrace python examples/python/paper.py [LOGS]

Where the paper leaves the cost open, here it is the distance to values that known weights make, and an optimizer lowers it.
"""
import numpy as np

import millrace as tf

import options

logs, = options.read("[LOGS]")  # a folder for summaries

tf.set_random_seed(1)
random = np.random.RandomState(1)
known_W, known_b = random.uniform(-1, 1, [784, 100]) / 28, random.uniform(0, 1, [100])

b = tf.Variable(tf.zeros([100]))                             # 100-d vector, initialized to zeros
W = tf.Variable(tf.random_uniform([784, 100], -1 / 28, 1 / 28))   # 784x100 matrix with random values
x = tf.placeholder(tf.float32, shape=[None, 784], name="x")  # placeholder for input
relu = tf.nn.relu(tf.matmul(x, W) + b)                       # relu(Wx+b)

target = tf.placeholder(tf.float32, shape=[None, 100], name="target")
C = tf.reduce_mean(tf.reduce_sum(tf.square(relu - target), 1))   # cost computed as a function of relu
train = tf.train.GradientDescentOptimizer(0.05).minimize(C)

tf.summary.scalar("cost", C)
tf.summary.histogram("W", W)
merged = tf.summary.merge_all()

s = tf.Session()
s.run(tf.global_variables_initializer())
writer = tf.summary.FileWriter(logs, s.graph) if logs else None
first = None
for step in range(0, 501):
    input = random.uniform(-1, 1, [50, 784])                 # 50 vectors of the input
    feed = {x: input, target: np.maximum(input @ known_W + known_b, 0)}
    result, summary, _ = s.run([C, merged, train], feed_dict=feed)  # fetch the cost, feeding x
    first = result if first is None else first
    if step % 100 == 0:
        print(step, result)
        if writer:
            writer.add_summary(summary, step)
if writer:
    writer.close()
print("cost fell from %.3g to %.3g" % (first, result))
