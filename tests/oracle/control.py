"""tests/oracle/control.py -- conditionals, arrays of tensors, stacks, queues, accumulators, strings: what numpy and lists do."""
import os
import tempfile

import numpy as np

from graph import STRING, Type
from state import name, typed, untyped
from table import fails, op
from values import BOOL, FLOATS, INTS, NUMBERS

ANY = NUMBERS + [BOOL, STRING]
FOLDER = tempfile.TemporaryDirectory()


# ---- conditionals ----

def choice(r):
    return [r.any(r.shape()), np.asarray(r.chance(0.5))]


def switch_merge(g, xs, attrs):
    """Both sides copy, the true side packs the value twice; the merge tells which side it was."""
    s = g.op("Switch", xs)
    no, yes = g.op("Identity", [s[0]]), g.op("Identity", [s[1]])
    m = g.op("Merge", [[no, yes]])
    return [m, m[1]]


for n in ("Switch", "Merge"):
    op(n, choice, lambda x, p: (x, np.asarray(int(p), np.int32)), build=switch_merge, raw=True, types=ANY, n=4, static=False)


def ref_switch_merge(g, xs, attrs):
    t = attrs["T"]
    ref = g.op("Assign", [g.op("VariableV2", [], dtype=t, shape=None, shared_name=name()), xs[0]], validate_shape=False)
    s = g.op("RefSwitch", [ref, xs[1]])
    m = g.op("RefMerge", [[g.op("RefIdentity", [s[0]]), g.op("RefIdentity", [s[1]])]])
    return [g.op("Identity", [m]), m[1]]


for n in ("RefSwitch", "RefMerge", "RefIdentity"):
    op(n, typed(choice), untyped(lambda x, p: (x, np.asarray(int(p), np.int32))), build=ref_switch_merge, raw=True,
       types=NUMBERS + [BOOL], n=2, static=False)


def ref_select(g, xs, attrs):
    refs = [g.op("Assign", [g.op("VariableV2", [], dtype=attrs["T"], shape=None, shared_name=name()), x], validate_shape=False)
            for x in xs[1]]
    return [g.op("Identity", [g.op("RefSelect", [xs[0], refs])])]


op("RefSelect", typed(lambda r: (lambda s: [np.asarray(r.int(0, 2), np.int32), [r.any(s) for _ in range(3)]])(r.shape())),
   untyped(lambda i, xs: xs[int(i)]), build=ref_select, raw=True, types=NUMBERS, n=2, static=False)


def counting_loop(g, xs, attrs):
    """x + x + ... by a loop, with a limit that is fed."""
    def body(b, v):
        return [b.op("Add", [v[0], np.int32(1)]), b.op("AddV2", [v[1], v[2]]), b.op("Identity", [v[2]]), b.op("Identity", [v[3]])]
    zero = g.op("ZerosLike", [xs[0]])
    return [g.while_loop([g.const(np.int32(0)), zero, xs[0], xs[1]], lambda c, v: c.op("Less", [v[0], v[3]]), body, name())[1]]


def times(x, n):
    y = np.zeros_like(x)
    for _ in range(int(n)):
        y = y + x
    return y


for n in ("Enter", "Exit", "NextIteration", "LoopCond"):
    op(n, lambda r: [r.finite(r.shape(1, 3)), np.asarray(r.int(0, 9), np.int32)], times, build=counting_loop, types=NUMBERS, n=2,
       sums=4, own_eps=True, zero_sign=False, static=False)


# ---- arrays of tensors ----

def array(r):
    """n values and the order to read them in."""
    s, n = r.shape(0, 3), r.int(1, 6)
    return [[r.any(s) for _ in range(n)], r.rng.permutation(n).astype(np.int32)]


def write_all(g, t, values):
    a = g.op("TensorArrayV3", [np.int32(len(values))], dtype=t, clear_after_read=False)
    flow = a[1]
    for i, v in enumerate(values):
        flow = g.op("TensorArrayWriteV3", [a, np.int32(i), v, flow])
    return a, flow


