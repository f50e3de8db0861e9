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
    return _settings["epsilon"]


def set_epsilon(value):
    _settings["epsilon"] = value


def floatx():
    return _settings["floatx"]


def set_floatx(value):
    if value not in ("float16", "float32", "float64"):
        raise ValueError("Unknown floatx type: " + str(value))
    _settings["floatx"] = str(value)


def cast_to_floatx(x):
    if isinstance(x, (ops.Tensor, tf.Variable, SparseTensor)):
        return tf.cast(x, floatx())
    return np.asarray(x, dtype=floatx())


def image_data_format():
    return _settings["image_data_format"]


def set_image_data_format(data_format):
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError("Unknown data_format: " + str(data_format))
    _settings["image_data_format"] = str(data_format)


def backend():
    return "tensorflow"


def manual_variable_initialization(value):
    """Whether the program initializes variables itself."""
    _settings["manual"] = value


# ---- what is kept for a graph ----

def _state(graph=None):
    graph = graph or ops.get_default_graph()
    return graph._scoped.setdefault("keras", {"variables": [], "uids": {}, "phase": None, "optimizers": []})


def get_graph():
    return ops.get_default_graph()


def get_uid(prefix=""):
    uids = _state()["uids"]
    uids[prefix] = uids.get(prefix, 0) + 1
    return uids[prefix]


def reset_uids():
    _state()["uids"].clear()
    ops.get_default_graph()._scoped.pop("object_names", None)


def track_variable(v):
    """Has it initialized with the others, though it may be in no collection."""
    _state(v.graph)["variables"].append(v)


def clear_session():
    """Begins anew: another default graph, another session."""
    session, _own.session = getattr(_own, "session", None), None
    if session is not None:
        session.close()
    _settings.pop("phase", None)
    ops.reset_default_graph()


def set_session(session):
    _own.session = session


def get_session(op_input_list=()):
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
    state = _state()
    if state["phase"] is None:
        with ops.name_scope(None), ops.control_dependencies(None):
            state["phase"] = tf.placeholder_with_default(False, shape=(), name="keras_learning_phase")
    return state["phase"]


def set_learning_phase(value):
    if value not in (0, 1):
        raise ValueError("Expected learning phase to be 0 or 1.")
    _settings["phase"] = value


class learning_phase_scope:  # noqa: N801 -- the name Keras has for it
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
    training = learning_phase() if training is None else training
    as_function = lambda v: v if callable(v) else lambda: v
    if not isinstance(training, ops.Tensor):
        return as_function(x)() if training else as_function(alt)()
    return switch(training, x, alt)


def in_test_phase(x, alt, training=None):
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
    dtype = dtype or floatx()
    if shape is None and ndim:
        shape = (None,) * ndim
    if sparse:
        return tf.sparse_placeholder(dtype, shape=shape, name=name)
    return tf.placeholder(dtype, shape=shape, name=name)


def is_placeholder(x):
    return getattr(getattr(x, "op", None), "type", None) == "Placeholder"


def constant(value, dtype=None, shape=None, name=None):
    return tf.constant(value, dtype=dtype or floatx(), shape=shape, name=name or "Const")


def is_keras_tensor(x):
    if not isinstance(x, (ops.Tensor, tf.Variable, SparseTensor)):
        raise ValueError("Unexpectedly found an instance of type `%s`. Expected a symbolic tensor instance." % type(x))
    return hasattr(x, "_keras_history")


def is_tensor(x):
    return isinstance(x, (ops.Tensor, SparseTensor, tf.Variable))


def is_sparse(tensor):
    return isinstance(tensor, SparseTensor)


def to_dense(tensor):
    if not is_sparse(tensor):
        return tensor
    return raw.sparse_to_dense(tensor.indices, tensor.dense_shape, tensor.values, tf.zeros([], tensor.dtype))


def zeros(shape, dtype=None, name=None):
    return _filled(tf.zeros, shape, dtype, name)


def ones(shape, dtype=None, name=None):
    return _filled(tf.ones, shape, dtype, name)


def _filled(make, shape, dtype, name):
    value = make(shape=shape, dtype=dtypes.as_dtype(dtype or floatx()), name=name)
    return variable(value, dtype=dtype, name=name) if value.shape.is_fully_defined() else value


