/* graph/flow_builder_fixture.c -- writes conditionals and loops as TensorFlow's Python does. */
#include "graph/flow_builder_fixture.h"

#include "tests/harness/test.h"

enum { MAX_VARS = 16 };

struct mr_fb_context {
    mr_fb_context *outer;
    bool is_loop;
    int n;
    mr_node *pivot;   /* control input of constants created here */
    mr_imap captured; /* outer value -> its name here */
    /* a conditional */
    mr_out pred;
    int side;
    mr_out kept[MAX_VARS]; /* results of the first side */
    /* a loop */
    const char *frame;
    int64_t parallel;
    mr_out cond;
    mr_node *merges[MAX_VARS];
    mr_out splits[MAX_VARS];
};

void mr_fb_init(mr_fb *b, mr_graph *g)
{
    *b = (mr_fb){0};
    mr_scope_init(&b->s, g, NULL);
    mr_arena_init(&b->arena, 0);
}

void mr_fb_deinit(mr_fb *b)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    for (int i = 0; i < b->contexts.n; i++)
        mr_imap_deinit(&b->contexts.p[i]->captured);
    mr_vec_deinit(&b->contexts);
    mr_imap_deinit(&b->owner);
    mr_scope_deinit(&b->s);
    mr_arena_deinit(&b->arena);
}

static uint64_t key(mr_out o) { return (uint64_t)o.node->id << 8 | (uint64_t)o.index; }

static void own(mr_fb *b, mr_fb_context *c, mr_out o)
{
    if (!o.node)
        mr_test_fail(__FILE__, __LINE__, "%s", b->s.st ? mr_status_message(b->s.st) : "no node");
    if (c)
        mr_imap_put(&b->owner, (uint64_t)o.node->id, c);
}

void mr_fb_adopt(mr_fb *b, mr_out o) { own(b, b->top, o); }

static mr_out emit_in(mr_fb *b, mr_fb_context *c, const char *op, const mr_named_attr *attrs,
                      int n_attrs, const mr_out *in, int n_in)
{
    mr_out o = mr_emit_n(&b->s, op, attrs, n_attrs, in, n_in);
    own(b, c, o);
    if (b->lazy && c && !c->is_loop && c->pivot && !mr_node_is_exit(o.node))
        mr_node_add_control(o.node, c->pivot);
    return o;
}

static mr_out enter(mr_fb *b, mr_fb_context *c, mr_out v, bool constant)
{
    mr_named_attr attrs[] = {{"frame_name", mr_a_str(c->frame)},
                             {"is_constant", mr_a_bool(constant)},
                             {"parallel_iterations", mr_a_int(c->parallel)}};
    bool ref = mr_dtype_is_ref(mr_out_type(v));
    mr_out o = emit_in(b, c, ref ? "RefEnter" : "Enter", attrs, 3, &v, 1);
    if (b->lazy && c->outer && !c->outer->is_loop)
        mr_node_add_control(o.node, c->outer->pivot);
    return o;
}

static mr_out bring(mr_fb *b, mr_fb_context *to, mr_out v)
{
    mr_fb_context *from = mr_imap_get(&b->owner, (uint64_t)v.node->id);
    if (from == to || !to)
        return v;
    v = bring(b, to->outer, v);
    if (b->lazy && !to->is_loop && v.node->id % 2)
        return v;
    mr_out *hit = mr_imap_get(&to->captured, key(v));
    if (hit)
        return *hit;
    hit = mr_arena_new(&b->arena, mr_out);
    const char *split = mr_dtype_is_ref(mr_out_type(v)) ? "RefSwitch" : "Switch";
    if (to->is_loop)
        *hit = enter(b, to, v, true);
    else
        *hit = mr_nth(emit_in(b, to, split, NULL, 0, (mr_out[]){v, to->pred}, 2), to->side);
    mr_imap_put(&to->captured, key(v), hit);
    return *hit;
}

mr_out mr_fb_emit(mr_fb *b, const char *op, const mr_named_attr *attrs, int n_attrs,
                  const mr_out *in, int n_in)
{
    mr_out here[MAX_VARS] = {{0}};
    bool free = b->top && b->top->is_loop;
    for (int i = 0; i < n_in; i++) {
        here[i] = bring(b, b->top, in[i]);
        free = free && mr_node_is(here[i].node, "Enter");
    }
    mr_out o = emit_in(b, b->top, op, attrs, n_attrs, here, n_in);
    if (free) /* nodes that depend only on invariants would run ahead, iteration after iteration */
        mr_node_add_control(o.node, b->top->pivot);
    return o;
}

mr_out mr_fb_const(mr_fb *b, mr_tensor *t)
{
    mr_out o = mr_const(&b->s, t);
    own(b, b->top, o);
    if (b->top)
        mr_node_add_control(o.node, b->top->pivot);
    return o;
}

mr_out mr_fb_num(mr_fb *b, mr_dtype t, double v)
{
    mr_out o = mr_const_num(&b->s, t, v);
    own(b, b->top, o);
    if (b->top)
        mr_node_add_control(o.node, b->top->pivot);
    return o;
}

static mr_fb_context *push(mr_fb *b)
{
    mr_fb_context *c = mr_arena_new(&b->arena, mr_fb_context);
    c->outer = b->top;
    mr_vec_push(&b->contexts, c);
    b->top = c;
    return c;
}

