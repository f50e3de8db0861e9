#include "tensor/allocator.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/thread.h"
#include "tensor/pages.h"
#include "tests/harness/test.h"

static mr_allocator_stats stats_of(mr_allocator *a)
{
    mr_allocator_stats s;
    mr_allocator_get_stats(a, &s);
    return s;
}

static void *get(mr_allocator *a, size_t bytes)
{
    void *p = a->alloc(a, bytes);
    MR_CHECK(p != NULL);
    return p;
}

/* Fills a block with what only its own address gives, so that an overlap shows. */
static void stamp(void *p, size_t bytes)
{
    memset(p, (int)((uintptr_t)p >> 6 & 0xff), bytes);
}

static bool stamped(const void *p, size_t bytes)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < bytes; i += i + 97 < bytes ? 97 : 1)
        if (b[i] != ((uintptr_t)p >> 6 & 0xff))
            return false;
    return true;
}

MR_TEST(allocator_aligns_every_size_to_64_bytes)
{
    mr_allocator *a = mr_cpu_allocator();
    for (size_t bytes = 0; bytes < 3 << 20; bytes += bytes / 5 + 1) {
        void *p = get(a, bytes);
        MR_CHECK((uintptr_t)p % 64 == 0);
        stamp(p, bytes);
        a->free(a, p, bytes);
    }
}

MR_TEST(allocator_blocks_never_overlap)
{
    enum { N = 400 };
    mr_allocator *a = mr_cpu_allocator();
    struct { void *p; size_t bytes; } held[N] = {0};
    for (int round = 0; round < 20000; round++) {
        int i = (int)(mr_test_random() % N);
        if (held[i].p) {
            MR_CHECK(stamped(held[i].p, held[i].bytes));
            a->free(a, held[i].p, held[i].bytes);
            held[i].p = NULL;
        } else { /* as many tiny as huge ones: the size has a random number of bits */
            held[i].bytes = mr_test_random() % ((size_t)1 << (1 + mr_test_random() % 20));
            held[i].p = get(a, held[i].bytes);
            stamp(held[i].p, held[i].bytes);
        }
    }
    for (int i = 0; i < N; i++) {
        MR_CHECK(!held[i].p || stamped(held[i].p, held[i].bytes));
        a->free(a, held[i].p, held[i].bytes);
    }
}

MR_TEST(allocator_refuses_absurd_sizes)
{
    mr_allocator *a = mr_cpu_allocator();
    MR_CHECK(a->alloc(a, SIZE_MAX) == NULL);
    MR_CHECK(a->alloc(a, SIZE_MAX - 4096) == NULL);
    MR_CHECK(a->alloc(a, (size_t)1 << 62) == NULL);
    MR_CHECK(a->alloc(a, (size_t)1 << 47) == NULL);
    MR_CHECK(a->alloc(a, mr_pages_limit() + 1) == NULL);
}

MR_TEST(allocator_counts_what_is_in_use)
{
    mr_allocator *a = mr_cpu_allocator();
    mr_allocator_stats before = stats_of(a);
    void *p = get(a, 1000), *q = get(a, 5000000);
    mr_allocator_stats s = stats_of(a);
    MR_CHECK_INT(s.in_use, before.in_use + 5001000);
    MR_CHECK_INT(s.n_allocs, before.n_allocs + 2);
    MR_CHECK(s.peak >= s.in_use);
    a->free(a, p, 1000);
    a->free(a, q, 5000000);
    s = stats_of(a);
    MR_CHECK_INT(s.in_use, before.in_use);
    MR_CHECK(s.peak >= before.in_use + 5001000);
    MR_CHECK_INT(s.limit, 0);
}

MR_TEST(allocator_fails_on_order)
{
    mr_allocator *a = mr_cpu_allocator();
    mr_memory_fail_after(1);
    MR_CHECK(a->alloc(a, 8) == NULL);
    void *p = get(a, 8);
    a->free(a, p, 8);
}

/* A step as a model makes it: some hundred blocks of all sizes, freed in another order. */
static void one_step(mr_allocator *a)
{
    enum { N = 200 };
    void *p[N];
    size_t bytes[N];
    for (int i = 0; i < N; i++) {
        bytes[i] = (size_t)(i + 1) * (size_t)(i + 1) * (i % 7 ? 13 : 301);
        p[i] = get(a, bytes[i]);
    }
    for (int i = 0; i < N; i++) {
        int k = i * 77 % N;
        a->free(a, p[k], bytes[k]);
    }
}

