/* Groups that find each other, lose members and go on: members as threads, and as processes that are killed. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "group/group.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

enum { MOST = 8 };

static mr_group_config config(int rank, int size)
{
    return (mr_group_config){.name = "test", .transport = "shm", .rank = rank, .size = size, .folder = mr_test_dir(),
                             .join_ns = INT64_C(30000000000), .timeout_ns = INT64_C(30000000000)};
}

static mr_status *sum(mr_group *g, float *x, int64_t n)
{
    return mr_group_run(g, &(mr_group_work){.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = x, .out = x, .count = n});
}

/* ---- members as threads ---- */

typedef struct seat {
    mr_thread thread;
    mr_group_config c;
    void (*member)(mr_group *g, int number);
    int number;
} seat;

static void sit(void *arg)
{
    seat *s = arg;
    mr_group *g;
    MR_CHECK_OK(mr_group_open(&s->c, &g));
    s->member(g, s->number);
    mr_group_close(g);
}

static void together(int size, const mr_group_config *c, void (*member)(mr_group *g, int number))
{
    seat seats[MOST];
    mr_test_deadline(90);
    mr_test_dir();
    for (int i = 0; i < size; i++) {
        seats[i] = (seat){.c = c ? *c : config(i, size), .member = member, .number = i};
        seats[i].c.rank = i;
        MR_CHECK_INT(mr_thread_start(&seats[i].thread, "member", sit, &seats[i]), 0);
    }
    for (int i = 0; i < size; i++)
        mr_thread_join(&seats[i].thread);
}

static void add_up(mr_group *g, int number)
{
    float x[3] = {1, (float)number, 2};
    MR_CHECK_INT(mr_group_own_rank(g), number);
    MR_CHECK_INT(mr_group_n_members(g), 3);
    MR_CHECK_INT(mr_group_number(g), 1);
    MR_CHECK_OK(sum(g, x, 3));
    MR_CHECK_NEAR(x[0], 3, 0);
    MR_CHECK_NEAR(x[1], 3, 0);
    MR_CHECK_OK(mr_group_run(g, &(mr_group_work){.kind = MR_GROUP_BARRIER}));
}

MR_TEST(group_members_of_a_host_find_each_other) { together(3, NULL, add_up); }

static char addresses[3][64];
static const char *const address_list[] = {addresses[0], addresses[1], addresses[2]};

static int free_port(char address[64])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MR_CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    snprintf(address, 64, "127.0.0.1:%d", ntohs(a.sin_port));
    return fd;
}

static mr_group_config grpc_config(void)
{
    mr_group_config c = config(0, 3);
    c.transport = "grpc";
    c.addresses = address_list;
    c.n_addresses = 3;
    int fds[3];
    for (int i = 0; i < 3; i++) /* ports that were free just now, all of them at once */
        fds[i] = free_port(addresses[i]);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    return c;
}

MR_TEST(group_members_find_each_other_by_address)
{
    mr_group_config c = grpc_config();
    together(3, &c, add_up);
}

/* Until n members have come here: so that one can leave after all have done something. */
static void all_are_here(int n)
{
    static _Atomic int here;
    atomic_fetch_add(&here, 1);
    while (atomic_load(&here) < n)
        mr_sleep_ns(1000000);
}

static void leave_and_go_on(mr_group *g, int number)
{
    float x[1] = {1};
    MR_CHECK_OK(sum(g, x, 1));
    all_are_here(3);
    if (number == 1)
        return;
    MR_CHECK_ERR(sum(g, x, 1), MR_ABORTED, "member 1 has left");
    MR_CHECK_ERR(sum(g, x, 1), MR_ABORTED, "member 1"); /* nothing works before the group is formed again */
    MR_CHECK_OK(mr_group_form(g));
    MR_CHECK_INT(mr_group_number(g), 2);
    MR_CHECK_INT(mr_group_n_members(g), 2);
    MR_CHECK_INT(mr_group_own_rank(g), number == 0 ? 0 : 1);
    x[0] = 5;
    MR_CHECK_OK(sum(g, x, 1));
    MR_CHECK_NEAR(x[0], 10, 0);
}

