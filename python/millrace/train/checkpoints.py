"""Checkpoints as files: which there are (the file "checkpoint" of a folder says it), what is in them, removing them, and
starting variables from them.

A checkpoint is named by the prefix of its files.  In format V2 these are PREFIX.index and PREFIX.data-*; in V1 the file has the
name itself, which may be a pattern of several.
"""

import collections
import glob
import os
import re
import time

import _millrace as _core
from .. import logging, protos
from ..file_io import as_path
from ..framework import dtypes, errors, op_defs, ops
from ..framework.long_wait import LongWait
from ..ops import variable_scope, variables
from ..proto import text_format

__all__ = ["NewCheckpointReader", "checkpoint_exists", "checkpoints_iterator", "generate_checkpoint_state_proto",
           "get_checkpoint_mtimes", "get_checkpoint_state", "init_from_checkpoint", "latest_checkpoint", "list_variables",
           "load_checkpoint", "load_variable", "remove_checkpoint", "update_checkpoint_state", "warm_start", "VocabInfo"]


# ---- the file "checkpoint" ----

def _state_path(folder, latest_filename):
    return os.path.join(folder, latest_filename or "checkpoint")


def generate_checkpoint_state_proto(save_dir, model_checkpoint_path, all_model_checkpoint_paths=None,
                                    all_model_checkpoint_timestamps=None, last_preserved_timestamp=None):
    """The CheckpointState message; paths are relative to save_dir when that is."""
    paths = list(all_model_checkpoint_paths or [])
    times = list(all_model_checkpoint_timestamps or [])
    if times and len(times) != len(paths):
        raise ValueError("Checkpoint timestamps, if provided, must match checkpoint paths (got paths %s and timestamps %s)" %
                         (paths, times))
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)
        if times:
            times.append(time.time())
    if not os.path.isabs(save_dir):
        under = lambda p: p if os.path.isabs(p) else os.path.relpath(p, save_dir or ".")
        paths, model_checkpoint_path = [under(p) for p in paths], under(model_checkpoint_path)
    state = protos.CheckpointState(model_checkpoint_path=model_checkpoint_path, all_model_checkpoint_paths=paths)
    state.all_model_checkpoint_timestamps.extend(times)
    if last_preserved_timestamp is not None:
        state.last_preserved_timestamp = last_preserved_timestamp
    return state


def update_checkpoint_state(save_dir, model_checkpoint_path, all_model_checkpoint_paths=None, latest_filename=None,
                            all_model_checkpoint_timestamps=None, last_preserved_timestamp=None, save_relative_paths=False):
    """Writes which checkpoints of a folder there are."""
    if save_relative_paths:
        under = lambda p: os.path.relpath(p, save_dir or ".") if os.path.isabs(p) or save_dir else p
        model_checkpoint_path = under(model_checkpoint_path)
        all_model_checkpoint_paths = [under(p) for p in all_model_checkpoint_paths or []]
        state = protos.CheckpointState(model_checkpoint_path=model_checkpoint_path)
        state.all_model_checkpoint_paths.extend(all_model_checkpoint_paths)
        if model_checkpoint_path not in all_model_checkpoint_paths[-1:]:
            state.all_model_checkpoint_paths.append(model_checkpoint_path)
    else:
        state = generate_checkpoint_state_proto(save_dir, model_checkpoint_path, all_model_checkpoint_paths,
                                                all_model_checkpoint_timestamps, last_preserved_timestamp)
    path = _state_path(as_path(save_dir), latest_filename)
    if path == as_path(state.model_checkpoint_path):
        raise RuntimeError("Save path '%s' conflicts with path used for checkpoint state. Please use a different save path." %
                           model_checkpoint_path)
    part = "%s.tmp%d" % (path, os.getpid())  # so that the file appears atomically
    with open(part, "w", encoding="utf-8") as f:
        f.write(text_format.MessageToString(state))
    os.replace(part, path)


