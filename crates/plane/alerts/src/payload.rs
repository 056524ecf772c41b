//! Notifications of Alertmanager: JSON, version 4.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Alerts of one notification. Alertmanager's `max_alerts` cuts longer ones.
pub(crate) const ALERTS_MAX: usize = 1_000;
/// Labels of one alert that are read; the exporters of devices have about 20.
const LABELS_MAX: usize = 128;
/// As the schema of a DeviceSignal has them.
const KEY_BYTES_MAX: usize = 316;
const VALUE_BYTES_MAX: usize = 253;
const MESSAGE_BYTES_MAX: usize = 1_024;
/// Hexadecimal digits of a fingerprint; Alertmanager's have 16.
const FINGERPRINT_MAX: usize = 32;

/// A notification.
#[derive(Debug, Deserialize)]
pub(crate) struct Payload {
    version: String,
    pub(crate) alerts: Vec<Alert>,
}

/// One alert.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Alert {
    status: Status,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    starts_at: Option<String>,
    #[serde(default)]
    fingerprint: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Firing,
    Resolved,
}

impl Payload {
    /// Reads a notification.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let payload: Self = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if payload.version != "4" {
            return Err(format!("version is {:?}: 4 is understood", payload.version));
        }
        if payload.alerts.len() > ALERTS_MAX {
            return Err(format!("{} alerts: at most {ALERTS_MAX} are taken at a time", payload.alerts.len()));
        }
        Ok(payload)
    }
}

impl Alert {
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// A label that says something.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The name of its signal, the same each time the alert is sent: made of the fingerprint of its labels.
    pub(crate) fn signal_name(&self) -> String {
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let given = &self.fingerprint;
        if (1..=FINGERPRINT_MAX).contains(&given.len()) && given.chars().all(is_hex) {
            return format!("alert-{given}");
        }
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let parts = self
            .labels
            .iter()
            .flat_map(|(name, value)| [name.as_bytes(), &[0xff], value.as_bytes(), &[0xff]]);
        let hash = parts.flatten().copied().fold(0xcbf2_9ce4_8422_2325, mix);
        format!("alert-{hash:016x}")
    }

    /// The key and the value of its signal.
    pub(crate) fn signal(&self) -> Result<(&str, &str), &'static str> {
        if self.labels.len() > LABELS_MAX {
            return Err("it has too many labels");
        }
        let key = self
            .label("signal_key")
            .or_else(|| self.label("alertname"))
            .ok_or("it has no label alertname")?;
        let value = self.label("signal_value").or_else(|| self.label("severity")).unwrap_or_default();
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err("its key or value is too long");
        }
        Ok((key, value))
    }

    /// For people.
    pub(crate) fn message(&self) -> &str {
        let said = |name: &str| self.annotations.get(name).map(String::as_str);
        let text =
            said("summary").or_else(|| said("description")).or_else(|| said("message")).unwrap_or_default();
        let end = (0..=text.len().min(MESSAGE_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
        &text[..end.unwrap_or(0)]
    }

    /// Since when it fires, where that is an instant.
    pub(crate) fn since(&self) -> Option<jiff::Timestamp> {
        self.starts_at.as_deref()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(json: &str) -> Alert {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_notification_is_read_and_another_version_or_too_many_alerts_are_not() {
        let read = |body: &str| Payload::read(body.as_bytes());
        let ok = r#"{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"a"}}]}"#;
        assert_eq!(read(ok).unwrap().alerts.len(), 1);
        assert!(read(&ok.replace('4', "5")).unwrap_err().contains("version"));
        for body in ["", "[]", "{}", r#"{"version":"4"}"#, r#"{"version":"4","alerts":[{"status":"odd"}]}"#] {
            assert!(read(body).is_err(), "{body}");
        }
        let one = r#"{"status":"firing"}"#;
        let many = vec![one; ALERTS_MAX + 1].join(",");
        assert!(read(&format!(r#"{{"version":"4","alerts":[{many}]}}"#)).unwrap_err().contains("at most"));
    }

    #[test]
    fn the_name_of_a_signal_follows_from_the_fingerprint_or_else_from_the_labels() {
        let given = alert(r#"{"status":"firing","fingerprint":"c0ffee","labels":{"alertname":"a"}}"#);
        assert_eq!(given.signal_name(), "alert-c0ffee");
        let names: std::collections::BTreeSet<String> = [
            r#"{"status":"firing","labels":{"alertname":"a","gpu":"1"}}"#,
            r#"{"status":"resolved","labels":{"gpu":"1","alertname":"a"}}"#,
            r#"{"status":"firing","fingerprint":"../x","labels":{"alertname":"ag","pu":"1"}}"#,
        ]
        .map(|json| alert(json).signal_name())
        .into();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn what_a_signal_says() {
        let full = alert(
            r#"{"status":"firing","labels":{"alertname":"a","severity":"page","signal_key":"k","signal_value":"v"}}"#,
        );
        assert_eq!(full.signal(), Ok(("k", "v")));
        let plain = alert(r#"{"status":"firing","labels":{"alertname":"a","severity":"page"}}"#);
        assert_eq!(plain.signal(), Ok(("a", "page")));
        assert!(alert(r#"{"status":"firing"}"#).signal().is_err());
        let long = "é".repeat(1_000);
        let message = alert(&format!(r#"{{"status":"firing","annotations":{{"summary":"{long}"}}}}"#));
        assert_eq!(message.message().len(), MESSAGE_BYTES_MAX);
    }
}
