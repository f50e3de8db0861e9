"""tf.flags: options of the command line, defined where they are used.

    tf.flags.DEFINE_integer("batch_size", 128, "Examples in a step.")
    FLAGS = tf.flags.FLAGS
    ... FLAGS.batch_size ...

A flag is written --name=value, --name value or with one dash; a boolean one --name or --noname.  The first look at a value parses
the command line, if tf.app.run has not done so before.  Everything is kept in FlagValues; a Flag has a parser that makes values of
texts and a serializer that makes texts of values.
"""
import csv
import functools
import io
import os
import sys
import textwrap

_booleans = {"true": True, "t": True, "1": True, "yes": True, "y": True,
             "false": False, "f": False, "0": False, "no": False, "n": False}


class Error(Exception):
    """Of flags, or of the command line."""


class CantOpenFlagFileError(Error):
    """--flagfile names what cannot be read."""


class DuplicateFlagError(Error):
    """Two modules define a flag of the same name."""


class FlagNameConflictsWithMethodError(Error):
    """FlagValues has a method of that name."""


class IllegalFlagValueError(Error):
    """The text of the command line is no value of the flag, or a validator refuses it."""


class ValidationError(Error):
    """A validator refuses a value."""


class UnparsedFlagAccessError(Error):
    """A value was asked for before the command line was parsed."""


class UnrecognizedFlagError(Error):
    """The command line has a flag that nobody defined."""

    def __init__(self, flagname, flagvalue="", suggestions=None):
        self.flagname, self.flagvalue = flagname, flagvalue
        hint = ". Did you mean: %s ?" % ", ".join(suggestions) if suggestions else ""
        super().__init__("Unknown command line flag '%s'%s" % (flagname, hint))


# ---- from text to value and back ----

class ArgumentParser:
    """Texts are their own values."""
    syntactic_help = ""

    def parse(self, argument):
        if not isinstance(argument, str):
            raise TypeError("flag value must be a string, found %r" % type(argument))
        return argument

    def flag_type(self):
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
        return (self.lower_bound is not None and value < self.lower_bound or
                self.upper_bound is not None and value > self.upper_bound)

    def parse(self, argument):
        value = self.convert(argument)
        if self.is_outside_bounds(value):
            raise ValueError("%s is not %s" % (value, self.syntactic_help))
        return value


class FloatParser(_NumberParser):
    number_article, number_name = "a", "number"

    def convert(self, argument):
        if isinstance(argument, (str, int, float)) and not isinstance(argument, bool):
            return float(argument)
        raise TypeError("Expect argument to be a string, int, or float, found %s" % type(argument))

    def flag_type(self):
        return "float"


class IntegerParser(_NumberParser):
    number_article, number_name = "an", "integer"

    def convert(self, argument):
        if isinstance(argument, str):
            return int(argument, 16 if argument.lower().startswith("0x") else 8 if argument.startswith("0o") else 10)
        if isinstance(argument, int) and not isinstance(argument, bool):
            return argument
        raise TypeError("Expect argument to be a string or int, found %s" % type(argument))

    def flag_type(self):
        return "int"


class BooleanParser(ArgumentParser):
    def parse(self, argument):
        if isinstance(argument, (bool, int)) and argument in (0, 1):
            return bool(argument)
        if isinstance(argument, str) and argument.lower() in _booleans:
            return _booleans[argument.lower()]
        raise ValueError("Non-boolean argument to boolean flag: %r" % (argument,))

    def flag_type(self):
        return "bool"


class EnumParser(ArgumentParser):
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
    def __init__(self, comma_compat=False):
        self._comma_compat = comma_compat
        super().__init__(None, "whitespace or comma" if comma_compat else "whitespace")

    def parse(self, argument):
        if isinstance(argument, list):
            return argument
        return (argument.replace(",", " ") if self._comma_compat else argument or "").split()


class ArgumentSerializer:
    def serialize(self, value):
        return str(value)


class ListSerializer(ArgumentSerializer):
    def __init__(self, list_sep):
        self.list_sep = list_sep

    def serialize(self, value):
        return self.list_sep.join(str(x) for x in value)


