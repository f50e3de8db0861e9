"""Input by queues: producers of file names, numbers and slices, and batches that threads put together.

All of them add a queue and its QueueRunner to the graph; start_queue_runners() starts the threads.
"""

from .. import summary
from ..framework import convert, dtypes, ops, shapes, sparse
from ..framework.op_defs import raw
from ..ops import array, control_flow, data_flow, math, random, variables
from . import queue_runner

__all__ = ["batch", "batch_join", "input_producer", "limit_epochs", "match_filenames_once", "maybe_batch", "maybe_batch_join",
           "maybe_shuffle_batch", "maybe_shuffle_batch_join", "range_input_producer", "shuffle_batch", "shuffle_batch_join",
           "slice_input_producer", "string_input_producer"]


def match_filenames_once(pattern, name=None):
    """The files that match, as a local variable: they are looked for once."""
    with ops.name_scope(name, "matching_filenames", [pattern]) as scope:
        return variables.Variable(lambda: raw.matching_files(pattern), name=scope, trainable=False, validate_shape=False,
                                  collections=[ops.GraphKeys.LOCAL_VARIABLES], use_resource=False)


def limit_epochs(tensor, num_epochs=None, name=None):
    """The tensor so many times, then an OutOfRangeError; the count is a local variable."""
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError("num_epochs must be > 0 not %d." % num_epochs)
    with ops.name_scope(name, "limit_epochs", [tensor]) as scope:
        epochs = variables.Variable(convert.constant(0, dtypes.int64), name="epochs", trainable=False,
                                    collections=[ops.GraphKeys.LOCAL_VARIABLES])
        with ops.control_dependencies([epochs.count_up_to(num_epochs)]):
            return raw.identity(tensor, name=scope)


def input_producer(input_tensor, element_shape=None, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None,
                   summary_name=None, name=None, cancel_op=None):
    """A queue of the rows of a tensor, shuffled again each time."""
    with ops.name_scope(name, "input_producer", [input_tensor]) as scope:
        t = convert.convert_to_tensor(input_tensor, name="input_tensor")
        element_shape = t.get_shape().with_rank_at_least(1)[1:].merge_with(shapes.as_shape(element_shape))
        if not element_shape.is_fully_defined():
            raise ValueError("Either `input_tensor` must have a fully defined shape or `element_shape` must be specified")
        if shuffle:
            t = random.random_shuffle(t, seed=seed)
        t = limit_epochs(t, num_epochs)
        q = data_flow.FIFOQueue(capacity=capacity, dtypes=[t.dtype.base_dtype], shapes=[element_shape], shared_name=shared_name,
                                name=scope)
        queue_runner.add_queue_runner(queue_runner.QueueRunner(q, [q.enqueue_many([t])], cancel_op=cancel_op))
        if summary_name is not None:
            summary.scalar(summary_name, math.cast(q.size(), dtypes.float32) * (1.0 / capacity))
        return q


def string_input_producer(string_tensor, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, name=None,
                          cancel_op=None):
    """A queue of strings: file names, mostly."""
    nothing = "string_input_producer requires a non-null input tensor"
    if not isinstance(string_tensor, (ops.Tensor, variables.Variable)) and len(string_tensor) == 0:
        raise ValueError(nothing)
    with ops.name_scope(name, "input_producer", [string_tensor]) as scope:
        t = convert.convert_to_tensor(string_tensor, dtypes.string)
        with ops.control_dependencies([control_flow.Assert(math.greater(array.size(t), 0), [nothing])]):
            t = array.identity(t)
        return input_producer(t, element_shape=[], num_epochs=num_epochs, shuffle=shuffle, seed=seed, capacity=capacity,
                              shared_name=shared_name, name=scope, summary_name="fraction_of_%d_full" % capacity,
                              cancel_op=cancel_op)


