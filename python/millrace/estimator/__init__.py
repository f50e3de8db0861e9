"""tf.estimator: models with training, evaluation, prediction and export."""

from .. import lazy as _lazy
from .estimator import Estimator, WarmStartSettings
from .run_config import RunConfig
from .spec import EstimatorSpec, ModeKeys
from .training import BestExporter, EvalSpec, Exporter, FinalExporter, LatestExporter, TrainSpec, train_and_evaluate

_TABLE = dict.fromkeys("BaselineClassifier BaselineEstimator BaselineRegressor DNNClassifier DNNEstimator "
                       "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor DNNRegressor "
                       "LinearClassifier LinearEstimator LinearRegressor".split(), "canned")
_TABLE.update(dict.fromkeys("Head LogisticRegressionHead MultiClassHead MultiLabelHead PoissonRegressionHead "
                                   "RegressionHead".split(), "heads"),
              BinaryClassHead="heads:BinaryHead")
_TABLE.update(dict.fromkeys("CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook "
                            "LoggingTensorHook NanLossDuringTrainingError NanTensorHook ProfilerHook SecondOrStepTimer "
                            "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues StepCounterHook StopAtStepHook "
                            "SummarySaverHook VocabInfo".split(), ".train"))
__getattr__ = _lazy.attributes(__name__, _TABLE, "export inputs")


def classifier_parse_example_spec(feature_columns, label_key, label_dtype="int64", label_default=None, weight_column=None):
    """Returns the argument for tf.parse_example that reads the columns, the label and the weight of a classifier."""
    from ..framework import dtypes
    from ..ops.parsing import FixedLenFeature
    return _with_label(feature_columns, label_key, FixedLenFeature((1,), dtypes.as_dtype(label_dtype), label_default),
                       weight_column)


def regressor_parse_example_spec(feature_columns, label_key, label_dtype="float32", label_default=None, label_dimension=1,
                                 weight_column=None):
    """Returns the argument for tf.parse_example that reads the columns, the label and the weight of a regressor."""
    from ..framework import dtypes
    from ..ops.parsing import FixedLenFeature
    label = FixedLenFeature((label_dimension,), dtypes.as_dtype(label_dtype), label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def _with_label(feature_columns, label_key, label, weight_column):
    from .. import feature_column
    spec = feature_column.make_parse_example_spec(feature_columns)
    if label_key in spec:
        raise ValueError("label should not be used as feature. label_key: %s, features: %s" % (label_key, list(spec)))
    spec[label_key] = label
    if weight_column is not None:
        column = feature_column.numeric_column(weight_column) if isinstance(weight_column, str) else weight_column
        spec.update(column.parse_example_spec)
    return spec
