"""Beam search: the best sequences instead of the best symbol in each step.

Tensors have a dimension for the beams after that of the batch; for the cell both are one.
"""

import collections

import numpy as np

from ...framework import convert, dtypes, nest, ops, shapes
from ...nn.rnn_cell import assert_like_rnncell
from ...ops import array, functional, math
from ... import nn
from .decoder import Decoder
from .helper import embedding_and_tokens

__all__ = ["BeamSearchDecoder", "BeamSearchDecoderOutput", "BeamSearchDecoderState", "FinalBeamSearchDecoderOutput",
           "gather_tree", "gather_tree_from_array", "tile_batch"]


class BeamSearchDecoderState(collections.namedtuple(
        "BeamSearchDecoderState", ("cell_state", "log_probs", "finished", "lengths", "accumulated_attention_probs"))):
    """The state of a beam search after a step."""


class BeamSearchDecoderOutput(collections.namedtuple("BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids"))):
    """The output of one step of a beam search."""


class FinalBeamSearchDecoderOutput(collections.namedtuple(
        "FinalBeamDecoderOutput", ("predicted_ids", "beam_search_decoder_output"))):
    """The result of a beam search: the best sequences, and the outputs of all steps."""


def tile_batch(t, multiplier, name=None):
    """Repeats each example of a batch multiplier times, one after the other."""
    with ops.name_scope(name, "tile_batch"):
        return nest.map_structure(lambda x: _tile_one(x, multiplier), t)


def _tile_one(t, multiplier):
    t = convert.convert_to_tensor(t, name="t")
    known = t.shape
    if known.ndims is None:
        raise ValueError("t must have statically known rank")
    shape = array.shape(t)
    tiled = array.tile(array.expand_dims(t, 1), [1, multiplier] + [1] * (known.ndims - 1))
    out = array.reshape(tiled, array.concat([[shape[0] * multiplier], shape[1:]], 0))
    batch = known.as_list()[0]
    out.set_shape([None if batch is None else batch * multiplier] + known.as_list()[1:])
    return out


def gather_tree(step_ids, parent_ids, max_sequence_lengths, end_token, name=None):
    """The sequences [time, batch, beam] that the steps and parents of a search mean, from their ends on; end_token after the
    first end."""
    with ops.name_scope(name, "GatherTree", [step_ids, parent_ids]):
        step_ids, parent_ids = convert.convert_to_tensor(step_ids), convert.convert_to_tensor(parent_ids)
        end = convert.convert_to_tensor(end_token, step_ids.dtype.base_dtype)
        lengths = math.to_int32(max_sequence_lengths)
        steps, beams = array.shape(step_ids)[0], array.shape(step_ids)[2]
        here = array.expand_dims(math.range(beams), 0) + array.zeros_like(step_ids[0])

        def back(carry, x):
            _, parent = carry
            ids, parents, time = x
            # Before the last step of an example there is nothing: its beams begin there in their own places.
            inside = array.expand_dims(time < lengths, 1)
            inside = math.logical_and(inside, math.equal(here, here))
            found = array.where(inside, array.gather(ids, parent, axis=1, batch_dims=1), array.zeros_like(ids) + end)
            return found, array.where(inside, array.gather(parents, parent, axis=1, batch_dims=1), here)

        ids, _ = functional.scan(back, (step_ids, parent_ids, math.range(steps)), (array.zeros_like(step_ids[0]), here),
                                 reverse=True)
        ended = math.cumsum(math.to_int32(math.equal(ids, end)), axis=0, exclusive=True) > 0
        out = array.where(ended, array.zeros_like(ids) + end, ids)
        out.set_shape(step_ids.shape)
        return out


def gather_tree_from_array(t, parent_ids, sequence_length):
    """What each beam saw in each step, of a tensor [time, batch, beam, ...] in the order of the steps."""
    parent_ids = convert.convert_to_tensor(parent_ids)
    beams = array.shape(parent_ids)[2]
    numbers = array.expand_dims(array.expand_dims(math.range(beams), 0), 0) + array.zeros_like(parent_ids)
    lengths = math.to_int32(math.reduce_max(sequence_length, 1))
    sorted_beams = gather_tree(numbers, parent_ids, lengths, beams + 1)
    mask = array.transpose(array.sequence_mask(sequence_length, array.shape(t)[0]), [2, 0, 1])
    sorted_beams = array.where(mask, sorted_beams, numbers)
    out = array.gather(t, sorted_beams, axis=2, batch_dims=2)
    out.set_shape(t.shape)
    return out


