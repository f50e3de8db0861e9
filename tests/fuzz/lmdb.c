/* tests/fuzz/lmdb.c -- LMDB files, generated and damaged.
 *
 * A file has a few small pages: branches and leaves with plain, large and duplicate values, whose page numbers are
 * random, so that some form a valid tree and others a cycle. Then some bytes are damaged. The reader must end, after no
 * more records than the pages have room for. */
#include <fcntl.h>
#include <unistd.h>

#include "base/memory.h"
#include "store/lmdb.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

enum { OPENED, RECORDS, N_COUNTS, PAGE = 256, MOST_PAGES = 14 };

static void put(uint8_t *p, int bytes, uint64_t v)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void put_meta(fuzz_rng *r, uint8_t *page, uint64_t n_pages, uint64_t root)
{
    uint8_t *m = page + 16;
    put(page + 10, 2, 8);
    put(m, 4, 0xbeefc0de);
    put(m + 4, 4, 1);
    put(m + 24, 4, PAGE);
    put(m + 112, 8, root);
    put(m + 120, 8, n_pages - 1);
    put(m + 128, 8, fuzz_below(r, 3));
}

/* A page inside a leaf, of `bytes` bytes, whose keys are the duplicates. */
static void put_sub_page(fuzz_rng *r, uint8_t *p, size_t bytes)
{
    int n = (int)fuzz_below(r, 3);
    bool fixed = fuzz_once_in(r, 2);
    put(p + 8, 2, fixed ? 3 : 0);
    put(p + 10, 2, (fixed ? 32 : 0) | 2 | 64);
    put(p + 12, 2, 16 + 2 * (uint64_t)n);
    for (int i = 0; i < n && !fixed; i++) {
        size_t at = bytes - 10 * (size_t)(i + 1);
        put(p + 16 + 2 * i, 2, at);
        put(p + at + 6, 2, 2);
    }
}

/* A branch or a leaf: entries are added from the end of the page towards its beginning, their offsets from the
 * beginning on. */
static void put_entries(fuzz_rng *r, uint8_t *page, bool leaf, uint64_t n_pages)
{
    size_t at = PAGE;
    int n = (int)fuzz_between(r, leaf ? 0 : 1, 4);
    put(page + 10, 2, leaf ? 2 : 1);
    put(page + 12, 2, 16 + 2 * (uint64_t)n);
    for (int i = 0; i < n; i++) {
        int flags = leaf && fuzz_once_in(r, 3) ? (int)fuzz_below(r, 8) : 0;
        size_t key = fuzz_below(r, 6), data = !leaf ? 0 : flags & 1 ? 8 : flags & 4 ? 48 : fuzz_below(r, 9);
        uint64_t below = 2 + fuzz_below(r, n_pages);
        if (at < 16 + 2 * (size_t)n + 8 + key + data)
            break;
        at -= 8 + key + data;
        put(page + 16 + 2 * i, 2, at);
        put(page + at, 4, !leaf ? below : flags & 1 ? fuzz_below(r, 2 * PAGE) : data);
        put(page + at + 4, 2, (uint64_t)flags);
        put(page + at + 6, 2, key);
        memset(page + at + 8, 'k', key + data);
        uint8_t *d = page + at + 8 + key;
        if (data >= 8)
            put(d, 8, below);
        if (data == 48 && flags & 2)
            put(d + 40, 8, fuzz_once_in(r, 4) ? UINT64_MAX : below);
        else if (data == 48)
            put_sub_page(r, d, data);
    }
}

static void make(fuzz_rng *r, mr_str *out)
{
    uint64_t n = fuzz_between(r, 3, MOST_PAGES);
    uint8_t *all = mr_new_array(uint8_t, (int)n * PAGE);
    for (int i = 0; i < 2; i++)
        put_meta(r, all + i * PAGE, n, fuzz_once_in(r, 20) ? UINT64_MAX : 2 + fuzz_below(r, n - 2));
    for (uint64_t i = 2; i < n; i++)
        put_entries(r, all + i * PAGE, !fuzz_once_in(r, 3), n - 2);
    mr_str_append(out, all, (size_t)n * PAGE);
    mr_free(all);
    for (uint64_t k = fuzz_once_in(r, 3) ? 0 : fuzz_below(r, 4); k > 0; k--)
        fuzz_damage(r, out);
}

static void replay(fuzz_run *r, mr_sv input)
{
    mr_lmdb *l = NULL;
    mr_sv k, v;
    bool end = false;
    uint64_t n = 0, bytes = 0;
    int fd = open("l", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, input.p, input.n) != (ssize_t)input.n)
        fuzz_fail("cannot write l");
    close(fd);
    mr_status *st = mr_lmdb_open("l", &l);
    r->counts[OPENED] += !st;
    while (!st && !end) {
        st = mr_lmdb_next(l, &k, &v, &end);
        for (size_t i = 0; !st && !end && i < v.n; i++) /* all of it can be read */
            bytes += (uint8_t)v.p[i];
        if (!st && !end && ++n > input.n * (PAGE / 8))
            fuzz_fail("%llu records in %zu bytes", (unsigned long long)n, input.n);
    }
    r->counts[RECORDS] += n > 0;
    fuzz_say(r, "%llu records, %llu: %s", (unsigned long long)n, (unsigned long long)bytes, mr_status_message(st));
    mr_status_free(st);
    mr_lmdb_close(l);
}

static void run(fuzz_run *r)
{
    mr_str bytes = {0};
    make(&r->rng, &bytes);
    fuzz_note(r, mr_str_view(&bytes));
    replay(r, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
}

static int64_t n_runs(void) { return 400000; }
static int n_counts(void) { return N_COUNTS; }

static bool summary(const int64_t *counts, int64_t n, FILE *out, FILE *err)
{
    static const char *const names[] = {"opened", "with_records"};
    return fuzz_shares("lmdb", names, counts, N_COUNTS, n, 1, out, err);
}

const fuzz_target fuzz_lmdb = {"lmdb", "LMDB files, sound and damaged", NULL, n_runs, n_counts, run, replay, summary};
