"""DistBelief (Dean et al. 2012): Downpour SGD and Sandblaster L-BFGS on the parameter server, for any graph with a loss.

Downpour.  Replicas train the same model on data of their own and never wait for each other; one that dies is not missed.

    downpour = tf.distbelief.Downpour(loss, replica=2, rate=0.05)
    with tf.Session() as sess, tf.ps.connect(manager) as client:
        sess.run(tf.global_variables_initializer())
        with downpour.start(sess, client):
            for x0, y0 in batches:
                value = downpour.train(loss, {x: x0, y: y0})
            downpour.finish()
            downpour.fetch()                       # the session's variables become what the servers have

Sandblaster.  A coordinator minimises the loss over all data by L-BFGS without seeing a parameter; replicas compute portions.

    with tf.ps.connect(manager) as client, tf.distbelief.Sandblaster(client, portions=64) as s:      # the coordinator
        loss = s.minimize()

    replica = tf.distbelief.SandblasterReplica(loss, [x, y])                                          # all others
    replica.work(sess, client, "host:port", lambda i, n: (xs[i::n], ys[i::n]))
    replica.fetch(sess, client)                    # the minimum, into the variables of a session

Both train the variables of `var_list`, or those that are trainable: real numbers of known shapes.  They add to the graph, so they
are made before it is finalized.  millrace/distbelief.h tells more of the options.
"""

import _millrace

from . import ps
from .framework import errors, ops, session
from .framework.closing import Closing
from .ops import adopted, gradients, variables

__all__ = ["Downpour", "Sandblaster", "SandblasterReplica"]


# ---- models ----

def _model(loss, var_list):
    """The graph, and its variables with their gradients."""
    graph = loss.graph
    if loss.shape.ndims is not None and loss.shape.num_elements() not in (1, None):
        raise ValueError("The loss must be a scalar, got shape %s" % loss.shape)
    with graph.as_default(), ops.name_scope("distbelief"):
        var_list = list(variables.trainable_variables() if var_list is None else var_list)
        if not var_list:
            raise ValueError("There are no variables to train")
        found = gradients.gradients(loss, var_list)
        if all(g is None for g in found):
            raise ValueError("The loss does not depend on any of the variables %s" % [v.name for v in var_list])
        return graph, var_list, [adopted.parts(v, g) for v, g in zip(var_list, found)]


def _make(kind, graph, *args, **options):
    """An object of the extension that adds operations to the graph."""
    try:
        return kind(graph, *args, **options)
    except errors.InvalidArgumentError as e:
        raise ValueError(e.message) from None


def _core(sess):
    if not isinstance(sess, session.BaseSession):
        raise TypeError("Expected a session, got %r" % (sess,))
    if sess._closed:
        raise RuntimeError("Attempted to use a closed Session.")
    return sess._session


def _client(client):
    if not isinstance(client, ps.Client):
        raise TypeError("Expected a client of the parameter server, got %r" % (client,))
    return client._core


# ---- Downpour ----

