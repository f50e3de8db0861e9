"""tf.contrib: each part is imported when it is first asked for."""
from .. import lazy as _lazy

__getattr__ = _lazy.attributes(__name__)
