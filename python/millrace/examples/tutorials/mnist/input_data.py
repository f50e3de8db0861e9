"""The MNIST digits: `mnist = input_data.read_data_sets("MNIST_data/", one_hot=True)`."""
from ....contrib.learn.datasets.base import Datasets, maybe_download  # noqa: F401
from ....contrib.learn.datasets.mnist import (DataSet, dense_to_one_hot, extract_images, extract_labels,  # noqa: F401
                                              load_mnist, read_data_sets)
