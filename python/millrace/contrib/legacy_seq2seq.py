"""tf.contrib.legacy_seq2seq: sequences to sequences, unrolled: inputs and outputs are lists, one element a step."""

import copy
import inspect

from ..framework import dtypes, nest, ops
from ..layers import base
from ..nn.recurrent import static_rnn
from ..nn.rnn_cell import _linear
from ..ops import array, control_flow, math
from ..ops import variable_scope as vs
from .. import nn
from .rnn import EmbeddingWrapper, OutputProjectionWrapper

__all__ = ["attention_decoder", "basic_rnn_seq2seq", "embedding_attention_decoder", "embedding_attention_seq2seq",
           "embedding_rnn_decoder", "embedding_rnn_seq2seq", "embedding_tied_rnn_seq2seq", "model_with_buckets",
           "one2many_rnn_seq2seq", "rnn_decoder", "sequence_loss", "sequence_loss_by_example", "tied_rnn_seq2seq"]


def _extract_argmax_and_embed(embedding, output_projection=None, update_embedding=True):
    """A loop function: the row of the most likely symbol of the last output."""
    def loop_function(prev, _):
        if output_projection is not None:
            prev = nn.xw_plus_b(prev, output_projection[0], output_projection[1])
        found = nn.embedding_lookup(embedding, math.argmax(prev, 1))
        return found if update_embedding else array.stop_gradient(found)
    return loop_function


def _fresh_copy(cell):
    """A copy of the cell with its own variables, even if this one has been used."""
    new = copy.deepcopy(cell)
    rest = [new]
    while rest:
        c = rest.pop()
        if isinstance(c, base.Layer):
            c.built = False
            c._scope = c._current_scope = None
            c._trainable_weights, c._non_trainable_weights = [], []
        rest += list(getattr(c, "_cells", [])) + ([c._cell] if hasattr(c, "_cell") else [])
    return new


# ---- without attention ----

def rnn_decoder(decoder_inputs, initial_state, cell, loop_function=None, scope=None):
    """([outputs], last state); loop_function(last output, step) makes the inputs after the first."""
    with vs.variable_scope(scope or "rnn_decoder"):
        state, outputs, prev = initial_state, [], None
        for i, x in enumerate(decoder_inputs):
            if loop_function is not None and prev is not None:
                with vs.variable_scope("loop_function", reuse=True):
                    x = loop_function(prev, i)
            if i > 0:
                vs.get_variable_scope().reuse_variables()
            output, state = cell(x, state)
            outputs.append(output)
            if loop_function is not None:
                prev = output
        return outputs, state


def basic_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, dtype=dtypes.float32, scope=None):
    """Encodes a list of inputs with a cell, and decodes a list of decoder inputs from its last state.

    Returns the list of outputs and the final state."""
    with vs.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(_fresh_copy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, loop_function=None, dtype=dtypes.float32, scope=None):
    """Encoder and decoder share their variables."""
    with vs.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        vs.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function=loop_function, scope=scope)


def embedding_rnn_decoder(decoder_inputs, initial_state, cell, num_symbols, embedding_size, output_projection=None,
                          feed_previous=False, update_embedding_for_previous=True, scope=None):
    """rnn_decoder of symbols, which are looked up in a table "embedding"."""
    with vs.variable_scope(scope or "embedding_rnn_decoder"):
        if output_projection is not None:
            output_projection[1].shape.assert_is_compatible_with([num_symbols])
        embedding = vs.get_variable("embedding", [num_symbols, embedding_size])
        loop_function = _extract_argmax_and_embed(embedding, output_projection, update_embedding_for_previous) \
            if feed_previous else None
        return rnn_decoder([nn.embedding_lookup(embedding, i) for i in decoder_inputs], initial_state, cell,
                           loop_function=loop_function)


def _with_or_without_feeding(decoder, feed_previous):
    """decoder(feed_previous), chosen in the run when that is a tensor."""
    if isinstance(feed_previous, bool):
        return decoder(feed_previous)
    kept = []

    def branch(feed, reuse):
        with vs.variable_scope(vs.get_variable_scope(), reuse=reuse):
            outputs, state = decoder(feed)
            kept[:] = [state]
            return outputs + nest.flatten(state)

    both = control_flow.cond(feed_previous, lambda: branch(True, None), lambda: branch(False, True))
    state = kept[0]
    n = len(nest.flatten(state))
    outputs, flat = both[:-n], both[-n:]
    return outputs, nest.pack_sequence_as(state, flat) if nest.is_sequence(state) else flat[0]


