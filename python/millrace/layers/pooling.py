"""Pooling layers."""

from ..framework import shapes
from ..framework.op_defs import raw
from ..ops import array
from . import utils
from .base import BaseLayer, InputSpec, Layer

_OPS = {("max", 2): "max_pool", ("avg", 2): "avg_pool", ("max", 3): "max_pool3d", ("avg", 3): "avg_pool3d"}


class PoolingBase(BaseLayer):
    """The largest value or the mean of windows; windows along one dimension are done as images of width one."""

    rank = kind = None

    def __init__(self, pool_size, strides=None, padding="valid", data_format="channels_last", name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.pool_size = utils.normalize_tuple(pool_size, self.rank, "pool_size")
        self.strides = utils.normalize_tuple(pool_size if strides is None else strides, self.rank, "strides")
        self.padding = utils.normalize_padding(padding)
        self.data_format = utils.normalize_data_format(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _per_dim(self, values):
        return [1, 1] + list(values) if self.data_format == "channels_first" else [1] + list(values) + [1]

    def call(self, inputs):
        rank, size, strides, axis = self.rank, self._per_dim(self.pool_size), self._per_dim(self.strides), None
        if rank == 1:
            axis = 3 if self.data_format == "channels_first" else 2
            inputs, rank = array.expand_dims(inputs, axis), 2
            size.insert(axis, 1), strides.insert(axis, 1)
        pool = getattr(raw, _OPS[self.kind, rank])
        outputs = pool(inputs, ksize=size, strides=strides, padding=self.padding.upper(),
                       data_format=utils.convert_data_format(self.data_format, rank + 2))
        return outputs if axis is None else array.squeeze(outputs, [axis])

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        first = self.data_format == "channels_first"
        space = [utils.conv_output_length(d, self.pool_size[i], self.padding, self.strides[i])
                 for i, d in enumerate(dims[2:] if first else dims[1:-1])]
        return shapes.TensorShape(dims[:2] + space if first else [dims[0]] + space + [dims[-1]])


def _base(kind, rank):
    doc = "The computation of %d-D %s pooling." % (rank, kind)
    return type("%sPooling%dDBase" % (kind, rank), (PoolingBase,), {"kind": kind, "rank": rank, "__doc__": doc})


MaxPooling1DBase, MaxPooling2DBase, MaxPooling3DBase = (_base("max", n) for n in (1, 2, 3))
AveragePooling1DBase, AveragePooling2DBase, AveragePooling3DBase = (_base("avg", n) for n in (1, 2, 3))


def _pair(base, name):
    """A class of tf.layers, which unlike Keras wants the strides, and the function of the same kind."""
    def init(self, pool_size, strides, padding="valid", data_format="channels_last", name=None, **kwargs):
        if strides is None:
            raise ValueError("Argument `strides` must not be None.")
        base.__init__(self, pool_size, strides, padding, data_format, name, **kwargs)

    reduction = "largest element" if base.kind == "max" else "mean"
    doc = "A layer that computes the %s of each window, in %d-D." % (reduction, base.rank)
    cls = type(name, (base, Layer), {"__init__": init, "__module__": __name__, "__doc__": doc})

    def function(inputs, pool_size, strides, padding="valid", data_format="channels_last", name=None):
        return cls(pool_size, strides, padding, data_format, name).apply(inputs)

    function.__name__ = function.__qualname__ = name.replace("Pooling", "_pooling").replace("D", "d").lower()
    function.__doc__ = """Computes the %s of each window of inputs, in %d-D.

    Args:
        inputs: the tensor to pool
        pool_size: the size of the window, an int or %d of them
        strides: the distance between windows, an int or %d of them
        padding: "valid" or "same"
        data_format: "channels_last" or "channels_first"
    """ % (reduction, base.rank, base.rank, base.rank)
    return cls, function


MaxPooling1D, max_pooling1d = _pair(MaxPooling1DBase, "MaxPooling1D")
MaxPooling2D, max_pooling2d = _pair(MaxPooling2DBase, "MaxPooling2D")
MaxPooling3D, max_pooling3d = _pair(MaxPooling3DBase, "MaxPooling3D")
AveragePooling1D, average_pooling1d = _pair(AveragePooling1DBase, "AveragePooling1D")
AveragePooling2D, average_pooling2d = _pair(AveragePooling2DBase, "AveragePooling2D")
AveragePooling3D, average_pooling3d = _pair(AveragePooling3DBase, "AveragePooling3D")
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
