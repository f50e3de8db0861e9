/* tests/fuzz/proto.c -- mutated messages for every message decoder.
 *
 * Accepted messages are encoded again, decoded, and printed; repeated results must be the same. */
#include "base/memory.h"
#include "exec/session.h"
#include "graph/library.h"
#include "ops/table.h"
#include "proto/config.pb-c.h"
#include "proto/event.pb-c.h"
#include "proto/graph.pb-c.h"
#include "proto/saved_model.pb-c.h"
#include "proto/tensor.pb-c.h"
#include "store/bundle_proto.h"
#include "store/slice.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"
#include "wire/message.h"
#include "wire/text_format.h"

enum { MOST_BYTES = 1 << 22 }; /* of a tensor: a few bytes may legally represent gigabytes */

/* ---- readers: true when the bytes were accepted ---- */

/* Frees the status; true if it was NULL. */
static bool fine(mr_status *st)
{
    mr_status_free(st);
    return !st;
}

static void must_equal(const mr_str *a, const mr_str *b, const char *what)
{
    if (!mr_sv_eq(mr_str_view(a), mr_str_view(b)))
        fuzz_fail("%s: written twice, %zu and %zu bytes differ", what, a->n, b->n);
}

static bool read_config(mr_sv bytes)
{
    mr_session_config c;
    return fine(mr_session_config_parse(bytes, &c));
}

static bool read_run_options(mr_sv bytes)
{
    mr_run_options o;
    return fine(mr_run_options_parse(bytes, &o));
}

static void tensor_again(const mr_tensor *t)
{
    mr_str bytes = {0};
    mr_tensor *back;
    if (!fine(mr_tensor_encode(t, &bytes)))
        return;
    fuzz_must(mr_tensor_decode(NULL, mr_str_view(&bytes), &back), "a tensor that was just written");
    if (!mr_tensor_equal(t, back))
        fuzz_fail("TensorProto: %s%s differs after a round trip", mr_dtype_name(t->dtype),
                  MR_TENSOR_SHAPE(t));
    mr_tensor_unref(back);
    mr_str_deinit(&bytes);
}

static bool read_tensor(mr_sv bytes)
{
    mr_tensor *t;
    mr_str text = {0};
    mr_allocator *budget = mr_budget_new(NULL, "fuzz", MOST_BYTES);
    bool ok = fine(mr_tensor_decode(budget, bytes, &t));
    if (ok) {
        tensor_again(t);
        mr_tensor_summarize(t, 10, &text);
        mr_tensor_unref(t);
    }
    mr_str_deinit(&text);
    mr_budget_free(budget);
    return ok;
}

static bool read_shape(mr_sv bytes)
{
    mr_arena a;
    const mr_pshape *p, *q;
    mr_shape s;
    mr_str out = {0};
    mr_arena_init(&a, 0);
    bool ok = fine(mr_pshape_decode(&a, bytes, &p));
    if (ok) {
        mr_pshape_encode(p, &out);
        fuzz_must(mr_pshape_decode(&a, mr_str_view(&out), &q), "a shape that was just written");
        if (!mr_pshape_eq(p, q))
            fuzz_fail("TensorShapeProto: differs after a round trip");
    }
    (void)fine(mr_shape_decode(bytes, &s));
    mr_str_deinit(&out);
    mr_arena_deinit(&a);
    return ok;
}

static bool read_handle(mr_sv bytes)
{
    mr_handle *h, *again;
    mr_str out = {0}, twice = {0};
    if (!fine(mr_handle_decode(bytes, &h)))
        return false;
    mr_handle_encode(h, &out);
    fuzz_must(mr_handle_decode(mr_str_view(&out), &again), "a handle that was just written");
    mr_handle_encode(again, &twice);
    must_equal(&out, &twice, "ResourceHandleProto");
    mr_object_unref(&h->base);
    mr_object_unref(&again->base);
    mr_str_deinit(&out);
    mr_str_deinit(&twice);
    return true;
}