/* ---- conditionals ---- */
static void start_side(mr_fb *b, mr_fb_context *c, int side)
{
    c->pivot = NULL;
    mr_out split = emit_in(b, c, "Switch", NULL, 0, (mr_out[]){c->pred, c->pred}, 2);
    mr_out pivot = emit_in(b, c, "Identity", NULL, 0, (mr_out[]){mr_nth(split, side)}, 1);
    c->side = side;
    c->pivot = pivot.node;
    mr_imap_deinit(&c->captured);
}

void mr_fb_cond(mr_fb *b, mr_out pred)
{
    mr_out here = bring(b, b->top, pred), id = emit_in(b, b->top, "Identity", NULL, 0, &here, 1);
    mr_fb_context *c = push(b);
    c->pred = id;
    start_side(b, c, 1);
}

/* The results must be of this side, also when they are values from outside. */
static void take_results(mr_fb *b, const mr_out *in, int n, mr_out *out)
{
    for (int i = 0; i < n; i++)
        out[i] = mr_fb1(b, "Identity", in[i]);
}

void mr_fb_cond_else(mr_fb *b, const mr_out *then_results, int n)
{
    mr_fb_context *c = b->top;
    c->n = n;
    take_results(b, then_results, n, c->kept);
    /* A new context: values of the first side are not for the second. */
    b->top = c->outer;
    mr_fb_context *other = push(b);
    other->pred = c->pred;
    other->n = n;
    memcpy(other->kept, c->kept, sizeof(c->kept));
    start_side(b, other, 0);
}

void mr_fb_cond_end(mr_fb *b, const mr_out *else_results, mr_out *out)
{
    mr_fb_context *c = b->top;
    mr_out results[MAX_VARS];
    take_results(b, else_results, c->n, results);
    b->top = c->outer;
    for (int i = 0; i < c->n; i++)
        out[i] = emit_in(b, b->top, "Merge", NULL, 0, (mr_out[]){results[i], c->kept[i]}, 2);
}

/* ---- loops ---- */
static mr_node *loop_merge(mr_fb *b, mr_fb_context *c, mr_out v)
{
    mr_node *n = NULL;
    mr_node_builder *nb =
        mr_node_begin(b->s.graph, "Merge", mr_graph_unique_name(b->s.graph, "Merge"));
    mr_nb_input_list(nb, &v, 1);
    mr_nb_input_later(nb, mr_out_type(v));
    MR_CHECK_OK(mr_node_finish(nb, &n));
    own(b, c, (mr_out){n, 0});
    /* The shape of a variable known at the start must hold to the end. */
    MR_CHECK_OK(mr_out_refine_shape((mr_out){n, 0}, mr_out_shape(v.node->in[0])));
    return n;
}

void mr_fb_while(mr_fb *b, const mr_out *init, int n, int parallel_iterations, mr_out *vars)
{
    mr_out here[MAX_VARS];
    for (int i = 0; i < n; i++)
        here[i] = bring(b, b->top, init[i]);
    mr_fb_context *c = push(b);
    c->is_loop = true;
    c->n = n;
    c->parallel = parallel_iterations;
    c->frame = mr_arena_printf(&b->arena, "while_%d", b->n_names++);
    for (int i = 0; i < n; i++) {
        c->merges[i] = loop_merge(b, c, enter(b, c, here[i], false));
        vars[i] = (mr_out){c->merges[i], 0};
    }
    c->pivot = c->merges[0];
}

void mr_fb_while_body(mr_fb *b, mr_out pred, mr_out *vars)
{
    mr_fb_context *c = b->top;
    mr_out here = bring(b, c, pred);
    c->cond = emit_in(b, c, "LoopCond", NULL, 0, &here, 1);
    for (int i = 0; i < c->n; i++) {
        c->splits[i] = emit_in(b, c, "Switch", NULL, 0, (mr_out[]){{c->merges[i], 0}, c->cond}, 2);
        vars[i] = emit_in(b, c, "Identity", NULL, 0, (mr_out[]){mr_nth(c->splits[i], 1)}, 1);
    }
    c->pivot = vars[0].node;
}

void mr_fb_while_end(mr_fb *b, const mr_out *next, mr_out *out)
{
    mr_fb_context *c = b->top;
    for (int i = 0; i < c->n; i++) {
        mr_out n = mr_fb1(b, "NextIteration", next[i]);
        MR_CHECK_OK(mr_node_set_input(c->merges[i], 1, n));
    }
    b->top = c->outer;
    for (int i = 0; i < c->n; i++)
        out[i] = emit_in(b, b->top, "Exit", NULL, 0, (mr_out[]){mr_nth(c->splits[i], 0)}, 1);
}

void mr_fb_for(mr_fb *b, mr_out n, int parallel_iterations, mr_out *vars, int n_vars)
{
    mr_out all[8] = {mr_fb_num(b, MR_INT32, 0)};
    memcpy(all + 1, vars, (size_t)n_vars * sizeof(mr_out));
    mr_fb_while(b, all, n_vars + 1, parallel_iterations, all);
    mr_fb_while_body(b, mr_fb2(b, "Less", all[0], n), all);
    memcpy(vars - 1, all, (size_t)(n_vars + 1) * sizeof(mr_out));
}

void mr_fb_end_for(mr_fb *b, mr_out *vars, int n_vars)
{
    mr_out all[8] = {mr_fb2(b, "Add", vars[-1], mr_fb_num(b, MR_INT32, 1))};
    memcpy(all + 1, vars, (size_t)n_vars * sizeof(mr_out));
    mr_fb_while_end(b, all, all);
    memcpy(vars, all + 1, (size_t)n_vars * sizeof(mr_out));
}
