/* exec/trace_read.c -- RunMetadata read into records.
 *
 * Labels are parsed as exec/trace.c and TensorFlow write them: "name = Op(input, other:1, ^control)", and for
 * transfers between devices "name = _Recv(tensor @device)". A record without a label counts as work of an
 * unknown op.
 *
 * Nothing in a message is trusted: times are limited so that differences cannot overflow, the number of
 * records is limited, and every record has start_ns <= made_ns <= end_ns. Views point into the messages. */
#include "exec/trace_read.h"

#include "base/memory.h"
#include "exec/trace_records.h"

enum { MAX_RECORDS = 1 << 20 }; /* each takes some hundred bytes */
#define MAX_NS INT64_C(4000000000000000000) /* until 2096; differences do not overflow */

/* ---- devices ---- */

/* Finds the part of a device name that begins with `word`; *value is the rest of that part. */
static bool cut_behind(mr_sv *s, const char *word, mr_sv *value)
{
    mr_sv rest = *s, part;
    while (mr_sv_cut(&rest, '/', &part))
        if (mr_sv_starts(part, word)) {
            *value = (mr_sv){part.p + strlen(word), part.n - strlen(word)};
            return true;
        }
    return false;
}

/* Devices of the local process, without a job or with the job "localhost", belong to the task "localhost". */
void mr_trace_split_device(mr_sv device, mr_str *task, mr_sv *rest)
{
    mr_sv job, number, at = device, part;
    bool named = cut_behind(&device, "job:", &job) && !mr_sv_is(job, "localhost");
    mr_str_clear(task);
    if (named) {
        mr_str_append(task, job.p, job.n);
        if (cut_behind(&device, "task:", &number))
            mr_str_printf(task, ":%.*s", MR_SV_ARG(number));
    } else {
        mr_str_appendz(task, "localhost");
    }
    *rest = device;
    while (mr_sv_cut(&at, '/', &part)) /* the rest follows job, replica and task: "device:CPU:0/stream:1" */
        if (part.n && !mr_sv_starts(part, "job:") && !mr_sv_starts(part, "replica:") &&
            !mr_sv_starts(part, "task:")) {
            *rest = (mr_sv){part.p, (size_t)(device.p + device.n - part.p)};
            break;
        }
    if (mr_sv_starts(*rest, "device:"))
        *rest = (mr_sv){rest->p + 7, rest->n - 7};
}

/* Finds or adds the device of this name and returns its index. */
int mr_records_device(mr_records *r, mr_sv name)
{
    int id = (int)(intptr_t)mr_map_get(&r->device_ids, name) - 1;
    if (id >= 0)
        return id;
    mr_str task = {0};
    mr_sv lane;
    mr_trace_split_device(name, &task, &lane);
    mr_record_device d = {name, mr_arena_strndup(&r->arena, task.p, task.n),
                          mr_arena_strndup(&r->arena, lane.p ? lane.p : "", lane.n), -1};
    mr_str_deinit(&task);
    mr_vec_push(&r->devices, d);
    mr_map_put(&r->device_ids, name, (void *)(intptr_t)r->devices.n);
    return r->devices.n - 1;
}

/* ---- what an op does ---- */

/* text.n may be 0; then it contains no word. */
static bool contains_word(mr_sv text, const char *word)
{
    return memmem(text.p, text.n, word, strlen(word)) != NULL;
}

static bool contains_any(mr_sv text, const char *const *words)
{
    for (; *words; words++)
        if (contains_word(text, *words))
            return true;
    return false;
}

/* Decides by parts of op names, so that variants (QueueDequeueV2, QueueDequeueManyV2) need no entries. A
 * queue of tokens is a barrier; other queues bring examples. */
mr_span_kind mr_trace_kind(mr_sv op, mr_sv inputs, bool *blocks)
{
    static const char *const barriers[] = {"TakeGradient", "Barrier", "TakeMany", NULL};
    static const char *const inputs_of[] = {"IteratorGetNext", "ReaderRead", "DequeueUp", NULL};
    static const char *const reading[] = {"_Arg",         "Placeholder", "ReadFile",  "DecodeJpeg",
                                          "DecodePng",    "DecodeImage", "DecodeCSV", "DecodeRaw",
                                          "ParseExample", "ParseSingle", NULL};
    static const char *const saving[] = {"SaveV2",     "RestoreV2",    "MergeV2Checkpoints",
                                         "SaveSlices", "RestoreSlice", NULL};
    static const char *const moving[] = {"_Send",      "_HostSend",  "_Recv", "_HostRecv",
                                         "RecvTensor", "Collective", NULL};
    mr_sv first, rest = inputs;
    *blocks = true;
    if (contains_word(op, "Dequeue") || contains_word(op, "Unstage")) {
        bool token =
            mr_sv_cut(&rest, ',', &first) && (contains_word(first, "token") || contains_word(first, "sync_"));
        return token ? MR_SPAN_WAIT : MR_SPAN_INPUT;
    }
    if (contains_any(op, barriers))
        return MR_SPAN_WAIT;
    if (contains_any(op, inputs_of))
        return MR_SPAN_INPUT;
    *blocks = false;
    return contains_any(op, saving)    ? MR_SPAN_SAVE
           : contains_any(op, moving)  ? MR_SPAN_SEND
           : contains_any(op, reading) ? MR_SPAN_INPUT
                                    : MR_SPAN_COMPUTE;
}

