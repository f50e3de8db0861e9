/* ps/table.c -- a table: its options, checked, and as bytes.
 *
 * A table is described by its options alone, so two processes that have the same options have the
 * same table: initial values depend only on options and key. The manager, all servers and all
 * clients keep such descriptions, in the same order. */
#include "ps/table.h"

#include <math.h>

/* Options come from a user or from a peer; everything that later code relies on is checked here. */
static mr_status *check_options(mr_sv name, const mr_ps_table_options *o)
{
    if (name.n == 0 || name.n > MR_PS_MAX_NAME || memchr(name.p, 0, name.n))
        return mr_invalid("A table's name has %zu bytes, expected 1 to %d without a NUL", name.n,
                          MR_PS_MAX_NAME);
    if (o->num_keys == 0 || o->num_keys > MR_PS_MAX_KEYS)
        return mr_invalid("Table '%.*s': num_keys is %llu, expected 1 to 2^48", MR_SV_ARG(name),
                          (unsigned long long)o->num_keys);
    if (o->width < 0 || o->width > MR_PS_MAX_WIDTH)
        return mr_invalid("Table '%.*s': width is %d, expected 1 to %d", MR_SV_ARG(name), o->width,
                          MR_PS_MAX_WIDTH);
    if ((unsigned)o->update > MR_PS_GRAPH)
        return mr_invalid("Table '%.*s': unknown update %d", MR_SV_ARG(name), (int)o->update);
    if (!isfinite(o->start) || !isfinite(o->spread))
        return mr_invalid("Table '%.*s': start and spread must be finite", MR_SV_ARG(name));
    if (o->aggregate < 0 || o->aggregate > (1 << 20))
        return mr_invalid("Table '%.*s': aggregate is %d, expected 0 to %d", MR_SV_ARG(name), o->aggregate, 1 << 20);
    if ((o->update == MR_PS_GRAPH) != (o->graph_bytes > 0) || o->graph_bytes > MR_PS_MAX_GRAPH ||
        (o->graph_bytes && !o->graph))
        return mr_invalid("Table '%.*s': graph has %zu bytes; update GRAPH needs one of 1 to %d bytes, others none",
                          MR_SV_ARG(name), o->graph_bytes, MR_PS_MAX_GRAPH);
    if (o->update == MR_PS_GRAPH && o->aggregate > 1)
        return mr_invalid("Table '%.*s': aggregate is %d, but update GRAPH cannot aggregate pushes", MR_SV_ARG(name),
                          o->aggregate);
    if (o->graph_slots < 0 || o->graph_slots > MR_PS_MAX_WIDTH ||
        (o->graph_slots && o->update != MR_PS_GRAPH))
        return mr_invalid("Table '%.*s': graph_slots is %d, expected 0 to %d, and 0 unless update is GRAPH",
                          MR_SV_ARG(name), o->graph_slots, MR_PS_MAX_WIDTH);
    return NULL;
}

/* The rule gets its defaults; the options keep the 0 of the caller, because they are sent to
 * others. */
mr_status *mr_ps_table_spec_init(mr_ps_table_spec *t, mr_sv name, const mr_ps_table_options *o)
{
    *t = (mr_ps_table_spec){0};
    MR_TRY(check_options(name, o));
    t->o = *o;
    t->o.struct_size = sizeof t->o;
    t->o.width = o->width ? o->width : 1;
    t->o.graph = NULL;
    if (o->graph_bytes && !mr_str_try_append(&t->graph, o->graph, o->graph_bytes))
        return mr_error(MR_RESOURCE_EXHAUSTED, "Table '%.*s': no memory for its graph", MR_SV_ARG(name));
    t->o.graph = t->graph.p;
    t->name = mr_strndup(name.p, name.n);
    t->rule = (mr_ps_rule){.kind = o->update == MR_PS_GRAPH ? MR_RULE_ASSIGN : (mr_ps_rule_kind)o->update,
                           .width = t->o.width,
                           .rate = o->rate,
                           .a = o->a,
                           .b = o->b,
                           .epsilon = o->epsilon,
                           .l1 = o->l1,
                           .l2 = o->l2};
    MR_ASSERT(t->o.width >= 1 && t->o.num_keys >= 1);
    mr_status *st = mr_ps_rule_init(&t->rule);
    if (st) {
        mr_status_prepend(st, "Table '%.*s': ", MR_SV_ARG(name));
        mr_ps_table_spec_deinit(t);
    }
    return st;
}

