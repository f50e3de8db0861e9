/* graph/random_program_test.c -- writes random programs: loops and conditionals in one another. */
#include "graph/random_program_test.h"

enum { REGS = MR_RANDOM_PROGRAM_INPUTS };

typedef struct program {
    mr_fb *b;
    uint64_t random;
    int budget;   /* statements left */
    bool vectors; /* registers are vectors of a shape that is not known beforehand */
    bool real_ops;
} program;

static int pick(program *p, int n)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((p->random >> 33) % (uint64_t)n);
}

static double pick_double(program *p) { return pick(p, 2000) / 1000.0 - 1.0; }

static void block(program *p, mr_out *r, int depth);

/* Stays within (-1, 1), so that nothing explodes. */
static mr_out tame(program *p, mr_out v) { return mr_fb1(p->b, "Tanh", v); }

/* A constant register. */
static mr_out fresh(program *p, mr_out like)
{
    mr_out v = mr_fb_num(p->b, MR_DOUBLE, pick_double(p));
    return p->vectors ? mr_fb2(p->b, "Mul", mr_fb1(p->b, "OnesLike", like), v) : v;
}

static mr_out scalar(program *p, mr_out v)
{
    return p->vectors ? mr_fb2(p->b, "Sum", v,
                               mr_fb_const(p->b, mr_tensor_vector_i32(1, (const int32_t[]){0})))
                      : v;
}

static void conditional(program *p, mr_out *r, int depth)
{
    mr_out then[REGS], other[REGS];
    memcpy(then, r, sizeof(then));
    memcpy(other, r, sizeof(other));
    mr_out threshold = mr_fb_num(p->b, MR_DOUBLE, pick_double(p));
    mr_fb_cond(p->b, mr_fb2(p->b, "Less", scalar(p, r[pick(p, REGS)]), threshold));
    block(p, then, depth - 1);
    mr_fb_cond_else(p->b, then, REGS);
    block(p, other, depth - 1);
    mr_fb_cond_end(p->b, other, r);
}

/* Some registers are loop variables, the others invariants.  A variable may be left as it is. */
static void loop(program *p, mr_out *r, int depth)
{
    mr_out v[REGS + 2], inner[REGS];
    int var[REGS], n = 0;
    for (int i = 0; i < REGS; i++)
        if (pick(p, 3) || (i == REGS - 1 && n == 0)) {
            var[n] = i;
            v[1 + n++] = r[i];
        }
    int parallel = pick(p, 2) ? 1 : 32;
    mr_fb_for(p->b, mr_fb_num(p->b, MR_INT32, pick(p, 4)), parallel, v + 1, n);
    memcpy(inner, r, sizeof(inner));
    for (int i = 0; i < n; i++)
        inner[var[i]] = v[1 + i];
    block(p, inner, depth - 1);
    for (int i = 0; i < n; i++)
        v[1 + i] = inner[var[i]];
    mr_fb_end_for(p->b, v + 1, n);
    for (int i = 0; i < n; i++)
        r[var[i]] = v[1 + i];
}

/* Two outputs, of which one is used. */
static mr_out one_of_two(program *p, mr_out v)
{
    mr_out in[] = {v, v};
    mr_out two =
        p->real_ops ? mr_fb_emit(p->b, "IdentityN", NULL, 0, in, 2) : mr_fb1(p->b, "Both", v);
    return mr_nth(two, pick(p, 2));
}

static void statement(program *p, mr_out *r, int depth)
{
    int what = pick(p, depth > 0 ? 6 : 4), a = pick(p, REGS), b = pick(p, REGS), to = pick(p, REGS);
    mr_fb *fb = p->b;
    switch (what) {
    case 0: r[to] = tame(p, mr_fb2(fb, "Mul", r[a], r[b])); break;
    case 1:
        r[to] =
            tame(p, mr_fb2(fb, "Add", r[a],
                           mr_fb2(fb, "Mul", r[b], mr_fb_num(p->b, MR_DOUBLE, pick_double(p)))));
        break;
    case 2: r[to] = fresh(p, r[a]); break;
    case 3: r[to] = tame(p, mr_fb2(fb, "Sub", r[a], one_of_two(p, r[b]))); break;
    case 4: conditional(p, r, depth); break;
    default: loop(p, r, depth); break;
    }
}

static void block(program *p, mr_out *r, int depth)
{
    for (int n = pick(p, 4); n > 0 && p->budget > 0; n--) {
        p->budget--;
        statement(p, r, depth);
    }
}

mr_out mr_random_program(mr_fb *b, const mr_out *x, uint64_t seed, bool vectors, bool real_ops)
{
    program p = {.b = b, .random = seed, .budget = 30, .vectors = vectors, .real_ops = real_ops};
    mr_out r[REGS];
    memcpy(r, x, sizeof(r));
    for (int i = 0; i < 3; i++)
        block(&p, r, 3);
    return mr_fb2(b, "Add", mr_fb2(b, "Mul", r[0], r[1]), r[2]);
}
