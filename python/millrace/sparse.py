"""tf.sparse, and the sparse_* functions of tf itself: operations on SparseTensors."""

from .framework import convert, dtypes, ops, shapes
from .framework.op_defs import call
from .framework.sparse import SparseTensor, SparseTensorValue
from .ops import array, check, math
from .ops.array import sparse_placeholder
from .ops.math import sparse_segment_mean, sparse_segment_sqrt_n, sparse_segment_sum


def as_sparse(value):
    """Returns a SparseTensor from a SparseTensor or SparseTensorValue; anything else is a TypeError."""
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        raise TypeError("Input must be a SparseTensor.")
    return value


def _parts(x, prefix, indices="indices", values="values", shape="shape"):
    """A sparse tensor as arguments of an op."""
    return {prefix + indices: x.indices, prefix + values: x.values, prefix + shape: x.dense_shape}


def sparse_add(a, b, threshold=None, thresh=None):
    """The sum of two sparse tensors, or of a sparse and a dense one; of a sparse sum, values below the threshold are left
    out."""
    limit = thresh if threshold is None else threshold
    limit = 0 if limit is None else limit
    if not any(isinstance(x, (SparseTensor, SparseTensorValue)) for x in (a, b)):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if all(isinstance(x, (SparseTensor, SparseTensorValue)) for x in (a, b)):
        a, b = as_sparse(a), as_sparse(b)
        limit = convert.convert_to_tensor(limit, a.values.dtype.real_dtype.base_dtype, name="thresh")
        indices, values, shape = call("SparseAdd", None, thresh=limit, **_parts(a, "a_"), **_parts(b, "b_"))
        a.shape.assert_is_compatible_with(b.shape)
        static = array.broadcast_static_shape(a.shape, b.shape)
        return SparseTensor(indices, values, static.as_list() if static.is_fully_defined() else shape)
    if isinstance(b, (SparseTensor, SparseTensorValue)):
        a, b = b, a
    return call("SparseTensorDenseAdd", None, b=b, **_parts(as_sparse(a), "a_"))


_DEFAULT_HASH_KEY = 0xDECAFCAFFE


def sparse_cross(inputs, name=None):
    """Each combination of the features of a row, one of each input, as text: "a_X_b_X_c"."""
    return _crossed(inputs, False, 0, None, name)


def sparse_cross_hashed(inputs, num_buckets=0, hash_key=None, name=None):
    """The same as the numbers of buckets."""
    return _crossed(inputs, True, num_buckets, hash_key, name)


def _crossed(inputs, hashed, num_buckets, hash_key, name):
    if not isinstance(inputs, list):
        raise TypeError("Inputs must be a list")
    if not all(isinstance(x, (SparseTensor, ops.Tensor)) for x in inputs):
        raise TypeError("All inputs must be SparseTensors")
    features = [x for x in inputs if isinstance(x, SparseTensor)]
    values, dense = [x.values for x in features], [x for x in inputs if not isinstance(x, SparseTensor)]
    texts = all(x.dtype.base_dtype is dtypes.string for x in values + dense)
    as_features = lambda x: x if x.dtype.base_dtype is dtypes.string else math.cast(x, dtypes.int64)
    made = call("SparseCross", name, indices=[x.indices for x in features], values=[as_features(v) for v in values],
                shapes=[x.dense_shape for x in features], dense_inputs=[as_features(d) for d in dense], hashed_output=hashed,
                num_buckets=num_buckets, hash_key=hash_key or _DEFAULT_HASH_KEY,
                out_type=dtypes.int64 if hashed else dtypes.string, internal_type=dtypes.string if texts else dtypes.int64)
    return SparseTensor(*made)


# ---- sparse tensors in a table of the session: as tf.train.batch of TensorFlow keeps them ----

def _add_sparse_to_tensors_map(sp_input, container=None, shared_name=None, name=None):
    """The handle of a sparse tensor that is put into the table of the operation."""
    return call("AddSparseToTensorsMap", name, **_parts(as_sparse(sp_input), "sparse_"), container=container,
                shared_name=shared_name)


