/* fed/learner.c -- trains a client's model in a session.
 *
 * The session is shared by the clients of a thread, one after the other. So every training starts by assigning all
 * weights and by resetting the optimizer: nothing of the last client may remain. Weights are one vector of floats, in
 * the order of the parameters; mr_learner_size has checked that its size does not overflow. */
#include "fed/learner.h"

#include "base/memory.h"

/* The shape is fully known (check_parameter), so no dimension is negative. */
static size_t size_of(const mr_learner_parameter *p)
{
    const mr_pshape *s = mr_out_shape(p->feed);
    size_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= (size_t)s->dims[i];
    return n;
}

/* The parameter must be a float of fully known shape. Adds its size to *n. */
static mr_status *check_parameter(const mr_learner_parameter *p, size_t *n)
{
    const mr_pshape *s = mr_out_shape(p->feed);
    size_t count = 1;
    if (mr_out_type(p->feed) != MR_FLOAT || mr_out_type(p->value) != MR_FLOAT)
        return mr_invalid("federated: parameter '%s' is %s, expected float", p->value.node->name,
                          mr_dtype_name(mr_out_type(p->value)));
    if (!mr_pshape_full(s))
        return mr_invalid("federated: the shape %s of parameter '%s' must be fully known", MR_PSHAPE_TEXT(s),
                          p->value.node->name);
    for (int i = 0; i < s->rank; i++)
        if (!mr_size_mul(count, (size_t)s->dims[i], &count))
            return mr_invalid("federated: parameter '%s' is too large", p->value.node->name);
    if (!mr_size_add(*n, count, n))
        return mr_invalid("federated: the parameters of the model have more values than fit in memory");
    return NULL;
}

/* The limit keeps sizes in bytes, and counts of words, far from overflow. */
mr_status *mr_learner_size(const mr_learner_parameter *p, int n_parameters, size_t *out)
{
    *out = 0;
    if (n_parameters < 1)
        return mr_invalid("federated: the model has no parameters to average");
    for (int i = 0; i < n_parameters; i++)
        MR_TRY(check_parameter(&p[i], out));
    /* Their bytes, and the words of a secure sum, must not overflow. */
    if (*out < 1 || *out > ((size_t)1 << 40) / sizeof(float))
        return mr_invalid("federated: a model of %zu weights is empty or too large", *out);
    return NULL;
}

/* Examples come from the client's program, so types, ranks and rows are checked here; gather relies on that. */
mr_status *mr_learner_check_examples(const mr_learner *l, const mr_learner_examples *e)
{
    if (e->n < 1)
        return mr_invalid("federated: a client has no examples");
    for (int i = 0; i < l->n_inputs; i++) {
        const mr_tensor *t = e->values[i];
        if (!t || t->rank < 1 || t->dtype != mr_out_type(l->inputs[i]) || !mr_dtype_is_plain((mr_dtype)t->dtype))
            return mr_invalid("federated: the examples for input '%s' are not an array of its type", l->inputs[i].node->name);
        if (!e->rows && e->n > t->dims[0])
            return mr_invalid("federated: input '%s' has %lld examples, not %lld", l->inputs[i].node->name, (long long)t->dims[0],
                              (long long)e->n);
        for (int64_t k = 0; e->rows && k < e->n; k++)
            if (e->rows[k] < 0 || e->rows[k] >= t->dims[0])
                return mr_invalid("federated: input '%s': example %lld does not exist", l->inputs[i].node->name,
                                  (long long)e->rows[k]);
    }
    return NULL;
}

/* ---- weights in and out ---- */

/* Accepts NULL entries, and frees the array. */
static void drop_all(mr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        mr_tensor_unref(t[i]);
    mr_free(t);
}

