"""Functions for all ops of the library, made from their definitions.

`call("MatMul", name, a=x, b=y, transpose_a=True)` adds a MatMul to the graph of its inputs, converting inputs to tensors and
finding the attrs that follow from their types.  `function("mat_mul")` is that as a Python function with TensorFlow's argument
order: inputs first, then attrs without a default, then the others, then the name.

What a definition asks for is worked out once an op (_Plan), when it is first used.
"""

import collections
import inspect
import keyword
import re

import numpy as np

import _millrace as _core
from . import convert, dtypes, errors, ops, shapes

_plans = {}
_op_defs = {}


# ---- definitions ----

def op_def(op_type, graph=None):
    """The OpDef of a type of operations; functions of a graph are such types too."""
    found = _op_defs.get(op_type)
    if found is None:
        from .. import protos
        g = graph or ops.get_default_graph()
        try:
            found = protos.OpDef.FromString(g.op_def(op_type))
        except errors.NotFoundError as e:
            raise ValueError("There is no op %r." % op_type) from e
        if graph is None or op_type not in graph._functions:
            _op_defs[op_type] = found
    return found


_KINDS = {"string": "s", "int": "i", "float": "f", "bool": "b", "type": "t", "shape": "h", "tensor": "x", "func": "n"}


class _Arg:
    """An input or output: a tensor, so many of one type (number), or a list of any types (types)."""

    __slots__ = ("name", "type", "type_attr", "number_attr", "types_attr", "is_ref")

    def __init__(self, d):
        self.name, self.type, self.is_ref = d.name, d.type, d.is_ref
        self.type_attr, self.number_attr, self.types_attr = d.type_attr, d.number_attr, d.type_list_attr

    @property
    def is_list(self):
        return bool(self.number_attr or self.types_attr)


class _Attr:
    __slots__ = ("name", "kind", "is_list", "has_default", "default", "allowed", "minimum", "inferred")

    def __init__(self, d):
        self.name, self.inferred = d.name, False
        t = d.type
        self.is_list = t.startswith("list(")
        self.kind = _KINDS[t[5:-1] if self.is_list else t]
        self.has_default = d.HasField("default_value")
        self.default = attr_value_to_python(d.default_value) if self.has_default else None
        self.minimum = d.minimum if d.has_minimum else None
        self.allowed = None
        if d.HasField("allowed_values"):
            self.allowed = [int(t) for t in d.allowed_values.list.type] or list(d.allowed_values.list.s)


class _Plan(_core.Plan):
    """How an op is called."""

    def __init__(self, d):
        self.name, self.doc = d.name, d.summary
        self.inputs = [_Arg(a) for a in d.input_arg]
        self.outputs = [_Arg(a) for a in d.output_arg]
        self.attrs = {a.name: _Attr(a) for a in d.attr}
        for a in self.inputs:
            for name in (a.type_attr, a.number_attr, a.types_attr):
                if name:
                    self.attrs[name].inferred = True
        free = [a for a in self.attrs.values() if not a.inferred]
        self.parameters = ([a.name for a in self.inputs] + [a.name for a in free if not a.has_default] +
                           [a.name for a in free if a.has_default])
        self.required = {a.name for a in self.inputs} | {a.name for a in free if not a.has_default}
        self.is_stateful = d.is_stateful
        self.result = None
        if len(self.outputs) > 1:
            self.result = collections.namedtuple(d.name.strip("_") or "Outputs", [_python_name(a.name) for a in self.outputs])
        self._define(d.name, tuple(self.inputs), tuple(self.attrs.values()), tuple(self.outputs), d.is_stateful)


def _python_name(name):
    return name + "_" if keyword.iskeyword(name) else name


def plan(op_type, graph=None):
    found = _plans.get(op_type)
    if found is None:
        found = _Plan(op_def(op_type, graph))
        if op_type in _op_defs:
            _plans[op_type] = found
    return found


# ---- attrs as values of Python ----

