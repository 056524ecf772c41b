//! Completions of a command line: commands and flags from the command line's own description, names from the cluster.

use std::time::Duration;

use clap::{Arg, Command};

use crate::{Console, Session, args::Connection, commands::completion_names, connect};

/// A person waits for this with a finger on the key: what the cluster does not tell within it is left out.
const CLUSTER_TIME_MAX: Duration = Duration::from_secs(2);
/// Names offered at a time; more cannot be read.
const CANDIDATES_MAX: usize = 1000;
/// The shell offers no files.
const NO_FILES: &str = ":4";
/// The shell offers files.
const FILES: &str = ":0";

/// Names that only a cluster or a kubeconfig knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Devices.
    Devices,
    /// Devices, and taints of this command's rules to remove.
    DevicesAndTaints,
    /// Nodes that have devices.
    Nodes,
    /// Drivers that have devices.
    Drivers,
    /// Pods.
    Pods,
    /// Namespaces.
    Namespaces,
    /// Contexts of the kubeconfig.
    Contexts,
    /// Clusters of the kubeconfig.
    Clusters,
    /// Users of the kubeconfig.
    Users,
    /// Files, which the shell knows better.
    Files,
}

/// Candidates for a word.
#[derive(Debug, Default)]
struct Question {
    /// Candidates that need no request: `CANDIDATE` or `CANDIDATE\tDESCRIPTION`.
    fixed: Vec<String>,
    names: Option<Names>,
    /// The part of the word that was typed, without a `--flag=` in front of it.
    typed: String,
    /// That `--flag=`.
    flag: String,
    /// The words before it that are no flags: nobody names a device twice.
    given: Vec<String>,
    connection: Connection,
}

/// Candidates for the last of `words`, one a line, and a last line `:N` as kubectl and cobra's scripts read it. `command` is
/// `kubectl device`, or has it as its command `device`.
pub async fn complete(command: Command, words: &[String]) -> String {
    let question = question(command, words);
    let asked = tokio::time::timeout(CLUSTER_TIME_MAX, Box::pin(found(&question)));
    let known = asked.await.unwrap_or_default();
    question.answer(known)
}

/// The same with a cluster that is connected already.
pub(crate) async fn complete_in(session: &mut Session<'_>, words: &[String]) -> String {
    let question = question(crate::args::command(), words);
    if question.connection.namespace.is_some() {
        session.connection.namespace.clone_from(&question.connection.namespace);
    }
    let known = match question.names {
        Some(names) => completion_names(session, names).await.unwrap_or_default(),
        None => Vec::new(),
    };
    question.answer(known)
}

impl Question {
    fn answer(&self, known: Vec<String>) -> String {
        let names =
            fitting(known, &self.typed, &self.given).into_iter().map(|name| format!("{}{name}", self.flag));
        let candidates = self.fixed.iter().cloned().chain(names);
        let mut text: String = candidates.take(CANDIDATES_MAX).map(|candidate| candidate + "\n").collect();
        text.push_str(if self.names == Some(Names::Files) { FILES } else { NO_FILES });
        text.push('\n');
        text
    }
}

async fn found(question: &Question) -> Vec<String> {
    let Some(names) = question.names else { return Vec::new() };
    let kubeconfig = |entries: fn(kube::config::Kubeconfig) -> Vec<String>| {
        let read = match &question.connection.kubeconfig {
            Some(path) => kube::config::Kubeconfig::read_from(path),
            None => kube::config::Kubeconfig::read(),
        };
        read.map(entries).unwrap_or_default()
    };
    match names {
        Names::Contexts => kubeconfig(|file| file.contexts.into_iter().map(|entry| entry.name).collect()),
        Names::Clusters => kubeconfig(|file| file.clusters.into_iter().map(|entry| entry.name).collect()),
        Names::Users => kubeconfig(|file| file.auth_infos.into_iter().map(|entry| entry.name).collect()),
        Names::Files => Vec::new(),
        Names::Devices
        | Names::DevicesAndTaints
        | Names::Nodes
        | Names::Drivers
        | Names::Pods
        | Names::Namespaces => {
            let Ok(client) = connect(&question.connection).await else { return Vec::new() };
            let nowhere = || Box::new(std::io::sink());
            let mut console = Console::new(nowhere(), nowhere(), None, false);
            let mut session = Session::new(client, &mut console, question.connection.clone());
            completion_names(&mut session, names).await.unwrap_or_default()
        }
    }
}

