/* cli/convert_graph.c -- strips, freezes and quantizes graphs, from a serialized GraphDef to a serialized GraphDef.
 *
 * Each function decodes the graph, goes through its nodes in order and writes the result with a protobuf writer. A node
 * that stays is written unchanged; a new node is written field by field. The writer keeps the first error (o->st). */
#include <math.h>

#include "base/memory.h"
#include "cli/convert.h"
#include "graph/graph.h"
#include "proto/graph.pb-c.h"
#include "wire/message.h"
#include "wire/pb.h"

enum { GRAPH_NODE = 1, GRAPH_LIBRARY = 2, GRAPH_VERSIONS = 4 };
enum { NODE_NAME = 1, NODE_OP = 2, NODE_INPUT = 3, NODE_DEVICE = 4, NODE_ATTR = 5 };
enum { ATTR_STRING = 2, ATTR_TYPE = 6, ATTR_TENSOR = 8 };

typedef Tensorflow__GraphDef graph_def;
typedef Tensorflow__NodeDef node_def;

/* ---- lists of names ---- */

void mr_names_split(const char *list, mr_names *out)
{
    mr_sv rest = mr_sv_of(list), part;
    while (list && mr_sv_cut(&rest, ',', &part)) {
        part = mr_sv_trim(part);
        if (part.n)
            mr_vec_push(out, mr_strndup(part.p, part.n));
    }
}

void mr_names_deinit(mr_names *n)
{
    for (int i = 0; i < n->n; i++)
        mr_free(n->p[i]);
    mr_vec_deinit(n);
}

/* ---- reading ---- */

static mr_status *read_graph(mr_sv bytes, graph_def **out)
{
    return mr_message_unpack(&tensorflow__graph_def__descriptor, bytes, "GraphDef", (ProtobufCMessage **)out);
}

/* Maps the name of each node to its index + 1; NULL (0) means that there is no such node. */
static void index_nodes(const graph_def *d, mr_map *out)
{
    out->borrow_keys = true;
    for (size_t i = 0; i < d->n_node; i++)
        mr_map_putz(out, d->node[i]->name, (void *)(i + 1));
}

/* The name of the node in an input ("^a", "a:1") or in the name of an output. */
static mr_sv node_of(const char *input)
{
    mr_tensor_name t;
    return mr_tensor_name_parse(mr_sv_of(input), &t) ? t.node : mr_sv_of(input);
}

static node_def *find_node(const graph_def *d, const mr_map *at, mr_sv name)
{
    size_t i = (size_t)mr_map_get(at, name);
    return i ? d->node[i - 1] : NULL;
}

static const Tensorflow__AttrValue *attr_of(const node_def *n, const char *name)
{
    for (size_t i = n->n_attr; i-- > 0;)
        if (strcmp(n->attr[i]->key, name) == 0)
            return n->attr[i]->value;
    return NULL;
}

static int type_attr(const node_def *n, const char *name)
{
    const Tensorflow__AttrValue *v = attr_of(n, name);
    return v && v->value_case == TENSORFLOW__ATTR_VALUE__VALUE_TYPE ? (int)v->type : 0;
}

static bool op_is(const node_def *n, const char *op) { return strcmp(n->op, op) == 0; }

/* ---- writing ---- */

typedef struct writer {
    mr_pb_writer w;
    mr_status *st;
} writer;

