"""Functions that are an op and nothing more, written by tools/python-ops from the registry of ops.  Do not edit.

Modules of the package take theirs from here: ops.math, ops.array, nn, image, strings, bitwise, linalg and quantization.
"""

from ..framework import dtypes as _dtypes
from ..framework.op_defs import call as _call


def acos(x, name=None):
    """inverse cosine of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, int8, int16, int32, int64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Acos", name, x=x)


def acosh(x, name=None):
    """inverse hyperbolic cosine of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Acosh", name, x=x)


def add(x, y, name=None):
    """x + y, element by element; joins strings

    Args:
        x: a tensor of bfloat16, float16, float32, float64, uint8, int8, int16, int32, int64, complex64, complex128 or
            string
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Add", name, x=x, y=y)


def add_v2(x, y, name=None):
    """x + y, element by element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
            complex64 or complex128
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("AddV2", name, x=x, y=y)


def approximate_equal(x, y, tolerance=9.999999747378752e-06, name=None):
    """whether |x - y| < tolerance, element by element

    Args:
        x: a tensor of float32, float64, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16,
            uint16, complex128, float16, uint32 or uint64
        y: a tensor of the type of x
        tolerance: a float
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("ApproximateEqual", name, x=x, y=y, tolerance=tolerance)


def as_string(input, precision=-1, scientific=False, shortest=False, width=-1, fill='', name=None):
    """numbers as printf writes them

    Args:
        input: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32,
            uint64, complex64, complex128, bool or variant
        precision: an int
        scientific: a bool
        shortest: a bool
        width: an int
        fill: a string
        name: the name of the operation

    Returns:
        A tensor of type string.
    """
    return _call("AsString", name, input=input, precision=precision, scientific=scientific, shortest=shortest,
                 width=width, fill=fill)


def asin(x, name=None):
    """inverse sine of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, int8, int16, int32, int64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Asin", name, x=x)


def asinh(x, name=None):
    """inverse hyperbolic sine of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Asinh", name, x=x)


def atan(x, name=None):
    """inverse tangent of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, int8, int16, int32, int64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Atan", name, x=x)


def atan2(y, x, name=None):
    """the direction of the point (x, y) as seen from (0, 0), between -pi and pi

    Args:
        y: a tensor of bfloat16, float16, float32 or float64
        x: a tensor of the type of y
        name: the name of the operation

    Returns:
        A tensor of the type of y.
    """
    return _call("Atan2", name, y=y, x=x)


def atanh(x, name=None):
    """inverse hyperbolic tangent of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Atanh", name, x=x)


def batch_matmul(x, y, adj_x=False, adj_y=False, name=None):
    """products of the matrices in the last two dimensions; the dimensions before are equal

    Args:
        x: a tensor of bfloat16, float16, float32, float64, int32, int64, complex64 or complex128
        y: a tensor of the type of x
        adj_x: a bool
        adj_y: a bool
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("BatchMatMul", name, x=x, y=y, adj_x=adj_x, adj_y=adj_y)


def batch_to_space_nd(input, block_shape, crops, name=None):
    """the reverse of SpaceToBatchND; crops what it padded

    Args:
        input: a tensor of any type
        block_shape: a tensor of int32 or int64
        crops: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("BatchToSpaceND", name, input=input, block_shape=block_shape, crops=crops)


def bessel_i0e(x, name=None):
    """exp(-|x|) I_0(x) of each element

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("BesselI0e", name, x=x)


def bessel_i1e(x, name=None):
    """exp(-|x|) I_1(x) of each element

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("BesselI1e", name, x=x)


def betainc(a, b, x, name=None):
    """the regularized incomplete beta function I_x(a, b); scalars serve all elements

    Args:
        a: a tensor of float32 or float64
        b: a tensor of the type of a
        x: a tensor of the type of a
        name: the name of the operation

    Returns:
        A tensor of the type of a.
    """
    return _call("Betainc", name, a=a, b=b, x=x)


def bitcast(input, type, name=None):
    """the same bytes, seen as another type

    Args:
        input: a tensor of bfloat16, float16, float32, float64, int64, int32, uint8, uint16, uint32, uint64, int8,
            int16, complex64, complex128, qint8, quint8, qint16, quint16 or qint32
        type: a type: bfloat16, float16, float32, float64, int64, int32, uint8, uint16, uint32, uint64, int8, int16,
            complex64, complex128, qint8, quint8, qint16, quint16 or qint32
        name: the name of the operation

    Returns:
        A tensor of type type.
    """
    return _call("Bitcast", name, input=input, type=type)


def bitwise_and(x, y, name=None):
    """the bits that are set in x and y, element by element

    Args:
        x: a tensor of int8, int16, int32, int64, uint8, uint16, uint32 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("BitwiseAnd", name, x=x, y=y)


def bitwise_or(x, y, name=None):
    """the bits that are set in x or y, element by element

    Args:
        x: a tensor of int8, int16, int32, int64, uint8, uint16, uint32 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("BitwiseOr", name, x=x, y=y)


def bitwise_xor(x, y, name=None):
    """the bits that differ between x and y, element by element

    Args:
        x: a tensor of int8, int16, int32, int64, uint8, uint16, uint32 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("BitwiseXor", name, x=x, y=y)


def broadcast_to(input, shape, name=None):
    """the input repeated to have this shape, by NumPy's rule

    Args:
        input: a tensor of any type
        shape: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("BroadcastTo", name, input=input, shape=shape)


def ceil(x, name=None):
    """smallest integer not below each element

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Ceil", name, x=x)


def check_numerics(tensor, message, name=None):
    """its input; an error if an element is infinite or not a number

    Args:
        tensor: a tensor of bfloat16, float16, float32 or float64
        message: a string
        name: the name of the operation

    Returns:
        A tensor of the type of tensor.
    """
    return _call("CheckNumerics", name, tensor=tensor, message=message)


