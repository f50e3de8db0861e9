/* ops/data/parallel_map.c -- see parallel_map.h.
 *
 * A piece is a run of consecutive elements of the input with the results of their calls. It is in the queue, which has
 * the order of the input, from before its calls start until the consumer takes it; it is done when all its results have
 * arrived. At any time one thread reads the input (`reading`).
 *
 * Handing an element to another thread costs several microseconds. So there are two ways to work, between which
 * choose_way_locked decides:
 * - calls by others: the first thread reads one element at a time and starts its call, which the session's threads run.
 *   For functions that may wait, take long, or have an input that does.
 * - own calls: whoever reads a piece calls the function for its elements, one after the other. The consumer does so
 *   itself while it has nothing to take; threads join it only if it asks for enough. Nothing is read that the consumer
 *   has not asked for.
 *
 * The threads, every running call and the consumer hold references. */
#include "ops/data/parallel_map.h"

#include "base/clock.h"
#include "base/memory.h"

#define MOST_CALLS 4096
#define CHEAP_NS 30000     /* own calls begin below this time of an element */
#define EXPENSIVE_NS 60000 /* and end above this one */
#define PIECE_NS 40000     /* time of a piece when threads share the work */
#define HELP_NS 100000     /* work that is worth waking a thread */
enum { MOST_IN_PIECE = 256, MOST_TENSORS = 8192 }; /* of a piece */

typedef struct piece {
    mr_parallel_map *m;
    int room, n; /* elements */
    int taken;
    bool done;
    mr_tensor **args; /* of each element: its tensors, which are owned; then captured values, which are not */
    mr_tensor **rets;
    mr_status **st;
    bool *end; /* the input has ended, or the function returned OUT_OF_RANGE */
    struct piece *next;
} piece;

struct mr_parallel_map {
    mr_refs refs;
    mr_parallel_map_spec spec;
    mr_data_env *env;
    mr_iterator *input; /* used by the thread that has set `reading` only */
    int n_args;         /* tensors of an element of the input */
    int most_threads;
    mr_cancel_entry on_cancel;
    bool registered;
    mr_later_fn *fn;    /* the consumer's; NULL: not opened */
    piece *current;     /* what the consumer has taken and not given out yet */
    mr_mutex mu;
    mr_cond ready; /* the consumer waits */
    mr_cond work;  /* threads wait */
    piece *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu);
    piece *spare MR_GUARDED_BY(mu);
    int64_t n MR_GUARDED_BY(mu);       /* elements in the queue */
    int64_t needed MR_GUARDED_BY(mu);  /* elements that the consumer asks for; 0: it is not here */
    int64_t read_ns MR_GUARDED_BY(mu); /* moving average of the time to read an element */
    int64_t cost_ns MR_GUARDED_BY(mu); /* of an element in all */
    int n_threads, n_idle MR_GUARDED_BY(mu);
    bool own_calls, reading, read_all, consumer_waits MR_GUARDED_BY(mu);
    bool over, ended MR_GUARDED_BY(mu); /* ended: the consumer has seen the end */
};

mr_status *mr_parallel_calls(int64_t n, int64_t *out)
{
    if (n == -1)
        n = mr_cpu_count();
    if (n < 1)
        return mr_invalid("num_parallel_calls must be greater than zero.");
    *out = MR_MIN(n, MOST_CALLS);
    return NULL;
}

/* ---- pieces ---- */

static int width_of(const mr_parallel_map *m) { return m->n_args + m->spec.fn->n_captured; }
static mr_tensor **args_of(const piece *p, int i) { return p->args + i * width_of(p->m); }
static mr_tensor **rets_of(const piece *p, int i) { return p->rets + i * p->m->spec.n_rets; }

/* One block of memory. */
static piece *piece_new(mr_parallel_map *m, int room)
{
    size_t row = sizeof(mr_tensor *) * (size_t)(width_of(m) + m->spec.n_rets) + sizeof(mr_status *) + sizeof(bool);
    piece *p = mr_calloc(1, sizeof *p + row * (size_t)room);
    p->m = m;
    p->room = room;
    p->args = (mr_tensor **)(p + 1);
    p->rets = p->args + room * width_of(m);
    p->st = (mr_status **)(p->rets + room * m->spec.n_rets);
    p->end = (bool *)(p->st + room);
    return p;
}

static void drop_element(piece *p, int i)
{
    mr_element_drop(args_of(p, i), p->m->n_args);
    mr_element_drop(rets_of(p, i), p->m->spec.n_rets);
    mr_status_free(p->st[i]);
    p->st[i] = NULL;
    p->end[i] = false;
}

