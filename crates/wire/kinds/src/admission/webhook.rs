//! Webhooks, compiled once: which requests each is called for, and how it is called.

use std::collections::BTreeMap;

use lazaret_cel::{Datum, Mode};
use lazaret_crd::plain_datum;
use lazaret_json::Value;

use super::{
    Attributes, ClusterReader,
    evaluate::{ExpressionEvaluator, POLICY_COST_MAX, RequestValues, described, request_resource},
    is_exempt,
    matching::{Match, Selected},
    policy::Program,
};
use crate::value::{list, number, some, text};

/// Bound on the cost of the conditions of a webhook for one request.
const CONDITIONS_COST_MAX: u64 = POLICY_COST_MAX / 4;
const TIMEOUT_SECONDS_DEFAULT: u64 = 10;
const PORT_DEFAULT: u16 = 443;

/// One webhook of a configuration.
#[derive(Debug)]
pub struct Webhook {
    /// The configuration that it stands in.
    pub configuration: String,
    /// Its own name.
    pub name: String,
    /// Whether a request goes on when the webhook cannot be called.
    pub ignores_failures: bool,
    /// How long a call may take.
    pub timeout_seconds: u64,
    /// Whether it is called once more when others changed the object after it.
    pub reinvoked: bool,
    /// Whether it may be called for requests that write nothing.
    pub supports_dry_run: bool,
    /// The first form of a review that it takes and this server knows.
    pub review_version: Option<ReviewVersion>,
    /// Where it is.
    pub address: Address,
    /// Certificates that its own must come from, as base64 of PEM; empty for those that the machine trusts.
    pub ca_bundle: String,
    matches: Option<Match>,
    program: Result<Program, String>,
}

/// A form of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`, whose answers are held against less.
    V1Beta1,
}

impl ReviewVersion {
    /// Group and version.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Anywhere.
    Url(String),
    /// Behind a Service.
    Service {
        /// Of the Service.
        namespace: String,
        /// Of the Service.
        name: String,
        /// Below which the webhook answers, or nothing.
        path: String,
        /// Of the Service.
        port: u16,
    },
}

/// Whether a webhook is called.
#[derive(Debug, PartialEq, Eq)]
pub enum Matched {
    /// It is about something else.
    No,
    /// It is called, with this version of the resource.
    InVersion(String),
    /// Its conditions could not be evaluated, and it does not say that failures are ignored.
    Failed(String),
}

/// The webhooks of stored configurations, in the order in which they are called: by name of the configuration, then as they stand there.
#[must_use]
pub fn webhooks(configurations: &[Value]) -> Vec<Webhook> {
    let by_name: BTreeMap<&str, &Value> = configurations
        .iter()
        .map(|configuration| (text(&configuration["metadata"], "name"), configuration))
        .collect();
    by_name
        .into_iter()
        .flat_map(|(name, configuration)| {
            list(configuration, "webhooks").iter().map(move |said| Webhook::of(name, said))
        })
        .collect()
}

impl Webhook {
    fn of(configuration: &str, said: &Value) -> Self {
        let mut wrong = Vec::new();
        let program = Program::of(said, Mode::Stored, &mut |path, error, source| {
            wrong.push(format!("{path}: {}", error.render(source)));
        });
        let known = |version: &Value| match version.as_str() {
            Some("v1") => Some(ReviewVersion::V1),
            Some("v1beta1") => Some(ReviewVersion::V1Beta1),
            Some(_) | None => None,
        };
        let client = &said["clientConfig"];
        let seconds = some(said, "timeoutSeconds").and_then(Value::as_i64);
        Self {
            configuration: configuration.to_owned(),
            name: text(said, "name").to_owned(),
            ignores_failures: text(said, "failurePolicy") == "Ignore",
            timeout_seconds: seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .unwrap_or(TIMEOUT_SECONDS_DEFAULT),
            reinvoked: text(said, "reinvocationPolicy") == "IfNeeded",
            supports_dry_run: ["None", "NoneOnDryRun"].contains(&text(said, "sideEffects")),
            review_version: list(said, "admissionReviewVersions").iter().find_map(known),
            address: match some(client, "service") {
                Some(service) => Address::Service {
                    namespace: text(service, "namespace").to_owned(),
                    name: text(service, "name").to_owned(),
                    path: text(service, "path").to_owned(),
                    port: u16::try_from(number(service, "port"))
                        .ok()
                        .filter(|port| *port != 0)
                        .unwrap_or(PORT_DEFAULT),
                },
                None => Address::Url(text(client, "url").to_owned()),
            },
            ca_bundle: text(client, "caBundle").to_owned(),
            matches: Match::of_webhook(said),
            program: if wrong.is_empty() { Ok(program) } else { Err(wrong.join("; ")) },
        }
    }

    /// Whether it is called for a request.
    #[must_use]
    pub fn matches(&self, request: &Attributes<'_>, cluster: &dyn ClusterReader) -> Matched {
        let Some((matches, version)) =
            self.matches.as_ref().and_then(|matches| Some((matches, matches.version(request)?)))
        else {
            return Matched::No;
        };
        if is_exempt(request) {
            return Matched::No;
        }
        let (object, old) = (request.objects)(version);
        let about_namespace = (request.group, request.resource) == ("", "namespaces");
        let namespace = (!request.namespace.is_empty() && !about_namespace)
            .then(|| cluster.namespace(request.namespace))
            .flatten();
        let own = if object.is_null() { &old } else { &object };
        let selected = Selected {
            namespace_labels: if about_namespace { Some(own) } else { namespace.as_ref() }
                .map(|namespace| &namespace["metadata"]["labels"]),
            objects: [&object, &old],
        };
        if !matches.selects(&selected) {
            return Matched::No;
        }
        match self.conditions_hold(request, version, [&object, &old], cluster) {
            Ok(true) => Matched::InVersion(version.to_owned()),
            Ok(false) => Matched::No,
            Err(_) if self.ignores_failures => Matched::No,
            Err(why) => Matched::Failed(why),
        }
    }

    fn conditions_hold(
        &self,
        request: &Attributes<'_>,
        version: &str,
        [object, old]: [&Value; 2],
        cluster: &dyn ClusterReader,
    ) -> Result<bool, String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        if program.conditions.is_empty() {
            return Ok(true);
        }
        let request_values = RequestValues {
            request: plain_datum(&described(request, version)),
            namespace: Datum::null(),
            object: plain_datum(object),
            old: plain_datum(old),
            resource: request_resource(request),
        };
        ExpressionEvaluator::new(program, &request_values, None, cluster, CONDITIONS_COST_MAX).applies()
    }

    /// The request as a review carries it, without its UID.
    #[must_use]
    pub fn review(request: &Attributes<'_>, version: &str) -> Value {
        let (object, old) = (request.objects)(version);
        let mut review = described(request, version);
        if let Value::Object(fields) = &mut review {
            fields.retain(|_, value| value.as_str() != Some(""));
        }
        if let Some(Value::Object(user)) = review.get_mut("userInfo") {
            user.retain(|_, value| {
                value.as_str() != Some("")
                    && value.as_array().is_none_or(|list| !list.is_empty())
                    && value.as_object().is_none_or(|extra| !extra.is_empty())
            });
        }
        review["object"] = object;
        review["oldObject"] = old;
        review
    }
}
