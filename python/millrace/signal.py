"""tf.signal (and tf.spectral, tf.contrib.signal): Fourier transforms, frames and windows."""

import numpy as np

from .framework import convert, dtypes, ops
from .framework.op_defs import call
from .ops import array, math
from .ops.math import fft, fft2d, fft3d, ifft, ifft2d, ifft3d


def _real_transform(name, op_type, rank, inverse):
    def f(input_tensor, fft_length=None, name=None):
        with ops.name_scope(name, f.__name__, [input_tensor]) as scope:
            x = convert.convert_to_tensor(input_tensor, dtype=None if inverse else dtypes.float32)
            length = _length(x, rank, inverse) if fft_length is None else convert.convert_to_tensor(fft_length, dtypes.int32)
            x = _fitted(x, rank, length, inverse)
            return call(op_type, scope, input=x, fft_length=length)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = "Computes the %sFourier transform of real numbers over the last %s." % (
        "inverse " if inverse else "", "dimension" if rank == 1 else "%d dimensions" % rank)
    return f


def _length(x, rank, inverse):
    """The lengths of the transformed dimensions, whose last one has half of the frequencies."""
    shape = x.shape[-rank:] if x.shape.ndims is not None else None
    if shape is not None and shape.is_fully_defined():
        sizes = shape.as_list()
        return convert.constant(sizes[:-1] + [max(0, 2 * (sizes[-1] - 1))] if inverse else sizes, dtypes.int32)
    sizes = array.shape(x)[-rank:]
    return array.concat([sizes[:-1], math.maximum(2 * (sizes[-1:] - 1), 0)], 0) if inverse else sizes