def cholesky(input, name=None):
    """lower triangles L with A = L L^H, for positive definite matrices A in the last two dimensions; the part above
    their diagonal is not read

    Args:
        input: a tensor of float64, float32, float16, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("Cholesky", name, input=input)


def cos(x, name=None):
    """cosine of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Cos", name, x=x)


def cosh(x, name=None):
    """hyperbolic cosine of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Cosh", name, x=x)


def cross(a, b, name=None):
    """the cross products of the vectors of three in the last dimension

    Args:
        a: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32 or uint64
        b: a tensor of the type of a
        name: the name of the operation

    Returns:
        A tensor of the type of a.
    """
    return _call("Cross", name, a=a, b=b)


def data_format_dim_map(x, src_format='NHWC', dst_format='NCHW', name=None):
    """converts dimension indices from one layout to another

    Args:
        x: a tensor of int32 or int64
        src_format: a string
        dst_format: a string
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("DataFormatDimMap", name, x=x, src_format=src_format, dst_format=dst_format)


def data_format_vec_permute(x, src_format='NHWC', dst_format='NCHW', name=None):
    """permutes a list of numbers, or of pairs, one per dimension, from one layout to another

    Args:
        x: a tensor of int32 or int64
        src_format: a string
        dst_format: a string
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("DataFormatVecPermute", name, x=x, src_format=src_format, dst_format=dst_format)


def decode_and_crop_jpeg(contents, crop_window, channels=0, ratio=1, fancy_upscaling=True, try_recover_truncated=False,
                         acceptable_fraction=1.0, dct_method='', name=None):
    """a part of a JPEG file: crop_window is [y, x, height, width]

    Args:
        contents: a tensor of type string
        crop_window: a tensor of type int32
        channels: an int
        ratio: an int
        fancy_upscaling: a bool
        try_recover_truncated: a bool
        acceptable_fraction: a float
        dct_method: a string
        name: the name of the operation

    Returns:
        A tensor of type uint8.
    """
    return _call("DecodeAndCropJpeg", name, contents=contents, crop_window=crop_window, channels=channels, ratio=ratio,
                 fancy_upscaling=fancy_upscaling, try_recover_truncated=try_recover_truncated,
                 acceptable_fraction=acceptable_fraction, dct_method=dct_method)


def decode_base64(input, name=None):
    """decodes URL-safe base64, padded or not

    Args:
        input: a tensor of type string
        name: the name of the operation

    Returns:
        A tensor of type string.
    """
    return _call("DecodeBase64", name, input=input)


def decode_bmp(contents, channels=0, name=None):
    """the pixels of a BMP file: [height, width, channels]

    Args:
        contents: a tensor of type string
        channels: an int
        name: the name of the operation

    Returns:
        A tensor of type uint8.
    """
    return _call("DecodeBmp", name, contents=contents, channels=channels)


def decode_gif(contents, name=None):
    """the frames of a GIF file (or a PNG or JPEG as one): [frames, height, width, 3]

    Args:
        contents: a tensor of type string
        name: the name of the operation

    Returns:
        A tensor of type uint8.
    """
    return _call("DecodeGif", name, contents=contents)


def decode_jpeg(contents, channels=0, ratio=1, fancy_upscaling=True, try_recover_truncated=False,
                acceptable_fraction=1.0, dct_method='', name=None):
    """the pixels of a JPEG file (or of a PNG, or a GIF of one frame): [height, width, channels]

    Args:
        contents: a tensor of type string
        channels: an int
        ratio: an int
        fancy_upscaling: a bool
        try_recover_truncated: a bool
        acceptable_fraction: a float
        dct_method: a string
        name: the name of the operation

    Returns:
        A tensor of type uint8.
    """
    return _call("DecodeJpeg", name, contents=contents, channels=channels, ratio=ratio, fancy_upscaling=fancy_upscaling,
                 try_recover_truncated=try_recover_truncated, acceptable_fraction=acceptable_fraction,
                 dct_method=dct_method)


def decode_png(contents, channels=0, dtype=_dtypes.uint8, name=None):
    """the pixels of a PNG file (or of a JPEG, or a GIF of one frame): [height, width, channels]

    Args:
        contents: a tensor of type string
        channels: an int
        dtype: a type: uint8 or uint16
        name: the name of the operation

    Returns:
        A tensor of type dtype.
    """
    return _call("DecodePng", name, contents=contents, channels=channels, dtype=dtype)


def dequantize(input, min_range, max_range, mode='MIN_COMBINED', narrow_range=False, axis=-1, dtype=_dtypes.float32,
               name=None):
    """converts codes to floats in the range that they represent

    Args:
        input: a tensor of qint8, quint8, qint32, qint16 or quint16
        min_range: a tensor of type float32
        max_range: a tensor of type float32
        mode: a string: "MIN_COMBINED", "MIN_FIRST" or "SCALED"
        narrow_range: a bool
        axis: an int
        dtype: a type: bfloat16 or float32
        name: the name of the operation

    Returns:
        A tensor of type dtype.
    """
    return _call("Dequantize", name, input=input, min_range=min_range, max_range=max_range, mode=mode,
                 narrow_range=narrow_range, axis=axis, dtype=dtype)


def diag(diagonal, name=None):
    """a tensor of twice the rank with these elements where its first indices are its last

    Args:
        diagonal: a tensor of bfloat16, float16, float32, float64, int32, int64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of diagonal.
    """
    return _call("Diag", name, diagonal=diagonal)


def diag_part(input, name=None):
    """the elements of a tensor whose first indices are their last

    Args:
        input: a tensor of bfloat16, float16, float32, float64, int32, int64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("DiagPart", name, input=input)


