"""MovingAverageOptimizer: another optimizer, after each step of which moving averages of the variables are kept."""

import functools

from ...framework import ops
from ...ops import control_flow, variables
from ...train import saver as saver_lib
from ...train.moving_averages import ExponentialMovingAverage
from ...train.optimizer import Optimizer


class MovingAverageOptimizer(Optimizer):
    """Runs another optimizer, and keeps moving averages of the variables it changes."""

    def __init__(self, opt, average_decay=0.9999, num_updates=None, sequential_update=True):
        super().__init__(False, "MovingAverageOptimizer")
        self._optimizer, self._sequential_update = opt, sequential_update
        self._ema = ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._swapped_variable_name_map = None

    @functools.wraps(Optimizer.compute_gradients)
    def compute_gradients(self, *args, **kwargs):
        return self._optimizer.compute_gradients(*args, **kwargs)

    @functools.wraps(Optimizer.get_slot)
    def get_slot(self, *args, **kwargs):
        return self._optimizer.get_slot(*args, **kwargs)

    @functools.wraps(Optimizer.get_slot_names)
    def get_slot_names(self, *args, **kwargs):
        return self._optimizer.get_slot_names(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = list(grads_and_vars)
        train = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        members = [v for g, v in pairs if g is not None]
        self._swapped_variable_name_map = {v.op.name: self._ema.average_name(v) for v in members}
        if not self._sequential_update:
            return control_flow.group(train, self._ema.apply(members), name="train_with_avg")
        with ops.control_dependencies([train]):
            return control_flow.group(self._ema.apply(members), name="train_with_avg")

    def swapping_saver(self, var_list=None, name="swapping_saver", **kwargs):
        """A Saver that writes the averages under the variables' names, so that evaluation reads them."""
        if self._swapped_variable_name_map is None:
            raise RuntimeError("Must call apply_gradients or minimize before creating the swapping_saver")
        if var_list is None:
            var_list = variables.global_variables()
        if not isinstance(var_list, dict):
            var_list = saver_lib.saveable.by_name(var_list)
        swapped = dict(var_list)
        for own, average in self._swapped_variable_name_map.items():
            if own in var_list:
                if average not in var_list:
                    raise ValueError("Variable to swap %s is not in variables to save." % average)
                swapped[own], swapped[average] = var_list[average], var_list[own]
        return saver_lib.Saver(swapped, name=name, **kwargs)
