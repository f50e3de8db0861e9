/* net/grpc/tls.c -- TLS 1.3 by OpenSSL over a socket that does not block.
 *
 * OpenSSL makes records of at most 16 KiB and would read and write them one by one. Here they are collected in two
 * buffers, so that one call to the system moves many of them:
 *
 *     pieces --SSL_write--> records in `out` --send--> socket --recv--> records in `in` --SSL_read--> pieces
 *
 * Small pieces are copied together into one record (`staged`); large ones are encrypted from their own memory.
 * OpenSSL gets both buffers as a BIO (`bio_read`, `bio_write`). Before a record is made, `out` has room for it, so a
 * write by OpenSSL never fails and never has to be repeated.
 *
 * An SSL object may be used by one thread at a time, so ssl_mu is held while OpenSSL runs. The system is called
 * without it: `in` belongs to the thread that receives. `out` is filled under ssl_mu, also by the thread that receives
 * (OpenSSL answers a change of keys), and is sent by the thread that sends.
 *
 * Both sides must show a certificate of the CA. The client compares the task's name as gRPC's client does
 * (GRPC_SSL_TARGET_NAME_OVERRIDE_ARG): among the alternative names, without wildcards. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include "net/grpc/grpc.h"
#include "net/task_name.h"
#include "net/tls.h"

enum {
    RECORD = 16384,         /* bytes of a full record, without its head and tag */
    SEALED = RECORD + 256,  /* the same with both, at most */
    SPARE = 4096,           /* of `out`: for what OpenSSL sends by itself */
    FIRST_BYTES = 2 * SEALED + SPARE, /* of a buffer during the handshake: the peer is not known yet */
    BUFFER_BYTES = 16 * SEALED,
};
/* AES-GCM must not encrypt more than 2^24.5 full records with one key (RFC 8446, 5.5). */
#define RECORDS_PER_KEY (UINT64_C(1) << 22)

struct mr_tls_context {
    SSL_CTX *ctx;
    bool server;
    char *host; /* the name that a server's certificate must contain */
};

typedef struct buffer {
    char *p;
    size_t begin, end, cap;
} buffer;

struct mr_tls {
    int fd;
    buffer in;
    bool closed; /* the peer has closed its side, or the socket failed */
    char *name;  /* of the peer */
    mr_mutex ssl_mu;
    SSL *ssl MR_GUARDED_BY(ssl_mu);
    buffer out MR_GUARDED_BY(ssl_mu);
    uint64_t n_records MR_GUARDED_BY(ssl_mu); /* with the present key */
    char staged[RECORD];
};

/* ---- the buffers as a BIO ---- */

/* At most what `in` has; OpenSSL asks again when more has arrived. */
static int bio_read(BIO *b, char *to, int n)
{
    buffer *in = &((mr_tls *)BIO_get_data(b))->in;
    BIO_clear_retry_flags(b);
    size_t have = in->end - in->begin;
    if (have == 0) {
        BIO_set_retry_read(b);
        return -1;
    }
    size_t part = MR_MIN(have, (size_t)n);
    memcpy(to, in->p + in->begin, part);
    in->begin += part;
    return (int)part;
}

/* All or nothing. Without room, as when a peer makes us send without reading, the connection ends. */
static int bio_write(BIO *b, const char *from, int n)
{
    buffer *out = &((mr_tls *)BIO_get_data(b))->out;
    BIO_clear_retry_flags(b);
    if ((size_t)n > out->cap - out->end)
        return -1;
    memcpy(out->p + out->end, from, (size_t)n);
    out->end += (size_t)n;
    return n;
}

static long bio_control(BIO *b, int command, long n, void *p)
{
    (void)b, (void)n, (void)p;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "millrace");
    if (bio_method && (!BIO_meth_set_read(bio_method, bio_read) || !BIO_meth_set_write(bio_method, bio_write) ||
                       !BIO_meth_set_ctrl(bio_method, bio_control))) {
        BIO_meth_free(bio_method);
        bio_method = NULL;
    }
}

/* Made once and never freed, like the rest of OpenSSL. */
static BIO *new_bio(mr_tls *t)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_bio_method);
    BIO *b = bio_method ? BIO_new(bio_method) : NULL;
    if (b) {
        BIO_set_data(b, t);
        BIO_set_init(b, 1);
    }
    return b;
}

/* Grows an allocation; the bytes in it stay. false: no memory. */
static bool grow_buffer(buffer *b, size_t cap)
{
    char *p = mr_try_realloc(b->p, cap);
    if (p) {
        b->p = p;
        b->cap = cap;
    }
    return p != NULL;
}