MR_TEST(allocator_maps_nothing_once_warm)
{
    mr_allocator *a = mr_cpu_allocator();
    one_step(a);
    size_t mapped = mr_pages_mapped();
    for (int i = 0; i < 200; i++)
        one_step(a);
    MR_CHECK_INT(mr_pages_mapped(), mapped);
}

MR_TEST(allocator_reuses_memory_of_changing_sizes)
{
    mr_allocator *a = mr_cpu_allocator();
    for (size_t mib = 1; mib < 200; mib++) { /* each larger than all before: pieces must join */
        void *p = get(a, mib << 20);
        a->free(a, p, mib << 20);
    }
    MR_CHECK(mr_pages_mapped() <= (size_t)800 << 20);
}

MR_TEST(allocator_trim_gives_everything_back)
{
    mr_allocator *a = mr_cpu_allocator();
    for (int i = 0; i < 3; i++) {
        one_step(a);
        mr_allocator_trim(a);
        MR_CHECK_INT(mr_pages_mapped(), 0);
    }
}

MR_TEST(allocator_trim_leaves_blocks_in_use_alone)
{
    enum { N = 3000 };
    mr_allocator *a = mr_cpu_allocator();
    static void *p[N];
    for (int i = 0; i < N; i++)
        stamp(p[i] = get(a, (size_t)(i % 50) * 99 + 8), (size_t)(i % 50) * 99 + 8);
    for (int i = 0; i < N; i++)
        if (i % 3)
            a->free(a, p[i], (size_t)(i % 50) * 99 + 8);
    mr_allocator_trim(a);
    one_step(a);
    for (int i = 0; i < N; i += 3) {
        MR_CHECK(stamped(p[i], (size_t)(i % 50) * 99 + 8));
        a->free(a, p[i], (size_t)(i % 50) * 99 + 8);
    }
    mr_allocator_trim(a);
    MR_CHECK_INT(mr_pages_mapped(), 0);
}

/* ---- threads ---- */

enum { N_THREADS = 4, N_MAIL = 64 };

typedef struct parcel {
    void *p;
    size_t bytes;
} parcel;

/* Blocks made by one thread and freed by another pass through here. */
static struct {
    mr_mutex mu;
    parcel mail[N_MAIL];
} post = {.mu = {PTHREAD_MUTEX_INITIALIZER}};

static void hammer(void *arg)
{
    mr_allocator *a = mr_cpu_allocator();
    uint64_t x = (uint64_t)(uintptr_t)arg * 2654435761u + 1;
    for (int i = 0; i < 20000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        parcel mine = {.bytes = (size_t)(x >> 33) % ((size_t)1 << (6 + (x >> 20) % 13))};
        mine.p = get(a, mine.bytes);
        stamp(mine.p, mine.bytes);
        parcel *box = &post.mail[(x >> 40) % N_MAIL];
        mr_lock(&post.mu);
        parcel other = *box;
        *box = mine;
        mr_unlock(&post.mu);
        MR_CHECK(!other.p || stamped(other.p, other.bytes));
        a->free(a, other.p, other.bytes);
    }
}

