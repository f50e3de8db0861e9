"""What the elements of a dataset are: tuples and dicts with tensors, sparse tensors or datasets at their leaves.

The library knows an element as a flat list of tensors, its components.  A leaf is one component: a tensor is itself, a sparse
tensor is packed into a vector of three variants, a dataset is the variant that stands for it.  Codecs (one a kind of leaf) say
how; a structure is a nest of their specs.  Lists are no structures here but values that become one tensor.
"""

import collections.abc

from ..framework import convert, dtypes, ops, shapes, sparse
from ..framework.op_defs import call
from ..framework.type_spec import SparseTensorSpec, TensorSpec, TypeSpec


# ---- nests without lists ----

def is_nest(x):
    """Whether a value is a structure: a dict or a tuple."""
    return isinstance(x, collections.abc.Mapping) or isinstance(x, tuple) and not isinstance(x, sparse.SparseTensorValue)


def _children(x):
    return [x[k] for k in sorted(x)] if isinstance(x, collections.abc.Mapping) else list(x)


def flatten(x):
    """Returns the leaves of a structure as a list."""
    if not is_nest(x):
        return [x]
    return [leaf for child in _children(x) for leaf in flatten(child)]


def pack(like, leaves):
    """Leaves in the form of `like`."""
    it = iter(leaves)
    packed = _pack(like, it)
    if next(it, it) is not it:
        raise ValueError("There are more values than leaves of %s" % (like,))
    return packed


def _pack(like, leaves):
    if not is_nest(like):
        return next(leaves)
    children = [_pack(child, leaves) for child in _children(like)]
    if isinstance(like, collections.abc.Mapping):
        by_key = dict(zip(sorted(like), children))
        return type(like)((k, by_key[k]) for k in like)
    return type(like)(*children) if hasattr(like, "_fields") else tuple(children)


def map_leaves(f, x, *others):
    """f of each leaf of x and what the others have in its place, which may be structures."""
    return pack(x, [f(*leaves) for leaves in zip(flatten(x), *(flatten_up_to(x, o) for o in others))])


def flatten_up_to(shallow, x):
    """The parts of x where shallow has its leaves; a list in x is taken for a tuple where shallow has one."""
    if not is_nest(shallow):
        return [x]
    if not is_nest(x) and not isinstance(x, list):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. Input has type: %s." % type(x))
    if isinstance(shallow, collections.abc.Mapping):
        if not isinstance(x, collections.abc.Mapping) or set(x) != set(shallow):
            raise ValueError("The two structures don't have the same keys: %s and %s" % (list(shallow), x))
    elif len(shallow) != len(x):
        raise ValueError("The two structures don't have the same sequence length. Input structure has length %d, while shallow "
                         "structure has length %d." % (len(x), len(shallow)))
    return [leaf for s, child in zip(_children(shallow), _children(x)) for leaf in flatten_up_to(s, child)]


# ---- leaves ----

class DatasetSpec(TypeSpec):
    """The spec of a dataset that is part of an element."""

    def __init__(self, element_spec, dataset_shape=()):
        super().__init__(dataset_shape, dtypes.variant)
        self.element_spec = element_spec

    def _key(self):
        return self._shape._tuple(), repr(self.element_spec)

    def __repr__(self):
        return "DatasetSpec(%r, %s)" % (self.element_spec, self._shape)


class _TensorCodec:
    @staticmethod
    def component(spec):
        return spec.dtype, spec.shape

    @staticmethod
    def encode(value):
        return value

    encode_rows = encode

    @staticmethod
    def decode(spec, component):
        component.set_shape(spec.shape)
        return component

    @staticmethod
    def reshaped(spec, shape):
        return TensorSpec(shape, spec.dtype)


class _SparseCodec:
    @staticmethod
    def component(spec):
        """A packed one has three parts; behind batching there are dimensions before them, one if the rank says so."""
        return dtypes.variant, shapes.TensorShape(None)

    @staticmethod
    def encode(value):
        return call("SerializeSparse", None, sparse_indices=value.indices, sparse_values=value.values,
                    sparse_shape=value.dense_shape, out_type=dtypes.variant)

    @staticmethod
    def encode_rows(value):
        return call("SerializeManySparse", None, sparse_indices=value.indices, sparse_values=value.values,
                    sparse_shape=value.dense_shape, out_type=dtypes.variant)

    @staticmethod
    def decode(spec, component):
        parts = call("DeserializeSparse", None, serialized_sparse=component, dtype=spec.dtype)
        rank = spec.shape.ndims
        parts[0].set_shape([None, rank])
        parts[2].set_shape([rank])
        return sparse.SparseTensor(*parts)

    @staticmethod
    def reshaped(spec, shape):
        return SparseTensorSpec(shape, spec.dtype)


class _DatasetCodec:
    @staticmethod
    def component(spec):
        return dtypes.variant, spec.shape

    @staticmethod
    def encode(value):
        return value._variant_tensor

    @staticmethod
    def encode_rows(value):
        if value._variant_tensor.shape.ndims == 0:
            raise TypeError("A dataset cannot be sliced into elements")
        return value._variant_tensor

    @staticmethod
    def decode(spec, component):
        from .dataset import Dataset
        component.set_shape(spec.shape)
        return Dataset(component, spec.element_spec)

    @staticmethod
    def reshaped(spec, shape):
        return DatasetSpec(spec.element_spec, shape)


_CODECS = {TensorSpec: _TensorCodec, SparseTensorSpec: _SparseCodec, DatasetSpec: _DatasetCodec}


_OTHERS = {}  # kinds of values that modules above this one define, and their specs


def add_kind(kind, spec, codec):
    """Lets elements have values of a class at their leaves."""
    _CODECS[spec], _OTHERS[kind] = codec, spec