static void keep_node(writer *o, const node_def *n)
{
    mr_str bytes = {0};
    mr_status_update(&o->st, mr_message_pack(&n->base, &bytes));
    mr_pb_put_bytes(&o->w, GRAPH_NODE, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
}

static size_t begin_node(writer *o, const char *name, const char *op, const char *device)
{
    size_t mark = mr_pb_begin(&o->w, GRAPH_NODE);
    mr_pb_put_bytes(&o->w, NODE_NAME, mr_sv_of(name));
    mr_pb_put_bytes(&o->w, NODE_OP, mr_sv_of(op));
    mr_pb_opt_bytes(&o->w, NODE_DEVICE, mr_sv_of(device));
    return mark;
}

static void put_input(writer *o, const char *input) { mr_pb_put_bytes(&o->w, NODE_INPUT, mr_sv_of(input)); }

static size_t begin_attr(writer *o, const char *name, size_t *value)
{
    size_t mark = mr_pb_begin(&o->w, NODE_ATTR);
    mr_pb_put_bytes(&o->w, 1, mr_sv_of(name));
    *value = mr_pb_begin(&o->w, 2);
    return mark;
}

static void put_type(writer *o, const char *name, int type)
{
    size_t value, mark = begin_attr(o, name, &value);
    mr_pb_put_varint(&o->w, ATTR_TYPE, (uint64_t)type);
    mr_pb_end(&o->w, value);
    mr_pb_end(&o->w, mark);
}

static void put_string(writer *o, const char *name, const char *s)
{
    size_t value, mark = begin_attr(o, name, &value);
    mr_pb_put_bytes(&o->w, ATTR_STRING, mr_sv_of(s));
    mr_pb_end(&o->w, value);
    mr_pb_end(&o->w, mark);
}

static void put_const(writer *o, const char *name, const char *device, const mr_tensor *t)
{
    mr_str bytes = {0};
    mr_status_update(&o->st, mr_tensor_encode(t, &bytes));
    size_t node = begin_node(o, name, "Const", device), value;
    put_type(o, "dtype", t->dtype);
    size_t mark = begin_attr(o, "value", &value);
    mr_pb_put_bytes(&o->w, ATTR_TENSOR, mr_str_view(&bytes));
    mr_pb_end(&o->w, value);
    mr_pb_end(&o->w, mark);
    mr_pb_end(&o->w, node);
    mr_str_deinit(&bytes);
}

/* Writes the fields that follow the nodes and returns the first error; the caller owns it. */
static mr_status *end_graph(writer *o, const graph_def *d)
{
    const struct {
        uint32_t field;
        const ProtobufCMessage *m;
    } parts[] = {{GRAPH_LIBRARY, d->library ? &d->library->base : NULL}, {GRAPH_VERSIONS, d->versions ? &d->versions->base : NULL}};
    for (int i = 0; i < MR_COUNT(parts); i++) {
        mr_str bytes = {0};
        if (!parts[i].m)
            continue;
        mr_status_update(&o->st, mr_message_pack(parts[i].m, &bytes));
        mr_pb_put_bytes(&o->w, parts[i].field, mr_str_view(&bytes));
        mr_str_deinit(&bytes);
    }
    mr_status_update(&o->st, mr_pb_writer_status(&o->w, "GraphDef"));
    return o->st;
}

/* ---- stripping ---- */

static bool only_checks(const node_def *n) { return op_is(n, "Assert") || op_is(n, "PrintV2"); }
static bool passes_on(const node_def *n)
{
    return op_is(n, "CheckNumerics") || op_is(n, "Print") || op_is(n, "CheckNumericsV2");
}

static bool is_named(const mr_names *names, const char *name)
{
    for (int i = 0; i < names->n; i++)
        if (mr_sv_eq(node_of(names->p[i]), mr_sv_of(name)))
            return true;
    return false;
}

/* Whether an input must be kept: a control input from a node that only checks or prints is dropped. */
static bool input_counts(const graph_def *d, const mr_map *at, const char *input)
{
    const node_def *from = find_node(d, at, node_of(input));
    return !(input[0] == '^' && from && only_checks(from));
}

/* Sets keep[i] for each node that the outputs depend on. The inputs of a node that becomes a placeholder are not
 * followed. */
static mr_status *mark_needed(const graph_def *d, const mr_map *at, const mr_names *inputs, const mr_names *outputs, bool *keep)
{
    MR_VEC(size_t) todo = {0};
    mr_status *st = NULL;
    for (int i = 0; i < outputs->n && !st; i++) {
        size_t k = (size_t)mr_map_get(at, node_of(outputs->p[i]));
        if (k)
            mr_vec_push(&todo, k - 1);
        else
            st = mr_error(MR_NOT_FOUND, "there is no node '%s' in the graph", outputs->p[i]);
    }
    while (todo.n && !st) {
        size_t k = mr_vec_pop(&todo);
        const node_def *n = d->node[k];
        if (keep[k])
            continue;
        keep[k] = true;
        size_t n_in = is_named(inputs, n->name) ? 0 : passes_on(n) && n->n_input ? 1 : n->n_input;
        for (size_t i = 0; i < n_in && !st; i++) {
            size_t from = (size_t)mr_map_get(at, node_of(n->input[i]));
            if (!from)
                st = mr_invalid("node '%s' has an input '%s' that is not in the graph", n->name, n->input[i]);
            else if (input_counts(d, at, n->input[i]))
                mr_vec_push(&todo, from - 1);
        }
    }
    mr_vec_deinit(&todo);
    return st;
}

static int output_type(const node_def *n)
{
    static const char *const names[] = {"dtype", "T", "DstT", "output_type", "out_type"};
    for (int i = 0; i < MR_COUNT(names); i++)
        if (type_attr(n, names[i]))
            return type_attr(n, names[i]);
    return MR_FLOAT;
}

static void put_placeholder(writer *o, const node_def *n)
{
    if (strncmp(n->op, "Placeholder", strlen("Placeholder")) == 0) {
        keep_node(o, n);
        return;
    }
    size_t mark = begin_node(o, n->name, "Placeholder", n->device);
    put_type(o, "dtype", output_type(n));
    mr_pb_end(&o->w, mark);
}

static void put_identity(writer *o, const node_def *n, const char *input, int type)
{
    size_t mark = begin_node(o, n->name, "Identity", n->device);
    put_input(o, input);
    put_type(o, "T", type);
    mr_pb_end(&o->w, mark);
}

/* Writes a node without the control inputs that are dropped. A node that passes its input on becomes an Identity. */
static void put_stripped(writer *o, const graph_def *d, const mr_map *at, node_def *n)
{
    size_t k = 0;
    if (passes_on(n) && n->n_input) {
        put_identity(o, n, n->input[0], type_attr(n, "T"));
        return;
    }
    for (size_t i = 0; i < n->n_input; i++)
        if (input_counts(d, at, n->input[i]))
            n->input[k++] = n->input[i];
    n->n_input = k;
    keep_node(o, n);
}

/* ---- removing functions that are not called ---- */

typedef Tensorflow__FunctionDef function_def;

typedef struct callees {
    mr_map at; /* name of a function: index + 1 */
    bool *keep;
    MR_VEC(size_t) todo;
} callees;

static void need_function(callees *c, const char *name)
{
    size_t i = (size_t)mr_map_getz(&c->at, name);
    if (i && !c->keep[i - 1]) {
        c->keep[i - 1] = true;
        mr_vec_push(&c->todo, i - 1);
    }
}

static void need_of_value(callees *c, const Tensorflow__AttrValue *v)
{
    if (v && v->value_case == TENSORFLOW__ATTR_VALUE__VALUE_FUNC)
        need_function(c, v->func->name);
    if (v && v->value_case == TENSORFLOW__ATTR_VALUE__VALUE_LIST)
        for (size_t i = 0; i < v->list->n_func; i++)
            need_function(c, v->list->func[i]->name);
}

static void need_of_node(callees *c, const node_def *n)
{
    need_function(c, n->op);
    for (size_t i = 0; i < n->n_attr; i++)
        need_of_value(c, n->attr[i]->value);
}

/* Removes from the library all functions that the kept nodes do not call, directly or through other functions or their
 * gradients. */
static void drop_functions(graph_def *d, const bool *keep_node)
{
    Tensorflow__FunctionDefLibrary *l = d->library;
    callees c = {.at.borrow_keys = true, .keep = mr_new_array(bool, l->n_function + 1)};
    size_t n = 0;
    for (size_t i = 0; i < l->n_function; i++)
        if (l->function[i]->signature)
            mr_map_putz(&c.at, l->function[i]->signature->name, (void *)(i + 1));
    for (size_t i = 0; i < d->n_node; i++)
        if (keep_node[i])
            need_of_node(&c, d->node[i]);
    while (c.todo.n) {
        const function_def *f = l->function[mr_vec_pop(&c.todo)];
        for (size_t i = 0; i < f->n_node_def; i++)
            need_of_node(&c, f->node_def[i]);
        for (size_t i = 0; i < l->n_gradient; i++)
            if (strcmp(l->gradient[i]->function_name, f->signature->name) == 0)
                need_function(&c, l->gradient[i]->gradient_func);
    }
    for (size_t i = 0; i < l->n_function; i++)
        if (c.keep[i])
            l->function[n++] = l->function[i];
    l->n_function = n;
    mr_vec_deinit(&c.todo);
    mr_map_deinit(&c.at);
    mr_free(c.keep);
}

mr_status *mr_strip_graph(mr_sv bytes, const mr_names *inputs, const mr_names *outputs, mr_str *out)
{
    graph_def *d;
    mr_map at = {0};
    writer o = {0};
    MR_TRY(read_graph(bytes, &d));
    bool *keep = mr_new_array(bool, d->n_node + 1);
    index_nodes(d, &at);
    mr_pb_writer_init(&o.w, out);
    o.st = mark_needed(d, &at, inputs, outputs, keep);
    if (!o.st && d->library)
        drop_functions(d, keep);
    for (size_t i = 0; i < d->n_node && !o.st; i++)
        if (keep[i] && is_named(inputs, d->node[i]->name))
            put_placeholder(&o, d->node[i]);
        else if (keep[i])
            put_stripped(&o, d, &at, d->node[i]);
    mr_status *st = o.st ? o.st : end_graph(&o, d);
    mr_map_deinit(&at);
    mr_free(keep);
    mr_message_free(&d->base);
    return st;
}

/* ---- calls that are outputs ---- */

static bool is_call(const node_def *n) { return op_is(n, "PartitionedCall") || op_is(n, "StatefulPartitionedCall"); }

/* The input after node `was` is renamed to `now`. A new string is allocated in the arena. */
static char *renamed_input(mr_arena *a, char *input, const char *was, const char *now)
{
    mr_sv node = node_of(input);
    if (!mr_sv_is(node, was))
        return input;
    char *text = mr_printf("%.*s%s%s", (int)(node.p - input), input, now, node.p + node.n);
    char *kept = mr_arena_strdup(a, text);
    mr_free(text);
    return kept;
}

static void rename_node(graph_def *d, node_def *n, const char *now)
{
    mr_arena *a = mr_message_arena(&d->base);
    char *was = n->name;
    n->name = mr_arena_strdup(a, now);
    for (size_t i = 0; i < d->n_node; i++)
        for (size_t k = 0; k < d->node[i]->n_input; k++)
            d->node[i]->input[k] = renamed_input(a, d->node[i]->input[k], was, n->name);
}

/* Writes an Identity for each result of a call; the first one gets the name that the call had. */
static void put_results(writer *o, const char *name, const node_def *call)
{
    const Tensorflow__AttrValue *types = attr_of(call, "Tout");
    size_t n = types && types->value_case == TENSORFLOW__ATTR_VALUE__VALUE_LIST ? types->list->n_type : 0;
    for (size_t i = 0; i < n; i++) {
        char *out = i ? mr_printf("%s_%zu", name, i) : mr_strdup(name), *from = mr_printf("%s:%zu", call->name, i);
        node_def result = TENSORFLOW__NODE_DEF__INIT;
        result.name = out;
        result.device = call->device;
        put_identity(o, &result, from, (int)types->list->type[i]);
        mr_free(out);
        mr_free(from);
    }
}

mr_status *mr_name_results(mr_sv bytes, const mr_names *outputs, mr_str *out)
{
    graph_def *d;
    writer o = {0};
    MR_TRY(read_graph(bytes, &d));
    mr_pb_writer_init(&o.w, out);
    size_t n = d->n_node;
    for (size_t i = 0; i < n; i++) {
        node_def *call = d->node[i];
        char *name = call->name;
        if (!is_call(call) || !is_named(outputs, name))
            continue;
        char *now = mr_printf("%s/call", name);
        rename_node(d, call, now);
        put_results(&o, name, call);
        mr_free(now);
    }
    for (size_t i = 0; i < n; i++)
        keep_node(&o, d->node[i]);
    mr_status *st = end_graph(&o, d);
    mr_message_free(&d->base);
    return st;
}

/* ---- freezing ---- */

static bool is_handle(const node_def *n) { return op_is(n, "VarHandleOp"); }
static bool is_ref_variable(const node_def *n) { return op_is(n, "VariableV2") || op_is(n, "Variable"); }

/* Whether the node only reads the variable, so that it also works with a constant. */
static bool may_read(const node_def *n, const node_def *variable)
{
    return is_handle(variable) ? op_is(n, "ReadVariableOp") || op_is(n, "ResourceGather")
                               : strncmp(n->op, "Assign", 6) != 0;
}

static mr_status *check_readers(const graph_def *d, const mr_map *at)
{
    for (size_t i = 0; i < d->n_node; i++)
        for (size_t k = 0; k < d->node[i]->n_input; k++) {
            const node_def *n = d->node[i], *from = find_node(d, at, node_of(n->input[k]));
            if (from && n->input[k][0] != '^' && (is_handle(from) || is_ref_variable(from)) && !may_read(n, from))
                return mr_invalid("cannot freeze variable '%s': %s '%s' may do more than read it", from->name, n->op,
                                  n->name);
        }
    return NULL;
}

static mr_status *put_frozen(writer *o, const node_def *n, const mr_map *values)
{
    const mr_tensor *t = mr_map_getz(values, n->name);
    if (!t)
        return mr_invalid("there is no value for variable '%s'", n->name);
    put_const(o, n->name, n->device, t);
    return NULL;
}

/* Writes a GatherV2 in place of a ResourceGather: the same inputs, and axis 0. */
static void put_gather(writer *o, const node_def *n)
{
    char *axis = mr_printf("%s/axis", n->name);
    mr_tensor *zero = mr_tensor_scalar_i32(0);
    put_const(o, axis, n->device, zero);
    size_t mark = begin_node(o, n->name, "GatherV2", n->device);
    put_input(o, n->input[0]);
    put_input(o, n->input[1]);
    put_input(o, axis);
    put_type(o, "Tparams", type_attr(n, "dtype"));
    put_type(o, "Tindices", type_attr(n, "Tindices"));
    put_type(o, "Taxis", MR_INT32);
    mr_pb_end(&o->w, mark);
    mr_tensor_unref(zero);
    mr_free(axis);
}

/* A ReadVariableOp becomes an Identity, a ResourceGather a GatherV2; all other nodes are kept. */
mr_status *mr_freeze_graph(mr_sv bytes, const mr_map *values, mr_str *out)
{
    graph_def *d;
    mr_map at = {0};
    writer o = {0};
    MR_TRY(read_graph(bytes, &d));
    index_nodes(d, &at);
    mr_pb_writer_init(&o.w, out);
    o.st = check_readers(d, &at);
    for (size_t i = 0; i < d->n_node && !o.st; i++) {
        const node_def *n = d->node[i];
        if (is_handle(n) || is_ref_variable(n))
            o.st = put_frozen(&o, n, values);
        else if (op_is(n, "ReadVariableOp") && n->n_input)
            put_identity(&o, n, n->input[0], type_attr(n, "dtype"));
        else if (op_is(n, "ResourceGather") && n->n_input >= 2)
            put_gather(&o, n);
        else
            keep_node(&o, n);
    }
    mr_status *st = o.st ? o.st : end_graph(&o, d);
    mr_map_deinit(&at);
    mr_message_free(&d->base);
    return st;
}

/* ---- 8-bit weights ---- */

typedef struct range {
    float min, max;
} range;

/* The range of the 8-bit values. It contains 0, and min is a multiple of the step, so that 0 is represented exactly.
 * False if the values are not finite or all 0. */
static bool find_range(const mr_tensor *t, range *out)
{
    float lo = 0, hi = 0;
    for (int64_t i = 0; i < t->n; i++) {
        float v = MR_DATA(float, t)[i];
        if (!isfinite(v))
            return false;
        lo = fminf(lo, v);
        hi = fmaxf(hi, v);
    }
    if (lo == hi)
        return false;
    float step = (hi - lo) / 255;
    if (!isfinite(step) || step <= 0)
        return false;
    float first = roundf(lo / step);
    *out = (range){first * step, (first + 255) * step};
    return isfinite(out->min) && isfinite(out->max);
}

static mr_status *quantize_tensor(const mr_tensor *t, range r, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(NULL, MR_QUINT8, t->rank, t->dims, out));
    float step = (r.max - r.min) / 255;
    for (int64_t i = 0; i < t->n; i++) {
        float q = roundf((MR_DATA(float, t)[i] - r.min) / step);
        MR_DATA(uint8_t, *out)[i] = (uint8_t)fminf(fmaxf(q, 0), 255);
    }
    return NULL;
}

