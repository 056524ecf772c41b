//! The lines that `lazaret up` prints when it serves.

use std::{
    io::{self, IsTerminal as _},
    net::SocketAddr,
    path::Path,
};

use lazaret_server::write_private_file;

use crate::output;

/// Below the data directory: the address that signs one browser in.
const ADDRESS_FILE: &str = "dashboard-address";

/// Prints where a server is, and what to try with it. The token of the dashboard is shown on a terminal alone: what a service prints is kept in
/// logs that others read.
pub(super) fn announce(kubeconfig: &Path, address: SocketAddr, nodes: usize, token: &str) -> io::Result<()> {
    let announcement = Announcement { address, kubeconfig, nodes };
    let dashboard = if io::stdout().is_terminal() {
        announcement.dashboard_address(token)
    } else {
        announcement.keep_dashboard_address(token)
    };
    output::print(&announcement.text(&dashboard))
}

struct Announcement<'a> {
    address: SocketAddr,
    /// In the data directory.
    kubeconfig: &'a Path,
    /// How many nodes are simulated.
    nodes: usize,
}

impl Announcement<'_> {
    fn dashboard_address(&self, token: &str) -> String {
        format!("https://{}/ui/#token={token}", self.address)
    }

    /// Writes the address into a file that only its owner can read, and says where.
    fn keep_dashboard_address(&self, token: &str) -> String {
        let path = self.kubeconfig.with_file_name(ADDRESS_FILE);
        let page = format!("https://{}/ui/", self.address);
        match write_private_file(&path, format!("{}\n", self.dashboard_address(token)).as_bytes()) {
            Ok(()) => format!("{page} (the address that signs one browser in: {})", path.display()),
            // A full disk is no reason not to serve.
            Err(error) => {
                format!("{page} (to sign in run lazaret device ui: {error})")
            }
        }
    }

    fn text(&self, dashboard: &str) -> String {
        let (address, path) = (self.address, self.kubeconfig.display());
        let [first, second, third] = if self.nodes == 0 {
            [
                "kubectl get namespaces",
                "kubectl api-resources --api-group=resource.k8s.io",
                "lazaret device check",
            ]
        } else {
            [
                "kubectl get nodes,resourceslices",
                "lazaret device list",
                "lazaret device fail node-1/gpu-0 --effect NoSchedule",
            ]
        };
        format!(
            "serving https://{address}\nkubeconfig: {path}\ndashboard: {dashboard}\n\ntry:\n  export KUBECONFIG={path}\n  {first}\n  {second}\n  {third}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn announcement(kubeconfig: &Path) -> Announcement<'_> {
        Announcement { address: ([127, 0, 0, 1], 7443).into(), kubeconfig, nodes: 0 }
    }

    #[test]
    fn the_token_is_kept_in_a_file_of_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(ADDRESS_FILE);
        fs::write(&path, "of an earlier start").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let announcement = announcement(&kubeconfig);
        let text = announcement.text(&announcement.keep_dashboard_address("secret"));
        assert!(!text.contains("secret") && text.contains(&path.display().to_string()), "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "https://127.0.0.1:7443/ui/#token=secret\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_server_whose_disk_takes_no_file_serves_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("absent/kubeconfig");
        let announcement = announcement(&kubeconfig);
        let text = announcement.text(&announcement.keep_dashboard_address("secret"));
        assert!(!text.contains("secret") && text.contains("lazaret device ui"), "{text}");
    }
}