/* Assigns all parameters in one run, each with a new tensor. */
mr_status *mr_learner_load(mr_learner *l, const float *weights, size_t n)
{
    mr_status *st = NULL;
    int np = l->n_parameters;
    mr_tensor **values = mr_new_array(mr_tensor *, np);
    mr_out *feeds = mr_new_array(mr_out, np);
    mr_node **targets = mr_new_array(mr_node *, np);
    size_t at = 0;
    for (int i = 0; i < np; i++) {
        const mr_learner_parameter *p = &l->parameters[i];
        const mr_pshape *s = mr_out_shape(p->feed);
        MR_GO(mr_tensor_new(NULL, MR_FLOAT, s->rank, s->dims, &values[i]));
        if (at + size_of(p) > n)
            MR_GO(mr_error(MR_INTERNAL, "federated: %zu weights are too few for %d parameters", n, np));
        memcpy(values[i]->data, weights + at, mr_tensor_bytes(values[i]));
        at += size_of(p);
        feeds[i] = p->feed;
        targets[i] = p->assign;
    }
    mr_run_args a = {.feeds = feeds, .feed_values = values, .n_feeds = np, .targets = targets, .n_targets = np};
    MR_GO(mr_session_run(l->session, &a, NULL, NULL));
out:
    drop_all(values, np);
    mr_free(feeds);
    mr_free(targets);
    return st;
}

/* The fetched values are checked: an assignment may have changed the shape of a variable. */
mr_status *mr_learner_read(mr_learner *l, float *weights, size_t n)
{
    mr_status *st = NULL;
    int np = l->n_parameters;
    mr_tensor **values = mr_new_array(mr_tensor *, np);
    mr_out *fetches = mr_new_array(mr_out, np);
    size_t at = 0;
    for (int i = 0; i < np; i++)
        fetches[i] = l->parameters[i].value;
    MR_GO(mr_session_run(l->session, &(mr_run_args){.fetches = fetches, .fetched = values, .n_fetches = np}, NULL, NULL));
    for (int i = 0; i < np; i++) {
        size_t k = size_of(&l->parameters[i]);
        if (values[i]->dtype != MR_FLOAT || (size_t)values[i]->n != k || at + k > n)
            MR_GO(mr_invalid("federated: the shape of parameter '%s' has changed", fetches[i].node->name));
        memcpy(weights + at, values[i]->data, k * sizeof *weights);
        at += k;
    }
out:
    drop_all(values, np);
    mr_free(fetches);
    return st;
}

/* ---- steps ---- */

/* The same numbers on every machine, unlike rand(). */
static uint64_t next_random(uint64_t *s) /* splitmix64 */
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Fisher-Yates. The same seed gives the same order on every machine. */
static void shuffle_order(int64_t *order, int64_t n, uint64_t *seed)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(next_random(seed) % (uint64_t)(i + 1)), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
}

/* Copies the rows order[0 .. n) of the examples into a new tensor. The rows were checked by
 * mr_learner_check_examples. */
static mr_status *gather_rows(const mr_tensor *t, const mr_learner_examples *e, const int64_t *order, int64_t n,
                              mr_tensor **out)
{
    int64_t dims[MR_MAX_RANK];
    MR_ASSERT(n >= 1);
    memcpy(dims, t->dims, sizeof *dims * t->rank);
    dims[0] = n;
    MR_TRY(mr_tensor_new(NULL, (mr_dtype)t->dtype, t->rank, dims, out));
    size_t each = t->dims[0] ? mr_tensor_bytes(t) / (size_t)t->dims[0] : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = e->rows ? e->rows[order[i]] : order[i];
        memcpy((char *)(*out)->data + (size_t)i * each, (const char *)t->data + (size_t)row * each, each);
    }
    return NULL;
}

typedef struct steps { /* what all steps of one client need */
    mr_learner *l;
    const mr_learner_examples *e;
    mr_out *feeds;
    mr_tensor **values; /* n_inputs, and the rate behind them */
    int n_feeds;
} steps;

