"""What a model function is called with and what it gives back."""
import collections

from ..framework import ops
from ..framework.shapes import TensorShape
from ..saved_model import signature_constants


class ModeKeys:
    """What a model is built for."""
    TRAIN, EVAL, PREDICT = "train", "eval", "infer"


LOSS_METRIC_KEY, AVERAGE_LOSS_METRIC_KEY = "loss", "average_loss"

_Fields = collections.namedtuple("EstimatorSpec", [
    "mode", "predictions", "loss", "train_op", "eval_metric_ops", "export_outputs", "training_chief_hooks", "training_hooks",
    "scaffold", "evaluation_hooks", "prediction_hooks"])


class EstimatorSpec(_Fields):
    """The ops and hooks of a model in one mode."""

    def __new__(cls, mode, predictions=None, loss=None, train_op=None, eval_metric_ops=None, export_outputs=None,
                training_chief_hooks=None, training_hooks=None, scaffold=None, evaluation_hooks=None, prediction_hooks=None):
        train_op = _checked_train_op(train_op, mode)
        loss = _checked_loss(loss, mode)
        predictions = _checked_predictions(predictions, mode)
        eval_metric_ops = _checked_metrics(eval_metric_ops)
        _check_same_graph(predictions, loss, train_op, eval_metric_ops)
        hooks = [tuple(h or []) for h in (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)]
        _check_hooks(hooks)
        if scaffold is None:
            from ..train import Scaffold
            scaffold = Scaffold()
        return super().__new__(cls, mode, predictions, loss, train_op, eval_metric_ops, _checked_outputs(export_outputs, mode),
                               hooks[0], hooks[1], scaffold, hooks[2], hooks[3])


def _is_tensor(x):
    return isinstance(x, (ops.Tensor, ops.Operation)) or hasattr(x, "_as_graph_element")


def _checked_train_op(train_op, mode):
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        return None
    if not _is_tensor(train_op):
        raise TypeError("train_op must be Operation or Tensor, given: %s" % (train_op,))
    return train_op.op if hasattr(train_op, "_as_graph_element") else train_op


def _checked_loss(loss, mode):
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    if not isinstance(loss, ops.Tensor):
        from ..framework.convert import convert_to_tensor
        if not _is_tensor(loss):
            raise TypeError("loss must be Tensor, given: %s" % (loss,))
        loss = convert_to_tensor(loss)
    shape = loss.get_shape()
    if shape.num_elements() not in (None, 1):
        raise ValueError("Loss must be scalar, given: %s" % loss)
    if not shape.is_compatible_with(TensorShape([])):
        from ..ops.array import reshape
        loss = reshape(loss, [])
    return loss


def _checked_predictions(predictions, mode):
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions.")
        return {}
    for value in predictions.values() if isinstance(predictions, dict) else [predictions]:
        if not _is_tensor(value) and not hasattr(value, "dense_shape"):
            raise TypeError("predictions must be Tensor, given: %s" % (value,))
    return predictions


def _checked_metrics(metrics):
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError("eval_metric_ops must be a dict, given: %s" % (metrics,))
    for key, value in metrics.items():
        if hasattr(value, "result"):
            continue
        if not isinstance(value, tuple) or len(value) != 2:
            raise TypeError("Values of eval_metric_ops must be (metric_value, update_op) tuples, given: %s for key: %s" % (value, key))
        for member in value:
            if not _is_tensor(member):
                raise TypeError("Values of eval_metric_ops must be (metric_value, update_op) tuples of tensors, given: %s for key: %s" %
                                (value, key))
    return metrics


def _checked_outputs(outputs, mode):
    """A single one is what is served by default."""
    if outputs is None or mode != ModeKeys.PREDICT:
        return outputs
    if not isinstance(outputs, dict):
        raise TypeError("export_outputs must be dict, given: %s" % (outputs,))
    from .export import ExportOutput
    for value in outputs.values():
        if not isinstance(value, ExportOutput):
            raise TypeError("Values in export_outputs must be ExportOutput objects. Given: %s" % (outputs,))
    default = signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if default not in outputs:
        if len(outputs) > 1:
            raise ValueError("Multiple export_outputs were provided, but none of them is specified as the default. Do this by naming one "
                             "of them with signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY.")
        outputs = dict(outputs, **{default: v for v in outputs.values()})
    return outputs


def _check_hooks(lists):
    from ..train import SessionRunHook
    for hooks in lists:
        for hook in hooks:
            if not isinstance(hook, SessionRunHook):
                raise TypeError("All hooks must be SessionRunHook instances, given: %s" % (hook,))


def _check_same_graph(predictions, loss, train_op, metrics):
    graph = ops.get_default_graph()
    values = list(predictions.values()) if isinstance(predictions, dict) else [predictions]
    values += [m for pair in metrics.values() if isinstance(pair, tuple) for m in pair]
    for x in values + [loss, train_op]:
        if x is not None and getattr(x, "graph", graph) is not graph:
            raise ValueError("%s must be from the default graph. Possible causes of this error include: it was created outside the "
                             "context of the default graph." % (x,))