def _add_many_sparse_to_tensors_map(sp_input, container=None, shared_name=None, name=None):
    """Handles of the rows of a sparse tensor."""
    return call("AddManySparseToTensorsMap", name, **_parts(as_sparse(sp_input), "sparse_"), container=container,
                shared_name=shared_name)


def _take_many_sparse_from_tensors_map(sparse_map_op, sparse_handles, rank=None, name=None):
    """The sparse tensors of handles, one behind the other; they leave the table."""
    if not isinstance(sparse_map_op, ops.Operation):
        raise TypeError("sparse_map_op be an Operation")
    if sparse_map_op.type not in ("AddSparseToTensorsMap", "AddManySparseToTensorsMap"):
        raise TypeError("sparse_map_op must be one of AddSparseToTensorsMap or AddSparseToTensorsMap. Instead, found `%s`." %
                        sparse_map_op.type)
    with ops.colocate_with(sparse_map_op):
        indices, values, shape = call(
            "TakeManySparseFromTensorsMap", name, sparse_handles=sparse_handles, dtype=sparse_map_op.get_attr("T"),
            container=sparse_map_op.get_attr("container"),
            shared_name=sparse_map_op.get_attr("shared_name") or sparse_map_op.name)
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


def sparse_dense_cwise_add(sp_t, dense_t):
    """The elements of a sparse tensor, each with that of a dense one added to it."""
    return sp_t._with_dense("SparseDenseCwiseAdd", dense_t)


def sparse_concat(axis=None, sp_inputs=None, name=None, expand_nonconcat_dim=False, concat_dim=None,
                  expand_nonconcat_dims=None):
    """Joins sparse tensors along a dimension; with expand_nonconcat_dims other dimensions may differ."""
    axis = concat_dim if axis is None else axis
    expand = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims
    inputs = [as_sparse(x) for x in sp_inputs]
    if len(inputs) == 1:
        return inputs[0]
    dense_shapes = [x.dense_shape for x in inputs]
    if expand:
        longest = math.reduce_max(array.stack(dense_shapes), 0)
        at = axis if axis >= 0 else inputs[0].shape.ndims + axis
        dense_shapes = [array.concat([longest[:at], s[at:at + 1], longest[at + 1:]], 0) for s in dense_shapes]
    return SparseTensor(*call("SparseConcat", name, indices=[x.indices for x in inputs], values=[x.values for x in inputs],
                              shapes=dense_shapes, concat_dim=axis))


def sparse_split(keyword_required=None, sp_input=None, num_split=None, axis=None, name=None, split_dim=None):
    """Splits a sparse tensor along an axis into a list; arguments must be given by keyword."""
    if not isinstance(keyword_required, type(None)):
        raise ValueError("Keyword arguments are required for this function.")
    axis = split_dim if axis is None else axis
    for what, given in (("sp_input", sp_input), ("num_split", num_split), ("axis", axis)):
        if given is None:
            raise ValueError("%s is required" % what)
    x = as_sparse(sp_input)
    made = call("SparseSplit", name, split_dim=axis, num_split=num_split, **_parts(x, ""))
    return [SparseTensor(*parts) for parts in zip(*made)]


def sparse_slice(sp_input, start, size, name=None):
    """Returns the part of a sparse tensor that starts at start and has this size."""
    x = as_sparse(sp_input)
    start, size = (convert.convert_to_tensor(v, dtypes.int64) for v in (start, size))
    return SparseTensor(*call("SparseSlice", name, start=start, size=size, **_parts(x, "")))


def sparse_to_dense(sparse_indices, output_shape, sparse_values, default_value=0, validate_indices=True, name=None):
    """A tensor of the default with values at indices."""
    return call("SparseToDense", name, sparse_indices=sparse_indices, output_shape=output_shape, sparse_values=sparse_values,
                default_value=default_value, validate_indices=validate_indices)


def sparse_tensor_to_dense(sp_input, default_value=None, validate_indices=True, name=None):
    """Converts a sparse tensor to a dense one, with default_value where there are no values."""
    x = as_sparse(sp_input)
    if default_value is None:
        default_value = array.zeros([], x.dtype)
    return sparse_to_dense(x.indices, x.dense_shape, x.values, default_value, validate_indices, name)


