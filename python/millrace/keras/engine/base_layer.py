"""Layer: what all layers of Keras do.

A layer that is called with tensors of Keras (those that have _keras_history, which begins at Input) notes the call as a Node;
of these notes models are made.  A tensor's _keras_history is (layer, number of the node, number of the tensor among its
outputs), its _keras_mask tells which steps of it count.
"""

import collections
import inspect
import threading

import numpy as np

import millrace as tf

from ...framework import convert, dtypes, nest, ops, shapes
from ...framework.sparse import SparseTensor
from ...layers.base import BaseLayer, InputSpec, to_snake_case, unique_object_name  # noqa: F401
from .. import backend as K
from .. import constraints, initializers, regularizers
from ..utils import generic

History = collections.namedtuple("History", ["layer", "node_index", "tensor_index"])
_calls = threading.local()  # .training: whether the call around is one of training


class Node:
    """A call of a layer: the arguments, what came out, and the tensors of Keras among the arguments."""

    def __init__(self, layer, args, kwargs, outputs):
        self.outbound_layer = self.layer = layer
        self.args, self.kwargs, self.outputs = args, kwargs, outputs
        self.input_tensors = nest.flatten(args[0]) if args else []
        self.output_tensors = nest.flatten(outputs)
        self.keras_inputs = [t for t in nest.flatten([args, kwargs]) if hasattr(t, "_keras_history")]
        index = len(layer._inbound_nodes)
        layer._inbound_nodes.append(self)
        for i, t in enumerate(self.output_tensors):
            t._keras_history = History(layer, index, i)
        for t in self.keras_inputs:
            t._keras_history.layer._outbound_nodes.append(self)

    @property
    def inbound_layers(self):
        return [t._keras_history.layer for t in self.keras_inputs]

    @property
    def parents(self):
        """The calls that its inputs come from."""
        return [t._keras_history.layer._inbound_nodes[t._keras_history.node_index] for t in self.keras_inputs]

    @property
    def input_shapes(self):
        return generic.unpack_singleton([K.int_shape(t) for t in self.input_tensors])

    @property
    def output_shapes(self):
        return generic.unpack_singleton([K.int_shape(t) for t in self.output_tensors])


def _keywords_to_shape(kwargs, layer):
    """batch_input_shape, from whichever of the keywords of a first layer are given."""
    if "input_dim" in kwargs and "input_shape" not in kwargs:
        kwargs["input_shape"] = (kwargs["input_dim"],)
    if kwargs.get("batch_input_shape") is not None:
        return tuple(kwargs["batch_input_shape"])
    if kwargs.get("input_shape") is not None:
        shape = kwargs["input_shape"]
        shape = (shape,) if isinstance(shape, int) else tuple(shapes.as_shape(shape).as_list())
        return (kwargs.get("batch_size"),) + shape
    return None


_signatures = {}


def _accepts(layer, name):
    """Whether call has an argument of that name."""
    key = type(layer), name
    if key not in _signatures:
        _signatures[key] = name in inspect.signature(layer.call).parameters
    return _signatures[key]


def _accepts_any(layer):
    return any(p.kind == p.VAR_KEYWORD for p in inspect.signature(layer.call).parameters.values())


def _unique(items):
    return list({id(x): x for x in items}.values())


