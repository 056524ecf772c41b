//! The types of the dashboard's page are those that the server's OpenAPI documents say. `UPDATE_TYPES=1` writes them anew.

use std::{env, fs, path::Path};

use lazaret_testkit::Cluster;
use serde_json::{Map, Value};

use crate::tools;

/// The documents with the kinds that the page reads.
const DOCUMENTS: [&str; 7] = [
    "api/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/lazaret.dev/v1alpha1",
    "apis/resource.k8s.io/v1",
    "apis/resource.k8s.io/v1alpha3",
    "apis/resource.k8s.io/v1beta1",
];

#[tokio::test]
async fn the_types_of_the_page_are_those_of_the_server() {
    let cluster = Cluster::options().serve("api/all", true).start().unwrap();
    let client = cluster.client();
    let mut documents = Map::new();
    for path in DOCUMENTS {
        let request = http::Request::get(format!("/openapi/v3/{path}")).body(Vec::new()).unwrap();
        let document: Value = client.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        documents.insert(path.to_owned(), document);
    }
    let dashboard = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../server/dashboard");
    let mut command = tools::node();
    command.arg(dashboard.join("types.mjs"));
    let types = tools::run_with(&mut command, Value::Object(documents).to_string().as_bytes());
    let file = dashboard.join("ui/types/api.d.ts");
    if env::var_os("UPDATE_TYPES").is_some() {
        fs::write(&file, &types).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap();
    assert!(
        known == types,
        "ui/types/api.d.ts is not what types.mjs makes of the server's documents: UPDATE_TYPES=1 cargo test -p lazaret-testkit --test e2e page_types"
    );
}
