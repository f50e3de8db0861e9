"""tf.spectral: Fourier and cosine transforms."""

from .signal import (dct, fft, fft2d, fft3d, idct, ifft, ifft2d, ifft3d, irfft, irfft2d, irfft3d, rfft, rfft2d, rfft3d)