static void piece_free(piece *p)
{
    for (int i = p->taken; i < p->n; i++)
        drop_element(p, i);
    mr_free(p);
}

static piece *take_spare_locked(mr_parallel_map *m, int room)
{
    piece *p = m->spare;
    if (!p || p->room < room)
        return NULL;
    m->spare = p->next;
    p->next = NULL;
    p->n = p->taken = 0;
    p->done = false;
    return p;
}

/* All elements of the piece are gone. One spare piece per thread is enough. */
static void recycle(mr_parallel_map *m, piece *p)
{
    MR_ASSERT(p->taken == p->n);
    mr_lock(&m->mu);
    piece *former = m->spare && m->spare->next && m->spare->next->next ? m->spare : NULL;
    if (former)
        m->spare = former->next;
    p->next = m->spare;
    m->spare = p;
    mr_unlock(&m->mu);
    mr_free(former);
}

static void free_pieces(piece *p)
{
    for (piece *next; p; p = next) {
        next = p->next;
        piece_free(p);
    }
}

/* ---- creating and closing ---- */

static void unref_map(mr_parallel_map *m)
{
    if (!mr_refs_drop(&m->refs))
        return;
    if (m->registered)
        mr_cancel_unregister(m->env->cancel, &m->on_cancel);
    free_pieces(m->head);
    free_pieces(m->spare);
    mr_iterator_close(m->input);
    mr_object_unref(&m->spec.dataset->base);
    mr_data_env_unref(m->env);
    mr_cond_deinit(&m->ready);
    mr_cond_deinit(&m->work);
    mr_mutex_deinit(&m->mu);
    mr_free(m);
}

static void cancel_map(mr_cancel_entry *e)
{
    mr_parallel_map *m = (mr_parallel_map *)((char *)e - offsetof(mr_parallel_map, on_cancel));
    mr_lock(&m->mu);
    m->over = true;
    mr_cond_signal(&m->ready);
    mr_cond_broadcast(&m->work);
    mr_unlock(&m->mu);
}

mr_status *mr_parallel_map_new(mr_iterator *it, const mr_parallel_map_spec *s, mr_parallel_map **out)
{
    mr_parallel_map *m = mr_new(mr_parallel_map);
    mr_refs_init(&m->refs);
    m->spec = *s;
    m->n_args = s->dataset->inputs[s->input]->n;
    m->most_threads = (int)MR_MIN(s->most, mr_cpu_count()) - 1; /* the consumer works too */
    m->env = mr_data_env_child(it->env);
    mr_object_ref(&s->dataset->base);
    mr_mutex_init(&m->mu);
    mr_cond_init(&m->ready);
    mr_cond_init(&m->work);
    m->on_cancel.fn = cancel_map;
    m->registered = mr_cancel_register(m->env->cancel, &m->on_cancel);
    m->over = !m->registered;
    mr_status *st = mr_iterator_open(s->dataset->inputs[s->input], m->env, it, &m->input);
    if (st) {
        unref_map(m);
        m = NULL;
    }
    *out = m;
    return st;
}

/* Called by the consumer, which is therefore not inside a call. */
void mr_parallel_map_close(mr_parallel_map *m)
{
    if (!m)
        return;
    mr_cancel_start(m->env->cancel);
    mr_later_fn_close(m->fn);
    if (m->current)
        piece_free(m->current);
    m->current = NULL;
    unref_map(m);
}

/* ---- reading ---- */

static void append_locked(mr_parallel_map *m, piece *p)
{
    p->next = NULL;
    if (m->tail)
        m->tail->next = p;
    else
        m->head = p;
    m->tail = p;
    m->n += p->n;
}

/* The number of elements that the consumer asks for and nobody has read yet. */
static int64_t unread_locked(const mr_parallel_map *m) { return MR_MAX(m->needed - m->n, 0); }

/* A consumer that works itself looks by itself. */
static void tell_consumer_locked(mr_parallel_map *m)
{
    if (m->consumer_waits)
        mr_cond_signal(&m->ready);
}

/* Wakes a thread if the consumer alone would take long. */
static void get_help_locked(mr_parallel_map *m)
{
    if (m->n_idle > 0 && !m->read_all && unread_locked(m) * m->cost_ns >= HELP_NS)
        mr_cond_signal(&m->work);
}

