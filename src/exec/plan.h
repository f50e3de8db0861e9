/* exec/plan.h -- a graph prepared to run many times on one device.
 *
 * A plan is immutable, except for what it learns about the cost of its nodes. Nodes and edges are in flat
 * arrays. The nodes of one control-flow frame are adjacent, so the changing part of an iteration is two
 * arrays: counters (words) and values that wait to be used (slots). The inputs of a node are consecutive
 * slots. Indexes of counters and slots count from the start of their frame's.
 *
 * Counters:
 * - The counter of an ordinary node is the number of in-edges that have not arrived, plus MR_WORD_DEAD if one
 * of them was dead.
 * - The counter of a Merge is the number of control inputs that have not arrived, plus one until a value is
 * chosen.
 * - A Merge has a second counter behind those of the frame's nodes: the number of data inputs that have not
 * arrived dead, plus MR_WORD_CHOSEN. */
#ifndef MR_EXEC_PLAN_H
#define MR_EXEC_PLAN_H

#include "exec/kernel_cache.h"

#define MR_WORD_DEAD 0x80000000u
#define MR_WORD_CHOSEN 0x80000000u

enum mr_plan_node_flags {
    MR_PN_CHEAP = 1,     /* always runs at once, never handed to another thread */
    MR_PN_NOTHING = 2,   /* its kernel does nothing and is not called */
    MR_PN_ASYNC = 4,
    MR_PN_MERGE = 8,
    MR_PN_ENTER = 16,
    MR_PN_CONSTANT = 32, /* an Enter with is_constant */
    MR_PN_EXIT = 64,
    MR_PN_NEXT = 128,
    MR_PN_TRANSFER = 256, /* runs even if it is dead */
    MR_PN_MAY_SKIP = 512, /* Switch, Recv: an output that is not set is dead; elsewhere that is an error */
    MR_PN_REFS = 1024,    /* some input may arrive as a reference */
    MR_PN_UNINIT_OK = 2048,
    MR_PN_BLOCKS = 4096, /* its kernel may block: it gets another thread if this one is needed */
    MR_PN_FRAMED = MR_PN_ENTER | MR_PN_EXIT | MR_PN_NEXT,
};

enum mr_plan_edge_flags {
    MR_PE_CONTROL = 1,
    MR_PE_LAST = 2,  /* last use of that output: the value moves */
    MR_PE_SOLE = 4,  /* the only in-edge of its destination: no counting */
    MR_PE_MERGE = 8, /* data edge into a Merge */
    MR_PE_BLIND =
        16, /* deadness does not pass: control edge into a Merge, any into a ControlTrigger */
    MR_PE_CHEAP = 32, /* the destination is MR_PN_CHEAP */
    MR_PE_BITS = 8,   /* the output's index is above the flags */
};

typedef struct mr_plan_edge {
    uint32_t dst;  /* node */
    uint32_t word; /* its counter */
    uint32_t slot; /* its input; 0 for control edges */
    uint32_t what; /* output << MR_PE_BITS | flags */
} mr_plan_edge;

typedef struct mr_plan_node { /* one cache line */
    mr_status *(*run)(mr_run *r);
    void (*run_async)(mr_run *r);
    const mr_node *node;
    const mr_instance *kernel;
    uint32_t flags;
    uint32_t word, slot; /* its counter, its first input */
    uint32_t n_in, n_out;
    uint32_t edge, n_edges;
    uint32_t extra; /* Merge: its second counter; Enter: index of the child among its frame's; Exit:
                       which of its frame's */
} mr_plan_node;

typedef struct mr_plan_frame {
    const char *name;
    uint64_t name_hash;
    int parent, child; /* the enclosing frame (-1: none), and which of its children this is */
    int n_children, n_enters, n_exits, parallel;
    uint32_t first_word, n_words; /* in mr_plan.words */
    uint32_t n_slots;
    uint32_t first_child; /* in mr_plan.children: frame indexes */
} mr_plan_frame;

typedef struct mr_plan {
    mr_graph *graph; /* the nodes point into it */
    mr_device *device;
    uint32_t n_nodes, n_edges, n_roots;
    mr_plan_node *nodes;
    mr_plan_edge *edges;
    uint32_t *words; /* the counters at the start of an iteration */
    uint32_t *roots; /* nodes without in-edges */
    int n_frames;
    mr_plan_frame *frames; /* 0: the root */
    int *children;
    uint32_t max_out;
    mr_instance **kernels; /* one per node, owned */
    /* Learnt while running. */
    _Atomic uint8_t *heavy;     /* a node is worth another thread; at first all except the cheap ones */
    _Atomic uint32_t *cost_ns;  /* moving average of the measured runs; 0: not measured yet */
} mr_plan;

/* The graph (placed on this device, with _Arg, _Retval, _Send, _Recv at its ends) is referenced. */
mr_status *mr_plan_new(mr_graph *g, mr_device *d, mr_kernel_cache *kernels, mr_plan **out);
void mr_plan_free(mr_plan *p); /* NULL is fine */
/* Keeps what a run of node i took. From any thread. */
void mr_plan_note_cost(const mr_plan *p, uint32_t i, int64_t ns);

/* A node that takes longer than this is worth handing to another thread; a hand-over costs some microseconds. */
#define MR_HEAVY_NS 10000

#endif
