/* exec/chrome.h -- a writer of Chrome's trace event format: JSON that chrome://tracing and Perfetto show.
 *
 *     mr_chrome c;
 *     mr_chrome_init(&c, &text);
 *     mr_chrome_process(&c, 1, MR_SV("worker:0"), 1);
 *     mr_chrome_thread(&c, 1, 2, MR_SV("CPU:0"), 2);
 *     mr_chrome_span(&c, 1, 2, MR_SV("conv1"), MR_SV("compute"), 0, 1500, NULL, 0);
 *     mr_chrome_end(&c);
 *
 * Times are nanoseconds from any origin. The format counts microseconds, written with three decimals, so
 * nothing is lost. Names are arbitrary bytes: what is not UTF-8 becomes U+FFFD. Numbers are always finite.
 * The first error is kept and returned by mr_chrome_end. */
#ifndef MR_EXEC_CHROME_H
#define MR_EXEC_CHROME_H

#include "base/file.h"
#include "base/str.h"

typedef struct mr_chrome {
    mr_str *out;     /* where events are appended */
    mr_str gathered; /* is `out` if a file is written: the part that is not in the file yet */
    mr_writer *file; /* or NULL */
    mr_status *st;
    uint64_t next_flow;
    bool any; /* an event was written: the next one needs a comma */
} mr_chrome;

/* An argument of an event; text.p NULL: a number. */
typedef struct mr_chrome_arg {
    const char *key;
    mr_sv text;
    double number;
} mr_chrome_arg;

/* Appends to out, which outlives c. */
void mr_chrome_init(mr_chrome *c, mr_str *out);
/* The file appears complete at mr_chrome_end, or not at all. If this fails, mr_chrome_end must not be called. */
mr_status *mr_chrome_open(mr_chrome *c, const char *path);
/* Ends the list and the file. To be called once, whatever went wrong before. */
mr_status *mr_chrome_end(mr_chrome *c);

/* Names a process or thread; those with a smaller `order` are shown above. */
void mr_chrome_process(mr_chrome *c, int pid, mr_sv name, int order);
void mr_chrome_thread(mr_chrome *c, int pid, int tid, mr_sv name, int order);
/* An event with a duration. Those of one thread are disjoint or nested. */
void mr_chrome_span(mr_chrome *c, int pid, int tid, mr_sv name, mr_sv kind, int64_t start_ns,
                    int64_t took_ns, const mr_chrome_arg *args, int n_args);
void mr_chrome_instant(mr_chrome *c, int pid, int tid, mr_sv name, int64_t at_ns);
/* A curve of its process. */
void mr_chrome_counter(mr_chrome *c, int pid, mr_sv name, int64_t at_ns, double value);

typedef struct mr_chrome_point {
    int pid, tid;
    int64_t at_ns; /* inside of a span of that thread, which the arrow is bound to */
} mr_chrome_point;
void mr_chrome_arrow(mr_chrome *c, mr_sv name, mr_chrome_point from, mr_chrome_point to);

#endif
