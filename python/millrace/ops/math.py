"""Arithmetic, reductions, matrices, segments; and the operators of tensors."""

import builtins

import numpy as np

from ..framework import convert, dtypes, op_defs, ops, shapes
from ..framework.op_defs import raw
from .op_functions import (acos, acosh, add, add_v2, approximate_equal, asin, asinh, atan, atan2, atanh,
                           batch_matmul, bessel_i0e,
                           bessel_i1e, betainc, bitcast, ceil, cholesky, cos, cosh, cross, diag, diag_part, digamma,
                           erfc, exp, expm1, fft, fft2d, fft3d, floor, floormod, greater, greater_equal, ifft, ifft2d,
                           ifft3d, igamma, igammac, invert_permutation, is_finite, is_inf, is_nan, less, less_equal,
                           lgamma, log, log1p, logical_and, logical_not, logical_or, matrix_band_part,
                           matrix_determinant, matrix_inverse, matrix_solve, matrix_triangular_solve, maximum, minimum,
                           polygamma, real_div, reciprocal, rint, rsqrt, segment_max, segment_mean, segment_min, segment_prod, segment_sum, sin, sinh,
                           sparse_matmul,
                           squared_difference, tan, timestamp, truncatediv, truncatemod, unsorted_segment_max,
                           unsorted_segment_min, unsorted_segment_prod, unsorted_segment_sum, xdivy, xlogy, zeta)

# Functions that are an op and nothing more; @public adds the others.
__all__ = [n for n, f in list(globals().items()) if getattr(f, "__module__", "") == "millrace.ops.op_functions"]

builtin_range = builtins.range  # `range` is tf's here


def public(f):
    """Makes a function one of tf's."""
    __all__.append(f.__name__)
    return f


def deprecated(new, new_name, old, old_name):
    """The value of an argument that has an old name too; both at once is an error."""
    if old is not None:
        if new is not None:
            raise ValueError("Cannot specify both '%s' and '%s'" % (old_name, new_name))
        return old
    return new


def place_of(axis, rank):
    """The axis counted from the front; one that a tensor of this rank does not have is a ValueError."""
    if not -rank <= axis < rank:
        raise ValueError("axis = %d not in [%d, %d)" % (axis, -rank, rank))
    return axis % rank


# ---- element by element ----

@public
def abs(x, name=None):  # noqa: A001 -- tf's names are Python's here and below
    """Computes the absolute value of each element; for complex numbers, the magnitude."""
    with ops.name_scope(name, "Abs", [x]) as name:
        if hasattr(x, "indices") and hasattr(x, "dense_shape"):
            from ..framework.sparse import SparseTensor
            return SparseTensor(x.indices, abs(x.values), x.dense_shape)
        x = convert.convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return raw.complex_abs(x, Tout=x.dtype.real_dtype, name=name)
        return op_defs.call("Abs", name, x=x)


def _also_sparse(called, op_type, text):
    def f(x, name=None):
        return _on_values(x, lambda v: op_defs.call(op_type, name, x=v))
    f.__name__ = f.__qualname__ = called
    f.__doc__ = "Computes %s of each element; for a sparse tensor, of its values." % text
    return public(f)


negative = _also_sparse("negative", "Neg", "-x")
sign = _also_sparse("sign", "Sign", "-1, 0 or 1, the sign,")
square = _also_sparse("square", "Square", "the square")
sqrt = _also_sparse("sqrt", "Sqrt", "the square root")
erf = _also_sparse("erf", "Erf", "the error function")
tanh = _also_sparse("tanh", "Tanh", "the hyperbolic tangent")


@public
def sigmoid(x, name=None):
    """Computes 1 / (1 + exp(-x)) of each element."""
    return op_defs.call("Sigmoid", name, x=x)


@public
def log_sigmoid(x, name=None):
    """Computes log(sigmoid(x)) of each element."""
    with ops.name_scope(name, "LogSigmoid", [x]) as name:
        return negative(op_defs.call("Softplus", None, features=negative(x)), name=name)


def _on_values(x, f):
    """Of a sparse tensor only the values are computed on."""
    from ..framework.sparse import SparseTensor
    return SparseTensor(x.indices, f(x.values), x.dense_shape) if isinstance(x, SparseTensor) else f(x)


@public
def subtract(x, y, name=None):
    """Computes x - y, element by element."""
    return op_defs.call("Sub", name, x=x, y=y)


@public
def multiply(x, y, name=None):
    """Computes x * y, element by element."""
    return op_defs.call("Mul", name, x=x, y=y)


@public
def equal(x, y, name=None):
    """Compares x == y, element by element."""
    return op_defs.call("Equal", name, x=x, y=y)


@public
def not_equal(x, y, name=None):
    """Compares x != y, element by element."""
    return op_defs.call("NotEqual", name, x=x, y=y)


@public
def pow(x, y, name=None):  # noqa: A001
    """Computes x to the power of y, element by element."""
    with ops.name_scope(name, "Pow", [x]) as name:
        return op_defs.call("Pow", name, x=x, y=y)


@public
def logical_xor(x, y, name="LogicalXor"):
    """Computes x xor y, element by element."""
    return logical_and(logical_or(x, y), logical_not(logical_and(x, y)), name=name)  # noqa: F821


@public
def round(x, name=None):  # noqa: A001
    """Rounds each element to the nearest integer; halves go to the even one."""
    x = convert.convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else op_defs.call("Round", name, x=x)


@public
def div(x, y, name=None):
    """Python 2's division: of integers it rounds down."""
    return _div(x, y, name)


def _div(x, y, name=None):
    with ops.name_scope(name, "div", [x, y]) as name:
        x = convert.convert_to_tensor(x, name="x")
        y = convert.convert_to_tensor(y, x.dtype.base_dtype, name="y")
        if x.dtype.is_floating or x.dtype.is_complex:
            return op_defs.call("RealDiv", name, x=x, y=y)
        return op_defs.call("FloorDiv", name, x=x, y=y)


_DIVIDED_AS = {dtypes.uint8: dtypes.float32, dtypes.int8: dtypes.float32, dtypes.uint16: dtypes.float32,
               dtypes.int16: dtypes.float32, dtypes.int32: dtypes.float64, dtypes.int64: dtypes.float64}


