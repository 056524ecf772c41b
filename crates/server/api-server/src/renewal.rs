//! Renews the certificates of a running server: the serving certificate, the one in the administrator's kubeconfig, the authority's.

use std::{path::PathBuf, time::Duration};

use jiff::Timestamp;

use crate::{
    ADMIN, Secrets, SecretsError, Server, ServerAddress, Tls,
    certificates::{Validity, needs_renewal},
    clock,
};

/// Certificates are renewed when at least four months are left, so an hour is often enough.
const CHECK_EVERY: Duration = Duration::from_secs(3_600);

/// Which certificates were renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// The authority's certificate.
    pub authority: bool,
    /// The serving certificate.
    pub server: bool,
    /// The administrator's kubeconfig.
    pub kubeconfig: bool,
}

/// The certificates of one running server.
#[derive(Debug)]
pub struct Renewal {
    secrets: Secrets,
    address: ServerAddress,
    folder: PathBuf,
    tls: Tls,
    server: Validity,
    client: Validity,
}

impl Renewal {
    /// Makes a server's certificate for an address, and a kubeconfig in a folder. [`run`](Self::run) renews them.
    ///
    /// # Errors
    /// When the authority is damaged, or the kubeconfig cannot be written.
    pub fn start(
        secrets: Secrets,
        folder: PathBuf,
        address: impl Into<ServerAddress>,
    ) -> Result<Self, SecretsError> {
        Self::start_at(secrets, folder, address.into(), clock::now())
    }

    fn start_at(
        secrets: Secrets,
        folder: PathBuf,
        address: ServerAddress,
        now: Timestamp,
    ) -> Result<Self, SecretsError> {
        let (tls, server) = secrets.tls_at(&address, now)?;
        let client = secrets.write_kubeconfig(&folder, address.local(), now)?;
        Ok(Self { secrets, address, folder, tls, server, client })
    }

    /// The TLS configuration to serve with.
    #[must_use]
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// Where the administrator's kubeconfig is.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        Secrets::kubeconfig_path(&self.folder)
    }

    /// Renews certificates that are due at `now`. A certificate that cannot be renewed stays as it was, for the next check.
    ///
    /// # Errors
    /// When the authority is damaged, or a file cannot be written.
    pub fn check(&mut self, now: Timestamp) -> Result<Renewed, SecretsError> {
        let authority = self.secrets.renew_authority(now)?;
        let due = |validity: Validity| needs_renewal(now, validity.not_before, validity.not_after);
        let server = due(self.server);
        if server {
            self.server = self.secrets.replace_certificate(&self.tls, &self.address, now)?;
        }
        // The kubeconfig has the authority, too.
        let kubeconfig = authority || due(self.client);
        if kubeconfig {
            self.client = self.secrets.write_kubeconfig(&self.folder, self.address.local(), now)?;
        }
        Ok(Renewed { authority, server, kubeconfig })
    }

    /// Checks every hour. Never returns.
    pub async fn run(mut self, server: Server) {
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            match self.check(clock::now()) {
                Ok(renewed) if renewed == Renewed::default() => {}
                Ok(renewed) => {
                    tracing::info!(?renewed, "certificates renewed");
                    if renewed.authority
                        && let Err(error) = server.publish_authority(self.secrets.authority()).await
                    {
                        tracing::error!(error, "publish the certificate authority");
                    }
                }
                Err(error) => tracing::error!(%error, user = ADMIN.name, "renew certificates"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::certificates::authority_of_old;

    fn day(days: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + days * 24 * 3_600).unwrap()
    }

    #[test]
    fn a_disk_that_takes_no_files_does_not_stop_a_start_with_what_is_valid() {
        let folder = std::env::temp_dir().join(format!("lazaret-full-disk-{}", std::process::id()));
        let address = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let start = |port: u16, at: i64| {
            let secrets = Secrets::load_or_make_at(&folder, day(at))?;
            Renewal::start_at(secrets, folder.clone(), address(port).into(), day(at))
        };
        start(1, 0).unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let (kubeconfig, authority) = (read("kubeconfig"), read("ca.crt"));
        // Nothing can be written at these paths, whatever the reason.
        for beside in ["kubeconfig.new", "ca.new"] {
            fs::create_dir(folder.join(beside)).unwrap();
        }
        let mut renewal = start(1, 100).unwrap();
        assert_eq!(read("kubeconfig"), kubeconfig);
        assert!(start(2, 100).is_err(), "the kubeconfig is for another address");
        assert!(start(1, 366).is_err(), "the kubeconfig is too old");
        fs::remove_dir(folder.join("kubeconfig.new")).unwrap();
        assert!(renewal.check(day(250)).unwrap().kubeconfig, "written once the disk takes files");
        assert_ne!(read("kubeconfig"), kubeconfig);

        // The authority is due, and cannot be renewed.
        let renewed = start(1, 2_434).unwrap();
        assert_eq!((renewed.secrets.authority(), read("ca.crt")), (authority.as_str(), authority.clone()));
        fs::remove_dir(folder.join("ca.new")).unwrap();
        start(1, 2_435).unwrap();
        assert_ne!(read("ca.crt"), authority);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn certificates_are_renewed_while_the_server_runs() {
        let folder = std::env::temp_dir().join(format!("lazaret-renewal-{}", std::process::id()));
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
        let secrets = Secrets::load_or_make_at(&folder, day(0)).unwrap();
        let first = secrets.authority().to_owned();
        let mut renewal = Renewal::start_at(secrets, folder.clone(), address, day(0)).unwrap();
        let read = || fs::read_to_string(folder.join("kubeconfig")).unwrap();
        let before = read();
        let nothing = Renewed::default();
        let both = Renewed { server: true, kubeconfig: true, ..nothing };
        for (at, expected) in [
            (1, nothing),
            (243, nothing),
            (244, both),
            (244, nothing),
            (480, nothing),
            (490, both),
            (2_433, both),
            (2_434, Renewed { authority: true, kubeconfig: true, ..nothing }),
            (2_435, nothing),
        ] {
            assert_eq!(renewal.check(day(at)).unwrap(), expected, "day {at}");
        }
        assert_ne!(read(), before);
        let kept = fs::read_to_string(folder.join("ca.crt")).unwrap();
        assert_eq!(kept, renewal.secrets.authority());
        assert_ne!(kept, first);
        let again = Secrets::load_or_make_at(&folder, day(2_436)).unwrap();
        assert_eq!(again.authority(), kept, "a renewed authority is kept");
        fs::remove_dir_all(&folder).unwrap();
    }
    #[test]
    fn a_data_directory_of_an_older_version_gets_an_authority_of_ten_years_with_the_key_it_has() {
        let folder = std::env::temp_dir().join(format!("lazaret-older-{}", std::process::id()));
        crate::make_private_folder(&folder).unwrap();
        let old = authority_of_old("lazaret");
        fs::write(folder.join("ca.crt"), &old.certificate).unwrap();
        fs::write(folder.join("ca.key"), &old.key).unwrap();
        let secrets = Secrets::load_or_make_at(&folder, day(0)).unwrap();
        let validity = Validity::of_pem(secrets.authority()).unwrap();
        assert_eq!(validity.not_after, day(3_650));
        assert_eq!(fs::read_to_string(folder.join("ca.crt")).unwrap(), secrets.authority());
        assert_eq!(fs::read_to_string(folder.join("ca.key")).unwrap(), old.key);
        fs::remove_dir_all(&folder).unwrap();
    }
}
