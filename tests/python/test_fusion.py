"""Fused nodes compute what the nodes they replace compute: golden graphs with their gradients, and the examples.

`Twice` takes the place of the session below the Python front end: it runs every step in a session with fusion and in one
without, each with variables, queues and iterators of its own, and compares.  The caller gets the results of the first.
"""
import contextlib
import glob
import os
import re
import runpy
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import millrace as tf
from millrace.framework import random_seed, session

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "examples", "python")
GOLDEN = os.path.join(ROOT, "tests", "golden", "graphs")
TENSORFLOW_GOLDEN = os.path.join(os.environ.get("MILLRACE_GOLDEN", os.path.join(ROOT, "../shared/golden")), "graphs")


_core = session._core


class Enough(BaseException):
    """Ends an example after the steps that are compared; nothing in it may catch this."""


def without_fusion(config):
    """The bytes of a ConfigProto, with fusion switched off."""
    proto = tf.ConfigProto.FromString(config)
    proto.graph_options.rewrite_options.remapping = 2  # RewriterConfig.OFF
    return proto.SerializeToString()


def close(a, b, tolerance, name):
    """Fails unless both have the same shape and type, and numbers that are equal up to rounding."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        raise AssertionError("%s: %s%s and %s%s" % (name, a.dtype, a.shape, b.dtype, b.shape))
    if a.dtype.kind not in "fc":
        if a.dtype.kind in "biu" and not (a == b).all():
            raise AssertionError("%s: %s and %s" % (name, a, b))
        return
    exact = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(exact), b.astype(exact)
    scale = np.max(np.abs(b[np.isfinite(b)]), initial=0)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=name)


class Twice:
    """A session with fusion and one without."""

    variables = None
    steps = 0  # that all sessions together still compare
    compared = 0
    tolerance = 1e-4

    def __init__(self, graph, target, config):
        self.graph = graph
        self.fused = _core.Session(graph, target, config)
        self.plain = _core.Session(graph, target, without_fusion(config))

    def __getattr__(self, name):
        return getattr(self.fused, name)

    def close(self):
        self.fused.close()
        self.plain.close()

    def run(self, feeds, values, fetches, targets, *more):
        results = self.fused.run(feeds, values, fetches, targets, *more)
        # Options and metadata change nothing about the results.
        again = self.plain.run(feeds, values, fetches, targets)
        found = results[0] if len(more) == 2 else results
        for t, a, b in zip(fetches, found, again):
            if t.dtype not in (tf.string, tf.resource, tf.variant):
                close(a, b, Twice.tolerance, t.name)
        self.compare_variables()
        Twice.compared += 1
        if Twice.compared >= Twice.steps:
            raise Enough
        return results

    def compare_variables(self):
        """Afterwards those of the second session are the first's: the next steps would make differences by rounding larger."""
        if self.variables is None or not self.graph.finalized:
            found = self.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES) + self.graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES)
            self.variables = [(v, v.value()) for v in found if v.dtype.base_dtype.is_floating]
        for v, read in self.variables:
            try:
                a, = self.fused.run([], [], [read], [])
            except tf.errors.FailedPreconditionError:  # not set yet
                continue
            b, = self.plain.run([], [], [read], [])
            close(a, b, Twice.tolerance, v.name)
            if not np.array_equal(a, b):
                self.plain.run([v.initializer.inputs[1]], [a], [], [v.initializer])


class CoreWithTwo:
    """The module below the front end, but for its sessions."""

    Session = Twice

    def __getattr__(self, name):
        return getattr(_core, name)


def seeds(op_seed):
    """Both sessions must draw the same random numbers, so each operation has a seed."""
    found = usual_seeds(op_seed)
    return found if found[0] is not None else (7, tf.get_default_graph()._last_id + 1)


usual_seeds = random_seed.get_seed


def compare(program, steps, flags):
    """In a process of its own: the first steps of an example."""
    Twice.steps = steps
    session._core, random_seed.get_seed = CoreWithTwo(), seeds
    sys.argv = [os.path.join(EXAMPLES, program), *flags]
    sys.path[0] = EXAMPLES
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except Enough:
        pass
    except SystemExit as e:
        if e.code:
            raise
    print("compared %d steps" % Twice.compared, flush=True)
    os._exit(0)  # threads of the example may still wait for more steps


