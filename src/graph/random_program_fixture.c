/* graph/random_program_fixture.c -- makes random programs, and writes them as nodes. */
#include "graph/random_program_fixture.h"

#include "graph/library.h"
#include "tests/harness/test.h"

enum { REGS = MR_RANDOM_PROGRAM_INPUTS, MAX_LINES = 30, DEPTH = 3 };

/* ---- making lines ---- */
typedef struct maker {
    mr_arena *arena;
    mr_random_options o;
    uint64_t random;
    int budget; /* lines left */
} maker;

static int pick(maker *m, int n)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->random >> 33) % (uint64_t)n);
}

static mr_program_block make_block(maker *m, int depth);

static void make_loop(maker *m, mr_line *l, int depth)
{
    int n = 0;
    for (int i = 0; i < REGS; i++)
        n += l->var[i] = pick(m, 3) || (i == REGS - 1 && n == 0);
    l->times = pick(m, 4);
    l->parallel_iterations = pick(m, 2) ? 1 : 32;
    if (l->kind == MR_LINE_WHILE)
        l->times += 2;
    l->blocks[0] = make_block(m, depth - 1);
}

static mr_line_kind pick_kind(maker *m, int depth)
{
    if (depth == 0)
        return pick(m, MR_LINE_COND);
    return pick(m, m->o.real_ops ? MR_LINE_ARRAY + 1 : MR_LINE_FOR + 1);
}

static mr_line make_line(maker *m, int depth)
{
    mr_line l = {
        .kind = pick_kind(m, depth), .a = pick(m, REGS), .b = pick(m, REGS), .to = pick(m, REGS)};
    l.number = pick(m, 2000) / 1000.0 - 1.0;
    l.which = pick(m, 6);
    switch (l.kind) {
    case MR_LINE_COND:
        l.blocks[0] = make_block(m, depth - 1);
        l.blocks[1] = make_block(m, depth - 1);
        break;
    case MR_LINE_FOR:
    case MR_LINE_WHILE: make_loop(m, &l, depth); break;
    case MR_LINE_CALL: l.blocks[0] = make_block(m, depth - 1); break;
    case MR_LINE_ARRAY: l.times = 1 + pick(m, 3); break;
    default: break;
    }
    return l;
}

static mr_program_block make_block(maker *m, int depth)
{
    mr_program_block b = {0, mr_arena_array(m->arena, mr_line, 4)};
    for (int n = pick(m, 4); n > 0 && m->budget > 0; n--) {
        m->budget--;
        b.lines[b.n++] = make_line(m, depth);
    }
    return b;
}

mr_program_block mr_random_lines(mr_arena *a, uint64_t seed, mr_random_options o)
{
    maker m = {.arena = a, .o = o, .random = seed, .budget = MAX_LINES};
    mr_program_block all = {0, mr_arena_array(a, mr_line, 16)};
    for (int i = 0; i < 3; i++) {
        mr_program_block b = make_block(&m, DEPTH);
        memcpy(all.lines + all.n, b.lines, (size_t)b.n * sizeof(mr_line));
        all.n += b.n;
    }
    return all;
}

/* ---- writing nodes ---- */
typedef struct writer {
    mr_fb *b;
    mr_random_options o;
    int *n_functions;
} writer;

static void write_block(writer *w, const mr_program_block *b, mr_out *r);

static mr_out number(writer *w, double v) { return mr_fb_num(w->b, MR_DOUBLE, v); }

/* Stays within (-1, 1), so that nothing explodes. */
static mr_out tame(writer *w, mr_out v) { return mr_fb1(w->b, "Tanh", v); }

static mr_out fresh(writer *w, double k, mr_out like)
{
    mr_out v = number(w, k);
    return w->o.vectors ? mr_fb2(w->b, "Mul", mr_fb1(w->b, "OnesLike", like), v) : v;
}

static mr_out first_axis(writer *w)
{
    return mr_fb_const(w->b, mr_tensor_vector_i32(1, (const int32_t[]){0}));
}

