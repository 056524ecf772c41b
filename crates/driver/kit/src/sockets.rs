//! Where a driver listens.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use thiserror::Error;
use tokio::net::UnixListener;

/// The path of a Unix socket is shorter than this: the kernel keeps 108 bytes, the last of them zero.
const PATH_BYTES_MAX: usize = 107;

/// The sockets of a driver.
///
/// The file name of the registration socket has an `@` in it. Kubelet calls it with the percent-encoded path as
/// `:authority`, and a `%` is not allowed in the name of a host, so `h2` refuses such a call. With the `@`, all that is
/// encoded comes to stand before it, where `user:password` may be and a `%` is allowed; the host is `reg.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// Where kubelet asks who this is.
    pub registration: PathBuf,
    /// Where kubelet sends its calls.
    pub service: PathBuf,
}

/// Why there is no socket.
#[derive(Debug, Error)]
pub enum SocketError {
    /// No name is short enough.
    #[error(
        "{path} has {length} bytes, a socket's path has at most {PATH_BYTES_MAX}: use a shorter directory"
    )]
    TooLong {
        /// The shortest that was tried.
        path: PathBuf,
        /// Its length.
        length: usize,
    },
    /// There is something else at the path.
    #[error("{0} exists and is not a socket")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Sockets {
    /// Those of the only instance on a node.
    ///
    /// # Errors
    /// When a path is too long.
    pub fn single(driver: &str, registry: &Path, data: &Path) -> Result<Self, SocketError> {
        let registration =
            first_name_that_fits(registry, &[format!("{driver}@reg.sock"), hashed(driver, "")])?;
        let service = first_name_that_fits(data, &["dra.sock".into()])?;
        Ok(Self { registration, service })
    }

    /// Those of the plugin of a classic driver.
    ///
    /// # Errors
    /// When a path is too long.
    pub fn classic(driver: &str, registry: &Path, data: &Path) -> Result<Self, SocketError> {
        let short = hashed(driver, "").replace("@reg.sock", "@cls.sock");
        let registration = first_name_that_fits(registry, &[format!("{driver}@cls.sock"), short])?;
        let service = first_name_that_fits(data, &["cls.sock".into()])?;
        Ok(Self { registration, service })
    }

    /// Those of one of several instances that overlap in a rolling update, which the UID of its pod tells apart.
    ///
    /// # Errors
    /// When a path is too long.
    pub fn rolling(driver: &str, pod_uid: &str, registry: &Path, data: &Path) -> Result<Self, SocketError> {
        let short = URL_SAFE_NO_PAD.encode(&digest(&SHA256, pod_uid.as_bytes()).as_ref()[..8]);
        let names = [
            format!("{driver}-{pod_uid}@reg.sock"),
            format!("{driver}-{short}@reg.sock"),
            hashed(driver, pod_uid),
        ];
        let registration = first_name_that_fits(registry, &names)?;
        let service =
            first_name_that_fits(data, &[format!("dra-{pod_uid}.sock"), format!("dra-{short}.sock")])?;
        Ok(Self { registration, service })
    }
}

fn hashed(driver: &str, pod_uid: &str) -> String {
    let both = [driver.as_bytes(), &[0], pod_uid.as_bytes()].concat();
    format!("dra-{}@reg.sock", URL_SAFE_NO_PAD.encode(&digest(&SHA256, &both).as_ref()[..16]))
}

fn first_name_that_fits(directory: &Path, names: &[String]) -> Result<PathBuf, SocketError> {
    let mut last = PathBuf::new();
    for name in names {
        last = directory.join(name);
        if last.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(last);
        }
    }
    let length = last.as_os_str().len();
    Err(SocketError::TooLong { path: last, length })
}

/// A listening socket. Its file is removed when this is dropped, unless another process has replaced it by then.
#[derive(Debug)]
pub(crate) struct Bound {
    path: PathBuf,
    file: (u64, u64),
}

impl Bound {
    /// Listens, in place of an instance that is gone.
    pub(crate) fn listen(path: &Path) -> Result<(Self, UnixListener), SocketError> {
        let failed = |source| SocketError::Io { path: path.to_owned(), source };
        match path.symlink_metadata() {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(SocketError::NotASocket(path.to_owned()));
            }
            Ok(_) => fs::remove_file(path).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        // Kubelet is root, and no other user has a reason to call.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let file = identity(path).map_err(failed)?;
        Ok((Self { path: path.to_owned(), file }, listener))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // A successor at the same path has put its own socket there.
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = path.symlink_metadata()?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "8a2f5c1e-9b0d-4c7a-a1b2-c3d4e5f60718";

    #[test]
    fn names_get_shorter_until_they_fit() {
        let registry = Path::new("/var/lib/kubelet/plugins_registry");
        let data = Path::new("/var/lib/kubelet/plugins/d");
        let name = |driver: &str| {
            let sockets = Sockets::rolling(driver, UID, registry, data).unwrap();
            assert!(sockets.registration.as_os_str().len() <= PATH_BYTES_MAX);
            sockets.registration.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(name("gpu.example.com"), format!("gpu.example.com-{UID}@reg.sock"));
        let long = name(&format!("gpu.{}.com", "x".repeat(40)));
        assert!(long.starts_with("gpu.xxx") && !long.contains(UID) && long.ends_with("@reg.sock"), "{long}");
        let longest = name(&format!("gpu.{}.com", "x".repeat(55)));
        assert!(longest.starts_with("dra-") && longest.ends_with("@reg.sock"), "{longest}");
        let single = Sockets::single("gpu.example.com", registry, data).unwrap();
        assert_eq!(single.registration, registry.join("gpu.example.com@reg.sock"));
        assert_eq!(single.service, data.join("dra.sock"));
        let classic = Sockets::classic("gpu.example.com", registry, data).unwrap();
        assert_eq!(classic.registration, registry.join("gpu.example.com@cls.sock"));
        assert_eq!(classic.service, data.join("cls.sock"));
        let deep = PathBuf::from(format!("/{}", "x".repeat(100)));
        let error = Sockets::single("gpu.example.com", &deep, data).unwrap_err();
        assert!(error.to_string().contains("at most 107"), "{error}");
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let (first, _listener) = Bound::listen(&path).unwrap();
        let (second, _listener) = Bound::listen(&path).unwrap();
        drop(first);
        assert!(path.exists(), "it is the successor's");
        drop(second);
        assert!(!path.exists());
        fs::write(&path, "x").unwrap();
        assert!(matches!(Bound::listen(&path), Err(SocketError::NotASocket(_))));
    }
}
