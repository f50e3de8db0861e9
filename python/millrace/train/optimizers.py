"""The optimizers of tf.train.

Most are a rule that the library has as an op in four forms: for a reference or a resource, by a dense gradient or by rows.
Such a class (_Rule) says the name of the op, which slots go to which of its inputs, and which numbers; the four forms are the
same call.
"""

from .. import initializers
from ..framework import convert, dtypes, ops
from ..framework.op_defs import call, raw
from ..ops import array, control_flow, math, state
from .optimizer import Optimizer

__all__ = ["AdadeltaOptimizer", "AdagradDAOptimizer", "AdagradOptimizer", "AdamOptimizer", "FtrlOptimizer",
           "GradientDescentOptimizer", "MomentumOptimizer", "ProximalAdagradOptimizer", "ProximalGradientDescentOptimizer",
           "RMSPropOptimizer"]


class _Rule(Optimizer):
    """An optimizer that is an op."""

    _op = None                # ApplyX, SparseApplyX, ResourceApplyX, ResourceSparseApplyX
    _slot_inputs = ()         # (input of the op, name of the slot)
    _numbers = ()             # (input of the op, attribute with the number, name of its tensor)
    _dense_gradient = "grad"  # the input for a dense gradient

    def _prepare(self):
        self._tensors = {}
        for key, attribute, name in self._numbers:
            value = self._call_if_callable(getattr(self, attribute))
            self._tensors[key] = convert.convert_to_tensor(value, name=name)
            setattr(self, attribute + self._tensor_suffix, self._tensors[key])

    _tensor_suffix = "_tensor"

    def _attrs(self):
        return {}

    def _inputs_for(self, var, resource):
        reach = (lambda v: v.handle) if resource else (lambda v: v)
        given = {key: math.cast(t, var.dtype.base_dtype) for key, t in self._tensors.items()}
        given["var"] = reach(var)
        given.update((key, reach(self.get_slot(var, slot))) for key, slot in self._slot_inputs)
        return dict(given, use_locking=self._use_locking, **self._attrs())

    def _dense(self, prefix, grad, var, resource):
        given = self._inputs_for(var, resource)
        given[self._dense_gradient] = grad if resource else math.cast(grad, var.dtype.base_dtype)
        return call(prefix + self._op, None, **given)

    def _apply_dense(self, grad, var):
        return self._dense("Apply", grad, var, False).op

    def _resource_apply_dense(self, grad, handle):
        return self._dense("ResourceApply", math.cast(grad, handle.dtype.base_dtype), handle, True)

    def _apply_sparse(self, grad, var):
        return call("SparseApply" + self._op, None, grad=grad.values, indices=grad.indices, **self._inputs_for(var, False)).op

    def _resource_apply_sparse(self, grad, handle, indices):
        return call("ResourceSparseApply" + self._op, None, grad=grad, indices=indices, **self._inputs_for(handle, True))


