//! The dashboard beside the API: a user who signs in with the printed address is the administrator that the kubeconfig names.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use lazaret_dashboard::{Dashboard, Transport};
use lazaret_server::{ADMIN, Pages, Server, SessionOver, User};

use crate::clock;

/// The user of a session.
#[derive(Clone, Debug)]
struct Viewer(Arc<User>);

impl fmt::Display for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

#[derive(Debug)]
struct DashboardPages(Dashboard<Viewer>);

impl Pages for DashboardPages {
    fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response<Bytes>> {
        self.0.answer(seconds(), method, uri.path(), headers)
    }

    fn user(&self, headers: &HeaderMap) -> Result<Option<Arc<User>>, SessionOver> {
        match self.0.user(seconds(), headers) {
            Ok(viewer) => Ok(viewer.map(|viewer| viewer.0)),
            Err(lazaret_dashboard::SessionOver) => Err(SessionOver),
        }
    }
}

/// Serves the dashboard and gives a token for one sign-in.
pub(super) fn serve(server: &Server, port: u16) -> String {
    let groups = vec![ADMIN.group.to_owned(), "system:authenticated".to_owned()];
    let admin = User { name: ADMIN.name.to_owned(), groups, ..User::default() };
    let dashboard = Dashboard::new(Transport::Tls, port);
    let token = dashboard.invite(seconds(), Viewer(Arc::new(admin)));
    server.serve_pages(DashboardPages(dashboard));
    token
}

fn seconds() -> u64 {
    clock::now().as_secs().try_into().unwrap_or_default()
}
