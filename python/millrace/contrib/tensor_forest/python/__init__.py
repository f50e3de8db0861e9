"""tf.contrib.tensor_forest.python."""

from . import tensor_forest
