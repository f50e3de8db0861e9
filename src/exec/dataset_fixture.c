/* exec/dataset_fixture.c -- see dataset_fixture.h. */
#include "exec/dataset_fixture.h"

#include "base/memory.h"
#include "graph/library.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

void mr_dataset_fixture_init(mr_dataset_fixture *r, int threads)
{
    mr_ops_register();
    *r = (mr_dataset_fixture){.g = mr_graph_new(), .threads = threads, .n_types = 1, .types = {MR_INT64}};
    mr_scope_init(&r->s, r->g, "");
}

void mr_dataset_fixture_deinit(mr_dataset_fixture *r)
{
    mr_session_free(r->session);
    mr_scope_deinit(&r->s);
    mr_graph_unref(r->g);
}

void mr_dataset_fixture_types(mr_dataset_fixture *r, int n, ...)
{
    va_list ap;
    va_start(ap, n);
    r->n_types = n;
    for (int i = 0; i < n; i++)
        r->types[i] = va_arg(ap, int);
    va_end(ap);
}

mr_out mr_dataset_fixture_i64(mr_dataset_fixture *r, int64_t v) { return mr_const_i64(&r->s, v); }
mr_out mr_dataset_fixture_bool(mr_dataset_fixture *r, bool v) { return mr_const(&r->s, mr_tensor_scalar_bool(v)); }

typedef struct attr_list {
    mr_named_attr a[16];
    int n;
} attr_list;

/* Those given, and the types the op asks for. */
static void add_types(mr_dataset_fixture *r, const char *op, attr_list *l)
{
    static const mr_pshape *const unknown[] = {&mr_pshape_unknown, &mr_pshape_unknown, &mr_pshape_unknown, &mr_pshape_unknown};
    const mr_op_def *d = mr_op_find(mr_sv_of(op));
    if (!d)
        mr_test_fail(__FILE__, __LINE__, "no op %s", op);
    if (mr_op_def_attr(d, "output_types"))
        l->a[l->n++] = (mr_named_attr){"output_types", mr_a_types(r->n_types, r->types)};
    if (mr_op_def_attr(d, "output_shapes"))
        l->a[l->n++] = (mr_named_attr){"output_shapes", mr_a_shapes(r->n_types, unknown)};
}

static attr_list list_of(mr_dataset_fixture *r, const char *op, const mr_named_attr *attrs, int n)
{
    attr_list l = {.n = n};
    for (int i = 0; i < n; i++)
        l.a[i] = attrs[i];
    add_types(r, op, &l);
    return l;
}

mr_out mr_dataset_fixture_ds(mr_dataset_fixture *r, const char *op, const mr_named_attr *attrs, int n_attrs,
                             const mr_out *in, int n_in)
{
    attr_list l = list_of(r, op, attrs, n_attrs);
    return mr_emit_n(&r->s, op, l.a, l.n, in, n_in);
}

mr_out mr_dataset_fixture_range(mr_dataset_fixture *r, int64_t start, int64_t stop)
{
    mr_dataset_fixture plain = *r;
    mr_dataset_fixture_types(&plain, 1, MR_INT64);
    attr_list l = list_of(&plain, "RangeDataset", NULL, 0);
    return mr_emit_n(&r->s, "RangeDataset", l.a, l.n,
                     MR_OUTS(mr_const_i64(&r->s, start), mr_const_i64(&r->s, stop), mr_const_i64(&r->s, 1)));
}

mr_out mr_dataset_fixture_fn(mr_dataset_fixture *r, const char *op, const char *f, mr_out input, const mr_out *captured,
                             int n_captured, const mr_out *scalars, int n_scalars)
{
    mr_func_ref ref = {f, 0, NULL};
    int types[8];
    for (int i = 0; i < n_captured; i++)
        types[i] = mr_dtype_base(mr_out_type(captured[i]));
    bool is_predicate = mr_op_def_attr(mr_op_find(mr_sv_of(op)), "predicate") != NULL;
    mr_named_attr own[] = {{is_predicate ? "predicate" : "f", {MR_ATTR_FUNC, .func = &ref}},
                           {"Targuments", mr_a_types(n_captured, types)}};
    attr_list l = list_of(r, op, own, 2);
    mr_emit_arg args[10] = {{-1, &input}, {n_captured, captured}};
    for (int i = 0; i < n_scalars; i++)
        args[2 + i] = (mr_emit_arg){-1, &scalars[i]};
    return mr_emit_lists(&r->s, op, l.a, l.n, args, 2 + n_scalars);
}

/* ---- bodies ---- */

mr_dbody mr_dbody_new(mr_dataset_fixture *r, int n_args, mr_dtype t)
{
    mr_dbody b = {.g = mr_graph_new(), .n_args = n_args};
    mr_scope_init(&b.s, b.g, "");
    MR_CHECK_OK(mr_library_copy(r->g->library, b.g->library));
    for (int i = 0; i < n_args; i++)
        b.args[i] = mr_placeholder(&b.s, t, "a", NULL);
    return b;
}

