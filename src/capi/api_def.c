/* capi/api_def.c -- TF_ApiDefMap: how ops are shown to users of a language.
 *
 * The map starts with the descriptions in the ops themselves; texts that are put into it add to
 * them or replace them. Messages that were read live as long as the map, so ApiDefs point into them
 * and copy nothing. New values are allocated in the arena of the ApiDef that they belong to. */
#include "capi/internal.h"
#include "proto/graph.pb-c.h"
#include "wire/message.h"
#include "wire/text_format.h"

typedef Tensorflow__ApiDef api_def;
typedef Tensorflow__ApiDef__Arg api_arg;
typedef Tensorflow__ApiDef__Attr api_attr;

struct TF_ApiDefMap {
    mr_map by_name;                  /* op -> api_def * */
    MR_VEC(ProtobufCMessage *) held; /* ApiDefs, and the messages that they point into */
    bool asked;                      /* no more text may be put */
};

static mr_arena *arena_of(api_def *d) { return mr_message_arena(&d->base); }

/* ---- descriptions in the ops themselves ---- */

static void set_args(api_def *d, Tensorflow__OpDef__ArgDef *const *from, size_t n, size_t *n_out,
                     api_arg ***out)
{
    mr_arena *a = arena_of(d);
    *out = mr_arena_array(a, api_arg *, n);
    for (size_t i = 0; i < n; i++) {
        api_arg *arg = (*out)[i] = mr_arena_new(a, api_arg);
        tensorflow__api_def__arg__init(arg);
        arg->name = arg->rename_to = from[i]->name;
        arg->description = from[i]->description;
    }
    *n_out = n;
}

static void set_attrs(api_def *d, const Tensorflow__OpDef *op)
{
    mr_arena *a = arena_of(d);
    d->n_attr = op->n_attr;
    d->attr = mr_arena_array(a, api_attr *, op->n_attr);
    for (size_t i = 0; i < op->n_attr; i++) {
        api_attr *attr = d->attr[i] = mr_arena_new(a, api_attr);
        tensorflow__api_def__attr__init(attr);
        attr->name = attr->rename_to = op->attr[i]->name;
        attr->default_value = op->attr[i]->default_value;
        attr->description = op->attr[i]->description;
    }
}

/* Makes an ApiDef from an OpDef. Its strings point into the OpDef. */
static mr_status *describe_op(const Tensorflow__OpDef *op, api_def **out)
{
    api_def *d = NULL;
    MR_TRY(mr_message_new(&tensorflow__api_def__descriptor, (ProtobufCMessage **)&d));
    mr_arena *a = arena_of(d);
    d->graph_op_name = op->name;
    d->visibility = TENSORFLOW__API_DEF__VISIBILITY__VISIBLE;
    d->n_endpoint = 1;
    d->endpoint = mr_arena_array(a, Tensorflow__ApiDef__Endpoint *, 1);
    d->endpoint[0] = mr_arena_new(a, Tensorflow__ApiDef__Endpoint);
    tensorflow__api_def__endpoint__init(d->endpoint[0]);
    d->endpoint[0]->name = op->name;
    set_args(d, op->input_arg, op->n_input_arg, &d->n_in_arg, &d->in_arg);
    set_args(d, op->output_arg, op->n_output_arg, &d->n_out_arg, &d->out_arg);
    set_attrs(d, op);
    d->n_arg_order = op->n_input_arg;
    d->arg_order = mr_arena_array(a, char *, op->n_input_arg);
    for (size_t i = 0; i < op->n_input_arg; i++)
        d->arg_order[i] = op->input_arg[i]->name;
    d->summary = op->summary;
    d->description = op->description;
    *out = d;
    return NULL;
}

static mr_status *describe_all(TF_ApiDefMap *m, mr_sv op_list)
{
    Tensorflow__OpList *l = NULL;
    MR_TRY(mr_message_unpack(&tensorflow__op_list__descriptor, op_list, "OpList",
                             (ProtobufCMessage **)&l));
    mr_vec_push(&m->held, &l->base);
    for (size_t i = 0; i < l->n_op; i++) {
        api_def *d;
        MR_TRY(describe_op(l->op[i], &d));
        mr_vec_push(&m->held, &d->base);
        mr_map_putz(&m->by_name, d->graph_op_name, d);
    }
    return NULL;
}

TF_ApiDefMap *TF_NewApiDefMap(TF_Buffer *op_list_buffer, TF_Status *status)
{
    TF_ApiDefMap *m = mr_new(TF_ApiDefMap);
    mr_status *st = describe_all(m, mr_capi_buffer_view(op_list_buffer));
    if (st) {
        mr_status_free(st);
        TF_DeleteApiDefMap(m);
        m = NULL;
        st = mr_invalid("Unparseable OpList");
    }
    mr_capi_set_status(status, st);
    return m;
}