def get_checkpoint_state(checkpoint_dir, latest_filename=None):
    """The CheckpointState of a folder, with full paths; None when it says nothing."""
    if checkpoint_dir is None:
        return None
    path = _state_path(as_path(checkpoint_dir), latest_filename)
    try:
        with open(path, encoding="utf-8") as f:
            state = text_format.Merge(f.read(), protos.CheckpointState())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError, text_format.ParseError) as e:
        logging.warning("%s: %s: Checkpoint ignored", path, e)
        return None
    if not state.model_checkpoint_path:
        raise ValueError("Invalid checkpoint state loaded from " + checkpoint_dir)
    full = lambda p: p if os.path.isabs(p) else os.path.join(checkpoint_dir, p)
    state.model_checkpoint_path = full(state.model_checkpoint_path)
    paths = [full(p) for p in state.all_model_checkpoint_paths]
    del state.all_model_checkpoint_paths[:]
    state.all_model_checkpoint_paths.extend(paths)
    return state


def _files(prefix, suffix):
    path = as_path(prefix) + suffix
    return [path] if os.path.exists(path) else sorted(glob.glob(path))


def latest_checkpoint(checkpoint_dir, latest_filename=None):
    """The prefix of the newest checkpoint of a folder, or None."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    if checkpoint_exists(state.model_checkpoint_path):
        return state.model_checkpoint_path
    logging.error("Couldn't match files for checkpoint %s", state.model_checkpoint_path)
    return None


def checkpoint_exists(checkpoint_prefix):
    """Whether there is a checkpoint of this prefix, in either format."""
    return bool(_files(checkpoint_prefix, ".index") or _files(checkpoint_prefix, ""))


def get_checkpoint_mtimes(checkpoint_prefixes):
    """When each was written; those that are not there are left out."""
    times = []
    for prefix in checkpoint_prefixes:
        files = _files(prefix, ".index") or _files(prefix, "")
        if files:
            times.append(os.stat(files[0]).st_mtime)
    return times


def meta_graph_filename(checkpoint_filename, meta_graph_suffix="meta"):
    """The file of the graph beside a checkpoint; the parts of a sharded one share it."""
    return re.sub(r"-[\d\?]+-of-\d+$", "", checkpoint_filename) + "." + meta_graph_suffix


def remove_checkpoint(checkpoint_prefix, checkpoint_format_version=None, meta_graph_suffix="meta"):
    """Removes its files and that of its graph."""
    version = protos.SaverDef.V2 if checkpoint_format_version is None else checkpoint_format_version
    doomed = _files(meta_graph_filename(checkpoint_prefix, meta_graph_suffix), "")
    if version == protos.SaverDef.V2:
        doomed += _files(checkpoint_prefix, ".index") + glob.glob(glob.escape(as_path(checkpoint_prefix)) +
                                                                  ".data-?????-of-?????")
    else:
        doomed += _files(checkpoint_prefix, "")
    for path in doomed:
        try:
            os.remove(path)
        except FileNotFoundError:
            pass


def checkpoints_iterator(checkpoint_dir, min_interval_secs=0, timeout=None, timeout_fn=None):
    """Yields each new checkpoint of a folder as it appears."""
    last = None
    while True:
        new = wait_for_new_checkpoint(checkpoint_dir, last, timeout=timeout)
        if new is None:
            if not timeout_fn or timeout_fn():
                return
            continue
        begin, last = time.time(), new
        yield new
        left = begin + min_interval_secs - time.time()
        if left > 0:
            time.sleep(left)


def wait_for_new_checkpoint(checkpoint_dir, last_checkpoint=None, seconds_to_sleep=1, timeout=None):
    """The path of a checkpoint other than the last one, None when it takes longer than timeout."""
    stop = None if timeout is None else time.time() + timeout
    wait = LongWait()
    while True:
        found = latest_checkpoint(checkpoint_dir)
        if found is not None and found != last_checkpoint:
            return found
        if stop is not None and time.time() + seconds_to_sleep > stop:
            return None
        wait.sleep(seconds_to_sleep, "Still waiting for a new checkpoint in %s" % checkpoint_dir)


# ---- what is in a checkpoint ----

class CheckpointReader:
    """Reads the variables of a checkpoint."""

    def __init__(self, filepattern):
        self._reader = _core.CheckpointReader(as_path(filepattern))
        self._variables = self._reader.variables()

    def get_variable_to_shape_map(self):
        """Returns {name of a tensor: its shape as a list}."""
        return {name: list(shape) for name, (_, shape) in self._variables.items()}

    def get_variable_to_dtype_map(self):
        """Returns {name of a tensor: its type}."""
        return {name: dtypes.as_dtype(dtype) for name, (dtype, _) in self._variables.items()}

    def has_tensor(self, tensor_str):
        """Whether the checkpoint has a tensor of this name."""
        return tensor_str in self._variables

    def get_tensor(self, tensor_str):
        """Returns the tensor of this name as an array; NotFoundError if there is none."""
        if tensor_str not in self._variables:
            raise errors.NotFoundError(None, None, "Key %s not found in checkpoint" % tensor_str)
        return self._reader.get_tensor(tensor_str)

    def debug_string(self):
        """A line a tensor: NAME (DT_TYPE) [shape]."""
        def kind(dtype):
            return protos.DataType.Name(dtypes.as_dtype(dtype).as_datatype_enum)
        return "".join("%s (%s) [%s]\n" % (name, kind(dtype), ",".join(map(str, shape)))
                       for name, (dtype, shape) in sorted(self._variables.items())).encode()


def NewCheckpointReader(filepattern):  # noqa: N802 -- TensorFlow's name
    """Returns a CheckpointReader for a checkpoint, given by its prefix."""
    return CheckpointReader(filepattern)


def _checkpoint_filename(path):
    """A checkpoint itself, or the newest one of a folder."""
    return latest_checkpoint(path) if os.path.isdir(as_path(path)) else path


def load_checkpoint(ckpt_dir_or_file):
    """Returns a CheckpointReader for a checkpoint, or for the newest one in a folder."""
    filename = _checkpoint_filename(ckpt_dir_or_file)
    if filename is None:
        raise ValueError("Couldn't find 'checkpoint' file or checkpoints in given directory %s" % ckpt_dir_or_file)
    return NewCheckpointReader(filename)


def load_variable(ckpt_dir_or_file, name):
    """Returns the value of a variable in a checkpoint, or in the newest one in a folder."""
    if name.endswith(":0"):
        name = name[:-2]
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name)


def list_variables(ckpt_dir_or_file):
    """[(name, shape)] by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


