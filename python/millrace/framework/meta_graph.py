"""MetaGraphDefs: a graph with its collections and what is needed to save and restore it.

Members of collections that are objects of Python (variables, queue runners, contexts of control flow) are written as messages;
operations and tensors as their names.  What cannot be written is left out with a warning.
"""

import os

from .. import logging, protos, version
from . import graph_bytes, importer, op_defs, ops

_VARIABLE_COLLECTIONS = ("variables", "local_variables", "trainable_variables", "model_variables", "moving_average_variables",
                         "metric_variables", "trainable_resource_variables", "global_step")


def _writers(key):
    """(message class, to_proto, from_proto) for a collection; Nones if its members are not messages."""
    registered = ops._proto_functions.get(key)
    if registered is not None:
        return registered
    write = lambda member, export_scope=None: member.to_proto(export_scope=export_scope)
    if key in _VARIABLE_COLLECTIONS:
        from ..ops.variables import Variable
        return protos.VariableDef, write, Variable.from_proto
    if key in (ops.GraphKeys.COND_CONTEXT, ops.GraphKeys.WHILE_CONTEXT):
        from ..ops import contexts
        if key == ops.GraphKeys.COND_CONTEXT:
            return protos.CondContextDef, write, contexts.CondContext.from_proto
        return protos.WhileContextDef, write, contexts.WhileContext.from_proto
    if key == ops.GraphKeys.QUEUE_RUNNERS:
        from ..train import QueueRunner
        return protos.QueueRunnerDef, write, QueueRunner.from_proto
    if key == ops.GraphKeys.SAVERS:
        from ..train import Saver
        return protos.SaverDef, write, Saver.from_proto
    return None, None, None


# ---- export ----

def _is_under(name, scope):
    return not scope or name.startswith(scope.rstrip("/") + "/")


def _kind(x):
    if isinstance(x, (str, bytes)):
        return "bytes_list"
    if isinstance(x, protos.Any):
        return "any_list"
    if isinstance(x, bool):
        return "int64_list"
    return "int64_list" if isinstance(x, int) else "float_list" if isinstance(x, float) else "node_list"


def add_collection_def(meta_graph_def, key, graph=None, export_scope=None, exclude_nodes=None, override_contents=None):
    """Writes a collection into the message."""
    _refuse(exclude_nodes=exclude_nodes)
    graph = graph or ops.get_default_graph()
    members = override_contents if override_contents else graph.get_collection(key)
    if not members or not isinstance(key, str):
        return
    try:
        d = _collection_def(key, members, export_scope)
    except (TypeError, ValueError, AttributeError) as e:  # a member may be of any kind
        logging.warning("Issue encountered when serializing %s.\n"
                        "Type is unsupported, or the types of the items don't match field type in CollectionDef. "
                        "Note this is a warning and probably safe to ignore.\n%s", key, e)
        return
    meta_graph_def.collection_def[key].CopyFrom(d)


def _refuse(**given):
    """For arguments of TensorFlow's functions that nothing is done for here."""
    for name, value in given.items():
        if value:
            raise NotImplementedError("A MetaGraphDef with %s=%r" % (name, value))


def _collection_def(key, members, scope):
    d = protos.CollectionDef()
    _, to_proto, _ = _writers(key)
    if to_proto is not None:
        d.bytes_list.SetInParent()
        for x in members:
            message = to_proto(x, export_scope=scope)
            if message is not None:
                d.bytes_list.value.append(message.SerializeToString())
        return d
    kind = _kind(members[0])
    values = getattr(d, kind).value
    for x in members:
        if kind == "node_list":
            if _is_under(x.name, scope):
                values.append(ops.strip_name_scope(x.name, scope))
        elif kind == "any_list":
            values.add().CopyFrom(x)
        else:
            values.append(x.encode() if isinstance(x, str) else x)
    return d


def _used_ops(graph_def, graph):
    """The definitions of the ops that nodes, those of functions too, are of."""
    own = {f.signature.name for f in graph_def.library.function}
    used = graph_bytes.node_ops(graph_def.SerializeToString()) | {n.op for f in graph_def.library.function for n in f.node_def}
    out = protos.OpList()
    for name in sorted(used - own):
        d = protos.OpDef()
        d.CopyFrom(op_defs.op_def(name, graph))
        d.ClearField("summary")
        d.ClearField("description")
        out.op.add().CopyFrom(d)
    return out


def stripped_op_list_for_graph(graph_def):
    return _used_ops(graph_def, None)


def _strip_defaults(graph_def):
    """Removes attrs that have the value that is meant without them."""
    known = op_defs.op_types().values()
    for node in list(graph_def.node) + [n for f in graph_def.library.function for n in f.node_def]:
        if node.op not in known:
            continue
        for a in op_defs.op_def(node.op).attr:
            if a.HasField("default_value") and a.name in node.attr and node.attr[a.name] == a.default_value:
                del node.attr[a.name]


