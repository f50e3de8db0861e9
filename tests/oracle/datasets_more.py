"""tests/oracle/datasets_more.py -- datasets that call functions, group, shuffle, are sparse or come from files, against Python's
lists; see datasets.py."""
import gzip
import pathlib
import tempfile

import numpy as np

import graph
from datasets import ANY, LONG, VARIANT, batches, dataset, numbers, of_two_lengths, rows, said, slices, type_of
from graph import STRING, Type
from table import covers, op
from values import BOOL, NUMBERS


# ---- functions, of whole numbers ----

def whole(r):
    return r.rng.integers(-50, 50, r.int(0, 9))


def affine(g):
    return g.function([Type(LONG)], lambda b, a: [b.op("Add", [b.op("Mul", [a[0], np.int64(3)]), np.int64(1)])])


def mapped(name, *more):
    return lambda g, xs: g.op(name, [slices(g, xs[0]), []] + list(more), f=affine(g), **said(LONG))


LONGS = {"types": [LONG], "n": 20, "gives": lambda i, o: [LONG]}
for n, more in (("MapDataset", []), ("ParallelMapDataset", [np.int32(3)]), ("ParallelMapDatasetV2", [np.int64(3)])):
    dataset(n, lambda r: ([whole(r)], {}), lambda x: rows(x * 3 + 1), mapped(n, *more), **LONGS)
dataset("MapAndBatchDataset", lambda r: ([whole(r)], {"size": r.int(1, 4), "drop": r.chance(0.5)}),
        lambda x, size, drop: batches(rows(x * 3 + 1), size, drop),
        lambda g, xs, size, drop: g.op("MapAndBatchDataset", [slices(g, xs[0]), [], np.int64(size), np.int64(3), np.bool_(drop)], f=affine(g),
                                       **said(LONG)), **LONGS)


def is_even(g):
    return g.function([Type(LONG)], lambda b, a: [b.op("Equal", [b.op("FloorMod", [a[0], np.int64(2)]), np.int64(0)])])


dataset("FilterDataset", lambda r: ([whole(r)], {}), lambda x: rows(x[x % 2 == 0]),
        lambda g, xs: g.op("FilterDataset", [slices(g, xs[0]), []], predicate=is_even(g), **said(LONG)), **LONGS)
dataset("ParallelFilterDataset", lambda r: ([whole(r)], {}), lambda x: rows(x[x % 2 == 0]),
        lambda g, xs: g.op("ParallelFilterDataset", [slices(g, xs[0]), [], np.int64(3)], predicate=is_even(g), **said(LONG)), **LONGS)
dataset("TakeWhileDataset", lambda r: ([whole(r)], {}), lambda x: rows(x[:int(np.argmax(np.append(x % 2, 1)))]),
        lambda g, xs: g.op("TakeWhileDataset", [slices(g, xs[0]), []], predicate=is_even(g), **said(LONG)), **LONGS)


def scanned(g, xs):
    """f(state, x) = state + x, (state + x) * 2"""
    def body(b, a):
        y = b.op("Add", [a[0], a[1]])
        return [y, b.op("Mul", [y, np.int64(2)])]
    return g.op("ScanDataset", [slices(g, xs[0]), [g.const(np.int64(5))], []], f=g.function([Type(LONG)] * 2, body), **said(LONG))


dataset("ScanDataset", lambda r: ([whole(r)], {}), lambda x: rows((5 + np.cumsum(x, dtype=LONG)) * 2), scanned, **LONGS)


def reduced(g, xs, attrs):
    f = g.function([Type(LONG)] * 2, lambda b, a: [b.op("Sub", [b.op("Mul", [a[0], np.int64(3)]), a[1]])])
    return [g.op("ReduceDataset", [slices(g, xs[0]), [g.const(np.int64(7))], []], f=f, **said(LONG))]


def reduce_all(x):
    state = 7
    for v in x.tolist():
        state = state * 3 - v
    return np.int64(state)


op("ReduceDataset", lambda r: [whole(r)], reduce_all, build=reduced, raw=True, types=[LONG], n=20)


# ---- functions that make datasets ----

def counts(r):
    return np.asarray([r.int(0, 4) for _ in range(r.int(0, 6))], LONG)


def up_to(g):
    """n -> 10 n, 10 n + 1 .. 11 n - 1"""
    def body(b, a):
        start = b.op("Mul", [a[0], np.int64(10)])
        return [b.op("RangeDataset", [start, b.op("Add", [start, a[0]]), np.int64(1)], **said(LONG))]
    return g.function([Type(LONG)], body)


