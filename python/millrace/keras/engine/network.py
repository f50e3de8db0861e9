"""Input, and Network: layers put together, by a graph of calls from inputs to outputs or by a method of a class.

The layers of a graph of calls are in the order of their depth, that is of the longest way to an output, deepest first; their
weights, the summary and the configuration follow that order.
"""

import json

import numpy as np

import millrace as tf

from ...framework import dtypes, nest, ops, shapes
from .. import backend as K
from ..utils import generic
from . import base_layer
from .base_layer import Layer


class InputLayer(Layer):
    """The first layer of a model: a placeholder, or a given tensor."""

    def __init__(self, input_shape=None, batch_size=None, dtype=None, input_tensor=None, sparse=False, name=None, **kwargs):
        batch_input_shape = kwargs.pop("batch_input_shape", None)
        if kwargs:
            raise ValueError("Unrecognized keyword arguments: %s" % list(kwargs))
        if batch_input_shape is not None:
            batch_size, input_shape = batch_input_shape[0], tuple(batch_input_shape[1:])
        if isinstance(input_shape, shapes.TensorShape):
            input_shape = tuple(input_shape.as_list())
        elif isinstance(input_shape, int):
            input_shape = (input_shape,)
        if dtype is None:
            dtype = K.floatx() if input_tensor is None else K.dtype(input_tensor)
        elif input_tensor is not None and dtypes.as_dtype(dtype) != input_tensor.dtype.base_dtype:
            raise ValueError("`input_tensor.dtype` differs from `dtype`: %s vs. %s" % (input_tensor.dtype, dtype))
        super().__init__(name=name or "input_%d" % K.get_uid("input"), dtype=dtype)
        self.built, self.sparse, self.batch_size, self.supports_masking = True, sparse, batch_size, True
        self.is_placeholder = input_tensor is None
        if input_tensor is None:
            size = (batch_size,) + tuple(input_shape) if input_shape is not None else None
            with ops.name_scope(None):
                input_tensor = K.placeholder(size, dtype=self.dtype, sparse=sparse, name=self.name)
        self._batch_input_shape = K.int_shape(input_tensor)
        input_tensor._keras_input, input_tensor._keras_mask = True, None
        base_layer.Node(self, (input_tensor,), {}, input_tensor)

    def get_config(self):
        return {"batch_input_shape": self._batch_input_shape, "dtype": self.dtype, "sparse": self.sparse, "name": self.name}


def Input(shape=None, batch_size=None, name=None, dtype=None, sparse=False, tensor=None, **kwargs):  # noqa: N802
    """A tensor that a model begins with."""
    batch_shape = kwargs.pop("batch_shape", kwargs.pop("batch_input_shape", None))
    if kwargs:
        raise ValueError("Unrecognized keyword arguments: %s" % list(kwargs))
    if batch_shape is not None:
        if shape is not None:
            raise ValueError("Only provide the `shape` OR `batch_shape` argument to Input, not both at the same time.")
        batch_size, shape = batch_shape[0], tuple(batch_shape[1:])
    if shape is None and tensor is None:
        raise ValueError("Please provide to Input either a `shape` or a `tensor` argument. Note that `shape` does not include "
                         "the batch dimension.")
    layer = InputLayer(input_shape=shape, batch_size=batch_size, name=name, dtype=dtype, sparse=sparse, input_tensor=tensor)
    return layer._inbound_nodes[0].output_tensors[0]


# ---- the graph of calls ----

def _sorted_nodes(outputs):
    """All calls that lead to the outputs, each after those it needs; and the layers in the order of their being met."""
    done, order, met, path = set(), [], {}, set()

    def visit(tensor):
        layer, index, _ = tensor._keras_history
        node = layer._inbound_nodes[index]
        if node in path:
            raise ValueError("The tensor %s at layer %r is part of a cycle." % (tensor, layer.name))
        if node in done:
            return
        met.setdefault(layer, len(met))
        path.add(node)
        for t in node.keras_inputs:
            if t is not tensor:
                visit(t)
        path.discard(node)
        done.add(node)
        order.append(node)

    for t in outputs:
        visit(t)
    return order, met


