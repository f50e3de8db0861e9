/* ops/image/jpeg/internal.h -- converts errors of libjpeg to statuses.
 *
 * A libjpeg call that fails leaves by longjmp. So every call runs inside mr_jpeg_guard, in functions that own only
 * what a `work` struct holds, which the caller of the guard frees. */
#ifndef MR_OPS_IMAGE_JPEG_INTERNAL_H
#define MR_OPS_IMAGE_JPEG_INTERNAL_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>
#include <jerror.h>

#include "ops/image/jpeg.h"

typedef struct mr_jpeg_errors {
    struct jpeg_error_mgr base; /* first member: libjpeg has a pointer to it */
    jmp_buf back;
    mr_status *st; /* the first error; owned */
} mr_jpeg_errors;

void mr_jpeg_errors_init(mr_jpeg_errors *e);
/* Leaves with our own error; never returns. */
void mr_jpeg_leave(j_common_ptr info, mr_status *st) __attribute__((noreturn));
/* Runs fn(work); returns false if it left with an error. */
bool mr_jpeg_guard(mr_jpeg_errors *e, void (*fn)(void *work), void *work);

mr_status *mr_jpeg_decode(mr_sv bytes, const mr_jpeg_reading *how, mr_image_room *room);
mr_status *mr_jpeg_shape(mr_sv bytes, int64_t out_dims[3]);
mr_status *mr_jpeg_encode(const mr_jpeg_writing *what, mr_str *out);
const mr_jpeg *mr_jpeg_get(int abi) __attribute__((visibility("default")));

#endif
