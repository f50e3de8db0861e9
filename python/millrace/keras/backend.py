"""tf.keras.backend: the functions that Keras is written over, and what it keeps for a graph.

For each graph there is a learning phase (a placeholder that is False unless fed), the variables Keras made, and the numbers for
names.  Sessions: the default one if there is one, else one that is kept here; whoever asks for it gets it with all variables
initialized that were not.
"""

import builtins
import threading

import numpy as np

import millrace as tf

from ..framework import convert, dtypes, nest, ops
from ..framework.op_defs import raw
from ..framework.sparse import SparseTensor
from ..layers import utils as layer_utils
from ..ops import variables as _variables

_settings = {"floatx": "float32", "epsilon": 1e-7, "image_data_format": "channels_last", "manual": False}
_own = threading.local()  # .session: the one kept here


# ---- settings ----

def epsilon():
    """Returns the small number that avoids division by zero, 1e-7 by default."""
    return _settings["epsilon"]


def set_epsilon(value):
    """Sets the small number that avoids division by zero."""
    _settings["epsilon"] = value


def floatx():
    """Returns the name of the default floating-point type, such as "float32"."""
    return _settings["floatx"]


def set_floatx(value):
    """Sets the default floating-point type: "float16", "float32" or "float64"."""
    if value not in ("float16", "float32", "float64"):
        raise ValueError("Unknown floatx type: " + str(value))
    _settings["floatx"] = str(value)


def cast_to_floatx(x):
    """Converts an array or tensor to the default floating-point type."""
    if isinstance(x, (ops.Tensor, tf.Variable, SparseTensor)):
        return tf.cast(x, floatx())
    return np.asarray(x, dtype=floatx())


def image_data_format():
    """Returns the default order of dimensions of images: "channels_last" or "channels_first"."""
    return _settings["image_data_format"]


def set_image_data_format(data_format):
    """Sets the default order of dimensions of images: "channels_last" or "channels_first"."""
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError("Unknown data_format: " + str(data_format))
    _settings["image_data_format"] = str(data_format)


def backend():
    """Returns the name of the backend, "tensorflow"."""
    return "tensorflow"


def manual_variable_initialization(value):
    """Whether the program initializes variables itself."""
    _settings["manual"] = value


# ---- what is kept for a graph ----

def _state(graph=None):
    graph = graph or ops.get_default_graph()
    return graph._scoped.setdefault("keras", {"variables": [], "uids": {}, "phase": None, "optimizers": []})


def get_graph():
    """Returns the graph that Keras adds to, the default graph."""
    return ops.get_default_graph()


def get_uid(prefix=""):
    """Returns the next number for a prefix, starting at 1, for unique names."""
    uids = _state()["uids"]
    uids[prefix] = uids.get(prefix, 0) + 1
    return uids[prefix]


def reset_uids():
    """Starts the numbers of get_uid again."""
    _state()["uids"].clear()
    ops.get_default_graph()._scoped.pop("object_names", None)


def track_variable(v):
    """Has it initialized with the others, though it may be in no collection."""
    _state(v.graph)["variables"].append(v)


def clear_session():
    """Starts over with a new default graph and a new session."""
    session, _own.session = getattr(_own, "session", None), None
    if session is not None:
        session.close()
    _settings.pop("phase", None)
    ops.reset_default_graph()


def set_session(session):
    """Sets the session that Keras uses."""
    _own.session = session


def get_session(op_input_list=()):
    """Returns the session that Keras uses, made if there is none, with new variables initialized."""
    session = _session()
    if not _settings["manual"]:
        with session.graph.as_default():
            _initialize(session)
    return session


def _session():
    session = ops.get_default_session()
    if session is not None:
        return session
    session, graph = getattr(_own, "session", None), ops.get_default_graph()
    if session is None or session.graph is not graph:
        session = _own.session = tf.Session(graph=graph)
    return session


def _initialize(session):
    """Variables that neither Keras nor the program has initialized so far."""
    candidates = ops.get_collection_ref(ops.GraphKeys.GLOBAL_VARIABLES), _state(session.graph)["variables"]
    counts = [len(c) for c in candidates]
    if session.__dict__.get("_keras_counts") == counts:
        return  # nothing new since the last time
    session._keras_counts = counts
    found = {id(v): v for c in candidates for v in c}
    # A variable is asked for once a session: what has a value keeps one.
    seen = session.__dict__.setdefault("_keras_initialized", set())
    new = [v for v in found.values() if v.name not in seen]
    if not new:
        return
    checks = [_cached(v, "_keras_is_initialized", lambda v=v: tf.is_variable_initialized(v)) for v in new]
    known = session.run(checks)
    session.run([v.initializer for v, there in zip(new, known) if not there])
    seen.update(v.name for v in new)


def _cached(v, name, make):
    made = v.__dict__.get(name)
    if made is None:
        with v.graph.as_default(), ops.name_scope(None), ops.control_dependencies(None):
            made = v.__dict__[name] = make()
    return made


# ---- training or not ----

def learning_phase():
    """1 or 0 as set_learning_phase said, else a placeholder."""
    return _settings["phase"] if "phase" in _settings else symbolic_learning_phase()


def symbolic_learning_phase():
    """Returns the placeholder of the learning phase, even if set_learning_phase fixed a value."""
    state = _state()
    if state["phase"] is None:
        with ops.name_scope(None), ops.control_dependencies(None):
            state["phase"] = tf.placeholder_with_default(False, shape=(), name="keras_learning_phase")
    return state["phase"]


