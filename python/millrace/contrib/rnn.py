"""tf.contrib.rnn: the cells and networks of tf.nn, and more of them."""

from ..framework import nest, ops, shapes
from ..framework.op_defs import raw
from ..layers import base
from ..layers.base import InputSpec
from ..nn.basic import bias_add, dropout
from ..nn.recurrent import bidirectional_dynamic_rnn as _bidirectional_dynamic_rnn
from ..nn.recurrent import static_bidirectional_rnn, static_rnn, static_state_saving_rnn
from ..nn.recurrent import _transpose_batch_time
from ..nn.rnn_cell import (BasicLSTMCell, BasicRNNCell, DeviceWrapper, DropoutWrapper, GRUCell, LayerRNNCell, LSTMCell,
                           LSTMStateTuple, MultiRNNCell, ResidualWrapper, RNNCell, RNNCellWrapper, _linear, _LstmState,
                           assert_like_rnncell)
from ..ops import array, clip, math
from ..ops import variable_scope as vs
from .. import initializers, nn

__all__ = ["AttentionCellWrapper", "BasicLSTMCell", "BasicRNNCell", "Conv1DLSTMCell", "Conv2DLSTMCell", "Conv3DLSTMCell",
           "ConvLSTMCell", "CoupledInputForgetGateLSTMCell", "DeviceWrapper", "DropoutWrapper", "EmbeddingWrapper",
           "FusedRNNCell", "FusedRNNCellAdaptor", "GRUBlockCell", "GRUBlockCellV2", "GRUCell", "HighwayWrapper",
           "InputProjectionWrapper", "LSTMBlockCell", "LSTMBlockFusedCell", "LSTMCell", "LSTMStateTuple",
           "LayerNormBasicLSTMCell", "LayerRNNCell", "MultiRNNCell", "NASCell", "OutputProjectionWrapper", "RNNCell",
           "ResidualWrapper", "TimeReversedFusedRNN", "UGRNNCell", "stack_bidirectional_dynamic_rnn",
           "stack_bidirectional_rnn", "static_bidirectional_rnn", "static_rnn", "static_state_saving_rnn",
           "transpose_batch_time"]

transpose_batch_time = _transpose_batch_time


# ---- one op a step ----

class LSTMBlockCell(LayerRNNCell):
    """LSTM whose step is one op."""

    def __init__(self, num_units, forget_bias=1.0, cell_clip=None, use_peephole=False, dtype=None, reuse=None,
                 name="lstm_cell"):
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._forget_bias, self._use_peephole = num_units, forget_bias, use_peephole
        self._cell_clip = -1 if cell_clip is None else cell_clip

    state_size = property(lambda self: LSTMStateTuple(self._num_units, self._num_units),
                          doc="The sizes of c and h, an LSTMStateTuple.")
    output_size = property(lambda self: self._num_units, doc="The number of units.")

    def build(self, inputs_shape):
        n = self._num_units
        self._kernel = self.add_variable("kernel", [self._depth(inputs_shape) + n, 4 * n])
        self._bias = self.add_variable("bias", [4 * n], initializer=initializers.constant(0.0))
        if self._use_peephole:
            self._w_i_diag, self._w_f_diag, self._w_o_diag = (self.add_variable("w_%s_diag" % g, [n]) for g in "ifo")
        self.built = True

    def call(self, inputs, state):
        if len(state) != 2:
            raise ValueError("Expecting state to be a tuple with length 2.")
        c, h = state
        peep = [self._w_i_diag, self._w_f_diag, self._w_o_diag] if self._use_peephole else \
            [array.zeros([self._num_units], inputs.dtype.base_dtype)] * 3
        out = raw.lstm_block_cell(inputs, c, h, self._kernel, *peep, self._bias, forget_bias=self._forget_bias,
                                  cell_clip=self._cell_clip, use_peephole=self._use_peephole)
        return out.h, LSTMStateTuple(out.cs, out.h)


