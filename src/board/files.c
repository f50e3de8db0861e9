/* board/files.c -- the files that the page may use.
 *
 * A file has one reference from the list and one from each request that uses it, so a file that must make room for
 * another is removed from the disk when the last simulation that reads it has ended.
 *
 * The lock guards the list and the counts only. Bytes are written without it; their room is reserved before. */
#include "board/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/unicode.h"
#include "sim/plan.h"
#include "store/saved_model.h"
#include "wire/json.h"

enum { MOST_NAME_BYTES = 120 };

#define KINDS "a plan (.json), a graph (.pb, .pbtxt, .meta) or a SavedModel"

static bool ends_with(mr_sv s, const char *end)
{
    size_t n = strlen(end);
    return s.n >= n && strncasecmp(s.p + s.n - n, end, n) == 0;
}

static bool is_saved_model_file(mr_sv name)
{
    return mr_sv_is(name, "saved_model.pb") || mr_sv_is(name, "saved_model.pbtxt");
}

/* The ending that decides how the simulator reads a graph; NULL: it is no name of a graph. */
static const char *graph_ending(mr_sv name)
{
    static const char *const endings[] = {".pbtxt", ".meta", ".pb"};
    for (int i = 0; i < MR_COUNT(endings); i++)
        if (ends_with(name, endings[i]))
            return endings[i];
    return NULL;
}

/* The name for people: without folders and control characters, short, and valid UTF-8. The caller owns it. */
static char *clean_name(mr_sv name)
{
    mr_str out = {0};
    for (size_t i = name.n; i > 0; i--)
        if (name.p[i - 1] == '/' || name.p[i - 1] == '\\') {
            name = (mr_sv){name.p + i, name.n - i};
            break;
        }
    if (name.n > MOST_NAME_BYTES) /* the end says what it is */
        name = (mr_sv){name.p + name.n - MOST_NAME_BYTES, MOST_NAME_BYTES};
    while (name.n) {
        uint32_t c;
        size_t n = mr_utf8_next(name.p, name.n, &c);
        if (c != MR_NO_CODE && c >= 0x20 && !(c >= 0x7f && c < 0xa0))
            mr_str_append(&out, name.p, n);
        else
            mr_str_appendc(&out, '_');
        name = (mr_sv){name.p + n, name.n - n};
    }
    return out.n ? mr_str_take(&out) : mr_strdup("file");
}

/* ---- the list ---- */

static mr_board_file *new_file(mr_board_kind kind, mr_sv name)
{
    mr_board_file *x = mr_new(mr_board_file);
    MR_ASSERT(name.p);
    mr_refs_init(&x->refs);
    x->kind = kind;
    x->name = clean_name(name);
    return x;
}

void mr_board_file_unref(mr_board_file *x)
{
    if (!x || !mr_refs_drop(&x->refs))
        return;
    if (x->written)
        unlink(x->written);
    if (x->in_folder)
        rmdir(x->path);
    mr_free(x->name);
    mr_free(x->path);
    mr_free(x->written);
    mr_str_deinit(&x->plan);
    mr_free(x);
}

void mr_board_files_init(mr_board_files *f, const char *folder, const mr_board_limits *limits)
{
    *f = (mr_board_files){.folder = folder ? mr_strdup(folder) : NULL, .limits = *limits};
    mr_mutex_init(&f->mu);
}

void mr_board_files_deinit(mr_board_files *f)
{
    for (int i = 0; i < f->list.n; i++)
        mr_board_file_unref(f->list.p[i]);
    mr_vec_deinit(&f->list);
    mr_mutex_deinit(&f->mu);
    mr_free(f->folder);
}

mr_board_file *mr_board_files_find(mr_board_files *f, const char *id, mr_board_kind kind)
{
    mr_board_file *found = NULL;
    mr_lock(&f->mu);
    for (int i = 0; i < f->list.n && !found; i++)
        if (f->list.p[i]->kind == kind && strcmp(f->list.p[i]->id, id) == 0)
            found = f->list.p[i];
    if (found)
        mr_refs_take(&found->refs);
    mr_unlock(&f->mu);
    return found;
}

static void put_file(const mr_board_file *x, mr_str *out)
{
    mr_str_printf(out, "{\"id\": \"%s\", \"name\": ", x->id);
    mr_json_quote(out, mr_sv_of(x->name));
    if (x->kind == MR_BOARD_PLAN) {
        mr_str_appendz(out, ", \"plan\": ");
        mr_str_append(out, x->plan.p, x->plan.n);
    }
    mr_str_appendc(out, '}');
}

