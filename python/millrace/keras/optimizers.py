"""Optimizers of Keras.

An optimizer's numbers (learning_rate, ...) are variables, so that they can be changed while training; `lr` is another name for
learning_rate.  get_updates gives the operations of a step.  An optimizer of tf.train is used through TFOptimizer.
"""

import millrace as tf

from ..framework import op_defs, ops
from ..framework.op_defs import raw
from ..ops.variables import is_resource_variable
from . import backend as K
from .utils import generic


class Optimizer:
    """Gradients, clipped if asked for, and a rule that applies them."""

    _hyper_names = ()

    def __init__(self, name, learning_rate, **kwargs):
        allowed = {"clipnorm", "clipvalue", "lr", "decay"}
        for k in kwargs:
            if k not in allowed:
                raise TypeError("Unexpected keyword argument passed to optimizer: " + str(k))
            if kwargs[k] is not None and kwargs[k] < 0:
                raise ValueError("Expected %s >= 0, received: %s" % (k, kwargs[k]))
        self._name, self._state = name, {}
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", kwargs.get("decay", 0.0))
        if "clipnorm" in kwargs:
            self.clipnorm = kwargs["clipnorm"]
        if "clipvalue" in kwargs:
            self.clipvalue = kwargs["clipvalue"]
        self._initial_decay = kwargs.get("decay", 0.0)

    # ---- numbers ----

    def _set_hyper(self, name, value):
        self.__dict__.setdefault("_hyper_values", {})[name] = value

    def _here(self):
        """What it has in the default graph."""
        graph = ops.get_default_graph()
        entry = self._state.get(id(graph))
        if entry is None or entry["graph"] is not graph:
            entry = self._state[id(graph)] = {"graph": graph, "hyper": {}, "slots": {}, "iterations": None, "weights": []}
        return entry

    def _variable(self, initial, name, dtype=None, **how):
        with ops.name_scope(None), ops.init_scope():
            v = tf.Variable(initial, name=name, trainable=False, use_resource=True, dtype=dtype, **how)
        K.track_variable(v)
        return v

    def _hyper(self, name):
        hyper, value = self._here()["hyper"], self._hyper_values[name]
        if callable(value) and not isinstance(value, tf.Variable):
            return tf.convert_to_tensor(value(self.iterations) if hasattr(value, "get_config") else value(), dtype=tf.float32)
        if isinstance(value, (ops.Tensor, tf.Variable)):
            return value
        if name not in hyper:
            hyper[name] = self._variable(float(value), "%s/%s" % (self._name, name), tf.float32)
        return hyper[name]

    def __getattr__(self, name):
        values = self.__dict__.get("_hyper_values", {})
        key = "learning_rate" if name == "lr" else name
        if key in values:
            return self._hyper(key)
        raise AttributeError("'%s' object has no attribute '%s'" % (type(self).__name__, name))

    def __setattr__(self, name, value):
        values = self.__dict__.get("_hyper_values", {})
        key = "learning_rate" if name == "lr" else name
        if key not in values:
            object.__setattr__(self, name, value)
            return
        made = [e["hyper"][key] for e in self._state.values() if key in e["hyper"]]
        values[key] = value
        for v in made:
            with v.graph.as_default():
                K.set_value(v, value)

    @property
    def iterations(self):
        """The variable that counts the steps."""
        here = self._here()
        if here["iterations"] is None:
            here["iterations"] = self._variable(0, self._name + "/iter", tf.int64)
            here["weights"].insert(0, here["iterations"])
        return here["iterations"]

    @iterations.setter
    def iterations(self, variable):
        if self._here()["iterations"] is not None:
            raise RuntimeError("Cannot set `iterations` to a new Variable after the Optimizer weights have been created")
        self._here()["iterations"] = variable
        self._here()["weights"].insert(0, variable)

    # ---- slots ----

    def add_slot(self, var, slot_name, initializer="zeros"):
        """Adds a variable of this name that belongs to var, such as a momentum, and returns it."""
        from . import initializers
        slots = self._here()["slots"]
        if (id(var), slot_name) not in slots:
            make = initializers.get(initializer)
            shape, dtype = var.shape.as_list(), var.dtype.base_dtype
            initial = (lambda: make(shape, dtype=dtype)) if callable(make) else make
            slot = self._variable(initial, "training/%s/%s/%s" % (self._name, var.op.name, slot_name), dtype)
            slots[id(var), slot_name] = slot
            self._here()["weights"].append(slot)
        return slots[id(var), slot_name]

    def get_slot(self, var, slot_name):
        """Returns the variable of this name that belongs to var."""
        return self._here()["slots"][id(var), slot_name]

    def get_slot_names(self):
        """Returns the names of all slots."""
        return sorted({n for _, n in self._here()["slots"]})

    @property
    def weights(self):
        """The variables of the optimizer."""
        return list(self._here()["weights"])

    variables = weights

    def get_weights(self):
        """Returns the values of the optimizer's variables as a list of arrays."""
        return K.batch_get_value(self.weights)

    def set_weights(self, weights):
        """Sets the optimizer's variables to a list of arrays."""
        mine = self.weights
        if len(mine) != len(weights):
            raise ValueError("You called `set_weights(weights)` on optimizer %s with a  weight list of length %d, but the "
                             "optimizer was expecting %d weights." % (self._name, len(weights), len(mine)))
        K.batch_set_value(list(zip(mine, weights)))

    # ---- steps ----

    def get_gradients(self, loss, params):
        """Returns the gradients of loss with respect to params, clipped if the optimizer says so."""
        grads = tf.gradients(loss, params)
        for g, p in zip(grads, params):
            if g is None:
                raise ValueError("Variable %s has `None` for gradient. Please make sure that all of your ops have a gradient "
                                 "defined (i.e. are differentiable). Common ops without gradient: K.argmax, K.round, K.eval." %
                                 p)
        return self._clipped(grads)

    def _clipped(self, grads):
        if getattr(self, "clipnorm", None):
            grads = [None if g is None else tf.clip_by_norm(g, self.clipnorm) for g in grads]
        if getattr(self, "clipvalue", None):
            grads = [None if g is None else tf.clip_by_value(g, -self.clipvalue, self.clipvalue) for g in grads]
        return grads

    def get_updates(self, loss, params):
        """Returns a list of operations that take one step."""
        grads = self.get_gradients(loss, params)
        return [self.apply_gradients(list(zip(grads, params)))]

    def minimize(self, loss, var_list, grad_loss=None, name=None):
        """Returns an operation that takes one step to minimize loss; loss and var_list may be functions."""
        loss, var_list = (f() if callable(f) and not isinstance(f, ops.Tensor) else f for f in (loss, var_list))
        grads = tf.gradients(loss, var_list, grad_ys=grad_loss)
        return self.apply_gradients(list(zip(self._clipped(grads), var_list)), name=name)

    def apply_gradients(self, grads_and_vars, name=None):
        """Returns an operation that applies a list of (gradient, variable)."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable: %s." % [v.name for _, v in grads_and_vars])
        with ops.name_scope(name or self._name):
            for _, v in pairs:
                self._create_slots(v)
            with ops.control_dependencies([g if isinstance(g, ops.Tensor) else g.values for g, _ in pairs]):
                self._prepare()
            changes = [self._apply(v, g) for g, v in pairs]
            with ops.control_dependencies(changes):
                return tf.assign_add(self.iterations, 1).op

    def _prepare(self):
        """What is the same for all variables of a step."""
        lr = tf.identity(self._hyper("learning_rate"))
        if self._initial_decay:
            lr = lr / (1.0 + self._hyper("decay") * tf.cast(self.iterations, tf.float32))
        self._lr = lr
        self._step = tf.cast(self.iterations.value() + 1, tf.float32)

    def _apply(self, var, grad):
        dense = grad
        if isinstance(grad, ops.IndexedSlices):
            change = self._apply_sparse(var, grad)
        else:
            change = self._apply_dense(var, dense)
        if getattr(var, "constraint", None) is None:
            return change
        with ops.control_dependencies([change]):
            return tf.assign(var, var.constraint(var.read_value() if is_resource_variable(var) else var)).op

    def _apply_sparse(self, var, grad):
        """Most rules do nothing where the gradient is zero, or the same as for the others: the slices as a tensor then."""
        return self._apply_dense(var, tf.convert_to_tensor(grad))

    def _create_slots(self, var):
        pass

    def _apply_dense(self, var, grad):
        raise NotImplementedError("%s has no rule" % type(self).__name__)

    def _fused(self, kind, var, slots, grad, **numbers):
        """The op that does the whole rule."""
        resource = is_resource_variable(var)
        made = {k: _handle(v) for k, v in slots.items()}
        for k, v in numbers.items():
            numbers[k] = v if isinstance(v, bool) else tf.cast(v, var.dtype.base_dtype)
        if not resource:  # its slots are resources; what is left is to do it with operations
            raise NotImplementedError("Keras optimizers only update resource variables, and %s is not one; use an optimizer of tf.train" %
                                      var.name)
        out = op_defs.call("ResourceApply" + kind, None, var=_handle(var), grad=grad, use_locking=True, **made, **numbers)
        return out

    def get_config(self):
        """Returns the arguments of the constructor as a dict."""
        config = {"name": self._name}
        for k, v in self._hyper_values.items():
            if isinstance(v, (ops.Tensor, tf.Variable)):
                config[k] = float(K.get_value(v))
            elif callable(v):
                config[k] = generic.serialize_keras_object(v) if hasattr(v, "get_config") else v()
            else:
                made = self._here()["hyper"].get(k)
                config[k] = v if made is None else float(K.get_value(made))
        for k in ("clipnorm", "clipvalue"):
            if getattr(self, k, None) is not None:
                config[k] = getattr(self, k)
        for k in self._hyper_names:
            config[k] = getattr(self, k)
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes an optimizer from the result of get_config."""
        config = dict(config)
        if "lr" in config:
            config["learning_rate"] = config.pop("lr")
        return cls(**config)


