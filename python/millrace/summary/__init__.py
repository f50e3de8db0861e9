"""tf.summary: ops whose output is a serialized Summary, and the writer of the files that TensorBoard shows.

    tf.summary.scalar("loss", loss)
    merged = tf.summary.merge_all()
    writer = tf.summary.FileWriter("/tmp/log", sess.graph)
    ... writer.add_summary(sess.run(merged), step)

The tag of a summary is the name of its op, with the scopes it is in; a family is put in front of that.
"""
import contextlib
import re

from ..framework import convert, dtypes
from ..framework import ops as _ops
from ..framework.op_defs import raw as _raw
from ..protos import Event, SessionLog, Summary, SummaryDescription, SummaryMetadata, TaggedRunMetadata
from .writer import FileWriter, FileWriterCache, summary_iterator  # noqa: F401

__all__ = ["Event", "FileWriter", "FileWriterCache", "SessionLog", "Summary", "SummaryDescription", "TaggedRunMetadata",
           "audio",
           "get_summary_description", "histogram", "image", "merge", "merge_all", "scalar", "tensor_summary", "text"]

_NOT_IN_TAGS = re.compile(r"[^-/\w\.]")


def _clean_tag(name):
    """A name that a tag can have."""
    if name is None:
        return None
    clean = _NOT_IN_TAGS.sub("_", name).lstrip("/")
    if clean != name:
        from .. import logging
        logging.info("Summary name %s is illegal; using %s instead.", name, clean)
    return clean


@contextlib.contextmanager
def _scope(name, family=None, default_name=None, values=()):
    """(tag, name scope) of a summary."""
    name, family = _clean_tag(name), _clean_tag(family)
    base = name if family is None else "%s/%s" % (family, name)
    with _ops.name_scope(base, default_name, list(values)) as scope:
        tag = scope.rstrip("/")
        yield (tag if family is None else "%s/%s" % (family, tag)), scope


def _collect(value, collections, default=(_ops.GraphKeys.SUMMARIES,)):
    for key in default if collections is None else collections:
        _ops.add_to_collection(key, value)
    return value


def scalar(name, tensor, collections=None, family=None):
    """A number."""
    with _scope(name, family, values=[tensor]) as (tag, scope):
        return _collect(_raw.scalar_summary(tag, tensor, name=scope), collections)


def histogram(name, values, collections=None, family=None):
    """Returns a summary with the histogram of a tensor."""
    with _scope(name, family, "HistogramSummary", [values]) as (tag, scope):
        return _collect(_raw.histogram_summary(tag, values, name=scope), collections)


def image(name, tensor, max_outputs=3, collections=None, family=None, max_images=None):
    """The first images of a batch [batch, height, width, 1, 3 or 4 channels], bytes or floats that are scaled to bytes."""
    with _scope(name, family, values=[tensor]) as (tag, scope):
        return _collect(_raw.image_summary(tag, tensor, max_images=max_images or max_outputs, name=scope), collections)


def audio(name, tensor, sample_rate, max_outputs=3, collections=None, family=None):
    """The first clips of a batch [batch, frames, channels], between -1 and 1."""
    with _scope(name, family, values=[tensor]) as (tag, scope):
        rate = convert.convert_to_tensor(sample_rate, dtypes.float32, name="sample_rate")
        return _collect(_raw.audio_summary_v2(tag, tensor, rate, max_outputs=max_outputs, name=scope), collections)


def tensor_summary(name, tensor, summary_description=None, collections=None, summary_metadata=None, family=None,
                   display_name=None):
    """A tensor as it is, with what a plugin of TensorBoard wants to know of it."""
    metadata = SummaryMetadata()
    if summary_metadata is not None:
        metadata.CopyFrom(summary_metadata)
    if display_name is not None:
        metadata.display_name = display_name
    if summary_description is not None:
        metadata.summary_description = summary_description
    with _scope(name, family, values=[tensor]) as (tag, scope):
        value = _raw.tensor_summary_v2(tag, tensor, metadata.SerializeToString(), name=scope)
        return _collect(value, collections)


def text(name, tensor, collections=None):
    """Texts, which TensorBoard reads as Markdown."""
    tensor = convert.convert_to_tensor(tensor)
    if tensor.dtype.base_dtype is not dtypes.string:
        raise ValueError("Expected tensor %s to have dtype string, got %s" % (tensor.name, tensor.dtype))
    metadata = SummaryMetadata()
    metadata.plugin_data.plugin_name = "text"
    return tensor_summary(name, tensor, summary_metadata=metadata, collections=collections)


def merge(inputs, collections=None, name=None):
    """Joins summaries into one; a tag may not occur twice."""
    inputs = list(inputs)
    clean = _clean_tag(name)
    with _ops.name_scope(clean, "Merge", inputs):
        return _collect(_raw.merge_summary(inputs, name=clean), collections, ())


def merge_all(key=_ops.GraphKeys.SUMMARIES, scope=None, name=None):
    """Joins all summaries of the default graph into one; None if there are none."""
    found = _ops.get_collection(key, scope)
    return merge(found, name=name) if found else None


def get_summary_description(node_def):
    """The description of a TensorSummary's node."""
    if node_def.op != "TensorSummary":
        raise ValueError("Can't get_summary_description on %s" % node_def.op)
    from ..protos import json_format
    description = SummaryDescription()
    data = node_def.attr["description"].s.decode()
    if data:
        json_format.Parse(data, description)
    return description
