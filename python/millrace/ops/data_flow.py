"""Queues, barriers, accumulators and staging areas: where tensors wait between steps.

These are objects of Python around the handle of a resource; what they hold is in the session's (or the cluster's) devices, so
two with the same shared_name are one.
"""

import hashlib

from ..framework import convert, dtypes, ops, random_seed, shapes
from ..framework.op_defs import call, raw
from .io import compression_name

__all__ = ["Barrier", "ConditionalAccumulator", "ConditionalAccumulatorBase", "FIFOQueue", "PaddingFIFOQueue", "PriorityQueue",
           "QueueBase", "RandomShuffleQueue", "SparseConditionalAccumulator"]


# ---- arguments ----

def _type_list(types):
    """A list of DTypes; what is not a list or tuple is one type, in any form that as_dtype takes."""
    return [dtypes.as_dtype(t) for t in (types if isinstance(types, (list, tuple)) else [types])]


def _shape_list(given, types, partial=False):
    """A shape for each type; None when they are not known.  partial: dimensions may be unknown."""
    if given is None:
        return None
    if isinstance(given, shapes.TensorShape):
        given = [given]
    if not isinstance(given, (tuple, list)):
        raise TypeError("shapes must be a TensorShape or a list or tuple of TensorShapes.")
    if all(d is None or isinstance(d, (int, shapes.Dimension)) for d in given) and len(types) == 1:
        given = [given]  # one shape alone
    found = [shapes.as_shape(s) for s in given]
    if not partial and any(not s.is_fully_defined() for s in found):
        raise ValueError("All shapes must be fully defined: %s" % found)
    if partial and any(s.ndims is None for s in found):
        raise ValueError("All shapes must have a defined rank: %s" % found)
    if len(found) != len(types):
        raise ValueError("List of shapes must have one entry for each of the %d types: %s" % (len(types), found))
    return found


def _name_list(names, types):
    if names is None:
        return None
    names = list(names) if isinstance(names, (list, tuple)) else [names]
    if len(names) != len(types):
        raise ValueError("List of names must have the same length as the list of dtypes")
    return names


