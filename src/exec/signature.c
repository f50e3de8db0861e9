/* exec/signature.c -- which program serves which feeds, fetches and targets.
 *
 * Nodes are compared and sorted by address: the nodes of a client's graph never move and are never freed
 * before it. Entries are kept in chains by hash; the table owns them, and they own their copies of the
 * signature. */
#include "exec/signature.h"

#include "base/memory.h"

static uint64_t mix_hash(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* The number is hashed too, so that feeds and fetches cannot be confused. */
static uint64_t mix_outs(uint64_t h, const mr_out *o, int n)
{
    h = mix_hash(h, (uint64_t)n);
    for (int i = 0; i < n; i++)
        h = mix_hash(mix_hash(h, (uintptr_t)o[i].node), (uint64_t)o[i].index);
    return h;
}

/* Depends on the order of all members, so a sorted signature and an unsorted one have different hashes. */
uint64_t mr_run_signature_hash(const mr_run_signature *sig, bool partial)
{
    uint64_t h = mix_outs(partial, sig->feeds, sig->n_feeds);
    h = mix_outs(h, sig->fetches, sig->n_fetches);
    for (int i = 0; i < sig->n_targets; i++)
        h = mix_hash(h, (uintptr_t)sig->targets[i]);
    return h;
}

static bool same_outs(const mr_out *a, const mr_out *b, int n)
{
    for (int i = 0; i < n; i++)
        if (!mr_out_eq(a[i], b[i]))
            return false;
    return true;
}

/* Equal members in equal order. */
static bool same_signature(const mr_run_signature *a, const mr_run_signature *b)
{
    if (a->n_feeds != b->n_feeds || a->n_fetches != b->n_fetches || a->n_targets != b->n_targets)
        return false;
    for (int i = 0; i < a->n_targets; i++)
        if (a->targets[i] != b->targets[i])
            return false;
    return same_outs(a->feeds, b->feeds, a->n_feeds) &&
           same_outs(a->fetches, b->fetches, a->n_fetches);
}

/* Compares the whole signature: different ones may have equal hashes. */
mr_entry *mr_run_signatures_find(const mr_run_signatures *s, const mr_run_signature *sig, bool partial,
                             uint64_t hash)
{
    for (mr_entry *e = mr_imap_get(&s->by_hash, hash); e; e = e->next)
        if (e->partial == partial && same_signature(&e->sig, sig))
            return e;
    return NULL;
}

/* ---- copies and order ---- */

/* Never NULL, so that empty arrays can be sorted and searched. */
static void *copy_of(const void *p, int n, size_t bytes)
{
    void *c = mr_calloc((size_t)n + 1, bytes);
    if (n)
        memcpy(c, p, (size_t)n * bytes);
    return c;
}

/* Deep: the caller's arrays may change after the run. */
static void copy_signature(const mr_run_signature *sig, mr_run_signature *out)
{
    *out = *sig;
    out->feeds = copy_of(sig->feeds, sig->n_feeds, sizeof(mr_out));
    out->fetches = copy_of(sig->fetches, sig->n_fetches, sizeof(mr_out));
    out->targets = copy_of(sig->targets, sig->n_targets, sizeof(mr_node *));
}

void mr_run_signature_deinit(mr_run_signature *sig)
{
    mr_free((void *)(uintptr_t)sig->feeds);
    mr_free((void *)(uintptr_t)sig->fetches);
    mr_free((void *)(uintptr_t)sig->targets);
    *sig = (mr_run_signature){0};
}

/* For qsort and bsearch; the order is arbitrary but the same for the life of the graph. */
static int by_out(const void *a, const void *b)
{
    const mr_out *x = a, *y = b;
    if (x->node != y->node)
        return (uintptr_t)x->node < (uintptr_t)y->node ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int by_node(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (mr_node *const *)a, y = (uintptr_t) * (mr_node *const *)b;
    return (x > y) - (x < y);
}

/* Drops equal neighbours of a sorted array and returns how many members are left. */
static int drop_duplicates(void *p, int n, size_t bytes, int (*cmp)(const void *, const void *))
{
    char *at = p;
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (kept == 0 || cmp(at + (size_t)(kept - 1) * bytes, at + (size_t)i * bytes) != 0)
            memmove(at + (size_t)kept++ * bytes, at + (size_t)i * bytes, bytes);
    return kept;
}

/* Duplicate feeds are kept: mr_prepare reports them as an error. */
void mr_run_signature_sort(const mr_run_signature *sig, mr_run_signature *out)
{
    copy_signature(sig, out);
    mr_out *feeds = (mr_out *)(uintptr_t)out->feeds, *fetches = (mr_out *)(uintptr_t)out->fetches;
    mr_node **targets = (mr_node **)(uintptr_t)out->targets;
    qsort(feeds, (size_t)out->n_feeds, sizeof(mr_out), by_out);
    qsort(fetches, (size_t)out->n_fetches, sizeof(mr_out), by_out);
    qsort(targets, (size_t)out->n_targets, sizeof(mr_node *), by_node);
    out->n_fetches = drop_duplicates(fetches, out->n_fetches, sizeof(mr_out), by_out);
    out->n_targets = drop_duplicates(targets, out->n_targets, sizeof(mr_node *), by_node);
}

/* ---- entries ---- */

/* The position of each output in the sorted array; -1: not there. The caller owns the array. */
static int *find_positions(const mr_out *o, int n, const mr_out *sorted, int n_sorted)
{
    int *at = mr_new_array(int, n + 1);
    for (int i = 0; i < n; i++) {
        const mr_out *found = bsearch(&o[i], sorted, (size_t)n_sorted, sizeof(mr_out), by_out);
        at[i] = found ? (int)(found - sorted) : -1;
    }
    return at;
}

/* The caller must have found that the signature is new. The entry goes to the front of the chain of its hash. */
mr_entry *mr_run_signatures_add(mr_run_signatures *s, const mr_run_signature *sig, bool partial, uint64_t hash,
                            const mr_run_signature *sorted, mr_program *p)
{
    mr_entry *e = mr_new(mr_entry);
    copy_signature(sig, &e->sig);
    e->partial = partial;
    e->program = p;
    e->feed_at = find_positions(sig->feeds, sig->n_feeds, sorted->feeds, sorted->n_feeds);
    e->fetch_at = find_positions(sig->fetches, sig->n_fetches, sorted->fetches, sorted->n_fetches);
    MR_ASSERT(sorted->n_feeds <= sig->n_feeds && sorted->n_fetches <= sig->n_fetches);
    e->next = mr_imap_put(&s->by_hash, hash, e);
    return e;
}

/* Frees the entries with their copies of the signatures; the programs belong to the session. */
void mr_run_signatures_deinit(mr_run_signatures *s)
{
    uint32_t pos = 0;
    uint64_t hash;
    void *v;
    while (mr_imap_next(&s->by_hash, &pos, &hash, &v))
        for (mr_entry *e = v, *next; e; e = next) {
            next = e->next;
            mr_run_signature_deinit(&e->sig);
            mr_free(e->feed_at);
            mr_free(e->fetch_at);
            mr_free(e);
        }
    mr_imap_deinit(&s->by_hash);
}
