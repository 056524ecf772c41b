//! Devices in place of extended resources: what a container asks for by the name of a resource becomes a request of a
//! claim that the scheduler makes.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    sync::Arc,
    vec::Vec,
};

use hashbrown::HashMap;
use lazaret_fleet::Snapshot;
use lazaret_invariant::invariant;
use lazaret_model::{
    AllocationMode, ClaimSpec, DeviceClass, DeviceRequest, Request, RequestKind, Text, Timestamp,
};
use rustc_hash::FxBuildHasher;

use crate::{Container, Mapping, Pod, Role};

/// The class of a name can be asked for as an extended resource of this domain.
const CLASS_DOMAIN: &str = "deviceclass.resource.kubernetes.io/";

/// For each resource that devices can stand in for, the class they must be of.
pub(crate) type ClassesByResource = HashMap<Text, Text, FxBuildHasher>;

/// The resources that classes can stand in for. Of two classes for one resource the younger is taken, of two of the same
/// age the one whose name comes first.
pub(crate) fn delegated(snapshot: &Snapshot) -> ClassesByResource {
    let mut found = ClassesByResource::default();
    let mut best: BTreeMap<Text, Arc<DeviceClass>> = BTreeMap::new();
    for class in snapshot.classes().map(|state| &state.class) {
        found.insert(format!("{CLASS_DOMAIN}{}", class.name).into(), class.name.clone());
        let Some(resource) = &class.extended_resource_name else { continue };
        let age = |class: &DeviceClass| class.created.unwrap_or(Timestamp::EPOCH);
        // Classes come by name: only a younger one is better.
        if best.get(resource).is_none_or(|known| age(class) > age(known)) {
            best.insert(resource.clone(), class.clone());
        }
    }
    found.extend(best.into_iter().map(|(resource, class)| (resource, class.name.clone())));
    found
}

/// The resources that a pod asks for and devices can stand in for.
pub(crate) fn wanted(pod: &Pod, delegated: &ClassesByResource) -> Vec<Text> {
    let asked: BTreeSet<&Text> =
        pod.spec.containers.iter().flat_map(|container| container.extended.keys()).collect();
    asked.into_iter().filter(|name| delegated.contains_key(*name)).cloned().collect()
}

