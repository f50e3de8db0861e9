/* dist/groups.c -- see groups.h.
 *
 * A record collects the members of a group until it is complete; then it has a communicator, and
 * answers at once. Its instances collect the members of one broadcast until the source is known.
 * Invariants: n_members and asked_bytes are the sums over all records; a complete record has as
 * many members as its size, in the order of their ranks, and no waiting callers of members. */
#include "dist/groups.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

typedef struct instance {
    int64_t source;   /* rank; -1: not known */
    int64_t n_asked;  /* distinct members that have asked */
    bool *asked;      /* by rank */
    bool two;         /* two members claim to be the source */
    MR_VEC(void *) waiting;
} instance;

enum { KEY_BYTES = 64 };

/* The key of a map, written into text; borrowed from it. */
static mr_sv record_key(int64_t key, int64_t part, char text[KEY_BYTES])
{
    snprintf(text, KEY_BYTES, "%lld %lld", (long long)key, (long long)part);
    return mr_sv_of(text);
}

/* ---- memory ---- */

static void member_deinit(mr_group_member *m)
{
    mr_free(m->device);
    mr_free(m->attributes);
    mr_vec_deinit(&m->callers);
}

static void instance_free(instance *i)
{
    mr_vec_deinit(&i->waiting);
    mr_free(i->asked);
    mr_free(i);
}

/* Frees members and instances; no caller may wait in them any more. Accepts NULL. */
static void record_free(mr_group_record *g)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    if (!g)
        return;
    for (int i = 0; i < g->members.n; i++)
        member_deinit(&g->members.p[i]);
    mr_vec_deinit(&g->members);
    while (mr_map_next(&g->instances, &pos, &key, &v))
        instance_free(v);
    mr_map_deinit(&g->instances);
    mr_free(g);
}

void mr_groups_deinit(mr_groups *t)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&t->records, &pos, &key, &v))
        record_free(v);
    mr_map_deinit(&t->records);
}

/* ---- answers ---- */

/* Appends an answer; takes over st. */
static void add_answer(mr_group_answers *out, void *caller, mr_status *st, const mr_group_record *g, int64_t source)
{
    mr_vec_push(out, ((mr_group_answer){caller, st, g, source}));
}

/* Answers all callers of a member. why is copied; NULL: success. */
static void tell_member(mr_group_member *m, const mr_status *why, const mr_group_record *g, mr_group_answers *out)
{
    for (int i = 0; i < m->callers.n; i++)
        add_answer(out, m->callers.p[i], mr_status_copy(why), g, -1);
    m->callers.n = 0;
}

/* Answers all callers that wait in a record with an error. */
static void fail_record(mr_group_record *g, const mr_status *why, mr_group_answers *out)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    for (int i = 0; i < g->members.n; i++)
        tell_member(&g->members.p[i], why, NULL, out);
    while (mr_map_next(&g->instances, &pos, &key, &v)) {
        instance *in = v;
        for (int k = 0; k < in->waiting.n; k++)
            add_answer(out, in->waiting.p[k], mr_status_copy(why), NULL, -1);
        in->waiting.n = 0;
    }
}

/* Answers all callers that wait in the record with `why`, and frees it. */
static void drop_record(mr_groups *t, mr_group_record *g, const mr_status *why, mr_group_answers *out)
{
    char text[KEY_BYTES];
    MR_ASSERT(t->n_members >= g->members.n && t->asked_bytes >= g->asked_bytes);
    fail_record(g, why, out);
    mr_map_remove(&t->records, record_key(g->key, g->part, text));
    t->n_members -= g->members.n;
    t->asked_bytes -= g->asked_bytes;
    record_free(g);
}

/* ---- members ---- */

static mr_group_member *find_member(mr_group_record *g, mr_sv device, int64_t rank)
{
    for (int i = 0; i < g->members.n; i++)
        if (mr_sv_is(device, g->members.p[i].device) && g->members.p[i].rank == rank)
            return &g->members.p[i];
    return NULL;
}

