#!/usr/bin/env python3
"""tests/golden/make.py -- writes the golden files of our own making, or checks that they are what this script writes.

    tests/golden/make.py           write them all, beside this script
    tests/golden/make.py --check   compare; exit 1 and name each file that differs

It needs Python 3 and numpy, neither TensorFlow nor Millrace. README.md says what each file is.
"""
import gzip
import io
import os
import struct
import sys
import zlib

import numpy as np

from formats import bundle, encode, record, shape, text, v1
from graphs import F, GRAPHS, I, VERSIONS, affine_library, const, graph_def, made, node, placeholder

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = {}  # path -> bytes


def pattern(kind, *dims):
    """Element k is 3 k mod 7; a string is "s" and that many letters x. The tests know this rule."""
    n = np.arange(int(np.prod(dims))) * 3 % 7
    if kind is np.object_:
        out = np.empty(len(n), np.object_)
        out[:] = [b"s" + b"x" * int(k) for k in n]
        return out.reshape(dims)
    return n.astype(kind).reshape(dims)


# ---- graphs -------------------------------------------------------------------------------------

def npy(a):
    out = io.BytesIO()
    np.lib.format.write_array(out, a, version=(1, 0))
    return out.getvalue()


def make_graphs():
    for make in GRAPHS:
        g, x, y = made(make)
        FILES["graphs/%s_net.pb" % make.__name__] = encode("GraphDef", g)
        FILES["graphs/%s_in.npy" % make.__name__] = npy(x)
        FILES["graphs/%s_out.npy" % make.__name__] = npy(y)


def scalar(name, v, inputs=()):
    return const(name, np.array(v, I), "values", inputs)


def loop(prefix, start, x, limit, body):
    """Nodes of a loop over a counter and a tensor. body(name of x, control input) gives its nodes and the name of the
    next x."""
    def of(name):
        return prefix + "/" + name
    enter = dict(frame_name=prefix + "/frame", is_constant=False, parallel_iterations=10)
    inner, new_x = body(of("Identity_1"), ["^" + of("Identity")])
    return [
        node(of("Enter"), "Enter", [start], T=I, **enter), node(of("Enter_1"), "Enter", [x], T=F, **enter),
        node(of("Merge"), "Merge", [of("Enter"), of("NextIteration")], N=2, T=I),
        node(of("Merge_1"), "Merge", [of("Enter_1"), of("NextIteration_1")], N=2, T=F),
        scalar(of("limit"), limit, ["^" + of("Merge")]), node(of("Less"), "Less", [of("Merge"), of("limit")], T=I),
        node(of("LoopCond"), "LoopCond", [of("Less")]),
        node(of("Switch"), "Switch", [of("Merge"), of("LoopCond")], T=I, _class=["loc:@" + of("Merge")]),
        node(of("Switch_1"), "Switch", [of("Merge_1"), of("LoopCond")], T=F, _class=["loc:@" + of("Merge_1")]),
        node(of("Identity"), "Identity", [of("Switch") + ":1"], T=I),
        node(of("Identity_1"), "Identity", [of("Switch_1") + ":1"], T=F),
        scalar(of("one"), 1, ["^" + of("Identity")]), node(of("next"), "Add", [of("Identity"), of("one")],
                                                           T=I)] + inner + [
        node(of("NextIteration"), "NextIteration", [of("next")], T=I),
        node(of("NextIteration_1"), "NextIteration", [new_x], T=F),
        node(of("Exit"), "Exit", [of("Switch")], T=I), node(of("Exit_1"), "Exit", [of("Switch_1")], T=F)]


def doubled(name):
    """A body that appends a tensor to itself."""
    def body(x, control):
        return [scalar(name + "/axis", 0, control), node(name, "ConcatV2", [x, x, name + "/axis"], N=2, T=F,
                                                         Tidx=I)], name
    return body


def inner_loop(x, control):
    nodes = loop("while/inner", "while/start", x, 2, doubled("while/inner/double"))
    return [scalar("while/start", 0, control)] + nodes, "while/inner/Exit_1"


