/* Datasets and what lasts: files, caches, variables, iterators that are written down, functions that make datasets. */
#include "base/file.h"
#include "base/memory.h"
#include "exec/dataset_fixture.h"
#include "graph/grad.h"
#include "store/lmdb_writer_fixture.h"

static mr_dataset_fixture fixture;
static const int int64s[] = {MR_INT64, MR_INT64};
static const mr_pshape *const unknown[] = {&mr_pshape_unknown, &mr_pshape_unknown};

static mr_out range(int64_t a, int64_t b) { return mr_dataset_fixture_range(&fixture, a, b); }
static mr_out i64(int64_t v) { return mr_dataset_fixture_i64(&fixture, v); }
static void begin(void) { mr_dataset_fixture_init(&fixture, 2); }
static void end(void) { mr_dataset_fixture_deinit(&fixture); }

#define GIVES(d, text) MR_CHECK_ELEMENTS(&fixture, d, text)
#define INT64_TYPES {"output_types", mr_a_types(1, int64s)}, {"output_shapes", mr_a_shapes(1, unknown)}

static mr_out path(const char *name)
{
    char *p = mr_printf("%s/%s", mr_test_dir(), name);
    mr_out o = mr_const_str(&fixture.s, p);
    mr_free(p);
    return o;
}

static void write_file(const char *name, const char *bytes, size_t n)
{
    char *p = mr_printf("%s/%s", mr_test_dir(), name);
    mr_writer *w;
    MR_CHECK_OK(mr_writer_open(p, &w));
    MR_CHECK_OK(mr_writer_write(w, bytes, n));
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    mr_free(p);
}

static void check_value(mr_out o, const char *expected)
{
    mr_str got = {0};
    MR_CHECK_OK(mr_dataset_fixture_get(&fixture, o, &got));
    MR_CHECK_STR(mr_str_z(&got), expected);
    mr_str_deinit(&got);
}

/* ---- files ---- */

MR_TEST(dataset_lines_of_files)
{
    begin();
    write_file("a", "one\r\ntwo\n\nfour", 14);
    mr_dataset_fixture_types(&fixture, 1, MR_STRING);
    GIVES(mr_emit(&fixture.s, "TextLineDataset", path("a"), mr_const_str(&fixture.s, ""), i64(0)), "one two  four");
    GIVES(mr_emit(&fixture.s, "TextLineDataset", path("none"), mr_const_str(&fixture.s, ""), i64(0)), " !NOT_FOUND");
    end();
}

MR_TEST(dataset_records_of_one_length)
{
    begin();
    write_file("f", "Habcdeff", 8);
    mr_dataset_fixture_types(&fixture, 1, MR_STRING);
    GIVES(mr_emit(&fixture.s, "FixedLengthRecordDataset", path("f"), i64(1), i64(3), i64(1), i64(0)), "abc def");
    GIVES(mr_emit(&fixture.s, "FixedLengthRecordDataset", path("f"), i64(0), i64(3), i64(1), i64(0)),
          " !INVALID_ARGUMENT Excluding the header (0 bytes) and footer (1 bytes)");
    end();
}

MR_TEST(dataset_keys_and_values_of_lmdb_files)
{
    mr_lmdb_writer w;
    char *p = mr_printf("%s/l", mr_test_dir());
    begin();
    mr_lmdb_writer_open(&w, p, 0);
    mr_lmdb_put(&w, MR_SV("k2"), MR_SV("v2"));
    mr_lmdb_put(&w, MR_SV("k1"), MR_SV("v1"));
    mr_lmdb_commit(&w, false);
    mr_lmdb_writer_close(&w);
    mr_dataset_fixture_types(&fixture, 2, MR_STRING, MR_STRING);
    GIVES(mr_dataset_fixture_op(&fixture, "LMDBDataset", path("l")), "k1,v1 k2,v2");
    GIVES(mr_dataset_fixture_op(&fixture, "LMDBDataset", path("none")), " !INVALID_ARGUMENT");
    mr_free(p);
    end();
}

