"""What scripts use of six, for Python 3 alone."""
import builtins
import functools
import io
import operator
import sys

from . import six_moves as moves

__path__ = []  # six.moves is looked for below it
__version__ = "1.16.0"
PY2, PY3, PY34 = False, True, True
string_types, integer_types, class_types = (str,), (int,), (type,)
text_type, binary_type, MAXSIZE = str, bytes, sys.maxsize
StringIO, BytesIO = io.StringIO, io.BytesIO
wraps, Iterator, next, callable = functools.wraps, object, builtins.next, builtins.callable
print_, exec_ = print, exec
unichr, int2byte, byte2int = chr, operator.methodcaller("to_bytes", 1, "big"), operator.itemgetter(0)
indexbytes, iterbytes = operator.getitem, iter
get_method_function = operator.attrgetter("__func__")
get_method_self = operator.attrgetter("__self__")
get_function_code, get_function_globals = operator.attrgetter("__code__"), operator.attrgetter("__globals__")
get_function_defaults = operator.attrgetter("__defaults__")


def b(s):
    return s.encode("latin-1")


def u(s):
    return s


def iterkeys(d, **kw):
    return iter(d.keys(**kw))


def itervalues(d, **kw):
    return iter(d.values(**kw))


def iteritems(d, **kw):
    return iter(d.items(**kw))


def iterlists(d, **kw):
    return iter(d.lists(**kw))


viewkeys, viewvalues, viewitems = (operator.methodcaller(n) for n in ("keys", "values", "items"))


def ensure_binary(s, encoding="utf-8", errors="strict"):
    if not isinstance(s, (str, bytes)):
        raise TypeError("not expecting type '%s'" % type(s))
    return s.encode(encoding, errors) if isinstance(s, str) else s


def ensure_text(s, encoding="utf-8", errors="strict"):
    if not isinstance(s, (str, bytes)):
        raise TypeError("not expecting type '%s'" % type(s))
    return s.decode(encoding, errors) if isinstance(s, bytes) else s


ensure_str = ensure_text


def raise_from(value, from_value):
    raise value from from_value


def reraise(tp, value=None, tb=None):
    raise (tp() if value is None else value).with_traceback(tb)


def python_2_unicode_compatible(cls):
    return cls


def with_metaclass(meta, *bases):
    """A base for a class that is to have another metaclass."""
    class Between(type):
        def __new__(cls, name, unused, namespace):
            return meta(name, bases, namespace)

        @classmethod
        def __prepare__(cls, name, unused):
            return meta.__prepare__(name, bases)
    return type.__new__(Between, "temporary_class", (), {})


def add_metaclass(metaclass):
    def wrapper(cls):
        slots = cls.__dict__.get("__slots__", ())
        left_out = {"__dict__", "__weakref__"} | ({slots} if isinstance(slots, str) else set(slots))
        return metaclass(cls.__name__, cls.__bases__, {k: v for k, v in cls.__dict__.items() if k not in left_out})
    return wrapper


def get_unbound_function(unbound):
    return unbound


def create_bound_method(func, obj):
    return func.__get__(obj)
