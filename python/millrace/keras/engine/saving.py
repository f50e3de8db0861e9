"""Weights and models in files.

Weights are checkpoints of TensorFlow's format, whose entries are named as TensorFlow 1.15 does (by places of layers and names
of attributes), so that its checkpoints of the same layers can be loaded.  Names that end in .h5 or .keras are HDF5 files, for
which h5py must be there.
"""

import json
import os

import numpy as np

import millrace as tf

from ...framework.op_defs import raw
from .. import backend as K
from .. import optimizers
from ..utils import generic
from .base_layer import Layer

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


def _h5py(path):
    try:
        import h5py
    except ImportError:
        raise ImportError("`%s` is a file of HDF5, which requires h5py, and h5py is not installed. A path without .h5 makes a "
                          "checkpoint of TensorFlow's format" % path) from None
    return h5py


def _is_hdf5(path, save_format):
    if save_format is None:
        return str(path).endswith((".h5", ".keras", ".hdf5"))
    save_format = save_format.lower().strip()
    if save_format in ("tensorflow", "tf"):
        return False
    if save_format in ("hdf5", "h5", "keras"):
        return True
    raise ValueError('Unknown format "%s". Was expecting one of {"tf", "h5"}.' % save_format)


# ---- checkpoints ----

def _held(owner):
    """(path, variable) of what a layer or model holds, as TensorFlow names it: by attributes, and for the layers of a graph of
    calls by their place among those with weights."""
    from ..engine.network import Network
    if isinstance(owner, Network) and owner._is_graph_network:
        for i, layer in enumerate(x for x in owner._sublayers() if x.weights):
            yield from (("layer_with_weights-%d/%s" % (i, path), v) for path, v in _held(layer))
        return
    for name, value in vars(owner).items():
        if name.startswith("_"):
            continue
        for key, x in [(name, value)] if not isinstance(value, (list, tuple)) else [
                ("%s/%d" % (name, i), x) for i, x in enumerate(value)]:
            if isinstance(x, tf.Variable):
                yield key, x
            elif isinstance(x, Layer):
                yield from (("%s/%s" % (key, path), v) for path, v in _held(x))


def _entries(model):
    """{name in the checkpoint: variable}; weights that no attribute holds go by their own names."""
    found, seen = {}, set()
    for path, v in _held(model):
        if id(v) not in seen:
            seen.add(id(v))
            found[path + _SUFFIX] = v
    wanted = {id(v) for v in model.weights}
    found = {k: v for k, v in found.items() if id(v) in wanted}
    found.update((w.op.name + _SUFFIX, w) for w in model.weights if id(w) not in seen)
    return found


def save_weights(model, filepath, overwrite=True, save_format=None):
    if _is_hdf5(filepath, save_format):
        h5py = _h5py(filepath)
        _ask_before(filepath, overwrite)
        with h5py.File(filepath, "w") as f:
            _to_group(model, f)
        return
    _ask_before(filepath + ".index", overwrite)
    entries = _entries(model)
    folder = os.path.dirname(filepath)
    if folder:
        os.makedirs(folder, exist_ok=True)
    _write(model, filepath, entries)
    tf.train.update_checkpoint_state(folder or ".", filepath, [filepath], save_relative_paths=True)


def _ask_before(path, overwrite):
    if not overwrite and os.path.exists(path):
        answer = input("[WARNING] %s already exists - overwrite? [y/n]" % path).strip().lower()
        if answer != "y":
            raise FileExistsError("%s exists and overwrite is False" % path)


def _write(model, prefix, entries):
    """By operations that are kept: saving again adds nothing to the graph."""
    kept = model.__dict__.setdefault("_save_ops", {})
    key = tuple(entries)
    if key not in kept:
        with tf.name_scope(None), tf.control_dependencies(None):
            path = tf.placeholder(tf.string, [], name="save_path")
            values = [tf.identity(v) for v in entries.values()]
            kept[key] = path, raw.save_v2(path, list(entries), [""] * len(entries), values)
    path, op = kept[key]
    K.get_session().run(op, feed_dict={path: prefix})