def from_dense(tensor, name=None):
    """The elements that are not zero."""
    with ops.name_scope(name, "dense_to_sparse"):
        tensor = convert.convert_to_tensor(tensor)
        indices = array.where(math.not_equal(tensor, array.zeros_like(tensor)))
        return SparseTensor(indices, array.gather_nd(tensor, indices), array.shape(tensor, out_type=dtypes.int64))


def sparse_to_indicator(sp_input, vocab_size, name=None):
    """Dense booleans: true at the ids that are the values."""
    x = as_sparse(sp_input)
    with ops.name_scope(name, "SparseToIndicator", [x.values]):
        ones = SparseTensor(x.indices, array.fill(array.shape(x.values), True), x.dense_shape)
        merged = sparse_merge(x, ones, vocab_size)
        return sparse_tensor_to_dense(merged, default_value=False, validate_indices=False)


def sparse_merge(sp_ids, sp_values, vocab_size, name=None, already_sorted=False):
    """Makes a sparse tensor of values at positions whose last coordinates are the ids."""
    if isinstance(sp_ids, (SparseTensor, SparseTensorValue)):
        sp_ids, vocab_size = [sp_ids], [vocab_size]
    elif not isinstance(sp_ids, (list, tuple)):
        raise TypeError("sp_ids has to be a SparseTensor or list thereof. Found %s" % type(sp_ids))
    if not isinstance(vocab_size, (list, tuple)):
        raise TypeError("vocab_size has to be a list of Tensors or Python ints. Found %s" % type(vocab_size))
    if len(sp_ids) != len(vocab_size):
        raise ValueError("sp_ids and vocab_size have to have equal lengths.")
    with ops.name_scope(name, "SparseMerge"):
        ids, values = [as_sparse(x) for x in sp_ids], as_sparse(sp_values)
        columns = [array.expand_dims(math.cast(x.values, dtypes.int64), 1) for x in ids]
        sizes = [array.reshape(math.cast(convert.convert_to_tensor(v), dtypes.int64), [1]) for v in vocab_size]
        first = ids[0]
        made = SparseTensor(array.concat([first.indices[:, :-1]] + columns, 1), values.values,
                            array.concat([first.dense_shape[:-1]] + sizes, 0))
        if already_sorted:
            return made
        ordered = sparse_reorder(made)
        return SparseTensor(ordered.indices, ordered.values, made.dense_shape)


def sparse_retain(sp_input, to_retain):
    """The elements for which to_retain is true."""
    x = as_sparse(sp_input)
    to_retain = convert.convert_to_tensor(to_retain)
    to_retain.shape.with_rank(1)[0].merge_with(x.values.shape[0])
    where = array.reshape(array.where(to_retain), [-1])
    return SparseTensor(array.gather(x.indices, where), array.gather(x.values, where), x.dense_shape)


def sparse_reset_shape(sp_input, new_shape=None):
    """The same elements in a larger shape, or in the smallest that has room for them."""
    x = as_sparse(sp_input)
    if new_shape is None:
        needed = math.maximum(math.reduce_max(x.indices, 0) + 1, 0)
        return SparseTensor(x.indices, x.values, needed)
    wanted = convert.convert_to_tensor(new_shape)
    wanted.shape.assert_has_rank(1)
    wanted = math.cast(wanted, dtypes.int64)
    if wanted.shape.ndims is not None:
        wanted.shape[0].merge_with(x.dense_shape.shape.with_rank(1)[0])
    known = convert.constant_value(wanted)
    if known is not None and x.shape.is_fully_defined():
        if not (x.shape.as_list() <= known).all():
            raise ValueError("Requested new_shape should have dimension sizes >= sp_input.shape.  Found new_shape (%s), "
                             "sp_input.shape (%s)." % (x.shape.as_list(), known))
        return SparseTensor(x.indices, x.values, known)
    with ops.control_dependencies([check.assert_equal(array.shape(x.dense_shape), array.shape(wanted))]):
        wanted = array.identity(wanted)
    with ops.control_dependencies([check.assert_less_equal(x.dense_shape, wanted)]):
        return SparseTensor(x.indices, x.values, array.identity(wanted))


