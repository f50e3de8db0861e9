/* tensor/tensor_text.c -- a tensor's values as Assert and Print show them.
 *
 * Elements are separated by a space, rows from rank 2 on stand in brackets, and "..." says that
 * something was left out: at the end, and inside a row that was cut.  [[1,2,3],[4,5,6]] with room
 * for four is "[1 2 3][4...]...". */
#include "tensor/tensor.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "tensor/variant.h"

/* ---- one element ----------------------------------------------------------------------------- */

/* %g uses the locale of the host, which may print a comma instead of a point. */
static void format_g(char *buf, size_t n, int digits, double v)
{
    snprintf(buf, n, "%.*g", digits, v);
    for (char *p = buf; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '+')
            *p = '.';
}

/* Few digits if they read back as the same number, otherwise as many as needed. */
static void print_double(mr_str *out, double v, bool is_float)
{
    char buf[40], host[40];
    int few = is_float ? 6 : 15, all = is_float ? 9 : 17;
    if (isnan(v)) { /* no number of digits brings a NaN back by comparison */
        mr_str_appendz(out, signbit(v) ? "-nan" : "nan");
        return;
    }
    snprintf(host, sizeof(host), "%.*g", few, v); /* strtod uses the same locale */
    double back = is_float ? (double)strtof(host, NULL) : strtod(host, NULL);
    format_g(buf, sizeof(buf), back == v ? few : all, v);
    mr_str_appendz(out, buf);
}

/* As C++ streams show it. */
static void print_complex(mr_str *out, double re, double im, bool is_float)
{
    mr_str_appendc(out, '(');
    print_double(out, re, is_float);
    mr_str_appendc(out, ',');
    print_double(out, im, is_float);
    mr_str_appendc(out, ')');
}

/* C escapes, but bytes above 127 as they are: the text may be UTF-8. */
static void print_string(mr_str *out, mr_sv v)
{
    static const char special[] = "\n\r\t\"'\\", letter[] = "nrt\"'\\";
    for (size_t i = 0; i < v.n; i++) {
        unsigned char c = (unsigned char)v.p[i];
        const char *s = c ? strchr(special, c) : NULL;
        if (s)
            mr_str_printf(out, "\\%c", letter[s - special]);
        else if (c < 32 || c == 127)
            mr_str_printf(out, "\\%03o", c);
        else
            mr_str_appendc(out, (char)c);
    }
}

/* An element never set is NULL, and shows as a handle of empty names. */
static void print_handle(mr_str *out, const mr_handle *h)
{
    if (h)
        mr_str_printf(out, "device: %s container: %s name: %s type: %s", h->device, h->container,
                      h->name, h->type_name);
    else
        mr_str_appendz(out, "device:  container:  name:  type: ");
}

static void print_variant(mr_str *out, const mr_object *o)
{
    mr_str number = {0};
    mr_str_printf(out, "Variant<type: %s", o ? o->type->name : "[empty]");
    if (mr_variant_print_number(o, &number))
        mr_str_printf(out, " value: %s", mr_str_z(&number));
    mr_str_appendc(out, '>');
    mr_str_deinit(&number);
}

/* 4 exponent and 3 mantissa bits; no infinities, only the last pattern is a NaN. */
static float float8_e4m3fn(uint8_t bits)
{
    int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float v = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    if ((bits & 0x7f) == 0x7f)
        v = NAN;
    return bits & 0x80 ? -v : v;
}

/* An integer of any type; true when it is one. */
static bool print_integer(mr_str *out, const mr_tensor *t, int64_t i)
{
    int64_t v;
    if (t->dtype == MR_UINT64) {
        mr_str_printf(out, "%" PRIu64, MR_DATA(uint64_t, t)[i]);
        return true;
    }
    if (t->dtype == MR_INT4 || t->dtype == MR_UINT4)
        v = t->dtype == MR_INT4 ? MR_DATA(int8_t, t)[i] : MR_DATA(uint8_t, t)[i];
    else if (mr_dtype_is_floating(t->dtype) || mr_dtype_is_complex(t->dtype) ||
             !mr_dtype_convert(t->dtype, (char *)t->data + (size_t)i * mr_dtype_size(t->dtype),
                               MR_INT64, &v, 1, false))
        return false;
    mr_str_printf(out, "%" PRId64, v);
    return true;
}

/* Element i; the types of 16 and 8 bits print as the float they mean. */
static void print_element(mr_str *out, const mr_tensor *t, int64_t i)
{
    if (print_integer(out, t, i))
        return;
    switch ((mr_dtype)t->dtype) {
    case MR_HALF: print_double(out, mr_half_to_float(MR_DATA(mr_half, t)[i]), true); break;
    case MR_BFLOAT16: print_double(out, mr_bf16_to_float(MR_DATA(mr_bf16, t)[i]), true); break;
    case MR_FLOAT: print_double(out, MR_DATA(float, t)[i], true); break;
    case MR_DOUBLE: print_double(out, MR_DATA(double, t)[i], false); break;
    case MR_COMPLEX64:
        print_complex(out, MR_DATA(float, t)[2 * i], MR_DATA(float, t)[2 * i + 1], true);
        break;
    case MR_COMPLEX128:
        print_complex(out, MR_DATA(double, t)[2 * i], MR_DATA(double, t)[2 * i + 1], false);
        break;
    case MR_FLOAT8_E5M2: /* the upper byte of a half */
        print_double(out, mr_half_to_float((mr_half){(uint16_t)(MR_DATA(uint8_t, t)[i] << 8)}),
                     true);
        break;
    case MR_FLOAT8_E4M3FN: print_double(out, float8_e4m3fn(MR_DATA(uint8_t, t)[i]), true); break;
    case MR_STRING: print_string(out, mr_tensor_str_at(t, i)); break;
    case MR_RESOURCE: print_handle(out, MR_DATA(mr_handle *, t)[i]); break;
    case MR_VARIANT: print_variant(out, MR_DATA(mr_object *, t)[i]); break;
    default: mr_str_appendc(out, '?');
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

typedef struct printer {
    const mr_tensor *t;
    mr_str *out;
    int64_t at, limit; /* elements printed so far and at most */
} printer;

/* The innermost dimension. A tensor of rank 1 is cut silently here; the dots follow at the end. */
static void print_row(printer *p, int axis)
{
    for (int64_t i = 0; i < p->t->dims[axis]; i++) {
        if (p->at >= p->limit) {
            if (axis > 0)
                mr_str_appendz(p->out, "...");
            return;
        }
        if (i > 0)
            mr_str_appendc(p->out, ' ');
        print_element(p->out, p->t, p->at++);
    }
}

/* The recursion is as deep as the rank, at most 254. It ends with the elements, so a tensor with
 * many rows but no elements takes no time. */
static void print_axis(printer *p, int axis)
{
    if (axis == p->t->rank - 1) {
        print_row(p, axis);
        return;
    }
    for (int64_t i = 0; i < p->t->dims[axis] && p->at < p->limit; i++) {
        mr_str_appendc(p->out, '[');
        print_axis(p, axis + 1);
        mr_str_appendc(p->out, ']');
    }
}

void mr_tensor_summarize(const mr_tensor *t, int64_t limit, mr_str *out)
{
    printer p = {t, out, 0, limit < 0 ? t->n : MR_MIN(limit, t->n)};
    if (t->rank == 0 && p.limit > 0)
        print_element(out, t, 0);
    else if (p.limit > 0)
        print_axis(&p, 0);
    if (t->n > p.limit)
        mr_str_appendz(out, "...");
}
