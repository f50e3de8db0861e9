"""Attention: each query takes the values whose keys are most like it."""

import millrace as tf

from ..engine.base_layer import Layer


class _Attention(Layer):
    """[query, value] or [query, value, key]; masks are of query and value."""

    def __init__(self, causal=False, **kwargs):
        super().__init__(**kwargs)
        self.causal, self.supports_masking = causal, True

    def call(self, inputs, mask=None):
        if not isinstance(inputs, list) or len(inputs) not in (2, 3):
            raise ValueError("%s layer must be called on a list of inputs, namely [query, value] or [query, value, key]." %
                             type(self).__name__)
        query, value = inputs[0], inputs[1]
        scores = self._calculate_scores(query, inputs[2] if len(inputs) > 2 else value)
        hidden = None if not mask or mask[1] is None else tf.expand_dims(tf.logical_not(mask[1]), 1)
        if self.causal:
            size = tf.shape(scores)[1:]
            later = tf.expand_dims(tf.range(size[1])[None, :] > tf.range(size[0])[:, None], 0)
            hidden = later if hidden is None else tf.logical_or(hidden, later)
        if hidden is not None:
            scores = scores - 1e9 * tf.cast(hidden, scores.dtype)
        out = tf.matmul(tf.nn.softmax(scores), value)
        if mask and mask[0] is not None:
            out = out * tf.expand_dims(tf.cast(mask[0], out.dtype), -1)
        return out

    def compute_mask(self, inputs, mask=None):
        return mask[0] if mask else None

    def compute_output_shape(self, input_shape):
        query, value = (tf.TensorShape(s).as_list() for s in input_shape[:2])
        return tf.TensorShape(query[:-1] + value[-1:])


class Attention(_Attention):
    """Likeness by the product."""

    def __init__(self, use_scale=False, causal=False, **kwargs):
        super().__init__(causal=causal, **kwargs)
        self.use_scale, self.scale = use_scale, None

    def build(self, input_shape):
        if self.use_scale:
            self.scale = self.add_weight("scale", shape=(), initializer="ones")
        self.built = True

    def _calculate_scores(self, query, key):
        scores = tf.matmul(query, key, transpose_b=True)
        return scores if self.scale is None else scores * self.scale


class AdditiveAttention(_Attention):
    """Likeness by the tanh of the sum."""

    def __init__(self, use_scale=True, causal=False, **kwargs):
        super().__init__(causal=causal, **kwargs)
        self.use_scale, self.scale = use_scale, None

    def build(self, input_shape):
        if self.use_scale:
            self.scale = self.add_weight("scale", shape=(int(tf.TensorShape(input_shape[1])[-1]),),
                                         initializer="glorot_uniform")
        self.built = True

    def _calculate_scores(self, query, key):
        sums = tf.tanh(tf.expand_dims(query, 2) + tf.expand_dims(key, 1))
        return tf.reduce_sum(sums if self.scale is None else self.scale * sums, axis=-1)
