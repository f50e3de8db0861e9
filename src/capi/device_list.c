/* capi/device_list.c -- TF_DeviceList: the devices of a session at the time of the call. */
#include "capi/internal.h"

struct TF_DeviceList {
    mr_device_info *d;
    int n;
};

TF_DeviceList *mr_capi_list_devices(mr_session *s, TF_Status *status)
{
    TF_DeviceList *l = mr_new(TF_DeviceList);
    mr_status *st =
        s ? s->ops->list_devices(s, &l->d, &l->n) : mr_invalid("session is NULL");
    mr_capi_set_status(status, st);
    if (!st)
        return l;
    mr_free(l);
    return NULL;
}

TF_DeviceList *TF_SessionListDevices(TF_Session *session, TF_Status *status)
{
    return mr_capi_list_devices(session ? session->session : NULL, status);
}

void TF_DeleteDeviceList(TF_DeviceList *list)
{
    if (!list)
        return;
    mr_device_infos_free(list->d, list->n);
    mr_free(list);
}

int TF_DeviceListCount(const TF_DeviceList *list) { return list ? list->n : 0; }

/* The device; if there is none, NULL with a status. */
static const mr_device_info *device_at(const TF_DeviceList *list, int index, TF_Status *status)
{
    mr_status *st = NULL;
    if (!list)
        st = mr_invalid("list is null!");
    else if (index < 0 || index >= list->n)
        st = mr_invalid("index out of bounds");
    mr_capi_set_status(status, st);
    return st ? NULL : &list->d[index];
}

const char *TF_DeviceListName(const TF_DeviceList *list, int index, TF_Status *status)
{
    const mr_device_info *d = device_at(list, index, status);
    return d ? d->name : NULL;
}

const char *TF_DeviceListType(const TF_DeviceList *list, int index, TF_Status *status)
{
    const mr_device_info *d = device_at(list, index, status);
    return d ? d->type : NULL;
}

int64_t TF_DeviceListMemoryBytes(const TF_DeviceList *list, int index, TF_Status *status)
{
    const mr_device_info *d = device_at(list, index, status);
    return d ? d->memory_limit : -1;
}

uint64_t TF_DeviceListIncarnation(const TF_DeviceList *list, int index, TF_Status *status)
{
    const mr_device_info *d = device_at(list, index, status);
    return d ? d->incarnation : 0;
}
