/* store/checkpoint_test.c -- golden checkpoints of both formats hold what was written to them.
 *
 * tests/golden/make.py wrote them by one rule: element k of a tensor is 3 k mod 7, a string is "s" and as many letters x. */
#include "store/checkpoint.h"

#include "base/file.h"
#include "base/memory.h"
#include "store/checkpoint_v1.h"
#include "tests/harness/test.h"

static void check_strings(const mr_tensor *t)
{
    for (int64_t k = 0; k < t->n; k++) {
        mr_sv s = mr_tensor_str_at(t, k), want = {"sxxxxxx", (size_t)(1 + 3 * k % 7)};
        MR_CHECK(mr_sv_eq(s, want));
    }
}

static void check_numbers(const mr_tensor *t)
{
    mr_tensor *rule, *want;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_DOUBLE, t->rank, t->dims, &rule));
    MR_CHECK_OK(mr_tensor_new(NULL, (mr_dtype)t->dtype, t->rank, t->dims, &want));
    for (int64_t k = 0; k < rule->n; k++)
        MR_DATA(double, rule)[k] = (double)(3 * k % 7);
    MR_CHECK(mr_dtype_convert(MR_DOUBLE, rule->data, (mr_dtype)want->dtype, want->data, want->n, false));
    MR_CHECK(mr_tensor_equal(t, want));
    mr_tensor_unref(rule);
    mr_tensor_unref(want);
}

static void check_checkpoint(const char *name, int n_tensors)
{
    char *path = mr_printf("%s/checkpoint/%s", mr_test_golden(), name);
    mr_checkpoint *c;
    MR_CHECK_OK(mr_checkpoint_open(path, &c));
    MR_CHECK_INT(mr_checkpoint_count(c), n_tensors);
    for (int i = 0; i < n_tensors; i++) {
        mr_tensor *t;
        mr_checkpoint_entry e;
        MR_CHECK_OK(mr_checkpoint_lookup(c, mr_checkpoint_name(c, i), &e));
        MR_CHECK_OK(mr_checkpoint_read(c, mr_checkpoint_name(c, i), NULL, &t));
        MR_CHECK_INT(t->dtype, e.dtype);
        if (t->dtype == MR_STRING)
            check_strings(t);
        else
            check_numbers(t);
        mr_tensor_unref(t);
    }
    mr_checkpoint_close(c);
    mr_free(path);
}

MR_TEST(checkpoint_golden_types_are_read) { check_checkpoint("types/model", 16); }
MR_TEST(checkpoint_golden_of_two_shards_slices_and_snappy_is_read) { check_checkpoint("sharded/model", 42); }
MR_TEST(checkpoint_golden_of_the_first_format_is_read) { check_checkpoint("first_format/model.ckpt", 15); }
MR_TEST(checkpoint_golden_parts_of_the_first_format_are_read) { check_checkpoint("first_format/parts.ckpt-*", 2); }

/* The tensors of a golden file, in the order of its list, give the same file again. */
MR_TEST(checkpoint_golden_of_the_first_format_is_written_as_it_was)
{
    static const char *const names[] = {"float32", "float64", "int32", "uint8", "int16", "int8", "string", "complex64",
                                        "int64", "bool", "uint16", "complex128", "float16", "scalar", "text/scalar"};
    char *from = mr_printf("%s/checkpoint/first_format/model.ckpt", mr_test_golden());
    char *to = mr_printf("%s/copy", mr_test_dir());
    mr_v1_reader *r;
    mr_v1_writer *w;
    mr_str a = {0}, b = {0};
    MR_CHECK_OK(mr_v1_open(mr_sv_of(from), &r));
    MR_CHECK_OK(mr_v1_writer_new(to, &w));
    for (int i = 0; i < MR_COUNT(names); i++) {
        mr_tensor *t;
        mr_dtype dtype;
        const mr_shape *shape;
        mr_slice whole;
        MR_CHECK(mr_v1_lookup(r, mr_sv_of(names[i]), &dtype, &shape));
        MR_CHECK_OK(mr_v1_read(r, mr_sv_of(names[i]), NULL, NULL, &t));
        mr_slice_all(&whole, shape->rank);
        MR_CHECK_OK(mr_v1_add(w, mr_sv_of(names[i]), shape, &whole, t));
        mr_tensor_unref(t);
    }
    MR_CHECK_OK(mr_v1_finish(w));
    mr_v1_writer_free(w);
    MR_CHECK_OK(mr_file_read_all(from, &a));
    MR_CHECK_OK(mr_file_read_all(to, &b));
    MR_CHECK(a.n > 0 && mr_sv_eq(mr_str_view(&a), mr_str_view(&b)));
    mr_v1_close(r);
    mr_str_deinit(&a), mr_str_deinit(&b);
    mr_free(from), mr_free(to);
}
