"""News by subject."""

import json

import numpy as np

from ..utils.data_utils import get_file
from .texts import prepared

_ORIGIN = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"


def load_data(path="reuters.npz", num_words=None, skip_top=0, maxlen=None, test_split=0.2, seed=113, start_char=1, oov_char=2,
              index_from=3):
    """The lists are objects in the file: it must come from where it is trusted."""
    with np.load(get_file(path, _ORIGIN + "reuters.npz"), allow_pickle=True) as f:
        texts, labels = f["x"], f["y"]
    order = np.arange(len(texts))
    np.random.RandomState(seed).shuffle(order)
    x, y = prepared(list(texts[order]), list(labels[order]), num_words, skip_top, maxlen, start_char, oov_char, index_from)
    n = int(len(x) * (1 - test_split))
    return (x[:n], y[:n]), (x[n:], y[n:])


def get_word_index(path="reuters_word_index.json"):
    """Returns {word: its number}, from the cache or the network."""
    with open(get_file(path, _ORIGIN + "reuters_word_index.json")) as f:
        return json.load(f)
