/* group/member.c -- a group as one of its members has it: generations, and a transport for each.
 *
 * The turn is held by whoever runs an operation or forms the group, so transports change only between operations.  The news that a
 * generation is over come from other threads: they fail the transports, which ends what waits. */
#include "group/member.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "dist/group.h"
#include "group/mpi.h"

#define TEN_MINUTES_NS INT64_C(600000000000)
#define NEWS_NS INT64_C(4000000000) /* longer than the lease of a member that is silent (keeper.c) */
#define TRANSPORT_NS INT64_C(10000000000) /* to reach all members of a generation, which were there a moment ago */

static bool is(const mr_group *g, const char *transport) { return strcmp(g->c.transport, transport) == 0; }

/* ---- the end of a generation ---- */

static void end_locked(mr_group *g, const mr_status *why) MR_REQUIRES(g->mu)
{
    if (!g->ended)
        g->ended = mr_status_copy(why);
    atomic_store(&g->over, true);
    for (int i = 0; i < MR_LANES; i++)
        if (g->lanes[i])
            g->lanes[i]->of->fail(g->lanes[i], why);
}

/* Other threads may be in the middle of something. */
static void end_now(mr_group *g, const mr_status *why)
{
    mr_lock(&g->mu);
    end_locked(g, why);
    mr_unlock(&g->mu);
}

static void generation_ended(void *arg, int64_t generation, const mr_status *why)
{
    mr_group *g = arg;
    mr_lock(&g->mu);
    if (!mr_roster_is_later(g->number, generation)) /* else the news are late, and there is another one already */
        end_locked(g, why);
    mr_unlock(&g->mu);
}

/* The number of a lane of this generation, the same for all. */
static uint64_t lane_key(const mr_group *g, int lane)
{
    uint64_t parts[2] = {mr_meeting_key(g->meeting), (uint64_t)lane};
    return mr_hash64(parts, sizeof(parts)) >> 1; /* the highest bit is for buffers */
}

static void drop_lanes(mr_group *g)
{
    mr_transport *old[MR_LANES];
    mr_lock(&g->mu);
    for (int i = 0; i < MR_LANES; i++) {
        old[i] = g->lanes[i];
        g->lanes[i] = NULL;
    }
    mr_unlock(&g->mu);
    for (int i = 0; i < MR_LANES; i++)
        mr_transport_free(old[i]);
    for (int i = 0; i < g->n_ways; i++)
        if (g->ways[i].peer)
            g->ways[i].net->disconnect(g->ways[i].peer);
    mr_free(g->ways);
    g->ways = NULL;
    g->n_ways = 0;
    if (!g->shared)
        return;
    mr_shared_forget(g->shared);
    for (int i = 0; i < MR_LANES && mr_meeting_size(g->meeting); i++)
        mr_gifts_take_back(mr_meeting_gifts(g->meeting), lane_key(g, i));
}

/* ---- transports of a generation ---- */

static mr_status *shm_lane(mr_group *g, int lane, mr_transport **out)
{
    mr_meeting *m = g->meeting;
    mr_status *st = NULL;
    int rank = mr_meeting_rank(m), size = mr_meeting_size(m), n = 0, own = size <= MR_SHM_MOST ? mr_shm_file_new(size) : -1;
    uint64_t number = lane_key(g, lane);
    size_t bytes;
    if (own < 0)
        return mr_error(MR_RESOURCE_EXHAUSTED, "group '%s': no shared memory for %d members", g->name, size);
    int *fds = mr_new_array(int, size);
    mr_gifts_offer(mr_meeting_gifts(m), number, own, mr_shm_file_bytes(size));
    for (; n < size && !st; n += !st)
        if (n == rank)
            fds[n] = dup(own);
        else
            st = mr_gift_ask(mr_meeting_address(m, n), number, mr_now_ns() + TRANSPORT_NS, &g->over, &fds[n], &bytes);
    mr_shm_memory memory = mr_shared_memory(g->shared, lane);
    if (!st)
        st = mr_shm_new(rank, size, fds, &memory, out);
    else
        for (int i = 0; i < n; i++)
            close(fds[i]);
    mr_free(fds);
    return st;
}