@public
def truediv(x, y, name=None):
    """Python 3's division: integers become floats."""
    with ops.name_scope(name, "truediv", [x, y]) as name:
        x, y = _pair(x, y)
        wider = _DIVIDED_AS.get(x.dtype.base_dtype)
        if wider is not None:
            x, y = cast(x, wider), cast(y, wider)
        return op_defs.call("RealDiv", name, x=x, y=y)


def _pair(x, y):
    x = convert.convert_to_tensor(x, name="x")
    y = convert.convert_to_tensor(y, name="y", preferred_dtype=x.dtype.base_dtype)
    if x.dtype.base_dtype is not y.dtype.base_dtype:
        raise TypeError("x and y must have the same dtype, got %r != %r" % (x.dtype.base_dtype, y.dtype.base_dtype))
    return x, y


@public
def divide(x, y, name=None):
    """Computes x / y as Python does, element by element."""
    if name is not None:
        return truediv(x, y, name)
    return convert.convert_to_tensor(x) / y if not isinstance(x, ops.Tensor) else x / y


@public
def floordiv(x, y, name=None):
    """Computes x / y rounded down, element by element."""
    with ops.name_scope(name, "floordiv", [x, y]) as name:
        return op_defs.call("FloorDiv", name, x=x, y=y)


floor_div = floordiv
__all__.append("floor_div")


@public
def mod(x, y, name=None):
    """Computes the remainder of x / y with the sign of y, element by element."""
    return op_defs.call("FloorMod", name, x=x, y=y)


@public
def div_no_nan(x, y, name=None):
    """Computes x / y, element by element, with 0 where y is 0."""
    with ops.name_scope(name, "div_no_nan", [x, y]) as name:
        x = convert.convert_to_tensor(x, name="x")
        return op_defs.call("DivNoNan", name, x=x, y=convert.convert_to_tensor(y, x.dtype.base_dtype, name="y"))


@public
def multiply_no_nan(x, y, name=None):
    """Computes x * y, element by element, with 0 where y is 0, even if x is infinite or NaN."""
    return op_defs.call("MulNoNan", name, x=x, y=y)


@public
def add_n(inputs, name=None):
    """The sum of tensors of one shape; rows (IndexedSlices) among them become dense."""
    inputs = [inputs] if isinstance(inputs, ops.Tensor) else list(inputs) if hasattr(inputs, "__iter__") else []
    if not inputs:
        raise ValueError("inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and shape")
    tensors = [convert.convert_to_tensor(x) for x in inputs]
    if len(tensors) == 1:
        return op_defs.call("Identity", name, input=tensors[0]) if name else tensors[0]
    return op_defs.call("AddN", name, inputs=tensors)


@public
def accumulate_n(inputs, shape=None, tensor_dtype=None, name=None):
    """Adds a list of tensors of the same shape and type.

    shape and tensor_dtype are checked against the tensors."""
    if not inputs:
        raise ValueError("inputs must be a list of at least one Tensor")
    tensors = [convert.convert_to_tensor(x) for x in inputs]
    if tensor_dtype is not None and dtypes.as_dtype(tensor_dtype).base_dtype is not tensors[0].dtype.base_dtype:
        raise TypeError("tensor_dtype is %s, but input is of type %s" % (tensor_dtype, tensors[0].dtype))
    shape = shapes.as_shape(shape)
    for t in tensors:
        shape = shape.merge_with(t.shape)
    out = add_n(tensors, name or "AccumulateN")
    out.set_shape(shape)
    return out


@public
def cast(x, dtype, name=None):
    """Converts a tensor to another type; sparse tensors stay sparse."""
    base = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, (ops.Tensor,)) and x.dtype is base:
        return x
    with ops.name_scope(name, "Cast", [x]) as name:
        if isinstance(x, ops.IndexedSlices):
            return ops.IndexedSlices(cast(x.values, base), x.indices, x.dense_shape)
        if hasattr(x, "indices") and hasattr(x, "dense_shape"):
            from ..framework.sparse import SparseTensor
            return SparseTensor(x.indices, cast(x.values, base, name=name), x.dense_shape)
        x = convert.convert_to_tensor(x, name="x")
        return x if x.dtype.base_dtype is base else op_defs.call("Cast", name, x=x, DstT=base)


@public
def saturate_cast(value, dtype, name=None):
    """Converts a tensor to another type; values outside of its range become the nearest limit."""
    with ops.name_scope(name, "saturate_cast", [value]) as name:
        value = convert.convert_to_tensor(value, name="value")
        dtype = dtypes.as_dtype(dtype).base_dtype
        if value.dtype.min < dtype.min:
            value = maximum(value, convert.convert_to_tensor(dtype.min, value.dtype, name="min"))  # noqa: F821
        if value.dtype.max > dtype.max:
            value = minimum(value, convert.convert_to_tensor(dtype.max, value.dtype, name="max"))  # noqa: F821
        return cast(value, dtype, name=name)


def _to(dtype, called):
    def f(x, name=called):
        return cast(x, dtype, name=name)
    f.__name__ = f.__qualname__ = "to_" + {dtypes.float64: "double", dtypes.float32: "float"}.get(dtype, dtype.name)
    f.__doc__ = "Converts a tensor to %s." % dtype.name
    return public(f)


to_float, to_double = _to(dtypes.float32, "ToFloat"), _to(dtypes.float64, "ToDouble")
to_int32, to_int64 = _to(dtypes.int32, "ToInt32"), _to(dtypes.int64, "ToInt64")
to_bfloat16 = _to(dtypes.bfloat16, "ToBFloat16")
to_complex64, to_complex128 = _to(dtypes.complex64, "ToComplex64"), _to(dtypes.complex128, "ToComplex128")


# ---- complex numbers ----

@public
def complex(real, imag, name=None):  # noqa: A001
    """Makes complex numbers from their real and imaginary parts."""
    real = convert.convert_to_tensor(real, name="real")
    imag = convert.convert_to_tensor(imag, name="imag")
    out = {(dtypes.float64, dtypes.float64): dtypes.complex128, (dtypes.float32, dtypes.float32): dtypes.complex64}
    key = (real.dtype.base_dtype, imag.dtype.base_dtype)
    if key not in out:
        raise TypeError("real and imag have incorrect types: %s %s" % (real.dtype.name, imag.dtype.name))
    with ops.name_scope(name, "Complex", [real, imag]) as name:
        return op_defs.call("Complex", name, real=real, imag=imag, Tout=out[key])


