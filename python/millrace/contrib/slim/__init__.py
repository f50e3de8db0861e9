"""tf.contrib.slim: layers as functions with arg_scope, losses that collect themselves, and loops of training and evaluation."""

from ... import lazy as _lazy
from .. import layers  # noqa: F401
from ..arg_scope import (add_arg_scope, arg_scope, arg_scope_func_key, arg_scoped_arguments, current_arg_scope,  # noqa: F401
                         has_arg_scope)
from ..framework import (VariableDeviceChooser, add_model_variable, assign_from_checkpoint, assign_from_checkpoint_fn,
                         assign_from_values, assign_from_values_fn, filter_variables, get_local_variables, get_model_variables,
                         get_trainable_variables, get_unique_variable, get_variable_full_name, get_variables,
                         get_variables_by_name,
                         get_variables_by_suffix, get_variables_to_restore, global_variable, local_variable, model_variable,
                         variable)
from ..layers.initializers import *  # noqa: F403
from ..layers.layers import *  # noqa: F403
from ..layers.regularizers import *  # noqa: F403

_STEPS = "assert_global_step create_global_step get_global_step get_or_create_global_step"
_LAYERS = ("optimize_loss summarize_activation summarize_activations summarize_biases summarize_collection summarize_tensor "
           "summarize_tensors summarize_variables summarize_weights")
_WHERE = {**dict.fromkeys(_STEPS.split(), "millrace.train"), **dict.fromkeys(_LAYERS.split(), "millrace.contrib.layers")}
_MODULES = {"ops": "layers", "variables": "framework", "initializers": "layers.initializers",
            "regularizers": "layers.regularizers",
            "metrics": "metrics", "summaries": "layers.summaries", "utils": "layers.utils"}
_own = _lazy.attributes(__name__)


def __getattr__(name):
    import importlib
    if name == "__all__":
        own = "evaluation layers learning losses model_analyzer nets queues "
        return _lazy.exported(__name__, _WHERE, own + " ".join(_MODULES))
    if name == "python":  # slim.python.slim.nets, as its folders were
        import sys
        import types
        return types.SimpleNamespace(slim=sys.modules[__name__])
    if name in _MODULES:
        return importlib.import_module("millrace.contrib." + _MODULES[name])
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    return _own(name)
