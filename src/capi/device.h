/* capi/device.h -- what the files of millrace/device.h share. */
#ifndef MR_CAPI_DEVICE_H
#define MR_CAPI_DEVICE_H

#include "capi/internal.h"

/* Copies a client's struct, whose first member is its size.  A client built with an older header has a shorter struct, one
 * with a newer header a longer one: what is not known here must be zero.  INVALID_ARGUMENT, also below `least` bytes. */
mr_status *mr_capi_take_struct(void *ours, size_t our_size, const void *theirs, size_t least, const char *what);

#endif
