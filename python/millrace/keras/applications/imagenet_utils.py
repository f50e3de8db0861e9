"""What networks for ImageNet share."""

import json

import numpy as np

from .. import backend as K
from ..utils.data_utils import get_file

_ORIGIN = "https://storage.googleapis.com/download.tensorflow.org/data/"
_MEAN = (103.939, 116.779, 123.68)  # of blue, green and red over ImageNet


def preprocess_input(x, data_format=None, mode="caffe"):
    """Red, green and blue of 0 to 255 as the network was trained with: blue first and without their means ("caffe"), from -1
    to 1 ("tf"), or by mean and deviation ("torch")."""
    first = (data_format or K.image_data_format()) == "channels_first"
    axis = (0 if x.ndim == 3 else 1) if first and hasattr(x, "ndim") else 1 if first else -1
    if mode == "tf":
        return x / 127.5 - 1.0
    if mode == "torch":
        x, mean, std = x / 255.0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    elif mode == "caffe":
        mean, std = _MEAN, None
        x = _reversed(x, axis)
    else:
        raise ValueError("Unknown mode " + str(mode))
    shape = [1] * len(x.shape)
    shape[axis] = 3
    x = x - np.asarray(mean, K.floatx()).reshape(shape)
    return x if std is None else x / np.asarray(std, K.floatx()).reshape(shape)


def _reversed(x, axis):
    if isinstance(x, np.ndarray):
        return np.flip(x.astype(K.floatx(), copy=False), axis)
    return K.reverse(x, axis % len(x.shape))


def decode_predictions(preds, top=5):
    """[(id, name, how likely)] of the most likely classes, for each row."""
    preds = np.asarray(preds)
    if preds.ndim != 2 or preds.shape[1] != 1000:
        raise ValueError("`decode_predictions` expects a batch of predictions (i.e. a 2D array of shape (samples, 1000)). "
                         "Found array with shape: %s" % (preds.shape,))
    path = get_file("imagenet_class_index.json", _ORIGIN + "imagenet_class_index.json", cache_subdir="models")
    with open(path) as f:
        names = json.load(f)
    return [[tuple(names[str(i)]) + (row[i],) for i in row.argsort()[-top:][::-1]] for row in preds]
