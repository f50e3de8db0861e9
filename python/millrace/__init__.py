"""Millrace: machine learning on a dataflow graph, with the Python interface of TensorFlow 1.x.

    import millrace as tf

    x = tf.placeholder(tf.float32, [None, 784])
    ...
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())

What most programs use is imported here; the rest is loaded when it is first asked for.
"""

try:
    import _millrace
except ImportError as _e:
    from .built_for import explained as _explained
    raise _explained(_e) from None

from .framework import dtypes as _dtypes
from .framework import errors
from .framework.convert import constant, convert_to_tensor, register_tensor_conversion_function
from .framework.device import DeviceSpec
from .framework.op_defs import raw as raw_ops
from .framework.ops import (Graph, GraphKeys, IndexedSlices, Operation, RegisterGradient, Tensor, add_to_collection,
                            add_to_collections, colocate_with, container, control_dependencies, device, get_collection,
                            get_collection_ref, get_default_graph, get_default_session, init_scope, name_scope, no_gradient,
                            op_scope, reset_default_graph)
from .framework.ops import convert_to_tensor_or_indexed_slices
from .framework.session import InteractiveSession, Session
from .framework.shapes import Dimension, TensorShape
from .framework.sparse import SparseTensor, SparseTensorValue, convert_to_tensor_or_sparse_tensor
from .ops.math import *
from .ops.array import *
from .ops.random import *
from .ops.clip import *
from .ops.check import *
from .ops.state import *
from .ops.variables import *
from .ops.variable_scope import *
from .ops.partitioners import *
from .ops.template import *

NoGradient = NotDifferentiable = no_gradient

globals().update(_dtypes.public_names())
as_dtype, DType = _dtypes.as_dtype, _dtypes.DType
QUANTIZED_DTYPES = _dtypes.QUANTIZED_DTYPES
newaxis = None
from .framework.importer import import_graph_def
from .ops.control_flow import *
from .ops.gradients import *
from .ops.custom_gradient import *
from .ops.functional import *
from .ops.logging import *
from .ops.script import *
from .ops.tensor_array import *
from .behavior import *
from .version import (COMPILER_VERSION, CXX11_ABI_FLAG, GIT_VERSION, GRAPH_DEF_VERSION, MONOLITHIC_BUILD, VERSION,
                      __compiler_version__, __git_version__, __version__)

from . import lazy as _lazy

# Names that are imported when they are first asked for, and where from.  Modules of this package need no entry.
_LATER = dict.fromkeys(
    "AttrValue ConfigProto Event GPUOptions GraphDef GraphOptions HistogramProto LogMessage MetaGraphDef NameAttrList NodeDef "
    "OptimizerOptions RunMetadata RunOptions SessionLog Summary SummaryMetadata TensorInfo".split(), "protos")
_LATER.update((n + "_initializer", "initializers:" + n) for n in (
    "constant glorot_normal glorot_uniform ones orthogonal random_normal random_uniform truncated_normal uniform_unit_scaling "
    "variance_scaling zeros").split())
_LATER.update((n, "summary.old") for n in (
    "audio_summary histogram_summary image_summary merge_all_summaries merge_summary scalar_summary").split())
_LATER.update(TensorSpec="framework.type_spec", SparseTensorSpec="framework.type_spec")
_LATER.update((n, "framework.tensor_util") for n in "is_tensor make_ndarray make_tensor_proto".split())
_LATER.update((n, "op_libraries") for n in "load_file_system_library load_library load_op_library".split())
_LATER.update(get_static_value="framework.convert:constant_value", SummaryDescription="protos", TaggedRunMetadata="protos")
_LATER.update(dict.fromkeys(("Barrier ConditionalAccumulator ConditionalAccumulatorBase FIFOQueue PaddingFIFOQueue PriorityQueue "
                             "QueueBase RandomShuffleQueue SparseConditionalAccumulator").split(), "ops.data_flow"))
_LATER.update(dict.fromkeys(("FixedLengthRecordReader IdentityReader LMDBReader ReaderBase TFRecordReader TextLineReader "
                             "WholeFileReader").split(), "ops.io"))
_LATER.update(dict.fromkeys(
    "FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature decode_compressed decode_csv decode_json_example decode_raw "
    "parse_example parse_sequence_example parse_single_example parse_single_sequence_example parse_tensor".split(), "ops.parsing"))
_LATER.update(dict.fromkeys("matching_files read_file serialize_tensor write_file".split(), "io"))
_LATER.update(dict.fromkeys(
    "as_string decode_base64 encode_base64 reduce_join regex_full_match regex_replace string_join string_length string_lower "
    "string_split string_strip string_to_hash_bucket string_to_hash_bucket_fast string_to_hash_bucket_strong string_to_number "
    "string_upper substr unicode_script unicode_transcode".split(), "strings"))
_LATER.update(dict.fromkeys(
    "deserialize_many_sparse serialize_many_sparse serialize_sparse sparse_add sparse_concat sparse_fill_empty_rows sparse_mask "
    "sparse_maximum sparse_merge sparse_minimum sparse_reduce_max sparse_reduce_max_sparse sparse_reduce_sum sparse_reduce_sum_sparse "
    "sparse_reorder sparse_reset_shape sparse_reshape sparse_retain sparse_slice sparse_softmax sparse_split "
    "sparse_tensor_dense_matmul sparse_tensor_to_dense sparse_to_dense sparse_to_indicator sparse_transpose".split(), "sparse"))
_LATER.update(dict.fromkeys("delete_session_tensor get_session_handle get_session_tensor".split(), "ops.session_handles"))
_LATER.update(tables_initializer="ops.lookup", initialize_all_tables="ops.lookup")
__dir__ = _lazy.listing(__name__, _LATER)
__getattr__ = _lazy.attributes(
    __name__, _LATER, "app bitwise compat contrib data debugging distributions dtypes errors estimator feature_column flags "
    "gfile graph_util image initializers io keras layers linalg logging losses manip math metrics nest nn profiler python_io "
    "quantization queue random resource_loader saved_model sets signal sparse spectral strings summary sysconfig test train "
    "version")
