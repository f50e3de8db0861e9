"""tf.train.Saver: saves variables to checkpoints and restores them.

A saver is operations in the graph, with the names that TensorFlow gives them (save/Const takes the file's prefix,
save/control_dependency gives it back when all is written, save/restore_all puts values back), so that it can be described by
the three names in a SaverDef; and, in Python, which checkpoints it wrote and which of them it keeps.
"""

import os
import threading
import time
import uuid

from .. import logging, protos
from ..file_io import as_path
from ..framework import convert, device, errors, ops
from ..framework.op_defs import raw
from ..ops import control_flow
from . import checkpoints, saveable, steps

__all__ = ["Saver", "BaseSaverBuilder", "BulkSaverBuilder"]


class BaseSaverBuilder:
    """Makes the operations of a saver."""

    SaveSpec, SaveableObject = saveable.SaveSpec, saveable.SaveableObject

    def __init__(self, write_version=None):
        self._version = protos.SaverDef.V2 if write_version is None else write_version

    def build(self, names_to_saveables, reshape=False, sharded=False, max_to_keep=5, keep_checkpoint_every_n_hours=10000.0,
              name=None, restore_sequentially=False, filename="model"):
        """The SaverDef of new operations; values are restored by one operation, which reads one after the other anyway."""
        found = saveable.saveables(names_to_saveables)
        with ops.name_scope(name, "save", [getattr(s.op, "op", s.op) for s in found]):
            prefix = raw.placeholder_with_default(convert.constant(filename or "model", name="filename/input"), shape=[],
                                                  name="filename")
            prefix = raw.placeholder_with_default(prefix, shape=[], name="Const")
            if sharded:
                groups = _by_task(found)
                saved = self._add_sharded_save(prefix, groups)
                restored = self._add_sharded_restore(prefix, groups, reshape)
            else:
                saved = control_flow.with_dependencies([self.save_op(prefix, found)], prefix)
                restored = self._add_restore(prefix, found, reshape, "restore_all")
        return protos.SaverDef(filename_tensor_name=prefix.name, save_tensor_name=saved.name, restore_op_name=restored.name,
                               max_to_keep=max_to_keep or 0, sharded=bool(sharded),
                               keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours, version=self._version)

    def save_op(self, filename_tensor, saveables):
        """Returns an operation that writes all objects to a file."""
        specs = [spec for s in saveables for spec in s.specs]
        names, slices = [s.name for s in specs], [s.slice_spec for s in specs]
        tensors = [s.tensor for s in specs]
        if self._version == protos.SaverDef.V2:
            return raw.save_v2(filename_tensor, names, slices, tensors)
        return raw.save_slices(filename_tensor, names, slices, tensors, name="save")

    def _add_restore(self, prefix, saveables, reshape, name):
        specs = [spec for s in saveables for spec in s.specs]
        with ops.device("/cpu:0"):
            values = raw.restore_v2(prefix, [s.name for s in specs], [s.slice_spec for s in specs],
                                    [s.dtype.base_dtype for s in specs])
        assigned, at = [], 0
        for s in saveables:
            shapes = [_shape_of(spec.tensor) for spec in s.specs] if reshape else None
            assigned.append(s.restore(values[at:at + len(s.specs)], shapes))
            at += len(s.specs)
        return control_flow.group(*assigned, name=name)

    def _add_sharded_save(self, prefix, groups):
        """Each task writes its part; in V2 they are put together into one checkpoint afterwards."""
        v2 = self._version == protos.SaverDef.V2
        base = raw.string_join([prefix, "_temp_%s/part" % uuid.uuid4().hex]) if v2 else prefix
        count = convert.constant(len(groups), name="num_shards")
        written = []
        for i, (where, members) in enumerate(groups):
            with ops.device(where):
                with ops.device("/cpu:0"):
                    part = raw.sharded_filename(base, i, count)
                written.append(control_flow.with_dependencies([self.save_op(part, members)], part))
        with ops.control_dependencies([w.op for w in written]):
            if not v2:
                return raw.identity(raw.sharded_filespec(prefix, count))
            with ops.device(groups[-1][0]), ops.device("/cpu:0"):
                merged = raw.merge_v2_checkpoints(written, prefix, delete_old_dirs=True)
                with ops.control_dependencies([merged]):
                    return raw.identity(prefix)

    def _add_sharded_restore(self, prefix, groups, reshape):
        parts = []
        for where, members in groups:
            with ops.device(where):
                parts.append(self._add_restore(prefix, members, reshape, "restore_shard"))
        return control_flow.group(*parts, name="restore_all")


BulkSaverBuilder = BaseSaverBuilder


def _shape_of(tensor):
    shape = tensor.get_shape()
    return shape if shape.is_fully_defined() else raw.shape(tensor)


def _by_task(saveables):
    """[(device of a task, what is there)] by device."""
    groups = {}
    for s in saveables:
        d = device.DeviceSpec.from_string(s.device or "")
        where = device.DeviceSpec(d.job, d.replica, d.task).to_string()
        groups.setdefault(where, []).append(s)
    return sorted(groups.items())


