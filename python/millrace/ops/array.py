"""Making, shaping, joining and cutting tensors; slicing of tensors."""

import builtins

import numpy as np

from ..framework import convert, dtypes, op_defs, ops, shapes

from .math import cast, deprecated, place_of, range as _range
from .op_functions import (batch_to_space_nd, broadcast_to, check_numerics, dequantize, dynamic_partition,
                           dynamic_stitch, fake_quant_with_min_max_args, fake_quant_with_min_max_args_gradient,
                           fake_quant_with_min_max_vars, fake_quant_with_min_max_vars_gradient,
                           fake_quant_with_min_max_vars_per_channel, guarantee_const, mirror_pad, parallel_concat,
                           quantize_v2, quantized_concat, scatter_nd, space_to_batch_nd, stop_gradient,
                           tensor_scatter_add, tensor_scatter_nd_add, tensor_scatter_nd_sub, tensor_scatter_nd_update,
                           tensor_scatter_sub, tensor_scatter_update, tile, unravel_index)

# Functions that are an op and nothing more; @public adds the others.
__all__ = [n for n, f in list(globals().items()) if getattr(f, "__module__", "") == "millrace.ops.op_functions"]


def public(f):
    __all__.append(f.__name__)
    return f


# ---- making ----

@public
def placeholder(dtype, shape=None, name=None):
    """Returns a tensor that must be fed."""
    return op_defs.call("Placeholder", name, dtype=dtype, shape=shape)


@public
def placeholder_with_default(input, shape, name=None):  # noqa: A002 -- tf's argument names are Python's here and below
    """Returns a tensor that has the value of input unless it is fed."""
    return op_defs.call("PlaceholderWithDefault", name, input=input, shape=shape)


@public
def sparse_placeholder(dtype, shape=None, name=None):
    """Returns a sparse tensor that must be fed."""
    from ..framework.sparse import SparseTensor
    base = (name + "/") if name is not None else ""
    static = None if shape is None or isinstance(shape, ops.Tensor) else shapes.as_shape(shape)
    if isinstance(shape, ops.Tensor):
        rank = shape.shape.with_rank(1)[0].value
        dense = convert.convert_to_tensor(shape, dtypes.int64)
    elif static is None:
        rank, dense = None, placeholder(dtypes.int64, [None], base + "shape" if name else None)
    else:
        rank = static.ndims
        if static.is_fully_defined():
            dense = convert.constant(np.array(static.as_list(), np.int64), name=base + "shape" if name else "Const")
        else:
            unknown = np.array([-1 if d is None else d for d in static.as_list()], np.int64)
            dense = placeholder_with_default(unknown, [rank], base + "shape" if name else None)
    values = placeholder(dtype, [None], base + "values" if name else None)
    return SparseTensor(indices=placeholder(dtypes.int64, [None, rank], base + "indices" if name else None), values=values,
                        dense_shape=dense)


def _shape_tensor(shape, dtype=dtypes.int32):
    """A shape as a vector: a constant where it is known."""
    if isinstance(shape, ops.Tensor):
        return shape
    if isinstance(shape, (int, np.integer)):
        shape = [shape]
    if isinstance(shape, shapes.TensorShape):
        return convert.convert_to_tensor(shape, dtype)
    if isinstance(shape, (list, tuple)) and all(isinstance(d, (int, np.integer, shapes.Dimension)) for d in shape):
        return convert.constant(np.array([int(d) for d in shape], dtype.as_numpy_dtype), name="shape")
    return convert.convert_to_tensor(shape, name="shape")


def _static_dims(shape):
    """The dimensions of a shape that is known now, else None."""
    try:
        s = shapes.as_shape(shape) if not isinstance(shape, ops.Tensor) else None
    except (TypeError, ValueError):
        return None
    return s.as_list() if s is not None and s.is_fully_defined() else None


def _filled(shape, dtype, name, default_name, value):
    dtype = dtypes.as_dtype(dtype).base_dtype
    with ops.name_scope(name, default_name, [shape]) as name:
        number = ("" if value == 0 else None) if dtype is dtypes.string else np.array(value).astype(dtype.as_numpy_dtype)
        dims = _static_dims(shape)
        # Small ones are constants, as TensorFlow makes them.
        if dims is not None and shapes.TensorShape(dims).num_elements() < 1000:
            array = np.full(dims, number, object if dtype is dtypes.string else dtype.as_numpy_dtype)
            return convert._const(array, dtype, name)
        return op_defs.call("Fill", name, dims=_shape_tensor(shape), value=convert._const(np.asarray(number), dtype, "Const"))


@public
def zeros(shape, dtype=dtypes.float32, name=None):
    """Returns a tensor of zeros."""
    return _filled(shape, dtype, name, "zeros", 0)


@public
def ones(shape, dtype=dtypes.float32, name=None):
    """Returns a tensor of ones."""
    return _filled(shape, dtype, name, "ones", 1)


def _like(tensor, dtype, name, default_name, op_type, make, optimize):
    with ops.name_scope(name, default_name, [tensor]) as name:
        tensor = convert.convert_to_tensor(tensor, name="tensor")
        wanted = tensor.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
        if optimize and tensor.shape.is_fully_defined() and tensor.dtype is not dtypes.variant:
            return make(tensor.shape, wanted, name)
        if wanted is tensor.dtype.base_dtype:
            return op_defs.call(op_type, name, x=tensor)
        return make(shape(tensor), wanted, name)


