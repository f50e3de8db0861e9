/* group/schedule.c -- ring, recursive halving and doubling, and a tree.
 *
 * The ring. In step s of the first half each member passes the part that it merged last to its right neighbour,
 * beginning with the part before its own, so after n - 1 steps its own part contains the values of all. In the
 * second half the merged parts go round. With three members:
 *
 *              member 0             member 1             member 2
 *     step 0   sends 2, merges 1    sends 0, merges 2    sends 1, merges 0
 *     step 1   sends 1, merges 0    sends 2, merges 1    sends 0, merges 2
 *     step 2   sends 0, copies 2    sends 1, copies 0    sends 2, copies 1
 *     step 3   sends 2, copies 1    sends 0, copies 2    sends 1, copies 0
 *
 * A reduce-scatter is the first half, an all-gather the second.
 *
 * Halving. Let p be the largest power of two up to n. The n - p members beyond it first send all their values to a
 * partner below p, and get the result from it at the end. The p others halve: with the partner at distance p/2,
 * p/4, ... 1, each keeps one half of its range, sends the other half and merges what it receives. Then they double
 * in the opposite order. */
#include "group/schedule.h"

#include <string.h>

static void push_step(mr_group_steps *out, mr_group_step s)
{
    MR_ASSERT(s.send_n >= 0 && s.recv_n >= 0);
    if (s.to < 0 && s.from < 0)
        return;
    mr_vec_push(out, s);
}

/* ---- ring ---- */

/* Sends a part to the right neighbour and receives the part before it from the left one, which sends just that. */
static mr_group_step ring_step(int size, int rank, int64_t count, int send_part, bool merge)
{
    MR_ASSERT(rank >= 0 && rank < size && send_part >= 0 && send_part < size);
    mr_group_step s = {.to = (rank + 1) % size, .from = (rank + size - 1) % size, .merge = merge};
    mr_group_part(count, size, send_part, &s.send_at, &s.send_n);
    mr_group_part(count, size, (send_part + size - 1) % size, &s.recv_at, &s.recv_n);
    return s;
}

void mr_schedule_reduce_scatter(int size, int rank, int64_t count, mr_group_steps *out)
{
    for (int s = 0; s < size - 1; s++)
        push_step(out, ring_step(size, rank, count, (rank + 2 * size - 1 - s) % size, true));
}

void mr_schedule_all_gather(int size, int rank, int64_t count, mr_group_steps *out)
{
    for (int s = 0; s < size - 1; s++)
        push_step(out, ring_step(size, rank, count, (rank + size - s) % size, false));
}

/* ---- halving and doubling ---- */

typedef struct range {
    int64_t at, n;
} range;

static range lower_half(range r) { return (range){r.at, r.n / 2}; }
static range upper_half(range r) { return (range){r.at + r.n / 2, r.n - r.n / 2}; }

static mr_group_step exchange_step(int with, range send, range recv, bool merge)
{
    return (mr_group_step){.to = with, .from = with, .send_at = send.at, .send_n = send.n,
                           .recv_at = recv.at, .recv_n = recv.n, .merge = merge};
}

/* The steps of the p members, p a power of two. had[] keeps the range before each halving, for the doubling. */
static void add_halving_steps(int p, int rank, int64_t count, mr_group_steps *out)
{
    MR_ASSERT(p >= 1 && (p & (p - 1)) == 0 && rank < p);
    enum { MOST = 31 };
    range had[MOST], r = {0, count};
    int depth = 0;
    for (int far = p / 2; far >= 1; far /= 2, depth++) {
        bool low = (rank & far) == 0;
        had[depth] = r;
        push_step(out, exchange_step(rank ^ far, low ? upper_half(r) : lower_half(r),
                                     low ? lower_half(r) : upper_half(r), true));
        r = low ? lower_half(r) : upper_half(r);
    }
    for (int far = 1; far < p; far *= 2) {
        range whole = had[--depth];
        range other = (rank & far) == 0 ? upper_half(whole) : lower_half(whole);
        push_step(out, exchange_step(rank ^ far, r, other, false));
        r = whole;
    }
    MR_ASSERT(depth == 0 && r.at == 0 && r.n == count);
}

/* Adds the steps with the members beyond the power of two around those of add_halving_steps. */
static void add_all_halving_steps(int size, int rank, int64_t count, mr_group_steps *out)
{
    int p = 1;
    while (p * 2 <= size)
        p *= 2;
    bool extra = rank >= p, has_extra = !extra && rank + p < size;
    if (has_extra)
        push_step(out, (mr_group_step){.to = -1, .from = rank + p, .recv_n = count, .merge = true});
    if (extra)
        push_step(out, (mr_group_step){.to = rank - p, .from = -1, .send_n = count});
    else
        add_halving_steps(p, rank, count, out);
    if (has_extra)
        push_step(out, (mr_group_step){.to = rank + p, .from = -1, .send_n = count});
    if (extra)
        push_step(out, (mr_group_step){.to = -1, .from = rank - p, .recv_n = count});
}

/* Every algorithm but halving is the ring here; run.c handles direct itself. */
void mr_schedule_all_reduce(mr_group_algorithm a, int size, int rank, int64_t count, mr_group_steps *out)
{
    MR_ASSERT(rank >= 0 && rank < size && a != MR_GROUP_AUTO);
    if (a == MR_GROUP_HALVING) {
        add_all_halving_steps(size, rank, count, out);
        return;
    }
    mr_schedule_reduce_scatter(size, rank, count, out);
    mr_schedule_all_gather(size, rank, count, out);
}

/* ---- tree ---- */

/* Counted from the root, a member receives from the one without its lowest set bit, and then sends to the members
 * that differ from it in one lower bit. */
void mr_schedule_broadcast(int size, int rank, int root, int64_t count, mr_group_steps *out)
{
    MR_ASSERT(rank >= 0 && rank < size && root >= 0 && root < size);
    int me = (rank + size - root) % size, bit = 1;
    for (; bit < size; bit *= 2)
        if (me & bit) {
            push_step(out, (mr_group_step){.to = -1, .from = (me - bit + root) % size, .recv_n = count});
            break;
        }
    for (bit /= 2; bit >= 1; bit /= 2)
        if (me + bit < size)
            push_step(out, (mr_group_step){.to = (me + bit + root) % size, .from = -1, .send_n = count});
}

/* ---- choice ---- */

mr_group_algorithm mr_group_choose(mr_group_algorithm a, int64_t bytes)
{
    if (a != MR_GROUP_AUTO)
        return a;
    return bytes <= MR_GROUP_SMALL ? MR_GROUP_HALVING : MR_GROUP_RING;
}

bool mr_group_algorithm_from_name(const char *name, mr_group_algorithm *out)
{
    static const char *const names[] = {"auto", "ring", "halving", "direct"};
    for (int i = 0; i < MR_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (mr_group_algorithm)i;
            return true;
        }
    return false;
}