/* ---- contexts ---- */

static void free_context(mr_tls_context *c)
{
    if (!c)
        return;
    SSL_CTX_free(c->ctx);
    mr_free(c->host);
    mr_free(c);
}

/* All certificates of a PEM text: those of the CA go into the store of ctx, others into its chain. */
static bool add_certificates(SSL_CTX *ctx, const char *pem, bool ca)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    bool ok = b != NULL;
    int n = 0;
    for (X509 *c; ok && (c = PEM_read_bio_X509(b, NULL, NULL, NULL)); n++) {
        if (ca)
            ok = X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), c) == 1;
        else
            ok = n == 0 ? SSL_CTX_use_certificate(ctx, c) == 1 : SSL_CTX_add1_chain_cert(ctx, c) == 1;
        X509_free(c);
    }
    BIO_free(b);
    ERR_clear_error(); /* the end of the text is an error, too */
    return ok && n > 0;
}

static bool use_key(SSL_CTX *ctx, const char *pem)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = b ? PEM_read_bio_PrivateKey(b, NULL, NULL, (void *)(uintptr_t)"") : NULL;
    bool ok = key && SSL_CTX_use_PrivateKey(ctx, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(b);
    return ok;
}

/* Only TLS 1.3, without sessions to be resumed and without early data; both sides are authenticated in every
 * handshake. AES with 128 bits is the fastest where the processor has it. */
static bool configure(SSL_CTX *ctx, const mr_net_keys *keys)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 && SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                         "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
           add_certificates(ctx, keys->ca, true) && add_certificates(ctx, keys->certificate, false) &&
           use_key(ctx, keys->key);
}

static mr_status *new_context(const mr_net_keys *keys, bool server, const char *name, mr_tls_context **out)
{
    mr_status *st = NULL;
    mr_str host = {0};
    mr_tls_context *c = mr_new(mr_tls_context);
    MR_GO(mr_grpc_check_keys(keys));
    if (!name)
        mr_str_appendz(&host, MR_TASK_ANY);
    else if (!mr_task_name_encode(name, &host))
        MR_GO(mr_invalid("'%s' is not the name of a task, such as ps/0", name));
    c->server = server;
    c->host = mr_strdup(mr_str_z(&host));
    c->ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (!c->ctx || !configure(c->ctx, keys))
        st = mr_invalid("OpenSSL does not accept these keys");
    ERR_clear_error();
out:
    mr_str_deinit(&host);
    if (st)
        free_context(c);
    else
        *out = c;
    return st;
}

/* ---- sessions ---- */

static void close_session(mr_tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl); /* frees the BIO */
    mr_mutex_deinit(&t->ssl_mu);
    mr_free(t->in.p);
    mr_free(t->out.p);
    mr_free(t->name);
    mr_free(t);
}

/* The name is checked by OpenSSL in the handshake. */
static bool expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *p = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return X509_VERIFY_PARAM_set1_host(p, host, 0) == 1;
}

static mr_status *open_session(mr_tls_context *c, int fd, mr_tls **out)
{
    mr_tls *t = mr_new(mr_tls);
    mr_mutex_init(&t->ssl_mu);
    t->fd = fd;
    t->name = mr_strdup("");
    t->ssl = SSL_new(c->ctx);
    BIO *b = t->ssl ? new_bio(t) : NULL;
    if (!b || !grow_buffer(&t->in, FIRST_BYTES) || !grow_buffer(&t->out, FIRST_BYTES) ||
        (!c->server && !expect_host(t->ssl, c->host))) {
        BIO_free(b);
        close_session(t);
        ERR_clear_error();
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a TLS session");
    }
    SSL_set_bio(t->ssl, b, b);
    if (c->server)
        SSL_set_accept_state(t->ssl);
    else
        SSL_set_connect_state(t->ssl);
    *out = t;
    return NULL;
}

/* ---- the socket ---- */

