"""The networks of the Visual Geometry Group: blocks of convolutions of three by three."""

import millrace as tf

from .. import backend as K
from ..engine.network import Input
from ..engine.training import Model
from ..utils.data_utils import get_file
from ..utils.layer_utils import get_source_inputs


def build(name, blocks, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation="softmax"):
    """blocks: how many convolutions each has."""
    layers = tf.keras.layers
    if weights == "imagenet" and include_top and classes != 1000:
        raise ValueError('If using `weights` as `"imagenet"` with `include_top` as true, `classes` should be 1000')
    first = K.image_data_format() == "channels_first"
    usual = (3, 224, 224) if first else (224, 224, 3)
    if include_top and input_shape is not None and weights == "imagenet" and tuple(input_shape) != usual:
        raise ValueError("When setting `include_top=True` and loading `imagenet` weights, `input_shape` should be %s." %
                         (usual,))
    shape = input_shape or (usual if include_top else ((3, None, None) if first else (None, None, 3)))
    image = input_tensor if input_tensor is not None and hasattr(input_tensor, "_keras_history") else Input(
        tensor=input_tensor) if input_tensor is not None else Input(shape=shape)
    x = image
    for b, n in enumerate(blocks):
        for c in range(n):
            x = layers.Conv2D(min(64 * 2 ** b, 512), (3, 3), activation="relu", padding="same",
                              name="block%d_conv%d" % (b + 1, c + 1))(x)
        x = layers.MaxPooling2D((2, 2), strides=(2, 2), name="block%d_pool" % (b + 1))(x)
    if include_top:
        x = layers.Flatten(name="flatten")(x)
        x = layers.Dense(4096, activation="relu", name="fc1")(x)
        x = layers.Dense(4096, activation="relu", name="fc2")(x)
        x = layers.Dense(classes, activation=classifier_activation, name="predictions")(x)
    elif pooling in ("avg", "max"):
        x = (layers.GlobalAveragePooling2D if pooling == "avg" else layers.GlobalMaxPooling2D)()(x)
    inputs = get_source_inputs(input_tensor) if input_tensor is not None and image is input_tensor else image
    model = Model(inputs[0] if isinstance(inputs, list) and len(inputs) == 1 else inputs, x, name=name)
    if weights == "imagenet":
        file = "%s_weights_tf_dim_ordering_tf_kernels%s.h5" % (name, "" if include_top else "_notop")
        origin = "https://storage.googleapis.com/tensorflow/keras-applications/%s/%s" % (name, file)
        model.load_weights(get_file(file, origin, cache_subdir="models"))
    elif weights is not None:
        model.load_weights(weights)
    return model
