/* capi/buffer.c -- TF_Buffer: bytes with the function that frees them. */
#include "capi/internal.h"

#include <string.h>

#include "base/memory.h"

/* The struct is public, so clients fill in their own and set their own deallocator: nothing here
 * may assume that the data is ours. */
static void free_data(void *data, size_t length)
{
    (void)length;
    mr_free(data);
}

TF_Buffer *TF_NewBuffer(void)
{
    return mr_new(TF_Buffer);
}

TF_Buffer *TF_NewBufferFromString(const void *proto, size_t proto_len)
{
    void *data = mr_try_alloc(proto_len);
    if (!data)
        return NULL;
    if (proto_len)
        memcpy(data, proto, proto_len);
    TF_Buffer *b = TF_NewBuffer();
    *b = (TF_Buffer){data, proto_len, free_data};
    return b;
}

void TF_DeleteBuffer(TF_Buffer *buffer)
{
    if (!buffer)
        return;
    if (buffer->data_deallocator)
        buffer->data_deallocator((void *)(uintptr_t)buffer->data, buffer->length);
    mr_free(buffer);
}

TF_Buffer TF_GetBuffer(TF_Buffer *buffer)
{
    return *buffer;
}

bool mr_capi_buffer_from_str(TF_Buffer *out, mr_str *s)
{
    if (!out || out->data)
        return false;
    size_t n = s->n; /* before taking it, which empties s */
    char *data = mr_str_take(s);
    *out = (TF_Buffer){data, n, data ? free_data : NULL};
    return true;
}

mr_status *mr_capi_buffer_fill(TF_Buffer *out, mr_str *s)
{
    if (mr_capi_buffer_from_str(out, s))
        return NULL;
    mr_str_deinit(s);
    return out ? mr_invalid("Passing non-empty TF_Buffer is invalid.")
               : mr_invalid("The buffer to fill is NULL");
}

TF_Buffer *mr_capi_buffer_new(mr_str *s)
{
    TF_Buffer *b = TF_NewBuffer();
    (void)mr_capi_buffer_from_str(b, s);
    return b;
}

mr_sv mr_capi_buffer_view(const TF_Buffer *b)
{
    return b && b->data ? (mr_sv){b->data, b->length} : MR_SV("");
}