void mr_dbody_end(mr_dbody *b, mr_dataset_fixture *r, const char *name, const mr_out *results, int n)
{
    mr_function *made;
    MR_CHECK_OK(mr_scope_status(&b->s));
    mr_function_spec spec = {.name = name, .n_nodes = -1, .n_inputs = b->n_args, .inputs = b->args,
                             .n_outputs = n, .outputs = results};
    MR_CHECK_OK(mr_function_from_graph(b->g, &spec, &made));
    MR_CHECK_OK(mr_library_add(r->g->library, made));
    mr_function_unref(made);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

/* ---- going over them ---- */

static void open_session(mr_dataset_fixture *r)
{
    mr_session_config c = {.inter_threads = r->threads, .intra_threads = 1, .per_session_threads = true};
    MR_CHECK_OK(mr_scope_status(&r->s));
    if (!r->session)
        MR_CHECK_OK(mr_direct_session_new(r->g, NULL, &c, &r->session));
}

mr_status *mr_dataset_fixture_run(mr_dataset_fixture *r, mr_node *target)
{
    open_session(r);
    return mr_session_run(r->session, &(mr_run_args){.targets = &target, .n_targets = 1}, NULL, NULL);
}

mr_diter mr_dataset_fixture_iterator(mr_dataset_fixture *r, mr_out d)
{
    attr_list l = list_of(r, "IteratorV2", MR_ATTRS({"shared_name", mr_a_str("")}, {"container", mr_a_str("")}));
    mr_diter i;
    i.iterator = mr_emit_n(&r->s, "IteratorV2", l.a, l.n, NULL, 0);
    i.make = mr_emit(&r->s, "MakeIterator", d, i.iterator).node;
    MR_CHECK_OK(mr_scope_status(&r->s));
    if (!i.make) /* it has no outputs to be named by */
        i.make = r->g->nodes.p[r->g->nodes.n - 1];
    i.next = mr_dataset_fixture_ds(r, "IteratorGetNext", NULL, 0, &i.iterator, 1);
    return i;
}

static void print_all(mr_tensor *const *t, int n, mr_str *out)
{
    for (int i = 0; i < n; i++) {
        if (i > 0)
            mr_str_appendc(out, ',');
        if (t[i]->rank > 0)
            mr_str_appendc(out, '[');
        mr_tensor_summarize(t[i], -1, out);
        if (t[i]->rank > 0)
            mr_str_appendc(out, ']');
    }
}

mr_status *mr_dataset_fixture_get_all(mr_dataset_fixture *r, const mr_diter *it, mr_str *out)
{
    mr_tensor *t[4] = {0};
    mr_out fetches[4];
    for (int i = 0; i < r->n_types; i++)
        fetches[i] = mr_nth(it->next, i);
    open_session(r);
    mr_status *st = mr_session_run(r->session, &(mr_run_args){.fetches = fetches, .fetched = t, .n_fetches = r->n_types}, NULL, NULL);
    if (!st)
        print_all(t, r->n_types, out);
    for (int i = 0; i < 4; i++)
        mr_tensor_unref(t[i]);
    return st;
}

mr_status *mr_dataset_fixture_get(mr_dataset_fixture *r, mr_out fetch, mr_str *out)
{
    mr_tensor *t = NULL;
    open_session(r);
    mr_status *st = mr_session_run(r->session, &(mr_run_args){.fetches = &fetch, .fetched = &t, .n_fetches = 1}, NULL, NULL);
    if (!st)
        print_all(&t, 1, out);
    mr_tensor_unref(t);
    return st;
}

void mr_dataset_fixture_elements(mr_dataset_fixture *r, mr_out d, int most, mr_str *out)
{
    mr_diter it = mr_dataset_fixture_iterator(r, d);
    mr_status *st = mr_dataset_fixture_run(r, it.make);
    for (int i = 0; i < most && !st; i++) {
        size_t before = out->n;
        if (before > 0)
            mr_str_appendc(out, ' ');
        if ((st = mr_dataset_fixture_get_all(r, &it, out)) && before < out->n)
            out->p[out->n = before] = '\0';
    }
    if (st && mr_status_code(st) != MR_OUT_OF_RANGE)
        mr_str_printf(out, " !%s %s", mr_code_name(mr_status_code(st)), mr_status_message(st));
    mr_status_free(st);
}

void mr_dataset_fixture_check(const char *file, int line, mr_dataset_fixture *r, mr_out d, const char *expected)
{
    mr_str got = {0};
    mr_dataset_fixture_elements(r, d, 100, &got);
    if (strncmp(mr_str_z(&got), expected, strlen(expected)) != 0 || (got.n > strlen(expected) && !strchr(expected, '!')))
        mr_test_fail(file, line, "elements are\n    %s\n  expected\n    %s", mr_str_z(&got), expected);
    mr_str_deinit(&got);
}

void mr_dataset_fixture_check_errors(const char *file, int line, mr_dataset_fixture *r, mr_out d, const char *expected)
{
    mr_diter it = mr_dataset_fixture_iterator(r, d);
    mr_str got = {0};
    mr_status *st = mr_dataset_fixture_run(r, it.make);
    for (int i = 0; i < 100 && mr_status_code(st) != MR_OUT_OF_RANGE; i++) {
        mr_str_append(&got, st ? "! " : " ", st ? 2 : i > 0);
        mr_status_free(st);
        st = mr_dataset_fixture_get_all(r, &it, &got);
    }
    mr_status_free(st);
    while (got.n > 0 && got.p[got.n - 1] == ' ')
        got.p[--got.n] = '\0';
    if (strcmp(mr_str_z(&got), expected) != 0)
        mr_test_fail(file, line, "elements are\n    %s\n  expected\n    %s", mr_str_z(&got), expected);
    mr_str_deinit(&got);
}
