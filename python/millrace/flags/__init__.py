"""tf.flags: options of the command line, defined where they are used.

    tf.flags.DEFINE_integer("batch_size", 128, "Examples in a step.")
    FLAGS = tf.flags.FLAGS
    ... FLAGS.batch_size ...

A flag is written --name=value, --name value or with one dash; a boolean one --name or --noname.  The first look at a value
parses the command line, if tf.app.run has not done so before.  Everything is kept in FlagValues; a Flag has a parser that
makes values of texts and a serializer that makes texts of values.
"""
import functools
import sys
import textwrap

from .errors import (CantOpenFlagFileError, DuplicateFlagError, Error, FlagNameConflictsWithMethodError,  # noqa: F401
                     IllegalFlagValueError, UnparsedFlagAccessError, UnrecognizedFlagError, ValidationError)
from .flag import BooleanFlag, EnumClassFlag, EnumFlag, Flag, MultiFlag
from .parsers import (ArgumentParser, ArgumentSerializer, BaseListParser, BooleanParser, CsvListSerializer,  # noqa: F401
                      EnumClassParser, EnumClassSerializer, EnumParser, FloatParser, IntegerParser, ListParser, ListSerializer,
                      WhitespaceSeparatedListParser)
from .values import FlagValues, main_name

FLAGS = FlagValues()
FLAGS._lazy = True


# ---- definitions ----

def _calling_module():
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame is not None else ""
    return main_name() if name == "__main__" else name


def DEFINE_flag(flag, flag_values=FLAGS, module_name=None, required=False):  # noqa: N802
    """Adds a Flag object to the flags."""
    flag.module = module_name or _calling_module()
    flag_values[flag.name] = flag
    if required:
        mark_flag_as_required(flag.name, flag_values)
    return flag


def DEFINE(parser, name, default, help, flag_values=FLAGS, serializer=None, module_name=None, **args):  # noqa: N802, A002
    """Defines a flag whose values a parser reads and a serializer writes."""
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
    """Defines a flag with any string as its value."""
    return DEFINE(ArgumentParser(), name, default, help, flag_values, **args)


@_takes_old_names
def DEFINE_integer(name, default, help, lower_bound=None, upper_bound=None, flag_values=FLAGS, **args):  # noqa: N802, A002
    """Defines a flag with an integer as its value, within optional bounds."""
    flag = DEFINE(IntegerParser(lower_bound, upper_bound), name, default, help, flag_values, **args)
    return _bounded(flag, flag_values)


@_takes_old_names
def DEFINE_float(name, default, help, lower_bound=None, upper_bound=None, flag_values=FLAGS, **args):  # noqa: N802, A002
    """Defines a flag with a number as its value, within optional bounds."""
    return _bounded(DEFINE(FloatParser(lower_bound, upper_bound), name, default, help, flag_values, **args), flag_values)


def _bounded(flag, flag_values):
    """Values that the program sets are held against the bounds too."""
    parser = flag.parser
    if parser.lower_bound is not None or parser.upper_bound is not None:
        register_validator(flag.name, lambda v: v is None or not parser.is_outside_bounds(v),
                           "must be " + parser.syntactic_help,
                           flag_values)
    return flag


@_takes_old_names
def DEFINE_boolean(name, default, help, flag_values=FLAGS, module_name=None, **args):  # noqa: N802, A002
    """Defines a flag that is true or false: --name, --noname or --name=true."""
    return DEFINE_flag(BooleanFlag(name, default, help, **args), flag_values, module_name)


DEFINE_bool = DEFINE_boolean


def DEFINE_enum(name, default, enum_values, help, flag_values=FLAGS, module_name=None, **args):  # noqa: N802, A002
    """Defines a flag whose value is one of a list of strings."""
    return DEFINE_flag(EnumFlag(name, default, help, enum_values, **args), flag_values, module_name)


def DEFINE_enum_class(name, default, enum_class, help, flag_values=FLAGS, module_name=None, **args):  # noqa: N802, A002
    """Defines a flag whose value is a member of an Enum class."""
    return DEFINE_flag(EnumClassFlag(name, default, help, enum_class, **args), flag_values, module_name)


def DEFINE_list(name, default, help, flag_values=FLAGS, **args):  # noqa: N802, A002
    """Defines a flag whose value is a list of strings separated by commas."""
    return DEFINE(ListParser(), name, default, help, flag_values, CsvListSerializer(","), **args)


def DEFINE_spaceseplist(name, default, help, comma_compat=False, flag_values=FLAGS, **args):  # noqa: N802, A002
    """Defines a flag whose value is a list of strings separated by spaces; comma_compat allows commas too."""
    return DEFINE(WhitespaceSeparatedListParser(comma_compat), name, default, help, flag_values, ListSerializer(" "), **args)


def DEFINE_multi(parser, serializer, name, default, help, flag_values=FLAGS, module_name=None, **args):  # noqa: N802, A002
    """Defines a flag that may be given several times, and whose value is the list of all."""
    return DEFINE_flag(MultiFlag(parser, serializer, name, default, help, **args), flag_values, module_name)


def DEFINE_multi_string(name, default, help, flag_values=FLAGS, **args):  # noqa: N802, A002
    """Defines a flag with a string as its value that may be given several times."""
    return DEFINE_multi(ArgumentParser(), ArgumentSerializer(), name, default, help, flag_values, **args)