# ---- variables that begin as those of a checkpoint ----

def init_from_checkpoint(ckpt_dir_or_file, assignment_map):
    """Changes the initializers of variables so that they read a checkpoint.

    assignment_map has names in the checkpoint and variables, lists of the parts of one, or names of them here; names that end
    in "/" are scopes, and "/" is the whole checkpoint."""
    path = _checkpoint_filename(ckpt_dir_or_file)
    reader = load_checkpoint(ckpt_dir_or_file)
    shapes = reader.get_variable_to_shape_map()
    for there, here in assignment_map.items():
        for name, parts in _meant(there, here, shapes, ckpt_dir_or_file):
            _init_parts(path, name, parts, shapes)


def _store():
    return variable_scope._variable_store()._vars


def _own_variable(name):
    """The variables of a name in the store: one, or the parts of a partitioned one; None."""
    store = _store()
    if name in store:
        return [store[name]]
    parts = []
    while "%s/part_%d" % (name, len(parts)) in store:
        parts.append(store["%s/part_%d" % (name, len(parts))])
    return parts or None


def _meant(there, here, shapes, where):
    """Pairs of a name in the checkpoint and variables, for one entry of an assignment map."""
    if isinstance(here, variables.PartitionedVariable):
        here = list(here)
    if isinstance(here, (variables.Variable, list, tuple)):
        yield there, list(here) if isinstance(here, (list, tuple)) else [here]
        return
    if not here.endswith("/"):
        parts = _own_variable(here)
        if parts is None:
            raise ValueError("Assignment map with scope only name %s should map to scope only %s. Should be 'scope/': "
                             "'other_scope/'." % (there, here) if there.endswith("/") else
                             "Variable %s is not found in the current graph" % here)
        yield there, parts
        return
    if not there.endswith("/"):
        raise ValueError("Assignment map with scope only name %s should map to scope only %s. Should be 'scope/': "
                         "'other_scope/'." %
                         (here, there))
    names = {re.sub(r"/part_\d+$", "", n) for n in _store() if n.startswith(here) or here == "/"}
    for name in sorted(names):
        own = name if here == "/" else name[len(here):]
        full = (own if there == "/" else there + own).lstrip("/")
        if full not in shapes:
            if name in shapes and there == "/":
                full = name
            else:
                raise ValueError("Tensor %s (%s in %s) is not found in %s checkpoint" % (own, full, here, where))
        yield full, _own_variable(name)


