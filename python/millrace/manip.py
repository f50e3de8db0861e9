"""tf.manip: rearranging of tensors."""

from . import lazy as _lazy

__getattr__ = _lazy.selection(__name__, "batch_to_space_nd gather_nd reshape reverse roll scatter_nd space_to_batch_nd tile")
