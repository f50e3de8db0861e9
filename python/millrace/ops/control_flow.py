"""Conditionals, loops, and operations that only order others: tf.cond, tf.case, tf.while_loop, tf.group, tf.tuple.

Conditionals and loops are built of Switch, Merge, Enter, Exit and NextIteration (ops/contexts.py has what is made within them).
TensorArrays pass through them as their flows; SparseTensors and IndexedSlices as their parts.
"""

import collections

from ..framework import convert, dtypes, nest, op_defs, ops, shapes, sparse
from . import contexts

__all__ = ["Assert", "case", "cond", "group", "no_op", "switch_case", "tuple", "while_loop"]

_tuple = tuple


# ---- order ----

def no_op(name=None):
    """An operation that does nothing; others can be made to come before or after it."""
    return ops.get_default_graph()._add("NoOp", name or "NoOp", [], [])


def _as_op(x):
    if hasattr(x, "_as_graph_element") and not hasattr(x, "handle"):  # what a resource variable waits for is its own operation
        x = x._as_graph_element()
    op = x if isinstance(x, ops.Operation) else getattr(x, "op", None)
    if not isinstance(op, ops.Operation):
        raise TypeError("Expected tf.Tensor or tf.Operation expected in `group`, got %s" % type(x).__name__)
    return op


def group(*inputs, **kwargs):
    """An operation that is done when all inputs are; one operation a device waits for what is there."""
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError("Unknown keyword arguments: " + ", ".join(kwargs))
    found = [x for x in nest.flatten(inputs, expand_composites=True)]
    for x in found:
        if x is None or not (isinstance(x, ops.Operation) or hasattr(x, "op") or hasattr(x, "_as_graph_element")):
            raise TypeError("Expected tf.Tensor or tf.Operation expected in `group`, not %s" % (x,))
    members = [_as_op(x) for x in found]
    by_device = collections.OrderedDict()
    for op in members:
        by_device.setdefault(op.device, []).append(op)
    with ops.name_scope(name, "group_deps", members) as scope:
        graph = ops.get_default_graph()
        if len(by_device) <= 1:
            return _after(graph, members, scope, next(iter(by_device), None))
        waiting = [_after(graph, by_device[d], "NoOp", d) for d in sorted(by_device)]
        with graph.control_dependencies(waiting):
            return no_op(name=scope)


def _after(graph, members, name, device):
    with graph.control_dependencies(members):
        if not device:
            return no_op(name=name)
        with graph.device(device):
            return no_op(name=name)


def with_dependencies(dependencies, output_tensor, name=None):
    """The tensor, once the dependencies are done."""
    with ops.name_scope(name, "control_dependency", list(dependencies) + [output_tensor]) as scope:
        with ops.colocate_with(output_tensor), ops.control_dependencies(dependencies):
            output_tensor = ops.convert_to_tensor_or_indexed_slices(output_tensor)
            if isinstance(output_tensor, ops.IndexedSlices):
                values = convert.internal_convert_to_tensor(output_tensor.values, as_ref=True)
                return ops.IndexedSlices(contexts.identity_of(values, scope), output_tensor.indices, output_tensor.dense_shape)
            return contexts.identity_of(output_tensor, scope)


def tuple(tensors, name=None, control_inputs=None):  # noqa: A001 -- TensorFlow's name
    """The tensors, each there only when all are; None stays None."""
    with ops.name_scope(name, "tuple", list(tensors)) as scope:
        gating = [_as_op(t) for t in tensors if t is not None]
        gating += [_as_op(c) for c in control_inputs or []]
        if not gating:
            raise ValueError("Must have at least one Tensor or Operation.")
        unique = sorted(set(gating), key=lambda op: op.name)
        gate = group(*unique)
        return [None if t is None else with_dependencies([gate], t) for t in tensors]


# ---- conditionals ----

def switch(data, pred, dtype=None, name=None):
    """(false side, true side): the value goes to one of them."""
    with ops.name_scope(name, "Switch", [data, pred]) as scope:
        data = ops.convert_to_tensor_or_indexed_slices(data, dtype)
        pred = convert.convert_to_tensor(pred, name="pred")
        if isinstance(data, ops.IndexedSlices):
            sides = [contexts.switch_of(part, pred) for part in data._composite_parts()[0]]
            return _tuple(ops.IndexedSlices(*[s[i] for s in sides]) for i in (0, 1))
        return _tuple(contexts.add_op("Switch", scope, [data, pred], [("T", "t", int(data.dtype.base_dtype))]).outputs)


