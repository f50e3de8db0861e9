"""Nested structures: lists, tuples, named tuples and dicts with anything else at their leaves.

The leaves of a dict come in the order of its sorted keys, so that equal structures agree.  With expand_composites, objects that
stand for several tensors (SparseTensor, IndexedSlices) are structures of them too; such a class has `_composite_parts()`, which
gives the tensors and a function that makes an object like it of others.
"""

import collections
import collections.abc


def _is_named_tuple(x):
    return isinstance(x, tuple) and hasattr(x, "_fields")


def is_sequence(seq):
    """Whether a value is a structure and not a leaf."""
    return isinstance(seq, (list, tuple, collections.abc.Mapping, collections.abc.MappingView)) or \
        hasattr(type(seq), "__attrs_attrs__")


is_nested = is_sequence


def is_composite(x):
    return hasattr(x, "_composite_parts")


def is_sequence_or_composite(x):
    return is_sequence(x) or is_composite(x)


def _sorted_keys(d):
    try:
        return sorted(d)
    except TypeError:
        raise TypeError("nest only supports dicts with sortable keys.") from None


def _children(x):
    if isinstance(x, collections.abc.Mapping):
        return [x[k] for k in _sorted_keys(x)]
    if hasattr(type(x), "__attrs_attrs__"):
        return [getattr(x, a.name) for a in type(x).__attrs_attrs__]
    return list(x)


def _like(x, children):
    """A structure of x's kind with other children."""
    if isinstance(x, collections.abc.Mapping):
        by_key = dict(zip(_sorted_keys(x), children))
        if isinstance(x, collections.defaultdict):
            return collections.defaultdict(x.default_factory, ((k, by_key[k]) for k in x))
        return type(x)((k, by_key[k]) for k in x)
    if hasattr(type(x), "__attrs_attrs__") or _is_named_tuple(x):
        return type(x)(*children)
    if isinstance(x, collections.abc.MappingView):
        return list(children)
    return type(x)(children)


def flatten(structure, expand_composites=False):
    """The leaves in order; a leaf alone gives a list of itself."""
    out = []
    _flatten(structure, out, expand_composites)
    return out


def _flatten(x, out, composites):
    if is_sequence(x):
        for child in _children(x):
            _flatten(child, out, composites)
    elif composites and is_composite(x):
        out.extend(x._composite_parts()[0])
    else:
        out.append(x)


def pack_sequence_as(structure, flat_sequence, expand_composites=False):
    """The leaves of flat_sequence in the form of structure."""
    if isinstance(flat_sequence, (str, bytes)) or not hasattr(flat_sequence, "__iter__"):
        raise TypeError("flat_sequence must be a sequence, not %r" % (flat_sequence,))
    flat = list(flat_sequence)
    if not is_sequence(structure) and not (expand_composites and is_composite(structure)):
        if len(flat) != 1:
            raise ValueError("Structure is a scalar but len(flat_sequence) == %d > 1" % len(flat))
        return flat[0]
    n = len(flatten(structure, expand_composites))
    if n != len(flat):
        raise ValueError("Could not pack sequence. Structure had %d elements, but flat_sequence had %d elements. "
                         "Structure: %s, flat_sequence: %s." % (n, len(flat), structure, flat))
    return _pack(structure, iter(flat), expand_composites)


def _pack(x, leaves, composites):
    if is_sequence(x):
        return _like(x, [_pack(child, leaves, composites) for child in _children(x)])
    if composites and is_composite(x):
        parts, rebuild = x._composite_parts()
        return rebuild([next(leaves) for _ in parts])
    return next(leaves)


def map_structure(func, *structure, **kwargs):
    """func of the leaves of structures of the same form, in that form."""
    check_types = kwargs.pop("check_types", True)
    composites = kwargs.pop("expand_composites", False)
    if kwargs:
        raise ValueError("Only valid keyword arguments are `check_types` and `expand_composites`, not: `%s`" %
                         "`, `".join(kwargs))
    if not callable(func):
        raise TypeError("func must be callable, got: %s" % (func,))
    if not structure:
        raise ValueError("Must provide at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types, composites)
    flat = [flatten(s, composites) for s in structure]
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in zip(*flat)], composites)


def assert_same_structure(nest1, nest2, check_types=True, expand_composites=False):
    """ValueError when the forms differ; TypeError when only their types do."""
    try:
        _compare(nest1, nest2, check_types, expand_composites)
    except (ValueError, TypeError) as e:
        raise type(e)("The two structures don't have the same nested structure.\n\nFirst structure: %s\n\n"
                      "Second structure: %s\n\nMore specifically: %s" % (nest1, nest2, e)) from None


