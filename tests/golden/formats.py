"""tests/golden/formats.py -- TensorFlow's file formats, encoded with Python's standard library and numpy alone.

Nothing here uses Millrace or TensorFlow, so a file that this module wrote is a second opinion on our readers and
writers. The formats are those of docs/formats and of TensorFlow's public .proto files:

    encode, text        protobuf messages as bytes, and as text the way protobuf's C++ printer writes them
    crc32c, record      TFRecord files
    table, bundle, v1   sorted tables, and checkpoints of both formats
    snappy              compressed blocks of a table

A message is a dict of its fields; SCHEMA names the fields of each kind. A field is written when it is in the dict,
also if it has its default value, as the fields of a oneof must be.
"""
import struct

import numpy as np

# ---- protobuf -----------------------------------------------------------------------------------

# kind -> field -> (number, type). A type in brackets is repeated; {type} is a map from strings.
SCHEMA = {
    "GraphDef": {"node": (1, ["NodeDef"]), "library": (2, "FunctionDefLibrary"), "versions": (4, "VersionDef")},
    "VersionDef": {"producer": (1, "int"), "min_consumer": (2, "int")},
    "NodeDef": {"name": (1, "string"), "op": (2, "string"), "input": (3, ["string"]), "device": (4, "string"),
                "attr": (5, {"AttrValue"})},
    "AttrValue": {"list": (1, "ListValue"), "s": (2, "bytes"), "i": (3, "int"), "f": (4, "float"), "b": (5, "bool"),
                  "type": (6, "DataType"), "shape": (7, "TensorShapeProto"), "tensor": (8, "TensorProto"),
                  "placeholder": (9, "string"), "func": (10, "NameAttrList")},
    "ListValue": {"s": (2, ["bytes"]), "i": (3, ["int"]), "f": (4, ["float"]), "b": (5, ["bool"]),
                  "type": (6, ["DataType"]),
                  "shape": (7, ["TensorShapeProto"]), "tensor": (8, ["TensorProto"]), "func": (9, ["NameAttrList"])},
    "NameAttrList": {"name": (1, "string"), "attr": (2, {"AttrValue"})},
    "TensorShapeProto": {"dim": (2, ["Dim"]), "unknown_rank": (3, "bool")},
    "Dim": {"size": (1, "int"), "name": (2, "string")},
    "TensorProto": {"dtype": (1, "DataType"), "tensor_shape": (2, "TensorShapeProto"), "tensor_content": (4, "bytes"),
                    "float_val": (5, ["float"]), "double_val": (6, ["double"]), "int_val": (7, ["int"]),
                    "string_val": (8, ["bytes"]), "scomplex_val": (9, ["float"]), "int64_val": (10, ["int"]),
                    "bool_val": (11, ["bool"]), "dcomplex_val": (12, ["double"]), "half_val": (13, ["int"]),
                    "uint32_val": (16, ["int"]), "uint64_val": (17, ["int"])},
    "FunctionDefLibrary": {"function": (1, ["FunctionDef"]), "gradient": (2, ["GradientDef"])},
    "GradientDef": {"function_name": (1, "string"), "gradient_func": (2, "string")},
    "FunctionDef": {"signature": (1, "OpDef"), "node_def": (3, ["NodeDef"]), "ret": (4, {"string"}),
                    "attr": (5, {"AttrValue"})},
    "OpDef": {"name": (1, "string"), "input_arg": (2, ["ArgDef"]), "output_arg": (3, ["ArgDef"]),
              "attr": (4, ["AttrDef"]),
              "is_stateful": (17, "bool")},
    "ArgDef": {"name": (1, "string"), "type": (3, "DataType"), "type_attr": (4, "string")},
    "AttrDef": {"name": (1, "string"), "type": (2, "string"), "default_value": (3, "AttrValue")},
    "MetaGraphDef": {"meta_info_def": (1, "MetaInfoDef"), "graph_def": (2, "GraphDef"), "saver_def": (3, "SaverDef"),
                     "collection_def": (4, {"CollectionDef"}), "signature_def": (5, {"SignatureDef"}),
                     "asset_file_def": (6, ["AssetFileDef"]), "object_graph_def": (7, "SavedObjectGraph")},
    "MetaInfoDef": {"meta_graph_version": (1, "string"), "tags": (4, ["string"]), "tensorflow_version": (5, "string"),
                    "stripped_default_attrs": (7, "bool")},
    "SaverDef": {"filename_tensor_name": (1, "string"), "save_tensor_name": (2, "string"),
                 "restore_op_name": (3, "string"),
                 "max_to_keep": (4, "int"), "keep_checkpoint_every_n_hours": (6, "float"), "version": (7, "int")},
    "CollectionDef": {"node_list": (1, "Strings"), "bytes_list": (2, "Strings"), "int64_list": (3, "Ints"),
                      "float_list": (4, "Floats")},
    "Strings": {"value": (1, ["bytes"])},
    "Ints": {"value": (1, ["int"])},
    "Floats": {"value": (1, ["float"])},
    "VariableDef": {"variable_name": (1, "string"), "initializer_name": (2, "string"), "snapshot_name": (3, "string")},
    "SignatureDef": {"inputs": (1, {"TensorInfo"}), "outputs": (2, {"TensorInfo"}), "method_name": (3, "string")},
    "TensorInfo": {"name": (1, "string"), "dtype": (2, "DataType"), "tensor_shape": (3, "TensorShapeProto")},
    "AssetFileDef": {"tensor_info": (1, "TensorInfo"), "filename": (2, "string")},
    "SavedModel": {"saved_model_schema_version": (1, "int"), "meta_graphs": (2, ["MetaGraphDef"])},
    "SavedObjectGraph": {"nodes": (1, ["SavedObject"])},
    "SavedObject": {"children": (1, ["ObjectReference"]), "user_object": (4, "SavedUserObject"),
                    "variable": (7, "SavedVariable")},
    "ObjectReference": {"node_id": (1, "int"), "local_name": (2, "string")},
    "SavedUserObject": {"identifier": (1, "string"), "version": (2, "VersionDef")},
    "SavedVariable": {"dtype": (1, "DataType"), "shape": (2, "TensorShapeProto"), "trainable": (3, "bool"),
                      "name": (6, "string")},
    "TrackableObjectGraph": {"nodes": (1, ["TrackableObject"])},
    "TrackableObject": {"children": (1, ["ObjectReference"]), "attributes": (2, ["SerializedTensor"])},
    "SerializedTensor": {"name": (1, "string"), "full_name": (2, "string"), "checkpoint_key": (3, "string")},
    "BundleHeaderProto": {"num_shards": (1, "int"), "version": (3, "VersionDef")},
    "BundleEntryProto": {"dtype": (1, "DataType"), "shape": (2, "TensorShapeProto"), "shard_id": (3, "int"),
                         "offset": (4, "int"),
                         "size": (5, "int"), "crc32c": (6, "fixed32"), "slices": (7, ["TensorSliceProto"])},
    "TensorSliceProto": {"extent": (1, ["Extent"])},
    "Extent": {"start": (1, "int"), "length": (2, "int")},
    "SavedTensorSlices": {"meta": (1, "SavedTensorSliceMeta"), "data": (2, "SavedSlice")},
    "SavedTensorSliceMeta": {"tensor": (1, ["SavedSliceMeta"]), "versions": (2, "VersionDef")},
    "SavedSliceMeta": {"name": (1, "string"), "shape": (2, "TensorShapeProto"), "type": (3, "DataType"),
                       "slice": (4, ["TensorSliceProto"])},
    "SavedSlice": {"name": (1, "string"), "slice": (2, "TensorSliceProto"), "data": (3, "TensorProto")},
    "Example": {"features": (1, "Features")},
    "SequenceExample": {"context": (1, "Features"), "feature_lists": (2, "FeatureLists")},
    "Features": {"feature": (1, {"Feature"})},
    "FeatureLists": {"feature_list": (1, {"FeatureList"})},
    "FeatureList": {"feature": (1, ["Feature"])},
    "Feature": {"bytes_list": (1, "Strings"), "float_list": (2, "Floats"), "int64_list": (3, "Ints")},
    "Event": {"wall_time": (1, "double"), "step": (2, "int"), "file_version": (3, "string"), "graph_def": (4, "bytes"),
              "summary": (5, "Summary"), "session_log": (7, "SessionLog"), "meta_graph_def": (9, "bytes")},
    "Summary": {"value": (1, ["SummaryValue"])},
    "SummaryValue": {"tag": (1, "string"), "simple_value": (2, "float"), "image": (4, "Image"),
                     "histo": (5, "HistogramProto"),
                     "tensor": (8, "TensorProto"), "metadata": (9, "SummaryMetadata")},
    "Image": {"height": (1, "int"), "width": (2, "int"), "colorspace": (3, "int"),
              "encoded_image_string": (4, "bytes")},
    "HistogramProto": {"min": (1, "double"), "max": (2, "double"), "num": (3, "double"), "sum": (4, "double"),
                       "sum_squares": (5, "double"), "bucket_limit": (6, ["double"]), "bucket": (7, ["double"])},
    "SummaryMetadata": {"plugin_data": (1, "PluginData"), "display_name": (2, "string")},
    "PluginData": {"plugin_name": (1, "string"), "content": (2, "bytes")},
    "SessionLog": {"status": (1, "int"), "checkpoint_path": (2, "string")},
}

