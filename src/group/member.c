/* group/member.c -- one member's view of a group: its generations, and the transports of each.
 *
 * Two locks. `turn` is held by the thread that runs an operation or forms the group, so transports are replaced
 * only between operations. `mu` guards the state that other threads read and is never held while waiting; turn is
 * taken before mu.
 *
 * The news that a generation has ended arrives on a thread of the meeting. That thread records the reason in
 * `ended` and fails the transports, which ends every wait of the operation in progress. So once `ended` is set, no
 * operation succeeds until mr_group_form replaces the transports. */
#include "group/member.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "dist/group.h"
#include "group/mpi.h"

#define TEN_MINUTES_NS INT64_C(600000000000)
#define NEWS_NS INT64_C(4000000000) /* longer than the lease of a silent member (LEASE_NS in roster_server.c) */
#define TRANSPORT_NS INT64_C(10000000000) /* to reach all members of a generation that was just formed */

static bool uses_transport(const mr_group *g, const char *transport) { return strcmp(g->c.transport, transport) == 0; }

/* ---- the end of a generation ---- */

/* Records why the generation ended (the first reason counts) and fails its transports, so that waiting operations
 * return. */
static void end_locked(mr_group *g, const mr_status *why) MR_REQUIRES(g->mu)
{
    if (!g->ended)
        g->ended = mr_status_copy(why);
    atomic_store(&g->over, true);
    for (int i = 0; i < MR_LANES; i++)
        if (g->lanes[i])
            g->lanes[i]->of->fail(g->lanes[i], why);
}

/* end_locked for a caller without the lock. */
static void end_now(mr_group *g, const mr_status *why)
{
    mr_lock(&g->mu);
    end_locked(g, why);
    mr_unlock(&g->mu);
}

/* The meeting's callback, on a thread of its transport: must not block. News about a generation older than the
 * present one is ignored. */
static void generation_ended(void *arg, int64_t generation, const mr_status *why)
{
    mr_group *g = arg;
    mr_lock(&g->mu);
    if (!mr_roster_is_later(g->number, generation))
        end_locked(g, why);
    mr_unlock(&g->mu);
}

/* The number that names a lane of this generation; all members compute the same one. */
static uint64_t lane_key(const mr_group *g, int lane)
{
    uint64_t parts[2] = {mr_meeting_key(g->meeting), (uint64_t)lane};
    return mr_hash64(parts, sizeof(parts)) >> 1; /* the highest bit is for buffers */
}

/* Frees the transports of the generation and everything made for it: connections, mappings of the other members'
 * buffers, and the offered segments. The caller holds the turn or is closing the group, so no operation uses them.
 * The lanes leave g->lanes under mu first: another thread may be about to fail them. */
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
    for (int i = 0; i < g->n_routes; i++)
        if (g->routes[i].peer)
            g->routes[i].net->disconnect(g->routes[i].peer);
    MR_ASSERT((g->routes == NULL) == (g->n_routes == 0));
    mr_free(g->routes);
    g->routes = NULL;
    g->n_routes = 0;
    if (!g->shared)
        return;
    mr_shared_forget(g->shared);
    for (int i = 0; i < MR_LANES && mr_meeting_size(g->meeting); i++)
        mr_fd_server_take_back(mr_meeting_fd_server(g->meeting), lane_key(g, i));
}

/* ---- transports of a generation ---- */

/* Makes the shared-memory transport of a lane: offers a segment of this member and asks each other member for its
 * own. mr_shm_new takes over all descriptors; if it is not reached, they are closed here. */
static mr_status *shm_lane(mr_group *g, int lane, mr_transport **out)
{
    mr_meeting *m = g->meeting;
    mr_status *st = NULL;
    int rank = mr_meeting_rank(m), size = mr_meeting_size(m), n = 0, own = size <= MR_SHM_MOST ? mr_shm_file_new(size) : -1;
    uint64_t number = lane_key(g, lane);
    MR_ASSERT(rank >= 0 && rank < size);
    size_t bytes;
    if (own < 0)
        return mr_error(MR_RESOURCE_EXHAUSTED, "group '%s': cannot create shared memory for %d members (at most %d)",
                        g->name, size, MR_SHM_MOST);
    int *fds = mr_new_array(int, size);
    /* Offered before asking: two members that ask each other first would both wait. */
    mr_fd_server_offer(mr_meeting_fd_server(m), number, own, mr_shm_file_bytes(size));
    for (; n < size && !st; n += !st)
        if (n == rank)
            fds[n] = dup(own);
        else
            st = mr_fd_fetch(mr_meeting_address(m, n), number, mr_now_ns() + TRANSPORT_NS, &g->over, &fds[n], &bytes);
    mr_shm_memory memory = mr_shared_memory(g->shared, lane);
    if (!st)
        st = mr_shm_new(rank, size, fds, &memory, out);
    else
        for (int i = 0; i < n; i++)
            close(fds[i]);
    mr_free(fds);
    return st;
}

