/* graph/interpreter_fixture.c -- a small interpreter with frames, iterations and dead values.
 *
 * One token at a time, in random order.  Iterations are never held back, so everything that could
 * run in parallel may come in any order; a frame is done when nothing in it can go on and all its
 * Enters came, and then Exits that never fired are dead to the frame around it. */
#include "graph/interpreter_fixture.h"

#include <math.h>

#include "tests/harness/test.h"

typedef mr_mini_value value;
typedef struct frame frame;
enum { MAX_IN = 32 };

typedef struct cell { /* a node in one iteration */
    int arrived, ctrl_arrived, dead_data;
    bool dead, queued;
    int taken; /* input of a Merge that came first, plus one */
    value *in[MAX_IN];
} cell;

typedef struct iteration {
    cell **cells; /* by node id; made when something arrives */
} iteration;

struct frame {
    frame *parent;
    int parent_iter;
    const char *name;
    MR_VEC(iteration) iters;
    MR_VEC(mr_node *) const_nodes; /* constant Enters that arrived, with their values */
    MR_VEC(value *) const_values;
    int entered, n_enters, busy; /* busy: queued nodes and open child frames */
    bool done;
    MR_VEC(mr_node *) dead_exits;
};

typedef struct token {
    frame *f;
    int iter;
    mr_node *node;
} token;

typedef MR_VEC(value *) stack;

typedef struct machine {
    mr_graph *g;
    mr_arena arena;
    bool *needed;
    const mr_mini_feed *feeds;
    int n_feeds;
    MR_VEC(token) ready;
    MR_VEC(frame *) frames;
    MR_VEC(stack *) stacks;
    const mr_out *fetches;
    int n_fetches;
    value *out;
    bool *got;
    uint64_t random;
    mr_status *st;
} machine;

static value *new_value(machine *m, int rank, int n)
{
    value *v = mr_arena_new(&m->arena, value);
    v->rank = rank;
    v->n = n;
    return v;
}

static void fail(machine *m, const mr_node *n, const char *why)
{
    if (!m->st)
        m->st = mr_error(MR_INTERNAL, "%s '%s': %s", n->def->name, n->name, why);
}

/* ---- kernels ---- */
static double binary(const char *op, double a, double b)
{
    switch (op[0]) {
    case 'A': return a + b;
    case 'S': return a - b;
    case 'M': return a * b;
    case 'L': return a < b;
    case 'E': return a == b;
    default: return op[7] ? a >= b : a > b;
    }
}

static void run_binary(machine *m, mr_node *n, value **in, value **out)
{
    if (in[0]->n != in[1]->n && in[0]->rank && in[1]->rank && in[0]->n != 1 && in[1]->n != 1) {
        fail(m, n, "shapes differ");
        return;
    }
    bool first = in[0]->rank > in[1]->rank || (in[0]->rank == in[1]->rank && in[0]->n != 1);
    value *r = out[0] = new_value(m, MR_MAX(in[0]->rank, in[1]->rank), first ? in[0]->n : in[1]->n);
    for (int i = 0; i < r->n; i++)
        r->v[i] =
            binary(n->def->name, in[0]->v[in[0]->n == 1 ? 0 : i], in[1]->v[in[1]->n == 1 ? 0 : i]);
}

static void run_const(machine *m, mr_node *n, value **out)
{
    mr_tensor *t;
    m->st = mr_node_get_tensor(n, "value", &t);
    if (m->st)
        return;
    out[0] = new_value(m, t->rank, (int)t->n);
    mr_dtype_convert(t->dtype, t->data, MR_DOUBLE, out[0]->v, t->n, false);
    mr_tensor_unref(t);
}

static void run_like(machine *m, value **in, value **out, double v)
{
    out[0] = new_value(m, in[0]->rank, in[0]->n);
    for (int i = 0; i < out[0]->n; i++)
        out[0]->v[i] = v;
}

static void run_addn(machine *m, mr_node *n, value **in, value **out)
{
    run_like(m, in, out, 0);
    for (int i = 0; i < n->n_in; i++) {
        if (in[i]->n != in[0]->n || in[i]->rank != in[0]->rank)
            fail(m, n, "shapes differ");
        for (int j = 0; j < in[i]->n; j++)
            out[0]->v[j] += in[i]->v[j];
    }
}

static void run_part(machine *m, value **in, value **out)
{
    out[0] = new_value(m, 1, (int)in[2]->v[0]);
    for (int i = 0; i < out[0]->n; i++)
        out[0]->v[i] = in[0]->v[(int)in[1]->v[0] + i];
}