static bool read_attr(mr_sv bytes)
{
    mr_arena a;
    mr_attr v, w;
    mr_str out = {0}, text = {0};
    mr_arena_init(&a, 0);
    bool ok = fine(mr_attr_decode(&a, bytes, &v));
    if (ok && fine(mr_attr_encode(&v, &out))) {
        fuzz_must(mr_attr_decode(&a, mr_str_view(&out), &w), "an attr that was just written");
        mr_attr_print(&text, &v);
        (void)mr_attr_hash(&v, 1);
        (void)mr_attr_eq(&v, &w); /* not always: NaN */
    }
    mr_str_deinit(&text);
    mr_str_deinit(&out);
    mr_arena_deinit(&a);
    return ok;
}

static bool read_op_def(mr_sv bytes)
{
    mr_arena a;
    mr_op_def d, again;
    mr_str out = {0}, twice = {0}, text = {0};
    mr_arena_init(&a, 0);
    bool ok = fine(mr_op_def_decode(&a, bytes, &d));
    if (ok) {
        mr_op_def_print(&text, &d);
        mr_op_def_encode(&d, &out);
        fuzz_must(mr_op_def_decode(&a, mr_str_view(&out), &again),
                  "an OpDef that was just written");
        mr_op_def_encode(&again, &twice);
        must_equal(&out, &twice, "OpDef");
    }
    mr_str_deinit(&text);
    mr_str_deinit(&out);
    mr_str_deinit(&twice);
    mr_arena_deinit(&a);
    return ok;
}

static void function_again(const mr_function *f)
{
    mr_function *back;
    mr_str out = {0}, twice = {0};
    if (fine(mr_function_encode(f, &out))) {
        fuzz_must(mr_function_decode(mr_str_view(&out), &back), "a function that was just written");
        fuzz_must(mr_function_encode(back, &twice), "a function that was just read");
        must_equal(&out, &twice, "FunctionDef");
        mr_function_unref(back);
    }
    mr_str_deinit(&out);
    mr_str_deinit(&twice);
}

static void instantiate(const mr_library *l, const mr_function *f)
{
    static const mr_named_attr attrs[] = {{"N", {MR_ATTR_INT, .i = 2}},
                                          {"T", {MR_ATTR_TYPE, .type = MR_FLOAT}}};
    mr_body b;
    for (int n = 0; n <= MR_COUNT(attrs); n += MR_COUNT(attrs))
        if (fine(mr_function_instantiate(l, f, attrs, n, &b)))
            mr_body_deinit(&b);
}

static bool read_function(mr_sv bytes)
{
    mr_function *f;
    if (!fine(mr_function_decode(bytes, &f)))
        return false;
    function_again(f);
    mr_library *l = mr_library_new();
    if (fine(mr_library_add(l, f)))
        instantiate(l, f);
    mr_library_free(l);
    mr_function_unref(f);
    return true;
}

static bool read_library(mr_sv bytes)
{
    mr_library *l = mr_library_new();
    mr_str out = {0};
    bool ok = fine(mr_library_decode(bytes, l));
    if (ok && fine(mr_library_encode(l, &out))) {
        mr_library *back = mr_library_new();
        fuzz_must(mr_library_decode(mr_str_view(&out), back), "a library that was just written");
        mr_library_free(back);
    }
    for (int i = 0; ok && i < MR_MIN(mr_library_count(l), 8); i++)
        instantiate(l, mr_library_at(l, i));
    mr_str_deinit(&out);
    mr_library_free(l);
    return ok;
}

static bool read_slice(mr_sv bytes)
{
    mr_slice s;
    mr_str out = {0};
    bool ok = fine(mr_slice_decode(bytes, &s));
    if (ok) {
        mr_slice_print(&s, &out);
        mr_str_clear(&out);
        mr_slice_key(MR_SV("name"), &s, &out);
    }
    mr_str_deinit(&out);
    return ok;
}

static bool read_bundle_header(mr_sv bytes)
{
    mr_bundle_header h;
    return fine(mr_bundle_header_decode(bytes, &h));
}

static bool read_bundle_entry(mr_sv bytes)
{
    mr_bundle_entry e;
    return fine(mr_bundle_entry_decode(bytes, &e, NULL, NULL));
}

