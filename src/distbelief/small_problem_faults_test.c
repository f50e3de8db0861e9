/* distbelief/small_problem_faults_test.c -- replicas as processes, killed in the middle; servers that are lost while replicas train.
 *
 * Processes are forked before the test has threads; each waits on a pipe for where the parameter servers are. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "distbelief/small_problem_fixture.h"
#include "millrace/front_end.h"
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
    _Atomic int64_t steps;
    _Atomic int64_t longest_ns; /* that it stood still within a step, since the parent set it to zero */
    _Atomic int window;         /* raised by the parent then */
    _Atomic int failed;
} seen;

typedef struct place { /* what a process is told */
    char manager[64], coordinator[64];
} place;

typedef struct crowd {
    int n;
    pid_t pid[MOST]; /* 0: killed */
    bool frozen[MOST];
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

/* ---- time that passes for want of a processor ---- */

enum { MOST_THREADS = 256 };

typedef struct threads { /* of some processes: what the system says of each */
    int fds[MOST_THREADS];
    int n;
} threads;

static void forget_threads(threads *t)
{
    while (t->n > 0)
        close(t->fds[--t->n]);
}

static void add_threads(threads *t, pid_t pid)
{
    char path[80];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && t->n < MOST_THREADS && (e = readdir(d));) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)pid, e->d_name);
        int fd = e->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            t->fds[t->n++] = fd;
    }
    if (d)
        closedir(d);
}

/* Nanoseconds that they computed, or could have but for others that did. */
static int64_t busy_ns(const threads *t)
{
    int64_t sum = 0;
    for (int i = 0; i < t->n; i++) {
        char text[64];
        long long ran = 0, queued = 0;
        ssize_t n = pread(t->fds[i], text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        if (sscanf(text, "%lld %lld", &ran, &queued) == 2)
            sum += ran + queued;
    }
    return sum;
}

/* ---- Downpour ---- */

typedef struct pourer_process {
    small_model r;
    mr_downpour *d;
    threads busy; /* this process and that of the servers */
    int window;
} pourer_process;

static void train_once(pourer_process *x, int64_t first)
{
    TF_Tensor *in[2];
    small_batch(first, 5, in);
    mr_downpour_train(x->d, x->r.in, in, 2, NULL, NULL, 0, x->r.status);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
}

/* What is left of a step's time when all is taken off that this process and the servers computed or queued for a processor:
 * then everybody whom it could wait for slept, or was somebody else.  A loaded machine makes steps longer, but not this. */
static void train_and_note(pourer_process *x, int64_t first, seen *s)
{
    if (x->window != s->window) {
        forget_threads(&x->busy);
        add_threads(&x->busy, getppid());
        add_threads(&x->busy, getpid());
        x->window = s->window;
    }
    int64_t busy = busy_ns(&x->busy), begin = mr_now_ns();
    train_once(x, first);
    int64_t still = mr_now_ns() - begin - (busy_ns(&x->busy) - busy);
    if (still > s->longest_ns)
        s->longest_ns = still;
    s->steps++;
}

static void pour_for_ever(int i, const place *p, seen *s)
{
    pourer_process x = {.r = small_build(4)};
    x.d = mr_downpour_new(x.r.m, x.r.loss, &(mr_downpour_options){sizeof(mr_downpour_options), .replica = i});
    small_open(&x.r, NULL);
    mr_ps *ps = connect_to(p->manager, x.r.status);
    mr_downpour_start(x.d, x.r.session, ps, x.r.status);
    for (int64_t k = 0; TF_GetCode(x.r.status) == TF_OK; k++) {
        train_and_note(&x, i * 100 + k * 5, s);
        mr_sleep_ns(2000000); /* leaves the machine to the others */
    }
    fprintf(stderr, "replica %d: %s\n", i, TF_Message(x.r.status));
    s->failed = 1;
}

/* Until each that is left has made so many more. */
static void await_steps(const crowd *c, int64_t more)
{
    int64_t from[MOST];
    for (int i = 0; i < c->n; i++)
        from[i] = c->seen[i].steps;
    for (int i = 0; i < c->n; i++)
        while (c->pid[i] && !c->frozen[i] && c->seen[i].steps < from[i] + more) {
            MR_CHECK(!c->seen[i].failed);
            mr_sleep_ns(2000000);
        }
}

static void begin_window(const crowd *c)
{
    for (int i = 0; i < c->n; i++)
        c->seen[i].window++;
    await_steps(c, 2); /* the one that is being made, and the first that sees the new window */
    for (int i = 0; i < c->n; i++)
        c->seen[i].longest_ns = 0;
}

static void check_none_stood_still(const crowd *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->pid[i] && c->seen[i].longest_ns >= 100000000)
            mr_test_fail(__FILE__, __LINE__, "a death paused replica %d for %lld ms", i,
                         (long long)c->seen[i].longest_ns / 1000000);
}

/* Every kill counts.  A lost worker is noticed within the time that is looked at, by whoever would wait for it; and the step
 * that is being made when it is over still counts. */
