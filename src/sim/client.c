/* sim/client.c -- a client of the cluster: it opens sessions at a master and runs steps until enough have succeeded.
 *
 * A client behaves like TensorFlow's: it retries a call that ends UNAVAILABLE with the same request id, and opens a new
 * session after an ABORTED or UNAVAILABLE step. It continues until its steps are done, which exposes a cluster that
 * does not recover after the last fault. */
#include "sim/world.h"

enum { RETRIES = 3 };
#define LONGEST_STEP_NS (60 * MR_SIM_S)

static void next_step(mr_sim *s, void *arg);
static void run_step(mr_sim *s, void *arg);

/* ---- sessions ---- */

static void give_up(mr_sim *s, void *arg)
{
    mr_sim_call *call = arg;
    mr_sim_client *c = call->ctx;
    c->gave_up |= call->caller_open;
    mr_sim_cancel(s, call);
}

static void session_created(mr_sim *s, mr_sim_call *call, mr_status *st)
{
    mr_sim_client *c = call->ctx;
    mr_sim_say(s, c->node, "CreateSession: %s", mr_code_name(mr_status_code(st)));
    if (st) {
        mr_status_free(st);
        mr_sim_after(s, c->node, mr_sim_between(s, 100 * MR_SIM_MS, MR_SIM_S), mr_sim_client_create, c);
        return;
    }
    c->session = call->reply.session;
    c->ready(s, c);
}

void mr_sim_client_create(mr_sim *s, void *arg)
{
    mr_sim_client *c = arg;
    mr_sim_message q = {.kind = MR_SIM_CREATE_SESSION};
    mr_sim_call *call = mr_sim_start(s, c->node, c->master, &q, 0, true, session_created, c);
    if (mr_sim_chance(s, 500))
        mr_sim_after(s, c->node, mr_sim_between(s, 0, 10 * MR_SIM_MS), give_up, call);
}

static void session_closed(mr_sim *s, mr_sim_call *call, mr_status *st)
{
    mr_sim_client *c = call->ctx;
    mr_status_free(st);
    if (call->q.request) /* closed for good */
        c->finished = true;
    else
        mr_sim_client_create(s, c);
}

void mr_sim_client_close(mr_sim *s, mr_sim_client *c, bool for_good)
{
    mr_sim_message q = {.kind = MR_SIM_CLOSE_SESSION, .session = c->session, .request = for_good};
    c->session = 0;
    mr_sim_start(s, c->node, c->master, &q, 10 * MR_SIM_S, false, session_closed, c);
}

/* ---- steps ---- */

static void step_answered(mr_sim *s, mr_sim_client *c, mr_code code)
{
    mr_sim_ledger_answered(s, c->step.v.a, code);
    if (s->now_ns - c->start_ns > LONGEST_STEP_NS)
        mr_sim_fail(s, "%s waited %lld s for a step", s->nodes[c->node].name,
                    (long long)((s->now_ns - c->start_ns) / MR_SIM_S));
    c->n_ok += code == MR_OK;
    if (code == MR_OK || code == MR_DEADLINE_EXCEEDED || (code == MR_CANCELLED && c->gave_up))
        mr_sim_after(s, c->node, mr_sim_between(s, 0, 2 * MR_SIM_S), next_step, c);
    else
        mr_sim_client_close(s, c, false);
}

static void step_ran(mr_sim *s, mr_sim_call *call, mr_status *st)
{
    mr_sim_client *c = call->ctx;
    mr_code code = mr_status_code(st);
    mr_sim_say(s, c->node, "RunStep with %lld: %s %s", (long long)c->step.v.a, mr_code_name(code), mr_status_message(st));
    mr_status_free(st);
    if (code == MR_UNAVAILABLE && c->n_retries++ < RETRIES)
        mr_sim_after(s, c->node, mr_sim_between(s, 0, 300 * MR_SIM_MS), run_step, c);
    else
        step_answered(s, c, code);
}

static void run_step(mr_sim *s, void *arg)
{
    mr_sim_client *c = arg;
    mr_sim_call *call = mr_sim_start(s, c->node, c->master, &c->step, 0, true, step_ran, c);
    if (mr_sim_chance(s, 500))
        mr_sim_after(s, c->node, mr_sim_between(s, 0, 100 * MR_SIM_MS), give_up, call);
}

/* Starts the next step with a random set of parameter servers and sometimes a timeout, or closes the session for good
 * after the last one. */
static void next_step(mr_sim *s, void *arg)
{
    mr_sim_client *c = arg;
    if (c->n_ok >= c->n_wanted) {
        mr_sim_client_close(s, c, true);
        return;
    }
    int mask = (int)mr_sim_between(s, 1, (1 << s->n_ps) - 1);
    c->step = (mr_sim_message){.kind = MR_SIM_RUN_STEP,
                               .session = c->session,
                               .request = (int64_t)(mr_sim_random(s) | 1),
                               .v = {.a = mr_sim_ledger_request(s, mask)},
                               .mask = mask,
                               .timeout_ns = mr_sim_chance(s, 2000) ? mr_sim_between(s, 10 * MR_SIM_MS, 3 * MR_SIM_S) : 0};
    c->n_retries = 0;
    c->gave_up = false;
    c->start_ns = s->now_ns;
    run_step(s, c);
}

/* ---- start and end ---- */

void mr_sim_client_start(mr_sim *s, int node)
{
    mr_sim_client *c = s->clients[node] = mr_arena_new(&s->arena, mr_sim_client);
    c->node = node;
    c->master = s->n_ps + (int)mr_sim_between(s, 0, s->n_workers - 1);
    c->ready = next_step;
    c->n_wanted = (int)mr_sim_between(s, 4, 12);
    s->nodes[node].up = true;
    mr_sim_after(s, node, mr_sim_between(s, 0, MR_SIM_S), mr_sim_client_create, c);
}

bool mr_sim_clients_finished(const mr_sim *s)
{
    for (int i = s->n_tasks; i < s->n_nodes; i++)
        if (!s->clients[i]->finished)
            return false;
    return true;
}