def set_learning_phase(value):
    """Fixes the learning phase: 0 for testing, 1 for training."""
    if value not in (0, 1):
        raise ValueError("Expected learning phase to be 0 or 1.")
    _settings["phase"] = value


class learning_phase_scope:  # noqa: N801 -- the name Keras has for it
    """A context manager that fixes the learning phase: 0 for testing, 1 for training."""

    def __init__(self, value):
        self._value = value

    def __enter__(self):
        self._former = _settings.get("phase")
        set_learning_phase(self._value)

    def __exit__(self, *unused):
        if self._former is None:
            _settings.pop("phase", None)
        else:
            _settings["phase"] = self._former


def in_train_phase(x, alt, training=None):
    """Returns x when training and alt otherwise; either may be a function."""
    training = learning_phase() if training is None else training
    as_function = lambda v: v if callable(v) else lambda: v
    if not isinstance(training, ops.Tensor):
        return as_function(x)() if training else as_function(alt)()
    return switch(training, x, alt)


def in_test_phase(x, alt, training=None):
    """Returns x when testing and alt when training; either may be a function."""
    return in_train_phase(alt, x, training=training)


def switch(condition, then_expression, else_expression):
    """A choice: of all by a scalar, of elements by a tensor."""
    if condition.dtype != dtypes.bool_:
        condition = tf.cast(condition, "bool")
    then = then_expression if callable(then_expression) else lambda: tf.identity(then_expression)
    other = else_expression if callable(else_expression) else lambda: tf.identity(else_expression)
    if condition.shape.ndims == 0 or condition.shape.ndims is None:
        return tf.cond(condition, then, other)
    a, b = then(), other()
    if condition.shape.ndims > a.shape.ndims:
        raise ValueError("Rank of `condition` should be less than or equal to rank of `then_expression` and `else_expression`.")
    while condition.shape.ndims < a.shape.ndims:
        condition = tf.expand_dims(condition, -1)
    return tf.where(tf.logical_and(condition, tf.ones_like(a, dtype=dtypes.bool_)), a, b)


# ---- variables and placeholders ----

def variable(value, dtype=None, name=None, constraint=None):
    """Makes an initialized variable from a value; constraint is applied after updates."""
    dtype = dtype or floatx()
    if hasattr(value, "tocoo"):
        coo = value.tocoo()
        return SparseTensor(np.stack([coo.row, coo.col], 1).astype(np.int64), coo.data, coo.shape)
    initial = value if isinstance(value, ops.Tensor) or callable(value) else np.asarray(value,
                                                                                        dtypes.as_dtype(dtype).as_numpy_dtype)
    v = tf.Variable(initial, dtype=dtypes.as_dtype(dtype), name=name, constraint=constraint, use_resource=True)
    track_variable(v)
    return v


def placeholder(shape=None, ndim=None, dtype=None, sparse=False, name=None):
    """Makes a tensor to be fed; ndim may be given instead of shape."""
    dtype = dtype or floatx()
    if shape is None and ndim:
        shape = (None,) * ndim
    if sparse:
        return tf.sparse_placeholder(dtype, shape=shape, name=name)
    return tf.placeholder(dtype, shape=shape, name=name)


def is_placeholder(x):
    """Whether a tensor is a placeholder."""
    return getattr(getattr(x, "op", None), "type", None) == "Placeholder"


def constant(value, dtype=None, shape=None, name=None):
    """Makes a constant of the default floating-point type, or of dtype."""
    return tf.constant(value, dtype=dtype or floatx(), shape=shape, name=name or "Const")


def is_keras_tensor(x):
    """Whether a tensor is the output of a Keras layer or of Input."""
    if not isinstance(x, (ops.Tensor, tf.Variable, SparseTensor)):
        raise ValueError("Unexpectedly found an instance of type `%s`. Expected a symbolic tensor instance." % type(x))
    return hasattr(x, "_keras_history")


def is_tensor(x):
    """Whether the argument is a tensor, a sparse tensor or a variable."""
    return isinstance(x, (ops.Tensor, SparseTensor, tf.Variable))


def is_sparse(tensor):
    """Whether a tensor is sparse."""
    return isinstance(tensor, SparseTensor)


def to_dense(tensor):
    """Converts a sparse tensor to a dense one; a dense tensor is returned as it is."""
    if not is_sparse(tensor):
        return tensor
    return raw.sparse_to_dense(tensor.indices, tensor.dense_shape, tensor.values, tf.zeros([], tensor.dtype))


def zeros(shape, dtype=None, name=None):
    """Makes a variable of zeros."""
    return _filled(tf.zeros, shape, dtype, name)


def ones(shape, dtype=None, name=None):
    """Makes a variable of ones."""
    return _filled(tf.ones, shape, dtype, name)


def _filled(make, shape, dtype, name):
    value = make(shape=shape, dtype=dtypes.as_dtype(dtype or floatx()), name=name)
    return variable(value, dtype=dtype, name=name) if value.shape.is_fully_defined() else value


def eye(size, dtype=None, name=None):
    """Makes a variable that is an identity matrix."""
    return variable(tf.eye(size, dtype=dtypes.as_dtype(dtype or floatx())), dtype, name)


def zeros_like(x, dtype=None, name=None):
    """Returns zeros in the shape of x."""
    return tf.zeros_like(x, dtype=dtype, name=name)


def ones_like(x, dtype=None, name=None):
    """Returns ones in the shape of x."""
    return tf.ones_like(x, dtype=dtype, name=name)


def random_uniform_variable(shape, low, high, dtype=None, name=None, seed=None):
    """Makes a variable of random numbers from low to high."""
    return variable(lambda: tf.random_uniform(shape, low, high, dtypes.as_dtype(dtype or floatx()), _seed(seed)), dtype, name)


