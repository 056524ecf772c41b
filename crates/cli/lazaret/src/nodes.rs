//! How the server connects to nodes, for logs, exec and the like.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use lazaret_server::{NodeConnections, NodeTrust, Signer};

/// Connections to nodes.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// Authorities (PEM) of the certificates that nodes serve logs and exec with; without it the cluster's own, and the certificate must
    /// name the node
    #[arg(long, value_name = "FILE")]
    kubelet_certificate_authority: Option<PathBuf>,
    /// Connect to nodes whoever signed their certificates, as kube-apiserver does by default
    #[arg(long, conflicts_with = "kubelet_certificate_authority")]
    kubelet_skip_tls_verify: bool,
}

impl NodeArgs {
    pub(crate) fn connections(&self, signer: Signer) -> Result<NodeConnections> {
        let trust = match &self.kubelet_certificate_authority {
            _ if self.kubelet_skip_tls_verify => NodeTrust::Nobody,
            None => NodeTrust::Cluster,
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
                NodeTrust::Authority(text)
            }
        };
        Ok(NodeConnections::new(signer, trust))
    }
}