def _depths(order):
    """{node: how far it is from the outputs}, {layer: the same of its deepest call}"""
    nodes, layers = {}, {}
    for node in reversed(order):
        depth = max(nodes.setdefault(node, 0), layers.get(node.layer, 0))
        nodes[node] = layers[node.layer] = depth
        for parent in node.parents:
            if parent is not node:
                nodes[parent] = max(depth + 1, nodes.get(parent, 0))
    return nodes, layers


def _map_graph(inputs, outputs):
    """(nodes by depth, layers by depth)"""
    order, met = _sorted_nodes(outputs)
    node_depths, layer_depths = _depths(order)
    for t in inputs:
        layer = t._keras_history.layer
        if layer not in layer_depths:
            layer_depths[layer], met[layer] = 0, -1
            node_depths[layer._inbound_nodes[t._keras_history.node_index]] = 0
    layers = sorted(layer_depths, key=lambda x: (-layer_depths[x], met[x]))
    place = {n: i for i, n in enumerate(order)}
    nodes = sorted(node_depths, key=lambda n: (-node_depths[n], place.get(n, -1)))
    _check_connected(inputs, nodes)
    names = [layer.name for layer in layers]
    for name in names:
        if names.count(name) != 1:
            raise ValueError('The name "%s" is used %d times in the model. All layer names should be unique.' %
                             (name, names.count(name)))
    return nodes, layers


def _check_connected(inputs, nodes):
    there, passed = {id(t) for t in inputs}, []
    for node in nodes:
        own = isinstance(node.layer, InputLayer) or any(id(t) in there for t in node.output_tensors)
        for t in [] if own else node.keras_inputs:
            if id(t) not in there:
                raise ValueError('Graph disconnected: cannot obtain value for tensor %s at layer "%s". The following previous '
                                 "layers were accessed without issue: %s" % (t, node.layer.name, passed))
        if isinstance(node.layer, InputLayer) and not any(id(t) in there for t in node.output_tensors):
            continue
        there.update(id(t) for t in node.output_tensors)
        passed.append(node.layer.name)


