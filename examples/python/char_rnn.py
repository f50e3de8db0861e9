"""char-RNN: a recurrent network learns a text letter by letter, and goes on from its beginning.

    millrace python examples/python/char_rnn.py [--cell=lstm|gru] [--steps=N] [--length=N]

The state of the network is carried from one piece of the text to the next, by feeding what the last run gave.
"""
import numpy as np

import millrace as tf

import options

flags = tf.flags
flags.DEFINE_string("cell", "lstm", "lstm or gru")
flags.DEFINE_integer("steps", 400, "pieces of text to train with")
flags.DEFINE_integer("length", 120, "letters to write")
FLAGS = flags.FLAGS

SIZE, ROWS, PIECE = 64, 16, 20


def make_text(lines=600, seed=6):
    """Counting rhymes that follow a rule, so that a good guess is possible: the verb depends on the animal."""
    random = np.random.RandomState(seed)
    says = {"cow": "moos", "dog": "barks", "cat": "meows", "hen": "clucks", "pig": "grunts"}
    names = sorted(says)
    return "".join("the %s %s. " % (a, says[a]) for a in random.choice(names, lines))


def make_cell():
    cells = {"lstm": tf.nn.rnn_cell.BasicLSTMCell, "gru": tf.nn.rnn_cell.GRUCell}
    return cells[FLAGS.cell](SIZE)


class Network:
    """Letters in, a guess at each next letter out."""

    def __init__(self, letters, rows, steps):
        self.inputs = tf.placeholder(tf.int32, [rows, steps], name="inputs")
        self.targets = tf.placeholder(tf.int32, [rows, steps], name="targets")
        cell = make_cell()
        self.start = cell.zero_state(rows, tf.float32)
        outputs, self.end = tf.nn.dynamic_rnn(cell, tf.one_hot(self.inputs, letters), initial_state=self.start)
        logits = tf.layers.dense(outputs, letters, name="letters")
        self.guess = tf.nn.softmax(logits)
        self.loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.targets, logits=logits))


def write(sess, net, letters, begin):
    """Goes on from the beginning, always with the likeliest letter."""
    state, text = sess.run(net.start), begin
    for c in begin[:-1]:
        state = sess.run(net.end, {net.inputs: [[letters.index(c)]], net.start: state})
    while len(text) < FLAGS.length:
        guess, state = sess.run([net.guess, net.end], {net.inputs: [[letters.index(text[-1])]], net.start: state})
        text += letters[guess[0, 0].argmax()]
    return text


def main(unused_argv):
    text = make_text()
    letters = sorted(set(text))
    ids = np.array([letters.index(c) for c in text])
    columns = (len(ids) - 1) // ROWS
    x, y = ids[:ROWS * columns].reshape(ROWS, columns), ids[1:ROWS * columns + 1].reshape(ROWS, columns)

    tf.set_random_seed(2)
    with tf.variable_scope("net"):
        net = Network(len(letters), ROWS, PIECE)
    with tf.variable_scope("net", reuse=True):
        writer = Network(len(letters), 1, 1)
    rate = tf.train.AdamOptimizer(0.01)
    grads, _ = tf.clip_by_global_norm(tf.gradients(net.loss, tf.trainable_variables()), 5.0)
    train = rate.apply_gradients(zip(grads, tf.trainable_variables()))

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        state, at = sess.run(net.start), 0
        for step in range(1, FLAGS.steps + 1):
            if at + PIECE > columns:
                state, at = sess.run(net.start), 0
            feeds = {net.inputs: x[:, at:at + PIECE], net.targets: y[:, at:at + PIECE], net.start: state}
            loss, state, _ = sess.run([net.loss, net.end, train], feeds)
            at += PIECE
            if step % 100 == 0:
                print("step %d: loss %.3f" % (step, loss))
        written = write(sess, writer, letters, "the c")
    print(written)
    true = set(make_text().split(". "))
    sentences = written.split(". ")[:-1]
    right = sum(s in true for s in sentences)
    print("loss %.3f; %d of %d sentences as in the text" % (loss, right, len(sentences)))


if __name__ == "__main__":
    options.run()
