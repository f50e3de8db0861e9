"""What can be wrong with flags."""


class Error(Exception):
    """The base of errors about flags and the command line."""


class CantOpenFlagFileError(Error):
    """--flagfile names what cannot be read."""


class DuplicateFlagError(Error):
    """Two modules define a flag of the same name."""


class FlagNameConflictsWithMethodError(Error):
    """FlagValues has a method of that name."""


class IllegalFlagValueError(Error):
    """The text on the command line is not a valid value of the flag, or a validator rejects it."""


class ValidationError(Error):
    """A validator refuses a value."""


class UnparsedFlagAccessError(Error):
    """A value was asked for before the command line was parsed."""


class UnrecognizedFlagError(Error):
    """The command line has an undefined flag."""

    def __init__(self, flagname, flagvalue="", suggestions=None):
        self.flagname, self.flagvalue = flagname, flagvalue
        hint = ". Did you mean: %s ?" % ", ".join(suggestions) if suggestions else ""
        super().__init__("Unknown command line flag '%s'%s" % (flagname, hint))
