/* store/bundle_test.c -- checkpoints: round trips, files of TensorFlow, damage. */
#include "store/bundle.h"

#include "base/file.h"
#include "base/memory.h"
#include "store/bundle_proto.h"
#include "store/table.h"
#include "tests/harness/test.h"

static char *path_in(const char *name) { return mr_printf("%s/%s", mr_test_dir(), name); }

static void write_two(const char *prefix)
{
    mr_bundle_writer *w;
    mr_tensor *a = mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
    mr_tensor *s = mr_tensor_vector_str(3, (const char *[]){"x", "", "a longer string than fits inline"});
    MR_CHECK_OK(mr_bundle_writer_new(prefix, &w));
    MR_CHECK_OK(mr_bundle_add(w, MR_SV("w"), a));
    MR_CHECK_OK(mr_bundle_add(w, MR_SV("names"), s));
    MR_CHECK_OK(mr_bundle_finish(w));
    mr_bundle_writer_free(w);
    mr_tensor_unref(a);
    mr_tensor_unref(s);
}

MR_TEST(bundle_reads_back_what_it_wrote)
{
    char *prefix = path_in("sub/model.ckpt-1");
    mr_bundle *b;
    mr_tensor *t;
    write_two(prefix);
    MR_CHECK_OK(mr_bundle_open(prefix, &b));
    MR_CHECK_INT(mr_bundle_count(b), 2);
    MR_CHECK(mr_sv_is(mr_bundle_name(b, 0), "names"));
    MR_CHECK_OK(mr_bundle_read(b, MR_SV("w"), NULL, &t));
    MR_CHECK_INT(t->rank, 2);
    MR_CHECK_NEAR(MR_DATA(float, t)[3], 4, 0);
    mr_tensor_unref(t);
    MR_CHECK_OK(mr_bundle_read(b, MR_SV("names"), NULL, &t));
    MR_CHECK(mr_sv_is(mr_tensor_str_at(t, 2), "a longer string than fits inline"));
    mr_tensor_unref(t);
    MR_CHECK_ERR(mr_bundle_read(b, MR_SV("v"), NULL, &t), MR_NOT_FOUND, "Key v not found in checkpoint");
    mr_bundle_close(b);
    mr_free(prefix);
}

MR_TEST(bundle_missing_says_which_prefix)
{
    mr_bundle *b;
    char *prefix = path_in("none");
    MR_CHECK_ERR(mr_bundle_open(prefix, &b), MR_NOT_FOUND, "Failed to find any matching files for");
    mr_free(prefix);
}

MR_TEST(bundle_refuses_a_name_twice)
{
    mr_bundle_writer *w;
    char *prefix = path_in("twice");
    mr_tensor *t = mr_tensor_scalar_f32(1);
    MR_CHECK_OK(mr_bundle_writer_new(prefix, &w));
    MR_CHECK_OK(mr_bundle_add(w, MR_SV("a"), t));
    MR_CHECK_ERR(mr_bundle_add(w, MR_SV("a"), t), MR_INVALID_ARGUMENT, "duplicate key: a");
    mr_bundle_writer_free(w);
    MR_CHECK(!mr_bundle_exists(prefix));
    mr_tensor_unref(t);
    mr_free(prefix);
}

/* A [4,3] tensor saved as two halves, read whole and across the seam. */
MR_TEST(bundle_puts_slices_together)
{
    mr_bundle_writer *w;
    mr_bundle *b;
    mr_shape full, part;
    mr_slice sl;
    mr_tensor *t;
    char *prefix = path_in("sliced");
    float v[12];
    for (int i = 0; i < 12; i++)
        v[i] = (float)i;
    MR_CHECK_OK(mr_bundle_writer_new(prefix, &w));
    for (int half = 0; half < 2; half++) {
        MR_CHECK_OK(mr_shape_and_slice_parse(half ? MR_SV("4 3 2,2:-") : MR_SV("4 3 0,2:-"), &full, &sl, &part));
        t = mr_tensor_of(MR_FLOAT, part.rank, part.dims, v + 6 * half);
        MR_CHECK_OK(mr_bundle_add_slice(w, MR_SV("m"), &full, &sl, t));
        mr_tensor_unref(t);
    }
    MR_CHECK_OK(mr_bundle_finish(w));
    mr_bundle_writer_free(w);
    MR_CHECK_OK(mr_bundle_open(prefix, &b));
    MR_CHECK_INT(mr_bundle_count(b), 1);
    MR_CHECK_OK(mr_bundle_read(b, MR_SV("m"), NULL, &t));
    MR_CHECK_NEAR(MR_DATA(float, t)[11], 11, 0);
    mr_tensor_unref(t);
    MR_CHECK_OK(mr_shape_and_slice_parse(MR_SV("4 3 1,2:1,2"), &full, &sl, &part));
    MR_CHECK_OK(mr_bundle_read_slice(b, MR_SV("m"), &sl, NULL, &t));
    MR_CHECK_INT(t->n, 4);
    MR_CHECK_NEAR(MR_DATA(float, t)[0], 4, 0);
    MR_CHECK_NEAR(MR_DATA(float, t)[2], 7, 0);
    mr_tensor_unref(t);
    mr_bundle_close(b);
    mr_free(prefix);
}

