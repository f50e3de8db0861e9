/* ops/summary/write_media.c -- WriteImageSummary, WriteAudioSummary: write images and sounds to an event file. */
#include "graph/infer.h"
#include "ops/io/name_input.h"
#include "ops/summary/summary.h"
#include "ops/summary/writer.h"

/* Sends a Summary and frees it.  If st is an error from building it, nothing is sent and st is returned. */
static mr_status *send_summary(mr_run *r, int64_t step, mr_summary *s, mr_status *st)
{
    mr_event_out e;
    if (!st)
        st = mr_pb_writer_status(&s->w, "Summary");
    mr_event_out_begin(&e, step);
    mr_pb_put_bytes(&e.w, MR_EVENT_SUMMARY, mr_str_view(&s->bytes));
    mr_str_deinit(&s->bytes);
    return mr_event_out_send(&e, r, st);
}

static mr_status *init_images(mr_make *m, void *max) { return mr_node_get_int(m->node, "max_images", max); }
static mr_status *init_sounds(mr_make *m, void *max) { return mr_node_get_int(m->node, "max_outputs", max); }

static mr_status *write_images(mr_run *r)
{
    int64_t step;
    mr_sv tag = MR_SV("");
    mr_summary s;
    MR_TRY(mr_in_scalar_int(r, 1, "step", &step));
    MR_TRY(mr_in_scalar_str(r, 2, "tag", &tag));
    mr_summary_init(&s);
    mr_status *st = mr_summary_put_images(&s, tag, mr_in(r, 3), *(const int64_t *)r->state, mr_in(r, 4));
    return send_summary(r, step, &s, st);
}

#define WRITER "w = SummaryWriter shared_name=\"w\"; "

MR_OP(WriteImageSummary,
    .doc      = "writes images [batch, height, width, channels] to an event file, as PNG files",
    .sig      = "writer: resource, step: int64, tag: string, tensor: T, bad_color: uint8 ->",
    .attrs    = "max_images: int >= 1 = 3; T: {uint8, double, float, half} = DT_FLOAT",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_ANY(write_images)),
    .state_bytes = sizeof(int64_t), .init = init_images,
    .examples = MR_EXAMPLES(
        WRITER ": w, 1, \"a\", [[[[1], [2]]]], [255, 0, 0, 255] -> !NOT_FOUND does not exist",
        WRITER ": w, 1, \"a\", [[[1]]], [255, 0, 0, 255] -> !INVALID_ARGUMENT Tensor must be 4-D",
        WRITER ": w, 1, \"a\", [[[[1]]]], 255 -> !INVALID_ARGUMENT bad_color must be a vector"));

static mr_status *write_sounds(mr_run *r)
{
    int64_t step;
    mr_sv tag = MR_SV("");
    mr_summary s;
    const mr_tensor *rate = mr_in(r, 4);
    MR_TRY(mr_in_scalar_int(r, 1, "step", &step));
    MR_TRY(mr_in_scalar_str(r, 2, "tag", &tag));
    if (rate->rank != 0)
        return mr_invalid("sample_rate must be a scalar, got shape %s", MR_TENSOR_SHAPE(rate));
    mr_summary_init(&s);
    mr_status *st = mr_summary_put_sounds(&s, tag, mr_in(r, 3), *(const int64_t *)r->state,
                                          *MR_DATA(const float, rate));
    return send_summary(r, step, &s, st);
}

MR_OP(WriteAudioSummary,
    .doc      = "writes sounds [batch, frames] or [batch, frames, channels] to an event file, as WAV files",
    .sig      = "writer: resource, step: int64, tag: string, tensor: float, sample_rate: float ->",
    .attrs    = "max_outputs: int >= 1 = 3",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_ANY(write_sounds)),
    .state_bytes = sizeof(int64_t), .init = init_sounds,
    .examples = MR_EXAMPLES(
        WRITER ": w, 1, \"a\", [[0.5, 1]], 10 -> !NOT_FOUND does not exist",
        WRITER ": w, 1, \"a\", [[0.5, 1]], 0 -> !INVALID_ARGUMENT sample_rate must be > 0",
        WRITER ": w, 1, \"a\", [0.5], 10 -> !INVALID_ARGUMENT Tensor must be 3-D or 2-D"));
