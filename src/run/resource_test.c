#include "base/memory.h"
#include "run/resource.h"
#include "run/variable.h"
#include "tests/harness/test.h"

static mr_resources *with_variable(const char *name)
{
    mr_resources *m = mr_resources_new("localhost");
    mr_variable *v = mr_variable_new(false, MR_FLOAT, name);
    MR_CHECK_OK(mr_resources_create(m, mr_sv_of(""), mr_sv_of(name), &v->base));
    mr_variable_unref(v);
    return m;
}

MR_TEST(resource_is_found_by_container_name_and_type)
{
    mr_resources *m = with_variable("v");
    mr_object *o;
    MR_CHECK_OK(
        mr_resources_lookup(m, mr_sv_of("localhost"), mr_sv_of("v"), &mr_variable_type, &o));
    mr_object_unref(o);
    MR_CHECK_ERR(mr_resources_lookup(m, mr_sv_of(""), mr_sv_of("w"), &mr_variable_type, &o),
                 MR_NOT_FOUND, "Resource localhost/w/tensorflow::Var does not exist.");
    MR_CHECK_ERR(mr_resources_lookup(m, mr_sv_of("c"), mr_sv_of("v"), &mr_variable_type, &o),
                 MR_NOT_FOUND, "c/v/");
    MR_CHECK_ERR(mr_resources_lookup(m, mr_sv_of(""), mr_sv_of("v"), &mr_ref_variable_type, &o),
                 MR_NOT_FOUND, "");
    mr_resources_free(m);
}

MR_TEST(resource_cannot_be_made_twice)
{
    mr_resources *m = with_variable("v");
    mr_variable *v = mr_variable_new(false, MR_FLOAT, "v");
    MR_CHECK_ERR(mr_resources_create(m, mr_sv_of(""), mr_sv_of("v"), &v->base), MR_ALREADY_EXISTS,
                 "Resource localhost/v/tensorflow::Var already exists.");
    mr_variable_unref(v);
    mr_resources_free(m);
}

static mr_status *make_counted(void *ctx, mr_object **out)
{
    ++*(int *)ctx;
    *out = &mr_variable_new(false, MR_FLOAT, "x")->base;
    return NULL;
}

/* Finds or makes "x" with a memo, and returns it without a reference: the manager keeps one. */
static const mr_object *find_again(mr_resources *m, int *made, mr_resource_memo *memo)
{
    mr_object *o = NULL;
    MR_CHECK_OK(mr_resources_find_or_make_again(m, mr_sv_of(""), mr_sv_of("x"), &mr_variable_type, make_counted, made, memo, &o));
    mr_object_unref(o);
    return o;
}

MR_TEST(resource_memo_finds_what_was_not_removed)
{
    mr_resources *m = with_variable("v");
    mr_resource_memo first = {0}, second = {0};
    int made = 0;
    const mr_object *o = find_again(m, &made, &first);
    MR_CHECK(find_again(m, &made, &first) == o && find_again(m, &made, &second) == o);
    MR_CHECK_INT(made, 1);
    MR_CHECK_OK(mr_resources_remove(m, mr_sv_of(""), mr_sv_of("v"), &mr_variable_type)); /* another one */
    MR_CHECK(find_again(m, &made, &first) == o && find_again(m, &made, &first) == o);
    MR_CHECK_INT(made, 1);
    mr_resources_free(m);
}

MR_TEST(resource_memo_forgets_what_was_removed)
{
    mr_resources *m = mr_resources_new("localhost");
    mr_resource_memo first = {0}, second = {0};
    int made = 0;
    find_again(m, &made, &first);
    find_again(m, &made, &second);
    MR_CHECK_OK(mr_resources_remove(m, mr_sv_of(""), mr_sv_of("x"), &mr_variable_type));
    const mr_object *o = find_again(m, &made, &first);
    MR_CHECK(find_again(m, &made, &second) == o);
    MR_CHECK_INT(made, 2);
    mr_resources_clear(m, mr_sv_of(""));
    o = find_again(m, &made, &second);
    MR_CHECK(find_again(m, &made, &first) == o);
    MR_CHECK_INT(made, 3);
    mr_resources_free(m);
}

MR_TEST(resource_is_made_only_when_missing)
{
    mr_resources *m = mr_resources_new("localhost");
    int made = 0;
    for (int i = 0; i < 3; i++) {
        mr_object *o;
        MR_CHECK_OK(mr_resources_find_or_make(m, mr_sv_of(""), mr_sv_of("x"), &mr_variable_type,
                                              make_counted, &made, &o));
        mr_object_unref(o);
    }
    MR_CHECK_INT(made, 1);
    mr_resources_free(m);
}

static mr_status *make_fails(void *ctx, mr_object **out)
{
    (void)ctx, (void)out;
    return mr_error(MR_INTERNAL, "no");
}