def _scoped_graph_def(graph_def, scope, unbound):
    """The nodes under a scope, without its name; inputs from outside are named by the scope's own placeholders."""
    out = protos.GraphDef()
    out.versions.CopyFrom(graph_def.versions)
    out.library.CopyFrom(graph_def.library)
    for node in graph_def.node:
        if not _is_under(node.name, scope):
            continue
        copy = out.node.add()
        copy.CopyFrom(node)
        copy.name = ops.strip_name_scope(node.name, scope)
        for i, name in enumerate(node.input):
            plain = name.lstrip("^")
            if _is_under(plain, scope):
                copy.input[i] = ops.strip_name_scope(name, scope)
            else:
                copy.input[i] = ("^" if name.startswith("^") else "") + "$unbound_inputs_" + plain
                unbound.append(plain)
        if "_class" in copy.attr:
            inside = [ops.strip_name_scope(c.decode(), scope).encode() for c in copy.attr["_class"].list.s
                      if _is_under(c.decode()[len("loc:@"):], scope)]
            del copy.attr["_class"].list.s[:]
            copy.attr["_class"].list.s.extend(inside)
    return out


def create_meta_graph_def(meta_info_def=None, graph_def=None, saver_def=None, collection_list=None, graph=None,
                          export_scope=None, exclude_nodes=None, clear_extraneous_savers=False, strip_default_attrs=False):
    """The MetaGraphDef of a graph, or of a GraphDef that was made of it."""
    _refuse(exclude_nodes=exclude_nodes)
    graph = graph or ops.get_default_graph()
    m = protos.MetaGraphDef()
    if meta_info_def is not None:
        m.meta_info_def.CopyFrom(meta_info_def)
    m.graph_def.CopyFrom(graph.as_graph_def(add_shapes=True) if graph_def is None else graph_def)
    if strip_default_attrs:
        _strip_defaults(m.graph_def)
    m.meta_info_def.tensorflow_version = version.VERSION
    m.meta_info_def.tensorflow_git_version = version.GIT_VERSION
    m.meta_info_def.stripped_default_attrs = bool(strip_default_attrs)
    if not m.meta_info_def.HasField("stripped_op_list"):
        m.meta_info_def.stripped_op_list.CopyFrom(_used_ops(m.graph_def, graph))
    if saver_def is not None:
        m.saver_def.CopyFrom(saver_def)
    for key in (graph.get_all_collection_keys() if collection_list is None else collection_list):
        if clear_extraneous_savers and key == ops.GraphKeys.SAVERS:
            continue
        if key == ops.GraphKeys.SAVEABLE_OBJECTS:  # objects that no message holds; what a saver does with them is in the graph
            continue
        add_collection_def(m, key, graph, export_scope)
    return m


def export_scoped_meta_graph(filename=None, graph_def=None, graph=None, export_scope=None, as_text=False,
                             unbound_inputs_col_name="unbound_inputs", clear_devices=False, saver_def=None,
                             clear_extraneous_savers=False, strip_default_attrs=False, save_debug_info=False, **kwargs):
    """(the MetaGraphDef, the variables in it by their names); of a scope's part when export_scope is given."""
    _refuse(save_debug_info=save_debug_info)
    graph = graph or ops.get_default_graph()
    exported = graph_def if graph_def is not None else graph.as_graph_def(add_shapes=True)
    unbound = []
    if export_scope:
        exported = _scoped_graph_def(exported, export_scope, unbound)
        if unbound and unbound_inputs_col_name:
            graph.clear_collection(unbound_inputs_col_name)
            for name in dict.fromkeys(unbound):
                graph.add_to_collection(unbound_inputs_col_name, name)
    if clear_devices:
        exported = _without_devices(exported)
    m = create_meta_graph_def(graph_def=exported, graph=graph, export_scope=export_scope, saver_def=saver_def,
                              clear_extraneous_savers=clear_extraneous_savers, strip_default_attrs=strip_default_attrs,
                              **kwargs)
    if filename:
        write(m, filename, as_text)
    variables = {ops.strip_name_scope(v.name, export_scope): v
                 for v in graph.get_collection(ops.GraphKeys.GLOBAL_VARIABLES) if _is_under(v.name, export_scope)}
    return m, variables


def _without_devices(graph_def):
    copy = protos.GraphDef()
    copy.CopyFrom(graph_def)
    for node in copy.node:
        node.device = ""
    return copy


def write(message, filename, as_text=False):
    """Writes a message to a file atomically, through a temporary file."""
    folder = os.path.dirname(filename)
    if folder:
        os.makedirs(folder, exist_ok=True)
    part = "%s.tmp%d" % (filename, os.getpid())
    with open(part, "wb") as f:
        f.write(str(message).encode() if as_text else message.SerializeToString())
    os.replace(part, filename)


def export_meta_graph(filename=None, meta_info_def=None, graph_def=None, saver_def=None, collection_list=None, as_text=False,
                      graph=None, export_scope=None, clear_devices=False, clear_extraneous_savers=False,
                      strip_default_attrs=False, save_debug_info=False, **kwargs):
    """tf.train.export_meta_graph: the MetaGraphDef, written to a file when one is given."""
    return export_scoped_meta_graph(
        filename=filename, meta_info_def=meta_info_def, graph_def=graph_def, saver_def=saver_def,
        collection_list=collection_list, as_text=as_text, graph=graph, export_scope=export_scope, clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers, strip_default_attrs=strip_default_attrs,
        save_debug_info=save_debug_info, **kwargs)[0]