def _fitted(x, rank, length, inverse):
    """Padded with zeros where the length asks for more."""
    wanted = convert.constant_value(length)
    if wanted is None or x.shape.ndims is None or not x.shape[-rank:].is_fully_defined():
        return x
    wanted = list(wanted[:-1]) + [wanted[-1] // 2 + 1 if inverse and wanted[-1] else wanted[-1]]
    more = [max(0, int(w) - d) for w, d in zip(wanted, x.shape.as_list()[-rank:])]
    return array.pad(x, [[0, 0]] * (x.shape.ndims - rank) + [[0, m] for m in more]) if any(more) else x


rfft, rfft2d, rfft3d = (_real_transform("rfft" + d, "RFFT" + d.upper(), n, False) for n, d in ((1, ""), (2, "2d"), (3, "3d")))
irfft, irfft2d, irfft3d = (_real_transform("irfft" + d, "IRFFT" + d.upper(), n, True) for n,
                           d in ((1, ""), (2, "2d"), (3, "3d")))


def fftshift(x, axes=None, name=None):
    """Moves the zero frequency to the middle."""
    return _rolled(x, axes, name or "fftshift", lambda n: n // 2)


def ifftshift(x, axes=None, name=None):
    """Undoes fftshift."""
    return _rolled(x, axes, name or "ifftshift", lambda n: -(n // 2))


def _rolled(x, axes, name, shift):
    with ops.name_scope(name):
        x = convert.convert_to_tensor(x)
        axes = list(range(x.shape.ndims)) if axes is None else [axes] if isinstance(axes, int) else list(axes)
        sizes = [x.shape.as_list()[a] if x.shape.as_list()[a] is not None else array.shape(x)[a] for a in axes]
        return array.roll(x, array.stack([shift(s) for s in sizes]), array.stack(axes))


# ---- cosine transforms ----

def dct(input, type=2, n=None, axis=-1, norm=None, name=None):  # noqa: A002
    """The discrete cosine transform of the last dimension, of type 1, 2 or 3."""
    if axis != -1:
        raise NotImplementedError("axis must be -1. Got: %s" % axis)
    if type not in (1, 2, 3):
        raise ValueError("Only Types I, II and III (I)DCT are supported.")
    if norm not in (None, "ortho"):
        raise ValueError("Unknown normalization. Expected None or 'ortho', got: %s" % norm)
    if type == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for the Type-I DCT.")
    with ops.name_scope(name, "dct", [input]):
        x = convert.convert_to_tensor(input, dtypes.float32)
        if n is not None:
            x = x[..., :n]
            more = n - x.shape.as_list()[-1]
            x = array.pad(x, [[0, 0]] * (x.shape.ndims - 1) + [[0, more]]) if more > 0 else x
        size = x.shape.as_list()[-1]
        if size is None:
            raise NotImplementedError("tf.signal.dct needs a dimension of known length")
        return math.tensordot(x, convert.constant(_cosines(size, type, norm)), 1)


def _cosines(n, kind, norm):
    """The matrix of the transform."""
    i, k = np.arange(n)[:, None], np.arange(n)[None, :]
    if kind == 1:
        m = 2 * np.cos(np.pi * i * k / (n - 1))
        m[0], m[-1] = m[0] / 2, m[-1] / 2
    elif kind == 2:
        m = 2 * np.cos(np.pi * (2 * i + 1) * k / (2 * n))
        if norm:
            m *= np.sqrt(1 / (2 * n))
            m[:, 0] *= np.sqrt(0.5)
    else:
        m = 2 * np.cos(np.pi * i * (2 * k + 1) / (2 * n))
        if norm:
            m *= np.sqrt(1 / (2 * n))
            m[0] *= np.sqrt(2) / 2
        else:
            m[0] /= 2
    return m.astype(np.float32)


def idct(input, type=2, n=None, axis=-1, norm=None, name=None):  # noqa: A002
    """The inverse, up to a factor when there is no normalization."""
    return dct(input, {1: 1, 2: 3, 3: 2}.get(type, type), n, axis, norm, name or "idct")


# ---- windows and frames ----

def _cosine_window(name, a, b):
    def f(window_length, periodic=True, dtype=dtypes.float32, name=None):
        with ops.name_scope(name, f.__name__, [window_length]):
            length = convert.convert_to_tensor(window_length, dtypes.int32)
            even = 1 - math.floormod(length, 2)
            n = math.cast(length + (even if periodic else 0) - 1, dtype)
            known = convert.constant_value(length)
            if known == 1:
                return array.ones([1], dtype)
            count = math.cast(math.range(length), dtype)
            return math.cast(a - b * math.cos(2 * np.pi * count / n), dtype)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = "Returns a %s window; periodic windows are for spectral analysis, symmetric ones for filters." % (
        name.split("_")[0].capitalize())
    return f


hann_window = _cosine_window("hann_window", 0.5, 0.5)
hamming_window = _cosine_window("hamming_window", 0.54, 0.46)


def frame(signal, frame_length, frame_step, pad_end=False, pad_value=0, axis=-1, name=None):
    """The last dimension cut into frames that begin frame_step after each other: [..., frames, frame_length]."""
    with ops.name_scope(name, "frame", [signal, frame_length, frame_step]):
        signal = convert.convert_to_tensor(signal)
        if axis not in (-1, signal.shape.ndims - 1 if signal.shape.ndims is not None else -1):
            raise NotImplementedError("tf.signal.frame is only implemented along the last dimension")
        length = signal.shape.as_list()[-1]
        length = array.shape(signal)[-1] if length is None else length
        if pad_end:
            number = -(-length // frame_step)
            more = math.maximum(0, frame_length + frame_step * (number - 1) - length)
            paddings = array.reshape(array.concat([array.zeros([2 * signal.shape.ndims - 1], dtypes.int32), [more]], 0),
                                     [-1, 2])
            signal = array.pad(signal, paddings, constant_values=pad_value)
        else:
            number = math.maximum(0, 1 + (length - frame_length) // frame_step)
        at = array.expand_dims(math.range(number) * frame_step, 1) + array.expand_dims(math.range(frame_length), 0)
        return array.gather(signal, at, axis=-1 if signal.shape.ndims == 1 else signal.shape.ndims - 1)


def stft(signals, frame_length, frame_step, fft_length=None, window_fn=hann_window, pad_end=False, name=None):
    """The transforms of windows over a signal."""
    with ops.name_scope(name, "stft", [signals, frame_length, frame_step]):
        if fft_length is None:
            fft_length = 1 << max(0, int(frame_length) - 1).bit_length()
        framed = frame(convert.convert_to_tensor(signals), frame_length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            framed = framed * window_fn(frame_length, dtype=framed.dtype)
        return rfft(framed, [fft_length])


def overlap_and_add(signal, frame_step, name=None):
    """Adds overlapping frames into a signal; the inverse of frame."""
    with ops.name_scope(name, "overlap_and_add", [signal, frame_step]):
        signal = convert.convert_to_tensor(signal)
        frames, length = signal.shape.as_list()[-2:]
        if frames is None or length is None:
            raise NotImplementedError("overlap_and_add needs a known number and length of frames")
        at = (np.arange(frames)[:, None] * frame_step + np.arange(length)[None]).reshape(-1)
        total = (frames - 1) * frame_step + length
        flat = array.reshape(signal, [-1, frames * length])
        made = array.transpose(math.unsorted_segment_sum(array.transpose(flat), convert.constant(at, dtypes.int32), total))
        return array.reshape(made, array.concat([array.shape(signal)[:-2], [total]], 0))


def inverse_stft(stfts, frame_length, frame_step, fft_length=None, window_fn=hann_window, name=None):
    """Computes a signal from its short-time Fourier transform, by adding overlapping windows.

    The arguments are those that stft was called with."""
    with ops.name_scope(name, "inverse_stft", [stfts]):
        if fft_length is None:
            fft_length = 1 << max(0, int(frame_length) - 1).bit_length()
        frames = irfft(convert.convert_to_tensor(stfts), [fft_length])[..., :frame_length]
        if window_fn is not None:
            frames = frames * window_fn(frame_length, dtype=frames.dtype)
        return overlap_and_add(frames, frame_step)


# ---- what ears hear ----

def linear_to_mel_weight_matrix(num_mel_bins=20, num_spectrogram_bins=129, sample_rate=8000, lower_edge_hertz=125.0,
                                upper_edge_hertz=3800.0, dtype=dtypes.float32, name=None):
    """[spectrogram bins, mel bins]: triangles that are even on the mel scale."""
    if num_mel_bins <= 0 or lower_edge_hertz < 0 or not lower_edge_hertz < upper_edge_hertz <= sample_rate / 2:
        raise ValueError("The edges must satisfy 0 <= lower < upper <= sample_rate / 2, and the number of bins be positive")

    def mel(hertz):
        return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)
    bins = mel(np.linspace(0.0, sample_rate / 2.0, num_spectrogram_bins)[1:])[:, None]
    edges = np.linspace(mel(lower_edge_hertz), mel(upper_edge_hertz), num_mel_bins + 2)
    low, middle, high = edges[:-2][None], edges[1:-1][None], edges[2:][None]
    weights = np.maximum(0, np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)))
    return convert.constant(np.pad(weights, [[1, 0], [0, 0]]).astype(dtypes.as_dtype(dtype).as_numpy_dtype),
                            name=name or "Const")


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms, name=None):
    """Computes mel-frequency cepstral coefficients: a cosine transform of the last dimension."""
    with ops.name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        x = convert.convert_to_tensor(log_mel_spectrograms, dtypes.float32)
        return dct(x, type=2) * np.float32(1 / np.sqrt(2.0 * x.shape.as_list()[-1]))
