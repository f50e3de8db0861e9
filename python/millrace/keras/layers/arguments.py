"""Arguments that many layers have, in the forms they may be given in."""

from .. import activations, constraints, initializers, regularizers
from .. import backend as K

_GETTERS = (("activation", activations.get), ("activations", activations.get), ("initializer", initializers.get),
            ("regularizer", regularizers.get), ("constraint", constraints.get))


def resolved(**given):
    """Names and configurations as the objects they mean, by how the argument ends."""
    for name, value in given.items():
        for ending, get in _GETTERS:
            if name.endswith(ending):
                given[name] = get(value)
    return given


def data_format(value):
    """Returns "channels_first" or "channels_last"; None takes the default, other values are a ValueError."""
    value = value or K.image_data_format()
    if value not in ("channels_first", "channels_last"):
        raise ValueError('The `data_format` argument must be one of "channels_first", "channels_last". Received: ' + str(value))
    return value
