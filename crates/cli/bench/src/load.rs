//! Many clients at once, each asking again as soon as it has its answer, or at a pace.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;

use crate::{clock, connection::Connection, report::Phase, target::Target};

/// A server that has too much to do says so; then it is asked again.
const TOO_MANY: u16 = 429;
const TOO_MANY_PAUSE: Duration = Duration::from_millis(500);

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) start: Instant,
    /// How long each request took, and when it was answered.
    pub(crate) measured: Vec<(Duration, Instant)>,
}

impl Outcome {
    pub(crate) fn phase(&self, name: &str) -> Phase {
        Phase::new(name, self.start, &self.measured)
    }
}

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LoadEnd {
    Passed(Duration),
    Sent(usize),
}

/// How a load is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) clients: usize,
    pub(crate) until: LoadEnd,
    /// Requests a second; 0: as fast as it goes.
    pub(crate) rate: u32,
}

impl Shape {
    /// When the request with this number may be sent.
    fn due(&self, start: Instant, number: usize) -> Option<Instant> {
        #[allow(clippy::cast_precision_loss, reason = "a count")]
        (self.rate > 0).then(|| start + Duration::from_secs_f64(number as f64 / f64::from(self.rate)))
    }
}

/// Opens `clients` connections beforehand: the handshakes are not part of a load.
pub(crate) async fn connect(target: &Target, clients: usize) -> Result<Vec<Connection>> {
    let mut connections = Vec::new();
    for _ in 0..clients.max(1) {
        connections.push(target.connect().await?);
    }
    Ok(connections)
}

/// `request` makes the request of a number; `before` hears the number when it is sent. Every answer must be a success.
pub(crate) async fn run(
    target: &Target,
    shape: Shape,
    request: impl Fn(usize) -> Vec<u8> + 'static,
    before: impl Fn(usize, Instant) + 'static,
) -> Result<Outcome> {
    let connections = connect(target, shape.clients).await?;
    let (request, before) = (Rc::new(request), Rc::new(before));
    let next = Rc::new(Cell::new(0_usize));
    let measured = Rc::new(RefCell::new(Vec::new()));
    let start = clock::now();
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        let (request, before, next, measured) =
            (Rc::clone(&request), Rc::clone(&before), Rc::clone(&next), Rc::clone(&measured));
        tasks.spawn_local(async move {
            loop {
                let number = next.get();
                let over = match shape.until {
                    LoadEnd::Passed(time) => start.elapsed() >= time,
                    LoadEnd::Sent(most) => number >= most,
                };
                if over {
                    return Ok::<_, anyhow::Error>(());
                }
                next.set(number + 1);
                if let Some(due) = shape.due(start, number) {
                    tokio::time::sleep_until(due.into()).await;
                }
                let bytes = request(number);
                let asked = clock::now();
                before(number, asked);
                ask(&mut connection, &bytes).await.with_context(|| format!("request {number}"))?;
                measured.borrow_mut().push((asked.elapsed(), clock::now()));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    drop(tasks);
    Ok(Outcome { start, measured: measured.take() })
}

/// One request, which must be granted; a server that has too much to do is asked again.
pub(crate) async fn ask(connection: &mut Connection, request: &[u8]) -> Result<()> {
    loop {
        let answer = connection.ask(request).await?;
        match answer.code {
            200..300 => return Ok(()),
            TOO_MANY => tokio::time::sleep(TOO_MANY_PAUSE).await,
            _ => bail!("the server answered {}", answer.refusal()),
        }
    }
}
