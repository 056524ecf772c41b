//! `lazaret-sim`: runs seeds until one fails.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports to a terminal")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process::ExitCode,
    thread::ScopedJoinHandle,
    time::{Duration, Instant},
};

use clap::Parser;
use lazaret_sim::{Coverage, Limits, Mutant, Runner, Scenario, Violation, run, shrink};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(5);

/// Runs seeded worlds of drivers, kubelets, schedulers, and controllers of claims, evictions, health policies, workloads and replacements with
/// faults, and checks the invariants of these cores after every step.
#[derive(Debug, Parser)]
#[command(
    name = "lazaret-sim",
    after_help = "Examples:\n  \
        lazaret-sim --seeds 10000                   ten thousand worlds of up to 1000 pods\n  \
        lazaret-sim --seeds 1000 --pods 1000 --exact   worlds of exactly 1000 pods\n  \
        lazaret-sim --replay 4711                   one world, step by step\n  \
        lazaret-sim --replay 4711 --record world.json  the same as a file that the dashboard plays\n  \
        lazaret-sim --file crates/check/sim/regressions/some-bug.txt\n  \
        lazaret-sim --mutant early                  how soon a fault put in on purpose is noticed\n  \
        lazaret-sim --mutant all                    the same for every one of them"
)]
struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Pods at the start of a world, at most; sizes vary by seed.
    #[arg(long, default_value_t = 1000)]
    pods: u32,
    /// Every world has as many pods as --pods says.
    #[arg(long)]
    exact: bool,
    /// Transitions from outside in a world, at most.
    #[arg(long, default_value_t = 40)]
    steps: u32,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Runs this seed alone and tells what happens.
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
    /// Runs the scenario in this file.
    #[arg(long, value_name = "PATH")]
    file: Option<std::path::PathBuf>,
    /// With --replay or --file: tells every step.
    #[arg(long)]
    trace: bool,
    /// Writes what happens to devices into this file, which the dashboard plays: of the seed of --replay, of --file, or else of --start.
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    record: Option<std::path::PathBuf>,
    /// Puts a fault around the machines and counts the seeds until it is noticed; `all` for each in turn.
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
}

impl Args {
    fn limits(&self) -> Limits {
        Limits { pods: self.pods, exact: self.exact, steps: self.steps }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    // A release build would only count.
    let _ = lazaret_invariant::report_to(&lazaret_invariant::PANIC);
    let mutant = args.mutant.as_deref().and_then(Mutant::named);
    if let Some(path) = &args.file {
        return match std::fs::read_to_string(path)
            .map_err(|e| e.to_string())
            .and_then(|t| Scenario::from_text(&t))
        {
            Ok(scenario) => one(&scenario, mutant, &args),
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                ExitCode::FAILURE
            }
        };
    }
    if let Some(seed) = args.replay.or(args.record.as_ref().map(|_| args.start)) {
        return one(&Scenario::draw(seed, args.limits()), mutant, &args);
    }
    match args.mutant.as_deref() {
        Some("all") => hunt(&args, Mutant::ALL),
        Some(name) => match mutant {
            Some(mutant) => hunt(&args, &[mutant]),
            None => {
                let names: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
                eprintln!("no mutant {name:?}; there are {}", names.join(", "));
                ExitCode::FAILURE
            }
        },
        None => sweep(&args),
    }
}

#[allow(clippy::disallowed_methods, reason = "the rate of seeds is measured in real time; no world sees it")]
fn clock() -> Instant {
    Instant::now()
}

/// How long this process has computed, in seconds: what a busy machine does not spoil. Linux only.
fn computed() -> Option<f64> {
    /// Of the kernel's clock, wherever Linux runs.
    const TICKS_PER_SECOND: f64 = 100.0;
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, which may hold anything, ends with the last parenthesis; user time is the 12th after.
    let (_, rest) = status.rsplit_once(')')?;
    let ticks: f64 = rest.split_whitespace().nth(11)?.parse().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}

/// One world, told.
fn one(scenario: &Scenario, mutant: Option<Mutant>, args: &Args) -> ExitCode {
    println!("{:?}\n{} transitions", scenario.config, scenario.transitions.len());
    let outcome = match &args.record {
        None => Runner::default().run_traced(scenario, mutant, args.trace),
        Some(path) => {
            let (outcome, file) = Runner::default().run_recorded(scenario, mutant);
            if let Err(error) = std::fs::write(path, file) {
                eprintln!("{}: {error}", path.display());
                return ExitCode::FAILURE;
            }
            println!("recorded in {}", path.display());
            outcome
        }
    };
    println!("{} steps, {} ms of virtual time\n{}", outcome.steps, outcome.elapsed, outcome.coverage);
    match outcome.violation {
        None => {
            println!("no violation");
            ExitCode::SUCCESS
        }
        Some(violation) => {
            report(scenario, mutant, &violation);
            ExitCode::FAILURE
        }
    }
}

