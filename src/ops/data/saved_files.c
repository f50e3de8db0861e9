/* ops/data/saved_files.c -- see saved_files.h. */
#include "ops/data/saved_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "wire/pb.h"

#define META "snapshot.metadata"
#define SHARD ".shard"

/* ---- metadata ----
 *
 *     field  SnapshotMetadataRecord
 *     2      run_id, a number in decimal
 *     3      creation_timestamp, microseconds
 *     4      version
 *     5      dtype, repeated
 *     6      num_elements
 *     1000   finalized */

static mr_status *meta_write(const char *path, const mr_saved_meta *m, int n, const int *types)
{
    mr_str bytes = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &bytes);
    mr_pb_opt_bytes(&w, 2, mr_sv_of(m->run));
    mr_pb_opt_varint(&w, 3, (uint64_t)m->created_us);
    mr_pb_opt_varint(&w, 4, (uint64_t)m->version);
    mr_pb_put_packed_int32(&w, 5, types, (size_t)n);
    mr_pb_opt_varint(&w, 6, (uint64_t)m->n_elements);
    mr_pb_opt_varint(&w, 1000, m->finished);
    mr_status *st = mr_pb_writer_status(&w, "SnapshotMetadataRecord");
    char *name = mr_printf("%s/" META, path);
    if (!st)
        st = mr_file_write_all(name, mr_str_view(&bytes));
    mr_free(name);
    mr_str_deinit(&bytes);
    return st;
}

/* The run becomes part of a path, so it must not lead to another directory. */
static bool is_run(mr_sv s) { return s.n > 0 && s.p[0] != '.' && !memchr(s.p, '/', s.n) && !memchr(s.p, '\0', s.n); }

static mr_status *meta_decode(mr_sv bytes, const char *path, mr_saved_meta *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv run = {0};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 2: run = mr_pb_bytes(&r); break;
        case 3: out->created_us = mr_pb_int64(&r); break;
        case 4: out->version = mr_pb_int64(&r); break;
        case 6: out->n_elements = mr_pb_int64(&r); break;
        case 1000: out->finished = mr_pb_bool(&r); break;
        default: mr_pb_skip(&r);
        }
    mr_status *st = mr_pb_reader_status(&r, "SnapshotMetadataRecord");
    if (st || !is_run(run) || out->n_elements < 0) {
        mr_status_free(st);
        return mr_error(MR_DATA_LOSS, "%s/" META " does not describe a saved dataset", path);
    }
    out->run = mr_strndup(run.p, run.n);
    return NULL;
}

mr_status *mr_saved_meta_read(const char *path, mr_saved_meta *out)
{
    mr_str bytes = {0};
    char *name = mr_printf("%s/" META, path);
    *out = (mr_saved_meta){0};
    mr_status *st = mr_file_exists(name) ? mr_file_read_all(name, &bytes)
                                         : mr_error(MR_NOT_FOUND, "Could not find metadata file [%s]", path);
    if (!st)
        st = meta_decode(mr_str_view(&bytes), path, out);
    mr_free(name);
    mr_str_deinit(&bytes);
    return st;
}

/* ---- writing ---- */

typedef struct shard {
    int64_t id;
    char *dir, *name;
    mr_writer *file;
    mr_record_writer *records;
} shard;

struct mr_saved_writer {
    char *path, *dir; /* dir: the directory of this run */
    mr_saved_meta meta;
    mr_compression compression;
    int n;
    const int *types;
    MR_VEC(shard) shards;
    mr_str bytes;
    bool finished;
};

mr_status *mr_saved_writer_new(const char *path, mr_compression c, int n, const int *types, mr_saved_writer **out)
{
    mr_saved_writer *w = mr_new(mr_saved_writer);
    *w = (mr_saved_writer){.path = mr_strdup(path), .compression = c, .n = n, .types = types};
    w->meta = (mr_saved_meta){.run = mr_printf("%" PRIu64, mr_random64()), .created_us = mr_wall_us(), .version = MR_SAVED_VERSION};
    w->dir = mr_printf("%s/%s", path, w->meta.run);
    mr_status *st = mr_dir_make(w->dir);
    if (st)
        mr_saved_writer_free(w);
    else
        *out = w;
    return st;
}

static mr_status *open_shard(mr_saved_writer *w, int64_t id, shard **out)
{
    for (int i = 0; i < w->shards.n; i++)
        if (w->shards.p[i].id == id) {
            *out = &w->shards.p[i];
            return NULL;
        }
    if (w->shards.n >= MR_SAVED_MAX_SHARDS)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Cannot save a dataset in more than %d shards", MR_SAVED_MAX_SHARDS);
    mr_vec_push(&w->shards, ((shard){.id = id}));
    shard *s = *out = &w->shards.p[w->shards.n - 1];
    s->dir = mr_printf("%s/%08" PRIu64 SHARD, w->dir, (uint64_t)id);
    s->name = mr_printf("%s/%08d.snapshot", s->dir, 0);
    MR_TRY(mr_dir_make(s->dir));
    MR_TRY(mr_writer_open(s->name, &s->file));
    return mr_record_writer_new(s->file, w->compression, &s->records);
}

