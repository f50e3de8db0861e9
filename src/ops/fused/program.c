/* ops/fused/program.c -- from the shapes of the inputs to a schedule, and running its tiles.
 *
 * Broadcasting only makes results larger, so the members are ordered by the size of their results: what is smaller (a
 * scalar, a row) is computed once, before the larger results that use it. Members with results of one size run
 * together, tile by tile: for each tile, every member's loop runs once over packed elements, exactly as it would over
 * the whole tensor. Results that only other members of the step read stay in a few buffers, which are used again as
 * soon as their value is not needed any more. So a chain reads its inputs once and writes its outputs once.
 *
 * A size with a single member is left to the member's own kernel. If shapes do not fit, have a dimension of 0 or more
 * than MR_FUSED_MAX_RANK dimensions, all members are run by their kernels, one by one.
 *
 * An operand as large as the result has its elements in the same order, whatever its dimensions are: dimensions of the
 * two can only differ by ones, or by the reshaping of MR_FORM_FLAT. */
#include "ops/fused/program.h"

#include <string.h>

#include "base/memory.h"
#include "ops/broadcast.h"

enum {
    BLOCK_BYTES = 4096,  /* of a buffer */
    LARGE_BYTES = 1 << 20, /* tensors of this size together are not in the second-level cache */
    AHEAD = 2,             /* tiles */
    ARENA_BYTES = 49152, /* of all buffers of a thread, on its stack */
    LEAST_TILE = 64,     /* elements */
    MAX_OPERANDS = 384,
    MAX_SOURCES = MR_FUSED_MAX_INPUTS, /* of one member */
};
#define SMALL_NS 10000.0 /* less work than this is not worth a call of the thread pool */
#define CONVERT_NS 0.5   /* of an element */

/* ---- shapes ---- */

static bool same_dims(const mr_fused_dims *a, const mr_fused_dims *b)
{
    return mr_shape_eq(a->rank, a->dims, b->rank, b->dims);
}

