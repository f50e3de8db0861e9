/* What each kind of dataset gives, element by element, through a session. */
#include "base/clock.h"
#include "base/memory.h"
#include "exec/dataset_fixture.h"

static mr_dataset_fixture fixture; /* one a process: each test runs in its own */

static mr_out range(int64_t a, int64_t b) { return mr_dataset_fixture_range(&fixture, a, b); }
static mr_out i64(int64_t v) { return mr_dataset_fixture_i64(&fixture, v); }
static mr_out op1(const char *op, mr_out d) { return mr_dataset_fixture_op(&fixture, op, d); }
static mr_out op2(const char *op, mr_out d, mr_out a) { return mr_dataset_fixture_op(&fixture, op, d, a); }

static void begin(void) { mr_dataset_fixture_init(&fixture, 2); }
static void end(void) { mr_dataset_fixture_deinit(&fixture); }

#define GIVES(d, text) MR_CHECK_ELEMENTS(&fixture, d, text)

MR_TEST(dataset_take_skip_repeat)
{
    begin();
    GIVES(op2("TakeDataset", range(0, 9), i64(3)), "0 1 2");
    GIVES(op2("TakeDataset", range(0, 3), i64(-1)), "0 1 2");
    GIVES(op2("TakeDataset", range(0, 3), i64(0)), "");
    GIVES(op2("SkipDataset", range(0, 5), i64(3)), "3 4");
    GIVES(op2("SkipDataset", range(0, 5), i64(9)), "");
    GIVES(op2("SkipDataset", range(0, 5), i64(-1)), "");
    GIVES(op2("RepeatDataset", range(0, 2), i64(3)), "0 1 0 1 0 1");
    GIVES(op2("RepeatDataset", range(0, 2), i64(0)), "");
    GIVES(op2("TakeDataset", op2("RepeatDataset", range(0, 2), i64(-1)), i64(5)), "0 1 0 1 0");
    GIVES(op2("RepeatDataset", range(0, 0), i64(-1)), "");
    end();
}

MR_TEST(dataset_shard_concatenate)
{
    begin();
    GIVES(mr_dataset_fixture_op(&fixture, "ShardDataset", range(0, 10), i64(3), i64(1)), "1 4 7");
    GIVES(op2("ConcatenateDataset", range(0, 2), range(5, 7)), "0 1 5 6");
    end();
}

MR_TEST(dataset_zip_ends_with_the_first)
{
    begin();
    mr_dataset_fixture_types(&fixture, 2, MR_INT64, MR_INT64);
    mr_out in[] = {range(0, 3), range(5, 10)};
    GIVES(mr_dataset_fixture_ds(&fixture, "ZipDataset", NULL, 0, in, 2), "0,5 1,6 2,7");
    end();
}

static mr_out slices(int n, const int64_t *v)
{
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar};
    mr_out t = mr_const(&fixture.s, mr_tensor_vector_i64(n, v));
    return mr_emit_with(&fixture.s, "TensorSliceDataset", MR_ATTRS({"Toutput_types", mr_a_types(1, types)},
                                                               {"output_shapes", mr_a_shapes(1, shapes)}), t);
}

MR_TEST(dataset_directed_interleave)
{
    begin();
    mr_out which = slices(6, (int64_t[]){0, 1, 1, 0, 1, 1});
    mr_emit_arg args[] = {{-1, &which}, {2, (mr_out[]){range(0, 9), range(20, 22)}}};
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar};
    mr_named_attr attrs[] = {{"output_types", mr_a_types(1, types)}, {"output_shapes", mr_a_shapes(1, shapes)},
                             {"stop_on_empty_dataset", mr_a_bool(false)}};
    GIVES(mr_emit_lists(&fixture.s, "DirectedInterleaveDataset", attrs, 3, args, 2), "0 20 21 1");
    attrs[2].v = mr_a_bool(true);
    GIVES(mr_emit_lists(&fixture.s, "DirectedInterleaveDataset", attrs, 3, args, 2), "0 20 21 1");
    end();
}

