"""Objects as names and configurations, and back.

An object is written as {"class_name": ..., "config": ...}, a function as its name; custom objects are found in the scopes that
the program opened.
"""

import inspect

import numpy as np

_custom_objects = {}


class CustomObjectScope:
    """A context manager in which these custom objects are found by name."""

    def __init__(self, *args):
        self._objects = args

    def __enter__(self):
        self._former = dict(_custom_objects)
        for objects in self._objects:
            _custom_objects.update(objects or {})
        return self

    def __exit__(self, *unused):
        _custom_objects.clear()
        _custom_objects.update(self._former)


def custom_object_scope(*args):
    """Returns a context manager in which these custom objects are found by name."""
    return CustomObjectScope(*args)


def get_custom_objects():
    """Returns the dict of custom objects, which may be changed."""
    return _custom_objects


def register_keras_serializable(package="Custom", name=None):
    """Returns a decorator that registers a class or function as package>name."""
    def register(f):
        _custom_objects[package + ">" + (name or f.__name__)] = f
        return f
    return register


def serialize_keras_object(instance):
    """Returns an object as its class name and config, or a function as its name."""
    if instance is None:
        return None
    if hasattr(instance, "get_config"):
        return {"class_name": type(instance).__name__, "config": instance.get_config()}
    if hasattr(instance, "__name__"):
        return instance.__name__
    raise ValueError("Cannot serialize %s" % (instance,))


def find_object(name, module_objects, custom_objects, what):
    """Returns the class or function of this name, custom ones first; ValueError if there is none."""
    for where in (custom_objects or {}, _custom_objects, module_objects or {}):
        if name in where:
            return where[name]
    raise ValueError("Unknown %s: %s" % (what, name))


def deserialize_keras_object(identifier, module_objects=None, custom_objects=None, printable_module_name="object"):
    """Makes an object from the result of serialize_keras_object, or from its name.

    Args:
        identifier: a dict, a name, a function or None
        module_objects: {name: class or function}
        custom_objects: more of them, looked at first
        printable_module_name: what error messages call the object
    """
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        if "class_name" not in identifier or "config" not in identifier:
            raise ValueError("Improper config format: %s" % (identifier,))
        cls = find_object(identifier["class_name"], module_objects, custom_objects, printable_module_name)
        if not hasattr(cls, "from_config"):
            return cls(**identifier["config"])
        if "custom_objects" in inspect.signature(cls.from_config).parameters:
            return cls.from_config(identifier["config"], custom_objects=custom_objects)
        with CustomObjectScope(custom_objects):
            return cls.from_config(identifier["config"])
    if isinstance(identifier, str):
        found = find_object(identifier, module_objects, custom_objects, printable_module_name)
        return found() if inspect.isclass(found) else found
    if callable(identifier):
        return identifier
    raise ValueError("Could not interpret serialized %s: %s" % (printable_module_name, identifier))


def plain(value):
    """Converts arrays, numpy numbers and tuples to what JSON can hold."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def to_list(x):
    """Returns a list: None is empty, and anything that is not a list or a tuple is its only element."""
    if x is None:
        return []
    return list(x) if isinstance(x, (list, tuple)) else [x]


def unpack_singleton(x):
    """Returns the only element of a list, or the list if it has more."""
    return x[0] if isinstance(x, (list, tuple)) and len(x) == 1 else x


def signature(arguments):
    """The signature of a constructor with these arguments: pairs of a name and its default."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter("self", kind)] +
                             [inspect.Parameter(name, kind, default=default) for name, default in arguments])


def bound(called, signature, self, args, kwargs):
    """The values of the arguments of a call, with defaults, as a dict without self."""
    try:
        found = signature.bind(self, *args, **kwargs)
    except TypeError as e:
        raise TypeError("%s() %s" % (called, e)) from None
    found.apply_defaults()
    del found.arguments["self"]
    return found.arguments
