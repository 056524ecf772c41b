//! The program under measurement, as a process.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// A running server. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
}

impl Program {
    /// Starts it on a folder and waits until it says where it serves.
    pub(crate) fn start(binary: &Path, folder: &Path) -> Result<Self> {
        let mut child = Command::new(binary)
            .args(["up", "--api-only", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("read what it says")?).lines();
        let first = lines.next().context("it ended at once")??;
        let address = first.rsplit("https://").next().and_then(|text| text.trim().parse().ok());
        let address = address.ok_or_else(|| anyhow!("it said {first:?}, not where it serves"))?;
        // Announced with the address, written before.
        let kubeconfig = fs::read_to_string(folder.join("kubeconfig")).context("read its kubeconfig")?;
        Ok(Self { child, address, tls: Arc::new(tls(&kubeconfig)?) })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Whether it had ended already does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tls(kubeconfig: &str) -> Result<ClientConfig> {
    let data = |name: &str| -> Result<Vec<u8>> {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name));
        let text = line.with_context(|| format!("find {name} in the kubeconfig"))?;
        Ok(STANDARD.decode(text.trim_start_matches(':').trim())?)
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&data("certificate-authority-data")?)?)?;
    let certificate = CertificateDer::from_pem_slice(&data("client-certificate-data")?)?;
    let key = PrivateKeyDer::from_pem_slice(&data("client-key-data")?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)?)
}
