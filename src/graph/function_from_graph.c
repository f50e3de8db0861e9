/* graph/function_from_graph.c -- turns nodes of a graph into a function (TF_GraphToFunction).
 *
 * The FunctionDef is written as bytes, which are then decoded like any other, so only one place knows what a
 * well-formed function is. Names are assigned by priority: first the names that the caller wants for outputs, then
 * inputs, then nodes of the body, which keep their names unless they are taken. */
#include <ctype.h>
#include <limits.h>

#include "base/memory.h"
#include "graph/function_hash.h"
#include "graph/draft.h"
#include "graph/library.h"
#include "wire/pb.h"

typedef struct maker {
    const mr_graph *g;
    const mr_function_spec *spec;
    mr_arena arena;
    mr_map used;           /* name -> next number to append, plus one */
    const char **renamed;  /* by node id: its name in the body; NULL: not in it */
    const char **input_of; /* by node id: name of an input it produces, for control edges */
    mr_imap inputs;        /* (node id, output) -> name of the input */
    const char **in_names, **out_names;
    MR_VEC(const mr_node *) body;
    mr_str bytes, text;
} maker;

static uint64_t key_of(mr_out o)
{
    return (uint64_t)(uint32_t)o.node->id << 32 | (uint32_t)o.index;
}

/* ---- names ---- */

/* x, x_0, x_1 ... */
static const char *unique_name(maker *m, const char *name)
{
    intptr_t k = (intptr_t)mr_map_getz(&m->used, name);
    if (!k) {
        mr_map_putz(&m->used, name, (void *)1);
        return mr_arena_strdup(&m->arena, name);
    }
    const char *candidate;
    do
        candidate = mr_arena_printf(&m->arena, "%s_%lld", name, (long long)(k++ - 1));
    while (mr_map_has(&m->used, mr_sv_of(candidate)));
    mr_map_putz(&m->used, name, (void *)k);
    mr_map_putz(&m->used, candidate, (void *)1);
    return candidate;
}

/* Converts to a valid argument name: lower-case letters, digits and '_', a letter first. */
static const char *normalize_name(maker *m, const char *name)
{
    char *copy = mr_arena_strdup(&m->arena, name);
    for (char *p = copy; *p; p++)
        *p = isalnum((unsigned char)*p) ? (char)tolower((unsigned char)*p) : '_';
    while (*copy && !isalpha((unsigned char)*copy))
        copy++;
    return *copy ? copy : "unknown";
}

/* ---- what comes in and goes out ---- References cannot cross the boundary: inside, nobody would hold their lock. */

static mr_status *in_function(mr_status *st, const maker *m, bool in, int i)
{
    return mr_status_append(st, "\n\tEncountered while processing %s %d %s function '%s'", in ? "input" : "output", i,
                            in ? "into" : "from", m->spec->name);
}

static mr_status *check_value(const maker *m, mr_out o)
{
    if (!o.node)
        return mr_invalid("Node is null");
    if (o.node->graph != m->g)
        return mr_invalid("Node '%s' belongs to another graph", o.node->name);
    if (o.index < 0 || o.index >= o.node->n_out)
        return mr_error(MR_OUT_OF_RANGE,
                        "Node '%s' (type: '%s', num of outputs: %d) does not have output %d",
                        o.node->name, o.node->def->name, o.node->n_out, o.index);
    if (mr_dtype_is_ref(mr_out_type(o)))
        return mr_invalid("Output %d of node '%s' has a reference type %s", o.index, o.node->name,
                          mr_dtype_name(mr_out_type(o)));
    return NULL;
}

static mr_status *check_values(maker *m)
{
    const mr_function_spec *s = m->spec;
    for (int i = 0; i < s->n_inputs; i++) {
        MR_TRY(in_function(check_value(m, s->inputs[i]), m, true, i));
        if (mr_imap_put(&m->inputs, key_of(s->inputs[i]), m))
            return mr_invalid("TF_Output %s:%d appears more than once in the input list",
                              s->inputs[i].node->name, s->inputs[i].index);
    }
    for (int i = 0; i < s->n_outputs; i++)
        MR_TRY(in_function(check_value(m, s->outputs[i]), m, false, i));
    return NULL;
}

