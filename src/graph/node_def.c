/* graph/node_def.c -- decodes NodeDefs without generated code.
 *
 * Decoding copies nothing and allocates no objects: a node is three views and ranges in lists shared by all nodes, so
 * ten thousand nodes take about a millisecond. Attrs stay serialized until the op is known. */
#include "graph/wire.h"

/* ---- pieces shared by the readers ---- */

mr_status *mr_wire_name(mr_arena *a, mr_sv v, const char **out)
{
    if (memchr(v.p, 0, v.n))
        return mr_invalid("a name holds a NUL byte");
    char *copy = mr_arena_try_alloc(a, v.n + 1);
    if (!copy)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a name of %zu bytes", v.n);
    memcpy(copy, v.p, v.n);
    copy[v.n] = '\0';
    *out = copy;
    return NULL;
}

mr_status *mr_wire_keep(mr_arena *a, mr_sv bytes, mr_sv *out)
{
    char *copy = mr_arena_try_alloc(a, bytes.n);
    if (!copy)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes.n);
    if (bytes.n)
        memcpy(copy, bytes.p, bytes.n);
    *out = (mr_sv){copy, bytes.n};
    return NULL;
}

mr_status *mr_wire_extra(mr_pb_reader *r, const uint8_t *from, mr_str *extra)
{
    mr_pb_skip(r);
    if (r->error || mr_str_try_append(extra, from, (size_t)(r->at - from)))
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for unknown fields");
}

size_t mr_wire_count(mr_pb_reader r, uint32_t wanted)
{
    uint32_t field, wire;
    size_t n = 0;
    while (mr_pb_next(&r, &field, &wire)) {
        n += field == wanted;
        mr_pb_skip(&r);
    }
    return n;
}

/* Doubles the capacity and checks every allocation: a file may contain very many nodes of a few bytes each. */
bool mr_wire_grow(void **p, int *cap, size_t elem_bytes)
{
    size_t bytes;
    if (*cap > INT32_MAX / 2)
        return false;
    int more = MR_MAX(*cap * 2, 16);
    if (!mr_size_mul((size_t)more, elem_bytes, &bytes))
        return false;
    void *grown = mr_try_realloc(*p, bytes);
    if (!grown)
        return false;
    *p = grown;
    *cap = more;
    return true;
}

/* ---- nodes ---- */

static mr_status *no_memory(void)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "NodeDef: out of memory");
}

/* If a field occurs more than once, the last one counts, as in protobuf. */
mr_status *mr_node_def_read(mr_pb_reader *r, mr_node_defs *into)
{
    mr_node_def n = {.name = MR_SV(""),
                     .op = MR_SV(""),
                     .device = MR_SV(""),
                     .first_input = into->inputs.n,
                     .first_attr = into->attrs.n,
                     .extra_at = into->extra.n};
    uint32_t field, wire;
    bool ok = true;
    for (const uint8_t *from = r->at; ok && mr_pb_next(r, &field, &wire); from = r->at) {
        switch (field) {
        case 1: n.name = mr_pb_bytes(r); break;
        case 2: n.op = mr_pb_bytes(r); break;
        case 3: ok = MR_TRY_PUSH(&into->inputs, mr_pb_bytes(r)); break;
        case 4: n.device = mr_pb_bytes(r); break;
        case 5: ok = MR_TRY_PUSH(&into->attrs, mr_pb_bytes(r)); break;
        default: MR_TRY(mr_wire_extra(r, from, &into->extra));
        }
    }
    MR_TRY(mr_pb_reader_status(r, "NodeDef"));
    n.n_inputs = into->inputs.n - n.first_input;
    n.n_attrs = into->attrs.n - n.first_attr;
    n.extra_n = into->extra.n - n.extra_at;
    return ok && MR_TRY_PUSH(&into->nodes, n) ? NULL : no_memory();
}

void mr_node_defs_deinit(mr_node_defs *d)
{
    mr_vec_deinit(&d->nodes);
    mr_vec_deinit(&d->inputs);
    mr_vec_deinit(&d->attrs);
    mr_str_deinit(&d->extra);
}

mr_status *mr_node_def_attrs(const mr_node_defs *d, const mr_node_def *n, const mr_attr_room *room, mr_named_attr **out,
                             int *n_out)
{
    mr_pb_reader r;
    mr_named_attr *attrs = mr_arena_try_array(room->arena, mr_named_attr, n->n_attrs);
    if (!attrs)
        return no_memory();
    for (int i = 0; i < n->n_attrs; i++) {
        mr_pb_reader_init(&r, d->attrs.p[n->first_attr + i]);
        MR_TRY(mr_named_attr_read(room, &r, &attrs[i]));
    }
    *out = attrs;
    *n_out = n->n_attrs;
    return mr_named_attrs_sort(attrs, n_out);
}
