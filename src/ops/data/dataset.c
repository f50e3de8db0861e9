/* ops/data/dataset.c -- creates datasets: the code that all kinds share. */
#include "ops/data/dataset.h"

#include "base/memory.h"

/* Iterators call each other recursively: a chain of datasets of any length could overflow the stack. */
#define MAX_DEPTH 2000

/* ---- attributes that kernels read from their nodes ---- */

static const char *const func_names[] = {"f", "predicate", "dataset_factory", "reader_func",
                                         "key_func", "init_func", "reduce_func", "window_size_func",
                                         "next_func", "finalize_func", "shard_func"};
static const char *const type_names[] = {"output_types", "Toutput_types"};
/* Attrs of type bool that change the behaviour of an op; no op has two of them. */
static const char *const flag_names[] = {"reshuffle_each_iteration", "require_non_empty", "stop_on_empty_dataset",
                                         "rerandomize_each_iteration", "log_warning", "is_files", "use_shard_func"};

static mr_status *read_types(mr_dataset_state *s, const mr_node *n)
{
    const mr_attr *types = NULL, *shapes = mr_node_attr(n, "output_shapes");
    for (int i = 0; i < MR_COUNT(type_names) && !types; i++)
        types = mr_node_attr(n, type_names[i]);
    if (!types || !shapes)
        return NULL;
    if (types->n != shapes->n)
        return mr_invalid("%s '%s': %d output_types and %d output_shapes differ in number", n->def->name,
                          n->name, types->n, shapes->n);
    mr_attr t = mr_attr_copy(&s->arena, &s->held, types), h = mr_attr_copy(&s->arena, &s->held, shapes);
    s->n = t.n;
    s->types = t.types;
    s->shapes = h.shapes;
    return NULL;
}

static void read_funcs(mr_dataset_state *s, const mr_node *n)
{
    for (int i = 0; i < MR_COUNT(func_names); i++) {
        const mr_attr *f = mr_node_attr(n, func_names[i]);
        if (!f || f->kind != MR_ATTR_FUNC || f->is_list)
            continue;
        MR_ASSERT(s->n_funcs < MR_DATASET_FUNCS);
        s->funcs[s->n_funcs++] = mr_attr_copy(&s->arena, &s->held, f).func;
    }
}

static mr_status *read_order(mr_dataset_state *s, const mr_node *n)
{
    const mr_attr *a = mr_node_attr(n, "deterministic"), *sloppy = mr_node_attr(n, "sloppy");
    s->order = sloppy && sloppy->kind == MR_ATTR_BOOL && sloppy->b ? 0 : -1;
    if (!a || a->kind != MR_ATTR_STRING)
        return NULL;
    if (mr_sv_is(a->s, "true"))
        s->order = 1;
    else if (mr_sv_is(a->s, "false"))
        s->order = 0;
    else if (!mr_sv_is(a->s, "default"))
        return mr_invalid("%s '%s': %.*s is not a valid value for deterministic: true, false or default",
                          n->def->name, n->name, MR_SV_ARG(a->s));
    return NULL;
}

/* Copies the attrs, because kernels with state are kept by name and may outlive the graph they were created for. */
mr_status *mr_dataset_init(mr_make *m, void *state)
{
    mr_dataset_state *s = state;
    mr_arena_init(&s->arena, 512);
    MR_TRY(read_types(s, m->node));
    read_funcs(s, m->node);
    for (int i = 0; i < MR_COUNT(flag_names); i++) {
        const mr_attr *a = mr_node_attr(m->node, flag_names[i]);
        if (a && a->kind == MR_ATTR_BOOL)
            s->flag = a->b;
    }
    const mr_attr *keeps = mr_node_attr(m->node, "preserve_cardinality");
    s->keeps_count = keeps && keeps->kind == MR_ATTR_BOOL && keeps->b;
    const mr_attr *parallel = mr_node_attr(m->node, "use_inter_op_parallelism");
    s->one_thread = parallel && parallel->kind == MR_ATTR_BOOL && !parallel->b;
    return read_order(s, m->node);
}

