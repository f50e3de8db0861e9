/* ps/codec.h -- values in messages: as floats or 16 bits, without absent rows, compressed by
 * Snappy.
 *
 * The packed values are n_rows rows of `width` floats. They belong to a key list of n_rows keys
 * that both sides know. A push whose filters left rows out marks them absent, at almost no cost,
 * while the key list stays the one that was sent before. A pull marks rows of zeros absent; the
 * receiver gets zeros there.
 *
 *     byte 0      bits 0-1 form: 0 float32, 1 bfloat16, 2 fixed point
 *                 bit 2    the rest is one Snappy block
 *                 bits 3-4 rows: 0 all present, 1 a bit per row, 2 gaps, 3 none present
 *     rows        1: (n_rows + 7) / 8 bytes, lowest bit first
 *                 2: varint of the number of rows, then for each a varint: the rows left out before it
 *     values      of the present rows: by column if width <= 8, because values of one column are
 *                 similar; else by row
 *
 * float32 is little-endian. Of 16-bit values all low bytes come first, then all high bytes, which
 * Snappy compresses better. Fixed point has a float for each 256 values before them, their scale; a
 * value is a signed integer, and 32767 means the scale. It is rounded up or down at random, so
 * that the mean is right. Fixed point cannot express values that are not finite, and refuses them. */
#ifndef MR_PS_CODEC_H
#define MR_PS_CODEC_H

#include "base/str.h"

typedef enum mr_ps_form { MR_PS_FLOAT32, MR_PS_BFLOAT16, MR_PS_FIXED16 } mr_ps_form;

typedef struct mr_ps_codec {
    mr_ps_form form;
    bool snappy;
    uint64_t seed; /* for FIXED16's rounding; should differ from message to message */
} mr_ps_codec;

/* Appends to out; on error out is as it was. present: a byte per row, 0 absent; NULL: all are present. */
mr_status *mr_ps_values_pack(const mr_ps_codec *c, const float *values, const uint8_t *present,
                             size_t n_rows, int width, mr_str *out);
/* Sets present[i] to whether row i has a value other than 0; returns the number of such rows. */
size_t mr_ps_values_nonzero(const float *values, size_t n_rows, int width, uint8_t *present);

/* Unpacks bytes of an untrusted peer: INVALID_ARGUMENT unless they are exactly n_rows rows of width floats.
 * Absent rows become zeros. values: n_rows * width floats of the caller. */
mr_status *mr_ps_values_unpack(mr_sv in, size_t n_rows, int width, float *values);
/* Only the present rows: the values of n rows, and their numbers (rising); rows NULL: all are present. */
typedef struct mr_ps_rows {
    size_t n;
    float *values;
    uint32_t *rows;
} mr_ps_rows;
mr_status *mr_ps_rows_unpack(mr_sv in, size_t n_rows, int width, mr_ps_rows *out);
/* The same, but UNAVAILABLE if more than most_rows are present; checked before memory for them is allocated. */
mr_status *mr_ps_rows_unpack_within(mr_sv in, size_t n_rows, int width, size_t most_rows, mr_ps_rows *out);
void mr_ps_rows_deinit(mr_ps_rows *r);

#endif
