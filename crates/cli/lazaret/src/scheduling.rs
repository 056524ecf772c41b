//! How pods are placed, as flags.

use lazaret_scheduler::Options;

/// A day: no device takes longer to get ready, and a mistyped number of seconds is noticed.
const BINDING_TIMEOUT_S_MAX: i64 = 86_400;

/// The settings of the scheduler that are flags.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Scheduling")]
pub(crate) struct SchedulingArgs {
    /// Seconds that devices with binding conditions may take to get ready before others are tried
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(i64).range(1..=BINDING_TIMEOUT_S_MAX))]
    binding_timeout: i64,
}

impl SchedulingArgs {
    /// The options of a scheduler with these settings.
    pub(crate) fn options(&self) -> Options {
        Options { binding_timeout_s: self.binding_timeout, ..Options::default() }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Probe {
        #[command(flatten)]
        scheduling: SchedulingArgs,
    }

    #[test]
    fn the_binding_timeout_is_that_of_kubernetes_or_as_given() {
        for (line, expected) in [
            ("", Some(600)),
            ("--binding-timeout 1", Some(1)),
            ("--binding-timeout 3600", Some(3_600)),
            ("--binding-timeout 0", None),
            ("--binding-timeout=-1", None),
            ("--binding-timeout 86401", None),
            ("--binding-timeout soon", None),
        ] {
            let words = ["probe"].into_iter().chain(line.split_whitespace());
            let found =
                Probe::try_parse_from(words).map(|probe| probe.scheduling.options().binding_timeout_s);
            assert_eq!(found.ok(), expected, "{line}");
        }
        assert_eq!(Options::default().binding_timeout_s, 600);
    }
}
