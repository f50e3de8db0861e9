"""Training of many classes with few of them: candidate samplers and the losses that use them."""

from ..framework import convert, dtypes, op_defs, ops
from ..framework.op_defs import raw
from ..ops import array, math, random
from .cross_entropy import sigmoid_cross_entropy_with_logits, softmax_cross_entropy_with_logits_v2
from .embedding import embedding_lookup

__all__ = ["all_candidate_sampler", "compute_accidental_hits", "fixed_unigram_candidate_sampler",
           "learned_unigram_candidate_sampler", "log_uniform_candidate_sampler", "nce_loss", "sampled_softmax_loss",
           "uniform_candidate_sampler"]


def _sampler(op_type, name_in_tf):
    def f(true_classes, num_true, num_sampled, unique, range_max, seed=None, name=None):
        return op_defs.call(op_type, name, true_classes=true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique,
                            range_max=range_max, **random._seeds(seed))
    f.__name__ = f.__qualname__ = name_in_tf
    f.__doc__ = "(sampled classes, expected count of the true ones, expected count of the sampled ones)"
    return f


uniform_candidate_sampler = _sampler("UniformCandidateSampler", "uniform_candidate_sampler")
log_uniform_candidate_sampler = _sampler("LogUniformCandidateSampler", "log_uniform_candidate_sampler")
learned_unigram_candidate_sampler = _sampler("LearnedUnigramCandidateSampler", "learned_unigram_candidate_sampler")


def fixed_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, vocab_file="", distortion=1.0,
                                    num_reserved_ids=0, num_shards=1, shard=0, unigrams=(), seed=None, name=None):
    """Samples classes with the probabilities of a file or a list.

    Args:
        true_classes: int64 [batch_size, num_true], the target classes
        unique: whether a class may be sampled only once in a batch
        range_max: the number of classes
        vocab_file: a CSV file with a class in each line, whose last field is its weight; or give unigrams
        distortion: the power that weights are raised to
        num_reserved_ids: classes at the start of the range that are never sampled
        unigrams: the weights of the classes

    Returns the sampled classes, and the expected counts of the true and of the sampled classes.
    """
    return op_defs.call("FixedUnigramCandidateSampler", name, true_classes=true_classes, num_true=num_true,
                        num_sampled=num_sampled, unique=unique, range_max=range_max, vocab_file=vocab_file,
                        distortion=distortion, num_reserved_ids=num_reserved_ids, num_shards=num_shards, shard=shard,
                        unigrams=[float(u) for u in unigrams], **random._seeds(seed))


def all_candidate_sampler(true_classes, num_true, num_sampled, unique, seed=None, name=None):
    """Returns all classes as if they had been sampled, to compare a sampled loss with the full one."""
    return op_defs.call("AllCandidateSampler", name, true_classes=true_classes, num_true=num_true, num_sampled=num_sampled,
                        unique=unique, **random._seeds(seed))


def compute_accidental_hits(true_classes, sampled_candidates, num_true, seed=None, name=None):
    """Finds sampled classes that equal a true class.

    Returns the row of the batch, the position in sampled_candidates, and a weight of -FLOAT_MAX for each hit."""
    return op_defs.call("ComputeAccidentalHits", name, true_classes=true_classes, sampled_candidates=sampled_candidates,
                        num_true=num_true, **random._seeds(seed))


def _sum_rows(x):
    """Sums of rows by a matrix product, which is what TensorFlow makes of it."""
    columns = array.shape(x)[1]
    return array.reshape(math.matmul(x, array.ones(array.stack([columns, 1]), x.dtype.base_dtype)), [-1])


