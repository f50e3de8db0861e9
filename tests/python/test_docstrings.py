"""Every public name has a docstring and a signature that help() and editors can show."""

import importlib.machinery
import importlib.util
import inspect
import os
import types
import unittest

import millrace as tf

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")

# Modules that are not for users, except framework.errors, which is tf.errors. What they define is checked where a
# public module offers it.
PRIVATE = {"millrace." + m for m in ("aliases", "built_for", "closing", "decorator", "deprecation", "framework",
                                     "keras.engine", "lazy", "ops", "proto", "stand_ins")}

# TensorFlow's signature is (*args, **kwargs) too.
ANYTHING = {"millrace.contrib.cluster_resolver.UnionClusterResolver", "millrace.keras.engine.network.Network",
            "millrace.keras.engine.training.Model", "millrace.keras.metrics.Metric.update_state",
            "millrace.ops.array.meshgrid", "millrace.ops.control_flow.group", "millrace.ops.logging.print"}


def is_private(module):
    return module != "millrace.framework.errors" and any(module == p or module.startswith(p + ".") for p in PRIVATE)


def is_ours(value):
    return (getattr(value, "__module__", None) or "").startswith("millrace")


def public(module):
    """The public names of a module, with those that are imported when they are first asked for."""
    names = set(dir(module)) | set(getattr(module, "__all__", ()))
    return sorted(n for n in names if not n.startswith("_"))


def modules():
    """The public modules of the package."""
    found, waiting = {}, [tf]
    while waiting:
        module = waiting.pop()
        if module.__name__ in found or is_private(module.__name__) or not module.__name__.startswith("millrace"):
            continue
        found[module.__name__] = module
        waiting += [v for v in (getattr(module, n) for n in public(module)) if isinstance(v, types.ModuleType)]
    return found


def full_name(value):
    return "%s.%s" % (value.__module__, getattr(value, "__qualname__", None) or type(value).__name__)


def members(cls):
    """(name, method or property) of the public ones that a class has from classes of ours."""
    for base in reversed(cls.__mro__):
        if not is_ours(base):
            continue
        for name, value in vars(base).items():
            if not name.startswith("_"):
                yield name, value


def walk():
    """{name: function, class, method or property}"""
    found = {}
    for module in modules().values():
        for name in public(module):
            value = getattr(module, name)
            if isinstance(value, type) and is_ours(value):
                found[full_name(value)] = value
                for member, what in dict(members(value)).items():
                    what = what.__func__ if isinstance(what, (staticmethod, classmethod)) else what
                    if isinstance(what, property) or inspect.isroutine(what) and is_ours(what):
                        found["%s.%s" % (full_name(value), member)] = what
            elif callable(value) and is_ours(value) and not isinstance(value, types.ModuleType):
                found["%s.%s" % (module.__name__, name)] = value
    return found


def documentation(name, value, found):
    """As help() shows it: a method may have that of the method it overrides."""
    if isinstance(value, type):
        return vars(value).get("__doc__")
    owner, _, member = name.rpartition(".")
    return inspect.getdoc(getattr(found[owner], member) if owner in found else value)


class DocstringsTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.found = walk()

    def test_the_walk_finds_the_package(self):
        self.assertGreater(len(self.found), 4000)
        for name in ("millrace.acos", "millrace.nn.conv2d", "millrace.framework.session.Session.run"):
            self.assertIn(name, self.found)

    def test_every_name_has_a_docstring(self):
        missing = [name for name, value in self.found.items() if not documentation(name, value, self.found)]
        self.assertEqual(sorted(missing), [])

    def test_signatures_name_their_parameters(self):
        opaque = []
        for name, value in self.found.items():
            if isinstance(value, property) or isinstance(value, type) and issubclass(value, Exception):
                continue
            try:
                kinds = [p.kind for n, p in inspect.signature(value).parameters.items() if n not in ("self", "cls")]
            except ValueError:
                opaque.append(name)
                continue
            variable = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
            if kinds and set(kinds) == variable and full_name(value) not in ANYTHING:
                opaque.append(name)
        self.assertEqual(sorted(opaque), [])

    def test_raw_ops_describe_their_arguments(self):
        for name in dir(tf.raw_ops):
            f = getattr(tf.raw_ops, name)
            text = inspect.getdoc(f)
            self.assertTrue(text.split("\n")[0], name)
            for parameter in inspect.signature(f).parameters:
                self.assertIn("    %s: " % parameter, text, name)

    def test_single_ops_are_as_the_registry_says(self):
        path = os.path.join(TOOLS, "python-ops")
        loader = importlib.machinery.SourceFileLoader("python_ops", path)
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("python_ops", loader))
        loader.exec_module(module)
        from millrace.ops import op_functions
        with open(op_functions.__file__) as f:
            self.assertEqual(f.read(), module.text(), "run `make docs`")

    def test_signatures_are_those_of_tensorflow(self):
        self.assertEqual(str(inspect.signature(tf.matrix_solve)), "(matrix, rhs, adjoint=False, name=None)")
        self.assertEqual(str(inspect.signature(tf.raw_ops.MatrixSolve)), "(*, matrix, rhs, adjoint=False, name=None)")
        self.assertEqual(list(inspect.signature(tf.Variable).parameters)[:3],
                         ["initial_value", "trainable", "collections"])
        self.assertEqual(list(inspect.signature(tf.layers.Conv2D).parameters)[:4],
                         ["filters", "kernel_size", "strides", "padding"])
        self.assertEqual(str(inspect.signature(tf.keras.losses.Huber)),
                         "(delta=1.0, reduction='auto', name='huber_loss')")
        self.assertEqual(list(inspect.signature(tf.keras.layers.LSTM).parameters)[10:13],
                         ["bias_regularizer", "activity_regularizer", "kernel_constraint"])
        self.assertEqual(list(inspect.signature(tf.contrib.metrics.streaming_accuracy).parameters)[:2],
                         ["predictions", "labels"])


if __name__ == "__main__":
    unittest.main()
