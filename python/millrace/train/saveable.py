"""What a saver saves: SaveableObjects, the tensors under which names, and how they are put back.

A variable is one (by reference or resource); a variable in parts is one for each part, with the same name and another slice.
Other things, tables say, bring their own SaveableObject.
"""

from ..framework import ops
from ..framework.op_defs import raw
from ..ops import array, state, variables

__all__ = ["SaveSpec", "SaveableObject"]


class SaveSpec:
    """A tensor (or a function that makes it), which slice of which shape it is ("" for a whole), and its name in
    checkpoints."""

    def __init__(self, tensor, slice_spec, name, dtype=None, device=None):
        self._tensor, self.slice_spec, self.name = tensor, slice_spec, name
        self.dtype = tensor.dtype if dtype is None else dtype
        self.device = tensor.device if device is None and not callable(tensor) else device

    @property
    def tensor(self):
        """The tensor to save."""
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """The base of what can be saved and restored."""

    def __init__(self, op, specs, name):
        self.op, self.specs, self.name = op, specs, name

    @property
    def optional_restore(self):
        """Whether it may be missing from a checkpoint."""
        return False

    @property
    def device(self):
        """The device of the first tensor."""
        return self.specs[0].device

    def restore(self, restored_tensors, restored_shapes):
        """Returns an operation that sets the object to tensors from a checkpoint; subclasses define it."""
        raise NotImplementedError("%s has no restore" % type(self).__name__)


class _Reference(SaveableObject):
    def __init__(self, ref, slice_spec, name):
        super().__init__(ref, [SaveSpec(ref, slice_spec, name)], name)

    def restore(self, restored_tensors, restored_shapes):
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = array.reshape(value, restored_shapes[0])
        known = self.op.get_shape().is_fully_defined()
        return state.assign(self.op, value, validate_shape=restored_shapes is None and known)


class _Resource(SaveableObject):
    def __init__(self, read, handle, slice_spec, name):
        self._handle = handle
        super().__init__(read, [SaveSpec(read, slice_spec, name, device=handle.device)], name)

    def restore(self, restored_tensors, restored_shapes):
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = array.reshape(value, restored_shapes[0])
        with ops.device(self._handle.device or None), ops.device("/cpu:0"):
            value = raw.identity(value)
        value.set_shape(self.op.shape)
        return raw.assign_variable_op(self._handle, value)


def of_variable(v, slice_spec, name):
    """For a variable or the tensor of one."""
    if variables.is_resource_variable(v):
        return _Resource(v._as_graph_element(), v.handle, slice_spec, name)
    if isinstance(v, ops.Tensor) and v.op.type == "ReadVariableOp":
        return _Resource(v, v.op.inputs[0], slice_spec, name)
    if isinstance(v, variables.Variable):
        v = v._ref()
    if not isinstance(v, ops.Tensor) or not v.dtype._is_ref_dtype:
        raise TypeError("names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a variable: %s" %
                        (v,))
    return _Reference(v, slice_spec, name)


def by_name(var_list):
    """{name: variable, list of the parts of one, or SaveableObject} of a list; a dict is one already."""
    if isinstance(var_list, dict):
        return dict(var_list)
    found = {}
    for v in var_list:
        for part in v if isinstance(v, variables.PartitionedVariable) else [v]:
            _add_by_name(found, part)
    return found


def _add_by_name(found, v):
    if isinstance(v, SaveableObject):
        name, info = v.name, None
    elif isinstance(v, variables.Variable):
        info = v._get_save_slice_info()
        name = v.op.name if info is None else info.full_name
    elif isinstance(v, ops.Tensor):
        name, info = (v.op.inputs[0].op.name if v.op.type == "ReadVariableOp" else v.op.name), None
    elif hasattr(v, "_saveables"):
        for s in v._saveables():
            _add_by_name(found, s)
        return
    else:
        raise TypeError("Variable to save is not a Variable: %s" % (v,))
    if info is not None:
        parts = found.setdefault(name, [])
        if not isinstance(parts, list):
            raise ValueError("Mixing slices and non-slices with the same name: %s" % name)
        parts.append(v)
    elif name in found:
        raise ValueError("At least two variables have the same name: %s" % name)
    else:
        found[name] = v


def saveables(var_list):
    """The SaveableObjects of what is given, by name; no variable comes twice."""
    out, seen = [], set()
    for name, given in sorted(by_name(var_list).items()):
        if not isinstance(name, str):
            raise TypeError("names_to_saveables must be a dict mapping string names to checkpointable operations. Name is not "
                            "a "
                            "string: %s" % (name,))
        for s in _of_entry(name, given):
            key = getattr(s.op, "op", s.op)
            if key in seen:
                raise ValueError("The same saveable will be restored with two names: %s" % s.name)
            seen.add(key)
            out.append(s)
    return out


def _of_entry(name, given):
    if isinstance(given, SaveableObject):
        return [given]
    if isinstance(given, (list, tuple, variables.PartitionedVariable)):
        return [of_variable(v, v._get_save_slice_info().spec, name) for v in given]
    info = given._get_save_slice_info() if isinstance(given, variables.Variable) else None
    return [of_variable(given, "" if info is None else info.spec, name)]
