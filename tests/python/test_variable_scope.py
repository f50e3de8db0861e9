"""get_variable and variable_scope: names, sharing, what scopes hand down, parts of variables, templates."""

import threading
import unittest

import numpy as np

import millrace as tf


class Case(unittest.TestCase):
    """A new graph for each test."""

    def setUp(self):
        self._graph = tf.Graph().as_default()
        self._graph.__enter__()

    def tearDown(self):
        self._graph.__exit__(None, None, None)

    def values(self, *fetches):
        with tf.Session() as s:
            s.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            return s.run(list(fetches))


class Names(Case):
    def test_scopes_are_in_front(self):
        with tf.variable_scope("a"):
            with tf.variable_scope("b/c"):
                v = tf.get_variable("v", [])
        self.assertEqual(v.name, "a/b/c/v:0")

    def test_name_scopes_are_not(self):
        with tf.name_scope("n"), tf.variable_scope("a"):
            self.assertEqual(tf.get_variable("v", []).name, "a/v:0")
            self.assertEqual(tf.constant(1.0, name="c").name, "n/a/c:0")

    def test_initializers_are_beside_the_variable(self):
        with tf.name_scope("n"), tf.variable_scope("a"):
            v = tf.get_variable("v", [2])
        self.assertEqual(v.initial_value.op.name, "a/v/Initializer/random_uniform")
        self.assertEqual(v.initializer.name, "a/v/Assign")

    def test_name_scopes_of_scopes_that_are_entered_again(self):
        def inner():
            with tf.name_scope("in") as scope:
                return scope

        with tf.name_scope("first"):
            with tf.variable_scope("tower") as tower:
                self.assertEqual(inner(), "first/tower/in/")
                self.assertEqual(tower.original_name_scope, "first/tower/")
            with tf.variable_scope(tower) as again:
                self.assertEqual(inner(), "first/tower_1/in/")
                self.assertEqual(again.original_name_scope, "first/tower/")
            with tf.variable_scope("tower"):
                self.assertEqual(inner(), "first/tower_2/in/")
        with tf.name_scope("second"):
            with tf.variable_scope("tower"):
                self.assertEqual(inner(), "second/tower/in/")
            with tf.variable_scope(tower):
                self.assertEqual(inner(), "second/tower_1/in/")

    def test_entering_the_root_scope(self):
        root = tf.get_variable_scope()
        with tf.variable_scope("a"):
            with tf.variable_scope(root):
                self.assertEqual(tf.get_variable("v", []).name, "v:0")
                with tf.name_scope("n") as scope:
                    self.assertEqual(scope, "a/n/")

    def test_without_a_name_scope(self):
        with tf.variable_scope("a", auxiliary_name_scope=False) as a:
            self.assertEqual(tf.constant(1.0, name="c").name, "c:0")
            self.assertEqual(a.original_name_scope, "")
            self.assertEqual(tf.get_variable("v", []).name, "a/v:0")
        with tf.name_scope("n"):
            with tf.variable_scope(a, auxiliary_name_scope=False):
                self.assertEqual(tf.constant(1.0, name="c").name, "n/c:0")
        with self.assertRaises(TypeError):
            tf.variable_scope("a", auxiliary_name_scope="no")

    def test_default_names_are_unique(self):
        names = []
        for _ in range(3):
            with tf.variable_scope(None, "layer"):
                names.append(tf.get_variable("w", []).name)
        self.assertEqual(names, ["layer/w:0", "layer_1/w:0", "layer_2/w:0"])

    def test_default_names_begin_anew_in_a_scope_that_is_entered_again(self):
        def two():
            names = []
            for _ in range(2):
                with tf.variable_scope(None, "layer"):
                    names.append(tf.get_variable("w", []).name)
            return names

        with tf.variable_scope("outer") as outer:
            first = two()
        self.assertEqual(first, ["outer/layer/w:0", "outer/layer_1/w:0"])
        with tf.variable_scope("outer", reuse=True):
            self.assertEqual(two(), first)
        with tf.variable_scope(outer, reuse=True):
            self.assertEqual(two(), first)

    def test_names_that_begin_alike(self):
        names = []
        for default in ("s1", "s1", "s", "s1"):
            with tf.variable_scope(None, default), tf.variable_scope(None, "layer"):
                names.append(tf.get_variable("w", []).name)
        self.assertEqual(names, ["s1/layer/w:0", "s1_1/layer/w:0", "s/layer/w:0", "s1_2/layer/w:0"])

    def test_older_order_of_arguments(self):
        x = tf.constant(1.0)
        with tf.variable_op_scope([x], None, "layer") as scope:
            self.assertEqual(scope.name, "layer")

    def test_neither_name_nor_default(self):
        with self.assertRaises(TypeError):
            tf.variable_scope(None)
        with self.assertRaises(TypeError):
            tf.variable_scope(3)
        with self.assertRaises(ValueError):
            with tf.variable_scope(None, "layer", reuse=True):
                pass

    def test_each_thread_has_its_scope(self):
        graph, names = tf.get_default_graph(), []

        def run():
            with graph.as_default():
                names.append(tf.get_variable_scope().name)

        with tf.variable_scope("a"):
            t = threading.Thread(target=run)
            t.start()
            t.join()
        self.assertEqual(names, [""])

    def test_left_in_another_order(self):
        scope = tf.variable_scope("a")
        scope.__enter__()
        with tf.variable_scope("b"):
            with self.assertRaises(RuntimeError):
                scope.__exit__(None, None, None)
        scope.__exit__(None, None, None)

    def test_after_an_error_the_scope_is_left(self):
        with self.assertRaises(KeyError):
            with tf.variable_scope("a"):
                raise KeyError
        self.assertEqual(tf.get_variable_scope().name, "")


