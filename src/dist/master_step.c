/* dist/master_step.c -- one step over several tasks, as its master sees it.
 *
 * n_running counts the parts that have not ended. Actions come in this order: all RUN, at most one
 * CANCEL for each part that still runs, then, when n_running is 0, all CLEANUP and one REPLY. */
#include "dist/master_step.h"

#include "base/memory.h"

void mr_master_step_init(mr_master_step *s, int n_parts)
{
    *s = (mr_master_step){.n_parts = n_parts, .running = mr_new_array(bool, n_parts + 1)};
}

void mr_master_step_deinit(mr_master_step *s)
{
    mr_free(s->running);
    mr_status_free(s->st);
    *s = (mr_master_step){0};
}

static void add_action(mr_step_actions *out, mr_step_do what, int part)
{
    mr_step_action a = {what, part};
    mr_vec_push(out, a);
}

/* A step of which more calls follow is cleaned up only if it failed. */
static void end_when_done(mr_master_step *s, mr_step_actions *out)
{
    if (s->n_running > 0)
        return;
    for (int i = 0; (s->st || !s->goes_on) && i < s->n_parts; i++)
        add_action(out, MR_DO_CLEANUP, i);
    add_action(out, MR_DO_REPLY, -1);
}

/* A step without parts is over at once. */
void mr_master_step_begin(mr_master_step *s, mr_step_actions *out)
{
    MR_ASSERT(s->n_running == 0 && !s->st);
    for (int i = 0; i < s->n_parts; i++) {
        s->running[i] = true;
        s->n_running++;
        add_action(out, MR_DO_RUN, i);
    }
    end_when_done(s, out);
}

/* Cancels what still runs, once. Cancelled parts still report their end. */
static void stop_others(mr_master_step *s, mr_step_actions *out)
{
    if (s->stopping)
        return;
    s->stopping = true;
    for (int i = 0; i < s->n_parts; i++)
        if (s->running[i])
            add_action(out, MR_DO_CANCEL, i);
}

/* The first error cancels the others. What cancelled parts report is marked as derived, so that the
 * root error is the one the client gets. */
void mr_master_step_ran(mr_master_step *s, int part, mr_status *st, mr_step_actions *out)
{
    if (part < 0 || part >= s->n_parts || !s->running[part]) {
        mr_status_free(st);
        return;
    }
    s->running[part] = false;
    s->n_running--;
    MR_ASSERT(s->n_running >= 0);
    bool failed = st != NULL;
    if (failed && s->stopping && mr_status_code(st) == MR_CANCELLED)
        mr_status_mark_derived(st);
    mr_status_update(&s->st, st);
    if (failed)
        stop_others(s, out);
    end_when_done(s, out);
}

/* Ignored after the end; the step keeps its result. */
void mr_master_step_stop(mr_master_step *s, mr_status *why, mr_step_actions *out)
{
    if (s->n_running == 0) {
        mr_status_free(why);
        return;
    }
    mr_status_update(&s->st, why);
    stop_others(s, out);
}

mr_status *mr_master_step_result(mr_master_step *s)
{
    mr_status *st = s->st;
    s->st = NULL;
    return st;
}
