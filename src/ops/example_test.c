/* ops/example_test.c -- the language of examples itself. */
#include "ops/example.h"

#include "tests/harness/test.h"

static mr_example *parse(mr_arena *a, const char *text)
{
    mr_example *e;
    mr_arena_init(a, 0);
    MR_CHECK_OK(mr_example_parse(a, text, &e));
    return e;
}

MR_TEST(example_reads_attrs_inputs_and_outputs)
{
    mr_arena a;
    mr_example *e =
        parse(&a, "keep_dims=true s=\"a: b\": [[1, 2], [3, 4]], int64[0] -> [[3], [7]]");
    MR_CHECK_INT(e->n_steps, 1);
    MR_CHECK_INT(e->steps[0].n_attrs, 2);
    MR_CHECK(mr_sv_is(e->steps[0].attrs[1].text, "\"a: b\""));
    MR_CHECK_INT(e->steps[0].n_in, 2);
    MR_CHECK_INT(e->steps[0].in[0]->shape->rank, 2);
    MR_CHECK_INT(e->steps[0].in[1]->type, MR_INT64);
    MR_CHECK_INT(e->n_out, 1);
    MR_CHECK_NEAR(e->out[0]->elements[1].re, 7, 0);
    mr_arena_deinit(&a);
}

MR_TEST(example_reads_earlier_steps_and_their_outputs)
{
    mr_arena a;
    mr_example *e =
        parse(&a, "h = Make dtype=$T shape=[2,?]; Set: h, ([1], [2]); : h:1 -> dead, \"x;y\"");
    MR_CHECK_INT(e->n_steps, 3);
    MR_CHECK(mr_sv_is(e->steps[0].name, "h") && mr_sv_is(e->steps[0].op, "Make"));
    MR_CHECK(mr_sv_is(e->steps[1].op, "Set"));
    MR_CHECK_INT(e->steps[1].in[1]->n_items, 2);
    MR_CHECK_INT(e->steps[2].in[0]->kind, MR_EX_NAME);
    MR_CHECK_INT(e->steps[2].in[0]->output, 1);
    MR_CHECK_INT(e->out[0]->kind, MR_EX_DEAD);
    MR_CHECK(mr_sv_is(e->out[1]->elements[0].str, "x;y"));
    mr_arena_deinit(&a);
}

MR_TEST(example_reads_an_expected_error)
{
    mr_arena a;
    mr_example *e = parse(&a, "1, 0 -> !INVALID_ARGUMENT division; by -> zero");
    MR_CHECK(e->fails);
    MR_CHECK_INT(e->code, MR_INVALID_ARGUMENT);
    MR_CHECK(mr_sv_is(e->text, "division; by -> zero"));
    mr_arena_deinit(&a);
}

MR_TEST(example_reads_numbers_of_all_kinds)
{
    mr_arena a;
    mr_example *e = parse(&a, "[1.50, -2e-3, nan, -inf, 18446744073709551615, 1-2i, true, ?] -> "
                              "shape(0,3), iota(2), fill(0.5, 3)");
    const mr_literal *l = e->steps[0].in[0]->elements;
    MR_CHECK_INT(l[0].last_digit, -2);
    MR_CHECK_INT(l[1].last_digit, -3);
    MR_CHECK(isnan(l[2].re) && isinf(l[3].re));
    MR_CHECK(l[4].is_int && l[4].bits == UINT64_MAX);
    MR_CHECK(l[5].is_complex && l[5].im == -2);
    MR_CHECK(l[6].is_bool && l[7].any);
    MR_CHECK(e->out[0]->any && e->out[0]->n == 0);
    MR_CHECK_NEAR(e->out[1]->elements[1].re, 1, 0);
    MR_CHECK_NEAR(e->out[2]->elements[2].re, 0.5, 0);
    mr_arena_deinit(&a);
}

MR_TEST(example_refuses_what_is_no_sentence)
{
    static const char *const wrong[] = {"",
                                        "1",
                                        "[1 2] -> 1",
                                        "[1, [2]] -> 1",
                                        "[[1], [2, 3]] -> 1",
                                        "[1 -> 2",
                                        "1 -> 2 3",
                                        "1 -> !NO_SUCH_CODE",
                                        "a= -> 1",
                                        "1 -> \"x",
                                        "(1 -> 2",
                                        "x = -> 1",
                                        "shape(-1) -> 1",
                                        "iota(9999999999) -> 1",
                                        "1+ -> 2",
                                        "[[1], 2] -> 1"};
    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++) {
        mr_arena a;
        mr_arena_init(&a, 0);
        mr_example *e;
        mr_status *st = mr_example_parse(&a, wrong[i], &e);
        if (!st)
            mr_test_fail(__FILE__, __LINE__, "'%s' was accepted", wrong[i]);
        mr_status_free(st);
        mr_arena_deinit(&a);
    }
}

static bool fits(const char *text, mr_dtype type)
{
    mr_arena a;
    mr_example *e = parse(&a, text);
    bool ok = mr_example_fits(e->out[0], type);
    mr_arena_deinit(&a);
    return ok;
}

MR_TEST(example_literals_fit_the_types_that_can_hold_them)
{
    MR_CHECK(fits("-> 127", MR_INT8) && !fits("-> 128", MR_INT8) && fits("-> -128", MR_INT8));
    MR_CHECK(fits("-> 255", MR_UINT8) && !fits("-> -1", MR_UINT8) && !fits("-> 0.5", MR_INT32));
    MR_CHECK(fits("-> 0.5", MR_HALF) && !fits("-> 70000", MR_HALF) && !fits("-> 1e300", MR_FLOAT));
    MR_CHECK(!fits("-> 1i", MR_DOUBLE) && fits("-> 1i", MR_COMPLEX64) &&
             fits("-> nan", MR_BFLOAT16));
    MR_CHECK(fits("-> true", MR_BOOL) && !fits("-> true", MR_FLOAT) && fits("-> 1", MR_BOOL));
    MR_CHECK(fits("-> \"s\"", MR_STRING) && !fits("-> 1", MR_STRING) &&
             !fits("-> int32 1", MR_INT64));
}

/* Compares the expected text with a float. */
static mr_status *compare_float(const char *text, float got)
{
    mr_arena a;
    mr_example *e = parse(&a, text);
    mr_tensor *t = mr_tensor_scalar_f32(got);
    mr_status *st = mr_example_compare(e->out[0], t);
    mr_tensor_unref(t);
    mr_arena_deinit(&a);
    return st;
}

MR_TEST(example_numbers_are_right_to_the_last_digit_written)
{
    MR_CHECK_OK(compare_float("-> 0.333", 1.0f / 3));
    MR_CHECK_ERR(compare_float("-> 0.3333", 0.3330f), MR_INVALID_ARGUMENT, "element 0 is 0.333");
    MR_CHECK_ERR(compare_float("-> 2", 2.001f), MR_INVALID_ARGUMENT, "expected 2");
    MR_CHECK_OK(compare_float("-> 2", 2.0000002f));
    MR_CHECK_OK(compare_float("-> ?", NAN));
    MR_CHECK_OK(compare_float("-> nan", NAN));
    MR_CHECK_ERR(compare_float("-> 1", NAN), MR_INVALID_ARGUMENT, "");
    MR_CHECK_ERR(compare_float("-> -0", 0.0f), MR_INVALID_ARGUMENT, "");
    MR_CHECK_ERR(compare_float("-> [1]", 1), MR_INVALID_ARGUMENT, "shape is [], expected [1]");
}
