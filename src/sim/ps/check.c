/* sim/ps/check.c -- the ledger: it knows every part of every push and checks the invariants. */
#include <string.h>

#include "sim/ps/world.h"

int mr_pss_new_part(mr_pss *w, int client, int range, bool bad)
{
    if (w->n_parts + 1 >= MAX_PARTS) {
        mr_pss_fail(w, "the ledger is full");
        return 0;
    }
    w->parts[++w->n_parts] = (mr_pss_part){.client = client, .range = range, .bad = bad};
    return w->n_parts;
}

/* ---- while it runs ---- */

/* Applies a record to a server's range: versions must be consecutive, and no part may be applied twice or in the wrong
 * range. */
void mr_pss_add_record(mr_pss *w, mr_pss_server *s, int range, const mr_pss_record *r)
{
    mr_pss_holding *h = &s->ranges[range].h;
    if (r->r.version != h->version + 1)
        mr_pss_fail(w, "range %d: record %llu comes after %llu", range, (unsigned long long)r->r.version,
                    (unsigned long long)h->version);
    h->version = r->r.version;
    for (int i = 0; i < r->r.n; i++) {
        int p = r->parts[i];
        h->hash = (h->hash ^ (uint64_t)p) * 1099511628211u;
        if (p == 0)
            continue;
        if (has_bit(h->parts, p))
            mr_pss_fail(w, "a push is doubled: part %d in range %d", p, range);
        if (w->parts[p].bad || w->parts[p].range != range)
            mr_pss_fail(w, "part %d must not be applied in range %d", p, range);
        set_bit(h->parts, p);
    }
    mr_pss_note(w, s->node, "range %llu: record %llu of %llu pushes", (uint64_t)range, r->r.version, (uint64_t)r->r.n,
                0);
}

/* A range may restart empty only if it is restored, or if no server is left that knew of it. */
void mr_pss_check_view(mr_pss *w, const mr_ps_view *v)
{
    mr_status *st = mr_ps_view_check(v);
    if (st)
        mr_pss_fail(w, "an invalid view: %s", mr_status_message(st));
    mr_status_free(st);
    if (v->epoch <= w->newest_epoch)
        mr_pss_fail(w, "view %llu comes after %llu", (unsigned long long)v->epoch, (unsigned long long)w->newest_epoch);
    w->newest_epoch = v->epoch;
    bool known = false;
    for (int i = 0; i < w->n_servers; i++)
        known |= w->servers[i]->up && w->servers[i]->view.epoch > 0;
    for (int i = 0; i < v->ranges.n; i++) {
        if (v->ranges.p[i].generation != w->generations[i] && w->generations[i] && !w->restoring && known)
            mr_pss_fail(w, "range %d is lost: it restarts empty although nobody restored it", i);
        w->was_restored |= w->generations[i] && v->ranges.p[i].generation != w->generations[i];
        w->generations[i] = v->ranges.p[i].generation;
    }
}

/* A task must succeed, or fail for a known reason. */
void mr_pss_check_code(mr_pss *w, const mr_pss_task *t, mr_code code)
{
    bool bad = false;
    for (int i = 0; t->push && i < t->n; i++)
        bad |= w->parts[t->parts[i]].bad;
    bool reason = code == MR_OK || (code == MR_INVALID_ARGUMENT && bad) || (code == MR_CANCELLED && t->is_cancelled) ||
                  (code == MR_DEADLINE_EXCEEDED && t->has_deadline) ||
                  (code == MR_DATA_LOSS && (w->result->n_lost > 0 || w->was_restored));
    if (!reason)
        mr_pss_fail(w, "task %lld ends with %s for no reason", (long long)t->id, mr_code_name(code));
}

/* When a head acknowledges, every complete live member of the chain must have the part. */
void mr_pss_check_ack(mr_pss *w, mr_pss_server *s, int range, int p)
{
    const mr_ps_range *v = &s->replicas[range].view;
    if (p == 0 || w->parts[p].given_up)
        return;
    for (int i = 0; i < v->n; i++) {
        const mr_pss_server *b = mr_pss_server_by_id(w, v->chain[i].id);
        const mr_psr *r = &b->replicas[range];
        bool same = b->up && r->since == v->chain[i].since && r->view.generation == v->generation;
        if (same && !has_bit(b->ranges[range].h.parts, p))
            mr_pss_fail(w, "part %d is acknowledged, and member %d of range %d does not have it", p, i, range);
    }
}