mr_status *mr_saved_add(mr_saved_writer *w, int64_t id, mr_tensor *const *element)
{
    shard *s = NULL;
    MR_TRY(open_shard(w, id, &s));
    for (int i = 0; i < w->n; i++) {
        mr_str_clear(&w->bytes);
        MR_TRY(mr_tensor_encode(element[i], &w->bytes));
        MR_TRY(mr_record_write(s->records, mr_str_view(&w->bytes)));
    }
    w->meta.n_elements++;
    return NULL;
}

mr_status *mr_saved_finish(mr_saved_writer *w)
{
    for (int i = 0; i < w->shards.n; i++) {
        MR_TRY(mr_record_finish(w->shards.p[i].records));
        MR_TRY(mr_writer_commit(w->shards.p[i].file));
    }
    w->meta.finished = true;
    MR_TRY(meta_write(w->path, &w->meta, w->n, w->types));
    w->finished = true;
    return NULL;
}

static void shard_free(shard *s, bool remove)
{
    mr_record_writer_free(s->records);
    mr_writer_free(s->file);
    if (remove) {
        mr_status_free(mr_file_remove(s->name));
        mr_status_free(mr_dir_remove(s->dir));
    }
    mr_free(s->name);
    mr_free(s->dir);
}

void mr_saved_writer_free(mr_saved_writer *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->shards.n; i++)
        shard_free(&w->shards.p[i], !w->finished);
    if (!w->finished)
        mr_status_free(mr_dir_remove(w->dir));
    mr_vec_deinit(&w->shards);
    mr_str_deinit(&w->bytes);
    mr_free(w->meta.run);
    mr_free(w->path);
    mr_free(w->dir);
    mr_free(w);
}

/* ---- reading ---- */

typedef struct finding {
    const char *dir;
    mr_saved_names *names;
} finding;

static mr_status *note_shard(void *ctx, const char *name)
{
    finding *f = ctx;
    size_t n = strlen(name), tail = sizeof SHARD - 1;
    if (n > tail && strcmp(name + n - tail, SHARD) == 0)
        mr_vec_push(f->names, mr_printf("%s/%s", f->dir, name));
    return NULL;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

mr_status *mr_saved_shards(const char *path, const char *run, mr_saved_names *out)
{
    char *dir = mr_printf("%s/%s", path, run);
    mr_status *st = mr_dir_each(dir, note_shard, &(finding){dir, out});
    if (out->n > 0)
        qsort(out->p, (size_t)out->n, sizeof *out->p, by_name);
    mr_free(dir);
    return st;
}

struct mr_saved_reader {
    const char *dir;
    mr_compression compression;
    int n;
    int64_t file; /* index of the file that is open, or comes next */
    mr_record_reader *records;
    mr_str bytes;
};

mr_saved_reader *mr_saved_reader_new(const char *dir, mr_compression c, int n)
{
    mr_saved_reader *r = mr_new(mr_saved_reader);
    *r = (mr_saved_reader){.dir = dir, .compression = c, .n = n};
    return r;
}

void mr_saved_reader_free(mr_saved_reader *r)
{
    if (!r)
        return;
    mr_record_reader_close(r->records);
    mr_str_deinit(&r->bytes);
    mr_free(r);
}

/* The first file must exist. */
static mr_status *open_file(mr_saved_reader *r, bool *end)
{
    char *name = mr_printf("%s/%08" PRId64 ".snapshot", r->dir, r->file);
    mr_status *st = NULL;
    *end = r->file > 0 && !mr_file_exists(name);
    if (!*end)
        st = mr_record_reader_open(name, r->compression, 0, &r->records);
    mr_free(name);
    return st;
}

static mr_status *read_rest(mr_saved_reader *r, mr_tensor **out)
{
    for (int i = 0; i < r->n; i++) {
        mr_status *st = i > 0 ? mr_record_read(r->records, &r->bytes) : NULL; /* the first record is already read */
        if (mr_status_code(st) == MR_OUT_OF_RANGE) {
            mr_status_free(st);
            return mr_error(MR_DATA_LOSS, "%s ends inside an element", r->dir);
        }
        MR_TRY(st);
        MR_TRY(mr_tensor_decode(NULL, mr_str_view(&r->bytes), &out[i]));
    }
    return NULL;
}

mr_status *mr_saved_read(mr_saved_reader *r, mr_tensor **out, bool *end)
{
    for (;;) {
        if (!r->records)
            MR_TRY(open_file(r, end));
        if (*end)
            return NULL;
        mr_status *st = mr_record_read(r->records, &r->bytes);
        if (!st)
            return read_rest(r, out);
        if (mr_status_code(st) != MR_OUT_OF_RANGE)
            return st;
        mr_status_free(st);
        mr_record_reader_close(r->records);
        r->records = NULL;
        r->file++;
    }
}
