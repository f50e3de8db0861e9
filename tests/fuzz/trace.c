/* tests/fuzz/trace.c -- mutated RunMetadata: everything that `millrace trace` does with files.
 *
 * Everything that is accepted is a timeline whose lanes do not overlap and whose arrows lead from span to span; its
 * Chrome trace is JSON; its text is text; the blame of a step divides the step, and no more. */
#include "base/memory.h"
#include "exec/trace.h"
#include "exec/trace_files.h"
#include "proto/config.pb-c.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"
#include "wire/json.h"

enum { N_SEEDS = 4, MAX_MESSAGES = 3, LANES_BESIDE = 512 };

#define W0 "/job:worker/replica:0/task:0/device:CPU:0"
#define PS "/job:ps/replica:0/task:0/device:CPU:0"
#define NODE(name, label, at, took)                                                       \
    "node_stats { node_name: '" name "' timeline_label: '" label "' all_start_nanos: " at \
    " all_end_rel_nanos: " took " all_start_micros: 5 all_end_rel_micros: 3 thread_id: 9 } "

static const char *const seeds[N_SEEDS] = {
    "step_stats { dev_stats { device: '" PS "' " NODE("w", "w = Slow()", "1000", "4000")
        NODE("w/_1", "w/_1 = _Send(edge_7_w @" W0 ", w)", "5100",
             "100") "} dev_stats { device: '" W0
                    "' " NODE("w/_2", "w/_2 = _Recv(edge_7_w @" PS ")", "1100", "4900")
                        NODE("y", "y = Square(w/_2, ^x:3)", "6000", "3000") "} }",
    "step_stats { dev_stats { device: '" W0 "' " NODE("g", "g = MatMul(a, b)", "900", "800")
        NODE("g", "g = MatMul(a, b)", "1900", "800") "} dev_stats { device: '" PS "' " NODE(
            "t", "t = QueueDequeueManyV2(sync_token_q_0, ^g)", "1700",
            "900") "thread_names { key: 9 value: 'pool' } } } partition_graphs { node { name: 'x' "
                   "op: 'NoOp' } }",
    "step_stats { dev_stats { device: '/device:GPU:0/stream:all' node_stats { node_name: 'k' "
    "all_start_micros: 1700000000000000 all_end_rel_micros: 12 output { slot: 0 "
    "tensor_description { dtype: DT_FLOAT allocation_description { requested_bytes: 4096 } } } "
    "memory { allocator_name: 'cpu' total_bytes: 5 } } } }",
    "step_stats { dev_stats { } } cost_graph { }",
};

static mr_str packed[N_SEEDS];

/* ---- mutants ---- */

/* Places in labels that mean something, and times at the ends of their range. */
static mr_sv any_task(fuzz_rng *r)
{
    static const char *const tasks[] = {"/job:worker/replica:0/task:0",
                                        "/job:worker/replica:0/task:1", "/job:ps/replica:0/task:0",
                                        "", "/job:"};
    return mr_sv_of(fuzz_pick(r, tasks));
}

static int64_t any_time(fuzz_rng *r)
{
    static const int64_t times[] = {0,         1,         -1,           1000, 1700000000000000000,
                                    INT64_MAX, INT64_MIN, INT64_MAX / 4};
    return fuzz_once_in(r, 3) ? (int64_t)fuzz_below(r, 10000) : fuzz_pick(r, times);
}

static void add_info(fuzz_rng *r, mr_str *out)
{
    mr_trace_clock clocks[3];
    mr_trace_info i = {.home = any_task(r),
                       .what = fuzz_once_in(r, 3) ? MR_SV("update") : MR_SV(""),
                       .number = any_time(r),
                       .start_ns = any_time(r),
                       .end_ns = any_time(r),
                       .outside_ns = any_time(r),
                       .n_clocks = (int)fuzz_below(r, 4),
                       .clocks = clocks};
    mr_pb_writer w;
    for (int k = 0; k < i.n_clocks; k++)
        clocks[k] = (mr_trace_clock){any_task(r), any_time(r), any_time(r)};
    mr_pb_writer_init(&w, out);
    mr_trace_info_encode(&i, &w);
}

