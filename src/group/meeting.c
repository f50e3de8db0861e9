/* group/meeting.c -- attending a group: one long-polling call after another to the process that keeps the roster.
 *
 * A member always has one call pending at the roster; the answer is news, and the next call follows at once. A
 * call that asks to join replaces the pending one: it gets a new serial, and answers to calls with an older serial
 * are ignored. When a call fails, the roster's process is lost: that ends the generation, and the next
 * mr_meeting_gather looks for another one. The calls of a member over two generations:
 *
 *     Attend serial 1, JOIN    ->  FORMED    generation 1; mr_meeting_gather returns
 *     Attend serial 1          ->  NOTHING   after a second without news
 *     Attend serial 1          ->  WAITS     a new process has joined: mr_meeting_waits
 *     Attend serial 1          ->  ENDED     a member is gone: `ended` is called
 *     Attend serial 2, JOIN    ->  FORMED    generation 2
 *     Attend serial 3, LEAVE   ->  NOTHING
 *
 * mu guards everything after it. `news`, `rank` and `lost` are written only while a join is pending, so the thread
 * that gathered may read the first two without the lock until it gathers again. The callback `ended` runs without
 * the lock. */
#include "group/meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "base/memory.h"
#include "base/thread.h"
#include "group/roster_server.h"
#include "net/local.h"

#define SILENCE_NS INT64_C(5000000000) /* the roster answers a pending call at least once a second */
#define REJOIN_NS INT64_C(2000000000)
#define AGAIN_NS INT64_C(5000000)
#define LINGER_NS INT64_C(250000000) /* a leaving roster process waits so long for the others to hear of it */

struct mr_meeting {
    char *name, *folder, *own_address;
    mr_meeting_options o;
    uint64_t key; /* identifies this process in the group */
    mr_net *net;
    mr_net_server *server; /* over gRPC always; on one host only where the roster is kept */
    mr_fd_server *fd_server;
    mr_post *post;
    int lock_fd;
    int candidate; /* over gRPC: the index of the address to try for the roster */

    mr_mutex mu;
    mr_cond changed;
    mr_roster_server *roster_server MR_GUARDED_BY(mu);
    mr_net_peer *peer MR_GUARDED_BY(mu); /* the process with the roster; not disconnected while n_starting > 0 */
    int n_starting MR_GUARDED_BY(mu);
    uint64_t serial MR_GUARDED_BY(mu); /* of the latest join; answers with another are ignored */
    int n_calls MR_GUARDED_BY(mu);     /* in progress, including ignored ones */
    /* formed: since the latest join. link_lost: the latest call failed. not_keeping: it failed because that process
     * does not keep the roster. waits: a process waits for the next generation. ended: the present one is over. */
    bool formed MR_GUARDED_BY(mu), link_lost MR_GUARDED_BY(mu), not_keeping MR_GUARDED_BY(mu), waits MR_GUARDED_BY(mu),
        ended MR_GUARDED_BY(mu), closing MR_GUARDED_BY(mu);
    mr_status *refused MR_GUARDED_BY(mu); /* the roster's answer to the latest join; ask_to_join takes it */
    mr_news news MR_GUARDED_BY(mu); /* of the present generation */
    int rank MR_GUARDED_BY(mu);
    uint64_t lost MR_GUARDED_BY(mu); /* the member whose loss ended it, reported with the next join; 0: none */
};

typedef struct attend_call {
    mr_net_request r;
    mr_meeting *m;
    uint64_t serial;
} attend_call;

static void attend_done(mr_net_request *r, mr_status *st, mr_bytes *reply);

/* ---- attending ---- */

/* Writes an Attend message, which carries all this member knows: the last generation and its members let a new
 * roster process continue the numbering. */
static void compose_locked(mr_meeting *m, uint32_t flags, uint64_t serial, mr_bytes *out) MR_REQUIRES(m->mu)
{
    mr_str text = {0};
    mr_attend a = {.flags = flags, .serial = serial, .who = m->key, .lost = m->lost, .generation = m->news.generation, .wanted = m->o.rank};
    mr_str_appendz(&a.name, m->name);
    mr_str_appendz(&a.address, m->own_address);
    for (int i = 0; i < m->news.members.n; i++)
        mr_vec_push(&a.peers, m->news.members.p[i].key);
    mr_attend_write(&a, &text);
    mr_bytes_add_str(out, &text);
    mr_attend_deinit(&a);
}

