/* millrace/progress.h -- how far long work has come, on a terminal or in a log. */
#ifndef MILLRACE_PROGRESS_H
#define MILLRACE_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

#include "millrace/millrace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_progress mr_progress;

/* A bar from `start` to `total` on a stream: redrawn in place some ten times a second on a terminal, else a line
 * every tenth of the way. */
MR_EXPORT extern mr_progress *mr_progress_new(FILE *stream, const char *title, int64_t start, int64_t total);
/* `note` (printf style) stands behind the bar: "loss %.3f". */
MR_EXPORT extern void mr_progress_update(mr_progress *p, int64_t done, const char *note, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/* Draws the last state, ends the line and frees p; NULL is fine. */
MR_EXPORT extern void mr_progress_end(mr_progress *p);

#ifdef __cplusplus
}
#endif

#endif
