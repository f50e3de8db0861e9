"""tf.contrib.tensor_forest: random forests."""

from ... import lazy as _lazy

__getattr__ = _lazy.attributes(__name__)
