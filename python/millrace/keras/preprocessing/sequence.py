"""Sequences of numbers."""

import random

import numpy as np

from ..utils.data_utils import Sequence


def pad_sequences(sequences, maxlen=None, dtype="int32", padding="pre", truncating="pre", value=0.0):
    """Sequences as rows of one length: short ones are filled, long ones cut, before or after."""
    if not hasattr(sequences, "__len__"):
        raise ValueError("`sequences` must be iterable.")
    for s in sequences:
        if not hasattr(s, "__len__"):
            raise ValueError("`sequences` must be a list of iterables. Found non-iterable: " + str(s))
    if padding not in ("pre", "post"):
        raise ValueError('Padding type "%s" not understood' % padding)
    if truncating not in ("pre", "post"):
        raise ValueError('Truncating type "%s" not understood' % truncating)
    if isinstance(value, str) and dtype != object and not np.issubdtype(dtype, np.str_):
        raise ValueError("`dtype` %s is not compatible with `value`'s type: %s\nYou should set `dtype=object` for variable "
                         "length strings." % (dtype, type(value)))
    maxlen = maxlen if maxlen is not None else max((len(s) for s in sequences), default=0)
    sample = next((np.asarray(s).shape[1:] for s in sequences if len(s)), ())
    out = np.full((len(sequences), maxlen) + sample, value, dtype=dtype)
    for row, s in zip(out, sequences):
        cut = (s[-maxlen:] if truncating == "pre" else s[:maxlen]) if maxlen else s[:0]
        cut = np.asarray(cut, dtype=dtype)
        if len(cut) == 0:
            continue
        if cut.shape[1:] != sample:
            raise ValueError("Shape of sample %s of sequence is different from expected shape %s" % (cut.shape[1:], sample))
        if padding == "post":
            row[:len(cut)] = cut
        else:
            row[-len(cut):] = cut
    return out


def make_sampling_table(size, sampling_factor=1e-5):
    """Returns the probability of keeping the word of each rank, if ranks follow Zipf's law."""
    rank = np.arange(size)
    rank[0] = 1
    f = sampling_factor * (rank * (np.log(rank) + 0.577) + 0.5 - 1.0 / (12.0 * rank))  # the factor over the frequency
    return np.minimum(1.0, f / np.sqrt(f))


def skipgrams(sequence, vocabulary_size, window_size=4, negative_samples=1.0, shuffle=True, categorical=False,
              sampling_table=None, seed=None):
    """(pairs of words, labels): 1 for a word and one near it, 0 for a word and any one."""
    couples, labels = [], []
    for i, word in enumerate(sequence):
        if not word or sampling_table is not None and sampling_table[word] < random.random():
            continue
        for j in range(max(0, i - window_size), min(len(sequence), i + window_size + 1)):
            if j != i and sequence[j]:
                couples.append([word, sequence[j]])
                labels.append([0, 1] if categorical else 1)
    if negative_samples > 0:
        words = [c[0] for c in couples]
        random.shuffle(words)
        n = int(len(labels) * negative_samples)
        couples += [[words[i % len(words)], random.randint(1, vocabulary_size - 1)] for i in range(n)]
        labels += [[1, 0] if categorical else 0] * n
    if shuffle:
        seed = random.randint(0, 10 ** 7) if seed is None else seed
        for items in (couples, labels):
            random.Random(seed).shuffle(items)
    return couples, labels


class TimeseriesGenerator(Sequence):
    """A sequence of batches of windows of a series, each with the value that follows it."""

    def __init__(self, data, targets, length, sampling_rate=1, stride=1, start_index=0, end_index=None, shuffle=False,
                 reverse=False, batch_size=128):
        if len(data) != len(targets):
            raise ValueError("Data and targets have to be of same length. Data length is %d while target length is %d" %
                             (len(data), len(targets)))
        self.data, self.targets, self.length, self.sampling_rate, self.stride = data, targets, length, sampling_rate, stride
        self.start_index, self.end_index = start_index + length, len(data) - 1 if end_index is None else end_index
        self.shuffle, self.reverse, self.batch_size = shuffle, reverse, batch_size
        if self.start_index > self.end_index:
            raise ValueError("`start_index+length=%i > end_index=%i` is disallowed, as no part of the sequence would be left "
                             "to be used as current step." % (self.start_index, self.end_index))

    def __len__(self):
        return (self.end_index - self.start_index + self.batch_size * self.stride) // (self.batch_size * self.stride)

    def __getitem__(self, index):
        if self.shuffle:
            rows = np.random.randint(self.start_index, self.end_index + 1, size=self.batch_size)
        else:
            i = self.start_index + self.batch_size * self.stride * index
            rows = np.arange(i, min(i + self.batch_size * self.stride, self.end_index + 1), self.stride)
        samples = np.array([self.data[r - self.length:r:self.sampling_rate] for r in rows])
        targets = np.array([self.targets[r] for r in rows])
        return (samples[:, ::-1, ...], targets) if self.reverse else (samples, targets)