def random_normal_variable(shape, mean, scale, dtype=None, name=None, seed=None):
    """Makes a variable of random numbers from a normal distribution with this mean and standard deviation."""
    return variable(lambda: tf.random_normal(shape, mean, scale, dtypes.as_dtype(dtype or floatx()), _seed(seed)), dtype, name)


def _seed(seed):
    """Keras takes numpy's seed for what has none, so that np.random.seed is enough."""
    return np.random.randint(10 ** 9) if seed is None else seed


def get_value(x):
    """Returns the value of a variable or tensor as an array."""
    return x if not is_tensor(x) else get_session().run(x)


def batch_get_value(tensors):
    """Returns the values of several variables or tensors as a list of arrays."""
    return get_session().run(list(tensors)) if tensors else []


def set_value(x, value):
    """Sets a variable to an array."""
    batch_set_value([(x, value)])


def batch_set_value(tuples):
    """Sets variables to arrays, given as a list of (variable, array)."""
    if not tuples:
        return
    session, assigns, feeds = get_session(), [], {}
    for x, value in tuples:
        pair = _cached(x, "_keras_assign", lambda x=x: _assignment(x))
        assigns.append(pair[1])
        feeds[pair[0]] = np.asarray(value, x.dtype.base_dtype.as_numpy_dtype)
    session.run(assigns, feed_dict=feeds)


def _assignment(x):
    given = tf.placeholder(x.dtype.base_dtype, shape=x.shape)
    return given, tf.assign(x, given).op


def update(x, new_x):
    """Returns an operation that sets variable x to new_x."""
    return tf.assign(x, new_x)


def update_add(x, increment):
    """Returns an operation that adds increment to variable x."""
    return tf.assign_add(x, increment)


def update_sub(x, decrement):
    """Returns an operation that subtracts decrement from variable x."""
    return tf.assign_sub(x, decrement)


def moving_average_update(x, value, momentum):
    """Returns an operation that sets x to x * momentum + value * (1 - momentum)."""
    return tf.assign_sub(x, (x - value) * (1 - momentum))


# ---- running ----

class _Function:
    """Inputs in, outputs out, updates done on the way."""

    def __init__(self, inputs, outputs, updates=None, name=None):
        self.inputs, self.outputs = list(inputs), outputs
        flat = nest.flatten(outputs)
        with ops.control_dependencies([t for t in flat if t is not None]):
            self._updates = [tf.assign(*u).op if isinstance(u, tuple) else getattr(u, "op", u) for u in updates or []]
        self.name = name

    def __call__(self, inputs):
        feeds = {t: v for t, v in zip(self.inputs, inputs) if v is not None}
        return get_session().run([self.outputs, self._updates], feed_dict=feeds)[0]


def function(inputs, outputs, updates=None, name=None, **kwargs):
    """Makes a function that feeds inputs, runs updates, and returns the values of outputs."""
    if kwargs:
        raise ValueError("Unknown keyword arguments: %s" % ", ".join(kwargs))
    return _Function(inputs, outputs, updates, name)


def eval(x):  # noqa: A001 -- Keras' name
    """Returns the value of a tensor or variable as an array."""
    return get_value(to_dense(x))


def gradients(loss, variables):
    """Returns the gradients of loss with respect to the variables."""
    return tf.gradients(loss, variables)


def stop_gradient(variables):
    """Returns the tensor or tensors with their gradient taken as zero."""
    if isinstance(variables, (list, tuple)):
        return [tf.stop_gradient(v) for v in variables]
    return tf.stop_gradient(variables)


def print_tensor(x, message=""):
    """Returns x, and prints message and x whenever it is computed."""
    return tf.Print(x, [x], message)


def name_scope(name, default_name=None, values=None):
    """Returns a context manager that prefixes the names of operations."""
    return ops.name_scope(name, default_name, values)


# ---- shapes ----

def shape(x):
    """Returns the shape of a tensor, as a tensor."""
    return tf.shape(x)


def int_shape(x):
    """Returns the static shape as a tuple, or None if the rank is unknown; unknown dimensions are None."""
    dims = x.shape
    return None if dims.ndims is None else tuple(dims.as_list())


def ndim(x):
    """Returns the rank of a tensor, or None if it is unknown."""
    return x.shape.ndims


def dtype(x):
    """Returns the name of the type of a tensor."""
    return x.dtype.base_dtype.name


def count_params(x):
    """Returns the number of elements of a variable."""
    return int(np.prod(x.shape.as_list()))


def cast(x, dtype):
    """Converts a tensor to the type of this name."""
    return tf.cast(x, dtype)


def reshape(x, shape):
    """Returns a tensor with the same elements in another shape."""
    return tf.reshape(x, shape)


def permute_dimensions(x, pattern):
    """Permutes the dimensions of a tensor as pattern says."""
    return tf.transpose(x, perm=pattern)


def transpose(x):
    """Reverses the order of the dimensions."""
    return tf.transpose(x)


def flatten(x):
    """Returns all elements as a vector."""
    return tf.reshape(x, [-1])


def batch_flatten(x):
    """Flattens all dimensions but the first."""
    size = x.shape.as_list()[1:]
    last = -1 if None in size else int(np.prod(size))
    return tf.reshape(x, tf.stack([-1, tf.reduce_prod(tf.shape(x)[1:])]) if last == -1 else [-1, last])


def expand_dims(x, axis=-1):
    """Inserts a dimension of size 1."""
    return tf.expand_dims(x, axis)


def squeeze(x, axis):
    """Removes a dimension of size 1."""
    return tf.squeeze(x, [axis])


