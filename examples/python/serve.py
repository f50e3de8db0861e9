"""A model that Python trains and a C program serves: a SavedModel between them.

    millrace python examples/python/serve.py FOLDER      # trains, writes FOLDER
    build/gcc/examples/serve FOLDER 3 4                  # asks it, without Python (examples/serve.c)

The model learns the product of two numbers between 0 and 1.  FOLDER is to be new.
"""
import numpy as np

import millrace as tf

import options


def main(folder):
    tf.set_random_seed(1)
    random = np.random.RandomState(1)
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    h = tf.layers.dense(x, 32, activation=tf.nn.relu)
    product = tf.identity(tf.layers.dense(h, 1), name="product")
    loss = tf.losses.mean_squared_error(y, product)
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2000):
            pairs = random.uniform(0, 1, [64, 2])
            sess.run(train, feed_dict={x: pairs, y: pairs[:, :1] * pairs[:, 1:]})
        tf.saved_model.simple_save(sess, folder, inputs={"x": x}, outputs={"product": product})
        value, = sess.run(product, feed_dict={x: [[0.5, 0.8]]})[0]
    print("0.5 times 0.8 is %.4f; the model is in %s" % (value, folder))


if __name__ == "__main__":
    main(*options.read("FOLDER"))
