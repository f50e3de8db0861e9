"""Collective operations: computations of the members of a group, each on its own device."""

from ..framework import convert, shapes
from ..framework.op_defs import raw

__all__ = ["all_reduce", "all_gather", "broadcast_send", "broadcast_recv"]


def _check_size(group_size, least, called):
    if group_size < least:
        raise ValueError("Parameter group_size to %s must be at least %d.  Received: %s" % (called, least, group_size))


def all_reduce(t, group_size, group_key, instance_key, merge_op, final_op, subdiv_offsets=(0,), communication_hint="auto",
               timeout=0):
    """The tensors of all members merged ('Add', 'Mul', 'Max', 'Min'), then as they are ('Id') or divided by the size ('Div')."""
    _check_size(group_size, 1, "all_reduce")
    return raw.collective_reduce(t, group_size=group_size, group_key=group_key, instance_key=instance_key, merge_op=merge_op,
                                 final_op=final_op, subdiv_offsets=list(subdiv_offsets), communication_hint=communication_hint,
                                 timeout_seconds=timeout)


def all_gather(t, group_size, group_key, instance_key, communication_hint="auto", timeout=0):
    """The tensors of all members, one behind the other along dimension 0."""
    _check_size(group_size, 1, "all_gather")
    t = convert.convert_to_tensor(t)
    shape = shapes.TensorShape(None)
    if t.shape.ndims:
        dims = t.shape.as_list()
        shape = shapes.TensorShape([None if dims[0] is None else dims[0] * group_size] + dims[1:])
    return raw.collective_gather(t, shape=shape, group_size=group_size, group_key=group_key, instance_key=instance_key,
                                 communication_hint=communication_hint, timeout_seconds=timeout)


def broadcast_send(t, shape, dtype, group_size, group_key, instance_key, communication_hint="auto", timeout=0):
    """Gives a tensor to all members."""
    _check_size(group_size, 2, "broadcast_send")
    t = convert.convert_to_tensor(t)
    if t.shape._tuple() != shapes.TensorShape(shape)._tuple():
        raise ValueError("Shape of broadcast_send tensor %s not equal to declared shape %s" % (t.shape, shape))
    if t.dtype != dtype:
        raise ValueError("Type of broadcast_send tensor %s not equal to declared type %s" % (t.dtype, dtype))
    return raw.collective_bcast_send(t, shape=shape, group_size=group_size, group_key=group_key, instance_key=instance_key,
                                     communication_hint=communication_hint, timeout_seconds=timeout)


def broadcast_recv(shape, dtype, group_size, group_key, instance_key, communication_hint="auto", timeout=0):
    """The tensor that another member gives."""
    _check_size(group_size, 2, "broadcast_recv")
    t = raw.collective_bcast_recv(T=dtype, shape=shape, group_size=group_size, group_key=group_key, instance_key=instance_key,
                                  communication_hint=communication_hint, timeout_seconds=timeout)
    t.set_shape(shape)
    return t
