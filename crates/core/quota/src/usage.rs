//! The usage of one object.

use alloc::{collections::BTreeMap, format, string::String};

use lazaret_model::{Quantity, Timestamp};

use crate::{
    Amounts, Classes, Counted, DeviceClaim, Facts,
    counted::{CLASS_DEVICES, REQUESTS, REQUESTS_DEVICE_CLASS, STORAGE_CLASS},
    facts::{Service, VolumeClaim, Wanted},
    pod::Activity,
    scopes::Traits,
};

/// The amounts that one object uses, and the properties that scopes match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// As long as the object exists.
    always: Amounts,
    /// Amounts that a pod no longer uses once it has ended.
    while_active: Amounts,
    activity: Activity,
    pub(crate) traits: Traits,
}

impl Usage {
    /// The usage of an object of a kind. `pod`: the usage of the pod for whose extended resources a claim was made, if it was.
    #[must_use]
    pub fn of(kind: &Counted, facts: &Facts, classes: &Classes, pod: Option<&Amounts>) -> Self {
        let one = || Quantity::from_i64(1);
        let mut always = Amounts::default();
        always.set(kind.count.as_str(), one());
        if let Some(short) = kind.short {
            always.set(short, one());
        }
        let mut usage = Self {
            always,
            while_active: Amounts::default(),
            activity: Activity::Lasting,
            traits: facts.traits(),
        };
        match facts {
            Facts::Pod(pod) => {
                usage.while_active = pod.amounts();
                usage.activity = pod.activity();
            }
            Facts::Service(service) => of_service(service, &mut usage.always),
            Facts::VolumeClaim(claim) => of_volume_claim(claim, &mut usage.always),
            Facts::DeviceClaim(claim) => of_device_claim(claim, classes, pod, &mut usage.always),
            Facts::Other => {}
        }
        usage
    }

    /// The amounts used at a time.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Amounts {
        let mut amounts = self.always.clone();
        if self.is_active(now) {
            amounts.add(&self.while_active);
        }
        amounts
    }

    fn is_active(&self, now: Timestamp) -> bool {
        match self.activity {
            Activity::Lasting => true,
            Activity::Until(at) => now <= at,
            Activity::Ended => false,
        }
    }

    /// When it begins to use less by itself.
    pub(crate) fn ends_after(&self, now: Timestamp) -> Option<Timestamp> {
        match self.activity {
            Activity::Until(at) if now <= at => Some(at),
            Activity::Until(_) | Activity::Lasting | Activity::Ended => None,
        }
    }
}

fn of_service(service: &Service, amounts: &mut Amounts) {
    let spec = &service.spec;
    let ports = spec.ports.as_deref().unwrap_or_default();
    let (mut balancers, mut node_ports) = (0, 0);
    match spec.kind.as_deref() {
        Some("NodePort") => node_ports = ports.len(),
        Some("LoadBalancer") => {
            balancers = 1;
            node_ports = if spec.allocate_load_balancer_node_ports == Some(false) {
                ports.iter().filter(|port| port.node_port.unwrap_or(0) != 0).count()
            } else {
                ports.len()
            };
        }
        // Neither node ports nor load balancers.
        _ => {}
    }
    for (name, count) in
        [("services", 1), ("services.loadbalancers", balancers), ("services.nodeports", node_ports)]
    {
        amounts.set(name, Quantity::from_i64(i64::try_from(count).unwrap_or(i64::MAX)));
    }
}

fn of_volume_claim(claim: &VolumeClaim, amounts: &mut Amounts) {
    let class = claim.storage_class();
    let mut set = |name: &str, amount: &Quantity| {
        amounts.set(name, amount.clone());
        if !class.is_empty() {
            amounts.set(format!("{class}{STORAGE_CLASS}{name}"), amount.clone());
        }
    };
    set("persistentvolumeclaims", &Quantity::from_i64(1));
    let Some(requested) = claim.spec.resources.requests.get("storage") else { return };
    let allocated = claim.status.allocated_resources.get("storage");
    let storage = allocated.filter(|allocated| *allocated > requested).unwrap_or(requested);
    set("requests.storage", &whole_units(storage));
}

fn whole_units(amount: &Quantity) -> Quantity {
    match amount.value_i64_rounded_up() {
        Some(units) if !amount.is_integer() => Quantity::from_i64_format(units, amount.format()),
        Some(_) | None => amount.clone(),
    }
}

fn of_device_claim(claim: &DeviceClaim, classes: &Classes, pod: Option<&Amounts>, amounts: &mut Amounts) {
    let mut by_class: BTreeMap<&str, i64> = BTreeMap::new();
    for request in claim.spec.devices.requests.iter().flatten() {
        let choices = request.first_available.as_deref().unwrap_or_default();
        if choices.is_empty() {
            let exactly = request.exactly.iter();
            exactly.for_each(|wanted| {
                *by_class.entry(&wanted.device_class_name).or_default() += wanted.devices()
            });
            continue;
        }
        // Which of them it will be is not known: of each class the most.
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for wanted in choices {
            let known = most.entry(&wanted.device_class_name).or_default();
            *known = Wanted::devices(wanted).max(*known);
        }
        most.into_iter().for_each(|(class, count)| *by_class.entry(class).or_default() += count);
    }
    for (class, count) in by_class {
        let count = Quantity::from_i64(count);
        amounts.set(format!("{class}{CLASS_DEVICES}"), count.clone());
        let mut as_extended = |name: String| {
            let counted = pod.and_then(|pod| pod.get(&name));
            let rest = counted.map_or_else(|| count.clone(), |counted| count.sub(counted));
            if rest.sign() > 0 {
                amounts.add_one(&name, &rest);
            }
        };
        as_extended(format!("{REQUESTS_DEVICE_CLASS}{class}"));
        if let Some(extended) = classes.extended(class) {
            as_extended(format!("{REQUESTS}{extended}"));
        }
    }
}
