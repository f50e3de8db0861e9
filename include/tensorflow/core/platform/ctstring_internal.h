/* tensorflow/core/platform/ctstring_internal.h -- the layout of TF_TString and its functions.
 *
 *     offset  0         1        4         8           16
 *     SMALL   size8<<2  text and NUL ...
 *     LARGE   size64<<2 | 1                capacity    pointer
 *     OFFSET  size32<<2 | 2      offset32  count32
 *     VIEW    size64<<2 | 3                pointer
 *
 * All numbers are little-endian, so that the two low bits of the first byte are the type. The capacity of LARGE is a
 * multiple of 16 minus one, which leaves room for the NUL. ctstring.h describes the interface. */
#ifndef TENSORFLOW_CORE_PLATFORM_CTSTRING_INTERNAL_H_
#define TENSORFLOW_CORE_PLATFORM_CTSTRING_INTERNAL_H_

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "TF_TString is laid out for little-endian machines"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* How a string stores its text. */
typedef enum TF_TString_Type {
    TF_TSTR_SMALL = 0,
    TF_TSTR_LARGE = 1,
    TF_TSTR_OFFSET = 2,
    TF_TSTR_VIEW = 3,
    TF_TSTR_TYPE_MASK = 3,
} TF_TString_Type;

/* The longest text of a SMALL string: 24 bytes minus the size byte and the NUL. */
enum { TF_TString_SmallCapacity = 22 };

/* The longest text: its size fits next to the type bits, and rounding it up does not overflow. */
#define TF_TSTR_MAX_SIZE ((((size_t)-1) >> 2) - 16)

/* A string with its text inside. */
typedef struct TF_TString_Small {
    uint8_t size;
    char str[TF_TString_SmallCapacity + 1];
} TF_TString_Small;

/* A string with its text in a block from malloc. */
typedef struct TF_TString_Large {
    size_t size;
    size_t cap;
    char *ptr; /* malloc of cap + 1 bytes */
} TF_TString_Large;

/* A string with its text at a distance from the struct. */
typedef struct TF_TString_Offset {
    uint32_t size;
    uint32_t offset; /* from the start of this struct to the text */
    uint32_t count;
} TF_TString_Offset;

/* A string with its text behind a pointer that it does not own. */
typedef struct TF_TString_View {
    size_t size;
    const char *ptr;
} TF_TString_View;

/* The bytes of a string. */
typedef struct TF_TString_Raw {
    uint8_t raw[24];
} TF_TString_Raw;

/* A string: one of the four kinds. */
typedef struct TF_TString {
    union {
        TF_TString_Small smll;
        TF_TString_Large large;
        TF_TString_Offset offset;
        TF_TString_View view;
        TF_TString_Raw raw;
    } u;
} TF_TString;

/* ---- reading ---- */

/* Returns the number of bytes that a stored size field stands for. */
static inline size_t TF_TString_ToActualSizeT(size_t size)
{
    return size >> 2;
}

/* Returns the stored size field for a number of bytes and a type. */
static inline size_t TF_TString_ToInternalSizeT(size_t size, TF_TString_Type type)
{
    return (size << 2) | (size_t)type;
}

/* Returns how the string stores its text. */
static inline TF_TString_Type TF_TString_GetType(const TF_TString *str)
{
    return (TF_TString_Type)(str->u.raw.raw[0] & TF_TSTR_TYPE_MASK);
}

/* Returns the number of bytes of text. The result is safe for invalid contents: the size of a SMALL string is limited
 * to what fits, and a string with a NULL pointer is empty. */
static inline size_t TF_TString_GetSize(const TF_TString *str)
{
    size_t n;
    switch (TF_TString_GetType(str)) {
    case TF_TSTR_LARGE:
        return str->u.large.ptr ? TF_TString_ToActualSizeT(str->u.large.size) : 0;
    case TF_TSTR_OFFSET:
        return str->u.offset.size >> 2;
    case TF_TSTR_VIEW:
        return str->u.view.ptr ? TF_TString_ToActualSizeT(str->u.view.size) : 0;
    default:
        n = str->u.smll.size >> 2;
        return n <= TF_TString_SmallCapacity ? n : (size_t)TF_TString_SmallCapacity;
    }
}

/* Returns the number of bytes that fit without allocating; 0 if the string does not own its text. */
static inline size_t TF_TString_GetCapacity(const TF_TString *str)
{
    switch (TF_TString_GetType(str)) {
    case TF_TSTR_SMALL:
        return TF_TString_SmallCapacity;
    case TF_TSTR_LARGE:
        return str->u.large.ptr ? str->u.large.cap : 0;
    default:
        return 0;
    }
}

/* Returns the text. It is valid until the string is changed or, for SMALL and OFFSET, moved in memory. */
static inline const char *TF_TString_GetDataPointer(const TF_TString *str)
{
    switch (TF_TString_GetType(str)) {
    case TF_TSTR_LARGE:
        return str->u.large.ptr;
    case TF_TSTR_OFFSET:
        return (const char *)str + str->u.offset.offset;
    case TF_TSTR_VIEW:
        return str->u.view.ptr;
    default:
        return str->u.smll.str;
    }
}