class GRUBlockCell(LayerRNNCell):
    """GRU whose step is one op."""

    _names = ("w_ru", "b_ru", "w_c", "b_c")

    def __init__(self, num_units=None, cell_size=None, reuse=None, name="gru_cell"):
        super().__init__(_reuse=reuse, name=name)
        if (cell_size is None) == (num_units is None):
            raise ValueError("Exactly one of num_units or cell_size must be provided.")
        self._cell_size = num_units if num_units is not None else cell_size
        self.input_spec = InputSpec(ndim=2)

    state_size = property(lambda self: self._cell_size, doc="The number of units.")
    output_size = property(lambda self: self._cell_size, doc="The number of units.")

    def build(self, inputs_shape):
        n = self._cell_size
        rows = self._depth(inputs_shape) + n
        w_ru, b_ru, w_c, b_c = self._names
        self._gate_kernel = self.add_variable(w_ru, [rows, 2 * n])
        self._gate_bias = self.add_variable(b_ru, [2 * n], initializer=initializers.constant(1.0))
        self._candidate_kernel = self.add_variable(w_c, [rows, n])
        self._candidate_bias = self.add_variable(b_c, [n], initializer=initializers.constant(0.0))
        self.built = True

    def call(self, inputs, state):
        h = raw.gru_block_cell(inputs, state, self._gate_kernel, self._candidate_kernel, self._gate_bias,
                               self._candidate_bias).h
        return h, h


class GRUBlockCellV2(GRUBlockCell):
    """The same with the variables' names of GRUCell."""

    _names = ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")


# ---- one op a sequence ----

class FusedRNNCell:
    """(outputs, last state) = cell(inputs by time, initial_state, dtype, sequence_length)"""

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        raise NotImplementedError("Abstract method")


class LSTMBlockFusedCell(base.Layer, FusedRNNCell):
    """LSTM over a whole sequence in one op."""

    def __init__(self, num_units, forget_bias=1.0, cell_clip=None, use_peephole=False, reuse=None, dtype=None,
                 name="lstm_fused_cell"):
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self.input_spec = InputSpec(ndim=3)
        self._num_units, self._forget_bias, self._use_peephole = num_units, forget_bias, use_peephole
        self._cell_clip = -1 if cell_clip is None else cell_clip

    num_units = property(lambda self: self._num_units, doc="The number of units.")

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        return base.Layer.__call__(self, inputs, initial_state, dtype, sequence_length, scope=scope)

    def build(self, inputs_shape):
        n, depth = self._num_units, shapes.as_shape(inputs_shape).as_list()[2]
        self._kernel = self.add_variable("kernel", [depth + n, 4 * n])
        self._bias = self.add_variable("bias", [4 * n], initializer=initializers.constant(0.0))
        if self._use_peephole:
            self._w_i_diag, self._w_f_diag, self._w_o_diag = (self.add_variable("w_%s_diag" % g, [n]) for g in "ifo")
        self.built = True

    def call(self, inputs, initial_state=None, dtype=None, sequence_length=None):
        is_list = isinstance(inputs, list)
        inputs = array.stack(inputs) if is_list else inputs
        steps = array.shape(inputs)[0]
        batch = inputs.shape.as_list()[1] or array.shape(inputs)[1]
        dtype = inputs.dtype.base_dtype
        if initial_state is None:
            c = h = array.zeros(array.stack([batch, self._num_units]), dtype)
        else:
            c, h = initial_state
        limit = math.to_int64(steps if sequence_length is None else math.reduce_max(sequence_length))
        peep = [self._w_i_diag, self._w_f_diag, self._w_o_diag] if self._use_peephole else \
            [array.zeros([self._num_units], dtype)] * 3
        found = raw.block_lstm(limit, inputs, c, h, self._kernel, *peep, self._bias, forget_bias=self._forget_bias,
                               cell_clip=self._cell_clip, use_peephole=self._use_peephole)
        cells, outputs = found.cs, found.h
        if sequence_length is None:
            final = LSTMStateTuple(cells[-1], outputs[-1])
        else:
            mask = array.expand_dims(array.transpose(array.sequence_mask(sequence_length, steps, dtype)), 2)
            cells, outputs = cells * mask, outputs * mask
            last = _at_lengths(sequence_length, batch)
            final = LSTMStateTuple(_state_at(cells, c, last), _state_at(outputs, h, last))
        return (array.unstack(outputs) if is_list else outputs), final


