/* tests/fuzz/fuzz.h -- the interface between fuzz targets and the driver.
 *
 * A target makes an input out of random numbers and feeds it to the library; any status is a valid answer; a crash, a
 * leak, a hang or a violated contract (fuzz_fail) is a finding. The driver (driver.c) runs targets in child processes,
 * a batch of runs each, and reports the failing run:
 *
 *     FAIL graph seed 7 run 1234: heap-buffer-overflow src/wire/pb.c:33 in mr_pb_long_varint
 *
 * which `fuzz graph --seed 7 --only 1234` does again, alone. */
#ifndef MR_TESTS_FUZZ_FUZZ_H
#define MR_TESTS_FUZZ_FUZZ_H

#include <stdio.h>

#include "base/str.h"
#include "tests/fuzz/random.h"

typedef struct fuzz_run {
    int64_t number;
    fuzz_rng rng;
    int64_t *counts; /* the target's, summed over all runs; see n_counts */
    bool verbose;    /* a single run: print what happens (fuzz_say) */
    struct fuzz_slot *slot;
} fuzz_run;

typedef struct fuzz_target {
    const char *name, *about;
    /* Runs in the parent, before any child starts: prepares what all runs share (corpus, tables). May be NULL. */
    void (*prepare)(void);
    int64_t (*n_runs)(void); /* of `make fuzz`; after prepare */
    int (*n_counts)(void);
    void (*run)(fuzz_run *r);
    /* One input from a file, as saved when a run failed; NULL: the target has no such thing. */
    void (*replay)(fuzz_run *r, mr_sv input);
    /* Prints the counts as `name value` pairs on one line; details go to err. False: a contract is violated. */
    bool (*summary)(const int64_t *counts, int64_t n_runs, FILE *out, FILE *err);
} fuzz_target;

extern const fuzz_target fuzz_ops, fuzz_graph, fuzz_bundle, fuzz_text, fuzz_proto, fuzz_net,
    fuzz_spec, fuzz_cluster, fuzz_naming, fuzz_plan, fuzz_costs, fuzz_devices, fuzz_trace, fuzz_regex;

extern const fuzz_target fuzz_saved_model;
extern const fuzz_target fuzz_group;
extern const fuzz_target fuzz_ps_codec, fuzz_ps;
extern const fuzz_target fuzz_federated;
extern const fuzz_target fuzz_distbelief;
extern const fuzz_target fuzz_record, fuzz_events, fuzz_example, fuzz_checkpoint_v1, fuzz_csv,
    fuzz_proto_pool;
extern const fuzz_target fuzz_lmdb;
extern const fuzz_target fuzz_board;
extern const fuzz_target fuzz_jpeg, fuzz_png, fuzz_gif, fuzz_bmp, fuzz_wav;

/* Stores the input of the current run, so that it can be saved if the run fails. */
void fuzz_note(fuzz_run *r, mr_sv input);
/* For targets with several forms: the input is a byte that selects the form, then the bytes, which are freed. */
void fuzz_try_form(fuzz_run *r, int form, mr_str *bytes, void (*replay)(fuzz_run *r, mr_sv input));
void fuzz_notef(fuzz_run *r, const char *fmt, ...) MR_PRINTF(2, 3);
/* The library violated a contract: ends the child. */
void fuzz_fail(const char *fmt, ...) MR_PRINTF(1, 2) __attribute__((noreturn));
/* Ends the child if st is not NULL. */
void fuzz_must(mr_status *st, const char *what);
/* For a summary, if runs alternate between `forms`: the percentage that was accepted. False, with a message, if it is
 * under 10 % for one form: then the code behind it is hardly tested. */
bool fuzz_shares(const char *target, const char *const *names, const int64_t *counts, int n, int64_t runs, int forms, FILE *out, FILE *err);
/* Prints a message if a single run is repeated. */
void fuzz_say(const fuzz_run *r, const char *fmt, ...) MR_PRINTF(2, 3);

/* Regression inputs in tests/fuzz/seeds/NAME/, appended to out as strings of their own; sorted by
 * name. Golden files likewise, those under `limit` bytes whose name ends so. */
typedef struct fuzz_files {
    int n;
    char **names;
    mr_str *bytes;
} fuzz_files;
void fuzz_files_add(fuzz_files *f, const char *folder, const char *ending, size_t limit);
/* Of the golden files made by TensorFlow (MILLRACE_GOLDEN, default ../shared/golden) where that folder exists, else of
 * our own (tests/golden). The caller frees it. */
char *fuzz_golden(const char *folder);

/* ---- the driver ---- */
typedef struct fuzz_options {
    uint64_t seed;
    int64_t runs, only; /* only -1: all */
    double seconds;     /* 0: no limit */
    int jobs;
    int deadline_s; /* of one run */
    bool first;     /* stop at the first failure */
    bool no_fork, quiet;
    const char *input; /* a file to replay */
} fuzz_options;

typedef enum fuzz_kind { FUZZ_CRASH, FUZZ_HANG, FUZZ_LEAK, FUZZ_BROKEN, FUZZ_N_KINDS } fuzz_kind;

typedef struct fuzz_result {
    int64_t n_runs, n_failures;
    int64_t n_of_kind[FUZZ_N_KINDS];
    int64_t first_run; /* of a failure; -1: none */
    fuzz_kind first_kind;
    char first_text[160];
    double seconds;
    bool ok; /* no failure, and the target's promises are kept */
} fuzz_result;

void fuzz_drive(const fuzz_target *t, const fuzz_options *o, fuzz_result *out);

#endif
