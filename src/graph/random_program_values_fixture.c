/* graph/random_program_values_fixture.c -- runs a random program line by line, on plain numbers.
 *
 * Every number carries its derivatives by all elements of the inputs (forward differentiation), so
 * this says, without a graph, what the program's value and its gradients are. */
#include <math.h>

#include "graph/random_program_fixture.h"

enum { REGS = MR_RANDOM_PROGRAM_INPUTS, WIDTH = MR_RANDOM_PROGRAM_WIDTH, INPUTS = REGS * WIDTH };

typedef struct machine {
    int width;
    double margin;
} machine;

static void run_block(machine *m, const mr_program_block *b, mr_dual *r);

static mr_dual product(const mr_dual *x, const mr_dual *y)
{
    mr_dual z;
    for (int i = 0; i < WIDTH; i++) {
        z.v[i] = x->v[i] * y->v[i];
        for (int j = 0; j < INPUTS; j++)
            z.d[i][j] = x->d[i][j] * y->v[i] + x->v[i] * y->d[i][j];
    }
    return z;
}

/* x + k * y */
static mr_dual sum(const mr_dual *x, double k, const mr_dual *y)
{
    mr_dual z;
    for (int i = 0; i < WIDTH; i++) {
        z.v[i] = x->v[i] + k * y->v[i];
        for (int j = 0; j < INPUTS; j++)
            z.d[i][j] = x->d[i][j] + k * y->d[i][j];
    }
    return z;
}

static mr_dual tame(mr_dual x)
{
    mr_dual z;
    for (int i = 0; i < WIDTH; i++) {
        z.v[i] = tanh(x.v[i]);
        for (int j = 0; j < INPUTS; j++)
            z.d[i][j] = x.d[i][j] * (1 - z.v[i] * z.v[i]);
    }
    return z;
}

static bool is_less(machine *m, const mr_dual *x, double than)
{
    double total = 0;
    for (int i = 0; i < m->width; i++)
        total += x->v[i];
    m->margin = fmin(m->margin, fabs(total - than));
    return total < than;
}

static void run_loop(machine *m, const mr_line *l, mr_dual *r)
{
    for (int n = 0;; n++) {
        bool go_on = n < l->times;
        if (l->kind == MR_LINE_WHILE)
            go_on = is_less(m, &r[l->a], l->number) && go_on;
        if (!go_on)
            break;
        mr_dual seen[REGS];
        memcpy(seen, r, sizeof(seen));
        run_block(m, &l->blocks[0], seen);
        for (int i = 0; i < REGS; i++)
            if (l->var[i])
                r[i] = seen[i];
    }
}

static mr_dual run_call(machine *m, const mr_line *l, const mr_dual *r)
{
    mr_dual own[REGS] = {r[l->a], r[l->b], r[l->b]};
    run_block(m, &l->blocks[0], own);
    return own[0];
}

static mr_dual run_array(const mr_line *l, const mr_dual *r)
{
    mr_dual v = r[l->a], total = {{0}};
    for (int i = 0; i < l->times; i++) {
        v = tame(product(&v, &r[l->b]));
        total = sum(&total, 1, &v);
    }
    return tame(total);
}

static void run_line(machine *m, const mr_line *l, mr_dual *r)
{
    const mr_dual *x = &r[l->a], *y = &r[l->b];
    switch (l->kind) {
    case MR_LINE_MUL: r[l->to] = tame(product(x, y)); break;
    case MR_LINE_ADD: r[l->to] = tame(sum(x, l->number, y)); break;
    case MR_LINE_SUB: r[l->to] = tame(sum(x, -1, y)); break;
    case MR_LINE_CONST:
        r[l->to] = (mr_dual){0};
        for (int i = 0; i < WIDTH; i++)
            r[l->to].v[i] = l->number;
        break;
    case MR_LINE_COND: run_block(m, &l->blocks[is_less(m, x, l->number) ? 0 : 1], r); break;
    case MR_LINE_FOR:
    case MR_LINE_WHILE: run_loop(m, l, r); break;
    case MR_LINE_CALL: r[l->to] = run_call(m, l, r); break;
    case MR_LINE_ARRAY: r[l->to] = run_array(l, r); break;
    }
}

static void run_block(machine *m, const mr_program_block *b, mr_dual *r)
{
    for (int i = 0; i < b->n; i++)
        run_line(m, &b->lines[i], r);
}

mr_dual mr_random_values(const mr_program_block *lines, double (*x)[WIDTH], int width, double *margin)
{
    machine m = {width, INFINITY};
    mr_dual r[REGS] = {{{0}}};
    for (int i = 0; i < REGS; i++)
        for (int j = 0; j < width; j++) {
            r[i].v[j] = x[i][j];
            r[i].d[j][i * WIDTH + j] = 1;
        }
    run_block(&m, lines, r);
    *margin = m.margin;
    mr_dual p = product(&r[0], &r[1]);
    return sum(&p, 1, &r[2]);
}