def attr_value_to_python(v):
    """The value in an AttrValue message."""
    which = v.WhichOneof("value")
    if which is None:
        return None
    value = getattr(v, which)
    if which == "type":
        return dtypes.as_dtype(value)
    if which == "shape":
        return shapes.TensorShape(value)
    if which != "list":
        return value
    for kind in ("s", "i", "f", "b", "type", "shape", "tensor", "func"):
        items = getattr(value, kind)
        if len(items):
            if kind == "type":
                return [dtypes.as_dtype(t) for t in items]
            if kind == "shape":
                return [shapes.TensorShape(s) for s in items]
            return list(items)
    return []


def attr_to_python(kind, value):
    """What the extension says of an attr, as a value of this package."""
    if kind == "p":
        from .. import protos
        return attr_value_to_python(protos.AttrValue.FromString(value))
    if kind == "t":
        return dtypes.as_dtype(value)
    if kind == "h":
        return shapes.TensorShape(value)
    if kind == "x":
        from . import tensor_util
        return tensor_util.make_tensor_proto(value)
    return value


def _fail(plan_, attr, value, wanted):
    raise TypeError("Expected %s for argument '%s' of '%s' Op, not %r." % (wanted, attr.name, plan_.name, value))


def _text(p, a, v):
    if isinstance(v, str):
        return v.encode()
    return v if isinstance(v, bytes) else _fail(p, a, v, "string")


def _int(p, a, v):
    if isinstance(v, shapes.Dimension):
        v = v.value
    try:
        n = int(v)
    except (TypeError, ValueError):
        _fail(p, a, v, "int")
    if isinstance(v, (float, np.floating)) and n != v or isinstance(v, str):
        _fail(p, a, v, "int")
    return n


def _float(p, a, v):
    if isinstance(v, str):
        _fail(p, a, v, "float")
    try:
        return float(v)
    except (TypeError, ValueError):
        _fail(p, a, v, "float")


def _bool(p, a, v):
    return bool(v) if isinstance(v, (bool, np.bool_, int)) else _fail(p, a, v, "bool")


def _type(p, a, v):
    try:
        return int(dtypes.as_dtype(v).base_dtype)
    except TypeError:
        _fail(p, a, v, "DataType")


def _shape(p, a, v):
    try:
        return shapes.as_shape(v)._tuple()
    except (TypeError, ValueError):
        _fail(p, a, v, "TensorShape")


def _tensor(p, a, v):
    if hasattr(v, "tensor_shape"):  # a TensorProto
        return int(v.dtype), _core.array_from_proto(v.SerializeToString())
    array = np.asarray(v)
    return int(dtypes.as_dtype(array.dtype)), array


def _function_name(p, a, v):
    if hasattr(v, "add_to_graph"):
        v.add_to_graph(ops.get_default_graph())
        return v.name
    return v.encode() if isinstance(v, str) else v


_CODERS = {"s": _text, "i": _int, "f": _float, "b": _bool, "t": _type, "h": _shape, "x": _tensor, "n": _function_name}


def _code(p, a, value):
    """An attr as the extension takes it."""
    if a.kind == "n" and hasattr(value, "SerializeToString") or hasattr(value, "WhichOneof"):
        return a.name, "p", _func_proto(value)
    coder = _CODERS[a.kind]
    if a.is_list:
        if a.kind in "nx":
            return a.name, "p", _list_proto(p, a, value)
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            _fail(p, a, value, "list")
        coded = [coder(p, a, v) for v in value]
        if a.minimum is not None and len(coded) < a.minimum:
            raise ValueError("Attr '%s' of '%s' Op passed list of length %d less than minimum %d." %
                             (a.name, p.name, len(coded), a.minimum))
        return a.name, "[" + a.kind, coded
    coded = coder(p, a, value)
    if a.allowed is not None and coded not in a.allowed:
        shown = ", ".join(dtypes.as_dtype(x).name if a.kind == "t" else '"%s"' % x.decode() for x in sorted(a.allowed))
        what = dtypes.as_dtype(coded).name if a.kind == "t" else '"%s"' % coded.decode()
        if a.kind == "t":
            raise TypeError("Value passed to parameter '%s' has DataType %s not in list of allowed values: %s" %
                            (a.name, what, shown))
        raise ValueError('Attr \'%s\' of \'%s\' Op passed string %s not in: %s.' % (a.name, p.name, what, shown))
    if a.kind == "i" and a.minimum is not None and coded < a.minimum:
        raise ValueError("Attr '%s' of '%s' Op passed %d less than minimum %d." % (a.name, p.name, coded, a.minimum))
    return a.name, a.kind, coded


