"""TensorFlow's module paths: a finder of imports that answers for everything below `tensorflow`.

    tensorflow.nn, tensorflow.contrib.slim      the module of the same path in millrace, the very object
    tensorflow.core.framework.graph_pb2         messages (protos.MODULES)
    tensorflow.python.framework.ops             a view of the modules in PRIVATE; what they lack is looked for in millrace
    tensorflow.python.keras.layers              what MOVED says: millrace.keras.layers

The nearest entry decides.  A path that is none of these is an ImportError that names it, and a name that a view cannot find is
an AttributeError that names it.
"""
import builtins
import importlib
import importlib.abc
import importlib.util
import sys
import types

ROOT = "tensorflow"

# Subtrees that are a subtree of ours.
MOVED = {
    "compat.v1": "",
    "_api.v1": "",
    "_api.v1.v1": "",
    "compat.v1.compat": "compat",
    "compat.v1.estimator": "estimator",
    "contrib.keras": "keras",
    "contrib.keras.api.keras": "keras",
    "contrib.keras.python.keras": "keras",
    "errors": "framework.errors",
    "contrib.learn.python.learn.datasets": "contrib.learn.datasets",
    "contrib.learn.python.learn": "contrib.learn",
    "contrib.learn.python.learn.estimators": "contrib.learn.estimators",
    "contrib.learn.python.learn.estimators.dnn": "contrib.learn.estimators",
    "contrib.learn.python.learn.estimators.estimator": "contrib.learn.estimators",
    "contrib.learn.python.learn.estimators.linear": "contrib.learn.estimators",
    "contrib.learn.python.learn.estimators.model_fn": "contrib.learn.estimators",
    "contrib.learn.python.learn.estimators.run_config": "contrib.learn.run_config",
    "contrib.learn.python.learn.metric_spec": "contrib.learn.estimators",
    "contrib.data.python.ops": "contrib.data",
    "contrib.image.python.ops.distort_image_ops": "contrib.image",
    "contrib.image.python.ops.image_ops": "contrib.image",
    "contrib.lookup.lookup_ops": "contrib.lookup",
    "contrib.metrics.python.ops.metric_ops": "contrib.metrics",
    "contrib.rnn.python.ops.core_rnn_cell": "contrib.rnn",
    "contrib.rnn.python.ops.core_rnn_cell_impl": "contrib.rnn",
    "contrib.rnn.python.ops.rnn": "contrib.rnn",
    "contrib.rnn.python.ops.rnn_cell": "contrib.rnn",
    "contrib.layers.python.layers": "contrib.layers",
    "contrib.layers.python.layers.layers": "contrib.layers",
    "contrib.layers.python.layers.initializers": "contrib.layers",
    "contrib.layers.python.layers.regularizers": "contrib.layers",
    "contrib.layers.python.layers.utils": "contrib.layers.utils",
    "contrib.framework.python.ops": "contrib.framework",
    "contrib.framework.python.ops.arg_scope": "contrib.framework",
    "contrib.framework.python.ops.variables": "contrib.framework",
    "contrib.seq2seq.python.ops.helper": "contrib.seq2seq",
    "contrib.seq2seq.python.ops.decoder": "contrib.seq2seq",
    "contrib.seq2seq.python.ops.beam_search_decoder": "contrib.seq2seq",
    "contrib.seq2seq.python.ops.attention_wrapper": "contrib.seq2seq",
    "contrib.seq2seq.python.ops.basic_decoder": "contrib.seq2seq",
    "contrib.slim.python.slim": "contrib.slim",
    "contrib.training.python.training.hparam": "contrib.training",
    "contrib.training.python.training.training": "contrib.training",
    "python.keras": "keras",
}

