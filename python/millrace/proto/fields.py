"""One field of a message: its description, the property that programs see, its bytes both ways.

A message keeps its fields in a dict by number.  There a scalar stands only when it differs from the
default or belongs to a oneof; a message only when it is set; containers may be empty.  Bytes of
parts are not read here: a part keeps them until it is looked at.

A decoder takes (values, data, i, n, depth) and returns the position behind the value; an encoder
appends pieces of bytes to a list.
"""
from functools import cached_property

from . import containers, scalars, schema, wire
from .wire import read_varint, truncated, varint

# Parts of at least this many bytes stay views of the bytes they came in: copies would cost more
# than what is kept alive by them.
BIG = 1 << 16


def is_default(value):
    """Whether a scalar without presence is not written; -0.0 is."""
    return not value and (type(value) is not float or str(value) != "-0.0")


def _part(data, i, stop):
    part = data[i:stop]
    return part if type(part) is bytes or len(part) >= BIG else bytes(part)


class FieldOptions:
    deprecated = lazy = weak = False

    def __init__(self, packed):
        self.packed = packed


class Field:
    """What a program sees as a FieldDescriptor."""
    TYPE_DOUBLE, TYPE_FLOAT, TYPE_INT64, TYPE_UINT64, TYPE_INT32, TYPE_FIXED64 = range(1, 7)
    TYPE_FIXED32, TYPE_BOOL, TYPE_STRING, TYPE_GROUP, TYPE_MESSAGE, TYPE_BYTES = range(7, 13)
    TYPE_UINT32, TYPE_ENUM, TYPE_SFIXED32, TYPE_SFIXED64, TYPE_SINT32, TYPE_SINT64 = range(13, 19)
    CPPTYPE_INT32, CPPTYPE_INT64, CPPTYPE_UINT32, CPPTYPE_UINT64, CPPTYPE_DOUBLE = range(1, 6)
    CPPTYPE_FLOAT, CPPTYPE_BOOL, CPPTYPE_ENUM, CPPTYPE_STRING, CPPTYPE_MESSAGE = range(6, 11)
    LABEL_OPTIONAL, LABEL_REQUIRED, LABEL_REPEATED = range(1, 4)

    is_extension = False
    extension_scope = None

    def __init__(self, owner, line):
        """line: as mr_message_describe has it."""
        name, number, quantity, kind, part, oneof, packed = line.split("\t")
        self._owner, self._part = owner, part
        self.name, self.number, self.quantity, self.kind = name, int(number), quantity, kind
        self.full_name = owner.full_name + "." + name
        self.oneof = oneof or None
        self.others = ()  # numbers of the other fields of the oneof
        self.packed = packed == "1"
        self.is_repeated = quantity != "one"
        self.label = self.LABEL_REPEATED if self.is_repeated else self.LABEL_OPTIONAL
        self.has_presence = not self.is_repeated and (kind == "message" or oneof != "")
        self.index = 0

    def __repr__(self):
        return "<field %s>" % self.full_name

    # ---- what it is of ----

    @cached_property
    def scalar(self):
        """None for messages."""
        if self.kind == "enum":
            return scalars.enum_scalar(schema.enum_wrapper(self._part))
        return scalars.SCALARS.get(self.kind)

    @cached_property
    def message_class(self):
        return schema.message_class(self._part)

    @property
    def entry_class(self):
        return self.message_class

    @cached_property
    def key(self):
        return self.message_class.DESCRIPTOR.fields_by_name["key"]

    @cached_property
    def value(self):
        return self.message_class.DESCRIPTOR.fields_by_name["value"]

    @cached_property
    def map_class(self):
        return containers.ScalarMap if self.value.scalar else containers.MessageMap

    # ---- properties of a FieldDescriptor ----

    @property
    def type(self):
        return self.scalar.number if self.scalar else self.TYPE_MESSAGE

    @property
    def cpp_type(self):
        return self.scalar.cpp if self.scalar else self.CPPTYPE_MESSAGE

    @property
    def containing_type(self):
        return self._owner

    @property
    def file(self):
        return self._owner.file

    has_options = False

    def GetOptions(self):
        return FieldOptions(self.packed)

    @property
    def message_type(self):
        return self.message_class.DESCRIPTOR if self.kind == "message" else None

    @property
    def enum_type(self):
        return schema.enum_wrapper(self._part).DESCRIPTOR if self.kind == "enum" else None

    @property
    def containing_oneof(self):
        return self._owner.oneofs_by_name[self.oneof] if self.oneof else None

    @property
    def has_default_value(self):
        return False

    @property
    def default_value(self):
        if self.is_repeated:
            return []
        return self.scalar.default if self.scalar else None

    @property
    def camelcase_name(self):
        first, *rest = self.name.split("_")
        return first + "".join(w[:1].upper() + w[1:] for w in rest)

    json_name = camelcase_name

    # ---- values ----

    def new_container(self, owner=None):
        if self.quantity == "map":
            return self.map_class(self, owner)
        kind = containers.RepeatedScalar if self.scalar else containers.RepeatedMessage
        return kind(self, owner)

    def is_set(self, value):
        """value: the value in the dict."""
        return not self.is_repeated or len(value) > 0

    def merge(self, into, values, value):
        """Merges the value of another message into this one's."""
        number = self.number
        if not self.is_repeated and self.scalar:
            values[number] = value
        elif number in values:
            values[number].MergeFrom(value)
        elif into._ghosts and number in into._ghosts:
            into._ghosts[number].MergeFrom(value)
        else:
            values[number] = value._copy() if self.is_repeated else value._clone()
        for other in self.others:
            into._forget(other)

    def init(self, message, value):
        """A keyword of a constructor."""
        if not self.is_repeated and self.scalar:
            setattr(message, self.name, value)
            return
        for other in self.others:
            message._forget(other)
        if self.is_repeated:
            message._values[self.number] = self._filled(value)
        else:
            message._values[self.number] = self.copy_of(value)

    def _filled(self, value):
        """A container with what a constructor was given."""
        new = self.new_container()
        if self.quantity == "map":
            new.MergeFrom(value)
        elif self.scalar:
            new.extend(value)
        else:
            new._items = [self.copy_of(v) for v in value]
        return new

    def copy_of(self, value):
        """Of a message of this field's class, or of a dict with its fields."""
        kind = self.message_class
        if type(value) is kind:
            return value._clone()
        if not isinstance(value, dict):
            raise scalars.wrong_type(value, kind.DESCRIPTOR.full_name)
        return kind(**value)

    # ---- the attribute ----

    def attribute(self):
        """The property of the class."""
        if self.is_repeated:
            return self._container_property()
        return self._scalar_property() if self.scalar else self._message_property()

    def _refuse(self, message, value):
        raise AttributeError("Assignment not allowed to %s field \"%s\" in protocol message object."
                             % ("repeated" if self.is_repeated else "message", self.name))

    def _container_property(self):
        number, new = self.number, self.new_container

        def get(message):
            values = message._values
            if values is None:
                values = message._load()
            found = values.get(number)
            if found is None:
                found = values[number] = new(message if message._owner is not None else None)
            return found
        return property(get, self._refuse, doc=self.name)

    def _message_property(self):
        number = self.number

        def get(message):
            values = message._values
            if values is None:
                values = message._load()
            found = values.get(number)
            return found if found is not None else message._ghost(self)
        return property(get, self._refuse, doc=self.name)

    def _scalar_property(self):
        number, scalar, others, presence = self.number, self.scalar, self.others, self.has_presence
        default, check = scalar.default, scalar.check

        def get(message):
            values = message._values
            if values is None:
                values = message._load()
            return values.get(number, default)

        def put(message, value):
            value = check(value)
            values = message._values
            if values is None:
                values = message._load()
            if presence or not is_default(value):
                values[number] = value
            else:
                values.pop(number, None)
            for other in others:
                message._forget(other)
            if message._owner is not None:
                message._attach()
        return property(get, put, doc=self.name)

    # ---- from bytes ----

    def decoders(self):
        """By tag.  Repeated numbers are read packed and unpacked."""
        if self.quantity == "map":
            return {self._tag(wire.BYTES): self._map_decoder()}
        if self.scalar is None:
            many = self.is_repeated
            decode = self._messages_decoder() if many else self._message_decoder()
            return {self._tag(wire.BYTES): self._in_oneof(decode)}
        if self.is_repeated:
            return self._scalars_decoders()
        return {self._tag(self.scalar.wire): self._in_oneof(self._scalar_decoder())}

    def _tag(self, wire_type):
        return self.number << 3 | wire_type

    def _in_oneof(self, decode):
        others = self.others
        if not others:
            return decode

        def decode_alone(values, data, i, n, depth):
            for other in others:
                values.pop(other, None)
            return decode(values, data, i, n, depth)
        return decode_alone

    def _message_decoder(self):
        number = self.number

        def decode(values, data, i, n, depth):
            size = data[i]
            i += 1
            if size > 127:
                size, i = read_varint(data, i - 1)
            stop = i + size
            if stop > n:
                raise truncated()
            found = values.get(number)
            if found is None:
                values[number] = self.message_class._of(_part(data, i, stop), depth + 1)
            else:
                found._add_bytes(_part(data, i, stop))
            return stop
        return decode

    def _messages_decoder(self):
        number = self.number

        def decode(values, data, i, n, depth):
            size = data[i]
            i += 1
            if size > 127:
                size, i = read_varint(data, i - 1)
            stop = i + size
            if stop > n:
                raise truncated()
            found = values.get(number)
            if found is None:
                found = values[number] = containers.RepeatedMessage(self)
            found._items.append(self.message_class._of(_part(data, i, stop), depth + 1))
            return stop
        return decode

    def _map_decoder(self):
        number = self.number

        def decode(values, data, i, n, depth):
            size = data[i]
            i += 1
            if size > 127:
                size, i = read_varint(data, i - 1)
            stop = i + size
            if stop > n:
                raise truncated()
            found = values.get(number)
            if found is None:
                found = values[number] = self.map_class(self, None, depth + 1)
            found._add_entry(_part(data, i, stop))
            return stop
        return decode

    def entry(self, data, depth):
        """Key and value of an entry's bytes; either may be left out."""
        if self._text_to_message and depth < wire.MOST_LEVELS:
            try:
                found = self._usual_entry(data, depth)
            except UnicodeDecodeError:
                found = None  # _parse makes the right error of it
            if found is not None:
                return found
        fields = {}
        self.message_class._parse(fields, data, depth)
        key, value = fields.get(1), fields.get(2)
        if key is None:
            key = self.key.scalar.default
        if value is None:
            of = self.value
            value = of.scalar.default if of.scalar else of.message_class()
        return key, value

    @cached_property
    def _text_to_message(self):
        return self.key.kind == "string" and self.value.kind == "message"

    def _usual_entry(self, data, depth):
        """An entry as everybody writes it: key, value, nothing else.  None where it is not so."""
        n = len(data)
        if n < 4 or data[0] != 0x0a or data[1] > n - 4 or data[1] > 127:
            return None
        i = 2 + data[1]
        if data[i] != 0x12:
            return None
        size = data[i + 1]
        if size > 127:
            return None if n - i < 12 else self._long_entry(data, i, n, depth)
        if i + 2 + size != n:
            return None
        return str(data[2:i], "utf-8"), self.value.message_class._of(data[i + 2:], depth + 1)

    def _long_entry(self, data, i, n, depth):
        size, start = read_varint(data, i + 1)
        if start + size != n:
            return None
        return (str(data[2:i], "utf-8"),
                self.value.message_class._of(_part(data, start, n), depth + 1))

    def _scalar_decoder(self):
        if self.scalar.from_wire:
            return self._varint_decoder()
        return self._fixed_decoder() if self.scalar.form else self._bytes_decoder()

    def _varint_decoder(self):
        number, convert, presence = self.number, self.scalar.from_wire, self.has_presence

        def decode(values, data, i, n, depth):
            value = data[i]
            i += 1
            if value > 127:
                value, i = read_varint(data, i - 1)
            value = convert(value)
            if value or presence:
                values[number] = value
            else:
                values.pop(number, None)  # the last one counts, also when it is the default
            return i
        return decode

    def _fixed_decoder(self):
        number, presence = self.number, self.has_presence
        unpack, size = self.scalar.form.unpack_from, self.scalar.form.size

        def decode(values, data, i, n, depth):
            value = unpack(data, i)[0]
            if presence or not is_default(value):
                values[number] = value
            else:
                values.pop(number, None)
            return i + size
        return decode

    def _bytes_decoder(self):
        number, presence, is_text = self.number, self.has_presence, self.kind == "string"

        def decode(values, data, i, n, depth):
            size = data[i]
            i += 1
            if size > 127:
                size, i = read_varint(data, i - 1)
            stop = i + size
            if stop > n:
                raise truncated()
            if size or presence:
                part = data[i:stop]
                values[number] = str(part, "utf-8") if is_text else bytes(part)
            else:
                values.pop(number, None)
            return stop
        return decode

    def _scalars_decoders(self):
        number, scalar = self.number, self.scalar
        decode_one = Field._scalar_decoder(self)

        def items_of(values):
            found = values.get(number)
            if found is None:
                found = values[number] = containers.RepeatedScalar(self)
            return found._items

        def decode(values, data, i, n, depth):
            alone = {}
            i = decode_one(alone, data, i, n, depth)
            items_of(values).append(alone.get(number, scalar.default))
            return i

        def decode_packed(values, data, i, n, depth):
            size, i = read_varint(data, i)
            stop = i + size
            if stop > n:
                raise truncated()
            items_of(values).extend(scalar.unpack(data[i:stop]))
            return stop
        found = {self._tag(scalar.wire): decode}
        if scalar.packable:
            found[self._tag(wire.BYTES)] = decode_packed
        return found

    # ---- to bytes ----

    def encoder(self):
        """A function of (value, out, ordered); ordered: entries of maps by their keys."""
        if self.quantity == "map":
            return self._map_encoder()
        if self.scalar is None:
            return self._messages_encoder() if self.is_repeated else self._message_encoder()
        return self._scalars_encoder() if self.is_repeated else self._scalar_encoder()

    def _message_encoder(self):
        head = wire.tag(self.number, wire.BYTES)

        def encode(value, out, ordered):
            body = value._bytes(ordered)
            out += (head, varint(len(body)), body)
        return encode

    def _messages_encoder(self):
        head = wire.tag(self.number, wire.BYTES)

        def encode(value, out, ordered):
            for item in value._items:
                body = item._bytes(ordered)
                out += (head, varint(len(body)), body)
        return encode

    def _scalar_encoder(self):
        head, write = wire.tag(self.number, self.scalar.wire), self.scalar.write

        def encode(value, out, ordered):
            out += (head, write(value))
        return encode

    def _scalars_encoder(self):
        scalar = self.scalar
        head = wire.tag(self.number, wire.BYTES if self.packed else scalar.wire)

        def encode(value, out, ordered):
            for item in value._items:
                out += (head, scalar.write(item))

        def encode_packed(value, out, ordered):
            if value._items:
                body = scalar.pack(value._items)
                out += (head, varint(len(body)), body)
        return encode_packed if self.packed else encode

    def _map_encoder(self):
        head = wire.tag(self.number, wire.BYTES)
        state = []  # the encoders of key and value: made when first needed, as messages nest

        def encode(value, out, ordered):
            pending = value._pending
            if pending and not ordered:
                for body in pending:
                    out += (head, varint(len(body)), body)
                return
            if not state:
                state[:] = self.key.encoder(), self.value.encoder()
            put_key, put_value = state
            items = value._items
            for key in sorted(items) if ordered else items:
                entry = []
                put_key(key, entry, ordered)
                put_value(items[key], entry, ordered)
                body = b"".join(entry)
                out += (head, varint(len(body)), body)
        return encode
