"""Scopes of variables: tf.get_variable finds or makes a variable by name, tf.variable_scope says under which name and how.

A graph has one store of the variables made by get_variable, and for each thread the scope it is in together with how often a
scope of a name was opened (so that default names differ).  Names of variables depend on variable scopes only, those of
operations on name scopes; a variable scope opens a name scope of the same name too, which gets a number when the name was used
before.
"""

import contextlib
import enum
import functools
import inspect
import threading

from ..framework import convert, dtypes, ops, shapes
from ..framework.op_defs import raw
from . import variables

__all__ = ["AUTO_REUSE", "VariableScope", "get_local_variable", "get_variable", "get_variable_scope", "no_regularizer",
           "variable_op_scope", "variable_scope"]


class _ReuseMode(enum.Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE
_INHERITED = ("initializer", "regularizer", "caching_device", "partitioner", "custom_getter", "dtype", "use_resource",
              "constraint")


def no_regularizer(unused_tensor):
    """Returns None: the regularizer of variables that are not to be regularized."""
    return None


# ---- making and finding ----

class PartitionInfo:
    """For initializers: the shape of the whole variable, and where the part in question begins."""

    def __init__(self, full_shape, var_offset):
        if not isinstance(full_shape, (list, tuple)) or not isinstance(var_offset, (list, tuple)):
            raise TypeError("full_shape and var_offset must be sequences: %s, %s" % (full_shape, var_offset))
        if len(full_shape) != len(var_offset):
            raise ValueError("Expected equal length, but var_offset is of length %d while full_shape is of length %d." %
                             (len(var_offset), len(full_shape)))
        for offset, size in zip(var_offset, full_shape):
            if offset < 0 or offset >= size:
                raise ValueError("Expected 0 <= offset < shape but found offset=%s, shape=%s for var_offset=%s, full_shape=%s" %
                                 (offset, size, var_offset, full_shape))
        self.full_shape, self.var_offset = list(full_shape), list(var_offset)

    def single_offset(self, shape):
        """The offset along the one dimension that is cut."""
        axis = self.single_slice_dim(shape)
        return 0 if axis is None else self.var_offset[axis]

    def single_slice_dim(self, shape):
        if len(shape) != len(self.full_shape):
            raise ValueError("Expected equal length, but received shape=%s of length %d while self.full_shape=%s is of length "
                             "%d." % (shape, len(shape), self.full_shape, len(self.full_shape)))
        for offset, part, full in zip(self.var_offset, shape, self.full_shape):
            if offset + part > full:
                raise ValueError("With self.var_offset=%s, a partition of shape=%s would exceed self.full_shape=%s." %
                                 (self.var_offset, shape, self.full_shape))
        cut = [i for i, (part, full) in enumerate(zip(shape, self.full_shape)) if part != full]
        if len(cut) > 1:
            raise ValueError("Cannot use single_slice_dim() with shape=%s and self.full_shape=%s since slice dim could be "
                             "either dimension %d or %d." % (shape, self.full_shape, cut[0], cut[1]))
        return cut[0] if cut else None


class VariableStore:
    """The variables of a graph that were made by get_variable."""

    def __init__(self):
        self._vars, self._partitioned_vars = {}, {}

    def get_variable(self, name, shape=None, dtype=dtypes.float32, initializer=None, regularizer=None, reuse=None,
                     trainable=None, collections=None, caching_device=None, partitioner=None, validate_shape=True,
                     use_resource=None, custom_getter=None, constraint=None,
                     synchronization=variables.VariableSynchronization.AUTO, aggregation=variables.VariableAggregation.NONE):
        """The variable of this full name.  With reuse=None it is found or made."""
        if custom_getter is not None and not callable(custom_getter):
            raise ValueError("Passed a custom_getter which is not callable: %s" % custom_getter)
        if trainable is None:
            trainable = synchronization is not variables.VariableSynchronization.ON_READ
        how = dict(shape=shape, dtype=dtypes.as_dtype(dtype or dtypes.float32).base_dtype, initializer=initializer,
                   regularizer=regularizer, reuse=reuse, trainable=trainable, collections=collections,
                   caching_device=caching_device, partitioner=partitioner, validate_shape=validate_shape,
                   use_resource=use_resource, synchronization=synchronization, aggregation=aggregation)
        if custom_getter is None:
            return self._get(name, constraint=constraint, **how)
        if _takes(custom_getter, "constraint"):
            return custom_getter(getter=self._get, name=name, constraint=constraint, **how)
        return custom_getter(getter=functools.partial(self._get, constraint=constraint), name=name, **how)

    def _get(self, name, shape=None, dtype=dtypes.float32, initializer=None, regularizer=None, reuse=None, trainable=None,
             collections=None, caching_device=None, partitioner=None, validate_shape=True, use_resource=None, constraint=None,
             synchronization=variables.VariableSynchronization.AUTO, aggregation=variables.VariableAggregation.NONE):
        """What custom getters call in the end."""
        how = dict(regularizer=regularizer, reuse=reuse, trainable=trainable, collections=collections, constraint=constraint,
                   caching_device=caching_device, validate_shape=validate_shape, use_resource=use_resource,
                   synchronization=synchronization, aggregation=aggregation)
        dtype = dtypes.as_dtype(dtype or dtypes.float32).base_dtype
        is_scalar = isinstance(shape, (list, tuple)) and not shape or isinstance(shape, shapes.TensorShape) and shape.ndims == 0
        if partitioner is not None and not is_scalar:
            if not callable(partitioner):
                raise ValueError("Partitioner must be callable, but received: %s" % partitioner)
            with ops.name_scope(None):
                return self._get_partitioned(name, partitioner, shape, dtype, initializer, how)
        if reuse is True and partitioner is None and name in self._partitioned_vars:
            return self._get_partitioned(name, None, shape, dtype, initializer, how)
        if "%s/part_0" % name in self._vars:
            raise ValueError("No partitioner was provided, but a partitioned version of the variable was found: %s/part_0. "
                             "Perhaps a variable of the same name was already created with partitioning?" % name)
        return self._get_single(name, shape, dtype, initializer, how)

    def _get_single(self, name, shape, dtype, initializer, how, partition_info=None):
        from_value = initializer is not None and not callable(initializer)
        if shape is not None and from_value:
            raise ValueError("If initializer is a constant, do not specify shape.")
        shape = shapes.as_shape(shape)
        if name in self._vars:
            return self._found(name, shape, dtype, how["reuse"])
        if how["reuse"] is True:
            raise ValueError("Variable %s does not exist, or was not created with tf.get_variable(). Did you mean to set "
                             "reuse=tf.AUTO_REUSE in VarScope?" % name)
        if initializer is None:
            initializer = default_initializer(name, dtype)
        if not from_value:
            initializer, dtype = _initial_value_function(name, shape, dtype, initializer, partition_info)
        how = dict(how)
        regularizer = how.pop("regularizer")
        how.pop("reuse")
        v = variables.Variable(initial_value=initializer, name=name, dtype=None if from_value else dtype, **how)
        self._vars[name] = v
        if regularizer:
            _regularize(v, name, regularizer)
        return v

    def _found(self, name, shape, dtype, reuse):
        v = self._vars[name]
        if reuse is False:
            raise ValueError("Variable %s already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
                             "VarScope? Originally defined at:\n\n%s" % (name, _where(v)))
        if not shape.is_compatible_with(v.get_shape()):
            raise ValueError("Trying to share variable %s, but specified shape %s and found shape %s." %
                             (name, shape, v.get_shape()))
        if not dtype.is_compatible_with(v.dtype.base_dtype):
            raise ValueError("Trying to share variable %s, but specified dtype %s and found dtype %s." %
                             (name, dtype.name, v.dtype.base_dtype.name))
        return v

    def _get_partitioned(self, name, partitioner, shape, dtype, initializer, how):
        if name in self._vars:
            raise ValueError("A partitioner was provided, but an unpartitioned version of the variable was found: %s.  "
                             "Perhaps a variable of the same name was already created without partitioning?" % name)
        shape = shapes.as_shape(shape)
        if initializer is not None and not callable(initializer):
            initializer = convert.convert_to_tensor(initializer, None if isinstance(initializer, ops.Tensor) else dtype)
            shape, dtype = shape.merge_with(initializer.shape), initializer.dtype.base_dtype
        partitions = None if partitioner is None else _partitions(partitioner, shape, dtype)
        if name in self._partitioned_vars:
            return self._found_partitioned(name, shape, dtype, partitions, how["reuse"])
        if how["reuse"] is True:
            raise ValueError("PartitionedVariable %s does not exist, or was not created with tf.get_variable(). Did you mean "
                             "to set reuse=False or reuse=tf.AUTO_REUSE in VarScope?" % name)
        parts = [self._part(name, i, shape.as_list(), offset, part_shape, dtype, initializer, how)
                 for i, (offset, part_shape) in enumerate(_slices(shape.as_list(), partitions))]
        whole = variables.PartitionedVariable(name, shape, dtype, parts, partitions)
        self._partitioned_vars[name] = whole
        return whole

    def _part(self, name, i, full_shape, offset, shape, dtype, initializer, how):
        part_name = "%s/part_%d" % (name, i)
        init, init_shape = initializer, shape
        if isinstance(initializer, ops.Tensor):
            with ops.name_scope(part_name + "/PartitionedInitializer"):
                init, init_shape = raw.slice(initializer, offset, shape), None
        with ops.name_scope(None):
            v = self._get_single(part_name, init_shape, dtype, init, how, PartitionInfo(full_shape, offset))
        v._set_save_slice_info(variables.Variable.SaveSliceInfo(name, full_shape, offset, shape))
        return v

    def _found_partitioned(self, name, shape, dtype, partitions, reuse):
        v = self._partitioned_vars[name]
        if reuse is False:
            raise ValueError("Partitioned variable with name %s already exists. Did you mean to set reuse=True or "
                             "reuse=tf.AUTO_REUSE in VarScope?" % name)
        for what, wanted, found, fits in (
                ("shape", shape, v.get_shape(), shape.is_compatible_with(v.get_shape())),
                ("dtype", dtype.name, v.dtype.name, dtype.is_compatible_with(v.dtype)),
                ("partitions", partitions, v._get_partitions(), partitions in (None, v._get_partitions()))):
            if not fits:
                raise ValueError("Trying to reuse partitioned variable %s, but specified %s %s and found %s %s." %
                                 (name, what, wanted, what, found))
        return v


def _where(v):
    return "\n".join('  File "%s", line %d, in %s\n    %s' % frame for frame in v.op.traceback[::-1][:5])


_call_parameters = {}  # class of callable objects -> what calling one takes; functions come and go and are not kept


def _parameters(f):
    """The parameters of a callable, None when nothing is known of them."""
    kind = type(f)
    if kind in _call_parameters:
        return _call_parameters[kind]
    try:
        found = tuple(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        found = None
    if not isinstance(f, type) and inspect.isfunction(getattr(kind, "__call__", None)):
        _call_parameters[kind] = found
    return found


def _takes(f, name):
    """Whether a callable has a parameter of this name, or takes any."""
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in _parameters(f) or ())


def _needs_no_arguments(f):
    parameters = _parameters(f)
    return parameters is not None and all(
        p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def default_initializer(name, dtype):
    """What a variable begins with when nothing is said."""
    from .. import initializers
    if dtype.is_floating:
        return initializers.glorot_uniform()
    if dtype.is_integer or dtype.is_bool or dtype is dtypes.string:
        return initializers.zeros()
    raise ValueError("An initializer for variable %s of %s is required" % (name, dtype.name))


def _initial_value_function(name, shape, dtype, initializer, partition_info):
    """A function without arguments that makes the initial value, and the type it is to have (None: as it comes)."""
    if inspect.isclass(initializer):
        initializer = initializer(dtype=dtype) if _takes(initializer, "dtype") else initializer()
    if shape.is_fully_defined() and not (_needs_no_arguments(initializer) and not _takes(initializer, "shape")):
        more = {"partition_info": partition_info} if _takes(initializer, "partition_info") else {}
        if _takes(initializer, "dtype"):
            more["dtype"] = dtype
            return lambda: initializer(shape.as_list(), **more), dtype
        return lambda: initializer(shape.as_list(), dtype, **more), dtype
    if _needs_no_arguments(initializer):
        return initializer, None
    raise ValueError("The initializer passed is not valid. It should be a callable with no arguments and the shape should not "
                     "be provided or an instance of `tf.keras.initializers.*' and `shape` should be fully defined. (Variable "
                     "%s has the shape %s.)" % (name, shape))


def _regularize(v, name, regularizer):
    """The penalty on a variable, once, when it is made."""
    with ops.colocate_with(v.op), ops.name_scope(name + "/Regularizer/"), ops.init_scope():
        loss = regularizer(v)
    if loss is not None:
        ops.add_to_collection(ops.GraphKeys.REGULARIZATION_LOSSES, loss)


def _partitions(partitioner, shape, dtype):
    if not shape.is_fully_defined():
        raise ValueError("Shape of a new partitioned variable must be fully defined, but instead was %s." % shape)
    if shape.ndims < 1:
        raise ValueError("A partitioned Variable must have rank at least 1, shape: %s" % shape)
    counts = partitioner(shape=shape, dtype=dtype)
    if not isinstance(counts, (list, tuple)):
        raise ValueError("Partitioner must return a sequence, but saw: %s" % (counts,))
    if len(counts) != shape.ndims:
        raise ValueError("Partitioner returned a partition list that does not match the Variable's rank: %s vs. %s" %
                         (counts, shape))
    if any(p < 1 for p in counts):
        raise ValueError("Partitioner returned zero partitions for some axes: %s." % (counts,))
    if sum(p > 1 for p in counts) > 1:
        raise ValueError("Can only slice a variable along one dimension: shape: %s, partitioning: %s" % (shape, counts))
    return counts


def _slices(full_shape, partitions):
    """(offset, shape) of the parts; the first ones take what does not divide."""
    axis = next((i for i, p in enumerate(partitions) if p > 1), 0)
    n = partitions[axis]
    if n > max(full_shape[axis], 1):
        raise ValueError("A dimension of size %d cannot be split into %d parts" % (full_shape[axis], n))
    size, excess = divmod(full_shape[axis], n)
    at = 0
    for i in range(n):
        shape, offset = list(full_shape), [0] * len(full_shape)
        shape[axis], offset[axis] = size + (i < excess), at
        at += shape[axis]
        yield offset, shape


# ---- scopes ----

class VariableScope:
    """What get_variable follows: a name prefix, whether to reuse variables, and defaults for new ones."""

    def __init__(self, reuse, name="", initializer=None, regularizer=None, caching_device=None, partitioner=None,
                 custom_getter=None, name_scope="", dtype=dtypes.float32, use_resource=None, constraint=None):
        self._reuse, self._name, self._name_scope = reuse, name, name_scope
        self._initializer, self._regularizer, self._constraint = initializer, regularizer, constraint
        self._caching_device, self._partitioner = caching_device, partitioner
        self._custom_getter, self._dtype, self._use_resource = custom_getter, dtype, use_resource

    def _copy(self, **changes):
        how = {k: getattr(self, "_" + k) for k in _INHERITED}
        how.update(reuse=self._reuse, name=self._name, name_scope=self._name_scope)
        how.update(changes)
        return VariableScope(**how)

    name = property(lambda self: self._name, doc="The name that variables of the scope start with.")
    original_name_scope = property(lambda self: self._name_scope,
                                   doc="The name scope that was opened with this variable scope.")
    reuse = property(lambda self: self._reuse,
                     doc="True, False or AUTO_REUSE: whether get_variable returns existing variables.")
    initializer = property(lambda self: self._initializer, doc="The default initializer, or None.")
    dtype = property(lambda self: self._dtype, doc="The default type of variables.")
    use_resource = property(lambda self: self._use_resource,
                            doc="Whether the scope makes resource variables; None leaves it to the default.")
    regularizer = property(lambda self: self._regularizer, doc="The default regularizer, or None.")
    constraint = property(lambda self: self._constraint, doc="The default constraint, or None.")
    caching_device = property(lambda self: self._caching_device, doc="The device that reads are cached on, or None.")
    partitioner = property(lambda self: self._partitioner, doc="The default partitioner, or None.")
    custom_getter = property(lambda self: self._custom_getter,
                             doc="The function that get_variable calls instead of its own getter, or None.")

    def reuse_variables(self):
        """Makes the scope reuse variables from now on."""
        self._reuse = True

    def set_initializer(self, initializer):
        """Sets the default initializer of the scope."""
        self._initializer = initializer

    def set_dtype(self, dtype):
        """Sets the default type of variables in the scope."""
        self._dtype = dtype

    def set_use_resource(self, use_resource):
        """Sets whether the scope makes resource variables."""
        self._use_resource = use_resource

    def set_regularizer(self, regularizer):
        """Sets the default regularizer of the scope."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device):
        """Sets the default caching device of the scope."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner):
        """Sets the default partitioner of the scope."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter):
        """Sets the custom getter of the scope."""
        self._custom_getter = custom_getter

    def get_collection(self, name):
        """The members of a collection whose names begin with this scope's."""
        return ops.get_collection(name, self._name + "/" if self._name else "")

    def trainable_variables(self):
        """Returns the trainable variables of the scope."""
        return self.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self):
        """Returns the global variables of the scope."""
        return self.get_collection(ops.GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self):
        """Returns the local variables of the scope."""
        return self.get_collection(ops.GraphKeys.LOCAL_VARIABLES)

    def get_variable(self, var_store, name, shape=None, dtype=None, initializer=None, regularizer=None, reuse=None,
                     trainable=None, collections=None, caching_device=None, partitioner=None, validate_shape=True,
                     use_resource=None, custom_getter=None, constraint=None,
                     synchronization=variables.VariableSynchronization.AUTO, aggregation=variables.VariableAggregation.NONE):
        """The variable of this name under the scope."""
        given = dict(regularizer=regularizer, caching_device=caching_device, partitioner=partitioner, reuse=reuse,
                     initializer=initializer, constraint=constraint, use_resource=use_resource, dtype=dtype,
                     custom_getter=custom_getter)
        with ops.name_scope(None):  # names of variables do not depend on name scopes
            _check_initializer_type(initializer, dtype)
            how = {k: getattr(self, "_" + k) if v is None else v for k, v in given.items()}
            return var_store.get_variable(self._name + "/" + name if self._name else name, shape=shape, trainable=trainable,
                                          collections=collections, validate_shape=validate_shape,
                                          synchronization=synchronization, aggregation=aggregation, **how)


def _check_initializer_type(initializer, dtype):
    if dtype is None or initializer is None or callable(initializer):
        return
    if hasattr(initializer, "dtype"):
        found = dtypes.as_dtype(initializer.dtype).base_dtype
    else:
        found = convert.as_array(initializer)[1]
    if found is not dtypes.as_dtype(dtype).base_dtype:
        raise ValueError("Initializer type '%s' and explicit dtype '%s' don't match." % (found, dtypes.as_dtype(dtype)))


class _ScopeStore(threading.local):
    """The scope a thread is in, and how often scopes of a name were opened.

    Counts are in a tree, [count, {part of a name: subtree}, free], so that to forget those below a scope costs nothing; name_1,
    name_2 and so on were opened up to name_free, excluded.  While a scope that existed before is open again, changes are recorded,
    and undone when it is left."""

    def __init__(self):
        super().__init__()
        self.current_scope = VariableScope(False)
        self._root = [0, {}, 1]
        self._changes = None  # [(tree, index, former value)]

    def _set(self, tree, index, value):
        if self._changes is not None:
            self._changes.append((tree, index, tree[index]))
        tree[index] = value

    def _find(self, name):
        tree = self._root
        for part in name.split("/"):
            tree = tree[1].get(part)
            if tree is None:
                return None
        return tree

    def opened(self, name):
        tree = self._root
        for part in name.split("/"):
            below = tree[1]
            tree = below.get(part)
            if tree is None:
                tree = below[part] = [0, {}, 1]
        self._set(tree, 0, tree[0] + 1)

    def close_subscopes(self, name):
        """Forgets what was opened under it, so that opening it again gives the same names."""
        tree = self._find(name) if name else self._root
        if tree is not None and tree[1]:
            self._set(tree, 1, {})

    def count(self, name):
        tree = self._find(name)
        return 0 if tree is None else tree[0]

    def unused_number(self, name):
        """The first i for which name_i was not opened; 0: the name itself was not."""
        tree = self._find(name)
        if tree is None or tree[0] == 0:
            return 0
        i = tree[2]
        while self.count("%s_%d" % (name, i)) > 0:
            i += 1
        if i != tree[2]:
            self._set(tree, 2, i)
        return i

    def record(self):
        """Records changes from now on; what `undo` takes."""
        former, self._changes = self._changes, []
        return former

    def undo(self, former):
        for tree, index, value in reversed(self._changes):
            tree[index] = value
        self._changes = former


def _scope_store():
    scoped = ops.get_default_graph()._scoped
    found = scoped.get("variable_scopes")
    if found is None:
        found = scoped["variable_scopes"] = _ScopeStore()
    return found


def _variable_store():
    scoped = ops.get_default_graph()._scoped
    found = scoped.get("variables")
    if found is None:
        found = scoped["variables"] = VariableStore()
    return found


def get_variable_scope():
    """Returns the current variable scope."""
    return _scope_store().current_scope


def get_variable(name, shape=None, dtype=None, initializer=None, regularizer=None, trainable=None, collections=None,
                 caching_device=None, partitioner=None, validate_shape=True, use_resource=None, custom_getter=None,
                 constraint=None, synchronization=variables.VariableSynchronization.AUTO,
                 aggregation=variables.VariableAggregation.NONE):
    """The variable of this name in the present scope, made if it is not there and the scope allows it."""
    return get_variable_scope().get_variable(
        _variable_store(), name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer,
        trainable=trainable, collections=collections, caching_device=caching_device, partitioner=partitioner,
        validate_shape=validate_shape, use_resource=use_resource, custom_getter=custom_getter, constraint=constraint,
        synchronization=synchronization, aggregation=aggregation)


def get_local_variable(name, shape=None, dtype=None, initializer=None, regularizer=None, trainable=False, collections=None,
                       caching_device=None, partitioner=None, validate_shape=True, use_resource=None, custom_getter=None,
                       constraint=None, synchronization=variables.VariableSynchronization.AUTO,
                       aggregation=variables.VariableAggregation.NONE):
    """get_variable for one that is neither trained nor saved."""
    return get_variable(
        name, shape, dtype, initializer, regularizer, False, list(collections or []) + [ops.GraphKeys.LOCAL_VARIABLES],
        caching_device, partitioner, validate_shape, use_resource, custom_getter, constraint, synchronization, aggregation)


def _wrapped_getter(outer, inner):
    """A getter that asks `outer`, which asks `inner` where it asks on."""
    if outer is None or inner is None:
        return outer or inner

    def both(getter, *args, **kwargs):
        return outer(functools.partial(inner, getter), *args, **kwargs)

    return both


def _opened(scope, given):
    """A copy of a scope with what is given."""
    given = {k: v for k, v in given.items() if v is not None}
    if "custom_getter" in given:
        given["custom_getter"] = _wrapped_getter(given["custom_getter"], scope.custom_getter)
    if "dtype" in given:
        given["dtype"] = dtypes.as_dtype(given["dtype"])
    return scope._copy(**given)


@contextlib.contextmanager
def pure_variable_scope(name_or_scope, reuse=None, name_scope=None, **given):
    """A variable scope that does not touch name scopes."""
    if reuse is False:
        reuse = None  # scopes inherit reuse; it cannot be switched off again
    store = _scope_store()
    old = store.current_scope
    is_object = isinstance(name_or_scope, VariableScope)
    if is_object:
        new = _opened(name_or_scope, dict(given, reuse=reuse or None))
    else:
        new_name = old.name + "/" + name_or_scope if old.name else name_or_scope
        new = _opened(old, dict(given, reuse=reuse or None, name=new_name,
                                name_scope=name_or_scope if name_scope is None else name_scope))
    store.opened(new.name)
    former = store.record() if is_object else None
    store.current_scope = new
    try:
        yield new
    finally:
        if is_object:
            store.undo(former)
        else:
            store.close_subscopes(new.name)
        store.current_scope = old


def unique_variable_scope_name(prefix):
    """A name for a scope here that was not opened yet."""
    store = _scope_store()
    full = store.current_scope.name + "/" + prefix if store.current_scope.name else prefix
    i = store.unused_number(full)
    return "%s_%d" % (prefix, i) if i else prefix


class variable_scope:  # noqa: N801 -- TensorFlow's name
    """`with tf.variable_scope("layer", reuse=tf.AUTO_REUSE) as scope:`"""

    def __init__(self, name_or_scope, default_name=None, values=None, initializer=None, regularizer=None, caching_device=None,
                 partitioner=None, custom_getter=None, reuse=None, dtype=None, use_resource=None, constraint=None,
                 auxiliary_name_scope=True):
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if name_or_scope is not None and not isinstance(name_or_scope, (str, VariableScope)):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError("The auxiliary_name_scope must be `True` or `False`, while get %s" % auxiliary_name_scope)
        if not (reuse in (None, True, False, AUTO_REUSE)):
            raise ValueError("The reuse parameter must be True or False or None.")
        self._name_or_scope, self._default_name, self._values = name_or_scope, default_name, values
        self._reuse, self._auxiliary = reuse or None, auxiliary_name_scope
        self._given = dict(initializer=initializer, regularizer=regularizer, caching_device=caching_device,
                           partitioner=partitioner, custom_getter=custom_getter, dtype=dtype, use_resource=use_resource,
                           constraint=constraint)
        self._entered = []

    def __enter__(self):
        stack = contextlib.ExitStack()
        try:
            if self._values:
                stack.enter_context(ops.graph_of(self._values).as_default())
            scope = self._enter(stack)
        except BaseException:
            stack.close()
            raise
        self._entered.append((stack, scope))
        return scope

    def __exit__(self, *exc):
        stack, scope = self._entered[-1]
        if get_variable_scope() is not scope:
            raise RuntimeError("Improper nesting of variable_scope.")
        self._entered.pop()
        return stack.__exit__(*exc)

    def _enter(self, stack):
        where = self._name_or_scope
        if where is None:
            if self._reuse:
                raise ValueError("reuse=True cannot be used without a name_or_scope")
            name_scope = self._name_scope(stack, self._default_name)
            where = unique_variable_scope_name(self._default_name)
        elif isinstance(where, str):
            name_scope = self._name_scope(stack, where)
        else:
            self._name_scope(stack, where.name.split("/")[-1])
            name_scope = where.original_name_scope
        return stack.enter_context(pure_variable_scope(where, self._reuse, name_scope, **self._given))

    def _name_scope(self, stack, name):
        if not self._auxiliary:
            now = ops.get_name_scope()
            return now + "/" if now else ""
        if not name:  # the root scope is entered
            return None
        return stack.enter_context(ops.name_scope(name))


@contextlib.contextmanager
def variable_op_scope(values, name_or_scope, default_name=None, initializer=None, regularizer=None, caching_device=None,
                      partitioner=None, custom_getter=None, reuse=None, dtype=None, use_resource=None, constraint=None):
    """variable_scope with its arguments in an older order."""
    with variable_scope(name_or_scope, default_name=default_name, values=values, initializer=initializer,
                        regularizer=regularizer, caching_device=caching_device, partitioner=partitioner,
                        custom_getter=custom_getter, reuse=reuse, dtype=dtype, use_resource=use_resource,
                        constraint=constraint) as scope:
        yield scope


def variable(initial_value=None, trainable=None, collections=None, validate_shape=True, caching_device=None, name=None,
             dtype=None, use_resource=None, synchronization=variables.VariableSynchronization.AUTO,
             aggregation=variables.VariableAggregation.NONE):
    """A new variable, never a shared one."""
    return variables.Variable(initial_value, trainable, collections, validate_shape, caching_device, name, dtype=dtype,
                              use_resource=use_resource, synchronization=synchronization, aggregation=aggregation)


# Used by programs that call TensorFlow's internal functions.
_get_default_variable_store, _pure_variable_scope, _PartitionInfo = _variable_store, pure_variable_scope, PartitionInfo
_VariableStore = VariableStore
