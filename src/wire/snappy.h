/* wire/snappy.h -- decompression of Snappy blocks, as found in older checkpoint indexes.
 *
 * Only decoding: nothing we write is compressed. */
#ifndef MR_WIRE_SNAPPY_H
#define MR_WIRE_SNAPPY_H

#include "base/str.h"

/* Appends the decompressed bytes to out.  Malformed input gives DATA_LOSS and leaves out as it was;
 * memory is taken only for a length that `in` could really expand to. */
mr_status *mr_snappy_uncompress(mr_sv in, mr_str *out);

#endif