/// Names that begin as typed, in full or, where none does, without their driver or their pool.
fn fitting(known: Vec<String>, typed: &str, given: &[String]) -> Vec<String> {
    let mut shorter: Vec<Vec<String>> = vec![Vec::new(); 3];
    for name in known {
        let parts: Vec<&str> = name.splitn(3, '/').collect();
        for (at, names) in shorter.iter_mut().enumerate().take(parts.len()) {
            let short = parts.get(at..).unwrap_or_default().join("/");
            if short.starts_with(typed) && !given.contains(&short) {
                names.push(short);
            }
        }
    }
    let mut found = shorter.into_iter().find(|names| !names.is_empty()).unwrap_or_default();
    found.sort();
    found.dedup();
    found
}

/// Understands the words as far as they go; what makes no sense is passed over, for nobody has finished typing.
fn question(mut command: Command, words: &[String]) -> Question {
    command.build();
    let mut here = &command;
    let mut device = here.get_name() == "kubectl-device";
    let (last, before) =
        words.split_last().map_or((String::new(), &[][..]), |(last, rest)| (last.clone(), rest));
    let mut question = Question { typed: last, ..Question::default() };
    let mut awaited: Option<&Arg> = None;
    let mut flags_end = false;
    for word in before {
        if let Some(arg) = awaited.take() {
            question.connection.take(arg.get_id().as_str(), word);
        } else if !flags_end && word == "--" {
            flags_end = true;
        } else if !flags_end && word.starts_with('-') && word.len() > 1 {
            let (flag, value) =
                word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
            let Some(arg) = flag_of(here, flag) else { continue };
            match value {
                Some(value) => question.connection.take(arg.get_id().as_str(), value),
                None => awaited = Some(arg).filter(|arg| takes_next_word(arg)),
            }
        } else if let Some(sub) = here.find_subcommand(word).filter(|_| question.given.is_empty()) {
            device |= sub.get_name() == "device";
            here = sub;
        } else {
            question.given.push(word.clone());
        }
    }
    let written = question.typed.clone();
    let arg = match (awaited, written.split_once('=')) {
        (Some(arg), _) => Some(arg),
        (None, Some((flag, value))) if flag.starts_with("--") && !flags_end => {
            question.flag = format!("{flag}=");
            question.typed = value.to_owned();
            flag_of(here, flag)
        }
        (None, _) if written.starts_with('-') && !flags_end => {
            question.fixed = flags(here, &written);
            None
        }
        (None, _) => {
            question.fixed = if question.given.is_empty() { subcommands(here, &written) } else { Vec::new() };
            let positionals: Vec<&Arg> = here.get_positionals().collect();
            positionals
                .get(question.given.len())
                .or(positionals.last().filter(|arg| takes_many(arg)))
                .copied()
        }
    };
    if let Some(arg) = arg {
        let values = arg.get_possible_values();
        let fitting = values
            .iter()
            .filter(|value| !value.is_hide_set() && value.get_name().starts_with(&question.typed));
        question.fixed.extend(fitting.map(|value| format!("{}{}", question.flag, value.get_name())));
        question.names = names_of(here, arg).filter(|names| device || *names == Names::Files);
    }
    question
}

fn takes_next_word(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn takes_many(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.max_values() > 1)
        || matches!(arg.get_action(), clap::ArgAction::Append)
}

fn flag_of<'a>(command: &'a Command, written: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match written.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => {
            arg.get_short().is_some_and(|short| written.strip_prefix('-') == Some(short.to_string().as_str()))
        }
    })
}

fn described(name: &str, about: Option<&clap::builder::StyledStr>) -> String {
    let about = about.map(ToString::to_string).unwrap_or_default();
    match about.lines().next() {
        Some(line) => format!("{name}\t{line}"),
        None => name.to_owned(),
    }
}

fn subcommands(command: &Command, typed: &str) -> Vec<String> {
    let shown =
        command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name().starts_with(typed));
    shown.map(|sub| described(sub.get_name(), sub.get_about())).collect()
}

fn flags(command: &Command, typed: &str) -> Vec<String> {
    let longs = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let longs = longs.filter_map(|arg| Some((format!("--{}", arg.get_long()?), arg.get_help())));
    longs.filter(|(flag, _)| flag.starts_with(typed)).map(|(flag, help)| described(&flag, help)).collect()
}