def _codec(spec):
    return _CODECS[type(spec)]


def spec_of(value):
    """Returns the spec of a value."""
    if isinstance(value, ops.Tensor):
        return TensorSpec(value.shape, value.dtype)
    if isinstance(value, sparse.SparseTensor):
        return SparseTensorSpec(value.shape, value.dtype)
    if type(value) in _OTHERS:
        return _OTHERS[type(value)].from_value(value)
    return DatasetSpec(value.element_spec, value._variant_tensor.shape)


# ---- structures ----

def as_values(x):
    """The nest with tensors, sparse tensors and datasets for what Python has."""
    from .dataset import Dataset
    with ops.name_scope(None, "tensors"):
        leaves = []
        for i, leaf in enumerate(flatten(x)):
            if isinstance(leaf, list) and leaf and all(isinstance(d, Dataset) for d in leaf):
                variants = call("Pack", None, values=[d._variant_tensor for d in leaf])
                leaf = Dataset(variants, leaf[0].element_spec, inputs=leaf)
            elif isinstance(leaf, sparse.SparseTensorValue):
                leaf = sparse.SparseTensor.from_value(leaf)
            elif not isinstance(leaf, (sparse.SparseTensor, Dataset)) and type(leaf) not in _OTHERS:
                leaf = convert.convert_to_tensor(leaf, name="component_%d" % i)
            leaves.append(leaf)
    return pack(x, leaves)


def specs_of(values):
    """Returns the specs of the leaves of a structure, in the same structure."""
    return map_leaves(spec_of, values)


def encode(values, rows=False):
    """The components of an element, or of many one after the other."""
    specs = [spec_of(v) for v in flatten(values)]
    return [_codec(s).encode_rows(v) if rows else _codec(s).encode(v) for s, v in zip(specs, flatten(values))]


def decode(specs, components):
    """Makes values from the tensors of a dataset element, in the structure of specs."""
    return pack(specs, [_codec(s).decode(s, c) for s, c in zip(flatten(specs), components)])


def types(specs):
    """Returns the types of the tensors of a dataset element as a list."""
    return [_codec(s).component(s)[0] for s in flatten(specs)]


def shapes_of(specs):
    """Returns the shapes of the tensors of a dataset element as a list."""
    return [_codec(s).component(s)[1] for s in flatten(specs)]


def reshaped(f, specs):
    """The specs with f(shape) for their shapes."""
    return map_leaves(lambda s: _codec(s).reshaped(s, f(s.shape)), specs)


def batched(specs, size):
    """Returns the specs with a first dimension of this size added."""
    return reshaped(shapes.TensorShape([size]).concatenate, specs)


def unbatched(specs):
    """Returns the specs without their first dimension."""
    return reshaped(lambda shape: shape[1:] if shape.ndims is not None else shape, specs)


def relaxed(a, b):
    """What holds for values of either; a TypeError when they differ in more than shapes."""
    check_same_types(a, b)
    return map_leaves(lambda s, t: _codec(s).reshaped(s, s.shape.most_specific_compatible_shape(t.shape)), a, b)


def _is_other(spec):
    return type(spec) in _OTHERS.values()


def legacy_types(specs):
    """Returns the types of the leaves, in the same structure."""
    return map_leaves(lambda s: s if _is_other(s) else s.dtype, specs)


def legacy_shapes(specs):
    """Returns the shapes of the leaves, in the same structure."""
    return map_leaves(lambda s: s if _is_other(s) else s.shape, specs)


def legacy_classes(specs):
    """As in TensorFlow 1.x, a kind of value without a legacy class is its own class."""
    from .dataset import Dataset
    return map_leaves(lambda s: Dataset if isinstance(s, DatasetSpec) else s if _is_other(s) else s.value_type, specs)


def from_legacy(types_, shapes_=None, classes=None):
    """Specs from nests of types, shapes and classes."""
    flat_types = [t if _is_other(t) else dtypes.as_dtype(t) for t in flatten(types_)]
    if is_nest(types_) and isinstance(shapes_, list):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. Input has type: %s." %
                        type(shapes_))
    flat_shapes = [None] * len(flat_types) if shapes_ is None else flatten_up_to(types_, shapes_)
    flat_classes = [ops.Tensor] * len(flat_types) if classes is None else flatten(classes)
    made = []
    for t, s, c in zip(flat_types, flat_shapes, flat_classes):
        if _is_other(t):
            made.append(t)
            continue
        if c not in (ops.Tensor, sparse.SparseTensor):
            raise TypeError("A component of class %s cannot be described by its type and shape" % c)
        made.append((SparseTensorSpec if c is sparse.SparseTensor else TensorSpec)(s, t))
    return pack(types_, made)


def check_same_types(a, b):
    """Raises TypeError unless both structures of specs have the same structure and types."""
    same = flatten(map_leaves(lambda s: 0, a)) == flatten(map_leaves(lambda s: 0, b)) and \
        [(type(s), s.dtype) for s in flatten(a)] == [(type(s), s.dtype) for s in flatten(b)]
    if not same:
        raise TypeError("Expected elements of types %s and classes %s, but got types %s and classes %s." %
                        (legacy_types(a), legacy_classes(a), legacy_types(b), legacy_classes(b)))
    flatten_up_to(a, b)


def are_compatible(a, b):
    """Whether two structures have the same form, and specs that fit each other."""
    try:
        parts = flatten_up_to(a, b)
    except (TypeError, ValueError):
        return False
    return all(isinstance(t, TypeSpec) and s.is_compatible_with(t) for s, t in zip(flatten(a), parts))


def is_compatible(a, b):
    """Whether values of b may stand where a is expected, as far as shapes can tell."""
    return all(s.shape.is_compatible_with(t.shape) for s, t in zip(flatten(a), flatten(b)))
