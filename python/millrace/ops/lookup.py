"""Tables from keys to values: tf.lookup, tf.contrib.lookup.

A table is a resource.  One that is filled once has an initializer, which is put into the collection that tf.tables_initializer
runs; a mutable one is changed by operations.  Keys may be sparse tensors; then the values are too.
"""

import collections
import contextlib
import numbers
import uuid

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

def _outside_of_loops():
    """Tables that a loop or a condition makes are made once, outside of it."""
    return ops.init_scope() if ops.get_default_graph()._get_control_flow_context() is not None else contextlib.nullcontext()


def _check_table_dtypes(table, key_dtype, value_dtype):
    if key_dtype.base_dtype is not table.key_dtype.base_dtype:
        raise TypeError("Invalid key dtype, expected %s but got %s." % (table.key_dtype, key_dtype))
    if value_dtype.base_dtype is not table.value_dtype.base_dtype:
        raise TypeError("Invalid value dtype, expected %s but got %s." % (table.value_dtype, value_dtype))


class TableInitializerBase:
    """The base of initializers of lookup tables."""

    def __init__(self, key_dtype, value_dtype):
        self._key_dtype, self._value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)

    key_dtype = property(lambda self: self._key_dtype, doc="The type of the keys.")
    value_dtype = property(lambda self: self._value_dtype, doc="The type of the values.")
    _shared_name = ""


class KeyValueTensorInitializer(TableInitializerBase):
    """Initializes a table with pairs of keys and values."""

    def __init__(self, keys, values, key_dtype=None, value_dtype=None, name=None):
        with _outside_of_loops():
            self._keys = convert.convert_to_tensor(keys, key_dtype, name="keys")
            self._values = convert.convert_to_tensor(values, value_dtype, name="values")
        self._name = name if name is not None else "key_value_init"
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table):
        """Returns the operation that fills a table with the keys and values."""
        _check_table_dtypes(table, self._keys.dtype, self._values.dtype)
        with ops.name_scope(self._name):
            op = call("InitializeTableV2", None, table_handle=table.resource_handle, keys=self._keys, values=self._values)
        ops.add_to_collection(ops.GraphKeys.TABLE_INITIALIZERS, op)
        return op


class TextFileIndex:
    """Names for parts of a line other than a column: the whole line, or its number."""
    WHOLE_LINE, LINE_NUMBER = -2, -1


class TextFileInitializer(TableInitializerBase):
    """Initializes a table with the lines of a file."""

    def __init__(self, filename, key_dtype, key_index, value_dtype, value_index, vocab_size=None, delimiter="\t", name=None):
        if not isinstance(filename, ops.Tensor) and not filename:
            raise ValueError("Filename required for %s." % name)
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
        size = "_%d" % self._vocab_size if self._vocab_size else ""
        return "hash_table_%s%s_%s_%s" % (self._file, size, self._key_index, self._value_index)

    def initialize(self, table):
        """Returns the operation that fills a table from the file."""
        _check_table_dtypes(table, self.key_dtype, self.value_dtype)
        with ops.name_scope(self._name, "text_file_init"):
            filename = convert.convert_to_tensor(self._file, dtypes.string, name="asset_filepath")
            op = call("InitializeTableFromTextFileV2", None, table_handle=table.resource_handle, filename=filename,
                      key_index=self._key_index, value_index=self._value_index,
                      vocab_size=-1 if self._vocab_size is None else self._vocab_size, delimiter=self._delimiter)
        ops.add_to_collection(ops.GraphKeys.TABLE_INITIALIZERS, op)
        if convert.is_constant(filename):
            ops.add_to_collection(ops.GraphKeys.ASSET_FILEPATHS, filename)
        return op