def range_input_producer(limit, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, name=None):
    """A queue of the numbers below a limit."""
    with ops.name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(math.range(limit), [], num_epochs, shuffle, seed, capacity, shared_name,
                              "fraction_of_%d_full" % capacity, scope)


def slice_input_producer(tensor_list, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, name=None):
    """The rows of tensors of the same number of rows, together."""
    with ops.name_scope(name, "input_producer", list(tensor_list)):
        tensors = convert.convert_n_to_tensor(tensor_list)
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        queue = range_input_producer(array.shape(tensors[0])[0], num_epochs=num_epochs, shuffle=shuffle, seed=seed,
                                     capacity=capacity, shared_name=shared_name)
        index = queue.dequeue()
        return [array.gather(t, index) for t in tensors]


# ---- batches ----

class _Element:
    """What a batch is made of: a list or dict of tensors and sparse tensors.  In the queue a sparse tensor is a string."""

    def __init__(self, given, enqueue_many):
        self._keys = sorted(given) if isinstance(given, dict) else None
        self._single = self._keys is None and not isinstance(given, (list, tuple))
        values = [given[k] for k in self._keys] if self._keys is not None else [given] if self._single else list(given)
        if not values:
            raise ValueError("Expected at least one tensor in the batch.")
        self.tensors, self._sparse = [], []
        for v in values:
            v = sparse.convert_to_tensor_or_sparse_tensor(v)
            is_sparse = isinstance(v, sparse.SparseTensor)
            rank = v.dense_shape.shape.with_rank(1)[0] if is_sparse else None
            self._sparse.append((v.dtype, rank if enqueue_many else rank + 1) if is_sparse else None)
            self.tensors.append(_coded(v, enqueue_many) if is_sparse else v)

    def same_as(self, other):
        return self._keys == other._keys and [t.dtype for t in self.tensors] == [t.dtype for t in other.tensors]

    def dense(self, tensors):
        """The batch in the form of what was given."""
        out = []
        for t, kind in zip(tensors, self._sparse):
            out.append(t if kind is None else _decoded(t, *kind))
        if self._keys is not None:
            return dict(zip(self._keys, out))
        return out[0] if len(out) == 1 else out


def _coded(v, enqueue_many):
    if enqueue_many:
        return raw.serialize_many_sparse(v.indices, v.values, v.dense_shape)
    return raw.serialize_sparse(v.indices, v.values, v.dense_shape)


def _decoded(t, dtype, rank):
    """The batch of sparse tensors; rank counts the batch, and may be unknown."""
    indices, values, dense_shape = raw.deserialize_many_sparse(t, dtype=dtype)
    indices.set_shape([None, rank])
    dense_shape.set_shape([rank])
    return sparse.SparseTensor(indices, values, dense_shape)


def _element_shapes(elements, given, enqueue_many):
    """The shapes of the components: those of the first element, with which the others must agree."""
    if given is not None:
        return [shapes.as_shape(s) for s in given]
    out = []
    for parts in zip(*[e.tensors for e in elements]):
        for t in parts:
            if t.get_shape().ndims is None:
                raise ValueError("Cannot infer Tensor's rank: %s" % t)
        found = [t.get_shape().with_rank_at_least(1)[1:] if enqueue_many else t.get_shape() for t in parts]
        for other in found[1:]:
            found[0].merge_with(other)  # raises ValueError where they contradict each other
        out.append(found[0])
    return out


def _enqueue(queue, tensors, enqueue_many, keep_input):
    """An enqueue operation; what keep_input says no to is left out."""
    put = queue.enqueue_many if enqueue_many else queue.enqueue
    if keep_input is True:
        return put(tensors)
    keep = convert.convert_to_tensor(keep_input, dtypes.bool_)
    if keep.get_shape().ndims is None:
        raise ValueError("`keep_input` must have known rank.")
    if keep.get_shape().ndims == 1:
        if not enqueue_many:
            raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
        kept = array.reshape(array.where(keep), [-1])
        return put([array.gather(t, kept) for t in tensors])
    return control_flow.cond(keep, lambda: put(tensors), control_flow.no_op)


