"""Pipelines: one network in stages on several devices, with micro-batches in flight.

    def bottom(x, inputs): return tf.layers.dense(x, 512, tf.nn.relu, name="bottom")
    def top(h, inputs): return tf.losses.sparse_softmax_cross_entropy(inputs[1], tf.layers.dense(h, 10, name="top"))

    train, loss = tf.pipeline.minimize([bottom, top], [x, y], tf.train.AdamOptimizer(), devices=["/gpu:0", "/gpu:1"], micro_batches=8)

The batch is split into equal micro-batches that pass through the stages one after the other, forward and backward. Their gradients
are summed for one update, so a step is equivalent to a step with the whole batch, up to rounding. (Statistics over a batch, as in
batch normalization, are computed over a micro-batch.) Devices may belong to other tasks: "/job:worker/task:1".

Control edges determine the order of the forward and backward parts of a stage, its tasks. Every input of a task passes through a
gate, an identity on the stage's device, and the gates of a task wait for the results of the previous task.
"""

import _millrace

from .framework import convert, nest, ops
from .ops import array, gradients, math, variable_scope, variables

__all__ = ["ORDERS", "minimize", "predict"]

#: fill-drain: all forward parts, then all backward parts. 1f1b: one backward part after each forward part as soon as possible, which
#: takes the same time and keeps fewer activations.
ORDERS = ("fill-drain", "1f1b")


def minimize(stages, inputs, optimizer, devices, micro_batches, order="1f1b", global_step=None, var_list=None, name=None):
    """Builds a training step; returns (the operation of a step, the mean loss over the batch).

    A stage is a function of two arguments: the result of the previous stage (for the first stage: the first input), and the
    micro-batch's shares of all inputs. The first dimension of each input is the batch, a multiple of micro_batches. A stage must not
    use other tensors that need gradients. It returns a tensor or a list of tensors; the last stage returns the loss, a scalar. Every
    stage is called once for each micro-batch and must find its variables again by name: use tf.get_variable, or layers with names."""
    stages, devices = list(stages), list(devices)
    if not stages or len(stages) != len(devices):
        raise ValueError("A pipeline needs one device for each stage, got %d stages and %d devices" % (len(stages), len(devices)))
    if micro_batches < 1:
        raise ValueError("micro_batches must be at least 1, got %d" % micro_batches)
    if order not in ORDERS:
        raise ValueError("order must be one of {}, got {!r}".format(", ".join(ORDERS), order))
    with ops.name_scope(name, "pipeline", inputs):
        p = _Pipeline(stages, [convert.convert_to_tensor(t) for t in inputs], devices, micro_batches)
        losses = p.go_forward()
        pairs = p.go_backward(losses, variables.trainable_variables() if var_list is None else var_list)
        p.put_in_order(order)
        with ops.device(devices[-1]):
            loss = math.multiply(math.add_n(losses), 1.0 / micro_batches, name="loss")
    return optimizer.apply_gradients(pairs, global_step=global_step), loss


def predict(forward, backward, micro_batches, order="1f1b", transfer=0.0):
    """Predicts the time of a pipeline.

    Takes the seconds of a micro-batch in each stage, forward and backward, and of a transfer between two stages. Returns a dict: `step`
    and `alone` (the same work one stage at a time) in seconds, `bubble` (the mean share of time that a stage is idle), `kept` (the
    maximum number of micro-batches whose activations a stage keeps)."""
    if order not in ORDERS:
        raise ValueError("order must be one of {}, got {!r}".format(", ".join(ORDERS), order))
    return _millrace.pipeline_predict(tuple(forward), tuple(backward), micro_batches, ORDERS.index(order), transfer)


def _tasks(order, n_stages, n_micro, stage):
    """The tasks of a stage in order: (micro-batch, whether it is the backward part)."""
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
        self.taken, self.made = {}, {}  # (stage, micro-batch) -> inputs of the stage; its results
        self.gates, self.ends = {}, {}  # (stage, micro-batch, backward) -> operations

    def _gate(self, task, tensors):
        """The same tensors, available after the previous task of the stage has ended."""
        gated = [array.identity(t, name="gate") for t in tensors]
        self.gates.setdefault(task, []).extend(t.op for t in gated)
        return gated

    # ---- forward ----

    def go_forward(self):
        """Builds all stages for all micro-batches; returns the losses."""
        known = 0
        for m in range(self.n_micro):
            x = self.parts[m][0]
            for s in range(len(self.stages)):
                x = self._build(s, m, x)
            found = len(variables.global_variables())
            if m > 0 and found != known:
                raise ValueError("Micro-batch %d of a pipeline created new variables: %s. Use tf.get_variable or layers with names, "
                                 "so that all micro-batches share them" %
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
                raise ValueError("Stage %d of a pipeline returned None" % s)
            y = nest.map_structure(convert.convert_to_tensor, y)
        self.taken[s, m], self.made[s, m] = nest.flatten(x), nest.flatten(y)
        self.ends[task] = [t.op for t in self.made[s, m]]
        last = s == len(self.stages) - 1
        if last and not (isinstance(y, ops.Tensor) and y.shape.ndims in (0, None)):
            raise ValueError("The last stage of a pipeline must return the loss, a scalar; got %s" % (y,))
        return y

    # ---- backward ----

    def go_backward(self, losses, var_list):
        """Returns [(mean gradient, variable)] for the variables that the losses depend on."""
        var_list = [v for x in var_list for v in (x if isinstance(x, variables.PartitionedVariable) else [x])]
        sums = [[] for _ in var_list]
        for m in range(self.n_micro):
            grads = None  # gradients of the results of the stage
            for s in reversed(range(len(self.stages))):
                grads = self._go_back(s, m, grads, var_list, sums)
                if all(g is None for g in grads):
                    break  # no gradient flows to the previous stages
        pairs = [(self._mean(v, found), v) for v, found in zip(var_list, sums) if found]
        if not pairs:
            raise ValueError("The loss of a pipeline does not depend on any of the variables %s" % [v.name for v in var_list])
        return pairs

    def _go_back(self, s, m, grads, var_list, sums):
        """Returns the gradients of the inputs of a stage; adds those of variables to the sums."""
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
        """The mean of the gradients over the micro-batches. Sparse gradients are concatenated."""
        share = 1.0 / self.n_micro
        with ops.colocate_with(v):
            if all(isinstance(g, ops.IndexedSlices) for g in found):
                rows = array.concat([g.values for g in found], 0) * share
                return ops.IndexedSlices(rows, array.concat([g.indices for g in found], 0), found[0].dense_shape)
            return math.add_n([_dense(g) for g in found]) * share

    # ---- the order ----

    def put_in_order(self, order):
        """Makes the gates of a task wait for the results of the previous task, among the tasks that were built."""
        for s in range(len(self.stages)):
            built = [(s, m, b) for m, b in _tasks(order, len(self.stages), self.n_micro, s) if (s, m, b) in self.ends]
            for before, behind in zip(built, built[1:]):
                for gate in self.gates[behind]:
                    gate._add_control_inputs(self.ends[before])


def _dense(g):
    return convert.convert_to_tensor(g) if isinstance(g, ops.IndexedSlices) else g


def _add_up(v, g, sum_):
    """Adds dense gradients immediately, so that only one is kept."""
    if sum_ and not isinstance(g, ops.IndexedSlices) and not isinstance(sum_[-1], ops.IndexedSlices):
        with ops.colocate_with(v):
            sum_[-1] = math.add(sum_[-1], g)
    else:
        sum_.append(g)
