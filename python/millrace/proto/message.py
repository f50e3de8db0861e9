"""Messages: what a Python program knows as google.protobuf's Message, with lazy parts.

A message is in one of two states.  _values is None: it is the bytes in _raw (a list of pieces when
the field came several times: protobuf merges by joining) that nobody has looked into.  Otherwise
_values has its fields by number, as fields.py tells, and _unknown the fields it does not know.  So
parts that are never touched are never read, and written as they came.  Bytes that turn out to be
wrong raise DecodeError when they are looked at, and the message stays what it was.

A message that was read from its parent without being set there is a ghost: _owner is its parent
and its field.  The first change attaches it, and whatever of its parents is a ghost too.  Parents
keep their ghosts, so that asking twice gives the same object.

Threads that only read a message may do so at the same time, as with protobuf: what reading changes
(bytes into values) happens once, under the lock of containers.py.
"""
import struct

from . import installed, schema, wire
from .containers import READING, Container
from .fields import BIG, Field
from .wire import DecodeError, EncodeError, read_varint

MOST_BYTES = (1 << 31) - 1


class OneofDescriptor:
    def __init__(self, owner, name):
        self.name, self.full_name, self.containing_type = name, owner.full_name + "." + name, owner
        self.fields = []


class _Options:
    """Options of a message: google.protobuf's text_format and json_format ask for these."""
    message_set_wire_format = deprecated = False

    def __init__(self, map_entry):
        self.map_entry = map_entry


class Descriptor:
    """What a program sees as the DESCRIPTOR of a message."""
    is_extendable = False
    syntax = "proto3"

    def __init__(self, name, lines):
        self._path = name
        self.name, self.full_name = name.rpartition(".")[2], schema.full_name(name)
        self.fields = [Field(self, line) for line in lines]
        self.fields_by_name = {f.name: f for f in self.fields}
        self.fields_by_number = {f.number: f for f in self.fields}
        self.oneofs_by_name = {}
        for index, f in enumerate(self.fields):
            f.index = index
            if f.oneof:
                self._oneof(f.oneof).fields.append(f)
        self.oneofs = list(self.oneofs_by_name.values())
        for one in self.oneofs:
            for f in one.fields:
                f.others = tuple(g.number for g in one.fields if g is not f)

    def _oneof(self, name):
        return self.oneofs_by_name.setdefault(name, OneofDescriptor(self, name))

    def _nested(self, kind):
        """Names of the messages or enums inside of this one that its fields have."""
        head = self._path + "."
        return sorted({f._part for f in self.fields if f.kind == kind and f._part.startswith(head)})

    @property
    def fields_by_camelcase_name(self):
        return {f.camelcase_name: f for f in self.fields}

    @property
    def nested_types(self):
        return [schema.message_class(n).DESCRIPTOR for n in self._nested("message")]

    @property
    def nested_types_by_name(self):
        return {d.name: d for d in self.nested_types}

    @property
    def enum_types(self):
        return [schema.enum_wrapper(n).DESCRIPTOR for n in self._nested("enum")]

    @property
    def enum_types_by_name(self):
        return {d.name: d for d in self.enum_types}

    @property
    def enum_values_by_name(self):
        return {v.name: v for d in self.enum_types for v in d.values}

    @property
    def containing_type(self):
        outer = schema.find_message(self._path.rpartition(".")[0])
        return outer.DESCRIPTOR if outer else None

    @property
    def _concrete_class(self):
        return schema.message_class(self._path)

    @property
    def file(self):
        return schema.file_of(self._path)

    @property
    def has_options(self):
        """Entries of maps have one option, map_entry; no other message has any."""
        return self.name.endswith("Entry") and [f.name for f in self.fields] == ["key", "value"]

    def GetOptions(self):
        return _Options(self.has_options)


class MessageType(type):
    """Finds the messages and enums inside of a message when they are asked for: Summary.Value."""

    def __getattr__(cls, name):
        if name.endswith("_FIELD_NUMBER"):
            for f in cls.DESCRIPTOR.fields:
                if f.name.upper() + "_FIELD_NUMBER" == name:
                    return f.number
        elif name[:1].isupper():
            path = cls.DESCRIPTOR._path + "." + name
            found = schema.find_message(path) or schema.find_enum(path)
            if found is not None:
                return found
        raise AttributeError("%s has no attribute %s" % (cls.__name__, name))