/* Starts one call to the roster; called without the lock. serial 0 starts a new series, which makes all answers to
 * earlier calls obsolete; another serial continues its series, if that is still the current one. n_starting keeps
 * the peer alive while the call is started without the lock. */
static void start_attend(mr_meeting *m, uint32_t flags, uint64_t serial)
{
    mr_lock(&m->mu);
    if (!m->peer || (serial && (serial != m->serial || m->closing))) {
        mr_unlock(&m->mu);
        return;
    }
    attend_call *c = mr_new(attend_call);
    c->m = m;
    c->r = (mr_net_request){.method = MR_ATTEND_METHOD, .deadline_ns = mr_now_ns() + SILENCE_NS, .done = attend_done};
    if (flags & MR_ATTEND_JOIN)
        m->formed = m->link_lost = m->not_keeping = false;
    c->serial = serial ? serial : ++m->serial;
    m->n_calls++;
    m->n_starting++;
    compose_locked(m, flags, c->serial, &c->r.body);
    mr_net_peer *peer = m->peer;
    mr_unlock(&m->mu);
    m->net->start(peer, &c->r);
    mr_lock(&m->mu);
    m->n_starting--;
    MR_ASSERT(m->n_starting >= 0);
    mr_cond_broadcast(&m->changed);
    mr_unlock(&m->mu);
}

/* Disconnects from the roster's process; all pending calls end. Waits for calls that are just being started, because
 * they use the peer without the lock. */
static void disconnect_roster(mr_meeting *m)
{
    mr_lock(&m->mu);
    mr_net_peer *peer = m->peer;
    m->peer = NULL;
    while (m->n_starting)
        mr_cond_wait(&m->changed, &m->mu);
    mr_unlock(&m->mu);
    if (peer)
        m->net->disconnect(peer);
}

/* ---- news ---- */

static void forget_news_locked(mr_meeting *m) MR_REQUIRES(m->mu)
{
    mr_news_deinit(&m->news);
    m->news = (mr_news){0};
}

/* The rank of a process in a generation; -1: it is not a member. */
static int rank_in(const mr_news *n, uint64_t key)
{
    for (int i = 0; i < n->members.n; i++)
        if (n->members.p[i].key == key)
            return i;
    return -1;
}

/* Takes over the news of a new generation (*n is emptied). A roster that reports a generation without this member,
 * or a second one, is treated as lost. */
static void formed_locked(mr_meeting *m, mr_news *n) MR_REQUIRES(m->mu)
{
    int rank = rank_in(n, m->key);
    if (rank < 0 || m->formed) {
        m->link_lost = true;
        return;
    }
    forget_news_locked(m);
    m->news = *n;
    *n = (mr_news){0};
    m->rank = rank;
    MR_ASSERT(m->rank < m->news.members.n);
    m->formed = true;
    m->waits = m->ended = false;
    m->lost = 0;
}

/* Marks the generation as ended, once. Returns the error that the caller must report without the lock; NULL: there
 * is nothing to report. */
static mr_status *end_locked(mr_meeting *m, uint64_t who, const char *why) MR_REQUIRES(m->mu)
{
    if (!m->formed || m->ended)
        return NULL;
    m->ended = true;
    m->lost = who;
    return mr_error(MR_ABORTED, "group '%s': %s, generation %lld is over", m->name, why, (long long)m->news.generation);
}

/* Handles one answer of the roster. Returns whether to make the next call; *over is the error to report if the
 * generation ended. */
static bool handle_news_locked(mr_meeting *m, mr_news *n, mr_status **over) MR_REQUIRES(m->mu)
{
    switch (n->kind) {
    case MR_NEWS_FORMED:
        formed_locked(m, n);
        break;
    case MR_NEWS_ENDED:
        if (n->generation == m->news.generation && n->roster_server == m->news.roster_server)
            *over = end_locked(m, n->who, mr_str_z(&n->why));
        break;
    case MR_NEWS_WAITS:
        m->waits = true;
        break;
    case MR_NEWS_REFUSED:
        mr_status_free(m->refused);
        m->refused = mr_error(n->generation > 0 && n->generation <= MR_UNAUTHENTICATED ? (mr_code)n->generation : MR_UNKNOWN, "%s",
                              mr_str_z(&n->why));
        return false;
    default:
        break;
    }
    return !m->link_lost;
}

