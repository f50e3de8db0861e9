/* tests/fuzz/record.c -- generated and damaged TFRecord files, plain and compressed, and the streams below.
 *
 * Checksums are corrected after most changes, so that only lengths or the end of the file are wrong. Records that are
 * read must be part of the file, and reading a position twice must give the same record. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"
#include "store/record.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "wire/crc32c.h"

enum { WHOLE, RECORDS, N_COUNTS, MOST_RECORDS = 8, SMALL_BUFFER = 24 };

/* ---- making ---- */

static void put_crc(fuzz_rng *r, mr_str *out, size_t from, bool right)
{
    uint32_t crc = mr_crc32c_mask(mr_crc32c(out->p + from, out->n - from));
    crc += right ? 0 : 1 + (uint32_t)fuzz_below(r, 9);
    mr_str_append(out, &crc, sizeof(crc));
}

static void put_record(fuzz_rng *r, mr_str *out)
{
    bool honest = !fuzz_once_in(r, 20);
    uint64_t n = fuzz_below(r, 40), said = honest ? n : (uint64_t)fuzz_odd_int(r);
    size_t at = out->n;
    mr_str_append(out, &said, sizeof(said));
    put_crc(r, out, at, !fuzz_once_in(r, 60));
    at = out->n;
    for (uint64_t i = 0; i < n; i++)
        mr_str_appendc(out, fuzz_once_in(r, 6) ? '\n' : (char)('a' + fuzz_below(r, 26)));
    put_crc(r, out, at, !fuzz_once_in(r, 60));
}

static void compress_to(fuzz_rng *r, mr_sv bytes, mr_compression c, mr_str *out)
{
    z_stream z = {0};
    char room[4096];
    deflateInit2(&z, (int)fuzz_between(r, 0, 9), Z_DEFLATED, 9 + (c == MR_GZIP ? 16 : 0), 1,
                 Z_DEFAULT_STRATEGY); /* little memory: most of the time goes there */
    z.next_in = (Bytef *)(uintptr_t)bytes.p;
    z.avail_in = (uInt)bytes.n;
    z.next_out = (Bytef *)room;
    z.avail_out = sizeof(room);
    deflate(&z, Z_FINISH);
    mr_str_append(out, room, sizeof(room) - z.avail_out);
    deflateEnd(&z);
}

/* Two in a row, for gzip. */
static void make(fuzz_rng *r, mr_compression c, mr_str *out)
{
    mr_str plain = {0};
    for (uint64_t k = fuzz_below(r, MOST_RECORDS); k > 0; k--)
        put_record(r, &plain);
    if (fuzz_once_in(r, 5))
        fuzz_damage(r, &plain);
    for (uint64_t k = fuzz_once_in(r, 4) ? 2 : 1; k > 0; k--)
        if (c == MR_UNCOMPRESSED)
            mr_str_append(out, mr_str_z(&plain), plain.n);
        else
            compress_to(r, mr_str_view(&plain), c, out);
    mr_str_deinit(&plain);
    if (fuzz_once_in(r, 6))
        fuzz_damage(r, out);
}

/* ---- reading ---- */

static void write_file(const char *path, mr_sv bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes.p, bytes.n) != (ssize_t)bytes.n)
        fuzz_fail("cannot write %s", path);
    close(fd);
}

/* From the bytes, or sometimes from a file with a small buffer. */
static mr_stream *open_stream(fuzz_rng *r, mr_sv bytes, mr_compression c, bool file)
{
    mr_stream *s = NULL;
    if (file) {
        write_file("r", bytes);
        fuzz_must(mr_stream_open("r", c, fuzz_once_in(r, 2) ? SMALL_BUFFER : 0, &s), "a file");
    } else {
        fuzz_must(mr_stream_of_bytes(bytes, c, &s), "bytes");
    }
    return s;
}

static void read_lines(fuzz_rng *r, mr_stream *s, size_t most)
{
    mr_str line = {0};
    mr_status *st = NULL;
    uint64_t skipped;
    size_t total = 0;
    for (int i = 0; i < 50 && !st; i++, total += line.n) {
        st = mr_stream_line(s, &line);
        if (!st && line.n > 0 && (memchr(line.p, '\n', line.n) || memchr(line.p, '\r', line.n)))
            fuzz_fail("a line contains a newline");
        if (!st && fuzz_once_in(r, 4))
            st = mr_stream_skip(s, fuzz_below(r, 9), &skipped);
    }
    if (total > most)
        fuzz_fail("%zu bytes of lines from %zu", total, most);
    mr_status_free(st);
    mr_str_deinit(&line);
}

static void read_parts(fuzz_rng *r, mr_stream *s)
{
    char part[64];
    size_t got;
    mr_str rest = {0};
    mr_status *st = mr_stream_read(s, part, fuzz_below(r, sizeof(part)), &got);
    if (!st && fuzz_once_in(r, 2))
        st = mr_stream_seek(s, fuzz_once_in(r, 9) ? (uint64_t)fuzz_odd_int(r) : fuzz_below(r, 99));
    if (!st)
        st = mr_stream_read_all(s, &rest);
    mr_status_free(st);
    mr_str_deinit(&rest);
}

