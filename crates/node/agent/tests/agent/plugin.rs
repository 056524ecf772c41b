//! A plugin that answers whatever a test wants, down to the bytes.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::poll_fn,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lazaret_driver::proto::{
    self, ClaimsRequest, ClassicPrepareRequest, ClassicPrepareResponse, DeviceMessage, PluginInfo,
    PrepareResponse, PreparedClaim, UnprepareResponse, UnpreparedClaim,
};
use prost::Message;
use tokio::{
    net::UnixListener,
    sync::{mpsc, watch},
    task::JoinSet,
};

/// The reply of a plugin.
pub(crate) enum Reply {
    Message(Vec<u8>),
    Status(u32, &'static str),
    /// Nothing, ever.
    Hang,
    /// These bytes instead of a message in its frame.
    Bytes(Vec<u8>),
    /// Messages, for as long as the test sends them.
    Stream(mpsc::Receiver<Vec<u8>>),
}

type Answerer = Arc<Mutex<Box<dyn FnMut(&str, &[u8]) -> Option<Reply> + Send>>>;

/// A plugin with a registration socket and a service socket.
pub(crate) struct Plugin {
    pub(crate) registration: PathBuf,
    pub(crate) service: PathBuf,
    /// Calls, by the last part of their path.
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    /// Connections to the service socket so far.
    pub(crate) connections: Arc<AtomicUsize>,
    /// How often all connections were closed.
    cuts: watch::Sender<usize>,
    tasks: JoinSet<()>,
}

/// The first thing to say: who this is.
pub(crate) fn info(driver: &str, service: &Path, services: &[&str]) -> PluginInfo {
    PluginInfo {
        r#type: proto::PLUGIN_TYPE.into(),
        name: driver.into(),
        endpoint: service.to_str().unwrap().into(),
        supported_versions: services.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// The answer of a working plugin to Prepare: one device for each claim.
pub(crate) fn prepared(body: &[u8]) -> PrepareResponse {
    let claims = ClaimsRequest::decode(body).unwrap().claims.into_iter().map(|claim| {
        let device = DeviceMessage {
            pool_name: "n".into(),
            device_name: "gpu-0".into(),
            cdi_device_ids: vec![format!("example.com/gpu={}", claim.uid)],
            ..DeviceMessage::default()
        };
        (claim.uid, PreparedClaim { devices: vec![device], ..PreparedClaim::default() })
    });
    PrepareResponse { claims: claims.collect() }
}

/// The answer of a plugin of classic claims: a name with the device that the attributes name.
fn classic_prepared(body: &[u8]) -> ClassicPrepareResponse {
    let request = ClassicPrepareRequest::decode(body).unwrap();
    let device = request.attributes.get("device").cloned().unwrap_or_default();
    ClassicPrepareResponse {
        cdi_device: vec![format!("example.com/fabric={}-{device}", request.resource_uid)],
    }
}

fn unprepared(body: &[u8]) -> UnprepareResponse {
    let claims = ClaimsRequest::decode(body).unwrap().claims;
    UnprepareResponse {
        claims: claims.into_iter().map(|claim| (claim.uid, UnpreparedClaim::default())).collect(),
    }
}

impl Plugin {
    /// A plugin that works, but for what `answer` says otherwise.
    pub(crate) fn start(
        root: &Path,
        driver: &str,
        services: &[&str],
        answer: impl FnMut(&str, &[u8]) -> Option<Reply> + Send + 'static,
    ) -> Self {
        Self::start_as((proto::PLUGIN_TYPE, "reg.sock", "dra.sock"), root, driver, services, answer)
    }

    /// A plugin of classic claims.
    pub(crate) fn start_classic(
        root: &Path,
        driver: &str,
        answer: impl FnMut(&str, &[u8]) -> Option<Reply> + Send + 'static,
    ) -> Self {
        let kind = (proto::CLASSIC_PLUGIN_TYPE, "cls.sock", "cls.sock");
        Self::start_as(kind, root, driver, &[proto::CLASSIC_VERSION], answer)
    }

    fn start_as(
        (kind, ending, service): (&str, &str, &str),
        root: &Path,
        driver: &str,
        services: &[&str],
        answer: impl FnMut(&str, &[u8]) -> Option<Reply> + Send + 'static,
    ) -> Self {
        let folder = root.join("plugins").join(driver);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(root.join("plugins_registry")).unwrap();
        let registration = root.join("plugins_registry").join(format!("{driver}-{ending}"));
        let service = folder.join(service);
        let (calls, connections) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let mut tasks = JoinSet::new();
        let answer: Answerer = Arc::new(Mutex::new(Box::new(answer)));
        let info = PluginInfo { r#type: kind.into(), ..info(driver, &service, services) }.encode_to_vec();
        let cuts = watch::Sender::new(0);
        // The service first: who registers must be there.
        for (path, counter) in [(&service, Arc::clone(&connections)), (&registration, Arc::default())] {
            let _ = std::fs::remove_file(path);
            let listener = UnixListener::bind(path).unwrap();
            let shared = (Arc::clone(&calls), Arc::clone(&answer), info.clone());
            tasks.spawn(serve(listener, counter, shared, cuts.subscribe()));
        }
        Self { registration, service, calls, connections, cuts, tasks }
    }

    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|made| made.as_str() == call).count()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Closes all connections, and listens as before.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Ends, and takes its sockets with it.
    pub(crate) async fn stop(mut self) {
        let _ = std::fs::remove_file(&self.registration);
        let _ = std::fs::remove_file(&self.service);
        self.tasks.shutdown().await;
    }
}

async fn serve(
    listener: UnixListener,
    connections: Arc<AtomicUsize>,
    (calls, answer, info): (Arc<Mutex<Vec<String>>>, Answerer, Vec<u8>),
    cuts: watch::Receiver<usize>,
) {
    let mut tasks = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.fetch_add(1, Ordering::SeqCst);
        let (calls, answer, info) = (Arc::clone(&calls), Arc::clone(&answer), info.clone());
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let (calls, answer, info) = (Arc::clone(&calls), Arc::clone(&answer), info.clone());
            async move {
                let path = request.uri().path().to_owned();
                calls.lock().unwrap().push(path.rsplit('/').next().unwrap().to_owned());
                let body = read(request.into_body()).await;
                let message = body.get(5..).unwrap_or_default();
                let wanted = (answer.lock().unwrap())(&path, message);
                let reply = wanted.unwrap_or_else(|| usual(&path, message, info));
                if let Reply::Hang = reply {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(respond(reply))
            }
        });
        let mut cuts = cuts.clone();
        cuts.mark_unchanged();
        tasks.spawn(async move {
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::select! {
                _ = server.serve_connection(TokioIo::new(stream), service) => {}
                _ = cuts.changed() => {}
            }
        });
    }
}

fn usual(path: &str, message: &[u8], info: Vec<u8>) -> Reply {
    match path {
        proto::GET_INFO => Reply::Message(info),
        proto::NOTIFY => Reply::Message(vec![]),
        proto::PREPARE_V1 | proto::PREPARE_V1BETA1 => Reply::Message(prepared(message).encode_to_vec()),
        proto::UNPREPARE_V1 | proto::UNPREPARE_V1BETA1 => Reply::Message(unprepared(message).encode_to_vec()),
        proto::CLASSIC_PREPARE => Reply::Message(classic_prepared(message).encode_to_vec()),
        proto::CLASSIC_UNPREPARE => Reply::Message(vec![]),
        _ => Reply::Status(12, "not here"),
    }
}

pub(crate) async fn read(mut body: Incoming) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    bytes
}

fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat().into()
}

pub(crate) fn respond(reply: Reply) -> Response<Frames> {
    let mut response = Response::builder().header("content-type", "application/grpc");
    let frames = match reply {
        Reply::Message(message) => Frames::of([framed(&message)], None),
        Reply::Bytes(bytes) => Frames::of([bytes.into()], None),
        Reply::Stream(messages) => Frames::of([], Some(messages)),
        Reply::Status(code, text) => {
            response = response.header("grpc-status", code).header("grpc-message", text);
            Frames { frames: VecDeque::new(), more: None }
        }
        Reply::Hang => unreachable!(),
    };
    response.body(frames).unwrap()
}

pub(crate) struct Frames {
    frames: VecDeque<Frame<Bytes>>,
    more: Option<mpsc::Receiver<Vec<u8>>>,
}

impl Frames {
    fn of<const COUNT: usize>(data: [Bytes; COUNT], more: Option<mpsc::Receiver<Vec<u8>>>) -> Self {
        let trailers = HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-status"),
            HeaderValue::from_static("0"),
        )]);
        let frames = data.into_iter().map(Frame::data).chain([Frame::trailers(trailers)]);
        Self { frames: frames.collect(), more }
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(more) = &mut self.more {
            match more.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(message)) => return Poll::Ready(Some(Ok(Frame::data(framed(&message))))),
                Poll::Ready(None) => self.more = None,
            }
        }
        Poll::Ready(self.frames.pop_front().map(Ok))
    }
}