def sparse_fill_empty_rows(sp_input, default_value, name=None):
    """(with default_value in the rows that had nothing, which rows these are)"""
    x = as_sparse(sp_input)
    with ops.name_scope(name, "SparseFillEmptyRows", [x.values]):
        default = convert.convert_to_tensor(default_value, x.dtype)
        indices, values, empty, _ = call("SparseFillEmptyRows", None, indices=x.indices, values=x.values,
                                         dense_shape=x.dense_shape, default_value=default)
        return SparseTensor(indices, values, x.dense_shape), empty


def sparse_reorder(sp_input, name=None):
    """Returns a sparse tensor with its elements in row-major order."""
    x = as_sparse(sp_input)
    indices, values = call("SparseReorder", name, **_parts(x, "input_"))
    shape = x.shape.as_list() if x.shape.is_fully_defined() else array.identity(x.dense_shape)
    return SparseTensor(indices, values, shape)


def sparse_reshape(sp_input, shape, name=None):
    """Returns a sparse tensor with the same values in another shape; one dimension may be -1."""
    x = as_sparse(sp_input)
    shape = math.cast(convert.convert_to_tensor(shape), dtypes.int64)
    with ops.name_scope(name, "SparseReshape", [x.values]) as scope:
        indices, made = call("SparseReshape", scope, input_indices=x.indices, input_shape=x.dense_shape, new_shape=shape)
        known = _reshaped_dims(x.shape, shape)
        if known is not None:  # keeps what is known, which the op's output does not
            made = convert.constant(known, dtypes.int64)
        return SparseTensor(indices, array.identity(x.values), made)


def _reshaped_dims(old, shape):
    """The dimensions of a reshaped tensor where all are known; ValueError where the sizes differ."""
    new = convert.constant_value_as_shape(shape)
    if new.ndims is None or not old.is_fully_defined():
        return new.as_list() if new.is_fully_defined() else None
    given = convert.constant_value(shape)
    if given is not None and (given == -1).sum() > 1:
        raise ValueError("At most one dimension can be inferred (-1). Found: %s" % given)
    dims = new.as_list()
    if dims.count(None) > 1:
        return None
    elements = old.num_elements()
    if None in dims:
        rest = shapes.TensorShape([d for d in dims if d is not None]).num_elements()
        dims[dims.index(None)] = elements // rest if rest else 0
    made = shapes.TensorShape(dims).num_elements()
    if made != elements:
        raise ValueError("Cannot reshape a tensor with %d elements to shape %s (%d elements)." %
                         (elements, new.as_list(), made))
    return dims


def sparse_transpose(sp_input, perm=None, name=None):
    """Permutes the dimensions of a sparse tensor; without perm the order is reversed."""
    with ops.name_scope(name, "SparseTranspose"):
        x = as_sparse(sp_input)
        if perm is None:
            rank = x.shape.ndims
            perm = list(range(rank - 1, -1, -1)) if rank is not None else math.range(array.size(x.dense_shape) - 1, -1, -1)
        turned = SparseTensor(array.gather(x.indices, perm, axis=1), x.values, array.gather(x.dense_shape, perm))
        return sparse_reorder(turned)


def expand_dims(sp_input, axis=None, name=None):
    """Inserts a dimension of size 1 into a sparse tensor."""
    x = as_sparse(sp_input)
    rank = x.shape.ndims
    if rank is None:
        raise NotImplementedError("tf.sparse.expand_dims needs a tensor of known rank")
    at = -1 if axis is None else axis
    at = rank + 1 + at if at < 0 else at
    if not 0 <= at <= rank:
        raise ValueError("axis %d is out of range for a tensor of rank %d" % (at, rank))
    with ops.name_scope(name, "expand_dims"):
        column = array.zeros(array.stack([array.shape(x.indices)[0], 1]), dtypes.int64)
        return SparseTensor(array.concat([x.indices[:, :at], column, x.indices[:, at:]], 1), x.values,
                            array.concat([x.dense_shape[:at], [1], x.dense_shape[at:]], 0))


def eye(num_rows, num_columns=None, dtype=dtypes.float32, name=None):
    """Returns an identity matrix as a sparse tensor."""
    with ops.name_scope(name, "eye"):
        rows = math.cast(convert.convert_to_tensor(num_rows), dtypes.int64)
        columns = rows if num_columns is None else math.cast(convert.convert_to_tensor(num_columns), dtypes.int64)
        n = math.range(math.minimum(rows, columns))
        return SparseTensor(array.stack([n, n], axis=1), array.ones(array.shape(n), dtype), array.stack([rows, columns]))


