"""Moving averages of variables and tensors."""

from ..framework import convert, dtypes, ops
from ..ops import control_flow, math, state, variables
from ..ops import variable_scope as vs
from . import slot_creator

__all__ = ["ExponentialMovingAverage"]

_FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


def assign_moving_average(variable, value, decay, zero_debias=True, name=None):
    """Moves a variable towards a value: variable -= (variable - value) * (1 - decay).

    With zero_debias it is corrected for having begun at zero."""
    with ops.name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope, ops.colocate_with(variable.op):
        rate = math.cast(convert.convert_to_tensor(1.0 - decay, name="decay"), variable.dtype.base_dtype)
        if zero_debias:
            return _zero_debias(variable, value, rate)
        return state.assign_sub(variable, (variable - value) * rate, name=scope)


def weighted_moving_average(value, decay, weight, truediv=True, collections=None, name=None):
    """The average of values in which each counts with its weight."""
    if collections is None:
        collections = [ops.GraphKeys.GLOBAL_VARIABLES]
    with vs.variable_scope(name, "WeightedMovingAvg", [value, weight, decay]) as scope:
        from .. import initializers
        weighted = convert.convert_to_tensor(value * weight)
        weight = convert.convert_to_tensor(weight)
        how = dict(initializer=initializers.zeros(), trainable=False, collections=collections)
        top = vs.get_variable("value", shape=weighted.shape, dtype=weighted.dtype.base_dtype, **how)
        bottom = vs.get_variable("weight", shape=weight.shape, dtype=weight.dtype.base_dtype, **how)
        top = assign_moving_average(top, weighted, decay, zero_debias=False)
        bottom = assign_moving_average(bottom, weight, decay, zero_debias=False)
        divide = math.div if not truediv else math.truediv
        return divide(top, bottom, name=scope.name)


def _unique_in_scope(name):
    """A name of a variable that the scope does not have yet."""
    scope = vs.get_variable_scope()
    if scope.reuse:
        return name
    there = {v.op.name for v in scope.global_variables()}
    full, i = scope.name + "/" + name, 1
    if full not in there:
        return name
    while "%s_%d" % (full, i) in there:
        i += 1
    return "%s_%d" % (name, i)


def _zero_debias(variable, value, rate):
    from .. import initializers
    how = dict(dtype=variable.dtype.base_dtype, initializer=initializers.zeros(), trainable=False)
    with vs.variable_scope(variable.op.name, values=[variable, value, rate]):
        biased = vs.get_variable(_unique_in_scope("biased"), shape=variable.get_shape(), **how)
        steps = vs.get_variable(_unique_in_scope("local_step"), shape=[], **how)
        changes = [state.assign_sub(biased, (biased - value) * rate), state.assign_add(steps, 1)]
        with ops.control_dependencies([c.op for c in changes]):
            factor = 1 - math.pow(1.0 - rate, steps.read_value())
            return state.assign_sub(variable, variable - biased.read_value() / factor)


class ExponentialMovingAverage:
    """Keeps averages of variables: `apply` gives the operation that moves them, `average` the variable that holds one."""

    def __init__(self, decay, num_updates=None, zero_debias=False, name="ExponentialMovingAverage"):
        self._decay, self._num_updates, self._zero_debias, self._name = decay, num_updates, zero_debias, name
        self._averages = {}  # id of a variable or tensor -> (it, its average)

    name = property(lambda self: self._name, doc="The name of the averages.")

    def apply(self, var_list=None):
        """Makes averages for those that have none yet; an operation that updates all of them."""
        if var_list is None:
            var_list = variables.trainable_variables()
        debiased = set()
        for var in var_list:
            if var.dtype.base_dtype not in _FLOATS:
                raise TypeError("The variables must be half, float, or double: %s" % var.name)
            if id(var) not in self._averages:
                with ops.init_scope():
                    average = self._make(var)
                self._averages[id(var)] = var, average
                if self._zero_debias and not isinstance(var, variables.Variable):
                    debiased.add(id(var))
        with ops.name_scope(self._name) as scope:
            decay = self._decay_now()
            updates = [assign_moving_average(self.average(v), v, decay, zero_debias=id(v) in debiased) for v in var_list]
            return control_flow.group(*updates, name=scope)

    def _make(self, var):
        if isinstance(var, variables.Variable):
            average = slot_creator.create_slot(var, var.initialized_value(), self._name, colocate_with_primary=True)
            ops.add_to_collection(ops.GraphKeys.MOVING_AVERAGE_VARIABLES, var)
            return average
        return slot_creator.create_zeros_slot(var, self._name,
                                              colocate_with_primary=var.op.type in ("Variable", "VariableV2", "VarHandleOp"))

    def _decay_now(self):
        """Smaller at first, when the number of updates is known."""
        decay = convert.convert_to_tensor(self._decay, name="decay")
        if self._num_updates is None:
            return decay
        n = math.cast(self._num_updates, dtypes.float32, name="num_updates")
        return math.minimum(decay, (1.0 + n) / (10.0 + n))

    def average(self, var):
        """The variable with the average, None when there is none."""
        found = self._averages.get(id(var))
        return None if found is None else found[1]

    def average_name(self, var):
        """The name of that variable, also where it is not made yet."""
        found = self.average(var)
        if found is not None:
            return found.op.name
        return ops.get_default_graph().unique_name(var.op.name + "/" + self._name, mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables=None):
        """{name in a checkpoint: variable}, so that variables get the values of their averages."""
        if moving_avg_variables is None:
            moving_avg_variables = variables.trainable_variables() + variables.moving_average_variables()
        names = {self.average_name(v): v for v in moving_avg_variables}
        averaged = {v.name for v in moving_avg_variables}
        for v in variables.global_variables():
            if v.name not in averaged and v.op.name not in names:
                names[v.op.name] = v
        return names