static void write_and_read(const char *compression)
{
    mr_out words = mr_const(&fixture.s, mr_tensor_vector_str(3, (const char *[]){"x", "yy", ""}));
    static const int strings[] = {MR_STRING};
    mr_out d = mr_emit_with(&fixture.s, "TensorSliceDataset", MR_ATTRS({"Toutput_types", mr_a_types(1, strings)},
                                                                   {"output_shapes", mr_a_shapes(1, unknown)}), words);
    mr_out c = mr_const_str(&fixture.s, compression);
    mr_node *written = mr_emit(&fixture.s, "DatasetToTFRecord", d, path("r"), c).node;
    MR_CHECK_OK(mr_scope_status(&fixture.s));
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, written ? written : fixture.g->nodes.p[fixture.g->nodes.n - 1]));
    mr_dataset_fixture_types(&fixture, 1, MR_STRING);
    GIVES(mr_emit(&fixture.s, "TFRecordDataset", path("r"), c, i64(0)), "x yy ");
}

MR_TEST(dataset_records_are_written_and_read)
{
    begin();
    write_and_read("");
    write_and_read("ZLIB");
    write_and_read("GZIP");
    end();
}

MR_TEST(dataset_names_of_files)
{
    begin();
    write_file("m1.txt", "", 0);
    write_file("m2.txt", "", 0);
    mr_dataset_fixture_types(&fixture, 1, MR_STRING);
    mr_str got = {0};
    mr_dataset_fixture_elements(&fixture, mr_emit(&fixture.s, "MatchingFilesDataset", path("m*.txt")), 9, &got);
    const char *first = strstr(mr_str_z(&got), "m1.txt"), *second = strstr(mr_str_z(&got), "m2.txt");
    MR_CHECK(first && second && first < second);
    mr_str_deinit(&got);
    end();
}

/* ---- caches ---- */

/* Counts how often it is called. */
static void def_counted(void)
{
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_out v = mr_emit0_with(&b.s, "VarHandleOp", MR_ATTRS({"dtype", mr_a_type(MR_INT64)}, {"shape", mr_a_shape(&mr_pshape_scalar)},
                                                           {"shared_name", mr_a_str("count")}));
    mr_emit(&b.s, "AssignAddVariableOp", v, mr_const_i64(&b.s, 1));
    mr_dbody_end(&b, &fixture, "Counted", MR_OUTS(mr_emit(&b.s, "Identity", b.args[0])));
}

static mr_out counter(void)
{
    return mr_emit0_with(&fixture.s, "VarHandleOp", MR_ATTRS({"dtype", mr_a_type(MR_INT64)}, {"shape", mr_a_shape(&mr_pshape_scalar)},
                                                         {"shared_name", mr_a_str("count")}));
}

static void run_last(void)
{
    MR_CHECK_OK(mr_scope_status(&fixture.s));
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, fixture.g->nodes.p[fixture.g->nodes.n - 1]));
}

static void epochs_of_a_cache(mr_out name)
{
    def_counted();
    mr_out count = counter();
    mr_emit(&fixture.s, "AssignVariableOp", count, i64(0));
    run_last();
    mr_out d = mr_dataset_fixture_fn(&fixture, "MapDataset", "Counted", range(0, 4), NULL, 0, NULL, 0);
    d = mr_dataset_fixture_op(&fixture, "CacheDataset", d, name);
    GIVES(mr_dataset_fixture_op(&fixture, "RepeatDataset", d, i64(3)), "0 1 2 3 0 1 2 3 0 1 2 3");
    check_value(mr_emit_with(&fixture.s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_INT64)}), count), "4");
}

MR_TEST(dataset_cache_in_memory_reads_its_input_once)
{
    begin();
    epochs_of_a_cache(mr_const_str(&fixture.s, ""));
    end();
}

