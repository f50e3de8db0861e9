"""Input by tf.data: records in files, parsed, shuffled and batched by the graph itself.

    millrace python examples/python/data.py
"""
import os
import tempfile

import numpy as np

import millrace as tf

import options

CENTRES = np.array([[2, 0], [-1, 2], [-1, -2]], np.float32)


def write(path, n, seed):
    """Points around three centres, as tf.train.Example."""
    random = np.random.RandomState(seed)
    with tf.python_io.TFRecordWriter(path) as writer:
        for _ in range(n):
            label = random.randint(3)
            point = CENTRES[label] + random.normal(0, 0.5, 2)
            feature = {"point": tf.train.Feature(float_list=tf.train.FloatList(value=point)),
                       "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def parse(record):
    values = tf.parse_single_example(record, {"point": tf.FixedLenFeature([2], tf.float32),
                                              "label": tf.FixedLenFeature([], tf.int64)})
    return values["point"], values["label"]


def main(_):
    tf.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        train_files = [os.path.join(folder, "train-%d" % i) for i in range(3)]
        test_file = os.path.join(folder, "test")
        for i, path in enumerate(train_files + [test_file]):
            write(path, 300, i)
        train_set = (tf.data.Dataset.from_tensor_slices(train_files)
                     .interleave(tf.data.TFRecordDataset, cycle_length=3)
                     .map(parse, num_parallel_calls=2).shuffle(1000).repeat(5).batch(32).prefetch(1))
        test_set = tf.data.TFRecordDataset(test_file).map(parse).batch(300)
        iterator = tf.data.Iterator.from_structure(train_set.output_types, train_set.output_shapes)
        points, labels = iterator.get_next()
        logits = tf.layers.dense(points, 3)
        loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
        train = tf.train.AdamOptimizer(0.05).minimize(loss)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
        start_train, start_test = iterator.make_initializer(train_set), iterator.make_initializer(test_set)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(start_train)
            steps = 0
            while True:
                try:
                    value, _ = sess.run([loss, train])
                    steps += 1
                except tf.errors.OutOfRangeError:
                    break
            print("%d steps, last loss %.4f" % (steps, value))
            sess.run(start_test)
            print("accuracy %.2f %%" % (100 * sess.run(accuracy)))


if __name__ == "__main__":
    options.run()
