//! The node half of the fabric: a CDI file for each claim.

use std::path::PathBuf;

use lazaret_cdi::{ContainerEdits, Device, Spec, SpecDirectory};
use lazaret_driver::{ClaimRef, ClassicClaim, ClassicDriver, ClassicFailure};

use crate::{DEVICE_ATTRIBUTE, fabric_parameters::environment};

/// The class of its CDI devices.
const CLASS: &str = "fabric";

/// The plugin of a fabric on one node. It keeps nothing but CDI files, which it finds by the UID of the claim.
#[derive(Debug)]
pub struct FabricPlugin {
    driver: String,
    cdi: SpecDirectory,
}

impl FabricPlugin {
    /// For a driver of this name, with its CDI files there.
    #[must_use]
    pub fn new(driver: &str, cdi: impl Into<PathBuf>) -> Self {
        Self { driver: driver.to_owned(), cdi: SpecDirectory::new(cdi) }
    }

    fn file_of(&self, uid: &str) -> String {
        SpecDirectory::transient_name(&self.driver, CLASS, uid)
    }
}

impl ClassicDriver for FabricPlugin {
    async fn prepare(&self, claim: &ClassicClaim) -> Result<Vec<String>, ClassicFailure> {
        let uid = &claim.id.uid;
        let none = || ClassicFailure::NotFound(format!("no device is attached for claim {uid}"));
        let device = claim.attributes.get(DEVICE_ATTRIBUTE).ok_or_else(none)?;
        let mut env = vec![format!("FABRIC_DEVICE={device}"), format!("FABRIC_RESOURCE_CLAIM={uid}")];
        env.extend(environment(&claim.attributes));
        let edits = ContainerEdits { env, ..ContainerEdits::default() };
        let kind = format!("{}/{CLASS}", self.driver);
        self.cdi
            .write(&self.file_of(uid), &Spec::new(kind.clone(), vec![Device::new(uid.clone(), edits)]))?;
        Ok(vec![format!("{kind}={uid}")])
    }

    async fn unprepare(&self, claim: &ClaimRef) -> Result<(), ClassicFailure> {
        Ok(self.cdi.remove(&self.file_of(&claim.uid))?)
    }
}
