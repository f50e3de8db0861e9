"""millrace.protos: messages behave as those of google.protobuf, and survive any bytes.

    PYTHONPATH=build/gcc/share/millrace/python /usr/bin/python3 tests/python/test_protos.py

MILLRACE_GOLDEN is the folder of files that TensorFlow wrote (default ../shared/golden beside the
checkout); without it their tests do not run. Those of tests/golden always do.
"""
import copy
import glob
import json
import math
import os
import pickle
import random
import re
import signal
import struct
import sys
import threading
import unittest

import _millrace
import numpy as np

from millrace import protos
from millrace.proto import schema, wire
from millrace.protos import json_format, text_format

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests/golden")
TENSORFLOW_GOLDEN = os.environ.get("MILLRACE_GOLDEN", os.path.join(ROOT, "../shared/golden"))


def example():
    return protos.Example(features=protos.Features(feature={
        "image": protos.Feature(bytes_list=protos.BytesList(value=[b"\x00\xff", b""])),
        "label": protos.Feature(int64_list=protos.Int64List(value=[3, -1])),
        "weight": protos.Feature(float_list=protos.FloatList(value=[0.5, 0.1])),
    }))


def graph():
    g = protos.GraphDef()
    a = g.node.add(name="a", op="Const")
    a.attr["dtype"].type = protos.DT_FLOAT
    a.attr["value"].tensor.float_val.append(1.5)
    g.node.add(name="b", op="Neg", input=["a"], attr={"T": protos.AttrValue(type=1)})
    g.versions.producer = 134
    return g


class Construction(unittest.TestCase):
    def test_keywords_set_fields(self):
        node = protos.NodeDef(name="n", op="Add", input=["a", "b"], device=None)
        self.assertEqual((node.name, node.op, list(node.input)), ("n", "Add", ["a", "b"]))
        self.assertEqual(node.device, "")

    def test_messages_are_copied_in(self):
        shape = protos.TensorShapeProto()
        tensor = protos.TensorProto(tensor_shape=shape)
        shape.unknown_rank = True
        self.assertTrue(tensor.HasField("tensor_shape"))
        self.assertFalse(tensor.tensor_shape.unknown_rank)

    def test_dicts_stand_for_messages(self):
        config = protos.ConfigProto(gpu_options={"allow_growth": True}, device_count={"CPU": 2},
                                    session_inter_op_thread_pool=[{"num_threads": 3}])
        self.assertTrue(config.gpu_options.allow_growth)
        self.assertEqual(config.device_count["CPU"], 2)
        self.assertEqual(config.session_inter_op_thread_pool[0].num_threads, 3)
        node = protos.NodeDef(attr={"T": {"type": "DT_INT32"}})
        self.assertEqual(node.attr["T"].type, protos.DT_INT32)

    def test_a_oneof_keeps_the_last_keyword(self):
        value = protos.AttrValue(i=1, shape={})
        self.assertEqual(value.WhichOneof("value"), "shape")

    def test_wrong_keywords_and_values(self):
        with self.assertRaises(ValueError):
            protos.NodeDef(nme="x")
        with self.assertRaises(TypeError):
            protos.NodeDef(name=1)
        with self.assertRaises(TypeError):
            protos.GraphDef(versions=3)
        with self.assertRaises(TypeError):
            protos.GraphDef(node=[protos.AttrValue()])
        with self.assertRaises(TypeError):
            protos.GraphDef("positional")
        with self.assertRaises(TypeError):
            protos.Message()


class Scalars(unittest.TestCase):
    def test_defaults(self):
        t = protos.TensorProto()
        self.assertEqual((t.dtype, t.version_number, t.tensor_content), (0, 0, b""))
        self.assertIs(protos.ConfigProto().allow_soft_placement, False)
        self.assertEqual(protos.AttrValue().f, 0.0)

    def test_integers_check_type_and_range(self):
        dim = protos.TensorShapeProto.Dim(size=-1)
        for wrong in ("1", 1.0, None, b"1", [1], np.float32(1)):
            with self.assertRaises(TypeError, msg=repr(wrong)):
                dim.size = wrong
        for value in (2 ** 63, -2 ** 63 - 1):
            with self.assertRaises(ValueError):
                dim.size = value
        self.assertEqual(dim.size, -1)
        dim.size = -2 ** 63
        self.assertEqual(dim.size, -2 ** 63)
        with self.assertRaises(ValueError):
            protos.TensorProto().version_number = 2 ** 31
        with self.assertRaises(ValueError):
            protos.ResourceHandleProto().hash_code = -1

    def test_numpy_scalars_are_numbers(self):
        dim = protos.TensorShapeProto.Dim(size=np.int32(7))
        self.assertIs(type(dim.size), int)
        value = protos.AttrValue(f=np.float64(0.5))
        self.assertIs(type(value.f), float)
        value.b = np.bool_(True)
        self.assertIs(value.b, True)
        self.assertEqual(list(protos.Int64List(value=np.arange(3)).value), [0, 1, 2])
        self.assertEqual(list(protos.FloatList(value=np.ones(2, np.float16)).value), [1, 1])
        with self.assertRaises(TypeError):
            protos.Int64List(value=np.ones(2))

    def test_floats_are_rounded_to_their_width(self):
        value = protos.AttrValue(f=0.1)
        self.assertEqual(value.f, np.float32(0.1))
        value.f = 1e300
        self.assertEqual(value.f, math.inf)
        value.f = 3
        self.assertEqual(value.f, 3.0)
        with self.assertRaises(TypeError):
            value.f = "1"
        h = protos.HistogramProto(min=0.1)
        self.assertEqual(h.min, 0.1)

    def test_strings_and_bytes(self):
        node = protos.NodeDef()
        node.name = b"caf\xc3\xa9"
        self.assertEqual(node.name, "café")
        with self.assertRaises(ValueError):
            node.name = b"\xff"
        with self.assertRaises(ValueError):
            node.name = "\ud800"
        with self.assertRaises(TypeError):
            node.name = 3
        value = protos.AttrValue(s=b"\xff")
        with self.assertRaises(TypeError):
            value.s = "text"

    def test_enums_take_numbers_and_names(self):
        t = protos.TensorProto(dtype="DT_STRING")
        self.assertEqual(t.dtype, 7)
        t.dtype = 4000  # proto3 keeps what it does not know
        self.assertEqual(protos.TensorProto.FromString(t.SerializeToString()).dtype, 4000)
        with self.assertRaises(ValueError):
            t.dtype = "DT_NOTHING"
        with self.assertRaises(TypeError):
            t.dtype = 1.5

    def test_attributes_that_are_not_there(self):
        node = protos.NodeDef()
        with self.assertRaises(AttributeError):
            node.nme = "x"
        with self.assertRaises(AttributeError):
            node.nme
        with self.assertRaises(AttributeError):
            node.input = ["a"]
        with self.assertRaises(AttributeError):
            protos.GraphDef().versions = protos.VersionDef()
        self.assertFalse(hasattr(node, "Nothing"))
        self.assertFalse(hasattr(protos, "Nothing"))

    def test_minus_zero_is_a_value(self):
        value = protos.HistogramProto(min=-0.0)
        self.assertNotEqual(value.SerializeToString(), b"")
        self.assertEqual(protos.HistogramProto(min=0.0).SerializeToString(), b"")
        read = protos.HistogramProto.FromString(value.SerializeToString())
        self.assertEqual(math.copysign(1, read.min), -1)


