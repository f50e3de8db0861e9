"""Graphs, names, scopes, conversions, sessions, errors."""

import gc
import os
import signal
import threading
import time
import types
import unittest
import weakref

import numpy as np

import millrace as tf
from millrace.framework import convert, op_defs


class FreshGraph(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()


class Names(FreshGraph):
    def test_ops_get_names_that_differ(self):
        names = [tf.constant(1).op.name for _ in range(3)]
        self.assertEqual(names, ["Const", "Const_1", "Const_2"])

    def test_names_differ_in_more_than_case(self):
        tf.constant(1, name="a")
        self.assertEqual(tf.constant(1, name="A").op.name, "A_1")

    def test_scopes_nest_and_are_made_unique(self):
        with tf.name_scope("s"):
            self.assertEqual(tf.constant(1).op.name, "s/Const")
            with tf.name_scope("t") as scope:
                self.assertEqual(scope, "s/t/")
        with tf.name_scope("s"):
            self.assertEqual(tf.constant(1).op.name, "s_1/Const")
        with tf.name_scope("s/t/"):
            self.assertEqual(tf.constant(1).op.name, "s/t/Const")
        with tf.name_scope(None):
            self.assertEqual(tf.constant(1).op.name, "Const")

    def test_a_bad_scope_name_is_refused(self):
        with self.assertRaises(ValueError):
            with tf.name_scope("-a"):
                pass

    def test_names_the_library_makes_are_not_used_again(self):
        x = tf.constant([1.0])
        g = tf.get_default_graph()
        g.gradients([tf.square(x)], [x], None, [], "gradients", False, None, None)
        with tf.name_scope("gradients") as scope:
            self.assertEqual(scope, "gradients_1/")

    def test_function_names_of_ops_are_tensorflows(self):
        for op, name in [("MatMul", "mat_mul"), ("Conv2D", "conv2d"), ("FIFOQueueV2", "fifo_queue_v2"), ("LRN", "lrn"),
                         ("AddN", "add_n"), ("ResizeBilinear", "resize_bilinear"), ("MaxPool3D", "max_pool3d")]:
            self.assertEqual(op_defs.snake_case(op), name)


class Elements(FreshGraph):
    def test_tensors_and_operations_are_found_by_name(self):
        x = tf.constant(1, name="x")
        g = tf.get_default_graph()
        self.assertIs(g.get_tensor_by_name("x:0"), x)
        self.assertIs(g.get_operation_by_name("x"), x.op)
        self.assertIs(x.op.outputs[0], x)
        for bad, error in [("y:0", KeyError), ("x:1", KeyError), ("x", ValueError), ("x:a", ValueError)]:
            with self.assertRaises(error):
                g.get_tensor_by_name(bad)

    def test_an_element_of_another_graph_is_refused(self):
        with tf.Graph().as_default():
            other = tf.constant(1.0)
        with self.assertRaises(ValueError):
            tf.add(tf.constant(1.0), other)
        with self.assertRaises(ValueError):
            tf.Session().run(other)

    def test_attrs_come_back_as_python_values(self):
        op = tf.placeholder(tf.float32, [None, 3], name="p").op
        self.assertEqual(op.get_attr("dtype"), tf.float32)
        self.assertEqual(op.get_attr("shape").as_list(), [None, 3])
        self.assertEqual(op.node_def.name, "p")
        with self.assertRaises(ValueError):
            op.get_attr("none_such")

    def test_shapes_are_inferred_and_merged(self):
        x = tf.placeholder(tf.float32)
        self.assertIsNone(x.shape.ndims)
        x.set_shape([None, 2])
        self.assertEqual(x.shape.as_list(), [None, 2])
        with self.assertRaises(ValueError):
            x.set_shape([3])
        self.assertEqual(tf.matmul(x, tf.ones([2, 5])).shape.as_list(), [None, 5])

    def test_tensors_show_what_is_known(self):
        self.assertEqual('Tensor("a:0", dtype=float32)', str(tf.placeholder(tf.float32, name="a")))
        self.assertEqual('Tensor("b:0", shape=(?, 2), dtype=int32)', str(tf.placeholder(tf.int32, [None, 2], name="b")))

    def test_the_part_of_a_graph_that_is_new(self):
        tf.constant(1, name="old")
        version = tf.get_default_graph().version
        tf.constant(1, name="new")
        nodes = tf.get_default_graph().as_graph_def(from_version=version).node
        self.assertEqual(["new"], [n.name for n in nodes])

    def test_a_finalized_graph_takes_nothing(self):
        tf.get_default_graph().finalize()
        with self.assertRaises(RuntimeError):
            tf.constant(1)

    def test_a_graph_goes_when_nobody_has_it(self):
        g = tf.Graph()
        with g.as_default():
            tf.add(tf.constant(1), 2)
        gone = weakref.ref(g)
        del g
        gc.collect()
        self.assertIsNone(gone())


class Scopes(FreshGraph):
    def test_control_dependencies_are_added_unless_an_input_has_them(self):
        a, b = tf.constant(1), tf.constant(2)
        with tf.control_dependencies([a]):
            c = tf.identity(b)
            d = tf.identity(c)
            with tf.control_dependencies(None):
                e = tf.identity(b)
        self.assertEqual(c.op.control_inputs, [a.op])
        self.assertEqual(d.op.control_inputs, [])
        self.assertEqual(e.op.control_inputs, [])

    def test_devices_merge_inner_over_outer(self):
        with tf.device("/job:ps/task:1"):
            with tf.device("/gpu:0"):
                self.assertEqual(tf.constant(1).device, "/job:ps/task:1/device:GPU:0")
            with tf.device("/task:3"):
                self.assertEqual(tf.constant(1).device, "/job:ps/task:3")
            with tf.device(None):
                self.assertEqual(tf.constant(1).device, "")

    def test_names_of_devices(self):
        for given, full in (("/job:w/task:1/gpu:0", "/job:w/task:1/device:GPU:0"), ("cpu", "/device:CPU:*"),
                            ("/device:TPU:3", "/device:TPU:3"), ("/device:GPU", "/device:GPU:*")):
            self.assertEqual(full, tf.DeviceSpec.from_string(given).to_string())
        for wrong in ("/nonsense:3", "/cpu:x", "/gpu:0/cpu:0", "/task:a"):
            with self.assertRaises(ValueError):
                tf.device(wrong).__enter__()

    def test_a_device_function_is_asked_for_each_op(self):
        with tf.device(lambda op: "/cpu:1" if op.type == "Const" else "/cpu:0"):
            x = tf.constant(1)
            self.assertEqual((x.device, tf.identity(x).device), ("/device:CPU:1", "/device:CPU:0"))

    def test_colocation_is_an_attr(self):
        with tf.device("/cpu:0"):
            a = tf.constant(1, name="a")
        with tf.colocate_with(a):
            b = tf.constant(2)
        self.assertEqual(b.op.get_attr("_class"), [b"loc:@a"])
        self.assertEqual(b.device, "/device:CPU:0")

    def test_collections_can_be_asked_by_scope(self):
        with tf.name_scope("s"):
            x = tf.constant(1)
        y = tf.constant(1)
        tf.add_to_collection("c", x)
        tf.add_to_collection("c", y)
        self.assertEqual(tf.get_collection("c"), [x, y])
        self.assertEqual(tf.get_collection("c", "s"), [x])


class Conversions(FreshGraph):
    def test_types_of_python_values(self):
        for value, dtype in [(1, tf.int32), (1.0, tf.float32), (True, tf.bool), ("a", tf.string), (2 ** 40, tf.int64),
                             ([1, 2.5], tf.float32), (np.float64(1), tf.float64), (np.array([1]), tf.int64), (1j, tf.complex128)]:
            self.assertEqual(tf.constant(value).dtype, dtype, value)

    def test_values_that_do_not_fit_are_type_errors(self):
        for value, dtype in [(1.5, tf.int32), ("a", tf.float32), (1, tf.string), (1, tf.bool),
                             (np.array(["a"]), tf.float32), (np.array([], "U1"), tf.int32)]:
            with self.assertRaises(TypeError):
                tf.constant(value, dtype)
        self.assertEqual(1.0, tf.Session().run(tf.constant(True, tf.float32)))  # a bool is a number, as in Python
        with self.assertRaises(ValueError):
            tf.constant([[1], [1, 2]])
        with self.assertRaises(ValueError):
            tf.constant(None)

    def test_inputs_of_ops_must_agree(self):
        with self.assertRaisesRegex(TypeError, "does not match type float32 of argument 'x'"):
            tf.multiply(tf.constant(1.0), tf.constant(1))
        with self.assertRaises(ValueError):
            tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))

    def test_types_that_are_compatible(self):
        self.assertTrue(tf.float32.is_compatible_with(tf.float32_ref))
        self.assertFalse(tf.float32_ref.is_compatible_with(tf.float32))
        self.assertEqual(((0, 1), (0, 255)), (tf.float32.limits, tf.uint8.limits))
        for text in ("(", "f4,(", "none"):
            with self.assertRaises(TypeError):
                tf.as_dtype(text)

    def test_lists_of_tensors_are_packed(self):
        t = tf.convert_to_tensor([tf.constant(1), 2])
        self.assertEqual(tf.Session().run(t).tolist(), [1, 2])

    def test_values_known_in_part(self):
        from millrace.framework.tensor_util import constant_value
        packed = tf.stack([tf.constant(2), tf.placeholder(tf.int32, [])])
        self.assertIsNone(constant_value(packed))
        self.assertEqual([2, None], constant_value(packed, partial=True).tolist())

    def test_known_values(self):
        self.assertEqual(convert.constant_value(tf.constant([1, 2])).tolist(), [1, 2])
        self.assertIsNone(convert.constant_value(tf.placeholder(tf.int32)))

    def test_a_class_may_register_its_conversion(self):
        class Celsius:
            degrees = 20.0
        tf.register_tensor_conversion_function(Celsius, lambda v, dtype=None, name=None, as_ref=False: tf.constant(v.degrees))
        self.assertEqual(tf.Session().run(tf.add(Celsius(), 1.0)), 21)


    def test_tensors_of_different_types_do_not_go_into_one(self):
        one, other = tf.constant([0.0]), tf.constant([0.0], tf.float64)
        self.assertRaises(TypeError, tf.convert_to_tensor, [one, other])
        self.assertIs(tf.convert_to_tensor([one, [1]]).dtype, tf.float32)
        self.assertIs(tf.convert_to_tensor([other], tf.float32).dtype, tf.float32)
        self.assertRaises(tf.errors.OperatorNotAllowedInGraphError, iter, one)
        self.assertRaises(tf.errors.OperatorNotAllowedInGraphError, bool, one)

    def test_numbers_that_equal_an_enum_are_types(self):
        self.assertIs(tf.as_dtype(1.0), tf.float32)
        self.assertIs(tf.as_dtype(np.int64(3)), tf.int32)
        self.assertRaises(TypeError, tf.as_dtype, 1.5)

    def test_a_sparse_placeholder_takes_a_tensor_as_its_shape(self):
        shape = tf.placeholder(tf.int64, [2])
        x = tf.sparse_placeholder(tf.float32, shape=shape, name="x")
        self.assertIs(x.dense_shape, shape)
        self.assertEqual(x.indices.shape.as_list(), [None, 2])
        self.assertEqual([t.op.name for t in (x.indices, x.values)], ["x/indices", "x/values"])
        with tf.Session() as sess:
            self.assertEqual(sess.run(tf.sparse_tensor_to_dense(x), {x: ([[0, 1]], [3.], [1, 2])}).tolist(), [[0, 3]])


