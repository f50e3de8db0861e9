"""Recurrent layers: RNN runs a cell over steps of time; SimpleRNN, GRU and LSTM are RNNs with their cells.

A cell has state_size (a number or several), and call(inputs, states) -> (output, new states).
"""

import inspect

import numpy as np

import millrace as tf

from ...framework import nest, shapes
from .. import backend as K
from ..engine import base_layer
from ..engine.base_layer import Layer
from ..utils import generic
from . import recurrence
from .arguments import resolved


def _sizes(cell):
    size = cell.state_size
    return list(size) if isinstance(size, (list, tuple)) and not isinstance(size, shapes.TensorShape) else [size]


def _dims(size):
    return shapes.as_shape(size).as_list() if not isinstance(size, int) else [size]


class StackedRNNCells(Layer):
    """Cells of which each takes what the one before gives."""

    def __init__(self, cells, **kwargs):
        for cell in cells:
            if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
                raise ValueError("All cells must have a `call` method and a `state_size` attribute. received cells: %s" %
                                 (cells,))
        super().__init__(**kwargs)
        self.cells = list(cells)

    @property
    def state_size(self):
        """The state sizes of all cells."""
        return tuple(s for c in self.cells for s in _sizes(c))

    @property
    def output_size(self):
        """The output size of the last cell."""
        return getattr(self.cells[-1], "output_size", _sizes(self.cells[-1])[0])

    def build(self, input_shape):
        shape = shapes.as_shape(input_shape[0] if isinstance(input_shape, list) else input_shape)
        for i, cell in enumerate(self.cells):
            if isinstance(cell, Layer) and not cell.built:
                with tf.name_scope("cell_%d" % i):
                    cell.build(shape)
                    cell.built = True
            out = getattr(cell, "output_size", _sizes(cell)[0])
            shape = shapes.TensorShape([shape.as_list()[0]] + _dims(out))
        self.built = True

    def prepare(self, x, training):
        """Prepares all cells for a sequence."""
        for cell in self.cells:
            if hasattr(cell, "prepare"):
                cell.prepare(x, training)
            out = getattr(cell, "output_size", _sizes(cell)[0])
            x = tf.zeros(tf.stack([tf.shape(x)[0]] + _dims(out)), x.dtype)

    def call(self, inputs, states, constants=None, **kwargs):
        """Runs one step through all cells, and returns the output of the last one and the new states."""
        states, new = list(states), []
        for cell in self.cells:
            n = len(_sizes(cell))
            more = {"constants": constants} if constants and "constants" in inspect.signature(cell.call).parameters else {}
            inputs, changed = cell.call(inputs, states[:n], **more, **kwargs)
            states = states[n:]
            new += list(changed)
        return inputs, new

    def get_config(self):
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype}
        config["cells"] = [generic.serialize_keras_object(c) for c in self.cells]
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a cell from the result of get_config."""
        from . import serialization
        config = dict(config)
        return cls([serialization.deserialize(c, custom_objects=custom_objects) for c in config.pop("cells")], **config)


class RNN(Layer):
    """Runs a cell over time."""

    def __init__(self, cell, return_sequences=False, return_state=False, go_backwards=False, stateful=False, unroll=False,
                 time_major=False, **kwargs):
        if isinstance(cell, (list, tuple)):
            cell = StackedRNNCells(cell)
        if not hasattr(cell, "call"):
            raise ValueError("`cell` should have a `call` method. The RNN was passed: %s" % (cell,))
        if not hasattr(cell, "state_size"):
            raise ValueError("The RNN cell should have an attribute `state_size` (tuple of integers, one integer per RNN "
                             "state).")
        if "input_length" in kwargs or "input_dim" in kwargs and "input_shape" not in kwargs:
            kwargs["input_shape"] = (kwargs.pop("input_length", None), kwargs.pop("input_dim", None))
        self._state_variables = None
        super().__init__(**kwargs)
        self.cell, self.return_sequences, self.return_state = cell, return_sequences, return_state
        self.go_backwards, self.stateful, self.unroll, self.time_major = go_backwards, stateful, unroll, time_major
        self.supports_masking, self._num_constants = True, 0

    @property
    def states(self):
        """The state variables of a stateful layer, or a list of None."""
        return [None] * len(_sizes(self.cell)) if self._state_variables is None else self._state_variables

    # ---- building ----

    def build(self, input_shape):
        shape = input_shape[0] if isinstance(input_shape, list) else input_shape
        dims = shapes.as_shape(shape).as_list()
        step = shapes.TensorShape([dims[1 if self.time_major else 0]] + dims[2:])
        if isinstance(self.cell, Layer) and not self.cell.built:
            self.cell.build(step)
            self.cell.built = True
        if self.stateful:
            self._make_states(dims[1 if self.time_major else 0])
        self.built = True

    def _make_states(self, batch):
        if batch is None:
            raise ValueError("If a RNN is stateful, it needs to know its batch size. Specify the batch size of your input "
                             "tensors: \n- If using a Sequential model, specify the batch size by passing a "
                             "`batch_input_shape` argument to your first layer.\n- If using the functional API, specify the "
                             "batch size by passing a `batch_shape` argument to your Input layer.")
        made = [tf.Variable(np.zeros([batch] + _dims(s), K.floatx()), trainable=False, use_resource=True, name="state",
                            collections=[])
                for s in _sizes(self.cell)]
        for v in made:
            K.track_variable(v)
        self.__dict__["_state_variables"] = made  # the values of states are no weights

    def reset_states(self, states=None):
        """Sets the states of a stateful layer to zero, or to the given arrays."""
        if not self.stateful:
            raise AttributeError("Layer must be stateful.")
        if self._state_variables is None:
            return
        values = generic.to_list(states) or [np.zeros(v.shape.as_list()) for v in self._state_variables]
        if len(values) != len(self._state_variables):
            raise ValueError("Layer %s expects %d states, but it received %d state values." %
                             (self.name, len(self._state_variables), len(values)))
        for v, value in zip(self._state_variables, values):
            if v.shape.as_list() != list(np.shape(value)):
                raise ValueError("State is incompatible with layer %s: expected shape=%s, found shape=%s" %
                                 (self.name, tuple(v.shape.as_list()), np.shape(value)))
        K.batch_set_value(list(zip(self._state_variables, values)))

    def get_initial_state(self, inputs):
        """Returns the states that a sequence starts with: zeros, unless the cell has its own."""
        batch = tf.shape(inputs)[1 if self.time_major else 0]
        if hasattr(self.cell, "get_initial_state"):
            return list(nest.flatten(self.cell.get_initial_state(inputs=None, batch_size=batch, dtype=inputs.dtype)))
        known = inputs.shape.as_list()[1 if self.time_major else 0]
        made = []
        for s in _sizes(self.cell):
            zeros = tf.zeros(tf.stack([batch] + _dims(s)), inputs.dtype)
            zeros.set_shape([known] + _dims(s))
            made.append(zeros)
        return made

    # ---- calling ----

    def __call__(self, inputs, initial_state=None, constants=None, **kwargs):
        """States and constants that are given are inputs like the first."""
        if isinstance(inputs, (list, tuple)):
            if len(inputs) == 1:
                return super().__call__(inputs[0], **kwargs)
            return super().__call__(list(inputs), **kwargs)
        extra = generic.to_list(initial_state)
        constants = generic.to_list(constants)
        self._num_constants = len(constants) or self._num_constants
        if not extra and not constants:
            return super().__call__(inputs, **kwargs)
        return super().__call__([inputs] + extra + constants, **kwargs)

    def _taken_apart(self, inputs):
        """(inputs, states or None, constants)"""
        if not isinstance(inputs, (list, tuple)):
            return inputs, None, []
        n = len(inputs) - self._num_constants
        states = list(inputs[1:n])
        if states and len(states) != len(_sizes(self.cell)):
            raise ValueError("Layer has %d states but was passed %d initial states." % (len(_sizes(self.cell)), len(states)))
        return inputs[0], states or None, list(inputs[n:])

    def call(self, inputs, mask=None, training=None, initial_state=None, constants=None):
        """Runs the cell over a sequence.

        Args:
            inputs: [batch, time, ...], or a list of it, the initial states and the constants
            mask: which steps count
            training: whether to apply dropout
            initial_state: the states to start with
            constants: tensors passed to the cell at each step
        """
        inputs, states, more = self._taken_apart(inputs)
        constants = generic.to_list(constants) or more
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        if states is None:
            states = generic.to_list(initial_state) or (
                [tf.convert_to_tensor(v) for v in self._state_variables] if self.stateful else self.get_initial_state(inputs))
        kwargs, wanted = {}, inspect.signature(self.cell.call).parameters
        if "training" in wanted:
            kwargs["training"] = training
        if hasattr(self.cell, "prepare"):
            self.cell.prepare(inputs[0] if self.time_major else inputs[:, 0], training)
        n = len(states)

        def step(x, now):
            if constants:
                return self.cell.call(x, now[:n], constants=now[n:], **kwargs)
            return self.cell.call(x, now, **kwargs)

        last, outputs, new = recurrence.rnn(step, inputs, states, self.go_backwards, mask, constants, self.unroll,
                                            self.time_major)
        if self.stateful:
            self.add_update([tf.assign(v, s).op for v, s in zip(self._state_variables, new)])
        output = outputs if self.return_sequences else last
        return [output] + list(new) if self.return_state else output

    def compute_mask(self, inputs, mask=None):
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        out = mask if self.return_sequences else None
        return [out] + [None] * len(_sizes(self.cell)) if self.return_state else out

    def compute_output_shape(self, input_shape):
        many = isinstance(input_shape, list) and input_shape and not isinstance(input_shape[0], (int, type(None)))
        dims = shapes.as_shape(input_shape[0] if many else input_shape).as_list()
        out = _dims(getattr(self.cell, "output_size", _sizes(self.cell)[0]))
        shape = shapes.TensorShape(dims[:2] + out if self.return_sequences else dims[:1] + out)
        if self.return_state:
            return [shape] + [shapes.TensorShape(dims[:1] + _dims(s)) for s in _sizes(self.cell)]
        return shape

    def get_config(self):
        config = base_layer.BaseLayer.get_config(self)
        for k in ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major"):
            config[k] = getattr(self, k)
        if type(self) is RNN:
            config["cell"] = generic.serialize_keras_object(self.cell)
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a layer from the result of get_config."""
        config = dict(config)
        if cls is not RNN:
            return cls(**config)
        from . import serialization
        return cls(serialization.deserialize(config.pop("cell"), custom_objects=custom_objects), **config)


