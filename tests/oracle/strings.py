"""tests/oracle/strings.py -- strings and texts: what Python says of them."""
import base64
import re

import numpy as np

from graph import STRING, Graph, Output, Type

RNG = None  # set by run.py

LETTERS = "aAbBzZ 09-_.\t\n\u00e4\u00df\u03b1\u03a3\u20ac\U0001f600\u0130\ufb01\u01c5"


def strings(values, shape=None):
    a = np.empty(len(values), STRING)
    a[:] = values
    return a if shape is None else a.reshape(shape)


def run(build):
    g = Graph()
    try:
        return g.run(build(g))
    finally:
        g.close()


def below(n):
    return int(RNG.integers(n))


def text(most=8, letters=LETTERS):
    return "".join(letters[below(len(letters))] for _ in range(below(most + 1)))


def texts(n=6, **how):
    return [text(**how) for _ in range(n)]


def encoded(values):
    return strings([v.encode() for v in values])


def one(name, inputs, **attrs):
    return run(lambda g: [g.op(name, inputs, **attrs)])[0]


def covers(*ops):
    def mark(test):
        test.ops = ops
        return test
    return mark


# ---- one string becomes another ----

@covers("StringLower", "StringUpper", "StringStrip", "StringLength")
def test_case_and_length():
    t = texts(20)
    # Python gives a capital sharp s and dotted i as Unicode does, in full
    assert list(one("StringLower", [encoded(t)], encoding="utf-8")) == [v.lower().encode() for v in t], t
    assert list(one("StringUpper", [encoded(t)], encoding="utf-8")) == [v.upper().encode() for v in t], t
    assert list(one("StringLower", [encoded(t)])) == [v.encode().lower() for v in t]
    assert list(one("StringUpper", [encoded(t)])) == [v.encode().upper() for v in t]
    assert list(one("StringStrip", [encoded(t)])) == [v.encode().strip() for v in t]
    assert list(one("StringLength", [encoded(t)])) == [len(v.encode()) for v in t]
    assert list(one("StringLength", [encoded(t)], unit="UTF8_CHAR")) == [len(v) for v in t]


@covers("EncodeBase64", "DecodeBase64")
def test_base64():
    rows = [bytes(RNG.integers(0, 256, below(20), np.uint8)) for _ in range(8)]
    padded = one("EncodeBase64", [strings(rows)], pad=True)
    assert list(padded) == [base64.urlsafe_b64encode(r) for r in rows]
    plain = one("EncodeBase64", [strings(rows)])
    assert list(plain) == [base64.urlsafe_b64encode(r).rstrip(b"=") for r in rows]
    assert list(one("DecodeBase64", [plain])) == rows and list(one("DecodeBase64", [padded])) == rows


@covers("AsString", "StringToNumber")
def test_numbers():
    x = np.exp(RNG.normal(0, 8, 10)) * RNG.choice([-1, 1], 10)
    for t in (np.float32, np.float64):
        v = x.astype(t)
        for how, f in (({}, "%f"), ({"precision": 3}, "%.3f"), ({"scientific": True}, "%e"), ({"shortest": True}, "%g"),
                       ({"width": 12, "fill": "0", "precision": 2}, "%012.2f")):
            assert list(one("AsString", [v], **how)) == [(f % float(e)).encode() for e in v], how
        said = strings([("%.9g" % e).encode() for e in x])
        assert list(one("StringToNumber", [said], out_type=Type(t))) == [t(s.decode()) for s in said]
    for t in (np.int32, np.int64):
        v = RNG.integers(np.iinfo(t).min, np.iinfo(t).max, 8, t)
        said = one("AsString", [v])
        assert list(said) == [b"%d" % e for e in v]
        assert list(one("StringToNumber", [said], out_type=Type(t))) == list(v)


