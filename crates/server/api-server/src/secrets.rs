//! Secrets of a server: the authority that its certificates come from, and the key that its tokens are signed with. Kept in files for
//! their owner only, or in memory for a server that does not outlive its process.

use std::{
    fmt,
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;

use crate::{
    Identity, Pem, ServerAddress, Signer, Tls, TlsFiles, TokenKeys,
    certificates::{
        Validity, authority_needs_renewal, certificate_authority, client_certificate, renewed_authority,
        server_certificate,
    },
    clock,
};

/// The user that a kubeconfig is for unless it says otherwise.
pub const ADMIN: Identity<'_> = Identity { name: "kubernetes-admin", group: "system:masters" };

const AUTHORITY_FILE: &str = "ca.crt";

/// The secrets of one server.
pub struct Secrets {
    authority: Pem,
    signer: Signer,
    token_key: Vec<u8>,
    /// Where they are kept.
    folder: Option<PathBuf>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// Why secrets could not be made, kept or used.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A file could not be read or written.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// `read`, `write`, `protect`, `make`.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A certificate could not be made: the authority's files are damaged.
    #[error("make the {0}: {1}; are ca.crt and ca.key of the data directory damaged?")]
    Certificate(&'static str, rcgen::Error),
    /// A certificate that was made cannot be used.
    #[error("serve with the new certificate: {0}")]
    Unusable(io::Error),
    /// The key for tokens is damaged, or could not be made.
    #[error("{0}")]
    TokenKey(String),
}

impl Secrets {
    /// New ones, in memory only.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate() -> Result<Self, SecretsError> {
        Self::generate_at(clock::now())
    }

    fn generate_at(now: Timestamp) -> Result<Self, SecretsError> {
        let authority = certificate_authority(now).map_err(authority_error)?;
        Ok(Self {
            signer: Signer::new(authority.clone()),
            authority,
            token_key: TokenKeys::generate().map_err(SecretsError::TokenKey)?,
            folder: None,
        })
    }

    /// Those kept in a folder; what is missing is made and kept, and an authority that is due is renewed. One process at a time: take the
    /// lock of the store beside them first.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn load_or_make(folder: &Path) -> Result<Self, SecretsError> {
        Self::load_or_make_at(folder, clock::now())
    }

    pub(crate) fn load_or_make_at(folder: &Path, now: Timestamp) -> Result<Self, SecretsError> {
        make_private_folder(folder)?;
        let (certificate, key, token) =
            (folder.join(AUTHORITY_FILE), folder.join("ca.key"), folder.join("token.key"));
        if !key.exists() || !token.exists() {
            let made = Self::generate_at(now)?;
            if !key.exists() {
                write_private_file(&certificate, made.authority.certificate.as_bytes())?;
                write_private_file(&key, made.authority.key.as_bytes())?;
            }
            if !token.exists() {
                write_private_file(&token, &made.token_key)?;
            }
        }
        for path in [&certificate, &key, &token] {
            protect(path, 0o600)?;
        }
        let read = |path: &Path| fs::read(path).map_err(|source| file("read", path, source));
        let text = |path: &Path| Ok::<_, SecretsError>(String::from_utf8_lossy(&read(path)?).into_owned());
        let authority = Pem { certificate: text(&certificate)?, key: text(&key)? };
        let mut secrets = Self {
            signer: Signer::new(authority.clone()),
            authority,
            token_key: read(&token)?,
            folder: Some(folder.to_owned()),
        };
        secrets.renew_authority(now)?;
        Ok(secrets)
    }

    /// Renews the authority if it is due, with the key it has, and says whether it was.
    pub(crate) fn renew_authority(&mut self, now: Timestamp) -> Result<bool, SecretsError> {
        if !authority_needs_renewal(&self.authority, now) {
            return Ok(false);
        }
        let renewed = renewed_authority(&self.authority, now).map_err(authority_error)?;
        if let Some(folder) = &self.folder {
            let path = folder.join(AUTHORITY_FILE);
            if let Err(error) = write_private_file(&path, renewed.certificate.as_bytes()) {
                // A disk that takes no file is no reason to end a server whose authority is valid: the next check tries again.
                let is_valid = Validity::of_pem(&self.authority.certificate)
                    .is_some_and(|validity| now < validity.not_after);
                if !is_valid {
                    return Err(error);
                }
                tracing::error!(%error, "the certificate of the authority stays as it is");
                return Ok(false);
            }
        }
        self.authority.certificate = renewed.certificate;
        self.signer.replace(self.authority.clone());
        Ok(true)
    }

    /// Signs certificates with the authority, also after that was renewed.
    #[must_use]
    pub fn signer(&self) -> Signer {
        self.signer.clone()
    }

    /// The key that signs tokens.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn token_keys(&self) -> Result<TokenKeys, SecretsError> {
        TokenKeys::load(&self.token_key).map_err(SecretsError::TokenKey)
    }

    /// The TLS configuration of a server at an address: a new certificate for it and for this machine's own names.
    ///
    /// # Errors
    /// When the authority is damaged.
    pub fn tls(&self, address: SocketAddr) -> Result<Tls, SecretsError> {
        self.tls_at(&address.into(), clock::now()).map(|(tls, _)| tls)
    }

    pub(crate) fn tls_at(
        &self,
        address: &ServerAddress,
        now: Timestamp,
    ) -> Result<(Tls, Validity), SecretsError> {
        let (server, validity) = self.server(address, now)?;
        let files = TlsFiles { server, authority: self.authority.certificate.clone() };
        Ok((Tls::new(&files).map_err(SecretsError::Unusable)?, validity))
    }

    /// Makes a running server show a new certificate.
    pub(crate) fn replace_certificate(
        &self,
        tls: &Tls,
        address: &ServerAddress,
        now: Timestamp,
    ) -> Result<Validity, SecretsError> {
        let (server, validity) = self.server(address, now)?;
        tls.replace(&server).map_err(SecretsError::Unusable)?;
        Ok(validity)
    }

    fn server(&self, address: &ServerAddress, now: Timestamp) -> Result<(Pem, Validity), SecretsError> {
        let pem = server_certificate(&self.authority, &address.certificate_names(), now)
            .map_err(|error| SecretsError::Certificate("server's certificate", error))?;
        let validity = readable(&pem)?;
        Ok((pem, validity))
    }

    /// A certificate for a client.
    ///
    /// # Errors
    /// When the authority is damaged.
    pub fn client(&self, identity: Identity<'_>) -> Result<Pem, SecretsError> {
        self.client_at(identity, clock::now())
    }

    fn client_at(&self, identity: Identity<'_>, now: Timestamp) -> Result<Pem, SecretsError> {
        client_certificate(&self.authority, identity, now)
            .map_err(|error| SecretsError::Certificate("client's certificate", error))
    }

    /// The authority's certificate, as PEM: what a client must trust.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority.certificate
    }

    /// The text of a kubeconfig for `identity`, with a new certificate.
    ///
    /// # Errors
    /// When the authority is damaged.
    pub fn kubeconfig(&self, address: SocketAddr, identity: Identity<'_>) -> Result<String, SecretsError> {
        Ok(self.kubeconfig_with(address, &self.client(identity)?))
    }

    fn kubeconfig_with(&self, address: SocketAddr, client: &Pem) -> String {
        let encode = |text: &str| STANDARD.encode(text);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: lazaret\nclusters:\n- name: lazaret\n  cluster:\n    server: https://{address}\n    certificate-authority-data: {}\ncontexts:\n- name: lazaret\n  context: {{cluster: lazaret, user: me}}\nusers:\n- name: me\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
            encode(self.authority()),
            encode(&client.certificate),
            encode(&client.key),
        )
    }

    /// Writes the administrator's kubeconfig into a folder, for its owner only, whole or not at all. Says how long it is good.
    pub(crate) fn write_kubeconfig(
        &self,
        folder: &Path,
        address: SocketAddr,
        now: Timestamp,
    ) -> Result<Validity, SecretsError> {
        let client = self.client_at(ADMIN, now)?;
        let path = Self::kubeconfig_path(folder);
        match write_private_file(&path, self.kubeconfig_with(address, &client).as_bytes()) {
            Ok(()) => readable(&client),
            // On a disk that is full or fails, the one of the last start does: its certificate is of the same authority.
            Err(error) => {
                let kept = validity_of_kubeconfig(&path, address, self.authority());
                let Some(validity) = kept.filter(|validity| now < validity.not_after) else {
                    return Err(error);
                };
                tracing::error!(%error, "the kubeconfig stays as it is");
                Ok(validity)
            }
        }
    }

    pub(crate) fn kubeconfig_path(folder: &Path) -> PathBuf {
        folder.join("kubeconfig")
    }
}

