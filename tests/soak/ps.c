/* tests/soak/ps.c -- kill -9 of parameter servers while workers push: nothing acknowledged is lost, nothing counts twice.
 *
 *     ps [--kills N] [--seed S] [--judge 0] [--freeze 1]
 *
 * One process runs the manager, others are servers and workers. Workers push small integers to random keys, several
 * pushes at a time, and record in memory shared with this process what was begun and what was acknowledged. Servers are
 * killed and restarted, one after the other, each after all ranges have their copies again; sometimes a server joins or
 * leaves, and a worker joins, leaves or is killed too. With --freeze 1 servers are also stopped for longer than
 * allowed, which needs a machine on which the others keep running. At the end every key must hold everything that was
 * acknowledged, and each push that a killed worker had begun must count completely or not at all.
 *
 * The time of a recovery is the longest time, from the kill on, of a push that was in flight at the kill or begun soon
 * after it. With --judge 0 only the values are checked, not the time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "millrace/ps.h"

extern char **environ;

enum {
    KEYS = 3000,
    WIDTH = 2, /* an amount, and 1 */
    KEYS_A_PUSH = 60,
    UNDER_WAY = 4,
    SERVERS = 3,
    WORKERS = 3,
    MAX_PROCESSES = 4096,
    MAX_WORKERS = 512,
    MAX_KILLS = 4096,
};
#define MS INT64_C(1000000)
#define LOOK_NS (300 * MS) /* pushes begun within this time after a kill still belong to it */
#define HANG_NS (60000 * MS)
#define MUST_MS 1000.0

typedef struct ledger {                            /* a worker's */
    _Atomic uint32_t begun[KEYS], acked[KEYS];     /* amounts */
    _Atomic uint32_t begun_n[KEYS], acked_n[KEYS]; /* pushes */
    _Atomic int64_t pushes, failed;
} ledger;

typedef struct shared {
    _Atomic int kill; /* the latest one, from 1 on */
    _Atomic int64_t kill_ns[MAX_KILLS];
    _Atomic int64_t longest_ns[MAX_KILLS]; /* of all workers */
    _Atomic int stop[MAX_WORKERS];
    ledger workers[MAX_WORKERS];
} shared;

static shared *sh;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void die(const char *what, TF_Status *s)
{
    fprintf(stderr, "soak ps: %s: %s\n", what, s ? TF_Message(s) : strerror(errno));
    exit(2);
}

static void must(TF_Status *s, const char *what)
{
    if (TF_GetCode(s) != TF_OK)
        die(what, s);
}

