"""Which word follows which: embeddings in tables that are sharded over the parameter servers, with sampled softmax.

    millrace launch --ps 2 --workers 2 -- millrace python examples/python/next_word.py

A table is a partitioned variable: each server has a part of the rows, gathers those that a step asks for where they lie, and
gets gradients of those rows alone.  examples/next_word.c is the same in C.
"""
import json
import os

import numpy as np

import millrace as tf

import options

flags = tf.app.flags
flags.DEFINE_integer("steps", 3000, "how many, of all workers together")
flags.DEFINE_string("checkpoints", None, "a folder: rows of a server that was killed come back from there")
FLAGS = flags.FLAGS

WORDS, COLUMNS, SAMPLED, BATCH = 1000, 32, 50, 200


def draw(random, n):
    """Words, numbered by how often they come, and the next ones: of ten words the first is followed by the last, and so on."""
    words = np.minimum(np.exp(random.uniform(0, np.log(WORDS + 1), n)).astype(np.int64) - 1, WORDS - 1)
    return words, words - words % 10 + 9 - words % 10


def table(name, columns, shards, low, high):
    return tf.get_variable(name, [WORDS] + columns, partitioner=tf.fixed_size_partitioner(shards),
                           initializer=tf.random_uniform_initializer(low, high))


def main(_):
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = tf.train.ClusterSpec(config["cluster"]), config["task"]
    server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"])
    if task["type"] == "ps":
        server.join()
    shards, index = cluster.num_tasks("ps"), task["index"]
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % index)):
        words = tf.placeholder(tf.int64, [None])
        next_words = tf.placeholder(tf.int64, [None])
        step = tf.train.get_or_create_global_step()
        h = tf.nn.embedding_lookup(table("embedding", [COLUMNS], shards, -0.05, 0.05), words, partition_strategy="div")
        weights, biases = table("weights", [COLUMNS], shards, -0.05, 0.05), table("biases", [], shards, 0, 0)
        loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(weights, biases, next_words[:, None], h, SAMPLED, WORDS,
                                                         partition_strategy="div"))
        train = tf.train.AdagradOptimizer(1.0).minimize(loss, global_step=step)
        parts = [tf.matmul(h, w, transpose_b=True) + b for w, b in zip(weights, biases)]
        right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(tf.concat(parts, 1), 1), next_words), tf.float32))
    random, tested, accuracy = np.random.RandomState(index), draw(np.random.RandomState(1000), 2000), 0

    def test(step_context):  # without the hooks, which would count it as a step
        return step_context.session.run(right, {words: tested[0], next_words: tested[1]})

    with tf.train.MonitoredTrainingSession(server.target, is_chief=index == 0, checkpoint_dir=FLAGS.checkpoints, save_checkpoint_secs=1,
                                           hooks=[tf.train.StopAtStepHook(last_step=FLAGS.steps)]) as sess:
        n = 0
        while not sess.should_stop():
            x, y = draw(random, BATCH)
            now, value, _ = sess.run([step, loss, train], {words: x, next_words: y})
            if index == 0 and n % 50 == 49 and not sess.should_stop():
                accuracy = sess.run_step_fn(test)
            if index == 0 and n % 500 == 0:
                print("step %d  loss %.3f" % (now, value))
            n += 1
    if index == 0:
        print("%d words in %d shards, %d workers: next word right %.1f %%" % (WORDS, shards, cluster.num_tasks("worker"), 100 * accuracy))


if __name__ == "__main__":
    options.run()
