//! How fast pods may be made to leave tainted devices, as flags.

use lazaret_eviction::Options;

/// The paces of eviction that are not up to a taint.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Eviction")]
pub(crate) struct Pace {
    /// Evictions per second for each taint that names no rate itself [default: all at once]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    default_evictions_per_second: Option<u32>,
    /// Evictions per second for all taints together [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    evictions_per_second_max: Option<u32>,
    /// Evictions in flight at a time
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=100))]
    concurrent_evictions: u16,
}

impl Pace {
    /// The knobs of an eviction of this pace.
    pub(crate) fn options(&self) -> Options {
        Options {
            default_evictions_per_second: self.default_evictions_per_second,
            global_per_second: self.evictions_per_second_max,
            evictions_in_flight_max: usize::from(self.concurrent_evictions),
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Probe {
        #[command(flatten)]
        pace: Pace,
    }

    fn parse(line: &str) -> Result<Options, String> {
        let words = ["probe"].into_iter().chain(line.split_whitespace());
        Probe::try_parse_from(words).map(|probe| probe.pace.options()).map_err(|error| error.to_string())
    }

    #[test]
    fn config_defaults() {
        assert_eq!(parse(""), Ok(Options::default()));
    }

    #[test]
    fn options_parse_apply_validate() {
        for (line, expected) in [
            ("--concurrent-evictions 50", Some((None, None, 50))),
            ("--concurrent-evictions 1", Some((None, None, 1))),
            ("--concurrent-evictions 0", None),
            ("--concurrent-evictions=-5", None),
            ("--concurrent-evictions 101", None),
            ("--default-evictions-per-second 10", Some((Some(10), None, 64))),
            ("--default-evictions-per-second 0", None),
            ("--evictions-per-second-max 200", Some((None, Some(200), 64))),
            ("--evictions-per-second-max=-1", None),
        ] {
            let found = parse(line).map(|options| {
                let Options { default_evictions_per_second, global_per_second, .. } = options;
                (default_evictions_per_second, global_per_second, options.evictions_in_flight_max)
            });
            match expected {
                Some(expected) => assert_eq!(found, Ok(expected), "{line}"),
                None => {
                    let flag = line.split([' ', '=']).next().unwrap_or_default();
                    assert!(found.as_ref().is_err_and(|error| error.contains(flag)), "{line}: {found:?}");
                }
            }
        }
    }
}
