/* group/shm_run.c -- operations as streams through shared memory.
 *
 * A member does three things, in blocks, in whatever order they are possible. It pushes values to the member that
 * merges them. It merges its own part from what all others push to it, into its output and into its common pipe.
 * And it pulls the merged parts of the others from their common pipes. It waits only when none of the three is
 * possible. In place this is safe: a value is overwritten only by its result, which cannot exist before the value
 * was pushed.
 *
 * What goes through which pipe, besides the heads (plan_op):
 *
 *     operation             pipe to each member             common pipe of each member
 *     all-reduce            values of the part it merges    its merged part
 *     all-reduce, tiny                                      all its values; every member merges all
 *     reduce-scatter        values of the part it merges
 *     all-gather                                            its values
 *     broadcast                                             the root's values
 *     all-to-all            its block
 *     barrier
 *
 * Every operation begins with a head in each pipe to a member, so that members that run different operations
 * notice. Merges are made in the order of ranks, whatever arrives first, so the bits of a result depend on nothing
 * else.
 *
 * Shared memory is written by other processes: heads are copied and checked, and counts are checked in shm_pipe.c. */
#include "group/merge.h"
#include "group/shm_internal.h"

enum {
    BLOCK = 64 << 10,
    TINY = 4 << 10, /* up to here every member sends all values to all and merges all: one trip instead of two */
};

typedef struct op {
    mr_shm *s;
    const mr_group_work *w;
    mr_shm_head head;
    size_t elem;
    const char *give; /* to put into the common pipe */
    size_t give_n, given;
    const char *own; /* this member's values of the part that it merges */
    char *merged_to;
    size_t merge_n, merged;
    bool publish; /* merged values also go into the common pipe */
    bool from_commons; /* pull from there; else from the pipe to this member */
    bool tiny;
    int heard, told; /* number of heads received and sent */
    bool in_place; /* all values are in shared buffers */
    int missing; /* the worst obstacle found since the last look began */
} op;

/* Why a member is waited for, the worst last. A member that has not begun holds up the others too, so it is the one to
 * name. */
enum { NOTHING_MISSING, SLOW, NO_VALUES, NO_HEAD };

/* Remembers the member to name in the log and in errors, if this obstacle is worse than those found before. */
static void note_obstacle(op *o, int rank, int what)
{
    if (what <= o->missing)
        return;
    o->missing = what;
    o->s->waits_for = rank;
}

/* ---- planning ---- */

/* All-reduce and reduce-scatter: each member merges one part. For reduce-scatter (scatter) nothing is pulled back. */
static void plan_parts(op *o, bool scatter)
{
    const mr_group_work *w = o->w;
    int self = o->s->t.rank, size = o->s->t.size;
    for (int i = 0; i < size; i++) {
        int64_t at, n;
        mr_shm_lane *l = &o->s->lanes[i];
        mr_group_part(w->count, size, i, &at, &n);
        size_t begin = (size_t)at * o->elem, bytes = (size_t)n * o->elem;
        l->push = (const char *)w->in + begin;
        l->push_n = i == self ? 0 : bytes;
        l->pull = scatter ? NULL : (char *)w->out + begin;
        l->pull_n = scatter || i == self ? 0 : bytes;
        if (i == self) {
            o->own = l->push;
            o->merged_to = scatter ? w->out : l->pull;
            o->merge_n = bytes;
        }
    }
    o->publish = !scatter;
    o->from_commons = true;
}

/* All-gather, or broadcast when only_root: values go through the common pipe of their owner. */
static void plan_gather(op *o, bool only_root)
{
    const mr_group_work *w = o->w;
    int self = o->s->t.rank;
    size_t bytes = (size_t)w->count * o->elem;
    for (int i = 0; i < o->s->t.size; i++) {
        mr_shm_lane *l = &o->s->lanes[i];
        l->pull = (char *)w->out + (only_root ? 0 : (size_t)i * bytes);
        l->pull_n = i == self || (only_root && i != w->root) ? 0 : bytes;
    }
    if (!only_root || self == w->root) {
        o->give = w->in;
        o->give_n = bytes;
        if (o->s->lanes[self].pull != w->in && bytes)
            memcpy(o->s->lanes[self].pull, w->in, bytes);
    }
    o->from_commons = true;
}