class Shapes(unittest.TestCase):
    def test_unknown_dimensions_equal_nothing(self):
        some = tf.TensorShape([None, 3])
        self.assertFalse(some == tf.TensorShape([None, 3]))
        self.assertTrue(tf.TensorShape([2, 3]) == [2, 3] and tf.TensorShape(None) == tf.TensorShape(None))
        self.assertRaises(ValueError, lambda: tf.TensorShape(None) != some)
        self.assertRaises(TypeError, tf.TensorShape, "34")
        self.assertRaisesRegex(TypeError, "please use // instead", lambda: tf.Dimension(6) / 2)


    def test_partly_known_shapes(self):
        s = tf.TensorShape([None, 3])
        self.assertEqual(str(s), "(?, 3)")
        self.assertEqual(s[1].value, 3)
        self.assertIsNone(s.num_elements())
        self.assertTrue(s.is_compatible_with([5, 3]))
        self.assertEqual(s.merge_with([5, None]).as_list(), [5, 3])
        self.assertEqual(s.concatenate([2]).as_list(), [None, 3, 2])
        self.assertEqual(s[1:].as_list(), [3])
        with self.assertRaises(ValueError):
            s.merge_with([5, 4])
        with self.assertRaises(ValueError):
            tf.TensorShape(None).as_list()

    def test_dimensions_compute(self):
        d = tf.Dimension(3)
        self.assertEqual((d * 2).value, 6)
        self.assertIsNone((d + None).value)
        self.assertIsNone(d == tf.Dimension(None))
        self.assertEqual(int(d), 3)
        self.assertEqual([0, 1, 2, 3][d], 3)


