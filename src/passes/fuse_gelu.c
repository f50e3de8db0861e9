/* passes/fuse_gelu.c -- x times a smooth step of x (GELU in its three spellings, swish) and its gradient become one node
 * each (ops/nn/gelu.c).
 *
 * People write these formulas in many orders: 0.5 * x * (1 + tanh(..)), x * (0.5 * (1 + ..)), x * x * x or Pow(x, 3).
 * So the pass compares polynomials instead of trees. Beginning with a Tanh, Erf or Sigmoid, whose value is `f`, it
 * expands what is before and after it into sums of products of x, f, the gradient dy and the gradient g that arrives at
 * the argument of f, with numbers as factors:
 *
 *     step     argument of f                  result             argument of g   gradient
 *     tanh     0.798 x + 0.798 0.0447 x^3     0.5 x + 0.5 x f    0.5 x dy        0.5 dy + 0.5 dy f + 0.798 (g + 0.134 x^2 g)
 *     erf      0.707 x                        0.5 x + 0.5 x f    0.5 x dy        0.5 dy + 0.5 dy f + 0.707 g
 *     sigmoid  1.702 x or x                   x f                x dy            dy f + 1.702 g or g
 *
 * What the result is called x or dy is found by trying all values that may be it. The order of rounding may change.
 *
 * The new node reads only x (and dy), and has the control inputs of all nodes whose work it does: these are dead when it is,
 * and it waits for what they wait for. They remain if somebody else reads them. */
#include <math.h>

#include "base/memory.h"
#include "passes/fuse.h"

enum {
    MOST_TERMS = 12,
    MOST_MEMBERS = 32, /* nodes of one formula */
    MOST_FOUND = 32,   /* candidates for x, dy and the last node */
    MOST_STEPS = 96,   /* nodes expanded for one candidate */
    HEIGHT = 8,        /* nodes between f or g and the last node */
};

typedef enum atom { X, DY, F, G, N_ATOMS } atom;

/* factor x^power[X] dy^power[DY] .. */
typedef struct term {
    double factor;
    int power[N_ATOMS];
} term;

typedef struct poly {
    int n;
    term terms[MOST_TERMS];
} poly;

typedef struct step_kind {
    const char *op, *grad_op; /* that computes f; that computes g. NULL: a product with Exp */
    poly inside, result, before, after; /* the columns of the table above */
    const char *fused, *fused_grad, *guarded_grad;
} step_kind;

#define ROOT_2_PI 0.7978845608028654
#define CUBE 0.044715
#define ROOT_HALF 0.7071067811865476
#define HALF_STEP {2, {{0.5, {[X] = 1}}, {0.5, {[X] = 1, [F] = 1}}}}
#define HALF_X {1, {{0.5, {[X] = 1, [DY] = 1}}}}
static const step_kind kinds[] = {
    {"Tanh", "TanhGrad", {2, {{ROOT_2_PI, {[X] = 1}}, {ROOT_2_PI * CUBE, {[X] = 3}}}}, HALF_STEP, HALF_X,
     {4, {{0.5, {[DY] = 1}}, {0.5, {[DY] = 1, [F] = 1}}, {ROOT_2_PI, {[G] = 1}}, {3 * ROOT_2_PI * CUBE, {[X] = 2, [G] = 1}}}},
     "_GeluTanh", "_GeluTanhGrad", "_GeluTanhGuardedGrad"},
    {"Erf", NULL, {1, {{ROOT_HALF, {[X] = 1}}}}, HALF_STEP, HALF_X,
     {3, {{0.5, {[DY] = 1}}, {0.5, {[DY] = 1, [F] = 1}}, {ROOT_HALF, {[G] = 1}}}},
     "_GeluErf", "_GeluErfGrad", NULL},
    {"Sigmoid", "SigmoidGrad", {1, {{1.702, {[X] = 1}}}}, {1, {{1, {[X] = 1, [F] = 1}}}}, {1, {{1, {[X] = 1, [DY] = 1}}}},
     {2, {{1, {[DY] = 1, [F] = 1}}, {1.702, {[G] = 1}}}}, "_GeluSigmoid", "_GeluSigmoidGrad", NULL},
    {"Sigmoid", "SigmoidGrad", {1, {{1, {[X] = 1}}}}, {1, {{1, {[X] = 1, [F] = 1}}}}, {1, {{1, {[X] = 1, [DY] = 1}}}},
     {2, {{1, {[DY] = 1, [F] = 1}}, {1, {[G] = 1}}}}, "_Swish", "_SwishGrad", NULL},
};

