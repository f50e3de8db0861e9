"""tensorflow.python.data.util.nest: structures of the elements of datasets.

As tf.nest, but lists and SparseTensorValues are leaves: they are values that become tensors.
"""

import collections.abc

from ..framework.nest import _compare_types
from .structure import _children, flatten, is_nest as is_sequence, pack

__all__ = ["assert_same_structure", "assert_shallow_structure", "flatten", "flatten_up_to", "is_sequence", "map_structure",
           "map_structure_up_to", "pack_sequence_as"]


def pack_sequence_as(structure, flat_sequence):
    """The leaves of flat_sequence in the form of structure."""
    flat = list(flat_sequence)
    n = len(flatten(structure))
    if n != len(flat):
        raise ValueError("Could not pack sequence. Structure had %d elements, but flat_sequence had %d elements. "
                         "Structure: %s, flat_sequence: %s." % (n, len(flat), structure, flat))
    return pack(structure, flat)


def assert_same_structure(nest1, nest2, check_types=True):
    """ValueError when the forms differ, TypeError when only the types of their parts do."""
    if is_sequence(nest1) != is_sequence(nest2):
        raise ValueError("The two structures don't have the same nested structure. First structure: %s, second structure: %s." %
                         (nest1, nest2))
    if not is_sequence(nest1):
        return
    if len(flatten(nest1)) != len(flatten(nest2)):
        raise ValueError("The two structures don't have the same number of elements. First structure: %s, second structure: %s."
                         % (nest1, nest2))
    if check_types:
        _compare_types(nest1, nest2)
    if isinstance(nest1, collections.abc.Mapping) and set(nest1) != set(nest2):
        raise ValueError("The two dictionaries don't have the same set of keys. First keys: %s, second keys: %s" %
                         (list(nest1), list(nest2)))
    for a, b in zip(_children(nest1), _children(nest2)):
        assert_same_structure(a, b, check_types)


def map_structure(func, *structure, **kwargs):
    """func of the leaves of structures of the same form, in that form."""
    check_types = kwargs.pop("check_types", True)
    if kwargs:
        raise ValueError("Only valid keyword argument is check_types")
    if not callable(func):
        raise TypeError("func must be callable, got: %s" % (func,))
    if not structure:
        raise ValueError("Must provide at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in zip(*map(flatten, structure))])


def assert_shallow_structure(shallow_tree, input_tree, check_types=True):
    """Raises an error unless input_tree has the structure of shallow_tree; leaves may be structures."""
    if not is_sequence(shallow_tree):
        return
    if not is_sequence(input_tree):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. Input has type: %s." %
                        type(input_tree))
    if check_types and not isinstance(input_tree, type(shallow_tree)):
        raise TypeError("The two structures don't have the same sequence type. Input structure has type %s, while shallow "
                        "structure has type %s." % (type(input_tree), type(shallow_tree)))
    if len(input_tree) != len(shallow_tree):
        raise ValueError("The two structures don't have the same sequence length. Input structure has length %s, while shallow "
                         "structure has length %s." % (len(input_tree), len(shallow_tree)))
    if check_types and isinstance(shallow_tree, collections.abc.Mapping) and set(input_tree) != set(shallow_tree):
        raise ValueError("The two structures don't have the same keys. Input structure has keys %s, while shallow structure "
                         "has keys %s." % (list(input_tree), list(shallow_tree)))
    for s, t in zip(_children(shallow_tree), _children(input_tree)):
        assert_shallow_structure(s, t, check_types)


def _up_to(shallow, x):
    if not is_sequence(shallow):
        return [x]
    return [leaf for s, child in zip(_children(shallow), _children(x)) for leaf in _up_to(s, child)]


def flatten_up_to(shallow_tree, input_tree):
    """The parts of input_tree where shallow_tree has its leaves."""
    assert_shallow_structure(shallow_tree, input_tree)
    return _up_to(shallow_tree, input_tree)


def map_structure_up_to(shallow_tree, func, *inputs):
    """Calls func on the matching parts of the inputs, taken only as deep as shallow_tree goes, and returns the
    results in its structure."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    flat = [flatten_up_to(shallow_tree, t) for t in inputs]
    return pack_sequence_as(shallow_tree, [func(*leaves) for leaves in zip(*flat)])
