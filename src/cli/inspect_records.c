/* cli/inspect_records.c -- describes the contents of checkpoints, TFRecord files and event files. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/columns.h"
#include "base/map.h"
#include "base/memory.h"
#include "cli/inspect.h"
#include "proto/event.pb-c.h"
#include "store/checkpoint.h"
#include "store/record.h"
#include "tensor/dtype.h"
#include "wire/message.h"

/* ---- checkpoints ---- */

mr_status *mr_inspect_checkpoint(const char *prefix, mr_str *out)
{
    mr_checkpoint *c;
    mr_columns rows = {0};
    mr_checkpoint_entry *e = mr_new(mr_checkpoint_entry);
    mr_status *st = mr_checkpoint_open(prefix, &c);
    double total = 0;
    char size[32];
    if (st) {
        mr_free(e);
        return st;
    }
    for (int i = 0; i < mr_checkpoint_count(c) && !st; i++) {
        mr_sv name = mr_checkpoint_name(c, i);
        char *z = mr_strndup(name.p, name.n);
        if (!(st = mr_checkpoint_lookup(c, name, e))) {
            mr_columns_row(&rows, z, mr_dtype_name(e->dtype), MR_SHAPE_TEXT(e->shape.rank, e->shape.dims),
                           mr_bytes_text((double)e->bytes, size), e->in_slices ? "in slices" : "");
            total += (double)e->bytes;
        }
        mr_free(z);
    }
    mr_columns_print(&rows, 0, out);
    if (!st)
        mr_str_printf(out, "%d tensors, %s\n", mr_checkpoint_count(c), mr_bytes_text(total, size));
    mr_free(e);
    mr_checkpoint_close(c);
    return st;
}

/* ---- records ---- */

typedef struct column { /* statistics of one feature or tag over all records */
    char *name;
    const char *kind;
    int64_t records, values, least, most; /* least, most: values per example */
    double first, last;                   /* of scalars */
    int64_t first_step, last_step;
} column;

typedef struct columns {
    MR_VEC(column) all;
    mr_map at; /* name and kind: index + 1 */
} columns;

static column *column_of(columns *c, const char *name, const char *kind)
{
    char *key = mr_printf("%s/%s", kind, name);
    intptr_t i = (intptr_t)mr_map_getz(&c->at, key);
    if (i == 0) {
        mr_vec_push(&c->all, (column){.name = mr_strdup(name), .kind = kind, .least = INT64_MAX});
        i = c->all.n;
        mr_map_putz(&c->at, key, (void *)i);
    }
    mr_free(key);
    return &c->all.p[i - 1];
}

static void columns_deinit(columns *c)
{
    for (int i = 0; i < c->all.n; i++)
        mr_free(c->all.p[i].name);
    mr_vec_deinit(&c->all);
    mr_map_deinit(&c->at);
}

static void note_feature(columns *c, const char *name, const Tensorflow__Feature *f)
{
    const char *kind = "empty";
    size_t n = 0;
    if (f && f->kind_case == TENSORFLOW__FEATURE__KIND_BYTES_LIST)
        kind = "bytes", n = f->bytes_list->n_value;
    else if (f && f->kind_case == TENSORFLOW__FEATURE__KIND_FLOAT_LIST)
        kind = "float", n = f->float_list->n_value;
    else if (f && f->kind_case == TENSORFLOW__FEATURE__KIND_INT64_LIST)
        kind = "int64", n = f->int64_list->n_value;
    column *k = column_of(c, name, kind);
    k->records++;
    k->values += (int64_t)n;
    k->least = MR_MIN(k->least, (int64_t)n);
    k->most = MR_MAX(k->most, (int64_t)n);
}

/* Counts the features of a record. False if it is not an Example with a feature; a TFRecord may contain any bytes. */
static bool note_example(columns *c, mr_sv record)
{
    Tensorflow__Example *e;
    mr_status *st = mr_message_unpack(&tensorflow__example__descriptor, record, "Example", (ProtobufCMessage **)&e);
    mr_status_free(st);
    if (st)
        return false;
    bool is = e->features && e->features->n_feature > 0;
    for (size_t i = 0; is && i < e->features->n_feature; i++)
        note_feature(c, e->features->feature[i]->key, e->features->feature[i]->value);
    mr_message_free(&e->base);
    return is;
}

static void print_features(const columns *c, mr_str *out)
{
    mr_columns rows = {0};
    for (int i = 0; i < c->all.n; i++) {
        const column *k = &c->all.p[i];
        char *in = mr_printf("in %lld", (long long)k->records);
        char *n = k->least == k->most ? mr_printf(k->least == 1 ? "%lld value" : "%lld values", (long long)k->least)
                                      : mr_printf("%lld to %lld values", (long long)k->least, (long long)k->most);
        mr_columns_row(&rows, k->name, k->kind, n, in);
        mr_free(in);
        mr_free(n);
    }
    mr_columns_print(&rows, 2, out);
}

mr_status *mr_inspect_records(const char *path, const mr_inspect_options *o, mr_str *out)
{
    mr_record_reader *r;
    mr_str record = {0};
    columns c = {0};
    mr_status *st;
    int64_t n = 0, examples = 0;
    double bytes = 0;
    char size[32];
    MR_TRY(mr_record_reader_open(path, MR_UNCOMPRESSED, 0, &r));
    while (!(st = mr_record_read(r, &record))) {
        examples += note_example(&c, mr_str_view(&record));
        if (o->all)
            mr_str_printf(out, "record %lld  %zu bytes\n", (long long)n, record.n);
        bytes += (double)record.n;
        n++;
    }
    mr_str_printf(out, "records  %lld, %s; %lld of them are Examples\n", (long long)n, mr_bytes_text(bytes, size), (long long)examples);
    print_features(&c, out);
    columns_deinit(&c);
    mr_str_deinit(&record);
    mr_record_reader_close(r);
    if (mr_status_code(st) != MR_OUT_OF_RANGE)
        return st;
    mr_status_free(st);
    return NULL;
}

