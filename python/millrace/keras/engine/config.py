"""Graphs of calls as configurations, and back."""

from ...framework import nest
from ..utils import generic
from .base_layer import Layer


def _places(network):
    """{call: its number among those of its layer that are the network's}"""
    counts, numbers = {}, {}
    inside = set(map(id, network._nodes))
    for layer in network._model_layers:
        for node in layer._inbound_nodes:
            if id(node) in inside:
                numbers[id(node)] = counts.get(layer, 0)
                counts[layer] = counts.get(layer, 0) + 1
    return numbers


def _where(tensor, numbers):
    layer, index, at = tensor._keras_history
    return [layer.name, numbers[id(layer._inbound_nodes[index])], at]


def of_network(network):
    """{"name", "layers", "input_layers", "output_layers"}"""
    numbers, layers = _places(network), []
    for layer in network._model_layers:
        calls = []
        for node in layer._inbound_nodes:
            if id(node) in numbers and not (node.keras_inputs and node.keras_inputs[0] in node.output_tensors):
                kwargs = {k: _encoded(v, numbers) for k, v in node.kwargs.items() if v is not None}
                calls.append([_where(t, numbers) + [kwargs] for t in node.input_tensors if hasattr(t, "_keras_history")])
        layers.append({"name": layer.name, "class_name": type(layer).__name__, "config": layer.get_config(),
                       "inbound_nodes": calls})
    return {"name": network.name, "layers": layers, "input_layers": [_where(t, numbers) for t in network.inputs],
            "output_layers": [_where(t, numbers) for t in network.outputs]}


def _encoded(value, numbers):
    """Arguments that are tensors of Keras stand as where they come from."""
    if hasattr(value, "_keras_history"):
        return {"keras_tensor": _where(value, numbers)}
    if isinstance(value, (list, tuple)):
        return [_encoded(v, numbers) for v in value]
    return generic.plain(value)


def _decoded(value, tensor_at):
    if isinstance(value, dict) and set(value) == {"keras_tensor"}:
        return tensor_at(value["keras_tensor"])
    if isinstance(value, list):
        return [_decoded(v, tensor_at) for v in value]
    return value


class _NotYet(Exception):
    """A call needs the outcome of one that is still to come."""


def to_network(cls, config, custom_objects=None):
    from ..layers import serialization
    made, waiting = {}, []
    for data in config["layers"]:
        layer = serialization.deserialize(data, custom_objects=custom_objects)
        made[data["name"]] = layer
        waiting += [(layer, i, call) for i, call in enumerate(data["inbound_nodes"])]
    first = {name: len(layer._inbound_nodes) for name, layer in made.items()}

    def tensor_at(place):
        layer, index = made[place[0]], place[1]
        nodes = layer._inbound_nodes
        # A model that is a layer may have been called before; an input has its one call already.
        at = index + (first[place[0]] if isinstance(layer, Layer) and not _is_input(layer) else 0)
        if at >= len(nodes):
            raise _NotYet
        return nodes[at].output_tensors[place[2]]

    while waiting:
        left = []
        blocked = set()
        for layer, i, call in waiting:
            try:
                if id(layer) in blocked:
                    raise _NotYet
                inputs = [tensor_at(place[:3]) for place in call]
                kwargs = {k: _decoded(v, tensor_at) for k, v in (call[0][3] if len(call[0]) > 3 else {}).items()}
                layer(generic.unpack_singleton(inputs), **kwargs)
            except _NotYet:
                blocked.add(id(layer))
                left.append((layer, i, call))
        if len(left) == len(waiting):
            raise ValueError("The calls of the configuration depend on each other in a cycle: %s" % [x[0].name for x in left])
        waiting = left
    inputs = [tensor_at(p) for p in config["input_layers"]]
    outputs = [tensor_at(p) for p in config["output_layers"]]
    return cls(inputs=generic.unpack_singleton(inputs), outputs=generic.unpack_singleton(nest.flatten(outputs)),
               name=config.get("name"))


def _is_input(layer):
    from .network import InputLayer
    return isinstance(layer, InputLayer)


def clone(model, input_tensors=None, clone_function=None):
    """A model with new layers, made by the function or by their configurations, on other inputs if they are given."""
    from .network import Input, InputLayer
    make = clone_function or (lambda layer: type(layer).from_config(layer.get_config()))
    if not model._is_graph_network:
        raise ValueError("A subclassed model cannot be cloned")
    fresh = {layer: make(layer) for layer in model._model_layers if not isinstance(layer, InputLayer)}
    given = nest.flatten(input_tensors) if input_tensors is not None else [
        Input(batch_shape=tuple(t.shape.as_list()), dtype=t.dtype.base_dtype.name, name=name)
        for t, name in zip(model.inputs, model.input_names)]
    inputs = [t if hasattr(t, "_keras_history") else Input(tensor=t) for t in given]
    values = {id(old): new for old, new in zip(model.inputs, inputs)}
    for node in model._nodes:
        if isinstance(node.layer, InputLayer):
            continue
        swap = lambda x: values.get(id(x), x)
        out = fresh[node.layer](*nest.map_structure(swap, node.args), **nest.map_structure(swap, node.kwargs))
        values.update((id(a), b) for a, b in zip(node.output_tensors, nest.flatten(out)))
    outputs = [values[id(t)] for t in model.outputs]
    cls = type(model) if type(model).__name__ == "Model" else _model_class()
    return cls(generic.unpack_singleton(inputs), generic.unpack_singleton(outputs), name=model.name)


def _model_class():
    from .training import Model
    return Model
