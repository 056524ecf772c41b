//! The calls on the service socket.

use std::{future::Future, sync::Arc};

use http::Request;
use hyper::body::Incoming;
use lazaret_cdi::QualifiedName;
use lazaret_classic::ATTRIBUTES_BYTES_MAX;
use lazaret_model::{validate_dns_label, validate_dns_subdomain};
use tonic::Status;
use tracing::warn;

use super::{ClassicClaim, ClassicDriver, ClassicFailure};
use crate::{
    ClaimRef, Failure,
    calls::Calls,
    grpc::{self, Answer, Service},
    lock::Serialize,
    proto::{
        self, ClassicPrepareRequest, ClassicPrepareResponse, ClassicUnprepareRequest,
        ClassicUnprepareResponse,
    },
    service::{is_uid, text},
};

/// CDI names of one claim, as many as the agent of a node takes.
const CDI_NAMES_MAX: usize = 128;

/// Answers on the service socket.
pub(super) struct ClassicPlugin<D> {
    pub(super) driver: Arc<D>,
    pub(super) serialize: Arc<Serialize>,
    pub(super) calls: Arc<Calls>,
}

impl<D: ClassicDriver> Service for ClassicPlugin<D> {
    fn call(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        match request.uri().path() {
            proto::CLASSIC_PREPARE => grpc::unary(request, move |message| self.prepare(message)),
            proto::CLASSIC_UNPREPARE => grpc::unary(request, move |message| self.unprepare(message)),
            path => grpc::unimplemented(path),
        }
    }
}

impl<D: ClassicDriver> ClassicPlugin<D> {
    async fn prepare(
        self: Arc<Self>,
        request: ClassicPrepareRequest,
    ) -> Result<ClassicPrepareResponse, Status> {
        let ClassicPrepareRequest { resource_uid, namespace, name, attributes } = request;
        let id = id(namespace, name, resource_uid)?;
        let bytes: usize = attributes.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > ATTRIBUTES_BYTES_MAX {
            let why = format!("attributes of {bytes} bytes, at most {ATTRIBUTES_BYTES_MAX} can be");
            return Err(Status::invalid_argument(why));
        }
        let claim = ClassicClaim { id: id.clone(), attributes };
        let names = self.run(move |driver| async move { driver.prepare(&claim).await }).await?;
        let names = names.and_then(checked).map_err(|failure| report_failure("prepare", &id, &failure))?;
        Ok(ClassicPrepareResponse { cdi_device: names })
    }

    async fn unprepare(
        self: Arc<Self>,
        request: ClassicUnprepareRequest,
    ) -> Result<ClassicUnprepareResponse, Status> {
        let ClassicUnprepareRequest { resource_id, namespace, name, .. } = request;
        // By the text's own numbers, CDI names follow the UID in the same field.
        let id = id(namespace, name, resource_id.into_iter().next().unwrap_or_default())?;
        let claim = id.clone();
        let done = self.run(move |driver| async move { driver.unprepare(&claim).await }).await?;
        done.map_err(|failure| report_failure("unprepare", &id, &failure))?;
        Ok(ClassicUnprepareResponse {})
    }

    /// Calls the driver in its turn, to the end whatever becomes of the caller.
    async fn run<R, F, A>(&self, call: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(Arc<D>) -> A + Send + 'static,
        A: Future<Output = R> + Send + 'static,
    {
        let (driver, serialize) = (Arc::clone(&self.driver), Arc::clone(&self.serialize));
        let called = self.calls.run(async move {
            let turn = serialize.turn().await?;
            let result = call(driver).await;
            drop(turn);
            Ok(result)
        });
        called.await
    }
}

/// They become parts of paths in a driver. Namespace and name may be missing: the enhancement's text has the UID alone.
fn id(namespace: String, name: String, uid: String) -> Result<ClaimRef, Status> {
    let is_wrong = |text: &str, valid: bool| !text.is_empty() && !valid;
    if !is_uid(&uid)
        || is_wrong(&namespace, validate_dns_label(&namespace).is_ok())
        || is_wrong(&name, validate_dns_subdomain(&name).is_ok())
    {
        return Err(Status::invalid_argument(
            "the claim has no UID, or its UID, namespace or name is not valid",
        ));
    }
    Ok(ClaimRef { namespace, name, uid })
}

/// Each name once, and none that no runtime takes.
fn checked(names: Vec<String>) -> Result<Vec<String>, ClassicFailure> {
    let mut once: Vec<String> = Vec::new();
    for name in names {
        name.parse::<QualifiedName>()?;
        if once.contains(&name) {
            continue;
        }
        if once.len() >= CDI_NAMES_MAX {
            let why = format_args!("more than {CDI_NAMES_MAX} CDI devices for a claim");
            return Err(Failure::new(why).into());
        }
        once.push(name);
    }
    Ok(once)
}

fn report_failure(call: &str, id: &ClaimRef, failure: &ClassicFailure) -> Status {
    warn!(claim = id.name, namespace = id.namespace, uid = id.uid, %failure, "{call} failed");
    match failure {
        ClassicFailure::NotFound(why) => Status::not_found(why),
        ClassicFailure::Failed(failure) => Status::internal(text(failure)),
    }
}
