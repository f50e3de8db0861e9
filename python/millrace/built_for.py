"""Which Python the extension was built for, when this one cannot load it.

The extension checks the version itself; this is for interpreters that lack functions it needs, so that its code never runs.
"""
import importlib.util
import re
import sys


def explained(error):
    """The error of importing the extension, with both versions in its message if they differ."""
    spec = importlib.util.find_spec("_millrace")
    if spec is None or "undefined symbol" not in str(error):
        return error
    with open(spec.origin, "rb") as f:
        found = re.search(rb"millrace was built for Python \d+\.\d+", f.read())
    return ImportError("%s, but this is Python %d.%d.%d: run `millrace python SCRIPT`, or build with PYTHON=FILE (%s)" %
                       ((found.group().decode() if found else "millrace was built for another Python",) + sys.version_info[:3] +
                        (error,)))