class BeamSearchDecoder(Decoder):
    """Keeps the beam_width best sequences."""

    def __init__(self, cell, embedding, start_tokens, end_token, initial_state, beam_width, output_layer=None,
                 length_penalty_weight=0.0, coverage_penalty_weight=0.0, reorder_tensor_arrays=True):
        assert_like_rnncell("cell", cell)
        if output_layer is not None and not callable(output_layer):
            raise TypeError("output_layer must be a Layer, received: %s" % type(output_layer))
        self._cell, self._output_layer, self._beam_width = cell, output_layer, beam_width
        self._embedding_fn, self._start_tokens, self._end_token = embedding_and_tokens(embedding, start_tokens, end_token)
        self._length_penalty_weight, self._coverage_penalty_weight = length_penalty_weight, coverage_penalty_weight
        if coverage_penalty_weight:
            raise NotImplementedError("tf.contrib.seq2seq.BeamSearchDecoder: coverage_penalty_weight")
        self._reorder_tensor_arrays = reorder_tensor_arrays
        self._batch_size = self._start_tokens.shape.as_list()[0] or array.size(self._start_tokens)
        self._initial_cell_state = nest.map_structure(self._split_beams, initial_state)
        tiled = array.tile(array.expand_dims(self._start_tokens, 1), [1, beam_width])
        self._start_inputs = self._embedding_fn(tiled)
        self._finished = array.one_hot(array.zeros(array.stack([self._batch_size]), dtypes.int32), depth=beam_width,
                                       on_value=False, off_value=True, dtype=dtypes.bool_)

    batch_size = property(lambda self: self._batch_size, doc="The batch size, as a tensor.")
    tracks_own_finished = property(lambda self: True,
        doc="True: beams change places, so that the decoder keeps track of those that have ended.")

    @property
    def output_size(self):
        """The shapes of the outputs of a step, without the batch."""
        n = shapes.TensorShape([self._beam_width])
        return BeamSearchDecoderOutput(scores=n, predicted_ids=n, parent_ids=n)

    @property
    def output_dtype(self):
        """The types of the outputs of a step."""
        dtype = nest.flatten(self._initial_cell_state)[0].dtype.base_dtype
        return BeamSearchDecoderOutput(scores=dtype, predicted_ids=dtypes.int32, parent_ids=dtypes.int32)

    # ---- batch * beam and [batch, beam] ----

    def _split_beams(self, t):
        if hasattr(t, "_with_flow") or t.shape.ndims == 0:
            return t
        if t.shape.ndims is None:
            raise ValueError("Expected state to have a known rank: %s" % t)
        shape = array.shape(t)
        out = array.reshape(t, array.concat([[-1, self._beam_width], shape[1:]], 0))
        out.set_shape([self._known_batch(), self._beam_width] + t.shape.as_list()[1:])
        return out

    def _merge_beams(self, t):
        if hasattr(t, "_with_flow") or t.shape.ndims == 0:
            return t
        shape = array.shape(t)
        out = array.reshape(t, array.concat([[shape[0] * shape[1]], shape[2:]], 0))
        batch = self._known_batch()
        out.set_shape([None if batch is None else batch * self._beam_width] + t.shape.as_list()[2:])
        return out

    def _known_batch(self):
        return self._batch_size if isinstance(self._batch_size, int) else None

    # ---- decoding ----

    def initialize(self, name=None):
        dtype = nest.flatten(self._initial_cell_state)[0].dtype.base_dtype
        zeros = array.zeros(array.stack([self._batch_size]), dtypes.int32)
        # All beams begin alike: only the first one counts.
        log_probs = array.one_hot(zeros, depth=self._beam_width, on_value=convert.constant(0.0, dtype),
                                  off_value=convert.constant(-np.inf, dtype), dtype=dtype)
        state = BeamSearchDecoderState(
            cell_state=self._initial_cell_state, log_probs=log_probs, finished=self._finished,
            lengths=array.zeros(array.stack([self._batch_size, self._beam_width]), dtypes.int64),
            accumulated_attention_probs=())
        return self._finished, self._start_inputs, state

    def step(self, time, inputs, state, name=None):
        with ops.name_scope(name, "BeamSearchDecoderStep", [time]):
            flat_inputs = nest.map_structure(self._merge_beams, inputs)
            cell_state = nest.map_structure(self._merge_beams, state.cell_state)
            outputs, next_cell_state = self._cell(flat_inputs, cell_state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            logits = self._split_beams(outputs)
            next_cell_state = nest.map_structure(self._split_beams, next_cell_state)
            output, next_state = self._search(time, logits, next_cell_state, state)
            next_inputs = self._embedding_fn(output.predicted_ids)
            return output, next_state, next_inputs, next_state.finished

    def _search(self, time, logits, next_cell_state, state):
        """The best of all continuations of all beams."""
        vocabulary = logits.shape.as_list()[-1] or array.shape(logits)[-1]
        finished = state.finished
        step = _masked(nn.log_softmax(logits), self._end_token, finished)
        total = array.expand_dims(state.log_probs, 2) + step
        adds = math.logical_not(array.one_hot(math.cast(array.fill(array.shape(total)[:2], self._end_token), dtypes.int64),
                                              vocabulary, on_value=True, off_value=False, dtype=dtypes.bool_))
        grows = math.to_int64(math.logical_and(array.expand_dims(math.logical_not(finished), 2), adds))
        lengths = array.expand_dims(state.lengths, 2) + grows
        scores = total / _length_penalty(lengths, self._length_penalty_weight, total.dtype)
        flat = array.reshape(scores, array.stack([self._batch_size, -1]))
        best, places = nn.top_k(flat, k=self._beam_width)
        best.set_shape([self._known_batch(), self._beam_width])
        places.set_shape([self._known_batch(), self._beam_width])
        words, parents = math.floormod(places, vocabulary), math.floordiv(places, vocabulary)
        log_probs = array.gather(array.reshape(total, array.stack([self._batch_size, -1])), places, axis=1, batch_dims=1)
        was_finished = array.gather(finished, parents, axis=1, batch_dims=1)
        now_finished = math.logical_or(was_finished, math.equal(words, self._end_token), name="next_beam_finished")
        new_lengths = array.gather(state.lengths, parents, axis=1, batch_dims=1) + math.to_int64(math.logical_not(was_finished))
        cell_state = nest.map_structure(lambda t: self._of_parents(t, parents), next_cell_state)
        output = BeamSearchDecoderOutput(scores=best, predicted_ids=words, parent_ids=parents)
        return output, BeamSearchDecoderState(cell_state=cell_state, log_probs=log_probs, finished=now_finished,
                                              lengths=new_lengths, accumulated_attention_probs=())

    def _of_parents(self, t, parents):
        if hasattr(t, "_with_flow") or t.shape.ndims is None or t.shape.ndims < 2:
            return t
        out = array.gather(t, parents, axis=1, batch_dims=1)
        out.set_shape(t.shape)
        return out

    def finalize(self, outputs, final_state, sequence_lengths):
        longest = math.to_int32(math.reduce_max(final_state.lengths, axis=1))
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        if self._reorder_tensor_arrays:
            final_state = final_state._replace(cell_state=nest.map_structure(
                lambda t: self._sorted(t, outputs.parent_ids, final_state.lengths), final_state.cell_state))
        return FinalBeamSearchDecoderOutput(beam_search_decoder_output=outputs, predicted_ids=ids), final_state

    def _sorted(self, t, parent_ids, lengths):
        """The history of a cell, in the order of the beams at the end."""
        if not hasattr(t, "_with_flow"):
            return t
        stacked = t.stack()
        shape = array.shape(stacked)
        whole = array.reshape(stacked, array.concat([[shape[0], self._batch_size, self._beam_width], shape[2:]], 0))
        return gather_tree_from_array(whole, parent_ids, lengths)


def _masked(probs, end_token, finished):
    """Of a beam that has ended only end_token goes on, at no cost."""
    vocabulary = probs.shape.as_list()[2] or array.shape(probs)[2]
    row = array.one_hot(end_token, vocabulary, dtype=probs.dtype, on_value=convert.constant(0., probs.dtype),
                        off_value=convert.constant(probs.dtype.min, probs.dtype))
    rows = array.tile(array.reshape(row, [1, 1, -1]), array.concat([array.shape(finished), [1]], 0))
    mask = array.tile(array.expand_dims(finished, 2), array.stack([1, 1, vocabulary]))
    return array.where(mask, rows, probs)


def _length_penalty(lengths, weight, dtype):
    weight = convert.convert_to_tensor(weight, dtypes.float32, name="penalty_factor")
    known = convert.constant_value(weight)
    if known is not None and known == 0:
        return math.cast(1.0, dtype)
    return math.cast(math.pow((5. + math.to_float(lengths)) / 6., weight), dtype)
