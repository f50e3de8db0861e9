/* ops/audio/audio_summary.c -- AudioSummary and AudioSummaryV2: sounds as WAV files in a Summary. */
#include <math.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "ops/audio/wav.h"
#include "ops/summary/summary.h"

enum { MR_SUMMARY_AUDIO = 6 };

typedef struct state {
    int64_t max_outputs;
    float rate; /* of the first version */
} state;

static mr_status *put_sound(mr_summary *out, mr_sv base, const mr_tensor *t, int64_t i, const state *s, float rate)
{
    mr_str tag = {0}, file = {0};
    int64_t frames = t->dims[1], channels = t->rank == 3 ? t->dims[2] : 1;
    long whole_rate = lrintf(fminf(rate, 4294967040.0f)); /* limited to what the file format can hold */
    mr_status *st = mr_wav_encode(MR_DATA(const float, t) + i * frames * channels, (uint64_t)frames, (uint64_t)channels,
                                  (uint64_t)MR_MAX(whole_rate, 1), &file);
    mr_str_append(&tag, base.p, base.n);
    mr_str_appendz(&tag, "/audio");
    if (s->max_outputs > 1)
        mr_str_printf(&tag, "/%lld", (long long)i);
    size_t value = mr_summary_begin(out, mr_str_view(&tag)), body = mr_pb_begin(&out->w, MR_SUMMARY_AUDIO);
    mr_pb_put_float(&out->w, 1, rate);
    mr_pb_opt_varint(&out->w, 2, (uint64_t)channels);
    mr_pb_opt_varint(&out->w, 3, (uint64_t)frames);
    mr_pb_put_bytes(&out->w, 4, mr_str_view(&file));
    mr_pb_put_bytes(&out->w, 5, MR_SV("audio/wav"));
    mr_pb_end(&out->w, body);
    mr_pb_end(&out->w, value);
    mr_str_deinit(&tag);
    mr_str_deinit(&file);
    return st;
}

mr_status *mr_summary_put_sounds(mr_summary *out, mr_sv tag, const mr_tensor *t, int64_t max_outputs, float rate)
{
    state s = {.max_outputs = max_outputs};
    if (t->rank != 2 && t->rank != 3)
        return mr_invalid("Tensor must be 3-D or 2-D, got: %s", MR_TENSOR_SHAPE(t));
    if (!(rate > 0))
        return mr_invalid("sample_rate must be > 0");
    for (int64_t i = 0; i < MR_MIN(max_outputs, t->dims[0]); i++)
        MR_TRY(put_sound(out, tag, t, i, &s, rate));
    return NULL;
}

static mr_status *write_summary(mr_run *r, float rate)
{
    const state *s = r->state;
    const mr_tensor *tag = mr_in(r, 0);
    mr_summary out;
    if (tag->rank != 0)
        return mr_invalid("Tag must be a scalar");
    mr_summary_init(&out);
    mr_status *st = mr_summary_put_sounds(&out, mr_tensor_str_at(tag, 0), mr_in(r, 1), s->max_outputs, rate);
    if (!st)
        return mr_summary_finish(&out, r);
    mr_str_deinit(&out.bytes);
    return st;
}

static mr_status *audio_summary(mr_run *r) { return write_summary(r, ((const state *)r->state)->rate); }

static mr_status *audio_summary_v2(mr_run *r)
{
    const mr_tensor *rate = mr_in(r, 2);
    if (rate->rank != 0)
        return mr_invalid("sample_rate must be a scalar, got shape %s", MR_TENSOR_SHAPE(rate));
    return write_summary(r, *MR_DATA(const float, rate));
}

static mr_status *init_audio_summary(mr_make *m, void *room)
{
    state *s = room;
    if (mr_node_attr(m->node, "sample_rate"))
        MR_TRY(mr_node_get_float(m->node, "sample_rate", &s->rate));
    return mr_node_get_int(m->node, "max_outputs", &s->max_outputs);
}

MR_OP(AudioSummary,
    .doc         = "a Summary of sounds [batch, frames] or [batch, frames, channels], as WAV files",
    .sig         = "tag: string, tensor: float -> summary: string",
    .attrs       = "sample_rate: float; max_outputs: int >= 1 = 3",
    .flags       = MR_NO_GRADIENT,
    .deprecated  = 15,
    .deprecation = "Use AudioSummaryV2.",
    .shape       = mr_shape_scalar,
    .kernels     = MR_KERNELS(MR_CPU_ANY(audio_summary)),
    .state_bytes = sizeof(state),
    .init        = init_audio_summary,
    .examples    = MR_EXAMPLES(
        "sample_rate=10: \"a\", [[0.5, 1]] -> ?",
        "sample_rate=0: \"a\", [[0.5, 1]] -> !INVALID_ARGUMENT sample_rate must be > 0",
        "sample_rate=10: \"a\", [0.5, 1] -> !INVALID_ARGUMENT Tensor must be 3-D or 2-D, got: [2]"));

MR_OP(AudioSummaryV2,
    .doc         = "a Summary of sounds [batch, frames] or [batch, frames, channels], as WAV files",
    .sig         = "tag: string, tensor: float, sample_rate: float -> summary: string",
    .attrs       = "max_outputs: int >= 1 = 3",
    .flags       = MR_NO_GRADIENT,
    .shape       = mr_shape_scalar,
    .kernels     = MR_KERNELS(MR_CPU_ANY(audio_summary_v2)),
    .state_bytes = sizeof(state),
    .init        = init_audio_summary,
    .examples    = MR_EXAMPLES(
        "max_outputs=1: \"a\", [[0.5]], 2 -> \"\\nO\\n\\x07a/audio2D\\x0d\\x00\\x00\\x00@\\x10\\x01\\x18\\x01\\\".RIFF&\\x00\\x00\\x00"
        "WAVEfmt \\x10\\x00\\x00\\x00\\x01\\x00\\x01\\x00\\x02\\x00\\x00\\x00\\x04\\x00\\x00\\x00\\x02\\x00\\x10\\x00data\\x02\\x00\\x00"
        "\\x00\\x00@*\\x09audio/wav\"",
        "\"a\", [[[0.5, 1]], [[-1, 0]]], 0.2 -> ?", "\"a\", shape(0,2), 1 -> \"\"", "\"a\", [[nan]], inf -> ?",
        "[\"a\"], [[1]], 1 -> !INVALID_ARGUMENT Tag must be a scalar",
        "\"a\", [[1]], [1] -> !INVALID_ARGUMENT sample_rate must be a scalar",
        "\"a\", [[1]], nan -> !INVALID_ARGUMENT sample_rate must be > 0"));
