"""Tables from keys to values: tf.lookup, tf.contrib.lookup.

A table is a resource.  One that is filled once has an initializer, which is put into the collection that tf.tables_initializer
runs; a mutable one is changed by operations.  Keys may be sparse tensors; then the values are too.
"""

import collections

from ..framework import convert, dtypes, ops, sparse
from ..framework.op_defs import call
from . import array, control_flow, math

__all__ = ["initialize_all_tables", "tables_initializer"]


def tables_initializer(name="init_all_tables"):
    """The operation that fills all tables."""
    initializers = ops.get_collection(ops.GraphKeys.TABLE_INITIALIZERS)
    return control_flow.group(*initializers, name=name) if initializers else control_flow.no_op(name=name)


initialize_all_tables = tables_initializer


# ---- how a table is filled ----

class TableInitializerBase:
    def __init__(self, key_dtype, value_dtype):
        self._key_dtype, self._value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)

    key_dtype = property(lambda self: self._key_dtype)
    value_dtype = property(lambda self: self._value_dtype)
    _shared_name = ""


class KeyValueTensorInitializer(TableInitializerBase):
    """With pairs of keys and values."""

    def __init__(self, keys, values, key_dtype=None, value_dtype=None, name=None):
        with ops.name_scope(name, "key_value_init") as scope:
            self._keys = convert.convert_to_tensor(keys, key_dtype, name="keys")
            self._values = convert.convert_to_tensor(values, value_dtype, name="values")
        self._name = scope
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table):
        with ops.name_scope(self._name) as scope:
            op = call("InitializeTableV2", scope, table_handle=table.resource_handle, keys=self._keys, values=self._values)
        ops.add_to_collection(ops.GraphKeys.TABLE_INITIALIZERS, op)
        return op


class TextFileIndex:
    """What of a line is meant, beside the number of a column."""
    WHOLE_LINE, LINE_NUMBER = -2, -1


class TextFileInitializer(TableInitializerBase):
    """With the lines of a file."""

    def __init__(self, filename, key_dtype, key_index, value_dtype, value_index, vocab_size=None, delimiter="\t", name=None):
        if not isinstance(filename, ops.Tensor) and not filename:
            raise ValueError("Filename required")
        key_dtype, value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        for what, index, dtype in ("key", key_index, key_dtype), ("value", value_index, value_dtype):
            if index < -2:
                raise ValueError("Invalid %s index %s." % (what, index))
            if index == TextFileIndex.LINE_NUMBER and dtype is not dtypes.int64:
                raise ValueError("Signature mismatch. %s must be dtype %s, got %s." % (what.title() + "s", dtypes.int64, dtype))
            if index == TextFileIndex.WHOLE_LINE and not (dtype.is_integer or dtype is dtypes.string):
                raise ValueError("Signature mismatch. %s must be integer or string, got %s." % (what.title() + "s", dtype))
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError("Invalid vocab_size %s." % vocab_size)
        self._file, self._key_index, self._value_index = filename, key_index, value_index
        self._vocab_size, self._delimiter, self._name = vocab_size, delimiter, name
        super().__init__(key_dtype, value_dtype)

    @property
    def _shared_name(self):
        """Tables of one file can be one."""
        if isinstance(self._file, ops.Tensor):
            return ""
        return "hash_table_%s_%s_%s_%s" % (self._file, "" if self._vocab_size is None else self._vocab_size, self._key_index,
                                           self._value_index)

    def initialize(self, table):
        with ops.name_scope(self._name, "text_file_init") as scope:
            filename = convert.convert_to_tensor(self._file, dtypes.string, name="asset_filepath")
            op = call("InitializeTableFromTextFileV2", scope, table_handle=table.resource_handle, filename=filename,
                      key_index=self._key_index, value_index=self._value_index,
                      vocab_size=-1 if self._vocab_size is None else self._vocab_size, delimiter=self._delimiter)
        ops.add_to_collection(ops.GraphKeys.TABLE_INITIALIZERS, op)
        if convert.is_constant(filename):
            ops.add_to_collection(ops.GraphKeys.ASSET_FILEPATHS, filename)
        return op


class TextFileStringTableInitializer(TextFileInitializer):
    """From the number of a line to its text."""

    def __init__(self, filename, key_column_index=TextFileIndex.LINE_NUMBER, value_column_index=TextFileIndex.WHOLE_LINE,
                 vocab_size=None, delimiter="\t", name="text_file_string_table_init"):
        super().__init__(filename, dtypes.int64, key_column_index, dtypes.string, value_column_index, vocab_size, delimiter,
                         name)