def digamma(x, name=None):
    """the derivative of log Gamma(x) of each element

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Digamma", name, x=x)


def dynamic_partition(data, partitions, num_partitions, name=None):
    """the rows of data dealt out by the number of their partition

    Args:
        data: a tensor of any type
        partitions: a tensor of type int32
        num_partitions: an int, at least 1
        name: the name of the operation

    Returns:
        A list of tensors of the type of data.
    """
    return _call("DynamicPartition", name, data=data, partitions=partitions, num_partitions=num_partitions)


def dynamic_stitch(indices, data, name=None):
    """rows put at their indices; of several for one place the last one counts

    Args:
        indices: a list of tensors of type int32
        data: a list of tensors of any type
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("DynamicStitch", name, indices=indices, data=data)


def encode_base64(input, pad=False, name=None):
    """encodes strings as URL-safe base64, with = at the end if pad is set

    Args:
        input: a tensor of type string
        pad: a bool
        name: the name of the operation

    Returns:
        A tensor of type string.
    """
    return _call("EncodeBase64", name, input=input, pad=pad)


def encode_jpeg(image, format='', quality=95, progressive=False, optimize_size=False, chroma_downsampling=True,
                density_unit='in', x_density=300, y_density=300, xmp_metadata='', name=None):
    """an image [height, width, channels] as a JPEG file, gray or RGB

    Args:
        image: a tensor of type uint8
        format: a string: "", "grayscale" or "rgb"
        quality: an int
        progressive: a bool
        optimize_size: a bool
        chroma_downsampling: a bool
        density_unit: a string: "in" or "cm"
        x_density: an int
        y_density: an int
        xmp_metadata: a string
        name: the name of the operation

    Returns:
        A tensor of type string.
    """
    return _call("EncodeJpeg", name, image=image, format=format, quality=quality, progressive=progressive,
                 optimize_size=optimize_size, chroma_downsampling=chroma_downsampling, density_unit=density_unit,
                 x_density=x_density, y_density=y_density, xmp_metadata=xmp_metadata)


def encode_png(image, compression=-1, name=None):
    """images [.., height, width, channels] as PNG files; 1, 2, 3 or 4 channels, the even ones with alpha

    Args:
        image: a tensor of uint8 or uint16
        compression: an int
        name: the name of the operation

    Returns:
        A tensor of type string.
    """
    return _call("EncodePng", name, image=image, compression=compression)


def erfc(x, name=None):
    """1 - erf(x) of each element, accurate in the tail

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Erfc", name, x=x)


def exp(x, name=None):
    """e to the power x of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Exp", name, x=x)


def expm1(x, name=None):
    """exp(x) - 1 of each element, accurate near 0

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Expm1", name, x=x)


def extract_jpeg_shape(contents, output_type=_dtypes.int32, name=None):
    """[height, width, channels] of a JPEG file, from its head alone

    Args:
        contents: a tensor of type string
        output_type: a type: int32 or int64
        name: the name of the operation

    Returns:
        A tensor of type output_type.
    """
    return _call("ExtractJpegShape", name, contents=contents, output_type=output_type)


def fake_quant_with_min_max_args(inputs, min=-6.0, max=6.0, num_bits=8, narrow_range=False, name=None):
    """rounds as if quantized to the range of the attrs and back

    Args:
        inputs: a tensor of type float32
        min: a float
        max: a float
        num_bits: an int
        narrow_range: a bool
        name: the name of the operation

    Returns:
        A tensor of type float32.
    """
    return _call("FakeQuantWithMinMaxArgs", name, inputs=inputs, min=min, max=max, num_bits=num_bits,
                 narrow_range=narrow_range)


def fake_quant_with_min_max_args_gradient(gradients, inputs, min=-6.0, max=6.0, num_bits=8, narrow_range=False,
                                          name=None):
    """gradient of FakeQuantWithMinMaxArgs: passes where the input is in the range

    Args:
        gradients: a tensor of type float32
        inputs: a tensor of type float32
        min: a float
        max: a float
        num_bits: an int
        narrow_range: a bool
        name: the name of the operation

    Returns:
        A tensor of type float32.
    """
    return _call("FakeQuantWithMinMaxArgsGradient", name, gradients=gradients, inputs=inputs, min=min, max=max,
                 num_bits=num_bits, narrow_range=narrow_range)


def fake_quant_with_min_max_vars(inputs, min, max, num_bits=8, narrow_range=False, name=None):
    """rounds as if quantized to a range and back

    Args:
        inputs: a tensor of type float32
        min: a tensor of type float32
        max: a tensor of type float32
        num_bits: an int
        narrow_range: a bool
        name: the name of the operation

    Returns:
        A tensor of type float32.
    """
    return _call("FakeQuantWithMinMaxVars", name, inputs=inputs, min=min, max=max, num_bits=num_bits,
                 narrow_range=narrow_range)


def fake_quant_with_min_max_vars_gradient(gradients, inputs, min, max, num_bits=8, narrow_range=False, name=None):
    """gradient of FakeQuantWithMinMaxVars by its input and by both ends of the range

    Args:
        gradients: a tensor of type float32
        inputs: a tensor of type float32
        min: a tensor of type float32
        max: a tensor of type float32
        num_bits: an int
        narrow_range: a bool
        name: the name of the operation

    Returns:
        A named tuple:
        backprops_wrt_input: a tensor of type float32
        backprop_wrt_min: a tensor of type float32
        backprop_wrt_max: a tensor of type float32
    """
    return _call("FakeQuantWithMinMaxVarsGradient", name, gradients=gradients, inputs=inputs, min=min, max=max,
                 num_bits=num_bits, narrow_range=narrow_range)


def fake_quant_with_min_max_vars_per_channel(inputs, min, max, num_bits=8, narrow_range=False, name=None):
    """rounds as if quantized and back, with a range for each index of the last dimension

    Args:
        inputs: a tensor of type float32
        min: a tensor of type float32
        max: a tensor of type float32
        num_bits: an int
        narrow_range: a bool
        name: the name of the operation

    Returns:
        A tensor of type float32.
    """
    return _call("FakeQuantWithMinMaxVarsPerChannel", name, inputs=inputs, min=min, max=max, num_bits=num_bits,
                 narrow_range=narrow_range)


def fake_quant_with_min_max_vars_per_channel_gradient(gradients, inputs, min, max, num_bits=8, narrow_range=False,
                                                      name=None):
    """gradient of FakeQuantWithMinMaxVarsPerChannel by its input and the ends of the ranges

    Args:
        gradients: a tensor of type float32
        inputs: a tensor of type float32
        min: a tensor of type float32
        max: a tensor of type float32
        num_bits: an int
        narrow_range: a bool
        name: the name of the operation

    Returns:
        A named tuple:
        backprops_wrt_input: a tensor of type float32
        backprop_wrt_min: a tensor of type float32
        backprop_wrt_max: a tensor of type float32
    """
    return _call("FakeQuantWithMinMaxVarsPerChannelGradient", name, gradients=gradients, inputs=inputs, min=min,
                 max=max, num_bits=num_bits, narrow_range=narrow_range)


def fft(input, name=None):
    """the discrete Fourier transform of the last dimension

    Args:
        input: a tensor of complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("FFT", name, input=input)


