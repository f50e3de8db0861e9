"""slim.evaluation: measures of a model that was saved."""

from ...ops import variables as _variables
from ... import logging
from ...train.checkpoints import checkpoints_iterator, wait_for_new_checkpoint

__all__ = ["checkpoints_iterator", "evaluate_once", "evaluation_loop", "wait_for_new_checkpoint"]


def evaluate_once(master, checkpoint_path, logdir, num_evals=1, initial_op=None, initial_op_feed_dict=None, eval_op=None,
                  eval_op_feed_dict=None, final_op=None, final_op_feed_dict=None, summary_op=0, summary_op_feed_dict=None,
                  variables_to_restore=None, session_config=None, hooks=None):
    """Restores a checkpoint, runs eval_op num_evals times, and gives the value of final_op."""
    from ... import summary, train
    if hooks:
        raise NotImplementedError("slim.evaluation: hooks")
    if summary_op is not None and isinstance(summary_op, int):
        summary_op = summary.merge_all()
    saver = train.Saver(variables_to_restore or _variables.global_variables())
    from ... import Session, tables_initializer
    local, tables = _variables.local_variables_initializer(), tables_initializer()
    writer = summary.FileWriter(logdir) if logdir else None
    with Session(master, config=session_config) as sess:
        if initial_op is not None:  # before what is restored, which it must not undo
            sess.run(initial_op, initial_op_feed_dict)
        saver.restore(sess, checkpoint_path)
        sess.run([local, tables])
        coord = train.Coordinator()
        threads = train.start_queue_runners(sess, coord)
        for i in range(num_evals if eval_op is not None else 0):
            logging.info("Evaluation [%d/%d]", i + 1, num_evals)
            sess.run(eval_op, eval_op_feed_dict)
        value = sess.run(final_op, final_op_feed_dict) if final_op is not None else None
        if writer is not None and summary_op is not None:
            step = train.get_global_step()
            number = None if step is None else train.global_step(sess, step)
            writer.add_summary(sess.run(summary_op, summary_op_feed_dict), number)
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=10, ignore_live_threads=True)
    if writer is not None:
        writer.close()
    return value


def evaluation_loop(master, checkpoint_dir, logdir, num_evals=1, initial_op=None, initial_op_feed_dict=None, init_fn=None,
                    eval_op=None, eval_op_feed_dict=None, final_op=None, final_op_feed_dict=None, summary_op=0,
                    summary_op_feed_dict=None, variables_to_restore=None, eval_interval_secs=60, max_number_of_evaluations=None,
                    session_config=None, timeout=None, timeout_fn=None, hooks=None):
    """evaluate_once of each checkpoint that comes; the value of final_op for the last one.

    init_fn is for a session that begins without a checkpoint, which none does here: as in TensorFlow it is not called.
    """
    value, count = None, 0
    for path in checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn):
        value = evaluate_once(master, path, logdir, num_evals, initial_op, initial_op_feed_dict, eval_op, eval_op_feed_dict,
                              final_op, final_op_feed_dict, summary_op, summary_op_feed_dict, variables_to_restore,
                              session_config, hooks)
        count += 1
        if max_number_of_evaluations is not None and count >= max_number_of_evaluations:
            return value
    return value
