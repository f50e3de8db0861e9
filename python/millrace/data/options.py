"""tf.data.Options: how a dataset is to be run.

experimental_deterministic=False lets parallel transformations give elements in another order (Dataset._apply_options).
The others change no result, so the library is free in how it heeds them.
"""


class _Wishes:
    """Attributes that are None until they are set; others are errors."""

    _names = ()

    def __init__(self):
        for name in self._names:
            super().__setattr__(name, None)

    def __setattr__(self, name, value):
        if name not in self._names:
            raise AttributeError("Cannot set the property %s on %s." % (name, type(self).__name__))
        super().__setattr__(name, value)

    def __eq__(self, other):
        return type(self) is type(other) and all(getattr(self, n) == getattr(other, n) for n in self._names)

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def merge(self, options):
        """Both together; ValueError where they contradict each other."""
        merged, default = type(self)(), type(self)()
        for name in self._names:
            first, second = getattr(options, name), getattr(self, name)
            if isinstance(first, _Wishes) and isinstance(second, _Wishes):
                first = second.merge(first)
            elif first == getattr(default, name):
                first = second
            elif second != getattr(default, name) and first != second:
                raise ValueError("Cannot merge incompatible values (%r and %r) of option: %s" % (second, first, name))
            object.__setattr__(merged, name, first)
        return merged


class MapVectorizationOptions(_Wishes):
    """Options about computing map on whole batches."""
    _names = ("enabled", "use_choose_fastest")


class OptimizationOptions(_Wishes):
    """Options about optimizing the graph of a dataset."""
    _names = ("apply_default_optimizations", "autotune", "autotune_algorithm", "autotune_buffers", "autotune_cpu_budget",
              "filter_fusion", "filter_with_random_uniform_fusion", "hoist_random_uniform", "map_and_batch_fusion",
              "map_and_filter_fusion", "map_fusion", "map_parallelization", "map_vectorization", "noop_elimination",
              "parallel_batch", "shuffle_and_repeat_fusion")

    def __init__(self):
        super().__init__()
        self.map_vectorization = MapVectorizationOptions()


class ThreadingOptions(_Wishes):
    """Options about the threads of a dataset."""
    _names = ("max_intra_op_parallelism", "private_threadpool_size")


class DistributeOptions(_Wishes):
    """Options about dividing a dataset between workers."""
    _names = ("auto_shard", "auto_shard_policy", "num_devices", "make_stateless")


class StatsOptions(_Wishes):
    """Options about statistics of a dataset."""
    _names = ("aggregator", "prefix", "counter_prefix", "latency_all_edges")


class Options(_Wishes):
    """Options of a dataset; those that are None are not set."""
    _names = ("experimental_deterministic", "experimental_distribute", "experimental_external_state_policy",
              "experimental_optimization", "experimental_slack", "experimental_stateful_whitelist", "experimental_stats",
              "experimental_threading", "experimental_autotune")

    def __init__(self):
        super().__init__()
        self.experimental_distribute = DistributeOptions()
        self.experimental_optimization = OptimizationOptions()
        self.experimental_stats = StatsOptions()
        self.experimental_threading = ThreadingOptions()
