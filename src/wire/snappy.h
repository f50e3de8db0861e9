/* wire/snappy.h -- Snappy blocks: found in older checkpoint indexes, and made of what parameter
 * servers and workers send each other. */
#ifndef MR_WIRE_SNAPPY_H
#define MR_WIRE_SNAPPY_H

#include "base/str.h"

/* Appends the decompressed bytes to out.  Malformed input gives DATA_LOSS and leaves out as it was;
 * memory is taken only for a length that `in` could really expand to. */
mr_status *mr_snappy_uncompress(mr_sv in, mr_str *out);

/* Appends in as one block, at most mr_snappy_most(in.n) bytes of it. INVALID_ARGUMENT from 4 GiB on, which the format
 * cannot represent. */
mr_status *mr_snappy_compress(mr_sv in, mr_str *out);
static inline size_t mr_snappy_most(size_t n) { return 32 + n + n / 6; }

#endif
