//! The dashboard beside the API: a user who signs in with the printed address is the administrator that the kubeconfig names.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use lazaret_dashboard::{Dashboard, Transport};
use lazaret_server::{ADMIN, Pages, Requester, Server, SessionEnd, SessionOver, User};

use crate::clock;

/// How often sessions are looked at that are too old.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The user of a session.
#[derive(Clone, Debug)]
struct Viewer(Arc<User>);

impl fmt::Display for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

#[derive(Debug)]
struct DashboardPages(Arc<Dashboard<Viewer>>);

impl Pages for DashboardPages {
    fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response<Bytes>> {
        self.0.answer(seconds(), method, uri.path(), headers)
    }

    fn requester(&self, headers: &HeaderMap) -> Result<Option<Requester>, SessionOver> {
        let visit = self.0.visit(seconds(), headers).map_err(|lazaret_dashboard::SessionOver| SessionOver)?;
        Ok(visit.map(|visit| Requester {
            user: visit.user.0,
            session: Some(SessionEnd::new(visit.end.reached())),
        }))
    }
}

/// The dashboard that a server serves.
#[derive(Debug)]
pub(super) struct Served {
    dashboard: Arc<Dashboard<Viewer>>,
    /// For one sign-in.
    pub(super) token: String,
}

/// Serves the dashboard.
pub(super) fn serve(server: &Server, port: u16) -> Served {
    let groups = vec![ADMIN.group.to_owned(), "system:authenticated".to_owned()];
    let admin = User { name: ADMIN.name.to_owned(), groups, ..User::default() };
    let dashboard = Arc::new(Dashboard::new(Transport::Tls, port));
    let token = dashboard.invite(seconds(), Viewer(Arc::new(admin)));
    server.serve_pages(DashboardPages(Arc::clone(&dashboard)));
    Served { dashboard, token }
}

impl Served {
    /// Ends sessions that are too old; never ends itself.
    pub(super) async fn end_old_sessions(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.dashboard.end_old_sessions(seconds());
        }
    }
}

fn seconds() -> u64 {
    clock::now().as_secs().try_into().unwrap_or_default()
}