typedef struct matcher {
    mr_graph *g;
    const mr_prepare_options *o;
    const step_kind *kind;
    mr_node *f;
    mr_out at[N_ATOMS]; /* the values; node NULL: not known */
    mr_node *members[MOST_MEMBERS]; /* nodes that were expanded, and constants */
    int n_members, n_steps;
    bool guarded; /* a MulNoNan was expanded */
    bool full;    /* too many members */
} matcher;

/* ---- polynomials ---- */

static bool same_powers(const term *a, const term *b) { return memcmp(a->power, b->power, sizeof a->power) == 0; }

static bool add_term(poly *p, const term *t)
{
    for (int i = 0; i < p->n; i++)
        if (same_powers(&p->terms[i], t)) {
            p->terms[i].factor += t->factor;
            return true;
        }
    if (p->n == MOST_TERMS)
        return false;
    p->terms[p->n++] = *t;
    return true;
}

static bool add_poly(poly *p, const poly *q, double sign)
{
    for (int i = 0; i < q->n; i++) {
        term t = q->terms[i];
        t.factor *= sign;
        if (!add_term(p, &t))
            return false;
    }
    return true;
}

static bool multiply_poly(const poly *p, const poly *q, poly *out)
{
    out->n = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < q->n; k++) {
            term t = {.factor = p->terms[i].factor * q->terms[k].factor};
            for (int a = 0; a < N_ATOMS; a++)
                t.power[a] = p->terms[i].power[a] + q->terms[k].power[a];
            if (!add_term(out, &t))
                return false;
        }
    return true;
}

/* Equal but for the rounding of numbers to floats. */
static bool equal_poly(const poly *p, const poly *q)
{
    if (p->n != q->n)
        return false;
    for (int i = 0; i < p->n; i++) {
        bool found = false;
        for (int k = 0; k < q->n && !found; k++)
            found = same_powers(&p->terms[i], &q->terms[k]) &&
                    fabs(p->terms[i].factor - q->terms[k].factor) <= 4e-7 * fabs(q->terms[k].factor);
        if (!found)
            return false;
    }
    return true;
}

/* ---- expanding nodes ---- */

static bool is_float(mr_out o) { return o.node && mr_out_type(o) == MR_FLOAT; }

/* A node whose value is a polynomial of its inputs, or a constant. */
static bool is_algebra(const mr_node *n)
{
    static const char *const ops[] = {"Mul", "MulNoNan", "Add", "AddV2", "Sub", "AddN", "Neg", "Square", "Pow", "RealDiv"};
    for (int i = 0; i < MR_COUNT(ops); i++)
        if (mr_node_is(n, ops[i]))
            return n->n_out == 1 && n->n_in >= 1;
    return false;
}

static bool scalar_value(mr_out o, double *v)
{
    mr_tensor *t = NULL;
    if (!mr_node_is(o.node, "Const"))
        return false;
    mr_status_free(mr_node_get_tensor(o.node, "value", &t));
    bool good = t && t->dtype == MR_FLOAT && t->rank == 0;
    if (good)
        *v = (double)MR_DATA(float, t)[0];
    mr_tensor_unref(t);
    return good && isfinite(*v);
}

static void note_member(matcher *m, mr_node *n)
{
    for (int i = 0; i < m->n_members; i++)
        if (m->members[i] == n)
            return;
    if (m->n_members == MOST_MEMBERS)
        m->full = true;
    else
        m->members[m->n_members++] = n;
}

static bool expand(matcher *m, mr_out o, poly *out);

