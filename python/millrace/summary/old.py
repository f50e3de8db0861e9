"""Summaries by the names they had before 1.0: tf.scalar_summary(tag, value).  The tag is the text that is given, without
scopes.
"""
from ..framework import ops as _ops
from ..framework.op_defs import raw as _raw
from . import _collect
from .writer import FileWriter, FileWriterCache


def scalar_summary(tags, values, collections=None, name=None):
    """Returns a summary of scalars, with a tag for each; the form before TensorFlow 1.0."""
    with _ops.name_scope(name, "ScalarSummary", [tags, values]) as scope:
        return _collect(_raw.scalar_summary(tags, values, name=scope), collections)


def histogram_summary(tag, values, collections=None, name=None):
    """Returns a summary with the histogram of values; the form before TensorFlow 1.0."""
    with _ops.name_scope(name, "HistogramSummary", [tag, values]) as scope:
        return _collect(_raw.histogram_summary(tag, values, name=scope), collections)


def image_summary(tag, tensor, max_images=3, collections=None, name=None):
    """Returns a summary of at most max_images images; the form before TensorFlow 1.0."""
    with _ops.name_scope(name, "ImageSummary", [tag, tensor]) as scope:
        return _collect(_raw.image_summary(tag, tensor, max_images=max_images, name=scope), collections)


def audio_summary(tag, tensor, sample_rate, max_outputs=3, collections=None, name=None):
    """Returns a summary of at most max_outputs sounds; the form before TensorFlow 1.0."""
    with _ops.name_scope(name, "AudioSummary", [tag, tensor]) as scope:
        return _collect(_raw.audio_summary_v2(tag, tensor, float(sample_rate), max_outputs=max_outputs, name=scope),
                        collections)


def merge_summary(inputs, collections=None, name=None):
    """Joins summaries into one; the form before TensorFlow 1.0."""
    with _ops.name_scope(name, "MergeSummary", list(inputs)):
        return _collect(_raw.merge_summary(list(inputs), name=name), collections, ())


def merge_all_summaries(key=_ops.GraphKeys.SUMMARIES):
    """Joins all summaries of a collection into one, or returns None; the form before TensorFlow 1.0."""
    found = _ops.get_collection(key)
    return merge_summary(found) if found else None


SummaryWriter, SummaryWriterCache = FileWriter, FileWriterCache
