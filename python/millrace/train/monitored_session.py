"""Monitored sessions: sessions that initialize or restore themselves, run hooks, stop when asked to, and come back after a
task of the cluster was lost.

A MonitoredSession is made of layers, each of which answers should_stop(), run() and close(): the innermost calls the hooks, the
next ends the threads with the session, the outermost makes a new session when a run fails with an error of
_PREEMPTION_ERRORS.
"""

import inspect

from .. import logging, protos
from ..framework import convert, dtypes, errors, ops
from ..framework.long_wait import LongWait
from ..framework.op_defs import raw
from ..ops import control_flow, variables
from . import coordinator, hooks as hooks_lib, queue_runner, saver as saver_lib, session_manager

__all__ = ["ChiefSessionCreator", "MonitoredSession", "MonitoredTrainingSession", "Scaffold", "SessionCreator",
           "SingularMonitoredSession", "WorkerSessionCreator"]

# A task was lost or restarted: another session may do.
_PREEMPTION_ERRORS = (errors.AbortedError, errors.UnavailableError)
USE_DEFAULT = object()


def _only(key):
    """The one member of a collection, None when it is empty."""
    found = ops.get_collection(key)
    if len(found) > 1:
        raise RuntimeError("More than one item in the collection %r. Please indicate which one to use." % key)
    return found[0] if found else None


def _resources(key):
    return [r for r in ops.get_collection(key)]


def _initialize(resources):
    return [r.create for r in resources]


