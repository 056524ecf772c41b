//! Resource usage of containers.

use std::{fs, sync::Arc};

use super::{Shared, blocking};
use crate::{Phase, RuntimeError, Usage, cgroup, layout, process, record::Engine};

/// Nanoseconds of a tick, of which Linux counts 100 a second for programs.
const TICK_NANOSECONDS: u64 = 10_000_000;
/// Bytes of a page.
const PAGE_BYTES: u64 = 4_096;

impl Shared {
    pub(super) async fn usage(self: &Arc<Self>, id: &str) -> Result<Usage, RuntimeError> {
        let directory = self.container(id)?;
        let Phase::Running { pid, .. } = self.phase_of(&directory, id).await? else {
            return Err(RuntimeError::NotPossible(format!("container {id} does not run")));
        };
        let unknown = || RuntimeError::NotFound(format!("container {id}"));
        let key = layout::parse_container_id(id).ok_or_else(unknown)?;
        let shared = Arc::clone(self);
        blocking(move || {
            Ok(match shared.engine {
                Engine::Oci { .. } => shared.cgroups.usage(&cgroup::of_container(&shared.group, &key)),
                Engine::Processes => sum(|other| session(other) == Some(pid)),
                Engine::Namespaces => {
                    let own = fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
                    sum(|other| own.is_some() && fs::read_link(format!("/proc/{other}/ns/pid")).ok() == own)
                }
            })
        })
        .await
    }
}

fn session(pid: u32) -> Option<u32> {
    process::stat(pid)?.get(3)?.parse().ok()
}

/// Adds up what processes use.
fn sum(is_ours: impl Fn(u32) -> bool) -> Usage {
    let mut usage = Usage::default();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in
        pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| is_ours(*pid))
    {
        let Some(stat) = process::stat(pid) else { continue };
        let field = |at: usize| stat.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        usage.cpu_nanoseconds += (field(11) + field(12)) * TICK_NANOSECONDS;
        usage.memory += field(21) * PAGE_BYTES;
        usage.pids += field(17);
    }
    usage.memory_working_set = usage.memory;
    usage
}