/// The spec of a claim whose devices serve these resources, and which request serves which container.
///
/// An init container reuses devices of containers that come after it; for the devices that they lack there
/// is one request, as large as the most demanding init container needs.
pub(crate) fn requests(
    pod: &Pod,
    resources: &[Text],
    delegated: &ClassesByResource,
) -> (ClaimSpec, Vec<Mapping>) {
    let mut all: Vec<Request> = Vec::new();
    let mut mappings = Vec::new();
    for resource in resources {
        let Some(class) = invariant!(delegated.get(resource), "a resource that is asked for is delegated")
        else {
            continue;
        };
        let asking = || pod.spec.containers.iter().filter(|c| c.extended.contains_key(resource));
        let mut lasting: Vec<(usize, Text, i64)> = Vec::new();
        for container in asking().filter(|container| container.role != Role::Init) {
            let Some((name, amount)) = request_of(container, resource) else { continue };
            mappings.push(mapping(container, resource, &name));
            lasting.push((container.index, name, amount));
        }
        let mut extra: Option<(Text, i64)> = None;
        let mut lacking = Vec::new();
        for container in asking().filter(|container| container.role == Role::Init) {
            let Some((name, amount)) = request_of(container, resource) else { continue };
            let mut lent = 0;
            for (_, later, count) in lasting.iter().filter(|(index, ..)| *index >= container.index) {
                if lent < amount {
                    mappings.push(mapping(container, resource, later));
                    lent += count;
                }
            }
            if lent < amount {
                lacking.push(container);
                if extra.as_ref().is_none_or(|(_, most)| *most < amount - lent) {
                    extra = Some((name, amount - lent));
                }
            }
        }
        if let Some((name, _)) = &extra {
            mappings.extend(lacking.into_iter().map(|container| mapping(container, resource, name)));
        }
        all.extend(extra.map(|(name, amount)| request(name, class, amount)));
        all.extend(lasting.into_iter().map(|(_, name, amount)| request(name, class, amount)));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    (ClaimSpec { requests: all, ..ClaimSpec::default() }, mappings)
}

fn request_of(container: &Container, resource: &Text) -> Option<(Text, i64)> {
    let asked = container.extended.get(resource).filter(|asked| asked.amount > 0)?;
    Some((format!("container-{}-request-{}", container.index, asked.place).into(), asked.amount))
}

fn mapping(container: &Container, resource: &Text, request: &Text) -> Mapping {
    Mapping { container: container.name.clone(), resource: resource.clone(), request: request.clone() }
}

fn request(name: Text, class: &Text, amount: i64) -> Request {
    let request = DeviceRequest {
        class: class.clone(),
        mode: AllocationMode::Exact(amount),
        ..DeviceRequest::default()
    };
    Request { name, kind: RequestKind::Exactly(request) }
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec};

    use super::*;
    use crate::{Extended, PodSpec};

    const GPU: &str = "example.com/gpu";

    fn container(index: usize, role: Role, amount: i64) -> Container {
        let extended = [(GPU.into(), Extended { amount, place: 1 })].into();
        Container { name: format!("c{index}").into(), index, role, extended }
    }

    /// Requests as `name=count`, mappings as `container>request`.
    fn shown(containers: Vec<Container>) -> String {
        let pod = Pod { spec: Arc::new(PodSpec { containers, ..PodSpec::default() }), ..Pod::default() };
        let delegated: ClassesByResource = [(Text::from(GPU), Text::from("gpu"))].into_iter().collect();
        let (spec, mappings) = requests(&pod, &wanted(&pod, &delegated), &delegated);
        let short = |name: &Text| name.replace("container-", "").replace("-request-1", "");
        let mut words: Vec<String> = spec
            .requests
            .iter()
            .map(|request| match &request.kind {
                RequestKind::Exactly(DeviceRequest { mode: AllocationMode::Exact(count), class, .. }) => {
                    assert_eq!(*class, "gpu");
                    format!("{}={count}", short(&request.name))
                }
                RequestKind::Exactly(_) | RequestKind::FirstAvailable(_) | RequestKind::Unknown => {
                    panic!("{request:?}")
                }
            })
            .collect();
        words.extend(mappings.iter().map(|m| format!("{}>{}", m.container, short(&m.request))));
        words.join(" ")
    }

    #[test]
    fn containers_that_initialise_borrow_from_those_that_come_after() {
        use Role::{Init, Main, Sidecar};
        for (containers, expected) in [
            (vec![container(0, Main, 2)], "0=2 c0>0"),
            (vec![container(0, Main, 0)], ""),
            (vec![container(0, Main, 1), container(1, Main, 1)], "0=1 1=1 c0>0 c1>1"),
            // Lent by the one that follows.
            (vec![container(0, Init, 1), container(1, Main, 2)], "1=2 c1>1 c0>1"),
            // Two are lent, one more is needed.
            (vec![container(0, Init, 3), container(1, Main, 2)], "0=1 1=2 c1>1 c0>1 c0>0"),
            // One request for both, as large as the larger needs.
            (vec![container(0, Init, 1), container(1, Init, 3)], "1=3 c0>1 c1>1"),
            // A sidecar that has begun holds on to its own.
            (vec![container(0, Sidecar, 1), container(1, Init, 1)], "0=1 1=1 c0>0 c1>1"),
            (
                vec![container(0, Init, 2), container(1, Sidecar, 1), container(2, Main, 1)],
                "1=1 2=1 c1>1 c2>2 c0>1 c0>2",
            ),
        ] {
            assert_eq!(shown(containers), expected);
        }
    }
}
