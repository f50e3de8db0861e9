"""tf.contrib.learn.utils."""

from . import input_fn_utils