def merge(inputs, name=None):
    """(the input that is there, its number)"""
    if any(x is None for x in inputs):
        raise ValueError("At least one of the merge inputs is None: %s" % (inputs,))
    with ops.name_scope(name, "Merge", inputs) as scope:
        inputs = [ops.convert_to_tensor_or_indexed_slices(x) for x in inputs]
        result = collections.namedtuple("Merge", ["output", "value_index"])
        if not any(isinstance(x, ops.IndexedSlices) for x in inputs):
            return result(*contexts.merge_of(inputs, scope))
        parts = [contexts.merge_of(p) for p in zip(*[x._composite_parts()[0] for x in inputs])]
        return result(ops.IndexedSlices(*[p[0] for p in parts]), parts[0][1])


def _flow(x):
    return x.flow if hasattr(x, "_with_flow") else x


def _with_flows(originals, values):
    """Arrays in place of the flows that stood for them."""
    return [x._with_flow(v) if hasattr(x, "_with_flow") else v for x, v in zip(originals, values)]


def _convert(x):
    if nest.is_composite(x):
        return x
    return convert.convert_to_tensor(_flow(x))


def _new_summaries_first(before, result):
    """What a branch or body returns comes after the summaries of the old kind that were made in it."""
    added = ops.get_collection(ops.GraphKeys._SUMMARY_COLLECTION)[len(before):]
    if not added:
        return result
    with ops.control_dependencies(added):
        return nest.map_structure(lambda x: x if isinstance(x, ops.Operation) or hasattr(x, "_with_flow")
                                  else contexts.identity_of(convert.convert_to_tensor(x)), result)


def _branch(context, fn, what):
    """What a branch returns, and the tensors of it that are to be merged."""
    with context:
        before = ops.get_collection(ops.GraphKeys._SUMMARY_COLLECTION)
        returned = _new_summaries_first(before, fn())
        if returned is None:
            raise ValueError("%s must have a return value." % what)
        out = []
        for x in nest.flatten(returned):
            if isinstance(x, ops.Operation):  # replaced by the pivot
                out.append(with_dependencies([x], context.pivot))
                continue
            for t in nest.flatten(_convert(x), expand_composites=True):
                out.append(context.add_value(t))
    return returned, out


def _unpacked(x):
    return x[0] if isinstance(x, (list, _tuple)) and len(x) == 1 and not hasattr(x, "_fields") else x


def cond(pred, true_fn=None, false_fn=None, strict=False, name=None, fn1=None, fn2=None):
    """Returns the result of true_fn if pred is true, else that of false_fn; only the chosen operations run."""
    true_fn = _renamed(true_fn, fn1, "fn1", "true_fn")
    false_fn = _renamed(false_fn, fn2, "fn2", "false_fn")
    if not callable(true_fn):
        raise TypeError("true_fn must be callable.")
    if not callable(false_fn):
        raise TypeError("false_fn must be callable.")
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool")
    with ops.name_scope(name, "cond", [pred]):
        pred = convert.convert_to_tensor(pred, dtypes.bool_, name="pred")
        sides = contexts.add_op("Switch", "Switch", [pred, pred], [("T", "t", int(dtypes.bool_))]).outputs
        pivots = (contexts.identity_of(sides[1], "switch_t"), contexts.identity_of(sides[0], "switch_f"))
        pred = contexts.identity_of(pred, "pred_id")
        for t in _tuple(sides) + pivots + (pred,):
            t.graph.prevent_fetching(t.op)
        taken = contexts.CondContext(pred, pivots[0], 1)
        true_result, true_flat = _branch(taken, true_fn, "true_fn")
        other = contexts.CondContext(pred, pivots[1], 0)
        false_result, false_flat = _branch(other, false_fn, "false_fn")
        if not strict:
            true_result, false_result = _unpacked(true_result), _unpacked(false_result)
        _same_indices(taken, true_result, true_flat, other, false_result, false_flat)
        merged = _merged(true_result, true_flat, false_result, false_flat)
        if taken.outer_context is None:
            ops.add_to_collection(ops.GraphKeys.COND_CONTEXT, taken)
            ops.add_to_collection(ops.GraphKeys.COND_CONTEXT, other)
        return merged if strict else _unpacked(merged)


def _renamed(value, old, old_name, new_name):
    if old is None:
        return value
    if value is not None:
        raise TypeError("cond(): %s and %s are the same argument" % (old_name, new_name))
    return old


