/* sim/train/calibration.h -- a published cluster as simulated jobs.
 *
 * The figures of "TensorFlow: A System for Large-Scale Machine Learning" (OSDI 2016, section 6) were measured on a
 * cluster we do not have. These few numbers make the simulator behave like it; tests/sim/calibrate.c fits them to the
 * ends of each published curve, and docs/sim-calibration.md shows how well the points between them match. */
#ifndef MR_SIM_TRAIN_CALIBRATION_H
#define MR_SIM_TRAIN_CALIBRATION_H

#include "sim/train/train.h"

/* All fitted numbers. Everything else is the description of the experiment. */
typedef struct mr_simtrain_calibration {
    double rpc_s;          /* round trip of a call; also the mean of the random addition to each */
    double token_s;        /* the chief's time to give one worker its token */
    double compute_s;      /* of Inception-v3, 32 images forward and backward */
    double tail_s;         /* mean of the random addition to it */
    double ps_bytes_per_s; /* of a parameter server, sent and received together */
} mr_simtrain_calibration;

extern const mr_simtrain_calibration mr_simtrain_osdi16;

/* A job and the chunks it points to; it must not be copied. */
typedef struct mr_simtrain_experiment {
    mr_simtrain_job job;
    mr_simtrain_chunk chunks[16];
} mr_simtrain_experiment;

/* Figure 6, "scalar": every worker reads one value from each of 16 parameter servers and writes it back, in step. */
void mr_simtrain_null_step(const mr_simtrain_calibration *c, int workers, mr_simtrain_experiment *out);
/* Figures 7 and 8: Inception-v3 on 17 parameter servers. */
void mr_simtrain_inception(const mr_simtrain_calibration *c, mr_simtrain_mode mode, int workers, int backup,
                           mr_simtrain_experiment *out);

/* The published results; each figure is one point. */
typedef enum mr_simtrain_curve {
    MR_SIMTRAIN_NULL_STEP,       /* x: workers; milliseconds, median */
    MR_SIMTRAIN_INCEPTION_ASYNC, /* x: workers; images a second */
    MR_SIMTRAIN_INCEPTION_SYNC,
    MR_SIMTRAIN_INCEPTION_BACKUP, /* x: backups of 50 workers; seconds, median */
} mr_simtrain_curve;

typedef struct mr_simtrain_figure {
    mr_simtrain_curve kind;
    const char *curve;
    int x;
    double published;
    bool is_end; /* an end of its curve: used by the fit */
} mr_simtrain_figure;

extern const mr_simtrain_figure mr_simtrain_osdi16_figures[];
extern const int mr_simtrain_n_figures;

/* Computes the same number with the simulator. */
mr_status *mr_simtrain_figure_run(const mr_simtrain_calibration *c, const mr_simtrain_figure *f, double *out);

#endif
