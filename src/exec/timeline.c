/* exec/timeline.c -- the model: tasks, lanes, spans, arrows.
 *
 * Everything is appended and never removed, so ids stay valid. Names are kept once, in the arena; the maps of
 * tasks and names borrow their keys from there. */
#include "exec/timeline.h"

#include "base/memory.h"

enum { MAX_BESIDE = 512 };

/* In the order of mr_span_kind. */
const char *mr_span_kind_name(mr_span_kind k)
{
    static const char *const names[] = {"compute", "input", "send", "wait", "save", "down"};
    MR_ASSERT((int)k >= 0 && k < MR_SPAN_KINDS);
    return names[k];
}

/* Keys of lanes are copied, because they are composed of task and name. */
void mr_timeline_init(mr_timeline *t)
{
    *t = (mr_timeline){
        .task_ids.borrow_keys = true, .lane_ids.borrow_keys = false, .names.borrow_keys = true};
    mr_arena_init(&t->arena, 0);
}

/* Names are freed with the arena, after the maps that borrow them. */
void mr_timeline_deinit(mr_timeline *t)
{
    mr_vec_deinit(&t->tasks);
    mr_vec_deinit(&t->lanes);
    mr_vec_deinit(&t->spans);
    mr_vec_deinit(&t->arrows);
    mr_vec_deinit(&t->marks);
    mr_vec_deinit(&t->samples);
    mr_vec_deinit(&t->steps);
    mr_map_deinit(&t->task_ids);
    mr_map_deinit(&t->lane_ids);
    mr_map_deinit(&t->names);
    mr_arena_deinit(&t->arena);
}

/* Interns a name: equal names are stored once and compare by address. */
const char *mr_timeline_name(mr_timeline *t, mr_sv name)
{
    const char *kept = mr_map_get(&t->names, name);
    if (!kept) {
        kept = mr_arena_strndup(&t->arena, name.p ? name.p : "", name.n);
        mr_map_put(&t->names, (mr_sv){kept, name.n}, (void *)kept);
    }
    return kept;
}

/* Ids are kept one higher: NULL means absent. */
static int find_id(const mr_map *m, mr_sv key) { return (int)(intptr_t)mr_map_get(m, key) - 1; }

static void keep_id(mr_map *m, mr_sv key, int id) { mr_map_put(m, key, (void *)(intptr_t)(id + 1)); }

/* Tasks are identified by name; the map borrows the interned name as its key. */
int mr_timeline_task(mr_timeline *t, mr_sv name)
{
    int id = find_id(&t->task_ids, name);
    if (id >= 0)
        return id;
    const char *kept = mr_timeline_name(t, name);
    mr_vec_push(&t->tasks, kept);
    keep_id(&t->task_ids, (mr_sv){kept, name.n}, t->tasks.n - 1);
    return t->tasks.n - 1;
}

/* A lane is identified by its task and its name. */
int mr_timeline_lane(mr_timeline *t, int task, mr_sv name)
{
    mr_str key = {0};
    MR_ASSERT(task >= 0 && task < t->tasks.n);
    mr_str_printf(&key, "%d ", task);
    mr_str_append(&key, name.p ? name.p : "", name.n);
    int id = find_id(&t->lane_ids, mr_str_view(&key));
    if (id < 0) {
        id = t->lanes.n;
        mr_vec_push(&t->lanes, (mr_lane){task, mr_timeline_name(t, name), INT64_MIN, id, 0});
        keep_id(&t->lane_ids, mr_str_view(&key), id);
    }
    mr_str_deinit(&key);
    return id;
}

/* The lane "name NUMBER" beside the lane "name". */
static int numbered_lane(mr_timeline *t, int task, mr_sv name, int number)
{
    mr_str numbered = {0};
    mr_str_append(&numbered, name.p, name.n);
    mr_str_printf(&numbered, " %d", number);
    int lane = mr_timeline_lane(t, task, mr_str_view(&numbered));
    mr_str_deinit(&numbered);
    return lane;
}

