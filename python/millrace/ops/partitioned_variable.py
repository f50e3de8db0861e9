"""PartitionedVariable: a variable that is stored in parts, each of which is a variable."""

from ..framework import convert, dtypes, ops, shapes
from ..framework.op_defs import raw
from .variable_base import checked_dtype


class PartitionedVariable:
    """A variable that is kept in parts along one dimension."""

    def __init__(self, name, shape, dtype, variable_list, partitions):
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError("variable_list is not a list or tuple: %s" % (variable_list,))
        if not isinstance(partitions, (list, tuple)):
            raise TypeError("partitions is not a list or tuple: %s" % (partitions,))
        if not all(p >= 1 for p in partitions):
            raise ValueError("partition values must be positive: %s" % (partitions,))
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        if any(v._get_save_slice_info() is None for v in variable_list):
            raise ValueError("All variables must have a save_slice_info available: %s" % [v.name for v in variable_list])
        shape = shapes.as_shape(shape)
        for v in variable_list:
            if list(v._get_save_slice_info().full_shape) != shape.as_list():
                raise ValueError("All variables' full shapes must match shape: %s; %s has %s" %
                                 (shape, v.name, v._get_save_slice_info().full_shape))
        self._name, self._shape, self._dtype = name, shape, dtypes.as_dtype(dtype)
        self._variable_list = sorted(variable_list, key=lambda v: v._get_save_slice_info().var_offset)
        self._partitions = partitions
        self._as_one = None

    name = property(lambda self: self._name)
    dtype = property(lambda self: self._dtype)
    shape = property(lambda self: self._shape)
    graph = property(lambda self: self._variable_list[0].graph)

    def get_shape(self):
        return self._shape

    def __iter__(self):
        return iter(self._variable_list)

    def __len__(self):
        return len(self._variable_list)

    def _get_variable_list(self):
        return self._variable_list

    def _get_partitions(self):
        return self._partitions

    def _partition_axes(self):
        axes = [i for i, p in enumerate(self._partitions) if p > 1]
        return axes or [0]

    def as_tensor(self):
        """All parts put together."""
        with ops.control_dependencies(None):
            return self._concat()

    def _concat(self):
        if len(self._variable_list) == 1:
            with ops.name_scope(None):
                return raw.identity(self._variable_list[0], name=self._name)
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError("Cannot concatenate along more than one dimension: %s." % axes)
        with ops.name_scope(self._name + "/ConcatPartitions/"):
            whole = raw.concat_v2([v.value() for v in self._variable_list], axes[0])
        with ops.name_scope(None):
            return raw.identity(whole, name=self._name)

    def _as_graph_element(self):
        if self._as_one is None:
            with self.graph.as_default():
                self._as_one = self.as_tensor()
        return self._as_one

    def _apply(self, method, value, **kwargs):
        """Calls a method of each part with its part of a value that may come in parts or whole."""
        if not isinstance(value, (list, tuple)):
            value = self._split(value)
        if len(value) != len(self._variable_list):
            raise ValueError("%s has %d parts, %d values were given" % (self._name, len(self._variable_list), len(value)))
        return [getattr(v, method)(x, **kwargs) for v, x in zip(self._variable_list, value)]

    def _split(self, value):
        axis = self._partition_axes()[0]
        sizes = [v.shape.as_list()[axis] for v in self._variable_list]
        return raw.split_v(convert.convert_to_tensor(value, self._dtype.base_dtype), sizes, axis, num_split=len(sizes))

    def assign(self, value, use_locking=False, name=None, read_value=True):
        return self._apply("assign", value, use_locking=use_locking, name=name, read_value=read_value)

    def assign_add(self, value, use_locking=False, name=None, read_value=True):
        return self._apply("assign_add", value, use_locking=use_locking, name=name, read_value=read_value)

    def assign_sub(self, value, use_locking=False, name=None, read_value=True):
        return self._apply("assign_sub", value, use_locking=use_locking, name=name, read_value=read_value)


def _conversion(v, dtype=None, name=None, as_ref=False):
    if as_ref:
        raise ValueError("A PartitionedVariable cannot be used as a reference: %s" % v.name)
    checked_dtype(v, dtype)
    return v.as_tensor()


for _operator in ("add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul lt le gt ge "
                  "neg abs getitem").split():
    setattr(PartitionedVariable, "__%s__" % _operator,
            (lambda o: lambda self, *args: getattr(ops.Tensor, o)(self.as_tensor(), *args))("__%s__" % _operator))

convert.register_tensor_conversion_function(PartitionedVariable, _conversion)
