"""Random forests that learn from batches.

A tree is a set of variables with a row a node: the feature and threshold of its split, its left child (0: it is a leaf; the
right child is the next one), and how many examples of each class came there.  A leaf has candidates for a split, made of one of
its examples: random features with the example's values as thresholds.  When enough examples have passed a leaf, the candidate
with the purest sides becomes its split.  Everything is operations of the graph over all nodes at once.
"""

import math as _math

from ....framework import convert, dtypes, ops
from ....ops import array, control_flow, math, random, state, variables


# Settings of growing trees in other ways; only the value here, which is TensorFlow's own, is followed.
_ONLY = dict(feature_bagging_fraction=1.0, max_fertile_nodes=0, valid_leaf_threshold=1, model_name="all_dense",
             split_finish_name="basic", split_pruning_name="none", prune_every_samples=0, initialize_average_splits=False,
             inference_tree_paths=False, param_file=None, split_name="less_or_equal")


def _refuse(what, **settings):
    for name, value in settings.items():
        if value is not None and value is not False:
            raise NotImplementedError("%s with %s" % (what, name))


class ForestHParams:
    """Settings; fill() adds those that follow from others."""

    def __init__(self, num_trees=100, max_nodes=10000, bagging_fraction=1.0, num_splits_to_consider=0,
                 feature_bagging_fraction=1.0,
                 max_fertile_nodes=0, split_after_samples=250, valid_leaf_threshold=1, dominate_method="bootstrap",
                 dominate_fraction=0.99, model_name="all_dense", split_finish_name="basic", split_pruning_name="none",
                 prune_every_samples=0, early_finish_check_every_samples=0, collate_examples=False, checkpoint_stats=False,
                 use_running_stats_method=False, initialize_average_splits=False, inference_tree_paths=False, param_file=None,
                 split_name="less_or_equal", **kwargs):
        given = dict(locals())
        given.pop("self")
        given.update(given.pop("kwargs"))
        given.pop("__class__", None)
        for name, value in given.items():
            setattr(self, name, value)

    def values(self):
        """Returns all parameters as a dict."""
        return dict(self.__dict__)

    def fill(self):
        """Computes the parameters that were not given, and returns this object."""
        if getattr(self, "num_classes", None) is None or getattr(self, "num_features", None) is None:
            raise ValueError("num_classes and num_features must be set")
        if self.bagging_fraction <= 0 or self.bagging_fraction > 1:
            raise ValueError("bagging_fraction must be in (0, 1]")
        for name, followed in _ONLY.items():
            if getattr(self, name) != followed:
                raise NotImplementedError("Random forests with %s=%r" % (name, getattr(self, name)))
        self.regression = getattr(self, "regression", False)
        if self.regression:
            raise NotImplementedError("Random forests for regression")
        self.num_outputs = self.num_classes
        self.max_nodes = int(self.max_nodes)
        self.num_splits_to_consider = self.num_splits_to_consider or max(10, int(_math.ceil(_math.sqrt(self.num_features))))
        return self


class _Tree:
    """The variables of a tree."""

    def __init__(self, params, number):
        n, s, c = params.max_nodes, params.num_splits_to_consider, params.num_classes
        self._params = params

        def variable(name, shape, dtype=dtypes.float32):
            return variables.Variable(array.zeros(shape, dtype), trainable=False, name="tree-%d/%s" % (number, name))
        self.feature, self.threshold = variable("feature", [n], dtypes.int32), variable("threshold", [n])
        self.left, self.counts = variable("left", [n], dtypes.int32), variable("counts", [n, c])
        self.size = variables.Variable(1, trainable=False, name="tree-%d/size" % number)
        self.has_candidates = variable("has_candidates", [n], dtypes.bool_)
        self.candidate_feature, self.candidate_threshold = variable("candidate_feature", [n, s], dtypes.int32), variable(
            "candidate_threshold", [n, s])
        self.passed, self.passed_left = variable("passed", [n, c]), variable("passed_left", [n, s, c])

    def leaves(self, x):
        """The leaf that each example comes to."""
        def inside(node):
            return math.reduce_any(math.not_equal(array.gather(self.left, node), 0))

        def down(node):
            left = array.gather(self.left, node)
            value = _columns(x, array.expand_dims(array.gather(self.feature, node), 1))[:, 0]
            right = math.cast(math.greater(value, array.gather(self.threshold, node)), dtypes.int32)
            return array.where(math.equal(left, 0), node, left + right)
        start = array.zeros([array.shape(x)[0]], dtypes.int32)
        return control_flow.while_loop(inside, down, [start], back_prop=False)

    def probabilities(self, x):
        counts = array.gather(self.counts, self.leaves(x)) + 1e-6
        return counts / math.reduce_sum(counts, 1, keepdims=True)

    # ---- training: each of the steps waits for the one before ----

    def train(self, x, y):
        leaf = self.leaves(x)
        with ops.control_dependencies([leaf]):
            candidates = self._add_candidates(x, leaf)
        with ops.control_dependencies(candidates):
            counted = self._count(x, y, leaf)
        with ops.control_dependencies(counted):
            return control_flow.group(*self._split())

    def _add_candidates(self, x, leaf):
        """For the leaves that have none: random features of their last example in the batch."""
        n, s = self._params.max_nodes, self._params.num_splits_to_consider
        last = math.unsorted_segment_max(math.range(array.shape(x)[0]), leaf, n)
        new = math.logical_and(math.greater_equal(last, 0), math.logical_not(self.has_candidates))
        at = array.reshape(array.where(new), [-1])
        number = array.shape(at)[0]
        features = random.random_uniform(array.stack([number, s]), maxval=self._params.num_features, dtype=dtypes.int32)
        thresholds = _columns(array.gather(x, array.gather(last, at)), features)
        return [state.scatter_update(self.candidate_feature, at, features),
                state.scatter_update(self.candidate_threshold, at, thresholds),
                state.scatter_update(self.has_candidates, at, array.fill(array.stack([number]), True))]

    def _count(self, x, y, leaf):
        one = array.one_hot(y, self._params.num_classes)
        values = _columns(x, array.gather(self.candidate_feature, leaf))
        is_left = math.cast(math.less_equal(values, array.gather(self.candidate_threshold, leaf)), dtypes.float32)
        sides = array.expand_dims(is_left, 2) * array.expand_dims(one, 1)
        return [state.scatter_add(self.counts, leaf, one), state.scatter_add(self.passed, leaf, one),
                state.scatter_add(self.passed_left, leaf, sides)]

    def _split(self):
        p = self._params
        is_leaf = math.equal(self.left, 0)
        enough = math.greater_equal(math.reduce_sum(self.passed, 1), float(p.split_after_samples))
        mixed = math.greater(math.reduce_sum(math.cast(self.passed > 0, dtypes.int32), 1), 1)
        wanted = math.logical_and(math.logical_and(is_leaf, enough), mixed)
        child = self.size + 2 * (math.cumsum(math.cast(wanted, dtypes.int32)) - 1)
        wanted = math.logical_and(wanted, math.less(child + 1, p.max_nodes))
        at = array.reshape(array.where(wanted), [-1])
        left = array.gather(self.passed_left, at)
        right = array.expand_dims(array.gather(self.passed, at), 1) - left
        best = math.cast(math.argmin(_impurity(left) + _impurity(right), 1), dtypes.int32)
        pick = array.stack([math.range(array.shape(at)[0]), best], axis=1)
        children = array.gather(child, at)
        made = [state.scatter_update(self.feature, at, array.gather_nd(array.gather(self.candidate_feature, at), pick)),
                state.scatter_update(self.threshold, at, array.gather_nd(array.gather(self.candidate_threshold, at), pick)),
                state.scatter_update(self.counts, children, array.gather_nd(left, pick)),
                state.scatter_update(self.counts, children + 1, array.gather_nd(right, pick)),
                state.scatter_update(self.left, at, children)]
        with ops.control_dependencies([at, children]):
            made.append(state.assign_add(self.size, 2 * array.shape(at)[0]))
        return made


