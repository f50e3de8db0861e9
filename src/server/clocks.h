/* server/clocks.h -- how far the clocks of other tasks are from this one's, for traces.
 *
 * As in NTP: a question and its answer carry four times, the difference of the clocks is known to within half of the
 * time that was spent on the way, and of several tries the quickest counts.  Questions are GetStatus
 * calls with a field (1000) that TensorFlow's tasks do not know and ignore; their clocks stay unknown. */
#ifndef MR_SERVER_CLOCKS_H
#define MR_SERVER_CLOCKS_H

#include "server/task_peers.h"
#include "wire/pb.h"

/* Field numbers in GetStatusRequest (bool) and GetStatusResponse (message of two times). */
enum { MR_CLOCK_FIELD = 1000, MR_CLOCK_RECEIVED = 1, MR_CLOCK_SENT = 2 };

typedef struct mr_clock_reading {
    bool known;
    int64_t offset_ns; /* the task's clock minus ours */
    int64_t error_ns;  /* offset_ns is wrong by at most this, in either direction */
} mr_clock_reading;

/* One question: asked and heard by our clock, received and sent by the other one's. */
mr_clock_reading mr_clock_judge(int64_t asked_ns, int64_t received_ns, int64_t sent_ns, int64_t heard_ns);
/* What follows from a task's work between two moments of our clock: it lasted from first to last by the task's
 * clock. */
mr_clock_reading mr_clock_within(int64_t asked_ns, int64_t first_ns, int64_t last_ns, int64_t heard_ns);

/* Nanoseconds by which the clock of this task is made wrong: tests set MILLRACE_CLOCK_SKEW to
 * "worker:1=2500,ps:0=-40" (milliseconds).  name is a task's: "/job:worker/replica:0/task:1". */
int64_t mr_clock_skew_ns(const char *name);

/* Asks n tasks, and calls fn once when all have answered or failed.  out has n elements and must live until then.
 * skew_ns is our own; the clock of this task itself is known without asking. */
void mr_clocks_measure(mr_task_peers *p, const int *tasks, int n, int64_t skew_ns, mr_clock_reading *out, void (*fn)(void *arg),
                       void *arg);

/* The worker's side: whether a GetStatusRequest asks for the clock only. */
bool mr_clock_is_asked(mr_sv request);
void mr_clock_answer(int64_t received_ns, int64_t skew_ns, mr_pb_writer *w);

#endif
