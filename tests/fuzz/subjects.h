/* tests/fuzz/subjects.h -- every registered op, and what to run it with. */
#ifndef MR_TESTS_FUZZ_SUBJECTS_H
#define MR_TESTS_FUZZ_SUBJECTS_H

#include "ops/example.h"

enum { FUZZ_MAX_TYPES = 64 };

typedef struct fuzz_script { /* the starting point of a run */
    const mr_example *example;
    const mr_op_def *last; /* the op of its last step */
    bool whole;            /* a session must run it */
    int n_types;
    mr_dtype types[FUZZ_MAX_TYPES]; /* of the last op's key attr; none: one MR_INVALID */
} fuzz_script;

typedef struct fuzz_subject { /* an op under test */
    const mr_op_def *def;
    int n_scripts; /* at least one */
    fuzz_script *scripts;
} fuzz_subject;

/* All of them, sorted by name; valid as long as the process. */
fuzz_subject *fuzz_subjects(int *n);

#endif