def _handle(v):
    return v.handle if is_resource_variable(v) else v


class SGD(Optimizer):
    """Gradient descent, with momentum if asked for."""

    _hyper_names = ("nesterov",)

    def __init__(self, learning_rate=0.01, momentum=0.0, nesterov=False, name="SGD", **kwargs):
        super().__init__(name, learning_rate, **kwargs)
        if isinstance(momentum, (int, float)) and (momentum < 0 or momentum > 1):
            raise ValueError("`momentum` must be between [0, 1].")
        self._momentum = isinstance(momentum, ops.Tensor) or callable(momentum) or momentum > 0
        self._set_hyper("momentum", momentum)
        self.nesterov = nesterov

    def _create_slots(self, var):
        if self._momentum:
            self.add_slot(var, "momentum")

    def _apply_dense(self, var, grad):
        if not self._momentum:
            return raw.resource_apply_gradient_descent(_handle(var), tf.cast(self._lr, var.dtype.base_dtype), grad,
                                                       use_locking=True)
        return self._fused("KerasMomentum", var, {"accum": self.get_slot(var, "momentum")}, grad, lr=self._lr,
                           momentum=self._hyper("momentum"), use_nesterov=self.nesterov)

    def _apply_sparse(self, var, grad):
        values, indices = _summed(grad)
        if not self._momentum:
            return raw.resource_scatter_add(_handle(var), indices, -values * tf.cast(self._lr, values.dtype))
        return raw.resource_sparse_apply_keras_momentum(
            _handle(var), self.get_slot(var, "momentum").handle, tf.cast(self._lr, values.dtype), values, indices,
            tf.cast(self._hyper("momentum"), values.dtype), use_locking=True, use_nesterov=self.nesterov)