/* ---- events ---- */

static void note_value(columns *c, const Tensorflow__Summary__Value *v, int64_t step)
{
    static const char *const kinds[] = {
        [TENSORFLOW__SUMMARY__VALUE__VALUE_SIMPLE_VALUE] = "scalar", [TENSORFLOW__SUMMARY__VALUE__VALUE_IMAGE] = "image",
        [TENSORFLOW__SUMMARY__VALUE__VALUE_HISTO] = "histogram",     [TENSORFLOW__SUMMARY__VALUE__VALUE_AUDIO] = "audio",
        [TENSORFLOW__SUMMARY__VALUE__VALUE_TENSOR] = "tensor",
    };
    const char *kind = (size_t)v->value_case < MR_COUNT(kinds) && kinds[v->value_case] ? kinds[v->value_case] : "other";
    column *k = column_of(c, v->tag, kind);
    double now = v->value_case == TENSORFLOW__SUMMARY__VALUE__VALUE_SIMPLE_VALUE ? v->simple_value : 0;
    if (k->records++ == 0) {
        k->first = now;
        k->first_step = step;
    }
    k->last = now;
    k->last_step = step;
}

static void note_event(columns *c, const Tensorflow__Event *e, mr_str *notes)
{
    switch (e->what_case) {
    case TENSORFLOW__EVENT__WHAT_FILE_VERSION: mr_str_printf(notes, "version  %s\n", e->file_version); break;
    case TENSORFLOW__EVENT__WHAT_GRAPH_DEF: mr_str_printf(notes, "graph    %zu bytes at step %lld\n", e->graph_def.len, (long long)e->step); break;
    case TENSORFLOW__EVENT__WHAT_META_GRAPH_DEF: mr_str_printf(notes, "meta graph  %zu bytes\n", e->meta_graph_def.len); break;
    case TENSORFLOW__EVENT__WHAT_TAGGED_RUN_METADATA:
        mr_str_printf(notes, "run metadata  %s at step %lld\n", e->tagged_run_metadata->tag, (long long)e->step);
        break;
    case TENSORFLOW__EVENT__WHAT_SUMMARY:
        for (size_t i = 0; i < e->summary->n_value; i++)
            note_value(c, e->summary->value[i], e->step);
        break;
    default: break;
    }
}

static void print_tags(const columns *c, mr_str *out)
{
    mr_columns rows = {0};
    for (int i = 0; i < c->all.n; i++) {
        const column *k = &c->all.p[i];
        char *times = mr_printf("%lld times", (long long)k->records);
        char *steps = mr_printf("steps %lld to %lld", (long long)k->first_step, (long long)k->last_step);
        char *values = strcmp(k->kind, "scalar") == 0 ? mr_printf("%.6g to %.6g", k->first, k->last) : mr_strdup("");
        mr_columns_row(&rows, k->name, k->kind, times, steps, values);
        mr_free(times);
        mr_free(steps);
        mr_free(values);
    }
    mr_columns_print(&rows, 2, out);
}

static void print_time(const char *what, double t, mr_str *out)
{
    time_t s = (time_t)t;
    struct tm tm;
    char text[64];
    if (t > 0 && t < 1e11 && gmtime_r(&s, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm))
        mr_str_printf(out, "%-8s %s\n", what, text);
}

static mr_status *take_event(columns *c, mr_sv record, double times[2], const mr_inspect_options *o, mr_str *notes)
{
    Tensorflow__Event *e;
    MR_TRY(mr_message_unpack(&tensorflow__event__descriptor, record, "Event", (ProtobufCMessage **)&e));
    if (times[0] <= 0)
        times[0] = e->wall_time;
    times[1] = e->wall_time;
    note_event(c, e, notes);
    if (o->all && e->what_case == TENSORFLOW__EVENT__WHAT_SUMMARY)
        for (size_t i = 0; i < e->summary->n_value; i++)
            if (e->summary->value[i]->value_case == TENSORFLOW__SUMMARY__VALUE__VALUE_SIMPLE_VALUE)
                mr_str_printf(notes, "step %lld  %s = %.9g\n", (long long)e->step, e->summary->value[i]->tag, e->summary->value[i]->simple_value);
    mr_message_free(&e->base);
    return NULL;
}

mr_status *mr_inspect_events(const char *path, const mr_inspect_options *o, mr_str *out)
{
    mr_record_reader *r;
    mr_str record = {0};
    columns c = {0};
    mr_status *st;
    int64_t n = 0;
    double times[2] = {0};
    MR_TRY(mr_record_reader_open(path, MR_UNCOMPRESSED, 0, &r));
    while (!(st = mr_record_read(r, &record)) && !(st = take_event(&c, mr_str_view(&record), times, o, out)))
        n++;
    mr_str_printf(out, "events   %lld, %d tags\n", (long long)n, c.all.n);
    print_time("first", times[0], out);
    print_time("last", times[1], out);
    print_tags(&c, out);
    columns_deinit(&c);
    mr_str_deinit(&record);
    mr_record_reader_close(r);
    if (mr_status_code(st) != MR_OUT_OF_RANGE)
        return st;
    mr_status_free(st);
    return NULL;
}