class Layer(BaseLayer):
    """A layer of Keras.  Its variables are named by the scope of its first call, and are resource variables."""

    _is_metric = False  # metrics are layers, but their totals are not weights of a model

    def __init__(self, trainable=True, name=None, dtype=None, dynamic=False, **kwargs):
        shape = _keywords_to_shape(kwargs, self)
        self._inbound_nodes, self._outbound_nodes = [], []
        super().__init__(trainable=trainable, name=name, dtype=dtype or kwargs.get("input_dtype"), **kwargs)
        self._constructor_kwargs.pop("input_dim", None)
        self._dynamic = dynamic
        if dynamic:
            raise NotImplementedError("Layers with dynamic=True need eager execution, which is not supported")
        if shape is not None:
            self._batch_input_shape = self._constructor_kwargs["batch_input_shape"] = shape
        self._activity_regularizer = regularizers.get(self._activity_regularizer)

    def __setattr__(self, name, value):
        self._track(value)
        super().__setattr__(name, value)

    def _track(self, value):
        """Layers and variables that become attributes are the layer's own."""
        if isinstance(value, Layer):
            mine = self.__dict__.setdefault("_tracked_layers", [])
            if not any(value is x for x in mine):
                mine.append(value)
        elif isinstance(value, tf.Variable):
            if not any(value is v for v in self._trainable_weights + self._non_trainable_weights):
                (self._trainable_weights if value.trainable else self._non_trainable_weights).append(value)

    def _sublayers(self):
        """Its own layers, and those in lists and dicts of its attributes, which may have grown since."""
        found = list(self.__dict__.get("_tracked_layers", []))
        for name, value in self.__dict__.items():
            if isinstance(value, (list, tuple, dict)) and value and name[0] != "_":
                found += [x for x in (value.values() if isinstance(value, dict) else value) if isinstance(x, Layer)]
        return _unique(x for x in found if not x._is_metric)

    # ---- weights ----

    def _get_weight(self, name, shape=None, dtype=None, initializer=None, regularizer=None, trainable=True, constraint=None,
                    partitioner=None, use_resource=None, synchronization=None, aggregation=None, collections=None, getter=None):
        if partitioner is not None:
            raise NotImplementedError("Partitioned variables in layers of Keras")
        shape = () if shape is None else tuple(shapes.as_shape(shape).as_list())
        if initializer is None:
            initializer = "glorot_uniform" if dtype.is_floating else "zeros"
        initializer = initializers.get(initializer)
        how = dict(name=name, trainable=bool(trainable), dtype=dtype,
                   use_resource=True if use_resource is None else use_resource, collections=collections,
                   constraint=constraints.get(constraint))
        with ops.init_scope():
            if getter is not None:
                v = getter(name=name, shape=shape, dtype=dtype, initializer=initializer, trainable=bool(trainable))
            else:
                v = tf.Variable(lambda: initializer(shape, dtype=dtype), **how)
        K.track_variable(v)
        regularizer = regularizers.get(regularizer)
        if regularizer is not None:
            self._regularize(name, v, regularizer)
        return v

    def _collected(self, own, name):
        return _unique(own + [w for layer in self._sublayers() for w in getattr(layer, name)])

    @property
    def trainable(self):
        """Whether training changes the weights of the layer and of the layers in it."""
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        self._trainable = value
        for layer in self._sublayers():
            layer.trainable = value

    @property
    def trainable_weights(self):
        """The weights that training changes, with those of layers in this one."""
        return self._collected(list(self._trainable_weights), "trainable_weights") if self.trainable else []

    @property
    def non_trainable_weights(self):
        """The weights that training does not change, with those of layers in this one."""
        if self.trainable:
            return self._collected(list(self._non_trainable_weights), "non_trainable_weights")
        return self._collected(self._trainable_weights + self._non_trainable_weights, "weights")

    @property
    def updates(self):
        """The operations to run with each training step, with those of layers in this one."""
        own = self._updates if self.trainable or self.stateful else []
        return self._collected(list(own), "updates")

    @property
    def losses(self):
        """The losses that the layer and the layers in it add to that of the model."""
        return self._collected(list(self._losses), "losses")

    def get_weights(self):
        return K.batch_get_value(self.weights)

    def set_weights(self, weights):
        """Sets all weights to a list of arrays, in the order of weights."""
        mine = self.weights
        if len(mine) != len(weights):
            raise ValueError('You called `set_weights(weights)` on layer "%s" with a  weight list of length %d, but the layer '
                             "was expecting %d weights." % (self.name, len(weights), len(mine)))
        for v, value in zip(mine, weights):
            if not v.shape.is_compatible_with(np.shape(value)):
                raise ValueError("Layer weight shape %s not compatible with provided weight shape %s" %
                                 (v.shape, np.shape(value)))
        K.batch_set_value(list(zip(mine, weights)))

    def add_metric(self, value, aggregation=None, name=None):
        """A value that is shown with the metrics of the model."""
        from .. import metrics
        if aggregation not in (None, "mean"):
            raise ValueError("We currently support only `mean` sample-wise metric aggregation. You provided aggregation=`%s`" %
                             aggregation)
        if name is None:
            raise ValueError("Please provide a name for your metric like `self.add_metric(tf.reduce_sum(inputs), "
                             "name='mean_activation', aggregation='mean')`")
        metric = metrics.Mean(name=name)
        self.__dict__.setdefault("_added_metrics", []).append((metric, metric(value)))

    @property
    def _all_added_metrics(self):
        return self.__dict__.get("_added_metrics", []) + [m for layer in self._sublayers() for m in layer._all_added_metrics]

    def get_updates_for(self, inputs):
        from . import dependence
        return dependence.of_inputs(self.updates, inputs)

    def get_losses_for(self, inputs):
        """Returns the losses that depend on these inputs; for None, those that depend on no inputs."""
        from . import dependence
        return dependence.of_inputs(self.losses, inputs)

    # ---- calling ----

    def __call__(self, inputs, *args, **kwargs):
        inputs = nest.map_structure(self._as_input, inputs)
        flat = nest.flatten(inputs)
        from . import op_layers
        op_layers.give_history(nest.flatten([inputs, args, kwargs]))
        graph = ops.graph_of([t for t in flat if isinstance(t, (ops.Tensor, SparseTensor))])
        given = dict(kwargs)
        with graph.as_default(), ops.name_scope(self._name_scope()):
            self._prepare(inputs, flat)
            masks = [getattr(t, "_keras_mask", None) for t in flat]
            if _accepts(self, "mask") and kwargs.get("mask") is None and any(m is not None for m in masks):
                kwargs["mask"] = generic.unpack_singleton(masks) if not isinstance(inputs, (list, tuple)) else masks
            outputs = self._call_in_phase(inputs, args, kwargs)
            outputs = nest.map_structure(lambda t: tf.identity(t) if any(t is x for x in flat) else t, outputs)
            self._penalize_activity(outputs)
            self._set_masks(inputs, outputs, masks, kwargs)
        if any(hasattr(t, "_keras_history") for t in nest.flatten([inputs, args, given])):
            Node(self, (inputs,) + args, given, outputs)
        return outputs

    @staticmethod
    def _as_input(x):
        if isinstance(x, (np.ndarray, np.generic, float, int)):
            x = np.asarray(x)
            return convert.convert_to_tensor(x.astype(K.floatx()) if x.dtype == np.float64 else x)
        return tf.convert_to_tensor(x) if isinstance(x, tf.Variable) else x

    def _call_in_phase(self, inputs, args, kwargs):
        outer = getattr(_calls, "training", None)
        training = kwargs.get("training")
        if _accepts(self, "training"):
            if training is None and outer is not None and len(args) == 0:
                training = kwargs["training"] = outer
        elif "training" in kwargs and not _accepts_any(self):
            training = kwargs.pop("training")  # it is meant for layers within
        _calls.training = outer if training is None else training
        try:
            return self.call(inputs, *args, **kwargs)
        finally:
            _calls.training = outer

    def _set_masks(self, inputs, outputs, masks, kwargs):
        """Asks the layer which steps of its outputs count."""
        given = kwargs.get("mask") if _accepts(self, "mask") else None
        if given is None:
            given = masks if isinstance(inputs, (list, tuple)) else generic.unpack_singleton(masks)
        if not isinstance(self, _MaskMakers) and not self._overrides_mask() and (
                given is None or isinstance(given, list) and all(m is None for m in given)):
            return
        out = self.compute_mask(inputs, given)
        flat = nest.flatten(outputs)
        if out is not None:
            for t, m in zip(flat, out if isinstance(out, (list, tuple)) else [out] * len(flat)):
                t._keras_mask = m

    def _overrides_mask(self):
        return type(self).compute_mask not in (Layer.compute_mask, BaseLayer.compute_mask)

    def compute_mask(self, inputs, mask=None):
        """Returns the mask of the outputs: that of the inputs if the layer supports masking, else None."""
        if self.supports_masking:
            return mask
        masks = mask if isinstance(mask, (list, tuple)) else [mask]
        if any(m is not None for m in masks):
            raise TypeError("Layer %s does not support masking, but was passed an input_mask: %s" % (self.name, mask))
        return None

    def compute_output_shape(self, input_shape):
        """Returns the shape of the outputs, found by calling the layer on placeholders in a separate graph."""
        with tf.Graph().as_default(), ops.name_scope("shape"):
            copy = type(self).from_config(self.get_config())
            as_list = lambda s: tuple(s.as_list()) if isinstance(s, shapes.TensorShape) else s
            one = lambda s: K.placeholder(as_list(s), dtype=self.dtype or K.floatx())
            inputs = [one(s) for s in input_shape] if isinstance(input_shape, list) and not all(
                d is None or isinstance(d, int) for d in input_shape) else one(input_shape)
            return nest.map_structure(lambda t: t.shape, copy(inputs))

    # ---- what calls there were ----

    inbound_nodes = property(lambda self: self._inbound_nodes, doc="The calls of the layer.")
    outbound_nodes = property(lambda self: self._outbound_nodes,
                              doc="The calls of other layers with outputs of this one.")

    def _node(self, index, what):
        if not self._inbound_nodes:
            raise (AttributeError if index is None else RuntimeError)(
                "The layer has never been called and thus has no defined %s." % what)
        if index is None:
            if len(self._inbound_nodes) > 1 and len({str(getattr(n, what.replace(" ", "_") + "s", None)) if "shape" in what
                                                     else id(n)
                                                     for n in self._inbound_nodes}) > 1:
                raise AttributeError('Layer %s has multiple inbound nodes, hence the notion of "layer %s" is ill-defined. Use '
                                     "`get_%s_at(node_index)` instead." % (self.name, what, what.replace(" ", "_")))
            index = 0
        if not index < len(self._inbound_nodes):
            raise ValueError("Asked to get %s at node %d, but the layer has only %d inbound nodes." %
                             (what, index, len(self._inbound_nodes)))
        return self._inbound_nodes[index]

    input = property(lambda self: generic.unpack_singleton(self._node(None, "input").input_tensors),
                     doc="The input of the layer, if it was called once.")
    output = property(lambda self: generic.unpack_singleton(self._node(None, "output").output_tensors),
                      doc="The output of the layer, if it was called once.")
    input_shape = property(lambda self: self._node(None, "input shape").input_shapes,
                           doc="The shape of the input, if all calls had the same.")
    output_shape = property(lambda self: self._node(None, "output shape").output_shapes,
                            doc="The shape of the output, if all calls had the same.")
    input_mask = property(lambda self: getattr(self.input, "_keras_mask", None),
                          doc="The mask of the input, if the layer was called once.")
    output_mask = property(lambda self: getattr(self.output, "_keras_mask", None),
                           doc="The mask of the output, if the layer was called once.")

    def get_input_at(self, node_index):
        """Returns the input of call number node_index."""
        return generic.unpack_singleton(self._node(node_index, "input").input_tensors)

    def get_output_at(self, node_index):
        """Returns the output of call number node_index."""
        return generic.unpack_singleton(self._node(node_index, "output").output_tensors)

    def get_input_shape_at(self, node_index):
        """Returns the shape of the input of call number node_index."""
        return self._node(node_index, "input shape").input_shapes

    def get_output_shape_at(self, node_index):
        """Returns the shape of the output of call number node_index."""
        return self._node(node_index, "output shape").output_shapes

    # ---- configuration ----

    def get_config(self):
        """The arguments of the constructor of the nearest class that is one of Keras' own: they are attributes too."""
        config = super().get_config()
        cls = next(c for c in type(self).__mro__ if c.__module__.startswith("millrace."))
        for name in _constructor_arguments(cls):
            config.setdefault(name, _encoded(getattr(self, name)))
        return config

    def count_params(self):
        """Returns the number of elements of all weights; builds the layer if its input shape is known."""
        if not self.built:
            if hasattr(self, "_batch_input_shape"):
                self.build(shapes.TensorShape(self._batch_input_shape))
                self.built = True
            else:
                raise ValueError("You tried to call `count_params` on %s, but the layer isn't built. You can build it manually "
                                 "via: `%s.build(batch_input_shape)`." % (self.name, self.name))
        return int(sum(np.prod(w.shape.as_list()) for w in self.weights))


class _MaskMakers:
    """For layers that make masks where there are none."""


def _constructor_arguments(cls):
    if cls is Layer:
        return []
    return [n for n, p in inspect.signature(cls.__init__).parameters.items()
            if p.kind is p.POSITIONAL_OR_KEYWORD and n not in ("self", "trainable", "name", "dtype", "batch_input_shape")]


def _encoded(value):
    if isinstance(value, shapes.TensorShape):
        return tuple(value.as_list())
    if isinstance(value, dtypes.DType):
        return value.name
    if hasattr(value, "get_config"):
        return generic.serialize_keras_object(value)
    if inspect.isfunction(value) or inspect.isbuiltin(value):
        return value.__name__
    return value