def sparse_softmax(sp_input, name=None):
    """Computes the softmax of the values in each row of the last dimension."""
    x = as_sparse(sp_input)
    return SparseTensor(x.indices, call("SparseSoftmax", name, **_parts(x, "sp_")), x.dense_shape)


def sparse_maximum(sp_a, sp_b, name=None):
    """Computes the larger of two sparse tensors, element by element; a missing value is 0."""
    a, b = as_sparse(sp_a), as_sparse(sp_b)
    return SparseTensor(*call("SparseSparseMaximum", name, **_parts(a, "a_"), **_parts(b, "b_")), a.dense_shape)


def sparse_minimum(sp_a, sp_b, name=None):
    """Computes the smaller of two sparse tensors, element by element; a missing value is 0."""
    a, b = as_sparse(sp_a), as_sparse(sp_b)
    return SparseTensor(*call("SparseSparseMinimum", name, **_parts(a, "a_"), **_parts(b, "b_")), a.dense_shape)


def sparse_tensor_dense_matmul(sp_a, b, adjoint_a=False, adjoint_b=False, name=None):
    """A sparse matrix times a dense one."""
    a = as_sparse(sp_a)
    with ops.name_scope(name, "SparseTensorDenseMatMul", [a.indices, a.values, b]) as scope:
        b = convert.convert_to_tensor(b, name="b")
        return call("SparseTensorDenseMatMul", scope, b=b, adjoint_a=adjoint_a, adjoint_b=adjoint_b, **_parts(a, "a_"))


# ---- reductions ----

def _reduced(op_type, sp_input, axis, keepdims, reduction_axes, keep_dims):
    x = as_sparse(sp_input)
    axis = reduction_axes if axis is None else axis
    keep = bool(keep_dims if keepdims is None else keepdims)
    if axis is None:
        rank = x.shape.ndims
        axis = list(range(rank)) if rank is not None else math.range(array.size(x.dense_shape))
    axes = array.reshape(convert.convert_to_tensor(axis, dtypes.int32), [-1])
    made = call(op_type, None, reduction_axes=axes, keep_dims=keep, **_parts(x, "input_"))
    return SparseTensor(*made) if op_type.endswith("Sparse") else made


def sparse_reduce_sum(sp_input, axis=None, keepdims=None, reduction_axes=None, keep_dims=None):
    """Computes the sum over some axes or all, as a dense tensor.

    reduction_axes and keep_dims are old names of axis and keepdims."""
    return _reduced("SparseReduceSum", sp_input, axis, keepdims, reduction_axes, keep_dims)


def sparse_reduce_sum_sparse(sp_input, axis=None, keepdims=None, reduction_axes=None, keep_dims=None):
    """Computes the sum over some axes or all, as a sparse tensor.

    reduction_axes and keep_dims are old names of axis and keepdims."""
    return _reduced("SparseReduceSumSparse", sp_input, axis, keepdims, reduction_axes, keep_dims)


def sparse_reduce_max(sp_input, axis=None, keepdims=None, reduction_axes=None, keep_dims=None):
    """Computes the largest value over some axes or all, as a dense tensor.

    reduction_axes and keep_dims are old names of axis and keepdims."""
    return _reduced("SparseReduceMax", sp_input, axis, keepdims, reduction_axes, keep_dims)


def sparse_reduce_max_sparse(sp_input, axis=None, keepdims=None, reduction_axes=None, keep_dims=None):
    """Computes the largest value over some axes or all, as a sparse tensor.

    reduction_axes and keep_dims are old names of axis and keepdims."""
    return _reduced("SparseReduceMaxSparse", sp_input, axis, keepdims, reduction_axes, keep_dims)


# ---- packing ----

def serialize_sparse(sp_input, name=None, out_type=dtypes.string):
    """Returns a sparse tensor as a vector of 3 serialized tensors."""
    return call("SerializeSparse", name, out_type=out_type, **_parts(as_sparse(sp_input), "sparse_"))