def _columns(x, features):
    """Of each row of x, the columns that the same row of features names."""
    rows = array.expand_dims(math.range(array.shape(features)[0]), 1) + array.zeros_like(features)
    return array.gather_nd(x, array.stack([rows, features], axis=2))


def _impurity(counts):
    """Gini's, times the number of examples."""
    total = math.reduce_sum(counts, -1)
    return total - math.reduce_sum(math.square(counts), -1) / math.maximum(total, 1e-6)


class RandomForestGraphs:
    """The graphs for training and inference of a forest."""

    def __init__(self, params, device_assigner=None, variables=None, tree_variables_class=None, tree_graphs=None,
                 training=True):
        _refuse("RandomForestGraphs", device_assigner=device_assigner, variables=variables,
                tree_variables_class=tree_variables_class, tree_graphs=tree_graphs, not_training=not training)
        self.params = params
        self.trees = [_Tree(params, i) for i in range(params.num_trees)]

    def training_graph(self, input_data, input_labels, num_trainers=1, trainer_id=0, **tree_kwargs):
        """The operation of a step."""
        _refuse("training_graph", **tree_kwargs)
        x = math.cast(convert.convert_to_tensor(input_data), dtypes.float32)
        y = array.reshape(math.cast(convert.convert_to_tensor(input_labels), dtypes.int32), [-1])
        steps = []
        for i, tree in enumerate(self.trees):
            if i % num_trainers != trainer_id:
                continue
            steps.append(tree.train(*self._bag(x, y)))
        return control_flow.group(*steps, name="train")

    def _bag(self, x, y):
        if self.params.bagging_fraction >= 1.0:
            return x, y
        kept = array.reshape(array.where(random.random_uniform(array.shape(y)) < self.params.bagging_fraction), [-1])
        return array.gather(x, kept), array.gather(y, kept)

    def inference_graph(self, input_data, **inference_args):
        """(probabilities [examples, classes], paths in the trees: None, variance over the trees)"""
        _refuse("inference_graph", **inference_args)
        x = math.cast(convert.convert_to_tensor(input_data), dtypes.float32)
        every = array.stack([tree.probabilities(x) for tree in self.trees])
        mean = math.reduce_mean(every, 0, name="probabilities")
        return mean, None, math.reduce_mean(math.square(every - mean), 0)

    def average_size(self):
        """Returns the mean number of nodes of a tree, as a tensor."""
        return math.reduce_mean(math.cast(array.stack([t.size for t in self.trees]), dtypes.float32))

    def training_loss(self, features, labels, name="training_loss"):
        """The larger the trees, the smaller: as TensorFlow's, it only says that training goes on."""
        return math.negative(self.average_size(), name=name)

    def validation_loss(self, features, labels):
        """Returns the loss on these features and labels; the same as training_loss."""
        return self.training_loss(features, labels)


class TrainingLossForest(RandomForestGraphs):
    """One whose loss is that of its predictions."""

    def __init__(self, params, loss_fn=None, **kwargs):
        super().__init__(params, **kwargs)
        self._loss_fn = loss_fn

    def training_loss(self, features, labels, name="training_loss"):
        from .... import losses
        y = array.reshape(math.cast(labels, dtypes.int64), [-1])
        made = self.inference_graph(features)[0]
        loss = self._loss_fn(made, y) if self._loss_fn is not None else losses.log_loss(
            array.one_hot(y, self.params.num_classes), made)
        return math.reduce_mean(loss, name=name)
