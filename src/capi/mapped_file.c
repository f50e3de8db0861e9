/* capi/mapped_file.c -- files that are mapped as a TF_Buffer, so that large constants of a graph stay in them.
 *
 * A client may delete the buffer, or copy the struct, while graphs use the bytes. So the mapping is a tensor of bytes, which
 * graphs refer to; a list of those that have a buffer leads from the address, all that a deallocator gets, to the tensor. */
#include "capi/internal.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"
#include "millrace/saved_model.h"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static MR_VEC(mr_tensor *) mapped MR_GUARDED_BY(mu);

static void unmap(void *data, size_t bytes, void *arg)
{
    (void)arg;
    mr_file_unmap(data, bytes);
}

static int find_locked(const void *data) MR_REQUIRES(mu)
{
    for (int i = 0; i < mapped.n; i++)
        if (mapped.p[i]->data == data)
            return i;
    return -1;
}

static void forget(void *data, size_t length)
{
    (void)length;
    mr_lock(&mu);
    int i = find_locked(data);
    mr_tensor *t = i < 0 ? NULL : mapped.p[i];
    if (t)
        mr_vec_remove_swap(&mapped, i);
    if (mapped.n == 0)
        mr_vec_deinit(&mapped);
    mr_unlock(&mu);
    mr_tensor_unref(t);
}

mr_tensor *mr_capi_buffer_source(const TF_Buffer *b)
{
    if (!b || b->data_deallocator != forget)
        return NULL;
    mr_lock(&mu);
    int i = find_locked(b->data);
    mr_tensor *t = i < 0 ? NULL : mr_tensor_ref(mapped.p[i]);
    mr_unlock(&mu);
    return t;
}

static mr_status *map_file(const char *path, TF_Buffer **out)
{
    void *data;
    size_t n;
    mr_tensor *t;
    MR_TRY(mr_file_map(path, &data, &n));
    int64_t elements = (int64_t)n;
    if (data) {
        MR_TRY(mr_tensor_adopt(MR_UINT8, 1, &elements, data, n, unmap, NULL, &t));
        t->readonly = true;
        mr_lock(&mu);
        mr_vec_push(&mapped, t);
        mr_unlock(&mu);
    }
    *out = TF_NewBuffer();
    **out = (TF_Buffer){data, n, data ? forget : NULL};
    return NULL;
}

TF_Buffer *mr_map_file(const char *path, TF_Status *status)
{
    TF_Buffer *out = NULL;
    mr_capi_set_status(status, path ? map_file(path, &out) : mr_invalid("path is NULL"));
    return out;
}
