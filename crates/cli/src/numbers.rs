//! Metrics over plain HTTP, for a process that serves nothing else.

use std::time::Duration;

use lazaret_runtime::Metrics;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// A question that is longer than this, or takes longer, is not answered.
const QUESTION_BYTES_MAX: usize = 8 << 10;
const QUESTION_TIME_MAX: Duration = Duration::from_secs(5);

/// Answers `/metrics` and `/healthz`, one question after the other; never ends. Without a listener it only waits.
pub(crate) async fn serve(listener: Option<TcpListener>, metrics: Metrics) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            // Whoever asks slowly is cut off, so that the next is not kept waiting for long.
            Ok((connection, _)) => {
                let _ = timeout(QUESTION_TIME_MAX, answer(connection, &metrics)).await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut connection: TcpStream, metrics: &Metrics) -> std::io::Result<()> {
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
    let (status, kind, body) = match (method, path.split('?').next().unwrap_or_default()) {
        ("GET", "/metrics") => {
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.text())
        }
        ("GET", "/healthz") => ("200 OK", "text/plain", "ok".to_owned()),
        _ => ("404 Not Found", "text/plain", "GET /metrics or /healthz\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(body.as_bytes()).await?;
    connection.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn numbers_are_shown_and_nonsense_is_not_answered_with_them() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ask = |question: &'static str| async move {
            let mut connection = TcpStream::connect(address).await.unwrap();
            connection.write_all(question.as_bytes()).await.unwrap();
            let mut text = String::new();
            connection.read_to_string(&mut text).await.unwrap();
            text
        };
        let asks = async {
            let numbers = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
            assert!(numbers.starts_with("HTTP/1.1 200 OK") && numbers.ends_with("# EOF\n"), "{numbers}");
            assert!(ask("GET /healthz HTTP/1.1\r\n\r\n").await.ends_with("ok"));
            assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404"));
        };
        tokio::select! {
            () = serve(Some(listener), Metrics::default()) => {}
            () = asks => {}
        }
    }
}
