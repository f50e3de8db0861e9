"""The package by the name tensorflow, and TensorFlow's module paths."""
import importlib
import os
import re
import subprocess
import sys
import unittest

import tensorflow as tf
import millrace
from millrace import aliases


class Names(unittest.TestCase):
    def test_it_is_the_same_module(self):
        self.assertIs(tf, millrace)
        self.assertEqual(tf.__version__, "1.15.0")
        self.assertEqual(tf.VERSION, "1.15.0")
        self.assertNotEqual(tf.version.MILLRACE, tf.version.VERSION)

    def test_a_module_keeps_its_identity(self):
        import tensorflow.errors as by_alias
        self.assertIs(by_alias, millrace.errors)
        self.assertEqual(by_alias.__spec__.name, by_alias.__name__)

    def test_private_paths_are_views_of_our_modules(self):
        from tensorflow.python.framework import ops
        from tensorflow.python.framework.ops import Graph, convert_to_tensor
        self.assertIs(Graph, tf.Graph)
        self.assertIs(ops.reset_default_graph, tf.reset_default_graph)
        self.assertIs(convert_to_tensor, tf.convert_to_tensor)

    def test_a_module_comes_before_a_function_of_its_name(self):
        from tensorflow.python.ops import variable_scope
        from tensorflow.python.framework import device
        self.assertEqual(variable_scope.__name__, "tensorflow.python.ops.variable_scope")
        self.assertIs(device.DeviceSpec, tf.DeviceSpec)

    def test_ops_by_their_generated_modules(self):
        from tensorflow.python.ops import gen_math_ops
        self.assertIs(gen_math_ops.mat_mul, tf.raw_ops.mat_mul)

    def test_messages(self):
        from tensorflow.core.framework import graph_pb2, types_pb2
        from tensorflow.core.protobuf.config_pb2 import ConfigProto
        self.assertIs(graph_pb2.GraphDef, tf.GraphDef)
        self.assertIs(ConfigProto, tf.ConfigProto)
        self.assertEqual(types_pb2.DT_INT32, 3)

    def test_version_1_of_version_2(self):
        import tensorflow.compat.v1 as v1
        from tensorflow.compat import v1 as again
        self.assertIs(v1, millrace)
        self.assertIs(again, millrace)
        v1.disable_v2_behavior()
        v1.disable_eager_execution()

    def test_attributes_reach_private_modules_after_an_import(self):
        import tensorflow.python.framework.ops  # noqa: F401
        self.assertIs(tf.python.framework.ops.Tensor, tf.Tensor)

    def test_all_private_paths_can_be_imported(self):
        for path in sorted(aliases.PRIVATE):
            importlib.import_module("tensorflow." + path)


    def test_what_the_tables_name_is_there(self):
        named = [n for sources in aliases.PRIVATE.values() for n in sources]
        named += [".".join(filter(None, ["millrace", path])) for path in aliases.MOVED.values()]
        self.assertEqual(sorted({n for n in named if not aliases._exists(n)}), [])

    def test_what_is_loaded_later_is_listed(self):
        self.assertLessEqual({"ConfigProto", "summary", "Graph"}, set(dir(tf)))


class Star(unittest.TestCase):
    """`from module import *`, also of modules whose names are loaded later."""

    def names_of(self, module):
        found = {}
        exec("from %s import *" % module, found)
        return set(found)

    def test_names_that_are_loaded_later_are_given(self):
        for module, names in {
                "tensorflow": "placeholder ConfigProto FIFOQueue train nn keras contrib",
                "tensorflow.compat.v1": "placeholder Session",
                "tensorflow.train": "Saver AdamOptimizer Example", "tensorflow.keras": "Model Sequential Input layers backend",
                "tensorflow.keras.layers": "Dense LSTM Conv2D Layer Input", "tensorflow.python.keras.layers": "Dense",
                "tensorflow.math": "log reduce_variance", "tensorflow.io": "read_file TFRecordWriter gfile",
                "tensorflow.contrib.slim": "conv2d arg_scope learning nets",
                "tensorflow.estimator": "Estimator DNNClassifier inputs",
                "tensorflow.python.ops.array_ops": "concat reshape", "tensorflow.python.ops.math_ops": "matmul",
                "tensorflow.python.ops.nn_ops": "relu", "tensorflow.python.ops.rnn_cell": "RNNCell LSTMCell",
                "tensorflow.python.ops.rnn_cell_impl": "RNNCell", "tensorflow.python.framework.ops": "Tensor Graph",
                "tensorflow.python.framework.dtypes": "float32 as_dtype", "tensorflow.python.ops.gen_nn_ops": "relu softmax",
                "tensorflow.python.ops.standard_ops": "matmul placeholder", "tensorflow.python": "placeholder"}.items():
            self.assertEqual(set(names.split()) - self.names_of(module), set(), module)

    def test_modules_that_are_not_for_users_stay_out(self):
        self.assertFalse({"input", "hooks", "server"} & self.names_of("tensorflow.train"))
        self.assertFalse({"lazy", "aliases", "framework", "ops", "protos"} & self.names_of("tensorflow"))
        self.assertFalse({"np", "sys"} & self.names_of("tensorflow.python.ops.array_ops"))
        self.assertFalse({"abs", "max", "range"} & self.names_of("tensorflow.python.ops.gen_math_ops"))

    def test_every_private_path_gives_what_it_lists(self):
        for path in sorted(p for p in aliases.PRIVATE if ".gen_" not in p):  # those all give the functions of all ops
            self.names_of("tensorflow." + path)


