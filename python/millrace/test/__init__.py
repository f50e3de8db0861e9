"""tf.test: unittest with graphs and sessions, and numeric gradients.

    class MyTest(tf.test.TestCase):
        def test_square(self):
            with self.test_session():
                self.assertAllClose(tf.square([2., 3.]).eval(), [4., 9.])

Each test begins with an empty default graph and fixed seeds.
"""
import atexit
import contextlib
import inspect
import math
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import unittest
from unittest import mock  # noqa: F401 -- tf.test.mock

import numpy as np

from .. import protos
from ..framework import device as _device, dtypes, errors, ops, session as _session
from .gradient_checker import compute_gradient, compute_gradient_error

__all__ = ["Benchmark", "StubOutForTesting", "TestCase", "assert_equal_graph_def", "compute_gradient", "compute_gradient_error",
           "create_local_cluster", "get_temp_dir", "gpu_device_name", "is_built_with_cuda", "is_built_with_gpu_support",
           "is_built_with_rocm", "is_gpu_available", "main", "mock", "test_src_dir_path"]

_SEED = 87654321  # of TensorFlow's tests


# ---- where things are ----

_temp_dir = None


def get_temp_dir():
    """A folder for files of tests: TEST_TMPDIR, else one that goes with the program."""
    global _temp_dir
    if _temp_dir is None:
        _temp_dir = os.environ.get("TEST_TMPDIR")
        if _temp_dir:
            os.makedirs(_temp_dir, exist_ok=True)
        else:
            _temp_dir = tempfile.mkdtemp(prefix=os.path.basename(inspect.getfile(inspect.currentframe())))
            atexit.register(shutil.rmtree, _temp_dir, True)
    return _temp_dir


def test_src_dir_path(relative_path):
    """A path of the program's sources, from the folder that TEST_SRCDIR names or this one."""
    return os.path.join(os.environ.get("TEST_SRCDIR", os.getcwd()), relative_path)


def is_built_with_cuda():
    """Returns False: there is no CUDA in this package."""
    return False


def is_built_with_rocm():
    """Returns False: there is no ROCm in this package."""
    return False


def is_built_with_gpu_support():
    """GPUs are reached by OpenCL, where it is installed."""
    return bool(gpu_device_name())


def is_gpu_available(cuda_only=False, min_cuda_compute_capability=None):
    """Whether there is a GPU device; False if one with CUDA is asked for."""
    return not cuda_only and min_cuda_compute_capability is None and bool(gpu_device_name())


def gpu_device_name():
    """The name of a GPU, "" where there is none."""
    from ..client import device_lib
    return next((d.name for d in device_lib.list_local_devices() if d.device_type == "GPU"), "")


def main(argv=None):
    """Runs the tests of the main module; flags that tf.flags knows are taken from the command line."""
    from .. import app

    def run(rest):
        unittest.main(argv=rest)
    app.run(main=run, argv=argv)


# ---- cases ----

class _CheckedThread:
    """A thread whose exception is raised where it is joined."""

    def __init__(self, test, target, args=None, kwargs=None):
        self._target, self._args, self._kwargs = target, args or (), kwargs or {}
        self._thread, self._error = threading.Thread(target=self._run), None

    def _run(self):
        try:
            self._target(*self._args, **self._kwargs)
        except BaseException as e:  # raised again by join()
            self._error = e

    def start(self):
        self._thread.start()

    def join(self):
        self._thread.join()
        if self._error is not None:
            raise AssertionError("Error in checkedThread: %s" % self._error) from self._error

    def is_alive(self):
        return self._thread.is_alive()