static const char *wanted_name(const mr_function_spec *s, int i)
{
    return s->output_names ? s->output_names[i] : NULL;
}

/* Outputs first, so that the names the caller asked for are not taken by inputs. */
static mr_status *name_ends(maker *m)
{
    const mr_function_spec *s = m->spec;
    for (int i = 0; i < s->n_outputs; i++) {
        const char *name = wanted_name(s, i);
        if (!name)
            continue;
        if (mr_map_putz(&m->used, name, (void *)1))
            return mr_invalid(
                "Cannot have duplicate output names. Name '%s' appears more than once in "
                "'output_names' array.",
                name);
        m->out_names[i] = mr_arena_strdup(&m->arena, name);
    }
    for (int i = 0; i < s->n_outputs; i++)
        if (!wanted_name(s, i))
            m->out_names[i] = unique_name(m, normalize_name(m, s->outputs[i].node->name));
    for (int i = 0; i < s->n_inputs; i++) {
        mr_out o = s->inputs[i];
        m->in_names[i] = unique_name(m, normalize_name(m, o.node->name));
        mr_imap_put(&m->inputs, key_of(o), (void *)(uintptr_t)m->in_names[i]);
        m->input_of[o.node->id] = m->in_names[i];
    }
    return NULL;
}

/* ---- the body ---- */

static mr_status *add_to_body(maker *m, const mr_node *n)
{
    if (!n || n->graph != m->g)
        return mr_invalid("A node of the body of function '%s' is null or belongs to another graph",
                          m->spec->name);
    if (m->renamed[n->id])
        return mr_invalid("Node '%s' is listed twice in the body of function '%s'", n->name,
                          m->spec->name);
    mr_vec_push(&m->body, n);
    m->renamed[n->id] = unique_name(m, n->name);
    return NULL;
}

/* All nodes except those that represent inputs. */
static mr_status *take_whole_graph(maker *m)
{
    for (int i = 0; i < m->g->nodes.n; i++) {
        const mr_node *n = m->g->nodes.p[i];
        if (!n)
            continue;
        if (!m->input_of[i])
            MR_TRY(add_to_body(m, n));
        else if (n->n_out > 1)
            return mr_invalid(
                "When `num_opers` is set to -1, nodes referenced in `inputs` must have a single "
                "output. Node %s has %d outputs. Encountered while creating function '%s'",
                n->name, n->n_out, m->spec->name);
    }
    return NULL;
}

static mr_status *take_body(maker *m)
{
    if (m->spec->n_nodes < 0)
        return take_whole_graph(m);
    for (int i = 0; i < m->spec->n_nodes; i++)
        MR_TRY(add_to_body(m, m->spec->nodes[i]));
    return NULL;
}

/* Sets m->text to the name of a value inside the function; *found is false if the value comes from outside. */
static mr_status *name_value(maker *m, mr_out o, bool *found)
{
    const char *input = mr_imap_get(&m->inputs, key_of(o)), *node = m->renamed[o.node->id];
    mr_str_clear(&m->text);
    *found = node || input;
    if (!node) {
        mr_str_appendz(&m->text, input ? input : "");
        return NULL;
    }
    const mr_op_def *def = o.node->def;
    int64_t at = 0, count;
    for (int i = 0; i < def->n_out; i++, at += count) {
        MR_TRY(mr_arg_count(&def->out[i], o.node->attrs, o.node->n_attrs, &count));
        if (o.index < at + count) {
            mr_str_printf(&m->text, "%s:%s:%d", node, def->out[i].name, (int)(o.index - at));
            return NULL;
        }
    }
    return mr_error(MR_INTERNAL, "output %d of node '%s' does not belong to any argument", o.index,
                    o.node->name);
}

/* TensorFlow numbers the edges of a graph in the order of creation, starting with an internal one. */
static int64_t edges_before(const mr_node *n)
{
    int64_t edges = 1;
    for (int i = 0; i < n->id; i++)
        if (n->graph->nodes.p[i])
            edges += n->graph->nodes.p[i]->n_in + n->graph->nodes.p[i]->n_ctrl;
    return edges;
}

