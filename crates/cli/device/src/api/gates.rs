//! Feature gates, read where Kubernetes tells them: among the metrics of the API server. Discovery does not tell, for DeviceTaintRules are
//! served and stored while their gate is off.

use http::{Method, Request, header};
use http_body_util::BodyExt;

use super::call::Api;
use crate::view::GateFacts;

/// The metrics of a large server are tens of megabytes; gates that have not come by then are not told.
const METRICS_BYTES_MAX: usize = 64 << 20;
/// A line of metrics is a name, some labels and a number.
const LINE_BYTES_MAX: usize = 64 << 10;

impl Api {
    /// The gates of device taints. A server that does not tell, or not this user, leaves them unknown.
    pub(crate) async fn gates(&self) -> GateFacts {
        let mut facts = GateFacts::default();
        let request = Request::builder()
            .method(Method::GET)
            .uri("/metrics")
            .header(header::ACCEPT, "text/plain;q=1, */*;q=0.1")
            .body(hyper::body::Bytes::new());
        let Ok(request) = request else { return facts };
        let Ok(response) = self.client.answer(request).await else { return facts };
        if response.status().as_u16() != 200 {
            facts.refused = matches!(response.status().as_u16(), 401 | 403);
            return facts;
        }
        let mut body = response.into_body();
        let (mut rest, mut bytes, mut begun) = (Vec::new(), 0, false);
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            bytes += data.len();
            rest.extend_from_slice(&data);
            // All gates stand together. Metrics after them are not read.
            let over = take_lines(&mut rest, &mut begun, &mut facts);
            if over || bytes > METRICS_BYTES_MAX || rest.len() > LINE_BYTES_MAX {
                break;
            }
        }
        facts
    }
}

/// Takes whole lines off the front of a buffer. `begun`: lines about gates have come. Returns whether they are over.
fn take_lines(buffer: &mut Vec<u8>, begun: &mut bool, facts: &mut GateFacts) -> bool {
    let Some(end) = buffer.iter().rposition(|byte| *byte == b'\n') else { return false };
    for line in buffer[..end].split(|byte| *byte == b'\n') {
        let is_gate = std::str::from_utf8(line).is_ok_and(|line| facts.take_line(line));
        if *begun && !is_gate {
            return true;
        }
        *begun |= is_gate;
    }
    buffer.drain(..=end);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_come_in_pieces() {
        let text = b"a 1\nkubernetes_feature_enabled{name=\"DRADeviceTaints\",stage=\"\"} 0\nkubernetes_feature_enabled{name=\"DRADeviceTaintRules\",stage=\"\"} 1\nz 1\n";
        for cut in 0..text.len() {
            let (mut facts, mut buffer, mut begun) = (GateFacts::default(), Vec::new(), false);
            let mut over = false;
            for piece in [&text[..cut], &text[cut..]] {
                assert!(!over, "cut at {cut}");
                buffer.extend_from_slice(piece);
                over = take_lines(&mut buffer, &mut begun, &mut facts);
            }
            assert_eq!((facts.taints, facts.rules), (Some(false), Some(true)), "cut at {cut}");
            assert!(over, "what follows is not read, cut at {cut}");
        }
    }
}