def _func_proto(value):
    from .. import protos
    if isinstance(value, protos.NameAttrList):
        return protos.AttrValue(func=value).SerializeToString()
    return value.SerializeToString()


def _list_proto(p, a, values):
    from .. import protos
    v = protos.AttrValue()
    v.list.SetInParent()
    for x in values:
        if a.kind == "n":
            v.list.func.add().name = _function_name(p, a, x) if isinstance(x, str) or hasattr(x, "add_to_graph") else x.name
        else:
            v.list.tensor.add().CopyFrom(x)
    return v.SerializeToString()


# ---- inputs ----

def _convert(p, arg, value, dtype, preferred=None):
    as_ref = arg.is_ref
    try:
        t = convert.internal_convert_to_tensor(value, dtype=dtype, name=arg.name, as_ref=as_ref, preferred_dtype=preferred)
    except (TypeError, ValueError) as e:
        if dtype is None:
            raise
        try:
            t = convert.internal_convert_to_tensor(value, name=arg.name, as_ref=as_ref)
        except (TypeError, ValueError):
            raise e from None
        raise TypeError("Input '%s' of '%s' Op has type %s that does not match %s." %
                        (arg.name, p.name, t.dtype.name, _expected(p, arg, dtype))) from None
    return t


def _expected(p, arg, dtype):
    if arg.type_attr:
        for other in p.inputs:
            if other.type_attr == arg.type_attr and other is not arg:
                return "type %s of argument '%s'" % (dtype.name, other.name)
    return "expected type of %s" % dtype.name


def _refuse(p, arg, t, known):
    raise TypeError("Input '%s' of '%s' Op has type %s that does not match %s." %
                    (arg.name, p.name, t.dtype.base_dtype.name, _expected(p, arg, known)))


def _take_list(p, arg, value, types, numbers, wanted):
    """The tensors of an input that is a list."""
    return _take_many(p, arg, value, types, numbers) if arg.number_attr else _take_any(p, arg, value, wanted)


def _take_many(p, arg, value, types, numbers):
    """So many tensors of one type."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") or isinstance(value, ops.Tensor):
        raise TypeError("Expected list for '%s' argument to '%s' Op, not %s." % (arg.name, p.name, value))
    value = list(value)
    known = types.get(arg.type_attr) if arg.type_attr else dtypes.as_dtype(arg.type)
    if known is None:  # the type of what is a tensor already decides over that of numbers beside it
        for v in value:
            if hasattr(v, "dtype") and not isinstance(v, (np.generic, np.ndarray)):
                known = dtypes.as_dtype(v.dtype).base_dtype
                break
    out = []
    for v in value:
        t = _convert(p, arg, v, known)
        known = known or t.dtype.base_dtype
        if t.dtype.base_dtype is not known:
            raise TypeError("Tensors in list passed to '%s' of '%s' Op have types [%s] that don't all match." %
                            (arg.name, p.name, ", ".join(dtypes.as_dtype(getattr(x, "dtype", known)).name for x in value)))
        out.append(t)
    number = p.attrs[arg.number_attr]
    if numbers.get(arg.number_attr, len(out)) != len(out):
        raise ValueError("List argument '%s' to '%s' Op with length %d must match length %d of another argument." %
                         (arg.name, p.name, len(out), numbers[arg.number_attr]))
    if number.minimum is not None and len(out) < number.minimum:
        raise ValueError("List argument '%s' to '%s' Op with length %d shorter than minimum length %d." %
                         (arg.name, p.name, len(out), number.minimum))
    return out


def _take_any(p, arg, value, wanted):
    """Tensors of any types; `wanted` has those that are asked for, or is None."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") or isinstance(value, ops.Tensor):
        raise TypeError("Expected list for '%s' argument to '%s' Op, not %s." % (arg.name, p.name, value))
    return [_convert(p, arg, v, dtypes.as_dtype(wanted[i]) if wanted is not None and i < len(wanted) else None)
            for i, v in enumerate(value)]


