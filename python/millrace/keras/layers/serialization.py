"""Layers as configurations, and back."""

from ..utils import generic


def _names():
    from . import all_layers
    from ..engine import network, op_layers, sequential, training
    found = all_layers()
    found.update(Model=training.Model, Network=network.Network, Sequential=sequential.Sequential, InputLayer=network.InputLayer,
                 OpLayer=op_layers.OpLayer, BatchNormalizationV1=found["BatchNormalization"])
    return found


def serialize(layer):
    """Returns the class name and the config of a layer as a dict."""
    return {"class_name": type(layer).__name__, "config": layer.get_config()}


def deserialize(config, custom_objects=None):
    """Makes a layer from the result of serialize."""
    return generic.deserialize_keras_object(config, _names(), custom_objects, "layer")
