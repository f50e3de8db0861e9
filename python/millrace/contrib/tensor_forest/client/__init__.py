"""tf.contrib.tensor_forest.client: forests as estimators."""

from . import eval_metrics, random_forest
