/* tests/fuzz/checkpoint_v1.c -- checkpoints of the first format: their entries are changed as messages, in tables with
 * correct checksums. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "proto/saved_model.pb-c.h"
#include "store/checkpoint_v1.h"
#include "store/table.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"
#include "tests/fuzz/table_file.h"

enum { OPENED, TENSORS, N_COUNTS, MEMORY_LIMIT = 4 << 20, MOST_READ = 12 };

static mr_str seed;

/* ---- a file to start from ---- */

static void add(mr_v1_writer *w, const char *name, mr_tensor *t)
{
    mr_shape full = {.rank = t->rank};
    mr_slice all;
    for (int i = 0; i < t->rank; i++)
        full.dims[i] = t->dims[i];
    mr_slice_all(&all, t->rank);
    fuzz_must(mr_v1_add(w, mr_sv_of(name), &full, &all, t), name);
    mr_tensor_unref(t);
}

static void add_parts(mr_v1_writer *w)
{
    mr_shape full = {2, {4, 3}};
    for (int i = 0; i < 2; i++) {
        mr_slice s = {.rank = 2, .start = {2 * i, 0}, .length = {2, MR_SLICE_ALL}};
        mr_tensor *t = mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 4, 5, 6});
        fuzz_must(mr_v1_add(w, MR_SV("parts"), &full, &s, t), "a part");
        mr_tensor_unref(t);
    }
}

static void prepare(void)
{
    char path[] = "/tmp/millrace-fuzz-XXXXXX";
    static const char *const words[] = {"", "a", "a longer string than others are here"};
    mr_v1_writer *w;
    int fd = seed.p ? -1 : mkstemp(path);
    if (seed.p)
        return;
    close(fd);
    fuzz_must(mr_v1_writer_new(path, &w), path);
    add(w, "f", mr_tensor_of(MR_FLOAT, 1, (int64_t[]){3}, (float[]){1, 2, 3}));
    add(w, "i", mr_tensor_scalar_i64(-7));
    add(w, "s", mr_tensor_vector_str(3, words));
    add(w, "b", mr_tensor_scalar_bool(true));
    add(w, "c", mr_tensor_of(MR_COMPLEX64, 0, NULL, (float[]){1, 2}));
    add(w, "empty", mr_tensor_of(MR_INT32, 1, (int64_t[]){0}, NULL));
    add_parts(w);
    fuzz_must(mr_v1_finish(w), path);
    mr_v1_writer_free(w);
    fuzz_must(mr_file_read_all(path, &seed), path);
    unlink(path);
}

/* ---- changes ---- */

static void change(fuzz_rng *r, fuzz_entry *e, const fuzz_entry *donor)
{
    fuzz_tree t, other;
    fuzz_tree_parse(&t, &tensorflow__saved_tensor_slices__descriptor, mr_str_view(&e->value));
    fuzz_tree_parse(&other, &tensorflow__saved_tensor_slices__descriptor, mr_str_view(&donor->value));
    fuzz_tree_change(r, &t, &other, NULL);
    mr_str_clear(&e->value);
    fuzz_tree_write(&t, &e->value);
    fuzz_tree_deinit(&other);
    fuzz_tree_deinit(&t);
}

static void read_seed(fuzz_entries *out)
{
    mr_table t;
    fuzz_must(mr_table_parse(mr_str_view(&seed), "seed", &t), "seed");
    for (int i = 0; i < t.n; i++) {
        fuzz_entry e = {0};
        mr_str_append(&e.key, t.entries[i].key.p, t.entries[i].key.n);
        mr_str_append(&e.value, t.entries[i].value.p, t.entries[i].value.n);
        mr_vec_push(out, e);
    }
    mr_table_deinit(&t);
}

static void mutate(fuzz_rng *r, mr_str *out)
{
    fuzz_entries e = {0};
    read_seed(&e);
    for (uint64_t k = fuzz_below(r, 4); k > 0; k--) {
        int at = fuzz_once_in(r, 2) ? 0 : (int)fuzz_below(r, (uint64_t)e.n);
        if (fuzz_once_in(r, 12))
            fuzz_damage(r, fuzz_once_in(r, 2) ? &e.p[at].key : &e.p[at].value);
        else
            change(r, &e.p[at], &e.p[fuzz_below(r, (uint64_t)e.n)]);
    }
    fuzz_table_write(r, &e, fuzz_once_in(r, 20) ? 3 : 0, out);
    fuzz_entries_deinit(&e);
}