def concatenate(tensors, axis=-1):
    """Joins tensors along an axis."""
    if axis < 0:
        axis = axis % ndim(tensors[0]) if ndim(tensors[0]) else 0
    if builtins.all(is_sparse(x) for x in tensors):
        joined = raw.sparse_concat([t.indices for t in tensors], [t.values for t in tensors], [t.dense_shape for t in tensors],
                                   axis)
        return SparseTensor(*joined)
    return tf.concat([to_dense(x) for x in tensors], axis)


def stack(x, axis=0):
    """Joins tensors along a new axis."""
    return tf.stack(x, axis=axis)


def repeat(x, n):
    """(samples, features) as (samples, n, features)."""
    return tf.tile(tf.expand_dims(x, 1), tf.stack([1, n, 1]))


def repeat_elements(x, rep, axis):
    """Repeats each element rep times along an axis."""
    known = x.shape.as_list()
    axis = axis % len(known)
    if known[axis] is not None:
        return tf.concat([s for s in tf.split(x, known[axis], axis) for _ in range(rep)], axis)
    wide = tf.tile(tf.expand_dims(x, axis + 1), [rep if i == axis + 1 else 1 for i in range(len(known) + 1)])
    size = tf.shape(x) * tf.constant([rep if i == axis else 1 for i in range(len(known))])
    out = tf.reshape(wide, size)
    out.set_shape(known)
    return out


def tile(x, n):
    """Repeats a tensor n times, a number for each dimension."""
    return tf.tile(x, [n] if isinstance(n, int) else n)


def reverse(x, axes):
    """Reverses the order of elements along axes."""
    return tf.reverse(x, [axes] if isinstance(axes, int) else axes)


def arange(start, stop=None, step=1, dtype="int32"):
    """Returns numbers from start up to, but not including, stop; with one argument, from 0."""
    if stop is None:
        start, stop = 0, builtins.max(start, 0) if not is_tensor(start) else start
    out = tf.range(start, limit=stop, delta=step)
    return out if dtype == "int32" else tf.cast(out, dtype)


def gather(reference, indices):
    """Picks rows of reference by index."""
    return tf.gather(reference, indices)


def one_hot(indices, num_classes):
    """Returns vectors that are 1 at the index and 0 elsewhere."""
    return tf.one_hot(indices, depth=num_classes, axis=-1)


def slice(x, start, size):  # noqa: A001
    """Returns the part of a tensor that starts at start and has this size."""
    return tf.slice(x, start, size)


def temporal_padding(x, padding=(1, 1)):
    """Adds zeros before and after the middle dimension of a 3-D tensor."""
    return tf.pad(x, [[0, 0], [padding[0], padding[1]], [0, 0]])


def _spatial_padding(x, padding, data_format):
    spatial = [list(p) for p in padding]
    first = (data_format or image_data_format()) == "channels_first"
    return tf.pad(x, [[0, 0], [0, 0]] + spatial if first else [[0, 0]] + spatial + [[0, 0]])


def spatial_2d_padding(x, padding=((1, 1), (1, 1)), data_format=None):
    """Adds zeros around the height and width of images."""
    return _spatial_padding(x, padding, data_format)


def spatial_3d_padding(x, padding=((1, 1), (1, 1), (1, 1)), data_format=None):
    """Adds zeros around the depth, height and width of volumes."""
    return _spatial_padding(x, padding, data_format)


def resize_images(x, height_factor, width_factor, data_format, interpolation="nearest"):
    """Makes images larger by integer factors; interpolation is "nearest" or "bilinear"."""
    first = data_format == "channels_first"
    if first:
        x = tf.transpose(x, [0, 2, 3, 1])
    known = x.shape.as_list()[1:3]
    size = tf.shape(x)[1:3] * tf.constant([height_factor, width_factor], dtype=tf.int32)
    resize = {"nearest": raw.resize_nearest_neighbor, "bilinear": raw.resize_bilinear}.get(interpolation)
    if resize is None:
        raise ValueError('interpolation should be one of "nearest" or "bilinear".')
    x = resize(x, size)
    x.set_shape([None] + [None if d is None else d * f for d, f in zip(known, (height_factor, width_factor))] + [None])
    return tf.transpose(x, [0, 3, 1, 2]) if first else x


def resize_volumes(x, depth_factor, height_factor, width_factor, data_format):
    """Makes volumes larger by integer factors, repeating elements."""
    axes = (2, 3, 4) if data_format == "channels_first" else (1, 2, 3)
    for factor, axis in zip((depth_factor, height_factor, width_factor), axes):
        x = repeat_elements(x, factor, axis)
    return x


# ---- elements ----

def _elementwise(function):
    def f(x):
        return function(x)
    f.__name__ = f.__qualname__ = function.__name__
    f.__doc__ = "Computes tf.%s(x), element by element." % function.__name__
    return f


abs, square, sign, exp, sin, cos, round, sigmoid, tanh = map(  # noqa: A001 -- Keras' names
    _elementwise, (tf.abs, tf.square, tf.sign, tf.exp, tf.sin, tf.cos, tf.round, tf.sigmoid, tf.tanh))


def log(x):
    """Computes the natural logarithm of each element."""
    return tf.log(x)


def sqrt(x):
    """Computes the square root of each element; negative elements give 0."""
    return tf.sqrt(tf.maximum(x, tf.cast(0.0, x.dtype.base_dtype)))


def pow(x, a):  # noqa: A001
    """Computes x to the power of a, element by element."""
    return tf.pow(x, a)