def eye(size, dtype=None, name=None):
    return variable(tf.eye(size, dtype=dtypes.as_dtype(dtype or floatx())), dtype, name)


def zeros_like(x, dtype=None, name=None):
    return tf.zeros_like(x, dtype=dtype, name=name)


def ones_like(x, dtype=None, name=None):
    return tf.ones_like(x, dtype=dtype, name=name)


def random_uniform_variable(shape, low, high, dtype=None, name=None, seed=None):
    return variable(lambda: tf.random_uniform(shape, low, high, dtypes.as_dtype(dtype or floatx()), _seed(seed)), dtype, name)


def random_normal_variable(shape, mean, scale, dtype=None, name=None, seed=None):
    return variable(lambda: tf.random_normal(shape, mean, scale, dtypes.as_dtype(dtype or floatx()), _seed(seed)), dtype, name)


def _seed(seed):
    """Keras takes numpy's seed for what has none, so that np.random.seed is enough."""
    return np.random.randint(10 ** 9) if seed is None else seed


def get_value(x):
    return x if not is_tensor(x) else get_session().run(x)


def batch_get_value(tensors):
    return get_session().run(list(tensors)) if tensors else []


def set_value(x, value):
    batch_set_value([(x, value)])


def batch_set_value(tuples):
    """Gives variables their values."""
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
    return tf.assign(x, new_x)


def update_add(x, increment):
    return tf.assign_add(x, increment)


def update_sub(x, decrement):
    return tf.assign_sub(x, decrement)


def moving_average_update(x, value, momentum):
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
    if kwargs:
        raise ValueError("Unknown keyword arguments: %s" % ", ".join(kwargs))
    return _Function(inputs, outputs, updates, name)


def eval(x):  # noqa: A001 -- Keras' name
    return get_value(to_dense(x))


def gradients(loss, variables):
    return tf.gradients(loss, variables)


def stop_gradient(variables):
    if isinstance(variables, (list, tuple)):
        return [tf.stop_gradient(v) for v in variables]
    return tf.stop_gradient(variables)


def print_tensor(x, message=""):
    return tf.Print(x, [x], message)


def name_scope(name, default_name=None, values=None):
    return ops.name_scope(name, default_name, values)


# ---- shapes ----

def shape(x):
    return tf.shape(x)


def int_shape(x):
    dims = x.shape
    return None if dims.ndims is None else tuple(dims.as_list())


def ndim(x):
    return x.shape.ndims


def dtype(x):
    return x.dtype.base_dtype.name


def count_params(x):
    return int(np.prod(x.shape.as_list()))


def cast(x, dtype):
    return tf.cast(x, dtype)


def reshape(x, shape):
    return tf.reshape(x, shape)


def permute_dimensions(x, pattern):
    return tf.transpose(x, perm=pattern)


def transpose(x):
    return tf.transpose(x)


def flatten(x):
    return tf.reshape(x, [-1])


def batch_flatten(x):
    size = x.shape.as_list()[1:]
    last = -1 if None in size else int(np.prod(size))
    return tf.reshape(x, tf.stack([-1, tf.reduce_prod(tf.shape(x)[1:])]) if last == -1 else [-1, last])


def expand_dims(x, axis=-1):
    return tf.expand_dims(x, axis)


def squeeze(x, axis):
    return tf.squeeze(x, [axis])


def concatenate(tensors, axis=-1):
    if axis < 0:
        axis = axis % ndim(tensors[0]) if ndim(tensors[0]) else 0
    if builtins.all(is_sparse(x) for x in tensors):
        joined = raw.sparse_concat([t.indices for t in tensors], [t.values for t in tensors], [t.dense_shape for t in tensors],
                                   axis)
        return SparseTensor(*joined)
    return tf.concat([to_dense(x) for x in tensors], axis)


def stack(x, axis=0):
    return tf.stack(x, axis=axis)


def repeat(x, n):
    """(samples, features) as (samples, n, features)."""
    return tf.tile(tf.expand_dims(x, 1), tf.stack([1, n, 1]))


