//! The log of the process, on standard error.

use std::io;

use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// How much is said, and how.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Logging {
    /// Say more: -v what is done, -vv every decision, -vvv everything
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// For people, or one JSON object a line
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Logging {
    /// From now on. Only the first call counts.
    pub(crate) fn start(self) {
        let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
        let registry = tracing_subscriber::registry().with(targets(self.verbose));
        // A second subscriber is refused, which is as it should be.
        let _ = match self.log_format {
            LogFormat::Text => registry.with(layer.with_target(false)).try_init(),
            LogFormat::Json => registry.with(layer.json()).try_init(),
        };
    }
}

/// The level of each target.
fn targets(verbose: u8) -> Targets {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // Logs of libraries are for users who ask for everything.
    let others = if level == LevelFilter::TRACE { LevelFilter::DEBUG } else { LevelFilter::WARN };
    // Records of policies that audit are always logged.
    Targets::new()
        .with_default(others)
        .with_target("lazaret", level)
        .with_target("audit", level.max(LevelFilter::INFO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_policies_note_is_always_said() {
        let info = LevelFilter::INFO.into_level().unwrap();
        for verbose in 0..4 {
            assert!(targets(verbose).would_enable("audit", &info), "{verbose}");
        }
        assert!(!targets(0).would_enable("lazaret_server", &info));
        assert!(targets(1).would_enable("lazaret_server", &info));
        assert!(!targets(1).would_enable("hyper", &info));
    }
}
