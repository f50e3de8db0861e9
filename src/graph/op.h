/* graph/op.h -- what an operation is: one constant in one file (mr_op), and its parsed definition.
 *
 * An op's file under ops/ defines a constant with MR_OP(Name, ...).  The build collects the names
 * into one table (ops/table.c), so adding an op touches nothing else.  Signature and attrs are text
 * in the grammar of TensorFlow's op definitions, parsed when the op is first looked up:
 *
 *     .sig   = "values: N * T, axis: Tidx -> output: T"    Ref(T), list attrs by name, fixed types
 *     .attrs = "N: int >= 2; T: type; Tidx: {int32, int64} = DT_INT32"
 *
 * Attrs are separated by ';'.  A type attr's set may use the names numbertype, realnumbertype,
 * quantizedtype.  Shape defaults are `{ unknown_rank: true }` or `?`, `{}` or `[]`. */
#ifndef MR_GRAPH_OP_H
#define MR_GRAPH_OP_H

#include "graph/attr.h"

typedef struct mr_node mr_node;
typedef struct mr_graph mr_graph;
typedef struct mr_function mr_function;
typedef struct mr_op_def mr_op_def;
typedef struct mr_infer mr_infer; /* graph/infer.h */
typedef struct mr_grad mr_grad;   /* graph/grad.h */
typedef struct mr_run mr_run;     /* run/run.h */
typedef struct mr_make mr_make;   /* run/run.h: the arguments of a kernel's constructor */

/* What a kernel computes that treats each element alike. Nodes with such kernels can be fused (run/fused.h); the shapes
 * that they accept and the shape of their result follow from the form. */
typedef enum mr_each_form {
    MR_FORM_NONE = 0,
    /* These have an mr_each (ops/elementwise.h) as `user`: */
    MR_FORM_BROADCAST, /* all inputs broadcast */
    MR_FORM_SAME,      /* two inputs of one shape */
    MR_FORM_FLAT,      /* two inputs of one size; the result has the shape of the first */
    MR_FORM_SCALARS,   /* inputs after the first are scalars or have its shape */
    MR_FORM_BIAS,      /* input 1 has one element per channel of input 0; attr data_format */
    MR_FORM_SUM,       /* adds inputs of one shape from left to right */
    /* These move or convert elements: */
    MR_FORM_SELECT,    /* input 0 chooses between elements, or rows, of inputs 1 and 2, which have one shape */
    MR_FORM_SELECT_V2, /* the same, all three broadcast */
    MR_FORM_CAST,      /* from the type of the input to that of the output */
    MR_FORM_PASS,      /* the result is the input */
} mr_each_form;

/* A kernel: how an op runs on a device for a type. */
typedef struct mr_kernel {
    const char *device;           /* "CPU"; NULL ends a list */
    int type;                     /* value of the op's key attr (mr_op.key) it is for; 0: any */
    mr_status *(*run)(mr_run *r); /* computes the outputs and returns */
    void (*run_async)(mr_run *r); /* instead of run: returns at once and ends later with mr_run_done */
    int priority;
    void *user;                   /* for kernels registered through the C API */
    /* On a device with its own memory: which arguments of the signature (bit 0: the first) are in host memory. */
    uint32_t host_in, host_out;
    /* Further type attrs that must have these values (a list: any of them); name NULL ends the list. */
    const mr_named_attr *constraints;
    const char *label; /* only for nodes whose attr _kernel says so; NULL: only where it is "" or absent */
    /* Separate state instead of the op's (see mr_op below), if it has an init. */
    size_t state_bytes;
    mr_status *(*init)(mr_make *m, void *state);
    void (*deinit)(void *state);
    bool blocks; /* like MR_BLOCKS, for this kernel */
    mr_each_form form;
    bool update; /* does nothing but change the variables that its inputs name: may be a member of a _FusedUpdate */
} mr_kernel;

enum mr_op_flags {
    MR_STATEFUL = 1,      /* never folded, merged or dropped; one kernel per session and node */
    MR_COMMUTATIVE = 2,
    MR_AGGREGATE = 4,
    MR_UNINIT_OK = 8,     /* takes uninitialised references */
    MR_DISTCOMM = 16,
    MR_NO_GRADIENT = 32,  /* known to have none: gradients stop here */
    MR_CHEAP = 64,        /* runs in well under a microsecond whatever its inputs: always inline */
    MR_NO_FOLD = 128,     /* not folded although stateless (control flow, Send, Recv) */
    MR_HOST_ONLY = 256,   /* touches no data of a device: the same kernel serves all devices */
    MR_BLOCKS = 512,      /* may block (on a file, on Python, on a client's lock): not run by compute threads */
};

typedef struct mr_op {
    const char *name, *doc;
    const char *sig, *attrs;
    unsigned flags;
    int deprecated; /* GraphDef producer version from which it is rejected; 0: never */
    const char *deprecation; /* what to use instead, for the error message; NULL: nothing */
    const char *key; /* type attr that chooses the kernel; NULL: the first type attr, if any */
    mr_status *(*shape)(mr_infer *c);
    void (*grad)(mr_grad *g);
    const mr_kernel *kernels; /* ended by a row without a device */
    /* State of one kernel: zeroed memory, filled from the node's attrs by init, shared by concurrent runs (so mutable
     * parts need a lock). */
    size_t state_bytes;
    mr_status *(*init)(mr_make *m, void *state);
    void (*deinit)(void *state);
    const char *const *examples; /* ended by NULL; grammar: ops/example.h */
} mr_op;