class Sessions(FreshGraph):
    def test_fetches_keep_their_form(self):
        x = tf.constant(1.0)
        y = {"a": [x, (x, x.op)], "b": x.name}
        self.assertEqual(tf.Session().run(y), {"a": [1.0, (1.0, None)], "b": 1.0})

    def test_what_is_fed_can_be_fetched(self):
        x = tf.placeholder(tf.float32, [2])
        value, double = tf.Session().run([x, x * 2], {x: [1, 2]})
        self.assertEqual((value.tolist(), double.tolist()), ([1, 2], [2, 4]))

    def test_any_tensor_can_be_fed(self):
        x = tf.constant(1.0)
        y = x * 2
        self.assertEqual(tf.Session().run(y + 1, {y: 10}), 11)

    def test_feeds_are_checked(self):
        x = tf.placeholder(tf.float32, [None, 2])
        s = tf.Session()
        with self.assertRaisesRegex(ValueError, "Cannot feed value of shape"):
            s.run(x + 1, {x: [1, 2]})
        with self.assertRaises(TypeError):
            s.run(x + 1, {x: tf.constant([[1.0, 2.0]])})
        with self.assertRaises(TypeError):
            s.run(tf.constant(1), {"nothing:0": 1})

    def test_lists_are_of_small_types_even_with_numbers_of_numpy(self):
        self.assertEqual(tf.constant([np.int64(1), np.int64(2)]).dtype, tf.int32)
        self.assertEqual(tf.constant([np.float64(1)]).dtype, tf.float32)
        self.assertEqual(tf.constant([np.int64(2 ** 40)]).dtype, tf.int64)
        self.assertEqual(tf.constant(np.array([1, 2])).dtype, tf.int64)
        self.assertEqual(tf.constant(np.int64(1)).dtype, tf.int64)

    def test_values_of_all_types_come_back(self):
        s = tf.Session()
        for dtype in (tf.float16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64,
                      tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.bfloat16):
            x = tf.placeholder(dtype, [2])
            got = s.run(tf.identity(x), {x: np.array([1, 0])})
            self.assertEqual(got.dtype, dtype.as_numpy_dtype)
            self.assertEqual(got.tolist(), [1, 0])

    def test_strings(self):
        x = tf.placeholder(tf.string)
        got = tf.Session().run(tf.identity(x), {x: [["a", b"\x00\xff"], ["\u00e9", "y" * 100]]})
        self.assertEqual(got.tolist(), [[b"a", b"\x00\xff"], [b"\xc3\xa9", b"y" * 100]])
        self.assertEqual(tf.Session().run(tf.constant("s")), b"s")

    def test_large_arrays_are_not_changed_by_a_run(self):
        x = tf.placeholder(tf.float32, [100000])
        fed = np.ones(100000, np.float32)
        y = tf.exp(tf.negative(x)) + 1
        s = tf.Session()
        first = s.run(y, {x: fed})
        first += 100  # what was fetched is the caller's own
        self.assertEqual(fed.sum(), 100000)
        self.assertAlmostEqual(float(s.run(y, {x: fed})[0]), 1.3678794, 5)

    def test_strided_and_swapped_arrays(self):
        x = tf.placeholder(tf.int32, [None, None])
        a = np.arange(12, dtype=">i4").reshape(3, 4).T[::2]
        self.assertEqual(tf.Session().run(tf.identity(x), {x: a}).tolist(), a.tolist())

    def test_a_failed_run_names_the_operation_and_where_it_was_made(self):
        x = tf.placeholder(tf.float32, name="missing")
        with self.assertRaises(tf.errors.InvalidArgumentError) as caught:
            tf.Session().run(x + 1)
        self.assertEqual(caught.exception.op, x.op)
        self.assertIn("test_framework.py", str(caught.exception))
        self.assertEqual(caught.exception.error_code, 3)

    def test_a_closed_session_runs_nothing(self):
        with tf.Session() as s:
            self.assertIs(tf.get_default_session(), s)
            self.assertEqual(tf.constant(3).eval(), 3)
        with self.assertRaisesRegex(RuntimeError, "closed Session"):
            s.run(tf.constant(1))

    def test_interactive_sessions_are_the_default(self):
        s = tf.InteractiveSession()
        self.assertEqual(tf.constant(3).eval(), 3)
        s.close()
        self.assertIsNone(tf.get_default_session())

    def test_partial_runs_of_classes_of_programs(self):
        from millrace.framework import session

        class Pair:
            def __init__(self):
                self.parts = [tf.placeholder(tf.float32, []) for _ in range(2)]
        session.register_session_run_conversion_functions(
            Pair, lambda p: (p.parts, list), lambda p, value: list(zip(p.parts, value)), lambda p: p.parts)
        pair = Pair()
        total = pair.parts[0] + pair.parts[1]
        with tf.Session() as s:
            handle = s.partial_run_setup([total], [pair])
            self.assertEqual([3], s.partial_run(handle, [total], {pair: [1, 2]}))

    def test_partial_runs_go_on_where_they_stopped(self):
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        first, second = a + 1, (a + 1) * b
        s = tf.Session()
        h = s.partial_run_setup([first, second], [a, b])
        got = s.partial_run(h, first, {a: 1})
        self.assertEqual(s.partial_run(h, second, {b: got * 10}), 40)

    def test_callables(self):
        a = tf.placeholder(tf.float32, [])
        f = tf.Session().make_callable([a * 2, a.op], [a])
        self.assertEqual(f(4), [8, None])
        with self.assertRaises(TypeError):
            f()

    def test_threads_run_at_once(self):
        x = tf.placeholder(tf.float32, [])
        y, s, got = x * 2, tf.Session(), []
        def work(i):
            for _ in range(50):
                got.append(s.run(y, {x: i}) == 2 * i)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual((len(got), all(got)), (200, True))

    def test_metadata_of_a_traced_run(self):
        from millrace import protos
        metadata = protos.RunMetadata()
        tf.Session().run(tf.constant(1) + 1, options=protos.RunOptions(trace_level=protos.RunOptions.FULL_TRACE),
                         run_metadata=metadata)
        self.assertTrue(metadata.step_stats.dev_stats)

    def test_costs_of_some_runs(self):
        config = tf.ConfigProto(graph_options=tf.GraphOptions(build_cost_model=3, build_cost_model_after=2))
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.exp(x, name="y")
        with tf.Session(config=config) as s:
            for step in range(12):
                metadata = tf.RunMetadata()
                s.run(y, {x: [0, 1]}, run_metadata=metadata)
                self.assertEqual(metadata.HasField("cost_graph"), step in (4, 7, 10))
                if step == 4:
                    nodes = {n.name: n for n in metadata.cost_graph.node}
        self.assertIn("y", nodes)
        self.assertEqual((nodes["y"].output_info[0].size, nodes["y"].output_info[0].dtype), (8, tf.float32.as_datatype_enum))
        self.assertIn("CPU:0", nodes["y"].device)
        self.assertEqual(len(nodes["y"].input_info), 1)

    def test_a_node_without_a_device_fails_every_run(self):
        one = tf.constant(1.0)
        with tf.device("/job:nowhere/task:3"):
            tf.negative(one, name="lost")
        for pruned, fails in ((False, True), (True, False)):
            config = tf.ConfigProto(graph_options=tf.GraphOptions(place_pruned_graph=pruned))
            with tf.Session(config=config) as s:
                if fails:
                    with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "lost"):
                        s.run(one)
                else:
                    self.assertEqual(s.run(one), 1)

    def test_ctrl_c_ends_a_step_and_the_session_goes_on(self):
        q = op_defs.call("FIFOQueueV2", None, component_types=[tf.int32])
        stuck = op_defs.call("QueueDequeueV2", None, handle=q, component_types=[tf.int32])
        s = tf.Session()
        # A program that was started in the background has inherited that SIGINT is ignored.
        former = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, former)
        threading.Thread(target=lambda: (time.sleep(0.3), os.kill(os.getpid(), signal.SIGINT))).start()
        with self.assertRaises(KeyboardInterrupt):
            s.run(stuck)
        self.assertEqual(s.run(tf.constant(5)), 5)


    def test_objects_of_attrs_classes_are_fetched(self):
        class Pair:  # as @attr.s makes it
            __attrs_attrs__ = (types.SimpleNamespace(name="a"), types.SimpleNamespace(name="b"))

            def __init__(self, a, b):
                self.a, self.b = a, b

        with tf.Session() as sess:
            got = sess.run(Pair(tf.constant(1), [tf.constant(2), tf.no_op()]))
        self.assertIsInstance(got, Pair)
        self.assertEqual((got.a, got.b), (1, [2, None]))


