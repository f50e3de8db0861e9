"""Models, and their being read and written."""

from .engine.network import Input  # noqa: F401
from .engine.saving import load_model, model_from_config, model_from_json, model_from_yaml, save_model  # noqa: F401
from .engine.sequential import Sequential  # noqa: F401
from .engine.training import Model  # noqa: F401


def clone_model(model, input_tensors=None, clone_function=None):
    """A model of new layers that are like its own, with other weights."""
    from .engine import config as config_lib
    if not isinstance(model, Model):
        raise ValueError("Expected `model` argument to be a `Model` instance, got %s" % (model,))
    if clone_function is None and input_tensors is None:
        cls = Sequential if isinstance(model, Sequential) else Model
        return cls.from_config(model.get_config())
    return config_lib.clone(model, input_tensors, clone_function)