MR_TEST(group_goes_on_without_a_member_that_leaves) { together(3, NULL, leave_and_go_on); }

MR_TEST(group_goes_on_over_grpc_without_a_member_that_leaves)
{
    mr_group_config c = grpc_config();
    together(3, &c, leave_and_go_on);
}

static void first_leaves(mr_group *g, int number)
{
    float x[1] = {1};
    MR_CHECK_OK(sum(g, x, 1));
    all_are_here(3);
    if (number == 0)
        return;
    mr_status *st = sum(g, x, 1);
    MR_CHECK_INT(mr_status_code(st), MR_ABORTED);
    mr_status_free(st);
    MR_CHECK_OK(mr_group_form(g));
    MR_CHECK_INT(mr_group_n_members(g), 2);
    MR_CHECK_INT(mr_group_own_rank(g), number - 1);
    x[0] = 5;
    MR_CHECK_OK(sum(g, x, 1));
    MR_CHECK_NEAR(x[0], 10, 0);
}

MR_TEST(group_goes_on_when_its_first_member_leaves) { together(3, NULL, first_leaves); }

MR_TEST(group_goes_on_over_grpc_when_its_first_member_leaves)
{
    mr_group_config c = grpc_config();
    together(3, &c, first_leaves);
}

static void newcomer(void *arg)
{
    mr_group *g;
    float x[1] = {1};
    mr_group_config c = config(-1, 2);
    (void)arg;
    MR_CHECK_OK(mr_group_open(&c, &g));
    MR_CHECK_INT(mr_group_n_members(g), 3);
    MR_CHECK_INT(mr_group_own_rank(g), 2);
    MR_CHECK_OK(sum(g, x, 1));
    MR_CHECK_NEAR(x[0], 3, 0);
    mr_group_close(g);
}

static void let_in(mr_group *g, int number)
{
    static mr_thread thread;
    float x[1] = {1};
    if (number == 0)
        MR_CHECK_INT(mr_thread_start(&thread, "new", newcomer, NULL), 0);
    for (float wanted = 0; wanted == 0;) { /* all see at the same operation that somebody waits */
        wanted = mr_group_is_wanted(g);
        MR_CHECK_OK(sum(g, &wanted, 1));
        mr_sleep_ns(1000000);
    }
    MR_CHECK_OK(mr_group_form(g));
    MR_CHECK_INT(mr_group_n_members(g), 3);
    MR_CHECK_OK(sum(g, x, 1));
    MR_CHECK_NEAR(x[0], 3, 0);
    if (number == 0)
        mr_thread_join(&thread);
}

MR_TEST(group_lets_new_members_in_when_it_is_formed_anew) { together(2, NULL, let_in); }

/* Over gRPC: member 0, which kept the roster, leaves and comes again at its address. */
static void comes_again(mr_group *g, int number)
{
    float x[1] = {1};
    MR_CHECK_OK(sum(g, x, 1));
    all_are_here(3);
    if (number == 0) {
        mr_group_config c = config(0, 3);
        c.transport = "grpc";
        c.addresses = address_list;
        c.n_addresses = 3;
        mr_group_close(g);
        MR_CHECK_OK(mr_group_open(&c, &g));
        MR_CHECK_INT(mr_group_own_rank(g), 2);
    } else {
        mr_status *st = sum(g, x, 1);
        MR_CHECK_INT(mr_status_code(st), MR_ABORTED);
        mr_status_free(st);
        while (mr_group_n_members(g) < 3 || mr_group_number(g) < 2) { /* it may come in between, or later */
            MR_CHECK_OK(mr_group_form(g));
            for (bool over = false; !over && mr_group_n_members(g) == 2;) {
                float wanted = mr_group_is_wanted(g);
                st = sum(g, &wanted, 1);
                over = st || wanted > 0;
                mr_status_free(st);
                mr_sleep_ns(1000000);
            }
        }
    }
    x[0] = 1;
    MR_CHECK_OK(sum(g, x, 1));
    MR_CHECK_NEAR(x[0], 3, 0);
    if (number == 0)
        mr_group_close(g);
}