/* Reads up to p->room elements. An error takes the place of its element, and the next one is read; the end is the last.
 * During an attempt it may read fewer. `reading` must be set; it is reset, and the piece is in the queue. */
static void read_piece(mr_parallel_map *m, piece *p, mr_attempt *a)
{
    int64_t start = mr_now_ns();
    m->env->attempt = a;
    while (p->n < p->room) {
        int i = p->n;
        p->st[i] = mr_iterator_next(m->input, args_of(p, i), &p->end[i]);
        if (p->st[i] && a && a->gave_up) {
            drop_element(p, i);
            break;
        }
        p->n++;
        if (p->end[i] || (p->st[i] && mr_cancel_started(m->env->cancel)))
            break;
    }
    m->env->attempt = NULL;
    int64_t took = (mr_now_ns() - start) / MR_MAX(p->n, 1);
    mr_lock(&m->mu);
    m->reading = false;
    m->read_all |= p->n > 0 && p->end[p->n - 1];
    if (m->read_all)
        mr_cond_broadcast(&m->work); /* threads end */
    /* counts as at most four times the average, because this thread may have been descheduled meanwhile */
    m->read_ns = m->read_ns ? (m->read_ns * 3 + MR_MIN(took, 4 * m->read_ns)) / 4 : took;
    append_locked(m, p);
    if (unread_locked(m) > 0)
        tell_consumer_locked(m); /* it may read now */
    mr_unlock(&m->mu);
}

/* fn_ns: of a call; MR_LATER_FN_UNKNOWN: such calls are not for this thread. */
static void choose_way_locked(mr_parallel_map *m, int64_t fn_ns)
{
    bool known = fn_ns != MR_LATER_FN_UNKNOWN;
    m->cost_ns = known ? fn_ns + m->read_ns : EXPENSIVE_NS;
    bool own = known && m->cost_ns <= (m->own_calls ? EXPENSIVE_NS : CHEAP_NS);
    if (own != m->own_calls) {
        m->own_calls = own;
        mr_cond_broadcast(&m->work);
        tell_consumer_locked(m);
    }
}

/* ---- own calls ---- */

static mr_status *open_function(mr_parallel_map *m, mr_later_fn **out)
{
    return *out ? NULL : mr_data_fn_open(m->spec.fn, m->spec.dataset, m->env, m->n_args, m->spec.n_rets, out);
}

static void call_all(mr_parallel_map *m, mr_later_fn *fn, piece *p)
{
    for (int i = 0; i < p->n; i++) {
        if (p->st[i] || p->end[i])
            continue;
        p->st[i] = mr_data_out_of_range(mr_later_fn_run(fn, args_of(p, i), rets_of(p, i)), m->spec.keeps_count,
                                        &p->end[i]);
        if (!m->spec.keeps_args)
            mr_element_drop(args_of(p, i), m->n_args);
    }
}

/* The size of the next piece: all that is unread, unless threads share it. */
static int piece_size_locked(const mr_parallel_map *m)
{
    int64_t unread = unread_locked(m), n = unread;
    if (m->spec.most > 1 && unread * m->cost_ns >= HELP_NS)
        n = PIECE_NS / MR_MAX(m->cost_ns, 1);
    int64_t most = MR_MIN(MOST_IN_PIECE, MOST_TENSORS / (width_of(m) + m->spec.n_rets + 1));
    return (int)MR_MAX(MR_MIN(MR_MIN(n, unread), most), 1);
}

static bool may_read_locked(const mr_parallel_map *m)
{
    return m->own_calls && !m->reading && !m->read_all && !m->over && unread_locked(m) > 0;
}

/* Reads a piece and calls the function for its elements. may_read_locked must hold; the lock is released meanwhile. */
static void do_piece_locked(mr_parallel_map *m, mr_later_fn *fn, mr_attempt *a) MR_REQUIRES(m->mu)
{
    int size = piece_size_locked(m);
    piece *p = take_spare_locked(m, size);
    m->reading = true;
    mr_unlock(&m->mu);
    if (!p)
        p = piece_new(m, size);
    int room = p->room; /* a spare piece may have more */
    p->room = size;
    read_piece(m, p, a);
    p->room = room;
    mr_lock(&m->mu);
    get_help_locked(m);
    mr_unlock(&m->mu);
    call_all(m, fn, p);
    int64_t fn_ns = mr_later_fn_cost_ns(fn);
    mr_lock(&m->mu);
    p->done = true;
    choose_way_locked(m, fn_ns);
    tell_consumer_locked(m);
}

