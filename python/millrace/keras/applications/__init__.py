"""tf.keras.applications: the architectures of well-known networks."""

from ... import lazy as _lazy

__getattr__ = _lazy.attributes(__name__, {"VGG16": "vgg16", "VGG19": "vgg19"})
__dir__ = _lazy.listing(__name__, {"VGG16": "vgg16", "VGG19": "vgg19"})