def _start(queue, elements, threads, enqueue_many, keep_input):
    """Its QueueRunner."""
    if len(elements) == 1:
        op = _enqueue(queue, elements[0].tensors, enqueue_many, keep_input)
        enqueue_ops = [op] * threads
    else:
        enqueue_ops = [_enqueue(queue, e.tensors, enqueue_many, keep_input) for e in elements]
    queue_runner.add_queue_runner(queue_runner.QueueRunner(queue, enqueue_ops))


def _batched(what, given, batch_size, make_queue, fullness, keep_input, threads, enqueue_many, given_shapes, smaller, name):
    """given: a list of elements, one a thread that joins, or a list of one element."""
    with ops.name_scope(name, what, []) as scope:
        elements = [_Element(g, enqueue_many) for g in given]
        if not elements:
            raise ValueError("Expected at least one set of tensors")
        if any(not e.same_as(elements[0]) for e in elements[1:]):
            raise TypeError("All of the sets of tensors to join must have the same keys and types")
        queue = make_queue([t.dtype.base_dtype for t in elements[0].tensors],
                           _element_shapes(elements, given_shapes, enqueue_many))
        _start(queue, elements, threads, enqueue_many, keep_input)
        label, value = fullness(queue)
        summary.scalar(label, value)
        taken = (queue.dequeue_up_to if smaller else queue.dequeue_many)(batch_size, name=scope)
        return elements[0].dense(taken if isinstance(taken, list) else [taken])


def _plain(what, given, batch_size, keep_input, threads, capacity, enqueue_many, given_shapes, dynamic_pad, smaller,
           shared_name, name):
    kind = data_flow.PaddingFIFOQueue if dynamic_pad else data_flow.FIFOQueue
    make = lambda types, shape_list: kind(capacity=capacity, dtypes=types, shapes=shape_list, shared_name=shared_name)
    fullness = lambda q: ("fraction_of_%d_full" % capacity, math.cast(q.size(), dtypes.float32) * (1.0 / capacity))
    return _batched(what, given, batch_size, make, fullness, keep_input, threads, enqueue_many, given_shapes, smaller, name)


def _shuffled(what, given, batch_size, capacity, min_after_dequeue, keep_input, threads, seed, enqueue_many, given_shapes,
              smaller,
              shared_name, name):
    if capacity <= min_after_dequeue:
        raise ValueError("capacity %d must be bigger than min_after_dequeue %d." % (capacity, min_after_dequeue))
    make = lambda types, shape_list: data_flow.RandomShuffleQueue(
        capacity=capacity, min_after_dequeue=min_after_dequeue, seed=seed, dtypes=types, shapes=shape_list,
        shared_name=shared_name)
    fullness = lambda q: ("fraction_over_%d_of_%d_full" % (min_after_dequeue, capacity),
                          math.cast(math.maximum(0, q.size() - min_after_dequeue), dtypes.float32) *
                          (1.0 / (capacity - min_after_dequeue)))
    return _batched(what, given, batch_size, make, fullness, keep_input, threads, enqueue_many, given_shapes, smaller, name)


def batch(tensors, batch_size, num_threads=1, capacity=32, enqueue_many=False, shapes=None, dynamic_pad=False,
          allow_smaller_final_batch=False, shared_name=None, name=None):
    """Returns batches of elements in their order, from a queue."""
    return _plain("batch", [tensors], batch_size, True, num_threads, capacity, enqueue_many, shapes, dynamic_pad,
                  allow_smaller_final_batch, shared_name, name)


