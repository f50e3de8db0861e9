"""Recurrent cells and networks against numpy: lengths, directions, wrappers, names of variables, gradients."""

import unittest

import numpy as np

import millrace as tf

LENGTHS = [5, 2, 3]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def over_steps(x, state, step):
    """(outputs, state) of step(x, *state) -> (output, state), each example up to its length."""
    outputs = []
    for t in range(x.shape[1]):
        alive = (t < np.array(LENGTHS))[:, None]
        out, new = step(x[:, t], *state)
        outputs.append(np.where(alive, out, 0))
        state = tuple(np.where(alive, n, s) for n, s in zip(new, state))
    return np.stack(outputs, 1), state


def lstm_step(w, b):
    def step(x, c, h):
        i, j, f, o = np.split(np.concatenate([x, h], 1) @ w + b, 4, 1)
        c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        return h, (c, h)
    return step


def gru_step(wg, bg, wc, bc):
    def step(x, h):
        r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ wg + bg), 2, 1)
        c = np.tanh(np.concatenate([x, r * h], 1) @ wc + bc)
        h = u * h + (1 - u) * c
        return h, (h,)
    return step


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        tf.set_random_seed(1)
        self.x = np.random.RandomState(3).randn(3, 5, 4).astype(np.float32)
        self.session = tf.Session()
        self.addCleanup(self.session.close)

    def run_all(self, *fetches):
        self.session.run(tf.global_variables_initializer())
        return self.session.run(list(fetches))

    def close(self, a, b, tolerance=1e-5):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


class NetworksTest(Case):
    def test_dynamic_lstm(self):
        p = tf.placeholder(tf.float32, [None, None, 4])
        cell = tf.nn.rnn_cell.BasicLSTMCell(6)
        outputs, state = tf.nn.dynamic_rnn(cell, p, sequence_length=LENGTHS, dtype=tf.float32)
        self.assertEqual([v.name for v in tf.global_variables()], ["rnn/basic_lstm_cell/kernel:0", "rnn/basic_lstm_cell/bias:0"])
        self.assertIsInstance(state, tf.nn.rnn_cell.LSTMStateTuple)
        self.session.run(tf.global_variables_initializer())
        out, s, w, b = self.session.run([outputs, state] + cell.variables, {p: self.x})
        wanted, (c, h) = over_steps(self.x, (np.zeros((3, 6)),) * 2, lstm_step(w, b))
        self.close(out, wanted)
        self.close(s.c, c)
        self.close(s.h, h)

    def test_static_and_dynamic_agree_in_values_and_gradients(self):
        cell = tf.nn.rnn_cell.GRUCell(5)
        dynamic, last = tf.nn.dynamic_rnn(cell, tf.constant(self.x), sequence_length=LENGTHS, dtype=tf.float32)
        steps, static_last = tf.nn.static_rnn(cell, tf.unstack(tf.constant(self.x), axis=1), sequence_length=LENGTHS,
                                              dtype=tf.float32)
        static = tf.stack(steps, 1)
        self.assertEqual(len(tf.trainable_variables()), 4)
        gradients = [tf.gradients(tf.reduce_sum(t * t), cell.trainable_variables) for t in (dynamic, static)]
        a, b, s, t, (g, h), v = self.run_all(dynamic, static, last, static_last, gradients, cell.variables)
        self.close(a, b)
        self.close(s, t)
        for one, other in zip(g, h):
            self.close(one, other, 1e-4)
        self.close(a, over_steps(self.x, (np.zeros((3, 5)),), gru_step(*v))[0])

    def test_both_directions(self):
        (fw, bw), (s_fw, s_bw) = tf.nn.bidirectional_dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.GRUCell(2), tf.constant(self.x), sequence_length=LENGTHS, dtype=tf.float32)
        names = [v.name for v in tf.global_variables()]
        self.assertEqual(names[0], "bidirectional_rnn/fw/gru_cell/gates/kernel:0")
        self.assertEqual(names[4], "bidirectional_rnn/bw/gru_cell/gates/kernel:0")
        out, state, v = self.run_all(bw, s_bw, tf.global_variables()[4:])

        def turned(x):
            return np.stack([np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(x, LENGTHS)])
        wanted, (h,) = over_steps(turned(self.x), (np.zeros((3, 2)),), gru_step(*v))
        self.close(out, turned(wanted))
        self.close(state, h)

    def test_raw_rnn(self):
        cell = tf.nn.rnn_cell.BasicLSTMCell(6)
        steps = tf.TensorArray(tf.float32, size=5).unstack(tf.transpose(tf.constant(self.x), [1, 0, 2]))

        def loop_fn(time, output, state, loop_state):
            finished = time >= tf.constant(LENGTHS)
            x = tf.cond(tf.reduce_all(finished), lambda: tf.zeros([3, 4]), lambda: steps.read(time))
            return finished, x, cell.zero_state(3, tf.float32) if output is None else state, output, None

        emitted, state, _ = tf.nn.raw_rnn(cell, loop_fn)
        out, s, (w, b) = self.run_all(tf.transpose(emitted.stack(), [1, 0, 2]), state, cell.variables)
        wanted, (c, _) = over_steps(self.x, (np.zeros((3, 6)),) * 2, lstm_step(w, b))
        self.close(out, wanted)
        self.close(s.c, c)

    def test_errors(self):
        cell = tf.nn.rnn_cell.GRUCell(2)
        with self.assertRaisesRegex(ValueError, "dtype"):
            tf.nn.dynamic_rnn(cell, tf.constant(self.x))
        with self.assertRaisesRegex(TypeError, "not an RNNCell"):
            tf.nn.dynamic_rnn(3, tf.constant(self.x), dtype=tf.float32)
        with self.assertRaises(ValueError):
            tf.nn.static_rnn(cell, [], dtype=tf.float32)
        lengths = tf.placeholder(tf.int32, [None])
        out, _ = tf.nn.dynamic_rnn(cell, tf.constant(self.x), sequence_length=lengths, dtype=tf.float32)
        self.session.run(tf.global_variables_initializer())
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.session.run(out, {lengths: [1, 2]})


