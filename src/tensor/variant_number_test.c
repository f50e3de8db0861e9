/* tensor/variant_number_test.c -- variants of single numbers, as TensorProtos have them. */
#include "base/memory.h"
#include "tensor/variant.h"
#include "tests/harness/test.h"
#include "wire/pb.h"

static mr_object *number(const char *type, const void *bytes, size_t n)
{
    mr_str b = {0};
    mr_pb_writer w;
    mr_object *o = NULL;
    mr_pb_writer_init(&w, &b);
    mr_pb_put_bytes(&w, 1, mr_sv_of(type));
    mr_pb_put_bytes(&w, 2, (mr_sv){bytes, n});
    MR_CHECK_OK(mr_variant_decode(mr_str_view(&b), &o));
    mr_str_deinit(&b);
    return o;
}

static void check_text(const mr_tensor *t, const char *want)
{
    mr_str s = {0};
    mr_tensor_summarize(t, -1, &s);
    MR_CHECK_STR(mr_str_z(&s), want);
    mr_str_deinit(&s);
}

MR_TEST(variant_numbers_are_read_added_and_written)
{
    mr_tensor *t, *sum, *zero, *again;
    mr_str bytes = {0};
    mr_variant_register_numbers(); /* once more does no harm */
    MR_CHECK_OK(mr_variant_tensor(number("int", &(int32_t){7}, 4), &t));
    check_text(t, "Variant<type: int value: 7>");
    MR_CHECK_OK(mr_variants_add(NULL, t, t, &sum));
    check_text(sum, "Variant<type: int value: 14>");
    MR_CHECK_OK(mr_variants_zeros_like(NULL, t, &zero));
    check_text(zero, "Variant<type: int value: 0>");
    MR_CHECK_OK(mr_tensor_encode(sum, &bytes));
    MR_CHECK_OK(mr_tensor_decode(NULL, mr_str_view(&bytes), &again));
    check_text(again, "Variant<type: int value: 14>");
    mr_str_deinit(&bytes);
    mr_tensor_unref(again);
    mr_tensor_unref(zero);
    mr_tensor_unref(sum);
    mr_tensor_unref(t);
    MR_CHECK_OK(mr_variant_tensor(number("double", &(double){0.5}, 8), &t));
    check_text(t, "Variant<type: double value: 0.5>");
    mr_tensor_unref(t);
}

MR_TEST(variant_numbers_of_other_sizes_are_refused)
{
    mr_object *o;
    mr_variant_register_numbers();
    MR_CHECK_ERR(mr_variant_decode(MR_SV("\x0a\x03int\x12\x01\x07"), &o), MR_INVALID_ARGUMENT, "1 bytes of metadata");
}