def repeat_elements(x, rep, axis):
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
    return tf.tile(x, [n] if isinstance(n, int) else n)


def reverse(x, axes):
    return tf.reverse(x, [axes] if isinstance(axes, int) else axes)


def arange(start, stop=None, step=1, dtype="int32"):
    if stop is None:
        start, stop = 0, builtins.max(start, 0) if not is_tensor(start) else start
    out = tf.range(start, limit=stop, delta=step)
    return out if dtype == "int32" else tf.cast(out, dtype)


def gather(reference, indices):
    return tf.gather(reference, indices)


def one_hot(indices, num_classes):
    return tf.one_hot(indices, depth=num_classes, axis=-1)


def slice(x, start, size):  # noqa: A001
    return tf.slice(x, start, size)


def temporal_padding(x, padding=(1, 1)):
    return tf.pad(x, [[0, 0], [padding[0], padding[1]], [0, 0]])


def _spatial_padding(x, padding, data_format):
    spatial = [list(p) for p in padding]
    first = (data_format or image_data_format()) == "channels_first"
    return tf.pad(x, [[0, 0], [0, 0]] + spatial if first else [[0, 0]] + spatial + [[0, 0]])


def spatial_2d_padding(x, padding=((1, 1), (1, 1)), data_format=None):
    return _spatial_padding(x, padding, data_format)


def spatial_3d_padding(x, padding=((1, 1), (1, 1), (1, 1)), data_format=None):
    return _spatial_padding(x, padding, data_format)


def resize_images(x, height_factor, width_factor, data_format, interpolation="nearest"):
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
    axes = (2, 3, 4) if data_format == "channels_first" else (1, 2, 3)
    for factor, axis in zip((depth_factor, height_factor, width_factor), axes):
        x = repeat_elements(x, factor, axis)
    return x


# ---- elements ----

def _elementwise(function):
    def f(x):
        return function(x)
    f.__name__ = f.__qualname__ = function.__name__
    return f


abs, square, sign, exp, sin, cos, round, sigmoid, tanh = map(  # noqa: A001 -- Keras' names
    _elementwise, (tf.abs, tf.square, tf.sign, tf.exp, tf.sin, tf.cos, tf.round, tf.sigmoid, tf.tanh))


def log(x):
    return tf.log(x)


def sqrt(x):
    return tf.sqrt(tf.maximum(x, tf.cast(0.0, x.dtype.base_dtype)))


def pow(x, a):  # noqa: A001
    return tf.pow(x, a)


def clip(x, min_value, max_value):
    if max_value is not None and min_value is not None and not is_tensor(max_value) and max_value < min_value:
        max_value = min_value
    return tf.clip_by_value(x, -np.inf if min_value is None else min_value, np.inf if max_value is None else max_value)


def _comparison(op):
    def f(x, y):
        return op(x, y)
    f.__name__ = f.__qualname__ = op.__name__
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
    out = raw.elu(x)
    return out if alpha == 1 else tf.where(tf.greater(x, 0), out, alpha * out)


def softmax(x, axis=-1):
    rank = ndim(x)
    if axis in (-1, rank - 1):
        return raw.softmax(x)
    e = tf.exp(x - tf.reduce_max(x, axis=axis, keepdims=True))
    return e / tf.reduce_sum(e, axis=axis, keepdims=True)


def softplus(x):
    return raw.softplus(x)


def softsign(x):
    return raw.softsign(x)


def hard_sigmoid(x):
    return tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)


# ---- reductions ----

def _reduction(function, name):
    def f(x, axis=None, keepdims=False):
        return function(x, axis=axis, keepdims=keepdims)
    f.__name__ = f.__qualname__ = name
    return f


max, min, sum, prod = (_reduction(getattr(tf, "reduce_" + n), n) for n in ("max", "min", "sum", "prod"))  # noqa: A001


def mean(x, axis=None, keepdims=False):
    return tf.reduce_mean(_as_float(x), axis=axis, keepdims=keepdims)


def var(x, axis=None, keepdims=False):
    return tf.reduce_variance(_as_float(x), axis=axis, keepdims=keepdims)