class CellsTest(Case):
    def test_cells_in_cells(self):
        cells = [tf.nn.rnn_cell.LSTMCell(5, use_peepholes=True, num_proj=4), tf.nn.rnn_cell.ResidualWrapper(
            tf.nn.rnn_cell.BasicRNNCell(4))]
        cell = tf.nn.rnn_cell.MultiRNNCell(cells)
        self.assertEqual(cell.state_size, (tf.nn.rnn_cell.LSTMStateTuple(5, 4), 4))
        out, _ = tf.nn.dynamic_rnn(cell, tf.constant(self.x), initial_state=cell.zero_state(3, tf.float32))
        names = [v.op.name.replace("rnn/multi_rnn_cell/", "") for v in tf.global_variables()]
        self.assertEqual(names, ["cell_0/lstm_cell/" + n for n in ("kernel", "bias", "w_f_diag", "w_i_diag", "w_o_diag",
                                                                   "projection/kernel")] +
                         ["cell_1/basic_rnn_cell/kernel", "cell_1/basic_rnn_cell/bias"])
        self.assertEqual(out.shape.as_list(), [3, 5, 4])
        self.assertEqual(len(cell.trainable_variables), 8)
        self.run_all(out)

    def test_state_in_one_tensor(self):
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(3, state_is_tuple=False)] * 1, state_is_tuple=False)
        out, state = cell(tf.constant(self.x[:, 0]), cell.zero_state(3, tf.float32))
        self.assertEqual(state.shape.as_list(), [3, 6])
        whole, h = self.run_all(state, out)
        self.close(whole[:, 3:], h)

    def test_reuse_must_be_said(self):
        x = tf.constant(self.x[:, 0])
        zero = tf.zeros([3, 2])
        with tf.variable_scope("a"):
            tf.nn.rnn_cell.GRUCell(2)(x, zero)
        with self.assertRaisesRegex(ValueError, "already exists"), tf.variable_scope("a"):
            tf.nn.rnn_cell.GRUCell(2, name="gru_cell")(x, zero, scope="gru_cell")
        with tf.variable_scope("a", reuse=True):
            tf.nn.rnn_cell.GRUCell(2)(x, zero)
        self.assertEqual(len(tf.global_variables()), 4)

    def test_cell_of_a_program(self):
        class Cell(tf.nn.rnn_cell.RNNCell):
            state_size = property(lambda self: 2)
            output_size = property(lambda self: 2)

            def __call__(self, inputs, state, scope=None):
                with tf.variable_scope(scope or type(self).__name__):
                    w = tf.get_variable("w", [4, 2])
                    new = tf.matmul(inputs, w) + state
                return new, new

        out, _ = tf.nn.dynamic_rnn(Cell(), tf.constant(self.x), dtype=tf.float32)
        self.assertEqual([v.name for v in tf.global_variables()], ["rnn/Cell/w:0"])
        value, w = self.run_all(out, tf.global_variables()[0])
        self.close(value, np.cumsum(self.x @ w, 1))

    def test_dropout(self):
        cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.BasicRNNCell(50), output_keep_prob=.5)
        out, _ = tf.nn.dynamic_rnn(cell, tf.constant(self.x), dtype=tf.float32)
        value, = self.run_all(out)
        self.assertAlmostEqual((value == 0).mean(), .5, delta=.1)
        self.assertTrue((np.isclose((value == 0).mean(1), 0) | np.isclose((value == 0).mean(1), 1)).mean() < .5)

    def test_variational_dropout_is_the_same_in_each_step(self):
        cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.BasicRNNCell(50), output_keep_prob=.5, variational_recurrent=True,
                                             dtype=tf.float32)
        out, _ = tf.nn.dynamic_rnn(cell, tf.constant(self.x), dtype=tf.float32)
        dropped = self.run_all(out)[0] == 0
        self.assertTrue((dropped == dropped[:1, :1]).all())
        self.assertTrue(0 < dropped.mean() < 1)
        with self.assertRaises(ValueError):
            tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.BasicRNNCell(5), input_keep_prob=1.5)

    def test_block_cells_agree_with_the_plain_ones(self):
        x = tf.constant(self.x)
        r = tf.contrib.rnn
        cells = [r.BasicLSTMCell(6), r.LSTMBlockCell(6)]
        outs = [tf.nn.dynamic_rnn(c, x, sequence_length=LENGTHS, dtype=tf.float32)[0] for c in cells]
        fused = r.LSTMBlockFusedCell(6)
        outs.append(tf.transpose(fused(tf.transpose(x, [1, 0, 2]), dtype=tf.float32, sequence_length=LENGTHS)[0], [1, 0, 2]))
        cells.append(fused)
        gradients = [tf.gradients(tf.reduce_sum(o * o), c.variables) for o, c in zip(outs, cells)]
        self.session.run(tf.global_variables_initializer())
        self.session.run([tf.assign(v, w) for c in cells[1:] for v, w in zip(c.variables, cells[0].variables)])
        values, gradients = self.session.run([outs, gradients])
        for v, g in zip(values[1:], gradients[1:]):
            self.close(v, values[0])
            self.close(g[0], gradients[0][0], 1e-4)

    def test_stacks_in_both_directions(self):
        r = tf.contrib.rnn
        out, fw, bw = r.stack_bidirectional_dynamic_rnn([r.GRUCell(3), r.GRUCell(3)], [r.GRUCell(3), r.GRUCell(3)],
                                                        tf.constant(self.x), dtype=tf.float32, sequence_length=LENGTHS)
        self.assertEqual(out.shape.as_list(), [3, 5, 6])
        self.assertIn("stack_bidirectional_rnn/cell_1/bidirectional_rnn/bw/gru_cell/gates/kernel:0",
                      [v.name for v in tf.global_variables()])
        self.run_all(out)

    def test_networks_of_several_layers(self):
        layer = tf.contrib.cudnn_rnn.CudnnLSTM(2, 6, direction="bidirectional")
        out, (h, c) = layer(tf.constant(self.x))
        self.assertEqual((out.shape.as_list(), h.shape.as_list()), ([3, 5, 12], [4, 5, 6]))
        again, _ = layer(tf.constant(self.x))
        a, b = self.run_all(out, again)
        self.close(a, b)


