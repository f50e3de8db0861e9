"""Variables of a graph as a model of the library has them (python/core/model.h)."""

from ..framework import dtypes, ops
from . import array, math, variables


def handle(variable):
    """The tensor by which the library knows a variable: its handle or its reference."""
    return variable.handle if variables.is_resource_variable(variable) else variable._ref()


def parts(variable, gradient, trained=True):
    """A variable and its gradient, as the extension has it."""
    if isinstance(gradient, ops.IndexedSlices):
        shape = gradient.dense_shape
        shape = array.shape(variable) if shape is None else math.cast(shape, dtypes.int32)
        return handle(variable), trained, gradient.values, gradient.indices, shape
    return handle(variable), trained, gradient, None, None


def global_step(graph):
    """The graph's, made if there is none; the library knows it by its name."""
    from ..train import get_or_create_global_step
    step = get_or_create_global_step(graph)
    if step.dtype.base_dtype != dtypes.int64 or step.op.name != "global_step":
        raise ValueError("The global step must be an int64 variable named global_step, got %s" % (step,))
    return step
