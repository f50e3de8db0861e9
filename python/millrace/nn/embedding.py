"""Lookups of rows in tables that may be spread over several tensors."""

from ..framework import convert, dtypes, ops
from ..framework.op_defs import raw
from ..framework.sparse import SparseTensor
from ..ops import array, clip, math, variables

__all__ = ["embedding_lookup", "embedding_lookup_sparse", "safe_embedding_lookup_sparse"]


def embedding_lookup(params, ids, partition_strategy="mod", name=None, validate_indices=True, max_norm=None):
    """The rows `ids` of a table; of one in parts, "mod" puts row i into part i % n, "div" puts neighbours together."""
    return _lookup(params, ids, partition_strategy, name, max_norm)


def _parts(params):
    if params is None or isinstance(params, (list, tuple)) and not params:
        raise ValueError("Need at least one param")
    if isinstance(params, variables.PartitionedVariable):
        return list(params)
    return list(params) if isinstance(params, (list, tuple)) else [params]


def _lookup(params, ids, strategy, name, max_norm):
    params = _parts(params)
    with ops.name_scope(name, "embedding_lookup", params + [ids]) as name:
        params = [p if isinstance(p, variables.Variable) else convert.convert_to_tensor(p) for p in params]
        ids = convert.convert_to_tensor(ids, name="ids")
        if len(params) == 1:
            with ops.colocate_with(params[0]):
                found = _clipped(array.gather(params[0], ids, name=name), ids, max_norm)
            return array.identity(found)
        return _lookup_in_parts(params, ids, strategy, name, max_norm)


def _clipped(rows, ids, max_norm):
    if max_norm is None:
        return rows
    if ids.shape.ndims is None or rows.shape.ndims is None:
        axes = math.range(array.rank(ids), array.rank(rows))
    else:
        axes = list(range(ids.shape.ndims, rows.shape.ndims))
    return clip.clip_by_norm(rows, max_norm, axes=axes)


def _lookup_in_parts(params, ids, strategy, name, max_norm):
    """Sends each id to its part, and puts what is found there together in the order of the ids."""
    flat = array.reshape(ids, [-1])
    where, within = _places(params, flat, strategy)
    where = math.cast(where, dtypes.int32)
    groups = raw.dynamic_partition(within, where, len(params))
    positions = raw.dynamic_partition(math.range(array.size(flat)), where, len(params))
    found = []
    for p, group in zip(params, groups):
        with ops.colocate_with(p):
            found.append(_clipped(array.gather(p, group), group, max_norm))
    row_shape = params[0].shape[1:]
    for p in params[1:]:
        row_shape = row_shape.merge_with(p.shape[1:])
    rows = raw.dynamic_stitch(positions, found, name=name)
    tail = row_shape if row_shape.is_fully_defined() else array.shape(rows)[1:]
    out = array.reshape(rows, array.concat([array.shape(ids), tail], 0))
    out.set_shape(ids.shape.concatenate(row_shape))
    return out


def _places(params, flat, strategy):
    """(part, row in the part) of each id."""
    n = len(params)
    if strategy == "mod":
        return math.floormod(flat, n), math.floordiv(flat, n)
    if strategy != "div":
        raise ValueError("Unrecognized partition strategy: " + str(strategy))
    sizes = [p.shape.as_list()[0] if p.shape.ndims is not None else None for p in params]
    if None not in sizes:
        total = convert.constant(sum(sizes), flat.dtype.base_dtype)
    else:
        total = math.cast(math.add_n([array.shape(p)[0] for p in params]), flat.dtype.base_dtype)
    each, extras = math.floordiv(total, n), math.floormod(total, n)
    # The first `extras` parts have one row more.
    part = math.maximum(math.floordiv(flat, each + 1), math.floordiv(flat - extras, each))
    row = array.where(part < extras, math.floormod(flat, each + 1), math.floormod(flat - extras, each))
    return part, row


# ---- several rows for each result ----

