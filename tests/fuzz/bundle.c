/* tests/fuzz/bundle.c -- mutated checkpoints: an index and a data file, opened and read.
 *
 * Checksums guard every block and tensor, so a damaged file is mostly rejected before anything else is read. Here the
 * checksums are corrected after most changes, and the entries of the index are changed as messages, so that their
 * contents are wrong, not their encoding. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "ops/table.h"
#include "proto/saved_model.pb-c.h"
#include "store/bundle_proto.h"
#include "store/checkpoint_state.h"
#include "store/table.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"
#include "tests/fuzz/table_file.h"
#include "tests/fuzz/values.h"
#include "wire/crc32c.h"
#include "wire/pb.h"

enum { MOST_BYTES = 64 << 10, MEMORY_LIMIT = 4 << 20, MIN_SHARE = 30, MOST_READ = 12 };
enum { OPENED, TENSORS_READ, N_COUNTS };
#define PREFIX "b"

typedef struct bundle_files {
    mr_str index, data;
} bundle_files;

static MR_VEC(bundle_files) corpus;

/* ---- bundles to start from ---- */

static void add_pair(const char *prefix)
{
    bundle_files f = {0};
    char *index = mr_bundle_index_path(prefix), *data = mr_bundle_data_path(prefix, 0, 1);
    mr_status *st = mr_file_read_all(index, &f.index);
    if (!st)
        st = mr_file_read_all(data, &f.data);
    if (!st && f.index.n < MOST_BYTES && f.data.n < MOST_BYTES) {
        mr_vec_push(&corpus, f);
    } else {
        mr_str_deinit(&f.index);
        mr_str_deinit(&f.data);
    }
    mr_status_free(st);
    mr_free(index);
    mr_free(data);
}

static void add_golden(const char *path)
{
    char *prefix = fuzz_golden(path);
    add_pair(prefix);
    mr_free(prefix);
}

static void add_tensor(mr_bundle_writer *w, const char *name, mr_tensor *t)
{
    fuzz_must(mr_bundle_add(w, mr_sv_of(name), t), name);
    mr_tensor_unref(t);
}

static void add_slices(mr_bundle_writer *w)
{
    mr_shape full = {2, {4, 3}};
    for (int i = 0; i < 2; i++) {
        mr_slice s = {.rank = 2, .start = {2 * i, 0}, .length = {2, MR_SLICE_ALL}};
        mr_tensor *part = mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 4, 5, 6});
        fuzz_must(mr_bundle_add_slice(w, MR_SV("sliced"), &full, &s, part), "slice");
        mr_tensor_unref(part);
    }
}

static void add_own(void)
{
    char folder[] = "/tmp/millrace-fuzz-XXXXXX";
    static const char *const words[] = {"", "a",
                                        "a string that is too long to be kept inside of itself"};
    mr_bundle_writer *w;
    if (!mkdtemp(folder))
        fuzz_fail("mkdtemp");
    char *prefix = mr_printf("%s/own", folder);
    fuzz_must(mr_bundle_writer_new(prefix, &w), prefix);
    add_tensor(w, "a/weights",
               mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 4, 5, 6}));
    add_tensor(w, "a/words", mr_tensor_vector_str(3, words));
    add_tensor(w, "a/wide", mr_tensor_of(MR_COMPLEX128, 0, NULL, &(mr_c128){1}));
    add_tensor(w, "b", mr_tensor_scalar_i64(7));
    add_tensor(w, "b/empty", mr_tensor_of(MR_INT32, 1, (int64_t[]){0}, NULL));
    add_tensor(w, "flag", mr_tensor_scalar_bool(true));
    add_slices(w);
    fuzz_must(mr_bundle_finish(w), prefix);
    mr_bundle_writer_free(w);
    add_pair(prefix);
    char *index = mr_bundle_index_path(prefix), *data = mr_bundle_data_path(prefix, 0, 1);
    mr_status_free(mr_file_remove(index));
    mr_status_free(mr_file_remove(data));
    mr_status_free(mr_dir_remove(folder));
    mr_free(index);
    mr_free(data);
    mr_free(prefix);
}