# ---- import ----

def read_meta_graph_file(filename):
    """The MetaGraphDef in a file, binary or text."""
    if not os.path.exists(filename):
        raise IOError("File %s does not exist." % filename)
    with open(filename, "rb") as f:
        data = f.read()
    try:
        return protos.MetaGraphDef.FromString(data)
    except protos.DecodeError as binary:
        from ..proto import text_format
        try:
            return text_format.Parse(data.decode(), protos.MetaGraphDef())
        except (text_format.ParseError, UnicodeDecodeError):
            raise IOError("Cannot parse file %s: %s" % (filename, binary)) from None


def import_scoped_meta_graph(meta_graph_or_file, clear_devices=False, graph=None, import_scope=None, input_map=None,
                             unbound_inputs_col_name="unbound_inputs", restore_collections_predicate=lambda key: True):
    """The variables that a MetaGraphDef brings into the graph, by their names."""
    return import_scoped_meta_graph_with_return_elements(
        meta_graph_or_file, clear_devices, graph, import_scope, input_map, unbound_inputs_col_name,
        restore_collections_predicate)[0]


def import_scoped_meta_graph_with_return_elements(meta_graph_or_file, clear_devices=False, graph=None, import_scope=None,
                                                  input_map=None, unbound_inputs_col_name="unbound_inputs",
                                                  restore_collections_predicate=lambda key: True, return_elements=None):
    m = meta_graph_or_file if isinstance(meta_graph_or_file, protos.MetaGraphDef) else read_meta_graph_file(meta_graph_or_file)
    graph = graph or ops.get_default_graph()
    with graph.as_default():
        producer = m.meta_info_def.stripped_op_list if m.meta_info_def.HasField("stripped_op_list") else None
        graph_def = _without_devices(m.graph_def) if clear_devices else m.graph_def
        bound = _bound_inputs(m, input_map, unbound_inputs_col_name)
        # Where it will be, which is another scope when the name is taken.
        full = graph.unique_name(import_scope or "", mark_as_used=False).rstrip("/")
        elements = importer.import_graph_def(graph_def, name=import_scope or (full + "/" if full else ""), input_map=bound,
                                             producer_op_list=producer, return_elements=return_elements)
        _restore_collections(m, graph, full, unbound_inputs_col_name, restore_collections_predicate)
        prefix = full + "/" if full else ""
        variables = {ops.strip_name_scope(v.name, full): v
                     for v in graph.get_collection(ops.GraphKeys.GLOBAL_VARIABLES, scope=prefix or None)}
    return variables, elements


def _bound_inputs(m, input_map, column):
    if not column or column not in m.collection_def:
        return input_map
    names = [v.decode() for v in m.collection_def[column].bytes_list.value]
    given = input_map or {}
    missing = [n for n in names if "$unbound_inputs_" + n not in given and n not in given]
    if missing:
        raise ValueError("Graph contains unbound inputs: %s. Must provide these inputs through input_map." % ",".join(missing))
    return {k if k.startswith("$unbound_inputs_") or k not in names else "$unbound_inputs_" + k: v for k, v in given.items()}


def _restore_collections(m, graph, scope, unbound_name, wanted):
    known = {}  # one object for a variable that is in several collections
    for key, d in sorted(m.collection_def.items()):
        kind = d.WhichOneof("kind")
        if key == unbound_name or not wanted(key):
            continue
        if kind is None:
            logging.error("Cannot identify data type for collection %s. Skipping.", key)
            continue
        values = getattr(d, kind).value
        message, _, from_proto = _writers(key) if kind == "bytes_list" else (None, None, None)
        for value in values:
            if from_proto is not None:
                member = known.get((message, value))
                if member is None:
                    member = known[message, value] = from_proto(message.FromString(value), import_scope=scope or None)
            elif kind == "node_list":
                member = graph.as_graph_element(ops.prepend_name_scope(value, scope))
            else:
                member = int(value) if kind == "int64_list" else value
            graph.add_to_collection(key, member)


def import_meta_graph(meta_graph_or_file, clear_devices=False, import_scope=None, **kwargs):
    """tf.train.import_meta_graph: adds the graph to the default one; the Saver for it, or None when it has no variables."""
    m = meta_graph_or_file if isinstance(meta_graph_or_file, protos.MetaGraphDef) else read_meta_graph_file(meta_graph_or_file)
    variables, elements = import_scoped_meta_graph_with_return_elements(m, clear_devices, import_scope=import_scope, **kwargs)
    saver = _saver(m, import_scope, variables)
    return (saver, elements) if kwargs.get("return_elements") is not None else saver


def _saver(m, import_scope, variables):
    from ..train import Saver
    if m.HasField("saver_def"):
        return Saver(saver_def=m.saver_def, name=import_scope)
    if variables or ops.get_collection(ops.GraphKeys.SAVEABLE_OBJECTS, import_scope):
        return Saver()
    logging.info("Saver not created because there are no variables in the graph to restore")
    return None
