"""A parameter server: vectors by key, sharded over servers, pushed to and pulled from by workers (Li et al., OSDI 2014).

    with tf.ps.Manager() as manager, tf.ps.Server(manager.address), tf.ps.connect(manager.address) as client:
        w = client.table("w", num_keys=1000, width=4, update="adagrad", rate=0.1)
        values = w.pull([1, 5, 7]).wait()              # an array [3, 4]
        w.push([1, 5, 7], gradients).wait()            # acknowledged: on all replicas, counted once

Manager and servers are usually processes of their own; `connect()` without an address has both inside of this process.  Pushes and pulls
are tasks: they run beside the program, `after=[task]` makes one begin when others have ended, and `wait` raises what went
wrong.  Keys are sorted, or a range `(first, n)`.  millrace/ps.h tells more of the options.
"""

import _millrace

from .framework.closing import Closing

__all__ = ["ADAPTIVE", "Client", "EVENTUAL", "Manager", "Server", "Table", "UPDATES", "connect"]

#: What a push does to the values.
UPDATES = ("assign", "add", "sgd", "momentum", "adagrad", "rmsprop", "adam", "ftrl", "proximal", "graph")
#: Delays of `connect`: workers do not wait for each other, or the manager chooses the delay.
EVENTUAL, ADAPTIVE = -1, -2
_DOT, _SCALE, _AXPY, _COPY, _FILL, _MULTIPLY, _NORM1 = range(7)


class Manager(Closing):
    """Knows who is there and who holds what.  `replicas` copies of every range are kept, the first one included."""

    def __init__(self, address=None, replicas=0, servers=0, lost_ms=0, num_ranges=0):
        self._core = _millrace.PsManager(address=address, replicas=replicas, servers=servers, lost_ms=lost_ms, num_ranges=num_ranges)

    @property
    def address(self):
        """"host:port", for servers and clients."""
        return self._core.address


class Server(Closing):
    """Holds ranges of keys; they come to it while others go on."""

    def __init__(self, manager, address=None, memory=0):
        self._core = _millrace.PsServer(manager, address=address, memory=memory)

    @property
    def address(self):
        """"host:port", with the port that was taken."""
        return self._core.address

    def leave(self):
        """Hands over what it holds; then it can be closed without loss."""
        self._core.leave()


class Table:
    """Values of `num_keys` keys, `width` floats each.  Made by `Client.table`."""

    def __init__(self, client, number, num_keys, width):
        self._client, self._number = client, number
        self.num_keys, self.width = num_keys, width

    def push(self, keys, values, after=None, modified=0.0, keep=0.0, kkt=None, kkt_threshold=0.0):
        """Begins to push a row for each key, and returns the task.

        `modified`: rows that have changed less since they were last sent are kept back; `keep`: rows are sent with this
        probability; `kkt`: the values as pulled, of which those that would stay 0 are left out."""
        return self._client._core.push(self._number, keys, values, after=after, modified=modified, keep=keep, kkt=kkt,
                                       kkt_threshold=kkt_threshold)

    def pull(self, keys, after=None):
        """Begins to pull the values of keys, and returns the task, whose wait() gives an array [keys, width]."""
        return self._client._core.pull(self._number, keys, after=after)

    def flush(self):
        """Pushes what `modified` has kept back, and waits."""
        self._client._core.flush(self._number)

    def values(self):
        """Returns all values as an array [num_keys, width]."""
        return self.pull((0, self.num_keys)).wait()

    # Vector algebra, where the values are.

    def _vector(self, what, other=None, alpha=0.0):
        return self._client._core.vector(what, self._number, (other or self)._number, alpha)

    def dot(self, other):
        """The sum of products with another table of this shape."""
        return self._vector(_DOT, other)

    def norm1(self):
        """The sum of absolute values."""
        return self._vector(_NORM1)

    def scale(self, alpha):
        """Multiplies all values by alpha."""
        self._vector(_SCALE, alpha=alpha)

    def add(self, other, alpha=1.0):
        """Adds alpha times another table."""
        self._vector(_AXPY, other, alpha)

    def multiply(self, other):
        """Multiplies by another table, value by value."""
        self._vector(_MULTIPLY, other)

    def copy(self, other):
        """Sets this table to the values of another one."""
        self._vector(_COPY, other)

    def fill(self, value):
        """Sets all values to one."""
        self._vector(_FILL, alpha=value)


class Client(Closing):
    """A worker, or any other client that pushes and pulls.  Options are those of `connect`."""

    def __init__(self, manager=None, **options):
        self._core = _millrace.Ps(manager=manager, **options)

    def table(self, name, num_keys, width=1, update="assign", graph=None, **options):
        """Makes a table, or finds the one of that name, which must have the same options.

        `update` is one of UPDATES; options are rate, a, b, epsilon, l1, l2, start, spread, seed, aggregate and graph_slots.  `graph`, a
        GraphDef or its bytes, is an update function of one's own."""
        if update not in UPDATES:
            raise ValueError("update must be one of {}, got {!r}".format(", ".join(UPDATES), update))
        if graph is not None:
            options["graph"] = graph if isinstance(graph, bytes) else graph.SerializeToString()
        number = self._core.table(name, num_keys, width=width, update=UPDATES.index(update), **options)
        return Table(self, number, num_keys, width)

    def wait_all(self):
        """Waits for all that was begun; raises the first error among it."""
        self._core.wait_all()

    def iteration(self):
        """This worker's iteration is over: waits until it may begin the next, by `delay`, and returns its number."""
        return self._core.iteration()

    def settled(self):
        """Whether every range has all its copies where they should be."""
        return self._core.settled()

    def snapshot(self, folder):
        """Writes all tables, as a checkpoint `folder/ps`."""
        self._core.snapshot(folder)

    def restore(self, folder):
        """Makes or sets the tables of a snapshot, on however many servers there are now."""
        self._core.restore(folder)

    def bind(self, name):
        """Operations MillracePsPull and MillracePsPush with store=name use this client."""
        self._core.bind(name)

    def stats(self):
        """Returns counters of what happened so far, as a dict."""
        return self._core.stats()


def connect(manager=None, name=None, delay=0, cache_keys=True, compress=False, half=0, observer=False, timeout_ms=0, max_bytes=0):
    """A client of the parameter server at an address; without one, a whole parameter server inside of this process.

    `delay`: iterations this worker may be ahead of the slowest, or EVENTUAL, or ADAPTIVE.  `cache_keys`: key lists that were sent before
    travel as their hash; `compress`: keys travel as differences, values through Snappy; `half`: values travel as 16 bits (1: bfloat16,
    2: fixed point, rounded by chance)."""
    return Client(manager, name=name, delay=delay, cache_keys=cache_keys, compress=compress, half=half, observer=observer,
                  timeout_ms=timeout_ms, max_bytes=max_bytes)
