/* distbelief/faults_test.c -- replicas as processes, killed in the middle; servers that are lost while replicas train.
 *
 * Processes are forked before the test has threads; each waits on a pipe for where the parameter servers are. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "distbelief/small_test.h"
#include "ps/server_internal.h"
#include "tests/harness/test.h"

#define CHECK_STATUS(s) \
    (TF_GetCode(s) == TF_OK ? (void)0 : mr_test_fail(__FILE__, __LINE__, "%s", TF_Message(s)))

enum { MOST = 10 };

/* ---- servers ---- */

typedef struct servers {
    mr_ps_manager *manager;
    mr_ps_server *s[MOST];
    int n;
    mr_ps *ps;
    TF_Status *status;
} servers;

static mr_ps *connect_to(const char *manager, TF_Status *status)
{
    mr_ps *ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = manager}, status);
    CHECK_STATUS(status);
    return ps;
}

static servers serve(int n, int replicas)
{
    servers v = {.n = n, .status = TF_NewStatus()};
    v.manager = mr_ps_manager_start(&(mr_ps_manager_options){sizeof(mr_ps_manager_options), .replicas = replicas, .servers = n},
                                    v.status);
    CHECK_STATUS(v.status);
    for (int i = 0; i < n; i++) {
        v.s[i] = mr_ps_server_start(
            &(mr_ps_server_options){sizeof(mr_ps_server_options), .manager = mr_ps_manager_address(v.manager)}, v.status);
        CHECK_STATUS(v.status);
    }
    v.ps = connect_to(mr_ps_manager_address(v.manager), v.status);
    return v;
}

static void stop(servers *v)
{
    mr_ps_free(v->ps);
    for (int i = 0; i < v->n; i++)
        mr_ps_server_free(v->s[i]);
    mr_ps_manager_free(v->manager);
    TF_DeleteStatus(v->status);
}

/* ---- replicas as processes ---- */

typedef struct seen { /* of a replica, in memory that all share */
    _Atomic int64_t steps, last_ns;
    _Atomic int64_t longest_ns; /* between two steps, since the parent set it to zero */
    _Atomic int failed;
} seen;

typedef struct place { /* what a process is told */
    char manager[64], coordinator[64];
} place;

typedef struct crowd {
    int n;
    pid_t pid[MOST];
    int pipe[MOST];
    seen *seen;
} crowd;

static bool read_place(int fd, place *p)
{
    size_t n = 0;
    ssize_t got;
    while (n < sizeof *p && (got = read(fd, (char *)p + n, sizeof *p - n)) > 0)
        n += (size_t)got;
    return n == sizeof *p;
}

/* Each child runs fn until it is killed, or ends. */
static crowd gather(int n, void (*fn)(int i, const place *p, seen *s))
{
    crowd c = {.n = n};
    c.seen = mmap(NULL, sizeof(seen) * MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MR_CHECK(c.seen != MAP_FAILED);
    for (int i = 0; i < n; i++) {
        int ends[2];
        MR_CHECK_INT(pipe(ends), 0);
        if ((c.pid[i] = fork()) == 0) {
            place p;
            for (int k = 0; k < i; k++)
                close(c.pipe[k]);
            close(ends[1]);
            if (read_place(ends[0], &p))
                fn(i, &p, &c.seen[i]);
            _exit(0);
        }
        MR_CHECK(c.pid[i] > 0);
        close(ends[0]);
        c.pipe[i] = ends[1];
    }
    return c;
}

static void tell(const crowd *c, const char *manager, const char *coordinator)
{
    place p = {0};
    snprintf(p.manager, sizeof p.manager, "%s", manager);
    snprintf(p.coordinator, sizeof p.coordinator, "%s", coordinator);
    for (int i = 0; i < c->n; i++)
        MR_CHECK_INT(write(c->pipe[i], &p, sizeof p), sizeof p);
}

static void kill_one(crowd *c, int i)
{
    kill(c->pid[i], SIGKILL);
    waitpid(c->pid[i], NULL, 0);
    c->pid[i] = 0;
}

static void disperse(crowd *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->pid[i])
            kill_one(c, i);
        close(c->pipe[i]);
    }
}

/* ---- Downpour ---- */

static void note_step(seen *s)
{
    int64_t now = mr_now_ns(), last = s->last_ns;
    if (last && now - last > s->longest_ns)
        s->longest_ns = now - last;
    s->last_ns = now;
    s->steps++;
}

static void pour_for_ever(int i, const place *p, seen *s)
{
    small_model r = small_build(4);
    mr_downpour *d = mr_downpour_new(r.m, r.loss, &(mr_downpour_options){sizeof(mr_downpour_options), .replica = i});
    small_open(&r, NULL);
    mr_ps *ps = connect_to(p->manager, r.status);
    mr_downpour_start(d, r.session, ps, r.status);
    for (int64_t k = 0; TF_GetCode(r.status) == TF_OK; k++) {
        TF_Tensor *in[2];
        small_batch(i * 100 + k * 5, 5, in);
        mr_downpour_train(d, r.in, in, 2, NULL, NULL, 0, r.status);
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
        note_step(s);
        mr_sleep_ns(2000000); /* leaves the machine to the others */
    }
    fprintf(stderr, "replica %d: %s\n", i, TF_Message(r.status));
    s->failed = 1;
}

