"""Reviews of films, good or bad."""

import json

import numpy as np

from ..utils.data_utils import get_file
from .texts import prepared

_ORIGIN = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"


def load_data(path="imdb.npz", num_words=None, skip_top=0, maxlen=None, seed=113, start_char=1, oov_char=2, index_from=3,
              **kwargs):
    """The lists are objects in the file: it must come from where it is trusted."""
    if "nb_words" in kwargs:
        num_words = kwargs.pop("nb_words")
    if kwargs:
        raise TypeError("Unrecognized keyword arguments: " + str(kwargs))
    with np.load(get_file(path, _ORIGIN + "imdb.npz"), allow_pickle=True) as f:
        x_train, y_train, x_test, y_test = f["x_train"], f["y_train"], f["x_test"], f["y_test"]
    random = np.random.RandomState(seed)
    orders = []
    for x in (x_train, x_test):
        order = np.arange(len(x))
        random.shuffle(order)
        orders.append(order)
    texts = list(x_train[orders[0]]) + list(x_test[orders[1]])
    labels = list(y_train[orders[0]]) + list(y_test[orders[1]])
    x, y = prepared(texts, labels, num_words, skip_top, maxlen, start_char, oov_char, index_from)
    n = len(x_train)
    return (x[:n], y[:n]), (x[n:], y[n:])


def get_word_index(path="imdb_word_index.json"):
    """Returns {word: its number}, from the cache or the network."""
    with open(get_file(path, _ORIGIN + "imdb_word_index.json")) as f:
        return json.load(f)