fn report(scenario: &Scenario, mutant: Option<Mutant>, violation: &Violation) {
    let Violation { invariant, detail, at } = violation;
    println!("\nseed {} violates \"{invariant}\" at {at} ms:\n  {detail}", scenario.config.seed);
    println!("shrinking {} transitions ...", scenario.transitions.len());
    let small = shrink(scenario, mutant, violation);
    if let Some(last) = run(&small, mutant).violation {
        println!("{} left, violating at {} ms:\n  {}\n", small.transitions.len(), last.at, last.detail);
    }
    println!("# {invariant}\n{}", small.to_text());
}

/// Every mutant until it is noticed.
fn hunt(args: &Args, mutants: &[Mutant]) -> ExitCode {
    let mut survived = 0;
    for mutant in mutants {
        let mut runner = Runner::default();
        let found = (args.start..args.start + args.seeds).find_map(|seed| {
            runner
                .run(&Scenario::hunt(seed, args.limits(), *mutant), Some(*mutant))
                .violation
                .map(|violation| (seed, violation))
        });
        match found {
            Some((seed, violation)) => {
                println!(
                    "{:<20} caught after {:>4} seeds: {}",
                    mutant.name(),
                    seed - args.start + 1,
                    violation.invariant
                );
            }
            None => {
                survived += 1;
                println!("{:<20} SURVIVED {} seeds", mutant.name(), args.seeds);
            }
        }
    }
    if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The results of a thread.
#[derive(Default)]
struct Swept {
    coverage: Coverage,
    steps: u64,
    seeds: u64,
    failure: Option<(u64, Violation)>,
    /// The first seed in which a core panicked.
    panicked: Option<u64>,
}

/// Seeds until one fails.
fn sweep(args: &Args) -> ExitCode {
    let begun = clock();
    let size = if args.exact { "exactly" } else { "up to" };
    println!("seeds {} to {}, {size} {} pods", args.start, args.start + args.seeds, args.pods);
    let jobs = args.jobs.max(1);
    let parts: Vec<Swept> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..jobs).map(|job| scope.spawn(move || part(args, job, jobs, begun))).collect();
        let done =
            |thread: ScopedJoinHandle<'_, Swept>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        threads.into_iter().map(done).collect()
    });
    let mut total = Swept::default();
    for part in parts {
        total.coverage.add(&part.coverage);
        total.steps += part.steps;
        total.seeds += part.seeds;
        total.panicked = total.panicked.into_iter().chain(part.panicked).min();
        total.failure = match (total.failure, part.failure) {
            (Some(one), Some(other)) => Some(if one.0 <= other.0 { one } else { other }),
            (one, other) => one.or(other),
        };
    }
    let seconds = begun.elapsed().as_secs_f64();
    let rate = total.seeds as f64 / seconds;
    println!("{} seeds, {} steps in {seconds:.1} s: {rate:.0} seeds/s", total.seeds, total.steps);
    if let Some(computed) = computed().filter(|computed| *computed > 0.0) {
        println!("{:.0} seeds per second of computing", total.seeds as f64 / computed);
    }
    println!("reached:\n{}", total.coverage);
    for mark in total.coverage.missing() {
        println!("warning: never reached: {}", mark.name());
    }
    if let Some(seed) = total.panicked {
        println!("seed {seed} panicked, as said above: --replay {seed}");
        return ExitCode::FAILURE;
    }
    match total.failure {
        None => {
            println!("no violation");
            ExitCode::SUCCESS
        }
        Some((seed, violation)) => {
            report(&Scenario::draw(seed, args.limits()), None, &violation);
            ExitCode::FAILURE
        }
    }
}

/// The seeds of every `jobs`-th population.
fn part(args: &Args, job: u64, jobs: u64, begun: Instant) -> Swept {
    let mut swept = Swept::default();
    let mut told = begun;
    let mut runner = Runner::default();
    let siblings = args.limits().siblings();
    let mine = |seed: &u64| seed / siblings % jobs == job;
    for seed in (args.start..args.start + args.seeds).filter(mine) {
        let scenario = Scenario::draw(seed, args.limits());
        let outcome = catch_unwind(AssertUnwindSafe(|| runner.run(&scenario, None)));
        let Ok(outcome) = outcome else {
            swept.panicked = Some(seed);
            return swept;
        };
        swept.seeds += 1;
        swept.steps += outcome.steps;
        swept.coverage.add(&outcome.coverage);
        if let Some(violation) = outcome.violation {
            swept.failure = Some((seed, violation));
            return swept;
        }
        if job == 0 && told.elapsed() > PROGRESS {
            told = clock();
            let rate = (swept.seeds * jobs) as f64 / begun.elapsed().as_secs_f64();
            println!("  seed {seed}: {rate:.0} seeds/s");
        }
    }
    swept
}
