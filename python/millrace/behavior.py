"""Switches between the behaviour of 1.x and 2.x.  Only that of 1.x is here: asking for it is free, for the other an error."""

__all__ = ["disable_v2_behavior", "disable_eager_execution", "disable_v2_tensorshape",
           "disable_control_flow_v2", "disable_tensor_equality", "enable_eager_execution", "enable_v2_behavior",
           "enable_v2_tensorshape", "enable_control_flow_v2", "enable_tensor_equality", "executing_eagerly",
           "control_flow_v2_enabled"]


_ONLY_GRAPHS = "tf.%s: Millrace has the graphs and sessions of TensorFlow 1.x only"


def _free(name):
    def switch():
        return None
    switch.__name__ = switch.__qualname__ = name
    switch.__doc__ = "Does nothing: this is how the package behaves already."
    return switch


def _refused(name):
    def switch():
        raise NotImplementedError(_ONLY_GRAPHS % name)
    switch.__name__ = switch.__qualname__ = name
    switch.__doc__ = "Raises NotImplementedError: there are only the graphs and sessions of TensorFlow 1.x."
    return switch


for _name in __all__:
    if _name.startswith(("disable_", "enable_")):
        globals()[_name] = (_free if _name.startswith("disable_") else _refused)(_name)


def enable_eager_execution(config=None, device_policy=None, execution_mode=None):
    """Raises NotImplementedError: there are only the graphs and sessions of TensorFlow 1.x."""
    raise NotImplementedError(_ONLY_GRAPHS % "enable_eager_execution")


def executing_eagerly():
    """Returns False: operations are always added to a graph."""
    return False


def control_flow_v2_enabled():
    """Returns False: loops and conditions are those of TensorFlow 1.x."""
    return False
