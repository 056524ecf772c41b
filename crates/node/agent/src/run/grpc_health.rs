//! `grpc.health.v1.Health`, asked once.

use lazaret_driver::Client;
use tokio::net::TcpStream;
use tonic::Code;

const CHECK: &str = "/grpc.health.v1.Health/Check";
/// `HealthCheckResponse.ServingStatus`.
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
const SERVING: i32 = 1;

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Asks over a connection how a service is. The answer, and why not, in kubelet's words.
pub(super) async fn check(address: &str, stream: TcpStream, service: &str) -> Result<String, String> {
    let mut client = Client::over(stream)
        .await
        .map_err(|error| format!("error: failed to connect service at {address:?}: {error}"))?;
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer: Result<HealthCheckResponse, tonic::Status> = client.call(CHECK, request).await;
    match answer {
        Ok(answer) if answer.status == SERVING => Ok("service healthy".to_owned()),
        Ok(answer) => {
            let known = usize::try_from(answer.status).ok().and_then(|status| STATUSES.get(status));
            let status = known.map_or_else(|| answer.status.to_string(), |name| (*name).to_owned());
            Err(format!("service unhealthy (responded with {status:?})"))
        }
        Err(status) if status.code() == Code::Unimplemented => Err(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            status.message()
        )),
        Err(status) => Err(format!("error: health rpc probe failed: {status}")),
    }
}