/* Data inputs first, then control inputs. Every source must be in the body or an input of the function. */
static mr_status *write_inputs(maker *m, mr_pb_writer *w, const mr_node *n)
{
    bool found;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i].node)
            return mr_invalid("Graph to be converted to function appears to be malformed. Node %s is missing input edge %d",
                              n->name, i);
        MR_TRY(name_value(m, n->in[i], &found));
        if (!found)
            return mr_invalid(
                "Input %d, '%s:%d', of node '%s' in function '%s' is not available. You might need "
                "to include it in inputs or include its source node in the body",
                i, n->in[i].node->name, n->in[i].index, n->name, m->spec->name);
        mr_pb_put_bytes(w, 3, mr_str_view(&m->text));
    }
    for (int i = 0; i < n->n_ctrl; i++) {
        int id = n->ctrl[i]->id;
        const char *name = m->renamed[id] ? m->renamed[id] : m->input_of[id];
        if (!name)
            return mr_invalid(
                "The source of control edge [id=%lld %s:-1 -> %s:-1] is not in the body. Encountered while creating function '%s'",
                (long long)edges_before(n) + n->n_in + i, n->ctrl[i]->name, n->name, m->spec->name);
        mr_str_clear(&m->text);
        mr_str_printf(&m->text, "^%s", name);
        mr_pb_put_bytes(w, 3, mr_str_view(&m->text));
    }
    return NULL;
}

/* _class refers to nodes: nodes of the body have new names, others do not exist inside. */
static mr_attr rename_classes(maker *m, const mr_attr *v)
{
    mr_attr out = *v;
    mr_sv *names = mr_arena_array(&m->arena, mr_sv, v->n);
    out.n = 0;
    out.ss = names;
    for (int i = 0; i < v->n; i++) {
        mr_sv name = v->ss[i];
        if (mr_sv_starts(name, "loc:@")) {
            const mr_node *n = mr_graph_find(m->g, (mr_sv){name.p + 5, name.n - 5});
            if (!n || !m->renamed[n->id])
                continue;
            name = mr_sv_of(mr_arena_printf(&m->arena, "loc:@%s", m->renamed[n->id]));
        }
        names[out.n++] = name;
    }
    return out;
}

static mr_status *write_attrs(maker *m, mr_pb_writer *w, const mr_node *n)
{
    for (int i = 0; i < n->n_attrs; i++) {
        mr_named_attr a = n->attrs[i];
        if (strcmp(a.name, "_class") == 0 && a.v.is_list && a.v.kind == MR_ATTR_STRING) {
            a.v = rename_classes(m, &a.v);
            if (a.v.n == 0)
                continue;
        }
        MR_TRY(mr_named_attrs_write(&a, 1, 5, w));
    }
    return NULL;
}

static mr_status *write_body(maker *m, mr_pb_writer *w)
{
    for (int i = 0; i < m->body.n; i++) {
        const mr_node *n = m->body.p[i];
        size_t mark = mr_pb_begin(w, 3);
        mr_pb_put_bytes(w, 1, mr_sv_of(m->renamed[n->id]));
        mr_pb_put_bytes(w, 2, mr_sv_of(n->def->name));
        MR_TRY(write_inputs(m, w, n));
        mr_pb_opt_bytes(w, 4, mr_sv_of(n->device));
        MR_TRY(write_attrs(m, w, n));
        mr_pb_put_raw(w, n->extra.p, n->extra.n);
        mr_pb_end(w, mark);
    }
    return NULL;
}

/* ---- signature and results ---- */

static void write_arg(mr_pb_writer *w, uint32_t field, const char *name, mr_out o)
{
    size_t mark = mr_pb_begin(w, field);
    mr_pb_put_bytes(w, 1, mr_sv_of(name));
    mr_pb_put_varint(w, 3, (uint64_t)mr_out_type(o));
    mr_pb_end(w, mark);
}

static const char *control_name(const mr_function_spec *s, int i)
{
    return s->control_names && s->control_names[i] ? s->control_names[i] : s->controls[i]->name;
}