static mr_status *connect_all(mr_group *g)
{
    mr_meeting *m = g->meeting;
    mr_net *net = mr_meeting_net(m);
    int size = mr_meeting_size(m);
    g->ways = mr_new_array(mr_post_way, size);
    g->n_ways = size;
    for (int i = 0; i < size; i++) {
        g->ways[i].net = net;
        MR_TRY(net->connect(net, mr_meeting_address(m, i), g->keys.keys.ca ? &g->keys.keys : NULL, NULL, &g->ways[i].peer));
    }
    return NULL;
}

static mr_status *make_lane(mr_group *g, int lane, mr_transport **out)
{
    if (is(g, "shm"))
        return shm_lane(g, lane, out);
    *out = mr_post_transport(mr_meeting_post(g->meeting), lane_key(g, lane), mr_meeting_rank(g->meeting), mr_meeting_size(g->meeting),
                             g->ways);
    return NULL;
}

static mr_status *make_lanes(mr_group *g, mr_transport *lanes[MR_LANES])
{
    mr_status *st = is(g, "grpc") ? connect_all(g) : NULL;
    for (int i = 0; i < MR_LANES && !st; i++)
        st = make_lane(g, i, &lanes[i]);
    return st;
}

/* A generation and its transports; *over: it ended before they were there. */
static mr_status *form_once(mr_group *g, int64_t deadline_ns, bool *over)
{
    mr_transport *lanes[MR_LANES] = {0};
    MR_TRY(mr_meeting_gather(g->meeting, deadline_ns));
    mr_lock(&g->mu);
    mr_status_free(g->ended);
    g->ended = NULL;
    atomic_store(&g->over, false);
    g->rank = mr_meeting_rank(g->meeting);
    g->size = mr_meeting_size(g->meeting);
    g->number = mr_meeting_generation(g->meeting);
    mr_unlock(&g->mu);
    if (mr_meeting_is_over(g->meeting)) /* before we knew of it: those news were forgotten just now */
        return *over = true, NULL;
    mr_status *st = make_lanes(g, lanes);
    mr_lock(&g->mu);
    for (int i = 0; i < MR_LANES; i++)
        g->lanes[i] = lanes[i];
    *over = g->ended != NULL || mr_status_code(st) == MR_UNAVAILABLE;
    mr_unlock(&g->mu);
    if (*over) {
        mr_status_free(st);
        st = NULL;
    }
    return st;
}

static mr_status *form_locked(mr_group *g) MR_REQUIRES(g->turn)
{
    int64_t deadline_ns = mr_now_ns() + g->c.join_ns;
    bool over = true;
    mr_status *st = NULL;
    while (over && !st) {
        drop_lanes(g);
        st = form_once(g, deadline_ns, &over);
    }
    if (!st)
        return NULL;
    drop_lanes(g);
    mr_lock(&g->mu);
    if (!g->ended)
        g->ended = mr_status_copy(st);
    mr_unlock(&g->mu);
    return st;
}

/* Fusion that is made from now on rests from the start, or does not; what is there already is the caller's to tell. */
static mr_fusion *set_forming(mr_group *g, bool forming)
{
    mr_lock(&g->mu);
    g->forming = forming;
    mr_fusion *f = g->fusion;
    mr_unlock(&g->mu);
    return f;
}

mr_status *mr_group_form(mr_group *g)
{
    if (!g->meeting)
        return mr_error(MR_FAILED_PRECONDITION, "group '%s': MPI's processes are those it was started with", g->name);
    mr_status *why = mr_error(MR_ABORTED, "group '%s': it is formed anew", g->name);
    end_now(g, why); /* whoever has the turn gives it up */
    mr_lock(&g->turn);
    end_now(g, why); /* somebody else may have formed it meanwhile, and fusion be at work again */
    mr_fusion *f = set_forming(g, true);
    if (f)
        mr_fusion_pause(f, why);
    mr_status *st = form_locked(g);
    f = set_forming(g, false);
    if (f)
        mr_fusion_resume(f);
    mr_unlock(&g->turn);
    mr_status_free(why);
    return st;
}

