"""tf.app: the frame of a script, `tf.app.run(main)`."""
import sys

from . import flags  # noqa: F401 -- tf.app.flags

__all__ = ["run", "flags"]


class UsageError(Exception):
    """main() may raise it: the message is shown with the flags."""

    def __init__(self, message, exitcode=1):
        super().__init__(message)
        self.exitcode = exitcode


def usage(shorthelp=False, writeto_stdout=False, detailed_error=None, exitcode=None):
    """Shows what the main module says of itself, and the flags: its own, or all."""
    out = sys.stdout if writeto_stdout else sys.stderr
    doc = getattr(sys.modules.get("__main__"), "__doc__", None)
    out.write("\n%s\nflags:\n" % (doc.replace("%s", sys.argv[0]) if doc else "USAGE: %s [flags]" % sys.argv[0]))
    out.write((flags.FLAGS.main_module_help() if shorthelp else flags.FLAGS.get_help()) + "\n")
    if shorthelp:
        out.write("\nTry --helpfull to get a list of all flags.\n")
    if detailed_error:
        out.write("\n%s\n" % detailed_error)
    out.flush()
    if exitcode is not None:
        sys.exit(exitcode)


def _show_help(words):
    for word in words:
        name = word.lstrip("-").partition("=")[0]
        if word == "--":
            return
        if word.startswith("-") and name in ("h", "help", "helpshort", "helpfull") and name not in flags.FLAGS:
            usage(shorthelp=name != "helpfull", writeto_stdout=True, exitcode=1)


def run(main=None, argv=None):
    """Parses the flags, calls main with the words that are left, and ends the program with what it returns."""
    main = main or sys.modules["__main__"].main
    words = list(sys.argv if argv is None else argv)
    _show_help(words[1:])
    try:
        rest = flags.FLAGS(words, known_only=True)
    except flags.Error as e:
        sys.stderr.write("FATAL Flags parsing error: %s\nPass --helpshort or --helpfull to see help on flags.\n" % e)
        sys.exit(1)
    try:
        sys.exit(main(rest))
    except UsageError as e:
        usage(shorthelp=True, detailed_error=e, exitcode=e.exitcode)
