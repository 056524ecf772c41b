//! The messages of the Container Runtime Interface, those fields that are used. Written by hand: nothing is generated when this is built.
//!
//! Names and numbers are those of `runtime.v1`. Enumerations are numbers, named below. Unknown fields are skipped by every reader. Requests
//! that have nothing but an id, and answers that have nothing, share a message.
#![allow(missing_docs, reason = "the fields are documented where the protocol is")]

use std::collections::BTreeMap;

use prost::Message;

pub const VERSION: &str = "/runtime.v1.RuntimeService/Version";
pub const STATUS: &str = "/runtime.v1.RuntimeService/Status";
pub const RUNTIME_CONFIG: &str = "/runtime.v1.RuntimeService/RuntimeConfig";
pub const RUN_POD_SANDBOX: &str = "/runtime.v1.RuntimeService/RunPodSandbox";
pub const STOP_POD_SANDBOX: &str = "/runtime.v1.RuntimeService/StopPodSandbox";
pub const REMOVE_POD_SANDBOX: &str = "/runtime.v1.RuntimeService/RemovePodSandbox";
pub const POD_SANDBOX_STATUS: &str = "/runtime.v1.RuntimeService/PodSandboxStatus";
pub const LIST_POD_SANDBOX: &str = "/runtime.v1.RuntimeService/ListPodSandbox";
pub const CREATE_CONTAINER: &str = "/runtime.v1.RuntimeService/CreateContainer";
pub const START_CONTAINER: &str = "/runtime.v1.RuntimeService/StartContainer";
pub const STOP_CONTAINER: &str = "/runtime.v1.RuntimeService/StopContainer";
pub const REMOVE_CONTAINER: &str = "/runtime.v1.RuntimeService/RemoveContainer";
pub const LIST_CONTAINERS: &str = "/runtime.v1.RuntimeService/ListContainers";
pub const CONTAINER_STATUS: &str = "/runtime.v1.RuntimeService/ContainerStatus";
pub const REOPEN_CONTAINER_LOG: &str = "/runtime.v1.RuntimeService/ReopenContainerLog";
pub const EXEC_SYNC: &str = "/runtime.v1.RuntimeService/ExecSync";
pub const EXEC: &str = "/runtime.v1.RuntimeService/Exec";
pub const ATTACH: &str = "/runtime.v1.RuntimeService/Attach";
pub const UPDATE_CONTAINER_RESOURCES: &str = "/runtime.v1.RuntimeService/UpdateContainerResources";
pub const CONTAINER_STATS: &str = "/runtime.v1.RuntimeService/ContainerStats";
pub const IMAGE_STATUS: &str = "/runtime.v1.ImageService/ImageStatus";
pub const LIST_IMAGES: &str = "/runtime.v1.ImageService/ListImages";
pub const PULL_IMAGE: &str = "/runtime.v1.ImageService/PullImage";
pub const REMOVE_IMAGE: &str = "/runtime.v1.ImageService/RemoveImage";
pub const IMAGE_FS_INFO: &str = "/runtime.v1.ImageService/ImageFsInfo";

/// `NamespaceMode`.
pub const NAMESPACE_POD: i32 = 0;
pub const NAMESPACE_CONTAINER: i32 = 1;
pub const NAMESPACE_NODE: i32 = 2;

/// `CgroupDriver`.
pub const CGROUP_DRIVER_CGROUPFS: i32 = 1;

/// `MountPropagation`.
pub const PROPAGATION_PRIVATE: i32 = 0;
pub const PROPAGATION_HOST_TO_CONTAINER: i32 = 1;
pub const PROPAGATION_BIDIRECTIONAL: i32 = 2;

/// `SecurityProfile.ProfileType`.
pub const PROFILE_RUNTIME_DEFAULT: i32 = 0;
pub const PROFILE_UNCONFINED: i32 = 1;
pub const PROFILE_LOCALHOST: i32 = 2;

/// `SupplementalGroupsPolicy`: those that are given and those of the image, or none of the image.
pub const GROUPS_MERGE: i32 = 0;
pub const GROUPS_STRICT: i32 = 1;

/// `PodSandboxState`.
pub const SANDBOX_READY: i32 = 0;

/// `ContainerState`.
pub const CONTAINER_CREATED: i32 = 0;
pub const CONTAINER_RUNNING: i32 = 1;
pub const CONTAINER_EXITED: i32 = 2;

