"""Operations between layers as layers, so that a model may contain any operation of the graph."""

import millrace as tf

from ...framework import convert, ops
from .. import backend as K
from . import base_layer


def give_history(tensors):
    """Notes the operations that lie between tensors of Keras and these as calls of layers."""
    for t in tensors:
        if isinstance(t, ops.Tensor) and not hasattr(t, "_keras_history") and _comes_from_keras(t):
            _note(t.op)


def _comes_from_keras(tensor):
    """Whether there is a tensor of Keras among its ancestors.  What has none is marked, to be asked once."""
    seen, stack = [], [tensor]
    known = set()
    while stack:
        t = stack.pop()
        if hasattr(t, "_keras_history"):
            return True
        if id(t) in known or getattr(t, "_keras_checked", False):
            continue
        known.add(id(t))
        seen.append(t)
        stack.extend(t.op.inputs)
    for t in seen:
        t._keras_checked = True
    return False


def _note(op):
    """Nodes for the operation and those before it, first ones first."""
    stack = [op]
    while stack:
        now = stack[-1]
        if all(hasattr(t, "_keras_history") for t in now.outputs):
            stack.pop()
            continue
        before = [t.op for t in now.inputs if not hasattr(t, "_keras_history") and _comes_from_keras(t)]
        if before:
            stack.extend(before)
            continue
        stack.pop()
        layer = OpLayer(now)
        inputs = [t for t in now.inputs if hasattr(t, "_keras_history")]
        base_layer.Node(layer, (inputs,), {}, list(now.outputs))


class OpLayer(base_layer.Layer):
    """An operation; those of its inputs that come from no input of Keras stay what they are."""

    def __init__(self, op=None, name=None, **kwargs):
        super().__init__(name=name or "tf_op_layer_" + op.name.replace("/", "_"), **kwargs)
        self._op, self.built = op, True
        self._from_keras = [hasattr(t, "_keras_history") for t in op.inputs]

    def call(self, inputs):
        from ...ops.variable_base import _nested_like
        given = iter(inputs if isinstance(inputs, (list, tuple)) else [inputs])
        op = self._op
        full = [next(given) if keras else t for keras, t in zip(self._from_keras, op.inputs)]
        attrs = [(key, "p", value.SerializeToString()) for key, value in op.node_def.attr.items()]
        made = ops.get_default_graph()._add(op.type, op.name.rpartition("/")[2], _nested_like(op, full), attrs)
        return list(made.outputs)

    def compute_mask(self, inputs, mask=None):
        return None

    def get_config(self):
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype}
        fixed = {i: t for i, (t, keras) in enumerate(zip(self._op.inputs, self._from_keras)) if not keras}
        values = {i: convert.constant_value(t) for i, t in fixed.items()}
        for i, v in values.items():
            values[i] = (K.get_session().run(fixed[i]) if v is None else v).tolist()
        config.update(node_def=self._op.node_def.SerializeToString().hex(), constants=values,
                      types={i: t.dtype.name for i, t in enumerate(self._op.inputs)})
        return config

    @classmethod
    def from_config(cls, config):
        """Creates the operation again on placeholders, so that calls can repeat it."""
        from ... import protos
        node = protos.NodeDef.FromString(bytes.fromhex(config["node_def"]))
        constants = {int(k): v for k, v in config["constants"].items()}
        types = {int(k): v for k, v in config["types"].items()}
        layer = cls.__new__(cls)
        base_layer.Layer.__init__(layer, name=config["name"], trainable=config["trainable"], dtype=config["dtype"])
        with ops.name_scope(config["name"] + "_pattern"):
            inputs = [tf.constant(constants[i], dtype=types[i]) if i in constants else tf.placeholder(types[i])
                      for i in sorted(types)]
            coded = [(key, "p", value.SerializeToString()) for key, value in node.attr.items() if key != "_class"]
            layer._op = _like_pattern(node, inputs, coded)
        layer._from_keras, layer.built = [i not in constants for i in sorted(types)], True
        return layer


def _like_pattern(node, inputs, attrs):
    from ...framework import op_defs
    nested, at = [], 0
    for arg in op_defs.plan(node.op, ops.get_default_graph()).inputs:
        if arg.number_attr:
            n = node.attr[arg.number_attr].i
            nested.append(inputs[at:at + n])
        elif arg.types_attr:
            n = len(node.attr[arg.types_attr].list.type)
            nested.append(inputs[at:at + n])
        else:
            n = 1
            nested.append(inputs[at])
        at += n
    return ops.get_default_graph()._add(node.op, node.op, nested, attrs)