/* Any message by its descriptor: unpack, pack, print, parse. */
static bool read_message(const ProtobufCMessageDescriptor *d, mr_sv bytes)
{
    ProtobufCMessage *m, *again;
    mr_str out = {0}, twice = {0}, text = {0};
    if (!fine(mr_message_unpack(d, bytes, "message", &m)))
        return false;
    fuzz_must(mr_message_pack(m, &out), "a message that was just read");
    fuzz_must(mr_message_unpack(d, mr_str_view(&out), "message", &again), "a message just written");
    fuzz_must(mr_message_pack(again, &twice), "a message that was just read");
    must_equal(&out, &twice, d->short_name);
    fuzz_must(mr_text_print(m, &text), "print");
    mr_message_free(again);
    if (fine(mr_text_parse(d, mr_str_view(&text), &again))) /* unknown fields have no names */
        mr_message_free(again);
    (void)fine(mr_message_sort_maps(m));
    mr_message_free(m);
    mr_str_deinit(&out);
    mr_str_deinit(&twice);
    mr_str_deinit(&text);
    return true;
}

/* ---- what there is to read ---- */

typedef struct reader {
    const char *name;
    const ProtobufCMessageDescriptor *d;
    bool (*read)(mr_sv bytes); /* NULL: only read_message */
    const char *seeds[6];
} reader;

#define FUNCTION                                                                                   \
    "signature { name: 'F' input_arg { name: 'x' type_attr: 'T' } input_arg { name: 'xs' "         \
    "type_attr: 'T' number_attr: 'N' } output_arg { name: 'sum' type_attr: 'T' } attr { name: "    \
    "'T' type: 'type' default_value { type: DT_FLOAT } allowed_values { list { type: DT_FLOAT "    \
    "type: DT_INT32 } } } attr { name: 'N' type: 'int' has_minimum: true minimum: 1 } "            \
    "control_output: 'late' is_stateful: true } node_def { name: 'b' op: 'Add' input: 'a:z:0' "    \
    "input: 'xs:1' input: '^c' attr { key: 'T' value { placeholder: 'T' } } } node_def { name: "   \
    "'a' op: 'Add' input: 'x' input: 'xs:0' device: '/cpu:0' attr { key: 'T' value { "             \
    "placeholder: 'T' } } } node_def { name: 'c' op: 'NoOp' input: '^x' attr { key: '_f' value { " \
    "func { name: 'G' attr { key: 'U' value { func { name: 'H' } } } } } } } ret { key: 'sum' "    \
    "value: 'b:z:0' } control_ret { key: 'late' value: 'c' } arg_attr { key: 0 value { attr { "    \
    "key: '_s' value { list { shape { } } } } } } attr { key: 'k' value { b: true } }"