def _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, subtract_log_q,
                    remove_accidental_hits, partition_strategy, name, seed):
    """(logits, labels) of the true classes followed by the sampled ones."""
    with ops.name_scope(name, "compute_sampled_logits", [inputs, labels]):
        labels = math.cast(convert.convert_to_tensor(labels), dtypes.int64)
        inputs = convert.convert_to_tensor(inputs)
        flat = array.reshape(labels, [-1])
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes, seed=seed)
        sampled, true_count, sampled_count = (array.stop_gradient(s) for s in sampled_values)
        sampled = math.cast(sampled, dtypes.int64)
        ids = array.concat([flat, sampled], 0)
        true_w, sampled_w = _halves(embedding_lookup(weights, ids, partition_strategy=partition_strategy), flat, inputs)
        true_b, sampled_b = _halves(embedding_lookup(biases, ids, partition_strategy=partition_strategy), flat, inputs)
        true_logits = _true_logits(inputs, true_w, num_true) + array.reshape(true_b, [-1, num_true])
        sampled_logits = math.matmul(inputs, sampled_w, transpose_b=True) + sampled_b
        if remove_accidental_hits:
            sampled_logits += _hits(labels, sampled, num_true, sampled_logits)
        if subtract_log_q:
            true_logits -= math.log(true_count)
            sampled_logits -= math.log(sampled_count)
        logits = array.concat([true_logits, sampled_logits], 1, name="out_logits")
        wanted = array.concat([array.ones_like(true_logits) / num_true, array.zeros_like(sampled_logits)], 1, name="out_labels")
        return logits, wanted


def _halves(rows, flat, inputs):
    """The rows of the true classes, and those of the sampled ones."""
    if rows.dtype.base_dtype is not inputs.dtype.base_dtype:
        rows = math.cast(rows, inputs.dtype.base_dtype)
    n = array.shape(flat)[:1]
    rest = array.shape(rows)[1:]
    begin = array.concat([n, array.zeros_like(rest)], 0)
    true = array.slice(rows, array.zeros_like(begin), array.concat([n, rest], 0))
    sampled = array.slice(rows, begin, array.concat([[-1], rest], 0))
    true.set_shape([None] + rows.shape.as_list()[1:])
    sampled.set_shape([None] + rows.shape.as_list()[1:])
    return true, sampled


def _true_logits(inputs, true_w, num_true):
    dim = array.shape(true_w)[1]
    products = array.expand_dims(inputs, 1) * array.reshape(true_w, array.stack([-1, num_true, dim]))
    dots = _sum_rows(array.reshape(products, array.stack([-1, dim])))
    return array.reshape(dots, [-1, num_true])


def _hits(labels, sampled, num_true, sampled_logits):
    """Very negative where a sampled class is a true one, else 0."""
    rows, ids, weights = compute_accidental_hits(labels, sampled, num_true)
    indices = array.concat([array.reshape(rows, [-1, 1]), math.cast(array.reshape(ids, [-1, 1]), dtypes.int32)], 1)
    shape = array.concat([array.shape(labels)[:1], array.shape(sampled)[:1]], 0)
    if sampled_logits.dtype.base_dtype is not weights.dtype.base_dtype:
        weights = math.cast(weights, sampled_logits.dtype.base_dtype)
    return raw.sparse_to_dense(indices, shape, weights, math.cast(0.0, weights.dtype.base_dtype), validate_indices=False)


def nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1, sampled_values=None,
             remove_accidental_hits=False, partition_strategy="mod", name="nce_loss"):
    """Noise-contrastive estimation: a loss for each example."""
    logits, wanted = _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True,
                                     remove_accidental_hits, partition_strategy, name, None)
    losses = sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits, name="sampled_losses")
    return _sum_rows(losses)


def sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1, sampled_values=None,
                         remove_accidental_hits=True, partition_strategy="mod", name="sampled_softmax_loss", seed=None):
    """The cross entropy over the true and the sampled classes: a loss for each example."""
    logits, wanted = _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True,
                                     remove_accidental_hits, partition_strategy, name, seed)
    return softmax_cross_entropy_with_logits_v2(labels=array.stop_gradient(wanted, name="labels_stop_gradient"), logits=logits)
