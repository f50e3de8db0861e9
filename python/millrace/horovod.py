"""Horovod's interface for graphs, on collectives of our own: data-parallel training under `millrace launch --ps 0 --workers N`.

    import millrace as tf
    import millrace.horovod as hvd

    hvd.init()
    opt = hvd.DistributedOptimizer(tf.train.AdagradOptimizer(0.01 * hvd.size()))
    train = opt.minimize(loss, global_step=tf.train.get_or_create_global_step())
    with tf.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as sess:
        sess.run(train)

init() starts this process's task, as TF_CONFIG says; from then on sessions without a target are sessions of that task, and
hold their variables in it.  Without TF_CONFIG there is one process, and all of this does nothing.

All processes have to build the same collectives, and run them in steps that all of them make.  They are told apart by their
names, as in Horovod.
"""

import functools
import json
import os
import zlib

from .framework import convert, dtypes, ops, session
from .framework.op_defs import raw
from .ops import array, control_flow, math, state, variables
from .train import hooks
from .train.optimizer import Optimizer
from .train.server import Server

__all__ = ["init", "shutdown", "is_initialized", "rank", "size", "local_rank", "local_size", "mpi_threads_supported", "allreduce",
           "allgather", "broadcast", "broadcast_variables", "broadcast_global_variables", "BroadcastGlobalVariablesHook",
           "DistributedOptimizer", "Compression", "Average", "Sum", "Min", "Max", "Product"]

_GROUP_KEY = 0x20000000  # apart from keys of programs that count from 1
_JOBS = ("chief", "worker")


class _World:
    """The members of the group, and the task of this process."""

    def __init__(self):
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        cluster, task = config.get("cluster") or {}, config.get("task") or {}
        self.server, self.rank, self.size, self.local_rank, self.local_size = None, 0, 1, 0, 1
        if not cluster:
            return
        members = [(job, i, address) for job in _JOBS for i, address in _addresses(cluster.get(job))]
        me = (task.get("type"), int(task.get("index") or 0))
        places = [(job, i) for job, i, _ in members]
        if me not in places:
            raise ValueError("TF_CONFIG says that this process is task %s of job '%s', which is not a worker" % (me[1], me[0]))
        self.rank, self.size = places.index(me), len(members)
        hosts = [address.rsplit(":", 1)[0] for _, _, address in members]
        same = [i for i, host in enumerate(hosts) if host == hosts[self.rank]]
        self.local_rank, self.local_size = same.index(self.rank), len(same)
        self.server = _serve(cluster, me)
        session.set_home(self.server.target, ["/job:%s/task:%d" % me])


def _addresses(tasks):
    """Numbers and addresses of a job, which is a list, or a dict by number."""
    if isinstance(tasks, dict):
        return sorted((int(number), address) for number, address in tasks.items())
    return list(enumerate(tasks or []))


_served = None  # a cluster with one of its tasks, and the Server


def _serve(cluster, me):
    """The task of this process; the same one when it is asked for again, as its address is taken."""
    global _served
    if _served is None or _served[0] != (cluster, me):
        _served = (cluster, me), Server({job: dict(_addresses(tasks)) for job, tasks in cluster.items()}, job_name=me[0],
                                        task_index=me[1])
    return _served[1]


_world = None


def init(comm=None):
    """Starts this process's task; a second time it does nothing.  comm is of another interface and not needed."""
    global _world
    if _world is None:
        _world = _World()


def shutdown():
    """Sessions are local again.  The task serves the others until the process ends."""
    global _world
    session.set_home("", [])
    _world = None


def is_initialized():
    """Whether init was called."""
    return _world is not None


def _there():
    if _world is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _world


def rank():
    """Returns the number of this process among all."""
    return _there().rank


def size():
    """Returns the number of processes."""
    return _there().size


def local_rank():
    """Returns the number of this process among those of its machine."""
    return _there().local_rank


def local_size():
    """Returns the number of processes on this machine."""
    return _there().local_size


def mpi_threads_supported():
    """Returns False: there is no MPI."""
    _there()
    return False


