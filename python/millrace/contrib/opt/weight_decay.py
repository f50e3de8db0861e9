"""Weight decay apart from the gradient (AdamW and its kin): before a step each variable is made smaller by a part of itself."""

from ...framework import ops
from ...ops import math
from ...train.optimizers import AdamOptimizer, MomentumOptimizer


class DecoupledWeightDecayExtension:
    """A base class to put before an optimizer: it adds weight decay, and its first argument is weight_decay."""

    def __init__(self, weight_decay, **kwargs):
        self._decay_var_list, self._weight_decay = None, weight_decay
        super().__init__(**kwargs)

    def minimize(self, loss, global_step=None, var_list=None, gate_gradients=1, aggregation_method=None,
                 colocate_gradients_with_ops=False, name=None, grad_loss=None, decay_var_list=None):
        """Returns an operation that takes one step; decay_var_list limits which variables decay."""
        self._decay_var_list = None if decay_var_list is None else set(decay_var_list)
        return super().minimize(loss, global_step=global_step, var_list=var_list, gate_gradients=gate_gradients,
                                aggregation_method=aggregation_method, colocate_gradients_with_ops=colocate_gradients_with_ops,
                                name=name, grad_loss=grad_loss)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, decay_var_list=None):
        """Returns an operation that decays weights and applies (gradient, variable) pairs."""
        if decay_var_list is not None:
            self._decay_var_list = set(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _update(self, g, v):
        if self._decay_var_list is not None and v not in self._decay_var_list:
            return super()._update(g, v)
        decay = math.cast(self._call_if_callable(self._weight_decay), v.dtype.base_dtype)
        with ops.control_dependencies([v.assign_sub(decay * v, use_locking=self._use_locking)]):
            return super()._update(g, v)


def extend_with_decoupled_weight_decay(base_optimizer):
    """A class of optimizers with weight decay."""
    class Extended(DecoupledWeightDecayExtension, base_optimizer):
        def __init__(self, weight_decay, *args, **kwargs):
            self._decay_var_list, self._weight_decay = None, weight_decay
            base_optimizer.__init__(self, *args, **kwargs)

    Extended.__name__ = "OptimizerWithDecoupledWeightDecay"
    return Extended


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(self, weight_decay, learning_rate, momentum, use_locking=False, name="MomentumW", use_nesterov=False):
        super().__init__(weight_decay, learning_rate=learning_rate, momentum=momentum, use_locking=use_locking, name=name,
                         use_nesterov=use_nesterov)


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(self, weight_decay, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False,
                 name="AdamW"):
        super().__init__(weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
                         use_locking=use_locking, name=name)