def written_and_read(g, xs, attrs):
    """Written one by one, gathered, read one, asked for its size."""
    a, flow = write_all(g, attrs["T"], xs[0])
    all_of = g.op("TensorArrayGatherV3", [a, xs[1], flow], dtype=attrs["T"])
    size = g.op("TensorArraySizeV3", [a, flow])
    return [all_of, g.op("TensorArrayReadV3", [a, np.int32(0), flow], dtype=attrs["T"]), size]


def scattered(g, xs, attrs):
    a = g.op("TensorArrayV3", [np.int32(attrs["n"])], dtype=attrs["T"])
    flow = g.op("TensorArrayScatterV3", [a, xs[0], xs[1], a[1]])
    return [g.op("TensorArrayReadV3", [a, np.int32(i), flow], dtype=attrs["T"]) for i in range(attrs["n"])]


def closed(g, xs, attrs):
    a, flow = write_all(g, attrs["T"], xs[0])
    v = g.op("TensorArrayReadV3", [a, np.int32(0), flow], dtype=attrs["T"])
    done = g.op("TensorArrayCloseV3", [a], controls=[v])
    return [g.op("Identity", [v], controls=[done])]


def joined(g, xs, attrs):
    a, flow = write_all(g, attrs["T"], xs[0])
    y = g.op("TensorArrayConcatV3", [a, flow], dtype=attrs["T"])
    return [y, y[1]]


def split_up(g, xs, attrs):
    a = g.op("TensorArrayV3", [np.int32(attrs["n"])], dtype=attrs["T"])
    flow = g.op("TensorArraySplitV3", [a, xs[0], xs[1], a[1]])
    return [g.op("TensorArrayReadV3", [a, np.int32(i), flow], dtype=attrs["T"]) for i in range(attrs["n"])]


def gradient_array(g, xs, attrs):
    """Several writes to one place of a gradient array add up."""
    a, flow = write_all(g, attrs["T"], xs[0])
    d = g.op("TensorArrayGradV3", [a, flow], source="g")
    f = d[1]
    for v in xs[0]:
        f = g.op("TensorArrayWriteV3", [d, np.int32(0), v, f])
    return [g.op("TensorArrayReadV3", [d, np.int32(0), f], dtype=attrs["T"])]


for n in ("TensorArrayV3", "TensorArrayWriteV3", "TensorArrayGatherV3", "TensorArrayReadV3", "TensorArraySizeV3"):
    op(n, typed(array), untyped(lambda xs, at: (np.stack(xs)[at], xs[0], np.asarray(len(xs), np.int32))), build=written_and_read,
       raw=True, types=ANY, n=2, static=False)
op("TensorArrayCloseV3", typed(array), untyped(lambda xs, at: xs[0]), build=closed, raw=True, types=NUMBERS, n=1, static=False)


def rows_case(r):
    n = r.int(1, 5)
    return [r.rng.permutation(n).astype(np.int32), r.any((n,) + r.shape(0, 2))], {"n": n}


op("TensorArrayScatterV3", typed(rows_case), untyped(lambda at, x, n: [x[list(at).index(i)] if x.ndim > 1 else np.asarray(
    x[list(at).index(i)], x.dtype) for i in range(n)]), build=scattered, raw=True, types=ANY, n=4, static=False)


def pieces(r):
    tail = r.shape(0, 2)
    return [[r.any((r.int(0, 3),) + tail) for _ in range(r.int(1, 4))]]


def split_case(r):
    sizes = [r.int(0, 3) for _ in range(r.int(1, 4))]
    return [r.any((sum(sizes),) + r.shape(0, 2)), np.asarray(sizes, np.int64)], {"n": len(sizes)}


op("TensorArrayConcatV3", typed(pieces), untyped(lambda xs: (np.concatenate(xs), np.asarray([len(x) for x in xs], np.int64))),
   build=joined, raw=True, types=ANY, n=4, static=False)
op("TensorArraySplitV3", typed(split_case), untyped(lambda x, s, n: np.split(x, np.cumsum(s)[:-1])), build=split_up, raw=True,
   types=ANY, n=4, static=False)
