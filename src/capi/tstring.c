/* capi/tstring.c -- TF_TString for languages without inline functions, and the string encoding of
 * tensors before TensorFlow 2.4: a varint length, then the bytes. */
#include "capi/internal.h"

#include "base/memory.h"

void TF_StringInit(TF_TString *t)
{
    TF_TString_Init(t);
}

void TF_StringCopy(TF_TString *dst, const char *src, size_t size)
{
    TF_TString_Copy(dst, src, size);
}

void TF_StringAssignView(TF_TString *dst, const char *src, size_t size)
{
    TF_TString_AssignView(dst, src, size);
}

const char *TF_StringGetDataPointer(const TF_TString *tstr)
{
    return TF_TString_GetDataPointer(tstr);
}

TF_TString_Type TF_StringGetType(const TF_TString *str)
{
    return TF_TString_GetType(str);
}

size_t TF_StringGetSize(const TF_TString *tstr)
{
    return TF_TString_GetSize(tstr);
}

size_t TF_StringGetCapacity(const TF_TString *str)
{
    return TF_TString_GetCapacity(str);
}

void TF_StringDealloc(TF_TString *tstr)
{
    TF_TString_Dealloc(tstr);
}

/* ---- the old encoding ---- */

static size_t varint_bytes(uint64_t v)
{
    size_t n = 1;
    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

static char *write_varint(char *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (char)(v | 0x80);
    *p++ = (char)v;
    return p;
}

/* The bytes read, 0 when the varint is cut short or has more than 64 bits. */
static size_t read_varint(const char *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n && i < 10; i++) {
        uint64_t bits = (unsigned char)p[i] & 0x7f;
        if (i == 9 && bits > 1)
            return 0;
        v |= bits << (7 * i);
        if (!((unsigned char)p[i] & 0x80)) {
            *out = v;
            return i + 1;
        }
    }
    return 0;
}

/* SIZE_MAX means more than any buffer can hold, so that comparisons by callers are correct. */
size_t TF_StringEncodedSize(size_t len)
{
    size_t total = SIZE_MAX;
    (void)mr_size_add(varint_bytes(len), len, &total);
    return total;
}

size_t TF_StringEncode(const char *src, size_t src_len, char *dst, size_t dst_len,
                       TF_Status *status)
{
    size_t need = TF_StringEncodedSize(src_len);
    if (need > dst_len || need == SIZE_MAX) {
        mr_capi_set_status(status, mr_invalid("dst_len (%zu) too small to encode a %zu-byte string",
                                              dst_len, src_len));
        return 0;
    }
    char *text = write_varint(dst, src_len);
    if (src_len)
        memcpy(text, src, src_len);
    mr_capi_set_status(status, NULL);
    return need;
}

size_t TF_StringDecode(const char *src, size_t src_len, const char **dst, size_t *dst_len,
                       TF_Status *status)
{
    uint64_t n = 0;
    size_t head = read_varint(src, src_len, &n);
    if (head == 0 || n > src_len - head) {
        mr_capi_set_status(status, mr_invalid("invalid string encoding or truncated src buffer"));
        return 0;
    }
    *dst = src + head;
    *dst_len = (size_t)n;
    mr_capi_set_status(status, NULL);
    return head + (size_t)n;
}
