"""Flags, one by one: a name, a default, and a value when the command line has it."""
from .errors import IllegalFlagValueError
from .parsers import ArgumentSerializer, BooleanParser, EnumClassParser, EnumClassSerializer, EnumParser


class Flag:
    """An option: its name, its default, and its value when the command line has it."""

    def __init__(self, parser, serializer, name, default, help_string, short_name=None, boolean=False, allow_override=False,
                 allow_override_cpp=False, allow_hide_cpp=False, allow_overwrite=True, allow_using_method_names=False):
        self.parser, self.serializer, self.name = parser, serializer, name
        self.help = help_string or "(no help available)"
        self.short_name, self.boolean, self.allow_override = short_name, boolean, allow_override
        self.allow_using_method_names = allow_using_method_names
        self.allow_overwrite, self.using_default_value, self.present = allow_overwrite, True, 0
        self.validators, self.module = [], None
        self._set_default(default)
        self.value = self.default

    def __lt__(self, other):
        return self.name < other.name

    def __repr__(self):
        return "<Flag --%s=%r>" % (self.name, self.value)

    def _set_default(self, value):
        self.default_unparsed = value
        self.default = None if value is None else self._parse(value)
        self.default_as_str = None if self.default is None else repr(self.serializer.serialize(self.default))
        if self.using_default_value:
            self.value = self.default

    def _parse(self, argument):
        try:
            return self.parser.parse(argument)
        except (TypeError, ValueError) as e:
            raise IllegalFlagValueError("flag --%s=%s: %s" % (self.name, argument, e)) from None

    def parse(self, argument):
        """Sets the value from a string of the command line."""
        if self.present and not self.allow_overwrite:
            raise IllegalFlagValueError("flag --%s=%s: already defined as %s" % (self.name, argument, self.value))
        self.value = self._parse(argument)
        self.present += 1
        self.using_default_value = False

    def unparse(self):
        """Sets the value back to the default."""
        self.value, self.present, self.using_default_value = self.default, 0, True

    def serialize(self):
        """Returns the flag as it would be written on a command line."""
        if self.value is None:
            return ""
        if self.boolean:
            return "--%s%s" % ("" if self.value else "no", self.name)
        return "--%s=%s" % (self.name, self.serializer.serialize(self.value))

    def flag_type(self):
        """Returns the name of the kind of value."""
        return self.parser.flag_type()


class BooleanFlag(Flag):
    """A flag that is true or false."""

    def __init__(self, name, default, help, short_name=None, **args):  # noqa: A002 -- TensorFlow's name
        super().__init__(BooleanParser(), ArgumentSerializer(), name, default, help, short_name, True, **args)


class EnumFlag(Flag):
    """A flag whose value is one of a list of strings."""

    def __init__(self, name, default, help, enum_values, short_name=None, case_sensitive=True, **args):  # noqa: A002
        super().__init__(EnumParser(enum_values, case_sensitive), ArgumentSerializer(), name, default, help, short_name, **args)
        self.help = "<%s>: %s" % ("|".join(enum_values), self.help)


class EnumClassFlag(Flag):
    """A flag whose value is a member of an Enum class."""

    def __init__(self, name, default, help, enum_class, short_name=None, **args):  # noqa: A002
        super().__init__(EnumClassParser(enum_class), EnumClassSerializer(), name, default, help, short_name, **args)
        self.help = "<%s>: %s" % ("|".join(enum_class.__members__), self.help)


class MultiFlag(Flag):
    """A flag that may stand several times; its value is the list."""

    def _parse(self, argument):
        values = list(argument) if isinstance(argument, (list, tuple)) else [argument]
        return [super(MultiFlag, self)._parse(v) for v in values]

    def parse(self, argument):
        new = self._parse(argument)
        self.value = self.value + new if self.present else new
        self.present += len(new)
        self.using_default_value = False

    def serialize(self):
        return "\n".join("--%s=%s" % (self.name, self.serializer.serialize(v)) for v in self.value or [])

    def flag_type(self):
        return "multi " + self.parser.flag_type()

    def _set_default(self, value):
        self.default_unparsed = value
        self.default = None if value is None else self._parse(value)
        self.default_as_str = None if self.default is None else repr(",".join(self.serializer.serialize(v)
                                                                              for v in self.default))
        if self.using_default_value:
            self.value = self.default
