//! Several watches as one stream that never ends: a watch that is over begins again with a list.

use std::time::Duration;

use tokio::{sync::mpsc, task::JoinSet};

use super::load::Read;
use crate::{
    Error,
    api::{Api, Item, Resource},
    view::Cluster,
};

/// Changes that wait to be taken; a watch that is faster waits.
const QUEUE_MAX: usize = 256;
/// Between a watch that ended and the list after it: a server in trouble is not asked more often.
const PAUSE: Duration = Duration::from_secs(1);

/// A change of an object.
#[derive(Debug)]
pub(super) enum News {
    /// An object is so now.
    Set(Item),
    /// An object is gone.
    Gone(Item),
    /// All there is of a resource; what is not among it is gone.
    Listed(Resource, Vec<Item>),
}

impl News {
    /// Tells it to what is known of the cluster.
    pub(super) fn tell(self, cluster: &mut Cluster) {
        match self {
            Self::Set(item) => cluster.set(item.json()),
            Self::Gone(item) => cluster.gone(item.json()),
            Self::Listed(resource, items) => cluster.relist(resource.kind, items.iter().map(Item::json)),
        }
    }
}

/// The changes of several resources.
#[derive(Debug)]
pub(super) struct Follow {
    news: mpsc::Receiver<Result<News, Error>>,
    /// They end with this.
    _pumps: JoinSet<()>,
}

impl Follow {
    /// Watches what was read, from where it was read.
    pub(super) fn start(api: &Api, reads: &[Read]) -> Self {
        let (sender, news) = mpsc::channel(QUEUE_MAX);
        let mut pumps = JoinSet::new();
        for read in reads {
            let (api, sender, read) = (api.clone(), sender.clone(), read.clone());
            pumps.spawn(async move {
                if let Err(error) = pump(&api, read, &sender).await {
                    // The receiver may be gone.
                    let _ = sender.send(Err(error)).await;
                }
            });
        }
        Self { news, _pumps: pumps }
    }

    /// The next change. May be dropped while it waits: nothing is lost.
    pub(super) async fn next(&mut self) -> Result<News, Error> {
        match self.news.recv().await {
            Some(news) => news,
            None => Err(Error::Unreachable { action: "watch".into(), cause: "every watch has ended".into() }),
        }
    }
}

async fn pump(api: &Api, read: Read, sender: &mpsc::Sender<Result<News, Error>>) -> Result<(), Error> {
    let Read { resource, scope, mut version } = read;
    loop {
        let mut watch = api.watch(resource, &scope, &version).await?;
        while let Some((item, is_there)) = watch.next().await? {
            let news = if is_there { News::Set(item) } else { News::Gone(item) };
            if sender.send(Ok(news)).await.is_err() {
                return Ok(());
            }
        }
        tokio::time::sleep(PAUSE).await;
        let mut items = Vec::new();
        version = api.list(&resource, &scope, |item| items.push(item)).await?;
        if sender.send(Ok(News::Listed(resource, items))).await.is_err() {
            return Ok(());
        }
    }
}