def _summed(grad):
    """The slices with each index once."""
    indices, places = raw.unique(grad.indices)[:2]
    return raw.unsorted_segment_sum(grad.values, places, tf.shape(indices)[0]), indices


class Adam(Optimizer):
    """Adam, with the largest second moment so far if amsgrad."""

    _hyper_names = ("epsilon", "amsgrad")

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False, name="Adam", **kwargs):
        super().__init__(name, learning_rate, **kwargs)
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self.epsilon, self.amsgrad = epsilon or K.epsilon(), amsgrad

    def _create_slots(self, var):
        for slot in ("m", "v") + (("vhat",) if self.amsgrad else ()):
            self.add_slot(var, slot)

    def _prepare(self):
        super()._prepare()
        self._b1, self._b2 = tf.identity(self._hyper("beta_1")), tf.identity(self._hyper("beta_2"))
        self._p1, self._p2 = tf.pow(self._b1, self._step), tf.pow(self._b2, self._step)

    def _apply_dense(self, var, grad):
        slots = {s: self.get_slot(var, s) for s in (("m", "v", "vhat") if self.amsgrad else ("m", "v"))}
        return self._fused("AdamWithAmsgrad" if self.amsgrad else "Adam", var, slots, grad, beta1_power=self._p1,
                           beta2_power=self._p2, lr=self._lr, beta1=self._b1, beta2=self._b2, epsilon=self.epsilon)


