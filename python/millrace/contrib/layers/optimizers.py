"""optimize_loss: the operation that trains, with decay, clipping, noise and summaries by arguments."""

import collections.abc

from ...framework import convert, dtypes, ops
from ...ops import array, clip, control_flow, math, random
from ...ops import variable_scope as vs
from ...ops import variables as _variables

__all__ = ["OPTIMIZER_CLS_NAMES", "OPTIMIZER_SUMMARIES", "adaptive_clipping_fn", "optimize_loss"]

OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]


class _Classes(collections.abc.Mapping):
    """{name: optimizer}, whose module is loaded when one is first asked for."""

    _NAMES = {"Adagrad": "AdagradOptimizer", "Adam": "AdamOptimizer", "Ftrl": "FtrlOptimizer",
              "Momentum": "MomentumOptimizer", "RMSProp": "RMSPropOptimizer", "SGD": "GradientDescentOptimizer"}

    def __getitem__(self, name):
        found = self._NAMES[name]
        from ... import train
        if name == "Momentum":
            return lambda learning_rate: train.MomentumOptimizer(learning_rate, momentum=0.9)
        return getattr(train, found)

    def __iter__(self):
        return iter(self._NAMES)

    def __len__(self):
        return len(self._NAMES)


OPTIMIZER_CLS_NAMES = _Classes()


def _rate(learning_rate):
    if learning_rate is None:
        return None
    if isinstance(learning_rate, ops.Tensor):
        if learning_rate.shape.ndims not in (None, 0):
            raise ValueError("Invalid learning_rate: %s" % learning_rate)
        return learning_rate
    if isinstance(learning_rate, (float, int)):
        if learning_rate < 0.0:
            raise ValueError("Invalid learning_rate %s." % learning_rate)
        from ... import initializers
        return vs.get_variable("learning_rate", [], trainable=False, initializer=initializers.constant(learning_rate))
    raise ValueError("Learning rate should be 0d Tensor or float. Got %s of type %s" % (learning_rate, type(learning_rate)))


def _made(optimizer, rate):
    from ...train.optimizer import Optimizer
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZER_CLS_NAMES:
            raise ValueError("Optimizer name should be one of [%s], you provided %s." %
                             (", ".join(OPTIMIZER_CLS_NAMES), optimizer))
        return OPTIMIZER_CLS_NAMES[optimizer](learning_rate=rate)
    if isinstance(optimizer, Optimizer):
        return optimizer
    if isinstance(optimizer, type) and issubclass(optimizer, Optimizer):
        return optimizer(learning_rate=rate)
    if callable(optimizer):
        made = optimizer(rate) if rate is not None else optimizer()
        if not isinstance(made, Optimizer):
            raise ValueError("The function of optimizer should return an optimizer, not %s" % made)
        return made
    raise ValueError("Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or "
                     "function with one argument. Got %s." % optimizer)


