/* ops/linalg/packed.c -- constant weights in the format of the tiles, kept by a kernel between runs. */
#include "ops/linalg/packed.h"

void mr_packed_init(mr_packed *p)
{
    *p = (mr_packed){.how = -1};
    mr_mutex_init(&p->mu);
}

void mr_packed_deinit(mr_packed *p)
{
    mr_tensor_unref(p->source);
    mr_tensor_unref(p->form);
    mr_mutex_deinit(&p->mu);
}

mr_tensor *mr_packed_get(mr_packed *p, const mr_tensor *source, int how)
{
    mr_tensor *form = NULL;
    if (!mr_packed_can_keep(source))
        return NULL;
    mr_lock(&p->mu);
    if (p->source == source && p->how == how && p->tiles == mr_tiles_here())
        form = mr_tensor_ref(p->form);
    mr_unlock(&p->mu);
    return form;
}

void mr_packed_keep(mr_packed *p, const mr_tensor *source, int how, const mr_tensor *form)
{
    if (!mr_packed_can_keep(source))
        return;
    mr_lock(&p->mu);
    mr_tensor *old_source = p->source, *old_form = p->form;
    p->source = mr_tensor_ref(source);
    p->form = mr_tensor_ref(form);
    p->how = how;
    p->tiles = mr_tiles_here();
    mr_unlock(&p->mu);
    mr_tensor_unref(old_source);
    mr_tensor_unref(old_form);
}