class SessionHandles(FreshGraph):
    def test_a_tensor_stays_in_the_session(self):
        c = tf.constant(10.0) * 5.0
        with tf.Session() as sess:
            h = sess.run(tf.get_session_handle(c))
            self.assertEqual(h.eval(), 50)
            holder, x = tf.get_session_tensor(h.handle, tf.float32)
            self.assertEqual(sess.run(x * 10, {holder: h.handle}), 500)
            self.assertEqual(sess.run([c, c + 1], {c: h}), [50, 51])
            h.delete()
            self.assertRaises(TypeError, h.eval)
            self.assertRaises(tf.errors.InvalidArgumentError, sess.run, x, {holder: h.handle})

    def test_handles_that_go_take_their_tensors_along(self):
        with tf.Session() as sess:
            h = sess.run(tf.get_session_handle(tf.constant(0)))
            holder, x = tf.get_session_tensor(h.handle, tf.int32)
            following = tf.get_session_handle(x + 1)
            first = h.handle
            for _ in range(30):
                h = sess.run(following, {holder: h.handle})
            self.assertEqual(h.eval(), 30)
            self.assertRaises(tf.errors.InvalidArgumentError, sess.run, x, {holder: first})

    def test_a_raw_handle_is_deleted_by_its_owner(self):
        with tf.Session() as sess:
            raw = sess.run(tf.get_session_handle(tf.constant(1))).get_raw_handle()
            holder, deletion = tf.delete_session_tensor(raw)
            sess.run(deletion, {holder: raw})