class Scaffold:
    """What a session needs besides the graph; parts that are not given are taken from collections or made."""

    def __init__(self, init_op=None, init_feed_dict=None, init_fn=None, ready_op=None, ready_for_local_init_op=None,
                 local_init_op=None, summary_op=None, saver=None, copy_from_scaffold=None, local_init_feed_dict=None):
        if copy_from_scaffold is not None:
            if not isinstance(copy_from_scaffold, Scaffold):
                raise TypeError("copy_from_scaffold is not a Scaffold instance.")
            c = copy_from_scaffold
            first = lambda a, b: b if a is None else a
            init_op, init_feed_dict, init_fn = (first(init_op, c.init_op), first(init_feed_dict, c.init_feed_dict),
                                                first(init_fn, c._user_init_fn))
            ready_op, local_init_op = first(ready_op, c.ready_op), first(local_init_op, c.local_init_op)
            ready_for_local_init_op = first(ready_for_local_init_op, c.ready_for_local_init_op)
            local_init_feed_dict = first(local_init_feed_dict, c.local_init_feed_dict)
            summary_op, saver = first(summary_op, c.summary_op), first(saver, c.saver)
        self._user_init_fn = init_fn
        self._init_fn = (lambda sess: init_fn(self, sess)) if init_fn else None
        self._init_op, self._init_feed_dict, self._ready_op = init_op, init_feed_dict, ready_op
        self._ready_for_local_init_op, self._local_init_op = ready_for_local_init_op, local_init_op
        self._local_init_feed_dict, self._summary_op, self._saver = local_init_feed_dict, summary_op, saver

    init_fn = property(lambda self: self._init_fn,
                       doc="The function of scaffold and session called after init_op, or None.")
    init_op = property(lambda self: self._init_op, doc="The operation that initializes variables.")
    init_feed_dict = property(lambda self: self._init_feed_dict, doc="What is fed when init_op runs.")
    ready_op = property(lambda self: self._ready_op,
                        doc="The tensor with the names of variables that are not initialized.")
    ready_for_local_init_op = property(lambda self: self._ready_for_local_init_op,
                                       doc="The tensor with what is missing before local_init_op can run.")
    local_init_op = property(lambda self: self._local_init_op,
                             doc="The operation that initializes local variables and tables.")
    local_init_feed_dict = property(lambda self: self._local_init_feed_dict, doc="What is fed when local_init_op runs.")
    summary_op = property(lambda self: self._summary_op, doc="The operation that gives all summaries.")
    saver = property(lambda self: self._saver, doc="The Saver.")

    def finalize(self):
        """Makes what is missing and finalizes the graph."""
        keys, default = ops.GraphKeys, Scaffold.get_or_default
        if self._init_op is None:
            self._init_op = default("init_op", keys.INIT_OP, _default_init_op)
        if self._ready_op is None:
            self._ready_op = default("ready_op", keys.READY_OP, lambda: _uninitialized(None))
        if self._ready_for_local_init_op is None:
            self._ready_for_local_init_op = default("ready_for_local_init_op", keys.READY_FOR_LOCAL_INIT_OP,
                                                    lambda: _uninitialized(variables.global_variables()))
        if self._local_init_op is None:
            self._local_init_op = default("local_init_op", keys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
        if self._summary_op is None:
            from .. import summary
            self._summary_op = default("summary_op", keys.SUMMARY_OP, summary.merge_all)
        if self._saver is None:
            self._saver = _only(keys.SAVERS)
            if self._saver is None:
                self._saver = saver_lib.Saver(sharded=True, allow_empty=True)
                ops.add_to_collection(keys.SAVERS, self._saver)
        if not ops.get_default_graph().finalized:
            self._saver.build()
        ops.get_default_graph().finalize()
        logging.info("Graph was finalized.")
        return self

    @staticmethod
    def get_or_default(arg_name, collection_key, default_constructor):
        """Returns the only element of a collection, or the result of default_constructor, which is added to it."""
        found = _only(collection_key)
        if found is None:
            found = default_constructor()
            if found is not None:
                ops.add_to_collection(collection_key, found)
        return found

    @staticmethod
    def default_local_init_op():
        """Returns an operation that initializes local variables and tables."""
        return control_flow.group(variables.local_variables_initializer(),
                                  control_flow.group(*ops.get_collection(ops.GraphKeys.TABLE_INITIALIZERS),
                                                     name="init_all_tables"),
                                  *_initialize(_resources(ops.GraphKeys.LOCAL_RESOURCES)))


def _default_init_op():
    return control_flow.group(variables.global_variables_initializer(), *_initialize(_resources(ops.GraphKeys.RESOURCES)))


def _uninitialized(var_list):
    """The names of variables and resources that are not ready."""
    names = [variables.report_uninitialized_variables(var_list)]
    members = _resources(ops.GraphKeys.RESOURCES)
    if var_list is None:
        members = members + _resources(ops.GraphKeys.LOCAL_RESOURCES)
    if members:
        missing = raw.logical_not(raw.pack([r.is_initialized for r in members]))
        known = convert.constant([getattr(r.handle, "name", "resource") for r in members], dtypes.string)
        names.append(raw.gather_nd(known, raw.where(missing)))
    return names[0] if len(names) == 1 else raw.concat_v2(names, 0)


# ---- where sessions come from ----

class SessionCreator:
    """The base of what makes sessions."""

    def create_session(self):
        """Makes the session; subclasses define it."""
        raise NotImplementedError("%s has no create_session" % type(self).__name__)


class ChiefSessionCreator(SessionCreator):
    """Initializes the model or restores it."""

    def __init__(self, scaffold=None, master="", config=None, checkpoint_dir=None, checkpoint_filename_with_path=None):
        self._scaffold, self._master, self._config = scaffold or Scaffold(), master, config
        self._checkpoint_dir, self._checkpoint_filename_with_path = checkpoint_dir, checkpoint_filename_with_path
        self._manager = None

    def create_session(self):
        s = self._scaffold.finalize()
        self._manager = self._manager or _manager(s)
        return self._manager.prepare_session(
            self._master, saver=s.saver, checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path, config=self._config, init_op=s.init_op,
            init_feed_dict=s.init_feed_dict, init_fn=s.init_fn)


class WorkerSessionCreator(SessionCreator):
    """Waits until the chief has done that."""

    def __init__(self, scaffold=None, master="", config=None, max_wait_secs=30 * 60):
        self._scaffold, self._master, self._config = scaffold or Scaffold(), master, config
        self._max_wait_secs, self._manager = max_wait_secs, None

    def create_session(self):
        s = self._scaffold.finalize()
        self._manager = self._manager or _manager(s)
        return self._manager.wait_for_session(self._master, config=self._config, max_wait_secs=self._max_wait_secs)


# Between looks whether the chief is ready; TensorFlow waits half a minute.
_RECOVERY_WAIT_SECS = 1


def _manager(scaffold):
    return session_manager.SessionManager(
        local_init_op=scaffold.local_init_op, ready_op=scaffold.ready_op,
        ready_for_local_init_op=scaffold.ready_for_local_init_op, graph=ops.get_default_graph(),
        recovery_wait_secs=_RECOVERY_WAIT_SECS)


class _CoordinatedSessionCreator(SessionCreator):
    """Starts queue runners, notifies hooks, and wraps the session."""

    def __init__(self, creator, hooks, stop_grace_period_secs):
        self._creator, self._hooks, self._grace = creator, hooks, stop_grace_period_secs
        self.coord = self.tf_sess = None

    def create_session(self):
        self.tf_sess = self._creator.create_session()
        self.coord = coordinator.Coordinator(clean_stop_exception_types=[])
        if ops.get_collection(ops.GraphKeys.QUEUE_RUNNERS):
            queue_runner.start_queue_runners(sess=self.tf_sess, coord=self.coord)
        for hook in self._hooks:
            hook.after_create_session(self.tf_sess, self.coord)
        return _CoordinatedSession(_HookedSession(self.tf_sess, self._hooks), self.coord, self._grace)


# ---- layers ----

class _Layer:
    """A session around another one; stopped when it says so itself or the inner one does."""

    def __init__(self, sess):
        self._sess = sess

    graph = property(lambda self: self._sess.graph)
    sess_str = property(lambda self: self._sess.sess_str)

    def should_stop(self):
        if self._check_stop():
            return True
        if self._sess:
            return isinstance(self._sess, _Layer) and self._sess.should_stop()
        return True

    def _check_stop(self):
        return False

    def close(self):
        if self._sess:
            try:
                self._sess.close()
            except _PREEMPTION_ERRORS as e:
                logging.error("An error occurred when attempting to close the session. This may be due to a preemption in a "
                              "connected worker or parameter server. Error: %s", e)
            finally:
                self._sess = None

    def run(self, *args, **kwargs):
        return self._sess.run(*args, **kwargs)

    def run_step_fn(self, step_fn, raw_session, run_with_hooks):
        run_with_hooks = run_with_hooks or self.run
        return step_fn(_MonitoredSession.StepContext(raw_session, run_with_hooks))


class _HookedSession(_Layer):
    """Calls the hooks before and after a run."""

    def __init__(self, sess, hooks):
        super().__init__(sess)
        self._hooks, self._stopped = hooks, False

    def _check_stop(self):
        return self._stopped

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        context = hooks_lib.SessionRunContext(hooks_lib.SessionRunArgs(fetches, feed_dict), self._sess)
        asked, feeds, options = self._ask(context, {"caller": fetches}, feed_dict, options)
        if run_metadata is None and options is not None:
            run_metadata = protos.RunMetadata()
        outputs = self._sess.run(fetches=asked, feed_dict=feeds, options=options, run_metadata=run_metadata)
        for hook in self._hooks:
            hook.after_run(context, hooks_lib.SessionRunValues(results=outputs.get(hook), options=options,
                                                               run_metadata=run_metadata))
        self._stopped = self._stopped or context.stop_requested
        return outputs["caller"]

    def _ask(self, context, fetches, feed_dict, options):
        """(fetches, feeds, options) with those of the hooks."""
        feeds, by_hooks = dict(feed_dict or {}), {}
        for hook in self._hooks:
            request = hook.before_run(context)
            if request is None:
                continue
            if request.fetches is not None:
                fetches[hook] = request.fetches
            if request.feed_dict:
                if any(key in by_hooks for key in request.feed_dict):
                    raise RuntimeError("Same tensor is fed by two hooks.")
                by_hooks.update(request.feed_dict)
            if request.options:
                options = _merged_options(options, request.options)
        if any(key in feeds for key in by_hooks):
            raise RuntimeError("Same tensor is fed by a SessionRunHook and user.")
        feeds.update(by_hooks)
        return fetches, feeds, options


def _merged_options(options, more):
    merged = protos.RunOptions()
    if options is not None:
        merged.CopyFrom(options)
    merged.trace_level = max(merged.trace_level, more.trace_level)
    merged.timeout_in_ms = max(merged.timeout_in_ms, more.timeout_in_ms)
    merged.inter_op_thread_pool = max(merged.inter_op_thread_pool, more.inter_op_thread_pool)
    merged.output_partition_graphs = max(merged.output_partition_graphs, more.output_partition_graphs)
    merged.debug_options.debug_tensor_watch_opts.extend(more.debug_options.debug_tensor_watch_opts)
    return merged


class _CoordinatedSession(_Layer):
    """Ends with its threads: an error of one of them is the reason why a run failed."""

    def __init__(self, sess, coord, stop_grace_period_secs):
        super().__init__(sess)
        self._coord, self._grace = coord, stop_grace_period_secs

    def _check_stop(self):
        return self._coord.should_stop()

    def close(self):
        self._coord.request_stop()
        try:
            self._coord.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
        finally:
            try:
                super().close()
            except Exception as e:  # threads may have closed it; what they ended with is raised by join
                logging.vlog(1, "Ignored exception: %s", e)

    def run(self, *args, **kwargs):
        try:
            return self._sess.run(*args, **kwargs)
        except _PREEMPTION_ERRORS:
            raise
        except Exception as original:
            try:
                self._coord.raise_requested_exception()
            except _PREEMPTION_ERRORS:
                raise
            except Exception:
                pass
            raise original


class _RecoverableSession(_Layer):
    """Makes a new session when one is lost."""

    def __init__(self, creator):
        self._creator = creator
        super().__init__(self._create())

    def _create(self):
        wait = LongWait()
        while True:
            try:
                return self._creator.create_session()
            except _PREEMPTION_ERRORS as e:
                self._tell(e, "while a session was being created")
                wait.tell("Still waiting for a session: %s" % e)

    @staticmethod
    def _tell(e, when):
        logging.info("An error was raised %s. This may be due to a preemption in a connected worker or parameter server. A new "
                     "session will be created. Error: %s", when, e)

    def _check_stop(self):
        try:
            return bool(self._sess) and self._sess._check_stop()
        except _PREEMPTION_ERRORS as e:
            self._lost(e)
            return False

    def _lost(self, e):
        self._tell(e, "by a run")
        try:
            self.close()
        except Exception as closing:
            # The threads of the lost session may have failed as it did.
            logging.info("Ignored while the lost session was closed: %s", closing)
        self._sess = None

    def should_stop(self):
        # A lost session does not end the loop.
        return bool(self._sess) and super().should_stop()

    def _again(self, f):
        while True:
            try:
                if not self._sess:
                    self._sess = self._create()
                return f(self._sess)
            except _PREEMPTION_ERRORS as e:
                self._lost(e)

    def run(self, *args, **kwargs):
        return self._again(lambda sess: sess.run(*args, **kwargs))

    def run_step_fn(self, step_fn, raw_session, run_with_hooks):
        return self._again(lambda sess: sess.run_step_fn(step_fn, self._creator.tf_sess, run_with_hooks))


# ---- the sessions of programs ----

class _MonitoredSession:
    def __init__(self, session_creator, hooks, should_recover, stop_grace_period_secs=120):
        self._graph_was_finalized = ops.get_default_graph().finalized
        self._hooks = list(hooks or [])
        for hook in self._hooks:
            hook.begin()
        self._coordinated_creator = _CoordinatedSessionCreator(session_creator or ChiefSessionCreator(), self._hooks,
                                                               stop_grace_period_secs)
        if should_recover:
            self._sess = _RecoverableSession(self._coordinated_creator)
        else:
            self._sess = self._coordinated_creator.create_session()

    @property
    def graph(self):
        """The graph that the session runs."""
        return None if self._tf_sess() is None else self._tf_sess().graph

    def _tf_sess(self):
        return self._coordinated_creator.tf_sess

    def _open(self):
        if self._sess is None:
            raise RuntimeError("Session is already closed.")
        return self._sess

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """Runs a step with the hooks, and returns the values of fetches; see tf.Session.run."""
        return self._open().run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata)

    class StepContext:
        """For run_step_fn: the session without hooks, and a run with them."""

        def __init__(self, session, run_with_hooks_fn):
            self._session, self._run_with_hooks_fn = session, run_with_hooks_fn

        @property
        def session(self):
            return self._session

        def run_with_hooks(self, *args, **kwargs):
            return self._run_with_hooks_fn(*args, **kwargs)

        def request_stop(self):
            """Leaves the loop as a run that asks to stop does."""
            raise StopIteration("step_fn has requested the iterations to stop.")

    def run_step_fn(self, step_fn):
        """step_fn(step_context), which may run parts of the graph without the hooks."""
        if list(inspect.signature(step_fn).parameters) not in (["step_context"], ["self", "step_context"]):
            raise ValueError("`step_fn` may either have one `step_context` argument, or `self` and `step_context` arguments "
                             "if it's "
                             "an instance method.")
        return self._open().run_step_fn(step_fn, self._tf_sess(), run_with_hooks=None)

    def should_stop(self):
        """Whether the loop should end."""
        return self._sess is None or self._sess.should_stop()

    def close(self):
        """Ends the hooks, the threads and the session."""
        self._close_internal()

    def _is_closed(self):
        return self._tf_sess() is None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind in (errors.OutOfRangeError, StopIteration):
            kind = None
        self._close_internal(kind)
        return kind is None

    def _close_internal(self, exception_type=None):
        try:
            if not exception_type:
                for hook in self._hooks:
                    hook.end(self._tf_sess())
        finally:
            try:
                self._open().close()
            finally:
                self._sess = None
                self._coordinated_creator.tf_sess = self._coordinated_creator.coord = None
                if not self._graph_was_finalized:
                    ops.get_default_graph()._unsafe_unfinalize()


