/* graph/random_program_fixture.h -- random programs to run and to differentiate.  For tests.
 *
 * A program works on a few registers, which start as its inputs: doubles, scalars or vectors.  Each
 * seed gives another one, with loops, conditionals and function calls in one another.  It is a list
 * of lines before it is a graph, so the same program can also be run line by line
 * (random_program_values_fixture.c), which says what the graph must give. */
#ifndef MR_GRAPH_RANDOM_PROGRAM_FIXTURE_H
#define MR_GRAPH_RANDOM_PROGRAM_FIXTURE_H

#include "graph/flow_builder_fixture.h"

enum { MR_RANDOM_PROGRAM_INPUTS = 3, MR_RANDOM_PROGRAM_WIDTH = 2 };

typedef struct mr_line mr_line;
typedef struct mr_program_block {
    int n;
    mr_line *lines;
} mr_program_block;

typedef enum mr_line_kind {
    MR_LINE_MUL,   /* to = tanh(a * b) */
    MR_LINE_ADD,   /* to = tanh(a + b * number) */
    MR_LINE_CONST, /* to = number, in the shape of a */
    MR_LINE_SUB,   /* to = tanh(a - b), b by way of an op with two outputs */
    MR_LINE_COND,  /* if (sum(a) < number) blocks[0] else blocks[1] */
    MR_LINE_FOR,   /* `times` times: blocks[0] */
    MR_LINE_WHILE, /* the same, but only as long as sum(a) < number */
    MR_LINE_CALL,  /* to = f(a, b), where f is blocks[0] on registers a, b, b */
    MR_LINE_ARRAY, /* v[0] = a, v[i + 1] = tanh(v[i] * b); to = tanh(v[1] + ... + v[times]) */
} mr_line_kind;

struct mr_line {
    mr_line_kind kind;
    int a, b, to; /* registers */
    double number;
    int which; /* output, or way of calling, to take */
    int times, parallel_iterations;
    bool var[MR_RANDOM_PROGRAM_INPUTS]; /* registers that are loop variables; the others are not
                                           changed */
    mr_program_block blocks[2];
};

typedef struct mr_random_options {
    bool vectors;  /* registers are vectors of a length that is not known beforehand */
    bool real_ops; /* all ops of the table of ops, not only those of interpreter_fixture.h */
} mr_random_options;

/* The lines of program `seed`, in the arena. */
mr_program_block mr_random_lines(mr_arena *a, uint64_t seed, mr_random_options o);
/* Writes them as nodes; the result is r[0] * r[1] + r[2] at the end. */
mr_out mr_random_emit(mr_fb *b, const mr_program_block *lines, const mr_out *x, mr_random_options o);
/* Both. */
mr_out mr_random_program(mr_fb *b, const mr_out *x, uint64_t seed, bool vectors, bool real_ops);

/* ---- random_program_values_fixture.c ---- */
typedef struct mr_dual { /* a register's elements, and their derivatives by all elements of the
                            inputs */
    double v[MR_RANDOM_PROGRAM_WIDTH];
    double d[MR_RANDOM_PROGRAM_WIDTH][MR_RANDOM_PROGRAM_INPUTS * MR_RANDOM_PROGRAM_WIDTH];
} mr_dual;

/* Runs the lines on numbers; x[i] has `width` elements.  *margin: how close a comparison came to
 * its tipping point. */
mr_dual mr_random_values(const mr_program_block *lines, double (*x)[MR_RANDOM_PROGRAM_WIDTH], int width,
                         double *margin);

#endif
