/* passes/assign.c -- searches for a good choice of devices.
 *
 * Drafts come first:
 * - everything that can run there on one device, for each device;
 * - the greedy simulation of TensorFlow's white paper: nodes in the order in which they could start, each on the
 * device where it would end first;
 * - the same with the nodes of the longest path to the end first.
 *
 * The best draft is then improved: a group moves to another device as long as that makes the simulated step shorter.
 * When no single move helps, some random moves are made and the result is improved again. The work is limited by the
 * number of simulated nodes, so large graphs get fewer trials, not longer waits. The random numbers have a fixed
 * seed, so equal workloads give equal answers.
 *
 * Invariants: groups that the caller has placed (fixed) never move; `best`, best_time and best_sent always describe the
 * same choice. */
#include "passes/assign.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "passes/simulate.h"

enum { VISITS = 1 << 20, KICKS = 64 }; /* simulated nodes in all; random restarts at most */

typedef struct finder {
    const mr_workload *w;
    mr_play play;
    const int *fixed;   /* by group; -1: free */
    bool *can;          /* [group * n_devices + device] */
    int64_t *bytes;     /* by group */
    int *best, *trial;  /* by group */
    double best_time, best_sent;
    int64_t visits;     /* left */
    uint64_t random;
} finder;

static bool can_run(const finder *f, int group, int d) { return f->can[(size_t)group * (size_t)f->w->n_devices + (size_t)d]; }

static double node_seconds(const mr_workload *w, int v, int d)
{
    return w->seconds[(size_t)v * (size_t)w->n_devices + (size_t)d];
}

/* can[group * n_devices + device]: all nodes of the group can run there. */
static void gather_can(const mr_workload *w, bool *can)
{
    size_t n = (size_t)w->n_groups * (size_t)w->n_devices;
    for (size_t i = 0; i < n; i++)
        can[i] = true;
    for (int v = 0; v < w->n_nodes; v++)
        for (int d = 0; d < w->n_devices; d++)
            if (isinf(node_seconds(w, v, d)))
                can[(size_t)w->group[v] * (size_t)w->n_devices + (size_t)d] = false;
}

/* ---- keeping the best ---- */

/* Simulates one choice and counts the work against the limit. A cancelled search has no work left, and no choice is good
 * enough to be kept. */
static double play_choice(finder *f, const int *device_of)
{
    if (mr_cancel_flag_is_set(f->w->cancelled)) {
        f->visits = 0;
        return INFINITY;
    }
    f->visits -= f->w->n_nodes + 1;
    return mr_play_step(&f->play, device_of);
}

/* Of two equal times the one that sends less is better: links may be slower than assumed. */
static bool is_better(double time, double sent, double than_time, double than_sent)
{
    if (isinf(time) || isinf(than_time))
        return time < than_time;
    double much = than_time * 1e-9;
    return time < than_time - much || (time <= than_time && sent < than_sent);
}

/* device_of must be the choice that was simulated last: its traffic is still in f->play. */
static void keep_best(finder *f, const int *device_of, double time)
{
    MR_ASSERT(!(time > f->best_time));
    f->best_time = time;
    f->best_sent = f->play.sent;
    memcpy(f->best, device_of, sizeof *f->best * (size_t)f->w->n_groups);
}

/* Simulates a choice and keeps it if it is better than the best so far. */
static void offer_choice(finder *f, const int *device_of)
{
    double t = play_choice(f, device_of);
    if (is_better(t, f->play.sent, f->best_time, f->best_sent))
        keep_best(f, device_of, t);
}

/* ---- drafts ---- */

/* Puts every free group on `device` if it can run there, else on the first device that can run it. */
static void place_single(const mr_workload *w, const bool *can, const int *fixed, int device, int *device_of)
{
    for (int g = 0; g < w->n_groups; g++) {
        const bool *here = can + (size_t)g * (size_t)w->n_devices;
        int d = device;
        for (int i = 0; !here[d] && i < w->n_devices; i++)
            d = here[i] ? i : d;
        device_of[g] = fixed[g] >= 0 ? fixed[g] : d;
    }
}

