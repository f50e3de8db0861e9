"""Messages as JSON, as the module json_format of google.protobuf has it; out only.

Names become camelCase, numbers of 64 bits strings, bytes base64, enums their names.  Of the
well-known types BoolValue is its value, and an Any its message with "@type".
"""
import base64
import json
import math

from . import schema
from .text_format import shortest_float
from .wire import Error

_WIDE = ("int64", "uint64", "sint64", "fixed64", "sfixed64")


class SerializeToJsonError(Error):
    """The message has no JSON."""


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
        if not message.type_url:
            return {}
        found = schema.find_message(schema.short_name(message.type_url.rpartition("/")[2]))
        if found is None:
            raise SerializeToJsonError("There is no message for the type %s" % message.type_url)
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
