/* ops/table/table_shape_test.c -- the shape of a table's values, which its handle carries. */
#include "graph/infer.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "tests/harness/test.h"

static void check_lookup(const char *table, const mr_pshape *keys, const char *found, const char *exported)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_ops_register();
    mr_scope_init(&s, g, "");
    const mr_pshape *value = mr_pshape_vector(&g->arena, 3);
    mr_named_attr attrs[] = {
        {"key_dtype", mr_a_type(MR_INT64)}, {"value_dtype", mr_a_type(MR_FLOAT)}, {"value_shape", mr_a_shape(value)}};
    mr_named_attr out[] = {{"Tkeys", mr_a_type(MR_INT64)}, {"Tvalues", mr_a_type(MR_FLOAT)}};
    bool dense = strstr(table, "Dense") != NULL;
    mr_out key = mr_const_i64(&s, 0), other = mr_const_i64(&s, 1);
    mr_out h =
        mr_emit_n(&s, table, attrs, strstr(table, "Tensors") || dense ? 3 : 2, (mr_out[]){key, other}, dense ? 2 : 0);
    mr_out values =
        mr_emit(&s, "LookupTableFindV2", h, mr_placeholder(&s, MR_INT64, "keys", keys), mr_const_f32(&s, 0));
    mr_out all = mr_emit_n(&s, "LookupTableExportV2", out, 2, &h, 1);
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_STR(MR_PSHAPE_TEXT(mr_out_shape(values)), found);
    MR_CHECK_STR(MR_PSHAPE_TEXT(mr_out_shape(mr_nth(all, 1))), exported);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

MR_TEST(table_values_have_the_shape_in_the_handle)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    const mr_pshape *keys = mr_pshape_matrix(&a, 2, -1);
    check_lookup("MutableDenseHashTableV2", keys, "[2,?,3]", "[?,3]");
    check_lookup("MutableHashTableOfTensorsV2", keys, "[2,?,3]", "[?,3]");
    check_lookup("MutableHashTableV2", keys, "[2,?]", "[?]");
    check_lookup("HashTableV2", keys, "<unknown>", "<unknown>");
    check_lookup("MutableDenseHashTableV2", &mr_pshape_unknown, "<unknown>", "[?,3]");
    mr_arena_deinit(&a);
}
