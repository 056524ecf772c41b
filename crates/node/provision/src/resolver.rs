//! The resolver of a pod, as its DNS policy wants it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};

use crate::{NodeFacts, SpecError, pod::PodView, resolver_config::ResolverConfig};

/// Resolvers read no more name servers than this.
const NAMESERVERS_MAX: usize = 3;
/// Kubernetes' own limit on search domains.
const SEARCHES_MAX: usize = 32;
/// Kubernetes' own limit on all search domains together, with a space between them.
const SEARCH_LINE_BYTES_MAX: usize = 2048;
/// A longer domain makes some resolvers abort.
const SEARCH_BYTES_MAX: usize = 253;

/// An event about a pod's resolver, for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverNote {
    /// `MissingClusterDNS` or `DNSConfigForming`.
    pub reason: &'static str,
    /// The settings that were left out or replaced.
    pub message: String,
}

/// The resolver of a pod, and what its owner should know of it.
///
/// # Errors
/// When the pod has no spec.
pub fn pod_resolver(pod: &Pod, facts: &NodeFacts) -> Result<(ResolverConfig, Vec<ResolverNote>), SpecError> {
    let view = PodView::new(pod)?;
    let mut notes = Vec::new();
    let policy = view.spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let of_cluster = match policy {
        "ClusterFirst" => !view.is_host_network(),
        "ClusterFirstWithHostNet" => true,
        _ => false,
    };
    let mut config = match policy {
        "None" => ResolverConfig::default(),
        _ if of_cluster && !facts.cluster_dns.is_empty() => cluster_first(&view, facts),
        _ => {
            if of_cluster {
                notes.push(ResolverNote {
                    reason: "MissingClusterDNS",
                    message: format!(
                        "pod: {:?}. kubelet does not have ClusterDNS IP configured and cannot create \
                         Pod using \"ClusterFirst\" policy. Falling back to \"Default\" policy.",
                        view.long_name()
                    ),
                });
            }
            facts.resolver.clone()
        }
    };
    if let Some(own) = &view.spec.dns_config {
        append(&mut config, own);
    }
    fit(&mut config, &mut notes);
    // A line break would be a line of its own in the file.
    for word in config.servers.iter().chain(&config.searches).chain(&config.options) {
        if word.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            return Err(SpecError::sandbox(format!("{word:?} cannot stand in resolv.conf")));
        }
    }
    Ok((config, notes))
}

fn cluster_first(view: &PodView<'_>, facts: &NodeFacts) -> ResolverConfig {
    let domain = &facts.cluster_domain;
    let mut searches = Vec::new();
    if !domain.is_empty() {
        searches = vec![format!("{}.svc.{domain}", view.namespace), format!("svc.{domain}"), domain.clone()];
    }
    searches.extend(facts.resolver.searches.iter().cloned());
    ResolverConfig {
        servers: facts.cluster_dns.clone(),
        searches: distinct(searches),
        options: vec!["ndots:5".to_owned()],
    }
}

/// Adds what the pod says. Its options win over others with the same name.
fn append(config: &mut ResolverConfig, own: &PodDNSConfig) {
    config.servers.extend(own.nameservers.iter().flatten().cloned());
    config.servers = distinct(std::mem::take(&mut config.servers));
    config.searches.extend(own.searches.iter().flatten().cloned());
    config.searches = distinct(std::mem::take(&mut config.searches));
    let mut options: BTreeMap<String, Option<String>> = BTreeMap::new();
    for option in &config.options {
        let (name, value) =
            option.split_once(':').map_or((option.as_str(), None), |(name, value)| (name, Some(value)));
        options.insert(name.to_owned(), value.map(str::to_owned));
    }
    for option in own.options.iter().flatten() {
        let value = option.value.clone().filter(|value| !value.is_empty());
        options.insert(option.name.clone().unwrap_or_default(), value);
    }
    let texts = options.into_iter().map(|(name, value)| match value {
        Some(value) => format!("{name}:{value}"),
        None => name,
    });
    config.options = texts.filter(|option| !option.is_empty()).collect();
}

fn distinct(all: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    all.into_iter().filter(|one| seen.insert(one.clone())).collect()
}

/// Leaves out what resolvers would not read, and says so.
fn fit(config: &mut ResolverConfig, notes: &mut Vec<ResolverNote>) {
    if config.servers.len() > NAMESERVERS_MAX {
        config.servers.truncate(NAMESERVERS_MAX);
        notes.push(ResolverNote {
            reason: "DNSConfigForming",
            message: format!(
                "Nameserver limits were exceeded, some nameservers have been omitted, \
                 the applied nameserver line is: {}",
                config.servers.join(" ")
            ),
        });
    }
    let before = config.searches.len();
    config.searches.truncate(SEARCHES_MAX);
    config.searches.retain(|search| search.len() <= SEARCH_BYTES_MAX);
    while config.searches.join(" ").len() > SEARCH_LINE_BYTES_MAX {
        config.searches.pop();
    }
    if config.searches.len() < before {
        notes.push(ResolverNote {
            reason: "DNSConfigForming",
            message: format!(
                "Search Line limits were exceeded, some search paths have been omitted, \
                 the applied search line is: {}",
                config.searches.join(" ")
            ),
        });
    }
}