/* Connects to every member of the generation. After an error the peers connected so far stay in g->routes, where
 * drop_lanes finds them. */
static mr_status *connect_all(mr_group *g)
{
    MR_ASSERT(!g->routes && g->n_routes == 0);
    mr_meeting *m = g->meeting;
    mr_net *net = mr_meeting_net(m);
    int size = mr_meeting_size(m);
    g->routes = mr_new_array(mr_post_route, size);
    g->n_routes = size;
    for (int i = 0; i < size; i++) {
        g->routes[i].net = net;
        MR_TRY(net->connect(net, mr_meeting_address(m, i), g->keys.keys.ca ? &g->keys.keys : NULL, NULL, &g->routes[i].peer));
    }
    return NULL;
}

/* Makes the transport of one lane; over gRPC both lanes use the same connections. */
static mr_status *make_lane(mr_group *g, int lane, mr_transport **out)
{
    MR_ASSERT(lane >= 0 && lane < MR_LANES && g->meeting);
    if (uses_transport(g, "shm"))
        return shm_lane(g, lane, out);
    *out = mr_post_transport(mr_meeting_post(g->meeting), lane_key(g, lane), mr_meeting_rank(g->meeting), mr_meeting_size(g->meeting),
                             g->routes);
    return NULL;
}

static mr_status *make_lanes(mr_group *g, mr_transport *lanes[MR_LANES])
{
    mr_status *st = uses_transport(g, "grpc") ? connect_all(g) : NULL;
    for (int i = 0; i < MR_LANES && !st; i++)
        st = make_lane(g, i, &lanes[i]);
    return st;
}

/* Gathers the next generation and makes its transports. *over is set when the generation ended before they were
 * complete; the caller then tries again. The transports are stored even on error, for drop_lanes to free. */
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
    MR_ASSERT(g->rank >= 0 && g->rank < g->size);
    mr_unlock(&g->mu);
    if (mr_meeting_is_over(g->meeting)) /* its end was reported before we cleared `ended` */
        return *over = true, NULL;
    mr_status *st = make_lanes(g, lanes);
    /* Stored under mu together with the look at `ended`: an end that comes later fails these lanes. */
    mr_lock(&g->mu);
    for (int i = 0; i < MR_LANES; i++) {
        MR_ASSERT(!g->lanes[i]); /* drop_lanes was called before */
        g->lanes[i] = lanes[i];
    }
    *over = g->ended != NULL || mr_status_code(st) == MR_UNAVAILABLE;
    mr_unlock(&g->mu);
    if (*over) {
        mr_status_free(st);
        st = NULL;
    }
    return st;
}

/* Forms generations until one lives long enough to be used, or join_ns has passed. After an error there are no
 * transports, and every operation reports that error. */
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

/* Sets `forming`, which makes a fusion created from now on start paused. Returns the fusion that exists already,
 * if any: the caller pauses or resumes it. */
static mr_fusion *set_forming(mr_group *g, bool forming)
{
    mr_lock(&g->mu);
    g->forming = forming;
    mr_fusion *f = g->fusion;
    mr_unlock(&g->mu);
    return f;
}

/* Ends the present generation for all members and joins the next one. Fusion is paused throughout, because its
 * thread uses a lane too; its requests end with ABORTED. */
