//! What is kept beside the store: keys and certificates, for their owner only.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::Write,
    net::SocketAddr,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD};
use lazaret_server::{
    Identity, Pem, TokenKeys, certificate_authority, client_certificate, server_certificate,
};

/// The user that the kubeconfig is for.
const ADMIN: Identity<'_> = Identity { name: "kubernetes-admin", group: "system:masters" };

/// What only the server knows.
#[derive(Debug)]
pub(super) struct Secrets {
    pub(super) authority: Pem,
    pub(super) token_key: Vec<u8>,
}

/// A folder that nobody else can look into.
pub(super) fn make_private_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
        .with_context(|| format!("protect {}", folder.display()))
}

impl Secrets {
    /// What is there, or new ones on first start.
    pub(super) fn load_or_make(folder: &Path) -> Result<Self> {
        let (certificate, key, token) =
            (folder.join("ca.crt"), folder.join("ca.key"), folder.join("token.key"));
        if !key.exists() {
            let made = certificate_authority().context("make a certificate authority")?;
            write_private(&certificate, made.certificate.as_bytes())?;
            write_private(&key, made.key.as_bytes())?;
        }
        if !token.exists() {
            write_private(&token, &TokenKeys::generate().map_err(|error| anyhow!(error))?)?;
        }
        let read = |path: &Path| fs::read(path).with_context(|| format!("read {}", path.display()));
        let text = |path: &Path| Ok::<_, anyhow::Error>(String::from_utf8_lossy(&read(path)?).into_owned());
        Ok(Self {
            authority: Pem { certificate: text(&certificate)?, key: text(&key)? },
            token_key: read(&token)?,
        })
    }

    pub(super) fn server_certificate(&self, hosts: &[String]) -> Result<Pem> {
        server_certificate(&self.authority, hosts)
            .context("make the server's certificate: is ca.key damaged?")
    }

    /// A kubeconfig for the administrator, with a new certificate at each start.
    pub(super) fn write_kubeconfig(&self, folder: &Path, address: SocketAddr) -> Result<PathBuf> {
        let client =
            client_certificate(&self.authority, ADMIN).context("make the administrator's certificate")?;
        let encode = |text: &str| STANDARD.encode(text);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: lazaret\nclusters:\n- name: lazaret\n  cluster:\n    server: https://{address}\n    certificate-authority-data: {}\ncontexts:\n- name: lazaret\n  context: {{cluster: lazaret, user: admin}}\nusers:\n- name: admin\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
            encode(&self.authority.certificate),
            encode(&client.certificate),
            encode(&client.key),
        );
        let path = folder.join("kubeconfig");
        write_private(&path, text.as_bytes())?;
        Ok(path)
    }
}

/// Writes a file that nobody else can read, whole or not at all.
fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let beside = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("write {}", path.display()))
}