class TextFileIdTableInitializer(TextFileInitializer):
    """From the text of a line to its number."""

    def __init__(self, filename, key_column_index=TextFileIndex.WHOLE_LINE, value_column_index=TextFileIndex.LINE_NUMBER,
                 vocab_size=None, delimiter="\t", name="text_file_id_table_init", key_dtype=dtypes.string):
        super().__init__(filename, key_dtype, key_column_index, dtypes.int64, value_column_index, vocab_size, delimiter, name)


# ---- tables ----

def _of_values(keys, f):
    """f of the keys, or of the values of sparse keys."""
    if isinstance(keys, sparse.SparseTensor):
        return sparse.SparseTensor(keys.indices, f(keys.values), keys.dense_shape)
    return f(keys)


class LookupInterface:
    """A table."""

    def __init__(self, key_dtype, value_dtype):
        self._key_dtype, self._value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)

    key_dtype = property(lambda self: self._key_dtype)
    value_dtype = property(lambda self: self._value_dtype)
    resource_handle = property(lambda self: self._table)
    table_ref = property(lambda self: self._table)
    _value_shape = ()

    @property
    def name(self):
        return self._table.op.name

    def size(self, name=None):
        with ops.name_scope(name, "%s_Size" % self.name):
            return call("LookupTableSizeV2", None, table_handle=self._table)

    def lookup(self, keys, name=None):
        """The values of keys; the default for those that are not there."""
        if not isinstance(keys, sparse.SparseTensor):
            keys = convert.convert_to_tensor(keys, self._key_dtype if not hasattr(keys, "dtype") else None, name="keys")
        if keys.dtype.base_dtype is not self._key_dtype:
            raise TypeError("Signature mismatch. Keys must be dtype %s, got %s." % (self._key_dtype, keys.dtype))
        with ops.name_scope(name, "%s_Lookup" % self.name.replace(":", "_")):
            return _of_values(keys, self._find)

    def _find(self, keys):
        found = call("LookupTableFindV2", None, table_handle=self._table, keys=keys, default_value=self._default_value)
        found.set_shape(keys.shape.concatenate(self._value_shape))
        return found

    def export(self, name=None):
        """(keys, values), all of them."""
        with ops.name_scope(name, "%s_lookup_table_export_values" % self.name):
            return call("LookupTableExportV2", None, table_handle=self._table, Tkeys=self._key_dtype, Tvalues=self._value_dtype)


class StaticHashTable(LookupInterface):
    """A table that its initializer fills."""

    def __init__(self, initializer, default_value, shared_name=None, name=None):
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        with ops.name_scope(None, "hash_table") as scope:
            self._default_value = convert.convert_to_tensor(default_value, self._value_dtype)
            self._table = call("HashTableV2", name or scope, shared_name=shared_name or initializer._shared_name,
                               key_dtype=self._key_dtype, value_dtype=self._value_dtype)
            self._init_op = initializer.initialize(self)

    initializer = property(lambda self: self._init_op)
    init = initializer
    default_value = property(lambda self: self._default_value)


StaticHashTableV1 = HashTable = StaticHashTable


def _saveable(table, name):
    """What a saver saves of a table: its keys and its values."""
    from ..train.saveable import SaveableObject, SaveSpec  # which comes after the ops

    class Saveable(SaveableObject):
        """All pairs of a table; what it had goes when it is restored."""

        def __init__(self):
            keys, values = table.export()
            super().__init__(table, [SaveSpec(keys, "", name + "-keys"), SaveSpec(values, "", name + "-values")], name)

        def restore(self, restored_tensors, restored_shapes):
            keys, values = restored_tensors
            with ops.colocate_with(table.resource_handle.op):
                return call("LookupTableImportV2", None, table_handle=table.resource_handle, keys=keys, values=values)

    return Saveable()


class _Mutable(LookupInterface):
    def _keep_in_checkpoints(self, name):
        ops.add_to_collection(ops.GraphKeys.SAVEABLE_OBJECTS, _saveable(self, name))

    def insert(self, keys, values, name=None):
        """The operation that puts pairs in, over former values."""
        with ops.name_scope(name, "%s_lookup_table_insert" % self.name):
            keys = convert.convert_to_tensor(keys, self._key_dtype, name="keys")
            values = convert.convert_to_tensor(values, self._value_dtype, name="values")
            return call("LookupTableInsertV2", None, table_handle=self._table, keys=keys, values=values)

    def remove(self, keys, name=None):
        with ops.name_scope(name, "%s_lookup_table_remove" % self.name):
            keys = convert.convert_to_tensor(keys, self._key_dtype, name="keys")
            return call("LookupTableRemoveV2", None, table_handle=self._table, keys=keys)

    erase = remove


