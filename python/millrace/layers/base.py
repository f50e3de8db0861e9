"""Layers: objects that own variables and can be called with tensors.

BaseLayer is what all layers do: it builds itself for the first input it gets (build), computes (call), and keeps its weights,
updates and losses.  How variables are made, how operations are named and what surrounds a call are methods that its two
families answer differently: Layer here, which names by variable scopes as TensorFlow 1.x's tf.layers, and the layers of Keras.

The computing classes (core.py, convolutional.py, ...) are written over BaseLayer only and mixed with a family:
`class Dense(DenseBase, Layer)`.
"""

import functools
import inspect
import re

import numpy as np

from ..framework import convert, dtypes, nest, ops, shapes
from ..ops import array, math, variables
from ..ops import variable_scope as vs

AUTO, NONE = variables.VariableSynchronization.AUTO, variables.VariableAggregation.NONE


def to_snake_case(name):
    """The name of a class as a scope has it: Conv2DTranspose -> conv2d_transpose."""
    name = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    name = re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
    return "private" + name if name[0] == "_" else name


def unique_object_name(name, zero_based=False):
    """A name of objects that is new in the graph: name_1, name_2, ... or name, name_1, ..."""
    counts = ops.get_default_graph()._scoped.setdefault("object_names", {})
    counts[name] = counts.get(name, 0) + 1
    n = counts[name] - (1 if zero_based else 0)
    return "%s_%d" % (name, n) if n else name


class InputSpec:
    """What a layer accepts as an input: shape, rank and type."""

    def __init__(self, dtype=None, shape=None, ndim=None, max_ndim=None, min_ndim=None, axes=None):
        self.dtype = None if dtype is None else dtypes.as_dtype(dtype).name
        if shape is not None:
            shape = shapes.as_shape(shape)
            ndim = shape.ndims
        self.shape, self.ndim, self.max_ndim, self.min_ndim = shape, ndim, max_ndim, min_ndim
        self.axes = {int(k): axes[k] for k in axes or {}}

    def __repr__(self):
        parts = ["%s=%s" % (k, v) for k, v in vars(self).items() if v]
        return "InputSpec(%s)" % ", ".join(parts)

    def check(self, tensor, index, layer_name):
        """A ValueError unless the tensor fits."""
        shape = tensor.shape
        if shape.ndims is None:
            if self.ndim is not None or self.max_ndim is not None or self.min_ndim is not None:
                self._fail(index, layer_name, "its rank is undefined, but the layer requires a defined rank.")
            return
        found = "Full shape received: %s" % shape.as_list()
        if self.ndim is not None and shape.ndims != self.ndim:
            self._fail(index, layer_name, "expected ndim=%s, found ndim=%s. %s" % (self.ndim, shape.ndims, found))
        if self.max_ndim is not None and shape.ndims > self.max_ndim:
            self._fail(index, layer_name, "expected max_ndim=%s, found ndim=%s" % (self.max_ndim, shape.ndims))
        if self.min_ndim is not None and shape.ndims < self.min_ndim:
            self._fail(index, layer_name, ": expected min_ndim=%s, found ndim=%s. %s" % (self.min_ndim, shape.ndims, found))
        if self.dtype is not None and tensor.dtype.base_dtype.name != self.dtype:
            self._fail(index, layer_name, "expected dtype=%s, found dtype=%s" % (self.dtype, tensor.dtype.name))
        dims = shape.as_list()
        for axis, value in self.axes.items():
            value = shapes.dimension_value(value)
            if value is not None and dims[axis] not in (value, None):
                self._fail(index, layer_name,
                           "expected axis %s of input shape to have value %s but received input with shape %s" %
                           (axis, value, dims))
        if self.shape is not None and not shape.is_compatible_with(self.shape):
            self._fail(index, layer_name, "expected shape=%s, found shape=%s" % (self.shape, shape))

    @staticmethod
    def _fail(index, layer_name, what):
        raise ValueError("Input %s of layer %s is incompatible with the layer: %s" % (index, layer_name, what))


# Attributes that hold no parts of a layer.
_OWN_ATTRIBUTES = {"_trainable_weights", "_non_trainable_weights", "_updates", "_losses", "_call_inputs", "_depends_on_call"}