class Message(installed.Message, metaclass=MessageType):
    """The base of all messages."""
    __slots__ = ("_raw", "_values", "_unknown", "_owner", "_ghosts", "_depth", "__weakref__")
    DESCRIPTOR = None

    def __init__(self, **fields):
        if self.DESCRIPTOR is None:
            raise TypeError("Message is the base class of messages and cannot be instantiated")
        self._start(None, {}, 0)
        by_name = self.DESCRIPTOR.fields_by_name
        for name, value in fields.items():
            field = by_name.get(name)
            if field is None:
                raise ValueError("Protocol message %s has no \"%s\" field."
                                 % (self.DESCRIPTOR.name, name))
            if value is not None:
                field.init(self, value)

    def _start(self, raw, values, depth):
        self._raw, self._values, self._depth = raw, values, depth
        self._unknown = self._owner = self._ghosts = None

    def __getattr__(self, name):
        # Only for what is not there otherwise: names inside of the class, as protobuf has them.
        if name[:1].isupper():
            return getattr(type(self), name)
        raise AttributeError("'%s' object has no attribute '%s'" % (type(self).__name__, name))

    # ---- lazy parts ----

    @classmethod
    def _of(cls, raw, depth):
        """A message of bytes that are its own; they are read later."""
        new = cls.__new__(cls)
        new._raw, new._values, new._depth = raw, None, depth
        new._unknown = new._owner = new._ghosts = None
        return new

    def _joined(self):
        """The bytes that have not been parsed yet, or None if they have."""
        with READING:
            if type(self._raw) is list:
                self._raw = b"".join(self._raw)
            return self._raw

    def _load(self):
        """Reads the bytes.  Values are complete before they are set: other threads may look too."""
        with READING:
            if self._values is None:
                values = {}
                unknown = self._parse(values, self._joined(), self._depth)
                self._unknown, self._values, self._raw = unknown, values, None
            return self._values

    @classmethod
    def _parse(cls, values, data, depth):
        """Adds the fields in data to values; returns the unknown ones, or None."""
        if depth > wire.MOST_LEVELS:
            raise DecodeError("Error parsing message: more than %d levels" % wire.MOST_LEVELS)
        decoders = cls._decoders
        i, n, unknown = 0, len(data), None
        try:
            while i < n:
                start = i
                tag = data[i]
                i += 1
                if tag > 127:
                    tag, i = read_varint(data, start)
                decode = decoders.get(tag)
                if decode is not None:
                    i = decode(values, data, i, n, depth)
                else:
                    i = wire.skip(data, i, n, tag)
                    unknown = [] if unknown is None else unknown
                    unknown.append(bytes(data[start:i]))
        except (IndexError, struct.error):
            raise wire.truncated() from None
        except UnicodeDecodeError as e:
            raise DecodeError("Error parsing message: a string is not UTF-8: %s" % e) from None
        return unknown

    def _add_bytes(self, raw):
        """Merges the bytes of another occurrence of a field that a decoder has just read."""
        if self._values is not None:
            self._merge_bytes(raw)
        elif type(self._raw) is list:
            self._raw.append(raw)
        else:
            self._raw = [self._raw, raw]

    def _merge_bytes(self, data):
        values = self._load() if self._values is None else self._values
        unknown = self._parse(values, data, self._depth)
        self._add_unknown(unknown)
        self._fill_ghosts()

    def _add_unknown(self, unknown):
        """In place: a part may come very often."""
        if unknown and self._unknown:
            self._unknown.extend(unknown)
        elif unknown:
            self._unknown = list(unknown)

    # ---- ghosts ----

    def _ghost(self, field):
        ghosts = self._ghosts
        if ghosts is None:
            ghosts = self._ghosts = {}
        found = ghosts.get(field.number)
        if found is None:
            found = ghosts[field.number] = field.message_class()
            found._owner = (self, field)
        return found

    def _attach(self):
        """Makes a ghost a part of its parent."""
        if self._owner is None:
            return
        parent, field = self._owner
        self._owner = None
        if parent._values is None:
            parent._load()
        parent._values[field.number] = self
        parent._ghosts.pop(field.number, None)
        for other in field.others:
            parent._forget(other)
        parent._attach()

    def _drop_ghost(self, number):
        """The ghost goes its own way: its parent has got another value."""
        ghost = self._ghosts.pop(number, None) if self._ghosts else None
        if ghost is not None:
            ghost._owner = None

    def _fill_ghosts(self):
        """Those whose fields are set now become what was set: who holds them shall see it."""
        for number in list(self._ghosts or ()):
            new = self._values.get(number)
            if new is not None:
                ghost = self._values[number] = self._ghosts.pop(number)
                ghost._owner = None
                ghost._merge_bytes(new._bytes())

    def _forget(self, number):
        """Objects that were returned before stay unchanged, but are detached from the message."""
        found = self._values.pop(number, None)
        if isinstance(found, (Message, Container)):
            found._owner = None
        self._drop_ghost(number)

    # ---- bytes ----

    def _bytes(self, ordered=False):
        raw = None if ordered or self._values is not None else self._joined()
        if raw is not None:
            return raw
        values = self._loaded()
        encoders, out = self._encoders, []
        for number in sorted(values):
            encoders[number](values[number], out, ordered)
        if self._unknown:
            out += self._unknown
        return b"".join(out)

    def SerializeToString(self, deterministic=False):
        """Fields by number; with deterministic, entries of maps by key."""
        out = self._bytes(bool(deterministic))
        if len(out) > MOST_BYTES:
            raise EncodeError("Message %s exceeds maximum protobuf size of 2GB: %d"
                              % (self.DESCRIPTOR.full_name, len(out)))
        return out if type(out) is bytes else bytes(out)

    SerializePartialToString = SerializeToString

    def ByteSize(self):
        """Returns the number of bytes of the serialized message."""
        return len(self._bytes())

    def MergeFromString(self, serialized):
        """Merges a serialized message into this one, and returns the number of bytes read."""
        data = serialized if type(serialized) is bytes else _to_bytes(serialized)
        if self._values is not None and not self._values and not self._unknown and not self._ghosts:
            wire.check(data)
            self._raw, self._values = data if len(data) < BIG else memoryview(data), None
        else:
            self._merge_bytes(data if len(data) < BIG else memoryview(data))
        self._attach()
        return len(data)

    def ParseFromString(self, serialized):
        """Replaces the contents with a serialized message; only the outermost level is checked at once."""
        self.Clear()
        return self.MergeFromString(serialized)

    @classmethod
    def FromString(cls, serialized):
        """Makes a message from its serialized form."""
        new = cls()
        new.MergeFromString(serialized)
        return new

    # ---- fields by name ----

    def _field(self, name):
        found = self.DESCRIPTOR.fields_by_name.get(name)
        if found is None:
            raise ValueError("Protocol message %s has no field %s." % (self.DESCRIPTOR.name, name))
        return found

    def _loaded(self):
        return self._load() if self._values is None else self._values

    def HasField(self, name):
        """Whether a message field or a member of a oneof is set; name may also be that of a oneof."""
        if name in self.DESCRIPTOR.oneofs_by_name:
            return self.WhichOneof(name) is not None
        field = self._field(name)
        if not field.has_presence:
            raise ValueError("Can't test non-optional, non-submessage field \"%s\" for presence in "
                             "proto3." % field.full_name)
        return field.number in self._loaded()

    def ClearField(self, name):
        """Clears a field, or the member of a oneof that is set."""
        if name in self.DESCRIPTOR.oneofs_by_name:
            name = self.WhichOneof(name)
            if name is None:
                return
        field = self._field(name)
        self._loaded()
        self._forget(field.number)
        self._attach()

    def WhichOneof(self, name):
        """Returns the name of the field of a oneof that is set, or None."""
        oneof = self.DESCRIPTOR.oneofs_by_name.get(name)
        if oneof is None:
            raise ValueError("Protocol message %s has no oneof \"%s\" field."
                             % (self.DESCRIPTOR.name, name))
        values = self._loaded()
        return next((f.name for f in oneof.fields if f.number in values), None)

    def ListFields(self):
        """Returns a list of (field descriptor, value) for all fields that are set."""
        values = self._loaded()
        by_number = self.DESCRIPTOR.fields_by_number
        pairs = [(by_number[n], values[n]) for n in sorted(values)]
        return [(f, v) for f, v in pairs if f.is_set(v)]

    # ---- whole messages ----

    def _drop_all_ghosts(self):
        for number in list(self._ghosts or ()):
            self._drop_ghost(number)

    def Clear(self):
        """Clears all fields."""
        for number in list(self._values or ()):
            self._forget(number)
        self._drop_all_ghosts()
        self._raw, self._values, self._unknown = None, {}, None
        self._attach()

    def SetInParent(self):
        """Marks the message as set in the message it belongs to, even if it is empty."""
        self._attach()

    def MergeFrom(self, other):
        """Merges another message of this type: repeated fields are appended, others replaced."""
        if type(other) is not type(self):
            raise TypeError("Parameter to MergeFrom() must be instance of same class: expected %s "
                            "got %s." % (self.DESCRIPTOR.full_name, type(other).__name__))
        if other is self:
            raise ValueError("A message cannot be merged into itself")
        values = self._loaded()
        if not values and not self._unknown and not self._ghosts:
            self._raw, self._values, self._depth = other._bytes(), None, 0
        else:
            by_number = self.DESCRIPTOR.fields_by_number
            for number, value in list(other._loaded().items()):
                by_number[number].merge(self, values, value)
            self._add_unknown(other._unknown)
        self._attach()

    def CopyFrom(self, other):
        """Replaces the contents with those of another message of this type."""
        if other is self:
            return
        if type(other) is not type(self):
            raise TypeError("Parameter to CopyFrom() must be instance of same class: expected %s "
                            "got %s." % (self.DESCRIPTOR.full_name, type(other).__name__))
        self.Clear()
        self.MergeFrom(other)

    def _clone(self):
        """A copy is bytes, to be read when it is looked at: most are only written again."""
        return self._of(self._bytes(), 0)

    def __deepcopy__(self, memo=None):
        return self._clone()

    def __copy__(self):
        return self._clone()

    def __reduce__(self):
        return _restored, (self.DESCRIPTOR._path, self.SerializeToString())

    def DiscardUnknownFields(self):
        """Drops fields that the message type does not know, also in messages inside of this one."""
        self._loaded()
        self._unknown = None
        for field, value in self.ListFields():
            for part in _parts(field, value):
                part.DiscardUnknownFields()

    def IsInitialized(self, errors=None):
        """Returns True: there are no required fields."""
        return True  # only fields of proto2 can be required

    def FindInitializationErrors(self):
        """Returns an empty list: there are no required fields."""
        return []

    # ---- comparing and showing ----

    def __eq__(self, other):
        if type(other) is not type(self):
            return NotImplemented
        if self is other:
            return True
        raw = self._joined()
        if raw is not None and raw == other._joined():
            return True
        if self._loaded() != other._loaded() and self._set_values() != other._set_values():
            return False
        return sorted(self._unknown or ()) == sorted(other._unknown or ())

    def _set_values(self):
        """Without empty containers, which one of two equal messages may have."""
        return {n: v for n, v in list(self._values.items()) if not isinstance(v, Container) or v._items}

    __hash__ = None

    def __str__(self):
        from . import text_format
        return text_format.MessageToString(self)

    __repr__ = __str__

    def __dir__(self):
        return sorted(set(object.__dir__(self)) | set(self.DESCRIPTOR.fields_by_name))