class TextFileStringTableInitializer(TextFileInitializer):
    """Initializes a table from the number of a line to its text."""

    def __init__(self, filename, key_column_index=TextFileIndex.LINE_NUMBER, value_column_index=TextFileIndex.WHOLE_LINE,
                 vocab_size=None, delimiter="\t", name="text_file_string_table_init"):
        super().__init__(filename, dtypes.int64, key_column_index, dtypes.string, value_column_index, vocab_size, delimiter,
                         name)


class TextFileIdTableInitializer(TextFileInitializer):
    """Initializes a table from the text of a line to its number."""

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

    key_dtype = property(lambda self: self._key_dtype, doc="The type of the keys.")
    value_dtype = property(lambda self: self._value_dtype, doc="The type of the values.")
    resource_handle = property(lambda self: self._table, doc="The tensor that identifies the table.")
    table_ref = property(lambda self: self._table, doc="The tensor that identifies the table; an old name.")
    _value_shape, _key_rank = (), 0  # a key of a dense table may be a vector

    _lookup_name = "Lookup"

    @property
    def name(self):
        """The name of the table."""
        return self._table.op.name.split("/")[-1]

    def size(self, name=None):
        """Returns the number of entries, as a tensor."""
        with ops.name_scope(name, "%s_Size" % self.name):
            return call("LookupTableSizeV2", None, table_handle=self._table)

    def lookup(self, keys, name=None):
        """The values of keys; the default for those that are not there."""
        if not isinstance(keys, sparse.SparseTensor):
            keys = convert.convert_to_tensor(keys, self._key_dtype if not hasattr(keys, "dtype") else None, name="keys")
        if keys.dtype.base_dtype is not self._key_dtype:
            raise TypeError("Signature mismatch. Keys must be dtype %s, got %s." % (self._key_dtype, keys.dtype))
        with ops.name_scope(name, "%s_%s" % (self.name, self._lookup_name)):
            return _of_values(keys, self._find)

    def _find(self, keys):
        found = call("LookupTableFindV2", None, table_handle=self._table, keys=keys, default_value=self._default_value)
        shape = keys.shape
        if self._key_rank and shape.ndims is not None:
            shape = shape[:shape.ndims - self._key_rank]
        found.set_shape(shape.concatenate(self._value_shape))
        return found

    def export(self, name=None):
        """(keys, values), all of them."""
        with ops.name_scope(name, "%s_%s" % (self.name, self._export_name)):
            keys, values = call("LookupTableExportV2", None, table_handle=self._table, Tkeys=self._key_dtype,
                                Tvalues=self._value_dtype)
        return keys, values

    _export_name = "lookup_table_export_values"


class StaticHashTable(LookupInterface):
    """A table that its initializer fills."""

    def __init__(self, initializer, default_value, shared_name=None, name=None):
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._default_value = convert.convert_to_tensor(default_value, self._value_dtype)
        self._default_value.shape.assert_is_compatible_with([])
        # Without a shared name, each kernel would have a separate table.
        shared_name = shared_name or initializer._shared_name or "hash_table_%s" % uuid.uuid4()
        with ops.init_scope():
            self._table = call("HashTableV2", name or "hash_table", shared_name=shared_name, key_dtype=self._key_dtype,
                               value_dtype=self._value_dtype)
        with _outside_of_loops():
            self._init_op = initializer.initialize(self)

    _export_name = "Export"

    def export(self, name=None):
        keys, values = super().export(name)
        values.set_shape(keys.shape)
        return keys, values

    initializer = property(lambda self: self._init_op, doc="The operation that fills the table.")
    init = initializer
    default_value = property(lambda self: self._default_value,
                             doc="What a lookup gives for a key that the table does not have.")


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
    _lookup_name = "lookup_table_find"

    def _keep_in_checkpoints(self, name):
        self._saveable = _saveable(self, name)
        ops.add_to_collection(ops.GraphKeys.SAVEABLE_OBJECTS, self._saveable)

    def _saveables(self):
        """What a saver that is given the table itself saves."""
        return [self._saveable]

    def lookup(self, keys, name=None):
        if not isinstance(keys, sparse.SparseTensor):
            keys = convert.convert_to_tensor(keys, self._key_dtype, name="keys")
        return super().lookup(keys, name)

    def insert(self, keys, values, name=None):
        """The operation that puts pairs in, over former values."""
        with ops.name_scope(name, "%s_lookup_table_insert" % self.name):
            keys = convert.convert_to_tensor(keys, self._key_dtype, name="keys")
            values = convert.convert_to_tensor(values, self._value_dtype, name="values")
            return call("LookupTableInsertV2", None, table_handle=self._table, keys=keys, values=values)

    insert_or_assign = insert

    def remove(self, keys, name=None):
        """Returns an operation that removes keys; keys that the table does not have are ignored."""
        keys = convert.convert_to_tensor(keys, name="keys")
        if keys.dtype.base_dtype is not self._key_dtype:
            raise TypeError("Signature mismatch. Keys must be dtype %s, got %s." % (self._key_dtype, keys.dtype))
        with ops.name_scope(name, "%s_lookup_table_remove" % self.name):
            return call("LookupTableRemoveV2", None, table_handle=self._table, keys=keys)

    erase = remove


