"""Classes of messages and enums by name, each made when it is first asked for.

Names are those of the library: "GraphDef", "Summary.Value", and whole for packages other than
tensorflow's: "google.protobuf.Any".
"""
import _millrace

from . import enums

_messages = {}  # None: there is none of that name
_enums = {}
_files = {}


def _lines(describe, name):
    """None when the library has none of that name."""
    try:
        text = describe(name)
    except Exception:  # of whatever class the extension has for NOT_FOUND; nothing else can fail
        return None
    return bytes(text).decode().splitlines()


def full_name(name):
    return name if name.startswith("google.") else "tensorflow." + name


def short_name(full):
    return full[len("tensorflow."):] if full.startswith("tensorflow.") else full


class FileDescriptor:
    """The .proto file of a message: name and syntax, which json_format looks at, and package."""
    syntax = "proto3"

    def __init__(self, name, package):
        self.name, self.package = name, package

    def __repr__(self):
        return "<file %s>" % self.name


def file_of(path):
    """The file that defines a message or enum, by the name of the outermost message."""
    from .. import protos
    outermost = path if path.startswith("google.") else path.partition(".")[0]
    if outermost not in _files:
        package, _, name = full_name(outermost).rpartition(".")
        if package == "google.protobuf":
            file_name = "google/protobuf/%s.proto" % ("wrappers" if name.endswith("Value") else name.lower())
        else:
            module = next((m for m, names in protos.MODULES.items() if name in names), "core.unknown_pb2")
            file_name = "tensorflow/%s.proto" % module[:-len("_pb2")].replace(".", "/")
        _files[outermost] = FileDescriptor(file_name, package)
    return _files[outermost]


def find_message(name):
    """The class, or None."""
    if name not in _messages:
        from . import message
        lines = _lines(_millrace.message_describe, name)
        made = None if lines is None else message.make_class(name, lines)
        return _messages.setdefault(name, made)  # two threads may have made one each
    return _messages[name]


def find_enum(name):
    """The wrapper, or None."""
    if name not in _enums:
        lines = _lines(_millrace.enum_describe, name)
        made = None
        if lines is not None:
            made = enums.EnumWrapper(
                enums.EnumDescriptor(name.rpartition(".")[2], full_name(name), lines))
        return _enums.setdefault(name, made)
    return _enums[name]


def message_class(name):
    found = find_message(name)
    if found is None:
        raise LookupError("There is no message %s" % name)
    return found


def enum_wrapper(name):
    found = find_enum(name)
    if found is None:
        raise LookupError("There is no enum %s" % name)
    return found