def inner(n):
    return [np.int64(10 * n + i) for i in range(n)]


dataset("FlatMapDataset", lambda r: ([counts(r)], {}), lambda x: [(v,) for n in x for v in inner(n)],
        lambda g, xs: g.op("FlatMapDataset", [slices(g, xs[0]), []], f=up_to(g), **said(LONG)), **LONGS)


def interleaved(x, cycle, block):
    """A slot whose dataset is over gives its turn on; a new one is opened when the turn comes to an empty slot."""
    todo, slots, out, at, given = [inner(n) for n in x], [None] * cycle, [], 0, 0
    while todo or any(s is not None for s in slots):
        if slots[at] is None and todo:
            slots[at] = todo.pop(0)
        if slots[at] and given < block:
            out.append((slots[at].pop(0),))
            given += 1
            if given < block:
                continue
        elif slots[at] is not None and not slots[at]:
            slots[at] = None
        at, given = (at + 1) % cycle, 0
    return out


dataset("InterleaveDataset", lambda r: ([counts(r)], {"cycle": r.int(1, 4), "block": r.int(1, 3)}), interleaved,
        lambda g, xs, cycle, block: g.op("InterleaveDataset", [slices(g, xs[0]), [], np.int64(cycle), np.int64(block)], f=up_to(g),
                                         **said(LONG)), **{**LONGS, "n": 40})


# ---- groups ----

def by_key(x, mod):
    groups = {}
    for v in x.tolist():
        groups.setdefault(v % mod, []).append(v)
    return groups


def key_of(g, mod):
    return g.function([Type(LONG)], lambda b, a: [b.op("FloorMod", [a[0], np.int64(mod)])])


def grouped(x, mod, size):
    """Full groups as they become so, what is left at the end by key."""
    groups, out = {}, []
    for v in x.tolist():
        group = groups.setdefault(v % mod, [])
        group.append(v)
        if len(group) == size:
            out.append((np.asarray(groups.pop(v % mod), LONG),))
    return out + [(np.asarray(groups[k], LONG),) for k in sorted(groups)]


def grouped_graph(g, xs, mod, size):
    reduce_func = g.function([Type(LONG), VARIANT], lambda b, a: [b.op("BatchDatasetV2", [a[1], np.int64(size), np.bool_(False)],
                                                                       **said(LONG))])
    size_func = g.function([Type(LONG)], lambda b, a: [b.const(np.int64(size))])
    return g.op("GroupByWindowDataset", [slices(g, xs[0]), [], [], []], key_func=key_of(g, mod), reduce_func=reduce_func,
                window_size_func=size_func, **said(LONG))


dataset("GroupByWindowDataset", lambda r: ([whole(r)], {"mod": r.int(1, 3), "size": r.int(1, 4)}), grouped, grouped_graph, **LONGS)


def summed_graph(g, xs, mod):
    zero = g.function([Type(LONG)], lambda b, a: [b.op("Mul", [a[0], np.int64(100)])])
    add = g.function([Type(LONG)] * 2, lambda b, a: [b.op("Add", a)])
    minus = g.function([Type(LONG)], lambda b, a: [b.op("Neg", a)])
    return g.op("GroupByReducerDataset", [slices(g, xs[0]), [], [], [], []], key_func=key_of(g, mod), init_func=zero, reduce_func=add,
                finalize_func=minus, **said(LONG))


dataset("GroupByReducerDataset", lambda r: ([whole(r)], {"mod": r.int(1, 4)}),
        lambda x, mod: [(np.int64(-(100 * k + sum(v))),) for k, v in sorted(by_key(x, mod).items())], summed_graph, **LONGS)


# ---- shuffles ----

def philox(seed, seed2):
    """The numbers of Philox 4x32-10 (Salmon and others, 2011), the key the first seed, the upper half of the counter the second."""
    low = (1 << 32) - 1
    counter = [0, 0, seed2 & low, seed2 >> 32 & low]
    while True:
        x, k = list(counter), [seed & low, seed >> 32 & low]
        for _ in range(10):
            a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
            x = [b >> 32 ^ x[1] ^ k[0], b & low, a >> 32 ^ x[3] ^ k[1], a & low]
            k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
        yield from x
        for i in range(4):
            counter[i] = counter[i] + 1 & low
            if counter[i]:
                break


