"""Decoders, and the loop that runs them until all sequences have ended."""

import collections

from ...framework import convert, dtypes, nest, ops, shapes
from ...nn.recurrent import _kept, _transpose_batch_time
from ...nn.rnn_cell import _dynamic_shape, assert_like_rnncell, state_shape
from ...ops import array, control_flow, math, tensor_array
from ...ops import variable_scope as vs
from .helper import Helper

__all__ = ["BasicDecoder", "BasicDecoderOutput", "Decoder", "dynamic_decode"]


class Decoder:
    """Makes a sequence step by step."""

    @property
    def batch_size(self):
        """The batch size; subclasses define it."""
        raise NotImplementedError

    @property
    def output_size(self):
        """The shapes of the outputs of a step, without the batch; subclasses define it."""
        raise NotImplementedError

    @property
    def output_dtype(self):
        """The types of the outputs of a step; subclasses define it."""
        raise NotImplementedError

    def initialize(self, name=None):
        """(finished, first inputs, first state)"""
        raise NotImplementedError

    def step(self, time, inputs, state, name=None):
        """(outputs, next state, next inputs, finished)"""
        raise NotImplementedError

    def finalize(self, outputs, final_state, sequence_lengths):
        """(final outputs, final state) of all steps; a decoder may have none of it."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self):
        """Whether a sequence that has ended can go on in another place, as with beams that are reordered."""
        return False


class BasicDecoderOutput(collections.namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))):
    """The output of one step: that of the cell, and the sampled ids."""


class BasicDecoder(Decoder):
    """A cell with a helper, and an output layer if there is one."""

    def __init__(self, cell, helper, initial_state, output_layer=None):
        assert_like_rnncell("cell", cell)
        if not isinstance(helper, Helper):
            raise TypeError("helper must be a Helper, received: %s" % type(helper))
        self._cell, self._helper, self._initial_state, self._output_layer = cell, helper, initial_state, output_layer

    batch_size = property(lambda self: self._helper.batch_size, doc="The batch size of the helper.")

    def _rnn_output_size(self):
        size = self._cell.output_size
        if self._output_layer is None:
            return size

        def through(s):
            whole = shapes.TensorShape([None]).concatenate(s if isinstance(s, shapes.TensorShape) else [s])
            return shapes.as_shape(self._output_layer.compute_output_shape(whole))[1:]
        return nest.map_structure(through, size)

    @property
    def output_size(self):
        """The shapes of the outputs of a step, without the batch."""
        return BasicDecoderOutput(rnn_output=self._rnn_output_size(), sample_id=self._helper.sample_ids_shape)

    @property
    def output_dtype(self):
        """The types of the outputs of a step."""
        dtype = nest.flatten(self._initial_state)[0].dtype.base_dtype
        return BasicDecoderOutput(nest.map_structure(lambda _: dtype, self._rnn_output_size()), self._helper.sample_ids_dtype)

    def initialize(self, name=None):
        return self._helper.initialize() + (self._initial_state,)

    def step(self, time, inputs, state, name=None):
        with ops.name_scope(name, "BasicDecoderStep", [time]):
            outputs, new_state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            ids = self._helper.sample(time=time, outputs=outputs, state=new_state)
            finished, next_inputs, next_state = self._helper.next_inputs(time=time, outputs=outputs, state=new_state,
                                                                         sample_ids=ids)
            return BasicDecoderOutput(outputs, ids), next_state, next_inputs, finished


def _zero_outputs(sizes, types, batch_size):
    def zeros(size, dtype):
        z = array.zeros(_dynamic_shape(batch_size, size), dtype)
        z.set_shape(state_shape(batch_size, size))
        return z
    return nest.map_structure(zeros, sizes, types)


def _state_kept(finished, old, new):
    """The old state of sequences that have ended."""
    if hasattr(old, "_with_flow") or new.shape.ndims == 0:
        return new
    new.set_shape(old.shape)
    return _kept(finished, old, new)


def dynamic_decode(decoder, output_time_major=False, impute_finished=False, maximum_iterations=None, parallel_iterations=32,
                   swap_memory=False, scope=None, **kwargs):
    """(outputs, last state, lengths of the sequences); with impute_finished outputs after a sequence's end are zeros, and its
    state stays."""
    if not isinstance(decoder, Decoder):
        raise TypeError("Expected decoder to be type Decoder, but saw: %s" % type(decoder))
    if kwargs:
        raise TypeError("dynamic_decode() got an unexpected argument %r" % next(iter(kwargs)))
    with vs.variable_scope(scope, "decoder"):
        limit = None
        if maximum_iterations is not None:
            limit = convert.convert_to_tensor(maximum_iterations, dtypes.int32, name="maximum_iterations")
            if limit.shape.ndims != 0:
                raise ValueError("maximum_iterations must be a scalar")
        finished, inputs, state = decoder.initialize()
        if limit is not None:
            finished = math.logical_or(finished, limit <= 0)
        zero = _zero_outputs(decoder.output_size, decoder.output_dtype, decoder.batch_size)
        arrays = nest.map_structure(
            lambda dtype, size: tensor_array.TensorArray(dtype, size=0 if limit is None else limit, dynamic_size=limit is None,
                                                         element_shape=state_shape(_static(decoder.batch_size), size)),
            decoder.output_dtype, decoder.output_size)
        loop_vars = (convert.constant(0, dtypes.int32), arrays, state, inputs, finished,
                     array.zeros_like(finished, dtype=dtypes.int32))

        def body(time, arrays, state, inputs, finished, lengths):
            outputs, next_state, next_inputs, decoder_finished = decoder.step(time, inputs, state)
            now = decoder_finished if decoder.tracks_own_finished else math.logical_or(decoder_finished, finished)
            lengths = array.where(math.logical_not(finished), array.fill(array.shape(lengths), time + 1), lengths)
            nest.assert_same_structure(arrays, outputs, check_types=False)
            outputs = nest.pack_sequence_as(zero, nest.flatten(outputs))
            if impute_finished:
                outputs = nest.map_structure(lambda o, z: array.where(finished, z, o), outputs, zero)
                next_state = nest.map_structure(lambda new, old: _state_kept(finished, old, new), next_state, state)
            else:
                next_state = nest.pack_sequence_as(state, nest.flatten(next_state))
            arrays = nest.map_structure(lambda a, o: a.write(time, o), arrays, outputs)
            if limit is not None:
                now = math.logical_or(now, time + 1 >= limit)
            return time + 1, arrays, next_state, next_inputs, now, lengths

        _, arrays, final_state, _, _, lengths = control_flow.while_loop(
            lambda time, arrays, state, inputs, finished, lengths: math.logical_not(math.reduce_all(finished)), body, loop_vars,
            parallel_iterations=parallel_iterations, swap_memory=swap_memory)
        # With a maximum the arrays have room for it: what was not reached is left out.
        steps = math.reduce_max(lengths) if limit is not None else None
        outputs = nest.map_structure(lambda a: a.stack() if steps is None else a.gather(math.range(steps)), arrays)
        try:
            outputs, final_state = decoder.finalize(outputs, final_state, lengths)
        except NotImplementedError:
            pass
        if not output_time_major:
            outputs = nest.map_structure(_transpose_batch_time, outputs)
        return outputs, final_state, lengths


def _static(batch_size):
    if isinstance(batch_size, ops.Tensor):
        known = convert.constant_value(batch_size)
        return None if known is None else int(known)
    return batch_size