static bool expand_power(matcher *m, const mr_node *n, poly *out)
{
    poly x, square;
    double exponent;
    if (!scalar_value(n->in[1], &exponent) || (exponent != 2 && exponent != 3) || !expand(m, n->in[0], &x))
        return false;
    note_member(m, n->in[1].node);
    if (exponent == 2)
        return multiply_poly(&x, &x, out);
    return multiply_poly(&x, &x, &square) && multiply_poly(&square, &x, out);
}

static bool expand_quotient(matcher *m, const mr_node *n, poly *out)
{
    double divisor;
    out->n = 0;
    poly x;
    if (!scalar_value(n->in[1], &divisor) || divisor == 0 || !expand(m, n->in[0], &x))
        return false;
    note_member(m, n->in[1].node);
    return add_poly(out, &x, 1 / divisor);
}

static bool expand_sum(matcher *m, const mr_node *n, poly *out)
{
    poly x;
    out->n = 0;
    for (int i = 0; i < n->n_in; i++)
        if (!expand(m, n->in[i], &x) || !add_poly(out, &x, i == 1 && mr_node_is(n, "Sub") ? -1 : 1))
            return false;
    return true;
}

/* The value as a polynomial of the known atoms; false: it is none, or too long. */
static bool expand(matcher *m, mr_out o, poly *out)
{
    double number;
    for (int a = 0; a < N_ATOMS; a++)
        if (m->at[a].node && mr_out_eq(m->at[a], o)) {
            *out = (poly){1, {{1, {0}}}};
            out->terms[0].power[a] = 1;
            return true;
        }
    mr_node *n = o.node;
    if (++m->n_steps > MOST_STEPS || !is_float(o) || !mr_fuse_same_device(n, m->f))
        return false;
    if (scalar_value(o, &number)) {
        note_member(m, n);
        *out = (poly){1, {{number, {0}}}};
        return true;
    }
    if (!is_algebra(n))
        return false;
    note_member(m, n);
    poly x, y;
    if (mr_node_is(n, "Pow"))
        return expand_power(m, n, out);
    if (mr_node_is(n, "RealDiv"))
        return expand_quotient(m, n, out);
    if (mr_node_is(n, "Square"))
        return expand(m, n->in[0], &x) && multiply_poly(&x, &x, out);
    if (mr_node_is(n, "Neg")) {
        out->n = 0;
        return expand(m, n->in[0], &x) && add_poly(out, &x, -1);
    }
    if (mr_node_is(n, "Mul") || mr_node_is(n, "MulNoNan")) {
        m->guarded |= mr_node_is(n, "MulNoNan");
        return expand(m, n->in[0], &x) && expand(m, n->in[1], &y) && multiply_poly(&x, &y, out);
    }
    return expand_sum(m, n, out);
}

/* True if the value is that polynomial. Members of what fails are forgotten. */
static bool is_poly(matcher *m, mr_out o, const poly *wanted)
{
    poly p;
    int n = m->n_members;
    bool guarded = m->guarded;
    m->n_steps = 0;
    if (expand(m, o, &p) && equal_poly(&p, wanted))
        return true;
    m->n_members = n;
    m->guarded = guarded;
    return false;
}

/* ---- candidates ---- */

typedef struct found {
    int n;
    mr_out all[MOST_FOUND];
} found;

static void add_found(found *l, mr_out o)
{
    for (int i = 0; i < l->n; i++)
        if (mr_out_eq(l->all[i], o))
            return;
    if (l->n < MOST_FOUND)
        l->all[l->n++] = o;
}

/* The value and what it is computed from by algebra. */
static void find_below(mr_out o, found *l)
{
    l->n = 0;
    add_found(l, o);
    for (int k = 0; k < l->n; k++) {
        const mr_node *n = l->all[k].node;
        for (int i = 0; is_algebra(n) && i < n->n_in; i++)
            if (is_float(n->in[i]) && !mr_node_is(n->in[i].node, "Const"))
                add_found(l, n->in[i]);
    }
}

/* What is computed from the value by algebra, the nearest first. */
static void find_above(mr_out o, found *l)
{
    int begin = 0;
    l->n = 0;
    add_found(l, o);
    for (int height = 0; height < HEIGHT; height++) {
        int end = l->n;
        for (; begin < end; begin++) {
            const mr_node *n = l->all[begin].node;
            for (int u = 0; u < n->uses.n && u < MOST_FOUND; u++)
                if (n->uses.p[u].input >= 0 && is_algebra(n->uses.p[u].node))
                    add_found(l, (mr_out){n->uses.p[u].node, 0});
        }
    }
}