def maybe_batch(tensors, keep_input, batch_size, num_threads=1, capacity=32, enqueue_many=False, shapes=None, dynamic_pad=False,
                allow_smaller_final_batch=False, shared_name=None, name=None):
    """Returns batches of the tensors for which keep_input is true; the other arguments are those of batch."""
    return _plain("maybe_batch", [tensors], batch_size, keep_input, num_threads, capacity, enqueue_many, shapes, dynamic_pad,
                  allow_smaller_final_batch, shared_name, name)


def batch_join(tensors_list, batch_size, capacity=32, enqueue_many=False, shapes=None, dynamic_pad=False,
               allow_smaller_final_batch=False, shared_name=None, name=None):
    """Returns batches of elements from several sources, one thread for each."""
    return _plain("batch_join", _list_of(tensors_list), batch_size, True, 1, capacity, enqueue_many, shapes, dynamic_pad,
                  allow_smaller_final_batch, shared_name, name)


def maybe_batch_join(tensors_list, keep_input, batch_size, capacity=32, enqueue_many=False, shapes=None, dynamic_pad=False,
                     allow_smaller_final_batch=False, shared_name=None, name=None):
    """Returns batches of the tensors for which keep_input is true; the other arguments are those of batch_join."""
    return _plain("maybe_batch_join", _list_of(tensors_list), batch_size, keep_input, 1, capacity, enqueue_many, shapes,
                  dynamic_pad,
                  allow_smaller_final_batch, shared_name, name)


def shuffle_batch(tensors, batch_size, capacity, min_after_dequeue, num_threads=1, seed=None, enqueue_many=False, shapes=None,
                  allow_smaller_final_batch=False, shared_name=None, name=None):
    """Returns batches of elements in random order, from a queue."""
    return _shuffled("shuffle_batch", [tensors], batch_size, capacity, min_after_dequeue, True, num_threads, seed, enqueue_many,
                     shapes, allow_smaller_final_batch, shared_name, name)


def maybe_shuffle_batch(tensors, batch_size, capacity, min_after_dequeue, keep_input, num_threads=1, seed=None,
                        enqueue_many=False,
                        shapes=None, allow_smaller_final_batch=False, shared_name=None, name=None):
    """Returns shuffled batches of the tensors for which keep_input is true; the other arguments are those of
    shuffle_batch."""
    return _shuffled("maybe_shuffle_batch", [tensors], batch_size, capacity, min_after_dequeue, keep_input, num_threads, seed,
                     enqueue_many, shapes, allow_smaller_final_batch, shared_name, name)


def shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue, seed=None, enqueue_many=False, shapes=None,
                       allow_smaller_final_batch=False, shared_name=None, name=None):
    """Returns shuffled batches of tensors from several sources, one thread for each.

    Args:
        tensors_list: a list of lists or dicts of tensors
        batch_size: the number of elements in a batch
        capacity: the largest number of elements in the queue
        min_after_dequeue: the number of elements that stay in the queue to be shuffled
        enqueue_many: whether the first dimension of the tensors holds several elements
        shapes: the shapes of an element, where they are not known
        allow_smaller_final_batch: whether the last batch may be smaller
    """
    return _shuffled("shuffle_batch_join", _list_of(tensors_list), batch_size, capacity, min_after_dequeue, True, 1, seed,
                     enqueue_many, shapes, allow_smaller_final_batch, shared_name, name)


def maybe_shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue, keep_input, seed=None, enqueue_many=False,
                             shapes=None, allow_smaller_final_batch=False, shared_name=None, name=None):
    """Returns shuffled batches of the tensors for which keep_input is true; the other arguments are those of
    shuffle_batch_join."""
    return _shuffled("maybe_shuffle_batch_join", _list_of(tensors_list), batch_size, capacity, min_after_dequeue, keep_input, 1,
                     seed,
                     enqueue_many, shapes, allow_smaller_final_batch, shared_name, name)


def _list_of(tensors_list):
    if not isinstance(tensors_list, (list, tuple)) or not tensors_list:
        raise ValueError("Expected a list of sets of tensors")
    return list(tensors_list)
