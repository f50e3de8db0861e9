"""Optimizers by further rules."""

import contextlib
import functools

from ...framework import convert, ops
from ...framework.op_defs import raw
from ...ops import clip, control_flow, math, state
from ...train.optimizer import Optimizer
from ...train.optimizers import AdamOptimizer, _Rule


class AdaMaxOptimizer(AdamOptimizer):
    """Adam by the largest gradient instead of the mean square."""

    _op = "AdaMax"

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name="AdaMax"):
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _get_beta_accumulators(self):
        return self._get_non_slot_variable("beta1_power", ops.get_default_graph())

    def _create_slots(self, var_list):
        self._create_non_slot_variable(self._beta1, "beta1_power", min(var_list, key=lambda v: v.name))
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _inputs_for(self, var, resource):
        given = _Rule._inputs_for(self, var, resource)
        given["beta1_power"] = math.cast(self._get_beta_accumulators(), var.dtype.base_dtype)
        return given

    def _rows(self, var, values, indices):
        """Only the rows that have a gradient change."""
        t = {k: math.cast(x, var.dtype.base_dtype) for k, x in self._tensors.items()}
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = raw.gather_v2(m, indices, 0) * t["beta1"] + values * (1 - t["beta1"])
        new_v = math.maximum(raw.gather_v2(v, indices, 0) * t["beta2"], math.abs(values))
        power = math.cast(self._get_beta_accumulators(), var.dtype.base_dtype)
        move = -t["lr"] / (1 - power) * (new_m / (new_v + t["epsilon"]))
        return control_flow.group(m.scatter_update(ops.IndexedSlices(new_m, indices)),
                                  v.scatter_update(ops.IndexedSlices(new_v, indices)),
                                  var.scatter_add(ops.IndexedSlices(move, indices)))

    def _finish(self, update_ops, name_scope):
        with ops.control_dependencies(update_ops):
            power = self._get_beta_accumulators()
            with ops.colocate_with(power):
                done = power.assign(power * self._beta1_t, use_locking=self._use_locking)
        return control_flow.group(*update_ops, done, name=name_scope)


class LazyAdamOptimizer(AdamOptimizer):
    """Adam whose moments decay only for rows that have a gradient."""

    def _rows(self, var, values, indices):
        t = {k: math.cast(x, var.dtype.base_dtype) for k, x in self._tensors.items()}
        p1, p2 = (math.cast(p, var.dtype.base_dtype) for p in self._get_beta_accumulators())
        rate = t["lr"] * math.sqrt(1 - p2) / (1 - p1)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = raw.gather_v2(m, indices, 0) * t["beta1"] + values * (1 - t["beta1"])
        new_v = raw.gather_v2(v, indices, 0) * t["beta2"] + math.square(values) * (1 - t["beta2"])
        move = rate * new_m / (math.sqrt(new_v) + t["epsilon"])
        return control_flow.group(m.scatter_update(ops.IndexedSlices(new_m, indices)),
                                  v.scatter_update(ops.IndexedSlices(new_v, indices)),
                                  var.scatter_sub(ops.IndexedSlices(move, indices)))


