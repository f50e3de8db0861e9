/* run/parameter_store.c -- the parameter stores of this process, by name.
 *
 * A binding lives until it is unbound and no longer used: unbinding removes the name at once and then waits for the
 * users. Bindings in use are found by their store, even if their name has been removed.
 *
 * Invariant: a binding is in `in_use` exactly while users > 0. */
#include "run/parameter_store.h"

#include "base/map.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/vec.h"

typedef struct binding {
    mr_parameter_store *store;
    int users; /* calls of mr_parameter_store_take without a give */
} binding;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static mr_mutex mu;
static mr_cond given_back;
static mr_map bound MR_GUARDED_BY(mu); /* name -> binding */

static void init_bindings(void)
{
    mr_mutex_init(&mu);
    mr_cond_init(&given_back);
}

/* Waits until the last user has given the store back; mu is released meanwhile. */
static void unbind_locked(const char *name) MR_REQUIRES(mu);
static void unbind_locked(const char *name)
{
    binding *b = mr_map_remove(&bound, mr_sv_of(name));
    if (bound.n == 0) /* leak checkers find nothing at the end of the process */
        mr_map_deinit(&bound);
    while (b && b->users > 0)
        mr_cond_wait(&given_back, &mu);
    MR_ASSERT(!b || b->users == 0);
    mr_free(b);
}

/* Bindings with users. */
static MR_VEC(binding *) in_use MR_GUARDED_BY(mu);

/* With s NULL it unbinds the name and waits until no op uses the store, so the owner may free the store
 * afterwards. A name must be unbound before it can be bound again. */
mr_status *mr_parameter_store_bind(const char *name, mr_parameter_store *s)
{
    mr_status *st = NULL;
    pthread_once(&once, init_bindings);
    mr_lock(&mu);
    if (!s) {
        unbind_locked(name);
    } else if (mr_map_getz(&bound, name)) {
        st = mr_error(MR_ALREADY_EXISTS, "Parameter store '%s' is already bound in this process", name);
    } else {
        binding *b = mr_new(binding);
        b->store = s;
        mr_map_putz(&bound, name, b);
    }
    mr_unlock(&mu);
    return st;
}

/* Counts the user. *out may be used without the lock until mr_parameter_store_give. */
mr_status *mr_parameter_store_take(mr_sv name, mr_parameter_store **out)
{
    pthread_once(&once, init_bindings);
    mr_lock(&mu);
    binding *b = mr_map_get(&bound, name);
    if (b && b->users++ == 0)
        mr_vec_push(&in_use, b);
    *out = b ? b->store : NULL;
    mr_unlock(&mu);
    return b ? NULL : mr_error(MR_NOT_FOUND, "No parameter store '%.*s' is bound in this process", MR_SV_ARG(name));
}

/* The binding is found by its store: its name may be unbound, or bound to another store by now. */
void mr_parameter_store_give(mr_parameter_store *s)
{
    mr_lock(&mu);
    for (int i = 0; i < in_use.n; i++)
        if (in_use.p[i]->store == s && --in_use.p[i]->users == 0) {
            mr_vec_remove_swap(&in_use, i);
            mr_cond_broadcast(&given_back);
            break;
        }
    if (in_use.n == 0)
        mr_vec_deinit(&in_use);
    mr_unlock(&mu);
}