def queue_graph():
    queue = dict(component_types=[F, I], shapes={"list": {"shape": [shape((2,)), {}]}}, capacity=4, container="",
                 shared_name="pairs")
    return graph_def([
        placeholder("x", F, (2,)), scalar("n", 5), node("queue", "FIFOQueueV2",
                                                        device="/job:worker/task:0/device:CPU:0", **queue),
        node("put", "QueueEnqueueV2", ["queue", "x", "n"], Tcomponents=[F, I], timeout_ms=-1),
        node("get", "QueueDequeueV2", ["queue", "^put"], component_types=[F, I], timeout_ms=-1),
        node("size", "QueueSizeV2", ["queue", "^get"]), node("close", "QueueCloseV2", ["queue"],
                                                             cancel_pending_enqueues=True),
        node("scale", "Mul", ["get", "get"], T=F),
        node("quoted", "Const", dtype=np.object_, value={"tensor": {"dtype": "DT_STRING", "tensor_shape": shape((2,)),
                                                                   "string_val": [b"a\"b\\'c\n\t\xff\0", b""]}}),
        node("small", "Const", dtype=F, value={"tensor": {"dtype": "DT_FLOAT", "tensor_shape": shape((4,)),
                                                         "float_val": [0.1, -1e-20, 16777216.0, 3.0]}})])


def make_texts():
    start = [scalar("start", 0), placeholder("ones", F, (-1, 2))]
    texts = {"while_loop": graph_def(start + loop("while", "start", "ones", 10, doubled("while/double"))),
             "nested_loop": graph_def(start + loop("while", "start", "ones", 3, inner_loop)), "queues": queue_graph(),
             "functions": graph_def([placeholder("x", F, (3,)), node("y", "Twice", ["x"])], affine_library())}
    for name, g in texts.items():
        FILES["pbtxt/%s.pbtxt" % name] = text("GraphDef", g).encode()


# ---- checkpoints --------------------------------------------------------------------------------

KINDS = [np.float32, np.float64, np.int32, np.uint8, np.int16, np.int8, np.object_, np.complex64, np.int64, np.bool_,
         np.uint16,
         np.complex128, np.float16]
WHOLE = [(0, -1)]


def add_bundle(path, tensors, **how):
    index, data = bundle(tensors, **how)
    FILES[path + ".index"] = index
    for i, d in enumerate(data):
        FILES["%s.data-%05d-of-%05d" % (path, i, len(data))] = d


def make_checkpoints():
    every = [("string" if k is np.object_ else np.dtype(k).name, pattern(k, 3, 5)) for k in KINDS] + [("scalar",
        pattern(F)), ("empty", pattern(F, 0, 4)),
                                                                   ("text/scalar", pattern(np.object_))]
    add_bundle("checkpoint/types/model", every)
    layers = [("layer_%02d/%s" % (i, name), pattern(F, *dims)) for i in range(20) for name,
              dims in (("bias", (3,)), ("kernel", (2, 3)))]
    rows = [[(0, 4), (0, -1)], [(4, 70), (0, -1)], [(74, 26), (0, -1)]]
    sliced = [("embedding", pattern(F, 100, 3), rows), ("ids", pattern(np.int64, 10), [[(0, 5)], [(5, 5)]])]
    add_bundle("checkpoint/sharded/model", layers + sliced, shards=2, compress=True, per_block=7)

    whole = [(name, a, [WHOLE * a.ndim]) for name, a in every if a.size]
    FILES["checkpoint/first_format/model.ckpt"] = v1(whole)
    parts = [(name, a, s) for name, a, s in sliced]
    FILES["checkpoint/first_format/parts.ckpt-00000-of-00002"] = v1([(n, a, s[:1]) for n, a, s in parts], compress=True)
    FILES["checkpoint/first_format/parts.ckpt-00001-of-00002"] = v1([(n, a, s[1:]) for n, a, s in parts], compress=True)


def saver_nodes(names, kind=F):
    """Nodes that save and restore variables of the first kind."""
    n = len(names)

    def strings(name, v):
        a = np.empty(len(v), np.object_)
        a[:] = [s.encode() for s in v]
        return const(name, a)
    nodes = [node("save/Const", "Const", dtype=np.object_, value={"tensor": {"dtype": "DT_STRING", "tensor_shape": {},
                                                                            "string_val": [b"model"]}}),
             strings("save/names", names), strings("save/slices", [""] * n),
             node("save/SaveV2", "SaveV2", ["save/Const", "save/names", "save/slices"] + names, dtypes=[kind] * n),
             node("save/control_dependency", "Identity", ["save/Const", "^save/SaveV2"], T=np.object_),
             node("save/RestoreV2", "RestoreV2", ["save/Const", "save/names", "save/slices"], dtypes=[kind] * n)]
    assigns = [node("save/Assign_%d" % i, "Assign", [v, "save/RestoreV2" + (":%d" % i if i else "")], T=kind,
                    use_locking=True,
                    validate_shape=True, _class=["loc:@" + v]) for i, v in enumerate(names)]
    return nodes + assigns + [node("save/restore_all", "NoOp", ["^" + a["name"] for a in assigns])]


