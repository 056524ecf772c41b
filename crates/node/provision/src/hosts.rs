//! `/etc/hosts`.

use k8s_openapi::api::core::v1::Pod;

use crate::{NodeFacts, SpecError, hostname, pod::PodView};

/// The first line, by which Kubernetes' own tests know the file.
const HEADER: &str = "# Kubernetes-managed hosts file.\n";
/// The same for pods in the host's network.
const HEADER_HOST_NETWORK: &str = "# Kubernetes-managed hosts file (host network).\n";
const LOCAL: &str = "127.0.0.1\tlocalhost\n\
    ::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::0\tip6-localnet\n\
    fe00::0\tip6-mcastprefix\n\
    fe00::1\tip6-allnodes\n\
    fe00::2\tip6-allrouters\n";

/// The hosts file of a pod; none while a pod with a network of its own has no address.
///
/// # Errors
/// When a name of the pod cannot be one of a host.
pub fn hosts_file(pod: &Pod, facts: &NodeFacts, pod_ips: &[String]) -> Result<Option<String>, SpecError> {
    let view = PodView::new(pod)?;
    let mut text = if view.is_host_network() {
        format!("{HEADER_HOST_NETWORK}{}", facts.hosts)
    } else if pod_ips.is_empty() {
        return Ok(None);
    } else {
        let hostname::Hostname { name, domain } = hostname::of_pod(&view, &facts.cluster_domain)?;
        let names = if domain.is_empty() { name } else { format!("{name}.{domain}\t{name}") };
        let mut text = format!("{HEADER}{LOCAL}");
        for address in pod_ips {
            text.push_str(&format!("{address}\t{names}\n"));
        }
        text
    };
    let aliases = view.spec.host_aliases.as_deref().unwrap_or_default();
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default();
        let has_break = |word: &String| word.chars().any(char::is_control);
        if has_break(&alias.ip) || names.iter().any(has_break) {
            return Err(SpecError::sandbox(format!(
                "host alias {:?} cannot stand in a hosts file",
                alias.ip
            )));
        }
        text.push_str(&format!("{}\t{}\n", alias.ip, names.join("\t")));
    }
    Ok(Some(text))
}
