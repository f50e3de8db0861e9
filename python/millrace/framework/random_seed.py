"""Seeds of random operations.

An operation has two: the graph's and its own.  With only the graph's set, an operation's own is the number of operations made
so far, so that a program gets the same numbers each time; with neither, both are 0, which means: other ones each time.
"""

from . import ops

DEFAULT_GRAPH_SEED = 87654321
_MOST = 2 ** 31 - 1


def get_seed(op_seed):
    """(seed of the graph, seed of the operation), both None when there is none."""
    graph = ops.get_default_graph()
    graph_seed = graph.seed
    if graph_seed is not None:
        if op_seed is None:
            op_seed, graph._seed_used = graph._last_id, True
        seeds = int(graph_seed) % _MOST, int(op_seed) % _MOST
    elif op_seed is not None:
        seeds = DEFAULT_GRAPH_SEED, int(op_seed) % _MOST
    else:
        return None, None
    return (0, _MOST) if seeds == (0, 0) else seeds  # two zeros would mean: no seed


def set_random_seed(seed):
    """The seed of the default graph."""
    ops.get_default_graph().seed = seed
