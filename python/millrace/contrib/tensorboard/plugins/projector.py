"""Embeddings for TensorBoard's projector.

    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name = variable.name
    embedding.metadata_path = "labels.tsv"
    projector.visualize_embeddings(writer, config)
"""
import os

from ....file_io import write_string_to_file
from ....protos import EmbeddingInfo, ProjectorConfig, SpriteMetadata

__all__ = ["EmbeddingInfo", "ProjectorConfig", "SpriteMetadata", "visualize_embeddings"]
PROJECTOR_FILENAME = "projector_config.pbtxt"


def visualize_embeddings(summary_writer, config):
    """Writes the configuration beside the events of a FileWriter, where TensorBoard looks for it."""
    folder = summary_writer if isinstance(summary_writer, str) else summary_writer.get_logdir()
    if folder is None:
        raise ValueError("Summary writer must have a logdir")
    write_string_to_file(os.path.join(folder, PROJECTOR_FILENAME), str(config))