MR_TEST(allocator_blocks_may_be_freed_by_other_threads)
{
    mr_allocator *a = mr_cpu_allocator();
    int64_t before = stats_of(a).in_use;
    mr_thread t[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        MR_CHECK_INT(mr_thread_start(&t[i], "hammer", hammer, (void *)(uintptr_t)(i + 1)), 0);
    for (int i = 0; i < 50; i++) { /* neither may disturb those that work */
        mr_allocator_trim(a);
        stats_of(a);
    }
    for (int i = 0; i < N_THREADS; i++)
        mr_thread_join(&t[i]);
    for (int i = 0; i < N_MAIL; i++)
        a->free(a, post.mail[i].p, post.mail[i].bytes);
    MR_CHECK_INT(stats_of(a).in_use, before);
}

static void step_in_thread(void *arg) { one_step(arg); }

MR_TEST(allocator_takes_back_the_cache_of_a_thread_that_ends)
{
    mr_allocator *a = mr_cpu_allocator();
    mr_thread t;
    for (int i = 0; i < 30; i++) {
        MR_CHECK_INT(mr_thread_start(&t, "step", step_in_thread, a), 0);
        mr_thread_join(&t);
    }
    mr_allocator_trim(a); /* nothing is left behind in a cache that nobody owns */
    MR_CHECK_INT(mr_pages_mapped(), 0);
}

static void late_free(void *p) { mr_small_free(p, 100); }

static void *free_while_ending(void *arg)
{
    pthread_key_t *keys = arg; /* some destructors run before and some after the allocator's */
    for (int i = 0; i < 8; i++)
        pthread_setspecific(keys[i], mr_small_alloc(100));
    return NULL;
}

MR_TEST(allocator_serves_destructors_of_a_thread_that_ends)
{
    pthread_key_t keys[8];
    pthread_t t;
    for (int i = 0; i < 4; i++)
        MR_CHECK_INT(pthread_key_create(&keys[i], late_free), 0);
    mr_small_free(mr_small_alloc(100), 100); /* makes the allocator's key, between these */
    for (int i = 4; i < 8; i++)
        MR_CHECK_INT(pthread_key_create(&keys[i], late_free), 0);
    MR_CHECK_INT(pthread_create(&t, NULL, free_while_ending, keys), 0);
    MR_CHECK_INT(pthread_join(t, NULL), 0);
    mr_allocator_trim(mr_cpu_allocator());
    MR_CHECK_INT(mr_pages_mapped(), 0);
}

MR_TEST(small_blocks_are_theirs_alone)
{
    enum { N = 500 };
    char *p[N];
    for (int i = 0; i < N; i++)
        stamp(p[i] = mr_small_alloc((size_t)i), (size_t)i);
    for (int i = 0; i < N; i++) {
        MR_CHECK(stamped(p[i], (size_t)i));
        mr_small_free(p[i], (size_t)i);
    }
    mr_small_free(NULL, 8);
}

/* ---- budgets ---- */

MR_TEST(budget_stops_at_its_limit)
{
    mr_allocator *b = mr_budget_new(NULL, "small", 1000);
    void *p = get(b, 600);
    MR_CHECK(b->alloc(b, 401) == NULL);
    void *q = get(b, 400);
    b->free(b, p, 600);
    b->free(b, q, 400);
    mr_allocator_stats s = stats_of(b);
    MR_CHECK_INT(s.in_use, 0);
    MR_CHECK_INT(s.peak, 1000);
    MR_CHECK_INT(s.limit, 1000);
    MR_CHECK_INT(s.n_allocs, 2);
    MR_CHECK_STR(b->name, "small");
    mr_budget_free(b);
    mr_budget_free(NULL);
}

MR_TEST(budget_counts_nothing_for_what_it_could_not_give)
{
    mr_allocator *b = mr_budget_new(mr_cpu_allocator(), "any", 0);
    MR_CHECK(b->alloc(b, SIZE_MAX) == NULL);
    MR_CHECK(b->alloc(b, (size_t)1 << 62) == NULL);
    MR_CHECK_INT(stats_of(b).in_use, 0);
    MR_CHECK_INT(stats_of(b).n_allocs, 0);
    mr_budget_free(b);
}

MR_TEST(budget_lives_until_its_last_block_is_freed)
{
    mr_allocator *b = mr_budget_new(NULL, "early", 100);
    void *p = get(b, 100);
    mr_budget_free(b);
    b->free(b, p, 100); /* AddressSanitizer sees if b is gone, LeakSanitizer if it stays */
}

static void spend(void *arg)
{
    mr_allocator *b = arg;
    for (int i = 0; i < 5000; i++) {
        void *p = b->alloc(b, 300);
        MR_CHECK(stats_of(b).in_use <= 1000);
        if (p)
            b->free(b, p, 300);
    }
}

MR_TEST(budget_holds_against_many_threads)
{
    mr_allocator *b = mr_budget_new(NULL, "shared", 1000);
    mr_thread t[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        MR_CHECK_INT(mr_thread_start(&t[i], "spend", spend, b), 0);
    for (int i = 0; i < N_THREADS; i++)
        mr_thread_join(&t[i]);
    MR_CHECK_INT(stats_of(b).in_use, 0);
    MR_CHECK(stats_of(b).peak <= 1000);
    mr_budget_free(b);
}
