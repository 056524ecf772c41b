//! The cached tree of an object goes with the object.

use lazaret_json::json;

use crate::support::Api;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const COUNT: usize = 200;

async fn kept(api: &Api) -> usize {
    let metrics = api.get("/metrics").await.expect(200);
    let line = metrics.as_str().unwrap().lines().find_map(|line| line.strip_prefix("lazaret_trees_kept "));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn no_tree_is_kept_of_an_object_that_is_gone() {
    let api = Api::start().await;
    let before = kept(&api).await;
    for number in 0..COUNT {
        let name = format!("m-{number}");
        let finalizers = if number % 2 == 0 { json!(["example.com/f"]) } else { json!([]) };
        let map = json!({"metadata": {"name": name, "finalizers": finalizers}, "data": {"k": "1"}});
        api.post(MAPS, &map).await.expect(201);
        let patch = json!({"data": {"k": "2"}});
        api.patch(&format!("{MAPS}/{name}"), "application/merge-patch+json", &patch).await.expect(200);
    }
    // Some may share a place.
    assert!(kept(&api).await > before + COUNT / 2);
    for number in 0..COUNT {
        let path = format!("{MAPS}/m-{number}");
        api.delete(&path, None).await.expect(200);
        if number % 2 == 0 {
            // It goes with its last finalizer.
            let patch = json!({"metadata": {"finalizers": null}});
            api.patch(&path, "application/merge-patch+json", &patch).await.expect(200);
        }
        api.get(&path).await.expect(404);
    }
    let after = kept(&api).await;
    assert!(after <= before, "{after} are kept, and {before} were");
}
