"""tf.contrib.learn: what scripts of its time still use."""
from ... import lazy as _lazy

__getattr__ = _lazy.attributes(__name__)