/* Numbers inside names compare as numbers: task 2 comes before task 10. */
static int compare_names(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        if (*a >= '0' && *a <= '9' && *b >= '0' && *b <= '9') {
            char *ea, *eb;
            unsigned long long x = strtoull(a, &ea, 10), y = strtoull(b, &eb, 10);
            if (x != y)
                return x < y ? -1 : 1;
            a = ea - 1;
            b = eb - 1;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        }
    }
    return *a ? 1 : *b ? -1 : 0;
}

/* By rank, then by name: without ranks, which are all -1 then, the order is that of the names. */
static int compare_members(const void *a, const void *b)
{
    const mr_group_member *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return compare_names(x->device, y->device);
}

/* Members are sorted by rank. Either all members name their rank, each once, or none does. */
static mr_status *check_ranks(const mr_group_record *g)
{
    for (int i = 0; i < g->members.n; i++)
        if (g->members.p[0].rank >= 0 && g->members.p[i].rank != i)
            return mr_invalid("members of group %lld: rank %lld of %lld occurs twice or is out of range",
                              (long long)g->key, (long long)g->members.p[i].rank, (long long)g->size);
        else if (g->members.p[0].rank < 0 && g->members.p[i].rank >= 0)
            return mr_invalid("group %lld: some members name their rank, others do not", (long long)g->key);
    return NULL;
}

/* All members are known: ranks follow from the order, and all callers are answered. */
static void complete_record(mr_groups *t, mr_group_record *g, uint64_t fresh, mr_group_answers *out)
{
    MR_ASSERT(!g->communicator && g->members.n == g->size);
    qsort(g->members.p, (size_t)g->members.n, sizeof *g->members.p, compare_members);
    mr_status *st = check_ranks(g);
    if (st) {
        drop_record(t, g, st, out);
        mr_status_free(st);
        return;
    }
    MR_ASSERT(fresh != 0);
    g->communicator = fresh;
    for (int i = 0; i < g->members.n; i++)
        tell_member(&g->members.p[i], NULL, g, out);
}

/* Whether a complete record is useless to the caller: it was reported broken, has another size or another
 * incarnation of the member, or does not have this member at all. */
static bool is_stale(mr_group_record *g, const mr_group_ask *a)
{
    const mr_group_member *m = find_member(g, a->device, a->rank);
    return g->communicator == a->useless || !m || m->incarnation != a->incarnation || g->size != a->size;
}

/* Limits on sizes: the request may come from any task. */
static mr_status *check_ask(const mr_groups *t, const mr_group_ask *a)
{
    char text[KEY_BYTES];
    if (a->size < 1 || a->size > MR_GROUP_MAX_SIZE)
        return mr_invalid("group_size must be from 1 to %d but is %lld", MR_GROUP_MAX_SIZE, (long long)a->size);
    if (a->rank < -1 || a->rank >= a->size)
        return mr_invalid("group %lld: rank is %lld, expected 0 to %lld, or -1 for any", (long long)a->key,
                          (long long)a->rank, (long long)a->size - 1);
    if (a->attributes.n > MR_GROUP_MAX_TEXT || a->device.n > MR_GROUP_MAX_TEXT)
        return mr_invalid("group %lld: a device has a name of %zu bytes and attributes of %zu, at most %d are allowed",
                          (long long)a->key, a->device.n, a->attributes.n, MR_GROUP_MAX_TEXT);
    if (t->n_members >= MR_GROUPS_MAX_MEMBERS ||
        (t->records.n >= MR_GROUPS_MAX && !mr_map_get(&t->records, record_key(a->key, a->part, text))))
        return mr_error(MR_RESOURCE_EXHAUSTED, "There are %u groups with %lld members; no room for more in group %lld",
                        t->records.n, (long long)t->n_members, (long long)a->key);
    return NULL;
}