/* A single device that is better is taken however small its advantage is: so the result is never longer than that. */
static void draft_one_device(finder *f, int d)
{
    place_single(f->w, f->can, f->fixed, d, f->trial);
    double t = play_choice(f, f->trial);
    if (t < f->best_time || is_better(t, f->play.sent, f->best_time, f->best_sent))
        keep_best(f, f->trial, t);
}

/* For memory so scarce that the other drafts fail: the largest groups first, each where most memory is left. */
static void draft_by_memory(finder *f)
{
    const mr_workload *w = f->w;
    bool *done = mr_new_array(bool, w->n_groups + 1);
    int64_t *left = mr_new_array(int64_t, w->n_devices);
    for (int d = 0; d < w->n_devices; d++)
        left[d] = w->memory ? w->memory[d] : INT64_MAX;
    /* Fixed groups take their memory first. */
    for (int g = 0; g < w->n_groups; g++) {
        done[g] = f->fixed[g] >= 0;
        f->trial[g] = f->fixed[g];
        if (done[g])
            left[f->fixed[g]] -= f->bytes[g];
    }
    /* Each round places the largest group that is left, until only groups without memory remain. */
    bool ok = true;
    for (int round = 0; round < w->n_groups && ok && !mr_cancel_flag_is_set(w->cancelled); round++) {
        int largest = -1, best = -1;
        for (int g = 0; g < w->n_groups; g++)
            if (!done[g] && (largest < 0 || f->bytes[g] > f->bytes[largest]))
                largest = g;
        if (largest < 0 || f->bytes[largest] == 0)
            break;
        for (int d = 0; d < w->n_devices; d++)
            if (can_run(f, largest, d) && (best < 0 || left[d] > left[best]))
                best = d;
        ok = best >= 0 && left[best] >= f->bytes[largest];
        f->trial[largest] = best;
        done[largest] = true;
        if (ok)
            left[best] -= f->bytes[largest];
    }
    place_single(w, f->can, f->trial, 0, f->trial); /* what holds no memory */
    if (ok)
        offer_choice(f, f->trial);
    mr_free(done);
    mr_free(left);
}

/* One greedy draft. Nodes enter the heap when all their inputs are placed, and are placed when they leave it. */
typedef struct greedy {
    finder *f;
    bool by_rank;
    double *rank;     /* by node: the way to the end, at the mean speed of its devices */
    double *finish;   /* by node, of those placed */
    double *key;      /* by node: smaller is sooner */
    int *pending;     /* by node */
    double *busy;     /* by device: until when */
    int64_t *free_bytes; /* by device */
    MR_VEC(int) heap; /* nodes whose inputs are placed */
} greedy;

/* The mean over the devices that can run v; 0 if none can. */
static double mean_seconds(const mr_workload *w, int v)
{
    double sum = 0;
    int n = 0;
    for (int d = 0; d < w->n_devices; d++)
        if (!isinf(node_seconds(w, v, d))) {
            sum += node_seconds(w, v, d);
            n++;
        }
    return n ? sum / n : 0;
}

/* The mean of all links, because nodes are ranked before their devices are known. */
static mr_workload_link mean_link(const mr_workload *w)
{
    double latency_s = 0, s_per_byte = 0;
    int n = w->n_devices;
    for (int i = 0; i < n * n; i++)
        if (i / n != i % n) {
            latency_s += w->links[i].latency_s;
            s_per_byte += 1 / w->links[i].bytes_per_s;
        }
    return (mr_workload_link){latency_s / (n * n), s_per_byte > 0 ? n * n / s_per_byte : INFINITY};
}