def _same_indices(taken, true_result, true_flat, other, false_result, false_flat):
    """Rows that are numbered by int32 in one branch and by int64 in the other get int64."""
    sides = ((taken, true_result, true_flat, false_flat), (other, false_result, false_flat, true_flat))
    for context, result, mine, theirs in sides:
        at = 0
        for x in nest.flatten(result):
            n = len(x._composite_parts()[0]) if nest.is_composite(x) else 1
            if isinstance(x, ops.IndexedSlices) and at + 1 < len(theirs):
                for i in range(at + 1, at + n):
                    if mine[i].dtype == dtypes.int32 and i < len(theirs) and theirs[i].dtype == dtypes.int64:
                        with context:
                            mine[i] = op_defs.call("Cast", "Cast", x=mine[i], DstT=dtypes.int64)
            at += n


def _merged(true_result, true_flat, false_result, false_flat):
    try:
        nest.assert_same_structure(true_result, false_result, expand_composites=True)
    except (TypeError, ValueError) as e:
        raise type(e)("Incompatible return types of true_fn and false_fn: %s" % e) from None
    if not true_flat:
        raise ValueError("true_fn and false_fn must return at least one result.")
    for t, f in zip(true_flat, false_flat):
        if t.dtype.base_dtype != f.dtype.base_dtype:
            raise ValueError("Outputs of true_fn and false_fn must have the same type: %s, %s" % (t.dtype.name, f.dtype.name))
    merges = [contexts.merge_of(pair)[0] for pair in zip(false_flat, true_flat)]
    originals = nest.flatten(true_result, expand_composites=True)
    return nest.pack_sequence_as(true_result, _with_flows(originals, merges), expand_composites=True)


def smart_cond(pred, true_fn=None, false_fn=None, name=None):
    """cond, but without one where pred is known already."""
    if not callable(true_fn):
        raise TypeError("`true_fn` must be callable.")
    if not callable(false_fn):
        raise TypeError("`false_fn` must be callable.")
    value = smart_constant_value(pred)
    if value is None:
        return cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if value else false_fn()


def smart_constant_value(pred):
    """True, False, or None when it is not known before a run."""
    if isinstance(pred, (bool, int)) and pred in (0, 1):
        return bool(pred)
    if isinstance(pred, ops.Tensor):
        value = convert.constant_value(pred)
        return None if value is None else bool(value)
    if hasattr(pred, "_as_graph_element") or hasattr(pred, "_dense_var_to_tensor"):
        return None
    if hasattr(pred, "dtype") and getattr(pred, "shape", None) == ():
        return bool(pred)
    raise TypeError("`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: %s" % (pred,))


def case(pred_fn_pairs, default=None, exclusive=False, strict=False, name="case"):
    """The result of the first function whose predicate is true, else of default."""
    pairs = _case_pairs(pred_fn_pairs)
    if default is not None and not callable(default):
        raise TypeError("default must be callable.")
    with ops.name_scope(name, "case", [p for p, _ in pairs]):
        preds = [convert.convert_to_tensor(p) for p, _ in pairs]
        checks = []
        packed = None
        if exclusive or default is None:
            packed = op_defs.call("Pack", "preds_c" if exclusive else "stack", values=preds)
        if exclusive:
            checks.append(_at_most_one(packed))
        if default is None:  # the last one is taken when no other is; that it is meant to be is checked
            any_true = op_defs.call("Any", "Any", input=packed, reduction_indices=[0])
            checks.append(Assert(any_true, ["Input error: None of conditions evaluated as True. Conditions: (%s), Values:" %
                                            ", ".join(p.name for p in preds), packed], summarize=len(preds),
                                 name="AssertGuard"))
        last = default if default is not None else pairs[-1][1]
        chosen = last
        rest = list(zip(preds, [f for _, f in pairs]))
        for pred, fn in reversed(rest if default is not None else rest[:-1]):
            chosen = _choice(pred, fn, chosen, strict)
        with ops.control_dependencies(checks):
            if default is None and len(pairs) == 1:
                return nest.map_structure(lambda x: x if isinstance(x, ops.Operation) else
                                          contexts.identity_of(convert.convert_to_tensor(x)), chosen())
            return chosen()


def _choice(pred, fn, otherwise, strict):
    return lambda: cond(pred, fn, otherwise, strict=strict)


