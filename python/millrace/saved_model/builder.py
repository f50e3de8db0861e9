"""Writing SavedModels: graphs for different uses that share one set of variables.

    builder = SavedModelBuilder(folder)
    builder.add_meta_graph_and_variables(sess, ["serve"], signature_def_map={"serving_default": signature})
    builder.add_meta_graph(["train"])
    builder.save()

The variables and the assets are written when the first graph is added, the graphs by save().
"""
import os

from .. import file_io, protos
from ..framework import convert, ops
from . import constants
from .signature_def_utils import op_signature_def  # noqa: F401 -- TensorFlow has it here


class SavedModelBuilder:
    """Writes a SavedModel: graphs with tags, variables, assets and signatures."""

    def __init__(self, export_dir):
        self._export_dir = os.fspath(export_dir) if not isinstance(export_dir, bytes) else export_dir.decode()
        if file_io.file_exists(self._export_dir):
            if file_io.list_directory(self._export_dir):
                raise AssertionError("Export directory already exists, and isn't empty. Please choose a different export "
                                     "directory, "
                                     "or delete all the contents of the specified directory: %s" % self._export_dir)
        else:
            file_io.recursive_create_dir(self._export_dir)
        self._saved_model = protos.SavedModel(saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION)
        self._has_saved_variables = False

    # ---- adding graphs ----

    def add_meta_graph_and_variables(self, sess, tags, signature_def_map=None, assets_collection=None, legacy_init_op=None,
                                     clear_devices=False, main_op=None, strip_default_attrs=False, saver=None, train_op=None):
        """The session's graph, the values of its variables, and its assets."""
        if self._has_saved_variables:
            raise AssertionError("Graph state including variables and assets has already been saved. Please invoke "
                                 "`add_meta_graph()` instead.")
        _check_signatures(signature_def_map)
        with sess.graph.as_default():
            assets = self._copy_assets(assets_collection)
            _note_ops(main_op, legacy_init_op, train_op)
            folder = os.path.join(self._export_dir, constants.VARIABLES_DIRECTORY)
            file_io.recursive_create_dir(folder)
            saver = saver or _new_saver()
            saver.save(sess, os.path.join(folder, constants.VARIABLES_FILENAME), write_meta_graph=False, write_state=False)
            self._add(saver, tags, signature_def_map, assets, clear_devices, strip_default_attrs)
        self._has_saved_variables = True

    def add_meta_graph(self, tags, signature_def_map=None, assets_collection=None, legacy_init_op=None, clear_devices=False,
                       main_op=None, strip_default_attrs=False, saver=None, init_op=None, train_op=None):
        """The default graph, with the variables that are saved already."""
        if not self._has_saved_variables:
            raise AssertionError("Graph state including variables and assets has not been saved yet. Please invoke "
                                 "`add_meta_graph_and_variables()` first.")
        _check_signatures(signature_def_map)
        assets = self._copy_assets(assets_collection)
        _note_ops(main_op or init_op, legacy_init_op, train_op)
        self._add(saver or _new_saver(), tags, signature_def_map, assets, clear_devices, strip_default_attrs)

    def _add(self, saver, tags, signatures, assets, clear_devices, strip_default_attrs):
        meta = saver.export_meta_graph(clear_devices=clear_devices, strip_default_attrs=strip_default_attrs)
        added = self._saved_model.meta_graphs.add()
        added.CopyFrom(meta)
        added.meta_info_def.tags.extend([tags] if isinstance(tags, str) else list(tags))
        added.asset_file_def.extend(assets)
        for key, signature in (signatures or {}).items():
            added.signature_def[key].CopyFrom(signature)

    def _copy_assets(self, assets):
        """Each asset is a tensor with the path of a file; the file goes into the model, its name into a collection too."""
        if not assets:
            return []
        folder = os.path.join(self._export_dir, constants.ASSETS_DIRECTORY)
        file_io.recursive_create_dir(folder)
        taken, found = {}, []
        for tensor in assets:
            source = _path_in(tensor)
            name = _free_name(os.path.basename(source), source, taken)
            file_io.copy(source, os.path.join(folder, name), overwrite=True)
            asset = protos.AssetFileDef(filename=name)
            asset.tensor_info.name = tensor.name
            found.append(asset)
            ops.add_to_collection(constants.ASSETS_KEY, protos.Any(type_url="type.googleapis.com/tensorflow.AssetFileDef",
                                                                  value=asset.SerializeToString()))
        return found

    # ---- writing ----

    def save(self, as_text=False):
        """Writes the graphs; the path of the file."""
        name = constants.SAVED_MODEL_FILENAME_PBTXT if as_text else constants.SAVED_MODEL_FILENAME_PB
        path = os.path.join(self._export_dir, name)
        data = str(self._saved_model) if as_text else self._saved_model.SerializeToString()
        file_io.atomic_write_string_to_file(path, data)
        return path.encode()


def _new_saver():
    from ..train import Saver
    return Saver(ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES) + ops.get_collection(ops.GraphKeys.SAVEABLE_OBJECTS),
                 sharded=True, write_version=protos.SaverDef.V2, allow_empty=True)


def _note_ops(main_op, legacy_init_op, train_op):
    """In the collections where loaders look for them."""
    for key, op in ((constants.MAIN_OP_KEY, main_op), (constants.LEGACY_INIT_OP_KEY, legacy_init_op),
                    (constants.TRAIN_OP_KEY, train_op)):
        if op is None:
            continue
        if key != constants.TRAIN_OP_KEY:
            if not isinstance(op, ops.Operation):
                raise TypeError("%s needs to be an Operation: %r" % (key, op))
            if ops.get_collection(key):
                raise ValueError("graph already contains one or more ops under the collection %s." % key)
        ops.add_to_collection(key, op)


def _check_signatures(signatures):
    for signature in (signatures or {}).values():
        for infos in (signature.inputs, signature.outputs):
            for key, info in infos.items():
                if info.WhichOneof("encoding") is None:
                    raise AssertionError("All TensorInfo protos used in the SignatureDefs must have one of the 'encoding' "
                                         "fields: "
                                         "%s: %s" % (key, info))
                if info.dtype == 0:
                    raise AssertionError("All TensorInfo protos used in the SignatureDefs must have the dtype field set: %s: "
                                         "%s" %
                                         (key, info))


def _path_in(tensor):
    value = convert.constant_value(tensor)
    if value is None or value.dtype.kind not in "OS":
        raise TypeError("Asset path tensor must be a constant string: %s" % tensor)
    return value.item().decode()


def _free_name(name, source, taken):
    """Two files of one name become NAME and NAME_1."""
    unique, i = name, 0
    while taken.setdefault(unique, source) != source:
        i += 1
        unique = "%s_%d" % (name, i)
    return unique