class Presence(unittest.TestCase):
    def test_reading_sets_nothing(self):
        e = protos.Example()
        self.assertEqual(len(e.features.feature), 0)
        self.assertFalse(e.HasField("features"))
        self.assertIs(e.features, e.features)
        self.assertEqual(e.SerializeToString(), b"")

    def test_changes_deep_inside_set_all_above(self):
        e = protos.Example()
        e.features.feature["a"].int64_list.value.append(1)
        self.assertTrue(e.HasField("features"))
        m = protos.MetaGraphDef()
        dims = m.graph_def.versions.bad_consumers
        other = m.graph_def
        dims.append(3)
        self.assertEqual(list(m.graph_def.versions.bad_consumers), [3])
        self.assertIs(m.graph_def, other)

    def test_assigning_a_default_sets_the_parent(self):
        m = protos.MetaGraphDef()
        m.graph_def.versions.producer = 0
        self.assertTrue(m.graph_def.HasField("versions"))

    def test_set_in_parent(self):
        m = protos.GraphDef()
        m.versions.SetInParent()
        self.assertEqual(m.SerializeToString(), b"\x22\x00")

    def test_empty_merge_sets_the_parent(self):
        m = protos.GraphDef()
        m.versions.CopyFrom(protos.VersionDef())
        self.assertTrue(m.HasField("versions"))

    def test_has_field_knows_what_has_presence(self):
        t = protos.TensorProto()
        for name in ("dtype", "float_val", "nothing"):
            with self.assertRaises(ValueError):
                t.HasField(name)
        value = protos.AttrValue(i=0)
        self.assertTrue(value.HasField("i"))
        self.assertFalse(value.HasField("f"))
        self.assertTrue(value.HasField("value"))

    def test_oneofs(self):
        value = protos.AttrValue()
        self.assertIsNone(value.WhichOneof("value"))
        value.i = 3
        value.list.s.append(b"a")
        self.assertEqual(value.WhichOneof("value"), "list")
        self.assertEqual(value.i, 0)
        value.b = False
        self.assertEqual(value.WhichOneof("value"), "b")
        self.assertEqual(len(value.list.s), 0)
        value.ClearField("value")
        self.assertIsNone(value.WhichOneof("value"))
        with self.assertRaises(ValueError):
            value.WhichOneof("nothing")

    def test_what_was_cleared_belongs_to_nobody(self):
        g = protos.GraphDef()
        old, nodes = g.versions, g.node
        old.producer = 1
        g.ClearField("versions")
        g.ClearField("node")
        old.producer = 2
        nodes.add()
        self.assertEqual(g.SerializeToString(), b"")
        self.assertEqual(g.versions.producer, 0)
        with self.assertRaises(ValueError):
            g.ClearField("nothing")

    def test_what_was_looked_at_before_is_set_by_reading_and_merging(self):
        for fill in (lambda g: g.MergeFromString(graph().SerializeToString()),
                     lambda g: g.MergeFrom(graph())):
            g = protos.GraphDef()
            versions, bad = g.versions, g.versions.bad_consumers
            fill(g)
            self.assertIs(g.versions, versions)
            self.assertEqual(versions.producer, 134)
            bad.append(7)
            self.assertEqual(g.versions.bad_consumers, [7])

    def test_a_ghost_of_a_cleared_message_belongs_to_nobody(self):
        g = protos.GraphDef()
        ghost = g.versions
        g.Clear()
        ghost.producer = 7
        self.assertFalse(g.HasField("versions"))


