/* run/resource.c -- objects that outlive a step: variables, queues, tables, by container and name.
 *
 * Each container has one map, from "type\0name" to the object. An op with a handle looks its resource up at every
 * run, so keys are built on the stack. A kernel that always looks for the same name remembers what it found
 * (mr_resource_memo): the memo is right as long as nothing has been removed. Objects are dropped after the lock
 * is released: freeing one may take long, or may look up other resources.
 *
 * Invariant: each object in a map has one reference that belongs to the map. */
#include "run/resource.h"

#include <ctype.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"

struct mr_resources {
    mr_mutex mu;
    char *default_container;
    mr_map containers; /* name -> mr_map * MR_GUARDED_BY(mu) */
    uint64_t n_removals MR_GUARDED_BY(mu);
};

typedef MR_VEC(mr_object *) object_vec;

/* Copies the name of the default container. */
mr_resources *mr_resources_new(const char *default_container)
{
    mr_resources *m = mr_new(mr_resources);
    mr_mutex_init(&m->mu);
    m->default_container = mr_strdup(default_container);
    return m;
}

/* Frees the map of a container and moves its references to *dropped, for the caller to drop without the lock. */
static void container_free(mr_map *c, object_vec *dropped)
{
    uint32_t pos = 0;
    mr_sv key;
    void *o;
    while (mr_map_next(c, &pos, &key, &o))
        mr_vec_push(dropped, o);
    mr_map_deinit(c);
    mr_free(c);
}

/* Without the lock: see the head of this file. */
static void drop_all(object_vec *objects)
{
    for (int i = 0; i < objects->n; i++)
        mr_object_unref(objects->p[i]);
    mr_vec_deinit(objects);
}

/* Nobody else may use m any more, so the lock is not taken. All maps are freed before the first object is dropped. */
void mr_resources_free(mr_resources *m)
{
    if (!m)
        return;
    object_vec dropped = {0};
    uint32_t pos = 0;
    mr_sv name;
    void *c;
    while (mr_map_next(&m->containers, &pos, &name, &c))
        container_free(c, &dropped);
    mr_map_deinit(&m->containers);
    drop_all(&dropped);
    mr_mutex_deinit(&m->mu);
    mr_free(m->default_container);
    mr_free(m);
}

const char *mr_resources_default(const mr_resources *m) { return m->default_container; }

/* ---- keys ---- */

typedef struct key {
    mr_sv container, type, name;
    char small[200];
    char *heap; /* for long names */
    mr_sv in_container;
} key;

/* Keys of usual length fit into k->small. key_deinit must follow. */
static void key_init(key *k, const mr_resources *m, mr_sv container, mr_sv name, const char *type)
{
    k->container = container.n ? container : mr_sv_of(m->default_container);
    k->name = name;
    k->type = mr_sv_of(type);
    size_t n = k->type.n + 1 + name.n;
    k->heap = n > sizeof(k->small) ? mr_alloc(n) : NULL;
    char *p = k->heap ? k->heap : k->small;
    memcpy(p, type, k->type.n + 1);
    if (name.n)
        memcpy(p + k->type.n + 1, name.p, name.n);
    k->in_container = (mr_sv){p, n};
    MR_ASSERT(k->container.n > 0);
}

static void key_deinit(key *k) { mr_free(k->heap); }

/* The text is TensorFlow's: "Resource container/name/type does not exist." */
static mr_status *key_error(const key *k, mr_code code, const char *what)
{
    return mr_error(code, "Resource %.*s/%.*s/%.*s %s.", MR_SV_ARG(k->container),
                    MR_SV_ARG(k->name), MR_SV_ARG(k->type), what);
}

/* Borrowed from the map; NULL if there is no such container or name. Needs m->mu. */
static mr_object *find_locked(mr_resources *m, const key *k)
{
    mr_map *c = mr_map_get(&m->containers, k->container);
    return c ? mr_map_get(c, k->in_container) : NULL;
}

/* Takes over the reference to o. Needs m->mu. */
static void put_locked(mr_resources *m, const key *k, mr_object *o)
{
    mr_map *c = mr_map_get(&m->containers, k->container);
    if (!c) {
        c = mr_new(mr_map);
        mr_map_put(&m->containers, k->container, c);
    }
    mr_map_put(c, k->in_container, o);
}

/* ---- the interface ---- */

/* Takes the reference under the lock, so the object cannot be freed between the lookup and the return. */
mr_status *mr_resources_lookup(mr_resources *m, mr_sv container, mr_sv name,
                               const mr_object_type *type, mr_object **out)
{
    key k;
    key_init(&k, m, container, name, type->name);
    mr_lock(&m->mu);
    mr_object *o = find_locked(m, &k);
    if (o)
        mr_object_ref(o);
    mr_unlock(&m->mu);
    *out = o;
    mr_status *st = o ? NULL : key_error(&k, MR_NOT_FOUND, "does not exist");
    key_deinit(&k);
    return st;
}