def _at_lengths(sequence_length, batch):
    """(time, example) of each example's end; one before the first step of the padded sequence for a length of 0."""
    return array.stack([math.to_int32(sequence_length), math.range(batch)], axis=1)


def _state_at(states, initial, places):
    return array.gather_nd(array.concat([array.expand_dims(initial, 0), states], 0), places)


class FusedRNNCellAdaptor(FusedRNNCell):
    """A cell as a fused one."""

    def __init__(self, cell, use_dynamic_rnn=False):
        self._cell, self._use_dynamic_rnn = cell, use_dynamic_rnn

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        is_list = isinstance(inputs, list)
        if self._use_dynamic_rnn:
            x = array.stack(inputs) if is_list else inputs
            outputs, state = nn.dynamic_rnn(self._cell, x, sequence_length=sequence_length, initial_state=initial_state,
                                            dtype=dtype, time_major=True, scope=scope)
            return (array.unstack(outputs) if is_list else outputs), state
        x = inputs if is_list else array.unstack(inputs)
        outputs, state = static_rnn(self._cell, x, initial_state=initial_state, dtype=dtype, sequence_length=sequence_length,
                                    scope=scope)
        return (outputs if is_list else array.stack(outputs)), state


class TimeReversedFusedRNN(FusedRNNCell):
    """A fused cell that goes backwards."""

    def __init__(self, cell):
        self._cell = cell

    def _reverse(self, t, lengths):
        if isinstance(t, list):
            return list(reversed(t))
        return array.reverse(t, [0]) if lengths is None else array.reverse_sequence(t, lengths, 0, 1)

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        outputs, state = self._cell(self._reverse(inputs, sequence_length), initial_state=initial_state, dtype=dtype,
                                    sequence_length=sequence_length, scope=scope)
        return self._reverse(outputs, sequence_length), state


# ---- more cells ----

def _normed(x, scope, gain, shift):
    """layer_norm of a gate, whose parameters begin as gain and shift."""
    from .layers import layer_norm
    shape, dtype = x.shape[-1:], x.dtype.base_dtype
    with vs.variable_scope(scope):
        vs.get_variable("gamma", shape=shape, dtype=dtype, initializer=initializers.constant(gain))
        vs.get_variable("beta", shape=shape, dtype=dtype, initializer=initializers.constant(shift))
    return layer_norm(x, reuse=True, scope=scope)


class LayerNormBasicLSTMCell(RNNCell):
    """LSTM with normalized gates and dropout of the new values."""

    def __init__(self, num_units, forget_bias=1.0, input_size=None, activation=math.tanh, layer_norm=True, norm_gain=1.0,
                 norm_shift=0.0, dropout_keep_prob=1.0, dropout_prob_seed=None, reuse=None):
        super().__init__(_reuse=reuse)
        self._num_units, self._activation, self._forget_bias = num_units, activation, forget_bias
        self._keep_prob, self._seed, self._layer_norm = dropout_keep_prob, dropout_prob_seed, layer_norm
        self._norm_gain, self._norm_shift = norm_gain, norm_shift

    state_size = property(lambda self: LSTMStateTuple(self._num_units, self._num_units),
                          doc="The sizes of c and h, an LSTMStateTuple.")
    output_size = property(lambda self: self._num_units, doc="The number of units.")

    def _norm(self, x, scope):
        return _normed(x, scope, self._norm_gain, self._norm_shift)

    def call(self, inputs, state):
        c, h = state
        args = array.concat([inputs, h], 1)
        n = self._num_units
        kernel = vs.get_variable("kernel", [args.shape.as_list()[-1], 4 * n], dtype=args.dtype.base_dtype)
        gates = math.matmul(args, kernel)
        if not self._layer_norm:
            gates = bias_add(gates, vs.get_variable("bias", [4 * n], dtype=args.dtype.base_dtype))
        i, j, f, o = array.split(gates, 4, axis=1)
        if self._layer_norm:
            i, j, f, o = (self._norm(g, name) for g, name in ((i, "input"), (j, "transform"), (f, "forget"), (o, "output")))
        g = self._activation(j)
        if isinstance(self._keep_prob, ops.Tensor) or self._keep_prob < 1:
            g = dropout(g, self._keep_prob, seed=self._seed)
        new_c = c * math.sigmoid(f + self._forget_bias) + math.sigmoid(i) * g
        if self._layer_norm:
            new_c = self._norm(new_c, "state")
        new_h = self._activation(new_c) * math.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