SAVER = {"filename_tensor_name": "save/Const:0", "save_tensor_name": "save/control_dependency:0",
         "restore_op_name": "save/restore_all",
         "max_to_keep": 5, "keep_checkpoint_every_n_hours": 10000.0, "version": 2}


def variable(name, value):
    a = np.asarray(value, F)
    return [const(name + "/initial_value", a, "values"),
            node(name, "VariableV2", dtype=F, shape=a.shape, container="", shared_name=""),
            node(name + "/Assign", "Assign", [name, name + "/initial_value"], T=F, use_locking=True,
                 validate_shape=True,
                 _class=["loc:@" + name]), node(name + "/read", "Identity", [name], T=F, _class=["loc:@" + name])]


def variable_def(name):
    return encode("VariableDef",
                  {"variable_name": name + ":0", "initializer_name": name + "/Assign",
                   "snapshot_name": name + "/read:0"})


def make_trained_model():
    """A linear model with a saver, after training: its graph, its meta graph and its checkpoint."""
    w, b = np.array([[0.5], [-1.25]], F), np.array([3.0], F)
    nodes = [placeholder("x", F, (-1, 2))] + variable("weights", np.zeros((2, 1))) + variable("bias", np.zeros(1)) + [
        node("product", "MatMul", ["x", "weights/read"], T=F), node("output", "Add", ["product", "bias/read"], T=F),
        node("init", "NoOp", ["^weights/Assign", "^bias/Assign"])] + saver_nodes(["weights", "bias"])
    g = graph_def(nodes)
    variables = {"bytes_list": {"value": [variable_def("weights"), variable_def("bias")]}}
    meta = {"meta_info_def": {"tags": [], "tensorflow_version": "1.15.0"}, "graph_def": g, "saver_def": SAVER,
            "collection_def": {"trainable_variables": variables, "variables": variables,
                               "train_op": {"node_list": {"value": ["init"]}},
                               "rates": {"float_list": {"value": [0.5, 0.25]}},
                               "steps": {"int64_list": {"value": [1, -2]}}}}
    folder = "checkpoint/trained/"
    FILES[folder + "graph.pb"] = encode("GraphDef", g)
    FILES[folder + "graph.pbtxt"] = text("GraphDef", g).encode()
    FILES[folder + "model.meta"] = encode("MetaGraphDef", meta)
    FILES[folder + "checkpoint"] = b'model_checkpoint_path: "model"\nall_model_checkpoint_paths: "model"\n'
    add_bundle(folder + "model", [("weights", w), ("bias", b)])


# ---- SavedModels --------------------------------------------------------------------------------

def add_model(path, meta):
    FILES[path + "/saved_model.pb"] = encode("SavedModel", {"saved_model_schema_version": 1, "meta_graphs": [meta]})


def info(name, kind, dims):
    return {"name": name, "dtype": kind, "tensor_shape": shape(dims)}


def signature(inputs, outputs, method):
    return {"inputs": inputs, "outputs": outputs, "method_name": method}