/* A member that asked before, in this incarnation or another, counts once. */
static void add_member(mr_groups *t, mr_group_record *g, const mr_group_ask *a)
{
    mr_group_member *m = find_member(g, a->device, a->rank);
    if (!m) {
        mr_vec_push(&g->members, (mr_group_member){.device = mr_strndup(a->device.p, a->device.n), .rank = a->rank});
        m = &g->members.p[g->members.n - 1];
        t->n_members++;
    }
    mr_free(m->attributes);
    m->attributes = mr_strndup(a->attributes.p, a->attributes.n);
    m->attributes_n = a->attributes.n;
    m->incarnation = a->incarnation;
    mr_vec_push(&m->callers, a->caller);
}

/* Answers at once if the group is complete and usable; otherwise the caller waits for the other
 * members. A complete group that is useless to its caller is formed again. */
void mr_groups_ask(mr_groups *t, const mr_group_ask *a, uint64_t fresh, mr_group_answers *out)
{
    char text[KEY_BYTES];
    mr_status *st = check_ask(t, a);
    mr_group_record *g = mr_map_get(&t->records, record_key(a->key, a->part, text));
    /* Callers that wait for a source in the old record get ABORTED and ask again. */
    if (!st && g && g->communicator && is_stale(g, a)) {
        mr_status *why = mr_error(MR_ABORTED, "group %lld is being formed again", (long long)a->key);
        drop_record(t, g, why, out);
        mr_status_free(why);
        g = NULL;
    }
    if (!st && g && !g->communicator && g->size != a->size)
        st = mr_invalid("members of group %lld disagree on its size: %lld and %lld", (long long)a->key,
                        (long long)g->size, (long long)a->size);
    if (st) {
        add_answer(out, a->caller, st, NULL, -1);
        return;
    }
    if (g && g->communicator) {
        add_answer(out, a->caller, NULL, g, -1);
        return;
    }
    if (!g) {
        g = mr_new(mr_group_record);
        g->key = a->key;
        g->part = a->part;
        g->size = a->size;
        mr_map_put(&t->records, mr_sv_of(text), g);
    }
    add_member(t, g, a);
    if (g->members.n == g->size)
        complete_record(t, g, fresh, out);
}

/* ---- leaving ---- */

/* Removes a caller from a list; false: it is not in it. */
static bool remove_caller(void **all, int *n, const void *caller)
{
    for (int i = 0; i < *n; i++)
        if (all[i] == caller) {
            all[i] = all[--*n];
            return true;
        }
    return false;
}

/* A member whose last caller has gone is removed: it may never come back. true: the caller waited in this
 * record. */
static bool leave_record(mr_groups *t, mr_group_record *g, const void *caller)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    for (int i = 0; i < g->members.n; i++) {
        mr_group_member *m = &g->members.p[i];
        if (!remove_caller(m->callers.p, &m->callers.n, caller))
            continue;
        if (m->callers.n == 0) {
            member_deinit(m);
            mr_vec_remove_swap(&g->members, i);
            t->n_members--;
        }
        return true;
    }
    while (mr_map_next(&g->instances, &pos, &key, &v))
        if (remove_caller(((instance *)v)->waiting.p, &((instance *)v)->waiting.n, caller))
            return true;
    return false;
}

/* A caller waits in at most one place. */
void mr_groups_leave(mr_groups *t, void *caller)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&t->records, &pos, &key, &v)) {
        mr_group_record *g = v;
        if (!leave_record(t, g, caller))
            continue;
        if (g->members.n == 0) {
            mr_map_remove(&t->records, key);
            record_free(g);
        }
        return;
    }
}

/* Communicators are unique, so at most one record is dropped. */
void mr_groups_break(mr_groups *t, uint64_t communicator, const mr_status *why, mr_group_answers *out)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (communicator && mr_map_next(&t->records, &pos, &key, &v))
        if (((mr_group_record *)v)->communicator == communicator) {
            drop_record(t, v, why, out);
            return;
        }
}