def _init_parts(path, name, parts, shapes):
    if name not in shapes:
        raise ValueError("Tensor %s is not found in %s checkpoint %s" % (name, path, sorted(shapes)))
    info = parts[0]._get_save_slice_info() if len(parts) > 1 or parts[0]._get_save_slice_info() else None
    whole = list(info.full_shape) if info is not None else parts[0].get_shape().as_list()
    if whole != list(shapes[name]):
        raise ValueError("Shape of variable %s (%s) doesn't match with shape of tensor %s (%s) from checkpoint reader." %
                         (parts[0].name, whole, name, shapes[name]))
    for v in parts:
        slices = v._get_save_slice_info()
        _init_variable(v, path, name, "" if slices is None else slices.spec)


def _init_variable(v, path, name, spec):
    from . import saveable
    with v.graph.as_default(), ops.control_dependencies(None), ops.device(v.device or None), ops.device("/cpu:0"), \
            ops.name_scope("checkpoint_initializer"):
        value = op_defs.call("RestoreV2", None, prefix=path, tensor_names=[name], shape_and_slices=[spec],
                             dtypes=[v.dtype.base_dtype])[0]
        value.set_shape(v.get_shape())
        made = saveable.of_variable(v, spec, name).restore([value], None)
    v._initializer_op = getattr(made, "op", made)
    v._initial_value = value


# ---- warm start ----

VocabInfo = collections.namedtuple(
    "VocabInfo", "new_vocab new_vocab_size num_oov_buckets old_vocab old_vocab_size backup_initializer axis")
VocabInfo.__new__.__defaults__ = (-1, None, 0)


def warm_start(ckpt_to_initialize_from, vars_to_warm_start=".*", var_name_to_vocab_info=None, var_name_to_prev_var_name=None):
    """Starts the variables whose names match from those of a checkpoint."""
    if var_name_to_vocab_info:
        raise NotImplementedError("warm_start with var_name_to_vocab_info")
    previous = var_name_to_prev_var_name or {}
    groups = _warm_groups(vars_to_warm_start)
    unused = set(previous) - set(groups)
    if unused:
        raise ValueError("You provided the following variables in var_name_to_prev_var_name that were not used: %s" %
                         sorted(unused))
    init_from_checkpoint(ckpt_to_initialize_from, {previous.get(name, name): parts for name, parts in groups.items()})


def _warm_groups(wanted):
    """{name: parts of the variable}"""
    if isinstance(wanted, str) or wanted is None:
        found = ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES, scope=wanted) if wanted else []
    elif all(isinstance(v, str) for v in wanted):
        found = [v for pattern in wanted for v in ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES, scope=pattern)]
    else:
        found = list(wanted)
    groups = {}
    for v in found:
        for part in v if isinstance(v, (list, tuple, variables.PartitionedVariable)) else [v]:
            info = part._get_save_slice_info()
            parts = groups.setdefault(part.op.name if info is None else info.full_name, [])
            if part not in parts:
                parts.append(part)
    return groups