MR_TEST(bundle_missing_slice_is_told)
{
    mr_bundle_writer *w;
    mr_bundle *b;
    mr_shape full, part;
    mr_slice sl;
    char *prefix = path_in("half");
    mr_tensor *t;
    MR_CHECK_OK(mr_bundle_writer_new(prefix, &w));
    MR_CHECK_OK(mr_shape_and_slice_parse(MR_SV("4 3 0,2:-"), &full, &sl, &part));
    MR_CHECK_OK(mr_tensor_zeros(NULL, MR_FLOAT, part.rank, part.dims, &t));
    MR_CHECK_OK(mr_bundle_add_slice(w, MR_SV("m"), &full, &sl, t));
    mr_tensor_unref(t);
    MR_CHECK_OK(mr_bundle_finish(w));
    mr_bundle_writer_free(w);
    MR_CHECK_OK(mr_bundle_open(prefix, &b));
    MR_CHECK_ERR(mr_bundle_read(b, MR_SV("m"), NULL, &t), MR_NOT_FOUND, "parts of tensor m are missing");
    mr_bundle_close(b);
    mr_free(prefix);
}

MR_TEST(bundle_merge_of_none_is_an_empty_bundle)
{
    char *to = path_in("whole");
    mr_bundle *b;
    MR_CHECK_OK(mr_bundle_merge(NULL, 0, to));
    MR_CHECK_OK(mr_bundle_open(to, &b));
    MR_CHECK_INT(mr_bundle_count(b), 0);
    mr_bundle_close(b);
    mr_free(to);
}

MR_TEST(bundle_merge_renumbers_shards)
{
    char *p0 = path_in("tmp/part-0"), *p1 = path_in("tmp/part-1"), *to = path_in("whole");
    mr_tensor *t = mr_tensor_scalar_i64(7), *back;
    mr_bundle *b;
    for (int i = 0; i < 2; i++) {
        mr_bundle_writer *w;
        MR_CHECK_OK(mr_bundle_writer_new(i ? p1 : p0, &w));
        MR_CHECK_OK(mr_bundle_add(w, i ? MR_SV("b") : MR_SV("a"), t));
        MR_CHECK_OK(mr_bundle_finish(w));
        mr_bundle_writer_free(w);
    }
    MR_CHECK_OK(mr_bundle_merge((const char *[]){p0, p1}, 2, to));
    MR_CHECK(!mr_bundle_exists(p0));
    MR_CHECK_OK(mr_bundle_open(to, &b));
    MR_CHECK_OK(mr_bundle_read(b, MR_SV("b"), NULL, &back));
    MR_CHECK_INT(mr_tensor_int_at(back, 0), 7);
    mr_tensor_unref(back);
    mr_tensor_unref(t);
    mr_bundle_close(b);
    mr_free(p0), mr_free(p1), mr_free(to);
}

/* Every single byte flipped: never a crash, and data that differs is always noticed. */
MR_TEST(bundle_notices_flipped_bytes)
{
    char *prefix = path_in("flip"), *data = mr_bundle_data_path(prefix, 0, 1), *index = mr_bundle_index_path(prefix);
    write_two(prefix);
    for (int which = 0; which < 2; which++) {
        const char *path = which ? index : data;
        mr_str bytes = {0};
        MR_CHECK_OK(mr_file_read_all(path, &bytes));
        for (size_t i = 0; i < bytes.n; i++) {
            mr_writer *f;
            mr_bundle *b = NULL;
            mr_tensor *t = NULL;
            bytes.p[i] ^= 0x20;
            MR_CHECK_OK(mr_writer_open(path, &f));
            MR_CHECK_OK(mr_writer_write(f, bytes.p, bytes.n));
            MR_CHECK_OK(mr_writer_commit(f));
            mr_writer_free(f);
            mr_status *st = mr_bundle_open(prefix, &b), *w = NULL, *names = NULL;
            if (!st)
                w = mr_bundle_read(b, MR_SV("w"), NULL, &t);
            mr_tensor_unref(t);
            t = NULL;
            if (!st)
                names = mr_bundle_read(b, MR_SV("names"), NULL, &t);
            mr_tensor_unref(t);
            bool in_padding = which && i >= bytes.n - 48 && i < bytes.n - 8; /* unused bytes of the footer */
            MR_CHECK(st || w || names || in_padding);
            mr_status_free(st), mr_status_free(w), mr_status_free(names);
            mr_bundle_close(b);
            bytes.p[i] ^= 0x20;
        }
        mr_writer *f;
        MR_CHECK_OK(mr_writer_open(path, &f));
        MR_CHECK_OK(mr_writer_write(f, bytes.p, bytes.n));
        MR_CHECK_OK(mr_writer_commit(f));
        mr_writer_free(f);
        mr_str_deinit(&bytes);
    }
    mr_free(prefix), mr_free(data), mr_free(index);
}

