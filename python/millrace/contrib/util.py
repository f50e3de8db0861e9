"""tf.contrib.util: tensors as messages, and what a graph is made of."""
from .. import protos
from ..framework import op_defs
from ..framework.convert import constant_value
from ..framework.tensor_util import make_ndarray, make_tensor_proto

__all__ = ["constant_value", "make_ndarray", "make_tensor_proto", "ops_used_by_graph_def", "stripped_op_list_for_graph"]


def ops_used_by_graph_def(graph_def):
    """The names of its ops, also of those that only its functions use."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    used, todo = set(), [n.op for n in graph_def.node]
    while todo:
        op = todo.pop()
        if op not in used:
            used.add(op)
            if op in functions:
                todo += [n.op for n in functions[op].node_def]
    return [op for op in used if op not in functions]


def stripped_op_list_for_graph(graph_def):
    """The OpList of its ops."""
    found = protos.OpList()
    for op in sorted(ops_used_by_graph_def(graph_def)):
        found.op.add().CopyFrom(op_defs.op_def(op))
    return found
