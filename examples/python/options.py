"""Command lines of the examples: flags are those of tf.app.flags.

What tf.app.run hands on, a mistyped flag must not do: train for an hour, or name a folder.  So here --help (and -h) shows what the program
says of itself and its flags and ends it with 0, and what nobody knows ends it with 2 and a line (examples/options.h does the same in C).
"""
import sys

import millrace as tf


def refuse(what):
    sys.stderr.write("%s (--help shows what there is)\n" % " ".join(str(what).split()))
    sys.exit(2)


def read(*names):
    """Parses the flags; the words beside them, which are those that `names` tells: "[LOGS]" may be missing, and is None then."""
    if any(word in ("-h", "--help", "-help") for word in sys.argv[1:]):
        known = tf.app.flags.FLAGS.main_module_help().strip().partition("\n")[2]  # behind the program's name
        print(sys.modules["__main__"].__doc__.strip() + ("\n\n" + known if known else ""))
        sys.exit(0)
    try:
        words = tf.app.flags.FLAGS(sys.argv)[1:]
    except tf.app.flags.Error as e:
        refuse(e)
    if len(words) > len(names):
        refuse("'%s' is a word too many" % words[len(names)])
    words += [None] * (len(names) - len(words))
    for name, word in zip(names, words):
        if word is None and not name.startswith("["):
            refuse("%s is missing" % name)
    return words


def run(main=None):
    """In place of tf.app.run: main gets the name of the program alone."""
    read()
    sys.exit((main or sys.modules["__main__"].main)(sys.argv[:1]))
