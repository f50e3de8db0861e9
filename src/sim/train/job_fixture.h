/* sim/train/job_fixture.h -- runs jobs in tests. */
#ifndef MR_SIM_TRAIN_JOB_FIXTURE_H
#define MR_SIM_TRAIN_JOB_FIXTURE_H

#include "sim/train/train.h"

/* The job must run; free the result with mr_simtrain_result_deinit. */
mr_simtrain_result mr_simtrain_must_run(const mr_simtrain_job *j);
/* The printed result must contain this text. */
void mr_simtrain_must_print(const mr_simtrain_job *j, const mr_simtrain_result *r, const char *text);

#endif