static uint64_t rng_state;
static uint64_t rng(void)
{
    uint64_t z = (rng_state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static void map_shared(const char *path)
{
    int fd = open(path, O_RDWR);
    if (fd < 0)
        die(path, NULL);
    sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (sh == MAP_FAILED)
        die("mmap", NULL);
    close(fd);
}

static int table(mr_ps *ps, TF_Status *s)
{
    mr_ps_table_options o = {.struct_size = sizeof o, .num_keys = KEYS, .width = WIDTH, .update = MR_PS_ADD};
    int t = mr_ps_table(ps, "sum", &o, s);
    must(s, "table");
    return t;
}

static mr_ps *connect_to(const char *manager, TF_Status *s)
{
    mr_ps_options o = {
        .struct_size = sizeof o, .manager = manager, .observer = 1, .timeout_ms = HANG_NS / MS};
    mr_ps *ps = mr_ps_connect(&o, s);
    must(s, "connect");
    return ps;
}

/* ---- a server: until its standard input says "L" (leave) or ends ---- */

static int server(const char *manager)
{
    TF_Status *s = TF_NewStatus();
    mr_ps_server_options o = {.struct_size = sizeof o, .manager = manager};
    mr_ps_server *p = mr_ps_server_start(&o, s);
    must(s, "server");
    char word = 0;
    if (read(0, &word, 1) == 1 && word == 'L') {
        mr_ps_server_leave(p, s);
        must(s, "leave");
    }
    mr_ps_server_free(p);
    TF_DeleteStatus(s);
    return 0;
}

/* ---- a worker ---- */

typedef struct push { /* under way */
    mr_ps_task task;
    int64_t begun_ns;
    uint64_t keys[KEYS_A_PUSH];
    float values[KEYS_A_PUSH * WIDTH];
    int n;
} push;

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void begin(mr_ps *ps, int t, push *p, ledger *l, TF_Status *s)
{
    for (int i = 0; i < KEYS_A_PUSH; i++)
        p->keys[i] = rng() % KEYS;
    qsort(p->keys, KEYS_A_PUSH, sizeof *p->keys, by_key);
    p->n = 0;
    for (int i = 0; i < KEYS_A_PUSH; i++)
        if (p->n == 0 || p->keys[i] != p->keys[p->n - 1])
            p->keys[p->n++] = p->keys[i];
    for (int i = 0; i < p->n; i++) {
        uint32_t amount = 1 + (uint32_t)(rng() % 7);
        p->values[i * WIDTH] = (float)amount;
        p->values[i * WIDTH + 1] = 1;
        atomic_fetch_add(&l->begun[p->keys[i]], amount);
        atomic_fetch_add(&l->begun_n[p->keys[i]], 1);
    }
    p->begun_ns = now_ns();
    p->task = mr_ps_push(ps, t, p->keys, (size_t)p->n, p->values, NULL, s);
    must(s, "push");
}

static void note_time(const push *p)
{
    int64_t at = now_ns();
    int k = atomic_load(&sh->kill);
    int64_t killed = atomic_load(&sh->kill_ns[k]);
    if (k == 0 || at < killed || p->begun_ns > killed + LOOK_NS)
        return;
    int64_t took = at - (p->begun_ns > killed ? p->begun_ns : killed),
            longest = atomic_load(&sh->longest_ns[k]);
    while (took > longest && !atomic_compare_exchange_weak(&sh->longest_ns[k], &longest, took))
        ;
}

static void end(mr_ps *ps, push *p, ledger *l, TF_Status *s)
{
    if (!p->task)
        return;
    mr_ps_wait(ps, p->task, s);
    p->task = 0;
    if (TF_GetCode(s) != TF_OK) { /* it may or may not count */
        fprintf(stderr, "soak ps: a push failed: %s\n", TF_Message(s));
        atomic_fetch_add(&l->failed, 1);
        return;
    }
    note_time(p);
    for (int i = 0; i < p->n; i++) {
        atomic_fetch_add(&l->acked[p->keys[i]], (uint32_t)p->values[i * WIDTH]);
        atomic_fetch_add(&l->acked_n[p->keys[i]], 1);
    }
    atomic_fetch_add(&l->pushes, 1);
}

static int worker(const char *manager, int id, uint64_t seed)
{
    static push pushes[UNDER_WAY];
    TF_Status *s = TF_NewStatus();
    rng_state = seed;
    mr_ps *ps = connect_to(manager, s);
    int t = table(ps, s);
    ledger *l = &sh->workers[id];
    for (int i = 0; !atomic_load(&sh->stop[id]); i = (i + 1) % UNDER_WAY) {
        end(ps, &pushes[i], l, s);
        begin(ps, t, &pushes[i], l, s);
        if (i == 0)
            usleep(500); /* leaves CPU time for the servers */
    }
    for (int i = 0; i < UNDER_WAY; i++)
        end(ps, &pushes[i], l, s);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
    return 0;
}

/* ---- processes ---- */

typedef struct process {
    pid_t pid;
    int in; /* its standard input; -1: none */
} process;

static char self[4096];
static const char *shared_path, *manager_at;
static process servers[MAX_PROCESSES], workers[MAX_WORKERS];
static int n_servers, n_workers; /* workers are never removed from the list; their pid becomes 0 */

static process start(char *const argv[])
{
    process p = {.in = -1};
    int ends[2];
    posix_spawn_file_actions_t fa;
    if (pipe2(ends, O_CLOEXEC))
        die("pipe", NULL);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, ends[0], 0);
    int e = posix_spawn(&p.pid, self, &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    close(ends[0]);
    p.in = ends[1];
    if (e) {
        errno = e;
        die("spawn", NULL);
    }
    return p;
}

static void add_server(void)
{
    char *argv[] = {self, "server", (char *)(uintptr_t)manager_at, NULL};
    servers[n_servers++] = start(argv);
}

static void add_worker(void)
{
    char id[16], seed[32];
    if (n_workers >= MAX_WORKERS)
        return;
    snprintf(id, sizeof id, "%d", n_workers);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)rng());
    char *argv[] = {self, "worker", (char *)(uintptr_t)manager_at, (char *)(uintptr_t)shared_path, id,
                    seed, NULL};
    workers[n_workers++] = start(argv);
}

