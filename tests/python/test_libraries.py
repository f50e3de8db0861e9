"""Libraries of ops, tf.contrib.util and tf.contrib.training.HParams."""
import os
import unittest

import millrace as tf

LIBRARY = os.path.join(os.environ.get("MILLRACE_BUILD", "build/gcc"), "capi", "user_op_lib.so")


class Libraries(unittest.TestCase):
    def test_what_is_not_there(self):
        with self.assertRaises(tf.errors.NotFoundError):
            tf.load_op_library("/nothing/lib.so")
        with self.assertRaises(OSError):
            tf.load_library("/nothing")

    @unittest.skipUnless(os.path.exists(LIBRARY), "needs what `make test-capi` builds")
    def test_ops_of_a_library(self):
        module = tf.load_op_library(LIBRARY)
        self.assertIs(tf.load_op_library(LIBRARY), module)
        self.assertEqual([d.name for d in module.OP_LIST.op], ["LibraryNegate"])
        with tf.Graph().as_default(), tf.Session() as sess:
            self.assertEqual(sess.run(module.library_negate([1., -2.])).tolist(), [-1, 2])


class Util(unittest.TestCase):
    def test_ops_of_a_graph(self):
        with tf.Graph().as_default() as g:
            tf.add(tf.constant(1.), tf.constant(2.))
            ops = tf.contrib.util.stripped_op_list_for_graph(g.as_graph_def())
        self.assertEqual([op.name for op in ops.op], ["Add", "Const"])

    def test_names(self):
        self.assertEqual(tf.contrib.util.make_ndarray(tf.contrib.util.make_tensor_proto([1, 2], shape=[2],
                                                                                        dtype=tf.int64)).tolist(), [1, 2])
        self.assertTrue(tf.is_tensor(tf.constant(1)))
        self.assertFalse(tf.is_tensor([1]))


class Resources(unittest.TestCase):
    def test_which_are_ready(self):
        from tensorflow.python.ops import resources
        with tf.Graph().as_default(), tf.Session() as sess:
            self.assertEqual(sess.run(resources.report_uninitialized_resources()).tolist(), [])
            v = tf.Variable(0)
            resources.register_resource(v, v.initializer, tf.is_variable_initialized(v))
            left = resources.report_uninitialized_resources()
            self.assertEqual(sess.run(left).tolist(), [b"Variable:0"])
            sess.run(resources.initialize_resources(resources.shared_resources()))
            self.assertEqual(sess.run(left).tolist(), [])


class Hyperparameters(unittest.TestCase):
    def setUp(self):
        self.h = tf.contrib.training.HParams(rate=0.1, layers=[64, 32], act="relu", on=True, steps=5)

    def test_values(self):
        self.assertEqual((self.h.rate, self.h.layers, "act" in self.h, self.h.get("none", 3)), (0.1, [64, 32], True, 3))
        self.assertEqual(self.h.values(), {"rate": 0.1, "layers": [64, 32], "act": "relu", "on": True, "steps": 5})
        with self.assertRaisesRegex(ValueError, "reserved"):
            self.h.add_hparam("rate", 1)
        self.h.del_hparam("act")
        self.assertNotIn("act", self.h)

    def test_texts(self):
        self.h.parse("rate=1,layers=[1, 2,3],on=false, act=tanh,steps=7".replace(", act", ",act"))
        self.assertEqual((self.h.rate, self.h.layers, self.h.on, self.h.act, self.h.steps), (1.0, [1, 2, 3], False, "tanh", 7))
        self.h.parse("layers[1]=9")
        self.assertEqual(self.h.layers, [1, 9, 3])
        self.h.parse("")
        for bad in ("unknown=1", "rate=x", "steps=1.5", "on=maybe", "layers=[a]", "rate=1,rate=2", "=3"):
            with self.assertRaises(ValueError, msg=bad):
                self.h.parse(bad)

    def test_json_and_dicts(self):
        self.h.parse_json('{"rate": 2, "layers": [5]}')
        self.assertEqual((self.h.rate, self.h.layers), (2.0, [5]))
        self.assertIn('"rate": 2.0', self.h.to_json())
        with self.assertRaises(ValueError):
            self.h.override_from_dict({"steps": 1.5})
        for name, value in (("layers", 3), ("on", 1), ("steps", True), ("act", 2), ("rate", "x")):
            with self.assertRaises(ValueError, msg=name):
                self.h.set_hparam(name, value)
        with self.assertRaisesRegex(ValueError, "Must pass a list"):
            self.h.parse("layers=3")
        self.h.parse(str(self.h))


if __name__ == "__main__":
    unittest.main()