class CsvListSerializer(ListSerializer):
    def serialize(self, value):
        out = io.StringIO()
        csv.writer(out, delimiter=self.list_sep).writerow([str(x) for x in value])
        return out.getvalue().strip()


class EnumClassSerializer(ArgumentSerializer):
    def serialize(self, value):
        return value.name


# ---- a flag ----

class Flag:
    """An option: its name, its default, and its value when the command line has it."""

    def __init__(self, parser, serializer, name, default, help_string, short_name=None, boolean=False, allow_override=False,
                 allow_override_cpp=False, allow_hide_cpp=False, allow_overwrite=True, allow_using_method_names=False):
        self.parser, self.serializer, self.name = parser, serializer, name
        self.help = help_string or "(no help available)"
        self.short_name, self.boolean, self.allow_override = short_name, boolean, allow_override
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
        if self.present and not self.allow_overwrite:
            raise IllegalFlagValueError("flag --%s=%s: already defined as %s" % (self.name, argument, self.value))
        self.value = self._parse(argument)
        self.present += 1
        self.using_default_value = False

    def unparse(self):
        self.value, self.present, self.using_default_value = self.default, 0, True

    def serialize(self):
        """As it would be written on a command line."""
        if self.value is None:
            return ""
        if self.boolean:
            return "--%s%s" % ("" if self.value else "no", self.name)
        return "--%s=%s" % (self.name, self.serializer.serialize(self.value))

    def flag_type(self):
        return self.parser.flag_type()


class BooleanFlag(Flag):
    def __init__(self, name, default, help, short_name=None, **args):  # noqa: A002 -- TensorFlow's name
        super().__init__(BooleanParser(), ArgumentSerializer(), name, default, help, short_name, True, **args)


class EnumFlag(Flag):
    def __init__(self, name, default, help, enum_values, short_name=None, case_sensitive=True, **args):  # noqa: A002
        super().__init__(EnumParser(enum_values, case_sensitive), ArgumentSerializer(), name, default, help, short_name, **args)
        self.help = "<%s>: %s" % ("|".join(enum_values), self.help)


class EnumClassFlag(Flag):
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
        self.default_as_str = None if self.default is None else repr(",".join(self.serializer.serialize(v) for v in self.default))
        if self.using_default_value:
            self.value = self.default


# ---- all flags ----

