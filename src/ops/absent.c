/* ops/absent.c -- ops of TensorFlow that have no kernel here. Graphs that contain them can be imported, inspected
 * and changed; running one gives UNIMPLEMENTED with the name of the op.
 *
 * To implement an op, remove its entry from this file. */
#include "ops/absent.h"

#include "graph/infer.h"

static mr_status *report_absent(mr_run *r)
{
    return mr_error(MR_UNIMPLEMENTED, "%s is not implemented", r->node->def->name);
}

bool mr_op_absent(const mr_op_def *d) { return d->op && d->op->kernels && d->op->kernels[0].run == report_absent; }

#define ABSENT                                              \
    .doc = "not implemented", .shape = mr_shape_unknown, \
    .kernels = MR_KERNELS({"CPU", 0, report_absent, .priority = MR_STAND_IN}, )

MR_OP(AllToAll,
    .sig = "input: T, group_assignment: int32 -> output: T",
    .attrs = "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
        "bfloat16, uint16, complex128, half, uint32, uint64, bool}; concat_dimension: int; "
        "split_dimension: int; split_count: int",
    ABSENT);

MR_OP(ApproxTopK,
    .sig = "input: T -> values: T, indices: int32",
    .attrs = "k: int >= 0; reduction_dimension: int = -1; recall_target: float = 0.95; "
        "is_max_k: bool = true; reduction_input_size_override: int = -1; "
        "aggregate_to_topk: bool = true; T: {half, bfloat16, float}",
    ABSENT);

MR_OP(AssertNextDataset,
    .sig = "input_dataset: variant, transformations: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(AssertPrevDataset,
    .sig = "input_dataset: variant, transformations: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(AutoShardDataset,
    .sig = "input_dataset: variant, num_workers: int64, index: int64 -> handle: variant",
    .attrs = "auto_shard_policy: int = 0; output_types: list(type) >= 1; "
        "output_shapes: list(shape) >= 1; num_replicas: int = 0",
    ABSENT);

