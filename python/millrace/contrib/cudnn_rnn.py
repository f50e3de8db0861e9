"""tf.contrib.cudnn_rnn: recurrent networks of several layers in one call, by time.

Their variables are those of the compatible cells in stack_bidirectional_dynamic_rnn or MultiRNNCell, under the names that
checkpoints of TensorFlow have for them, so what one trained the other can use.
"""

from ..framework import dtypes, shapes
from ..layers import base
from ..layers.base import InputSpec
from ..nn.basic import bias_add, dropout
from ..nn.recurrent import dynamic_rnn
from ..nn.rnn_cell import LayerRNNCell, LSTMStateTuple
from ..ops import array, math
from ..ops import variable_scope as vs
from .. import initializers, nn
from .rnn import LSTMBlockCell

__all__ = ["CUDNN_RNN_BIDIRECTION", "CUDNN_RNN_UNIDIRECTION", "CudnnCompatibleGRUCell", "CudnnCompatibleLSTMCell", "CudnnGRU",
           "CudnnLSTM", "CudnnRNNRelu", "CudnnRNNTanh"]

CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION = "unidirectional", "bidirectional"
CUDNN_LSTM, CUDNN_GRU, CUDNN_RNN_RELU, CUDNN_RNN_TANH = "lstm", "gru", "rnn_relu", "rnn_tanh"
CUDNN_INPUT_LINEAR_MODE, CUDNN_INPUT_SKIP_MODE, CUDNN_INPUT_AUTO_MODE = "linear_input", "skip_input", "auto_select"


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """An LSTM whose forget gate has no additional bias."""

    def __init__(self, num_units, reuse=None):
        super().__init__(num_units, forget_bias=0, cell_clip=None, use_peephole=False, reuse=reuse,
                         name="cudnn_compatible_lstm_cell")


class CudnnCompatibleGRUCell(LayerRNNCell):
    """A GRU that resets after the product with the state, not before."""

    def __init__(self, num_units, reuse=None, kernel_initializer=None):
        super().__init__(_reuse=reuse, name="cudnn_compatible_gru_cell")
        self._num_units, self._kernel_initializer = num_units, kernel_initializer
        self.input_spec = InputSpec(ndim=2)

    state_size = property(lambda self: self._num_units, doc="The number of units.")
    output_size = property(lambda self: self._num_units, doc="The number of units.")

    def build(self, inputs_shape):
        n, depth = self._num_units, self._depth(inputs_shape)
        how = dict(initializer=self._kernel_initializer)
        self._gate_kernel = self.add_variable("gates/kernel", [depth + n, 2 * n], **how)
        self._gate_bias = self.add_variable("gates/bias", [2 * n], initializer=initializers.constant(1.0))
        self._input_kernel = self.add_variable("candidate/input_projection/kernel", [depth, n], **how)
        self._hidden_kernel = self.add_variable("candidate/hidden_projection/kernel", [n, n], **how)
        self._input_bias = self.add_variable("candidate/input_projection/bias", [n], initializer=initializers.zeros())
        self._hidden_bias = self.add_variable("candidate/hidden_projection/bias", [n], initializer=initializers.zeros())
        self.built = True

    def call(self, inputs, state):
        gates = bias_add(math.matmul(array.concat([inputs, state], 1), self._gate_kernel), self._gate_bias)
        reset, update = array.split(math.sigmoid(gates), 2, axis=1)
        hidden = bias_add(math.matmul(state, self._hidden_kernel), self._hidden_bias)
        new = math.tanh(bias_add(math.matmul(inputs, self._input_kernel), self._input_bias) + reset * hidden)
        new_h = (1 - update) * new + update * state
        return new_h, new_h


class _Simple(LayerRNNCell):
    """activation(W [input, state] + b)"""

    def __init__(self, num_units, activation, name):
        super().__init__(name=name)
        self._num_units, self._activation = num_units, activation
        self.input_spec = InputSpec(ndim=2)

    state_size = property(lambda self: self._num_units)
    output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape):
        n = self._num_units
        self._kernel = self.add_variable("kernel", [self._depth(inputs_shape) + n, n])
        self._bias = self.add_variable("bias", [n], initializer=initializers.zeros())
        self.built = True

    def call(self, inputs, state):
        out = self._activation(bias_add(math.matmul(array.concat([inputs, state], 1), self._kernel), self._bias))
        return out, out


