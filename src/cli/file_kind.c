/* cli/file_kind.c -- finds out what kind of TensorFlow file a path is.
 *
 * Folders are searched for models and checkpoints. Files are recognized by their names first, then by their bytes. */
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/inspect.h"
#include "store/bundle.h"
#include "store/checkpoint_state.h"
#include "store/matching.h"
#include "store/record.h"
#include "store/saved_model.h"
#include "store/table.h"
#include "wire/crc32c.h"
#include "wire/pb.h"

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

bool mr_file_is_text(const char *path) { return ends_with(path, ".pbtxt") || ends_with(path, ".txt"); }

/* Whether the file starts with a TFRecord: the length of a record has a checksum, which no other file matches. */
static bool begins_a_record(mr_file *f)
{
    uint8_t head[MR_RECORD_HEADER];
    uint32_t crc;
    if (mr_file_bytes(f) < sizeof head)
        return false;
    mr_status *st = mr_file_read_at(f, 0, sizeof head, head);
    mr_status_free(st);
    memcpy(&crc, head + 8, sizeof crc);
    return !st && mr_crc32c_mask(mr_crc32c(head, 8)) == crc;
}

/* Whether the first record is an Event with the version of the format, as in every event file. */
static bool first_is_event(const char *path)
{
    mr_record_reader *r = NULL;
    mr_str record = {0};
    mr_pb_reader p;
    uint32_t field, wire;
    bool is = false;
    mr_status *st = mr_record_reader_open(path, MR_UNCOMPRESSED, 0, &r);
    if (!st)
        st = mr_record_read(r, &record);
    mr_pb_reader_init(&p, mr_str_view(&record));
    while (!st && mr_pb_next(&p, &field, &wire))
        if (field == 3 && wire == MR_WIRE_BYTES)
            is = mr_sv_starts(mr_pb_bytes(&p), "brain.Event:");
        else
            mr_pb_skip(&p);
    mr_status_free(st);
    mr_str_deinit(&record);
    mr_record_reader_close(r);
    return is;
}

/* Finds the first field 1 of a message, and in that its first field 1; false if there is none. */
static bool first_of_first(mr_sv bytes, mr_sv *out)
{
    mr_pb_reader p, inner;
    uint32_t field, wire;
    mr_pb_reader_init(&p, bytes);
    while (mr_pb_next(&p, &field, &wire)) {
        if (field != 1 || wire != MR_WIRE_BYTES) {
            mr_pb_skip(&p);
            continue;
        }
        mr_pb_reader_init(&inner, mr_pb_bytes(&p));
        while (mr_pb_next(&inner, &field, &wire)) {
            if (field == 1 && wire == MR_WIRE_BYTES) {
                *out = mr_pb_bytes(&inner);
                return out->n > 0;
            }
            mr_pb_skip(&inner);
        }
        return false;
    }
    return false;
}

/* Both messages have fields of the same numbers:
 *
 *     GraphDef      1 nodes, many       2 a library of functions  3 a number, no longer written  4 versions
 *     MetaGraphDef  1 what it is, once  2 a GraphDef              3 how it is saved              4 collections  5, ...
 *
 * If the field numbers do not decide, field 2 does. If it is a GraphDef, it begins with a node, whose first field is
 * its name. If it is a library, it begins with a function, whose first field is a message; that begins with a byte
 * ('\n') that no name has. */
static bool is_meta_graph(mr_sv bytes)
{
    mr_pb_reader p;
    uint32_t field, wire;
    int n_first = 0;
    bool has_second = false, only_meta = false, only_graph = false, is_library = false;
    mr_pb_reader_init(&p, bytes);
    while (mr_pb_next(&p, &field, &wire)) {
        n_first += field == 1;
        only_meta |= field > 4 || (field == 3 && wire == MR_WIRE_BYTES);
        only_graph |= n_first > 1 || (field == 3 && wire == MR_WIRE_VARINT);
        if (field == 2 && wire == MR_WIRE_BYTES) {
            mr_sv second = mr_pb_bytes(&p), first;
            has_second |= second.n > 0;
            is_library |= first_of_first(second, &first) && first.p[0] == '\n';
        } else {
            mr_pb_skip(&p);
        }
    }
    mr_status *st = mr_pb_reader_status(&p, "GraphDef");
    bool whole = !st;
    mr_status_free(st);
    return whole && !only_graph && !is_library && (only_meta || has_second);
}

