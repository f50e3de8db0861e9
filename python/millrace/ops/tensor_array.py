"""TensorArray: tensors by their number, each written once, mostly by the iterations of a loop.

The elements are with the handle.  Each change gives a new `flow`, a number that the next operation takes, so that reads come
after the writes they need: use the array that a method returns, not the one it was called on.
"""

import contextlib

from ..framework import convert, dtypes, op_defs, ops, shapes
from . import array, math

__all__ = ["TensorArray"]


class TensorArray:
    """An array of tensors of one type."""

    def __init__(self, dtype, size=None, dynamic_size=None, clear_after_read=None, tensor_array_name=None, handle=None,
                 flow=None, infer_shape=True, element_shape=None, colocate_with_first_write_call=True, name=None):
        if handle is not None and tensor_array_name:
            raise ValueError("Cannot construct with both handle and tensor_array_name")
        if (handle is None) == (size is None):
            raise ValueError("Cannot provide both a handle and size at the same time" if size is not None
                             else "Size must be provided if handle is not provided")
        if handle is not None and element_shape is not None:
            raise ValueError("Cannot provide both a handle and element_shape at the same time")
        if handle is not None and dynamic_size is not None:
            raise ValueError("Cannot provide both a handle and dynamic_size at the same time")
        if handle is not None and clear_after_read is not None:
            raise ValueError("Cannot provide both a handle and clear_after_read at the same time")
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._dynamic_size = bool(dynamic_size)
        self._infer_shape = infer_shape
        self._shape = [shapes.as_shape(element_shape)]  # shared with all arrays of the handle
        self._colocate_with = [] if colocate_with_first_write_call else None
        if handle is not None:
            self._handle, self._flow = handle, flow
            return
        with ops.name_scope(name, "TensorArray", [size]) as scope, ops.device(None):
            self._handle, self._flow = op_defs.call(
                "TensorArrayV3", scope, size=size, dtype=self._dtype, element_shape=self._shape[0],
                dynamic_size=self._dynamic_size,
                clear_after_read=True if clear_after_read is None else clear_after_read,
                identical_element_shapes=infer_shape, tensor_array_name=tensor_array_name or "")

    flow = property(lambda self: self._flow, doc="The scalar that orders operations on the array.")
    dtype = property(lambda self: self._dtype, doc="The type of the elements.")
    handle = property(lambda self: self._handle, doc="The tensor that identifies the array.")
    graph = property(lambda self: self._handle.graph, doc="The graph of the array.")
    dynamic_size = property(lambda self: self._dynamic_size, doc="Whether writing past the end makes the array grow.")

    @property
    def element_shape(self):
        """What is known of the shape of the elements."""
        return self._shape[0]

    def _with_flow(self, flow):
        """The same elements after a change; also what leaves a branch or loop."""
        other = TensorArray.__new__(TensorArray)
        other.__dict__.update(self.__dict__)
        other._flow = flow
        return other

    def _check_shape(self, shape):
        if not shape.is_compatible_with(self._shape[0]):
            raise ValueError("Inconsistent shapes: saw %s but expected %s" % (shape, self._shape[0]))
        if self._infer_shape:
            self._shape[0] = self._shape[0].merge_with(shape)

    @contextlib.contextmanager
    def _placed(self, value):
        """Writes go to the device of the first value written."""
        if self._colocate_with is None:
            with ops.colocate_with(self._handle):
                yield
            return
        if not self._colocate_with:
            self._colocate_with.append(value)
        with ops.colocate_with(self._colocate_with[0]):
            yield

    def identity(self):
        """Returns the same array with the flow passed through an identity, so that control dependencies apply."""
        return self._with_flow(array.identity(self._flow))

    def grad(self, source, flow=None, name=None):
        """The array of the gradients of the elements, one a source."""
        flow = self._flow if flow is None else flow
        with ops.name_scope(name, "TensorArrayGrad", [self._handle]):
            with ops.colocate_with(self._handle):
                handle, _ = op_defs.call("TensorArrayGradV3", None, handle=self._handle, flow_in=flow, source=source)
                with ops.control_dependencies([handle]):
                    flow = array.identity(flow, name="gradient_flow")
                other = TensorArray(self._dtype, handle=handle, flow=flow, infer_shape=self._infer_shape,
                                    colocate_with_first_write_call=False)
                other._shape = self._shape
                return other

    def read(self, index, name=None):
        """Reads the element at an index."""
        with ops.colocate_with(self._handle):
            value = op_defs.call("TensorArrayReadV3", name, handle=self._handle, index=index, flow_in=self._flow,
                                 dtype=self._dtype)
        value.set_shape(self._shape[0])
        return value

    def write(self, index, value, name=None):
        """Writes an element at an index, and returns the array to use from now on."""
        with ops.name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            value = convert.convert_to_tensor(value, self._dtype, name="value")
            self._check_shape(value.shape)
            with self._placed(value):
                return self._with_flow(op_defs.call("TensorArrayWriteV3", None, handle=self._handle, index=index, value=value,
                                                    flow_in=self._flow))

    def stack(self, name=None):
        """Returns all elements stacked into one tensor."""
        with ops.colocate_with(self._handle), ops.name_scope(name, "TensorArrayStack", [self._handle]):
            return self.gather(math.range(0, self.size()))

    def gather(self, indices, name=None):
        """Reads the elements at the given indices, stacked along a new first dimension."""
        value = op_defs.call("TensorArrayGatherV3", name, handle=self._handle, indices=indices, flow_in=self._flow,
                             dtype=self._dtype, element_shape=self._shape[0])
        if self._shape[0].ndims is not None:
            value.set_shape(shapes.TensorShape([None]).concatenate(self._shape[0]))
        return value

    def concat(self, name=None):
        """The elements joined along their first dimension."""
        rest = self._shape[0][1:] if self._shape[0].ndims else shapes.TensorShape(None)
        value, _ = op_defs.call("TensorArrayConcatV3", name, handle=self._handle, flow_in=self._flow, dtype=self._dtype,
                                element_shape_except0=rest)
        if self._shape[0].ndims:
            value.set_shape(shapes.TensorShape([None]).concatenate(rest))
        return value

    def unstack(self, value, name=None):
        """The slices of a tensor along its first dimension as the elements."""
        with ops.name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            value = convert.convert_to_tensor(value, self._dtype, name="value")
            return self.scatter(math.range(0, array.shape(value)[0]), value)

    def scatter(self, indices, value, name=None):
        """Writes the rows of value at the given indices, and returns the array to use from now on."""
        with ops.name_scope(name, "TensorArrayScatter", [self._handle, value, indices]):
            value = convert.convert_to_tensor(value, self._dtype, name="value")
            if value.shape.ndims is not None:
                self._check_shape(value.shape[1:])
            with self._placed(value):
                return self._with_flow(op_defs.call("TensorArrayScatterV3", None, handle=self._handle, indices=indices,
                                                    value=value, flow_in=self._flow))

    def split(self, value, lengths, name=None):
        """Pieces of a tensor of these lengths as the elements."""
        with ops.name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            value = convert.convert_to_tensor(value, self._dtype, name="value")
            lengths = math.cast(convert.convert_to_tensor(lengths), dtypes.int64)
            if value.shape.ndims is not None:
                known = convert.constant_value(lengths)
                same = known is not None and known.size and (known == known[0]).all()
                if same:
                    self._check_shape(shapes.TensorShape([int(known[0])]).concatenate(value.shape[1:]))
            with self._placed(value):
                return self._with_flow(op_defs.call("TensorArraySplitV3", None, handle=self._handle, value=value,
                                                    lengths=lengths, flow_in=self._flow))

    def size(self, name=None):
        """Returns the number of elements, as a tensor."""
        with ops.colocate_with(self._handle):
            return op_defs.call("TensorArraySizeV3", name, handle=self._handle, flow_in=self._flow)

    def close(self, name=None):
        """Returns an operation that frees the elements."""
        with ops.colocate_with(self._handle):
            return op_defs.call("TensorArrayCloseV3", name, handle=self._handle)

    def mark_used(self):
        """For compatibility: unused arrays are never reported here."""

    pack, unpack = stack, unstack  # older names


def build_ta_with_new_flow(old_ta, flow):
    return old_ta._with_flow(flow)
