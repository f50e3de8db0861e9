"""tf.contrib.tensorboard: what plugins of TensorBoard are told."""
from . import plugins  # noqa: F401
