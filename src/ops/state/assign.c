/* ops/state/assign.c -- assigns to variables through references, or adds to them.
 *
 * Assign moves a value that has no other references into the variable; another one is copied, into the variable's memory
 * if it has the same shape.  Others that hold the old value keep it (run/variable.h). */
#include "graph/infer.h"
#include "ops/state/update.h"
#include "run/accel.h"

static mr_status *assign_shape(mr_infer *c)
{
    bool validate = false;
    mr_status_free(mr_node_get_bool(c->node, "validate_shape", &validate));
    c->out[0] = c->in[1];
    return validate ? mr_infer_merge(c, c->in[0], c->in[1], &c->out[0]) : NULL;
}

static mr_status *check_shape_locked(const mr_variable *v, const mr_tensor *value)
{
    mr_str lhs = {0};
    bool same;
    if (v->t) {
        same = mr_tensor_same_shape(v->t, value);
        mr_shape_print(&lhs, v->t->rank, v->t->dims);
    } else {
        const mr_pshape *s = v->shape ? v->shape : &mr_pshape_unknown;
        same = s->rank < 0 || (mr_pshape_full(s) ? mr_shape_eq(s->rank, s->dims, value->rank, value->dims)
                                                 : s->rank == value->rank);
        mr_pshape_print(&lhs, s);
    }
    mr_status *st = same ? NULL
                         : mr_invalid("Assign requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
                                      mr_str_z(&lhs), MR_TENSOR_SHAPE(value));
    mr_str_deinit(&lhs);
    return st;
}

static mr_status *assign_locked(mr_run *r, mr_variable *v, mr_tensor *value) MR_REQUIRES(v->mu)
{
    mr_tensor *t;
    if (mr_tensor_sole(value))
        t = mr_tensor_ref(value);
    else if (v->t && mr_tensor_sole(v->t) && mr_tensor_same_shape(v->t, value))
        return mr_tensor_try_copy_elements(v->t, 0, value, 0, value->n);
    else
        MR_TRY(mr_tensor_copy(mr_run_allocator(r), value, &t));
    mr_tensor_unref(v->t);
    v->t = t;
    return NULL;
}

static mr_status *assign_variable(mr_run *r)
{
    mr_variable *v = mr_in_ref(r, 0);
    bool validate;
    MR_TRY(mr_node_get_bool(r->node, "validate_shape", &validate));
    mr_lock(&v->mu);
    mr_status *st = validate ? check_shape_locked(v, mr_in(r, 1)) : NULL;
    if (!st)
        st = assign_locked(r, v, mr_in(r, 1));
    mr_unlock(&v->mu);
    if (!st)
        mr_run_set_ref(r, 0, mr_variable_ref(v));
    return st;
}

MR_OP(Assign,
    .doc      = "assigns a value to a variable",
    .sig      = "ref: Ref(T), value: T -> output_ref: Ref(T)",
    .attrs    = "T: type; validate_shape: bool = true; use_locking: bool = true",
    .flags    = MR_UNINIT_OK | MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = assign_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(assign_variable) MR_GPU(assign_variable, FLOAT)),
    .examples = MR_EXAMPLES(
        "[1, 2], [3, 4] -> [3, 4]",
        "validate_shape=false: [1, 2], [[3]] -> [[3]]",
        "T=string: [\"a\"], [\"b\"] -> [\"b\"]",
        "[1, 2], [3] -> !INVALID_ARGUMENT"));

static mr_status *update_variable(mr_run *r, mr_update_kind kind)
{
    mr_variable *v = mr_in_ref(r, 0);
    const mr_tensor *value = mr_in(r, 1);
    mr_update_loop *loop = mr_update_find(kind, v->dtype);
    mr_tensor *t = NULL;
    mr_status *st = NULL;
    if (!loop)
        return mr_error(MR_UNIMPLEMENTED, "%s is not implemented for type %s", r->node->def->name,
                        mr_dtype_name(v->dtype));
    mr_lock(&v->mu);
    MR_GO(mr_variable_writable(v, mr_run_allocator(r), &t));
    if (!t)
        MR_GO(mr_error(MR_FAILED_PRECONDITION, "Attempting to use uninitialized value %s", v->name));
    if (!mr_tensor_same_shape(t, value))
        MR_GO(mr_invalid("shapes of variable and value must be equal: %s and %s", MR_TENSOR_SHAPE(t), MR_TENSOR_SHAPE(value)));
    MR_GO(mr_update_run(r, kind, loop, t, value));
out:
    mr_unlock(&v->mu);
    if (!st)
        mr_run_set_ref(r, 0, mr_variable_ref(v));
    return st;
}

static mr_status *assign_add(mr_run *r) { return update_variable(r, MR_UPDATE_ADD); }
static mr_status *assign_sub(mr_run *r) { return update_variable(r, MR_UPDATE_SUB); }

#define UPDATE_OP                                                                             \
    .sig = "ref: Ref(T), value: T -> output_ref: Ref(T)",                                     \
    .attrs = "T: numbertype; use_locking: bool = false", .flags = MR_NO_FOLD | MR_NO_GRADIENT, \
    .shape = mr_shape_merge_all

MR_OP(AssignAdd,
    .doc      = "adds to a variable; the result is the variable",
    UPDATE_OP,
    .kernels  = MR_KERNELS(MR_CPU_ONE(assign_add, MR_NUMBERS) MR_CPU_ONE(assign_add, MR_CODES) MR_GPU(assign_add, FLOAT)),
    .examples = MR_EXAMPLES("[1, 2], [3, 4] -> [4, 6]", "T=quint8: [200], [50] -> [250]", "[1, 2], [3] -> !INVALID_ARGUMENT"));

MR_OP(AssignSub,
    .doc      = "subtracts from a variable; the result is the variable",
    UPDATE_OP,
    .kernels  = MR_KERNELS(MR_CPU_ONE(assign_sub, MR_NUMBERS) MR_CPU_ONE(assign_sub, MR_CODES) MR_GPU(assign_sub, FLOAT)),
    .examples = MR_EXAMPLES("[5, 7], [3, 4] -> [2, 3]"));
