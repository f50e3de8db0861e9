/* ops/queue/accumulator_crowd_test.c -- 64 threads use one accumulator: each gradient is taken exactly
 * once.
 *
 * Half of them add gradients, half take the sums; takes are cancelled at random.  The numbers are small
 * integers, so that sums are exact in any order.  At the end the rest is taken, and for each row the
 * sums that were taken must equal what was added. */
#include "base/memory.h"
#include "ops/queue/crowd_fixture.h"

enum { ROWS = 16, WIDTH = 2, EACH = 100 };

typedef struct crowd {
    mr_calls calls;
    mr_callee make, apply, take;
    mr_variable *handle;
    bool sparse;
    _Atomic int takers; /* not done yet */
    _Atomic int64_t added[ROWS], taken[ROWS];
} crowd;

static mr_value handle(crowd *c)
{
    return (mr_value){.ref = mr_variable_ref(c->handle), .kind = MR_REF};
}

/* ---- adding ---- */

static mr_tensor *new_tensor(mr_dtype type, int rank, int64_t n)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, type, rank, (int64_t[]){n, WIDTH}, &t));
    return t;
}

/* Row 0 is always present and counts the gradients; the other rows are random, with small numbers. */
static mr_call *new_apply(crowd *c, mr_crowd_member *m, int64_t *row)
{
    mr_tensor *indices = new_tensor(MR_INT64, 1, ROWS), *values = new_tensor(MR_DOUBLE, 2, ROWS);
    int64_t n = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        bool there = i == 0 || mr_crowd_member_random(m, 2);
        row[i] = i == 0 ? 1 : there ? (int64_t)mr_crowd_member_random(m, 9) : 0;
        if (!there && c->sparse)
            continue;
        MR_DATA(int64_t, indices)[n] = i;
        MR_DATA(double, values)[n * WIDTH] = (double)row[i];
        MR_DATA(double, values)[n * WIDTH + 1] = (double)-row[i];
        n++;
    }
    mr_value step = mr_live(mr_tensor_scalar_i64(INT64_MAX));
    if (!c->sparse) {
        mr_tensor_unref(indices);
        return mr_call_new(&c->calls, &c->apply, MR_VALUES(handle(c), step, mr_live(values)));
    }
    mr_tensor *at, *rows;
    MR_CHECK_OK(mr_tensor_rows(indices, 0, n, &at));
    MR_CHECK_OK(mr_tensor_rows(values, 0, n, &rows));
    mr_tensor_unref(indices);
    mr_tensor_unref(values);
    return mr_call_new(&c->calls, &c->apply,
                       MR_VALUES(handle(c), step, mr_live(at), mr_live(rows),
                                 mr_live(mr_tensor_vector_i64(2, (int64_t[]){ROWS, WIDTH}))));
}

/* Adds gradients as long as a taker may be waiting. */
static void applier(mr_crowd_member *m)
{
    crowd *c = m->ctx;
    while (atomic_load(&c->takers) > 0) {
        int64_t row[ROWS];
        MR_CHECK_OK(mr_call_end(mr_crowd_member_call(m, new_apply(c, m, row), true), NULL));
        for (int i = 0; i < ROWS; i++)
            atomic_fetch_add(&c->added[i], row[i]);
    }
}

/* ---- taking ---- */

static void receive(crowd *c, mr_tensor **out)
{
    const mr_tensor *values = out[c->sparse ? 1 : 0];
    for (int64_t i = 0; i < values->dims[0]; i++) {
        int64_t row = c->sparse ? MR_DATA(int64_t, out[0])[i] : i;
        double v = MR_DATA(double, values)[i * WIDTH];
        MR_CHECK(row >= 0 && row < ROWS);
        MR_CHECK(MR_DATA(double, values)[i * WIDTH + 1] == -v);
        atomic_fetch_add(&c->taken[row], (int64_t)v);
    }
}

static mr_call *new_take(crowd *c, int required)
{
    return mr_call_new(&c->calls, &c->take,
                       MR_VALUES(handle(c), mr_live(mr_tensor_scalar_i32(required))));
}

