/* base/thread_test.c -- threads, conditions, counting cores, and the clock. */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "tests/harness/test.h"

typedef struct shared {
    mr_mutex mu;
    mr_cond changed;
    int value MR_GUARDED_BY(mu);
    char name[32];
    sigset_t blocked;
} shared;

static void shared_init(shared *s)
{
    memset(s, 0, sizeof(*s));
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->changed);
}

static void shared_deinit(shared *s)
{
    mr_cond_deinit(&s->changed);
    mr_mutex_deinit(&s->mu);
}

static void set_value(void *arg)
{
    shared *s = arg;
    pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
    pthread_sigmask(SIG_BLOCK, NULL, &s->blocked);
    mr_lock(&s->mu);
    s->value = 1;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

MR_TEST(thread_runs_under_its_name_and_wakes_a_waiter)
{
    shared s;
    mr_thread t;
    shared_init(&s);
    MR_CHECK_INT(mr_thread_start(&t, "a name that is too long", set_value, &s), 0);
    mr_lock(&s.mu);
    while (s.value == 0)
        mr_cond_wait(&s.changed, &s.mu);
    mr_unlock(&s.mu);
    mr_thread_join(&t);
    MR_CHECK_STR(s.name, "a name that is ");
    shared_deinit(&s);
}

MR_TEST(thread_leaves_signals_to_the_host)
{
    shared s;
    mr_thread t;
    sigset_t mine;
    shared_init(&s);
    MR_CHECK_INT(mr_thread_start(&t, NULL, set_value, &s), 0);
    mr_thread_join(&t);
    pthread_sigmask(SIG_BLOCK, NULL, &mine);
    MR_CHECK(sigismember(&s.blocked, SIGINT) && sigismember(&s.blocked, SIGCHLD));
    MR_CHECK(!sigismember(&mine, SIGINT));
    shared_deinit(&s);
}

MR_TEST(cond_wait_until_returns_at_its_deadline)
{
    shared s;
    shared_init(&s);
    mr_lock(&s.mu);
    int64_t deadline = mr_now_ns() + 20000000;
    while (mr_cond_wait_until(&s.changed, &s.mu, deadline))
        ;
    MR_CHECK(mr_now_ns() >= deadline);
    MR_CHECK(!mr_cond_wait_until(&s.changed, &s.mu, -5)); /* long past */
    mr_unlock(&s.mu);
    shared_deinit(&s);
}

MR_TEST(refs_tell_the_last_owner)
{
    mr_refs r;
    mr_refs_init(&r);
    MR_CHECK(mr_refs_sole(&r));
    mr_refs_take(&r);
    MR_CHECK(!mr_refs_sole(&r));
    MR_CHECK(!mr_refs_drop(&r));
    MR_CHECK(mr_refs_drop(&r));
}

/* ---- cores ---- */

MR_TEST(cpu_count_is_cut_by_the_affinity_mask)
{
    cpu_set_t before, one;
    MR_CHECK_INT(sched_getaffinity(0, sizeof(before), &before), 0);
    MR_CHECK(mr_cpu_count() >= 1 && mr_cpu_count() <= CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    MR_CHECK_INT(sched_setaffinity(0, sizeof(one), &one), 0);
    MR_CHECK_INT(mr_cpu_count(), 1);
}

/* Writes DIR/path with its folders. */
static void put_file(const char *path, const char *text)
{
    char *full = mr_printf("%s/%s", mr_test_dir(), path);
    mr_sv dir = mr_path_dirname(full);
    char *dir_z = mr_strndup(dir.p, dir.n);
    mr_writer *w;
    MR_CHECK_OK(mr_dir_make(dir_z));
    MR_CHECK_OK(mr_writer_open(full, &w));
    MR_CHECK_OK(mr_writer_write(w, text, strlen(text)));
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    mr_free(dir_z);
    mr_free(full);
}

static int quota(void)
{
    char *root = mr_printf("%s/cgroup", mr_test_dir()), *self = mr_printf("%s/self", mr_test_dir());
    int n = mr_cpu_quota(root, self);
    mr_free(root);
    mr_free(self);
    return n;
}

MR_TEST(cpu_quota_of_cgroup_v2_is_the_least_on_the_way_up)
{
    put_file("self", "0::/a/b\n");
    put_file("cgroup/a/b/cpu.max", "max 100000\n");
    MR_CHECK_INT(quota(), INT32_MAX);
    put_file("cgroup/a/cpu.max", "350000 100000\n");
    MR_CHECK_INT(quota(), 4);
    put_file("cgroup/a/b/cpu.max", "200000 100000\n");
    MR_CHECK_INT(quota(), 2);
    put_file("cgroup/a/b/cpu.max", "50000 100000\n");
    MR_CHECK_INT(quota(), 1);
}

MR_TEST(cpu_quota_is_found_at_the_root_of_a_container)
{
    put_file("self", "0::/docker/0123456789abcdef\n"); /* the host's path, absent here */
    put_file("cgroup/cpu.max", "300000 100000\n");
    MR_CHECK_INT(quota(), 3);
}

MR_TEST(cpu_quota_of_cgroup_v1)
{
    put_file("self", "12:memory:/x\n4:cpu,cpuacct:/a\n2:cpuset:/\n0::/\n");
    put_file("cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    put_file("cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    MR_CHECK_INT(quota(), INT32_MAX);
    put_file("cgroup/cpu/a/cpu.cfs_quota_us", "150000\n");
    MR_CHECK_INT(quota(), 2);
}

MR_TEST(cpu_quota_ignores_what_it_cannot_read)
{
    MR_CHECK_INT(quota(), INT32_MAX); /* no such files */
    put_file("self", "\n:\n0\n0:\n0::\n0::/a\n7:cpu\n");
    put_file("cgroup/a/cpu.max", "no numbers");
    put_file("cgroup/cpu.max", "100000 0\n");
    MR_CHECK_INT(quota(), INT32_MAX);
    put_file("cgroup/cpu.max", "9223372036854775807 1\n");
    MR_CHECK_INT(quota(), INT32_MAX);
}

/* ---- the clock ---- */

MR_TEST(clock_sleep_lasts_at_least_as_long_as_asked)
{
    int64_t start = mr_now_ns();
    mr_sleep_ns(3000000);
    MR_CHECK(mr_now_ns() - start >= 3000000);
    mr_sleep_ns(0);
    mr_sleep_ns(INT64_MIN);
}

MR_TEST(clock_wall_time_is_after_2024_and_cpu_time_grows)
{
    MR_CHECK(mr_wall_us() > INT64_C(1704067200000000));
    int64_t start = mr_thread_cpu_ns();
    while (mr_thread_cpu_ns() == start)
        ;
    MR_CHECK(mr_thread_cpu_ns() > start);
}

MR_TEST(clock_random_numbers_differ)
{
    uint64_t a = mr_random64(), b = mr_random64();
    MR_CHECK(a != b);
}