@public
def real(input, name=None):  # noqa: A002 -- tf's argument names are Python's here and below
    """Returns the real part of each element."""
    with ops.name_scope(name, "Real", [input]) as name:
        x = convert.convert_to_tensor(input)
        return op_defs.call("Real", name, input=x, Tout=x.dtype.real_dtype) if x.dtype.is_complex else x


@public
def imag(input, name=None):  # noqa: A002
    """Returns the imaginary part of each element."""
    with ops.name_scope(name, "Imag", [input]) as name:
        x = convert.convert_to_tensor(input)
        if x.dtype.is_complex:
            return op_defs.call("Imag", name, input=x, Tout=x.dtype.real_dtype)
        return op_defs.call("ZerosLike", name, x=x)


@public
def angle(input, name=None):  # noqa: A002
    """Returns the angle of each element in the complex plane, in radians."""
    with ops.name_scope(name, "Angle", [input]) as name:
        x = convert.convert_to_tensor(input)
        if x.dtype.is_complex:
            return op_defs.call("Angle", name, input=x, Tout=x.dtype.real_dtype)
        return op_defs.call("ZerosLike", name, x=x)


@public
def conj(x, name=None):
    """Returns the complex conjugate of each element."""
    x = convert.convert_to_tensor(x, name="x")
    return op_defs.call("Conj", name, input=x) if x.dtype.is_complex or x.dtype is dtypes.variant else x


# ---- reductions ----

def _axes(x, axis):
    """All dimensions when none is given, as a constant where the rank is known."""
    if axis is not None:
        return axis
    rank = x.values.shape.ndims if isinstance(x, ops.IndexedSlices) else x._rank()
    if rank is not None:
        return convert.constant(np.arange(rank, dtype=np.int32), name="Const")
    return op_defs.call("Range", None, start=0, limit=op_defs.call("Rank", None, input=x), delta=1)


def _reduction(name_in_tf, op_type, text, dtype=None):
    def f(input_tensor, axis=None, keepdims=None, name=None, reduction_indices=None, keep_dims=None):
        keep = bool(deprecated(keepdims, "keepdims", keep_dims, "keep_dims"))
        axis = deprecated(axis, "axis", reduction_indices, "reduction_indices")
        x = convert.convert_to_tensor(input_tensor, dtype)
        out = op_defs.call(op_type, name, input=x, reduction_indices=_axes(x, axis), keep_dims=keep)
        if axis is None and not keep:
            out.set_shape(())
        return out
    f.__name__ = f.__qualname__ = name_in_tf
    f.__doc__ = """Computes %s over some axes or all.

    Args:
        input_tensor: the tensor to reduce
        axis: an axis or a list of them; None reduces all
        keepdims: whether reduced dimensions stay with size 1
        name: the name of the operation
        reduction_indices: an old name of axis
        keep_dims: an old name of keepdims
    """ % text
    return public(f)


reduce_sum = _reduction("reduce_sum", "Sum", "the sum")
reduce_mean = _reduction("reduce_mean", "Mean", "the mean")
reduce_prod = _reduction("reduce_prod", "Prod", "the product")
reduce_max = _reduction("reduce_max", "Max", "the largest element")
reduce_min = _reduction("reduce_min", "Min", "the smallest element")
reduce_all = _reduction("reduce_all", "All", "whether all elements are true", dtypes.bool_)
reduce_any = _reduction("reduce_any", "Any", "whether any element is true", dtypes.bool_)


@public
def count_nonzero(input_tensor=None, axis=None, keepdims=None, dtype=dtypes.int64, name=None, reduction_indices=None,
                  keep_dims=None, input=None):  # noqa: A002
    """Counts the elements that are not zero, over some axes or all.

    reduction_indices, keep_dims and input are other names of axis, keepdims and input_tensor."""
    keep = bool(deprecated(keepdims, "keepdims", keep_dims, "keep_dims"))
    axis = deprecated(axis, "axis", reduction_indices, "reduction_indices")
    x = deprecated(input, "input", input_tensor, "input_tensor")
    with ops.name_scope(name, "count_nonzero", [x]):
        x = convert.convert_to_tensor(x, name="input_tensor")
        zero = "" if x.dtype is dtypes.string else np.zeros([], x.dtype.as_numpy_dtype)
        return cast(reduce_sum(cast(not_equal(x, zero), dtypes.int64), axis=axis, keepdims=keep), dtype)


@public
def reduce_logsumexp(input_tensor, axis=None, keepdims=None, name=None, reduction_indices=None, keep_dims=None):
    """Computes log(sum(exp(x))) over some axes or all, without overflow.

    reduction_indices and keep_dims are old names of axis and keepdims."""
    keep = bool(deprecated(keepdims, "keepdims", keep_dims, "keep_dims"))
    axis = deprecated(axis, "axis", reduction_indices, "reduction_indices")
    x = convert.convert_to_tensor(input_tensor)
    with ops.name_scope(name, "ReduceLogSumExp", [x]) as name:
        peak = reduce_max(x, axis, keepdims=True)
        peak = op_defs.call("StopGradient", None, input=op_defs.call(
            "SelectV2", None, condition=is_finite(peak), t=peak, e=op_defs.call("ZerosLike", None, x=peak)))  # noqa: F821
        out = log(reduce_sum(exp(x - peak), axis, keepdims=keep))  # noqa: F821
        if not keep:
            peak = op_defs.call("Reshape", None, tensor=peak, shape=op_defs.call("Shape", None, input=out))
        return op_defs.call("Add", name, x=out, y=peak)


@public
def reduce_variance(input_tensor, axis=None, keepdims=False, name=None):
    """Computes the variance over some axes or all."""
    with ops.name_scope(name, "reduce_variance", [input_tensor]):
        means = reduce_mean(input_tensor, axis=axis, keepdims=True)
        return reduce_mean(square(input_tensor - means), axis=axis, keepdims=keepdims)  # noqa: F821


@public
def reduce_std(input_tensor, axis=None, keepdims=False, name=None):
    """Computes the standard deviation over some axes or all."""
    with ops.name_scope(name, "reduce_std", [input_tensor]):
        return sqrt(reduce_variance(input_tensor, axis, keepdims))  # noqa: F821


