"""What TensorFlow's modules ask of tensorflow.python.eager.context: here operations always become nodes of a graph."""
import contextlib

EAGER_MODE, GRAPH_MODE = 1, 0


def executing_eagerly():
    """Returns False: operations are always added to a graph."""
    return False


in_eager_mode = executing_eagerly
enabled = executing_eagerly  # tensorflow.python.tf2: whether the behaviour of version 2 is on


def in_graph_mode():
    """Returns True: operations are always added to a graph."""
    return True


@contextlib.contextmanager
def graph_mode():
    """Returns a context manager that changes nothing: operations are always added to a graph."""
    yield


def eager_mode():
    """Raises NotImplementedError: there is no eager execution."""
    raise NotImplementedError("eager_mode: Millrace only supports the graphs and sessions of TensorFlow 1.x")


def num_gpus():
    """Returns the number of GPU devices of this process."""
    from .client import device_lib
    return sum(d.device_type == "GPU" for d in device_lib.list_local_devices())