class Sharing(Case):
    def test_no_two_of_a_name(self):
        tf.get_variable("v", [])
        with self.assertRaisesRegex(ValueError, "Variable v already exists, disallowed. Did you mean to set reuse=True or "
                                                "reuse=tf.AUTO_REUSE in VarScope?"):
            tf.get_variable("v", [])

    def test_reuse(self):
        with tf.variable_scope("a"):
            v = tf.get_variable("v", [2])
        with tf.variable_scope("a", reuse=True):
            self.assertIs(tf.get_variable("v", [2]), v)
            self.assertIs(tf.get_variable("v"), v)
            with self.assertRaisesRegex(ValueError, "Variable a/w does not exist, or was not created with tf.get_variable"):
                tf.get_variable("w", [2])
            with self.assertRaisesRegex(ValueError, "Trying to share variable a/v, but specified shape"):
                tf.get_variable("v", [3])
            with self.assertRaisesRegex(ValueError, "Trying to share variable a/v, but specified dtype"):
                tf.get_variable("v", [2], tf.int32)

    def test_reuse_is_handed_down(self):
        with tf.variable_scope("a"), tf.variable_scope("b"):
            v = tf.get_variable("v", [])
        with tf.variable_scope("a", reuse=True), tf.variable_scope("b", reuse=False) as scope:
            self.assertIs(scope.reuse, True)
            self.assertIs(tf.get_variable("v", []), v)

    def test_reuse_from_here_on(self):
        with tf.variable_scope("a") as scope:
            v = tf.get_variable("v", [])
            scope.reuse_variables()
            self.assertIs(tf.get_variable("v", []), v)
        v = tf.get_variable("v", [])
        tf.get_variable_scope().reuse_variables()
        self.assertIs(tf.get_variable("v", []), v)

    def test_make_or_reuse(self):
        for _ in range(2):
            with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
                tf.get_variable("v", [])
        self.assertEqual([v.name for v in tf.global_variables()], ["a/v:0"])

    def test_variables_of_the_constructor_are_not_shared(self):
        tf.Variable(1.0, name="v")
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            with self.assertRaises(ValueError):
                tf.get_variable("v", [])
        self.assertEqual(tf.get_variable("v", []).name, "v_1:0")

    def test_graphs_are_apart(self):
        a = tf.get_variable("v", [])
        with tf.Graph().as_default():
            b = tf.get_variable("v", [])
        self.assertIsNot(a, b)