@public
def reduce_euclidean_norm(input_tensor, axis=None, keepdims=False, name=None):
    """Computes the square root of the sum of squares over some axes or all."""
    x = convert.convert_to_tensor(input_tensor)
    return op_defs.call("EuclideanNorm", name, input=x, reduction_indices=_axes(x, axis), keep_dims=bool(keepdims))


@public
def argmax(input, axis=None, name=None, dimension=None, output_type=dtypes.int64):  # noqa: A002
    """Returns the index of the largest element along an axis, the first by default.

    dimension is an old name of axis."""
    axis = deprecated(axis, "axis", dimension, "dimension")
    return op_defs.call("ArgMax", name, input=input, dimension=0 if axis is None else axis, output_type=output_type)


@public
def argmin(input, axis=None, name=None, dimension=None, output_type=dtypes.int64):  # noqa: A002
    """Returns the index of the smallest element along an axis, the first by default.

    dimension is an old name of axis."""
    axis = deprecated(axis, "axis", dimension, "dimension")
    return op_defs.call("ArgMin", name, input=input, dimension=0 if axis is None else axis, output_type=output_type)


@public
def arg_max(input, dimension, output_type=dtypes.int64, name=None):  # noqa: A002
    """Returns the index of the largest element along a dimension; an old form of argmax."""
    return argmax(input, dimension, name, output_type=output_type)


@public
def arg_min(input, dimension, output_type=dtypes.int64, name=None):  # noqa: A002
    """Returns the index of the smallest element along a dimension; an old form of argmin."""
    return argmin(input, dimension, name, output_type=output_type)


@public
def cumsum(x, axis=0, exclusive=False, reverse=False, name=None):
    """Computes running sums along an axis.

    Args:
        exclusive: whether each sum leaves out its own element
        reverse: whether to sum from the end
    """
    with ops.name_scope(name, "Cumsum", [x]) as name:
        return op_defs.call("Cumsum", name, x=x, axis=axis, exclusive=exclusive, reverse=reverse)


@public
def cumprod(x, axis=0, exclusive=False, reverse=False, name=None):
    """Computes running products along an axis.

    Args:
        exclusive: whether each product leaves out its own element
        reverse: whether to multiply from the end
    """
    with ops.name_scope(name, "Cumprod", [x]) as name:
        return op_defs.call("Cumprod", name, x=x, axis=axis, exclusive=exclusive, reverse=reverse)


@public
def cumulative_logsumexp(x, axis=0, exclusive=False, reverse=False, name=None):
    """Computes the running log(sum(exp(x))) along an axis.

    Args:
        exclusive: whether each result leaves out its own element
        reverse: whether to start from the end
    """
    return op_defs.call("CumulativeLogsumexp", name, x=x, axis=axis, exclusive=exclusive, reverse=reverse)


@public
def bincount(arr, weights=None, minlength=None, maxlength=None, dtype=dtypes.int32, name=None):
    """Counts how often each non-negative integer occurs.

    Args:
        arr: an int32 tensor
        weights: what to add for each element instead of 1
        minlength: the smallest length of the result
        maxlength: the largest length of the result; larger values are not counted
    """
    with ops.name_scope(name, "bincount", [arr]):
        arr = convert.convert_to_tensor(arr, dtypes.int32, name="arr")
        size = cast(reduce_any(not_equal(op_defs.call("Size", None, input=arr), 0)), dtypes.int32) * (reduce_max(arr) + 1)
        if minlength is not None:
            size = maximum(convert.convert_to_tensor(minlength, dtypes.int32), size)  # noqa: F821
        if maxlength is not None:
            size = minimum(convert.convert_to_tensor(maxlength, dtypes.int32), size)  # noqa: F821
        weights = convert.constant([], dtypes.as_dtype(dtype)) if weights is None else weights
        return op_defs.call("Bincount", None, arr=arr, size=size, weights=weights)


@public
def histogram_fixed_width_bins(values, value_range, nbins=100, dtype=dtypes.int32, name=None):
    """Returns which of nbins equal parts of the range each value is in; values outside are in the first or last."""
    with ops.name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        values = convert.convert_to_tensor(values, name="values")
        low, high = op_defs.call("Unpack", None, value=convert.convert_to_tensor(
            value_range, values.dtype.base_dtype, name="value_range"), num=2)
        count = cast(nbins, dtypes.int32)
        scaled = truediv(values - low, high - low)
        places = floor(cast(count, scaled.dtype) * scaled)  # noqa: F821
        last = cast(count - 1, scaled.dtype)
        return cast(minimum(maximum(places, convert.constant(0, scaled.dtype)), last), dtype)  # noqa: F821


@public
def histogram_fixed_width(values, value_range, nbins=100, dtype=dtypes.int32, name=None):
    """Counts the values in each of nbins equal parts of a range."""
    with ops.name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as name:
        return op_defs.call("HistogramFixedWidth", name, values=values, value_range=value_range, nbins=nbins, dtype=dtype)


# ---- matrices ----

@public
def matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False, a_is_sparse=False, b_is_sparse=False,
           name=None):
    """Multiplies matrices, or batches of them in the last two dimensions.

    Args:
        transpose_a: whether to transpose a first; transpose_b likewise
        adjoint_a: whether to transpose and conjugate a first; adjoint_b likewise
        a_is_sparse: a hint that a has many zeros; b_is_sparse likewise
    """
    with ops.name_scope(name, "MatMul", [a, b]) as name:
        if transpose_a and adjoint_a:
            raise ValueError("Only one of transpose_a and adjoint_a can be True.")
        if transpose_b and adjoint_b:
            raise ValueError("Only one of transpose_b and adjoint_b can be True.")
        a = convert.convert_to_tensor(a, name="a")
        b = convert.convert_to_tensor(b, a.dtype.base_dtype, name="b") if not isinstance(b, ops.Tensor) else b
        batches = any(t._rank() is None or t._rank() > 2 for t in (a, b))  # of an unknown rank: it may turn out to be a batch
        if batches and not a_is_sparse and not b_is_sparse:
            return _batched(a, b, transpose_a, transpose_b, adjoint_a, adjoint_b, name)
        if adjoint_a:
            a, transpose_a = conj(a), True
        if adjoint_b:
            b, transpose_b = conj(b), True
        kinds = [t.dtype.base_dtype for t in (a, b)]
        mixed = kinds[0] is not kinds[1] and dtypes.bfloat16 in kinds  # MatMul takes two of one type alone
        if mixed or (a_is_sparse or b_is_sparse) and all(k in (dtypes.float32, dtypes.bfloat16) for k in kinds):
            made = op_defs.call("SparseMatMul", name, a=a, b=b, transpose_a=transpose_a, transpose_b=transpose_b,
                                a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse)
            return cast(made, dtypes.bfloat16) if kinds == [dtypes.bfloat16] * 2 else made
        return op_defs.call("MatMul", name, a=a, b=b, transpose_a=bool(transpose_a), transpose_b=bool(transpose_b))


