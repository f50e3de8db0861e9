"""create_train_op: one operation that takes a step of training and gives the loss; clipping and scaling of gradients."""

from ...framework import convert, ops
from ...ops import clip, control_flow
from ...ops import variables as _variables
from ... import logging

__all__ = ["add_gradients_summaries", "clip_gradient_norms", "clip_gradient_norms_fn", "create_train_op", "multiply_gradients"]

_USE_GLOBAL_STEP = 0


def _values(g):
    return g.values if isinstance(g, ops.IndexedSlices) else g


def add_gradients_summaries(grads_and_vars):
    """Adds summaries of gradients and their norms, and returns them."""
    from ... import summary
    made = []
    for g, v in grads_and_vars:
        if g is None:
            logging.info("Var %s has no gradient", v.op.name)
            continue
        made.append(summary.histogram(v.op.name + "_gradient", _values(g)))
        made.append(summary.scalar(v.op.name + "_gradient_norm", clip.global_norm([_values(g)])))
    return made


def clip_gradient_norms(gradients_to_variables, max_norm):
    """Limits the norm of each gradient of a list of (gradient, variable)."""
    clipped = []
    for g, v in gradients_to_variables:
        if isinstance(g, ops.IndexedSlices):
            g = ops.IndexedSlices(clip.clip_by_norm(g.values, max_norm), g.indices, g.dense_shape)
        elif g is not None:
            g = clip.clip_by_norm(g, max_norm)
        clipped.append((g, v))
    return clipped


def clip_gradient_norms_fn(max_norm):
    """Returns a function that limits the norm of each gradient of a list of (gradient, variable)."""
    return lambda gradients_to_variables: clip_gradient_norms(gradients_to_variables, max_norm)


def multiply_gradients(grads_and_vars, gradient_multipliers):
    """Multiplies gradients by factors given for their variables or the names of these."""
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a dict.")
    out = []
    for g, v in grads_and_vars:
        factor = next((f for k, f in gradient_multipliers.items() if k is v or k == v.op.name), None)
        if factor is not None:
            if g is None:
                raise ValueError("Requested multiple of `None` gradient.")
            factor = convert.convert_to_tensor(factor, g.dtype.base_dtype)
            is_rows = isinstance(g, ops.IndexedSlices)
            g = ops.IndexedSlices(g.values * factor, g.indices, g.dense_shape) if is_rows else g * factor
        out.append((g, v))
    return out


def create_train_op(total_loss, optimizer, global_step=_USE_GLOBAL_STEP, update_ops=None, variables_to_train=None,
                    transform_grads_fn=None, summarize_gradients=False, gate_gradients=1, aggregation_method=None,
                    colocate_gradients_with_ops=False, check_numerics=True):
    """An operation that runs the updates, applies the gradients, and gives the loss."""
    from ... import train
    if global_step is _USE_GLOBAL_STEP:
        global_step = train.get_or_create_global_step()
    updates = list(ops.get_collection(ops.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops)
    if updates:
        with ops.control_dependencies(updates):
            total_loss = control_flow.with_dependencies([control_flow.no_op(name="update_barrier")], total_loss)
    variables_to_train = variables_to_train or _variables.trainable_variables()
    if not variables_to_train:
        raise ValueError("There are no variables to train")
    pairs = optimizer.compute_gradients(total_loss, variables_to_train, gate_gradients=gate_gradients,
                                        aggregation_method=aggregation_method,
                                        colocate_gradients_with_ops=colocate_gradients_with_ops)
    if transform_grads_fn:
        pairs = transform_grads_fn(pairs)
    if summarize_gradients:
        with ops.name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    step = optimizer.apply_gradients(pairs, global_step=global_step)
    with ops.name_scope("train_op"):
        if check_numerics:
            from ...framework.op_defs import raw
            total_loss = raw.check_numerics(total_loss, "LossTensor is inf or nan")
        train_op = control_flow.with_dependencies([step], total_loss)
    keys = ops.get_collection_ref(ops.GraphKeys.TRAIN_OP)
    if not any(train_op is k for k in keys):
        keys.append(train_op)
    return train_op