def clip(x, min_value, max_value):
    """Limits each element to the range from min_value to max_value; None is no limit."""
    if max_value is not None and min_value is not None and not is_tensor(max_value) and max_value < min_value:
        max_value = min_value
    return tf.clip_by_value(x, -np.inf if min_value is None else min_value, np.inf if max_value is None else max_value)


def _comparison(op):
    def f(x, y):
        return op(x, y)
    f.__name__ = f.__qualname__ = op.__name__
    f.__doc__ = "Computes tf.%s(x, y), element by element." % op.__name__
    return f


equal, not_equal, greater, greater_equal, less, less_equal, maximum, minimum = map(
    _comparison, (tf.equal, tf.not_equal, tf.greater, tf.greater_equal, tf.less, tf.less_equal, tf.maximum, tf.minimum))


def relu(x, alpha=0.0, max_value=None, threshold=0):
    """max(x, 0); below the threshold alpha * (x - threshold)."""
    if alpha != 0.0 and max_value is None and threshold == 0:
        return raw.leaky_relu(x, alpha=alpha)
    below = raw.relu(threshold - x) if alpha != 0.0 else None
    if threshold != 0:
        x = x * tf.cast(tf.greater(x, threshold), floatx())
    elif max_value == 6:
        x, max_value = raw.relu6(x), None
    else:
        x = raw.relu(x)
    if max_value is not None:
        x = tf.clip_by_value(x, 0.0, max_value)
    return x if below is None else x - alpha * below


def elu(x, alpha=1.0):
    """Computes x where it is positive, and alpha * (exp(x) - 1) elsewhere."""
    out = raw.elu(x)
    return out if alpha == 1 else tf.where(tf.greater(x, 0), out, alpha * out)


def softmax(x, axis=-1):
    """Computes exp(x) / sum(exp(x)) along an axis."""
    rank = ndim(x)
    if axis in (-1, rank - 1):
        return raw.softmax(x)
    e = tf.exp(x - tf.reduce_max(x, axis=axis, keepdims=True))
    return e / tf.reduce_sum(e, axis=axis, keepdims=True)


def softplus(x):
    """Computes log(exp(x) + 1)."""
    return raw.softplus(x)


def softsign(x):
    """Computes x / (|x| + 1)."""
    return raw.softsign(x)


def hard_sigmoid(x):
    """Computes 0.2 * x + 0.5, limited to the range from 0 to 1."""
    return tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)


# ---- reductions ----

def _reduction(function, name):
    def f(x, axis=None, keepdims=False):
        return function(x, axis=axis, keepdims=keepdims)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = "Computes tf.reduce_%s(x) over some axes or all." % name
    return f


max, min, sum, prod = (_reduction(getattr(tf, "reduce_" + n), n) for n in ("max", "min", "sum", "prod"))  # noqa: A001


def mean(x, axis=None, keepdims=False):
    """Computes the mean over some axes or all."""
    return tf.reduce_mean(_as_float(x), axis=axis, keepdims=keepdims)


def var(x, axis=None, keepdims=False):
    """Computes the variance over some axes or all."""
    return tf.reduce_variance(_as_float(x), axis=axis, keepdims=keepdims)


def std(x, axis=None, keepdims=False):
    """Computes the standard deviation over some axes or all."""
    return tf.reduce_std(_as_float(x), axis=axis, keepdims=keepdims)


def _as_float(x):
    return tf.cast(x, floatx()) if x.dtype.base_dtype == dtypes.bool_ else x


def any(x, axis=None, keepdims=False):  # noqa: A001
    """Computes whether any element is true, over some axes or all."""
    return tf.reduce_any(tf.cast(x, "bool"), axis=axis, keepdims=keepdims)


def all(x, axis=None, keepdims=False):  # noqa: A001
    """Computes whether all elements are true, over some axes or all."""
    return tf.reduce_all(tf.cast(x, "bool"), axis=axis, keepdims=keepdims)


def argmax(x, axis=-1):
    """Returns the index of the largest element along an axis."""
    return tf.argmax(x, axis)


def argmin(x, axis=-1):
    """Returns the index of the smallest element along an axis."""
    return tf.argmin(x, axis)


def logsumexp(x, axis=None, keepdims=False):
    """Computes log(sum(exp(x))) over some axes or all, without overflow."""
    return tf.reduce_logsumexp(x, axis=axis, keepdims=keepdims)


def cumsum(x, axis=0):
    """Computes running sums along an axis."""
    return tf.cumsum(x, axis=axis)


def cumprod(x, axis=0):
    """Computes running products along an axis."""
    return tf.cumprod(x, axis=axis)


def l2_normalize(x, axis=None):
    """Divides by the L2 norm along an axis, or of the whole tensor."""
    total = tf.reduce_sum(tf.square(x), axis=axis, keepdims=True)
    return x * tf.rsqrt(tf.maximum(total, 1e-12))


# ---- products and convolutions ----

def dot(x, y):
    """The product over the last dimension of x and the last but one of y."""
    if is_sparse(x):
        return raw.sparse_tensor_dense_mat_mul(x.indices, x.values, x.dense_shape, y)
    if ndim(x) is not None and (ndim(x) > 2 or ndim(y) > 2):
        return tf.tensordot(x, y, [[ndim(x) - 1], [ndim(y) - 2 if ndim(y) > 1 else 0]])
    return tf.matmul(x, y)