/* The longest gap between steps of the replicas that are left, over some time. */
static int64_t longest_gap(const crowd *c, int64_t time_ns)
{
    int64_t longest = 0;
    for (int i = 0; i < c->n; i++)
        c->seen[i].longest_ns = 0;
    mr_sleep_ns(time_ns);
    int64_t now = mr_now_ns();
    for (int i = 0; i < c->n; i++)
        if (c->pid[i]) {
            longest = MR_MAX(longest, c->seen[i].longest_ns);
            longest = MR_MAX(longest, now - c->seen[i].last_ns); /* the one that has not ended */
        }
    return longest;
}

static void await_steps(const crowd *c, int64_t steps)
{
    for (int i = 0; i < c->n; i++)
        while (c->pid[i] && c->seen[i].steps < steps) {
            MR_CHECK(!c->seen[i].failed);
            mr_sleep_ns(5000000);
        }
}

/* A pause that comes of the death would come every time: each of three kills is measured beside the time before it, and the
 * best of them counts, since a loaded machine makes pauses of its own. */
MR_TEST(downpour_fault_a_killed_replica_pauses_no_other)
{
    mr_test_deadline(120);
    crowd c = gather(5, pour_for_ever);
    servers v = serve(2, 2);
    int64_t best_ms = INT64_MAX;
    tell(&c, mr_ps_manager_address(v.manager), "");
    await_steps(&c, 30);
    for (int victim = 4; victim >= 2; victim--) {
        int64_t before = longest_gap(&c, 1500000000);
        kill_one(&c, victim);
        int64_t after = longest_gap(&c, 1500000000); /* a lost worker is noticed within, by whoever would wait for it */
        best_ms = MR_MIN(best_ms, (after - before) / 1000000);
        for (int i = 0; i < victim; i++)
            MR_CHECK(!c.seen[i].failed);
    }
    if (best_ms >= 100)
        mr_test_fail(__FILE__, __LINE__, "a death paused others for %lld ms", (long long)best_ms);
    int64_t steps = c.seen[0].steps;
    await_steps(&c, steps + 20); /* and they still train */
    disperse(&c);
    stop(&v);
}

/* ---- servers ---- */

typedef struct pourer {
    mr_ps *ps;
    mr_thread thread;
    _Atomic int64_t steps;
    _Atomic bool enough;
    double before, after;
} pourer;

static void pour(void *arg)
{
    pourer *x = arg;
    small_model r = small_build(4);
    mr_downpour *d = mr_downpour_new(r.m, r.loss, &(mr_downpour_options){sizeof(mr_downpour_options), .most_behind = 5});
    small_open(&r, NULL);
    mr_downpour_start(d, r.session, x->ps, r.status);
    CHECK_STATUS(r.status);
    x->before = small_loss(&r);
    for (int64_t k = 0; !x->enough; k++, x->steps++) {
        TF_Tensor *in[2];
        small_batch(k * 5, 5, in);
        mr_downpour_train(d, r.in, in, 2, NULL, NULL, 0, r.status);
        CHECK_STATUS(r.status);
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
    }
    mr_downpour_finish(d, r.status);
    CHECK_STATUS(r.status);
    mr_downpour_stats stats = {sizeof stats};
    mr_downpour_fetch(d, r.status);
    CHECK_STATUS(r.status);
    mr_downpour_get_stats(d, &stats);
    MR_CHECK_INT(stats.steps, x->steps);
    x->after = small_loss(&r);
    mr_downpour_free(d);
    small_close(&r);
}

static void await_more(const pourer *x, int64_t more)
{
    for (int64_t from = x->steps; x->steps < from + more;)
        mr_sleep_ns(2000000);
}

MR_TEST(downpour_fault_a_lost_server_is_ridden_out)
{
    mr_test_deadline(120);
    servers v = serve(3, 2);
    pourer x = {.ps = v.ps};
    MR_CHECK_INT(mr_thread_start(&x.thread, "replica", pour, &x), 0);
    await_more(&x, 60);
    mr_ps_server_free(v.s[1]); /* without leaving */
    v.s[1] = NULL;
    await_more(&x, 60);
    x.enough = true;
    mr_thread_join(&x.thread);
    MR_CHECK(x.after < 0.7 * x.before);
    stop(&v);
}

static void read_held(void *owner, void *arg)
{
    *(size_t *)arg = ((mr_ps_server *)owner)->store.used;
}

