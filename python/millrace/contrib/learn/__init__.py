"""tf.contrib.learn: what scripts of its time still use."""
from ... import lazy as _lazy

_LATER = dict.fromkeys("BaseEstimator DNNClassifier DNNLinearCombinedClassifier DNNLinearCombinedRegressor DNNRegressor "
                       "Estimator LinearClassifier LinearRegressor MetricSpec ModeKeys ModelFnOps PredictionKey SKCompat "
                       "infer_real_valued_columns_from_input infer_real_valued_columns_from_input_fn".split(), "estimators")
_LATER.update(dict.fromkeys("Environment RunConfig TaskType".split(), "run_config"), Experiment="experiment")
__getattr__ = _lazy.attributes(__name__, _LATER)
