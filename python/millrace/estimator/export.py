"""tf.estimator.export: how an exported model is asked and what it answers."""

import collections

from ..framework import dtypes, ops
from ..ops import array, parsing
from ..saved_model import signature_constants, signature_def_utils

DEFAULT_SERVING = signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_SINGLE_FEATURE, _SINGLE_RECEIVER, _SINGLE_LABEL = "feature", "input", "label"


# ---- answers ----

class ExportOutput:
    """An output of an exported model."""

    def as_signature_def(self, receiver_tensors):
        """Returns the SignatureDef of this output for the given inputs; subclasses define it."""
        raise NotImplementedError


def _only_example(receiver_tensors, what):
    if len(receiver_tensors) != 1:
        raise ValueError("%s input must be a single string Tensor; got %s" % (what, receiver_tensors))
    (examples,) = receiver_tensors.values()
    if examples.dtype is not dtypes.string:
        raise ValueError("%s input must be a single string Tensor; got %s" % (what, receiver_tensors))
    return examples


class ClassificationOutput(ExportOutput):
    """Scores and/or classes."""

    def __init__(self, scores=None, classes=None):
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        if scores is not None and not (isinstance(scores, ops.Tensor) and scores.dtype.is_floating):
            raise ValueError("Classification scores must be a float32 Tensor; got %s" % (scores,))
        if classes is not None and not (isinstance(classes, ops.Tensor) and classes.dtype is dtypes.string):
            raise ValueError("Classification classes must be a string Tensor; got %s" % (classes,))
        self.scores, self.classes = scores, classes

    def as_signature_def(self, receiver_tensors):
        return signature_def_utils.classification_signature_def(_only_example(receiver_tensors, "Classification"), self.classes,
                                                                self.scores)


class RegressionOutput(ExportOutput):
    """The output of a regression: a tensor of numbers."""

    def __init__(self, value):
        if not (isinstance(value, ops.Tensor) and value.dtype.is_floating):
            raise ValueError("Regression output value must be a float32 Tensor; got %s" % (value,))
        self.value = value

    def as_signature_def(self, receiver_tensors):
        return signature_def_utils.regression_signature_def(_only_example(receiver_tensors, "Regression"), self.value)


class PredictOutput(ExportOutput):
    """Any tensors by name."""

    def __init__(self, outputs):
        outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
        for key, value in outputs.items():
            if not isinstance(key, str) or not isinstance(value, ops.Tensor):
                raise ValueError("Prediction outputs must be Tensors by string; got %s: %s" % (key, value))
        self.outputs = outputs

    def as_signature_def(self, receiver_tensors):
        return signature_def_utils.predict_signature_def(receiver_tensors, self.outputs)


def signatures(receiver_tensors, export_outputs, alternatives=None):
    """The signatures that outputs can have with these inputs; the default one must be possible."""
    if not isinstance(receiver_tensors, dict):
        receiver_tensors = {_SINGLE_RECEIVER: receiver_tensors}
    made, impossible = {}, {}
    for key, output in export_outputs.items():
        try:
            made[key] = output.as_signature_def(receiver_tensors)
        except ValueError as e:
            impossible[key] = str(e)
    for name, tensors in (alternatives or {}).items():
        for key, output in export_outputs.items():
            try:
                made["%s:%s" % (name, key)] = output.as_signature_def(tensors if isinstance(tensors, dict)
                                                                      else {_SINGLE_RECEIVER: tensors})
            except ValueError as e:
                impossible["%s:%s" % (name, key)] = str(e)
    if DEFAULT_SERVING in impossible:
        from .. import logging
        logging.warning("Export includes no default signature! (%s)", impossible[DEFAULT_SERVING])
    return {k: s for k, s in made.items() if signature_def_utils.is_valid_signature(s)}


# ---- questions ----

def _named(tensors, single):
    tensors = tensors if isinstance(tensors, dict) else {single: tensors}
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise ValueError("feature keys must be strings: %s." % (name,))
        if not isinstance(tensor, ops.Tensor) and not hasattr(tensor, "_composite_parts"):
            raise ValueError("feature %s must be a Tensor or SparseTensor." % name)
    return tensors


class ServingInputReceiver(collections.namedtuple("ServingInputReceiver",
                                                  ["features", "receiver_tensors", "receiver_tensors_alternatives"])):
    """The features that a model gets, and the tensors that are fed for them."""

    def __new__(cls, features, receiver_tensors, receiver_tensors_alternatives=None):
        if features is None:
            raise ValueError("features must be defined.")
        if receiver_tensors is None:
            raise ValueError("receiver_tensors must be defined.")
        return super().__new__(cls, _named(features, _SINGLE_FEATURE), _named(receiver_tensors, _SINGLE_RECEIVER),
                               receiver_tensors_alternatives)


class TensorServingInputReceiver(collections.namedtuple("TensorServingInputReceiver",
                                                        ["features", "receiver_tensors", "receiver_tensors_alternatives"])):
    """The inputs of a served model whose features are one tensor instead of a dict."""

    def __new__(cls, features, receiver_tensors, receiver_tensors_alternatives=None):
        if not isinstance(features, ops.Tensor):
            raise ValueError("feature must be a Tensor.")
        return super().__new__(cls, features, _named(receiver_tensors, _SINGLE_RECEIVER), receiver_tensors_alternatives)


def build_parsing_serving_input_receiver_fn(feature_spec, default_batch_size=None):
    """A function for models that get serialized Examples."""
    def receiver():
        examples = array.placeholder(dtypes.string, [default_batch_size], name="input_example_tensor")
        return ServingInputReceiver(parsing.parse_example(examples, feature_spec), {"examples": examples})
    return receiver


def build_raw_serving_input_receiver_fn(features, default_batch_size=None):
    """A function for models that get their features as they are."""
    def receiver():
        fed = {}
        for name, t in features.items():
            shape = t.shape.as_list()
            shape[0] = default_batch_size
            fed[name] = array.placeholder(t.dtype, shape, name=t.op.name)
        return ServingInputReceiver(fed, dict(fed))
    return receiver
