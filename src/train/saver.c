/* train/saver.c -- the save and restore ops of a network, and the care of their folder. */
#include "train/saver.h"

#include "base/file.h"
#include "base/log.h"
#include "store/bundle.h"
#include "store/checkpoint_state.h"

static mr_node *add_save(mr_network *n, mr_out file, mr_out names, mr_out slices)
{
    int k = n->vars.n;
    mr_out *values = mr_new_array(mr_out, k + 1);
    for (int i = 0; i < k; i++)
        values[i] = n->vars.p[i].value;
    mr_emit_arg args[] = {{-1, &file}, {-1, &names}, {-1, &slices}, {k, values}};
    mr_out save = mr_emit_lists(mr_as(&n->s, "SaveV2"), "SaveV2", NULL, 0, args, 4);
    mr_free(values);
    if (!save.node)
        return NULL;
    mr_vec_push(&n->s.controls, save.node);
    mr_out done = mr_emit(mr_as(&n->s, "control_dependency"), "Identity", file);
    n->s.controls.n--;
    return done.node;
}

static mr_node *add_restore(mr_network *n, mr_out file, mr_out names, mr_out slices)
{
    int k = n->vars.n;
    int *types = mr_new_array(int, k + 1);
    for (int i = 0; i < k; i++)
        types[i] = n->vars.p[i].dtype;
    mr_out all = mr_emit_with(mr_as(&n->s, "RestoreV2"), "RestoreV2", MR_ATTRS({"dtypes", mr_a_types(k, types)}), file,
                              names, slices);
    mr_free(types);
    MR_VEC(mr_node *) assigned = {0};
    const char *before = n->s.device;
    for (int i = 0; i < k && all.node; i++) {
        mr_net_at(n, n->vars.p[i].device);
        mr_vec_push(&assigned, mr_emit(&n->s, "AssignVariableOp", n->vars.p[i].handle, mr_nth(all, i)).node);
    }
    mr_net_at(n, before);
    for (int i = 0; i < assigned.n; i++)
        mr_vec_push(&n->s.controls, assigned.p[i]);
    mr_out done = mr_scope_ok(&n->s) ? mr_emit0(mr_as(&n->s, "restore_all"), "NoOp") : MR_NO_OUT;
    n->s.controls.n = 0;
    mr_vec_deinit(&assigned);
    return done.node;
}

static mr_out strings_const(mr_network *n, const char *name, bool empty)
{
    const char **v = mr_new_array(const char *, n->vars.n + 1);
    for (int i = 0; i < n->vars.n; i++)
        v[i] = empty ? "" : n->vars.p[i].name;
    mr_tensor *t = mr_tensor_vector_str(n->vars.n, v);
    mr_free(v);
    return mr_const(mr_as(&n->s, name), t);
}

mr_net_saver *mr_net_saver_new(mr_network *n, int max_to_keep)
{
    mr_net_saver *s = mr_new(mr_net_saver);
    const char *saved;
    s->max_to_keep = max_to_keep;
    if (n->vars.n == 0)
        mr_scope_fail(&n->s, mr_invalid("a saver needs variables: build the network first"));
    mr_net_enter(n, mr_graph_unique_name(n->s.graph, "save"), &saved);
    mr_out deflt = mr_const_str(mr_as(&n->s, "filename/input"), "model");
    s->file = mr_emit_with(mr_as(&n->s, "Const"), "PlaceholderWithDefault",
                           MR_ATTRS({"shape", mr_a_shape(&mr_pshape_scalar)}), deflt);
    mr_out names = strings_const(n, "tensor_names", false), slices = strings_const(n, "shape_and_slices", true);
    s->save = add_save(n, s->file, names, slices);
    s->restore = add_restore(n, s->file, names, slices);
    mr_net_leave(n, saved);
    return s;
}

void mr_net_saver_free(mr_net_saver *s) { mr_free(s); }

static mr_status *run_with_path(mr_net_saver *s, mr_session *session, const char *path, mr_node *target)
{
    if (!target)
        return mr_error(MR_FAILED_PRECONDITION, "the saver was not built: see the model's status");
    mr_tensor *file = mr_tensor_scalar_str(mr_sv_of(path));
    mr_run_args a = {.feeds = &s->file, .feed_values = &file, .n_feeds = 1, .targets = &target, .n_targets = 1};
    mr_status *st = mr_session_run(session, &a, NULL, NULL);
    mr_tensor_unref(file);
    return st;
}

mr_status *mr_net_restore(mr_net_saver *s, mr_session *session, const char *path)
{
    return run_with_path(s, session, path, s->restore);
}

/* ---- the folder ---- */

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
    mr_status_free(mr_file_remove(path)); /* gone already is as good */
    mr_free(path);
    return NULL;
}

static mr_status *remove_checkpoint(const char *folder, const char *path)
{
    char *full = mr_checkpoint_resolve(folder, path);
    mr_sv dir = mr_path_dirname(full);
    char *dir_z = dir.n ? mr_strndup(dir.p, dir.n) : mr_strdup(".");
    char *index = mr_printf("%s.index", full);
    mr_status_free(mr_file_remove(index)); /* first: without its index it is no checkpoint */
    removal r = {dir_z, mr_path_basename(full)};
    mr_status *st = mr_dir_each(dir_z, remove_file_of, &r);
    mr_free(index);
    mr_free(dir_z);
    mr_free(full);
    return st;
}

static mr_status *name_newest(mr_net_saver *s, const char *folder, const char *path)
{
    mr_checkpoint_state state;
    mr_status *st = mr_checkpoint_state_read(folder, &state);
    if (st) { /* none yet, or not readable: start anew */
        mr_status_free(st);
        mr_checkpoint_state_deinit(&state);
        state = (mr_checkpoint_state){0};
    }
    mr_checkpoint_state_add(&state, mr_path_basename(path).p);
    MR_VEC(char *) old = {0};
    int too_many = s->max_to_keep > 0 ? MR_MAX(0, state.paths.n - s->max_to_keep) : 0;
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

mr_status *mr_net_save(mr_net_saver *s, mr_session *session, const char *prefix, int64_t step)
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

/* Worth trying the one before: this one is damaged or gone.  A key that is missing is the network's trouble. */
static bool is_damage(const mr_status *st, const char *path)
{
    mr_code code = mr_status_code(st);
    return code == MR_DATA_LOSS || (code == MR_NOT_FOUND && !mr_bundle_exists(path));
}

mr_status *mr_net_restore_latest(mr_net_saver *s, mr_session *session, const char *folder, bool *found)
{
    mr_checkpoint_state state;
    *found = false;
    mr_status *st = mr_checkpoint_state_read(folder, &state), *why = NULL;
    if (mr_status_code(st) == MR_NOT_FOUND) {
        mr_status_free(st);
        return NULL;
    }
    for (int i = state.paths.n - 1; !st && i >= 0 && !*found; i--) {
        char *path = mr_checkpoint_resolve(folder, state.paths.p[i]);
        mr_status *one = mr_net_restore(s, session, path);
        *found = !one;
        if (one && is_damage(one, path)) {
            mr_warn("%s does not load: %s", path, mr_status_message(one));
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
    mr_status_update(&st, why); /* some are named, none loads: say why the newest does not */
    return st;
}