# ---- cells ----

class AbstractRNNCell(Layer):
    """The base of RNN cells that a program defines."""

    state_size = property(lambda self: self._missing("state_size"),
                          doc="The size of the state, or a list of sizes; subclasses define it.")
    output_size = property(lambda self: self._missing("output_size"),
                           doc="The size of the output; subclasses define it.")

    def _missing(self, what):
        raise NotImplementedError("%s has no %s" % (type(self).__name__, what))

    def call(self, inputs, states):
        """Runs one step, and returns the output and the new states; subclasses define it."""
        self._missing("call")

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        """Returns states of zeros; batch size and type are taken from inputs if it is given."""
        batch, made = tf.shape(inputs)[0] if inputs is not None else batch_size, []
        for s in _sizes(self):
            zeros = tf.zeros(tf.stack([batch] + _dims(s)), dtype or K.floatx())
            zeros.set_shape([None] + _dims(s))
            made.append(zeros)
        return made if len(made) > 1 else made[0]



class _Cell(AbstractRNNCell):
    """Weights for a number of gates, which stand beside each other."""

    gates = 1

    def _take(self, units, activation, use_bias, dropout, recurrent_dropout, **others):
        self.units, self.use_bias = int(units), use_bias
        self.dropout, self.recurrent_dropout = min(1.0, max(0.0, dropout)), min(1.0, max(0.0, recurrent_dropout))
        self.__dict__.update(resolved(activation=activation, **others))
        self._masks = self._recurrent_masks = None

    @property
    def state_size(self):
        return self.units

    @property
    def output_size(self):
        return self.units

    def build(self, input_shape):
        last, wide = shapes.as_shape(input_shape).as_list()[-1], self.units * self.gates
        self.kernel = self.add_weight("kernel", shape=(last, wide), initializer=self.kernel_initializer,
                                      regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)
        self.recurrent_kernel = self.add_weight("recurrent_kernel", shape=(self.units, wide),
                                                initializer=self.recurrent_initializer, regularizer=self.recurrent_regularizer,
                                                constraint=self.recurrent_constraint)
        self.bias = self.add_weight("bias", shape=self._bias_shape(), initializer=self._first_bias(),
                                    regularizer=self.bias_regularizer,
                                    constraint=self.bias_constraint) if self.use_bias else None
        self.built = True

    def _bias_shape(self):
        return (self.units * self.gates,)

    def _first_bias(self):
        return self.bias_initializer

    def prepare(self, x, training):
        """Chooses what is dropped, the same at all steps."""
        ones = tf.ones_like(x)
        state = tf.ones(tf.stack([tf.shape(x)[0], self.units]), x.dtype)
        self._masks = self._drawn(ones, self.dropout, training)
        self._recurrent_masks = self._drawn(state, self.recurrent_dropout, training)

    def _drawn(self, ones, rate, training):
        if not rate:
            return None
        return [K.in_train_phase(lambda: tf.nn.dropout(ones, rate=rate), lambda: tf.identity(ones), training=training)
                for _ in range(self.gates)]

    def _parts(self, x, kernel, masks, bias=None):
        """What comes to each gate."""
        n = self.units
        if masks is not None and getattr(self, "implementation", 1) == 1 and self.gates > 1:
            out = [tf.matmul(x * m, kernel[:, i * n:(i + 1) * n]) for i, m in enumerate(masks)]
            return out if bias is None else [K.bias_add(o, bias[i * n:(i + 1) * n]) for i, o in enumerate(out)]
        out = tf.matmul(x if masks is None else x * masks[0], kernel)
        out = out if bias is None else K.bias_add(out, bias)
        return [out] if self.gates == 1 else tf.split(out, self.gates, axis=1)

    def __call__(self, inputs, states, training=None, **kwargs):
        """A cell by itself: one step."""
        with tf.name_scope(self.name):
            if not self.built:
                self.build(inputs.shape)
                self.built = True
            self.prepare(inputs, training)
            return self.call(inputs, generic.to_list(states), training=training, **kwargs)


