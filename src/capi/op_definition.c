/* capi/op_definition.c -- ops defined by clients in C.
 *
 * The builder collects the specs of inputs, outputs and attrs that a client gives into an op of
 * ours, which is then registered. A registered op is never removed. */
#include "capi/op_definition.h"

#include "graph/infer.h"

struct TF_OpDefinitionBuilder {
    char *name, *deprecation;
    mr_str in, out, attrs; /* "x: T, y: T", "T: type; N: int" */
    unsigned flags;
    int deprecated;
    mr_capi_shape_fn *shape;
    mr_status *st; /* the first error */
};

typedef struct client_op {
    mr_op op; /* first: the registry knows only this */
    mr_capi_shape_fn *shape;
} client_op;

TF_OpDefinitionBuilder *TF_NewOpDefinitionBuilder(const char *op_name)
{
    TF_OpDefinitionBuilder *b = mr_new(TF_OpDefinitionBuilder);
    b->name = mr_strdup(op_name ? op_name : "");
    return b;
}

void TF_DeleteOpDefinitionBuilder(TF_OpDefinitionBuilder *builder)
{
    if (!builder)
        return;
    mr_free(builder->name);
    mr_free(builder->deprecation);
    mr_str_deinit(&builder->in);
    mr_str_deinit(&builder->out);
    mr_str_deinit(&builder->attrs);
    mr_status_free(builder->st);
    mr_free(builder);
}

/* Whether the text is a single spec: separators occur only inside quotes or brackets. */
static bool is_one(const char *spec, const char *separators)
{
    char quote = 0;
    int depth = 0;
    for (const char *p = spec; *p; p++) {
        if (quote && *p == '\\' && p[1]) {
            p++;
        } else if (quote) {
            quote = *p == quote ? 0 : quote;
        } else if (*p == '"' || *p == '\'') {
            quote = *p;
        } else if (strchr("([{", *p)) {
            depth++;
        } else if (strchr(")]}", *p)) {
            depth--;
        } else if (depth <= 0 && strchr(separators, *p)) {
            return false;
        }
    }
    return true;
}

static void add_spec(TF_OpDefinitionBuilder *b, mr_str *to, const char *spec, const char *separators)
{
    if (!spec || !is_one(spec, separators)) {
        mr_status_update(&b->st, mr_invalid("'%s' does not describe exactly one attr or argument of op %s",
                                            spec ? spec : "", b->name));
        return;
    }
    mr_str_printf(to, "%s%s", to->n ? (to == &b->attrs ? "; " : ", ") : "", spec);
}

void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder *builder, const char *attr_spec)
{
    if (builder)
        add_spec(builder, &builder->attrs, attr_spec, ";");
}

void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder *builder, const char *input_spec)
{
    if (builder)
        add_spec(builder, &builder->in, input_spec, ",->");
}

void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder *builder, const char *output_spec)
{
    if (builder)
        add_spec(builder, &builder->out, output_spec, ",->");
}

static void set_flag(TF_OpDefinitionBuilder *b, unsigned flag, bool on)
{
    if (b)
        b->flags = on ? b->flags | flag : b->flags & ~flag;
}

void TF_OpDefinitionBuilderSetIsCommutative(TF_OpDefinitionBuilder *builder, bool is_commutative)
{
    set_flag(builder, MR_COMMUTATIVE, is_commutative);
}

void TF_OpDefinitionBuilderSetIsAggregate(TF_OpDefinitionBuilder *builder, bool is_aggregate)
{
    set_flag(builder, MR_AGGREGATE, is_aggregate);
}

void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder *builder, bool is_stateful)
{
    set_flag(builder, MR_STATEFUL, is_stateful);
}

void TF_OpDefinitionBuilderSetAllowsUninitializedInput(TF_OpDefinitionBuilder *builder,
                                                       bool allows_uninitialized_input)
{
    set_flag(builder, MR_UNINIT_OK, allows_uninitialized_input);
}

void TF_OpDefinitionBuilderDeprecated(TF_OpDefinitionBuilder *builder, int version,
                                      const char *explanation)
{
    if (!builder)
        return;
    builder->deprecated = version;
    mr_free(builder->deprecation);
    builder->deprecation = mr_strdup(explanation ? explanation : "");
}

void TF_OpDefinitionBuilderSetShapeInferenceFunction(
    TF_OpDefinitionBuilder *builder,
    void (*shape_inference_func)(TF_ShapeInferenceContext *ctx, TF_Status *status))
{
    if (builder)
        builder->shape = shape_inference_func;
}

/* ---- registering ---- */

/* A graph of a client rejects ops without a shape function, unless this is disabled; graphs that we
 * make from it do not check again. */
static mr_status *without_function(const mr_infer *c)
{
    const TF_Graph *g = c->node->graph->tag;
    if (!g || g->shapes_optional)
        return NULL;
    return mr_invalid(
        "No shape inference function exists for op '%s', did you forget to define it?",
        c->node->def->name);
}

static mr_status *infer_shapes(mr_infer *c)
{
    const client_op *op = (const client_op *)c->node->def->op;
    return op->shape ? mr_capi_infer(c, op->shape) : without_function(c);
}

static char *signature_of(const TF_OpDefinitionBuilder *b)
{
    return mr_printf("%s -> %s", mr_str_z(&b->in), mr_str_z(&b->out));
}

static void free_op(client_op *c)
{
    mr_free((char *)(uintptr_t)c->op.name);
    mr_free((char *)(uintptr_t)c->op.sig);
    mr_free((char *)(uintptr_t)c->op.attrs);
    mr_free((char *)(uintptr_t)c->op.deprecation);
    mr_free(c);
}

/* Registers the op; it lives as long as the process. Returns the first error of the builder, if there is one. */
static mr_status *register_op(TF_OpDefinitionBuilder *b)
{
    if (b->st) {
        mr_status *st = b->st;
        b->st = NULL;
        return st;
    }
    client_op *c = mr_new(client_op);
    c->shape = b->shape;
    c->op = (mr_op){
        .name = mr_strdup(b->name),
        .sig = signature_of(b),
        .attrs = mr_strdup(mr_str_z(&b->attrs)),
        .flags = b->flags,
        .deprecated = b->deprecated,
        .deprecation = b->deprecation ? mr_strdup(b->deprecation) : NULL,
        .shape = infer_shapes,
    };
    mr_capi_init();
    mr_status *st = mr_op_register(&c->op);
    if (st)
        free_op(c);
    else
        mr_capi_note_op(c->op.name);
    return st;
}

void TF_RegisterOpDefinition(TF_OpDefinitionBuilder *builder, TF_Status *status)
{
    mr_status *st = builder ? register_op(builder) : mr_invalid("builder is NULL");
    TF_DeleteOpDefinitionBuilder(builder);
    mr_capi_set_status(status, st);
}
