"""Conditionals, loops and their gradients, against values worked out by hand."""

import os
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np

import millrace as tf
from millrace.framework import nest
from millrace.framework.op_defs import raw


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def run_(self, fetches, feeds=None):
        with tf.Session() as session:
            return session.run(fetches, feeds)


class CondTest(Case):
    def setUp(self):
        super().setUp()
        self.x = tf.constant(3.0)
        self.pred = raw.placeholder(tf.bool, shape=[])

    def both(self, fetches):
        return self.run_(fetches, {self.pred: True}), self.run_(fetches, {self.pred: False})

    def test_takes_one_branch_and_differentiates(self):
        y = tf.cond(self.pred, lambda: raw.mul(self.x, self.x), lambda: raw.add_v2(self.x, 1.0))
        self.assertEqual(y.name, "cond/Merge:0")
        dx, = tf.gradients(y, self.x)
        self.assertEqual(self.both([y, dx]), ([9, 6], [4, 1]))

    def test_returns_the_value_outside_as_it_is(self):
        y = tf.cond(self.pred, lambda: self.x, lambda: raw.neg(self.x))
        self.assertEqual(self.both(y), (3, -3))

    def test_structures(self):
        y = tf.cond(self.pred, lambda: {"a": self.x, "b": (tf.constant(1), [tf.constant(2)])},
                    lambda: {"a": tf.constant(0.0), "b": (tf.constant(5), [tf.constant(6)])})
        self.assertEqual(self.both(y), ({"a": 3, "b": (1, [2])}, {"a": 0, "b": (5, [6])}))

    def test_operations(self):
        done = tf.cond(self.pred, lambda: tf.group(self.x), tf.no_op)
        self.assertEqual(self.both(done), (True, False))

    def test_nested(self):
        other = raw.placeholder(tf.bool, shape=[])
        y = tf.cond(self.pred, lambda: tf.cond(other, lambda: raw.mul(self.x, 2.0), lambda: raw.mul(self.x, 5.0)),
                    lambda: raw.mul(self.x, 7.0))
        dx, = tf.gradients(y, self.x)
        for p, o, value in ((True, True, 2), (True, False, 5), (False, True, 7)):
            self.assertEqual(self.run_([y, dx], {self.pred: p, other: o}), [3 * value, value])

    def test_only_the_branch_taken_runs(self):
        y = tf.cond(self.pred, lambda: self.x,
                    lambda: tf.ops.control_flow.with_dependencies([tf.Assert(False, ["never"])], self.x))
        self.assertEqual(self.run_(y, {self.pred: True}), 3)
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.run_(y, {self.pred: False})

    def test_errors(self):
        with self.assertRaisesRegex(TypeError, "callable"):
            tf.cond(self.pred, 1, lambda: 2)
        with self.assertRaisesRegex(TypeError, "bool"):
            tf.cond(True, lambda: 1, lambda: 2)
        with self.assertRaisesRegex(ValueError, "return value"):
            tf.cond(self.pred, lambda: None, lambda: None)
        with self.assertRaisesRegex(ValueError, "same type"):
            tf.cond(self.pred, lambda: tf.constant(1), lambda: tf.constant(1.0))
        with self.assertRaises((TypeError, ValueError)):
            tf.cond(self.pred, lambda: (self.x, self.x), lambda: self.x)

    def test_what_is_within_cannot_be_fetched(self):
        inside = []
        tf.cond(self.pred, lambda: inside.append(raw.neg(self.x)) or inside[0], lambda: self.x)
        with self.assertRaisesRegex(ValueError, "not fetchable"):
            self.run_(inside[0], {self.pred: True})

    def test_case(self):
        n = raw.placeholder(tf.int32, shape=[])
        pairs = [(raw.less(n, 1), lambda: tf.constant(10)), (raw.less(n, 2), lambda: tf.constant(20))]
        y = tf.case(pairs, default=lambda: tf.constant(30))
        self.assertEqual([self.run_(y, {n: i}) for i in (0, 1, 2)], [10, 20, 30])
        exclusive = tf.case(pairs, default=lambda: tf.constant(30), exclusive=True)
        self.assertEqual(self.run_(exclusive, {n: 1}), 20)
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "more than 1"):
            self.run_(exclusive, {n: 0})
        without = tf.case(pairs)
        self.assertEqual([self.run_(without, {n: i}) for i in (0, 1)], [10, 20])
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.run_(without, {n: 2})


    def test_switch_case(self):
        n = tf.placeholder(tf.int32, [])
        y = tf.switch_case(n, [lambda: 10, lambda: 20], default=lambda: 30)
        z = tf.switch_case(n, {1: lambda: 1, 0: lambda: 0})
        self.assertEqual([self.run_([y, z], {n: i}) for i in (0, 1, 2)], [[10, 0], [20, 1], [30, 1]])
        with self.assertRaisesRegex(ValueError, "contiguous"):
            tf.switch_case(n, {0: lambda: 1, 2: lambda: 2})
        with self.assertRaises(TypeError):
            tf.switch_case(1.5, [lambda: 1])


