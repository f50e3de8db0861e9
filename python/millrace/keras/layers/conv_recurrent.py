"""Recurrence over images: an LSTM whose products are convolutions."""

import inspect

import millrace as tf

from ...framework import shapes
from ...layers import utils
from .. import backend as K
from ..engine import base_layer
from ..engine.base_layer import Layer
from ..utils import generic
from . import recurrence
from .arguments import data_format as _data_format
from .arguments import resolved


class ConvLSTM2DCell(Layer):
    """One step of a ConvLSTM2D: an LSTM whose products are convolutions."""

    def __init__(self, filters, kernel_size, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1),
                 activation="tanh", recurrent_activation="hard_sigmoid", use_bias=True, kernel_initializer="glorot_uniform",
                 recurrent_initializer="orthogonal", bias_initializer="zeros", unit_forget_bias=True, kernel_regularizer=None,
                 recurrent_regularizer=None, bias_regularizer=None, kernel_constraint=None, recurrent_constraint=None,
                 bias_constraint=None, dropout=0.0, recurrent_dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.filters, self.kernel_size = filters, utils.normalize_tuple(kernel_size, 2, "kernel_size")
        self.strides, self.padding = utils.normalize_tuple(strides, 2, "strides"), utils.normalize_padding(padding)
        self.dilation_rate = utils.normalize_tuple(dilation_rate, 2, "dilation_rate")
        self.data_format, self.use_bias, self.unit_forget_bias = _data_format(data_format), use_bias, unit_forget_bias
        self.dropout, self.recurrent_dropout = min(1.0, max(0.0, dropout)), min(1.0, max(0.0, recurrent_dropout))
        self.__dict__.update(resolved(
            activation=activation, recurrent_activation=recurrent_activation, kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer, bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer, recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint, recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint))
        self._mask = self._recurrent_mask = None

    @property
    def state_size(self):
        """The channels of the two parts of the state."""
        return (self.filters, self.filters)

    def build(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        n, channels = self.filters, dims[1 if self.data_format == "channels_first" else -1]
        self.kernel = self.add_weight("kernel", shape=self.kernel_size + (channels, 4 * n), initializer=self.kernel_initializer,
                                      regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)
        self.recurrent_kernel = self.add_weight(
            "recurrent_kernel", shape=self.kernel_size + (n, 4 * n), initializer=self.recurrent_initializer,
            regularizer=self.recurrent_regularizer, constraint=self.recurrent_constraint)
        first = self.bias_initializer if not self.unit_forget_bias else lambda shape, dtype=None, **unused: tf.concat(
            [self.bias_initializer((n,), dtype=dtype), tf.ones((n,), dtype), self.bias_initializer((2 * n,), dtype=dtype)], 0)
        self.bias = self.add_weight("bias", shape=(4 * n,), initializer=first, regularizer=self.bias_regularizer,
                                    constraint=self.bias_constraint) if self.use_bias else None
        self.built = True

    def input_conv(self, x, w, b=None):
        """Convolves the input, with strides, padding and an optional bias."""
        out = K.conv2d(x, w, strides=self.strides, padding=self.padding, data_format=self.data_format,
                       dilation_rate=self.dilation_rate)
        return out if b is None else K.bias_add(out, b, data_format=self.data_format)

    def recurrent_conv(self, x, w):
        """Convolves the state, keeping its size."""
        return K.conv2d(x, w, strides=(1, 1), padding="same", data_format=self.data_format)

    def prepare(self, x, state, training):
        """Draws the dropout masks of a sequence."""
        draw = lambda like, rate: None if not rate else K.in_train_phase(
            lambda: tf.nn.dropout(tf.ones_like(like), rate=rate), lambda: tf.ones_like(like), training=training)
        self._mask, self._recurrent_mask = draw(x, self.dropout), draw(state, self.recurrent_dropout)

    def call(self, inputs, states, training=None):
        """Runs one step, and returns the output and the new states."""
        h, c = states
        x = inputs if self._mask is None else inputs * self._mask
        r = h if self._recurrent_mask is None else h * self._recurrent_mask
        z = self.input_conv(x, self.kernel, self.bias) + self.recurrent_conv(r, self.recurrent_kernel)
        i, f, g, o = tf.split(z, 4, axis=1 if self.data_format == "channels_first" else 3)
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]


_CELL = [p for p in inspect.signature(ConvLSTM2DCell.__init__).parameters if p not in ("self", "kwargs")]


class ConvLSTM2D(Layer):
    """Over (samples, time, rows, columns, channels)."""

    def __init__(self, filters, kernel_size, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1),
                 activation="tanh", recurrent_activation="hard_sigmoid", use_bias=True, kernel_initializer="glorot_uniform",
                 recurrent_initializer="orthogonal", bias_initializer="zeros", unit_forget_bias=True, kernel_regularizer=None,
                 recurrent_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                 recurrent_constraint=None, bias_constraint=None, return_sequences=False, go_backwards=False, stateful=False,
                 dropout=0.0, recurrent_dropout=0.0, **kwargs):
        given = locals()
        if stateful:
            raise NotImplementedError("ConvLSTM2D(stateful=True)")
        self.return_state = kwargs.pop("return_state", False)
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.cell = ConvLSTM2DCell(**{n: given[n] for n in _CELL})
        self.return_sequences, self.go_backwards, self.stateful = return_sequences, go_backwards, stateful
        self.supports_masking = True

    def build(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        if not self.cell.built:
            self.cell.build(shapes.TensorShape([dims[0]] + dims[2:]))
        self.built = True

    def call(self, inputs, mask=None, training=None):
        cell = self.cell
        channels = inputs.shape.as_list()[2 if cell.data_format == "channels_first" else -1]
        # A state is as large as what a convolution of the first image gives.
        zero = cell.input_conv(tf.zeros_like(inputs[:, 0]), tf.zeros(cell.kernel_size + (channels, cell.filters)))
        cell.prepare(inputs[:, 0], zero, training)
        last, outputs, states = recurrence.rnn(cell.call, inputs, [zero, zero], self.go_backwards, mask)
        output = outputs if self.return_sequences else last
        return [output] + list(states) if self.return_state else output

    def compute_mask(self, inputs, mask=None):
        out = mask if self.return_sequences else None
        return [out, None, None] if self.return_state else out

    def compute_output_shape(self, input_shape):
        dims, c = shapes.as_shape(input_shape).as_list(), self.cell
        first = c.data_format == "channels_first"
        space = [utils.conv_output_length(d, k, c.padding, s, r) for d, k, s, r in zip(
            dims[3:] if first else dims[2:4], c.kernel_size, c.strides, c.dilation_rate)]
        image = [c.filters] + space if first else space + [c.filters]
        return shapes.TensorShape(dims[:2] + image if self.return_sequences else dims[:1] + image)

    def get_config(self):
        config = base_layer.BaseLayer.get_config(self)
        config.update((n, base_layer._encoded(getattr(self.cell, n))) for n in _CELL)
        config.update(return_sequences=self.return_sequences, go_backwards=self.go_backwards, stateful=self.stateful,
                      return_state=self.return_state,
                      activity_regularizer=generic.serialize_keras_object(self.activity_regularizer))
        return config
