"""Plugins of TensorBoard: the projector of embeddings."""
from . import projector  # noqa: F401
