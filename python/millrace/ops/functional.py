"""Loops over the first dimension of tensors: map_fn, scan, foldl, foldr."""

from ..framework import convert, dtypes, nest, ops, shapes, sparse
from . import array, control_flow
from .tensor_array import TensorArray

__all__ = ["foldl", "foldr", "map_fn", "scan"]


def _elements(elems, what):
    """The tensors of a structure, and how many elements they have."""
    flat = nest.flatten(elems)
    if not flat:
        raise ValueError("elems must be a Tensor or a sequence of Tensors.")
    if any(isinstance(x, sparse.SparseTensor) for x in flat):
        raise TypeError("To perform a %s over the values of a sparse tensor use either SparseTensor(input.indices, "
                        "fn(input.values), input.dense_shape) or SparseTensor(input.indices, %s(fn, input.values), "
                        "input.dense_shape)" % (what, what))
    flat = [convert.convert_to_tensor(x, name="elem") for x in flat]
    if flat[0].shape.ndims == 0:
        raise ValueError("elements in elems must be 1+ dimensional Tensors, not scalars")
    known = flat[0].shape.dims[0].value if flat[0].shape.ndims else None
    for x in flat[1:]:
        if known is not None and x.shape.ndims:
            x.shape.dims[0].merge_with(known)
    return flat, known if known is not None else array.shape(flat[0])[0]


def _arrays(flat, n):
    """What is read by the iterations; scan and the folds read an element more than once."""
    return [TensorArray(x.dtype, n, dynamic_size=False, clear_after_read=False, infer_shape=True,
                        element_shape=x.shape[1:] if x.shape.ndims else None).unstack(x) for x in flat]


def _check(fn):
    if not callable(fn):
        raise TypeError("fn must be callable.")


def map_fn(fn, elems, dtype=None, parallel_iterations=None, back_prop=True, swap_memory=False, infer_shape=True, name=None):
    """fn of each element, stacked; dtype is needed when it differs from that of elems in types or form."""
    _check(fn)
    with ops.name_scope(name, "map", nest.flatten(elems)):
        flat, n = _elements(elems, "map_fn")
        form = elems if dtype is None else dtype
        types = [x.dtype for x in flat] if dtype is None else [dtypes.as_dtype(t) for t in nest.flatten(dtype)]
        inputs = [TensorArray(x.dtype, n, element_shape=x.shape[1:] if x.shape.ndims else None).unstack(x) for x in flat]
        results = [TensorArray(t, n, infer_shape=infer_shape) for t in types]

        def step(i, arrays):
            made = fn(nest.pack_sequence_as(elems, [a.read(i) for a in inputs]))
            nest.assert_same_structure(form, made)
            return i + 1, [a.write(i, v) for a, v in zip(arrays, nest.flatten(made))]

        _, arrays = control_flow.while_loop(lambda i, _: i < n, step, (convert.constant(0), results),
                                            parallel_iterations=parallel_iterations or 10, back_prop=back_prop,
                                            swap_memory=swap_memory, maximum_iterations=n)
        return nest.pack_sequence_as(form, _stacked(arrays, flat[0]))


def _stacked(arrays, like):
    """The arrays as tensors, of as many elements as a tensor has."""
    out = [a.stack() for a in arrays]
    known = like.shape.dims[0].value if like.shape.ndims else None
    for t in out:
        if t.shape.ndims is not None:
            t.set_shape(shapes.TensorShape([known]).concatenate(t.shape[1:]))
    return out


def scan(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, infer_shape=True,
         reverse=False, name=None):
    """a = fn(a, element) for one element after the other; all values of a, stacked."""
    _check(fn)
    with ops.name_scope(name, "scan", nest.flatten(elems)):
        flat, n = _elements(elems, "scan")
        inputs = _arrays(flat, n)
        first = (n - 1 if reverse else 0)
        if initializer is None:
            form, start = elems, [a.read(first) for a in inputs]
            i = convert.constant(1) if not reverse else n - 2
        else:
            form = initializer
            start = [convert.convert_to_tensor(x) for x in nest.flatten(initializer)]
            i = convert.constant(0) if not reverse else n - 1
        i = convert.convert_to_tensor(i)
        results = [TensorArray(a.dtype.base_dtype, n, element_shape=a.shape if infer_shape else None, infer_shape=infer_shape)
                   for a in start]
        if initializer is None:
            results = [r.write(first, a) for r, a in zip(results, start)]

        def step(i, values, arrays):
            made = fn(nest.pack_sequence_as(form, values), nest.pack_sequence_as(elems, [a.read(i) for a in inputs]))
            nest.assert_same_structure(form, made)
            made = nest.flatten(made)
            return (i - 1 if reverse else i + 1), made, [a.write(i, v) for a, v in zip(arrays, made)]

        goes_on = (lambda i, *_: i >= 0) if reverse else (lambda i, *_: i < n)
        _, _, arrays = control_flow.while_loop(goes_on, step, (i, start, results), parallel_iterations=parallel_iterations,
                                               back_prop=back_prop, swap_memory=swap_memory, maximum_iterations=n)
        return nest.pack_sequence_as(form, _stacked(arrays, flat[0]))


def _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name, default_name, backwards):
    _check(fn)
    with ops.name_scope(name, default_name, nest.flatten(elems)):
        flat, n = _elements(elems, default_name)
        inputs = _arrays(flat, n)

        def element(i):
            return nest.pack_sequence_as(elems, [a.read(i) for a in inputs])
        i = convert.convert_to_tensor(n) if backwards else convert.constant(0)
        if initializer is None:
            i = i - 1 if backwards else convert.constant(1)
            value = element(i if backwards else 0)
        else:
            value = nest.map_structure(convert.convert_to_tensor, initializer)

        def step(i, a):
            i = i - 1 if backwards else i
            made = fn(a, element(i))
            return (i if backwards else i + 1), made
        goes_on = (lambda i, _: i > 0) if backwards else (lambda i, _: i < n)
        return control_flow.while_loop(goes_on, step, [i, value], parallel_iterations=parallel_iterations, back_prop=back_prop,
                                       swap_memory=swap_memory, maximum_iterations=n)[1]


def foldl(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, name=None):
    """a = fn(a, element) for one element after the other; the last a."""
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name, "foldl", False)


def foldr(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, name=None):
    """foldl from the last element to the first."""
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name, "foldr", True)