class Adamax(Adam):
    """Adam by the largest gradient in place of the second moment."""

    _hyper_names = ("epsilon",)

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, name="Adamax", **kwargs):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, False, name, **kwargs)

    def _apply_dense(self, var, grad):
        return self._fused("AdaMax", var, {s: self.get_slot(var, s) for s in ("m", "v")}, grad, beta1_power=self._p1,
                           lr=self._lr, beta1=self._b1, beta2=self._b2, epsilon=self.epsilon)


class Nadam(Adam):
    """Adam with Nesterov's momentum, whose strength follows a schedule."""

    _hyper_names = ("epsilon",)

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, name="Nadam", **kwargs):
        kwargs["decay"] = kwargs.pop("schedule_decay", 0.004)
        super().__init__(learning_rate, beta_1, beta_2, epsilon, False, name, **kwargs)
        self._initial_decay = 0.0  # the decay is the schedule's

    def _prepare(self):
        super()._prepare()
        here = self._here()
        if "schedule" not in here:
            here["schedule"] = self._variable(1.0, self._name + "/momentum_cache", tf.float32)
            here["weights"].append(here["schedule"])
        strength = lambda t: self._b1 * (1.0 - 0.5 * tf.pow(0.96, self._hyper("decay") * t))
        self._u, self._u_next = strength(self._step), strength(self._step + 1)
        former = tf.identity(here["schedule"])
        self._schedule = former * self._u
        with ops.control_dependencies([self._schedule]):
            self._kept = tf.assign(here["schedule"], self._schedule).op

    def _apply_dense(self, var, grad):
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        g = grad / (1.0 - self._schedule)
        m_t = tf.assign(m, self._b1 * m + (1.0 - self._b1) * grad)
        v_t = tf.assign(v, self._b2 * v + (1.0 - self._b2) * tf.square(grad))
        m_bar = (1.0 - self._u) * g + self._u_next * (m_t / (1.0 - self._schedule * self._u_next))
        change = self._lr * m_bar / (tf.sqrt(v_t / (1.0 - self._p2)) + self.epsilon)
        with ops.control_dependencies([self._kept]):
            return tf.assign_sub(var, change).op


