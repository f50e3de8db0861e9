/* train/saver.c -- the save and restore ops of a network, and the checkpoint folder.
 *
 * A checkpoint is written completely before the `checkpoint` file names it, and old ones are removed
 * after that. Its .index file is removed first: without it the rest is not a checkpoint. So a crash at
 * any point leaves a folder whose newest named checkpoint loads. What a folder may contain:
 *
 *     checkpoint                          names the checkpoints, and which one is the newest
 *     model.ckpt-20.index, .data-*        a checkpoint: its prefix is model.ckpt-20
 *     model.ckpt-30_temp_HEX/part-*       parts of a sharded save in progress, or of one that was killed
 *     model.ckpt-30*.tempstate*           a file that is being written, or was when its process was killed
 *
 * mr_nn_saver_clean removes the last two kinds when they are old enough. */
#include "train/saver.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "store/bundle.h"
#include "store/checkpoint_state.h"

/* ---- adding nodes ---- */

typedef struct shard { /* variables that are saved and restored together */
    const char *device;
    MR_VEC(int) vars; /* indices in the network */
} shard;
typedef MR_VEC(shard) shards;

/* One shard for each device that has variables, in the order of the network; or a single one on the scope's device. */
static void split_variables(const mr_nn *n, bool by_device, shards *out)
{
    for (int i = 0; i < n->vars.n; i++) {
        const char *device = by_device ? n->vars.p[i].device : n->s.device;
        int k = 0;
        while (k < out->n && by_device && strcmp(out->p[k].device, device) != 0)
            k++;
        if (k == out->n)
            mr_vec_push(out, (shard){.device = device});
        mr_vec_push(&out->p[k].vars, i);
    }
}

static void shards_deinit(shards *s)
{
    for (int i = 0; i < s->n; i++)
        mr_vec_deinit(&s->p[i].vars);
    mr_vec_deinit(s);
}

/* A constant with the names of a shard's variables, or with as many empty strings: whole tensors, no slices. */
static mr_out strings_const(mr_nn *n, const char *name, const shard *d, bool empty)
{
    MR_ASSERT(d->vars.n > 0);
    const char **v = mr_new_array(const char *, d->vars.n + 1);
    for (int i = 0; i < d->vars.n; i++)
        v[i] = empty ? "" : n->vars.p[d->vars.p[i]].name;
    mr_tensor *t = mr_tensor_vector_str(d->vars.n, v);
    mr_free(v);
    return mr_const(mr_as(&n->s, name), t);
}

/* A string scalar to feed, with a default. */
static mr_out string_input(mr_nn *n, const char *name, mr_out otherwise)
{
    return mr_emit_with(mr_as(&n->s, name), "PlaceholderWithDefault", MR_ATTRS({"shape", mr_a_shape(&mr_pshape_scalar)}), otherwise);
}

/* A SaveV2 of the variables of one shard, on the scope's present device. */
static mr_node *save_shard(mr_nn *n, mr_out file, const shard *d)
{
    int k = d->vars.n;
    mr_out *values = mr_new_array(mr_out, k + 1);
    for (int i = 0; i < k; i++)
        values[i] = n->vars.p[d->vars.p[i]].value;
    mr_out names = strings_const(n, "SaveV2/tensor_names", d, false);
    mr_out slices = strings_const(n, "SaveV2/shape_and_slices", d, true);
    mr_emit_arg args[] = {{-1, &file}, {-1, &names}, {-1, &slices}, {k, values}};
    mr_node *save = mr_emit_lists(mr_as(&n->s, "SaveV2"), "SaveV2", NULL, 0, args, 4).node;
    mr_free(values);
    return save;
}

/* Nodes added from now on run after these. */
static void add_controls(mr_nn *n, mr_node *const *nodes, int k)
{
    for (int i = 0; i < k && mr_scope_ok(&n->s); i++)
        mr_vec_push(&n->s.controls, nodes[i]);
}

/* Each device writes its part to a temporary folder; when all have, the parts are merged into one
 * checkpoint. Every save has a separate folder (s->aside names it), because an abandoned save may
 * still be writing. */