def _in_shards(name, shape, dtype, number):
    """A variable in `number` parts name_0, name_1, ... along its rows, as one tensor."""
    if number > shape[0]:
        raise ValueError("Too many shards: shape=%s, num_shards=%d" % (shape, number))
    each, more = divmod(shape[0], number)
    parts = [vs.get_variable("%s_%d" % (name, i), [each + (i < more)] + shape[1:], dtype=dtype) for i in range(number)]
    return parts[0] if number == 1 else array.concat(parts, 0, name=name + "/concat")


class CoupledInputForgetGateLSTMCell(RNNCell, _LstmState):
    """LSTM that takes in what it forgets."""

    def __init__(self, num_units, use_peepholes=False, initializer=None, num_proj=None, proj_clip=None, num_unit_shards=1,
                 num_proj_shards=1, forget_bias=1.0, state_is_tuple=True, activation=math.tanh, reuse=None, layer_norm=False,
                 norm_gain=1.0, norm_shift=0.0):
        super().__init__(_reuse=reuse)
        self._num_units, self._use_peepholes, self._initializer = num_units, use_peepholes, initializer
        self._num_proj, self._proj_clip, self._forget_bias = num_proj, proj_clip, forget_bias
        self._num_unit_shards, self._num_proj_shards = num_unit_shards, num_proj_shards
        self._state_is_tuple, self._activation = state_is_tuple, activation
        self._layer_norm, self._norm_gain, self._norm_shift = layer_norm, norm_gain, norm_shift

    state_size = property(lambda self: self._sizes(self._num_units, self.output_size),
                          doc="The sizes of c and h: an LSTMStateTuple, or their sum if the state is one tensor.")
    output_size = property(lambda self: self._num_proj or self._num_units,
                           doc="The size of the projection if there is one, else the number of units.")

    def _norm(self, x, scope):
        return _normed(x, scope, self._norm_gain, self._norm_shift) if self._layer_norm else x

    def _peephole(self, gate, name, c):
        if not self._use_peepholes:
            return gate
        return gate + vs.get_variable(name, [self._num_units], dtype=c.dtype.base_dtype) * c

    def call(self, inputs, state):
        with vs.variable_scope(vs.get_variable_scope(), initializer=self._initializer):
            return self._step(inputs, *self._split(state, self._num_units))

    def _step(self, inputs, c_prev, h_prev):
        n, dtype, depth = self._num_units, inputs.dtype.base_dtype, inputs.shape.with_rank(2).as_list()[1]
        if depth is None:
            raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
        kernel = _in_shards("W", [depth + self.output_size, 3 * n], dtype, self._num_unit_shards)
        bias = vs.get_variable("B", [3 * n], dtype=dtype, initializer=initializers.zeros())
        gates = math.matmul(array.concat([inputs, h_prev], 1), kernel)
        if not self._layer_norm:  # layer normalization has its own shifts
            gates = bias_add(gates, bias)
        j, f, o = (self._norm(g, name) for g, name in zip(array.split(gates, 3, axis=1), ("transform", "forget", "output")))
        forget = math.sigmoid(self._peephole(f + self._forget_bias, "W_F_diag", c_prev))
        c = self._norm(forget * c_prev + (1 - forget) * self._activation(j), "state")
        h = math.sigmoid(self._peephole(o, "W_O_diag", c)) * self._activation(c)
        if self._num_proj is not None:
            h = math.matmul(h, _in_shards("W_P", [n, self._num_proj], dtype, self._num_proj_shards))
            if self._proj_clip is not None:
                h = clip.clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, self._joined(c, h)


