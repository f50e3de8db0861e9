"""The digits the examples train on: MNIST, or where it cannot be had, digits that are drawn here.

MNIST is taken from MNIST_DIR or from the cache that `make run` and tools/mnist fill.
"""
import collections
import sys

import _millrace
from millrace.contrib.learn.datasets.mnist import DataSet, dense_to_one_hot
from millrace.examples.tutorials.mnist import input_data

Digits = collections.namedtuple("Digits", "train test name")


def _drawn(test, one_hot, seed):
    images, labels = _millrace.generated_digits(test)
    labels = dense_to_one_hot(labels, 10) if one_hot else labels
    return DataSet(images * 255, labels, seed=seed)


def read(folder="", one_hot=True, seed=1):
    try:
        mnist = input_data.read_data_sets(folder, one_hot=one_hot, seed=seed, validation_size=0)
        return Digits(mnist.train, mnist.test, "MNIST")
    except FileNotFoundError as e:
        print("%s\nTraining on generated digits." % e, file=sys.stderr)
        return Digits(_drawn(False, one_hot, seed), _drawn(True, one_hot, seed), "generated digits")