def _parts(field, value):
    """The messages in the value of a field."""
    if field.quantity == "map":
        return [] if field.value.scalar else list(value.values())
    if field.scalar:
        return []
    return list(value) if field.is_repeated else [value]


def _to_bytes(serialized):
    if isinstance(serialized, str):
        raise TypeError("Parsing expects bytes, but got a str")
    return memoryview(serialized).tobytes()


def _restored(path, data):
    return schema.message_class(path).FromString(data)


class _Codec:
    """Makes a class's table when it is first used, and puts it into the class."""

    def __init__(self, make):
        self._make = make

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, instance, owner):
        table = self._make(owner.DESCRIPTOR)
        setattr(owner, self._name, table)
        return table


def _decoders(descriptor):
    return {tag: d for f in descriptor.fields for tag, d in f.decoders().items()}


def _encoders(descriptor):
    return {f.number: f.encoder() for f in descriptor.fields}


def _documentation(descriptor):
    """The docstring of a message: a line for each field."""
    lines = ["The message %s." % descriptor.full_name]
    if descriptor.fields:
        lines += ["", "Fields:"]
    for f in descriptor.fields:
        kind = f._part or f.kind
        shown = {"one": kind, "map": "map of " + kind}.get(f.quantity, "repeated " + kind)
        lines.append("    %s: %s" % (f.name, shown))
    return "\n".join(lines)


def make_class(name, lines):
    """The class of a message, created from the library's descriptor."""
    descriptor = Descriptor(name, lines)
    space = {"__slots__": (), "__doc__": _documentation(descriptor), "DESCRIPTOR": descriptor,
             "__module__": "millrace.protos",
             "__qualname__": name, "_decoders": _Codec(_decoders), "_encoders": _Codec(_encoders)}
    for wrapper in map(schema.enum_wrapper, descriptor._nested("enum")):
        space.update(wrapper.items())
        space[wrapper.DESCRIPTOR.name] = wrapper
    space.update({f.name: f.attribute() for f in descriptor.fields})
    return MessageType(descriptor.name, (Message,), space)
