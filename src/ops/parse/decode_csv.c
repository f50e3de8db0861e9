/* ops/parse/decode_csv.c -- DecodeCSV: decodes records of comma-separated values to one tensor per column.
 *
 * A field that is empty, or equal to na_value, is missing: it gets the column's default.  A column whose
 * default is an empty tensor is required. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/parse/csv.h"
#include "ops/string/strings.h"

typedef struct state {
    mr_csv csv;
    mr_sv na; /* a field with this text is missing, as an empty one is */
} state;

/* The columns must be ascending, so that reading a record can stop after the last wanted one. */
static mr_status *check_columns(const mr_attr *cols, int n_out)
{
    if (cols->n != 0 && cols->n != n_out)
        return mr_invalid("select_cols should match output size: %d and %d", cols->n, n_out);
    for (int i = 0; i < cols->n; i++) {
        if (cols->is[i] < 0)
            return mr_invalid("select_cols should be non-negative indices, not %lld",
                              (long long)cols->is[i]);
        if (i > 0 && cols->is[i] <= cols->is[i - 1])
            return mr_invalid("select_cols should be strictly increasing indices");
    }
    return NULL;
}

static mr_status *init_decode_csv(mr_make *m, void *p)
{
    state *s = p;
    mr_sv delim;
    const mr_attr *cols;
    MR_TRY(mr_node_get_str(m->node, "field_delim", &delim));
    MR_TRY(mr_node_get_bool(m->node, "use_quote_delim", &s->csv.quotes));
    MR_TRY(mr_node_get_str(m->node, "na_value", &s->na));
    MR_TRY(mr_node_get_list(m->node, "select_cols", MR_ATTR_INT, &cols));
    if (delim.n != 1)
        return mr_invalid("field_delim should be only 1 char");
    MR_TRY(check_columns(cols, m->node->n_out));
    s->csv.delim = delim.p[0];
    s->csv.n_cols = cols->n;
    s->csv.cols = cols->is;
    return NULL;
}

static mr_status *check_defaults(const mr_run *r)
{
    for (int i = 0; i < r->n_out; i++) {
        const mr_tensor *t = mr_in(r, 1 + i);
        if (t->rank > 1 || t->n > 1)
            return mr_invalid("There should only be 1 default per field but field %d has shape %s", i,
                              MR_TENSOR_SHAPE(t));
    }
    return NULL;
}

/* Stores the field of column k of record i. */
static mr_status *put_field(mr_run *r, int k, int64_t i, mr_sv field, mr_tensor *out)
{
    const state *s = r->state;
    const mr_tensor *deflt = mr_in(r, 1 + k);
    if (field.n == 0 || mr_sv_eq(field, s->na))
        return deflt->n == 1 ? mr_tensor_try_copy_elements(out, i, deflt, 0, 1)
                             : mr_invalid("Field %d is required but missing in record %lld!", k,
                                          (long long)i);
    if (out->dtype == MR_STRING)
        return mr_tensor_set_str(out, i, field);
    if (mr_string_to_number(field, out, i))
        return NULL;
    return mr_invalid("Field %d in record %lld is not a valid %s: %.*s", k, (long long)i,
                      mr_dtype_name((mr_dtype)out->dtype), (int)MR_MIN(field.n, 200), field.p);
}

static mr_status *put_record(mr_run *r, int64_t i, mr_csv_fields *fields, mr_tensor **out)
{
    const state *s = r->state;
    MR_TRY(mr_csv_split(&s->csv, mr_tensor_str_at(mr_in(r, 0), i), fields));
    if (fields->ends.n != r->n_out)
        return mr_invalid("Expect %d fields but have %d in record %lld", r->n_out, fields->ends.n,
                          (long long)i);
    for (int k = 0; k < r->n_out; k++)
        MR_TRY(put_field(r, k, i, mr_csv_field(fields, k), out[k]));
    return NULL;
}

static mr_status *decode_csv(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor **out = mr_new_array(mr_tensor *, r->n_out + 1);
    mr_csv_fields fields = {0};
    mr_status *st = NULL;
    MR_GO(check_defaults(r));
    for (int k = 0; k < r->n_out; k++)
        MR_GO(mr_run_output(r, k, in->rank, in->dims, &out[k]));
    for (int64_t i = 0; i < in->n; i++)
        MR_GO(put_record(r, i, &fields, out));
out:
    mr_csv_fields_deinit(&fields);
    mr_free(out);
    return st;
}