def load_weights(model, filepath, by_name=False):
    if _is_hdf5(filepath, None):
        h5py = _h5py(filepath)
        with h5py.File(filepath, "r") as f:
            _from_group(model, f["model_weights"] if "model_weights" in f else f, by_name)
        return None
    if by_name:
        raise NotImplementedError("Weights may only be loaded based on topology into Models when loading TensorFlow-formatted "
                                  "weights (got by_name=True to load_weights).")
    if not os.path.exists(filepath + ".index"):
        latest = tf.train.latest_checkpoint(filepath) if os.path.isdir(filepath) else None
        if latest is None:
            raise tf.errors.NotFoundError(None, None, "Unsuccessful TensorSliceReader constructor: Failed to find any matching "
                                          "files for %s" % filepath)
        filepath = latest
    if not model.weights:
        raise NotImplementedError("The model has no weights yet: build it or call it on data, then load them")
    reader = tf.train.load_checkpoint(filepath)
    there = reader.get_variable_to_shape_map()
    entries = _entries(model)
    missing = [k for k in entries if k not in there]
    if missing:
        raise ValueError("The checkpoint %s has no %s" % (filepath, ", ".join(missing)))
    pairs = []
    for key, v in entries.items():
        value = reader.get_tensor(key)
        if list(value.shape) != v.shape.as_list():
            raise ValueError("Shapes %s and %s of %s are incompatible" % (value.shape, v.shape, key))
        pairs.append((v, value))
    K.batch_set_value(pairs)
    return Status(filepath)


class Status:
    """What load_weights returns: all was found, or it would have said so."""

    def __init__(self, path):
        self.path = path

    def assert_consumed(self):
        return self

    def assert_existing_objects_matched(self):
        return self

    def expect_partial(self):
        return self


# ---- HDF5 ----

def _to_group(model, f):
    layers = [layer for layer in model.layers]
    f.attrs["layer_names"] = [layer.name.encode() for layer in layers]
    f.attrs["backend"], f.attrs["keras_version"] = K.backend().encode(), b"2.2.4-tf"
    for layer in layers:
        group = f.create_group(layer.name)
        values = K.batch_get_value(layer.weights)
        names = [w.name.encode() for w in layer.weights]
        group.attrs["weight_names"] = names
        for name, value in zip(names, values):
            group.create_dataset(name.decode(), data=value)


def _text(x):
    return x.decode() if isinstance(x, bytes) else x


def _from_group(model, f, by_name):
    saved = [(_text(n), [_text(w) for w in f[_text(n)].attrs["weight_names"]]) for n in f.attrs["layer_names"]]
    saved = [(n, [np.asarray(f[n][w]) for w in names]) for n, names in saved if names]
    mine = [layer for layer in model.layers if layer.weights]
    if by_name:
        by_name = dict(saved)
        pairs = [(layer, by_name[layer.name]) for layer in mine if layer.name in by_name]
    else:
        if len(saved) != len(mine):
            raise ValueError("You are trying to load a weight file containing %d layers into a model with %d layers." %
                             (len(saved), len(mine)))
        pairs = list(zip(mine, [values for _, values in saved]))
    for layer, values in pairs:
        if len(values) != len(layer.weights):
            raise ValueError("Layer %s expects %d weights, but the file has %d" % (layer.name, len(layer.weights), len(values)))
    K.batch_set_value([(w, v) for layer, values in pairs for w, v in zip(layer.weights, values)])


# ---- models ----

def _training_config(model):
    if not getattr(model, "optimizer", None) or isinstance(model.optimizer, optimizers.TFOptimizer):
        return None
    name = lambda x: generic.serialize_keras_object(x) if callable(x) else x
    a = model._compile_arguments
    return generic.plain({"optimizer_config": generic.serialize_keras_object(model.optimizer),
                          "loss": _mapped(name, model.loss), "metrics": _mapped(name, a["metrics"]),
                          "weighted_metrics": _mapped(name, a["weighted_metrics"]),
                          "sample_weight_mode": model.sample_weight_mode, "loss_weights": model.loss_weights})