class TestCase(unittest.TestCase):
    """A test of graphs and sessions."""

    def __init__(self, methodName="runTest"):  # noqa: N803
        super().__init__(methodName)
        self._tempdir, self._cached = None, None

    def setUp(self):
        self._clear_cached_session()
        random.seed(_SEED)
        np.random.seed(_SEED)
        ops._default_graphs.reset()
        ops.get_default_graph().seed = _SEED

    def tearDown(self):
        self._clear_cached_session()

    def _clear_cached_session(self):
        if self._cached is not None:
            self._cached.close()
            self._cached = None

    def get_temp_dir(self):
        """A folder of this test alone."""
        if self._tempdir is None:
            self._tempdir = tempfile.mkdtemp(dir=get_temp_dir())
        return self._tempdir

    # ---- sessions ----

    @contextlib.contextmanager
    def session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """A separate session."""
        with self._session(graph, config) as s, self._on_device(s, use_gpu, force_gpu):
            yield s

    @contextlib.contextmanager
    def cached_session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """The one session of this test."""
        if self._cached is None:
            self._cached = self._session(graph, config)
        elif graph is not None and self._cached.graph is not graph:
            raise ValueError("The graph used to get the cached session is different than the one that was used to create the "
                             "session.")
        s = self._cached
        with s.graph.as_default(), s.as_default(), self._on_device(s, use_gpu, force_gpu):
            yield s

    def test_session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """The session of this test, or one for the graph that is given."""
        if self._testMethodName == "test_session":
            self.skipTest("Not a test, but by its name unittest takes it for one.")
        return (self.cached_session if graph is None else self.session)(graph, config, use_gpu, force_gpu)

    def _session(self, graph, config):
        if config is None:
            config = protos.ConfigProto(allow_soft_placement=True)
        return _session.Session(graph=graph, config=config)

    def _on_device(self, s, use_gpu, force_gpu):
        if force_gpu:
            name = gpu_device_name()
            if not name:
                raise errors.NotFoundError(None, None, "There is no GPU for a test that needs one")
            return s.graph.device(name)
        return contextlib.nullcontext() if use_gpu else s.graph.device("/device:CPU:0")

    def evaluate(self, tensors):
        """The values of tensors in the default session, or in the one of this test."""
        s = ops.get_default_session()
        if s is not None:
            return s.run(tensors)
        with self.cached_session() as s:
            return s.run(tensors)

    def checkedThread(self, target, args=None, kwargs=None):  # noqa: N802
        """Returns a thread that fails the test if its function raises."""
        return _CheckedThread(self, target, args, kwargs)

    @contextlib.contextmanager
    def captureWritesToStream(self, stream):  # noqa: N802
        """What is written to a file descriptor's stream meanwhile: .contents(), also afterwards."""
        f = tempfile.TemporaryFile()
        stream.flush()
        former = os.dup(stream.fileno())
        os.dup2(f.fileno(), stream.fileno())

        class Capture:
            def contents(self):
                stream.flush()
                f.seek(0)
                return f.read().decode()
        try:
            yield Capture()
        finally:
            stream.flush()
            os.dup2(former, stream.fileno())
            os.close(former)

    # ---- values ----

    def _GetNdArray(self, a):  # noqa: N802 -- programs that extend this class know it
        if isinstance(a, (ops.Tensor, ops.IndexedSlices)) or hasattr(a, "_as_graph_element"):
            a = self.evaluate(a)
        return np.asarray(a)

    def assertAllEqual(self, a, b, msg=None):  # noqa: N802
        """Fails unless both arrays or tensors have the same shape and elements."""
        a, b = self._GetNdArray(a), self._GetNdArray(b)
        self._same_shapes(a, b, msg)
        same = _texts(a) == _texts(b) if a.dtype.kind in "SUO" or b.dtype.kind in "SUO" else a == b
        if a.dtype.kind in "fc" and b.dtype.kind in "fc":
            same = np.logical_or(same, np.logical_and(np.isnan(a), np.isnan(b)))
        if not np.all(same):
            where = np.argwhere(np.logical_not(same))[0] if a.ndim else ()
            at = tuple(where)
            self.fail("%snot equal, first at %s: %r and %r\nlhs = %s\nrhs = %s" % (_intro(msg), list(at), a[at], b[at], a, b))

    def assertNotAllEqual(self, a, b, msg=None):  # noqa: N802
        """Fails if both arrays or tensors have the same shape and elements."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        raise AssertionError("The two values are equal at all elements. %s" % (msg or ""))

    def assertAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):  # noqa: N802
        """Numbers, arrays and tensors, and lists, tuples and dicts of them."""
        self._close(a, b, rtol, atol, [], msg)

    def _close(self, a, b, rtol, atol, path, msg):
        at = "".join("[%r]" % p for p in path)
        a, b = (x._asdict() if hasattr(x, "_asdict") else x for x in (a, b))
        if isinstance(a, dict) != isinstance(b, dict):
            raise ValueError("%sCan't compare dict to non-dict, %r vs %r at %s" % (_intro(msg), a, b, at))
        if isinstance(a, dict):
            if sorted(a) != sorted(b):
                self.fail("%smismatched keys: %s and %s at %s" % (_intro(msg), sorted(a), sorted(b), at))
            for key in a:
                self._close(a[key], b[key], rtol, atol, path + [key], msg)
        elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and not _is_array_like(a, b):
            if len(a) != len(b):
                self.fail("%smismatched lengths: %d and %d at %s" % (_intro(msg), len(a), len(b), at))
            for i, (x, y) in enumerate(zip(a, b)):
                self._close(x, y, rtol, atol, path + [i], msg)
        else:
            self._arrays_close(self._GetNdArray(a), self._GetNdArray(b), rtol, atol, at, msg)

    def _arrays_close(self, a, b, rtol, atol, at, msg):
        self._same_shapes(a, b, msg)
        good = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if not good.all():
            bad = np.argwhere(~good)[0] if a.ndim else ()
            i = tuple(bad)
            self.fail("%sNot equal to tolerance%s rtol=%g, atol=%g: %d of %d, first at %s: %r and %r\nlhs = %s\nrhs = %s" %
                      (_intro(msg), at, rtol, atol, np.sum(~good), good.size, list(i), a[i], b[i], a, b))

    def assertAllCloseAccordingToType(self, a, b, rtol=1e-6, atol=1e-6, float_rtol=1e-6, float_atol=1e-6,  # noqa: N802
                                      half_rtol=1e-3, half_atol=1e-3, bfloat16_rtol=1e-2, bfloat16_atol=1e-2, msg=None):
        """The coarser type of the two says how close."""
        a, b = self._GetNdArray(a), self._GetNdArray(b)
        kinds = {a.dtype, b.dtype}
        if kinds & {np.dtype(np.float32), np.dtype(np.complex64)}:
            rtol, atol = max(rtol, float_rtol), max(atol, float_atol)
        if np.dtype(np.float16) in kinds:
            rtol, atol = max(rtol, half_rtol), max(atol, half_atol)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(self, a, b, **kwargs):  # noqa: N802
        """Fails if both arrays or tensors are close; the keywords are those of assertAllClose."""
        try:
            self.assertAllClose(a, b, **kwargs)
        except AssertionError:
            return
        raise AssertionError("The two values are close at all elements")

    def _same_shapes(self, a, b, msg):
        if a.shape != b.shape:
            self.fail("%sShape mismatch: expected %s, got %s. Contents: %r." % (_intro(msg), a.shape, b.shape, b))

    def _all(self, a, good, what):
        a = self._GetNdArray(a)
        if not np.all(good(a)):
            self.fail("not all elements are %s: %s" % (what, a))

    def assertAllGreater(self, a, comparison_target):  # noqa: N802
        """Fails unless all elements are greater than comparison_target."""
        self._all(a, lambda x: x > comparison_target, "greater than %s" % comparison_target)

    def assertAllGreaterEqual(self, a, comparison_target):  # noqa: N802
        """Fails unless all elements are at least comparison_target."""
        self._all(a, lambda x: x >= comparison_target, "at least %s" % comparison_target)

    def assertAllLess(self, a, comparison_target):  # noqa: N802
        """Fails unless all elements are less than comparison_target."""
        self._all(a, lambda x: x < comparison_target, "less than %s" % comparison_target)

    def assertAllLessEqual(self, a, comparison_target):  # noqa: N802
        """Fails unless all elements are at most comparison_target."""
        self._all(a, lambda x: x <= comparison_target, "at most %s" % comparison_target)

    def assertAllInRange(self, target, lower_bound, upper_bound, open_lower_bound=False, open_upper_bound=False):  # noqa: N802
        """Fails unless all elements are from lower_bound to upper_bound; an open bound is excluded."""
        def good(x):
            low = x > lower_bound if open_lower_bound else x >= lower_bound
            return low & (x < upper_bound if open_upper_bound else x <= upper_bound)
        self._all(target, good, "between %s and %s" % (lower_bound, upper_bound))

    def assertAllInSet(self, target, expected_set):  # noqa: N802
        """Fails unless all elements are in the set."""
        self._all(target, lambda x: np.isin(x, list(expected_set)), "in %s" % (expected_set,))

    def assertNear(self, f1, f2, err, msg=None):  # noqa: N802
        """Fails unless two numbers differ by at most err."""
        self.assertTrue(f1 == f2 or math.fabs(f1 - f2) <= err,
                        "%f != %f +/- %f%s" % (f1, f2, err, " (%s)" % msg if msg else ""))

    def assertArrayNear(self, farray1, farray2, err, msg=None):  # noqa: N802
        """Fails unless the elements of two lists differ by at most err."""
        self.assertEqual(len(farray1), len(farray2), msg=msg)
        for a, b in zip(farray1, farray2):
            self.assertNear(float(a), float(b), err, msg=msg)

    def assertNDArrayNear(self, ndarray1, ndarray2, err, msg=None):  # noqa: N802
        """Fails unless the norm of the difference of two arrays is below err."""
        distance = np.linalg.norm(np.asarray(ndarray1) - np.asarray(ndarray2))
        self.assertTrue(distance < err, msg or "the arrays are %g apart, allowed is %g" % (distance, err))

    def assertShapeEqual(self, np_array, tf_tensor, msg=None):  # noqa: N802
        """Fails unless an array and a tensor have the same shape."""
        self.assertAllEqual(np_array.shape, tf_tensor.get_shape().as_list(), msg=msg)

    def assertDTypeEqual(self, target, expected_dtype):  # noqa: N802
        """Fails unless the array or tensor has this type."""
        got = dtypes.as_dtype(self._GetNdArray(target).dtype if isinstance(target, list) else target.dtype)
        self.assertEqual(got.base_dtype, dtypes.as_dtype(expected_dtype))

    def assertDeviceEqual(self, device1, device2, msg=None):  # noqa: N802
        """Fails unless two device names mean the same device."""
        a, b = _device.canonical_name(device1), _device.canonical_name(device2)
        self.assertEqual(a, b, "Devices %s and %s are not equal. %s" % (a, b, msg or ""))

    # ---- texts, messages, errors ----

    def assertStartsWith(self, actual, expected_start, msg=None):  # noqa: N802
        """Fails unless a string starts with another one."""
        if not actual.startswith(expected_start):
            self.fail("%s: %r does not start with %r" % (msg or "", actual, expected_start))

    def assertProtoEquals(self, expected_message_maybe_ascii, message, msg=None):  # noqa: N802
        """The one that is expected may be in text form."""
        expected = expected_message_maybe_ascii
        if isinstance(expected, (str, bytes)):
            from ..protos import text_format
            expected = text_format.Parse(expected, type(message)())
        if expected != message:
            self.assertMultiLineEqual(str(expected), str(message), msg)
            self.fail("the messages differ: %s and %s" % (expected, message))

    def assertProtoEqualsVersion(self, expected, actual, producer=1087, min_consumer=0, msg=None,
                                 bad_consumers=None):  # noqa: N802
        """Fails unless a GraphDef equals the expected one with these versions."""
        from ..protos import text_format
        wanted = text_format.Parse(expected, type(actual)()) if isinstance(expected, str) else expected
        wanted.versions.producer, wanted.versions.min_consumer = producer, min_consumer
        wanted.versions.bad_consumers.extend(bad_consumers or [])
        self.assertProtoEquals(wanted, actual, msg)

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(self, exception_type, expected_err_re_or_predicate):  # noqa: N802
        """An exception whose text the expression finds, or which the function says yes to."""
        wanted = expected_err_re_or_predicate

        def fits(e):
            if callable(wanted):
                return wanted(e)
            text = e.message if isinstance(e, errors.OpError) else str(e)
            op = getattr(e, "op", None)
            return re.search(wanted, text if op is None else "%s\nCaused by op: %s" % (text, op.name))
        try:
            yield
        except exception_type as e:
            if not fits(e):
                raise AssertionError("Exception of type %s: %s" % (type(e), e)) from e
        else:
            self.fail("%s not raised" % getattr(exception_type, "__name__", exception_type))

    def assertRaisesOpError(self, expected_err_re_or_predicate):  # noqa: N802
        """Returns a context manager that fails unless an OpError is raised whose text matches."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    # ---- what the tests of others use of absl ----

    def assertEmpty(self, container, msg=None):  # noqa: N802
        """Fails unless the container is empty."""
        self.assertEqual(len(container), 0, msg)

    def assertNotEmpty(self, container, msg=None):  # noqa: N802
        """Fails if the container is empty."""
        self.assertTrue(len(container), msg)

    def assertLen(self, container, expected_len, msg=None):  # noqa: N802
        """Fails unless the container has this length."""
        self.assertEqual(len(container), expected_len, msg)

    def assertBetween(self, value, minv, maxv, msg=None):  # noqa: N802
        """Fails unless minv <= value <= maxv."""
        self.assertTrue(minv <= value <= maxv, msg or "%s is not between %s and %s" % (value, minv, maxv))

    def assertItemsEqual(self, expected_seq, actual_seq, msg=None):  # noqa: N802
        """Fails unless both sequences have the same elements in any order."""
        self.assertCountEqual(expected_seq, actual_seq, msg)

    def assertSequenceStartsWith(self, prefix, whole, msg=None):  # noqa: N802
        """Fails unless the sequence starts with the prefix."""
        self.assertEqual(list(prefix), list(whole)[:len(prefix)], msg)


