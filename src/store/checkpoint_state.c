/* store/checkpoint_state.c -- reads and replaces a folder's `checkpoint` file. */
#include "store/checkpoint_state.h"

#include "base/file.h"
#include "proto/saved_model.pb-c.h"
#include "wire/message.h"
#include "wire/text_format.h"

static char *state_path(const char *folder) { return mr_printf("%s/checkpoint", folder[0] ? folder : "."); }

void mr_checkpoint_state_add(mr_checkpoint_state *s, const char *path)
{
    for (int i = s->paths.n - 1; i >= 0; i--)
        if (strcmp(s->paths.p[i], path) == 0) {
            mr_free(s->paths.p[i]);
            memmove(&s->paths.p[i], &s->paths.p[i + 1], sizeof(char *) * (size_t)(--s->paths.n - i));
        }
    mr_vec_push(&s->paths, mr_strdup(path));
}

/* The path in model_checkpoint_path is the newest, wherever all_model_checkpoint_paths lists it, so it is added
 * last. */
mr_status *mr_checkpoint_state_read(const char *folder, mr_checkpoint_state *out)
{
    mr_status *st = NULL;
    char *path = state_path(folder);
    mr_str text = {0};
    Tensorflow__CheckpointState *m = NULL;
    *out = (mr_checkpoint_state){0};
    MR_GO(mr_file_read_all(path, &text));
    MR_GO(mr_text_parse(&tensorflow__checkpoint_state__descriptor, mr_str_view(&text), (ProtobufCMessage **)&m));
    for (size_t i = 0; i < m->n_all_model_checkpoint_paths; i++)
        mr_checkpoint_state_add(out, m->all_model_checkpoint_paths[i]);
    if (m->model_checkpoint_path[0])
        mr_checkpoint_state_add(out, m->model_checkpoint_path);
out:
    if (m)
        mr_message_free(&m->base);
    mr_str_deinit(&text);
    mr_free(path);
    return st;
}

/* Replaces the file atomically: a reader sees the old state or the new one. */
mr_status *mr_checkpoint_state_write(const char *folder, const mr_checkpoint_state *s)
{
    mr_status *st = NULL;
    char *path = state_path(folder);
    mr_writer *w = NULL;
    mr_str text = {0};
    Tensorflow__CheckpointState m = TENSORFLOW__CHECKPOINT_STATE__INIT;
    m.n_all_model_checkpoint_paths = (size_t)s->paths.n;
    m.all_model_checkpoint_paths = s->paths.p;
    if (s->paths.n > 0)
        m.model_checkpoint_path = mr_vec_last(&s->paths);
    MR_GO(mr_text_print(&m.base, &text));
    MR_GO(mr_writer_open(path, &w));
    MR_GO(mr_writer_write(w, text.p, text.n));
    MR_GO(mr_writer_commit(w));
out:
    mr_writer_free(w);
    mr_str_deinit(&text);
    mr_free(path);
    return st;
}

void mr_checkpoint_state_deinit(mr_checkpoint_state *s)
{
    for (int i = 0; i < s->paths.n; i++)
        mr_free(s->paths.p[i]);
    mr_vec_deinit(&s->paths);
}

char *mr_checkpoint_resolve(const char *folder, const char *path)
{
    return path[0] == '/' || !folder[0] ? mr_strdup(path) : mr_printf("%s/%s", folder, path);
}
