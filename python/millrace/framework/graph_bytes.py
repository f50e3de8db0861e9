"""GraphDefs as bytes.  A graph of a real model has thousands of nodes; what is only to be written need not become messages."""

from ..proto.wire import BYTES, VARINT, read_varint, tag, varint

_NODE = tag(1, BYTES)
_SIZE, _DIM, _UNKNOWN_RANK = tag(1, VARINT), tag(2, BYTES), tag(3, VARINT) + varint(1)
_UNKNOWN_DIM = b"\xff" * 9 + b"\x01"  # -1


def _part(key, data):
    return key + varint(len(data)) + data


def _shape(dims):
    """A TensorShapeProto."""
    if dims is None:
        return _UNKNOWN_RANK
    return b"".join(_part(_DIM, _SIZE + (_UNKNOWN_DIM if d is None else varint(d)) if d != 0 else b"") for d in dims)


def _attr(shapes):
    """The entry of NodeDef.attr for _output_shapes."""
    members = b"".join(_part(tag(7, BYTES), _shape(dims)) for dims in shapes)
    value = _part(tag(1, BYTES), members)
    return _part(tag(5, BYTES), _part(tag(1, BYTES), b"_output_shapes") + _part(tag(2, BYTES), value))


def _fields(data):
    """(tag, bytes of the whole field, where its content begins in it) of a message whose fields are messages or small
    numbers."""
    i, n = 0, len(data)
    while i < n:
        start = i
        key, i = read_varint(data, i)
        size, i = read_varint(data, i)
        begin = i - start
        if key & 7 == BYTES:
            i += size
        yield key, data[start:i], begin


def _text(node, at, key):
    """(a string field at a place, the place behind it); None when another field is there."""
    if at >= len(node) or node[at] != key:
        return None, at
    length, at = read_varint(node, at + 1)
    return node[at:at + length].decode(), at + length


_NAME, _OP = 0x0a, 0x12  # tags of NodeDef, which come first and in this order


def node_ops(graph_def):
    """The ops that the nodes of a GraphDef are of."""
    found = set()
    for key, field, begin in _fields(graph_def):
        if key >> 3 == 1:
            _, at = _text(field, begin, _NAME)
            op, _ = _text(field, at, _OP)
            if op is None:  # in another order, which is allowed
                from ..protos import NodeDef
                op = NodeDef.FromString(field[begin:]).op
            found.add(op)
    return found


def with_shapes(graph_def, shapes_of):
    """The bytes of a GraphDef with _output_shapes in its nodes.  shapes_of(name): the dims of a node's outputs."""
    out, known = [], {}
    for key, field, begin in _fields(graph_def):
        shapes = shapes_of(_text(field, begin, _NAME)[0]) if key >> 3 == 1 else ()
        if not shapes:
            out.append(field)
            continue
        extra = known.get(shapes)
        if extra is None:
            extra = known[shapes] = _attr(shapes)
        out += (_NODE, varint(len(field) - begin + len(extra)), field[begin:], extra)
    return b"".join(out)
