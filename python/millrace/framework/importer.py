"""tf.import_graph_def: the nodes of a GraphDef as operations of the default graph."""

import os

from . import convert, device as device_lib, errors, function, op_defs, ops


def import_graph_def(graph_def, input_map=None, return_elements=None, name=None, op_dict=None, producer_op_list=None):
    """Adds the nodes under a scope ("import" unless a name is given; "" for none); what return_elements names, or None."""
    graph = ops.get_default_graph()
    graph._check_not_finalized()
    graph_def = _as_graph_def(graph_def)
    input_map = _checked_map(input_map)
    return_elements = _checked_elements(return_elements)
    if producer_op_list is not None:
        graph_def = _without_unknown_defaults(graph_def, producer_op_list)
    data = graph_def.SerializeToString()
    if b"_gradient_op_type" in data:
        graph._scoped["overrides gradients"] = True
    return _import(graph, data, graph_def.library.function, input_map, return_elements, name)


def import_graph_file(path, input_map=None, return_elements=None, name=None):
    """Adds the nodes of a GraphDef in a file, as `import_graph_def` does, without reading all of the file.

    Large constants are used where they are in the file if they are aligned there; `millrace convert --align` writes such a
    file.  It must not be changed while graphs use it: to replace it, write another one and rename it.

    Args:
        path: a file with a serialized GraphDef
        input_map: as for `import_graph_def`
        return_elements: as for `import_graph_def`
        name: as for `import_graph_def`
    """
    graph = ops.get_default_graph()
    graph._check_not_finalized()
    input_map = _checked_map(input_map)
    return_elements = _checked_elements(return_elements)
    path = os.fspath(path)
    graph._scoped["overrides gradients"] = True  # perhaps it does
    return _import(graph, path.decode() if isinstance(path, bytes) else path, _library_of(path), input_map, return_elements, name)


def _library_of(path):
    """The functions in the file of a GraphDef; the nodes, which may be large, are not read."""
    from .. import protos
    library = protos.FunctionDefLibrary()
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        while f.tell() < size:
            tag = _varint(f)
            if tag & 7 != 2:  # whatever is wrong with the file, the import tells
                if tag & 7 != 0:
                    break
                _varint(f)
                continue
            n = _varint(f)
            if tag >> 3 == 2:
                library.MergeFromString(f.read(min(n, size)))
            else:
                f.seek(min(n, size), os.SEEK_CUR)
    return library.function


def _varint(f):
    value = shift = 0
    while True:
        b = f.read(1)
        if not b or shift > 63:
            return 0
        value |= (b[0] & 0x7F) << shift
        shift += 7
        if b[0] < 0x80:
            return value


def _import(graph, data, functions, input_map, return_elements, name):
    """data: a serialized GraphDef or the path of a file with one."""
    mapping = _mapping(graph, input_map)
    with ops.name_scope(name, "import", []) as scope:
        returns = [_named(e) for e in return_elements or ()]
        before = graph._number()
        try:
            outputs, operations, unused = graph.import_proto(data, scope[:-1] if scope else "", mapping, [], returns, True)
        except (errors.InvalidArgumentError, errors.NotFoundError) as e:
            raise ValueError(e.message) from None
        finally:
            graph._made_here(before)
    for d in functions:
        graph._functions.setdefault(d.signature.name, function.ImportedFunction(d))
    if graph._device_stack or graph._control_flow_context is not None:
        new = graph.ops(before)[0]
        _place(graph, new)
        if graph._control_flow_context is not None:
            _take_part(graph._control_flow_context, new)
    _check_used(input_map, unused)
    if return_elements is None:
        return None
    outputs, operations = iter(outputs), iter(operations)
    return [next(operations) if index < 0 else next(outputs) for _, index in returns]


def _as_graph_def(graph_def):
    from .. import protos
    if isinstance(graph_def, protos.GraphDef):
        return graph_def
    if hasattr(graph_def, "SerializeToString"):  # of another library, or of a compatible message
        return protos.GraphDef.FromString(graph_def.SerializeToString())
    raise TypeError("graph_def must be a GraphDef proto.")


def _text(x, what):
    if isinstance(x, bytes):
        return x.decode()
    if isinstance(x, str):
        return x
    raise TypeError(what)


def _checked_map(input_map):
    message = "input_map must be a dictionary mapping strings to Tensor objects."
    if input_map is None:
        return {}
    if not hasattr(input_map, "items"):
        raise TypeError(message)
    return {_text(k, message): v for k, v in input_map.items()}


def _checked_elements(return_elements):
    message = "return_elements must be a list of strings."
    if return_elements is None:
        return None
    if isinstance(return_elements, (str, bytes)) or not hasattr(return_elements, "__iter__"):
        raise TypeError(message)
    return [_text(e, message) for e in return_elements]


def _named(element):
    """(name of a node, number of its output or -1 for the node)"""
    name, colon, index = element.rpartition(":")
    if not colon:
        return element, -1
    if not index.isdigit():
        raise ValueError("Cannot convert %r to a tensor name." % element)
    return name, int(index)


def _mapping(graph, input_map):
    out = []
    for key, value in input_map.items():
        if key.startswith("^"):
            out.append((key[1:], -1, value if isinstance(value, ops.Operation) else value.op))
            continue
        name, index = _named(key)
        if not isinstance(value, ops.Tensor):
            with ops.name_scope("import_inputs"):
                value = convert.convert_to_tensor(value)
        if graph._control_flow_context is not None and value.graph is graph:
            value = graph._control_flow_context.add_value(value)
        if value.graph is not graph:
            raise ValueError("input_map[%r] must belong to the graph that is imported into" % key)
        out.append((name, max(index, 0), value))
    return out


def _check_used(input_map, unused):
    missing = []
    for name, index in unused:
        for key in ("%s:%d" % (name, index), name, "^" + name):
            if key in input_map:
                missing.append(key)
                break
    if missing:
        raise ValueError("Attempted to map inputs that were not found in graph_def: [%s]" % ", ".join(missing))


def _take_part(context, new):
    """Makes the operations part of a branch or loop: those that nothing of it leads to wait for its pivot."""
    for op in new:
        if not op.inputs and not op.control_inputs:
            op._add_control_inputs(context.take_inputs(op.type, [], [])[1])
        op._control_flow_context = context
        context.op_added(op)


def _place(graph, new):
    """Devices of the scopes, as far as the nodes have none; what is colocated goes with the other."""
    for op in new:
        if op.colocation_groups() == [b"loc:@" + op.name.encode()]:
            for d in reversed(graph._device_stack):
                if d is None:
                    break
                graph.set_device(op, device_lib.canonical_name(d(op)))


def _without_unknown_defaults(graph_def, producer_op_list):
    """Attrs that this library does not know go when they have the value that is meant without them anyway."""
    from .. import protos
    theirs = {d.name: d for d in producer_op_list.op}
    copied = None
    for i, node in enumerate(graph_def.node):
        if node.op not in theirs or node.op not in op_defs.op_types().values():
            continue
        known = op_defs.plan(node.op).attrs
        defaults = {a.name: a.default_value for a in theirs[node.op].attr if a.HasField("default_value")}
        gone = [k for k, v in node.attr.items()
                if not k.startswith("_") and k not in known and k in defaults and v == defaults[k]]
        if gone:
            if copied is None:
                copied = protos.GraphDef()
                copied.CopyFrom(graph_def)
            for key in gone:
                del copied.node[i].attr[key]
    return graph_def if copied is None else copied