def fft2d(input, name=None):
    """the discrete Fourier transform of the last two dimensions

    Args:
        input: a tensor of complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("FFT2D", name, input=input)


def fft3d(input, name=None):
    """the discrete Fourier transform of the last three dimensions

    Args:
        input: a tensor of complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("FFT3D", name, input=input)


def floor(x, name=None):
    """largest integer not above each element

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Floor", name, x=x)


def floormod(x, y, name=None):
    """remainder of FloorDiv: it has the sign of y

    Args:
        x: a tensor of int8, int16, int32, int64, uint8, uint16, uint32, uint64, bfloat16, float16, float32 or float64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("FloorMod", name, x=x, y=y)


def greater(x, y, name=None):
    """x > y, element by element

    Args:
        x: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("Greater", name, x=x, y=y)


def greater_equal(x, y, name=None):
    """x >= y, element by element

    Args:
        x: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("GreaterEqual", name, x=x, y=y)


def guarantee_const(input, name=None):
    """its input, which is promised never to change

    Args:
        input: a tensor of any type
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("GuaranteeConst", name, input=input)


def hsv_to_rgb(images, name=None):
    """colors of hue, saturation and value as red, green and blue

    Args:
        images: a tensor of float16, bfloat16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of images.
    """
    return _call("HSVToRGB", name, images=images)


def ifft(input, name=None):
    """the inverse discrete Fourier transform of the last dimension

    Args:
        input: a tensor of complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("IFFT", name, input=input)


def ifft2d(input, name=None):
    """the inverse discrete Fourier transform of the last two dimensions

    Args:
        input: a tensor of complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("IFFT2D", name, input=input)


def ifft3d(input, name=None):
    """the inverse discrete Fourier transform of the last three dimensions

    Args:
        input: a tensor of complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("IFFT3D", name, input=input)


def igamma(a, x, name=None):
    """the lower regularized incomplete gamma function P(a, x)

    Args:
        a: a tensor of bfloat16, float16, float32 or float64
        x: a tensor of the type of a
        name: the name of the operation

    Returns:
        A tensor of the type of a.
    """
    return _call("Igamma", name, a=a, x=x)


def igammac(a, x, name=None):
    """the upper regularized incomplete gamma function Q(a, x) = 1 - P(a, x)

    Args:
        a: a tensor of bfloat16, float16, float32 or float64
        x: a tensor of the type of a
        name: the name of the operation

    Returns:
        A tensor of the type of a.
    """
    return _call("Igammac", name, a=a, x=x)


def invert(x, name=None):
    """each bit the other way

    Args:
        x: a tensor of int8, int16, int32, int64, uint8, uint16, uint32 or uint64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Invert", name, x=x)


def invert_permutation(x, name=None):
    """y[x[i]] = i

    Args:
        x: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("InvertPermutation", name, x=x)


def is_finite(x, name=None):
    """which elements are neither infinite nor NaN

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("IsFinite", name, x=x)


def is_inf(x, name=None):
    """which elements are infinite

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("IsInf", name, x=x)


def is_nan(x, name=None):
    """which elements are not a number

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("IsNan", name, x=x)


def left_shift(x, y, name=None):
    """x with its bits moved up by y, which is taken as between 0 and the number of bits less one

    Args:
        x: a tensor of int8, int16, int32, int64, uint8, uint16, uint32 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("LeftShift", name, x=x, y=y)


def less(x, y, name=None):
    """x < y, element by element

    Args:
        x: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("Less", name, x=x, y=y)


def less_equal(x, y, name=None):
    """x <= y, element by element

    Args:
        x: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("LessEqual", name, x=x, y=y)


def lgamma(x, name=None):
    """log |Gamma(x)| of each element

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Lgamma", name, x=x)


def log(x, name=None):
    """natural logarithm of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Log", name, x=x)


def log1p(x, name=None):
    """log(1 + x) of each element, accurate near 0

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Log1p", name, x=x)


def logical_and(x, y, name=None):
    """x and y, element by element

    Args:
        x: a tensor of type bool
        y: a tensor of type bool
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("LogicalAnd", name, x=x, y=y)


def logical_not(x, name=None):
    """not x of each element

    Args:
        x: a tensor of type bool
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("LogicalNot", name, x=x)


def logical_or(x, y, name=None):
    """x or y, element by element

    Args:
        x: a tensor of type bool
        y: a tensor of type bool
        name: the name of the operation

    Returns:
        A tensor of type bool.
    """
    return _call("LogicalOr", name, x=x, y=y)


def logm(input, name=None):
    """logarithms of square matrices: what MatrixExponential makes them of

    Args:
        input: a tensor of complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("MatrixLogarithm", name, input=input)


