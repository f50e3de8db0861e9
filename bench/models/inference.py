"""Inference of frozen networks beside PyTorch, TorchScript, onnxruntime and OpenCV."""
import json
import os
import warnings

import numpy as np
import tensorflow as tf
import torch

import networks as nets
from layers import MillraceSide, TorchSide, Weights
from sessions import ONE_THREAD
from timing import Child
from training import Module

# name: the network, the shape of one input, the number of classes of integers (0: floats), batches
MODELS = {
    "mlp": (nets.mlp_logits, (784,), 0, (1, 32)),
    "lenet": (nets.lenet_logits, (28, 28, 1), 0, (1, 32)),
    "mobilenet_v2": (nets.mobilenet_v2_logits, (224, 224, 3), 0, (1, 32)),
    "resnet50": (nets.resnet50_logits, (224, 224, 3), 0, (1, 32)),
    "bert_small": (nets.bert_small, (128,), 30522, (1, 32)),
}
CLOSE = 2e-3  # largest difference of an output, relative to the largest output


def torch_steps(weights, network, x, folder):
    """Steps of PyTorch by name, the output, and the path of the network as an ONNX file."""
    steps = {}
    with torch.no_grad():
        for layout in ("", "_channels_last") if x.ndim == 4 else ("",):
            side = TorchSide(weights, bool(layout), training=False)
            tx = side.input(x)
            module = Module(side, network, tx).eval()
            script = torch.jit.freeze(torch.jit.trace(module, tx, check_trace=False))
            optimized = torch.jit.optimize_for_inference(torch.jit.trace(module, tx, check_trace=False))
            for kind, call in (("torch", module), ("torchscript", script), ("torchscript_optimized", optimized)):
                steps[kind + layout] = lambda call=call, tx=tx: without_gradients(call, tx)
            if not layout:
                y = side.output(module(tx))
                path = os.path.join(folder, "model.onnx")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    torch.onnx.export(module, tx, path, opset_version=13, input_names=["x"], output_names=["y"])
    return steps, y, tx.contiguous().numpy(), path


def without_gradients(call, x):
    with torch.no_grad():
        return call(x)


def opencv_step(path, x):
    """A step of OpenCV, or None: it cannot read every network."""
    import cv2
    cv2.setNumThreads(1)
    try:
        net = cv2.dnn.readNetFromONNX(path)
        net.setInput(x)
        y = net.forward()
    except cv2.error:
        return None, None

    def step():
        net.setInput(x)
        return net.forward()
    return step, y


def onnxruntime_side(node, modules, path, x):
    """onnxruntime in a process of its own, and its output."""
    given = path + ".json"
    kind = "int64" if x.dtype == np.int64 else "float32"
    with open(given, "w", encoding="utf-8") as f:
        json.dump(dict(type=kind, shape=x.shape, values=x.reshape(-1).tolist()), f)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ort.mjs")
    child = Child([node, script, modules, path, given], dict(os.environ))
    with open(given + ".out", encoding="utf-8") as f:
        return child, np.array(json.load(f), np.float32)


def frozen_session(weights, network, x):
    """A session of the network with its variables as constants; the input is x:0, the output y:0."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph, config=ONE_THREAD) as session:
        placeholder = tf.placeholder(tf.as_dtype(x.dtype), x.shape, name="x")
        tf.identity(network(MillraceSide(weights, training=False), placeholder), name="y")
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen, name="")
        return tf.Session(graph=graph, config=ONE_THREAD)


def make(name, batch, folder, node, modules):
    """All sides as a dict by name, each a function or a Child; outputs that differ are an error."""
    network, shape, classes, _batches = MODELS[name]
    random = np.random.RandomState(7)
    x = random.randint(0, classes, (batch, *shape)).astype("i8") if classes else random.rand(batch, *shape).astype("f")
    weights = Weights(8)
    steps, want, torch_x, path = torch_steps(weights, network, x, folder)
    session = frozen_session(weights, network, x)
    run = session.make_callable(session.graph.get_tensor_by_name("y:0"), [session.graph.get_tensor_by_name("x:0")])
    outputs = {"millrace": run(x)}
    sides = {"millrace": lambda: run(x), **steps}
    if x.dtype == np.float32:
        step, outputs["opencv"] = opencv_step(path, torch_x)
        if step:
            sides["opencv"] = step
    if modules:
        sides["onnxruntime"], outputs["onnxruntime"] = onnxruntime_side(node, modules, path, torch_x)
    for side, y in outputs.items():
        if y is None:
            continue
        error = np.abs(y.reshape(-1) - want.reshape(-1)).max() / np.abs(want).max()
        if not error < CLOSE:
            raise RuntimeError(f"{side} and PyTorch give outputs that differ by {error:.2g} of the largest")
    return sides, session