def shuffled(x, buffer, seed, seed2, again):
    """A buffer is kept full; one of it is drawn, and the oldest takes its place."""
    if again:  # each time over has seeds of its own
        own = philox(seed, seed2)
        seed, seed2 = next(own), next(own)
    draws, todo, held, out = philox(seed, seed2), rows(x), [], []
    while todo or held:
        while todo and len(held) < buffer:
            held.append(todo.pop(0))
        i = next(draws) % len(held)
        out.append(held[i])
        held[i] = held[0]
        held.pop(0)
    return out


def shuffle(r):
    return [r.any((r.int(0, 30),))], {"buffer": r.int(1, 12), "seed": r.int(1, 1 << 40), "seed2": r.int(0, 1 << 40), "again": r.chance(0.5)}


def twice(x, buffer, seed, seed2, again, count):
    """Each time over is shuffled anew."""
    own, out = philox(seed, seed2), []
    for _ in range(count):
        out += shuffled(x, buffer, next(own), next(own), False) if again else shuffled(x, buffer, seed, seed2, False)
    return out


def repeated(g, xs, buffer, seed, seed2, again, count):
    t = said(type_of(xs[0]))
    return g.op("RepeatDataset", [g.op("ShuffleDataset", [slices(g, xs[0]), np.int64(buffer), np.int64(seed), np.int64(seed2)],
                                       reshuffle_each_iteration=again, **t), np.int64(count)], **t)


dataset("ShuffleDataset", lambda r: (lambda i, o: (i, {**o, "count": r.int(0, 3)}))(*shuffle(r)), twice, repeated, n=4)
dataset("ShuffleDataset", shuffle, shuffled,
        lambda g, xs, buffer, seed, seed2, again: g.op("ShuffleDataset", [slices(g, xs[0]), np.int64(buffer), np.int64(seed), np.int64(seed2)],
                                                       reshuffle_each_iteration=again, **said(type_of(xs[0]))), n=4)


# ---- sparse ----

def places(r):
    """Rows of a sparse matrix: where there is something, in order."""
    shape = [r.int(1, 5), r.int(1, 5)]
    at = np.asarray([[i, j] for i in range(shape[0]) for j in range(shape[1]) if r.chance(0.4)], LONG).reshape(-1, 2)
    return [at, r.any((len(at),)), np.asarray(shape, LONG)], {}


def sparse_rows(at, values, shape):
    return [(at[at[:, 0] == i][:, 1:], values[at[:, 0] == i], shape[1:]) for i in range(shape[0])]


dataset("SparseTensorSliceDataset", places, sparse_rows, lambda g, xs: g.op("SparseTensorSliceDataset", xs), types=NUMBERS + [BOOL, STRING])


def sparse_batches(x, y, size, room):
    out, all_of = [], [e[0] for e in rows(x) + rows(y)]
    for b in [all_of[i:i + size] for i in range(0, len(all_of), size)]:
        at = np.asarray([[i, j] for i, e in enumerate(b) for j in range(len(e))], LONG).reshape(-1, 2)
        out.append((at, np.concatenate(b), np.asarray([len(b), room], LONG)))
    return out


def two_lengths(r):
    x, y, _ = of_two_lengths(r)[0]
    return [x, y], {"size": r.int(1, 4), "room": max(x.shape[1], y.shape[1]) + r.int(0, 2)}


def sparse_graph(g, xs, size, room):
    """A dataset of sparse tensors in variants, each of which is read again."""
    t = type_of(xs[0])
    both = g.op("ConcatenateDataset", [slices(g, xs[0]), slices(g, xs[1])], **said(t))
    d = g.op("DenseToSparseBatchDataset", [both, np.int64(size), np.asarray([room], LONG)], output_types=[VARIANT], output_shapes=[(3,)])

    def body(b, a):
        y = b.op("DeserializeSparse", a, dtype=Type(t))
        return [y[0], y[1], y[2]]
    return g.op("MapDataset", [d, []], f=g.function([VARIANT], body), **said(LONG, t, LONG))


dataset("DenseToSparseBatchDataset", two_lengths, sparse_batches, sparse_graph, types=NUMBERS + [BOOL, STRING],
        gives=lambda i, o: [LONG, i[0].dtype, LONG])


# ---- how many there are, and just one ----

def cardinality(g, xs, attrs):
    n, size = attrs["n"], attrs["size"]
    d = g.op("RepeatDataset", [g.op("BatchDatasetV2", [numbers(g, n), np.int64(size), np.bool_(True)], **said(LONG)), np.int64(attrs["times"])],
             **said(LONG))
    unknown = g.op("FilterDataset", [d, []], predicate=g.function([Type(LONG)], lambda b, a: [b.const(np.bool_(True))]), **said(LONG))
    return [g.op("DatasetCardinality", [d]), g.op("DatasetCardinality", [unknown])]


