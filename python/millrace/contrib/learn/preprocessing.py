"""tf.contrib.learn.preprocessing: documents as rows of numbers of words, or of bytes."""
import collections
import pickle
import re

import numpy as np

from ...file_io import FileIO

__all__ = ["ByteProcessor", "CategoricalVocabulary", "CategoricalProcessor", "VocabularyProcessor", "tokenizer"]

# Acronyms, the parts of CamelCase, and whatever letters, digits, hyphens and apostrophes make.
TOKENIZER_RE = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE)


def tokenizer(iterator):
    """The words of each text."""
    for text in iterator:
        yield TOKENIZER_RE.findall(text)


class CategoricalVocabulary:
    """Numbers for words: new ones get the next number until it is frozen; 0 is for what is unknown."""

    def __init__(self, unknown_token="<UNK>", support_reverse=True):
        self._unknown_token, self._support_reverse, self._freeze = unknown_token, support_reverse, False
        self._freq = collections.defaultdict(int)
        self._start()

    def _start(self):
        self._mapping = {self._unknown_token: 0}
        self._reverse_mapping = [self._unknown_token] if self._support_reverse else None

    def _take(self, category):
        self._mapping[category] = len(self._mapping)
        if self._support_reverse:
            self._reverse_mapping.append(category)

    def __len__(self):
        return len(self._mapping)

    def freeze(self, freeze=True):
        self._freeze = freeze

    def get(self, category):
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._take(category)
        return self._mapping[category]

    def add(self, category, count=1):
        if self.get(category) > 0:
            self._freq[category] += count

    def trim(self, min_frequency, max_frequency=-1):
        """Keeps words seen more than min_frequency and, if that is positive, less than max_frequency times, the most frequent
        first.
        """
        by_name = sorted(self._freq.items(), key=lambda x: (isinstance(x[0], str), x[0]))
        kept = [(c, n) for c, n in sorted(by_name, key=lambda x: x[1], reverse=True)
                if n > min_frequency and not 0 < max_frequency <= n]
        self._start()
        for category, _ in kept:
            self._take(category)
        self._freq = collections.defaultdict(int, kept)

    def reverse(self, class_id):
        if not self._support_reverse:
            raise ValueError("This vocabulary wasn't initialized with support_reverse to support reverse() function.")
        return self._reverse_mapping[class_id]


class VocabularyProcessor:
    """Documents as rows of max_document_length numbers of words; what is shorter ends in zeros."""

    def __init__(self, max_document_length, min_frequency=0, vocabulary=None, tokenizer_fn=None):
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary if vocabulary is not None else CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents, unused_y=None):
        """Learns the words."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents, unused_y=None):
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents):
        for words in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            for i, word in zip(range(self.max_document_length), words):
                row[i] = self.vocabulary_.get(word)
            yield row

    def reverse(self, documents):
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(i) for i in row)

    def save(self, filename):
        with FileIO(filename, "wb") as f:
            f.write(pickle.dumps(self))

    @classmethod
    def restore(cls, filename):
        """Only use files from trusted sources: loading a file can run arbitrary code."""
        with FileIO(filename, "rb") as f:
            return pickle.loads(f.read())


class ByteProcessor:
    """Documents as rows of bytes of UTF-8."""

    def __init__(self, max_document_length):
        self.max_document_length = max_document_length

    def fit(self, x):
        return self

    def fit_transform(self, x):
        return self.transform(x)

    def transform(self, x):
        for document in x:
            data = document.encode("utf-8") if isinstance(document, str) else document
            row = np.zeros(self.max_document_length, np.uint8)
            data = np.frombuffer(data[:self.max_document_length], np.uint8)
            row[:len(data)] = data
            yield row

    @staticmethod
    def reverse(x):
        for row in x:
            yield bytes(bytearray(b for b in row if b)).decode("utf-8", "ignore")


class CategoricalProcessor:
    """Rows of categories as rows of numbers; each column has its own vocabulary."""

    def __init__(self, min_frequency=0, share=False, vocabularies=None):
        self.min_frequency, self.share, self.vocabularies_ = min_frequency, share, vocabularies

    def _vocabularies(self, n):
        if self.vocabularies_ is None:
            first = CategoricalVocabulary()
            self.vocabularies_ = [first if self.share or i == 0 else CategoricalVocabulary() for i in range(n)]
        return self.vocabularies_

    def freeze(self, freeze=True):
        for v in self.vocabularies_:
            v.freeze(freeze)

    def fit(self, x, unused_y=None):
        for row in x:
            for v, value in zip(self._vocabularies(len(row)), row):
                if value == value:  # NaN is not a category
                    v.add(value)
        if self.min_frequency > 0:
            for v in {id(v): v for v in self.vocabularies_}.values():
                v.trim(self.min_frequency)
        self.freeze()
        return self

    def fit_transform(self, x, unused_y=None):
        self.fit(x)
        return self.transform(x)

    def transform(self, x):
        self.freeze()
        for row in x:
            yield np.array([v.get(value) if value == value else 0 for v, value in zip(self.vocabularies_, row)], np.int64)