def DEFINE_multi_integer(name, default, help, lower_bound=None, upper_bound=None, flag_values=FLAGS,
                         **args):  # noqa: N802, A002
    """Defines a flag with an integer as its value that may be given several times."""
    return DEFINE_multi(IntegerParser(lower_bound, upper_bound), ArgumentSerializer(), name, default, help, flag_values, **args)


def DEFINE_multi_float(name, default, help, lower_bound=None, upper_bound=None, flag_values=FLAGS, **args):  # noqa: N802, A002
    """Defines a flag with a number as its value that may be given several times."""
    return DEFINE_multi(FloatParser(lower_bound, upper_bound), ArgumentSerializer(), name, default, help, flag_values, **args)


def DEFINE_multi_enum(name, default, enum_values, help, flag_values=FLAGS, case_sensitive=True, **args):  # noqa: N802, A002
    """Defines a flag with one of a list of strings as its value that may be given several times."""
    return DEFINE_multi(EnumParser(enum_values, case_sensitive), ArgumentSerializer(), name, default,
                        "<%s>: %s" % ("|".join(enum_values), help), flag_values, **args)


class _Alias(Flag):
    """Another name for a flag."""

    def __init__(self, name, flag):
        self.__dict__.update(_flag=flag, name=name, help="Alias for --%s." % flag.name, allow_override=False, short_name=None,
                             module=None, allow_using_method_names=False)

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
    """Defines another name for a flag that exists."""
    if original_name not in flag_values:
        raise UnrecognizedFlagError(original_name)
    return DEFINE_flag(_Alias(name, flag_values[original_name]), flag_values, module_name)


# ---- validators ----

def register_validator(flag_name, checker, message="Flag validation failed", flag_values=FLAGS):
    """checker(value) says whether a value is good; asked after parsing and whenever the program sets one."""
    flag_values[flag_name].validators.append((checker, message))


def validator(flag_name, message="Flag validation failed", flag_values=FLAGS):
    """Returns a decorator that makes a function the validator of a flag."""
    def decorate(f):
        register_validator(flag_name, f, message, flag_values)
        return f
    return decorate


def register_multi_flags_validator(flag_names, multi_flags_checker, message="Flags validation failed", flag_values=FLAGS):
    """Adds a check of several flags: a function from {name: value} to whether they fit together."""
    flag_values._mutual.append((list(flag_names), multi_flags_checker, message))


def multi_flags_validator(flag_names, message="Flag validation failed", flag_values=FLAGS):
    """Returns a decorator that makes a function the validator of several flags."""
    def decorate(f):
        register_multi_flags_validator(flag_names, f, message, flag_values)
        return f
    return decorate


def mark_flag_as_required(flag_name, flag_values=FLAGS):
    """Makes it an error if the flag has no value when flags are parsed."""
    register_validator(flag_name, lambda value: value is not None,
                       "Flag --%s must have a value other than None." % flag_name, flag_values)


def mark_flags_as_required(flag_names, flag_values=FLAGS):
    """Makes it an error if one of the flags has no value when flags are parsed."""
    for name in flag_names:
        mark_flag_as_required(name, flag_values)


def mark_flags_as_mutual_exclusive(flag_names, required=False, flag_values=FLAGS):
    """Makes it an error if more than one of the flags is given; with required, also if none is."""
    def check(values):
        n = sum(1 for v in values.values() if v is not None)
        return n == 1 or (not required and n == 0)
    register_multi_flags_validator(flag_names, check, "%s one of (%s) must have a value other than None." %
                                   ("Exactly" if required else "At most", ", ".join(flag_names)), flag_values)


def mark_bool_flags_as_mutual_exclusive(flag_names, required=False, flag_values=FLAGS):
    """Makes it an error if more than one of the flags is true; with required, also if none is."""
    def check(values):
        n = sum(1 for v in values.values() if v)
        return n == 1 or (not required and n == 0)
    register_multi_flags_validator(flag_names, check, "%s one of (%s) must be True." %
                                   ("Exactly" if required else "At most", ", ".join(flag_names)), flag_values)


# ---- which flags the help of a module shows: those it defines, and those it declares ----

def _declare(flag_names, flag_values):
    declared = flag_values._key_flags.setdefault(_calling_module(), [])
    declared += [n for n in flag_names if n not in declared]


def declare_key_flag(flag_name, flag_values=FLAGS):
    """The help of the calling module shows this flag of another one too."""
    if flag_name not in flag_values:
        raise UnrecognizedFlagError(flag_name)
    _declare([flag_name], flag_values)


def adopt_module_key_flags(module, flag_values=FLAGS):
    """The help of the calling module shows the flags of that one too."""
    if not hasattr(module, "__name__"):
        raise Error("Expected a module object, not %r." % (module,))
    _declare([f.name for f in flag_values.get_key_flags_for_module(module)], flag_values)


def disclaim_key_flags():
    """A module that defines flags for others calls it.  Here the module that calls DEFINE_... has the flag in any case."""


# ---- texts ----

def get_help_width():
    """Returns the width of help texts, 80."""
    return 80


def text_wrap(text, length=None, indent="", firstline_indent=None):
    """Wraps the lines of a text at a length, with an indentation."""
    first = indent if firstline_indent is None else firstline_indent
    return "\n".join(textwrap.fill(line, length or 80, initial_indent=first if i == 0 else indent, subsequent_indent=indent)
                     for i, line in enumerate(text.splitlines()))


def doc_to_help(doc):
    """Returns a docstring without its indentation, as help texts show it."""
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
