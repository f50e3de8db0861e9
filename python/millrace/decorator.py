"""What TensorFlow's modules take from tf_decorator and tf_contextlib: Python's own do the same."""
import contextlib as _contextlib
import functools as _functools
import inspect as _inspect

contextmanager = _contextlib.contextmanager


def make_decorator(target, decorator_func, decorator_name=None, decorator_doc="", decorator_argspec=None):
    """decorator_func in the guise of target."""
    return _functools.wraps(target)(decorator_func)


def unwrap(maybe_tf_decorator):
    return [], _inspect.unwrap(maybe_tf_decorator)
