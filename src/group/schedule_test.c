/* Schedules, carried out by members that are arrays. */
#include "group/schedule.h"

#include "base/memory.h"
#include "tests/harness/test.h"

enum { MOST = 17, COUNT = 53 };

typedef struct member {
    mr_group_steps steps;
    int at; /* the next step */
    int64_t x[COUNT];
    bool sent;
} member;

typedef struct world {
    member m[MOST];
    int size;
    int64_t count;
    /* What is under way between each pair: ranges in their order. */
    MR_VEC(int64_t) queues[MOST][MOST];
} world;

/* One step as far as it goes; whether anything happened. */
static bool advance(world *w, int rank)
{
    member *m = &w->m[rank];
    if (m->at == m->steps.n)
        return false;
    mr_group_step *s = &m->steps.p[m->at];
    bool moved = !m->sent;
    if (!m->sent && s->to >= 0) {
        mr_vec_push(&w->queues[rank][s->to], s->send_n);
        for (int64_t i = 0; i < s->send_n; i++)
            mr_vec_push(&w->queues[rank][s->to], m->x[s->send_at + i]);
    }
    m->sent = true;
    if (s->from >= 0) {
        if (w->queues[s->from][rank].n == 0)
            return moved;
        int64_t *q = w->queues[s->from][rank].p;
        MR_CHECK_INT(q[0], s->recv_n);
        for (int64_t i = 0; i < s->recv_n; i++)
            m->x[s->recv_at + i] = q[1 + i] + (s->merge ? m->x[s->recv_at + i] : 0);
        int used = (int)s->recv_n + 1, left = w->queues[s->from][rank].n - used;
        memmove(q, q + used, (size_t)left * sizeof(*q));
        w->queues[s->from][rank].n = left;
    }
    m->at++;
    m->sent = false;
    return true;
}

static void run(world *w)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < w->size; r++)
            moved |= advance(w, r);
    }
    for (int r = 0; r < w->size; r++)
        MR_CHECK_INT(w->m[r].at, w->m[r].steps.n);
    for (int a = 0; a < w->size; a++)
        for (int b = 0; b < w->size; b++) {
            MR_CHECK_INT(w->queues[a][b].n, 0);
            mr_vec_deinit(&w->queues[a][b]);
        }
    for (int r = 0; r < w->size; r++)
        mr_vec_deinit(&w->m[r].steps);
}

static int64_t value(int rank, int64_t i) { return (int64_t)(rank + 1) * 1000 + i; }

static int64_t sum(int size, int64_t i)
{
    int64_t s = 0;
    for (int r = 0; r < size; r++)
        s += value(r, i);
    return s;
}

static world *world_new(int size, int64_t count)
{
    world *w = mr_new(world);
    w->size = size;
    w->count = count;
    for (int r = 0; r < size; r++)
        for (int64_t i = 0; i < count; i++)
            w->m[r].x[i] = value(r, i);
    return w;
}

static void check_all_reduce(mr_group_algorithm a, int size, int64_t count)
{
    world *w = world_new(size, count);
    for (int r = 0; r < size; r++)
        mr_schedule_all_reduce(a, size, r, count, &w->m[r].steps);
    run(w);
    for (int r = 0; r < size; r++)
        for (int64_t i = 0; i < count; i++)
            MR_CHECK_INT(w->m[r].x[i], sum(size, i));
    mr_free(w);
}

MR_TEST(group_schedule_ring_reduces_any_number_of_members)
{
    for (int size = 1; size <= MOST; size++)
        for (int64_t count = 0; count <= COUNT; count += 13)
            check_all_reduce(MR_GROUP_RING, size, count);
}

MR_TEST(group_schedule_halving_reduces_any_number_of_members)
{
    for (int size = 1; size <= MOST; size++)
        for (int64_t count = 0; count <= COUNT; count += 13)
            check_all_reduce(MR_GROUP_HALVING, size, count);
}

MR_TEST(group_schedule_reduce_scatter_leaves_each_its_part)
{
    for (int size = 1; size <= MOST; size++) {
        world *w = world_new(size, COUNT);
        for (int r = 0; r < size; r++)
            mr_schedule_reduce_scatter(size, r, COUNT, &w->m[r].steps);
        run(w);
        for (int r = 0; r < size; r++) {
            int64_t at, n;
            mr_group_part(COUNT, size, r, &at, &n);
            for (int64_t i = at; i < at + n; i++)
                MR_CHECK_INT(w->m[r].x[i], sum(size, i));
        }
        mr_free(w);
    }
}

MR_TEST(group_schedule_all_gather_brings_all_parts_to_all)
{
    for (int size = 1; size <= MOST; size++) {
        world *w = world_new(size, COUNT);
        for (int r = 0; r < size; r++)
            mr_schedule_all_gather(size, r, COUNT, &w->m[r].steps);
        run(w);
        for (int r = 0; r < size; r++)
            for (int owner = 0; owner < size; owner++) {
                int64_t at, n;
                mr_group_part(COUNT, size, owner, &at, &n);
                for (int64_t i = at; i < at + n; i++)
                    MR_CHECK_INT(w->m[r].x[i], value(owner, i));
            }
        mr_free(w);
    }
}

MR_TEST(group_schedule_broadcast_reaches_all_from_any_root)
{
    for (int size = 1; size <= MOST; size++)
        for (int root = 0; root < size; root++) {
            world *w = world_new(size, COUNT);
            for (int r = 0; r < size; r++)
                mr_schedule_broadcast(size, r, root, COUNT, &w->m[r].steps);
            run(w);
            for (int r = 0; r < size; r++)
                for (int64_t i = 0; i < COUNT; i++)
                    MR_CHECK_INT(w->m[r].x[i], value(root, i));
            mr_free(w);
        }
}

MR_TEST(group_schedule_parts_cover_all_and_differ_by_one_at_most)
{
    for (int64_t count = 0; count < 40; count++)
        for (int size = 1; size <= MOST; size++) {
            int64_t next = 0;
            for (int r = 0; r < size; r++) {
                int64_t at, n;
                mr_group_part(count, size, r, &at, &n);
                MR_CHECK_INT(at, next);
                MR_CHECK(n == count / size || n == count / size + 1);
                next = at + n;
            }
            MR_CHECK_INT(next, count);
        }
}

MR_TEST(group_schedule_algorithms_are_known_by_name)
{
    mr_group_algorithm a;
    MR_CHECK(mr_group_algorithm_from_name("halving", &a));
    MR_CHECK_INT(a, MR_GROUP_HALVING);
    MR_CHECK(!mr_group_algorithm_from_name("star", &a));
}
