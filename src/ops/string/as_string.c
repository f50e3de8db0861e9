/* ops/string/as_string.c -- AsString and StringToNumber: convert numbers to strings and back. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "ops/string/strings.h"

/* ---- printing ---- */

/* The largest width: no number needs more characters, and each would take that much memory. */
enum { MAX_WIDTH = 1 << 24 };

typedef struct printing {
    char format[40]; /* printf format of one number */
    bool plain;      /* integers: digits only, which need no printf */
} printing;

/* Checks the fill, which is printf's flag before the width. */
static mr_status *check_fill(mr_sv fill)
{
    if (fill.n > 1)
        return mr_invalid("Fill string must be one or fewer characters");
    if (fill.n == 1 && !(fill.p[0] && strchr(" +-0#", fill.p[0])))
        return mr_invalid("Fill argument not supported: \"%.*s\"", MR_SV_ARG(fill));
    return NULL;
}

static mr_status *check_sizes(int64_t width, int64_t precision)
{
    if (width > MAX_WIDTH || precision > MAX_WIDTH)
        return mr_error(MR_RESOURCE_EXHAUSTED, "width or precision is %lld, the maximum is %d",
                        (long long)MR_MAX(width, precision), MAX_WIDTH);
    return NULL;
}

/* The end of the printf format for numbers of this type (see print_element). */
static const char *printf_conversion(mr_dtype t, bool scientific, bool shortest)
{
    if (mr_dtype_is_floating(t) || mr_dtype_is_complex(t))
        return scientific ? "e" : shortest ? "g" : "f";
    return t == MR_UINT8 || t == MR_UINT16 || t == MR_UINT32 || t == MR_UINT64 ? PRIu64 : PRId64;
}

static mr_status *check_kind(mr_dtype t, bool scientific, bool shortest, int64_t precision)
{
    if (scientific && shortest)
        return mr_invalid("Cannot select both scientific and shortest notation");
    if (mr_dtype_is_floating(t) || mr_dtype_is_complex(t))
        return NULL;
    if (scientific || shortest)
        return mr_invalid("scientific and shortest format not supported for datatype %s",
                          mr_dtype_name(t));
    return precision < 0 ? NULL
                         : mr_invalid("precision not supported for datatype %s", mr_dtype_name(t));
}

static mr_status *init_printing(mr_make *m, void *p)
{
    printing *f = p;
    mr_dtype t;
    mr_sv fill;
    int64_t precision, width;
    bool scientific, shortest;
    char w[16] = "", d[16] = "";
    MR_TRY(mr_node_get_type(m->node, "T", &t));
    MR_TRY(mr_node_get_int(m->node, "precision", &precision));
    MR_TRY(mr_node_get_int(m->node, "width", &width));
    MR_TRY(mr_node_get_bool(m->node, "scientific", &scientific));
    MR_TRY(mr_node_get_bool(m->node, "shortest", &shortest));
    MR_TRY(mr_node_get_str(m->node, "fill", &fill));
    MR_TRY(check_fill(fill));
    MR_TRY(check_kind(t, scientific, shortest, precision));
    MR_TRY(check_sizes(width, precision));
    f->plain = fill.n == 0 && width < 0;
    if (width > -1)
        snprintf(w, sizeof w, "%d", (int)width);
    if (precision > -1)
        snprintf(d, sizeof d, ".%d", (int)precision);
    snprintf(f->format, sizeof f->format, "%%%.*s%s%s%s", MR_SV_ARG(fill), w, d,
             printf_conversion(t, scientific, shortest));
    return NULL;
}

/* Prints into the room that the string has; most numbers fit, a longer one is printed again. */
static mr_status *print_with(mr_str *out, const char *format, ...)
{
    va_list ap;
    size_t room = 64;
    for (;;) {
        MR_TRY(mr_string_room(mr_str_try_reserve(out, room)));
        va_start(ap, format);
        int n = vsnprintf(out->p + out->n, room + 1, format, ap);
        va_end(ap);
        MR_TRY(mr_string_room(n >= 0));
        if ((size_t)n <= room) {
            out->n += (size_t)n;
            return NULL;
        }
        room = (size_t)n;
    }
}

/* The decimal digits of v, two at a time from the end. */
static mr_status *print_digits(mr_str *out, uint64_t v, bool negative)
{
    static const char pairs[] = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
                                "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    char digits[24], *p = digits + sizeof digits;
    for (; v >= 100; v /= 100)
        memcpy(p -= 2, pairs + 2 * (v % 100), 2);
    if (v >= 10)
        memcpy(p -= 2, pairs + 2 * v, 2);
    else
        *--p = (char)('0' + v);
    if (negative)
        *--p = '-';
    return mr_string_add(out, p, (size_t)(digits + sizeof digits - p));
}