class Repeated(unittest.TestCase):
    def test_lists_of_scalars(self):
        m = protos.Int64List(value=[1, 2, 3])
        v = m.value
        v.append(4)
        v.extend([5, 6])
        v.insert(0, 0)
        v[1] = 10
        v[2:4] = [20, 30]
        del v[-1]
        v.remove(4)
        self.assertEqual(v, [0, 10, 20, 30, 5])
        self.assertEqual((v[1], v[-1], v[1:3], len(v), v.pop()), (10, 5, [10, 20], 5, 5))
        self.assertIn(20, v)
        self.assertEqual((v.index(20), v.count(20)), (2, 1))
        v.sort(reverse=True)
        self.assertEqual(list(v), [30, 20, 10, 0])
        v.reverse()
        self.assertEqual(list(v), [0, 10, 20, 30])
        self.assertEqual(repr(v), "[0, 10, 20, 30]")
        self.assertEqual(np.asarray(v).dtype, np.int64)
        v.MergeFrom(protos.Int64List(value=[1]).value)
        self.assertEqual(v[-1], 1)
        v.clear()
        self.assertEqual(m.SerializeToString(), b"")

    def test_lists_check_and_change_nothing_when_wrong(self):
        m = protos.Int64List(value=[1])
        for wrong, error in ((["a"], TypeError), ([2, 1.5], TypeError), ([2, 2 ** 63], ValueError),
                             (3, TypeError)):
            with self.assertRaises(error):
                m.value.extend(wrong)
        with self.assertRaises(TypeError):
            m.value.append(None)
        with self.assertRaises(TypeError):
            m.value[0] = "a"
        self.assertEqual(m.value, [1])
        with self.assertRaises(TypeError):
            protos.NodeDef().input.append(1)
        with self.assertRaises(IndexError):
            m.value[1]

    def test_lists_of_messages(self):
        g = protos.GraphDef()
        first = g.node.add(name="a")
        self.assertIs(g.node[0], first)
        other = protos.NodeDef(name="b")
        g.node.append(other)
        other.name = "changed"
        g.node.extend([protos.NodeDef(name="c"), protos.NodeDef(name="d")])
        g.node.insert(0, protos.NodeDef(name="z"))
        self.assertEqual([n.name for n in g.node], ["z", "a", "b", "c", "d"])
        del g.node[0]
        del g.node[2:]
        g.node.remove(protos.NodeDef(name="b"))
        self.assertEqual([n.name for n in g.node], ["a"])
        self.assertEqual(g.node, [protos.NodeDef(name="a")])
        for wrong in (3, protos.AttrValue(), None):
            with self.assertRaises(TypeError):
                g.node.append(wrong)
        with self.assertRaises(TypeError):
            g.node.extend(None)
        with self.assertRaises(TypeError):
            g.node[0] = protos.NodeDef()
        g.node.CopyFrom([protos.NodeDef(name="y"), protos.NodeDef(name="x")])
        g.node.sort(key=lambda n: n.name)
        self.assertEqual([n.name for n in g.node[0:2]], ["x", "y"])
        self.assertEqual(g.node.pop().name, "y")
        self.assertEqual(len(g.node), 1)


class Maps(unittest.TestCase):
    def test_maps_of_scalars(self):
        c = protos.ConfigProto()
        c.device_count["CPU"] = 2
        c.device_count.update({"GPU": 1})
        self.assertEqual(dict(c.device_count), {"CPU": 2, "GPU": 1})
        self.assertEqual(c.device_count["TPU"], 0)
        self.assertIn("TPU", c.device_count)
        del c.device_count["TPU"]
        self.assertEqual(c.device_count.get("TPU", 5), 5)
        wrong = ((1, 1, TypeError), ("a", "b", TypeError), ("a", 2 ** 40, ValueError))
        for key, value, error in wrong:
            with self.assertRaises(error):
                c.device_count[key] = value
        self.assertEqual(sorted(c.device_count.items()), [("CPU", 2), ("GPU", 1)])
        with self.assertRaises(KeyError):
            del c.device_count["TPU"]
        c.device_count.clear()
        self.assertEqual(c.SerializeToString(), b"")

    def test_maps_of_messages(self):
        n = protos.NodeDef()
        n.attr["a"].CopyFrom(protos.AttrValue(i=1))
        n.attr.get_or_create("b").i = 2
        self.assertEqual({k: v.i for k, v in n.attr.items()}, {"a": 1, "b": 2})
        with self.assertRaises(ValueError):
            n.attr["a"] = protos.AttrValue()
        self.assertIsNone(n.attr.get("c"))
        self.assertNotIn("c", n.attr)
        self.assertEqual(len(n.attr["d"].SerializeToString()), 0)
        self.assertIn("d", n.attr)
        n.attr.MergeFrom({"a": protos.AttrValue(i=5)})
        self.assertEqual(n.attr["a"].i, 5)
        with self.assertRaises(TypeError):
            n.attr[3]

    def test_numbers_as_keys(self):
        job = protos.JobDef(name="ps", tasks={1: "b:2", 0: "a:1"})
        read = protos.JobDef.FromString(job.SerializeToString())
        self.assertEqual(dict(read.tasks), {0: "a:1", 1: "b:2"})

    def test_entries_without_key_or_value_or_twice(self):
        job = protos.JobDef.FromString(b"\x12\x00\x12\x03\x12\x01x\x12\x02\x08\x07")
        self.assertEqual(dict(job.tasks), {0: "x", 7: ""})
        node = protos.NodeDef.FromString(b"\x2a\x00\x2a\x03\x0a\x01k")
        self.assertEqual(sorted(node.attr), ["", "k"])

    def test_order(self):
        one = protos.ConfigProto(device_count={"b": 1, "a": 2})
        two = protos.ConfigProto(device_count={"a": 2, "b": 1})
        self.assertEqual(one, two)
        self.assertEqual(one.SerializeToString(deterministic=True),
                         two.SerializeToString(deterministic=True))
        untouched = protos.ConfigProto.FromString(one.SerializeToString())
        self.assertEqual(untouched.SerializeToString(deterministic=True),
                         two.SerializeToString(deterministic=True))