void TF_DeleteApiDefMap(TF_ApiDefMap *apimap)
{
    if (!apimap)
        return;
    for (int i = 0; i < apimap->held.n; i++)
        mr_message_free(apimap->held.p[i]);
    mr_vec_deinit(&apimap->held);
    mr_map_deinit(&apimap->by_name);
    mr_free(apimap);
}

/* ---- merging ---- */

static mr_status *merge_args(const api_def *d, api_arg **args, size_t n, api_arg *const *more,
                             size_t n_more)
{
    for (size_t i = 0; i < n_more; i++) {
        size_t k = 0;
        while (k < n && strcmp(args[k]->name, more[i]->name) != 0)
            k++;
        if (k == n)
            return mr_error(MR_FAILED_PRECONDITION, "Argument %s is not an argument of op %s",
                            more[i]->name, d->graph_op_name);
        if (more[i]->rename_to[0])
            args[k]->rename_to = more[i]->rename_to;
        if (more[i]->description[0])
            args[k]->description = more[i]->description;
    }
    return NULL;
}

static mr_status *merge_attrs(api_def *d, const api_def *more)
{
    for (size_t i = 0; i < more->n_attr; i++) {
        const api_attr *from = more->attr[i];
        size_t k = 0;
        while (k < d->n_attr && strcmp(d->attr[k]->name, from->name) != 0)
            k++;
        if (k == d->n_attr)
            return mr_error(MR_FAILED_PRECONDITION, "Attribute %s is not an attribute of op %s",
                            from->name, d->graph_op_name);
        if (from->rename_to[0])
            d->attr[k]->rename_to = from->rename_to;
        if (from->default_value)
            d->attr[k]->default_value = from->default_value;
        if (from->description[0])
            d->attr[k]->description = from->description;
    }
    return NULL;
}