/* The call to the roster failed, which ends the generation: without the roster server no loss would be noticed.
 * Returns the error to report, as end_locked does. FAILED_PRECONDITION means that the process answers but does not
 * keep the roster. */
static mr_status *lose_roster_locked(mr_meeting *m, const mr_status *st) MR_REQUIRES(m->mu)
{
    int rank = rank_in(&m->news, m->news.roster_server);
    m->link_lost = true;
    m->not_keeping = mr_status_code(st) == MR_FAILED_PRECONDITION;
    char *why = mr_printf("member %d is gone (%s)", rank, mr_status_message(st));
    mr_status *over = end_locked(m, m->news.roster_server, why);
    mr_free(why);
    return over;
}

/* The end of a call: handles the answer, reports the end of the generation, starts the next call. n_calls is
 * decremented last, because mr_meeting_free waits for it and then frees m. */
static void attend_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    attend_call *c = (attend_call *)r;
    mr_meeting *m = c->m;
    mr_news n = {0};
    mr_sv bytes;
    mr_status *over = NULL;
    bool again = false;
    int64_t generation;
    if (!st)
        st = mr_bytes_flat(reply, &bytes);
    if (!st)
        st = mr_news_read(bytes, &n);
    mr_lock(&m->mu);
    /* A join or leave made since then has a newer serial; its own answer counts. */
    if (c->serial == m->serial && !m->closing) {
        if (st)
            over = lose_roster_locked(m, st);
        else
            again = handle_news_locked(m, &n, &over);
    }
    generation = m->news.generation;
    mr_unlock(&m->mu);
    /* The end is reported before the next call can bring other news. */
    if (over)
        m->o.ended(m->o.arg, generation, over);
    if (again)
        start_attend(m, 0, c->serial);
    mr_lock(&m->mu);
    m->n_calls--;
    MR_ASSERT(m->n_calls >= 0);
    mr_cond_broadcast(&m->changed);
    mr_unlock(&m->mu);
    mr_status_free(over);
    mr_status_free(st);
    mr_news_deinit(&n);
    mr_free(c);
}

/* ---- finding the roster ---- */

/* Dispatches the calls that arrive at this process: Attend if it keeps the roster, and messages of transports. */
static void handle_call(void *arg, mr_net_call *c)
{
    mr_meeting *m = arg;
    mr_lock(&m->mu);
    mr_roster_server *k = m->roster_server;
    mr_unlock(&m->mu);
    if (strcmp(c->method, MR_ATTEND_METHOD) == 0 && k)
        mr_roster_server_handle(k, c);
    else if (strcmp(c->method, MR_ATTEND_METHOD) == 0)
        c->net->reply(c, mr_error(MR_FAILED_PRECONDITION, "group '%s': this member does not keep the roster", m->name),
                      NULL);
    else if (strcmp(c->method, MR_POST_METHOD) == 0 && m->post)
        mr_post_handle(m->post, c);
    else
        c->net->reply(c, mr_error(MR_UNIMPLEMENTED, "group: unknown method %s", c->method), NULL);
}

/* Starts to keep the roster; once started, this process keeps it until it leaves. */
static mr_status *become_roster_server(mr_meeting *m)
{
    mr_roster_server *k;
    mr_roster_options o = {.size = m->o.size, .least = m->o.least, .majority = !m->folder, .join_ns = m->o.join_ns,
                           .rejoin_ns = REJOIN_NS};
    if (m->roster_server)
        return NULL;
    MR_TRY(mr_roster_server_new(m->name, m->key, &o, &k));
    mr_lock(&m->mu);
    m->roster_server = k;
    mr_unlock(&m->mu);
    return NULL;
}

/* On one host the process that holds the lock file keeps the roster. The kernel releases the lock when that
 * process ends, so another one can take over. Without the lock this does nothing: another process has it. */
