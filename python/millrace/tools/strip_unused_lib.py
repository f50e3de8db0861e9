"""The part of a graph between some inputs, which become placeholders, and some outputs."""
from .. import graph_util, protos
from ..framework import dtypes


def strip_unused(input_graph_def, input_node_names, output_node_names, placeholder_type_enum):
    """placeholder_type_enum is one type for all inputs, or a list of one for each."""
    known = {n.name: n for n in input_graph_def.node}
    for name in input_node_names:
        if name not in known:
            raise KeyError("The following input nodes were not found: {'%s'}" % name)
    out = protos.GraphDef()
    for node in input_graph_def.node:
        if node.name in input_node_names:
            out.node.extend([_placeholder(node, list(input_node_names).index(node.name), placeholder_type_enum)])
        else:
            out.node.extend([node])
    out.library.CopyFrom(input_graph_def.library)
    out.versions.CopyFrom(input_graph_def.versions)
    return graph_util.extract_sub_graph(out, list(output_node_names))


def _placeholder(node, index, types):
    kind = types[index] if isinstance(types, (list, tuple)) else types
    made = protos.NodeDef(name=node.name, op="Placeholder")
    made.attr["dtype"].type = int(dtypes.as_dtype(kind))
    for key in ("_output_shapes", "shape"):
        if key in node.attr:
            made.attr[key].CopyFrom(node.attr[key])
    return made