static void run_append(machine *m, value **in, int n, value **out)
{
    out[0] = new_value(m, 1, 0);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < in[i]->n; j++)
            out[0]->v[out[0]->n++] = in[i]->v[j];
}

static void run_segments(machine *m, value **in, value **out)
{
    out[0] = new_value(m, 1, (int)in[2]->v[0]);
    for (int i = 0; i < in[1]->n; i++)
        out[0]->v[(int)in[1]->v[i]] += in[0]->v[i];
}

static void run_gather(machine *m, value **in, value **out)
{
    out[0] = new_value(m, in[1]->rank, in[1]->n);
    for (int i = 0; i < in[1]->n; i++)
        out[0]->v[i] = in[0]->v[(int)in[1]->v[i]];
}

/* The forms that gradient code needs: x[0] of a vector, or all elements from 1 on. */
static void run_strided_slice(machine *m, mr_node *n, value **in, value **out)
{
    if (mr_node_attr(n, "shrink_axis_mask")->i) {
        out[0] = new_value(m, 0, 1);
        out[0]->v[0] = in[0]->v[(int)in[1]->v[0]];
        return;
    }
    out[0] = new_value(m, 1, 0);
    for (int i = (int)in[1]->v[0]; i < in[0]->n; i++)
        out[0]->v[out[0]->n++] = in[0]->v[i];
}

static void run_sum(machine *m, value **in, value **out)
{
    if (in[1]->n == 0 || in[0]->rank == 0) {
        out[0] = in[0];
        return;
    }
    out[0] = new_value(m, 0, 1);
    for (int i = 0; i < in[0]->n; i++)
        out[0]->v[0] += in[0]->v[i];
}

/* Of shapes of rank 0 or 1: where the other one is larger. */
static void run_broadcast_args(machine *m, value **in, value **out)
{
    for (int i = 0; i < 2; i++) {
        const value *a = in[i], *b = in[1 - i];
        bool stretched = b->n > a->n || (b->n == 1 && a->n == 1 && a->v[0] == 1 && b->v[0] != 1);
        out[i] = new_value(m, 1, stretched ? 1 : 0);
    }
}

static void run_stack(machine *m, mr_node *n, value **in, value **out)
{
    if (mr_node_is(n, "StackV2")) {
        stack *s = mr_new(stack);
        out[0] = new_value(m, 0, 1);
        out[0]->v[0] = m->stacks.n;
        mr_vec_push(&m->stacks, s);
        return;
    }
    stack *s = m->stacks.p[(int)in[0]->v[0]];
    if (mr_node_is(n, "StackPushV2")) {
        mr_vec_push(s, in[1]);
        out[0] = in[1];
    } else if (s->n == 0) {
        fail(m, n, "empty stack");
    } else {
        out[0] = mr_vec_pop(s);
    }
}

static void run_feed(machine *m, mr_node *n, value **out)
{
    for (int i = 0; i < m->n_feeds; i++) {
        const mr_mini_feed *f = &m->feeds[i];
        if (f->node != n)
            continue;
        out[0] = new_value(m, f->n >= 0, f->n >= 0 ? f->n : 1);
        memcpy(out[0]->v, f->v, sizeof(f->v));
        return;
    }
    fail(m, n, "not fed");
}

static void run_simple(machine *m, mr_node *n, value **in, value **out)
{
    const char *op = n->def->name;
    if (n->n_in == 2 && n->n_out == 1 &&
        strstr(" Add AddV2 Sub Mul Less GreaterEqual Greater Equal ", op))
        run_binary(m, n, in, out);
    else if (strcmp(op, "Const") == 0)
        run_const(m, n, out);
    else if (strcmp(op, "Placeholder") == 0 || strcmp(op, "_Arg") == 0)
        run_feed(m, n, out);
    else if (strcmp(op, "ZerosLike") == 0 || strcmp(op, "OnesLike") == 0)
        run_like(m, in, out, op[0] == 'O');
    else if (strcmp(op, "AddN") == 0)
        run_addn(m, n, in, out);
    else if (strncmp(op, "Stack", 5) == 0)
        run_stack(m, n, in, out);
    else if (strcmp(op, "Append") == 0)
        run_append(m, in, 2, out);
    else if (strcmp(op, "ConcatV2") == 0)
        run_append(m, in, n->n_in - 1, out);
    else if (strcmp(op, "Part") == 0)
        run_part(m, in, out);
    else if (strcmp(op, "UnsortedSegmentSum") == 0)
        run_segments(m, in, out);
    else if (strcmp(op, "Gather") == 0)
        run_gather(m, in, out);
    else if (strcmp(op, "StridedSlice") == 0)
        run_strided_slice(m, n, in, out);
    else if (strcmp(op, "Sum") == 0)
        run_sum(m, in, out);
    else if (strcmp(op, "BroadcastGradientArgs") == 0)
        run_broadcast_args(m, in, out);
    else
        fail(m, n, "no kernel in this test");
}

