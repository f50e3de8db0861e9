"""tf.contrib.tensorboard: configuration of TensorBoard plugins."""
from . import plugins  # noqa: F401