def many(n, size, times):
    full = n // size
    return np.int64(0 if full == 0 else -1 if times < 0 else full * times), np.int64(-2)


op("DatasetCardinality", lambda r: ([], {"n": r.int(0, 9), "size": r.int(1, 4), "times": r.int(-1, 3)}), many, build=cardinality, raw=True,
   types=[LONG], n=20)
op("DatasetToSingleElement", lambda r: [r.any(r.shape())], lambda x: x, raw=True, types=ANY, n=3,
   build=lambda g, xs, attrs: [g.op("DatasetToSingleElement", [g.op("TensorDataset", [xs], output_shapes=[None])], **said(type_of(xs[0])))])


# ---- files ----

RNG = np.random.default_rng(1)


def all_elements(g, d, types):
    """One by one, until there are no more."""
    it = g.op("IteratorV2", [], shared_name="", container="", **said(*types))
    make, get = g.op("MakeIterator", [d, it]), g.op("IteratorGetNext", [it], **said(*types))
    g.run([], targets=[make])
    out = []
    try:
        while True:
            out.append(tuple(g.run([get[i] for i in range(len(types))])))
    except graph.Failure as e:
        assert "End of sequence" in str(e), e
    return out


@covers("SaveDataset", "SaveDatasetV2", "LoadDataset")
def test_saved_datasets_are_loaded_shard_by_shard():
    x = RNG.integers(-50, 50, RNG.integers(0, 20))
    mod, how = int(RNG.integers(1, 5)), str(RNG.choice(["", "ZLIB", "GZIP"]))
    with tempfile.TemporaryDirectory() as path:
        g = graph.Graph()
        to, d = np.asarray(path.encode(), STRING), slices(g, g.const(x))
        if RNG.random() < 0.5:
            g.run([], targets=[g.op("SaveDataset", [d, to, []], shard_func=key_of(g, mod), compression=how)])
        else:
            v2 = g.op("SaveDatasetV2", [d, to, []], shard_func=key_of(g, mod), compression=how, **said(LONG))
            assert [int(e) for e, in all_elements(g, v2, [LONG])] == x.tolist()
        itself = g.function([VARIANT], lambda b, a: [b.op("Identity", a)])
        every = g.function([VARIANT], lambda b, a: [b.op("FlatMapDataset", [a[0], []], f=itself, **said(LONG))])
        loaded = g.op("LoadDataset", [to, []], reader_func=every, compression=how, **said(LONG))
        got = [int(e) for e, in all_elements(g, loaded, [LONG])]
        g.close()
    assert got == [v for _, group in sorted(by_key(x, mod).items()) for v in group], got


@covers("TextLineDataset", "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2")
def test_lines_and_parts_of_files():
    texts = [bytes(RNG.choice(list(b"ab\n"), RNG.integers(0, 30)).astype(np.uint8)) for _ in range(RNG.integers(0, 4))]
    head, size, foot = int(RNG.integers(0, 3)), int(RNG.integers(1, 4)), int(RNG.integers(0, 3))
    with tempfile.TemporaryDirectory() as path:
        names = np.empty(len(texts), STRING)
        for i, t in enumerate(texts):
            names[i] = f"{path}/{i}".encode()
            pathlib.Path(path, str(i)).write_bytes(gzip.compress(t))
            pathlib.Path(path, f"{i}.parts").write_bytes(b"h" * head + t[:len(t) // size * size] + b"f" * foot)
        parts = np.asarray([n + b".parts" for n in names], STRING)
        g, none = graph.Graph(), np.asarray(b"", STRING)
        lines = all_elements(g, g.op("TextLineDataset", [names, np.asarray(b"GZIP", STRING), np.int64(0)]), [STRING])
        sizes = [np.int64(head), np.int64(size), np.int64(foot), np.int64(0)]
        old = all_elements(g, g.op("FixedLengthRecordDataset", [parts] + sizes), [STRING])
        new = all_elements(g, g.op("FixedLengthRecordDatasetV2", [parts] + sizes + [none]), [STRING])
        g.close()
    assert [e.item() for e, in lines] == [n for t in texts for n in t.splitlines()], lines
    want = [t[i:i + size] for t in texts for i in range(0, len(t) // size * size, size)]
    assert [e.item() for e, in old] == want, old
    assert [e.item() for e, in new] == want, new