void mr_groups_drop(mr_groups *t, int64_t key, const mr_status *why, mr_group_answers *out)
{
    char text[KEY_BYTES];
    mr_group_record *g = mr_map_get(&t->records, record_key(key, 0, text));
    if (g)
        drop_record(t, g, why, out);
}

/* The records stay until mr_groups_deinit; no caller waits in them any more. */
void mr_groups_end(mr_groups *t, const mr_status *why, mr_group_answers *out)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&t->records, &pos, &key, &v))
        fail_record(v, why, out);
}

/* ---- sources of broadcasts ---- */

/* The instance of a number, made if it is new. Memory for all instances is bounded. */
static mr_status *find_instance(mr_groups *t, mr_group_record *g, int64_t number, instance **out)
{
    char text[KEY_BYTES];
    mr_sv key = record_key(number, 0, text);
    int64_t bytes = (int64_t)sizeof **out + KEY_BYTES + g->size;
    *out = mr_map_get(&g->instances, key);
    if (*out)
        return NULL;
    if (t->asked_bytes + bytes > MR_GROUPS_MAX_ASKED)
        return mr_error(MR_RESOURCE_EXHAUSTED, "group %lld of %lld has %u instances that broadcast; no room for more",
                        (long long)g->key, (long long)g->size, g->instances.n);
    t->asked_bytes += bytes;
    g->asked_bytes += bytes;
    *out = mr_new(instance);
    (*out)->source = -1;
    (*out)->asked = mr_new_array(bool, g->size);
    mr_map_put(&g->instances, key, *out);
    return NULL;
}

/* The rank of the device that asks; -1: not a member. */
static int64_t rank_of(const mr_group_record *g, const mr_instance_ask *a)
{
    for (int i = 0; i < g->members.n; i++)
        if (mr_sv_is(a->device, g->members.p[i].device) && (a->rank < 0 || a->rank == i))
            return i;
    return -1;
}

/* Answers all callers that wait for the source, with its rank or with what is wrong with the broadcast. */
static void tell_source(mr_group_record *g, instance *in, mr_group_answers *out)
{
    for (int i = 0; i < in->waiting.n; i++)
        if (in->two)
            add_answer(out, in->waiting.p[i], mr_error(MR_INTERNAL, "a broadcast has two sources"), NULL, -1);
        else if (in->source >= 0)
            add_answer(out, in->waiting.p[i], NULL, g, in->source);
        else
            add_answer(out, in->waiting.p[i], mr_error(MR_INTERNAL, "a broadcast has no source: all members receive"),
                       NULL, -1);
    in->waiting.n = 0;
}

/* Waits until the source has asked, or until all members have, none of them being the source. */
void mr_groups_ask_source(mr_groups *t, const mr_instance_ask *a, mr_group_answers *out)
{
    char text[KEY_BYTES];
    mr_group_record *g = mr_map_get(&t->records, record_key(a->key, a->part, text));
    mr_status *st = NULL;
    instance *in = NULL;
    int64_t rank = -1;
    if (!g || !g->communicator || (a->communicator && a->communicator != g->communicator))
        st = mr_error(MR_ABORTED, "group %lld does not exist, or was formed again", (long long)a->key);
    else if ((rank = rank_of(g, a)) < 0)
        st = mr_invalid("%.*s is not a member of group %lld", MR_SV_ARG(a->device), (long long)a->key);
    else
        st = find_instance(t, g, a->instance, &in);
    if (st) {
        add_answer(out, a->caller, st, NULL, -1);
        return;
    }
    MR_ASSERT(rank < g->size && in->n_asked <= g->size);
    /* A call that was repeated counts once. */
    in->n_asked += !in->asked[rank];
    in->asked[rank] = true;
    if (a->is_source) {
        in->two |= in->source >= 0 && in->source != rank;
        in->source = rank;
    }
    mr_vec_push(&in->waiting, a->caller);
    if (in->source >= 0 || in->n_asked == g->size)
        tell_source(g, in, out);
}
