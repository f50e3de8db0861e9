"""slim.learning: a loop of training around one operation."""

import time

from ...framework import ops
from ...framework.long_wait import LongWait
from ...ops import math
from ...ops import variables as _variables
from ... import logging
from ..training import train_op as _train_op
from ..training.train_op import add_gradients_summaries, clip_gradient_norms, multiply_gradients  # noqa: F401

__all__ = ["add_gradients_summaries", "clip_gradient_norms", "create_train_op", "multiply_gradients", "train", "train_step"]

_USE_DEFAULT = 0
_USE_GLOBAL_STEP = 0


def create_train_op(total_loss, optimizer, global_step=_USE_GLOBAL_STEP, update_ops=None, variables_to_train=None,
                    clip_gradient_norm=0, summarize_gradients=False, gate_gradients=1, aggregation_method=None,
                    colocate_gradients_with_ops=False, gradient_multipliers=None, check_numerics=True):
    """Returns an operation that takes one step and gives the loss.

    Args:
        total_loss: the loss to minimize
        optimizer: an Optimizer
        global_step: the step counter; None counts nothing
        update_ops: operations to run before; by default the collection UPDATE_OPS
        variables_to_train: the variables to change; by default all trainable ones
        clip_gradient_norm: the largest norm of a gradient; 0 is no limit
        summarize_gradients: whether to add summaries of gradients
        gradient_multipliers: {variable or its name: factor of its gradient}
        check_numerics: whether to fail on a loss that is not finite
    """
    def transformed(pairs):
        if gradient_multipliers:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        return clip_gradient_norms(pairs, clip_gradient_norm) if clip_gradient_norm > 0 else pairs
    return _train_op.create_train_op(total_loss, optimizer, global_step, update_ops, variables_to_train, transformed,
                                     summarize_gradients, gate_gradients, aggregation_method, colocate_gradients_with_ops,
                                     check_numerics)


def train_step(sess, train_op, global_step, train_step_kwargs):
    """(loss, whether to stop) of one step."""
    begin = time.time()
    loss, step = sess.run([train_op, global_step])
    took = time.time() - begin
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, took)
    stop = sess.run(train_step_kwargs["should_stop"]) if "should_stop" in train_step_kwargs else False
    return loss, stop


def _step_kwargs(global_step, number_of_steps, log_every_n_steps):
    kwargs = {}
    with ops.name_scope("train_step"):
        if number_of_steps:
            kwargs["should_stop"] = math.greater_equal(global_step, number_of_steps)
        if log_every_n_steps > 0:
            kwargs["should_log"] = math.equal(math.mod(global_step, log_every_n_steps), 0)
    return kwargs


def train(train_op, logdir, train_step_fn=train_step, train_step_kwargs=_USE_DEFAULT, log_every_n_steps=1, graph=None,
          master="", is_chief=True, global_step=None, number_of_steps=None, init_op=_USE_DEFAULT, init_feed_dict=None,
          local_init_op=_USE_DEFAULT, init_fn=None, ready_op=_USE_DEFAULT, summary_op=_USE_DEFAULT, save_summaries_secs=600,
          summary_writer=_USE_DEFAULT, startup_delay_steps=0, saver=None, save_interval_secs=600, sync_optimizer=None,
          session_config=None, session_wrapper=None, trace_every_n_steps=None, ignore_live_threads=False):
    """Runs train_op until number_of_steps, saving and writing summaries to logdir now and then; gives the last loss."""
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None and summary_op is not _USE_DEFAULT and summary_op is not None:
        raise ValueError("Cannot provide summary_op because logdir=None")
    if logdir is None and saver is not None:
        raise ValueError("Cannot provide saver because logdir=None")
    if trace_every_n_steps is not None:
        raise NotImplementedError("slim.learning.train: trace_every_n_steps")
    if sync_optimizer is not None and startup_delay_steps > 0:
        raise ValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number.")
    from ... import train as train_lib
    graph = graph or ops.get_default_graph()
    with graph.as_default():
        global_step = train_lib.get_or_create_global_step() if global_step is None else global_step
        saver = saver or train_lib.Saver()
        if train_step_kwargs is _USE_DEFAULT:
            train_step_kwargs = _step_kwargs(global_step, number_of_steps, log_every_n_steps)
        init_op, local_init_op, ready_op, queue_ops = _session_operations(
            init_op, local_init_op, ready_op, sync_optimizer, is_chief)
    summary_op = None if logdir is None else summary_op
    supervisor = train_lib.Supervisor(
        graph=graph, is_chief=is_chief, logdir=logdir, init_op=init_op, init_feed_dict=init_feed_dict,
        local_init_op=local_init_op, ready_for_local_init_op=None if sync_optimizer is None else
        _all_ready_for_local(sync_optimizer), ready_op=ready_op,
        summary_op=_of_supervisor(train_lib, summary_op), summary_writer=_of_supervisor(train_lib, summary_writer),
        global_step=global_step, saver=saver, save_summaries_secs=save_summaries_secs, save_model_secs=save_interval_secs,
        init_fn=init_fn)
    return _run(supervisor, train_op, train_step_fn, train_step_kwargs, global_step, master, session_config, session_wrapper,
                startup_delay_steps, number_of_steps, queue_ops, is_chief, logdir, ignore_live_threads)