class Saver:
    """Saves and restores variables; by default all global ones."""

    def __init__(self, var_list=None, reshape=False, sharded=False, max_to_keep=5, keep_checkpoint_every_n_hours=10000.0,
                 name=None,
                 restore_sequentially=False, saver_def=None, builder=None, defer_build=False, allow_empty=False,
                 write_version=None,
                 pad_step_number=False, save_relative_paths=False, filename=None):
        if defer_build and var_list:
            raise ValueError("If `var_list` is provided then build cannot be deferred. Either set defer_build=False or "
                             "var_list=None.")
        self._var_list, self._reshape, self._sharded, self._name = var_list, reshape, sharded, name
        self._max_to_keep, self._keep_checkpoint_every_n_hours = max_to_keep, keep_checkpoint_every_n_hours
        self._restore_sequentially, self._builder, self._allow_empty = restore_sequentially, builder, allow_empty
        self._write_version = protos.SaverDef.V2 if write_version is None else write_version
        self._pad_step_number, self._save_relative_paths, self._filename = pad_step_number, save_relative_paths, filename
        self.saver_def, self._is_built, self._is_empty = saver_def, False, False
        self._last_checkpoints, self._checkpoints_to_be_deleted = [], []
        self._saving = threading.RLock()  # a supervisor's thread saves too, and an older step must not become the latest
        if not defer_build:
            self.build()
        elif saver_def is not None:
            self._take_def()

    # ---- building ----

    def build(self):
        """Adds the operations to the default graph, if that was not done yet."""
        if self._is_built:
            return
        self._is_built = True
        if self.saver_def is None:
            var_list = self._var_list
            if var_list is None:
                var_list = (ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES) +
                            ops.get_collection(ops.GraphKeys.SAVEABLE_OBJECTS))
            if not var_list:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            self._var_list = var_list
            builder = self._builder or BaseSaverBuilder(self._write_version)
            self.saver_def = builder.build(
                var_list, reshape=self._reshape, sharded=self._sharded, max_to_keep=self._max_to_keep,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours, name=self._name,
                restore_sequentially=self._restore_sequentially, filename=self._filename)
        elif self._name:  # a saver that was imported into a scope
            d = protos.SaverDef()
            d.CopyFrom(self.saver_def)
            for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
                setattr(d, field, ops.prepend_name_scope(getattr(d, field), self._name))
            self.saver_def = d
        self._take_def()

    def _take_def(self):
        d = self.saver_def
        if not isinstance(d, protos.SaverDef):
            raise ValueError("saver_def must be a saver_pb2.SaverDef: %s" % (d,))
        for field in ("save_tensor_name", "restore_op_name"):
            if not getattr(d, field):
                raise ValueError("saver_def must specify the %s: %s" % (field, d))
        self._write_version = d.version or protos.SaverDef.V1
        self._next_checkpoint_time = time.time() + d.keep_checkpoint_every_n_hours * 3600

    def _check_built(self, what):
        if not self._is_built and self.saver_def is None:
            raise RuntimeError("`build()` should be called before %s if defer_build==True" % what)

    def as_saver_def(self):
        """Returns the SaverDef."""
        return self.saver_def

    def to_proto(self, export_scope=None):
        """The SaverDef, None when it is not in export_scope."""
        if export_scope is None:
            return self.saver_def
        if not self.saver_def.filename_tensor_name.startswith(export_scope) or \
                not self.saver_def.save_tensor_name.startswith(export_scope):
            return None
        d = protos.SaverDef()
        d.CopyFrom(self.saver_def)
        for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
            setattr(d, field, ops.strip_name_scope(getattr(d, field), export_scope))
        return d

    @staticmethod
    def from_proto(saver_def, import_scope=None):
        """Makes a Saver from a SaverDef."""
        return Saver(saver_def=saver_def, name=import_scope)

    # ---- which checkpoints there are ----

    @property
    def last_checkpoints(self):
        """The checkpoints that were not deleted yet, the newest last."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints):
        """Sets the list of checkpoints that may be deleted when there are too many, as paths."""
        self._last_checkpoints = [(path, float("inf")) for path in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time):
        """Sets the list of checkpoints that may be deleted when there are too many, as (path, time)."""
        self._last_checkpoints = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths):
        """Takes over checkpoints that another process wrote, if they exist."""
        found = [(path, checkpoints.get_checkpoint_mtimes([path])) for path in checkpoint_paths or []]
        self.set_last_checkpoints_with_time([(path, times[0]) for path, times in found if times])

    def _record(self, path):
        """Notes a new checkpoint; one that is too many is to be deleted."""
        if not self.saver_def.max_to_keep:
            return
        self._last_checkpoints = [c for c in self._last_checkpoints if c[0] != path] + [(path, time.time())]
        if len(self._last_checkpoints) > self.saver_def.max_to_keep:
            self._checkpoints_to_be_deleted.append(self._last_checkpoints.pop(0))

    def _delete_old(self, meta_graph_suffix):
        if not self._checkpoints_to_be_deleted:
            return
        path, written = self._checkpoints_to_be_deleted.pop(0)
        if written > self._next_checkpoint_time:  # one in so many hours stays
            self._next_checkpoint_time += self.saver_def.keep_checkpoint_every_n_hours * 3600
            return
        try:
            checkpoints.remove_checkpoint(path, self.saver_def.version, meta_graph_suffix)
        except OSError as e:
            logging.warning("Ignoring: %s", e)

    # ---- saving and restoring ----

    def save(self, sess, save_path, global_step=None, latest_filename=None, meta_graph_suffix="meta", write_meta_graph=True,
             write_state=True, strip_default_attrs=False, save_debug_info=False):
        """Writes a checkpoint; its prefix."""
        self._check_built("save")
        latest_filename = latest_filename or "checkpoint"
        if os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        save_path = os.fspath(save_path)
        with self._saving:
            prefix = self._prefix(sess, save_path, global_step, latest_filename)
            written = self._save_variables(sess, save_path, prefix, latest_filename, meta_graph_suffix, write_state)
            if write_meta_graph:
                with sess.graph.as_default():
                    self.export_meta_graph(checkpoints.meta_graph_filename(prefix, meta_graph_suffix),
                                           strip_default_attrs=strip_default_attrs, save_debug_info=save_debug_info)
        return written

    def _save_variables(self, sess, save_path, prefix, latest_filename, meta_graph_suffix, write_state):
        """The prefix that was written; None when there are no variables."""
        if self._is_empty:
            return None
        written = self._write(sess, prefix)
        if write_state:
            self._record(written)
            checkpoints.update_checkpoint_state(
                os.path.dirname(save_path), written, all_model_checkpoint_paths=self.last_checkpoints,
                latest_filename=latest_filename, save_relative_paths=self._save_relative_paths)
            self._delete_old(meta_graph_suffix)
        return written

    def _prefix(self, sess, save_path, global_step, latest_filename):
        if global_step is None:
            if os.path.basename(save_path) == latest_filename and not self._sharded:
                raise ValueError("'latest_filename' collides with 'save_path': '%s' and '%s'" % (latest_filename, save_path))
            return save_path
        if isinstance(global_step, (ops.Tensor, str)) or hasattr(global_step, "_as_graph_element"):
            global_step = steps.global_step(sess, global_step)
        return "%s-%s" % (save_path, ("%08d" if self._pad_step_number else "%d") % int(global_step))

    def _write(self, sess, prefix):
        d = self.saver_def
        try:
            return sess.run(d.save_tensor_name, {d.filename_tensor_name: prefix}).decode()
        except (errors.FailedPreconditionError, errors.NotFoundError):
            if not os.path.isdir(as_path(os.path.dirname(prefix)) or "."):
                raise ValueError("Parent directory of %s doesn't exist, can't save." % prefix) from None
            raise

    def restore(self, sess, save_path):
        """Puts back the values of a checkpoint; variables need not be initialized before."""
        self._check_built("restore")
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        save_path = os.fspath(save_path)
        if not checkpoints.checkpoint_exists(save_path):
            raise ValueError("The passed save_path is not a valid checkpoint: %s" % save_path)
        logging.info("Restoring parameters from %s", save_path)
        d = self.saver_def
        try:
            sess.run(d.restore_op_name, {d.filename_tensor_name: save_path})
        except errors.NotFoundError as e:
            raise errors.NotFoundError(e.node_def, e.op, "Restoring from checkpoint failed. This is most likely due to a "
                                       "Variable "
                                       "name or other graph key that is missing from the checkpoint. Please ensure that you "
                                       "have "
                                       "not altered the graph expected based on the checkpoint. Original error:\n\n" +
                                       e.message) from None
        except errors.InvalidArgumentError as e:
            raise errors.InvalidArgumentError(e.node_def, e.op, "Restoring from checkpoint failed. This is most likely due to "
                                              "a "
                                              "mismatch between the current graph and the graph from the checkpoint. Please "
                                              "ensure that you have not altered the graph expected based on the checkpoint. "
                                              "Original error:\n\n" + e.message) from None

    def export_meta_graph(self, filename=None, collection_list=None, as_text=False, export_scope=None, clear_devices=False,
                          clear_extraneous_savers=False, strip_default_attrs=False, save_debug_info=False):
        """The MetaGraphDef of the default graph with this saver, written to a file when one is given."""
        from ..framework import meta_graph
        return meta_graph.export_meta_graph(
            filename=filename, saver_def=self.saver_def, collection_list=collection_list, as_text=as_text,
            graph=ops.get_default_graph(), export_scope=export_scope, clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers, strip_default_attrs=strip_default_attrs,
            save_debug_info=save_debug_info)