static mr_status *try_to_lock(mr_meeting *m, const char *path)
{
    int port;
    if (m->lock_fd >= 0 && m->server)
        return NULL;
    if (m->lock_fd < 0) {
        char *lock = mr_printf("%s/%s.lock", m->folder, m->name);
        m->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        mr_status *st = m->lock_fd < 0 ? mr_errno_status(errno, "open", lock) : NULL;
        mr_free(lock);
        MR_TRY(st);
        /* Released by the kernel even after kill -9, so a stale lock cannot exist. */
        if (flock(m->lock_fd, LOCK_EX | LOCK_NB) != 0) {
            close(m->lock_fd);
            m->lock_fd = -1;
            return NULL;
        }
    }
    MR_TRY(become_roster_server(m));
    mr_net_listen listen = {.address = path, .handle = handle_call, .arg = m};
    mr_status *st = m->net->listen(m->net, &listen, &m->server, &port);
    if (mr_status_code(st) ==
        MR_ALREADY_EXISTS) { /* the previous holder is about to close it; the caller tries again */
        mr_status_free(st);
        st = NULL;
    }
    return st;
}

/* Connecting succeeds even if no process listens there; then the first call fails. */
static mr_status *connect_to(mr_meeting *m, const char *address, const mr_net_keys *keys)
{
    mr_net_peer *peer;
    MR_TRY(m->net->connect(m->net, address, keys, NULL, &peer));
    mr_lock(&m->mu);
    MR_ASSERT(!m->peer); /* find_roster_server has disconnected */
    m->peer = peer;
    mr_unlock(&m->mu);
    return NULL;
}

/* On one host every process connects to NAME.sock, also the one that keeps the roster. */
static mr_status *find_on_host(mr_meeting *m)
{
    char *path = mr_printf("%s/%s.sock", m->folder, m->name);
    mr_status *st = try_to_lock(m, path);
    if (!st)
        st = connect_to(m, path, NULL);
    mr_free(path);
    return st;
}

/* Finds the roster over gRPC. A former member tries the members of its last generation in rank order: the first
 * that answers keeps the next roster. A new process tries all addresses, because the group may have changed since
 * they were configured; member 0 tries its own address last and then keeps the first roster. */
static mr_status *find_by_address(mr_meeting *m)
{
    int n = m->news.members.n ? m->news.members.n : m->o.size;
    int i = (m->candidate + (!m->news.members.n && m->o.rank == 0)) % n;
    MR_ASSERT(i >= 0 && i < n);
    const char *address = m->news.members.n ? m->news.members.p[i].address : m->o.addresses[i];
    bool own = m->news.members.n ? m->news.members.p[i].key == m->key : i == m->o.rank;
    if (own && (m->news.members.n || i == 0))
        MR_TRY(become_roster_server(m));
    return connect_to(m, address, m->o.keys);
}

/* Connects to the process that keeps the roster, or becomes that process. */
static mr_status *find_roster_server(mr_meeting *m)
{
    disconnect_roster(m);
    return m->folder ? find_on_host(m) : find_by_address(m);
}

/* ---- gathering ---- */

/* Asks to join and waits. Returns with *formed set, or unset when the roster was lost; an error is a refusal or
 * the deadline. */
static mr_status *ask_to_join(mr_meeting *m, int64_t deadline_ns, mr_long_wait *wait, bool *formed)
{
    start_attend(m, MR_ATTEND_JOIN, 0);
    mr_status *st = NULL;
    mr_lock(&m->mu);
    bool in_time = true;
    while (!m->formed && !m->link_lost && !m->refused && in_time)
        in_time = mr_long_wait_cond(wait, &m->changed, &m->mu, deadline_ns,
                                    "the other members of group '%s': fewer than %d have joined", m->name, m->o.size);
    *formed = m->formed && !m->link_lost;
    st = m->refused;
    m->refused = NULL;
    if (!*formed && !st && !in_time)
        st = mr_error(MR_DEADLINE_EXCEEDED, "group '%s': waited for members that did not come", m->name);
    mr_unlock(&m->mu);
    return st;
}

/* The process asked last does not keep the roster: moves on to the next address. A member of the last generation
 * that answers is asked again instead, because it will keep the roster as soon as it notices the loss. */
static void try_another(mr_meeting *m)
{
    mr_lock(&m->mu);
    m->candidate += !(m->news.members.n && m->not_keeping);
    mr_unlock(&m->mu);
    mr_sleep_ns(AGAIN_NS);
}

