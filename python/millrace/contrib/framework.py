"""tf.contrib.framework: variables that are found by name, groups of variables, default arguments (arg_scope)."""

import functools
import re
import sys

import numpy as np

from ..framework import convert, dtypes, nest, ops, shapes  # noqa: F401 -- nest is a public name here
from ..framework.device import DeviceSpec
from ..ops import array, control_flow, math, state
from ..ops import variable_scope as vs
from ..ops import variables as _variables
from .arg_scope import (add_arg_scope, arg_scope, arg_scope_func_key, arg_scoped_arguments, current_arg_scope,  # noqa: F401
                        has_arg_scope)

_KEYS = ops.GraphKeys
AUTO, NONE = _variables.VariableSynchronization.AUTO, _variables.VariableAggregation.NONE


# ---- making ----

@add_arg_scope
def variable(name, shape=None, dtype=None, initializer=None, regularizer=None, trainable=True, collections=None,
             caching_device=None, device=None, partitioner=None, custom_getter=None, use_resource=None, synchronization=AUTO,
             aggregation=NONE):
    """get_variable, on a device."""
    collections = list(dict.fromkeys(collections if collections is not None else [_KEYS.GLOBAL_VARIABLES]))
    getter = vs.get_variable
    if custom_getter is not None:
        getter = functools.partial(custom_getter, reuse=vs.get_variable_scope().reuse)
    with ops.device(device or ""):
        return getter(name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
                      collections=collections, caching_device=caching_device, partitioner=partitioner,
                      use_resource=use_resource, synchronization=synchronization, aggregation=aggregation)


@add_arg_scope
def model_variable(name, shape=None, dtype=dtypes.float32, initializer=None, regularizer=None, trainable=True, collections=None,
                   caching_device=None, device=None, partitioner=None, custom_getter=None, use_resource=None,
                   synchronization=AUTO, aggregation=NONE):
    """A variable that is part of the model, as the collection MODEL_VARIABLES tells."""
    collections = list(collections or []) + [_KEYS.GLOBAL_VARIABLES, _KEYS.MODEL_VARIABLES]
    return variable(name, shape, dtype, initializer, regularizer, trainable, collections, caching_device, device, partitioner,
                    custom_getter, use_resource, synchronization, aggregation)


def local_variable(initial_value, validate_shape=True, name=None, use_resource=None):
    """Makes a variable in the collection LOCAL_VARIABLES that training does not change."""
    return _variables.Variable(initial_value, trainable=False, collections=[_KEYS.LOCAL_VARIABLES],
                               validate_shape=validate_shape, use_resource=use_resource, name=name)


def global_variable(initial_value, validate_shape=True, name=None, use_resource=None):
    """Makes a variable in the collection GLOBAL_VARIABLES that training does not change."""
    return _variables.Variable(initial_value, trainable=False, collections=[_KEYS.GLOBAL_VARIABLES],
                               validate_shape=validate_shape, use_resource=use_resource, name=name)


def add_model_variable(var):
    """Adds a variable to the collection MODEL_VARIABLES if it is not there."""
    if not any(v is var for v in ops.get_collection_ref(_KEYS.MODEL_VARIABLES)):
        ops.add_to_collection(_KEYS.MODEL_VARIABLES, var)


class VariableDeviceChooser:
    """Puts variables on the tasks of a job, one after the other."""

    def __init__(self, num_tasks=0, job_name="ps", device_type="CPU", device_index=0, replica=None):
        self._spec = dict(job=job_name, device_type=device_type, device_index=device_index, replica=replica)
        self._num_tasks, self._next = num_tasks, 0

    def __call__(self, op):
        spec = dict(self._spec)
        if self._num_tasks > 0:
            spec["task"] = self._next
            self._next = (self._next + 1) % self._num_tasks
        else:
            spec["job"] = None  # there are no other jobs: the variable stays where it is created
        return DeviceSpec(**spec).to_string()


# ---- finding ----

def get_variables(scope=None, suffix=None, collection=_KEYS.GLOBAL_VARIABLES):
    """Returns the variables whose names begin with scope and end with suffix."""
    if isinstance(scope, vs.VariableScope):
        scope = scope.name
    if suffix is not None:
        scope = (scope or "") + ".*" + (suffix if ":" in suffix else suffix + ":")
    return ops.get_collection(collection, scope)


def get_model_variables(scope=None, suffix=None):
    """Returns the model variables in a scope, with names that end in suffix."""
    return get_variables(scope, suffix, _KEYS.MODEL_VARIABLES)


def get_local_variables(scope=None, suffix=None):
    """Returns the local variables in a scope, with names that end in suffix."""
    return get_variables(scope, suffix, _KEYS.LOCAL_VARIABLES)