class SimpleRNNCell(_Cell):
    """One step of a SimpleRNN: the output is fed back."""

    def __init__(self, units, activation="tanh", use_bias=True, kernel_initializer="glorot_uniform",
                 recurrent_initializer="orthogonal", bias_initializer="zeros", kernel_regularizer=None,
                 recurrent_regularizer=None, bias_regularizer=None, kernel_constraint=None, recurrent_constraint=None,
                 bias_constraint=None, dropout=0.0, recurrent_dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self._take(units, activation, use_bias, dropout, recurrent_dropout, kernel_initializer=kernel_initializer,
                   recurrent_initializer=recurrent_initializer, bias_initializer=bias_initializer,
                   kernel_regularizer=kernel_regularizer, recurrent_regularizer=recurrent_regularizer,
                   bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
                   recurrent_constraint=recurrent_constraint, bias_constraint=bias_constraint)

    def call(self, inputs, states, training=None):
        """Runs one step, and returns the output and the new states."""
        x, = self._parts(inputs, self.kernel, self._masks, self.bias)
        h, = self._parts(states[0], self.recurrent_kernel, self._recurrent_masks)
        output = self.activation(x + h)
        return output, [output]


class GRUCell(_Cell):
    """One step of a GRU."""
    gates = 3

    def __init__(self, units, activation="tanh", recurrent_activation="hard_sigmoid", use_bias=True,
                 kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal", bias_initializer="zeros",
                 kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None, kernel_constraint=None,
                 recurrent_constraint=None, bias_constraint=None, dropout=0.0, recurrent_dropout=0.0, implementation=1,
                 reset_after=False, **kwargs):
        super().__init__(**kwargs)
        self._take(units, activation, use_bias, dropout, recurrent_dropout, recurrent_activation=recurrent_activation,
                   kernel_initializer=kernel_initializer, recurrent_initializer=recurrent_initializer,
                   bias_initializer=bias_initializer, kernel_regularizer=kernel_regularizer,
                   recurrent_regularizer=recurrent_regularizer, bias_regularizer=bias_regularizer,
                   kernel_constraint=kernel_constraint, recurrent_constraint=recurrent_constraint,
                   bias_constraint=bias_constraint)
        self.implementation, self.reset_after = implementation, reset_after

    def _bias_shape(self):
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def call(self, inputs, states, training=None):
        """Runs one step, and returns the output and the new states."""
        h, n = states[0], self.units
        bias = self.bias if not (self.use_bias and self.reset_after) else self.bias[0]
        xz, xr, xh = self._parts(inputs, self.kernel, self._masks, bias)
        if self.reset_after:
            hz, hr, hh = self._parts(h, self.recurrent_kernel, self._recurrent_masks, self.bias[1] if self.use_bias else None)
            z, r = self.recurrent_activation(xz + hz), self.recurrent_activation(xr + hr)
            new = self.activation(xh + r * hh)
        else:
            dropped = [h] * 3 if self._recurrent_masks is None else [h * m for m in self._recurrent_masks]
            if self._recurrent_masks is None:
                hz, hr = tf.split(tf.matmul(h, self.recurrent_kernel[:, :2 * n]), 2, axis=1)
            else:
                hz = tf.matmul(dropped[0], self.recurrent_kernel[:, :n])
                hr = tf.matmul(dropped[1], self.recurrent_kernel[:, n:2 * n])
            z, r = self.recurrent_activation(xz + hz), self.recurrent_activation(xr + hr)
            new = self.activation(xh + tf.matmul(r * dropped[2], self.recurrent_kernel[:, 2 * n:]))
        output = z * h + (1 - z) * new
        return output, [output]


class LSTMCell(_Cell):
    """One step of an LSTM."""
    gates = 4

    def __init__(self, units, activation="tanh", recurrent_activation="hard_sigmoid", use_bias=True,
                 kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal", bias_initializer="zeros",
                 unit_forget_bias=True, kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None,
                 kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, dropout=0.0, recurrent_dropout=0.0,
                 implementation=1, **kwargs):
        super().__init__(**kwargs)
        self._take(units, activation, use_bias, dropout, recurrent_dropout, recurrent_activation=recurrent_activation,
                   kernel_initializer=kernel_initializer, recurrent_initializer=recurrent_initializer,
                   bias_initializer=bias_initializer, kernel_regularizer=kernel_regularizer,
                   recurrent_regularizer=recurrent_regularizer, bias_regularizer=bias_regularizer,
                   kernel_constraint=kernel_constraint, recurrent_constraint=recurrent_constraint,
                   bias_constraint=bias_constraint)
        self.implementation, self.unit_forget_bias = implementation, unit_forget_bias

    @property
    def state_size(self):
        """The sizes of the two parts of the state."""
        return [self.units, self.units]

    def _first_bias(self):
        """A new cell forgets little."""
        if not self.unit_forget_bias:
            return self.bias_initializer
        n = self.units
        return lambda shape, dtype=None, **unused: tf.concat(
            [self.bias_initializer((n,), dtype=dtype), tf.ones((n,), dtype), self.bias_initializer((2 * n,), dtype=dtype)], 0)

    def call(self, inputs, states, training=None):
        """Runs one step, and returns the output and the new states."""
        h, c = states
        x = self._parts(inputs, self.kernel, self._masks, self.bias)
        r = self._parts(h, self.recurrent_kernel, self._recurrent_masks)
        i, f, g, o = (a + b for a, b in zip(x, r))
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]


