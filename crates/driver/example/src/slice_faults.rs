//! Slices as a driver with a mistake would publish them. The kit would not: it is paused while they are there.

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};

use crate::command::{CommandError, SliceFault};

/// The device of a stale slice. It is nowhere.
const STALE_DEVICE: &str = "stale-0";

/// Publishes something wrong beside what the driver has published.
pub(crate) async fn publish(
    client: &kube::Client,
    driver: &str,
    node: &str,
    wrong: SliceFault,
) -> Result<(), CommandError> {
    let failed = |error: kube::Error| CommandError::Api(error.to_string());
    let api: Api<ResourceSlice> = Api::all(client.clone());
    let fields = format!("spec.driver={driver},spec.nodeName={node}");
    let slices = api.list(&ListParams::default().fields(&fields)).await.map_err(failed)?.items;
    let newest = slices.iter().max_by_key(|slice| slice.spec.pool.generation);
    let newest = newest.ok_or_else(|| CommandError::Api("no slice is published yet".into()))?;
    match wrong {
        SliceFault::Silent => Ok(()),
        SliceFault::Stale => {
            let mut slice = ResourceSlice {
                metadata: ObjectMeta {
                    generate_name: Some(format!("{:05x}-{driver}-{node}-", slices.len())),
                    owner_references: newest.metadata.owner_references.clone(),
                    ..ObjectMeta::default()
                },
                spec: newest.spec.clone(),
            };
            slice.spec.pool.generation = (newest.spec.pool.generation - 1).max(0);
            slice.spec.shared_counters = None;
            slice.spec.devices = Some(vec![Device { name: STALE_DEVICE.into(), ..Device::default() }]);
            api.create(&PostParams::default(), &slice).await.map(drop).map_err(failed)
        }
        SliceFault::Incomplete => {
            let mut slice = newest.clone();
            slice.spec.pool.generation += 1;
            slice.spec.pool.resource_slice_count += 1;
            let name = slice.metadata.name.clone().unwrap_or_default();
            api.replace(&name, &PostParams::default(), &slice).await.map(drop).map_err(failed)
        }
    }
}