class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov momentum."""

    def _attrs(self):
        return {"use_nesterov": True}

    def _rows(self, var, values, indices):
        t = {k: math.cast(x, var.dtype.base_dtype) for k, x in self._tensors.items()}
        p1, p2 = (math.cast(p, var.dtype.base_dtype) for p in self._get_beta_accumulators())
        rate = t["lr"] * math.sqrt(1 - p2) / (1 - p1)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        own_m, own_v = values * (1 - t["beta1"]), values * values * (1 - t["beta2"])
        shrunk = [state.assign(m, m * t["beta1"]), state.assign(v, v * t["beta2"])]
        with ops.control_dependencies(shrunk):
            m_t = convert.convert_to_tensor(m.scatter_add(ops.IndexedSlices(own_m, indices)))
            v_t = convert.convert_to_tensor(v.scatter_add(ops.IndexedSlices(own_v, indices)))
        ahead = t["beta1"] * m_t + raw.scatter_nd(raw.expand_dims(indices, 1), own_m, raw.shape(m_t, out_type=indices.dtype))
        moved = state.assign_sub(var, rate * ahead / (math.sqrt(v_t) + t["epsilon"]), use_locking=self._use_locking)
        return control_flow.group(moved, m_t, v_t)


class _Sign(_Rule):
    """By whether the gradient and its moving mean have the same sign."""

    _slot_inputs = (("m", "m"),)

    def _create_slots(self, var_list):
        for v in var_list:
            self._zeros_slot(v, "m", self._name)

    def _prepare(self):
        super()._prepare()
        decay = 1.0 if self._sign_decay_fn is None else self._sign_decay_fn(_global_step())
        self._tensors["sign_decay"] = convert.convert_to_tensor(decay, name="sign_decay")

    def _rows_missing(self):
        raise NotImplementedError("%s takes dense gradients only" % type(self).__name__)

    def _apply_sparse(self, grad, var):
        self._rows_missing()

    def _resource_apply_sparse(self, grad, handle, indices):
        self._rows_missing()


def _global_step():
    from ...train import get_or_create_global_step
    return get_or_create_global_step()


class AddSignOptimizer(_Sign):
    """The AddSign method: steps are larger where the gradient agrees in sign with its moving average."""
    _op = "AddSign"
    _numbers = (("lr", "_lr", "learning_rate"), ("alpha", "_alpha", "alpha"), ("beta", "_beta", "beta"))

    def __init__(self, learning_rate=0.1, alpha=1.0, beta=0.9, sign_decay_fn=None, use_locking=False, name="AddSignOptimizer"):
        super().__init__(use_locking, name)
        self._lr, self._alpha, self._beta, self._sign_decay_fn = learning_rate, alpha, beta, sign_decay_fn


class PowerSignOptimizer(_Sign):
    """The PowerSign method: steps grow by a power where the gradient agrees in sign with its moving average."""
    _op = "PowerSign"
    _numbers = (("lr", "_lr", "learning_rate"), ("logbase", "_logbase", "logbase"), ("beta", "_beta", "beta"))

    def __init__(self, learning_rate=0.1, base=2.718281828459045, beta=0.9, sign_decay_fn=None, use_locking=False,
                 name="PowerSignOptimizer"):
        import math as numbers
        super().__init__(use_locking, name)
        self._lr, self._beta, self._sign_decay_fn = learning_rate, beta, sign_decay_fn
        self._logbase = numbers.log(base)


class VariableClippingOptimizer(Optimizer):
    """Runs another optimizer, then limits the norms of variables along dimensions."""

    def __init__(self, opt, vars_to_clip_dims, max_norm, use_locking=False, colocate_clip_ops_with_vars=False,
                 name="VariableClipping"):
        super().__init__(use_locking, name)
        self._opt, self._vars_to_clip_dims, self._max_norm = opt, dict(vars_to_clip_dims), max_norm
        self._colocate_clip_ops = colocate_clip_ops_with_vars

    @functools.wraps(Optimizer.compute_gradients)
    def compute_gradients(self, *args, **kwargs):
        return self._opt.compute_gradients(*args, **kwargs)

    @functools.wraps(Optimizer.get_slot)
    def get_slot(self, *args, **kwargs):
        return self._opt.get_slot(*args, **kwargs)

    @functools.wraps(Optimizer.get_slot_names)
    def get_slot_names(self, *args, **kwargs):
        return self._opt.get_slot_names(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        grads_and_vars = list(grads_and_vars)
        with ops.name_scope(name, self._name) as scope:
            update = self._opt.apply_gradients(grads_and_vars, global_step=global_step)
            with ops.control_dependencies([update]):
                clipped = [self._clip(v) for _, v in grads_and_vars if v in self._vars_to_clip_dims]
            return control_flow.group(update, *clipped, name=scope)

    def _clip(self, v):
        with ops.colocate_with(v) if self._colocate_clip_ops else contextlib.nullcontext():
            clipped = clip.clip_by_norm(v.read_value(), self._max_norm, self._vars_to_clip_dims[v])
        return v.assign(clipped, use_locking=self._use_locking)
