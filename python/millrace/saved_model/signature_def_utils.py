"""Signatures: what a graph of a SavedModel takes and gives, by names that are not its nodes'."""
from ..framework import dtypes
from ..protos import SignatureDef
from . import signature_constants as names
from .utils import build_tensor_info, build_tensor_info_from_op, get_element_from_tensor_info


def build_signature_def(inputs=None, outputs=None, method_name=None):
    """Makes a SignatureDef from TensorInfos by name."""
    signature = SignatureDef()
    for field, given in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for key, info in (given or {}).items():
            field[key].CopyFrom(info)
    if method_name is not None:
        signature.method_name = method_name
    return signature


def _infos(tensors):
    return {key: build_tensor_info(t) for key, t in tensors.items()}


def predict_signature_def(inputs, outputs):
    """Makes a signature for prediction from tensors by name."""
    if not inputs:
        raise ValueError("Prediction inputs cannot be None or empty.")
    if not outputs:
        raise ValueError("Prediction outputs cannot be None or empty.")
    return build_signature_def(_infos(inputs), _infos(outputs), names.PREDICT_METHOD_NAME)


def _must_be(tensor, dtype, what):
    info = build_tensor_info(tensor)
    if info.dtype != int(dtype):
        raise ValueError("%s must be of type %s." % (what, dtype.name))
    return info


def regression_signature_def(examples, predictions):
    """Makes a signature that predicts numbers from serialized Example messages."""
    if examples is None:
        raise ValueError("Regression examples cannot be None.")
    if predictions is None:
        raise ValueError("Regression predictions cannot be None.")
    return build_signature_def({names.REGRESS_INPUTS: _must_be(examples, dtypes.string, "Regression input tensors")},
                               {names.REGRESS_OUTPUTS: _must_be(predictions, dtypes.float32, "Regression output tensors")},
                               names.REGRESS_METHOD_NAME)


def classification_signature_def(examples, classes, scores):
    """Makes a signature that predicts classes, scores or both from serialized Example messages."""
    if examples is None:
        raise ValueError("Classification examples cannot be None.")
    if classes is None and scores is None:
        raise ValueError("Classification classes and scores cannot both be None.")
    outputs = {}
    if classes is not None:
        outputs[names.CLASSIFY_OUTPUT_CLASSES] = _must_be(classes, dtypes.string, "Classification classes")
    if scores is not None:
        outputs[names.CLASSIFY_OUTPUT_SCORES] = _must_be(scores, dtypes.float32, "Classification scores")
    return build_signature_def({names.CLASSIFY_INPUTS: _must_be(examples, dtypes.string, "Classification input tensors")},
                               outputs,
                               names.CLASSIFY_METHOD_NAME)


def _supervised_signature_def(method_name, inputs, loss, predictions, metrics):
    if not inputs:
        raise ValueError("%s inputs cannot be None or empty." % method_name)
    outputs = {"loss": build_tensor_info(loss)} if loss is not None else {}
    for prefix, given in (("predictions", predictions), ("metrics", metrics)):
        for key, value in (given or {}).items():
            for suffix, t in zip(("/value", "/update_op"), value) if isinstance(value, tuple) else [("", value)]:
                outputs["%s%s" % (key if key.startswith(prefix) else "%s/%s" % (prefix, key), suffix)] = build_tensor_info(t)
    return build_signature_def(_infos(inputs), outputs, method_name)


def supervised_train_signature_def(inputs, loss, predictions=None, metrics=None):
    """Makes a signature for training: inputs, loss, predictions and metrics."""
    return _supervised_signature_def(names.SUPERVISED_TRAIN_METHOD_NAME, inputs, loss, predictions, metrics)


def supervised_eval_signature_def(inputs, loss, predictions=None, metrics=None):
    """Makes a signature for evaluation: inputs, loss, predictions and metrics."""
    return _supervised_signature_def(names.SUPERVISED_EVAL_METHOD_NAME, inputs, loss, predictions, metrics)


def is_valid_signature(signature_def):
    """Whether a server of models would take it."""
    if signature_def is None:
        return False
    s, text, real = signature_def, int(dtypes.string), int(dtypes.float32)
    if s.method_name == names.PREDICT_METHOD_NAME:
        return bool(len(s.inputs) and len(s.outputs))
    if s.method_name == names.CLASSIFY_METHOD_NAME:
        allowed = {names.CLASSIFY_OUTPUT_CLASSES: text, names.CLASSIFY_OUTPUT_SCORES: real}
        return (set(s.inputs) == {names.CLASSIFY_INPUTS} and s.inputs[names.CLASSIFY_INPUTS].dtype == text
                and len(s.outputs) > 0 and
                all(key in allowed and s.outputs[key].dtype == allowed[key] for key in s.outputs))
    if s.method_name == names.REGRESS_METHOD_NAME:
        return (set(s.inputs) == {names.REGRESS_INPUTS} and s.inputs[names.REGRESS_INPUTS].dtype == text and
                set(s.outputs) == {names.REGRESS_OUTPUTS} and s.outputs[names.REGRESS_OUTPUTS].dtype == real)
    return False


def op_signature_def(op, key):
    """Makes a signature that holds an operation under a key."""
    return build_signature_def(outputs={key: build_tensor_info_from_op(op)})


def load_op_from_signature_def(signature_def, key, import_scope=None):
    """Returns the operation that op_signature_def put under a key."""
    return get_element_from_tensor_info(signature_def.outputs[key], import_scope=import_scope)
