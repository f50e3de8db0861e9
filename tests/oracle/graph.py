"""tests/oracle/graph.py -- graphs built and run through the C API by ctypes, for tests against numpy and PyTorch.

    g = Graph()
    x = g.feed(np.float32)
    y = g.op("Softmax", [x])
    g.run([y], {x: array})

The library is the one in MILLRACE_LIB (default build/gcc/lib/libtensorflow.so.2): exactly what a client loads.
"""
import ctypes as c
import os

import numpy as np

lib = c.CDLL(os.environ.get("MILLRACE_LIB", "build/gcc/lib/libtensorflow.so.2"))

# Types that numpy lacks are records of one field: what only moves elements works on them as they are,
# and nothing mistakes them for integers.  Strings are bytes in arrays of objects.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
QUANTIZED = {n: np.dtype([(n, n[1:])]) for n in ("qint8", "quint8", "qint16", "quint16", "qint32")}
STRING = np.dtype(object)
TYPES = {np.dtype(k): v for k, v in {
    np.float32: 1, np.float64: 2, np.int32: 3, np.uint8: 4, np.int16: 5, np.int8: 6, STRING: 7, np.complex64: 8,
    np.int64: 9, np.bool_: 10, QUANTIZED["qint8"]: 11, QUANTIZED["quint8"]: 12, QUANTIZED["qint32"]: 13, BFLOAT16: 14,
    QUANTIZED["qint16"]: 15, QUANTIZED["quint16"]: 16, np.uint16: 17, np.complex128: 18, np.float16: 19, np.uint32: 22,
    np.uint64: 23}.items()}
NUMPY = {v: k for k, v in TYPES.items()}
STRING_BYTES = 24


class Output(c.Structure):
    _fields_ = [("oper", c.c_void_p), ("index", c.c_int)]

    def __getitem__(self, i):
        return Output(self.oper, i)

    def __hash__(self):
        return hash((self.oper, self.index))

    def __eq__(self, other):
        return (self.oper, self.index) == (other.oper, other.index)


class WhileParams(c.Structure):
    _fields_ = [("ninputs", c.c_int), ("cond_graph", c.c_void_p), ("cond_inputs", c.POINTER(Output)),
                ("cond_output", Output), ("body_graph", c.c_void_p), ("body_inputs", c.POINTER(Output)),
                ("body_outputs", c.POINTER(Output)), ("name", c.c_char_p)]


def declare(name, result, *args):
    f = getattr(lib, name)
    f.restype, f.argtypes = result, list(args)


P, I, S = c.c_void_p, c.c_int, c.c_char_p
for row in [("TF_NewStatus", P), ("TF_DeleteStatus", None, P), ("TF_GetCode", I, P), ("TF_Message", S, P), ("TF_NewGraph", P),
            ("TF_NewOperation", P, P, S, S), ("TF_AddInput", None, P, Output), ("TF_AddInputList", None, P, P, I),
            ("TF_AddControlInput", None, P, P), ("TF_SetAttrType", None, P, S, I), ("TF_SetAttrInt", None, P, S, c.c_int64),
            ("TF_SetAttrFloat", None, P, S, c.c_float), ("TF_SetAttrBool", None, P, S, c.c_ubyte),
            ("TF_SetAttrString", None, P, S, P, c.c_size_t), ("TF_SetAttrIntList", None, P, S, P, I), ("TF_SetAttrFloatList", None, P, S, P, I),
            ("TF_SetAttrTensor", None, P, S, P, P), ("TF_SetAttrShape", None, P, S, P, I), ("TF_FinishOperation", P, P, P),
            ("TF_AllocateTensor", P, I, P, I, c.c_size_t), ("TF_TensorData", P, P), ("TF_TensorByteSize", c.c_size_t, P),
            ("TF_NumDims", I, P), ("TF_Dim", c.c_int64, P, I), ("TF_TensorType", I, P), ("TF_DeleteTensor", None, P),
            ("TF_OperationNumOutputs", I, P), ("TF_NewSessionOptions", P), ("TF_NewSession", P, P, P, P),
            ("TF_SessionRun", None, P, P, P, P, I, P, P, I, P, I, P, P),
            ("TF_AddGradients", None, P, P, I, P, I, P, P, P), ("TF_NewWhile", WhileParams, P, P, I, P),
            ("TF_FinishWhile", None, P, P, P), ("TF_SetAttrTypeList", None, P, S, P, I), ("TF_DeleteGraph", None, P),
            ("TF_SetAttrShapeList", None, P, S, P, P, I), ("TF_SetAttrFloatList", None, P, S, P, I),
            ("TF_CloseSession", None, P, P), ("TF_DeleteSession", None, P, P), ("TF_DeleteSessionOptions", None, P),
            ("TF_GraphGetTensorNumDims", I, P, Output, P), ("TF_GraphGetTensorShape", None, P, Output, P, I, P),
            ("TF_StringInit", None, P), ("TF_StringCopy", None, P, S, c.c_size_t), ("TF_StringGetSize", c.c_size_t, P),
            ("TF_StringGetDataPointer", P, P), ("TF_SetAttrFuncName", None, P, S, S, c.c_size_t),
            ("TF_GraphToFunction", P, P, S, c.c_ubyte, I, P, I, P, I, P, P, P, S, P), ("TF_DeleteFunction", None, P),
            ("TF_GraphCopyFunction", None, P, P, P, P)]:
    declare(*row)


