"""Names of devices, in parts: /job:worker/replica:0/task:1/device:GPU:0."""

import re


class DeviceSpec:
    """A device, or what is known of one: any part may be None."""

    def __init__(self, job=None, replica=None, task=None, device_type=None, device_index=None):
        self.job, self.replica, self.task = job, replica, task
        self.device_type = device_type.upper() if device_type in ("cpu", "gpu") else device_type
        self.device_index = device_index

    # The first slash may be missing ("cpu:0") or there twice, and the index of a device missing; only of these two kinds
    # may "device:" be missing.
    _PART = re.compile(r"/*(?:job:([^/]+)|replica:(\d+)|task:(\d+)"
                       r"|(?:device:([A-Za-z_][A-Za-z0-9_]*)|([cCgG][pP][uU]))(?::(\d+|\*))?)(?=/|$)")

    @classmethod
    def from_string(cls, spec):
        """Makes a DeviceSpec from a device name such as "/job:ps/task:1/device:CPU:0"."""
        return cls().parse_from_string(spec)

    def parse_from_string(self, spec):
        """Replaces all fields with those of a device name, and returns this object."""
        self.__init__()
        at = 0
        while at < len(spec):
            m = self._PART.match(spec, at)
            if not m or (m.lastindex > 3 and self.device_type):
                raise ValueError("Unknown attribute or more than one device type in device specification: '%s'" % spec)
            job, replica, task, kind, unit, index = m.groups()
            if job:
                self.job = job
            elif replica:
                self.replica = int(replica)
            elif task:
                self.task = int(task)
            else:
                kind = kind or unit
                self.device_type = kind.upper() if kind.lower() in ("cpu", "gpu") else kind
                self.device_index = None if index in (None, "*") else int(index)
            at = m.end()
        return self

    def merge_from(self, dev):
        """Sets the fields that are set in the other DeviceSpec."""
        for part in ("job", "replica", "task", "device_type", "device_index"):
            value = getattr(dev, part)
            if value is not None:
                setattr(self, part, value)

    def to_string(self):
        """Returns the device name, with the fields that are set."""
        parts = []
        for part, value in (("job", self.job), ("replica", self.replica), ("task", self.task)):
            if value is not None:
                parts.append("/%s:%s" % (part, value))
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            parts.append("/device:%s:%s" % (self.device_type, index))
        return "".join(parts)

    def __eq__(self, other):
        return isinstance(other, DeviceSpec) and self.to_string() == other.to_string()

    def __hash__(self):
        return hash(self.to_string())

    def __repr__(self):
        return "<DeviceSpec %r>" % self.to_string()


def canonical_name(device):
    """The name of a device in full form; "" for None."""
    if device is None:
        return ""
    if isinstance(device, DeviceSpec):
        return device.to_string()
    return DeviceSpec.from_string(device).to_string()


def merge_device(spec):
    """A device function that keeps what an operation has and takes the rest from spec."""
    if not isinstance(spec, DeviceSpec):
        spec = DeviceSpec.from_string(spec or "")

    def merged(device):
        result = DeviceSpec(spec.job, spec.replica, spec.task, spec.device_type, spec.device_index)
        result.merge_from(DeviceSpec.from_string(getattr(device, "device", device) or ""))
        return result.to_string()
    return merged


class local_device_setter:  # noqa: N801 -- reads like a function
    """A device function for programs of one process."""

    def __init__(self, job_device=""):
        self._device = job_device

    def __call__(self, op):
        return merge_device(self._device)(op)