MR_TEST(dataset_cache_in_files_reads_its_input_once)
{
    begin();
    epochs_of_a_cache(path("cache"));
    GIVES(mr_dataset_fixture_op(&fixture, "CacheDataset", range(50, 90), path("cache")),
          "0 1 2 3"); /* as another process would */
    end();
}

/* ---- variables ---- */

MR_TEST(dataset_function_reads_a_variable)
{
    begin();
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    b.args[1] = mr_placeholder(&b.s, MR_RESOURCE, "v", NULL);
    b.n_args = 2;
    mr_out value = mr_emit_with(&b.s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_INT64)}), b.args[1]);
    mr_dbody_end(&b, &fixture, "AddVariable", MR_OUTS(mr_emit(&b.s, "AddV2", b.args[0], value)));
    mr_out v = counter();
    mr_emit(&fixture.s, "AssignVariableOp", v, i64(100));
    run_last();
    GIVES(mr_dataset_fixture_fn(&fixture, "MapDataset", "AddVariable", range(0, 3), &v, 1, NULL, 0), "100 101 102");
    GIVES(mr_dataset_fixture_fn(&fixture, "ParallelMapDatasetV2", "AddVariable", range(0, 3), &v, 1, MR_OUTS(i64(2))),
          "100 101 102");
    end();
}

/* ---- datasets made by functions ---- */

MR_TEST(dataset_one_shot_iterator)
{
    begin();
    mr_dbody b = mr_dbody_new(&fixture, 0, MR_INT64);
    mr_out d = mr_emit_with(&b.s, "RangeDataset", MR_ATTRS(INT64_TYPES), mr_const_i64(&b.s, 5), mr_const_i64(&b.s, 7),
                            mr_const_i64(&b.s, 1));
    mr_dbody_end(&b, &fixture, "Make", &d, 1);
    mr_func_ref f = {"Make", 0, NULL};
    mr_out i = mr_emit0_with(&fixture.s, "OneShotIterator", MR_ATTRS({"dataset_factory", {MR_ATTR_FUNC, .func = &f}}, INT64_TYPES));
    mr_out next = mr_dataset_fixture_ds(&fixture, "IteratorGetNext", NULL, 0, &i, 1);
    check_value(next, "5");
    check_value(next, "6");
    mr_str got = {0};
    MR_CHECK_ERR(mr_dataset_fixture_get(&fixture, next, &got), MR_OUT_OF_RANGE, "End of sequence");
    end();
}

MR_TEST(dataset_as_a_graph_and_back)
{
    begin();
    mr_dbody b = mr_dbody_new(&fixture, 2, MR_INT64);
    mr_dbody_end(&b, &fixture, "Times", MR_OUTS(mr_emit(&b.s, "Mul", b.args[0], b.args[1])));
    mr_out seven = i64(7), d = mr_dataset_fixture_fn(&fixture, "MapDataset", "Times", range(0, 5), &seven, 1, NULL, 0);
    d = mr_dataset_fixture_op(&fixture, "BatchDataset", d, i64(2));
    mr_out text = mr_emit(&fixture.s, "DatasetToGraphV2", d);
    GIVES(mr_emit(&fixture.s, "DatasetFromGraph", text), "[0 7] [14 21] [28]");
    mr_out again = mr_emit(&fixture.s, "DatasetFromGraph", mr_emit(&fixture.s, "DatasetToGraphV2", mr_emit(&fixture.s, "DatasetFromGraph", text)));
    GIVES(again, "[0 7] [14 21] [28]");
    mr_str a = {0}, c = {0}, e = {0};
    MR_CHECK_OK(mr_dataset_fixture_get(&fixture, mr_emit(&fixture.s, "DatasetFingerprint", range(0, 3)), &a));
    MR_CHECK_OK(mr_dataset_fixture_get(&fixture, mr_emit(&fixture.s, "DatasetFingerprint", range(0, 3)), &c));
    MR_CHECK_OK(mr_dataset_fixture_get(&fixture, mr_emit(&fixture.s, "DatasetFingerprint", range(0, 4)), &e));
    MR_CHECK_STR(mr_str_z(&a), mr_str_z(&c));
    MR_CHECK(strcmp(mr_str_z(&a), mr_str_z(&e)) != 0);
    mr_str_deinit(&a);
    mr_str_deinit(&c);
    mr_str_deinit(&e);
    end();
}