static void reap(process *p, const char *what, int killed)
{
    int status = 0;
    int64_t until = now_ns() + HANG_NS;
    while (waitpid(p->pid, &status, WNOHANG) == 0) {
        if (now_ns() > until) {
            fprintf(stderr, "soak ps: a %s hangs\n", what);
            exit(3);
        }
        usleep(2000);
    }
    close(p->in);
    p->pid = 0;
    if (!killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        fprintf(stderr, "soak ps: a %s ended with %x\n", what, status);
        exit(3);
    }
}

/* ---- the run ---- */

static void wait_settled(mr_ps *ps, int want, TF_Status *s)
{
    int64_t until = now_ns() + HANG_NS;
    mr_ps_stats st = {.struct_size = sizeof st};
    for (;;) {
        int done = mr_ps_settled(ps, s);
        must(s, "settled");
        mr_ps_get_stats(ps, &st);
        if (done && st.servers == want)
            return;
        if (now_ns() > until) {
            fprintf(stderr, "soak ps: ranges do not settle on %d servers, the view has %d\n", want, st.servers);
            exit(3);
        }
        usleep(3000);
    }
}

static int any_worker(void)
{
    int i = (int)(rng() % (uint64_t)n_workers);
    while (!workers[i].pid)
        i = (i + 1) % n_workers;
    return i;
}

static void remove_worker(int i, int killed)
{
    if (killed)
        kill(workers[i].pid, SIGKILL);
    else
        atomic_store(&sh->stop[i], 1);
    reap(&workers[i], "worker", killed);
}

static void kill_server(int k)
{
    int i = (int)(rng() % (uint64_t)n_servers);
    process p = servers[i];
    servers[i] = servers[--n_servers];
    usleep((useconds_t)(rng() % 20000));
    atomic_store(&sh->kill_ns[k], now_ns());
    atomic_store(&sh->kill, k);
    kill(p.pid, SIGKILL);
    reap(&p, "server", 1);
}

static int joins, leaves, freezes;

/* Servers and workers join and leave between kills. */
static void change_people(int k)
{
    if (k % 4 == 1 && n_servers < SERVERS + 2) {
        add_server();
        joins++;
    } else if (k % 4 == 3 && n_servers > SERVERS) {
        process p = servers[--n_servers];
        if (write(p.in, "L", 1) != 1)
            die("a word to a server", NULL);
        reap(&p, "server", 0);
        leaves++;
    }
    if (k % 5 == 2) {
        remove_worker(any_worker(), k % 2);
        add_worker();
        joins++;
        leaves++;
    }
}

/* Stops a server for longer than allowed: others take over, and it must do no harm when it continues. */
static void freeze_server(void)
{
    pid_t pid = servers[rng() % (uint64_t)n_servers].pid;
    kill(pid, SIGSTOP);
    usleep(1600000);
    kill(pid, SIGCONT);
    freezes++;
}

/* ---- judging ---- */

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Checks each key: both numbers must be between what was acknowledged and what was begun. */
static void count(const float *got, int *lost, int *doubled)
{
    for (int k = 0; k < KEYS; k++) {
        double least[2] = {0}, most[2] = {0};
        for (int w = 0; w < n_workers; w++) {
            least[0] += atomic_load(&sh->workers[w].acked[k]);
            most[0] += atomic_load(&sh->workers[w].begun[k]);
            least[1] += atomic_load(&sh->workers[w].acked_n[k]);
            most[1] += atomic_load(&sh->workers[w].begun_n[k]);
        }
        for (int j = 0; j < WIDTH; j++) {
            *lost += (double)got[k * WIDTH + j] < least[j];
            *doubled += (double)got[k * WIDTH + j] > most[j];
        }
    }
}

