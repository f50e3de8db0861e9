"""tf.keras.layers"""

import importlib as _importlib

from ... import lazy as _lazy

_MODULES = {
    "core": "Activation ActivityRegularization Dense Dropout Flatten Lambda Masking Permute RepeatVector Reshape "
            "SpatialDropout1D SpatialDropout2D SpatialDropout3D",
    "convolutional": "Conv1D Conv2D Conv2DTranspose Conv3D Conv3DTranspose Cropping1D Cropping2D Cropping3D DepthwiseConv2D "
                     "LocallyConnected1D LocallyConnected2D SeparableConv1D SeparableConv2D UpSampling1D UpSampling2D "
                     "UpSampling3D ZeroPadding1D ZeroPadding2D ZeroPadding3D",
    "pooling": "AveragePooling1D AveragePooling2D AveragePooling3D GlobalAveragePooling1D GlobalAveragePooling2D "
               "GlobalAveragePooling3D GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D MaxPooling1D MaxPooling2D "
               "MaxPooling3D",
    "normalization": "BatchNormalization LayerNormalization",
    "advanced_activations": "ELU LeakyReLU PReLU ReLU Softmax ThresholdedReLU",
    "embeddings": "Embedding",
    "merge": "Add Average Concatenate Dot Maximum Minimum Multiply Subtract",
    "noise": "AlphaDropout GaussianDropout GaussianNoise",
    "cudnn_recurrent": "CuDNNGRU CuDNNLSTM",
    "recurrent": "AbstractRNNCell GRU GRUCell LSTM LSTMCell RNN SimpleRNN SimpleRNNCell StackedRNNCells",
    "conv_recurrent": "ConvLSTM2D ConvLSTM2DCell",
    "attention": "AdditiveAttention Attention",
    "wrappers": "Bidirectional TimeDistributed Wrapper",
}
_ALIASES = {"Convolution1D": "Conv1D", "Convolution2D": "Conv2D", "Convolution3D": "Conv3D",
            "Convolution2DTranspose": "Conv2DTranspose", "Convolution3DTranspose": "Conv3DTranspose",
            "SeparableConvolution1D": "SeparableConv1D", "Deconvolution2D": "Conv2DTranspose",
            "SeparableConvolution2D": "SeparableConv2D", "MaxPool1D": "MaxPooling1D", "MaxPool2D": "MaxPooling2D",
            "MaxPool3D": "MaxPooling3D", "AvgPool1D": "AveragePooling1D", "AvgPool2D": "AveragePooling2D",
            "AvgPool3D": "AveragePooling3D", "GlobalAvgPool1D": "GlobalAveragePooling1D",
            "GlobalAvgPool2D": "GlobalAveragePooling2D", "GlobalAvgPool3D": "GlobalAveragePooling3D",
            "GlobalMaxPool1D": "GlobalMaxPooling1D", "GlobalMaxPool2D": "GlobalMaxPooling2D",
            "GlobalMaxPool3D": "GlobalMaxPooling3D", "Deconvolution3D": "Conv3DTranspose"}

_WHERE = {n: m for m, names in _MODULES.items() for n in names.split()}
_LATER = dict(_WHERE)
_LATER.update((alias, _WHERE[n] + ":" + n) for alias, n in _ALIASES.items())
_LATER.update((n, "merge") for n in "add average concatenate dot maximum minimum multiply subtract".split())
_lazily = _lazy.attributes(__name__, _LATER)
_ENGINE = {"Input": "network", "InputLayer": "network", "InputSpec": "base_layer", "Layer": "base_layer"}
_ALL = {**_LATER, **_ENGINE, "serialize": "serialization", "deserialize": "serialization"}
__dir__ = _lazy.listing(__name__, _ALL)


def __getattr__(name):
    if name == "__all__":
        return _lazy.exported(__name__, _ALL)
    if name in _ENGINE:
        return getattr(_importlib.import_module("..engine." + _ENGINE[name], __name__), name)
    if name in ("serialize", "deserialize"):
        return getattr(_importlib.import_module(".serialization", __name__), name)
    return _lazily(name)


def all_layers():
    """{name: class} of all layers here."""
    return {n: getattr(_importlib.import_module("." + m, __name__), n) for n, m in _WHERE.items()}