# ---- calling ----

# call(op_type, name=None, **given) adds an operation and returns what it makes: a tensor, a list of them, a named tuple, or the
# operation.  add(op_type, name, given) returns the operation itself, and how its op is called.
call, add = _core.call, _core.add


def results(op, p=None):
    """What an operation makes, in the form of its definition."""
    p = p or plan(op.type, op.graph)
    if not p.outputs:
        return op
    if len(p.outputs) == 1:
        return list(op.outputs) if p.outputs[0].is_list else op.outputs[0]
    parts, at = [], 0
    for arg in p.outputs:
        if arg.is_list:
            n = op._output_length(arg.name)
            parts.append(list(op.outputs[at:at + n]))
            at += n
        else:
            parts.append(op.outputs[at])
            at += 1
    return p.result(*parts)


_core.set_helpers(_plans, plan, _convert, _take_list, _refuse, _code, results, dtypes.DType, shapes.TensorShape)


# ---- functions ----

_functions = {}
_names = None


def snake_case(name):
    """TensorFlow's name for the function of an op: MatMul -> mat_mul, Conv2D -> conv2d, FIFOQueueV2 -> fifo_queue_v2."""
    out = []
    for i, c in enumerate(name):
        if c.isupper():
            before = name[i - 1] if i else ""
            after = name[i + 1] if i + 1 < len(name) else ""
            new_word = i and before != "_" and (before.islower() or (before.isdigit() and after.islower()) or
                                                (before.isupper() and after.islower()))
            out.append(("_" if new_word else "") + c.lower())
        else:
            out.append(c)
    return "".join(out)


def op_types():
    """{name of its function: op}"""
    global _names
    if _names is None:
        from .. import protos
        names = {}
        for d in protos.OpList.FromString(_core.all_ops()).op:
            names.setdefault(snake_case(d.name), d.name)
        _names = names  # other threads see it when it is complete
    return _names


def forget_names():
    """After a library of ops was loaded."""
    global _names
    _names = None


def function_for(op_type):
    """The function of an op."""
    f = _functions.get(op_type)
    if f is None:
        f = _functions[op_type] = _make_function(op_type)
    return f


def _make_function(op_type):
    p = plan(op_type)
    parameters, required, most = p.parameters, p.required, len(p.parameters)

    def f(*args, name=None, **given):
        if len(args) > most:
            if len(args) != most + 1 or name is not None:
                raise TypeError("%s() takes at most %d arguments" % (f.__name__, most + 1))
            args, name = args[:-1], args[-1]
        for key, value in zip(parameters, args):
            if key in given:
                raise TypeError("%s() got multiple values for argument %r" % (f.__name__, key))
            given[key] = value
        if not required <= given.keys():
            missing = [k for k in parameters if k in required and k not in given]
            raise TypeError("%s() is missing the arguments: %s" % (f.__name__, ", ".join(missing)))
        return call(op_type, name, **given)

    f.__name__ = f.__qualname__ = snake_case(op_type)
    f.__doc__ = _documentation(p)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    f.__signature__ = inspect.Signature(
        [inspect.Parameter(_python_name(k), kind,
                           default=inspect.Parameter.empty if k in p.required else _shown_default(p.attrs[k]))
         for k in parameters] + [inspect.Parameter("name", kind, default=None)])
    return f


# ---- documentation of functions ----

_KIND_WORDS = {"s": ("a string", "strings"), "i": ("an int", "ints"), "f": ("a float", "floats"),
               "b": ("a bool", "bools"), "t": ("a type", "types"), "h": ("a shape", "shapes"),
               "x": ("a tensor", "tensors"), "n": ("a function", "functions")}


