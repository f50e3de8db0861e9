"""Attention: a cell that in each step looks at a memory, the outputs of an encoder, by weights (alignments) that it
computes."""

import collections

import numpy as np

from ...framework import convert, dtypes, nest, ops, shapes
from ...layers import core as layers_core
from ...nn.rnn_cell import RNNCell, _zero_state_tensors, assert_like_rnncell
from ...ops import array, check, math, tensor_array
from ...ops import variable_scope as vs
from ... import initializers, nn

__all__ = ["AttentionMechanism", "AttentionWrapper", "AttentionWrapperState", "BahdanauAttention", "BahdanauMonotonicAttention",
           "LuongAttention", "LuongMonotonicAttention", "hardmax", "monotonic_attention", "safe_cumprod"]


class AttentionMechanism:
    """Computes alignments from a query."""

    @property
    def alignments_size(self):
        """The length of the memory; subclasses define it."""
        raise NotImplementedError

    @property
    def state_size(self):
        """The size of the attention state; subclasses define it."""
        raise NotImplementedError


def _prepare_memory(memory, lengths, check_inner_dims_defined=True):
    """Zeros after the end of each sequence of the memory."""
    if check_inner_dims_defined:
        for m in nest.flatten(memory):
            if None in m.shape.as_list()[2:]:
                raise ValueError("Expected memory %s to have fully defined inner dims, but saw shape: %s" % (m.name, m.shape))
    if lengths is None:
        return memory

    def masked(m):
        mask = array.sequence_mask(lengths, maxlen=array.shape(nest.flatten(memory)[0])[1], dtype=m.dtype.base_dtype)
        return m * array.reshape(mask, array.concat([array.shape(mask), [1] * (m.shape.ndims - 2)], 0))
    return nest.map_structure(masked, memory)


class _BaseAttentionMechanism(AttentionMechanism):
    def __init__(self, query_layer, memory, probability_fn, memory_sequence_length=None, memory_layer=None,
                 check_inner_dims_defined=True, score_mask_value=None, custom_key_value_fn=None, name=None):
        if query_layer is not None and not callable(query_layer):
            raise TypeError("query_layer is not a Layer: %s" % type(query_layer).__name__)
        if memory_layer is not None and not callable(memory_layer):
            raise TypeError("memory_layer is not a Layer: %s" % type(memory_layer).__name__)
        if not callable(probability_fn):
            raise TypeError("probability_fn must be callable, saw type: %s" % type(probability_fn).__name__)
        self._query_layer, self._memory_layer = query_layer, memory_layer
        memory = nest.map_structure(lambda m: convert.convert_to_tensor(m, name="memory"), memory)
        dtype = nest.flatten(memory)[0].dtype.base_dtype
        self._dtype = getattr(memory_layer, "dtype", None) or dtype.name
        mask_value = dtypes.as_dtype(self._dtype).as_numpy_dtype(-np.inf) if score_mask_value is None else score_mask_value
        if memory_sequence_length is not None:
            memory_sequence_length = convert.convert_to_tensor(memory_sequence_length, name="memory_sequence_length")
        self._lengths = memory_sequence_length
        self._probability_fn = lambda score, previous: probability_fn(
            _masked_score(score, memory_sequence_length, mask_value), previous)
        with ops.name_scope(name, "BaseAttentionMechanismInit", nest.flatten(memory)):
            self._values = _prepare_memory(memory, memory_sequence_length, check_inner_dims_defined)
            self._keys = memory_layer(self._values) if memory_layer is not None else self._values
            if custom_key_value_fn is not None:
                self._keys, self._values = custom_key_value_fn(self._keys, self._values)
            self._batch_size = self._keys.shape.as_list()[0] or array.shape(self._keys)[0]
            self._alignments_size = self._keys.shape.as_list()[1] or array.shape(self._keys)[1]

    memory_layer = property(lambda self: self._memory_layer, doc="The layer applied to the memory, or None.")
    query_layer = property(lambda self: self._query_layer, doc="The layer applied to the query, or None.")
    values = property(lambda self: self._values, doc="The memory, with what is past the end of sequences set to zero.")
    keys = property(lambda self: self._keys, doc="The memory after memory_layer.")
    batch_size = property(lambda self: self._batch_size, doc="The batch size, as a tensor.")
    alignments_size = property(lambda self: self._alignments_size, doc="The length of the memory.")
    state_size = property(lambda self: self._alignments_size, doc="The length of the memory.")

    def initial_alignments(self, batch_size, dtype):
        """Returns the alignments to start with: zeros."""
        return _zeros(batch_size, self._alignments_size, dtype)

    def initial_state(self, batch_size, dtype):
        """Returns the attention state to start with: the initial alignments."""
        return self.initial_alignments(batch_size, dtype)


