"""tests/oracle/datasets.py -- what datasets give, against Python's lists.

A case is a pipeline over the rows of an array, and the same over a list of tuples of arrays.  All elements are fetched in one
step, each behind the one before, and behind the last one there must be none.
"""
import numpy as np

import graph
from graph import STRING, Type
from table import op
from values import BOOL, NUMBERS

ANY = NUMBERS + [BOOL, STRING]
LONG = np.dtype(np.int64)
VARIANT = int.__new__(Type, 21)
graph.declare("TF_OperationOutputType", graph.I, graph.Output)


# ---- pipelines in graphs ----

def said(*types):
    return {"output_types": [Type(t) for t in types], "output_shapes": [None for _ in types]}


def type_of(x):
    return graph.NUMPY[graph.lib.TF_OperationOutputType(x)]


def slices(g, *xs):
    return g.op("TensorSliceDataset", [list(xs)], output_shapes=[None for _ in xs])


def numbers(g, n):
    return g.op("RangeDataset", [np.int64(0), np.int64(n), np.int64(1)], **said(LONG))


def elements(g, d, types, n):
    """n elements of a dataset, and whether there is one more."""
    it = g.op("IteratorV2", [], shared_name="", container="", **said(*types))
    last, out = g.op("MakeIterator", [d, it]), []
    for _ in range(n):
        last = g.op("IteratorGetNext", [it], controls=[last], **said(*types))
        out += [last[i] for i in range(len(types))]
    more = g.op("IteratorGetNextAsOptional", [it], controls=[last], **said(*types))
    return out + [g.op("OptionalHasValue", [more])]


def same_types(inputs, elements):
    return [x.dtype for x in inputs]


def dataset(name, gen, oracle, build, types=ANY, n=6, gives=same_types):
    """gen(r) gives (inputs, options); oracle(*inputs, **options) a list of tuples, build(g, xs, **options) a dataset."""
    def made(r):
        inputs, options = gen(r)
        all_of = oracle(*inputs, **options)
        kinds = [np.asarray(a).dtype for a in all_of[0]] if all_of else gives(inputs, options)
        return inputs, {"options": options, "kinds": kinds, "count": len(all_of)}

    def flat(*inputs, options, kinds, count):
        return tuple(np.asarray(a, k) for e in oracle(*inputs, **options) for a, k in zip(e, kinds)) + (np.asarray(False),)

    def built(g, xs, attrs):
        return elements(g, build(g, xs, **attrs["options"]), attrs["kinds"], attrs["count"])

    op(name, made, flat, build=built, raw=True, types=types, n=n)


# ---- and in lists ----

def rows(x):
    """Rows as elements of one array; of strings too, which numpy would unpack."""
    return [(x[i:i + 1].reshape(x.shape[1:]),) for i in range(len(x))]


def stacked(elements):
    def one(parts):
        out = np.empty((len(parts),) + parts[0].shape, parts[0].dtype)
        for i, p in enumerate(parts):
            out[i:i + 1] = p.reshape((1,) + p.shape)
        return out
    return tuple(one(parts) for parts in zip(*elements))


def batches(all_of, size, drop):
    cut = [all_of[i:i + size] for i in range(0, len(all_of), size)]
    return [stacked(b) for b in cut if len(b) == size or not drop]


def some_rows(r, least=0):
    return r.any((r.int(least, 9),) + r.shape(0, 2, least=1, most=3))


# ---- sources ----

def span(r):
    step = r.int(1, 4) * r.pick([1, -1])
    return [], {"a": r.int(-9, 9), "b": r.int(-9, 9), "step": step}


dataset("RangeDataset", span, lambda a, b, step: [(np.int64(v),) for v in range(a, b, step)],
        lambda g, xs, a, b, step: g.op("RangeDataset", [np.int64(a), np.int64(b), np.int64(step)], **said(LONG)), types=[LONG], n=30,
        gives=lambda i, o: [LONG])
dataset("TensorDataset", lambda r: ([r.any(r.shape())], {}), lambda x: [(x,)],
        lambda g, xs: g.op("TensorDataset", [xs], output_shapes=[None]), n=3)
dataset("TensorSliceDataset", lambda r: ([some_rows(r)], {}), rows, lambda g, xs: slices(g, *xs), n=4)


# ---- which elements, in which order ----

def over_rows(**draws):
    """Rows, and options drawn by r."""
    return lambda r: ([some_rows(r)], {k: f(r) for k, f in draws.items()})