def embedding_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, num_encoder_symbols, num_decoder_symbols, embedding_size,
                          output_projection=None, feed_previous=False, dtype=None, scope=None):
    """Encodes and decodes sequences of symbols with embeddings.

    Args:
        encoder_inputs: a list of int32 [batch], the symbols of each step
        decoder_inputs: a list of int32 [batch], the symbols of each step
        cell: the RNN cell
        output_projection: (weights, bias) that turn outputs into symbols, or None
        feed_previous: whether the decoder gets its own last output instead of decoder_inputs; may be a tensor

    Returns the list of outputs and the final state.
    """
    with vs.variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as scope:
        dtype = scope.dtype
        encoder = EmbeddingWrapper(_fresh_copy(cell), embedding_classes=num_encoder_symbols, embedding_size=embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
        return _with_or_without_feeding(
            lambda feed: embedding_rnn_decoder(decoder_inputs, state, cell, num_decoder_symbols, embedding_size,
                                               output_projection=output_projection, feed_previous=feed), feed_previous)


def embedding_tied_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, num_symbols, embedding_size, num_decoder_symbols=None,
                               output_projection=None, feed_previous=False, dtype=None, scope=None):
    """Both sides share the table and the cell."""
    with vs.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as scope:
        dtype = scope.dtype
        embedding = vs.get_variable("embedding", [num_symbols, embedding_size], dtype=dtype)
        encoder = [nn.embedding_lookup(embedding, x) for x in encoder_inputs]
        decoder = [nn.embedding_lookup(embedding, x) for x in decoder_inputs]
        outputs_size = num_symbols if num_decoder_symbols is None else num_decoder_symbols
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, outputs_size)
        loop = _extract_argmax_and_embed(embedding, output_projection, True)
        return _with_or_without_feeding(
            lambda feed: tied_rnn_seq2seq(encoder, decoder, cell, loop_function=loop if feed else None, dtype=dtype),
            feed_previous)


# ---- with attention ----

class _Attention:
    """Weighs the states of the encoder, by a hidden layer for each head."""

    def __init__(self, attention_states, num_heads):
        dims = attention_states.shape.as_list()
        if dims[2] is None:
            raise ValueError("Shape[2] of attention_states must be known: %s" % attention_states.shape)
        self.size, self._heads = dims[2], num_heads
        length = dims[1] if dims[1] is not None else array.shape(attention_states)[1]
        self._length = length
        self._hidden = array.reshape(attention_states, array.stack([-1, length, 1, self.size]))
        self._features, self._v = [], []
        for a in range(num_heads):
            k = vs.get_variable("AttnW_%d" % a, [1, 1, self.size, self.size])
            self._features.append(nn.conv2d(self._hidden, k, [1, 1, 1, 1], "SAME"))
            self._v.append(vs.get_variable("AttnV_%d" % a, [self.size]))

    def __call__(self, query):
        found = []
        if nest.is_sequence(query):
            query = array.concat(nest.flatten(query), 1)
        for a in range(self._heads):
            with vs.variable_scope("Attention_%d" % a):
                y = array.reshape(_linear(query, self.size, True), [-1, 1, 1, self.size])
                scores = math.reduce_sum(self._v[a] * math.tanh(self._features[a] + y), [2, 3])
                weights = array.reshape(nn.softmax(scores), array.stack([-1, self._length, 1, 1]))
                found.append(array.reshape(math.reduce_sum(weights * self._hidden, [1, 2]), [-1, self.size]))
        return found