def std(x, axis=None, keepdims=False):
    return tf.reduce_std(_as_float(x), axis=axis, keepdims=keepdims)


def _as_float(x):
    return tf.cast(x, floatx()) if x.dtype.base_dtype == dtypes.bool_ else x


def any(x, axis=None, keepdims=False):  # noqa: A001
    return tf.reduce_any(tf.cast(x, "bool"), axis=axis, keepdims=keepdims)


def all(x, axis=None, keepdims=False):  # noqa: A001
    return tf.reduce_all(tf.cast(x, "bool"), axis=axis, keepdims=keepdims)


def argmax(x, axis=-1):
    return tf.argmax(x, axis)


def argmin(x, axis=-1):
    return tf.argmin(x, axis)


def logsumexp(x, axis=None, keepdims=False):
    return tf.reduce_logsumexp(x, axis=axis, keepdims=keepdims)


def cumsum(x, axis=0):
    return tf.cumsum(x, axis=axis)


def cumprod(x, axis=0):
    return tf.cumprod(x, axis=axis)


def l2_normalize(x, axis=None):
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
    first = (data_format or image_data_format()) == "channels_first"
    if ndim(bias) == 1 and not first:
        return raw.bias_add(x, bias)
    size = int_shape(bias)
    if ndim(bias) == 1:
        return x + tf.reshape(bias, (1, size[0]) + (1,) * (ndim(x) - 2))
    return x + tf.reshape(bias, (1, size[-1]) + size[:-1] if first else (1,) + size)


def conv1d(x, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    return _conv(1, x, kernel, (strides,), padding, data_format, (dilation_rate,))


def conv2d(x, kernel, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1)):
    return _conv(2, x, kernel, strides, padding, data_format, dilation_rate)


def conv3d(x, kernel, strides=(1, 1, 1), padding="valid", data_format=None, dilation_rate=(1, 1, 1)):
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
    data_format = layer_utils.convert_data_format(data_format or image_data_format(), 4)
    per_dim = lambda v: [1, 1] + list(v) if data_format == "NCHW" else [1] + list(v) + [1]
    return raw.conv2d_backprop_input(tf.stack(list(output_shape)) if isinstance(output_shape, (tuple, list)) else output_shape,
                                     kernel, x, strides=per_dim(strides), padding=padding.upper(), data_format=data_format,
                                     dilations=per_dim(dilation_rate))


def depthwise_conv2d(x, depthwise_kernel, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1)):
    data_format = layer_utils.convert_data_format(data_format or image_data_format(), 4)
    per_dim = lambda v: [1, 1] + list(v) if data_format == "NCHW" else [1] + list(v) + [1]
    return raw.depthwise_conv2d_native(x, depthwise_kernel, strides=per_dim(strides), padding=padding.upper(),
                                       data_format=data_format, dilations=per_dim(dilation_rate))