/* rank[v] is the length of the longest path from v to the end, with mean times and links. */
static void rank_nodes(greedy *y)
{
    const finder *f = y->f;
    const mr_workload *w = f->w;
    mr_workload_link link = mean_link(w);
    for (int v = w->n_nodes - 1; v >= 0; v--) {
        double behind = 0;
        for (int i = f->play.first_use[v]; i < f->play.first_use[v + 1]; i++) {
            const mr_play_use *u = &f->play.uses[i];
            double way_s = y->rank[u->node] + link.latency_s + (double)u->bytes / link.bytes_per_s;
            behind = MR_MAX(behind, way_s);
        }
        y->rank[v] = behind + mean_seconds(w, v);
    }
}

static bool node_before(const greedy *y, int a, int b)
{
    return y->key[a] != y->key[b] ? y->key[a] < y->key[b] : a < b;
}

/* Adds a node whose inputs are all placed. */
static void heap_push(greedy *y, int v)
{
    mr_vec_push(&y->heap, v);
    int i = y->heap.n - 1;
    for (int up; i > 0 && node_before(y, v, y->heap.p[up = (i - 1) / 2]); i = up)
        y->heap.p[i] = y->heap.p[up];
    y->heap.p[i] = v;
}

/* A binary heap by key, then by number. The heap must not be empty. */
static int heap_pop(greedy *y)
{
    MR_ASSERT(y->heap.n > 0);
    int *p = y->heap.p, first = p[0], last = mr_vec_pop(&y->heap), n = y->heap.n, i = 0;
    for (int down; (down = 2 * i + 1) < n; i = down) {
        if (down + 1 < n && node_before(y, p[down + 1], p[down]))
            down++;
        if (!node_before(y, p[down], last))
            break;
        p[i] = p[down];
    }
    if (n)
        p[i] = last;
    return first;
}

/* When node v would end on device d: the device must be free and the inputs there. */
static double ends_at(const greedy *y, int v, int d)
{
    const mr_workload *w = y->f->w;
    double at = y->busy[d];
    for (int e = w->first_input[v]; e < w->first_input[v + 1]; e++) {
        const mr_workload_input *in = &w->inputs[e];
        int from = y->f->trial[w->group[in->from]];
        double come = y->finish[in->from];
        if (from != d) {
            const mr_workload_link *l = &w->links[from * w->n_devices + d];
            come += l->latency_s + (in->bytes ? (double)in->bytes / l->bytes_per_s : 0);
        }
        at = MR_MAX(at, come);
    }
    return at + node_seconds(w, v, d);
}

/* The device where v ends first; -1 if no device can take its group. */
static int choose_device(const greedy *y, int v)
{
    const finder *f = y->f;
    int g = f->w->group[v], best = -1;
    double at = INFINITY;
    for (int d = 0; d < f->w->n_devices; d++) {
        if (!can_run(f, g, d) || (f->w->memory && f->bytes[g] > y->free_bytes[d]))
            continue;
        double t = ends_at(y, v, d);
        if (t < at) {
            at = t;
            best = d;
        }
    }
    return best;
}

/* Places the group of v, if v is its first node, and schedules v. Returns false if no device can take it. */
static bool place_node(greedy *y, int v)
{
    finder *f = y->f;
    const mr_workload *w = f->w;
    int g = w->group[v];
    if (f->trial[g] < 0) {
        f->trial[g] = choose_device(y, v);
        if (f->trial[g] < 0)
            return false;
        y->free_bytes[f->trial[g]] -= f->bytes[g];
    }
    int d = f->trial[g];
    MR_ASSERT(d < w->n_devices);
    y->busy[d] = y->finish[v] = ends_at(y, v, d);
    for (int i = f->play.first_use[v]; i < f->play.first_use[v + 1]; i++) {
        int to = f->play.uses[i].node;
        MR_ASSERT(y->pending[to] > 0);
        y->key[to] = y->by_rank ? -y->rank[to] : MR_MAX(y->key[to], y->finish[v]);
        if (--y->pending[to] == 0)
            heap_push(y, to);
    }
    return true;
}

