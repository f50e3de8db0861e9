"""Text as numbers."""

import collections
import hashlib
import json

import numpy as np

_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


def text_to_word_sequence(text, filters=_FILTERS, lower=True, split=" "):
    """The words of a text."""
    text = text.lower() if lower else text
    text = text.translate({ord(c): split for c in filters})
    return [w for w in text.split(split) if w]


def one_hot(text, n, filters=_FILTERS, lower=True, split=" "):
    """Returns the words of a text as numbers from 1 to n - 1, by their hash; words may share a number."""
    return hashing_trick(text, n, hash_function=hash, filters=filters, lower=lower, split=split)


def hashing_trick(text, n, hash_function=None, filters=_FILTERS, lower=True, split=" "):
    """Returns the words of a text as numbers from 1 to n - 1, by their hash; words may share a number."""
    if hash_function is None:
        hash_function = hash
    elif hash_function == "md5":
        hash_function = lambda w: int(hashlib.md5(w.encode()).hexdigest(), 16)
    return [hash_function(w) % (n - 1) + 1 for w in text_to_word_sequence(text, filters, lower, split)]


class Tokenizer:
    """Numbers words, or characters, from 1 by how often they occur."""

    def __init__(self, num_words=None, filters=_FILTERS, lower=True, split=" ", char_level=False, oov_token=None,
                 document_count=0, **kwargs):
        if "nb_words" in kwargs:
            num_words = kwargs.pop("nb_words")
        if kwargs:
            raise TypeError("Unrecognized keyword arguments: " + str(kwargs))
        self.num_words, self.filters, self.lower, self.split = num_words, filters, lower, split
        self.char_level, self.oov_token, self.document_count = char_level, oov_token, document_count
        self.word_counts = collections.OrderedDict()
        self.word_docs, self.index_docs = collections.defaultdict(int), collections.defaultdict(int)
        self.word_index, self.index_word = {}, {}

    def _words(self, text):
        if self.char_level or isinstance(text, list):
            if self.lower:
                return [w.lower() for w in text] if isinstance(text, list) else list(text.lower())
            return list(text)
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts):
        """Counts the words of texts, and numbers them by how often they occur."""
        for text in texts:
            self.document_count += 1
            words = self._words(text)
            for w in words:
                self.word_counts[w] = self.word_counts.get(w, 0) + 1
            for w in set(words):
                self.word_docs[w] += 1
        ranked = [w for w, _ in sorted(self.word_counts.items(), key=lambda item: item[1], reverse=True)]
        if self.oov_token is not None:
            ranked.insert(0, self.oov_token)
        self.word_index = {w: i + 1 for i, w in enumerate(ranked)}
        self.index_word = {i: w for w, i in self.word_index.items()}
        for w, n in self.word_docs.items():
            self.index_docs[self.word_index[w]] = n

    def fit_on_sequences(self, sequences):
        """Counts in how many sequences each number occurs."""
        self.document_count += len(sequences)
        for s in sequences:
            for i in set(s):
                self.index_docs[i] += 1

    def texts_to_sequences(self, texts):
        """Returns texts as lists of the numbers of their words."""
        return list(self.texts_to_sequences_generator(texts))

    def texts_to_sequences_generator(self, texts):
        """Yields texts as lists of the numbers of their words."""
        oov = self.word_index.get(self.oov_token)
        for text in texts:
            row = []
            for w in self._words(text):
                i = self.word_index.get(w)
                if i is not None and (not self.num_words or i < self.num_words):
                    row.append(i)
                elif oov is not None:
                    row.append(oov)
            yield row

    def sequences_to_texts(self, sequences):
        """Returns lists of numbers as texts."""
        return list(self.sequences_to_texts_generator(sequences))

    def sequences_to_texts_generator(self, sequences):
        """Yields lists of numbers as texts."""
        oov = self.word_index.get(self.oov_token)
        for s in sequences:
            words = []
            for i in s:
                w = self.index_word.get(i)
                if w is not None and (not self.num_words or i < self.num_words):
                    words.append(w)
                elif oov is not None:
                    words.append(self.index_word[oov])
            yield " ".join(words)

    def texts_to_matrix(self, texts, mode="binary"):
        """Returns a matrix with a row for each text; mode is "binary", "count", "tfidf" or "freq"."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode=mode)

    def sequences_to_matrix(self, sequences, mode="binary"):
        """A row for each text, a column for each word: whether it is there, how often, ..."""
        if not self.num_words and not self.word_index:
            raise ValueError("Specify a dimension (`num_words` argument), or fit on some text data first.")
        n = self.num_words or len(self.word_index) + 1
        if mode == "tfidf" and not self.document_count:
            raise ValueError("Fit the Tokenizer on some data before using tfidf mode.")
        if mode not in ("count", "freq", "binary", "tfidf"):
            raise ValueError("Unknown vectorization mode:", mode)
        x = np.zeros((len(sequences), n))
        for row, s in zip(x, sequences):
            for i, count in collections.Counter(j for j in s if j < n).items():
                row[i] = self._entry(mode, i, count, len(s))
        return x

    def _entry(self, mode, i, count, length):
        if mode == "tfidf":
            return (1 + np.log(count)) * np.log(1 + self.document_count / (1 + self.index_docs.get(i, 0)))
        return {"count": count, "freq": count / length, "binary": 1}[mode]

    def get_config(self):
        """Returns the settings and counts as a dict."""
        return {"num_words": self.num_words, "filters": self.filters, "lower": self.lower, "split": self.split,
                "char_level": self.char_level, "oov_token": self.oov_token, "document_count": self.document_count,
                "word_counts": json.dumps(self.word_counts), "word_docs": json.dumps(self.word_docs),
                "index_docs": json.dumps(self.index_docs), "index_word": json.dumps(self.index_word),
                "word_index": json.dumps(self.word_index)}

    def to_json(self, **kwargs):
        """Returns the tokenizer as JSON; the arguments are those of json.dumps."""
        return json.dumps({"class_name": type(self).__name__, "config": self.get_config()}, **kwargs)


def tokenizer_from_json(json_string):
    """Makes a tokenizer from the result of to_json."""
    config = json.loads(json_string)["config"]
    kept = {k: json.loads(config.pop(k)) for k in ("word_counts", "word_docs", "index_docs", "index_word", "word_index")}
    made = Tokenizer(**config)
    made.word_counts = collections.OrderedDict(kept["word_counts"])
    made.word_docs.update(kept["word_docs"])
    made.index_docs.update((int(k), v) for k, v in kept["index_docs"].items())
    made.word_index, made.index_word = kept["word_index"], {int(k): v for k, v in kept["index_word"].items()}
    return made
