"""From the text of a flag to its value, and back."""
import csv
import io

_booleans = {"true": True, "t": True, "1": True, "yes": True, "y": True,
             "false": False, "f": False, "0": False, "no": False, "n": False}


class ArgumentParser:
    """Texts are their own values."""
    syntactic_help = ""

    def parse(self, argument):
        """Converts a string of the command line to a value; ValueError if it is not valid."""
        if not isinstance(argument, str):
            raise TypeError("flag value must be a string, found %r" % type(argument))
        return argument

    def flag_type(self):
        """Returns the name of the kind of value."""
        return "string"


class _NumberParser(ArgumentParser):
    number_name = "number"

    def __init__(self, lower_bound=None, upper_bound=None):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        self.syntactic_help = " ".join([self.number_article, self.number_name] + self._range())

    def _range(self):
        low, high = self.lower_bound, self.upper_bound
        if low is not None and high is not None:
            return ["in the range [%s, %s]" % (low, high)]
        return (["greater than or equal to %s" % low] if low is not None else
                ["less than or equal to %s" % high] if high is not None else [])

    def is_outside_bounds(self, value):
        """Whether a value is below the lower or above the upper bound."""
        return (self.lower_bound is not None and value < self.lower_bound or
                self.upper_bound is not None and value > self.upper_bound)

    def parse(self, argument):
        value = self.convert(argument)
        if self.is_outside_bounds(value):
            raise ValueError("%s is not %s" % (value, self.syntactic_help))
        return value


class FloatParser(_NumberParser):
    """Reads numbers, within optional bounds."""
    number_article, number_name = "a", "number"

    def convert(self, argument):
        """Returns the argument as a float."""
        if isinstance(argument, (str, int, float)) and not isinstance(argument, bool):
            return float(argument)
        raise TypeError("Expect argument to be a string, int, or float, found %s" % type(argument))

    def flag_type(self):
        return "float"


class IntegerParser(_NumberParser):
    """Reads integers, also hexadecimal and octal ones, within optional bounds."""
    number_article, number_name = "an", "integer"

    def convert(self, argument):
        """Returns the argument as an int."""
        if isinstance(argument, str):
            return int(argument, 16 if argument.lower().startswith("0x") else 8 if argument.startswith("0o") else 10)
        if isinstance(argument, int) and not isinstance(argument, bool):
            return argument
        raise TypeError("Expect argument to be a string or int, found %s" % type(argument))

    def flag_type(self):
        return "int"


class BooleanParser(ArgumentParser):
    """Reads true or false."""

    def parse(self, argument):
        if isinstance(argument, (bool, int)) and argument in (0, 1):
            return bool(argument)
        if isinstance(argument, str) and argument.lower() in _booleans:
            return _booleans[argument.lower()]
        raise ValueError("Non-boolean argument to boolean flag: %r" % (argument,))

    def flag_type(self):
        return "bool"


class EnumParser(ArgumentParser):
    """Reads one of a list of strings."""

    def __init__(self, enum_values, case_sensitive=True):
        if not enum_values:
            raise ValueError("enum_values cannot be empty, found %r" % (enum_values,))
        self.enum_values, self.case_sensitive = list(enum_values), case_sensitive

    def parse(self, argument):
        for value in self.enum_values:
            if argument == value or not self.case_sensitive and argument.lower() == value.lower():
                return value
        raise ValueError("value should be one of <%s>" % "|".join(self.enum_values))

    def flag_type(self):
        return "string enum"


class EnumClassParser(ArgumentParser):
    """Reads a member of an Enum class by its name."""

    def __init__(self, enum_class):
        self.enum_class = enum_class

    def parse(self, argument):
        if isinstance(argument, self.enum_class):
            return argument
        if argument not in self.enum_class.__members__:
            raise ValueError("value should be one of <%s>" % "|".join(self.enum_class.__members__))
        return self.enum_class[argument]

    def flag_type(self):
        return "enum class"


class BaseListParser(ArgumentParser):
    """Reads a list of strings separated by a token."""

    def __init__(self, token=None, name=None):
        self._token, self._name = token, name
        self.syntactic_help = "a %s separated list" % name

    def parse(self, argument):
        if isinstance(argument, list):
            return argument
        return [s.strip() for s in argument.split(self._token)] if argument else []

    def flag_type(self):
        return "%s separated list of strings" % self._name


class ListParser(BaseListParser):
    """Reads a list of strings separated by commas."""

    def __init__(self):
        super().__init__(",", "comma")

    def parse(self, argument):
        if isinstance(argument, list):
            return argument
        if not argument:
            return []
        try:
            return [s.strip() for s in next(csv.reader([argument], strict=True))]
        except csv.Error as e:
            raise ValueError("Unable to parse the value %r as a %s: %s" % (argument, self.flag_type(), e)) from None


class WhitespaceSeparatedListParser(BaseListParser):
    """Reads a list of strings separated by spaces, and by commas with comma_compat."""

    def __init__(self, comma_compat=False):
        self._comma_compat = comma_compat
        super().__init__(None, "whitespace or comma" if comma_compat else "whitespace")

    def parse(self, argument):
        if isinstance(argument, list):
            return argument
        return (argument.replace(",", " ") if self._comma_compat else argument or "").split()


class ArgumentSerializer:
    """Writes values as str does."""

    def serialize(self, value):
        """Returns a value as a string that the parser reads."""
        return str(value)


class ListSerializer(ArgumentSerializer):
    """Writes lists with a separator."""

    def __init__(self, list_sep):
        self.list_sep = list_sep

    def serialize(self, value):
        return self.list_sep.join(str(x) for x in value)


class CsvListSerializer(ListSerializer):
    """Writes lists as a line of CSV."""

    def serialize(self, value):
        out = io.StringIO()
        csv.writer(out, delimiter=self.list_sep).writerow([str(x) for x in value])
        return out.getvalue().strip()


class EnumClassSerializer(ArgumentSerializer):
    """Writes members of an Enum class as their names."""

    def serialize(self, value):
        return value.name
