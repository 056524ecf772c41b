//! Everything that was written goes to the watches.

use super::{CLIENTS, World};
use crate::{actors::kubelet_watches::Watch, api::Kind};

impl World {
    /// Tells those who watch of everything written since the last call.
    pub(super) fn tell(&mut self) {
        let written = self.api.versions.last();
        if core::mem::replace(&mut self.written, written) == written {
            return;
        }
        if let Some(times) = &mut self.times {
            times.written(written, self.now);
        }
        self.api.catalogue();
        self.plan_objects();
        let lengths = [
            self.api.slices.log().len(),
            self.api.rules.log().len(),
            self.api.patches.log().len(),
            self.api.classes.log().len(),
            self.api.claims.log().len(),
            self.api.pods.log().len(),
            self.api.nodes.log().len(),
        ];
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            let from = core::mem::replace(&mut self.told[number], lengths[number]);
            if from == lengths[number] {
                continue;
            }
            for client in 0..CLIENTS {
                self.plan_delivery(client, kind);
            }
            match kind {
                Kind::Pod => self.plan_kubelet_delivery(Watch::Pods),
                Kind::Claim => {
                    self.plan_kubelet_delivery(Watch::Claims);
                    self.claims_written(from);
                }
                Kind::Slice | Kind::Rule | Kind::Patch | Kind::Class | Kind::Node => {}
            }
        }
    }

    fn claims_written(&mut self, from: usize) {
        for at in from..self.api.claims.log().len() {
            self.check_claim_written(at);
            self.driver_sees(at);
        }
    }
}
