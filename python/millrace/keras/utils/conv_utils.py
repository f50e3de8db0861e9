"""Sizes and arguments of convolutions, by the path that programs import them from."""

from ...layers.utils import (conv_output_length, convert_data_format, deconv_output_length, normalize_data_format,  # noqa: F401
                             normalize_padding, normalize_tuple)