static void prepare(void)
{
    if (corpus.n)
        return;
    mr_ops_register();
    add_own();
    /* those of TensorFlow, or ours */
    add_golden("checkpoint/contrib_bundle/bundle_checkpoint");
    add_golden("checkpoint/half_plus_two_export/00000123/export");
    add_golden("checkpoint/old_string_tensors/foo");
    add_golden("checkpoint/tensorflex_iris/graph");
    add_golden("saved_model/VarsAndArithmeticObjectGraph/variables/variables");
    add_golden("checkpoint/types/model");
    add_golden("checkpoint/trained/model");
    add_golden("saved_model/object_graph/variables/variables");
}

static int64_t n_runs(void) { return 500000; }
static int n_counts(void) { return N_COUNTS; }

/* ---- changes ---- */

static void read_entries(const mr_str *index, fuzz_entries *out)
{
    mr_table t;
    fuzz_must(mr_table_parse(mr_str_view(index), "corpus", &t), "corpus");
    for (int i = 0; i < t.n; i++) {
        fuzz_entry e = {0};
        mr_str_append(&e.key, t.entries[i].key.p, t.entries[i].key.n);
        mr_str_append(&e.value, t.entries[i].value.p, t.entries[i].value.n);
        mr_vec_push(out, e);
    }
    mr_table_deinit(&t);
}

/* The value under "" is the header, every other one an entry. */
static void change_value(fuzz_rng *r, fuzz_entry *e, const fuzz_entry *donor)
{
    const ProtobufCMessageDescriptor *d = e->key.n ? &tensorflow__bundle_entry_proto__descriptor
                                                   : &tensorflow__bundle_header_proto__descriptor;
    fuzz_tree t, other;
    fuzz_tree_parse(&t, d, mr_str_view(&e->value));
    fuzz_tree_parse(&other, d, mr_str_view(&donor->value));
    fuzz_tree_change(r, &t, &other, NULL);
    mr_str_clear(&e->value);
    fuzz_tree_write(&t, &e->value);
    fuzz_tree_deinit(&other);
    fuzz_tree_deinit(&t);
}

static void change_entries(fuzz_rng *r, fuzz_entries *e)
{
    int at = (int)fuzz_below(r, (uint64_t)e->n), other = (int)fuzz_below(r, (uint64_t)e->n);
    fuzz_entry held;
    switch (e->n < 2 ? 9 : (int)fuzz_below(r, 12)) {
    case 0: /* one is lost */
        if (e->p[at].key.n == 0)
            break;
        mr_str_deinit(&e->p[at].key);
        mr_str_deinit(&e->p[at].value);
        for (int i = at; i + 1 < e->n; i++)
            e->p[i] = e->p[i + 1];
        e->n--;
        break;
    case 1: /* out of order */
        if (!fuzz_once_in(r, 4))
            break;
        held = e->p[at];
        e->p[at] = e->p[other];
        e->p[other] = held;
        break;
    case 2: fuzz_damage(r, &e->p[at].key); break;
    case 3: fuzz_damage(r, &e->p[at].value); break;
    default:
        /* The header holds the version: it is changed less often. */
        change_value(r, &e->p[at ? at : fuzz_once_in(r, 6) ? 0 : other], &e->p[other]);
    }
}

static int by_key(const void *a, const void *b)
{
    return mr_bytes_compare(mr_str_view(&((const fuzz_entry *)a)->key),
                            mr_str_view(&((const fuzz_entry *)b)->key));
}

/* The checksum of an entry for its current bytes in the data file. */
static void repair_checksum(fuzz_entry *e, const mr_str *data)
{
    enum { OFFSET = 4, SIZE = 5, CRC = 6 };
    fuzz_tree t;
    uint64_t offset = 0, size = 0;
    fuzz_item *crc = NULL;
    fuzz_tree_parse(&t, &tensorflow__bundle_entry_proto__descriptor, mr_str_view(&e->value));
    for (fuzz_item *i = t.root.child; i; i = i->next) {
        offset = i->number == OFFSET ? i->v : offset;
        size = i->number == SIZE ? i->v : size;
        crc = i->number == CRC && i->wire == MR_WIRE_FIXED32 ? i : crc;
    }
    if (crc && offset <= data->n && size <= data->n - offset) {
        crc->v = mr_crc32c_mask(mr_crc32c(data->p + offset, (size_t)size));
        mr_str_clear(&e->value);
        fuzz_tree_write(&t, &e->value);
    }
    fuzz_tree_deinit(&t);
}

