/* dist/ps_view.c -- the view: copies, checks, neighbours.
 *
 * A view that passed mr_ps_view_check has servers in rising order and a chain of at least one
 * member for every range; the other functions and the callers rely on that. */
#include "dist/ps_view.h"

void mr_ps_view_deinit(mr_ps_view *v)
{
    mr_vec_deinit(&v->servers);
    mr_vec_deinit(&v->ranges);
    *v = (mr_ps_view){0};
}

/* Keeps the memory of `to`. */
void mr_ps_view_copy(mr_ps_view *to, const mr_ps_view *from)
{
    MR_ASSERT(to != from);
    to->epoch = from->epoch;
    to->replicas = from->replicas;
    to->servers.n = to->ranges.n = 0;
    mr_vec_reserve(&to->servers, from->servers.n);
    mr_vec_reserve(&to->ranges, from->ranges.n);
    for (int i = 0; i < from->servers.n; i++)
        mr_vec_push(&to->servers, from->servers.p[i]);
    for (int i = 0; i < from->ranges.n; i++)
        mr_vec_push(&to->ranges, from->ranges.p[i]);
}

/* ---- checks ---- */

static bool is_twice(const mr_ps_range *s, int i)
{
    for (int k = 0; k < i; k++)
        if (s->chain[k].id == s->chain[i].id)
            return true;
    return s->chain[i].id == s->catching.id;
}

static bool is_member_good(const mr_ps_member *b, const mr_ps_range *s)
{
    return b->id != 0 && b->since != 0 && b->since <= s->epoch;
}

/* A member that is no server of the view would have no address, and its loss would never be
 * noticed. Only a lost range may name a server that is gone. */
static bool are_servers(const mr_ps_view *v, const mr_ps_range *s)
{
    for (int i = 0; i < s->n && !s->lost; i++)
        if (!mr_ps_view_has_server(v, s->chain[i].id))
            return false;
    return s->catching.id == 0 || mr_ps_view_has_server(v, s->catching.id);
}

/* A lost range does not move: one member, not draining, no member that catches up. */
static mr_status *check_range(const mr_ps_view *v, int range)
{
    const mr_ps_range *s = &v->ranges.p[range];
    if (s->n < 1 || s->n > MR_PS_MAX_CHAIN)
        return mr_invalid("view %llu: range %d has a chain of %d servers, expected 1 to %d",
                          (unsigned long long)v->epoch, range, s->n, MR_PS_MAX_CHAIN);
    if (s->epoch == 0 || s->epoch > v->epoch || s->generation == 0 || s->generation > s->epoch)
        return mr_invalid("view %llu: range %d has epoch %llu and generation %llu", (unsigned long long)v->epoch, range,
                          (unsigned long long)s->epoch, (unsigned long long)s->generation);
    if (s->lost && (s->n != 1 || s->draining || s->catching.id))
        return mr_invalid("view %llu: range %d is lost and moves at the same time", (unsigned long long)v->epoch,
                          range);
    for (int i = 0; i < s->n; i++)
        if (!is_member_good(&s->chain[i], s) || is_twice(s, i))
            return mr_invalid("view %llu: member %llx of range %d is invalid or named twice",
                              (unsigned long long)v->epoch, (unsigned long long)s->chain[i].id, range);
    if (s->catching.id && !is_member_good(&s->catching, s))
        return mr_invalid("view %llu: the member that catches up with range %d has no valid epoch",
                          (unsigned long long)v->epoch, range);
    if (!are_servers(v, s))
        return mr_invalid("view %llu: range %d has a member that is not among the servers",
                          (unsigned long long)v->epoch, range);
    return NULL;
}

/* Views come from peers; everything that the functions below and the callers rely on is checked here. */
mr_status *mr_ps_view_check(const mr_ps_view *v)
{
    if (v->ranges.n < 1 || v->ranges.n > MR_PS_MAX_RANGES || v->servers.n < 0 || v->servers.n > MR_PS_MAX_SERVERS)
        return mr_invalid("a view has %d ranges (expected 1 to %d) and %d servers (at most %d)", v->ranges.n,
                          MR_PS_MAX_RANGES, v->servers.n, MR_PS_MAX_SERVERS);
    if (v->epoch == 0 || v->replicas < 1 || v->replicas > MR_PS_MAX_REPLICAS)
        return mr_invalid("a view has epoch %llu and %d replicas (expected 1 to %d)", (unsigned long long)v->epoch,
                          v->replicas, MR_PS_MAX_REPLICAS);
    for (int i = 0; i < v->servers.n; i++)
        if (v->servers.p[i].id <= (i > 0 ? v->servers.p[i - 1].id : 0))
            return mr_invalid("view %llu: the ids of its servers do not rise", (unsigned long long)v->epoch);
    for (int i = 0; i < v->ranges.n; i++)
        MR_TRY(check_range(v, i));
    return NULL;
}

/* ---- neighbours ---- */

bool mr_ps_view_has_server(const mr_ps_view *v, uint64_t id)
{
    int low = 0, high = v->servers.n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (v->servers.p[mid].id == id)
            return true;
        if (v->servers.p[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

int mr_ps_range_index(const mr_ps_range *s, uint64_t id)
{
    for (int i = 0; i < s->n; i++)
        if (s->chain[i].id == id)
            return i;
    return -1;
}

uint64_t mr_ps_range_before(const mr_ps_range *s, uint64_t id)
{
    int i = id != 0 && s->catching.id == id ? s->n : mr_ps_range_index(s, id);
    return i > 0 ? s->chain[i - 1].id : 0;
}

uint64_t mr_ps_range_after(const mr_ps_range *s, uint64_t id)
{
    int i = mr_ps_range_index(s, id);
    if (i < 0)
        return 0;
    return i + 1 < s->n ? s->chain[i + 1].id : s->catching.id;
}
