"""tf.layers: layers as functions and as classes, with TensorFlow 1.x's names of variables."""

from . import base, convolutional, core, normalization, pooling, utils
from .base import InputSpec, Layer
from .convolutional import (Conv1D, Conv2D, Conv2DTranspose, Conv3D, Conv3DTranspose, SeparableConv1D, SeparableConv2D, conv1d,
                            conv2d, conv2d_transpose, conv3d, conv3d_transpose, separable_conv1d, separable_conv2d)
from .convolutional import (Convolution1D, Convolution2D, Convolution2DTranspose, Convolution3D, Convolution3DTranspose,
                            Deconv2D, Deconv3D, SeparableConvolution1D, SeparableConvolution2D, convolution1d, convolution2d,
                            convolution2d_transpose, convolution3d, convolution3d_transpose, deconv2d, deconv3d,
                            separable_convolution2d)
from .core import Dense, Dropout, Flatten, dense, dropout, flatten, fully_connected
from .normalization import BatchNormalization, batch_norm, batch_normalization
from .pooling import (AveragePooling1D, AveragePooling2D, AveragePooling3D, MaxPooling1D, MaxPooling2D, MaxPooling3D,
                      average_pooling1d, average_pooling2d, average_pooling3d, max_pooling1d, max_pooling2d, max_pooling3d)


def __getattr__(name):
    raise AttributeError("module 'tf.layers' has no attribute %r" % name)