class Examples(unittest.TestCase):
    """The first steps of the examples that run in one process."""

    def compare(self, program, *flags, steps=40, at_least=40):
        with tempfile.TemporaryDirectory() as folder:
            p = subprocess.run([sys.executable, "-B", os.path.abspath(__file__), "--compare", program, str(steps), *flags],
                               cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
        found = re.search(r"compared (\d+) steps", p.stdout)
        self.assertTrue(p.returncode == 0 and found, p.stdout[-3000:])
        self.assertGreaterEqual(int(found.group(1)), at_least, p.stdout[-3000:])

    def test_softmax(self):
        self.compare("mnist.py")

    def test_convolutions(self):
        self.compare("mnist.py", "--model=cnn", steps=12, at_least=12)

    def test_layers_and_data(self):
        self.compare("data.py")

    def test_recurrent(self):
        self.compare("char_rnn.py")
        self.compare("char_rnn.py", "--cell=gru")

    def test_adversarial(self):
        self.compare("gan.py")

    def test_embeddings(self):
        self.compare("word2vec.py")

    def test_several_devices(self):
        self.compare("towers.py")
        self.compare("devices.py", at_least=2)
        self.compare("pipeline.py", "--steps=4", at_least=12)

    def test_small_ones(self):
        self.compare("paper.py", "logs")
        self.compare("regression.py")
        self.compare("serve.py", "model")
        self.compare("random_forest.py")
        self.compare("kmeans.py", at_least=5)
        self.compare("deterministic.py")
        self.compare("policy_gradient.py", at_least=1)  # the whole training is one step


def fused_nodes(sess, fetch, feeds):
    """Of the step that fetches `fetch`."""
    metadata = tf.RunMetadata()
    sess.run(fetch, feeds, tf.RunOptions(output_partition_graphs=True), metadata)
    return sum(n.op.startswith("_Fused") for g in metadata.partition_graphs for n in g.node)


@contextlib.contextmanager
def sessions():
    """One with fusion and one without, for the default graph.  Constants stay nodes, or little would be left to compare."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.constant_folding = 2
    with tf.Session(config=config) as fused, tf.Session(config=tf.ConfigProto.FromString(without_fusion(config.SerializeToString()))) as plain:
        yield fused, plain


class GoldenGraphs(unittest.TestCase):
    """Outputs, and gradients by all that are floats and have one: what is fed and each constant."""

    def check(self, file, by_tensorflow):
        name, graph = os.path.basename(file), tf.GraphDef()
        with open(file, "rb") as f:
            graph.ParseFromString(f.read())
        fed = np.load(file.replace("_net.pb", "_in.npy"))
        if by_tensorflow:
            for n in graph.node:  # a frozen graph has lost some of the nodes that others were colocated with
                n.attr.pop("_class", None)
                if n.op == "Placeholder" and "fp16" in name:  # these files say float, which TensorFlow itself refuses
                    n.attr["dtype"].type = tf.float16.as_datatype_enum
            if fed.ndim >= 4 and "nchw" not in name and "reshape_nhwc" not in name:
                fed = np.moveaxis(fed, 1, -1)
        with tf.Graph().as_default() as g:
            tf.import_graph_def(graph, name="")
            x = next(op for op in g.get_operations() if op.type == "Placeholder").outputs[0]
            y = [op for op in g.get_operations() if op.outputs and not any(t.consumers() for t in op.outputs)][-1].outputs[0]
            fed = fed.astype(x.dtype.as_numpy_dtype)
            gradients = self.gradients(g, x, y)
            with sessions() as (fused, plain):
                fetches = [y] + gradients
                tolerance = 5e-3 if y.dtype == tf.float16 else 1e-4
                for t, a, b in zip(fetches, fused.run(fetches, {x: fed}), plain.run(fetches, {x: fed})):
                    close(a, b, tolerance, t.name)
                self.assertEqual(fused_nodes(plain, fetches, {x: fed}), 0)
                return fused_nodes(fused, fetches, {x: fed}), len(gradients)

    @staticmethod
    def gradients(g, x, y):
        if not y.dtype.is_floating:
            return []
        by = [x] + [op.outputs[0] for op in g.get_operations() if op.type == "Const"]
        try:
            # The square makes the gradients depend on the values of the outputs.
            found = tf.gradients(tf.square(y), [t for t in by if t.dtype.is_floating])
        except (LookupError, tf.errors.UnimplementedError):  # an op without a gradient, or a Merge that is no conditional's
            return []
        return [tf.convert_to_tensor(t) for t in found if t is not None]

    def folder(self, folder, by_tensorflow):
        files = sorted(glob.glob(os.path.join(folder, "*_net.pb")))
        counts = []
        for file in files:
            with self.subTest(os.path.basename(file)):
                counts.append(self.check(file, by_tensorflow))
        self.assertGreater(len(files), 20)
        self.assertGreater(sum(fused > 0 for fused, _ in counts), len(files) // 4, "graphs with fused nodes")
        self.assertGreater(sum(gradients > 0 for _, gradients in counts), len(files) // 2, "graphs with gradients")

    def test_ours(self):
        self.folder(GOLDEN, False)

    @unittest.skipUnless(os.path.isdir(TENSORFLOW_GOLDEN), "no golden files made by TensorFlow")
    def test_made_by_tensorflow(self):
        self.folder(TENSORFLOW_GOLDEN, True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"]:
        compare(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    unittest.main()
