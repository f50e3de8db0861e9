"""tf.contrib.lookup: tables."""

from ..ops.lookup import *
from ..ops.lookup import (FastHashSpec, HasherSpec, HashTable, IdTableWithHashBuckets, KeyValueTensorInitializer,
                          LookupInterface,
                          MutableDenseHashTable, MutableHashTable, StrongHashSpec, TextFileIdTableInitializer, TextFileIndex,
                          TextFileInitializer, TextFileStringTableInitializer, index_table_from_file, index_table_from_mapping,
                          index_table_from_tensor, index_to_string, index_to_string_table_from_file,
                          index_to_string_table_from_mapping, index_to_string_table_from_tensor, string_to_index)