fn authority_error(error: rcgen::Error) -> SecretsError {
    SecretsError::Certificate("certificate authority", error)
}

/// How long a certificate is good that was made just now.
fn readable(pem: &Pem) -> Result<Validity, SecretsError> {
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "its times cannot be read");
    Validity::of_pem(&pem.certificate).ok_or_else(|| SecretsError::Unusable(unreadable()))
}

/// How long the client certificate of a kubeconfig is good; `None` if there is no kubeconfig for this address with this authority.
fn validity_of_kubeconfig(path: &Path, address: SocketAddr, authority: &str) -> Option<Validity> {
    let text = fs::read_to_string(path).ok()?;
    let authority = STANDARD.encode(authority);
    if !text.contains(&format!("server: https://{address}\n"))
        || !text.contains(&format!("certificate-authority-data: {authority}\n"))
    {
        return None;
    }
    let (_, rest) = text.split_once("client-certificate-data: ")?;
    let certificate = STANDARD.decode(rest.lines().next()?.trim()).ok()?;
    Validity::of_pem(std::str::from_utf8(&certificate).ok()?)
}

fn file(doing: &'static str, path: &Path, source: io::Error) -> SecretsError {
    SecretsError::File { doing, path: path.to_owned(), source }
}

/// Makes a folder, if it does not exist, that only its owner can read.
///
/// # Errors
/// When the file system does not let us.
pub fn make_private_folder(folder: &Path) -> Result<(), SecretsError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| file("make", folder, source))?;
    protect(folder, 0o700)
}

/// Takes a path from everybody but its owner.
fn protect(path: &Path, mode: u32) -> Result<(), SecretsError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|source| file("protect", path, source))
}

/// Writes a file that only its owner can read, whole or not at all.
///
/// # Errors
/// When the file system does not let us; the file is as it was.
pub fn write_private_file(path: &Path, content: &[u8]) -> Result<(), SecretsError> {
    let beside = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        // Whatever the umask, and whichever process left the file beside.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|source| {
        // A file that is not whole takes room, and is of no use.
        let _ = fs::remove_file(&beside);
        file("write", path, source)
    })
}
