/* ps/table.h -- a table: its options, how its keys are divided into ranges, and its description as bytes. */
#ifndef MR_PS_TABLE_H
#define MR_PS_TABLE_H

#include "dist/ps_view.h"
#include "millrace/ps.h"
#include "ps/update.h"
#include "wire/pb.h"

enum {
    MR_PS_MAX_NAME = 1024,
    MR_PS_MAX_WIDTH = 1 << 20,
    MR_PS_MAX_TABLES = 1 << 12,
    MR_PS_MAX_GRAPH = 64 << 20,
};
#define MR_PS_MAX_KEYS ((uint64_t)1 << 48)

typedef struct mr_ps_table_spec {
    char *name;
    mr_ps_table_options o; /* graph points to `graph` */
    mr_str graph;
    mr_ps_rule rule; /* for GRAPH it is ASSIGN, and only its planes and widths are used */
} mr_ps_table_spec;

/* Copies and checks name and options; 0 is replaced by the default. On error t is empty. */
mr_status *mr_ps_table_spec_init(mr_ps_table_spec *t, mr_sv name, const mr_ps_table_options *o);
void mr_ps_table_spec_deinit(mr_ps_table_spec *t);
bool mr_ps_table_spec_same(const mr_ps_table_spec *a, const mr_ps_table_spec *b);

/* As a message (docs/formats/ps.md, Table). */
void mr_ps_table_spec_put(mr_pb_writer *w, const mr_ps_table_spec *t);
mr_status *mr_ps_table_spec_get(mr_sv bytes, mr_ps_table_spec *out);

static inline int mr_ps_table_push_width(const mr_ps_table_spec *t) { return mr_ps_rule_push_width(&t->rule); }
/* Floats that are kept for each key: the values and the rule's other planes. */
static inline size_t mr_ps_table_row_floats(const mr_ps_table_spec *t)
{
    return t->o.update == MR_PS_GRAPH ? (size_t)t->o.width + (size_t)t->o.graph_slots
                                      : (size_t)mr_ps_rule_planes(&t->rule) * (size_t)t->o.width;
}

/* The first key of a range; for range n_ranges: num_keys. Ranges may be empty if there are few keys. */
static inline uint64_t mr_ps_range_first(uint64_t num_keys, int n_ranges, int range)
{
    return (uint64_t)((unsigned __int128)num_keys * (unsigned)range / (unsigned)n_ranges);
}
/* The range of a key: the largest s with floor(num_keys * s / n_ranges) <= key. */
static inline int mr_ps_range_of(uint64_t num_keys, int n_ranges, uint64_t key)
{
    return (int)((((unsigned __int128)key + 1) * (unsigned)n_ranges - 1) / num_keys);
}

#endif