static const reader readers[] = {
    {"TensorProto",
     &tensorflow__tensor_proto__descriptor,
     read_tensor,
     {"dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 2 } } float_val: [1, 2, 3, 4]",
      "dtype: DT_INT32 tensor_shape { dim { size: 3 } } tensor_content: "
      "'\\001\\000\\000\\000\\002\\000\\000\\000\\003\\000\\000\\000'",
      "dtype: DT_STRING tensor_shape { dim { size: 2 } } string_val: 'a' string_val: 'bc'",
      "dtype: DT_HALF tensor_shape { dim { size: 5 } } half_val: [15360, 0]",
      "dtype: DT_COMPLEX64 tensor_shape { } scomplex_val: [1, 2]",
      "dtype: DT_BOOL tensor_shape { dim { size: 4 } } bool_val: true int64_val: 7 uint64_val: 3"}},
    {"TensorShapeProto",
     &tensorflow__tensor_shape_proto__descriptor,
     read_shape,
     {"dim { size: 2 name: 'x' } dim { size: -1 }", "unknown_rank: true"}},
    {"ResourceHandleProto",
     &tensorflow__resource_handle_proto__descriptor,
     read_handle,
     {"device: '/cpu:0' container: 'c' name: 'n' hash_code: 7 maybe_type_name: 't' "
      "dtypes_and_shapes { dtype: DT_FLOAT shape { dim { size: 2 } } }"}},
    {"AttrValue",
     &tensorflow__attr_value__descriptor,
     read_attr,
     {"list { s: 'a' s: 'b' }", "list { i: [1, 2] f: 2.5 b: true type: DT_FLOAT }",
      "func { name: 'F' attr { key: 'x' value { func { name: 'G' attr { key: 'y' value { i: 1 } } "
      "} } } }",
      "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: [1, 2] }",
      "list { shape { dim { size: 3 } } shape { unknown_rank: true } func { name: 'F' } }",
      "list { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } }"}},
    {"OpDef",
     &tensorflow__op_def__descriptor,
     read_op_def,
     {"name: 'Op' input_arg { name: 'x' type_attr: 'T' } input_arg { name: 'n' type: DT_INT32 "
      "is_ref: "
      "true } output_arg { name: 'y' type_list_attr: 'L' } attr { name: 'T' type: 'type' "
      "allowed_values { list { type: DT_FLOAT } } } attr { name: 'L' type: 'list(type)' "
      "has_minimum: "
      "true minimum: 1 } attr { name: 's' type: 'string' default_value { s: 'a' } allowed_values { "
      "list { s: 'a' s: 'b' } } } summary: 'text' is_commutative: true deprecation { version: 9 "
      "explanation: 'why' }"}},
    {"FunctionDef", &tensorflow__function_def__descriptor, read_function, {FUNCTION}},
    {"FunctionDefLibrary",
     &tensorflow__function_def_library__descriptor,
     read_library,
     {"function { " FUNCTION " } gradient { function_name: 'F' gradient_func: 'G' }"}},
    {"ConfigProto",
     &tensorflow__config_proto__descriptor,
     read_config,
     {"device_count { key: 'CPU' value: 2 } intra_op_parallelism_threads: 3 allow_soft_placement: "
      "true graph_options { optimizer_options { opt_level: L0 } place_pruned_graph: true "
      "rewrite_options { constant_folding: OFF } } session_inter_op_thread_pool { num_threads: 2 } "
      "operation_timeout_in_ms: 7 device_filters: '/job:a'"}},
    {"RunOptions",
     &tensorflow__run_options__descriptor,
     read_run_options,
     {"trace_level: FULL_TRACE timeout_in_ms: 5 inter_op_thread_pool: -1 output_partition_graphs: "
      "true"}},
    {"TensorSliceProto",
     &tensorflow__tensor_slice_proto__descriptor,
     read_slice,
     {"extent { start: 1 length: 2 } extent { }", "extent { start: 0 }"}},
    {"BundleHeaderProto",
     &tensorflow__bundle_header_proto__descriptor,
     read_bundle_header,
     {"num_shards: 2 endianness: LITTLE version { producer: 1 }"}},
    {"BundleEntryProto",
     &tensorflow__bundle_entry_proto__descriptor,
     read_bundle_entry,
     {"dtype: DT_FLOAT shape { dim { size: 3 } } shard_id: 1 offset: 8 size: 12 crc32c: 99 slices "
      "{ "
      "extent { start: 1 length: 1 } }"}},
    {"GraphDef",
     &tensorflow__graph_def__descriptor,
     NULL,
     {"node { name: 'a' op: 'Const' attr { key: 'value' value { tensor { dtype: DT_FLOAT } } } } "
      "versions { producer: 9 bad_consumers: 3 } library { function { " FUNCTION " } }"}},
    {"SavedModel",
     &tensorflow__saved_model__descriptor,
     NULL,
     {"saved_model_schema_version: 1 meta_graphs { meta_info_def { tags: 'serve' } graph_def { "
      "node { "
      "name: 'a' op: 'NoOp' } } signature_def { key: 'k' value { inputs { key: 'x' value { name: "
      "'a:0' "
      "dtype: DT_FLOAT } } method_name: 'm' } } collection_def { key: 'v' value { bytes_list { "
      "value: "
      "'x' } } } saver_def { filename_tensor_name: 'f' } asset_file_def { filename: 'f' } }"}},
    {"Event",
     &tensorflow__event__descriptor,
     NULL,
     {"wall_time: 1.5 step: 2 summary { value { tag: 't' simple_value: 3 } value { tag: 'h' histo "
      "{ "
      "min: 1 bucket_limit: [1, 2] bucket: [3, 4] } } }",
      "file_version: 'brain.Event:2'"}},
};

