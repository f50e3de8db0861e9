"""TensorForestEstimator: a random forest as an estimator of tf.contrib.learn."""

from .... import train
from ....ops import array, control_flow, math, state
from ...learn.estimators import Estimator, ModeKeys, ModelFnOps
from ..python import tensor_forest
from .eval_metrics import INFERENCE_PRED_NAME, INFERENCE_PROB_NAME


def _one_tensor(features):
    if not isinstance(features, dict):
        return features
    return array.concat([array.reshape(math.cast(features[k], "float32"), [array.shape(features[k])[0], -1])
                         for k in sorted(features)], 1)


class TensorForestLossHook(train.SessionRunHook):
    """Stops training when the loss has not decreased for a number of steps."""

    def __init__(self, early_stopping_rounds, early_stopping_loss_threshold=None, loss_op=None):
        if loss_op is None:
            raise NotImplementedError("TensorForestLossHook without loss_op")
        self._rounds, self._threshold, self._loss = early_stopping_rounds, early_stopping_loss_threshold or 0.0, loss_op
        self._least, self._steps = None, 0

    def before_run(self, run_context):
        return train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        loss = float(run_values.results)
        if self._least is None or loss < self._least - self._least * self._threshold:
            self._least, self._steps = loss, 0
            return
        self._steps += 1
        if self._steps > self._rounds:
            run_context.request_stop()


class TensorForestEstimator(Estimator):
    """early_stopping_rounds: see TensorForestLossHook; 0 or None for no such end."""

    def __init__(self, params, device_assigner=None, model_dir=None, feature_engineering_fn=None, config=None,
                 weights_name=None,
                 keys_name=None, graph_builder_class=tensor_forest.RandomForestGraphs, early_stopping_rounds=100,
                 num_trainers=1,
                 trainer_id=0, report_feature_importances=False, local_eval=False, version=None, head=None,
                 include_all_in_serving=False):
        tensor_forest._refuse("TensorForestEstimator", device_assigner=device_assigner,
                              feature_engineering_fn=feature_engineering_fn, weights_name=weights_name, keys_name=keys_name,
                              report_feature_importances=report_feature_importances, local_eval=local_eval, head=head,
                              include_all_in_serving=include_all_in_serving)
        if version not in (None, "v2"):
            raise NotImplementedError("TensorForestEstimator of version %r" % version)
        params = params.fill()

        def model_fn(features, labels, mode):
            x = _one_tensor(features)
            graphs = graph_builder_class(params)
            probabilities = graphs.inference_graph(x)[0]
            predictions = {INFERENCE_PROB_NAME: probabilities, INFERENCE_PRED_NAME: math.argmax(probabilities, 1)}
            if mode == ModeKeys.INFER:
                return ModelFnOps(mode, predictions)
            loss = graphs.training_loss(x, labels)
            steps = control_flow.group(graphs.training_graph(x, labels, num_trainers, trainer_id),
                                       state.assign_add(train.get_global_step(), 1).op)
            hooks = [TensorForestLossHook(early_stopping_rounds, loss_op=loss)] if early_stopping_rounds else []
            return ModelFnOps(mode, predictions, loss, steps, training_hooks=hooks)
        super().__init__(model_fn, model_dir, config)
