/* store/meta_graph_fields.h -- field numbers of MetaGraphDef and what is in it, for code that reads and writes it
 * without generated classes. */
#ifndef MR_STORE_META_GRAPH_FIELDS_H
#define MR_STORE_META_GRAPH_FIELDS_H

enum { META_INFO = 1, META_GRAPH = 2, META_SAVER = 3, META_COLLECTION = 4, META_SIGNATURE = 5, META_ASSET = 6, META_OBJECTS = 7 };
enum { INFO_TAGS = 4, INFO_TENSORFLOW_VERSION = 5 };
enum { SAVER_FILE = 1, SAVER_SAVE = 2, SAVER_RESTORE = 3, SAVER_KEEP = 4, SAVER_VERSION = 7 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 }; /* of every map */
enum { SIGNATURE_INPUTS = 1, SIGNATURE_OUTPUTS = 2, SIGNATURE_METHOD = 3 };
enum { TENSOR_NAME = 1, TENSOR_TYPE = 2, TENSOR_SHAPE = 3 };
enum { ASSET_TENSOR = 1, ASSET_FILE = 2 };

#endif
