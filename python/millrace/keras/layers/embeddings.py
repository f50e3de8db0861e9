"""Embedding: whole numbers as vectors."""

import millrace as tf

from ...framework import shapes
from ..engine.base_layer import Layer, _MaskMakers
from .arguments import resolved
from .. import backend as K


class Embedding(_MaskMakers, Layer):
    """A layer that turns integers into rows of a matrix of weights.

    Args:
        input_dim: the number of rows
        output_dim: the length of the rows
        mask_zero: whether 0 is padding, to be masked in later layers
        input_length: the length of the sequences, if it is constant
    """

    def __init__(self, input_dim, output_dim, embeddings_initializer="uniform", embeddings_regularizer=None,
                 activity_regularizer=None, embeddings_constraint=None, mask_zero=False, input_length=None, **kwargs):
        if "input_shape" not in kwargs and "batch_input_shape" not in kwargs:
            if input_length is not None:
                kwargs["input_shape"] = tuple(input_length) if isinstance(input_length, (list, tuple)) else (input_length,)
            else:
                kwargs["input_shape"] = (None,)
        super().__init__(dtype=kwargs.pop("dtype", None) or K.floatx(), activity_regularizer=activity_regularizer, **kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.__dict__.update(resolved(embeddings_initializer=embeddings_initializer,
                                      embeddings_regularizer=embeddings_regularizer,
                                      embeddings_constraint=embeddings_constraint))
        self.mask_zero, self.supports_masking, self.input_length = mask_zero, mask_zero, input_length
        self._input_dtype = K.floatx()  # numbers of rows come as floats too

    def build(self, input_shape):
        self.embeddings = self.add_weight("embeddings", shape=(self.input_dim, self.output_dim),
                                          initializer=self.embeddings_initializer, regularizer=self.embeddings_regularizer,
                                          constraint=self.embeddings_constraint)
        self.built = True

    def compute_mask(self, inputs, mask=None):
        return tf.not_equal(inputs, tf.zeros([], inputs.dtype)) if self.mask_zero else None

    def compute_output_shape(self, input_shape):
        return shapes.as_shape(input_shape).concatenate(self.output_dim)

    def call(self, inputs):
        if inputs.dtype.base_dtype not in (tf.int32, tf.int64):
            inputs = tf.cast(inputs, tf.int32)
        return tf.gather(self.embeddings, inputs)