/* Blocks go through the pipe between each pair, not through common pipes. */
static void plan_all_to_all(op *o)
{
    const mr_group_work *w = o->w;
    int self = o->s->t.rank;
    size_t bytes = (size_t)w->count * o->elem;
    for (int i = 0; i < o->s->t.size; i++) {
        mr_shm_lane *l = &o->s->lanes[i];
        l->push = (const char *)w->in + (size_t)i * bytes;
        l->pull = (char *)w->out + (size_t)i * bytes;
        l->push_n = l->pull_n = i == self ? 0 : bytes;
    }
    if (bytes)
        memcpy(o->s->lanes[self].pull, o->s->lanes[self].push, bytes);
}

/* A small all-reduce: all values through the common pipes, and every member merges all of them. */
static void plan_tiny(op *o)
{
    o->tiny = true;
    o->give = o->own = o->w->in;
    o->merged_to = o->w->out;
    o->give_n = o->merge_n = (size_t)o->w->count * o->elem;
}

/* Decides what goes through which pipe: sets push and pull of each lane, and give and merge of this member. Everything
 * that is not set is 0, so a barrier exchanges only heads. */
static void plan_op(op *o)
{
    const mr_group_work *w = o->w;
    o->elem = mr_dtype_size(w->type);
    switch (w->kind) {
    case MR_GROUP_ALL_REDUCE:
        if ((size_t)w->count * o->elem <= TINY)
            plan_tiny(o);
        else
            plan_parts(o, false);
        break;
    case MR_GROUP_REDUCE_SCATTER:
        plan_parts(o, true);
        break;
    case MR_GROUP_ALL_GATHER:
        plan_gather(o, false);
        break;
    case MR_GROUP_BROADCAST:
        plan_gather(o, true);
        break;
    case MR_GROUP_ALL_TO_ALL:
        plan_all_to_all(o);
        break;
    case MR_GROUP_BARRIER:
        break;
    }
}

/* ---- heads ---- */

/* Describes the operation to the others. An in-place all-reduce in a shared buffer also names the buffer. */
static mr_shm_head make_head(op *o)
{
    const mr_group_work *w = o->w;
    mr_shm *s = o->s;
    size_t at = 0;
    mr_shm_head h = {.magic = MR_SHM_MAGIC, .kind = (uint16_t)w->kind, .number = s->number};
    MR_ASSERT(s->number > 0);
    if (w->kind == MR_GROUP_BARRIER)
        return h;
    h.type = (uint8_t)w->type;
    h.count = w->count;
    if (w->kind == MR_GROUP_BROADCAST)
        h.root = w->root;
    if (w->kind == MR_GROUP_ALL_REDUCE || w->kind == MR_GROUP_REDUCE_SCATTER) {
        h.merge = (uint8_t)w->merge;
        h.mean = w->mean;
    }
    if (w->kind == MR_GROUP_ALL_REDUCE && !o->tiny && w->in == w->out && s->memory.own &&
        s->memory.own(s->memory.arg, w->in, (size_t)w->count * o->elem, &h.buffer, &at))
        h.at = at;
    else
        h.buffer = 0;
    return h;
}

/* Compares the head that a member sent with ours: all members must run the same operation. */
static mr_status *check_head(const op *o, int rank, const mr_shm_head *got)
{
    const mr_shm_head *own = &o->head;
    if (got->magic != MR_SHM_MAGIC)
        return mr_shm_broken(o->s, rank);
    if (got->kind == own->kind && got->number == own->number && got->type == own->type && got->merge == own->merge &&
        got->count == own->count && got->root == own->root && got->mean == own->mean)
        return NULL;
    return mr_invalid(
        "group: members run different operations: operation %llu of member %d is of kind %d with %lld elements of "
        "%s, here operation %llu is of kind %d with %lld elements of %s",
        (unsigned long long)got->number, rank, got->kind, (long long)got->count, mr_dtype_name(got->type),
        (unsigned long long)own->number, own->kind, (long long)own->count, mr_dtype_name(own->type));
}