def _batched(a, b, transpose_a, transpose_b, adjoint_a, adjoint_b, name):
    if transpose_a:
        a, adjoint_a = conj(a), True
    if transpose_b:
        b, adjoint_b = conj(b), True
    return op_defs.call("BatchMatMulV2", name, x=a, y=b, adj_x=bool(adjoint_a), adj_y=bool(adjoint_b))


@public
def matvec(a, b, transpose_a=False, adjoint_a=False, a_is_sparse=False, b_is_sparse=False, name=None):
    """Multiplies a matrix, or a batch of them, by a vector."""
    with ops.name_scope(name, "MatVec", [a, b]) as name:
        b = op_defs.call("ExpandDims", None, input=b, dim=-1)
        out = matmul(a, b, transpose_a=transpose_a, adjoint_a=adjoint_a, a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse)
        return op_defs.call("Squeeze", None, input=out, squeeze_dims=[-1])


@public
def matrix_transpose(a, name="matrix_transpose", conjugate=False):
    """Swaps the last two dimensions; with conjugate, also conjugates complex numbers."""
    with ops.name_scope(name, values=[a]):
        a = convert.convert_to_tensor(a, name="a")
        n = a._rank()
        if n is None:
            rank = op_defs.call("Rank", None, input=a)
            perm = op_defs.call("ConcatV2", None, values=[
                op_defs.call("Range", None, start=0, limit=rank - 2, delta=1), [rank - 1, rank - 2]], axis=0)
        else:
            if n < 2:
                raise ValueError("Argument 'a' should be a (batch) matrix, with rank >= 2.  Found: %s" % a.shape)
            perm = list(builtin_range(n - 2)) + [n - 1, n - 2]
        return op_defs.call("ConjugateTranspose" if conjugate else "Transpose", None, x=a, perm=perm)


@public
def cholesky_solve(chol, rhs, name=None):
    """Solves A x = rhs, given the lower Cholesky factor of A."""
    with ops.name_scope(name, "cholesky_solve", [chol, rhs]):
        y = matrix_triangular_solve(chol, rhs, adjoint=False, lower=True)  # noqa: F821
        return matrix_triangular_solve(chol, y, adjoint=True, lower=True)  # noqa: F821