def matrix_band_part(input, num_lower, num_upper, name=None):
    """the input, zero outside of a band around the diagonal; a negative width is all

    Args:
        input: a tensor of any type
        num_lower: a tensor of int32 or int64
        num_upper: a tensor of the type of num_lower
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("MatrixBandPart", name, input=input, num_lower=num_lower, num_upper=num_upper)


def matrix_determinant(input, name=None):
    """the determinants of the matrices in the last two dimensions

    Args:
        input: a tensor of float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("MatrixDeterminant", name, input=input)


def matrix_inverse(input, adjoint=False, name=None):
    """the inverses of the matrices in the last two dimensions, or of their adjoints

    Args:
        input: a tensor of float64, float32, float16, complex64 or complex128
        adjoint: a bool
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("MatrixInverse", name, input=input, adjoint=adjoint)


def matrix_solve(matrix, rhs, adjoint=False, name=None):
    """X with A X = B, or A^H X = B, for square matrices A in the last two dimensions

    Args:
        matrix: a tensor of float64, float32, float16, complex64 or complex128
        rhs: a tensor of the type of matrix
        adjoint: a bool
        name: the name of the operation

    Returns:
        A tensor of the type of matrix.
    """
    return _call("MatrixSolve", name, matrix=matrix, rhs=rhs, adjoint=adjoint)


def matrix_triangular_solve(matrix, rhs, lower=True, adjoint=False, name=None):
    """X with A X = B, or A^H X = B, for lower or upper triangles A in the last two dimensions; the dimensions before
    broadcast

    Args:
        matrix: a tensor of bfloat16, float64, float32, float16, complex64 or complex128
        rhs: a tensor of the type of matrix
        lower: a bool
        adjoint: a bool
        name: the name of the operation

    Returns:
        A tensor of the type of matrix.
    """
    return _call("MatrixTriangularSolve", name, matrix=matrix, rhs=rhs, lower=lower, adjoint=adjoint)


def maximum(x, y, name=None):
    """the larger of x and y, element by element; NaN when either is

    Args:
        x: a tensor of bfloat16, float16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Maximum", name, x=x, y=y)


def minimum(x, y, name=None):
    """the smaller of x and y, element by element; NaN when either is

    Args:
        x: a tensor of bfloat16, float16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Minimum", name, x=x, y=y)


def mirror_pad(input, paddings, mode, name=None):
    """the input in a border that mirrors it

    Args:
        input: a tensor of any type
        paddings: a tensor of int32 or int64
        mode: a string: "REFLECT" or "SYMMETRIC"
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("MirrorPad", name, input=input, paddings=paddings, mode=mode)


def parallel_concat(values, shape, name=None):
    """rows of first size 1 put together

    Args:
        values: a list of tensors of any type
        shape: a shape
        name: the name of the operation

    Returns:
        A tensor of the type of values.
    """
    return _call("ParallelConcat", name, values=values, shape=shape)


def polygamma(a, x, name=None):
    """the derivative of order a of the digamma function, a = 0, 1, 2 ..

    Args:
        a: a tensor of float32 or float64
        x: a tensor of the type of a
        name: the name of the operation

    Returns:
        A tensor of the type of a.
    """
    return _call("Polygamma", name, a=a, x=x)


def quantize_v2(input, min_range, max_range, T, mode='MIN_COMBINED', round_mode='HALF_AWAY_FROM_ZERO',
                narrow_range=False, axis=-1, ensure_minimum_range=0.009999999776482582, name=None):
    """quantizes floats to codes, and returns the range that they represent

    Args:
        input: a tensor of type float32
        min_range: a tensor of type float32
        max_range: a tensor of type float32
        T: a type: qint8, quint8, qint32, qint16 or quint16
        mode: a string: "MIN_COMBINED", "MIN_FIRST" or "SCALED"
        round_mode: a string: "HALF_AWAY_FROM_ZERO" or "HALF_TO_EVEN"
        narrow_range: a bool
        axis: an int
        ensure_minimum_range: a float
        name: the name of the operation

    Returns:
        A named tuple:
        output: a tensor of type T
        output_min: a tensor of type float32
        output_max: a tensor of type float32
    """
    return _call("QuantizeV2", name, input=input, min_range=min_range, max_range=max_range, T=T, mode=mode,
                 round_mode=round_mode, narrow_range=narrow_range, axis=axis, ensure_minimum_range=ensure_minimum_range)


def quantized_avg_pool(input, min_input, max_input, ksize, strides, padding, name=None):
    """not implemented

    Args:
        input: a tensor of qint8, quint8, qint32, qint16 or quint16
        min_input: a tensor of type float32
        max_input: a tensor of type float32
        ksize: a list of ints
        strides: a list of ints
        padding: a string: "SAME" or "VALID"
        name: the name of the operation

    Returns:
        A named tuple:
        output: a tensor of the type of input
        min_output: a tensor of type float32
        max_output: a tensor of type float32
    """
    return _call("QuantizedAvgPool", name, input=input, min_input=min_input, max_input=max_input, ksize=ksize,
                 strides=strides, padding=padding)


def quantized_bias_add(input, bias, min_input, max_input, min_bias, max_bias, out_type, name=None):
    """not implemented

    Args:
        input: a tensor of qint8, quint8, qint32, qint16 or quint16
        bias: a tensor of qint8, quint8, qint32, qint16 or quint16
        min_input: a tensor of type float32
        max_input: a tensor of type float32
        min_bias: a tensor of type float32
        max_bias: a tensor of type float32
        out_type: a type: qint8, quint8, qint32, qint16 or quint16
        name: the name of the operation

    Returns:
        A named tuple:
        output: a tensor of type out_type
        min_out: a tensor of type float32
        max_out: a tensor of type float32
    """
    return _call("QuantizedBiasAdd", name, input=input, bias=bias, min_input=min_input, max_input=max_input,
                 min_bias=min_bias, max_bias=max_bias, out_type=out_type)


