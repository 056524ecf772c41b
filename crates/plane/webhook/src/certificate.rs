//! The certificate that a webhook serves with, and the authority that the API server knows it by: what is kept, what is made anew.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lazaret_server::{
    Pem, Validity, authority_needs_renewal, certificate_authority, needs_renewal, renewed_authority,
    serving_certificate,
};

/// The keys of the Secret. The first two are those of every TLS Secret.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
/// The names that the certificate is for.
const HOSTS: &str = "hosts";
/// The subject of the certificate.
const COMMON_NAME: &str = "lazaret-webhook";

/// An authority, and a certificate of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificates {
    pub(crate) authority: Pem,
    pub(crate) server: Pem,
    pub(crate) hosts: Vec<String>,
}

impl Certificates {
    /// Read from a Secret; `None` where something is missing.
    pub(crate) fn of_data(data: &BTreeMap<String, String>) -> Option<Self> {
        let text = |key: &str| data.get(key).cloned();
        Some(Self {
            authority: Pem { certificate: text(AUTHORITY)?, key: text(AUTHORITY_KEY)? },
            server: Pem { certificate: text(CERTIFICATE)?, key: text(KEY)? },
            hosts: text(HOSTS)?.split(',').map(str::to_owned).collect(),
        })
    }

    /// The data of its Secret.
    pub(crate) fn data(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            (AUTHORITY, self.authority.certificate.clone()),
            (AUTHORITY_KEY, self.authority.key.clone()),
            (CERTIFICATE, self.server.certificate.clone()),
            (KEY, self.server.key.clone()),
            (HOSTS, self.hosts.join(",")),
        ])
    }

    /// When the certificate ends.
    pub(crate) fn not_after(&self) -> Option<Timestamp> {
        Validity::of_pem(&self.server.certificate).map(|validity| validity.not_after)
    }
}

/// The certificate to serve: the existing one, if it is for these hosts and has more than a third of its life left; otherwise a new one.
/// An authority keeps its key when it is renewed, so that a client with the old one trusts certificates that the new one signs. A
/// damaged certificate is replaced.
///
/// # Errors
/// When no key can be made, or a host is no name.
pub(crate) fn current(
    now: Timestamp,
    there: Option<Certificates>,
    hosts: &[String],
) -> Result<Certificates, rcgen::Error> {
    let usable = there.filter(|there| Validity::of_pem(&there.authority.certificate).is_some());
    let authority = match &usable {
        Some(there) if !authority_needs_renewal(&there.authority, now) => there.authority.clone(),
        // A damaged key cannot be renewed.
        Some(there) => renewed_authority(&there.authority, now).or_else(|_| certificate_authority(now))?,
        None => certificate_authority(now)?,
    };
    if let Some(there) = usable
        && there.authority == authority
        && there.hosts == hosts
        && is_fresh(now, &there.server)
    {
        return Ok(there);
    }
    let sign = |authority: &Pem| serving_certificate(authority, COMMON_NAME, hosts, now);
    match sign(&authority) {
        Ok(server) => Ok(Certificates { authority, server, hosts: hosts.to_vec() }),
        // The key does not belong to the certificate, or is damaged.
        Err(_) => {
            let authority = certificate_authority(now)?;
            Ok(Certificates { server: sign(&authority)?, authority, hosts: hosts.to_vec() })
        }
    }
}

fn is_fresh(now: Timestamp, server: &Pem) -> bool {
    let validity = Validity::of_pem(&server.certificate);
    validity.is_some_and(|validity| !needs_renewal(now, validity.not_before, validity.not_after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_SECONDS: i64 = 24 * 3_600;

    fn day(days: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + days * DAY_SECONDS).unwrap()
    }

    fn hosts() -> Vec<String> {
        vec!["webhook.lazaret-system.svc".to_owned()]
    }

    #[test]
    fn what_is_fresh_is_kept_and_survives_the_secret() {
        let made = current(day(0), None, &hosts()).unwrap();
        let data = made.data().into_iter().map(|(key, text)| (key.to_owned(), text)).collect();
        assert_eq!(Certificates::of_data(&data).as_ref(), Some(&made));
        assert_eq!(current(day(1), Some(made.clone()), &hosts()).unwrap(), made);
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_is_left_and_for_other_hosts_under_the_same_authority() {
        let made = current(day(0), None, &hosts()).unwrap();
        let later = current(day(250), Some(made.clone()), &hosts()).unwrap();
        assert_eq!(later.authority, made.authority);
        assert!(later.not_after() > made.not_after());
        let other = current(day(1), Some(made.clone()), &["127.0.0.1".to_owned()]).unwrap();
        assert_eq!(
            (&other.authority, other.hosts.as_slice()),
            (&made.authority, &["127.0.0.1".to_owned()][..])
        );
        assert_ne!(other.server, made.server);
    }

    #[test]
    fn an_authority_is_renewed_with_its_key() {
        let made = current(day(0), None, &hosts()).unwrap();
        let later = current(day(9 * 365), Some(made.clone()), &hosts()).unwrap();
        assert_eq!(later.authority.key, made.authority.key);
        assert_ne!(later.authority.certificate, made.authority.certificate);
        assert_ne!(later.server, made.server);
    }

    #[test]
    fn what_is_damaged_is_replaced() {
        let made = current(day(0), None, &hosts()).unwrap();
        let broken = |change: fn(&mut Certificates)| {
            let mut broken = made.clone();
            change(&mut broken);
            current(day(1), Some(broken), &hosts()).unwrap()
        };
        let no_authority = broken(|one| one.authority.certificate = "nothing".to_owned());
        assert_ne!(no_authority.authority, made.authority);
        let no_certificate = broken(|one| one.server.certificate.clear());
        assert_eq!(no_certificate.authority, made.authority);
        // As when it is renewed: the key is damaged.
        let mut no_key = made.clone();
        no_key.authority.key.clear();
        let renewed = current(day(300), Some(no_key), &hosts()).unwrap();
        assert_ne!(renewed.authority.certificate, made.authority.certificate);
        assert!(Certificates::of_data(&BTreeMap::new()).is_none());
    }
}
