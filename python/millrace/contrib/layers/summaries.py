"""Summaries of tensors by what they are: histograms, scalars for what has one element."""

from ...framework import ops
from ... import nn, summary

__all__ = ["summarize_activation", "summarize_activations", "summarize_biases", "summarize_collection", "summarize_tensor",
           "summarize_tensors", "summarize_variables", "summarize_weights"]


def summarize_activation(op):
    """A histogram, and of what relu makes how much is zero."""
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        summary.scalar("%s/zeros" % op.op.name, nn.zero_fraction(op))
    if op.op.type == "Relu6":
        from ...ops import math
        summary.scalar("%s/sixes" % op.op.name, math.reduce_mean(math.cast(math.equal(op, 6.0), "float32")))
    return summary.histogram("%s/activation" % op.op.name, op)


def summarize_tensor(tensor, tag=None):
    """Adds a summary of a tensor: a scalar, or a histogram."""
    if tensor.shape.ndims == 0:
        return summary.scalar(tag or tensor.op.name, tensor)
    return summary.histogram(tag or tensor.op.name, tensor)


def summarize_tensors(tensors, summarizer=summarize_tensor):
    """Adds a summary of each tensor, and returns the list."""
    return [summarizer(t) for t in tensors]


def summarize_collection(collection, name_filter=None, summarizer=summarize_tensor):
    """Adds a summary of each tensor of a collection whose name matches name_filter."""
    import re
    found = ops.get_collection(collection)
    if name_filter is not None:
        found = [t for t in found if re.match(name_filter, t.op.name)]
    return summarize_tensors(found, summarizer)


def _of(called, collection, summarizer=summarize_tensor):
    def f(name_filter=None, summarizer=summarizer):
        return summarize_collection(collection, name_filter, summarizer)
    f.__name__ = f.__qualname__ = called
    f.__doc__ = "Adds a summary of each tensor of the collection %s whose name matches name_filter." % collection
    return f


summarize_variables = _of("summarize_variables", ops.GraphKeys.GLOBAL_VARIABLES)
summarize_weights = _of("summarize_weights", ops.GraphKeys.WEIGHTS)
summarize_biases = _of("summarize_biases", ops.GraphKeys.BIASES)
summarize_activations = _of("summarize_activations", ops.GraphKeys.ACTIVATIONS, summarize_activation)