@public
def self_adjoint_eig(tensor, name=None):
    """Computes the eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return op_defs.call("SelfAdjointEigV2", name, input=tensor, compute_v=True)


@public
def self_adjoint_eigvals(tensor, name=None):
    """Computes the eigenvalues of symmetric or Hermitian matrices."""
    return op_defs.call("SelfAdjointEigV2", name, input=tensor, compute_v=False)[0]


@public
def svd(tensor, full_matrices=False, compute_uv=True, name=None):
    """Computes the singular value decomposition of matrices.

    Returns s, u, v, or s alone if compute_uv is False. full_matrices asks for square u and v."""
    s, u, v = op_defs.call("Svd", name, input=tensor, compute_uv=compute_uv, full_matrices=full_matrices)
    return (s, u, v) if compute_uv else s


@public
def qr(input, full_matrices=False, name=None):  # noqa: A002
    """Computes the QR decomposition of matrices; full_matrices asks for a square Q."""
    return op_defs.call("Qr", name, input=input, full_matrices=full_matrices)


@public
def matrix_solve_ls(matrix, rhs, l2_regularizer=0.0, fast=True, name=None):
    """Solves linear least-squares problems, with an L2 penalty on the solution.

    fast uses the Cholesky factor of the normal equations."""
    return op_defs.call("MatrixSolveLs", name, matrix=matrix, rhs=rhs, l2_regularizer=l2_regularizer, fast=fast)


def _is_main_diagonal(k):
    return isinstance(k, int) and k == 0


def _padding(x, value):
    """A padding value of the type of x: a bool tensor takes no number."""
    x = convert.convert_to_tensor(x)
    return x, builtins.bool(value) if x.dtype == dtypes.bool_ and not isinstance(value, ops.Tensor) else value


@public
def matrix_diag(diagonal, name="diag", k=0, num_rows=-1, num_cols=-1, padding_value=0):
    """Matrices with these diagonals: number k, or k[0] to k[1], which are rows of equal length then."""
    plain = all(isinstance(v, int) for v in (num_rows, num_cols, padding_value))
    if _is_main_diagonal(k) and plain and (num_rows, num_cols, padding_value) == (-1, -1, 0):
        return op_defs.call("MatrixDiag", name, diagonal=diagonal)
    diagonal, padding_value = _padding(diagonal, padding_value)
    return op_defs.call("MatrixDiagV2", name, diagonal=diagonal, k=k, num_rows=num_rows, num_cols=num_cols,
                        padding_value=padding_value)


@public
def matrix_diag_part(input, name="diag_part", k=0, padding_value=0):  # noqa: A002
    """Diagonal k of matrices, or k[0] to k[1], the shorter of which are padded."""
    if _is_main_diagonal(k):
        return op_defs.call("MatrixDiagPart", name, input=input)
    input, padding_value = _padding(input, padding_value)
    return op_defs.call("MatrixDiagPartV2", name, input=input, k=k, padding_value=padding_value)


@public
def matrix_set_diag(input, diagonal, name="set_diag", k=0):  # noqa: A002
    """The matrices with other values on diagonal k, or on k[0] to k[1]."""
    if _is_main_diagonal(k):
        return op_defs.call("MatrixSetDiag", name, input=input, diagonal=diagonal)
    return op_defs.call("MatrixSetDiagV2", name, input=input, diagonal=diagonal, k=k)


@public
def trace(x, name=None):
    """Computes the sum of the main diagonal of matrices in the last two dimensions."""
    with ops.name_scope(name, "Trace", [x]) as name:
        return reduce_sum(op_defs.call("MatrixDiagPart", None, input=x), [-1], name=name)


@public
def norm(tensor, ord="euclidean", axis=None, keepdims=None, name=None, keep_dims=None):  # noqa: A002
    """Computes the norm of vectors or matrices.

    Args:
        ord: "euclidean", 1, 2, np.inf or another positive number; for matrices also "fro"
        axis: an axis for vectors, a pair for matrices; None takes the whole tensor as one vector
        keepdims: whether reduced dimensions stay with size 1; keep_dims is an old name
    """
    keep = bool(deprecated(keepdims, "keepdims", keep_dims, "keep_dims"))
    is_matrix = isinstance(axis, (tuple, list))
    if is_matrix and (len(axis) != 2 or axis[0] == axis[1] or not all(isinstance(a, (int, np.integer)) for a in axis)):
        raise ValueError("'axis' must be None, an integer, or a tuple of 2 unique integers")
    allowed = ["euclidean", "fro", 1, 2, np.inf] if is_matrix else ["euclidean", 1, 2, np.inf]
    if ord not in allowed and (is_matrix or not isinstance(ord, (int, float)) or ord <= 0):
        raise ValueError("'ord' must be a supported %s norm, got %s" % ("matrix" if is_matrix else "vector", ord))
    axes = list(axis) if is_matrix else axis
    with ops.name_scope(name, "norm", [tensor]):
        x = convert.convert_to_tensor(tensor)
        if ord in ("fro", "euclidean") or (ord == 2 and not is_matrix):
            return sqrt(reduce_sum(x * conj(x), axes, keepdims=True) if keep else reduce_sum(x * conj(x), axes))  # noqa: F821
        if is_matrix and ord == 2:
            return _spectral_norm(x, axes, keep)
        x = abs(x)
        if ord == np.inf:
            out = reduce_max(x, axes if not is_matrix else axes[1], keepdims=True)
            if is_matrix:
                out = reduce_max(reduce_sum(x, axes[1], keepdims=True), axes[0], keepdims=True)
        elif ord == 1:
            out = reduce_sum(x, axes if not is_matrix else axes[0], keepdims=True)
            if is_matrix:
                out = reduce_max(out, axes[1], keepdims=True)
        else:
            out = pow(reduce_sum(pow(x, ord), axes, keepdims=True), 1.0 / ord)
        return out if keep else op_defs.call("Squeeze", None, input=out, squeeze_dims=_squeezed(axes, out))


def _squeezed(axes, out):
    if axes is None:
        return list(builtin_range(out._rank())) if out._rank() is not None else []
    return axes if isinstance(axes, list) else [axes]


def _spectral_norm(x, axes, keep):
    n = x._rank()
    if n is None:
        raise NotImplementedError("tf.norm(ord=2) needs tensors of known rank")
    axes = [a % n for a in axes]
    perm = [i for i in builtin_range(n) if i not in axes] + axes
    s = svd(op_defs.call("Transpose", None, x=x, perm=perm), compute_uv=False)
    out = reduce_max(s, -1)
    for a in sorted(axes) if keep else ():
        out = op_defs.call("ExpandDims", None, input=out, dim=a)
    return out


@public
def einsum(equation, *inputs, **kwargs):
    """Computes a sum of products described by Einstein notation, such as "ij,jk->ik".

    The keyword name names the operation."""
    name = kwargs.pop("name", None)
    if kwargs:
        raise TypeError("einsum() got an unexpected argument %r" % next(iter(kwargs)))
    equation = equation.replace(" ", "")
    if "->" not in equation:
        counted = "".join(c for c in equation if c.isalpha())
        equation += "->" + "".join(sorted(c for c in set(counted) if counted.count(c) == 1))
    tensors = [convert.convert_to_tensor(x) for x in inputs]
    while len(tensors) > 2:  # two at a time: what both do not need any more is summed
        left, out = equation.split("->")
        parts = left.split(",")
        rest = set("".join(parts[2:]) + out)
        kept = "".join(c for c in dict.fromkeys(parts[0] + parts[1]) if c in rest)
        joined = op_defs.call("Einsum", None, inputs=tensors[:2], equation="%s,%s->%s" % (parts[0], parts[1], kept))
        tensors, equation = [joined] + tensors[2:], ",".join([kept] + parts[2:]) + "->" + out
    return op_defs.call("Einsum", name, inputs=tensors, equation=equation)


@public
def tensordot(a, b, axes, name=None):
    """Sums products over the given axes of a and b, as numpy's tensordot."""
    with ops.name_scope(name, "Tensordot", [a, b, axes]) as name:
        a, b = convert.convert_to_tensor(a, name="a"), convert.convert_to_tensor(b, name="b")
        ra, rb = a._rank(), b._rank()
        if ra is None or rb is None:
            raise NotImplementedError("tf.tensordot needs tensors of known rank")
        a_axes, b_axes = _contracted(axes, ra, rb)
        a_free = [i for i in builtin_range(ra) if i not in a_axes]
        b_free = [i for i in builtin_range(rb) if i not in b_axes]
        x = _as_matrix(a, a_free, a_axes)
        y = _as_matrix(b, b_axes, b_free)
        out = op_defs.call("MatMul", None, a=x, b=y)
        dims = [a._dims[i] for i in a_free] + [b._dims[i] for i in b_free]
        if all(d is not None for d in dims):
            return op_defs.call("Reshape", name, tensor=out, shape=convert.constant(np.array(dims, np.int32)))
        shape = op_defs.call("ConcatV2", None, values=[_dims_at(a, a_free), _dims_at(b, b_free)], axis=0)
        out = op_defs.call("Reshape", name, tensor=out, shape=shape)
        out.set_shape(dims)
        return out