def _at_most_one(packed):
    numbers = op_defs.call("Cast", "Cast", x=packed, DstT=dtypes.int32)
    count = op_defs.call("Sum", "count_true", input=numbers, reduction_indices=[0])
    return Assert(op_defs.call("LessEqual", "at_most_one", x=count, y=1),
                  ["Input error: exclusive=True: more than 1 condition evaluated as True. Values:", packed], name="exclusive")


def _case_pairs(given):
    if isinstance(given, collections.abc.Mapping):
        given = list(given.items()) if isinstance(given, collections.OrderedDict) else \
            sorted(given.items(), key=lambda item: item[0].name)
    if not isinstance(given, (list, _tuple)):
        raise TypeError("pred_fn_pairs must be a list, tuple, or dict")
    for pair in given:
        if not isinstance(pair, _tuple) or len(pair) != 2:
            raise TypeError("Each entry in pred_fn_pairs must be a 2-tuple. Received %s." % (pair,))
        if isinstance(pair[0], ops.Tensor) and pair[0].dtype != dtypes.bool_:
            raise TypeError("pred must be Tensor of type bool: %s" % pair[0].name)
        if not callable(pair[1]):
            raise TypeError("fn for pred %s must be callable." % (pair[0],))
    if not given:
        raise ValueError("pred_fn_pairs must not be empty")
    return given


def switch_case(branch_index, branch_fns, default=None, name="switch_case"):
    """The result of the function of that number; of default, else the last, for other numbers."""
    if isinstance(branch_index, bool) or not (isinstance(branch_index, (int, ops.Tensor)) or hasattr(branch_index, "dtype")):
        raise TypeError("branch_index must be a Tensor, got %s" % type(branch_index))
    numbered = _numbered_branches(branch_fns)
    with ops.name_scope(name):
        index = convert.convert_to_tensor(branch_index, name="branch_index")
        if not index.dtype.base_dtype.is_integer:
            raise TypeError("branch_index must be an integer, got %s" % index.dtype.name)
        last = default if default is not None else numbered[-1][1]
        pairs = [(op_defs.call("Equal", "Equal", x=index, y=i), f) for i, f in numbered]
        return case(pairs, default=last, name="indexed_case")


def _numbered_branches(branch_fns):
    if isinstance(branch_fns, collections.abc.Mapping):
        branch_fns = list(branch_fns.items())
    if not isinstance(branch_fns, (list, _tuple)) or not branch_fns:
        raise TypeError("branch_fns must be a list, tuple, or dict that is not empty")
    if any(isinstance(f, _tuple) for f in branch_fns):
        for pair in branch_fns:
            if not isinstance(pair, _tuple) or len(pair) != 2 or not isinstance(pair[0], int):
                raise TypeError("Each entry in branch_fns must be a pair of an int and a callable, not %s" % (pair,))
        numbered = sorted(branch_fns, key=lambda pair: pair[0])
    else:
        numbered = list(enumerate(branch_fns))
    for i, f in numbered:
        if not callable(f):
            raise TypeError("fn for index %s must be callable." % i)
    if [i for i, _ in numbered] != list(range(len(numbered))):
        raise ValueError("branch indices must form contiguous range of [0 to %d) but found {%s}" %
                         (len(numbered), ",".join(str(i) for i, _ in numbered)))
    return numbered


# ---- loops ----

def while_loop(cond, body, loop_vars, shape_invariants=None, parallel_iterations=10, back_prop=True, swap_memory=False,
               name=None, maximum_iterations=None, return_same_structure=False):
    """Repeats loop_vars = body(*loop_vars) while cond(*loop_vars) is true; what they are then."""
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    if isinstance(loop_vars, ops.Tensor):
        loop_vars = [loop_vars]
    if not loop_vars:
        raise ValueError("No loop variables provided")
    if parallel_iterations < 1:
        raise TypeError("parallel_iterations must be a positive integer.")
    with ops.name_scope(name, "while", nest.flatten(loop_vars)):
        if maximum_iterations is None:
            return _build_loop(cond, body, loop_vars, shape_invariants, parallel_iterations, back_prop, swap_memory,
                               None, return_same_structure)
        return _counted_loop(cond, body, loop_vars, shape_invariants, parallel_iterations, back_prop, swap_memory,
                             maximum_iterations, return_same_structure)