class Failure(Exception):
    pass


STATUS = lib.TF_NewStatus()


def check():
    if lib.TF_GetCode(STATUS):
        raise Failure(lib.TF_Message(STATUS).decode())


def tensor_of(a):
    a = np.asarray(a, order="C")
    dims = (c.c_int64 * a.ndim)(*a.shape)
    if a.dtype == STRING:
        t = lib.TF_AllocateTensor(TYPES[STRING], dims, a.ndim, a.size * STRING_BYTES)
        for i, s in enumerate(a.ravel()):
            at = lib.TF_TensorData(t) + i * STRING_BYTES
            lib.TF_StringInit(at)
            lib.TF_StringCopy(at, s, len(s))
        return t
    t = lib.TF_AllocateTensor(TYPES[a.dtype], dims, a.ndim, a.nbytes)
    c.memmove(lib.TF_TensorData(t), a.ctypes.data, a.nbytes)
    return t


def array_of(t):
    shape = [lib.TF_Dim(t, i) for i in range(lib.TF_NumDims(t))]
    a = np.empty(shape, NUMPY[lib.TF_TensorType(t)])
    if a.dtype == STRING:
        ats = [lib.TF_TensorData(t) + i * STRING_BYTES for i in range(a.size)]
        a.reshape(-1)[:] = [c.string_at(lib.TF_StringGetDataPointer(p), lib.TF_StringGetSize(p)) for p in ats]
    else:
        c.memmove(a.ctypes.data, lib.TF_TensorData(t), a.nbytes)
    lib.TF_DeleteTensor(t)
    return a


class Type(int):
    """An attr that is a type, by its numpy type."""

    def __new__(cls, t):
        return int.__new__(cls, TYPES[np.dtype(t)])


class Func(str):
    """An attr that is a function, by its name."""