# ---- how numbers are put together, and how they travel ----

class _Op:
    def __init__(self, name, merge_op, final_op):
        self.name, self.merge_op, self.final_op = name, merge_op, final_op

    def __repr__(self):
        return self.name


Average, Sum = _Op("Average", "Add", "Div"), _Op("Sum", "Add", "Id")
Min, Max, Product = _Op("Min", "Min", "Id"), _Op("Max", "Max", "Id"), _Op("Product", "Mul", "Id")


class _AsIs:
    """Sends tensors as they are."""

    @staticmethod
    def compress(t):
        """Returns the tensor, and None."""
        return t, None

    @staticmethod
    def decompress(t, was):
        """Returns the tensor."""
        return t


class _Half:
    """Sends floating-point tensors as float16."""

    @staticmethod
    def compress(t):
        """Returns the tensor to send, and the type it had if that changed."""
        return (math.cast(t, dtypes.float16), t.dtype) if t.dtype.is_floating else (t, None)

    @staticmethod
    def decompress(t, was):
        """Returns the tensor in the type it had."""
        return t if was is None else math.cast(t, was)


class Compression:
    """How gradients are compressed before they are sent."""
    none, fp16 = _AsIs, _Half


_MOVED = (dtypes.bool_, dtypes.float32, dtypes.float16, dtypes.float64, dtypes.int32, dtypes.int64)
_SUMMED = (dtypes.bfloat16,) + _MOVED[1:]


def _as_one_of(t, known):
    """t in a type that collectives know, in which its values are the same."""
    if t.dtype.base_dtype in known:
        return t
    if t.dtype.is_complex or not (t.dtype.is_floating or t.dtype.is_integer or t.dtype == dtypes.bool_):
        raise TypeError("A tensor of type %s cannot be sent between processes" % t.dtype.name)
    return math.cast(t, dtypes.float32 if t.dtype.is_floating else dtypes.int64)


def _key_of(name):
    """The instance of a collective, by its name: the same in all processes.  Names of one graph that meet are moved apart."""
    graph = ops.get_default_graph()
    used = graph.__dict__.setdefault("_horovod_keys", {})
    key = zlib.crc32(name.encode()) & 0x3fffffff
    while used.setdefault(key, name) != name:
        key = (key + 1) & 0x3fffffff
    return key


def _instance(called, name, t):
    """A name of the default graph that is new, and its key."""
    wanted = name or "%s_%s" % (called, t.op.name.replace("/", "_"))
    with ops.name_scope(None):
        unique = ops.get_default_graph().unique_name(wanted)
    return unique, _key_of(unique)


def _reduce(t, op, name):
    unique, key = _instance("HorovodAllreduce", name, t)
    out = raw.collective_reduce_v2(_as_one_of(t, _SUMMED), size(), _GROUP_KEY, key, [], merge_op=op.merge_op,
                                   final_op=op.final_op, name=unique)
    return out if out.dtype == t.dtype.base_dtype else math.cast(out, t.dtype.base_dtype)


# ---- collectives ----

def allreduce(tensor, average=None, device_dense="", device_sparse="", compression=Compression.none, op=None, name=None):
    """The mean of a tensor over all processes, or what `op` says.  Rows (IndexedSlices) are put one behind the other."""
    if average is not None and op is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    op = op or (Sum if average is False else Average)
    if isinstance(tensor, ops.IndexedSlices):
        if op not in (Average, Sum):
            raise NotImplementedError("IndexedSlices can only be averaged or summed, not reduced with %r" % op)
        with ops.device(device_sparse):
            values, indices = convert.convert_to_tensor(tensor.values), convert.convert_to_tensor(tensor.indices)
            if size() > 1:
                values, indices = _all_rows(values, indices, op, name)
        return ops.IndexedSlices(values, indices, dense_shape=tensor.dense_shape)
    tensor = convert.convert_to_tensor(tensor)
    if size() == 1:
        return tensor
    with ops.device(device_dense):
        small, was = compression.compress(tensor)
        return compression.decompress(_reduce(small, op, name), was)