class FlagValues:
    """The flags by name; FLAGS is the one that DEFINE_... adds to.  Calling it parses a command line."""

    def __init__(self):
        table = {}
        self.__dict__.update(_table=table, _parsed=False, _gnu=True, _mutual=[], _lazy=False)
        self.__dict__["__flags"] = table  # where scripts of all ages look

    def _flags(self):
        return self._table

    def __getattr__(self, name):
        flags = self.__dict__["_table"]
        if name.startswith("__") or name not in flags:
            raise AttributeError(name)
        if not self._parsed:
            self._parse_first(name)
        return flags[name].value

    def _parse_first(self, name):
        if not self._lazy:
            raise UnparsedFlagAccessError("Trying to access flag --%s before flags were parsed." % name)
        self(sys.argv, known_only=True)

    def __setattr__(self, name, value):
        if name in ("_parsed", "_gnu", "_lazy"):
            self.__dict__[name] = value
            return
        if name not in self._table:
            raise AttributeError("There is no flag '%s'" % name)
        flag = self._table[name]
        former = flag.value
        flag.value = value
        try:
            self._validate([flag])
        except IllegalFlagValueError:
            flag.value = former
            raise
        flag.using_default_value = False

    def __delattr__(self, name):
        if name not in self._table:
            raise AttributeError(name)
        flag = self._table[name]
        for key in [k for k, f in self._table.items() if f is flag]:
            del self._table[key]

    remove_flag_values = lambda self, names: [delattr(self, n) for n in names]

    def __getitem__(self, name):
        return self._table[name]

    def __setitem__(self, name, flag):
        """Adds a flag."""
        if not isinstance(flag, Flag):
            raise IllegalFlagValueError("Expect Flag instances, found type %s. Maybe you didn't mean to use FlagValue.__setitem__?"
                                        % type(flag))
        if not isinstance(name, str) or not name:
            raise Error("Flag name must be a string, and not empty: %r" % (name,))
        if " " in name:
            raise Error("Flag name cannot contain a space.")
        known = self._table.get(name)
        if known is not None and not (flag.allow_override or known.allow_override):
            raise DuplicateFlagError("The flag '%s' is defined twice. First from %s, Second from %s.  Description from first "
                                     "occurrence: %s" % (name, known.module, flag.module, known.help))
        self._table[name] = flag
        if flag.short_name:
            self._table[flag.short_name] = flag

    def __contains__(self, name):
        return name in self._table

    has_key = __contains__

    def __iter__(self):
        return iter(self._table)

    def __len__(self):
        return len(self._table)

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(self._table))

    def __bool__(self):
        return True

    # ---- parsing ----

    def __call__(self, argv, known_only=False):
        """Parses a command line, whose first word is the program; what is left of it.  Unknown flags are left or an error."""
        if isinstance(argv, (str, bytes)):
            raise TypeError("argv should be a tuple/list of strings, not bytes or string.")
        if not argv:
            raise ValueError("argv cannot be an empty list, and must contain the program name as the first element.")
        words = self._with_files(list(argv[1:]))
        rest = self._read(words, known_only)
        self._parsed = True
        self.validate_all_flags()
        return [argv[0]] + rest

    def _read(self, words, known_only):
        rest, i = [], 0
        while i < len(words):
            word = words[i]
            i += 1
            if word == "--":
                return rest + words[i - 1 if known_only else i:]
            if not word.startswith("-") or word == "-":
                rest.append(word)
                if not self._gnu:
                    return rest + words[i:]
                continue
            i = self._read_flag(word, words, i, rest, known_only)
        return rest

    def _read_flag(self, word, words, i, rest, known_only):
        """Reads the flag words[i - 1]; where the next word is."""
        name, has_value, value = word.lstrip("-").partition("=")
        flag = self._table.get(name)
        if flag is None and name.startswith("no") and getattr(self._table.get(name[2:]), "boolean", False):
            if has_value:
                raise IllegalFlagValueError("%s does not take an argument" % name)
            flag, has_value, value = self._table[name[2:]], True, "false"
        if flag is None:
            if known_only or name.startswith("test_"):
                rest.append(word)
                return i
            raise UnrecognizedFlagError(name, word, self._similar(name))
        if flag.boolean:
            value = value if has_value else "true"
        elif not has_value:
            if i >= len(words):
                raise Error("Missing value for flag %s" % word)
            value, i = words[i], i + 1
        flag.parse(value)
        return i

    def _similar(self, name):
        import difflib
        return difflib.get_close_matches(name, [n for n in self._table if len(n) > 1])

    def _with_files(self, words, depth=0):
        """--flagfile=PATH is replaced by the flags in the file, a line each."""
        out, i = [], 0
        while i < len(words):
            word = words[i]
            i += 1
            if word == "--":
                return out + words[i - 1:]
            name, has_value, path = word.lstrip("-").partition("=")
            if name != "flagfile" or not word.startswith("-"):
                out.append(word)
                continue
            if not has_value:
                if i >= len(words):
                    raise IllegalFlagValueError("--flagfile with no argument")
                path, i = words[i], i + 1
            if depth > 20:
                raise CantOpenFlagFileError("The files of --flagfile name each other: %s" % path)
            out += self._with_files(_lines_of(path), depth + 1)
        return out

    read_flags_from_files = lambda self, argv, force_gnu=True: self._with_files(list(argv))

    def _parse_flags(self, args=None):
        """Of TensorFlow before 1.5."""
        self([sys.argv[0]] + list(sys.argv[1:] if args is None else args), known_only=True)

    def is_parsed(self):
        return self._parsed

    def mark_as_parsed(self):
        self._parsed = True

    def unparse_flags(self):
        for flag in self._table.values():
            flag.unparse()
        self._parsed = False

    def set_gnu_getopt(self, gnu_getopt=True):
        self._gnu = gnu_getopt

    def is_gnu_getopt(self):
        return self._gnu

    # ---- checks ----

    def _validate(self, flags):
        for flag in flags:
            for check, message in flag.validators:
                self._check(lambda f=flag, c=check: c(f.value), "flag --%s=%s: %s" % (flag.name, flag.value, message))
        for names, check, message in self._mutual:
            if any(f.name in names for f in flags):
                shown = ", ".join("--%s=%s" % (n, self._table[n].value) for n in names)
                self._check(lambda: check({n: self._table[n].value for n in names}), "flags %s: %s" % (shown, message))

    @staticmethod
    def _check(check, message):
        try:
            good = check()
        except ValidationError as e:
            raise IllegalFlagValueError("%s %s" % (message, e)) from None
        if not good:
            raise IllegalFlagValueError(message)

    def validate_all_flags(self):
        self._validate(list({id(f): f for f in self._table.values()}.values()))

    # ---- what there is ----

    def set_default(self, name, value):
        if name not in self._table:
            raise UnrecognizedFlagError(name)
        self._table[name]._set_default(value)
        self._validate([self._table[name]])

    def flag_values_dict(self):
        return {name: flag.value for name, flag in self._table.items()}

    FlagValuesDict = flag_values_dict

    def append_flag_values(self, flag_values):
        for name, flag in flag_values._table.items():
            if name == flag.name:
                self[name] = flag

    def flags_by_module_dict(self):
        modules = {}
        for name in sorted(self._table):
            flag = self._table[name]
            if name == flag.name:
                modules.setdefault(flag.module or "", []).append(flag)
        return modules

    key_flags_by_module_dict = flags_by_module_dict

    def get_key_flags_for_module(self, module):
        name = module if isinstance(module, str) else getattr(module, "__name__", "")
        return self.flags_by_module_dict().get(_main_name() if name == "__main__" else name, [])

    def find_module_defining_flag(self, flagname, default=None):
        flag = self._table.get(flagname)
        return default if flag is None else flag.module

    def flags_into_string(self):
        return "".join(f.serialize() + "\n" for fs in self.flags_by_module_dict().values() for f in fs if f.value is not None)

    def append_flags_into_file(self, filename):
        with open(filename, "a") as f:
            f.write(self.flags_into_string())

    def get_help(self, prefix="", include_special_flags=True):
        modules = self.flags_by_module_dict()
        main = _main_name()
        order = ([main] if main in modules else []) + [m for m in modules if m != main]
        return "\n".join(self.module_help(m, prefix) for m in order)

    __str__ = get_help

    def module_help(self, module, prefix=""):
        name = module if isinstance(module, str) else getattr(module, "__name__", "")
        lines = ["\n%s%s:" % (prefix, name)] + [_help_of(f, prefix + "  ") for f in self.get_key_flags_for_module(name)]
        return "\n".join(lines)

    def main_module_help(self):
        return self.module_help(_main_name())