/* Changes the index entry by entry, and sometimes the data file. */
static void mutate_entries(fuzz_rng *r, const bundle_files *from, bundle_files *out)
{
    fuzz_entries e = {0};
    read_entries(&from->index, &e);
    bool data = fuzz_once_in(r, 3);
    for (uint64_t k = data ? 1 + fuzz_below(r, 3) : 0; k > 0; k--)
        fuzz_damage(r, &out->data);
    for (uint64_t k = fuzz_below(r, 4) + !data; k > 0; k--)
        change_entries(r, &e);
    for (int i = 0; i < e.n; i++)
        if (e.p[i].key.n > 0 && !fuzz_once_in(r, 5))
            repair_checksum(&e.p[i], &out->data);
    if (!fuzz_once_in(r, 10))
        qsort(e.p, (size_t)e.n, sizeof(*e.p), by_key);
    fuzz_table_write(r, &e, fuzz_once_in(r, 3) ? 2 : 0, &out->index);
    fuzz_entries_deinit(&e);
}

static void mutate(fuzz_rng *r, bundle_files *out)
{
    const bundle_files *from = &corpus.p[fuzz_below(r, (uint64_t)corpus.n)];
    if (fuzz_once_in(r, 2)) /* our own has everything */
        from = &corpus.p[0];
    mr_str_append(&out->data, from->data.p, from->data.n);
    if (!fuzz_once_in(r, 4)) {
        mutate_entries(r, from, out);
        return;
    }
    mr_str_append(&out->index, from->index.p, from->index.n);
    for (uint64_t k = 1 + fuzz_below(r, 3); k > 0; k--)
        fuzz_damage(r, &out->index);
    if (!fuzz_once_in(r, 3))
        fuzz_table_repair(&out->index);
}

/* ---- reading ---- */

static void write_file(const char *path, const mr_str *bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, mr_str_z(bytes), bytes->n) != (ssize_t)bytes->n)
        fuzz_fail("cannot write %s", path);
    close(fd);
}

static void random_slice(fuzz_rng *r, const mr_bundle_entry *e, mr_slice *s)
{
    s->rank = fuzz_once_in(r, 20) ? (int)fuzz_below(r, 4) : e->shape.rank;
    for (int i = 0; i < s->rank; i++) {
        bool all = fuzz_once_in(r, 2);
        s->start[i] = all ? 0 : fuzz_once_in(r, 10) ? fuzz_odd_int(r) : fuzz_between(r, 0, 2);
        s->length[i] = all                   ? MR_SLICE_ALL
                       : fuzz_once_in(r, 10) ? fuzz_odd_int(r)
                                             : fuzz_between(r, 0, 3);
    }
}

static bool take(mr_status *st, mr_tensor *t)
{
    mr_status_free(st);
    if (!st)
        mr_tensor_unref(t);
    return !st;
}

static void read_tensors(fuzz_run *r, mr_bundle *b)
{
    mr_allocator *budget = mr_budget_new(NULL, "fuzz", MEMORY_LIMIT);
    for (int i = 0; i < MR_MIN(mr_bundle_count(b), MOST_READ); i++) {
        mr_sv name = mr_bundle_name(b, i);
        mr_bundle_entry e;
        mr_slice s;
        mr_tensor *t = NULL;
        mr_status *st = mr_bundle_lookup(b, name, &e);
        bool known = !st;
        mr_status_free(st);
        st = mr_bundle_read(b, name, budget, &t);
        fuzz_say(r, "%.*s: %s", MR_SV_ARG(name), mr_status_message(st));
        r->counts[TENSORS_READ] += take(st, t);
        if (known) {
            random_slice(&r->rng, &e, &s);
            st = mr_bundle_read_slice(b, name, &s, budget, &t);
            take(st, t);
        }
    }
    mr_allocator_stats stats;
    mr_allocator_get_stats(budget, &stats);
    if (stats.in_use)
        fuzz_fail("bundle: %lld bytes of tensors are leaked", (long long)stats.in_use);
    mr_budget_free(budget);
}

