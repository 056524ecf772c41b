//! The requests of the node's API, from their paths.

use percent_encoding::percent_decode_str;

/// A name of Kubernetes is not longer.
const NAME_BYTES_MAX: usize = 253;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Health,
    Pods,
    Stats,
    Metrics,
    ResourceMetrics,
    Log(Place),
    Exec(Place),
    Attach(Place),
    PortForward(Place),
}

/// A pod, and a container of it. Kubelet knows paths with the pod's UID before the container as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) uid: Option<String>,
    /// Empty for a port.
    pub(crate) container: String,
}

impl Endpoint {
    /// `None`: there is nothing at this path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let decoded: Vec<String> = path
            .strip_prefix('/')?
            .split('/')
            .map(|part| percent_decode_str(part).decode_utf8().map(std::borrow::Cow::into_owned))
            .collect::<Result<_, _>>()
            .ok()?;
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        Some(match parts.as_slice() {
            ["healthz"] | ["healthz", "ping"] => Self::Health,
            ["pods"] | ["pods", ""] => Self::Pods,
            ["stats", "summary"] => Self::Stats,
            ["metrics"] => Self::Metrics,
            ["metrics", "resource"] => Self::ResourceMetrics,
            ["containerLogs", namespace, pod, container] => {
                Self::Log(place(namespace, pod, None, container)?)
            }
            [what @ ("exec" | "attach"), namespace, pod, rest @ ..] => {
                let place = match rest {
                    [container] => place(namespace, pod, None, container)?,
                    [uid, container] => place(namespace, pod, Some(uid), container)?,
                    _ => return None,
                };
                if *what == "exec" { Self::Exec(place) } else { Self::Attach(place) }
            }
            ["portForward", namespace, pod, rest @ ..] => {
                let uid = match rest {
                    [] => None,
                    [uid] => Some(*uid),
                    _ => return None,
                };
                let mut found = place(namespace, pod, uid, "x")?;
                found.container.clear();
                Self::PortForward(found)
            }
            _ => return None,
        })
    }

    /// Whether it runs something, or reaches into a pod.
    pub(crate) fn is_stream(&self) -> bool {
        match self {
            Self::Exec(_) | Self::Attach(_) | Self::PortForward(_) => true,
            Self::Health
            | Self::Pods
            | Self::Stats
            | Self::Metrics
            | Self::ResourceMetrics
            | Self::Log(_) => false,
        }
    }
}

fn place(namespace: &str, pod: &str, uid: Option<&str>, container: &str) -> Option<Place> {
    let fine = is_name(namespace) && is_name(pod) && is_name(container) && uid.is_none_or(is_name);
    fine.then(|| Place {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: uid.map(str::to_owned),
        container: container.to_owned(),
    })
}

/// Whether a text can be the name of an object: nothing that leads anywhere else on any file system.
fn is_name(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= NAME_BYTES_MAX
        && text.bytes().all(fine)
        && ends(text.as_bytes().first())
        && ends(text.as_bytes().last())
}

/// The parameters of a URL, in their order. Decoded; what is no UTF-8 is not there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn parse(query: &str) -> Self {
        let decode = |text: &str| {
            percent_decode_str(&text.replace('+', " ")).decode_utf8().map(std::borrow::Cow::into_owned).ok()
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .filter_map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((decode(key)?, decode(value)?))
                })
                .collect(),
        )
    }

    /// The first of a name, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether something is switched on.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_containers_and_nowhere_else() {
        let place = |container: &str, uid: Option<&str>| Place {
            namespace: "ns".into(),
            pod: "web-0".into(),
            uid: uid.map(str::to_owned),
            container: container.into(),
        };
        for (path, expected) in [
            ("/healthz", Some(Endpoint::Health)),
            ("/containerLogs/ns/web-0/app", Some(Endpoint::Log(place("app", None)))),
            ("/exec/ns/web-0/app", Some(Endpoint::Exec(place("app", None)))),
            ("/exec/ns/web-0/1-2-3/app", Some(Endpoint::Exec(place("app", Some("1-2-3"))))),
            ("/attach/ns/web%2D0/app", Some(Endpoint::Attach(place("app", None)))),
            ("/portForward/ns/web-0", Some(Endpoint::PortForward(place("", None)))),
            ("/containerLogs/ns/../app", None),
            ("/containerLogs/ns/%2e%2e/app", None),
            ("/containerLogs/ns/..%2f..%2fetc/app", None),
            ("/containerLogs/ns/web-0/app%00", None),
            ("/containerLogs/ns/web-0/%ff", None),
            ("/containerLogs/ns/web-0", None),
            ("/containerLogs/ns//app", None),
            ("/logs/", None),
            ("/run/ns/web-0/app", None),
            ("", None),
        ] {
            assert_eq!(Endpoint::of(path), expected, "{path}");
        }
    }
}