@public
def zeros_like(tensor, dtype=None, name=None, optimize=True):
    """Returns zeros in the shape of a tensor, and of its type unless dtype is given.

    With optimize, a statically known shape becomes a constant."""
    return _like(tensor, dtype, name, "zeros_like", "ZerosLike", zeros, optimize)


@public
def ones_like(tensor, dtype=None, name=None, optimize=True):
    """Returns ones in the shape of a tensor, and of its type unless dtype is given.

    With optimize, a statically known shape becomes a constant."""
    return _like(tensor, dtype, name, "ones_like", "OnesLike", ones, optimize)


@public
def fill(dims, value, name=None):
    """Returns a tensor of shape dims whose elements are all the scalar value."""
    return op_defs.call("Fill", name, dims=_shape_tensor(dims), value=value)


@public
def eye(num_rows, num_columns=None, batch_shape=None, dtype=dtypes.float32, name=None):
    """Returns an identity matrix, or a batch of them.

    Args:
        num_rows: the number of rows
        num_columns: the number of columns; None makes the matrix square
        batch_shape: leading dimensions of the result
    """
    with ops.name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        columns = num_rows if num_columns is None else num_columns
        batch = [] if batch_shape is None else batch_shape
        if all(isinstance(n, (int, np.integer)) for n in (num_rows, columns)) and _static_dims(batch) is not None:
            square = np.broadcast_to(np.eye(num_rows, columns, dtype=dtypes.as_dtype(dtype).as_numpy_dtype),
                                     list(batch) + [num_rows, columns])
            return convert._const(np.ascontiguousarray(square), dtypes.as_dtype(dtype), "eye")
        batch = _shape_tensor(batch)
        from .math import minimum
        size = minimum(num_rows, columns)
        diagonal = ones(concat([batch, [size]], 0), dtype)
        if num_columns is None:
            return op_defs.call("MatrixDiag", None, diagonal=diagonal)
        empty = zeros(concat([batch, [num_rows, columns]], 0), dtype)
        return op_defs.call("MatrixSetDiag", None, input=empty, diagonal=diagonal)


@public
def one_hot(indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None):
    """Returns vectors that are on_value at the index and off_value elsewhere.

    Args:
        indices: the positions; an index outside of 0 to depth - 1 makes a vector of off_value
        depth: the length of the vectors
        on_value: 1 by default
        off_value: 0 by default
        axis: where the new dimension is inserted; the last by default
        dtype: the type of the result; taken from the values, or float32
    """
    with ops.name_scope(name, "one_hot", [indices, depth, on_value, off_value]) as name:
        given = [dtypes.as_dtype(v.dtype).base_dtype if hasattr(v, "dtype") else convert.as_array(v)[1]
                 for v in (on_value, off_value) if v is not None]
        if dtype is None:
            dtype = given[0] if given else dtypes.float32
        dtype = dtypes.as_dtype(dtype).base_dtype
        tensors = [v for v in (on_value, off_value) if hasattr(v, "dtype")]
        if any(dtypes.as_dtype(t.dtype).base_dtype is not dtype for t in tensors):
            raise TypeError("dtypes of on_value, off_value do not match dtype parameter %s" % dtype.name)
        usual = (True, False) if dtype is dtypes.bool_ else (1, 0)
        on = convert.convert_to_tensor(usual[0] if on_value is None else on_value, dtype, name="on_value")
        off = convert.convert_to_tensor(usual[1] if off_value is None else off_value, dtype, name="off_value")
        return op_defs.call("OneHot", name, indices=indices, depth=depth, on_value=on, off_value=off,
                            axis=-1 if axis is None else axis)


@public
def meshgrid(*args, **kwargs):
    """Returns tensors of coordinates on the grid that the given vectors span.

    The keyword indexing is "xy" (the first two dimensions swapped, as in plots) or "ij" (matrix order)."""
    indexing, name = kwargs.pop("indexing", "xy"), kwargs.pop("name", "meshgrid")
    if kwargs:
        raise TypeError("'%s' is an invalid keyword argument for this function" % next(iter(kwargs)))
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing parameter must be either 'xy' or 'ij'")
    with ops.name_scope(name, "meshgrid", list(args)):
        n = len(args)
        parts = [reshape(x, [-1 if j == i else 1 for j in range(n)]) for i, x in enumerate(args)]
        sizes = [size(x) for x in args]
        if indexing == "xy" and n > 1:
            parts[0] = reshape(args[0], [1, -1] + [1] * (n - 2))
            parts[1] = reshape(args[1], [-1, 1] + [1] * (n - 2))
            sizes[0], sizes[1] = sizes[1], sizes[0]
        whole = ones(stack(sizes), parts[0].dtype.base_dtype) if parts else None
        return [p * cast(whole, p.dtype.base_dtype) for p in parts]


# ---- asking ----

@public
def shape(input, name=None, out_type=dtypes.int32):  # noqa: A002
    """Returns the shape of a tensor, as a constant where it is known."""
    with ops.name_scope(name, "Shape", [input]) as name:
        if hasattr(input, "dense_shape") and not isinstance(input, ops.Tensor):
            return cast(input.dense_shape, out_type)
        x = convert.convert_to_tensor(input)
        if x.shape.is_fully_defined():
            out_type = dtypes.as_dtype(out_type)
            return convert._const(np.array(x.shape.as_list(), out_type.as_numpy_dtype), out_type, name)
        return op_defs.call("Shape", name, input=x, out_type=out_type)


