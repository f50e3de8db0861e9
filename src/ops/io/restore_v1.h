/* ops/io/restore_v1.h -- restores a tensor of a checkpoint of the first format; RestoreV2 uses it too. */
#ifndef MR_OPS_IO_RESTORE_V1_H
#define MR_OPS_IO_RESTORE_V1_H

#include "run/run.h"
#include "store/checkpoint_v1.h"

/* Sets output i to the tensor of that name, or to the part that spec ("10 20 0,5:-") selects. */
mr_status *mr_restore_v1(mr_run *r, int i, mr_v1_reader *from, mr_sv name, mr_sv spec);

#endif
