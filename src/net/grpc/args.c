/* net/grpc/args.c -- settings and credentials of channels and servers.
 *
 * Arguments are collected in a fixed array that lives on the caller's stack; gRPC copies what it
 * needs. Keys and values are not copied here. */
#include "net/grpc/grpc.h"

#include <limits.h>

/* The time after which a lost host is noticed. A server may refuse a client's pings, and a plain server may be
 * TensorFlow's, which allows one in five minutes; servers with TLS are ours. */
#define PING_MS 10000
#define PLAIN_PING_MS 310000
/* Error messages count as metadata, and a character may take three bytes there. */
#define MAX_METADATA (32 << 10)
#define MAX_CALLS (1 << 16) /* of one client at a time */

/* Adds a setting; the array has room for all there are. */
static void add_int(mr_grpc_args *a, const char *key, int value)
{
    MR_ASSERT(a->list.num_args < (size_t)MR_COUNT(a->args));
    a->args[a->list.num_args++] =
        (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

static void add_text(mr_grpc_args *a, const char *key, const char *value)
{
    MR_ASSERT(a->list.num_args < (size_t)MR_COUNT(a->args));
    a->args[a->list.num_args++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                             .key = (char *)(uintptr_t)key,
                                             .value.string = (char *)(uintptr_t)value};
}

/* The settings of both sides. Messages are not compressed: a compressed one could grow to any size
 * after its length was checked. */
static void add_common(mr_grpc_args *a, size_t max_message)
{
    a->list = (grpc_channel_args){0, a->args};
    add_int(a, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
            max_message && max_message < INT_MAX ? (int)max_message : -1);
    add_int(a, GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
    add_int(a, GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
    add_int(a, GRPC_ARG_ENABLE_CHANNELZ, 0);
    add_int(a, GRPC_ARG_MAX_METADATA_SIZE, MAX_METADATA);
    add_int(a, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    add_int(a, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PING_MS);
    add_int(a, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
}

/* Larger frames, windows and read chunks, no probes, and sending without copies were all tried with 64
 * KiB to 64 MiB over loopback: none is faster than gRPC's defaults. A failed call is not retried by
 * gRPC, because a call must not be made twice unasked. */
void mr_grpc_client_args(mr_grpc_args *a, size_t max_message, bool tls, const char *host)
{
    add_common(a, max_message);
    /* Pings find a lost host while calls wait for it; an idle connection is not probed. */
    add_int(a, GRPC_ARG_KEEPALIVE_TIME_MS, tls ? PING_MS : PLAIN_PING_MS);
    add_int(a, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
    /* A task that restarts is reached again within about a second. */
    add_int(a, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    add_int(a, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
    add_int(a, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    add_int(a, GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
    add_int(a, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); /* no connection is shared between peers */
    /* Neither the environment nor DNS may change how tasks of a cluster are reached. */
    add_int(a, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    add_int(a, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    add_int(a, GRPC_ARG_ENABLE_RETRIES, 0);
    /* The certificate must name the task, not the host it happens to run on. */
    if (tls)
        add_text(a, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, host);
}

/* A server allows frequent pings of its clients (they notice a lost host by them), and limits the calls of one
 * client and the time of a handshake. */
void mr_grpc_server_args(mr_grpc_args *a, size_t max_message)
{
    add_common(a, max_message);
    add_int(a, GRPC_ARG_KEEPALIVE_TIME_MS, PING_MS);
    add_int(a, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    add_int(a, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
    add_int(a, GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    add_int(a, GRPC_ARG_MAX_CONCURRENT_STREAMS, MAX_CALLS);
    add_int(a, GRPC_ARG_ALLOW_REUSEPORT, 0); /* a port in use is an error */
    add_int(a, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
}

/* ---- credentials ---- */

static grpc_ssl_pem_key_cert_pair pair_of(const mr_net_keys *k)
{
    return (grpc_ssl_pem_key_cert_pair){.private_key = k->key, .cert_chain = k->certificate};
}

/* The keys are checked first, because gRPC reports bad keys only when it connects. */
mr_status *mr_grpc_client_credentials(const mr_net_keys *keys, grpc_channel_credentials **out)
{
    if (!keys) {
        *out = grpc_insecure_credentials_create();
        return NULL;
    }
    MR_TRY(mr_grpc_check_keys(keys));
    grpc_ssl_pem_key_cert_pair pair = pair_of(keys);
    *out = grpc_ssl_credentials_create(keys->ca, &pair, NULL, NULL);
    return *out ? NULL : mr_invalid("gRPC does not accept these keys");
}

/* Clients must show a certificate of the CA. */
mr_status *mr_grpc_server_credentials(const mr_net_keys *keys, grpc_server_credentials **out)
{
    if (!keys) {
        *out = grpc_insecure_server_credentials_create();
        return NULL;
    }
    MR_TRY(mr_grpc_check_keys(keys));
    grpc_ssl_pem_key_cert_pair pair = pair_of(keys);
    *out = grpc_ssl_server_credentials_create_ex(
        keys->ca, &pair, 1, GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, NULL);
    return *out ? NULL : mr_invalid("gRPC does not accept these keys");
}
