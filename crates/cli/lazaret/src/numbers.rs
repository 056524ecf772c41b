//! Metrics over plain HTTP, for a process that serves nothing else.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Version, header::HOST};
use lazaret_host::HostError;
use lazaret_runtime::Metrics;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

/// A question that is longer than this, or takes longer to be asked and answered, is cut off.
const QUESTION_BYTES_MAX: usize = 8 << 10;
const QUESTION_TIME_MAX: Duration = Duration::from_secs(5);
/// Questions that are answered at once; the next wait until one is done.
const QUESTIONS_MAX: usize = 16;

/// Answers `/metrics`, `/healthz`, `/livez` and `/readyz`; never ends. Without a listener it only waits.
pub(crate) async fn serve(listener: Option<TcpListener>, metrics: Metrics) {
    serve_with(listener, metrics, Vec::new).await;
}

/// The same, ready only when these checks pass as well.
pub(crate) async fn serve_with(
    listener: Option<TcpListener>,
    metrics: Metrics,
    more: impl Fn() -> Vec<(String, bool)>,
) {
    let Some(listener) = listener else { return std::future::pending().await };
    serve_within(QUESTION_TIME_MAX, &listener, &metrics, more).await;
}

async fn serve_within(
    patience: Duration,
    listener: &TcpListener,
    metrics: &Metrics,
    more: impl Fn() -> Vec<(String, bool)>,
) {
    let mut questions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if questions.len() < QUESTIONS_MAX => match accepted {
                Ok((connection, _)) => {
                    let checks = more();
                    questions.spawn(timeout(patience, answer(connection, metrics.clone(), checks)));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            // How it ended concerns only the client.
            Some(_) = questions.join_next() => {}
        }
    }
}

async fn answer(
    mut connection: TcpStream,
    metrics: Metrics,
    more: Vec<(String, bool)>,
) -> std::io::Result<()> {
    let mut question = Vec::new();
    while !question.windows(4).any(|window| window == b"\r\n\r\n") {
        if question.len() > QUESTION_BYTES_MAX || connection.read_buf(&mut question).await? == 0 {
            return Ok(());
        }
    }
    let line = String::from_utf8_lossy(question.split(|byte| *byte == b'\r').next().unwrap_or_default())
        .into_owned();
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match check_host(&question) {
        Err(error) => ("400 Bad Request", "text/plain", format!("{error}\n")),
        Ok(()) => respond(method, path, &metrics, more),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(body.as_bytes()).await?;
    connection.shutdown().await
}

/// The status, type and body of an answer.
fn respond(
    method: &str,
    path: &str,
    metrics: &Metrics,
    more: Vec<(String, bool)>,
) -> (&'static str, &'static str, String) {
    match (method, path) {
        ("GET", "/metrics") => {
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.text())
        }
        ("GET", "/healthz" | "/livez") => ("200 OK", "text/plain", "ok".to_owned()),
        ("GET", "/readyz") => readiness(metrics, more),
        _ => ("404 Not Found", "text/plain", "GET /metrics, /healthz, /livez or /readyz\n".to_owned()),
    }
}

/// The same check of the `Host` header as at every other address.
fn check_host(question: &[u8]) -> Result<(), HostError> {
    let text = String::from_utf8_lossy(question);
    let mut lines = text.split("\r\n");
    let version = match lines.next().and_then(|line| line.rsplit(' ').next()) {
        Some("HTTP/1.0") => Version::HTTP_10,
        Some(_) | None => Version::HTTP_11,
    };
    let mut headers = HeaderMap::new();
    let pairs = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    for (_, host) in pairs.filter(|(name, _)| name.eq_ignore_ascii_case(HOST.as_str())) {
        headers.append(HOST, HeaderValue::try_from(host.trim()).map_err(|_| HostError::Malformed)?);
    }
    lazaret_host::check(version, &headers)
}

/// Whether every task works and every check passes, as an API server says it.
fn readiness(metrics: &Metrics, more: Vec<(String, bool)>) -> (&'static str, &'static str, String) {
    let mut checks = metrics.health().checks();
    checks.extend(more);
    let mut report = String::new();
    for (name, works) in &checks {
        report.push_str(&if *works { format!("[+]{name} ok\n") } else { format!("[-]{name} failed\n") });
    }
    if checks.iter().all(|(_, works)| *works) {
        ("200 OK", "text/plain", format!("{report}readyz check passed\n"))
    } else {
        ("500 Internal Server Error", "text/plain", format!("{report}readyz check failed\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    async fn ask(address: SocketAddr, question: &str) -> String {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(question.as_bytes()).await.unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).await.unwrap();
        text
    }

    async fn while_served(patience: Duration, asks: impl AsyncFnOnce(SocketAddr)) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::default();
        tokio::select! {
            () = serve_within(patience, &listener, &metrics, || vec![("synced/pods".to_owned(), true)]) => {}
            () = asks(address) => {}
        }
    }

    #[tokio::test]
    async fn numbers_are_shown_and_nonsense_is_not_answered_with_them() {
        while_served(QUESTION_TIME_MAX, async |address| {
            let numbers = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
            assert!(numbers.starts_with("HTTP/1.1 200 OK") && numbers.ends_with("# EOF\n"), "{numbers}");
            assert!(ask(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.ends_with("ok"));
            let ready = ask(address, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await;
            assert!(
                ready.starts_with("HTTP/1.1 200 OK")
                    && ready.ends_with("[+]synced/pods ok\nreadyz check passed\n"),
                "{ready}"
            );
            assert!(
                ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.starts_with("HTTP/1.1 404")
            );
        })
        .await;
    }

    #[tokio::test]
    async fn a_request_has_one_host() {
        while_served(QUESTION_TIME_MAX, async |address| {
            for (head, code) in [
                ("GET /healthz HTTP/1.1\r\nAccept: */*\r\nhost: [::1]:80\r\n\r\n", "200"),
                ("GET /healthz HTTP/1.0\r\n\r\n", "200"),
                ("GET /healthz HTTP/1.1\r\n\r\n", "400"),
                ("GET /metrics HTTP/1.1\r\nHost: a\r\nHOST: a\r\n\r\n", "400"),
                ("GET /metrics HTTP/1.1\r\nHost: a b\r\n\r\n", "400"),
            ] {
                let answer = ask(address, head).await;
                assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{head}: {answer}");
            }
        })
        .await;
    }

    #[test]
    fn who_has_not_read_everything_is_not_ready() {
        let (status, _, report) = readiness(&Metrics::default(), vec![("synced/pods".to_owned(), false)]);
        assert_eq!(status, "500 Internal Server Error");
        assert_eq!(report, "[-]synced/pods failed\nreadyz check failed\n");
    }

    #[tokio::test]
    async fn who_says_nothing_keeps_nobody_waiting() {
        while_served(Duration::from_secs(3600), async |address| {
            let mut silent = Vec::new();
            for _ in 1..QUESTIONS_MAX {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            for _ in 0..3 {
                assert!(ask(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.ends_with("ok"));
            }
        })
        .await;
    }

    #[tokio::test]
    async fn who_says_nothing_is_cut_off_and_makes_room() {
        while_served(Duration::from_millis(50), async |address| {
            let mut silent = Vec::new();
            for _ in 0..3 * QUESTIONS_MAX {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            assert!(ask(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.ends_with("ok"));
            assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0);
        })
        .await;
    }
}
