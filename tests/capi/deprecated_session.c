/* tests/capi/deprecated_session.c -- the oldest form: GraphDefs and names, no TF_Graph in sight. */
#include "client.h"

static void extend(TF_DeprecatedSession *d, TF_Graph *g, TF_Status *s)
{
    TF_Buffer *def = TF_NewBuffer();
    TF_GraphToGraphDef(g, def, s);
    CHECK_OK(s);
    TF_ExtendGraph(d, def->data, def->length, s);
    CHECK_OK(s);
    TF_DeleteBuffer(def);
}

/* node { name: "z" op: "Neg" input: "y" attr { key: "T" value { type: DT_FLOAT } } }: refers to
 * what the session has already. */
static const char more[] = "\n\x14\n\x01z\x12\x03Neg\x1a\x01y*\x07\n\x01T\x12\x02\x30\x01"
                           "\"\x03\x08\xbf\x08";

int main(void)
{
    TF_Status *s = TF_NewStatus();
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_DeprecatedSession *d = TF_NewDeprecatedSession(o, s);
    CHECK_OK(s);
    TF_DeleteSessionOptions(o);
    TF_Graph *g = TF_NewGraph();
    TF_Output x = placeholder(g, TF_FLOAT, "x", s);
    binary(g, "Mul", x, constant(g, float_of(2), "two", s), "y", s);
    extend(d, g, s);
    TF_DeleteGraph(g);

    const char *feed[] = {"x:0"}, *fetch[] = {"y"}, *fetch_z[] = {"z:0"}, *gone[] = {"gone:0"};
    TF_Tensor *in = float_of(4), *out = NULL;
    TF_Run(d, NULL, feed, &in, 1, fetch, &out, 1, NULL, 0, NULL, s);
    CHECK_OK(s);
    CHECK_NEAR(take_float(out), 8);
    TF_ExtendGraph(d, more, sizeof more - 1, s);
    CHECK_OK(s);
    const char *target[] = {"y"};
    TF_Run(d, NULL, feed, &in, 1, fetch_z, &out, 1, target, 1, NULL, s);
    CHECK_OK(s);
    CHECK_NEAR(take_float(out), -8);
    TF_Run(d, NULL, feed, &in, 1, gone, &out, 1, NULL, 0, NULL, s);
    CHECK(TF_GetCode(s) == TF_NOT_FOUND && !out);

    const char *handle = NULL;
    TF_PRunSetup(d, feed, 1, fetch, 1, NULL, 0, &handle, s);
    CHECK_OK(s);
    TF_PRun(d, handle, feed, &in, 1, fetch, &out, 1, NULL, 0, s);
    CHECK_OK(s);
    CHECK_NEAR(take_float(out), 8);
    TF_DeletePRunHandle(handle);

    TF_DeviceList *l = TF_DeprecatedSessionListDevices(d, s);
    CHECK_OK(s);
    CHECK(TF_DeviceListCount(l) >= 1 && strcmp(TF_DeviceListType(l, 0, s), "CPU") == 0);
    TF_DeleteDeviceList(l);
    TF_DeleteTensor(in);
    TF_CloseDeprecatedSession(d, s);
    CHECK_OK(s);
    TF_DeleteDeprecatedSession(d, s);
    CHECK_OK(s);
    TF_DeleteStatus(s);
    return 0;
}