/* Puts a head into the pipe to a member, if there is room; *told and *moved are set then. */
static mr_status *tell_head(op *o, int rank, const mr_shm_head *h, bool *told, bool *moved)
{
    char *at;
    size_t room = mr_pipe_room(&o->s->to[rank], MR_PIPE_LINE, &at);
    if (room == MR_PIPE_BROKEN)
        return mr_shm_broken(o->s, rank);
    if (room < MR_PIPE_LINE)
        return NULL;
    memcpy(at, h, sizeof(*h));
    mr_pipe_put(&o->s->to[rank], MR_PIPE_LINE);
    o->s->owed[rank] += MR_PIPE_LINE;
    *told = *moved = true;
    return NULL;
}

/* Takes a head out of the pipe from a member, if there is one; *heard and *moved are set then. */
static mr_status *hear_head(op *o, int rank, mr_shm_head *h, bool *heard, bool *moved)
{
    const char *at;
    size_t ready = mr_pipe_ready(&o->s->from[rank], MR_PIPE_LINE, &at);
    if (ready == MR_PIPE_BROKEN)
        return mr_shm_broken(o->s, rank);
    if (ready < MR_PIPE_LINE)
        return NULL;
    memcpy(h, at, sizeof(*h));
    mr_pipe_take(&o->s->from[rank], MR_PIPE_LINE, o->s->t.rank);
    o->s->owed[rank] += MR_PIPE_LINE;
    *heard = *moved = true;
    return NULL;
}

/* Sends and receives the heads that are still missing, and checks those that arrive. */
static mr_status *exchange_heads(op *o, bool *moved)
{
    for (int i = 0; i < o->s->t.size; i++) {
        mr_shm_lane *l = &o->s->lanes[i];
        if (i == o->s->t.rank)
            continue;
        if (!l->told) {
            MR_TRY(tell_head(o, i, &o->head, &l->told, moved));
            o->told += l->told;
        }
        if (l->heard)
            continue;
        MR_TRY(hear_head(o, i, &l->head, &l->heard, moved));
        if (!l->heard) {
            note_obstacle(o, i, NO_HEAD);
            continue;
        }
        MR_TRY(check_head(o, i, &l->head));
        o->heard++;
    }
    return NULL;
}

/* ---- streams ---- */

/* Puts the next block for a member into the pipe to it, as far as there is room. */
static mr_status *push_values(op *o, int rank, bool *moved)
{
    mr_shm_lane *l = &o->s->lanes[rank];
    char *at;
    MR_ASSERT(rank != o->s->t.rank && l->pushed <= l->push_n);
    if (!l->told || l->pushed == l->push_n)
        return NULL;
    size_t left = l->push_n - l->pushed;
    size_t room = mr_pipe_room(&o->s->to[rank], MR_MIN((size_t)BLOCK, mr_shm_pad(left)), &at);
    if (room == MR_PIPE_BROKEN)
        return mr_shm_broken(o->s, rank);
    if (room == 0) {
        note_obstacle(o, rank, SLOW);
        return NULL;
    }
    size_t n = MR_MIN(room, left);
    memcpy(at, l->push + l->pushed, n);
    l->pushed += n;
    mr_pipe_put(&o->s->to[rank], room);
    mr_shm_moved(o->s, rank, room);
    *moved = true;
    return NULL;
}

/* Counts bytes put into the common pipe as owed to all other members, since all of them read it. */
static void count_published(op *o, size_t n)
{
    for (int i = 0; i < o->s->t.size; i++)
        if (i != o->s->t.rank)
            mr_shm_moved(o->s, i, n);
}

