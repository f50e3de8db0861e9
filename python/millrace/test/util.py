"""tensorflow.python.framework.test_util: decorators and helpers that tests of programs over TensorFlow 1.x use.

Only graphs are executed here.  A test that TensorFlow runs in a graph and eagerly runs in a graph, one that needs version 2
or eager execution is skipped, and what only concerns XLA or CUDA changes nothing.
"""

import contextlib
import functools
import unittest

from ..framework import ops
from . import TestCase, assert_equal_graph_def, create_local_cluster, gpu_device_name, is_gpu_available  # noqa: F401

TensorFlowTestCase = TestCase
assert_equal_graph_def_v1 = assert_equal_graph_def


# ---- decorators ----

def _test_names(cls):
    return [n for n, f in vars(cls).items() if callable(f) and n.startswith(unittest.TestLoader.testMethodPrefix)]


def _decorator(apply, func):
    """A decorator of methods or whole classes, with or without parentheses."""
    def decorate(f):
        if not isinstance(f, type):
            return apply(f)
        for name in _test_names(f):
            setattr(f, name, apply(vars(f)[name]))
        return f

    return decorate if func is None else decorate(func)


def _same(f):
    return f


def _skipped(reason):
    def apply(f):
        @functools.wraps(f)
        def skip(self, *args, **kwargs):
            self.skipTest(reason)
        return skip

    return apply


def deprecated_graph_mode_only(func=None):
    return _decorator(_same, func)


run_deprecated_v1 = deprecated_graph_mode_only


def run_v1_only(reason, func=None):
    if not isinstance(reason, str):
        raise ValueError("'reason' should be string, got {}".format(type(reason)))
    return _decorator(_same, func)


def run_v2_only(func=None):
    return _decorator(_skipped("Test is only compatible with v2"), func)


def run_gpu_only(func=None):
    return _decorator(_skipped("Test requires GPU") if not is_gpu_available() else _same, func)


def run_cuda_only(func=None):
    return _decorator(_skipped("Test requires CUDA GPU"), func)


def run_in_graph_and_eager_modes(func=None, config=None, use_gpu=True, reset_test=True, assert_no_eager_garbage=False):
    """The test in a graph, with the session of the test as the default one."""
    def apply(f):
        @functools.wraps(f)
        def run(self, *args, **kwargs):
            with self.test_session(use_gpu=use_gpu, config=config):
                f(self, *args, **kwargs)
        return run

    if isinstance(func, type):
        raise ValueError("`run_in_graph_and_eager_modes` only supports test methods. Did you mean to use "
                         "`run_all_in_graph_and_eager_modes`?")
    return apply if func is None else apply(func)


def run_all_in_graph_and_eager_modes(cls):
    for name in _test_names(cls):
        if name != "test_session":
            setattr(cls, name, run_in_graph_and_eager_modes(vars(cls)[name]))
    return cls


def build_as_function_and_v1_graph(func=None):
    return _decorator(_same, func)


def skip_if(condition):
    """Leaves a test out when the condition, a value or a function, is true."""
    def decorate(f):
        @functools.wraps(f)
        def run(self, *args, **kwargs):
            if not (condition() if callable(condition) else condition):
                return f(self, *args, **kwargs)
        return run

    return decorate


def for_all_test_methods(decorator, *args, **kwargs):
    """A decorator of classes that applies one of methods to all tests."""
    def decorate(cls):
        for name in _test_names(cls):
            if name != "test_session":
                setattr(cls, name, decorator(*args, **kwargs)(vars(cls)[name]))
        return cls

    return decorate


def _ignored(description=None):
    """A decorator with a description that changes nothing here."""
    return _same


disable_xla = no_xla_auto_jit = xla_allow_fallback = enable_tf_xla_constant_folding = disable_control_flow_v2 = _ignored
enable_control_flow_v2 = with_control_flow_v2 = enable_output_all_intermediates = use_deterministic_cudnn = _same
enable_c_shapes = with_c_shapes = py_func_if_in_function = _same
assert_no_new_pyobjects_executing_eagerly = assert_no_new_tensors = assert_no_garbage_created = also_run_as_tf_function = _same


# ---- devices ----

def is_xla_enabled():
    return False


IsGoogleCudaEnabled = IsBuiltWithROCm = IsMklEnabled = GpuSupportsHalfMatMulAndConv = is_xla_enabled  # noqa: N816


def InstallStackTraceHandler():  # noqa: N802
    """TensorFlow prints a trace when a test crashes; faulthandler does that for Python."""
    import faulthandler
    faulthandler.enable()


def device(use_gpu):
    """The GPU if it is wanted and there is one."""
    name = gpu_device_name() if use_gpu else ""
    return ops.device(name or "/device:CPU:0")


@contextlib.contextmanager
def use_gpu():
    with device(True):
        yield


@contextlib.contextmanager
def force_gpu():
    with ops.device(gpu_device_name()):
        yield


@contextlib.contextmanager
def force_cpu():
    with device(False):
        yield


# ---- graphs ----

def assert_ops_in_graph(expected_ops, graph):
    """{name: operation type} that must be in a graph; returns the NodeDefs of all nodes that are, by name."""
    found = {n.name: n for n in graph.as_graph_def().node if n.name in expected_ops}
    for name, node in found.items():
        if expected_ops[name] != node.op:
            raise ValueError("Expected op for node %s is different. %s vs %s" % (name, expected_ops[name], node.op))
    if set(expected_ops) != set(found):
        raise ValueError("Not all expected ops are present. Expected %s, found %s" % (expected_ops.keys(), found.keys()))
    return found


def get_node_def_from_graph(node_name, graph_def):
    return next((n for n in graph_def.node if n.name == node_name), None)


def set_producer_version(graph, producer_version):
    """Gives a graph that version, by importing an empty GraphDef of it."""
    from .. import protos
    from ..framework import importer
    empty = protos.GraphDef()
    empty.versions.producer = producer_version
    with graph.as_default():
        importer.import_graph_def(empty)


# ---- layouts of images ----

def _transposed(input_tensor, orders):
    from ..ops import array
    if isinstance(input_tensor, ops.Tensor):
        return array.transpose(input_tensor, orders[input_tensor.shape.ndims])
    return [input_tensor[i] for i in orders[len(input_tensor)]]


def NHWCToNCHW(input_tensor):  # noqa: N802
    """A tensor or a shape, of images or volumes, with the channels in front."""
    return _transposed(input_tensor, {4: [0, 3, 1, 2], 5: [0, 4, 1, 2, 3]})


def NCHWToNHWC(input_tensor):  # noqa: N802
    return _transposed(input_tensor, {4: [0, 2, 3, 1], 5: [0, 2, 3, 4, 1]})
