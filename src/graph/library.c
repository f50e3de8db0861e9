/* graph/library.c -- the functions of a graph, by name.
 *
 * Nodes point at the definition of the function they call, so a removed function cannot be found any more, but is kept
 * as long as the library. Copies of a library share its functions. */
#include "graph/library.h"

#include "base/memory.h"
#include "graph/wire.h"

struct mr_library {
    MR_VEC(mr_function *) functions; /* referenced, in order of addition */
    MR_VEC(mr_function *) retired;
    MR_VEC(mr_fn_pair) gradients; /* function -> its gradient; owned strings */
    mr_map by_name;               /* borrowed keys -> mr_function * */
    mr_map gradient_at;           /* function -> index in gradients, plus one */
    mr_str extra;                 /* FunctionDefLibrary fields we do not interpret */
};

/* ---- creation ---- */

mr_library *mr_library_new(void)
{
    mr_library *l = mr_new(mr_library);
    l->by_name.borrow_keys = true;
    l->gradient_at.borrow_keys = true;
    return l;
}

static void free_pair(mr_fn_pair *p)
{
    mr_free((char *)(uintptr_t)p->name);
    mr_free((char *)(uintptr_t)p->value);
}

void mr_library_free(mr_library *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->functions.n; i++)
        mr_function_unref(l->functions.p[i]);
    for (int i = 0; i < l->retired.n; i++)
        mr_function_unref(l->retired.p[i]);
    for (int i = 0; i < l->gradients.n; i++)
        free_pair(&l->gradients.p[i]);
    mr_vec_deinit(&l->functions);
    mr_vec_deinit(&l->retired);
    mr_vec_deinit(&l->gradients);
    mr_map_deinit(&l->by_name);
    mr_map_deinit(&l->gradient_at);
    mr_str_deinit(&l->extra);
    mr_free(l);
}

/* ---- functions ---- */

int mr_library_count(const mr_library *l) { return l->functions.n; }
const mr_function *mr_library_at(const mr_library *l, int i) { return l->functions.p[i]; }
const mr_function *mr_library_find(const mr_library *l, mr_sv name)
{
    return mr_map_get(&l->by_name, name);
}

const mr_op_def *mr_library_op(const mr_library *l, mr_sv name)
{
    const mr_op_def *d = mr_op_find(name);
    if (d)
        return d;
    const mr_function *f = mr_library_find(l, name);
    return f ? &f->def : NULL;
}

/* *is_new: it does not exist yet and can be added. */
static mr_status *check_add(const mr_library *l, const mr_function *f, bool *is_new)
{
    mr_sv name = mr_sv_of(f->def.name);
    const mr_function *have = mr_library_find(l, name);
    *is_new = !have;
    if (have && have != f && !mr_function_eq(have, f))
        return mr_invalid(
            "Cannot add function '%s' because a different function with the same name already "
            "exists.",
            f->def.name);
    if (!have && mr_op_find(name))
        return mr_invalid(
            "Cannot add function '%s' because an op with the same name already exists.",
            f->def.name);
    return NULL;
}

static void push_function(mr_library *l, mr_function *f)
{
    mr_vec_push(&l->functions, mr_function_ref(f));
    mr_map_putz(&l->by_name, f->def.name, f);
}

mr_status *mr_library_add(mr_library *l, mr_function *f)
{
    bool is_new;
    MR_TRY(check_add(l, f, &is_new));
    if (is_new)
        push_function(l, f);
    return NULL;
}

mr_status *mr_library_remove(mr_library *l, mr_sv name)
{
    mr_function *f = mr_map_remove(&l->by_name, name);
    if (!f)
        return mr_invalid("Tried to remove non-existent function '%.*s'.", MR_SV_ARG(name));
    int i = 0;
    while (l->functions.p[i] != f)
        i++;
    memmove(l->functions.p + i, l->functions.p + i + 1,
            (size_t)(l->functions.n - i - 1) * sizeof(f));
    l->functions.n--;
    mr_vec_push(&l->retired, f);
    return NULL;
}

/* ---- gradients ---- */

static mr_fn_pair *find_gradient(const mr_library *l, const char *function)
{
    intptr_t i = (intptr_t)mr_map_getz(&l->gradient_at, function);
    return i ? &l->gradients.p[i - 1] : NULL;
}

const char *mr_library_gradient(const mr_library *l, const char *function)
{
    const mr_fn_pair *p = find_gradient(l, function);
    return p ? p->value : NULL;
}

/* Moves the last pair to the place of the removed one. */
static void remove_gradient(mr_library *l, mr_fn_pair *p)
{
    mr_map_remove(&l->gradient_at, mr_sv_of(p->name));
    free_pair(p);
    mr_fn_pair *last = &mr_vec_last(&l->gradients);
    if (p != last) {
        *p = *last;
        mr_map_putz(&l->gradient_at, p->name, (void *)(intptr_t)(p - l->gradients.p + 1));
    }
    l->gradients.n--;
}

