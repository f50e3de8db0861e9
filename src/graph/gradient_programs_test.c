/* graph/gradient_programs_test.c -- gradients of random programs: loops and conditionals in one another.
 *
 * A program works on a few registers.  Each seed writes another one; its gradients are compared with finite
 * differences.  A failing seed is printed and can be run alone (MILLRACE_SEED). */
#include "graph/gradient_trial_test.h"

enum { REGS = 3 };

typedef struct program {
    mr_gtrial t;
    uint64_t random;
    int budget;   /* statements left */
    bool vectors; /* registers are vectors of a shape that is not known beforehand */
} program;

static int pick(program *p, int n)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((p->random >> 33) % (uint64_t)n);
}

static double pick_double(program *p) { return pick(p, 2000) / 1000.0 - 1.0; }

static void block(program *p, mr_out *r, int depth);

/* Stays within (-1, 1), so that nothing explodes. */
static mr_out tame(program *p, mr_out v) { return mr_fb1(&p->t.b, "Tanh", v); }

/* A constant register. */
static mr_out fresh(program *p, mr_out like)
{
    mr_out v = mr_gtrial_num(&p->t, pick_double(p));
    return p->vectors ? mr_fb2(&p->t.b, "Mul", mr_fb1(&p->t.b, "OnesLike", like), v) : v;
}

static mr_out scalar(program *p, mr_out v)
{
    return p->vectors ? mr_fb2(&p->t.b, "Sum", v, mr_gtrial_ints(&p->t, 1, (const int32_t[]){0})) : v;
}

static void conditional(program *p, mr_out *r, int depth)
{
    mr_out then[REGS], other[REGS];
    memcpy(then, r, sizeof(then));
    memcpy(other, r, sizeof(other));
    mr_out threshold = mr_gtrial_num(&p->t, pick_double(p));
    mr_fb_cond(&p->t.b, mr_fb2(&p->t.b, "Less", scalar(p, r[pick(p, REGS)]), threshold));
    block(p, then, depth - 1);
    mr_fb_cond_else(&p->t.b, then, REGS);
    block(p, other, depth - 1);
    mr_fb_cond_end(&p->t.b, other, r);
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
    mr_gtrial_for(&p->t, mr_gtrial_i32(&p->t, pick(p, 4)), parallel, v + 1, n);
    memcpy(inner, r, sizeof(inner));
    for (int i = 0; i < n; i++)
        inner[var[i]] = v[1 + i];
    block(p, inner, depth - 1);
    for (int i = 0; i < n; i++)
        v[1 + i] = inner[var[i]];
    mr_gtrial_end_for(&p->t, v + 1, n);
    for (int i = 0; i < n; i++)
        r[var[i]] = v[1 + i];
}

static void statement(program *p, mr_out *r, int depth)
{
    int what = pick(p, depth > 0 ? 6 : 4), a = pick(p, REGS), b = pick(p, REGS), to = pick(p, REGS);
    mr_fb *fb = &p->t.b;
    switch (what) {
    case 0: r[to] = tame(p, mr_fb2(fb, "Mul", r[a], r[b])); break;
    case 1: r[to] = tame(p, mr_fb2(fb, "Add", r[a], mr_fb2(fb, "Mul", r[b], mr_gtrial_num(&p->t, pick_double(p))))); break;
    case 2: r[to] = fresh(p, r[a]); break;
    case 3: r[to] = tame(p, mr_fb2(fb, "Sub", r[a], mr_nth(mr_fb1(fb, "Both", r[b]), pick(p, 2)))); break;
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

static void run_program(uint64_t seed, bool vectors)
{
    program p = {.random = seed, .budget = 30, .vectors = vectors};
    mr_out r[REGS];
    mr_gtrial_init(&p.t, REGS);
    p.t.program = (int)seed;
    for (int i = 0; vectors && i < REGS; i++)
        mr_gtrial_vector(&p.t, i, 2, false);
    memcpy(r, p.t.x, sizeof(r));
    for (int i = 0; i < 3; i++)
        block(&p, r, 3);
    mr_out y = mr_fb2(&p.t.b, "Add", mr_fb2(&p.t.b, "Mul", r[0], r[1]), r[2]);
    mr_gtrial_check(&p.t, y);
    mr_gtrial_deinit(&p.t);
}

MR_TEST(gradients_of_random_programs)
{
    mr_test_deadline(120);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 60; seed++)
        run_program(seed, false);
}

MR_TEST(gradients_of_random_programs_with_unknown_shapes)
{
    mr_test_deadline(120);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 40; seed++)
        run_program(seed, true);
}