class Downpour(Closing):
    """A replica.  Of all replicas of a job the lowest that is there gives the servers its initial values.

    Every `n_fetch` steps it asks for newer parameters, every `n_push` steps it pushes the gradients summed since, which the servers
    apply by `update` (one of tf.ps.UPDATES that takes gradients) and `rate`, `a`, `b`, `epsilon`.  With `local_rate` its own
    parameters follow its own gradients between fetches, and the graph's global step, made if there is none, counts its steps.
    Other options: `most_behind`, `warm_steps`, `patience_ms`, `deadline_ms`.
    """

    def __init__(self, loss, replica=0, name=None, update="adagrad", rate=0.05, local_rate=0.0, var_list=None, **options):
        if update not in ps.UPDATES:
            raise ValueError("update must be one of {}, got {!r}".format(", ".join(ps.UPDATES), update))
        if update in ("assign", "add", "proximal", "graph"):
            raise ValueError("Downpour pushes gradients, which the update %r does not accept" % update)
        self.graph, self.variables, parts = _model(loss, var_list)
        if local_rate > 0:
            parts.append(adopted.parts(adopted.global_step(self.graph), None, False))
        self._session = None
        self._core = _make(_millrace.Downpour, self.graph, parts, loss, replica=replica, name=name,
                           update=ps.UPDATES.index(update), rate=rate, local_rate=local_rate, **options)

    def start(self, sess, client):
        """Begins, or begins again after `finish`; variables must have been initialised.  Returns itself, for a `with`.

        Where the job has begun already, its parameters are fetched."""
        self._core.start(_core(sess), _client(client))
        self._session = sess
        return self

    def train(self, fetches=(), feed_dict=None):
        """One step.  The values of fetches, which are tensors, as Session.run has them."""
        if self._session is None:
            raise RuntimeError("The replica has not been started")
        feeds, values = self._session._feeds(feed_dict) if feed_dict else ([], [])
        wanted = session._Fetches(self.graph, fetches)
        if wanted.targets:
            raise ValueError("A step can only fetch tensors (it also runs the operations they depend on), got %s" % wanted.targets)
        wanted.give_back(feeds, values)
        return wanted.results(self._session._call(self._core.train, feeds, values, wanted.tensors))

    def finish(self):
        """Pushes what is left and waits until the servers have it."""
        self._core.finish()

    def fetch(self):
        """The session's variables become what the servers have now: to test the model, or save it."""
        self._core.fetch()

    def stats(self):
        """Returns counters of what happened so far, as a dict."""
        return self._core.stats()


# ---- Sandblaster ----

class Sandblaster(Closing):
    """The coordinator, for replicas to come to `address` (by default any port of the loopback).

    The data are cut into `portions`, several for each replica; `l2` / 2 times the sum of squares is added to the loss.  Other
    options: `history`, `iterations`, `gradient_norm`, `least_gain`, `patience_ms`, `deadline_ms`.  At its end replicas are let go.
    """

    def __init__(self, client, name=None, address=None, portions=0, l2=0.0, **options):
        self._core = _millrace.Sandblaster(_client(client), name=name, address=address, portions=portions, l2=l2, **options)

    @property
    def address(self):
        """"host:port", with the port that was taken."""
        return self._core.address

    def minimize(self, report=None):
        """Waits for replicas and minimises; called again it goes on.  Returns the loss, the penalty included.

        `report(iteration, loss, gradient_norm)` is called after each iteration; what it raises ends the minimisation."""
        return self._core.minimize(report)

    def cancel(self):
        """Ends, for good, a minimize that another thread waits for."""
        self._core.cancel()

    def stats(self):
        """Returns counters of what happened so far, as a dict."""
        return self._core.stats()


class SandblasterReplica:
    """Computes portions of a loss, which is a mean over examples that are fed to `inputs`."""

    def __init__(self, loss, inputs, var_list=None):
        self.inputs = list(inputs)
        self.graph, self.variables, parts = _model(loss, var_list)
        self._core = _make(_millrace.SandblasterReplica, self.graph, parts, loss, self.inputs)

    def work(self, sess, client, coordinator, portion, weight=None, name=None, deadline=60.0):
        """Computes portions until the coordinator is done.  The first replica gives the servers its variables' values.

        `portion(i, n)` returns an array for each input: those of portion i of n, always the same.  The loss is the sum over
        portions of `weight(i, n)` times theirs; without it they count alike, which is right where they are of the same size.  A
        coordinator that is not there is looked for during `deadline` seconds.
        """
        def values(i, n):
            return portion(i, n), None if weight is None else weight(i, n)

        if not callable(portion):
            raise TypeError("portion must be a function, got %r" % (portion,))
        self._core.work(_core(sess), _client(client), coordinator, values, name, int(deadline * 1000))

    def cancel(self):
        """Ends, for good, work that another thread waits for."""
        self._core.cancel()

    def fetch(self, sess, client, name=None):
        """The variables of a session become the parameters of the job's minimum, or wherever it is."""
        self._core.fetch(_core(sess), _client(client), name)
