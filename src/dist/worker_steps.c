/* dist/worker_steps.c -- the steps a worker knows.
 *
 * A step is in the map from the first message about it until its end; after that its id is among
 * the newest ends, so that late and repeated messages are answered ABORTED and wait for nothing.
 * Ids are mixed before they are used as keys, because they come from other processes. */
#include "dist/worker_steps.h"

#include "base/memory.h"

mr_worker_steps *mr_worker_steps_new(void) { return mr_new(mr_worker_steps); }

void mr_worker_steps_free(mr_worker_steps *t)
{
    if (!t)
        return;
    mr_imap_deinit(&t->steps);
    mr_recent_deinit(&t->over);
    mr_recent_deinit(&t->requests);
    mr_free(t);
}

mr_worker_step *mr_worker_steps_find(const mr_worker_steps *t, int64_t id)
{
    return mr_imap_get(&t->steps, mr_id_mixed((uint64_t)id));
}

/* The caller does not own the step; it is freed by mr_worker_steps_end. */
mr_status *mr_worker_steps_get(mr_worker_steps *t, int64_t id, mr_worker_step **out, bool *is_new)
{
    *is_new = false;
    if (mr_recent_has(&t->over, (uint64_t)id))
        return mr_error(MR_ABORTED, "Step %lld is over", (long long)id);
    if ((*out = mr_worker_steps_find(t, id)))
        return NULL;
    *out = mr_new(mr_worker_step);
    (*out)->id = id;
    *is_new = true;
    mr_imap_put(&t->steps, mr_id_mixed((uint64_t)id), *out);
    return NULL;
}

mr_status *mr_worker_steps_once(mr_worker_steps *t, int64_t request_id)
{
    return mr_recent_once(&t->requests, request_id);
}

/* Pieces of a partial run may begin the same step several times. */
mr_status *mr_worker_steps_begin(mr_worker_step *s, bool piece, const void *owner)
{
    if (s->begun && !(piece && s->pieces))
        return mr_error(MR_ABORTED, "Step %lld was begun before", (long long)s->id);
    s->begun = true;
    s->pieces = piece;
    s->owner = owner;
    return NULL;
}

void mr_worker_steps_ask(mr_worker_step *s) { s->n_asked++; }

/* A step that never began has no master that would end it. */
bool mr_worker_steps_asked(mr_worker_step *s, bool gone)
{
    MR_ASSERT(s->n_asked > 0);
    return --s->n_asked == 0 && gone && !s->begun;
}

/* The end is remembered even if the step was unknown: its first message may still be on the way. */
void *mr_worker_steps_end(mr_worker_steps *t, int64_t id)
{
    mr_worker_step *s = mr_imap_remove(&t->steps, mr_id_mixed((uint64_t)id));
    void *host = s ? s->host : NULL;
    mr_recent_add(&t->over, (uint64_t)id);
    mr_free(s);
    return host;
}

/* For loops that end all steps: the caller ends the one it gets and asks again. */
mr_worker_step *mr_worker_steps_any(const mr_worker_steps *t, const void *owner)
{
    uint32_t pos = 0;
    uint64_t key;
    void *v = NULL;
    while (mr_imap_next(&t->steps, &pos, &key, &v))
        if (!owner || ((mr_worker_step *)v)->owner == owner)
            return v;
    return NULL;
}
