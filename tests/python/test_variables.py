"""Variables of both kinds: making, reading, changing, what is known of them, and their messages."""

import unittest

import numpy as np

import millrace as tf


class Case(unittest.TestCase):
    """A new graph for each test."""

    use_resource = None

    def setUp(self):
        self._graph = tf.Graph().as_default()
        self._graph.__enter__()

    def tearDown(self):
        self._graph.__exit__(None, None, None)

    def session(self):
        s = tf.Session()
        s.run(tf.global_variables_initializer())
        self.addCleanup(s.close)
        return s

    def names(self):
        return [op.name for op in tf.get_default_graph().get_operations()]


class BothKinds:
    """What does not depend on the kind."""

    def variable(self, value, **kwargs):
        return tf.Variable(value, use_resource=self.use_resource, **kwargs)

    def test_holds_its_initial_value(self):
        v = self.variable([1.0, 2.0])
        np.testing.assert_array_equal(self.session().run(v), [1, 2])

    def test_is_a_variable(self):
        self.assertIsInstance(self.variable(1.0), tf.Variable)

    def test_default_names_differ(self):
        self.assertEqual([self.variable(0.0).name for _ in range(3)], ["Variable:0", "Variable_1:0", "Variable_2:0"])

    def test_name_scopes_are_in_front(self):
        with tf.name_scope("outer"):
            self.assertEqual(self.variable(0.0, name="v").name, "outer/v:0")

    def test_initial_value_may_be_a_function(self):
        v = self.variable(lambda: tf.ones([2]), name="v")
        self.assertEqual(v.initial_value.op.name, "v/Initializer/ones")
        np.testing.assert_array_equal(self.session().run(v), [1, 1])

    def test_dtype_is_asked_for(self):
        self.assertEqual(self.variable(1, dtype=tf.int64).dtype.base_dtype, tf.int64)

    def test_no_initial_value(self):
        with self.assertRaisesRegex(ValueError, "initial_value must be specified"):
            self.variable(None)

    def test_collections(self):
        a, b = self.variable(1.0), self.variable(1.0, trainable=False)
        c = self.variable(1.0, collections=["mine"], trainable=False)
        self.assertEqual(tf.global_variables(), [a, b])
        self.assertEqual(tf.trainable_variables(), [a])
        self.assertEqual(tf.get_collection("mine"), [c])
        with self.assertRaises(ValueError):
            self.variable(1.0, collections="variables")

    def test_local_variables(self):
        v = self.variable(4.0, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
        with tf.Session() as s:
            s.run(tf.local_variables_initializer())
            self.assertEqual(s.run(v), 4)
        self.assertEqual(tf.global_variables(), [])

    def test_assignments_give_the_new_value(self):
        v = self.variable(1.0)
        s = self.session()
        self.assertEqual(s.run(v.assign(5.0)), 5)
        self.assertEqual(s.run(v.assign_add(2.0)), 7)
        self.assertEqual(s.run(v.assign_sub(3.0)), 4)
        self.assertEqual(s.run(tf.assign(v, 8.0)), 8)
        self.assertEqual(s.run(tf.assign_add(v, 1.0)), 9)
        self.assertEqual(s.run(tf.assign_sub(v, 4.0)), 5)
        self.assertIsNone(s.run(v.assign(1.0).op))
        self.assertEqual(s.run(v), 1)

    def test_assign_may_give_the_operation(self):
        v = self.variable(1.0)
        op = v.assign(2.0, read_value=False)
        self.assertIsInstance(op, tf.Operation)
        s = self.session()
        s.run(op)
        self.assertEqual(s.run(v), 2)

    def test_wrong_shapes_are_refused(self):
        v = self.variable([1.0, 2.0])
        with self.assertRaises(ValueError):
            v.assign([1.0, 2.0, 3.0])

    def test_wrong_types_are_refused(self):
        v = self.variable([1.0, 2.0])
        with self.assertRaises((TypeError, ValueError)):
            v.assign(tf.constant([1, 2]))

    def test_arithmetic(self):
        v = self.variable([2.0, 4.0])
        s = self.session()
        for made, expected in ((v + 1, [3, 5]), (1 + v, [3, 5]), (v - 1, [1, 3]), (1 - v, [-1, -3]), (v * v, [4, 16]),
                               (v / 2, [1, 2]), (8 / v, [4, 2]), (v // 3, [0, 1]), (v % 3, [2, 1]), (v ** 2, [4, 16]),
                               (-v, [-2, -4]), (abs(-v), [2, 4]), (v > 3, [False, True]), (v <= 2, [True, False]),
                               (np.array([1, 1], np.float32) + v, [3, 5]), (tf.constant([1.0, 1.0]) + v, [3, 5])):
            np.testing.assert_array_equal(s.run(made), expected)

    def test_slices_are_read_and_changed(self):
        v = self.variable([[1.0, 2.0], [3.0, 4.0]])
        s = self.session()
        np.testing.assert_array_equal(s.run(v[1]), [3, 4])
        np.testing.assert_array_equal(s.run(v[:, 0]), [1, 3])
        np.testing.assert_array_equal(s.run(v[0, 1].assign(9.0)), [[1, 9], [3, 4]])
        np.testing.assert_array_equal(s.run(v[1].assign([0.0, 0.0])), [[1, 9], [0, 0]])

    def test_is_not_iterable(self):
        with self.assertRaises(TypeError):
            iter(self.variable([1.0, 2.0]))

    def test_scatter_methods(self):
        v = self.variable([1.0, 2.0, 4.0])
        s = self.session()
        rows = tf.IndexedSlices(tf.constant([10.0, 2.0]), tf.constant([0, 2]))
        for method, expected in (("scatter_add", [11, 2, 6]), ("scatter_sub", [-9, 2, 2]), ("scatter_mul", [10, 2, 8]),
                                 ("scatter_div", [.1, 2, 2]), ("scatter_max", [10, 2, 4]), ("scatter_min", [1, 2, 2]),
                                 ("scatter_update", [10, 2, 2])):
            s.run(v.initializer)
            np.testing.assert_allclose(s.run(getattr(v, method)(rows)), expected, rtol=1e-6, err_msg=method)
        with self.assertRaises(ValueError):
            v.scatter_add(tf.constant([1.0]))

    def test_scatter_functions(self):
        v = self.variable([1.0, 2.0, 4.0])
        s = self.session()
        for f, expected in ((tf.scatter_add, [1, 5, 4]), (tf.scatter_sub, [1, -1, 4]), (tf.scatter_mul, [1, 6, 4]),
                            (tf.scatter_div, [1, 2 / 3, 4]), (tf.scatter_max, [1, 3, 4]), (tf.scatter_min, [1, 2, 4]),
                            (tf.scatter_update, [1, 3, 4])):
            s.run(v.initializer)
            np.testing.assert_allclose(s.run(f(v, [1], [3.0])), expected, rtol=1e-6, err_msg=f.__name__)
        for f, expected in ((tf.scatter_nd_add, [1, 5, 4]), (tf.scatter_nd_sub, [1, -1, 4]), (tf.scatter_nd_update, [1, 3, 4])):
            s.run(v.initializer)
            np.testing.assert_allclose(s.run(f(v, [[1]], [3.0])), expected, err_msg=f.__name__)

    def test_batch_scatter_update(self):
        v = self.variable([[1.0, 2.0], [3.0, 4.0]])
        out = tf.batch_scatter_update(v, [[1], [0]], [[20.0], [30.0]])
        np.testing.assert_array_equal(self.session().run(out), [[1, 20], [30, 4]])

    def test_count_up_to(self):
        v = self.variable(0, trainable=False)
        s, count = self.session(), v.count_up_to(2)
        self.assertEqual([s.run(count), s.run(count), s.run(v)], [0, 1, 2])
        with self.assertRaises(tf.errors.OutOfRangeError):
            s.run(count)

    def test_load_and_eval(self):
        v = self.variable([1.0, 2.0])
        with self.session().as_default():
            v.load([3.0, 4.0])
            np.testing.assert_array_equal(v.eval(), [3, 4])
        with self.assertRaises(ValueError):
            v.load([3.0, 4.0])

    def test_reading_before_it_has_a_value(self):
        v = self.variable([1.0, 2.0])
        with tf.Session() as s:
            self.assertFalse(s.run(tf.is_variable_initialized(v)))
            with self.assertRaises(tf.errors.FailedPreconditionError):
                s.run(v)
            s.run(v.initializer)
            self.assertTrue(s.run(tf.is_variable_initialized(v)))

    def test_report_uninitialized_variables(self):
        a, b = self.variable(1.0, name="a"), self.variable(1.0, name="b")
        left = tf.report_uninitialized_variables()
        with tf.Session() as s:
            self.assertEqual(list(s.run(left)), [b"a", b"b"])
            s.run(a.initializer)
            self.assertEqual(list(s.run(left)), [b"b"])
            s.run(tf.variables_initializer([b]))
            self.assertEqual(list(s.run(left)), [])

    def test_read_value_after_a_change(self):
        v = self.variable(1.0)
        with tf.control_dependencies([v.assign(6.0)]):
            now = v.read_value()
        self.assertEqual(self.session().run(now), 6)

    def test_message_and_back(self):
        v = self.variable([1.0, 2.0], name="v", trainable=False)
        d = v.to_proto()
        self.assertEqual((d.variable_name, d.initializer_name, d.trainable), ("v:0", "v/Assign", False))
        again = tf.Variable.from_proto(d)
        self.assertEqual(again.name, "v:0")
        self.assertIs(type(again), type(v))
        s = self.session()
        np.testing.assert_array_equal(s.run(again.assign([5.0, 6.0])), [5, 6])
        np.testing.assert_array_equal(s.run(v), [5, 6])
        self.assertIsNone(v.to_proto(export_scope="elsewhere"))

    def test_constraint_must_be_callable(self):
        with self.assertRaises(ValueError):
            self.variable(1.0, constraint=1)

    def test_made_outside_of_control_dependencies(self):
        first = tf.no_op() if hasattr(tf, "no_op") else tf.raw_ops.no_op()
        with tf.control_dependencies([first]):
            v = self.variable(1.0, name="v")
        self.assertEqual(list(v.initializer.control_inputs), [])

    def test_creators_of_a_scope(self):
        seen = []

        def creator(next_creator, **kwargs):
            seen.append(kwargs["name"])
            kwargs["name"] = "other"
            return next_creator(**kwargs)

        with tf.variable_creator_scope(creator):
            v = self.variable(1.0, name="v")
        self.assertEqual((v.name, seen, self.variable(1.0, name="w").name), ("other:0", ["v"], "w:0"))

    def test_colocated_with_itself(self):
        v = self.variable(1.0, name="v")
        self.assertEqual(v.initializer.colocation_groups(), [b"loc:@v"])

    def test_caching_device(self):
        v = self.variable(3.0, caching_device="/cpu:0", name="v")
        self.assertEqual(self.session().run(v + 1), 4)

    def test_strings_and_bools(self):
        a, b = self.variable(["x", "yz"]), self.variable(True, trainable=False)
        s = self.session()
        self.assertEqual(list(s.run(a)), [b"x", b"yz"])
        self.assertEqual(s.run(b), True)


class OtherVariables(Case):
    """Initial values that are made of other variables."""

    def test_in_any_order(self):
        a = tf.Variable(2.0, name="a")
        b = tf.Variable(a * 3, name="b")
        c = tf.Variable(b.initialized_value() + a, name="c")
        with tf.Session() as s:
            s.run(c.initializer)
            self.assertEqual(s.run(c), 8)
            s.run([a.initializer, b.initializer])
            self.assertEqual(s.run([a, b]), [2, 6])

    def test_resources(self):
        a = tf.Variable(2.0, name="a", use_resource=True)
        b = tf.Variable(a + 1, name="b", use_resource=True)
        with tf.Session() as s:
            s.run(b.initializer)
            self.assertEqual(s.run(b), 3)

    def test_initialized_value_of_one_that_was_changed(self):
        a = tf.Variable(2.0)
        value = a.initialized_value()
        with tf.Session() as s:
            self.assertEqual(s.run(value), 2)
            s.run(a.assign(5.0).op)
            self.assertEqual(s.run(value), 5)

    def test_not_from_inside_a_conditional(self):
        def branch():
            return tf.Variable(tf.constant(1.0)) + 1

        with self.assertRaisesRegex(ValueError, "use a lambda as the initializer"):
            tf.cond(tf.constant(True), branch, lambda: tf.constant(0.0))


class RefVariables(BothKinds, Case):
    use_resource = False

    def test_operations(self):
        tf.Variable([1.0, 2.0], name="v")
        self.assertEqual(self.names(), ["v/initial_value", "v", "v/Assign", "v/read"])

    def test_is_a_reference(self):
        v = tf.Variable(1.0)
        self.assertEqual(v.op.type, "VariableV2")
        self.assertEqual(v.dtype.name, "float32_ref")
        self.assertEqual(repr(v), "<tf.Variable 'Variable:0' shape=() dtype=float32_ref>")
        self.assertEqual(v.value().dtype, tf.float32)

    def test_shapes_may_change(self):
        v = tf.Variable([1.0, 2.0], validate_shape=False)
        self.assertIsNone(v.shape.ndims)
        s = self.session()
        np.testing.assert_array_equal(s.run(tf.assign(v, [1.0, 2.0, 3.0], validate_shape=False)), [1, 2, 3])

    def test_shape_must_be_known(self):
        with self.assertRaisesRegex(ValueError, "must have a shape specified"):
            tf.Variable(tf.placeholder(tf.float32, [None]))


class ResourceVariables(BothKinds, Case):
    use_resource = True

    def test_a_read_of_what_was_assigned_comes_after_it(self):
        v = self.variable(1.0)
        now = v.assign_add(2.0).read_value()
        self.assertEqual((now.op.type, [o.type for o in now.op.control_inputs]), ("ReadVariableOp", ["AssignAddVariableOp"]))
        s = self.session()
        self.assertEqual([s.run(now), s.run(now), s.run(v)], [3, 5, 5])

    def test_what_was_assigned_has_the_methods_of_the_variable(self):
        v = self.variable([1.0, 2.0])
        changed = v.assign([3.0, 4.0])
        self.assertEqual((changed.shape.as_list(), changed.dtype, changed.op.type), ([2], tf.float32, "AssignVariableOp"))
        s = self.session()
        np.testing.assert_array_equal(s.run(changed.value() * 2), [6, 8])
        s.run(v.initializer)
        np.testing.assert_array_equal(s.run(changed.sparse_read([1])), [4])
        s.run(v.initializer)
        np.testing.assert_array_equal(s.run(changed[1]), 4)

    def test_changes_of_what_was_assigned_come_after_it(self):
        v = self.variable(1.0)
        third = v.assign(5.0).assign_add(2.0).assign_sub(1.0)
        self.assertEqual(self.session().run(third), 6)
        rows = self.variable([1.0, 2.0])
        both = rows.assign([5.0, 6.0]).scatter_add(tf.IndexedSlices(tf.constant([1.0]), tf.constant([0])))
        np.testing.assert_array_equal(self.session().run(both), [6, 6])

    def test_what_was_assigned_is_fetched_from_a_finalized_graph(self):
        v = self.variable(1.0)
        changed = v.assign_add(1.0)
        s = self.session()
        tf.get_default_graph().finalize()
        self.assertEqual(s.run(changed), 2)

    def test_assignment_outside_of_its_graph(self):
        v = self.variable(1.0)
        with tf.Graph().as_default():
            changed = v.assign(4.0)
        self.assertEqual(self.session().run(changed), 4)

    def test_operations(self):
        tf.Variable([1.0, 2.0], name="v", use_resource=True)
        self.assertEqual(self.names(), ["v/Initializer/initial_value", "v", "v/IsInitialized/VarIsInitializedOp", "v/Assign",
                                        "v/Read/ReadVariableOp"])

    def test_is_a_handle(self):
        v = tf.Variable([1.0, 2.0], use_resource=True)
        self.assertEqual((v.op.type, v.dtype, v.handle.dtype), ("VarHandleOp", tf.float32, tf.resource))
        self.assertEqual(v.value().shape, [2])

    def test_rows_are_read(self):
        v = tf.Variable([[1.0], [2.0], [3.0]], use_resource=True)
        rows = tf.gather(v, [2, 0])
        np.testing.assert_array_equal(self.session().run(rows), [[3], [1]])
        self.assertIn("ResourceGather", [op.type for op in tf.get_default_graph().get_operations()])

    def test_waiting_for_a_change_reads_nothing(self):
        v = tf.Variable(1.0, use_resource=True)
        change = v.assign_add(1.0)
        self.assertEqual([op.type for op in tf.group(change).control_inputs], ["AssignAddVariableOp"])
        with tf.control_dependencies([change]):
            self.assertEqual([op.type for op in tf.no_op().control_inputs], ["AssignAddVariableOp"])

    def test_changed_from_elsewhere(self):
        v = tf.Variable(1.0, use_resource=True)
        with tf.Graph().as_default():
            change = v.assign(2.0)
        self.assertEqual(self.session().run(change), 2)

    def test_gradients_of_a_variable(self):
        v = tf.Variable(3.0, use_resource=True)
        self.assertEqual(self.session().run(tf.gradients(v, v)), [1])

    def test_made_by_default_where_enabled(self):
        tf.enable_resource_variables()
        try:
            self.assertEqual(tf.Variable(1.0).op.type, "VarHandleOp")
            self.assertEqual(tf.Variable(1.0, use_resource=False).op.type, "VariableV2")
        finally:
            tf.disable_resource_variables()
        self.assertEqual(tf.Variable(1.0).op.type, "VariableV2")


if __name__ == "__main__":
    unittest.main()