@public
def shape_n(input, out_type=dtypes.int32, name=None):  # noqa: A002
    """Returns the shapes of several tensors."""
    return op_defs.call("ShapeN", name, input=input, out_type=out_type)


@public
def size(input, name=None, out_type=dtypes.int32):  # noqa: A002
    """Returns the number of elements of a tensor."""
    with ops.name_scope(name, "Size", [input]) as name:
        if hasattr(input, "dense_shape") and not isinstance(input, ops.Tensor):
            from .math import reduce_prod
            return reduce_prod(cast(input.dense_shape, out_type), 0, name=name)
        x = convert.convert_to_tensor(input)
        n = x.shape.num_elements()
        if n is not None:
            return convert._const(np.array(n, dtypes.as_dtype(out_type).as_numpy_dtype), dtypes.as_dtype(out_type), name)
        return op_defs.call("Size", name, input=x, out_type=out_type)


@public
def rank(input, name=None):  # noqa: A002
    """Returns the number of dimensions of a tensor."""
    with ops.name_scope(name, "Rank", [input]) as name:
        if hasattr(input, "dense_shape") and not isinstance(input, ops.Tensor):
            return op_defs.call("Size", name, input=input.dense_shape)
        x = convert.convert_to_tensor(input)
        if x._rank() is not None:
            return convert._const(np.array(x._rank(), np.int32), dtypes.int32, name)
        return op_defs.call("Rank", name, input=x)


# ---- shaping ----

@public
def identity(input, name=None):  # noqa: A002
    """Returns a tensor with the same values."""
    return op_defs.call("Identity", name, input=input)


@public
def identity_n(input, name=None):  # noqa: A002
    """Returns tensors with the same values as the inputs; they are ready together."""
    return op_defs.call("IdentityN", name, input=input)


@public
def reshape(tensor, shape, name=None):
    """Returns a tensor with the same elements in another shape; one dimension may be -1, to be computed."""
    return op_defs.call("Reshape", name, tensor=tensor, shape=_minus_one(shape))


def _minus_one(shape):
    """Shapes given as Python values may have None, or Dimensions."""
    if isinstance(shape, shapes.TensorShape) and shape.ndims is not None:
        shape = shape.as_list()
    if isinstance(shape, (list, tuple)):
        if not shape:
            return np.array([], np.int32)
        return [(-1 if d.value is None else d.value) if isinstance(d, shapes.Dimension) else d for d in shape]
    return shape


@public
def expand_dims(input, axis=None, name=None, dim=None):  # noqa: A002
    """Inserts a dimension of size 1 at position axis.

    dim is an old name of axis."""
    axis = deprecated(axis, "axis", dim, "dim")
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return op_defs.call("ExpandDims", name, input=input, dim=axis)


@public
def squeeze(input, axis=None, name=None, squeeze_dims=None):  # noqa: A002
    """Removes dimensions of size 1: all of them, or those in axis.

    squeeze_dims is an old name of axis."""
    axis = deprecated(axis, "axis", squeeze_dims, "squeeze_dims")
    axes = [] if axis is None else [axis] if isinstance(axis, (int, np.integer)) else list(axis)
    return op_defs.call("Squeeze", name, input=input, squeeze_dims=axes)


@public
def transpose(a, perm=None, name="transpose", conjugate=False):
    """Permutes the dimensions: dimension i of the result is dimension perm[i] of a.

    Without perm the order is reversed. With conjugate, complex numbers are also conjugated."""
    with ops.name_scope(name, "transpose", [a]) as name:
        a = convert.convert_to_tensor(a, name="a")
        op_type = "ConjugateTranspose" if conjugate and a.dtype.is_complex else "Transpose"
        if perm is None:
            if a._rank() is not None:
                perm = np.arange(a._rank() - 1, -1, -1, dtype=np.int32)
            else:
                n = rank(a)
                perm = (n - 1) - _range(0, n, 1)
        return op_defs.call(op_type, name, x=a, perm=perm)


@public
def pad(tensor, paddings, mode="CONSTANT", name=None, constant_values=0):
    """Adds elements before and after each dimension.

    Args:
        tensor: the tensor to pad
        paddings: [rank, 2], the number of elements before and after
        mode: "CONSTANT", "REFLECT" (mirrored without the edge) or "SYMMETRIC" (mirrored with the edge)
        constant_values: the value of the new elements in mode "CONSTANT"
    """
    mode = mode.upper()
    if mode in ("REFLECT", "SYMMETRIC"):
        return _with_padded_shape(op_defs.call("MirrorPad", name, input=tensor, paddings=paddings, mode=mode))
    if mode != "CONSTANT":
        raise ValueError("Unknown padding mode: %s" % mode)
    if not isinstance(constant_values, ops.Tensor) and np.ndim(constant_values) == 0 and constant_values == 0:
        return _with_padded_shape(op_defs.call("Pad", name, input=tensor, paddings=paddings))
    tensor = convert.convert_to_tensor(tensor)
    return _with_padded_shape(op_defs.call("PadV2", name, input=tensor, paddings=paddings,
                                           constant_values=convert.convert_to_tensor(constant_values, tensor.dtype.base_dtype)))