def optimize_loss(loss, global_step, learning_rate, optimizer, gradient_noise_scale=None, gradient_multipliers=None,
                  clip_gradients=None, learning_rate_decay_fn=None, update_ops=None, variables=None, name=None, summaries=None,
                  colocate_gradients_with_ops=False, increment_global_step=True):
    """An operation that makes one step and gives the loss."""
    from ... import summary, train
    loss = convert.convert_to_tensor(loss)
    if loss.shape.ndims not in (None, 0):
        raise ValueError("loss must be a scalar: %s" % loss)
    global_step = train.get_global_step() if global_step is None else global_step
    wanted = ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else summaries
    for s in wanted:
        if s not in OPTIMIZER_SUMMARIES:
            raise ValueError("Summaries should be one of [%s], you provided %s." % (", ".join(OPTIMIZER_SUMMARIES), s))
    with vs.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        updates = list(ops.get_collection(ops.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops)
        if updates:
            loss = control_flow.with_dependencies(updates, loss)
        rate = _rate(learning_rate)
        if rate is not None and learning_rate_decay_fn is not None:
            if global_step is None:
                raise ValueError("global_step is required for learning_rate_decay_fn.")
            rate = learning_rate_decay_fn(rate, global_step)
        if rate is not None and "learning_rate" in wanted:
            summary.scalar("learning_rate", rate)
        opt = _made(optimizer, rate)
        pairs = opt.compute_gradients(loss, variables if variables is not None else _variables.trainable_variables(),
                                      colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gradient_noise_scale is not None:
            pairs = _noisy(pairs, gradient_noise_scale)
        if gradient_multipliers is not None:
            pairs = _multiplied(pairs, gradient_multipliers)
            if not pairs:
                raise ValueError("Empty list of (gradient, var) pairs encountered.")
        wants_norm = "global_gradient_norm" in wanted or "gradient_norm" in wanted
        if wants_norm:
            summary.scalar("global_norm/gradient_norm", clip.global_norm([g for g, _ in pairs]))
        pairs = _clipped(pairs, clip_gradients)
        if "loss" in wanted:
            summary.scalar("loss", loss)
        _summarize_gradients(pairs, wanted, summary)
        if wants_norm and clip_gradients is not None:
            summary.scalar("global_norm/clipped_gradient_norm", clip.global_norm([g for g, _ in pairs]))
        step = opt.apply_gradients(pairs, global_step=global_step if increment_global_step else None, name="train")
        return control_flow.with_dependencies([step], loss)


def _clipped(pairs, how):
    if how is None:
        return pairs
    if isinstance(how, (float, int)):
        gradients, variables = zip(*pairs)
        gradients, _ = clip.clip_by_global_norm(gradients, float(how))
        return list(zip(gradients, variables))
    if callable(how):
        return how(pairs)
    raise ValueError("Unknown type %s for clip_gradients" % type(how))


def _summarize_gradients(pairs, wanted, summary):
    for g, v in pairs:
        values = g.values if isinstance(g, ops.IndexedSlices) else g
        if values is None:
            continue
        name = v.name.replace(":", "_")
        if "gradients" in wanted:
            summary.histogram("gradients/%s" % name, values)
        if "gradient_norm" in wanted:
            summary.scalar("gradient_norm/%s" % name, clip.global_norm([values]))


def _noisy(pairs, scale):
    out = []
    for g, v in pairs:
        if g is not None:
            shape = g.dense_shape if isinstance(g, ops.IndexedSlices) else g.shape
            g = convert.convert_to_tensor(g) + random.truncated_normal(shape) * scale
        out.append((g, v))
    return out


def _multiplied(pairs, multipliers):
    """Gradients times the factor of their variable, given for it or its name."""
    out = []
    for g, v in pairs:
        factor = next((f for k, f in multipliers.items() if k is v or k == v.name), None)
        if g is not None and factor is not None:
            factor = convert.constant(factor, dtypes.float32)
            is_rows = isinstance(g, ops.IndexedSlices)
            g = ops.IndexedSlices(g.values * factor, g.indices, g.dense_shape) if is_rows else g * factor
        out.append((g, v))
    return out


def adaptive_clipping_fn(std_factor=2.0, decay=0.95, static_max_norm=None, global_step=None, report_summary=False, epsilon=1e-8,
                         name=None):
    """Clips at a norm that is that many standard deviations above the usual one."""
    def clipped(pairs):
        gradients, variables = zip(*pairs)
        norm = clip.global_norm(gradients)
        limit = _usual_norm(norm, std_factor, decay, global_step, epsilon, name)
        if report_summary:
            from ... import summary
            summary.scalar("global_norm/adaptive_max_gradient_norm", limit)
        factor = array.where(norm < limit, array.ones_like(norm), limit / norm)
        if static_max_norm is not None:
            factor = math.minimum(static_max_norm / norm, factor)
        out = []
        for g in gradients:
            if isinstance(g, ops.IndexedSlices):
                g = ops.IndexedSlices(g.values * factor, g.indices, g.dense_shape)
            out.append(None if g is None else g if isinstance(g, ops.IndexedSlices) else g * factor)
        return list(zip(out, variables))
    return clipped


def _usual_norm(norm, std_factor, decay, global_step, epsilon, name):
    from ... import initializers
    from ...train import moving_averages
    with vs.variable_scope(name, "AdaptiveMaxNorm", [norm]):
        log_norm = math.log(norm + epsilon)

        def average(called, value):
            v = vs.get_variable(called, shape=value.shape, dtype=value.dtype, initializer=initializers.zeros(), trainable=False)
            if global_step is not None:
                n = math.to_float(global_step)
                rate = math.minimum(decay, n / (n + 1.))
            else:
                rate = decay
            return moving_averages.assign_moving_average(v, value, rate)

        mean = average("mean", log_norm)
        squares = average("sq_mean", math.square(log_norm))
        deviation = math.sqrt(math.maximum(epsilon, squares - math.square(mean)))
        return math.exp(mean + std_factor * deviation)