/* Files of costs are left out: people choose a plan that names one, never the file itself. */
void mr_board_files_json(mr_board_files *f, mr_str *out)
{
    const char *comma = "";
    mr_lock(&f->mu);
    mr_str_appendc(out, '[');
    for (int i = 0; i < f->list.n; i++) {
        if (f->list.p[i]->kind == MR_BOARD_COSTS)
            continue;
        mr_str_appendz(out, comma);
        put_file(f->list.p[i], out);
        comma = ", ";
    }
    mr_str_appendc(out, ']');
    mr_unlock(&f->mu);
}

/* ---- paths and ids in plans ---- */

typedef mr_status *(*id_fn)(mr_board_files *f, mr_board_kind kind, const char *file, const char *plan, char id[24]);

/* Copies the string at the cursor's place as the id of the file that it names. */
static mr_status *put_id(mr_board_files *f, mr_json *j, mr_board_kind kind, const char *plan, id_fn find,
                         const char **done, mr_str *out)
{
    mr_str value = {0};
    char id[24];
    mr_json_peek(j); /* moves to the string */
    mr_str_append(out, *done, (size_t)(j->at - *done));
    mr_json_string(j, &value);
    *done = j->at;
    mr_status *st = find(f, kind, mr_str_z(&value), plan, id);
    if (!st)
        mr_json_quote(out, mr_sv_of(id));
    mr_str_deinit(&value);
    return st;
}

/* Copies a valid plan, with ids instead of the paths in graph.file and costs. */
static mr_status *rewrite_plan(mr_board_files *f, mr_sv text, const char *plan, id_fn find, mr_str *out)
{
    mr_json j;
    mr_str key = {0};
    mr_status *st = NULL;
    const char *done = text.p;
    mr_json_init(&j, text);
    mr_json_begin(&j, '{');
    while (!st && mr_json_key(&j, &key)) {
        if (strcmp(mr_str_z(&key), "costs") == 0) {
            st = put_id(f, &j, MR_BOARD_COSTS, plan, find, &done, out);
        } else if (strcmp(mr_str_z(&key), "graph") == 0) {
            mr_json_begin(&j, '{');
            while (!st && mr_json_key(&j, &key))
                if (strcmp(mr_str_z(&key), "file") == 0)
                    st = put_id(f, &j, MR_BOARD_GRAPH, plan, find, &done, out);
                else
                    mr_json_skip(&j);
        } else {
            mr_json_skip(&j);
        }
    }
    if (!st)
        st = mr_json_status(&j, "plan");
    mr_str_append(out, done, (size_t)(text.p + text.n - done));
    mr_str_deinit(&key);
    return st;
}

/* ---- files of the command line ---- */

/* Adds a given file, or frees it if the same one was given before. Returns the one in the list. */
static const mr_board_file *add_given(mr_board_files *f, mr_board_file *x)
{
    const mr_board_file *same = NULL;
    mr_lock(&f->mu);
    for (int i = 0; i < f->list.n && x->path && !same; i++)
        if (f->list.p[i]->path && f->list.p[i]->kind == x->kind && strcmp(f->list.p[i]->path, x->path) == 0)
            same = f->list.p[i];
    if (!same) {
        snprintf(x->id, sizeof x->id, "f%d", ++f->n_given);
        mr_vec_push(&f->list, x);
    }
    mr_unlock(&f->mu);
    if (same)
        mr_board_file_unref(x);
    return same ? same : x;
}

/* The file itself, after all links; it must be a file or a folder. The caller frees *out with free(). */
static mr_status *resolve_path(const char *path, char **out, bool *is_folder)
{
    struct stat s;
    *out = realpath(path, NULL);
    if (!*out)
        return mr_errno_status(errno, "open", path);
    if (stat(*out, &s) == 0 && (S_ISREG(s.st_mode) || S_ISDIR(s.st_mode))) {
        *is_folder = S_ISDIR(s.st_mode);
        return NULL;
    }
    free(*out);
    *out = NULL;
    return mr_invalid("%s: expected a file or a folder", path);
}

/* The simulator reads a graph by the ending of its path. If a link had another ending than its target, a link of our
 * own with that ending, to the target, takes its place. */
static mr_status *keep_ending(mr_board_files *f, mr_board_file *x, const char *target, const char *ending, int number)
{
    if (!ending || ends_with(mr_sv_of(target), ending)) {
        x->path = mr_strdup(target);
        return NULL;
    }
    if (!f->folder)
        return mr_invalid("%s is a link to %s, which does not end in %s", x->name, target, ending);
    x->path = mr_printf("%s/f%d%s", f->folder, number, ending);
    if (symlink(target, x->path) < 0)
        return mr_errno_status(errno, "make", x->path);
    x->written = mr_strdup(x->path);
    return NULL;
}