/* A golden file is read, written again and has the same bytes (where it was not compressed). */
static void check_golden(const char *golden, const char *rel, bool same_bytes)
{
    char *prefix = mr_printf("%s/%s", golden, rel), *copy = path_in("copy");
    mr_bundle *b, *c;
    mr_bundle_writer *w;
    MR_CHECK_OK(mr_bundle_open(prefix, &b));
    MR_CHECK(mr_bundle_count(b) > 0);
    MR_CHECK_OK(mr_bundle_writer_new(copy, &w));
    /* in the order of their data, so that offsets come out the same */
    mr_bundle_entry *e = mr_new(mr_bundle_entry);
    for (uint64_t at = 0, next = 0; next != UINT64_MAX; at = next) {
        next = UINT64_MAX;
        for (int i = 0; i < mr_bundle_count(b); i++) {
            MR_CHECK_OK(mr_bundle_lookup(b, mr_bundle_name(b, i), e));
            if (e->offset >= at && e->offset < next)
                next = e->offset;
        }
        for (int i = 0; i < mr_bundle_count(b); i++) {
            mr_tensor *t;
            MR_CHECK_OK(mr_bundle_lookup(b, mr_bundle_name(b, i), e));
            if (e->offset != next)
                continue;
            MR_CHECK_OK(mr_bundle_read(b, mr_bundle_name(b, i), NULL, &t));
            MR_CHECK_OK(mr_bundle_add(w, mr_bundle_name(b, i), t));
            mr_tensor_unref(t);
        }
        next = next == UINT64_MAX ? next : next + 1;
    }
    mr_free(e);
    MR_CHECK_OK(mr_bundle_finish(w));
    mr_bundle_writer_free(w);
    MR_CHECK_OK(mr_bundle_open(copy, &c));
    MR_CHECK_INT(mr_bundle_count(c), mr_bundle_count(b));
    mr_str x = {0}, y = {0};
    char *px = mr_bundle_index_path(prefix), *py = mr_bundle_index_path(copy);
    MR_CHECK_OK(mr_file_read_all(px, &x));
    MR_CHECK_OK(mr_file_read_all(py, &y));
    if (same_bytes)
        MR_CHECK(mr_sv_eq(mr_str_view(&x), mr_str_view(&y)));
    mr_str_deinit(&x), mr_str_deinit(&y);
    mr_free(px), mr_free(py), mr_free(prefix), mr_free(copy);
    mr_bundle_close(b);
    mr_bundle_close(c);
}

#define OURS(path, same_bytes) check_golden(mr_test_golden(), path, same_bytes)
MR_TEST(bundle_golden_types_are_written_as_they_were) { OURS("checkpoint/types/model", true); }
MR_TEST(bundle_golden_trained_is_written_as_it_was) { OURS("checkpoint/trained/model", true); }
MR_TEST(bundle_golden_object_graph_is_written_as_it_was) { OURS("saved_model/object_graph/variables/variables", true); }

#define THEIRS(path, same_bytes) check_golden(mr_test_tensorflow_golden(), path, same_bytes)
MR_TEST(bundle_golden_half_plus_two) { THEIRS("checkpoint/half_plus_two_export/00000123/export", true); }
MR_TEST(bundle_golden_iris) { THEIRS("checkpoint/tensorflex_iris/graph", true); }
MR_TEST(bundle_golden_old_strings) { THEIRS("checkpoint/old_string_tensors/foo", false); }
MR_TEST(bundle_golden_contrib) { THEIRS("checkpoint/contrib_bundle/bundle_checkpoint", false); }
MR_TEST(bundle_golden_saved_model) { THEIRS("saved_model/half_plus_two/00000123/variables/variables", true); }

MR_TEST(slice_keys_keep_the_order_of_numbers)
{
    int64_t v[] = {INT64_MIN, -1000000, -65, -64, -1, 0, 63, 64, 8191, 8192, INT64_C(1) << 40, INT64_MAX};
    mr_str last = {0};
    for (int i = 0; i < 12; i++) {
        mr_str key = {0};
        mr_slice s = {.rank = 1, .start = {v[i]}, .length = {-1}};
        mr_slice_key(MR_SV("n"), &s, &key);
        MR_CHECK(i == 0 || mr_bytes_compare(mr_str_view(&last), mr_str_view(&key)) < 0);
        mr_str_deinit(&last);
        last = key;
    }
    mr_str_deinit(&last);
}
