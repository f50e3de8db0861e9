"""Enums: the wrapper that programs see, its values as attributes, and its descriptor."""


class EnumValue:
    """What a program sees as an EnumValueDescriptor."""

    def __init__(self, kind, index, name, number):
        self.type, self.index, self.name, self.number = kind, index, name, number


class EnumDescriptor:
    def __init__(self, name, full_name, lines):
        self.name, self.full_name = name, full_name
        pairs = [line.split("\t") for line in lines]
        self.values = [EnumValue(self, i, n, int(v)) for i, (n, v) in enumerate(pairs)]
        self.values_by_name = {v.name: v for v in self.values}
        self.values_by_number = {v.number: v for v in self.values}

    @property
    def file(self):
        from . import schema
        return schema.file_of(schema.short_name(self.full_name))


class EnumWrapper:
    """protos.DataType: Name, Value, keys, values, items, and DataType.DT_FLOAT."""

    def __init__(self, descriptor):
        self.DESCRIPTOR = descriptor
        self.__dict__.update((v.name, v.number) for v in descriptor.values)

    def __repr__(self):
        return "<enum %s>" % self.DESCRIPTOR.full_name

    def __reduce__(self):
        from . import schema
        return schema.enum_wrapper, (schema.short_name(self.DESCRIPTOR.full_name),)

    def Name(self, number):
        found = None
        try:
            found = self.DESCRIPTOR.values_by_number.get(number)
        except TypeError:  # a list cannot be hashed, and is not a number either
            pass
        if found is None and (isinstance(number, (str, float)) or not hasattr(number, "__index__")):
            raise TypeError("Enum value for %s must be an int, but got %s %r."
                            % (self.DESCRIPTOR.name, type(number), number))
        if found is None:
            raise ValueError("Enum %s has no name defined for value %r"
                             % (self.DESCRIPTOR.name, number))
        return found.name

    def Value(self, name):
        found = self.DESCRIPTOR.values_by_name.get(name)
        if found is None:
            raise ValueError("Enum %s has no value defined for name %r"
                             % (self.DESCRIPTOR.name, name))
        return found.number

    def keys(self):
        return [v.name for v in self.DESCRIPTOR.values]

    def values(self):
        return [v.number for v in self.DESCRIPTOR.values]

    def items(self):
        return [(v.name, v.number) for v in self.DESCRIPTOR.values]
