"""Layers that make one tensor of several."""

import functools

import millrace as tf

from ...framework import shapes
from .. import backend as K
from ..engine.base_layer import Layer


class _Merge(Layer):
    """Element by element; inputs of fewer dimensions are made to fit behind the first."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        if not isinstance(input_shape, (list, tuple)):
            raise ValueError("A merge layer should be called on a list of inputs.")
        if len(input_shape) < 2:
            raise ValueError("A merge layer should be called on a list of at least 2 inputs. Got %d inputs." % len(input_shape))
        self._joined(input_shape)
        self.built = True

    @staticmethod
    def _joined(given):
        """The shape of the outcome."""
        out = [shapes.as_shape(s) for s in given]
        if any(s.ndims is None for s in out):
            return shapes.TensorShape(None)
        batches = {s.as_list()[0] for s in out} - {None}
        if len(batches) > 1:
            raise ValueError("Can not merge tensors with different batch sizes. Got tensors with shapes : %s" %
                             [s.as_list() for s in out])
        rest = [s[1:] for s in out]
        joined = functools.reduce(_broadcast, rest)
        return shapes.TensorShape([batches.pop() if batches else None]).concatenate(joined)

    def call(self, inputs):
        rank = max(K.ndim(x) for x in inputs)
        wide = []
        for x in inputs:
            while K.ndim(x) < rank:
                x = tf.expand_dims(x, 1)
            wide.append(x)
        return self._merge(wide)

    def _merge(self, inputs):
        raise NotImplementedError

    def compute_output_shape(self, input_shape):
        return self._joined(input_shape)

    def compute_mask(self, inputs, mask=None):
        masks = [m for m in mask or [] if m is not None]
        return functools.reduce(tf.logical_and, masks) if masks else None


def _broadcast(a, b):
    try:
        return tf.broadcast_static_shape(a, b)
    except ValueError:
        raise ValueError("Operands could not be broadcast together with shapes %s %s" %
                         (tuple(a.as_list()), tuple(b.as_list()))) from None


class Add(_Merge):
    """A layer that adds its inputs."""

    def _merge(self, inputs):
        return functools.reduce(tf.add, inputs)


class Subtract(_Merge):
    """A layer that subtracts the second input from the first."""

    def build(self, input_shape):
        super().build(input_shape)
        if len(input_shape) != 2:
            raise ValueError("A `Subtract` layer should be called on exactly 2 inputs")

    def _merge(self, inputs):
        return inputs[0] - inputs[1]


class Multiply(_Merge):
    """A layer that multiplies its inputs, element by element."""

    def _merge(self, inputs):
        return functools.reduce(tf.multiply, inputs)


class Average(_Merge):
    """A layer that averages its inputs."""

    def _merge(self, inputs):
        return functools.reduce(tf.add, inputs) / len(inputs)


class Maximum(_Merge):
    """A layer that takes the largest of its inputs, element by element."""

    def _merge(self, inputs):
        return functools.reduce(tf.maximum, inputs)


class Minimum(_Merge):
    """A layer that takes the smallest of its inputs, element by element."""

    def _merge(self, inputs):
        return functools.reduce(tf.minimum, inputs)


class Concatenate(_Merge):
    """A layer that joins its inputs along an axis."""

    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def build(self, input_shape):
        if not isinstance(input_shape, (list, tuple)) or len(input_shape) < 2:
            raise ValueError("A `Concatenate` layer should be called on a list of at least 2 inputs")
        kept = set()
        for s in input_shape:
            dims = shapes.as_shape(s).as_list()
            dims[self.axis] = None
            kept.add(tuple(dims))
        first = shapes.TensorShape(list(next(iter(kept))))
        if any(not first.is_compatible_with(list(k)) for k in kept):
            raise ValueError("A `Concatenate` layer requires inputs with matching shapes except for the concat axis. Got "
                             "inputs shapes: %s" %
                             [shapes.as_shape(s).as_list() for s in input_shape])
        self.built = True

    def call(self, inputs):
        return K.concatenate(inputs, axis=self.axis)

    def compute_output_shape(self, input_shape):
        dims = [shapes.as_shape(s).as_list() for s in input_shape]
        out, sizes = list(dims[0]), [d[self.axis] for d in dims]
        out[self.axis] = None if None in sizes else sum(sizes)
        return shapes.TensorShape(out)

    def compute_mask(self, inputs, mask=None):
        if not mask or all(m is None for m in mask):
            return None
        masks = []
        for x, m in zip(inputs, mask):
            if m is None:
                masks.append(tf.ones_like(x, dtype=tf.bool))
            else:
                masks.append(tf.logical_and(tf.expand_dims(m, -1), tf.ones_like(x, dtype=tf.bool)) if K.ndim(m) < K.ndim(x)
                             else m)
        return tf.reduce_all(tf.concat(masks, self.axis % K.ndim(inputs[0])), axis=-1)


class Dot(_Merge):
    """The product over one dimension of each of two tensors."""

    def __init__(self, axes, normalize=False, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(axes, int) and (not isinstance(axes, (list, tuple)) or len(axes) != 2):
            raise ValueError("Invalid type for `axes` - should be a list of 2 elements or an int. Received: %s" % (axes,))
        self.axes, self.normalize = axes, normalize

    def _pair(self, ranks):
        axes = [self.axes] * 2 if isinstance(self.axes, int) else self.axes
        return [a % r for a, r in zip(axes, ranks)]

    def build(self, input_shape):
        if not isinstance(input_shape, (list, tuple)) or len(input_shape) != 2:
            raise ValueError("A `Dot` layer should be called on a list of 2 inputs.")
        dims = [shapes.as_shape(s).as_list() for s in input_shape]
        a, b = self._pair([len(d) for d in dims])
        if dims[0][a] != dims[1][b]:
            raise ValueError("Dimension incompatibility %s != %s. Layer shapes: %s, %s" %
                             (dims[0][a], dims[1][b], dims[0], dims[1]))
        self.built = True

    def call(self, inputs):
        x, y = inputs
        a, b = self._pair([K.ndim(x), K.ndim(y)])
        if self.normalize:
            x, y = K.l2_normalize(x, axis=a), K.l2_normalize(y, axis=b)
        return K.batch_dot(x, y, (a, b))

    def compute_output_shape(self, input_shape):
        x, y = (shapes.as_shape(s).as_list() for s in input_shape)
        a, b = self._pair([len(x), len(y)])
        x.pop(a)
        y.pop(b)
        out = x + y[1:]
        return shapes.TensorShape(out + [1] if len(out) == 1 else out)

    def compute_mask(self, inputs, mask=None):
        return None


def add(inputs, **kwargs):
    """Adds a list of tensors with a new Add layer."""
    return Add(**kwargs)(inputs)


def subtract(inputs, **kwargs):
    """Subtracts the second tensor of a list from the first with a new Subtract layer."""
    return Subtract(**kwargs)(inputs)


def multiply(inputs, **kwargs):
    """Multiplies a list of tensors with a new Multiply layer."""
    return Multiply(**kwargs)(inputs)


def average(inputs, **kwargs):
    """Averages a list of tensors with a new Average layer."""
    return Average(**kwargs)(inputs)


def maximum(inputs, **kwargs):
    """Takes the largest of a list of tensors, element by element, with a new Maximum layer."""
    return Maximum(**kwargs)(inputs)


def minimum(inputs, **kwargs):
    """Takes the smallest of a list of tensors, element by element, with a new Minimum layer."""
    return Minimum(**kwargs)(inputs)


def concatenate(inputs, axis=-1, **kwargs):
    """Joins a list of tensors along an axis with a new Concatenate layer."""
    return Concatenate(axis=axis, **kwargs)(inputs)


def dot(inputs, axes, normalize=False, **kwargs):
    """Computes the dot product of two tensors along axes with a new Dot layer; normalize makes it the cosine."""
    return Dot(axes=axes, normalize=normalize, **kwargs)(inputs)
