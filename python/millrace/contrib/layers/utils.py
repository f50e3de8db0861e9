"""What layers as functions share: collections of variables and outputs, booleans that may be tensors."""

import collections

from ...framework import ops
from ...ops import array
from ...layers.utils import constant_value, smart_cond  # noqa: F401 -- public names here

__all__ = ["append_tensor_alias", "collect_named_outputs", "constant_value", "convert_collection_to_dict",
           "gather_tensors_aliases",
           "get_tensor_aliases", "get_variable_collections", "last_dimension", "n_positive_integers", "smart_cond",
           "static_cond", "two_element_tuple"]


def get_variable_collections(variables_collections, name):
    """The collections for a variable: a list for all of them, or {name: list}."""
    if isinstance(variables_collections, dict):
        return variables_collections.get(name)
    return variables_collections


def append_tensor_alias(tensor, alias):
    """Gives a tensor another name, without a slash at its end."""
    alias = alias[:-1] if alias[-1] == "/" else alias
    if hasattr(tensor, "aliases"):
        tensor.aliases.append(alias)
    else:
        tensor.aliases = [alias]
    return tensor


def gather_tensors_aliases(tensors):
    """Returns the aliases of all tensors in one list."""
    return [a for t in tensors for a in get_tensor_aliases(t)]


def get_tensor_aliases(tensor):
    """Returns the aliases of a tensor, or its name without ":0" if it has none."""
    if hasattr(tensor, "aliases"):
        return tensor.aliases
    name = tensor.name[:-2] if tensor.name[-2:] == ":0" else tensor.name
    return [name]


def collect_named_outputs(collections, alias, outputs):
    """Adds a layer's output to collections, and the scope's name as a name of it."""
    if collections:
        append_tensor_alias(outputs, alias)
        ops.add_to_collections(collections, outputs)
    return outputs


def convert_collection_to_dict(collection, clear_collection=False):
    """{alias: tensor} of a collection, in its order."""
    found = collections.OrderedDict((alias, t) for t in ops.get_collection(collection) for alias in get_tensor_aliases(t))
    if clear_collection:
        ops.get_default_graph().clear_collection(collection)
    return found


def static_cond(pred, fn1, fn2):
    """Calls fn1 if pred is true, else fn2; pred is a Python value."""
    return fn1() if pred else fn2()


def last_dimension(shape, min_rank=1):
    """Returns the size of the last dimension of a static shape; ValueError if it is not known."""
    return channel_dimension(shape, "NHWC", min_rank)


def channel_dimension(shape, data_format, min_rank=1):
    """The number of channels, which must be known."""
    dims = shape.as_list() if shape.ndims is not None else None
    if dims is None or len(dims) < min_rank:
        raise ValueError("rank of shape must be at least %d not: %s" % (min_rank, None if dims is None else len(dims)))
    n = dims[1] if data_format and data_format.startswith("NC") else dims[-1]
    if n is None:
        raise ValueError("The channel dimension must be known: %s" % shape)
    return n


def two_element_tuple(value):
    """Returns a pair from an int, a pair or a shape."""
    return tuple(n_positive_integers(2, value))


def n_positive_integers(n, value):
    """n numbers above 0, from one or from a list of n."""
    values = value.as_list() if hasattr(value, "as_list") else value
    values = list(values) if isinstance(values, (list, tuple)) else [values] * n
    values = [int(v) for v in values]
    if len(values) != n or any(v <= 0 for v in values):
        raise ValueError("Expected %d positive integers, got %s" % (n, value))
    return tuple(values)


def identity_after(updates, outputs):
    """Outputs that wait for updates."""
    with ops.control_dependencies(updates):
        return array.identity(outputs)