class WhileTest(Case):
    def setUp(self):
        super().setUp()
        self.x = tf.constant(3.0)

    def power(self, n, start=None):
        return tf.while_loop(lambda i, v: raw.less(i, n), lambda i, v: (raw.add_v2(i, 1), raw.mul(v, self.x)),
                             [tf.constant(0), tf.constant(1.0) if start is None else start])[1]

    def test_loop_and_gradient(self):
        y = self.power(5)
        self.assertEqual(y.name, "while/Exit_1:0")
        dx, = tf.gradients(y, self.x)
        self.assertEqual(self.run_([y, dx]), [243, 405])

    def test_no_iteration(self):
        y = self.power(0)
        self.assertEqual(self.run_([y] + tf.gradients(y, self.x)), [1, 0])

    def test_second_derivative_of_nothing_but_a_loop_variable(self):
        y = self.power(4, self.x)
        dx, = tf.gradients(y, self.x)
        self.assertEqual(self.run_([y, dx]), [243, 405])

    def test_single_variable_comes_alone(self):
        y = tf.while_loop(lambda v: raw.less(v, 10), lambda v: raw.add_v2(v, 3), [tf.constant(0)])
        self.assertEqual(self.run_(y), 12)

    def test_structures(self):
        i, (a, d) = tf.while_loop(lambda i, s: raw.less(i, 3),
                                  lambda i, s: (raw.add_v2(i, 1), (raw.add_v2(s[0], s[1]["k"]), {"k": raw.mul(s[1]["k"], 2)})),
                                  [tf.constant(0), (tf.constant(0), {"k": tf.constant(1)})])
        self.assertEqual(self.run_([i, a, d]), [3, 7, {"k": 8}])

    def test_maximum_iterations(self):
        y = tf.while_loop(lambda v: True, lambda v: raw.add_v2(v, 3), [tf.constant(0)], maximum_iterations=4)
        self.assertEqual(self.run_(y), 12)
        a, b = tf.while_loop(lambda a, b: raw.less(a, 2), lambda a, b: [raw.add_v2(a, 1), raw.mul(b, 2)],
                             [tf.constant(0), tf.constant(1)], maximum_iterations=tf.constant(7))
        self.assertEqual(self.run_([a, b]), [2, 4])

    def test_nested_and_conditional_within(self):
        def body(i, v):
            return raw.add_v2(i, 1), tf.cond(raw.equal(raw.mod(i, 2), 0), lambda: raw.mul(v, self.x), lambda: self.power(2, v))
        _, y = tf.while_loop(lambda i, v: raw.less(i, 4), body, [tf.constant(0), tf.constant(1.0)])
        dx, = tf.gradients(y, self.x)
        self.assertEqual(self.run_([y, dx]), [729, 1458])

    def test_conditional_decided_outside(self):
        pred = tf.placeholder(tf.bool, [])

        def choice(v):
            return tf.cond(pred, lambda: v * 2.0, lambda: tf.constant(10.0))
        _, y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, choice(v)), [0, self.x])
        dx, = tf.gradients(y, self.x)
        self.assertEqual(self.run_([y, dx], {pred: True}), [24, 8])
        self.assertEqual(self.run_([y, dx], {pred: False}), [10, 0])
        _, slope = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.gradients(choice(v), v)[0]), [0, self.x])
        self.assertEqual(self.run_(slope, {pred: True}), 2)
        self.assertEqual(self.run_(slope, {pred: False}), 0)

    def test_loop_within_a_branch(self):
        pred = raw.placeholder(tf.bool, shape=[])
        y = tf.cond(pred, lambda: self.power(5), lambda: raw.mul(self.x, 2.0))
        dx, = tf.gradients(y, self.x)
        self.assertEqual(self.run_([y, dx], {pred: True}), [243, 405])
        self.assertEqual(self.run_([y, dx], {pred: False}), [6, 2])

    def test_shapes(self):
        def grow(v):
            return raw.concat_v2([v, v], 0)
        start = tf.constant([1.0])
        with self.assertRaisesRegex(ValueError, "shape_invariants"):
            tf.while_loop(lambda v: raw.less(raw.size(v), 4), grow, [start])
        y = tf.while_loop(lambda v: raw.less(raw.size(v), 4), grow, [start], shape_invariants=[tf.TensorShape([None])])
        self.assertEqual(y.shape.as_list(), [None])
        dx, = tf.gradients(y, start)
        value, gradient = self.run_([y, dx])
        np.testing.assert_array_equal(value, [1, 1, 1, 1])
        np.testing.assert_array_equal(gradient, [4])
        with self.assertRaisesRegex(ValueError, "shape invariant"):
            tf.while_loop(lambda v: True, grow, [start], shape_invariants=[tf.TensorShape([2])])

    def test_sparse_variables(self):
        s = tf.SparseTensor([[0, 0]], [1.0], [2, 2])
        i, out = tf.while_loop(lambda i, s: raw.less(i, 3),
                               lambda i, s: (i + 1, tf.SparseTensor(s.indices, s.values * 2.0, s.dense_shape)),
                               [tf.constant(0), s])
        np.testing.assert_array_equal(self.run_(out).values, [8])

    def test_control_dependencies_from_outside(self):
        outer = tf.no_op()

        def body(i):
            with tf.control_dependencies([outer]):
                return raw.add_v2(i, tf.constant(1))
        with tf.control_dependencies([tf.constant(7)]):
            y = tf.while_loop(lambda i: raw.less(i, 3), body, [tf.constant(0)])
        self.assertEqual(self.run_(y), 3)

    def test_control_dependencies_in_an_inner_loop(self):
        """A value that the outer loop has taken in already enters the inner one behind an operation of the inner one."""
        two = tf.constant(2.0)

        def inner(i, x):
            with tf.control_dependencies([x]):
                return i + 1, x + two

        def outer(i, x):
            return i + 1, tf.while_loop(lambda i, x: i < 2, inner, [0, x + two])[1]

        self.assertEqual(self.run_(tf.while_loop(lambda i, x: i < 2, outer, [0, 0.0])), (2, 12.0))

    def test_condition_reads_a_variable_that_the_body_changes(self):
        v = tf.Variable(0, use_resource=False)

        def body(i):
            with tf.control_dependencies([v.assign_add(2)]):
                return i + 1

        turns = tf.while_loop(lambda i: v < 7, body, [0])
        with tf.Session() as sess:
            sess.run(v.initializer)
            self.assertEqual(sess.run([turns, turns]), [4, 4])
            self.assertEqual(sess.run(v), 8)

    def test_gradients_within_the_body(self):
        def body(i, v):
            slope, = tf.gradients(raw.mul(v, v), v)
            return raw.add_v2(i, 1), raw.sub(v, raw.mul(slope, 0.25))
        _, y = tf.while_loop(lambda i, v: raw.less(i, 3), body, [tf.constant(0), tf.constant(8.0)])
        self.assertEqual(self.run_(y), 1)

    def test_without_gradients(self):
        y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * self.x), [0, self.x], back_prop=False)[1]
        self.assertEqual(tf.gradients(y, self.x), [None])
        self.assertEqual(self.run_(tf.gradients(y * self.x, self.x)), [81])

    def test_values_of_a_loop_are_only_there(self):
        inside = []
        tf.while_loop(lambda i: i < 3, lambda i: inside.append(i + 1) or inside[0], [0])
        with self.assertRaisesRegex(ValueError, "while/add.* is in a while loop"):
            tf.negative(inside[0])
        with self.assertRaisesRegex(ValueError, "different while loops"):
            tf.while_loop(lambda i: i < 3, lambda i: i + inside[0], [0])

    def test_graph_is_as_before_after_an_error_in_the_body(self):
        def body(v):
            raise RuntimeError("in the body")
        with self.assertRaisesRegex(RuntimeError, "in the body"):
            tf.while_loop(lambda v: True, body, [0])
        self.assertEqual(self.run_(tf.constant(4, name="after") + 1), 5)
        self.assertEqual(tf.get_default_graph().get_name_scope(), "")

    def test_in_several_runs_and_grown_graphs(self):
        with tf.Session() as s:
            y = self.power(3)
            self.assertEqual(s.run(y), 27)
            dx, = tf.gradients(y, self.x)
            self.assertEqual([s.run(dx) for _ in range(3)], [27, 27, 27])
            z = self.power(2, y)
            self.assertEqual(s.run([z] + tf.gradients(z, self.x)), [243, 405])

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "No loop variables"):
            tf.while_loop(lambda: True, lambda: 1, [])
        with self.assertRaisesRegex(TypeError, "cond must be callable"):
            tf.while_loop(1, lambda: 1, [1])
        with self.assertRaises(ValueError):
            tf.while_loop(lambda a, b: True, lambda a, b: [a], [tf.constant(1), tf.constant(2)])
        with self.assertRaisesRegex(TypeError, "type"):
            tf.while_loop(lambda a: True, lambda a: raw.cast(a, DstT=tf.float32), [tf.constant(1)])


