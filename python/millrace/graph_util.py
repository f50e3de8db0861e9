"""tf.graph_util: GraphDefs cut down to what a model needs: parts of them, with constants in place of variables."""

import collections

from . import logging, protos
from .framework.importer import import_graph_file  # noqa: F401

_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")
_HANDLE_READS = {"ReadVariableOp": "Identity", "ResourceGather": "GatherV2", "ResourceGatherNd": "GatherNd"}
_PASSING = {"RefSwitch": "Switch", "RefEnter": "Enter", "RefIdentity": "Identity", "RefMerge": "Merge", "RefExit": "Exit",
            "RefNextIteration": "NextIteration", "Switch": "Switch", "Enter": "Enter", "Identity": "Identity", "Merge": "Merge"}


def _node_name(text):
    """The node that an input names."""
    text = text[1:] if text.startswith("^") else text
    return text.partition(":")[0]


def extract_sub_graph(graph_def, dest_nodes):
    """The nodes that dest_nodes hang on, and themselves."""
    if not hasattr(graph_def, "node"):
        raise TypeError("graph_def must be a graph_pb2.GraphDef proto.")
    if isinstance(dest_nodes, str):
        raise TypeError("dest_nodes must be a list.")
    by_name = {n.name: n for n in graph_def.node}
    needed, todo = set(), collections.deque()
    for name in dest_nodes:
        if name not in by_name:
            raise AssertionError("%s is not in graph" % name)
        todo.append(name)
    while todo:
        name = todo.popleft()
        if name not in needed and name in by_name:
            needed.add(name)
            todo.extend(_node_name(x) for x in by_name[name].input)
    out = protos.GraphDef()
    out.node.extend([n for n in graph_def.node if n.name in needed])
    _copy_rest(graph_def, out)
    return out


def must_run_on_cpu(node, pin_variables_on_cpu=False):
    """Whether a node cannot be on a GPU."""
    node = node if hasattr(node, "op") and hasattr(node, "attr") else node.node_def
    if pin_variables_on_cpu and node.op in ("Variable", "VariableV2"):
        return True
    if node.op == "Const":
        return node.attr["dtype"].type in (3, 7)  # numbers of rows and texts are needed where the host is
    if node.op == "DynamicStitch":
        return node.attr["T"].type == 3
    if node.op == "Cast":
        return node.attr["SrcT"].type == 7 or node.attr["DstT"].type == 7
    return False


def set_cpu0(device_string):
    """Returns a device name with its device replaced by CPU 0."""
    from .framework.device import DeviceSpec
    spec = DeviceSpec.from_string(device_string)
    spec.device_type, spec.device_index = "CPU", 0
    return spec.to_string()


def tensor_shape_from_node_def_name(graph, input_name):
    """Returns the static shape of the tensor with this name; without ":n" the first output is meant."""
    name = input_name if ":" in input_name else input_name + ":0"
    return graph.get_tensor_by_name(name).get_shape()


# ---- variables as constants ----

def convert_variables_to_constants(sess, input_graph_def, output_node_names, variable_names_whitelist=None,
                                   variable_names_blacklist=None):
    """The part of a graph that output_node_names hang on, with the values that its variables have in a session."""
    part = extract_sub_graph(input_graph_def, output_node_names)
    by_name = {n.name: n for n in part.node}
    chosen = [n for n in part.node if n.op in _VARIABLES and
              (variable_names_whitelist is None or n.name in variable_names_whitelist) and
              (variable_names_blacklist is None or n.name not in variable_names_blacklist)]
    values = sess.run([_reading(sess.graph, n) for n in chosen]) if chosen else []
    logging.info("Froze %d variables.", len(chosen))
    frozen = {n.name: (n.attr["dtype"].type, v) for n, v in zip(chosen, values)}
    types = _types_of_copies(part, frozen)
    out = protos.GraphDef()
    for node in part.node:
        if node.name in frozen:
            out.node.extend([_const_node(node.name, *frozen[node.name])])
        else:
            out.node.extend(_converted(node, types, by_name))
    _copy_rest(part, out)
    logging.info("Converted %d variables to const ops.", len(frozen))
    return out


