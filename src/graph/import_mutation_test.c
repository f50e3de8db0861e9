/* graph/import_mutation_test.c -- GraphDefs with damaged bytes: an error or a sound graph, never anything
 * else.
 *
 * MILLRACE_MUTATIONS sets how many are tried (tens of millions for a night under sanitizers),
 * MILLRACE_SEED where the random numbers start. */
#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "graph/sample_ops_fixture.h"
#include "proto/graph.pb-c.h"
#include "wire/message.h"
#include "wire/text_format.h"

/* Every kind of attr, a loop, functions with lists and placeholders, gradients, versions. */
static const char seed_text[] =
    "node { name: 'x' op: 'TestSource' attr { key: '_output_shapes' value { list { shape { dim { "
    "size: 3 } } } } } } "
    "node { name: 'm' op: 'Merge' input: 'x' input: 'n' attr { key: 'T' value { type: DT_FLOAT } } "
    "  attr { key: 'N' value { i: 2 } } } "
    "node { name: 'n' op: 'NextIteration' input: 'm' attr { key: 'T' value { type: DT_FLOAT } } } "
    "node { name: 's' op: 'TestSplit' input: 'm' device: '/cpu:0' attr { key: 'n' value { i: 3 } } "
    "  attr { key: 'T' value { type: DT_FLOAT } } } "
    "node { name: 'many' op: 'TestMany' input: 's:2' input: 's:3' input: '^x' "
    "  attr { key: 'Tin' value { list { type: DT_FLOAT type: DT_INT32 } } } "
    "  attr { key: 'Tout' value { list { type: DT_BOOL type: DT_STRING } } } "
    "  attr { key: '_class' value { list { s: 'loc:@x' } } } attr { key: '_f' value { f: 2.5 } } "
    "  attr { key: '_t' value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } "
    "float_val: 1 float_val: 2 } } } } "
    "node { name: 'call' op: 'F' input: 'x' input: 'x' input: 'x' attr { key: 'T' value { type: "
    "DT_FLOAT } } "
    "  attr { key: 'N' value { i: 2 } } } "
    "node { name: 'mode' op: 'TestMode' input: 'call' attr { key: 'T' value { type: DT_FLOAT } } "
    "  attr { key: 'mode' value { s: 'B' } } attr { key: 'names' value { list { s: 'a' s: 'b' } } "
    "} } "
    "node { name: 'c' op: 'TestCall' attr { key: 'f' value { func { name: 'F' attr { key: 'T' "
    "value { type: DT_FLOAT } } } } } "
    "  attr { key: 'fs' value { list { func { name: 'F' } } } } } "
    "library { function { signature { name: 'F' input_arg { name: 'x' type_attr: 'T' } "
    "  input_arg { name: 'xs' type_attr: 'T' number_attr: 'N' } output_arg { name: 'sum' "
    "type_attr: 'T' } "
    "  output_arg { name: 'all' type_attr: 'T' number_attr: 'N' } attr { name: 'T' type: 'type' "
    "default_value { type: "
    "  DT_FLOAT } allowed_values { list { type: DT_FLOAT } } } "
    "  attr { name: 'N' type: 'int' default_value { i: 2 } has_minimum: true minimum: 1 } "
    "control_output: 'late' } "
    "node_def { name: 'b' op: 'TestAdd' input: 'a:z:0' input: 'xs:1' input: '^c' attr { key: 'T' "
    "value { placeholder: 'T' } } } "
    "node_def { name: 'a' op: 'TestAdd' input: 'x' input: 'xs:0' attr { key: 'T' value { "
    "placeholder: 'T' } } } "
    "node_def { name: 'c' op: 'TestSource' input: '^x' attr { key: '_f' value { func { name: 'G' "
    "attr { key: 'U' "
    "  value { placeholder: 'T' } } } } } } "
    "ret { key: 'sum' value: 'b:z' } ret { key: 'all' value: 'xs' } control_ret { key: 'late' "
    "value: 'c' } "
    "arg_attr { key: 0 value { attr { key: '_output_shapes' value { list { shape { } } } } } } } "
    "gradient { function_name: 'F' gradient_func: 'G' } } "
    "versions { producer: 1087 min_consumer: 12 bad_consumers: 3 }";

static void make_seed(mr_str *out)
{
    ProtobufCMessage *m;
    MR_CHECK_OK(mr_text_parse(&tensorflow__graph_def__descriptor, mr_sv_of(seed_text), &m));
    MR_CHECK_OK(mr_message_pack(m, out));
    mr_message_free(m);
}

static size_t below(size_t n) { return n ? (size_t)(mr_test_random() % n) : 0; }

/* One small damage. */
static void damage(mr_str *s)
{
    static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff, 0x0a, 0x12, 0x22};
    size_t at = below(s->n), n = 1 + below(8), from;
    if (!s->n)
        return;
    switch (below(6)) {
    case 0: s->p[at] ^= (char)(1 << below(8)); break;
    case 1: s->p[at] = (char)edges[below(sizeof(edges))]; break;
    case 2: /* bytes from elsewhere */
        n = MR_MIN(n * 4, s->n - at);
        from = below(s->n - n + 1);
        memmove(s->p + at, s->p + from, n);
        break;
    case 3: /* bytes lost */
        n = MR_MIN(n, s->n - at);
        memmove(s->p + at, s->p + at + n, s->n - at - n);
        s->n -= n;
        break;
    case 4: /* a byte more */
        mr_str_appendc(s, 0);
        memmove(s->p + at + 1, s->p + at, s->n - at - 1);
        break;
    default: s->p[at] = (char)mr_test_random();
    }
}

