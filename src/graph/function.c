/* graph/function.c -- a function, as its FunctionDef describes it.
 *
 * Names are resolved only when the function is instantiated, because the meaning of `node:out:1` depends on attrs from
 * the caller. Maps are sorted by name, so that lookup is a binary search and equal functions have equal bytes. A
 * function is immutable once created; libraries and graphs share it by reference. */
#include <stdlib.h>

#include "base/memory.h"
#include "graph/library.h"
#include "graph/wire.h"

/* ---- references ---- */

mr_function *mr_function_ref(const mr_function *f)
{
    mr_function *own = (mr_function *)(uintptr_t)f;
    mr_refs_take(&own->refs);
    return own;
}

void mr_function_unref(mr_function *f)
{
    if (!f || !mr_refs_drop(&f->refs))
        return;
    for (int i = 0; i < f->held.n; i++)
        mr_tensor_unref(f->held.p[i]);
    mr_vec_deinit(&f->held);
    mr_arena_deinit(&f->arena);
    mr_free(f);
}

mr_function *mr_function_new(void)
{
    mr_function *f = mr_new(mr_function);
    mr_refs_init(&f->refs);
    mr_arena_init(&f->arena, 0);
    return f;
}

/* ---- decoding ---- */

static mr_status *no_memory(void)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "FunctionDef: out of memory");
}

/* Collected before the arrays of the function can be allocated. */
typedef struct parts {
    mr_node_defs nodes;
    mr_sv signature;
    MR_VEC(mr_sv) attrs; /* map entries */
    MR_VEC(mr_fn_pair) ret, control_ret;
    MR_VEC(const char *) outputs; /* control outputs of the signature */
    mr_str extra;
} parts;

static void parts_deinit(parts *p)
{
    mr_node_defs_deinit(&p->nodes);
    mr_vec_deinit(&p->attrs);
    mr_vec_deinit(&p->ret);
    mr_vec_deinit(&p->control_ret);
    mr_vec_deinit(&p->outputs);
    mr_str_deinit(&p->extra);
}

static mr_status *read_pair(mr_function *f, mr_pb_reader *r, mr_fn_pair *out)
{
    uint32_t field, wire;
    *out = (mr_fn_pair){"", ""};
    while (mr_pb_next(r, &field, &wire)) {
        if (field == 1)
            MR_TRY(mr_wire_name(&f->arena, mr_pb_bytes(r), &out->name));
        else if (field == 2)
            MR_TRY(mr_wire_name(&f->arena, mr_pb_bytes(r), &out->value));
        else
            mr_pb_skip(r);
    }
    return mr_pb_reader_status(r, "FunctionDef map entry");
}

static mr_status *read_field(mr_function *f, mr_pb_reader *r, uint32_t field, const uint8_t *from,
                             parts *p)
{
    mr_pb_reader sub;
    mr_fn_pair pair;
    switch (field) {
    case 1: p->signature = mr_pb_bytes(r); return NULL;
    case 3: mr_pb_message(r, &sub); return mr_node_def_read(&sub, &p->nodes);
    case 4:
        mr_pb_message(r, &sub);
        MR_TRY(read_pair(f, &sub, &pair));
        return MR_TRY_PUSH(&p->ret, pair) ? NULL : no_memory();
    case 5: return MR_TRY_PUSH(&p->attrs, mr_pb_bytes(r)) ? NULL : no_memory();
    case 6:
        mr_pb_message(r, &sub);
        MR_TRY(read_pair(f, &sub, &pair));
        return MR_TRY_PUSH(&p->control_ret, pair) ? NULL : no_memory();
    default: return mr_wire_extra(r, from, &p->extra);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const mr_fn_pair *)a)->name, ((const mr_fn_pair *)b)->name);
}

/* Sorted by name; a name that occurs twice is an error (protobuf would keep one of them). */
static mr_status *keep_pairs(mr_function *f, mr_fn_pair *p, int n, const mr_fn_pair **out)
{
    if (n)
        qsort(p, (size_t)n, sizeof(*p), by_name);
    for (int i = 1; i < n; i++)
        if (strcmp(p[i].name, p[i - 1].name) == 0)
            return mr_invalid("Function '%s': '%s' is returned twice", f->def.name, p[i].name);
    mr_fn_pair *copy = mr_arena_try_array(&f->arena, mr_fn_pair, n);
    if (!copy)
        return no_memory();
    if (n)
        memcpy(copy, p, (size_t)n * sizeof(*p));
    *out = copy;
    return NULL;
}

