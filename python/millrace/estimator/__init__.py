"""tf.estimator: a model as a function, trained, evaluated, asked and exported by an Estimator.

Each part is a module of its own, imported when one of its names is first asked for.
"""
from .. import lazy as _lazy

_WHERE = {
    "model_fn": "EstimatorSpec ModeKeys",
    "run_config": "RunConfig",
    "core": "Estimator VocabInfo WarmStartSettings",
    "training": "EvalSpec TrainSpec train_and_evaluate",
    "exporter": "BestExporter Exporter FinalExporter LatestExporter",
}
_TABLE = {name: module for module, names in _WHERE.items() for name in names.split()}
__getattr__ = _lazy.attributes(__name__, _TABLE)
__dir__ = _lazy.listing(__name__, _TABLE)