def separable_conv2d(x, depthwise_kernel, pointwise_kernel, strides=(1, 1), padding="valid", data_format=None,
                     dilation_rate=(1, 1)):
    each = depthwise_conv2d(x, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv2d(each, pointwise_kernel, data_format=data_format)


def pool2d(x, pool_size, strides=(1, 1), padding="valid", data_format=None, pool_mode="max"):
    return _pool(2, x, pool_size, strides, padding, data_format, pool_mode)


def pool3d(x, pool_size, strides=(1, 1, 1), padding="valid", data_format=None, pool_mode="max"):
    return _pool(3, x, pool_size, strides, padding, data_format, pool_mode)


def _pool(rank, x, pool_size, strides, padding, data_format, pool_mode):
    from ..layers import pooling
    if pool_mode not in ("max", "avg"):
        raise ValueError("Invalid pooling mode: " + str(pool_mode))
    base = getattr(pooling, "%sPooling%dDBase" % ({"max": "Max", "avg": "Average"}[pool_mode], rank))
    return base(pool_size, strides, padding, data_format or image_data_format(), name="pool").call(x)


# ---- normalization and noise ----

def batch_normalization(x, mean, var, beta, gamma, axis=-1, epsilon=1e-3):
    rank = ndim(x)
    if rank is not None and axis % rank != rank - 1:
        wide = [-1 if i == axis % rank else 1 for i in range(rank)]
        mean, var, beta, gamma = (v if v is None or ndim(v) != 1 else tf.reshape(v, wide) for v in (mean, var, beta, gamma))
    scale = tf.rsqrt(var + epsilon) if gamma is None else tf.rsqrt(var + epsilon) * gamma
    out = (x - mean) * scale
    return out if beta is None else out + beta


def normalize_batch_in_training(x, gamma, beta, reduction_axes, epsilon=1e-3):
    m = tf.reduce_mean(x, axis=reduction_axes, keepdims=True)
    v = tf.reduce_mean(tf.square(x - tf.stop_gradient(m)), axis=reduction_axes, keepdims=True)
    wide = tf.shape(m)
    out = batch_normalization(x, m, v, None if beta is None else tf.reshape(beta, wide),
                              None if gamma is None else tf.reshape(gamma, wide), epsilon=epsilon)
    return out, tf.squeeze(m, reduction_axes), tf.squeeze(v, reduction_axes)


def dropout(x, level, noise_shape=None, seed=None):
    return tf.nn.dropout(x, rate=level, noise_shape=noise_shape, seed=_seed(seed))


def random_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    return tf.random_normal(shape, mean, stddev, dtypes.as_dtype(dtype or floatx()), _seed(seed))


def random_uniform(shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
    return tf.random_uniform(shape, minval, maxval, dtypes.as_dtype(dtype or floatx()), _seed(seed))


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    return tf.truncated_normal(shape, mean, stddev, dtypes.as_dtype(dtype or floatx()), _seed(seed))


def random_binomial(shape, p=0.0, dtype=None, seed=None):
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
    if not from_logits:
        logits = _logits_of(output, "Softmax") if axis in (-1, ndim(output) - 1) else None
        if logits is None:
            output = output / tf.reduce_sum(output, axis=axis, keepdims=True)
            return -tf.reduce_sum(target * tf.log(_clipped(output)), axis=axis)
        output = logits
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=target, logits=output, axis=axis)


def sparse_categorical_crossentropy(target, output, from_logits=False, axis=-1):
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
    if not from_logits:
        logits = _logits_of(output, "Sigmoid")
        if logits is None:
            output, tiny = _clipped(output), epsilon()
            return -(target * tf.log(output + tiny) + (1 - target) * tf.log(1 - output + tiny))
        output = logits
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=output)


def in_top_k(predictions, targets, k):
    return raw.in_top_kv2(predictions, targets, k)


# ---- connectionist temporal classification ----

def ctc_label_dense_to_sparse(labels, label_lengths):
    """The labels as a SparseTensor: of each row as many as its length says."""
    there = tf.sequence_mask(tf.reshape(label_lengths, [-1]), tf.shape(labels)[1])
    indices = tf.where(there)
    return SparseTensor(indices, tf.gather_nd(labels, indices), tf.cast(tf.shape(labels), tf.int64))


def ctc_batch_cost(y_true, y_pred, input_length, label_length):
    sparse = ctc_label_dense_to_sparse(tf.cast(y_true, tf.int32), tf.cast(tf.squeeze(label_length, [-1]), tf.int32))
    logits = tf.log(tf.transpose(y_pred, [1, 0, 2]) + epsilon())
    loss = raw.ctc_loss(logits, sparse.indices, sparse.values, tf.cast(tf.squeeze(input_length, [-1]), tf.int32))[0]
    return tf.expand_dims(loss, 1)


def ctc_decode(y_pred, input_length, greedy=True, beam_width=100, top_paths=1):
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
    return tf.map_fn(fn, elems, name=name, dtype=dtype)


def foldl(fn, elems, initializer=None, name=None):
    return tf.foldl(fn, elems, initializer=initializer, name=name)


def foldr(fn, elems, initializer=None, name=None):
    return tf.foldr(fn, elems, initializer=initializer, name=name)


def local_conv1d(inputs, kernel, kernel_size, strides, data_format=None):
    return local_conv(inputs, kernel, kernel_size, strides, None, data_format)


def local_conv2d(inputs, kernel, kernel_size, strides, output_shape, data_format=None):
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
