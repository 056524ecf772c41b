//! A double of a runtime: sandboxes and containers in memory, behind a socket.

mod streaming;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lazaret_cri::proto;
use prost::Message;
use tokio::{net::UnixListener, sync::Notify, task::JoinSet};

use self::streaming::Streaming;

/// How a double behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoubleOptions {
    pub(crate) runtime: &'static str,
    pub(crate) version: &'static str,
    pub(crate) ignores_cdi: bool,
    pub(crate) is_ready: bool,
    /// The configuration that it shows, as containerd does.
    pub(crate) config: Option<&'static str>,
    pub(crate) has_image: bool,
    /// By number; without it, the question is not known, as with older ones.
    pub(crate) cgroup_driver: Option<i32>,
}

impl Default for DoubleOptions {
    fn default() -> Self {
        Self {
            runtime: "containerd",
            version: "2.1.9+unknown",
            ignores_cdi: false,
            is_ready: true,
            config: None,
            has_image: true,
            cgroup_driver: None,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    next: u32,
    sandboxes: BTreeMap<String, (proto::PodSandboxConfig, i32)>,
    containers: BTreeMap<String, Kept>,
    refused: usize,
    stop_seconds: i64,
    /// Where sessions are served.
    address: String,
    /// Images besides the one that is always there.
    images: Vec<proto::Image>,
    /// Resources of updates while a container runs.
    updated: Vec<proto::LinuxContainerResources>,
}

#[derive(Debug)]
struct Kept {
    sandbox: String,
    config: proto::ContainerConfig,
    state: i32,
}

/// An error: the code of gRPC, and a text.
type Refusal = (i32, String);

pub(crate) struct Double {
    pub(crate) socket: PathBuf,
    state: Arc<Mutex<State>>,
    tasks: JoinSet<()>,
    streaming: Streaming,
}

impl Double {
    pub(crate) fn start(socket: &Path, manner: DoubleOptions) -> Self {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let streaming = Streaming::start();
        let address = streaming.address.clone();
        let state = Arc::new(Mutex::new(State { address, ..State::default() }));
        let shared = Arc::clone(&state);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let state = Arc::clone(&state);
                        async move { Ok::<_, std::convert::Infallible>(serve(request, &state, manner).await) }
                    });
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { socket: socket.to_owned(), state, tasks, streaming }
    }

    pub(crate) async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A pod of another client.
    pub(crate) fn add_a_stranger(&self) {
        let mut config = proto::PodSandboxConfig::default();
        config.labels.insert("io.kubernetes.pod.uid".to_owned(), "stranger".to_owned());
        config.metadata =
            Some(proto::PodSandboxMetadata { name: "stranger".to_owned(), ..Default::default() });
        self.state().sandboxes.insert("stranger".to_owned(), (config, 0));
    }

    pub(crate) fn strangers(&self) -> usize {
        self.state().sandboxes.len()
    }

    /// The annotations of all sandboxes say this, as an older or newer agent may have written them.
    pub(crate) fn overwrite_annotations(&self, text: &str) {
        for (config, _) in self.state().sandboxes.values_mut() {
            config.annotations.values_mut().for_each(|value| *value = text.to_owned());
        }
    }

    pub(crate) fn config(&self, id: &str) -> proto::ContainerConfig {
        self.state().containers[id].config.clone()
    }

    /// The groups of pods, as they were asked for.
    pub(crate) fn cgroup_parents(&self) -> Vec<String> {
        let of = |config: &proto::PodSandboxConfig| config.linux.clone().unwrap_or_default().cgroup_parent;
        self.state().sandboxes.values().map(|(config, _)| of(config)).collect()
    }

    pub(crate) fn containers(&self) -> Vec<String> {
        let state = self.state();
        let mut names: Vec<String> =
            state.containers.values().map(|kept| kept.config.metadata.clone().unwrap().name).collect();
        names.sort();
        names
    }

    pub(crate) fn sandboxes(&self) -> usize {
        self.state().sandboxes.len()
    }

    pub(crate) fn refused(&self) -> usize {
        self.state().refused
    }

    /// Says when a session has ended.
    pub(crate) fn session_ended(&self) -> Arc<Notify> {
        Arc::clone(&self.streaming.ended)
    }

    pub(crate) fn add_image(&self, image: proto::Image) {
        self.state().images.push(image);
    }

