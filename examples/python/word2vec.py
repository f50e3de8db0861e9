"""word2vec: words that stand in the same company get vectors that point the same way.

    millrace python examples/python/word2vec.py

The text is made here: sentences about animals, food, numbers and colours, each kind with verbs of its own.  A word is
trained to tell the words around it from others drawn at random (noise-contrastive estimation).
"""
import collections

import numpy as np

import millrace as tf

import options

KINDS = {
    "animals": ("dog cat horse cow sheep goat", "runs sleeps jumps hides", "field barn"),
    "food": ("bread cheese soup rice apple pear", "tastes cooks smells cools", "kitchen table"),
    "numbers": ("one two three four five six", "adds counts divides doubles", "sum list"),
    "colours": ("red blue green yellow black white", "shines fades glows mixes", "wall paint"),
}
WINDOW, SIZE, NEGATIVES, BATCH, STEPS = 2, 16, 16, 128, 3000


def make_text(sentences=4000, seed=4):
    random = np.random.RandomState(seed)
    kinds = [[part.split() for part in parts] for parts in KINDS.values()]
    words = []
    for _ in range(sentences):
        nouns, verbs, places = kinds[random.randint(len(kinds))]
        a, b = random.choice(nouns, 2, replace=False)
        words += ["the", a, random.choice(verbs), "and", "the", b, random.choice(verbs), "in", "the", random.choice(places)]
    return words


def batches(ids, random):
    """Words, each with one of those around it."""
    while True:
        at = random.randint(WINDOW, len(ids) - WINDOW, BATCH)
        shift = random.choice([d for d in range(-WINDOW, WINDOW + 1) if d], BATCH)
        yield ids[at], ids[at + shift][:, None]


def main(_):
    text = make_text()
    ranked = [w for w, _ in collections.Counter(text).most_common()]
    number = {w: i for i, w in enumerate(ranked)}
    ids = np.array([number[w] for w in text])
    tf.set_random_seed(1)

    inputs = tf.placeholder(tf.int32, [BATCH])
    labels = tf.placeholder(tf.int64, [BATCH, 1])
    embeddings = tf.Variable(tf.random_uniform([len(ranked), SIZE], -1.0, 1.0), name="embeddings")
    nce_weights = tf.Variable(tf.truncated_normal([len(ranked), SIZE], stddev=1.0 / np.sqrt(SIZE)))
    nce_biases = tf.Variable(tf.zeros([len(ranked)]))
    near = tf.nn.embedding_lookup(embeddings, inputs)
    loss = tf.reduce_mean(tf.nn.nce_loss(weights=nce_weights, biases=nce_biases, labels=labels, inputs=near,
                                         num_sampled=NEGATIVES, num_classes=len(ranked)))
    train = tf.train.AdagradOptimizer(0.5).minimize(loss)
    unit = tf.nn.l2_normalize(embeddings, 1)
    alike = tf.matmul(unit, unit, transpose_b=True)

    source, mean = batches(ids, np.random.RandomState(5)), 0.0
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(1, STEPS + 1):
            words, around = next(source)
            _, value = sess.run([train, loss], feed_dict={inputs: words, labels: around})
            mean += value
            if step % 500 == 0:
                print("step %d: mean loss %.3f" % (step, mean / 500))
                mean = 0.0
        similarity = sess.run(alike)

    right = asked = 0
    for nouns in (parts[0].split() for parts in KINDS.values()):
        for w in nouns:
            order = [ranked[i] for i in (-similarity[number[w]]).argsort()[1:4]]
            right += sum(o in nouns for o in order)
            asked += 3
            if w == nouns[0]:
                print("nearest to %s: %s" % (w, ", ".join(order)))
    print("nearest words of the same kind: %.1f %%" % (100.0 * right / asked))


if __name__ == "__main__":
    options.run()