/* Joins the next generation, looking for the roster as often as necessary. Only one thread at a time may gather. */
mr_status *mr_meeting_gather(mr_meeting *m, int64_t deadline_ns)
{
    double seconds;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    for (bool formed = false;;) {
        mr_lock(&m->mu);
        bool has_link = m->peer && !m->link_lost;
        mr_unlock(&m->mu);
        /* A member that only asks for a new generation keeps its roster. */
        if (!has_link)
            MR_TRY(find_roster_server(m));
        MR_TRY(ask_to_join(m, deadline_ns, &wait, &formed));
        if (formed)
            break;
        if (mr_now_ns() > deadline_ns)
            return mr_error(MR_DEADLINE_EXCEEDED, "group '%s': no process with the roster answered before the deadline",
                            m->name);
        try_another(m);
        if (mr_long_wait_due(&wait, mr_now_ns(), &seconds)) /* before the next attempt, which logs its own wait */
            mr_info("Still waiting for the other members of group '%s': the process with the roster does not answer "
                    "(%.0f s)",
                    m->name, seconds);
    }
    MR_ASSERT(m->rank >= 0 && m->rank < m->news.members.n);
    m->candidate = 0;
    return NULL;
}

/* ---- the present generation ---- */

int64_t mr_meeting_generation(const mr_meeting *m) { return m->news.generation; }
uint64_t mr_meeting_key(const mr_meeting *m)
{
    uint64_t parts[2] = {(uint64_t)m->news.generation, m->news.roster_server};
    return mr_hash64(parts, sizeof(parts)) ^ mr_hash64(m->name, strlen(m->name));
}
int mr_meeting_rank(const mr_meeting *m) { return m->rank; }
int mr_meeting_size(const mr_meeting *m) { return m->news.members.n; }
const char *mr_meeting_address(const mr_meeting *m, int rank)
{
    MR_ASSERT(rank >= 0 && rank < m->news.members.n);
    return m->news.members.p[rank].address;
}
mr_fd_server *mr_meeting_fd_server(mr_meeting *m) { return m->fd_server; }
mr_post *mr_meeting_post(mr_meeting *m) { return m->post; }
mr_net *mr_meeting_net(mr_meeting *m) { return m->net; }

bool mr_meeting_waits(mr_meeting *m)
{
    mr_lock(&m->mu);
    bool waits = m->waits;
    mr_unlock(&m->mu);
    return waits;
}

bool mr_meeting_is_over(mr_meeting *m)
{
    mr_lock(&m->mu);
    bool over = m->ended || m->link_lost;
    mr_unlock(&m->mu);
    return over;
}

/* ---- creating and freeing ---- */

/* The name becomes part of file names, so it must not be able to leave the folder. */
static mr_status *check_name(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > 64 || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != n || name[0] == '.')
        return mr_invalid(
            "group: invalid name '%s': expected 1 to 64 letters, digits, '_', '-' or '.', not starting with '.'", name);
    return NULL;
}

/* Creates the folder if necessary, and refuses one that another user owns or may write to. */
static mr_status *check_folder(const char *folder)
{
    struct stat s;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return mr_errno_status(errno, "make", folder);
    if (lstat(folder, &s) < 0 || !S_ISDIR(s.st_mode) || s.st_uid != getuid() || (s.st_mode & 022))
        return mr_error(MR_FAILED_PRECONDITION,
                        "group: %s must be a folder that this user owns and no one else may write to", folder);
    return NULL;
}

/* Whether a file name is NAME.KEY: the socket at which a process of this group passes descriptors. */
static bool is_of_process(const mr_meeting *m, const char *file)
{
    size_t n = strlen(m->name);
    return strncmp(file, m->name, n) == 0 && file[n] == '.' && strlen(file + n + 1) == 16 &&
           strspn(file + n + 1, "0123456789abcdef") == 16;
}

/* Removes the socket that a killed process left behind: one at which nobody answers. For mr_dir_each. */
static mr_status *remove_stale_socket(void *arg, const char *file)
{
    mr_meeting *m = arg;
    struct sockaddr_un a;
    if (!is_of_process(m, file))
        return NULL;
    char *path = mr_printf("%s/%s", m->folder, file);
    mr_status *st = mr_local_address(path, &a);
    int s = st ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s >= 0 && connect(s, (struct sockaddr *)&a, sizeof(a)) != 0 && errno == ECONNREFUSED)
        unlink(path);
    if (s >= 0)
        close(s);
    mr_status_free(st);
    mr_free(path);
    return NULL;
}

/* Prepares the folder and listens for members that ask for descriptors. The roster's socket is opened later, by the
 * process that gets the lock. */