/* ---- initialization ---- */

/* Makes str an empty string. Its former contents are ignored. */
static inline void TF_TString_Init(TF_TString *str)
{
    memset(str->u.raw.raw, 0, sizeof(*str));
}

/* Frees the text that str owns and makes it an empty string. */
static inline void TF_TString_Dealloc(TF_TString *str)
{
    if (TF_TString_GetType(str) == TF_TSTR_LARGE)
        free(str->u.large.ptr);
    TF_TString_Init(str);
}

/* ---- storage, used by the functions below ---- */

/* Returns round_up_16(n + 1) - 1, for n up to TF_TSTR_MAX_SIZE. */
static inline size_t TF_TString_RoundCapacity(size_t n)
{
    return ((n + 16) & ~(size_t)15) - 1;
}

/* Makes str LARGE with this capacity and keeps the text that fits. Returns NULL and leaves str unchanged if there is no
 * memory. */
static inline char *TF_TString_MakeLarge(TF_TString *str, size_t cap)
{
    const int is_large = TF_TString_GetType(str) == TF_TSTR_LARGE;
    const size_t size = TF_TString_GetSize(str);
    const size_t keep = size < cap ? size : cap;
    char *p = (char *)(is_large ? realloc(str->u.large.ptr, cap + 1) : malloc(cap + 1));
    if (p == NULL)
        return NULL;
    if (!is_large && keep > 0)
        memcpy(p, TF_TString_GetDataPointer(str), keep);
    p[keep] = '\0';
    str->u.large.size = TF_TString_ToInternalSizeT(keep, TF_TSTR_LARGE);
    str->u.large.cap = cap;
    str->u.large.ptr = p;
    return p;
}

/* Makes str SMALL with this size, up to TF_TString_SmallCapacity, and keeps the text that fits. */
static inline char *TF_TString_MakeSmall(TF_TString *str, size_t new_size)
{
    const TF_TString_Type type = TF_TString_GetType(str);
    const size_t size = TF_TString_GetSize(str);
    const size_t keep = size < new_size ? size : new_size;
    if (type != TF_TSTR_SMALL) {
        /* The bytes written next may overlap the text, and do overlap the pointer to it. */
        const char *from = TF_TString_GetDataPointer(str);
        char *heap = type == TF_TSTR_LARGE ? str->u.large.ptr : NULL;
        if (keep > 0)
            memmove(str->u.smll.str, from, keep);
        free(heap);
    }
    str->u.smll.size = (uint8_t)(new_size << 2);
    str->u.smll.str[new_size] = '\0';
    return str->u.smll.str;
}

/* ---- sizes ---- */

/* Sets the size, keeps the text that fits and leaves new bytes undefined. A string that shrinks below half its capacity
 * releases half of it. Returns the text, NULL if there is no memory. */
static inline char *TF_TString_ResizeUninitialized(TF_TString *str, size_t new_size)
{
    const size_t cap = TF_TString_GetCapacity(str);
    if (new_size <= TF_TString_SmallCapacity)
        return TF_TString_MakeSmall(str, new_size);
    if (new_size > TF_TSTR_MAX_SIZE)
        return NULL;
    if (new_size > cap) {
        if (TF_TString_MakeLarge(str, TF_TString_RoundCapacity(new_size)) == NULL)
            return NULL;
    } else if (new_size < cap / 2 && new_size < TF_TString_GetSize(str)) {
        /* If it cannot shrink, it keeps the old block. */
        (void)TF_TString_MakeLarge(str, TF_TString_RoundCapacity(cap / 2));
    }
    str->u.large.size = TF_TString_ToInternalSizeT(new_size, TF_TSTR_LARGE);
    str->u.large.ptr[new_size] = '\0';
    return str->u.large.ptr;
}

/* The same, with new bytes set to c. */
static inline char *TF_TString_Resize(TF_TString *str, size_t new_size, char c)
{
    const size_t size = TF_TString_GetSize(str);
    char *p = TF_TString_ResizeUninitialized(str, new_size);
    if (p != NULL && new_size > size)
        memset(p + size, c, new_size - size);
    return p;
}

/* Returns the text for writing. OFFSET and VIEW strings are copied first. NULL if there is no memory. */
static inline char *TF_TString_GetMutableDataPointer(TF_TString *str)
{
    switch (TF_TString_GetType(str)) {
    case TF_TSTR_SMALL:
        return str->u.smll.str;
    case TF_TSTR_LARGE:
        return str->u.large.ptr;
    default:
        return TF_TString_ResizeUninitialized(str, TF_TString_GetSize(str));
    }
}

