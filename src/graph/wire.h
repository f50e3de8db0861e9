/* graph/wire.h -- shared by the hand-written decoders of graph/; private to graph/. */
#ifndef MR_GRAPH_WIRE_H
#define MR_GRAPH_WIRE_H

#include "base/arena.h"
#include "base/vec.h"
#include "graph/attr.h"
#include "wire/pb.h"

/* A string field as a C string in the arena; a NUL inside is INVALID_ARGUMENT. */
mr_status *mr_wire_name(mr_arena *a, mr_sv v, const char **out);
/* Skips the current value and appends the whole field, whose tag began at `from`. */
mr_status *mr_wire_extra(mr_pb_reader *r, const uint8_t *from, mr_str *extra);
/* A copy in the arena. */
mr_status *mr_wire_keep(mr_arena *a, mr_sv bytes, mr_sv *out);
/* The number of occurrences of a field in the rest; r itself does not move. */
size_t mr_wire_count(mr_pb_reader r, uint32_t field);

/* mr_vec_push for arrays sized by input: false if memory runs out. */
bool mr_wire_grow(void **p, int *cap, size_t elem_bytes);
#define MR_TRY_PUSH(v, ...)                                                            \
    (((v)->n < (v)->cap || mr_wire_grow((void **)&(v)->p, &(v)->cap, sizeof(*(v)->p))) \
         ? ((v)->p[(v)->n++] = (__VA_ARGS__), true)                                    \
         : false)

/* ---- NodeDefs, as views into the bytes they are read from ---- */
typedef struct mr_node_def {
    mr_sv name, op, device;
    int first_input, n_inputs, first_attr, n_attrs; /* in the lists below */
    size_t extra_at, extra_n;
} mr_node_def;

typedef struct mr_node_defs { /* zeroed: empty */
    MR_VEC(mr_node_def) nodes;
    MR_VEC(mr_sv) inputs;
    MR_VEC(mr_sv) attrs; /* entries of the map, not decoded */
    mr_str extra;        /* fields we do not interpret */
} mr_node_defs;

mr_status *mr_node_def_read(mr_pb_reader *r, mr_node_defs *into);
void mr_node_defs_deinit(mr_node_defs *d);
/* The attrs of a node, decoded and sorted. */
mr_status *mr_node_def_attrs(const mr_node_defs *d, const mr_node_def *n, const mr_attr_room *room, mr_named_attr **out,
                             int *n_out);
static inline mr_sv mr_node_def_extra(const mr_node_defs *d, const mr_node_def *n)
{
    return (mr_sv){n->extra_n ? d->extra.p + n->extra_at : "", n->extra_n};
}

#endif
