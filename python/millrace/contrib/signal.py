"""tf.contrib.signal: where tf.signal was before."""

from ..signal import (frame, hamming_window, hann_window, inverse_stft, linear_to_mel_weight_matrix,
                      mfccs_from_log_mel_spectrograms,
                      overlap_and_add, stft)
