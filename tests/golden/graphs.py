"""tests/golden/graphs.py -- graphs, each with an input and the output that numpy gives for it.

Every function of GRAPHS returns the nodes of a GraphDef, an array to feed to its only Placeholder, and the array that
the last node must give. Channels are where the graph wants them: nothing is transposed.
"""
import math

import numpy as np

from formats import shape, tensor, type_name

# ---- nodes --------------------------------------------------------------------------------------

DTYPES = {np.float32: "DT_FLOAT", np.float64: "DT_DOUBLE", np.int32: "DT_INT32", np.int64: "DT_INT64",
          np.float16: "DT_HALF",
          np.bool_: "DT_BOOL", np.object_: "DT_STRING"}


def attr(v):
    """An AttrValue: of a numpy type a type, of a tuple a shape, of a list a list; dicts are AttrValues already."""
    if isinstance(v, dict):
        return v
    if isinstance(v, type):
        return {"type": DTYPES[v]}
    if isinstance(v, tuple):
        return {"shape": shape(v)}
    if isinstance(v, list):
        kind = "i" if v and isinstance(v[0], int) else "type" if v and isinstance(v[0],
            type) else "f" if v and isinstance(v[0], float) else "s"
        return {"list": {kind: [DTYPES[x] for x in v] if kind == "type" else v} if v else {}}
    return {"b" if isinstance(v, bool) else "i" if isinstance(v, int) else "f" if isinstance(v, float) else "s": v}


def node(name, op, inputs=(), device=None, **attrs):
    n = {"name": name, "op": op}
    if inputs:
        n["input"] = list(inputs)
    if device:
        n["device"] = device
    if attrs:
        n["attr"] = {k: attr(v) for k, v in attrs.items()}
    return n


def const(name, a, how="content", inputs=()):
    a = np.asarray(a)
    return node(name, "Const", inputs, dtype={"type": type_name(a)}, value={"tensor": tensor(a, how)})


def placeholder(name, kind, dims):
    return node(name, "Placeholder", dtype=kind, shape=tuple(dims))


F, D, H, I, L = np.float32, np.float64, np.float16, np.int32, np.int64


def numbers(seed, *dims, kind=F):
    """Sixteenths between -2 and 2: sums and products of a few are exact."""
    return (np.random.RandomState(seed).randint(-32, 33, dims) / 16).astype(kind)


# ---- what numpy lacks ---------------------------------------------------------------------------