def _contracted(axes, ra, rb):
    if isinstance(axes, (int, np.integer)):
        if axes < 0:
            raise ValueError("'axes' must be at least 0.")
        if axes > ra or axes > rb:
            raise ValueError("'axes' must not be larger than the number of dimensions of each tensor, which are %d and %d." %
                             (ra, rb))
        return list(builtin_range(ra - axes, ra)), list(builtin_range(axes))
    axes = axes.tolist() if isinstance(axes, np.ndarray) else axes
    if len(axes) != 2:
        raise ValueError("'axes' must be an integer or have length 2.")
    a, b = ([x] if isinstance(x, (int, np.integer)) else list(x) for x in axes)
    if len(a) != len(b):
        raise ValueError("Different number of contraction axes 'a' and 'b', %d != %d." % (len(a), len(b)))
    return [place_of(i, ra) for i in a], [place_of(i, rb) for i in b]


def _dims_at(x, places):
    shape = op_defs.call("Shape", None, input=x)
    return op_defs.call("GatherV2", None, params=shape, indices=convert.constant(np.array(places, np.int32)), axis=0)


def _as_matrix(x, rows, columns):
    n_rows = int(np.prod([x._dims[i] for i in rows])) if all(x._dims[i] is not None for i in rows) else None
    n_columns = int(np.prod([x._dims[i] for i in columns])) if all(x._dims[i] is not None for i in columns) else None
    perm = rows + columns
    if perm != list(builtin_range(len(perm))):
        x = op_defs.call("Transpose", None, x=x, perm=convert.constant(np.array(perm, np.int32)))
    rows_now, columns_now = list(builtin_range(len(rows))), list(builtin_range(len(rows), len(perm)))
    if n_rows is not None and n_columns is not None:
        shape = convert.constant(np.array([n_rows, n_columns], np.int32))
    else:
        shape = [n_rows if n_rows is not None else reduce_prod(_dims_at(x, rows_now)),
                 n_columns if n_columns is not None else reduce_prod(_dims_at(x, columns_now))]
    return op_defs.call("Reshape", None, tensor=x, shape=shape)


# ---- ranges and the rest ----

@public
def range(start, limit=None, delta=1, dtype=None, name="range"):  # noqa: A001
    """Returns numbers from start up to, but not including, limit, in steps of delta.

    With a single argument the numbers start at 0."""
    if limit is None:
        start, limit = 0, start
    with ops.name_scope(name, "Range", [start, limit, delta]) as name:
        start = convert.convert_to_tensor(start, dtype, name="start")
        limit = convert.convert_to_tensor(limit, dtype, name="limit")
        delta = convert.convert_to_tensor(delta, dtype, name="delta")
        if dtype is None:
            order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
            dtype = max((x.dtype.base_dtype for x in (start, limit, delta)), key=order.index)
            start, limit, delta = (cast(x, dtype) for x in (start, limit, delta))
        return op_defs.call("Range", name, start=start, limit=limit, delta=delta)


@public
def linspace(start, stop, num, name=None):
    """Returns num numbers, evenly spaced, from start to stop."""
    return op_defs.call("LinSpace", name, start=start, stop=stop, num=num)


lin_space = linspace
__all__.append("lin_space")


@public
def scalar_mul(scalar, x, name=None):
    """Multiplies a tensor or IndexedSlices by a scalar."""
    scalar = convert.convert_to_tensor(scalar, x.dtype.base_dtype, name="scalar")
    if scalar.shape.ndims not in (None, 0):
        raise ValueError("Only scalar multiply works, got shape %s" % scalar.shape)
    if isinstance(x, ops.IndexedSlices):
        return ops.IndexedSlices(op_defs.call("Mul", name, x=scalar, y=x.values), x.indices, x.dense_shape)
    return op_defs.call("Mul", name, x=scalar, y=x)


def _sparse_segments(called, op_type, text):
    def f(data, indices, segment_ids, name=None, num_segments=None):
        given = dict(data=data, indices=indices, segment_ids=segment_ids)
        if num_segments is None:
            return op_defs.call(op_type, name, **given)
        return op_defs.call(op_type + "WithNumSegments", name, num_segments=num_segments, **given)
    f.__name__ = f.__qualname__ = called
    f.__doc__ = """Computes %s of the rows of data that share a segment.

    Args:
        data: the tensor to pick rows from
        indices: which rows to take
        segment_ids: the segment of each of these rows, in ascending order
        name: the name of the operation
        num_segments: the number of rows of the result; by default the last segment id plus 1
    """ % text
    return public(f)


sparse_segment_sum = _sparse_segments("sparse_segment_sum", "SparseSegmentSum", "the sum")
sparse_segment_mean = _sparse_segments("sparse_segment_mean", "SparseSegmentMean", "the mean")
sparse_segment_sqrt_n = _sparse_segments("sparse_segment_sqrt_n", "SparseSegmentSqrtN",
                                         "the sum, divided by the square root of the number,")


@public
def unsorted_segment_mean(data, segment_ids, num_segments, name=None):
    """Computes the mean of the rows that share a segment id."""
    with ops.name_scope(name, "UnsortedSegmentMean", [data]):
        data = convert.convert_to_tensor(data)
        sizes = _segment_sizes(data, segment_ids, num_segments)
        return unsorted_segment_sum(data, segment_ids, num_segments) / sizes  # noqa: F821


@public
def unsorted_segment_sqrt_n(data, segment_ids, num_segments, name=None):
    """Computes the sum of the rows that share a segment id, divided by the square root of their number."""
    with ops.name_scope(name, "UnsortedSegmentSqrtN", [data]):
        data = convert.convert_to_tensor(data)
        sizes = _segment_sizes(data, segment_ids, num_segments)
        return unsorted_segment_sum(data, segment_ids, num_segments) / sqrt(sizes)  # noqa: F821


def _segment_sizes(data, segment_ids, num_segments):
    """How many rows each segment has, at least 1, in a shape that divides sums of data."""
    ids = convert.convert_to_tensor(segment_ids)
    ones = op_defs.call("OnesLike", None, x=cast(ids, data.dtype.base_dtype))
    n = unsorted_segment_sum(ones, ids, num_segments)  # noqa: F821
    if data._rank() is None or ids._rank() is None:
        more = op_defs.call("Rank", None, input=data) - op_defs.call("Rank", None, input=ids)
        ones = op_defs.call("Fill", None, dims=op_defs.call("ExpandDims", None, input=more, dim=0), value=1)
        n = op_defs.call("Reshape", None, tensor=n, shape=op_defs.call(
            "ConcatV2", None, values=[op_defs.call("Shape", None, input=n), ones], axis=0))
    else:
        for _ in builtin_range(data._rank() - ids._rank()):
            n = op_defs.call("ExpandDims", None, input=n, dim=-1)
    return maximum(n, convert.constant(1, data.dtype.base_dtype))  # noqa: F821