static void run_shape(machine *m, value **in, value **out)
{
    out[0] = new_value(m, 1, in[0]->rank);
    out[0]->v[0] = in[0]->n;
}

static void run_fill(machine *m, const value *dims, double v, value **out)
{
    out[0] = new_value(m, dims->n, dims->n ? (int)dims->v[0] : 1);
    for (int i = 0; i < out[0]->n; i++)
        out[0]->v[i] = v;
}

/* true when the op is one of those that only hand a value on. */
static bool run_passing(machine *m, mr_node *n, value **in, value **out)
{
    if (mr_node_is_switch(n)) {
        int side = (int)in[1]->v[0];
        out[MR_MAX(0, MR_MIN(side, n->n_out - 1))] = in[0];
    } else if (mr_node_is_control_flow(n) || mr_node_is(n, "LoopCond") ||
               mr_node_is(n, "Identity") || mr_node_is(n, "StopGradient") ||
               mr_node_is(n, "NoGrad") || mr_node_is(n, "Cast")) {
        if (n->n_out)
            out[0] = in[0];
    } else if (mr_node_is(n, "NoOp") || mr_node_is(n, "ControlTrigger")) {
        return true;
    } else if (mr_node_is(n, "Both")) {
        out[0] = in[0];
        run_like(m, in, &out[1], 0);
        for (int i = 0; i < in[0]->n; i++)
            out[1]->v[i] = -in[0]->v[i];
    } else {
        return false;
    }
    return true;
}

static void run_unary(machine *m, mr_node *n, value **in, value **out)
{
    if (mr_node_is(n, "Shape")) {
        run_shape(m, in, out);
    } else if (mr_node_is(n, "Fill")) {
        run_fill(m, in[0], in[1]->v[0], out);
    } else if (mr_node_is(n, "Reshape")) {
        out[0] = new_value(m, in[1]->n, in[0]->n);
        memcpy(out[0]->v, in[0]->v, sizeof(out[0]->v));
    } else if (mr_node_is(n, "Tanh") || mr_node_is(n, "Neg")) {
        run_like(m, in, out, 0);
        for (int i = 0; i < in[0]->n; i++)
            out[0]->v[i] = mr_node_is(n, "Tanh") ? tanh(in[0]->v[i]) : -in[0]->v[i];
    } else {
        run_simple(m, n, in, out);
    }
}

/* ---- frames ---- */
static frame *new_frame(machine *m, frame *parent, int iter, const char *name)
{
    frame *f = mr_arena_new(&m->arena, frame);
    f->parent = parent;
    f->parent_iter = iter;
    f->name = name;
    for (int i = 0; i < m->g->nodes.n; i++) {
        mr_node *n = m->g->nodes.p[i];
        if (m->needed[i] && mr_node_is_enter(n) && name &&
            mr_sv_is(mr_node_attr(n, "frame_name")->s, name))
            f->n_enters++;
    }
    mr_vec_push(&m->frames, f);
    if (parent)
        parent->busy++;
    return f;
}

static void arrive(machine *m, frame *f, int iter, mr_node *n, int input, value *v, bool dead);

static iteration *iteration_at(machine *m, frame *f, int iter)
{
    while (f->iters.n <= iter) {
        int i = f->iters.n;
        mr_vec_push(&f->iters, (iteration){mr_arena_array(&m->arena, cell *, m->g->nodes.n)});
        for (int k = 0; k < f->const_nodes.n; k++)
            for (int u = 0; u < f->const_nodes.p[k]->uses.n; u++) {
                mr_use use = f->const_nodes.p[k]->uses.p[u];
                arrive(m, f, i, use.node, use.input, f->const_values.p[k],
                       f->const_values.p[k]->dead);
            }
    }
    return &f->iters.p[iter];
}

static cell *cell_at(machine *m, frame *f, int iter, const mr_node *n)
{
    cell **c = &iteration_at(m, f, iter)->cells[n->id];
    if (!*c)
        *c = mr_arena_new(&m->arena, cell);
    return *c;
}

static void enqueue(machine *m, frame *f, int iter, mr_node *n, cell *c)
{
    c->queued = true;
    f->busy++;
    mr_vec_push(&m->ready, (token){f, iter, n});
}