class Making(Case):
    def test_default_initializers(self):
        f, i, b = tf.get_variable("f", [100, 100]), tf.get_variable("i", [2], tf.int32), tf.get_variable("b", [2], tf.bool)
        f, i, b = self.values(f, i, b)
        limit = np.sqrt(6 / 200)
        self.assertTrue(np.all(np.abs(f) <= limit) and np.max(f) > 0.9 * limit)
        np.testing.assert_array_equal(i, [0, 0])
        np.testing.assert_array_equal(b, [False, False])

    def test_initial_values(self):
        a = tf.get_variable("a", initializer=[1.0, 2.0])
        b = tf.get_variable("b", initializer=tf.constant(3))
        c = tf.get_variable("c", initializer=np.ones([2], np.float64))
        d = tf.get_variable("d", initializer=lambda: tf.zeros([3]))
        e = tf.get_variable("e", [2], initializer=tf.ones_initializer)
        f = tf.get_variable("f", [2], initializer=lambda shape, dtype, partition_info: tf.fill(shape, tf.cast(7, dtype)))
        self.assertEqual([v.dtype.base_dtype for v in (a, b, c)], [tf.float32, tf.int32, tf.float64])
        for got, expected in zip(self.values(a, b, c, d, e, f), ([1, 2], 3, [1, 1], [0, 0, 0], [1, 1], [7, 7])):
            np.testing.assert_array_equal(got, expected)

    def test_value_and_shape_are_too_much(self):
        with self.assertRaisesRegex(ValueError, "If initializer is a constant, do not specify shape."):
            tf.get_variable("a", [2], initializer=[1.0, 2.0])

    def test_value_of_another_type(self):
        with self.assertRaisesRegex(ValueError, "Initializer type .* and explicit dtype .* don't match"):
            tf.get_variable("a", dtype=tf.float32, initializer=[1, 2])

    def test_shape_must_be_known(self):
        with self.assertRaisesRegex(ValueError, "should be fully defined"):
            tf.get_variable("a", [None, 2])

    def test_collections(self):
        v = tf.get_variable("v", [], trainable=False, collections=["mine", tf.GraphKeys.GLOBAL_VARIABLES])
        w = tf.get_local_variable("w", [])
        self.assertEqual((tf.get_collection("mine"), tf.trainable_variables(), tf.local_variables()), ([v], [], [w]))

    def test_members_of_a_scope(self):
        with tf.variable_scope("ab"):
            tf.get_variable("v", [])
        with tf.variable_scope("a") as a:
            v = tf.get_variable("v", [])
            w = tf.get_variable("w", [], trainable=False)
        self.assertEqual((a.global_variables(), a.trainable_variables()), ([v, w], [v]))


class Inheriting(Case):
    def test_initializer(self):
        with tf.variable_scope("a", initializer=tf.constant_initializer(4.0)):
            v = tf.get_variable("v", [])
            with tf.variable_scope("b"):
                w = tf.get_variable("w", [])
                x = tf.get_variable("x", [], initializer=tf.zeros_initializer())
        self.assertEqual(self.values(v, w, x), [4, 4, 0])

    def test_regularizer(self):
        with tf.variable_scope("a", regularizer=lambda v: tf.reduce_sum(v, name="sum")):
            tf.get_variable("v", [2], initializer=tf.ones_initializer())
            tf.get_variable("w", [2], regularizer=tf.no_regularizer)
        with tf.variable_scope("a", reuse=True, regularizer=lambda v: tf.reduce_sum(v)):
            tf.get_variable("v", [2])
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        self.assertEqual([loss.name for loss in losses], ["a/v/Regularizer/sum:0"])
        self.assertEqual(self.values(losses[0]), [2])

    def test_dtype_and_resources(self):
        with tf.variable_scope("a", dtype=tf.float64, use_resource=True):
            v = tf.get_variable("v", [])
            u = tf.Variable(1.0)
            with tf.variable_scope("b", use_resource=False):
                w = tf.get_variable("w", [])
        self.assertEqual((v.dtype, v.op.type, u.op.type), (tf.float64, "VarHandleOp", "VarHandleOp"))
        self.assertEqual((w.dtype.base_dtype, w.op.type), (tf.float64, "VariableV2"))

    def test_caching_device_and_constraint(self):
        clip = lambda v: v
        with tf.variable_scope("a", caching_device="/cpu:0", constraint=clip):
            v = tf.get_variable("v", [])
        self.assertIs(v.constraint, clip)
        self.assertIn("cpu:0", v.value().device.lower())

    def test_custom_getter(self):
        def getter(getter, name, *args, **kwargs):
            return getter(name + "_mine", *args, **kwargs)

        with tf.variable_scope("a", custom_getter=getter):
            self.assertEqual(tf.get_variable("v", []).name, "a/v_mine:0")

    def test_custom_getters_are_nested(self):
        def named(suffix):
            return lambda getter, name, *args, **kwargs: getter(name + suffix, *args, **kwargs)

        with tf.variable_scope("a", custom_getter=named("1")), tf.variable_scope("b", custom_getter=named("2")):
            self.assertEqual(tf.get_variable("v", []).name, "a/b/v21:0")

    def test_custom_getter_may_give_something_else(self):
        def doubled(getter, *args, **kwargs):
            return 2 * getter(*args, **kwargs)

        out = tf.get_variable("v", [], initializer=tf.constant_initializer(3.0), custom_getter=doubled)
        self.assertEqual(self.values(out), [6])

    def test_made_outside_of_conditionals(self):
        def branch():
            return tf.get_variable("v", [], initializer=tf.constant_initializer(5.0)) + 1

        out = tf.cond(tf.constant(True), branch, lambda: tf.constant(0.0))
        self.assertEqual(self.values(out), [6])


