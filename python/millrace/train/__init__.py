"""tf.train: optimizers, savers, sessions that are watched over, queues of input, and clusters.

Each part is a module of its own, imported when one of its names is first asked for.
"""

from .. import lazy as _lazy

_WHERE = {
    ".protos": "BytesList CheckpointState ClusterDef Example Feature FeatureList FeatureLists Features FloatList Int64List "
    "JobDef "
              "SaverDef SequenceExample ServerDef",
    "optimizer": "Optimizer",
    "optimizers": "AdadeltaOptimizer AdagradDAOptimizer AdagradOptimizer AdamOptimizer FtrlOptimizer GradientDescentOptimizer "
                  "MomentumOptimizer ProximalAdagradOptimizer ProximalGradientDescentOptimizer RMSPropOptimizer",
    "learning_rate": "cosine_decay cosine_decay_restarts exponential_decay inverse_time_decay linear_cosine_decay "
                     "natural_exp_decay noisy_linear_cosine_decay piecewise_constant piecewise_constant_decay polynomial_decay",
    "steps": "assert_global_step create_global_step get_global_step get_or_create_global_step global_step write_graph",
    "checkpoints": "NewCheckpointReader VocabInfo checkpoint_exists checkpoints_iterator generate_checkpoint_state_proto "
                   "get_checkpoint_mtimes get_checkpoint_state init_from_checkpoint latest_checkpoint list_variables "
                   "load_checkpoint load_variable meta_graph_filename remove_checkpoint update_checkpoint_state warm_start",
    "saver": "BaseSaverBuilder BulkSaverBuilder Saver",
    "saveable": "SaveableObject",
    ".summary.old": "SummaryWriter",
    ".summary.writer": "summary_iterator",
    "coordinator": "Coordinator LooperThread",
    "queue_runner": "QueueRunner add_queue_runner start_queue_runners",
    "input": "batch batch_join input_producer limit_epochs match_filenames_once maybe_batch maybe_batch_join "
    "maybe_shuffle_batch "
             "maybe_shuffle_batch_join range_input_producer shuffle_batch shuffle_batch_join slice_input_producer "
             "string_input_producer",
    "server": "ClusterSpec Server",
    "device_setter": "replica_device_setter",
    "session_manager": "SessionManager",
    "hooks": "CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook LoggingTensorHook "
             "NanLossDuringTrainingError NanTensorHook NeverTriggerTimer ProfilerHook SecondOrStepTimer SessionRunArgs "
             "SessionRunContext SessionRunHook SessionRunValues StepCounterHook StopAtStepHook SummarySaverHook",
    "monitored_session": "ChiefSessionCreator MonitoredSession MonitoredTrainingSession Scaffold SessionCreator "
                         "SingularMonitoredSession WorkerSessionCreator",
    "supervisor": "Supervisor basic_train_loop",
    "sync_replicas": "SyncReplicasOptimizer SyncReplicasOptimizerV2",
    ".framework.meta_graph": "export_meta_graph import_meta_graph",
    "moving_averages": "ExponentialMovingAverage",
}
_TABLE = {name: module for module, names in _WHERE.items() for name in names.split()}
__getattr__ = _lazy.attributes(__name__, _TABLE)


def __dir__():
    return sorted(set(globals()) | set(_TABLE))
