"""Layers around layers."""

import inspect

import millrace as tf

from ...framework import shapes
from ..engine.base_layer import Layer
from ..utils import generic


class Wrapper(Layer):
    """Has a layer within, whose weights are its own."""

    def __init__(self, layer, **kwargs):
        if not isinstance(layer, Layer):
            raise ValueError("Layer %s supplied to wrapper is not a supported layer type. Please ensure wrapped layer is a "
                             "valid Keras layer." % (layer,))
        self.__dict__["layer"] = layer
        super().__init__(**kwargs)
        self.layer = layer

    @property
    def activity_regularizer(self):
        """The activity regularizer of the wrapped layer."""
        return getattr(self.layer, "activity_regularizer", None)

    def get_config(self):
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype,
                  "layer": generic.serialize_keras_object(self.layer)}
        if "batch_input_shape" in self._constructor_kwargs:
            config["batch_input_shape"] = self._constructor_kwargs["batch_input_shape"]
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a layer from the result of get_config."""
        from . import serialization
        config = dict(config)
        return cls(serialization.deserialize(config.pop("layer"), custom_objects=custom_objects), **config)


class TimeDistributed(Wrapper):
    """The layer for each step by itself: steps are samples to it."""

    def __init__(self, layer, **kwargs):
        super().__init__(layer, **kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        if shapes.as_shape(input_shape).ndims < 3:
            raise ValueError("`TimeDistributed` Layer should be passed an `input_shape` with at least 3 dimensions, received: "
                             "%s" %
                             input_shape)
        self.built = True

    def call(self, inputs, training=None, mask=None):
        dims, size = inputs.shape.as_list(), tf.shape(inputs)
        flat = tf.reshape(inputs, tf.concat([[-1], size[2:]], 0))
        flat.set_shape([None] + dims[2:])
        kwargs = {"training": training} if "training" in inspect.signature(self.layer.call).parameters else {}
        out = self.layer(flat, **kwargs)
        wide = tf.reshape(out, tf.concat([size[:2], tf.shape(out)[1:]], 0))
        wide.set_shape(dims[:2] + out.shape.as_list()[1:])
        return wide

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        out = shapes.as_shape(self.layer.compute_output_shape(shapes.TensorShape([dims[0]] + dims[2:]))).as_list()
        return shapes.TensorShape(dims[:2] + out[1:])

    def compute_mask(self, inputs, mask=None):
        return mask


class Bidirectional(Wrapper):
    """A recurrent layer and a copy of it that runs backwards; what both give is concatenated, added, ..."""

    def __init__(self, layer, merge_mode="concat", weights=None, backward_layer=None, **kwargs):
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError('Invalid merge mode. Merge mode should be one of {"sum", "mul", "ave", "concat", None}')
        if "input_shape" not in kwargs and "batch_input_shape" not in kwargs and hasattr(layer, "_batch_input_shape"):
            kwargs["batch_input_shape"] = layer._batch_input_shape
        super().__init__(layer, **kwargs)
        config = layer.get_config()
        forward = type(layer).from_config(dict(config, name="forward_" + layer.name))
        if backward_layer is None:
            backward = type(layer).from_config(dict(config, name="backward_" + layer.name, go_backwards=not layer.go_backwards))
        else:
            backward = backward_layer
            if backward.go_backwards == layer.go_backwards:
                raise ValueError("Forward layer and backward layer should have different `go_backwards` value.")
            for what in ("stateful", "return_sequences", "return_state"):
                if getattr(backward, what) != getattr(layer, what):
                    raise ValueError("Forward layer and backward layer are expected to have the same value for attribute %s, "
                                     "got %s and %s" % (what, getattr(layer, what), getattr(backward, what)))
        self._has_own_backward = backward_layer is not None
        self._tracked_layers = []
        self.forward_layer, self.backward_layer, self.merge_mode = forward, backward, merge_mode
        self.stateful, self.return_sequences, self.return_state = layer.stateful, layer.return_sequences, layer.return_state
        self.supports_masking, self._first_weights = True, weights

    def build(self, input_shape):
        self.built = True

    def __call__(self, inputs, initial_state=None, constants=None, **kwargs):
        states = generic.to_list(initial_state)
        if constants is not None:
            raise NotImplementedError("Bidirectional(...)(x, constants=...)")
        if states and len(states) % 2:
            raise ValueError("When passing `initial_state` to a Bidirectional RNN, the state should be a list containing the "
                             "states of the underlying RNNs. Found: %s" % (initial_state,))
        return super().__call__([inputs] + states if states else inputs, **kwargs)

    def call(self, inputs, training=None, mask=None):
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        kwargs = {"training": training, "mask": mask}
        if isinstance(inputs, (list, tuple)):
            n = (len(inputs) - 1) // 2
            y = generic.to_list(self.forward_layer(inputs[0], initial_state=list(inputs[1:n + 1]), **kwargs))
            z = generic.to_list(self.backward_layer(inputs[0], initial_state=list(inputs[n + 1:]), **kwargs))
        else:
            y = generic.to_list(self.forward_layer(inputs, **kwargs))
            z = generic.to_list(self.backward_layer(inputs, **kwargs))
        if self._first_weights is not None:
            self.set_weights(self._first_weights)
            self._first_weights = None
        states = y[1:] + z[1:]
        a, b = y[0], tf.reverse(z[0], [1]) if self.return_sequences else z[0]
        merged = {"concat": lambda: tf.concat([a, b], -1), "sum": lambda: a + b, "ave": lambda: (a + b) / 2,
                  "mul": lambda: a * b, None: lambda: [a, b]}[self.merge_mode]()
        if not self.return_state:
            return merged
        return generic.to_list(merged) + states

    def reset_states(self):
        """Resets the states of both layers."""
        self.forward_layer.reset_states()
        self.backward_layer.reset_states()

    def compute_mask(self, inputs, mask=None):
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        out = mask if self.return_sequences else None
        out = [out, out] if self.merge_mode is None else [out]
        if not self.return_state:
            return generic.unpack_singleton(out)
        return out + [None] * (2 * len(generic.to_list(self.forward_layer.cell.state_size)))

    def get_config(self):
        config = super().get_config()
        config["merge_mode"] = self.merge_mode
        if self._has_own_backward:
            config["backward_layer"] = generic.serialize_keras_object(self.backward_layer)
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a layer from the result of get_config."""
        from . import serialization
        config = dict(config)
        if config.get("backward_layer") is not None:
            config["backward_layer"] = serialization.deserialize(config["backward_layer"], custom_objects=custom_objects)
        return super().from_config(config, custom_objects)


