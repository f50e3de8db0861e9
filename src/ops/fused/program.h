/* ops/fused/program.h -- the members of a fused node, and how they run for inputs of given shapes; internal to ops/fused.
 *
 * Values are numbered: first the inputs of the fused node (leaves), then the results of the members, in their order. A
 * member that passes its input on (Identity) has no value of its own: `root` leads to the value it stands for. */
#ifndef MR_OPS_FUSED_PROGRAM_H
#define MR_OPS_FUSED_PROGRAM_H

#include "ops/elementwise.h"
#include "run/fused.h"

enum {
    MR_FUSED_MAX_VALUES = MR_FUSED_MAX_INPUTS + MR_FUSED_MAX_MEMBERS,
    MR_FUSED_MAX_RANK = 8, /* tensors of more dimensions are computed node by node */
};

typedef struct mr_fused_member {
    const mr_node *node;
    mr_instance *instance;
    mr_each_form form;
    const mr_each *each; /* the loop; NULL: the form has none */
    bool channels_first, truncate; /* of MR_FORM_BIAS; of MR_FORM_CAST */
    int n_in;
    uint8_t *in; /* values */
} mr_fused_member;

typedef struct mr_fused_dims {
    int rank;
    int64_t n, dims[MR_FUSED_MAX_RANK];
} mr_fused_dims;

/* An operand that is smaller than the result: a walk with one stride per dimension of the result, collapsed. */
typedef struct mr_fused_walk {
    int value, rank;
    size_t bytes;   /* of an element */
    int64_t period; /* elements of the result after which it repeats */
    int64_t dims[MR_FUSED_MAX_RANK], strides[MR_FUSED_MAX_RANK];
} mr_fused_walk;

/* Where the elements of a tile are. */
typedef enum mr_fused_place {
    MR_FUSED_TENSOR, /* in the tensor of a value, which is as large as the result */
    MR_FUSED_BUFFER, /* in a buffer that an earlier member filled for this tile */
    MR_FUSED_SPREAD, /* one element, replicated once */
    MR_FUSED_WALK,   /* gathered, once if the walk repeats within a tile */
} mr_fused_place;

typedef struct mr_fused_operand {
    mr_fused_place place;
    uint8_t bytes; /* of an element */
    uint8_t value;
    int walk;
    int slot; /* buffer; -1: none */
} mr_fused_operand;

typedef struct mr_fused_instr {
    const mr_fused_member *m;
    int dst, src; /* operands: of the result, the index in `sources` of the first one read */
} mr_fused_instr;

/* A run of members over results of one size, tile by tile. */
typedef struct mr_fused_tiles {
    int64_t n, tile, n_tiles;
    size_t slot_bytes;
    int n_slots, wide_slot; /* buffers; the first of those for 16-bit floats as float */
    double cost_ns;         /* of a tile */
    bool fetches_ahead;     /* later tiles are brought into the cache during this one */
    int n_operands, n_walks, n_instrs, n_sources;
    mr_fused_operand *operands;
    mr_fused_walk *walks;
    mr_fused_instr *instrs;
    uint16_t *sources; /* operands */
} mr_fused_tiles;

typedef struct mr_fused_step {
    int member; /* run whole by its kernel; -1: tiles */
    mr_fused_tiles *tiles;
} mr_fused_step;

/* How a fused node runs for inputs of these shapes. Never changes once made. */
typedef struct mr_fused_schedule {
    struct mr_fused_schedule *next;
    mr_arena arena;
    int64_t *shapes; /* of the leaves: rank, dims, rank, dims .. */
    int n_shapes;
    int n_steps;
    mr_fused_step *steps;
    mr_fused_dims *dims; /* by value */
    int *last_step;      /* by value: the last step that reads it; n_steps: the caller does. -1: none */
    uint8_t **reuse;     /* by value: after their number, the leaves whose memory its tiles may overwrite. NULL: none */
} mr_fused_schedule;

typedef struct mr_fused {
    mr_graph *graph; /* owns the members' nodes */
    int n_leaves, n_members, n_values, n_out;
    mr_fused_member *members;
    mr_dtype *types; /* by value */
    uint8_t *root;   /* by value: the value it stands for */
    uint8_t *out;    /* by output: the root of its value */
    int *output_of;  /* by value: the first output that is this value; -1: none */
    mr_mutex mu;     /* guards additions to the list of schedules */
    _Atomic(mr_fused_schedule *) schedules;
    int n_schedules MR_GUARDED_BY(mu);
} mr_fused;

/* The tensors of one run, by value; borrowed. */
typedef struct mr_fused_run {
    const mr_fused *f;
    mr_tensor *t[MR_FUSED_MAX_VALUES];
} mr_fused_run;

/* Makes the schedule for these leaves; RESOURCE_EXHAUSTED. If the members do not accept the shapes, it runs them one by
 * one, so that the one that fails reports the error. */
mr_status *mr_fused_schedule_new(const mr_fused *f, const mr_value *leaves, mr_fused_schedule **out);
void mr_fused_schedule_free(mr_fused_schedule *s);
bool mr_fused_schedule_fits(const mr_fused *f, const mr_fused_schedule *s, const mr_value *leaves);

/* Computes the tiles. All tensors that they read and write are in x->t. */
void mr_fused_tiles_run(mr_run *r, const mr_fused_tiles *t, const mr_fused_run *x);

#endif