@covers("Substr")
def test_substr():
    t = [v for v in texts(12) if v]
    pos = np.array([below(2 * len(v) + 1) - len(v) for v in t], np.int32)
    length = np.array([below(5) for _ in t], np.int32)
    want = [v[p:] if p >= 0 else v[len(v) + p:] for v, p in zip(t, pos)]
    got = one("Substr", [encoded(t), pos, length], unit="UTF8_CHAR")
    assert list(got) == [w[:n].encode() for w, n in zip(want, length)], (t, pos, length)


# ---- splitting and joining ----

@covers("StringSplitV2")
def test_split():
    t = texts(6, letters="ab ,;\t")
    for sep in ("", ",", ", ", "ab"):
        maxsplit = below(4) - 1
        words = [v.split(sep or None, maxsplit) for v in t]
        g = Graph()
        node = g.op("StringSplitV2", [encoded(t), strings([sep.encode()], ())], maxsplit=maxsplit)
        indices, values, shape = g.run([Output(node.oper, i) for i in range(3)])
        g.close()
        assert list(values) == [w.encode() for row in words for w in row], (t, sep)
        assert indices.tolist() == [[i, k] for i, row in enumerate(words) for k in range(len(row))]
        assert shape.tolist() == [len(t), max(map(len, words))]


@covers("ReduceJoin", "UnsortedSegmentJoin")
def test_join():
    t = texts(12, letters="ab")
    a = encoded(t).reshape(3, 4)
    assert list(one("ReduceJoin", [a, np.int32(1)], separator="-")) == [b"-".join(r) for r in a]
    assert list(one("ReduceJoin", [a, np.int32(0)])) == [b"".join(r) for r in a.T]
    ids = RNG.integers(0, 4, 12).astype(np.int32)
    got = one("UnsortedSegmentJoin", [a.reshape(12), ids, np.int32(4)], separator=",")
    assert list(got) == [b",".join(v for v, i in zip(a.reshape(12), ids) if i == s) for s in range(4)]


# ---- patterns ----

PATTERNS = ["a+", "[^a]", "(a|b)(c)?", "^a", "b$", "(?i)A.b", "\\w+", "[a-c]{2}", "a*?b", "(?:ab)+", "\\d|\\s"]


@covers("RegexFullMatch", "RegexReplace", "StaticRegexFullMatch", "StaticRegexReplace")
def test_patterns():
    t = texts(12, letters="abcAB 1")
    for p in PATTERNS:
        pattern = strings([p.encode()], ())
        full = [re.fullmatch(p, v) is not None for v in t]
        assert list(one("RegexFullMatch", [encoded(t), pattern])) == full, p
        assert list(one("StaticRegexFullMatch", [encoded(t)], pattern=p)) == full, p
        want = [re.sub(p, "<\\g<0>>", v).encode() for v in t]
        by = strings([b"<\\0>"], ())
        assert list(one("RegexReplace", [encoded(t), pattern, by])) == want, (p, t)
        assert list(one("StaticRegexReplace", [encoded(t)], pattern=p, rewrite="<\\0>")) == want, (p, t)


# ---- encodings ----

NAMES = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}


@covers("UnicodeTranscode")
def test_encodings():
    t = texts(8)
    for to, name in NAMES.items():
        for source in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
            rows = strings([v.encode(source) for v in t])
            got = one("UnicodeTranscode", [rows], input_encoding=source, output_encoding=to)
            assert list(got) == [v.encode(name) for v in t], (source, to)
    noise = [bytes(RNG.integers(0, 256, below(12), np.uint8)) for _ in range(8)]
    for errors in ("replace", "ignore"):
        got = one("UnicodeTranscode", [strings(noise)], input_encoding="UTF-8", output_encoding="UTF-8", errors=errors)
        assert list(got) == [n.decode("utf-8", errors).encode() for n in noise], noise
    single = strings([bytes(RNG.integers(0, 128, 5, np.uint8)) + b"\xe4\xf6"])
    for name in ("iso-8859-1", "iso-8859-15", "windows-1250", "windows-1251", "windows-1252", "koi8-r"):
        got = one("UnicodeTranscode", [single], input_encoding=name, output_encoding="UTF-8")
        assert got[0] == single[0].decode(name).encode(), name
