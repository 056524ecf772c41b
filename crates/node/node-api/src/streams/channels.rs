//! The protocols of exec and attach over websockets: each message begins with the number of its channel.

use crate::request::Parameters;

pub(super) const STDIN: u8 = 0;
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;
pub(super) const ERROR: u8 = 3;
pub(super) const RESIZE: u8 = 4;
/// A message of this channel names another that ends.
pub(super) const CLOSE: u8 = 255;

/// Which of them is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Channels stay open as long as the websocket.
    V4,
    /// The client may end one.
    V5,
}

impl Protocol {
    /// The newest that the client speaks.
    pub(super) fn choose(spoken: &[String]) -> Option<(&'static str, Self)> {
        const KNOWN: &[(&str, Protocol)] =
            &[("v5.channel.k8s.io", Protocol::V5), ("v4.channel.k8s.io", Protocol::V4)];
        KNOWN.iter().find(|(name, _)| spoken.iter().any(|spoken| spoken == name)).copied()
    }
}

/// Which streams a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamOptions {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

impl StreamOptions {
    /// By kubelet's parameters.
    ///
    /// # Errors
    /// When nothing is wanted.
    pub(super) fn of(parameters: &Parameters) -> Result<Self, &'static str> {
        let tty = parameters.flag("tty");
        let (stdin, stdout) = (parameters.flag("input"), parameters.flag("output"));
        // A terminal has one output.
        let stderr = parameters.flag("error") && !tty;
        if !stdin && !stdout && !stderr {
            return Err("you must specify at least 1 of stdin, stdout, stderr");
        }
        Ok(Self { stdin, stdout, stderr, tty })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_protocol_that_both_know_is_spoken() {
        let choose = |spoken: &[&str]| {
            let spoken: Vec<String> = spoken.iter().map(|name| (*name).to_owned()).collect();
            Protocol::choose(&spoken).map(|(_, protocol)| protocol)
        };
        assert_eq!(choose(&["v4.channel.k8s.io", "v5.channel.k8s.io"]), Some(Protocol::V5));
        assert_eq!(choose(&["channel.k8s.io", "v4.channel.k8s.io"]), Some(Protocol::V4));
        assert_eq!(choose(&["v5.channel.k8s.iox"]), None);
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn a_terminal_has_no_errors_of_its_own_and_something_is_wanted() {
        let read = |query: &str| StreamOptions::of(&Parameters::parse(query));
        let all = StreamOptions { stdin: true, stdout: true, stderr: true, tty: false };
        assert_eq!(read("input=1&output=1&error=1"), Ok(all));
        assert_eq!(
            read("input=1&output=1&error=1&tty=1"),
            Ok(StreamOptions { stderr: false, tty: true, ..all })
        );
        assert!(read("tty=1&error=1").is_err());
        assert!(read("").is_err());
    }
}