/* The file `checkpoint` beside it, damaged. */
static void read_state(fuzz_rng *r)
{
    mr_checkpoint_state s;
    mr_str text = {0};
    mr_str_appendz(&text, "model_checkpoint_path: \"b-2\"\nall_model_checkpoint_paths: \"b-1\"\n"
                          "all_model_checkpoint_paths: \"b-2\"\nlast_preserved_timestamp: 1.5\n");
    for (uint64_t k = fuzz_below(r, 4); k > 0; k--)
        fuzz_damage(r, &text);
    write_file("checkpoint", &text);
    mr_status *st = mr_checkpoint_state_read(".", &s);
    if (!st)
        mr_checkpoint_state_deinit(&s);
    mr_status_free(st);
    mr_str_deinit(&text);
}

static void merge(fuzz_rng *r)
{
    static const char *const prefixes[] = {PREFIX, PREFIX};
    mr_status_free(mr_bundle_merge(prefixes, 1 + (int)fuzz_below(r, 2), "merged"));
}

static void try_files(fuzz_run *r, const bundle_files *f)
{
    mr_bundle *b;
    mr_table t;
    mr_sv exact = fuzz_exact(mr_str_view(&f->index)); /* nothing behind it */
    mr_status *st = mr_table_parse(exact, "index", &t);
    if (!st)
        mr_table_deinit(&t);
    mr_status_free(st);
    mr_free((void *)(uintptr_t)exact.p);
    write_file(PREFIX ".index", &f->index);
    write_file(PREFIX ".data-00000-of-00001", &f->data);
    st = mr_bundle_open(PREFIX, &b);
    fuzz_say(r, "open: %s", mr_status_message(st));
    if (!st) {
        r->counts[OPENED]++;
        read_tensors(r, b);
        mr_bundle_close(b);
    }
    mr_status_free(st);
    if (fuzz_once_in(&r->rng, 20))
        merge(&r->rng);
    if (fuzz_once_in(&r->rng, 10))
        read_state(&r->rng);
}

static void run(fuzz_run *r)
{
    bundle_files f = {0};
    mr_str note = {0};
    mutate(&r->rng, &f);
    mr_str_append(&note, &(uint32_t){(uint32_t)f.index.n}, 4);
    mr_str_append(&note, f.index.p, f.index.n);
    mr_str_append(&note, f.data.p, f.data.n);
    fuzz_note(r, mr_str_view(&note));
    try_files(r, &f);
    mr_str_deinit(&note);
    mr_str_deinit(&f.index);
    mr_str_deinit(&f.data);
}

/* The length of the index, the index, the data. */
static void replay(fuzz_run *r, mr_sv input)
{
    uint32_t n;
    bundle_files f = {0};
    if (input.n < sizeof(n))
        return;
    memcpy(&n, input.p, sizeof(n));
    n = (uint32_t)MR_MIN(n, input.n - sizeof(n));
    mr_str_append(&f.index, input.p + sizeof(n), n);
    mr_str_append(&f.data, input.p + sizeof(n) + n, input.n - sizeof(n) - n);
    for (int i = 0; i < 50; i++)
        try_files(r, &f);
    mr_str_deinit(&f.index);
    mr_str_deinit(&f.data);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    double opened = 100.0 * (double)counts[OPENED] / (double)runs;
    fprintf(out, "opened_percent %.1f tensors_read %lld", opened, (long long)counts[TENSORS_READ]);
    if (opened < MIN_SHARE && err)
        fprintf(err, "fuzz bundle: less than %d %% of the mutants open\n", MIN_SHARE);
    return opened >= MIN_SHARE;
}

const fuzz_target fuzz_bundle = {.name = "bundle",
                                 .about = "mutated checkpoints, opened and read",
                                 .prepare = prepare,
                                 .n_runs = n_runs,
                                 .n_counts = n_counts,
                                 .run = run,
                                 .replay = replay,
                                 .summary = summary};