def _mapped(f, x):
    if isinstance(x, dict) and "class_name" not in x:
        return {k: _mapped(f, v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_mapped(f, v) for v in x]
    return f(x)


def save_model(model, filepath, overwrite=True, include_optimizer=True, save_format=None):
    """The architecture, weights, and how it is trained.  Without HDF5 that is a folder: model.json and checkpoints."""
    if save_format is None and not str(filepath).endswith((".h5", ".keras", ".hdf5")):
        save_format = "h5"  # TensorFlow 1.x's default
    config = generic.plain(model._updated_config())
    training = _training_config(model) if include_optimizer else None
    if _is_hdf5(filepath, save_format):
        h5py = _h5py(filepath)
        _ask_before(filepath, overwrite)
        with h5py.File(filepath, "w") as f:
            f.attrs["model_config"] = json.dumps(config).encode()
            _to_group(model, f.create_group("model_weights"))
            if training is not None:
                f.attrs["training_config"] = json.dumps(training).encode()
                _optimizer_to_group(model.optimizer, f)
        return
    if not overwrite and os.path.exists(filepath):
        _ask_before(filepath, overwrite)
    os.makedirs(os.path.join(filepath, "assets"), exist_ok=True)
    os.makedirs(os.path.join(filepath, "variables"), exist_ok=True)
    with open(os.path.join(filepath, "assets", "saved_model.json"), "w") as f:
        json.dump({"model": config, "training": training}, f)
    _write(model, os.path.join(filepath, "variables", "variables"), _entries(model))
    if training is not None and model.optimizer.weights:
        _write(model, os.path.join(filepath, "variables", "optimizer"), {v.op.name: v for v in model.optimizer.weights})


def _optimizer_to_group(optimizer, f):
    if not optimizer.weights:
        return
    group = f.create_group("optimizer_weights")
    names = [w.name.encode() for w in optimizer.weights]
    group.attrs["weight_names"] = names
    for name, value in zip(names, optimizer.get_weights()):
        group.create_dataset(name.decode(), data=value)


def load_model(filepath, custom_objects=None, compile=True):  # noqa: A002 -- Keras' name
    """Loads a model that save_model wrote."""
    if os.path.isdir(filepath):
        with open(os.path.join(filepath, "assets", "saved_model.json")) as f:
            saved = json.load(f)
        model = model_from_config(saved["model"], custom_objects)
        load_weights(model, os.path.join(filepath, "variables", "variables"))
        if compile and saved["training"]:
            _compile(model, saved["training"], custom_objects)
            _restore_optimizer(model, os.path.join(filepath, "variables", "optimizer"))
        return model
    if not os.path.exists(filepath):
        raise OSError("SavedModel file does not exist at: %s" % filepath)
    h5py = _h5py(filepath)
    with h5py.File(filepath, "r") as f:
        if f.attrs.get("model_config") is None:
            raise ValueError("No model found in config file.")
        model = model_from_config(json.loads(_text(f.attrs["model_config"])), custom_objects)
        _from_group(model, f["model_weights"], False)
        if compile and f.attrs.get("training_config") is not None:
            _compile(model, json.loads(_text(f.attrs["training_config"])), custom_objects)
            if "optimizer_weights" in f:
                group = f["optimizer_weights"]
                _make_optimizer_weights(model)
                model.optimizer.set_weights([np.asarray(group[_text(n)]) for n in group.attrs["weight_names"]])
    return model


def _compile(model, training, custom_objects):
    optimizer = optimizers.deserialize(training["optimizer_config"], custom_objects)
    named = lambda x: generic.find_object(x, None, custom_objects, "") if isinstance(x,
                                                                                     str) and x in (custom_objects or {}) else x
    model.compile(optimizer, _mapped(named, training["loss"]), metrics=_mapped(named, training["metrics"]),
                  weighted_metrics=_mapped(named, training["weighted_metrics"]), loss_weights=training["loss_weights"],
                  sample_weight_mode=training["sample_weight_mode"])


def _make_optimizer_weights(model):
    """Slots come with the first step of training; here its operations are made without being run."""
    if "train" not in model._steps:
        values, done = model._fetches("train")
        model._steps["train"] = values, [getattr(x, "op", x) for x in done]


def _restore_optimizer(model, prefix):
    if not os.path.exists(prefix + ".index"):
        return
    _make_optimizer_weights(model)
    reader = tf.train.load_checkpoint(prefix)
    names = sorted(reader.get_variable_to_shape_map())
    mine = model.optimizer.weights
    there = {n: reader.get_tensor(n) for n in names}
    K.batch_set_value([(v, there[v.op.name]) for v in mine if v.op.name in there])


def model_from_config(config, custom_objects=None):
    """Makes a model from the result of get_config with its class name."""
    if isinstance(config, list):
        raise TypeError("`model_from_config` expects a dictionary, not a list. Maybe you meant to use "
                        "`Sequential.from_config(config)`?")
    from ..layers import serialization
    return serialization.deserialize(config, custom_objects=custom_objects)


def model_from_json(json_string, custom_objects=None):
    """Makes a model from the result of to_json."""
    return model_from_config(json.loads(json_string), custom_objects)


def model_from_yaml(yaml_string, custom_objects=None):
    """Makes a model from the result of to_yaml."""
    try:
        import yaml
    except ImportError:
        raise ImportError("Requires yaml module installed (`pip install pyyaml`).") from None
    return model_from_config(yaml.safe_load(yaml_string), custom_objects)