/* ---- the place of an iterator ---- */

MR_TEST(dataset_iterator_goes_on_where_it_was)
{
    begin();
    mr_diter i = mr_dataset_fixture_iterator(
        &fixture, mr_dataset_fixture_op(&fixture, "ShuffleDataset", range(0, 20), i64(8), i64(3), i64(4)));
    mr_out place = mr_emit(&fixture.s, "SerializeIterator", i.iterator);
    mr_str before = {0}, after = {0};
    mr_tensor *saved = NULL;
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
    for (int k = 0; k < 5; k++)
        MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &before));
    mr_str_clear(&before);
    MR_CHECK_OK(mr_session_run(fixture.session, &(mr_run_args){.fetches = &place, .fetched = &saved, .n_fetches = 1}, NULL, NULL));
    for (int k = 0; k < 3; k++)
        MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &before));
    mr_out fed = mr_placeholder(&fixture.s, MR_VARIANT, "place", NULL);
    mr_emit(&fixture.s, "DeserializeIterator", i.iterator, fed);
    mr_node *back = fixture.g->nodes.p[fixture.g->nodes.n - 1];
    MR_CHECK_OK(mr_session_run(fixture.session, &(mr_run_args){.feeds = &fed, .feed_values = &saved, .n_feeds = 1, .targets = &back,
                                                           .n_targets = 1}, NULL, NULL));
    for (int k = 0; k < 3; k++)
        MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &after));
    MR_CHECK_STR(mr_str_z(&after), mr_str_z(&before));
    mr_tensor_unref(saved);
    mr_str_deinit(&before);
    mr_str_deinit(&after);
    end();
}

/* ---- groups ---- */

static void def_key(const char *name, int64_t modulus)
{
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, name, MR_OUTS(mr_emit(&b.s, "FloorMod", b.args[0], mr_const_i64(&b.s, modulus))));
}

MR_TEST(dataset_groups_by_window)
{
    begin();
    def_key("Mod2", 2);
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64); /* windows of 3 for key 0, of 2 for key 1 */
    mr_dbody_end(&b, &fixture, "SizeOf", MR_OUTS(mr_emit(&b.s, "Sub", mr_const_i64(&b.s, 3), b.args[0])));
    b = mr_dbody_new(&fixture, 1, MR_INT64);
    b.args[1] = mr_placeholder(&b.s, MR_VARIANT, "d", NULL);
    b.n_args = 2;
    mr_dbody_end(&b, &fixture, "BatchOf", MR_OUTS(mr_emit_with(&b.s, "BatchDataset", MR_ATTRS(INT64_TYPES), b.args[1], mr_const_i64(&b.s, 9))));
    mr_func_ref key = {"Mod2", 0, NULL}, reduce = {"BatchOf", 0, NULL}, size = {"SizeOf", 0, NULL};
    mr_named_attr attrs[] = {{"key_func", {MR_ATTR_FUNC, .func = &key}}, {"reduce_func", {MR_ATTR_FUNC, .func = &reduce}},
                             {"window_size_func", {MR_ATTR_FUNC, .func = &size}},
                             {"Tkey_func_other_arguments", mr_a_types(0, int64s)},
                             {"Treduce_func_other_arguments", mr_a_types(0, int64s)},
                             {"Twindow_size_func_other_arguments", mr_a_types(0, int64s)}, INT64_TYPES};
    mr_out d = range(0, 9);
    mr_emit_arg args[] = {{-1, &d}, {0, NULL}, {0, NULL}, {0, NULL}};
    GIVES(mr_emit_lists(&fixture.s, "GroupByWindowDataset", attrs, 8, args, 4), "[1 3] [0 2 4] [5 7] [6 8]");
    end();
}