def _with_padded_shape(padded):
    """The result of a padding, with the dimensions that are known where paddings are known in part."""
    x, paddings = padded.op.inputs[:2]
    if x._rank() is None or padded.shape.is_fully_defined():
        return padded
    known = convert.constant_value(paddings, partial=True)
    if known is not None:
        padded.set_shape([None if d is None or pair is None or any(p is None for p in pair) else d + int(sum(pair))
                          for pair, d in zip(known, x._dims)])
    return padded


@public
def reverse(tensor, axis, name=None):
    """Reverses the order of elements along the given axes."""
    return op_defs.call("ReverseV2", name, tensor=tensor, axis=[axis] if isinstance(axis, (int, np.integer)) else axis)


reverse_v2 = reverse
__all__.append("reverse_v2")


@public
def reverse_sequence(input, seq_lengths, seq_axis=None, batch_axis=None, name=None, seq_dim=None, batch_dim=None):  # noqa: A002
    """Reverses the first seq_lengths[i] elements along seq_axis for each i of batch_axis.

    seq_dim and batch_dim are old names of the axes."""
    seq = deprecated(seq_axis, "seq_axis", seq_dim, "seq_dim")
    batch = deprecated(batch_axis, "batch_axis", batch_dim, "batch_dim")
    return op_defs.call("ReverseSequence", name, input=input, seq_lengths=seq_lengths, seq_dim=seq, batch_dim=batch or 0)


@public
def roll(input, shift, axis, name=None):  # noqa: A002
    """Shifts elements along axes; those that leave at one end enter at the other."""
    return op_defs.call("Roll", name, input=input, shift=shift, axis=axis)


@public
def space_to_depth(input, block_size, name=None, data_format="NHWC"):  # noqa: A002
    """Moves blocks of block_size * block_size pixels into the channels."""
    return op_defs.call("SpaceToDepth", name, input=input, block_size=block_size, data_format=data_format)


@public
def depth_to_space(input, block_size, name=None, data_format="NHWC"):  # noqa: A002
    """Moves channels into blocks of block_size * block_size pixels."""
    return op_defs.call("DepthToSpace", name, input=input, block_size=block_size, data_format=data_format)


@public
def space_to_batch(input, paddings, block_size=None, name=None, block_shape=None):  # noqa: A002
    """Pads images and moves blocks of pixels into the batch dimension.

    Args:
        paddings: [dimensions, 2], the number of zeros before and after each spatial dimension
        block_size: the size of the blocks in height and width
        block_shape: instead of block_size, a size for each spatial dimension
    """
    if block_shape is not None:
        return space_to_batch_nd(input, block_shape, paddings, name=name)  # noqa: F821
    return op_defs.call("SpaceToBatch", name, input=input, paddings=paddings, block_size=block_size)


@public
def batch_to_space(input, crops, block_size=None, name=None, block_shape=None):  # noqa: A002
    """Moves parts of the batch dimension back into blocks of pixels, then crops.

    Args:
        crops: [dimensions, 2], the number of elements to cut off before and after each spatial dimension
        block_size: the size of the blocks in height and width
        block_shape: instead of block_size, a size for each spatial dimension
    """
    if block_shape is not None:
        return batch_to_space_nd(input, block_shape, crops, name=name)  # noqa: F821
    return op_defs.call("BatchToSpace", name, input=input, crops=crops, block_size=block_size)


@public
def extract_image_patches(images, ksizes=None, strides=None, rates=None, padding=None, name=None, sizes=None):
    """Returns the patches of images, each flattened into the last dimension.

    Args:
        images: [batch, height, width, channels]
        ksizes: the size of the patches, a list of 4 ints; sizes is another name
        strides: the distance between patches, a list of 4 ints
        rates: the spacing of pixels in a patch, a list of 4 ints
        padding: "SAME" or "VALID"
    """
    return op_defs.call("ExtractImagePatches", name, images=images, ksizes=deprecated(sizes, "sizes", ksizes, "ksizes"),
                        strides=strides, rates=rates, padding=padding)


# ---- joining and cutting ----

@public
def concat(values, axis, name="concat"):
    """Joins tensors along an axis that exists in all of them."""
    if isinstance(axis, (list, tuple)) and axis and isinstance(axis[0], ops.Tensor) or \
            isinstance(values, (int, np.integer)) and isinstance(axis, (list, tuple)):
        values, axis = axis, values  # before 1.0 the dimension came first
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        with ops.name_scope(name) as scope:
            convert.convert_to_tensor(axis, dtypes.int32, name="concat_dim").shape.assert_is_compatible_with([])
            return identity(values[0], name=scope)
    return op_defs.call("ConcatV2", name, values=values, axis=axis)


concat_v2 = concat
__all__.append("concat_v2")


@public
def stack(values, axis=0, name="stack"):
    """Joins tensors of the same shape along a new axis."""
    if axis == 0 and not isinstance(values, ops.Tensor):
        try:
            return convert.convert_to_tensor(values, name=name) if not convert._contains_tensor(list(values)) \
                else op_defs.call("Pack", name, values=values, axis=0)
        except (TypeError, ValueError):
            pass
    if isinstance(values, ops.Tensor):
        values = unstack(values)
    if len(values):
        n = convert.convert_to_tensor(values[0], name=name)._rank()
        if n is not None and not -n - 1 <= axis <= n:
            raise ValueError("axis = %d not in [%d, %d)" % (axis, -n - 1, n + 1))
    return op_defs.call("Pack", name, values=values, axis=axis)


