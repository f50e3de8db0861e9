/* tests/fuzz/proto_pool.c -- messages that are described at run time: mutated descriptors, and text of the messages
 * they describe.
 *
 * Accepted text becomes a message that is accepted. */
#include "base/memory.h"
#include "ops/parse/proto_pool.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "wire/pb.h"

enum { MADE, TEXTS, N_COUNTS };

/* ---- descriptors ---- */

static void put_field(fuzz_rng *r, mr_pb_writer *w, uint32_t as, const char *name, int number)
{
    static const char *const types[] = {".p.M", ".p.M.N", ".p.E", "p.M.F", "", ".none"};
    size_t mark = mr_pb_begin(w, as);
    uint64_t type = fuzz_once_in(r, 60) ? (uint64_t)fuzz_odd_int(r) : 1 + fuzz_below(r, 18);
    bool named = type == MR_PROTO_MESSAGE || type == MR_PROTO_GROUP;
    mr_pb_put_bytes(w, 1, mr_sv_of(name));
    if (as != 2)
        mr_pb_put_bytes(w, 2, mr_sv_of(fuzz_once_in(r, 5) ? "p.none" : ".p.M"));
    mr_pb_put_varint(w, 3, fuzz_once_in(r, 60) ? (uint64_t)fuzz_odd_int(r) : (uint64_t)number);
    mr_pb_put_varint(w, 4, 1 + fuzz_below(r, 3));
    mr_pb_put_varint(w, 5, type);
    if (named || type == MR_PROTO_ENUM)
        mr_pb_put_bytes(w, 6, mr_sv_of(fuzz_once_in(r, 40) ? fuzz_pick(r, types)
                                       : named             ? types[fuzz_below(r, 2)]
                                                           : types[2 + fuzz_below(r, 2)]));
    if (fuzz_once_in(r, 4))
        mr_pb_put_bytes(w, 7, mr_sv_of(fuzz_once_in(r, 2) ? "7" : "A"));
    if (fuzz_once_in(r, 4))
        mr_pb_put_bytes(w, 8, fuzz_once_in(r, 2) ? MR_SV("\x10\x01") : MR_SV("\x10\x00\x18\x01"));
    mr_pb_end(w, mark);
}

static void put_enum(mr_pb_writer *w, uint32_t as, const char *name)
{
    size_t mark = mr_pb_begin(w, as);
    mr_pb_put_bytes(w, 1, mr_sv_of(name));
    for (int i = 0; i < 2; i++) {
        size_t v = mr_pb_begin(w, 2);
        mr_pb_put_bytes(w, 1, i ? MR_SV("B") : MR_SV("A"));
        mr_pb_put_varint(w, 2, (uint64_t)(int64_t)-i);
        mr_pb_put_varint(w, 9, 1);
        mr_pb_end(w, v);
    }
    mr_pb_put_varint(w, 9, 1);
    mr_pb_end(w, mark);
}

static void put_message(fuzz_rng *r, mr_pb_writer *w, uint32_t as, const char *name, bool nested)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    size_t mark = mr_pb_begin(w, as);
    mr_pb_put_bytes(w, 1, mr_sv_of(name));
    for (int i = 0; i < MR_COUNT(names); i++)
        put_field(r, w, 2, names[i], i + 1);
    if (nested) {
        put_message(r, w, 3, "N", false);
        put_enum(w, 4, "F");
        put_field(r, w, 6, "x", 101);
    }
    mr_pb_put_varint(w, 9, 1);
    mr_pb_end(w, mark);
}

static void make(fuzz_rng *r, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    size_t file = mr_pb_begin(&w, 1);
    mr_pb_put_bytes(&w, 1, MR_SV("file"));
    mr_pb_put_bytes(&w, 2, MR_SV("p"));
    put_message(r, &w, 4, "M", true);
    put_enum(&w, 5, "E");
    put_field(r, &w, 7, "y", 100);
    if (fuzz_once_in(r, 2))
        mr_pb_put_bytes(&w, 12, MR_SV("proto3"));
    mr_pb_end(&w, file);
    mr_pb_put_varint(&w, 9, 1);
    if (fuzz_once_in(r, 6))
        fuzz_damage(r, out);
}

/* ---- text ---- */