def attention_decoder(decoder_inputs, initial_state, attention_states, cell, output_size=None, num_heads=1, loop_function=None,
                      dtype=None, scope=None, initial_state_attention=False):
    """rnn_decoder that looks at attention_states [batch, length, size] in each step."""
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    output_size = cell.output_size if output_size is None else output_size
    with vs.variable_scope(scope or "attention_decoder", dtype=dtype) as scope:
        dtype = scope.dtype
        attention = _Attention(attention_states, num_heads)
        state, outputs, prev = initial_state, [], None
        shape = array.stack([array.shape(decoder_inputs[0])[0], attention.size])
        attns = [array.zeros(shape, dtype=dtype) for _ in range(num_heads)]
        for a in attns:
            a.set_shape([None, attention.size])
        if initial_state_attention:
            attns = attention(initial_state)
        for i, x in enumerate(decoder_inputs):
            if i > 0:
                vs.get_variable_scope().reuse_variables()
            if loop_function is not None and prev is not None:
                with vs.variable_scope("loop_function", reuse=True):
                    x = loop_function(prev, i)
            size = x.shape.as_list()[1]
            if size is None:
                raise ValueError("Could not infer input size from input: %s" % x.name)
            cell_output, state = cell(_linear([x] + attns, size, True), state)
            if i == 0 and initial_state_attention:
                with vs.variable_scope(vs.get_variable_scope(), reuse=True):
                    attns = attention(state)
            else:
                attns = attention(state)
            with vs.variable_scope("AttnOutputProjection"):
                output = _linear([cell_output] + attns, output_size, True)
            if loop_function is not None:
                prev = output
            outputs.append(output)
        return outputs, state


def embedding_attention_decoder(decoder_inputs, initial_state, attention_states, cell, num_symbols, embedding_size, num_heads=1,
                                output_size=None, output_projection=None, feed_previous=False,
                                update_embedding_for_previous=True, dtype=None, scope=None, initial_state_attention=False):
    """Decodes a sequence of symbols with embeddings and attention.

    Args:
        decoder_inputs: a list of int32 [batch], the symbols of each step
        initial_state: the state to start with
        attention_states: [batch, length, size], what the attention looks at
        num_heads: the number of attention heads
        output_projection: (weights, bias) that turn outputs into symbols, or None
        feed_previous: whether the decoder gets its own last output instead of decoder_inputs

    Returns the list of outputs and the final state.
    """
    output_size = cell.output_size if output_size is None else output_size
    if output_projection is not None:
        output_projection[1].shape.assert_is_compatible_with([num_symbols])
    with vs.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = vs.get_variable("embedding", [num_symbols, embedding_size])
        loop_function = _extract_argmax_and_embed(embedding, output_projection, update_embedding_for_previous) \
            if feed_previous else None
        return attention_decoder([nn.embedding_lookup(embedding, i) for i in decoder_inputs], initial_state, attention_states,
                                 cell, output_size=output_size, num_heads=num_heads, loop_function=loop_function,
                                 initial_state_attention=initial_state_attention)


def embedding_attention_seq2seq(encoder_inputs, decoder_inputs, cell, num_encoder_symbols, num_decoder_symbols, embedding_size,
                                num_heads=1, output_projection=None, feed_previous=False, dtype=None, scope=None,
                                initial_state_attention=False):
    """Encodes and decodes sequences of symbols with embeddings and attention.

    The arguments are those of embedding_rnn_seq2seq and embedding_attention_decoder.
    Returns the list of outputs and the final state."""
    with vs.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as scope:
        dtype = scope.dtype
        encoder = EmbeddingWrapper(_fresh_copy(cell), embedding_classes=num_encoder_symbols, embedding_size=embedding_size)
        outputs, state = static_rnn(encoder, encoder_inputs, dtype=dtype)
        attention_states = array.concat([array.reshape(e, [-1, 1, cell.output_size]) for e in outputs], 1)
        output_size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols
        return _with_or_without_feeding(
            lambda feed: embedding_attention_decoder(
                decoder_inputs, state, attention_states, cell, num_decoder_symbols, embedding_size, num_heads=num_heads,
                output_size=output_size, output_projection=output_projection, feed_previous=feed,
                initial_state_attention=initial_state_attention), feed_previous)