def _compare(a, b, check_types, composites):
    composite = composites and (is_composite(a) or is_composite(b))
    if composite and is_composite(a) and is_composite(b):
        if type(a) is not type(b) or len(a._composite_parts()[0]) != len(b._composite_parts()[0]):
            raise ValueError("%s and %s have different types" % (a, b))
        return
    if composite or is_sequence(a) != is_sequence(b):
        raise ValueError("Substructure \"%s\" is a sequence, while substructure \"%s\" is not" %
                         ((a, b) if is_sequence_or_composite(a) else (b, a)))
    if not is_sequence(a):
        return
    if check_types:
        _compare_types(a, b)
    if len(a) != len(b):
        raise ValueError("The two structures don't have the same number of elements: %d and %d" % (len(a), len(b)))
    if isinstance(a, collections.abc.Mapping) and set(a) != set(b):
        raise ValueError("The two dictionaries don't have the same set of keys: %s and %s" % (list(a), list(b)))
    for x, y in zip(_children(a), _children(b)):
        _compare(x, y, check_types, composites)


def _compare_types(a, b):
    if isinstance(a, collections.abc.Mapping) and isinstance(b, collections.abc.Mapping):
        return
    if _is_named_tuple(a) and _is_named_tuple(b):
        if type(a).__name__ == type(b).__name__ and a._fields == b._fields:
            return
    elif type(a) is type(b):
        return
    raise TypeError("The two namedtuples or sequences don't have the same type. First has type %s, second has type %s" %
                    (type(a).__name__, type(b).__name__))


# ---- structures that go deeper than another ----

def _are_alike(shallow, deep):
    if isinstance(shallow, collections.abc.Mapping) and isinstance(deep, collections.abc.Mapping):
        return True
    if _is_named_tuple(shallow) and _is_named_tuple(deep) and shallow._fields == deep._fields:
        return True
    return isinstance(deep, type(shallow))


def assert_shallow_structure(shallow_tree, input_tree, check_types=True, expand_composites=False):
    """Raises an error unless input_tree has the structure of shallow_tree; leaves may be structures."""
    if not is_sequence(shallow_tree):
        return
    if not is_sequence(input_tree):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. Input has type: %s." %
                        type(input_tree))
    if check_types and not _are_alike(shallow_tree, input_tree):
        raise TypeError("The two structures don't have the same sequence type. Input structure has type %s, while shallow "
                        "structure has type %s." % (type(input_tree), type(shallow_tree)))
    if len(input_tree) != len(shallow_tree):
        raise ValueError("The two structures don't have the same sequence length. Input structure has length %d, while shallow "
                         "structure has length %d." % (len(input_tree), len(shallow_tree)))
    if isinstance(shallow_tree, collections.abc.Mapping) and set(shallow_tree) != set(input_tree):
        raise ValueError("The two structures don't have the same keys. Input structure has keys %s, while shallow structure "
                         "has keys %s." % (list(input_tree), list(shallow_tree)))
    for s, t in zip(_children(shallow_tree), _children(input_tree)):
        assert_shallow_structure(s, t, check_types, expand_composites)


def flatten_up_to(shallow_tree, input_tree, check_types=True, expand_composites=False):
    """Flattens input_tree only as deep as shallow_tree goes, and returns the list of parts."""
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites)
    out = []

    def walk(s, t):
        if not is_sequence(s):
            out.append(t)
            return
        for x, y in zip(_children(s), _children(t)):
            walk(x, y)
    walk(shallow_tree, input_tree)
    return out


def map_structure_up_to(shallow_tree, func, *inputs, **kwargs):
    """Calls func on the matching parts of the inputs, taken only as deep as shallow_tree goes, and returns the
    results in the structure of shallow_tree."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    flat = [flatten_up_to(shallow_tree, t, **kwargs) for t in inputs]
    return pack_sequence_as(shallow_tree, [func(*leaves) for leaves in zip(*flat)])


def flatten_dict_items(dictionary):
    """Returns a dict of each key in a structure of keys with the matching leaf of its value."""
    if not isinstance(dictionary, collections.abc.Mapping):
        raise TypeError("input must be a dictionary")
    out = {}
    for key, value in dictionary.items():
        keys = flatten(key) if is_sequence(key) else [key]
        values = flatten(value) if is_sequence(key) else [value]
        if len(keys) != len(values):
            raise ValueError("Could not flatten dictionary. Key had %d elements, but value had %d elements. Key: %s, "
                             "value: %s." % (len(keys), len(values), keys, values))
        for k, v in zip(keys, values):
            if k in out:
                raise ValueError("Could not flatten dictionary: key %s is not unique." % (k,))
            out[k] = v
    return out