class ThreadsTest(Case):
    def test_threads_build_one_graph(self):
        graph, results, barrier = tf.get_default_graph(), [], threading.Barrier(4)

        def build(n):
            with graph.as_default():
                barrier.wait()
                for _ in range(10):
                    with tf.name_scope("thread%d" % n):
                        x = tf.constant(float(n))
                        _, y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (
                            i + 1, tf.cond(i > 0, lambda: v * x, lambda: v)), [0, x])
                    results.append((n, x, y))
        threads = [threading.Thread(target=build, args=(n,)) for n in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(results), 40)
        for (n, x, _), value in zip(results, self.run_([y for _, _, y in results])):
            self.assertEqual((value, x.name.partition("_")[0].partition("/")[0]), (n ** 3, "thread%d" % n))


class OrderTest(Case):
    def test_group_and_tuple(self):
        a, b = tf.constant(1), tf.constant(2)
        op = tf.group(a, [b], name="both")
        self.assertEqual((op.name, op.type, {o.name for o in op.control_inputs}), ("both", "NoOp", {"Const", "Const_1"}))
        x, none, y = tf.tuple([a, None, b])
        self.assertIsNone(none)
        self.assertEqual(self.run_([x, y]), [1, 2])
        with self.assertRaises(TypeError):
            tf.group(a, None)

    def test_group_has_one_operation_a_device(self):
        with tf.device("/job:ps/task:0"):
            a = tf.constant(1)
        with tf.device("/job:ps/task:1"):
            b = tf.constant(1)
        op = tf.group(a, b)
        self.assertEqual(sorted(o.device for o in op.control_inputs), ["/job:ps/task:0", "/job:ps/task:1"])

    def test_group_is_linear(self):
        """In what it makes and in how often it asks for a device, over devices that take turns."""
        from millrace.framework import ops

        def cost(n):
            with tf.Graph().as_default() as g:
                members = []
                for i in range(n):
                    with tf.device("/cpu:%d" % (i % 2)):
                        members.append(tf.no_op())
                asked, device = [], ops.Operation.device
                with mock.patch.object(ops.Operation, "device", property(lambda op: asked.append(op) or device.__get__(op))):
                    done = tf.group(*members)
                new = g.get_operations()[n:]
                edges = sum(len(op.inputs) + len(op.control_inputs) for op in new)
                self.assertEqual(edges, n + 2)
                self.assertEqual([len(op.control_inputs) for op in done.control_inputs], [n // 2, n // 2])
                return len(new), len(asked)

        (nodes, asked), (more_nodes, more_asked) = cost(1000), cost(3000)
        self.assertEqual((nodes, more_nodes), (3, 3))
        self.assertLessEqual(more_asked - asked, 2 * 2000)

    def test_assert(self):
        x = raw.placeholder(tf.float32, shape=[])
        check = tf.Assert(raw.less(x, 1.0), ["too big:", x])
        self.run_(check, {x: 0})
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "too big"):
            self.run_(check, {x: 2})


class PrintTest(Case):
    def printed(self, *args, **kwargs):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            op = tf.print(*args, output_stream="file://" + path, **kwargs)
            self.run_(op)
            with open(path) as f:
                return f.read()

    def test_print(self):
        self.assertEqual(self.printed("x:", tf.constant([1, 2, 3]), 4), "x: [1 2 3] 4\n")
        self.assertEqual(self.printed("a", "b", sep="-", end="!"), "a-b!")
        self.assertEqual(self.printed("{}", 1.5), "{} 1.5\n")
        self.assertEqual(self.printed([tf.constant(1), {"k": "v"}]), "[1, {'k': 'v'}]\n")
        self.assertEqual(self.printed(tf.range(10)), "[0 1 2 ... 7 8 9]\n")
        self.assertEqual(self.printed(tf.constant("text")), "text\n")
        with self.assertRaises(ValueError):
            tf.print("a", output_stream="nowhere")
        with self.assertRaises(ValueError):
            tf.print("a", colour="red")

    def test_old_print_passes_its_input_on(self):
        self.assertEqual(self.run_(tf.Print(tf.constant(3), [tf.constant(1)], message="seen: ", first_n=0)), 3)


class NestTest(unittest.TestCase):
    def test_flatten_and_pack(self):
        s = {"b": [1, (2, 3)], "a": 4}
        self.assertEqual(nest.flatten(s), [4, 1, 2, 3])
        self.assertEqual(nest.pack_sequence_as(s, list("wxyz")), {"a": "w", "b": ["x", ("y", "z")]})
        self.assertEqual(nest.map_structure(lambda a, b: a + b, [1, (2,)], [3, (4,)]), [4, (6,)])
        with self.assertRaises(ValueError):
            nest.assert_same_structure([1, 2], [1])
        with self.assertRaises(TypeError):
            nest.assert_same_structure([1, 2], (1, 2))
        self.assertEqual(nest.flatten_up_to([0, 0], [[1, 2], 3]), [[1, 2], 3])


if __name__ == "__main__":
    unittest.main()