/* ---- the new node ---- */

static mr_status *add_node(matcher *m, const char *op, const mr_node *last, const mr_out *in, int n_in, mr_node **out)
{
    mr_sv labels[MOST_MEMBERS];
    char *texts[MOST_MEMBERS];
    int n = 0;
    mr_node_builder *b = mr_node_begin(m->g, op, mr_graph_unique_name(m->g, last->name));
    mr_nb_internal(b);
    mr_nb_device(b, last->device);
    for (int i = 0; i < n_in; i++)
        mr_nb_input(b, in[i]);
    for (int i = 0; i < m->n_members; i++)
        if (!mr_node_is(m->members[i], "Const")) {
            labels[n] = mr_sv_of(texts[n] = mr_printf("%s:%s", m->members[i]->name, m->members[i]->def->name));
            n++;
        }
    mr_nb_attr(b, MR_FUSED_MEMBERS, mr_a_strs(n, labels));
    while (n > 0)
        mr_free(texts[--n]);
    MR_TRY(mr_node_finish(b, out));
    (*out)->placed = last->placed;
    (*out)->mark = last->mark;
    (*out)->out_shapes[0] = last->out_shapes[0];
    for (int i = 0; i < m->n_members; i++)
        for (int c = 0; c < m->members[i]->n_ctrl; c++)
            mr_node_add_control(*out, m->members[i]->ctrl[c]);
    return NULL;
}

/* Removes members whose only readers were other members. */
static void remove_unused(matcher *m)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < m->n_members; i++) {
            mr_node *n = m->members[i];
            if (!n || n->uses.n > 0)
                continue;
            mr_graph_remove(m->g, n);
            m->members[i] = NULL;
            again = true;
        }
    }
}

static mr_status *finish(matcher *m, mr_node *last, mr_node *fused)
{
    const char *name = last->name;
    MR_TRY(mr_graph_replace_uses((mr_out){last, 0}, (mr_out){fused, 0}));
    mr_fuse_move_controls(last, fused);
    remove_unused(m);
    mr_node_rename(fused, name);
    return NULL;
}

/* ---- forward ---- */

/* Finds x and the last node of the formula. */
static bool find_result(matcher *m, mr_out *result)
{
    found below, above;
    find_below(m->f->in[0], &below);
    find_above((mr_out){m->f, 0}, &above);
    for (int i = 0; i < below.n; i++) {
        m->at[X] = below.all[i];
        m->n_members = 0;
        note_member(m, m->f);
        m->at[F] = MR_NO_OUT;
        if (!is_poly(m, m->f->in[0], &m->kind->inside))
            continue;
        m->at[F] = (mr_out){m->f, 0};
        for (int k = 1; k < above.n; k++)
            if (is_poly(m, above.all[k], &m->kind->result)) {
                *result = above.all[k];
                return true;
            }
    }
    return false;
}

/* ---- gradients ---- */

/* True if the value is 2 / sqrt(pi) exp(-z^2) of the argument z of f. */
static bool is_bell(matcher *m, mr_out o)
{
    static const poly bell = {1, {{1.1283791670955126, {[G] = 1}}}}, exponent = {1, {{-1, {[G] = 2}}}};
    found below;
    find_below(o, &below);
    for (int i = 0; i < below.n; i++) {
        if (!mr_node_is(below.all[i].node, "Exp"))
            continue;
        mr_node *e = below.all[i].node;
        int n = m->n_members;
        m->at[G] = m->f->in[0];
        bool good = is_poly(m, e->in[0], &exponent);
        m->at[G] = below.all[i];
        good = good && is_poly(m, o, &bell);
        m->at[G] = MR_NO_OUT;
        if (good) {
            note_member(m, e);
            return true;
        }
        m->n_members = n;
    }
    return false;
}