def batch_dot(x, y, axes=None):
    """A product for each sample."""
    rx, ry = ndim(x), ndim(y)
    if rx < 2 or ry < 2:
        raise ValueError("Can not do batch_dot on inputs with rank < 2. Received inputs with shapes %s and %s." %
                         (x.shape, y.shape))
    if axes is None:
        axes = (rx - 1, ry - 1 if ry == 2 else ry - 2)
    axes = (axes, axes) if isinstance(axes, int) else tuple(axes)
    ax, ay = (a + r if a < 0 else a for a, r in zip(axes, (rx, ry)))
    if 0 in (ax, ay):
        raise ValueError("Can not perform batch_dot over axis 0. If your inputs are not batched, add a dummy batch dimension "
                         "to your inputs using K.expand_dims(x, 0)")
    x = tf.transpose(x, [i for i in range(rx) if i != ax] + [ax]) if ax != rx - 1 else x
    y = tf.transpose(y, [0, ay] + [i for i in range(1, ry) if i != ay]) if ay != 1 else y
    left, right = tf.shape(x)[1:-1], tf.shape(y)[2:]
    n = tf.shape(x)[-1]
    a = tf.reshape(x, tf.stack([tf.shape(x)[0], -1, n])) if rx != 3 else x
    b = tf.reshape(y, tf.stack([tf.shape(y)[0], n, -1])) if ry != 3 else y
    out = tf.matmul(a, b)
    if (rx, ry) != (3, 3):
        out = tf.reshape(out, tf.concat([tf.shape(x)[:1], left, right], 0))
        out.set_shape(x.shape.as_list()[:-1] + y.shape.as_list()[2:])
    return tf.expand_dims(out, 1) if ndim(out) == 1 else out


def bias_add(x, bias, data_format=None):
    """Adds a bias to the channels of a tensor."""
    first = (data_format or image_data_format()) == "channels_first"
    if ndim(bias) == 1 and not first:
        return raw.bias_add(x, bias)
    size = int_shape(bias)
    if ndim(bias) == 1:
        return x + tf.reshape(bias, (1, size[0]) + (1,) * (ndim(x) - 2))
    return x + tf.reshape(bias, (1, size[-1]) + size[:-1] if first else (1,) + size)


def conv1d(x, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    """Computes a 1-D convolution.

    Args:
        x: the tensor to convolve
        kernel: [width, in_channels, out_channels]
        padding: "valid", "same" or "causal"
        data_format: "channels_last" or "channels_first"; None takes the default
    """
    return _conv(1, x, kernel, (strides,), padding, data_format, (dilation_rate,))


def conv2d(x, kernel, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1)):
    """Computes a 2-D convolution.

    Args:
        x: the tensor to convolve
        kernel: [height, width, in_channels, out_channels]
        padding: "valid" or "same"
        data_format: "channels_last" or "channels_first"; None takes the default
    """
    return _conv(2, x, kernel, strides, padding, data_format, dilation_rate)


def conv3d(x, kernel, strides=(1, 1, 1), padding="valid", data_format=None, dilation_rate=(1, 1, 1)):
    """Computes a 3-D convolution.

    Args:
        x: the tensor to convolve
        kernel: [depth, height, width, in_channels, out_channels]
        padding: "valid" or "same"
        data_format: "channels_last" or "channels_first"; None takes the default
    """
    return _conv(3, x, kernel, strides, padding, data_format, dilation_rate)


def _conv(rank, x, kernel, strides, padding, data_format, dilation_rate):
    """The convolution of the layer, with this kernel."""
    from ..layers import convolutional
    base = (convolutional.Conv1DBase, convolutional.Conv2DBase, convolutional.Conv3DBase)[rank - 1]
    layer = base(int(kernel.shape[-1]), tuple(kernel.shape.as_list()[:rank]), strides=strides, padding=padding,
                 data_format=data_format or image_data_format(), dilation_rate=dilation_rate, use_bias=False, name="conv")
    layer.kernel, layer.bias, layer.built = kernel, None, True
    return layer.call(x)


def conv2d_transpose(x, kernel, output_shape, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1)):
    """Computes a 2-D deconvolution, whose result has shape output_shape."""
    data_format = layer_utils.convert_data_format(data_format or image_data_format(), 4)
    per_dim = lambda v: [1, 1] + list(v) if data_format == "NCHW" else [1] + list(v) + [1]
    return raw.conv2d_backprop_input(tf.stack(list(output_shape)) if isinstance(output_shape, (tuple, list)) else output_shape,
                                     kernel, x, strides=per_dim(strides), padding=padding.upper(), data_format=data_format,
                                     dilations=per_dim(dilation_rate))


def depthwise_conv2d(x, depthwise_kernel, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1)):
    """Convolves each channel with its own kernels."""
    data_format = layer_utils.convert_data_format(data_format or image_data_format(), 4)
    per_dim = lambda v: [1, 1] + list(v) if data_format == "NCHW" else [1] + list(v) + [1]
    return raw.depthwise_conv2d_native(x, depthwise_kernel, strides=per_dim(strides), padding=padding.upper(),
                                       data_format=data_format, dilations=per_dim(dilation_rate))