/* Takes a second reference for the map; the caller keeps its own. */
mr_status *mr_resources_create(mr_resources *m, mr_sv container, mr_sv name, mr_object *o)
{
    key k;
    key_init(&k, m, container, name, o->type->name);
    mr_lock(&m->mu);
    bool taken = find_locked(m, &k) != NULL;
    if (!taken)
        put_locked(m, &k, mr_object_ref(o));
    mr_unlock(&m->mu);
    mr_status *st = taken ? key_error(&k, MR_ALREADY_EXISTS, "already exists") : NULL;
    key_deinit(&k);
    return st;
}

/* `make` runs under the lock, so that two threads never make the same resource twice. */
mr_status *mr_resources_find_or_make(mr_resources *m, mr_sv container, mr_sv name,
                                     const mr_object_type *type,
                                     mr_status *(*make)(void *ctx, mr_object **out), void *ctx,
                                     mr_object **out)
{
    return mr_resources_find_or_make_again(m, container, name, type, make, ctx, &(mr_resource_memo){0}, out);
}

/* If nothing has been removed since the memo was written, the map still holds the object. */
mr_status *mr_resources_find_or_make_again(mr_resources *m, mr_sv container, mr_sv name, const mr_object_type *type,
                                           mr_status *(*make)(void *ctx, mr_object **out), void *ctx,
                                           mr_resource_memo *memo, mr_object **out)
{
    mr_lock(&m->mu);
    if (MR_LIKELY(memo->manager == m && memo->n_removals == m->n_removals)) {
        *out = mr_object_ref(memo->object);
        mr_unlock(&m->mu);
        return NULL;
    }
    key k;
    key_init(&k, m, container, name, type->name);
    mr_status *st = NULL;
    *out = NULL;
    mr_object *o = find_locked(m, &k);
    if (!o && !(st = make(ctx, &o)))
        put_locked(m, &k, o);
    if (!st) {
        *out = mr_object_ref(o);
        *memo = (mr_resource_memo){m, o, m->n_removals};
    }
    mr_unlock(&m->mu);
    key_deinit(&k);
    return st;
}

/* Drops the map's reference after the lock is released. */
static mr_status *remove_key(mr_resources *m, key *k)
{
    mr_lock(&m->mu);
    mr_map *c = mr_map_get(&m->containers, k->container);
    mr_object *o = c ? mr_map_remove(c, k->in_container) : NULL;
    m->n_removals++;
    mr_unlock(&m->mu);
    mr_object_unref(o);
    return o ? NULL : key_error(k, MR_NOT_FOUND, "does not exist");
}

/* The object lives on as long as ops hold references to it. */
mr_status *mr_resources_remove(mr_resources *m, mr_sv container, mr_sv name,
                               const mr_object_type *type)
{
    key k;
    key_init(&k, m, container, name, type->name);
    mr_status *st = remove_key(m, &k);
    key_deinit(&k);
    return st;
}

/* The handle has the name of the type as text, which is enough for the key. */
mr_status *mr_resources_remove_handle(mr_resources *m, const mr_handle *h)
{
    key k;
    key_init(&k, m, mr_sv_of(h->container), mr_sv_of(h->name), h->type_name);
    mr_status *st = remove_key(m, &k);
    key_deinit(&k);
    return st;
}

/* Removes the container under the lock and drops its objects afterwards. */
void mr_resources_clear(mr_resources *m, mr_sv container)
{
    object_vec dropped = {0};
    mr_lock(&m->mu);
    mr_map *c =
        mr_map_remove(&m->containers, container.n ? container : mr_sv_of(m->default_container));
    m->n_removals++;
    mr_unlock(&m->mu);
    if (c)
        container_free(c, &dropped);
    drop_all(&dropped);
}

/* ---- names ---- */

char *mr_resource_private_name(const char *node_name)
{
    static _Atomic int64_t counter;
    return mr_printf("_%lld_%s", (long long)atomic_fetch_add(&counter, 1), node_name);
}

static bool container_char(char ch, bool first)
{
    return isalnum((unsigned char)ch) || ch == '.' || (!first && (ch == '-' || ch == '/'));
}

/* The rules and texts are TensorFlow's. */
mr_status *mr_resource_check_names(mr_sv container, mr_sv shared_name)
{
    for (size_t i = 0; i < container.n; i++)
        if (!container_char(container.p[i], i == 0))
            return mr_invalid("container contains invalid characters: %.*s", MR_SV_ARG(container));
    if (shared_name.n && shared_name.p[0] == '_')
        return mr_invalid("shared_name cannot start with '_':%.*s", MR_SV_ARG(shared_name));
    return NULL;
}