# Modules whose names are spread over ours: {path: modules that are asked, in this order}.  What lies below one of them and is
# not here is looked for below its modules.
PRIVATE = {
    "python": [],
    "python.estimator": ["millrace.estimator"],
    "python.layers": ["millrace.layers"],
    "python.saved_model": ["millrace.saved_model"],
    "python.summary": ["millrace.summary"],
    "python.training": ["millrace.train"],
    "python.client.session": ["millrace.framework.session"],
    "python.client.device_lib": ["millrace.client.device_lib"],
    "python.client.timeline": ["millrace.client.timeline"],
    "python.data": ["millrace.data"],
    "python.data.experimental.ops.batching": ["millrace.data.experimental"],
    "python.data.experimental.ops.cardinality": ["millrace.data.experimental"],
    "python.data.experimental.ops.counter": ["millrace.data.experimental"],
    "python.data.experimental.ops.distribute_options": ["millrace.data.options"],
    "python.data.experimental.ops.error_ops": ["millrace.data.experimental"],
    "python.data.experimental.ops.get_single_element": ["millrace.data.experimental"],
    "python.data.experimental.ops.grouping": ["millrace.data.experimental"],
    "python.data.experimental.ops.interleave_ops": ["millrace.data.experimental"],
    "python.data.experimental.ops.optimization_options": ["millrace.data.options"],
    "python.data.experimental.ops.random_ops": ["millrace.data.experimental"],
    "python.data.experimental.ops.readers": ["millrace.data.experimental"],
    "python.data.experimental.ops.resampling": ["millrace.data.experimental"],
    "python.data.experimental.ops.scan_ops": ["millrace.data.experimental"],
    "python.data.experimental.ops.shuffle_ops": ["millrace.data.experimental"],
    "python.data.experimental.ops.stats_options": ["millrace.data.options"],
    "python.data.experimental.ops.take_while_ops": ["millrace.data.experimental"],
    "python.data.experimental.ops.threading_options": ["millrace.data.options"],
    "python.data.experimental.ops.unique": ["millrace.data.experimental"],
    "python.data.experimental.ops.writers": ["millrace.data.experimental"],
    "python.data.ops.dataset_ops": ["millrace.data", "millrace.data.dataset"],
    "python.data.ops.iterator_ops": ["millrace.data", "millrace.data.iterator", "millrace.data.optional"],
    "python.data.ops.optional_ops": ["millrace.data.optional"],
    "python.data.ops.readers": ["millrace.data.readers", "millrace.data"],
    "python.data.util.nest": ["millrace.data.nest"],
    "python.debug": [],
    "python.eager.context": ["millrace.eager"],
    "python.estimator.canned.dnn": ["millrace.estimator.canned", "millrace.estimator"],
    "python.estimator.canned.head": ["millrace.estimator.heads", "millrace.estimator"],
    "python.estimator.canned.linear": ["millrace.estimator.canned", "millrace.estimator"],
    "python.estimator.estimator": ["millrace.estimator.estimator", "millrace.estimator"],
    "python.estimator.export.export": ["millrace.estimator.export"],
    "python.estimator.export.export_output": ["millrace.estimator.export"],
    "python.estimator.inputs": ["millrace.estimator.inputs"],
    "python.estimator.inputs.inputs": ["millrace.estimator.inputs"],
    "python.estimator.inputs.numpy_io": ["millrace.estimator.inputs"],
    "python.estimator.inputs.pandas_io": ["millrace.estimator.inputs"],
    "python.estimator.model_fn": ["millrace.estimator.spec", "millrace.estimator"],
    "python.estimator.run_config": ["millrace.estimator.run_config", "millrace.estimator"],
    "python.estimator.training": ["millrace.estimator.training", "millrace.estimator"],
    "python.feature_column.feature_column": ["millrace.feature_column"],
    "python.feature_column.feature_column_lib": ["millrace.feature_column"],
    "python.framework.common_shapes": ["millrace.framework.shapes"],
    "python.framework.constant_op": ["millrace.framework.convert"],
    "python.framework.convert_to_constants": ["millrace.graph_util"],
    "python.framework.device": ["millrace.framework.device"],
    "python.framework.dtypes": ["millrace.framework.dtypes"],
    "python.framework.errors": ["millrace.framework.errors"],
    "python.framework.errors_impl": ["millrace.framework.errors"],
    "python.framework.function": ["millrace.framework.function"],
    "python.framework.graph_io": ["millrace.train"],
    "python.framework.graph_util": ["millrace.graph_util"],
    "python.framework.graph_util_impl": ["millrace.graph_util"],
    "python.framework.importer": ["millrace.framework.importer"],
    "python.framework.indexed_slices": ["millrace.framework.ops"],
    "python.framework.load_library": ["millrace.op_libraries"],
    "python.framework.meta_graph": ["millrace.framework.meta_graph"],
    "python.framework.op_def_library": ["millrace.framework.op_defs"],
    "python.framework.ops": ["millrace.framework.ops", "millrace.framework.convert", "millrace.framework.sparse"],
    "python.framework.random_seed": ["millrace.framework.random_seed"],
    "python.framework.smart_cond": ["millrace.ops.control_flow"],
    "python.framework.sparse_tensor": ["millrace.framework.sparse"],
    "python.framework.tensor_conversion_registry": ["millrace.framework.convert"],
    "python.framework.tensor_shape": ["millrace.framework.shapes"],
    "python.framework.tensor_spec": ["millrace.framework.type_spec"],
    "python.framework.tensor_util": ["millrace.framework.tensor_util", "millrace.framework.convert"],
    "python.framework.test_util": ["millrace.test.util", "millrace.test"],
    "python.framework.type_spec": ["millrace.framework.type_spec"],
    "python.framework.versions": ["millrace.version"],
    "python.layers.base": ["millrace.layers"],
    "python.layers.convolutional": ["millrace.layers"],
    "python.layers.core": ["millrace.layers"],
    "python.layers.layers": ["millrace.layers"],
    "python.layers.normalization": ["millrace.layers"],
    "python.layers.pooling": ["millrace.layers"],
    "python.layers.utils": ["millrace.layers.utils"],
    "python.lib.io.file_io": ["millrace.file_io"],
    "python.lib.io.python_io": ["millrace.python_io"],
    "python.lib.io.tf_record": ["millrace.python_io"],
    "python.ops.array_grad": [],
    "python.ops.array_ops": ["millrace.ops.array"],
    "python.ops.bitwise_ops": ["millrace.bitwise"],
    "python.ops.candidate_sampling_ops": ["millrace.nn"],
    "python.ops.check_ops": ["millrace.ops.check"],
    "python.ops.clip_ops": ["millrace.ops.clip"],
    "python.ops.collective_ops": ["millrace.ops.collective"],
    "python.ops.confusion_matrix": [],
    "python.ops.control_flow_grad": [],
    "python.ops.control_flow_ops": ["millrace.ops.control_flow", "millrace.ops.contexts"],
    "python.ops.ctc_ops": ["millrace.nn"],
    "python.ops.custom_gradient": ["millrace.ops.custom_gradient"],
    "python.ops.data_flow_ops": ["millrace.ops.data_flow"],
    "python.ops.distributions": ["millrace.distributions"],
    "python.ops.embedding_ops": ["millrace.nn"],
    "python.ops.functional_ops": ["millrace.ops.functional"],
    "python.ops.gen_training_ops": [],
    "python.ops.gradients": ["millrace.ops.gradients"],
    "python.ops.gradients_impl": ["millrace.ops.gradients"],
    "python.ops.histogram_ops": [],
    "python.ops.image_grad": [],
    "python.ops.image_ops": ["millrace.image"],
    "python.ops.image_ops_impl": ["millrace.image"],
    "python.ops.init_ops": ["millrace.initializers"],
    "python.ops.io_ops": ["millrace.ops.io", "millrace.io"],
    "python.ops.linalg_grad": [],
    "python.ops.linalg_ops": ["millrace.linalg"],
    "python.ops.logging_ops": ["millrace.ops.logging"],
    "python.ops.lookup_ops": ["millrace.ops.lookup", "millrace.lookup"],
    "python.ops.losses.losses": ["millrace.losses"],
    "python.ops.losses.losses_impl": ["millrace.losses"],
    "python.ops.losses.util": ["millrace.losses"],
    "python.ops.manip_ops": [],
    "python.ops.map_fn": ["millrace.ops.functional"],
    "python.ops.math_grad": [],
    "python.ops.math_ops": ["millrace.ops.math"],
    "python.ops.metrics": ["millrace.metrics"],
    "python.ops.metrics_impl": ["millrace.metrics"],
    "python.ops.nn": ["millrace.nn"],
    "python.ops.nn_grad": [],
    "python.ops.nn_impl": ["millrace.nn"],
    "python.ops.nn_ops": ["millrace.nn"],
    "python.ops.numerics": [],
    "python.ops.parsing_ops": ["millrace.ops.parsing", "millrace.io"],
    "python.ops.partitioned_variables": ["millrace.ops.partitioners"],
    "python.ops.random_ops": ["millrace.ops.random"],
    "python.ops.ref_variable": ["millrace.ops.ref_variable"],
    "python.ops.resource_variable_ops": ["millrace.ops.resource_variable", "millrace.ops.variables"],
    "python.ops.resources": ["millrace.ops.resources"],
    "python.ops.rnn": ["millrace.nn.recurrent", "millrace.nn"],
    "python.ops.rnn_cell": ["millrace.nn.rnn_cell", "millrace.nn"],
    "python.ops.rnn_cell_impl": ["millrace.nn.rnn_cell", "millrace.nn"],
    "python.ops.script_ops": ["millrace.ops.script"],
    "python.ops.session_ops": ["millrace.ops.session_handles"],
    "python.ops.sparse_grad": [],
    "python.ops.sets": ["millrace.sets"],
    "python.ops.sparse_ops": ["millrace.sparse"],
    "python.ops.special_math_ops": [],
    "python.ops.spectral_ops": ["millrace.spectral"],
    "python.ops.standard_ops": ["millrace"],
    "python.ops.state_ops": ["millrace.ops.state"],
    "python.ops.string_ops": ["millrace.strings"],
    "python.ops.summary_ops": ["millrace.summary"],
    "python.ops.template": ["millrace.ops.template"],
    "python.ops.tensor_array_ops": ["millrace.ops.tensor_array"],
    "python.ops.variable_scope": ["millrace.ops.variable_scope"],
    "python.ops.variable_v1": [],
    "python.ops.variables": ["millrace.ops.variables"],
    "python.ops.weights_broadcast_ops": ["millrace.ops.weights"],
    "python.ops.while_v2": [],
    "python.pywrap_tensorflow": ["millrace.pywrap_tensorflow"],
    "python.platform.app": ["millrace.app"],
    "python.platform.benchmark": ["millrace.test"],
    "python.platform.flags": ["millrace.flags"],
    "python.platform.gfile": ["millrace.gfile"],
    "python.platform.googletest": ["millrace.test"],
    "python.platform.resource_loader": ["millrace.resource_loader"],
    "python.platform.sysconfig": ["millrace.sysconfig"],
    "python.ops.gradient_checker": ["millrace.test.gradient_checker"],
    "python.platform.test": ["millrace.test"],
    "python.platform.tf_logging": ["millrace.logging"],
    "python.saved_model.builder": ["millrace.saved_model"],
    "python.saved_model.builder_impl": ["millrace.saved_model"],
    "python.saved_model.loader": ["millrace.saved_model"],
    "python.saved_model.main_op": ["millrace.saved_model"],
    "python.saved_model.signature_constants": ["millrace.saved_model.signature_constants", "millrace.saved_model"],
    "python.saved_model.signature_def_utils": ["millrace.saved_model.signature_def_utils", "millrace.saved_model"],
    "python.saved_model.tag_constants": ["millrace.saved_model.tag_constants", "millrace.saved_model"],
    "python.saved_model.utils": ["millrace.saved_model.utils", "millrace.saved_model"],
    "python.summary.event_accumulator": ["millrace.summary"],
    "python.summary.summary": ["millrace.summary"],
    "python.summary.summary_iterator": ["millrace.summary"],
    "python.summary.writer.writer": ["millrace.summary"],
    "python.summary.writer.writer_cache": ["millrace.summary"],
    "python.tools.freeze_graph": ["millrace.tools.freeze_graph"],
    "python.tools.inspect_checkpoint": ["millrace.tools.inspect_checkpoint"],
    "python.tools.optimize_for_inference_lib": ["millrace.tools.optimize_for_inference_lib"],
    "python.tools.strip_unused_lib": ["millrace.tools.strip_unused_lib"],
    "python.profiler.model_analyzer": ["millrace.profiler"],
    "python.profiler.option_builder": ["millrace.profiler"],
    "python.training.adadelta": ["millrace.train"],
    "python.training.adagrad": ["millrace.train"],
    "python.training.adagrad_da": ["millrace.train"],
    "python.training.adam": ["millrace.train"],
    "python.training.basic_loops": ["millrace.train"],
    "python.training.basic_session_run_hooks": ["millrace.train"],
    "python.training.checkpoint_management": ["millrace.train"],
    "python.training.checkpoint_utils": ["millrace.train"],
    "python.training.coordinator": ["millrace.train"],
    "python.training.device_setter": ["millrace.train"],
    "python.training.ftrl": ["millrace.train"],
    "python.training.gen_training_ops": [],
    "python.training.gradient_descent": ["millrace.train"],
    "python.training.input": ["millrace.train"],
    "python.training.learning_rate_decay": ["millrace.train"],
    "python.training.momentum": ["millrace.train"],
    "python.training.monitored_session": ["millrace.train"],
    "python.training.moving_averages": ["millrace.train.moving_averages", "millrace.train"],
    "python.training.optimizer": ["millrace.train.optimizer", "millrace.train"],
    "python.training.proximal_adagrad": ["millrace.train"],
    "python.training.proximal_gradient_descent": ["millrace.train"],
    "python.training.queue_runner": ["millrace.train"],
    "python.training.queue_runner_impl": ["millrace.train"],
    "python.training.rmsprop": ["millrace.train"],
    "python.training.saver": ["millrace.train"],
    "python.training.server_lib": ["millrace.train"],
    "python.training.session_manager": ["millrace.train.session_manager", "millrace.train"],
    "python.training.session_run_hook": ["millrace.train"],
    "python.training.slot_creator": ["millrace.train.slot_creator", "millrace.train"],
    "python.training.summary_io": ["millrace.summary.old", "millrace.summary", "millrace.train"],
    "python.training.supervisor": ["millrace.train"],
    "python.training.sync_replicas_optimizer": ["millrace.train"],
    "python.training.training": ["millrace.train"],
    "python.training.training_ops": [],
    "python.training.training_util": ["millrace.train"],
    "python.compat.compat": ["millrace.compat"],
    "python.tf2": ["millrace.eager"],
    "python.util.compat": ["millrace.compat"],
    "python.util.deprecation": ["millrace.deprecation"],
    "python.util.nest": ["millrace.nest"],
    "python.util.tf_contextlib": ["millrace.decorator"],
    "python.util.tf_decorator": ["millrace.decorator"],
    "python.util.tf_export": ["millrace.deprecation"],
    "python.util.tf_inspect": ["inspect"],
    "python.util.tf_should_use": ["millrace.deprecation"],
}

