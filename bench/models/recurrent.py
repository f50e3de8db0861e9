"""LSTMs and GRUs in all the forms of TensorFlow 1.x beside PyTorch's, and language models."""
import numpy as np
import tensorflow as tf
import torch
import torch.nn.functional as F

from layers import he
from sessions import Trainer
from training import torch_step

LAYERS, WIDTH, LENGTH, BATCH, INPUTS = 2, 128, 28, 128, 28


def stacked(cell):
    return tf.nn.rnn_cell.MultiRNNCell([cell(WIDTH) for _ in range(LAYERS)])


def dynamic(cell):
    return lambda x: tf.nn.dynamic_rnn(stacked(cell()), x, dtype=tf.float32)[0][:, -1]


def static(cell):
    return lambda x: tf.nn.static_rnn(stacked(cell()), tf.unstack(x, LENGTH, 1), dtype=tf.float32)[0][-1]


def keras(layer):
    def last(x):
        for i in range(LAYERS):
            x = layer()(WIDTH, return_sequences=i + 1 < LAYERS)(x)
        return x
    return last


def cudnn_lstm(x):
    outputs, _ = tf.contrib.cudnn_rnn.CudnnLSTM(LAYERS, WIDTH)(tf.transpose(x, [1, 0, 2]))
    return outputs[-1]


# Names are looked up when a model is made, so that --list needs no graph.
FORMS = {
    "lstm_dynamic": (torch.nn.LSTM, dynamic(lambda: tf.nn.rnn_cell.LSTMCell)),
    "lstm_dynamic_block": (torch.nn.LSTM, dynamic(lambda: tf.contrib.rnn.LSTMBlockCell)),
    "lstm_static_basic": (torch.nn.LSTM, static(lambda: tf.nn.rnn_cell.BasicLSTMCell)),
    "lstm_cudnn": (torch.nn.LSTM, cudnn_lstm),
    "lstm_keras": (torch.nn.LSTM, keras(lambda: tf.keras.layers.LSTM)),
    "gru_dynamic": (torch.nn.GRU, dynamic(lambda: tf.nn.rnn_cell.GRUCell)),
    "gru_static": (torch.nn.GRU, static(lambda: tf.nn.rnn_cell.GRUCell)),
    "gru_keras": (torch.nn.GRU, keras(lambda: tf.keras.layers.GRU)),
}
GOALS = {**dict.fromkeys(FORMS, 1.5), "language_model_full": 1.3, "language_model_sampled": 1.6}


def make_form(name):
    """Weights differ (each layer draws its own), so the losses do too."""
    layer, last_output = FORMS[name]
    random = np.random.RandomState(3)
    x = random.rand(BATCH, LENGTH, INPUTS).astype("f")
    labels = random.randint(0, 10, BATCH).astype("i8")

    recurrent, out = layer(INPUTS, WIDTH, LAYERS), torch.nn.Linear(WIDTH, 10)
    tx, ty = torch.from_numpy(np.ascontiguousarray(x.transpose(1, 0, 2))), torch.from_numpy(labels)
    optimizer = torch.optim.SGD([*recurrent.parameters(), *out.parameters()], 0.01)
    theirs = torch_step(lambda: F.cross_entropy(out(recurrent(tx)[0][-1]), ty), optimizer)

    with tf.Graph().as_default():
        px, py = tf.placeholder(tf.float32, [None, LENGTH, INPUTS]), tf.placeholder(tf.int64, [None])
        w = tf.Variable((random.randn(WIDTH, 10) * he(WIDTH)).astype("f"))
        logits = tf.matmul(last_output(px), w)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=py, logits=logits))
        trainer = Trainer(loss, tf.train.GradientDescentOptimizer(0.01), [(px, x), (py, labels)])
    return {"millrace": trainer.step, "torch": theirs}, trainer


def make_language_model(name):
    """An embedding, one hidden layer and a softmax over 40,000 words, whole or over 512 samples."""
    sampled = name.endswith("sampled")
    words, width, batch, samples = 40000, 512, 128, 512
    random = np.random.RandomState(4)
    embeddings = (random.randn(words, width) * he(width)).astype("f")
    softmax = (random.randn(words, width) * he(50 * width)).astype("f")
    hidden = (random.randn(width, width) * he(width)).astype("f")
    x, labels = (random.randint(0, words, batch).astype("i8") for _ in range(2))

    te, tw = (torch.from_numpy(v.copy()).requires_grad_() for v in (embeddings, softmax))
    tb, th = torch.zeros(words, requires_grad=True), torch.from_numpy(hidden.T.copy()).requires_grad_()
    tx, ty = torch.from_numpy(x), torch.from_numpy(labels)
    dense = torch.optim.SGD([th] if sampled else [th, tw, tb], 0.01)
    sparse = torch.optim.SGD([te], 0.01)

    def theirs():
        dense.zero_grad(set_to_none=True)
        sparse.zero_grad(set_to_none=True)
        y = torch.tanh(F.linear(F.embedding(tx, te, sparse=True), th))
        if sampled:
            rows = torch.cat([ty, torch.randint(0, words, (samples,))])
            w, b = tw.detach()[rows].requires_grad_(), tb.detach()[rows].requires_grad_()
            true = (y * w[:batch]).sum(1, keepdim=True) + b[:batch, None]
            logits = torch.cat([true, y @ w[batch:].t() + b[batch:]], 1)
            loss = F.cross_entropy(logits, torch.zeros(batch, dtype=torch.long))
        else:
            loss = F.cross_entropy(F.linear(y, tw, tb), ty)
        loss.backward()
        if sampled:  # the fastest way of PyTorch to update some rows
            with torch.no_grad():
                tw.index_add_(0, rows, w.grad, alpha=-0.01)
                tb.index_add_(0, rows, b.grad, alpha=-0.01)
        dense.step()
        sparse.step()
        return loss

    with tf.Graph().as_default():
        px, py = tf.placeholder(tf.int64, [batch]), tf.placeholder(tf.int64, [batch])
        e, w, b, h = (tf.Variable(v) for v in (embeddings, softmax, np.zeros(words, "f"), hidden))
        y = tf.tanh(tf.matmul(tf.nn.embedding_lookup(e, px), h))
        if sampled:
            loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(w, b, py[:, None], y, samples, words))
        else:
            logits = tf.matmul(y, w, transpose_b=True) + b
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=py, logits=logits))
        trainer = Trainer(loss, tf.train.GradientDescentOptimizer(0.01), [(px, x), (py, labels)])
    return {"millrace": trainer.step, "torch": theirs}, trainer


def make(name):
    return make_form(name) if name in FORMS else make_language_model(name)