/* A SavedModel is its folder, also if the file in it is named. Any other file is a graph, because a plan may name a
 * graph without an ending. */
static mr_status *give_graph(mr_board_files *f, const char *path, const mr_board_file **out)
{
    char *target;
    bool is_folder;
    mr_status *st = NULL;
    MR_TRY(resolve_path(path, &target, &is_folder));
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    mr_sv name = {path, n};
    mr_board_file *x = new_file(MR_BOARD_GRAPH, name);
    if (!is_folder && is_saved_model_file(mr_path_basename(target))) {
        mr_sv dir = mr_path_dirname(target);
        x->path = dir.n ? mr_strndup(dir.p, dir.n) : mr_strdup("/");
    } else if (!is_folder) {
        st = keep_ending(f, x, target, graph_ending(name), f->n_given + 1);
    } else if (mr_saved_model_exists(target)) {
        x->path = mr_strdup(target);
    } else {
        st = mr_invalid("%s: the folder has no saved_model.pb, so it is not a SavedModel", path);
    }
    free(target);
    if (st)
        mr_board_file_unref(x);
    else
        *out = add_given(f, x);
    return st;
}

static mr_status *give_costs(mr_board_files *f, const char *path, const mr_board_file **out)
{
    char *target;
    bool is_folder;
    MR_TRY(resolve_path(path, &target, &is_folder));
    mr_board_file *x = new_file(MR_BOARD_COSTS, mr_sv_of(path));
    x->path = mr_strdup(target);
    free(target);
    *out = add_given(f, x);
    return NULL;
}

/* A path in a given plan is relative to the folder of the plan. */
static mr_status *give_named(mr_board_files *f, mr_board_kind kind, const char *file, const char *plan, char id[24])
{
    const mr_board_file *x;
    mr_sv dir = mr_path_dirname(plan);
    char *path = file[0] == '/' || !dir.n ? mr_strdup(file) : mr_printf("%.*s/%s", MR_SV_ARG(dir), file);
    mr_status *st = kind == MR_BOARD_COSTS ? give_costs(f, path, &x) : give_graph(f, path, &x);
    if (!st)
        memcpy(id, x->id, sizeof x->id);
    mr_free(path);
    return mr_status_prepend(st, "%s: ", plan);
}

/* The files that the plan names become given files before the plan itself, so that it can name their ids. */
static mr_status *give_plan(mr_board_files *f, const char *path)
{
    mr_sim_plan p;
    mr_str text = {0};
    MR_TRY(mr_file_read_all(path, &text));
    mr_board_file *x = new_file(MR_BOARD_PLAN, mr_sv_of(path));
    mr_status *st = mr_sim_plan_parse(mr_str_view(&text), path, &p);
    if (!st)
        st = rewrite_plan(f, mr_str_view(&text), path, give_named, &x->plan);
    mr_sim_plan_deinit(&p);
    mr_str_deinit(&text);
    if (st)
        mr_board_file_unref(x);
    else
        add_given(f, x);
    return st;
}

mr_status *mr_board_files_give(mr_board_files *f, const char *path)
{
    const mr_board_file *unused;
    char *target;
    bool is_folder;
    MR_TRY(resolve_path(path, &target, &is_folder));
    free(target);
    if (!is_folder && ends_with(mr_sv_of(path), ".json"))
        return give_plan(f, path);
    if (!is_folder && !graph_ending(mr_sv_of(path)))
        return mr_invalid("%s: expected " KINDS, path);
    return give_graph(f, path, &unused);
}

/* ---- uploads ---- */

/* Removes the oldest uploads until another one of this size fits, and counts it. */
static void reserve_room(mr_board_files *f, size_t bytes)
{
    MR_VEC(mr_board_file *) removed = {0};
    mr_lock(&f->mu);
    for (int i = 0; i < f->list.n && (f->kept >= f->limits.uploads || f->kept_bytes + bytes > f->limits.total_bytes);) {
        mr_board_file *x = f->list.p[i];
        if (!x->uploaded) {
            i++;
            continue;
        }
        MR_ASSERT(f->kept > 0 && f->kept_bytes >= x->bytes);
        f->kept--;
        f->kept_bytes -= x->bytes;
        mr_vec_push(&removed, x);
        memmove(&f->list.p[i], &f->list.p[i + 1], (size_t)(f->list.n - i - 1) * sizeof f->list.p[0]);
        f->list.n--;
    }
    f->kept++;
    f->kept_bytes += bytes;
    mr_unlock(&f->mu);
    for (int i = 0; i < removed.n; i++)
        mr_board_file_unref(removed.p[i]);
    mr_vec_deinit(&removed);
}

