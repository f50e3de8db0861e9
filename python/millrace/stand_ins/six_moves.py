"""six.moves: what Python 3 calls otherwise than Python 2."""
import functools
import importlib
import io
import itertools
import os
import shlex
import sys

__path__ = []
input, range, xrange, map, zip, filter = input, range, range, map, zip, filter
reduce, zip_longest, filterfalse = functools.reduce, itertools.zip_longest, itertools.filterfalse
StringIO = cStringIO = io.StringIO
intern, getcwd, getcwdb, shlex_quote, reload_module = sys.intern, os.getcwd, os.getcwdb, shlex.quote, importlib.reload

_MODULES = {
    "builtins": "builtins", "cPickle": "pickle", "collections_abc": "collections.abc", "configparser": "configparser",
    "copyreg": "copyreg", "html_parser": "html.parser", "http_client": "http.client", "http_cookies": "http.cookies",
    "queue": "queue", "reprlib": "reprlib", "socketserver": "socketserver", "_thread": "_thread", "urllib": "urllib",
    "urllib_parse": "urllib.parse", "urllib_error": "urllib.error", "urllib_request": "urllib.request",
}


def module_name(path):
    """The module for six.moves.PATH, or None."""
    head, dot, rest = path.partition(".")
    if head not in _MODULES or rest and head != "urllib":
        return None
    return _MODULES[head] + dot + rest


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError("module 'six.moves' has no attribute '%s'" % name)
    if name == "urllib":  # its parts are reached through it
        for part in ("error", "parse", "request", "response", "robotparser"):
            importlib.import_module("urllib." + part)
    return importlib.import_module(_MODULES[name])
