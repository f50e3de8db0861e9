"""The devices of this process."""
from .. import protos
from ..framework import ops
from ..framework.session import Session


def list_local_devices(session_config=None):
    """A DeviceAttributes message for each."""
    with Session(graph=ops.Graph(), config=session_config) as session:
        devices = session.list_devices()
    return [_attributes(d) for d in devices]


def _attributes(d):
    task, _, kind = d.name.rpartition("/device:")
    m = protos.DeviceAttributes(name="/device:" + kind if task else d.name, device_type=d.device_type,
                                memory_limit=d.memory_limit_bytes, incarnation=d.incarnation & 0xFFFFFFFFFFFFFFFF)
    m.locality.SetInParent()
    if d.device_type == "GPU":
        m.physical_device_desc = "device: %s, name: OpenCL" % kind.rpartition(":")[2]
    return m