/* A function outlives the bytes it was read from, so views become copies in its arena. */
static mr_status *keep_node(mr_function *f, const mr_node_defs *defs, const mr_node_def *d,
                            mr_fn_node *out)
{
    mr_arena *a = &f->arena;
    mr_named_attr *attrs;
    const char **inputs = mr_arena_try_array(a, const char *, d->n_inputs);
    if (!inputs)
        return no_memory();
    MR_TRY(mr_wire_name(a, d->name, &out->name));
    MR_TRY(mr_wire_name(a, d->op, &out->op));
    MR_TRY(mr_wire_name(a, d->device, &out->device));
    for (int i = 0; i < d->n_inputs; i++)
        MR_TRY(mr_wire_name(a, defs->inputs.p[d->first_input + i], &inputs[i]));
    MR_TRY(mr_node_def_attrs(defs, d, &(mr_attr_room){a, &f->held}, &attrs, &out->n_attrs));
    out->attrs = attrs;
    out->n_inputs = d->n_inputs;
    out->inputs = inputs;
    return mr_wire_keep(a, mr_node_def_extra(defs, d), &out->extra);
}

static mr_status *keep_nodes(mr_function *f, const mr_node_defs *defs)
{
    mr_fn_node *nodes = mr_arena_try_array(&f->arena, mr_fn_node, defs->nodes.n);
    if (!nodes)
        return no_memory();
    for (int i = 0; i < defs->nodes.n; i++)
        MR_TRY(keep_node(f, defs, &defs->nodes.p[i], &nodes[i]));
    f->nodes = nodes;
    f->n_nodes = defs->nodes.n;
    return NULL;
}

static mr_status *keep_attrs(mr_function *f, const mr_sv *entries, int n)
{
    mr_pb_reader r;
    mr_named_attr *attrs = mr_arena_try_array(&f->arena, mr_named_attr, n);
    if (!attrs)
        return no_memory();
    for (int i = 0; i < n; i++) {
        mr_pb_reader_init(&r, entries[i]);
        MR_TRY(mr_named_attr_read(&(mr_attr_room){&f->arena, &f->held}, &r, &attrs[i]));
    }
    f->attrs = attrs;
    f->n_attrs = n;
    return mr_named_attrs_sort(attrs, &f->n_attrs);
}

const char *mr_fn_pairs_find(const mr_fn_pair *p, int n, const char *name)
{
    const mr_fn_pair key = {name, NULL},
                     *found = n ? bsearch(&key, p, (size_t)n, sizeof(*p), by_name) : NULL;
    return found ? found->value : NULL;
}

/* The signature lists control outputs by name (field 20, kept in def.extra); each must be in control_ret. Entries of
 * control_ret that it does not list follow, so that no node that must run is lost. */
static mr_status *order_controls(mr_function *f, parts *p)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_map listed = {.borrow_keys = true};
    mr_status *st = NULL;
    const char *name;
    mr_pb_reader_init(&r, f->def.extra);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 20) {
            mr_pb_skip(&r);
            continue;
        }
        MR_GO(mr_wire_name(&f->arena, mr_pb_bytes(&r), &name));
        if (!mr_fn_pairs_find(f->control_ret, f->n_control_ret, name) ||
            mr_map_putz(&listed, name, f))
            MR_GO(mr_invalid(
                "Function '%s': control output '%s' is missing from control_ret or listed twice",
                f->def.name, name));
        if (!MR_TRY_PUSH(&p->outputs, name))
            MR_GO(no_memory());
    }
    MR_GO(mr_pb_reader_status(&r, "OpDef"));
    for (int i = 0; i < f->n_control_ret; i++)
        if (!mr_map_getz(&listed, f->control_ret[i].name) &&
            !MR_TRY_PUSH(&p->outputs, f->control_ret[i].name))
            MR_GO(no_memory());
    MR_ASSERT(p->outputs.n == f->n_control_ret);
    f->control_outputs =
        mr_arena_memdup(&f->arena, p->outputs.p, (size_t)p->outputs.n * sizeof(name));
out:
    mr_map_deinit(&listed);
    return st;
}

static mr_status *decode_function(mr_sv bytes, mr_function *f, parts *p)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, bytes);
    for (const uint8_t *from = r.at; mr_pb_next(&r, &field, &wire); from = r.at)
        MR_TRY(read_field(f, &r, field, from, p));
    MR_TRY(mr_pb_reader_status(&r, "FunctionDef"));
    MR_TRY(mr_op_def_decode(&f->arena, p->signature, &f->def));
    f->def.function = f;
    f->n_ret = p->ret.n;
    f->n_control_ret = p->control_ret.n;
    MR_TRY(keep_pairs(f, p->ret.p, p->ret.n, &f->ret));
    MR_TRY(keep_pairs(f, p->control_ret.p, p->control_ret.n, &f->control_ret));
    MR_TRY(order_controls(f, p));
    MR_TRY(keep_nodes(f, &p->nodes));
    MR_TRY(keep_attrs(f, p->attrs.p, p->attrs.n));
    return mr_wire_keep(&f->arena, mr_str_view(&p->extra), &f->extra);
}

