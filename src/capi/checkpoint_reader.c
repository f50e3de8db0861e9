/* capi/checkpoint_reader.c -- TF_CheckpointReader: a checkpoint looked at without a graph. */
#include "capi/internal.h"
#include "store/bundle.h"
#include "tensorflow/c/c_api_experimental.h"

struct TF_CheckpointReader {
    mr_bundle *b;
    char **names; /* as strings of C, which clients get */
    int n;
};

TF_CheckpointReader *TF_NewCheckpointReader(const char *filename, TF_Status *status)
{
    mr_bundle *b = NULL;
    mr_status *st = filename ? mr_bundle_open(filename, &b) : mr_invalid("There is no file");
    mr_capi_set_status(status, st);
    if (st)
        return NULL;
    TF_CheckpointReader *r = mr_new(TF_CheckpointReader);
    *r = (TF_CheckpointReader){b, mr_new_array(char *, mr_bundle_count(b) + 1), mr_bundle_count(b)};
    for (int i = 0; i < r->n; i++) {
        mr_sv name = mr_bundle_name(b, i);
        r->names[i] = mr_strndup(name.p, name.n);
    }
    return r;
}

void TF_DeleteCheckpointReader(TF_CheckpointReader *reader)
{
    if (!reader)
        return;
    for (int i = 0; i < reader->n; i++)
        mr_free(reader->names[i]);
    mr_free(reader->names);
    mr_bundle_close(reader->b);
    mr_free(reader);
}

static mr_status *look_up(TF_CheckpointReader *r, const char *name, mr_bundle_entry *e)
{
    return r && name ? mr_bundle_lookup(r->b, mr_sv_of(name), e) : mr_invalid("There is no reader, or no name");
}

/* For functions without a status. */
static bool there(TF_CheckpointReader *r, const char *name, mr_bundle_entry *e)
{
    mr_status *st = look_up(r, name, e);
    mr_status_free(st);
    return !st;
}

int TF_CheckpointReaderHasTensor(TF_CheckpointReader *reader, const char *name)
{
    mr_bundle_entry e;
    return there(reader, name, &e);
}

const char *TF_CheckpointReaderGetVariable(TF_CheckpointReader *reader, int index)
{
    return reader && index >= 0 && index < reader->n ? reader->names[index] : NULL;
}

int TF_CheckpointReaderSize(TF_CheckpointReader *reader) { return reader ? reader->n : 0; }

TF_DataType TF_CheckpointReaderGetVariableDataType(TF_CheckpointReader *reader, const char *name)
{
    mr_bundle_entry e;
    return there(reader, name, &e) ? (TF_DataType)e.dtype : (TF_DataType)0;
}

int TF_CheckpointReaderGetVariableNumDims(TF_CheckpointReader *reader, const char *name)
{
    mr_bundle_entry e;
    return there(reader, name, &e) ? e.shape.rank : -1;
}

void TF_CheckpointReaderGetVariableShape(TF_CheckpointReader *reader, const char *name, int64_t *dims, int num_dims,
                                         TF_Status *status)
{
    mr_bundle_entry e;
    mr_status *st = look_up(reader, name, &e);
    if (!st && (num_dims != e.shape.rank || (num_dims && !dims)))
        st = mr_invalid("Expected rank is %d but actual rank is %d", num_dims, e.shape.rank);
    for (int i = 0; !st && i < num_dims; i++)
        dims[i] = e.shape.dims[i];
    mr_capi_set_status(status, st);
}

TF_Tensor *TF_CheckpointReaderGetTensor(TF_CheckpointReader *reader, const char *name, TF_Status *status)
{
    mr_tensor *t = NULL;
    mr_status *st = reader && name ? mr_bundle_read(reader->b, mr_sv_of(name), NULL, &t) : mr_invalid("There is no reader, or no name");
    mr_capi_set_status(status, st);
    return mr_capi_tensor_new(t);
}