class Graph:
    def __init__(self, handle=None):
        self.handle, self.n, self.session = handle or lib.TF_NewGraph(), 0, None

    def op(self, op, inputs, controls=(), **attrs):
        """Output 0 of a new operation; a list among the inputs is a list argument."""
        self.n += 1
        d = lib.TF_NewOperation(self.handle, op.encode(), f"{op}_{self.n}".encode())
        for i in inputs:
            if isinstance(i, (list, tuple)):
                lib.TF_AddInputList(d, (Output * len(i))(*i), len(i))
            else:
                lib.TF_AddInput(d, i if isinstance(i, Output) else self.const(i))
        for o in controls:
            lib.TF_AddControlInput(d, o.oper)
        for k, v in attrs.items():
            k = k.encode()
            if isinstance(v, Type):
                lib.TF_SetAttrType(d, k, v)
            elif isinstance(v, Func):
                lib.TF_SetAttrFuncName(d, k, v.encode(), len(v))
            elif isinstance(v, bool):
                lib.TF_SetAttrBool(d, k, v)
            elif isinstance(v, int):
                lib.TF_SetAttrInt(d, k, v)
            elif isinstance(v, float):
                lib.TF_SetAttrFloat(d, k, v)
            elif isinstance(v, str):
                lib.TF_SetAttrString(d, k, v.encode(), len(v))
            elif isinstance(v, np.ndarray):
                t = tensor_of(v)
                lib.TF_SetAttrTensor(d, k, t, STATUS)
                lib.TF_DeleteTensor(t)
                check()
            elif isinstance(v, tuple):  # a shape
                lib.TF_SetAttrShape(d, k, (c.c_int64 * len(v))(*v), len(v))
            elif v is None:  # a shape of unknown rank
                lib.TF_SetAttrShape(d, k, None, -1)
            elif v and isinstance(v[0], Type):
                lib.TF_SetAttrTypeList(d, k, (c.c_int * len(v))(*v), len(v))
            elif v and isinstance(v[0], float):
                lib.TF_SetAttrFloatList(d, k, (c.c_float * len(v))(*v), len(v))
            elif v and isinstance(v[0], bytes):
                lib.TF_SetAttrStringList(d, k, (P * len(v))(*[c.cast(c.c_char_p(x), P) for x in v]), (c.c_size_t * len(v))(
                    *[len(x) for x in v]), len(v))
            elif v and (v[0] is None or isinstance(v[0], tuple)):
                dims = [(c.c_int64 * max(1, len(x or ())))(*(x or ())) for x in v]
                lib.TF_SetAttrShapeList(d, k, (P * len(v))(*[c.cast(x, P) for x in dims]), (c.c_int * len(v))(
                    *[-1 if x is None else len(x) for x in v]), len(v))
            elif v and isinstance(v[0], float):
                lib.TF_SetAttrFloatList(d, k, (c.c_float * len(v))(*v), len(v))
            else:
                lib.TF_SetAttrIntList(d, k, (c.c_int64 * len(v))(*v), len(v))
        o = lib.TF_FinishOperation(d, STATUS)
        check()
        return Output(o, 0)

    def const(self, value):
        value = np.asarray(value)
        return self.op("Const", [], dtype=Type(value.dtype), value=value)

    def feed(self, dtype, shape=None):
        return self.op("Placeholder", [], dtype=Type(dtype), shape=shape)

    def static_shape(self, output):
        """What shape inference knows: None, or a list with -1 for unknown sizes."""
        n = lib.TF_GraphGetTensorNumDims(self.handle, output, STATUS)
        check()
        dims = (c.c_int64 * max(n, 1))()
        if n > 0:
            lib.TF_GraphGetTensorShape(self.handle, output, dims, n, STATUS)
            check()
        return None if n < 0 else list(dims)[:n]

    def close(self):
        if self.session:
            lib.TF_CloseSession(self.session, STATUS)
            lib.TF_DeleteSession(self.session, STATUS)
        lib.TF_DeleteGraph(self.handle)

    def gradients(self, ys, xs, dys=None):
        out = (Output * len(xs))()
        lib.TF_AddGradients(self.handle, (Output * len(ys))(*ys), len(ys), (Output * len(xs))(*xs), len(xs),
                            (Output * len(ys))(*dys) if dys else None, STATUS, out)
        check()
        return [Output(o.oper, o.index) for o in out]

    def while_loop(self, inputs, cond, body, name="while"):
        """cond and body get (graph, outputs) and give an output, and as many outputs."""
        kept = (Output * len(inputs))(*inputs)
        p = lib.TF_NewWhile(self.handle, kept, len(inputs), STATUS)
        check()
        p.cond_output = cond(Graph(p.cond_graph), [p.cond_inputs[i] for i in range(len(inputs))])
        for i, o in enumerate(body(Graph(p.body_graph), [p.body_inputs[i] for i in range(len(inputs))])):
            p.body_outputs[i] = o
        p.name = name.encode()
        out = (Output * len(inputs))()
        lib.TF_FinishWhile(c.byref(p), STATUS, out)
        check()
        return [Output(o.oper, o.index) for o in out]

    def function(self, types, body):
        """A new function of arguments of these types; body gets (graph, arguments) and gives its results."""
        self.n += 1
        inner, name = Graph(), f"Function_{self.n}"
        args = [inner.op("Placeholder", [], dtype=t) for t in types]
        results = body(inner, args)
        f = lib.TF_GraphToFunction(inner.handle, name.encode(), 0, -1, None, len(args), (Output * len(args))(*args), len(results),
                                   (Output * len(results))(*results), None, None, None, STATUS)
        check()
        lib.TF_GraphCopyFunction(self.handle, f, None, STATUS)
        check()
        lib.TF_DeleteFunction(f)
        inner.close()
        return Func(name)

    def run(self, fetches, feeds=None, targets=()):
        if not self.session:
            options = lib.TF_NewSessionOptions()
            self.session = lib.TF_NewSession(self.handle, options, STATUS)
            lib.TF_DeleteSessionOptions(options)
            check()
        feeds = feeds or {}
        ins = (Output * len(feeds))(*feeds.keys())
        values = (P * len(feeds))(*[tensor_of(v) for v in feeds.values()])
        outs, results = (Output * len(fetches))(*fetches), (P * len(fetches))()
        opers = (P * len(targets))(*[t.oper for t in targets])
        lib.TF_SessionRun(self.session, None, ins, values, len(feeds), outs, results, len(fetches), opers, len(targets), None,
                          STATUS)
        for v in values:
            lib.TF_DeleteTensor(v)
        check()
        return [array_of(r) for r in results]