def counted(name):
    return lambda g, xs, n: g.op(name, [slices(g, xs[0]), np.int64(n)], **said(type_of(xs[0])))


def taken(x, n):
    return rows(x) if n < 0 else rows(x)[:n]


def skipped(x, n):
    return [] if n < 0 else rows(x)[n:]


dataset("TakeDataset", over_rows(n=lambda r: r.int(-1, 10)), taken, counted("TakeDataset"))
dataset("SkipDataset", over_rows(n=lambda r: r.int(-1, 10)), skipped, counted("SkipDataset"))
dataset("RepeatDataset", over_rows(n=lambda r: r.int(0, 3)), lambda x, n: rows(x) * n, counted("RepeatDataset"))
dataset("PrefetchDataset", over_rows(n=lambda r: r.int(0, 4)), lambda x, n: rows(x), counted("PrefetchDataset"), n=3)
dataset("AssertCardinalityDataset", lambda r: (lambda x: ([x], {"n": len(x)}))(some_rows(r)), lambda x, n: rows(x),
        counted("AssertCardinalityDataset"), n=3)


def cached_twice(g, xs):
    t = said(type_of(xs[0]))
    c = g.op("CacheDataset", [slices(g, xs[0]), np.asarray(b"", STRING)], **t)
    return g.op("ConcatenateDataset", [c, c], **t)


dataset("CacheDataset", over_rows(), lambda x: rows(x) * 2, cached_twice, n=3)


def shard(r):
    n = r.int(1, 4)
    return [some_rows(r)], {"n": n, "i": r.int(0, n - 1)}


dataset("ShardDataset", shard, lambda x, n, i: rows(x)[i::n],
        lambda g, xs, n, i: g.op("ShardDataset", [slices(g, xs[0]), np.int64(n), np.int64(i)], **said(type_of(xs[0]))))


def two(r):
    x = some_rows(r)
    return [x, r.any((r.int(0, 9),) + x.shape[1:])], {}


dataset("ConcatenateDataset", two, lambda x, y: rows(x) + rows(y),
        lambda g, xs: g.op("ConcatenateDataset", [slices(g, xs[0]), slices(g, xs[1])], **said(type_of(xs[0]))),
        gives=lambda i, o: [i[0].dtype])
dataset("ZipDataset", two, lambda x, y: [a + b for a, b in zip(rows(x), rows(y))],
        lambda g, xs: g.op("ZipDataset", [[slices(g, xs[0]), slices(g, xs[1])]], **said(type_of(xs[0]), type_of(xs[1]))))


def directed(r):
    inputs, _ = two(r)
    return inputs + [np.asarray([r.int(0, 1) for _ in range(r.int(0, 14))], np.int64)], {"stop": r.chance(0.5)}


def direct(x, y, chosen, stop):
    left, out = [rows(x), rows(y)], []
    for i in chosen:
        if left[i]:
            out.append(left[i].pop(0))
        elif stop:
            break
    return out


dataset("DirectedInterleaveDataset", directed, direct,
        lambda g, xs, stop: g.op("DirectedInterleaveDataset", [slices(g, xs[2]), [slices(g, xs[0]), slices(g, xs[1])]],
                                 stop_on_empty_dataset=stop, **said(type_of(xs[0]))), gives=lambda i, o: [i[0].dtype])


def doubled(r):
    x = r.any((r.int(1, 4),))
    return x[np.asarray([r.int(0, len(x) - 1) for _ in range(r.int(0, 9))], np.int64)]


def unique(x):
    out = []
    for e in rows(x):
        if not any(e[0] == o[0] for o in out):
            out.append(e)
    return out


dataset("UniqueDataset", lambda r: ([doubled(r)], {}), unique,
        lambda g, xs: g.op("UniqueDataset", [slices(g, xs[0])], **said(type_of(xs[0]))), types=[np.int32, np.int64, STRING], n=12)


# ---- batches ----

def batched(name):
    def build(g, xs, size, drop):
        ends = {"BatchDataset": [], "BatchDatasetV2": [np.bool_(drop)], "ParallelBatchDataset": [np.int64(2), np.bool_(drop)]}
        return g.op(name, [slices(g, xs[0]), np.int64(size)] + ends[name], **said(type_of(xs[0])))
    return build


