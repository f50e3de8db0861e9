"""tf.data.experimental.Optional: a value that may be missing, such as the next element of an iterator that may have ended.

It is one variant tensor.  The codec below lets datasets have optionals as parts of their elements.
"""

from ..framework import dtypes, op_defs, ops
from ..framework.op_defs import call
from ..framework.type_spec import TypeSpec
from . import structure

__all__ = ["Optional", "OptionalSpec", "OptionalStructure", "get_next_as_optional"]


class Optional:
    """A value or nothing."""

    def __init__(self, variant_tensor, value_structure):
        self._variant_tensor, self._value_structure = variant_tensor, value_structure

    @staticmethod
    def from_value(value):
        """Makes an optional that has this value."""
        with ops.name_scope("optional") as scope:
            with ops.name_scope("value"):
                values = structure.as_values(value)
                components = structure.encode(values)
        return Optional(call("OptionalFromValue", scope, components=components), structure.specs_of(values))

    @staticmethod
    def none_from_structure(value_structure):
        """Makes an optional without a value."""
        return Optional(call("OptionalNone", None), value_structure)

    value_structure = property(lambda self: self._value_structure, doc="The specs of the parts of the value.")
    graph = property(lambda self: self._variant_tensor.graph, doc="The graph of the optional.")

    def has_value(self, name=None):
        """Returns a bool tensor: whether there is a value."""
        return call("OptionalHasValue", name, optional=self._variant_tensor)

    def get_value(self, name=None):
        """The value; running it fails if the optional is empty."""
        with ops.name_scope(name, "OptionalGetValue", [self._variant_tensor]) as scope:
            flat = op_defs.call("OptionalGetValue", scope, optional=self._variant_tensor,
                                output_types=structure.types(self._value_structure),
                                output_shapes=structure.shapes_of(self._value_structure))
        return structure.decode(self._value_structure, flat)

    @property
    def _type_spec(self):
        return OptionalSpec(self._value_structure)

    def _composite_parts(self):
        """For framework.nest."""
        return [self._variant_tensor], lambda parts: Optional(parts[0], self._value_structure)

    def __repr__(self):
        return "Optional(%r)" % (self._value_structure,)


class OptionalSpec(TypeSpec):
    """The spec of an Optional."""

    value_type = Optional

    def __init__(self, value_structure):
        super().__init__((), dtypes.variant)
        self._value_structure = value_structure

    @staticmethod
    def from_value(value):
        """Returns the spec of an optional."""
        return OptionalSpec(value.value_structure)

    def is_compatible_with(self, other):
        theirs = getattr(other, "_value_structure", None)
        return isinstance(other, (OptionalSpec, Optional)) and structure.are_compatible(self._value_structure, theirs)

    def _serialize(self):
        return (self._value_structure,)

    @property
    def _component_specs(self):
        return [structure.TensorSpec((), dtypes.variant)]

    def _to_components(self, value):
        return [value._variant_tensor]

    def _from_components(self, components):
        return Optional(components[0], self._value_structure)

    def _key(self):
        return self._shape._tuple(), repr(self._value_structure)

    def __repr__(self):
        return "OptionalSpec(%r)" % (self._value_structure,)


OptionalStructure = OptionalSpec


class _Codec:
    """How an optional is a component of an element."""

    @staticmethod
    def component(spec):
        return dtypes.variant, spec.shape

    @staticmethod
    def encode(value):
        return value._variant_tensor

    @staticmethod
    def encode_rows(value):
        raise TypeError("An optional cannot be sliced into elements")

    @staticmethod
    def decode(spec, component):
        component.set_shape(spec.shape)
        return Optional(component, spec._value_structure)

    @staticmethod
    def reshaped(spec, shape):
        if shape.ndims:
            raise TypeError("Optionals cannot be batched")
        return spec


structure.add_kind(Optional, OptionalSpec, _Codec)


def get_next_as_optional(iterator):
    """The next element of an iterator, or nothing at its end."""
    with ops.colocate_with(iterator._iterator_resource.op):
        variant = call("IteratorGetNextAsOptional", None, iterator=iterator._iterator_resource,
                       output_types=structure.types(iterator.element_spec),
                       output_shapes=structure.shapes_of(iterator.element_spec))
    return Optional(variant, iterator.element_spec)