/* Fixed groups take their memory first; nodes without inputs are ready. */
static void begin_greedy(greedy *y)
{
    finder *f = y->f;
    const mr_workload *w = f->w;
    for (int d = 0; d < w->n_devices; d++) {
        y->busy[d] = 0;
        y->free_bytes[d] = w->memory ? w->memory[d] : 0;
    }
    memcpy(f->trial, f->fixed, sizeof *f->trial * (size_t)w->n_groups);
    for (int g = 0; g < w->n_groups; g++)
        if (f->trial[g] >= 0)
            y->free_bytes[f->trial[g]] -= f->bytes[g];
    for (int v = 0; v < w->n_nodes; v++) {
        y->pending[v] = w->first_input[v + 1] - w->first_input[v];
        y->key[v] = y->by_rank ? -y->rank[v] : 0;
        if (!y->pending[v])
            heap_push(y, v);
    }
}

/* One greedy draft; by_rank: nodes on the longest path first, else in the order in which they could start. */
static void draft_greedy(finder *f, bool by_rank)
{
    int n = f->w->n_nodes + 1;
    greedy y = {.f = f, .by_rank = by_rank};
    y.rank = mr_new_array(double, n);
    y.finish = mr_new_array(double, n);
    y.key = mr_new_array(double, n);
    y.pending = mr_new_array(int, n);
    y.busy = mr_new_array(double, f->w->n_devices);
    y.free_bytes = mr_new_array(int64_t, f->w->n_devices);
    if (by_rank)
        rank_nodes(&y);
    begin_greedy(&y);
    bool ok = true;
    while (ok && y.heap.n)
        ok = place_node(&y, heap_pop(&y)) && !mr_cancel_flag_is_set(f->w->cancelled);
    if (ok)
        offer_choice(f, f->trial);
    mr_free(y.rank);
    mr_free(y.finish);
    mr_free(y.key);
    mr_free(y.pending);
    mr_free(y.busy);
    mr_free(y.free_bytes);
    mr_vec_deinit(&y.heap);
}

/* ---- polishing ---- */

