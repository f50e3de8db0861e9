"""Workers of a cluster that train together, however tightly: one flag says how they keep together.

    task = tf.cluster.Task()                               # as TF_CONFIG says, which `millrace launch` sets
    if task.worker < 0:
        task.serve()                                       # a parameter server
    with tf.device(task.device()):                         # variables on the parameter servers, everything else here
        loss = ...
    training = tf.cluster.Training(tf.train.AdamOptimizer(0.001), loss, task, synchrony="backup", checkpoints="folder")
    with training.start():
        while training.step < 1000:
            value = training.train(loss, {x: x0, y: y0})
        training.finish()
        print(training.figures(0))                         # of each worker: iterations, waits, staleness

`synchrony` is one of

    async        nobody waits for anybody
    sync         one update from the gradients of all workers
    backup       the same without the slowest, as many as it pays to drop: chosen before each step from how long each takes
    backup:K     the same without the K slowest
    bounded      each updates by itself, not too far ahead of the slowest: as far as it pays
    bounded:T    at most T iterations ahead
    all_reduce   no parameter servers: every worker has all variables, and all make the same update from the mean of their gradients

and by default what `millrace launch --synchrony` says (MILLRACE_SYNCHRONY), or async.  A program with a flag of its own
gives it to both, task.device(synchrony) and Training(..., synchrony=synchrony).

When a task is lost, training goes on: variables come back from the newest checkpoint, another worker becomes the chief.  With all_reduce
they need not come back: the workers that are left go on with theirs, and one that is started again takes those of the others and is in
again.  One task knows who is in, the first parameter server if there is one, else the first worker; without it the others wait.
millrace/cluster.h tells more.
"""

import json
import os

import _millrace

from .framework import errors, ops, session
from .framework.closing import Closing
from .ops import adopted, variables

__all__ = ["Task", "Training"]


def _told(synchrony):
    """The flag of a program, else that of the launcher."""
    return synchrony if synchrony is not None else os.environ.get("MILLRACE_SYNCHRONY") or "async"


class Task(Closing):
    """This process as a task of a cluster: as the arguments say ("host:port,host:port", job "ps" or "worker"), or TF_CONFIG."""

    def __init__(self, ps_hosts=None, worker_hosts=None, job=None, index=0):
        if worker_hosts is None and ps_hosts is None:
            own = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
            self.job, self.index = own.get("type"), int(own.get("index", 0))
        else:
            self.job, self.index = job, index
            ps_hosts, worker_hosts = ps_hosts or "", worker_hosts or ""  # either may be none at all
        self._core = _millrace.ClusterTask(ps_hosts, worker_hosts, job, index)

    target = property(lambda self: self._core.target, doc="The target for sessions that use this task.")
    worker = property(lambda self: self._core.worker, doc="The number of this task among the workers, or -1.")
    num_workers = property(lambda self: self._core.num_workers, doc="The number of workers in the cluster.")
    num_ps = property(lambda self: self._core.num_ps, doc="The number of parameter servers in the cluster.")

    def device(self, synchrony=None):
        """For tf.device: variables go to the parameter servers by turns, or without any to the first worker, the rest stays here.  With
        all_reduce, as `synchrony` says or the launcher, all of it stays here."""
        from .train import replica_device_setter
        if self.worker < 0:
            raise ValueError("A model is replicated on workers, but this process is not a worker")
        if _told(synchrony) == "all_reduce":
            return "/job:%s/task:%d" % (self.job, self.index)
        first = "ps" if self.num_ps else "chief" if self.job == "chief" or self.worker != self.index else "worker"
        return replica_device_setter(ps_tasks=max(1, self.num_ps), ps_device="/job:" + first,
                                     worker_device="/job:%s/task:%d" % (self.job, self.index))

    def serve(self):
        """Serves until the process is ended."""
        self._core.serve()

    def close(self):
        """Stops it; behind all trainings on it."""
        self._core.close()


def _fixed(variable):
    """A variable that is initialised and saved, and not trained."""
    return adopted.parts(variable, None, False) + (variable.initializer,)


