"""The network of 16 layers with weights."""

from .imagenet_utils import decode_predictions, preprocess_input  # noqa: F401
from .vgg import build


def VGG16(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000):  # noqa: N802
    """weights: None for new ones, a path, or "imagenet" for those in ~/.keras/models."""
    return build("vgg16", (2, 2, 3, 3, 3), include_top, weights, input_tensor, input_shape, pooling, classes)