/* The state starts at 0 in every search, so equal workloads give equal answers. */
static uint64_t next_random(finder *f)
{
    f->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = f->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Tries every other device for a group; true if the step got shorter. */
static bool improve_group(finder *f, int g, double *time, double *sent)
{
    int home = f->trial[g], best = home;
    MR_ASSERT(f->fixed[g] < 0 && home >= 0);
    for (int d = 0; d < f->w->n_devices && f->visits > 0; d++) {
        if (d == home || !can_run(f, g, d))
            continue;
        f->trial[g] = d;
        double t = play_choice(f, f->trial);
        if (is_better(t, f->play.sent, *time, *sent)) {
            *time = t;
            *sent = f->play.sent;
            best = d;
        }
    }
    f->trial[g] = best;
    return best != home;
}

/* Improves f->trial until no single move helps, and offers the result as the best. Starts at a random group, so
 * that repeated calls do not always favour the first groups. */
static void polish_choice(finder *f)
{
    int n = f->w->n_groups, since = 0;
    double time = play_choice(f, f->trial), sent = f->play.sent;
    int g = n ? (int)(next_random(f) % (uint64_t)n) : 0;
    for (; since < n && f->visits > 0; g = (g + 1) % n)
        if (f->fixed[g] < 0 && improve_group(f, g, &time, &sent))
            since = 0;
        else
            since++;
    offer_choice(f, f->trial);
}

/* Starts from the best choice and makes some random moves. */
static void kick_choice(finder *f, int how_far)
{
    const mr_workload *w = f->w;
    memcpy(f->trial, f->best, sizeof *f->trial * (size_t)w->n_groups);
    for (int i = 0; i < how_far; i++) {
        int g = (int)(next_random(f) % (uint64_t)w->n_groups), d = (int)(next_random(f) % (uint64_t)w->n_devices);
        if (f->fixed[g] < 0 && can_run(f, g, d))
            f->trial[g] = d;
    }
}

/* Polishes the best draft, then repeats random moves and polishing until the work limit is reached. */
static void search_choices(finder *f)
{
    memcpy(f->trial, f->best, sizeof *f->trial * (size_t)f->w->n_groups);
    polish_choice(f);
    for (int i = 0; i < KICKS && f->visits > 0; i++) {
        kick_choice(f, 2 + i % 4);
        polish_choice(f);
    }
}

/* ---- the whole ---- */

/* Fails if some group can run on no device; *culprit is a node of it. */
static mr_status *check_groups(finder *f, int *culprit)
{
    const mr_workload *w = f->w;
    for (int v = 0; v < w->n_nodes; v++) {
        int g = w->group[v];
        bool any = f->fixed[g] >= 0;
        for (int d = 0; d < w->n_devices && !any; d++)
            any = can_run(f, g, d);
        if (any)
            continue;
        *culprit = v;
        return mr_invalid("No device can run the node");
    }
    return NULL;
}

/* The greedy drafts, each single device, and only if all of these fail for lack of memory the draft by memory.
 * Then the search improves the best. If memory suffices nowhere, *culprit is a node of the largest group. */
static mr_status *find_devices(finder *f, int *culprit)
{
    MR_TRY(check_groups(f, culprit));
    draft_greedy(f, false);
    draft_greedy(f, true);
    for (int d = 0; d < f->w->n_devices; d++)
        draft_one_device(f, d);
    if (isinf(f->best_time))
        draft_by_memory(f);
    MR_TRY(mr_cancel_flag_check(f->w->cancelled));
    if (isinf(f->best_time)) {
        *culprit = 0;
        for (int v = 0; v < f->w->n_nodes; v++)
            if (f->bytes[f->w->group[v]] > f->bytes[f->w->group[*culprit]])
                *culprit = v;
        return mr_error(MR_RESOURCE_EXHAUSTED, "The devices do not have enough memory for the graph");
    }
    if (f->w->n_devices > 1)
        search_choices(f);
    return mr_cancel_flag_check(f->w->cancelled);
}

/* A group that can run on no device gets `device` all the same; mr_assign_simulate then reports INFINITY. */
void mr_assign_single(const mr_workload *w, const int *fixed, int device, int *device_of)
{
    bool *can = mr_new_array(bool, (size_t)w->n_groups * (size_t)w->n_devices + 1);
    gather_can(w, can);
    place_single(w, can, fixed, device, device_of);
    mr_free(can);
}

/* device_of is read as `fixed` during the search and overwritten only at the end, so on failure it is unchanged. */
mr_status *mr_assign_find(const mr_workload *w, int *device_of, double *makespan, int *culprit)
{
    size_t cells;
    finder f = {.w = w, .fixed = device_of, .best_time = INFINITY, .visits = w->visits ? w->visits : VISITS};
    MR_TRY(mr_play_init(&f.play, w));
    mr_status *st = NULL;
    if (mr_size_mul((size_t)w->n_groups + 1, (size_t)w->n_devices, &cells))
        f.can = mr_try_calloc(cells, sizeof *f.can);
    f.bytes = mr_new_array(int64_t, w->n_groups + 1);
    f.best = mr_new_array(int, w->n_groups + 1);
    f.trial = mr_new_array(int, w->n_groups + 1);
    if (!f.can)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot plan %d groups on %d devices", w->n_groups,
                       w->n_devices));
    gather_can(w, f.can);
    for (int v = 0; v < w->n_nodes; v++)
        f.bytes[w->group[v]] += w->bytes ? w->bytes[v] : 0;
    MR_GO(find_devices(&f, culprit));
    MR_ASSERT(!isinf(f.best_time));
    memcpy(device_of, f.best, sizeof *device_of * (size_t)w->n_groups);
    *makespan = f.best_time;
out:
    mr_play_deinit(&f.play);
    mr_free(f.can);
    mr_free(f.bytes);
    mr_free(f.best);
    mr_free(f.trial);
    return st;
}
