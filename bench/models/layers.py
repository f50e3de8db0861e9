"""Layers written twice, for PyTorch and for Millrace, so that a network is one function of either.

A network asks for its parameters in a fixed order. The first side that asks makes their values; the other side gets
copies, so that both start from the same weights. Images are NCHW (or channels last) for PyTorch and NHWC for Millrace;
weights are kept as Millrace has them and transposed for PyTorch.
"""
import numpy as np
import tensorflow as tf
import torch
import torch.nn.functional as F


class Weights:
    """The parameters of a network, by the order in which it asks for them."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.values = []

    def get(self, i, shape, scale):
        """Parameter i; scale: the standard deviation, or the string "ones" or "zeros"."""
        if i == len(self.values):
            if scale in ("ones", "zeros"):
                value = getattr(np, scale)(shape, np.float32)
            else:
                value = (self.random.randn(*shape) * scale).astype(np.float32)
            self.values.append(value)
        assert self.values[i].shape == tuple(shape)
        return self.values[i]


def he(fan_in):
    return float(np.sqrt(2.0 / int(fan_in)))


class TorchSide:
    """The layers in PyTorch. `begin` starts a pass over the network; its parameters are made in the first one."""

    def __init__(self, weights, channels_last=False, training=True):
        self.weights, self.channels_last, self.training = weights, channels_last, training
        self.parameters, self.buffers, self.masks = [], [], {}
        self.begin()

    def begin(self):
        self.next_parameter = self.next_weight = self.next_buffer = 0

    def parameter(self, shape, scale, order=None, trained=True):
        """order: how to transpose Millrace's form of the weight."""
        if self.next_parameter == len(self.parameters):
            value = self.weights.get(self.next_weight, shape, scale)
            value = torch.from_numpy(np.array(value if order is None else value.transpose(order), order="C"))
            if self.channels_last and value.dim() == 4:
                value = value.to(memory_format=torch.channels_last)
            self.parameters.append(value.requires_grad_(trained and self.training))
        self.next_parameter += 1
        self.next_weight += 1
        return self.parameters[self.next_parameter - 1]

    def input(self, x):
        """x as Millrace has it, in this side's layout."""
        value = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if x.ndim == 4 else x)
        return value.to(memory_format=torch.channels_last) if self.channels_last and x.ndim == 4 else value

    def output(self, y):
        return y.detach().numpy()

    def channels(self, x):
        return x.shape[1] if x.dim() == 4 else x.shape[-1]

    def conv(self, x, c_out, k, stride=1, bias=False):
        c_in = x.shape[1]
        w = self.parameter((k, k, c_in, c_out), he(k * k * c_in), (3, 2, 0, 1))
        b = self.parameter((c_out,), "zeros") if bias else None
        return F.conv2d(x, w, b, stride, k // 2)

    def depthwise(self, x, stride=1):
        c = x.shape[1]
        w = self.parameter((3, 3, c, 1), he(9), (2, 3, 0, 1))
        return F.conv2d(x, w, None, stride, 1, groups=c)

    def conv_transpose(self, x, c_out, k=4):
        c_in = x.shape[1]
        w = self.parameter((k, k, c_out, c_in), he(k * k * c_in // 4), (3, 2, 0, 1))
        return F.conv_transpose2d(x, w, None, 2, (k - 2) // 2)

    def conv1d(self, x, c_out, k):
        c_in = x.shape[2]
        w = self.parameter((k, c_in, c_out), he(k * c_in), (2, 1, 0))
        b = self.parameter((c_out,), "zeros")
        return F.conv1d(x.transpose(1, 2), w, b, 1, k // 2).transpose(1, 2)

    def batch_norm(self, x):
        c = self.channels(x)
        scale, offset = self.parameter((c,), "ones"), self.parameter((c,), "zeros")
        if self.next_buffer == len(self.buffers):
            self.buffers.append((torch.zeros(c), torch.ones(c)))
        self.next_buffer += 1
        mean, variance = self.buffers[self.next_buffer - 1]
        return F.batch_norm(x, mean, variance, scale, offset, self.training, 0.01, 1e-3)

    def layer_norm(self, x):
        c = x.shape[-1]
        return F.layer_norm(x, (c,), self.parameter((c,), "ones"), self.parameter((c,), "zeros"), 1e-5)

    def dense(self, x, n, bias=True):
        c = x.shape[-1]
        w = self.parameter((c, n), he(c), (1, 0))
        return F.linear(x, w, self.parameter((n,), "zeros") if bias else None)

    def embedding(self, ids, rows, width):
        return F.embedding(ids, self.parameter((rows, width), he(50 * width)))

    def add_positions(self, x):
        return x + self.parameter(tuple(x.shape[1:]), he(50 * x.shape[2]))

    def attention(self, x, heads, causal):
        batch, length, width = x.shape
        q, k, v = self.dense(x, 3 * width).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (width // heads) ** -0.5
        if causal:
            if length not in self.masks:
                self.masks[length] = torch.triu(torch.full((length, length), -1e9), 1)
            scores = scores + self.masks[length]
        mixed = torch.softmax(scores, -1) @ v
        return self.dense(mixed.transpose(1, 2).reshape(batch, length, width), width)

    def max_pool(self, x, k, stride):
        return F.max_pool2d(x, k, stride, (k - 1) // 2 if k == 3 else 0)

    def global_average(self, x):
        return x.mean((2, 3))

    def concat_channels(self, a, b):
        return torch.cat([a, b], 1)

    def images(self, x, height, width, channels):
        """Rows of a matrix as images, in Millrace's order of values."""
        x = x.reshape(-1, height, width, channels).permute(0, 3, 1, 2)
        return x.contiguous(memory_format=torch.channels_last if self.channels_last else torch.contiguous_format)

    def dropout(self, x, rate):
        return F.dropout(x, rate, True)

    def flatten(self, x):
        """Images as rows, in Millrace's order of values."""
        return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)

    def rows(self, x):
        return x.reshape(-1, x.shape[-1])

    def max_over_time(self, x):
        return x.max(1)[0]

    def cross_entropy(self, logits, labels):
        return F.cross_entropy(logits, labels)

    def sigmoid_cross_entropy(self, logits, label):
        return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label))

    def mean_square(self, x):
        return x.square().mean()

    def gelu(self, x):
        return F.gelu(x, approximate="tanh")

    relu = staticmethod(F.relu)
    relu6 = staticmethod(F.relu6)
    tanh = staticmethod(torch.tanh)

    def leaky_relu(self, x):
        return F.leaky_relu(x, 0.2)


class MillraceSide:
    """The same layers as a TensorFlow 1.x graph."""

    def __init__(self, weights, training=True):
        self.weights, self.training = weights, training
        self.next_weight = 0

    def parameter(self, shape, scale):
        value = self.weights.get(self.next_weight, shape, scale)
        self.next_weight += 1
        return tf.Variable(value)

    def conv(self, x, c_out, k, stride=1, bias=False):
        c_in = int(x.shape[3])
        w = self.parameter((k, k, c_in, c_out), he(k * k * c_in))
        p = k // 2
        padding = "SAME" if stride == 1 else "VALID" if p == 0 else [[0, 0], [p, p], [p, p], [0, 0]]
        y = tf.nn.conv2d(x, w, strides=[1, stride, stride, 1], padding=padding)
        return tf.nn.bias_add(y, self.parameter((c_out,), "zeros")) if bias else y

    def depthwise(self, x, stride=1):
        w = self.parameter((3, 3, int(x.shape[3]), 1), he(9))
        if stride == 1:
            return tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME")
        padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
        return tf.nn.depthwise_conv2d(padded, w, [1, stride, stride, 1], "VALID")

    def conv_transpose(self, x, c_out, k=4):
        batch, height, width, c_in = [int(d) for d in x.shape]
        w = self.parameter((k, k, c_out, c_in), he(k * k * c_in // 4))
        return tf.nn.conv2d_transpose(x, w, [batch, 2 * height, 2 * width, c_out], [1, 2, 2, 1], "SAME")

    def conv1d(self, x, c_out, k):
        c_in = int(x.shape[2])
        w = self.parameter((k, c_in, c_out), he(k * c_in))
        return tf.nn.bias_add(tf.nn.conv1d(x, w, 1, "SAME"), self.parameter((c_out,), "zeros"))

    def batch_norm(self, x):
        c = int(x.shape[-1])
        scale, offset = self.parameter((c,), "ones"), self.parameter((c,), "zeros")
        mean, variance = tf.Variable(np.zeros(c, "f"), trainable=False), tf.Variable(np.ones(c, "f"), trainable=False)
        if not self.training:
            if len(x.shape) == 4:
                return tf.nn.fused_batch_norm(x, scale, offset, mean, variance, epsilon=1e-3, is_training=False)[0]
            return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)
        if len(x.shape) == 4:
            y, batch_mean, batch_variance = tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3)
        else:
            batch_mean, batch_variance = tf.nn.moments(x, [0])
            y = tf.nn.batch_normalization(x, batch_mean, batch_variance, offset, scale, 1e-3)
        for average, value in ((mean, batch_mean), (variance, batch_variance)):
            update = tf.assign_sub(average, (average - value) * 0.01)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return y

    def layer_norm(self, x):
        c = int(x.shape[-1])
        scale, offset = self.parameter((c,), "ones"), self.parameter((c,), "zeros")
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-5)

    def dense(self, x, n, bias=True):
        dims = [int(d) for d in x.shape]
        w = self.parameter((dims[-1], n), he(dims[-1]))
        y = tf.matmul(x if len(dims) == 2 else tf.reshape(x, [-1, dims[-1]]), w)
        if bias:
            y = tf.nn.bias_add(y, self.parameter((n,), "zeros"))
        return y if len(dims) == 2 else tf.reshape(y, dims[:-1] + [n])

    def embedding(self, ids, rows, width):
        return tf.nn.embedding_lookup(self.parameter((rows, width), he(50 * width)), ids)

    def add_positions(self, x):
        return x + self.parameter(tuple(int(d) for d in x.shape[1:]), he(50 * int(x.shape[2])))

    def attention(self, x, heads, causal):
        batch, length, width = [int(d) for d in x.shape]
        qkv = tf.reshape(self.dense(x, 3 * width), [batch, length, 3, heads, width // heads])
        q, k, v = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
        scores = tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5
        if causal:
            scores = scores + tf.constant(np.triu(np.full((length, length), -1e9, "f"), 1))
        mixed = tf.matmul(tf.nn.softmax(scores), v)
        return self.dense(tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [batch, length, width]), width)

    def max_pool(self, x, k, stride):
        if k == 3:
            x = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=-1e30)
        return tf.nn.max_pool(x, [1, k, k, 1], [1, stride, stride, 1], "VALID")

    def global_average(self, x):
        return tf.reduce_mean(x, [1, 2])

    def concat_channels(self, a, b):
        return tf.concat([a, b], 3)

    def images(self, x, height, width, channels):
        return tf.reshape(x, [-1, height, width, channels])

    def dropout(self, x, rate):
        return tf.nn.dropout(x, rate=rate)

    def flatten(self, x):
        return tf.reshape(x, [int(x.shape[0]), -1])

    def rows(self, x):
        return tf.reshape(x, [-1, int(x.shape[-1])])

    def max_over_time(self, x):
        return tf.reduce_max(x, 1)

    def cross_entropy(self, logits, labels):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

    def sigmoid_cross_entropy(self, logits, label):
        labels = tf.fill(tf.shape(logits), float(label))
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))

    def mean_square(self, x):
        return tf.reduce_mean(tf.square(x))

    def gelu(self, x):
        """As the published BERT and GPT-2 write it."""
        return x * (0.5 * (1.0 + tf.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + 0.044715 * tf.pow(x, 3)))))

    def relu(self, x):
        return tf.nn.relu(x)

    def relu6(self, x):
        return tf.nn.relu6(x)

    def tanh(self, x):
        return tf.tanh(x)

    def leaky_relu(self, x):
        return tf.nn.leaky_relu(x, 0.2)