# DataType -> (number, numpy's type)
TYPES = {"DT_FLOAT": (1, np.float32), "DT_DOUBLE": (2, np.float64), "DT_INT32": (3, np.int32),
         "DT_UINT8": (4, np.uint8),
         "DT_INT16": (5, np.int16), "DT_INT8": (6, np.int8), "DT_STRING": (7, np.object_),
         "DT_COMPLEX64": (8, np.complex64),
         "DT_INT64": (9, np.int64), "DT_BOOL": (10, np.bool_), "DT_BFLOAT16": (14, None), "DT_UINT16": (17, np.uint16),
         "DT_COMPLEX128": (18, np.complex128), "DT_HALF": (19, np.float16), "DT_RESOURCE": (20, None),
         "DT_UINT32": (22, np.uint32),
         "DT_UINT64": (23, np.uint64)}


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def as_bytes(v):
    return v.encode() if isinstance(v, str) else bytes(v)


def encode_scalar(kind, v):
    """The wire type and the bytes of one value."""
    if kind in ("int", "bool"):
        return 0, varint(int(v))
    if kind == "DataType":
        return 0, varint(TYPES[v][0])
    if kind == "float":
        return 5, struct.pack("<f", v)
    if kind == "fixed32":
        return 5, struct.pack("<I", v)
    if kind == "double":
        return 1, struct.pack("<d", v)
    data = as_bytes(v) if kind in ("string", "bytes") else encode(kind, v)
    return 2, varint(len(data)) + data


