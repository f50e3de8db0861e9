/* store/matching.h -- the files that match a pattern: *, ?, [a-z] and \ as in a shell, but a * matches
 * names that begin with a dot too. */
#ifndef MR_STORE_MATCHING_H
#define MR_STORE_MATCHING_H

#include "base/file.h"
#include "base/vec.h"

typedef struct mr_file_names {
    MR_VEC(char *) v; /* owned strings */
    bool (*stopped)(void *ctx); /* may be NULL; polled, because a pattern may take long */
    void *ctx;
} mr_file_names;

/* Adds the names that match, in no particular order; a pattern that begins with "file://" gives names with that prefix.
 * No match is not an error. CANCELLED if `stopped` returned true. */
mr_status *mr_files_match(mr_sv pattern, mr_file_names *out);
void mr_file_names_sort(mr_file_names *names);
void mr_file_names_deinit(mr_file_names *names);

#endif
