//! What the process says of itself while it runs, on standard error.

use std::io;

use tracing_subscriber::filter::LevelFilter;

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
        let level = match self.verbose {
            0 => LevelFilter::WARN,
            1 => LevelFilter::INFO,
            2 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
        // A second subscriber is refused, which is as it should be.
        let _ = match self.log_format {
            LogFormat::Text => builder.with_target(false).try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
    }
}
