"""Templates: functions whose calls share their variables."""

import functools

from ..framework import ops
from .variable_scope import pure_variable_scope, unique_variable_scope_name, variable_scope

__all__ = ["make_template"]


class Template:
    """A function that makes its variables in its first call and uses the same ones in the others."""

    def __init__(self, name, func, create_scope_now=False, unique_name=None, custom_getter=None):
        if name is None:
            raise ValueError("name cannot be None.")
        self._name, self._func, self._unique_name, self._custom_getter = name, func, unique_name, custom_getter
        self._variables_created = False
        self._scope = None
        if create_scope_now:
            with pure_variable_scope(unique_name or unique_variable_scope_name(name), custom_getter=custom_getter) as scope:
                self._scope = scope

    def __call__(self, *args, **kwargs):
        if self._scope is not None:
            where = variable_scope(self._scope, reuse=self._variables_created)
        else:
            where = variable_scope(self._unique_name, self._name, custom_getter=self._custom_getter)
        with where as scope:
            self._scope = self._scope or scope
            return self._call(args, kwargs)

    def _call(self, args, kwargs):
        trainable = len(ops.get_collection_ref(ops.GraphKeys.TRAINABLE_VARIABLES))
        result = self._func(*args, **kwargs)
        was_called, self._variables_created = self._variables_created, True
        if was_called and len(ops.get_collection_ref(ops.GraphKeys.TRAINABLE_VARIABLES)) != trainable:
            raise ValueError("Trainable variable created when calling a template after the first time, perhaps you used "
                             "tf.Variable when you meant tf.get_variable: %s" %
                             ops.get_collection_ref(ops.GraphKeys.TRAINABLE_VARIABLES)[trainable:])
        return result

    name = property(lambda self: self._name)
    func = property(lambda self: self._func)
    variable_scope = property(lambda self: self._scope)

    @property
    def variable_scope_name(self):
        """The scope's name with a slash behind it."""
        if self._scope is None:
            return None
        name = self._scope.name
        return name if not name or name[-1] == "/" else name + "/"

    def _collection(self, key):
        return [] if self._scope is None else ops.get_collection(key, self.variable_scope_name)

    variables = property(lambda self: self.global_variables + self.local_variables)
    weights = variables
    trainable_variables = property(lambda self: self._collection(ops.GraphKeys.TRAINABLE_VARIABLES))
    trainable_weights = trainable_variables
    global_variables = property(lambda self: self._collection(ops.GraphKeys.GLOBAL_VARIABLES))
    local_variables = property(lambda self: self._collection(ops.GraphKeys.LOCAL_VARIABLES))

    @property
    def non_trainable_variables(self):
        trainable = set(map(id, self.trainable_variables))
        return [v for v in self.variables if id(v) not in trainable]

    non_trainable_weights = non_trainable_variables


def make_template(name_, func_, create_scope_now_=False, unique_name_=None, custom_getter_=None, **kwargs):
    """A function whose calls share their variables; kwargs are given to it each time."""
    if kwargs:
        func_ = functools.partial(func_, **kwargs)
    return Template(name_, func_, create_scope_now_, unique_name_, custom_getter_)