def _lines_of(path):
    try:
        with open(os.path.expanduser(path)) as f:
            lines = [line.strip() for line in f]
    except OSError as e:
        raise CantOpenFlagFileError("Unable to open flagfile: %s" % e) from None
    return [line for line in lines if line.startswith("-") and line.strip("-")]


def _main_name():
    return sys.argv[0] if sys.argv else "__main__"


def _help_of(flag, indent):
    names = ("-%s," % flag.short_name if flag.short_name else "") + "--" + ("[no]" if flag.boolean else "") + flag.name
    out = textwrap.fill("%s: %s" % (names, flag.help), 80, initial_indent=indent, subsequent_indent=indent + "  ")
    if flag.default_as_str is not None:
        out += "\n" + textwrap.fill("(default: %s)" % flag.default_as_str, 80, initial_indent=indent + "  ",
                                    subsequent_indent=indent + "  ")
    if flag.parser.syntactic_help:
        out += "\n%s  (%s)" % (indent, flag.parser.syntactic_help)
    return out


FLAGS = FlagValues()
FLAGS._lazy = True


# ---- definitions ----

def _calling_module():
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame is not None else ""
    return _main_name() if name == "__main__" else name


def DEFINE_flag(flag, flag_values=FLAGS, module_name=None, required=False):  # noqa: N802
    flag.module = module_name or _calling_module()
    flag_values[flag.name] = flag
    if required:
        mark_flag_as_required(flag.name, flag_values)
    return flag


def DEFINE(parser, name, default, help, flag_values=FLAGS, serializer=None, module_name=None, **args):  # noqa: N802, A002
    return DEFINE_flag(Flag(parser, serializer or ArgumentSerializer(), name, default, help, **args), flag_values, module_name)