/* An attr whose value is a placeholder gets its value at the call, so it becomes an attr of the function, once. */
static mr_status *write_attr_defs(maker *m, mr_pb_writer *w)
{
    mr_map seen = {0};
    mr_status *st = NULL;
    mr_str type = {0};
    for (int i = 0; i < m->body.n && !st; i++) {
        const mr_node *n = m->body.p[i];
        for (int k = 0; k < n->n_attrs && !st; k++) {
            const mr_attr *v = &n->attrs[k].v;
            if (v->kind != MR_ATTR_PLACEHOLDER || mr_map_put(&seen, v->s, m))
                continue;
            const mr_attr_def *d = mr_op_def_attr(n->def, n->attrs[k].name);
            if (!d) {
                st = mr_error(MR_UNIMPLEMENTED, "Placeholder value is not supported for attributes not in OpDef. Attribute: %s",
                              n->attrs[k].name);
                continue;
            }
            mr_str_clear(&type);
            mr_attr_type_name(&type, d->kind, d->is_list);
            size_t mark = mr_pb_begin(w, 4);
            mr_pb_put_bytes(w, 1, v->s);
            mr_pb_put_bytes(w, 2, mr_str_view(&type));
            mr_pb_end(w, mark);
        }
    }
    mr_str_deinit(&type);
    mr_map_deinit(&seen);
    return st;
}

/* Internal attrs (_name) of a front end are kept for the argument that the node becomes. */
static mr_status *write_arg_attrs(maker *m, mr_pb_writer *w)
{
    for (int i = 0; i < m->spec->n_inputs; i++) {
        const mr_node *n = m->spec->inputs[i].node;
        bool any = false;
        for (int k = 0; k < n->n_attrs; k++)
            any |= n->attrs[k].name[0] == '_';
        if (!any)
            continue;
        size_t entry = mr_pb_begin(w, 7);
        mr_pb_put_varint(w, 1, (uint64_t)i);
        size_t attrs = mr_pb_begin(w, 2);
        for (int k = 0; k < n->n_attrs; k++)
            if (n->attrs[k].name[0] == '_')
                MR_TRY(mr_named_attrs_write(&n->attrs[k], 1, 1, w));
        mr_pb_end(w, attrs);
        mr_pb_end(w, entry);
    }
    return NULL;
}

static mr_status *write_signature(maker *m, mr_pb_writer *w, const char *name)
{
    const mr_function_spec *s = m->spec;
    bool is_stateful = false;
    size_t mark = mr_pb_begin(w, 1);
    mr_pb_put_bytes(w, 1, mr_sv_of(name));
    for (int i = 0; i < s->n_inputs; i++)
        write_arg(w, 2, m->in_names[i], s->inputs[i]);
    for (int i = 0; i < s->n_outputs; i++)
        write_arg(w, 3, m->out_names[i], s->outputs[i]);
    MR_TRY(write_attr_defs(m, w));
    for (int i = 0; i < m->body.n; i++)
        is_stateful |= (m->body.p[i]->def->flags & MR_STATEFUL) != 0;
    mr_pb_opt_bytes(w, 6, mr_sv_of(s->description));
    mr_pb_opt_varint(w, 17, is_stateful);
    for (int i = 0; i < s->n_controls; i++)
        mr_pb_put_bytes(w, 20, mr_sv_of(control_name(s, i)));
    mr_pb_end(w, mark);
    return NULL;
}

static void write_pair(mr_pb_writer *w, uint32_t field, const char *name, mr_sv value)
{
    size_t mark = mr_pb_begin(w, field);
    mr_pb_put_bytes(w, 1, mr_sv_of(name));
    mr_pb_put_bytes(w, 2, value);
    mr_pb_end(w, mark);
}

static mr_status *write_rets(maker *m, mr_pb_writer *w)
{
    const mr_function_spec *s = m->spec;
    for (int i = 0; i < s->n_outputs; i++) {
        bool found;
        MR_TRY(name_value(m, s->outputs[i], &found));
        if (!found)
            return mr_invalid(
                "TF_Output %s:%d is neither in the function body nor among function inputs. "
                "Encountered while creating function '%s'",
                s->outputs[i].node->name, s->outputs[i].index, s->name);
        write_pair(w, 4, m->out_names[i], mr_str_view(&m->text));
    }
    for (int i = 0; i < s->n_controls; i++)
        write_pair(w, 6, control_name(s, i), mr_sv_of(m->renamed[s->controls[i]->id]));
    return NULL;
}