class NASCell(LayerRNNCell):
    """The cell that a search over architectures found."""

    def __init__(self, num_units, num_proj=None, use_bias=False, reuse=None, **kwargs):
        super().__init__(_reuse=reuse, **kwargs)
        self._num_units, self._num_proj, self._use_bias = num_units, num_proj, use_bias
        self.input_spec = InputSpec(ndim=2)

    state_size = property(lambda self: LSTMStateTuple(self._num_units, self.output_size),
                          doc="The sizes of c and h, an LSTMStateTuple.")
    output_size = property(lambda self: self._num_proj or self._num_units,
                           doc="The size of the projection if there is one, else the number of units.")

    def build(self, inputs_shape):
        n = self._num_units
        self._recurrent_kernel = self.add_variable("recurrent_kernel", [self.output_size, 8 * n])
        self._kernel = self.add_variable("kernel", [self._depth(inputs_shape), 8 * n])
        self._bias = self.add_variable("bias", [8 * n], initializer=initializers.zeros()) if self._use_bias else None
        if self._num_proj is not None:
            self._projection = self.add_variable("projection_weights", [n, self._num_proj])
        self.built = True

    def call(self, inputs, state):
        c_prev, m_prev = state
        memory = math.matmul(m_prev, self._recurrent_kernel)
        if self._bias is not None:
            memory = bias_add(memory, self._bias)
        m = array.split(memory, 8, axis=1)
        x = array.split(math.matmul(inputs, self._kernel), 8, axis=1)
        sums = [a + b for a, b in zip(x, m)]
        a = [math.sigmoid(sums[0]), nn.relu(sums[1]), math.sigmoid(sums[2]), nn.relu(x[3] * m[3]), math.tanh(sums[4]),
             math.sigmoid(sums[5]), math.tanh(sums[6]), math.sigmoid(sums[7])]
        b = [math.tanh(math.tanh(a[0] * a[1]) + c_prev), math.tanh(a[2] + a[3]), math.tanh(a[4] * a[5]),
             math.sigmoid(a[6] + a[7])]
        new_c = b[0] * b[1]
        new_m = math.tanh(new_c * math.tanh(b[2] + b[3]))
        if self._num_proj is not None:
            new_m = math.matmul(new_m, self._projection)
        return new_m, LSTMStateTuple(new_c, new_m)


class UGRNNCell(RNNCell):
    """An RNN cell with one gate between the old state and the new one."""

    def __init__(self, num_units, initializer=None, forget_bias=1.0, activation=math.tanh, reuse=None):
        super().__init__(_reuse=reuse)
        self._num_units, self._initializer, self._forget_bias = num_units, initializer, forget_bias
        self._activation = activation

    state_size = property(lambda self: self._num_units, doc="The number of units.")
    output_size = property(lambda self: self._num_units, doc="The number of units.")

    def call(self, inputs, state):
        with vs.variable_scope(vs.get_variable_scope(), initializer=self._initializer):
            both = _linear([inputs, state], 2 * self._num_units, True)
        gate, new = array.split(both, 2, axis=1)
        g = math.sigmoid(gate + self._forget_bias)
        new_state = g * state + (1.0 - g) * self._activation(new)
        return new_state, new_state