static mr_out is_less(writer *w, mr_out v, double than)
{
    if (w->o.vectors)
        v = mr_fb2(w->b, "Sum", v, first_axis(w));
    return mr_fb2(w->b, "Less", v, number(w, than));
}

/* Two outputs, of which one is used. */
static mr_out one_of_two(writer *w, mr_out v, int which)
{
    mr_out in[] = {v, v};
    mr_out two =
        w->o.real_ops ? mr_fb_emit(w->b, "IdentityN", NULL, 0, in, 2) : mr_fb1(w->b, "Both", v);
    return mr_nth(two, which % 2);
}

static void write_cond(writer *w, const mr_line *l, mr_out *r)
{
    mr_out then[REGS], other[REGS];
    memcpy(then, r, sizeof(then));
    memcpy(other, r, sizeof(other));
    mr_fb_cond(w->b, is_less(w, r[l->a], l->number));
    write_block(w, &l->blocks[0], then);
    mr_fb_cond_else(w->b, then, REGS);
    write_block(w, &l->blocks[1], other);
    mr_fb_cond_end(w->b, other, r);
}

/* Values of the loop's variables and of the others, as the condition and the body see them. */
static void see(const mr_line *l, const mr_out *v, const mr_out *r, mr_out *seen)
{
    int n = 1; /* v[0] counts */
    for (int i = 0; i < REGS; i++)
        seen[i] = l->var[i] ? v[n++] : r[i];
}

/* Some registers are loop variables, the others invariants.  A variable may be left as it is. */
static void write_loop(writer *w, const mr_line *l, mr_out *r)
{
    mr_out v[REGS + 1] = {mr_fb_num(w->b, MR_INT32, 0)}, seen[REGS],
                    limit = mr_fb_num(w->b, MR_INT32, l->times);
    int n = 1;
    for (int i = 0; i < REGS; i++)
        if (l->var[i])
            v[n++] = r[i];
    mr_fb_while(w->b, v, n, l->parallel_iterations, v);
    see(l, v, r, seen);
    mr_out go_on = mr_fb2(w->b, "Less", v[0], limit);
    if (l->kind == MR_LINE_WHILE)
        go_on = mr_fb2(w->b, "LogicalAnd", go_on, is_less(w, seen[l->a], l->number));
    mr_fb_while_body(w->b, go_on, v);
    see(l, v, r, seen);
    write_block(w, &l->blocks[0], seen);
    n = 1;
    v[0] = mr_fb2(w->b, "Add", v[0], mr_fb_num(w->b, MR_INT32, 1));
    for (int i = 0; i < REGS; i++)
        if (l->var[i])
            v[n++] = seen[i];
    mr_fb_while_end(w->b, v, v);
    n = 1;
    for (int i = 0; i < REGS; i++)
        if (l->var[i])
            r[i] = v[n++];
}

/* A function whose body is a separate program; its name is in the graph's arena. */
static const char *add_function(writer *w, const mr_program_block *body)
{
    mr_graph *outer = w->b->s.graph, *g = mr_graph_new();
    const char *name = mr_arena_printf(&outer->arena, "f_%d", (*w->n_functions)++);
    mr_fb b;
    mr_function *f = NULL;
    mr_fb_init(&b, g);
    writer inner = {&b, w->o, w->n_functions};
    mr_out in[2], r[REGS];
    for (int i = 0; i < 2; i++)
        in[i] = mr_placeholder(&b.s, MR_DOUBLE, "x", w->o.vectors ? NULL : &mr_pshape_scalar);
    r[0] = in[0];
    r[1] = r[2] = in[1];
    write_block(&inner, body, r);
    mr_out out = mr_fb1(&b, "Identity", r[0]);
    mr_function_spec spec = {
        .name = name, .n_nodes = -1, .n_inputs = 2, .inputs = in, .n_outputs = 1, .outputs = &out};
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f));
    MR_CHECK_OK(mr_library_copy(g->library, outer->library));
    MR_CHECK_OK(mr_library_add(outer->library, f));
    mr_function_unref(f);
    mr_fb_deinit(&b);
    mr_graph_unref(g);
    return name;
}