op("TensorArrayGradV3", typed(lambda r: (lambda s: [[r.finite(s) for _ in range(r.int(1, 4))]])(r.shape(0, 3))),
   untyped(lambda xs: sum(xs[1:], xs[0])), build=gradient_array, types=FLOATS, sums=4, own_eps=True, zero_sign=False, n=4,
   static=False)


# ---- stacks ----

def pushed(g, xs, attrs):
    """All pushed, then popped in the opposite order."""
    h = g.op("StackV2", [np.int32(-1)], elem_type=attrs["T"], stack_name=name())
    before, popped = [], []
    for x in xs[0]:
        before = [g.op("StackPushV2", [h, x], controls=before)]
    for _ in xs[0]:
        before = [g.op("StackPopV2", [h], controls=before, elem_type=attrs["T"])]
        popped += before
    done = g.op("StackCloseV2", [h], controls=before)
    return popped[:-1] + [g.op("Identity", popped[-1:], controls=[done])]


for n in ("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2"):
    op(n, typed(lambda r: [[r.any(r.shape()) for _ in range(r.int(1, 5))]]), untyped(lambda xs: xs[::-1]), build=pushed, raw=True,
       types=ANY, n=2, static=False)


# ---- queues ----

def fifo(version):
    """Two in, rows of the rest in, then one, many and up to so many out; what is left is counted; closed."""
    def build(g, xs, attrs):
        t, s = attrs["T"], attrs["s"]
        q = g.op("FIFOQueue" + version, [], component_types=[t], shapes=[s], capacity=100, shared_name=name())
        a = g.op("QueueEnqueue" + version, [q, [xs[0]]])
        b = g.op("QueueEnqueueMany" + version, [q, [xs[1]]], controls=[a])
        one = g.op("QueueDequeue" + version, [q], controls=[b], component_types=[t])
        many = g.op("QueueDequeueMany" + version, [q, np.int32(2)], controls=[one], component_types=[t])
        size = g.op("QueueSize" + version, [q], controls=[many])
        shut = g.op("QueueClose" + version, [q], controls=[size])
        is_shut = g.op("QueueIsClosed" + version, [q], controls=[shut])
        rest = g.op("QueueDequeueUpTo" + version, [q, np.int32(50)], controls=[is_shut], component_types=[t])
        return [one, many, size, is_shut, rest]
    return build


def queued(r):
    s = r.shape(0, 3)
    return [r.any(s), r.any((r.int(3, 6),) + s)], {"s": s}


def queue_order(x, xs, s):
    return x, xs[:2], np.asarray(len(xs) - 2, np.int32), np.asarray(True), xs[2:]


for v in ("", "V2"):
    for n in ("FIFOQueue", "QueueEnqueue", "QueueEnqueueMany", "QueueDequeue", "QueueDequeueMany", "QueueDequeueUpTo", "QueueSize",
              "QueueIsClosed", "QueueClose"):
        op(n + v, typed(queued), untyped(queue_order), build=fifo(v), raw=True, types=ANY, n=1, static=False)


def padding_queue(version):
    def build(g, xs, attrs):
        t = attrs["T"]
        q = g.op("PaddingFIFOQueue" + version, [], component_types=[t], shapes=[(-1, -1)], shared_name=name())
        before = []
        for x in xs[0]:
            before = [g.op("QueueEnqueue" + version, [q, [x]], controls=before)]
        return [g.op("QueueDequeueMany" + version, [q, np.int32(len(xs[0]))], controls=before, component_types=[t])]
    return build


def padded(xs):
    s = np.max([x.shape for x in xs], axis=0)
    out = np.full((len(xs),) + tuple(s), b"", STRING) if xs[0].dtype == STRING else np.zeros((len(xs),) + tuple(s), xs[0].dtype)
    for o, x in zip(out, xs):
        o[:x.shape[0], :x.shape[1]] = x
    return out


def random_queue(version):
    """In some order, all of them: sorted by numpy's oracle and ours, which is what there is to compare."""
    def build(g, xs, attrs):
        q = g.op("RandomShuffleQueue" + version, [], component_types=[attrs["T"]], shapes=[()], shared_name=name(), seed=7)
        put = g.op("QueueEnqueueMany" + version, [q, [xs[0]]])
        y = g.op("QueueDequeueMany" + version, [q, np.int32(attrs["n"])], controls=[put], component_types=[attrs["T"]])
        return [g.op("TopKV2", [y, np.int32(attrs["n"])])]
    return build