static bool name_occurs(char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

/* Another order has to name every argument once; of lists as long as the other it is enough that
 * each of one occurs in the other, both ways. */
static mr_status *merge_order(api_def *d, const api_def *more)
{
    if (!more->n_arg_order)
        return NULL;
    bool same = d->n_arg_order == more->n_arg_order;
    for (size_t i = 0; same && i < d->n_arg_order; i++)
        same = name_occurs(more->arg_order, more->n_arg_order, d->arg_order[i]) &&
               name_occurs(d->arg_order, d->n_arg_order, more->arg_order[i]);
    if (!same)
        return mr_error(MR_FAILED_PRECONDITION,
                        "Invalid arg_order for %s: it must contain each of the %zu arguments once",
                        d->graph_op_name, d->n_arg_order);
    d->arg_order = more->arg_order;
    return NULL;
}

static void merge_texts(api_def *d, const api_def *more)
{
    mr_arena *a = arena_of(d);
    if (more->summary[0])
        d->summary = more->summary;
    if (more->description[0])
        d->description = more->description;
    if (more->description_prefix[0])
        d->description = mr_arena_printf(a, "%s\n%s", more->description_prefix, d->description);
    if (more->description_suffix[0])
        d->description = mr_arena_printf(a, "%s\n%s", d->description, more->description_suffix);
    if (more->deprecation_message[0]) {
        d->deprecation_message = more->deprecation_message;
        d->deprecation_version = more->deprecation_version;
    }
}

static mr_status *merge_api_def(api_def *d, const api_def *more)
{
    if (more->visibility != TENSORFLOW__API_DEF__VISIBILITY__DEFAULT_VISIBILITY)
        d->visibility = more->visibility;
    if (more->n_endpoint) {
        d->n_endpoint = more->n_endpoint;
        d->endpoint = more->endpoint;
    }
    MR_TRY(merge_args(d, d->in_arg, d->n_in_arg, more->in_arg, more->n_in_arg));
    MR_TRY(merge_args(d, d->out_arg, d->n_out_arg, more->out_arg, more->n_out_arg));
    MR_TRY(merge_order(d, more));
    MR_TRY(merge_attrs(d, more));
    merge_texts(d, more);
    return NULL;
}

/* ---- the text: text format with here-documents ---- */

/* Whether the line is `field: <<END`: it and the lines up to one that begins with END are a quoted string. */
static bool is_heredoc(mr_sv line, mr_sv *field, mr_sv *end)
{
    const char *at = line.n ? memmem(line.p, line.n, "<<", 2) : NULL;
    const char *colon = at ? memrchr(line.p, ':', (size_t)(at - line.p)) : NULL;
    if (!colon || mr_sv_trim((mr_sv){colon + 1, (size_t)(at - colon - 1)}).n)
        return false;
    *field = (mr_sv){line.p, (size_t)(colon - line.p)};
    *end = mr_sv_trim((mr_sv){at + 2, (size_t)(line.p + line.n - at - 2)});
    return end->n > 0;
}

static bool starts_with(mr_sv line, mr_sv with)
{
    return line.n >= with.n && memcmp(line.p, with.p, with.n) == 0;
}

static void quote_lines(mr_sv *rest, mr_sv end, mr_str *out)
{
    mr_sv line;
    const char *sep = "";
    mr_str_appendz(out, ": \"");
    while (mr_sv_cut(rest, '\n', &line) && !starts_with(line, end)) {
        mr_str_appendz(out, sep);
        mr_text_escape(line, out);
        sep = "\\n";
    }
    mr_str_appendz(out, "\"\n");
}

static void plain_text(mr_sv text, mr_str *out)
{
    mr_sv line, field, end;
    while (mr_sv_cut(&text, '\n', &line)) {
        if (!is_heredoc(line, &field, &end)) {
            mr_str_append(out, line.p, line.n);
            mr_str_appendc(out, '\n');
            continue;
        }
        mr_str_append(out, field.p, field.n);
        quote_lines(&text, end, out);
    }
}

static mr_status *put_text(TF_ApiDefMap *m, mr_sv text)
{
    mr_str plain = {0};
    Tensorflow__ApiDefs *defs = NULL;
    plain_text(text, &plain);
    mr_status *st = mr_text_parse(&tensorflow__api_defs__descriptor, mr_str_view(&plain),
                                  (ProtobufCMessage **)&defs);
    mr_str_deinit(&plain);
    MR_TRY(mr_status_prepend(st, "Failed to parse API definition: "));
    mr_vec_push(&m->held, &defs->base);
    for (size_t i = 0; i < defs->n_op; i++) {
        api_def *d = mr_map_getz(&m->by_name, defs->op[i]->graph_op_name);
        if (d) /* texts for unknown ops are skipped */
            MR_TRY(merge_api_def(d, defs->op[i]));
    }
    return NULL;
}

void TF_ApiDefMapPut(TF_ApiDefMap *api_def_map, const char *text, size_t text_len,
                     TF_Status *status)
{
    mr_status *st = NULL;
    if (!api_def_map || (text_len && !text))
        st = mr_invalid("api_def_map or text is NULL");
    else if (api_def_map->asked)
        st = mr_error(MR_FAILED_PRECONDITION,
                      "TF_ApiDefMapPut cannot be called after TF_ApiDefMapGet has been called.");
    else
        st = put_text(api_def_map, (mr_sv){text, text_len});
    mr_capi_set_status(status, st);
}

/* ---- handing out ---- */

/* Texts speak of arguments in backquotes, by the names they have in the op. */
static char *rename_in(mr_arena *a, char *text, const char *from, const char *to)
{
    mr_str out = {0};
    char *quoted = mr_printf("`%s`", from);
    for (char *at; (at = strstr(text, quoted)); text = at + strlen(quoted)) {
        mr_str_append(&out, text, (size_t)(at - text));
        mr_str_printf(&out, "`%s`", to);
    }
    mr_str_appendz(&out, text);
    char *copy = mr_arena_strndup(a, mr_str_z(&out), out.n);
    mr_str_deinit(&out);
    mr_free(quoted);
    return copy;
}

static void rename_everywhere(api_def *d, const char *from, const char *to)
{
    mr_arena *a = arena_of(d);
    if (strcmp(from, to) == 0)
        return;
    d->description = rename_in(a, d->description, from, to);
    for (size_t i = 0; i < d->n_in_arg; i++)
        d->in_arg[i]->description = rename_in(a, d->in_arg[i]->description, from, to);
    for (size_t i = 0; i < d->n_out_arg; i++)
        d->out_arg[i]->description = rename_in(a, d->out_arg[i]->description, from, to);
    for (size_t i = 0; i < d->n_attr; i++)
        d->attr[i]->description = rename_in(a, d->attr[i]->description, from, to);
}

/* Applies rename_to in all descriptions, once, before the first ApiDef is given out. No text may be put after that. */
static void rename_all(TF_ApiDefMap *m)
{
    uint32_t pos = 0;
    mr_sv name;
    void *v;
    if (m->asked)
        return;
    m->asked = true;
    while (mr_map_next(&m->by_name, &pos, &name, &v)) {
        api_def *d = v;
        for (size_t i = 0; i < d->n_in_arg; i++)
            rename_everywhere(d, d->in_arg[i]->name, d->in_arg[i]->rename_to);
        for (size_t i = 0; i < d->n_out_arg; i++)
            rename_everywhere(d, d->out_arg[i]->name, d->out_arg[i]->rename_to);
        for (size_t i = 0; i < d->n_attr; i++)
            rename_everywhere(d, d->attr[i]->name, d->attr[i]->rename_to);
    }
}

TF_Buffer *TF_ApiDefMapGet(TF_ApiDefMap *api_def_map, const char *name, size_t name_len,
                           TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = NULL;
    if (!api_def_map || (name_len && !name))
        st = mr_invalid("api_def_map or name is NULL");
    if (!st)
        rename_all(api_def_map);
    const api_def *d = st ? NULL : mr_map_get(&api_def_map->by_name, (mr_sv){name, name_len});
    if (d)
        st = mr_message_pack(&d->base, &bytes);
    mr_capi_set_status(status, st);
    if (!st && d)
        return mr_capi_buffer_new(&bytes);
    mr_str_deinit(&bytes);
    return NULL;
}