def _zeros(batch_size, size, dtype):
    if isinstance(size, int):
        return _zero_state_tensors(size, batch_size, dtype)
    z = array.zeros(array.stack([batch_size, size]), dtype)
    z.set_shape([None if isinstance(batch_size, ops.Tensor) else batch_size, None])
    return z


def _masked_score(score, lengths, value):
    if lengths is None:
        return score
    with ops.control_dependencies([check.assert_positive(lengths,
                                                         message="All values in memory_sequence_length must greater than "
                                                                          "zero.")]):
        mask = array.sequence_mask(lengths, maxlen=array.shape(score)[1])
        return array.where(mask, score, value * array.ones_like(score))


def _with_previous(probability_fn):
    probability_fn = nn.softmax if probability_fn is None else probability_fn
    return lambda score, _: probability_fn(score)


def _luong_score(query, keys, scale):
    if query.shape.as_list()[-1] != keys.shape.as_list()[-1]:
        raise ValueError("Incompatible or unknown inner dimensions between query and keys.  Query (%s) has units: %s.  Keys "
                         "(%s) have "
                         "units: %s.  Perhaps you need to set num_units to the keys' dimension (%s)?" %
                         (query, query.shape[-1], keys, keys.shape[-1], keys.shape[-1]))
    score = array.squeeze(math.matmul(array.expand_dims(query, 1), keys, transpose_b=True), [1])
    if scale:
        score = score * vs.get_variable("attention_g", dtype=query.dtype.base_dtype, initializer=initializers.ones(), shape=())
    return score


def _bahdanau_score(query, keys, normalize, num_units):
    dtype = query.dtype.base_dtype
    query = array.expand_dims(query, 1)
    v = vs.get_variable("attention_v", [num_units], dtype=dtype)
    if not normalize:
        return math.reduce_sum(v * math.tanh(keys + query), [2])
    g = vs.get_variable("attention_g", dtype=dtype, initializer=initializers.constant(np.sqrt(1. / num_units)), shape=())
    b = vs.get_variable("attention_b", [num_units], dtype=dtype, initializer=initializers.zeros())
    direction = g * v * math.rsqrt(math.reduce_sum(math.square(v)))
    return math.reduce_sum(direction * math.tanh(keys + query + b), [2])


def _dense(num_units, name, dtype):
    return layers_core.Dense(num_units, name=name, use_bias=False, dtype=dtype)


class LuongAttention(_BaseAttentionMechanism):
    """Scores are products of the query with the memory, scaled if asked for."""

    def __init__(self, num_units, memory, memory_sequence_length=None, scale=False, probability_fn=None, score_mask_value=None,
                 dtype=None, custom_key_value_fn=None, name="LuongAttention"):
        super().__init__(None, memory, _with_previous(probability_fn), memory_sequence_length,
                         _dense(num_units, "memory_layer", dtype or dtypes.float32), score_mask_value=score_mask_value,
                         custom_key_value_fn=custom_key_value_fn, name=name)
        self._num_units, self._scale, self._name = num_units, scale, name

    def __call__(self, query, state):
        with vs.variable_scope(None, "luong_attention", [query]):
            alignments = self._probability_fn(_luong_score(query, self._keys, self._scale), state)
        return alignments, alignments


class BahdanauAttention(_BaseAttentionMechanism):
    """Scores are by a hidden layer of query and memory."""

    def __init__(self, num_units, memory, memory_sequence_length=None, normalize=False, probability_fn=None,
                 score_mask_value=None, dtype=None, custom_key_value_fn=None, name="BahdanauAttention"):
        dtype = dtype or dtypes.float32
        super().__init__(_dense(num_units, "query_layer", dtype), memory, _with_previous(probability_fn),
                         memory_sequence_length, _dense(num_units, "memory_layer", dtype), score_mask_value=score_mask_value,
                         custom_key_value_fn=custom_key_value_fn, name=name)
        self._num_units, self._normalize, self._name = num_units, normalize, name

    def __call__(self, query, state):
        with vs.variable_scope(None, "bahdanau_attention", [query]):
            query = self._query_layer(query) if self._query_layer else query
            alignments = self._probability_fn(_bahdanau_score(query, self._keys, self._normalize, self._num_units), state)
        return alignments, alignments


