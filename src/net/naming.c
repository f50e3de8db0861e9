/* net/naming.c -- the entry under a name, and where a naming service is, as texts.
 *
 * An entry is "host:port INCARNATION", the incarnation in 16 hexadecimal digits. It comes from a
 * service that others can write to, so it is checked completely before it is used. Every valid entry
 * has one spelling only: mr_naming_decode accepts exactly what mr_naming_encode writes. This file is in
 * libmillrace-zookeeper.so too. */
#include "net/naming.h"

#include "base/memory.h"

enum { MAX_SPEC = 1024, MAX_PATH = 512 };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* ---- addresses ---- */

/* A port is written without leading zeros, and is at least 1: nobody can call port 0. */
static bool port_ok(mr_sv v)
{
    int64_t port = 0;
    for (size_t i = 0; i < v.n; i++)
        if (!is_digit(v.p[i]))
            return false;
    return v.n > 0 && v.n <= 5 && v.p[0] != '0' && mr_sv_to_i64(v, &port) && port <= 65535;
}

/* A name or an IPv4 address, or an IPv6 address in brackets, maybe with a zone after a percent sign. */
static bool host_ok(mr_sv v)
{
    bool six = v.n > 2 && v.p[0] == '[' && v.p[v.n - 1] == ']', ok = v.n > 0 && v.n <= 253;
    for (size_t i = six; ok && i < v.n - six; i++) {
        char c = v.p[i];
        ok = is_digit(c) || is_letter(c) || c == '.' || c == '-' || c == '_' || (six && (c == ':' || c == '%'));
    }
    return ok;
}

/* Splits at the last colon; false: there is none. */
static bool split_address(mr_sv address, mr_sv *host, mr_sv *port)
{
    size_t at = address.n;
    while (at > 0 && address.p[at - 1] != ':')
        at--;
    if (at == 0)
        return false;
    *host = (mr_sv){address.p, at - 1};
    *port = (mr_sv){address.p + at, address.n - at};
    return true;
}

/* "host:port", and short enough for an entry. */
static bool address_ok(mr_sv a)
{
    mr_sv host, port;
    return a.n <= MR_NAMING_MAX_ADDRESS && split_address(a, &host, &port) && host_ok(host) && port_ok(port);
}

/* An address at which a server listens on all interfaces; nobody can call it. */
static bool is_any_host(mr_sv a) { return mr_sv_starts(a, "0.0.0.0:") || mr_sv_starts(a, "[::]:"); }

/* ---- an entry ---- */

/* The address that a task publishes.  An address such as 0.0.0.0 is for listening only: nobody can call it. */
mr_status *mr_naming_entry_init(mr_naming_entry *e, const char *address, uint64_t incarnation)
{
    *e = (mr_naming_entry){.incarnation = incarnation};
    if (is_any_host(mr_sv_of(address)))
        return mr_invalid("other tasks cannot call %s: give the name by which they know this host, and set "
                          "MILLRACE_BIND to the address to listen at",
                          address);
    if (!address_ok(mr_sv_of(address)))
        return mr_invalid("'%s' is not host:port, so other tasks could not call it", address);
    MR_ENSURE(incarnation != 0);
    memcpy(e->address, address, strlen(address) + 1);
    return NULL;
}

/* Appends the entry as one line of text, without a newline. */
void mr_naming_encode(const mr_naming_entry *e, mr_str *out)
{
    MR_ASSERT(e->address[0] && e->incarnation != 0);
    mr_str_printf(out, "%s %016llx", e->address, (unsigned long long)e->incarnation);
}

/* Reads an incarnation: 16 digits, not 0. */
static bool read_hex(mr_sv v, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < v.n; i++) {
        char c = v.p[i];
        int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return v.n == 16 && *out != 0;
}

/* False: the value is not an entry; *out is empty then. */
bool mr_naming_decode(mr_sv value, mr_naming_entry *out)
{
    mr_sv rest = value, address;
    *out = (mr_naming_entry){0};
    if (value.n > MR_NAMING_MAX_VALUE || !mr_sv_cut(&rest, ' ', &address) || !rest.p || !address_ok(address) ||
        is_any_host(address) || !read_hex(rest, &out->incarnation)) {
        *out = (mr_naming_entry){0};
        return false;
    }
    MR_ASSERT(address.n < sizeof out->address);
    memcpy(out->address, address.p, address.n);
    return true;
}

/* ---- where the service is ---- */

/* Adds a server to the list, with ZooKeeper's default port if it has none. */
static bool add_server(mr_sv server, mr_str *out)
{
    mr_sv host = server, port = MR_SV("2181");
    bool bare = server.n > 0 && server.p[server.n - 1] == ']'; /* an IPv6 address without a port */
    if (!bare)
        split_address(server, &host, &port);
    if (!host_ok(host) || !port_ok(port))
        return false;
    mr_str_printf(out, "%s%.*s:%.*s", out->n ? "," : "", MR_SV_ARG(host), MR_SV_ARG(port));
    return true;
}

/* A path has segments of letters, digits, dots, dashes and underscores; "." and ".." are not allowed. */
static bool path_ok(mr_sv path)
{
    /* `from` is the position of the last slash, `dots` the number of dots since then. */
    size_t dots = 0, from = 0;
    bool ok = path.n >= 2 && path.n <= MAX_PATH && path.p[0] == '/';
    for (size_t i = 1; ok && i <= path.n; i++) {
        char c = i < path.n ? path.p[i] : '/';
        if (c == '/') {
            size_t n = i - from - 1;
            ok = n > 0 && !(n <= 2 && dots == n);
            from = i;
            dots = 0;
        } else {
            dots += c == '.';
            ok = is_digit(c) || is_letter(c) || c == '.' || c == '-' || c == '_';
        }
    }
    return ok;
}

/* Parses "host:port,host:port/path"; the path is /millrace if it is missing. */
mr_status *mr_naming_spec_parse(const char *text, mr_naming_spec *out)
{
    mr_sv all = mr_sv_of(text), path = MR_SV("/millrace"), servers = all, rest, server;
    mr_str list = {0};
    const char *slash = strchr(text, '/');
    *out = (mr_naming_spec){0};
    if (slash) {
        servers.n = (size_t)(slash - text);
        path = (mr_sv){slash, all.n - servers.n};
    }
    rest = servers;
    bool ok = all.n <= MAX_SPEC && path_ok(path);
    while (ok && mr_sv_cut(&rest, ',', &server))
        ok = add_server(server, &list);
    if (ok && list.n)
        *out = (mr_naming_spec){mr_str_take(&list), mr_strndup(path.p, path.n)};
    mr_str_deinit(&list);
    return out->servers ? NULL
                        : mr_invalid("'%.100s' is not the address of a ZooKeeper service: expected "
                                     "host:port,host:port/path",
                                     text);
}

void mr_naming_spec_deinit(mr_naming_spec *s)
{
    mr_free(s->servers);
    mr_free(s->path);
    *s = (mr_naming_spec){0};
}
