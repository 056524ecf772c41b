//! A panic of one task is an error of that task alone.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
};

/// The output of a future, or the message of its panic. State that it borrowed mutably may be half changed after a panic: rebuild it, or do not use
/// it.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(payload) => std::task::Poll::Ready(Err(message(&*payload))),
    })
    .await
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_its_message() {
        assert_eq!(caught(async { 1 }).await, Ok(1));
        assert_eq!(caught(async { panic!("plain") }).await, Err::<(), _>("plain".to_owned()));
        let later = async {
            tokio::task::yield_now().await;
            panic!("number {}", 7)
        };
        assert_eq!(caught(later).await, Err::<(), _>("number 7".to_owned()));
    }
}
