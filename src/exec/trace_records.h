/* exec/trace_records.h -- runs of nodes as read from RunMetadata; for trace_read.c, trace_align.c and
 * trace_build.c. */
#ifndef MR_EXEC_TRACE_RECORDS_H
#define MR_EXEC_TRACE_RECORDS_H

#include "exec/trace.h"
#include "exec/trace_read.h"

typedef enum mr_record_role { MR_ROLE_NODE, MR_ROLE_SEND, MR_ROLE_RECV } mr_record_role;

/* One NodeExecStats; views into the message. */
typedef struct mr_record {
    mr_sv name, op;
    mr_sv inputs; /* "a, b:1, ^c", without the tensor and device of a Send or Recv */
    mr_sv tensor; /* of a Send or Recv */
    int step, device;
    int peer; /* device of the other side; -1: none */
    int64_t start_ns, end_ns, bytes;
    int64_t made_ns; /* when others could use its value; a Send runs on for a little after that */
    mr_record_role role;
    mr_span_kind kind;
    bool blocks; /* waits for others instead of working: does not occupy a thread of the device */
    int sent_by; /* of a Recv: the record of its Send; -1: was not traced */
    int span;    /* the span that arrows refer to, once it is made */
} mr_record;

typedef struct mr_record_device {
    mr_sv name;       /* in full */
    const char *task; /* "worker:1" */
    const char *lane; /* "CPU:0" */
    int task_id;      /* in the timeline */
} mr_record_device;

typedef struct mr_record_step {
    mr_trace_info info;
    MR_VEC(mr_trace_clock) clocks;
    int64_t shift_ns; /* to the clock of all */
    int first, n;     /* of the records */
} mr_record_step;

typedef struct mr_records {
    mr_arena arena;
    mr_map device_ids; /* full name -> index + 1 */
    MR_VEC(mr_record_device) devices;
    MR_VEC(mr_record_step) steps;
    MR_VEC(mr_record) all;
} mr_records;

int mr_records_device(mr_records *r, mr_sv name);
/* Matches Sends and Recvs, shifts everything to one clock, and fills the timeline. */
void mr_records_build(mr_records *r, mr_timeline *out);

/* ---- trace_align.c ---- */
/* Shifts all steps to one clock, by the offsets that they carry, and sets the start and end of each step. */
void mr_records_align(mr_records *r);
/* Shifts tasks so that nothing is received before it was sent; needs sent_by and task_id (below n_tasks) to be set. */
void mr_records_mend(mr_records *r, int n_tasks);
/* Shortens long times between steps in which nothing was traced. */
void mr_records_cut_idle(mr_records *r);

#endif