def _find_parts(value, found):
    if isinstance(value, (variables.Variable, BaseLayer)):
        found.append(value)
    elif isinstance(value, (list, tuple, variables.PartitionedVariable)):
        for v in value:
            _find_parts(v, found)
    elif isinstance(value, dict):
        for v in value.values():
            _find_parts(v, found)


def _unique(values):
    return list({id(v): v for v in values}.values())


_KEYWORDS = {"input_shape", "batch_input_shape", "batch_size", "weights", "activity_regularizer", "input_dtype", "dynamic",
             "autocast", "input_dim"}


class BaseLayer:
    """The base of all layers: building, calling, weights, updates and losses."""

    _uses_inputs_dtype = True

    def __init__(self, trainable=True, name=None, dtype=None, **kwargs):
        unknown = set(kwargs) - _KEYWORDS
        if unknown:
            raise TypeError("Keyword argument not understood: %s" % ", ".join(sorted(unknown)))
        self._trainable = trainable
        self.built, self.stateful, self.supports_masking = False, False, False
        self._init_set_name(name)
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype.name
        self._trainable_weights, self._non_trainable_weights = [], []
        self._updates, self._losses = [], []
        self._call_inputs, self._depends_on_call = (), {}
        self._activity_regularizer = kwargs.get("activity_regularizer")
        self._constructor_kwargs = kwargs
        self.input_spec = None

    # ---- what a family says ----

    def _init_set_name(self, name):
        self._name = name or unique_object_name(to_snake_case(type(self).__name__), zero_based=True)

    def _name_scope(self):
        """The scope for the operations of a call."""
        return self.name

    def _get_weight(self, name, **how):
        """Makes a variable."""
        raise NotImplementedError("%s does not create variables" % type(self).__name__)

    def _called(self, inputs, outputs, args, kwargs):
        """Told of each call."""

    # ---- what a layer says ----

    def build(self, input_shape):
        """Makes the weights, for inputs of this shape."""
        self.built = True

    def call(self, inputs, *args, **kwargs):
        """Computes the outputs of the layer from its inputs; subclasses define it."""
        return inputs

    def compute_output_shape(self, input_shape):
        """Returns the shape of the outputs for inputs of this shape; subclasses define it."""
        raise NotImplementedError("%s does not know the shape of its output" % type(self).__name__)

    def compute_mask(self, inputs, mask=None):
        """Returns the mask of the outputs: that of the inputs if the layer supports masking, else None."""
        return mask if self.supports_masking else None

    def get_config(self):
        """Returns the arguments of the constructor as a dict."""
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype}
        if "batch_input_shape" in self._constructor_kwargs:
            config["batch_input_shape"] = self._constructor_kwargs["batch_input_shape"]
        return config

    @classmethod
    def from_config(cls, config):
        """Makes a layer from the result of get_config."""
        return cls(**config)

    # ---- what is known ----

    name = property(lambda self: self._name, doc="The name of the layer.")
    dtype = property(lambda self: self._dtype,
                     doc="The name of the type of the layer's variables, or None if it is not known yet.")

    @property
    def trainable(self):
        """Whether training changes the variables of the layer."""
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        self._trainable = value

    @property
    def activity_regularizer(self):
        """The function that computes a loss from the outputs, or None."""
        return self._activity_regularizer

    @activity_regularizer.setter
    def activity_regularizer(self, regularizer):
        self._activity_regularizer = regularizer

    def _parts(self):
        """The variables and layers that are attributes of it, also in lists."""
        found = []
        for k, v in vars(self).items():
            if k not in _OWN_ATTRIBUTES:
                _find_parts(v, found)
        return found

    @property
    def trainable_weights(self):
        """The variables that training changes."""
        if not self.trainable:
            return []
        own, parts = list(self._trainable_weights), self._parts()
        own += [p for p in parts if isinstance(p, variables.Variable) and p.trainable]
        return _unique(own + [w for p in parts if isinstance(p, BaseLayer) for w in p.trainable_weights])

    @property
    def non_trainable_weights(self):
        """The variables that training does not change."""
        own, parts = list(self._non_trainable_weights), self._parts()
        own += [p for p in parts if isinstance(p, variables.Variable) and not p.trainable]
        own += [w for p in parts if isinstance(p, BaseLayer) for w in p.non_trainable_weights]
        if not self.trainable:
            own = list(self._trainable_weights) + [w for p in parts for w in (
                p.trainable_weights if isinstance(p, BaseLayer) else [p] if p.trainable else [])] + own
        return _unique(own)

    weights = property(lambda self: self.trainable_weights + self.non_trainable_weights,
                       doc="All variables of the layer, the trainable ones first.")
    variables = property(lambda self: self.weights, doc="All variables of the layer; the same as weights.")
    trainable_variables = property(lambda self: self.trainable_weights,
                                   doc="The variables that training changes; the same as trainable_weights.")
    non_trainable_variables = property(lambda self: self.non_trainable_weights,
        doc="The variables that training does not change; the same as non_trainable_weights.")

    @property
    def updates(self):
        """The operations to run with each training step."""
        return list(self._updates) if self.trainable or self.stateful else []

    @property
    def losses(self):
        """The losses that the layer adds to that of the model."""
        return list(self._losses)

    def count_params(self):
        """Returns the number of elements of all variables; the layer must have been built."""
        if not self.built:
            raise ValueError("You tried to call `count_params` on %s, but the layer isn't built." % self.name)
        return sum(w.shape.num_elements() for w in self.weights)

    def get_weights(self):
        """Their values, in the default session."""
        session = _session()
        return session.run(self.weights) if self.weights else []

    def set_weights(self, weights):
        """Sets all variables to a list of arrays, in the order of weights."""
        session, mine = _session(), self.weights
        if len(mine) != len(weights):
            raise ValueError('You called `set_weights(weights)` on layer "%s" with a weight list of length %d, but '
                             "the layer was expecting %d weights." % (self.name, len(weights), len(mine)))
        for v, value in zip(mine, weights):
            value = np.asarray(value)
            if not v.shape.is_compatible_with(value.shape):
                raise ValueError("Layer weight shape %s not compatible with provided weight shape %s" % (v.shape, value.shape))
            v.load(value, session)

    # ---- weights, updates, losses ----

    def add_weight(self, name=None, shape=None, dtype=None, initializer=None, regularizer=None, trainable=None, constraint=None,
                   partitioner=None, use_resource=None, synchronization=AUTO, aggregation=NONE, collections=None, getter=None,
                   **kwargs):
        """A variable of the layer."""
        if kwargs:
            raise TypeError("Unknown keyword argument: %s" % ", ".join(sorted(kwargs)))
        if trainable and synchronization is variables.VariableSynchronization.ON_READ:
            raise ValueError("Synchronization value can be set to VariableSynchronization.ON_READ only for non-trainable "
                             "variables. You have specified trainable=True and "
                             "synchronization=VariableSynchronization.ON_READ.")
        if trainable is None:
            trainable = synchronization is not variables.VariableSynchronization.ON_READ
        v = self._get_weight(name, shape=shape, dtype=dtypes.as_dtype(dtype or self.dtype or dtypes.float32),
                             initializer=initializer, regularizer=regularizer, trainable=trainable, constraint=constraint,
                             partitioner=partitioner, use_resource=use_resource, synchronization=synchronization,
                             aggregation=aggregation, collections=collections, getter=getter)
        kept = self._trainable_weights if trainable else self._non_trainable_weights
        kept.extend(v if isinstance(v, variables.PartitionedVariable) else [v])
        return v

    @functools.wraps(add_weight)
    def add_variable(self, *args, **kwargs):
        return self.add_weight(*args, **kwargs)

    add_variable.__doc__ = "Adds a variable to the layer; the same as add_weight."

    def add_update(self, updates, inputs=None):
        """Adds operations, or functions that make them, to be run with each training step."""
        self._keep(updates, self._updates)

    def add_loss(self, losses, inputs=None):
        """Adds losses to those of the layer; inputs is accepted for compatibility."""
        self._keep(losses, self._losses)

    def _keep(self, values, kept):
        """Adds to the updates or losses, and notes of each whether it depends on what the layer was called with."""
        for v in values if isinstance(values, (list, tuple)) else [values]:
            v = v() if callable(v) and not isinstance(v, ops.Tensor) else v
            if v is not None:
                kept.append(v)
                self._depends_on_call[id(v)] = _depends(v, self._call_inputs)

    def get_updates_for(self, inputs):
        """The updates that depend on these inputs; for None those that depend on no input of a call."""
        return self._those_for(self.updates, inputs)

    def get_losses_for(self, inputs):
        """Returns the losses that depend on these inputs; for None, those that depend on no inputs."""
        return self._those_for(self.losses, inputs)

    def _those_for(self, values, inputs):
        if inputs is None:
            return [v for v in values if not self._depends_on_call.get(id(v))]
        inputs = nest.flatten(inputs)
        return [v for v in values if self._depends_on_call.get(id(v)) and _depends(v, inputs)]

    def _regularize(self, name, v, regularizer):
        """Adds the penalty on a weight."""
        for part in v if isinstance(v, variables.PartitionedVariable) else [v]:
            with ops.name_scope(name + "/Regularizer"):
                self.add_loss(regularizer(part))

    # ---- calling ----

    def __call__(self, inputs, *args, **kwargs):
        inputs = nest.map_structure(_as_tensor, inputs)
        flat = nest.flatten(inputs)
        with ops.graph_of(flat).as_default(), ops.name_scope(self._name_scope()):
            self._prepare(inputs, flat)
            before, self._call_inputs = self._call_inputs, flat
            try:
                outputs = self.call(inputs, *args, **kwargs)
                self._penalize_activity(outputs)
            finally:
                self._call_inputs = before
        self._called(inputs, outputs, args, kwargs)
        return outputs

    def apply(self, inputs, *args, **kwargs):
        """Calls the layer on inputs."""
        return self(inputs, *args, **kwargs)

    def _prepare(self, inputs, flat):
        """Builds it for the first input; checks that the input fits."""
        if self._dtype is None and self._uses_inputs_dtype:
            self._dtype = next((t.dtype.base_dtype.name for t in flat if hasattr(t, "dtype")), None)
        if not self.built:
            self._check_rank(flat)
            known = all(hasattr(t, "shape") for t in flat)
            self.build(nest.map_structure(lambda t: t.shape, inputs) if known else None)
            self.built = True
            if "weights" in self._constructor_kwargs and self._constructor_kwargs["weights"] is not None:
                self.set_weights(self._constructor_kwargs["weights"])
        self._check(flat)

    def _check_rank(self, flat):
        self._check(flat)

    def _check(self, flat):
        if self.input_spec is None:
            return
        specs = self.input_spec if isinstance(self.input_spec, (list, tuple)) else [self.input_spec]
        if len(flat) != len(specs):
            raise ValueError("Layer %s expects %d inputs, but it received %d input tensors. Inputs received: %s" %
                             (self.name, len(specs), len(flat), flat))
        for i, (t, spec) in enumerate(zip(flat, specs)):
            if spec is not None:
                spec.check(t, i, self.name)

    def _penalize_activity(self, outputs):
        """As a mean over the examples, so that it does not grow with the batch."""
        if self._activity_regularizer is None:
            return
        for t in nest.flatten(outputs):
            with ops.name_scope("ActivityRegularizer"):
                loss = self._activity_regularizer(t)
                if loss is not None:
                    self.add_loss(loss / math.cast(array.shape(t)[0], loss.dtype.base_dtype))