for v in ("", "V2"):
    op("PaddingFIFOQueue" + v, typed(lambda r: [[r.any(r.shape(2, 2)) for _ in range(r.int(1, 4))]]), untyped(padded),
       build=padding_queue(v), raw=True, types=ANY, n=2, static=False)
    op("RandomShuffleQueue" + v, typed(lambda r: (lambda n: ([r.finite((n,))], {"n": n}))(r.int(1, 30))),
       untyped(lambda x, n: np.sort(x)[::-1]), build=random_queue(v), types=FLOATS + INTS, n=2, static=False)


def priority_queue(version):
    def build(g, xs, attrs):
        t, s = attrs["T"], attrs["s"]
        q = g.op("PriorityQueue" + version, [], component_types=[t], shapes=[s], shared_name=name())
        put = g.op("QueueEnqueueMany" + version, [q, xs])
        types = [Type(np.int64), t]
        y = g.op("QueueDequeueMany" + version, [q, np.int32(attrs["n"])], controls=[put], component_types=types)
        return [y, y[1]]
    return build


def prioritised(r):
    n, s = r.int(1, 12), r.shape(0, 2)
    return [r.rng.permutation(n).astype(np.int64) * 3 - 7, r.any((n,) + s)], {"s": s, "n": n}


for v in ("", "V2"):
    op("PriorityQueue" + v, typed(prioritised), untyped(lambda p, x, s, n: (np.sort(p), x[np.argsort(p)])), build=priority_queue(v),
       raw=True, types=ANY, n=2, static=False)


# ---- accumulators ----

def averaged(kind):
    def build(g, xs, attrs):
        t, mean = attrs["T"], attrs["reduction"]
        a = g.op(kind + "ConditionalAccumulator", [], dtype=t, shape=None, shared_name=name(), reduction_type=mean)
        clock = g.op(kind + "AccumulatorSetGlobalStep", [a, np.int64(5)])
        stale = g.op(kind + "AccumulatorApplyGradient", [a, np.int64(4), xs[0][0]], controls=[clock])
        puts = [g.op(kind + "AccumulatorApplyGradient", [a, np.int64(5), x], controls=[stale]) for x in xs[0]]
        count = g.op(kind + "AccumulatorNumAccumulated", [a], controls=puts)
        return [g.op(kind + "AccumulatorTakeGradient", [a, np.int32(len(xs[0]))], controls=[count], dtype=t), count]
    return build


def gradients_case(r):
    s = r.shape(0, 3)
    return [[r.finite(s) for _ in range(r.int(1, 5))]], {"reduction": r.pick(["MEAN", "SUM"])}


def average(xs, reduction):
    y = np.sum(xs, axis=0)
    return y / len(xs) if reduction == "MEAN" else y, np.asarray(len(xs))


for n in ("ConditionalAccumulator", "AccumulatorApplyGradient", "AccumulatorTakeGradient", "AccumulatorNumAccumulated",
          "AccumulatorSetGlobalStep"):
    for kind in ("", "Resource"):
        op(kind + n, typed(gradients_case), untyped(average), build=averaged(kind), types=FLOATS, sums=4, own_eps=True,
           zero_sign=False, n=3, static=False,
           scale=untyped(lambda xs, reduction: (np.sum(np.abs(np.asarray(xs)), 0), np.asarray(0))))


def averaged_rows(g, xs, attrs):
    t = attrs["T"]
    a = g.op("SparseConditionalAccumulator", [], dtype=t, shape=None, shared_name=name(), reduction_type=attrs["reduction"])
    puts = [g.op("SparseAccumulatorApplyGradient", [a, np.int64(0), i, v, np.int64([])], has_known_shape=False)
            for i, v in zip(xs[0], xs[1])]
    y = g.op("SparseAccumulatorTakeGradient", [a, np.int32(len(puts))], controls=puts, dtype=t)
    return [y, y[1]]