static void comes_again_and_closes(void *arg)
{
    seat *s = arg;
    mr_group *g;
    MR_CHECK_OK(mr_group_open(&s->c, &g));
    comes_again(g, s->number);
    if (s->number != 0)
        mr_group_close(g);
}

MR_TEST(group_lets_a_first_member_in_that_comes_again)
{
    seat seats[3];
    mr_test_deadline(90);
    mr_group_config c = grpc_config();
    for (int i = 0; i < 3; i++) {
        seats[i] = (seat){.c = c, .number = i};
        seats[i].c.rank = i;
        MR_CHECK_INT(mr_thread_start(&seats[i].thread, "member", comes_again_and_closes, &seats[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        mr_thread_join(&seats[i].thread);
}

static void in_shared_memory(mr_group *g, int number)
{
    enum { N = 100000 };
    float *x = mr_group_memory(g, N * sizeof(float)), *plain = mr_new_array(float, N);
    MR_CHECK(x != NULL);
    for (int round = 0; round < 3; round++) {
        float *use = round == 1 && number == 2 ? plain : x; /* one that is not shared: all go the other way */
        for (int i = 0; i < N; i++)
            use[i] = (float)(i % 100 + number);
        MR_CHECK_OK(sum(g, use + 7, N - 7));
        for (int i = 7; i < N; i++)
            MR_CHECK_NEAR(use[i], 3 * (i % 100) + 3, 0);
        MR_CHECK_NEAR(use[6], 6 + number, 0);
    }
    mr_free(plain);
    MR_CHECK_OK(mr_group_run(g, &(mr_group_work){.kind = MR_GROUP_BARRIER}));
    mr_group_memory_free(g, x);
}

MR_TEST(group_shared_buffers_are_reduced_in_place) { together(3, NULL, in_shared_memory); }

/* Shared memory that this process has mapped, as the kernel counts it. */
static int n_mappings(void)
{
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    MR_CHECK(f != NULL);
    while (fgets(line, sizeof(line), f))
        n += strstr(line, " rw-s ") != NULL;
    fclose(f);
    return n;
}

static void in_new_memory_each_time(mr_group *g, int number)
{
    enum { N = 5000, ROUNDS = 30 };
    float *stays = mr_group_memory(g, N * sizeof(float));
    int before = 0;
    for (int round = 0; round < ROUNDS; round++) {
        float *x = mr_group_memory(g, N * sizeof(float));
        MR_CHECK(x != NULL);
        x[0] = stays[0] = 1;
        MR_CHECK_OK(sum(g, x, N));
        MR_CHECK_NEAR(x[0], 2, 0);
        MR_CHECK_OK(sum(g, stays, N));
        mr_group_memory_free(g, x);
        MR_CHECK_OK(mr_group_run(g, &(mr_group_work){.kind = MR_GROUP_BARRIER}));
        if (number == 0 && round == 2)
            before = n_mappings();
    }
    if (number == 0)
        MR_CHECK(n_mappings() <= before + 4); /* the other one may have begun or ended its last round */
    MR_CHECK_OK(mr_group_run(g, &(mr_group_work){.kind = MR_GROUP_BARRIER}));
    mr_group_memory_free(g, stays);
}

MR_TEST(group_shared_buffers_that_are_released_are_not_kept_by_others) { together(2, NULL, in_new_memory_each_time); }

MR_TEST(group_sweeps_what_killed_members_leave_behind)
{
    mr_group *g;
    mr_group_config c = config(0, 1);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    MR_CHECK(snprintf(a.sun_path, sizeof(a.sun_path), "%s/test.0123456789abcdef", mr_test_dir()) < (int)sizeof(a.sun_path));
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    MR_CHECK_INT(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
    close(s);
    MR_CHECK_OK(mr_group_open(&c, &g));
    MR_CHECK(access(a.sun_path, F_OK) != 0);
    mr_group_close(g);
}

MR_TEST(group_waits_for_its_members_until_the_deadline)
{
    mr_group *g;
    mr_group_config c = config(0, 2);
    c.join_ns = 100000000;
    MR_CHECK_ERR(mr_group_open(&c, &g), MR_DEADLINE_EXCEEDED, "did not come");
}

MR_TEST(group_refuses_a_rank_that_is_taken)
{
    mr_group *g;
    mr_group_config c = config(0, 2);
    c.join_ns = INT64_C(1000000000);
    if (fork() == 0) {
        mr_group_open(&c, &g);
        _exit(0);
    }
    mr_sleep_ns(300000000);
    mr_status *st = mr_group_open(&c, &g); /* or the other one, when it came later */
    MR_CHECK(mr_status_code(st) == MR_ALREADY_EXISTS || mr_status_code(st) == MR_DEADLINE_EXCEEDED);
    mr_status_free(st);
    wait(NULL);
}

MR_TEST(group_refuses_names_that_are_paths)
{
    mr_group *g;
    mr_group_config c = config(0, 1);
    c.name = "../x";
    MR_CHECK_ERR(mr_group_open(&c, &g), MR_INVALID_ARGUMENT, "invalid name");
    c.name = "x";
    c.transport = "pigeons";
    MR_CHECK_ERR(mr_group_open(&c, &g), MR_INVALID_ARGUMENT, "pigeons");
}

/* ---- fusion ---- */

typedef struct pending {
    mr_mutex mu;
    mr_cond changed;
    int n_done;
    mr_status *st;
} pending;

static void one_done(void *arg, mr_status *st)
{
    pending *p = arg;
    mr_lock(&p->mu);
    p->n_done++;
    mr_status_update(&p->st, st);
    mr_cond_broadcast(&p->changed);
    mr_unlock(&p->mu);
}

static void pending_wait(pending *p, int n)
{
    mr_lock(&p->mu);
    while (p->n_done < n)
        mr_cond_wait(&p->changed, &p->mu);
    mr_unlock(&p->mu);
}

static void pending_init(pending *p)
{
    *p = (pending){0};
    mr_mutex_init(&p->mu);
    mr_cond_init(&p->changed);
}

static mr_status *begin(mr_group *g, pending *p, const char *name, float *x, int64_t n)
{
    return mr_group_begin(g, &(mr_group_request){.work = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = x, .out = x, .count = n},
                                                 .name = name, .done = one_done, .arg = p});
}

/* Each begins them in an order of its own; between them it also does something else. */
static void in_any_order(mr_group *g, int number)
{
    enum { N = 300, SIZE = 11 };
    static const int steps[] = {1, 7, 299};
    float(*x)[SIZE] = mr_calloc(N, sizeof(*x)), y[1] = {1};
    char name[32];
    pending p;
    pending_init(&p);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < SIZE; j++)
            x[i][j] = (float)(i + j);
    for (int i = 0, k = number; i < N; i++, k = (k + steps[number]) % N) {
        snprintf(name, sizeof(name), "tensor %d", k);
        MR_CHECK_OK(begin(g, &p, name, x[k], SIZE));
        if (i == N / 2)
            MR_CHECK_OK(sum(g, y, 1));
    }
    pending_wait(&p, N);
    MR_CHECK_OK(p.st);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < SIZE; j++)
            MR_CHECK_NEAR(x[i][j], 3 * (i + j), 0);
    mr_free(x);
}

MR_TEST(group_fusion_members_may_begin_in_any_order) { together(3, NULL, in_any_order); }

MR_TEST(group_fusion_over_grpc)
{
    mr_group_config c = grpc_config();
    together(3, &c, in_any_order);
}

static void form_often(void *arg)
{
    for (int i = 0; i < 20; i++)
        MR_CHECK_OK(mr_group_form(arg));
}

/* Fusion must not be at work on what somebody is about to free: memory checkers would see it. */
static void form_and_fuse(mr_group *g, int number)
{
    enum { N = 200 };
    mr_thread threads[2];
    pending p;
    float x[4] = {1, 1, 1, 1};
    (void)number;
    pending_init(&p);
    for (int i = 0; i < 2; i++)
        MR_CHECK_INT(mr_thread_start(&threads[i], "form", form_often, g), 0);
    for (int i = 0; i < N; i++) {
        MR_CHECK_OK(begin(g, &p, "x", x, 4));
        pending_wait(&p, i + 1);
    }
    for (int i = 0; i < 2; i++)
        mr_thread_join(&threads[i]);
    if (p.st)
        MR_CHECK_ERR(p.st, MR_ABORTED, "formed again");
    p.st = NULL;
    MR_CHECK_OK(begin(g, &p, "x", x, 4));
    pending_wait(&p, N + 1);
    MR_CHECK_OK(p.st);
}

MR_TEST(group_fusion_rests_while_two_threads_form_the_group) { together(1, NULL, form_and_fuse); }

static void disagree(mr_group *g, int number)
{
    float x[4] = {0}, y[2] = {1, 1};
    pending p, q;
    pending_init(&p);
    pending_init(&q);
    MR_CHECK_OK(begin(g, &p, "x", x, 3 + (number == 1)));
    MR_CHECK_OK(begin(g, &q, "y", y, 2));
    MR_CHECK_ERR(begin(g, &q, "y", y, 2), MR_ALREADY_EXISTS, "'y' was begun already");
    pending_wait(&p, 1);
    pending_wait(&q, 1);
    MR_CHECK_ERR(p.st, MR_INVALID_ARGUMENT, "disagree about the count, type or merge of 'x'");
    MR_CHECK_OK(q.st);
    MR_CHECK_NEAR(y[1], 2, 0);
}

MR_TEST(group_fusion_members_that_disagree_find_out) { together(2, NULL, disagree); }

static void large_and_small(mr_group *g, int number)
{
    enum { LARGE = 3000000 };
    float *x = mr_new_array(float, LARGE), y[5] = {1, 1, 1, 1, 1};
    pending p;
    (void)number;
    pending_init(&p);
    for (int i = 0; i < LARGE; i++)
        x[i] = (float)(i % 7);
    MR_CHECK_OK(begin(g, &p, "y", y, 5));
    MR_CHECK_OK(begin(g, &p, "x", x, LARGE));
    pending_wait(&p, 2);
    MR_CHECK_OK(p.st);
    MR_CHECK_NEAR(x[LARGE - 1], 2 * ((LARGE - 1) % 7), 0);
    MR_CHECK_NEAR(y[4], 2, 0);
    mr_free(x);
}

MR_TEST(group_fusion_takes_tensors_larger_than_its_buffer)
{
    mr_group_config c = config(0, 2);
    c.fusion_bytes = 1 << 20;
    together(2, &c, large_and_small);
}

static void leave_in_the_middle(mr_group *g, int number)
{
    float x[2] = {1, 1}, y[1] = {1};
    pending p;
    pending_init(&p);
    MR_CHECK_OK(sum(g, y, 1));
    all_are_here(3);
    if (number == 1)
        return;
    MR_CHECK_OK(begin(g, &p, "x", x, 2));
    pending_wait(&p, 1);
    MR_CHECK_ERR(p.st, MR_ABORTED, "member 1 has left");
    MR_CHECK_OK(mr_group_form(g));
    pending_init(&p);
    MR_CHECK_OK(begin(g, &p, "x", x, 2));
    pending_wait(&p, 1);
    MR_CHECK_OK(p.st);
    MR_CHECK_NEAR(x[0], 2, 0);
}

MR_TEST(group_fusion_ends_with_its_generation_and_begins_with_the_next) { together(3, NULL, leave_in_the_middle); }

/* ---- kill -9 ---- */

typedef struct board { /* seen by all processes of a test */
    _Atomic int rounds[MOST];
    _Atomic int64_t killed_ns, formed_ns[MOST];
    _Atomic bool good[MOST];
} board;

/* All-reduces until it has gone on for a while after somebody was lost. */
static void live(board *b, int number, int size, const mr_group_config *c)
{
    mr_group *g;
    enum { N = 200000 };
    float *x = mr_new_array(float, N);
    MR_CHECK_OK(mr_group_open(c, &g));
    for (int after = 0; after < 20;) {
        for (int i = 0; i < N; i++)
            x[i] = 1;
        mr_status *st = sum(g, x, N);
        if (st) {
            MR_CHECK_INT(mr_status_code(st), MR_ABORTED);
            mr_status_free(st);
            MR_CHECK_OK(mr_group_form(g));
            atomic_store(&b->formed_ns[number], mr_now_ns());
            MR_CHECK_INT(mr_group_n_members(g), size - 1);
            continue;
        }
        MR_CHECK_NEAR(x[N - 1], mr_group_n_members(g), 0);
        atomic_fetch_add(&b->rounds[number], 1);
        after += mr_group_n_members(g) < size;
    }
    atomic_store(&b->good[number], true);
    mr_group_close(g);
    _exit(0);
}

static void kill_one(int victim, mr_group_config c)
{
    enum { SIZE = 4 };
    pid_t pids[SIZE];
    board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mr_test_deadline(90);
    for (int i = 0; i < SIZE; i++) {
        c.rank = i;
        c.size = SIZE;
        if ((pids[i] = fork()) == 0)
            live(b, i, SIZE, &c);
    }
    while (atomic_load(&b->rounds[victim]) < 5)
        mr_sleep_ns(1000000);
    kill(pids[victim], SIGKILL);
    atomic_store(&b->killed_ns, mr_now_ns());
    for (int i = 0; i < SIZE; i++)
        waitpid(pids[i], NULL, 0);
    for (int i = 0; i < SIZE; i++) {
        if (i == victim)
            continue;
        MR_CHECK(atomic_load(&b->good[i]));
        int64_t took = atomic_load(&b->formed_ns[i]) - atomic_load(&b->killed_ns);
        MR_CHECK(took < INT64_C(10000000000)); /* some ms, were nobody else here: bench/all_reduce.c measures it */
    }
}

MR_TEST(group_goes_on_after_kill_9_of_a_member) { kill_one(2, config(0, 4)); }
MR_TEST(group_goes_on_after_kill_9_of_its_roster_server)
{
    /* The roster server is one of the four: so all are tried. */
    for (int i = 0; i < 4; i++) {
        char name[16];
        mr_group_config c = config(0, 4);
        snprintf(name, sizeof(name), "test%d", i);
        c.name = name;
        kill_one(i, c);
    }
}

/* ---- silence ---- */

/* Stops before the second operation, when all have done the first; the others stay until all of them have seen what comes of it. */
static void live_with_silence(board *b, int number, int size, int victim, const mr_group_config *c)
{
    enum { N = 200000 };
    char text[32];
    mr_group *g;
    float *x = mr_new_array(float, N);
    snprintf(text, sizeof(text), "member %d of %d", victim, size);
    MR_CHECK_OK(mr_group_open(c, &g));
    MR_CHECK_OK(sum(g, x, N));
    atomic_fetch_add(&b->rounds[1], 1);
    while (atomic_load(&b->rounds[1]) < size)
        mr_sleep_ns(1000000);
    if (number == victim)
        raise(SIGSTOP); /* for ever */
    while (!atomic_load(&b->killed_ns))
        mr_sleep_ns(1000000);
    MR_CHECK_ERR(sum(g, x, N), MR_DEADLINE_EXCEEDED, text);
    atomic_store(&b->good[number], true);
    atomic_fetch_add(&b->rounds[0], 1);
    while (atomic_load(&b->rounds[0]) < size - 1)
        mr_sleep_ns(1000000);
    _exit(0);
}

static void stop_one(int victim, mr_group_config c)
{
    enum { SIZE = 3 };
    pid_t pids[SIZE];
    int status;
    board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mr_test_deadline(90);
    c.size = SIZE;
    c.timeout_ns = INT64_C(3000000000);
    for (int i = 0; i < SIZE; i++) {
        c.rank = i;
        if ((pids[i] = fork()) == 0)
            live_with_silence(b, i, SIZE, victim, &c);
    }
    MR_CHECK_INT(waitpid(pids[victim], &status, WUNTRACED), pids[victim]);
    MR_CHECK(WIFSTOPPED(status));
    atomic_store(&b->killed_ns, mr_now_ns());
    for (int i = 0; i < SIZE; i++)
        if (i != victim) {
            waitpid(pids[i], &status, 0);
            MR_CHECK(WIFEXITED(status) && atomic_load(&b->good[i]));
        }
    kill(pids[victim], SIGKILL);
    waitpid(pids[victim], NULL, 0);
}

MR_TEST(group_names_a_member_that_is_stopped) { stop_one(2, config(0, 3)); }
MR_TEST(group_names_a_first_member_that_is_stopped) { stop_one(0, config(0, 3)); }
MR_TEST(group_names_a_member_that_is_stopped_over_grpc) { stop_one(2, grpc_config()); }

/* ---- long waits ---- */

#define SHORT_NS INT64_C(5000000)

MR_TEST(group_logs_a_long_wait_for_members)
{
    mr_group *g;
    mr_group_config c = config(0, 2);
    c.join_ns = 100 * SHORT_NS;
    mr_test_log_begin(SHORT_NS);
    MR_CHECK_ERR(mr_group_open(&c, &g), MR_DEADLINE_EXCEEDED, "waited for members that did not come");
    MR_CHECK(mr_test_log_count("Still waiting for the other members of group 'test': fewer than 2 have joined") > 1);
    mr_test_log_end();
}

MR_TEST(group_logs_a_long_wait_for_the_roster_server_of_the_roster)
{
    mr_group *g;
    mr_group_config c = grpc_config();
    c.rank = 1; /* the first one is not there */
    c.join_ns = 200 * SHORT_NS;
    mr_test_log_begin(SHORT_NS);
    mr_status *st = mr_group_open(&c, &g);
    MR_CHECK_INT(mr_status_code(st), MR_DEADLINE_EXCEEDED);
    mr_status_free(st);
    MR_CHECK(mr_test_log_count("Still waiting for the other members of group 'test': the process with the roster does not "
                               "answer (") > 1);
    mr_test_log_end();
}

/* The others wait for the last one until they have said so. */
static void come_late(mr_group *g, int number)
{
    float x[1] = {1};
    if (number == 2)
        mr_test_log_wait("Still waiting for member 2 of 3 of the group: it has sent nothing", 1);
    MR_CHECK_OK(sum(g, x, 1));
}

static void come_late_on_a_host(mr_group *g, int number)
{
    float x[1] = {1};
    if (number == 2)
        mr_test_log_wait("Still waiting for member 2 of 3 of the group on this host: it has neither sent nor received "
                         "data (", 1);
    MR_CHECK_OK(sum(g, x, 1));
}

/* Each begins at first what the other one has not begun. */
static void begin_other_things(mr_group *g, int number)
{
    float x[1] = {1}, y[1] = {1};
    pending p;
    pending_init(&p);
    MR_CHECK_OK(begin(g, &p, number ? "b" : "a", x, 1));
    mr_test_log_wait("Still waiting for member 1 of 2 of group 'test': it has not begun 'a' (", 2);
    mr_test_log_wait("Still waiting for member 0 of 2 of group 'test': it has not begun 'b' (", 2);
    MR_CHECK_OK(begin(g, &p, number ? "a" : "b", y, 1));
    pending_wait(&p, 2);
    MR_CHECK_OK(p.st);
}

MR_TEST(group_fusion_logs_a_long_wait_for_a_member)
{
    mr_test_log_begin(SHORT_NS);
    together(2, NULL, begin_other_things);
    mr_test_log_end();
}

MR_TEST(group_logs_a_long_wait_for_a_member_on_its_host)
{
    mr_test_log_begin(SHORT_NS);
    together(3, NULL, come_late_on_a_host);
    mr_test_log_end();
}

MR_TEST(group_logs_a_long_wait_for_a_member_in_a_collective)
{
    mr_group_config c = grpc_config();
    mr_test_log_begin(SHORT_NS);
    together(3, &c, come_late);
    mr_test_log_end();
}