class _Components:
    """What an element is made of: types, shapes, and names when elements are dicts."""

    def _keep(self, types, shape_list, names):
        self._dtypes, self._names = types, names
        self._shapes = shape_list if shape_list is not None else [shapes.unknown_shape()] * len(types)

    dtypes = property(lambda self: self._dtypes, doc="The types of the components of an element.")
    shapes = property(lambda self: self._shapes, doc="The shapes of the components of an element.")
    names = property(lambda self: self._names, doc="The names of the components of an element, or None.")

    def _flat(self, vals):
        """Values as a list; of a dict, in the order of the names."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals, key=str):
                raise ValueError("Keys in dictionary to enqueue do not match names of Queue.  Dictionary: (%s), Queue: (%s)" %
                                 (sorted(vals), sorted(self._names)))
            return [vals[k] for k in self._names]
        if self._names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        return list(vals) if isinstance(vals, (list, tuple)) else [vals]

    def _converted(self, vals, batched=False):
        vals = self._flat(vals)
        if len(vals) != len(self._dtypes):
            raise ValueError("An element has %d components, %d were given" % (len(self._dtypes), len(vals)))
        out = []
        for i, (v, dtype, shape) in enumerate(zip(vals, self._dtypes, self._shapes)):
            t = convert.convert_to_tensor(v, dtype, name="component_%d" % i)
            if batched:
                t.get_shape().with_rank_at_least(1)[1:].assert_is_compatible_with(shape)
            else:
                t.get_shape().assert_is_compatible_with(shape)
            out.append(t)
        return out

    def _returned(self, tensors, batch=None):
        """Tensors with their shapes, in the form of an element; batch: a TensorShape in front of each."""
        for t, shape in zip(tensors, self._shapes):
            t.set_shape(shape if batch is None else batch.concatenate(shape))
        if self._names:
            return dict(zip(self._names, tensors))
        return tensors[0] if len(tensors) == 1 else list(tensors)


# ---- queues ----

class QueueBase(_Components):
    """The base of queues: elements are tuples of tensors."""

    def __init__(self, dtypes, shapes, names, queue_ref):  # noqa: A002
        self._keep(dtypes, shapes, names)
        if len(self._shapes) != len(dtypes):
            raise ValueError("Queue shapes must have the same length as dtypes")
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.split("/")[-1]

    @staticmethod
    def from_list(index, queues):
        """The queue at an index that is known when a step runs; all must be of one form."""
        if not queues or not all(isinstance(q, QueueBase) for q in queues):
            raise TypeError("A list of queues expected")
        types, names = queues[0].dtypes, queues[0].names
        if any(q.dtypes != types for q in queues[1:]):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(q.names != names for q in queues[1:]):
            raise TypeError("Queues do not have matching component names.")
        same = [list(parts) for parts in zip(*[q.shapes for q in queues])]
        shape_list = [parts[0] if all(p == parts[0] for p in parts) else shapes.unknown_shape() for parts in same]
        chosen = raw.gather(raw.pack([q.queue_ref for q in queues]), index)
        return QueueBase(types, shape_list, names, chosen)

    queue_ref = property(lambda self: self._queue_ref, doc="The tensor that identifies the queue.")
    name = property(lambda self: self._queue_ref.op.name, doc="The name of the queue's operation.")

    def _scope(self, name, what, values=()):
        return ops.name_scope(name, "%s_%s" % (self._name, what), list(values))

    def enqueue(self, vals, name=None):
        """An operation that adds an element; it waits while the queue is full."""
        with self._scope(name, "enqueue", self._flat(vals)) as scope:
            return raw.queue_enqueue_v2(self._queue_ref, self._converted(vals), name=scope)

    def enqueue_many(self, vals, name=None):
        """An operation that adds as many elements as the first dimension has."""
        with self._scope(name, "EnqueueMany", self._flat(vals)) as scope:
            return raw.queue_enqueue_many_v2(self._queue_ref, self._converted(vals, batched=True), name=scope)

    def dequeue(self, name=None):
        """The next element; waits for one."""
        name = name or "%s_Dequeue" % self._name
        return self._returned(_list(raw.queue_dequeue_v2(self._queue_ref, self._dtypes, name=name)))

    def _many(self, f, n, name, known):
        n = convert.convert_to_tensor(n, dtypes.int32, name="n")
        size = convert.constant_value(n) if known else None
        tensors = _list(f(self._queue_ref, n, component_types=self._dtypes, name=name))
        return self._returned(tensors, shapes.TensorShape([None if size is None else int(size)]))

    def dequeue_many(self, n, name=None):
        """The next n elements put together; fewer than that at the end of a closed queue are an OutOfRangeError."""
        return self._many(raw.queue_dequeue_many_v2, n, name or "%s_DequeueMany" % self._name, True)

    def dequeue_up_to(self, n, name=None):
        """The next n elements, or as many as a closed queue still has."""
        return self._many(raw.queue_dequeue_up_to_v2, n, name or "%s_DequeueUpTo" % self._name, False)

    def close(self, cancel_pending_enqueues=False, name=None):
        """Returns an operation that closes the queue: no more elements are accepted."""
        return raw.queue_close_v2(self._queue_ref, cancel_pending_enqueues=cancel_pending_enqueues,
                                  name=name or "%s_Close" % self._name)

    def is_closed(self, name=None):
        """Returns a bool tensor: whether the queue is closed."""
        return raw.queue_is_closed_v2(self._queue_ref, name=name or "%s_Is_Closed" % self._name)

    def size(self, name=None):
        """Returns the number of elements in the queue, as a tensor."""
        return raw.queue_size_v2(self._queue_ref, name=name or "%s_Size" % self._name)


def _list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _make(op_type, types, shape_list, shared_name, name, **attrs):
    return call(op_type, name, component_types=types, shapes=shape_list, shared_name=shared_name, **attrs)


class FIFOQueue(QueueBase):
    """First in, first out."""

    def __init__(self, capacity, dtypes, shapes=None, names=None, shared_name=None, name="fifo_queue"):  # noqa: A002
        types = _type_list(dtypes)
        shape_list = _shape_list(shapes, types)
        ref = _make("FIFOQueueV2", types, shape_list, shared_name, name, capacity=capacity)
        super().__init__(types, shape_list, _name_list(names, types), ref)


class PaddingFIFOQueue(QueueBase):
    """First in, first out; elements of different sizes are padded with zeros when they are put together."""

    def __init__(self, capacity, dtypes, shapes, names=None, shared_name=None, name="padding_fifo_queue"):  # noqa: A002
        types = _type_list(dtypes)
        shape_list = _shape_list(shapes, types, partial=True)
        if shape_list is None or len(shape_list) != len(types):
            raise ValueError("Shapes must be provided for all components, but received %d dtypes and %s shapes." %
                             (len(types), shapes))
        ref = _make("PaddingFIFOQueueV2", types, shape_list, shared_name, name, capacity=capacity)
        super().__init__(types, shape_list, _name_list(names, types), ref)


class RandomShuffleQueue(QueueBase):
    """Any of the elements in it, as long as min_after_dequeue are left."""

    def __init__(self, capacity, min_after_dequeue, dtypes, shapes=None, names=None, seed=None, shared_name=None,  # noqa: A002
                 name="random_shuffle_queue"):
        types = _type_list(dtypes)
        shape_list = _shape_list(shapes, types)
        seed1, seed2 = random_seed.get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1, seed2 = 0, 0
        elif seed is None and shared_name is not None:  # the same for all queues that share the name
            seed2 = int(hashlib.md5((str(seed1) + shared_name).encode()).hexdigest()[:8], 16) & 0x7FFFFFFF
        ref = _make("RandomShuffleQueueV2", types, shape_list, shared_name, name, capacity=capacity,
                    min_after_dequeue=min_after_dequeue, seed=seed1, seed2=seed2)
        super().__init__(types, shape_list, _name_list(names, types), ref)


class PriorityQueue(QueueBase):
    """The element with the smallest number first: each begins with its priority, an int64."""

    def __init__(self, capacity, types, shapes=None, names=None, shared_name=None, name="priority_queue"):  # noqa: A002
        own = _type_list(types)
        shape_list = _shape_list(shapes, own)
        if shape_list is None:
            raise ValueError("PriorityQueue needs the shapes of its components")
        ref = _make("PriorityQueueV2", own, shape_list, shared_name, name, capacity=capacity)
        all_types = [dtypes.int64] + own
        super().__init__(all_types, [_scalar()] + shape_list, _name_list(names, all_types), ref)


def _scalar():
    return shapes.TensorShape([])


# ---- barriers ----

class Barrier:
    """Tuples by key, whose components arrive one at a time; complete ones can be taken."""

    def __init__(self, types, shapes=None, shared_name=None, name="barrier"):  # noqa: A002
        self._types = _type_list(types)
        found = _shape_list(shapes, self._types)
        self._shapes = found if found is not None else [_unknown()] * len(self._types)
        for i, shape in enumerate(self._shapes):
            if shape.num_elements() == 0:
                raise ValueError("Empty tensors are not supported, but received shape '%s' at index %d" % (shape, i))
        self._barrier_ref = _make("Barrier", self._types, found, shared_name, name)
        self._name = self._barrier_ref.op.name.split("/")[-1]

    barrier_ref = property(lambda self: self._barrier_ref, doc="The tensor that identifies the barrier.")
    name = property(lambda self: self._barrier_ref.op.name, doc="The name of the barrier's operation.")

    def insert_many(self, component_index, keys, values, name=None):
        """Returns an operation that sets component component_index for each of the keys."""
        return raw.barrier_insert_many(self._barrier_ref, keys, values, component_index,
                                       name=name or "%s_BarrierInsertMany" % self._name)

    def take_many(self, num_elements, allow_small_batch=False, timeout=None, name=None):
        """(indices, keys, [values of each component])"""
        taken = raw.barrier_take_many(self._barrier_ref, num_elements, component_types=self._types,
                                      allow_small_batch=allow_small_batch, timeout_ms=timeout,
                                      name=name or "%s_BarrierTakeMany" % self._name)
        size = None if allow_small_batch else convert.constant_value(taken.indices.op.inputs[1])
        batch = shapes.TensorShape([None if size is None else int(size)])
        taken.indices.set_shape(batch)
        taken.keys.set_shape(batch)
        for t, shape in zip(taken.values, self._shapes):
            t.set_shape(batch.concatenate(shape))
        return tuple(taken)

    def close(self, cancel_pending_enqueues=False, name=None):
        """Returns an operation that closes the barrier: no new keys are accepted.

        With cancel_pending_enqueues, keys that are incomplete can no longer be completed."""
        return raw.barrier_close(self._barrier_ref, cancel_pending_enqueues=cancel_pending_enqueues,
                                 name=name or "%s_BarrierClose" % self._name)

    def ready_size(self, name=None):
        """Returns the number of complete elements, as a tensor."""
        return raw.barrier_ready_size(self._barrier_ref, name=name or "%s_BarrierReadySize" % self._name)

    def incomplete_size(self, name=None):
        """Returns the number of incomplete elements, as a tensor."""
        return raw.barrier_incomplete_size(self._barrier_ref, name=name or "%s_BarrierIncompleteSize" % self._name)


def _unknown():
    return shapes.unknown_shape()


# ---- accumulators ----

class ConditionalAccumulatorBase:
    """Adds up gradients that are not older than its step; their mean is taken when enough have come."""

    def __init__(self, dtype, shape, accumulator_ref):
        self._dtype, self._shape = dtypes.as_dtype(dtype), shapes.as_shape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.split("/")[-1]

    accumulator_ref = property(lambda self: self._accumulator_ref, doc="The tensor that identifies the accumulator.")
    name = property(lambda self: self._name, doc="The name of the accumulator.")
    dtype = property(lambda self: self._dtype, doc="The type of the gradients.")

    def num_accumulated(self, name=None):
        """Returns the number of gradients collected since the last take, as a tensor."""
        return raw.accumulator_num_accumulated(self._accumulator_ref, name=name or "%s_NumAccumulated" % self._name)

    def set_global_step(self, new_global_step, name=None):
        """Returns an operation that sets the step; gradients of earlier steps are dropped from then on."""
        step = raw.cast(new_global_step, DstT=dtypes.int64)
        return raw.accumulator_set_global_step(self._accumulator_ref, step, name=name or "%s_SetGlobalStep" % self._name)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Collects dense gradients, and gives out their average when enough have arrived."""

    def __init__(self, dtype, shape=None, shared_name=None, name="conditional_accumulator", reduction_type="MEAN"):
        ref = raw.conditional_accumulator(dtype, shapes.as_shape(shape), shared_name=shared_name, name=name,
                                          reduction_type=reduction_type)
        super().__init__(dtype, shape, ref)

    def apply_grad(self, grad, local_step=0, name=None):
        """Returns an operation that adds a gradient; it is dropped if local_step is older than the global step."""
        grad = convert.convert_to_tensor(grad, self._dtype)
        grad.get_shape().assert_is_compatible_with(self._shape)
        return raw.accumulator_apply_gradient(self._accumulator_ref, _int64(local_step), grad, name=name)

    def take_grad(self, num_required, name=None):
        """The mean of what has come, when that are num_required; its step goes up by one."""
        taken = raw.accumulator_take_gradient(self._accumulator_ref, num_required, self._dtype, name=name)
        taken.set_shape(self._shape)
        return taken