def get_trainable_variables(scope=None, suffix=None):
    """Returns the trainable variables in a scope, with names that end in suffix."""
    return get_variables(scope, suffix, _KEYS.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix, scope=None):
    """Returns the global variables in a scope with names that end in suffix."""
    return get_variables(scope=scope, suffix=suffix)


def get_variables_by_name(given_name, scope=None):
    """Returns the global variables in a scope whose last part of the name is given_name."""
    return get_variables(scope=scope, suffix="/" + given_name + ":|^" + given_name + ":")


def get_variables_to_restore(include=None, exclude=None):
    """The variables under the scopes of include (all for None), without those under the scopes of exclude."""
    def under(scopes):
        if not isinstance(scopes, (list, tuple)):
            raise TypeError("include and exclude must be lists or tuples, got %s" % (scopes,))
        return [v for s in scopes for v in get_variables(s)]

    wanted = get_variables() if include is None else under(include)
    left_out = set() if exclude is None else set(map(id, under(exclude)))
    return [v for v in wanted if id(v) not in left_out]


def get_unique_variable(var_op_name):
    """The variable of this name."""
    candidates = get_variables(scope=var_op_name)
    if not candidates:
        raise ValueError("Couldn't find variable %s" % var_op_name)
    for v in candidates:
        if v.op.name == var_op_name:
            return v
    raise ValueError("Variable %s does not uniquely identify a variable" % var_op_name)


def get_variable_full_name(var):
    """Returns the name of a variable in checkpoints: for a part of a variable, that of the whole."""
    info = var._get_save_slice_info()
    return var.op.name if info is None else info.full_name


def filter_variables(var_list, include_patterns=None, exclude_patterns=None, reg_search=True):
    """Returns the variables whose names match one of include_patterns, if given, and none of exclude_patterns."""
    match = re.search if reg_search else re.match
    fits = lambda v, patterns: any(match(p, v.name) for p in patterns)
    kept = [v for v in var_list if not include_patterns or fits(v, include_patterns)]
    return [v for v in kept if not exclude_patterns or not fits(v, exclude_patterns)]


# ---- giving values ----

def assign_from_values(var_names_to_values):
    """An operation that sets variables, and the feed that it needs."""
    feed, changes = {}, []
    for name, value in var_names_to_values.items():
        v = get_unique_variable(name)
        place = array.placeholder(v.dtype.base_dtype, name="placeholder/" + v.op.name)
        changes.append(state.assign(v, place, validate_shape=False))
        feed[place] = np.asarray(value).reshape(v.shape.as_list())
    return control_flow.group(*changes), feed


def assign_from_values_fn(var_names_to_values):
    """Returns a function of a session that sets variables to arrays: {name: array}."""
    op, feed = assign_from_values(var_names_to_values)
    return lambda session: session.run(op, feed)


def _by_checkpoint_name(var_list):
    if isinstance(var_list, (list, tuple)):
        return {get_variable_full_name(v): [v] for v in var_list}
    return {name: v if isinstance(v, list) else [v] for name, v in var_list.items()}


def assign_from_checkpoint(model_path, var_list, ignore_missing_vars=False):
    """An operation that sets variables to what a checkpoint has, and the feed that it needs."""
    from .. import train
    reader = train.NewCheckpointReader(model_path)
    feed, changes = {}, []
    for name, vs_ in _by_checkpoint_name(var_list).items():
        if not reader.has_tensor(name):
            if ignore_missing_vars:
                continue
            raise ValueError("Checkpoint is missing variable [%s]" % name)
        value = reader.get_tensor(name)
        for v in vs_:
            part = _part_of(v, value)
            if v.shape.num_elements() != part.size:
                raise ValueError("Total size of new array must be unchanged for %s lh_shape: [%s], rh_shape: [%s]" %
                                 (name, part.shape, v.shape))
            place = array.placeholder(v.dtype.base_dtype, v.shape, name="checkpoint_initializer")
            changes.append(state.assign(v, place))
            feed[place] = part.reshape(v.shape.as_list())
    return control_flow.group(*changes), feed


def _part_of(v, value):
    info = v._get_save_slice_info()
    if info is None:
        return value
    return value[tuple(slice(o, o + n) for o, n in zip(info.var_offset, info.var_shape))]


