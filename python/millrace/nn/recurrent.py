"""Recurrent networks: a cell over the steps of a sequence, unrolled into the graph (static) or in a loop (dynamic).

Sequences in a batch may differ in length: after the end of one its outputs are zeros and its state stays.  In a loop, all
inputs are in TensorArrays by time, and so are the outputs.
"""

from ..framework import convert, dtypes, nest, ops, shapes
from ..ops import array, control_flow, math, tensor_array
from ..ops import variable_scope as vs
from .rnn_cell import assert_like_rnncell, state_shape, zero_state_tensors

__all__ = ["bidirectional_dynamic_rnn", "dynamic_rnn", "raw_rnn", "static_bidirectional_rnn", "static_rnn",
           "static_state_saving_rnn"]


def _transpose_batch_time(x):
    """Exchanges the first two dimensions."""
    known = x.shape
    if known.ndims is not None and known.ndims < 2:
        raise ValueError("Expected input tensor %s to have rank at least 2, but saw shape: %s" % (x.name, known))
    rank = known.ndims
    perm = [1, 0] + list(range(2, rank)) if rank is not None else array.concat([[1, 0], math.range(2, array.rank(x))], 0)
    out = array.transpose(x, perm)
    if rank is not None:
        dims = known.as_list()
        out.set_shape([dims[1], dims[0]] + dims[2:])
    return out


def _batch_size(flat, time_major=True):
    """The batch size of inputs by time: a number where it is known."""
    axis = 1 if time_major else 0
    for x in flat:
        if x.shape.ndims is not None and x.shape.ndims < axis + 1:
            raise ValueError("Expected input tensor %s to have rank at least 2" % x)
        if x.shape.ndims is not None and x.shape.as_list()[axis] is not None:
            return x.shape.as_list()[axis]
    return array.shape(flat[0])[axis]


def _state_dtype(explicit, state):
    """The type of outputs of a state's part: what was asked for, else that of the state, which must be one."""
    if explicit is not None:
        return explicit
    found = {s.dtype.base_dtype for s in nest.flatten(state)}
    if not found:
        raise ValueError("Unable to infer dtype from empty state.")
    if len(found) > 1:
        raise ValueError("State has tensors of different inferred_dtypes. Unable to infer a single representative dtype.")
    return found.pop()


def _initial_state(cell, initial_state, batch_size, dtype):
    if initial_state is not None:
        return initial_state
    if not dtype:
        raise ValueError("If there is no initial_state, you must give a dtype.")
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def _checked_lengths(sequence_length):
    if sequence_length is None:
        return None
    sequence_length = math.to_int32(sequence_length)
    if sequence_length.shape.ndims not in (None, 1):
        raise ValueError("sequence_length must be a vector of length batch_size, but saw shape: %s" % sequence_length.shape)
    return array.identity(sequence_length, name="sequence_length")


def _kept(over, old, new):
    """Selects the old value where `over` is true; scalars and TensorArrays have no rows and take the new value."""
    if hasattr(new, "_with_flow") or new.shape.ndims == 0:
        return new
    with ops.colocate_with(new):
        return array.where(over, old, new)


def _kept_all(over, old, new):
    """The same for structures of the same form."""
    nest.assert_same_structure(old, new)
    flat = [_kept(over, o, n) for o, n in zip(nest.flatten(old), nest.flatten(new))]
    for o, n in zip(flat, nest.flatten(new)):
        if not hasattr(o, "_with_flow"):
            o.set_shape(n.shape)
    return nest.pack_sequence_as(old, flat)


# ---- in a loop ----

def dynamic_rnn(cell, inputs, sequence_length=None, initial_state=None, dtype=None, parallel_iterations=None, swap_memory=False,
                time_major=False, scope=None):
    """(outputs, last state) of a cell over inputs [batch, time, ...], or [time, batch, ...] if time_major."""
    assert_like_rnncell("cell", cell)
    with vs.variable_scope(scope or "rnn"):
        flat = [convert.convert_to_tensor(x) for x in nest.flatten(inputs)]
        if not time_major:
            flat = [_transpose_batch_time(x) for x in flat]
        batch_size = _batch_size(flat)
        sequence_length = _checked_lengths(sequence_length)
        state = _initial_state(cell, initial_state, batch_size, dtype)
        if sequence_length is not None:
            sequence_length = _same_batch(sequence_length, batch_size)
        outputs, final = _loop(cell, nest.pack_sequence_as(inputs, flat), state, parallel_iterations or 32, swap_memory,
                               sequence_length, dtype)
        if not time_major:
            outputs = nest.map_structure(_transpose_batch_time, outputs)
        return outputs, final