static mr_str seeds[MR_COUNT(readers)][MR_COUNT(readers[0].seeds)];
static int n_seeds[MR_COUNT(readers)];

static void prepare(void)
{
    if (n_seeds[0])
        return;
    mr_ops_register();
    fuzz_must(mr_op_check_all(), "the table of ops");
    for (int i = 0; i < MR_COUNT(readers); i++)
        for (int k = 0; k < MR_COUNT(readers[0].seeds) && readers[i].seeds[k]; k++)
            fuzz_pack_text(readers[i].d, readers[i].seeds[k], &seeds[i][n_seeds[i]++]);
}

static int64_t n_runs(void) { return 300000; }
static int n_counts(void) { return MR_COUNT(readers); }

/* ---- a run ---- */

static void try_bytes(fuzz_run *r, int which, mr_sv bytes)
{
    mr_sv exact = fuzz_exact(bytes);
    const reader *x = &readers[which];
    bool accepted = read_message(x->d, exact);
    if (x->read)
        accepted = x->read(exact);
    r->counts[which] += accepted;
    fuzz_say(r, "%s of %zu bytes: %s", x->name, bytes.n, accepted ? "accepted" : "refused");
    mr_free((void *)(uintptr_t)exact.p);
}

static void mutate(fuzz_rng *r, int which, mr_str *out)
{
    fuzz_tree t, donor;
    const mr_str *a = &seeds[which][fuzz_below(r, (uint64_t)n_seeds[which])];
    const mr_str *b = &seeds[which][fuzz_below(r, (uint64_t)n_seeds[which])];
    fuzz_tree_parse(&t, readers[which].d, mr_str_view(a));
    fuzz_tree_parse(&donor, readers[which].d, mr_str_view(b));
    for (uint64_t k = fuzz_below(r, 5); k > 0; k--)
        fuzz_tree_change(r, &t, &donor, NULL);
    fuzz_tree_write(&t, out);
    for (uint64_t k = fuzz_once_in(r, 5) ? 1 + fuzz_below(r, 3) : 0; k > 0; k--)
        fuzz_damage(r, out);
    fuzz_tree_deinit(&donor);
    fuzz_tree_deinit(&t);
}

static void run(fuzz_run *r)
{
    int which = (int)(r->number % MR_COUNT(readers));
    mr_str bytes = {0};
    mutate(&r->rng, which, &bytes);
    mr_str noted = {0};
    mr_str_printf(&noted, "%c", (char)which);
    mr_str_append(&noted, bytes.p, bytes.n);
    fuzz_note(r, mr_str_view(&noted));
    try_bytes(r, which, mr_str_view(&bytes));
    mr_str_deinit(&noted);
    mr_str_deinit(&bytes);
}

/* The first byte says which reader. */
static void replay(fuzz_run *r, mr_sv input)
{
    if (input.n > 0 && (unsigned char)input.p[0] < MR_COUNT(readers))
        try_bytes(r, (unsigned char)input.p[0], (mr_sv){input.p + 1, input.n - 1});
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    int64_t n = 0;
    for (int i = 0; i < MR_COUNT(readers); i++) {
        n += counts[i];
        if (err && counts[i] == 0 && runs > 100 * MR_COUNT(readers))
            fprintf(err, "fuzz proto: no %s was accepted\n", readers[i].name);
    }
    fprintf(out, "readers %d accepted_percent %.1f", MR_COUNT(readers),
            100.0 * (double)n / (double)runs);
    return true;
}

const fuzz_target fuzz_proto = {.name = "proto",
                                .about = "mutated messages through every reader",
                                .prepare = prepare,
                                .n_runs = n_runs,
                                .n_counts = n_counts,
                                .run = run,
                                .replay = replay,
                                .summary = summary};