def _counted_loop(cond, body, loop_vars, shape_invariants, parallel, back_prop, swap, maximum, same_structure):
    """A loop with one variable more that counts its iterations."""
    maximum = convert.convert_to_tensor(maximum, name="maximum_iterations")
    if maximum.shape.ndims != 0:
        raise ValueError("maximum_iterations must be a scalar, saw shape: %s" % maximum.shape)
    counter = convert.constant(0, maximum.dtype, name="iteration_counter")

    def goes_on(i, values):
        return op_defs.call("LogicalAnd", "LogicalAnd", x=op_defs.call("Less", "Less", x=i, y=maximum), y=cond(*values))

    def step(i, values):
        result = body(*values)
        if not nest.is_sequence_or_composite(result):
            result = [result]
        kind = values if isinstance(values, (list, _tuple)) and not hasattr(values, "_fields") else None
        if kind is not None and isinstance(result, (list, _tuple)) and not hasattr(result, "_fields"):
            result = type(kind)(result)
        return op_defs.call("AddV2", "add", x=i, y=1), result

    if shape_invariants is not None:
        shape_invariants = (shapes.TensorShape([]), shape_invariants)
    result = _build_loop(goes_on, step, (counter, loop_vars), shape_invariants, parallel, back_prop, swap, maximum, True)[1]
    return result[0] if len(loop_vars) == 1 and not same_structure else result


def _build_loop(cond, body, loop_vars, shape_invariants, parallel, back_prop, swap, maximum, same_structure):
    context = contexts.WhileContext(maximum, parallel, back_prop, swap)
    if context.outer_context is None:
        ops.add_to_collection(ops.GraphKeys.WHILE_CONTEXT, context)
    leaves = nest.flatten(loop_vars)
    converted = [_convert(x) for x in leaves]
    if shape_invariants is None and any(isinstance(x, sparse.SparseTensor) for x in converted):
        # The number of a sparse tensor's elements may change; of others the shape may not.
        shape_invariants = nest.pack_sequence_as(loop_vars, [x.dense_shape.shape if isinstance(x, sparse.SparseTensor)
                                                             else getattr(x, "values", x).shape for x in converted])
    invariants = None if shape_invariants is None else _flat_invariants(loop_vars, converted, shape_invariants)
    starts = nest.flatten(converted, expand_composites=True)
    with context:
        returned, exits = _Loop(context, loop_vars, leaves, converted).build(cond, body, starts, invariants)
    if not back_prop:
        context._graph._scoped.setdefault("loops without gradients", []).extend(exits)
    packed = nest.pack_sequence_as(returned, _with_flows(nest.flatten(returned, expand_composites=True), exits),
                                   expand_composites=True)
    return packed[0] if not same_structure and len(exits) == 1 else packed


def _flat_invariants(loop_vars, converted, given):
    """A shape for each tensor of the loop variables."""
    nest.assert_same_structure(loop_vars, given, check_types=False)
    out = []
    for value, shape in zip(converted, nest.flatten(given)):
        shape = shapes.as_shape(shape)
        if not nest.is_composite(value):
            out.append(shape)
        elif isinstance(value, ops.IndexedSlices):  # the shape is that of the values
            out += [shape, shapes.TensorShape([shape.dims[0] if shape.ndims else None])]
            if value.dense_shape is not None:
                out.append(shapes.TensorShape([shape.ndims]))
        else:  # the shape is that of the dense_shape
            rank = shape.dims[0].value if shape.ndims == 1 else None
            out += [shapes.TensorShape([None, rank]), shapes.TensorShape([None]), shapes.TensorShape([rank])]
    return out