void mr_pss_take_ack(mr_pss *w, mr_pss_client *c, const mr_pss_message *m)
{
    w->parts[m->part].generation = m->generation;
    if (c->generation[m->range] != m->generation) {
        c->generation[m->range] = m->generation;
        c->acked[m->range] = (mr_pss_holding){0};
    }
    if (!w->parts[m->part].given_up)
        set_bit(c->acked[m->range].parts, m->part);
}

/* A pull must see everything that was acknowledged to its client before. */
void mr_pss_check_pull(mr_pss *w, mr_pss_server *s, const mr_pss_message *m)
{
    const mr_psr *r = &s->replicas[m->range];
    const uint64_t *has = s->ranges[m->range].h.parts;
    mr_code code = mr_psr_admits(r, m->epoch);
    for (int i = 0; code == MR_OK && r->view.generation == m->generation && i < MAX_PARTS / 64; i++)
        if (m->holds->parts[i] & ~has[i])
            mr_pss_fail(w, "a pull of range %d misses what its client had pushed", m->range);
    mr_pss_post(w, &(mr_pss_message){.kind = ANSWER,
                                     .from = s->node,
                                     .to = m->from,
                                     .range = m->range,
                                     .code = code,
                                     .task = m->task,
                                     .piece = m->piece,
                                     .try = m->try,
                                     .id = s->id,
                                     .epoch = r->view.epoch});
}

/* ---- at the end ---- */

/* All members of a chain must be equal and hold every acknowledged part. */
static void check_range(mr_pss *w, int range)
{
    const mr_ps_range *v = &w->manager.m.view.ranges.p[range];
    const mr_pss_holding *first = NULL;
    for (int i = 0; i < v->n; i++) {
        const mr_pss_server *s = mr_pss_server_by_id(w, v->chain[i].id);
        const mr_pss_holding *h = &s->ranges[range].h;
        if (!s->up) {
            mr_pss_fail(w, "range %d: a member is dead and the manager has not noticed", range);
            return;
        }
        if (!first)
            first = h;
        if (h->version != first->version || h->hash != first->hash || memcmp(h->parts, first->parts, sizeof h->parts))
            mr_pss_fail(w, "range %d: member %d is at version %llu, the head at %llu, and they differ", range, i,
                 (unsigned long long)h->version, (unsigned long long)first->version);
    }
    for (int p = 1; p <= w->n_parts; p++) {
        const mr_pss_part *k = &w->parts[p];
        if (k->range == range && k->acked && k->generation == v->generation && !has_bit(first->parts, p))
            mr_pss_fail(w, "a push is lost: part %d in range %d was acknowledged", p, range);
    }
}

/* Heads must be spread evenly over the servers, and every range must have its copies. */
static void check_balance(mr_pss *w)
{
    const mr_ps_view *v = &w->manager.m.view;
    int n = 0, least = MAX_RANGES, most = 0;
    for (int i = 0; i < v->servers.n; i++) {
        int heads = 0;
        for (int k = 0; k < v->ranges.n; k++)
            heads += mr_ps_range_head(&v->ranges.p[k]) == v->servers.p[i].id;
        if (v->servers.p[i].leaving && heads == 0)
            continue;
        n++;
        least = MR_MIN(least, heads);
        most = MR_MAX(most, heads);
    }
    if (n > 0 && most - least > 1)
        mr_pss_fail(w, "one server is head of %d ranges, another of %d", most, least);
    for (int i = 0; i < v->ranges.n; i++)
        if (v->ranges.p[i].n != MR_MIN(w->replicas, n))
            mr_pss_fail(w, "range %d has %d copies", i, v->ranges.p[i].n);
}

static void check_tasks(mr_pss *w)
{
    for (int i = 0; i < w->n_clients; i++)
        for (int k = 0; w->clients[i].up && k < w->clients[i].tasks.n; k++)
            if (!w->clients[i].tasks.p[k].ended)
                mr_pss_fail(w, "task %d of client %d does not end", k + 1, i);
}

void mr_pss_check_end(mr_pss *w)
{
    check_tasks(w);
    for (int i = 0; i < w->n_ranges && !w->result->failure; i++)
        check_range(w, i);
    check_balance(w);
}
