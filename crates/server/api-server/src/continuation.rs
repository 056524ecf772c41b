//! Where a list goes on: an opaque token for clients.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use lazaret_json::{Value, json};

use crate::ApiError;

/// Where the next page begins, and at which revision it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// `None`: the rest of the keys, at the newest revision.
    pub(crate) revision: Option<u64>,
    /// The last key of the page before.
    pub(crate) after: String,
}

impl Continuation {
    pub(crate) fn encode(&self) -> String {
        let revision = self.revision.and_then(|revision| i64::try_from(revision).ok()).unwrap_or(-1);
        URL_SAFE_NO_PAD
            .encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.after}).to_string())
    }

    pub(crate) fn decode(token: &str) -> Result<Self, ApiError> {
        let wrong = || ApiError::bad_request("invalid continue token: it was not given out by this server");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
        if value["v"] != "meta.k8s.io/v1" {
            return Err(wrong());
        }
        let after = value["start"].as_str().ok_or_else(wrong)?.to_owned();
        let revision = value["rv"].as_i64().ok_or_else(wrong)?;
        Ok(Self { revision: u64::try_from(revision).ok(), after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_forgeries_do_not() {
        for revision in [Some(7), None] {
            let token = Continuation { revision, after: "/core/pods/a/b".into() };
            assert_eq!(Continuation::decode(&token.encode()), Ok(token));
        }
        assert_eq!(Continuation::decode("x").unwrap_err().code, 400);
        assert_eq!(Continuation::decode("e30").unwrap_err().code, 400);
    }
}
