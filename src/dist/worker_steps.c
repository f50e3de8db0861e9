/* dist/worker_steps.c -- the steps a worker knows. */
#include "dist/worker_steps.h"

#include "base/memory.h"

/* Ids come from outside: mixed, so that none are made to collide in a table for numbers of our own. */
static uint64_t mixed(uint64_t id)
{
    id ^= id >> 33;
    id *= 0xff51afd7ed558ccdu;
    id ^= id >> 33;
    return id;
}

static bool seen(const mr_recent *r, uint64_t id) { return mr_imap_get(&r->set, mixed(id)) != NULL; }

static void remember(mr_recent *r, uint64_t id)
{
    if (seen(r, id))
        return;
    if (r->ring[r->at])
        mr_imap_remove(&r->set, mixed(r->ring[r->at]));
    r->ring[r->at] = id;
    r->at = (r->at + 1) % MR_STEPS_REMEMBERED;
    mr_imap_put(&r->set, mixed(id), r);
}

mr_worker_steps *mr_worker_steps_new(void) { return mr_new(mr_worker_steps); }

void mr_worker_steps_free(mr_worker_steps *t)
{
    if (!t)
        return;
    mr_imap_deinit(&t->steps);
    mr_imap_deinit(&t->over.set);
    mr_imap_deinit(&t->requests.set);
    mr_free(t);
}

mr_worker_step *mr_worker_steps_find(const mr_worker_steps *t, int64_t id)
{
    return mr_imap_get(&t->steps, mixed((uint64_t)id));
}

mr_status *mr_worker_steps_get(mr_worker_steps *t, int64_t id, mr_worker_step **out, bool *is_new)
{
    *is_new = false;
    if (seen(&t->over, (uint64_t)id))
        return mr_error(MR_ABORTED, "Step %lld is over", (long long)id);
    if ((*out = mr_worker_steps_find(t, id)))
        return NULL;
    *out = mr_new(mr_worker_step);
    (*out)->id = id;
    *is_new = true;
    mr_imap_put(&t->steps, mixed((uint64_t)id), *out);
    return NULL;
}

mr_status *mr_worker_steps_once(mr_worker_steps *t, int64_t request_id)
{
    if (request_id == 0)
        return NULL;
    if (seen(&t->requests, (uint64_t)request_id))
        return mr_error(MR_ABORTED, "The same request (id %lld) was received twice", (long long)request_id);
    remember(&t->requests, (uint64_t)request_id);
    return NULL;
}

void *mr_worker_steps_end(mr_worker_steps *t, int64_t id)
{
    mr_worker_step *s = mr_imap_remove(&t->steps, mixed((uint64_t)id));
    void *host = s ? s->host : NULL;
    if (id)
        remember(&t->over, (uint64_t)id);
    mr_free(s);
    return host;
}

mr_worker_step *mr_worker_steps_any(const mr_worker_steps *t)
{
    uint32_t pos = 0;
    uint64_t key;
    void *s = NULL;
    return mr_imap_next(&t->steps, &pos, &key, &s) ? s : NULL;
}