static mr_status *print_signed(mr_str *out, const printing *f, int64_t v)
{
    return f->plain ? print_digits(out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0) : print_with(out, f->format, v);
}

static mr_status *print_unsigned(mr_str *out, const printing *f, uint64_t v)
{
    return f->plain ? print_digits(out, v, false) : print_with(out, f->format, v);
}

static mr_status *print_complex(mr_str *out, const char *format, double re, double im)
{
    MR_TRY(mr_string_add(out, "(", 1));
    MR_TRY(print_with(out, format, re));
    MR_TRY(mr_string_add(out, ",", 1));
    MR_TRY(print_with(out, format, im));
    return mr_string_add(out, ")", 1);
}

static mr_status *print_variant(mr_str *out, const mr_object *o)
{
    return print_with(out, "Variant<type: %s>", o ? o->type->name : "INVALID");
}

static mr_status *print_element(mr_str *out, const printing *f, const mr_tensor *t, int64_t i)
{
    const char *format = f->format;
    switch (t->dtype) {
    case MR_HALF: return print_with(out, format, (double)mr_half_to_float(MR_DATA(mr_half, t)[i]));
    case MR_BFLOAT16:
        return print_with(out, format, (double)mr_bf16_to_float(MR_DATA(mr_bf16, t)[i]));
    case MR_FLOAT: return print_with(out, format, (double)MR_DATA(float, t)[i]);
    case MR_DOUBLE: return print_with(out, format, MR_DATA(double, t)[i]);
    case MR_INT8: return print_signed(out, f, MR_DATA(int8_t, t)[i]);
    case MR_INT16: return print_signed(out, f, MR_DATA(int16_t, t)[i]);
    case MR_INT32: return print_signed(out, f, MR_DATA(int32_t, t)[i]);
    case MR_INT64: return print_signed(out, f, MR_DATA(int64_t, t)[i]);
    case MR_UINT8: return print_unsigned(out, f, MR_DATA(uint8_t, t)[i]);
    case MR_UINT16: return print_unsigned(out, f, MR_DATA(uint16_t, t)[i]);
    case MR_UINT32: return print_unsigned(out, f, MR_DATA(uint32_t, t)[i]);
    case MR_UINT64: return print_unsigned(out, f, MR_DATA(uint64_t, t)[i]);
    case MR_COMPLEX64:
        return print_complex(out, format, crealf(MR_DATA(mr_c64, t)[i]),
                             cimagf(MR_DATA(mr_c64, t)[i]));
    case MR_COMPLEX128:
        return print_complex(out, format, creal(MR_DATA(mr_c128, t)[i]),
                             cimag(MR_DATA(mr_c128, t)[i]));
    case MR_BOOL: return MR_DATA(bool, t)[i] ? mr_string_add(out, "true", 4) : mr_string_add(out, "false", 5);
    default: return print_variant(out, MR_DATA(mr_object *, t)[i]);
    }
}

static mr_status *run_as_string(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0);
    const printing *f = r->state;
    mr_tensor *out;
    mr_str s = {0};
    mr_status *st = NULL;
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n; i++) {
        mr_str_clear(&s);
        MR_GO(print_element(&s, f, in, i));
        MR_GO(mr_tensor_set_str(out, i, mr_str_view(&s)));
    }
out:
    mr_str_deinit(&s);
    return st;
}