static void mutate(fuzz_rng *r, mr_str *out)
{
    fuzz_tree t;
    fuzz_tree_parse(&t, &tensorflow__run_metadata__descriptor,
                    mr_str_view(&packed[fuzz_below(r, N_SEEDS)]));
    for (uint64_t k = fuzz_below(r, 6); k > 0; k--)
        fuzz_tree_change(r, &t, NULL, NULL);
    fuzz_tree_write(&t, out);
    fuzz_tree_deinit(&t);
    for (uint64_t k = fuzz_below(r, 3); k > 0; k--)
        add_info(r, out);
    if (fuzz_once_in(r, 8))
        fuzz_damage(r, out);
}

/* ---- what was accepted ---- */

static void check_model(const mr_timeline *t)
{
    int64_t *ends = mr_new_array(int64_t, t->lanes.n + 1);
    for (int i = 0; i < t->lanes.n; i++) {
        ends[i] = INT64_MIN;
        if (t->lanes.p[i].task < 0 || t->lanes.p[i].task >= t->tasks.n || t->lanes.p[i].row < 0 ||
            t->lanes.p[i].row >= t->lanes.n)
            fuzz_fail("lane %d has no task or no position", i);
    }
    for (int i = 0; i < t->spans.n; i++) {
        const mr_span *s = &t->spans.p[i];
        if (s->start_ns > s->end_ns || s->peer > t->tasks.n || s->step > t->steps.n)
            fuzz_fail("span %d is invalid", i);
        if (s->start_ns < ends[s->lane] && t->spans.n < LANES_BESIDE)
            fuzz_fail("span %d begins before the one before it in its lane ends", i);
        ends[s->lane] = MR_MAX(ends[s->lane], s->end_ns);
    }
    for (int i = 0; i < t->arrows.n; i++)
        if (t->arrows.p[i].from < 0 || t->arrows.p[i].from >= t->spans.n || t->arrows.p[i].to < 0 ||
            t->arrows.p[i].to >= t->spans.n)
            fuzz_fail("arrow %d does not connect two spans", i);
    mr_free(ends);
}

static void check_json(const mr_timeline *t)
{
    mr_str out = {0};
    mr_chrome c;
    mr_json j;
    mr_chrome_init(&c, &out);
    mr_timeline_to_chrome(t, &c);
    fuzz_must(mr_chrome_end(&c), "a trace in memory");
    mr_json_init(&j, mr_str_view(&out));
    mr_json_skip(&j);
    fuzz_must(mr_json_status(&j, "trace"), "a Chrome trace");
    mr_str_deinit(&out);
}

static void check_blame(const mr_timeline *t)
{
    mr_blame *b;
    int n;
    mr_blame_steps(t, &b, &n);
    for (int i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int k = 0; k < b[i].parts.n; k++)
            sum += b[i].parts.p[k].ns;
        if (b[i].total_ns < 0 || (b[i].parts.n && sum != b[i].total_ns))
            fuzz_fail("parts of a step are %lld of %lld ns", (long long)sum,
                      (long long)b[i].total_ns);
        mr_blame_deinit(&b[i]);
    }
    mr_free(b);
}

static void check_text(const mr_timeline *t)
{
    mr_str out = {0};
    mr_timeline_text(t, NULL, &out);
    if (t->steps.n)
        mr_timeline_text(t,
                         &(mr_timeline_text_options){.width = 40,
                                                     .max_lanes = 2,
                                                     .from_ns = t->steps.p[0].start_ns,
                                                     .to_ns = t->steps.p[0].end_ns},
                         &out);
    mr_trace_tell(t, 2, &out);
    if (!out.n || out.p[out.n - 1] != '\n')
        fuzz_fail("a text does not end with a newline");
    mr_str_deinit(&out);
}