class Training(Closing):
    """A worker's training of the variables of `var_list`, or of those that are trainable, by an optimizer of tf.train.

    It adds to the graph, so it is made before that is finalized and when everything that has variables is in it: all of them are
    initialised, and saved in the folder `checkpoints` every `save_ms` milliseconds and at the end.  A worker that is silent for
    `lease_ms` is not waited for, nor is one that has not come within `join_ms`; `deadline_ms` is how long a cluster may take to come
    up or back, `chief_ms` how long a chief may be silent before another worker takes its place (-1: it is worker 0 in any case).

    Four more are for all_reduce: after a loss the rest waits `settle_ms` for each other (0: 500), an exchange may take `exchange_ms` (0:
    ten minutes), gradients travel together up to `bucket_bytes` (0: 4 MiB, -1: each by itself), and with `sparse_as_dense` those of
    embeddings travel whole instead of the rows that a batch has used.
    """

    def __init__(self, optimizer, loss, task, synchrony=None, var_list=None, checkpoints=None, save_ms=0, max_to_keep=5, lease_ms=0,
                 join_ms=0, deadline_ms=0, chief_ms=0, chief_saves=False, settle_ms=0, exchange_ms=0, bucket_bytes=0,
                 sparse_as_dense=False):
        if not isinstance(task, Task):
            raise TypeError("Expected a task of a cluster, got %r" % (task,))
        self.graph, self.task, self.synchrony, self._last = loss.graph, task, _told(synchrony), None
        try:
            with self.graph.as_default(), ops.device(task.device(self.synchrony)):
                self._make(optimizer, loss, var_list,
                           (lease_ms, join_ms, settle_ms, exchange_ms, bucket_bytes, sparse_as_dense),
                           (checkpoints, save_ms, max_to_keep, deadline_ms, chief_ms, chief_saves))
        except errors.InvalidArgumentError as e:
            raise ValueError(e.message) from None

    def _make(self, optimizer, loss, var_list, waits, options):
        step = adopted.global_step(self.graph)
        pairs = optimizer.compute_gradients(loss, var_list=var_list)
        trained = [v for _, v in pairs]
        parts = [adopted.parts(v, g) + (v.initializer,) for g, v in pairs] + [_fixed(step)]
        self._core = _millrace.Training(self.graph, self.task._core, parts, len(pairs), loss, self.synchrony, *waits)
        means = [ops.IndexedSlices(g, at, shape) if at is not None else g for g, at, shape in self._core.gradients]
        update = optimizer.apply_gradients(list(zip(means, trained)), global_step=step)
        known = {id(v) for v in trained + [step]}
        others = [_fixed(v) for v in variables.global_variables() if id(v) not in known]
        self._core.complete(getattr(update, "op", update), others, *options)

    def start(self):
        """Waits for the cluster; the chief restores the newest checkpoint, or initialises.  Returns itself, for a `with`."""
        self._core.start()
        return self

    def _run(self, f, fetches, feed_dict):
        feeds, values = session.feeds_of(self.graph, feed_dict) if feed_dict else ([], [])
        wanted = session._Fetches(self.graph, fetches)
        if wanted.targets:
            raise ValueError("A step can only fetch tensors (it also runs the operations they depend on), got %s" % wanted.targets)
        wanted.give_back(feeds, values)
        try:
            return wanted, f(feeds, values, wanted.tensors)
        except errors.OpError as e:
            raise errors.with_operation(e, self.graph) from None

    def train(self, fetches=(), feed_dict=None):
        """One step.  The values of fetches, which are tensors, as Session.run has them; `step` is the global one then."""
        wanted, (self._last, values) = self._run(self._core.train, fetches, feed_dict)
        return wanted.results(values)

    def run(self, fetches, feed_dict=None):
        """Any other run that fetches tensors."""
        wanted, values = self._run(self._core.run, fetches, feed_dict)
        return wanted.results(values)

    @property
    def step(self):
        """The global step, as of this worker's last one.  After a loss it may be lower than before."""
        if self._last is None:
            self._last = self._core.step()
        return self._last

    def finish(self):
        """This worker is done.  The chief waits for all (with all_reduce they end together), and saves.  The global step: below
        what it was, training can go on."""
        self._last = self._core.finish()
        return self._last

    def figures(self, worker):
        """How a worker fares with the others, as this process knows it: a dict of iterations, late, waited_s, staleness, staleness_max,
        waited_for; or None.  The chief knows all, others only themselves when they train asynchronously; with all_reduce nobody does."""
        return self._core.figures(worker)

    is_chief = property(lambda self: self._core.is_chief, doc="Whether this worker is the chief now.")
    losses = property(lambda self: self._core.losses, doc="How often a session was lost.")

    @property
    def size(self):
        """How many workers train: with all_reduce those that are in the group now, 0 before the start; else those of the cluster."""
        group = self._core.group
        return group[0] if group else self.task.num_workers

    @property
    def generation(self):
        """How often the group of all_reduce was formed, so that a change shows a loss or a return; None without all_reduce."""
        group = self._core.group
        return group[1] if group else None

    def cancel(self):
        """Ends what waits in it, from any thread, with CancelledError; and whatever follows."""
        self._core.cancel()

    def close(self):
        """Ends it; without `finish` as if it had crashed."""
        self._core.close()