MR_OP(AsString,
    .doc      = "numbers as printf writes them",
    .sig      = "input: T -> output: string",
    .attrs    = "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
                "uint64, complex64, complex128, bool, variant}; precision: int = -1; "
                "scientific: bool = false; shortest: bool = false; width: int = -1; "
                "fill: string = ''",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_as_string)),
    .state_bytes = sizeof(printing), .init = init_printing,
    .examples = MR_EXAMPLES(
        "T=float: [3.1415926, 0, -1e10] -> [\"3.141593\", \"0.000000\", \"-10000000000.000000\"]",
        "T=double precision=2: [3.1415926, -0.5] -> [\"3.14\", \"-0.50\"]",
        "T=half scientific=true precision=1: [1024] -> [\"1.0e+03\"]",
        "T=bfloat16 shortest=true: [0.5, nan, inf] -> [\"0.5\", \"nan\", \"inf\"]",
        "T=int32: [42, -7] -> [\"42\", \"-7\"]", "T=int32: [0, 9, 10, 99, 100, -12345] -> [\"0\", \"9\", \"10\", \"99\", \"100\", \"-12345\"]",
        "T=int64: -9223372036854775808 -> \"-9223372036854775808\"", "T=double: 1e80 -> "
        "\"100000000000000000026609864708367276537402401181200809098131977453489758916313088.000000\"", "T=int32 width=5 fill=\"0\": 42 -> \"00042\"",
        "T=int64 width=4: -9223372036854775808 -> \"-9223372036854775808\"",
        "T=uint64: 18446744073709551615 -> \"18446744073709551615\"",
        "T=int8 width=4 fill=\"-\": 7 -> \"7   \"", "T=int16 fill=\"+\": 7 -> \"+7\"",
        "T=bool: [true, false] -> [\"true\", \"false\"]", "T=uint8: [255] -> [\"255\"]",
        "T=complex64 precision=1: 1.5-2i -> \"(1.5,-2.0)\"",
        "T=complex128: 1+2i -> \"(1.000000,2.000000)\"",
        "T=uint16: shape(0,2) -> shape(0,2)", "shape(0) -> shape(0)",
        "T=int32 precision=2: 1 -> !INVALID_ARGUMENT precision not supported for datatype int32",
        "T=int32 shortest=true: 1 -> !INVALID_ARGUMENT scientific and shortest format not supported",
        "T=float shortest=true scientific=true: 1 -> !INVALID_ARGUMENT Cannot select both",
        "T=float fill=\"x\": 1 -> !INVALID_ARGUMENT Fill argument not supported: \"x\"",
        "T=float fill=\"00\": 1 -> !INVALID_ARGUMENT Fill string must be one or fewer",
        "T=float width=100000000: 1 -> !RESOURCE_EXHAUSTED width or precision is 100000000"));

/* ---- reading ---- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static mr_sv strip_spaces(mr_sv s)
{
    while (s.n > 0 && is_space(s.p[0]))
        s = (mr_sv){s.p + 1, s.n - 1};
    while (s.n > 0 && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

/* Accepts what TensorFlow's integer parser accepts: no + and no hexadecimal. */
static bool read_int(mr_sv s, int64_t min, int64_t max, int64_t *out)
{
    s = strip_spaces(s);
    if (s.n == 0 || !is_digit(s.p[s.p[0] == '-' && s.n > 1]))
        return false;
    return mr_sv_to_i64(s, out) && *out >= min && *out <= max;
}

/* Skips digits with at most one decimal point among them; false if there is no digit. */
static bool skip_decimal(mr_sv *s)
{
    size_t digits = 0, points = 0;
    while (s->n > 0 && (is_digit(s->p[0]) || (s->p[0] == '.' && points == 0))) {
        *(is_digit(s->p[0]) ? &digits : &points) += 1;
        *s = (mr_sv){s->p + 1, s->n - 1};
    }
    return digits > 0;
}

static bool skip_exponent(mr_sv *s)
{
    if (s->n == 0 || (s->p[0] | 32) != 'e')
        return true;
    *s = (mr_sv){s->p + 1, s->n - 1};
    if (s->n > 0 && (s->p[0] == '-' || s->p[0] == '+'))
        *s = (mr_sv){s->p + 1, s->n - 1};
    size_t n = s->n;
    while (s->n > 0 && is_digit(s->p[0]))
        *s = (mr_sv){s->p + 1, s->n - 1};
    return s->n < n;
}

static bool all_hex(mr_sv s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_digit(s.p[i]) && !((s.p[i] | 32) >= 'a' && (s.p[i] | 32) <= 'f'))
            return false;
    return s.n > 0;
}

static bool same_word(mr_sv s, const char *word)
{
    for (size_t i = 0; i < s.n; i++)
        if ((s.p[i] | 32) != word[i]) /* stops at the NUL of word at the latest */
            return false;
    return word[s.n] == '\0';
}

/* Whether TensorFlow's float parser accepts the text; strtod alone would accept more ("infinity", hexadecimal
 * fractions). */
static bool is_float_text(mr_sv s)
{
    if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'))
        s = (mr_sv){s.p + 1, s.n - 1};
    if (same_word(s, "inf") || same_word(s, "nan"))
        return s.n > 0;
    if (s.n > 2 && s.p[0] == '0' && (s.p[1] | 32) == 'x')
        return all_hex((mr_sv){s.p + 2, s.n - 2});
    return skip_decimal(&s) && skip_exponent(&s) && s.n == 0;
}