class Bytes(unittest.TestCase):
    def test_fields_are_written_by_number(self):
        node = protos.NodeDef()
        node.device, node.op, node.name = "d", "o", "n"
        self.assertEqual(node.SerializeToString(), b"\x0a\x01n\x12\x01o\x22\x01d")
        self.assertEqual(node.ByteSize(), 9)

    def test_an_untouched_message_gives_its_bytes_back(self):
        data = b"\x22\x01d\x12\x01o\x0a\x01n"  # not by number
        self.assertEqual(protos.NodeDef.FromString(data).SerializeToString(), data)
        node = protos.NodeDef.FromString(data)
        self.assertEqual(node.name, "n")
        self.assertEqual(node.SerializeToString(), b"\x0a\x01n\x12\x01o\x22\x01d")

    def test_packed_and_unpacked_are_read(self):
        packed = protos.TensorProto(int_val=[1, -1], float_val=[1, 2], bool_val=[True, False])
        read = protos.TensorProto.FromString(packed.SerializeToString())
        self.assertEqual((read.int_val, read.float_val), ([1, -1], [1, 2]))
        self.assertEqual(read.bool_val, [True, False])
        data = (b"\x38\x01\x38" + b"\xff" * 9 + b"\x01" + b"\x3a\x01\x05"
                + b"\x2d" + struct.pack("<f", 0.5) + b"\x58\x01\x58\x00")
        read = protos.TensorProto.FromString(data)
        self.assertEqual((read.int_val, read.float_val), ([1, -1, 5], [0.5]))
        self.assertEqual(read.bool_val, [True, False])

    def test_long_lists_of_varints(self):
        values = [random.Random(1).choice([0, 1, 127, 128, 2 ** 31, -1, 2 ** 63 - 1, -2 ** 63])
                  for _ in range(300)]
        m = protos.Int64List(value=values)
        self.assertEqual(protos.Int64List.FromString(m.SerializeToString()).value, values)
        self.assertEqual(m.SerializeToString(), b"\x0a" + wire.varint(len(wire._pack_few(values)))
                         + wire._pack_few(values))
        big = protos.TensorProto(uint64_val=[2 ** 64 - 1, 5] * 100)
        self.assertEqual(protos.TensorProto.FromString(big.SerializeToString()), big)

    def test_unknown_fields_are_kept(self):
        unknown = b"\xf2\x07\x02hi" + b"\xf8\x07\x05" + b"\xfb\x07\x08\x01\xfc\x07"  # with a group
        node = protos.NodeDef.FromString(b"\x0a\x01n" + unknown)
        self.assertEqual(node.name, "n")
        self.assertEqual(node.SerializeToString(), b"\x0a\x01n" + unknown)
        self.assertEqual(copy.deepcopy(node), node)
        self.assertNotEqual(protos.NodeDef(name="n"), node)
        other = protos.NodeDef(op="o")
        other.MergeFrom(node)
        self.assertEqual(other.SerializeToString(), b"\x0a\x01n\x12\x01o" + unknown)
        node.DiscardUnknownFields()
        self.assertEqual(node.SerializeToString(), b"\x0a\x01n")

    def test_a_field_of_another_wire_type_is_unknown(self):
        node = protos.NodeDef.FromString(b"\x08\x01\x12\x01o")
        self.assertEqual((node.name, node.op), ("", "o"))
        self.assertEqual(node.SerializeToString(), b"\x12\x01o\x08\x01")
        self.assertIn('op: "o"', str(node))

    def test_a_message_that_comes_twice_is_merged(self):
        data = (protos.GraphDef(versions={"producer": 1}).SerializeToString()
                + protos.GraphDef(versions={"min_consumer": 2}).SerializeToString())
        g = protos.GraphDef.FromString(data)
        self.assertEqual(g.versions, protos.VersionDef(producer=1, min_consumer=2))
        many = protos.GraphDef.FromString(b"\x22\x02\x08\x01" * 20000)  # linear time
        self.assertEqual(many.versions.producer, 1)
        many.MergeFromString(b"\x22\x03\xf8\x07\x01" * 100000)  # unknown, into what was read
        self.assertEqual(many.versions.ByteSize(), 2 + 300000)

    def test_the_last_of_a_oneof_counts(self):
        data = (protos.AttrValue(list={"i": [1]}).SerializeToString()
                + protos.AttrValue(i=4).SerializeToString()
                + protos.AttrValue(list={"i": [2]}).SerializeToString())
        value = protos.AttrValue.FromString(data)
        self.assertEqual(value.WhichOneof("value"), "list")
        self.assertEqual(value.list.i, [2])

    def test_merge_from_string_adds(self):
        g = graph()
        n = g.MergeFromString(protos.GraphDef(node=[{"name": "c"}]).SerializeToString())
        self.assertEqual((n, [x.name for x in g.node]), (5, ["a", "b", "c"]))
        self.assertEqual(g.ParseFromString(b""), 0)
        self.assertEqual(len(g.node), 0)

    def test_other_kinds_of_bytes(self):
        data = graph().SerializeToString()
        for kind in (bytearray, memoryview, np.void):
            self.assertEqual(protos.GraphDef.FromString(kind(data)), graph())
        changing = bytearray(data)
        g = protos.GraphDef.FromString(changing)
        changing[:] = b"\xff" * len(changing)
        self.assertEqual(g, graph())
        with self.assertRaises(TypeError):
            protos.GraphDef.FromString("text")

    def test_big_parts_are_read_in_place(self):
        big = protos.GraphDef()
        content = bytes(range(256)) * 1000
        for i in range(3):
            big.node.add(name=str(i)).attr["value"].tensor.tensor_content = content
        read = protos.GraphDef.FromString(big.SerializeToString())
        self.assertEqual(read.node[2].attr["value"].tensor.tensor_content, content)
        self.assertIs(type(read.node[2].attr["value"].tensor.tensor_content), bytes)
        self.assertEqual(read.node[1].name, "1")
        self.assertEqual(read.SerializeToString(), big.SerializeToString())
        self.assertIs(type(read.node[0].SerializeToString()), bytes)