# Functions of single ops; all of their modules are one to us.
RAW_OPS = ("array", "audio", "batch", "bitwise", "boosted_trees", "candidate_sampling", "checkpoint", "control_flow", "ctc",
           "cudnn_rnn", "data_flow", "dataset", "functional", "image", "io", "linalg", "list", "logging", "lookup", "manip",
           "math", "nn", "parsing", "random", "resource_variable", "script", "sdca", "sendrecv", "set", "sparse", "spectral",
           "state", "stateless_random", "string", "summary", "user", "experimental_dataset")
for _kind in RAW_OPS:
    PRIVATE["python.ops.gen_%s_ops" % _kind] = []


class View(types.ModuleType):
    """A module whose names are those of others."""

    def __init__(self, name, sources):
        super().__init__(name, "Names of: " + (", ".join(sources) or "millrace"))
        self._sources = sources

    def __getattr__(self, name):
        if name == "__all__":
            return self._public_names()
        if not name.startswith("__"):
            # Modules that a table names come first: python.ops.variable_scope is one, tf.variable_scope is not.  Other modules
            # come last: nn_ops.pool is a function, although millrace.nn.pool is also the file that has it.
            path = _path(self.__name__ + "." + name)
            if path in PRIVATE or path in MOVED or path in _messages() or _has_children(path):
                return importlib.import_module(self.__name__ + "." + name)
            for module in _present(self._sources):
                try:
                    found = getattr(module, name)
                    if not isinstance(found, types.ModuleType):
                        return found
                except AttributeError:
                    pass
            if _plan(path) is not None:
                return importlib.import_module(self.__name__ + "." + name)
            ours = sys.modules["millrace"]
            for module in _present(self._sources) + [ours, ours.raw_ops]:
                try:
                    return getattr(module, name)
                except AttributeError:
                    pass
        raise AttributeError("module '%s' has no attribute '%s'" % (self.__name__, name))

    def _public_names(self):
        """What `from view import *` gives: what the modules define or offer, without the modules that these import.

        A view without modules stands for functions of single ops, whose names must not hide builtins, or for all of
        millrace."""
        if ".gen_" in self.__name__ or self.__name__.endswith(".training_ops"):
            raw = dir(sys.modules["millrace"].raw_ops)
            return [n for n in raw if n.islower() and not n.startswith("_") and not hasattr(builtins, n)]
        names = set()
        for module in _present(self._sources or ["millrace"]):
            loaded = {n for n in vars(module) if not isinstance(vars(module)[n], types.ModuleType)}
            names |= loaded | set(getattr(module, "__all__", ()))
        return sorted(n for n in names if not n.startswith("_"))

    def __dir__(self):
        return sorted({n for m in _present(self._sources) for n in dir(m)} | set(self.__dict__))