class _Loop:
    """A loop being built: its variables, from the way in to the way out."""

    def __init__(self, context, loop_vars, leaves, converted):
        self._context, self._structure = context, loop_vars
        self._leaves = [x if hasattr(x, "_with_flow") else c for x, c in zip(leaves, converted)]

    def _pack(self, tensors):
        """Tensors in the form of the loop variables."""
        at, out = 0, []
        for leaf in self._leaves:
            n = len(nest.flatten(leaf, expand_composites=True))
            parts = tensors[at:at + n]
            at += n
            if hasattr(leaf, "_with_flow"):
                out.append(leaf._with_flow(parts[0]))
            else:
                out.append(nest.pack_sequence_as(leaf, parts, expand_composites=True))
        return nest.pack_sequence_as(self._structure, out)

    def _call(self, fn, tensors):
        packed = self._pack(tensors)
        return fn(*packed) if not isinstance(packed, collections.abc.Mapping) else fn(packed), packed

    def build(self, cond, body, starts, invariants):
        context = self._context
        enters = [context.enter_variable(x) for x in starts]
        self._set_shapes(starts, enters, invariants)
        merges = [contexts.merge_of([x, x])[0] for x in enters]
        context.pivot_for_pred = merges[0]
        verdict, _ = self._call(cond, merges)
        verdict = convert.convert_to_tensor(_unpacked(verdict))
        context.pivot = contexts.add_op("LoopCond", "LoopCond", [verdict]).outputs[0]
        splits = [contexts.switch_of(x, context.pivot) for x in merges]
        values = [contexts.identity_of(s[1]) for s in splits]
        context.pivot_for_body = values[0]
        returned, flat = self._body(body, values)
        self._close(merges, flat, enters)
        exits = [contexts.exit_of(s[0]) for s in splits]
        context.loop_exits = exits
        if context.outer_context is not None:
            context.outer_context.knows(exits)
        return returned, exits

    def _set_shapes(self, starts, enters, invariants):
        for start, enter, shape in zip(starts, enters, invariants or [None] * len(starts)):
            if invariants is None:
                shape = start.shape
            elif not _is_less_specific(shape, start.shape):
                raise ValueError("The shape invariant specified for %s is not compatible with the initial shape of the loop "
                                 "variable. It enters the loop with shape %s, but the specified shape invariant is %s." %
                                 (start.name, start.shape, shape))
            enter.set_shape(shape)

    def _body(self, body, values):
        before = ops.get_collection(ops.GraphKeys._SUMMARY_COLLECTION)
        returned, given = self._call(body, values)
        if not nest.is_sequence_or_composite(returned):
            returned = [returned]
        returned = _new_summaries_first(before, returned)
        if isinstance(given, (list, _tuple)) and not hasattr(given, "_fields"):
            given, compared = list(given), list(returned) if nest.is_sequence(returned) else returned
        else:
            compared = returned
        nest.assert_same_structure(given, compared, expand_composites=True)
        flat = nest.flatten([_convert(x) for x in nest.flatten(returned)], expand_composites=True)
        if len(flat) != len(values):
            raise ValueError("Number of inputs and outputs of body must match loop_vars: %d, %d" % (len(values), len(flat)))
        return returned, flat

    def _close(self, merges, values, enters):
        """The way back for each variable, which must not change its type or what is known of its shape."""
        context = self._context
        for merge, value, enter in zip(merges, values, enters):
            if value.dtype.base_dtype != merge.dtype.base_dtype:
                raise TypeError("The type of loop variable '%s' changes in the loop: from %s to %s." %
                                (enter.op.inputs[0].name, merge.dtype.base_dtype.name, value.dtype.base_dtype.name))
            with context._graph.colocate_with(merge.op, ignore_existing=True):
                back = contexts.next_iteration_of(value)
            if not _is_less_specific(merge.shape, back.shape):
                raise ValueError("Input tensor '%s' enters the loop with shape %s, but has shape %s after one iteration. To "
                                 "allow the shape to vary across iterations, use the `shape_invariants` argument of "
                                 "tf.while_loop to specify a less-specific shape." %
                                 (enter.op.inputs[0].name, merge.shape, back.shape))
            merge.op._update_input(1, back)


def _is_less_specific(general, shape):
    """Whether all that is known by `general` is known of `shape` too."""
    if general.ndims is None:
        return True
    if shape.ndims != general.ndims:
        return False
    return all(g is None or g == s for g, s in zip(general.as_list(), shape.as_list()))


# ---- checks ----

def Assert(condition, data, summarize=None, name=None):  # noqa: N802
    """An operation that fails when the condition is false, with the data in its message."""
    with ops.name_scope(name, "Assert", [condition] + list(data)):
        condition = convert.convert_to_tensor(condition, name="Condition")
        data = [convert.convert_to_tensor(x, name="data_%d" % i) for i, x in enumerate(data)]
        summarize = 3 if summarize is None else summarize
        if all(x.dtype in (dtypes.string, dtypes.int32) for x in data):  # nothing that is costly to bring here
            return _assert_op(condition, data, summarize)
        condition = contexts.identity_of(condition) if condition.dtype._is_ref_dtype else condition
        guarded = cond(condition, no_op, lambda: _assert_op(condition, data, summarize), name="AssertGuard")
        return guarded.op


def _assert_op(condition, data, summarize):
    return op_defs.call("Assert", "Assert", condition=condition, data=data, summarize=summarize)
