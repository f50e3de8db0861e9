/* board/access.c -- who may use the board: see access.h. */
#include "board/access.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

static bool same_text(mr_sv a, const char *b) { return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0; }

/* An IPv6 address is written in brackets, as in a URL. Browsers leave the default port out. */
static void accept_host(mr_board_access *a, const char *host)
{
    struct in6_addr unused;
    bool brackets = inet_pton(AF_INET6, host, &unused) == 1;
    mr_vec_push(&a->hosts, mr_printf("%s%s%s:%d", brackets ? "[" : "", host, brackets ? "]" : "", a->port));
    if (a->port == 80)
        mr_vec_push(&a->hosts, mr_printf("%s%s%s", brackets ? "[" : "", host, brackets ? "]" : ""));
}

/* With a host, only that host is accepted. At loopback, and at all addresses, its usual names are; the name of the
 * machine only where other machines can connect. */
void mr_board_access_init(mr_board_access *a, const char *host, int port, const char *token)
{
    char own[256] = "";
    *a = (mr_board_access){.port = port, .token = token ? mr_strdup(token) : NULL};
    a->any_address = host && (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0);
    if (host && !a->any_address) {
        accept_host(a, host);
        return;
    }
    accept_host(a, "localhost");
    accept_host(a, "127.0.0.1");
    accept_host(a, "::1");
    if (a->any_address && gethostname(own, sizeof own - 1) == 0 && own[0])
        accept_host(a, own);
}

void mr_board_access_deinit(mr_board_access *a)
{
    for (int i = 0; i < a->hosts.n; i++)
        mr_free(a->hosts.p[i]);
    mr_vec_deinit(&a->hosts);
    mr_free(a->token);
    *a = (mr_board_access){0};
}

/* Whether it is an address in digits, with this port: "192.168.0.7:8600", "[fe80::1]:8600". */
static bool is_address(mr_sv host, int port)
{
    char text[64], end[16];
    unsigned char bytes[16];
    int n_end = snprintf(end, sizeof end, ":%d", port);
    if (host.n >= sizeof text || memchr(host.p, 0, host.n))
        return false;
    bool ends = host.n > (size_t)n_end && memcmp(host.p + host.n - (size_t)n_end, end, (size_t)n_end) == 0;
    if (!ends && port != 80)
        return false;
    size_t n = ends ? host.n - (size_t)n_end : host.n;
    bool brackets = n > 2 && host.p[0] == '[' && host.p[n - 1] == ']';
    memcpy(text, host.p + brackets, n - 2 * (size_t)brackets);
    text[n - 2 * (size_t)brackets] = 0;
    return inet_pton(brackets ? AF_INET6 : AF_INET, text, bytes) == 1;
}

bool mr_board_access_host(const mr_board_access *a, mr_sv host)
{
    if (!host.p || host.n == 0)
        return false;
    for (int i = 0; i < a->hosts.n; i++)
        if (same_text(host, a->hosts.p[i]))
            return true;
    return a->any_address && is_address(host, a->port);
}

/* The Origin of our own page is http:// and the Host, which has been checked before. A link on another site that leads
 * to the page is no attack: the user sees the page open, and the other site learns nothing. */
bool mr_board_access_foreign(const mr_board_request *r, bool for_page)
{
    if (r->origin.p) {
        mr_sv origin = r->origin;
        if (!mr_sv_starts(origin, "http://"))
            return true;
        origin = (mr_sv){origin.p + 7, origin.n - 7};
        if (origin.n != r->host.n || strncasecmp(origin.p, r->host.p, origin.n) != 0)
            return true;
    }
    if (!r->fetch_site.p || mr_sv_is(r->fetch_site, "same-origin") || mr_sv_is(r->fetch_site, "none"))
        return false;
    bool follows_link = mr_sv_is(r->fetch_mode, "navigate") && mr_sv_is(r->fetch_dest, "document");
    return !(for_page && follows_link);
}

bool mr_board_access_token(const mr_board_access *a, mr_sv token)
{
    size_t n = a->token ? strlen(a->token) : 0;
    if (!a->token)
        return true;
    if (!token.p || token.n != n) /* the length is no secret */
        return false;
    volatile unsigned char differ = 0;
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned char)(token.p[i] ^ a->token[i]);
    return differ == 0;
}
