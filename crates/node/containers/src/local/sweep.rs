//! Removes the leftovers of a runtime that was killed.

use std::{collections::BTreeSet, sync::Arc};

use tracing::{info, warn};

use super::{Shared, blocking, failed, list::directories};
use crate::{
    RuntimeError, cgroup,
    layout::{ContainerDir, SandboxDir},
};

impl Shared {
    /// Removes sandboxes and containers that were only partly made, and control groups of sandboxes that are gone. They are in no
    /// list, so no caller would remove them.
    ///
    /// A leftover that cannot be removed is no reason not to start.
    pub(super) async fn sweep(self: &Arc<Self>) {
        let sandboxes = match directories(&self.options.state.join("sandboxes")) {
            Ok(sandboxes) => sandboxes,
            // Nothing is a leftover that is not known to be one.
            Err(error) => return warn!(%error, "look for what is left of sandboxes"),
        };
        for path in &sandboxes {
            if let Err(error) = self.sweep_sandbox(SandboxDir(path.clone())).await {
                warn!(%error, directory = %path.display(), "remove what is left of a sandbox");
            }
        }
        let names: BTreeSet<String> =
            sandboxes.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
        let shared = Arc::clone(self);
        let swept = blocking(move || {
            for pod in shared.cgroups.below(&shared.group).difference(&names) {
                info!(pod, "remove the control group of a sandbox that is gone");
                let group = cgroup::of_pod(&shared.group, pod);
                shared.cgroups.kill_all(&group);
                shared.cgroups.remove(&group).map_err(|error| RuntimeError::Failed(error.to_string()))?;
            }
            Ok(())
        });
        if let Err(error) = swept.await {
            warn!(%error, "remove control groups of sandboxes that are gone");
        }
    }

    async fn sweep_sandbox(self: &Arc<Self>, sandbox: SandboxDir) -> Result<(), RuntimeError> {
        let is_made = sandbox.record().try_exists().map_err(failed(&sandbox.0))?;
        for path in directories(&sandbox.containers())? {
            let container = ContainerDir(path);
            if !is_made || !container.record().try_exists().map_err(failed(&container.0))? {
                info!(directory = %container.0.display(), "remove a container that was not made to its end");
                self.erase(&container).await?;
            }
        }
        if is_made {
            return Ok(());
        }
        info!(directory = %sandbox.0.display(), "remove a sandbox that was not made to its end");
        let shared = Arc::clone(self);
        blocking(move || shared.erase_sandbox(&sandbox)).await
    }
}

impl Drop for Shared {
    /// With sandboxes that run on, the group has others below it and stays.
    fn drop(&mut self) {
        self.cgroups.remove_empty(&self.group);
    }
}
