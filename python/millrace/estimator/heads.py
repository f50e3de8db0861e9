"""Heads: what follows the logits of a canned model -- predictions, loss, metrics and training."""

from .. import losses, metrics, nn, train
from ..framework import convert, dtypes, ops
from ..framework.op_defs import call
from ..ops import array, control_flow, lookup, math
from . import export
from .spec import EstimatorSpec, ModeKeys

_MEAN = losses.Reduction.SUM_OVER_BATCH_SIZE
_KERAS = {"sum": losses.Reduction.SUM, "sum_over_batch_size": _MEAN, "auto": _MEAN}  # the same by Keras' names
_PREDICT, _CLASSIFY, _REGRESS = "predict", "classification", "regression"


def _two_dimensions(tensor):
    return array.expand_dims(tensor, -1) if tensor.shape.ndims == 1 else tensor


def _labels(labels, dimension):
    """Labels [batch, dimension], as the model function got them."""
    if labels is None:
        raise ValueError("You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check that your data "
                         "contain "
                         "your label feature. Check that your input_fn properly parses and returns labels.")
    if hasattr(labels, "dense_shape"):
        raise ValueError("SparseTensor labels are not supported.")
    labels = _two_dimensions(convert.convert_to_tensor(labels))
    if labels.shape.ndims is not None and labels.shape[-1].value not in (None, dimension):
        raise ValueError("Mismatched label shape. Expected labels dimension=%s. Received %s." % (dimension, labels.shape[-1]))
    return labels