def _intro(msg):
    return "%s: " % msg if msg else ""


def _texts(a):
    """Text and bytes compare by their bytes."""
    encode = np.vectorize(lambda x: x.encode() if isinstance(x, str) else x, otypes=[object])
    return encode(a) if a.size else a


def _is_array_like(a, b):
    """Both are arrays in the form of lists."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(a).dtype.kind in "biufcSU" and np.asarray(b).dtype.kind in "biufcSU"
    except (TypeError, ValueError, NotImplementedError):
        return False


class StubOutForTesting:
    """Replaces attributes for the time of a test."""

    def __init__(self):
        self._former = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.CleanUp()

    def Set(self, parent, child_name, new_child):  # noqa: N802
        """Replaces an attribute of parent until UnsetAll."""
        former = parent.__dict__.get(child_name, getattr(parent, child_name))
        self._former.append((parent, child_name, former))
        setattr(parent, child_name, new_child)

    SmartSet = Set

    def UnsetAll(self):  # noqa: N802
        """Restores all attributes that Set replaced."""
        while self._former:
            setattr(*self._former.pop())

    CleanUp = SmartUnsetAll = UnsetAll


# ---- graphs and clusters ----

def assert_equal_graph_def(actual, expected, checkpoint_v2=False, hash_table_shared_name=False):
    """Two GraphDefs have the same nodes, in any order; names that a saver (checkpoint_v2) or a table drew by lot may differ."""
    for g in (actual, expected):
        if not isinstance(g, protos.GraphDef):
            raise TypeError("Expected a GraphDef, got %s" % type(g).__name__)
    a, b = ({n.name: _without_lots(n, checkpoint_v2, hash_table_shared_name) for n in g.node} for g in (actual, expected))
    if set(a) != set(b):
        raise AssertionError("Nodes that only one of the graphs has: %s" % ", ".join(sorted(set(a) ^ set(b))))
    for name in sorted(a):
        if a[name] != b[name]:
            raise AssertionError("Node %s differs:\n%s\n%s" % (name, a[name], b[name]))


def _without_lots(node, checkpoint_v2, hash_table_shared_name):
    """The node without attributes that are different each time a graph is made."""
    def is_lot(key, value):
        if checkpoint_v2 and any(re.search(b"_temp_[0-9a-z]{32}/part", text) for text in value.tensor.string_val):
            return True
        return hash_table_shared_name and key == "shared_name" and re.search(rb"hash_table_[0-9a-z\-]+", value.s)
    lots = [key for key, value in node.attr.items() if is_lot(key, value)]
    if not lots:
        return node
    out = protos.NodeDef()
    out.CopyFrom(node)
    for key in lots:
        del out.attr[key]
    return out


def create_local_cluster(num_workers, num_ps, protocol="grpc", worker_config=None, ps_config=None):
    """(workers, parameter servers): servers of one cluster in this process."""
    import socket
    from .. import train
    holders = [socket.socket() for _ in range(num_workers + num_ps)]
    for s in holders:
        s.bind(("localhost", 0))
    hosts = ["localhost:%d" % s.getsockname()[1] for s in holders]
    for s in holders:
        s.close()
    cluster = train.ClusterSpec({"worker": hosts[:num_workers], "ps": hosts[num_workers:]})

    def servers(job, n, config):
        return [train.Server(cluster, job_name=job, protocol=protocol, task_index=i, config=config, start=True)
                for i in range(n)]
    return servers("worker", num_workers, worker_config), servers("ps", num_ps, ps_config)


class Benchmark:
    """Measures ops: run_op_benchmark in its methods benchmark..."""

    def run_op_benchmark(self, sess, op_or_tensor, feed_dict=None, burn_iters=2, min_iters=10, store_trace=False,
                         store_memory_usage=True, name=None, extras=None, mbs=0):
        """Runs it and reports the median time.  How much memory it took is not measured, so it is not reported either."""
        import time
        if store_trace:
            raise NotImplementedError("run_op_benchmark(store_trace=True): RunMetadata and timeline.Timeline show a step")
        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict=feed_dict)
        times = []
        for _ in range(min_iters):
            begin = time.perf_counter()
            sess.run(op_or_tensor, feed_dict=feed_dict)
            times.append(time.perf_counter() - begin)
        median = float(np.median(times))
        result = {"iters": min_iters, "wall_time": median, "throughput": mbs / median if mbs else None, "extras": extras or {}}
        self.report_benchmark(iters=min_iters, wall_time=median, throughput=result["throughput"], extras=extras, name=name)
        return result

    def report_benchmark(self, iters=None, cpu_time=None, wall_time=None, throughput=None, extras=None, name=None):
        """Prints the figures of a benchmark."""
        shown = {"iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput,
                 "extras": extras or None}
        sys.stderr.write("%s: %s\n" % (name or type(self).__name__, {k: v for k, v in shown.items() if v is not None}))

    def evaluate(self, tensors):
        """Runs tensors in the default session, and returns their values."""
        return ops.get_default_session().run(tensors)