MR_TEST(dataset_groups_by_reducer)
{
    begin();
    def_key("Mod3", 3);
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, "Begin", MR_OUTS(mr_emit(&b.s, "Mul", b.args[0], mr_const_i64(&b.s, 1000)), mr_emit(&b.s, "Sub", b.args[0], b.args[0])));
    b = mr_dbody_new(&fixture, 3, MR_INT64); /* sum, count, element */
    mr_dbody_end(&b, &fixture, "Add2", MR_OUTS(mr_emit(&b.s, "AddV2", b.args[0], b.args[2]),
                                           mr_emit(&b.s, "AddV2", b.args[1], mr_const_i64(&b.s, 1))));
    b = mr_dbody_new(&fixture, 2, MR_INT64);
    mr_dbody_end(&b, &fixture, "Both",
                 MR_OUTS(mr_emit(&b.s, "Identity", b.args[0]), mr_emit(&b.s, "Identity", b.args[1])));
    mr_func_ref f[] = {{"Mod3", 0, NULL}, {"Begin", 0, NULL}, {"Add2", 0, NULL}, {"Both", 0, NULL}};
    mr_named_attr attrs[] = {{"key_func", {MR_ATTR_FUNC, .func = &f[0]}}, {"init_func", {MR_ATTR_FUNC, .func = &f[1]}},
                             {"reduce_func", {MR_ATTR_FUNC, .func = &f[2]}}, {"finalize_func", {MR_ATTR_FUNC, .func = &f[3]}},
                             {"Tkey_func_other_arguments", mr_a_types(0, int64s)}, {"Tinit_func_other_arguments", mr_a_types(0, int64s)},
                             {"Treduce_func_other_arguments", mr_a_types(0, int64s)},
                             {"Tfinalize_func_other_arguments", mr_a_types(0, int64s)},
                             {"output_types", mr_a_types(2, int64s)}, {"output_shapes", mr_a_shapes(2, unknown)}};
    mr_out d = range(0, 7);
    mr_emit_arg args[] = {{-1, &d}, {0, NULL}, {0, NULL}, {0, NULL}, {0, NULL}};
    mr_dataset_fixture_types(&fixture, 2, MR_INT64, MR_INT64);
    GIVES(mr_emit_lists(&fixture.s, "GroupByReducerDataset", attrs, 10, args, 5), "9,3 1005,2 2007,2");
    end();
}

MR_TEST(dataset_generator)
{
    begin();
    mr_dbody b = mr_dbody_new(&fixture, 0, MR_INT64);
    mr_out v = mr_emit0_with(&b.s, "VarHandleOp", MR_ATTRS({"dtype", mr_a_type(MR_INT64)}, {"shape", mr_a_shape(&mr_pshape_scalar)},
                                                           {"shared_name", mr_a_str("count")}));
    (void)v;
    mr_dbody_end(&b, &fixture, "Start", MR_OUTS(mr_const_i64(&b.s, 40)));
    b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, "NextOne", MR_OUTS(mr_emit(&b.s, "AddV2", b.args[0], mr_const_i64(&b.s, 2))));
    b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, "Last", MR_OUTS(mr_emit(&b.s, "Identity", b.args[0])));
    mr_func_ref f[] = {{"Start", 0, NULL}, {"NextOne", 0, NULL}, {"Last", 0, NULL}};
    mr_named_attr attrs[] = {{"init_func", {MR_ATTR_FUNC, .func = &f[0]}}, {"next_func", {MR_ATTR_FUNC, .func = &f[1]}},
                             {"finalize_func", {MR_ATTR_FUNC, .func = &f[2]}}, {"Tinit_func_args", mr_a_types(0, int64s)},
                             {"Tnext_func_args", mr_a_types(0, int64s)}, {"Tfinalize_func_args", mr_a_types(0, int64s)}, INT64_TYPES};
    mr_emit_arg args[] = {{0, NULL}, {0, NULL}, {0, NULL}};
    mr_out d = mr_emit_lists(&fixture.s, "GeneratorDataset", attrs, 8, args, 3);
    GIVES(mr_dataset_fixture_op(&fixture, "TakeDataset", d, i64(3)), "42 42 42");
    end();
}