    pub(crate) fn images(&self) -> Vec<String> {
        self.state().images.iter().map(|image| image.id.clone()).collect()
    }

    /// A container of another client, with this image.
    pub(crate) fn add_a_container(&self, image: &str) {
        let image = proto::ImageSpec { image: image.to_owned(), ..Default::default() };
        let config = proto::ContainerConfig { image: Some(image), ..Default::default() };
        let kept = Kept { sandbox: "stranger".to_owned(), config, state: proto::CONTAINER_EXITED };
        let mut state = self.state();
        let id = format!("c{}", next(&mut state));
        state.containers.insert(id, kept);
    }

    pub(crate) fn updated(&self) -> Vec<proto::LinuxContainerResources> {
        self.state().updated.clone()
    }

    pub(crate) fn last_stop_seconds(&self) -> i64 {
        self.state().stop_seconds
    }
}

type Body = StreamBody<
    futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, std::convert::Infallible>>>,
>;

async fn serve(request: Request<Incoming>, state: &Mutex<State>, manner: DoubleOptions) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let answer = answer(&path, &body[5..], &mut state.lock().unwrap(), manner);
    let mut trailers = HeaderMap::new();
    let mut frames = Vec::new();
    match answer {
        Ok(message) => {
            let mut framed = BytesMut::new();
            framed.put_u8(0);
            framed.put_u32(u32::try_from(message.len()).unwrap());
            framed.put_slice(&message);
            frames.push(Ok(Frame::data(framed.freeze())));
            trailers.insert("grpc-status", 0.into());
        }
        Err((code, text)) => {
            trailers.insert("grpc-status", code.into());
            trailers.insert("grpc-message", text.parse().unwrap());
        }
    }
    frames.push(Ok(Frame::trailers(trailers)));
    Response::builder()
        .header("content-type", "application/grpc")
        .body(StreamBody::new(futures_util::stream::iter(frames)))
        .unwrap()
}

fn answer(path: &str, body: &[u8], state: &mut State, manner: DoubleOptions) -> Result<Vec<u8>, Refusal> {
    let call = path.rsplit('/').next().unwrap();
    match call {
        "Version" => Ok(proto::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: manner.runtime.to_owned(),
            runtime_version: manner.version.to_owned(),
            runtime_api_version: "v1".to_owned(),
        }
        .encode_to_vec()),
        "Status" => Ok(runtime_status(manner).encode_to_vec()),
        "RuntimeConfig" => match manner.cgroup_driver {
            Some(cgroup_driver) => {
                let linux = Some(proto::LinuxRuntimeConfiguration { cgroup_driver });
                Ok(proto::RuntimeConfigResponse { linux }.encode_to_vec())
            }
            None => Err((12, "unknown method RuntimeConfig".to_owned())),
        },
        "ListImages" => {
            let image = proto::Image { id: "sha256:abc".to_owned(), ..Default::default() };
            let images = manner.has_image.then_some(image).into_iter();
            let images = images.chain(state.images.iter().cloned()).collect();
            Ok(proto::ListImagesResponse { images }.encode_to_vec())
        }
        "ImageStatus" => Ok(image_status(&decode(body), manner).encode_to_vec()),
        "RunPodSandbox" => {
            let config = decode::<proto::RunPodSandboxRequest>(body).config.unwrap();
            let id = format!("s{}", next(state));
            state.sandboxes.insert(id.clone(), (config, proto::SANDBOX_READY));
            Ok(proto::RunPodSandboxResponse { pod_sandbox_id: id }.encode_to_vec())
        }
        "StopPodSandbox" => {
            let id = decode::<proto::PodSandboxIdRequest>(body).pod_sandbox_id;
            if let Some((_, state)) = state.sandboxes.get_mut(&id) {
                *state = 1;
            }
            Ok(Vec::new())
        }
        "RemovePodSandbox" => {
            let id = decode::<proto::PodSandboxIdRequest>(body).pod_sandbox_id;
            state.sandboxes.remove(&id);
            state.containers.retain(|_, kept| kept.sandbox != id);
            Ok(Vec::new())
        }
        "PodSandboxStatus" => {
            let request: proto::PodSandboxStatusRequest = decode(body);
            let id = request.pod_sandbox_id;
            let found = state.sandboxes.contains_key(&id);
            if !found {
                return Err((5, "not found".to_owned()));
            }
            let status = proto::PodSandboxStatus { id, ..Default::default() };
            // Its own process stands for the one that holds the sandbox.
            let info = format!(r#"{{"pid":{}}}"#, std::process::id());
            let info = request.verbose.then(|| ("info".to_owned(), info)).into_iter().collect();
            Ok(proto::PodSandboxStatusResponse { status: Some(status), info }.encode_to_vec())
        }
        "ListPodSandbox" => Ok(list_sandboxes(&decode(body), state).encode_to_vec()),
        "CreateContainer" => create(decode(body), state, manner),
        "StartContainer" => {
            with_container(&decode::<proto::ContainerIdRequest>(body).container_id, state, |kept| {
                kept.state = proto::CONTAINER_RUNNING;
            })
        }
        "StopContainer" => {
            let request: proto::StopContainerRequest = decode(body);
            state.stop_seconds = request.timeout;
            with_container(&request.container_id, state, |kept| kept.state = proto::CONTAINER_EXITED)
        }
        "RemoveContainer" => {
            state.containers.remove(&decode::<proto::ContainerIdRequest>(body).container_id);
            Ok(Vec::new())
        }
        "ListContainers" => Ok(list_containers(&decode(body), state).encode_to_vec()),
        "ContainerStatus" => status(&decode::<proto::ContainerStatusRequest>(body).container_id, state),
        "ExecSync" => {
            let request: proto::ExecSyncRequest = decode(body);
            let stdout = request.cmd.join(" ").into_bytes();
            Ok(proto::ExecSyncResponse { stdout, stderr: Vec::new(), exit_code: 3 }.encode_to_vec())
        }
        other => stream_or_image(other, body, state),
    }
}

