"""Cross entropies of logits and labels, an element or a row each."""

from ..framework import convert, dtypes, op_defs, ops
from ..ops import array, math

__all__ = ["log_poisson_loss", "sigmoid_cross_entropy_with_logits", "softmax_cross_entropy_with_logits",
           "softmax_cross_entropy_with_logits_v2", "sparse_softmax_cross_entropy_with_logits",
           "weighted_cross_entropy_with_logits"]


def _only_named(function, sentinel, labels, logits, first="labels"):
    """Before 1.0 the order of arguments was another one: they must be named now."""
    if sentinel is not None:
        raise ValueError("Only call `%s` with named arguments (%s=..., logits=..., ...)" % (function, first))
    if labels is None or logits is None:
        raise ValueError("Both %s and logits must be provided." % first)


def softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, dim=-1, name=None, axis=None):
    """Computes the cross entropy of labels and logits; gradients do not flow into the labels."""
    axis = dim if axis is None else axis
    _only_named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with ops.name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as name:
        labels = array.stop_gradient(labels, name="labels_stop_gradient")
    return _softmax_cross_entropy(labels, logits, axis, name)


def softmax_cross_entropy_with_logits_v2(labels=None, logits=None, axis=None, name=None, dim=None, _sentinel=None):
    """Computes the cross entropy of labels and logits; gradients flow into the labels too."""
    axis = math.deprecated(axis, "axis", dim, "dim")
    _only_named("softmax_cross_entropy_with_logits_v2", _sentinel, labels, logits)
    return _softmax_cross_entropy(labels, logits, -1 if axis is None else axis, name)


def _softmax_cross_entropy(labels, logits, axis, name):
    with ops.name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as name:
        logits = convert.convert_to_tensor(logits, name="logits")
        labels = convert.convert_to_tensor(labels, name="labels")
        narrow = logits.dtype in (dtypes.float16, dtypes.bfloat16)
        x = math.cast(logits, dtypes.float32) if narrow else logits
        y = math.cast(labels, x.dtype.base_dtype)
        costs = _rows(x, y, axis, name)
        return math.cast(costs, logits.dtype.base_dtype) if narrow else costs


def _rows(x, y, axis, name):
    """Costs along an axis, which is made the last one; all others become rows of a matrix."""
    rank = x.shape.ndims
    if rank == 2 and y.shape.ndims in (None, 2) and axis in (-1, 1):
        return op_defs.call("SoftmaxCrossEntropyWithLogits", name, features=x, labels=y)[0]
    at = axis % rank if rank is not None else axis
    shape = x.shape.as_list() if rank is not None else None
    if rank is not None and at != rank - 1:
        perm = [i for i in range(rank) if i != at] + [at]
        x, y = array.transpose(x, perm), array.transpose(y, perm)
    elif rank is None and axis != -1:
        raise ValueError("The rank of logits must be known for an axis other than the last")
    outer = array.shape(x)[:-1]
    depth = array.shape(x)[-1]
    flat = op_defs.call("SoftmaxCrossEntropyWithLogits", None, features=array.reshape(x, array.stack([-1, depth])),
                        labels=array.reshape(y, array.stack([-1, depth])))[0]
    costs = array.reshape(flat, outer, name=name)
    if shape is not None:
        costs.set_shape(shape[:at] + shape[at + 1:])
    return costs


def sparse_softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """Labels are the numbers of classes."""
    _only_named("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with ops.name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels = convert.convert_to_tensor(labels)
        logits = convert.convert_to_tensor(logits)
        narrow = logits.dtype in (dtypes.float16, dtypes.bfloat16)
        x = math.cast(logits, dtypes.float32) if narrow else logits
        costs = _sparse_rows(labels, x, name)
        return math.cast(costs, logits.dtype.base_dtype) if narrow else costs


def _sparse_rows(labels, x, name):
    known = labels.shape
    if x.shape.ndims == 0:
        raise ValueError("Logits cannot be scalars - received shape %s." % x.shape)
    if x.shape.ndims is not None and known.ndims is not None and known.ndims != x.shape.ndims - 1:
        raise ValueError("Rank mismatch: Rank of labels (received %s) should equal rank of logits minus 1 (received %s)." %
                         (known.ndims, x.shape.ndims))
    if x.shape.ndims == 2:
        return op_defs.call("SparseSoftmaxCrossEntropyWithLogits", name, features=x, labels=labels)[0]
    shape = array.shape(labels)
    matrix = array.reshape(x, array.stack([-1, array.shape(x)[-1]]))
    costs = op_defs.call("SparseSoftmaxCrossEntropyWithLogits", name, features=matrix, labels=array.reshape(labels, [-1]))[0]
    costs = array.reshape(costs, shape)
    costs.set_shape(known)
    return costs


def _same_shape(logits, labels, what):
    try:
        labels.shape.merge_with(logits.shape)
    except ValueError:
        raise ValueError("logits and %s must have the same shape (%s vs %s)" % (what, logits.shape, labels.shape)) from None


def sigmoid_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None, targets=None):
    """max(x, 0) - x * z + log(1 + exp(-|x|)), which neither overflows nor loses digits.  `targets` is an old name of labels."""
    labels = math.deprecated(labels, "labels", targets, "targets")
    _only_named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with ops.name_scope(name, "logistic_loss", [logits, labels]) as name:
        logits = convert.convert_to_tensor(logits, name="logits")
        if not isinstance(labels, ops.Tensor):
            labels = convert.convert_to_tensor(labels, logits.dtype.base_dtype, name="labels")
        _same_shape(logits, labels, "labels")
        zeros = array.zeros_like(logits, dtype=logits.dtype)
        positive = logits >= zeros
        return math.add(array.where(positive, logits, zeros) - logits * labels,
                        math.log1p(math.exp(array.where(positive, -logits, logits))), name=name)


def weighted_cross_entropy_with_logits(labels=None, logits=None, pos_weight=None, name=None, targets=None):
    """Computes sigmoid_cross_entropy_with_logits with positive labels weighted by pos_weight."""
    labels = math.deprecated(labels, "labels", targets, "targets")
    with ops.name_scope(name, "logistic_loss", [logits, labels]) as name:
        logits = convert.convert_to_tensor(logits, name="logits")
        labels = convert.convert_to_tensor(labels, name="labels")
        _same_shape(logits, labels, "labels")
        weight = 1 + (pos_weight - 1) * labels
        rest = math.log1p(math.exp(-math.abs(logits))) + op_defs.call("Relu", None, features=-logits)
        return math.add((1 - labels) * logits, weight * rest, name=name)


def log_poisson_loss(targets, log_input, compute_full_loss=False, name=None):
    """Computes the negative log likelihood of targets under a Poisson distribution: exp(log_input) - targets *
    log_input.

    Args:
        targets: the observed counts
        log_input: the logarithm of the predicted rate
        compute_full_loss: whether to add the approximation of log(targets!), which does not depend on log_input
    """
    with ops.name_scope(name, "log_poisson_loss", [log_input, targets]):
        log_input = convert.convert_to_tensor(log_input, name="log_input")
        targets = convert.convert_to_tensor(targets, name="targets")
        _same_shape(log_input, targets, "targets")
        loss = math.exp(log_input) - log_input * targets
        if not compute_full_loss:
            return loss
        stirling = targets * math.log(targets) - targets + 0.5 * math.log(2 * 3.141592653589793 * targets)
        zeros, ones = array.zeros_like(targets, dtype=targets.dtype), array.ones_like(targets, dtype=targets.dtype)
        small = math.logical_and(targets >= zeros, targets <= ones)
        return loss + array.where(small, zeros, stirling)
