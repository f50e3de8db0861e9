"""Pipelines: one network in stages on several devices, with micro-batches in flight.

    def bottom(x, inputs): return tf.layers.dense(x, 512, tf.nn.relu, name="bottom")
    def top(h, inputs): return tf.losses.sparse_softmax_cross_entropy(inputs[1], tf.layers.dense(h, 10, name="top"))

    train, loss = tf.pipeline.minimize([bottom, top], [x, y], tf.train.AdamOptimizer(), devices=["/gpu:0", "/gpu:1"], micro_batches=8)

The batch is cut into equal micro-batches that go through the stages one behind the other, forward and back; their gradients are added
up and make one update, so a step is that of the whole batch, to rounding (but what a stage computes over a batch, as batch
normalization does, it computes over a micro-batch).  Devices may be those of other tasks: "/job:worker/task:1".

In a stage the order of the forward and backward parts, its tasks, is made of control edges.  Whatever a task takes from outside
passes through its gates, identities on the stage's device, and the gates of a task wait for the results of the one before it.
"""

import _millrace

from .framework import convert, nest, ops
from .ops import array, gradients, math, variable_scope, variables

__all__ = ["ORDERS", "minimize", "predict"]

#: All forward and then all backward; or one backward for each forward as soon as can be: the same time, fewer activations kept.
ORDERS = ("fill-drain", "1f1b")


def minimize(stages, inputs, optimizer, devices, micro_batches, order="1f1b", global_step=None, var_list=None, name=None):
    """(the operation of a step, the mean loss over the batch).

    A stage is a function of the result of the one before it (of the first stage: the first input) and of the micro-batch's shares of all
    inputs, whose first dimension is the batch, a multiple of micro_batches.  It knows no other tensor that is to be
    differentiated.  The result is a tensor or a list of them, that of the last stage the loss, a scalar.  Every stage is called once
    for each micro-batch, and finds its variables again by their names: tf.get_variable, or layers that have names."""
    stages, devices = list(stages), list(devices)
    if not stages or len(stages) != len(devices):
        raise ValueError("A pipeline of %d stages on %d devices" % (len(stages), len(devices)))
    if micro_batches < 1:
        raise ValueError("A pipeline of %d micro-batches" % micro_batches)
    if order not in ORDERS:
        raise ValueError("order is one of {}, not {!r}".format(", ".join(ORDERS), order))
    with ops.name_scope(name, "pipeline", inputs):
        p = _Pipeline(stages, [convert.convert_to_tensor(t) for t in inputs], devices, micro_batches)
        losses = p.go_forward()
        pairs = p.go_backward(losses, variables.trainable_variables() if var_list is None else var_list)
        p.put_in_order(order)
        with ops.device(devices[-1]):
            loss = math.multiply(math.add_n(losses), 1.0 / micro_batches, name="loss")
    return optimizer.apply_gradients(pairs, global_step=global_step), loss


def predict(forward, backward, micro_batches, order="1f1b", transfer=0.0):
    """What a pipeline will do, from the seconds that a micro-batch takes in each stage, forward and back, and from one stage to the next.

    A dict: `step` and `alone` (the same work one stage at a time) in seconds, `bubble` (the share of its time that the mean stage has
    nothing to do), `kept` (micro-batches whose activations a stage keeps, at most)."""
    if order not in ORDERS:
        raise ValueError("order is one of {}, not {!r}".format(", ".join(ORDERS), order))
    return _millrace.pipeline_predict(tuple(forward), tuple(backward), micro_batches, ORDERS.index(order), transfer)


def _tasks(order, n_stages, n_micro, stage):
    """What a stage does: (micro-batch, whether backward), in this order."""
    ahead = min(n_micro, n_stages - stage - 1) if order == "1f1b" else n_micro
    tasks = [(m, False) for m in range(ahead)]
    for m in range(ahead, n_micro):
        tasks += [(m, False), (m - ahead, True)]
    return tasks + [(m, True) for m in range(n_micro - ahead, n_micro)]


