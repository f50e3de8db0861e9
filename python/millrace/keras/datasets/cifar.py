"""Files of the CIFAR format."""

import pickle

import numpy as np


class _Arrays(pickle.Unpickler):
    """Only arrays and what they are made of: a file of data runs nothing."""

    def find_class(self, module, name):
        if module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype", "scalar", "_frombuffer"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError("A CIFAR file does not contain %s.%s" % (module, name))


def load_batch(path, label_key="labels"):
    """Reads one file of CIFAR, and returns images and labels."""
    with open(path, "rb") as f:
        d = {k.decode() if isinstance(k, bytes) else k: v for k, v in _Arrays(f, encoding="bytes").load().items()}
    return np.asarray(d["data"]).reshape(-1, 3, 32, 32), d[label_key]


def arranged(x_train, y_train, x_test, y_test):
    """Returns the arrays as pairs, with images in the default order of dimensions."""
    from .. import backend as K
    if K.image_data_format() == "channels_last":
        x_train, x_test = x_train.transpose(0, 2, 3, 1), x_test.transpose(0, 2, 3, 1)
    column = lambda y: np.reshape(y, (len(y), 1))
    return (x_train, column(y_train)), (x_test, column(y_test))
