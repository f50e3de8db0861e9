/* tests/fuzz/events.c -- event files: mutated Events in records whose checksums are right. */
#include <unistd.h>

#include "base/memory.h"
#include "proto/event.pb-c.h"
#include "store/events.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"
#include "wire/crc32c.h"

enum { READ, EVENTS, N_COUNTS };

static const char *const seeds[] = {
    "wall_time: 1.5e9 file_version: 'brain.Event:2'",
    ("wall_time: 1.5e9 step: 7 summary { value { tag: 'loss' simple_value: 0.5 } value { tag: 'h' histo { min: 1 "
    "max: 2 num: 2 bucket_limit: 1.5 bucket: 2 } } }"),
    "step: -1 graph_def: 'abc'",
    "session_log { status: START checkpoint_path: 'c' } step: 9223372036854775807",
    "tagged_run_metadata { tag: 't' run_metadata: 'x' }",
    "",
};
static mr_str packed[MR_COUNT(seeds)];

static void put_record(mr_str *out, mr_sv bytes)
{
    uint64_t n = bytes.n;
    uint32_t crc = mr_crc32c_mask(mr_crc32c(&n, sizeof(n)));
    mr_str_append(out, &n, sizeof(n));
    mr_str_append(out, &crc, sizeof(crc));
    mr_str_append(out, bytes.p, bytes.n);
    crc = mr_crc32c_mask(mr_crc32c(bytes.p, bytes.n));
    mr_str_append(out, &crc, sizeof(crc));
}

static void put_event(fuzz_rng *r, mr_str *out)
{
    fuzz_tree t;
    mr_str event = {0};
    fuzz_tree_parse(&t, &tensorflow__event__descriptor,
                    mr_str_view(&packed[fuzz_below(r, MR_COUNT(seeds))]));
    for (uint64_t k = fuzz_below(r, 4); k > 0; k--)
        fuzz_tree_change(r, &t, NULL, NULL);
    fuzz_tree_write(&t, &event);
    fuzz_tree_deinit(&t);
    if (fuzz_once_in(r, 10))
        fuzz_damage(r, &event);
    put_record(out, mr_str_view(&event));
    mr_str_deinit(&event);
}

static void check_event(const mr_events_reader *d, const mr_event *e)
{
    mr_sv all = mr_events_record(d);
    bool inside = e->body.n == 0 || (e->body.p >= all.p && e->body.p + e->body.n <= all.p + all.n);
    if (!inside || (e->kind != MR_EVENT_NONE &&
                    (e->kind < MR_EVENT_FILE_VERSION || e->kind > MR_EVENT_META_GRAPH_DEF)))
        fuzz_fail("the body of an event of kind %d is outside of its record", (int)e->kind);
}

static void try_bytes(fuzz_run *r, mr_sv bytes)
{
    mr_stream *s;
    mr_event e;
    mr_status *st = NULL;
    mr_sv exact = fuzz_exact(bytes);
    fuzz_must(mr_stream_of_bytes(exact, MR_UNCOMPRESSED, &s), "bytes");
    mr_events_reader *d = mr_events_reader_new(s);
    while (!(st = mr_events_read(d, &e))) {
        r->counts[EVENTS]++;
        check_event(d, &e);
    }
    fuzz_say(r, "ends by %s", mr_status_message(st));
    r->counts[READ] += mr_status_code(st) == MR_OUT_OF_RANGE;
    mr_status_free(st);
    mr_events_reader_close(d);
    mr_free((void *)(uintptr_t)exact.p);
}

/* Everything that our writer writes must be readable. */
static void round_trip(fuzz_rng *r)
{
    mr_events_writer *w;
    mr_events_reader *d;
    mr_event e;
    fuzz_must(mr_events_writer_open("e", ".x", (int64_t)fuzz_below(r, 3),
                                    fuzz_once_in(r, 2) ? INT64_MAX : 0, &w),
              "a writer");
    char *path = mr_strdup(mr_events_writer_path(w));
    for (int i = 0; i < 3; i++)
        fuzz_must(mr_events_write(w, MR_SV("\x10\x05")), "an event");
    fuzz_must(mr_events_flush(w), "a flush");
    mr_events_writer_close(w);
    mr_events_writer_close(NULL);
    fuzz_must(mr_events_reader_open(path, &d), "the file");
    for (int i = 0; i < 4; i++) /* the version is first */
        fuzz_must(mr_events_read(d, &e), "an event of ours");
    mr_events_reader_close(d);
    unlink(path);
    mr_free(path);
    mr_status_free(mr_events_writer_open("no/such/folder/e", "", 1, 1, &w));
    mr_status_free(mr_events_reader_open("no/such/file", &d));
}

static void prepare(void)
{
    for (int i = 0; i < MR_COUNT(seeds); i++)
        if (!packed[i].p)
            fuzz_pack_text(&tensorflow__event__descriptor, seeds[i], &packed[i]);
}

static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_COUNTS; }

static void run(fuzz_run *r)
{
    mr_str bytes = {0};
    for (uint64_t k = fuzz_below(&r->rng, 4); k > 0; k--)
        put_event(&r->rng, &bytes);
    if (fuzz_once_in(&r->rng, 10))
        fuzz_damage(&r->rng, &bytes);
    fuzz_note(r, mr_str_view(&bytes));
    try_bytes(r, mr_str_view(&bytes));
    if (fuzz_once_in(&r->rng, 500))
        round_trip(&r->rng);
    mr_str_deinit(&bytes);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"read"};
    fprintf(out, "events %lld ", (long long)counts[EVENTS]);
    return fuzz_shares("events", names, counts, 1, runs, 1, out, err);
}

const fuzz_target fuzz_events = {.name = "events",
                                 .about = "event files, their events changed",
                                 .prepare = prepare,
                                 .n_runs = n_runs,
                                 .n_counts = n_counts,
                                 .run = run,
                                 .replay = try_bytes,
                                 .summary = summary};