def _same_batch(sequence_length, batch_size):
    known = sequence_length.shape.as_list()[0] if sequence_length.shape.ndims else None
    if known is not None and isinstance(batch_size, int):
        if known != batch_size:
            raise ValueError("sequence_length has %d elements, but the batch size is %d" % (known, batch_size))
        return sequence_length
    fits = control_flow.Assert(
        math.reduce_all(math.equal(array.shape(sequence_length), array.stack([batch_size]))),
        ["Expected shape for Tensor %s is " % sequence_length.name, array.stack([batch_size]), " but saw shape: ",
         array.shape(sequence_length)])
    with ops.control_dependencies([fits]):
        return array.identity(sequence_length, name="CheckSeqLen")


def _loop(cell, inputs, state, parallel_iterations, swap_memory, sequence_length, dtype):
    flat = nest.flatten(inputs)
    steps = array.shape(flat[0])[0]
    known = {x.shape.as_list()[0] for x in flat if x.shape.ndims is not None} - {None}
    if len(known) > 1:
        raise ValueError("Time steps is not the same for all the elements in the input in a batch.")
    for x in flat:
        if x.shape.ndims is None or None in x.shape.as_list()[2:]:
            raise ValueError("Input size (depth of inputs) must be accessible via shape inference, but saw value None.")
    batch_size = _batch_size(flat)
    sizes = nest.flatten(cell.output_size)
    time = convert.constant(0, dtypes.int32, name="time")
    with ops.name_scope("dynamic_rnn") as base:
        def made(name, size, element_type, element_shape=None):
            return tensor_array.TensorArray(element_type, size=size, element_shape=element_shape, tensor_array_name=base + name)
        out_types = [_state_dtype(dtype, state)] * len(sizes)
        out_arrays = tuple(made("output_%d" % i, steps, t, state_shape(batch_size, s))
                           for i, (s, t) in enumerate(zip(sizes, out_types)))
        in_arrays = tuple(made("input_%d" % i, steps, x.dtype.base_dtype, x.shape[1:]).unstack(x) for i, x in enumerate(flat))
    step_shapes = [x.shape[1:] for x in flat]
    if sequence_length is not None:
        zero_output = nest.pack_sequence_as(
            cell.output_size, nest.flatten(zero_state_tensors(cell.output_size, batch_size, _state_dtype(dtype, state))))
        limit = math.minimum(steps, math.maximum(1, math.reduce_max(sequence_length)))
    else:
        limit = steps

    def step(time, arrays, state):
        x = [a.read(time) for a in in_arrays]
        for t, shape in zip(x, step_shapes):
            t.set_shape(shape)
        output, new_state = cell(nest.pack_sequence_as(inputs, x), state)
        new_state = _as_like(state, new_state)
        if sequence_length is not None:
            over = time >= sequence_length
            output = _kept_all(over, zero_output, output)
            new_state = _kept_all(over, state, new_state)
        output = nest.flatten(output)
        if len(output) != len(arrays):
            raise ValueError("The cell returned %d outputs, but its output_size has %d" % (len(output), len(arrays)))
        return time + 1, tuple(a.write(time, o) for a, o in zip(arrays, output)), new_state

    _, out_arrays, final = control_flow.while_loop(
        lambda time, *_: time < limit, step, (time, out_arrays, state), parallel_iterations=parallel_iterations,
        maximum_iterations=steps, swap_memory=swap_memory)
    outputs = [a.stack() for a in out_arrays]
    for out, size in zip(outputs, sizes):
        out.set_shape(shapes.TensorShape([known.copy().pop() if known else None]).concatenate(state_shape(batch_size, size)))
    return nest.pack_sequence_as(cell.output_size, outputs), final


def _as_like(state, new_state):
    """The new state in the form of the old one, whose leaves it must have."""
    nest.assert_same_structure(state, new_state, check_types=False)
    return nest.pack_sequence_as(state, nest.flatten(new_state))


def _reversed(x, lengths, seq_axis, batch_axis):
    if lengths is not None:
        return array.reverse_sequence(x, seq_lengths=lengths, seq_axis=seq_axis, batch_axis=batch_axis)
    return array.reverse(x, axis=[seq_axis])