def _all_rows(values, indices, op, name):
    """Gathers the rows of all processes. Their numbers may differ and are exchanged once for values and indices."""
    unique, key = _instance("HorovodAllreduce", name, values)
    with ops.name_scope(unique):
        counts = _counts(indices, unique)
        rows = _gather(values, key, counts)
        if op is Average:
            rows = math.divide(rows, math.cast(size(), rows.dtype))
        return rows, _gather(indices, _key_of(unique + ":indices"), counts)


def allgather(tensor, name=None):
    """The tensors of all processes one behind the other along dimension 0, which may be of another size in each of them."""
    tensor = convert.convert_to_tensor(tensor)
    if size() == 1:
        return tensor
    unique, key = _instance("HorovodAllgather", name, tensor)
    with ops.name_scope(unique):
        return _gather(tensor, key, _counts(tensor, unique))


def _counts(tensor, unique):
    """How many rows the processes have."""
    rows = array.shape(tensor, out_type=dtypes.int32)[:1]
    return raw.collective_gather_v2(rows, size(), _GROUP_KEY, _key_of(unique + ":sizes"), [])  # no op has such a name


def _gather(tensor, key, counts):
    """Rows of all processes.  What is gathered is of one shape, so all send as many as the one that has most; and one where nobody has
    any, as who sends nothing waits for nobody, and might be gone before another begins."""
    moved = _as_one_of(tensor, _MOVED[1:])
    most = math.maximum(math.reduce_max(counts), 1)
    shape = array.shape(moved, out_type=dtypes.int32)
    behind = array.concat([most - shape[:1], array.zeros_like(shape[1:])], 0)
    padded = array.pad(moved, array.stack([array.zeros_like(behind), behind], axis=1))
    gathered = raw.collective_gather_v2(padded, size(), _GROUP_KEY, key, [])
    there = array.reshape(array.sequence_mask(counts, most), [-1])
    out = array.gather(gathered, array.reshape(array.where(there), [-1]))
    if tensor.shape.ndims is not None:
        out.set_shape([None] + tensor.shape.as_list()[1:])
    return out if out.dtype == tensor.dtype.base_dtype else math.cast(out, tensor.dtype.base_dtype)


def broadcast(tensor, root_rank, name=None):
    """The tensor of one process, for all; of the same type and shape in each of them."""
    tensor = convert.convert_to_tensor(tensor)
    if not 0 <= root_rank < size():
        raise ValueError("root_rank is %d, but there are %d processes" % (root_rank, size()))
    if size() == 1:
        return tensor
    unique, key = _instance("HorovodBroadcast", name, tensor)
    moved = _as_one_of(tensor, _MOVED)
    if rank() == root_rank:
        out = raw.collective_bcast_send_v2(moved, size(), _GROUP_KEY, key, name=unique)
    else:
        out = raw.collective_bcast_recv_v2(size(), _GROUP_KEY, key, array.shape(moved), T=moved.dtype.base_dtype, name=unique)
    out.set_shape(tensor.shape)
    return out if out.dtype == tensor.dtype.base_dtype else math.cast(out, tensor.dtype.base_dtype)


def broadcast_variables(variables, root_rank):
    """An operation that gives all processes the values that variables have in one of them."""
    return control_flow.group(*[state.assign(v, broadcast(_value_of(v, root_rank), root_rank, "HorovodBroadcast_" +
                                                          v.op.name.replace("/", "_"))) for v in variables])


def _value_of(v, root_rank):
    """What is sent; where it is received only type and shape matter, and the variable may have no value yet."""
    if rank() == root_rank or not v.shape.is_fully_defined():
        return v.read_value() if hasattr(v, "read_value") else v
    return array.zeros(v.shape, v.dtype.base_dtype)


