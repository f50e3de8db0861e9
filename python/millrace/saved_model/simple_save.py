"""A model for prediction in one call."""
from . import signature_constants, tag_constants
from .builder import SavedModelBuilder
from .signature_def_utils import predict_signature_def


def simple_save(session, export_dir, inputs, outputs, legacy_init_op=None):
    """Writes the session's graph with one signature: {name: tensor} for what goes in and what comes out."""
    from ..framework import ops
    signature = predict_signature_def(inputs, outputs)
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session, tags=[tag_constants.SERVING],
        signature_def_map={signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
        assets_collection=session.graph.get_collection(ops.GraphKeys.ASSET_FILEPATHS), main_op=legacy_init_op,
        clear_devices=True)
    builder.save()