class Damage(unittest.TestCase):
    WRONG = [b"\x0a", b"\x0a\x05ab", b"\x08", b"\x80", b"\x00\x00", b"\x07", b"\x0b", b"\x0c",
             b"\x0e", b"\x0b\x14", b"\xff" * 11, b"\x0a" + b"\xff" * 9 + b"\x01", b"\x09\x01",
             b"\x0d\x01", b"\x0b" * 100000]

    def test_wrong_bytes_at_the_top(self):
        for data in self.WRONG:
            with self.assertRaises(protos.DecodeError, msg=data[:12]):
                protos.GraphDef.FromString(data)

    def test_wrong_bytes_inside(self):
        for data in self.WRONG:
            if not data.startswith(b"\x08"):
                g = protos.GraphDef.FromString(b"\x0a" + wire.varint(len(data)) + data)
                for _ in range(2):  # the same again
                    with self.assertRaises(protos.DecodeError, msg=data[:12]):
                        g.node[0].name
        no_text = protos.NodeDef.FromString(b"\x0a\x01\xff")
        self.assertRaises(protos.DecodeError, lambda: no_text.name)
        wrong_key = protos.NodeDef.FromString(b"\x2a\x06\x0a\x01\xff\x12\x01\x00")
        self.assertRaises(protos.DecodeError, lambda: len(wrong_key.attr))

    def test_wrong_packed_numbers(self):
        for field in (b"\x2a", b"\x32"):  # floats, doubles
            t = protos.TensorProto.FromString(field + b"\x03abc")
            self.assertRaises(protos.DecodeError, lambda: t.dtype)
        for data in (b"\x80", b"\x01" * 60 + b"\x80", b"\xff" * 11 + b"\x01" * 60):
            t = protos.TensorProto.FromString(b"\x52" + wire.varint(len(data)) + data)
            self.assertRaises(protos.DecodeError, lambda: t.int64_val)

    def test_deep_nesting_ends(self):
        data, other = b"", b"\x08\x01"
        for _ in range(5000):  # FullTypeDef.args
            data = b"\x12" + wire.varint(len(data)) + data
            other = b"\x12" + wire.varint(len(other)) + other
        m = protos.FullTypeDef.FromString(data)
        with self.assertRaises(protos.DecodeError):
            while True:
                m = m.args[0]
        m = protos.FullTypeDef.FromString(data)
        with self.assertRaises(protos.DecodeError):
            m.SerializeToString(deterministic=True)
        with self.assertRaises(protos.DecodeError):
            m == protos.FullTypeDef.FromString(other)
        with self.assertRaises(protos.DecodeError):
            m.DiscardUnknownFields()

    def test_a_failed_read_leaves_the_message(self):
        g = protos.GraphDef.FromString(b"\x0a\x02\x0a\x05")
        with self.assertRaises(protos.DecodeError):
            g.node[0].name
        self.assertEqual(g.SerializeToString(), b"\x0a\x02\x0a\x05")

    def test_mutants(self):
        rng = random.Random(7)
        seeds = [example(), graph(), random_message(protos.MetaGraphDef, rng, 4),
                 random_message(protos.RunMetadata, rng, 4), random_message(protos.Event, rng, 4)]
        seeds = [(type(m), m.SerializeToString()) for m in seeds]
        refused = 0
        for _ in range(10000):
            kind, data = rng.choice(seeds)
            data = mutated(data, rng)
            try:
                message = kind.FromString(data)
                touch(message)
                again = kind.FromString(message.SerializeToString())
                touch(again)
                str(message)
            except protos.DecodeError:
                refused += 1
        self.assertGreater(refused, 1000)
        self.assertLess(refused, 9900)


def mutated(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            del data[at:at + rng.randrange(1, 9)]
        elif kind == 3:
            data[at:at] = data[at:at + rng.randrange(1, 40)]
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 5)))
        if not data:
            return b"\x0a"
    return bytes(data)


def touch(message):
    """Reads all that is there."""
    for field, value in message.ListFields():
        if field.quantity == "map":
            parts = value.values() if field.value.kind == "message" else ()
        elif field.kind == "message":
            parts = value if field.is_repeated else [value]
        else:
            parts = ()
        for part in parts:
            touch(part)


class Random(unittest.TestCase):
    def test_random_messages_of_every_kind_come_back(self):
        rng = random.Random(3)
        names = [n for names in protos.MODULES.values() for n in names]
        kinds = [k for k in (getattr(protos, n) for n in names) if isinstance(k, type)]
        self.assertGreater(len(kinds), 150)
        for kind in kinds:
            for _ in range(3):
                m = random_message(kind, rng, 3)
                data = m.SerializeToString()
                read = kind.FromString(data)
                touch(read)
                self.assertEqual(read, m)
                self.assertEqual(read.SerializeToString(deterministic=True),
                                 m.SerializeToString(deterministic=True))
                self.assertEqual(copy.deepcopy(m), m)
                self.assertEqual(text_format.Parse(str(m), kind()), m)

    def test_the_librarys_text_is_read_as_the_same_message(self):
        rng = random.Random(5)
        for kind in (protos.MetaGraphDef, protos.ConfigProto, protos.Event, protos.Summary):
            m = random_message(kind, rng, 4)
            text = _millrace.message_to_text(kind.DESCRIPTOR._path, m.SerializeToString())
            self.assertEqual(text_format.Parse(text, kind()), m)


def random_message(kind, rng, levels):
    m = kind()
    for field in kind.DESCRIPTOR.fields:
        if rng.random() < 0.4 or (levels == 0 and field.kind == "message"):
            continue
        if field.quantity == "map":
            for _ in range(rng.randrange(4)):
                random_entry(getattr(m, field.name), field, rng, levels)
        elif field.is_repeated:
            for _ in range(rng.choice((0, 1, 2, 3, 60) if field.scalar else (0, 1, 2))):
                if field.scalar:
                    getattr(m, field.name).append(random_value(field, rng))
                else:
                    part = random_message(field.message_class, rng, levels - 1)
                    getattr(m, field.name).append(part)
        elif field.scalar:
            setattr(m, field.name, random_value(field, rng))
        else:
            getattr(m, field.name).CopyFrom(random_message(field.message_class, rng, levels - 1))
    return m


def random_entry(items, field, rng, levels):
    key = random_value(field.key, rng)
    if field.value.scalar:
        items[key] = random_value(field.value, rng)
    else:
        items[key].CopyFrom(random_message(field.value.message_class, rng, levels - 1))


def random_value(field, rng):
    kind = field.kind
    if kind == "string":
        return "".join(rng.choice("ab/_:é\n\"'\\\u4e2d") for _ in range(rng.randrange(6)))
    if kind == "bytes":
        return bytes(rng.randrange(256) for _ in range(rng.randrange(6)))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "enum":
        return rng.choice(field.enum_type.values).number
    if kind in ("float", "double"):
        return rng.choice((0.0, 1.5, -3e10, 0.1, math.inf, rng.gauss(0, 1)))
    bits = 64 if "64" in kind else 32
    low = 0 if kind.startswith(("uint", "fixed")) else -1 << (bits - 1)
    return rng.choice((0, 1, 127, 128, 300, low, low + (1 << bits) - 1))


