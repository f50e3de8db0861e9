/* ops/io/restore_v1.h -- a tensor of a checkpoint of the first format as an output; RestoreV2 reads them too. */
#ifndef MR_OPS_IO_RESTORE_V1_H
#define MR_OPS_IO_RESTORE_V1_H

#include "run/run.h"
#include "store/checkpoint_v1.h"

/* Output i is the tensor of that name, or the part that spec ("10 20 0,5:-") says. */
mr_status *mr_restore_v1(mr_run *r, int i, mr_v1_reader *from, mr_sv name, mr_sv spec);

#endif