static void arrive_merge(machine *m, frame *f, int iter, mr_node *n, int input, value *v, bool dead)
{
    cell *c = cell_at(m, f, iter, n);
    if (input < 0) {
        c->ctrl_arrived++;
    } else if (dead) {
        c->dead_data++;
        if (mr_node_is_enter(n->in[input].node)) /* a loop that is never entered */
            c->dead_data = n->n_in;
    } else if (!c->taken) {
        c->taken = input + 1;
        c->in[input] = v;
    }
    if (c->queued || c->ctrl_arrived < n->n_ctrl || !(c->taken || c->dead_data >= n->n_in))
        return;
    c->dead = !c->taken;
    enqueue(m, f, iter, n, c);
}

static void arrive(machine *m, frame *f, int iter, mr_node *n, int input, value *v, bool dead)
{
    if (!m->needed[n->id])
        return;
    if (mr_node_is_merge(n)) {
        arrive_merge(m, f, iter, n, input, v, dead);
        return;
    }
    cell *c = cell_at(m, f, iter, n);
    c->arrived++;
    c->dead = c->dead || (dead && !mr_node_is(n, "ControlTrigger"));
    if (input >= 0 && !dead)
        c->in[input] = v;
    if (c->arrived == n->n_in + n->n_ctrl)
        enqueue(m, f, iter, n, c);
}

static frame *child_frame(machine *m, frame *f, int iter, const char *name)
{
    for (int i = 0; i < m->frames.n; i++) {
        frame *c = m->frames.p[i];
        if (c->parent == f && c->parent_iter == iter && c->name && strcmp(c->name, name) == 0)
            return c;
    }
    return new_frame(m, f, iter, name);
}

static void send_out(machine *m, frame *f, int iter, mr_node *n, value **out, bool dead)
{
    for (int i = 0; i < n->uses.n; i++) {
        mr_use u = n->uses.p[i];
        bool gone = dead || (u.output >= 0 && !out[u.output]);
        arrive(m, f, iter, u.node, u.input, u.output >= 0 ? out[u.output] : NULL, gone);
    }
}

static void enter(machine *m, frame *f, int iter, mr_node *n, value **out, bool dead)
{
    char *name = mr_arena_strndup(&m->arena, mr_node_attr(n, "frame_name")->s.p,
                                  mr_node_attr(n, "frame_name")->s.n);
    frame *c = child_frame(m, f, iter, name);
    c->entered++;
    iteration_at(m, c, 0);
    if (!mr_node_attr(n, "is_constant")->b) {
        send_out(m, c, 0, n, out, dead);
        return;
    }
    value *v = dead ? new_value(m, 0, 1) : out[0];
    v->dead = dead;
    mr_vec_push(&c->const_nodes, n);
    mr_vec_push(&c->const_values, v);
    for (int i = 0; i < c->iters.n; i++) {
        value *one[1] = {dead ? NULL : v};
        send_out(m, c, i, n, one, dead);
    }
}

static void fetch(machine *m, frame *f, mr_node *n, value **out, bool dead)
{
    for (int i = 0; i < m->n_fetches; i++) {
        if (m->fetches[i].node != n || (f->parent && !mr_node_is_exit(n)))
            continue;
        m->got[i] = true;
        m->out[i].dead = dead || !out[m->fetches[i].index];
        if (!m->out[i].dead)
            m->out[i] = *out[m->fetches[i].index];
    }
}

static void leave(machine *m, frame *f, mr_node *n, value **out, bool dead)
{
    if (dead) {
        mr_vec_push(&f->dead_exits, n);
        return;
    }
    fetch(m, f, n, out, false);
    send_out(m, f->parent, f->parent_iter, n, out, false);
}

/* An Exit is dead outside when it never was live. */
static void drop_dead_exits(machine *m, frame *f)
{
    for (int i = 0; i < f->dead_exits.n; i++) {
        mr_node *n = f->dead_exits.p[i];
        value *none[MAX_IN] = {0};
        bool again = false, fired = false;
        for (int j = 0; j < i; j++)
            again = again || f->dead_exits.p[j] == n;
        for (int j = 0; j < f->iters.n; j++)
            fired = fired || (f->iters.p[j].cells[n->id] && f->iters.p[j].cells[n->id]->queued &&
                              !f->iters.p[j].cells[n->id]->dead);
        if (again || fired)
            continue;
        fetch(m, f, n, none, true);
        send_out(m, f->parent, f->parent_iter, n, none, true);
    }
}