def one2many_rnn_seq2seq(encoder_inputs, decoder_inputs_dict, enc_cell, dec_cells_dict, num_encoder_symbols,
                         num_decoder_symbols_dict, embedding_size, feed_previous=False, dtype=None, scope=None):
    """Encodes a sequence once, and decodes it with several decoders, by name."""
    outputs, states = {}, {}
    with vs.variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as scope:
        encoder = EmbeddingWrapper(enc_cell, embedding_classes=num_encoder_symbols, embedding_size=embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=scope.dtype)
        for name, decoder_inputs in decoder_inputs_dict.items():
            n = num_decoder_symbols_dict[name]
            with vs.variable_scope("one2many_decoder_" + str(name)):
                cell = OutputProjectionWrapper(dec_cells_dict[name], n)
                outputs[name], states[name] = _with_or_without_feeding(
                    lambda feed: embedding_rnn_decoder(decoder_inputs, state, cell, n, embedding_size, feed_previous=feed),
                    feed_previous)
    return outputs, states


# ---- losses ----

def _call_loss(f, labels, logits):
    """softmax_loss_function has arguments labels and logits; before TensorFlow 1.0 it had logits and labels, by any names."""
    if f is None:
        return nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    try:
        names = set(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        names = {"labels", "logits"}
    if {"labels", "logits"} <= names or any(p.kind is p.VAR_KEYWORD for p in inspect.signature(f).parameters.values()):
        return f(labels=labels, logits=logits)
    return f(logits, labels)


def sequence_loss_by_example(logits, targets, weights, average_across_timesteps=True, softmax_loss_function=None, name=None):
    """The weighted cross entropy of each sequence of the batch."""
    if not len(targets) == len(weights) == len(logits):
        raise ValueError("Lengths of logits, weights, and targets must be the same %d, %d, %d." %
                         (len(logits), len(weights), len(targets)))
    with ops.name_scope(name, "sequence_loss_by_example", list(logits) + list(targets) + list(weights)):
        losses = []
        for logit, target, weight in zip(logits, targets, weights):
            if softmax_loss_function is None:
                target = array.reshape(target, [-1])
            losses.append(_call_loss(softmax_loss_function, target, logit) * weight)
        total = math.add_n(losses)
        if average_across_timesteps:
            total = total / (math.add_n([ops.convert_to_tensor_or_indexed_slices(w) for w in weights]) + 1e-12)
        return total


def sequence_loss(logits, targets, weights, average_across_timesteps=True, average_across_batch=True,
                  softmax_loss_function=None, name=None):
    """Computes the weighted cross entropy of a list of logits and targets, averaged as asked."""
    with ops.name_scope(name, "sequence_loss", list(logits) + list(targets) + list(weights)):
        cost = math.reduce_sum(sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps=average_across_timesteps,
            softmax_loss_function=softmax_loss_function))
        if average_across_batch:
            return cost / math.cast(array.shape(targets[0])[0], cost.dtype)
        return cost


def model_with_buckets(encoder_inputs, decoder_inputs, targets, weights, buckets, seq2seq, softmax_loss_function=None,
                       per_example_loss=False, name=None):
    """([outputs], [losses]) of a model for each of several lengths of sequences; the variables are shared."""
    for what, given, need in (("encoder_inputs", encoder_inputs, buckets[-1][0]), ("targets", targets, buckets[-1][1]),
                              ("weights", weights, buckets[-1][1])):
        if len(given) < need:
            raise ValueError("Length of %s (%d) must be at least that of last bucket (%d)." % (what, len(given), need))
    losses, outputs = [], []
    with ops.name_scope(name, "model_with_buckets",
                        list(encoder_inputs) + list(decoder_inputs) + list(targets) + list(weights)):
        for j, (encoder_length, decoder_length) in enumerate(buckets):
            with vs.variable_scope(vs.get_variable_scope(), reuse=True if j > 0 else None):
                made, _ = seq2seq(encoder_inputs[:encoder_length], decoder_inputs[:decoder_length])
                outputs.append(made)
                f = sequence_loss_by_example if per_example_loss else sequence_loss
                losses.append(f(made, targets[:decoder_length], weights[:decoder_length],
                                softmax_loss_function=softmax_loss_function))
    return outputs, losses


def __getattr__(name):
    raise AttributeError("module 'tf.contrib.legacy_seq2seq' has no attribute %r" % name)