MR_TEST(dataset_batch)
{
    begin();
    GIVES(op2("BatchDataset", range(0, 7), i64(3)), "[0 1 2] [3 4 5] [6]");
    GIVES(
        mr_dataset_fixture_op(&fixture, "BatchDatasetV2", range(0, 7), i64(3), mr_dataset_fixture_bool(&fixture, true)),
        "[0 1 2] [3 4 5]");
    GIVES(mr_dataset_fixture_op(&fixture, "BatchDatasetV2", op2("BatchDataset", range(0, 7), i64(3)), i64(2), mr_dataset_fixture_bool(&fixture, false)),
          "[[0 1 2][3 4 5]] [[6]]");
    GIVES(op2("BatchDataset", op2("BatchDataset", range(0, 7), i64(3)), i64(3)),
          " !INVALID_ARGUMENT Cannot batch tensors with different shapes in component 0. First element had shape [3] and "
          "element 2 had shape [1].");
    GIVES(op1("UnbatchDataset", op2("BatchDataset", range(0, 7), i64(3))), "0 1 2 3 4 5 6");
    end();
}

MR_TEST(dataset_padded_batch)
{
    begin();
    mr_out in = op2("BatchDataset", range(0, 7), i64(3)), shape = mr_const(&fixture.s, mr_tensor_vector_i64(1, (int64_t[]){-1}));
    mr_out four = mr_const(&fixture.s, mr_tensor_vector_i64(1, (int64_t[]){4})), pad = i64(9), n = i64(2);
    static const mr_pshape *const shapes[] = {&mr_pshape_unknown};
    mr_named_attr attrs[] = {{"output_shapes", mr_a_shapes(1, shapes)}};
    mr_emit_arg args[] = {{-1, &in}, {-1, &n}, {1, &shape}, {1, &pad}};
    GIVES(mr_emit_lists(&fixture.s, "PaddedBatchDataset", attrs, 1, args, 4), "[[0 1 2][3 4 5]] [[6]]");
    args[2].in = &four;
    GIVES(mr_emit_lists(&fixture.s, "PaddedBatchDataset", attrs, 1, args, 4), "[[0 1 2 9][3 4 5 9]] [[6 9 9 9]]");
    mr_out two = mr_const(&fixture.s, mr_tensor_vector_i64(1, (int64_t[]){2}));
    args[2].in = &two;
    GIVES(mr_emit_lists(&fixture.s, "PaddedBatchDataset", attrs, 1, args, 4), " !DATA_LOSS Attempted to pad to a smaller size");
    end();
}

MR_TEST(dataset_sliding_windows)
{
    begin();
    GIVES(mr_dataset_fixture_op(&fixture, "SlidingWindowDataset", range(0, 7), i64(3), i64(2), i64(1)),
          "[0 1 2] [2 3 4] [4 5 6]");
    GIVES(mr_dataset_fixture_op(&fixture, "SlidingWindowDataset", range(0, 7), i64(2), i64(1), i64(3)),
          "[0 3] [1 4] [2 5] [3 6]");
    GIVES(mr_dataset_fixture_op(&fixture, "SlidingWindowDataset", range(0, 7), i64(1), i64(3), i64(1)), "[0] [3] [6]");
    end();
}

/* ---- functions ---- */

static void def1(const char *name, const char *op, int64_t v) /* name(a) = op(a, v) */
{
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, name, MR_OUTS(mr_emit(&b.s, op, b.args[0], mr_const_i64(&b.s, v))));
}

static mr_out fn(const char *op, const char *f, mr_out d)
{
    return mr_dataset_fixture_fn(&fixture, op, f, d, NULL, 0, NULL, 0);
}

static mr_out fn_with(const char *op, const char *f, mr_out d, const mr_out *scalars, int n)
{
    return mr_dataset_fixture_fn(&fixture, op, f, d, NULL, 0, scalars, n);
}