class WrongInterpreter(unittest.TestCase):
    def test_a_missing_symbol_names_both_versions(self):
        from millrace import built_for
        self.assertRegex(str(built_for.explained(ImportError("x.so: undefined symbol: PyObject_New"))),
                         r"built for Python %d\.%d, but this is Python %d\.%d.*PyObject_New" % (sys.version_info[:2] * 2))
        other = ImportError("libtensorflow.so.2: cannot open shared object file")
        self.assertIs(built_for.explained(other), other)

    def test_without_numpy_the_interpreter_is_named(self):
        code = "import sys; sys.modules['numpy.core._multiarray_umath'] = None; import _millrace"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertRegex(out.stderr, r"ImportError: millrace was built for Python %d\.%d and its numpy, but %s cannot import"
                         % (*sys.version_info[:2], re.escape(sys.executable)))


class Missing(unittest.TestCase):
    def test_modules_are_named(self):
        for name in ("tensorflow.nothing", "tensorflow.python.nothing", "tensorflow.core.framework.nothing_pb2"):
            with self.assertRaisesRegex(ImportError, name):
                importlib.import_module(name)

    def test_names_are_named(self):
        from tensorflow.python.ops import math_ops
        with self.assertRaisesRegex(AttributeError, "millrace.*no_such_thing"):
            tf.no_such_thing
        with self.assertRaisesRegex(AttributeError, "tensorflow.python.ops.math_ops.*no_such_thing"):
            math_ops.no_such_thing
        with self.assertRaisesRegex(ImportError, "no_such_thing"):
            from tensorflow.python.ops import no_such_thing  # noqa: F401


class StandIns(unittest.TestCase):
    """six, absl and google.protobuf where they are not installed: a process that cannot see them tries."""

    CODE = '''
import sys
from importlib.machinery import PathFinder
find_spec = PathFinder.find_spec
def find_others(name, path=None, target=None):
    hidden = name.partition(".")[0] in ("six", "absl") or name.startswith("google.protobuf")
    return None if hidden else find_spec(name, path, target)
PathFinder.find_spec = find_others
import tensorflow as tf
'''

    def run_code(self, code):
        r = subprocess.run([sys.executable, "-c", self.CODE + code], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_six(self):
        self.assertEqual(self.run_code(
            "import six\nfrom six.moves import xrange, urllib, cPickle as pickle\nimport six.moves.urllib.request as r\n"
            "from six.moves.urllib.parse import quote\nimport pickle as p\n"
            "print(six.__name__, list(xrange(2)), pickle is p, urllib.request is r, six.moves.range is range, quote(' '))\n"
            "print(sorted(six.iteritems({1: 2})), isinstance('', six.string_types))\n"
            "import abc\n@six.add_metaclass(abc.ABCMeta)\nclass A(object): pass\nprint(type(A).__name__)\n"
            "class B(six.with_metaclass(abc.ABCMeta, A)): pass\nprint(type(B).__name__, B.__bases__ == (A,))"),
            "millrace.stand_ins.six [0, 1] True True True %20\n[(1, 2)] True\nABCMeta\nABCMeta True\n")

    def test_absl(self):
        self.assertEqual(self.run_code("from absl import app, flags, logging\nimport "
                                       "absl.flags\nlogging.set_verbosity(logging.WARNING)\n"
                                       "print(app is tf.app, flags.FLAGS is tf.flags.FLAGS, absl.flags is flags)"),
                         "True True True\n")

    def test_parameters_of_tests(self):
        self.assertEqual(self.run_code(
            "from absl.testing import parameterized\n"
            "class T(parameterized.TestCase):\n"
            "  @parameterized.parameters((1, 2), (3, 4))\n"
            "  def testSum(self, a, b): print(a + b)\n"
            "  @parameterized.named_parameters(('Big', 9), dict(testcase_name='_small', n=1))\n"
            "  def testN(self, n): print(n)\n"
            "print(sorted(x for x in dir(T) if x.startswith('testS') or x.startswith('testN')))\n"
            "T('testNBig').testNBig()\nT('testN_small').testN_small()\nT('testSum1').testSum1()"),
            "['testNBig', 'testN_small', 'testSum0', 'testSum1']\n9\n1\n7\n")

    def test_names_that_numpy_dropped(self):
        self.assertEqual(self.run_code("import numpy as np\nprint(np.zeros(2, np.float).dtype, np.bool is bool)"),
                         "float64 True\n")

    def test_google_protobuf(self):
        self.assertEqual(self.run_code("from google.protobuf import text_format\nfrom google.protobuf.message import Message\n"
                                       "print(text_format.Parse('name: \"a\"', tf.NodeDef()).name, issubclass(tf.NodeDef, "
                                       "Message))"),
                         "a True\n")


class Command(unittest.TestCase):
    """`millrace python`."""

    @unittest.skipUnless("MILLRACE_BUILD" in os.environ, "needs the build's folder in MILLRACE_BUILD")
    def test_it_passes_on_what_stands_behind_the_script(self):
        code = "import tensorflow as tf, sys; print(tf.__version__, sys.argv[1:])"
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        out = subprocess.run([os.path.join(os.environ["MILLRACE_BUILD"], "bin", "millrace"), "python", "--interpreter",
                              sys.executable,
                              "-c", code, "--help", "--x=1", "--"], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(out.stdout, "1.15.0 ['--help', '--x=1', '--']\n", out.stderr)


if __name__ == "__main__":
    unittest.main()
