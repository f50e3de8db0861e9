"""tf.strings, and the names of strings' functions in tf itself."""

from .framework import convert, dtypes, sparse
from .framework.op_defs import call
from .ops.op_functions import (as_string, decode_base64, encode_base64, strip, unicode_script, unicode_transcode,
                               unsorted_segment_join)

__all__ = ["as_string", "decode_base64", "encode_base64", "reduce_join", "regex_full_match", "regex_replace", "string_join",
           "string_length", "string_lower", "string_split", "string_strip", "string_to_hash_bucket",
           "string_to_hash_bucket_fast",
           "string_to_hash_bucket_strong", "string_to_number", "string_upper", "substr", "unicode_script", "unicode_transcode"]

string_strip = strip


def string_to_hash_bucket_fast(input, num_buckets, name=None):  # noqa: A002
    """Returns the hash of each string as a number from 0 to num_buckets - 1, with a fast hash."""
    return call("StringToHashBucketFast", name, input=input, num_buckets=num_buckets)


def string_to_hash_bucket_strong(input, num_buckets, key, name=None):  # noqa: A002
    """Returns the hash of each string as a number from 0 to num_buckets - 1, with a keyed hash that resists
    attacks.

    key is a list of two integers."""
    return call("StringToHashBucketStrong", name, input=input, num_buckets=num_buckets, key=key)


def string_to_hash_bucket(string_tensor=None, num_buckets=None, name=None, input=None):  # noqa: A002
    """Returns the hash of each string as a number from 0 to num_buckets - 1; input is another name of string_tensor."""
    return call("StringToHashBucket", name, string_tensor=_either(string_tensor, input), num_buckets=num_buckets)


to_hash_bucket, to_hash_bucket_fast, to_hash_bucket_strong = (string_to_hash_bucket, string_to_hash_bucket_fast,
                                                              string_to_hash_bucket_strong)


def _either(value, other):
    if (value is None) == (other is None):
        raise ValueError("Exactly one of the two names of the argument must be given")
    return other if value is None else value


def string_to_number(string_tensor=None, out_type=dtypes.float32, name=None, input=None):  # noqa: A002
    """Converts strings to numbers; input is another name of string_tensor."""
    return call("StringToNumber", name, string_tensor=_either(string_tensor, input), out_type=out_type)


to_number = string_to_number


def string_join(inputs, separator="", name=None):
    """Strings of several tensors put together, element by element; scalars go with any shape."""
    return call("StringJoin", name, inputs=list(inputs), separator=separator)


def string_length(input, name=None, unit="BYTE"):  # noqa: A002
    """Returns the length of each string, in units of "BYTE" or "UTF8_CHAR"."""
    return call("StringLength", name, input=input, unit=unit)


def string_lower(input, encoding="", name=None):  # noqa: A002
    """Converts strings to lower case; encoding is "" for ASCII or "utf-8"."""
    return call("StringLower", name, input=input, encoding=encoding)


def string_upper(input, encoding="", name=None):  # noqa: A002
    """Converts strings to upper case; encoding is "" for ASCII or "utf-8"."""
    return call("StringUpper", name, input=input, encoding=encoding)


join, length, lower, upper = string_join, string_length, string_lower, string_upper


def substr(input, pos, len, name=None, unit="BYTE"):  # noqa: A002
    """Returns the part of each string that starts at pos and has length len, in units of "BYTE" or "UTF8_CHAR"."""
    return call("Substr", name, input=input, pos=pos, len=len, unit=unit)


def regex_replace(input, pattern, rewrite, replace_global=True, name=None):  # noqa: A002
    r"""Replaces matches of a regular expression; rewrite may refer to groups as \1.

    replace_global says whether to replace all matches or the first one."""
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        return call("StaticRegexReplace", name, input=input, pattern=pattern, rewrite=rewrite, replace_global=replace_global)
    return call("RegexReplace", name, input=input, pattern=pattern, rewrite=rewrite, replace_global=replace_global)


def regex_full_match(input, pattern, name=None):  # noqa: A002
    """Returns whether each string matches a regular expression as a whole."""
    if isinstance(pattern, (str, bytes)):
        return call("StaticRegexFullMatch", name, input=input, pattern=pattern)
    return call("RegexFullMatch", name, input=input, pattern=pattern)


def reduce_join(inputs, axis=None, keep_dims=None, separator="", name=None, reduction_indices=None, keepdims=None):
    """Joins the strings along dimensions, all of them when none is given."""
    axis = reduction_indices if axis is None else axis
    keep = bool(keepdims if keep_dims is None else keep_dims)
    inputs = convert.convert_to_tensor(inputs, dtypes.string)
    if axis is None:
        rank = inputs.shape.ndims
        axis = list(range(rank - 1, -1, -1)) if rank is not None else call(
            "Range", None, start=call("Sub", None, x=call("Rank", None, input=inputs), y=1), limit=-1, delta=-1)
    return call("ReduceJoin", name, inputs=inputs, reduction_indices=convert.convert_to_tensor(axis, dtypes.int32),
                keep_dims=keep,
                separator=separator)


def string_split(source, sep=None, skip_empty=True, delimiter=" ", result_type="SparseTensor", name=None):
    """The parts of each string of a vector, as a SparseTensor [strings, most parts]."""
    if result_type != "SparseTensor":
        raise NotImplementedError("string_split with result_type=%r: ragged tensors are not supported" % result_type)
    delimiter = convert.convert_to_tensor(delimiter if sep is None else sep, dtypes.string)
    source = convert.convert_to_tensor(source, dtypes.string)
    return sparse.SparseTensor(*call("StringSplit", name, input=source, delimiter=delimiter, skip_empty=skip_empty))


def split(input=None, sep=None, maxsplit=-1, result_type="SparseTensor", source=None, name=None):  # noqa: A002
    """Splits each string as Python's str.split does."""
    if result_type != "SparseTensor":
        raise NotImplementedError("split with result_type=%r: ragged tensors are not supported" % result_type)
    source = convert.convert_to_tensor(_either(input, source), dtypes.string)
    if source.shape.ndims == 0:
        source = call("ExpandDims", None, input=source, dim=0)
    return sparse.SparseTensor(*call("StringSplitV2", name, input=source, sep="" if sep is None else sep, maxsplit=maxsplit))


def format(template, inputs, placeholder="{}", summarize=3, name=None):  # noqa: A002
    """The template with values for its placeholders."""
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    return call("StringFormat", name, inputs=inputs, template=template, placeholder=placeholder, summarize=summarize)


def bytes_split(input, name=None):  # noqa: A002
    """Raises NotImplementedError: there are no ragged tensors."""
    raise NotImplementedError("tf.strings.bytes_split: ragged tensors are not supported")