MR_TEST(dataset_map_filter_take_while)
{
    begin();
    def1("Times3", "Mul", 3);
    def1("Below4", "Less", 4);
    def1("Above4", "Greater", 4);
    GIVES(fn("MapDataset", "Times3", range(0, 4)), "0 3 6 9");
    GIVES(fn("FilterDataset", "Above4", range(0, 8)), "5 6 7");
    GIVES(fn("TakeWhileDataset", "Below4", fn("MapDataset", "Times3", range(0, 8))), "0 3");
    GIVES(fn("FilterDataset", "Times3", range(0, 8)), " !INVALID_ARGUMENT Function `Times3` must return a scalar bool");
    end();
}

MR_TEST(dataset_map_captures)
{
    begin();
    mr_dbody b = mr_dbody_new(&fixture, 2, MR_INT64);
    mr_dbody_end(&b, &fixture, "AddBoth", MR_OUTS(mr_emit(&b.s, "AddV2", b.args[0], b.args[1])));
    mr_out seven = i64(7);
    GIVES(mr_dataset_fixture_fn(&fixture, "MapDataset", "AddBoth", range(0, 3), &seven, 1, NULL, 0), "7 8 9");
    end();
}

/* FromRange(a): a, a + 1, .. below 2 a. */
static void def_ranges(void)
{
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar};
    mr_out twice = mr_emit(&b.s, "AddV2", b.args[0], b.args[0]);
    mr_out d = mr_emit_with(&b.s, "RangeDataset", MR_ATTRS({"output_types", mr_a_types(1, types)},
                                                           {"output_shapes", mr_a_shapes(1, shapes)}),
                            b.args[0], twice, mr_const_i64(&b.s, 1));
    mr_dbody_end(&b, &fixture, "FromRange", &d, 1);
}

MR_TEST(dataset_flat_map_interleave)
{
    begin();
    def_ranges();
    GIVES(fn("FlatMapDataset", "FromRange", range(1, 4)), "1 2 3 3 4 5");
    GIVES(fn_with("InterleaveDataset", "FromRange", range(1, 5), MR_OUTS(i64(2), i64(1))), "1 2 3 3 4 4 5 5 6 7");
    GIVES(fn_with("InterleaveDataset", "FromRange", range(1, 5), MR_OUTS(i64(2), i64(2))), "1 2 3 3 4 5 4 5 6 7");
    GIVES(fn_with("InterleaveDataset", "FromRange", range(1, 4), MR_OUTS(i64(100), i64(1))), "1 2 3 3 4 5");
    end();
}

MR_TEST(dataset_scan)
{
    begin();
    mr_dbody b = mr_dbody_new(&fixture, 2, MR_INT64);
    mr_out sum = mr_emit(&b.s, "AddV2", b.args[0], b.args[1]);
    mr_dbody_end(&b, &fixture, "SumUp", MR_OUTS(sum, sum));
    mr_func_ref f = {"SumUp", 0, NULL};
    mr_out d = range(1, 6), zero = i64(0);
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &f}}, {"Targuments", mr_a_types(0, types)},
                             {"Tstate", mr_a_types(1, types)}, {"output_types", mr_a_types(1, types)},
                             {"output_shapes", mr_a_shapes(1, shapes)}};
    mr_emit_arg args[] = {{-1, &d}, {1, &zero}, {0, NULL}};
    GIVES(mr_emit_lists(&fixture.s, "ScanDataset", attrs, 5, args, 3), "1 3 6 10 15");
    end();
}