class RMSprop(Optimizer):
    """The gradient divided by the root of a running mean of its square."""

    _hyper_names = ("epsilon", "centered")

    def __init__(self, learning_rate=0.001, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False, name="RMSprop", **kwargs):
        super().__init__(name, learning_rate, **kwargs)
        self._set_hyper("rho", rho)
        self._set_hyper("momentum", momentum)
        self._momentum = not isinstance(momentum, (int, float)) or momentum > 0
        self.epsilon, self.centered = epsilon or K.epsilon(), centered

    def _create_slots(self, var):
        for slot, wanted in (("rms", True), ("momentum", self._momentum), ("mg", self.centered)):
            if wanted:
                self.add_slot(var, slot)

    def _apply_dense(self, var, grad):
        rho, ms = self._hyper("rho"), self.get_slot(var, "rms")
        if self._momentum:
            slots = {"ms": ms, "mom": self.get_slot(var, "momentum")}
            if self.centered:
                slots["mg"] = self.get_slot(var, "mg")
            return self._fused("CenteredRMSProp" if self.centered else "RMSProp", var, slots, grad, lr=self._lr, rho=rho,
                               momentum=self._hyper("momentum"), epsilon=self.epsilon)
        ms_t = tf.assign(ms, rho * ms + (1.0 - rho) * tf.square(grad))
        if self.centered:
            mg = self.get_slot(var, "mg")
            ms_t = ms_t - tf.square(tf.assign(mg, rho * mg + (1.0 - rho) * grad))
        return tf.assign_sub(var, self._lr * grad / (tf.sqrt(ms_t) + self.epsilon)).op


class Adagrad(Optimizer):
    """The gradient divided by the root of the sum of its squares."""

    _hyper_names = ("initial_accumulator_value", "epsilon")

    def __init__(self, learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-7, name="Adagrad", **kwargs):
        if initial_accumulator_value < 0.0:
            raise ValueError("initial_accumulator_value must be non-negative: %s" % initial_accumulator_value)
        super().__init__(name, learning_rate, **kwargs)
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, epsilon or K.epsilon()

    def _create_slots(self, var):
        from . import initializers
        self.add_slot(var, "accumulator", initializers.Constant(self.initial_accumulator_value))

    def _apply_dense(self, var, grad):
        acc = self.get_slot(var, "accumulator")
        total = tf.assign_add(acc, tf.square(grad))
        return tf.assign_sub(var, self._lr * grad / (tf.sqrt(total) + self.epsilon)).op


class Adadelta(Optimizer):
    """Steps as long as former ones were, by the gradient's running size."""

    _hyper_names = ("epsilon",)

    def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-7, name="Adadelta", **kwargs):
        super().__init__(name, learning_rate, **kwargs)
        self._set_hyper("rho", rho)
        self.epsilon = epsilon or K.epsilon()

    def _create_slots(self, var):
        self.add_slot(var, "accum_grad")
        self.add_slot(var, "accum_var")

    def _slots(self, var):
        return {"accum": self.get_slot(var, "accum_grad"), "accum_update": self.get_slot(var, "accum_var")}

    def _apply_dense(self, var, grad):
        return self._fused("Adadelta", var, self._slots(var), grad, lr=self._lr, rho=self._hyper("rho"), epsilon=self.epsilon)

    def _apply_sparse(self, var, grad):
        values, indices = _summed(grad)
        s = self._slots(var)
        return raw.resource_sparse_apply_adadelta(_handle(var), s["accum"].handle, s["accum_update"].handle, self._lr,
                                                  self._hyper("rho"), self.epsilon, values, indices, use_locking=True)


