/* exec/device_sim.h -- simulated devices: they compute on this machine's CPU and take the time of another.
 *
 * A simulated device has any type name but CPU's, borrows the CPU's kernels, and runs one node after the other: a node
 * ends when the time its effort takes at the device's speed has passed since the one before ended, or later when this
 * machine is slower.  Its memory is a budget.  A transfer to or from it takes latency and bytes / rate of the link
 * between the two; what goes over one link in one direction follows each other.  No thread is held while time passes.
 *
 * As text, for flags and the environment, several separated by ';':
 *
 *     GPU:0=flops_per_s=2e11,bytes_per_s=50G,op_us=5,memory_bytes=4G,latency_us=10,link_bytes_per_s=12G,priority=210
 *     GPU:0-GPU:1=latency_us=2,bytes_per_s=50G        both ways;  GPU:0>CPU:0=... one way
 *
 * The keys are those of plans (sim/plan.c); device_text.c has their older names too.  k M G T are powers of 1000, for
 * memory powers of 1024. */
#ifndef MR_EXEC_DEVICE_SIM_H
#define MR_EXEC_DEVICE_SIM_H

#include "run/device.h"

typedef struct mr_device_sim { /* what is 0 is as usual */
    char type[32];
    int id;
    mr_speed speed;
    int64_t memory;           /* bytes; 0: no limit */
    double latency_s, link_bytes_per_s; /* to all devices that no link below is told for */
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
/* Checked: INVALID_ARGUMENT for what cannot be, ALREADY_EXISTS for a device that is there.  Of equal links the last
 * counts. */
mr_status *mr_device_sims_add(mr_device_sims *s, const mr_device_sim *d);
mr_status *mr_device_sims_link(mr_device_sims *s, const mr_device_sim_link *l);
/* Adds what the text says, all or nothing; INVALID_ARGUMENT names the part that cannot be read. */
mr_status *mr_device_sims_parse(mr_device_sims *s, mr_sv text);
/* The same for one task of many: a part may begin with JOB/ or JOB:NUMBER/ and is for those only.  Appends what is for this
 * task, without that, for its MILLRACE_SIMULATE.  INVALID_ARGUMENT for a prefix that is none; the rest of what is for others is
 * not looked at. */
mr_status *mr_device_sims_of_task(mr_sv text, const char *job, int number, mr_str *out);
bool mr_device_sims_has(const mr_device_sims *s, const char *type);

/* The devices TASK/device:TYPE:ID, appended to out also when some could not be made. */
mr_status *mr_device_sims_make(const mr_device_sims *s, const char *task, mr_pool *pool, mr_device_vec *out);
bool mr_device_is_sim(const mr_device *d);
/* From now on everything takes `factor` times as long as promised; it may change while nodes run. */
mr_status *mr_device_sim_slow(mr_device *d, double factor);

#endif
