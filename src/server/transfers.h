/* server/transfers.h -- what came from other tasks and how long it took, while somebody wants to know (Logging).
 *
 * One NodeExecStats a tensor, under the device it came to; those of the newest steps are kept. */
#ifndef MR_SERVER_TRANSFERS_H
#define MR_SERVER_TRANSFERS_H

#include "base/str.h"
#include "base/thread.h"
#include "base/vec.h"

enum { MR_TRANSFERS_KEPT = 4096 };

typedef struct mr_arrival {
    int64_t step, start_us, end_us; /* of the wall clock */
    size_t bytes;
    char *tensor, *from, *to;
} mr_arrival;

typedef struct mr_transfers {
    _Atomic bool on;
    mr_mutex mu;
    MR_VEC(mr_arrival) all MR_GUARDED_BY(mu); /* the oldest first */
} mr_transfers;

void mr_transfers_init(mr_transfers *t);
void mr_transfers_deinit(mr_transfers *t);
/* Nothing is done unless it is on. */
void mr_transfers_add(mr_transfers *t, int64_t step, mr_sv tensor, mr_sv from, mr_sv to, size_t bytes, int64_t start_us);
/* Answers a LoggingRequest with a LoggingResponse: steps that are fetched are forgotten. */
mr_status *mr_transfers_answer(mr_transfers *t, mr_sv request, mr_str *out);

#endif
