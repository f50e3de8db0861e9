/* group/roster_messages.c -- packs and unpacks the messages between members and the roster.
 *
 * Reading uses a cursor that keeps its first error, so the result is checked once, at the end. After an error,
 * reads return zeros and empty texts. */
#include "group/roster_messages.h"

#include "base/memory.h"

/* ---- writing ---- */

static void put_int(mr_str *s, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        mr_str_appendc(s, (char)(v >> (8 * i)));
}

/* Cuts a text that is longer than readers accept. */
static void put_text(mr_str *s, mr_sv t)
{
    size_t n = MR_MIN(t.n, (size_t)MR_ROSTER_MAX_TEXT);
    put_int(s, n, 2);
    mr_str_append(s, t.p, n);
}

/* ---- reading ---- */

typedef struct cursor {
    const uint8_t *p;
    size_t n;
    bool bad;
} cursor;

/* The next n bytes; NULL after the end, which is an error from then on. */
static const uint8_t *take_bytes(cursor *c, size_t n)
{
    if (c->bad || n > c->n) {
        c->bad = true;
        return NULL;
    }
    const uint8_t *p = c->p;
    c->p += n;
    c->n -= n;
    return p;
}

/* Reads n bytes, the lowest first; 0 after the end of the message. */
static uint64_t get_int(cursor *c, int n)
{
    const uint8_t *p = take_bytes(c, (size_t)n);
    uint64_t v = 0;
    for (int i = 0; p && i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static mr_sv get_text(cursor *c)
{
    size_t n = get_int(c, 2);
    c->bad |= n > MR_ROSTER_MAX_TEXT;
    const uint8_t *p = take_bytes(c, n);
    return p ? (mr_sv){(const char *)p, n} : (mr_sv){"", 0};
}

static void get_magic(cursor *c, const char *magic)
{
    const uint8_t *p = take_bytes(c, 4);
    c->bad |= !p || memcmp(p, magic, 4) != 0;
}

/* A count of items of at least `bytes` bytes each; more than can follow is an error, so a count never causes a
 * large allocation. */
static int get_count(cursor *c, size_t bytes)
{
    uint64_t n = get_int(c, 4);
    c->bad |= n > MR_ROSTER_MAX_MEMBERS || n > c->n / bytes;
    return c->bad ? 0 : (int)n;
}

static mr_status *check_end(const cursor *c, const char *what)
{
    return c->bad || c->n ? mr_invalid("group: received bytes that are not %s", what) : NULL;
}

/* ---- Attend ---- */

/* Appends the message; the layout is in the header. */
void mr_attend_write(const mr_attend *a, mr_str *out)
{
    mr_str_appendz(out, "MRGA");
    put_int(out, a->flags, 4);
    put_int(out, a->serial, 8);
    put_int(out, a->who, 8);
    put_int(out, (uint64_t)a->generation, 8);
    put_int(out, a->lost, 8);
    put_int(out, (uint32_t)a->wanted, 4);
    put_text(out, mr_str_view(&a->name));
    put_text(out, mr_str_view(&a->address));
    put_int(out, (uint64_t)a->peers.n, 4);
    for (int i = 0; i < a->peers.n; i++)
        put_int(out, a->peers.p[i], 8);
}

/* Accepts exactly one whole message: bytes that are left over are an error too. Any member may have sent them. */
mr_status *mr_attend_read(mr_sv bytes, mr_attend *out)
{
    cursor c = {(const uint8_t *)bytes.p, bytes.n, false};
    *out = (mr_attend){0};
    get_magic(&c, "MRGA");
    out->flags = (uint32_t)get_int(&c, 4);
    out->serial = get_int(&c, 8);
    out->who = get_int(&c, 8);
    out->generation = (int64_t)get_int(&c, 8);
    out->lost = get_int(&c, 8);
    out->wanted = (int32_t)(uint32_t)get_int(&c, 4);
    mr_sv name = get_text(&c), address = get_text(&c);
    mr_str_append(&out->name, name.p, name.n);
    mr_str_append(&out->address, address.p, address.n);
    int n = get_count(&c, 8);
    for (int i = 0; i < n; i++)
        mr_vec_push(&out->peers, get_int(&c, 8));
    return check_end(&c, "an Attend message");
}

void mr_attend_deinit(mr_attend *a)
{
    mr_str_deinit(&a->name);
    mr_str_deinit(&a->address);
    mr_vec_deinit(&a->peers);
}

/* ---- news ---- */

/* Appends the message; the layout is in the header. */
void mr_news_write(const mr_news *n, mr_str *out)
{
    mr_str_appendz(out, "MRGN");
    put_int(out, n->kind, 4);
    put_int(out, (uint64_t)n->generation, 8);
    put_int(out, n->roster_server, 8);
    put_int(out, n->who, 8);
    put_text(out, mr_str_view(&n->why));
    put_int(out, (uint64_t)n->members.n, 4);
    for (int i = 0; i < n->members.n; i++) {
        put_int(out, n->members.p[i].key, 8);
        put_text(out, mr_sv_of(n->members.p[i].address));
    }
}

/* As mr_attend_read. A generation that was formed has a number above 0 and at least one member, so readers need not
 * check that again. */
mr_status *mr_news_read(mr_sv bytes, mr_news *out)
{
    cursor c = {(const uint8_t *)bytes.p, bytes.n, false};
    *out = (mr_news){0};
    get_magic(&c, "MRGN");
    out->kind = (uint32_t)get_int(&c, 4);
    out->generation = (int64_t)get_int(&c, 8);
    out->roster_server = get_int(&c, 8);
    out->who = get_int(&c, 8);
    mr_sv why = get_text(&c);
    mr_str_append(&out->why, why.p, why.n);
    int n = get_count(&c, 10);
    for (int i = 0; i < n; i++) {
        uint64_t key = get_int(&c, 8);
        mr_sv address = get_text(&c);
        mr_vec_push(&out->members, (mr_news_member){key, mr_strndup(address.p, address.n)});
    }
    c.bad |= out->kind > MR_NEWS_REFUSED || (out->kind == MR_NEWS_FORMED && (out->generation < 1 || n < 1));
    return check_end(&c, "a news message");
}

void mr_news_deinit(mr_news *n)
{
    for (int i = 0; i < n->members.n; i++)
        mr_free(n->members.p[i].address);
    mr_vec_deinit(&n->members);
    mr_str_deinit(&n->why);
}
