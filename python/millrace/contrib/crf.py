"""tf.contrib.crf: conditional random fields over chains of tags.

inputs [batch, time, tags] are the scores of tags, transition_params [tags, tags] those of a tag after another; steps after the
length of a sequence do not count.
"""

import numpy as np

from ..framework import convert, dtypes, ops
from ..ops import array, functional, math
from ..ops import variable_scope as vs

__all__ = ["crf_binary_score", "crf_decode", "crf_log_likelihood", "crf_log_norm", "crf_multitag_sequence_score",
           "crf_sequence_score", "crf_unary_score", "viterbi_decode"]


def _mask(lengths, steps, dtype=dtypes.float32):
    return array.sequence_mask(lengths, steps, dtype)


def crf_unary_score(tag_indices, sequence_lengths, inputs):
    """The sum of the scores of the tags."""
    n = array.shape(inputs)[2]
    chosen = math.reduce_sum(array.one_hot(tag_indices, n, dtype=inputs.dtype.base_dtype) * inputs, 2)
    return math.reduce_sum(chosen * _mask(sequence_lengths, array.shape(inputs)[1], inputs.dtype.base_dtype), 1)


def crf_binary_score(tag_indices, sequence_lengths, transition_params):
    """The sum of the scores of the transitions between the tags."""
    tags = convert.convert_to_tensor(tag_indices)
    params = convert.convert_to_tensor(transition_params)
    pairs = array.stack([tags[:, :-1], tags[:, 1:]], axis=2)
    scores = array.gather_nd(params, pairs)
    return math.reduce_sum(scores * _mask(sequence_lengths, array.shape(tags)[1], params.dtype.base_dtype)[:, 1:], 1)


def crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params):
    """Computes the unnormalized score of each sequence of tags.

    Args:
        inputs: [batch, time, tags], the scores of tags at each step
        tag_indices: [batch, time], the tags
        sequence_lengths: [batch], the lengths of the sequences
        transition_params: [tags, tags], the scores of a tag after another one
    """
    inputs = convert.convert_to_tensor(inputs)
    return crf_unary_score(tag_indices, sequence_lengths, inputs) + crf_binary_score(tag_indices, sequence_lengths,
                                                                                     transition_params)


def crf_multitag_sequence_score(inputs, tag_bitmap, sequence_lengths, transition_params):
    """The log of the summed weights of all sequences whose tags are among those that are allowed in each step."""
    inputs = convert.convert_to_tensor(inputs)
    barred = array.fill(array.shape(inputs), convert.constant(-np.inf, inputs.dtype.base_dtype))
    return crf_log_norm(array.where(tag_bitmap, inputs, barred), sequence_lengths, transition_params)


def _by_time(inputs):
    return array.transpose(inputs, [1, 0, 2])


def crf_log_norm(inputs, sequence_lengths, transition_params):
    """The log of the summed weights of all sequences of tags."""
    inputs = convert.convert_to_tensor(inputs)
    params = array.expand_dims(convert.convert_to_tensor(transition_params), 0)
    lengths = math.to_int32(sequence_lengths)

    def step(alphas, x):
        scores, time = x
        # The first step is where the sum begins; it is among the steps so that there always is one.
        inside = math.logical_and(time > 0, time < lengths)
        new = scores + math.reduce_logsumexp(array.expand_dims(alphas, 2) + params, 1)
        return array.where(inside, new, alphas)

    steps = _by_time(inputs)
    alphas = functional.scan(step, (steps, math.range(array.shape(steps)[0])), steps[0])
    norm = math.reduce_logsumexp(alphas[-1], 1)
    return array.where(lengths <= 0, array.zeros_like(norm), norm)


def crf_log_likelihood(inputs, tag_indices, sequence_lengths, transition_params=None):
    """(log likelihood of each sequence of tags, transition_params), which are made as "transitions" if they are not given."""
    inputs = convert.convert_to_tensor(inputs)
    n = inputs.shape.as_list()[2]
    if transition_params is None:
        transition_params = vs.get_variable("transitions", [n, n])
    with ops.name_scope("crf_log_likelihood"):
        score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
        return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def viterbi_decode(score, transition_params):
    """(best tags, their score) of one sequence [time, tags], in numpy."""
    trellis, back = np.zeros_like(score), np.zeros_like(score, dtype=np.int32)
    trellis[0] = score[0]
    for t in range(1, score.shape[0]):
        v = np.expand_dims(trellis[t - 1], 1) + transition_params
        trellis[t] = score[t] + np.max(v, 0)
        back[t] = np.argmax(v, 0)
    tags = [int(np.argmax(trellis[-1]))]
    for pointers in reversed(back[1:]):
        tags.append(int(pointers[tags[-1]]))
    tags.reverse()
    return tags, np.max(trellis[-1])


def crf_decode(potentials, transition_params, sequence_length):
    """(best tags [batch, time], zeros after the end; their scores [batch])"""
    potentials = convert.convert_to_tensor(potentials)
    params = array.expand_dims(convert.convert_to_tensor(transition_params), 0)
    lengths = math.maximum(math.to_int32(sequence_length), 1)
    steps = _by_time(potentials)
    here = math.range(array.shape(potentials)[2]) + array.zeros_like(steps[0], dtype=dtypes.int32)

    def forward(carry, x):
        state, _ = carry
        scores, time = x
        reached = array.expand_dims(state, 2) + params
        inside = math.logical_and(time > 0, time < lengths)
        new = array.where(inside, scores + math.reduce_max(reached, 1), state)
        # In the first step and after the end each tag points to itself, so that the way back begins at the end.
        return new, array.where(inside, math.cast(math.argmax(reached, 1), dtypes.int32), here)

    states, pointers = functional.scan(forward, (steps, math.range(array.shape(steps)[0])), (steps[0], here))
    final = states[-1]
    last = math.cast(math.argmax(final, 1), dtypes.int32)
    before = functional.scan(lambda tag, p: array.gather(p, tag, axis=1, batch_dims=1), pointers, last, reverse=True)
    tags = array.transpose(array.concat([before[1:], array.expand_dims(last, 0)], 0))
    tags = tags * array.sequence_mask(lengths, array.shape(tags)[1], dtypes.int32)
    tags.set_shape(potentials.shape[:2])
    return tags, math.reduce_max(final, 1)