def bidirectional_dynamic_rnn(cell_fw, cell_bw, inputs, sequence_length=None, initial_state_fw=None, initial_state_bw=None,
                              dtype=None, parallel_iterations=None, swap_memory=False, time_major=False, scope=None):
    """((outputs forward, backward), (states forward, backward)); what goes backward is in the order of the inputs too."""
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    how = dict(sequence_length=sequence_length, dtype=dtype, parallel_iterations=parallel_iterations, swap_memory=swap_memory,
               time_major=time_major)
    seq_axis, batch_axis = (0, 1) if time_major else (1, 0)
    with vs.variable_scope(scope or "bidirectional_rnn"):
        with vs.variable_scope("fw") as fw:
            out_fw, state_fw = dynamic_rnn(cell_fw, inputs, initial_state=initial_state_fw, scope=fw, **how)
        with vs.variable_scope("bw") as bw:
            back = nest.map_structure(lambda x: _reversed(x, sequence_length, seq_axis, batch_axis), inputs)
            out, state_bw = dynamic_rnn(cell_bw, back, initial_state=initial_state_bw, scope=bw, **how)
    out_bw = nest.map_structure(lambda x: _reversed(x, sequence_length, seq_axis, batch_axis), out)
    return (out_fw, out_bw), (state_fw, state_bw)


def raw_rnn(cell, loop_fn, parallel_iterations=None, swap_memory=False, scope=None):
    """A loop whose inputs and end loop_fn says: (finished, next input, next state, emitted, loop state) = loop_fn(time, output,
    state, loop state), first with an output and state of None."""
    assert_like_rnncell("cell", cell)
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with vs.variable_scope(scope or "rnn"):
        time = convert.constant(0, dtypes.int32)
        finished, x, state, emit_like, loop_state = loop_fn(time, None, None, None)
        loop_state = convert.constant(0, dtypes.int32) if loop_state is None else loop_state
        x = nest.map_structure(convert.convert_to_tensor, x)
        batch_size = _batch_size(nest.flatten(x), time_major=False)
        nest.assert_same_structure(state, cell.state_size, check_types=False)
        state = nest.map_structure(convert.convert_to_tensor, state)
        if emit_like is not None:
            emitted = nest.map_structure(convert.convert_to_tensor, emit_like)
            emit_shapes = [e.shape for e in nest.flatten(emitted)]
            emit_types = [e.dtype.base_dtype for e in nest.flatten(emitted)]
            zero = nest.map_structure(lambda e: _zeros_of(e.shape, e, batch_size), emitted)
        else:
            emitted = cell.output_size
            emit_shapes = [state_shape(batch_size, s)[1:] for s in nest.flatten(emitted)]
            emit_types = [nest.flatten(state)[0].dtype.base_dtype] * len(emit_shapes)
            zero = zero_state_tensors(cell.output_size, batch_size, emit_types[0])
        arrays = nest.pack_sequence_as(emitted, [
            tensor_array.TensorArray(t, size=0, dynamic_size=True, element_shape=shapes.TensorShape(
                [batch_size if isinstance(batch_size, int) else None]).concatenate(s), tensor_array_name="rnn_output_%d" % i)
            for i, (t, s) in enumerate(zip(emit_types, emit_shapes))])

        def body(time, finished, x, arrays, state, loop_state):
            output, cell_state = cell(x, state)
            nest.assert_same_structure(state, cell_state, check_types=False)
            next_time = time + 1
            over, next_x, next_state, emit, next_loop_state = loop_fn(next_time, output, cell_state, loop_state)
            next_state = _as_like(state, next_state)
            emit = nest.pack_sequence_as(zero, nest.flatten(emit))
            nest.assert_same_structure(x, next_x)
            next_loop_state = loop_state if next_loop_state is None else next_loop_state
            emit = _kept_all(finished, zero, emit)
            next_state = _kept_all(finished, state, next_state)
            arrays = nest.map_structure(lambda a, e: a.write(time, e), arrays, emit)
            return next_time, math.logical_or(finished, over), next_x, arrays, next_state, next_loop_state

        out = control_flow.while_loop(
            lambda time, finished, *_: math.logical_not(math.reduce_all(finished)), body,
            [time, convert.convert_to_tensor(finished), x, arrays, state, loop_state],
            parallel_iterations=parallel_iterations or 32, swap_memory=swap_memory)
        arrays, final, loop_state = out[3:]
        return arrays, final, loop_state


def _zeros_of(shape, like, batch_size):
    dims = shape.as_list() if shape.is_fully_defined() else array.shape(like)
    z = array.zeros(array.concat([array.expand_dims(batch_size, 0), dims], 0), like.dtype.base_dtype)
    z.set_shape(shapes.TensorShape([batch_size if isinstance(batch_size, int) else None]).concatenate(shape))
    return z


