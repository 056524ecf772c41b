//! Where config maps, secrets and tokens come from.

use std::{fmt, pin::Pin};

use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{ConfigMap, Secret, ServiceAccount},
};
use kube::{Api, api::PostParams};

/// An object that is on its way; the text says why it did not arrive.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Where config maps, secrets and tokens come from. `None` is an object that does not exist.
pub trait Objects: fmt::Debug + Send + Sync {
    /// Reads a config map.
    fn config_map<'a>(&'a self, namespace: &'a str, name: &'a str) -> Reading<'a, Option<ConfigMap>>;

    /// Reads a secret.
    fn secret<'a>(&'a self, namespace: &'a str, name: &'a str) -> Reading<'a, Option<Secret>>;

    /// Asks for a token of a service account.
    fn token<'a>(
        &'a self,
        namespace: &'a str,
        account: &'a str,
        request: TokenRequest,
    ) -> Reading<'a, TokenRequest>;
}

/// Objects of an API server.
#[derive(Clone)]
pub struct ApiObjects {
    client: kube::Client,
}

impl ApiObjects {
    /// Reads with the rights of this client.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }
}

impl fmt::Debug for ApiObjects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ApiObjects").finish_non_exhaustive()
    }
}

impl Objects for ApiObjects {
    fn config_map<'a>(&'a self, namespace: &'a str, name: &'a str) -> Reading<'a, Option<ConfigMap>> {
        Box::pin(async move {
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
            api.get_opt(name).await.map_err(|error| text(&error))
        })
    }

    fn secret<'a>(&'a self, namespace: &'a str, name: &'a str) -> Reading<'a, Option<Secret>> {
        Box::pin(async move {
            let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
            api.get_opt(name).await.map_err(|error| text(&error))
        })
    }

    fn token<'a>(
        &'a self,
        namespace: &'a str,
        account: &'a str,
        request: TokenRequest,
    ) -> Reading<'a, TokenRequest> {
        Box::pin(async move {
            let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
            let answer = api.create_subresource("token", account, &PostParams::default(), &request).await;
            answer.map_err(|error| text(&error))
        })
    }
}

/// The server's own message.
fn text(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error { status.message.clone() } else { error.to_string() }
}