class Counts(Case):
    def names(self):
        found = []
        for _ in range(2):
            with tf.variable_scope(None, "d"):
                found.append(tf.get_variable_scope().name)
        return found

    def test_a_scope_that_is_opened_by_name_again_counts_from_the_start(self):
        for _ in range(2):
            with tf.variable_scope("a"):
                self.assertEqual(self.names(), ["a/d", "a/d_1"])
        with tf.variable_scope("ab"):
            self.assertEqual(self.names(), ["ab/d", "ab/d_1"])

    def test_a_scope_that_is_entered_again_leaves_counts_as_they_were(self):
        with tf.variable_scope("a") as a:
            self.names()
            with tf.variable_scope(a):
                self.assertEqual(self.names(), ["a/d_2", "a/d_3"])
                with tf.variable_scope(a):
                    self.assertEqual(self.names(), ["a/d_4", "a/d_5"])
                self.assertEqual(self.names(), ["a/d_4", "a/d_5"])
            self.assertEqual(self.names(), ["a/d_2", "a/d_3"])
        with tf.variable_scope(a):
            self.assertEqual(self.names(), ["a/d", "a/d_1"])
        with tf.variable_scope(a):
            self.assertEqual(self.names(), ["a/d", "a/d_1"])


class Parts(Case):
    def test_cut_along_one_dimension(self):
        v = tf.get_variable("v", [5, 2], partitioner=tf.fixed_size_partitioner(2), initializer=tf.ones_initializer())
        self.assertEqual([p.name for p in v], ["v/part_0:0", "v/part_1:0"])
        self.assertEqual([p.shape.as_list() for p in v], [[3, 2], [2, 2]])
        info = list(v)[1]._get_save_slice_info()
        self.assertEqual((info.full_name, info.spec), ("v", "5 2 3,2:0,2"))
        whole, product = self.values(v.as_tensor(), tf.matmul(v, [[1.0], [2.0]]))
        self.assertEqual((whole.shape, product.shape), ((5, 2), (5, 1)))

    def test_value_is_cut(self):
        v = tf.get_variable("v", initializer=tf.range(5), partitioner=tf.fixed_size_partitioner(2))
        for got, expected in zip(self.values(*list(v)), ([0, 1, 2], [3, 4])):
            np.testing.assert_array_equal(got, expected)

    def test_identity_matrix_in_parts(self):
        v = tf.get_variable("v", [4, 4], initializer=tf.initializers.identity(), partitioner=tf.fixed_size_partitioner(3))
        np.testing.assert_array_equal(self.values(v.as_tensor())[0], np.eye(4))

    def test_shared(self):
        with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
            v = tf.get_variable("v", [4])
            scalar = tf.get_variable("s", [])
        self.assertEqual(scalar.name, "a/s:0")
        with tf.variable_scope("a", reuse=True):
            self.assertIs(tf.get_variable("v", [4]), v)
        with self.assertRaisesRegex(ValueError, "already exists"):
            with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
                tf.get_variable("v", [4])

    def test_mixed(self):
        tf.get_variable("v", [4])
        with self.assertRaisesRegex(ValueError, "unpartitioned version"):
            tf.get_variable("v", [4], partitioner=tf.fixed_size_partitioner(2))
        tf.get_variable("w", [4], partitioner=tf.fixed_size_partitioner(2))
        with self.assertRaisesRegex(ValueError, "No partitioner was provided"):
            tf.get_variable("w", [4])

    def test_changes(self):
        v = tf.get_variable("v", [3], partitioner=tf.fixed_size_partitioner(2), initializer=tf.zeros_initializer())
        changes = v.assign(tf.constant([1.0, 2.0, 3.0]))
        self.assertEqual(len(v.assign([[1.0, 2.0], [3.0]])), 2)
        with self.assertRaises(ValueError):
            v.assign([1.0, 2.0, 3.0])  # a list has a value for each part
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            s.run(changes)
            np.testing.assert_array_equal(s.run(v.as_tensor()), [1, 2, 3])

    def test_parts_at_once(self):
        parts = tf.create_partitioned_variables([4, 2], [2, 1], tf.ones_initializer(), name="p")
        self.assertEqual([(p.op.name, p.shape.as_list()) for p in parts], [("p/part_0", [2, 2]), ("p/part_1", [2, 2])])

    def test_partitioners(self):
        shape = tf.TensorShape([64, 4])
        self.assertEqual(tf.fixed_size_partitioner(5, axis=1)(shape=shape), [1, 4])
        self.assertEqual(tf.variable_axis_size_partitioner(256)(shape=shape, dtype=tf.float32), [4, 1])
        self.assertEqual(tf.variable_axis_size_partitioner(256, max_shards=3)(shape=shape, dtype=tf.float32), [3, 1])
        self.assertEqual(tf.min_max_variable_partitioner(8, min_slice_size=512)(shape=shape, dtype=tf.float32), [2, 1])
        self.assertEqual(tf.min_max_variable_partitioner(8, min_slice_size=1)(shape=shape, dtype=tf.float32), [8, 1])
        with self.assertRaises(ValueError):
            tf.variable_axis_size_partitioner(0)


