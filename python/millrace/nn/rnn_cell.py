"""Cells of recurrent networks: (output, new state) = cell(input, state).

A cell is a layer whose variables are named "kernel" and "bias", under a scope of the cell's class.  state_size and output_size
are numbers, shapes, or structures of them; a state has the same structure.  Wrappers change what goes into a cell or comes
out, and open no scope of their own.
"""

import collections
import hashlib
import numbers

from ..framework import convert, dtypes, nest, ops, shapes
from ..layers import base
from ..layers.base import InputSpec
from ..ops import array, clip, math, random
from ..ops import variable_scope as vs

from .. import initializers
from .basic import bias_add, dropout

__all__ = ["BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "GRUCell", "LSTMCell", "LSTMStateTuple",
           "MultiRNNCell", "RNNCell", "ResidualWrapper"]

_WEIGHTS, _BIAS = "kernel", "bias"
_WEIGHTS_VARIABLE_NAME, _BIAS_VARIABLE_NAME = _WEIGHTS, _BIAS


def assert_like_rnncell(cell_name, cell):
    """A TypeError unless it can be used as a cell."""
    missing = [what for what, there in (
        ("'output_size' property is missing", hasattr(cell, "output_size")),
        ("'state_size' property is missing", hasattr(cell, "state_size")),
        ("either 'zero_state' or 'get_initial_state' method is required",
         hasattr(cell, "zero_state") or hasattr(cell, "get_initial_state")),
        ("is not callable", callable(cell))) if not there]
    if missing:
        raise TypeError("The argument %r (%s) is not an RNNCell: %s." % (cell_name, cell, ", ".join(missing)))


def _size_shape(size):
    return size if isinstance(size, shapes.TensorShape) else shapes.TensorShape([size])


def state_shape(batch_size, size):
    """The static shape of a part of a state; the batch may be unknown."""
    if isinstance(batch_size, ops.Tensor):
        known = convert.constant_value(batch_size)
        batch_size = None if known is None else int(known)
    return shapes.TensorShape([batch_size]).concatenate(_size_shape(size))


def _dynamic_shape(batch_size, size):
    dims = _size_shape(size).as_list()
    static = state_shape(batch_size, size)
    if static.is_fully_defined():
        return static.as_list()
    return array.concat([array.expand_dims(math.cast(batch_size, dtypes.int32), 0), convert.constant(dims, dtypes.int32)], 0)


def zero_state_tensors(state_size, batch_size, dtype):
    """Returns tensors of zeros in the structure of state_size."""
    def zeros(size):
        z = array.zeros(_dynamic_shape(batch_size, size), dtype=dtype)
        z.set_shape(state_shape(batch_size, size))
        return z
    return nest.map_structure(zeros, state_size)


_zero_state_tensors = zero_state_tensors