/* ---- calls by others ---- */

static void call_done(void *ctx, mr_status *st)
{
    piece *p = ctx;
    mr_parallel_map *m = p->m;
    mr_lock(&m->mu);
    p->st[0] = mr_data_out_of_range(st, m->spec.keeps_count, &p->end[0]);
    p->done = true;
    if (p == m->head || !m->spec.in_order)
        tell_consumer_locked(m);
    mr_unlock(&m->mu);
    unref_map(m);
}

static void start_call(mr_parallel_map *m, piece *p)
{
    const mr_data_fn *fn = m->spec.fn;
    mr_tensor **args = args_of(p, 0);
    for (int i = 0; i < fn->n_captured; i++)
        args[m->n_args + i] = fn->captured[i];
    mr_refs_take(&m->refs);
    mr_data_start(fn, m->spec.dataset, m->env, args, width_of(m), rets_of(p, 0), m->spec.n_rets, call_done, p);
}

/* The lock is released meanwhile. */
static void start_one_locked(mr_parallel_map *m) MR_REQUIRES(m->mu)
{
    piece *p = take_spare_locked(m, 1);
    m->reading = true;
    mr_unlock(&m->mu);
    if (!p)
        p = piece_new(m, 1);
    int room = p->room;
    p->room = 1;
    read_piece(m, p, NULL);
    p->room = room;
    bool calls = !p->st[0] && !p->end[0];
    mr_lock(&m->mu);
    p->done = !calls;
    if (p->done)
        tell_consumer_locked(m);
    mr_unlock(&m->mu);
    if (calls)
        start_call(m, p);
    mr_lock(&m->mu);
}

/* ---- threads ---- */

/* A function that cannot be opened fails in the calls that are started. */
static mr_later_fn *open_for_thread(mr_parallel_map *m)
{
    mr_later_fn *fn = NULL;
    mr_status_free(open_function(m, &fn));
    return fn;
}

static void wait_for_work_locked(mr_parallel_map *m) MR_REQUIRES(m->mu)
{
    m->n_idle++;
    mr_cond_wait(&m->work, &m->mu);
    m->n_idle--;
}

/* The first thread also starts calls by others, and measures them. The others end when there is nothing to share. */
static void work_in_thread(mr_parallel_map *m, bool first)
{
    mr_later_fn *fn = open_for_thread(m);
    mr_lock(&m->mu);
    while (!m->over && !m->read_all) {
        if (fn && may_read_locked(m)) {
            do_piece_locked(m, fn, NULL);
        } else if (first && !m->own_calls && !m->reading && m->n < m->spec.most) {
            start_one_locked(m);
            choose_way_locked(m, fn ? mr_later_fn_cost_ns(fn) : MR_LATER_FN_UNKNOWN);
        } else {
            wait_for_work_locked(m);
        }
    }
    mr_unlock(&m->mu);
    mr_later_fn_close(fn);
    unref_map(m);
}

static void run_first(void *arg) { work_in_thread(arg, true); }
static void run_other(void *arg) { work_in_thread(arg, false); }

static mr_status *add_thread(mr_parallel_map *m)
{
    mr_lock(&m->mu);
    bool first = m->n_threads++ == 0;
    mr_unlock(&m->mu);
    mr_refs_take(&m->refs);
    mr_status *st = mr_later_thread(m->env->later, "map", first ? run_first : run_other, m);
    if (!st)
        return NULL;
    mr_lock(&m->mu);
    m->n_threads--;
    mr_unlock(&m->mu);
    unref_map(m); /* not the last reference */
    return st;
}

/* The first thread begins with the first request. More are added while a request is worth several; without them it only
 * takes longer. */
static mr_status *add_threads(mr_parallel_map *m, int64_t most)
{
    mr_lock(&m->mu);
    int n = m->n_threads;
    bool worth = m->own_calls && n < m->most_threads && !m->read_all && most * m->cost_ns >= HELP_NS * (n + 1);
    mr_unlock(&m->mu);
    if (n == 0)
        return add_thread(m);
    if (worth)
        mr_status_free(add_thread(m));
    return NULL;
}

/* ---- taking ---- */

/* A piece with the end in it may only be taken when it is the first. */
static bool has_end(const piece *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->end[i])
            return true;
    return false;
}