def encode_field(number, kind, v):
    wire, data = encode_scalar(kind, v)
    return varint(number << 3 | wire) + data


def encode(kind, message):
    """The bytes of a message: fields by number, maps by key, numbers packed."""
    schema, out = SCHEMA[kind], b""
    for name, v in sorted(message.items(), key=lambda f: schema[f[0]][0]):
        number, t = schema[name]
        if isinstance(t, set):
            for k in sorted(v):
                entry = encode_field(1, "string", k) + encode_field(2, next(iter(t)), v[k])
                out += varint(number << 3 | 2) + varint(len(entry)) + entry
        elif not isinstance(t, list):
            out += encode_field(number, t, v)
        elif t[0] in ("int", "bool", "DataType", "float", "double"):
            packed = b"".join(encode_scalar(t[0], x)[1] for x in v)
            out += varint(number << 3 | 2) + varint(len(packed)) + packed if len(v) else b""
        else:
            out += b"".join(encode_field(number, t[0], x) for x in v)
    return out


def quoted(v):
    special = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return '"%s"' % "".join(special.get(c) or (chr(c) if 32 <= c < 127 else "\\%03o" % c) for c in as_bytes(v))


def text_of_float(v):
    """The fewest digits that give the same float again, as printf's %g writes them."""
    for digits in range(6, 10):
        s = "%.*g" % (digits, v)
        if np.float32(s) == np.float32(v):
            return s
    return s


def text_scalar(name, kind, v, indent):
    if kind in SCHEMA:
        return "%s%s {\n%s%s}\n" % (indent, name, text(kind, v, indent + "  "), indent)
    shown = {"bool": lambda: "true" if v else "false", "DataType": lambda: v, "string": lambda: quoted(v),
             "bytes": lambda: quoted(v),
             "float": lambda: text_of_float(v)}.get(kind, lambda: str(int(v)))()
    return "%s%s: %s\n" % (indent, name, shown)