class GradientDescentOptimizer(_Rule):
    """var -= learning_rate * gradient"""

    _op, _dense_gradient = "GradientDescent", "delta"
    _numbers = (("alpha", "_learning_rate", "learning_rate"),)

    def __init__(self, learning_rate, use_locking=False, name="GradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    # Rows that come more than once are as well subtracted one by one.

    def _apply_sparse_duplicate_indices(self, grad, var):
        change = ops.IndexedSlices(grad.values * math.cast(self._learning_rate_tensor, var.dtype.base_dtype), grad.indices,
                                   grad.dense_shape)
        return var.scatter_sub(change, use_locking=self._use_locking)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        rate = math.cast(self._learning_rate_tensor, grad.dtype.base_dtype)
        return raw.resource_scatter_add(handle.handle, indices, -grad * rate)


class MomentumOptimizer(_Rule):
    """accumulation = momentum * accumulation + gradient; var -= learning_rate * accumulation"""

    _op, _slot_inputs = "Momentum", (("accum", "momentum"),)
    _numbers = (("lr", "_learning_rate", "learning_rate"), ("momentum", "_momentum", "momentum"))

    def __init__(self, learning_rate, momentum, use_locking=False, name="Momentum", use_nesterov=False):
        super().__init__(use_locking, name)
        self._learning_rate, self._momentum, self._use_nesterov = learning_rate, momentum, use_nesterov

    def _create_slots(self, var_list):
        for v in var_list:
            self._zeros_slot(v, "momentum", self._name)

    def _attrs(self):
        return {"use_nesterov": self._use_nesterov}


class AdamOptimizer(_Rule):
    """Moments of first and second order with decay rates beta1 and beta2, corrected for their beginning at zero."""

    _op, _slot_inputs = "Adam", (("m", "m"), ("v", "v"))
    _numbers = (("lr", "_lr", "learning_rate"), ("beta1", "_beta1", "beta1"), ("beta2", "_beta2", "beta2"),
                ("epsilon", "_epsilon", "epsilon"))
    _tensor_suffix = "_t"

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name="Adam"):
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon

    def _get_beta_accumulators(self):
        graph = ops.get_default_graph()
        return self._get_non_slot_variable("beta1_power", graph), self._get_non_slot_variable("beta2_power", graph)

    def _create_slots(self, var_list):
        first = min(var_list, key=lambda v: v.name)  # the same one in all workers
        self._create_non_slot_variable(self._call_if_callable(self._beta1), "beta1_power", first)
        self._create_non_slot_variable(self._call_if_callable(self._beta2), "beta2_power", first)
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _inputs_for(self, var, resource):
        given = super()._inputs_for(var, resource)
        for key, power in zip(("beta1_power", "beta2_power"), self._get_beta_accumulators()):
            given[key] = math.cast(power, var.dtype.base_dtype)
        return given

    def _rows(self, var, values, indices):
        """All of the moments decay, the rows get their gradients, and all of the variable moves."""
        t = {k: math.cast(x, var.dtype.base_dtype) for k, x in self._tensors.items()}
        p1, p2 = (math.cast(p, var.dtype.base_dtype) for p in self._get_beta_accumulators())
        rate = t["lr"] * math.sqrt(1 - p2) / (1 - p1)
        m = _decayed(self.get_slot(var, "m"), t["beta1"], values * (1 - t["beta1"]), indices, self._use_locking)
        v = _decayed(self.get_slot(var, "v"), t["beta2"], values * values * (1 - t["beta2"]), indices, self._use_locking)
        moved = state.assign_sub(var, rate * m / (math.sqrt(v) + t["epsilon"]), use_locking=self._use_locking)
        return control_flow.group(moved, m, v)

    def _apply_sparse(self, grad, var):
        return self._rows(var, grad.values, grad.indices)

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._rows(handle, grad, indices)

    def _finish(self, update_ops, name_scope):
        with ops.control_dependencies(update_ops):
            p1, p2 = self._get_beta_accumulators()
            with ops.colocate_with(p1):
                done = [p1.assign(p1 * self._beta1_t, use_locking=self._use_locking),
                        p2.assign(p2 * self._beta2_t, use_locking=self._use_locking)]
        return control_flow.group(*update_ops, *done, name=name_scope)


def _decayed(slot, decay, rows, indices, use_locking):
    """slot * decay, with rows added; its value after that."""
    shrunk = state.assign(slot, slot * decay, use_locking=use_locking)
    with ops.control_dependencies([shrunk]):
        added = slot.scatter_add(ops.IndexedSlices(rows, indices), use_locking=use_locking)
        return convert.convert_to_tensor(added)


