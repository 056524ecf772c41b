//! Ingresses and network policies: checked and kept. Nothing here routes or filters.

mod ingress;
mod ingress_class;
mod network_policy;
#[cfg(test)]
mod tests;

pub(crate) use ingress::Ingress;
pub(crate) use ingress_class::IngressClass;
pub(crate) use network_policy::NetworkPolicy;