static mr_status *csv_shape(mr_infer *c)
{
    for (int i = 1; i < c->n_in; i++) {
        const mr_pshape *ignored, *s = c->in[i];
        MR_TRY(mr_infer_rank_at_most(c, s, 1, &ignored));
        if (s->rank == 1 && s->dims[0] > 1)
            return mr_invalid("Shape of a default must be a length-0 or length-1 vector, or a scalar.");
    }
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = c->in[0];
    return NULL;
}

#define IS "OUT_TYPE=[int32, string]: "
#define IS_(attrs) "OUT_TYPE=[int32, string] " attrs ": "
#define NO_DEFAULTS "(int32 shape(0), string shape(0))"

MR_OP(DecodeCSV,
    .doc      = "decodes records of comma-separated values to one tensor per column",
    .sig      = "records: string, record_defaults: OUT_TYPE -> output: OUT_TYPE",
    .attrs    = "OUT_TYPE: list({float, double, int32, int64, string}) >= 1; "
                "field_delim: string = \",\"; use_quote_delim: bool = true; na_value: string = \"\"; "
                "select_cols: list(int) = []",
    .flags    = MR_NO_GRADIENT,
    .shape    = csv_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(decode_csv)),
    .state_bytes = sizeof(state), .init = init_decode_csv,
    .examples = MR_EXAMPLES(
        "OUT_TYPE=[float]: [\"1\", \"2\"], (float shape(0)) -> float[1, 2]",
        IS "[\"1,a\", \"2,b\"], " NO_DEFAULTS " -> int32[1, 2], [\"a\", \"b\"]",
        IS "[\"1,\\\"a,\\\"\\\"b\\\"\\\"\\n\\\"\"], " NO_DEFAULTS " -> int32[1], [\"a,\\\"b\\\"\\n\"]",
        IS "[[\",\"], [\"\\\"\\\",\"]], (int32 7, [\"none\"]) -> int32[[7], [7]], [[\"none\"], [\"none\"]]",
        IS_("na_value=\"NA\"") "[\"NA,NA\", \"1,x\"], (int32 7, \"none\") -> int32[7, 1], [\"none\", \"x\"]",
        IS_("field_delim=\";\" use_quote_delim=false") "\"1;\\\"a,\\\"\", " NO_DEFAULTS
                                                       " -> int32 1, \"\\\"a,\\\"\"",
        IS_("select_cols=[1, 3]") "\"0,1,2,c,4\", " NO_DEFAULTS " -> int32 1, \"c\"",
        "OUT_TYPE=[float, double, int64]: \"1.5, -2e3 ,-9223372036854775808\", "
        "(float shape(0), double shape(0), int64 shape(0)) -> float 1.5, double -2000, "
        "int64 -9223372036854775808",
        IS "\"\\n1,a\", " NO_DEFAULTS " -> int32 1, \"a\"",
        IS "shape(0), " NO_DEFAULTS " -> int32 shape(0), string shape(0)",
        IS "\"1\", " NO_DEFAULTS " -> !INVALID_ARGUMENT Expect 2 fields but have 1 in record 0",
        IS "\"\", " NO_DEFAULTS " -> !INVALID_ARGUMENT Expect 2 fields but have 0 in record 0",
        IS "\",a\", " NO_DEFAULTS " -> !INVALID_ARGUMENT Field 0 is required but missing in record 0!",
        IS "\"1.5,a\", " NO_DEFAULTS " -> !INVALID_ARGUMENT Field 0 in record 0 is not a valid int32: 1.5",
        IS "\"1,a\\\"b\", " NO_DEFAULTS " -> !INVALID_ARGUMENT Unquoted fields cannot have quotes/CRLFs "
           "inside",
        IS "\"1,\\\"a\\\"b\", " NO_DEFAULTS " -> !INVALID_ARGUMENT Quote inside a string has to be escaped",
        IS "\"1,\\\"a\", " NO_DEFAULTS " -> !INVALID_ARGUMENT Quoted field has to end with quote followed "
           "by delim or end",
        IS "\"1,a\", (int32[1, 2], \"\") -> !INVALID_ARGUMENT Shape of a default must be",
        IS_("field_delim=\"ab\"") "\"1,a\", " NO_DEFAULTS " -> !INVALID_ARGUMENT field_delim should be only",
        IS_("select_cols=[3, 1]") "\"1,a\", " NO_DEFAULTS " -> !INVALID_ARGUMENT select_cols should be "
                                  "strictly increasing indices",
        IS_("select_cols=[1]") "\"1,a\", " NO_DEFAULTS " -> !INVALID_ARGUMENT select_cols should match "
                               "output size"));
