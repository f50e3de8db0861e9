"""tf.lookup: tables that are filled once."""

import types as _types

from .ops.lookup import (DenseHashTable, KeyValueTensorInitializer, StaticHashTable, StaticVocabularyTable,
                         TextFileIndex,
                         TextFileInitializer)

experimental = _types.SimpleNamespace(DenseHashTable=DenseHashTable)
