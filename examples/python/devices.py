"""Where nodes stand: blocks of tf.device name a task or a device; a session carries the tensors between them.

    millrace python examples/python/devices.py

A cluster of one parameter server and two workers lives in this one process: weights on /job:ps/task:0, each half of the sum
on a worker.
"""
import numpy as np

import millrace as tf

import options


def local_cluster():
    """A ps and two workers at ports that the system chooses."""
    import socket
    found = [socket.socket() for _ in range(3)]
    for s in found:
        s.bind(("localhost", 0))
    hosts = ["localhost:%d" % s.getsockname()[1] for s in found]
    for s in found:
        s.close()
    cluster = tf.train.ClusterSpec({"ps": hosts[:1], "worker": hosts[1:]})
    return [tf.train.Server(cluster, job_name=job, task_index=i) for job, i in (("ps", 0), ("worker", 0), ("worker", 1))]


options.read()
servers = local_cluster()
with tf.device("/job:ps/task:0"):
    weights = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="weights")
x = tf.placeholder(tf.float32, [None, 3], name="x")
halves = tf.split(x, 2)
parts = []
for i, half in enumerate(halves):
    with tf.device("/job:worker/task:%d" % i):
        with tf.device("/cpu:0"):
            parts.append(tf.reduce_sum(tf.matmul(half, weights), name="part"))
with tf.device("/job:ps"):  # which task is left open
    total = tf.add_n(parts, name="total")

with tf.Session(servers[1].target, config=tf.ConfigProto(allow_soft_placement=False)) as sess:
    sess.run(tf.global_variables_initializer())
    for device in sorted(d.name for d in sess.list_devices()):
        print("device", device)
    metadata = tf.RunMetadata()
    value = sess.run(total, feed_dict={x: np.ones([4, 3])}, run_metadata=metadata,
                     options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True))
    where = {}
    for graph in metadata.partition_graphs:
        for node in graph.node:
            where[node.name] = node.device
    for op in (weights.op, parts[0].op, parts[1].op, total.op):
        print("%-10s on %s" % (op.name, where.get(op.name, op.device)))
print("total %g" % value)