def serialize_many_sparse(sp_input, name=None, out_type=dtypes.string):
    """Returns each row of the first dimension as 3 serialized tensors."""
    return call("SerializeManySparse", name, out_type=out_type, **_parts(as_sparse(sp_input), "sparse_"))


def _deserialized(op_type, serialized_sparse, dtype, rank, name):
    indices, values, shape = call(op_type, name, serialized_sparse=serialized_sparse, dtype=dtype)
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


def deserialize_many_sparse(serialized_sparse, dtype, rank=None, name=None):
    """Makes one sparse tensor from rows that serialize_many_sparse gave, or from joined serialize_sparse vectors."""
    return _deserialized("DeserializeManySparse", serialized_sparse, dtype, rank, name)


def deserialize_sparse(serialized_sparse, dtype, rank=None, name=None):
    """Makes a sparse tensor from the result of serialize_sparse; leading dimensions are a batch."""
    return _deserialized("DeserializeSparse", serialized_sparse, dtype, rank, name)


# ---- crosses of features ----

_HASH_KEY = 0xDECAFCAFFE


def _crossed(inputs, hashed, num_buckets, hash_key, name):
    inputs = [as_sparse(x) if isinstance(x, (SparseTensor, SparseTensorValue)) else convert.convert_to_tensor(x)
              for x in inputs]
    some = [x for x in inputs if isinstance(x, SparseTensor)]
    dense = [x for x in inputs if not isinstance(x, SparseTensor)]

    def wide(x):
        return math.cast(x, dtypes.int64) if x.dtype.is_integer and x.dtype is not dtypes.int64 else x
    values, dense = [wide(x.values) for x in some], [wide(x) for x in dense]
    internal = dtypes.string if any(x.dtype is dtypes.string for x in values + dense) else dtypes.int64
    return SparseTensor(*call(
        "SparseCross", name, indices=[x.indices for x in some], values=values, shapes=[x.dense_shape for x in some],
        dense_inputs=dense, hashed_output=hashed, num_buckets=num_buckets, hash_key=hash_key or _HASH_KEY,
        out_type=dtypes.int64 if hashed else dtypes.string, internal_type=internal))


def cross(inputs, name=None):
    """All combinations of the values of a row, as strings joined by _X_."""
    return _crossed(inputs, False, 0, None, name)


def cross_hashed(inputs, num_buckets=0, hash_key=None, name=None):
    return _crossed(inputs, True, num_buckets, hash_key, name)


def sparse_mask(a, mask_indices, name=None):
    """The rows of IndexedSlices that mask_indices does not name."""
    with ops.name_scope(name, "sparse_mask"):
        kept, where = call("ListDiff", None, x=a.indices, y=mask_indices)
        return ops.IndexedSlices(array.gather(a.values, where), kept, a.dense_shape)


add, concat, fill_empty_rows, mask, maximum, merge, minimum = (
    sparse_add, sparse_concat, sparse_fill_empty_rows, sparse_mask, sparse_maximum, sparse_merge, sparse_minimum)
matmul = sparse_dense_matmul = sparse_tensor_dense_matmul
placeholder, reduce_max, reduce_max_sparse, reduce_sum, reduce_sum_sparse = (
    sparse_placeholder, sparse_reduce_max, sparse_reduce_max_sparse, sparse_reduce_sum, sparse_reduce_sum_sparse)
reorder, reset_shape, reshape, retain, softmax, split, to_dense, to_indicator, transpose = (
    sparse_reorder, sparse_reset_shape, sparse_reshape, sparse_retain, sparse_softmax, sparse_split, sparse_tensor_to_dense,
    sparse_to_indicator, sparse_transpose)
cross, cross_hashed = sparse_cross, sparse_cross_hashed
segment_mean, segment_sqrt_n, segment_sum = sparse_segment_mean, sparse_segment_sqrt_n, sparse_segment_sum
slice = sparse_slice  # noqa: A001


def __getattr__(name):
    if name == "__all__":
        from . import lazy
        return lazy.exported(__name__, ["SparseConditionalAccumulator"])
    if name == "SparseConditionalAccumulator":
        from .ops.data_flow import SparseConditionalAccumulator
        return SparseConditionalAccumulator
    raise AttributeError("module 'millrace.sparse' has no attribute '%s'" % name)
