"""CuDNNGRU and CuDNNLSTM: the recurrent layers as cuDNN has them, computed by the operations of every device.

Their gates are sigmoids, and inputs and states have a bias each, which stand one after the other.
"""

import millrace as tf

from .recurrent import GRUCell, LSTMCell, _layer


class _CuDNNGRUCell(GRUCell):
    def __init__(self, units, kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal", bias_initializer="zeros",
                 kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None, kernel_constraint=None,
                 recurrent_constraint=None, bias_constraint=None, **kwargs):
        super().__init__(units, recurrent_activation="sigmoid", kernel_initializer=kernel_initializer,
                         recurrent_initializer=recurrent_initializer, bias_initializer=bias_initializer,
                         kernel_regularizer=kernel_regularizer, recurrent_regularizer=recurrent_regularizer,
                         bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
                         recurrent_constraint=recurrent_constraint, bias_constraint=bias_constraint, reset_after=True, **kwargs)

    def _bias_shape(self):
        return (6 * self.units,)

    def call(self, inputs, states, training=None):
        h, n = states[0], 3 * self.units
        xz, xr, xh = self._parts(inputs, self.kernel, None, self.bias[:n])
        hz, hr, hh = self._parts(h, self.recurrent_kernel, None, self.bias[n:])
        z, r = tf.sigmoid(xz + hz), tf.sigmoid(xr + hr)
        output = z * h + (1 - z) * tf.tanh(xh + r * hh)
        return output, [output]


class _CuDNNLSTMCell(LSTMCell):
    def __init__(self, units, kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal", bias_initializer="zeros",
                 unit_forget_bias=True, kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None,
                 kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, **kwargs):
        super().__init__(units, recurrent_activation="sigmoid", kernel_initializer=kernel_initializer,
                         recurrent_initializer=recurrent_initializer, bias_initializer=bias_initializer,
                         unit_forget_bias=unit_forget_bias, kernel_regularizer=kernel_regularizer,
                         recurrent_regularizer=recurrent_regularizer, bias_regularizer=bias_regularizer,
                         kernel_constraint=kernel_constraint, recurrent_constraint=recurrent_constraint,
                         bias_constraint=bias_constraint, **kwargs)

    def _bias_shape(self):
        return (8 * self.units,)

    def _first_bias(self):
        if not self.unit_forget_bias:
            return self.bias_initializer
        n, first = self.units, self.bias_initializer
        return lambda shape, dtype=None, **unused: tf.concat(
            [first((5 * n,), dtype=dtype), tf.ones((n,), dtype), first((2 * n,), dtype=dtype)], 0)

    def call(self, inputs, states, training=None):
        h, c = states
        n = 4 * self.units
        i, f, g, o = (a + b for a, b in zip(self._parts(inputs, self.kernel, None, self.bias[:n]),
                                            self._parts(h, self.recurrent_kernel, None, self.bias[n:])))
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        return h, [h, c]


CuDNNGRU = _layer("CuDNNGRU", _CuDNNGRUCell, "A GRU layer with the weights that cuDNN has; it runs on any device.",
                  __name__)
CuDNNLSTM = _layer("CuDNNLSTM", _CuDNNLSTMCell, "An LSTM layer with the weights that cuDNN has; it runs on any device.",
                   __name__)