static void drop_held(mr_tensor_vec *held)
{
    for (int i = 0; i < held->n; i++)
        mr_tensor_unref(held->p[i]);
    mr_vec_deinit(held);
}

void mr_dataset_deinit(void *state)
{
    mr_dataset_state *s = state;
    drop_held(&s->held);
    mr_arena_deinit(&s->arena);
}

/* ---- datasets ---- */

static void dataset_free(mr_object *o)
{
    mr_dataset *d = (mr_dataset *)o;
    if (d->kind->free)
        d->kind->free(d);
    for (int i = 0; i < d->n_inputs; i++)
        mr_object_unref(&d->inputs[i]->base);
    drop_held(&d->held);
    mr_later_unref(d->later);
    mr_graph_unref(d->graph);
    mr_arena_deinit(&d->arena);
    mr_free(d);
}

const mr_object_type mr_dataset_type = {.name = "tensorflow::DatasetVariantWrapper", .free = dataset_free};

mr_status *mr_dataset_of(const mr_tensor *t, mr_dataset **out)
{
    if (t->dtype != MR_VARIANT || t->rank != 0)
        return mr_invalid("Dataset tensor must be a scalar of dtype DT_VARIANT.");
    mr_object *o = *MR_DATA(mr_object *, t);
    if (!o || o->type != &mr_dataset_type)
        return mr_invalid("Tensor must be a Dataset object.");
    *out = (mr_dataset *)o;
    return NULL;
}

mr_tensor *mr_dataset_keep(mr_dataset *d, mr_tensor *t)
{
    mr_vec_push(&d->held, mr_tensor_ref(t));
    return t;
}

static void remember_making(mr_dataset *d, mr_run *r)
{
    d->graph = mr_graph_ref(r->node->graph);
    d->node = r->node;
    d->made_of = mr_arena_array(&d->arena, mr_tensor *, r->n_in + 1);
    for (int i = 0; i < r->n_in; i++)
        d->made_of[i] = r->in[i].kind == MR_LIVE ? mr_dataset_keep(d, mr_in(r, i)) : NULL;
}

static mr_status *take_inputs(mr_dataset *d, mr_run *r, int first_in, int n)
{
    d->inputs = mr_arena_array(&d->arena, mr_dataset *, n + 1);
    for (int i = 0; i < n; i++) {
        mr_dataset *in;
        MR_TRY(mr_dataset_of(mr_in(r, first_in + i), &in));
        d->inputs[d->n_inputs++] = (mr_dataset *)mr_object_ref(&in->base);
        d->depth = MR_MAX(d->depth, in->depth + 1);
    }
    if (d->depth > MAX_DEPTH)
        return mr_error(MR_RESOURCE_EXHAUSTED, "A dataset is derived from a chain of more than %d datasets", MAX_DEPTH);
    if (n > 0)
        mr_dataset_set_types(d, d->inputs[0]->n, d->inputs[0]->types, d->inputs[0]->shapes);
    return NULL;
}

static mr_dataset *new_dataset(const mr_dataset_kind *k)
{
    mr_dataset *d = mr_calloc(1, k->bytes);
    mr_object_init(&d->base, &mr_dataset_type);
    d->kind = k;
    mr_arena_init(&d->arena, 512);
    return d;
}

mr_dataset *mr_dataset_make(const mr_dataset_kind *k, int n, const int *types, const mr_pshape *const *shapes)
{
    mr_dataset *d = new_dataset(k);
    mr_dataset_set_types(d, n, types, shapes);
    return d;
}

mr_status *mr_dataset_new(mr_run *r, const mr_dataset_kind *k, int first_in, int n_inputs, void *out)
{
    mr_dataset *d = new_dataset(k);
    mr_status *st = take_inputs(d, r, first_in, n_inputs);
    if (st) {
        d->kind = &(const mr_dataset_kind){0}; /* the kind's own fields are not initialised yet */
        mr_object_unref(&d->base);
        d = NULL;
    } else {
        remember_making(d, r);
    }
    *(mr_dataset **)out = d;
    return st;
}

