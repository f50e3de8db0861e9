/* graph/sample_ops_fixture.c */
#include "graph/sample_ops_fixture.h"

#include "base/memory.h"

static mr_status *shape_same(mr_infer *c);

static const mr_op sample_ops[] = {
    {.name = "TestSource", .sig = "-> o: T", .attrs = "T: type = DT_FLOAT"},
    {.name = "TestAdd",
     .sig = "x: T, y: T -> z: T",
     .attrs = "T: numbertype",
     .flags = MR_COMMUTATIVE},
    {.name = "TestConcat",
     .sig = "values: N * T, axis: int32 -> o: T",
     .attrs = "N: int >= 2; T: type"},
    {.name = "TestMany",
     .sig = "in: Tin -> out: Tout",
     .attrs = "Tin: list(type) >= 0; Tout: list(type)"},
    {.name = "TestSplit", .sig = "x: T -> a: n * T, b: int32", .attrs = "n: int; T: type"},
    {.name = "TestVar", .sig = "-> ref: Ref(T)", .attrs = "T: type", .flags = MR_STATEFUL},
    {.name = "TestAssign", .sig = "ref: Ref(T), value: T -> o: Ref(T)", .attrs = "T: type"},
    {.name = "TestMode",
     .sig = "x: T -> y: T",
     .attrs =
         "T: {float, int32}; mode: {'A', \"B\"} = 'A'; k: int >= 1 = 2; names: list(string) = []"},
    {.name = "TestCall",
     .sig = "->",
     .attrs = "f: func; fs: list(func) = []; value: tensor = float[]{1}"},
    {.name = "TestOld", .sig = "->", .deprecated = 10},
    {.name = "_TestInternal", .sig = "->"},
    {.name = "TestBad", .sig = "x: float ->", .shape = shape_same},
};

/* Loops and the ends of functions, as ops/control has them. */
static const mr_op flow_ops[] = {
    {.name = "Merge",
     .sig = "inputs: N * T -> output: T, value_index: int32",
     .attrs = "T: type; N: int >= 1"},
    {.name = "NextIteration", .sig = "data: T -> output: T", .attrs = "T: type"},
    {.name = "_Arg",
     .sig = "-> output: T",
     .attrs = "T: type; index: int >= 0",
     .flags = MR_STATEFUL},
    {.name = "_Retval",
     .sig = "input: T ->",
     .attrs = "T: type; index: int >= 0",
     .flags = MR_STATEFUL},
};

/* Fails, as a shape function may. */
static mr_status *shape_same(mr_infer *c)
{
    (void)c;
    return mr_invalid("TestBad has no shape");
}

void mr_sample_ops(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    for (int i = 0; i < MR_COUNT(sample_ops); i++)
        MR_CHECK_OK(mr_op_register(&sample_ops[i]));
    for (int i = 0; i < MR_COUNT(flow_ops); i++)
        MR_CHECK_OK(mr_op_register(&flow_ops[i]));
}

mr_node *mr_sample_source(mr_graph *g, const char *name, mr_dtype type)
{
    mr_node *n;
    mr_node_builder *b = mr_node_begin(g, "TestSource", name);
    mr_nb_attr(b, "T", mr_a_type(type));
    MR_CHECK_OK(mr_node_finish(b, &n));
    return n;
}

mr_node *mr_sample_add(mr_graph *g, const char *name, mr_node *x, mr_node *y)
{
    mr_node *n;
    mr_node_builder *b = mr_node_begin(g, "TestAdd", name);
    mr_nb_input(b, mr_o(x, 0));
    mr_nb_input(b, mr_o(y, 0));
    MR_CHECK_OK(mr_node_finish(b, &n));
    return n;
}

static void print_node(const mr_node *n, mr_str *out)
{
    const char *sep = "";
    mr_str_printf(out, "%s = %s(", n->name, n->def->name);
    for (int i = 0; i < n->n_in; i++, sep = ", ") {
        mr_str_printf(out, "%s%s", sep, n->in[i].node ? n->in[i].node->name : "?");
        if (n->in[i].index > 0)
            mr_str_printf(out, ":%d", n->in[i].index);
    }
    for (int i = 0; i < n->n_ctrl; i++, sep = ", ")
        mr_str_printf(out, "%s^%s", sep, n->ctrl[i]->name);
    mr_str_appendz(out, ")");
    sep = " {";
    for (int i = 0; i < n->n_attrs; i++) {
        const mr_attr_def *d = mr_op_def_attr(n->def, n->attrs[i].name);
        if (d && d->has_default && mr_attr_eq(&d->deflt, &n->attrs[i].v))
            continue;
        mr_str_printf(out, "%s%s=", sep, n->attrs[i].name);
        mr_attr_print(out, &n->attrs[i].v);
        sep = ", ";
    }
    mr_str_appendz(out, sep[0] == ',' ? "}\n" : "\n");
}

char *mr_sample_print(const mr_graph *g)
{
    mr_str out = {0};
    mr_str_appendz(&out, "");
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i])
            print_node(g->nodes.p[i], &out);
    return out.p ? mr_str_take(&out) : mr_strdup("");
}