static mr_status *open_host(mr_meeting *m)
{
    MR_TRY(check_folder(m->folder));
    mr_status_free(mr_dir_each(m->folder, remove_stale_socket, m));
    m->net = mr_net_local();
    m->own_address = mr_printf("%s/%s.%016llx", m->folder, m->name, (unsigned long long)m->key);
    return mr_fd_server_new(m->own_address, &m->fd_server);
}

/* Listens at this member's own address, which serves both messages of transports and, if it keeps the roster,
 * Attend. */
static mr_status *open_grpc(mr_meeting *m)
{
    int port;
    if (m->o.n_addresses != m->o.size || m->o.rank < 0 || m->o.rank >= m->o.size)
        return mr_invalid("group '%s': got %d addresses for %d members, for member %d: expected one address per member",
                          m->name, m->o.n_addresses, m->o.size, m->o.rank);
    MR_TRY(mr_net_direct(&m->net));
    m->own_address = mr_strdup(m->o.addresses[m->o.rank]);
    m->post = mr_post_new();
    mr_net_listen listen = {.address = m->own_address, .keys = m->o.keys, .handle = handle_call, .arg = m};
    return m->net->listen(m->net, &listen, &m->server, &port);
}

/* Checks the options, copies name and folder, and opens what this process listens at; the addresses and keys stay
 * borrowed. Nothing is joined yet. The key is random, so a restarted process is never taken for its predecessor. */
mr_status *mr_meeting_new(const mr_meeting_options *o, mr_meeting **out)
{
    MR_TRY(check_name(o->name));
    if (o->size < 1 || o->size > MR_ROSTER_MAX_MEMBERS || o->rank >= o->size)
        return mr_invalid("group '%s': member %d of %d: expected a rank below the size, and 1 to %d members", o->name,
                          o->rank, o->size, MR_ROSTER_MAX_MEMBERS);
    mr_meeting *m = mr_new(mr_meeting);
    m->o = *o;
    m->name = mr_strdup(o->name);
    m->folder = o->folder ? mr_strdup(o->folder) : NULL;
    m->lock_fd = -1;
    while (m->key == 0)
        m->key = mr_random64();
    mr_mutex_init(&m->mu);
    mr_cond_init(&m->changed);
    mr_status *st = m->folder ? open_host(m) : open_grpc(m);
    if (st)
        mr_meeting_free(m);
    else
        *out = m;
    return st;
}

/* Tells the roster that this member leaves, waits up to half a second for the answer, then disconnects and waits
 * until every call has ended. Afterwards no callback can reach m. */
static void leave_group(mr_meeting *m)
{
    mr_lock(&m->mu);
    bool reachable = m->peer && !m->link_lost;
    m->closing = true;
    mr_unlock(&m->mu);
    if (reachable)
        start_attend(m, MR_ATTEND_LEAVE, 0);
    int64_t until = mr_now_ns() + INT64_C(500000000);
    mr_lock(&m->mu);
    while (reachable && m->n_calls && mr_cond_wait_until(&m->changed, &m->mu, until))
        ;
    mr_unlock(&m->mu);
    disconnect_roster(m);
    mr_lock(&m->mu);
    while (m->n_calls)
        mr_cond_wait(&m->changed, &m->mu);
    mr_unlock(&m->mu);
}

/* Leaves the group in an order that lets the others hear of it: first as a member, then, if this process keeps the
 * roster for others, it lingers so that they get the news, and only then stops the server and frees the roster. */
void mr_meeting_free(mr_meeting *m)
{
    if (!m)
        return;
    leave_group(m);
    if (m->roster_server && mr_roster_server_has_guests(m->roster_server))
        mr_sleep_ns(LINGER_NS);
    if (m->server)
        m->net->stop(m->server, INT64_C(100000000));
    mr_roster_server_free(m->roster_server);
    MR_ASSERT(m->n_calls == 0 && m->n_starting == 0);
    if (m->lock_fd >= 0)
        close(m->lock_fd);
    mr_fd_server_free(m->fd_server);
    mr_post_free(m->post);
    mr_status_free(m->refused);
    mr_news_deinit(&m->news);
    mr_cond_deinit(&m->changed);
    mr_mutex_deinit(&m->mu);
    mr_free(m->name);
    mr_free(m->folder);
    mr_free(m->own_address);
    mr_free(m);
}