class ConvLSTMCell(RNNCell):
    """LSTM whose products are convolutions: states are images."""

    def __init__(self, conv_ndims, input_shape, output_channels, kernel_shape, use_bias=True, skip_connection=False,
                 forget_bias=1.0, initializers=None, name="conv_lstm_cell"):
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError("Invalid input_shape %s for conv_ndims=%d." % (input_shape, conv_ndims))
        self._conv_ndims, self._input_shape = conv_ndims, list(input_shape)
        self._output_channels, self._kernel_shape = output_channels, list(kernel_shape)
        self._use_bias, self._forget_bias, self._skip_connection = use_bias, forget_bias, skip_connection
        channels = output_channels + (self._input_shape[-1] if skip_connection else 0)
        self._output_size = shapes.TensorShape(self._input_shape[:-1] + [channels])
        self._state_size = LSTMStateTuple(*[shapes.TensorShape(self._input_shape[:-1] + [output_channels])] * 2)

    output_size = property(lambda self: self._output_size, doc="The shape of the output, without the batch.")
    state_size = property(lambda self: self._state_size, doc="The shapes of c and h, an LSTMStateTuple.")

    def call(self, inputs, state, scope=None):
        cell, hidden = state
        channels = 4 * self._output_channels
        args = array.concat([inputs, hidden], self._conv_ndims + 1)
        kernel = vs.get_variable("kernel", self._kernel_shape + [args.shape.as_list()[-1], channels],
                                 dtype=args.dtype.base_dtype)
        out = nn.convolution(args, kernel, padding="SAME")
        if self._use_bias:
            out = out + vs.get_variable("biases", [channels], dtype=args.dtype.base_dtype,
                                        initializer=initializers.constant(0.0, dtype=args.dtype.base_dtype))
        i, new, f, o = array.split(out, 4, axis=self._conv_ndims + 1)
        new_cell = math.sigmoid(f + self._forget_bias) * cell + math.sigmoid(i) * math.tanh(new)
        output = math.tanh(new_cell) * math.sigmoid(o)
        state = LSTMStateTuple(new_cell, output)
        return (array.concat([output, inputs], -1) if self._skip_connection else output), state


def _conv_lstm(n):
    class Cell(ConvLSTMCell):
        def __init__(self, name="conv_%dd_lstm_cell" % n, **kwargs):
            super().__init__(conv_ndims=n, name=name, **kwargs)
    Cell.__name__ = Cell.__qualname__ = "Conv%dDLSTMCell" % n
    Cell.__doc__ = "An LSTM cell whose products are %d-D convolutions; the keywords are those of ConvLSTMCell." % n
    return Cell


Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell = _conv_lstm(1), _conv_lstm(2), _conv_lstm(3)


# ---- wrappers with variables of their own ----

class _OnCell(RNNCell):
    """A cell with its own variables around another one, whose state it uses."""

    def __init__(self, cell, reuse):
        super().__init__(_reuse=reuse)
        assert_like_rnncell("cell", cell)
        self._cell = cell

    state_size = property(lambda self: self._cell.state_size, doc="The state size of the inner cell.")
    output_size = property(lambda self: self._cell.output_size, doc="The output size of the inner cell.")

    def zero_state(self, batch_size, dtype):
        with self._zero_scope(batch_size):
            return self._cell.zero_state(batch_size, dtype)


class EmbeddingWrapper(_OnCell):
    """A cell whose inputs are ids, looked up in a table "embedding"."""

    def __init__(self, cell, embedding_classes, embedding_size, initializer=None, reuse=None):
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError("Both embedding_classes and embedding_size must be > 0: %d, %d." %
                             (embedding_classes, embedding_size))
        self._classes, self._size, self._initializer = embedding_classes, embedding_size, initializer

    def call(self, inputs, state):
        with ops.device("/cpu:0"):
            even = initializers.random_uniform(-3 ** .5, 3 ** .5)  # of variance 1
            initializer = self._initializer or vs.get_variable_scope().initializer or even
            dtype = nest.flatten(state)[0].dtype.base_dtype
            table = vs.get_variable("embedding", [self._classes, self._size], initializer=initializer, dtype=dtype)
            rows = nn.embedding_lookup(table, array.reshape(inputs, [-1]))
        return self._cell(rows, state)


