"""Texts as lists of the ranks of their words."""

import numpy as np


def prepared(texts, labels, num_words, skip_top, maxlen, start_char, oov_char, index_from):
    """Ranks shifted to make room for the marks, and cut to what was asked for."""
    if start_char is not None:
        texts = [[start_char] + [w + index_from for w in t] for t in texts]
    elif index_from:
        texts = [[w + index_from for w in t] for t in texts]
    if maxlen:
        kept = [(t, y) for t, y in zip(texts, labels) if len(t) < maxlen]
        texts, labels = [t for t, _ in kept], [y for _, y in kept]
        if not texts:
            raise ValueError("After filtering for sequences shorter than maxlen=%s, no sequence was kept. Increase maxlen." %
                             maxlen)
    num_words = num_words or max(max(t) for t in texts)
    if oov_char is not None:
        texts = [[w if skip_top <= w < num_words else oov_char for w in t] for t in texts]
    else:
        texts = [[w for w in t if skip_top <= w < num_words] for t in texts]
    out = np.empty(len(texts), dtype=object)
    out[:] = texts
    return out, np.array(labels)