static void finish_take(crowd *c, mr_call *call)
{
    mr_tensor *out[3] = {0};
    mr_status *st = mr_call_end(call, out);
    if (st)
        MR_CHECK_TEXT(st, MR_CANCELLED, "TakeGrad operation was cancelled");
    else
        receive(c, out);
    for (int i = 0; i < 3; i++)
        mr_tensor_unref(out[i]);
}

static void taker(mr_crowd_member *m)
{
    crowd *c = m->ctx;
    for (int k = 0; k < EACH; k++)
        finish_take(c, mr_crowd_member_call(m, new_take(c, 1 + (int)mr_crowd_member_random(m, 3)), true));
    atomic_fetch_sub(&c->takers, 1);
}

static void work(mr_crowd_member *m)
{
    if (m->id % 2)
        applier(m);
    else
        taker(m);
}

/* ---- balance ---- */

static void begin(crowd *c, bool sparse)
{
    const mr_named_attr attrs[] = {{"shared_name", mr_a_str("a")},
                                   {"reduction_type", mr_a_str("SUM")},
                                   {"dtype", mr_a_type(MR_DOUBLE)},
                                   {"shape", mr_a_shape(&mr_pshape_unknown)}};
    const mr_named_attr known = {"has_known_shape", mr_a_bool(true)};
    const mr_named_attr dtype = {"dtype", mr_a_type(MR_DOUBLE)};
    mr_calls_init(&c->calls);
    c->make = mr_callee_make(&c->calls,
                             sparse ? "SparseConditionalAccumulator" : "ConditionalAccumulator",
                             attrs, 4, MR_NO_OUT, 0, NULL);
    mr_out h = {c->make.node, 0};
    c->apply = sparse ? mr_callee_make(&c->calls, "SparseAccumulatorApplyGradient", &known, 1, h,
                                       MR_TYPES(MR_INT64, MR_INT64, MR_DOUBLE, MR_INT64))
                      : mr_callee_make(&c->calls, "AccumulatorApplyGradient", NULL, 0, h,
                                       MR_TYPES(MR_INT64, MR_DOUBLE));
    c->take = mr_callee_make(&c->calls,
                             sparse ? "SparseAccumulatorTakeGradient" : "AccumulatorTakeGradient",
                             &dtype, 1, h, MR_TYPES(MR_INT32));
    mr_call *call = mr_call_new(&c->calls, &c->make, 0, NULL);
    mr_call_begin(call);
    c->handle = mr_variable_ref(call->out[0].ref);
    MR_CHECK_OK(mr_call_end(call, NULL));
    c->sparse = sparse;
    atomic_store(&c->takers, MR_CROWD / 2);
}

/* Takes the last sum; one more gradient makes sure that there is one. */
static void take_rest(crowd *c)
{
    mr_crowd_member alone = {.random = 1};
    int64_t row[ROWS];
    mr_call *call = new_apply(c, &alone, row);
    mr_call_begin(call);
    MR_CHECK_OK(mr_call_end(call, NULL));
    for (int i = 0; i < ROWS; i++)
        atomic_fetch_add(&c->added[i], row[i]);
    call = new_take(c, 1);
    mr_call_begin(call);
    finish_take(c, call);
}

static void meet(bool sparse)
{
    crowd *c = mr_new(crowd);
    mr_test_deadline(120);
    begin(c, sparse);
    mr_crowd_run(work, c);
    take_rest(c);
    for (int i = 0; i < ROWS; i++)
        MR_CHECK_INT(atomic_load(&c->taken[i]), atomic_load(&c->added[i]));
    mr_callee_deinit(&c->make);
    mr_callee_deinit(&c->apply);
    mr_callee_deinit(&c->take);
    mr_variable_unref(c->handle);
    mr_calls_deinit(&c->calls);
    mr_free(c);
}

MR_TEST(accumulator_crowd_takes_all_that_was_added) { meet(false); }
MR_TEST(accumulator_crowd_takes_all_rows_that_were_added) { meet(true); }