static mr_node *save_parts(mr_nn *n, mr_nn_saver *s, const shards *all)
{
    MR_ASSERT(all->n > 1);
    mr_out *parts = mr_new_array(mr_out, all->n);
    MR_VEC(mr_node *) saved = {0};
    const char *before = n->s.device;
    s->aside = string_input(n, "aside", mr_const_str(mr_as(&n->s, "aside/input"), "_temp_/part"));
    mr_out both[] = {s->file, s->aside};
    mr_out base = mr_emit_lists(mr_as(&n->s, "StringJoin"), "StringJoin", NULL, 0, (mr_emit_arg[]){{2, both}}, 1);
    for (int i = 0; i < all->n && mr_scope_ok(&n->s); i++) {
        mr_nn_at(n, all->p[i].device);
        parts[i] = mr_emit(mr_as(&n->s, "ShardedFilename"), "ShardedFilename", base, mr_const_i32(&n->s, i),
                           mr_const_i32(&n->s, all->n));
        mr_vec_push(&saved, save_shard(n, parts[i], &all->p[i]));
    }
    mr_nn_at(n, before);
    add_controls(n, saved.p, saved.n);
    mr_out names = mr_emit_lists(&n->s, "Pack", NULL, 0, (mr_emit_arg[]){{all->n, parts}}, 1);
    mr_node *merged = mr_emit(mr_as(&n->s, "MergeV2Checkpoints"), "MergeV2Checkpoints", names, s->file).node;
    n->s.controls.n = 0;
    mr_vec_deinit(&saved);
    mr_free(parts);
    return merged;
}

/* The save node: its output is the file name, after everything is written. */
static mr_node *add_save(mr_nn *n, mr_nn_saver *s, const shards *all)
{
    const char *before = n->s.device;
    mr_node *saved = NULL;
    if (all->n > 1) {
        saved = save_parts(n, s, all);
    } else if (all->n == 1) {
        mr_nn_at(n, all->p[0].device);
        saved = save_shard(n, s->file, &all->p[0]);
        mr_nn_at(n, before);
    }
    add_controls(n, &saved, 1);
    mr_out done = mr_emit(mr_as(&n->s, "control_dependency"), "Identity", s->file);
    n->s.controls.n = 0;
    return done.node;
}

/* Every device reads the variables that it holds, whichever device wrote them, so a checkpoint fits any number of
 * devices. */
static mr_node *add_restore(mr_nn *n, mr_out file, const shards *all)
{
    MR_VEC(mr_node *) assigned = {0};
    const char *before = n->s.device;
    for (int i = 0; i < all->n && mr_scope_ok(&n->s); i++) {
        const shard *d = &all->p[i];
        int *types = mr_new_array(int, d->vars.n + 1);
        for (int k = 0; k < d->vars.n; k++)
            types[k] = n->vars.p[d->vars.p[k]].dtype;
        mr_nn_at(n, d->device);
        mr_out names = strings_const(n, "RestoreV2/tensor_names", d, false);
        mr_out slices = strings_const(n, "RestoreV2/shape_and_slices", d, true);
        mr_out read = mr_emit_with(mr_as(&n->s, "RestoreV2"), "RestoreV2", MR_ATTRS({"dtypes", mr_a_types(d->vars.n, types)}),
                                   file, names, slices);
        mr_free(types);
        /* An assignment is on the variable's device, also when a plain saver reads on another one. */
        for (int k = 0; k < d->vars.n && mr_scope_ok(&n->s); k++) {
            const mr_nn_var *v = &n->vars.p[d->vars.p[k]];
            mr_nn_at(n, v->device);
            mr_vec_push(&assigned, mr_nn_assign(n, v, mr_nth(read, k)).node);
        }
    }
    mr_nn_at(n, before);
    add_controls(n, assigned.p, assigned.n);
    mr_out done = mr_scope_ok(&n->s) ? mr_emit0(mr_as(&n->s, "restore_all"), "NoOp") : MR_NO_OUT;
    n->s.controls.n = 0;
    mr_vec_deinit(&assigned);
    return done.node;
}

/* Adds the nodes of a saver below a fresh name, `save` for the first. After an error save or restore may be NULL;
 * run_with_path refuses that. */
static mr_nn_saver *saver_new(mr_nn *n, int max_to_keep, bool by_device)
{
    mr_nn_saver *s = mr_new(mr_nn_saver);
    const char *saved;
    shards all = {0};
    s->max_to_keep = max_to_keep;
    if (n->vars.n == 0)
        mr_scope_fail(&n->s, mr_invalid("a saver needs variables: add them to the network before the saver"));
    split_variables(n, by_device, &all);
    mr_nn_enter(n, mr_graph_unique_name(n->s.graph, "save"), &saved);
    mr_out deflt = mr_const_str(mr_as(&n->s, "filename/input"), "model");
    s->file = string_input(n, "Const", deflt);
    s->save = add_save(n, s, &all);
    s->restore = add_restore(n, s->file, &all);
    mr_nn_leave(n, saved);
    shards_deinit(&all);
    return s;
}