def _reading(graph, node):
    """A tensor of the session's graph that has the value of a variable."""
    if node.op != "VarHandleOp":
        return graph.get_tensor_by_name(node.name + ":0")
    handle = graph.get_operation_by_name(node.name).outputs[0]
    for op in handle.consumers():
        if op.type == "ReadVariableOp" and op._control_flow_context is None:
            return op.outputs[0]
    raise ValueError("No operation reads variable %r" % node.name)


def _types_of_copies(part, frozen):
    """{node: dtype} for the nodes that hand on a frozen variable's reference or handle, the variables too."""
    types = {name: dtype for name, (dtype, _) in frozen.items()}
    changed = True
    while changed:  # loops make it take a round more
        changed = False
        for node in part.node:
            is_copy = node.op in _PASSING and (node.op.startswith("Ref") or node.attr["T"].type == 20)
            if is_copy and node.name not in types and node.input and _node_name(node.input[0]) in types:
                types[node.name] = types[_node_name(node.input[0])]
                changed = True
    return types


def _const_node(name, dtype, value):
    from .framework import tensor_util
    node = protos.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtype
    node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(value, dtype=dtype, shape=value.shape))
    return node


def _converted(node, types, by_name):
    """A node, and constants it needs, as it is without the variables."""
    copy = protos.NodeDef()
    copy.CopyFrom(node)
    source = _node_name(node.input[0]) if node.input else None
    if node.name in types:
        copy.op = _PASSING[node.op]
        copy.attr["T"].type = types[node.name]
        return [copy]
    if node.op not in _HANDLE_READS or source not in types:
        return [copy]
    copy.op = _HANDLE_READS[node.op]
    kept = {k: protos.AttrValue.FromString(v.SerializeToString()) for k, v in node.attr.items()
            if k.startswith("_") and k != "_class"}
    copy.ClearField("attr")
    for k, v in kept.items():
        copy.attr[k].CopyFrom(v)
    if node.op == "ReadVariableOp":
        copy.attr["T"].type = types[source]
        return [copy]
    copy.attr["Tparams"].type = types[source]
    copy.attr["Tindices"].type = node.attr["Tindices"].type
    if node.op == "ResourceGatherNd":
        return [copy]
    import numpy as np
    axis = _const_node(node.name + "/axis", 3, np.array(0, np.int32))
    copy.attr["Taxis"].type = 3
    copy.attr["batch_dims"].i = node.attr["batch_dims"].i
    copy.input.insert(2, axis.name)
    return [axis, copy]


# ---- nodes that are only for training ----

def remove_training_nodes(input_graph, protected_nodes=None):
    """The graph without CheckNumerics and without Identities that only stand between others."""
    protected = set(protected_nodes or ())
    gone = {n.name: n.input[0] for n in input_graph.node if n.op == "CheckNumerics" and n.name not in protected and n.input}
    inputs = {n.name: [x for x in n.input if not (x.startswith("^") and x[1:] in gone)] for n in input_graph.node}
    waited_for = {x[1:] for names in inputs.values() for x in names if x.startswith("^")}
    for node in input_graph.node:  # one that waits for others, or is waited for, has a purpose
        if node.op == "Identity" and node.name not in protected and node.name not in waited_for and len(inputs[node.name]) == 1:
            gone[node.name] = inputs[node.name][0]
    out = protos.GraphDef()
    for node in input_graph.node:
        if node.name not in gone:
            copy = out.node.add()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend([_past(x, gone) for x in inputs[node.name]])
    _copy_rest(input_graph, out)
    return out


def _copy_rest(graph_def, out):
    for field in ("library", "versions"):
        if graph_def.HasField(field):
            getattr(out, field).CopyFrom(getattr(graph_def, field))


def _past(name, through):
    while name in through or name.endswith(":0") and name[:-2] in through:
        name = through[name if name in through else name[:-2]]
    return name