def make_half_plus_two():
    """y = x / 2 + 2 with variables of the first kind, for numbers and for serialized Examples."""
    empty = np.empty(0, np.object_)
    key = np.array([b"x"], np.object_)
    nodes = variable("a", 0.0) + variable("b", 0.0) + [
        placeholder("tf_example", np.object_, (-1,)), const("names", empty), const("keys", key),
        const("default", np.zeros(1, F)),
        node("parse", "ParseExample", ["tf_example", "names", "keys", "default"], Nsparse=0, Ndense=1,
             sparse_types={"list": {}},
             Tdense=[F], dense_shapes={"list": {"shape": [shape((1,))]}}),
        node("x", "Identity", ["parse"], T=F), node("scaled", "Mul", ["x", "a/read"], T=F),
        node("y", "Add", ["scaled", "b/read"], T=F),
        node("asset_path",
             "Const",
             dtype=np.object_,
             value={"tensor": {"dtype": "DT_STRING", "tensor_shape": {}, "string_val": [b"note.txt"]}}),
        node("main_op", "NoOp")] + saver_nodes(["a", "b"])
    x, y, examples = info("x:0", "DT_FLOAT", (-1, 1)), info("y:0", "DT_FLOAT", (-1, 1)), info("tf_example:0",
        "DT_STRING", (-1,))
    meta = {"meta_info_def": {"tags": ["serve"], "tensorflow_version": "1.15.0"}, "graph_def": graph_def(nodes),
            "saver_def": SAVER,
            "collection_def": {"saved_model_main_op": {"node_list": {"value": ["main_op"]}}},
            "signature_def": {"serving_default": signature({"x": x}, {"y": y}, "tensorflow/serving/predict"),
                              "regress_x_to_y": signature({"inputs": examples}, {"outputs": y},
                                                          "tensorflow/serving/regress")},
            "asset_file_def": [{"tensor_info": info("asset_path:0", "DT_STRING", ()), "filename": "note.txt"}]}
    add_model("saved_model/half_plus_two/00000001", meta)
    FILES["saved_model/half_plus_two/00000001/assets/note.txt"] = b"an asset\n"
    add_bundle("saved_model/half_plus_two/00000001/variables/variables",
               [("a", np.array(0.5, F)), ("b", np.array(2, F))])


def function(name, inputs, outputs, nodes, ret, stateful=False):
    sig = {"name": name, "input_arg": [{"name": n, "type": t} for n, t in inputs],
           "output_arg": [{"name": n, "type": t} for n, t in outputs]}
    if stateful:
        sig["is_stateful"] = True
    return {"signature": sig, "node_def": nodes, "ret": ret}


def make_while_model():
    """value + (value - 1) + ... while it is above 0, by a StatelessWhile in a function."""
    f = "DT_FLOAT"

    def zero(name, v):
        return const(name, np.array(v, F), "values")
    cond = function("loop_cond", [("value", f), ("sum", f)], [("more", "DT_BOOL")],
                    [zero("zero", 0), node("above", "Greater", ["value", "zero:output:0"], T=F)], {"more": "above:z:0"})
    body = function("loop_body", [("value", f), ("sum", f)], [("less", f), ("total", f)],
                    [zero("one", 1), node("minus", "Sub", ["value", "one:output:0"], T=F),
                     node("plus", "AddV2", ["sum", "value"], T=F)],
                    {"less": "minus:z:0", "total": "plus:z:0"})
    compute = function("compute", [("value", f)], [("result", f)], [
        zero("start", 0), node("while", "StatelessWhile", ["value", "start:output:0"], T=[F, F],
                               cond={"func": {"name": "loop_cond"}},
                               body={"func": {"name": "loop_body"}}, output_shapes={"list": {"shape": [{}, {}]}},
                               parallel_iterations=10)],
        {"result": "while:output:1"})
    nodes = [placeholder("serving_default_value", F, ()),
             node("PartitionedCall", "PartitionedCall", ["serving_default_value"], Tin=[F], Tout=[F],
                  f={"func": {"name": "compute"}})]
    add_model("saved_model/while_loop", {
        "meta_info_def": {"tags": ["serve"], "tensorflow_version": "2.9.0", "stripped_default_attrs": True},
        "graph_def": graph_def(nodes, {"function": [compute, cond, body]}),
        "signature_def": {"serving_default": signature({"value": info("serving_default_value:0", f, ())},
                                                       {"result": info("PartitionedCall:0", f, ())},
                                                       "tensorflow/serving/predict")}})