class RawOps(FreshGraph):
    def test_ops_by_their_own_names_take_keywords_alone(self):
        y = tf.raw_ops.MatMul(a=[[1.]], b=[[2.]], name="m")
        self.assertEqual((y.op.type, y.op.name), ("MatMul", "m"))
        self.assertEqual(tf.raw_ops.mat_mul([[1.]], [[2.]]).op.type, "MatMul")
        with self.assertRaisesRegex(TypeError, r"MatMul only takes keyword args \(possible keys: \['a', 'b', "):
            tf.raw_ops.MatMul([[1.]], [[2.]])
        self.assertIn("Conv2D", dir(tf.raw_ops))
        self.assertFalse(hasattr(tf.raw_ops, "NoSuchOp"))


class Leaks(FreshGraph):
    def test_runs_and_errors_keep_no_memory(self):
        import resource
        x = tf.placeholder(tf.float32, [None])
        y, s = x + 1, tf.Session()
        big = np.ones(10000, np.float32)
        def some(n):
            for _ in range(n):
                s.run([y, {"a": y}], {x: big})
                try:
                    s.run(y, {x: [[1]]})
                except ValueError:
                    pass
        some(300)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        some(3000)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 4000)  # KiB; 3000 leaks would be 120 MB


class CallableTest(unittest.TestCase):
    def test_fed_and_fetched(self):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [])
            self.assertEqual(session.make_callable([x, x * 2.0], [x])(3.0), [3, 6])

    def test_form_of_results(self):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [None, 2])
            y, s = x + 1.0, tf.reduce_sum(x)
            value = np.arange(4, dtype=np.float32).reshape(2, 2)
            np.testing.assert_array_equal(session.make_callable(y, [x])(value), value + 1)
            np.testing.assert_array_equal(session.make_callable(y, [x])(value.T), value.T + 1)  # not contiguous
            np.testing.assert_array_equal(session.make_callable(y, [x])([[1, 2]]), [[2, 3]])
            np.testing.assert_array_equal(session.make_callable(y, [x])(value[:0]), value[:0])
            self.assertIsInstance(session.make_callable(s, [x])(value), np.float32)
            self.assertIsNone(session.make_callable(y.op, [x])(value))
            self.assertEqual(session.make_callable({"a": s, "b": (y.op, s)}, [x])(value), {"a": 6, "b": (None, 6)})
            self.assertEqual(session.make_callable(s.name, [x.name])(value), 6)
            many = [tf.placeholder(tf.float32, []) for _ in range(40)]
            self.assertEqual(session.make_callable(tf.add_n(many), many)(*range(40)), 780)

    def test_errors(self):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [None, 2])
            y = tf.check_numerics(x, "checked", name="checker")
            call = session.make_callable(y, [x])
            for wrong in (np.zeros([2, 3]), np.zeros(2), 1.0):
                with self.assertRaisesRegex(ValueError, "Cannot feed value of shape .* which has shape"):
                    call(wrong)
            with self.assertRaises(ValueError):
                call("text")
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "checked : Tensor had NaN") as e:
                call(np.full([1, 2], np.nan, np.float32))
            self.assertEqual(e.exception.op.name, "checker")
            self.assertIsNone(e.exception.__cause__)
            for values in ((), (1, 2)):
                with self.assertRaisesRegex(TypeError, "takes 1 values"):
                    call(*values)
            np.testing.assert_array_equal(call([[1, 2]]), [[1, 2]])
        with self.assertRaisesRegex(RuntimeError, "closed Session"):
            call([[1, 2]])

    def test_options(self):
        with tf.Graph().as_default(), tf.Session() as session:
            metadata = tf.RunMetadata()
            call = session.make_callable(tf.constant(3) + 1, accept_options=True)
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            self.assertEqual(call(options=options, run_metadata=metadata), 4)
            self.assertTrue(metadata.step_stats.dev_stats)

    def test_shape_that_is_set_later(self):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32)
            call = session.make_callable(x + 1.0, [x])
            np.testing.assert_array_equal(call([1, 2]), [2, 3])
            x.set_shape([2])
            np.testing.assert_array_equal(call([1, 2]), [2, 3])

    def test_threads_and_callables_inside_callables(self):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [])
            inner = session.make_callable(x * 2.0, [x])
            outer = session.make_callable(tf.py_func(lambda v: inner(v) + np.float32(1), [x], tf.float32), [x])
            wrong = []

            def work(i):
                wrong.extend(v for v in range(50) if outer(v + i) != 2 * (v + i) + 1)
            threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            self.assertEqual(wrong, [])

    def test_is_collected(self):
        with tf.Graph().as_default():
            session = tf.Session()
            call = session.make_callable(tf.constant(1))
            call()
            session.loop = call  # only the collector frees both
            gone = weakref.ref(session)
            del session, call
            gc.collect()
            self.assertIsNone(gone())

    def test_refuses(self):
        with tf.Graph().as_default(), tf.Session() as session:
            with self.assertRaisesRegex(RuntimeError, "empty"):
                session.run([])
        with self.assertRaisesRegex(TypeError, "config"):
            tf.Session(config=37)
        with tf.Graph().as_default():
            self.assertEqual(tf.constant(1, name=b"bytes").op.name, "bytes")

    def test_entered_twice(self):
        with tf.Graph().as_default(), tf.Session() as session:
            with self.assertRaisesRegex(RuntimeError, "not re-entrant"):
                session.__enter__()

    def test_number_for_a_string(self):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.string)
            with self.assertRaisesRegex(TypeError, "Type of feed value 1 with type"):
                session.run(x, {x: 1})


if __name__ == "__main__":
    unittest.main()
