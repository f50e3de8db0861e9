/* server/master_placing.c -- placement by cost over the devices of all tasks.
 *
 * As in a session of one process (exec/placing.h): with placement_period, the master chooses devices
 * by the estimated time of a step, asks its tasks from time to time for the stats of a step, and
 * places the nodes again by what it has learned. Programs of earlier placements are no longer found;
 * they stay until the session ends, because steps may still run them. */
#include "base/memory.h"
#include "server/master_internal.h"
#include "server/wire.h"

/* Called once, when the devices of all tasks are known. */
void mr_msession_placing_init(mr_msession *s)
{
    if (s->config.placement_period > 0)
        s->placing = mr_placing_new(s->devices, s->n_devices, s->config.placement_period);
}

/* Takes the finished programs out of the table. Partial runs continue with the placement they began
 * with, and programs that are being registered are kept, because steps wait in them. */
static void forget_programs_locked(mr_msession *s) MR_REQUIRES(s->mu)
{
    mr_map kept = {0};
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&s->programs, &pos, &key, &v)) {
        mr_mprogram *p = v;
        if (p->partial || !p->ready)
            mr_map_put(&kept, key, p);
        else
            mr_vec_push(&s->failed, p);
    }
    mr_map_deinit(&s->programs);
    s->programs = kept;
}

/* Forgets where nodes are, and the programs that were made for it. The next step of each signature makes its program
 * again. Steps that run keep theirs. */
void mr_msession_place_anew(mr_msession *s)
{
    /* Under both locks, so that no program with the old placement is added meanwhile. */
    mr_lock(&s->making);
    mr_placing_forget(s->graph, &s->placements);
    mr_lock(&s->mu);
    forget_programs_locked(s);
    mr_unlock(&s->mu);
    mr_unlock(&s->making);
}

/* A task's reply without stats, or with stats that cannot be parsed, teaches nothing. */
void mr_master_run_learn(mr_master_run *t)
{
    for (int i = 0; i < t->n_parts; i++) {
        mr_run_reply reply = {0};
        mr_status *st = mr_run_reply_parse(&t->parts[i].reply, &reply);
        if (!st)
            mr_placing_learn_stats(t->session->placing, reply.stats);
        mr_status_free(st);
        mr_run_reply_deinit(&reply);
    }
}