class RNNCell(base.Layer):
    """A cell; a subclass has state_size, output_size and call(inputs, state), and may have build(inputs_shape)."""

    def __call__(self, inputs, state, scope=None):
        if scope is not None:
            with vs.variable_scope(scope, custom_getter=self._rnn_get_variable) as scope:
                return super().__call__(inputs, state, scope=scope)
        with vs.variable_scope(vs.get_variable_scope(), custom_getter=self._rnn_get_variable):
            return super().__call__(inputs, state)

    def _rnn_get_variable(self, getter, *args, **kwargs):
        """Variables that `call` gets by itself belong to the cell."""
        v = getter(*args, **kwargs)
        parts = list(v) if hasattr(v, "_get_variable_list") else [v]
        trainable = set(map(id, ops.get_collection_ref(ops.GraphKeys.TRAINABLE_VARIABLES)))
        for p in parts:
            kept = self._trainable_weights if id(p) in trainable else self._non_trainable_weights
            if not any(p is k for k in kept):
                kept.append(p)
        return v

    @property
    def state_size(self):
        """The size or shape of the state, or a structure of them."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self):
        """The size or shape of the output."""
        raise NotImplementedError("Abstract method")

    def build(self, inputs_shape):
        """The default: variables are made in call."""

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        """Returns a state of zeros; batch size and type are taken from inputs if it is given."""
        if inputs is not None:
            inputs = convert.convert_to_tensor(inputs, name="inputs")
            batch_size, dtype = array.shape(inputs)[0], inputs.dtype.base_dtype
        if batch_size is None or dtype is None:
            raise ValueError("batch_size and dtype cannot be None while constructing initial state: batch_size=%s, dtype=%s" %
                             (batch_size, dtype))
        return self.zero_state(batch_size, dtype)

    def _zero_scope(self, batch_size):
        values = [batch_size] if isinstance(batch_size, ops.Tensor) else None
        return ops.name_scope(type(self).__name__ + "ZeroState", values=values)

    def zero_state(self, batch_size, dtype):
        """A state of zeros."""
        with self._zero_scope(batch_size):
            return zero_state_tensors(self.state_size, batch_size, dtype)


class LayerRNNCell(RNNCell):
    """A cell whose variables are all made in build."""

    def __call__(self, inputs, state, scope=None, *args, **kwargs):
        return base.Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)

    def _depth(self, inputs_shape):
        """The number of inputs."""
        depth = shapes.as_shape(inputs_shape).as_list()[-1]
        if depth is None:
            raise ValueError("Expected inputs.shape[-1] to be known, saw shape: %s" % inputs_shape)
        return depth


def _activation(activation, default):
    if activation is None:
        return default
    if isinstance(activation, str):
        from .. import nn
        found = getattr(nn, activation, None)
        if found is None:
            raise ValueError("Unknown activation function: %s" % activation)
        return found
    return activation


class BasicRNNCell(LayerRNNCell):
    """output = state = activation(W [input, state] + b)"""

    def __init__(self, num_units, activation=None, reuse=None, name=None, dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _activation(activation, math.tanh)

    state_size = property(lambda self: self._num_units, doc="The number of units.")
    output_size = property(lambda self: self._num_units, doc="The number of units.")

    def build(self, inputs_shape):
        n = self._num_units
        self._kernel = self.add_variable(_WEIGHTS, shape=[self._depth(inputs_shape) + n, n])
        self._bias = self.add_variable(_BIAS, shape=[n], initializer=initializers.zeros(dtype=self.dtype))
        self.built = True

    def call(self, inputs, state):
        """Runs one step, and returns the output and the new state, which are the same tensor."""
        gate = bias_add(math.matmul(array.concat([inputs, state], 1), self._kernel), self._bias)
        output = self._activation(gate)
        return output, output


class GRUCell(LayerRNNCell):
    """Gated recurrent unit."""

    def __init__(self, num_units, activation=None, reuse=None, kernel_initializer=None, bias_initializer=None, name=None,
                 dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _activation(activation, math.tanh)
        self._kernel_initializer = initializers.get(kernel_initializer)
        self._bias_initializer = initializers.get(bias_initializer)

    state_size = property(lambda self: self._num_units, doc="The number of units.")
    output_size = property(lambda self: self._num_units, doc="The number of units.")

    def build(self, inputs_shape):
        n = self._num_units
        rows = self._depth(inputs_shape) + n
        bias = self._bias_initializer
        self._gate_kernel = self.add_variable("gates/" + _WEIGHTS, shape=[rows, 2 * n], initializer=self._kernel_initializer)
        # The gates begin open: what was remembered is kept.
        self._gate_bias = self.add_variable("gates/" + _BIAS, shape=[2 * n],
                                            initializer=bias or initializers.constant(1.0, dtype=self.dtype))
        self._candidate_kernel = self.add_variable("candidate/" + _WEIGHTS, shape=[rows, n],
                                                   initializer=self._kernel_initializer)
        self._candidate_bias = self.add_variable("candidate/" + _BIAS, shape=[n],
                                                 initializer=bias or initializers.zeros(dtype=self.dtype))
        self.built = True

    def call(self, inputs, state):
        """Runs one step, and returns the output and the new state, which are the same tensor."""
        gates = bias_add(math.matmul(array.concat([inputs, state], 1), self._gate_kernel), self._gate_bias)
        reset, update = array.split(math.sigmoid(gates), num_or_size_splits=2, axis=1)
        candidate = math.matmul(array.concat([inputs, reset * state], 1), self._candidate_kernel)
        c = self._activation(bias_add(candidate, self._candidate_bias))
        new_h = update * state + (1 - update) * c
        return new_h, new_h


class LSTMStateTuple(collections.namedtuple("LSTMStateTuple", ("c", "h"))):
    """The state of an LSTM: what it remembers, and what it put out."""

    __slots__ = ()

    @property
    def dtype(self):
        """The type of c and h, which must be the same."""
        if self.c.dtype != self.h.dtype:
            raise TypeError("Inconsistent internal state: %s vs %s" % (self.c.dtype, self.h.dtype))
        return self.c.dtype


class _LstmState:
    """What LSTMs share: the form of the state."""

    def _sizes(self, c, h):
        return LSTMStateTuple(c, h) if self._state_is_tuple else c + h

    def _split(self, state, c_size):
        if self._state_is_tuple:
            return state
        return (array.slice(state, [0, 0], [-1, c_size]), array.slice(state, [0, c_size], [-1, self.output_size]))

    def _joined(self, c, h):
        return LSTMStateTuple(c, h) if self._state_is_tuple else array.concat([c, h], 1)


class BasicLSTMCell(LayerRNNCell, _LstmState):
    """LSTM without peepholes, projection or clipping."""

    def __init__(self, num_units, forget_bias=1.0, state_is_tuple=True, activation=None, reuse=None, name=None, dtype=None,
                 **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._forget_bias, self._state_is_tuple = num_units, forget_bias, state_is_tuple
        self._activation = _activation(activation, math.tanh)

    state_size = property(lambda self: self._sizes(self._num_units, self._num_units),
                          doc="The sizes of c and h: an LSTMStateTuple, or their sum if the state is one tensor.")
    output_size = property(lambda self: self._num_units, doc="The number of units.")

    def build(self, inputs_shape):
        n = self._num_units
        self._kernel = self.add_variable(_WEIGHTS, shape=[self._depth(inputs_shape) + n, 4 * n])
        self._bias = self.add_variable(_BIAS, shape=[4 * n], initializer=initializers.zeros(dtype=self.dtype))
        self.built = True

    def call(self, inputs, state):
        """Runs one step, and returns the output h and the new state."""
        c, h = state if self._state_is_tuple else array.split(state, 2, axis=1)
        gates = bias_add(math.matmul(array.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = array.split(gates, 4, axis=1)  # input, new value, forget, output
        forget = convert.constant(self._forget_bias, f.dtype.base_dtype)
        new_c = c * math.sigmoid(f + forget) + math.sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * math.sigmoid(o)
        return new_h, self._joined(new_c, new_h)


def _shards(number):
    """The partitioner that stores a matrix in so many parts."""
    from ..ops import partitioners
    return None if number is None else partitioners.fixed_size_partitioner(number)


class LSTMCell(LayerRNNCell, _LstmState):
    """LSTM with peepholes, clipping and a projection of the output if asked for."""

    def __init__(self, num_units, use_peepholes=False, cell_clip=None, initializer=None, num_proj=None, proj_clip=None,
                 num_unit_shards=None, num_proj_shards=None, forget_bias=1.0, state_is_tuple=True, activation=None, reuse=None,
                 name=None, dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._use_peepholes, self._cell_clip = num_units, use_peepholes, cell_clip
        self._initializer, self._num_proj, self._proj_clip = initializers.get(initializer), num_proj, proj_clip
        self._num_unit_shards, self._num_proj_shards = num_unit_shards, num_proj_shards
        self._forget_bias, self._state_is_tuple = forget_bias, state_is_tuple
        self._activation = _activation(activation, math.tanh)

    state_size = property(lambda self: self._sizes(self._num_units, self.output_size),
                          doc="The sizes of c and h: an LSTMStateTuple, or their sum if the state is one tensor.")
    output_size = property(lambda self: self._num_proj or self._num_units,
                           doc="The size of the projection if there is one, else the number of units.")

    def build(self, inputs_shape):
        n = self._num_units
        rows = self._depth(inputs_shape) + self.output_size
        cut = _shards(self._num_unit_shards)
        self._kernel = self.add_variable(_WEIGHTS, shape=[rows, 4 * n], initializer=self._initializer, partitioner=cut)
        self._bias = self.add_variable(_BIAS, shape=[4 * n], initializer=initializers.zeros(dtype=self.dtype))
        if self._use_peepholes:
            self._w_f_diag, self._w_i_diag, self._w_o_diag = (
                self.add_variable("w_%s_diag" % gate, shape=[n], initializer=self._initializer) for gate in "fio")
        if self._num_proj is not None:
            cut = _shards(self._num_proj_shards)
            self._proj_kernel = self.add_variable("projection/" + _WEIGHTS, shape=[n, self._num_proj],
                                                  initializer=self._initializer, partitioner=cut)
        self.built = True

    def call(self, inputs, state):
        """Runs one step, and returns the output, projected if num_proj is set, and the new state."""
        c_prev, h_prev = self._split(state, self._num_units)
        gates = bias_add(math.matmul(array.concat([inputs, h_prev], 1), self._kernel), self._bias)
        i, j, f, o = array.split(gates, 4, axis=1)
        if self._use_peepholes:
            i, f = i + self._w_i_diag * c_prev, f + self._forget_bias + self._w_f_diag * c_prev
        else:
            f = f + self._forget_bias
        c = math.sigmoid(f) * c_prev + math.sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            c = clip.clip_by_value(c, -self._cell_clip, self._cell_clip)
        h = math.sigmoid(o + self._w_o_diag * c if self._use_peepholes else o) * self._activation(c)
        if self._num_proj is not None:
            h = math.matmul(h, self._proj_kernel)
            if self._proj_clip is not None:
                h = clip.clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, self._joined(c, h)


# ---- cells of cells ----

class MultiRNNCell(RNNCell):
    """Cells in a row, each taking the output of the one before."""

    def __init__(self, cells, state_is_tuple=True):
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not isinstance(cells, (list, tuple)):
            raise TypeError("cells must be a list or tuple, but saw: %s." % cells)
        self._cells, self._state_is_tuple = cells, state_is_tuple
        if not state_is_tuple and any(nest.is_sequence(c.state_size) for c in cells):
            raise ValueError("Some cells return tuples of states, but the flag state_is_tuple is not set. State sizes are: %s" %
                             [c.state_size for c in cells])

    @property
    def state_size(self):
        """The state sizes of the cells: a tuple, or their sum if the state is one tensor."""
        if self._state_is_tuple:
            return tuple(c.state_size for c in self._cells)
        return sum(c.state_size for c in self._cells)

    output_size = property(lambda self: self._cells[-1].output_size, doc="The output size of the last cell.")

    @property
    def trainable_weights(self):
        """The trainable weights of all cells."""
        return [w for c in self._cells if isinstance(c, base.Layer) for w in c.trainable_weights] if self.trainable else []

    @property
    def non_trainable_weights(self):
        """The weights of all cells that training does not change."""
        layers = [c for c in self._cells if isinstance(c, base.Layer)]
        own = [w for c in layers for w in c.non_trainable_weights]
        return own if self.trainable else [w for c in layers for w in c.trainable_weights] + own

    def zero_state(self, batch_size, dtype):
        with self._zero_scope(batch_size):
            if self._state_is_tuple:
                return tuple(c.zero_state(batch_size, dtype) for c in self._cells)
            return super().zero_state(batch_size, dtype)

    def call(self, inputs, state):
        """Runs one step through all cells, and returns the output of the last one and the new states."""
        at, new_states, x = 0, [], inputs
        for i, cell in enumerate(self._cells):
            with vs.variable_scope("cell_%d" % i):
                if self._state_is_tuple:
                    if not nest.is_sequence(state):
                        raise ValueError("Expected state to be a tuple of length %d, but received: %s" %
                                         (len(self.state_size), state))
                    own = state[i]
                else:
                    own = array.slice(state, [0, at], [-1, cell.state_size])
                    at += cell.state_size
                x, new_state = cell(x, own)
                new_states.append(new_state)
        return x, tuple(new_states) if self._state_is_tuple else array.concat(new_states, 1)


class RNNCellWrapper(RNNCell):
    """A cell that wraps another one."""

    def __init__(self, cell):
        super().__init__()
        assert_like_rnncell("cell", cell)
        self._cell = cell

    cell = wrapped_cell = property(lambda self: self._cell, doc="The wrapped cell.")
    state_size = property(lambda self: self._cell.state_size, doc="The state size of the wrapped cell.")
    output_size = property(lambda self: self._cell.output_size, doc="The output size of the wrapped cell.")
    trainable_weights = property(lambda self: list(getattr(self._cell, "trainable_weights", [])),
                                 doc="The trainable weights of the wrapped cell.")
    non_trainable_weights = property(lambda self: list(getattr(self._cell, "non_trainable_weights", [])),
                                     doc="The other weights of the wrapped cell.")

    def zero_state(self, batch_size, dtype):
        with self._zero_scope(batch_size):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs, state, scope=None):
        more = {} if scope is None else {"scope": scope}
        return self._around(inputs, state, lambda x, s: self._cell(x, s, **more))

    call = __call__

    def _around(self, inputs, state, cell):
        """What the wrapper does with cell(inputs, state)."""
        return cell(inputs, state)


def _default_dropout_state_filter(substate):
    """Excludes the memory of an LSTM and TensorArrays from dropout."""
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not hasattr(substate, "_with_flow")


class DropoutWrapper(RNNCellWrapper):
    """Dropout of a cell's inputs, outputs and state; with variational_recurrent by the same mask in each step."""

    def __init__(self, cell, input_keep_prob=1.0, output_keep_prob=1.0, state_keep_prob=1.0, variational_recurrent=False,
                 input_size=None, dtype=None, seed=None, dropout_state_filter_visitor=None):
        super().__init__(cell)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._filter = dropout_state_filter_visitor or _default_dropout_state_filter
        self._seed, self._variational = seed, variational_recurrent
        self._keep = {"input": self._checked(input_keep_prob, "input_keep_prob"),
                      "state": self._checked(state_keep_prob, "state_keep_prob"),
                      "output": self._checked(output_keep_prob, "output_keep_prob")}
        self._input_keep_prob, self._output_keep_prob = self._keep["input"], self._keep["output"]
        if variational_recurrent:
            if dtype is None:
                raise ValueError("When variational_recurrent=True, dtype must be provided")
            self._make_noise(input_size, dtype)

    @staticmethod
    def _checked(prob, name):
        """A tensor, or a number as it is."""
        t = convert.convert_to_tensor(prob)
        if not t.dtype.is_floating and convert.constant_value(t) is None:
            raise ValueError("%s must be a floating point tensor" % name)
        known = convert.constant_value(t)
        if known is None:
            return t
        if not 0 <= float(known) <= 1:
            raise ValueError("Parameter %s must be between 0 and 1: %s" % (name, float(known)))
        return float(known)

    def _applies(self, which):
        keep = self._keep[which]
        return not isinstance(keep, numbers.Real) or keep < 1

    def _seed_of(self, which, index):
        if self._seed is None:
            return None
        text = "%s%s_%d" % (self._seed, which, index)
        return int(hashlib.md5(text.encode()).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _make_noise(self, input_size, dtype):
        def noise(which, sizes):
            return [random.random_uniform([1] + _size_shape(size).as_list(), seed=self._seed_of(which, i), dtype=dtype)
                    for i, size in enumerate(nest.flatten(sizes))]
        self._noise = {}
        if self._applies("input"):
            if input_size is None:
                raise ValueError("When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be "
                                 "provided")
            self._noise["input"] = noise("input", input_size)
        self._noise["state"] = noise("state", self._cell.state_size)
        self._noise["output"] = noise("output", self._cell.output_size)

    def _dropped(self, which, i, value):
        keep = self._keep[which]
        if not self._variational:
            return dropout(value, keep_prob=keep, seed=self._seed_of(which, i))
        noise = self._noise[which][i]
        mask = math.floor(convert.convert_to_tensor(keep, noise.dtype) + noise)
        out = math.divide(value, convert.convert_to_tensor(keep, value.dtype.base_dtype)) * mask
        out.set_shape(value.shape)
        return out

    def _drop_all(self, which, values):
        """Every leaf, except what the filter leaves alone in a state."""
        leaves = nest.flatten(values)
        chosen = self._chosen(values) if which == "state" else [True] * len(leaves)
        dropped = [self._dropped(which, i, v) if yes else v for i, (v, yes) in enumerate(zip(leaves, chosen))]
        return nest.pack_sequence_as(values, dropped)

    def _chosen(self, state):
        """True for each leaf that is dropped; the filter is asked for the parts from the top down."""
        if nest.is_sequence(state) and not isinstance(state, LSTMStateTuple):
            children = [state[k] for k in sorted(state)] if isinstance(state, dict) else state
            return [yes for child in children for yes in self._chosen(child)]
        answer = self._filter(state)
        if nest.is_sequence(answer):
            return nest.flatten(answer)
        return [answer] * len(nest.flatten(state))

    def _around(self, inputs, state, cell):
        if self._applies("input"):
            inputs = self._drop_all("input", inputs)
        output, new_state = cell(inputs, state)
        if self._applies("state"):
            new_state = self._drop_all("state", new_state)
        if self._applies("output"):
            output = self._drop_all("output", output)
        return output, new_state


class ResidualWrapper(RNNCellWrapper):
    """Adds a cell's inputs to its outputs."""

    def __init__(self, cell, residual_fn=None):
        super().__init__(cell)
        self._residual_fn = residual_fn

    def _around(self, inputs, state, cell):
        outputs, new_state = cell(inputs, state)
        if self._residual_fn is not None:
            return self._residual_fn(inputs, outputs), new_state
        nest.assert_same_structure(inputs, outputs)
        nest.map_structure(lambda i, o: i.shape.assert_is_compatible_with(o.shape), inputs, outputs)
        return nest.map_structure(lambda i, o: i + o, inputs, outputs), new_state


class DeviceWrapper(RNNCellWrapper):
    """A cell on a device."""

    def __init__(self, cell, device):
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size, dtype):
        with self._zero_scope(batch_size):
            with ops.device(self._device):
                return self._cell.zero_state(batch_size, dtype)

    def _around(self, inputs, state, cell):
        with ops.device(self._device):
            return cell(inputs, state)