class MutableHashTable(_Mutable):
    """A table that operations change."""

    def __init__(self, key_dtype, value_dtype, default_value, shared_name=None, name="MutableHashTable", checkpoint=True):
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert.convert_to_tensor(default_value, self._value_dtype)
        self._value_shape = self._default_value.shape
        of = dict(shared_name=shared_name or "", key_dtype=self._key_dtype, value_dtype=self._value_dtype)
        if self._value_shape.ndims == 0:
            self._table = call("MutableHashTableV2", name, **of)
        else:
            self._table = call("MutableHashTableOfTensorsV2", name, value_shape=self._value_shape, **of)
        if checkpoint:
            self._keep_in_checkpoints(name)


class MutableDenseHashTable(_Mutable):
    """One of open addressing; empty_key and deleted_key cannot be keys."""

    def __init__(self, key_dtype, value_dtype, default_value, empty_key, deleted_key=None, initial_num_buckets=None,
                 shared_name=None,
                 name="MutableDenseHashTable", checkpoint=True):
        super().__init__(key_dtype, value_dtype)
        if deleted_key is None:
            raise TypeError("deleted_key is required")
        self._default_value = convert.convert_to_tensor(default_value, self._value_dtype, name="default_value")
        self._value_shape = self._default_value.shape
        self._table = call("MutableDenseHashTableV2", name, empty_key=convert.convert_to_tensor(empty_key, self._key_dtype),
                           deleted_key=convert.convert_to_tensor(deleted_key, self._key_dtype), shared_name=shared_name or "",
                           value_dtype=self._value_dtype, value_shape=self._value_shape,
                           initial_num_buckets=initial_num_buckets or 131072)
        if checkpoint:
            self._keep_in_checkpoints(name)


# ---- numbers for keys that no table has ----

class HasherSpec(collections.namedtuple("HasherSpec", ["hasher", "key"])):
    """How keys that are not in a table are spread over buckets."""


FastHashSpec = HasherSpec("fasthash", None)


class StrongHashSpec(HasherSpec):
    """By a hash whose key two numbers are."""

    def __new__(cls, key):
        if len(key) != 2:
            raise ValueError("key must have size 2, got %s." % len(key))
        return super().__new__(cls, "stronghash", key)


class IdTableWithHashBuckets(LookupInterface):
    """Numbers of a table, and of so many buckets behind them for keys that it does not have."""

    def __init__(self, table, num_oov_buckets, hasher_spec=FastHashSpec, name=None, key_dtype=None):
        self._inner, self._buckets, self._hasher = table, num_oov_buckets, hasher_spec
        self._own_name = (name or (table.name + "_" if table else "") + "string_to_index").rstrip("/")
        if table is None and num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0 if no table is supplied")
        super().__init__(key_dtype or (table.key_dtype if table else dtypes.string), dtypes.int64)

    name = property(lambda self: self._own_name)
    initializer = property(lambda self: self._inner.initializer if self._inner else control_flow.no_op())
    init = initializer
    resource_handle = property(lambda self: self._inner.resource_handle if self._inner else None)

    def size(self, name=None):
        with ops.name_scope(name, "%s_Size" % self.name):
            inner = self._inner.size() if self._inner else convert.constant(0, dtypes.int64)
            return inner + self._buckets

    def _hash(self, keys):
        text = call("AsString", None, input=keys) if keys.dtype is not dtypes.string else keys
        if self._hasher.hasher == "stronghash":
            return call("StringToHashBucketStrong", None, input=text, num_buckets=self._buckets, key=self._hasher.key)
        return call("StringToHashBucketFast", None, input=text, num_buckets=self._buckets)

    def _find(self, keys):
        keys = convert.convert_to_tensor(keys)
        if self._inner is None:
            return self._hash(keys)
        inner_keys = math.cast(keys, self._inner.key_dtype) if keys.dtype is not self._inner.key_dtype else keys
        ids = self._inner.lookup(inner_keys)
        if not self._buckets:
            return ids
        buckets = math.add(self._hash(keys), self._inner.size())
        return array.where(math.not_equal(ids, self._inner.default_value), ids, buckets)


