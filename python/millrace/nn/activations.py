"""Activations: functions that work on each element, and the softmaxes."""

from ..framework import convert, op_defs, ops
from ..ops import array, math

__all__ = ["crelu", "elu", "leaky_relu", "log_softmax", "relu", "relu6", "relu_layer", "selu", "softmax", "softplus",
           "softsign", "swish", "zero_fraction"]


def _simple(name_in_tf, op_type):
    def f(features, name=None):
        return op_defs.call(op_type, name, features=features)
    f.__name__ = f.__qualname__ = name_in_tf
    f.__doc__ = "The op %s." % op_type
    return f


relu, elu, selu = _simple("relu", "Relu"), _simple("elu", "Elu"), _simple("selu", "Selu")
relu6, softplus, softsign = _simple("relu6", "Relu6"), _simple("softplus", "Softplus"), _simple("softsign", "Softsign")


def leaky_relu(features, alpha=0.2, name=None):
    """Computes features where they are positive, and alpha times features elsewhere."""
    with ops.name_scope(name, "LeakyRelu", [features, alpha]) as name:
        features = convert.convert_to_tensor(features, name="features")
        if features.dtype.is_integer:
            features = math.cast(features, "float32")
        if isinstance(alpha, ops.Tensor):
            return math.maximum(alpha * features, features, name=name)
        return op_defs.call("LeakyRelu", name, features=features, alpha=alpha)


def crelu(features, name=None, axis=-1):
    """relu of the features and of their negatives, side by side."""
    with ops.name_scope(name, "CRelu", [features]) as name:
        features = convert.convert_to_tensor(features, name="features")
        return relu(array.concat([features, -features], axis, name=name))


def swish(features, name=None):
    """Computes features * sigmoid(features)."""
    with ops.name_scope(name, "swish", [features]) as name:
        features = convert.convert_to_tensor(features, name="features")
        return math.multiply(features, math.sigmoid(features), name=name)


def relu_layer(x, weights, biases, name=None):
    """Computes relu(x * weights + biases)."""
    with ops.name_scope(name, "relu_layer", [x, weights, biases]) as name:
        from .basic import bias_add
        return relu(bias_add(math.matmul(x, weights), biases), name=name)


def zero_fraction(value, name=None):
    """Computes the share of elements that are 0."""
    with ops.name_scope(name, "zero_fraction", [value]):
        value = convert.convert_to_tensor(value, name="value")
        zero = convert.constant(0, value.dtype.base_dtype, name="zero")
        return math.reduce_mean(math.cast(math.equal(value, zero), "float32"), name="fraction")


# ---- softmax ----

def along_axis(x, axis, compute):
    """compute(matrix) over the rows that lie along an axis: the op itself takes the last one only."""
    rank = x.shape.ndims
    if axis == -1 or rank is not None and axis == rank - 1:
        return compute(x)
    if rank is not None and not -rank <= axis < rank:
        raise ValueError("`axis` of %d is out of range for a tensor of rank %d" % (axis, rank))
    perm = _swapped(x, axis)
    out = array.transpose(compute(array.transpose(x, perm)), perm)
    out.set_shape(x.shape)
    return out


def _swapped(x, axis):
    """The order of dimensions with `axis` and the last one exchanged."""
    rank = x.shape.ndims
    if rank is not None:
        perm = list(range(rank))
        perm[axis], perm[-1] = perm[-1], perm[axis]
        return perm
    n = array.rank(x)
    at = math.floormod(axis, n)
    last = n - 1
    return array.concat([math.range(at), [last], math.range(at + 1, last), [at]], 0)


def _softmax(logits, op_type, axis, name):
    logits = convert.convert_to_tensor(logits)
    if logits.shape.ndims == 0:
        raise ValueError("%s does not accept a scalar" % op_type)
    if axis == -1 or logits.shape.ndims is not None and axis == logits.shape.ndims - 1:
        return op_defs.call(op_type, name, logits=logits)
    with ops.name_scope(name, op_type, [logits]):
        return along_axis(logits, axis, lambda x: op_defs.call(op_type, None, logits=x))


def softmax(logits, axis=None, name=None, dim=None):
    """Computes exp(logits) / sum(exp(logits)) along an axis, the last one by default.

    dim is an old name of axis."""
    axis = math.deprecated(axis, "axis", dim, "dim")
    return _softmax(logits, "Softmax", -1 if axis is None else axis, name)


def log_softmax(logits, axis=None, name=None, dim=None):
    """Computes the logarithm of softmax(logits) along an axis, the last one by default.

    dim is an old name of axis."""
    axis = math.deprecated(axis, "axis", dim, "dim")
    return _softmax(logits, "LogSoftmax", -1 if axis is None else axis, name)