#define MR_OP(Name, ...) \
    extern const mr_op mr_op_##Name; \
    const mr_op mr_op_##Name = {.name = #Name, __VA_ARGS__}
#define MR_KERNELS(...) ((const mr_kernel[]){__VA_ARGS__{0}})
#define MR_CPU_ROW(E, name, number, S, C, fn) {"CPU", MR_##E, fn##_##name},
#define MR_CPU(fn, TYPES) TYPES(MR_CPU_ROW, fn)          /* fn_half, fn_float, ... */
#define MR_CPU_ONE_ROW(E, name, number, S, C, fn) {"CPU", MR_##E, fn},
#define MR_CPU_ONE(fn, TYPES) TYPES(MR_CPU_ONE_ROW, fn)  /* one function serves these types */
#define MR_CPU_ANY(fn) {"CPU", 0, fn},                   /* one function serves all types */
#define MR_CPU_ASYNC(fn) {"CPU", 0, NULL, fn},
#define MR_CPU_BLOCKING(fn) {"CPU", 0, NULL, fn, .blocks = true},
#define MR_EXAMPLES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the parsed definition, equivalent to OpDef ---- */
typedef struct mr_arg_def {
    const char *name;
    int type;                   /* fixed type, or 0 */
    const char *type_attr;      /* else: attr giving the type, */
    const char *number_attr;    /* with this: a list of that many */
    const char *type_list_attr; /* or a list of these types */
    bool is_ref;
    mr_sv extra; /* serialized ArgDef fields we do not interpret, kept for export */
} mr_arg_def;

typedef struct mr_attr_def {
    const char *name;
    mr_attr_kind kind;
    bool is_list, has_default, has_min;
    mr_attr deflt;
    int64_t min;        /* of an int, or of a list's length */
    int n_allowed;      /* 0: anything */
    const int *types;   /* allowed types, for type attrs */
    const mr_sv *names; /* allowed values, for string attrs */
    mr_sv extra;        /* as above */
} mr_attr_def;

struct mr_op_def {
    const char *name;
    const mr_op *op;             /* its implementation; NULL for a graph function */
    const mr_function *function; /* the function it calls, or NULL */
    int n_in, n_out, n_attrs;
    const mr_arg_def *in, *out;
    const mr_attr_def *attrs;
    const int *in_order, *out_order, *attr_order; /* indexes of the above, sorted by name */
    unsigned flags;
    int deprecated;
    const char *summary, *deprecation_text;
    const mr_attr_def *key; /* resolved mr_op.key */
    mr_sv extra;            /* description, control_output and what else we do not interpret */
};

const mr_attr_def *mr_op_def_attr(const mr_op_def *d, const char *name);
int mr_op_def_input(const mr_op_def *d, const char *name);  /* index among d->in, or -1 */
int mr_op_def_output(const mr_op_def *d, const char *name);

/* INVALID_ARGUMENT if a value does not have the attr's type, is too small or is not allowed. */
mr_status *mr_attr_def_check(const mr_attr_def *def, const mr_attr *v);

/* Parses .sig and .attrs of an op (or the pieces given to the C API's builder) into an arena. */
mr_status *mr_op_def_parse(mr_arena *a, const mr_op *op, mr_op_def *out);
/* Sorts names and checks that they are unique and that the attrs of arguments exist; must be called last by code that
 * creates an op_def. */
mr_status *mr_op_def_finish(mr_arena *a, mr_op_def *d);
/* `Op<name=Add; signature=x:T, y:T -> z:T; attr=T:type,allowed=[DT_FLOAT]>`, for error messages. */
void mr_op_def_print(mr_str *out, const mr_op_def *d);
/* OpDef both ways. */
void mr_op_def_encode(const mr_op_def *d, mr_str *out);
mr_status *mr_op_def_decode(mr_arena *a, mr_sv bytes, mr_op_def *out);

/* ---- registry: all ops by name; safe from any thread ---- */
/* The built-in table, handed over once at start by ops/table.c (sorted by name). */
void mr_registry_set_builtin(const mr_op *const *ops, int n);
/* Registers a user's op; its strings must live as long as the process. ALREADY_EXISTS, INVALID_ARGUMENT. */
mr_status *mr_op_register(const mr_op *op);
/* Registers a kernel for an op, which may be registered later. */
mr_status *mr_kernel_register(const char *op_name, const mr_kernel *k);
const mr_op_def *mr_op_find(mr_sv name); /* NULL when unknown */
/* NOT_FOUND "Op type not registered 'X' in binary running on HOST. .." */
mr_status *mr_op_unknown(mr_sv name);
/* Parses all ops; returns an error for the first definition that is malformed. */
mr_status *mr_op_check_all(void);
/* All ops, sorted by name; the caller frees the array with mr_free. */
const mr_op_def **mr_op_all(int *n);

/* All kernels of an op, built in and registered: calls fn for each. */
void mr_kernel_each(const mr_op_def *d, void (*fn)(void *ctx, const mr_kernel *k), void *ctx);
/* The kernel of a node on a device type; NULL when there is none. */
const mr_kernel *mr_kernel_find(const mr_node *n, const char *device_type);

#endif