class InputProjectionWrapper(_OnCell):
    """A linear map before a cell."""

    def __init__(self, cell, num_proj, activation=None, input_size=None, reuse=None):
        super().__init__(cell, reuse)
        self._num_proj, self._activation = num_proj, activation

    def call(self, inputs, state):
        projected = _linear(inputs, self._num_proj, True)
        return self._cell(self._activation(projected) if self._activation else projected, state)


class OutputProjectionWrapper(_OnCell):
    """A linear map after a cell."""

    def __init__(self, cell, output_size, activation=None, reuse=None):
        super().__init__(cell, reuse)
        if output_size < 1:
            raise ValueError("Parameter output_size must be > 0: %d." % output_size)
        self._output_size, self._activation = output_size, activation

    output_size = property(lambda self: self._output_size, doc="The size of the projection.")

    def call(self, inputs, state):
        output, state = self._cell(inputs, state)
        projected = _linear(output, self._output_size, True)
        return (self._activation(projected) if self._activation else projected), state


class HighwayWrapper(RNNCellWrapper):
    """Mixes a cell's outputs with its inputs by a gate that is learnt."""

    def __init__(self, cell, couple_carry_transform_gates=True, carry_bias_init=1.0):
        super().__init__(cell)
        self._couple, self._carry_bias = couple_carry_transform_gates, carry_bias_init

    def _gate(self, x, name, bias):
        n = x.shape.with_rank(2).as_list()[1]
        w = vs.get_variable(name + "_w", [n, n])
        b = vs.get_variable(name + "_b", [n], initializer=initializers.constant(bias))
        return math.sigmoid(nn.xw_plus_b(x, w, b))

    def _mixed(self, x, y):
        carry = self._gate(x, "carry", self._carry_bias)
        transform = 1 - carry if self._couple else self._gate(x, "transform", -self._carry_bias)
        return x * carry + y * transform

    def _around(self, inputs, state, cell):
        outputs, new_state = cell(inputs, state)
        nest.assert_same_structure(inputs, outputs)
        nest.map_structure(lambda x, y: x.shape.assert_is_compatible_with(y.shape), inputs, outputs)
        return nest.map_structure(self._mixed, inputs, outputs), new_state


class AttentionCellWrapper(RNNCell):
    """A cell that looks back at its last outputs."""

    def __init__(self, cell, attn_length, attn_size=None, attn_vec_size=None, input_size=None, state_is_tuple=True, reuse=None):
        super().__init__(_reuse=reuse)
        assert_like_rnncell("cell", cell)
        if nest.is_sequence(cell.state_size) and not state_is_tuple:
            raise ValueError("Cell returns tuple of states, but the flag state_is_tuple is not set. State size is: %s" %
                             str(cell.state_size))
        if attn_length <= 0:
            raise ValueError("attn_length should be greater than zero, got %s" % attn_length)
        self._cell, self._attn_length, self._input_size, self._state_is_tuple = cell, attn_length, input_size, state_is_tuple
        self._attn_size = cell.output_size if attn_size is None else attn_size
        self._attn_vec_size = self._attn_size if attn_vec_size is None else attn_vec_size

    @property
    def state_size(self):
        size = (self._cell.state_size, self._attn_size, self._attn_size * self._attn_length)
        return size if self._state_is_tuple else sum(size)

    output_size = property(lambda self: self._attn_size, doc="The size of the attention.")

    def call(self, inputs, state):
        if self._state_is_tuple:
            state, attns, states = state
        else:
            whole = state
            at = self._cell.state_size
            state = whole[:, :at]
            attns, states = whole[:, at:at + self._attn_size], whole[:, at + self._attn_size:]
        states = array.reshape(states, [-1, self._attn_length, self._attn_size])
        size = inputs.shape.as_list()[1] if self._input_size is None else self._input_size
        inputs = _linear([inputs, attns], size, True)
        output, new_state = self._cell(inputs, state)
        query = array.concat(nest.flatten(new_state), 1) if self._state_is_tuple else new_state
        new_attns, new_states = self._attention(query, states)
        with vs.variable_scope("attn_output_projection"):
            output = _linear([output, new_attns], self._attn_size, True)
        new_states = array.concat([new_states, array.expand_dims(output, 1)], 1)
        new_states = array.reshape(new_states, [-1, self._attn_length * self._attn_size])
        new_state = (new_state, new_attns, new_states)
        return output, new_state if self._state_is_tuple else array.concat(list(new_state), 1)

    def _attention(self, query, states):
        with vs.variable_scope("attention"):
            k = vs.get_variable("attn_w", [1, 1, self._attn_size, self._attn_vec_size])
            v = vs.get_variable("attn_v", [self._attn_vec_size])
            hidden = array.reshape(states, [-1, self._attn_length, 1, self._attn_size])
            features = nn.conv2d(hidden, k, [1, 1, 1, 1], "SAME")
            y = array.reshape(_linear(query, self._attn_vec_size, True), [-1, 1, 1, self._attn_vec_size])
            a = nn.softmax(math.reduce_sum(v * math.tanh(features + y), [2, 3]))
            d = math.reduce_sum(array.reshape(a, [-1, self._attn_length, 1, 1]) * hidden, [1, 2])
            return array.reshape(d, [-1, self._attn_size]), states[:, 1:]


