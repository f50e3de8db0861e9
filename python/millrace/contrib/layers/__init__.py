"""tf.contrib.layers: layers as functions, initializers, regularizers, summaries and optimize_loss."""

from ... import lazy as _lazy
from .initializers import *  # noqa: F403
from .layers import *  # noqa: F403
from .regularizers import *  # noqa: F403
from . import utils  # noqa: F401
from .utils import collect_named_outputs  # noqa: F401

_LATER = {**dict.fromkeys(("OPTIMIZER_CLS_NAMES", "OPTIMIZER_SUMMARIES", "adaptive_clipping_fn", "optimize_loss"),
                          "optimizers"),
          **dict.fromkeys(("summarize_activation", "summarize_activations", "summarize_biases", "summarize_collection",
                           "summarize_tensor", "summarize_tensors", "summarize_variables", "summarize_weights"), "summaries")}
_LATER.update(dict.fromkeys("bucketized_column create_feature_spec_for_parsing crossed_column embedding_column "
                            "input_from_feature_columns one_hot_column parse_feature_columns_from_examples real_valued_column "
                            "sparse_column_with_hash_bucket sparse_column_with_integerized_feature sparse_column_with_keys "
                            "sparse_column_with_vocabulary_file weighted_sparse_column".split(), "feature_columns"))
__getattr__ = _lazy.attributes(__name__, _LATER, "utils")


def safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights=None, combiner=None, default_id=None, name=None,
                                 partition_strategy="div", max_norm=None):
    """Looks up embeddings of sparse ids and combines those of each row; invalid ids and empty rows are handled."""
    from ... import nn
    return nn.safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights, combiner or "mean", default_id, name,
                                           partition_strategy, max_norm)
