"""tests/cli/test_convert.py -- `millrace inspect` and `millrace convert`: files in, what is said or written out."""
import os
import struct

from harness import GOLDEN, TENSORFLOW_GOLDEN, check, has, has_not, needs_tensorflow

GRAPH = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: -1 } dim { size: 32 } } } } }
node { name: "w" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 32 } dim { size: 64 } } float_val: 0.5 } } } }
node { name: "y" op: "MatMul" input: "x" input: "w" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "checked" op: "CheckNumerics" input: "y" attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "message" value { s: "y" } } }
node { name: "z" op: "Neg" input: "checked" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "aside" op: "Relu" input: "y" attr { key: "T" value { type: DT_FLOAT } } }
versions { producer: 1087 }
"""


def ours(*parts):
    return os.path.join(GOLDEN, *parts)


def theirs(*parts):
    return os.path.join(TENSORFLOW_GOLDEN, *parts)


def graph_in(t):
    return t.file("graph.pbtxt", GRAPH)


def out(t, *args):
    r = t.run(*args)
    check(r.code == 0, r.err)
    return r.out


def test_inspect_shows_a_graph(t):
    text = out(t, "inspect", graph_in(t))
    has(text, "graph    6 nodes, 0 functions, producer 1087")
    has(text, "input   x      float  [?,32]")
    has(text, "output  z      float  [?,64]")
    has(out(t, "inspect", "--all", graph_in(t)), "z = Neg(checked) -> float[?,64]")


LIBRARY = """
node { name: "x" op: "Placeholder" device: "/cpu:0" attr { key: "dtype" value { type: DT_FLOAT } } }
library { function { signature { name: "f" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } }
                     node_def { name: "n" op: "Neg" input: "a" attr { key: "T" value { type: DT_FLOAT } } }
                     ret { key: "b" value: "n:y:0" } } }