void mr_dataset_set_types(mr_dataset *d, int n, const int *types, const mr_pshape *const *shapes)
{
    const mr_pshape **copy = mr_arena_array(&d->arena, const mr_pshape *, n + 1);
    d->n = n;
    d->types = mr_arena_memdup(&d->arena, types, sizeof(int) * (size_t)n);
    for (int i = 0; i < n; i++)
        copy[i] = shapes[i]->rank < 0 ? &mr_pshape_unknown
                                      : mr_pshape_of(&d->arena, shapes[i]->rank, shapes[i]->dims);
    d->shapes = copy;
}

void mr_dataset_say_types(mr_dataset *d, const mr_dataset_state *s)
{
    mr_dataset_set_types(d, s->n, s->types, s->shapes);
}

mr_status *mr_dataset_tensor(mr_dataset *d, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(NULL, MR_VARIANT, 0, NULL, out));
    *MR_DATA(mr_object *, *out) = mr_object_ref(&d->base);
    return NULL;
}

mr_status *mr_dataset_give(mr_run *r, void *p, mr_status *st)
{
    mr_dataset *d = p;
    mr_tensor *t = NULL;
    if (!st) {
        d->count = mr_dataset_cardinality(d);
        d->has_count = true;
        st = mr_dataset_tensor(d, &t);
    }
    if (!st)
        mr_run_set(r, 0, t);
    if (d)
        mr_object_unref(&d->base);
    return st;
}

int64_t mr_dataset_cardinality(const mr_dataset *d)
{
    if (d->has_count)
        return d->count;
    return d->kind->cardinality ? d->kind->cardinality(d) : MR_CARDINALITY_UNKNOWN;
}

int64_t mr_dataset_cardinality_of_input(const mr_dataset *d)
{
    return mr_dataset_cardinality(d->inputs[0]);
}

mr_status *mr_dataset_check_types(int n, const int *types, const mr_dataset *got)
{
    if (n != got->n)
        return mr_invalid("Number of components does not match: expected %d types but got %d.", n, got->n);
    for (int i = 0; i < n; i++)
        if (types[i] != got->types[i])
            return mr_invalid("Data type mismatch at component %d: expected %s but got %s.", i,
                              mr_dtype_name(types[i]), mr_dtype_name(got->types[i]));
    return NULL;
}

mr_status *mr_dataset_check_shapes(int n, const mr_pshape *const *shapes, const mr_dataset *got)
{
    for (int i = 0; i < n; i++)
        if (!mr_pshape_compatible(shapes[i], got->shapes[i]))
            return mr_invalid("Incompatible shapes at component %d: expected %s but got %s.", i,
                              MR_PSHAPE_TEXT(shapes[i]), MR_PSHAPE_TEXT(got->shapes[i]));
    return NULL;
}

/* ---- shapes ---- */

static bool is_scalar_argument(const char *name)
{
    static const char *const names[] = {
        "count", "batch_size", "drop_remainder", "buffer_size", "seed", "seed2", "num_shards", "index", "start",
        "stop", "step", "cycle_length", "block_length", "num_parallel_calls", "sloppy", "buffer_output_elements",
        "prefetch_input_elements", "size", "shift", "stride", "compression_type", "header_bytes", "record_bytes",
        "footer_bytes", "filename", "cardinality", "num_threads", "max_intra_op_parallelism", "rate",
        "window_size", "window_shift", "window_stride", "header", "field_delim", "use_quote_delim", "na_value",
        "input_dataset", "another_dataset", "selector_input_dataset", "path"};
    for (int i = 0; i < MR_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

mr_status *mr_dataset_shape(mr_infer *c)
{
    const mr_op_def *d = c->node->def;
    for (int i = 0; i < d->n_in; i++) {
        int start, count;
        const mr_pshape *s;
        if (d->in[i].number_attr || d->in[i].type_list_attr || !is_scalar_argument(d->in[i].name))
            continue;
        MR_TRY(mr_node_in_range(c->node, d->in[i].name, &start, &count));
        MR_TRY(mr_infer_rank(c, c->in[start], 0, &s));
    }
    return mr_shape_scalar(c);
}
