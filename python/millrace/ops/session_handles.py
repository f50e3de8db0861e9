"""Tensors that stay in a session between runs: tf.get_session_handle and its kin.

    h = sess.run(tf.get_session_handle(c))                      a TensorHandle, the tensor stays where it is
    holder, x = tf.get_session_tensor(h.handle, tf.float32)     x is that tensor when holder is fed with a handle
    sess.run(tf.multiply(x, 10), {holder: h.handle})
    sess.run(d, {c: h})                                         a TensorHandle may also be fed in place of a value

A handle is the text "operation;number;device".  The tensor is deleted when its TensorHandle is, a few at a time.
"""

from ..framework import device as device_lib, dtypes, ops
from ..framework.op_defs import call
from . import array

__all__ = ["TensorHandle", "delete_session_tensor", "get_session_handle", "get_session_tensor"]


class TensorHandle:
    """A tensor that is kept in a session.  Deleting the object deletes the tensor, unless get_raw_handle was called."""

    def __init__(self, handle, dtype, session):
        self._handle = handle.decode() if isinstance(handle, bytes) else str(handle)
        self._dtype, self._session, self._owns = dtype, session, True

    def __del__(self):
        if getattr(self, "_owns", False):
            self._session._register_dead_handle(self._handle)

    def __str__(self):
        return self._handle

    @property
    def handle(self):
        return self._handle

    def eval(self):
        """The value of the tensor."""
        self._check_alive()
        holder, value = _reader(self._session.graph, self._handle, self._dtype)
        return self._session.run(value, {holder: self._handle})

    def delete(self):
        self._check_alive()
        self._owns = False
        holder, deletion = deleter(self._session.graph, 0, self._handle)
        self._session.run(deletion, {holder: self._handle})

    def get_raw_handle(self):
        """The text of the handle; from now on the caller deletes the tensor."""
        self._owns = False
        return self._handle

    def _check_alive(self):
        if not self._owns:
            raise TypeError("Persistent tensor %s may have already been deleted." % self._handle)


def get_session_handle(data, name=None):
    """A string that identifies the tensor, which stays in the session; a run returns it as a TensorHandle."""
    if not isinstance(data, ops.Tensor):
        raise TypeError("`data` must be of type Tensor.")
    with ops.colocate_with(data):
        return call("GetSessionHandle", name, value=data)


def get_session_tensor(handle, dtype, name=None):
    """Returns (placeholder of a handle, the tensor that it identifies). `handle` is an example; only its device is used."""
    with ops.device(_device_of(handle)):
        holder = array.placeholder(dtypes.string)
        holder.graph._handle_feeders[holder] = dtypes.as_dtype(dtype)
        return holder, call("GetSessionTensor", name, handle=holder, dtype=dtype)


def delete_session_tensor(handle, name=None):
    """(placeholder of a handle, operation that deletes its tensor)"""
    with ops.device(_device_of(handle)):
        holder = array.placeholder(dtypes.string)
        return holder, call("DeleteSessionTensor", name, handle=holder)


def _device_of(handle):
    text = handle.decode() if isinstance(handle, bytes) else str(handle)
    return device_lib.canonical_name(text.split(";")[-1])


# ---- operations that sessions need for handles; each graph has them once ----

def _reader(graph, handle, dtype):
    """What reads tensors of the handle's operation and device."""
    parts = str(handle).split(";")
    key = "read", parts[0], parts[-1]
    if key not in graph._handle_operations:
        with graph.as_default():
            graph._handle_operations[key] = get_session_tensor(handle, dtype)
    return graph._handle_operations[key]


def deleter(graph, number, handle):
    """One of several that may run together: a run can feed each of them one handle."""
    key = "delete", number, _device_of(handle)
    if key not in graph._handle_operations:
        with graph.as_default():
            graph._handle_operations[key] = delete_session_tensor(handle)
    return graph._handle_operations[key]


def mover(graph, holder, handle):
    """(placeholder, handle of a copy on the device of holder), or None where the handle's tensor is there already."""
    device = _device_of(handle)
    if holder.device == device:
        return None
    key = "move", holder, device, str(handle).split(";")[0]
    if key not in graph._handle_operations:
        source, value = _reader(graph, handle, graph._handle_feeders[holder])
        with graph.as_default(), graph.device(holder.device):
            graph._handle_operations[key] = source, call("GetSessionHandle", None, value=value)
    return graph._handle_operations[key]
