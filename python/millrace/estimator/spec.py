"""What a model function is asked for (ModeKeys) and what it answers (EstimatorSpec)."""

import collections

from ..framework import convert, ops
from ..ops import array


class ModeKeys:
    """The modes that a model function is called with."""
    TRAIN, EVAL, PREDICT = "train", "eval", "infer"


class EstimatorSpec(collections.namedtuple("EstimatorSpec", [
        "mode", "predictions", "loss", "train_op", "eval_metric_ops", "export_outputs", "training_chief_hooks",
        "training_hooks",
        "scaffold", "evaluation_hooks", "prediction_hooks"])):
    """The operations and tensors of a model for a mode; what the mode needs must be there."""

    def __new__(cls, mode, predictions=None, loss=None, train_op=None, eval_metric_ops=None, export_outputs=None,
                training_chief_hooks=None, training_hooks=None, scaffold=None, evaluation_hooks=None, prediction_hooks=None):
        if mode == ModeKeys.TRAIN and train_op is None:
            raise ValueError("Missing train_op.")
        if mode == ModeKeys.PREDICT and predictions is None:
            raise ValueError("Missing predictions.")
        hooks = [tuple(h or ()) for h in (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)]
        _check_hooks(hooks)
        return super().__new__(cls, mode, {} if predictions is None else _checked_predictions(predictions),
                               _checked_loss(loss, mode),
                               _checked_train_op(train_op), _checked_metrics(eval_metric_ops),
                               _checked_exports(export_outputs, predictions, mode), hooks[0], hooks[1],
                               _checked_scaffold(scaffold),
                               hooks[2], hooks[3])


def _checked_loss(loss, mode):
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    loss = convert.convert_to_tensor(loss)
    if loss.shape.num_elements() not in (None, 1):
        raise ValueError("Loss must be scalar, given: %s" % loss)
    return loss if loss.shape.is_compatible_with([]) else array.reshape(loss, [])


def _checked_predictions(predictions):
    for value in predictions.values() if isinstance(predictions, dict) else [predictions]:
        if not isinstance(value, ops.Tensor) and not hasattr(value, "_fetch_parts"):
            raise TypeError("predictions must be Tensor, given: %s" % (value,))
    return predictions


def _checked_train_op(train_op):
    if train_op is not None and not hasattr(train_op, "graph"):
        raise TypeError("train_op must be Operation or Tensor, given: %s" % (train_op,))
    return train_op


def _checked_metrics(metrics):
    metrics = metrics or {}
    if not isinstance(metrics, dict):
        raise TypeError("eval_metric_ops must be a dict, given: %s" % (metrics,))
    for name, pair in metrics.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError("Values of eval_metric_ops must be (metric_value, update_op) tuples, given: %s for key: %s" %
                            (pair, name))
    return metrics


def _checked_exports(outputs, predictions, mode):
    from . import export
    if mode != ModeKeys.PREDICT:
        return outputs
    outputs = {export.DEFAULT_SERVING: export.PredictOutput(predictions)} if outputs is None else outputs
    if not isinstance(outputs, dict):
        raise TypeError("`export_outputs` must be dict, given: %s" % (outputs,))
    for value in outputs.values():
        if not isinstance(value, export.ExportOutput):
            raise TypeError("Values in `export_outputs` must be ExportOutput objects. Given: %s" % (outputs,))
    if export.DEFAULT_SERVING not in outputs:
        if len(outputs) > 1:
            raise ValueError("Multiple export_outputs were provided, but none of them is specified as the default. Do this by "
                             "naming one of "
                             "them with signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY.")
        outputs = dict(outputs, **{export.DEFAULT_SERVING: next(iter(outputs.values()))})
    return outputs


def _check_hooks(groups):
    from ..train import SessionRunHook
    for hook in (h for group in groups for h in group):
        if not isinstance(hook, SessionRunHook):
            raise TypeError("All hooks must be SessionRunHook instances, given: %s" % (hook,))


def _checked_scaffold(scaffold):
    from ..train import Scaffold
    scaffold = scaffold or Scaffold()
    if not isinstance(scaffold, Scaffold):
        raise TypeError("scaffold must be tf.train.Scaffold. Given: %s" % (scaffold,))
    return scaffold