static mr_out write_call(writer *w, const mr_line *l, const mr_out *r)
{
    const char *name = add_function(w, &l->blocks[0]);
    mr_out in[] = {r[l->a], r[l->b]};
    if (l->which % 3 == 0)
        return mr_fb_emit(w->b, name, NULL, 0, in, 2);
    mr_func_ref f = {name, 0, NULL};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &f}},
                             {"Tout", mr_a_types(1, (const int[]){MR_DOUBLE})}};
    return mr_fb_emit(w->b, l->which % 3 == 1 ? "PartitionedCall" : "StatefulPartitionedCall",
                      attrs, 2, in, 2);
}

/* A loop writes the values to a TensorArray, which is read as a whole afterwards. */
static mr_out write_array(writer *w, const mr_line *l, const mr_out *r)
{
    static const int32_t all[] = {0, 1, 2};
    mr_fb *b = w->b;
    mr_named_attr dtype = {"dtype", mr_a_type(MR_DOUBLE)};
    mr_out n = mr_fb_num(b, MR_INT32, l->times);
    mr_out array = mr_fb_emit(b, "TensorArrayV3", &dtype, 1, &n, 1);
    mr_out v[3] = {{0}, r[l->a], mr_nth(array, 1)}; /* the counter, the value, the flow */
    mr_fb_for(b, n, l->which % 2 ? 1 : 10, v + 1, 2);
    v[1] = tame(w, mr_fb2(b, "Mul", v[1], r[l->b]));
    mr_out write[] = {array, v[0], v[1], v[2]};
    v[2] = mr_fb_emit(b, "TensorArrayWriteV3", NULL, 0, write, 4);
    mr_fb_end_for(b, v + 1, 2);
    mr_out read[] = {array, mr_fb_const(b, mr_tensor_vector_i32(l->times, all)), v[2]};
    mr_out rows = mr_fb_emit(b, "TensorArrayGatherV3", &dtype, 1, read, 3);
    return tame(w, mr_fb2(b, "Sum", rows, first_axis(w)));
}

static void write_line(writer *w, const mr_line *l, mr_out *r)
{
    mr_fb *b = w->b;
    mr_out x = r[l->a], y = r[l->b];
    switch (l->kind) {
    case MR_LINE_MUL: r[l->to] = tame(w, mr_fb2(b, "Mul", x, y)); break;
    case MR_LINE_ADD:
        r[l->to] = tame(w, mr_fb2(b, "Add", x, mr_fb2(b, "Mul", y, number(w, l->number))));
        break;
    case MR_LINE_CONST: r[l->to] = fresh(w, l->number, x); break;
    case MR_LINE_SUB: r[l->to] = tame(w, mr_fb2(b, "Sub", x, one_of_two(w, y, l->which))); break;
    case MR_LINE_COND: write_cond(w, l, r); break;
    case MR_LINE_FOR:
    case MR_LINE_WHILE: write_loop(w, l, r); break;
    case MR_LINE_CALL: r[l->to] = write_call(w, l, r); break;
    case MR_LINE_ARRAY: r[l->to] = write_array(w, l, r); break;
    }
}

static void write_block(writer *w, const mr_program_block *b, mr_out *r)
{
    for (int i = 0; i < b->n; i++)
        write_line(w, &b->lines[i], r);
}

mr_out mr_random_emit(mr_fb *b, const mr_program_block *lines, const mr_out *x, mr_random_options o)
{
    int n_functions = 0;
    writer w = {b, o, &n_functions};
    mr_out r[REGS];
    memcpy(r, x, sizeof(r));
    write_block(&w, lines, r);
    return mr_fb2(b, "Add", mr_fb2(b, "Mul", r[0], r[1]), r[2]);
}

mr_out mr_random_program(mr_fb *b, const mr_out *x, uint64_t seed, bool vectors, bool real_ops)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    mr_random_options o = {vectors, real_ops};
    mr_program_block lines = mr_random_lines(&a, seed, o);
    mr_out y = mr_random_emit(b, &lines, x, o);
    mr_arena_deinit(&a);
    return y;
}