static mr_status *check_controls(const maker *m)
{
    const mr_function_spec *s = m->spec;
    mr_map seen = {.borrow_keys = true};
    mr_status *st = NULL;
    for (int i = 0; i < s->n_controls && !st; i++) {
        const mr_node *n = s->controls[i];
        if (!n || n->graph != m->g || !m->renamed[n->id])
            st = mr_invalid("Control output %d is not in the body of function '%s'", i, s->name);
        else if (!control_name(s, i)[0])
            st = mr_invalid("Control output name must be not empty");
        else if (mr_map_putz(&seen, control_name(s, i), &seen))
            st = mr_invalid("Repeated control output name: %s", control_name(s, i));
    }
    mr_map_deinit(&seen);
    return st;
}

/* ---- the whole ---- */

/* Base 64 of TensorFlow's hash of the function without a name; characters that names cannot contain are replaced by
 * letters. */
static mr_status *hashed_name(maker *m, const char **out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789aA";
    uint64_t h;
    char text[12] = {0};
    MR_TRY(mr_function_hash(mr_str_view(&m->bytes), &h));
    for (int i = 0; i < 11; i++) { /* the bytes from the lowest, each from its highest bit */
        int digit = 0;
        for (int bit = 6 * i; bit < 6 * i + 6; bit++)
            digit = digit << 1 | (bit < 64 ? (int)(h >> (bit / 8 * 8 + 7 - bit % 8) & 1) : 0);
        text[i] = digits[digit];
    }
    *out = mr_arena_printf(&m->arena, "%s_%s", m->spec->name, text);
    return NULL;
}

/* Called again if the name changes, because the name is part of the bytes. */
static mr_status *write_function(maker *m, const char *name)
{
    mr_pb_writer w;
    mr_str_clear(&m->bytes);
    mr_pb_writer_init(&w, &m->bytes);
    MR_TRY(write_signature(m, &w, name));
    MR_TRY(write_body(m, &w));
    MR_TRY(write_rets(m, &w));
    MR_TRY(write_arg_attrs(m, &w));
    return mr_pb_writer_status(&w, "FunctionDef");
}

static mr_status *make_function(maker *m, mr_function **out)
{
    const mr_function_spec *s = m->spec;
    size_t n = (size_t)m->g->nodes.n;
    m->renamed = mr_arena_try_array(&m->arena, const char *, n);
    m->input_of = mr_arena_try_array(&m->arena, const char *, n);
    m->in_names = mr_arena_try_array(&m->arena, const char *, s->n_inputs);
    m->out_names = mr_arena_try_array(&m->arena, const char *, s->n_outputs);
    if (!m->renamed || !m->input_of || !m->in_names || !m->out_names)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to make function '%s'", s->name);
    MR_TRY(check_values(m));
    MR_TRY(name_ends(m));
    MR_TRY(take_body(m));
    MR_TRY(check_controls(m));
    const char *name = s->name;
    MR_TRY(write_function(m, name));
    if (s->append_hash) {
        MR_TRY(hashed_name(m, &name));
        MR_TRY(write_function(m, name));
    }
    return mr_function_decode(mr_str_view(&m->bytes), out);
}

mr_status *mr_function_from_graph(const mr_graph *g, const mr_function_spec *spec,
                                  mr_function **out)
{
    if (!spec->name || !spec->name[0])
        return mr_invalid("A function needs a name");
    maker m = {.g = g, .spec = spec};
    mr_arena_init(&m.arena, 0);
    mr_status *st = make_function(&m, out);
    mr_map_deinit(&m.used);
    mr_imap_deinit(&m.inputs);
    mr_vec_deinit(&m.body);
    mr_str_deinit(&m.bytes);
    mr_str_deinit(&m.text);
    mr_arena_deinit(&m.arena);
    return st;
}