mr_status *mr_group_form(mr_group *g)
{
    if (!g->meeting)
        return mr_error(
            MR_FAILED_PRECONDITION,
            "group '%s': a group over MPI cannot be formed again: its members are the processes that mpirun started",
            g->name);
    mr_status *why = mr_error(MR_ABORTED, "group '%s' is being formed again", g->name);
    end_now(g, why); /* makes the holder of the turn return */
    mr_lock(&g->turn);
    end_now(g, why); /* another thread may have formed the group meanwhile and resumed fusion */
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

/* Called when a member did not answer. The meeting soon reports which one is gone; its report names the member and
 * the cause, so it makes the better error. Waits for it at most NEWS_NS. */
static void wait_for_news(mr_group *g)
{
    int64_t until = mr_now_ns() + NEWS_NS;
    while (!atomic_load(&g->over) && mr_now_ns() < until)
        mr_sleep_ns(1000000);
}

/* Does not fail the transports: the fusion thread calls this after its cycle, when nothing waits on its lane. */
void mr_group_spoil(mr_group *g, const mr_status *why)
{
    mr_lock(&g->mu);
    if (!g->ended)
        g->ended = mr_status_copy(why);
    mr_unlock(&g->mu);
}

/* Runs one operation on a lane. The caller is the only user of that lane (it holds the turn, or is the fusion
 * thread). An error of the transport ends the generation here too, because pipes may hold parts of messages; an
 * invalid operation does not, because nothing was sent. */
mr_status *mr_group_run_lane(mr_group *g, int lane, const mr_group_work *w, int64_t deadline_ns)
{
    MR_ASSERT(lane >= 0 && lane < MR_LANES);
    mr_lock(&g->mu);
    mr_transport *t = g->lanes[lane];
    mr_status *st = mr_status_copy(g->ended);
    mr_unlock(&g->mu);
    if (st || !t)
        return st ? st : mr_error(MR_FAILED_PRECONDITION, "group '%s' was not formed", g->name);
    MR_ASSERT(t->rank >= 0 && t->rank < t->size);
    MR_TRY(mr_group_work_check(w, t->size, t->rank));
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

/* On one host every pointer of mr_group_memory is a shared buffer; another pointer is ignored. */
void mr_group_memory_free(mr_group *g, void *p)
{
    if (p && !(g->shared && mr_shared_release(g->shared, p)) && !g->shared)
        mr_free(p);
}

/* ---- opening and closing ---- */

/* The folder for sockets and the lock file when the configuration names none. The caller owns it. */
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

/* Loads the TLS keys that the tasks of a cluster use. Without keys a group may only use loopback addresses, unless
 * the user asks for plain text. */
static mr_status *load_keys(mr_group *g)
{
    const char *folder = getenv("MILLRACE_TLS_DIR"), *tls = getenv("MILLRACE_TLS"), *task = getenv("MILLRACE_TASK");
    bool off = tls && strcmp(tls, "off") == 0;
    if (folder && folder[0] && !off)
        return mr_net_keys_load(folder, task ? task : "client", &g->keys);
    for (int i = 0; i < g->c.n_addresses && !off; i++)
        if (!is_loopback(g->addresses[i]))
            return mr_error(MR_FAILED_PRECONDITION,
                            "group '%s': %s can be reached from other hosts, and there are no TLS keys: make them with "
                            "`millrace keys` "
                            "and set MILLRACE_TLS_DIR, or set MILLRACE_TLS=off to run in plain text",
                            g->name, g->addresses[i]);
    return NULL;
}

/* Joins a group over shared memory or gRPC, and waits for its first generation. */
static mr_status *open_meeting(mr_group *g)
{
    if (uses_transport(g, "grpc"))
        MR_TRY(load_keys(g));
    mr_meeting_options o = {.name = g->name,
                            .rank = g->c.rank,
                            .size = g->c.size,
                            .least = g->c.least,
                            .join_ns = g->c.join_ns,
                            .folder = uses_transport(g, "shm") ? g->folder : NULL,
                            .addresses = (const char *const *)g->addresses,
                            .n_addresses = g->c.n_addresses,
                            .keys = g->keys.keys.ca ? &g->keys.keys : NULL,
                            .ended = generation_ended,
                            .arg = g};
    MR_TRY(mr_meeting_new(&o, &g->meeting));
    if (uses_transport(g, "shm"))
        g->shared = mr_shared_new(g->meeting);
    mr_lock(&g->turn);
    mr_status *st = form_locked(g);
    mr_unlock(&g->turn);
    return st;
}

/* A group over MPI has one generation, number 1, whose members are the processes of the world. */
static mr_status *open_mpi(mr_group *g)
{
    mr_transport *lanes[MR_LANES];
    MR_TRY(mr_mpi_open(MR_LANES, lanes));
    MR_ASSERT(lanes[0]->rank >= 0 && lanes[0]->rank < lanes[0]->size);
    mr_lock(&g->mu);
    for (int i = 0; i < MR_LANES; i++)
        g->lanes[i] = lanes[i];
    g->rank = lanes[0]->rank;
    g->size = lanes[0]->size;
    g->number = 1;
    mr_unlock(&g->mu);
    return NULL;
}

/* Copies the configuration, with defaults for what is 0. g->c still borrows c's texts: the copies are name, folder
 * and addresses. */
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

/* g->c.transport points at a text of `kinds`, because the caller's text may not outlive this call. */
mr_status *mr_group_open(const mr_group_config *c, mr_group **out)
{
    static const char *const kinds[] = {"shm", "grpc", "mpi"};
    mr_group *g = group_new(c);
    g->c.transport = NULL;
    for (int i = 0; i < MR_COUNT(kinds); i++)
        if (strcmp(c->transport, kinds[i]) == 0)
            g->c.transport = kinds[i];
    mr_status *st = !g->c.transport ? mr_invalid("group '%s': unknown transport '%s' (expected shm, grpc or mpi)",
                                                 g->name, c->transport)
                    : uses_transport(g, "mpi")  ? open_mpi(g)
                                    : open_meeting(g);
    if (st)
        mr_group_close(g);
    else
        *out = g;
    return st;
}

/* Order matters: fusion uses the lanes, the lanes use the meeting. Other members hear that this one leaves from
 * mr_meeting_free. */
void mr_group_close(mr_group *g)
{
    if (!g)
        return;
    if (g->fusion) {
        mr_status *why = mr_error(MR_CANCELLED, "group '%s': this member is leaving", g->name);
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