class _Pipeline:
    """A pipeline that is being built."""

    def __init__(self, stages, inputs, devices, n_micro):
        self.stages, self.devices, self.n_micro = stages, devices, n_micro
        self.parts = list(zip(*[array.split(t, n_micro) for t in inputs]))
        self.taken, self.made = {}, {}  # (stage, micro-batch) -> tensors that a stage works on; its results
        self.gates, self.ends = {}, {}  # (stage, micro-batch, backward) -> operations

    def _gate(self, task, tensors):
        """The same tensors, but behind the tasks before this one."""
        gated = [array.identity(t, name="gate") for t in tensors]
        self.gates.setdefault(task, []).extend(t.op for t in gated)
        return gated

    # ---- forward ----

    def go_forward(self):
        """Builds all stages for all micro-batches; the losses."""
        known = 0
        for m in range(self.n_micro):
            x = self.parts[m][0]
            for s in range(len(self.stages)):
                x = self._build(s, m, x)
            found = len(variables.global_variables())
            if m > 0 and found != known:
                raise ValueError("Micro-batch %d of a pipeline has variables of its own: %s" %
                                 (m, [v.name for v in variables.global_variables()[known:]]))
            known = found
        return [self.made[len(self.stages) - 1, m][0] for m in range(self.n_micro)]

    def _build(self, s, m, x):
        task = s, m, False
        scope = variable_scope.variable_scope(variable_scope.get_variable_scope(), reuse=m > 0 or None, auxiliary_name_scope=False)
        with ops.name_scope("stage_%d_forward_%d" % (s, m)), ops.device(self.devices[s]):
            parts = self._gate(task, self.parts[m])
            x = parts[0] if s == 0 else nest.pack_sequence_as(x, self._gate(task, nest.flatten(x)))
            with scope:
                y = self.stages[s](x, parts)
            if y is None:
                raise ValueError("Stage %d of a pipeline gave no result" % s)
            y = nest.map_structure(convert.convert_to_tensor, y)
        self.taken[s, m], self.made[s, m] = nest.flatten(x), nest.flatten(y)
        self.ends[task] = [t.op for t in self.made[s, m]]
        last = s == len(self.stages) - 1
        if last and not (isinstance(y, ops.Tensor) and y.shape.ndims in (0, None)):
            raise ValueError("The last stage of a pipeline gives the loss, a scalar, not %s" % (y,))
        return y

    # ---- backward ----

    def go_backward(self, losses, var_list):
        """[(mean gradient, variable)] of the variables that the losses depend on."""
        var_list = [v for x in var_list for v in (x if isinstance(x, variables.PartitionedVariable) else [x])]
        sums = [[] for _ in var_list]
        for m in range(self.n_micro):
            grads = None  # of what the stage has made
            for s in reversed(range(len(self.stages))):
                grads = self._go_back(s, m, grads, var_list, sums)
                if all(g is None for g in grads):
                    break  # where nothing flows back any more, the stages before have nothing to do
        pairs = [(self._mean(v, found), v) for v, found in zip(var_list, sums) if found]
        if not pairs:
            raise ValueError("The loss of a pipeline depends on none of the variables %s" % [v.name for v in var_list])
        return pairs

    def _go_back(self, s, m, grads, var_list, sums):
        """The gradients of what a stage has taken; those of variables go to the sums."""
        task = s, m, True
        with ops.name_scope("stage_%d_backward_%d" % (s, m)), ops.device(self.devices[s]):
            if grads is None:
                grads = [convert.constant(1, self.made[s, m][0].dtype.base_dtype)]
            ys = [y for y, g in zip(self.made[s, m], grads) if g is not None]
            seeds = self._gate(task, [g for g in grads if g is not None])
            inner = [t for t in self.taken[s, m] if s > 0 and t.dtype.is_floating]
            found = gradients.gradients(ys, var_list + inner, seeds, colocate_gradients_with_ops=True, stop_gradients=inner)
            into = {t: _dense(g) for t, g in zip(inner, found[len(var_list):])}
        ends = self.ends[task] = [g.op for g in into.values() if g is not None]
        for v, g, sum_ in zip(var_list, found, sums):
            if g is not None:
                ends.append(g.op)
                _add_up(v, g, sum_)
        return [into.get(t) for t in self.taken[s, m]]

    def _mean(self, v, found):
        """Of the gradients over the micro-batches.  Rows of all of them stand one below the other."""
        share = 1.0 / self.n_micro
        with ops.colocate_with(v):
            if all(isinstance(g, ops.IndexedSlices) for g in found):
                rows = array.concat([g.values for g in found], 0) * share
                return ops.IndexedSlices(rows, array.concat([g.indices for g in found], 0), found[0].dense_shape)
            return math.add_n([_dense(g) for g in found]) * share

    # ---- the order ----

    def put_in_order(self, order):
        """Makes the gates of a task wait for the results of the task before it.  A stage has only the tasks that were built."""
        for s in range(len(self.stages)):
            built = [(s, m, b) for m, b in _tasks(order, len(self.stages), self.n_micro, s) if (s, m, b) in self.ends]
            for before, behind in zip(built, built[1:]):
                for gate in self.gates[behind]:
                    gate._add_control_inputs(self.ends[before])


def _dense(g):
    return convert.convert_to_tensor(g) if isinstance(g, ops.IndexedSlices) else g


def _add_up(v, g, sum_):
    """Dense gradients are added as they come, so that no more than one is kept."""
    if sum_ and not isinstance(g, ops.IndexedSlices) and not isinstance(sum_[-1], ops.IndexedSlices):
        with ops.colocate_with(v):
            sum_[-1] = math.add(sum_[-1], g)
    else:
        sum_.append(g)