/// Messages, a field a line: its form on the wire, its name, its type, its number.
macro_rules! messages {
    ($($name:ident { $([$($form:tt)*] $field:ident: $type:ty = $tag:tt),* $(,)? })*) => {$(
        #[derive(Clone, PartialEq, Message)]
        pub struct $name {
            $(#[prost($($form)*, tag = $tag)]
            pub $field: $type,)*
        }
    )*};
}

messages! {
    VersionRequest { [string] version: String = 1 }
    VersionResponse {
        [string] version: String = 1,
        [string] runtime_name: String = 2,
        [string] runtime_version: String = 3,
        [string] runtime_api_version: String = 4,
    }
    StatusRequest { [bool] verbose: bool = 1 }
    RuntimeConfigResponse { [message, optional] linux: Option<LinuxRuntimeConfiguration> = 1 }
    LinuxRuntimeConfiguration { [int32] cgroup_driver: i32 = 1 }
    RuntimeCondition {
        [string] r#type: String = 1,
        [bool] status: bool = 2,
        [string] reason: String = 3,
        [string] message: String = 4,
    }
    RuntimeStatus { [message, repeated] conditions: Vec<RuntimeCondition> = 1 }
    StatusResponse {
        [message, optional] status: Option<RuntimeStatus> = 1,
        [btree_map = "string, string"] info: BTreeMap<String, String> = 2,
    }
    Mount {
        [string] container_path: String = 1,
        [string] host_path: String = 2,
        [bool] readonly: bool = 3,
        [int32] propagation: i32 = 5,
    }
    NamespaceOption {
        [int32] network: i32 = 1,
        [int32] pid: i32 = 2,
        [int32] ipc: i32 = 3,
        [string] target_id: String = 4,
    }
    Int64Value { [int64] value: i64 = 1 }
    SecurityProfile {
        [int32] profile_type: i32 = 1,
        [string] localhost_ref: String = 2,
    }
    LinuxSandboxSecurityContext {
        [message, optional] namespace_options: Option<NamespaceOption> = 1,
        [bool] privileged: bool = 6,
        [message, optional] seccomp: Option<SecurityProfile> = 9,
    }
    LinuxPodSandboxConfig {
        [string] cgroup_parent: String = 1,
        [message, optional] security_context: Option<LinuxSandboxSecurityContext> = 2,
        [btree_map = "string, string"] sysctls: BTreeMap<String, String> = 3,
    }
    PodSandboxMetadata {
        [string] name: String = 1,
        [string] uid: String = 2,
        [string] namespace: String = 3,
        [uint32] attempt: u32 = 4,
    }
    PodSandboxConfig {
        [message, optional] metadata: Option<PodSandboxMetadata> = 1,
        [string] hostname: String = 2,
        [string] log_directory: String = 3,
        [btree_map = "string, string"] labels: BTreeMap<String, String> = 6,
        [btree_map = "string, string"] annotations: BTreeMap<String, String> = 7,
        [message, optional] linux: Option<LinuxPodSandboxConfig> = 8,
    }
    RunPodSandboxRequest {
        [message, optional] config: Option<PodSandboxConfig> = 1,
        [string] runtime_handler: String = 2,
    }
    RunPodSandboxResponse { [string] pod_sandbox_id: String = 1 }
    PodSandboxIdRequest { [string] pod_sandbox_id: String = 1 }
    Empty {}
    PodIp { [string] ip: String = 1 }
    PodSandboxNetworkStatus {
        [string] ip: String = 1,
        [message, repeated] additional_ips: Vec<PodIp> = 2,
    }
    PodSandboxStatus {
        [string] id: String = 1,
        [message, optional] metadata: Option<PodSandboxMetadata> = 2,
        [int32] state: i32 = 3,
        [int64] created_at: i64 = 4,
        [message, optional] network: Option<PodSandboxNetworkStatus> = 5,
    }
    PodSandboxStatusRequest {
        [string] pod_sandbox_id: String = 1,
        [bool] verbose: bool = 2,
    }
    PodSandboxStatusResponse {
        [message, optional] status: Option<PodSandboxStatus> = 1,
        [btree_map = "string, string"] info: BTreeMap<String, String> = 2,
    }
    PodSandboxFilter {
        [string] id: String = 1,
        [btree_map = "string, string"] label_selector: BTreeMap<String, String> = 3,
    }
    ListPodSandboxRequest { [message, optional] filter: Option<PodSandboxFilter> = 1 }
    PodSandbox {
        [string] id: String = 1,
        [message, optional] metadata: Option<PodSandboxMetadata> = 2,
        [int32] state: i32 = 3,
        [int64] created_at: i64 = 4,
        [btree_map = "string, string"] labels: BTreeMap<String, String> = 5,
        [btree_map = "string, string"] annotations: BTreeMap<String, String> = 6,
    }
    ListPodSandboxResponse { [message, repeated] items: Vec<PodSandbox> = 1 }
    ImageSpec {
        [string] image: String = 1,
        [btree_map = "string, string"] annotations: BTreeMap<String, String> = 2,
        [string] user_specified_image: String = 18,
    }
    KeyValue {
        [string] key: String = 1,
        [bytes = "vec"] value: Vec<u8> = 2,
    }
    LinuxContainerResources {
        [int64] cpu_period: i64 = 1,
        [int64] cpu_quota: i64 = 2,
        [int64] cpu_shares: i64 = 3,
        [int64] memory_limit_in_bytes: i64 = 4,
        [int64] oom_score_adj: i64 = 5,
        [btree_map = "string, string"] unified: BTreeMap<String, String> = 9,
    }
    Capability {
        [string, repeated] add_capabilities: Vec<String> = 1,
        [string, repeated] drop_capabilities: Vec<String> = 2,
    }
    LinuxContainerSecurityContext {
        [message, optional] capabilities: Option<Capability> = 1,
        [bool] privileged: bool = 2,
        [message, optional] namespace_options: Option<NamespaceOption> = 3,
        [message, optional] run_as_user: Option<Int64Value> = 5,
        [message, optional] run_as_group: Option<Int64Value> = 12,
        [string] run_as_username: String = 6,
        [bool] readonly_rootfs: bool = 7,
        [int64, repeated] supplemental_groups: Vec<i64> = 8,
        [int32] supplemental_groups_policy: i32 = 17,
        [bool] no_new_privs: bool = 11,
        [string, repeated] masked_paths: Vec<String> = 13,
        [string, repeated] readonly_paths: Vec<String> = 14,
        [message, optional] seccomp: Option<SecurityProfile> = 15,
    }
    LinuxContainerConfig {
        [message, optional] resources: Option<LinuxContainerResources> = 1,
        [message, optional] security_context: Option<LinuxContainerSecurityContext> = 2,
    }
    ContainerMetadata {
        [string] name: String = 1,
        [uint32] attempt: u32 = 2,
    }
    CdiDevice { [string] name: String = 1 }
    ContainerConfig {
        [message, optional] metadata: Option<ContainerMetadata> = 1,
        [message, optional] image: Option<ImageSpec> = 2,
        [string, repeated] command: Vec<String> = 3,
        [string] working_dir: String = 5,
        [message, repeated] envs: Vec<KeyValue> = 6,
        [message, repeated] mounts: Vec<Mount> = 7,
        [btree_map = "string, string"] labels: BTreeMap<String, String> = 9,
        [btree_map = "string, string"] annotations: BTreeMap<String, String> = 10,
        [string] log_path: String = 11,
        [bool] stdin: bool = 12,
        [bool] stdin_once: bool = 13,
        [bool] tty: bool = 14,
        [message, optional] linux: Option<LinuxContainerConfig> = 15,
        [message, repeated] cdi_devices: Vec<CdiDevice> = 17,
        [int32] stop_signal: i32 = 18,
    }
    CreateContainerRequest {
        [string] pod_sandbox_id: String = 1,
        [message, optional] config: Option<ContainerConfig> = 2,
        [message, optional] sandbox_config: Option<PodSandboxConfig> = 3,
    }
    CreateContainerResponse { [string] container_id: String = 1 }
    ContainerIdRequest { [string] container_id: String = 1 }
    StopContainerRequest {
        [string] container_id: String = 1,
        [int64] timeout: i64 = 2,
    }
    ContainerFilter {
        [string] id: String = 1,
        [string] pod_sandbox_id: String = 3,
        [btree_map = "string, string"] label_selector: BTreeMap<String, String> = 4,
    }
    ListContainersRequest { [message, optional] filter: Option<ContainerFilter> = 1 }
    Container {
        [string] id: String = 1,
        [string] pod_sandbox_id: String = 2,
        [message, optional] metadata: Option<ContainerMetadata> = 3,
        [string] image_ref: String = 5,
        [int32] state: i32 = 6,
        [int64] created_at: i64 = 7,
        [btree_map = "string, string"] labels: BTreeMap<String, String> = 8,
        [btree_map = "string, string"] annotations: BTreeMap<String, String> = 9,
    }
    ListContainersResponse { [message, repeated] containers: Vec<Container> = 1 }
    ContainerStatusRequest {
        [string] container_id: String = 1,
        [bool] verbose: bool = 2,
    }
    ContainerStatus {
        [string] id: String = 1,
        [message, optional] metadata: Option<ContainerMetadata> = 2,
        [int32] state: i32 = 3,
        [int64] created_at: i64 = 4,
        [int64] started_at: i64 = 5,
        [int64] finished_at: i64 = 6,
        [int32] exit_code: i32 = 7,
        [string] image_ref: String = 9,
        [string] reason: String = 10,
        [string] message: String = 11,
        [btree_map = "string, string"] annotations: BTreeMap<String, String> = 13,
        [string] log_path: String = 15,
    }
    ContainerStatusResponse {
        [message, optional] status: Option<ContainerStatus> = 1,
        [btree_map = "string, string"] info: BTreeMap<String, String> = 2,
    }
    ExecSyncRequest {
        [string] container_id: String = 1,
        [string, repeated] cmd: Vec<String> = 2,
        [int64] timeout: i64 = 3,
    }
    ExecSyncResponse {
        [bytes = "vec"] stdout: Vec<u8> = 1,
        [bytes = "vec"] stderr: Vec<u8> = 2,
        [int32] exit_code: i32 = 3,
    }
    ImageStatusRequest {
        [message, optional] image: Option<ImageSpec> = 1,
        [bool] verbose: bool = 2,
    }
    Image {
        [string] id: String = 1,
        [string, repeated] repo_tags: Vec<String> = 2,
        [string, repeated] repo_digests: Vec<String> = 3,
        [uint64] size: u64 = 4,
        [message, optional] uid: Option<Int64Value> = 5,
        [string] username: String = 6,
        [bool] pinned: bool = 8,
    }
    ImageFilter { [message, optional] image: Option<ImageSpec> = 1 }
    ListImagesRequest { [message, optional] filter: Option<ImageFilter> = 1 }
    ListImagesResponse { [message, repeated] images: Vec<Image> = 1 }
    ImageStatusResponse {
        [message, optional] image: Option<Image> = 1,
        [btree_map = "string, string"] info: BTreeMap<String, String> = 2,
    }
    AuthConfig {
        [string] username: String = 1,
        [string] password: String = 2,
        [string] identity_token: String = 5,
    }
    PullImageRequest {
        [message, optional] image: Option<ImageSpec> = 1,
        [message, optional] auth: Option<AuthConfig> = 2,
        [message, optional] sandbox_config: Option<PodSandboxConfig> = 3,
    }
    PullImageResponse { [string] image_ref: String = 1 }
    UInt64Value { [uint64] value: u64 = 1 }
    CpuUsage { [message, optional] usage_core_nano_seconds: Option<UInt64Value> = 2 }
    MemoryUsage {
        [message, optional] working_set_bytes: Option<UInt64Value> = 2,
        [message, optional] usage_bytes: Option<UInt64Value> = 4,
    }
    ContainerStats {
        [message, optional] cpu: Option<CpuUsage> = 2,
        [message, optional] memory: Option<MemoryUsage> = 3,
    }
    ContainerStatsResponse { [message, optional] stats: Option<ContainerStats> = 1 }
    ExecRequest {
        [string] container_id: String = 1,
        [string, repeated] cmd: Vec<String> = 2,
        [bool] tty: bool = 3,
        [bool] stdin: bool = 4,
        [bool] stdout: bool = 5,
        [bool] stderr: bool = 6,
    }
    AttachRequest {
        [string] container_id: String = 1,
        [bool] stdin: bool = 2,
        [bool] tty: bool = 3,
        [bool] stdout: bool = 4,
        [bool] stderr: bool = 5,
    }
    UrlResponse { [string] url: String = 1 }
    UpdateContainerResourcesRequest {
        [string] container_id: String = 1,
        [message, optional] linux: Option<LinuxContainerResources> = 2,
    }
    RemoveImageRequest { [message, optional] image: Option<ImageSpec> = 1 }
    FilesystemIdentifier { [string] mountpoint: String = 1 }
    FilesystemUsage { [message, optional] fs_id: Option<FilesystemIdentifier> = 2 }
    ImageFsInfoResponse { [message, repeated] image_filesystems: Vec<FilesystemUsage> = 1 }
}