@public
def unstack(value, num=None, axis=0, name="unstack"):
    """Splits a tensor along an axis into a list of tensors without that axis; num is needed if the size is not
    known."""
    if num is None:
        value = convert.convert_to_tensor(value)
        n = value._rank()
        if n is not None:
            if not -n <= axis < n:
                raise ValueError("axis = %d not in [%d, %d)" % (axis, -n, n))
            num = value._dims[axis]
    if num is None:
        raise ValueError("Cannot infer num from shape %s" % value.shape)
    return op_defs.call("Unpack", name, value=value, num=num, axis=axis)


pack, unpack = stack, unstack
__all__ += ["pack", "unpack"]


@public
def parallel_stack(values, name="parallel_stack"):
    """Stacks tensors along a new first dimension, and copies each as soon as it is ready."""
    with ops.name_scope(name):
        values = [convert.convert_to_tensor(v) for v in values]
        if not values:
            raise ValueError("tf.parallel_stack needs at least one tensor")
        dims = values[0].shape.as_list()
        return op_defs.call("ParallelConcat", None, values=[expand_dims(v, 0) for v in values], shape=[len(values)] + dims)


@public
def split(value, num_or_size_splits, axis=0, num=None, name="split"):
    """Splits a tensor along an axis into a list.

    Args:
        value: the tensor to split
        num_or_size_splits: the number of equal parts, or the sizes of the parts
        axis: the dimension to split
        num: the number of parts, where it does not follow from the sizes
    """
    if isinstance(value, (int, np.integer)) and isinstance(axis, ops.Tensor):  # before 1.0: split(dim, num, value)
        value, axis = axis, value
    sizes = num_or_size_splits
    if isinstance(sizes, (int, np.integer, shapes.Dimension)):
        return op_defs.call("Split", name, split_dim=axis, value=value, num_split=int(sizes))
    sizes = convert.convert_to_tensor(sizes)
    if sizes._rank() == 0 and sizes.dtype.is_integer and num is None:
        raise ValueError("Rank-0 tensors are not supported as the num_or_size_splits argument to split.")
    num = sizes._dims[0] if num is None and sizes._dims else num
    if num is None:
        raise ValueError("Cannot infer num from shape %s" % sizes.shape)
    return op_defs.call("SplitV", name, value=value, size_splits=sizes, split_dim=axis, num_split=num)


@public
def slice(input_, begin, size, name=None):  # noqa: A001
    """Returns the part of a tensor that starts at begin and has this size; a size of -1 takes the rest of a
    dimension."""
    return op_defs.call("Slice", name, input=input_, begin=begin, size=size)


@public
def strided_slice(input_, begin, end, strides=None, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0,
                  shrink_axis_mask=0, var=None, name=None):
    """Returns the part of a tensor that Python writes as x[begin:end:strides].

    The masks have a bit for each dimension: ignore begin, ignore end, an ellipsis, a new dimension, or a single
    index."""
    if strides is None:
        strides = ones_like(begin)
    out = op_defs.call("StridedSlice", name, input=input_, begin=begin, end=end, strides=strides, begin_mask=begin_mask,
                       end_mask=end_mask, ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask,
                       shrink_axis_mask=shrink_axis_mask)
    out.assign = lambda value, name=None: _assign_slice(var, out.op, value, name)
    return out


