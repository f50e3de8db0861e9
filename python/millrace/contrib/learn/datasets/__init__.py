"""tf.contrib.learn.datasets: small collections of data, from files that are there."""
from . import base, mnist
from .base import Dataset, Datasets, load_boston, load_csv_with_header, load_csv_without_header, load_iris
from .mnist import load_mnist, read_data_sets

__all__ = ["DATASETS", "Dataset", "Datasets", "base", "load_boston", "load_csv_with_header", "load_csv_without_header",
           "load_dataset",
           "load_iris", "load_mnist", "mnist", "read_data_sets"]

DATASETS = {"iris": load_iris, "boston": load_boston, "mnist": load_mnist}


def load_dataset(name, size="small", test_with_fake_data=False):
    """A collection by its name."""
    if name not in DATASETS:
        raise ValueError("Name of dataset is not found: %s. Known are: %s" % (name, ", ".join(sorted(DATASETS))))
    if size != "small" or test_with_fake_data:
        raise NotImplementedError("load_dataset does not support other sizes or fake data")
    return DATASETS[name]()
