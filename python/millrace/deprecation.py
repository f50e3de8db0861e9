"""Decorators that TensorFlow's own modules put on functions (tensorflow.python.util.deprecation, tf_export), for programs that
use them.
"""
import functools
import inspect

from . import logging

_PRINT_DEPRECATION_WARNINGS = True
_told = set()


def _tell(key, text, *args):
    """Once for each place."""
    if _PRINT_DEPRECATION_WARNINGS and key not in _told:
        _told.add(key)
        logging.warning(text, *args)


def _when(date):
    return "in a future version" if date is None else "after %s" % date


def deprecated(date, instructions, warn_once=True):
    """Marks a function as deprecated."""
    def decorate(f):
        @functools.wraps(f)
        def told(*args, **kwargs):
            _tell(f, "%s (from %s) is deprecated and will be removed %s.\nInstructions for updating:\n%s", f.__name__,
                  f.__module__,
                  _when(date), instructions)
            return f(*args, **kwargs)
        return told
    return decorate


def deprecated_args(date, instructions, *deprecated_arg_names_or_tuples, **kwargs):
    """Marks arguments of a function as deprecated."""
    names = [n[0] if isinstance(n, (tuple, list)) else n for n in deprecated_arg_names_or_tuples]

    def decorate(f):
        signature = inspect.signature(f)

        @functools.wraps(f)
        def told(*args, **kw):
            given = signature.bind(*args, **kw).arguments
            for name in names:
                if name in given:
                    _tell((f, name), "calling %s (from %s) with %s is deprecated and will be removed %s.\nInstructions for "
                          "updating:\n%s",
                          f.__name__, f.__module__, name, _when(date), instructions)
            return f(*args, **kw)
        return told
    return decorate


def deprecated_arg_values(date, instructions, warn_once=True, **deprecated_kwargs):
    def decorate(f):
        signature = inspect.signature(f)

        @functools.wraps(f)
        def told(*args, **kw):
            given = signature.bind(*args, **kw).arguments
            for name, value in deprecated_kwargs.items():
                if name in given and given[name] == value:
                    _tell((f, name), "calling %s (from %s) with %s=%s is deprecated and will be removed %s.\nInstructions for "
                          "updating:\n%s", f.__name__, f.__module__, name, value, _when(date), instructions)
            return f(*args, **kw)
        return told
    return decorate


def deprecated_argument_lookup(new_name, new_value, old_name, old_value):
    """The value of an argument that has two names."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError("Cannot specify both '%s' and '%s'" % (old_name, new_name))
    return old_value


def deprecated_alias(deprecated_name, name, func_or_class, warn_once=True):
    if not inspect.isfunction(func_or_class):
        return func_or_class
    return deprecated(None, "Please use %s instead." % name)(func_or_class)


class silence:  # noqa: N801 -- TensorFlow's name
    """`with silence():` suppresses deprecation warnings."""

    def __enter__(self):
        global _PRINT_DEPRECATION_WARNINGS
        self._former, _PRINT_DEPRECATION_WARNINGS = _PRINT_DEPRECATION_WARNINGS, False

    def __exit__(self, *unused):
        global _PRINT_DEPRECATION_WARNINGS
        _PRINT_DEPRECATION_WARNINGS = self._former


def tf_export(*unused_names, **unused):
    """Does nothing: export names of functions are ignored."""
    return lambda f: f


keras_export = estimator_export = tf_export


def should_use_result(f):
    return f
