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


class TensorForestEstimator(Estimator):
    def __init__(self, params, device_assigner=None, model_dir=None, feature_engineering_fn=None, config=None,
                 weights_name=None,
                 keys_name=None, graph_builder_class=tensor_forest.RandomForestGraphs, early_stopping_rounds=100,
                 num_trainers=1,
                 trainer_id=0, report_feature_importances=False, local_eval=False, version=None, head=None,
                 include_all_in_serving=False):
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
            return ModelFnOps(mode, predictions, loss, steps)
        super().__init__(model_fn, model_dir, config)