# ---- unrolled ----

def static_rnn(cell, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
    """([output of each step], last state) of a cell over a list of inputs."""
    assert_like_rnncell("cell", cell)
    if not nest.is_sequence(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with vs.variable_scope(scope or "rnn") as varscope:
        inputs = [nest.map_structure(convert.convert_to_tensor, x) for x in inputs]
        _check_depths(inputs)
        batch_size = _batch_size(nest.flatten(inputs), time_major=False)
        state = _initial_state(cell, initial_state, batch_size, dtype)
        if sequence_length is not None:
            sequence_length = _checked_lengths(sequence_length)
            zero = zero_state_tensors(cell.output_size, batch_size, _state_dtype(dtype, state))
        outputs = []
        for time, x in enumerate(inputs):
            if time > 0:
                varscope.reuse_variables()
            output, new_state = cell(x, state)
            if sequence_length is not None:
                over = math.greater_equal(time, sequence_length)
                output, new_state = _kept_all(over, zero, output), _kept_all(over, state, _as_like(state, new_state))
            state = new_state
            outputs.append(output)
        return outputs, state


def _check_depths(inputs):
    first = nest.flatten(inputs[0])
    for x in first:
        if x.shape.ndims is not None and x.shape.ndims > 1 and None in x.shape.as_list()[1:]:
            raise ValueError("Input size (dimension %d of inputs) must be accessible via shape inference, but saw value None." %
                             (x.shape.as_list()[1:].index(None) + 1))


def static_state_saving_rnn(cell, inputs, state_saver, state_name, sequence_length=None, scope=None):
    """static_rnn that begins with a state which was saved, and saves the last one."""
    is_tuple = nest.is_sequence(cell.state_size)
    if is_tuple != nest.is_sequence(state_name):
        raise ValueError("state_name should be the same type as cell.state_size.")
    if not is_tuple:
        initial = state_saver.state(state_name)
    else:
        names, sizes = nest.flatten(state_name), nest.flatten(cell.state_size)
        if len(names) != len(sizes):
            raise ValueError("#elems(state_name) != #elems(state_size): %d vs. %d" % (len(names), len(sizes)))
        initial = nest.pack_sequence_as(cell.state_size, [state_saver.state(n) for n in names])
    outputs, state = static_rnn(cell, inputs, initial_state=initial, sequence_length=sequence_length, scope=scope)
    names, parts = (nest.flatten(state_name), nest.flatten(state)) if is_tuple else ([state_name], [state])
    saves = [state_saver.save_state(n, p) for n, p in zip(names, parts)]
    with ops.control_dependencies(saves):
        last = nest.map_structure(array.identity, outputs[-1])
    return outputs[:-1] + [last], state


def static_bidirectional_rnn(cell_fw, cell_bw, inputs, initial_state_fw=None, initial_state_bw=None, dtype=None,
                             sequence_length=None, scope=None):
    """([outputs forward and backward side by side], last state forward, last state backward)"""
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    if not nest.is_sequence(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with vs.variable_scope(scope or "bidirectional_rnn"):
        with vs.variable_scope("fw") as fw:
            out_fw, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=fw)
        with vs.variable_scope("bw") as bw:
            back = _reverse_seq(inputs, sequence_length)
            out, state_bw = static_rnn(cell_bw, back, initial_state_bw, dtype, sequence_length, scope=bw)
    out_bw = _reverse_seq(out, sequence_length)
    joined = [array.concat([f, b], 1) for f, b in zip(nest.flatten(out_fw), nest.flatten(out_bw))]
    return nest.pack_sequence_as(out_fw, joined), state_fw, state_bw


def _reverse_seq(sequence, lengths):
    """A list of steps backwards; each of the batch from its own end if there are lengths."""
    if lengths is None:
        return list(reversed(sequence))
    flat = [nest.flatten(x) for x in sequence]
    columns = []
    for steps in zip(*flat):
        known = shapes.unknown_shape(ndims=steps[0].shape.ndims)
        for s in steps:
            known = known.merge_with(s.shape)
        back = array.reverse_sequence(array.stack(steps), math.cast(lengths, dtypes.int64), seq_axis=0, batch_axis=1)
        parts = array.unstack(back, num=len(steps))
        for p in parts:
            p.set_shape(known)
        columns.append(parts)
    return [nest.pack_sequence_as(x, list(step)) for x, step in zip(sequence, zip(*columns))]
