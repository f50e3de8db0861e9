/* ops/state/stack.c -- stacks of tensors for one step: the gradient of a loop uses them to keep the values that the
 * forward iterations computed.
 *
 * A stack is in the step's resources and is freed with the step; its handle is not valid in another step.  A push
 * shares the tensor.  Only the edges between pushes and pops order them. */
#include <stdatomic.h>

#include "graph/infer.h"
#include "ops/state/step_handle.h"
#include "run/accel.h"

typedef struct stack {
    mr_object base;
    mr_mutex mu;
    char *name;
    mr_dtype type;
    int64_t max; /* < 0: no limit */
    bool closed MR_GUARDED_BY(mu);
    MR_VEC(mr_tensor *) elems MR_GUARDED_BY(mu);
} stack;

static void drop_elements(stack *s)
{
    for (int i = 0; i < s->elems.n; i++)
        mr_tensor_unref(s->elems.p[i]);
    mr_vec_deinit(&s->elems);
}

static void stack_free(mr_object *o)
{
    stack *s = (stack *)o;
    drop_elements(s);
    mr_mutex_deinit(&s->mu);
    mr_free(s->name);
    mr_free(s);
}

static const mr_object_type stack_type = {"tensorflow::Stack", stack_free};

static stack *stack_new(mr_run *r, mr_dtype type, int64_t max)
{
    static _Atomic int64_t counter;
    const mr_attr *given = mr_node_attr(r->node, "stack_name");
    stack *s = mr_new(stack);
    mr_object_init(&s->base, &stack_type);
    mr_mutex_init(&s->mu);
    s->type = type;
    s->max = max;
    s->name = given && given->s.n ? mr_printf("%.*s_%lld", MR_SV_ARG(given->s), (long long)atomic_fetch_add(&counter, 1))
                                  : mr_printf("%s_%lld", r->node->name, (long long)atomic_fetch_add(&counter, 1));
    return s;
}

/* The older form has no max_size. */
static mr_status *new_stack(mr_run *r)
{
    int64_t max = -1;
    mr_dtype type;
    if (r->n_in > 0)
        MR_TRY(mr_in_scalar_int(r, 0, "max_size", &max));
    MR_TRY(mr_node_get_type(r->node, "elem_type", &type));
    stack *s = stack_new(r, type, max);
    mr_status *st = mr_resources_create(mr_step_resources(r->step), MR_SV(""), mr_sv_of(s->name), &s->base);
    if (!st)
        st = mr_step_handle_give(r, &stack_type, s->name);
    mr_object_unref(&s->base);
    return st;
}

MR_OP(StackV2,
    .doc     = "an empty stack for this step; max_size < 0: no limit",
    .sig     = "max_size: int32 -> handle: resource",
    .attrs   = "elem_type: type; stack_name: string = ''",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(new_stack) MR_GPU_HOST(new_stack, FLOAT, 1, 0) MR_GPU_HOST(new_stack, RESOURCE, 1, 0)),
    .examples = MR_EXAMPLES("elem_type=float: 2 -> shape()", "elem_type=float: [2] -> !INVALID_ARGUMENT scalar"));

static mr_status *closed_error(const stack *s) { return mr_invalid("Stack[%s] has already been closed.", s->name); }

static mr_status *push_locked(stack *s, mr_tensor *t) MR_REQUIRES(s->mu)
{
    if (s->closed)
        return closed_error(s);
    if (s->type != t->dtype)
        return mr_invalid("Stack[%s] holds elements of type %s, not %s", s->name, mr_dtype_name(s->type),
                          mr_dtype_name(t->dtype));
    if (s->max >= 0 && s->elems.n >= s->max)
        return mr_invalid("Stack[%s] overflowed its max_size (%lld)", s->name, (long long)s->max);
    mr_vec_push(&s->elems, mr_tensor_ref(t));
    return NULL;
}

static mr_status *push_tensor(mr_run *r)
{
    stack *s;
    MR_TRY(mr_step_handle_find(r, &stack_type, (mr_object **)&s));
    mr_lock(&s->mu);
    mr_status *st = push_locked(s, mr_in(r, 1));
    mr_unlock(&s->mu);
    mr_object_unref(&s->base);
    if (!st)
        mr_run_pass(r, 1, 0);
    return st;
}

