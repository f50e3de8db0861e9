/* sim/check.c -- the invariants of a simulated cluster: a ledger checks every update during the run, and the state that
 * is left is checked at the end. */
#include "sim/world.h"

typedef struct entry {
    int mask;
    int n_applied[MR_SIM_MAX_TASKS]; /* by parameter server */
} entry;

struct mr_sim_ledger {
    MR_VEC(entry) entries; /* by amount - 1 */
};

void mr_sim_ledger_open(mr_sim *s) { s->ledger = mr_new(mr_sim_ledger); }

int64_t mr_sim_ledger_request(mr_sim *s, int mask)
{
    entry e = {.mask = mask};
    mr_vec_push(&s->ledger->entries, e);
    return s->ledger->entries.n;
}

void mr_sim_ledger_applied(mr_sim *s, int ps, int64_t amount)
{
    if (amount < 1 || amount > s->ledger->entries.n || !(s->ledger->entries.p[amount - 1].mask >> ps & 1)) {
        mr_sim_fail(s, "%s adds %lld, which was not requested from it", s->nodes[ps].name, (long long)amount);
        return;
    }
    if (++s->ledger->entries.p[amount - 1].n_applied[ps] > 1)
        mr_sim_fail(s, "%s adds %lld twice", s->nodes[ps].name, (long long)amount);
}

/* An error proves nothing: some parts may have run. Success means that all parts ran exactly once. */
void mr_sim_ledger_answered(mr_sim *s, int64_t amount, mr_code code)
{
    const entry *e = &s->ledger->entries.p[amount - 1];
    s->result->n_steps_ok += code == MR_OK;
    s->result->n_steps_failed += code != MR_OK;
    for (int i = 0; code == MR_OK && i < s->n_ps; i++)
        if (e->n_applied[i] != (e->mask >> i & 1))
            mr_sim_fail(s, "the step with %lld succeeded, but %s added it %d times", (long long)amount, s->nodes[i].name,
                        e->n_applied[i]);
}

/* ---- at the end: the faults are over, the clients have finished, and time has passed ---- */

static void check_sessions(mr_sim *s, const mr_sim_task *t)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&t->sessions.by_handle, &pos, &key, &v)) {
        const mr_worker_session *w = v;
        bool known = false;
        for (int i = 0; i < s->n_tasks; i++)
            known |= strcmp(s->nodes[i].name, w->master) == 0 && mr_sim_master_knows(s->nodes[i].task, w->handle);
        if (!known)
            mr_sim_fail(s, "%s keeps session %s, which its master does not know", s->nodes[t->node].name, w->handle);
    }
}

static void check_task(mr_sim *s, const mr_sim_task *t)
{
    mr_worker_step *w = mr_worker_steps_any(t->steps, NULL);
    if (w)
        mr_sim_fail(s, "%s still has step %llx", s->nodes[t->node].name, (unsigned long long)w->id);
    for (int i = 0; i < s->n_tasks; i++)
        if (i != t->node && t->members.members[i].state != MR_MEMBER_ALIVE)
            mr_sim_fail(s, "%s does not see that %s is alive", s->nodes[t->node].name, s->nodes[i].name);
    if (mr_sim_master_busy(t))
        mr_sim_fail(s, "the master of %s still runs steps", s->nodes[t->node].name);
    check_sessions(s, t);
}

void mr_sim_check_end(mr_sim *s)
{
    if (!s->result->failure && !mr_sim_clients_finished(s))
        mr_sim_fail(s, "a client does not finish");
    for (int i = 0; i < s->n_tasks && !s->result->failure; i++)
        check_task(s, s->nodes[i].task);
    for (mr_sim_call *c = s->calls; c && !s->result->failure; c = c->next)
        if (c->q.kind != MR_SIM_HEARTBEAT && c->served)
            mr_sim_fail(s, "%s still has a %s of %s", s->nodes[c->to].name, mr_sim_kind_name(c->q.kind), s->nodes[c->from].name);
    mr_vec_deinit(&s->ledger->entries);
    mr_free(s->ledger);
}