MR_TEST(downpour_ten_servers_hold_a_tenth_each)
{
    mr_test_deadline(120);
    servers v = serve(10, 1);
    small_model r = small_build(3000); /* a large matrix, a smaller one, and two small vectors */
    mr_downpour *d = mr_downpour_new(r.m, r.loss, &(mr_downpour_options){sizeof(mr_downpour_options)});
    small_open(&r, NULL);
    mr_downpour_start(d, r.session, v.ps, r.status);
    CHECK_STATUS(r.status);
    mr_downpour_finish(d, r.status);
    size_t bytes[10], total = 0;
    for (int i = 0; i < 10; i++) {
        mr_ps_inbox_ask(&v.s[i]->inbox, read_held, &bytes[i]);
        total += bytes[i];
    }
    MR_CHECK(total >= (size_t)mr_parameter_count(r.m) * 8); /* values, and Adagrad's sums beside them */
    double range = (double)total / 240 * 1.05; /* and what a range of a hundred keys differs from another */
    for (int i = 0; i < 10; i++)
        MR_CHECK_NEAR((double)bytes[i], (double)total / 10, range);
    mr_downpour_free(d);
    small_close(&r);
    stop(&v);
}

/* ---- Sandblaster ---- */

static void read_portion(void *arg, int64_t portion, int64_t portions, TF_Tensor **in, double *weight, TF_Status *status)
{
    (void)status;
    int64_t first = SMALL_EXAMPLES * portion / portions, n = SMALL_EXAMPLES * (portion + 1) / portions - first;
    small_batch(first, n, in);
    *weight = (double)n / SMALL_EXAMPLES;
    mr_sleep_ns(1000000); /* so that a kill finds it at work */
    note_step(arg);
}

static void blast_for_ever(int i, const place *p, seen *s)
{
    (void)i;
    small_model r = small_build(0);
    mr_sandblaster_replica *b = mr_sandblaster_replica_new(r.m, r.loss, r.in, 2);
    small_open(&r, NULL);
    mr_ps *ps = connect_to(p->manager, r.status);
    mr_sandblaster_replica_work(b, r.session, ps,
                                &(mr_sandblaster_work){sizeof(mr_sandblaster_work), .coordinator = p->coordinator,
                                                       .portion = read_portion, .arg = s},
                                r.status);
}

enum { DEATHS = 4 };

typedef struct killer {
    crowd *c;
    mr_thread thread;
    _Atomic bool over; /* the training ended first */
    int deaths;
} killer;

/* One after the other, each when it has computed some portions: so it dies while it computes another, or flushes. */
static void kill_some(void *arg)
{
    killer *k = arg;
    for (int i = 0; i < DEATHS; i++) {
        while (k->c->seen[i].steps < 8 * (i + 1) && !k->over)
            mr_sleep_ns(200000);
        if (k->over)
            return;
        mr_sleep_ns(i * 700000); /* at another point of its work each time */
        kill_one(k->c, i);
        k->deaths++;
    }
}

static void await_count(mr_sandblaster *s, mr_sandblaster_stats *stats, const int64_t *what, int64_t n)
{
    stats->struct_size = sizeof *stats;
    for (mr_sandblaster_get_stats(s, stats); *what < n; mr_sandblaster_get_stats(s, stats))
        mr_sleep_ns(1000000);
}

/* With n processes, of which the first are killed on the way. */
static double blast(int n, bool deaths, mr_sandblaster_stats *stats)
{
    crowd c = gather(n, blast_for_ever);
    servers v = serve(2, 2);
    killer k = {.c = &c};
    mr_sandblaster_options o = {.struct_size = sizeof o, .portions = 24, .l2 = 0.01};
    mr_sandblaster *s = mr_sandblaster_start(&o, v.ps, v.status);
    CHECK_STATUS(v.status);
    tell(&c, mr_ps_manager_address(v.manager), mr_sandblaster_address(s));
    await_count(s, stats, &stats->joined, n);
    if (deaths)
        MR_CHECK_INT(mr_thread_start(&k.thread, "killer", kill_some, &k), 0);
    double loss = mr_sandblaster_minimize(s, v.status);
    CHECK_STATUS(v.status);
    k.over = true;
    if (deaths)
        mr_thread_join(&k.thread);
    MR_CHECK(!deaths || k.deaths > 1); /* or it shows nothing */
    await_count(s, stats, &stats->lost, k.deaths);
    mr_sandblaster_free(s);
    disperse(&c);
    stop(&v);
    return loss;
}

static void blast_as_child(int n, bool deaths, double *loss, mr_sandblaster_stats *stats)
{
    /* Each in a process of its own, since one forks before it has threads. */
    pid_t pid = fork();
    if (pid == 0) {
        *loss = blast(n, deaths, stats);
        _exit(0);
    }
    int code;
    MR_CHECK_INT(waitpid(pid, &code, 0), pid);
    MR_CHECK(WIFEXITED(code) && WEXITSTATUS(code) == 0);
}

MR_TEST(sandblaster_fault_killed_processes_change_nothing)
{
    mr_test_deadline(180);
    struct shared {
        double loss[2];
        mr_sandblaster_stats stats[2];
    } *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MR_CHECK(shared != MAP_FAILED);
    blast_as_child(1, false, &shared->loss[0], &shared->stats[0]);
    blast_as_child(6, true, &shared->loss[1], &shared->stats[1]);
    MR_CHECK_NEAR(shared->loss[1], shared->loss[0], 1e-6 * shared->loss[0]);
}