/* Takes the first piece of the queue if it is done or, if the order does not matter, any that is done. */
static piece *take_locked(mr_parallel_map *m)
{
    piece *before = NULL;
    for (piece *p = m->head; p; before = p, p = p->next) {
        bool may = p->done && (p == m->head || (!m->spec.in_order && !has_end(p)));
        if (!may && m->spec.in_order)
            return NULL;
        if (!may)
            continue;
        if (before)
            before->next = p->next;
        else
            m->head = p->next;
        if (m->tail == p)
            m->tail = before;
        m->n -= p->n;
        return p;
    }
    return NULL;
}

/* Makes a piece current: waits for one, or makes it here. NULL with m->current NULL: the end was reached. */
static mr_status *next_piece(mr_parallel_map *m, int64_t needed, mr_attempt *a)
{
    mr_status *st = NULL;
    bool gave_up = false;
    mr_lock(&m->mu);
    m->needed = needed;
    while (!m->ended && !st && !gave_up && !(m->current = take_locked(m)) && !m->over) {
        if (m->fn && may_read_locked(m)) {
            do_piece_locked(m, m->fn, a);
            gave_up = a && a->gave_up;
        } else if (a) {
            gave_up = true;
        } else if (m->own_calls && !m->fn) {
            mr_unlock(&m->mu);
            st = open_function(m, &m->fn);
            mr_lock(&m->mu);
        } else {
            get_help_locked(m);
            m->consumer_waits = true;
            mr_cond_wait(&m->ready, &m->mu);
            m->consumer_waits = false;
        }
    }
    bool over = m->over && !m->ended;
    m->needed = 0;
    if (m->current && !m->own_calls && m->n_idle > 0)
        mr_cond_signal(&m->work); /* there is room in the queue */
    mr_unlock(&m->mu);
    if (st || m->current)
        return st;
    if (gave_up)
        a->gave_up = true;
    return gave_up || over ? mr_error(MR_CANCELLED, "Iterator was cancelled") : NULL;
}

static mr_status *give_element(mr_parallel_map *m, piece *p, int i, mr_tensor **out, bool *end)
{
    mr_status *st = p->st[i];
    int n = m->spec.keeps_args ? m->n_args : 0;
    p->st[i] = NULL;
    *end = !st && p->end[i];
    if (!st && !*end) {
        memcpy(out, args_of(p, i), sizeof *out * (size_t)n);
        memset(args_of(p, i), 0, sizeof *out * (size_t)n);
        memcpy(out + n, rets_of(p, i), sizeof *out * (size_t)m->spec.n_rets);
        memset(rets_of(p, i), 0, sizeof *out * (size_t)m->spec.n_rets);
    }
    drop_element(p, i);
    return st || *end || m->spec.keeps_args ? st : mr_element_check(m->spec.dataset, out);
}

/* The next element of the current piece. */
static mr_status *take_element(mr_parallel_map *m, mr_tensor **out, bool *end)
{
    piece *p = m->current;
    mr_status *st = NULL;
    if (p->taken < p->n)
        st = give_element(m, p, p->taken++, out, end);
    if (*end) {
        mr_lock(&m->mu);
        m->ended = true;
        mr_unlock(&m->mu);
    }
    if (p->taken < p->n && !*end)
        return st;
    m->current = NULL;
    if (p->taken == p->n)
        recycle(m, p);
    else
        piece_free(p); /* elements behind the end */
    return st;
}

static mr_status *take_block(mr_parallel_map *m, int64_t most, mr_attempt *a, mr_tensor **out, int64_t *n, bool *end)
{
    int width = (m->spec.keeps_args ? m->n_args : 0) + m->spec.n_rets;
    *n = 0;
    *end = false;
    if (!a || m->n_threads > 0)
        MR_TRY(add_threads(m, most));
    while (*n < most) {
        if (!m->current)
            MR_TRY(next_piece(m, most - *n, a));
        if ((*end = !m->current))
            return NULL;
        if (m->current->n > m->current->taken) {
            MR_TRY(take_element(m, out + *n * width, end));
            if (*end)
                return NULL;
            ++*n;
        } else { /* an attempt may leave an empty piece */
            bool none = false;
            MR_TRY(take_element(m, NULL, &none));
        }
    }
    return NULL;
}

mr_status *mr_parallel_map_next_block(mr_parallel_map *m, int64_t most, mr_tensor **out, int64_t *n, bool *end)
{
    return take_block(m, most, NULL, out, n, end);
}

mr_status *mr_parallel_map_next(mr_parallel_map *m, mr_attempt *a, mr_tensor **out, bool *end)
{
    int64_t n;
    return take_block(m, 1, a, out, &n, end);
}