def _int64(step):
    return raw.cast(convert.convert_to_tensor(step), DstT=dtypes.int64)


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """The same for gradients of rows."""

    def __init__(self, dtype, shape=None, shared_name=None, name="sparse_conditional_accumulator", reduction_type="MEAN"):
        ref = raw.sparse_conditional_accumulator(dtype, shapes.as_shape(shape), shared_name=shared_name, name=name,
                                                 reduction_type=reduction_type)
        super().__init__(dtype, shape, ref)

    def apply_indexed_slices_grad(self, grad, local_step=0, name=None):
        """Returns an operation that adds a gradient given as IndexedSlices."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(self, grad_indices, grad_values, grad_shape=None, local_step=0, name=None):
        """Returns an operation that adds a gradient given by indices and values.

        It is dropped if local_step is older than the global step."""
        return raw.sparse_accumulator_apply_gradient(
            self._accumulator_ref, _int64(local_step), _int64(grad_indices),
            convert.convert_to_tensor(grad_values, self._dtype),
            convert.constant([], dtypes.int64) if grad_shape is None else _int64(grad_shape),
            has_known_shape=grad_shape is not None, name=name)

    def take_grad(self, num_required, name=None):
        """(indices, values, shape)"""
        return raw.sparse_accumulator_take_gradient(self._accumulator_ref, num_required, self._dtype, name=name)

    def take_indexed_slices_grad(self, num_required, name=None):
        """Returns the average as IndexedSlices once num_required gradients have arrived, and resets the sum."""
        taken = self.take_grad(num_required, name)
        return ops.IndexedSlices(taken.values, taken.indices, taken.shape)


# ---- staging ----

class StagingArea(_Components):
    """A queue on a device that steps fill and empty one after the other, to overlap them."""

    _count = 0

    def __init__(self, dtypes, shapes=None, names=None, shared_name=None, capacity=0, memory_limit=0):  # noqa: A002
        types = _type_list(dtypes)
        self._keep(types, _shape_list(shapes, types, partial=True), _name_list(names, types))
        if capacity < 0 or memory_limit < 0:
            raise ValueError("capacity and memory_limit must be positive or zero")
        if shared_name is None:
            shared_name = ops.get_default_graph().unique_name("StagingArea")
        self._name = shared_name
        self._attrs = dict(shared_name=shared_name, capacity=capacity, memory_limit=memory_limit)
        # All of its operations are on one device, where the first is.
        with ops.name_scope("%s_root" % self._name):
            self._beside = raw.no_op()

    name = property(lambda self: self._name, doc="The name of the area.")
    capacity = property(lambda self: self._attrs["capacity"], doc="The largest number of elements; 0 is no limit.")
    memory_limit = property(lambda self: self._attrs["memory_limit"],
                            doc="The largest number of bytes of all elements; 0 is no limit.")

    def _scope(self, name, what):
        return ops.name_scope(name, "%s_%s" % (self._name, what))

    def put(self, values, name=None):
        """Returns an operation that adds an element, waiting while the area is full."""
        with self._scope(name, "put") as scope, ops.colocate_with(self._beside):
            return raw.stage(self._converted(values), name=scope, **self._attrs)

    def get(self, name=None):
        """Removes the oldest element, waiting while the area is empty, and returns its tensors."""
        with self._scope(name, "get") as scope, ops.colocate_with(self._beside):
            return self._returned(_list(raw.unstage(dtypes=self._dtypes, name=scope, **self._attrs)))

    def peek(self, index, name=None):
        """Returns the tensors of the element at index without removing it, waiting until it exists."""
        with self._scope(name, "peek") as scope, ops.colocate_with(self._beside):
            return self._returned(_list(raw.stage_peek(index, dtypes=self._dtypes, name=scope, **self._attrs)))

    def size(self, name=None):
        """Returns the number of elements, as a tensor."""
        with self._scope(name, "size") as scope, ops.colocate_with(self._beside):
            return raw.stage_size(dtypes=self._dtypes, name=scope, **self._attrs)

    def clear(self, name=None):
        """Returns an operation that removes all elements."""
        with self._scope(name, "clear") as scope, ops.colocate_with(self._beside):
            return raw.stage_clear(dtypes=self._dtypes, name=scope, **self._attrs)


class MapStagingArea(_Components):
    """Values by integer keys on a device; an entry counts when all of its components were put.  With ordered, those without a
    key are got in the order of keys."""

    def __init__(self, dtypes, shapes=None, names=None, shared_name=None, ordered=False, capacity=0,  # noqa: A002
                 memory_limit=0):
        types = _type_list(dtypes)
        self._keep(types, _shape_list(shapes, types, partial=True), _name_list(names, types))
        if shared_name is None:
            shared_name = ops.get_default_graph().unique_name("MapStagingArea")
        elif not isinstance(shared_name, str):
            raise ValueError("shared_name must be a string")
        self._name, self._kind = shared_name, "OrderedMap" if ordered else "Map"
        self._attrs = dict(shared_name=shared_name, capacity=capacity, memory_limit=memory_limit)
        # All of its operations are on one device, where the first is.
        with ops.name_scope("%s_root" % self._name):
            self._beside = raw.no_op()

    name = property(lambda self: self._name, doc="The name of the area.")
    capacity = property(lambda self: self._attrs["capacity"], doc="The largest number of elements; 0 is no limit.")
    memory_limit = property(lambda self: self._attrs["memory_limit"],
                            doc="The largest number of bytes of all elements; 0 is no limit.")

    def _call(self, what, name, suffix, **given):
        """An operation of the area, beside the others."""
        with ops.colocate_with(self._beside):
            return call(self._kind + what, name or "%s_%s" % (self._name, suffix), **given, **self._attrs)

    def put(self, key, vals, indices=None, name=None):
        """Puts some or all components of the entry of a key: a dict by name, or a list and the numbers of its components."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if not set(vals) <= set(self._names):
                raise ValueError("Keys in dictionary to put do not match names of staging area. Dictionary: (%s), Queue: (%s)" %
                                 (sorted(vals), sorted(self._names)))
            indices = [i for i, n in enumerate(self._names) if n in vals]
            vals = [vals[self._names[i]] for i in indices]
        else:
            if self._names:
                raise ValueError("You must enqueue a dictionary in a staging area with names")
            if indices is None:
                raise ValueError("Indices must be supplied when inserting a list of tensors")
            vals = list(vals) if isinstance(vals, (list, tuple)) else [vals]
            if len(indices) != len(vals):
                raise ValueError("Number of indices '%s' doesn't match number of values '%s'" % (len(indices), len(vals)))
        if len(vals) > len(self._dtypes):
            raise ValueError("Unexpected number of inputs '%s' vs '%s'" % (len(vals), len(self._dtypes)))
        with ops.name_scope(name, "%s_put" % self._name) as scope:
            tensors = []
            for value, i in zip(vals, indices):
                t = convert.convert_to_tensor(value, name="component_%d" % i)
                if t.dtype.base_dtype is not self._dtypes[i].base_dtype:
                    raise ValueError("Datatypes do not match. '%s' != '%s'" % (t.dtype, self._dtypes[i]))
                t.shape.assert_is_compatible_with(self._shapes[i])
                tensors.append(t)
            return self._call("Stage", scope, "put", key=key, indices=list(indices), values=tensors, dtypes=self._dtypes)

    def _numbers(self, indices):
        """Of the components that are meant, by number or by name; all without indices."""
        if indices is None:
            return list(range(len(self._dtypes)))
        if not isinstance(indices, (tuple, list)):
            raise TypeError("Invalid indices type '%s'" % type(indices))
        if not indices:
            raise ValueError("Empty indices")
        if all(isinstance(i, str) for i in indices):
            if self._names is None:
                raise ValueError("String indices provided '%s', but this Staging Area was not created with names." % indices)
            for n in indices:
                if n not in self._names:
                    raise ValueError("Named index '%s' not in Staging Area names '%s'" % (n, self._names))
            return [self._names.index(n) for n in indices]
        if not all(isinstance(i, int) for i in indices):
            raise TypeError("Mixed types in indices '%s'. May only be str or int" % indices)
        return list(indices)

    def _entry(self, tensors, numbers):
        tensors = _list(tensors)
        for t, i in zip(tensors, numbers):
            t.set_shape(self._shapes[i])
        return {self._names[i]: t for t, i in zip(tensors, numbers)} if self._names else tensors

    def get(self, key=None, indices=None, name=None):
        """(key, components) of a key, or of any; they are taken out."""
        numbers = self._numbers(indices)
        types = [self._dtypes[i] for i in numbers]
        if key is not None:
            return key, self._entry(self._call("Unstage", name, "get", key=key, indices=numbers, dtypes=types), numbers)
        key, values = self._call("UnstageNoKey", name, "get_nokey", indices=numbers, dtypes=types)
        return key, self._entry(values, numbers)

    def peek(self, key, indices=None, name=None):
        """Components of a key, which stay."""
        numbers = self._numbers(indices)
        types = [self._dtypes[i] for i in numbers]
        return self._entry(self._call("Peek", name, "pop", key=key, indices=numbers, dtypes=types), numbers)

    def size(self, name=None):
        """Returns the number of complete elements, as a tensor."""
        return self._call("Size", name, "size", dtypes=self._dtypes)

    def incomplete_size(self, name=None):
        """Returns the number of incomplete elements, as a tensor."""
        return self._call("IncompleteSize", name, "incomplete_size", dtypes=self._dtypes)

    def clear(self, name=None):
        """Returns an operation that removes all elements."""
        return self._call("Clear", name, "clear", dtypes=self._dtypes)


class RecordInput:
    """Records of TFRecord files in random order, batch by batch."""

    def __init__(self, file_pattern, batch_size=1, buffer_size=1, parallelism=1, shift_ratio=0, seed=0, name=None, batches=None,
                 compression_type=None):
        self._batch_size = batch_size * (batches or 1)
        self._batches, self._name = batches, name
        self._attrs = dict(file_pattern=file_pattern, file_buffer_size=buffer_size, file_parallelism=parallelism,
                           file_shuffle_shift_ratio=shift_ratio, batch_size=self._batch_size, file_random_seed=seed,
                           compression_type=compression_name(compression_type))

    def get_yield_op(self):
        records = raw.record_input(name=self._name, **self._attrs)
        if self._batches is None:
            return records
        with ops.name_scope(self._name):
            return raw.split(0, raw.reshape(records, [-1]), num_split=self._batches)