/* Finds dy, whose product with half of x is the value. */
static bool find_dy(matcher *m, mr_out o)
{
    found below;
    find_below(o, &below);
    m->at[G] = MR_NO_OUT;
    for (int i = 0; i < below.n; i++) {
        m->at[DY] = below.all[i];
        if (!mr_out_eq(m->at[DY], m->at[X]) && is_poly(m, o, &m->kind->before))
            return true;
    }
    return false;
}

/* True if n computes g; then dy is known. */
static bool computes_g(matcher *m, const mr_node *n)
{
    m->at[DY] = m->at[G] = MR_NO_OUT;
    if (m->kind->grad_op)
        return mr_node_is(n, m->kind->grad_op) && n->in[0].node == m->f && find_dy(m, n->in[1]);
    if (!mr_node_is(n, "Mul"))
        return false;
    for (int i = 0; i < 2; i++) {
        int n_members = m->n_members;
        if (is_bell(m, n->in[i]) && find_dy(m, n->in[1 - i]))
            return true;
        m->n_members = n_members;
    }
    return false;
}

/* The inputs of a sum which together are the gradient, as bits; 0: there are none. Other gradients may be added to it. */
static uint64_t gradient_part(matcher *m, const mr_node *sum)
{
    uint64_t bits = 0;
    poly total = {0}, p;
    for (int i = 0; i < sum->n_in && i < 64; i++) {
        int n = m->n_members;
        bool guarded = m->guarded;
        m->n_steps = 0;
        if (expand(m, sum->in[i], &p) && add_poly(&total, &p, 1)) {
            bits |= (uint64_t)1 << i;
            continue;
        }
        m->n_members = n;
        m->guarded = guarded;
    }
    return equal_poly(&total, &m->kind->after) ? bits : 0;
}

/* Replaces the part of a sum: the sum gets the fused node in place of these inputs. */
static mr_status *replace_part(matcher *m, mr_node *sum, uint64_t bits, mr_node *fused)
{
    mr_out in[64];
    int n = 0;
    bool placed = false;
    for (int i = 0; i < sum->n_in; i++)
        if (!(bits >> i & 1)) {
            in[n++] = sum->in[i];
        } else if (!placed) {
            in[n++] = (mr_out){fused, 0};
            placed = true;
        }
    mr_node *made;
    mr_node_builder *b = mr_node_begin(m->g, "AddN", mr_graph_unique_name(m->g, sum->name));
    mr_nb_internal(b);
    mr_nb_device(b, sum->device);
    mr_nb_input_list(b, in, n);
    for (int c = 0; c < sum->n_ctrl; c++)
        mr_nb_control(b, sum->ctrl[c]);
    MR_TRY(mr_node_finish(b, &made));
    made->placed = sum->placed;
    made->mark = sum->mark;
    made->out_shapes[0] = sum->out_shapes[0];
    note_member(m, sum);
    return finish(m, sum, made);
}

/* Replaces the gradient that is computed through node n. */
static mr_status *fuse_gradient(matcher *m, mr_node *n, bool *done)
{
    found above;
    mr_node *fused;
    *done = false;
    m->n_members = 0;
    m->guarded = m->full = false;
    if (!computes_g(m, n))
        return NULL;
    note_member(m, n);
    m->at[G] = (mr_out){n, 0};
    m->at[F] = (mr_out){m->f, 0};
    note_member(m, m->f);
    find_above(m->at[G], &above);
    int n_members = m->n_members;
    for (int i = 1; i < above.n; i++) {
        mr_node *last = above.all[i].node;
        uint64_t bits = 0;
        m->guarded = false;
        bool whole = is_poly(m, above.all[i], &m->kind->after);
        if (!whole && (!mr_node_is(last, "AddN") || last->n_in > 64 || !(bits = gradient_part(m, last)))) {
            m->n_members = n_members;
            continue;
        }
        if (m->full)
            return NULL;
        *done = true;
        const char *op = m->guarded && m->kind->guarded_grad ? m->kind->guarded_grad : m->kind->fused_grad;
        const mr_out in[] = {m->at[DY], m->at[X]};
        MR_TRY(add_node(m, op, last, in, 2, &fused));
        return whole ? finish(m, last, fused) : replace_part(m, last, bits, fused);
    }
    return NULL;
}

