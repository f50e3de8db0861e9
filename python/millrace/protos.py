"""TensorFlow's protocol messages and enums by name: protos.GraphDef, protos.Summary.Value.

    node = protos.NodeDef(name="a", op="Const", attr={"dtype": {"type": protos.DT_INT32}})
    graph = protos.GraphDef.FromString(data)

They behave as those of the package google.protobuf, but there is no generated code: a class is
made, when it is first asked for, from what the library tells of the message (package
millrace.proto).  MODULES has the names that each of TensorFlow's *_pb2 modules has; a name may be
asked of this module when no two of them differ about it, and module_contents() knows them all.
"""
import types

from .proto import json_format, schema, text_format
from .proto.message import Message
from .proto.wire import DecodeError, EncodeError, Error

_IN_MODULES = {
    "core.example.example_parser_configuration_pb2":
        "VarLenFeatureProto FixedLenFeatureProto FeatureConfiguration ExampleParserConfiguration",
    "core.example.example_pb2": "Example SequenceExample",
    "core.example.feature_pb2":
        "BytesList FloatList Int64List Feature Features FeatureList FeatureLists",
    "core.framework.allocation_description_pb2": "AllocationDescription",
    "core.framework.api_def_pb2": "ApiDef ApiDefs",
    "core.framework.attr_value_pb2": "AttrValue NameAttrList",
    "core.framework.cost_graph_pb2": "CostGraphDef",
    "core.framework.device_attributes_pb2":
        "InterconnectLink LocalLinks DeviceLocality DeviceAttributes",
    "core.framework.full_type_pb2": "FullTypeDef FullTypeId",
    "core.framework.function_pb2": "FunctionDefLibrary FunctionDef GradientDef RegisteredGradient",
    "core.framework.graph_pb2": "GraphDef",
    "core.framework.kernel_def_pb2": "KernelDef KernelList",
    "core.framework.log_memory_pb2":
        "MemoryLogStep MemoryLogTensorAllocation MemoryLogTensorDeallocation "
        "MemoryLogTensorOutput MemoryLogRawAllocation MemoryLogRawDeallocation",
    "core.framework.node_def_pb2": "NodeDef",
    "core.framework.op_def_pb2": "OpDef OpDeprecation OpList",
    "core.framework.reader_base_pb2": "ReaderBaseState",
    "core.framework.resource_handle_pb2": "ResourceHandleProto",
    "core.framework.step_stats_pb2":
        "AllocationRecord AllocatorMemoryUsed NodeOutput MemoryStats NodeExecStats "
        "DeviceStepStats StepStats",
    "core.framework.summary_pb2":
        "SummaryDescription HistogramProto SummaryMetadata Summary DataClass",
    "core.framework.tensor_description_pb2": "TensorDescription",
    "core.framework.tensor_pb2": "TensorProto VariantTensorDataProto",
    "core.framework.tensor_shape_pb2": "TensorShapeProto",
    "core.framework.tensor_slice_pb2": "TensorSliceProto",
    "core.framework.types_pb2": "DataType",
    "core.framework.variable_pb2":
        "VariableDef SaveSliceInfoDef VariableSynchronization VariableAggregation",
    "core.framework.versions_pb2": "VersionDef",
    "core.protobuf.cluster_pb2": "JobDef ClusterDef",
    "core.protobuf.config_pb2":
        "GPUOptions OptimizerOptions GraphOptions ThreadPoolOptionProto RPCOptions "
        "SessionMetadata ConfigProto RunOptions RunMetadata TensorConnection CallableOptions",
    "core.protobuf.control_flow_pb2":
        "ValuesDef ControlFlowContextDef CondContextDef WhileContextDef",
    "core.protobuf.coordination_config_pb2": "CoordinationServiceConfig",
    "core.protobuf.critical_section_pb2": "CriticalSectionDef CriticalSectionExecutionDef",
    "core.protobuf.debug_pb2":
        "DebugTensorWatch DebugOptions DebuggedSourceFile DebuggedSourceFiles",
    "core.protobuf.device_filters_pb2": "TaskDeviceFilters JobDeviceFilters ClusterDeviceFilters",
    "core.protobuf.device_properties_pb2": "DeviceProperties NamedDevice",
    "core.protobuf.distributed_runtime_payloads_pb2":
        "GrpcPayloadContainer GrpcPayloadsLost WorkerPossiblyRestarted",
    "core.protobuf.error_codes_pb2": "Code",
    "core.protobuf.graph_debug_info_pb2": "GraphDebugInfo",
    "core.protobuf.master_pb2":
        "CreateSessionRequest CreateSessionResponse ExtendSessionRequest ExtendSessionResponse "
        "RunStepRequest RunStepResponse PartialRunSetupRequest PartialRunSetupResponse "
        "CloseSessionRequest CloseSessionResponse ResetRequest ResetResponse ListDevicesRequest "
        "ListDevicesResponse MakeCallableRequest MakeCallableResponse RunCallableRequest "
        "RunCallableResponse ReleaseCallableRequest ReleaseCallableResponse",
    "core.protobuf.meta_graph_pb2":
        "MetaGraphDef CollectionDef TensorInfo SignatureDef AssetFileDef",
    "core.protobuf.named_tensor_pb2": "NamedTensorProto",
    "core.protobuf.queue_runner_pb2": "QueueRunnerDef",
    "core.protobuf.rewriter_config_pb2":
        "AutoParallelOptions ScopedAllocatorOptions RewriterConfig",
    "core.protobuf.saved_model_pb2": "SavedModel",
    "core.protobuf.saved_object_graph_pb2":
        "SavedObjectGraph SavedObject SavedUserObject SavedAsset SavedFunction CapturedTensor "
        "SavedConcreteFunction SavedBareConcreteFunction SavedConstant SavedVariable FunctionSpec "
        "SavedResource SaveableObject",
    "core.protobuf.saver_pb2": "SaverDef",
    "core.protobuf.status_pb2": "DerivedStatus",
    "core.protobuf.struct_pb2":
        "StructuredValue NoneValue ListValue TupleValue DictValue PairValue NamedTupleValue "
        "TensorSpecProto BoundedTensorSpecProto TypeSpecProto",
    "core.protobuf.tensor_bundle_pb2": "BundleHeaderProto BundleEntryProto",
    "core.protobuf.tensorflow_server_pb2": "ServerDef",
    "core.protobuf.trackable_object_graph_pb2": "TrackableObjectGraph RegisteredSaver",
    "core.protobuf.transport_options_pb2": "RecvBufRespExtra",
    "core.protobuf.verifier_config_pb2": "VerifierConfig",
    "core.protobuf.worker_pb2":
        "GetStatusRequest GetStatusResponse CreateWorkerSessionRequest "
        "CreateWorkerSessionResponse DeleteWorkerSessionRequest DeleteWorkerSessionResponse "
        "RegisterGraphRequest RegisterGraphResponse DeregisterGraphRequest "
        "DeregisterGraphResponse CleanupAllRequest CleanupAllResponse ExecutorOpts "
        "RunGraphRequest RunGraphResponse CleanupGraphRequest CleanupGraphResponse "
        "RecvTensorRequest RecvTensorResponse MarkRecvFinishedRequest MarkRecvFinishedResponse "
        "LoggingRequest LabeledStepStats LoggingResponse TraceOpts TracingRequest TracingResponse "
        "RecvBufRequest RecvBufResponse CompleteGroupRequest CompleteGroupResponse "
        "CompleteInstanceRequest CompleteInstanceResponse GetStepSequenceRequest StepSequence "
        "GetStepSequenceResponse",
    "core.util.event_pb2":
        "Event LogMessage SessionLog TaggedRunMetadata WatchdogConfig RequestedExitCode "
        "WorkerHeartbeatRequest WorkerHeartbeatResponse WorkerHealth WorkerShutdownMode",
    "core.util.saved_tensor_slice_pb2":
        "SavedSliceMeta SavedTensorSliceMeta SavedSlice SavedTensorSlices",
    "python.training.checkpoint_state_pb2": "CheckpointState",
}

