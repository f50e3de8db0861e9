/* ops/audio/wav.h -- WAV files of 16-bit samples.
 *
 *     "RIFF" size 4 "WAVE", then chunks of a name, a size and data:
 *     "fmt "  kind 2 (1: plain samples), channels 2, rate 4, bytes a second 4, bytes a frame 2, bits a sample 2
 *     "data"  frames, each a sample of every channel
 *
 * All numbers are little-endian; a frame has the samples of all channels at one time. */
#ifndef MR_OPS_AUDIO_WAV_H
#define MR_OPS_AUDIO_WAV_H

#include <stdint.h>

#include "base/str.h"

typedef struct mr_wav {
    uint32_t rate; /* frames per second */
    uint32_t channels, frames;
    mr_sv samples; /* frames * channels of 16 bits */
} mr_wav;

/* Checks the whole file; samples point into it. */
mr_status *mr_wav_decode(mr_sv bytes, mr_wav *out);
float mr_wav_sample(const mr_wav *w, uint64_t i); /* in [-1, 1) */

/* Encodes frames of floats, limited to [-1, 1). */
mr_status *mr_wav_encode(const float *samples, uint64_t frames, uint64_t channels, uint64_t rate, mr_str *out);

#endif