/* ---- labels ---- */

/* Takes "tensor @device" off the front of the inputs. */
static void parse_peer(mr_records *all, mr_record *r)
{
    mr_sv first, rest = r->inputs;
    if (!mr_sv_cut(&rest, ',', &first))
        return;
    const char *at = memmem(first.p, first.n, " @", 2);
    if (!at)
        return;
    mr_sv device = {at + 2, first.n - (size_t)(at + 2 - first.p)};
    r->tensor = (mr_sv){first.p, (size_t)(at - first.p)};
    r->peer = mr_records_device(all, device);
    r->inputs = rest.p ? rest : MR_SV("");
}

/* Fills in op, inputs and role. A Send or Recv without a peer counts as an ordinary node. */
static void parse_label(mr_records *all, mr_record *r, mr_sv label)
{
    const char *equals = memmem(label.p, label.n, " = ", 3);
    const char *open = equals ? memchr(equals, '(', (size_t)(label.p + label.n - equals)) : NULL;
    if (!open)
        return;
    const char *members = memchr(equals, '[', (size_t)(open - equals)); /* of a fused node; their names are no op */
    r->op = (mr_sv){equals + 3, (size_t)((members ? members : open) - equals - 3)};
    r->inputs = (mr_sv){open + 1, (size_t)(label.p + label.n - open - 1)};
    if (r->inputs.n && r->inputs.p[r->inputs.n - 1] == ')')
        r->inputs.n--;
    if (mr_sv_is(r->op, "_Send") || mr_sv_is(r->op, "_HostSend"))
        r->role = MR_ROLE_SEND;
    else if (mr_sv_is(r->op, "_Recv") || mr_sv_is(r->op, "_HostRecv"))
        r->role = MR_ROLE_RECV;
    if (r->role != MR_ROLE_NODE)
        parse_peer(all, r);
    if (r->peer < 0)
        r->role = MR_ROLE_NODE;
}

/* ---- messages ---- */

/* Limits a time so that differences and small sums of times cannot overflow. */
static int64_t limit_ns(int64_t ns) { return MR_MAX(-MAX_NS, MR_MIN(ns, MAX_NS)); }

/* Converts to nanoseconds and limits the result. */
static int64_t of_micros(int64_t us)
{
    return MR_MAX(-MAX_NS / 1000, MR_MIN(us, MAX_NS / 1000)) * 1000;
}

/* Follows TensorDescription, AllocationDescription, requested_bytes through the message. */
static int64_t output_bytes(mr_pb_reader *output)
{
    static const uint32_t path[] = {3, 4, 1};
    int64_t bytes = 0;
    mr_pb_reader levels[3];
    levels[0] = *output;
    for (int depth = 0; depth >= 0;) {
        uint32_t field, wire;
        if (!mr_pb_next(&levels[depth], &field, &wire))
            depth--;
        else if (field != path[depth])
            mr_pb_skip(&levels[depth]);
        else if (depth == 2)
            bytes = mr_pb_int64(&levels[2]);
        else if (mr_pb_message(&levels[depth], &levels[depth + 1]))
            depth++;
    }
    return MR_MAX(bytes, 0);
}

/* Reads a NodeExecStats and appends its record. Nanoseconds take precedence over microseconds. */
static void read_node(mr_records *all, mr_pb_reader *r, int step, int device)
{
    mr_record v = {.step = step,
                   .device = device,
                   .peer = -1,
                   .sent_by = -1,
                   .span = -1,
                   .name = MR_SV(""),
                   .op = MR_SV(""),
                   .inputs = MR_SV(""),
                   .tensor = MR_SV("")};
    mr_sv label = MR_SV("");
    mr_pb_reader output;
    uint32_t field, wire;
    int64_t start_us = 0, took_us = 0, start = 0, took = 0, made_us = 0, made = 0;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: v.name = mr_pb_bytes(r); break;
        case 2: start_us = mr_pb_int64(r); break;
        case 4: made_us = mr_pb_int64(r); break;
        case 5: took_us = mr_pb_int64(r); break;
        case 7:
            if (mr_pb_message(r, &output)) {
                output.up = NULL; /* an error in there is ignored */
                v.bytes = MR_MIN(v.bytes + MR_MIN(output_bytes(&output), MAX_NS / 2), MAX_NS / 2);
            }
            break;
        case 8: label = mr_pb_bytes(r); break;
        case 13: start = mr_pb_int64(r); break;
        case 15: made = mr_pb_int64(r); break;
        case 16: took = mr_pb_int64(r); break;
        default: mr_pb_skip(r);
        }
    /* Durations are relative to the start. A record without the time of its outputs has them at its end. */
    v.start_ns = start ? limit_ns(start) : of_micros(start_us);
    v.end_ns = limit_ns(v.start_ns + MR_MAX(0, took ? limit_ns(took) : of_micros(took_us)));
    int64_t made_after = made > 0 ? limit_ns(made) : of_micros(made_us);
    v.made_ns = made_after > 0 ? MR_MIN(limit_ns(v.start_ns + made_after), v.end_ns) : v.end_ns;
    MR_ASSERT(v.start_ns <= v.made_ns && v.made_ns <= v.end_ns);
    parse_label(all, &v, label);
    v.kind = mr_trace_kind(v.op, v.inputs, &v.blocks);
    mr_vec_push(&all->all, v);
}

