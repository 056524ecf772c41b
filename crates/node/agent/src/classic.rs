//! Calls to plugins of classic claims, one claim at a time.

use lazaret_driver::proto::{
    self, ClassicPrepareRequest, ClassicPrepareResponse, ClassicUnprepareRequest, ClassicUnprepareResponse,
};
use lazaret_node::{Answer, ClaimId, ClassicCall};
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::{
    connection::{CALL_TIMEOUT, Current, connected, late},
    registration::status_text,
};

/// The method of a call.
pub(crate) fn method(call: &ClassicCall) -> &'static str {
    match call {
        ClassicCall::Prepare { .. } => proto::CLASSIC_PREPARE,
        ClassicCall::Unprepare { .. } => proto::CLASSIC_UNPREPARE,
    }
}

/// Calls a plugin. Gives the answer, and the status as metrics have it.
pub(crate) async fn call(current: Option<Current>, call: ClassicCall, claim: ClaimId) -> (Answer, Code) {
    match timeout(CALL_TIMEOUT, send(current, call, claim)).await.unwrap_or_else(|_| Err(late())) {
        Ok(cdi_ids) => (Answer::Classic(cdi_ids), Code::Ok),
        Err(status) if status.code() == Code::NotFound => {
            (Answer::NotFound(status_text(&status)), Code::NotFound)
        }
        Err(status) => (Answer::Failed(status_text(&status)), status.code()),
    }
}

async fn send(current: Option<Current>, call: ClassicCall, claim: ClaimId) -> Result<Vec<String>, Status> {
    let mut client = connected(current).await?;
    let (method, ClaimId { namespace, name, uid, .. }) = (method(&call), claim);
    match call {
        ClassicCall::Prepare { attributes } => {
            let request = ClassicPrepareRequest { resource_uid: uid, namespace, name, attributes };
            let answer: ClassicPrepareResponse = client.call(method, request).await?;
            Ok(answer.cdi_device)
        }
        ClassicCall::Unprepare { cdi_ids } => {
            let (resource_id, cdi_device) = (vec![uid], cdi_ids);
            let request = ClassicUnprepareRequest { resource_id, cdi_device, namespace, name };
            let ClassicUnprepareResponse {} = client.call(method, request).await?;
            Ok(Vec::new())
        }
    }
}