static void finish_frames(machine *m, frame *f)
{
    if (!f->parent || f->done || f->busy || f->entered < f->n_enters)
        return;
    f->done = true;
    drop_dead_exits(m, f);
    f->parent->busy--;
    finish_frames(m, f->parent);
}

static void step(machine *m, token t)
{
    mr_node *n = t.node;
    const cell *c = cell_at(m, t.f, t.iter, n);
    value *in[MAX_IN], *out[MAX_IN] = {0};
    bool dead = c->dead;
    memcpy(in, c->in, sizeof(in));
    if (mr_node_is_merge(n) && !dead) {
        out[0] = in[c->taken - 1];
        out[1] = new_value(m, 0, 1);
        out[1]->v[0] = c->taken - 1;
    } else if (!dead && !run_passing(m, n, in, out)) {
        run_unary(m, n, in, out);
    }
    if (mr_node_is_enter(n))
        enter(m, t.f, t.iter, n, out, dead);
    else if (mr_node_is_exit(n))
        leave(m, t.f, n, out, dead);
    else if (!mr_node_is_next(n))
        fetch(m, t.f, n, out, dead);
    if (mr_node_is_next(n) && !dead)
        send_out(m, t.f, t.iter + 1, n, out, false);
    else if (!mr_node_is_next(n) && !mr_node_is_enter(n) && !mr_node_is_exit(n))
        send_out(m, t.f, t.iter, n, out, dead);
    t.f->busy--;
    finish_frames(m, t.f);
}

/* ---- a run ---- */
static void need(machine *m, mr_node *n)
{
    MR_VEC(mr_node *) todo = {0};
    mr_vec_push(&todo, n);
    while (todo.n) {
        n = mr_vec_pop(&todo);
        if (m->needed[n->id])
            continue;
        m->needed[n->id] = true;
        for (int i = 0; i < n->n_in; i++)
            mr_vec_push(&todo, n->in[i].node);
        for (int i = 0; i < n->n_ctrl; i++)
            mr_vec_push(&todo, n->ctrl[i]);
    }
    mr_vec_deinit(&todo);
}

static uint64_t next_random(machine *m)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return m->random >> 33;
}

static void start(machine *m)
{
    frame *root = new_frame(m, NULL, 0, NULL);
    iteration_at(m, root, 0);
    for (int i = 0; i < m->g->nodes.n; i++) {
        mr_node *n = m->g->nodes.p[i];
        if (m->needed[i] && n->n_in + n->n_ctrl == 0)
            enqueue(m, root, 0, n, cell_at(m, root, 0, n));
    }
}

static void clean_up(machine *m)
{
    for (int i = 0; i < m->frames.n; i++) {
        frame *f = m->frames.p[i];
        mr_vec_deinit(&f->iters);
        mr_vec_deinit(&f->const_nodes);
        mr_vec_deinit(&f->const_values);
        mr_vec_deinit(&f->dead_exits);
    }
    for (int i = 0; i < m->stacks.n; i++) {
        mr_vec_deinit(m->stacks.p[i]);
        mr_free(m->stacks.p[i]);
    }
    mr_vec_deinit(&m->stacks);
    mr_vec_deinit(&m->frames);
    mr_vec_deinit(&m->ready);
    mr_arena_deinit(&m->arena);
}

mr_status *mr_mini_run(mr_graph *g, const mr_mini_feed *feeds, int n_feeds, const mr_out *fetches,
                       int n_fetches, uint64_t seed, mr_mini_value *out)
{
    machine m = {.g = g,
                 .feeds = feeds,
                 .n_feeds = n_feeds,
                 .fetches = fetches,
                 .n_fetches = n_fetches,
                 .out = out,
                 .random = seed};
    mr_arena_init(&m.arena, 65536);
    m.needed = mr_arena_array(&m.arena, bool, g->nodes.n);
    m.got = mr_arena_array(&m.arena, bool, n_fetches + 1);
    for (int i = 0; i < n_fetches; i++)
        need(&m, fetches[i].node);
    start(&m);
    for (int steps = 0; m.ready.n && !m.st; steps++) {
        int i = (int)(next_random(&m) % (uint64_t)m.ready.n);
        token t = m.ready.p[i];
        mr_vec_remove_swap(&m.ready, i);
        step(&m, t);
        if (steps > 2000000)
            fail(&m, t.node, "the graph runs on and on");
    }
    for (int i = 0; i < n_fetches && !m.st; i++)
        if (!m.got[i])
            fail(&m, fetches[i].node, "was fetched but never ran");
    mr_status *st = m.st;
    clean_up(&m);
    return st;
}