class _CudnnRNN(base.Layer):
    """Layers of a cell, in one or both directions."""

    _is_lstm = False

    def __init__(self, num_layers, num_units, input_mode=CUDNN_INPUT_LINEAR_MODE, direction=CUDNN_RNN_UNIDIRECTION, dropout=0.,
                 seed=None, dtype=dtypes.float32, kernel_initializer=None, bias_initializer=None, name=None):
        super().__init__(dtype=dtype, name=name)
        if direction not in (CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION):
            raise ValueError("Invalid direction: %s, expect %s or %s" %
                             (direction, CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION))
        if input_mode not in (CUDNN_INPUT_LINEAR_MODE, CUDNN_INPUT_AUTO_MODE):
            raise NotImplementedError("tf.contrib.cudnn_rnn: input_mode=%r" % input_mode)
        if bias_initializer is not None:
            raise NotImplementedError("tf.contrib.cudnn_rnn: bias_initializer")
        self._num_layers, self._num_units, self._direction = num_layers, num_units, direction
        self._input_mode, self._dropout, self._seed = input_mode, dropout, seed
        self._kernel_initializer = kernel_initializer
        self._cells = None

    num_layers = property(lambda self: self._num_layers, doc="The number of layers.")
    num_units = property(lambda self: self._num_units, doc="The number of units of each layer.")
    input_mode = property(lambda self: self._input_mode, doc="How the input enters the first layer.")
    direction = property(lambda self: self._direction, doc="\"unidirectional\" or \"bidirectional\".")
    num_dirs = property(lambda self: 1 if self._direction == CUDNN_RNN_UNIDIRECTION else 2,
                        doc="The number of directions, 1 or 2.")

    def build(self, input_shape):
        shape = shapes.as_shape(input_shape)
        if shape.ndims != 3 or shape.as_list()[-1] is None:
            raise ValueError("Expecting input_shape with 3 dims and a known last one, got %s" % shape)
        self.input_spec = InputSpec(ndim=3, axes={-1: shape.as_list()[-1]})
        self._cells = [[self._cell() for _ in range(self.num_dirs)] for _ in range(self._num_layers)]
        self.built = True

    def state_shape(self, batch_size):
        """Returns the shapes of the parts of the state, as lists."""
        shape = [self._num_layers * self.num_dirs, batch_size, self._num_units]
        return (shape, shape) if self._is_lstm else (shape,)

    def _zero_state(self, batch):
        zeros = [array.zeros(array.stack(s), self._dtype) for s in self.state_shape(batch)]
        return tuple(zeros)

    def call(self, inputs, initial_state=None, sequence_lengths=None, time_major=True, training=True):
        """(outputs, states), states being stacked over layers and directions."""
        x = inputs if time_major else array.transpose(inputs, [1, 0, 2])
        state = self._zero_state(array.shape(x)[1]) if initial_state is None else tuple(initial_state)
        finals = []
        for i, cells in enumerate(self._cells):
            if i > 0 and self._dropout > 0 and training:
                x = dropout(x, rate=self._dropout, seed=self._seed)
            outputs = []
            for d, cell in enumerate(cells):
                scope, reverse = self._place(i, d), d == 1
                out, final = self._run(cell, x, [s[i * self.num_dirs + d] for s in state], sequence_lengths, scope, reverse)
                outputs.append(out)
                finals.append(final)
            x = outputs[0] if len(outputs) == 1 else array.concat(outputs, 2)
        states = tuple(array.stack([f[k] for f in finals]) for k in range(len(state)))
        return (x if time_major else array.transpose(x, [1, 0, 2])), states

    def _place(self, layer, direction):
        if self.num_dirs == 1:
            return "rnn/multi_rnn_cell/cell_%d" % layer
        return "stack_bidirectional_rnn/cell_%d/bidirectional_rnn/%s" % (layer, ("fw", "bw")[direction])

    def _run(self, cell, x, state, lengths, scope, reverse):
        """(outputs, (h, c) or (h,)) of a layer in a direction."""
        def turned(t):
            if not reverse:
                return t
            return array.reverse(t, [0]) if lengths is None else array.reverse_sequence(t, lengths, seq_axis=0, batch_axis=1)
        initial = LSTMStateTuple(c=state[1], h=state[0]) if self._is_lstm else state[0]
        with vs.variable_scope(scope) as where:
            where.set_initializer(self._kernel_initializer or where.initializer)
            out, final = dynamic_rnn(cell, turned(x), sequence_length=lengths, initial_state=initial, time_major=True,
                                     scope=where)
        return turned(out), (final.h, final.c) if self._is_lstm else (final,)

    @property
    def trainable_weights(self):
        return [w for cells in self._cells or () for c in cells for w in c.trainable_weights]

    @property
    def saveable(self):
        """Raises NotImplementedError: the parameters are plain variables, which a Saver saves."""
        raise NotImplementedError("tf.contrib.cudnn_rnn: saveable is not needed: a Saver saves the parameters, which are plain variables")


class CudnnLSTM(_CudnnRNN):
    """LSTM layers with the interface of cuDNN's; they run on any device."""
    _is_lstm = True

    def _cell(self):
        return CudnnCompatibleLSTMCell(self._num_units)


class CudnnGRU(_CudnnRNN):
    """GRU layers with the interface of cuDNN's; they run on any device."""

    def _cell(self):
        return CudnnCompatibleGRUCell(self._num_units)


class CudnnRNNTanh(_CudnnRNN):
    """Simple recurrent layers with tanh and the interface of cuDNN's; they run on any device."""

    def _cell(self):
        return _Simple(self._num_units, math.tanh, "cudnn_compatible_rnn_cell")


class CudnnRNNRelu(_CudnnRNN):
    """Simple recurrent layers with relu and the interface of cuDNN's; they run on any device."""

    def _cell(self):
        return _Simple(self._num_units, nn.relu, "cudnn_compatible_rnn_cell")


class RNNParamsSaveable:
    """For parameters in the form of one device's library, which there is none of here."""

    def __init__(self, opaque_params, num_layers, num_units, input_size, input_mode=CUDNN_INPUT_LINEAR_MODE,
                 direction=CUDNN_RNN_UNIDIRECTION, scope=None, name="cudnn_rnn_saveable"):
        raise NotImplementedError("tf.contrib.cudnn_rnn.RNNParamsSaveable is not needed: a Saver saves the parameters, which are plain variables")


CudnnLSTMSaveable = CudnnGRUSaveable = CudnnRNNTanhSaveable = CudnnRNNReluSaveable = RNNParamsSaveable


def __getattr__(name):
    raise AttributeError("module 'tf.contrib.cudnn_rnn' has no attribute %r" % name)