class Network(Layer):
    """Layers put together."""

    def __init__(self, *args, **kwargs):
        inputs = kwargs.pop("inputs", kwargs.pop("input", None))
        outputs = kwargs.pop("outputs", kwargs.pop("output", None))
        args = list(args)
        if args and inputs is None and len(args) >= 2:
            inputs, outputs = args.pop(0), args.pop(0)
        elif args and inputs is not None and outputs is None:
            outputs = args.pop(0)
        if args:
            kwargs.setdefault("name", args.pop(0))
        self._model_layers, self._nodes = [], None
        self.inputs = self.outputs = None
        super().__init__(**kwargs)
        self._graph = ops.get_default_graph()
        if inputs is not None:
            self._init_graph(inputs, outputs)

    def _init_graph(self, inputs, outputs):
        from . import op_layers
        flat_in, flat_out = nest.flatten(inputs), nest.flatten(outputs)
        op_layers.give_history(flat_out)
        for t in flat_in + flat_out:
            if not hasattr(t, "_keras_history"):
                raise ValueError("%s tensors to a %s must be the output of a TensorFlow `Layer` (thus holding past layer "
                                 "metadata). Found: %s" %
                                 ("Input" if any(t is x for x in flat_in) else "Output", type(self).__name__, t))
        if len({id(t) for t in flat_in}) != len(flat_in):
            raise ValueError("The list of inputs passed to the model is redundant. All inputs should only appear once. Found: "
                             "%s" % flat_in)
        self._graph = ops.graph_of(flat_in)
        self.inputs, self.outputs = flat_in, flat_out
        self._nested_inputs, self._nested_outputs = inputs, outputs
        self._nodes, self._model_layers = _map_graph(flat_in, flat_out)
        self._set_names()
        self.built = True
        self._is_graph_network = True
        self.supports_masking = True

    def _set_names(self):
        self.input_names = [t._keras_history.layer.name for t in self.inputs]
        names, self.output_names = [t._keras_history.layer.name for t in self.outputs], []
        for name in names:  # a layer may give several outputs
            n = self.output_names.count(name) + sum(x.startswith(name + "_") and x[len(name) + 1:].isdigit()
                                                    for x in self.output_names)
            self.output_names.append(name if names.count(name) == 1 or n == 0 else "%s_%d" % (name, n))

    _is_graph_network = False

    def _sublayers(self):
        return base_layer._unique(self._model_layers + super()._sublayers())

    # ---- layers and weights ----

    @property
    def layers(self):
        """The layers of the network."""
        return list(self._sublayers())

    @property
    def weights(self):
        """The weights of all layers."""
        own = self._trainable_weights + self._non_trainable_weights
        return base_layer._unique([w for layer in self._sublayers() for w in layer.weights] + own)

    @property
    def stateful(self):
        """Whether any layer keeps its state between batches."""
        return any(getattr(x, "stateful", False) for x in self._sublayers())

    @stateful.setter
    def stateful(self, value):
        pass  # it is what its layers are

    @property
    def state_updates(self):
        """The updates that keep the states of layers from one batch to the next."""
        found = []
        for layer in self._sublayers():
            if getattr(layer, "stateful", False):
                found += layer.state_updates if isinstance(layer, Network) else layer.updates
        return found

    @property
    def input_spec(self):
        """What is known of the shape and type of the inputs, or None."""
        return self.__dict__.get("_input_spec")

    @input_spec.setter
    def input_spec(self, value):
        self.__dict__["_input_spec"] = value

    def reset_states(self):
        """Resets the state of all stateful layers."""
        for layer in self._sublayers():
            if hasattr(layer, "reset_states") and getattr(layer, "stateful", False):
                layer.reset_states()

    def get_layer(self, name=None, index=None):
        """Returns the layer with this name or at this index."""
        layers = self.layers
        if index is not None:
            if len(layers) <= index:
                raise ValueError("Was asked to retrieve layer at index %s but model only has %d layers." % (index, len(layers)))
            return layers[index]
        if not name:
            raise ValueError("Provide either a layer name or layer index.")
        for layer in layers:
            if layer.name == name:
                return layer
        raise ValueError("No such layer: " + name)

    def set_weights(self, weights):
        """Sets the weights of all layers to a list of arrays, in the order of weights."""
        pairs, weights = [], list(weights)
        if len(weights) != len(self.weights):
            raise ValueError('You called `set_weights(weights)` on layer "%s" with a  weight list of length %d, but the layer '
                             "was expecting %d weights." % (self.name, len(weights), len(self.weights)))
        for v, value in zip(self.weights, weights):
            if not v.shape.is_compatible_with(np.shape(value)):
                raise ValueError("Layer weight shape %s not compatible with provided weight shape %s" %
                                 (v.shape, np.shape(value)))
            pairs.append((v, value))
        with self._graph.as_default():
            K.batch_set_value(pairs)

    def get_weights(self):
        with self._graph.as_default():
            return K.batch_get_value(self.weights)

    # ---- calling ----

    input = property(lambda self: generic.unpack_singleton(self.inputs) if self.inputs is not None
                     else Layer.input.fget(self), doc="The input, or the list of inputs.")
    output = property(lambda self: generic.unpack_singleton(self.outputs) if self.outputs is not None
                      else Layer.output.fget(self), doc="The output, or the list of outputs.")
    input_shape = property(lambda self: generic.unpack_singleton([K.int_shape(t) for t in self.inputs]),
                           doc="The shape of the input, or a list of shapes.")
    output_shape = property(lambda self: generic.unpack_singleton([K.int_shape(t) for t in self.outputs]),
                            doc="The shape of the output, or a list of shapes.")

    def build(self, input_shape=None):
        self.built = True

    def call(self, inputs, training=None, mask=None):
        """The outputs for other inputs, by the same layers."""
        if not self._is_graph_network:
            raise NotImplementedError("When subclassing the `Model` class, you should implement a `call` method.")
        flat = nest.flatten(inputs)
        if len(flat) != len(self.inputs):
            raise ValueError("Model %s expects %d inputs, got %d" % (self.name, len(self.inputs), len(flat)))
        masks = mask if isinstance(mask, (list, tuple)) else [mask] * len(flat)
        for t, m in zip(flat, masks):
            if m is not None:
                t._keras_mask = m
        values = {id(t): new for t, new in zip(self.inputs, flat)}
        for node in self._nodes:
            if all(id(t) in values for t in node.output_tensors) or isinstance(node.layer, InputLayer):
                continue
            self._repeat(node, values, training)
        return nest.map_structure(lambda t: values[id(t)], self._nested_outputs)

    @staticmethod
    def _repeat(node, values, training):
        swap = lambda x: values.get(id(x), x)
        args, kwargs = nest.map_structure(swap, node.args), nest.map_structure(swap, node.kwargs)
        if training is not None and base_layer._accepts(node.layer, "training"):
            kwargs.setdefault("training", training)
        if "mask" in kwargs and kwargs["mask"] is not None and not hasattr(kwargs["mask"], "_keras_history"):
            kwargs.pop("mask")  # it was computed of the former inputs
        outputs = node.layer(*args, **kwargs)
        for old, new in zip(node.output_tensors, nest.flatten(outputs)):
            values[id(old)] = new

    def compute_mask(self, inputs, mask=None):
        """Returns None: the outputs have their masks from the layers."""
        return None  # the outputs have theirs from the layers already

    def compute_output_shape(self, input_shape):
        with tf.Graph().as_default():
            copy = type(self).from_config(self.get_config())
            many = isinstance(input_shape, list)
            inputs = [K.placeholder(tuple(shapes.as_shape(s).as_list())) for s in (input_shape if many else [input_shape])]
            return generic.unpack_singleton([t.shape for t in nest.flatten(copy(generic.unpack_singleton(inputs)))])

    # ---- configuration ----

    def get_config(self):
        if not self._is_graph_network:
            raise NotImplementedError("A subclassed model has no configuration: override get_config")
        from . import config
        return config.of_network(self)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a network from the result of get_config."""
        from . import config as config_lib
        return config_lib.to_network(cls, config, custom_objects)

    def _updated_config(self):
        return {"class_name": type(self).__name__, "config": self.get_config(), "keras_version": "2.2.4-tf",
                "backend": K.backend()}

    def to_json(self, **kwargs):
        """Returns the architecture, without weights, as JSON; the arguments are those of json.dumps."""
        return json.dumps(generic.plain(self._updated_config()), **kwargs)

    def to_yaml(self, **kwargs):
        """Returns the architecture, without weights, as YAML; the arguments are those of yaml.dump."""
        try:
            import yaml
        except ImportError:
            raise ImportError("Requires yaml module installed.") from None
        return yaml.dump(generic.plain(self._updated_config()), **kwargs)

    def summary(self, line_length=None, positions=None, print_fn=None):
        """Prints a table of the layers with output shapes and numbers of weights.

        Args:
            line_length: the width of the table
            positions: the ends of the columns, as fractions of the width
            print_fn: a function to call with each line instead of print
        """
        from ..utils import layer_utils
        if not self.built and not self.weights:
            raise ValueError("This model has not yet been built. Build the model first by calling `build()` or calling `fit()` "
                             "with some data, or specify an `input_shape` argument in the first layer(s) for automatic build.")
        layer_utils.print_summary(self, line_length=line_length, positions=positions, print_fn=print_fn)

    # ---- files ----

    def save_weights(self, filepath, overwrite=True, save_format=None):
        """Writes the weights to a file.

        Args:
            filepath: the path, or the prefix of a checkpoint
            overwrite: whether to replace an existing file; False asks first
            save_format: "h5" or "tf"; None decides by the name
        """
        from . import saving
        with self._graph.as_default():
            saving.save_weights(self, filepath, overwrite, save_format)

    def load_weights(self, filepath, by_name=False):
        """Reads weights that save_weights wrote; by_name matches layers by name instead of order."""
        from . import saving
        with self._graph.as_default():
            return saving.load_weights(self, filepath, by_name)

    def save(self, filepath, overwrite=True, include_optimizer=True, save_format=None):
        """Writes architecture, weights and, if include_optimizer, the optimizer's state to a file.

        save_format is "h5" or "tf"; None decides by the name."""
        from . import saving
        with self._graph.as_default():
            saving.save_model(self, filepath, overwrite, include_optimizer, save_format)