/* Puts the next block of this member's own values into the common pipe. */
static mr_status *give_values(op *o, bool *moved)
{
    mr_pipe *p = &o->s->commons[o->s->t.rank];
    char *at;
    MR_ASSERT(o->given <= o->give_n);
    if (o->given == o->give_n)
        return NULL;
    size_t left = o->give_n - o->given, room = mr_pipe_room(p, MR_MIN((size_t)BLOCK, mr_shm_pad(left)), &at);
    if (room == MR_PIPE_BROKEN)
        return mr_shm_broken(o->s, o->s->t.rank);
    if (room == 0)
        return NULL;
    size_t n = MR_MIN(room, left);
    memcpy(at, o->give + o->given, n);
    o->given += n;
    mr_pipe_put(p, room);
    count_published(o, room);
    *moved = true;
    return NULL;
}

/* Takes the next block of results from a member. */
static mr_status *pull_values(op *o, int rank, bool *moved)
{
    mr_shm_lane *l = &o->s->lanes[rank];
    mr_pipe *p = o->from_commons ? &o->s->commons[rank] : &o->s->from[rank];
    const char *at;
    MR_ASSERT(rank != o->s->t.rank && l->pulled <= l->pull_n);
    if (!l->heard || l->pulled == l->pull_n)
        return NULL;
    size_t left = l->pull_n - l->pulled, ready = mr_pipe_ready(p, MR_MIN((size_t)BLOCK, mr_shm_pad(left)), &at);
    if (ready == MR_PIPE_BROKEN)
        return mr_shm_broken(o->s, rank);
    if (ready == 0) {
        note_obstacle(o, rank, SLOW);
        return NULL;
    }
    size_t n = MR_MIN(ready, left);
    memcpy(l->pull + l->pulled, at, n);
    l->pulled += n;
    mr_pipe_take(p, ready, o->s->t.rank);
    mr_shm_moved(o->s, rank, ready);
    *moved = true;
    return NULL;
}

/* How many bytes can be merged now: those that all members have sent and that fit into the common pipe; 0: none.
 * in[] gets the place of each member's values. */
static mr_status *find_mergeable(op *o, const void **in, char **publish_at, size_t *out)
{
    mr_shm *s = o->s;
    size_t left = o->merge_n - o->merged, n = MR_MIN((size_t)BLOCK, mr_shm_pad(left));
    *out = 0;
    for (int i = 0; i < s->t.size && n; i++) {
        const char *at = o->own + o->merged;
        if (i != s->t.rank) {
            n = mr_pipe_ready(o->tiny ? &s->commons[i] : &s->from[i], n, &at);
            if (n == MR_PIPE_BROKEN)
                return mr_shm_broken(s, i);
            if (n == 0)
                note_obstacle(o, i, NO_VALUES);
        }
        in[i] = at;
    }
    if (n && o->publish) {
        n = mr_pipe_room(&s->commons[s->t.rank], n, publish_at);
        if (n == MR_PIPE_BROKEN)
            return mr_shm_broken(s, s->t.rank);
    }
    *out = n;
    return NULL;
}

/* Merges the next block of this member's part. Nothing is merged before everything is given: in place, the result
 * would overwrite values still to be given. */
static mr_status *merge_values(op *o, bool *moved)
{
    mr_shm *s = o->s;
    const void *in[MR_SHM_MOST];
    char *publish_at = NULL, *to = o->merged_to + o->merged;
    size_t padded;
    if (o->merged == o->merge_n || o->heard < s->t.size - 1 || o->given < o->give_n)
        return NULL;
    MR_TRY(find_mergeable(o, in, &publish_at, &padded));
    size_t n = MR_MIN(padded, o->merge_n - o->merged);
    if (n == 0)
        return NULL;
    /* `to` may be this member's own input, in[rank]; mr_merge_many allows that. */
    mr_merge_many(o->w->type, o->w->merge, in, s->t.size, o->w->mean ? s->t.size : 1, to, (int64_t)(n / o->elem));
    o->merged += n;
    MR_ASSERT(o->merged <= o->merge_n);
    if (o->publish) {
        memcpy(publish_at, to, n);
        mr_pipe_put(&s->commons[s->t.rank], padded);
    }
    /* Only now may the writers overwrite what was merged. */
    for (int i = 0; i < s->t.size; i++) {
        if (i == s->t.rank)
            continue;
        mr_pipe_take(o->tiny ? &s->commons[i] : &s->from[i], padded, s->t.rank);
        mr_shm_moved(s, i, padded);
    }
    *moved = true;
    return NULL;
}