def quantized_concat(concat_dim, values, input_mins, input_maxes, name=None):
    """not implemented

    Args:
        concat_dim: a tensor of type int32
        values: a list of tensors of any type
        input_mins: a list of tensors of type float32
        input_maxes: a list of tensors of type float32
        name: the name of the operation

    Returns:
        A named tuple:
        output: a tensor of the type of values
        output_min: a tensor of type float32
        output_max: a tensor of type float32
    """
    return _call("QuantizedConcat", name, concat_dim=concat_dim, values=values, input_mins=input_mins,
                 input_maxes=input_maxes)


def quantized_conv2d(input, filter, min_input, max_input, min_filter, max_filter, strides, padding,
                     out_type=_dtypes.qint32, dilations=[1, 1, 1, 1], name=None):
    """not implemented

    Args:
        input: a tensor of qint8, quint8, qint32, qint16 or quint16
        filter: a tensor of qint8, quint8, qint32, qint16 or quint16
        min_input: a tensor of type float32
        max_input: a tensor of type float32
        min_filter: a tensor of type float32
        max_filter: a tensor of type float32
        strides: a list of ints
        padding: a string: "SAME" or "VALID"
        out_type: a type: qint8, quint8, qint32, qint16 or quint16
        dilations: a list of ints
        name: the name of the operation

    Returns:
        A named tuple:
        output: a tensor of type out_type
        min_output: a tensor of type float32
        max_output: a tensor of type float32
    """
    return _call("QuantizedConv2D", name, input=input, filter=filter, min_input=min_input, max_input=max_input,
                 min_filter=min_filter, max_filter=max_filter, strides=strides, padding=padding, out_type=out_type,
                 dilations=dilations)


def quantized_max_pool(input, min_input, max_input, ksize, strides, padding, name=None):
    """not implemented

    Args:
        input: a tensor of qint8, quint8, qint32, qint16 or quint16
        min_input: a tensor of type float32
        max_input: a tensor of type float32
        ksize: a list of ints
        strides: a list of ints
        padding: a string: "SAME" or "VALID"
        name: the name of the operation

    Returns:
        A named tuple:
        output: a tensor of the type of input
        min_output: a tensor of type float32
        max_output: a tensor of type float32
    """
    return _call("QuantizedMaxPool", name, input=input, min_input=min_input, max_input=max_input, ksize=ksize,
                 strides=strides, padding=padding)


def quantized_relu(features, min_features, max_features, out_type=_dtypes.quint8, name=None):
    """not implemented

    Args:
        features: a tensor of qint8, quint8, qint32, qint16 or quint16
        min_features: a tensor of type float32
        max_features: a tensor of type float32
        out_type: a type: qint8, quint8, qint32, qint16 or quint16
        name: the name of the operation

    Returns:
        A named tuple:
        activations: a tensor of type out_type
        min_activations: a tensor of type float32
        max_activations: a tensor of type float32
    """
    return _call("QuantizedRelu", name, features=features, min_features=min_features, max_features=max_features,
                 out_type=out_type)


def quantized_relu6(features, min_features, max_features, out_type=_dtypes.quint8, name=None):
    """not implemented

    Args:
        features: a tensor of qint8, quint8, qint32, qint16 or quint16
        min_features: a tensor of type float32
        max_features: a tensor of type float32
        out_type: a type: qint8, quint8, qint32, qint16 or quint16
        name: the name of the operation

    Returns:
        A named tuple:
        activations: a tensor of type out_type
        min_activations: a tensor of type float32
        max_activations: a tensor of type float32
    """
    return _call("QuantizedRelu6", name, features=features, min_features=min_features, max_features=max_features,
                 out_type=out_type)


def quantized_relu_x(features, max_value, min_features, max_features, out_type=_dtypes.quint8, name=None):
    """not implemented

    Args:
        features: a tensor of qint8, quint8, qint32, qint16 or quint16
        max_value: a tensor of type float32
        min_features: a tensor of type float32
        max_features: a tensor of type float32
        out_type: a type: qint8, quint8, qint32, qint16 or quint16
        name: the name of the operation

    Returns:
        A named tuple:
        activations: a tensor of type out_type
        min_activations: a tensor of type float32
        max_activations: a tensor of type float32
    """
    return _call("QuantizedReluX", name, features=features, max_value=max_value, min_features=min_features,
                 max_features=max_features, out_type=out_type)


def real_div(x, y, name=None):
    """x / y, element by element; integers are cut towards zero

    Args:
        x: a tensor of bfloat16, float16, float32, float64, uint8, int8, uint16, int16, int32, uint32, uint64, int64,
            complex64 or complex128
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("RealDiv", name, x=x, y=y)


def reciprocal(x, name=None):
    """1 / x of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, int8, int16, int32, int64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Reciprocal", name, x=x)


def rgb_to_hsv(images, name=None):
    """colors as hue, saturation and value, all in [0, 1]

    Args:
        images: a tensor of float16, bfloat16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of images.
    """
    return _call("RGBToHSV", name, images=images)


def right_shift(x, y, name=None):
    """x with its bits moved down by y, which is taken as between 0 and the number of bits less one; the sign stays

    Args:
        x: a tensor of int8, int16, int32, int64, uint8, uint16, uint32 or uint64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("RightShift", name, x=x, y=y)


def rint(x, name=None):
    """nearest integer of each element, the even one of two

    Args:
        x: a tensor of bfloat16, float16, float32 or float64
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Rint", name, x=x)


