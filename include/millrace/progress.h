/* millrace/progress.h -- a progress bar for a terminal or a log. */
#ifndef MILLRACE_PROGRESS_H
#define MILLRACE_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

#include "millrace/millrace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A progress bar. It belongs to one thread at a time. */
typedef struct mr_progress mr_progress;

/* Creates a bar that goes from `start` to `total`. On a terminal it is redrawn in place, about twelve times a second at
 * most. Elsewhere a line is written for every tenth of the way. The stream must stay open until mr_progress_end; the
 * title is copied. Under `millrace launch`, the total also lets the launcher's table show the time left. */
MR_EXPORT extern mr_progress *mr_progress_new(FILE *stream, const char *title, int64_t start, int64_t total);
/* Reports that `done` of the total are done. `note` is a printf format for a text after the bar, for example "loss
 * %.3f". */
MR_EXPORT extern void mr_progress_update(mr_progress *p, int64_t done, const char *note, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/* Draws the final state, ends the line and frees p. NULL is allowed. */
MR_EXPORT extern void mr_progress_end(mr_progress *p);

#ifdef __cplusplus
}
#endif

#endif