def _depends(value, inputs):
    """Whether a tensor or operation is computed from one of the inputs."""
    wanted = {t.op for t in inputs if isinstance(t, ops.Tensor)}
    if not wanted:
        return False
    element = value._as_graph_element() if hasattr(value, "_as_graph_element") else value
    seen, stack = set(), [getattr(element, "op", element)]
    while stack:
        op = stack.pop()
        if op in wanted:
            return True
        if op not in seen and isinstance(op, ops.Operation):
            seen.add(op)
            stack.extend(t.op for t in op.inputs)
            stack.extend(op.control_inputs)
    return False


def _is_of_graph(value):
    """Whether it belongs to a graph and cannot be copied: a tensor, a variable, or a list of them."""
    if isinstance(value, (list, tuple)) and value:
        return all(_is_of_graph(v) for v in value)
    return isinstance(value, (ops.Tensor, ops.Operation, variables.Variable, variables.PartitionedVariable))


def _as_tensor(x):
    return convert.convert_to_tensor(x) if isinstance(x, (np.ndarray, np.generic, float, int)) else x


def _session():
    session = ops.get_default_session()
    if session is None:
        raise ValueError("The values of weights belong to a session, but there is no default session")
    return session


class Layer(BaseLayer):
    """A layer of tf.layers: its variables are made by get_variable in a variable scope that is chosen when it is first used."""

    _use_resource_variables = False

    def __init__(self, trainable=True, name=None, dtype=None, **kwargs):
        scope, self._reuse = kwargs.pop("_scope", None), kwargs.pop("_reuse", None)
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)
        self._scope = self._current_scope = None
        if scope:
            with vs.variable_scope(scope) as captured:
                self._scope = captured
        self._graph = ops.get_default_graph()

    graph = property(lambda self: self._graph, doc="The graph that the layer was made in.")

    def _init_set_name(self, name):
        base = to_snake_case(type(self).__name__)
        if isinstance(name, vs.VariableScope):
            self._base_name, self._name = name.name, unique_object_name(base)
        else:
            self._base_name, self._name = name or base, name or unique_object_name(base)

    @property
    def scope_name(self):
        """The name of the variable scope of the layer, once it was used."""
        if not self._scope:
            raise ValueError('No name available for layer scope because the layer "%s" has not been used yet. The scope name '
                             "is determined the first time the layer instance is called. You must therefore call the layer "
                             "before querying `scope_name`." % self._name)
        return self._scope.name

    def _name_scope(self):
        return self._current_scope.original_name_scope

    def _set_scope(self, scope=None):
        """Chooses the scope, once."""
        if self._scope is not None:
            return
        if self._reuse:
            where = vs.variable_scope(self._base_name if scope is None else scope)
        else:
            where = vs.variable_scope(scope, default_name=self._base_name)
        with where as captured:
            self._scope = captured

    def _get_weight(self, name, regularizer=None, use_resource=None, trainable=True, initializer=None, getter=None, **how):
        self._set_scope()
        known = set(map(id, variables.global_variables())) if regularizer else ()
        with vs.variable_scope(self._scope, reuse=self.built or self._reuse, auxiliary_name_scope=False) as scope:
            self._current_scope = scope
            with ops.name_scope(self._name_scope()):
                v = (getter or vs.get_variable)(
                    name, initializer=scope.initializer if initializer is None else initializer,
                    trainable=bool(trainable and self.trainable),
                    use_resource=use_resource or self._use_resource_variables or scope.use_resource, **how)
                first = next(iter(v)) if isinstance(v, variables.PartitionedVariable) else v
                if regularizer and id(first) not in known:
                    self._regularize(name, v, regularizer)
        return v

    def add_loss(self, losses, inputs=None):
        """Adds losses to those of the layer and to the collection REGULARIZATION_LOSSES."""
        before = len(self._losses)
        super().add_loss(losses, inputs)
        _add_new(self._losses[before:], ops.GraphKeys.REGULARIZATION_LOSSES)

    def __call__(self, inputs, *args, **kwargs):
        scope = kwargs.pop("scope", None)
        self._set_scope(scope)
        reuse = True if self.built else self._reuse
        with vs.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as current:
            self._current_scope = current
            if _takes_scope(type(self)):
                kwargs["scope"] = current
            outputs = super().__call__(inputs, *args, **kwargs)
        _add_new(self.updates, ops.GraphKeys.UPDATE_OPS)
        return outputs

    def __deepcopy__(self, memo):
        import copy
        same = {"_graph", "_scope", "_current_scope"}
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        for k, v in vars(self).items():
            setattr(new, k, v if k in same or _is_of_graph(v) else copy.deepcopy(v, memo))
        return new


_scope_takers = {}


def _takes_scope(cls):
    found = _scope_takers.get(cls)
    if found is None:
        found = _scope_takers[cls] = "scope" in inspect.signature(cls.call).parameters
    return found


def _add_new(elements, key):
    """Adds to a collection what is not in it yet."""
    there = ops.get_collection_ref(key)
    for e in elements:
        if not any(e is x for x in there):
            there.append(e)