fn stream_or_image(call: &str, body: &[u8], state: &mut State) -> Result<Vec<u8>, Refusal> {
    match call {
        "Exec" => {
            let request: proto::ExecRequest = decode(body);
            if request.tty && request.stderr {
                return Err((3, "tty and stderr cannot both be true".to_owned()));
            }
            Ok(url(state, &request.cmd[0], request.stdin))
        }
        "Attach" => {
            let request: proto::AttachRequest = decode(body);
            let program = if request.stdin { "cat" } else { "fail" };
            Ok(url(state, program, request.stdin))
        }
        "UpdateContainerResources" => {
            let request: proto::UpdateContainerResourcesRequest = decode(body);
            state.updated.extend(request.linux);
            with_container(&request.container_id, state, |_| {})
        }
        "RemoveImage" => {
            let image = decode::<proto::RemoveImageRequest>(body).image.unwrap().image;
            state.images.retain(|own| own.id != image);
            Ok(Vec::new())
        }
        "ImageFsInfo" => {
            let fs_id = Some(proto::FilesystemIdentifier { mountpoint: "/absent/images".to_owned() });
            let image_filesystems = vec![proto::FilesystemUsage { fs_id }];
            Ok(proto::ImageFsInfoResponse { image_filesystems }.encode_to_vec())
        }
        other => Err((12, format!("unknown method {other}"))),
    }
}

/// Where a program is played; its streams are counted, so that the server knows when all of them are open.
fn url(state: &State, program: &str, stdin: bool) -> Vec<u8> {
    // How it ended, output, and errors or the sizes of a terminal.
    let count = 3 + usize::from(stdin);
    proto::UrlResponse { url: format!("http://{}/{program}?{count}", state.address) }.encode_to_vec()
}

/// With a network that is not ready, as containerd has it without a CNI configuration.
fn runtime_status(manner: DoubleOptions) -> proto::StatusResponse {
    let condition = |r#type: &str, status| proto::RuntimeCondition {
        r#type: r#type.to_owned(),
        status,
        reason: "Because".to_owned(),
        message: "of this".to_owned(),
    };
    let conditions = vec![condition("RuntimeReady", manner.is_ready), condition("NetworkReady", false)];
    let info = manner.config.map(|config| ("config".to_owned(), config.to_owned())).into_iter().collect();
    proto::StatusResponse { status: Some(proto::RuntimeStatus { conditions }), info }
}

fn image_status(request: &proto::ImageStatusRequest, manner: DoubleOptions) -> proto::ImageStatusResponse {
    let name = request.image.clone().unwrap_or_default().image;
    if !manner.has_image || name != "busybox" {
        return proto::ImageStatusResponse::default();
    }
    let image = proto::Image {
        id: "sha256:abc".to_owned(),
        repo_digests: vec!["docker.io/library/busybox@sha256:def".to_owned()],
        uid: Some(proto::Int64Value { value: 65_534 }),
        ..Default::default()
    };
    let info = r#"{"imageSpec":{"config":{"Cmd":["sh"],"Env":["PATH=/bin"],"User":"65534"}}}"#;
    proto::ImageStatusResponse {
        image: Some(image),
        info: BTreeMap::from([("info".to_owned(), info.to_owned())]),
    }
}

