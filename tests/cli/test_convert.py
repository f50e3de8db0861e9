"""tests/cli/test_convert.py -- `millrace inspect` and `millrace convert`: files in, what is said or written out."""
import os

from harness import HERE, check, has, has_not

GOLDEN = os.environ.get("MILLRACE_GOLDEN", os.path.join(HERE, "../../../shared/golden"))

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


def golden(*parts):
    return os.path.join(GOLDEN, *parts)


def needs_golden(fn):
    """For tests of files that TensorFlow made."""
    def run(t):
        if os.path.isdir(GOLDEN):
            fn(t)
        else:
            print("skipped %s: no golden folder" % fn.__name__[5:], flush=True)
    run.__name__ = fn.__name__
    return run


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
    has(r.err, "Say --outputs")


def test_convert_to_8_bits(t):
    a, b = os.path.join(t.dir, "a.pb"), os.path.join(t.dir, "b.pb")
    has(out(t, "convert", "--eight-bit", graph_in(t), b), "1 constants have 8-bit values now")
    out(t, "convert", graph_in(t), a)
    text = out(t, "inspect", "--all", b)
    has(text, "w = Dequantize(w_quantized_const, w_quantized_min, w_quantized_max) -> float[32,64]")
    has(text, "z = Neg(checked) -> float[?,64]")


@needs_golden
def test_convert_freezes_a_checkpoint(t):
    a = os.path.join(t.dir, "a.pb")
    model = golden("checkpoint", "tensorflex_iris", "graph")
    out(t, "convert", "--freeze", "--checkpoint", model, "--outputs", "output", model + ".meta", a)
    text = out(t, "inspect", a)
    has_not(text, "variable")
    has(text, "output  output")
    r = t.run("convert", "--freeze", "--outputs", "output", model + ".meta", a)
    has(r.err, "Say --checkpoint")


@needs_golden
def test_convert_freezes_a_saved_model(t):
    a = os.path.join(t.dir, "a.pb")
    out(t, "convert", "--freeze", golden("saved_model", "half_plus_two", "00000123"), a)
    text = out(t, "inspect", a)
    has_not(text, "variable")
    has(text, "output  y")
    out(t, "convert", "--freeze", golden("saved_model", "VarsAndArithmeticObjectGraph"), a)
    text = out(t, "inspect", a)
    has(text, " nodes, 0 functions")
    has_not(text, "variable")
    has(text, "output  StatefulPartitionedCall  float  []")
    out(t, "convert", "--freeze", golden("saved_model", "SimpleWhileLoop"), a)
    has(out(t, "inspect", a), "output  PartitionedCall")


@needs_golden
def test_inspect_shows_models_records_and_events(t):
    text = out(t, "inspect", golden("saved_model", "VarsAndArithmeticObjectGraph"))
    has(text, "takes  a         float  []  serving_default_a:0")
    has(text, "child/z/.ATTRIBUTES/VARIABLE_VALUE")
    has(out(t, "inspect", golden("tfrecord", "test.tfrecord")), "records  418")
    has(out(t, "inspect", golden("events", "events.out.tfevents.cifar")), "39 times  steps 1553625 to 1558375")
