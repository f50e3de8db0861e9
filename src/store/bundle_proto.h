/* store/bundle_proto.h -- BundleHeaderProto and BundleEntryProto, shared by the two halves of a bundle. */
#ifndef MR_STORE_BUNDLE_PROTO_H
#define MR_STORE_BUNDLE_PROTO_H

#include "store/bundle.h"

typedef struct mr_bundle_header {
    int n_shards;
    bool big_endian;
    int producer, min_consumer;
} mr_bundle_header;

enum { MR_BUNDLE_VERSION = 1 };

void mr_bundle_header_encode(const mr_bundle_header *h, mr_str *out);
mr_status *mr_bundle_header_decode(mr_sv bytes, mr_bundle_header *out);

/* `slices` (serialized, field 7 each) are appended as they are. */
void mr_bundle_entry_encode(const mr_bundle_entry *e, mr_sv slices, mr_str *out);
/* Calls on_slice for each part of a sliced tensor (NULL: only counted). */
mr_status *mr_bundle_entry_decode(mr_sv bytes, mr_bundle_entry *out,
                                  mr_status *(*on_slice)(void *ctx, mr_sv slice_proto), void *ctx);

/* "P.data-00001-of-00003" */
char *mr_bundle_data_path(const char *prefix, int shard, int n_shards);
char *mr_bundle_index_path(const char *prefix);

#endif
