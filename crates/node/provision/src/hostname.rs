//! The host name of a pod.

use crate::{SpecError, names, pod::PodView};

/// A host name has 64 bytes in the kernel, and needs one of them for its end.
const HOSTNAME_BYTES_MAX: usize = 63;
/// The kernel takes this much for a name with its domain.
const FQDN_BYTES_MAX: usize = 64;

/// The name of a pod and its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hostname {
    pub(crate) name: String,
    /// Empty without a subdomain.
    pub(crate) domain: String,
}

pub(crate) fn of_pod(view: &PodView<'_>, cluster_domain: &str) -> Result<Hostname, SpecError> {
    let spec = view.spec;
    if let Some(name) = &spec.hostname_override {
        if !names::is_subdomain(name) {
            return Err(SpecError::sandbox(format!(
                "pod HostnameOverride {name:?} is not a valid DNS subdomain"
            )));
        }
        return Ok(Hostname { name: shortened(view, name)?, domain: String::new() });
    }
    let inputs = spec.hostname.as_deref().filter(|name| !name.is_empty());
    if let Some(name) = inputs.filter(|name| !names::is_label(name)) {
        return Err(SpecError::sandbox(format!("pod Hostname {name:?} is not a valid DNS label")));
    }
    let subdomain = spec.subdomain.as_deref().unwrap_or_default();
    if !subdomain.is_empty() && !names::is_label(subdomain) {
        return Err(SpecError::sandbox(format!("pod Subdomain {subdomain:?} is not a valid DNS label")));
    }
    let domain = match subdomain {
        "" => String::new(),
        _ => format!("{subdomain}.{}.svc.{cluster_domain}", view.namespace),
    };
    Ok(Hostname { name: shortened(view, inputs.unwrap_or(view.name))?, domain })
}

/// The name that the kernel is given.
pub(crate) fn for_kernel(view: &PodView<'_>, hostname: &Hostname) -> Result<String, SpecError> {
    let Hostname { name, domain } = hostname;
    if domain.is_empty() || !view.spec.set_hostname_as_fqdn.unwrap_or(false) {
        return Ok(name.clone());
    }
    let full = format!("{name}.{domain}");
    if full.len() > FQDN_BYTES_MAX {
        return Err(SpecError::sandbox(format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long \
             ({FQDN_BYTES_MAX} characters is the max, {} characters requested)",
            full.len()
        )));
    }
    Ok(full)
}

fn shortened(view: &PodView<'_>, name: &str) -> Result<String, SpecError> {
    let Some(cut) = name.get(..HOSTNAME_BYTES_MAX) else { return Ok(name.to_owned()) };
    let cut = if name.len() > HOSTNAME_BYTES_MAX { cut.trim_end_matches(['-', '.']) } else { name };
    if cut.is_empty() {
        return Err(SpecError::sandbox(format!("hostname for pod {:?} was invalid: {name:?}", view.name)));
    }
    Ok(cut.to_owned())
}