# ---- monotonic: a memory is read from its beginning to its end ----

def safe_cumprod(x, *args, **kwargs):
    """cumprod by way of logarithms, in which zeros are tiny numbers."""
    with ops.name_scope(None, "SafeCumprod", [x]):
        x = convert.convert_to_tensor(x, name="x")
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        from ...ops import clip
        return math.exp(math.cumsum(math.log(clip.clip_by_value(x, tiny, 1)), *args, **kwargs))


def monotonic_attention(p_choose_i, previous_attention, mode):
    """Where the attention is next, from the chance to stop at each place; mode is "recursive", "parallel" or "hard"."""
    p, previous = convert.convert_to_tensor(p_choose_i, name="p_choose_i"), convert.convert_to_tensor(previous_attention)
    if mode == "recursive":
        from ...ops import functional
        batch = array.shape(p)[0]
        shifted = array.concat([array.ones(array.stack([batch, 1]), p.dtype), 1 - p[:, :-1]], 1)
        found = functional.scan(lambda x, yz: array.reshape(yz[0] * x + yz[1], array.reshape(batch, [1])),
                                [array.transpose(shifted), array.transpose(previous)],
                                array.zeros(array.reshape(batch, [1]), p.dtype))
        return p * array.transpose(found)
    if mode == "parallel":
        products = safe_cumprod(1 - p, axis=1, exclusive=True)
        from ...ops import clip
        return p * products * math.cumsum(previous / clip.clip_by_value(products, 1e-10, 1.), axis=1)
    if mode == "hard":
        p = p * math.cumsum(previous, axis=1)
        return p * math.cumprod(1 - p, axis=1, exclusive=True)
    raise ValueError("mode must be 'recursive', 'parallel', or 'hard'.")


def _monotonic_probability_fn(score, previous, sigmoid_noise, mode, seed=None):
    if sigmoid_noise > 0:
        from ...ops import random
        score = score + sigmoid_noise * random.random_normal(array.shape(score), dtype=score.dtype, seed=seed)
    p = math.cast(score > 0, score.dtype) if mode == "hard" else math.sigmoid(score)
    return monotonic_attention(p, previous, mode)


class _Monotonic:
    """What both kinds share: the first alignment is at the beginning of the memory."""

    def initial_alignments(self, batch_size, dtype):
        """Returns the alignments to start with: all weight on the first entry of the memory."""
        return array.one_hot(array.zeros(array.reshape(batch_size, [1]), dtypes.int32), self._alignments_size, dtype=dtype)

    def _biased(self, score):
        bias = vs.get_variable("attention_score_bias", dtype=score.dtype.base_dtype, shape=(),
                               initializer=initializers.constant(self._score_bias_init))
        return score + bias


class BahdanauMonotonicAttention(_Monotonic, BahdanauAttention):
    """Bahdanau's additive attention that only moves forward through the memory."""

    def __init__(self, num_units, memory, memory_sequence_length=None, normalize=False, score_mask_value=None, sigmoid_noise=0.,
                 sigmoid_noise_seed=None, score_bias_init=0., mode="parallel", dtype=None, name="BahdanauMonotonicAttention"):
        dtype = dtype or dtypes.float32
        _BaseAttentionMechanism.__init__(
            self, _dense(num_units, "query_layer", dtype), memory,
            lambda s, p: _monotonic_probability_fn(s, p, sigmoid_noise, mode, sigmoid_noise_seed), memory_sequence_length,
            _dense(num_units, "memory_layer", dtype), score_mask_value=score_mask_value, name=name)
        self._num_units, self._normalize, self._name, self._score_bias_init = num_units, normalize, name, score_bias_init

    def __call__(self, query, state):
        with vs.variable_scope(None, "bahdanau_monotonic_attention", [query]):
            score = self._biased(_bahdanau_score(self._query_layer(query), self._keys, self._normalize, self._num_units))
            alignments = self._probability_fn(score, state)
        return alignments, alignments


