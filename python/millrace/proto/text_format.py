"""Protobuf's text format, as the module of that name in google.protobuf has it.

Reading is the library's.  Writing is done here, because Python's form (1.0; no key where it is the
default) is not that of C++ (1; all keys), and there are options.
"""
import re

import numpy as np

import _millrace

from .fields import is_default
from .wire import Error


class ParseError(Error):
    """The text is not that of a message; it begins with the line and column."""

    def __init__(self, message=None, line=None, column=None):
        super().__init__(message)
        self._line, self._column = line, column

    def GetLine(self):
        return self._line

    def GetColumn(self):
        return self._column


# What protobuf's functions would pass over with these is a ParseError here all the same.
_READING = {"allow_unknown_extension", "allow_field_number", "descriptor_pool", "allow_unknown_field"}
_WRITING = {"message_formatter", "print_unknown_fields", "force_colon"}


def _check_options(options, known):
    for name in options:
        if name not in known:
            raise TypeError("text_format has no option %r" % name)


def Parse(text, message, **options):
    """Reads the text into the message, which is emptied before."""
    _check_options(options, _READING)
    data = _parsed(text, message)
    message.ParseFromString(data)
    return message


def Merge(text, message, **options):
    _check_options(options, _READING)
    message.MergeFromString(_parsed(text, message))
    return message


def ParseLines(lines, message, **options):
    return Parse("\n".join(_text(line) for line in lines), message, **options)


def MergeLines(lines, message, **options):
    return Merge("\n".join(_text(line) for line in lines), message, **options)


def _text(text):
    return text if isinstance(text, str) else bytes(text).decode()


def _parsed(text, message):
    try:
        return _millrace.message_from_text(message.DESCRIPTOR._path, _text(text))
    except UnicodeDecodeError as e:
        raise ParseError(str(e)) from None
    except Exception as e:  # of whatever class the extension has
        at = re.search(r" (\d+):(\d+): ", str(e))
        line, column = map(int, at.groups()) if at else (None, None)
        raise ParseError(str(e), line, column) from None


# ---- writing ------------------------------------------------------------------------------------

_ESCAPES = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
_ESCAPED = [_ESCAPES.get(i) or (chr(i) if 32 <= i < 127 else "\\%03o" % i) for i in range(256)]
_PLAIN = re.compile(rb"[ !#-&(-\[\]-~]*")  # nothing to escape


def escape(value, as_utf8=False):
    """A string or bytes as between quotes."""
    if isinstance(value, str) and as_utf8:
        return "".join(c if ord(c) > 127 else _ESCAPED[ord(c)] for c in value)
    data = value.encode() if isinstance(value, str) else value
    if _PLAIN.fullmatch(data):
        return data.decode("ascii")
    return "".join([_ESCAPED[b] for b in data])


def shortest_float(value):
    """The float of the fewest digits that rounds to this float of 32 bits."""
    return float(str(np.float32(value)))


class _Printer:
    """Collects lines; a line is (level, text), so that one line and many are the same work."""

    def __init__(self, as_utf8, short, use_index_order, float_format, double_format, name_numbers,
                 pointy):
        self.lines = []
        self.as_utf8, self.short, self.by_index = as_utf8, short, use_index_order
        self.float_format, self.double_format = float_format, double_format or float_format
        self.numbers = name_numbers
        self.begin, self.end = (" <", ">") if pointy else (" {", "}")

    def scalar(self, field, value):
        kind = field.kind
        if kind == "string" or kind == "bytes":
            return '"%s"' % escape(value, self.as_utf8 and kind == "string")
        if kind == "bool":
            return "true" if value else "false"
        if kind == "enum":
            known = field.enum_type.values_by_number.get(value)
            return known.name if known else str(value)
        if kind == "float":
            return self._real(value, self.float_format, shortest_float)
        if kind == "double":
            return self._real(value, self.double_format, float)
        return str(value)

    @staticmethod
    def _real(value, form, shortest):
        return format(value, form) if form else str(shortest(value))

    def field(self, field, value, level):
        name = str(field.number) if self.numbers else field.name
        if field.quantity == "map":
            for key in sorted(value._items):
                self.entry(field, name, key, value._items[key], level)
        elif not field.is_repeated:
            self.value(field, name, value, level)
        elif self.short and field.scalar and field.kind not in ("string", "bytes"):
            texts = ", ".join(self.scalar(field, v) for v in value)
            self.lines.append((level, "%s: [%s]" % (name, texts)))
        else:
            for v in value:
                self.value(field, name, v, level)

    def value(self, field, name, value, level):
        if field.scalar:
            self.lines.append((level, "%s: %s" % (name, self.scalar(field, value))))
            return
        self.lines.append((level, name + self.begin))
        self.message(value, level + 1)
        self.lines.append((level, self.end))

    def entry(self, field, name, key, value, level):
        self.lines.append((level, name + self.begin))
        names = ("1", "2") if self.numbers else ("key", "value")
        if not is_default(key):
            self.value(field.key, names[0], key, level + 1)
        if field.value.scalar is None or not is_default(value):
            self.value(field.value, names[1], value, level + 1)
        self.lines.append((level, self.end))

    def message(self, message, level):
        pairs = message.ListFields()
        if self.by_index:
            pairs.sort(key=lambda pair: pair[0].index)
        for field, value in pairs:
            self.field(field, value, level)


def MessageToString(message, as_utf8=False, as_one_line=False, use_short_repeated_primitives=False,
                    pointy_brackets=False, use_index_order=False, float_format=None,
                    double_format=None, use_field_number=False, descriptor_pool=None, indent=0,
                    **options):
    """The text."""
    _check_options(options, _WRITING)
    for name, value in options.items():
        if value:
            raise NotImplementedError("MessageToString(%s=%r)" % (name, value))
    p = _Printer(as_utf8, use_short_repeated_primitives, use_index_order, float_format,
                 double_format, use_field_number, pointy_brackets)
    p.message(message, 0)
    if as_one_line:
        return " ".join([text for _, text in p.lines])
    return "".join([" " * (indent + 2 * level) + text + "\n" for level, text in p.lines])


def PrintMessage(message, out, indent=0, **options):
    out.write(MessageToString(message, indent=indent, **options))


def MessageToBytes(message, **options):
    text = MessageToString(message, **options)
    return text.encode("utf-8" if options.get("as_utf8") else "ascii")