def text(kind, message, indent=""):
    """As text, the way protobuf's C++ printer writes it."""
    schema, out = SCHEMA[kind], ""
    for name, v in sorted(message.items(), key=lambda f: schema[f[0]][0]):
        t = schema[name][1]
        if isinstance(t, set):
            for k in sorted(v):
                out += "%s%s {\n%s%s%s}\n" % (indent, name, text_scalar("key", "string", k, indent + "  "),
                                            text_scalar("value", next(iter(t)), v[k], indent + "  "), indent)
        else:
            for x in v if isinstance(t, list) else [v]:
                out += text_scalar(name, t[0] if isinstance(t, list) else t, x, indent)
    return out


# ---- tensors ------------------------------------------------------------------------------------

def type_name(a):
    return next(name for name, (_, t) in TYPES.items() if t and a.dtype == t)


def shape(dims):
    return {"dim": [{"size": d} if d else {} for d in dims]} if len(dims) else {}


def values(a):
    """The field of a TensorProto that holds the elements one by one, and what is in it."""
    flat, name = a.ravel(), type_name(a)
    if name in ("DT_COMPLEX64", "DT_COMPLEX128"):
        return "scomplex_val" if name == "DT_COMPLEX64" else "dcomplex_val", [x for v in flat for x in (v.real, v.imag)]
    if name == "DT_HALF":
        return "half_val", [int(v) for v in flat.view(np.uint16)]
    field = {"DT_FLOAT": "float_val", "DT_DOUBLE": "double_val", "DT_INT64": "int64_val", "DT_BOOL": "bool_val",
             "DT_STRING": "string_val", "DT_UINT32": "uint32_val", "DT_UINT64": "uint64_val"}.get(name, "int_val")
    return field, list(flat)


def tensor(a, how="content"):
    """A TensorProto. how: "content" raw bytes, "values" each value, "short" without repeated values at the end."""
    a = np.asarray(a)
    out = {"dtype": type_name(a), "tensor_shape": shape(a.shape)}
    field, v = values(a)
    if how == "content" and a.dtype != np.object_:
        out["tensor_content"] = a.tobytes()
        return out
    step = 2 if "complex" in field else 1
    while how == "short" and len(v) > step and v[-step:] == v[-2 * step:-step]:
        v = v[:-step]
    out[field] = v
    return out


# ---- checksums and records ----------------------------------------------------------------------

def make_crc_table():
    rows = []
    for c in range(256):
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
        rows.append(c)
    return rows


CRC_TABLE = make_crc_table()


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ b) & 255]
    return crc ^ 0xFFFFFFFF