/* Short decimal numbers without an exponent, as most are. The digits and the power of ten are exact in the result's
 * type, so one division rounds correctly, as strtod does. False: the text is something else. */
static bool read_short_decimal(mr_sv s, bool wide, double *out)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10};
    const uint64_t largest = wide ? (uint64_t)1 << 53 : (uint64_t)1 << 24;
    bool minus = s.n > 0 && s.p[0] == '-', point = false;
    size_t digits = 0, fraction = 0;
    uint64_t number = 0;
    for (size_t i = minus; i < s.n; i++) {
        if (s.p[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(s.p[i]) || number > largest)
            return false;
        number = number * 10 + (uint64_t)(s.p[i] - '0');
        digits++;
        fraction += point;
    }
    if (digits == 0 || number > largest || fraction >= MR_COUNT(powers))
        return false;
    double value = wide ? (double)number / powers[fraction] : (double)((float)number / (float)powers[fraction]);
    *out = minus ? -value : value;
    return true;
}

/* Only spaces give 0, and 32 bytes or more are an error: both as in TensorFlow. */
static bool read_float(mr_sv s, bool wide, double *out)
{
    char text[32];
    if (s.n == 0 || s.n >= sizeof text)
        return false;
    s = strip_spaces(s);
    *out = 0;
    if (s.n == 0)
        return true;
    if (read_short_decimal(s, wide, out))
        return true;
    if (!is_float_text(s))
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    *out = wide ? strtod(text, NULL) : (double)strtof(text, NULL);
    return true;
}

bool mr_string_to_number(mr_sv s, mr_tensor *out, int64_t i)
{
    double f = 0;
    int64_t n = 0;
    switch (out->dtype) {
    case MR_FLOAT: return read_float(s, false, &f) && (MR_DATA(float, out)[i] = (float)f, true);
    case MR_DOUBLE: return read_float(s, true, &f) && (MR_DATA(double, out)[i] = f, true);
    case MR_INT32:
        return read_int(s, INT32_MIN, INT32_MAX, &n) &&
               (MR_DATA(int32_t, out)[i] = (int32_t)n, true);
    default: return read_int(s, INT64_MIN, INT64_MAX, &n) && (MR_DATA(int64_t, out)[i] = n, true);
    }
}

static mr_status *run_to_number(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n; i++) {
        mr_sv s = mr_tensor_str_at(in, i);
        if (!mr_string_to_number(s, out, i))
            return mr_invalid("StringToNumberOp could not correctly convert string: %.*s",
                              (int)MR_MIN(s.n, 200), s.p);
    }
    return NULL;
}

MR_OP(StringToNumber,
    .doc      = "the number that each string represents",
    .sig      = "string_tensor: string -> output: out_type",
    .attrs    = "out_type: {float, double, int32, int64} = DT_FLOAT",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_to_number, MR_FLOATS32)
                           MR_CPU_ONE(run_to_number, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "[\"1\", \" -7 \", \"0\"] -> [1, -7, 0]",
        "out_type=float: [\"1.5\", \"-.5e1\", \"1.\", \"inf\", \"-INF\", \"0x1F\", \"+2\"] -> "
        "[1.5, -5, 1, inf, -inf, 31, 2]",
        "out_type=double: [\"0.1\", \"1e400\", \" \", \"NaN\"] -> [0.1, inf, 0, nan]",
        "out_type=int32: \"2147483647\" -> 2147483647",
        "out_type=int64: \"-9223372036854775808\" -> -9223372036854775808",
        "shape(0,2) -> shape(0,2)",
        "out_type=int32: \"2147483648\" -> !INVALID_ARGUMENT could not correctly convert string",
        "out_type=int64: \"9223372036854775808\" -> !INVALID_ARGUMENT could not correctly",
        "out_type=int32: \"+1\" -> !INVALID_ARGUMENT could not correctly convert string: +1",
        "out_type=int32: \"1.0\" -> !INVALID_ARGUMENT could not correctly convert string: 1.0",
        "out_type=int32: \"\" -> !INVALID_ARGUMENT could not", "\"-\" -> !INVALID_ARGUMENT could not",
        "out_type=float: \"\" -> !INVALID_ARGUMENT could not correctly convert string: ",
        "out_type=float: \"1e\" -> !INVALID_ARGUMENT could not",
        "out_type=float: \".\" -> !INVALID_ARGUMENT could not",
        "out_type=float: \"infinity\" -> !INVALID_ARGUMENT could not",
        "out_type=float: \"0x\" -> !INVALID_ARGUMENT could not",
        "out_type=float: \"1 2\" -> !INVALID_ARGUMENT could not"));