class Ftrl(Optimizer):
    """Follows the regularized leader."""

    _hyper_names = ("initial_accumulator_value",)

    def __init__(self, learning_rate=0.001, learning_rate_power=-0.5, initial_accumulator_value=0.1,
                 l1_regularization_strength=0.0, l2_regularization_strength=0.0, name="Ftrl",
                 l2_shrinkage_regularization_strength=0.0, **kwargs):
        super().__init__(name, learning_rate, **kwargs)
        for what, value in (("initial_accumulator_value", initial_accumulator_value), ("l1_regularization_strength",
                            l1_regularization_strength), ("l2_regularization_strength", l2_regularization_strength),
                            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength)):
            if value < 0.0:
                raise ValueError("%s %f needs to be positive or zero" % (what, value))
        if learning_rate_power > 0.0:
            raise ValueError("learning_rate_power %f needs to be negative or zero" % learning_rate_power)
        self._set_hyper("learning_rate_power", learning_rate_power)
        self._set_hyper("l1_regularization_strength", l1_regularization_strength)
        self._set_hyper("l2_regularization_strength", l2_regularization_strength)
        self._set_hyper("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength)
        self.initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var):
        from . import initializers
        self.add_slot(var, "accumulator", initializers.Constant(self.initial_accumulator_value))
        self.add_slot(var, "linear")

    def _apply_dense(self, var, grad):
        slots = {"accum": self.get_slot(var, "accumulator"), "linear": self.get_slot(var, "linear")}
        return self._fused("FtrlV2", var, slots, grad, lr=self._lr, l1=self._hyper("l1_regularization_strength"),
                           l2=self._hyper("l2_regularization_strength"),
                           l2_shrinkage=self._hyper("l2_shrinkage_regularization_strength"),
                           lr_power=self._hyper("learning_rate_power"))


class TFOptimizer:
    """An optimizer of tf.train for a model of Keras."""

    def __init__(self, optimizer, iterations=None):
        self.optimizer, self._iterations = optimizer, iterations

    @property
    def iterations(self):
        """The variable that counts the steps."""
        if self._iterations is None:
            with ops.name_scope(None), ops.init_scope():
                self._iterations = tf.Variable(0, dtype=tf.int64, trainable=False, use_resource=True, name="iterations")
            K.track_variable(self._iterations)
        return self._iterations

    def get_grads(self, loss, params):
        """Returns a list of (gradient, variable)."""
        return self.optimizer.compute_gradients(loss, params)

    def get_updates(self, loss, params):
        """Returns a list of operations that take one step."""
        if not params:
            return [tf.assign_add(self.iterations, 1).op]
        return [self.optimizer.apply_gradients(self.optimizer.compute_gradients(loss, params), global_step=self.iterations)]

    @property
    def weights(self):
        """The step counter and the variables of the wrapped optimizer."""
        return [self.iterations] + list(self.optimizer.variables())

    def get_weights(self):
        """Returns the values of weights as a list of arrays."""
        return K.batch_get_value(self.weights)

    def set_weights(self, weights):
        """Sets weights to a list of arrays."""
        K.batch_set_value(list(zip(self.weights, weights)))

    def get_config(self):
        """Raises NotImplementedError: an optimizer of tf.train has no configuration."""
        raise NotImplementedError("An optimizer of tf.train has no configuration")

    @classmethod
    def from_config(cls, config):
        """Raises NotImplementedError: an optimizer of tf.train has no configuration."""
        raise NotImplementedError("An optimizer of tf.train has no configuration")


_NAMES = {c.__name__.lower(): c for c in (SGD, Adam, Adamax, Nadam, RMSprop, Adagrad, Adadelta, Ftrl)}


def serialize(optimizer):
    """Returns the class name and the config of an optimizer as a dict."""
    return generic.serialize_keras_object(optimizer)


def deserialize(config, custom_objects=None):
    """Makes an optimizer from the result of serialize."""
    if config["class_name"].lower() in _NAMES:
        config = dict(config, class_name=config["class_name"].lower())
    return generic.deserialize_keras_object(config, _NAMES, custom_objects, "optimizer")


def get(identifier):
    """Returns an optimizer from a name, a config, an optimizer of tf.train or one of Keras."""
    if isinstance(identifier, (Optimizer, TFOptimizer)):
        return identifier
    if hasattr(identifier, "compute_gradients") and hasattr(identifier, "apply_gradients"):
        return TFOptimizer(identifier)
    if hasattr(identifier, "get_updates"):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        return deserialize({"class_name": identifier, "config": {}})
    raise ValueError("Could not interpret optimizer identifier: %s" % (identifier,))


def __getattr__(name):
    if name == "schedules":
        from . import schedules
        return schedules
    raise AttributeError("module 'tf.keras.optimizers' has no attribute %r" % name)