MR_OP(BytesProducedStatsDataset,
    .sig = "input_dataset: variant, tag: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(CheckNumericsV2,
    .sig = "tensor: T -> output: T",
    .attrs = "T: {bfloat16, half, float, double}; message: string",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(ChooseFastestBranchDataset,
    .sig = "input_dataset: variant, ratio_numerator: int64, ratio_denominator: int64, "
        "other_arguments: Targuments -> handle: variant",
    .attrs = "Targuments: list(type) >= 0; num_elements_per_branch: int >= 1; "
        "branches: list(func) >= 1; other_arguments_lengths: list(int) >= 1; "
        "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(ChooseFastestDataset,
    .sig = "input_datasets: N * variant -> handle: variant",
    .attrs = "N: int >= 2; num_experiments: int; output_types: list(type) >= 1; "
        "output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(CompressElement,
    .sig = "components: input_types -> compressed: variant",
    .attrs = "input_types: list(type) >= 1",
    ABSENT);

MR_OP(ComputeBatchSize,
    .sig = "input_dataset: variant -> batch_size: int64",
    ABSENT);

MR_OP(CreateSummaryDbWriter,
    .sig = "writer: resource, db_uri: string, experiment_name: string, run_name: string, "
        "user_name: string ->",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(CrossReplicaSum,
    .sig = "input: T, group_assignment: int32 -> output: T",
    .attrs = "T: {half, bfloat16, float, double, int32, uint32}",
    ABSENT);

MR_OP(DebugIdentityV3,
    .sig = "input: T -> output: T",
    .attrs = "T: type; device_name: string = ''; tensor_name: string = ''; io_of_node: string = ''; "
        "is_input: bool = false; io_index: int = -1; debug_urls: list(string) = []; "
        "gated_grpc: bool = false",
    .flags = MR_STATEFUL | MR_UNINIT_OK,
    ABSENT);

MR_OP(DebugNumericSummaryV2,
    .sig = "input: T -> output: output_dtype",
    .attrs = "output_dtype: {float, double} = DT_FLOAT; T: type; tensor_debug_mode: int = -1; "
        "tensor_id: int = -1",
    ABSENT);

MR_OP(DistributedSave,
    .sig = "dataset: variant, directory: string, address: string ->",
    .attrs = "metadata: string = ''",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(FFTND,
    .sig = "input: Tcomplex, fft_length: int32, axes: int32 -> output: Tcomplex",
    .attrs = "Tcomplex: {complex64, complex128} = DT_COMPLEX64",
    ABSENT);

MR_OP(FileSystemSetConfiguration,
    .sig = "scheme: string, key: string, value: string ->",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(FilterByLastComponentDataset,
    .sig = "input_dataset: variant -> output: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(GetElementAtIndex,
    .sig = "dataset: variant, index: int64 -> components: output_types",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(GlobalShuffleDataset,
    .sig = "input_dataset: variant, seed: int64, seed2: int64, "
        "seed_generator: resource -> handle: variant",
    .attrs = "reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; "
        "output_shapes: list(shape) >= 1; metadata: string = ''",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(IFFTND,
    .sig = "input: Tcomplex, fft_length: int32, axes: int32 -> output: Tcomplex",
    .attrs = "Tcomplex: {complex64, complex128} = DT_COMPLEX64",
    ABSENT);

MR_OP(IRFFTND,
    .sig = "input: Tcomplex, fft_length: int32, axes: int32 -> output: Treal",
    .attrs = "Treal: {float, double} = DT_FLOAT; Tcomplex: {complex64, complex128} = DT_COMPLEX64",
    ABSENT);

MR_OP(IndexFlatMapDataset,
    .sig = "input_dataset: variant, map_func_other_args: Tmap_func_args, "
        "index_map_func_other_args: Tindex_map_func_args, "
        "output_cardinality: int64 -> handle: variant",
    .attrs = "map_func: func; index_map_func: func; Tmap_func_args: list(type) >= 0; "
        "Tindex_map_func_args: list(type) >= 0; output_types: list(type) >= 1; "
        "output_shapes: list(shape) >= 1; metadata: string = ''",
    ABSENT);

MR_OP(IsotonicRegression,
    .sig = "input: T -> output: output_dtype, segments: int32",
    .attrs = "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
        "uint64}; output_dtype: {half, bfloat16, float, double} = DT_FLOAT",
    ABSENT);

MR_OP(KMC2ChainInitialization,
    .sig = "distances: float, seed: int64 -> index: int64",
    ABSENT);

MR_OP(KmeansPlusPlusInitialization,
    .sig = "points: float, num_to_sample: int64, seed: int64, "
        "num_retries_per_sample: int64 -> samples: float",
    ABSENT);

MR_OP(KthOrderStatistic,
    .sig = "input: float -> output: float",
    .attrs = "k: int",
    ABSENT);

MR_OP(LatencyStatsDataset,
    .sig = "input_dataset: variant, tag: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(LegacyParallelInterleaveDatasetV2,
    .sig = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, "
        "block_length: int64, buffer_output_elements: int64, "
        "prefetch_input_elements: int64 -> handle: variant",
    .attrs = "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; "
        "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    ABSENT);

MR_OP(ListDataset,
    .sig = "tensors: Tinput_types -> handle: variant",
    .attrs = "Tinput_types: list(type) >= 1; output_types: list(type) >= 1; "
        "output_shapes: list(shape) >= 1; metadata: string = ''",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(ListSnapshotChunksDataset,
    .sig = "snapshot_path: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(NearestNeighbors,
    .sig = "points: float, centers: float, k: int64 -> nearest_center_indices: int64, "
        "nearest_center_distances: float",
    ABSENT);

MR_OP(NegTrain,
    .sig = "w_in: Ref(float), w_out: Ref(float), examples: int32, labels: int32, lr: float ->",
    .attrs = "vocab_count: list(int); num_negative_samples: int",
    .flags = MR_STATEFUL,
    .deprecated = 19,
    ABSENT);

MR_OP(NonSerializableDataset,
    .sig = "input_dataset: variant -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(QuantizeDownAndShrinkRange,
    .sig = "input: Tinput, input_min: float, input_max: float -> output: out_type, output_min: float, "
        "output_max: float",
    .attrs = "Tinput: {qint8, quint8, qint32, qint16, quint16}; out_type: {qint8, quint8, qint32, "
        "qint16, quint16}",
    ABSENT);

MR_OP(QuantizedAdd,
    .sig = "x: T1, y: T2, min_x: float, max_x: float, min_y: float, max_y: float -> z: Toutput, "
        "min_z: float, max_z: float",
    .attrs = "T1: {qint8, quint8, qint32, qint16, quint16}; T2: {qint8, quint8, qint32, qint16, "
        "quint16}; Toutput: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32",
    ABSENT);

MR_OP(QuantizedAvgPool,
    .sig = "input: T, min_input: float, max_input: float -> output: T, min_output: float, "
        "max_output: float",
    .attrs = "T: {qint8, quint8, qint32, qint16, quint16}; ksize: list(int); strides: list(int); "
        "padding: {'SAME', 'VALID'}",
    ABSENT);

MR_OP(QuantizedBatchNormWithGlobalNormalization,
    .sig = "t: Tinput, t_min: float, t_max: float, m: Tinput, m_min: float, m_max: float, v: Tinput, "
        "v_min: float, v_max: float, beta: Tinput, beta_min: float, beta_max: float, "
        "gamma: Tinput, gamma_min: float, gamma_max: float -> result: out_type, result_min: float, "
        "result_max: float",
    .attrs = "Tinput: {qint8, quint8, qint32, qint16, quint16}; out_type: {qint8, quint8, qint32, "
        "qint16, quint16}; variance_epsilon: float; scale_after_normalization: bool",
    ABSENT);

MR_OP(QuantizedBiasAdd,
    .sig = "input: T1, bias: T2, min_input: float, max_input: float, min_bias: float, "
        "max_bias: float -> output: out_type, min_out: float, max_out: float",
    .attrs = "T1: {qint8, quint8, qint32, qint16, quint16}; T2: {qint8, quint8, qint32, qint16, "
        "quint16}; out_type: {qint8, quint8, qint32, qint16, quint16}",
    ABSENT);

MR_OP(QuantizedConcat,
    .sig = "concat_dim: int32, values: N * T, input_mins: N * float, "
        "input_maxes: N * float -> output: T, output_min: float, output_max: float",
    .attrs = "N: int >= 2; T: type",
    ABSENT);

MR_OP(QuantizedConv2D,
    .sig = "input: Tinput, filter: Tfilter, min_input: float, max_input: float, min_filter: float, "
        "max_filter: float -> output: out_type, min_output: float, max_output: float",
    .attrs = "Tinput: {qint8, quint8, qint32, qint16, quint16}; Tfilter: {qint8, quint8, qint32, "
        "qint16, quint16}; out_type: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32; "
        "strides: list(int); padding: {'SAME', 'VALID'}; dilations: list(int) = [1, 1, 1, 1]",
    ABSENT);

MR_OP(QuantizedDepthwiseConv2D,
    .sig = "input: Tinput, filter: Tfilter, min_input: float, max_input: float, min_filter: float, "
        "max_filter: float -> output: out_type, min_output: float, max_output: float",
    .attrs = "Tinput: {qint8, quint8, qint32, qint16, quint16}; Tfilter: {qint8, quint8, qint32, "
        "qint16, quint16}; out_type: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32; "
        "strides: list(int); padding: {'SAME', 'VALID'}; dilations: list(int) = [1, 1, 1, 1]",
    ABSENT);

MR_OP(QuantizedInstanceNorm,
    .sig = "x: T, x_min: float, x_max: float -> y: T, y_min: float, y_max: float",
    .attrs = "T: {qint8, quint8, qint32, qint16, quint16}; output_range_given: bool = false; "
        "given_y_min: float = 0; given_y_max: float = 0; variance_epsilon: float = 1e-05; "
        "min_separation: float = 0.001",
    ABSENT);

MR_OP(QuantizedMatMul,
    .sig = "a: T1, b: T2, min_a: float, max_a: float, min_b: float, max_b: float -> out: Toutput, "
        "min_out: float, max_out: float",
    .attrs = "T1: {qint8, quint8, qint32, qint16, quint16}; T2: {qint8, quint8, qint32, qint16, "
        "quint16}; Toutput: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32; "
        "transpose_a: bool = false; transpose_b: bool = false; Tactivation: {qint8, quint8, "
        "qint32, qint16, quint16} = DT_QUINT8",
    ABSENT);

MR_OP(QuantizedMatMulWithBias,
    .sig = "a: T1, b: T2, bias: Tbias, min_a: float, max_a: float, min_b: float, "
        "max_b: float -> out: Toutput, min_out: float, max_out: float",
    .attrs = "T1: {qint8, quint8, qint32, qint16, quint16}; T2: {qint8, quint8, qint32, qint16, "
        "quint16}; Tbias: {float, qint32}; Toutput: {qint8, quint8, qint32, qint16, "
        "quint16} = DT_QINT32; transpose_a: bool = false; transpose_b: bool = false; "
        "input_quant_mode: {'MIN_FIRST', 'SCALED'} = 'MIN_FIRST'",
    ABSENT);

MR_OP(QuantizedMaxPool,
    .sig = "input: T, min_input: float, max_input: float -> output: T, min_output: float, "
        "max_output: float",
    .attrs = "T: {qint8, quint8, qint32, qint16, quint16}; ksize: list(int); strides: list(int); "
        "padding: {'SAME', 'VALID'}",
    ABSENT);

MR_OP(QuantizedMul,
    .sig = "x: T1, y: T2, min_x: float, max_x: float, min_y: float, max_y: float -> z: Toutput, "
        "min_z: float, max_z: float",
    .attrs = "T1: {qint8, quint8, qint32, qint16, quint16}; T2: {qint8, quint8, qint32, qint16, "
        "quint16}; Toutput: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32",
    ABSENT);

MR_OP(QuantizedRelu,
    .sig = "features: Tinput, min_features: float, max_features: float -> activations: out_type, "
        "min_activations: float, max_activations: float",
    .attrs = "Tinput: {qint8, quint8, qint32, qint16, quint16}; out_type: {qint8, quint8, qint32, "
        "qint16, quint16} = DT_QUINT8",
    ABSENT);

MR_OP(QuantizedRelu6,
    .sig = "features: Tinput, min_features: float, max_features: float -> activations: out_type, "
        "min_activations: float, max_activations: float",
    .attrs = "Tinput: {qint8, quint8, qint32, qint16, quint16}; out_type: {qint8, quint8, qint32, "
        "qint16, quint16} = DT_QUINT8",
    ABSENT);

MR_OP(QuantizedReluX,
    .sig = "features: Tinput, max_value: float, min_features: float, "
        "max_features: float -> activations: out_type, min_activations: float, "
        "max_activations: float",
    .attrs = "Tinput: {qint8, quint8, qint32, qint16, quint16}; out_type: {qint8, quint8, qint32, "
        "qint16, quint16} = DT_QUINT8",
    ABSENT);

MR_OP(QuantizedReshape,
    .sig = "tensor: T, shape: Tshape, input_min: float, input_max: float -> output: T, "
        "output_min: float, output_max: float",
    .attrs = "T: type; Tshape: {int32, int64} = DT_INT32",
    ABSENT);

MR_OP(QuantizedResizeBilinear,
    .sig = "images: T, size: int32, min: float, max: float -> resized_images: T, out_min: float, "
        "out_max: float",
    .attrs = "T: {quint8, qint32, float}; align_corners: bool = false; half_pixel_centers: bool = false",
    ABSENT);

MR_OP(RFFTND,
    .sig = "input: Treal, fft_length: int32, axes: int32 -> output: Tcomplex",
    .attrs = "Treal: {float, double} = DT_FLOAT; Tcomplex: {complex64, complex128} = DT_COMPLEX64",
    ABSENT);

MR_OP(RebatchDataset,
    .sig = "input_dataset: variant, num_replicas: int64 -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; use_fallback: bool = true",
    ABSENT);

MR_OP(RebatchDatasetV2,
    .sig = "input_dataset: variant, batch_sizes: int64, drop_remainder: bool -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(Recv,
    .sig = "-> tensor: tensor_type",
    .attrs = "tensor_type: type; tensor_name: string; send_device: string; "
        "send_device_incarnation: int; recv_device: string; client_terminated: bool = false",
    .flags = MR_STATEFUL | MR_DISTCOMM,
    ABSENT);

MR_OP(RequantizationRange,
    .sig = "input: Tinput, input_min: float, input_max: float -> output_min: float, output_max: float",
    .attrs = "Tinput: {qint8, quint8, qint32, qint16, quint16}",
    ABSENT);

MR_OP(RequantizationRangePerChannel,
    .sig = "input: T, input_min: float, input_max: float -> output_min: float, output_max: float",
    .attrs = "T: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32; clip_value_max: float",
    ABSENT);

MR_OP(Requantize,
    .sig = "input: Tinput, input_min: float, input_max: float, requested_output_min: float, "
        "requested_output_max: float -> output: out_type, output_min: float, output_max: float",
    .attrs = "Tinput: {qint8, quint8, qint32, qint16, quint16}; out_type: {qint8, quint8, qint32, "
        "qint16, quint16}",
    ABSENT);

MR_OP(RequantizePerChannel,
    .sig = "input: T, input_min: float, input_max: float, requested_output_min: float, "
        "requested_output_max: float -> output: out_type, output_min: float, output_max: float",
    .attrs = "T: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32; out_type: {qint8, quint8, "
        "qint32, qint16, quint16} = DT_QUINT8",
    ABSENT);

MR_OP(RewriteDataset,
    .sig = "input_dataset: variant, rewrite_name: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(Rpc,
    .sig = "address: string, method: string, request: string -> response: string",
    .attrs = "protocol: string = ''; fail_fast: bool = true; timeout_in_ms: int = 0",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(SdcaFprint,
    .sig = "input: string -> output: int64",
    ABSENT);

MR_OP(SdcaOptimizer,
    .sig = "sparse_example_indices: num_sparse_features * int64, "
        "sparse_feature_indices: num_sparse_features * int64, "
        "sparse_feature_values: num_sparse_features_with_values * float, "
        "dense_features: num_dense_features * float, example_weights: float, "
        "example_labels: float, sparse_indices: num_sparse_features * int64, "
        "sparse_weights: num_sparse_features * float, dense_weights: num_dense_features * float, "
        "example_state_data: float -> out_example_state_data: float, "
        "out_delta_sparse_weights: num_sparse_features * float, "
        "out_delta_dense_weights: num_dense_features * float",
    .attrs = "loss_type: {'logistic_loss', 'squared_loss', 'hinge_loss', 'smooth_hinge_loss', "
        "'poisson_loss'}; adaptative: bool = false; num_sparse_features: int >= 0; "
        "num_sparse_features_with_values: int >= 0; num_dense_features: int >= 0; l1: float; "
        "l2: float; num_loss_partitions: int >= 1; num_inner_iterations: int >= 1",
    ABSENT);

MR_OP(SdcaOptimizerV2,
    .sig = "sparse_example_indices: num_sparse_features * int64, "
        "sparse_feature_indices: num_sparse_features * int64, "
        "sparse_feature_values: num_sparse_features_with_values * float, "
        "dense_features: num_dense_features * float, example_weights: float, "
        "example_labels: float, sparse_indices: num_sparse_features * int64, "
        "sparse_weights: num_sparse_features * float, dense_weights: num_dense_features * float, "
        "example_state_data: float -> out_example_state_data: float, "
        "out_delta_sparse_weights: num_sparse_features * float, "
        "out_delta_dense_weights: num_dense_features * float",
    .attrs = "loss_type: {'logistic_loss', 'squared_loss', 'hinge_loss', 'smooth_hinge_loss', "
        "'poisson_loss'}; adaptive: bool = false; num_sparse_features: int >= 0; "
        "num_sparse_features_with_values: int >= 0; num_dense_features: int >= 0; l1: float; "
        "l2: float; num_loss_partitions: int >= 1; num_inner_iterations: int >= 1",
    ABSENT);

MR_OP(SdcaShrinkL1,
    .sig = "weights: Ref(num_features * float) ->",
    .attrs = "num_features: int >= 0; l1: float; l2: float",
    ABSENT);

MR_OP(Send,
    .sig = "tensor: T ->",
    .attrs = "T: type; tensor_name: string; send_device: string; send_device_incarnation: int; "
        "recv_device: string; client_terminated: bool = false",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(SetStatsAggregatorDataset,
    .sig = "input_dataset: variant, stats_aggregator: resource, tag: string, "
        "counter_prefix: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(SnapshotChunkDataset,
    .sig = "chunk_file: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; compression: string = ''",
    ABSENT);

MR_OP(SnapshotDataset,
    .sig = "input_dataset: variant, path: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; compression: string = ''; "
        "reader_path_prefix: string = ''; writer_path_prefix: string = ''; "
        "shard_size_bytes: int = 10737418240; pending_snapshot_expiry_seconds: int = 86400; "
        "num_reader_threads: int = 1; reader_buffer_size: int = 1; num_writer_threads: int = 1; "
        "writer_buffer_size: int = 1; shuffle_on_read: bool = false; seed: int = 0; "
        "seed2: int = 0; mode: string = 'auto'; snapshot_name: string = ''",
    ABSENT);

MR_OP(SnapshotDatasetReader,
    .sig = "shard_dir: string, start_index: int64 -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; compression: string = ''; "
        "version: int",
    ABSENT);

MR_OP(SnapshotDatasetV2,
    .sig = "input_dataset: variant, path: string, reader_func_other_args: Treader_func_args, "
        "shard_func_other_args: Tshard_func_args -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; compression: string = ''; "
        "reader_prefix: string = ''; writer_prefix: string = ''; hash_valid: bool = false; "
        "hash: int = 0; reader_func: func; shard_func: func; Treader_func_args: list(type) >= 0; "
        "Tshard_func_args: list(type) >= 0; metadata: string = ''",
    ABSENT);

MR_OP(SnapshotNestedDatasetReader,
    .sig = "inputs: N * variant -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1",
    ABSENT);

MR_OP(SobolSample,
    .sig = "dim: int32, num_results: int32, skip: int32 -> samples: dtype",
    .attrs = "dtype: {float, double} = DT_FLOAT",
    ABSENT);

MR_OP(SqlDataset,
    .sig = "driver_name: string, data_source_name: string, query: string -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(StatsAggregatorHandle,
    .sig = "-> handle: resource",
    .attrs = "container: string = ''; shared_name: string = ''",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(StatsAggregatorHandleV2,
    .sig = "-> handle: resource",
    .attrs = "container: string = ''; shared_name: string = ''",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(StatsAggregatorSetSummaryWriter,
    .sig = "stats_aggregator: resource, summary: resource ->",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(StatsAggregatorSummary,
    .sig = "iterator: resource -> summary: string",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(StochasticCastToInt,
    .sig = "input: Tin, key: uint64, counter: uint64, alg: int32 -> output: Tout",
    .attrs = "Tin: {half, bfloat16, float, double}; Tout: {int8, int16, int32}",
    ABSENT);

MR_OP(SyncDevice,
    .sig = "->",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(ThreadPoolDataset,
    .sig = "input_dataset: variant, thread_pool: resource -> handle: variant",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(ThreadPoolHandle,
    .sig = "-> handle: resource",
    .attrs = "num_threads: int; max_intra_op_parallelism: int = 1; display_name: string; "
        "container: string = ''; shared_name: string = ''",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(TopKUnique,
    .sig = "input: float -> topk: float, topk_indices: int32",
    .attrs = "k: int",
    ABSENT);

MR_OP(TopKWithUnique,
    .sig = "input: float -> topk: float, topk_indices: int32",
    .attrs = "k: int",
    ABSENT);

MR_OP(TryRpc,
    .sig = "address: string, method: string, request: string -> response: string, status_code: int32, "
        "status_message: string",
    .attrs = "protocol: string = ''; fail_fast: bool = true; timeout_in_ms: int = 0",
    .flags = MR_STATEFUL,
    ABSENT);

MR_OP(UncompressElement,
    .sig = "compressed: variant -> components: output_types",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ABSENT);

MR_OP(WeightedFlatMapDataset,
    .sig = "input_datasets: N * variant, weights: M * double -> handle: variant",
    .attrs = "N: int >= 2; M: int >= 2; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
        "metadata: string = ''",
    ABSENT);

MR_OP(WorkerHeartbeat,
    .sig = "request: string -> response: string",
    .flags = MR_STATEFUL,
    ABSENT);