fn decode<M: Message + Default>(body: &[u8]) -> M {
    M::decode(body).unwrap()
}

fn next(state: &mut State) -> u32 {
    state.next += 1;
    state.next
}

fn list_sandboxes(request: &proto::ListPodSandboxRequest, state: &State) -> proto::ListPodSandboxResponse {
    let filter = request.filter.clone().unwrap_or_default();
    let items = state.sandboxes.iter().filter(|(id, (config, _))| {
        (filter.id.is_empty() || filter.id == **id)
            && filter.label_selector.iter().all(|(key, value)| config.labels.get(key) == Some(value))
    });
    let items = items.map(|(id, (config, state))| proto::PodSandbox {
        id: id.clone(),
        metadata: config.metadata.clone(),
        state: *state,
        created_at: 1,
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
    });
    proto::ListPodSandboxResponse { items: items.collect() }
}

fn list_containers(request: &proto::ListContainersRequest, state: &State) -> proto::ListContainersResponse {
    let filter = request.filter.clone().unwrap_or_default();
    let found = state
        .containers
        .iter()
        .filter(|(_, kept)| filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == kept.sandbox)
        .filter(|(_, kept)| {
            filter.label_selector.iter().all(|(key, value)| kept.config.labels.get(key) == Some(value))
        });
    let containers = found.map(|(id, kept)| proto::Container {
        id: id.clone(),
        pod_sandbox_id: kept.sandbox.clone(),
        metadata: kept.config.metadata.clone(),
        image_ref: kept.config.image.clone().unwrap_or_default().image,
        state: kept.state,
        created_at: 1,
        labels: kept.config.labels.clone(),
        annotations: kept.config.annotations.clone(),
    });
    proto::ListContainersResponse { containers: containers.collect() }
}

fn create(
    request: proto::CreateContainerRequest,
    state: &mut State,
    manner: DoubleOptions,
) -> Result<Vec<u8>, Refusal> {
    let config = request.config.unwrap();
    let absent: Vec<&str> = config
        .cdi_devices
        .iter()
        .map(|device| device.name.as_str())
        .filter(|name| name.ends_with("=absent"))
        .collect();
    if !absent.is_empty() && !manner.ignores_cdi {
        state.refused += 1;
        return Err((
            2,
            format!("CDI device injection failed: unresolvable CDI devices {}", absent.join(", ")),
        ));
    }
    let id = format!("c{}", next(state));
    let kept = Kept { sandbox: request.pod_sandbox_id, config, state: proto::CONTAINER_CREATED };
    state.containers.insert(id.clone(), kept);
    Ok(proto::CreateContainerResponse { container_id: id }.encode_to_vec())
}

fn with_container(id: &str, state: &mut State, change: impl FnOnce(&mut Kept)) -> Result<Vec<u8>, Refusal> {
    change(state.containers.get_mut(id).ok_or((5, "not found".to_owned()))?);
    Ok(Vec::new())
}

fn status(id: &str, state: &State) -> Result<Vec<u8>, Refusal> {
    let kept = state.containers.get(id).ok_or((5, "not found".to_owned()))?;
    let has_ended = kept.state == proto::CONTAINER_EXITED;
    let log_directory = &state.sandboxes[&kept.sandbox].0.log_directory;
    let status = proto::ContainerStatus {
        id: id.to_owned(),
        metadata: kept.config.metadata.clone(),
        state: kept.state,
        created_at: 1,
        started_at: if kept.state == proto::CONTAINER_CREATED { 0 } else { 2 },
        finished_at: if has_ended { 3 } else { 0 },
        exit_code: if has_ended { 137 } else { 0 },
        annotations: kept.config.annotations.clone(),
        log_path: format!("{log_directory}/{}", kept.config.log_path),
        ..Default::default()
    };
    let info = BTreeMap::from([("info".to_owned(), r#"{"pid":4711}"#.to_owned())]);
    Ok(proto::ContainerStatusResponse { status: Some(status), info }.encode_to_vec())
}
