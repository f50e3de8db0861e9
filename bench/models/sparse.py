"""Models that update a few rows of large tables: word2vec and DLRM."""
import numpy as np
import tensorflow as tf
import torch
import torch.nn.functional as F

from layers import he
from sessions import Trainer

GOALS = {"word2vec": 4.0, "dlrm_sgd": 3.0, "dlrm_adagrad": 3.0}


def make_word2vec():
    """Noise-contrastive estimation with 64 samples of a log-uniform distribution over 50,000 words."""
    words, width, batch, samples = 50000, 128, 128, 64
    random = np.random.RandomState(5)
    embeddings = (random.randn(words, width) * he(width)).astype("f")
    weights = (random.randn(words, width) * he(4 * width)).astype("f")
    x, labels = (random.randint(0, words, batch).astype("i8") for _ in range(2))

    te, tw, tb = torch.from_numpy(embeddings.copy()), torch.from_numpy(weights.copy()), torch.zeros(words)
    tx, ty = torch.from_numpy(x), torch.from_numpy(labels)
    rank = torch.arange(words)
    log_share = torch.log(samples * torch.log((rank + 2.0) / (rank + 1.0)) / np.log(words + 1.0))

    def theirs():
        """Gradients of the rows alone, added to the tables: the fastest way of PyTorch."""
        drawn = (torch.exp(torch.rand(samples) * np.log(words + 1.0)).long() - 1).clamp_(0, words - 1)
        rows = torch.cat([ty, drawn])
        e, w, b = te[tx].requires_grad_(), tw[rows].requires_grad_(), tb[rows].requires_grad_()
        true = (e * w[:batch]).sum(1) + b[:batch] - log_share[ty]
        noise = e @ w[batch:].t() + b[batch:] - log_share[drawn]
        loss = (F.binary_cross_entropy_with_logits(true, torch.ones(batch), reduction="sum")
                + F.binary_cross_entropy_with_logits(noise, torch.zeros_like(noise), reduction="sum")) / batch
        loss.backward()
        te.index_add_(0, tx, e.grad, alpha=-1.0)
        tw.index_add_(0, rows, w.grad, alpha=-1.0)
        tb.index_add_(0, rows, b.grad, alpha=-1.0)
        return loss

    with tf.Graph().as_default():
        px, py = tf.placeholder(tf.int64, [batch]), tf.placeholder(tf.int64, [batch, 1])
        e, w, b = tf.Variable(embeddings), tf.Variable(weights), tf.Variable(np.zeros(words, "f"))
        loss = tf.reduce_mean(tf.nn.nce_loss(w, b, py, tf.nn.embedding_lookup(e, px), samples, words))
        trainer = Trainer(loss, tf.train.GradientDescentOptimizer(1.0), [(px, x), (py, labels[:, None])])
    return {"millrace": trainer.step, "torch": theirs}, trainer


def make_dlrm(adagrad):
    """26 tables of 200,000 rows, dot products of all pairs of features, two small dense networks."""
    rows, width, n_tables, batch, n_dense = 200000, 16, 26, 512, 13
    random = np.random.RandomState(6)
    tables = [(random.randn(rows, width) * he(4 * width)).astype("f") for _ in range(n_tables)]
    pairs = (n_tables + 1) * n_tables // 2
    weights = [(random.randn(a, b) * he(a)).astype("f") for a, b in ((n_dense, 64), (64, width), (width + pairs, 128),
                                                                     (128, 1))]
    ids = random.randint(0, rows, (batch, n_tables)).astype("i8")
    dense = random.rand(batch, n_dense).astype("f")
    clicks = random.randint(0, 2, batch).astype("f")
    upper = np.triu_indices(n_tables + 1, 1)

    tt = [torch.from_numpy(v.copy()).requires_grad_() for v in tables]
    tw = [torch.from_numpy(v.T.copy()).requires_grad_() for v in weights]
    ti, td, ty = torch.from_numpy(ids), torch.from_numpy(dense), torch.from_numpy(clicks)
    first, second = (torch.from_numpy(i) for i in upper)
    kind = torch.optim.Adagrad if adagrad else torch.optim.SGD
    optimizers = kind(tt, 0.01), kind(tw, 0.01)

    def theirs():
        for o in optimizers:
            o.zero_grad(set_to_none=True)
        d = F.relu(F.linear(F.relu(F.linear(td, tw[0])), tw[1]))
        z = torch.stack([d] + [F.embedding(ti[:, i], tt[i], sparse=True) for i in range(n_tables)], 1)
        products = (z @ z.transpose(1, 2))[:, first, second]
        y = F.linear(F.relu(F.linear(torch.cat([d, products], 1), tw[2])), tw[3])[:, 0]
        loss = F.binary_cross_entropy_with_logits(y, ty)
        loss.backward()
        for o in optimizers:
            o.step()
        return loss

    with tf.Graph().as_default():
        pi, pd = tf.placeholder(tf.int64, ids.shape), tf.placeholder(tf.float32, dense.shape)
        py = tf.placeholder(tf.float32, [batch])
        vt = [tf.get_variable(f"table{i}", initializer=v) for i, v in enumerate(tables)]
        vw = [tf.Variable(v) for v in weights]
        d = tf.nn.relu(tf.matmul(tf.nn.relu(tf.matmul(pd, vw[0])), vw[1]))
        z = tf.stack([d] + [tf.nn.embedding_lookup(t, pi[:, i]) for i, t in enumerate(vt)], 1)
        products = tf.reshape(tf.matmul(z, z, transpose_b=True), [batch, (n_tables + 1) ** 2])
        kept = tf.constant((upper[0] * (n_tables + 1) + upper[1]).astype("i4"))
        features = tf.concat([d, tf.gather(products, kept, axis=1)], 1)
        logits = tf.matmul(tf.nn.relu(tf.matmul(features, vw[2])), vw[3])[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=py))
        optimizer = tf.train.AdagradOptimizer(0.01, 1e-10) if adagrad else tf.train.GradientDescentOptimizer(0.01)
        trainer = Trainer(loss, optimizer, [(pi, ids), (pd, dense), (py, clicks)])
    return {"millrace": trainer.step, "torch": theirs}, trainer


def make(name):
    return make_word2vec() if name == "word2vec" else make_dlrm(name.endswith("adagrad"))
