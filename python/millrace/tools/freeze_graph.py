"""A graph and a checkpoint in one file: variables become constants.

    millrace python -m millrace.tools.freeze_graph --input_graph=graph.pb --input_checkpoint=model.ckpt \\
        --output_node_names=softmax --output_graph=frozen.pb
"""
from .. import graph_util, protos
from ..file_io import FileIO, file_exists
from ..framework import ops
from ..framework.importer import import_graph_def
from ..framework.op_defs import raw
from ..framework.session import Session


def read_message(kind, path, binary):
    """A message from a file, in text form unless it is binary."""
    if not path or not file_exists(path):
        raise FileNotFoundError("Input file '%s' does not exist!" % path)
    with FileIO(path, "rb" if binary else "r") as f:
        data = f.read()
    return kind.FromString(data) if binary else protos.text_format.Parse(data, kind())


def _names(text):
    return [n.strip() for n in (text or "").split(",") if n.strip()]


def _restore(sess, checkpoint, saver_def, restore_op_name, filename_tensor_name):
    """Gives the variables of the session's graph the values of a checkpoint: by the saver that is given, by the graph's own,
    else by their names.
    """
    if saver_def is not None:
        from ..train import Saver
        Saver(saver_def=saver_def).restore(sess, checkpoint)
        return
    restore, filename = restore_op_name or "save/restore_all", filename_tensor_name or "save/Const:0"
    if sess.graph.has_op(restore) and sess.graph.has_op(filename.partition(":")[0]):
        sess.run(restore, {filename: checkpoint})
        return
    from ..train import NewCheckpointReader
    reader = NewCheckpointReader(checkpoint)
    there, assigns, feeds = reader.get_variable_to_shape_map(), [], {}
    for op in sess.graph.get_operations():
        if op.name not in there:
            continue
        value = reader.get_tensor(op.name)
        if op.type in ("Variable", "VariableV2"):
            feed = raw.placeholder(op.outputs[0].dtype.base_dtype)
            assigns.append(raw.assign(op.outputs[0], feed, validate_shape=False).op)
        elif op.type == "VarHandleOp":
            feed = raw.placeholder(op.get_attr("dtype"))
            assigns.append(raw.assign_variable_op(op.outputs[0], feed))
        else:
            continue
        feeds[feed] = value
    if assigns:
        sess.run(assigns, feeds)


def freeze_graph_with_def_protos(input_graph_def, input_saver_def, input_checkpoint, output_node_names, restore_op_name=None,
                                 filename_tensor_name=None, output_graph=None, clear_devices=True, initializer_nodes=None,
                                 variable_names_whitelist="", variable_names_blacklist="", input_meta_graph_def=None,
                                 input_saved_model_dir=None, saved_model_tags=None, checkpoint_version=2):
    """The frozen GraphDef; it is written to output_graph if that is given.  Checkpoints of both versions are read."""
    if checkpoint_version not in (1, 2):
        raise ValueError("checkpoint_version must be 1 or 2, got %r" % (checkpoint_version,))
    if not _names(output_node_names):
        raise ValueError("You need to supply the name of a node to --output_node_names.")
    with ops.Graph().as_default() as graph, Session(graph=graph) as sess:
        if input_saved_model_dir:
            from ..saved_model import loader
            tags = _names(saved_model_tags) if isinstance(saved_model_tags, str) else saved_model_tags
            graph_def = _copied(loader.load(sess, tags, input_saved_model_dir).graph_def, clear_devices)
        else:
            whole = input_meta_graph_def.graph_def if input_meta_graph_def is not None else input_graph_def
            graph_def = _copied(whole, clear_devices)
            import_graph_def(graph_def, name="")
        if initializer_nodes:
            sess.run([graph.as_graph_element(n) for n in _names(initializer_nodes)])
        if input_checkpoint and not input_saved_model_dir:
            _restore(sess, input_checkpoint, input_saver_def, restore_op_name, filename_tensor_name)
        frozen = graph_util.convert_variables_to_constants(
            sess, graph_def, _names(output_node_names), _names(variable_names_whitelist) or None,
            _names(variable_names_blacklist) or None)
    if output_graph:
        with FileIO(output_graph, "wb") as f:
            f.write(frozen.SerializeToString())
    return frozen


def _copied(graph_def, clear_devices):
    copy = protos.GraphDef()
    copy.CopyFrom(graph_def)
    if clear_devices:
        for node in copy.node:
            node.device = ""
    return copy


def freeze_graph(input_graph, input_saver, input_binary, input_checkpoint, output_node_names, restore_op_name,
                 filename_tensor_name, output_graph, clear_devices, initializer_nodes, variable_names_whitelist="",
                 variable_names_blacklist="", input_meta_graph=None, input_saved_model_dir=None, saved_model_tags="serve",
                 checkpoint_version=2):
    """The same from files: a GraphDef, a MetaGraphDef, or the folder of a SavedModel."""
    def read(kind, path):
        return read_message(kind, path, input_binary) if path else None
    graph_def, meta_graph_def = read(protos.GraphDef, input_graph), read(protos.MetaGraphDef, input_meta_graph)
    if graph_def is None and meta_graph_def is None and not input_saved_model_dir:
        raise ValueError("freeze_graph needs input_graph, input_meta_graph or input_saved_model_dir")
    return freeze_graph_with_def_protos(
        graph_def, read(protos.SaverDef, input_saver), input_checkpoint, output_node_names, restore_op_name,
        filename_tensor_name, output_graph, clear_devices, initializer_nodes, variable_names_whitelist,
        variable_names_blacklist, meta_graph_def, input_saved_model_dir, saved_model_tags, checkpoint_version)


def main(unused):
    from ..flags import FLAGS
    freeze_graph(FLAGS.input_graph, FLAGS.input_saver, FLAGS.input_binary, FLAGS.input_checkpoint, FLAGS.output_node_names,
                 FLAGS.restore_op_name, FLAGS.filename_tensor_name, FLAGS.output_graph, FLAGS.clear_devices,
                 FLAGS.initializer_nodes, FLAGS.variable_names_whitelist, FLAGS.variable_names_blacklist,
                 FLAGS.input_meta_graph, FLAGS.input_saved_model_dir, FLAGS.saved_model_tags)


if __name__ == "__main__":
    from .. import app, flags
    for _name, _help in (("input_graph", "GraphDef"), ("input_saver", "SaverDef"), ("input_checkpoint", "Checkpoint"),
                         ("output_graph", "File to write"), ("output_node_names", "Names of nodes, with commas"),
                         ("initializer_nodes", "Nodes to run first"),
                         ("restore_op_name", "The op that restores"), ("filename_tensor_name", "What it reads"),
                         ("variable_names_whitelist", "Only these"), ("variable_names_blacklist", "Not these"),
                         ("input_meta_graph", "MetaGraphDef"), ("input_saved_model_dir", "Folder of a SavedModel")):
        flags.DEFINE_string(_name, "", _help)
    flags.DEFINE_string("saved_model_tags", "serve", "Tags of the graph in a SavedModel")
    flags.DEFINE_boolean("input_binary", False, "The input files are not text")
    flags.DEFINE_boolean("clear_devices", True, "Forget devices")
    app.run(main=main)