/// By what an argument is called: the same name means the same thing in every command.
fn names_of(command: &Command, arg: &Arg) -> Option<Names> {
    Some(match arg.get_id().as_str() {
        "words" if command.get_name() == "taint" => Names::DevicesAndTaints,
        "words" | "devices" | "device" | "incident" => Names::Devices,
        "node" => Names::Nodes,
        "driver" => Names::Drivers,
        "pod" => Names::Pods,
        "namespace" => Names::Namespaces,
        "context" => Names::Contexts,
        "cluster" => Names::Clusters,
        "user" => Names::Users,
        "kubeconfig" | "folder" | "paths" | "data_dir" => Names::Files,
        _ => return None,
    })
}

impl Connection {
    /// Takes in a flag that says with which cluster to speak, and as whom.
    fn take(&mut self, id: &str, value: &str) {
        let value = value.to_owned();
        match id {
            "kubeconfig" => self.kubeconfig = Some(value.into()),
            "context" => self.context = Some(value),
            "cluster" => self.cluster = Some(value),
            "user" => self.user = Some(value),
            "as_user" => self.as_user = Some(value),
            "as_group" => self.as_group.push(value),
            "namespace" => self.namespace = Some(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Question {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        question(crate::args::command(), &words)
    }

    #[test]
    fn words_are_understood_as_far_as_they_go() {
        let rows: &[(&str, Option<Names>, &str)] = &[
            ("list ", Some(Names::Devices), ""),
            ("list gpu-0 no", Some(Names::Devices), "no"),
            ("ls --node ", Some(Names::Nodes), ""),
            ("drain --node=n", Some(Names::Nodes), "n"),
            ("drain --reason x gpu", Some(Names::Devices), "gpu"),
            ("drain --reason ", None, ""),
            ("taint ", Some(Names::DevicesAndTaints), ""),
            ("--context ", Some(Names::Contexts), ""),
            ("list -n ", Some(Names::Namespaces), ""),
            ("why ", Some(Names::Pods), ""),
            ("fail ", Some(Names::Devices), ""),
            ("release --force ", Some(Names::Devices), ""),
            ("release --reason ", None, ""),
            ("describe gpu-0 ", None, ""),
            ("man ", Some(Names::Files), ""),
        ];
        for (line, names, typed) in rows {
            let question = asked(line);
            assert_eq!((question.names, question.typed.as_str()), (*names, *typed), "{line}");
        }
        assert_eq!(
            asked("list --context prod -n lab --kubeconfig=/k gpu").connection.context.as_deref(),
            Some("prod")
        );
        assert_eq!(asked("list --context prod -n lab gpu").connection.namespace.as_deref(), Some("lab"));
    }

    #[test]
    fn commands_flags_and_values_are_known_without_a_cluster() {
        let names = |line: &str| -> Vec<String> {
            asked(line).fixed.iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
        };
        assert_eq!(names("un"), ["uncordon"]);
        assert!(names("").contains(&"drain".to_owned()) && !names("").contains(&"__complete".to_owned()));
        assert_eq!(names("drain --evi"), ["--evictions-per-second"]);
        assert_eq!(names("list -o "), ["table", "wide", "json", "yaml", "name"]);
        assert_eq!(names("list --output=j"), ["--output=json"]);
        assert_eq!(
            names("fail gpu-0 --effect No"),
            ["None", "NoSchedule", "NoExecute"].map(|s| s.to_owned())
        );
    }

    #[test]
    fn a_name_may_be_typed_without_its_driver_or_pool() {
        let known =
            || vec!["gpu.example.com/node-1/gpu-0".to_owned(), "gpu.example.com/node-1/gpu-1".to_owned()];
        assert_eq!(fitting(known(), "gpu.", &[]), known());
        assert_eq!(fitting(known(), "node-1/gpu-1", &[]), ["node-1/gpu-1"]);
        assert_eq!(fitting(known(), "gpu-", &[]), ["gpu-0", "gpu-1"]);
        assert_eq!(fitting(known(), "node-1/", &["node-1/gpu-0".to_owned()]), ["node-1/gpu-1"]);
        assert_eq!(fitting(known(), "x", &[]), [] as [String; 0]);
    }
}
