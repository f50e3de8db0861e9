"""SessionManager: sessions whose variables are ready, initialized or restored by the chief, waited for by the others."""

import time

import numpy as np

from .. import logging
from ..framework import errors, ops
from ..framework.long_wait import LongWait
from ..framework.session import Session
from . import checkpoints

__all__ = ["SessionManager"]


def _ready(op, sess, what):
    """(whether an op finds the model ready, else why not).  The op gives the names of variables that are not."""
    if op is None:
        return True, None
    try:
        value = sess.run(op)
    except errors.FailedPreconditionError as e:
        if "uninitialized" not in str(e):
            logging.warning("%s: error [%s]", what, e)
            raise
        return False, str(e)
    if value is None or value.dtype == np.int32 or value.size == 0:
        return True, None
    return False, "Variables not initialized: " + ", ".join(name.decode() for name in value)


class SessionManager:
    """Makes sessions whose variables are initialized: from a checkpoint, by an operation, or by another task."""

    def __init__(self, local_init_op=None, ready_op=None, ready_for_local_init_op=None, graph=None, recovery_wait_secs=30,
                 local_init_run_options=None):
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError("If you pass a ready_for_local_init_op you must also pass a local_init_op , "
                             "ready_for_local_init_op [%s]" %
                             ready_for_local_init_op)
        self._local_init_op, self._ready_op = local_init_op, ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = graph or ops.get_default_graph()
        self._recovery_wait_secs, self._local_init_run_options = recovery_wait_secs, local_init_run_options

    def _model_ready(self, sess):
        return _ready(self._ready_op, sess, "Model not ready")

    def _try_run_local_init_op(self, sess):
        if self._local_init_op is None:
            return True, None
        ready, why = _ready(self._ready_for_local_init_op, sess, "Model not ready for local init")
        if not ready:
            return False, why
        logging.info("Running local_init_op.")
        sess.run(self._local_init_op, options=self._local_init_run_options)
        logging.info("Done running local_init_op.")
        return True, None

    def _restored(self, master, saver, checkpoint_dir, filename, wait_for_checkpoint, max_wait_secs, config):
        """(a session, whether a checkpoint was restored)"""
        sess = Session(master, graph=self._graph, config=config)
        if checkpoint_dir and filename:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        if not saver or not (checkpoint_dir or filename):
            return sess, False
        if filename:
            saver.restore(sess, filename)
            return sess, True
        waited, wait = 0, LongWait()
        state = checkpoints.get_checkpoint_state(checkpoint_dir)
        while not state or not state.model_checkpoint_path:
            if not wait_for_checkpoint or waited >= max_wait_secs:
                return sess, False
            logging.info("Waiting for checkpoint to be available.")
            wait.sleep(self._recovery_wait_secs, "Still waiting for a checkpoint to restore: there is none in %s" % checkpoint_dir)
            waited += self._recovery_wait_secs
            state = checkpoints.get_checkpoint_state(checkpoint_dir)
        saver.restore(sess, state.model_checkpoint_path)
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        return sess, True

    def prepare_session(self, master, init_op=None, saver=None, checkpoint_dir=None, checkpoint_filename_with_path=None,
                        wait_for_checkpoint=False, max_wait_secs=7200, config=None, init_feed_dict=None, init_fn=None):
        """The chief's: restores the last checkpoint or initializes."""
        sess, loaded = self._restored(master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint,
                                      max_wait_secs, config)
        if not loaded:
            if init_op is None and not init_fn and self._local_init_op is None:
                raise RuntimeError("Model is not initialized and no init_op or init_fn or local_init_op was given")
            if init_op is not None:
                sess.run(init_op, feed_dict=init_feed_dict)
            if init_fn:
                init_fn(sess)
        done, why = self._try_run_local_init_op(sess)
        if not done:
            raise RuntimeError("Init operations did not make model ready for local_init.  Init op: %s, init fn: %s, error: %s" %
                               (_name(init_op), init_fn, why))
        ready, why = self._model_ready(sess)
        if not ready:
            raise RuntimeError("Init operations did not make model ready.  Init op: %s, init fn: %s, local_init_op: %s, "
                               "error: %s" %
                               (_name(init_op), init_fn, self._local_init_op, why))
        return sess

    def recover_session(self, master, saver=None, checkpoint_dir=None, checkpoint_filename_with_path=None,
                        wait_for_checkpoint=False, max_wait_secs=7200, config=None):
        """(a session, whether the model was restored and is ready)"""
        sess, loaded = self._restored(master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint,
                                      max_wait_secs, config)
        done, why = self._try_run_local_init_op(sess)
        if not loaded:
            return sess, False
        what = checkpoint_dir or checkpoint_filename_with_path
        if not done:
            logging.info("Restoring model from %s did not make model ready for local init: %s", what, why)
            return sess, False
        ready, why = self._model_ready(sess)
        if not ready:
            logging.info("Restoring model from %s did not make model ready: %s", what, why)
            return sess, False
        logging.info("Restored model from %s", what)
        return sess, loaded

    def wait_for_session(self, master, config=None, max_wait_secs=float("inf")):
        """The others': waits until the chief has made the model ready."""
        if max_wait_secs is None:
            max_wait_secs = float("inf")
        deadline, wait = time.time() + max_wait_secs, LongWait()
        while True:
            sess = Session(master, graph=self._graph, config=config)
            ready = False
            local, local_why = self._try_run_local_init_op(sess)
            why = None
            if local:
                ready, why = self._model_ready(sess)
            if ready:
                return sess
            try:
                sess.close()
            except Exception as e:
                logging.warning("Ignoring: %s", e)
            if deadline - time.time() < self._recovery_wait_secs:
                raise errors.DeadlineExceededError(None, None, "Session was not ready after waiting %d secs." % max_wait_secs)
            text = "Waiting for model to be ready.  Ready_for_local_init_op:  %s, ready: %s" % (local_why, why)
            logging.info(text)
            wait.sleep(self._recovery_wait_secs, "Still waiting for the chief to initialize or restore the model: " + text)


def _name(op):
    return [_name(o) for o in op] if isinstance(op, (list, tuple)) else getattr(op, "name", op)