def make_object_model():
    """(a + x) * (b + y) / z in resource variables, with an object graph; functions compute and restore."""
    f, names = "DT_FLOAT", ["x", "y", "z"]
    keys = np.array([("%s/.ATTRIBUTES/VARIABLE_VALUE" % n).encode() for n in names], np.object_)

    def handle(n):
        return node(n, "VarHandleOp", dtype=F, shape=(), container="", shared_name=n, _class=["loc:@" + n])

    def read(n):
        return node("read_" + n, "ReadVariableOp", ["v" + n], dtype=F)
    resources = [("v" + n, "DT_RESOURCE") for n in names]
    call = function("call", [("a", f), ("b", f)] + resources, [("result", f)], [read(n) for n in names] + [
        node("left", "AddV2", ["a", "read_x:value:0"], T=F), node("right", "AddV2", ["b", "read_y:value:0"], T=F),
        node("product", "Mul", ["left:z:0", "right:z:0"], T=F), node("result", "RealDiv",
                                                                     ["product:z:0", "read_z:value:0"], T=F)],
        {"result": "result:z:0"}, stateful=True)
    blank = np.array([b""] * 3, np.object_)
    assigns = [node("set_" + n, "AssignVariableOp", ["v" + n, "values:tensors:%d" % i], dtype=F) for i,
               n in enumerate(names)]
    restore = function("restore", [("prefix", "DT_STRING")] + resources, [("out", "DT_STRING")], [
        const("keys", keys), const("slices", blank),
        node("values", "RestoreV2", ["prefix", "keys:output:0", "slices:output:0"], dtypes=[F] * 3)] + assigns +
        [node("out", "Identity", ["prefix"] + ["^set_" + n for n in names], T=np.object_)], {"out": "out:output:0"},
        stateful=True)
    args = {"Tin": {"list": {"type": [f, f] + ["DT_RESOURCE"] * 3}}, "Tout": [F], "f": {"func": {"name": "call"}}}
    back = {"Tin": {"list": {"type": ["DT_STRING"] + ["DT_RESOURCE"] * 3}}, "Tout": [np.object_],
            "f": {"func": {"name": "restore"}}}
    nodes = [handle(n) for n in names] + [
        placeholder("serving_default_a", F, ()), placeholder("serving_default_b", F, ()),
        placeholder("saver_filename", np.object_, ()),
        node("StatefulPartitionedCall", "StatefulPartitionedCall", ["serving_default_a", "serving_default_b"] + names,
             **args),
        node("saver_done", "Identity", ["saver_filename"], T=np.object_),
        node("saver_restored", "StatefulPartitionedCall", ["saver_filename"] + names, **back)]
    children = [{"node_id": i + 1, "local_name": n} for i, n in enumerate(names)]
    objects = {"nodes": [{"children": children,
                          "user_object": {"identifier": "_generic_user_object", "version": {"producer": 1}}}] + [
        {"variable": {"dtype": f, "shape": {}, "trainable": True, "name": n}} for n in names]}
    attributes = [[{"name": "VARIABLE_VALUE", "full_name": n, "checkpoint_key": k}] for n, k in zip(names, keys)]
    tracked = {"nodes": [{"children": children}] + [{"attributes": a} for a in attributes]}
    saver = {"filename_tensor_name": "saver_filename:0", "save_tensor_name": "saver_done:0",
             "restore_op_name": "saver_restored", "version": 2}
    add_model("saved_model/object_graph", {
        "meta_info_def": {"tags": ["serve"], "tensorflow_version": "2.9.0", "stripped_default_attrs": True},
        "graph_def": graph_def(nodes, {"function": [call, restore]}),
        "saver_def": saver,
        "signature_def": {"serving_default": signature({n: info("serving_default_%s:0" % n, f, ()) for n in "ab"},
                                                       {"result": info("StatefulPartitionedCall:0", f, ())},
                                                       "tensorflow/serving/predict")},
        "object_graph_def": objects})
    graph_string = np.empty((), np.object_)
    graph_string[()] = encode("TrackableObjectGraph", tracked)
    values = [(k.decode(), np.array(v, F)) for k, v in zip(keys, (1, 2, 3))]
    add_bundle("saved_model/object_graph/variables/variables",
               values + [("_CHECKPOINTABLE_OBJECT_GRAPH", graph_string)])


# ---- records and events -------------------------------------------------------------------------

def example(i):
    feature = {"x": {"float_list": {"value": [i / 2]}}, "label": {"int64_list": {"value": [i, -i]}},
               "name": {"bytes_list": {"value": [b"number %d" % i, b"\0\xff"]}}, "none": {}}
    if i % 5 == 4:
        return encode("SequenceExample", {"context": {"feature": feature},
                                          "feature_lists": {"feature_list": {"steps": {"feature": [feature["x"],
                                              feature["label"]]}}}})
    return encode("Example", {"features": {"feature": feature}})