def broadcast_global_variables(root_rank):
    """Returns an operation that sets all global variables to their values in process root_rank."""
    return broadcast_variables(variables.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(hooks.SessionRunHook):
    """A hook that sets the variables of all processes to those of one of them at the start."""

    def __init__(self, root_rank, device=""):
        self.root_rank, self.device, self.bcast_op = root_rank, device, None

    def begin(self):
        if self.bcast_op is None or self.bcast_op.graph is not ops.get_default_graph():
            with ops.device(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session, coord):
        session.run(self.bcast_op)


# ---- gradients ----

def _buckets(pairs, limit):
    """Places of dense gradients that travel together: the last ones first, as back-propagation makes them."""
    out, bytes_so_far = [], 0
    for i in reversed(range(len(pairs))):
        g = pairs[i][0]
        if g is None or isinstance(g, ops.IndexedSlices) or not g.shape.is_fully_defined():
            continue
        n = g.shape.num_elements() * g.dtype.size
        if not out or bytes_so_far + n > limit or g.dtype != pairs[out[-1][0]][0].dtype:
            out.append([])
            bytes_so_far = 0
        out[-1].append(i)
        bytes_so_far += n
    return out


def _fused(tensors, reduce, name):
    """One collective for several tensors of one type."""
    flat = array.concat([array.reshape(t, [-1]) for t in tensors], 0)
    parts = array.split(reduce(flat, name), [t.shape.num_elements() for t in tensors])
    return [array.reshape(p, t.shape) for p, t in zip(parts, tensors)]


class DistributedOptimizer(Optimizer):
    """An optimizer whose gradients are the means over all processes.  HOROVOD_FUSION_THRESHOLD (bytes, 4 MiB) says how many
    travel together; they do so as soon as they are there."""

    def __init__(self, optimizer, name=None, use_locking=False, device_dense="", device_sparse="", compression=Compression.none,
                 sparse_as_dense=False, backward_passes_per_step=1, op=Average):
        super().__init__(use_locking, name or "Distributed%s" % type(optimizer).__name__)
        if backward_passes_per_step != 1:
            raise NotImplementedError("backward_passes_per_step is %d, but only 1 is supported" % backward_passes_per_step)
        self._optimizer, self._op, self._compression = optimizer, op, compression
        self._device_dense, self._device_sparse, self._sparse_as_dense = device_dense, device_sparse, sparse_as_dense

    @functools.wraps(Optimizer.compute_gradients)
    def compute_gradients(self, *args, **kwargs):
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        return pairs if size() == 1 else self._averaged(pairs)

    def _averaged(self, pairs):
        if self._sparse_as_dense:
            pairs = [(convert.convert_to_tensor(g) if isinstance(g, ops.IndexedSlices) else g, v) for g, v in pairs]
        out = [g for g, _ in pairs]
        with ops.name_scope(self._name + "_Allreduce"):
            for number, places in enumerate(_buckets(pairs, int(os.environ.get("HOROVOD_FUSION_THRESHOLD", 4 << 20)))):
                for i, g in zip(places, _fused([pairs[i][0] for i in places], self._one, "%s_bucket_%d" % (self._name, number))):
                    out[i] = g
            for i, (g, v) in enumerate(pairs):
                if g is not None and out[i] is g:
                    out[i] = self._one(g, "%s_%s" % (self._name, v.op.name.replace("/", "_")))
        return [(g, v) for g, (_, v) in zip(out, pairs)]

    def _one(self, g, name):
        return allreduce(g, device_dense=self._device_dense, device_sparse=self._device_sparse, compression=self._compression,
                         op=self._op, name=name)

    @functools.wraps(Optimizer.apply_gradients)
    def apply_gradients(self, *args, **kwargs):
        return self._optimizer.apply_gradients(*args, **kwargs)

    @functools.wraps(Optimizer.get_slot)
    def get_slot(self, *args, **kwargs):
        return self._optimizer.get_slot(*args, **kwargs)

    @functools.wraps(Optimizer.get_slot_names)
    def get_slot_names(self, *args, **kwargs):
        return self._optimizer.get_slot_names(*args, **kwargs)

    @functools.wraps(Optimizer.variables)
    def variables(self, *args, **kwargs):
        return self._optimizer.variables(*args, **kwargs)