def mask(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", mask(crc32c(head))) + data + struct.pack("<I", mask(crc32c(data)))


# ---- sorted tables ------------------------------------------------------------------------------

def snappy(data):
    """A Snappy block: copies of four bytes and more that came before, literals for the rest."""
    out, seen, at, literal = varint(len(data)), {}, 0, 0

    def flush(end):
        piece, parts = data[literal:end], b""
        for i in range(0, len(piece), 60):
            part = piece[i:i + 60]
            parts += bytes([len(part) - 1 << 2]) + part
        return parts

    while at + 4 <= len(data):
        before, n = seen.get(data[at:at + 4]), 0
        seen[data[at:at + 4]] = at
        if before is None or at - before > 65535:
            at += 1
            continue
        while n < 64 and at + n < len(data) and data[before + n] == data[at + n]:
            n += 1
        out += flush(at) + bytes([n - 1 << 2 | 2]) + struct.pack("<H", at - before)
        at += n
        literal = at
    return out + flush(len(data))


def block(entries, restart_interval):
    out, restarts, last = b"", [], b""
    for i, (key, value) in enumerate(entries):
        shared = 0
        if i % restart_interval == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    restarts = restarts or [0]
    return out + struct.pack("<%dI" % (len(restarts) + 1), *restarts, len(restarts))


def successor(key):
    """A short key that is not below this one."""
    for i, c in enumerate(key):
        if c != 255:
            return key[:i] + bytes([c + 1])
    return key


def separator(a, b):
    """A short key that is not below a, and below b."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    if n < min(len(a), len(b)) and a[n] != 255 and a[n] + 1 < b[n]:
        return a[:n] + bytes([a[n] + 1])
    return a


def table(entries, compress=False, per_block=1 << 30):
    """A table of sorted (key, value) pairs, so many to a block."""
    out, index = b"", []

    def add(contents):
        nonlocal out
        kind, at = b"\0", len(out)
        if compress:
            contents, kind = snappy(contents), b"\1"
        out += contents + kind + struct.pack("<I", mask(crc32c(contents + kind)))
        return varint(at) + varint(len(contents))

    for i in range(0, len(entries), per_block):
        part, rest = entries[i:i + per_block], entries[i + per_block:]
        key = separator(part[-1][0], rest[0][0]) if rest else successor(part[-1][0])
        index.append((key, add(block(part, 16))))
    foot = add(block([], 16)) + add(block(index, 1))
    return out + foot.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


# ---- keys of slices -----------------------------------------------------------------------------

def ordered_uint(n):
    data = n.to_bytes((n.bit_length() + 7) // 8, "big")
    return bytes([len(data)]) + data


def ordered_int(n):
    """7 bits with their sign in one byte, 14 in two, and so on; leading ones (or zeros) count the bytes."""
    size = 1
    while not -(1 << 7 * size - 1) <= n < 1 << 7 * size - 1:
        size += 1
    header = ((1 << size) - 1) << 7 * size
    return (n & (1 << 8 * size) - 1 ^ header).to_bytes(size, "big")


def ordered_string(s):
    return b"".join({0: b"\0\xff", 255: b"\xff\0"}.get(c, bytes([c])) for c in s) + b"\0\1"


def slice_key(name, extents):
    """extents: a (start, length) for each dimension, (0, -1) for all of it."""
    return ordered_uint(0) + ordered_string(as_bytes(name)) + ordered_uint(len(extents)) + b"".join(
        ordered_int(n) for extent in extents for n in extent)


def slice_proto(extents):
    def extent(start, length):
        return {} if length < 0 else dict({"start": start} if start else {}, length=length)
    return {"extent": [extent(*e) for e in extents]}


def part(a, extents):
    """The elements of an array that a slice has."""
    return a[tuple(slice(s, None if n < 0 else s + n) for s, n in extents) + (Ellipsis,)].copy()


# ---- checkpoints --------------------------------------------------------------------------------

def bundle_data(a):
    """The bytes of a tensor in a data file, and their checksum."""
    if a.dtype != np.object_:
        return a.tobytes(), crc32c(a.tobytes())
    lengths = [len(s) for s in a.ravel()]
    crc = crc32c(struct.pack("<%dI" % len(lengths), *lengths))
    stored = struct.pack("<I", mask(crc))
    strings = b"".join(a.ravel())
    return b"".join(map(varint, lengths)) + stored + strings, crc32c(strings, crc32c(stored, crc))


def bundle(tensors, shards=1, compress=False, per_block=1 << 30):
    """The index and the data files of a checkpoint. tensors: a list of (name, array) or (name, array, slices), where
    slices are lists of extents; each part goes to the next shard."""
    data, entries, n = [b""] * shards, {}, 0

    def add(key, a):
        nonlocal n
        shard, n = n % shards, n + 1
        bytes_, crc = bundle_data(a)
        entry = {"dtype": type_name(a), "shape": shape(a.shape), "crc32c": mask(crc)}
        entry.update({k: v for k, v in (("shard_id", shard), ("offset", len(data[shard])), ("size", len(bytes_))) if v})
        data[shard] += bytes_
        entries[key] = encode("BundleEntryProto", entry)

    for name, a, *slices in tensors:
        if not slices:
            add(as_bytes(name), a)
            continue
        entries[as_bytes(name)] = encode("BundleEntryProto", {"dtype": type_name(a), "shape": shape(a.shape),
                                                             "slices": [slice_proto(s) for s in slices[0]]})
        for extents in slices[0]:
            add(slice_key(name, extents), part(a, extents))
    entries[b""] = encode("BundleHeaderProto", {"num_shards": shards, "version": {"producer": 1}})
    return table(sorted(entries.items()), compress, per_block), data


def v1(tensors, compress=False):
    """A checkpoint file of the first format. tensors: a list of (name, array, slices that are in this file)."""
    entries, metas = {}, []
    for name, a, slices in tensors:
        metas.append({"name": name, "shape": shape(a.shape), "type": type_name(a),
                      "slice": [slice_proto(s) for s in slices]})
        for extents in slices:
            field, v = values(part(a, extents))
            entries[slice_key(name, extents)] = encode("SavedTensorSlices", {
                "data": {"name": name, "slice": slice_proto(extents), "data": {field: v}}})
    entries[b""] = encode("SavedTensorSlices", {"meta": {"tensor": metas, "versions": {"producer": 1}}})
    return table(sorted(entries.items()), compress)