/* Makes room for new_cap bytes of text. Does nothing if that fits into SMALL. */
static inline void TF_TString_Reserve(TF_TString *str, size_t new_cap)
{
    const size_t size = TF_TString_GetSize(str);
    if (new_cap <= TF_TString_SmallCapacity || new_cap <= TF_TString_GetCapacity(str))
        return;
    if (new_cap < size)
        new_cap = size; /* a longer view keeps all its text */
    if (new_cap <= TF_TSTR_MAX_SIZE)
        (void)TF_TString_MakeLarge(str, TF_TString_RoundCapacity(new_cap));
}

/* The same, but at least doubles the capacity, so that repeated appending is cheap. */
static inline void TF_TString_ReserveAmortized(TF_TString *str, size_t new_cap)
{
    const size_t cap = TF_TString_GetCapacity(str);
    if (new_cap > cap && cap <= TF_TSTR_MAX_SIZE / 2 && new_cap < 2 * cap &&
        new_cap > TF_TString_SmallCapacity)
        new_cap = 2 * cap;
    TF_TString_Reserve(str, new_cap);
}

/* ---- text ---- */

/* Returns the position of src in the text that str owns, (size_t)-1 if it is elsewhere. */
static inline size_t TF_TString_PositionOf(const TF_TString *str, const char *src)
{
    const uintptr_t at = (uintptr_t)src, begin = (uintptr_t)TF_TString_GetDataPointer(str);
    return at >= begin && at - begin < TF_TString_GetCapacity(str) ? at - begin : (size_t)-1;
}

/* Sets dst to a view of bytes, which must outlive dst. */
static inline void TF_TString_AssignView(TF_TString *dst, const char *src, size_t size)
{
    TF_TString_Dealloc(dst);
    dst->u.view.size = TF_TString_ToInternalSizeT(size, TF_TSTR_VIEW);
    dst->u.view.ptr = src;
}

/* Appends n bytes; src may be part of dst. */
static inline void TF_TString_AppendN(TF_TString *dst, const char *src, size_t n)
{
    const size_t size = TF_TString_GetSize(dst);
    const size_t inside = TF_TString_PositionOf(dst, src);
    char *p;
    if (n == 0 || size > TF_TSTR_MAX_SIZE || n > TF_TSTR_MAX_SIZE - size)
        return;
    TF_TString_ReserveAmortized(dst, size + n);
    p = TF_TString_ResizeUninitialized(dst, size + n);
    if (p != NULL) /* the text may have moved, and src with it */
        memmove(p + size, inside == (size_t)-1 ? src : p + inside, n);
}

/* Appends the text of src, which may be dst. */
static inline void TF_TString_Append(TF_TString *dst, const TF_TString *src)
{
    TF_TString_AppendN(dst, TF_TString_GetDataPointer(src), TF_TString_GetSize(src));
}

/* Sets dst to a copy of the bytes; src may be part of dst. */
static inline void TF_TString_Copy(TF_TString *dst, const char *src, size_t size)
{
    const TF_TString_Type type = TF_TString_GetType(dst);
    const size_t inside = TF_TString_PositionOf(dst, src);
    char *p;
    if (inside != (size_t)-1 && size <= TF_TString_GetCapacity(dst) - inside) {
        memmove(TF_TString_GetMutableDataPointer(dst), src, size);
        (void)TF_TString_ResizeUninitialized(dst, size); /* never grows */
        return;
    }
    if (type == TF_TSTR_OFFSET || type == TF_TSTR_VIEW)
        TF_TString_Init(dst); /* nothing to keep, so nothing to copy */
    p = TF_TString_ResizeUninitialized(dst, size);
    if (p == NULL)
        TF_TString_Dealloc(dst);
    else if (size > 0)
        memcpy(p, src, size);
}

/* Sets dst to the text of src: to a copy if src owns it, otherwise to a view of the same bytes. */
static inline void TF_TString_Assign(TF_TString *dst, const TF_TString *src)
{
    const TF_TString_Type type = TF_TString_GetType(src);
    if (dst == src)
        return;
    if (type == TF_TSTR_SMALL || type == TF_TSTR_LARGE)
        TF_TString_Copy(dst, TF_TString_GetDataPointer(src), TF_TString_GetSize(src));
    else
        TF_TString_AssignView(dst, TF_TString_GetDataPointer(src), TF_TString_GetSize(src));
}

/* Moves the text of src to dst; src is empty afterwards. An OFFSET string becomes a view, because its distance is valid
 * at one address only. */
static inline void TF_TString_Move(TF_TString *dst, TF_TString *src)
{
    if (dst == src)
        return;
    if (TF_TString_GetType(src) == TF_TSTR_OFFSET) {
        TF_TString_AssignView(dst, TF_TString_GetDataPointer(src), TF_TString_GetSize(src));
    } else {
        TF_TString_Dealloc(dst);
        *dst = *src;
    }
    TF_TString_Init(src);
}

#ifdef __cplusplus
}
#endif

#endif
