"""The table of a model's layers."""

import numpy as np

from ..engine.network import Network


def count_params(weights):
    """Returns the number of elements of different variables."""
    return int(sum(np.prod(w.shape.as_list()) for w in {id(w): w for w in weights}.values()))


def _is_row(model):
    """Whether each layer has one input and one output, so that a column of connections would say nothing."""
    if type(model).__name__ == "Sequential" or not model._is_graph_network:
        return True
    depths = [n for n in model._nodes if len(n.keras_inputs) > 1]
    return not depths and len(model.inputs) == 1 and len(model.outputs) == 1 and all(
        len([n for n in layer._inbound_nodes if any(n is x for x in model._nodes)]) == 1
        for layer in model._model_layers) and len(
        model._nodes) == len(model._model_layers) and _in_line(model)


def _in_line(model):
    return all(any(p is before for p in node.parents) for before, node in zip(model._nodes, model._nodes[1:]))


def print_summary(model, line_length=None, positions=None, print_fn=None):
    """Prints a table of the layers of a model with output shapes and numbers of weights."""
    print_fn = print_fn or print
    row = _is_row(model)
    line_length = line_length or (65 if row else 98)
    positions = positions or ([.45, .85, 1.] if row else [.33, .55, .67, 1.])
    if positions[-1] <= 1:
        positions = [int(line_length * p) for p in positions]

    def line(fields):
        text = ""
        for i, f in enumerate(fields):
            text = (text[:-1] + " " if i else "") + str(f)
            text = text[:positions[i]].ljust(positions[i])
        print_fn(text)

    print_fn('Model: "%s"' % model.name)
    print_fn("_" * line_length)
    line(["Layer (type)", "Output Shape", "Param #"] + ([] if row else ["Connected to"]))
    print_fn("=" * line_length)
    layers = model.layers
    for i, layer in enumerate(layers):
        _print_layer(layer, None if row else model, line)
        print_fn(("=" if i == len(layers) - 1 else "_") * line_length)
    trainable = count_params(model.trainable_weights)
    fixed = count_params(model.non_trainable_weights)
    print_fn("Total params: {:,}".format(trainable + fixed))
    print_fn("Trainable params: {:,}".format(trainable))
    print_fn("Non-trainable params: {:,}".format(fixed))
    print_fn("_" * line_length)


def _output_shape(layer):
    if isinstance(layer, Network) and layer.outputs is not None:
        return layer.output_shape
    try:
        shape = layer.output_shape
    except AttributeError:
        return "multiple"
    except RuntimeError:
        return "?"
    return [shape] if type(layer).__name__ == "InputLayer" else shape


def _print_layer(layer, model, line):
    params = layer.count_params() if layer.built or isinstance(layer, Network) else "0 (unused)"
    fields = ["%s (%s)" % (layer.name, type(layer).__name__), str(_output_shape(layer)), params]
    if model is None:
        line(fields)
        return
    inside = [n for n in layer._inbound_nodes if any(n is x for x in model._nodes)]
    links = ["%s[%d][%d]" % (t._keras_history.layer.name, t._keras_history.node_index, t._keras_history.tensor_index)
             for n in inside for t in n.keras_inputs]
    line(fields + [links[0] if links else ""])
    for link in links[1:]:
        line(["", "", "", link])


def get_source_inputs(tensor, layer=None, node_index=None):
    """The inputs that a tensor depends on."""
    layer, node_index = layer or tensor._keras_history.layer, node_index or tensor._keras_history.node_index
    node = layer._inbound_nodes[node_index]
    if not node.keras_inputs or node.keras_inputs[0] in node.output_tensors:
        return list(node.output_tensors)
    found = [s for t in node.keras_inputs for s in get_source_inputs(t)]
    return list({id(t): t for t in found}.values())