SIZES = {"size": lambda r: r.int(1, 5), "drop": lambda r: r.chance(0.5)}
dataset("BatchDataset", over_rows(size=SIZES["size"], drop=lambda r: False), lambda x, size, drop: batches(rows(x), size, drop),
        batched("BatchDataset"))
for n in ("BatchDatasetV2", "ParallelBatchDataset"):
    dataset(n, over_rows(**SIZES), lambda x, size, drop: batches(rows(x), size, drop), batched(n))
dataset("UnbatchDataset", lambda r: ([r.any((r.int(0, 4), r.int(0, 3)) + r.shape(0, 1, least=1))], {}),
        lambda x: [e for (b,) in rows(x) for e in rows(b)],
        lambda g, xs: g.op("UnbatchDataset", [slices(g, xs[0])], **said(type_of(xs[0]))))


def of_two_lengths(r):
    """Rows of two lengths, a shape to pad them to (-1: the longest of the batch), and with what."""
    n, m = r.int(0, 4), r.int(0, 4)
    x, y = r.any((r.int(0, 4), n)), r.any((r.int(0, 4), m))
    to = -1 if r.chance(0.5) else max(n, m) + r.int(0, 2)
    return [x, y, r.any(())], {"size": r.int(1, 5), "drop": r.chance(0.5), "to": to}


def pad(x, y, value, size, drop, to):
    out, all_of = [], [e[0] for e in rows(x) + rows(y)]
    for b in [all_of[i:i + size] for i in range(0, len(all_of), size)]:
        if len(b) == size or not drop:
            wide = to if to >= 0 else max(len(e) for e in b)
            full = np.empty((len(b), wide), x.dtype)
            full[...] = value
            for k, e in enumerate(b):
                full[k, :len(e)] = e
            out.append((full,))
    return out


def padded(g, xs, size, drop, to):
    t = type_of(xs[0])
    both = g.op("ConcatenateDataset", [slices(g, xs[0]), slices(g, xs[1])], **said(t))
    return g.op("PaddedBatchDatasetV2", [both, np.int64(size), [g.const(np.asarray([to], np.int64))], [xs[2]], np.bool_(drop)],
                output_shapes=[None])


def padded_v1(g, xs, size, drop, to):
    t = type_of(xs[0])
    both = g.op("ConcatenateDataset", [slices(g, xs[0]), slices(g, xs[1])], **said(t))
    return g.op("PaddedBatchDataset", [both, np.int64(size), [g.const(np.asarray([to], np.int64))], [xs[2]]], output_shapes=[None])


def never_dropped(r):
    inputs, options = of_two_lengths(r)
    return inputs, {**options, "drop": False}


dataset("PaddedBatchDatasetV2", of_two_lengths, pad, padded, gives=lambda i, o: [i[0].dtype])
dataset("PaddedBatchDataset", never_dropped, pad, padded_v1, gives=lambda i, o: [i[0].dtype])


# ---- windows ----

def window(r):
    return [some_rows(r)], {"size": r.int(1, 4), "shift": r.int(1, 4), "stride": r.int(1, 3), "drop": r.chance(0.5)}


def windows(x, size, shift, stride, drop):
    all_of, out = rows(x), []
    for start in range(0, len(all_of), shift):
        w = all_of[start:start + size * stride:stride]
        if len(w) == size or not drop:
            out.append(stacked(w))
    return out


def as_batches(g, d, size, *types):
    """The elements of each dataset in d as one."""
    f = g.function([VARIANT], lambda b, a: [b.op("BatchDatasetV2", [a[0], np.int64(size), np.bool_(False)], **said(*types))])
    return g.op("FlatMapDataset", [d, []], f=f, **said(*types))


def windowed(g, xs, size, shift, stride, drop):
    d = g.op("WindowDataset", [slices(g, xs[0]), np.int64(size), np.int64(shift), np.int64(stride), np.bool_(drop)],
             output_types=[VARIANT], output_shapes=[()])
    return as_batches(g, d, size, type_of(xs[0]))


dataset("WindowDataset", window, windows, windowed)


def sliding(r):
    inputs, options = window(r)
    return inputs, {**options, "drop": True}


dataset("SlidingWindowDataset", sliding, windows,
        lambda g, xs, size, shift, stride, drop: g.op("SlidingWindowDataset", [slices(g, xs[0]), np.int64(size), np.int64(shift),
                                                                                np.int64(stride)], **said(type_of(xs[0]))))