# ---- a linear map of several inputs, for cells that make their variables in call ----

class _Linear:
    """sum of args[i] @ W[i] + b, with variables "kernel" and "bias" of the present scope."""

    def __init__(self, args, output_size, build_bias, bias_initializer=None, kernel_initializer=None):
        self._is_list = nest.is_sequence(args)
        args = args if self._is_list else [args]
        rows = 0
        for shape in (a.shape for a in args):
            if shape.ndims != 2 or shape.as_list()[1] is None:
                raise ValueError("linear expects matrices whose second dimension is known: %s" % shape)
            rows += shape.as_list()[1]
        dtype = args[0].dtype.base_dtype
        scope = vs.get_variable_scope()
        with vs.variable_scope(scope):
            self._weights = vs.get_variable(_WEIGHTS, [rows, output_size], dtype=dtype, initializer=kernel_initializer)
            self._biases = None
            if build_bias:
                with vs.variable_scope(scope) as inner:
                    inner.set_partitioner(None)
                    self._biases = vs.get_variable(_BIAS, [output_size], dtype=dtype,
                                                   initializer=bias_initializer or initializers.constant(0.0, dtype=dtype))

    def __call__(self, args):
        args = list(args) if self._is_list else [args]
        x = args[0] if len(args) == 1 else array.concat(args, 1)
        out = math.matmul(x, self._weights)
        return out if self._biases is None else bias_add(out, self._biases)


def _linear(args, output_size, bias, bias_initializer=None, kernel_initializer=None):
    return _Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)


def _first(name):
    """Cells that came to tf.nn.rnn_cell before 1.0 and live in contrib now."""
    from ..contrib import rnn
    return getattr(rnn, name)


def __getattr__(name):
    if name in ("EmbeddingWrapper", "InputProjectionWrapper", "OutputProjectionWrapper"):
        return _first(name)
    raise AttributeError("module 'tf.nn.rnn_cell' has no attribute %r" % name)
