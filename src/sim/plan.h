/* sim/plan.h -- what `millrace sim` simulates, as described by a plan.json.
 *
 * A plan is a graph (a built-in model or a GraphDef file), the devices to run it on, the links between them and, if the
 * training is to be simulated too, a cluster. Reading is strict: a key that is unknown, given twice, of the wrong type
 * or out of range is an error that names its place, `plan.json: devices[1].speedup: ...`. All keys are in tables
 * (plan.c), from which their documentation is generated, too.
 *
 * Everything has a bound, so that no plan runs forever or exhausts the memory. */
#ifndef MR_SIM_PLAN_H
#define MR_SIM_PLAN_H

#include "base/arena.h"
#include "passes/assign.h"
#include "run/device.h"
#include "sim/models.h"
#include "sim/train/train.h"

enum {
    MR_SIM_MAX_DEVICES = 64,
    MR_SIM_MAX_LINKS = 4096,
    MR_SIM_MAX_PINS = 1000,
    MR_SIM_MAX_NAMES = 1000,      /* feeds, fetches, targets */
    MR_SIM_MAX_GRAPH_NODES = 50000,
    MR_SIM_MAX_PLAN_BYTES = 1 << 20,
    MR_SIM_MAX_WORK = 20000000,   /* workers x steps x chunks of a simulated training */
};

typedef enum mr_sim_device_type { MR_SIM_CPU, MR_SIM_GPU } mr_sim_device_type;

typedef struct mr_sim_device { /* numbers that are not given are NAN until the plan is complete */
    const char *name;   /* as the plan calls it: gpu0 */
    const char *full;   /* /job:localhost/replica:0/task:0/device:GPU:0 */
    int type;
    int64_t task;
    double speedup;     /* factor on the speed of everything */
    double flops_per_s, bytes_per_s, op_s, memory_bytes;
} mr_sim_device;

typedef struct mr_sim_link {
    const char *from, *to; /* names of devices */
    bool both;
    double latency_s, bytes_per_s;
} mr_sim_link;

typedef struct mr_sim_pin { /* nodes with a fixed device */
    const char *node; /* a name, or a prefix that ends with a slash */
    const char *device;
    int number; /* of the device */
} mr_sim_pin;

typedef MR_VEC(const char *) mr_sim_names;

typedef struct mr_sim_wish { /* a parameter of the model, kept until the model is known */
    const char *key;
    int64_t value;
} mr_sim_wish;

typedef struct mr_sim_graph_plan {
    const char *model_name, *file; /* one of them */
    const char *signature;         /* of a SavedModel; NULL: serving_default */
    const mr_sim_model *model;     /* NULL: the file */
    int64_t params[MR_SIM_MAX_PARAMS];
    mr_sim_names feeds, fetches, targets; /* of a file */
    MR_VEC(mr_sim_wish) wishes;
} mr_sim_graph_plan;

typedef struct mr_sim_cluster {
    bool given;
    mr_simtrain_job job; /* without chunks: they come from the simulated step; steps 0: as many as are quick */
    int mode;            /* index of the plan's word: there, backup is a separate mode */
    bool shard;
    int64_t workers, ps, steps, warmup, seed, backup, delay, window, hosts;
    MR_VEC(mr_simtrain_slow) slow;
    MR_VEC(mr_simtrain_crash) crashes;
    MR_VEC(mr_simtrain_cut) cuts;
    MR_VEC(double) checkpoints;
} mr_sim_cluster;

/* What to show: bits. */
enum {
    MR_SIM_SHOW_PLACEMENT = 1,
    MR_SIM_SHOW_TIMELINE = 2,
    MR_SIM_SHOW_CLUSTER = 4,
    MR_SIM_SHOW_ALL = 7,
};

typedef struct mr_sim_plan {
    mr_arena arena;    /* all texts */
    const char *title; /* "" for none */
    mr_sim_graph_plan graph;
    MR_VEC(mr_sim_device) devices;
    mr_workload_link link, network; /* between devices of one task, of two */
    MR_VEC(mr_sim_link) links;
    MR_VEC(mr_sim_pin) pins;
    const char *costs; /* a file of measured costs; NULL: none */
    mr_sim_cluster cluster;
    unsigned show;
    int64_t visits;    /* of the placer's search */
    const mr_cancel_flag *cancelled; /* not from the file: ends simulations with CANCELLED; NULL: nothing does */
} mr_sim_plan;

/* name: for messages.  INVALID_ARGUMENT; the plan is then empty. */
mr_status *mr_sim_plan_parse(mr_sv text, const char *name, mr_sim_plan *out);
/* Paths in the plan become relative to the file's folder. */
mr_status *mr_sim_plan_load(const char *path, mr_sim_plan *out);
void mr_sim_plan_deinit(mr_sim_plan *p);

int mr_sim_plan_device(const mr_sim_plan *p, mr_sv name); /* -1 if there is none */
/* The link from one device to another, according to the plan. */
mr_workload_link mr_sim_plan_link(const mr_sim_plan *p, int from, int to);
/* Sets one number: "device:gpu0.speedup", "graph.batch", "cluster.workers". INVALID_ARGUMENT if it does not exist or
 * the value is out of range. */
mr_status *mr_sim_plan_set(mr_sim_plan *p, mr_sv what, double value);

/* All keys as a table for docs/sim.md. */
void mr_sim_plan_keys(mr_str *out);

#endif
