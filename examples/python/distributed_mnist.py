"""Softmax regression on digits by parameter servers and workers: between-graph replication.

By hand, a terminal a task (INDEX and JOB differ, the rest is the same):

    millrace python examples/python/distributed_mnist.py --ps_hosts=localhost:2222 \\
        --worker_hosts=localhost:2223,localhost:2224 --job_name=ps|worker --task_index=INDEX [--sync] [--backup=N]

or all at once, TF_CONFIG saying to each what it is:

    millrace launch --ps 1 --workers 2 -- millrace python examples/python/distributed_mnist.py [--sync] [--backup=N]

Workers train each for itself; with --sync a step is made of the gradients of all, with --backup=N of the first but for the
last N.
Worker 0 is the chief: it initializes, saves checkpoints where --checkpoints says, and tests at the end.
"""
import json
import os

import millrace as tf

import digits
import options

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "hosts of the parameter servers, host:port,...")
flags.DEFINE_string("worker_hosts", "", "hosts of the workers")
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "which of them this one is")
flags.DEFINE_boolean("sync", False, "steps of all workers together")
flags.DEFINE_integer("backup", 0, "how many of the workers' gradients a step does not wait for; implies --sync")
flags.DEFINE_integer("steps", 600, "training steps of the cluster")
flags.DEFINE_string("checkpoints", None, "folder for checkpoints, which all see")
flags.DEFINE_string("dir", "", "folder with the idx files of MNIST")
FLAGS = flags.FLAGS


def who_am_i():
    """The cluster, and job and index of this task."""
    if FLAGS.ps_hosts:
        cluster = {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
        return tf.train.ClusterSpec(cluster), FLAGS.job_name, FLAGS.task_index
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    if not config:
        raise SystemExit("No cluster: give --ps_hosts, --worker_hosts, --job_name and --task_index, or use `millrace launch`.")
    return tf.train.ClusterSpec(config["cluster"]), config["task"]["type"], config["task"]["index"]


def build(cluster, index, n_workers):
    """Variables stand on the parameter servers by turns, everything else on this worker."""
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % index, cluster=cluster)):
        step = tf.train.get_or_create_global_step()
        x = tf.placeholder(tf.float32, [None, 784], name="images")
        y = tf.placeholder(tf.float32, [None, 10], name="labels")
        logits = tf.matmul(x, tf.Variable(tf.zeros([784, 10]), name="weights")) + tf.Variable(tf.zeros([10]), name="biases")
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1)), tf.float32))
        optimizer, hooks = tf.train.GradientDescentOptimizer(0.5), []
        if FLAGS.sync or FLAGS.backup:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=n_workers - FLAGS.backup,
                                                       total_num_replicas=n_workers)
            hooks.append(optimizer.make_session_run_hook(index == 0))
        train = optimizer.minimize(loss, global_step=step)
    return x, y, loss, accuracy, train, step, hooks


def main(_):
    cluster, job, index = who_am_i()
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    n_workers = cluster.num_tasks("worker")
    data = digits.read(FLAGS.dir, seed=index + 1)  # batches of its own
    x, y, loss, accuracy, train, step, hooks = build(cluster, index, n_workers)
    hooks.append(tf.train.StopAtStepHook(last_step=FLAGS.steps))
    # A session waits for all tasks that it sees: other workers, which may start later and end sooner, are no business of
    # this one.
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % index])
    own = 0
    # With --sync a thread of the chief waits for gradients that nobody will make any more: a second is grace enough.
    with tf.train.MonitoredTrainingSession(master=server.target, is_chief=index == 0, checkpoint_dir=FLAGS.checkpoints,
                                           hooks=hooks, save_summaries_steps=None, save_summaries_secs=None,
                                           stop_grace_period_secs=1, config=config) as sess:
        while not sess.should_stop():
            images, labels = data.train.next_batch(100)
            _, value, at = sess.run([train, loss, step], feed_dict={x: images, y: labels})
            own += 1
            if own % 100 == 0:
                print("worker %d: step %d loss %.4f" % (index, at, value), flush=True)
    print("worker %d: made %d steps" % (index, own), flush=True)
    if index == 0:
        with tf.Session(server.target, config=config) as sess:  # the variables are on the parameter servers still
            right = sess.run(accuracy, feed_dict={x: data.test.images, y: data.test.labels})
        print("%s on %s: accuracy %.2f %%" % ("sync" if hooks[1:] else "async", data.name, 100 * right), flush=True)


if __name__ == "__main__":
    options.run()
