"""Operations that write what they are given: tf.Print, tf.print."""

import collections.abc
import sys

from ..framework import convert, dtypes, nest, op_defs, ops

__all__ = ["Print", "print"]


def Print(input_, data, message=None, first_n=None, summarize=None, name=None):  # noqa: N802
    """The input as it is; the data are written to stderr when it is computed."""
    return op_defs.call("Print", name, input=input_, data=data, message=message, first_n=first_n, summarize=summarize)


def print(*inputs, **kwargs):  # noqa: A001
    """An operation that writes the inputs, as Python's print would."""
    output_stream, summarize = kwargs.pop("output_stream", sys.stderr), kwargs.pop("summarize", 3)
    sep, end, name = kwargs.pop("sep", " "), kwargs.pop("end", "\n"), kwargs.pop("name", None)
    if kwargs:
        raise ValueError("Unrecognized keyword arguments for tf.print: %s" % kwargs)
    only = convert.convert_to_tensor(inputs[0]) if len(inputs) == 1 and _is_tensor(inputs[0]) else None
    if only is not None and only.dtype == dtypes.string and only.shape.ndims == 0:
        text = only  # as it is, without quotes
    else:
        hole, template, tensors = _print_template(inputs, sep or "")
        text = op_defs.call("StringFormat", name and name + "_format", inputs=tensors, template=template, placeholder=hole,
                            summarize=-1 if summarize is None else summarize)
    return op_defs.call("PrintV2", name, input=text, output_stream=_stream_name(output_stream), end=end)


def _is_tensor(x):
    return isinstance(x, ops.Tensor) or hasattr(x, "_as_graph_element")


def _print_template(inputs, sep):
    """Returns (the placeholder of a tensor, the text with it, the tensors)."""
    pieces, tensors = [], []  # a piece is a text, or None for a tensor

    def show(v, nested):
        if isinstance(v, collections.abc.Mapping):
            between(("{", "}"), [("%r: " % (k,), v[k]) for k in nest._sorted_keys(v)])
        elif isinstance(v, (list, tuple)):
            between("[]" if isinstance(v, list) else "()", [("", c) for c in v])
        elif nest.is_composite(v):
            parts = v._composite_parts()[0]
            names = ["indices", "values", "shape"] if len(parts) == 3 else ["values", "indices"]
            between(("'%s(" % type(v).__name__, ")'"), [(n + "=", p) for n, p in zip(names, parts)])
        elif _is_tensor(v):
            pieces.append(None)
            tensors.append(convert.convert_to_tensor(v))
        else:
            pieces.append("'%s'" % v if nested and isinstance(v, str) else str(v))

    def between(brackets, members):
        pieces.append(brackets[0])
        for i, (label, member) in enumerate(members):
            pieces.append((", " if i else "") + label)
            show(member, True)
        pieces.append(brackets[1])

    for i, x in enumerate(inputs):
        if i:
            pieces.append(sep)
        show(x, False)
    hole, literal = "{}", "".join("\0" if p is None else p for p in pieces)
    while hole in literal:
        hole = "{%s}" % hole
    return hole, "".join(hole if p is None else p for p in pieces), tensors


def _stream_name(stream):
    if isinstance(stream, str):
        if stream.startswith("file://"):
            return stream
        raise ValueError("A file to print to must be given as \"file://\" and its path, got %r" % stream)
    import logging
    named = {id(sys.stdout): "stdout", id(sys.stderr): "stderr"}
    if id(stream) in named:
        return named[id(stream)]
    for level, function in (("info", logging.info), ("warning", logging.warning), ("error", logging.error)):
        if stream is function:
            return "log(%s)" % level
    name = getattr(stream, "__name__", None)
    if name in ("info", "warn", "warning", "error"):
        return "log(%s)" % ("warning" if name == "warn" else name)
    raise ValueError("Unsupported output stream, logging level, or file %r" % (stream,))


print_v2 = print
