/* exec/dataset_fixture.h -- datasets of int64 scalars in a graph, gone over by a session.  For tests only.
 *
 *     mr_dataset_fixture r;
 *     mr_dataset_fixture_init(&r, 2);
 *     mr_out d = mr_dataset_fixture_ds(&r, "TakeDataset", NULL, 0, MR_OUTS(mr_dataset_fixture_range(&r, 0, 10),
 * mr_dataset_fixture_i64(&r, 3))); MR_CHECK_ELEMENTS(&r, d, "0 1 2"); mr_dataset_fixture_deinit(&r);
 */
#ifndef MR_EXEC_DATASET_FIXTURE_H
#define MR_EXEC_DATASET_FIXTURE_H

#include "base/vec.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

typedef struct mr_dataset_fixture {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    int threads;
    int n_types; /* of what datasets give that are made or gone over from now on */
    int types[4];
} mr_dataset_fixture;

void mr_dataset_fixture_init(mr_dataset_fixture *r, int threads); /* int64 */
void mr_dataset_fixture_deinit(mr_dataset_fixture *r);
void mr_dataset_fixture_types(mr_dataset_fixture *r, int n, ...); /* what elements are from now on */
mr_out mr_dataset_fixture_i64(mr_dataset_fixture *r, int64_t v);
mr_out mr_dataset_fixture_bool(mr_dataset_fixture *r, bool v);
mr_out mr_dataset_fixture_range(mr_dataset_fixture *r, int64_t start, int64_t stop);
/* A node with these attrs and, where its op has them, output_types and output_shapes (unknown). */
mr_out mr_dataset_fixture_ds(mr_dataset_fixture *r, const char *op, const mr_named_attr *attrs, int n_attrs,
                             const mr_out *in, int n_in);
#define mr_dataset_fixture_op(r, op, ...) mr_dataset_fixture_ds(r, op, NULL, 0, MR_OUTS(__VA_ARGS__))
/* The same for an op with a function and captured values; in[0] is the dataset, then other_arguments, then scalars. */
mr_out mr_dataset_fixture_fn(mr_dataset_fixture *r, const char *op, const char *f, mr_out input, const mr_out *captured,
                             int n_captured, const mr_out *scalars, int n_scalars);

/* Bodies of functions, under construction: args are placeholders of int64 unless said otherwise. */
typedef struct mr_dbody {
    mr_graph *g;
    mr_scope s;
    mr_out args[4];
    int n_args;
} mr_dbody;
mr_dbody mr_dbody_new(mr_dataset_fixture *r, int n_args, mr_dtype t);
void mr_dbody_end(mr_dbody *b, mr_dataset_fixture *r, const char *name, const mr_out *results, int n);

/* An iterator over d; then elements of it one by one. */
typedef struct mr_diter {
    mr_out iterator, next;
    mr_node *make;
} mr_diter;
mr_diter mr_dataset_fixture_iterator(mr_dataset_fixture *r, mr_out d);
mr_status *mr_dataset_fixture_run(mr_dataset_fixture *r, mr_node *target);
mr_status *mr_dataset_fixture_get(mr_dataset_fixture *r, mr_out fetch, mr_str *out); /* appended as text */
mr_status *mr_dataset_fixture_get_all(mr_dataset_fixture *r, const mr_diter *i, mr_str *out);
/* All elements as text: "0 1 2", "[0 1] [2]", "0,a 1,b"; stops after `most`; an error ends it: "0 !CODE". */
void mr_dataset_fixture_elements(mr_dataset_fixture *r, mr_out d, int most, mr_str *out);
void mr_dataset_fixture_check(const char *file, int line, mr_dataset_fixture *r, mr_out d, const char *expected);
#define MR_CHECK_ELEMENTS(r, d, expected) mr_dataset_fixture_check(__FILE__, __LINE__, r, d, expected)
/* The same, going on after errors until the end: "0 ! 2", where each error is "!". */
void mr_dataset_fixture_check_errors(const char *file, int line, mr_dataset_fixture *r, mr_out d, const char *expected);
#define MR_CHECK_ELEMENTS_AND_ERRORS(r, d, expected) mr_dataset_fixture_check_errors(__FILE__, __LINE__, r, d, expected)

#endif