class AdagradOptimizer(_Rule):
    """A learning rate an element, which falls by the squares of its gradients so far."""

    _op, _slot_inputs = "Adagrad", (("accum", "accumulator"),)
    _numbers = (("lr", "_learning_rate", "learning_rate"),)

    def __init__(self, learning_rate, initial_accumulator_value=0.1, use_locking=False, name="Adagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError("initial_accumulator_value must be positive: %s" % initial_accumulator_value)
        super().__init__(use_locking, name)
        self._learning_rate, self._initial_accumulator_value = learning_rate, initial_accumulator_value

    def _create_slots(self, var_list):
        for v in var_list:
            _constant_slot(self, v, self._initial_accumulator_value, "accumulator", self._name)


def _constant_slot(optimizer, v, value, slot_name, op_name):
    """A slot that is full of one number at first, whether the variable's shape is known or not."""
    dtype = v.dtype.base_dtype
    if v.get_shape().is_fully_defined():
        optimizer._get_or_make_slot_with_initializer(v, initializers.constant(value, dtype=dtype), v.get_shape(), dtype,
                                                     slot_name, op_name)
    else:
        full = array.fill(array.shape(v.initialized_value()), math.cast(value, dtype))
        optimizer._get_or_make_slot(v, full, slot_name, op_name)


class AdagradDAOptimizer(_Rule):
    """Adagrad with dual averaging: sparse models of features that are rarely seen."""

    _op = "AdagradDA"
    _slot_inputs = (("gradient_accumulator", "gradient_accumulator"),
                    ("gradient_squared_accumulator", "gradient_squared_accumulator"))
    _numbers = (("lr", "_learning_rate", "learning_rate"), ("l1", "_l1_regularization_strength", "l1"),
                ("l2", "_l2_regularization_strength", "l2"))

    def __init__(self, learning_rate, global_step, initial_gradient_squared_accumulator_value=0.1,
                 l1_regularization_strength=0.0,
                 l2_regularization_strength=0.0, use_locking=False, name="AdagradDA"):
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError("initial_gradient_squared_accumulator_value must be positive: %s" %
                             initial_gradient_squared_accumulator_value)
        super().__init__(use_locking, name)
        self._learning_rate, self._global_step = learning_rate, global_step
        self._initial_gradient_squared_accumulator_value = initial_gradient_squared_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _create_slots(self, var_list):
        for v in var_list:
            _constant_slot(self, v, 0.0, "gradient_accumulator", self._name)
            _constant_slot(self, v, self._initial_gradient_squared_accumulator_value, "gradient_squared_accumulator",
                           self._name)

    def _prepare(self):
        super()._prepare()
        with ops.colocate_with(self._learning_rate_tensor):
            self._step = math.cast(array.identity(self._global_step), dtypes.int64) + 1

    def _inputs_for(self, var, resource):
        return dict(super()._inputs_for(var, resource), global_step=self._step)


class AdadeltaOptimizer(_Rule):
    """Steps in the measure of the steps before."""

    _op, _slot_inputs = "Adadelta", (("accum", "accum"), ("accum_update", "accum_update"))
    _numbers = (("lr", "_lr", "lr"), ("rho", "_rho", "rho"), ("epsilon", "_epsilon", "epsilon"))
    _tensor_suffix = "_t"

    def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-8, use_locking=False, name="Adadelta"):
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _create_slots(self, var_list):
        for v in var_list:
            self._zeros_slot(v, "accum", self._name)
            self._zeros_slot(v, "accum_update", self._name)


class RMSPropOptimizer(_Rule):
    """Divides gradients by the root of a moving mean of their squares, or of their variance if centered."""

    _numbers = (("lr", "_learning_rate", "learning_rate"), ("rho", "_decay", "decay"), ("momentum", "_momentum", "momentum"),
                ("epsilon", "_epsilon", "epsilon"))

    def __init__(self, learning_rate, decay=0.9, momentum=0.0, epsilon=1e-10, use_locking=False, centered=False,
                 name="RMSProp"):
        super().__init__(use_locking, name)
        self._learning_rate, self._decay, self._momentum, self._epsilon = learning_rate, decay, momentum, epsilon
        self._centered = centered
        self._op = "CenteredRMSProp" if centered else "RMSProp"
        self._slot_inputs = (("ms", "rms"), ("mom", "momentum")) + ((("mg", "mg"),) if centered else ())

    def _create_slots(self, var_list):
        for v in var_list:
            _constant_slot(self, v, 1.0, "rms", self._name)
            if self._centered:
                self._zeros_slot(v, "mg", self._name)
            self._zeros_slot(v, "momentum", self._name)


