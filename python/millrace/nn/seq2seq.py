"""tf.nn.seq2seq: where tf.contrib.legacy_seq2seq was before TensorFlow 1.0."""

from ..contrib.legacy_seq2seq import *  # noqa: F401, F403