static void put_text(fuzz_rng *r, const mr_proto_message *m, int depth, mr_str *out)
{
    static const char *const values[] = {"1",   "-1",       "0x7f", "1.5",   "-inf", "nan",  "true",        "f",
                                         "'a'", "\"\\x41\"", "A",    "[1, 2]", "[]",   "1e99", "5000000000", "'a' 'b'"};
    for (uint64_t k = fuzz_below(r, 4); k > 0 && m->fields.n; k--) {
        const mr_proto_field *f = m->fields.p[fuzz_below(r, (uint64_t)m->fields.n)];
        bool dotted = f->name.n && memchr(f->name.p, '.', f->name.n);
        mr_str_printf(out, dotted ? "[%.*s]" : "%.*s", MR_SV_ARG(f->name));
        if (f->message && depth > 0 && !fuzz_once_in(r, 12)) {
            bool angle = fuzz_once_in(r, 3);
            mr_str_appendz(out, angle ? " < " : ": { ");
            put_text(r, f->message, depth - 1, out);
            mr_str_appendz(out, angle ? " > " : " }, ");
            continue;
        }
        uint32_t wire = mr_proto_wire(f->type);
        const char *v = wire == MR_WIRE_BYTES                                         ? "'s'"
                        : f->type == MR_PROTO_ENUM                                    ? "B"
                        : f->type == MR_PROTO_DOUBLE || f->type == MR_PROTO_FLOAT ? "-2.5"
                                                                                      : "1";
        mr_str_printf(out, ": %s; ", fuzz_once_in(r, 3) ? fuzz_pick(r, values) : v);
    }
}

static void try_text(fuzz_run *r, const mr_proto_message *m)
{
    mr_str text = {0}, bytes = {0};
    put_text(&r->rng, m, 3, &text);
    if (fuzz_once_in(&r->rng, 8))
        fuzz_damage(&r->rng, &text);
    mr_sv exact = fuzz_exact(mr_str_view(&text));
    mr_status *st = mr_proto_from_text(m, exact, &bytes);
    fuzz_say(r, "%s: %s", mr_str_z(&text), mr_status_message(st));
    if (!st && !mr_proto_is_message(m, mr_str_view(&bytes)))
        fuzz_fail("accepted text did not become a valid message");
    r->counts[TEXTS] += !st;
    if (fuzz_once_in(&r->rng, 3)) {
        fuzz_damage(&r->rng, &bytes);
        (void)mr_proto_is_message(m, mr_str_view(&bytes));
    }
    mr_status_free(st);
    mr_str_deinit(&text);
    mr_str_deinit(&bytes);
    mr_free((void *)(uintptr_t)exact.p);
}

/* ---- runs ---- */

static void look(const mr_proto_pool *p)
{
    static const mr_sv names[] = {{"a", 1}, {"none", 4}};
    const mr_proto_message *m;
    const mr_proto_field *f[2];
    mr_status *st = mr_proto_fields_find(p, MR_SV("p.M"), 2, names, &m, f);
    if (!st)
        fuzz_fail("a field was found that does not exist");
    mr_status_free(st);
    if (m && m->fields.n) {
        (void)mr_proto_compatible(m->fields.p[0], MR_INT32);
        (void)mr_proto_type_name(m->fields.p[0]->type);
    }
    mr_status_free(mr_proto_check_dtype(MR_HALF));
    mr_status_free(mr_proto_check_dtype(MR_STRING));
}

static void try_bytes(fuzz_run *r, mr_sv bytes)
{
    mr_proto_pool *p = NULL;
    mr_str source = {0};
    mr_status *st;
    mr_str_appendz(&source, "bytes://");
    mr_str_append(&source, bytes.p, bytes.n);
    mr_sv exact = fuzz_exact(mr_str_view(&source));
    st = mr_proto_pool_open(exact, &p);
    mr_free((void *)(uintptr_t)exact.p); /* the pool has its own */
    fuzz_say(r, "%zu bytes: %s", bytes.n, mr_status_message(st));
    if (!st) {
        const mr_proto_message *m = mr_proto_pool_find(p, MR_SV("p.M"));
        r->counts[MADE]++;
        look(p);
        if (m)
            try_text(r, m);
        mr_proto_pool_free(p);
    }
    mr_status_free(st);
    mr_str_deinit(&source);
    if (fuzz_once_in(&r->rng, 1000)) {
        mr_status_free(mr_proto_pool_open(MR_SV("local://"), &p));
        mr_status_free(mr_proto_pool_open(MR_SV("no/such/file"), &p));
    }
}

static void prepare(void) {}
static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_COUNTS; }

static void run(fuzz_run *r)
{
    mr_str bytes = {0};
    make(&r->rng, &bytes);
    fuzz_note(r, mr_str_view(&bytes));
    try_bytes(r, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"made", "texts"};
    return fuzz_shares("proto_pool", names, counts, N_COUNTS, runs, 1, out, err);
}

const fuzz_target fuzz_proto_pool = {.name = "proto_pool",
                                     .about = "descriptors of messages, and text of what they describe",
                                     .prepare = prepare,
                                     .n_runs = n_runs,
                                     .n_counts = n_counts,
                                     .run = run,
                                     .replay = try_bytes,
                                     .summary = summary};