def _of_supervisor(train_lib, value):
    return train_lib.Supervisor.USE_DEFAULT if _is_default(value) else value


def _all_ready_for_local(sync_optimizer):
    optimizers = sync_optimizer if isinstance(sync_optimizer, list) else [sync_optimizer]
    return optimizers[0].ready_for_local_init_op


def _is_default(value):
    return isinstance(value, int) and value == _USE_DEFAULT


def _session_operations(init_op, local_init_op, ready_op, sync_optimizer, is_chief):
    from ...ops import control_flow
    from ... import tables_initializer
    if _is_default(init_op):
        init_op = _variables.global_variables_initializer()
    if _is_default(ready_op):
        ready_op = _variables.report_uninitialized_variables()
    if _is_default(local_init_op):
        local_init_op = control_flow.group(_variables.local_variables_initializer(), tables_initializer())
    queue_ops = ([], [])
    if sync_optimizer is not None:
        optimizers = sync_optimizer if isinstance(sync_optimizer, list) else [sync_optimizer]
        with ops.control_dependencies([local_init_op]):
            steps = [o.chief_init_op if is_chief else o.local_step_init_op for o in optimizers]
            local_init_op = control_flow.group(*steps)
        queue_ops = ([o.get_init_tokens_op() for o in optimizers], [o.get_chief_queue_runner() for o in optimizers])
    return init_op, local_init_op, ready_op, queue_ops


def _run(supervisor, train_op, step_fn, kwargs, global_step, master, config, wrapper, delay, number_of_steps, queue_ops,
         is_chief, logdir, ignore_live_threads):
    total_loss, should_retry = None, True
    from ...framework import errors
    while should_retry:
        try:
            should_retry = False
            with supervisor.managed_session(master, start_standard_services=False, config=config) as sess:
                logging.info("Starting Session.")
                sess = wrapper(sess) if wrapper is not None else sess
                services = []
                if is_chief:
                    if logdir:
                        services = supervisor.start_standard_services(sess) or []
                elif delay > 0:
                    _wait_for_step(sess, global_step, min(delay, number_of_steps or 2 ** 62))
                threads = supervisor.start_queue_runners(sess)
                if is_chief and queue_ops[0]:
                    threads += supervisor.start_queue_runners(sess, queue_ops[1])
                    sess.run(queue_ops[0])
                try:
                    while not supervisor.should_stop():
                        total_loss, stop = step_fn(sess, train_op, global_step, kwargs)
                        if stop:
                            logging.info("Stopping Training.")
                            break
                except errors.OutOfRangeError as e:
                    logging.info("Caught OutOfRangeError. Stopping Training. %s", e)
                supervisor.request_stop()
                for thread in services:  # a save that has begun must not end after the last one
                    thread.join()
                if logdir and supervisor.is_chief:
                    logging.info("Finished training! Saving model to disk.")
                    supervisor.saver.save(sess, supervisor.save_path, global_step=supervisor.global_step)
                supervisor.stop(threads, close_summary_writer=False, ignore_live_threads=ignore_live_threads)
        except errors.AbortedError:  # the cluster was restarted: begin again with what was saved
            logging.info("Retrying training!")
            should_retry = True
    return total_loss


def _wait_for_step(sess, global_step, step):
    wait = LongWait()
    while True:
        reached = sess.run(global_step)
        if reached >= step:
            return
        wait.sleep(1, "Still waiting for the chief: it is at step %d, and this worker begins at %d" % (reached, step))
