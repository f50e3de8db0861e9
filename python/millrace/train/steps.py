"""The global step: the variable that counts how often a model was trained."""

import os

import _millrace as _core
from ..framework import dtypes, ops
from ..ops import variable_scope, variables
from .. import initializers

__all__ = ["assert_global_step", "create_global_step", "get_global_step", "get_or_create_global_step", "global_step",
           "write_graph"]


def global_step(sess, global_step_tensor):
    """Returns the value of the global step as an int."""
    return int(sess.run(global_step_tensor))


def get_global_step(graph=None):
    """Returns the global step of the collection GLOBAL_STEP, else the tensor of that name, else None."""
    graph = graph or ops.get_default_graph()
    found = graph.get_collection(ops.GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple tensors in global_step collection.")
    if found:
        step = found[0]
    else:
        try:
            step = graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
        step = next((v for v in graph.get_collection(ops.GraphKeys.GLOBAL_VARIABLES) if v.name == step.name), step)
    assert_global_step(step)
    return step


def create_global_step(graph=None):
    """A new one; there must be none yet."""
    graph = graph or ops.get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return variable_scope.get_variable(
            ops.GraphKeys.GLOBAL_STEP, shape=[], dtype=dtypes.int64, initializer=initializers.zeros(), trainable=False,
            collections=[ops.GraphKeys.GLOBAL_VARIABLES, ops.GraphKeys.GLOBAL_STEP])


def get_or_create_global_step(graph=None):
    """Returns the global step of a graph, made if there is none."""
    graph = graph or ops.get_default_graph()
    step = get_global_step(graph)
    return create_global_step(graph) if step is None else step


def assert_global_step(global_step_tensor):
    """An integer, and a scalar as far as is known."""
    if not isinstance(global_step_tensor, (variables.Variable, ops.Tensor)):
        raise TypeError("Existing \"global_step\" must be a Variable or Tensor: %s." % (global_step_tensor,))
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError('Existing "global_step" does not have integer type: %s' % global_step_tensor.dtype)
    if global_step_tensor.get_shape().ndims not in (0, None):
        raise TypeError('Existing "global_step" is not scalar: %s' % global_step_tensor.get_shape())


def write_graph(graph_or_graph_def, logdir, name, as_text=True):
    """Writes a graph as a file, as text or binary; its path."""
    graph_def = graph_or_graph_def.as_graph_def() if isinstance(graph_or_graph_def, ops.Graph) else graph_or_graph_def
    if "://" not in logdir:
        os.makedirs(logdir, exist_ok=True)
    path = os.path.join(logdir, name)
    with open(path, "wb") as f:
        data = graph_def.SerializeToString()
        f.write(_core.message_to_text("GraphDef", data).encode() if as_text else data)
    return path


def _get_or_create_global_step_read(graph=None):
    """A read of the global step before the following operations; None if there is no global step."""
    graph = graph or ops.get_default_graph()
    kept = graph._scoped.get("global_step_read")
    if kept is not None:
        return kept
    step = get_global_step(graph)
    if step is None:
        return None
    with graph.as_default(), graph.name_scope(None), graph.name_scope(step.op.name + "/"):
        value = step.initialized_value() if isinstance(step, variables.Variable) else step
        graph._scoped["global_step_read"] = value = value + 0
    return value
