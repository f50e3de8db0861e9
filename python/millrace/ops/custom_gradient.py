"""tf.custom_gradient: a function that says itself what its gradient is.

Results and arguments go through one IdentityN whose gradient is the function's: what arrives at the results is turned into
gradients of the arguments there, and none flows back through what computed the results.
"""

import functools
import inspect

from ..framework import convert, nest, ops
from . import array

__all__ = ["custom_gradient", "grad_pass_through", "recompute_grad"]


def custom_gradient(f):
    """@tf.custom_gradient: def f(x): ... return y, grad -- where grad(dy) gives the gradient of each argument."""

    @functools.wraps(f)
    def decorated(*args, **kwargs):
        with _scope(f):
            return _apply(f, args, kwargs)
    return decorated


def grad_pass_through(f):
    """f, with the gradient of the identity."""

    @custom_gradient
    def passing(*args, **kwargs):
        def grad(*dys, **unused):
            variables = unused.get("variables")
            dxs = dys[0] if len(dys) == 1 else dys
            return (dxs, [None] * len(variables)) if variables else dxs
        return f(*args, **kwargs), grad

    return functools.wraps(f)(passing)


def recompute_grad(f):
    """f, but what it computes on the way is computed again for the gradient instead of being kept until then."""

    @custom_gradient
    def recomputed(*args):
        def grad(*dys, variables=None):
            from .gradients import gradients
            inputs = list(args)
            with ops.control_dependencies(dys):
                again = f(*[array.identity(x) for x in inputs])
            found = gradients(nest.flatten(again), inputs + list(variables or []), grad_ys=list(dys))
            dxs = found[:len(inputs)]
            return (dxs, found[len(inputs):]) if variables else dxs
        return f(*args), grad

    return functools.wraps(f)(recomputed)


def _scope(f):
    return ops.name_scope(None, getattr(f, "__name__", "CustomGradient").strip("_<>") or "CustomGradient", [])


def _apply(f, args, kwargs):
    args = nest.map_structure(lambda x: array.identity(convert.convert_to_tensor(x)), list(args))
    returned, grad = f(*args, **kwargs)
    results = [convert.convert_to_tensor(x) for x in nest.flatten(returned)]
    inputs = nest.flatten(args)
    variables = _variables_between(results, inputs)
    takes_variables = "variables" in inspect.signature(grad).parameters
    if variables and not takes_variables and not _takes_any(grad):
        raise TypeError("If using @custom_gradient with a function that uses variables, then grad_fn must accept a 'variables' "
                        "keyword argument.")
    values = [convert.convert_to_tensor(v) for v in variables]

    def gradient(op, *grads):
        grads = grads[:len(results)]
        if not variables:
            dxs, dvs = grad(*grads), []
        else:
            dxs, dvs = grad(*grads, variables=variables)
            if len(dvs) != len(variables):
                raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        dxs = nest.flatten(dxs) if isinstance(dxs, (list, tuple)) else [dxs]
        if len(dxs) != len(inputs):
            raise ValueError("custom_gradient: %d gradients for %d arguments" % (len(dxs), len(inputs)))
        return [None] * len(results) + dxs + list(dvs)

    graph = ops.graph_of(results + inputs)
    name = "CustomGradient-%d" % len(graph._scoped.setdefault("gradient functions", {}))
    graph._scoped["gradient functions"][name] = gradient
    with graph.gradient_override_map({"IdentityN": name}):
        passed = array.identity_n(results + inputs + values)[:len(results)]
    return nest.pack_sequence_as(returned, passed)


def _takes_any(f):
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(f).parameters.values())


def _variables_between(results, inputs):
    """The trainable variables that results hang on."""
    found, seen, todo = [], set(inputs), list(results)
    by_op = {}
    for v in results[0].graph.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES) if results else []:
        by_op[v.handle.op if hasattr(v, "handle") else v.op] = v
    while todo:
        t = todo.pop()
        if t in seen:
            continue
        seen.add(t)
        if t.op in by_op and by_op[t.op] not in found:
            found.append(by_op[t.op])
        todo += t.op.inputs
    return found
