"""All flags of a program: FlagValues reads command lines and knows the values."""
import os
import sys
import textwrap

from .errors import (CantOpenFlagFileError, DuplicateFlagError, Error, IllegalFlagValueError, UnparsedFlagAccessError,
                     FlagNameConflictsWithMethodError, UnrecognizedFlagError, ValidationError)
from .flag import Flag


class FlagValues:
    """The flags by name; FLAGS is the one that DEFINE_... adds to.  Calling it parses a command line."""

    def __init__(self):
        table = {}
        self.__dict__.update(_table=table, _parsed=False, _gnu=True, _mutual=[], _lazy=False, _undefined_ok=(), _key_flags={})
        self.__dict__["__flags"] = table  # where scripts of all ages look

    def _flags(self):
        return self._table

    def __getattr__(self, name):
        flags = self.__dict__.get("_table", {})  # a copy is asked for methods before it has anything
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
        if name in ("_parsed", "_gnu", "_lazy", "_undefined_ok"):
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

    def remove_flag_values(self, flag_values):
        """Forgets flags: by their names, or those of another FlagValues."""
        for name in [n for n in flag_values if n in self._table]:
            if name in self._table:  # its other name may have gone with the first
                delattr(self, name)

    def __getitem__(self, name):
        return self._table[name]

    def __setitem__(self, name, flag):
        """Adds a flag."""
        if not isinstance(flag, Flag):
            raise IllegalFlagValueError("Expect Flag instances, found type %s. Maybe you didn't mean to use "
                                        "FlagValue.__setitem__?"
                                        % type(flag))
        if not isinstance(name, str) or not name:
            raise Error("Flag name must be a string, and not empty: %r" % (name,))
        if " " in name:
            raise Error("Flag name cannot contain a space.")
        if hasattr(type(self), name) and not flag.allow_using_method_names:
            raise FlagNameConflictsWithMethodError("Cannot define flag named \"%s\" as it conflicts with a method on class "
                                                   "\"FlagValues\"" % name)
        known = self._table.get(name)
        if known is not None and not (flag.allow_override or known.allow_override):
            raise DuplicateFlagError("The flag '%s' is defined twice. First from %s, Second from %s.  Description from first "
                                     "occurrence: %s" % (name, known.module, flag.module, known.help))
        self._table[name] = flag
        if flag.short_name:
            self._table[flag.short_name] = flag

    def __contains__(self, name):
        """Whether there is a flag of this name."""
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
        words = self._without_undefok(self._with_files(list(argv[1:]), self._gnu))
        rest = self._read(words, known_only)
        self._parsed = True
        self.validate_all_flags()
        return [argv[0]] + rest

    def _without_undefok(self, words):
        """--undefok=a,b names flags that may be given although they are not defined."""
        self._undefined_ok, out, words = set(), [], iter(words)
        for word in words:
            if word == "--":
                return out + [word] + list(words)
            name, has_value, names = word.lstrip("-").partition("=")
            if name != "undefok" or not word.startswith("-"):
                out.append(word)
                continue
            for n in (names if has_value else next(words, "")).split(","):
                self._undefined_ok.update((n.strip(), "no" + n.strip()))
        return out

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
            if name in self._undefined_ok:
                return i
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

    def _with_files(self, words, gnu, depth=0):
        """--flagfile=PATH is replaced by the flags in the file, a line each."""
        out, i = [], 0
        while i < len(words):
            word = words[i]
            i += 1
            if word == "--" or not (gnu or word.startswith("-")):
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
                raise CantOpenFlagFileError("The files of --flagfile include each other: %s" % path)
            out += self._with_files(_lines_of(path), gnu, depth + 1)
        return out

    def read_flags_from_files(self, argv, force_gnu=True):
        """The words with the flags of the files that --flagfile names; as far as the first that is no flag, unless GNU's way
        is to be followed.
        """
        return self._with_files(list(argv), force_gnu or self._gnu)

    def _parse_flags(self, args=None):
        """Of TensorFlow before 1.5."""
        self([sys.argv[0]] + list(sys.argv[1:] if args is None else args), known_only=True)

    def is_parsed(self):
        """Whether flags were parsed."""
        return self._parsed

    def mark_as_parsed(self):
        """Allows access to values without parsing a command line."""
        self._parsed = True

    def unparse_flags(self):
        """Sets all flags back to their defaults."""
        for flag in self._table.values():
            flag.unparse()
        self._parsed = False

    def set_gnu_getopt(self, gnu_getopt=True):
        """Sets whether flags may come after other arguments."""
        self._gnu = gnu_getopt

    def is_gnu_getopt(self):
        """Whether flags may come after other arguments."""
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
        """Runs all validators; IllegalFlagValueError if one fails."""
        self._validate(list({id(f): f for f in self._table.values()}.values()))

    # ---- what there is ----

    def set_default(self, name, value):
        """Changes the default of a flag, and its value if it was not given."""
        if name not in self._table:
            raise UnrecognizedFlagError(name)
        self._table[name]._set_default(value)
        self._validate([self._table[name]])

    def flag_values_dict(self):
        """Returns {name: value} of all flags."""
        return {name: flag.value for name, flag in self._table.items()}

    FlagValuesDict = flag_values_dict

    def append_flag_values(self, flag_values):
        """Adds all flags of another FlagValues."""
        for name, flag in flag_values._table.items():
            if name == flag.name:
                self[name] = flag

    def flags_by_module_dict(self):
        """Returns {module: its flags}."""
        modules = {}
        for name in sorted(self._table):
            flag = self._table[name]
            if name == flag.name:
                modules.setdefault(flag.module or "", []).append(flag)
        return modules

    def key_flags_by_module_dict(self):
        """Returns {module: its key flags}."""
        return {module: self.get_key_flags_for_module(module) for module in {**self.flags_by_module_dict(), **self._key_flags}}

    def get_key_flags_for_module(self, module):
        """Returns the flags that a module defines or declares to be its key flags."""
        name = module if isinstance(module, str) else getattr(module, "__name__", "")
        name = main_name() if name == "__main__" else name
        own = self.flags_by_module_dict().get(name, [])
        more = [self._table[n] for n in self._key_flags.get(name, ()) if n in self._table]
        return own + [f for f in more if f not in own]

    def get_flag_value(self, name, default):
        """The value of a flag, the default if it has none or does not exist."""
        value = getattr(self, name) if name in self._table else None
        return default if value is None else value

    def find_module_defining_flag(self, flagname, default=None):
        """Returns the name of the module that defines a flag, or default."""
        flag = self._table.get(flagname)
        return default if flag is None else flag.module

    def flags_into_string(self):
        """Returns all flags with a value as lines of a flag file."""
        return "".join(f.serialize() + "\n" for fs in self.flags_by_module_dict().values() for f in fs if f.value is not None)

    def append_flags_into_file(self, filename):
        """Appends all flags with a value to a flag file."""
        with open(filename, "a") as f:
            f.write(self.flags_into_string())

    def get_help(self, prefix="", include_special_flags=True):
        """Returns the help of all flags, by module."""
        modules = self.flags_by_module_dict()
        main = main_name()
        order = ([main] if main in modules else []) + [m for m in modules if m != main]
        return "\n".join(self.module_help(m, prefix) for m in order)

    __str__ = get_help

    def module_help(self, module, prefix=""):
        """Returns the help of the key flags of a module."""
        name = module if isinstance(module, str) else getattr(module, "__name__", "")
        lines = ["\n%s%s:" % (prefix, name)] + [_help_of(f, prefix + "  ") for f in self.get_key_flags_for_module(name)]
        return "\n".join(lines)

    def main_module_help(self):
        """Returns the help of the key flags of the main module."""
        return self.module_help(main_name())


def _lines_of(path):
    try:
        with open(os.path.expanduser(path)) as f:
            lines = [line.strip() for line in f]
    except OSError as e:
        raise CantOpenFlagFileError("Unable to open flagfile: %s" % e) from None
    return [line for line in lines if line.startswith("-") and line.strip("-")]


def main_name():
    """The main module is known by the name of its file."""
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
