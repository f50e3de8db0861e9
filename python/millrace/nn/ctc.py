"""Connectionist temporal classification: sequences whose labels are not aligned."""

from ..framework import convert, dtypes, op_defs, ops
from ..framework.op_defs import raw
from ..framework.sparse import SparseTensor
from ..ops import array, math
from ..ops.math import deprecated

__all__ = ["collapse_repeated", "ctc_beam_search_decoder", "ctc_beam_search_decoder_v2", "ctc_greedy_decoder", "ctc_loss",
           "ctc_loss_v2", "ctc_unique_labels"]


def ctc_loss(labels, inputs=None, sequence_length=None, preprocess_collapse_repeated=False, ctc_merge_repeated=True,
             ignore_longer_outputs_than_inputs=False, time_major=True, logits=None):
    """A loss for each sequence; labels is a sparse matrix, and the last class is the blank."""
    if not isinstance(labels, SparseTensor):
        raise TypeError("Expected labels (first argument) to be a SparseTensor")
    inputs = deprecated(logits, "logits", inputs, "inputs")
    inputs = convert.convert_to_tensor(inputs, name="logits")
    if not time_major:
        inputs = array.transpose(inputs, [1, 0, 2])
    return op_defs.call("CTCLoss", None, inputs=inputs, labels_indices=labels.indices, labels_values=labels.values,
                        sequence_length=sequence_length, preprocess_collapse_repeated=preprocess_collapse_repeated,
                        ctc_merge_repeated=ctc_merge_repeated,
                        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs)[0]


def ctc_loss_v2(labels, logits, label_length, logit_length, logits_time_major=True, unique=None, blank_index=None, name=None):
    """ctc_loss with labels that may be dense, and any class as the blank (the first with dense labels)."""
    with ops.name_scope(name, "ctc_loss_dense" if not isinstance(labels, SparseTensor) else "ctc_loss", [logits]):
        logits = convert.convert_to_tensor(logits, name="logits")
        classes = logits.shape.as_list()[2]
        if classes is None:
            raise ValueError("The number of classes must be known")
        if not isinstance(labels, SparseTensor):
            blank_index = 0 if blank_index is None else blank_index
            labels = _sparse(labels, label_length)
        elif blank_index is None:
            raise ValueError("blank_index must be given when using SparseTensor labels.")
        blank = blank_index % classes
        if blank != classes - 1:  # the op's blank is the last class
            logits = array.concat([logits[:, :, :blank], logits[:, :, blank + 1:], logits[:, :, blank:blank + 1]], 2)
            values = array.where(labels.values < blank, labels.values, labels.values - 1)
            labels = SparseTensor(labels.indices, values, labels.dense_shape)
        return ctc_loss(labels, logits, logit_length, time_major=logits_time_major)


def _sparse(labels, lengths):
    """The first elements of each row, as many as its length."""
    labels = convert.convert_to_tensor(labels)
    at = array.where(array.sequence_mask(lengths, array.shape(labels)[1]))
    return SparseTensor(at, math.cast(array.gather_nd(labels, at), dtypes.int32), array.shape(labels, out_type=dtypes.int64))


def ctc_greedy_decoder(inputs, sequence_length, merge_repeated=True):
    """([sparse labels], negated sum of the largest logits)"""
    indices, values, shape, score = op_defs.call("CTCGreedyDecoder", None, inputs=inputs, sequence_length=sequence_length,
                                                 merge_repeated=merge_repeated)
    return [SparseTensor(indices, values, shape)], score


def ctc_beam_search_decoder(inputs, sequence_length, beam_width=100, top_paths=1, merge_repeated=True):
    """(top_paths sparse labels, their log probabilities)"""
    found = raw.ctc_beam_search_decoder(inputs, sequence_length, beam_width=beam_width, top_paths=top_paths,
                                        merge_repeated=merge_repeated)
    indices, values, shapes_, scores = found
    return [SparseTensor(*one) for one in zip(indices, values, shapes_)], scores


def ctc_beam_search_decoder_v2(inputs, sequence_length, beam_width=100, top_paths=1):
    """Decodes with a beam search that never merges repeated classes in its output.

    Returns the list of the best paths, as sparse tensors, and their log probabilities."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)


def ctc_unique_labels(labels, name=None):
    """(distinct labels of each row, padded; where each label is among them)"""
    from ..ops import functional
    with ops.name_scope(name, "ctc_unique_labels", [labels]):
        labels = convert.convert_to_tensor(labels, name="labels")

        def row(x):
            found = array.unique(x)
            y = array.pad(found.y, [[0, array.size(found.idx) - array.size(found.y)]])
            return [math.cast(y, dtypes.int64), math.cast(found.idx, dtypes.int64)]

        unique, places = functional.map_fn(row, labels, dtype=[dtypes.int64, dtypes.int64])
        return unique, places


def collapse_repeated(labels, seq_length, name=None):
    """(labels without repetitions, padded with 0; the new lengths)"""
    with ops.name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        labels = convert.convert_to_tensor(labels, name="labels")
        seq_length = convert.convert_to_tensor(seq_length, name="seq_length")
        first = math.logical_or(math.not_equal(labels[:, 1:], labels[:, :-1]), False)
        keep = array.concat([array.ones_like(labels[:, :1], dtypes.bool_), first], 1)
        keep = math.logical_and(keep, array.sequence_mask(seq_length, array.shape(labels)[1]))
        lengths = math.reduce_sum(math.cast(keep, seq_length.dtype.base_dtype), 1)
        longest = math.reduce_max(lengths)
        at = array.where(array.sequence_mask(lengths, longest))
        shape = array.stack([math.cast(array.shape(labels)[0], dtypes.int64), math.cast(longest, dtypes.int64)])
        return array.scatter_nd(at, array.boolean_mask(labels, keep), shape), lengths
