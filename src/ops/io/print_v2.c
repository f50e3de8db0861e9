/* ops/io/print_v2.c -- PrintV2: writes a string to a stream, the log or the end of a file. */
#include <stdio.h>

#include "base/file.h"
#include "base/log.h"
#include "graph/infer.h"
#include "ops/io/name_input.h"

enum target { TO_STDOUT, TO_STDERR, TO_LOG, TO_FILE };

static const struct stream {
    const char *name;
    enum target target;
    mr_log_level level;
} streams[] = {
    {"stdout", TO_STDOUT, MR_LOG_INFO},       {"stderr", TO_STDERR, MR_LOG_INFO},
    {"log(info)", TO_LOG, MR_LOG_INFO},       {"log(warning)", TO_LOG, MR_LOG_WARNING},
    {"log(error)", TO_LOG, MR_LOG_ERROR},
};

typedef struct state {
    enum target target;
    mr_log_level level; /* TO_LOG */
    char *path;         /* TO_FILE */
    mr_sv end;
} state;

static mr_status *init_print(mr_make *m, void *p)
{
    state *s = p;
    mr_sv stream;
    MR_TRY(mr_node_get_str(m->node, "output_stream", &stream));
    MR_TRY(mr_node_get_str(m->node, "end", &s->end));
    for (int i = 0; i < MR_COUNT(streams); i++)
        if (mr_sv_is(stream, streams[i].name)) {
            s->target = streams[i].target;
            s->level = streams[i].level;
            return NULL;
        }
    if (!mr_sv_starts(stream, "file://"))
        return mr_invalid("Unknown output stream: %.*s, Valid streams are: stdout stderr log(info) "
                          "log(warning) log(error) file://PATH",
                          MR_SV_ARG(stream));
    s->target = TO_FILE;
    s->path = mr_strndup(stream.p, stream.n);
    return NULL;
}

static void deinit_print(void *p) { mr_free(((state *)p)->path); }

static mr_status *append_to_file(const char *path, mr_sv text)
{
    mr_writer *w = NULL;
    mr_status *st = NULL;
    MR_GO(mr_writer_open_append(path, &w));
    MR_GO(mr_writer_write(w, text.p, text.n));
    MR_GO(mr_writer_flush(w));
out:
    mr_writer_free(w);
    return st;
}

/* Each text is one write, so that texts of several threads do not mix. */
static mr_status *run_print(mr_run *r)
{
    const state *s = r->state;
    mr_sv text = MR_SV("");
    mr_str all = {0};
    mr_status *st = NULL;
    MR_TRY(mr_in_scalar_str(r, 0, "Input", &text));
    if (!mr_str_try_append(&all, text.p, text.n) || !mr_str_try_append(&all, s->end.p, s->end.n))
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a text of %zu bytes", text.n);
    else if (s->target == TO_FILE)
        st = append_to_file(s->path, mr_str_view(&all));
    else if (s->target == TO_LOG)
        mr_log_at(s->level, __FILE__, __LINE__, "%s", mr_str_z(&all));
    else
        fwrite(mr_str_z(&all), 1, all.n, s->target == TO_STDOUT ? stdout : stderr);
    mr_str_deinit(&all);
    return st;
}

static mr_status *print_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    return mr_infer_rank(c, c->in[0], 0, &ignored);
}

MR_OP(PrintV2,
    .doc      = "prints a string to stderr, stdout, the log, or the end of a file",
    .sig      = "input: string ->",
    .attrs    = "output_stream: string = \"stderr\"; end: string = \"\\n\"",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = print_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_print)),
    .state_bytes = sizeof(state), .init = init_print, .deinit = deinit_print,
    .examples = MR_EXAMPLES(
        "output_stream=\"file:///dev/null\": \"a\" ->", "output_stream=\"log(info)\" end=\"\": \"a\" ->",
        "output_stream=\"file:///nowhere/at/all\": \"a\" -> !NOT_FOUND /nowhere/at/all",
        "output_stream=\"x\": \"a\" -> !INVALID_ARGUMENT Unknown output stream: x, Valid streams are: stdout",
        "[\"a\"] -> !INVALID_ARGUMENT must be rank 0"));
