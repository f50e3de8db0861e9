"""The network of 19 layers with weights."""

from .imagenet_utils import decode_predictions, preprocess_input  # noqa: F401
from .vgg import build


def VGG19(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000):  # noqa: N802
    """weights: None for new ones, a path, or "imagenet" for those in ~/.keras/models."""
    return build("vgg19", (2, 2, 4, 4, 4), include_top, weights, input_tensor, input_shape, pooling, classes)
