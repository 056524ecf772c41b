//! Each command: read what it needs, ask [`view`](crate::view), print or write.

mod approve;
mod approve_taint;
mod approvers;
mod audit;
mod check;
mod check_installation;
mod check_webhook;
mod complete;
mod cordon;
mod describe;
mod drain;
mod drain_incidents;
mod drain_report;
mod fail;
mod follow;
mod guard;
mod history;
mod incidents;
mod list;
mod load;
mod pages;
mod plan;
mod record;
mod release;
mod select;
mod taint;
mod taint_future;
mod terminal;
mod top;
mod top_screen;
mod ui;
mod why;
mod write;

pub(crate) use self::complete::completion_names;
pub use pages::{completion_script, man_pages};
pub use top_screen::screen;

use std::path::PathBuf;

use lazaret_model::Timestamp;

use crate::{
    Console, Error, Verdict,
    api::{Api, Resource, Served},
    args::{Args, Command, Connection},
    clock,
    view::GateFacts,
};

/// The client, console and options of a command.
#[derive(Debug)]
pub struct Session<'a> {
    pub(crate) api: Api,
    pub(crate) console: &'a mut Console,
    /// As written, so that `-n` can be told from its absence.
    pub(crate) connection: Connection,
    default_namespace: String,
    now: fn() -> Timestamp,
    served: Option<Served>,
    gates: Option<GateFacts>,
    /// Where plans are kept for `--diff`.
    plans: Option<PathBuf>,
}

impl<'a> Session<'a> {
    /// A session with a cluster.
    #[must_use]
    pub fn new(client: kube::Client, console: &'a mut Console, connection: Connection) -> Self {
        let default_namespace = client.default_namespace().to_owned();
        Self {
            api: Api::new(client),
            console,
            connection,
            default_namespace,
            now: clock::now,
            served: None,
            gates: None,
            plans: plan::folder(),
        }
    }

    /// The same with another clock, for tests.
    #[must_use]
    pub fn at(self, now: fn() -> Timestamp) -> Self {
        Self { now, ..self }
    }

    /// The same with another place to keep plans, for tests.
    #[must_use]
    pub fn keeping_plans_in(self, folder: PathBuf) -> Self {
        Self { plans: Some(folder), ..self }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// The resources that the server serves; asked once.
    pub(crate) async fn served(&mut self) -> Result<Served, Error> {
        if let Some(served) = &self.served {
            return Ok(served.clone());
        }
        let served = self.api.served().await?;
        Ok(self.served.insert(served).clone())
    }

    /// Which feature gates are on, as far as the server tells; asked once.
    pub(crate) async fn gates(&mut self) -> GateFacts {
        match self.gates {
            Some(gates) => gates,
            None => *self.gates.insert(self.api.gates().await),
        }
    }

    /// Where a rule that has an effect is written.
    pub(crate) async fn rules_in_force(&mut self) -> Result<Resource, Error> {
        let served = self.served().await?;
        let rules = served.rules()?;
        match self.gates().await.stops_rules() {
            Some(gate) => Err(Error::RulesOff { gate, version: served.version.text }),
            None => Ok(rules),
        }
    }

    /// The namespace for a pod that is named without one.
    pub(crate) fn namespace(&self) -> &str {
        self.connection.namespace.as_deref().unwrap_or(&self.default_namespace)
    }
}

/// Runs a command against a cluster.
///
/// # Errors
/// Says what went wrong, in words for the user.
pub async fn run(args: Args, client: kube::Client, console: &mut Console) -> Result<Verdict, Error> {
    let session = Session::new(client, console, args.connection.clone());
    Box::pin(session.run(args)).await
}

impl Session<'_> {
    /// Runs a command.
    ///
    /// # Errors
    /// Says what went wrong, in words for the user.
    pub async fn run(mut self, args: Args) -> Result<Verdict, Error> {
        let session = &mut self;
        match args.command {
            Command::List(args) => list::run(session, args).await,
            Command::Describe(args) => describe::run(session, args).await,
            Command::Taint(args) => taint::run(session, args).await,
            Command::Plan(args) => plan::run(session, args).await,
            Command::Drain(args) => drain::run(session, args).await,
            Command::Cordon(args) => cordon::cordon(session, args).await,
            Command::Uncordon(args) => cordon::uncordon(session, args).await,
            Command::Release(args) => release::run(session, args).await,
            Command::Pause(args) => guard::pause(session, args).await,
            Command::Resume(args) => guard::resume(session, args).await,
            Command::Guard(args) => guard::guard(session, args).await,
            Command::Approve(args) => approve::run(session, args).await,
            Command::Why(args) => why::run(session, args).await,
            Command::History(args) => history::run(session, args).await,
            Command::Incidents(args) => incidents::run(session, args).await,
            Command::Report(args) => incidents::report(session, args).await,
            Command::Acknowledge(args) => incidents::act(session, args, incidents::Act::Acknowledge).await,
            Command::Repaired(args) => incidents::act(session, args, incidents::Act::Repaired).await,
            Command::Abandon(args) => incidents::act(session, args, incidents::Act::Abandon).await,
            Command::Ui(args) => ui::run(session, args).await,
            Command::Top(args) => top::run(session, args).await,
            Command::Record(args) => record::run(session, args).await,
            Command::Check(args) => check::run(session, args).await,
            Command::Fail(args) => fail::fail(session, args).await,
            Command::Recover(args) => fail::recover(session, args).await,
            Command::Completion { shell } => pages::completion(session.console, shell),
            Command::Man { folder } => pages::man(session.console, &folder),
            Command::Complete { words } => {
                let text = crate::complete::complete_in(session, &words).await;
                session.console.print(&text)?;
                Ok(Verdict::Yes)
            }
        }
    }
}

impl Args {
    /// Runs the command where it needs no cluster; `None` where it does.
    ///
    /// # Errors
    /// When output cannot be written.
    pub fn run_alone(&self, console: &mut Console) -> Option<Result<Verdict, Error>> {
        match &self.command {
            Command::Completion { shell } => Some(pages::completion(console, *shell)),
            Command::Man { folder } => Some(pages::man(console, folder)),
            Command::List(_)
            | Command::Describe(_)
            | Command::Taint(_)
            | Command::Plan(_)
            | Command::Drain(_)
            | Command::Cordon(_)
            | Command::Uncordon(_)
            | Command::Release(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Guard(_)
            | Command::Approve(_)
            | Command::Why(_)
            | Command::History(_)
            | Command::Incidents(_)
            | Command::Report(_)
            | Command::Acknowledge(_)
            | Command::Repaired(_)
            | Command::Abandon(_)
            | Command::Ui(_)
            | Command::Top(_)
            | Command::Record(_)
            | Command::Check(_)
            | Command::Fail(_)
            | Command::Recover(_)
            | Command::Complete { .. } => None,
        }
    }

    /// The words to complete, where that is what is asked for.
    #[must_use]
    pub fn words_to_complete(&self) -> Option<&[String]> {
        if let Command::Complete { words } = &self.command { Some(words) } else { None }
    }
}
