"""tf.dtypes: the types of elements, and conversions."""

from . import lazy as _lazy
from .framework import dtypes as _dtypes
from .framework.dtypes import QUANTIZED_DTYPES, DType, as_dtype  # noqa: F401

globals().update(_dtypes.public_names())
__getattr__ = _lazy.selection(__name__, "cast complex saturate_cast")