@public
def confusion_matrix(labels, predictions, num_classes=None, dtype=dtypes.int32, name=None, weights=None):
    """Counts, for each true class (row) and predicted class (column), how often the pair occurs.

    Args:
        labels: the true classes
        predictions: the predicted classes
        num_classes: the size of the matrix; the largest class plus 1 by default
        weights: what to add for each pair instead of 1
    """
    with ops.name_scope(name, "confusion_matrix", [predictions, labels]):
        labels = cast(op_defs.call("Reshape", None, tensor=labels, shape=[-1]), dtypes.int64)
        predictions = cast(op_defs.call("Reshape", None, tensor=predictions, shape=[-1]), dtypes.int64)
        if num_classes is None:
            num_classes = maximum(reduce_max(predictions), reduce_max(labels)) + 1  # noqa: F821
        n = cast(num_classes, dtypes.int64)
        # A class that the matrix has no place for would be counted at another's.
        labels, predictions = _checked_classes(labels, n, "labels"), _checked_classes(predictions, n, "predictions")
        values = (op_defs.call("OnesLike", None, x=cast(predictions, dtype)) if weights is None
                  else cast(op_defs.call("Reshape", None, tensor=weights, shape=[-1]), dtype))
        flat = unsorted_segment_sum(values, labels * n + predictions, n * n)  # noqa: F821
        return op_defs.call("Reshape", None, tensor=flat, shape=op_defs.call("Pack", None, values=[n, n]))


def _checked_classes(classes, n, called):
    from . import check
    checks = [check.assert_non_negative(classes, message="`%s` contains negative values" % called),
              check.assert_less(classes, n, message="`%s` out of bound" % called)]
    with ops.control_dependencies(checks):
        return op_defs.call("Identity", None, input=classes)


@public
def lbeta(x, name=None):
    """log |Beta(x)|, over the last dimension."""
    with ops.name_scope(name, "lbeta", [x]):
        x = convert.convert_to_tensor(x, name="x")
        return reduce_sum(lgamma(x), [-1]) - lgamma(reduce_sum(x, [-1]))  # noqa: F821


# ---- operators ----

def _binary(op_name, f, name):
    """x OP y and the reflected operator; an operand that is not a tensor is converted to the tensor's type."""
    def forward(x, y):
        if isinstance(y, _sparse_class()):
            return NotImplemented
        with ops.name_scope(None, name, [x, y]) as scope:
            if not isinstance(y, ops.Tensor):
                try:
                    y = convert.convert_to_tensor(y, dtype_hint=x.dtype.base_dtype, name="y") \
                        if hasattr(y, "dtype") and not isinstance(y, np.generic) and not isinstance(y, np.ndarray) \
                        else convert.convert_to_tensor(y, x.dtype.base_dtype, name="y")
                except TypeError:
                    if hasattr(type(y), "__r%s__" % op_name):
                        return NotImplemented
                    raise
            return f(x, y, scope)

    def mirrored(y, x):
        with ops.name_scope(None, name, [x, y]) as scope:
            x = convert.convert_to_tensor(x, y.dtype.base_dtype, name="x")
            return f(x, y, scope)

    ops.Tensor._override_operator("__%s__" % op_name, forward)
    ops.Tensor._override_operator("__r%s__" % op_name, mirrored)


def _sparse_class():
    from ..framework.sparse import SparseTensor
    return SparseTensor


def _op(op_type):
    return lambda x, y, name: op_defs.call(op_type, name, x=x, y=y)


def _bits_or_truth(bits, truth):
    return lambda x, y, name: op_defs.call(truth if x.dtype.base_dtype is dtypes.bool_ else bits, name, x=x, y=y)


_binary("add", _op("Add"), "add")
_binary("sub", _op("Sub"), "sub")
_binary("mul", _op("Mul"), "mul")
_binary("truediv", lambda x, y, name: truediv(x, y, name), "truediv")
_binary("div", lambda x, y, name: _div(x, y, name), "div")
_binary("floordiv", lambda x, y, name: op_defs.call("FloorDiv", name, x=x, y=y), "floordiv")
_binary("mod", _op("FloorMod"), "mod")
_binary("pow", lambda x, y, name: op_defs.call("Pow", name, x=x, y=y), "pow")
_binary("matmul", lambda x, y, name: matmul(x, y, name=name), "matmul")
_binary("and", _bits_or_truth("BitwiseAnd", "LogicalAnd"), "and")
_binary("or", _bits_or_truth("BitwiseOr", "LogicalOr"), "or")
_binary("xor", lambda x, y, name: logical_xor(x, y, name) if x.dtype.base_dtype is dtypes.bool_
        else op_defs.call("BitwiseXor", name, x=x, y=y), "xor")
for _name, _type in (("lt", "Less"), ("le", "LessEqual"), ("gt", "Greater"), ("ge", "GreaterEqual")):
    ops.Tensor._override_operator("__%s__" % _name, lambda x, y, _type=_type: op_defs.call(_type, None, x=x, y=y))
ops.Tensor._override_operator("__neg__", lambda x: op_defs.call("Neg", None, x=x))
ops.Tensor._override_operator("__abs__", lambda x: abs(x))
ops.Tensor._override_operator("__invert__", lambda x: op_defs.call(
    "LogicalNot" if x.dtype.base_dtype is dtypes.bool_ else "Invert", None, x=x))

# Names of TensorFlow before 1.0.
mul, sub, neg = multiply, subtract, negative
__all__ += ["mul", "sub", "neg"]
complex_abs = abs
batch_self_adjoint_eig, batch_svd, batch_cholesky = self_adjoint_eig, svd, cholesky  # noqa: F821
batch_matrix_inverse, batch_matrix_determinant = matrix_inverse, matrix_determinant  # noqa: F821
__all__ += ["complex_abs", "batch_self_adjoint_eig", "batch_svd", "batch_cholesky", "batch_matrix_inverse",
            "batch_matrix_determinant"]
__all__ = [n for i, n in enumerate(__all__) if n not in __all__[:i]]