def _present(names):
    """Those of the modules that are there."""
    return [importlib.import_module(n) for n in names if _exists(n)]


def _exists(name):
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


# ---- what a path means ----

def _path(name):
    """Without the root."""
    return name[len(ROOT) + 1:]


def _has_children(path):
    """Whether an existing module is below it."""
    below = path + "."
    return any(known.startswith(below) for table in (PRIVATE, _messages()) for known in table) or any(
        known.startswith(below) and _exists(".".join(filter(None, ["millrace", ours]))) for known, ours in MOVED.items())


def _plan(path):
    """("module", name), ("view", sources) or ("messages", their module); None when there is no such path."""
    if path in PRIVATE:
        return "view", PRIVATE[path]
    if path in _messages():
        return "messages", path
    moved = _moved(path)
    if moved is not None and _exists(moved):
        # Only below a view are private modules found: `from tensorflow.python.summary.writer import writer`.
        return ("view", [moved]) if any(known.startswith(path + ".") for known in PRIVATE) else ("module", moved)
    if _has_children(path):
        return "view", []
    if path.endswith("_impl"):  # where TensorFlow keeps what the module of the plain name offers
        return _plan(path[:-5])
    return None


def _moved(path):
    """Our path for it, by the longest entry that it begins with."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        head, rest = ".".join(parts[:n]), parts[n:]
        if head in MOVED:
            return ".".join(p for p in ["millrace", MOVED[head]] + rest if p)
        if PRIVATE.get(head):
            return ".".join([PRIVATE[head][0]] + rest)
    return None if parts[0] in ("python", "core") else "millrace." + path


def _messages():
    from . import protos
    return protos.MODULES


def _message_module(name, path):
    from . import protos
    module = types.ModuleType(name, "Messages of " + path)
    module.__dict__.update(protos.module_contents(path))
    return module


# ---- imports ----

class Package(types.ModuleType):
    """A package without a file; its modules may also be reached as attributes."""

    __path__ = []

    def __getattr__(self, name):
        if not name.startswith("__"):
            full = self.__name__ + "." + name
            try:
                return importlib.import_module(full)
            except ModuleNotFoundError as e:
                if e.name != full:  # it exists, but a module that it imports does not
                    raise
        raise AttributeError("module '%s' has no attribute '%s'" % (self.__name__, name))


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder of imports by plans.  Modules that exist keep their own __spec__: they are lent, not made."""

    def plan(self, name):
        """("module", its real name), ("view", sources), ("messages", path), ("made", module), or None."""
        return _plan(_path(name)) if name.startswith(ROOT + ".") else None

    def missing(self, name):
        """Without a plan: whether that is already an error here."""
        if name.startswith(ROOT + "."):
            raise ModuleNotFoundError("No module named '%s': millrace does not have this module" % name, name=name)

    def find_spec(self, fullname, path=None, target=None):
        plan = self.plan(fullname)
        if plan is None:
            return self.missing(fullname)
        is_package = plan[0] == "view" or isinstance(plan[1], Package)
        return importlib.util.spec_from_loader(fullname, self, is_package=is_package)

    def create_module(self, spec):
        kind, what = self.plan(spec.name)
        if kind == "view":
            return View(spec.name, what)
        if kind == "messages":
            return _message_module(spec.name, what)
        if kind == "made":
            return what
        module = importlib.import_module(what)
        spec.loader_state = module.__spec__
        if not hasattr(module, "__path__") and _has_children(_path(spec.name)):
            module.__path__ = []  # only below a package are imports looked for at all
        return module

    def exec_module(self, module):
        state = module.__spec__.loader_state
        if state is not None:
            module.__spec__ = state


def install():
    """From now on `import tensorflow.x` is answered here."""
    if not any(type(f) is Finder for f in sys.meta_path):
        sys.meta_path.insert(0, Finder())