def separable_conv2d(x, depthwise_kernel, pointwise_kernel, strides=(1, 1), padding="valid", data_format=None,
                     dilation_rate=(1, 1)):
    """Convolves each channel with its own kernels, then mixes the channels with a 1 x 1 convolution."""
    each = depthwise_conv2d(x, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv2d(each, pointwise_kernel, data_format=data_format)


def pool2d(x, pool_size, strides=(1, 1), padding="valid", data_format=None, pool_mode="max"):
    """Pools in two dimensions; pool_mode is "max" or "avg"."""
    return _pool(2, x, pool_size, strides, padding, data_format, pool_mode)


def pool3d(x, pool_size, strides=(1, 1, 1), padding="valid", data_format=None, pool_mode="max"):
    """Pools in three dimensions; pool_mode is "max" or "avg"."""
    return _pool(3, x, pool_size, strides, padding, data_format, pool_mode)


def _pool(rank, x, pool_size, strides, padding, data_format, pool_mode):
    from ..layers import pooling
    if pool_mode not in ("max", "avg"):
        raise ValueError("Invalid pooling mode: " + str(pool_mode))
    base = getattr(pooling, "%sPooling%dDBase" % ({"max": "Max", "avg": "Average"}[pool_mode], rank))
    return base(pool_size, strides, padding, data_format or image_data_format(), name="pool").call(x)


# ---- normalization and noise ----

def batch_normalization(x, mean, var, beta, gamma, axis=-1, epsilon=1e-3):
    """Computes (x - mean) / sqrt(var + epsilon) * gamma + beta."""
    rank = ndim(x)
    if rank is not None and axis % rank != rank - 1:
        wide = [-1 if i == axis % rank else 1 for i in range(rank)]
        mean, var, beta, gamma = (v if v is None or ndim(v) != 1 else tf.reshape(v, wide) for v in (mean, var, beta, gamma))
    scale = tf.rsqrt(var + epsilon) if gamma is None else tf.rsqrt(var + epsilon) * gamma
    out = (x - mean) * scale
    return out if beta is None else out + beta


def normalize_batch_in_training(x, gamma, beta, reduction_axes, epsilon=1e-3):
    """Normalizes a batch by its own mean and variance.

    Returns the result, the mean and the variance."""
    m = tf.reduce_mean(x, axis=reduction_axes, keepdims=True)
    v = tf.reduce_mean(tf.square(x - tf.stop_gradient(m)), axis=reduction_axes, keepdims=True)
    wide = tf.shape(m)
    out = batch_normalization(x, m, v, None if beta is None else tf.reshape(beta, wide),
                              None if gamma is None else tf.reshape(gamma, wide), epsilon=epsilon)
    return out, tf.squeeze(m, reduction_axes), tf.squeeze(v, reduction_axes)


def dropout(x, level, noise_shape=None, seed=None):
    """Sets a fraction `level` of the elements to 0, and scales the others so that the mean stays."""
    return tf.nn.dropout(x, rate=level, noise_shape=noise_shape, seed=_seed(seed))


def random_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    """Returns random numbers from a normal distribution."""
    return tf.random_normal(shape, mean, stddev, dtypes.as_dtype(dtype or floatx()), _seed(seed))


def random_uniform(shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
    """Returns random numbers from minval to maxval."""
    return tf.random_uniform(shape, minval, maxval, dtypes.as_dtype(dtype or floatx()), _seed(seed))


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    """Returns random numbers from a normal distribution, all within two standard deviations of the mean."""
    return tf.truncated_normal(shape, mean, stddev, dtypes.as_dtype(dtype or floatx()), _seed(seed))


def random_binomial(shape, p=0.0, dtype=None, seed=None):
    """Returns random numbers that are 1 with probability p and 0 otherwise."""
    dtype = dtypes.as_dtype(dtype or floatx())
    return tf.where(tf.random_uniform(shape, dtype=dtype, seed=_seed(seed)) <= p, tf.ones(shape, dtype), tf.zeros(shape, dtype))


# ---- losses ----

def _clipped(output):
    return tf.clip_by_value(output, tf.cast(epsilon(), output.dtype), tf.cast(1.0 - epsilon(), output.dtype))


def _logits_of(output, op_type):
    """The logits where the output is an activation of some: their loss is exact, that of the activation is clipped."""
    op = output.op
    while op.type == "Identity":
        op = op.inputs[0].op
    return op.inputs[0] if op.type == op_type else None


def categorical_crossentropy(target, output, from_logits=False, axis=-1):
    """Computes the cross entropy of one-hot targets and predictions.

    output holds probabilities, or logits if from_logits is True; axis is the dimension of the classes."""
    if not from_logits:
        logits = _logits_of(output, "Softmax") if axis in (-1, ndim(output) - 1) else None
        if logits is None:
            output = output / tf.reduce_sum(output, axis=axis, keepdims=True)
            return -tf.reduce_sum(target * tf.log(_clipped(output)), axis=axis)
        output = logits
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=target, logits=output, axis=axis)


def sparse_categorical_crossentropy(target, output, from_logits=False, axis=-1):
    """Computes the cross entropy of integer targets and predictions.

    output holds probabilities, or logits if from_logits is True; axis is the dimension of the classes."""
    rank = ndim(output)
    if rank is not None and axis % rank != rank - 1:
        axis = axis % rank
        output = tf.transpose(output, [i for i in range(rank) if i != axis] + [axis])
    if not from_logits:
        logits = _logits_of(output, "Softmax")
        output = tf.log(_clipped(output)) if logits is None else logits
    target = tf.cast(target, tf.int64)
    if rank is not None and ndim(target) == rank:
        target = tf.squeeze(target, [-1])
    rows = raw.sparse_softmax_cross_entropy_with_logits(tf.reshape(output, tf.stack([-1, tf.shape(output)[-1]])),
                                                        tf.reshape(target, [-1]))[0]
    if rank is None or rank == 2:
        return rows
    out = tf.reshape(rows, tf.shape(output)[:-1])
    out.set_shape(output.shape.as_list()[:-1])
    return out


def binary_crossentropy(target, output, from_logits=False):
    """Computes the cross entropy of targets 0 or 1 and predictions, element by element.

    output holds probabilities, or logits if from_logits is True."""
    if not from_logits:
        logits = _logits_of(output, "Sigmoid")
        if logits is None:
            output, tiny = _clipped(output), epsilon()
            return -(target * tf.log(output + tiny) + (1 - target) * tf.log(1 - output + tiny))
        output = logits
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=output)