def _takes_old_names(define):
    """Before 1.5 the arguments were called flag_name, default_value and docstring."""
    old = {"flag_name": "name", "default_value": "default", "docstring": "help"}

    @functools.wraps(define)
    def f(*args, **kwargs):
        return define(*args, **{old.get(k, k): v for k, v in kwargs.items()})
    return f


@_takes_old_names
def DEFINE_string(name, default, help, flag_values=FLAGS, **args):  # noqa: N802, A002
    return DEFINE(ArgumentParser(), name, default, help, flag_values, **args)


@_takes_old_names
def DEFINE_integer(name, default, help, lower_bound=None, upper_bound=None, flag_values=FLAGS, **args):  # noqa: N802, A002
    flag = DEFINE(IntegerParser(lower_bound, upper_bound), name, default, help, flag_values, **args)
    return _bounded(flag, flag_values)


@_takes_old_names
def DEFINE_float(name, default, help, lower_bound=None, upper_bound=None, flag_values=FLAGS, **args):  # noqa: N802, A002
    return _bounded(DEFINE(FloatParser(lower_bound, upper_bound), name, default, help, flag_values, **args), flag_values)


def _bounded(flag, flag_values):
    """Values that the program sets are held against the bounds too."""
    parser = flag.parser
    if parser.lower_bound is not None or parser.upper_bound is not None:
        register_validator(flag.name, lambda v: v is None or not parser.is_outside_bounds(v), "must be " + parser.syntactic_help,
                           flag_values)
    return flag


@_takes_old_names
def DEFINE_boolean(name, default, help, flag_values=FLAGS, module_name=None, **args):  # noqa: N802, A002
    return DEFINE_flag(BooleanFlag(name, default, help, **args), flag_values, module_name)


DEFINE_bool = DEFINE_boolean


def DEFINE_enum(name, default, enum_values, help, flag_values=FLAGS, module_name=None, **args):  # noqa: N802, A002
    return DEFINE_flag(EnumFlag(name, default, help, enum_values, **args), flag_values, module_name)


def DEFINE_enum_class(name, default, enum_class, help, flag_values=FLAGS, module_name=None, **args):  # noqa: N802, A002
    return DEFINE_flag(EnumClassFlag(name, default, help, enum_class, **args), flag_values, module_name)


def DEFINE_list(name, default, help, flag_values=FLAGS, **args):  # noqa: N802, A002
    return DEFINE(ListParser(), name, default, help, flag_values, CsvListSerializer(","), **args)


def DEFINE_spaceseplist(name, default, help, comma_compat=False, flag_values=FLAGS, **args):  # noqa: N802, A002
    return DEFINE(WhitespaceSeparatedListParser(comma_compat), name, default, help, flag_values, ListSerializer(" "), **args)


def DEFINE_multi(parser, serializer, name, default, help, flag_values=FLAGS, module_name=None, **args):  # noqa: N802, A002
    return DEFINE_flag(MultiFlag(parser, serializer, name, default, help, **args), flag_values, module_name)


def DEFINE_multi_string(name, default, help, flag_values=FLAGS, **args):  # noqa: N802, A002
    return DEFINE_multi(ArgumentParser(), ArgumentSerializer(), name, default, help, flag_values, **args)


def DEFINE_multi_integer(name, default, help, lower_bound=None, upper_bound=None, flag_values=FLAGS, **args):  # noqa: N802, A002
    return DEFINE_multi(IntegerParser(lower_bound, upper_bound), ArgumentSerializer(), name, default, help, flag_values, **args)


def DEFINE_multi_float(name, default, help, lower_bound=None, upper_bound=None, flag_values=FLAGS, **args):  # noqa: N802, A002
    return DEFINE_multi(FloatParser(lower_bound, upper_bound), ArgumentSerializer(), name, default, help, flag_values, **args)


def DEFINE_multi_enum(name, default, enum_values, help, flag_values=FLAGS, case_sensitive=True, **args):  # noqa: N802, A002
    return DEFINE_multi(EnumParser(enum_values, case_sensitive), ArgumentSerializer(), name, default,
                        "<%s>: %s" % ("|".join(enum_values), help), flag_values, **args)