/* Recognizes a file by its contents: TFRecords, V1 checkpoints, otherwise a GraphDef or MetaGraphDef. */
static mr_status *kind_of_bytes(const char *path, mr_file_kind *kind)
{
    mr_file *f;
    mr_str bytes = {0};
    MR_TRY(mr_file_open(path, &f));
    bool records = begins_a_record(f);
    mr_file_close(f);
    if (records) {
        *kind = first_is_event(path) ? MR_FILE_EVENTS : MR_FILE_RECORDS;
        return NULL;
    }
    if (mr_table_is(path)) { /* not the index of a bundle, which ends in .index: a V1 checkpoint */
        *kind = MR_FILE_CHECKPOINT;
        return NULL;
    }
    mr_status *st = mr_file_read_all(path, &bytes);
    *kind = !st && is_meta_graph(mr_str_view(&bytes)) ? MR_FILE_META_GRAPH : MR_FILE_GRAPH;
    mr_str_deinit(&bytes);
    return st;
}

static bool any_file_matches(const char *pattern)
{
    mr_file_names names = {0};
    mr_status *st = mr_files_match(mr_sv_of(pattern), &names);
    bool any = !st && names.v.n > 0;
    mr_status_free(st);
    mr_file_names_deinit(&names);
    return any;
}

/* The path to open for the checkpoint with this prefix, or NULL; the caller owns it. A V1 checkpoint is a file of that
 * name, a pattern for its files, or files with the suffix -00000-of-00002. */
static char *checkpoint_at(const char *prefix)
{
    if (mr_bundle_exists(prefix) || any_file_matches(prefix))
        return mr_strdup(prefix);
    char *parts = mr_printf("%s-?\?\?\?\?-of-?\?\?\?\?", prefix);
    if (any_file_matches(parts))
        return parts;
    mr_free(parts);
    return NULL;
}

/* The number after the last dash of a name (model.ckpt-123), or the name itself as a number (00000123); -1: none. */
static int64_t number_of(mr_sv name)
{
    int64_t v = 0;
    size_t from = 0;
    for (size_t i = 0; i < name.n; i++)
        from = name.p[i] == '-' ? i + 1 : from;
    if (from == name.n || name.n - from > 18)
        return -1;
    for (size_t i = from; i < name.n; i++) {
        if (name.p[i] < '0' || name.p[i] > '9')
            return -1;
        v = v * 10 + (name.p[i] - '0');
    }
    return v;
}

/* The matching file with the highest number in its name, ignoring the last n_end bytes; among equal ones, the last by
 * name. Only files that `fits` accepts count; it may be NULL. NULL if there is none; the caller owns the result. */
static char *find_highest(const char *dir, const char *pattern, size_t n_end, bool (*fits)(const char *path))
{
    mr_file_names names = {0};
    char *all = mr_printf("%s/%s", dir, pattern), *best = NULL;
    int64_t best_number = -2;
    mr_status_free(mr_files_match(mr_sv_of(all), &names));
    mr_file_names_sort(&names);
    for (int i = 0; i < names.v.n; i++) {
        mr_sv base = mr_path_basename(names.v.p[i]);
        int64_t number = number_of((mr_sv){base.p, base.n - MR_MIN(base.n, n_end)});
        if (number < best_number || (fits && !fits(names.v.p[i])))
            continue;
        mr_free(best);
        best = mr_strdup(names.v.p[i]);
        best_number = number;
    }
    mr_file_names_deinit(&names);
    mr_free(all);
    return best;
}

static bool is_numbered(const char *path) { return number_of(mr_path_basename(path)) >= 0; }

static bool is_model_version(const char *path) { return is_numbered(path) && mr_saved_model_exists(path); }