# ---- stacks in both directions ----

def _check_stacks(cells_fw, cells_bw, *initial):
    if not cells_fw:
        raise ValueError("Must specify at least one fw cell for BidirectionalRNN.")
    if not cells_bw:
        raise ValueError("Must specify at least one bw cell for BidirectionalRNN.")
    if not isinstance(cells_fw, list) or not isinstance(cells_bw, list):
        raise ValueError("cells_fw and cells_bw must be lists of RNNCells (one per layer).")
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")
    for states in initial:
        if states is not None and (not isinstance(states, list) or len(states) != len(cells_fw)):
            raise ValueError("initial states must be a list of state tensors (one per layer).")


def stack_bidirectional_rnn(cells_fw, cells_bw, inputs, initial_states_fw=None, initial_states_bw=None, dtype=None,
                            sequence_length=None, scope=None):
    """Layers in both directions, each taking both outputs of the one below; unrolled."""
    _check_stacks(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw, x = [], [], inputs
    with vs.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw) in enumerate(zip(cells_fw, cells_bw)):
            with vs.variable_scope("cell_%d" % i) as cell_scope:
                x, f, b = static_bidirectional_rnn(
                    fw, bw, x, initial_state_fw=initial_states_fw and initial_states_fw[i],
                    initial_state_bw=initial_states_bw and initial_states_bw[i], sequence_length=sequence_length, dtype=dtype,
                    scope=cell_scope)
                states_fw.append(f)
                states_bw.append(b)
    return x, tuple(states_fw), tuple(states_bw)


def stack_bidirectional_dynamic_rnn(cells_fw, cells_bw, inputs, initial_states_fw=None, initial_states_bw=None, dtype=None,
                                    sequence_length=None, parallel_iterations=None, time_major=False, scope=None,
                                    swap_memory=False):
    """The same in loops."""
    _check_stacks(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw, x = [], [], inputs
    with vs.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw) in enumerate(zip(cells_fw, cells_bw)):
            with vs.variable_scope("cell_%d" % i):
                outputs, (f, b) = _bidirectional_dynamic_rnn(
                    fw, bw, x, initial_state_fw=initial_states_fw and initial_states_fw[i],
                    initial_state_bw=initial_states_bw and initial_states_bw[i], sequence_length=sequence_length,
                    parallel_iterations=parallel_iterations, dtype=dtype, time_major=time_major, swap_memory=swap_memory)
                x = array.concat(outputs, 2)
                states_fw.append(f)
                states_bw.append(b)
    return x, tuple(states_fw), tuple(states_bw)


def __getattr__(name):
    raise AttributeError("module 'tf.contrib.rnn' has no attribute %r" % name)