# ---- layers of cells ----

def _layer(name, cell_class, doc, module=__name__):
    """The RNN of a cell; its arguments are the cell's and RNN's, and it has them as attributes."""
    cell_parameters = [p for p in inspect.signature(cell_class.__init__).parameters.values()
                       if p.name not in ("self", "kwargs")]
    names = [p.name for p in cell_parameters]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    more = [inspect.Parameter(n, kind, default=d) for n, d in (
        ("activity_regularizer", None), ("return_sequences", False), ("return_state", False), ("go_backwards", False),
        ("stateful", False), ("unroll", False), ("time_major", False))]
    at = names.index("bias_regularizer") + 1  # TensorFlow's order: reset_after comes after unroll
    cell_first = [p for p in cell_parameters if p.name != "reset_after"]
    signature = inspect.Signature([inspect.Parameter("self", kind)] +
                                  cell_first[:at] + more[:1] + cell_first[at:] + more[1:6] +
                                  [p for p in cell_parameters if p.name == "reset_after"] + more[6:] +
                                  [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)])

    def __init__(self, *args, **kwargs):
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        given.pop("self")
        others = given.pop("kwargs")
        own = {n: given.pop(n) for n in names}
        cell = cell_class(dtype=others.get("dtype"), name=None, **own)
        RNN.__init__(self, cell, **given, **others)
        self.input_spec = None

    def get_config(self):
        """Returns the arguments of the constructor as a dict."""
        config = RNN.get_config(self)
        config.update((n, base_layer._encoded(getattr(self.cell, n))) for n in names)
        config["activity_regularizer"] = base_layer._encoded(self.activity_regularizer)
        return config

    __init__.__signature__ = signature
    members = {"__init__": __init__, "get_config": get_config, "__module__": module, "__doc__": doc}
    for n in names:
        members[n] = property(lambda self, n=n: getattr(self.cell, n), doc="The argument %s of the cell." % n)
    return type(name, (RNN,), members)


SimpleRNN = _layer("SimpleRNN", SimpleRNNCell, "A recurrent layer whose output is fed back.")
GRU = _layer("GRU", GRUCell, "A recurrent layer of gated recurrent units.")
LSTM = _layer("LSTM", LSTMCell, "A recurrent layer of long short-term memory.")
