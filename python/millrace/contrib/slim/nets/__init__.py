"""slim.nets: well-known networks for images."""

from .... import lazy as _lazy

__getattr__ = _lazy.attributes(__name__)