def make_records():
    """Records of 0, 1, 4, 9, ... bytes whose byte j is j mod 251, then Examples."""
    sizes = b"".join(record(bytes(j % 251 for j in range(i * i))) for i in range(40))
    FILES["tfrecord/squares.tfrecord"] = sizes
    FILES["tfrecord/squares.tfrecord.zlib"] = zlib.compress(sizes, 9)
    FILES["tfrecord/squares.tfrecord.gz"] = gzip.compress(sizes, 9, mtime=0)
    FILES["tfrecord/examples.tfrecord"] = b"".join(record(example(i)) for i in range(20))


def png(rgb):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    h, w, _ = rgb.shape
    rows = b"".join(b"\0" + row.tobytes() for row in rgb)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) + chunk(b"IDAT",
        zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def make_events():
    picture = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    histogram = {"min": -1.0, "max": 2.5, "num": 7.0, "sum": 4.5, "sum_squares": 9.25,
                 "bucket_limit": [-0.5, 0.0, 1.0, 1.7976931348623157e308],
                 "bucket": [1.0, 2.0, 3.0, 1.0]}
    tensor_value = {"dtype": "DT_FLOAT", "tensor_shape": {}, "float_val": [0.75]}
    graph = encode("GraphDef", graph_def([placeholder("x", F, (3,)), node("y", "Neg", ["x"], T=F)]))
    events = [{"file_version": "brain.Event:2"}, {"graph_def": graph}, {"session_log": {"status": 1}}]
    for step in range(1, 11):
        events.append({"step": step * 100,
                       "summary": {"value": [{"tag": "loss", "simple_value": 1 / step},
                                             {"tag": "rate", "simple_value": 0.5}]}})
    events += [{"step": 1000, "summary": {"value": [{"tag": "weights", "histo": histogram}]}},
               {"step": 1000, "summary": {"value": [{"tag": "input/image", "image": {
                   "height": 5, "width": 4, "colorspace": 3, "encoded_image_string": png(picture)}}]}},
               {"step": 1000, "summary": {"value": [{"tag": "accuracy", "tensor": tensor_value,
                                                     "metadata": {"plugin_data": {"plugin_name": "scalars"},
                                                                  "display_name": "accuracy"}}]}},
               {"step": 1000, "session_log": {"status": 3, "checkpoint_path": "/model-1000"}},
               {"step": 1000, "session_log": {"status": 2}}]
    data = [encode("Event", dict(e, wall_time=1.6e9 + i / 4)) for i, e in enumerate(events)]
    FILES["events/events.out.tfevents.1600000000.host"] = b"".join(map(record, data))


def make_vocabularies():
    FILES["vocabulary/old.txt"] = b"knitting\neminem\nmillrace\n"
    FILES["vocabulary/new.txt"] = b"millrace\nknitting\nunknown\neminem\n"


# ---- all of it ----------------------------------------------------------------------------------

def same(path, want, have):
    """Another numpy may round an exp otherwise, another zlib compress otherwise."""
    if path.endswith((".gz", ".zlib")):
        return zlib.decompress(want, 47) == zlib.decompress(have, 47)
    if not path.endswith("_out.npy"):
        return want == have
    a, b = (np.lib.format.read_array(io.BytesIO(x)) for x in (want, have))
    return a.dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-7)


def check():
    wrong = 0
    for path, want in sorted(FILES.items()):
        try:
            with open(os.path.join(HERE, path), "rb") as f:
                ok = same(path, want, f.read())
        except OSError:
            ok = False
        if not ok:
            print("tests/golden/%s is not what tests/golden/make.py writes" % path)
            wrong += 1
    return wrong


def write():
    for path, data in FILES.items():
        full = os.path.join(HERE, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(data)


def main(args):
    for make in (make_graphs, make_texts, make_checkpoints, make_trained_model, make_half_plus_two, make_while_model,
                 make_object_model,
                 make_records, make_events, make_vocabularies):
        make()
    if args == ["--check"]:
        wrong = check()
        print("golden files: %d of %d as tests/golden/make.py writes them" % (len(FILES) - wrong, len(FILES)))
        return 1 if wrong else 0
    if args:
        print(__doc__)
        return 0 if args == ["--help"] else 2
    write()
    print("%d files, %d bytes" % (len(FILES), sum(map(len, FILES.values()))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