void mr_ps_table_spec_deinit(mr_ps_table_spec *t)
{
    mr_ps_rule_deinit(&t->rule);
    mr_str_deinit(&t->graph);
    mr_free(t->name);
    *t = (mr_ps_table_spec){0};
}

/* The bytes hold everything about a table, so equal bytes mean equal tables. */
bool mr_ps_table_spec_same(const mr_ps_table_spec *a, const mr_ps_table_spec *b)
{
    mr_str x = {0}, y = {0};
    mr_pb_writer wx, wy;
    mr_pb_writer_init(&wx, &x);
    mr_pb_writer_init(&wy, &y);
    mr_ps_table_spec_put(&wx, a);
    mr_ps_table_spec_put(&wy, b);
    bool same = !wx.failed && !wy.failed && mr_sv_eq(mr_str_view(&x), mr_str_view(&y));
    mr_str_deinit(&x);
    mr_str_deinit(&y);
    return same;
}

/* The same table always gives the same bytes: mr_ps_table_spec_same relies on it. */
void mr_ps_table_spec_put(mr_pb_writer *w, const mr_ps_table_spec *t)
{
    const mr_ps_table_options *o = &t->o;
    mr_pb_put_bytes(w, 1, mr_sv_of(t->name));
    mr_pb_opt_varint(w, 2, o->num_keys);
    mr_pb_opt_varint(w, 3, (uint64_t)o->width);
    mr_pb_opt_varint(w, 4, (uint64_t)o->update);
    mr_pb_opt_float(w, 5, o->rate);
    mr_pb_opt_float(w, 6, o->a);
    mr_pb_opt_float(w, 7, o->b);
    mr_pb_opt_float(w, 8, o->epsilon);
    mr_pb_opt_float(w, 9, o->l1);
    mr_pb_opt_float(w, 10, o->l2);
    mr_pb_opt_float(w, 11, o->start);
    mr_pb_opt_float(w, 12, o->spread);
    mr_pb_opt_fixed64(w, 13, o->seed);
    mr_pb_opt_varint(w, 14, (uint64_t)o->aggregate);
    mr_pb_opt_bytes(w, 15, mr_str_view(&t->graph));
    mr_pb_opt_varint(w, 16, (uint64_t)o->graph_slots);
}

/* The options are checked as those of a user are. */
mr_status *mr_ps_table_spec_get(mr_sv bytes, mr_ps_table_spec *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv name = MR_SV(""), graph = MR_SV("");
    mr_ps_table_options o = {.struct_size = sizeof o};
    *out = (mr_ps_table_spec){0};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: name = mr_pb_bytes(&r); break;
        case 2: o.num_keys = mr_pb_varint(&r); break;
        case 3: o.width = mr_pb_int32(&r); break;
        case 4: o.update = (mr_ps_update)mr_pb_int32(&r); break;
        case 5: o.rate = mr_pb_float(&r); break;
        case 6: o.a = mr_pb_float(&r); break;
        case 7: o.b = mr_pb_float(&r); break;
        case 8: o.epsilon = mr_pb_float(&r); break;
        case 9: o.l1 = mr_pb_float(&r); break;
        case 10: o.l2 = mr_pb_float(&r); break;
        case 11: o.start = mr_pb_float(&r); break;
        case 12: o.spread = mr_pb_float(&r); break;
        case 13: o.seed = mr_pb_fixed64(&r); break;
        case 14: o.aggregate = mr_pb_int32(&r); break;
        case 15: graph = mr_pb_bytes(&r); break;
        case 16: o.graph_slots = mr_pb_int32(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "Table"));
    o.graph = graph.p;
    o.graph_bytes = graph.n;
    return mr_ps_table_spec_init(out, name, &o);
}