class Averaged(Case):
    def test_a_second_network_of_averages(self):
        x = tf.ones([2, 3])

        def network(reuse=None, custom_getter=None):
            with tf.variable_scope("net", reuse=reuse, custom_getter=custom_getter):
                return tf.layers.dense(x, 2, name="layer")

        first = network()
        averages = tf.train.ExponentialMovingAverage(0.9)
        averages.apply(tf.trainable_variables())
        second = network(True, lambda getter, name, *args, **kwargs: averages.average(getter(name, *args, **kwargs)))
        self.assertIn("net/layer/kernel/ExponentialMovingAverage/read", [t.op.name for t in second.op.inputs[0].op.inputs])
        a, b = self.values(first, second)
        np.testing.assert_allclose(a, b)


class Templates(Case):
    def test_calls_share_variables(self):
        def scaled(x, by):
            return x * tf.get_variable("w", [], initializer=tf.constant_initializer(by))

        f = tf.make_template("scaled", scaled, by=3.0)
        a, b = f(1.0), f(2.0)
        self.assertEqual([v.name for v in tf.global_variables()], ["scaled/w:0"])
        self.assertEqual(self.values(a, b), [3, 6])
        self.assertEqual([v.name for v in f.trainable_variables], ["scaled/w:0"])

    def test_two_templates_do_not(self):
        make = lambda: tf.make_template("t", lambda: tf.get_variable("w", []))
        self.assertEqual([make()().name, make()().name], ["t/w:0", "t_1/w:0"])

    def test_scope_may_be_made_at_once(self):
        f = tf.make_template("t", lambda: tf.get_variable("w", []), create_scope_now_=True)
        with tf.variable_scope("elsewhere"):
            self.assertEqual(f().name, "t/w:0")

    def test_a_first_call_that_fails_does_not_count(self):
        def scaled(x):
            return x * tf.get_variable("w", [])

        f = tf.make_template("t", scaled)
        with self.assertRaises(TypeError):
            f(1.0, 2.0)
        f(1.0)
        self.assertEqual([v.name for v in f.variables], ["t/w:0"])

    def test_new_variables_in_a_later_call(self):
        f = tf.make_template("t", lambda: tf.Variable(1.0))
        f()
        with self.assertRaisesRegex(ValueError, "Trainable variable created when calling a template after the first time"):
            f()


if __name__ == "__main__":
    unittest.main()
