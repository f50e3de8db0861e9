"""The loop over steps of time that recurrent layers are made of."""

import millrace as tf

from .. import backend as K


def _spread(mask, like):
    """A mask of samples in as many dimensions as the tensor that it chooses of."""
    while K.ndim(mask) < K.ndim(like):
        mask = tf.expand_dims(mask, -1)
    return tf.logical_and(mask, tf.ones_like(like, dtype=tf.bool))


def _chosen(mask, new, old):
    return tf.where(_spread(mask, new), new, old)


def rnn(step, inputs, initial_states, go_backwards=False, mask=None, constants=None, unroll=False, time_major=False,
        zero_output_for_mask=False):
    """(last output, all outputs, last states).  A step that a mask leaves out changes no state, and gives the output before it
    (zeros if zero_output_for_mask)."""
    swap = lambda x: tf.transpose(x, [1, 0] + list(range(2, K.ndim(x))))
    if not time_major:
        inputs = swap(inputs)
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        if K.ndim(mask) > 2:
            mask = tf.squeeze(mask, [-1])
        mask = mask if time_major else swap(mask)
    if go_backwards:
        inputs = tf.reverse(inputs, [0])
        mask = None if mask is None else tf.reverse(mask, [0])
    states, constants = list(initial_states), list(constants or [])
    run = _unrolled if unroll else _looped
    last, outputs, states = run(step, inputs, states, mask, constants, zero_output_for_mask)
    if not time_major:
        outputs = swap(outputs)
    return last, outputs, states


def _advance(step, x, states, m, constants, before, zero_output):
    """One step, and what a mask makes of it."""
    output, new = step(x, states + constants)
    new = list(new)
    if m is None:
        return output, output, new
    kept = _chosen(m, output, before)
    shown = _chosen(m, output, tf.zeros_like(output)) if zero_output else kept
    return shown, kept, [_chosen(m, n, s) for n, s in zip(new, states)]


def _unrolled(step, inputs, states, mask, constants, zero_output):
    n = inputs.shape.as_list()[0]
    if not n:
        raise ValueError("Unrolling requires a fixed number of timesteps.")
    outputs, before = [], None
    for i in range(n):
        x, m = inputs[i], None if mask is None else mask[i]
        if m is not None and before is None:
            before = tf.zeros_like(step(x, states + constants)[0])
        shown, before, states = _advance(step, x, states, m, constants, before, zero_output)
        outputs.append(shown)
    return outputs[-1], tf.stack(outputs), states


def _looped(step, inputs, states, mask, constants, zero_output):
    n = tf.shape(inputs)[0]
    size = inputs.shape.as_list()[0]
    taken = tf.TensorArray(inputs.dtype, n, tensor_array_name="input_ta").unstack(inputs)
    masks = None if mask is None else tf.TensorArray(tf.bool, n, tensor_array_name="mask_ta").unstack(mask)
    # What the first step gives tells type and shape of all; nobody asks for it, so it is not run.
    like = step(inputs[0], states + constants)[0]
    given = tf.TensorArray(like.dtype, n, tensor_array_name="output_ta")
    before = tf.zeros_like(like) if mask is not None else tf.constant(0.0)

    def body(i, out, before, *states):
        states = list(states)
        shown, kept, new = _advance(step, taken.read(i), states, None if masks is None else masks.read(i), constants, before,
                                    zero_output)
        for a, b in zip(new, states):
            a.set_shape(b.shape)
        return (i + 1, out.write(i, shown), kept if masks is not None else before) + tuple(new)

    invariants = [tf.TensorShape([]), tf.TensorShape(None), before.shape] + [s.shape for s in states]
    done = tf.while_loop(lambda i, *unused: i < n, body, (tf.constant(0), given, before) + tuple(states),
                         parallel_iterations=32, swap_memory=True, shape_invariants=tuple(invariants))
    outputs = done[1].stack()
    outputs.set_shape([size] + like.shape.as_list())
    last = done[1].read(n - 1)
    last.set_shape(like.shape)
    return last, outputs, list(done[3:])
