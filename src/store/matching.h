/* store/matching.h -- the files that match a pattern: *, ?, [a-z] and \ as in a shell, but a * matches
 * names that begin with a dot too. */
#ifndef MR_STORE_MATCHING_H
#define MR_STORE_MATCHING_H

#include "base/file.h"
#include "base/vec.h"

typedef struct mr_file_names {
    MR_VEC(char *) v; /* of v.p[0..v.n), each owned */
    bool (*stopped)(void *ctx); /* asked at times, when it is there: a pattern may take long */
    void *ctx;
} mr_file_names;

/* Adds the names that match, in no order; one that begins with "file://" keeps that.  Nothing that
 * matches is no error.  CANCELLED when it was stopped. */
mr_status *mr_files_match(mr_sv pattern, mr_file_names *out);
void mr_file_names_sort(mr_file_names *names);
void mr_file_names_deinit(mr_file_names *names);

#endif
