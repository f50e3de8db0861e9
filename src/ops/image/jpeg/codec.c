/* ops/image/jpeg/codec.c -- the table of functions that the library provides, and the errors of libjpeg. */
#include "ops/image/jpeg/internal.h"

void mr_jpeg_leave(j_common_ptr info, mr_status *st)
{
    mr_jpeg_errors *e = (mr_jpeg_errors *)info->err;
    if (e->st)
        mr_status_free(st);
    else
        e->st = st;
    longjmp(e->back, 1);
}

static void on_error(j_common_ptr info)
{
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    bool memory = info->err->msg_code == JERR_OUT_OF_MEMORY || info->err->msg_code == JERR_NO_BACKING_STORE;
    mr_jpeg_leave(info, mr_error(memory ? MR_RESOURCE_EXHAUSTED : MR_INVALID_ARGUMENT, "Invalid JPEG data: %s", text));
}

/* Counts warnings and prints nothing. */
static void on_message(j_common_ptr info, int level)
{
    if (level < 0)
        info->err->num_warnings++;
}

static void no_output(j_common_ptr info) { (void)info; }

void mr_jpeg_errors_init(mr_jpeg_errors *e)
{
    jpeg_std_error(&e->base);
    e->base.error_exit = on_error;
    e->base.emit_message = on_message;
    e->base.output_message = no_output;
    e->st = NULL;
}

bool mr_jpeg_guard(mr_jpeg_errors *e, void (*fn)(void *work), void *work)
{
    if (setjmp(e->back) != 0)
        return false;
    fn(work);
    return true;
}

const mr_jpeg *mr_jpeg_get(int abi)
{
    static const mr_jpeg table = {MR_JPEG_ABI, mr_jpeg_decode, mr_jpeg_shape, mr_jpeg_encode};
    return abi == MR_JPEG_ABI ? &table : NULL;
}
