"""Messages as JSON, as the module json_format of google.protobuf has it.

Names become camelCase, numbers of 64 bits strings, bytes base64, enums their names.  Of the
well-known types BoolValue is its value, and an Any its message with "@type".  Read are these forms
and the others that protobuf allows: names as they are in the message, numbers of any width as
numbers or strings, enums by number.
"""
import base64
import json
import math

from . import schema, wire
from .text_format import shortest_float
from .wire import Error

_WIDE = ("int64", "uint64", "sint64", "fixed64", "sfixed64")


class ParseError(Error):
    """The JSON is not that of the message."""


def _class_of(type_url):
    return schema.find_message(schema.short_name(type_url.rpartition("/")[2]))


class _Printer:
    def __init__(self, defaults, keep_names, enum_numbers, float_precision):
        self.defaults, self.keep_names = defaults, keep_names
        self.enum_numbers, self.precision = enum_numbers, float_precision

    def message(self, message):
        full_name = message.DESCRIPTOR.full_name
        if full_name == "google.protobuf.BoolValue":
            return message.value
        if full_name == "google.protobuf.Any":
            return self.any(message)
        out = {self.name(f): self.value(f, v) for f, v in message.ListFields()}
        if self.defaults:
            self.add_defaults(message, out)
        return out

    def name(self, field):
        return field.name if self.keep_names else field.json_name

    def value(self, field, value):
        if field.quantity == "map":
            of = field.value
            return {self.key(k): self.one(of, v) for k, v in value.items()}
        if field.is_repeated:
            return [self.one(field, v) for v in value]
        return self.one(field, value)

    @staticmethod
    def key(key):
        return str(key).lower() if isinstance(key, bool) else str(key)

    def one(self, field, value):
        kind = field.kind
        if kind == "message":
            return self.message(value)
        if kind == "enum":
            known = field.enum_type.values_by_number.get(value)
            return known.name if known and not self.enum_numbers else value
        if kind == "bytes":
            return base64.b64encode(value).decode()
        if kind in _WIDE:
            return str(value)
        if kind in ("float", "double"):
            return self.real(kind, value)
        return value

    def real(self, kind, value):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        if kind == "double":
            return value
        if self.precision:
            return float(format(value, ".%dg" % self.precision))
        return shortest_float(value)

    def any(self, message):
        if not message.ListFields():
            return {}
        found = _class_of(message.type_url)
        if found is None:
            raise TypeError("Can not find message descriptor by type_url: %s" % message.type_url)
        value = self.message(found.FromString(message.value))
        out = {"@type": message.type_url}
        out.update(value if isinstance(value, dict) else {"value": value})
        return out

    def add_defaults(self, message, out):
        for field in message.DESCRIPTOR.fields:
            name = self.name(field)
            if name in out or field.has_presence:
                continue
            if field.is_repeated:
                out[name] = {} if field.quantity == "map" else []
            else:
                out[name] = self.one(field, field.scalar.default)


def MessageToDict(message, including_default_value_fields=False, preserving_proto_field_name=False,
                  use_integers_for_enums=False, descriptor_pool=None, float_precision=None):
    p = _Printer(including_default_value_fields, preserving_proto_field_name,
                 use_integers_for_enums, float_precision)
    return p.message(message)


def MessageToJson(message, including_default_value_fields=False, preserving_proto_field_name=False,
                  indent=2, sort_keys=False, use_integers_for_enums=False, descriptor_pool=None,
                  float_precision=None, ensure_ascii=True):
    plain = MessageToDict(message, including_default_value_fields, preserving_proto_field_name,
                          use_integers_for_enums, descriptor_pool, float_precision)
    return json.dumps(plain, indent=indent, sort_keys=sort_keys, ensure_ascii=ensure_ascii)


# ---- reading ------------------------------------------------------------------------------------