def rsqrt(x, name=None):
    """1 / sqrt(x) of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Rsqrt", name, x=x)


def scatter_nd(indices, updates, shape, name=None):
    """zeros with the updates added at tuples of indices

    Args:
        indices: a tensor of int16, int32 or int64
        updates: a tensor of any type
        shape: a tensor of the type of indices
        name: the name of the operation

    Returns:
        A tensor of the type of updates.
    """
    return _call("ScatterNd", name, indices=indices, updates=updates, shape=shape)


def segment_max(data, segment_ids, name=None):
    """largest of the rows of each segment; 0 where there are none

    Args:
        data: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32 or
            uint64
        segment_ids: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("SegmentMax", name, data=data, segment_ids=segment_ids)


def segment_mean(data, segment_ids, name=None):
    """means of the rows of each segment

    Args:
        data: a tensor of float32, float64, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32,
            bfloat16, uint16, complex128, float16, uint32 or uint64
        segment_ids: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("SegmentMean", name, data=data, segment_ids=segment_ids)


def segment_min(data, segment_ids, name=None):
    """smallest of the rows of each segment; 0 where there are none

    Args:
        data: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32 or
            uint64
        segment_ids: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("SegmentMin", name, data=data, segment_ids=segment_ids)


def segment_prod(data, segment_ids, name=None):
    """products of the rows of each segment; 1 where there are none

    Args:
        data: a tensor of float32, float64, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32,
            bfloat16, uint16, complex128, float16, uint32 or uint64
        segment_ids: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("SegmentProd", name, data=data, segment_ids=segment_ids)


def segment_sum(data, segment_ids, name=None):
    """sums of the rows of each segment

    Args:
        data: a tensor of float32, float64, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32,
            bfloat16, uint16, complex128, float16, uint32 or uint64
        segment_ids: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("SegmentSum", name, data=data, segment_ids=segment_ids)


def sin(x, name=None):
    """sine of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Sin", name, x=x)


def sinh(x, name=None):
    """hyperbolic sine of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Sinh", name, x=x)


def space_to_batch_nd(input, block_shape, paddings, name=None):
    """pads the dimensions behind the first and makes the offsets within blocks batches

    Args:
        input: a tensor of any type
        block_shape: a tensor of int32 or int64
        paddings: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("SpaceToBatchND", name, input=input, block_shape=block_shape, paddings=paddings)


def sparse_matmul(a, b, transpose_a=False, transpose_b=False, a_is_sparse=False, b_is_sparse=False, name=None):
    """the product of matrices with many zeros

    Args:
        a: a tensor of float32 or bfloat16
        b: a tensor of float32 or bfloat16
        transpose_a: a bool
        transpose_b: a bool
        a_is_sparse: a bool
        b_is_sparse: a bool
        name: the name of the operation

    Returns:
        A tensor of type float32.
    """
    return _call("SparseMatMul", name, a=a, b=b, transpose_a=transpose_a, transpose_b=transpose_b,
                 a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse)


def sqrtm(input, name=None):
    """square roots of square matrices, in the sense of products; NaN where there is none in the type

    Args:
        input: a tensor of float64, float32, float16, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("MatrixSquareRoot", name, input=input)


def squared_difference(x, y, name=None):
    """(x - y)^2, element by element; (x - y) conj(x - y) for complex numbers

    Args:
        x: a tensor of bfloat16, float16, float32, float64, int32, int64, complex64 or complex128
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("SquaredDifference", name, x=x, y=y)


def stop_gradient(input, name=None):
    """its input, which counts as a constant in gradients

    Args:
        input: a tensor of any type
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("StopGradient", name, input=input)


def strip(input, name=None):
    """without the white space at both ends

    Args:
        input: a tensor of type string
        name: the name of the operation

    Returns:
        A tensor of type string.
    """
    return _call("StringStrip", name, input=input)


def tan(x, name=None):
    """tangent of each element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, int8, int16, int32, int64, complex64 or complex128
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Tan", name, x=x)


def tensor_scatter_add(tensor, indices, updates, name=None):
    """the tensor with the updates added to slices

    Args:
        tensor: a tensor of any type
        indices: a tensor of int32 or int64
        updates: a tensor of the type of tensor
        name: the name of the operation

    Returns:
        A tensor of the type of tensor.
    """
    return _call("TensorScatterAdd", name, tensor=tensor, indices=indices, updates=updates)


def tensor_scatter_nd_add(tensor, indices, updates, name=None):
    """the tensor with the updates added to slices

    Args:
        tensor: a tensor of any type
        indices: a tensor of int32 or int64
        updates: a tensor of the type of tensor
        name: the name of the operation

    Returns:
        A tensor of the type of tensor.
    """
    return _call("TensorScatterAdd", name, tensor=tensor, indices=indices, updates=updates)


def tensor_scatter_nd_sub(tensor, indices, updates, name=None):
    """the tensor with the updates subtracted from slices

    Args:
        tensor: a tensor of any type
        indices: a tensor of int32 or int64
        updates: a tensor of the type of tensor
        name: the name of the operation

    Returns:
        A tensor of the type of tensor.
    """
    return _call("TensorScatterSub", name, tensor=tensor, indices=indices, updates=updates)


def tensor_scatter_nd_update(tensor, indices, updates, name=None):
    """the tensor with slices replaced

    Args:
        tensor: a tensor of any type
        indices: a tensor of int16, int32, int64 or uint16
        updates: a tensor of the type of tensor
        name: the name of the operation

    Returns:
        A tensor of the type of tensor.
    """
    return _call("TensorScatterUpdate", name, tensor=tensor, indices=indices, updates=updates)


def tensor_scatter_sub(tensor, indices, updates, name=None):
    """the tensor with the updates subtracted from slices

    Args:
        tensor: a tensor of any type
        indices: a tensor of int32 or int64
        updates: a tensor of the type of tensor
        name: the name of the operation

    Returns:
        A tensor of the type of tensor.
    """
    return _call("TensorScatterSub", name, tensor=tensor, indices=indices, updates=updates)


def tensor_scatter_update(tensor, indices, updates, name=None):
    """the tensor with slices replaced

    Args:
        tensor: a tensor of any type
        indices: a tensor of int16, int32, int64 or uint16
        updates: a tensor of the type of tensor
        name: the name of the operation

    Returns:
        A tensor of the type of tensor.
    """
    return _call("TensorScatterUpdate", name, tensor=tensor, indices=indices, updates=updates)


def tile(input, multiples, name=None):
    """the input repeated multiples[i] times along dimension i

    Args:
        input: a tensor of any type
        multiples: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of input.
    """
    return _call("Tile", name, input=input, multiples=multiples)


def timestamp(name=None):
    """seconds since 1970

    Args:
        name: the name of the operation

    Returns:
        A tensor of type float64.
    """
    return _call("Timestamp", name)


def truncatediv(x, y, name=None):
    """x / y cut towards zero, element by element

    Args:
        x: a tensor of bfloat16, float16, float32, float64, uint8, int8, uint16, int16, int32, uint32, uint64, int64,
            complex64 or complex128
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("TruncateDiv", name, x=x, y=y)