/* ---- reading ---- */

static void any_slice(fuzz_rng *r, int rank, mr_slice *s)
{
    mr_slice_all(s, fuzz_once_in(r, 20) ? (int)fuzz_below(r, 4) : rank);
    for (int i = 0; i < s->rank; i++)
        if (fuzz_once_in(r, 2)) {
            s->start[i] = fuzz_once_in(r, 10) ? fuzz_odd_int(r) : fuzz_between(r, 0, 2);
            s->length[i] = fuzz_once_in(r, 10) ? fuzz_odd_int(r) : fuzz_between(r, 0, 3);
        }
}

static void read_tensors(fuzz_run *r, mr_v1_reader *v)
{
    mr_allocator *budget = mr_budget_new(NULL, "fuzz", MEMORY_LIMIT);
    for (int i = 0; i < MR_MIN(mr_v1_count(v), MOST_READ); i++) {
        mr_sv name = mr_v1_name(v, i);
        mr_dtype dtype;
        const mr_shape *shape;
        mr_slice s;
        mr_tensor *t = NULL;
        if (!mr_v1_lookup(v, name, &dtype, &shape))
            fuzz_fail("a listed tensor cannot be found");
        any_slice(&r->rng, shape->rank, &s);
        bool whole = fuzz_once_in(&r->rng, 2);
        mr_status *st = mr_v1_read(v, name, whole ? NULL : &s, budget, &t);
        fuzz_say(r, "%.*s: %s", MR_SV_ARG(name), mr_status_message(st));
        if (!st && ((mr_dtype)t->dtype != dtype || t->rank != shape->rank))
            fuzz_fail("a tensor does not have the listed type or rank");
        r->counts[TENSORS] += !st;
        mr_tensor_unref(st ? NULL : t);
        mr_status_free(st);
    }
    mr_status_free(mr_v1_read(v, MR_SV("no such"), NULL, budget, &(mr_tensor *){NULL}));
    mr_budget_free(budget);
}

/* Two files of the same tensors are one checkpoint. */
static void by_pattern(mr_sv bytes)
{
    mr_v1_reader *v;
    static const char *const paths[] = {"v1-0", "v1-1"};
    for (int i = 0; i < 2; i++) {
        mr_writer *w;
        mr_sv b = i ? mr_str_view(&seed) : bytes;
        fuzz_must(mr_writer_open(paths[i], &w), paths[i]);
        fuzz_must(mr_writer_write(w, b.p, b.n), paths[i]);
        fuzz_must(mr_writer_commit(w), paths[i]);
        mr_writer_free(w);
    }
    mr_status *st = mr_v1_open(MR_SV("v1-*"), &v);
    mr_v1_close(st ? NULL : v);
    mr_status_free(st);
    mr_status_free(mr_v1_open(MR_SV("v2-*"), &v));
}

static void try_bytes(fuzz_run *r, mr_sv bytes)
{
    mr_v1_reader *v;
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_v1_of_bytes(exact, "v1", &v);
    fuzz_say(r, "open: %s", mr_status_message(st));
    if (!st) {
        r->counts[OPENED]++;
        read_tensors(r, v);
        mr_v1_close(v);
    }
    mr_status_free(st);
    if (fuzz_once_in(&r->rng, 200))
        by_pattern(exact);
    mr_free((void *)(uintptr_t)exact.p);
}

static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_COUNTS; }

static void run(fuzz_run *r)
{
    mr_str bytes = {0};
    mutate(&r->rng, &bytes);
    fuzz_note(r, mr_str_view(&bytes));
    try_bytes(r, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"opened"};
    fprintf(out, "tensors %lld ", (long long)counts[TENSORS]);
    return fuzz_shares("checkpoint_v1", names, counts, 1, runs, 1, out, err);
}

const fuzz_target fuzz_checkpoint_v1 = {.name = "checkpoint_v1",
                                        .about = "checkpoints of the first format, changed",
                                        .prepare = prepare,
                                        .n_runs = n_runs,
                                        .n_counts = n_counts,
                                        .run = run,
                                        .replay = try_bytes,
                                        .summary = summary};