/* Reads what has arrived, if `in` is empty. *drained: there is no more for now. */
static mr_status *fill_in(mr_tls *t, bool *drained)
{
    MR_ASSERT(t->in.begin == t->in.end);
    ssize_t n;
    do
        n = recv(t->fd, t->in.p, t->in.cap, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    *drained = n < (ssize_t)t->in.cap;
    t->in.begin = 0;
    t->in.end = n > 0 ? (size_t)n : 0;
    if (n > 0 || (n < 0 && errno == EAGAIN))
        return NULL;
    t->closed = true;
    return mr_error(MR_UNAVAILABLE, "%s", n == 0 ? "the peer closed the connection" : strerror(errno));
}

/* Sends what `out` has, as far as the socket takes it. ssl_mu is held, since the other thread may add to `out`. */
static mr_status *flush_out_locked(mr_tls *t) MR_REQUIRES(t->ssl_mu)
{
    while (t->out.begin < t->out.end) {
        ssize_t n = send(t->fd, t->out.p + t->out.begin, t->out.end - t->out.begin, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? NULL : mr_error(MR_UNAVAILABLE, "%s", strerror(errno));
        t->out.begin += (size_t)n;
    }
    t->out.begin = t->out.end = 0;
    return NULL;
}

/* ---- errors ---- */

/* Why OpenSSL refused to go on. What a peer can cause by its keys is UNAUTHENTICATED. */
static mr_status *explain_locked(mr_tls *t, bool in_handshake) MR_REQUIRES(t->ssl_mu)
{
    char text[256];
    long verify = SSL_get_verify_result(t->ssl);
    unsigned long error = ERR_peek_error();
    if (in_handshake && verify != X509_V_OK)
        snprintf(text, sizeof text, "the peer's certificate was refused: %s", X509_verify_cert_error_string(verify));
    else if (error)
        ERR_error_string_n(error, text, sizeof text);
    else
        snprintf(text, sizeof text, "the peer violated the protocol");
    ERR_clear_error();
    return mr_error(in_handshake ? MR_UNAUTHENTICATED : MR_UNAVAILABLE, "TLS: %s", text);
}

/* ---- the handshake ---- */

/* The first of the names in the peer's certificate that is a task's, as net/grpc/server.c finds it. */
static void find_name_locked(mr_tls *t) MR_REQUIRES(t->ssl_mu)
{
    X509 *c = SSL_get0_peer_certificate(t->ssl);
    GENERAL_NAMES *names = c ? X509_get_ext_d2i(c, NID_subject_alt_name, NULL, NULL) : NULL;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !t->name[0]; i++) {
        GENERAL_NAME *g = sk_GENERAL_NAME_value(names, i);
        mr_str name = {0};
        if (g->type == GEN_DNS &&
            mr_task_name_decode((mr_sv){(const char *)ASN1_STRING_get0_data(g->d.dNSName),
                                        (size_t)ASN1_STRING_length(g->d.dNSName)},
                                &name)) {
            mr_free(t->name);
            t->name = mr_strdup(mr_str_z(&name));
        }
        mr_str_deinit(&name);
    }
    GENERAL_NAMES_free(names);
}

/* One more step with what `in` has. *ready: it is over, or needs more bytes. */
static mr_status *handshake_step(mr_tls *t, bool *done, bool *needs_more)
{
    mr_status *st = NULL;
    mr_lock(&t->ssl_mu);
    ERR_clear_error();
    int rc = SSL_do_handshake(t->ssl);
    *done = rc == 1;
    *needs_more = rc != 1 && SSL_get_error(t->ssl, rc) == SSL_ERROR_WANT_READ;
    if (!*done && !*needs_more)
        st = explain_locked(t, true);
    if (*done)
        find_name_locked(t);
    /* Also after an error: the peer learns by an alert why it was refused. */
    mr_status *lost = flush_out_locked(t);
    mr_unlock(&t->ssl_mu);
    if (st || !lost) {
        mr_status_free(lost);
        return st;
    }
    return lost;
}

/* Buffers get their full size when the peer has proved who it is. */
static mr_status *end_handshake(mr_tls *t)
{
    mr_lock(&t->ssl_mu);
    bool ok = grow_buffer(&t->in, BUFFER_BYTES) && grow_buffer(&t->out, BUFFER_BYTES);
    mr_unlock(&t->ssl_mu);
    return ok ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a TLS session");
}

static mr_status *handshake(mr_tls *t, bool *done)
{
    for (bool needs_more;;) {
        bool drained;
        MR_TRY(handshake_step(t, done, &needs_more));
        if (*done)
            return end_handshake(t);
        MR_TRY(fill_in(t, &drained));
        if (t->in.end == 0)
            return NULL;
    }
}

static const char *peer_name(const mr_tls *t) { return t->name; }

/* ---- receiving ---- */

/* Decrypts into one place; *n 0: `in` has no whole record. */
static mr_status *decrypt_some(mr_tls *t, void *to, size_t cap, size_t *n)
{
    mr_status *st = NULL;
    mr_lock(&t->ssl_mu);
    ERR_clear_error();
    int rc = SSL_read_ex(t->ssl, to, cap, n);
    if (rc != 1) {
        *n = 0;
        int why = SSL_get_error(t->ssl, rc);
        if (why == SSL_ERROR_ZERO_RETURN)
            st = mr_error(MR_UNAVAILABLE, "the peer closed the connection");
        else if (why != SSL_ERROR_WANT_READ)
            /* A client learns here that the server has refused its certificate. */
            st = explain_locked(t, false);
    }
    mr_unlock(&t->ssl_mu);
    return st;
}

static mr_status *receive(mr_tls *t, const struct iovec *space, int n_space, size_t *got, bool *drained)
{
    *got = 0;
    *drained = false;
    bool empty = false;
    for (int i = 0; i < n_space; i++) {
        for (size_t at = 0; at < space[i].iov_len;) {
            size_t n;
            MR_TRY(decrypt_some(t, (char *)space[i].iov_base + at, space[i].iov_len - at, &n));
            at += n;
            *got += n;
            if (n)
                continue;
            if (empty) { /* nothing more in the socket either */
                *drained = true;
                return NULL;
            }
            mr_status *st = fill_in(t, &empty);
            if (st && *got) { /* the bytes before the end count; the next call finds the end again */
                mr_status_free(st);
                return NULL;
            }
            MR_TRY(st);
        }
    }
    return NULL;
}

/* ---- sending ---- */

/* A position in what is to be sent. */
typedef struct cursor {
    const struct iovec *iov;
    int n;
    size_t at;
} cursor;

static void advance(cursor *c, size_t n)
{
    c->at += n;
    while (c->n && c->at >= c->iov->iov_len) {
        c->at -= c->iov->iov_len;
        c->iov++;
        c->n--;
    }
}

/* The next bytes for one record: a part of a large piece, or several small ones copied together. */
static const char *next_record(mr_tls *t, cursor c, size_t *n)
{
    const char *p = (const char *)c.iov->iov_base + c.at;
    *n = MR_MIN(c.iov->iov_len - c.at, (size_t)RECORD);
    if (*n == RECORD || c.n == 1)
        return p;
    for (*n = 0; c.n && *n < RECORD;) {
        size_t part = MR_MIN(c.iov->iov_len - c.at, RECORD - *n);
        memcpy(t->staged + *n, (const char *)c.iov->iov_base + c.at, part);
        *n += part;
        advance(&c, part);
    }
    return t->staged;
}

/* Encrypts until `out` is full. */
static mr_status *encrypt_some_locked(mr_tls *t, cursor *c, size_t *taken) MR_REQUIRES(t->ssl_mu)
{
    while (c->n && t->out.cap - t->out.end >= SEALED + SPARE) {
        size_t n, done;
        const char *p = next_record(t, *c, &n);
        if (++t->n_records == RECORDS_PER_KEY) {
            t->n_records = 0;
            if (SSL_key_update(t->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
                return explain_locked(t, false);
        }
        ERR_clear_error();
        if (SSL_write_ex(t->ssl, p, n, &done) != 1)
            return explain_locked(t, false);
        *taken += done;
        advance(c, done);
    }
    return NULL;
}

static mr_status *send_pieces(mr_tls *t, const struct iovec *iov, int n, size_t *taken)
{
    cursor c = {iov, n, 0};
    mr_status *st = NULL;
    *taken = 0;
    advance(&c, 0); /* past empty pieces */
    mr_lock(&t->ssl_mu);
    do {
        st = flush_out_locked(t);
        if (st || t->out.end) /* an error, or the socket is full */
            break;
        st = encrypt_some_locked(t, &c, taken);
        if (!st && !c.n)
            st = flush_out_locked(t);
    } while (!st && c.n);
    mr_unlock(&t->ssl_mu);
    return st;
}

/* The thread that receives may add a few bytes after this; the next send takes them along. */
static bool has_unsent(const mr_tls *t)
{
    mr_tls *m = (mr_tls *)(uintptr_t)t;
    mr_lock(&m->ssl_mu);
    bool any = m->out.begin < m->out.end;
    mr_unlock(&m->ssl_mu);
    return any;
}

const mr_tls_library mr_grpc_tls = {
    .context_new = new_context,
    .context_free = free_context,
    .open = open_session,
    .close = close_session,
    .handshake = handshake,
    .peer_name = peer_name,
    .receive = receive,
    .send = send_pieces,
    .has_unsent = has_unsent,
};
