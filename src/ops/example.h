/* ops/example.h -- the language of an op's .examples.
 *
 * An example is what a user of the op would try first: inputs, an arrow, outputs.
 *
 *     [1, 2], [3, 4] -> [4, 6]
 *     keep_dims=true: [[1, 2], [3, 4]], 1 -> [[3], [7]]
 *     T=float: [0.5, 1.5] -> [0, 2]
 *     [1, 2], [1, 2, 3] -> !INVALID_ARGUMENT Incompatible shapes
 *     h = VarHandleOp dtype=$T shape=[2]; AssignVariableOp: h, [1, 2]; : h -> [1, 2]
 *
 * The attrs precede a colon and are separated by blanks; the op's definition determines their kind: strings in
 * quotes, types by name, shapes [2,?] or ?, lists [..].  The word nograd means that the gradient is not compared
 * with finite differences (a kink, a tie); unknown means that neither shapes nor values of the inputs are known
 * when the graph is built.
 *
 * A value is a number, a "string", or a nested list of them in brackets.  Its type is that of the argument: the
 * fixed one, or that of the attr as it is set or defaults, or a type name precedes the value: int32[0, 1]. An
 * example that depends on the op's key attr runs once for every type for which the op has a kernel, except where a
 * literal of the example cannot be of that type (-1 as uint8, 0.5 as int32, nan, 1+2i); $T is that type in the
 * attrs, and in earlier steps $Name the type of attr Name.  A list argument takes its values in parentheses: ([1],
 * [2]), 0. Numbers may be nan, inf, -inf, true, false, 1+2i.  Tensors without literals:
 *
 *     shape(2,0)       an empty one; among the outputs: any values of this shape
 *     iota(2,3)        0, 1, 2 ...
 *     fill(0.5, 2,3)   all the same
 *
 * Among the outputs ? matches any one element, and a number is right if it agrees to the last digit written, with a
 * tolerance for rounding in the type; dead is an output of the branch that is not taken. !CODE text is an error of
 * that code whose message contains the text.
 *
 * Earlier steps, each followed by a semicolon, run other ops first: name = Op attrs: inputs. A name refers to
 * output 0 of its step, name:1 to output 1. All steps share the device, so resources work. */
#ifndef MR_OPS_EXAMPLE_H
#define MR_OPS_EXAMPLE_H

#include "base/arena.h"
#include "graph/op.h"

typedef struct mr_literal { /* one element */
    bool any;        /* ? */
    bool is_int;     /* no point, no exponent; then `bits` is exact */
    bool is_bool;    /* true, false */
    bool is_complex, is_str;
    bool negative;   /* of an int */
    uint64_t bits;   /* magnitude of an int */
    double re, im;
    int last_digit;  /* power of ten of the last digit written */
    mr_sv str;
} mr_literal;

typedef enum mr_example_kind { MR_EX_TENSOR, MR_EX_NAME, MR_EX_LIST, MR_EX_DEAD } mr_example_kind;

typedef struct mr_example_value {
    mr_example_kind kind;
    /* tensor */
    mr_dtype type; /* the type name before the value; MR_INVALID: none */
    mr_shape *shape;
    bool any;      /* shape(..): the elements are not given */
    int64_t n;
    mr_literal *elements;
    /* name */
    mr_sv name;
    int output;
    /* list */
    int n_items;
    struct mr_example_value **items;
} mr_example_value;

typedef struct mr_example_attr {
    mr_sv name;
    mr_sv text; /* as written; read by mr_example_attr_value, once the op is known */
} mr_example_attr;

typedef struct mr_example_step {
    mr_sv name; /* n == 0: the step has no name */
    mr_sv op;   /* n == 0: the op of the example (in the last step) */
    int n_attrs;
    mr_example_attr *attrs;
    int n_in;
    mr_example_value **in;
} mr_example_step;

typedef struct mr_example {
    int n_steps; /* the last one is checked */
    mr_example_step *steps;
    bool nograd, unknown;
    bool fails;
    mr_code code;
    mr_sv text; /* part of the error's message */
    int n_out;
    mr_example_value **out;
} mr_example;

/* INVALID_ARGUMENT with the position of a mistake. The result lives in the arena and points into text. */
mr_status *mr_example_parse(mr_arena *a, const char *text, mr_example **out);

/* The value as a tensor of a type; *out is NULL when a literal cannot be of this type. */
mr_status *mr_example_tensor(const mr_example_value *v, mr_dtype type, mr_tensor **out);
/* Checks that a tensor has the expected values (of kind MR_EX_TENSOR); otherwise INVALID_ARGUMENT with the
 * difference. */
mr_status *mr_example_compare(const mr_example_value *expected, const mr_tensor *got);
/* False when a literal cannot have this type. */
bool mr_example_fits(const mr_example_value *v, mr_dtype type);
/* The value of an attr; `key` is the type that $T means. The caller owns a tensor in it (*held). */
mr_status *mr_example_attr_value(mr_arena *a, const mr_example_attr *attr, const mr_attr_def *def,
                                 mr_dtype key, mr_attr *out, mr_tensor **held);
/* Parses a text that is exactly one value. */
mr_status *mr_example_parse_value(mr_arena *a, mr_sv text, mr_example_value **out);

#endif
