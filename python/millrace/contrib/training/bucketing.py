"""Batches of elements of about the same size: each element goes to the queue of its bucket, and full batches to one queue."""

from ...framework import convert, dtypes, errors, ops, shapes
from ...ops import control_flow, data_flow, math
from ...train import input as train_input
from ...train import queue_runner
from ... import summary

__all__ = ["bucket", "bucket_by_sequence_length"]


def bucket(tensors, which_bucket, batch_size, num_buckets, num_threads=1, capacity=32, bucket_capacities=None, shapes=None,
           dynamic_pad=False, allow_smaller_final_batch=False, keep_input=True, shared_name=None, name=None):
    """(number of a bucket, a batch of its elements)"""
    sizes = list(batch_size) if isinstance(batch_size, (list, tuple)) else [batch_size] * num_buckets
    capacities = bucket_capacities or [capacity] * num_buckets
    if num_buckets < 2:
        raise ValueError("num_buckets must be >= 2")
    if len(sizes) != num_buckets:
        raise ValueError("If batch_size is a list it must have num_buckets elements")
    if len(capacities) != num_buckets:
        raise ValueError("The list of bucket_capacities must have num_buckets elements")
    with ops.name_scope(name, "bucket") as scope:
        element = train_input._Element(tensors, False)
        types = [t.dtype.base_dtype for t in element.tensors]
        part_shapes = train_input._element_shapes([element], shapes, False)
        kind = data_flow.PaddingFIFOQueue if dynamic_pad else data_flow.FIFOQueue
        queues = [kind(capacity=capacities[i], dtypes=types, shapes=part_shapes,
                       shared_name=None if shared_name is None else "%s_%d" % (shared_name, i), name="bucket_queue_%d" % i)
                  for i in range(num_buckets)]
        top = data_flow.FIFOQueue(capacity=capacity, dtypes=[dtypes.int32] + types, shared_name=shared_name, name="top_queue")
        _fill(queues, element.tensors, which_bucket, keep_input, num_threads)
        _gather(queues, top, sizes, allow_smaller_final_batch)
        for q in queues:
            summary.scalar("bucket/%s/size" % q.name, math.cast(q.size(), dtypes.float32))
        summary.scalar("bucket/fraction_of_%d_full" % capacity, math.cast(top.size(), dtypes.float32) * (1.0 / capacity))
        taken = top.dequeue(name=scope)
        size = None
        if not allow_smaller_final_batch and len(set(sizes)) == 1:
            size = convert.constant_value(convert.convert_to_tensor(sizes[0]))
        for t, shape in zip(taken[1:], part_shapes):
            t.set_shape(_batch_shape(size, shape))
        return taken[0], element.dense(taken[1:])


def _batch_shape(size, shape):
    return shapes.TensorShape([None if size is None else int(size)]).concatenate(shape)


def _fill(queues, tensors, which_bucket, keep_input, threads):
    """Threads that put elements into the queues of their buckets."""
    def put():
        return control_flow.group(*[control_flow.cond(math.equal(which_bucket, i), lambda q=q: q.enqueue(tensors),
                                                      control_flow.no_op)
                                    for i, q in enumerate(queues)], name="group_enqueue")
    if keep_input is not True:
        enqueue = control_flow.cond(convert.convert_to_tensor(keep_input, dtypes.bool_), put, control_flow.no_op)
    else:
        enqueue = put()
    queue_runner.add_queue_runner(queue_runner.QueueRunner(
        queues[0], [enqueue] * threads, close_op=control_flow.group(*[q.close() for q in queues]),
        cancel_op=control_flow.group(*[q.close(cancel_pending_enqueues=True) for q in queues]),
        queue_closed_exception_types=(errors.OutOfRangeError, errors.CancelledError)))


def _gather(queues, top, sizes, smaller):
    """Threads that put batches into the top queue."""
    moves = []
    for i, (q, size) in enumerate(zip(queues, sizes)):
        batch = (q.dequeue_up_to if smaller else q.dequeue_many)(size, name="read_bucket_%d" % i)
        batch = batch if isinstance(batch, list) else [batch]
        moves.append(top.enqueue([convert.constant(i, dtypes.int32)] + batch, name="enqueue_from_bucket_%d" % i))
    queue_runner.add_queue_runner(queue_runner.QueueRunner(
        top, moves, close_op=top.close(), cancel_op=top.close(cancel_pending_enqueues=True),
        queue_closed_exception_types=(errors.OutOfRangeError, errors.CancelledError)))


def bucket_by_sequence_length(input_length, tensors, batch_size, bucket_boundaries, num_threads=1, capacity=32,
                              bucket_capacities=None, shapes=None, dynamic_pad=False, allow_smaller_final_batch=False,
                              keep_input=True, shared_name=None, name=None):
    """(lengths, a batch) of elements whose lengths lie between the same boundaries."""
    if not bucket_boundaries:
        raise ValueError("bucket_boundaries must not be empty")
    bounds = list(bucket_boundaries)
    if any(not isinstance(b, int) for b in bounds):
        raise TypeError("bucket boundaries must be integers")
    if any(a >= b for a, b in zip(bounds, bounds[1:])):
        raise ValueError("Buckets must contain sequential increasing lengths")
    with ops.name_scope(name, "bucket_by_sequence_length"):
        length = math.cast(input_length, dtypes.int32)
        which = math.reduce_sum(math.cast(math.greater_equal(length, bounds), dtypes.int32))
        is_dict = isinstance(tensors, dict)
        parts = dict(tensors) if is_dict else list(tensors)
        if is_dict:
            keys = sorted(parts)
            together = [length] + [parts[k] for k in keys]
        else:
            together = [length] + parts
        part_shapes = None if shapes is None else [[]] + list(shapes)
        _, out = bucket(together, which, batch_size, len(bounds) + 1, num_threads, capacity, bucket_capacities, part_shapes,
                        dynamic_pad, allow_smaller_final_batch, keep_input, shared_name)
        return out[0], dict(zip(keys, out[1:])) if is_dict else out[1:]