def truncatemod(x, y, name=None):
    """remainder of TruncateDiv: it has the sign of x

    Args:
        x: a tensor of int32, int64, bfloat16, float16, float32 or float64
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("TruncateMod", name, x=x, y=y)


def unicode_script(input, name=None):
    """the script of each code point, by ICU's number; -1 for an invalid code point

    Args:
        input: a tensor of type int32
        name: the name of the operation

    Returns:
        A tensor of type int32.
    """
    return _call("UnicodeScript", name, input=input)


def unicode_transcode(input, input_encoding, output_encoding, errors='replace', replacement_char=65533,
                      replace_control_characters=False, name=None):
    """converts texts from one encoding to another

    Args:
        input: a tensor of type string
        input_encoding: a string
        output_encoding: a string: "UTF-8", "UTF-16-BE" or "UTF-32-BE"
        errors: a string: "strict", "replace" or "ignore"
        replacement_char: an int
        replace_control_characters: a bool
        name: the name of the operation

    Returns:
        A tensor of type string.
    """
    return _call("UnicodeTranscode", name, input=input, input_encoding=input_encoding, output_encoding=output_encoding,
                 errors=errors, replacement_char=replacement_char,
                 replace_control_characters=replace_control_characters)


def unravel_index(indices, dims, name=None):
    """coordinates in a tensor of these sizes of flat indices: one row a dimension

    Args:
        indices: a tensor of int32 or int64
        dims: a tensor of the type of indices
        name: the name of the operation

    Returns:
        A tensor of the type of indices.
    """
    return _call("UnravelIndex", name, indices=indices, dims=dims)


def unsorted_segment_join(inputs, segment_ids, num_segments, separator='', name=None):
    """joins the strings of each segment in order

    Args:
        inputs: a tensor of type string
        segment_ids: a tensor of int32 or int64
        num_segments: a tensor of int32 or int64
        separator: a string
        name: the name of the operation

    Returns:
        A tensor of type string.
    """
    return _call("UnsortedSegmentJoin", name, inputs=inputs, segment_ids=segment_ids, num_segments=num_segments,
                 separator=separator)


def unsorted_segment_max(data, segment_ids, num_segments, name=None):
    """largest of the rows of each segment, the lowest number where there are none

    Args:
        data: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32 or
            uint64
        segment_ids: a tensor of int32 or int64
        num_segments: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("UnsortedSegmentMax", name, data=data, segment_ids=segment_ids, num_segments=num_segments)


def unsorted_segment_min(data, segment_ids, num_segments, name=None):
    """smallest of the rows of each segment, the highest number where there are none

    Args:
        data: a tensor of float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32 or
            uint64
        segment_ids: a tensor of int32 or int64
        num_segments: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("UnsortedSegmentMin", name, data=data, segment_ids=segment_ids, num_segments=num_segments)


def unsorted_segment_prod(data, segment_ids, num_segments, name=None):
    """products of the rows of each segment, 1 where there are none; rows of negative segments are dropped

    Args:
        data: a tensor of float32, float64, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32,
            bfloat16, uint16, complex128, float16, uint32 or uint64
        segment_ids: a tensor of int32 or int64
        num_segments: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("UnsortedSegmentProd", name, data=data, segment_ids=segment_ids, num_segments=num_segments)


def unsorted_segment_sum(data, segment_ids, num_segments, name=None):
    """sums of the rows of each segment; rows of negative segments are dropped

    Args:
        data: a tensor of float32, float64, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32,
            bfloat16, uint16, complex128, float16, uint32 or uint64
        segment_ids: a tensor of int32 or int64
        num_segments: a tensor of int32 or int64
        name: the name of the operation

    Returns:
        A tensor of the type of data.
    """
    return _call("UnsortedSegmentSum", name, data=data, segment_ids=segment_ids, num_segments=num_segments)


def xdivy(x, y, name=None):
    """x / y, and 0 where x is 0 whatever y is

    Args:
        x: a tensor of float16, float32, float64, complex64 or complex128
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Xdivy", name, x=x, y=y)


def xlogy(x, y, name=None):
    """x log(y), and 0 where x is 0 whatever y is

    Args:
        x: a tensor of float16, float32, float64, complex64 or complex128
        y: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Xlogy", name, x=x, y=y)


def zeta(x, q, name=None):
    """the sum of (q + k)^-x over k = 0, 1, 2 .. (Hurwitz's zeta function)

    Args:
        x: a tensor of float32 or float64
        q: a tensor of the type of x
        name: the name of the operation

    Returns:
        A tensor of the type of x.
    """
    return _call("Zeta", name, x=x, q=q)
