//! Paths through the API server, without a socket: from a request to a commit, and from a commit to all who watch.

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use lazaret_server::{Body, Server, ServerOptions, User};
use lazaret_store::Store;
use tokio::runtime::Runtime;

const PODS: &str = "/api/v1/namespaces/default/pods";
const WATCHERS: usize = 50;

/// A server in memory, and its user.
struct Served {
    runtime: Runtime,
    server: Server,
    user: User,
}

impl Served {
    fn start() -> Result<Self> {
        // One thread: what happens does not depend on who is faster.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start")?;
        let options = ServerOptions::default();
        let store =
            Store::ephemeral(lazaret_store::Options::default()).map_err(|error| anyhow!("{error}"))?;
        let server = Server::new(store, options);
        runtime.block_on(server.bootstrap()).map_err(|error| anyhow!("{error}"))?;
        let user = User { name: "bench".into(), groups: vec!["system:masters".into()], ..User::default() };
        Ok(Self { runtime, server, user })
    }

    fn ask(&self, method: Method, path: &str, body: String) -> Result<Response<Body>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .header("user-agent", "bench")
            .body(Bytes::from(body))?;
        let response = self.runtime.block_on(self.server.handle(&self.user, request));
        ensure!(response.status().is_success(), "{path} was answered {}", response.status());
        Ok(response)
    }

    fn make_pod(&self, number: usize) -> Result<()> {
        let pod = format!(
            r#"{{"metadata":{{"name":"p-{number:06}","labels":{{"app":"bench"}}}},"spec":{{"serviceAccountName":"default","automountServiceAccountToken":false,"containers":[{{"name":"main","image":"app:1","resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}}}}]}}}}"#
        );
        let answer = self.ask(Method::POST, PODS, pod)?;
        self.runtime.block_on(answer.into_body().collect()).map_err(|error| anyhow!("{error}"))?;
        Ok(())
    }
}

/// A pod is made: read, defaulted, checked, committed, answered.
pub(super) fn commit(rounds: usize) -> Result<()> {
    let served = Served::start()?;
    (0..rounds).try_for_each(|number| served.make_pod(number))
}

/// A pod is created, and fifty watches deliver it.
pub(super) fn watch_fan_out(rounds: usize) -> Result<()> {
    let served = Served::start()?;
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        watches.push(
            served
                .ask(Method::GET, &format!("{PODS}?watch=true&resourceVersion=0"), String::new())?
                .into_body(),
        );
    }
    for number in 0..rounds {
        served.make_pod(number)?;
        for watch in &mut watches {
            let event = served.runtime.block_on(watch.frame()).context("a watch ended")?;
            event.map_err(|error| anyhow!("{error}"))?;
        }
    }
    Ok(())
}