/* ---- operations ---- */

/* A member does not answer: who it is, and that the generation is over, is told soon. */
static void wait_for_news(mr_group *g)
{
    int64_t until = mr_now_ns() + NEWS_NS;
    while (!atomic_load(&g->over) && mr_now_ns() < until)
        mr_sleep_ns(1000000);
}

void mr_group_spoil(mr_group *g, const mr_status *why)
{
    mr_lock(&g->mu);
    if (!g->ended)
        g->ended = mr_status_copy(why);
    mr_unlock(&g->mu);
}

mr_status *mr_group_run_lane(mr_group *g, int lane, const mr_group_work *w, int64_t deadline_ns)
{
    mr_lock(&g->mu);
    mr_transport *t = g->lanes[lane];
    mr_status *st = mr_status_copy(g->ended);
    mr_unlock(&g->mu);
    if (st || !t)
        return st ? st : mr_error(MR_FAILED_PRECONDITION, "group '%s' was not formed", g->name);
    MR_TRY(mr_group_work_check(w, t->size, t->rank)); /* harms nobody */
    st = mr_group_run_on(t, w, deadline_ns);
    if (!st)
        return NULL;
    if (g->meeting && (mr_status_code(st) == MR_UNAVAILABLE || mr_status_code(st) == MR_CANCELLED))
        wait_for_news(g);
    mr_lock(&g->mu);
    if (g->ended) {
        mr_status_free(st);
        st = mr_status_copy(g->ended);
    } else {
        g->ended = mr_status_copy(st); /* pipes may hold halves of messages */
    }
    mr_unlock(&g->mu);
    return st;
}

mr_status *mr_group_run(mr_group *g, const mr_group_work *w)
{
    mr_lock(&g->turn);
    mr_status *st = mr_group_run_lane(g, MR_LANE_CALLER, w, mr_now_ns() + g->c.timeout_ns);
    mr_unlock(&g->turn);
    return st;
}

int mr_group_own_rank(mr_group *g)
{
    mr_lock(&g->mu);
    int rank = g->rank;
    mr_unlock(&g->mu);
    return rank;
}

int mr_group_n_members(mr_group *g)
{
    mr_lock(&g->mu);
    int size = g->size;
    mr_unlock(&g->mu);
    return size;
}

int64_t mr_group_number(mr_group *g)
{
    mr_lock(&g->mu);
    int64_t number = g->number;
    mr_unlock(&g->mu);
    return number;
}

bool mr_group_is_wanted(mr_group *g) { return g->meeting && mr_meeting_waits(g->meeting); }

void *mr_group_memory(mr_group *g, size_t bytes)
{
    if (g->shared)
        return mr_shared_alloc(g->shared, bytes);
    return mr_try_alloc(bytes ? bytes : 1);
}

void mr_group_memory_free(mr_group *g, void *p)
{
    if (p && !(g->shared && mr_shared_release(g->shared, p)) && !g->shared)
        mr_free(p);
}

/* ---- its life ---- */

static char *own_folder(void)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    return base && base[0] == '/' ? mr_printf("%s/millrace", base) : mr_printf("/tmp/millrace-%u", (unsigned)getuid());
}

static bool is_loopback(const char *address)
{
    mr_sv a = mr_sv_of(address);
    return mr_sv_starts(a, "127.") || mr_sv_starts(a, "localhost:") || mr_sv_starts(a, "[::1]");
}

/* Keys as the tasks of a cluster have them; without, only what stays on this host goes, or what the user wants plain. */
static mr_status *load_keys(mr_group *g)
{
    const char *folder = getenv("MILLRACE_TLS_DIR"), *tls = getenv("MILLRACE_TLS"), *task = getenv("MILLRACE_TASK");
    bool off = tls && strcmp(tls, "off") == 0;
    if (folder && folder[0] && !off)
        return mr_net_keys_load(folder, task ? task : "client", &g->keys);
    for (int i = 0; i < g->c.n_addresses && !off; i++)
        if (!is_loopback(g->addresses[i]))
            return mr_error(MR_FAILED_PRECONDITION,
                            "group '%s': %s can be reached from outside and there are no keys: make some with `millrace keys` "
                            "and set MILLRACE_TLS_DIR, or set MILLRACE_TLS=off to run in plain text", g->name, g->addresses[i]);
    return NULL;
}