mr_nn_saver *mr_nn_saver_new(mr_nn *n, int max_to_keep) { return saver_new(n, max_to_keep, false); }
mr_nn_saver *mr_nn_saver_new_sharded(mr_nn *n, int max_to_keep) { return saver_new(n, max_to_keep, true); }

void mr_nn_saver_free(mr_nn_saver *s) { mr_free(s); }

/* Runs save or restore with a path. A save gets a random name for its temporary folder. */
static mr_status *run_with_path(mr_nn_saver *s, mr_session *session, const char *path, mr_node *target)
{
    MR_ASSERT(target == s->save || target == s->restore);
    if (!target)
        return mr_error(MR_FAILED_PRECONDITION, "the saver was not built: see the model's status");
    char *folder = mr_printf("_temp_%016llx/part", (unsigned long long)mr_random64());
    mr_tensor *values[] = {mr_tensor_scalar_str(mr_sv_of(path)), mr_tensor_scalar_str(mr_sv_of(folder))};
    mr_out feeds[] = {s->file, s->aside};
    mr_run_args a = {.feeds = feeds, .feed_values = values, .n_feeds = s->aside.node && target == s->save ? 2 : 1,
                     .targets = &target, .n_targets = 1};
    mr_status *st = mr_session_run(session, &a, NULL, NULL);
    mr_tensor_unref(values[0]);
    mr_tensor_unref(values[1]);
    mr_free(folder);
    return st;
}

mr_status *mr_nn_save_at(mr_nn_saver *s, mr_session *session, const char *prefix)
{
    return run_with_path(s, session, prefix, s->save);
}

mr_status *mr_nn_restore(mr_nn_saver *s, mr_session *session, const char *path)
{
    return run_with_path(s, session, path, s->restore);
}

/* ---- the checkpoint folder ---- */

typedef struct removal {
    const char *folder;
    mr_sv base; /* file name of the checkpoint's prefix */
} removal;

/* PREFIX.index, PREFIX.meta, PREFIX.data-* */
static mr_status *remove_file_of(void *ctx, const char *name)
{
    const removal *r = ctx;
    if (!mr_sv_starts(mr_sv_of(name), r->base.p))
        return NULL;
    const char *rest = name + r->base.n;
    if (strcmp(rest, ".index") != 0 && strcmp(rest, ".meta") != 0 && strncmp(rest, ".data-", 6) != 0)
        return NULL;
    char *path = mr_checkpoint_resolve(r->folder, name);
    mr_status_free(mr_file_remove(path)); /* it may be gone already */
    mr_free(path);
    return NULL;
}

/* Whether nobody has written to it for a minute. A chief that was replaced may still be saving, so newer files are left
 * alone. */
static bool is_abandoned(const char *path)
{
    enum { ABANDONED_S = 60 };
    struct stat s;
    return stat(mr_path_local(path), &s) == 0 && mr_wall_us() / 1000000 - (int64_t)s.st_mtime > ABANDONED_S;
}

/* Removes a part that an abandoned save wrote. For mr_dir_each. */
static mr_status *remove_part(void *ctx, const char *name)
{
    const removal *r = ctx;
    char *path = mr_checkpoint_resolve(r->folder, name);
    if (mr_sv_starts(mr_sv_of(name), r->base.p) && is_abandoned(path))
        mr_status_free(mr_file_remove(path));
    mr_free(path);
    return NULL;
}

/* Removes all files of a checkpoint, the index first. */
static mr_status *remove_checkpoint(const char *folder, const char *path)
{
    char *full = mr_checkpoint_resolve(folder, path);
    mr_sv dir = mr_path_dirname(full);
    char *dir_z = dir.n ? mr_strndup(dir.p, dir.n) : mr_strdup(".");
    char *index = mr_printf("%s.index", full);
    mr_status_free(mr_file_remove(index));
    removal r = {dir_z, mr_path_basename(full)};
    mr_status *st = mr_dir_each(dir_z, remove_file_of, &r);
    mr_free(index);
    mr_free(dir_z);
    mr_free(full);
    return st;
}

/* Removes what a killed save left: files with a temporary name, and folders of parts. For mr_dir_each. */
static mr_status *remove_leftover(void *ctx, const char *name)
{
    const removal *r = ctx;
    if (!mr_sv_starts(mr_sv_of(name), r->base.p))
        return NULL;
    char *path = mr_checkpoint_resolve(r->folder, name);
    if (!is_abandoned(path)) {
        mr_free(path);
        return NULL;
    }
    if (strstr(name + r->base.n, "_temp_") && mr_dir_exists(path)) {
        removal parts = {path, MR_SV("part")};
        mr_status_free(mr_dir_each(path, remove_part, &parts));
        mr_status_free(mr_dir_remove(path)); /* fails if a writer is still active; the next time will do */
    } else if (strstr(name + r->base.n, ".tempstate")) {
        mr_status_free(mr_file_remove(path));
    }
    mr_free(path);
    return NULL;
}