mr_status *mr_function_decode(mr_sv function_def, mr_function **out)
{
    mr_function *f = mr_function_new();
    parts p = {.signature = MR_SV("")};
    mr_status *st = decode_function(function_def, f, &p);
    parts_deinit(&p);
    if (st)
        mr_function_unref(f);
    else
        *out = f;
    return st;
}

/* ---- encoding ---- */

static mr_status *write_node(mr_pb_writer *w, const mr_fn_node *n)
{
    size_t mark = mr_pb_begin(w, 3);
    mr_pb_opt_bytes(w, 1, mr_sv_of(n->name));
    mr_pb_opt_bytes(w, 2, mr_sv_of(n->op));
    for (int i = 0; i < n->n_inputs; i++)
        mr_pb_put_bytes(w, 3, mr_sv_of(n->inputs[i]));
    mr_pb_opt_bytes(w, 4, mr_sv_of(n->device));
    MR_TRY(mr_named_attrs_write(n->attrs, n->n_attrs, 5, w));
    mr_pb_put_raw(w, n->extra.p, n->extra.n);
    mr_pb_end(w, mark);
    return NULL;
}

static void write_pairs(mr_pb_writer *w, uint32_t field, const mr_fn_pair *p, int n)
{
    for (int i = 0; i < n; i++) {
        size_t mark = mr_pb_begin(w, field);
        mr_pb_put_bytes(w, 1, mr_sv_of(p[i].name));
        mr_pb_put_bytes(w, 2, mr_sv_of(p[i].value));
        mr_pb_end(w, mark);
    }
}

mr_status *mr_function_encode(const mr_function *f, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    size_t mark = mr_pb_begin(&w, 1);
    mr_op_def_encode(&f->def, out);
    mr_pb_end(&w, mark);
    for (int i = 0; i < f->n_nodes; i++)
        MR_TRY(write_node(&w, &f->nodes[i]));
    write_pairs(&w, 4, f->ret, f->n_ret);
    MR_TRY(mr_named_attrs_write(f->attrs, f->n_attrs, 5, &w));
    write_pairs(&w, 6, f->control_ret, f->n_control_ret);
    mr_pb_put_raw(&w, f->extra.p, f->extra.n);
    return mr_pb_writer_status(&w, "FunctionDef");
}

/* ---- equality of meaning, not of bytes ---- */

static bool attrs_eq(const mr_named_attr *a, int n_a, const mr_named_attr *b, int n_b)
{
    if (n_a != n_b)
        return false;
    for (int i = 0; i < n_a; i++)
        if (strcmp(a[i].name, b[i].name) != 0 || !mr_attr_eq(&a[i].v, &b[i].v))
            return false;
    return true;
}

static bool pairs_eq(const mr_fn_pair *a, int n_a, const mr_fn_pair *b, int n_b)
{
    if (n_a != n_b)
        return false;
    for (int i = 0; i < n_a; i++)
        if (strcmp(a[i].name, b[i].name) != 0 || strcmp(a[i].value, b[i].value) != 0)
            return false;
    return true;
}

static bool node_eq(const mr_fn_node *a, const mr_fn_node *b)
{
    if (strcmp(a->op, b->op) != 0 || strcmp(a->device, b->device) != 0 ||
        a->n_inputs != b->n_inputs)
        return false;
    for (int i = 0; i < a->n_inputs; i++)
        if (strcmp(a->inputs[i], b->inputs[i]) != 0)
            return false;
    return attrs_eq(a->attrs, a->n_attrs, b->attrs, b->n_attrs);
}

/* Nodes may come in any order. */
static bool nodes_eq(const mr_function *a, const mr_function *b)
{
    mr_map by = {.borrow_keys = true};
    bool eq = a->n_nodes == b->n_nodes;
    for (int i = 0; eq && i < a->n_nodes; i++)
        mr_map_putz(&by, a->nodes[i].name, (void *)(uintptr_t)&a->nodes[i]);
    for (int i = 0; eq && i < b->n_nodes; i++) {
        const mr_fn_node *n = mr_map_getz(&by, b->nodes[i].name);
        eq = n && node_eq(n, &b->nodes[i]);
    }
    mr_map_deinit(&by);
    return eq;
}

static bool signature_eq(const mr_op_def *a, const mr_op_def *b)
{
    mr_str x = {0}, y = {0};
    mr_op_def_encode(a, &x);
    mr_op_def_encode(b, &y);
    bool eq = mr_sv_eq(mr_str_view(&x), mr_str_view(&y));
    mr_str_deinit(&x);
    mr_str_deinit(&y);
    return eq;
}

bool mr_function_eq(const mr_function *a, const mr_function *b)
{
    return a == b ||
           (signature_eq(&a->def, &b->def) &&
            attrs_eq(a->attrs, a->n_attrs, b->attrs, b->n_attrs) &&
            pairs_eq(a->ret, a->n_ret, b->ret, b->n_ret) &&
            pairs_eq(a->control_ret, a->n_control_ret, b->control_ret, b->n_control_ret) &&
            nodes_eq(a, b));
}