static mr_status *open_meeting(mr_group *g)
{
    if (is(g, "grpc"))
        MR_TRY(load_keys(g));
    mr_meeting_options o = {.name = g->name, .rank = g->c.rank, .size = g->c.size, .least = g->c.least, .join_ns = g->c.join_ns,
                            .folder = is(g, "shm") ? g->folder : NULL, .addresses = (const char *const *)g->addresses,
                            .n_addresses = g->c.n_addresses, .keys = g->keys.keys.ca ? &g->keys.keys : NULL,
                            .ended = generation_ended, .arg = g};
    MR_TRY(mr_meeting_new(&o, &g->meeting));
    if (is(g, "shm"))
        g->shared = mr_shared_new(g->meeting);
    mr_lock(&g->turn);
    mr_status *st = form_locked(g);
    mr_unlock(&g->turn);
    return st;
}

static mr_status *open_mpi(mr_group *g)
{
    mr_transport *lanes[MR_LANES];
    MR_TRY(mr_mpi_open(MR_LANES, lanes));
    mr_lock(&g->mu);
    for (int i = 0; i < MR_LANES; i++)
        g->lanes[i] = lanes[i];
    g->rank = lanes[0]->rank;
    g->size = lanes[0]->size;
    g->number = 1;
    mr_unlock(&g->mu);
    return NULL;
}

static mr_group *group_new(const mr_group_config *c)
{
    mr_group *g = mr_new(mr_group);
    g->c = *c;
    g->name = mr_strdup(c->name ? c->name : "group");
    g->folder = c->folder ? mr_strdup(c->folder) : own_folder();
    g->addresses = mr_new_array(char *, c->n_addresses + 1);
    for (int i = 0; i < c->n_addresses; i++)
        g->addresses[i] = mr_strdup(c->addresses[i]);
    g->c.join_ns = c->join_ns > 0 ? c->join_ns : TEN_MINUTES_NS;
    g->c.timeout_ns = c->timeout_ns > 0 ? c->timeout_ns : TEN_MINUTES_NS;
    g->c.cycle_ns = c->cycle_ns > 0 ? c->cycle_ns : 1000000;
    g->c.fusion_bytes = c->fusion_bytes > 0 ? c->fusion_bytes : 16 << 20;
    mr_mutex_init(&g->turn);
    mr_mutex_init(&g->mu);
    return g;
}

mr_status *mr_group_open(const mr_group_config *c, mr_group **out)
{
    static const char *const kinds[] = {"shm", "grpc", "mpi"};
    mr_group *g = group_new(c);
    g->c.transport = NULL;
    for (int i = 0; i < MR_COUNT(kinds); i++)
        if (strcmp(c->transport, kinds[i]) == 0)
            g->c.transport = kinds[i];
    mr_status *st = !g->c.transport ? mr_invalid("group '%s': there is no transport '%s'", g->name, c->transport)
                    : is(g, "mpi")  ? open_mpi(g)
                                    : open_meeting(g);
    if (st)
        mr_group_close(g);
    else
        *out = g;
    return st;
}

void mr_group_close(mr_group *g)
{
    if (!g)
        return;
    if (g->fusion) {
        mr_status *why = mr_error(MR_CANCELLED, "group '%s': this member leaves", g->name);
        end_now(g, why);
        mr_fusion_pause(g->fusion, why);
        mr_status_free(why);
        mr_fusion_free(g->fusion);
    }
    drop_lanes(g);
    mr_shared_free(g->shared);
    mr_meeting_free(g->meeting);
    mr_status_free(g->ended);
    mr_net_keys_deinit(&g->keys);
    for (int i = 0; i < g->c.n_addresses; i++)
        mr_free(g->addresses[i]);
    mr_free(g->addresses);
    mr_free(g->name);
    mr_free(g->folder);
    mr_mutex_deinit(&g->turn);
    mr_mutex_deinit(&g->mu);
    mr_free(g);
}