MR_TEST(resource_maker_may_fail)
{
    mr_resources *m = mr_resources_new("localhost");
    mr_object *o;
    MR_CHECK_ERR(mr_resources_find_or_make(m, mr_sv_of(""), mr_sv_of("x"), &mr_variable_type,
                                           make_fails, NULL, &o),
                 MR_INTERNAL, "no");
    MR_CHECK(!o);
    mr_resources_free(m);
}

MR_TEST(resource_lives_on_with_its_users)
{
    mr_resources *m = with_variable("v");
    mr_object *o;
    MR_CHECK_OK(mr_resources_lookup(m, mr_sv_of(""), mr_sv_of("v"), &mr_variable_type, &o));
    mr_resources_clear(m, mr_sv_of(""));
    MR_CHECK_STR(((mr_variable *)o)->name, "v");
    mr_object_unref(o);
    MR_CHECK_ERR(mr_resources_lookup(m, mr_sv_of(""), mr_sv_of("v"), &mr_variable_type, &o),
                 MR_NOT_FOUND, "");
    mr_resources_free(m);
}

MR_TEST(resource_is_removed_by_its_handle)
{
    char name[400]; /* longer than the room for keys on the stack */
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    mr_resources *m = with_variable(name);
    mr_handle *h =
        mr_handle_new("/device:CPU:0", "localhost", name, mr_variable_type.name, 0, NULL);
    MR_CHECK_OK(mr_resources_remove_handle(m, h));
    MR_CHECK_ERR(mr_resources_remove_handle(m, h), MR_NOT_FOUND, "does not exist");
    mr_object_unref(&h->base);
    mr_resources_free(m);
}

MR_TEST(resource_names_are_checked)
{
    MR_CHECK_OK(mr_resource_check_names(mr_sv_of("a.b-c/d"), mr_sv_of("v")));
    MR_CHECK_OK(mr_resource_check_names(mr_sv_of(""), mr_sv_of("")));
    MR_CHECK_ERR(mr_resource_check_names(mr_sv_of("-a"), mr_sv_of("v")), MR_INVALID_ARGUMENT,
                 "container");
    MR_CHECK_ERR(mr_resource_check_names(mr_sv_of("a_b"), mr_sv_of("v")), MR_INVALID_ARGUMENT,
                 "container");
    MR_CHECK_ERR(mr_resource_check_names(mr_sv_of(""), mr_sv_of("_v")), MR_INVALID_ARGUMENT,
                 "shared_name");
}

MR_TEST(resource_private_names_differ)
{
    char *a = mr_resource_private_name("q"), *b = mr_resource_private_name("q");
    MR_CHECK(a[0] == '_' && strcmp(a, b) != 0 && strstr(a, "_q"));
    mr_free(a);
    mr_free(b);
}

/* ---- variables ---- */

MR_TEST(variable_write_copies_what_a_reader_holds)
{
    mr_variable *v = mr_variable_new(false, MR_FLOAT, "v");
    v->t = mr_tensor_scalar_f32(1);
    mr_tensor *seen, *w;
    MR_CHECK_OK(mr_variable_read(v, NULL, &seen));
    mr_lock(&v->mu);
    MR_CHECK_OK(mr_variable_writable(v, NULL, &w));
    *MR_DATA(float, w) = 2;
    mr_unlock(&v->mu);
    MR_CHECK_NEAR(*MR_DATA(float, seen), 1, 0);
    mr_tensor_unref(seen);
    mr_lock(&v->mu);
    mr_tensor *again;
    MR_CHECK_OK(mr_variable_writable(v, NULL, &again));
    MR_CHECK(again == w); /* nobody reads: in place */
    mr_unlock(&v->mu);
    mr_variable_unref(v);
}

MR_TEST(variable_read_copies_in_copy_on_read_mode)
{
    mr_variable *v = mr_variable_new(false, MR_FLOAT, "v");
    mr_tensor *t;
    MR_CHECK_OK(mr_variable_read(v, NULL, &t));
    MR_CHECK(!t);
    v->t = mr_tensor_scalar_f32(1);
    v->copy_on_read = true;
    MR_CHECK_OK(mr_variable_read(v, NULL, &t));
    MR_CHECK(t != v->t && mr_tensor_equal(t, v->t));
    mr_tensor_unref(t);
    mr_variable_unref(v);
}

MR_TEST(variables_lock_takes_duplicates_once)
{
    mr_variable *a = mr_variable_new(false, MR_FLOAT, "a"),
                *b = mr_variable_new(false, MR_FLOAT, "b");
    mr_variable *all[] = {b, a, b};
    mr_variables_lock(all, 3);
    MR_CHECK(pthread_mutex_trylock(&a->mu.m) != 0 && pthread_mutex_trylock(&b->mu.m) != 0);
    mr_variables_unlock(all, 3);
    MR_CHECK(all[0] == b && all[1] == a);
    MR_CHECK(pthread_mutex_trylock(&a->mu.m) == 0 && pthread_mutex_trylock(&b->mu.m) == 0);
    pthread_mutex_unlock(&a->mu.m);
    pthread_mutex_unlock(&b->mu.m);
    mr_variable_unref(a);
    mr_variable_unref(b);
}