class Head:
    """The part that all heads share."""

    def __init__(self, weight_column=None, loss_reduction=_MEAN, loss_fn=None, name=None):
        loss_reduction = _KERAS.get(loss_reduction, loss_reduction)
        if loss_reduction not in losses.Reduction.all() or loss_reduction == losses.Reduction.NONE:
            raise ValueError("Invalid loss_reduction: %s" % loss_reduction)
        self._weight_column, self._reduction, self._loss_fn, self.name = weight_column, loss_reduction, loss_fn, name

    def _weights(self, features):
        if self._weight_column is None:
            return 1.0
        if isinstance(self._weight_column, str):
            weights = convert.convert_to_tensor(features[self._weight_column])
        else:
            from ..feature_column.columns import Features
            weights = self._weight_column.dense_tensor(Features(features))
        return _two_dimensions(math.cast(weights, dtypes.float32))

    def _key(self, key):
        return "%s/%s" % (key, self.name) if self.name else key

    def _reduced(self, unweighted, weights):
        return losses.compute_weighted_loss(unweighted, weights, reduction=self._reduction)

    def create_estimator_spec(self, features, mode, logits, labels=None, optimizer=None, train_op_fn=None,
                              regularization_losses=None,
                              trainable_variables=None, update_ops=None):
        """The EstimatorSpec for logits."""
        with ops.name_scope(self.name, "head"):
            logits = _two_dimensions(convert.convert_to_tensor(logits))
            if logits.shape.ndims is not None and logits.shape[-1].value not in (None, self.logits_dimension):
                raise ValueError("logits shape must be [D0, D1, ... DN, logits_dimension], got %s." % logits.shape)
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions=predictions, export_outputs=self._exports(predictions))
            labels, unweighted = self._losses(labels, logits, features)
            weights = self._weights(features)
            loss = reduced = self._reduced(unweighted, weights)
            if regularization_losses:
                loss = loss + math.add_n(list(regularization_losses))
            if mode == ModeKeys.EVAL:
                return EstimatorSpec(mode, predictions=predictions, loss=loss,
                                     eval_metric_ops=self._metrics(labels, logits, predictions, unweighted, weights))
            train_op = self._training(loss, optimizer, train_op_fn, trainable_variables, update_ops)
            average = None
            if self._reduction == losses.Reduction.SUM:  # the others are averages already; scripts log head/truediv
                average = reduced / math.reduce_sum(weights * array.ones_like(unweighted))
        from .. import summary
        with ops.name_scope(""):
            summary.scalar(self._key("loss"), loss)
            if average is not None:
                summary.scalar(self._key("average_loss"), average)
        return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

    @staticmethod
    def _training(loss, optimizer, train_op_fn, trainable_variables, update_ops):
        if (optimizer is None) == (train_op_fn is None):
            raise ValueError("train_op_fn and optimizer cannot both be set or both be None.")
        updates = ops.get_collection(ops.GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
        if optimizer is not None:
            train_op = optimizer.minimize(loss, global_step=train.get_global_step(), var_list=trainable_variables)
        else:
            train_op = train_op_fn(loss)
        return control_flow.group(train_op, *updates) if updates else train_op

    def _at_thresholds(self, labels, scores, weights, thresholds):
        """Accuracy, precision and recall when scores above a threshold count as yes."""
        found = {}
        for t in thresholds:
            yes = math.cast(math.greater(scores, t), dtypes.float32)
            for name in ("accuracy", "precision", "recall"):
                found[self._key("%s/positive_threshold_%g" % (name, t))] = getattr(metrics, name)(labels, yes, weights)
        return found

    def _mean(self, name, values, weights):
        return {self._key(name): metrics.mean(values, None if isinstance(weights, float) else weights)}


class MultiClassHead(Head):
    """A head that chooses one of n classes."""

    def __init__(self, n_classes, weight_column=None, label_vocabulary=None, loss_reduction=_MEAN, loss_fn=None,
                 name=None):
        if n_classes is None or n_classes <= 2:
            raise ValueError("n_classes must be > 2: %s." % n_classes)
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._n, self._vocabulary = n_classes, label_vocabulary

    logits_dimension = property(lambda self: self._n, doc="The number of outputs of the network that the head needs.")

    def _ids(self, labels):
        labels = _labels(labels, 1)
        if self._vocabulary is not None:
            if labels.dtype is not dtypes.string:
                raise ValueError("Labels dtype should be string if there is a vocabulary. Instead got %s" % labels.dtype)
            labels = lookup.index_table_from_tensor(list(self._vocabulary), name="class_id_lookup").lookup(labels)
        elif not labels.dtype.is_integer:
            raise ValueError("Labels dtype should be integer. Instead got %s." % labels.dtype)
        labels = math.cast(labels, dtypes.int64)
        inside = math.logical_and(math.greater_equal(labels, 0), math.less(labels, self._n))
        check = call("Assert", None, condition=math.reduce_all(inside), data=["Labels must be < n_classes and >= 0", labels])
        with ops.control_dependencies([check]):
            return array.identity(labels)

    def _names(self, ids):
        if self._vocabulary is None:
            return call("AsString", "str_classes", input=ids)
        return lookup.index_to_string_table_from_tensor(list(self._vocabulary), name="class_string_lookup").lookup(ids)

    def predictions(self, logits):
        """Returns the predictions, by name, for the outputs of the network."""
        with ops.name_scope(None, "predictions", [logits]):
            ids = array.expand_dims(math.argmax(logits, axis=-1), -1, name="class_ids")
            n = array.shape(logits)[0]
            every = array.tile(array.expand_dims(math.range(logits.shape.as_list()[-1]), 0), [n, 1])
            return {"logits": logits, "probabilities": nn.softmax(logits, name="probabilities"), "class_ids": ids,
                    "classes": self._names(ids), "all_class_ids": every,
                    "all_classes": self._names(math.cast(every, dtypes.int64))}

    def _losses(self, labels, logits, features):
        ids = self._ids(labels)
        if self._loss_fn is not None:
            return ids, _called_loss(self._loss_fn, ids, logits, features)
        return ids, array.expand_dims(nn.sparse_softmax_cross_entropy_with_logits(labels=array.squeeze(ids, [-1]),
                                                                                  logits=logits), -1)

    def _metrics(self, labels, logits, predictions, unweighted, weights):
        of = None if isinstance(weights, float) else weights
        found = self._mean("average_loss", unweighted, weights)
        found[self._key("accuracy")] = metrics.accuracy(labels, predictions["class_ids"], of)
        return found

    def _exports(self, predictions):
        classify = export.ClassificationOutput(predictions["probabilities"], predictions["all_classes"])
        return {export.DEFAULT_SERVING: classify, _CLASSIFY: classify, _PREDICT: export.PredictOutput(predictions)}


def _called_loss(loss_fn, labels, logits, features):
    """A loss of one's own: loss_fn(labels, logits[, features])."""
    import inspect
    more = {"features": features} if "features" in inspect.signature(loss_fn).parameters else {}
    made = loss_fn(labels=labels, logits=logits, **more)
    return _two_dimensions(made)


def _checked_thresholds(thresholds):
    thresholds = tuple(thresholds or ())
    if any(not 0 < t < 1 for t in thresholds):
        raise ValueError("thresholds must be in (0, 1): %s" % (thresholds,))
    return thresholds


class BinaryHead(MultiClassHead):
    """Yes or no, by one logit."""

    def __init__(self, weight_column=None, thresholds=None, label_vocabulary=None, loss_reduction=_MEAN,
                 loss_fn=None, name=None):
        Head.__init__(self, weight_column, loss_reduction, loss_fn, name)
        self._n, self._vocabulary, self._thresholds = 2, label_vocabulary, _checked_thresholds(thresholds)

    logits_dimension = property(lambda self: 1, doc="The number of outputs of the network that the head needs.")

    def _ids(self, labels):
        labels = _labels(labels, 1)
        if self._vocabulary is not None:
            labels = lookup.index_table_from_tensor(list(self._vocabulary), name="class_id_lookup").lookup(labels)
        labels = math.cast(labels, dtypes.float32)
        inside = math.logical_and(math.greater_equal(labels, 0.0), math.less_equal(labels, 1.0))
        check = call("Assert", None, condition=math.reduce_all(inside), data=["Labels must be in [0, 1]", labels])
        with ops.control_dependencies([check]):
            return array.identity(labels)

    def predictions(self, logits):
        """Returns the predictions, by name, for the outputs of the network."""
        with ops.name_scope(None, "predictions", [logits]):
            logistic = math.sigmoid(logits, name="logistic")
            two = array.concat([array.zeros_like(logits), logits], -1, name="two_class_logits")
            made = super().predictions(two)
            return {"logits": logits, "logistic": logistic, "probabilities": made["probabilities"],
                    "class_ids": made["class_ids"],
                    "classes": made["classes"], "all_class_ids": made["all_class_ids"], "all_classes": made["all_classes"]}

    def _losses(self, labels, logits, features):
        ids = self._ids(labels)
        if self._loss_fn is not None:
            return ids, _called_loss(self._loss_fn, ids, logits, features)
        return ids, nn.sigmoid_cross_entropy_with_logits(labels=ids, logits=logits)

    def _metrics(self, labels, logits, predictions, unweighted, weights):
        of = None if isinstance(weights, float) else weights
        logistic, ids = predictions["logistic"], predictions["class_ids"]
        found = self._mean("average_loss", unweighted, weights)
        mean_label = metrics.mean(labels, of)
        found.update({
            self._key("accuracy"): metrics.accuracy(labels, ids, of),
            self._key("precision"): metrics.precision(labels, ids, of),
            self._key("recall"): metrics.recall(labels, ids, of), self._key("prediction/mean"): metrics.mean(logistic, of),
            self._key("label/mean"): mean_label,
            self._key("accuracy_baseline"): (math.maximum(mean_label[0], 1.0 - mean_label[0]), mean_label[1]),
            self._key("auc"): metrics.auc(labels, logistic, of),
            self._key("auc_precision_recall"): metrics.auc(labels, logistic, of, curve="PR",
                                                           summation_method="careful_interpolation")})
        found.update(self._at_thresholds(labels, logistic, of, self._thresholds))
        return found

    def _exports(self, predictions):
        found = super()._exports(predictions)
        found[_REGRESS] = export.RegressionOutput(predictions["logistic"])
        return found


class RegressionHead(Head):
    """Numbers."""

    def __init__(self, weight_column=None, label_dimension=1, loss_reduction=_MEAN, loss_fn=None,
                 inverse_link_fn=None,
                 name=None):
        if label_dimension < 1:
            raise ValueError("Invalid label_dimension %s." % label_dimension)
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._dimension, self._link = label_dimension, inverse_link_fn

    logits_dimension = property(lambda self: self._dimension,
                                doc="The number of outputs of the network that the head needs.")

    def predictions(self, logits):
        """Returns the predictions, by name, for the outputs of the network."""
        made = {"predictions": logits if self._link is None else self._link(logits)}
        if self._link is not None:
            made["logits"] = logits
        return made

    def _losses(self, labels, logits, features):
        labels = math.cast(_labels(labels, self._dimension), dtypes.float32)
        if self._loss_fn is not None:
            return labels, _called_loss(self._loss_fn, labels, logits, features)
        return labels, math.squared_difference(labels, logits)

    def _metrics(self, labels, logits, predictions, unweighted, weights):
        found = self._mean("average_loss", unweighted, weights)
        found.update(self._mean("prediction/mean", predictions["predictions"], weights))
        found.update(self._mean("label/mean", labels, weights))
        return found

    def _exports(self, predictions):
        regress = export.RegressionOutput(predictions["predictions"])
        return {export.DEFAULT_SERVING: regress, _REGRESS: regress, _PREDICT: export.PredictOutput(predictions)}


class LogisticRegressionHead(RegressionHead):
    """A head for regression of numbers from 0 to 1."""

    def __init__(self, weight_column=None, loss_reduction=_MEAN, name=None):
        super().__init__(weight_column, 1, loss_reduction, nn.sigmoid_cross_entropy_with_logits, math.sigmoid, name)


class PoissonRegressionHead(RegressionHead):
    """Counts."""

    def __init__(self, weight_column=None, label_dimension=1, loss_reduction=_MEAN, compute_full_loss=True, name=None):
        def loss(labels, logits):
            return nn.log_poisson_loss(labels, logits, compute_full_loss)
        super().__init__(weight_column, label_dimension, loss_reduction, loss, math.exp, name)


class MultiLabelHead(Head):
    """Any of n classes, each yes or no."""

    def __init__(self, n_classes, weight_column=None, thresholds=None, label_vocabulary=None,
                 loss_reduction=_MEAN,
                 loss_fn=None, name=None):
        if n_classes is None or n_classes < 2:
            raise ValueError("n_classes must be > 1 for multi-label classification. Given: %s" % n_classes)
        if label_vocabulary is not None:
            raise NotImplementedError("multi_label_head with a label_vocabulary")
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._n, self._thresholds = n_classes, _checked_thresholds(thresholds)

    logits_dimension = property(lambda self: self._n, doc="The number of outputs of the network that the head needs.")

    def predictions(self, logits):
        """Returns the predictions, by name, for the outputs of the network."""
        return {"logits": logits, "probabilities": math.sigmoid(logits)}

    def _losses(self, labels, logits, features):
        labels = math.cast(_labels(labels, self._n), dtypes.float32)
        if self._loss_fn is not None:
            return labels, _called_loss(self._loss_fn, labels, logits, features)
        each = nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return labels, math.reduce_mean(each, -1, keepdims=True)

    def _metrics(self, labels, logits, predictions, unweighted, weights):
        of = None if isinstance(weights, float) else weights
        found = self._mean("average_loss", unweighted, weights)
        found[self._key("auc")] = metrics.auc(labels, predictions["probabilities"], of)
        found[self._key("auc_precision_recall")] = metrics.auc(labels, predictions["probabilities"], of, curve="PR",
                                                               summation_method="careful_interpolation")
        found.update(self._at_thresholds(labels, predictions["probabilities"], of, self._thresholds))
        return found

    def _exports(self, predictions):
        n = array.shape(predictions["probabilities"])[0]
        names = array.tile(array.expand_dims(convert.constant([str(i) for i in range(self._n)]), 0), [n, 1])
        classify = export.ClassificationOutput(predictions["probabilities"], names)
        return {export.DEFAULT_SERVING: classify, _CLASSIFY: classify, _PREDICT: export.PredictOutput(predictions)}


def classification_head(n_classes, weight_column, label_vocabulary, loss_reduction):
    """Returns a head for two classes, or for more."""
    if n_classes == 2:
        return BinaryHead(weight_column, label_vocabulary=label_vocabulary, loss_reduction=loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)
