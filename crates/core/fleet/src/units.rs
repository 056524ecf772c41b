//! A device for a breaker that counts devices, nodes or fault domains: its unit, and whether it is out of service.

use lazaret_model::{BreakerUnit, NodeScope, QualifiedName, Text, Unit};

use crate::DeviceRef;

impl<'a> DeviceRef<'a> {
    /// The node of a device that is on one.
    #[must_use]
    pub fn node(self) -> Option<&'a Text> {
        match self.nodes().unwrap_or_else(|| self.slice().nodes()) {
            NodeScope::Node(node) => Some(node),
            NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => None,
        }
    }

    /// Whether one of its taints keeps new claims away.
    #[must_use]
    pub fn is_out_of_service(self) -> bool {
        self.taints().any(|found| found.taint.effect.blocks_allocation())
    }

    /// Its unit; `None`: nodes are counted, and it is on none. A fault domain is the value of the attribute, patches included; without one it is the
    /// node, and without a single node the pool: every device is in one.
    #[must_use]
    pub fn unit(self, of: &BreakerUnit) -> Option<Unit> {
        let node = || self.node().cloned().map(Unit::Node);
        match of {
            BreakerUnit::Devices => Some(Unit::Device(self.id())),
            BreakerUnit::Nodes => node(),
            BreakerUnit::FaultDomains { attribute } => {
                let pool = || Unit::Pool(self.id().pool_id());
                Some(self.fault_domain(attribute).or_else(node).unwrap_or_else(pool))
            }
        }
    }

    fn fault_domain(self, attribute: &str) -> Option<Unit> {
        let driver = self.id().driver;
        let mut all = self.attributes();
        let (_, _, value) = all.find(|(key, _, _)| QualifiedName::is_same(key, attribute, &driver))?;
        value.as_text().map(Unit::FaultDomain)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{sync::Arc, vec, vec::Vec};

    use lazaret_model::{AttrValue, Device, DeviceId, PoolSpec, ResourceSlice};

    use super::*;
    use crate::{Fleet, Input};

    fn fleet(nodes: NodeScope, attributes: Vec<(Text, AttrValue)>) -> Fleet {
        let device = Device { name: "d".into(), attributes, ..Device::default() };
        let slice = ResourceSlice {
            name: "s".into(),
            driver: "gpu.example.com".into(),
            pool: PoolSpec { name: "p".into(), generation: 1, slice_count: 1 },
            nodes,
            devices: vec![device],
            ..ResourceSlice::default()
        };
        let mut fleet = Fleet::new();
        fleet.apply(Input::Slice(Arc::new(slice)));
        fleet
    }

    #[test]
    fn every_device_is_in_a_fault_domain() {
        let id = DeviceId::new("gpu.example.com", "p", "d");
        let rack = || Unit::FaultDomain("r1".into());
        let node = || NodeScope::Node("n".into());
        let text = || AttrValue::String("r1".into());
        let several = AttrValue::Strings(vec!["r1".into(), "r2".into()].into());
        let rows = [
            (node(), vec![("rack".into(), text())], "rack", rack()),
            (node(), vec![("gpu.example.com/rack".into(), text())], "rack", rack()),
            (node(), vec![("rack".into(), text())], "gpu.example.com/rack", rack()),
            (node(), vec![("rack".into(), text())], "example.com/rack", Unit::Node("n".into())),
            (node(), vec![("example.com/rack".into(), text())], "rack", Unit::Node("n".into())),
            (node(), vec![("rack".into(), AttrValue::Int(7))], "rack", Unit::FaultDomain("7".into())),
            (node(), vec![("rack".into(), several)], "rack", Unit::Node("n".into())),
            (node(), vec![], "rack", Unit::Node("n".into())),
            (NodeScope::All, vec![("rack".into(), text())], "rack", rack()),
            (NodeScope::All, vec![], "rack", Unit::Pool(id.pool_id())),
        ];
        for (nodes, attributes, attribute, unit) in rows {
            let fleet = fleet(nodes.clone(), attributes.clone());
            let of = BreakerUnit::FaultDomains { attribute: attribute.into() };
            let found = fleet.device(&id).and_then(|device| device.unit(&of));
            assert_eq!(found, Some(unit), "{attribute} on {nodes:?} with {attributes:?}");
        }
        let nowhere = fleet(NodeScope::All, vec![]);
        assert_eq!(nowhere.device(&id).and_then(|device| device.unit(&BreakerUnit::Nodes)), None);
    }
}
