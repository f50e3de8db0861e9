"""tf.keras.wrappers"""

from ... import lazy as _lazy

__getattr__ = _lazy.attributes(__name__)
__dir__ = _lazy.listing(__name__)
