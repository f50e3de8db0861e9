"""MNIST and other data from files."""
import gzip
import os
import shutil
import struct
import tempfile
import unittest

import numpy as np

import millrace as tf
from millrace.contrib.learn.datasets import base
from millrace.examples.tutorials.mnist import input_data


def idx(array):
    return struct.pack(">%dI" % (1 + array.ndim), 0x800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


class Mnist(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.dir = tempfile.mkdtemp(prefix="millrace-py-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        former = {k: os.environ.pop(k, None) for k in ("MNIST_DIR", "MILLRACE_CACHE")}
        self.addCleanup(lambda: [os.environ.pop(k, None) if v is None else os.environ.__setitem__(k, v) for k,
                                 v in former.items()])
        os.environ["MILLRACE_CACHE"] = os.path.join(self.dir, "cache")

    def write(self, folder, packed=True, n=20):
        os.makedirs(folder, exist_ok=True)
        images = np.arange(n * 28 * 28).reshape(n, 28, 28) % 256
        for kind, count in (("train", n), ("t10k", n // 2)):
            for name, data in (("images-idx3-ubyte", images[:count]), ("labels-idx1-ubyte", np.arange(count) % 10)):
                path = os.path.join(folder, "%s-%s" % (kind, name))
                with gzip.open(path + ".gz", "wb") if packed else open(path, "wb") as f:
                    f.write(idx(data))
        return folder

    def test_sets_and_their_form(self):
        sets = input_data.read_data_sets(self.write(os.path.join(self.dir, "data")), one_hot=True, validation_size=4)
        self.assertEqual([d.num_examples for d in sets], [16, 4, 10])
        self.assertEqual((sets.train.images.shape, sets.train.images.dtype), ((16, 784), np.float32))
        self.assertEqual((sets.train.labels.shape, sets.train.labels[0].tolist().index(1)), ((16, 10), 4))
        self.assertEqual(sets.validation.images[0, 255], np.float32(255) * np.float32(1 / 255))
        raw = input_data.read_data_sets(os.path.join(self.dir, "data"), dtype=tf.uint8, reshape=False, validation_size=0)
        self.assertEqual((raw.train.images.shape, raw.train.images.dtype), ((20, 28, 28, 1), np.uint8))
        self.assertEqual(raw.test.labels.tolist(), list(range(10)))

    def test_where_the_files_are_looked_for(self):
        with self.assertRaisesRegex(FileNotFoundError, "tools/mnist.*MNIST_DIR"):
            input_data.read_data_sets(os.path.join(self.dir, "nothing"))
        self.write(os.path.join(self.dir, "cache", "mnist"), packed=False)
        self.assertEqual(input_data.read_data_sets("nothing", validation_size=2).train.num_examples, 18)
        os.environ["MNIST_DIR"] = self.write(os.path.join(self.dir, "other"), n=40)
        self.assertEqual(input_data.read_data_sets("nothing", validation_size=2).train.num_examples, 38)

    def test_batches(self):
        sets = input_data.read_data_sets(self.write(self.dir), validation_size=0, seed=7)
        train = sets.train
        seen = [label for _ in range(3) for label in train.next_batch(8)[1]]
        self.assertEqual(sorted(seen[:20]), sorted(list(range(10)) * 2))
        self.assertEqual(train.epochs_completed, 1)
        images, labels = train.next_batch(5, shuffle=False)
        self.assertEqual((images.shape, labels.shape), ((5, 784), (5,)))
        in_order = input_data.read_data_sets(self.dir, validation_size=0).train
        self.assertEqual(in_order.next_batch(6, shuffle=False)[1].tolist(), [0, 1, 2, 3, 4, 5])
        again = input_data.read_data_sets(self.dir, validation_size=0, seed=7).train
        np.random.seed(3)
        first = again.next_batch(20)[1].tolist()
        other = input_data.read_data_sets(self.dir, validation_size=0).train
        np.random.seed(3)
        self.assertEqual(other.next_batch(20)[1].tolist(), first)

    def test_images_and_labels_stay_together(self):
        train = input_data.read_data_sets(self.write(self.dir), validation_size=0, dtype=tf.uint8).train
        for _ in range(5):
            images, labels = train.next_batch(7)
            for image, label in zip(images, labels):
                self.assertIn((int(image[0]) - label * 784) % 256, (0, 10 * 784 % 256))

    def test_fake_data(self):
        sets = input_data.read_data_sets("nothing", fake_data=True, one_hot=True)
        images, labels = sets.train.next_batch(3)
        self.assertEqual((len(images), len(images[0]), labels[0]), (3, 784, [1] + [0] * 9))

    def test_wrong_arguments_and_files(self):
        self.write(self.dir)
        with self.assertRaisesRegex(ValueError, "between 0 and 20"):
            input_data.read_data_sets(self.dir, validation_size=21)
        with self.assertRaisesRegex(TypeError, "expected uint8 or float32"):
            input_data.read_data_sets(self.dir, dtype=tf.float64, validation_size=0)
        with gzip.open(os.path.join(self.dir, "train-labels-idx1-ubyte.gz"), "wb") as f:
            f.write(b"\0\0\0\0\0\0\0\0")
        with self.assertRaisesRegex(ValueError, "Invalid magic number"):
            input_data.read_data_sets(self.dir)


class Tables(unittest.TestCase):
    def test_csv(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
            f.write("2,3,a,b\n1,2,3,0\n4,5,6,1\n")
            f.flush()
            d = base.load_csv_with_header(filename=f.name, target_dtype=int, features_dtype=np.float32)
            self.assertEqual((d.data.tolist(), d.target.tolist(), d.data.dtype), ([[1, 2, 3], [4, 5, 6]], [0, 1], np.float32))
            self.assertEqual(base.load_iris(f.name).target.tolist(), [0, 1])
            f.seek(0)
            f.write("1;0\n".replace(";", ","))
            f.truncate()
            f.flush()
            d = base.load_csv_without_header(f.name, target_dtype=int, features_dtype=int, target_column=0)
            self.assertEqual((d.data.tolist(), d.target.tolist()), ([[0]], [1]))

    def test_a_missing_table_tells_what_to_do(self):
        with self.assertRaisesRegex(FileNotFoundError, "MILLRACE_DATA"):
            tf.contrib.learn.datasets.load_dataset("iris")
        with self.assertRaisesRegex(ValueError, "nothing"):
            tf.contrib.learn.datasets.load_dataset("nothing")

    def test_paths_of_tensorflow(self):
        import tensorflow.contrib.learn.python.learn.datasets.mnist as m  # noqa: F401
        from tensorflow.contrib.learn.python.learn.datasets import base as b
        from tensorflow.examples.tutorials.mnist import input_data as i
        self.assertIs(b, base)
        self.assertIs(i, input_data)
        self.assertIs(m.read_data_sets, i.read_data_sets)


class Words(unittest.TestCase):
    def test_documents_as_numbers(self):
        p = tf.contrib.learn.preprocessing.VocabularyProcessor(4)
        rows = list(p.fit_transform(["I like pie", "I don't like HTTPServer at all"]))
        self.assertEqual([r.tolist() for r in rows], [[1, 2, 3, 0], [1, 4, 2, 5]])
        self.assertEqual(rows[0].dtype, np.int64)
        self.assertEqual(len(p.vocabulary_), 9)
        self.assertEqual([r.tolist() for r in p.transform(["pie is new"])], [[3, 0, 0, 0]])
        self.assertEqual(list(p.reverse([[1, 2, 3, 0]])), ["I like pie <UNK>"])

    def test_rare_words_are_left_out(self):
        p = tf.contrib.learn.preprocessing.VocabularyProcessor(max_document_length=3, min_frequency=1)
        p.fit(["b a a", "b c a"])
        self.assertEqual(p.vocabulary_._mapping, {"<UNK>": 0, "a": 1, "b": 2})
        self.assertEqual(next(p.transform(["c b a"])).tolist(), [0, 2, 1])

    def test_saving(self):
        p = tf.contrib.learn.preprocessing.VocabularyProcessor(2).fit(["x y"])
        with tempfile.TemporaryDirectory() as d:
            p.save(os.path.join(d, "vocab"))
            again = tf.contrib.learn.preprocessing.VocabularyProcessor.restore(os.path.join(d, "vocab"))
        self.assertEqual(next(again.transform(["y x"])).tolist(), [2, 1])

    def test_bytes_and_categories(self):
        p = tf.contrib.learn.preprocessing.ByteProcessor(3)
        rows = list(p.fit_transform(["ab", "\u00e4xyz"]))
        self.assertEqual([r.tolist() for r in rows], [[97, 98, 0], [195, 164, 120]])
        self.assertEqual(list(p.reverse(rows)), ["ab", "\u00e4x"])
        c = tf.contrib.learn.preprocessing.CategoricalProcessor()
        self.assertEqual([r.tolist() for r in c.fit_transform([["0", "m"], ["1", "m"], ["1", float("nan")]])],
                         [[1, 1], [2, 1], [2, 0]])


if __name__ == "__main__":
    unittest.main()
