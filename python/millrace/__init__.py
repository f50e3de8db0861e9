"""Millrace: machine learning on a dataflow graph, with the Python interface of TensorFlow 1.x.

    import millrace as tf

    x = tf.placeholder(tf.float32, [None, 784])
    ...
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
"""

import _millrace

from .framework import dtypes as _dtypes
from .framework.convert import constant, convert_to_tensor, register_tensor_conversion_function
from .framework.device import DeviceSpec
from .framework.ops import (Graph, GraphKeys, IndexedSlices, Operation, RegisterGradient, Tensor, add_to_collection,
                            add_to_collections, colocate_with, container, control_dependencies, device, get_collection,
                            get_collection_ref, get_default_graph, get_default_session, name_scope, no_gradient, op_scope,
                            reset_default_graph)
from .framework.op_defs import raw
from .framework.session import InteractiveSession, Session
from .framework.shapes import Dimension, TensorShape
from .framework.sparse import SparseTensor, SparseTensorValue, convert_to_tensor_or_sparse_tensor
from .framework import errors

NoGradient = NotDifferentiable = no_gradient

globals().update(_dtypes.public_names())
as_dtype, DType = _dtypes.as_dtype, _dtypes.DType
newaxis = None
from .behavior import *
from .version import COMPILER_VERSION, GIT_VERSION, GRAPH_DEF_VERSION, VERSION, __version__

from . import lazy as _lazy

# Names that are imported when they are first asked for, and where from.  Modules of this package need no entry.
_LATER = dict.fromkeys(
    "AttrValue ConfigProto Event GPUOptions GraphDef GraphOptions HistogramProto LogMessage MetaGraphDef NameAttrList NodeDef "
    "OptimizerOptions RunMetadata RunOptions SessionLog Summary SummaryMetadata TensorInfo".split(), "protos")
__getattr__ = _lazy.attributes(__name__, _LATER)