class FtrlOptimizer(_Rule):
    """Follow the regularized leader, with L1, L2 and shrinkage."""

    _slot_inputs = (("accum", "accum"), ("linear", "linear"))

    def __init__(self, learning_rate, learning_rate_power=-0.5, initial_accumulator_value=0.1, l1_regularization_strength=0.0,
                 l2_regularization_strength=0.0, use_locking=False, name="Ftrl", accum_name=None, linear_name=None,
                 l2_shrinkage_regularization_strength=0.0):
        for what, value in (("initial_accumulator_value", initial_accumulator_value),
                            ("l1_regularization_strength", l1_regularization_strength),
                            ("l2_regularization_strength", l2_regularization_strength),
                            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength)):
            if value < 0.0:
                raise ValueError("%s %f needs to be positive or zero" % (what, value))
        if learning_rate_power > 0.0:
            raise ValueError("learning_rate_power %f needs to be negative or zero" % learning_rate_power)
        super().__init__(use_locking, name)
        self._learning_rate, self._learning_rate_power = learning_rate, learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self._accum_name, self._linear_name = accum_name, linear_name
        self._numbers = (("lr", "_learning_rate", "learning_rate"),
                         ("l1", "_l1_regularization_strength", "l1_regularization_strength"),
                         ("l2", "_l2_regularization_strength", "l2_regularization_strength"),
                         ("lr_power", "_learning_rate_power", "learning_rate_power"))
        self._op = "Ftrl"
        if l2_shrinkage_regularization_strength > 0:
            self._op = "FtrlV2"
            self._numbers += (("l2_shrinkage", "_l2_shrinkage_regularization_strength",
                               "l2_shrinkage_regularization_strength"),)

    def _create_slots(self, var_list):
        for v in var_list:
            _constant_slot(self, v, self._initial_accumulator_value, "accum", self._accum_name or self._name)
            self._zeros_slot(v, "linear", self._linear_name or self._name)


class ProximalGradientDescentOptimizer(_Rule):
    """Gradient descent, then the proximal step for L1 and L2."""

    _op, _dense_gradient = "ProximalGradientDescent", "delta"
    _numbers = (("alpha", "_learning_rate", "learning_rate"),
                ("l1", "_l1_regularization_strength", "l1_regularization_strength"),
                ("l2", "_l2_regularization_strength", "l2_regularization_strength"))

    def __init__(self, learning_rate, l1_regularization_strength=0.0, l2_regularization_strength=0.0, use_locking=False,
                 name="ProximalGradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength


class ProximalAdagradOptimizer(_Rule):
    """Adagrad, then the proximal step for L1 and L2."""

    _op, _slot_inputs = "ProximalAdagrad", (("accum", "accumulator"),)
    _numbers = (("lr", "_learning_rate", "learning_rate"), ("l1", "_l1_regularization_strength", "l1_regularization_strength"),
                ("l2", "_l2_regularization_strength", "l2_regularization_strength"))

    def __init__(self, learning_rate, initial_accumulator_value=0.1, l1_regularization_strength=0.0,
                 l2_regularization_strength=0.0, use_locking=False, name="ProximalAdagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError("initial_accumulator_value must be positive: %s" % initial_accumulator_value)
        super().__init__(use_locking, name)
        self._learning_rate, self._initial_accumulator_value = learning_rate, initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _create_slots(self, var_list):
        for v in var_list:
            _constant_slot(self, v, self._initial_accumulator_value, "accumulator", self._name)