class LuongMonotonicAttention(_Monotonic, LuongAttention):
    """Luong's multiplicative attention that only moves forward through the memory."""

    def __init__(self, num_units, memory, memory_sequence_length=None, scale=False, score_mask_value=None, sigmoid_noise=0.,
                 sigmoid_noise_seed=None, score_bias_init=0., mode="parallel", dtype=None, name="LuongMonotonicAttention"):
        _BaseAttentionMechanism.__init__(
            self, None, memory, lambda s, p: _monotonic_probability_fn(s, p, sigmoid_noise, mode, sigmoid_noise_seed),
            memory_sequence_length, _dense(num_units, "memory_layer", dtype or dtypes.float32),
            score_mask_value=score_mask_value, name=name)
        self._num_units, self._scale, self._name, self._score_bias_init = num_units, scale, name, score_bias_init

    def __call__(self, query, state):
        with vs.variable_scope(None, "luong_monotonic_attention", [query]):
            alignments = self._probability_fn(self._biased(_luong_score(query, self._keys, self._scale)), state)
        return alignments, alignments


def hardmax(logits, name=None):
    """1 at the largest of each row, else 0."""
    with ops.name_scope(name, "Hardmax", [logits]):
        logits = convert.convert_to_tensor(logits, name="logits")
        n = logits.shape.as_list()[-1] or array.shape(logits)[-1]
        return array.one_hot(math.argmax(logits, -1), n, dtype=logits.dtype.base_dtype)


# ---- the cell ----

class AttentionWrapperState(collections.namedtuple(
        "AttentionWrapperState", ("cell_state", "attention", "time", "alignments", "alignment_history", "attention_state"))):
    """The state of an AttentionWrapper."""

    def clone(self, **kwargs):
        """A copy with some parts exchanged, which must have the shapes of the old ones."""
        def shaped(old, new):
            if isinstance(old, ops.Tensor) and isinstance(new, ops.Tensor):
                if not old.shape.is_compatible_with(new.shape):
                    raise ValueError("The shape of the AttentionWrapperState is expected to be same as the one to clone. "
                                     "self.shape: "
                                     "%s, input.shape: %s" % (old.shape, new.shape))
            return new
        replaced = self._replace(**kwargs)
        nest.assert_same_structure(self, replaced, check_types=False)
        return nest.pack_sequence_as(replaced, [shaped(o, n) for o, n in zip(nest.flatten(self), nest.flatten(replaced))])


def _compute_attention(mechanism, cell_output, attention_state, attention_layer):
    """(attention, alignments, next state of the mechanism)"""
    alignments, next_state = mechanism(cell_output, state=attention_state)
    context = array.squeeze(math.matmul(array.expand_dims(alignments, 1), mechanism.values), [1])
    if attention_layer is not None:
        attention = attention_layer(array.concat([cell_output, context], 1))
    else:
        attention = context
    return attention, alignments, next_state