/* The feeds are the same in all steps; only the values of the inputs change. */
static void steps_init(steps *s, mr_learner *l, const mr_learner_examples *e, float rate)
{
    *s = (steps){l, e, mr_new_array(mr_out, l->n_inputs + 1), mr_new_array(mr_tensor *, l->n_inputs + 1), l->n_inputs};
    for (int i = 0; i < l->n_inputs; i++)
        s->feeds[i] = l->inputs[i];
    if (l->rate.node) {
        s->feeds[s->n_feeds] = l->rate;
        s->values[s->n_feeds++] = mr_tensor_scalar_f32(rate);
    }
}

static void steps_deinit(steps *s)
{
    drop_all(s->values, s->n_feeds);
    mr_free(s->feeds);
}

/* Feeds one batch and runs the training step. The tensors of the last batch are freed first. A loss that is not a
 * float scalar is ignored. */
static mr_status *run_step(steps *s, const int64_t *order, int64_t n, mr_learner_result *r)
{
    mr_learner *l = s->l;
    MR_ASSERT(s->n_feeds >= l->n_inputs);
    mr_tensor *loss = NULL;
    for (int i = 0; i < l->n_inputs; i++) {
        mr_tensor_unref(s->values[i]);
        s->values[i] = NULL;
        MR_TRY(gather_rows(s->e->values[i], s->e, order, n, &s->values[i]));
    }
    mr_run_args a = {.feeds = s->feeds, .feed_values = s->values, .n_feeds = s->n_feeds, .targets = &l->train, .n_targets = 1,
                     .fetches = &l->loss, .fetched = &loss, .n_fetches = l->loss.node != NULL};
    MR_TRY(mr_session_run(l->session, &a, NULL, NULL));
    if (loss && loss->dtype == MR_FLOAT && loss->n == 1)
        r->loss += MR_DATA(float, loss)[0];
    r->steps++;
    mr_tensor_unref(loss);
    return NULL;
}

/* Runs all steps, in a new order of examples for each epoch, and asks between steps whether to stop. */
static mr_status *run_epochs(steps *s, const mr_learner_config *c, mr_learner_stop stop, mr_learner_result *r)
{
    mr_status *st = NULL;
    int64_t n = s->e->n, batch = c->batch > 0 ? MR_MIN(c->batch, n) : n;
    uint64_t seed = c->seed;
    int64_t *order = mr_try_calloc((size_t)n, sizeof *order);
    if (!order)
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: out of memory for the order of %lld examples", (long long)n);
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t epoch = 0; epoch < c->epochs; epoch++) {
        shuffle_order(order, n, &seed);
        for (int64_t i = 0; i < n; i += batch) {
            if (stop.fn && stop.fn(stop.arg))
                MR_GO(mr_error(MR_CANCELLED, "federated: training was stopped"));
            MR_GO(run_step(s, order + i, MR_MIN(batch, n - i), r));
        }
    }
out:
    mr_free(order);
    return st;
}

/* Loads the weights, resets the optimizer, trains, and writes the change of each weight to
 * `difference`. */
mr_status *mr_learner_train(mr_learner *l, const mr_learner_config *c, const mr_learner_examples *e, const float *weights, size_t n,
                            float *difference, mr_learner_stop stop, mr_learner_result *out)
{
    steps s;
    *out = (mr_learner_result){0};
    MR_TRY(mr_learner_load(l, weights, n));
    if (l->reset)
        MR_TRY(mr_session_run(l->session, &(mr_run_args){.targets = &l->reset, .n_targets = 1}, NULL, NULL));
    /* From here on the session has this client's weights. */
    steps_init(&s, l, e, c->rate);
    mr_status *st = run_epochs(&s, c, stop, out);
    steps_deinit(&s);
    MR_TRY(st);
    if (out->steps)
        out->loss /= (double)out->steps;
    MR_TRY(mr_learner_read(l, difference, n));
    for (size_t i = 0; i < n; i++)
        difference[i] -= weights[i];
    return NULL;
}
