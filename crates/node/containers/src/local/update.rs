//! Limits that change while a container runs.

use std::sync::Arc;

use super::{Shared, blocking};
use crate::{Limits, Phase, RuntimeError, cgroup, layout, record::Engine};

impl Shared {
    pub(super) async fn update(
        self: &Arc<Self>,
        id: &str,
        own: Limits,
        of_pod: Limits,
    ) -> Result<(), RuntimeError> {
        if !matches!(self.engine, Engine::Oci { .. }) {
            let what = "limits that change while a container runs".to_owned();
            return Err(RuntimeError::Unsupported { runtime: "one without control groups".to_owned(), what });
        }
        let directory = self.container(id)?;
        let Phase::Running { .. } = self.phase_of(&directory, id).await? else {
            return Err(RuntimeError::NotPossible(format!("container {id} does not run")));
        };
        let key = layout::parse_container_id(id)
            .ok_or_else(|| RuntimeError::NotFound(format!("container {id}")))?;
        let shared = Arc::clone(self);
        blocking(move || {
            let group = cgroup::of_pod(&shared.group, &key.pod_uid);
            let of_container = cgroup::of_container(&shared.group, &key);
            let failed = |error: std::io::Error| RuntimeError::Failed(error.to_string());
            // A group never has more than the one above it: what grows, grows there first; what shrinks, shrinks there last.
            let _ = shared.cgroups.change(&group, &of_pod);
            shared.cgroups.change(&of_container, &own).map_err(failed)?;
            shared.cgroups.change(&group, &of_pod).map_err(failed)
        })
        .await
    }
}