versions { producer: 1087 }
"""


def test_inspect_takes_a_graph_with_functions_for_a_graph(t):
    a = os.path.join(t.dir, "a.pb")
    out(t, "convert", t.file("library.pbtxt", LIBRARY), a)
    has(out(t, "inspect", a), "graph    1 nodes, 1 functions, producer 1087")
    b = os.path.join(t.dir, "b.pb")
    out(t, "convert", a, b)
    has(out(t, "inspect", b), "graph    1 nodes, 1 functions, producer 1087")


def test_inspect_takes_the_highest_version_of_a_served_model(t):
    has(out(t, "inspect", ours("saved_model", "half_plus_two")), "gives  y  float  [?,1]  y:0")


@needs_tensorflow
def test_inspect_takes_the_highest_version_of_a_model_of_tensorflow(t):
    has(out(t, "inspect", theirs("saved_model", "half_plus_two")), "gives  y  float  [?,1]  y:0")
    for folder in (theirs("checkpoint", "half_plus_two_export"), theirs("checkpoint", "half_plus_two_export", "00000123")):
        has(out(t, "inspect", folder), "a")


def inspect_newest(t, source):
    """The checkpoint `variables` of the folder under two names, the older of them without its data."""
    folder = os.path.join(t.dir, "copied")
    os.mkdir(folder)
    for name in os.listdir(source):
        for step in ("model.ckpt-9", "model.ckpt-10"):
            with open(os.path.join(source, name), "rb") as f, open(os.path.join(folder, name.replace("variables", step)), "wb") as g:
                g.write(f.read())
    os.remove(os.path.join(folder, "model.ckpt-9.data-00000-of-00001"))
    return out(t, "inspect", folder)


def test_inspect_takes_the_newest_checkpoint_of_a_folder_without_a_list(t):
    has(inspect_newest(t, ours("saved_model", "object_graph", "variables")), "z/.ATTRIBUTES/VARIABLE_VALUE")


@needs_tensorflow
def test_inspect_takes_the_newest_checkpoint_of_tensorflow(t):
    has(inspect_newest(t, theirs("saved_model", "VarsAndArithmeticObjectGraph", "variables")), "child/z/.ATTRIBUTES/VARIABLE_VALUE")


def test_inspect_says_what_is_no_such_file(t):
    path = t.file("page.html", "<!DOCTYPE html>")
    for what in (path, os.path.join(t.dir, "nothing"), t.dir):
        r = t.run("inspect", what)
        check(r.code == 1 and what in r.err, r.err)


def test_convert_to_bytes_and_back(t):
    a, b = os.path.join(t.dir, "a.pb"), os.path.join(t.dir, "b.pbtxt")
    out(t, "convert", graph_in(t), a)
    out(t, "convert", a, b)
    has(open(b).read(), 'name: "checked"')
    check(out(t, "inspect", a) == out(t, "inspect", b) == out(t, "inspect", graph_in(t)), "another graph")


def test_convert_strips(t):
    a = os.path.join(t.dir, "a.pbtxt")
    out(t, "convert", "--strip", "--outputs", "z", "--inputs", "y", graph_in(t), a)
    text = open(a).read()
    has_not(text, "aside")
    has_not(text, "MatMul")
    has_not(text, "CheckNumerics")
    has(out(t, "inspect", a), "input   y  float  <unknown>")
    r = t.run("convert", "--strip", "--outputs", "nowhere", graph_in(t), a)
    check(r.code == 1, r.out)
    has(r.err, "there is no node 'nowhere'")
    r = t.run("convert", "--strip", graph_in(t), a)
    has(r.err, "give --outputs")


def test_convert_to_8_bits(t):
    a, b = os.path.join(t.dir, "a.pb"), os.path.join(t.dir, "b.pb")
    has(out(t, "convert", "--eight-bit", graph_in(t), b), "stored 1 constants as 8-bit values")
    out(t, "convert", graph_in(t), a)
    text = out(t, "inspect", "--all", b)
    has(text, "w = Dequantize(w_quantized_const, w_quantized_min, w_quantized_max) -> float[32,64]")
    has(text, "z = Neg(checked) -> float[?,64]")


def tensor_contents(path):
    """Where the values of large constants begin in a file: of weights w that are 1.0, so that they are easy to find."""
    data, found = open(path, "rb").read(), []
    at = data.find(ONES)
    while at >= 0:
        found.append(at)
        at = data.find(ONES, at + len(ONES))
    return found


ONES = b"\0\0\x80\x3f" * 2000


def test_convert_aligns_constants(t):
    node = ('node { name: "%s" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { '
            'dtype: DT_FLOAT tensor_shape { dim { size: 2000 } } tensor_content: "%s" } } } }')
    text, a, b, c = [os.path.join(t.dir, n) for n in ("a.pbtxt", "a.pb", "b.pb", "c.pb")]
    with open(text, "w") as f:
        # Names of several lengths, because each place must be as likely.
        f.write("\n".join(node % ("w" * n, r"\000\000\200\077" * 2000) for n in range(1, 80)))
    out(t, "convert", text, a)
    out(t, "convert", "--align", a, b)
    before, after = tensor_contents(a), tensor_contents(b)
    check(len(before) == len(after) == 79 and any(at % 64 for at in before), "the weights were not found")
    check(all(at % 64 == 0 for at in after), [at % 64 for at in after])
    check(os.path.getsize(b) - os.path.getsize(a) < 79 * 68, "too much padding")
    out(t, "convert", "--align", b, c)
    check(open(b, "rb").read() == open(c, "rb").read(), "aligning twice gives another file")
    check(out(t, "inspect", a) == out(t, "inspect", b), "another graph")


def freeze_checkpoint(t, model):
    """`model`: a checkpoint with its meta graph beside it."""
    a = os.path.join(t.dir, "a.pb")
    out(t, "convert", "--freeze", "--checkpoint", model, "--outputs", "output", model + ".meta", a)
    text = out(t, "inspect", a)
    has_not(text, "variable")
    has(text, "output  output")
    r = t.run("convert", "--freeze", "--outputs", "output", model + ".meta", a)
    has(r.err, "give --checkpoint")


def test_convert_freezes_a_checkpoint(t):
    freeze_checkpoint(t, ours("checkpoint", "trained", "model"))


@needs_tensorflow
def test_convert_freezes_a_checkpoint_of_tensorflow(t):
    freeze_checkpoint(t, theirs("checkpoint", "tensorflex_iris", "graph"))


def frozen(t, model):
    a = os.path.join(t.dir, "a.pb")
    out(t, "convert", "--freeze", model, a)
    return out(t, "inspect", a)


def test_convert_freezes_a_saved_model(t):
    text = frozen(t, ours("saved_model", "half_plus_two", "00000001"))
    has_not(text, "variable")
    has(text, "output  y")
    text = frozen(t, ours("saved_model", "object_graph"))
    has(text, " nodes, 0 functions")
    has_not(text, "variable")
    has(text, "output  StatefulPartitionedCall  float  []")
    has(frozen(t, ours("saved_model", "while_loop")), "output  PartitionedCall")


@needs_tensorflow
def test_convert_freezes_a_saved_model_of_tensorflow(t):
    text = frozen(t, theirs("saved_model", "half_plus_two", "00000123"))
    has_not(text, "variable")
    has(text, "output  y")
    text = frozen(t, theirs("saved_model", "VarsAndArithmeticObjectGraph"))
    has(text, " nodes, 0 functions")
    has_not(text, "variable")
    has(text, "output  StatefulPartitionedCall  float  []")
    has(frozen(t, theirs("saved_model", "SimpleWhileLoop")), "output  PartitionedCall")


def test_inspect_shows_models_records_and_events(t):
    text = out(t, "inspect", ours("saved_model", "object_graph"))
    has(text, "takes  a       float  []  serving_default_a:0")
    has(text, "z/.ATTRIBUTES/VARIABLE_VALUE")
    has(out(t, "inspect", ours("tfrecord", "squares.tfrecord")), "records  40")
    has(out(t, "inspect", ours("tfrecord", "examples.tfrecord")), "label  int64  2 values  in 20")
    text = out(t, "inspect", ours("events", "events.out.tfevents.1600000000.host"))
    has(text, "10 times  steps 100 to 1000   1 to 0.1")
    has(text, "weights      histogram  1 times")


@needs_tensorflow
def test_inspect_shows_models_records_and_events_of_tensorflow(t):
    text = out(t, "inspect", theirs("saved_model", "VarsAndArithmeticObjectGraph"))
    has(text, "takes  a         float  []  serving_default_a:0")
    has(text, "child/z/.ATTRIBUTES/VARIABLE_VALUE")
    has(out(t, "inspect", theirs("tfrecord", "test.tfrecord")), "records  418")
    has(out(t, "inspect", theirs("events", "events.out.tfevents.cifar")), "39 times  steps 1553625 to 1558375")


def test_inspect_shows_golden_checkpoints(t):
    has(out(t, "inspect", ours("checkpoint", "types", "model")), "complex128   complex128  [3,5]  240 bytes")
    has(out(t, "inspect", ours("checkpoint", "sharded", "model")), "embedding        float  [100,3]")
    has(out(t, "inspect", ours("checkpoint", "first_format", "parts.ckpt-*")), "2 tensors")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def table(entries):
    """A sorted table of one block; all lengths are under 128, so each is a byte."""
    def block(pairs):
        body = b"".join(bytes([0, len(k), len(v)]) + k + v for k, v in pairs)
        body += struct.pack("<II", 0, 1) + b"\0"
        crc = crc32c(body)
        return body + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    def handle(at, size):
        return bytes([at & 127 | 128, at >> 7, size - 5 & 127 | 128, size - 5 >> 7])

    data, empty = block(entries), block([])
    index = block([(entries[-1][0], handle(0, len(data)))])
    foot = handle(len(data), len(empty)) + handle(len(data) + len(empty), len(index))
    return data + empty + index + foot.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def old_checkpoint(name, values):
    """Of the first format, with a vector of floats."""
    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    whole = field(4, field(1, b""))
    shape = field(2, field(2, bytes([8, len(values)])))
    meta = field(1, field(1, field(1, name) + shape + bytes([3 << 3, 1]) + whole))
    data = field(2, field(1, name) + field(2, field(1, b"")) + field(3, field(5, struct.pack("<%df" % len(values), *values))))
    return table([(b"", meta), (b"\0" + name + b"\0\1" + b"\1\1" + b"\x80\x7f", data)])


def write_bytes(t, name, data):
    path = os.path.join(t.dir, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def test_inspect_shows_checkpoints_of_the_first_format(t):
    whole = write_bytes(t, "old.ckpt", old_checkpoint(b"w", [1, 2, 3]))
    has(out(t, "inspect", whole), "w  float  [3]")
    has(out(t, "inspect", whole), "1 tensors")
    write_bytes(t, "parts-00000-of-00002", old_checkpoint(b"a", [1]))
    write_bytes(t, "parts-00001-of-00002", old_checkpoint(b"b", [1, 2]))
    for name in "parts", "parts-*":
        text = out(t, "inspect", os.path.join(t.dir, name))
        has(text, "a  float  [1]")
        has(text, "b  float  [2]")
    t.file("checkpoint", 'model_checkpoint_path: "parts-?????-of-00002"\n'
                         'all_model_checkpoint_paths: "parts-?????-of-00002"\n')
    has(out(t, "inspect", t.dir), "2 tensors")
    r = t.run("inspect", write_bytes(t, "bad.ckpt", old_checkpoint(b"w", [1])[8:]))
    check(r.code != 0, r.out)
    has(r.err, "bad.ckpt")


def test_convert_freezes_a_checkpoint_of_the_first_format(t):
    graph = t.file("vars.pbtxt", '''
node { name: "w" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: 3 } } } } }
node { name: "y" op: "Neg" input: "w" attr { key: "T" value { type: DT_FLOAT } } }
''')
    values = write_bytes(t, "old.ckpt", old_checkpoint(b"w", [1, 2, 3]))
    frozen = os.path.join(t.dir, "frozen.pb")
    out(t, "convert", "--freeze", "--checkpoint", values, "--outputs", "y", graph, frozen)
    text = out(t, "inspect", frozen)
    has_not(text, "variable")
    has(text, "output  y")
