//! The log of the process, on standard error.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use lazaret_print::{harmless_json, in_a_line};
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt::{self, MakeWriter},
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
        let layer = layer(self.log_format, io::stderr);
        // A second subscriber is refused, which is as it should be.
        let _ = tracing_subscriber::registry().with(layer.with_filter(targets(self.verbose))).try_init();
    }
}

/// Writes a line for each event.
fn layer<W>(format: LogFormat, out: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Clone + Send + Sync + 'static,
{
    let layer = fmt::layer().with_ansi(false).with_writer(move || HarmlessLines { format, out: out.clone() });
    match format {
        LogFormat::Text => layer.with_target(false).boxed(),
        LogFormat::Json => layer.json().boxed(),
    }
}

/// Lines in which texts of the cluster are shown and never obeyed: whoever reads the log may read it in a terminal. An event is a line, whatever
/// is in its fields.
struct HarmlessLines<W> {
    format: LogFormat,
    out: W,
}

impl<W: for<'w> MakeWriter<'w>> Write for HarmlessLines<W> {
    /// One event at a time, as the layer hands them over.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let shown: Cow<'_, str> = match self.format {
            LogFormat::Text => in_a_line(line),
            LogFormat::Json => harmless_json(line),
        };
        self.out.make_writer().write_all(format!("{shown}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.make_writer().flush()
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
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The text of everything that is written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat) -> String {
        let written = Written::default();
        let out = written.clone();
        let registry = tracing_subscriber::registry().with(layer(format, move || out.clone()));
        tracing::subscriber::with_default(registry, || {
            let hostile = "\x1b[2J\rok\u{202e}\u{9b}31m\n2026-01-01 ERROR forged";
            tracing::warn!(why = %hostile, "{hostile}");
        });
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn texts_in_logs_drive_no_terminal_and_an_event_is_a_line() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged(format);
            let (line, rest) = text.split_once('\n').unwrap();
            assert!(rest.is_empty(), "{text:?}");
            assert!(!line.chars().any(lazaret_print::is_unseen), "{line:?}");
            assert!(line.contains("forged") && line.contains("202e"), "{line}");
        }
        let json: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json)).unwrap();
        assert_eq!(json["fields"]["why"].as_str().unwrap().chars().next(), Some('\x1b'));
    }

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
