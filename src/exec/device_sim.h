/* exec/device_sim.h -- simulated devices: they compute on this machine's CPU and take the time of another
 * device.
 *
 * A simulated device has any type name except CPU, borrows the CPU's kernels, and runs one node after the
 * other. A node ends when the time its effort takes at the device's speed has passed since the previous node
 * ended, or later if this machine is slower. The memory of the device is a budget. A transfer to or from it
 * takes the latency of the link between the two devices, plus bytes / rate. Transfers over one link in one
 * direction follow each other. No thread is occupied while time passes.
 *
 * Descriptions as text, for flags and the environment; several are separated by ';':
 *
 *     GPU:0=flops_per_s=2e11,bytes_per_s=50G,op_us=5,memory_bytes=4G,latency_us=10,link_bytes_per_s=12G,priority=210
 *     GPU:0-GPU:1=latency_us=2,bytes_per_s=50G        both directions;  GPU:0>CPU:0=... one direction
 *
 * The keys are those of plans (sim/plan.c); device_text.c accepts their older names too. k, M, G and T are
 * powers of 1000, for memory powers of 1024. */
#ifndef MR_EXEC_DEVICE_SIM_H
#define MR_EXEC_DEVICE_SIM_H

#include "run/device.h"

typedef struct mr_device_sim { /* 0 means the usual value */
    char type[32];
    int id;
    mr_speed speed;
    int64_t memory;           /* bytes; 0: no limit */
    double latency_s, link_bytes_per_s; /* to all devices without a link of their own below */
    int priority;             /* for placement; 0: above the CPU's */
} mr_device_sim;

typedef struct mr_device_sim_link {
    char from[48], to[48]; /* "GPU:0", "CPU:0": devices of one task */
    double latency_s, bytes_per_s;
} mr_device_sim_link;

typedef struct mr_device_sims {
    MR_VEC(mr_device_sim) devices;
    MR_VEC(mr_device_sim_link) links;
} mr_device_sims;
void mr_device_sims_deinit(mr_device_sims *s);
/* Adds a device or a link, after checking it: INVALID_ARGUMENT for impossible values, ALREADY_EXISTS for a device that
 * was added before. A second link between the same devices replaces the first. */
mr_status *mr_device_sims_add(mr_device_sims *s, const mr_device_sim *d);
mr_status *mr_device_sims_link(mr_device_sims *s, const mr_device_sim_link *l);
/* Adds everything that the text describes, or nothing; INVALID_ARGUMENT names the part that cannot be read. */
mr_status *mr_device_sims_parse(mr_device_sims *s, mr_sv text);
/* Selects the descriptions for one task of a cluster. A part may begin with JOB/ or JOB:NUMBER/ and then applies only
 * to those tasks. Appends the parts for this task, without the prefix, as text for its MILLRACE_SIMULATE.
 * INVALID_ARGUMENT for a malformed prefix; the contents of parts for other tasks are not checked. */
mr_status *mr_device_sims_of_task(mr_sv text, const char *job, int number, mr_str *out);
bool mr_device_sims_has(const mr_device_sims *s, const char *type);

/* Makes the devices TASK/device:TYPE:ID. They are appended to out also if some could not be made. */
mr_status *mr_device_sims_make(const mr_device_sims *s, const char *task, mr_pool *pool, mr_device_vec *out);
bool mr_device_is_sim(const mr_device *d);
/* From now on every node takes `factor` times as long as the description says; may be called while nodes run. */
mr_status *mr_device_sim_slow(mr_device *d, double factor);

#endif