static int judge(mr_ps *ps, int t, int kills, int by_clock, TF_Status *s)
{
    static float got[KEYS * WIDTH];
    int lost = 0, doubled = 0;
    int64_t pushes = 0, failed = 0;
    mr_ps_task k = mr_ps_pull_range(ps, t, 0, KEYS, got, NULL, s);
    must(s, "pull");
    mr_ps_wait(ps, k, s);
    must(s, "pull");
    count(got, &lost, &doubled);
    for (int w = 0; w < n_workers; w++) {
        pushes += atomic_load(&sh->workers[w].pushes);
        failed += atomic_load(&sh->workers[w].failed);
    }
    int64_t times[MAX_KILLS];
    for (int i = 0; i < kills; i++)
        times[i] = atomic_load(&sh->longest_ns[i + 1]);
    qsort(times, (size_t)kills, sizeof *times, by_time);
    double p50 = (double)times[kills / 2] / 1e6, p99 = (double)times[kills * 99 / 100] / 1e6;
    printf("kills %d lost %d doubled %d recovery_p50_ms %.1f recovery_p99_ms %.1f joins %d leaves %d freezes "
           "%d pushes %lld failed %lld\n",
           kills, lost, doubled, p50, p99, joins, leaves, freezes, (long long)pushes, (long long)failed);
    return lost || doubled || failed || (by_clock && p99 >= MUST_MS);
}

static int run(int kills, uint64_t seed, int by_clock, int freeze)
{
    char path[] = "/tmp/millrace-soak-ps-XXXXXX";
    TF_Status *s = TF_NewStatus();
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, sizeof *sh))
        die("a file", NULL);
    close(fd);
    map_shared(path);
    shared_path = path;
    rng_state = seed;
    mr_ps_manager_options mo = {.struct_size = sizeof mo,
                                .replicas = 2,
                                .servers = SERVERS,
                                .lost_ms = freeze ? 1000 : 10000}; /* dead processes are noticed at once */
    mr_ps_manager *m = mr_ps_manager_start(&mo, s);
    must(s, "manager");
    manager_at = mr_ps_manager_address(m);
    for (int i = 0; i < SERVERS; i++)
        add_server();
    mr_ps *ps = connect_to(manager_at, s);
    int t = table(ps, s);
    for (int i = 0; i < WORKERS; i++)
        add_worker();
    wait_settled(ps, n_servers, s);
    usleep(300000);
    for (int k = 1; k <= kills; k++) {
        kill_server(k);
        add_server();
        wait_settled(ps, n_servers, s);
        if (freeze && k % 10 == 5)
            freeze_server();
        wait_settled(ps, n_servers, s);
        change_people(k);
        wait_settled(ps, n_servers, s);
    }
    for (int i = 0; i < n_workers; i++)
        if (workers[i].pid)
            remove_worker(i, 0);
    int bad = judge(ps, t, kills, by_clock, s);
    mr_ps_free(ps);
    while (n_servers > 0) {
        process p = servers[--n_servers];
        close(p.in);
        p.in = -1;
        reap(&p, "server", 0);
    }
    mr_ps_manager_free(m);
    TF_DeleteStatus(s);
    unlink(path);
    return bad;
}

int main(int argc, char **argv)
{
    int kills = 200, by_clock = 1, freeze = 0;
    uint64_t seed = 1;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        die("/proc/self/exe", NULL);
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        return server(argv[2]);
    if (argc == 6 && strcmp(argv[1], "worker") == 0) {
        map_shared(argv[3]);
        return worker(argv[2], atoi(argv[4]), strtoull(argv[5], NULL, 10));
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--kills") == 0)
            kills = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--judge") == 0)
            by_clock = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--freeze") == 0)
            freeze = atoi(argv[i + 1]);
    }
    if (kills < 1 || kills >= MAX_KILLS) {
        fprintf(stderr, "soak ps: --kills must be 1 to %d\n", MAX_KILLS - 1);
        return 2;
    }
    return run(kills, seed, by_clock, freeze);
}