def assign_from_checkpoint_fn(model_path, var_list, ignore_missing_vars=False, reshape_variables=False):
    """A function of a session that sets variables to what a checkpoint has."""
    from .. import logging, train
    if not var_list:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = train.NewCheckpointReader(model_path)
        named = var_list if isinstance(var_list, dict) else {v.op.name: v for v in var_list}
        var_list = {n: v for n, v in named.items() if reader.has_tensor(n)}
        for n in named.keys() - var_list.keys():
            logging.warning("Variable %s missing in checkpoint %s", n, model_path)
        if not var_list:
            logging.warning("No Variables to restore")
            return None
    saver = train.Saver(var_list, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


def zero_initializer(ref, use_locking=True, name="zero_initializer"):
    """Sets a variable that has no value yet to zero; one that has is an error of the run."""
    with ops.name_scope(name):
        unset = control_flow.Assert(math.logical_not(state.is_variable_initialized(ref)), ["input is already initialized"])
        with ops.control_dependencies([unset]):
            return state.assign(ref, array.zeros(ref.shape, ref.dtype.base_dtype), validate_shape=False,
                                use_locking=use_locking)


# ---- tensors ----

def is_tensor(x):
    """Whether the argument is a tensor, a sparse tensor, IndexedSlices or a variable."""
    from ..framework.sparse import SparseTensor
    return isinstance(x, (ops.Tensor, SparseTensor, ops.IndexedSlices, _variables.Variable))


def assert_same_float_dtype(tensors=None, dtype=None):
    """Raises ValueError unless all tensors have the same floating-point type; returns the type."""
    from ..ops import check
    return check.assert_same_float_dtype(tensors, dtype)


def assert_scalar(tensor, name=None):
    """Raises ValueError if the static shape is not that of a scalar; returns the tensor."""
    from ..ops import check
    return check.assert_scalar(tensor, name=name)


def assert_scalar_int(tensor, name=None):
    """Raises ValueError unless the tensor is a scalar of type int32 or int64; returns the tensor."""
    tensor = convert.convert_to_tensor(tensor, name=name)
    if tensor.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
        raise ValueError("Expected int32 or int64 dtype for tensor: %s" % tensor)
    return assert_scalar(tensor)


def reduce_sum_n(tensors, name=None):
    """The sum of all elements of all of them."""
    if not tensors:
        raise ValueError("No tensors provided.")
    with ops.name_scope(name, "reduce_sum_n", tensors):
        sums = [t if t.shape.ndims == 0 else math.reduce_sum(t) for t in tensors]
        return sums[0] if len(sums) == 1 else math.add_n(sums)


def with_shape(expected_shape, tensor):
    """The tensor, whose shape must be this: what is known of both is compared now, the rest when it is computed."""
    tensor = convert.convert_to_tensor(tensor)
    is_tensor_ = isinstance(expected_shape, ops.Tensor)
    known = convert.constant_value_as_shape(expected_shape) if is_tensor_ else shapes.as_shape(expected_shape)
    if not tensor.shape.is_compatible_with(known):
        raise ValueError("Incompatible shapes for %s, expected %s, got %s." % (tensor.name, known, tensor.shape))
    is_open = is_tensor_ and not known.is_fully_defined() or known.is_fully_defined() and not tensor.shape.is_fully_defined()
    if is_open:
        wanted = math.to_int32(expected_shape if is_tensor_ else known.as_list())
        with ops.control_dependencies([_assert_shape(tensor, wanted)]):
            tensor = array.identity(tensor)
    tensor.set_shape(known)
    return tensor


def _assert_shape(tensor, expected):
    """Ranks first: shapes of other ranks could be equal by broadcasting."""
    found = array.shape(tensor)
    what = ["Wrong shape for %s [expected] [actual]." % tensor.name, expected, found]
    with ops.control_dependencies([control_flow.Assert(math.equal(array.size(found), array.size(expected)), what)]):
        return control_flow.Assert(math.reduce_all(math.equal(found, expected)), what)


def with_same_shape(expected_tensor, tensor):
    """Returns the tensor with a check that it has the shape of expected_tensor."""
    return with_shape(expected_tensor.shape, tensor)


def deprecated(date, instructions, warn_once=True):
    """Marks a function that is to go: the first call says so."""
    def decorator(func):
        told = []

        @functools.wraps(func)
        def f(*args, **kwargs):
            if not told or not warn_once:
                from .. import logging
                told.append(True)
                logging.warning("%s is deprecated and will be removed %s. Instructions for updating:\n%s", func.__name__,
                                "in a future version" if date is None else "after %s" % date, instructions)
            return func(*args, **kwargs)

        return f

    return decorator


_ELSEWHERE = dict.fromkeys(("assert_global_step", "create_global_step", "get_global_step", "get_or_create_global_step",
                            "init_from_checkpoint", "list_variables", "load_checkpoint", "load_variable"), "train")
_ELSEWHERE.update(argsort="ops.array", broadcast_to="ops.array", py_func="ops.script",
                  remove_squeezable_dimensions="ops.weights", smart_cond="ops.control_flow",
                  smart_constant_value="ops.control_flow", sort="ops.array")


def __getattr__(name):
    if name == "__all__":
        from .. import lazy
        return lazy.exported(__name__, _ELSEWHERE)
    if name == "variables":  # a module of TensorFlow's that has the functions of this one
        return sys.modules[__name__]
    if name not in _ELSEWHERE:
        raise AttributeError("module 'tf.contrib.framework' has no attribute %r" % name)
    import importlib
    return getattr(importlib.import_module("millrace." + _ELSEWHERE[name]), name)
