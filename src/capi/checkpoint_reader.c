/* capi/checkpoint_reader.c -- TF_CheckpointReader: a checkpoint of either format, looked at without a graph. */
#include "capi/internal.h"
#include "store/checkpoint.h"
#include "tensorflow/c/c_api_experimental.h"

struct TF_CheckpointReader {
    mr_checkpoint *c;
    char **names; /* as strings of C, which clients get */
    int n;
};

TF_CheckpointReader *TF_NewCheckpointReader(const char *filename, TF_Status *status)
{
    mr_checkpoint *c = NULL;
    mr_status *st = filename ? mr_checkpoint_open(filename, &c) : mr_invalid("filename is NULL");
    mr_capi_set_status(status, st);
    if (st)
        return NULL;
    TF_CheckpointReader *r = mr_new(TF_CheckpointReader);
    *r = (TF_CheckpointReader){c, mr_new_array(char *, mr_checkpoint_count(c) + 1), mr_checkpoint_count(c)};
    for (int i = 0; i < r->n; i++) {
        mr_sv name = mr_checkpoint_name(c, i);
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
    mr_checkpoint_close(reader->c);
    mr_free(reader);
}

static mr_status *look_up(TF_CheckpointReader *r, const char *name, mr_checkpoint_entry *e)
{
    return r && name ? mr_checkpoint_lookup(r->c, mr_sv_of(name), e) : mr_invalid("reader or name is NULL");
}

/* For functions without a status. */
static bool has_tensor(TF_CheckpointReader *r, const char *name, mr_checkpoint_entry *e)
{
    mr_status *st = look_up(r, name, e);
    mr_status_free(st);
    return !st;
}

int TF_CheckpointReaderHasTensor(TF_CheckpointReader *reader, const char *name)
{
    mr_checkpoint_entry e;
    return has_tensor(reader, name, &e);
}

const char *TF_CheckpointReaderGetVariable(TF_CheckpointReader *reader, int index)
{
    return reader && index >= 0 && index < reader->n ? reader->names[index] : NULL;
}

int TF_CheckpointReaderSize(TF_CheckpointReader *reader) { return reader ? reader->n : 0; }

TF_DataType TF_CheckpointReaderGetVariableDataType(TF_CheckpointReader *reader, const char *name)
{
    mr_checkpoint_entry e;
    return has_tensor(reader, name, &e) ? (TF_DataType)e.dtype : (TF_DataType)0;
}

int TF_CheckpointReaderGetVariableNumDims(TF_CheckpointReader *reader, const char *name)
{
    mr_checkpoint_entry e;
    return has_tensor(reader, name, &e) ? e.shape.rank : -1;
}

void TF_CheckpointReaderGetVariableShape(TF_CheckpointReader *reader, const char *name, int64_t *dims, int num_dims,
                                         TF_Status *status)
{
    mr_checkpoint_entry e;
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
    mr_status *st = reader && name ? mr_checkpoint_read(reader->c, mr_sv_of(name), NULL, &t)
                                   : mr_invalid("reader or name is NULL");
    mr_capi_set_status(status, st);
    return mr_capi_tensor_new(t);
}