MR_TEST(downpour_fault_a_killed_replica_pauses_no_other)
{
    mr_test_deadline(120);
    crowd c = gather(6, pour_for_ever);
    servers v = serve(2, 2);
    tell(&c, mr_ps_manager_address(v.manager), "");
    await_steps(&c, 30);
    for (int victim = 5; victim >= 2; victim--) {
        begin_window(&c);
        mr_sleep_ns(victim * 700000); /* at another point of its step each time */
        kill_one(&c, victim);
        mr_sleep_ns(1000000000);
        await_steps(&c, 2);
        check_none_stood_still(&c);
    }
    await_steps(&c, 20); /* and they still train */
    disperse(&c);
    stop(&v);
}

/* One that stands still keeps its connections, and nobody can tell that it is gone: whoever waited for it would wait for
 * ever.  No clock decides here. */
MR_TEST(downpour_fault_a_frozen_replica_stops_no_other)
{
    mr_test_deadline(120);
    crowd c = gather(6, pour_for_ever);
    servers v = serve(2, 2);
    tell(&c, mr_ps_manager_address(v.manager), "");
    await_steps(&c, 30);
    for (int victim = 5; victim >= 1; victim--) {
        mr_sleep_ns(victim * 700000);
        kill(c.pid[victim], SIGSTOP);
        c.frozen[victim] = true;
        await_steps(&c, 100);
    }
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

/* ---- cancelling ---- */

typedef struct hold { /* on a server's thread: it answers nobody */
    mr_ps_server *server;
    mr_thread thread;
    _Atomic bool holds, enough;
} hold;

static void hold_on(void *owner, void *arg)
{
    (void)owner;
    hold *h = arg;
    for (h->holds = true; !h->enough;)
        mr_sleep_ns(1000000);
}

static void hold_server(void *arg) { mr_ps_inbox_ask(&((hold *)arg)->server->inbox, hold_on, arg); }

typedef struct patient {
    mr_ps *ps;
    mr_interrupter *interrupter;
    mr_thread thread;
    _Atomic int64_t steps;
    _Atomic int code; /* that ended the training */
    _Atomic bool go_on;
} patient;

static void pour_until_cancelled(void *arg)
{
    patient *x = arg;
    pourer_process r = {.r = small_build(4)};
    r.d = mr_downpour_new(r.r.m, r.r.loss, &(mr_downpour_options){sizeof(mr_downpour_options), .most_behind = 2});
    small_open(&r.r, NULL);
    mr_downpour_start(r.d, r.r.session, x->ps, r.r.status);
    CHECK_STATUS(r.r.status);
    mr_run_under(x->interrupter);
    for (; TF_GetCode(r.r.status) == TF_OK; x->steps++)
        train_once(&r, x->steps * 5);
    x->code = TF_GetCode(r.r.status);
    mr_run_under(NULL);
    while (!x->go_on)
        mr_sleep_ns(1000000);
    for (int i = 0; i < 10; i++) {
        train_once(&r, i * 5);
        CHECK_STATUS(r.r.status);
    }
    mr_downpour_finish(r.d, r.r.status);
    CHECK_STATUS(r.r.status);
    mr_downpour_free(r.d);
    small_close(&r.r);
}

/* A server that says nothing, and is not taken for lost: the wait for it ends when it is cancelled, and is taken up again. */
MR_TEST(downpour_fault_a_wait_for_servers_can_be_cancelled)
{
    mr_test_deadline(50);
    servers v = {.n = 1, .status = TF_NewStatus()};
    v.manager = mr_ps_manager_start(&(mr_ps_manager_options){sizeof(mr_ps_manager_options), .replicas = 1, .servers = 1,
                                                             .lost_ms = 1000000}, v.status);
    v.s[0] = mr_ps_server_start(
        &(mr_ps_server_options){sizeof(mr_ps_server_options), .manager = mr_ps_manager_address(v.manager)}, v.status);
    CHECK_STATUS(v.status);
    v.ps = connect_to(mr_ps_manager_address(v.manager), v.status);
    patient x = {.ps = v.ps, .interrupter = mr_interrupter_new()};
    hold h = {.server = v.s[0]};
    MR_CHECK_INT(mr_thread_start(&x.thread, "replica", pour_until_cancelled, &x), 0);
    while (x.steps < 10)
        mr_sleep_ns(2000000);
    MR_CHECK_INT(mr_thread_start(&h.thread, "holds", hold_server, &h), 0);
    for (int64_t last = -1; !h.holds || x.steps != last; mr_sleep_ns(200000000))
        last = x.steps; /* until it waits */
    mr_interrupter_fire(x.interrupter);
    while (!x.code)
        mr_sleep_ns(1000000);
    MR_CHECK_INT(x.code, TF_CANCELLED);
    h.enough = x.go_on = true;
    mr_thread_join(&h.thread);
    mr_thread_join(&x.thread);
    mr_interrupter_free(x.interrupter);
    stop(&v);
}

/* ---- shares ---- */

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
    ((seen *)arg)->steps++;
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
