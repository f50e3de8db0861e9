"""Sequential: one layer after the other."""

from ...framework import nest, shapes
from ..utils import generic
from .base_layer import Layer
from .network import Input, InputLayer
from .training import Model


class Sequential(Model):
    """A model of layers in a row.  It is built when the shape of its input is known: from the first layer, or the data."""

    def __init__(self, layers=None, name=None):
        super().__init__(name=name)
        self._row = []
        for layer in layers or []:
            self.add(layer)

    def _sublayers(self):
        return self.__dict__.get("_row", [])

    @property
    def layers(self):
        """The layers, without the input layer."""
        return [x for x in self._row if not isinstance(x, InputLayer)]

    def add(self, layer):
        """Adds a layer to the end."""
        if not isinstance(layer, Layer):
            raise TypeError("The added layer must be an instance of class Layer. Found: " + str(layer))
        if not self._row:
            self._add_first(layer)
            return
        self._row.append(layer)
        if self.outputs is not None:
            out = layer(self.outputs[0])
            if len(nest.flatten(out)) != 1:
                self._row.pop()
                raise TypeError("All layers in a Sequential model should have a single output tensor. For multi-output layers, "
                                "use the functional API.")
            self._connect(self.inputs[0], out)

    def _add_first(self, layer):
        if isinstance(layer, InputLayer):
            self._row.append(layer)
            self._connect(*(layer._inbound_nodes[-1].output_tensors * 2))
            return
        shape, dtype = _shape_of(layer)
        self._row.append(layer)
        if shape is not None:
            self._begin(shape, dtype)

    def _begin(self, batch_shape, dtype=None):
        """Input, and all layers called in turn."""
        first = self._row[0]
        x = begin = Input(batch_shape=batch_shape, dtype=dtype, name=first.name + "_input")
        self._row.insert(0, begin._keras_history.layer)
        for layer in self._row[1:]:
            x = layer(x)
        if len(nest.flatten(x)) != 1:
            raise TypeError("All layers in a Sequential model should have a single output tensor. For multi-output layers, use "
                            "the functional API.")
        self._connect(begin, x)

    def _connect(self, begin, end):
        row = self._row
        self._init_graph(begin, generic.unpack_singleton(nest.flatten(end)))
        self._row = row

    def pop(self):
        """Removes the last layer."""
        if not self.layers:
            raise TypeError("There are no layers in the model.")
        layer = self._row.pop()
        self.__dict__["_tracked_layers"] = []
        if self.outputs is None:
            return
        layer._inbound_nodes.pop()
        if not self.layers:
            self._row, self.inputs, self.outputs, self.built, self._is_graph_network = [], None, None, False, False
            return
        last = self._row[-1]
        last._outbound_nodes = []
        self._connect(self.inputs[0], last._inbound_nodes[-1].output_tensors[0])

    def build(self, input_shape=None):
        if self._is_graph_network:
            return
        if input_shape is None:
            raise ValueError("Input shape must be defined when calling build on a model subclass network.")
        self._begin(tuple(shapes.as_shape(input_shape).as_list()))

    def call(self, inputs, training=None, mask=None):
        if not self._is_graph_network:
            t = nest.flatten(inputs)[0]
            self._begin(tuple(t.shape.as_list()), t.dtype.base_dtype.name)
        return super().call(inputs, training=training, mask=mask)

    def _build_for_data(self, x):
        """Its first layer takes what the data is."""
        first = x[0]
        self._begin((None,) + tuple(first.shape[1:]), None)

    def predict_proba(self, x, batch_size=32, verbose=0):
        """Returns the outputs for inputs x; the same as predict."""
        return self.predict(x, batch_size, verbose)

    def predict_classes(self, x, batch_size=32, verbose=0):
        """Returns the index of the largest output for each sample, or output > 0.5 if there is only one."""
        p = self.predict(x, batch_size=batch_size, verbose=verbose)
        return p.argmax(axis=-1) if p.shape[-1] > 1 else (p > 0.5).astype("int32")

    def get_config(self):
        layers = [{"class_name": type(x).__name__, "config": x.get_config()} for x in self.layers]
        config = {"name": self.name, "layers": layers}
        if self.inputs is not None:
            first = self._row[0]
            config["build_input_shape"] = first._batch_input_shape
            config["input_dtype"] = first.dtype
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a model from the result of get_config."""
        from ..layers import serialization
        named = isinstance(config, dict)
        model = cls(name=config.get("name") if named else None)
        for data in config["layers"] if named else config:
            model.add(serialization.deserialize(data, custom_objects=custom_objects))
        if named and config.get("build_input_shape") is not None and model.inputs is None:
            model._begin(tuple(config["build_input_shape"]), config.get("input_dtype"))
        return model


def _shape_of(layer):
    """The shape and type of a first layer's input, if it has them; of a model's, those of its first layer."""
    if hasattr(layer, "_batch_input_shape"):
        return layer._batch_input_shape, layer.dtype if type(layer).__name__ != "Embedding" else layer._input_dtype
    if getattr(layer, "inputs", None):
        return tuple(layer.inputs[0].shape.as_list()), layer.inputs[0].dtype.base_dtype.name
    row = getattr(layer, "_row", None) or [getattr(layer, "layer", None)]
    if row and row[0] is not None and getattr(layer, "_row", None):
        return _shape_of(row[0])
    return None, None
