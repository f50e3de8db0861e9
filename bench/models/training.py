"""Training steps of feed-forward networks beside PyTorch: eager and TorchScript, both memory formats for images."""
import numpy as np
import tensorflow as tf
import torch

import networks as nets
from layers import MillraceSide, TorchSide, Weights
from sessions import Trainer


def images(batch, size, channels=3):
    return lambda random: random.rand(batch, size, size, channels).astype("f")


def normal(*shape):
    return lambda random: random.randn(*shape).astype("f")


def integers(n, *shape):
    return lambda random: random.randint(0, n, shape).astype("i8")


def sgd(rate):
    return lambda: tf.train.GradientDescentOptimizer(rate), lambda p: torch.optim.SGD(p, rate)


SGD = sgd(0.01)
# At a rate of 0.01 the second loss of ResNet-50 moves by up to 3 % when its input changes by rounding; here by 0.2 %.
GENTLE_SGD = sgd(0.0003)
MOMENTUM = (lambda: tf.train.MomentumOptimizer(0.01, 0.9), lambda p: torch.optim.SGD(p, 0.01, momentum=0.9))
ADAM = (lambda: tf.train.AdamOptimizer(1e-3), lambda p: torch.optim.Adam(p, 1e-3))
FORWARD = (None, None)

# name: loss of the network, input, labels, optimizers, what the ratio should reach
MODELS = {
    "mlp_b128_sgd": (nets.classifier(nets.mlp_logits), normal(128, 784), integers(10, 128), SGD, 1.6),
    "batch_norm_mlp_b256_adam":
        (nets.classifier(nets.batch_norm_mlp_logits), normal(256, 784), integers(10, 256), ADAM, 1.6),
    "lenet_b128_sgd": (nets.classifier(nets.lenet_logits), images(128, 28, 1), integers(10, 128), SGD, None),
    "resnet20_b32_momentum":
        (nets.classifier(nets.resnet20_logits), images(32, 32), integers(10, 32), MOMENTUM, 1.7),
    "resnet50_b4_sgd": (nets.classifier(nets.resnet50_logits), images(4, 224), integers(1000, 4), GENTLE_SGD, 1.4),
    "mobilenet_v2_128_b8_sgd":
        (nets.classifier(nets.mobilenet_v2_logits), images(8, 128), integers(1000, 8), SGD, 1.4),
    "dcgan_32_b32_adam": (nets.dcgan_loss, normal(32, 100), integers(2, 32), ADAM, 1.7),
    "unet_128_b2_adam": (nets.unet_loss, images(2, 128), integers(2, 2), ADAM, 1.7),
    "text_cnn_b32_adam": (nets.classifier(nets.text_cnn_logits), integers(20000, 32, 128), integers(5, 32), ADAM, 1.6),
    "transformer_block_b8_sgd": (nets.transformer_block_loss, normal(8, 128, 256), integers(2, 8), SGD, 1.4),
    "gpt_l4_b8_adam": (nets.gpt_loss, integers(8192, 8, 128), integers(8192, 1024), ADAM, 1.4),
    "bert_small_b8_forward": (nets.bert_small_loss, integers(30522, 8, 128), integers(2, 8), FORWARD, 1.4),
}
# TorchScript draws other random numbers for dropout, and the running averages of its traces are constants.
UNEQUAL_LOSSES = ("batch_norm_mlp_b256_adam",)


class Module(torch.nn.Module):
    """A network of TorchSide as a module, as torch.jit.trace wants it."""

    def __init__(self, side, function, *inputs):
        super().__init__()
        self.side, self.function = side, function
        with torch.no_grad():
            side.begin()
            function(side, *inputs)
        self.kept = torch.nn.ParameterList([torch.nn.Parameter(p.detach(), p.requires_grad) for p in side.parameters])
        side.parameters = list(self.kept)

    def forward(self, *inputs):
        self.side.begin()
        return self.function(self.side, *inputs)


def torch_step(network, optimizer):
    """A function that computes one step of `network`, a function without arguments that returns the loss."""
    def step():
        if not optimizer:
            with torch.no_grad():
                return network()
        optimizer.zero_grad(set_to_none=True)
        loss = network()
        loss.backward()
        optimizer.step()
        return loss
    return step


def torch_sides(weights, function, x, labels, make_optimizer):
    """The steps of PyTorch by name, each with weights of its own."""
    steps = {}
    for layout in ("", "_channels_last") if x.ndim == 4 else ("",):
        for script in (False, True):
            side = TorchSide(weights, bool(layout))
            inputs = side.input(x), torch.from_numpy(labels)
            module = Module(side, function, *inputs)
            call = torch.jit.trace(module, inputs, check_trace=False) if script else module
            optimizer = make_optimizer(list(module.kept)) if make_optimizer else None
            name = ("torchscript" if script else "torch") + layout
            steps[name] = torch_step(lambda call=call, inputs=inputs: call(*inputs), optimizer)
    return steps


def make(name):
    """All sides of a model: a dict of steps by name, and a function that closes them."""
    function, make_x, make_labels, (ours, theirs), _goal = MODELS[name]
    random = np.random.RandomState(1)
    x, labels = make_x(random), make_labels(random)
    weights = Weights(2)
    steps = torch_sides(weights, function, x, labels, theirs)
    with tf.Graph().as_default():
        inputs = [tf.placeholder(tf.as_dtype(v.dtype), v.shape) for v in (x, labels)]
        loss = function(MillraceSide(weights), *inputs)
        trainer = Trainer(loss, ours and ours(), list(zip(inputs, (x, labels))))
    return {"millrace": trainer.step, **steps}, trainer
