"""A model of Keras as an estimator.

Each mode has a graph of its own, in which the layers are made anew by their configurations; their names, and so those of their
variables, are the same.  Training begins with the weights that the model had.
"""

import millrace as tf

from . import backend as K
from . import optimizers


def model_to_estimator(keras_model=None, keras_model_path=None, custom_objects=None, model_dir=None, config=None,
                       checkpoint_format="saver"):
    """Makes an Estimator from a compiled model.

    Args:
        keras_model: the model, or
        keras_model_path: the file of a saved model
        custom_objects: {name: class or function} that the model needs
        model_dir: the folder for checkpoints
        config: a RunConfig
    """
    if (keras_model is None) == (keras_model_path is None):
        raise ValueError("Please specity either `keras_model` or `keras_model_path`, but not both.")
    if checkpoint_format not in ("saver", None):
        raise NotImplementedError("model_to_estimator(checkpoint_format=%r)" % checkpoint_format)
    if keras_model_path is not None:
        from .models import load_model
        keras_model = load_model(keras_model_path, custom_objects)
    if not keras_model._is_compiled or not keras_model.optimizer:
        raise ValueError("The given keras model has not been compiled yet. Please compile the model with `model.compile()` "
                         "before calling `model_to_estimator()`.")
    return tf.estimator.Estimator(_model_fn(keras_model, custom_objects), model_dir=model_dir, config=config)


def _in_order(given, names, what):
    """Tensors in the order of the names."""
    if given is None:
        return None
    if isinstance(given, dict):
        missing = [n for n in names if n not in given]
        if missing:
            raise KeyError("The %s do not contain %s; the model has %s" % (what, missing[0], ", ".join(names)))
        return [given[n] for n in names]
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _model_fn(model, custom_objects):
    values, weights = model.get_weights(), [w.name for w in model.weights]
    if isinstance(model.optimizer, optimizers.TFOptimizer):
        new_optimizer = lambda: model.optimizer.optimizer
    else:
        optimizer = optimizers.serialize(model.optimizer)
        new_optimizer = lambda: optimizers.deserialize(optimizer, custom_objects)

    def model_fn(features, labels, mode):
        with K.learning_phase_scope(1 if mode == tf.estimator.ModeKeys.TRAIN else 0):
            made = _rebuilt(model, _in_order(features, model.input_names, "features"), custom_objects)
            predictions = dict(zip(model.output_names, made.outputs))
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(mode, predictions=predictions)
            made.compile(new_optimizer(), model.loss, metrics=_names(model, "metrics"), loss_weights=model.loss_weights,
                         weighted_metrics=_names(model, "weighted_metrics"),
                         target_tensors=_fitted(made, _in_order(labels, model.output_names, "labels")))
            if mode == tf.estimator.ModeKeys.EVAL:
                return tf.estimator.EstimatorSpec(mode, predictions=predictions, loss=made.total_loss,
                                                  eval_metric_ops=_metrics(made))
            return tf.estimator.EstimatorSpec(mode, predictions=predictions, loss=made.total_loss, train_op=_train_op(made),
                                              scaffold=_scaffold(made, dict(zip(weights, values))))

    return model_fn


def _rebuilt(model, inputs, custom_objects):
    from .engine import config
    from .utils import generic

    def make(layer):
        with generic.CustomObjectScope(custom_objects):
            return type(layer).from_config(layer.get_config())

    return config.clone(model, inputs, make)


def _names(model, what):
    """Metric objects have variables in a graph; in another they are made anew."""
    from . import metrics
    fresh = lambda m: type(m).from_config(m.get_config()) if isinstance(m, metrics.Metric) else m
    given = model._compile_arguments[what]
    if isinstance(given, dict):
        return {k: [fresh(m) for m in v] if isinstance(v, (list, tuple)) else fresh(v) for k, v in given.items()}
    return [fresh(m) for m in given] if given else given


def _fitted(made, labels):
    """Labels with as many dimensions as the outputs: a vector is a column."""
    out = []
    for t, y in zip(made.outputs, labels):
        y = tf.convert_to_tensor(y)
        out.append(tf.expand_dims(y, -1) if y.shape.ndims is not None and y.shape.ndims == t.shape.ndims - 1 else y)
    return out


def _metrics(made):
    for m in made.metrics:
        for v in m.weights:
            tf.add_to_collection(tf.GraphKeys.LOCAL_VARIABLES, v)
    return {name: (m.result(), value) for name, m, value in zip(made._metric_names, made.metrics, made._metric_values)}


def _train_op(made):
    for m in made.metrics:
        for v in m.weights:
            tf.add_to_collection(tf.GraphKeys.LOCAL_VARIABLES, v)
    _, done = made._fetches("train")
    return tf.group(*(list(done) + [tf.assign_add(tf.train.get_or_create_global_step(), 1).op]))


def _scaffold(made, values):
    """New training begins with the weights that are given."""
    given = [(w, tf.placeholder(w.dtype.base_dtype, w.shape)) for w in made.weights]
    assign = tf.group(*[tf.assign(w, p).op for w, p in given])
    return tf.train.Scaffold(init_fn=lambda scaffold, session: session.run(assign, {p: values[w.name] for w, p in given}))