/* A missing folder is not an error: nothing has been saved yet. */
mr_status *mr_nn_saver_clean(const char *prefix)
{
    mr_sv dir = mr_path_dirname(prefix);
    char *folder = dir.n ? mr_strndup(dir.p, dir.n) : mr_strdup(".");
    removal r = {folder, mr_path_basename(prefix)};
    mr_status *st = mr_dir_exists(folder) ? mr_dir_each(folder, remove_leftover, &r) : NULL;
    mr_free(folder);
    return st;
}

/* Names the checkpoint as the newest in the folder's `checkpoint` file, then removes those beyond
 * max_to_keep. A missing or unreadable file is replaced. */
static mr_status *name_newest(mr_nn_saver *s, const char *folder, const char *path)
{
    mr_checkpoint_state state;
    mr_status *st = mr_checkpoint_state_read(folder, &state);
    if (st) {
        mr_status_free(st);
        mr_checkpoint_state_deinit(&state);
        state = (mr_checkpoint_state){0};
    }
    mr_checkpoint_state_add(&state, mr_path_basename(path).p);
    MR_VEC(char *) old = {0};
    int too_many = s->max_to_keep > 0 ? MR_MAX(0, state.paths.n - s->max_to_keep) : 0;
    MR_ASSERT(too_many < state.paths.n); /* the newest stays */
    for (int i = 0; i < too_many; i++)
        mr_vec_push(&old, state.paths.p[i]);
    memmove(state.paths.p, state.paths.p + too_many, sizeof(char *) * (size_t)(state.paths.n -= too_many));
    st = mr_checkpoint_state_write(folder, &state);
    for (int i = 0; i < old.n; i++) {
        if (!st)
            st = remove_checkpoint(folder, old.p[i]);
        mr_free(old.p[i]);
    }
    mr_vec_deinit(&old);
    mr_checkpoint_state_deinit(&state);
    return st;
}

/* Saves at PREFIX-STEP, or at PREFIX if step is negative, and names the checkpoint as the newest of its folder. */
mr_status *mr_nn_save(mr_nn_saver *s, mr_session *session, const char *prefix, int64_t step)
{
    char *path = step >= 0 ? mr_printf("%s-%lld", prefix, (long long)step) : mr_strdup(prefix);
    mr_sv dir = mr_path_dirname(path);
    char *folder = dir.n ? mr_strndup(dir.p, dir.n) : mr_strdup(".");
    mr_status *st = run_with_path(s, session, path, s->save);
    if (!st)
        st = name_newest(s, folder, path);
    mr_free(folder);
    mr_free(path);
    return st;
}

/* Whether to try the checkpoint before this one: it is damaged or gone. A missing key is an error of the network
 * instead. */
static bool is_damage(const mr_status *st, const char *path)
{
    mr_code code = mr_status_code(st);
    return code == MR_DATA_LOSS || (code == MR_NOT_FOUND && !mr_bundle_exists(path));
}

/* Tries the named checkpoints from the newest on, skipping damaged ones. If none loads, the error is
 * that of the newest. */
mr_status *mr_nn_restore_latest(mr_nn_saver *s, mr_session *session, const char *folder, bool *found)
{
    mr_checkpoint_state state;
    *found = false;
    mr_status *st = mr_checkpoint_state_read(folder, &state), *why = NULL;
    if (mr_status_code(st) == MR_NOT_FOUND) {
        mr_status_free(st);
        return NULL;
    }
    /* An error that is not damage ends the search: an older checkpoint would not help. */
    for (int i = state.paths.n - 1; !st && i >= 0 && !*found; i--) {
        char *path = mr_checkpoint_resolve(folder, state.paths.p[i]);
        mr_status *one = mr_nn_restore(s, session, path);
        *found = !one;
        if (one && is_damage(one, path)) {
            mr_warn("Cannot load checkpoint %s: %s", path, mr_status_message(one));
            mr_status_update(&why, one);
        } else {
            st = one;
        }
        mr_free(path);
    }
    mr_checkpoint_state_deinit(&state);
    if (*found) {
        mr_status_free(why);
        why = NULL;
    }
    mr_status_update(&st, why);
    return st;
}