mr_status *mr_library_set_gradient(mr_library *l, const char *function, const char *gradient)
{
    mr_fn_pair *p = find_gradient(l, function);
    if (!gradient[0]) {
        if (p)
            remove_gradient(l, p);
        return NULL;
    }
    if (p && strcmp(p->value, gradient) != 0)
        return mr_invalid(
            "Cannot assign gradient function '%s' to '%s' because it already has gradient function "
            "'%s'",
            gradient, function, p->value);
    if (!p) {
        mr_vec_push(&l->gradients, (mr_fn_pair){mr_strdup(function), mr_strdup(gradient)});
        mr_map_putz(&l->gradient_at, mr_vec_last(&l->gradients).name,
                    (void *)(intptr_t)l->gradients.n);
    }
    return NULL;
}

/* ---- copies ---- */

static mr_status *check_copy(const mr_library *from, const mr_library *to)
{
    bool is_new;
    for (int i = 0; i < from->functions.n; i++)
        MR_TRY(check_add(to, from->functions.p[i], &is_new));
    for (int i = 0; i < from->gradients.n; i++) {
        const mr_fn_pair *p = &from->gradients.p[i];
        const char *have = mr_library_gradient(to, p->name);
        if (have && strcmp(have, p->value) != 0)
            return mr_invalid(
                "Cannot assign gradient function '%s' to '%s' because it already has gradient "
                "function '%s'",
                p->value, p->name, have);
    }
    return NULL;
}

/* Changes nothing on an error: everything that could fail is checked first. */
mr_status *mr_library_copy(const mr_library *from, mr_library *to)
{
    MR_TRY(check_copy(from, to));
    for (int i = 0; i < from->functions.n; i++)
        if (!mr_library_find(to, mr_sv_of(from->functions.p[i]->def.name)))
            push_function(to, from->functions.p[i]);
    for (int i = 0; i < from->retired.n; i++)
        mr_vec_push(&to->retired, mr_function_ref(from->retired.p[i]));
    for (int i = 0; i < from->gradients.n; i++)
        MR_TRY(mr_library_set_gradient(to, from->gradients.p[i].name, from->gradients.p[i].value));
    if (from->extra.n && !to->extra.n)
        mr_str_append(&to->extra, from->extra.p, from->extra.n);
    return NULL;
}

/* ---- bytes ---- */

static mr_status *read_gradient(mr_library *l, mr_pb_reader *r)
{
    mr_status *st = NULL;
    uint32_t field, wire;
    mr_sv function = MR_SV(""), gradient = MR_SV("");
    while (mr_pb_next(r, &field, &wire)) {
        if (field == 1)
            function = mr_pb_bytes(r);
        else if (field == 2)
            gradient = mr_pb_bytes(r);
        else
            mr_pb_skip(r);
    }
    MR_TRY(mr_pb_reader_status(r, "GradientDef"));
    char *f = mr_strndup(function.p, function.n), *g = mr_strndup(gradient.p, gradient.n);
    if (g[0])
        st = mr_library_set_gradient(l, f, g);
    mr_free(f);
    mr_free(g);
    return st;
}

static mr_status *read_function(mr_library *l, mr_sv bytes)
{
    mr_function *f;
    MR_TRY(mr_function_decode(bytes, &f));
    mr_status *st = mr_library_add(l, f);
    mr_function_unref(f);
    return st;
}

static mr_status *read_library(mr_sv bytes, mr_library *l)
{
    mr_pb_reader r, sub;
    uint32_t field, wire;
    mr_pb_reader_init(&r, bytes);
    for (const uint8_t *from = r.at; mr_pb_next(&r, &field, &wire); from = r.at) {
        if (field == 1) {
            MR_TRY(read_function(l, mr_pb_bytes(&r)));
        } else if (field == 2) {
            mr_pb_message(&r, &sub);
            MR_TRY(read_gradient(l, &sub));
        } else {
            MR_TRY(mr_wire_extra(&r, from, &l->extra));
        }
    }
    return mr_pb_reader_status(&r, "FunctionDefLibrary");
}

/* Decodes into a separate library first: one bad function means that none is added. */
mr_status *mr_library_decode(mr_sv bytes, mr_library *into)
{
    mr_library *l = mr_library_new();
    mr_status *st = read_library(bytes, l);
    if (!st)
        st = mr_library_copy(l, into);
    mr_library_free(l);
    return st;
}

mr_status *mr_library_encode(const mr_library *l, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    for (int i = 0; i < l->functions.n; i++) {
        size_t mark = mr_pb_begin(&w, 1);
        MR_TRY(mr_function_encode(l->functions.p[i], out));
        mr_pb_end(&w, mark);
    }
    for (int i = 0; i < l->gradients.n; i++) {
        size_t mark = mr_pb_begin(&w, 2);
        mr_pb_put_bytes(&w, 1, mr_sv_of(l->gradients.p[i].name));
        mr_pb_put_bytes(&w, 2, mr_sv_of(l->gradients.p[i].value));
        mr_pb_end(&w, mark);
    }
    mr_pb_put_raw(&w, l->extra.p, l->extra.n);
    return mr_pb_writer_status(&w, "FunctionDefLibrary");
}
