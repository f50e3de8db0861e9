"""Which operations depend on which inputs of Keras."""

from ...framework import ops


def _sources(op, memo):
    """The ids of the inputs of Keras that an operation depends on; of a loop, those outside of it."""
    stack = [op]
    while stack:
        now = stack[-1]
        if now in memo and memo[now] is not None:
            stack.pop()
            continue
        first = now not in memo
        memo.setdefault(now, None)
        parents = [t.op for t in now.inputs]
        waiting = [p for p in parents if p not in memo] if first else []
        if waiting:
            stack.extend(waiting)
            continue
        found = {id(t) for t in now.outputs if getattr(t, "_keras_input", False)}
        for p in parents:
            found |= memo.get(p) or set()
        memo[now] = found
        stack.pop()
    return memo[op]


def of_inputs(operations, inputs):
    """Those that depend on one of the inputs; for None those that depend on no input at all."""
    memo, out = {}, []
    wanted = None if inputs is None else {id(t) for t in (inputs if isinstance(inputs, (list, tuple)) else [inputs])}
    for x in operations:
        found = _sources(x if isinstance(x, ops.Operation) else x.op, memo)
        if (not found) if wanted is None else (found & wanted):
            out.append(x)
    return out


def for_model(operations, inputs):
    """Those that belong to a model with these inputs: what depends on them, or on none."""
    keep = {id(x) for x in of_inputs(operations, inputs) + of_inputs(operations, None)}
    return [x for x in operations if id(x) in keep]
