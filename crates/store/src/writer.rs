//! The one thread that writes: takes what is queued, up to a limit, and commits it as a group.

use std::io;
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc;

use crate::commit::{Committer, Request};
use crate::options::Options;

/// What comes through the queue.
#[derive(Debug)]
pub(crate) enum Message {
    Request(Request),
    /// Take nothing more; finish what is queued. (Not left to the last sender's drop: a forgotten future may hold
    /// a sender for ever.)
    Close,
}

/// Runs until it is told to close and the queue is empty; then drops the committer and the farewell,
/// in that order.
pub(crate) fn spawn(
    committer: Committer,
    queue: mpsc::Receiver<Message>,
    options: &Options,
    farewell: impl Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let mut intake = Intake {
        queue,
        held: None,
        group_ops_max: options.group_ops_max,
        group_bytes_max: options.group_bytes_max,
    };
    let mut committer = committer;
    thread::Builder::new().name("store-writer".into()).spawn(move || {
        while let Some(group) = intake.next_group() {
            committer.commit(group);
        }
        drop(committer);
        drop(farewell);
    })
}

struct Intake {
    queue: mpsc::Receiver<Message>,
    /// The request that did not fit into the group before.
    held: Option<Request>,
    group_ops_max: usize,
    group_bytes_max: usize,
}

impl Intake {
    /// Waits for one request, and takes along those that wait already and fit.
    fn next_group(&mut self) -> Option<Vec<Request>> {
        let first = match self.held.take() {
            Some(request) => request,
            None => self.first()?,
        };
        let (mut ops, mut bytes) = first.weight();
        let mut group = vec![first];
        while let Ok(message) = self.queue.try_recv() {
            let Message::Request(request) = message else {
                self.queue.close();
                continue;
            };
            let (more_ops, more_bytes) = request.weight();
            ops += more_ops;
            bytes += more_bytes;
            if ops > self.group_ops_max || bytes > self.group_bytes_max {
                self.held = Some(request);
                break;
            }
            group.push(request);
        }
        Some(group)
    }

    fn first(&mut self) -> Option<Request> {
        loop {
            match self.queue.blocking_recv()? {
                Message::Request(request) => return Some(request),
                Message::Close => self.queue.close(),
            }
        }
    }
}