class Whole(unittest.TestCase):
    def test_merge_and_copy(self):
        a = protos.NodeDef(name="a", input=["x"], attr={"T": {"i": 1}, "U": {"i": 2}})
        b = protos.NodeDef(op="o", input=["y"], attr={"T": {"f": 3}})
        a.MergeFrom(b)
        self.assertEqual((a.name, a.op, list(a.input)), ("a", "o", ["x", "y"]))
        self.assertEqual((a.attr["T"].WhichOneof("value"), a.attr["U"].i), ("f", 2))
        a.CopyFrom(b)
        self.assertEqual(a, b)
        a.CopyFrom(a)
        self.assertEqual(a, b)
        a.input.append("z")
        self.assertEqual(list(b.input), ["y"])
        for wrong in (protos.AttrValue(), None, "x"):
            with self.assertRaises(TypeError):
                a.MergeFrom(wrong)
            with self.assertRaises(TypeError):
                a.CopyFrom(wrong)

    def test_merging_parts(self):
        a = protos.MetaGraphDef(graph_def={"versions": {"producer": 1}})
        part = a.graph_def
        a.MergeFrom(protos.MetaGraphDef(graph_def={"versions": {"min_consumer": 2}}))
        self.assertIs(a.graph_def, part)
        self.assertEqual(part.versions, protos.VersionDef(producer=1, min_consumer=2))
        value = protos.AttrValue(i=3)
        value.MergeFrom(protos.AttrValue(list={"i": [1]}))
        self.assertEqual(value.WhichOneof("value"), "list")

    def test_clear(self):
        g = graph()
        g.Clear()
        self.assertEqual(g, protos.GraphDef())
        g.ParseFromString(graph().SerializeToString())
        g.Clear()
        self.assertEqual(g.SerializeToString(), b"")

    def test_equality(self):
        self.assertEqual(graph(), graph())
        self.assertEqual(graph(), protos.GraphDef.FromString(graph().SerializeToString()))
        other = graph()
        other.node[0].attr["value"].tensor.float_val[0] = 2
        self.assertNotEqual(graph(), other)
        self.assertNotEqual(protos.GraphDef(), protos.NodeDef())
        self.assertNotEqual(protos.GraphDef(), None)
        touched = protos.GraphDef()
        touched.node  # an empty list is no field
        touched.versions
        self.assertEqual(touched, protos.GraphDef())
        with self.assertRaises(TypeError):
            hash(graph())

    def test_list_fields(self):
        found = [(f.name, v) for f, v in protos.NodeDef(op="o", name="n", input=["a"]).ListFields()]
        self.assertEqual(found, [("name", "n"), ("op", "o"), ("input", ["a"])])

    def test_copies_and_pickles(self):
        for made in (copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
            g = graph()
            new = made(g)
            self.assertEqual(new, g)
            new.node[0].name = "changed"
            self.assertEqual(g.node[0].name, "a")
        self.assertEqual(pickle.loads(pickle.dumps(protos.Summary.Value(tag="x"))).tag, "x")
        self.assertEqual(pickle.loads(pickle.dumps(graph().node[1].input)), ["a"])
        self.assertIs(pickle.loads(pickle.dumps(protos.DataType)), protos.DataType)

    def test_small_things(self):
        self.assertTrue(graph().IsInitialized())
        self.assertIsInstance(graph(), protos.Message)
        self.assertEqual(graph().SerializePartialToString(), graph().SerializeToString())
        self.assertIn("node", dir(graph()))
        self.assertEqual(protos.GraphDef.NODE_FIELD_NUMBER, 1)
        self.assertTrue(graph())


class Descriptions(unittest.TestCase):
    def test_descriptor(self):
        d = protos.Summary.Value.DESCRIPTOR
        self.assertEqual((d.name, d.full_name), ("Value", "tensorflow.Summary.Value"))
        self.assertEqual(d.containing_type.full_name, "tensorflow.Summary")
        tag = d.fields_by_name["tag"]
        self.assertEqual((tag.number, tag.type), (1, tag.TYPE_STRING))
        self.assertEqual(tag.label, tag.LABEL_OPTIONAL)
        self.assertEqual([f.name for f in d.oneofs_by_name["value"].fields][:2],
                         ["simple_value", "obsolete_old_style_histogram"])
        node = protos.GraphDef.DESCRIPTOR.fields_by_name["node"]
        self.assertEqual((node.label, node.message_type.name), (node.LABEL_REPEATED, "NodeDef"))
        attr = protos.NodeDef.DESCRIPTOR.fields_by_name["attr"]
        self.assertTrue(attr.message_type.GetOptions().map_entry)
        dtype = protos.TensorProto.DESCRIPTOR.fields_by_name["dtype"]
        self.assertEqual(dtype.enum_type.full_name, "tensorflow.DataType")

    def test_enums(self):
        self.assertEqual(protos.RunOptions.FULL_TRACE, 3)
        self.assertEqual(protos.RunOptions.TraceLevel.Name(3), "FULL_TRACE")
        self.assertEqual(protos.RunOptions().FULL_TRACE, 3)
        self.assertEqual(protos.DataType.Value("DT_HALF"), 19)
        self.assertEqual(protos.DataType.DT_HALF, protos.DT_HALF)
        self.assertIn(("DT_INT32", 3), protos.DataType.items())
        self.assertEqual(len(protos.DataType.keys()), len(protos.DataType.values()))
        with self.assertRaises(ValueError):
            protos.DataType.Name(4000)
        with self.assertRaises(ValueError):
            protos.DataType.Value("nothing")
        with self.assertRaises(TypeError):
            protos.DataType.Name("DT_INT32")

    def test_modules_have_what_the_proto_files_say(self):
        said = {}
        for path in glob.glob(os.path.join(ROOT, "proto/*.proto")):
            module = None
            for line in contents(path).decode().splitlines():
                heading = re.match(r"// ---- (?:(\S+)\.proto -)?", line)  # without a file: messages of our own
                module = heading.group(1) if heading else module
                found = re.match(r"(?:message|enum) (\w+)", line)
                if found and module:
                    said.setdefault(module, set()).add(found.group(1))
        said["python/training/checkpoint_state"] = said.pop("checkpoint_state")
        for module, names in said.items():
            module = module.replace("/", ".") + "_pb2"
            module = module if module.startswith("python.") else "core." + module
            found = protos.module_contents(module)
            self.assertLessEqual(names, set(found), module)
            self.assertEqual(set(found), set(protos.MODULES[module]))
            self.assertNotIn(None, found.values())
        self.assertIn("DT_FLOAT", protos.MODULES["core.framework.types_pb2"])

    def test_every_name_can_be_asked_of_protos(self):
        for module, names in protos.MODULES.items():
            found = protos.module_contents(module)
            for name in names:
                self.assertIs(type(getattr(protos, name)), type(found[name]), name)
        self.assertEqual(protos.Any.DESCRIPTOR.full_name, "google.protobuf.Any")
        self.assertEqual(protos.Code.Name(5), "NOT_FOUND")

    def test_modules_of_google_protobuf(self):
        found = protos.google_modules()
        self.assertIs(found["google.protobuf.message"].DecodeError, protos.DecodeError)
        self.assertIs(found["google.protobuf.any_pb2"].Any, protos.Any)
        self.assertIs(found["google.protobuf.text_format"].Merge, text_format.Merge)

    def test_every_enum_of_a_message_is_its_attribute(self):
        for path in glob.glob(os.path.join(ROOT, "proto/*.proto")):
            outer = []
            for line in contents(path).decode().splitlines():
                found = re.match(r"( *)(message|enum) (\w+) \{", line)
                if found:
                    outer[len(found.group(1)) // 2:] = [found.group(3)]
                    if found.group(2) == "enum" and len(outer) > 1:
                        kind = schema.message_class(".".join(outer[:-1]))
                        wrapper = getattr(kind, outer[-1])
                        for name, number in wrapper.items():
                            self.assertEqual(getattr(kind, name), number)


class Text(unittest.TestCase):
    def test_text(self):
        node = protos.NodeDef(name="n\"é", attr={"v": {"tensor": {"float_val": [1, 0.1]}}})
        self.assertEqual(text_format.MessageToString(node), """\
name: "n\\"\\303\\251"
attr {
  key: "v"
  value {
    tensor {
      float_val: 1.0
      float_val: 0.1
    }
  }
}
""")
        self.assertEqual(text_format.Parse(str(node), protos.NodeDef()), node)
        self.assertEqual(text_format.MessageToString(protos.NodeDef(name="é"), as_utf8=True),
                         'name: "é"\n')
        shape = protos.TensorShapeProto(dim=[{"size": 1}, {"size": 2}])
        self.assertEqual(text_format.MessageToString(shape, as_one_line=True),
                         "dim { size: 1 } dim { size: 2 }")
        self.assertEqual(text_format.MessageToString(protos.Int64List(value=[1, 2]),
                                                     use_short_repeated_primitives=True),
                         "value: [1, 2]\n")
        self.assertEqual(repr(shape), str(shape))

    def test_merge_and_parse(self):
        node = protos.NodeDef(name="n", input=["a"])
        self.assertIs(text_format.Merge('input: "b" op: "o"', node), node)
        self.assertEqual((node.name, node.op, list(node.input)), ("n", "o", ["a", "b"]))
        text_format.Parse(b'op: "p"', node)
        self.assertEqual((node.name, node.op), ("", "p"))
        with self.assertRaises(text_format.ParseError) as caught:
            text_format.Parse('op: "p"\n nme: 3', node)
        self.assertEqual((caught.exception.GetLine(), caught.exception.GetColumn()), (2, 2))
        self.assertEqual(node.op, "p")

    def test_strings_that_the_library_cannot_hold(self):
        self.assertEqual(str(protos.NodeDef(name="a\0b")), 'name: "a\\000b"\n')

    def test_json(self):
        plain = json_format.MessageToDict(example())
        self.assertEqual(plain["features"]["feature"], {
            "image": {"bytesList": {"value": ["AP8=", ""]}},
            "label": {"int64List": {"value": ["3", "-1"]}},
            "weight": {"floatList": {"value": [0.5, 0.1]}}})
        t = protos.TensorProto(dtype=1, tensor_shape={"unknown_rank": True}, float_val=[math.nan])
        self.assertEqual(json.loads(json_format.MessageToJson(t)), {
            "dtype": "DT_FLOAT", "tensorShape": {"unknownRank": True}, "floatVal": ["NaN"]})
        kept = json_format.MessageToDict(t, preserving_proto_field_name=True,
                                         use_integers_for_enums=True)
        self.assertEqual((kept["dtype"], "tensor_shape" in kept), (1, True))
        job = json_format.MessageToDict(protos.JobDef(tasks={1: "a"}),
                                        including_default_value_fields=True)
        self.assertEqual(job, {"name": "", "tasks": {"1": "a"}})

    def test_json_is_read_as_it_was_written(self):
        rng = random.Random(9)
        for kind in (protos.GraphDef, protos.ConfigProto, protos.Summary, protos.SequenceExample,
                     protos.RunMetadata, protos.StructuredValue):
            m = random_message(kind, rng, 4)
            self.assertEqual(json_format.Parse(json_format.MessageToJson(m), kind()), m)
            plain = json_format.MessageToDict(m, preserving_proto_field_name=True,
                                              including_default_value_fields=True)
            self.assertEqual(json_format.ParseDict(plain, kind()), m)

    def test_any_in_json(self):
        packed = protos.Any(type_url="type.googleapis.com/tensorflow.NodeDef",
                            value=protos.NodeDef(name="n").SerializeToString())
        plain = json_format.MessageToDict(packed)
        self.assertEqual(plain, {"@type": packed.type_url, "name": "n"})
        self.assertEqual(json_format.ParseDict(plain, protos.Any()), packed)
        with self.assertRaises(TypeError):
            json_format.MessageToDict(protos.Any(type_url="x/tensorflow.Nothing"))

    def test_wrong_json(self):
        deep = []
        for _ in range(200):
            deep = {"args": [deep] if deep else []}
        for kind, wrong in ((protos.NodeDef, '{"nme": 1}'), (protos.NodeDef, '{"name": 1}'),
                            (protos.NodeDef, '{"input": "a"}'), (protos.NodeDef, "[]"),
                            (protos.NodeDef, '{"name": "a", "name": "b"}'), (protos.NodeDef, "{"),
                            (protos.AttrValue, '{"i": "1", "f": 2}'),
                            (protos.AttrValue, '{"b": 1}'),
                            (protos.AttrValue, '{"i": 1.5}'), (protos.AttrValue, '{"i": "x"}'),
                            (protos.AttrValue, '{"s": 3}'), (protos.TensorProto, '{"dtype": "DT"}'),
                            (protos.TensorProto, '{"intVal": [null]}'), (protos.Any, '{"a": 1}'),
                            (protos.FullTypeDef, json.dumps(deep)), (protos.NodeDef, "[" * 100000)):
            with self.assertRaises(json_format.ParseError, msg=wrong[:40]):
                json_format.Parse(wrong, kind())
        node = protos.NodeDef()
        json_format.Parse('{"nme": 1, "op": "o"}', node, ignore_unknown_fields=True)
        self.assertEqual(node.op, "o")


class Golden(unittest.TestCase):
    folder = GOLDEN

    def check(self, kind, data):
        message = kind.FromString(data)
        self.assertEqual(message.SerializeToString(), data)
        touch(message)
        again = kind.FromString(message.SerializeToString())
        self.assertEqual(again, message)
        self.assertEqual(text_format.Parse(str(message), kind()), kind.FromString(data))
        self.assertEqual(len(message.SerializeToString()), len(data))
        return message

    def files(self, pattern):
        found = glob.glob(os.path.join(self.folder, pattern), recursive=True)
        self.assertTrue(found, pattern)
        return [contents(path) for path in sorted(found)]

    def test_graphs(self):
        for data in self.files("graphs/*.pb") + self.files("checkpoint/**/graph*.pb"):
            self.assertTrue(self.check(protos.GraphDef, data).node)

    def test_meta_graphs(self):
        for data in self.files("checkpoint/**/*.meta"):
            self.assertTrue(self.check(protos.MetaGraphDef, data).graph_def.node)

    def test_saved_models(self):
        for data in self.files("saved_model/*/saved_model.pb"):
            self.assertTrue(self.check(protos.SavedModel, data).meta_graphs)

    def test_texts(self):
        for text in self.files("pbtxt/*.pbtxt"):
            g = text_format.Parse(text, protos.GraphDef())
            self.assertTrue(g.node)
            again = text_format.Parse(text_format.MessageToString(g), protos.GraphDef())
            self.assertEqual(again, g)

    def test_events(self):
        for data in self.files("events/*"):
            events = [self.check(protos.Event, record) for record in records(data)]
            self.assertEqual(events[0].file_version, "brain.Event:2")


@unittest.skipUnless(os.path.isdir(TENSORFLOW_GOLDEN), "no golden files made by TensorFlow")
class TensorFlowGolden(Golden):
    folder = TENSORFLOW_GOLDEN


class Threads(unittest.TestCase):
    def setUp(self):
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)

    def together(self, message, reads):
        """Each of the reads in a thread of its own, from the same instant; what they returned or raised."""
        start, answers = threading.Barrier(len(reads)), [None] * len(reads)

        def run(i):
            start.wait()
            try:
                answers[i] = reads[i](message)
            except Exception as e:
                answers[i] = e

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(reads))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return answers

    def test_threads_read_one_message_at_a_time(self):
        def walk(g):
            return [(n.name, n.op, list(n.input), n.attr["T"].type if "T" in n.attr else 0) for n in g.node]

        g = graph()
        data, twice = g.SerializeToString(), b"\x22\x03\x08\x86\x01" + g.SerializeToString()  # versions come in two pieces
        reads = [walk, lambda m: walk(protos.GraphDef.FromString(m.SerializeToString())), walk, lambda m: m.versions.producer, lambda m: m == g]
        for i in range(300):
            answers = self.together(protos.GraphDef.FromString(twice if i % 2 else data), reads)
            self.assertEqual(answers, [walk(g), walk(g), walk(g), 134, True])

    def test_a_forked_process_can_read(self):
        """Whatever another thread was doing at that moment."""
        data, end = graph().SerializeToString(), threading.Event()

        def read():
            while not end.is_set():
                protos.GraphDef.FromString(data).node[0].attr["T"]

        thread = threading.Thread(target=read)
        thread.start()
        try:
            for _ in range(20):
                pid = os.fork()
                if pid == 0:
                    signal.alarm(60)
                    os._exit(0 if protos.GraphDef.FromString(data).node[1].op == "Neg" else 1)
                self.assertEqual(os.waitpid(pid, 0)[1], 0)
        finally:
            end.set()
            thread.join()