/* Reads a DeviceStepStats twice, because the name of the device may come after its nodes. The second pass
 * reports errors. */
static void read_device(mr_records *all, mr_pb_reader *r, int step)
{
    mr_pb_reader copy = *r, node;
    uint32_t field, wire;
    int device = -1;
    copy.up = NULL;
    while (device < 0 && mr_pb_next(&copy, &field, &wire))
        if (field == 1 && wire == MR_WIRE_BYTES)
            device = mr_records_device(all, mr_pb_bytes(&copy));
        else
            mr_pb_skip(&copy);
    if (device < 0)
        device = mr_records_device(all, MR_SV(""));
    while (mr_pb_next(r, &field, &wire))
        if (field == 2 && mr_pb_message(r, &node)) {
            read_node(all, &node, step, device);
            if (all->all.n >= MAX_RECORDS)
                mr_pb_fail(r, "the traces contain more than a million node runs");
        } else {
            mr_pb_skip(r);
        }
}

/* Reads a StepStats: one DeviceStepStats per device. */
static void read_stats(mr_records *all, mr_pb_reader *r, int step)
{
    mr_pb_reader device;
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire))
        if (field == 1 && mr_pb_message(r, &device))
            read_device(all, &device, step);
        else
            mr_pb_skip(r);
}

/* Reads the offset of one task's clock and appends it to the step. */
static void read_clock(mr_pb_reader *r, mr_record_step *s)
{
    mr_trace_clock c = {.task = MR_SV("")};
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: c.task = mr_pb_bytes(r); break;
        case 2: c.offset_ns = limit_ns(mr_pb_int64(r)); break;
        case 3: c.error_ns = limit_ns(mr_pb_int64(r)); break;
        default: mr_pb_skip(r);
        }
    mr_vec_push(&s->clocks, c);
}

/* Reads our own field of a RunMetadata; several of them are merged. */
static void read_info(mr_pb_reader *r, mr_record_step *s)
{
    mr_pb_reader clock;
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: s->info.home = mr_pb_bytes(r); break;
        case 2: s->info.number = mr_pb_int64(r); break;
        case 3: s->info.start_ns = limit_ns(mr_pb_int64(r)); break;
        case 4: s->info.end_ns = limit_ns(mr_pb_int64(r)); break;
        case 5:
            if (mr_pb_message(r, &clock))
                read_clock(&clock, s);
            break;
        case 7: s->info.what = mr_pb_bytes(r); break;
        case 6: s->info.outside_ns = limit_ns(mr_pb_int64(r)); break;
        default: mr_pb_skip(r);
        }
}

/* Reads one RunMetadata as one step. Its records are adjacent: s.first, s.n. */
static mr_status *read_one(mr_records *all, mr_sv bytes, const char *name)
{
    mr_record_step s = {.info = {.number = -1, .home = MR_SV(""), .what = MR_SV("")}, .first = all->all.n};
    mr_pb_reader r, sub;
    uint32_t field, wire;
    int step = all->steps.n;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1 && mr_pb_message(&r, &sub))
            read_stats(all, &sub, step);
        else if (field == MR_TRACE_FIELD && mr_pb_message(&r, &sub))
            read_info(&sub, &s);
        else
            mr_pb_skip(&r);
    s.n = all->all.n - s.first;
    mr_vec_push(&all->steps, s);
    return mr_pb_reader_status(&r, name);
}

/* The records live only until the timeline is filled; the timeline copies all names. */
mr_status *mr_trace_read(const mr_sv *metadata, const char *const *names, int n, mr_timeline *out)
{
    mr_records all = {.device_ids.borrow_keys = true};
    mr_status *st = NULL;
    mr_arena_init(&all.arena, 0);
    for (int i = 0; i < n && !st; i++)
        st = read_one(&all, metadata[i], names ? names[i] : "RunMetadata");
    if (!st)
        mr_records_build(&all, out);
    for (int i = 0; i < all.steps.n; i++)
        mr_vec_deinit(&all.steps.p[i].clocks);
    mr_vec_deinit(&all.steps);
    mr_vec_deinit(&all.devices);
    mr_vec_deinit(&all.all);
    mr_map_deinit(&all.device_ids);
    mr_arena_deinit(&all.arena);
    return st;
}
