"""Federated averaging: training on examples that stay where they are (McMahan et al. 2017).

    work = tf.federated.Work([x, y], train_op, loss, rate=rate)
    with tf.federated.Averaging(work, clients=[(x0, y0), (x1, y1), ...], fraction=0.1, epochs=5, batch=10) as averaging:
        for _ in range(30):
            report = averaging.round(rate=0.1)
            averaging.load(sess)                    # the averaged model, into the variables of a session

With `address` instead of `clients` it serves clients of other processes, which build the same graph and call `client`:

    tf.federated.client(work, (x0, y0), "host:port")

A client trains on its own examples from the model it is given and returns by how much it changed it; the server averages that,
weighted by numbers of examples.  With `secure=True` the server sees only sums of updates (Bonawitz et al. 2017).
millrace/federated.h tells more of the options.
"""

import collections

import _millrace

from .framework import dtypes, ops
from .framework.closing import Closing
from .ops import array, state, variables

__all__ = ["Averaging", "Report", "Work", "client"]

Report = collections.namedtuple("Report", "round tries asked updates there examples loss seconds")
Report.__doc__ = "What came of a round: `updates` of the `asked` clients counted, `loss` is the mean of their steps."


class Work:
    """What clients do: `train_op` on batches of their examples, fed to `inputs`.

    The variables of `var_list` (those that are trainable) are averaged; they are float32 and their shapes known.  All others, such as
    what optimizers keep, begin anew with each client.  `loss` is a scalar to report, `rate` a placeholder that is fed the
    learning rate of the round.  It adds to the graph, so it is made before sessions are.
    """

    def __init__(self, inputs, train_op, loss=None, rate=None, var_list=None):
        self.inputs = list(inputs)
        self.graph = self.inputs[0].graph
        with self.graph.as_default(), ops.name_scope("federated"):
            self.variables = list(variables.trainable_variables() if var_list is None else var_list)
            self._feeds = [array.placeholder(dtypes.float32, v.get_shape()) for v in self.variables]
            self._assigns = [_operation(state.assign(v, f)) for v, f in zip(self.variables, self._feeds)]
            values = [array.identity(v) for v in self.variables]
            kept = {id(v) for v in self.variables}
            others = [v for v in variables.global_variables() if id(v) not in kept]
            reset = variables.variables_initializer(others) if others else None
            init = variables.global_variables_initializer()
        self._parts = (self.graph, list(zip(values, self._feeds, self._assigns)), init, reset, _operation(train_op), self.inputs, loss, rate)


def _operation(x):
    return x.op if hasattr(x, "op") else x


class Averaging(Closing):
    """The server's side: rounds over `clients` (sequences of arrays, one an input) of this process, or over those that come to
    `address`."""

    def __init__(self, work, clients=None, address=None, fraction=0.1, epochs=1, batch=0, rate=0.0, **options):
        self._work = work
        if address is not None:
            options["address"] = address
        self._core = _millrace.Federated(work._parts, clients, fraction=fraction, epochs=epochs, batch=batch, rate=rate, **options)

    @property
    def address(self):
        """Where clients reach it; "" when they are of this process."""
        return self._core.address

    def round(self, rate=None):
        """Makes a round, with this learning rate from now on if there is one, and returns its Report."""
        if rate is not None:
            self._core.set_rate(rate)
        return Report(*self._core.round())

    def weights(self):
        """The averaged model: an array for each of the work's variables."""
        return self._core.weights()

    def load(self, sess):
        """Sets the variables of a session to the averaged model."""
        sess.run(self._work._assigns, dict(zip(self._work._feeds, self.weights())))

    def stop(self):
        """Ends a round that another thread waits for."""
        self._core.stop()

    def close(self):
        """Tells the clients that training is over."""
        self._core.close()


def client(work, examples, address, deadline=60.0, secure=False):
    """Works for the server at `address` until it is over, and returns how many updates it has sent.

    A server that is not there is looked for during `deadline` seconds.  With `secure` only masked updates are sent.
    """
    return _millrace.federated_client(work._parts, tuple(examples), address, int(deadline * 1000), secure)