/* ---- in place ---- */

/* Maps the shared buffers that the heads name. in_place is set if every member named one; all members see the same
 * heads, so all decide the same. */
static mr_status *find_places(op *o)
{
    mr_shm *s = o->s;
    size_t bytes = (size_t)o->w->count * o->elem, have;
    o->in_place = false;
    for (int i = 0; i < s->t.size; i++)
        if (!(i == s->t.rank ? o->head.buffer : s->lanes[i].head.buffer))
            return NULL;
    for (int i = 0; i < s->t.size; i++) {
        mr_shm_lane *l = &s->lanes[i];
        if (i == s->t.rank) {
            l->place = o->w->out;
            continue;
        }
        char *base = s->memory.find(s->memory.arg, i, l->head.buffer, &have);
        if (!base || l->head.at > have || bytes > have - l->head.at || l->head.at % o->elem)
            return mr_error(MR_UNAVAILABLE, "group: the shared buffer of member %d cannot be mapped", i);
        l->place = base + l->head.at;
    }
    o->in_place = true;
    return NULL;
}

/* Tells the others that this member cannot map a buffer; they would wait for its end otherwise. All heads have
 * been exchanged, so there is room in the pipes. */
static mr_status *give_up(op *o, mr_status *st)
{
    mr_shm_head h = o->head;
    h.kind = MR_SHM_GIVEN_UP;
    for (int i = 0; i < o->s->t.size; i++) {
        bool told = false, moved = false;
        if (i != o->s->t.rank)
            mr_status_free(tell_head(o, i, &h, &told, &moved));
    }
    mr_shm_tell(o->s);
    return st;
}

/* Merges this member's part directly from the buffers of all members, and writes the result into all of them. */
static void merge_in_place(op *o)
{
    mr_shm *s = o->s;
    const void *in[MR_SHM_MOST];
    MR_ASSERT(o->in_place && !o->tiny && o->merged == 0);
    size_t first = (size_t)((const char *)o->own - (const char *)o->w->in);
    while (o->merged < o->merge_n) {
        size_t at = first + o->merged, n = MR_MIN((size_t)BLOCK, o->merge_n - o->merged);
        for (int i = 0; i < s->t.size; i++)
            in[i] = s->lanes[i].place + at;
        mr_merge_many(o->w->type, o->w->merge, in, s->t.size, o->w->mean ? s->t.size : 1, (char *)o->w->out + at,
                      (int64_t)(n / o->elem));
        for (int i = 0; i < s->t.size; i++)
            if (i != s->t.rank)
                memcpy(s->lanes[i].place + at, (char *)o->w->out + at, n);
        o->merged += n;
    }
}

/* ---- running ---- */

typedef mr_status *(*look_fn)(op *o, bool *moved, bool *done);

/* Calls `look` until it is done, waiting whenever nothing moved. On every return the others are told of what
 * moved, also after an error, so that they can notice it. */
static mr_status *run_until_done(op *o, look_fn look, int64_t deadline_ns)
{
    mr_shm_wait w = {0};
    mr_status *st = NULL;
    for (bool done = false; !done;) {
        bool moved = false;
        o->missing = NOTHING_MISSING;
        MR_GO(look(o, &moved, &done));
        if (moved)
            mr_shm_busy(o->s, &w);
        else if (!done)
            MR_GO(mr_shm_idle(o->s, &w, deadline_ns));
    }
out:
    mr_shm_tell(o->s);
    mr_shm_busy(o->s, &w);
    return st;
}

/* A look_fn: done when every head has been sent and received. */
static mr_status *look_for_heads(op *o, bool *moved, bool *done)
{
    MR_TRY(exchange_heads(o, moved));
    *done = o->heard == o->s->t.size - 1 && o->told == o->s->t.size - 1;
    return NULL;
}