/* Broadcasts b into a; false if they do not fit or the result is too large to count. */
static bool broadcast_into(mr_fused_dims *a, const mr_fused_dims *b)
{
    mr_fused_dims out = {.rank = MR_MAX(a->rank, b->rank), .n = 1};
    for (int i = 1; i <= out.rank; i++) {
        int64_t x = i <= a->rank ? a->dims[a->rank - i] : 1, y = i <= b->rank ? b->dims[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        out.dims[out.rank - i] = x == 1 ? y : x;
        if (!mr_i64_mul(out.n, out.dims[out.rank - i], &out.n))
            return false;
    }
    *a = out;
    return true;
}

static bool all_broadcast(const mr_fused_member *m, const mr_fused_dims *dims, mr_fused_dims *out)
{
    *out = dims[m->in[0]];
    for (int i = 1; i < m->n_in; i++)
        if (!broadcast_into(out, &dims[m->in[i]]))
            return false;
    return true;
}

/* The bias of MR_FORM_BIAS, or the condition of MR_FORM_SELECT that chooses rows, with as many dimensions as the result. */
static mr_fused_dims aligned_dims(const mr_fused_dims *x, int rank, int at)
{
    mr_fused_dims out = {.rank = rank, .n = x->n};
    for (int d = 0; d < rank; d++)
        out.dims[d] = d == at ? x->dims[0] : 1;
    return out;
}

/* The shape of a member's result; false if the member's kernel must decide, because the shapes are not valid, or not
 * usual. */
static bool member_dims(const mr_fused_member *m, const mr_fused_dims *dims, mr_fused_dims *out)
{
    const mr_fused_dims *x = &dims[m->in[0]], *y = m->n_in > 1 ? &dims[m->in[1]] : NULL;
    *out = *x;
    switch (m->form) {
    case MR_FORM_BROADCAST:
    case MR_FORM_SELECT_V2: return all_broadcast(m, dims, out);
    case MR_FORM_SAME: return m->n_in == 2 && same_dims(x, y);
    case MR_FORM_FLAT: return m->n_in == 2 && x->n == y->n;
    case MR_FORM_BIAS:
        return m->n_in == 2 && x->rank >= 2 && y->rank == 1 && y->dims[0] == x->dims[m->channels_first ? 1 : x->rank - 1];
    case MR_FORM_SUM:
    case MR_FORM_SCALARS:
        for (int i = 1; i < m->n_in; i++)
            if (!same_dims(x, &dims[m->in[i]]) && (m->form == MR_FORM_SUM || dims[m->in[i]].rank > 0))
                return false;
        return true;
    case MR_FORM_SELECT:
        if (m->n_in != 3)
            return false;
        *out = *y;
        return same_dims(y, &dims[m->in[2]]) &&
               (x->rank == 0 || same_dims(x, y) || (x->rank == 1 && y->rank >= 1 && x->dims[0] == y->dims[0]));
    case MR_FORM_CAST:
    case MR_FORM_PASS: return true;
    case MR_FORM_NONE: break;
    }
    return false;
}

/* The dimensions of operand i of a member, aligned with those of the result from the right. */
static mr_fused_dims operand_dims(const mr_fused_member *m, int i, const mr_fused_dims *dims, const mr_fused_dims *result)
{
    const mr_fused_dims *x = &dims[m->in[i]];
    if (m->form == MR_FORM_BIAS && i == 1)
        return aligned_dims(x, result->rank, m->channels_first ? 1 : result->rank - 1);
    if (m->form == MR_FORM_SELECT && i == 0 && x->rank == 1)
        return aligned_dims(x, result->rank, 0);
    return *x;
}

/* Sets the shapes of all values; false if one is not usual. */
static bool find_dims(const mr_fused *f, const mr_value *leaves, mr_fused_dims *dims)
{
    for (int v = 0; v < f->n_leaves; v++) {
        const mr_tensor *t = leaves[v].t;
        if (t->rank > MR_FUSED_MAX_RANK || t->n == 0)
            return false;
        dims[v] = (mr_fused_dims){.rank = t->rank, .n = t->n};
        memcpy(dims[v].dims, t->dims, sizeof *t->dims * (size_t)t->rank);
    }
    for (int i = 0; i < f->n_members; i++) {
        mr_fused_dims *out = &dims[f->n_leaves + i];
        if (!member_dims(&f->members[i], dims, out) || out->n == 0)
            return false;
    }
    return true;
}

/* ---- steps ---- */

/* Members that pass their input on are not run. */
static bool is_run(const mr_fused *f, int member) { return f->root[f->n_leaves + member] == f->n_leaves + member; }

/* Gives each member that is run the number of its step: by the size of its result, or its own if by_node. Returns the
 * number of steps. */
static int number_steps(const mr_fused *f, const mr_fused_dims *dims, bool by_node, int *step_of)
{
    int n_steps = 0, left = 0;
    for (int i = 0; i < f->n_members; i++) {
        step_of[i] = by_node && is_run(f, i) ? n_steps++ : -1;
        left += !by_node && is_run(f, i);
    }
    while (left > 0) {
        int64_t least = INT64_MAX;
        for (int i = 0; i < f->n_members; i++)
            if (is_run(f, i) && step_of[i] < 0)
                least = MR_MIN(least, dims[f->n_leaves + i].n);
        for (int i = 0; i < f->n_members; i++)
            if (is_run(f, i) && step_of[i] < 0 && dims[f->n_leaves + i].n == least) {
                step_of[i] = n_steps;
                left--;
            }
        n_steps++;
    }
    return n_steps;
}

static void find_last_steps(const mr_fused *f, const int *step_of, mr_fused_schedule *s)
{
    for (int v = 0; v < f->n_values; v++)
        s->last_step[v] = -1;
    for (int i = 0; i < f->n_members; i++)
        for (int k = 0; step_of[i] >= 0 && k < f->members[i].n_in; k++) {
            int *last = &s->last_step[f->root[f->members[i].in[k]]];
            *last = MR_MAX(*last, step_of[i]);
        }
    for (int k = 0; k < f->n_out; k++)
        s->last_step[f->out[k]] = s->n_steps;
}

/* ---- the tiles of a step ---- */

typedef struct tiler {
    const mr_fused *f;
    mr_fused_schedule *s;
    mr_fused_tiles *t;
    const int *step_of;
    int step;
    int operand_of[MR_FUSED_MAX_VALUES]; /* -1: none yet. Not for walks */
    int last_reader[MR_FUSED_MAX_VALUES]; /* member */
    int spare[MAX_OPERANDS], n_spare;     /* buffers that may be used again */
    size_t widest;
    int n_source_room;
} tiler;

static int take_slot(tiler *w) { return w->n_spare > 0 ? w->spare[--w->n_spare] : w->t->n_slots++; }

/* True if a result must exist as a tensor: the caller reads it, or another step. */
static bool is_kept(const tiler *w, int v) { return w->s->last_step[v] != w->step; }

static int add_operand(tiler *w, mr_fused_operand o)
{
    if (w->t->n_operands == MAX_OPERANDS)
        return -1;
    if (o.place != MR_FUSED_TENSOR)
        w->widest = MR_MAX(w->widest, o.bytes);
    w->t->operands[w->t->n_operands] = o;
    return w->t->n_operands++;
}

/* Fills in strides and merges dimensions that the operand steps through alike. */
static void make_walk(mr_fused_walk *k, const mr_fused_dims *x, const mr_fused_dims *result)
{
    int64_t strides[MR_FUSED_MAX_RANK], step = 1;
    int missing = result->rank - x->rank;
    MR_ASSERT(missing >= 0);
    for (int d = result->rank - 1; d >= 0; d--) {
        int64_t size = d < missing ? 1 : x->dims[d - missing];
        strides[d] = size == 1 ? 0 : step;
        step *= size;
    }
    k->rank = 0;
    for (int d = 0; d < result->rank; d++) {
        int last = k->rank - 1;
        if (result->dims[d] == 1)
            continue;
        if (last >= 0 && k->strides[last] == strides[d] * result->dims[d]) {
            k->dims[last] *= result->dims[d];
            k->strides[last] = strides[d];
        } else {
            k->dims[k->rank] = result->dims[d];
            k->strides[k->rank++] = strides[d];
        }
    }
    k->period = 1;
    int first = 0;
    while (first < k->rank && k->strides[first] == 0)
        first++;
    for (; first < k->rank; first++)
        k->period *= k->dims[first];
}

static bool same_walk(const mr_fused_walk *a, const mr_fused_walk *b)
{
    size_t bytes = sizeof *a->dims * (size_t)a->rank;
    return a->value == b->value && a->rank == b->rank && memcmp(a->dims, b->dims, bytes) == 0 &&
           memcmp(a->strides, b->strides, bytes) == 0;
}

/* The operand for a value that is smaller than the results of the step. -1: there are too many. */
static int small_operand(tiler *w, const mr_fused_member *m, int i, const mr_fused_dims *result)
{
    int v = w->f->root[m->in[i]];
    uint8_t bytes = (uint8_t)mr_dtype_size(w->f->types[v]);
    if (w->s->dims[v].n == 1) {
        if (w->operand_of[v] < 0)
            w->operand_of[v] = add_operand(w, (mr_fused_operand){MR_FUSED_SPREAD, bytes, (uint8_t)v, -1, w->t->n_slots++});
        return w->operand_of[v];
    }
    mr_fused_dims x = operand_dims(m, i, w->s->dims, result);
    mr_fused_walk *k = &w->t->walks[w->t->n_walks];
    k->value = v;
    k->bytes = bytes;
    make_walk(k, &x, result);
    for (int o = 0; o < w->t->n_operands; o++)
        if (w->t->operands[o].place == MR_FUSED_WALK && same_walk(&w->t->walks[w->t->operands[o].walk], k))
            return o;
    return add_operand(w, (mr_fused_operand){MR_FUSED_WALK, bytes, (uint8_t)v, w->t->n_walks++, w->t->n_slots++});
}

static int source_operand(tiler *w, const mr_fused_member *m, int i, const mr_fused_dims *result)
{
    int v = w->f->root[m->in[i]];
    if (w->s->dims[v].n < result->n)
        return small_operand(w, m, i, result);
    if (w->operand_of[v] < 0)
        w->operand_of[v] = add_operand(w, (mr_fused_operand){MR_FUSED_TENSOR, (uint8_t)mr_dtype_size(w->f->types[v]), (uint8_t)v, -1, -1});
    return w->operand_of[v];
}

/* True if input i of a member is in a buffer that nobody reads afterwards; of equal inputs only the first counts. */
static bool ends_buffer(const tiler *w, int member, int i)
{
    const mr_fused_member *m = &w->f->members[member];
    int v = w->f->root[m->in[i]], o = w->operand_of[v];
    for (int k = 0; k < i; k++)
        if (w->f->root[m->in[k]] == v)
            return false;
    return o >= 0 && w->t->operands[o].place == MR_FUSED_BUFFER && w->last_reader[v] == member;
}

/* The buffer for a member's result: that of an operand which is read for the last time, if its elements have the same
 * size and the loop may overwrite what it reads; else one that no operand is in. Then gives back the others. */
static int result_buffer(tiler *w, int member, bool may_overwrite, uint8_t bytes)
{
    const mr_fused_member *m = &w->f->members[member];
    int slot = -1;
    for (int i = 0; may_overwrite && slot < 0 && i < m->n_in; i++)
        if (ends_buffer(w, member, i)) {
            const mr_fused_operand *o = &w->t->operands[w->operand_of[w->f->root[m->in[i]]]];
            slot = o->bytes == bytes ? o->slot : -1;
        }
    return slot >= 0 ? slot : take_slot(w);
}

static void release_buffers(tiler *w, int member, int except)
{
    const mr_fused_member *m = &w->f->members[member];
    for (int i = 0; i < m->n_in; i++) {
        int o = w->operand_of[w->f->root[m->in[i]]];
        if (ends_buffer(w, member, i) && w->t->operands[o].slot != except)
            w->spare[w->n_spare++] = w->t->operands[o].slot;
    }
}

/* Adds the instruction of a member. false: there are too many operands. */
static bool add_instr(tiler *w, int member)
{
    const mr_fused *f = w->f;
    const mr_fused_member *m = &f->members[member];
    int v = f->n_leaves + member;
    const mr_fused_dims *result = &w->s->dims[v];
    mr_fused_instr *at = &w->t->instrs[w->t->n_instrs++];
    uint8_t bytes = (uint8_t)mr_dtype_size(f->types[v]);
    bool widen = m->each && m->each->widen;
    *at = (mr_fused_instr){.m = m, .src = w->t->n_sources};
    for (int i = 0; i < m->n_in; i++) {
        int o = source_operand(w, m, i, result);
        if (o < 0)
            return false;
        w->t->sources[w->t->n_sources++] = (uint16_t)o;
    }
    mr_fused_operand out = {MR_FUSED_TENSOR, bytes, (uint8_t)v, -1, -1};
    bool may_overwrite = m->each && !widen && m->form != MR_FORM_SUM;
    if (!is_kept(w, v)) {
        out.place = MR_FUSED_BUFFER;
        out.slot = result_buffer(w, member, may_overwrite, bytes);
    }
    release_buffers(w, member, out.slot);
    at->dst = w->operand_of[v] = add_operand(w, out);
    double cost = m->each ? (double)m->each->cost_ns * (m->form == MR_FORM_SUM ? m->n_in : 1) : CONVERT_NS;
    w->t->cost_ns += cost; /* of one element until the size of a tile is known */
    if (widen)
        w->widest = MR_MAX(w->widest, sizeof(float));
    return at->dst >= 0;
}

/* The bytes of a buffer; decides also whether tiles are fetched ahead. The work on a tile begins with reading each tensor,
 * and the hardware alone does not fetch the next tile of several tensors in time. What is fetched ahead must stay in the
 * first-level cache, so the more tensors there are, the smaller the tile. */
static int64_t block_bytes(mr_fused_tiles *t)
{
    int n_tensors = 0;
    double bytes = 0;
    for (int i = 0; i < t->n_operands; i++)
        if (t->operands[i].place == MR_FUSED_TENSOR) {
            n_tensors++;
            bytes += (double)t->n * t->operands[i].bytes;
        }
    t->fetches_ahead = bytes > LARGE_BYTES && n_tensors > 2;
    return !t->fetches_ahead ? BLOCK_BYTES : n_tensors == 3 ? BLOCK_BYTES / 2 : BLOCK_BYTES / 4;
}

/* Chooses the size of a tile, so that all buffers fit and the longest operand that repeats within a tile does so a whole
 * number of times. */
static bool size_tiles(tiler *w, int64_t n, bool widened)
{
    mr_fused_tiles *t = w->t;
    t->n = n;
    t->wide_slot = t->n_slots;
    t->n_slots += widened ? 1 + MR_BROADCAST_OPERANDS : 0;
    t->tile = block_bytes(t) / (int64_t)w->widest;
    while ((int64_t)t->n_slots * t->tile * (int64_t)w->widest > ARENA_BYTES)
        t->tile /= 2;
    if (t->tile < LEAST_TILE)
        return false;
    t->slot_bytes = (size_t)t->tile * w->widest;
    int64_t longest = 1;
    for (int i = 0; i < t->n_walks; i++)
        if (t->walks[i].period <= t->tile)
            longest = MR_MAX(longest, t->walks[i].period);
    t->tile -= t->tile % longest;
    t->tile = MR_MIN(t->tile, n);
    t->n_tiles = (n + t->tile - 1) / t->tile;
    t->cost_ns *= (double)t->tile;
    return true;
}

/* Lists the leaves that the result of an instruction may overwrite: no instruction after it reads them, nor does a later
 * step, and they have its type and shape. A sum reads its inputs one after the other, so only the first one counts. */
static void find_reuse(tiler *w, int value, const mr_fused_instr *writer)
{
    const mr_fused *f = w->f;
    uint8_t *list = mr_arena_array(&w->s->arena, uint8_t, f->n_leaves + 1);
    int writer_at = (int)(writer->m - f->members);
    for (int v = 0; v < f->n_leaves; v++) {
        bool fits = w->s->last_step[v] == w->step && f->types[v] == f->types[value] &&
                    same_dims(&w->s->dims[v], &w->s->dims[value]) && w->last_reader[v] <= writer_at;
        for (int i = 1; fits && writer->m->form == MR_FORM_SUM && i < writer->m->n_in; i++)
            fits = f->root[writer->m->in[i]] != v;
        if (fits)
            list[1 + list[0]++] = (uint8_t)v;
    }
    w->s->reuse[value] = list[0] ? list : NULL;
}

/* Makes the tiles of step w->step; false if they need too many operands or buffers. */
static bool make_tiles(tiler *w)
{
    const mr_fused *f = w->f;
    mr_arena *a = &w->s->arena;
    int n_instrs = 0, n_sources = 0;
    int64_t n = 0;
    bool widened = false;
    for (int v = 0; v < f->n_values; v++)
        w->operand_of[v] = w->last_reader[v] = -1;
    for (int i = 0; i < f->n_members; i++) {
        if (w->step_of[i] != w->step)
            continue;
        n_instrs++;
        n_sources += f->members[i].n_in;
        n = w->s->dims[f->n_leaves + i].n;
        widened |= f->members[i].each && f->members[i].each->widen;
        for (int k = 0; k < f->members[i].n_in; k++)
            w->last_reader[f->root[f->members[i].in[k]]] = i;
    }
    w->n_spare = 0;
    w->widest = 1;
    w->t = mr_arena_new(a, mr_fused_tiles);
    w->t->operands = mr_arena_array(a, mr_fused_operand, MAX_OPERANDS);
    w->t->walks = mr_arena_array(a, mr_fused_walk, n_sources + 1);
    w->t->instrs = mr_arena_array(a, mr_fused_instr, n_instrs);
    w->t->sources = mr_arena_array(a, uint16_t, n_sources);
    for (int i = 0; i < f->n_members; i++)
        if (w->step_of[i] == w->step && !add_instr(w, i))
            return false;
    for (int i = 0; i < n_instrs; i++) {
        const mr_fused_operand *dst = &w->t->operands[w->t->instrs[i].dst];
        if (dst->place == MR_FUSED_TENSOR)
            find_reuse(w, dst->value, &w->t->instrs[i]);
    }
    return size_tiles(w, n, widened);
}

/* ---- a schedule ---- */

/* Fills in the steps; false if they need tiles that are too small. */
static bool make_steps(const mr_fused *f, mr_fused_schedule *s, bool by_node)
{
    int step_of[MR_FUSED_MAX_MEMBERS], members[MR_FUSED_MAX_MEMBERS] = {0};
    s->n_steps = number_steps(f, s->dims, by_node, step_of);
    find_last_steps(f, step_of, s);
    for (int i = 0; i < f->n_members; i++)
        if (step_of[i] >= 0)
            members[step_of[i]]++;
    s->steps = mr_arena_array(&s->arena, mr_fused_step, s->n_steps + 1);
    for (int k = 0; k < s->n_steps; k++) {
        int first = 0;
        while (step_of[first] != k)
            first++;
        s->steps[k].member = members[k] == 1 ? first : -1;
        if (members[k] == 1)
            continue;
        tiler w = {.f = f, .s = s, .step_of = step_of, .step = k};
        if (!make_tiles(&w))
            return false;
        s->steps[k].tiles = w.t;
    }
    return true;
}

static void note_shapes(const mr_fused *f, const mr_value *leaves, mr_fused_schedule *s)
{
    for (int v = 0; v < f->n_leaves; v++)
        s->n_shapes += 1 + leaves[v].t->rank;
    s->shapes = mr_arena_array(&s->arena, int64_t, s->n_shapes + 1);
    for (int v = 0, at = 0; v < f->n_leaves; v++) {
        const mr_tensor *t = leaves[v].t;
        s->shapes[at++] = t->rank;
        for (int d = 0; d < t->rank; d++)
            s->shapes[at++] = t->dims[d];
    }
}

mr_status *mr_fused_schedule_new(const mr_fused *f, const mr_value *leaves, mr_fused_schedule **out)
{
    mr_fused_schedule *s = mr_try_calloc(1, sizeof *s);
    *out = s;
    if (!s)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot plan a fused node");
    mr_arena_init(&s->arena, 0);
    note_shapes(f, leaves, s);
    s->dims = mr_arena_array(&s->arena, mr_fused_dims, f->n_values);
    s->last_step = mr_arena_array(&s->arena, int, f->n_values);
    s->reuse = mr_arena_array(&s->arena, uint8_t *, f->n_values);
    if (!find_dims(f, leaves, s->dims) || !make_steps(f, s, false)) {
        memset(s->reuse, 0, sizeof *s->reuse * (size_t)f->n_values);
        make_steps(f, s, true);
    }
    return NULL;
}

void mr_fused_schedule_free(mr_fused_schedule *s)
{
    if (!s)
        return;
    mr_arena_deinit(&s->arena);
    mr_free(s);
}

bool mr_fused_schedule_fits(const mr_fused *f, const mr_fused_schedule *s, const mr_value *leaves)
{
    const int64_t *at = s->shapes;
    for (int v = 0; v < f->n_leaves; v++) {
        const mr_tensor *t = leaves[v].t;
        if (*at++ != t->rank)
            return false;
        for (int d = 0; d < t->rank; d++)
            if (*at++ != t->dims[d])
                return false;
    }
    return true;
}

/* ---- running tiles ---- */

typedef struct job {
    const mr_fused_tiles *t;
    const mr_fused_run *x;
} job;

/* A thread's view: element i of operand k of a tile that begins at `first` is at base[k] + first * step[k], packed. */
typedef struct view {
    char *base[MAX_OPERANDS];
    size_t step[MAX_OPERANDS];
} view;

/* n elements of a walk from element `first` of the result on: in place if they are packed there, else copied to dst. */
static char *walk_elements(const mr_fused_walk *k, char *data, int64_t first, int64_t n, char *dst)
{
    int64_t index[MR_FUSED_MAX_RANK], offset = 0, inner = k->rank - 1, width = k->dims[inner], step = k->strides[inner];
    int64_t at = first % width, row = first / width;
    for (int64_t d = inner - 1; d >= 0; d--) {
        index[d] = row % k->dims[d];
        row /= k->dims[d];
        offset += index[d] * k->strides[d];
    }
    if (step == 1 && at + n <= width)
        return data + (size_t)(offset + at) * k->bytes;
    for (char *to = dst; n > 0; at = 0) {
        int64_t run = MR_MIN(n, width - at);
        char *from = data + (size_t)(offset + at * step) * k->bytes;
        if (step == 0)
            mr_splat(to, from, k->bytes, run);
        else
            memcpy(to, from, (size_t)run * k->bytes);
        to += (size_t)run * k->bytes;
        n -= run;
        for (int64_t d = inner - 1; d >= 0; d--) { /* the next row */
            offset += k->strides[d];
            if (++index[d] < k->dims[d])
                break;
            offset -= k->strides[d] * k->dims[d];
            index[d] = 0;
        }
    }
    return dst;
}

static bool repeats(const mr_fused_tiles *t, const mr_fused_walk *k) { return k->period <= t->tile && t->tile % k->period == 0; }

/* Sets up what does not change from tile to tile. */
static void view_init(const job *j, char *arena, view *v)
{
    const mr_fused_tiles *t = j->t;
    for (int i = 0; i < t->n_operands; i++) {
        const mr_fused_operand *o = &t->operands[i];
        char *data = o->place == MR_FUSED_BUFFER ? NULL : j->x->t[o->value]->data;
        v->base[i] = o->place == MR_FUSED_TENSOR ? data : arena + (size_t)o->slot * t->slot_bytes;
        v->step[i] = o->place == MR_FUSED_TENSOR ? o->bytes : 0;
        if (o->place == MR_FUSED_SPREAD)
            mr_splat(v->base[i], data, o->bytes, t->tile);
        else if (o->place == MR_FUSED_WALK && repeats(t, &t->walks[o->walk]))
            v->base[i] = walk_elements(&t->walks[o->walk], data, 0, t->tile, v->base[i]);
    }
}

/* The sum of n elements from left to right; 16-bit floats are added as floats and rounded once, as in AddN. */
static void run_sum(const mr_fused_tiles *t, const mr_fused_instr *in, void *const *p, int64_t n, char *arena)
{
    const mr_fused_member *m = in->m;
    mr_dtype type = (mr_dtype)m->node->out_types[0];
    if (!m->each->widen) {
        m->each->loop((void *[]){p[0], p[1], p[2]}, n);
        for (int i = 3; i <= m->n_in; i++)
            m->each->loop((void *[]){p[0], p[0], p[i]}, n);
        return;
    }
    char *sum = arena + (size_t)t->wide_slot * t->slot_bytes, *next = sum + t->slot_bytes;
    mr_dtype_convert(type, p[1], MR_FLOAT, sum, n, false);
    for (int i = 2; i <= m->n_in; i++) {
        mr_dtype_convert(type, p[i], MR_FLOAT, next, n, false);
        m->each->loop((void *[]){sum, sum, next}, n);
    }
    mr_dtype_convert(MR_FLOAT, sum, type, p[0], n, false);
}

/* The same conversions as in elementwise.c: from 16 bits and back for each member. */
static void run_widened(const mr_fused_tiles *t, const mr_fused_instr *in, void *const *p, int64_t n, char *arena)
{
    const mr_fused_member *m = in->m;
    void *wide[1 + MR_BROADCAST_OPERANDS];
    bool out_is_wide = mr_dtype_size((mr_dtype)m->node->out_types[0]) == 2;
    wide[0] = out_is_wide ? arena + (size_t)t->wide_slot * t->slot_bytes : p[0];
    for (int i = 1; i <= m->n_in; i++) {
        mr_dtype type = (mr_dtype)m->node->in_types[i - 1];
        wide[i] = p[i];
        if (mr_dtype_size(type) != 2)
            continue;
        wide[i] = arena + (size_t)(t->wide_slot + i) * t->slot_bytes;
        mr_dtype_convert(type, p[i], MR_FLOAT, wide[i], n, false);
    }
    m->each->loop(wide, n);
    if (out_is_wide)
        mr_dtype_convert(MR_FLOAT, wide[0], (mr_dtype)m->node->out_types[0], p[0], n, false);
}

static void run_instr(const mr_fused_tiles *t, const mr_fused_instr *in, const view *v, int64_t first, int64_t n, char *arena)
{
    const mr_fused_member *m = in->m;
    const uint16_t *src = t->sources + in->src;
    void *p[1 + MAX_SOURCES];
    p[0] = v->base[in->dst] + (size_t)first * v->step[in->dst];
    for (int i = 0; i < m->n_in; i++)
        p[1 + i] = v->base[src[i]] + (size_t)first * v->step[src[i]];
    if (m->form == MR_FORM_CAST)
        mr_dtype_convert((mr_dtype)m->node->in_types[0], p[1], (mr_dtype)m->node->out_types[0], p[0], n, m->truncate);
    else if (m->form == MR_FORM_SUM)
        run_sum(t, in, p, n, arena);
    else if (m->each->widen)
        run_widened(t, in, p, n, arena);
    else
        m->each->loop(p, n);
}

/* Fetches what the tile that begins at `first` reads and writes into the cache. */
static void fetch_tile(const mr_fused_tiles *t, const view *v, int64_t first)
{
    enum { LINE = 64 };
    int64_t n = MR_MIN(t->tile, t->n - first);
    for (int o = 0; o < t->n_operands; o++)
        for (size_t at = 0, end = (size_t)n * v->step[o]; at < end; at += LINE)
            __builtin_prefetch(v->base[o] + (size_t)first * v->step[o] + at, 0, 2);
}

static void tiles_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const mr_fused_tiles *t = j->t;
    _Alignas(64) char arena[ARENA_BYTES];
    view v;
    view_init(j, arena, &v);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * t->tile, n = MR_MIN(t->tile, t->n - first);
        for (int o = 0; t->n_walks > 0 && o < t->n_operands; o++) {
            const mr_fused_operand *at = &t->operands[o];
            if (at->place == MR_FUSED_WALK && !repeats(t, &t->walks[at->walk]))
                v.base[o] = walk_elements(&t->walks[at->walk], j->x->t[at->value]->data, first, n,
                                          arena + (size_t)at->slot * t->slot_bytes);
        }
        if (t->fetches_ahead && i + AHEAD < end)
            fetch_tile(t, &v, first + AHEAD * t->tile);
        for (int k = 0; k < t->n_instrs; k++)
            run_instr(t, &t->instrs[k], &v, first, n, arena);
    }
}

void mr_fused_tiles_run(mr_run *r, const mr_fused_tiles *t, const mr_fused_run *x)
{
    job j = {t, x};
    if (t->n_tiles == 1 || (double)t->n_tiles * t->cost_ns < SMALL_NS)
        tiles_part(&j, 0, t->n_tiles);
    else
        mr_run_for(r, t->n_tiles, t->cost_ns, tiles_part, &j);
}