static mr_status *push_shape(mr_infer *c)
{
    c->out[0] = c->in[1];
    return NULL;
}

MR_OP(StackPushV2,
    .doc     = "puts a tensor on a stack and passes it on",
    .sig     = "handle: resource, elem: T -> output: T",
    .attrs   = "T: type; swap_memory: bool = false",
    .flags   = MR_STATEFUL | MR_CHEAP | MR_NO_GRADIENT,
    .shape   = push_shape,
    .kernels = MR_KERNELS(MR_CPU_ANY(push_tensor) MR_GPU(push_tensor, FLOAT) MR_GPU(push_tensor, RESOURCE)));

static mr_status *pop_locked(stack *s, mr_tensor **out) MR_REQUIRES(s->mu)
{
    if (s->closed)
        return closed_error(s);
    if (s->elems.n == 0)
        return mr_invalid("Stack[%s] is empty when calling Pop().", s->name);
    *out = mr_vec_pop(&s->elems);
    return NULL;
}

static mr_status *pop_tensor(mr_run *r)
{
    stack *s;
    mr_tensor *t = NULL;
    MR_TRY(mr_step_handle_find(r, &stack_type, (mr_object **)&s));
    mr_lock(&s->mu);
    mr_status *st = pop_locked(s, &t);
    mr_unlock(&s->mu);
    mr_object_unref(&s->base);
    if (!st)
        mr_run_set(r, 0, t);
    return st;
}

MR_OP(StackPopV2,
    .doc     = "takes the newest tensor off a stack",
    .sig     = "handle: resource -> elem: elem_type",
    .attrs   = "elem_type: type",
    .flags   = MR_STATEFUL | MR_CHEAP | MR_NO_GRADIENT,
    .shape   = mr_shape_unknown,
    .kernels = MR_KERNELS(MR_CPU_ANY(pop_tensor) MR_GPU(pop_tensor, FLOAT) MR_GPU(pop_tensor, RESOURCE)));

static mr_status *close_stack(mr_run *r)
{
    stack *s;
    MR_TRY(mr_step_handle_find(r, &stack_type, (mr_object **)&s));
    mr_lock(&s->mu);
    s->closed = true;
    drop_elements(s);
    mr_unlock(&s->mu);
    mr_object_unref(&s->base);
    return NULL;
}

MR_OP(StackCloseV2,
    .doc     = "empties a stack; using it later is an error",
    .sig     = "handle: resource ->",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ANY(close_stack) MR_GPU_ANY(close_stack)));

/* ---- the older forms, with a reference to strings as their handle ---- */

static mr_status *pair_shape(mr_infer *c)
{
    mr_infer_out_vector(c, 0, 2);
    return NULL;
}

MR_OP(Stack,
    .doc     = "an empty stack for this step",
    .sig     = "-> handle: Ref(string)",
    .attrs   = "elem_type: type; stack_name: string = ''",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = pair_shape,
    .kernels = MR_KERNELS(MR_CPU_ANY(new_stack)),
    .examples = MR_EXAMPLES("elem_type=float: -> shape(2)"));

MR_OP(StackPush,
    .doc     = "puts a tensor on a stack and passes it on",
    .sig     = "handle: Ref(string), elem: T -> output: T",
    .attrs   = "T: type; swap_memory: bool = false",
    .flags   = MR_CHEAP | MR_NO_FOLD | MR_NO_GRADIENT,
    .shape   = push_shape,
    .kernels = MR_KERNELS(MR_CPU_ANY(push_tensor)));

MR_OP(StackPop,
    .doc     = "takes the newest tensor off a stack",
    .sig     = "handle: Ref(string) -> elem: elem_type",
    .attrs   = "elem_type: type",
    .flags   = MR_CHEAP | MR_NO_FOLD | MR_NO_GRADIENT,
    .shape   = mr_shape_unknown,
    .kernels = MR_KERNELS(MR_CPU_ANY(pop_tensor)));

MR_OP(StackClose,
    .doc     = "empties a stack; using it later is an error",
    .sig     = "handle: Ref(string) ->",
    .flags   = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ANY(close_stack)));
