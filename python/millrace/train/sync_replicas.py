"""SyncReplicasOptimizer: workers whose gradients are put together into one step.

Gradients go to accumulators beside the variables, which drop those of earlier steps.  One thread of the chief takes their mean
when enough have come, changes the variables, and puts as many tokens with the new step into a queue as workers may go on; a
worker ends its step by taking one, which becomes its local step.  With fewer gradients than workers, the slowest ones are
backups.
"""

import functools

from ..framework import ops
from ..framework import dtypes
from ..ops import array, control_flow, data_flow, state, variables
from . import hooks, queue_runner, session_manager
from .optimizer import Optimizer

__all__ = ["SyncReplicasOptimizer", "SyncReplicasOptimizerV2"]


class SyncReplicasOptimizer(Optimizer):
    """Wraps an optimizer; replica_id is of an older interface and not needed."""

    def __init__(self, opt, replicas_to_aggregate, total_num_replicas=None, variable_averages=None, variables_to_average=None,
                 use_locking=False, name="sync_replicas", replica_id=None):
        if total_num_replicas is None or total_num_replicas == 0:
            total_num_replicas = replicas_to_aggregate
        super().__init__(use_locking, name)
        self._opt = opt
        self._replicas_to_aggregate, self._total_num_replicas = replicas_to_aggregate, total_num_replicas
        self._tokens_per_step = max(total_num_replicas, replicas_to_aggregate)
        self._gradients_applied = False
        self._variable_averages, self._variables_to_average = variable_averages, variables_to_average
        self._global_step = self._sync_token_queue = self._chief_queue_runner = None
        self._accumulator_list = []  # (accumulator, device)
        self.local_step_init_op = self.chief_init_op = self.ready_for_local_init_op = None

    @functools.wraps(Optimizer.compute_gradients)
    def compute_gradients(self, *args, **kwargs):
        return self._opt.compute_gradients(*args, **kwargs)

    @functools.wraps(Optimizer.get_slot)
    def get_slot(self, *args, **kwargs):
        return self._opt.get_slot(*args, **kwargs)

    @functools.wraps(Optimizer.get_slot_names)
    def get_slot_names(self, *args, **kwargs):
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self):
        return self._opt.variables()

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The worker's step: gives its gradients and waits for a token."""
        grads_and_vars = list(grads_and_vars)
        if not grads_and_vars:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        self._make_local_step()
        with ops.name_scope(None, self._name):
            given, pairs = self._accumulate(grads_and_vars)
            with ops.device(global_step.device), ops.name_scope(None):
                update = self._opt.apply_gradients(pairs, global_step)
                train = self._add_tokens(given, update)
            begin = [self.local_step_init_op]
            for accumulator, device in self._accumulator_list:
                with ops.device(device):
                    begin.append(accumulator.set_global_step(global_step, name="SetGlobalStep"))
            self.chief_init_op = control_flow.group(*begin)
        self._gradients_applied = True
        return train

    def _make_local_step(self):
        """A local variable on the worker, even where variables go to parameter servers."""
        with ops.colocate_with(control_flow.no_op()):
            self._local_step = variables.Variable(
                0, trainable=False, collections=[ops.GraphKeys.LOCAL_VARIABLES], dtype=self._global_step.dtype.base_dtype,
                name="sync_rep_local_step")
        self.local_step_init_op = _op(state.assign(self._local_step, self._global_step))
        self.ready_for_local_init_op = variables.report_uninitialized_variables(variables.global_variables())

    def _accumulate(self, grads_and_vars):
        """(operations that give the gradients away, [(mean gradient, variable)])"""
        given, pairs = [], []
        for grad, var in grads_and_vars:
            if grad is None:
                pairs.append((None, var))
                continue
            with ops.device(var.device):
                shared = var.name + "/grad_accum"
                if isinstance(grad, ops.Tensor):
                    a = data_flow.ConditionalAccumulator(grad.dtype.base_dtype, shape=var.get_shape(), shared_name=shared)
                    given.append(a.apply_grad(grad, local_step=self._local_step))
                    pairs.append((a.take_grad(self._replicas_to_aggregate), var))
                elif isinstance(grad, ops.IndexedSlices):
                    a = data_flow.SparseConditionalAccumulator(grad.dtype.base_dtype, shape=None, shared_name=shared)
                    given.append(a.apply_indexed_slices_grad(grad, local_step=self._local_step))
                    pairs.append((a.take_indexed_slices_grad(self._replicas_to_aggregate), var))
                else:
                    raise ValueError("Unknown grad type!")
                self._accumulator_list.append((a, var.device))
        return given, pairs

    def _add_tokens(self, given, update):
        step = self._global_step
        self._sync_token_queue = q = data_flow.FIFOQueue(-1, step.dtype.base_dtype, shapes=[()], name="sync_token_q",
                                                         shared_name="sync_token_q")
        # The runner closes its queue when it ends; the token queue must outlive it.
        dummy = data_flow.FIFOQueue(1, dtypes.int32, shapes=[()], name="dummy_queue", shared_name="dummy_queue")
        with ops.control_dependencies(given):
            token = q.dequeue()
        train = state.assign(self._local_step, token)
        with ops.control_dependencies([update]):
            sync = q.enqueue_many((array.fill([self._tokens_per_step], step),))
        if self._variable_averages is not None:
            with ops.control_dependencies([sync]), ops.name_scope(None):
                sync = self._variable_averages.apply(self._variables_to_average)
        self._chief_queue_runner = queue_runner.QueueRunner(dummy, [sync])
        return train

    def get_chief_queue_runner(self):
        """The chief starts it: it takes the steps."""
        self._check("get_chief_queue_runner")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens=-1):
        """The chief runs it once before the first step, so that workers can begin."""
        self._check("get_init_tokens_op")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError("Too few tokens to finish the first step: %d (given) vs %d (needed)" % (num_tokens, needed))
        if num_tokens <= 0:
            return control_flow.no_op(name="no_init_tokens")
        with ops.device(self._global_step.device), ops.name_scope(None):
            return self._sync_token_queue.enqueue_many((array.fill([num_tokens], self._global_step),))

    def _check(self, what):
        if not self._gradients_applied:
            raise ValueError("%s() should be called after apply_gradients()." % what)

    def make_session_run_hook(self, is_chief, num_tokens=-1):
        """The hook that does for a MonitoredSession what has to be done before the first step."""
        return _Hook(self, is_chief, num_tokens)


class _Hook(hooks.SessionRunHook):
    def __init__(self, optimizer, is_chief, num_tokens):
        self._optimizer, self._is_chief, self._num_tokens = optimizer, is_chief, num_tokens

    def begin(self):
        o = self._optimizer
        if not o._gradients_applied:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using the hook.")
        self._ready = o.ready_for_local_init_op
        self._init = o.chief_init_op if self._is_chief else o.local_step_init_op
        self._runner = o.get_chief_queue_runner() if self._is_chief else None
        self._tokens = o.get_init_tokens_op(self._num_tokens) if self._is_chief else None

    def after_create_session(self, session, coord):
        ready, why = session_manager._ready(self._ready, session, "Model is not ready for SyncReplicasOptimizer local init.")
        if not ready:
            raise RuntimeError("Init operations did not make model ready for SyncReplicasOptimizer local_init. Init op: %s, "
                               "error: "
                               "%s" % (self._init.name, why))
        session.run(self._init)
        if self._tokens is not None:
            session.run(self._tokens)
        if self._runner is not None:
            self._runner.create_threads(session, coord=coord, daemon=True, start=True)


def _op(x):
    return getattr(x, "op", x)


SyncReplicasOptimizerV2 = SyncReplicasOptimizer