/* Stats that are shifted forth and back are unchanged, unless they could not be read. */
static void check_shift(mr_sv bytes)
{
    mr_str there = {0}, back = {0}, again = {0};
    int64_t first, last;
    mr_trace_span(bytes, &first, &last);
    mr_status *st = mr_trace_shift(bytes, 123456789000, &there);
    if (!st) {
        fuzz_must(mr_trace_shift(mr_str_view(&there), -123456789000, &back),
                  "stats that were moved");
        fuzz_must(mr_trace_shift(mr_str_view(&back), 123456789000, &again),
                  "stats that were moved");
        if (!mr_sv_eq(mr_str_view(&there), mr_str_view(&again)))
            fuzz_fail("stats differ after they were shifted forth and back");
    }
    mr_status_free(st);
    mr_str_deinit(&there);
    mr_str_deinit(&back);
    mr_str_deinit(&again);
}

/* ---- the target ---- */

/* Messages in one input, each behind its length in two bytes. */
static int split(mr_sv input, mr_sv *out)
{
    int n = 0;
    while (input.n >= 2 && n < MAX_MESSAGES) {
        size_t len = (size_t)(unsigned char)input.p[0] << 8 | (unsigned char)input.p[1];
        len = MR_MIN(len, input.n - 2);
        out[n++] = fuzz_exact((mr_sv){input.p + 2, len});
        input = (mr_sv){input.p + 2 + len, input.n - 2 - len};
    }
    return n;
}

static void replay(fuzz_run *r, mr_sv input)
{
    mr_sv messages[MAX_MESSAGES];
    int n = split(input, messages);
    mr_timeline t;
    mr_timeline_init(&t);
    mr_status *st = mr_trace_read(messages, NULL, n, &t);
    fuzz_say(r, "%d messages: %s; %d spans, %d arrows", n, mr_status_message(st), t.spans.n,
             t.arrows.n);
    if (!st) {
        r->counts[0]++;
        r->counts[1] += t.arrows.n > 0;
        check_model(&t);
        check_json(&t);
        check_text(&t);
        check_blame(&t);
    }
    mr_status_free(st);
    mr_timeline_deinit(&t);
    for (int i = 0; i < n; i++) {
        check_shift(messages[i]);
        mr_free((void *)(uintptr_t)messages[i].p);
    }
}

static void run(fuzz_run *r)
{
    mr_str input = {0};
    for (uint64_t k = 1 + fuzz_below(&r->rng, MAX_MESSAGES); k > 0; k--) {
        mr_str one = {0};
        mutate(&r->rng, &one);
        size_t n = MR_MIN(one.n, 65535u);
        mr_str_appendc(&input, (char)(n >> 8));
        mr_str_appendc(&input, (char)n);
        mr_str_append(&input, mr_str_z(&one), n);
        mr_str_deinit(&one);
    }
    fuzz_note(r, mr_str_view(&input));
    replay(r, mr_str_view(&input));
    mr_str_deinit(&input);
}

static void prepare(void)
{
    for (int i = 0; i < N_SEEDS && !packed[i].n; i++)
        fuzz_pack_text(&tensorflow__run_metadata__descriptor, seeds[i], &packed[i]);
}

static int64_t n_runs(void) { return 500000; }
static int n_counts(void) { return 2; }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    double read = 100.0 * (double)counts[0] / (double)runs,
           arrows = 100.0 * (double)counts[1] / (double)runs;
    fprintf(out, "read_percent %.1f arrows_percent %.1f", read, arrows);
    bool ok = runs < 1000 || (read >= 30 && arrows >= 10);
    if (!ok && err)
        fprintf(err, "fuzz trace: too few traces are read\n");
    return ok;
}

const fuzz_target fuzz_trace = {.name = "trace",
                                .about = "mutated RunMetadata, as `millrace trace` reads it",
                                .prepare = prepare,
                                .n_runs = n_runs,
                                .n_counts = n_counts,
                                .run = run,
                                .replay = replay,
                                .summary = summary};