def _assign_slice(var, op, value, name):
    if var is None:
        raise ValueError("Sliced assignment is only supported for variables")
    _, begin, end, strides = op.inputs
    masks = {m: op.get_attr(m) for m in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")}
    return var._strided_slice_assign(begin, end, strides, value, name or op.name + "_assign", **masks)


@public
def gather(params, indices, validate_indices=None, name=None, axis=None, batch_dims=0):
    """Picks slices of params by their indices along an axis.

    Args:
        params: the tensor or variable to pick from
        indices: the indices, of any shape
        validate_indices: ignored
        axis: the dimension to pick from; the first one after the batch dimensions by default
        batch_dims: the number of leading dimensions that params and indices share
    """
    if hasattr(params, "sparse_read") and axis in (None, 0) and not batch_dims:
        return params.sparse_read(indices, name=name)
    if batch_dims == 0 and axis in (None, 0) and not isinstance(axis, ops.Tensor):
        return op_defs.call("GatherV2", name, params=params, indices=indices, axis=0)
    return op_defs.call("GatherV2", name, params=params, indices=indices, axis=batch_dims if axis is None else axis,
                        batch_dims=batch_dims)


@public
def gather_nd(params, indices, name=None, batch_dims=0):
    """Picks elements or slices of params at indices[..., :]; the first batch_dims dimensions are a batch."""
    known = convert.constant_value(batch_dims) if isinstance(batch_dims, ops.Tensor) else batch_dims
    batch_dims = batch_dims if known is None else int(known)
    if batch_dims != 0:
        return batch_gather_nd(params, indices, batch_dims, name)
    if hasattr(params, "gather_nd"):  # a resource variable reads no more than that of it
        return params.gather_nd(indices, name=name)
    return op_defs.call("GatherNd", name, params=params, indices=indices)


def batch_gather_nd(params, indices, batch_dims, name=None):
    """gather_nd in which the first batch_dims dimensions of both go together; 0 is allowed too."""
    with ops.name_scope(name, "BatchGatherND", [params, indices]):
        indices = convert.convert_to_tensor(indices, name="indices")
        params = convert.convert_to_tensor(params, name="params")
        if not isinstance(batch_dims, int):
            raise TypeError("batch_dims must be an int; got %r" % (batch_dims,))
        if batch_dims < 0:
            raise ValueError("tf.gather_nd does not allow negative batch_dims.")
        for t, what in (indices, "indices"), (params, "params"):
            if t._rank() is not None and batch_dims >= t._rank():
                raise ValueError("batch_dims = %d must be less than rank(%s) = %d" % (batch_dims, what, t._rank()))
        return op_defs.call("GatherNd", None, params=params, indices=_with_batch_places(indices, batch_dims))


def _with_batch_places(indices, batch_dims):
    """Indices that begin with their own place in the batch."""
    dims, n = shape(indices), indices._rank()
    column = concat([dims[:-1], [1]], 0)
    places = []
    for axis in range(batch_dims):
        if n is not None:
            along = [-1 if i == axis else 1 for i in range(n)]
        else:
            along = concat([ones([axis], dtypes.int32), [-1], ones([rank(indices) - axis - 1], dtypes.int32)], 0)
        places.append(broadcast_to(reshape(_range(dims[axis]), along), column))  # noqa: F821
    return concat([cast(p, indices.dtype.base_dtype) for p in places] + [indices], -1)


@public
def batch_gather(params, indices, name=None):
    """Picks slices by index separately for each entry of the leading dimensions."""
    with ops.name_scope(name, "BatchGather", [params, indices]):
        indices = convert.convert_to_tensor(indices, name="indices")
        if indices._rank() is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        n = indices._rank() - 1
        return gather(params, indices, axis=n, batch_dims=n)


@public
def boolean_mask(tensor, mask, name="boolean_mask", axis=None):
    """Returns the elements of a tensor where the mask is True; the mask's dimensions become one."""
    with ops.name_scope(name, values=[tensor, mask]):
        tensor = convert.convert_to_tensor(tensor, name="tensor")
        mask = convert.convert_to_tensor(mask, name="mask")
        n = mask._rank()
        if n == 0:
            raise ValueError("mask cannot be scalar.")
        if n is None:
            raise ValueError("Number of mask dimensions must be specified, even if some dimensions are None.  "
                             "E.g. shape=[None] is ok, but shape=None is not.")
        axis = 0 if axis is None else axis
        tensor.shape[axis:axis + n].assert_is_compatible_with(mask.shape)
        from .math import reduce_prod
        dims = shape(tensor)
        flat = reshape(tensor, concat([dims[:axis], [reduce_prod(dims[axis:axis + n])], dims[axis + n:]], 0))
        kept = squeeze(where(reshape(mask, [-1])), axis=[1])
        out = gather(flat, kept, axis=axis)
        if tensor.shape.ndims is not None:
            out.set_shape(tensor.shape[:axis].concatenate([None]).concatenate(tensor.shape[axis + n:]))
        return out


@public
def where(condition, x=None, y=None, name=None):
    """Picks from x where the condition holds and from y elsewhere; without x and y, returns the indices where it
    holds."""
    if x is None and y is None:
        with ops.name_scope(name, "Where", [condition]) as name:
            return op_defs.call("Where", name, input=convert.convert_to_tensor(condition, preferred_dtype=dtypes.bool_))
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return op_defs.call("Select", name, condition=condition, t=x, e=y)


@public
def where_v2(condition, x=None, y=None, name=None):
    """Picks from x where the condition holds and from y elsewhere; all three are broadcast.

    Without x and y, returns the indices where the condition holds."""
    if x is None and y is None:
        return where(condition, name=name)
    return op_defs.call("SelectV2", name, condition=condition, t=x, e=y)


select = where
__all__.append("select")


@public
def unique(x, out_idx=dtypes.int32, name=None):
    """Finds the different elements of a vector; returns them and, for each element, its index among them."""
    return op_defs.call("Unique", name, x=x, out_idx=out_idx)


@public
def unique_with_counts(x, out_idx=dtypes.int32, name=None):
    """Finds the different elements of a vector; returns them, the index of each element, and how often each occurs."""
    return op_defs.call("UniqueWithCounts", name, x=x, out_idx=out_idx)


@public
def setdiff1d(x, y, index_dtype=dtypes.int32, name=None):
    """Finds the elements of x that are not in y; returns them and their indices in x."""
    return op_defs.call("ListDiff", name, x=x, y=y, out_idx=index_dtype)


listdiff = setdiff1d
__all__.append("listdiff")


@public
def sequence_mask(lengths, maxlen=None, dtype=dtypes.bool_, name=None):
    """Returns a mask whose rows are True for the first lengths[i] elements.

    Args:
        lengths: the number of True elements in each row
        maxlen: the length of the rows; the longest length by default
    """
    with ops.name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = convert.convert_to_tensor(lengths)
        if maxlen is None:
            from .math import maximum, reduce_max
            maxlen = maximum(reduce_max(lengths), convert.constant(0, lengths.dtype.base_dtype))
        else:
            maxlen = convert.convert_to_tensor(maxlen)
        if maxlen.shape.ndims not in (None, 0):
            raise ValueError("maxlen must be scalar for sequence_mask")
        row = _range(convert.constant(0, maxlen.dtype.base_dtype), maxlen, convert.constant(1, maxlen.dtype.base_dtype))
        out = op_defs.call("Less", None, x=row, y=cast(expand_dims(lengths, -1), maxlen.dtype.base_dtype))
        return out if dtypes.as_dtype(dtype).base_dtype is dtypes.bool_ else cast(out, dtype)


@public
def required_space_to_batch_paddings(input_shape, block_shape, base_paddings=None, name=None):
    """(paddings, crops) that make each dimension divisible by its block; constants where all is known."""
    with ops.name_scope(name, "required_space_to_batch_paddings"):
        size, block = _known_array(input_shape), _known_array(block_shape)
        n = block.shape[0] if isinstance(block, np.ndarray) else block.shape.as_list()[0]
        base = np.zeros([n, 2], np.int32) if base_paddings is None else _known_array(base_paddings)
        is_known = all(isinstance(x, np.ndarray) for x in (size, block, base))
        join = np.stack if is_known else stack
        extra = (block - (size + base[:, 0] + base[:, 1]) % block) % block
        paddings = join([base[:, 0], base[:, 1] + extra], 1)
        crops = join([extra * 0, extra], 1)
        return (convert.constant(paddings), convert.constant(crops)) if is_known else (paddings, crops)


def _known_array(x):
    """An int32 array, of a tensor if its value is known; else the tensor."""
    value = convert.constant_value(x) if isinstance(x, ops.Tensor) else np.asarray(x)
    return x if value is None else value.astype(np.int32)


@public
def broadcast_static_shape(shape_x, shape_y):
    """Returns the static shape that two static shapes broadcast to."""
    x, y = shapes.as_shape(shape_x), shapes.as_shape(shape_y)
    if x.ndims is None or y.ndims is None:
        return shapes.unknown_shape()
    n = max(x.ndims, y.ndims)
    xs, ys = [1] * (n - x.ndims) + x.as_list(), [1] * (n - y.ndims) + y.as_list()
    out = []
    for a, b in zip(xs, ys):
        if a is None or b is None:
            out.append(a if b == 1 else b if a == 1 else a if a not in (None, 1) else b if b not in (None, 1) else None)
        elif a == b or b == 1 or a == 1:
            out.append(b if a == 1 else a)
        else:
            raise ValueError("Incompatible shapes for broadcasting: %s and %s" % (x, y))
    return shapes.TensorShape(out)


@public
def broadcast_dynamic_shape(shape_x, shape_y):
    """Returns, as a tensor, the shape that two shapes broadcast to."""
    return op_defs.call("BroadcastArgs", None, s0=shape_x, s1=shape_y)


@public
def searchsorted(sorted_sequence, values, side="left", out_type=dtypes.int32, name=None):
    """Finds where values would be inserted to keep each row of sorted_sequence sorted.

    side="left" gives the first suitable position, "right" the last."""
    sequence = convert.convert_to_tensor(sorted_sequence)
    values = convert.convert_to_tensor(values, sequence.dtype.base_dtype)
    last = shape(sequence)[-1]
    flat, flat_values = reshape(sequence, [-1, last]), reshape(values, [-1, shape(values)[-1]])
    op_type = {"left": "LowerBound", "right": "UpperBound"}.get(side)
    if op_type is None:
        raise ValueError("side must be either 'right' or 'left'.  Saw: %s." % side)
    out = op_defs.call(op_type, name, sorted_inputs=flat, values=flat_values, out_type=out_type)
    return reshape(out, shape(values))


def _order(values, axis, descending):
    """Values sorted along an axis, and their positions; ties keep their order."""
    values = convert.convert_to_tensor(values)
    n = values._rank()
    if n is None:
        raise NotImplementedError("Sorting needs a tensor of known rank")
    axis = place_of(axis, n)
    perm = [i for i in range(n) if i != axis] + [axis]
    moved = transpose(values, perm) if axis != n - 1 else values
    top = op_defs.call("TopKV2", None, input=moved if descending else _negated(moved), k=shape(moved)[-1])
    ordered = top.values if descending else _negated(top.values)
    if axis == n - 1:
        return ordered, top.indices
    back = [perm.index(i) for i in range(n)]
    return transpose(ordered, back), transpose(top.indices, back)


def _negated(x):
    """In the opposite order; integers without the overflow of the smallest. Twice gives x again, to the bit."""
    if x.dtype.is_unsigned:
        return x.dtype.max - x
    return -1 - x if x.dtype.is_integer else -x


@public
def argsort(values, axis=-1, direction="ASCENDING", stable=False, name=None):
    """Returns the indices that sort a tensor along an axis; direction is "ASCENDING" or "DESCENDING"."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError("direction must be ASCENDING or DESCENDING, not %r" % direction)
    with ops.name_scope(name, "argsort", [values]):
        return _order(values, axis, direction == "DESCENDING")[1]


@public
def sort(values, axis=-1, direction="ASCENDING", name=None):
    """Sorts a tensor along an axis; direction is "ASCENDING" or "DESCENDING"."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError("direction must be ASCENDING or DESCENDING, not %r" % direction)
    with ops.name_scope(name, "sort", [values]):
        return _order(values, axis, direction == "DESCENDING")[0]


@public
def repeat(input, repeats, axis=None, name=None):  # noqa: A002
    """Repeats the elements along an axis.

    Args:
        input: the tensor
        repeats: how often to repeat each element: one number, or one for each element
        axis: the dimension; None flattens the tensor first
    """
    with ops.name_scope(name, "Repeat", [input, repeats]):
        x = convert.convert_to_tensor(input)
        if axis is None:
            x, axis = reshape(x, [-1]), 0
        if x._rank() is None:
            raise NotImplementedError("tf.repeat along an axis needs a tensor of known rank")
        axis = place_of(axis, x._rank())
        n = shape(x)[axis]
        repeats = convert.convert_to_tensor(repeats, dtypes.int32)
        counts = op_defs.call("BroadcastTo", None, input=repeats, shape=reshape(n, [1]))
        from .math import reduce_max
        mask = sequence_mask(counts, reduce_max(counts))
        places = boolean_mask(tile(expand_dims(_range(n), 1), stack([1, reduce_max(counts)])), mask)  # noqa: F821
        return gather(x, places, axis=axis)


@public
def edit_distance(hypothesis, truth, normalize=True, name="edit_distance"):
    """Computes the Levenshtein distance of sequences in two sparse tensors.

    With normalize the distance is divided by the length of the true sequence."""
    for what, value in (("Hypothesis", hypothesis), ("Truth", truth)):
        if not all(hasattr(value, part) for part in ("indices", "values", "dense_shape")):
            raise TypeError("%s must be a SparseTensor." % what)
    return op_defs.call("EditDistance", name, hypothesis_indices=hypothesis.indices, hypothesis_values=hypothesis.values,
                        hypothesis_shape=hypothesis.dense_shape, truth_indices=truth.indices, truth_values=truth.values,
                        truth_shape=truth.dense_shape, normalize=normalize)


# ---- slicing ----

def _slice_tensor(tensor, key, var=None):
    """tensor[key] with Python's rules: numbers, slices, Ellipsis, tf.newaxis, tensors; a mask of bools picks elements."""
    if isinstance(key, (ops.Tensor, np.ndarray)) and getattr(key, "dtype", None) in (dtypes.bool_, np.dtype(bool)):
        return boolean_mask(tensor, key)
    keys = list(key) if isinstance(key, (list, tuple)) else [key]
    begin, end, strides = [], [], []
    masks = dict(begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0)
    for i, k in enumerate(keys):
        bit = 1 << i
        if isinstance(k, builtins_slice):
            for bound in (k.start, k.stop, k.step):
                if bound is not None:
                    _check_index(bound)
            begin.append(0 if k.start is None else k.start)
            end.append(0 if k.stop is None else k.stop)
            strides.append(1 if k.step is None else k.step)
            masks["begin_mask"] |= bit if k.start is None else 0
            masks["end_mask"] |= bit if k.stop is None else 0
        elif k is Ellipsis:
            begin.append(0), end.append(0), strides.append(1)
            masks["ellipsis_mask"] |= bit
        elif k is None:
            begin.append(0), end.append(0), strides.append(1)
            masks["new_axis_mask"] |= bit
        else:
            _check_index(k)
            begin.append(k), end.append(k + 1), strides.append(1)
            masks["shrink_axis_mask"] |= bit
    with ops.name_scope(None, "strided_slice", [tensor]) as name:
        parts = [_bounds(p) for p in (begin, end, strides)]
        if any(p.dtype.base_dtype is dtypes.int64 for p in parts):
            parts = [cast(p, dtypes.int64) for p in parts]
        return strided_slice(tensor, *parts, name=name, var=var, **masks)


builtins_slice = builtins.slice


_SLICE_TYPE_ERROR = ("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors "
                     "are valid indices")


def _check_index(k):
    if isinstance(k, (int, np.integer, shapes.Dimension)) and not isinstance(k, bool):
        return
    if isinstance(k, ops.Tensor) or hasattr(k, "_as_graph_element"):
        if k.dtype.base_dtype.is_integer and k.shape.ndims in (None, 0):
            return
    if isinstance(k, np.ndarray) and k.ndim == 0 and k.dtype.kind in "iu":
        return
    raise TypeError(_SLICE_TYPE_ERROR + ", got %r" % (k,))


def _bounds(values):
    values = [v.value if isinstance(v, shapes.Dimension) else v for v in values]
    if convert._contains_tensor(values):
        tensors = [v for v in values if isinstance(v, ops.Tensor)]
        dtype = dtypes.int64 if any(t.dtype.base_dtype is dtypes.int64 for t in tensors) else dtypes.int32
        values = [cast(v, dtype) if isinstance(v, ops.Tensor) else v for v in values]
        return op_defs.call("Pack", "stack", values=[convert.convert_to_tensor(v, dtype) for v in values])
    array = np.array(values, np.int64)
    small = array.astype(np.int32)
    return convert.constant(small if np.array_equal(array, small) else array, name="stack")


ops.Tensor._override_operator("__getitem__", _slice_tensor)