static void use_functions(const mr_graph *g)
{
    mr_named_attr attrs[] = {{"N", mr_a_int(3)}, {"T", mr_a_type(MR_FLOAT)}};
    for (int i = 0; i < mr_library_count(g->library); i++) {
        const mr_function *f = mr_library_at(g->library, i);
        mr_body b;
        mr_status *st = mr_function_instantiate(g->library, f, attrs, below(3), &b);
        if (!st)
            mr_body_deinit(&b);
        mr_status_free(st);
    }
}

/* An accepted graph can be used in every way and is the same after a round trip. */
static void use(const mr_graph *g)
{
    mr_graph *copy, *again = mr_graph_new();
    mr_node **order;
    mr_str bytes = {0}, twice = {0};
    int n;
    MR_CHECK_OK(mr_graph_copy(g, NULL, &copy, NULL));
    MR_CHECK_OK(mr_graph_topological(copy, &order, &n));
    mr_free(order);
    MR_CHECK_OK(mr_graph_export(copy, &bytes));
    mr_import_options o = {.no_validate_colocation = true};
    MR_CHECK_OK(mr_graph_import(again, mr_str_view(&bytes), &o, NULL));
    MR_CHECK_OK(mr_graph_export(again, &twice));
    if (again->nodes.n == copy->nodes.n && again->versions.producer == copy->versions.producer)
        MR_CHECK_INT(bytes.n, twice.n);
    mr_free(mr_sample_print(g));
    use_functions(g);
    mr_str_deinit(&bytes);
    mr_str_deinit(&twice);
    mr_graph_unref(copy);
    mr_graph_unref(again);
}

static int try_mutations(mr_sv seed, int n)
{
    int n_good = 0;
    for (int i = 0; i < n; i++) {
        mr_str s = {0};
        mr_graph *g = mr_graph_new();
        mr_import_options o = {.no_validate_colocation = below(2), .prefix = below(2) ? "p" : NULL};
        mr_str_append(&s, seed.p, seed.n);
        for (size_t k = below(4) + 1; k > 0; k--)
            damage(&s);
        mr_str exact = {0}; /* exact allocation: reading past the end is detected */
        exact.p = mr_alloc(s.n + 1);
        memcpy(exact.p, s.p, s.n);
        mr_status *st = mr_graph_import(g, (mr_sv){exact.p, s.n}, &o, NULL);
        if (!st) {
            use(g);
            n_good++;
        } else {
            MR_CHECK_INT(g->nodes.n, 0);
        }
        mr_status_free(st);
        mr_free(exact.p);
        mr_str_deinit(&s);
        mr_graph_unref(g);
    }
    return n_good;
}

static int n_mutations(int usual)
{
    const char *n = getenv("MILLRACE_MUTATIONS");
    if (n)
        mr_test_deadline(1000000);
    return n ? atoi(n) : usual;
}

MR_TEST(mutated_graphs_do_no_harm)
{
    mr_str seed = {0};
    mr_sample_ops();
    make_seed(&seed);
    mr_graph *g = mr_graph_new();
    MR_CHECK_OK(mr_graph_import(g, mr_str_view(&seed), NULL, NULL));
    use(g);
    mr_graph_unref(g);
    MR_CHECK(try_mutations(mr_str_view(&seed), n_mutations(3000)) > 0);
    mr_str_deinit(&seed);
}

MR_TEST(mutated_text_graphs_do_no_harm)
{
    mr_sample_ops();
    int n = n_mutations(300);
    for (int i = 0; i < n; i++) {
        mr_str s = {0};
        mr_graph *g = mr_graph_new();
        mr_str_appendz(&s, seed_text);
        for (size_t k = below(3) + 1; k > 0; k--)
            damage(&s);
        mr_status *st = mr_graph_import_text(g, mr_str_view(&s), NULL);
        if (!st)
            use(g);
        mr_status_free(st);
        mr_str_deinit(&s);
        mr_graph_unref(g);
    }
}

MR_TEST(mutated_op_texts_do_no_harm)
{
    static const char text[] =
        "T: {float, int32} = DT_FLOAT; s: {'a', \"b\"} = 'a'; n: int >= 1 = 2; "
        "x: list(float) = [1e-4, inf]; sh: shape = { dim { size: 2 } }; t: tensor = uint8[2]{1,2}; "
        "f: func = { name: 'g' }; l: list(shape) = [[], ?, [2,?]]; L: list(type) >= 0";
    int n = n_mutations(3000);
    for (int i = 0; i < n; i++) {
        mr_str attrs = {0}, sig = {0};
        mr_op_def d;
        mr_arena a;
        mr_arena_init(&a, 0);
        mr_str_appendz(&attrs, text);
        mr_str_appendz(&sig, "x: T, y: n * Ref(float), z: L -> o: Ref(n * T)");
        damage(&attrs);
        damage(&sig);
        mr_status *st = mr_op_def_parse(
            &a, &(mr_op){.name = "A", .sig = mr_str_z(&sig), .attrs = mr_str_z(&attrs)}, &d);
        mr_status_free(st);
        mr_str_deinit(&attrs);
        mr_str_deinit(&sig);
        mr_arena_deinit(&a);
    }
}
