"""tf.sets: the last dimension of tensors as sets."""

from .framework import sparse
from .framework.op_defs import call


def _parts(prefix, x):
    return {prefix + "_indices": x.indices, prefix + "_values": x.values, prefix + "_shape": x.dense_shape}


def _combined(a, b, operation, validate_indices):
    a, b = (sparse.convert_to_tensor_or_sparse_tensor(x) for x in (a, b))
    of = dict(set_operation=operation, validate_indices=validate_indices)
    if isinstance(a, sparse.SparseTensor):
        if isinstance(b, sparse.SparseTensor):
            made = call("SparseToSparseSetOperation", None, **_parts("set1", a), **_parts("set2", b), **of)
        else:  # the library has the dense one first
            of["set_operation"] = "b-a" if operation == "a-b" else "a-b" if operation == "b-a" else operation
            made = call("DenseToSparseSetOperation", None, set1=b, **_parts("set2", a), **of)
    elif isinstance(b, sparse.SparseTensor):
        made = call("DenseToSparseSetOperation", None, set1=a, **_parts("set2", b), **of)
    else:
        made = call("DenseToDenseSetOperation", None, set1=a, set2=b, **of)
    return sparse.SparseTensor(*made)


def set_intersection(a, b, validate_indices=True):
    """Computes the intersection of the sets in the last dimension of a and b, as a sparse tensor."""
    return _combined(a, b, "intersection", validate_indices)


def set_union(a, b, validate_indices=True):
    """Computes the union of the sets in the last dimension of a and b, as a sparse tensor."""
    return _combined(a, b, "union", validate_indices)


def set_difference(a, b, aminusb=True, validate_indices=True):
    """Computes a - b of the sets in the last dimension, or b - a if aminusb is False, as a sparse tensor."""
    return _combined(a, b, "a-b" if aminusb else "b-a", validate_indices)


def set_size(a, validate_indices=True):
    """Computes the number of different elements along the last dimension of a sparse tensor."""
    a = sparse.convert_to_tensor_or_sparse_tensor(a)
    if not isinstance(a, sparse.SparseTensor):
        raise TypeError("Expected `SparseTensor`, got %s." % a)
    return call("SetSize", None, set_indices=a.indices, set_values=a.values, set_shape=a.dense_shape,
                validate_indices=validate_indices)


intersection, union, difference, size = set_intersection, set_union, set_difference, set_size
