//! A server in memory and a client without a socket.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_memory::Memory;
use lazaret_server::{Access, Authorizer, ObjectStore, Server, ServerOptions, User};
use lazaret_storage::Storage;
use lazaret_store::Store;

#[derive(Debug)]
pub(crate) struct AllowAll;

impl Authorizer for AllowAll {
    fn access(&self, _: &ObjectStore, _: &User, _: Access<'_>) -> Result<(), String> {
        Ok(())
    }

    fn path(&self, _: &ObjectStore, _: &User, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) user: User,
}

pub(crate) struct Answer {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }

    pub(crate) fn body(&self) -> &Value {
        &self.body
    }

    pub(crate) fn is(&self, code: u16) -> bool {
        self.code == code
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl Api {
    /// A server over a store that may already be in use.
    pub(crate) fn over(store: impl Into<Arc<dyn Storage>>) -> Self {
        let options = ServerOptions {
            runtime_config: vec![("api/all".into(), true)],
            authorizer: Box::new(AllowAll),
            ..ServerOptions::default()
        };
        Self { server: Server::new(store, options), user: User { name: "tester".into(), ..User::default() } }
    }

    pub(crate) async fn start() -> Self {
        Self::start_over(Store::ephemeral(lazaret_store::Options::default()).unwrap()).await
    }

    /// One server over each store that there is, for tests of behaviour that depends on the store.
    pub(crate) async fn over_each_store() -> [Self; 2] {
        [Self::start().await, Self::start_over(Memory::default()).await]
    }

    async fn start_over(store: impl Into<Arc<dyn Storage>>) -> Self {
        let api = Self::over(store);
        for name in ["default", "kube-system"] {
            api.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.expect(201);
        }
        api
    }

    pub(crate) async fn send(&self, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
        self.request(method, path, "application/json", content_type, body.as_bytes().to_vec().into()).await
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        accept: &str,
        content_type: &str,
        body: Bytes,
    ) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, "test/1.0")
            .body(body)
            .unwrap();
        let response = self.server.handle(&self.user, request).await;
        let code = response.status().as_u16();
        let warnings = response
            .headers()
            .get_all(header::WARNING)
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned().into()));
        Answer { code, warnings, body }
    }

    /// The body of a watch.
    pub(crate) async fn stream(&self, path: &str) -> lazaret_server::Body {
        let request = Request::builder().uri(path).body(Bytes::new()).unwrap();
        let response = self.server.handle(&self.user, request).await;
        assert_eq!(response.status().as_u16(), 200);
        response.into_body()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "").await
    }

    /// A body as it came.
    pub(crate) async fn raw(&self, path: &str) -> String {
        let request = Request::builder().uri(path).body(Bytes::new()).unwrap();
        let response = self.server.handle(&self.user, request).await;
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.request("GET", path, accept, "", Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, "application/json", &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, "application/json", &body.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, content_type: &str, body: &Value) -> Answer {
        self.send("PATCH", path, content_type, &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str, options: Option<&Value>) -> Answer {
        self.send("DELETE", path, "application/json", &options.map(Value::to_string).unwrap_or_default())
            .await
    }
}