/* The node that computes g from the gradients of f; the erf has a product above an Exp of its argument. */
static void find_gradients(const matcher *m, found *l)
{
    l->n = 0;
    if (m->kind->grad_op) {
        for (int u = 0; u < m->f->uses.n; u++)
            if (mr_node_is(m->f->uses.p[u].node, m->kind->grad_op))
                add_found(l, (mr_out){m->f->uses.p[u].node, 0});
        return;
    }
    found near, above;
    find_above(m->f->in[0], &near);
    for (int i = 0; i < near.n; i++)
        for (int u = 0; u < near.all[i].node->uses.n && u < MOST_FOUND; u++)
            if (mr_node_is(near.all[i].node->uses.p[u].node, "Exp")) {
                find_above((mr_out){near.all[i].node->uses.p[u].node, 0}, &above);
                for (int k = 1; k < above.n; k++)
                    add_found(l, above.all[k]);
            }
}

/* ---- */

/* A reshape between x and the new node comes after it instead, so that a product of matrices can apply the step. */
static mr_status *move_reshape(matcher *m, mr_node *fused)
{
    mr_node *shape = fused->in[0].node;
    if (!mr_node_is(shape, "Reshape") || mr_fuse_sole_consumer(shape) != fused || !mr_fuse_same_device(shape, fused) ||
        shape->n_ctrl > 0 || fused->n_ctrl > 0 || !is_float(shape->in[0]))
        return NULL;
    mr_out x = shape->in[0];
    mr_node *copy;
    mr_node_builder *b = mr_node_begin(m->g, "Reshape", mr_graph_unique_name(m->g, shape->name));
    mr_nb_internal(b);
    mr_nb_device(b, shape->device);
    mr_nb_input(b, (mr_out){fused, 0});
    mr_nb_input(b, shape->in[1]);
    MR_TRY(mr_node_finish(b, &copy));
    copy->placed = shape->placed;
    copy->mark = shape->mark;
    copy->out_shapes[0] = shape->out_shapes[0];
    for (int u = fused->uses.n - 1; u >= 0; u--)
        if (fused->uses.p[u].input >= 0 && fused->uses.p[u].node != copy)
            MR_TRY(mr_node_set_input(fused->uses.p[u].node, fused->uses.p[u].input, (mr_out){copy, 0}));
    MR_TRY(mr_node_set_input(fused, 0, x));
    fused->out_shapes[0] = mr_out_shape(x);
    const char *name = shape->name;
    mr_graph_remove(m->g, shape);
    mr_node_rename(copy, name);
    return NULL;
}

static mr_status *fuse_at(mr_graph *g, const mr_prepare_options *o, mr_node *f, const step_kind *kind)
{
    matcher m = {.g = g, .o = o, .kind = kind, .f = f};
    mr_out result;
    found gradients;
    mr_node *fused;
    if (!find_result(&m, &result) || m.full)
        return NULL;
    matcher forward = m;
    find_gradients(&m, &gradients);
    for (int i = 0; i < gradients.n; i++) {
        bool done;
        MR_TRY(fuse_gradient(&m, gradients.all[i].node, &done));
        if (done && !kind->grad_op)
            break; /* other candidates may be gone */
    }
    MR_TRY(add_node(&forward, kind->fused, result.node, &forward.at[X], 1, &fused));
    MR_TRY(finish(&forward, result.node, fused));
    return move_reshape(&forward, fused);
}

static bool is_step(const mr_prepare_options *o, const mr_node *n, const step_kind *kind)
{
    return n && mr_node_is(n, kind->op) && n->n_in == 1 && is_float(n->in[0]) && mr_fuse_on_cpu(o, n);
}

mr_status *mr_fuse_gelu(mr_graph *g, const mr_prepare_options *o)
{
    for (int i = 0, n = g->nodes.n; i < n; i++)
        for (int k = 0; k < MR_COUNT(kinds); k++)
            if (is_step(o, g->nodes.p[i], &kinds[k]))
                MR_TRY(fuse_at(g, o, g->nodes.p[i], &kinds[k]));
    return NULL;
}
