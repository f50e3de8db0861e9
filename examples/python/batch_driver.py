"""Training as batch systems do it: a driver ships all parameters to every worker in every iteration.

    millrace python examples/python/batch_driver.py [--workers=3] [--partitions=4] [--nokill]

What parameter servers replaced (examples/python/downpour.py), on the same runtime: a worker is a task that holds no variable; a run feeds
it parameters and a partition of the batch and fetches the gradients, so all of it goes through the driver, forth and back.  One worker is
killed after a third of the iterations; its partition is computed by another, so the result is the same.
"""
import os
import queue
import socket
import subprocess
import sys
import threading

import numpy as np

import millrace as tf

import options

flags = tf.app.flags
flags.DEFINE_integer("workers", 3, "processes that compute")
flags.DEFINE_integer("partitions", 4, "of the batch of an iteration")
flags.DEFINE_integer("iterations", 150, "how many")
flags.DEFINE_boolean("kill", True, "kill a worker on the way")
flags.DEFINE_string("hosts", None, "where the workers are (of workers)")
flags.DEFINE_integer("task", -1, "the number of a worker; started by this program itself")
FLAGS = flags.FLAGS

RATE, SIZE, EXAMPLES = 0.5, 100, 20000
random = np.random.RandomState(1)
TRUTH = random.randn(50, 5)
XS = random.randn(EXAMPLES, 50).astype(np.float32)
YS = (XS @ TRUTH).argmax(1)


def cluster(hosts):
    return tf.train.ClusterSpec({"worker": hosts})


def free_hosts(n):
    taken = [socket.socket() for _ in range(n)]
    for s in taken:
        s.bind(("localhost", 0))
    hosts = ["localhost:%d" % s.getsockname()[1] for s in taken]
    for s in taken:
        s.close()
    return hosts


class Worker:
    """A session with a task that keeps nothing: parameters and examples go there, gradients come back."""

    def __init__(self, number, host):
        self.number, self.graph = number, tf.Graph()
        with self.graph.as_default(), tf.device("/job:worker/task:%d" % number):
            self.w, self.b = tf.placeholder(tf.float32, [50, 5]), tf.placeholder(tf.float32, [5])
            self.x, self.y = tf.placeholder(tf.float32, [None, 50]), tf.placeholder(tf.int64, [None])
            logits = tf.matmul(self.x, self.w) + self.b
            self.loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits))
            self.gradients = tf.gradients(self.loss, [self.w, self.b])
        filters = ["/job:worker/task:%d" % number]  # the death of another worker is nothing to it
        self.session = tf.Session("grpc://" + host, graph=self.graph, config=tf.ConfigProto(device_filters=filters))

    def compute(self, parameters, rows):
        feeds = {self.w: parameters[0], self.b: parameters[1], self.x: XS[rows], self.y: YS[rows]}
        return self.session.run([self.loss] + self.gradients, feeds)


def iterate(workers, parameters, partitions):
    """Each partition once, by whichever worker is idle: (results by partition, the workers that are left)."""
    waiting, results, lost = queue.Queue(), {}, []
    for k in range(len(partitions)):
        waiting.put(k)

    def run(worker):
        while len(results) < len(partitions) and worker not in lost:
            try:
                k = waiting.get(timeout=0.01)
            except queue.Empty:
                continue  # another one may still be lost
            try:
                results[k] = worker.compute(parameters, partitions[k])
            except (tf.errors.UnavailableError, tf.errors.AbortedError):
                lost.append(worker)
                waiting.put(k)

    threads = [threading.Thread(target=run, args=(w,)) for w in workers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    left = [w for w in workers if w not in lost]
    if len(results) < len(partitions):
        raise RuntimeError("All workers are lost")
    return [results[k] for k in range(len(partitions))], left


def drive(hosts, processes):
    parameters, shipped = [np.zeros([50, 5], np.float32), np.zeros(5, np.float32)], 0
    workers = [Worker(i, host) for i, host in enumerate(hosts)]
    for i in range(FLAGS.iterations):
        rows = np.arange(i * FLAGS.partitions * SIZE, (i + 1) * FLAGS.partitions * SIZE) % EXAMPLES
        results, workers = iterate(workers, parameters, np.split(rows, FLAGS.partitions))
        for k, p in enumerate(parameters):  # in the order of partitions, whoever came first
            p -= RATE * np.mean([r[1 + k] for r in results], 0)
            shipped += 2 * p.nbytes * FLAGS.partitions
        if i % 30 == 29:
            print("iteration %d  loss %.3f" % (i + 1, np.mean([r[0] for r in results])), flush=True)
        if i == FLAGS.iterations // 3 and FLAGS.kill and len(processes) > 1:
            processes[0].kill()
    right = 100 * np.mean((XS @ parameters[0] + parameters[1]).argmax(1) == YS)
    print("%d workers, %d lost, %d partitions: %.1f kB of parameters and gradients an iteration, accuracy %.1f %%" %
          (len(hosts), len(hosts) - len(workers), FLAGS.partitions, shipped / FLAGS.iterations / 1e3, right))


def main(_):
    if FLAGS.task >= 0:
        tf.train.Server(cluster(FLAGS.hosts.split(",")), job_name="worker", task_index=FLAGS.task).join()
    hosts = free_hosts(FLAGS.workers)
    processes = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--hosts=" + ",".join(hosts), "--task=%d" % i])
                 for i in range(FLAGS.workers)]
    try:
        drive(hosts, processes)
    finally:
        for p in processes:
            p.kill()
            p.wait()


if __name__ == "__main__":
    options.run()