/* A record that was read is read again from where it began. */
static void read_again(mr_record_reader *d, uint64_t at, const mr_str *first)
{
    mr_str again = {0};
    uint64_t next = mr_record_offset(d);
    fuzz_must(mr_record_seek(d, at), "a seek");
    fuzz_must(mr_record_read(d, &again), "a record that was there before");
    if (!mr_sv_eq(mr_str_view(&again), mr_str_view(first)) || mr_record_offset(d) != next)
        fuzz_fail("the record at %llu differs when it is read again", (unsigned long long)at);
    mr_str_deinit(&again);
}

static void read_records(fuzz_run *r, mr_stream *s)
{
    mr_record_reader *d = mr_record_reader_new(s);
    mr_str record = {0};
    mr_status *st = NULL;
    int64_t skipped;
    for (int i = 0; i < 3 * MOST_RECORDS && !st; i++) {
        uint64_t at = mr_record_offset(d);
        if (fuzz_once_in(&r->rng, 5)) {
            st = mr_record_skip(d, (int64_t)fuzz_below(&r->rng, 3), &skipped);
            continue;
        }
        st = mr_record_read(d, &record);
        r->counts[RECORDS] += !st;
        if (!st && fuzz_once_in(&r->rng, 6))
            read_again(d, at, &record);
    }
    fuzz_say(r, "ends by %s", mr_status_message(st));
    r->counts[WHOLE] += mr_status_code(st) == MR_OUT_OF_RANGE;
    mr_status_free(st);
    mr_record_reader_close(d);
    mr_str_deinit(&record);
}

/* Records from our writer are read back to the byte. */
static void round_trip(fuzz_rng *r, mr_compression c)
{
    mr_writer *f;
    mr_record_writer *w;
    mr_record_reader *d;
    mr_str text = {0}, got = {0};
    fuzz_must(mr_writer_open("w", &f), "a writer");
    fuzz_must(mr_record_writer_new(f, c, &w), "a writer");
    for (uint64_t k = fuzz_below(r, 3000); k > 0; k--)
        mr_str_appendc(&text, (char)fuzz_below(r, 256));
    fuzz_must(mr_record_write(w, mr_str_view(&text)), "a record");
    fuzz_must(mr_record_flush(w), "a flush");
    fuzz_must(mr_record_write(w, mr_str_view(&text)), "a record");
    fuzz_must(mr_record_finish(w), "the end");
    fuzz_must(mr_writer_commit(f), "the file");
    mr_record_writer_free(w);
    mr_writer_free(f);
    fuzz_must(mr_record_reader_open("w", c, 0, &d), "the file");
    for (int i = 0; i < 2; i++) {
        fuzz_must(mr_record_read(d, &got), "a record of ours");
        if (!mr_sv_eq(mr_str_view(&got), mr_str_view(&text)))
            fuzz_fail("a record from our writer differs when it is read");
    }
    mr_record_reader_close(d);
    mr_str_deinit(&text);
    mr_str_deinit(&got);
}

static void bad_files(void)
{
    mr_stream *s;
    mr_compression c;
    if (!mr_compression_parse(MR_SV(""), &c) || mr_compression_parse(MR_SV("RAR"), &c) ||
        !mr_compression_parse(MR_SV("ZLIB"), &c) || !mr_compression_parse(MR_SV("GZIP"), &c))
        fuzz_fail("names of compressions");
    mr_status_free(mr_stream_open(".", c, 0, &s));
    mr_status_free(mr_stream_open("nothing", c, 0, &s));
}

/* The first byte of an input is its compression. */
static void try_input(fuzz_run *r, mr_sv input)
{
    if (input.n == 0)
        return;
    mr_compression c = (mr_compression)((unsigned char)input.p[0] % 3);
    mr_sv bytes = {input.p + 1, input.n - 1}, exact = fuzz_exact(bytes);
    bool file = fuzz_once_in(&r->rng, 40);
    uint64_t how = fuzz_below(&r->rng, 6);
    mr_stream *s = open_stream(&r->rng, exact, c, file);
    if (how == 0) {
        read_lines(&r->rng, s, c == MR_UNCOMPRESSED ? bytes.n : SIZE_MAX);
        mr_stream_close(s);
    } else if (how == 1) {
        read_parts(&r->rng, s);
        mr_stream_close(s);
    } else {
        read_records(r, s);
    }
    mr_free((void *)(uintptr_t)exact.p);
}

static void prepare(void) {}
static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_COUNTS; }

static void run(fuzz_run *r)
{
    mr_str bytes = {0};
    mr_compression c = (mr_compression)fuzz_below(&r->rng, 3);
    mr_str_appendc(&bytes, (char)c);
    make(&r->rng, c, &bytes);
    fuzz_note(r, mr_str_view(&bytes));
    try_input(r, mr_str_view(&bytes));
    if (fuzz_once_in(&r->rng, 400)) {
        round_trip(&r->rng, (mr_compression)fuzz_below(&r->rng, 3));
        bad_files();
    }
    mr_str_deinit(&bytes);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"whole"};
    fprintf(out, "records %lld ", (long long)counts[RECORDS]);
    return fuzz_shares("record", names, counts, 1, runs, 1, out, err);
}

const fuzz_target fuzz_record = {.name = "record",
                                 .about = "TFRecord files, lines and streams, plain and compressed",
                                 .prepare = prepare,
                                 .n_runs = n_runs,
                                 .n_counts = n_counts,
                                 .run = run,
                                 .replay = try_input,
                                 .summary = summary};