/* ---- what elements are made of ---- */

MR_TEST(dataset_records_of_comma_separated_values)
{
    static const int types[] = {MR_INT64, MR_STRING};
    begin();
    write_file("c", "x,y\n1,\"a,\nb\"\r\n,c\n", 17);
    mr_out defaults[] = {i64(7), mr_const(&fixture.s, mr_tensor_vector_str(0, NULL))};
    mr_out one[] = {path("c"),
                    mr_const_str(&fixture.s, ""),
                    i64(100),
                    mr_dataset_fixture_bool(&fixture, true),
                    mr_const_str(&fixture.s, ","),
                    mr_dataset_fixture_bool(&fixture, true),
                    mr_const_str(&fixture.s, ""),
                    mr_const(&fixture.s, mr_tensor_vector_i64(0, NULL))};
    mr_emit_arg args[9];
    for (int i = 0; i < 8; i++)
        args[i] = (mr_emit_arg){-1, &one[i]};
    args[8] = (mr_emit_arg){2, defaults};
    mr_dataset_fixture_types(&fixture, 2, MR_INT64, MR_STRING);
    mr_named_attr attrs[] = {{"output_types", mr_a_types(2, types)}, {"output_shapes", mr_a_shapes(2, unknown)}};
    GIVES(mr_emit_lists(&fixture.s, "CSVDataset", attrs, 2, args, 9), "1,a,\\nb 7,c");
    end();
}

MR_TEST(dataset_dense_to_sparse)
{
    begin();
    mr_out d = mr_dataset_fixture_op(&fixture, "BatchDataset", range(1, 6), i64(3));
    mr_dataset_fixture_types(&fixture, 1, MR_VARIANT);
    d = mr_dataset_fixture_op(&fixture, "DenseToSparseBatchDataset", d, i64(2), mr_const(&fixture.s, mr_tensor_vector_i64(1, (int64_t[]){4})));
    mr_out e = mr_dataset_fixture_op(&fixture, "DatasetToSingleElement", d);
    mr_out s = mr_emit_with(&fixture.s, "DeserializeSparse", MR_ATTRS({"Tserialized", mr_a_type(MR_VARIANT)}, {"dtype", mr_a_type(MR_INT64)}), e);
    check_value(s, "[[0 0][0 1][0 2][1 0][1 1]]");
    check_value(mr_nth(s, 1), "[1 2 3 4 5]");
    check_value(mr_nth(s, 2), "[2 4]");
    end();
}

MR_TEST(dataset_gradients_go_through_optionals)
{
    static const int types[] = {MR_FLOAT, MR_FLOAT};
    begin();
    mr_out x = mr_const_f32(&fixture.s, 3), y = mr_const_f32(&fixture.s, 5);
    mr_out o = mr_emit(&fixture.s, "OptionalFromValue", mr_emit(&fixture.s, "Mul", x, y), x);
    mr_out v = mr_emit_with(&fixture.s, "OptionalGetValue", MR_ATTRS({"output_types", mr_a_types(2, types)},
                                                                 {"output_shapes", mr_a_shapes(2, unknown)}), o);
    mr_out z = mr_emit(&fixture.s, "Mul", v, v), xs[] = {x, y};
    mr_gradient dx[2];
    MR_CHECK_OK(mr_scope_status(&fixture.s));
    MR_CHECK_OK(mr_graph_gradients(fixture.g, &z, 1, xs, 2, NULL, dx));
    check_value(dx[0].dense, "150"); /* 2 x y^2; the second value is not used */
    check_value(dx[1].dense, "90");
    end();
}
