/* ops/audio/decode_wav.c -- DecodeWav and EncodeWav. */
#include "graph/infer.h"
#include "ops/audio/wav.h"
#include "run/run.h"

typedef struct state {
    int64_t channels, samples; /* -1: as in the file */
} state;

static mr_status *read_wish(const mr_node *n, const char *attr, const char *what, int64_t *out)
{
    MR_TRY(mr_node_get_int(n, attr, out));
    if (*out < -1 || *out > INT32_MAX)
        return mr_invalid("%s must be non-negative, got %lld", what, (long long)*out);
    return NULL;
}

static mr_status *read_wishes(const mr_node *n, state *s)
{
    MR_TRY(read_wish(n, "desired_channels", "channels", &s->channels));
    return read_wish(n, "desired_samples", "samples", &s->samples);
}

static mr_status *init_decode_wav(mr_make *m, void *s) { return read_wishes(m->node, s); }

/* If more frames are requested than the file has, the rest is silent; missing channels repeat the last one. */
static mr_status *decode_wav(mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *audio, *rate;
    mr_wav w;
    if (in->rank != 0)
        return mr_invalid("contents must be scalar but got shape %s", MR_TENSOR_SHAPE(in));
    mr_sv bytes = mr_tensor_str_at(in, 0);
    if (bytes.n > INT32_MAX)
        return mr_invalid("WAV contents are too large for int: %zu", bytes.n);
    MR_TRY(mr_wav_decode(bytes, &w));
    int64_t frames = s->samples < 0 ? w.frames : s->samples, channels = s->channels < 0 ? w.channels : s->channels;
    MR_TRY(mr_run_output(r, 0, 2, (const int64_t[]){frames, channels}, &audio));
    MR_TRY(mr_run_output(r, 1, 0, NULL, &rate));
    *MR_DATA(int32_t, rate) = (int32_t)w.rate;
    float *out = audio->data;
    for (int64_t i = 0; i < frames; i++)
        for (int64_t k = 0; k < channels; k++) {
            uint64_t from = (uint64_t)i * w.channels + (uint64_t)(k < w.channels ? k : w.channels - 1);
            *out++ = i < w.frames ? mr_wav_sample(&w, from) : 0;
        }
    return NULL;
}

static mr_status *decode_shape(mr_infer *c)
{
    const mr_pshape *scalar;
    state s;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &scalar));
    MR_TRY(read_wishes(c->node, &s));
    c->out[0] = mr_pshape_matrix(c->arena, s.samples, s.channels);
    mr_infer_out_scalar(c, 1);
    return NULL;
}

#define SMALL_WAV                                                                                                  \
    "\"RIFF,\\x00\\x00\\x00WAVEfmt \\x10\\x00\\x00\\x00\\x01\\x00\\x02\\x00\\x08\\x00\\x00\\x00 \\x00\\x00\\x00\\x04\\x00\\x10\\x00"  \
    "data\\x08\\x00\\x00\\x00\\x00@\\x00\\x80\\x00\\x00\\xff\\x7f\""

MR_OP(DecodeWav,
    .doc         = "the samples of a WAV file of 16 bits, in [-1, 1), as [frames, channels], and how many a second",
    .sig         = "contents: string -> audio: float, sample_rate: int32",
    .attrs       = "desired_channels: int = -1; desired_samples: int = -1",
    .shape       = decode_shape,
    .kernels     = MR_KERNELS(MR_CPU_ANY(decode_wav)),
    .state_bytes = sizeof(state),
    .init        = init_decode_wav,
    .examples    = MR_EXAMPLES(
        SMALL_WAV " -> [[0.5, -1], [0, 0.99996948]], 8",
        "desired_samples=3 desired_channels=1: " SMALL_WAV " -> [[0.5], [0], [0]], 8",
        "desired_samples=1 desired_channels=3: " SMALL_WAV " -> [[0.5, -1, -1]], 8",
        "desired_samples=0: " SMALL_WAV " -> shape(0,2), 8",
        "w = EncodeWav: [[0.25], [2], [-3]], 44100; : w -> [[0.25], [0.99996948], [-1]], 44100",
        "desired_channels=-2: \"\" -> !INVALID_ARGUMENT channels must be non-negative, got -2",
        "\"\" -> !INVALID_ARGUMENT Data too short",
        "\"RIFX\" -> !INVALID_ARGUMENT Header mismatch: Expected RIFF but found RIFX",
        "[\"a\"] -> !INVALID_ARGUMENT rank"));

static mr_status *encode_wav(mr_run *r)
{
    const mr_tensor *audio = mr_in(r, 0), *rate = mr_in(r, 1);
    mr_tensor *out;
    mr_str file = {0};
    if (audio->rank != 2)
        return mr_invalid("audio must be 2-dimensional but got shape %s", MR_TENSOR_SHAPE(audio));
    if (rate->rank != 0)
        return mr_invalid("sample_rate should be a scalar tensor, got shape %s", MR_TENSOR_SHAPE(rate));
    if (audio->n >= INT32_MAX)
        return mr_invalid("Cannot encode audio with >= max int32 elements");
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    uint64_t frames = (uint64_t)audio->dims[0], channels = (uint64_t)audio->dims[1];
    mr_status *st = mr_wav_encode(audio->data, frames, channels, (uint64_t)(int64_t)*MR_DATA(const int32_t, rate), &file);
    if (!st)
        st = mr_tensor_set_str(out, 0, mr_str_view(&file));
    mr_str_deinit(&file);
    return st;
}

static mr_status *encode_shape(mr_infer *c)
{
    const mr_pshape *s;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &s));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &s));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

MR_OP(EncodeWav,
    .doc      = "samples [frames, channels] as a WAV file of 16 bits",
    .sig      = "audio: float, sample_rate: int32 -> contents: string",
    .shape    = encode_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(encode_wav)),
    .examples = MR_EXAMPLES(
        "[[0.5, -1], [0, 2]], 8 -> " SMALL_WAV,
        "shape(0,1), 8 -> ?",
        "[[nan, inf]], 8 -> ?",
        "shape(2,0), 8 -> !INVALID_ARGUMENT num_channels must be in (0, 2^16), got: 0",
        "[[1]], 0 -> !INVALID_ARGUMENT sample_rate must be in (0, 2^32), got: 0",
        "[1], 8 -> !INVALID_ARGUMENT rank"));