MR_TEST(dataset_reduce)
{
    begin();
    mr_dbody b = mr_dbody_new(&fixture, 2, MR_INT64);
    mr_dbody_end(&b, &fixture, "Sum1", MR_OUTS(mr_emit(&b.s, "AddV2", b.args[0], b.args[1])));
    mr_func_ref f = {"Sum1", 0, NULL};
    mr_out d = range(1, 6), start = i64(100);
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &f}}, {"Targuments", mr_a_types(0, types)},
                             {"Tstate", mr_a_types(1, types)}, {"output_types", mr_a_types(1, types)},
                             {"output_shapes", mr_a_shapes(1, shapes)}};
    mr_emit_arg args[] = {{-1, &d}, {1, &start}, {0, NULL}};
    mr_str got = {0};
    MR_CHECK_OK(mr_dataset_fixture_get(&fixture, mr_emit_lists(&fixture.s, "ReduceDataset", attrs, 5, args, 3), &got));
    MR_CHECK_STR(mr_str_z(&got), "115");
    mr_str_deinit(&got);
    end();
}

/* An error in one element does not end the iterator. */
MR_TEST(dataset_goes_on_after_an_error)
{
    begin();
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_out less = mr_emit(&b.s, "Sub", b.args[0], mr_const_i64(&b.s, 2));
    mr_dbody_end(&b, &fixture, "TenBy", MR_OUTS(mr_emit(&b.s, "FloorDiv", mr_const_i64(&b.s, 10), less)));
    mr_diter i = mr_dataset_fixture_iterator(&fixture, fn("MapDataset", "TenBy", range(0, 5)));
    mr_str got = {0};
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
    MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    MR_CHECK_ERR(mr_dataset_fixture_get_all(&fixture, &i, &got), MR_INVALID_ARGUMENT, "division by zero");
    MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    MR_CHECK_STR(mr_str_z(&got), "-5-1010");
    mr_str_deinit(&got);
    end();
}

MR_TEST(dataset_shuffle_gives_each_element_once_and_repeats_by_seed)
{
    begin();
    mr_out d = mr_dataset_fixture_op(&fixture, "ShuffleDataset", range(0, 8), i64(4), i64(1), i64(2));
    mr_diter i = mr_dataset_fixture_iterator(&fixture, d);
    mr_str first = {0}, again = {0}, other = {0};
    mr_dataset_fixture_elements(&fixture, d, 100, &first);
    mr_dataset_fixture_elements(&fixture, d, 100, &again);
    MR_CHECK_STR(mr_str_z(&first), mr_str_z(&again)); /* the dataset is made anew for each */
    for (char c = '0'; c < '8'; c++)
        MR_CHECK(strchr(first.p, c) && strchr(first.p, c) == strrchr(first.p, c));
    mr_out twice = op2("RepeatDataset", d, i64(2));
    mr_dataset_fixture_elements(&fixture, twice, 100, &other);
    MR_CHECK(strncmp(other.p, first.p, first.n) == 0); /* and shuffled anew for the second epoch */
    MR_CHECK(strcmp(other.p + first.n + 1, first.p) != 0);
    (void)i;
    mr_str_deinit(&first);
    mr_str_deinit(&again);
    mr_str_deinit(&other);
    end();
}

MR_TEST(dataset_windows_are_datasets)
{
    begin();
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_VARIANT);
    mr_out d = b.args[0];
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_unknown};
    mr_dbody_end(&b, &fixture, "Batched",
                 MR_OUTS(mr_emit_with(&b.s, "BatchDataset", MR_ATTRS({"output_types", mr_a_types(1, types)},
                                                                    {"output_shapes", mr_a_shapes(1, shapes)}),
                                      d, mr_const_i64(&b.s, 10))));
    mr_dataset_fixture_types(&fixture, 1, MR_VARIANT);
    mr_out w = mr_dataset_fixture_op(&fixture, "WindowDataset", range(0, 7), i64(3), i64(2), i64(1),
                                     mr_dataset_fixture_bool(&fixture, false));
    mr_dataset_fixture_types(&fixture, 1, MR_INT64);
    GIVES(fn("FlatMapDataset", "Batched", w), "[0 1 2] [2 3 4] [4 5 6] [6]");
    end();
}
