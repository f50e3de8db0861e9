/* store/checkpoint.c -- one interface to checkpoints of both formats. */
#include "store/checkpoint.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/vec.h"
#include "store/bundle.h"
#include "store/checkpoint_v1.h"
#include "store/table.h"

struct mr_checkpoint {
    mr_bundle *bundle; /* exactly one of bundle and v1 is set */
    mr_v1_reader *v1;
    MR_VEC(mr_sv) names; /* of v1, ascending; a bundle keeps its names in order itself */
};

static int by_bytes(const void *a, const void *b) { return mr_bytes_compare(*(const mr_sv *)a, *(const mr_sv *)b); }

static void list_names(mr_checkpoint *c)
{
    for (int i = 0; i < mr_v1_count(c->v1); i++)
        mr_vec_push(&c->names, mr_v1_name(c->v1, i));
    if (c->names.n)
        qsort(c->names.p, (size_t)c->names.n, sizeof(mr_sv), by_bytes);
}

mr_status *mr_checkpoint_open(const char *path, mr_checkpoint **out)
{
    mr_checkpoint *c = mr_new(mr_checkpoint);
    mr_status *st = mr_bundle_exists(path) ? mr_bundle_open(path, &c->bundle) : mr_v1_open(mr_sv_of(path), &c->v1);
    if (st) {
        mr_free(c);
        return st;
    }
    if (c->v1)
        list_names(c);
    *out = c;
    return NULL;
}

void mr_checkpoint_close(mr_checkpoint *c)
{
    if (!c)
        return;
    mr_vec_deinit(&c->names);
    mr_bundle_close(c->bundle);
    mr_v1_close(c->v1);
    mr_free(c);
}

int mr_checkpoint_count(const mr_checkpoint *c) { return c->v1 ? c->names.n : mr_bundle_count(c->bundle); }

mr_sv mr_checkpoint_name(const mr_checkpoint *c, int i)
{
    return c->v1 ? c->names.p[i] : mr_bundle_name(c->bundle, i);
}

static mr_status *lookup_v1(const mr_v1_reader *r, mr_sv name, mr_checkpoint_entry *out)
{
    const mr_shape *shape;
    if (!mr_v1_lookup(r, name, &out->dtype, &shape))
        return mr_error(MR_NOT_FOUND, "Tensor name \"%.*s\" not found in checkpoint files", MR_SV_ARG(name));
    out->shape = *shape;
    return mr_v1_stored(r, name, &out->in_slices, &out->bytes);
}

mr_status *mr_checkpoint_lookup(const mr_checkpoint *c, mr_sv name, mr_checkpoint_entry *out)
{
    mr_bundle_entry e;
    if (c->v1)
        return lookup_v1(c->v1, name, out);
    MR_TRY(mr_bundle_lookup(c->bundle, name, &e));
    *out = (mr_checkpoint_entry){e.dtype, e.n_slices > 0, e.size, e.shape};
    return NULL;
}

mr_status *mr_checkpoint_read(mr_checkpoint *c, mr_sv name, mr_allocator *a, mr_tensor **out)
{
    return c->v1 ? mr_v1_read(c->v1, name, NULL, a, out) : mr_bundle_read(c->bundle, name, a, out);
}
