"""Optimizer: what all optimizers do.

minimize() is compute_gradients() and apply_gradients().  A class of optimizers says what it keeps beside a variable
(_create_slots), what it needs before a step (_prepare), how a variable changes by a gradient (_apply_dense, _apply_sparse and
the same for resource variables), and what is left to do afterwards (_finish).  Rows that come more than once in a sparse
gradient are added up before _apply_sparse sees them.
"""

from ..framework import convert, dtypes, nest, ops
from ..framework.op_defs import raw
from ..ops import control_flow, gradients, state, variables
from . import slot_creator

__all__ = ["Optimizer"]


def _deduplicate_indexed_slices(values, indices):
    """Sums of the rows of each index, and the indices once each."""
    unique, positions = raw.unique(indices)
    return raw.unsorted_segment_sum(values, positions, raw.shape(unique)[0]), unique


def _var_key(var):
    return (var.op.graph, var.op.name)


class Optimizer:
    """The base of all optimizers."""

    # How far gradients are kept apart from the updates: not at all, those of an operation, all of them.
    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking, name):
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking, self._name = use_locking, name
        self._slots = {}          # name of a slot -> {variable: slot}
        self._non_slot_dict = {}  # (name, graph) -> variable

    def get_name(self):
        """Returns the name of the optimizer."""
        return self._name

    # ---- the steps of a program ----

    def minimize(self, loss, global_step=None, var_list=None, gate_gradients=GATE_OP, aggregation_method=None,
                 colocate_gradients_with_ops=False, name=None, grad_loss=None):
        """An operation that changes variables so that the loss gets smaller, and counts the step."""
        pairs = self.compute_gradients(loss, var_list=var_list, gate_gradients=gate_gradients,
                                       aggregation_method=aggregation_method,
                                       colocate_gradients_with_ops=colocate_gradients_with_ops, grad_loss=grad_loss)
        if all(g is None for g, _ in pairs):
            raise ValueError("No gradients provided for any variable, check your graph for ops that do not support gradients, "
                             "between variables %s and loss %s." % ([str(v) for _, v in pairs], loss))
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(self, loss, var_list=None, gate_gradients=GATE_OP, aggregation_method=None,
                          colocate_gradients_with_ops=False, grad_loss=None):
        """[(gradient or None, variable)]"""
        if callable(loss):
            return self._gradients_of_call(loss, var_list, grad_loss)
        if gate_gradients not in (Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH):
            raise ValueError("gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH. "
                             "Not %s" %
                             gate_gradients)
        self._assert_valid_dtypes([loss])
        if grad_loss is not None:
            self._assert_valid_dtypes([grad_loss])
        if var_list is None:
            var_list = variables.trainable_variables() + ops.get_collection(ops.GraphKeys.TRAINABLE_RESOURCE_VARIABLES)
        var_list = _flat_variables(var_list)
        if not var_list:
            raise ValueError("No variables to optimize.")
        for v in var_list:
            if not isinstance(v, (variables.Variable, ops.Tensor)):
                raise TypeError("Variable %s is not a tf.Variable: %s" % (v, type(v)))
        grads = gradients.gradients(loss, var_list, grad_ys=grad_loss, gate_gradients=gate_gradients == Optimizer.GATE_OP,
                                    aggregation_method=aggregation_method,
                                    colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gate_gradients == Optimizer.GATE_GRAPH:
            grads = control_flow.tuple(grads)
        pairs = list(zip(grads, var_list))
        self._assert_valid_dtypes([v for g, v in pairs if g is not None and v.dtype != dtypes.resource])
        return pairs

    def _gradients_of_call(self, loss, var_list, grad_loss):
        """Gradients of what a function returns; without var_list those of the trainable variables that it depends on."""
        value = loss()
        wanted = _flat_variables(variables.trainable_variables() if var_list is None else var_list)
        with ops.control_dependencies([value]):
            pairs = list(zip(gradients.gradients(value, wanted, grad_ys=grad_loss), wanted))
        return pairs if var_list is not None else [(g, v) for g, v in pairs if g is not None]

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """An operation that changes the variables by the gradients."""
        pairs = [(_as_gradient(g), v) for g, v in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        var_list = [v for g, v in pairs if g is not None]
        if not var_list:
            raise ValueError("No gradients provided for any variable: %s." % ([str(v) for _, v in pairs],))
        with ops.init_scope():
            self._create_slots(var_list)
        with ops.name_scope(name, self._name) as scope:
            self._prepare()
            updates = []
            for g, v in pairs:
                if g is not None:
                    with ops.name_scope("update_" + v.op.name), ops.colocate_with(v):
                        updates.append(self._update(g, v))
            done = self._finish(updates, scope) if global_step is None else self._count(updates, global_step, scope)
        done = getattr(done, "op", done)
        collection = ops.get_collection_ref(ops.GraphKeys.TRAIN_OP)
        if done not in collection:
            collection.append(done)
        return done

    def _count(self, updates, global_step, scope):
        """Adds one to the step when the updates are done."""
        with ops.control_dependencies([self._finish(updates, "update")]), ops.colocate_with(global_step):
            if variables.is_resource_variable(global_step):
                return raw.assign_add_variable_op(global_step.handle, convert.constant(1, global_step.dtype.base_dtype),
                                                  name=scope)
            return state.assign_add(global_step, 1, name=scope)

    def _update(self, g, v):
        """How one variable changes, and its constraint afterwards."""
        if isinstance(v, ops.Tensor):
            raise NotImplementedError("Trying to update a Tensor ", v)
        resource, sparse = variables.is_resource_variable(v), isinstance(g, ops.IndexedSlices)
        if sparse:
            if v.constraint is not None:
                raise RuntimeError("Cannot use a constraint function on a sparse variable.")
            if resource:
                return self._resource_apply_sparse_duplicate_indices(g.values, v, g.indices)
            return self._apply_sparse_duplicate_indices(g, v)
        update = (self._resource_apply_dense if resource else self._apply_dense)(g, v)
        if v.constraint is None:
            return update
        with ops.control_dependencies([update]):
            return v.assign(v.constraint(v.read_value()))

    # ---- slots ----

    def get_slot(self, var, name):
        """The slot of that name beside a variable, or None."""
        return self._slots.get(name, {}).get(_var_key(var))

    def get_slot_names(self):
        """Returns the names of all slots."""
        return sorted(self._slots)

    def variables(self):
        """Returns the optimizer's variables in the default graph, sorted by name."""
        graph = ops.get_default_graph()
        own = [v for (_, g), v in self._non_slot_dict.items() if g is graph]
        own += [s for slots in self._slots.values() for s in slots.values() if s.graph is graph]
        return sorted(own, key=lambda v: v.name)

    def _slot_dict(self, slot_name):
        return self._slots.setdefault(slot_name, {})

    def _slot(self, var, slot_name, make):
        slots = self._slot_dict(slot_name)
        key = _var_key(var)
        if key not in slots:
            slots[key] = make()
        return slots[key]

    def _get_or_make_slot(self, var, val, slot_name, op_name):
        return self._slot(var, slot_name, lambda: slot_creator.create_slot(var, val, op_name))

    def _get_or_make_slot_with_initializer(self, var, initializer, shape, dtype, slot_name, op_name):
        return self._slot(var, slot_name,
                          lambda: slot_creator.create_slot_with_initializer(var, initializer, shape, dtype, op_name))

    def _zeros_slot(self, var, slot_name, op_name):
        return self._slot(var, slot_name, lambda: slot_creator.create_zeros_slot(var, op_name))

    def _create_non_slot_variable(self, initial_value, name, colocate_with):
        """A variable of the optimizer itself, one a graph."""
        key = (name, colocate_with.graph)
        if key not in self._non_slot_dict:
            with ops.colocate_with(colocate_with):
                self._non_slot_dict[key] = variables.Variable(
                    initial_value, name=name, trainable=False, use_resource=variables.is_resource_variable(colocate_with))
        return self._non_slot_dict[key]

    def _get_non_slot_variable(self, name, graph=None):
        return self._non_slot_dict.get((name, graph))

    def _non_slot_variables(self):
        return list(self._non_slot_dict.values())

    # ---- what a class of optimizers has its own of ----

    def _valid_dtypes(self):
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128}

    def _assert_valid_dtypes(self, tensors):
        valid = self._valid_dtypes()
        for t in tensors:
            dtype = t.dtype.base_dtype
            if dtype not in valid:
                raise ValueError("Invalid type %r for %s, expected: %s." % (dtype, t.name, sorted(v.name for v in valid)))

    def _create_slots(self, var_list):
        pass

    def _prepare(self):
        pass

    def _apply_dense(self, grad, var):
        raise NotImplementedError("%s has no _apply_dense" % type(self).__name__)

    def _resource_apply_dense(self, grad, handle):
        raise NotImplementedError("%s has no _resource_apply_dense" % type(self).__name__)

    def _apply_sparse(self, grad, var):
        raise NotImplementedError("%s has no _apply_sparse" % type(self).__name__)

    def _resource_apply_sparse(self, grad, handle, indices):
        raise NotImplementedError("%s has no _resource_apply_sparse" % type(self).__name__)

    def _apply_sparse_duplicate_indices(self, grad, var):
        values, indices = _deduplicate_indexed_slices(grad.values, grad.indices)
        return self._apply_sparse(ops.IndexedSlices(values, indices, grad.dense_shape), var)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        values, indices = _deduplicate_indexed_slices(grad, indices)
        return self._resource_apply_sparse(values, handle, indices)

    def _finish(self, update_ops, name_scope):
        return control_flow.group(*update_ops, name=name_scope)

    def _call_if_callable(self, param):
        return param() if callable(param) and not isinstance(param, (ops.Tensor, variables.Variable)) else param


def _flat_variables(var_list):
    """Variables of a nested structure; a partitioned variable counts as its parts."""
    flat = []
    for v in nest.flatten(var_list):
        flat.extend(v if isinstance(v, variables.PartitionedVariable) else [v])
    return flat


def _as_gradient(g):
    if g is None or isinstance(g, (ops.Tensor, ops.IndexedSlices)):
        return g
    try:
        return convert.convert_to_tensor(g)
    except (TypeError, ValueError):
        raise TypeError("Gradient must be convertible to a Tensor or IndexedSlices, or None: %s" % (g,)) from None