class MonitoredSession(_MonitoredSession):
    """A session with hooks that recovers."""

    def __init__(self, session_creator=None, hooks=None, stop_grace_period_secs=120):
        super().__init__(session_creator, hooks, should_recover=True, stop_grace_period_secs=stop_grace_period_secs)


class SingularMonitoredSession(_MonitoredSession):
    """A session with hooks that does not recover: for programs of one process."""

    def __init__(self, hooks=None, scaffold=None, master="", config=None, checkpoint_dir=None, stop_grace_period_secs=120,
                 checkpoint_filename_with_path=None):
        creator = ChiefSessionCreator(scaffold=scaffold, master=master, config=config, checkpoint_dir=checkpoint_dir,
                                      checkpoint_filename_with_path=checkpoint_filename_with_path)
        super().__init__(creator, hooks, should_recover=False, stop_grace_period_secs=stop_grace_period_secs)

    def raw_session(self):
        """The session without hooks."""
        return self._tf_sess()


def MonitoredTrainingSession(master="", is_chief=True, checkpoint_dir=None, scaffold=None, hooks=None,  # noqa: N802
                             chief_only_hooks=None, save_checkpoint_secs=USE_DEFAULT, save_summaries_steps=USE_DEFAULT,
                             save_summaries_secs=USE_DEFAULT, config=None, stop_grace_period_secs=120, log_step_count_steps=100,
                             max_wait_secs=7200, save_checkpoint_steps=USE_DEFAULT, summary_dir=None, save_graph_def=True):
    """A MonitoredSession for training: the chief's saves checkpoints and summaries."""
    if save_summaries_steps is USE_DEFAULT and save_summaries_secs is USE_DEFAULT:
        save_summaries_steps = 100
    if save_checkpoint_secs is USE_DEFAULT and save_checkpoint_steps is USE_DEFAULT:
        save_checkpoint_secs = 600
    given = lambda x: None if x is USE_DEFAULT else x
    summaries = dict(save_steps=given(save_summaries_steps), save_secs=given(save_summaries_secs))
    saves = dict(save_secs=given(save_checkpoint_secs), save_steps=given(save_checkpoint_steps))
    scaffold = scaffold or Scaffold()
    if not is_chief:
        creator = WorkerSessionCreator(scaffold=scaffold, master=master, config=config, max_wait_secs=max_wait_secs)
        return MonitoredSession(session_creator=creator, hooks=hooks or [], stop_grace_period_secs=stop_grace_period_secs)
    all_hooks = list(chief_only_hooks or [])
    creator = ChiefSessionCreator(scaffold=scaffold, checkpoint_dir=checkpoint_dir, master=master, config=config)
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir:
        if log_step_count_steps and log_step_count_steps > 0:
            all_hooks.append(hooks_lib.StepCounterHook(output_dir=summary_dir, every_n_steps=log_step_count_steps))
        if any(x and x > 0 for x in summaries.values()):
            all_hooks.append(hooks_lib.SummarySaverHook(scaffold=scaffold, output_dir=summary_dir, **summaries))
    if checkpoint_dir and any(x and x > 0 for x in saves.values()):
        all_hooks.append(hooks_lib.CheckpointSaverHook(checkpoint_dir, scaffold=scaffold, save_graph_def=save_graph_def,
                                                       **saves))
    return MonitoredSession(session_creator=creator, hooks=all_hooks + list(hooks or []),
                            stop_grace_period_secs=stop_grace_period_secs)
