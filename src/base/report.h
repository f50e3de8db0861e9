/* base/report.h -- reports what this task is doing to a watcher.
 *
 * MILLRACE_STATUS names a Unix datagram socket; `millrace launch` sets it and draws its table from the reports. Without
 * the variable nothing is sent, which costs one load. Sending a report never blocks, and reports may be lost. */
#ifndef MR_BASE_REPORT_H
#define MR_BASE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* This task has done one more step; the global step is now `step`. Ends a wait. */
void mr_report_step(int64_t step);
/* The task waits: "the token of step 12", "/job:ps/task:0". */
void mr_report_waiting(const char *what);

/* Begins a wait within a step that is usually short; the text must live forever ("other workers"). The next
 * mr_report_beat, from another thread, reports it if it has lasted for a second. It ends with the step. */
void mr_report_blocked(const char *what);
void mr_report_beat(void);

/* This task listens at its address.  A program that ends before that would only fail again if it were restarted. */
void mr_report_ready(void);
/* This task could not listen, because another process uses its port. */
void mr_report_port_taken(void);
/* The progress of the training: its last loss (NaN: unchanged), and the global step at which it ends (-1: unchanged).
 * Sent at most every tenth of a second. */
void mr_report_progress(double loss, int64_t last_step);
/* From now on the watcher, if there is one, gets and shows what this process logs, unless the process has a log
 * listener already. */
void mr_report_log(void);

/* The figures of a worker of this job: its iterations, waits and staleness. Sent by the task that counts them. */
typedef struct mr_report_figures {
    int64_t worker;     /* its number */
    int64_t iterations; /* done by this worker */
    int64_t late;       /* gradients that were dropped */
    int64_t waited_ms;  /* for others */
    double staleness;   /* others' updates while it worked on one: mean */
    int64_t staleness_max;
} mr_report_figures;
void mr_report_tell_figures(const mr_report_figures *f);
/* "figures WORKER ITERATIONS LATE WAITED_MS STALENESS_IN_HUNDREDTHS STALENESS_MAX" */
bool mr_report_figures_parse(mr_sv text, mr_report_figures *out);

/* A report as it travels: "worker/1 GLOBAL_STEP OWN_STEPS WAITING", -1 while there is no step. */
typedef struct mr_report {
    mr_sv task, waiting; /* views */
    int64_t step, own;
} mr_report;
bool mr_report_parse(mr_sv text, mr_report *out);

/* The other reports of a task: "ready worker/1", "taken worker/1", "progress worker/1 LOSS LAST_STEP" and "log worker/1
 * TEXT". */
typedef enum mr_report_kind { MR_REPORT_READY, MR_REPORT_PORT_TAKEN, MR_REPORT_PROGRESS, MR_REPORT_LOG } mr_report_kind;
typedef struct mr_report_news {
    mr_report_kind kind;
    mr_sv task, text;  /* views; text of a log */
    double loss;       /* of progress; NaN: unknown */
    int64_t last_step; /* of progress; -1: unknown */
} mr_report_news;
bool mr_report_news_parse(mr_sv text, mr_report_news *out);

#endif