class ShardsTest(Case):
    def test_lstm_in_shards(self):
        cell = tf.nn.rnn_cell.LSTMCell(4, num_unit_shards=2, num_proj=3, num_proj_shards=2)
        out, _ = tf.nn.dynamic_rnn(cell, tf.constant(self.x), dtype=tf.float32, sequence_length=LENGTHS)
        self.assertEqual([(v.op.name, v.shape.as_list()) for v in tf.global_variables()], [
            ("rnn/lstm_cell/kernel/part_0", [4, 16]), ("rnn/lstm_cell/kernel/part_1", [3, 16]), ("rnn/lstm_cell/bias", [16]),
            ("rnn/lstm_cell/projection/kernel/part_0", [2, 3]), ("rnn/lstm_cell/projection/kernel/part_1", [2, 3])])
        got, w0, w1, b, p0, p1 = self.run_all(out, *tf.global_variables())
        step, projection = lstm_step(np.concatenate([w0, w1]), b), np.concatenate([p0, p1])

        def projected(x, c, h):
            h, (c, _) = step(x, c, h)
            return h @ projection, (c, h @ projection)
        zeros = [np.zeros([3, n], np.float32) for n in (4, 3)]
        self.close(got, over_steps(self.x, tuple(zeros), projected)[0])


class ContribCellsTest(Case):
    """Cells of tf.contrib.rnn whose variables have names of their own."""

    def names(self):
        return sorted(v.op.name for v in tf.global_variables())

    def step(self, cell, x, state):
        with tf.variable_scope("s"):
            out, new = cell(tf.constant(x), tf.nn.rnn_cell.LSTMStateTuple(*map(tf.constant, state)))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            return sess.run([out, new, {v.op.name.split("/", 2)[2]: v for v in tf.global_variables()}])

    def test_coupled_gates_with_shards_and_projection(self):
        rng = np.random.RandomState(0)
        x, c, h = (rng.randn(2, n).astype(np.float32) for n in (3, 4, 2))
        cell = tf.contrib.rnn.CoupledInputForgetGateLSTMCell(4, use_peepholes=True, num_proj=2, proj_clip=0.1,
                                                             num_unit_shards=2, num_proj_shards=3,
                                                             initializer=tf.random_normal_initializer())
        out, (new_c, new_h), v = self.step(cell, x, (c, h))
        self.assertEqual(sorted(v), ["B", "W_0", "W_1", "W_F_diag", "W_O_diag", "W_P_0", "W_P_1", "W_P_2"])
        self.assertEqual(self.names()[0], "s/coupled_input_forget_gate_lstm_cell/B")
        self.assertEqual([v["W_%d" % i].shape for i in range(2)], [(3, 12), (2, 12)])
        self.assertEqual([v["W_P_%d" % i].shape for i in range(3)], [(2, 2), (1, 2), (1, 2)])
        gates = np.concatenate([x, h], 1) @ np.concatenate([v["W_0"], v["W_1"]]) + v["B"]
        j, f, o = np.split(gates, 3, 1)
        f = sigmoid(f + 1 + v["W_F_diag"] * c)
        want_c = f * c + (1 - f) * np.tanh(j)
        want = sigmoid(o + v["W_O_diag"] * want_c) * np.tanh(want_c) @ np.concatenate([v["W_P_%d" % i] for i in range(3)])
        self.close(new_c, want_c)
        self.close(out, np.clip(want, -0.1, 0.1))
        self.close(new_h, out)
        with self.assertRaisesRegex(ValueError, "Too many shards"):
            tf.contrib.rnn.CoupledInputForgetGateLSTMCell(4, num_unit_shards=9)(tf.constant(x), cell.zero_state(2, tf.float32))

    def test_normalized_memory_is_the_state(self):
        x, c = np.ones([2, 3], np.float32), np.random.RandomState(0).randn(2, 4).astype(np.float32)
        made = (tf.contrib.rnn.LayerNormBasicLSTMCell(4, norm_gain=2.0, norm_shift=0.5),
                tf.contrib.rnn.CoupledInputForgetGateLSTMCell(4, layer_norm=True, norm_gain=2.0, norm_shift=0.5))
        for cell in made:
            with tf.Graph().as_default():
                _, (new_c, _), v = self.step(cell, x, (c, np.zeros([2, 4], np.float32)))
            self.assertIn("state/gamma", v)
            self.close(new_c.mean(1), [0.5, 0.5])
            self.close(new_c.std(1), [2.0, 2.0])

    def test_highway(self):
        x = np.array([[0.5, -1.0]], np.float32)
        cell = tf.contrib.rnn.HighwayWrapper(tf.nn.rnn_cell.BasicRNNCell(2), couple_carry_transform_gates=False,
                                             carry_bias_init=2.0)
        with tf.variable_scope("s"):
            inner, _ = cell.wrapped_cell(tf.constant(x), tf.zeros([1, 2]))
            out, _ = cell(tf.constant(x), tf.zeros([1, 2]))
        self.assertEqual(self.names(), ["s/basic_rnn_cell/bias", "s/basic_rnn_cell/kernel", "s/carry_b", "s/carry_w",
                                        "s/transform_b", "s/transform_w"])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            got, y, v = sess.run([out, inner, {v.op.name: v for v in tf.global_variables()}])
        carry, transform = (sigmoid(x @ v["s/%s_w" % g] + b) for g, b in (("carry", 2), ("transform", -2)))
        self.close(got, x * carry + y * transform)


if __name__ == "__main__":
    unittest.main()