def same_padding(size, window, stride):
    out = -(-size // stride)
    total = max((out - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def windows(x, size, strides, padding, fill=0.0, dilations=None):
    """For NHWC or NDHWC: the padded array cut into windows: N, out..., window..., C."""
    spatial = len(size)
    dilations = dilations or [1] * spatial
    reach = [(k - 1) * d + 1 for k, d in zip(size, dilations)]
    pads = [same_padding(x.shape[1 + i], reach[i], strides[i]) if padding == "SAME" else (0, 0) for i in range(spatial)]
    x = np.pad(x.astype(D), [(0, 0)] + pads + [(0, 0)], mode="constant", constant_values=fill)
    out = [(x.shape[1 + i] - reach[i]) // strides[i] + 1 for i in range(spatial)]
    result = np.empty([x.shape[0]] + out + list(size) + [x.shape[-1]])
    for at in np.ndindex(*out):
        where = tuple(slice(a * s, a * s + r, d) for a, s, r, d in zip(at, strides, reach, dilations))
        result[(slice(None),) + at] = x[(slice(None),) + where]
    return result


def conv(x, w, strides, padding, dilations=None):
    k = w.ndim - 2
    win = windows(x, w.shape[:k], strides, padding, dilations=dilations)
    axes = list(range(1 + k, 2 + 2 * k))
    return np.tensordot(win, w.astype(D), (axes, list(range(k + 1))))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ---- the graphs ---------------------------------------------------------------------------------

def dense():
    x, w, b, v = numbers(1, 5, 4), numbers(2, 4, 6), numbers(3, 6), np.full((6, 3), 0.25, F)
    v[0] = [1, 2, 3]
    nodes = [placeholder("x", F, (-1, 4)), const("w", w), const("b", b, "values"), const("v", v, "short"),
             node("product", "MatMul", ["x", "w"], T=F, transpose_a=False, transpose_b=False),
             node("sum", "BiasAdd", ["product", "b"], T=F), node("hidden", "Relu", ["sum"], T=F),
             node("logits", "MatMul", ["hidden", "v"], T=F), node("y", "Softmax", ["logits"], T=F)]
    return nodes, x, softmax(np.maximum(x.astype(D) @ w + b, 0) @ v)


def conv2d_same_stride_2():
    x, w, b = numbers(4, 2, 7, 6, 3), numbers(5, 3, 3, 3, 4), numbers(6, 4)
    nodes = [placeholder("x", F, (2, 7, 6, 3)), const("w", w), const("b", b),
             node("conv", "Conv2D", ["x", "w"], T=F, strides=[1, 2, 2, 1], padding="SAME", data_format="NHWC"),
             node("sum", "BiasAdd", ["conv", "b"], T=F, data_format="NHWC"), node("y", "Relu6", ["sum"], T=F)]
    return nodes, x, np.clip(conv(x, w, (2, 2), "SAME") + b, 0, 6)


def conv2d_dilated():
    x, w = numbers(7, 1, 9, 8, 2), numbers(8, 3, 2, 2, 3)
    nodes = [placeholder("x", F, (-1, -1, -1, 2)), const("w", w),
             node("y", "Conv2D", ["x", "w"], T=F, strides=[1, 1, 1, 1], padding="VALID", dilations=[1, 2, 3, 1])]
    return nodes, x, conv(x, w, (1, 1), "VALID", (2, 3))


def conv2d_and_pool_nchw():
    x, w = numbers(9, 2, 3, 6, 6), numbers(10, 3, 3, 3, 2)
    nodes = [placeholder("x", F, (2, 3, 6, 6)), const("w", w),
             node("conv", "Conv2D", ["x", "w"], T=F, strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW"),
             node("y", "MaxPool", ["conv"], T=F, ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], padding="VALID",
                  data_format="NCHW")]
    y = conv(x.transpose(0, 2, 3, 1), w, (1, 1), "SAME")
    return nodes, x, windows(y, (2, 2), (2, 2), "VALID").max((3, 4)).transpose(0, 3, 1, 2)


def conv3d():
    x, w = numbers(11, 1, 4, 5, 3, 2), numbers(12, 2, 3, 2, 2, 2)
    nodes = [placeholder("x", F, (1, 4, 5, 3, 2)), const("w", w),
             node("y", "Conv3D", ["x", "w"], T=F, strides=[1, 1, 2, 1, 1], padding="SAME")]
    return nodes, x, conv(x, w, (1, 2, 1), "SAME")


def depthwise_conv():
    x, w = numbers(13, 2, 5, 5, 3), numbers(14, 3, 3, 3, 2)
    nodes = [placeholder("x", F, (2, 5, 5, 3)), const("w", w),
             node("y", "DepthwiseConv2dNative", ["x", "w"], T=F, strides=[1, 1, 1, 1], padding="VALID")]
    win = windows(x, (3, 3), (1, 1), "VALID")
    return nodes, x, np.einsum("nhwijc,ijcm->nhwcm", win, w.astype(D)).reshape(2, 3, 3, 6)


def transposed_conv():
    """The gradient of a convolution with respect to its input: each value spreads a kernel."""
    x, w, stride = numbers(15, 1, 3, 4, 2), numbers(16, 3, 3, 4, 2), 2
    nodes = [placeholder("x", F, (1, 3, 4, 2)), const("w", w), const("sizes", np.array([1, 7, 9, 4], I), "values"),
             node("y", "Conv2DBackpropInput", ["sizes", "w", "x"], T=F, strides=[1, 2, 2, 1], padding="VALID")]
    y = np.zeros((1, 7, 9, 4))
    for i, j in np.ndindex(3, 4):
        y[0, i * stride:i * stride + 3, j * stride:j * stride + 3] += w.astype(D) @ x[0, i, j]
    return nodes, x, y


def pools():
    """The average counts no padding."""
    x = numbers(17, 1, 5, 4, 2)
    how = dict(T=F, ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding="SAME")
    nodes = [placeholder("x", F, (1, 5, 4, 2)), node("largest", "MaxPool", ["x"], **how),
             node("average", "AvgPool", ["x"], **how),
             const("axis", np.array(3, I), "values"), node("y", "ConcatV2", ["largest", "average", "axis"], N=2, T=F,
                                                           Tidx=I)]
    win = windows(x, (3, 2), (2, 1), "SAME", fill=np.nan)
    return nodes, x, np.concatenate([np.nanmax(win, (3, 4)), np.nanmean(win, (3, 4))], 3)


def batch_norm():
    x, scale, offset, mean, variance = numbers(18, 2, 3, 2, 4), numbers(19, 4), numbers(20, 4), numbers(21,
        4), numbers(22, 4) ** 2 + 0.5
    nodes = [placeholder("x", F, (2, 3, 2, 4)), const("scale", scale), const("offset", offset), const("mean", mean),
             const("variance", variance.astype(F)),
             node("norm", "FusedBatchNormV3", ["x", "scale", "offset", "mean", "variance"], T=F, U=F, epsilon=0.001,
                  is_training=False,
                  data_format="NHWC"), node("y", "Identity", ["norm"], T=F)]
    return nodes, x, (x - mean.astype(D)) / np.sqrt(variance + 0.001) * scale + offset


def batch_norm_of_small_ops():
    x, scale, mean = numbers(23, 3, 4), numbers(24, 4), numbers(25, 4)
    nodes = [placeholder("x", F, (-1, 4)), const("scale", scale, "values"), const("mean", mean, "values"),
             const("epsilon", np.array(0.001, F), "values"), const("variance", np.full(4, 2, F), "short"),
             node("add", "AddV2", ["variance", "epsilon"], T=F), node("rsqrt", "Rsqrt", ["add"], T=F),
             node("factor", "Mul", ["rsqrt", "scale"], T=F), node("centred", "Sub", ["x", "mean"], T=F),
             node("y", "Mul", ["centred", "factor"], T=F)]
    return nodes, x, (x - mean.astype(D)) * scale / np.sqrt(2.001)


def reductions():
    x = numbers(26, 2, 3, 4)

    def reduce(name, op, axes):
        return node(name, op, ["x", axes], T=F, Tidx=I, keep_dims=True)
    nodes = [placeholder("x", F, (2, 3, 4)), const("inner", np.array([1, 2], I)),
             const("last", np.array(-1, I), "values"),
             reduce("sum", "Sum", "inner"), reduce("mean", "Mean", "last"), reduce("most", "Max", "inner"),
             reduce("least", "Min", "last"),
             reduce("product", "Prod", "last"), node("a", "Add", ["sum", "mean"], T=F),
             node("b", "Maximum", ["most", "least"], T=F),
             node("c", "Add", ["a", "b"], T=F),
             node("y", "Mul", ["c", "product"], T=F)]
    d = x.astype(D)
    y = d.sum((1, 2), keepdims=True) + d.mean(2, keepdims=True)
    y = (y + np.maximum(d.max((1, 2), keepdims=True), d.min(2, keepdims=True))) * d.prod(2, keepdims=True)
    return nodes, x, y


def batch_matmul():
    x, w = numbers(27, 2, 3, 4, 5), numbers(28, 3, 6, 5)
    nodes = [placeholder("x", F, (2, 3, 4, 5)), const("w", w), node("y", "BatchMatMulV2", ["x", "w"], T=F, adj_x=False,
                                                                    adj_y=True)]
    return nodes, x, x.astype(D) @ w.transpose(0, 2, 1)


def strided_slice():
    """x[..., 1:-1:2, newaxis, ::-1][1]"""
    x = numbers(29, 3, 4, 6, 5)
    nodes = [placeholder("x", F, (3, 4, 6, 5)), const("begin", np.array([1, 0, 1, 0, 0], I)),
             const("end", np.array([0, 0, -1, 0, 0], I)),
             const("step", np.array([1, 1, 2, 1, -1], I)),
             node("y", "StridedSlice", ["x", "begin", "end", "step"], T=F, Index=I, begin_mask=16, end_mask=16,
                  ellipsis_mask=2,
                  new_axis_mask=8, shrink_axis_mask=1)]
    return nodes, x, x[1, ..., 1:-1:2, np.newaxis, ::-1]


def pads_and_transposes():
    x = numbers(30, 2, 3, 4)
    nodes = [placeholder("x", F, (2, 3, 4)), const("around", np.array([[0, 1], [2, 0], [1, 1]], I)),
             const("edges", np.array([[0, 0], [1, 1], [2, 0]], I)), const("order", np.array([2, 0, 1], I)),
             const("fill", np.array(7, F), "values"), node("padded", "PadV2", ["x", "around", "fill"], T=F,
                                                           Tpaddings=I),
             node("mirrored", "MirrorPad", ["padded", "edges"], T=F, Tpaddings=I, mode="REFLECT"),
             node("turned", "Transpose", ["mirrored", "order"], T=F, Tperm=I), const("dims", np.array([-1, 7], I)),
             node("y", "Reshape", ["turned", "dims"], T=F, Tshape=I)]
    y = np.pad(x, [(0, 1), (2, 0), (1, 1)], mode="constant", constant_values=7)
    y = np.pad(y, [(0, 0), (1, 1), (2, 0)], mode="reflect")
    return nodes, x, y.transpose(2, 0, 1).reshape(-1, 7)


def half_precision():
    x, b = numbers(31, 4, 4, kind=H), numbers(32, 4, kind=H)
    nodes = [placeholder("x", H, (4, 4)), const("b", b), const("two", np.array(2, H), "values"),
             const("pads", np.array([[1, 0], [0, 1]], I)), node("padded", "Pad", ["x", "pads"], T=H, Tpaddings=I),
             const("more", np.full((5, 1), 0.5, H), "short"), const("axis", np.array(1, I), "values"),
             node("wide", "ConcatV2", ["padded", "more", "axis"], N=2, T=H, Tidx=I),
             node("scaled", "Mul", ["wide", "two"], T=H),
             const("columns", np.concatenate([b, b[:2]])), node("y", "Add", ["scaled", "columns"], T=H)]
    y = np.concatenate([np.pad(x, [(1, 0), (0, 1)], mode="constant"), np.full((5, 1), 0.5, H)], 1)
    return [n for n in nodes if n["name"] != "b"], x, y * H(2) + np.concatenate([b, b[:2]])


def resize(x, height, width):
    """Bilinear, with the centres of pixels at halves."""
    def weights(size, out):
        at = (np.arange(out) + 0.5) * size / out - 0.5
        low = np.clip(np.floor(at).astype(int), 0, size - 1)
        return low, np.minimum(np.ceil(at).astype(int).clip(0), size - 1), np.maximum(at - np.floor(at), 0)
    top, bottom, v = weights(x.shape[1], height)
    left, right, h = weights(x.shape[2], width)
    v, h = v[None, :, None, None], h[None, None, :, None]
    x = x.astype(D)
    upper = x[:, top][:, :, left] * (1 - h) + x[:, top][:, :, right] * h
    lower = x[:, bottom][:, :, left] * (1 - h) + x[:, bottom][:, :, right] * h
    return upper * (1 - v) + lower * v


def resize_bilinear():
    x = numbers(33, 1, 4, 5, 2)
    nodes = [placeholder("x", F, (1, 4, 5, 2)), const("size", np.array([7, 3], I), "values"),
             node("y", "ResizeBilinear", ["x", "size"], T=F, align_corners=False, half_pixel_centers=True)]
    return nodes, x, resize(x, 7, 3)


def resize_nearest():
    x = numbers(34, 1, 3, 2, 2)
    nodes = [placeholder("x", F, (1, 3, 2, 2)), const("size", np.array([6, 4], I), "values"),
             node("y", "ResizeNearestNeighbor", ["x", "size"], T=F)]
    return nodes, x, x.repeat(2, 1).repeat(2, 2)


def lstm():
    """Three steps of a cell with four units, unrolled: the gates are i, j, f, o and the forget gate has a bias of 1."""
    steps, batch, n_in, units = 3, 2, 3, 4
    x, w, b = numbers(35, batch, steps, n_in), numbers(36, n_in + units, 4 * units), numbers(37, 4 * units)
    nodes = [placeholder("x", F, (batch, steps, n_in)), const("w", w), const("b", b),
             const("axis", np.array(1, I), "values"),
             const("forget", np.array(1, F), "values"), const("h0", np.zeros((batch, units), F), "short"),
             const("c0", np.zeros((batch, units), F)), node("steps", "Unpack", ["x"], T=F, num=steps, axis=1)]
    h = c = np.zeros((batch, units))
    last_h, last_c = "h0", "c0"
    for t in range(steps):
        def add(name, op, inputs, **attrs):
            nodes.append(node("s%d/%s" % (t, name), op, ["s%d%s" % (t, i) if i[0] == "/" else i for i in inputs], T=F,
                              **attrs))
        add("joined", "ConcatV2", ["steps:%d" % t if t else "steps", last_h, "axis"], N=2, Tidx=I)
        add("product", "MatMul", ["/joined", "w"])
        add("gates", "BiasAdd", ["/product", "b"])
        nodes.append(node("s%d/split" % t, "Split", ["axis", "s%d/gates" % t], T=F, num_split=4))
        add("kept", "Add", ["/split:2", "forget"])
        for name, op, source in (("i", "Sigmoid", "/split"), ("j", "Tanh", "/split:1"), ("f", "Sigmoid", "/kept"),
                                 ("o", "Sigmoid", "/split:3")):
            add(name, op, [source])
        add("old", "Mul", [last_c, "/f"])
        add("new", "Mul", ["/i", "/j"])
        add("c", "Add", ["/old", "/new"])
        add("shown", "Tanh", ["/c"])
        add("h", "Mul", ["/shown", "/o"])
        last_h, last_c = "s%d/h" % t, "s%d/c" % t
        i, j, f, o = np.split(np.concatenate([x[:, t], h], 1) @ w.astype(D) + b, 4, 1)
        c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
    return nodes, x, h


def embedding():
    x, rows = np.array([[3, 0, 4], [1, 1, 2]], I), numbers(38, 5, 3)
    nodes = [placeholder("x", I, (-1, 3)), const("rows", rows), const("axis", np.array(0, I), "values"),
             node("found", "GatherV2", ["rows", "x", "axis"], Tparams=F, Tindices=I, Taxis=I, batch_dims=0),
             const("depth", np.array(3, I), "values"), const("on", np.array(2, F), "values"),
             const("off", np.array(-1, F), "values"),
             node("marked", "OneHot", ["x", "depth", "on", "off"], T=F, TI=I, axis=-1),
             node("large", "Greater", ["found", "marked"], T=F), node("y", "SelectV2", ["large", "found", "marked"],
                                                                      T=F)]
    marked = np.where(x[..., None] == np.arange(3), 2, -1)
    return nodes, x, np.where(rows[x] > marked, rows[x], marked)


def elementwise():
    x = numbers(39, 3, 5, kind=D)
    chain = ["Exp", "Log1p", "Sqrt", "Tanh", "Erf", "Neg", "Softplus", "Square"]
    nodes, last = [placeholder("x", D, (-1, 5))], "x"
    for op in chain:
        nodes.append(node(op.lower(), op, [last], T=D))
        last = op.lower()
    nodes += [const("floor", np.array(0.3, D), "values"), const("top", np.array(0.45, D), "values"),
              node("least", "Minimum", [last, "top"], T=D), node("y", "Maximum", ["least", "floor"], T=D)]
    y = np.vectorize(math.erf)(np.tanh(np.sqrt(np.log1p(np.exp(x)))))
    return nodes, x, np.clip(np.log1p(np.exp(-y)) ** 2, 0.3, 0.45)


def whole_numbers():
    x = np.array([[9, -7, 4], [1 << 40, 5, -3]], L)
    nodes = [placeholder("x", L, (2, 3)), const("axis", np.array(1, I), "values"),
             const("three", np.array(3, L), "values"),
             node("sums", "Cumsum", ["x", "axis"], T=L, Tidx=I, exclusive=False, reverse=True),
             node("mod", "FloorMod", ["sums", "three"], T=L), node("div", "FloorDiv", ["x", "three"], T=L),
             node("both", "Pack", ["mod", "div"], N=2, T=L, axis=1), node("y", "Cast", ["both"], SrcT=L, DstT=D)]
    sums = x[:, ::-1].cumsum(1)[:, ::-1]
    return nodes, x, np.stack([sums % 3, x // 3], 1).astype(D)


def conditional():
    """Of the first kind: a Switch, two branches, a Merge."""
    x = numbers(40, 2, 3)
    nodes = [placeholder("x", F, (2, 3)), const("all", np.array([0, 1], I)),
             node("total", "Sum", ["x", "all"], T=F, Tidx=I),
             const("zero", np.array(0, F), "values"), node("positive", "Greater", ["total", "zero"], T=F),
             node("branch", "Switch", ["x", "positive"], T=F), node("minus", "Neg", ["branch"], T=F),
             node("twice", "Add", ["branch:1", "branch:1"], T=F), node("merged", "Merge", ["minus", "twice"], N=2, T=F),
             node("y", "Identity", ["merged"], T=F)]
    return nodes, x, x * 2 if x.sum() > 0 else -x


def affine_library():
    """A function of a type, and one that calls it for floats."""
    def arg(name, **of):
        return dict({"name": name}, **of)
    affine = {"signature": {"name": "Affine", "input_arg": [arg("a", type_attr="T"), arg("b", type_attr="T")],
                            "output_arg": [arg("r", type_attr="T")], "attr": [{"name": "T", "type": "type"}]},
              "node_def": [node("p", "Mul", ["a", "a"], T={"placeholder": "T"}),
                           node("s", "AddV2", ["p:z:0", "b"], T={"placeholder": "T"})],
              "ret": {"r": "s:z:0"}}
    twice = {"signature": {"name": "Twice", "input_arg": [arg("u", type="DT_FLOAT")],
                           "output_arg": [arg("v", type="DT_FLOAT")]},
             "node_def": [node("first", "Affine", ["u", "u"], T=F), node("second", "Affine", ["first:r:0", "u"], T=F)],
             "ret": {"v": "second:r:0"}}
    return {"function": [affine, twice]}


def functions():
    """A function that is called as an op and calls another, and one that PartitionedCall names."""
    x = numbers(41, 4)
    nodes = [placeholder("x", F, (4,)), node("op", "Twice", ["x"]),
             node("y", "PartitionedCall", ["op"], Tin=[F], Tout=[F], f={"func": {"name": "Twice"}})]
    y = x.astype(D)
    for _ in range(2):
        y = (y * y + y) ** 2 + y
    return nodes, x, y


GRAPHS = [dense, conv2d_same_stride_2, conv2d_dilated, conv2d_and_pool_nchw, conv3d, depthwise_conv, transposed_conv,
          pools, batch_norm,
          batch_norm_of_small_ops, reductions, batch_matmul, strided_slice, pads_and_transposes, half_precision,
          resize_bilinear,
          resize_nearest, lstm, embedding, elementwise, whole_numbers, conditional, functions]
VERSIONS = {"producer": 134, "min_consumer": 12}


def graph_def(nodes, library=None):
    g = {"node": nodes, "versions": VERSIONS}
    if library:
        g["library"] = library
    return g


def made(make):
    """The GraphDef, the input and the output of one of GRAPHS."""
    nodes, x, y = make()
    kind = y.dtype if make in (half_precision, whole_numbers, elementwise) else F
    return graph_def(nodes, affine_library() if make is functions else None), x, np.ascontiguousarray(y.astype(kind))
