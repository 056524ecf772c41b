//! A whole driver: two GPUs that are environment variables, and the files that say they are well.

use std::{collections::BTreeMap, path::Path};

use k8s_openapi::api::resource::v1::Device;
use lazaret_cdi::{ContainerEdits, Device as CdiDevice, Spec, SpecDirectory};
use lazaret_driver::{
    Claim, ClaimRef, Condition, DeviceKey, Driver, Failure, HealthReport, Kit, Observation, Pool,
    PreparedDevice, Running, StartError,
};

const DRIVER: &str = "minimal.example.com";
const KIND: &str = "minimal.example.com/gpu";
const GPUS: [&str; 2] = ["gpu-0", "gpu-1"];

type Started = Result<Running, StartError>;

struct Gpus {
    node: String,
    cdi: SpecDirectory,
    /// A GPU is well unless there is a file with its name here.
    faults: std::path::PathBuf,
}

impl Gpus {
    /// One CDI file for each claim: it says what a container with these devices gets.
    fn prepare_one(&self, claim: &Claim) -> Result<Vec<PreparedDevice>, Failure> {
        let (mut cdi, mut prepared) = (Vec::new(), Vec::new());
        for device in &claim.devices {
            let name = format!("{}-{}", claim.id.uid, device.device);
            let edits =
                ContainerEdits { env: vec![format!("GPU={}", device.device)], ..ContainerEdits::default() };
            prepared.push(PreparedDevice::of(device).with_cdi(format!("{KIND}={name}")));
            cdi.push(CdiDevice::new(name, edits));
        }
        self.cdi.write(&claim.id.uid, &Spec::new(KIND, cdi))?;
        Ok(prepared)
    }
}

impl Driver for Gpus {
    async fn prepare(&self, claims: &[Claim]) -> Vec<Result<Vec<PreparedDevice>, Failure>> {
        claims.iter().map(|claim| self.prepare_one(claim)).collect()
    }

    async fn unprepare(&self, claims: &[ClaimRef]) -> Vec<Result<(), Failure>> {
        claims.iter().map(|claim| Ok(self.cdi.remove(&claim.uid)?)).collect()
    }

    async fn health(&self) -> HealthReport {
        let look = |gpu: &&str| {
            let fault = std::fs::read_to_string(self.faults.join(gpu)).ok();
            let conditions =
                fault.map(|text| Condition { name: "broken".into(), detail: text.trim().into() });
            let device = DeviceKey { pool: self.node.clone(), device: (*gpu).into() };
            Observation { device, found: Ok(conditions.into_iter().collect()) }
        };
        HealthReport::Observed(GPUS.iter().map(look).collect())
    }
}

/// Starts the driver for a node, whose kubelet keeps its files in `root`.
pub(crate) async fn start(client: kube::Client, node: &str, root: &Path, cdi: &Path) -> Started {
    let devices = GPUS.map(|name| Device { name: name.into(), ..Device::default() });
    let pools = BTreeMap::from([(node.to_owned(), Pool::of(devices.to_vec()))]);
    let gpus = Gpus { node: node.into(), cdi: SpecDirectory::new(cdi), faults: root.join("faults") };
    Kit::new(DRIVER, client).node(node).kubelet_root(root).pools(pools).start(gpus).await
}

#[allow(dead_code, reason = "a test starts it in its own process")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = std::env::var("NODE_NAME")?;
    let client = kube::Client::try_default().await?;
    let root = Path::new(lazaret_driver::KUBELET_ROOT);
    let running = start(client, &node, root, Path::new(lazaret_cdi::DYNAMIC_DIRECTORY)).await?;
    tokio::signal::ctrl_c().await?;
    running.stop().await;
    Ok(())
}
