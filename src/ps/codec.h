/* ps/codec.h -- values on their way: as floats or 16 bits, without absent rows, through Snappy.
 *
 * What is packed is n_rows rows of `width` floats that belong to a key list of n_rows keys both
 * sides know.  A push whose filters left rows out marks them absent and they cost next to nothing, while
 * the key list stays the one that was sent before.  A pull marks rows of zeros absent likewise: the
 * receiver asks for dense rows and gets zeros there.
 *
 *     byte 0      bits 0-1 form: 0 float32, 1 bfloat16, 2 fixed point
 *                 bit 2    the rest is one Snappy block
 *                 bits 3-4 rows: 0 all are there, 1 a bit a row, 2 gaps, 3 none is there
 *     rows        1: (n_rows + 7) / 8 bytes, bits from the lowest
 *                 2: varint of how many, then for each as a varint the rows left out before it
 *     values      of the rows that are there: by column when width <= 8, for what stands in one
 *                 column is alike; else by row
 *
 * float32 stands as it is, little-endian.  Of 16-bit values all low bytes come first, then all high
 * ones, in which Snappy finds more.  Fixed point: before them a float for each 256 values, their
 * scale; a value is a signed integer of which 32767 means the scale.  It is rounded up or down at
 * random, so that the mean is right.  What is not finite cannot be told so and is refused. */
#ifndef MR_PS_CODEC_H
#define MR_PS_CODEC_H

#include "base/str.h"

typedef enum mr_ps_form { MR_PS_FLOAT32, MR_PS_BFLOAT16, MR_PS_FIXED16 } mr_ps_form;

typedef struct mr_ps_codec {
    mr_ps_form form;
    bool snappy;
    uint64_t seed; /* of FIXED16's rounding; should differ from message to message */
} mr_ps_codec;

/* Appends to out.  present: a byte a row, 0 absent; NULL: all are there. */
mr_status *mr_ps_values_pack(const mr_ps_codec *c, const float *values, const uint8_t *present,
                             size_t n_rows, int width, mr_str *out);
/* present[i] = row i has a value other than 0; returns how many have. */
size_t mr_ps_values_nonzero(const float *values, size_t n_rows, int width, uint8_t *present);

/* A stranger's bytes: INVALID_ARGUMENT unless they are exactly n_rows rows of width floats.
 * Dense: absent rows become zeros; values has n_rows * width entries of the caller's. */
mr_status *mr_ps_values_unpack(mr_sv in, size_t n_rows, int width, float *values);
/* Only the rows that are there: values of n rows, and which of the n_rows they are (rising);
 * rows NULL: all. */
typedef struct mr_ps_rows {
    size_t n;
    float *values;
    uint32_t *rows;
} mr_ps_rows;
mr_status *mr_ps_rows_unpack(mr_sv in, size_t n_rows, int width, mr_ps_rows *out);
/* The same, but UNAVAILABLE when more than most_rows are there: known before memory is taken for them. */
mr_status *mr_ps_rows_unpack_within(mr_sv in, size_t n_rows, int width, size_t most_rows, mr_ps_rows *out);
void mr_ps_rows_deinit(mr_ps_rows *r);

#endif