/* Hundreds of lanes may be busy for each of millions of spans, so the lanes beside one another form a chain
 * and are not looked up by name. */
int mr_timeline_free_lane(mr_timeline *t, int task, mr_sv name, int64_t start_ns)
{
    int lane = mr_timeline_lane(t, task, name);
    for (int i = 2; t->lanes.p[lane].end_ns > start_ns && i <= MAX_BESIDE; i++) {
        if (!t->lanes.p[lane].beside) {
            int next = numbered_lane(t, task, name, i); /* may move the lanes */
            t->lanes.p[lane].beside = next + 1;
        }
        lane = t->lanes.p[lane].beside - 1;
    }
    return lane;
}

/* The names are interned, so the caller's strings may be freed. */
int mr_timeline_span(mr_timeline *t, mr_span s)
{
    MR_ASSERT(s.lane >= 0 && s.lane < t->lanes.n && s.step <= t->steps.n);
    mr_lane *lane = &t->lanes.p[s.lane];
    s.name = mr_timeline_name(t, mr_sv_of(s.name));
    s.op = s.op ? mr_timeline_name(t, mr_sv_of(s.op)) : NULL;
    s.end_ns = MR_MAX(s.end_ns, s.start_ns);
    lane->end_ns = MR_MAX(lane->end_ns, s.end_ns);
    mr_vec_push(&t->spans, s);
    return t->spans.n - 1;
}

/* A time that contradicts the spans is moved to the nearest possible one. If clocks are so wrong that there
 * is none, the arrow counts for the critical path but is not drawn: it would point back in time. */
void mr_timeline_arrow_at(mr_timeline *t, int from, int to, bool drawn, int64_t at_ns)
{
    MR_ASSERT(from >= 0 && from < t->spans.n && to >= 0 && to < t->spans.n);
    const mr_span *f = &t->spans.p[from], *g = &t->spans.p[to];
    at_ns = MR_MAX(f->start_ns, MR_MIN(at_ns, MR_MIN(f->end_ns, g->end_ns)));
    mr_vec_push(&t->arrows, (mr_arrow){from, to, drawn && at_ns <= g->end_ns, at_ns});
}

void mr_timeline_arrow(mr_timeline *t, int from, int to, bool drawn)
{
    mr_timeline_arrow_at(t, from, to, drawn, t->spans.p[from].end_ns);
}

void mr_timeline_mark(mr_timeline *t, int lane, int64_t at_ns, const char *text)
{
    MR_ASSERT(lane >= 0 && lane < t->lanes.n);
    mr_vec_push(&t->marks, (mr_mark){mr_timeline_name(t, mr_sv_of(text)), lane, at_ns});
}

void mr_timeline_sample(mr_timeline *t, int task, const char *name, int64_t at_ns, double value)
{
    MR_ASSERT(task >= 0 && task < t->tasks.n);
    mr_vec_push(&t->samples, (mr_sample){mr_timeline_name(t, mr_sv_of(name)), task, at_ns, value});
}

/* An end before the start is moved to it. */
int mr_timeline_step_add(mr_timeline *t, int64_t number, int home, int64_t start_ns, int64_t end_ns)
{
    MR_ASSERT(home >= -1 && home < t->tasks.n);
    mr_vec_push(&t->steps,
                (mr_timeline_step){number, home, start_ns, MR_MAX(start_ns, end_ns), 0, NULL});
    return t->steps.n - 1;
}

/* Steps do not count: they may begin before their first span. */
void mr_timeline_range(const mr_timeline *t, int64_t *start_ns, int64_t *end_ns)
{
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (int i = 0; i < t->spans.n; i++) {
        from = MR_MIN(from, t->spans.p[i].start_ns);
        to = MR_MAX(to, t->spans.p[i].end_ns);
    }
    for (int i = 0; i < t->marks.n; i++) {
        from = MR_MIN(from, t->marks.p[i].at_ns);
        to = MR_MAX(to, t->marks.p[i].at_ns);
    }
    *start_ns = from <= to ? from : 0;
    *end_ns = from <= to ? to : 0;
}