# As messages know them, where that is not the name alone.
_PATHS = {
    "Code": "error.Code",
    "GrpcPayloadContainer": "distributed_runtime.GrpcPayloadContainer",
    "GrpcPayloadsLost": "distributed_runtime.GrpcPayloadsLost",
    "WorkerPossiblyRestarted": "distributed_runtime.WorkerPossiblyRestarted",
    "Any": "google.protobuf.Any",
    "BoolValue": "google.protobuf.BoolValue",
}


def _find(name):
    """A message or an enum, or None."""
    path = _PATHS.get(name, name)
    return schema.find_message(path) or schema.find_enum(path)


def _enums_in(module):
    found = [schema.find_enum(_PATHS.get(name, name)) for name in _IN_MODULES[module].split()]
    return [kind for kind in found if kind is not None]


def module_contents(module):
    """What is in one of the modules: messages, enums, and the values of its enums, by name."""
    found = {name: _find(name) for name in _IN_MODULES[module].split()}
    for kind in _enums_in(module):
        found.update(kind.items())
    return found


# Where 1.x has it.
_IN_MODULES["core.lib.core.error_codes_pb2"] = _IN_MODULES["core.protobuf.error_codes_pb2"]
MODULES = {module: names.split() + [v for kind in _enums_in(module) for v in kind.keys()]
           for module, names in _IN_MODULES.items()}


def _enum_value(name):
    """None where two enums differ about it."""
    kinds = [kind for module in MODULES for kind in _enums_in(module) if name in kind.keys()]
    numbers = {kind.Value(name) for kind in kinds}
    return numbers.pop() if len(numbers) == 1 else None


def google_modules():
    """What programs import of google.protobuf, by name: for where that package is not installed."""
    from .proto import fields, message
    made = {
        "message": dict(Message=Message, Error=Error, DecodeError=DecodeError,
                        EncodeError=EncodeError),
        "descriptor": dict(FieldDescriptor=fields.Field, Descriptor=message.Descriptor),
        "any_pb2": dict(Any=_find("Any")),
        "wrappers_pb2": dict(BoolValue=_find("BoolValue")),
    }
    found = {"google.protobuf.text_format": text_format, "google.protobuf.json_format": json_format}
    for name, contents in made.items():
        name = "google.protobuf." + name
        found[name] = types.ModuleType(name)
        found[name].__dict__.update(contents)
    return found


def __getattr__(name):
    found = _find(name) if name[:1].isupper() else None
    if found is None and name.isupper():
        found = _enum_value(name)
    if found is None:
        raise AttributeError("module %s has no attribute %s" % (__name__, name))
    globals()[name] = found  # the next time it is found at once
    return found


def __dir__():
    return sorted(set(globals()) | {name for names in MODULES.values() for name in names})
