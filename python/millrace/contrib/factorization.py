"""tf.contrib.factorization: k-means."""

import math as _math

from ..framework import convert, dtypes, ops
from ..framework.op_defs import call
from ..ops import array, control_flow, math, random, state, variables

SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE = "squared_euclidean", "cosine"
RANDOM_INIT, KMEANS_PLUS_PLUS_INIT, KMC2_INIT = "random", "kmeans_plus_plus", "kmc2"


def _unit(x):
    return x * math.rsqrt(math.maximum(math.reduce_sum(math.square(x), 1, keepdims=True), 1e-12))


class KMeans:
    """The graph of k-means over inputs: a tensor [points, dimensions], or a list of such."""

    SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE = SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE

    # kmc2_chain_length is of the one beginning that is refused.
    def __init__(self, inputs, num_clusters, initial_clusters=RANDOM_INIT, distance_metric=SQUARED_EUCLIDEAN_DISTANCE,
                 use_mini_batch=False, mini_batch_steps_per_iteration=1, random_seed=0, kmeans_plus_plus_num_retries=2,
                 kmc2_chain_length=200):
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise ValueError("Unsupported distance metric passed to Kmeans %s" % distance_metric)
        if initial_clusters == KMC2_INIT:
            raise NotImplementedError("KMeans with initial_clusters='kmc2'")
        if mini_batch_steps_per_iteration != 1:
            raise NotImplementedError("KMeans with mini_batch_steps_per_iteration other than 1")
        self._inputs = [convert.convert_to_tensor(x) for x in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
        self._k, self._initial, self._cosine = int(num_clusters), initial_clusters, distance_metric == COSINE_DISTANCE
        self._mini_batch, self._seed = use_mini_batch, random_seed or None
        self._retries = kmeans_plus_plus_num_retries

    def training_graph(self):
        """(all_scores, cluster_idx, scores, cluster_centers_initialized, cluster_centers, init_op, training_op): the first
        three are lists with an element for each input."""
        dims = self._inputs[0].shape.as_list()[1]
        if dims is None:
            raise ValueError("The number of dimensions of the inputs must be known")
        centers = variables.Variable(array.zeros([self._k, dims], self._inputs[0].dtype), trainable=False, name="clusters")
        initialized = variables.Variable(False, trainable=False, name="initialized")
        counts = variables.Variable(array.zeros([self._k], dtypes.int64), trainable=False, name="counts")
        all_scores, index, scores = [], [], []
        for x in self._inputs:
            with ops.colocate_with(x.op):
                distances = self._distances(x, centers)
                nearest = math.argmin(distances, 1)
                all_scores.append(distances)
                index.append(nearest)
                scores.append(math.reduce_min(distances, 1))
        init_op = control_flow.cond(initialized, lambda: control_flow.no_op(), lambda: self._initialize(centers, initialized))
        update = self._update(centers, counts, index)
        return tuple(all_scores), tuple(index), tuple(scores), initialized, centers, _as_op(init_op), update

    def _distances(self, x, centers):
        if self._cosine:
            return 1 - math.matmul(_unit(x), _unit(centers), transpose_b=True)
        squares = math.reduce_sum(math.square(x), 1, keepdims=True) + math.reduce_sum(math.square(centers), 1)
        return math.maximum(squares - 2 * math.matmul(x, centers, transpose_b=True), 0.0)

    # ---- the beginning ----

    def _initialize(self, centers, initialized):
        points = array.concat(self._inputs, 0) if len(self._inputs) > 1 else self._inputs[0]
        first = self._first(points)
        enough = call("Assert", None, condition=math.equal(array.shape(first)[0], self._k),
                      data=["There are fewer points than clusters", array.shape(first)])
        with ops.control_dependencies([enough]):
            done = state.assign(centers, array.identity(first))
        with ops.control_dependencies([done]):
            return state.assign(initialized, True).op

    def _first(self, points):
        if callable(self._initial):
            return self._initial(points, self._k)
        if not isinstance(self._initial, str):
            return convert.convert_to_tensor(self._initial, points.dtype)
        if self._initial == RANDOM_INIT:
            order = random.random_shuffle(math.range(array.shape(points)[0]), seed=self._seed)
            return array.gather(points, order[:self._k])
        if self._initial != KMEANS_PLUS_PLUS_INIT:
            raise ValueError("Unsupported initial clusters: %s" % self._initial)
        return self._spread(points)

    def _spread(self, points):
        """Each next center is drawn among the points by its distance to those that are chosen: the best of some draws, whose
        number follows from that of the clusters when retries are negative."""
        draws = 1 + self._retries if self._retries >= 0 else 2 + int(_math.log(self._k))
        n = array.shape(points)[0]
        chosen = [array.gather(points, random.random_uniform([1], maxval=n, dtype=dtypes.int32, seed=self._seed))]
        while len(chosen) < self._k:
            nearest = math.reduce_min(self._distances(points, array.concat(chosen, 0)), 1)
            drawn = random.multinomial(array.expand_dims(math.log(nearest), 0), draws, seed=self._seed)
            candidates = array.gather(points, drawn[0])
            left = math.minimum(array.expand_dims(nearest, 1), self._distances(points, candidates))
            best = math.argmin(math.reduce_sum(left, 0), 0)
            chosen.append(array.gather(candidates, array.expand_dims(best, 0)))
        return array.concat(chosen, 0)

    # ---- a step ----

    def _update(self, centers, counts, index):
        points = array.concat(self._inputs, 0) if len(self._inputs) > 1 else self._inputs[0]
        points = _unit(points) if self._cosine else points
        nearest = array.concat(index, 0) if len(index) > 1 else index[0]
        sums = math.unsorted_segment_sum(points, nearest, self._k)
        number = math.unsorted_segment_sum(array.ones_like(nearest), nearest, self._k)
        here = array.expand_dims(math.cast(number, points.dtype), 1)
        if self._mini_batch:
            with ops.control_dependencies([sums, number]):
                total = state.assign_add(counts, number)
            weight = math.cast(array.expand_dims(math.maximum(total, 1), 1), points.dtype)
            return state.assign_add(centers, (sums - here * centers) / weight).op
        kept = array.where(math.greater(number, 0), sums / math.maximum(here, 1.0), centers + array.zeros_like(sums))
        return state.assign(centers, kept).op


def _as_op(x):
    return x if isinstance(x, ops.Operation) else x.op
