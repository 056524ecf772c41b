//! The cluster's own signer of certificates, and the loop that approves, signs and deletes requests for them.
//!
//! It is here and not among the controllers because the key of the authority never leaves the server.

mod certificate;
mod requests;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use jiff::Timestamp;
use lazaret_kinds::certificates::CertificateRequest;

use crate::{Pem, Validity};

/// Certificates are valid from this long before they are signed, for clients with slow clocks.
const BACKDATE_SECONDS: i64 = 300;
/// A certificate with a shorter lifetime than this does not end earlier for having begun earlier: it would lose too much of it.
const SHORT_SECONDS: i64 = 8 * 3_600;

/// Signs with the authority of a server. Cheap to clone; clones follow when the authority is renewed.
#[derive(Clone)]
pub struct Signer {
    authority: Arc<RwLock<Pem>>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    /// Signs with this authority.
    #[must_use]
    pub fn new(authority: Pem) -> Self {
        Self { authority: Arc::new(RwLock::new(authority)) }
    }

    /// The authority itself.
    pub(crate) fn authority(&self) -> Pem {
        self.authority.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Signs with this from now on.
    pub(crate) fn replace(&self, authority: Pem) {
        *self.authority.write().unwrap_or_else(PoisonError::into_inner) = authority;
    }

    /// A certificate as PEM.
    fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        lifetime_seconds: i64,
        now: Timestamp,
    ) -> Result<String, String> {
        let authority = self.authority();
        let of_authority =
            Validity::of_pem(&authority.certificate).ok_or("the authority's certificate is damaged")?;
        let validity = validity(of_authority, lifetime_seconds, now)?;
        certificate::signed(&authority, request, usages, validity)
    }
}

/// When a certificate begins and ends: never after the authority's own.
fn validity(authority: Validity, lifetime_seconds: i64, now: Timestamp) -> Result<Validity, String> {
    let now = now.as_second();
    if now >= authority.not_after.as_second() {
        return Err(format!("the signer has expired: NotAfter={}", authority.not_after));
    }
    let backdate = if lifetime_seconds < SHORT_SECONDS { 0 } else { BACKDATE_SECONDS };
    let end = (now + lifetime_seconds - backdate).min(authority.not_after.as_second());
    let at = |seconds: i64| Timestamp::from_second(seconds).map_err(|error| error.to_string());
    Ok(Validity { not_before: at(now - BACKDATE_SECONDS)?, not_after: at(end)? })
}