class _Alias(Flag):
    """Another name for a flag."""

    def __init__(self, name, flag):
        self.__dict__.update(_flag=flag, name=name, help="Alias for --%s." % flag.name, allow_override=False, short_name=None,
                             module=None)

    def __getattr__(self, name):
        return getattr(self._flag, name)

    def __setattr__(self, name, value):
        if name in self.__dict__:
            self.__dict__[name] = value
        else:
            setattr(self._flag, name, value)

    def parse(self, argument):
        self._flag.parse(argument)

    def unparse(self):
        self._flag.unparse()


def DEFINE_alias(name, original_name, flag_values=FLAGS, module_name=None):  # noqa: N802
    if original_name not in flag_values:
        raise UnrecognizedFlagError(original_name)
    return DEFINE_flag(_Alias(name, flag_values[original_name]), flag_values, module_name)


# ---- validators ----

def register_validator(flag_name, checker, message="Flag validation failed", flag_values=FLAGS):
    """checker(value) says whether a value is good; asked after parsing and whenever the program sets one."""
    flag_values[flag_name].validators.append((checker, message))


def validator(flag_name, message="Flag validation failed", flag_values=FLAGS):
    def decorate(f):
        register_validator(flag_name, f, message, flag_values)
        return f
    return decorate


def register_multi_flags_validator(flag_names, multi_flags_checker, message="Flags validation failed", flag_values=FLAGS):
    flag_values._mutual.append((list(flag_names), multi_flags_checker, message))


def multi_flags_validator(flag_names, message="Flag validation failed", flag_values=FLAGS):
    def decorate(f):
        register_multi_flags_validator(flag_names, f, message, flag_values)
        return f
    return decorate


def mark_flag_as_required(flag_name, flag_values=FLAGS):
    register_validator(flag_name, lambda value: value is not None,
                       "Flag --%s must have a value other than None." % flag_name, flag_values)


def mark_flags_as_required(flag_names, flag_values=FLAGS):
    for name in flag_names:
        mark_flag_as_required(name, flag_values)


def mark_flags_as_mutual_exclusive(flag_names, required=False, flag_values=FLAGS):
    def check(values):
        n = sum(1 for v in values.values() if v is not None)
        return n == 1 or (not required and n == 0)
    register_multi_flags_validator(flag_names, check, "%s one of (%s) must have a value other than None." %
                                   ("Exactly" if required else "At most", ", ".join(flag_names)), flag_values)


def mark_bool_flags_as_mutual_exclusive(flag_names, required=False, flag_values=FLAGS):
    def check(values):
        n = sum(1 for v in values.values() if v)
        return n == 1 or (not required and n == 0)
    register_multi_flags_validator(flag_names, check, "%s one of (%s) must be True." %
                                   ("Exactly" if required else "At most", ", ".join(flag_names)), flag_values)


# ---- which flags the help of a module shows: those it defines ----

def declare_key_flag(flag_name, flag_values=FLAGS):
    if flag_name not in flag_values:
        raise UnrecognizedFlagError(flag_name)


def adopt_module_key_flags(module, flag_values=FLAGS):
    if not hasattr(module, "__name__"):
        raise Error("Expected a module object, not %r." % (module,))


def disclaim_key_flags():
    """Nothing depends on it here."""


# ---- texts ----

def get_help_width():
    return 80


def text_wrap(text, length=None, indent="", firstline_indent=None):
    first = indent if firstline_indent is None else firstline_indent
    return "\n".join(textwrap.fill(line, length or 80, initial_indent=first if i == 0 else indent, subsequent_indent=indent)
                     for i, line in enumerate(text.splitlines()))


def doc_to_help(doc):
    return textwrap.dedent(doc).strip()


def flag_dict_to_args(flag_map, multi_flags=None):
    """The words of a command line that give the flags these values."""
    for key, value in flag_map.items():
        if value is None:
            yield "--" + key
        elif isinstance(value, bool):
            yield "--" + ("" if value else "no") + key
        elif isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            yield "--%s=%s" % (key, value)
        elif multi_flags and key in multi_flags:
            yield from ("--%s=%s" % (key, v) for v in value)
        else:
            yield "--%s=%s" % (key, ",".join(str(v) for v in value))