static void put_scalar(writer *o, const char *name, const char *device, float v)
{
    mr_tensor *t = mr_tensor_scalar_f32(v);
    put_const(o, name, device, t);
    mr_tensor_unref(t);
}

/* Writes the 8-bit constant, its range, and a Dequantize with the name of the original constant. */
static mr_status *put_quantized(writer *o, const node_def *n, const mr_tensor *t, range r)
{
    mr_tensor *q;
    MR_TRY(quantize_tensor(t, r, &q));
    char *value = mr_printf("%s_quantized_const", n->name), *min = mr_printf("%s_quantized_min", n->name),
         *max = mr_printf("%s_quantized_max", n->name);
    put_const(o, value, n->device, q);
    put_scalar(o, min, n->device, r.min);
    put_scalar(o, max, n->device, r.max);
    size_t mark = begin_node(o, n->name, "Dequantize", n->device);
    put_input(o, value);
    put_input(o, min);
    put_input(o, max);
    put_type(o, "T", MR_QUINT8);
    put_string(o, "mode", "MIN_FIRST");
    mr_pb_end(&o->w, mark);
    mr_tensor_unref(q);
    mr_free(value);
    mr_free(min);
    mr_free(max);
    return NULL;
}

/* The value of a float constant with at least `least` elements; *out is NULL for any other node. */
static mr_status *weights_of(const node_def *n, int64_t least, mr_tensor **out)
{
    const Tensorflow__AttrValue *v = op_is(n, "Const") ? attr_of(n, "value") : NULL;
    mr_str bytes = {0};
    *out = NULL;
    if (!v || v->value_case != TENSORFLOW__ATTR_VALUE__VALUE_TENSOR || type_attr(n, "dtype") != MR_FLOAT)
        return NULL;
    mr_status *st = mr_message_pack(&v->tensor->base, &bytes);
    if (!st)
        st = mr_tensor_decode(NULL, mr_str_view(&bytes), out);
    mr_str_deinit(&bytes);
    if (!st && ((*out)->dtype != MR_FLOAT || (*out)->n < least)) {
        mr_tensor_unref(*out);
        *out = NULL;
    }
    return st;
}

mr_status *mr_quantize_graph(mr_sv bytes, int64_t least, mr_str *out, int *n_changed)
{
    graph_def *d;
    writer o = {0};
    MR_TRY(read_graph(bytes, &d));
    mr_pb_writer_init(&o.w, out);
    *n_changed = 0;
    for (size_t i = 0; i < d->n_node && !o.st; i++) {
        mr_tensor *t;
        range r;
        o.st = weights_of(d->node[i], least, &t);
        if (!o.st && t && find_range(t, &r)) {
            o.st = put_quantized(&o, d->node[i], t, r);
            (*n_changed)++;
        } else if (!o.st) {
            keep_node(&o, d->node[i]);
        }
        mr_tensor_unref(t);
    }
    mr_status *st = o.st ? o.st : end_graph(&o, d);
    mr_message_free(&d->base);
    return st;
}
