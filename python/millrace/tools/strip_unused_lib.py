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
    for part in ("library", "versions"):
        if input_graph_def.HasField(part):
            getattr(out, part).CopyFrom(getattr(input_graph_def, part))
    return graph_util.extract_sub_graph(out, list(output_node_names))


def _placeholder(node, index, types):
    kind = types[index] if isinstance(types, (list, tuple)) else types
    made = protos.NodeDef(name=node.name, op="Placeholder")
    made.attr["dtype"].type = int(dtypes.as_dtype(kind))
    for key in ("_output_shapes", "shape"):
        if key in node.attr:
            made.attr[key].CopyFrom(node.attr[key])
    return made


def strip_unused_from_files(input_graph, input_binary, output_graph, output_binary, input_node_names, output_node_names,
                            placeholder_type_enum):
    """The same from file to file; names with commas between them."""
    from ..file_io import FileIO
    from .freeze_graph import read_message
    if not output_node_names:
        raise ValueError("You need to supply the name of a node to --output_node_names.")
    graph_def = strip_unused(read_message(protos.GraphDef, input_graph, input_binary), input_node_names.split(","),
                             output_node_names.split(","), placeholder_type_enum)
    with FileIO(output_graph, "wb" if output_binary else "w") as f:
        f.write(graph_def.SerializeToString() if output_binary else str(graph_def))
    return graph_def