def contents(path):
    with open(path, "rb") as f:
        return f.read()


class Installed(unittest.TestCase):
    """What google.protobuf's own text_format and json_format ask of messages."""

    def test_entries_of_maps_are_told_apart(self):
        entry = protos.NodeDef.DESCRIPTOR.fields_by_name["attr"].message_type
        self.assertTrue(entry.has_options and entry.GetOptions().map_entry)
        self.assertFalse(protos.NodeDef.DESCRIPTOR.has_options)
        self.assertFalse(protos.NodeDef.DESCRIPTOR.GetOptions().message_set_wire_format)

    def test_files(self):
        file = protos.Summary.Value.DESCRIPTOR.file
        self.assertEqual((file.name, file.package, file.syntax),
                         ("tensorflow/core/framework/summary.proto", "tensorflow", "proto3"))
        self.assertIs(protos.Summary.DESCRIPTOR.fields_by_name["value"].file, file)
        self.assertEqual(protos.BoolValue.DESCRIPTOR.file.name, "google/protobuf/wrappers.proto")
        self.assertEqual(protos.DataType.DESCRIPTOR.file.name, "tensorflow/core/framework/types.proto")

    def test_its_functions_take_our_messages(self):
        """With the package itself, where it is installed; else with ours, which programs get in its place."""
        from millrace.proto import installed
        if installed.Message is object:
            from millrace.proto import json_format, text_format
        else:
            from google.protobuf import json_format, text_format
        for message in (graph(), example(), protos.ConfigProto(device_count={"CPU": 3}, allow_soft_placement=True)):
            kind = type(message)
            text = text_format.MessageToString(message)
            self.assertEqual(text, str(message))
            self.assertEqual(text_format.Parse(text, kind()), message)
            self.assertEqual(text_format.Merge(text, kind()), message)
            self.assertEqual(json_format.Parse(json_format.MessageToJson(message), kind()), message)
            self.assertEqual(json_format.ParseDict(json_format.MessageToDict(message), kind()), message)
        self.assertIsInstance(graph(), installed.Message)
        with self.assertRaises(installed.DecodeError):
            protos.GraphDef.FromString(b"\xff\xff")
        with self.assertRaises(text_format.ParseError):
            text_format.Parse("no_such_field: 1", protos.GraphDef())


def records(data):
    """Of a TFRecord file; the checksums are not looked at."""
    at = 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0]
        yield data[at + 12:at + 12 + size]
        at += size + 16


if __name__ == "__main__":
    unittest.main()