class MutableHashTable(_Mutable):
    """A table that operations change."""

    def __init__(self, key_dtype, value_dtype, default_value, shared_name=None, name="MutableHashTable", checkpoint=True):
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert.convert_to_tensor(default_value, self._value_dtype)
        self._value_shape = self._default_value.shape
        # A table that is saved is one for all workers, so it is shared by its node's name at least.
        of = dict(shared_name=shared_name or "", use_node_name_sharing=bool(checkpoint and shared_name is None),
                  key_dtype=self._key_dtype, value_dtype=self._value_dtype)
        if self._value_shape.ndims == 0:
            self._table = call("MutableHashTableV2", name, **of)
        else:
            self._table = call("MutableHashTableOfTensorsV2", name, value_shape=self._value_shape, **of)
        if checkpoint:
            self._keep_in_checkpoints(name)


class MutableDenseHashTable(_Mutable):
    """A mutable table with open addressing; empty_key and deleted_key cannot be keys."""

    def __init__(self, key_dtype, value_dtype, default_value, empty_key, deleted_key=None, initial_num_buckets=None,
                 shared_name=None,
                 name="MutableDenseHashTable", checkpoint=True):
        super().__init__(key_dtype, value_dtype)
        if deleted_key is None:
            raise TypeError("deleted_key is required")
        self._default_value = convert.convert_to_tensor(default_value, self._value_dtype, name="default_value")
        self._value_shape = self._default_value.shape
        empty_key = convert.convert_to_tensor(empty_key, self._key_dtype, name="empty_key")
        self._key_rank = empty_key.shape.ndims or 0
        self._table = call("MutableDenseHashTableV2", name, empty_key=empty_key,
                           deleted_key=convert.convert_to_tensor(deleted_key, self._key_dtype, name="deleted_key"),
                           shared_name=shared_name or "", use_node_name_sharing=bool(checkpoint and shared_name is None),
                           value_dtype=self._value_dtype, value_shape=self._value_shape,
                           initial_num_buckets=initial_num_buckets or 131072)
        if checkpoint:
            self._keep_in_checkpoints(name)


class DenseHashTable(MutableDenseHashTable):
    """tf.lookup.experimental.DenseHashTable"""

    def __init__(self, key_dtype, value_dtype, default_value, empty_key, deleted_key, initial_num_buckets=None,
                 name="MutableDenseHashTable", checkpoint=True):
        super().__init__(key_dtype, value_dtype, default_value, empty_key, deleted_key, initial_num_buckets, None, name,
                         checkpoint)


# ---- numbers for keys that no table has ----

class HasherSpec(collections.namedtuple("HasherSpec", ["hasher", "key"])):
    """How keys that are not in a table are hashed to buckets."""


FastHashSpec = HasherSpec("fasthash", None)