class AttentionWrapper(RNNCell):
    """A cell whose inputs have the last attention beside them, and whose output queries the memory."""

    def __init__(self, cell, attention_mechanism, attention_layer_size=None, alignment_history=False, cell_input_fn=None,
                 output_attention=True, initial_cell_state=None, name=None, attention_layer=None, attention_fn=None,
                 dtype=None):
        super().__init__(name=name, dtype=dtype)
        assert_like_rnncell("cell", cell)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        mechanisms = list(attention_mechanism) if self._is_multi else [attention_mechanism]
        for m in mechanisms:
            if not isinstance(m, AttentionMechanism):
                raise TypeError("attention_mechanism must be an AttentionMechanism or list of multiple AttentionMechanism "
                                "instances, saw type: %s" % type(m).__name__)
        if attention_layer_size is not None and attention_layer is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        self._cell, self._attention_mechanisms = cell, mechanisms
        self._attention_layers, self._attention_layer_size = self._layers(attention_layer_size, attention_layer, dtype)
        if cell_input_fn is not None and not callable(cell_input_fn):
            raise TypeError("cell_input_fn must be callable, saw type: %s" % type(cell_input_fn).__name__)
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: array.concat([inputs, attention], -1))
        self._attention_fn = attention_fn or _compute_attention
        self._output_attention, self._alignment_history = output_attention, alignment_history
        self._initial_cell_state = initial_cell_state
        if initial_cell_state is not None:
            self._initial_cell_state = nest.map_structure(array.identity, initial_cell_state)

    def _layers(self, size, layer, dtype):
        """(a layer for each mechanism or None, the size of the attention)"""
        mechanisms = self._attention_mechanisms
        if size is not None:
            sizes = list(size) if isinstance(size, (list, tuple)) else [size]
            if len(sizes) != len(mechanisms):
                raise ValueError("If provided, attention_layer_size must contain exactly one integer per attention_mechanism, "
                                 "saw: "
                                 "%d vs %d" % (len(sizes), len(mechanisms)))
            made = [layers_core.Dense(n, name="attention_layer", use_bias=False, dtype=dtype) for n in sizes]
            return made, sum(sizes)
        depths = [m.values.shape.as_list()[-1] for m in mechanisms]
        if layer is not None:
            made = list(layer) if isinstance(layer, (list, tuple)) else [layer]
            if len(made) != len(mechanisms):
                raise ValueError("If provided, attention_layer must contain exactly one layer per attention_mechanism")
            return made, sum(shapes.as_shape(one.compute_output_shape([None, self._cell.output_size + d])).as_list()[-1]
                             for one, d in zip(made, depths))
        return None, sum(depths)

    def _one_or_all(self, values):
        return tuple(values) if self._is_multi else list(values)[0]

    output_size = property(
        lambda self: self._attention_layer_size if self._output_attention else self._cell.output_size,
        doc="The size of the attention if it is the output, else that of the cell.")

    @property
    def state_size(self):
        return AttentionWrapperState(
            cell_state=self._cell.state_size, time=shapes.TensorShape([]), attention=self._attention_layer_size,
            alignments=self._one_or_all(m.alignments_size for m in self._attention_mechanisms),
            attention_state=self._one_or_all(m.state_size for m in self._attention_mechanisms),
            alignment_history=self._one_or_all(m.alignments_size if self._alignment_history else () for m in
                                               self._attention_mechanisms))

    def zero_state(self, batch_size, dtype):
        with ops.name_scope(type(self).__name__ + "ZeroState"):
            if self._initial_cell_state is not None:
                cell_state = self._initial_cell_state
            else:
                cell_state = self._cell.zero_state(batch_size, dtype)
            cell_state = nest.map_structure(lambda s: array.identity(s, name="checked_cell_state"), cell_state)
            alignments = [m.initial_alignments(batch_size, dtype) for m in self._attention_mechanisms]
            return AttentionWrapperState(
                cell_state=cell_state, time=array.zeros([], dtype=dtypes.int32),
                attention=_zero_state_tensors(self._attention_layer_size, batch_size, dtype),
                alignments=self._one_or_all(alignments),
                attention_state=self._one_or_all(m.initial_state(batch_size, dtype) for m in self._attention_mechanisms),
                alignment_history=self._one_or_all(
                    tensor_array.TensorArray(dtype, size=0, dynamic_size=True, element_shape=a.shape)
                    if self._alignment_history else () for a in alignments))

    def call(self, inputs, state):
        if not isinstance(state, AttentionWrapperState):
            raise TypeError("Expected state to be instance of AttentionWrapperState. Received type %s instead." % type(state))
        cell_output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        previous = state.attention_state if self._is_multi else [state.attention_state]
        histories = state.alignment_history if self._is_multi else [state.alignment_history]
        found = [self._attention_fn(m, cell_output, previous[i], self._attention_layers[i] if self._attention_layers else None)
                 for i, m in enumerate(self._attention_mechanisms)]
        attention = array.concat([f[0] for f in found], 1)
        kept = [h.write(state.time, f[1]) if self._alignment_history else () for h, f in zip(histories, found)]
        new_state = AttentionWrapperState(
            time=state.time + 1, cell_state=cell_state, attention=attention,
            attention_state=self._one_or_all(f[2] for f in found),
            alignments=self._one_or_all(f[1] for f in found), alignment_history=self._one_or_all(kept))
        return (attention if self._output_attention else cell_output), new_state
