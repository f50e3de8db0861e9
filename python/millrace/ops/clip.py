"""Clipping, of gradients mostly."""

import functools

from ..framework import convert, dtypes, op_defs, ops
from . import array, math

__all__ = ["clip_by_value", "clip_by_norm", "clip_by_average_norm", "clip_by_global_norm", "global_norm"]


def _rows(t, f):
    """f of a tensor, or of the values of IndexedSlices."""
    return ops.IndexedSlices(f(t.values), t.indices, t.dense_shape) if isinstance(t, ops.IndexedSlices) else f(t)


def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    """Limits each element to the range from clip_value_min to clip_value_max."""
    with ops.name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as name:
        values = convert.convert_to_tensor(t.values if isinstance(t, ops.IndexedSlices) else t, name="t")
        low = math.minimum(values, clip_value_max)
        values.shape.merge_with(low.shape)
        out = math.maximum(low, clip_value_min, name=name)
        values.shape.merge_with(out.shape)
        return ops.IndexedSlices(out, t.indices, t.dense_shape) if isinstance(t, ops.IndexedSlices) else out


def clip_by_norm(t, clip_norm, axes=None, name=None):
    """Scales a tensor down so that its L2 norm, over axes or the whole tensor, is at most clip_norm."""
    with ops.name_scope(name, "clip_by_norm", [t, clip_norm]) as name:
        values = convert.convert_to_tensor(t.values if isinstance(t, ops.IndexedSlices) else t, name="t")
        squares = math.reduce_sum(values * values, axes, keepdims=True)
        positive = squares > 0
        # The square root of 0 has no gradient: it is replaced by 1.
        safe = array.where(positive, squares, array.ones_like(squares))
        norm = array.where(positive, math.sqrt(safe), squares)
        scaled = values * clip_norm
        values.shape.merge_with(scaled.shape)
        out = array.identity(scaled / math.maximum(norm, clip_norm), name=name)
        return ops.IndexedSlices(out, t.indices, t.dense_shape) if isinstance(t, ops.IndexedSlices) else out


def clip_by_average_norm(t, clip_norm, name=None):
    """Scales a tensor down so that its L2 norm divided by its number of elements is at most clip_norm."""
    with ops.name_scope(name, "clip_by_average_norm", [t, clip_norm]) as name:
        t = convert.convert_to_tensor(t, name="t")
        n = math.cast(array.size(t), dtypes.float32)
        inverse = math.rsqrt(math.reduce_sum(t * t, keepdims=True))
        return array.identity(t * clip_norm * math.minimum(inverse * n, convert.constant(1.0) / clip_norm), name=name)


def global_norm(t_list, name=None):
    """The root of the sum of squares of all elements of all tensors; None among them is left out."""
    with ops.name_scope(name, "global_norm", [t for t in t_list if t is not None]) as name:
        parts = [t.values if isinstance(t, ops.IndexedSlices) else convert.convert_to_tensor(t)
                 for t in t_list if t is not None]
        half = math.reduce_sum(array.stack([op_defs.call("L2Loss", None, t=p) for p in parts]))
        return math.sqrt(half * convert.constant(2.0, half.dtype), name="global_norm")


def clip_by_global_norm(t_list, clip_norm, use_norm=None, name=None):
    """(tensors scaled down so that their global norm is at most clip_norm, the norm before)"""
    if not isinstance(t_list, (list, tuple)) or isinstance(t_list, str):
        raise TypeError("t_list should be a sequence")
    t_list = list(t_list)
    norm = global_norm(t_list, name) if use_norm is None else convert.convert_to_tensor(use_norm)
    with ops.name_scope(name, "clip_by_global_norm", [t for t in t_list if t is not None] + [clip_norm]) as scope:
        one = convert.constant(1.0, norm.dtype)
        scale = clip_norm * math.minimum(one / norm, one / convert.convert_to_tensor(clip_norm, norm.dtype))
        # A norm that is not finite must be seen, not hidden by the minimum.
        scale = scale + (norm - norm)

        def scaled(i, v):
            v = convert.convert_to_tensor(v)
            return array.identity(v * math.cast(scale, v.dtype.base_dtype), name="%s_%d" % (scope, i))
        return [None if t is None else _rows(t, functools.partial(scaled, i)) for i, t in enumerate(t_list)], norm
