"""Processes that compute together: all-reduce and its kin on arrays.

    with tf.collective.join() as group:                    # rank and size as `millrace launch`, mpirun or srun say
        mean = group.all_reduce(gradients, "mean")    # the same bits at all members

All members call the same operations in the same order.  When one dies, the operations of the others raise tf.errors.AbortedError, which
names it; `reform` makes a group of those who are left and of those who came meanwhile.  For training graphs see
`millrace.horovod`; millrace/group.h tells more of the options.
"""

import _millrace
import numpy as np

from .framework import dtypes
from .framework.closing import Closing

__all__ = ["Group", "join"]

_REDUCTIONS = ("sum", "product", "min", "max", "mean")
_ALL_REDUCE, _IN_ORDER, _REDUCE_SCATTER, _ALL_GATHER, _BROADCAST, _ALL_TO_ALL = range(6)


def _reduction(how):
    if how not in _REDUCTIONS:
        raise ValueError("A reduction must be one of {}, got {!r}".format(", ".join(_REDUCTIONS), how))
    return _REDUCTIONS.index(how)


class Group(Closing):
    """A member of a group.  Made by `join`."""

    def __init__(self, **options):
        self._core = _millrace.Group(**options)

    def _compute(self, what, array, how=0):
        array = np.asarray(array)
        return self._core.compute(what, array, dtypes.as_dtype(array.dtype).as_datatype_enum, how)

    @property
    def rank(self):
        """The number of this process, from 0."""
        return self._core.rank

    @property
    def size(self):
        """The number of processes."""
        return self._core.size

    @property
    def generation(self):
        """Increases whenever the group is formed again; starts at 1."""
        return self._core.generation

    def all_reduce(self, array, how="sum", in_order=False):
        """The sum, product, min, max or mean over all members; `in_order` adds in the order of ranks, over every transport."""
        return self._compute(_IN_ORDER if in_order else _ALL_REDUCE, array, _reduction(how))

    def reduce_scatter(self, array, how="sum"):
        """Returns this member's part of the reduction, along the first dimension."""
        return self._compute(_REDUCE_SCATTER, array, _reduction(how))

    def all_gather(self, array):
        """The arrays of all members, one behind the other."""
        return self._compute(_ALL_GATHER, array)

    def broadcast(self, array, root=0):
        """The array of member `root`; the others' say its shape and type."""
        return self._compute(_BROADCAST, array, root)

    def all_to_all(self, array):
        """Block i of member k becomes block k of member i; blocks are parts of the first dimension."""
        return self._compute(_ALL_TO_ALL, array)

    def barrier(self):
        """Waits until all are here."""
        self._core.barrier()

    def reform(self):
        """Forms the group again, from the remaining and the waiting members; ranks change."""
        self._core.reform()

    def waiting(self):
        """Whether a process waits to be let in by `reform`."""
        return self._core.waiting()

    def close(self):
        """Leaves the group."""
        self._core.close()


def join(name=None, size=0, rank=0, transport=None, folder=None, addresses=None, min_size=0, join_ms=0, timeout_ms=0):
    """Joins a group and waits until all `size` members are there; size 0: as the launcher says.

    A `rank` of -1 is any that is free.  `transport` is "shm", "grpc" or "mpi"; by itself shared memory where all are on this host."""
    return Group(name=name, size=size, rank=rank, transport=transport, folder=folder, addresses=addresses, min_size=min_size,
                 join_ms=join_ms, timeout_ms=timeout_ms)