/* The prefix of the newest checkpoint in a folder, or NULL; the caller owns it. */
static char *newest_index(const char *dir)
{
    char *found = find_highest(dir, "*.index", strlen(".index"), NULL);
    if (found)
        found[strlen(found) - strlen(".index")] = '\0';
    return found;
}

static bool is_export_version(const char *path)
{
    char *index = is_numbered(path) ? newest_index(path) : NULL;
    mr_free(index);
    return index != NULL;
}

/* What to open in a folder without a `checkpoint` file. The folder may contain copied checkpoints, or a subfolder for
 * each version of a served model, with a SavedModel or (older exports) a checkpoint. NULL if it contains neither. */
static char *find_unlisted(const char *dir, mr_file_kind *kind)
{
    *kind = MR_FILE_CHECKPOINT;
    char *found = newest_index(dir);
    if (found)
        return found;
    *kind = MR_FILE_SAVED_MODEL;
    if ((found = find_highest(dir, "[0-9]*", 0, is_model_version)))
        return found;
    *kind = MR_FILE_CHECKPOINT;
    char *version = find_highest(dir, "[0-9]*", 0, is_export_version);
    found = version ? newest_index(version) : NULL;
    mr_free(version);
    return found;
}

/* A folder is a SavedModel, or contains several models or checkpoints; the newest one is meant. */
static mr_status *kind_of_folder(const char *dir, mr_file_kind *kind, char **path)
{
    mr_checkpoint_state s;
    if (mr_saved_model_exists(dir)) {
        *kind = MR_FILE_SAVED_MODEL;
        *path = mr_strdup(dir);
        return NULL;
    }
    mr_status *st = mr_checkpoint_state_read(dir, &s);
    if (!st && s.paths.n > 0) {
        const char *newest = mr_vec_last(&s.paths);
        *kind = MR_FILE_CHECKPOINT;
        char *where = mr_checkpoint_resolve(dir, newest);
        if (!(*path = checkpoint_at(where))) { /* the folder was moved after the file was written */
            mr_free(where);
            where = mr_checkpoint_resolve(dir, mr_path_basename(newest).p);
            *path = checkpoint_at(where);
        }
        if (!*path) /* opening it reports what is missing */
            *path = mr_strdup(where);
        mr_free(where);
    }
    mr_checkpoint_state_deinit(&s);
    mr_status_free(st);
    if (!*path)
        *path = find_unlisted(dir, kind);
    return *path ? NULL : mr_error(MR_NOT_FOUND, "%s: neither a SavedModel nor a folder with checkpoints", dir);
}

static char *copy_without_end(const char *s, size_t n_end) { return mr_strndup(s, strlen(s) - n_end); }

/* The name decides before the bytes do. */
mr_status *mr_file_kind_of(const char *file, mr_file_kind *kind, char **path)
{
    mr_sv base = mr_path_basename(file), dir = mr_path_dirname(file);
    *path = NULL;
    if (mr_dir_exists(file))
        return kind_of_folder(file, kind, path);
    if (mr_sv_is(base, "saved_model.pb") || mr_sv_is(base, "saved_model.pbtxt") || mr_sv_is(base, "checkpoint")) {
        char *folder = dir.n ? mr_strndup(dir.p, dir.n) : mr_strdup(".");
        mr_status *st = kind_of_folder(folder, kind, path);
        mr_free(folder);
        return st;
    }
    if (ends_with(file, ".index") || mr_bundle_exists(file)) {
        *kind = MR_FILE_CHECKPOINT;
        *path = ends_with(file, ".index") ? copy_without_end(file, strlen(".index")) : mr_strdup(file);
        return NULL;
    }
    if (!mr_file_exists(file) && (*path = checkpoint_at(file))) {
        *kind = MR_FILE_CHECKPOINT;
        return NULL;
    }
    *path = mr_strdup(file);
    if (mr_file_is_text(file)) {
        *kind = MR_FILE_GRAPH_TEXT;
        return NULL;
    }
    return kind_of_bytes(file, kind);
}