def row_gradients(r):
    s = r.shape(0, 2, least=1)
    at = [np.sort(r.rng.permutation(8)[:r.int(1, 5)]).astype(np.int64) for _ in range(r.int(1, 4))]
    return [at, [r.finite(a.shape + s) for a in at]], {"reduction": r.pick(["MEAN", "SUM"])}


def average_rows(at, values, reduction):
    total, count = {}, {}
    for a, v in zip(at, values):
        for i, row in zip(a, v):
            total[i], count[i] = total.get(i, 0) + row, count.get(i, 0) + 1
    keys = sorted(total)
    return np.asarray(keys), np.stack([total[k] / (count[k] if reduction == "MEAN" else 1) for k in keys])


for n in ("SparseConditionalAccumulator", "SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient"):
    op(n, typed(row_gradients), untyped(average_rows), build=averaged_rows, types=FLOATS, sums=4, own_eps=True, zero_sign=False, n=3,
       scale=untyped(lambda at, v, reduction: (np.zeros(1), average_rows(at, [np.abs(x) for x in v], "SUM")[1])), static=False)


# ---- strings ----

def strings(r):
    s = r.shape(0, 3)
    return [[r.any(s if r.chance(0.7) else (), STRING) for _ in range(r.int(1, 4))]], {"separator": r.pick(["", "-", ", "])}


def string_join(xs, separator):
    s = np.broadcast_shapes(*[x.shape for x in xs])
    out = np.empty(s, STRING)
    for i in np.ndindex(*s):
        out[i] = separator.encode().join(np.broadcast_to(x, s)[i] for x in xs)
    return out


op("StringJoin", strings, string_join, types=[STRING], n=20)
op("ShardedFilename", lambda r: [np.asarray(b"a/b", STRING), np.asarray(r.int(0, 99), np.int32), np.asarray(r.int(1, 99999), np.int32)],
   lambda b, i, n: np.asarray(b"%s-%05d-of-%05d" % (b.item(), i, n), STRING), types=[STRING], n=6)


# ---- what passes its input on, or refuses it ----

op("Print", lambda r: ([r.any(r.shape()), [r.any(r.shape())]], {"U": [Type(r.T)], "first_n": 0}), lambda x, data, **_: x, raw=True,
   types=ANY, n=2)


def asserted(g, xs, attrs):
    a = g.op("Assert", [xs[0], [xs[1]]], T=[attrs["T"]], summarize=3)
    return [g.op("Identity", [xs[1]], controls=[a])]


op("Assert", typed(lambda r: [np.asarray(True), r.any(r.shape())]), untyped(lambda p, x: x), build=asserted, raw=True, types=ANY, n=2)
fails("Assert", typed(lambda r: [np.asarray(False), r.finite((2,))]), "assertion failed: [", build=asserted, types=ANY)


# ---- checkpoints: what was saved comes back, merged or not ----

def saved(merge):
    def build(g, xs, attrs):
        t, prefix = attrs["T"], os.path.join(FOLDER.name, name())
        names = [b"a", b"b/c"]
        text = [np.asarray(v, STRING) for v in (prefix.encode(), names, [b"", b""])]
        if not merge:
            done = g.op("SaveV2", text + [xs], dtypes=[t, t])
        else:
            parts = [prefix + "_x/a", prefix + "_x/b"]
            puts = [g.op("SaveV2", [np.asarray(p.encode(), STRING), np.asarray([n], STRING), np.asarray([b""], STRING), [x]],
                         dtypes=[t]) for p, n, x in zip(parts, names, xs)]
            done = g.op("MergeV2Checkpoints", [np.asarray([p.encode() for p in parts], STRING), text[0]], controls=puts)
        y = g.op("RestoreV2", text, controls=[done], dtypes=[t, t])
        return [y, y[1]]
    return build


for n in ("SaveV2", "RestoreV2", "MergeV2Checkpoints"):
    op(n, typed(lambda r: [r.any(r.shape()), r.any(r.shape())]), untyped(lambda x, y: (x, y)), build=saved(n == "MergeV2Checkpoints"),
       raw=True, types=ANY, n=2, static=False)