class StrongHashSpec(HasherSpec):
    """A hash with a key of two numbers."""

    def __new__(cls, key):
        if len(key) != 2:
            raise ValueError("key must have size 2, got %s." % len(key))
        if not all(isinstance(k, numbers.Integral) for k in key):
            raise TypeError("Invalid key %s. Must be unsigned integer values." % key)
        return super().__new__(cls, "stronghash", key)


class IdTableWithHashBuckets(LookupInterface):
    """A table with additional buckets for keys that it does not have, chosen by their hash."""

    def __init__(self, table, num_oov_buckets, hasher_spec=FastHashSpec, name=None, key_dtype=None):
        key_dtype = dtypes.as_dtype(key_dtype or (table.key_dtype if table else dtypes.string))
        if table is None and num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0 if no table is supplied.")
        if table is not None:
            if table.key_dtype not in (dtypes.int64, dtypes.string):
                raise TypeError("Invalid key dtype, expected one of %s, but got %s." %
                                ((dtypes.int64, dtypes.string), key_dtype))
            if table.key_dtype.is_integer != key_dtype.is_integer:
                raise TypeError("Invalid key dtype, expected %s but got %s." %
                                ("integer" if key_dtype.is_integer else "non-integer", table.key_dtype))
            if table.value_dtype is not dtypes.int64:
                raise TypeError("Invalid value dtype, expected %s but got %s." % (dtypes.int64, table.value_dtype))
        if not key_dtype.is_integer and key_dtype is not dtypes.string:
            raise TypeError("Invalid key_dtype, expected integer or string, got %s." % key_dtype)
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError("hasher_spec must be of type HasherSpec, got %s" % (hasher_spec,))
        self._inner, self._buckets, self._hasher = table, num_oov_buckets, hasher_spec
        self._own_name = ((name or "").rstrip("/") or (table.name if table else "hash_bucket")).split("/")[-1]
        super().__init__(key_dtype, dtypes.int64)

    name = property(lambda self: self._own_name, doc="The name of the table.")
    initializer = property(lambda self: self._inner.initializer if self._inner else control_flow.no_op(),
                           doc="The operation that fills the inner table; it does nothing if there is none.")
    init = initializer
    resource_handle = property(lambda self: self._inner.resource_handle if self._inner else None,
                               doc="The tensor that identifies the inner table, or None.")

    def size(self, name=None):
        """Returns the number of entries plus the number of buckets, as a tensor."""
        with ops.name_scope(name, "%s_Size" % self.name):
            inner = self._inner.size() if self._inner else convert.constant(0, dtypes.int64)
            return inner + self._buckets

    def _hash(self, keys):
        text = call("AsString", None, input=keys) if keys.dtype is not dtypes.string else keys
        if self._hasher.hasher == "stronghash":
            return call("StringToHashBucketStrong", "hash_bucket", input=text, num_buckets=self._buckets, key=self._hasher.key)
        if self._hasher.hasher == "legacy":
            return call("StringToHashBucket", "hash_bucket", string_tensor=text, num_buckets=self._buckets)
        if self._hasher.hasher != "fasthash":
            raise ValueError("Unknown hasher %s" % self._hasher.hasher)
        return call("StringToHashBucketFast", "hash_bucket", input=text, num_buckets=self._buckets)

    def _find(self, keys):
        keys = convert.convert_to_tensor(keys)
        if self._inner is None:
            return self._hash(keys)
        inner_keys = math.cast(keys, self._inner.key_dtype) if keys.dtype is not self._inner.key_dtype else keys
        if not self._buckets:
            return self._inner.lookup(inner_keys)
        buckets = self._hash(inner_keys)
        ids = self._inner.lookup(inner_keys)
        buckets = math.add(buckets, self._inner.size())
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