/* A new file that only this user can read. Nothing needs it after a crash, so it is not synced. */
static mr_status *write_bytes(const char *path, mr_sv bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return mr_errno_status(errno, "make", path);
    int err = 0;
    for (size_t done = 0; done < bytes.n && !err;) {
        ssize_t n = write(fd, bytes.p + done, bytes.n - done);
        if (n < 0 && errno != EINTR)
            err = errno;
        else if (n > 0)
            done += (size_t)n;
    }
    if (close(fd) < 0 && !err)
        err = errno;
    if (err)
        unlink(path);
    return err ? mr_errno_status(err, "write", path) : NULL;
}

/* Only the ending comes from the sender, and that is one of three. */
static mr_status *store_graph(const mr_board_files *f, mr_board_file *x, mr_sv bytes)
{
    mr_sv name = mr_sv_of(x->name);
    if (!is_saved_model_file(name)) {
        x->path = mr_printf("%s/%s%s", f->folder, x->id, graph_ending(name));
        MR_TRY(write_bytes(x->path, bytes));
        x->written = mr_strdup(x->path);
        return NULL;
    }
    x->path = mr_printf("%s/%s", f->folder, x->id);
    if (mkdir(x->path, 0700) < 0)
        return mr_errno_status(errno, "make", x->path);
    x->in_folder = true;
    char *path = mr_printf("%s/%s", x->path, mr_sv_is(name, "saved_model.pb") ? "saved_model.pb" : "saved_model.pbtxt");
    mr_status *st = write_bytes(path, bytes);
    if (st)
        mr_free(path);
    else
        x->written = path;
    return st;
}

/* A dropped plan can only name a graph of the board: by its id, or by its name after any folders. */
static mr_status *find_named(mr_board_files *f, mr_board_kind kind, const char *file, const char *plan, char id[24])
{
    (void)plan;
    bool found = false;
    mr_sv name = mr_path_basename(file);
    mr_lock(&f->mu);
    for (int i = 0; i < f->list.n; i++) {
        const mr_board_file *x = f->list.p[i];
        if (x->kind == kind && (strcmp(x->id, file) == 0 || mr_sv_is(name, x->name))) {
            memcpy(id, x->id, sizeof x->id);
            found = true; /* the last one of a name wins */
        }
    }
    mr_unlock(&f->mu);
    if (!found && kind == MR_BOARD_COSTS)
        return mr_invalid("the plan names the file of costs '%.200s': start `millrace board` with the plan to use it",
                          file);
    return found ? NULL : mr_invalid("the plan names the file '%.200s': drop that file first, then the plan", file);
}

static mr_status *store_plan(mr_board_files *f, mr_board_file *x, mr_sv bytes)
{
    mr_sim_plan p;
    MR_TRY(mr_sim_plan_parse(bytes, x->name, &p));
    mr_sim_plan_deinit(&p);
    return rewrite_plan(f, bytes, x->name, find_named, &x->plan);
}

/* Room is reserved first, and given back if the file cannot be kept after all. The page learns of the file when it is
 * complete. */
mr_status *mr_board_files_upload(mr_board_files *f, mr_sv name, mr_sv bytes, mr_str *out)
{
    if (!f->folder)
        return mr_error(MR_UNIMPLEMENTED, "this board takes no files");
    if (bytes.n > f->limits.upload_bytes)
        return mr_error(MR_RESOURCE_EXHAUSTED, "the file has %zu bytes, at most %zu are accepted", bytes.n,
                        f->limits.upload_bytes);
    mr_board_file *x = new_file(MR_BOARD_GRAPH, name);
    bool is_plan = ends_with(mr_sv_of(x->name), ".json");
    if (is_plan)
        x->kind = MR_BOARD_PLAN;
    if (!is_plan && !graph_ending(mr_sv_of(x->name))) {
        mr_status *st = mr_invalid("%s: expected " KINDS " (its file saved_model.pb)", x->name);
        mr_board_file_unref(x);
        return st;
    }
    x->uploaded = true;
    x->bytes = bytes.n;
    reserve_room(f, bytes.n);
    mr_lock(&f->mu);
    snprintf(x->id, sizeof x->id, "u%d", ++f->n_uploads);
    mr_unlock(&f->mu);
    mr_status *st = is_plan ? store_plan(f, x, bytes) : store_graph(f, x, bytes);
    if (!st)
        put_file(x, out);
    mr_lock(&f->mu);
    if (st) {
        f->kept--;
        f->kept_bytes -= bytes.n;
    } else {
        mr_vec_push(&f->list, x);
    }
    mr_unlock(&f->mu);
    if (st)
        mr_board_file_unref(x);
    return st;
}
