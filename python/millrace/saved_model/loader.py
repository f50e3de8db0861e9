"""Reading SavedModels: a graph of the model is brought into a session, with its variables, and what it needs first is run."""
import os

from .. import file_io, logging, protos
from ..framework import ops
from . import constants
from .signature_def_utils import load_op_from_signature_def


def maybe_saved_model_directory(export_dir):
    """Whether it is a SavedModel's folder."""
    return any(file_io.file_exists(os.path.join(export_dir, name))
               for name in (constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT))


contains_saved_model = maybe_saved_model_directory


def parse_saved_model(export_dir):
    """The SavedModel message of a folder."""
    path = os.path.join(export_dir, constants.SAVED_MODEL_FILENAME_PB)
    if file_io.file_exists(path):
        try:
            return protos.SavedModel.FromString(file_io.read_file_to_string(path, True))
        except protos.DecodeError as e:
            raise IOError("Cannot parse file %s: %s." % (path, e)) from None
    path = os.path.join(export_dir, constants.SAVED_MODEL_FILENAME_PBTXT)
    if file_io.file_exists(path):
        try:
            return protos.text_format.Parse(file_io.read_file_to_string(path), protos.SavedModel())
        except protos.text_format.ParseError as e:
            raise IOError("Cannot parse file %s: %s." % (path, e)) from None
    raise IOError("SavedModel file does not exist at: %s/{%s|%s}" % (export_dir, constants.SAVED_MODEL_FILENAME_PBTXT,
                                                                    constants.SAVED_MODEL_FILENAME_PB))


class SavedModelLoader:
    """A folder, from which graphs may be loaded one by one."""

    def __init__(self, export_dir):
        self._export_dir = export_dir.decode() if isinstance(export_dir, bytes) else os.fspath(export_dir)
        self._saved_model = parse_saved_model(self._export_dir)

    export_dir = property(lambda self: self._export_dir, doc="The folder of the SavedModel.")
    variables_path = property(lambda self: os.path.join(self._export_dir, constants.VARIABLES_DIRECTORY,
                                                        constants.VARIABLES_FILENAME),
                              doc="The prefix of the checkpoint with the variables.")
    saved_model = property(lambda self: self._saved_model, doc="The SavedModel message.")

    def get_meta_graph_def_from_tags(self, tags):
        """Returns the MetaGraphDef that has exactly these tags; RuntimeError if there is none."""
        wanted = {tags} if isinstance(tags, str) else set(tags)
        found = [set(m.meta_info_def.tags) for m in self._saved_model.meta_graphs]
        for tag_set, meta in zip(found, self._saved_model.meta_graphs):
            if tag_set == wanted:
                return meta
        raise RuntimeError("MetaGraphDef associated with tags %s could not be found in SavedModel. The model has: %s" %
                           (", ".join(sorted(repr(t) for t in wanted)), "; ".join(",".join(sorted(t)) for t in found)))

    def load_graph(self, graph, tags, import_scope=None, **saver_kwargs):
        """Brings the graph into another; (its Saver, where the outputs of return_elements are)."""
        from ..framework.meta_graph import import_meta_graph
        meta = self.get_meta_graph_def_from_tags(tags)
        with graph.as_default():
            result = import_meta_graph(meta, import_scope=import_scope, **saver_kwargs)
        return result if isinstance(result, tuple) else (result, [None])

    def restore_variables(self, sess, saver, import_scope=None):
        """Reads the variables into a session."""
        if saver is None:
            logging.info("The specified SavedModel has no variables; no checkpoints were restored.")
        else:
            saver.restore(sess, self.variables_path)

    def run_init_ops(self, sess, tags, import_scope=None):
        """The main op, fed with where the assets are now."""
        meta = self.get_meta_graph_def_from_tags(tags)
        with sess.graph.as_default():
            init = _init_op(meta, import_scope)
            if init is not None:
                sess.run(init, _asset_feeds(self._export_dir, meta, import_scope))

    def load(self, sess, tags, import_scope=None, **saver_kwargs):
        """Adds the graph with these tags to the session's graph, reads its variables, and runs its initialization.

        Returns the MetaGraphDef."""
        try:
            saver, _ = self.load_graph(sess.graph, tags, import_scope, **saver_kwargs)
            with sess.graph.as_default():
                self.restore_variables(sess, saver, import_scope)
                self.run_init_ops(sess, tags, import_scope)
            return self.get_meta_graph_def_from_tags(tags)
        except protos.DecodeError as e:  # parts of a message are decoded when they are looked at
            raise IOError("Cannot parse the SavedModel in %s: %s." % (self._export_dir, e)) from None


def load(sess, tags, export_dir, import_scope=None, **saver_kwargs):
    """Loads the graph with just these tags into a session; its MetaGraphDef, which has the signatures."""
    return SavedModelLoader(export_dir).load(sess, tags, import_scope, **saver_kwargs)


def _init_op(meta, import_scope):
    if constants.INIT_OP_SIGNATURE_KEY in meta.signature_def:
        return load_op_from_signature_def(meta.signature_def[constants.INIT_OP_SIGNATURE_KEY], constants.INIT_OP_SIGNATURE_KEY,
                                          import_scope)
    for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
        if key in meta.collection_def:
            names = meta.collection_def[key].node_list.value
            if len(names) != 1:
                raise RuntimeError("Expected exactly one SavedModel init op under %s, found %d" % (key, len(names)))
            return ops.get_default_graph().as_graph_element(ops.prepend_name_scope(names[0], import_scope))
    return None


def _assets(meta):
    """The AssetFileDefs: of the message itself, or packed in a collection."""
    if len(meta.asset_file_def):
        return list(meta.asset_file_def)
    if constants.ASSETS_KEY not in meta.collection_def:
        return []
    found = []
    for packed in meta.collection_def[constants.ASSETS_KEY].any_list.value:
        found.append(protos.AssetFileDef.FromString(packed.value))
    return found


def _asset_feeds(export_dir, meta, import_scope):
    folder = os.path.join(export_dir, constants.ASSETS_DIRECTORY)
    return {ops.prepend_name_scope(a.tensor_info.name, import_scope): os.path.join(folder, a.filename) for a in _assets(meta)}