def _check_vocab_size(vocab_size, vocabulary_file):
    if vocab_size is not None and vocab_size < 1:
        if isinstance(vocabulary_file, ops.Tensor):
            vocabulary_file = convert.constant_value(vocabulary_file)
            vocabulary_file = "?" if vocabulary_file is None else vocabulary_file
        raise ValueError("vocab_size must be greater than 0, got %d. vocabulary_file: %s" % (vocab_size, vocabulary_file))


def _index_table(table, num_oov_buckets, hasher_spec, key_dtype):
    if num_oov_buckets:
        return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=key_dtype)
    return table


def index_table_from_file(vocabulary_file=None, num_oov_buckets=0, vocab_size=None, default_value=-1, hasher_spec=FastHashSpec,
                          key_dtype=dtypes.string, name=None, key_column_index=TextFileIndex.WHOLE_LINE,
                          value_column_index=TextFileIndex.LINE_NUMBER, delimiter="\t"):
    """Returns a table from the lines of a file to their numbers."""
    if vocabulary_file is None or isinstance(vocabulary_file, str) and not vocabulary_file:
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    _check_vocab_size(vocab_size, vocabulary_file)
    key_dtype = _checked_keys(num_oov_buckets, key_dtype)
    with ops.name_scope(name, "string_to_index"):
        stored = dtypes.int64 if key_dtype.is_integer else key_dtype
        with ops.name_scope(None, "hash_table"):
            initializer = TextFileIdTableInitializer(vocabulary_file, key_column_index, value_column_index, vocab_size,
                                                     delimiter, "table_init", stored)
            table = StaticHashTable(initializer, default_value)
        return _index_table(table, num_oov_buckets, hasher_spec, key_dtype)


def index_table_from_tensor(vocabulary_list=None, num_oov_buckets=0, default_value=-1, hasher_spec=FastHashSpec,
                            dtype=dtypes.string,
                            name=None, mapping=None):
    """Returns a table from the elements of a vector to their positions."""
    vocabulary_list = mapping if vocabulary_list is None else vocabulary_list
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    dtype = _checked_keys(num_oov_buckets, dtype)
    with ops.name_scope(name, "string_to_index"):
        keys = convert.convert_to_tensor(vocabulary_list)
        if keys.dtype.is_integer != dtype.is_integer:
            raise ValueError("Expected %s, got %s." % ("integer" if dtype.is_integer else "non-integer", keys.dtype))
        values = math.cast(math.range(array.size(keys)), dtypes.int64)
        with ops.name_scope(None, "hash_table"):
            keys = math.cast(keys, dtypes.int64) if dtype.is_integer else keys
            table = StaticHashTable(KeyValueTensorInitializer(keys, values, keys.dtype, dtypes.int64, name="table_init"),
                                    default_value)
        return _index_table(table, num_oov_buckets, hasher_spec, dtype)


def index_to_string_table_from_file(vocabulary_file, vocab_size=None, default_value="UNK", name=None,
                                    key_column_index=TextFileIndex.LINE_NUMBER, value_column_index=TextFileIndex.WHOLE_LINE,
                                    delimiter="\t"):
    """Returns a table from the numbers of lines of a file to the lines."""
    if not isinstance(vocabulary_file, ops.Tensor) and not vocabulary_file:
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    _check_vocab_size(vocab_size, vocabulary_file)
    with ops.name_scope(name, "index_to_string"):
        return StaticHashTable(TextFileStringTableInitializer(vocabulary_file, key_column_index, value_column_index, vocab_size,
                                                              delimiter,
                                                              "table_init"), default_value)


def index_to_string_table_from_tensor(vocabulary_list=None, default_value="UNK", name=None, mapping=None):
    """Returns a table from index to string, made from a vector of strings; other indices give default_value.

    mapping is an old name of vocabulary_list."""
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
    """Looks up the indices of strings in a vector of strings; unknown strings give default_value."""
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string(tensor, mapping, default_value="UNK", name=None):
    """Looks up strings by their index in a vector of strings; other indices give default_value."""
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)