def embedding_lookup_sparse(params, sp_ids, sp_weights, partition_strategy="mod", name=None, combiner=None, max_norm=None):
    """Computes, for each row of sp_ids, the sum, mean or sum / sqrt(number) of the rows that its ids name."""
    combiner = "mean" if combiner is None else combiner
    if combiner not in ("mean", "sqrtn", "sum"):
        raise ValueError("combiner must be one of 'mean', 'sqrtn' or 'sum'")
    params = _parts(params)
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError("sp_ids must be SparseTensor")
    if sp_weights is not None:
        if not isinstance(sp_weights, SparseTensor):
            raise TypeError("sp_weights must be either None or SparseTensor")
        sp_ids.values.shape.assert_is_compatible_with(sp_weights.values.shape)
        sp_ids.indices.shape.assert_is_compatible_with(sp_weights.indices.shape)
    with ops.name_scope(name, "embedding_lookup_sparse", params + [sp_ids.values]) as name:
        segments = math.cast(sp_ids.indices[:, 0], dtypes.int32)
        ids, places = array.unique(sp_ids.values)
        rows = _lookup(params, ids, partition_strategy, None, max_norm)
        if rows.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16):
            rows = math.to_float(rows)
        if sp_weights is None:
            f = {"sum": math.sparse_segment_sum, "mean": math.sparse_segment_mean,
                 "sqrtn": math.sparse_segment_sqrt_n}[combiner]
            return f(rows, places, segments, name=name)
        return _weighted(array.gather(rows, places), sp_weights.values, segments, combiner, name)


def _weighted(rows, weights, segments, combiner, name):
    if weights.dtype.base_dtype is not rows.dtype.base_dtype:
        weights = math.cast(weights, rows.dtype.base_dtype)
    known = rows.shape
    column = array.reshape(weights, array.concat([array.shape(weights), array.ones([array.rank(rows) - 1], dtypes.int32)], 0))
    if known.ndims is not None:
        column.set_shape([None] + [1] * (known.ndims - 1))
    rows = rows * column
    rows.set_shape(known)
    if combiner == "sum":
        return math.segment_sum(rows, segments, name=name)
    total = math.segment_sum(rows, segments)
    if combiner == "mean":
        return math.divide(total, math.segment_sum(column, segments), name=name)
    return math.divide(total, math.sqrt(math.segment_sum(math.pow(column, 2), segments)), name=name)


def safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights=None, combiner="mean", default_id=None,
                                 name=None, partition_strategy="div", max_norm=None):
    """embedding_lookup_sparse in which ids below 0 and weights of 0 or less do not count, and rows without any give zeros (or
    the row default_id)."""
    parts = _parts(embedding_weights)
    with ops.name_scope(name, "embedding_lookup", parts + [sparse_ids.values]) as scope:
        shape = sparse_ids.dense_shape
        rank = sparse_ids.dense_shape.shape.as_list()[0]
        outer = shape[:-1]
        ids = _as_matrix(sparse_ids, shape)
        weights = None if sparse_weights is None else SparseTensor(ids.indices, sparse_weights.values, ids.dense_shape)
        ids, weights = _pruned(ids, weights, combiner)
        filled = raw.sparse_fill_empty_rows(ids.indices, ids.values, ids.dense_shape,
                                            math.cast(default_id or 0, ids.values.dtype.base_dtype))
        ids = SparseTensor(filled[0], filled[1], ids.dense_shape)
        if weights is not None:
            more = raw.sparse_fill_empty_rows(weights.indices, weights.values, weights.dense_shape,
                                              math.cast(1.0, weights.values.dtype.base_dtype))
            weights = SparseTensor(more[0], more[1], weights.dense_shape)
        found = embedding_lookup_sparse(parts, ids, weights, partition_strategy, None if default_id is None else scope,
                                        combiner, max_norm)
        if default_id is None:
            empty = array.tile(array.reshape(filled[2], [-1, 1]), array.stack([1, array.shape(found)[1]]))
            found = array.where(empty, array.zeros_like(found), found, name=scope)
        out = array.reshape(found, array.concat([math.cast(outer, dtypes.int32), array.shape(found)[1:]], 0))
        row = parts[0].shape[1:]
        out.set_shape(convert.constant_value_as_shape(outer).concatenate(row) if rank is None or rank > 1 else None)
        return out


def _as_matrix(ids, shape):
    """A sparse matrix whose rows are the last dimension."""
    rows = math.reduce_prod(shape[:-1])
    indices, new_shape = raw.sparse_reshape(ids.indices, shape, array.stack([rows, shape[-1]]))
    return SparseTensor(indices, array.identity(ids.values), new_shape)


def _pruned(ids, weights, combiner):
    keep = ids.values >= 0
    if weights is not None and combiner != "sum":
        keep = math.logical_and(keep, weights.values > 0)
    at = array.reshape(array.where(keep), [-1])
    indices = array.gather(ids.indices, at)
    kept = SparseTensor(indices, array.gather(ids.values, at), ids.dense_shape)
    if weights is not None:
        weights = SparseTensor(indices, array.gather(weights.values, at), ids.dense_shape)
    return kept, weights
