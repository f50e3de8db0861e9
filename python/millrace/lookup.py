"""tf.lookup: tables that are filled once."""

import types as _types

from .ops.lookup import (KeyValueTensorInitializer, MutableDenseHashTable, StaticHashTable, StaticVocabularyTable,
                         TextFileIndex,
                         TextFileInitializer)

experimental = _types.SimpleNamespace(DenseHashTable=MutableDenseHashTable)