class _Parser:
    def __init__(self, ignore_unknown, most_levels):
        self.ignore_unknown, self.most_levels = ignore_unknown, most_levels

    def message(self, plain, message, level):
        if level > self.most_levels:
            raise ParseError("Message too deep. Max recursion depth is %d" % self.most_levels)
        full_name = message.DESCRIPTOR.full_name
        if full_name == "google.protobuf.BoolValue":
            message.value = self.scalar(message.DESCRIPTOR.fields_by_name["value"], plain)
            return
        if not isinstance(plain, dict):
            raise ParseError("%s expects a dict, got %.100r" % (full_name, plain))
        if full_name == "google.protobuf.Any":
            self.any(plain, message, level)
            return
        names = dict(message.DESCRIPTOR.fields_by_camelcase_name)
        names.update(message.DESCRIPTOR.fields_by_name)
        seen = set()
        for name, value in plain.items():
            field = names.get(name)
            if field is not None:
                self.once(field, seen, message)
                self.field(field, value, message, level)
            elif not self.ignore_unknown:
                raise ParseError("Message type \"%s\" has no field named \"%.100s\"."
                                 % (full_name, name))

    @staticmethod
    def once(field, seen, message):
        """The two names of a field are one, and so are the fields of a oneof."""
        if field.number in seen or (field.oneof and not seen.isdisjoint(field.others)):
            raise ParseError("Message type \"%s\" has %s given twice."
                             % (message.DESCRIPTOR.full_name, field.oneof or field.name))
        seen.add(field.number)

    def field(self, field, value, message, level):
        if value is None:  # JSON's way to say: the default
            return
        if field.quantity == "map":
            self.entries(field, value, getattr(message, field.name), level)
        elif field.is_repeated:
            self.items(field, value, getattr(message, field.name), level)
        elif field.scalar:
            setattr(message, field.name, self.scalar(field, value))
        else:
            part = getattr(message, field.name)
            part.SetInParent()
            self.message(value, part, level + 1)

    def items(self, field, values, container, level):
        if not isinstance(values, list):
            raise ParseError("repeated field %s must be in [] which is %.100r"
                             % (field.name, values))
        for value in values:
            if value is None:
                raise ParseError("null is not allowed to be used as an element of %s" % field.name)
            if field.scalar:
                container.append(self.scalar(field, value))
            else:
                self.message(value, container.add(), level + 1)

    def entries(self, field, plain, container, level):
        if not isinstance(plain, dict):
            raise ParseError("Map field %s must be in a dict which is %.100r" % (field.name, plain))
        for key, value in plain.items():
            if field.key.kind == "bool":
                key = {"true": True, "false": False}.get(key, key)
            key = self.scalar(field.key, key)
            if field.value.scalar:
                container[key] = self.scalar(field.value, value)
            else:
                self.message(value, container[key], level + 1)

    def any(self, plain, message, level):
        if not plain:
            return
        found = _class_of(plain.get("@type", ""))
        if found is None:
            raise ParseError("Can not find message descriptor by type_url: %.100s"
                             % plain.get("@type"))
        rest = {name: value for name, value in plain.items() if name != "@type"}
        if found is _class_of("google.protobuf.BoolValue"):
            rest = rest["value"]
        part = found()
        self.message(rest, part, level + 1)
        message.type_url, message.value = plain["@type"], part.SerializeToString()

    @staticmethod
    def scalar(field, value):
        """The value as the field takes it; which refuses what is not of its type."""
        kind = field.kind
        if kind == "bytes":
            data = value.encode()
            return base64.urlsafe_b64decode(data + b"=" * (4 - len(data) % 4))
        if kind == "bool" and not isinstance(value, bool):
            raise ParseError("Expected true or false without quotes for %s" % field.name)
        if kind in ("float", "double"):
            return float(value)  # "NaN" and "Infinity" too
        if kind not in ("string", "enum", "bool"):
            return _integer(value)
        if kind == "string" and not isinstance(value, str):
            raise ParseError("Expected a string for %s, not %.100r" % (field.name, value))
        return value


def _integer(value):
    if isinstance(value, bool):
        raise ParseError("Bool value %s is not acceptable for an integer" % value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, str) else value


def ParseDict(js_dict, message, ignore_unknown_fields=False, descriptor_pool=None,
              max_recursion_depth=wire.MOST_LEVELS):
    """Sets the fields that the dict has; returns the message."""
    try:
        _Parser(ignore_unknown_fields, max_recursion_depth).message(js_dict, message, 0)
    except (TypeError, ValueError, AttributeError, KeyError) as e:
        raise ParseError("Failed to parse %s: %s" % (message.DESCRIPTOR.name, e)) from None
    return message


def Parse(text, message, ignore_unknown_fields=False, descriptor_pool=None,
          max_recursion_depth=wire.MOST_LEVELS):
    try:
        plain = json.loads(text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as e:
        raise ParseError("Failed to load JSON: %s." % e) from None
    return ParseDict(plain, message, ignore_unknown_fields, descriptor_pool, max_recursion_depth)


def _without_doubles(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ParseError("Failed to load JSON: duplicate key.")
    return out
