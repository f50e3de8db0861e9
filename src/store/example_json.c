/* store/example_json.c -- see example_json.h.
 *
 * The reader of JSON and the writer of protobuf both keep their first error, so the functions that follow the structure
 * of the message need no checks. For errors that neither can see (an unknown field), set_error records a reason and
 * stops the JSON reader. */
#include "store/example_json.h"

#include "base/memory.h"
#include "wire/json.h"
#include "wire/number.h"
#include "wire/pb.h"

typedef struct convert {
    mr_json j;
    mr_pb_writer w;
    mr_str text;       /* of the string being read */
    const char *error; /* found by this file */
} convert;

/* Stops reading; the first reason is kept. */
static void set_error(convert *c, const char *why)
{
    if (!c->error && !c->j.error)
        c->error = why;
    c->j.at = c->j.end;
}

/* A null counts as an absent value. */
static bool is_null(convert *c)
{
    if (mr_json_peek(&c->j) != 'n')
        return false;
    mr_json_skip(&c->j);
    return true;
}

static bool key_is(const mr_str *key, const char *camel, const char *snake)
{
    return strcmp(mr_str_z(key), camel) == 0 || strcmp(mr_str_z(key), snake) == 0;
}

/* ---- values ---- */

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/* Accepts both alphabets, with or without padding; false if the text is malformed. */
static bool decode_base64(mr_sv s, mr_str *out)
{
    uint32_t bits = 0;
    int n = 0;
    while (s.n > 0 && s.p[s.n - 1] == '=')
        s.n--;
    for (size_t i = 0; i < s.n; i++) {
        int d = base64_digit(s.p[i]);
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        if ((n += 6) >= 8)
            mr_str_appendc(out, (char)(bits >> (n -= 8)));
    }
    return n < 6; /* a single leftover digit does not encode a byte */
}

static void put_bytes(convert *c)
{
    mr_str bytes = {0};
    mr_json_string(&c->j, &c->text);
    if (decode_base64(mr_str_view(&c->text), &bytes))
        mr_pb_put_bytes(&c->w, 1, mr_str_view(&bytes));
    else
        set_error(c, "a bytes value is not valid base64");
    mr_str_deinit(&bytes);
}

/* A number, or one of the strings that JSON needs for values it has no number for. */
static void put_float(convert *c)
{
    double v = 0;
    if (mr_json_peek(&c->j) != '"') {
        v = mr_json_number(&c->j);
    } else {
        mr_json_string(&c->j, &c->text);
        const char *s = mr_str_z(&c->text);
        if (strcmp(s, "NaN") == 0)
            v = __builtin_nan("");
        else if (strcmp(s, "Infinity") == 0 || strcmp(s, "-Infinity") == 0)
            v = s[0] == '-' ? -__builtin_inf() : __builtin_inf();
        else if (!mr_text_to_double(mr_str_view(&c->text), &v))
            set_error(c, "a string value is not a number");
    }
    float f = (float)v;
    mr_pb_put_raw(&c->w, &f, sizeof(f));
}

static void put_int(convert *c)
{
    int64_t v = 0;
    if (mr_json_peek(&c->j) != '"') {
        v = mr_json_int(&c->j);
    } else {
        mr_json_string(&c->j, &c->text);
        if (!mr_sv_to_i64(mr_str_view(&c->text), &v))
            set_error(c, "a string value is not an integer");
    }
    mr_pb_put_raw_varint(&c->w, (uint64_t)v);
}

/* ---- messages ---- */

/* The field `value` of a list: bytes one by one, numbers packed. */
static void put_values(convert *c, uint32_t list)
{
    bool packed = list != 1;
    if (is_null(c))
        return;
    size_t mark = packed ? mr_pb_begin(&c->w, 1) : 0;
    mr_json_begin(&c->j, '[');
    while (mr_json_more(&c->j))
        if (list == 1)
            put_bytes(c);
        else if (list == 2)
            put_float(c);
        else
            put_int(c);
    if (packed)
        mr_pb_end(&c->w, mark);
}

static void put_list(convert *c, uint32_t list)
{
    mr_str key = {0};
    size_t mark = mr_pb_begin(&c->w, list);
    mr_json_begin(&c->j, '{');
    while (mr_json_key(&c->j, &key))
        if (strcmp(mr_str_z(&key), "value") == 0)
            put_values(c, list);
        else
            set_error(c, "unknown field in a list, expected 'value'");
    mr_pb_end(&c->w, mark);
    mr_str_deinit(&key);
}

/* A Feature is a oneof: it may have at most one list. */
static void put_feature(convert *c)
{
    mr_str key = {0};
    bool set = false;
    mr_json_begin(&c->j, '{');
    while (mr_json_key(&c->j, &key)) {
        uint32_t list = key_is(&key, "bytesList", "bytes_list")   ? 1
                        : key_is(&key, "floatList", "float_list") ? 2
                        : key_is(&key, "int64List", "int64_list") ? 3
                                                                 : 0;
        if (list == 0)
            set_error(c, "unknown field in a feature, expected 'bytesList', 'floatList' or 'int64List'");
        else if (!is_null(c)) {
            if (set)
                set_error(c, "a feature has more than one list");
            set = true;
            put_list(c, list);
        }
    }
    mr_str_deinit(&key);
}

static void put_features(convert *c)
{
    mr_str key = {0};
    mr_json_begin(&c->j, '{');
    while (mr_json_key(&c->j, &key)) {
        size_t entry = mr_pb_begin(&c->w, 1);
        mr_pb_put_bytes(&c->w, 1, mr_str_view(&key));
        size_t value = mr_pb_begin(&c->w, 2);
        put_feature(c);
        mr_pb_end(&c->w, value);
        mr_pb_end(&c->w, entry);
    }
    mr_str_deinit(&key);
}

/* An object with one known field, which `put` reads. */
static void put_object(convert *c, const char *field, const char *unknown, void (*put)(convert *c))
{
    mr_str key = {0};
    mr_json_begin(&c->j, '{');
    while (mr_json_key(&c->j, &key))
        if (strcmp(mr_str_z(&key), field) != 0)
            set_error(c, unknown);
        else if (!is_null(c))
            put(c);
    mr_str_deinit(&key);
}

static void put_feature_map(convert *c)
{
    size_t mark = mr_pb_begin(&c->w, 1);
    put_object(c, "feature", "unknown field in 'features', expected 'feature'", put_features);
    mr_pb_end(&c->w, mark);
}

mr_status *mr_example_from_json(mr_sv json, mr_str *out)
{
    convert c = {0};
    mr_json_init(&c.j, json);
    mr_pb_writer_init(&c.w, out);
    put_object(&c, "features", "unknown field, expected 'features'", put_feature_map);
    mr_status *st = c.error ? mr_invalid("Example: %s", c.error) : mr_json_status(&c.j, "Example");
    mr_str_deinit(&c.text);
    return st ? st : mr_pb_writer_status(&c.w, "Example");
}