/* Whether this member has sent all that others need and received all that it needs. Others may still be reading. */
static bool is_complete(const op *o)
{
    bool done = o->heard == o->s->t.size - 1 && o->told == o->heard && o->merged == o->merge_n && o->given == o->give_n;
    for (int i = 0; i < o->s->t.size && done; i++) {
        const mr_shm_lane *l = &o->s->lanes[i];
        done = i == o->s->t.rank || (l->pushed == l->push_n && l->pulled == l->pull_n);
    }
    return done;
}

/* One round over everything that may be possible. Members start their loops at different peers, so that they do
 * not all wait for the same one. */
static mr_status *look_for_streams(op *o, bool *moved, bool *done)
{
    int size = o->s->t.size, self = o->s->t.rank;
    if (o->heard < size - 1 || o->told < size - 1)
        MR_TRY(exchange_heads(o, moved));
    for (int i = 1; i < size; i++)
        MR_TRY(push_values(o, (self + i) % size, moved));
    MR_TRY(give_values(o, moved));
    MR_TRY(merge_values(o, moved));
    for (int i = 1; i < size; i++)
        MR_TRY(pull_values(o, (self + size - i) % size, moved));
    *done = is_complete(o);
    return NULL;
}

/* Exchanges the end of an in-place operation: when all have sent theirs, all have written into all buffers. */
static mr_status *look_for_ends(op *o, bool *moved, bool *done)
{
    mr_shm_head end = o->head;
    end.kind = MR_SHM_END;
    *done = true;
    for (int i = 0; i < o->s->t.size; i++) {
        mr_shm_lane *l = &o->s->lanes[i];
        if (i == o->s->t.rank)
            continue;
        if (!l->told)
            MR_TRY(tell_head(o, i, &end, &l->told, moved));
        if (!l->heard)
            MR_TRY(hear_head(o, i, &l->head, &l->heard, moved));
        if (l->heard && l->head.magic == MR_SHM_MAGIC && l->head.kind == MR_SHM_GIVEN_UP)
            return mr_error(MR_UNAVAILABLE, "group: member %d of %d cannot map a shared buffer", i, o->s->t.size);
        if (l->heard && (l->head.magic != MR_SHM_MAGIC || l->head.kind != MR_SHM_END))
            return mr_shm_broken(o->s, i);
        if (!l->heard)
            o->s->waits_for = i;
        *done &= l->told && l->heard;
    }
    return NULL;
}

/* Merges without pipes, then uses the flags of the lanes a second time, for the heads that announce the end. */
static mr_status *run_in_place(op *o, int64_t deadline_ns)
{
    merge_in_place(o);
    for (int i = 0; i < o->s->t.size; i++)
        o->s->lanes[i].told = o->s->lanes[i].heard = false;
    return run_until_done(o, look_for_ends, deadline_ns);
}

/* Runs an operation, unless the caller asked for another algorithm: then *done is false and run.c uses messages.
 * If this member's values are in a shared buffer, the heads are exchanged first, because they decide whether
 * values travel at all. */
mr_status *mr_shm_run(mr_transport *t, const mr_group_work *w, int64_t deadline_ns, bool *done)
{
    mr_shm *s = (mr_shm *)t;
    op o = {.s = s, .w = w};
    MR_ASSERT(t->size > 1);
    *done = w->algorithm == MR_GROUP_AUTO || w->algorithm == MR_GROUP_DIRECT;
    if (!*done)
        return NULL;
    memset(s->lanes, 0, (size_t)t->size * sizeof(*s->lanes));
    s->number++;
    plan_op(&o);
    o.head = make_head(&o);
    if (o.head.buffer) {
        MR_TRY(run_until_done(&o, look_for_heads, deadline_ns));
        mr_status *st = find_places(&o);
        if (st)
            return give_up(&o, st);
        if (o.in_place)
            return run_in_place(&o, deadline_ns);
    }
    return run_until_done(&o, look_for_streams, deadline_ns);
}
