/* distbelief/sandblaster_messages.h -- the messages between Sandblaster's coordinator and its replicas (over
 * distbelief/coordinator_service.h).
 *
 *     hello    1: name of the job  2: keys  3: width   of the vector
 *     report   1: kind  2: evaluation  3: portion  4: loss (double)  5: code  6: message
 *     order    1: kind  2: evaluation  3: portion  4: lane  5: keep  6: portions
 *
 * None of them contains parameters. */
#ifndef MR_DISTBELIEF_SANDBLASTER_MESSAGES_H
#define MR_DISTBELIEF_SANDBLASTER_MESSAGES_H

#include "base/bytes.h"
#include "millrace/ps.h"

typedef struct mr_blast_hello {
    mr_sv name;
    uint64_t keys;
    int64_t width;
} mr_blast_hello;

typedef enum mr_blast_report_kind { MR_TOLD_NOTHING, MR_TOLD_STARTED, MR_TOLD_DONE, MR_TOLD_FLUSHED, MR_TOLD_FAILED } mr_blast_report_kind;

typedef struct mr_blast_report {
    mr_blast_report_kind kind;
    int64_t evaluation, portion;
    double loss;
    int code; /* of FAILED */
    mr_sv message;
} mr_blast_report;

typedef enum mr_blast_order_kind {
    MR_WISH_NOTHING,
    MR_WISH_START,   /* push the initial values to the lane */
    MR_WISH_COMPUTE,
    MR_WISH_FLUSH,
    MR_WISH_END,     /* the work is done: leave */
} mr_blast_order_kind;

typedef struct mr_blast_order {
    mr_blast_order_kind kind;
    int64_t evaluation, portion, portions;
    int lane;
    bool keep;
} mr_blast_order;

/* put appends to out; get checks what can be checked without knowing the job. */
mr_status *mr_blast_put_hello(const mr_blast_hello *h, mr_bytes *out);
mr_status *mr_blast_get_hello(mr_sv bytes, mr_blast_hello *out); /* a view of the bytes */
mr_status *mr_blast_put_report(const mr_blast_report *r, mr_bytes *out);
mr_status *mr_blast_get_report(mr_sv bytes, mr_blast_report *out);
mr_status *mr_blast_put_order(const mr_blast_order *o, mr_bytes *out);
mr_status *mr_blast_get_order(mr_sv bytes, mr_blast_order *out);

/* A vector of a job: "JOB/x", "JOB/lane 3". */
mr_status *mr_blast_table(mr_ps *ps, mr_sv job, const char *vector, int number, uint64_t keys, int64_t width, int *out);

#endif