def in_top_k(predictions, targets, k):
    """Computes whether each target is among the k largest predictions of its row."""
    return raw.in_top_kv2(predictions, targets, k)


# ---- connectionist temporal classification ----

def ctc_label_dense_to_sparse(labels, label_lengths):
    """The labels as a SparseTensor: of each row as many as its length says."""
    there = tf.sequence_mask(tf.reshape(label_lengths, [-1]), tf.shape(labels)[1])
    indices = tf.where(there)
    return SparseTensor(indices, tf.gather_nd(labels, indices), tf.cast(tf.shape(labels), tf.int64))


def ctc_batch_cost(y_true, y_pred, input_length, label_length):
    """Computes the CTC loss of each sequence in a batch.

    Args:
        y_true: [batch, longest label], the labels
        y_pred: [batch, time, classes], probabilities
        input_length: [batch, 1], the lengths of the predictions
        label_length: [batch, 1], the lengths of the labels
    """
    sparse = ctc_label_dense_to_sparse(tf.cast(y_true, tf.int32), tf.cast(tf.squeeze(label_length, [-1]), tf.int32))
    logits = tf.log(tf.transpose(y_pred, [1, 0, 2]) + epsilon())
    loss = raw.ctc_loss(logits, sparse.indices, sparse.values, tf.cast(tf.squeeze(input_length, [-1]), tf.int32))[0]
    return tf.expand_dims(loss, 1)


def ctc_decode(y_pred, input_length, greedy=True, beam_width=100, top_paths=1):
    """Decodes CTC predictions, greedily or with a beam search.

    Returns a list of decoded label tensors, padded with -1, and the log probabilities."""
    logits = tf.log(tf.transpose(y_pred, [1, 0, 2]) + epsilon())
    lengths = tf.cast(input_length, tf.int32)
    if greedy:
        found = raw.ctc_greedy_decoder(logits, lengths)
        paths, score = [SparseTensor(found[0], found[1], found[2])], found[3]
    else:
        found = raw.ctc_beam_search_decoder(logits, lengths, beam_width=beam_width, top_paths=top_paths, merge_repeated=False)
        paths, score = [SparseTensor(*p) for p in zip(found[0], found[1], found[2])], found[3]
    dense = [raw.sparse_to_dense(p.indices, p.dense_shape, p.values, tf.constant(-1, p.dtype)) for p in paths]
    return dense, score


# ---- recurrence and maps ----

def rnn(step_function, inputs, initial_states, go_backwards=False, mask=None, constants=None, unroll=False, input_length=None,
        time_major=False, zero_output_for_mask=False):
    """(last output, all outputs, last states) of step_function(input, states) over the dimension of time."""
    from .layers import recurrence
    return recurrence.rnn(step_function, inputs, initial_states, go_backwards, mask, constants, unroll, time_major,
                          zero_output_for_mask)


def map_fn(fn, elems, name=None, dtype=None):
    """Applies a function to each element along the first dimension, and stacks the results."""
    return tf.map_fn(fn, elems, name=name, dtype=dtype)


def foldl(fn, elems, initializer=None, name=None):
    """Combines the elements of the first dimension with a function, from first to last."""
    return tf.foldl(fn, elems, initializer=initializer, name=name)


def foldr(fn, elems, initializer=None, name=None):
    """Combines the elements of the first dimension with a function, from last to first."""
    return tf.foldr(fn, elems, initializer=initializer, name=name)


def local_conv1d(inputs, kernel, kernel_size, strides, data_format=None):
    """Convolves in 1-D with a kernel of its own for each position."""
    return local_conv(inputs, kernel, kernel_size, strides, None, data_format)


def local_conv2d(inputs, kernel, kernel_size, strides, output_shape, data_format=None):
    """Convolves in 2-D with a kernel of its own for each position."""
    return local_conv(inputs, kernel, kernel_size, strides, output_shape, data_format)


def local_conv(inputs, kernel, kernel_size, strides, output_shape=None, data_format=None):
    """A convolution with a kernel of its own, kernel[i], for each place of the output."""
    rank = len(kernel_size)
    first = (data_format or image_data_format()) == "channels_first"
    if first:
        inputs = tf.transpose(inputs, [0] + list(range(2, rank + 2)) + [1])
    dims = inputs.shape.as_list()
    if rank == 1:
        inputs, kernel_size, strides = tf.expand_dims(inputs, 2), tuple(kernel_size) + (1,), tuple(strides) + (1,)
    patches = raw.extract_image_patches(inputs, ksizes=[1] + list(kernel_size) + [1], strides=[1] + list(strides) + [1],
                                        rates=[1, 1, 1, 1], padding="VALID")
    places = int(np.prod(patches.shape.as_list()[1:3]))
    flat = tf.transpose(tf.reshape(patches, [-1, places, int(patches.shape[-1])]), [1, 0, 2])
    out = tf.transpose(tf.matmul(flat, tf.reshape(kernel, [places, int(patches.shape[-1]), -1])), [1, 0, 2])
    size = [(d - k) // s + 1 for d, k, s in zip(dims[1:-1], kernel_size, strides)]
    out = tf.reshape(out, [-1] + size + [int(kernel.shape[-1])])
    return tf.transpose(out, [0, rank + 1] + list(range(1, rank + 1))) if first else out


convert_to_tensor = convert.convert_to_tensor
is_resource_variable = _variables.is_resource_variable


def __getattr__(name):
    raise AttributeError("module 'tf.keras.backend' has no attribute %r" % name)