class StaticVocabularyTable(IdTableWithHashBuckets):
    """tf.lookup's name for one whose table is made of an initializer."""

    def __init__(self, initializer, num_oov_buckets, lookup_key_dtype=None, name=None):
        if num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0.")
        table = StaticHashTable(initializer, -1) if initializer is not None else None
        super().__init__(table, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)


StaticVocabularyTableV1 = StaticVocabularyTable


# ---- from vocabularies ----

def _checked_keys(num_oov_buckets, dtype):
    if num_oov_buckets < 0:
        raise ValueError("num_oov_buckets must be greater or equal than 0, got %d." % num_oov_buckets)
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_integer and dtype is not dtypes.string:
        raise TypeError("Only integer and string keys are supported.")
    return dtype


def _index_table(initializer, num_oov_buckets, default_value, hasher_spec, name, key_dtype):
    table = StaticHashTable(initializer, default_value, name=name)
    if num_oov_buckets:
        return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, name and name + "_hash", key_dtype)
    return table


def index_table_from_file(vocabulary_file=None, num_oov_buckets=0, vocab_size=None, default_value=-1, hasher_spec=FastHashSpec,
                          key_dtype=dtypes.string, name=None, key_column_index=TextFileIndex.WHOLE_LINE,
                          value_column_index=TextFileIndex.LINE_NUMBER, delimiter="\t"):
    """From the lines of a file to their numbers."""
    if vocabulary_file is None or isinstance(vocabulary_file, str) and not vocabulary_file:
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    key_dtype = _checked_keys(num_oov_buckets, key_dtype)
    with ops.name_scope(name, "string_to_index"):
        stored = dtypes.int64 if key_dtype.is_integer else key_dtype
        initializer = TextFileIdTableInitializer(vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter,
                                                 "table_init", stored)
        return _index_table(initializer, num_oov_buckets, default_value, hasher_spec, None, key_dtype)


def index_table_from_tensor(vocabulary_list=None, num_oov_buckets=0, default_value=-1, hasher_spec=FastHashSpec,
                            dtype=dtypes.string,
                            name=None, mapping=None):
    """From the elements of a vector to their positions."""
    vocabulary_list = mapping if vocabulary_list is None else vocabulary_list
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    dtype = _checked_keys(num_oov_buckets, dtype)
    with ops.name_scope(name, "string_to_index"):
        keys = convert.convert_to_tensor(vocabulary_list)
        if keys.dtype.is_integer != dtype.is_integer:
            raise ValueError("Expected %s, got %s." % ("integer" if dtype.is_integer else "non-integer", keys.dtype))
        if dtype.is_integer:
            keys = math.cast(keys, dtypes.int64)
        values = math.cast(math.range(array.size(keys)), dtypes.int64)
        initializer = KeyValueTensorInitializer(keys, values, keys.dtype, dtypes.int64, name="table_init")
        return _index_table(initializer, num_oov_buckets, default_value, hasher_spec, None, dtype)


def index_to_string_table_from_file(vocabulary_file, vocab_size=None, default_value="UNK", name=None,
                                    key_column_index=TextFileIndex.LINE_NUMBER, value_column_index=TextFileIndex.WHOLE_LINE,
                                    delimiter="\t"):
    """From numbers of lines to the lines."""
    if not isinstance(vocabulary_file, ops.Tensor) and not vocabulary_file:
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    with ops.name_scope(name, "index_to_string"):
        return StaticHashTable(TextFileStringTableInitializer(vocabulary_file, key_column_index, value_column_index, vocab_size,
                                                              delimiter,
                                                              "table_init"), default_value)


def index_to_string_table_from_tensor(vocabulary_list=None, default_value="UNK", name=None, mapping=None):
    vocabulary_list = mapping if vocabulary_list is None else vocabulary_list
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    with ops.name_scope(name, "index_to_string"):
        values = convert.convert_to_tensor(vocabulary_list, dtypes.string)
        keys = math.cast(math.range(array.size(values)), dtypes.int64)
        return StaticHashTable(KeyValueTensorInitializer(keys, values, dtypes.int64, dtypes.string, name="table_init"),
                               default_value)


index_to_string_table_from_mapping, index_table_from_mapping = index_to_string_table_from_tensor, index_table_from_tensor


def string_to_index(tensor, mapping, default_value=-1, name=None):
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string(tensor, mapping, default_value="UNK", name=None):
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)
