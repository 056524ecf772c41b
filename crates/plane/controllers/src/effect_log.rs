//! One line at debug for each effect: the object and the reason as the core gave them, the outcome, and how long it took.
//!
//! Off, it costs a comparison for each effect. An effect that is tried again has a line for each attempt.

use std::fmt::{self, Debug, Write};

use lazaret_runtime::{Perform, Reply};
use tokio::time::Instant;
use tracing::{Level, debug, enabled};

/// An effect with a long list in it is cut off after this.
const EFFECT_BYTES_MAX: usize = 400;

/// A performer whose effects are logged.
#[derive(Debug)]
pub(crate) struct Logged<P> {
    controller: &'static str,
    performer: P,
}

impl<P> Logged<P> {
    pub(crate) fn new(controller: &'static str, performer: P) -> Self {
        Self { controller, performer }
    }
}

impl<E: Debug + Send, P: Perform<E>> Perform<E> for Logged<P> {
    async fn perform(&self, effect: E) -> Reply {
        if !enabled!(Level::DEBUG) {
            return self.performer.perform(effect).await;
        }
        let (text, started) = (brief(&effect), Instant::now());
        let reply = self.performer.perform(effect).await;
        let (controller, outcome, why) = (self.controller, reply.outcome.name(), reply.why.as_deref());
        let duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        debug!(controller, effect = text, outcome, why, duration_us, "effect");
        reply
    }
}

/// The beginning of a text that says everything about a value.
fn brief(value: &dyn Debug) -> String {
    let mut limited = Limited(String::new());
    // It fails when the text is long enough.
    let is_cut = write!(limited, "{value:?}").is_err();
    let mut text = limited.0;
    if is_cut {
        text.push('…');
    }
    text
}

struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = EFFECT_BYTES_MAX - self.0.len();
        let fits = (0..=room.min(more.len())).rev().find(|at| more.is_char_boundary(*at)).unwrap_or(0);
        self.0.push_str(&more[..fits]);
        if fits == more.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lazaret_claims::{CreateClaim, Holder, Template};
    use lazaret_model::ObjectKey;
    use lazaret_workloads::{Write, resource};

    use super::*;

    #[test]
    fn the_contents_of_an_object_are_not_logged() {
        let body = serde_json::json!({"env": "secret"}).into();
        let write = Write::Create { resource: &resource::PODS, namespace: "n".into(), body };
        let text = brief(&write);
        assert!(text.starts_with("Create { ") && text.ends_with(r#"namespace: "n", body: … }"#), "{text}");
        let template = Template { spec: "secret".into(), ..Template::default() };
        let create = CreateClaim {
            claim: ObjectKey::default(),
            generate_name: "pod-gpu-".into(),
            holder: Holder::default(),
            entry: "gpu".into(),
            template: Arc::new(template).into(),
        };
        let text = brief(&create);
        assert!(text.ends_with(r#"entry: "gpu", template: … }"#), "{text}");
    }

    #[test]
    fn a_long_effect_is_cut_off_between_characters() {
        assert_eq!(brief(&Some("a")), r#"Some("a")"#);
        let long = brief(&"ü".repeat(EFFECT_BYTES_MAX));
        assert!(long.len() <= EFFECT_BYTES_MAX + '…'.len_utf8(), "{} bytes", long.len());
        assert!(long.starts_with("\"üü") && long.ends_with("ü…"), "{long}");
    }
}
