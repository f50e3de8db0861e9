"""arg_scope: default arguments for functions, for the length of a `with` block.

    @add_arg_scope
    def conv2d(inputs, filters, activation=None): ...

    with arg_scope([conv2d], activation=tf.nn.relu) as scope:
        conv2d(x, 32)

A scope is a dictionary {key of a function: {argument: value}}; scopes in scopes add to what is outside, and a scope that was
kept can be entered again instead of a list of functions.
"""

import contextlib
import functools
import inspect

__all__ = ["add_arg_scope", "arg_scope", "arg_scope_func_key", "arg_scoped_arguments", "current_arg_scope", "has_arg_scope"]

_stack = [{}]
_decorated = {}  # key of a function -> the names of its arguments that have defaults


def arg_scope_func_key(op):
    """Returns the key under which arg_scope keeps the arguments of a function."""
    return getattr(op, "_key_op", str(op))


def _name_of(op):
    return (getattr(op, "__module__", None), getattr(op, "__name__", str(op)))


def current_arg_scope():
    """Returns the arguments that are in force: {key of the function: its arguments}."""
    return _stack[-1]


def has_arg_scope(func):
    """Whether a function was decorated with add_arg_scope."""
    return arg_scope_func_key(func) in _decorated


def arg_scoped_arguments(func):
    """The names of the arguments that a scope can set."""
    if not has_arg_scope(func):
        raise ValueError("%s is not decorated with @add_arg_scope" % (_name_of(func),))
    return _decorated[arg_scope_func_key(func)]


def _with_defaults(list_ops, kwargs):
    scope = dict(current_arg_scope())
    for op in list_ops:
        if not has_arg_scope(op):
            raise ValueError("%s is not decorated with @add_arg_scope" % (_name_of(op),))
        key = arg_scope_func_key(op)
        scope[key] = dict(scope.get(key, {}), **kwargs)
    return scope


@contextlib.contextmanager
def arg_scope(list_ops_or_scope, **kwargs):
    """Sets arguments of functions, or enters a scope that was kept."""
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("When attempting to re-use a scope by suppling a dictionary, kwargs must be empty.")
        scope = dict(list_ops_or_scope)
    elif isinstance(list_ops_or_scope, (list, tuple)):
        scope = _with_defaults(list_ops_or_scope, kwargs)
    else:
        raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
    _stack.append(scope)
    try:
        yield scope
    finally:
        _stack.pop()


def add_arg_scope(func):
    """Lets scopes set arguments of a function."""
    @functools.wraps(func)
    def with_scope(*args, **kwargs):
        defaults = current_arg_scope().get(with_scope._key_op)
        return func(*args, **(dict(defaults, **kwargs) if defaults else kwargs))

    with_scope._key_op = arg_scope_func_key(func)
    parameters = inspect.signature(func).parameters.values()
    _decorated[with_scope._key_op] = tuple(p.name for p in parameters if p.default is not p.empty)
    return with_scope
