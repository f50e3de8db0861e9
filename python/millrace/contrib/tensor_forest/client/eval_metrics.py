"""Metrics of forests by name."""

from .... import metrics
from ....ops import array, math

INFERENCE_PROB_NAME, INFERENCE_PRED_NAME = "probabilities", "predictions"


def _flat(labels):
    return array.reshape(labels, [-1])


def _accuracy(predictions, targets, weights=None):
    return metrics.accuracy(_flat(targets), predictions, weights)


def _log_loss(probabilities, targets, weights=None):
    hot = array.one_hot(math.cast(_flat(targets), "int32"), probabilities.shape.as_list()[1])
    return metrics.mean(-math.reduce_sum(hot * math.log(math.maximum(probabilities, 1e-7)), 1), weights)


def _auc(probabilities, targets, weights=None):
    return metrics.auc(_flat(targets), probabilities[:, 1], weights)


_METRICS = {"accuracy": (_accuracy, INFERENCE_PRED_NAME), "log_loss": (_log_loss, INFERENCE_PROB_NAME),
            "auc": (_auc, INFERENCE_PROB_NAME),
            "precision": (lambda p, t, weights=None: metrics.precision(_flat(t), p, weights), INFERENCE_PRED_NAME),
            "recall": (lambda p, t, weights=None: metrics.recall(_flat(t), p, weights), INFERENCE_PRED_NAME)}


def get_metric(metric_name):
    """The function (predictions, targets) -> (value, update) of a metric."""
    return _METRICS[metric_name][0]


def get_prediction_key(metric_name):
    """Returns the name of the prediction that a metric uses."""
    return _METRICS[metric_name][1]