def _documentation(p):
    """The docstring of the function of an op: its summary, then a line for each argument, then the result."""
    lines, explained = [p.doc, "", "Args:"], {}
    for a in p.inputs:
        lines.append("    %s: %s" % (_python_name(a.name), _describe_tensor(p, a, explained)))
    for name in p.parameters[len(p.inputs):]:
        lines.append("    %s: %s" % (_python_name(name), _describe_attr(p.attrs[name])))
    lines += ["    name: the name of the operation", "", "Returns:"]
    if not p.outputs:
        lines.append("    The operation.")
    elif len(p.outputs) == 1:
        text = _describe_tensor(p, p.outputs[0], explained)
        lines.append("    %s%s." % (text[0].upper(), text[1:]))
    else:
        lines.append("    A named tuple:")
        lines += ["    %s: %s" % (_python_name(a.name), _describe_tensor(p, a, explained)) for a in p.outputs]
    return "\n".join(lines) + "\n"


def _describe_tensor(p, arg, explained):
    """An input or output in words.  `explained` has the first argument of each type attr: the others have its type."""
    noun = "a list of tensors" if arg.is_list else "a tensor"
    if arg.types_attr:
        return noun + " of any types"
    if not arg.type_attr:
        return "%s of type %s" % (noun, dtypes.as_dtype(arg.type).base_dtype.name)
    if arg.type_attr in explained:
        return "%s of the type of %s" % (noun, explained[arg.type_attr])
    attr = p.attrs[arg.type_attr]
    if not attr.inferred:
        return "%s of type %s" % (noun, _python_name(attr.name))
    explained[arg.type_attr] = _python_name(arg.name)
    return noun + " of " + (_type_names(attr.allowed) if attr.allowed else "any type")


def _shown_default(a):
    """The default of an attr as a signature shows it: strings are str."""
    if a.kind != "s":
        return a.default
    return [s.decode() for s in a.default] if a.is_list else a.default.decode()


def _describe_attr(a):
    one, many = _KIND_WORDS[a.kind]
    text = "a list of " + many if a.is_list else one
    if a.allowed and a.kind == "t":
        text += ": " + _type_names(a.allowed)
    elif a.allowed:
        text += ": " + _one_of(['"%s"' % s.decode() for s in a.allowed])
    elif a.minimum is not None and not (a.is_list and a.minimum == 0):
        text += (", %d or more" if a.is_list else ", at least %d") % a.minimum
    return text


def _type_names(allowed):
    return _one_of([dtypes.as_dtype(t).name for t in allowed])


def _one_of(words):
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _keywords_only(op_type):
    """The function of an op in tf.raw_ops, by the op's own name: tf.raw_ops.MatMul(a=x, b=y)."""
    f = function_for(op_type)

    def g(*args, **kwargs):
        if args:
            raise TypeError("%s only takes keyword args (possible keys: %s). Please pass these args as kwargs instead." %
                            (op_type, list(f.__signature__.parameters)))
        return f(**kwargs)

    g.__name__ = g.__qualname__ = op_type
    g.__doc__ = f.__doc__
    g.__signature__ = inspect.Signature([k.replace(kind=k.KEYWORD_ONLY) for k in f.__signature__.parameters.values()])
    return g


class _Functions:
    """All ops as functions: raw.mat_mul(a, b), and by keywords alone raw.MatMul(a=x, b=y)."""

    def __getattr__(self, name):
        op_type = op_types().get(name) or op_types().get(re.sub(r"_$", "", name))
        if op_type is None and name[:1].isupper() and name in op_types().values():
            f = _keywords_only(name)
            setattr(self, name, f)
            return f
        if op_type is None:
            raise AttributeError("No op is known for %r" % name)
        f = function_for(op_type)
        setattr(self, name, f)
        return f

    def __dir__(self):
        return sorted(set(op_types()) | {t for t in op_types().values() if t[:1].isupper()})


raw = _Functions()
