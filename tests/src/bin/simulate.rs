//! Runs the simulation for as many seeds as one likes: see `docs/TESTING.md`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use informer_tests::sim::bugs::BUGS;
use informer_tests::sim::runner::{explore, report};
use informer_tests::sim::{Variant, planted, replicas};

const HELP: &str = "\
simulate [--seeds N] [--from N] [--threads N] [--table] [--variant V]   runs seeds
simulate --seed N [--variant V]                            runs one, and shows its trace where it fails
simulate --replicas [--seeds N] [--from N] [--threads N]   runs seeds of replicas that share keys
simulate --replicas --seed N                               runs one of these
simulate --runtime [--seeds N] [--from N]                   runs seeds of the informer on tokio
simulate --runtime --seed N                                runs one of these
simulate --losses [--seeds N] [--from N]                   takes the power from journals, 50 times a seed
simulate --planted [--bug NAME]                            hunts planted bugs, where there are any (docs/TESTING.md)

V is heap (growing storage, the default), agree (storage of a fixed size has to do what growing storage does), small
(room for two objects) or journal (a process that dies again and again, with a journal on a disk).
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut from, mut seeds, mut one, mut table, mut planted) = (0, 10_000, None, false, false);
    let (mut of_replicas, mut losses, mut of_runtime) = (false, false, false);
    let mut bug = None;
    let mut variant = Variant::Heap;
    let mut threads = std::thread::available_parallelism().map_or(1, usize::from);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
        let known = match argument.as_str() {
            "--seeds" => number().map(|number| seeds = number),
            "--from" => number().map(|number| from = number),
            "--threads" => number().map(|number| threads = usize::try_from(number).unwrap_or(1)),
            "--seed" => number().map(|number| one = Some(number)),
            "--variant" => arguments
                .next()
                .and_then(|name| Variant::named(&name))
                .map(|named| variant = named),
            "--bug" => arguments.next().map(|name| bug = Some(name)),
            "--table" => {
                table = true;
                Some(())
            }
            "--losses" => {
                losses = true;
                Some(())
            }
            "--planted" => {
                planted = true;
                Some(())
            }
            "--runtime" => {
                of_runtime = true;
                Some(())
            }
            "--replicas" => {
                of_replicas = true;
                Some(())
            }
            _ => None,
        };
        if known.is_none() {
            say(HELP);
            return ExitCode::from(2);
        }
    }
    // A violation is told by the report. What a panic says is in it.
    std::panic::set_hook(Box::new(|_| {}));
    if planted {
        return hunt(threads, bug.as_deref());
    }
    if of_replicas {
        return run_replicas(from..from + seeds, one, threads);
    }
    if of_runtime {
        return run_runtime(from..from + seeds, one);
    }
    if losses {
        return lose(from..from + seeds);
    }
    if let Some(seed) = one {
        say(&report(variant, seed));
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    let summary = explore(variant, from..from + seeds, threads, 8, &|| {});
    if table {
        say(&summary.coverage.table());
    }
    say(&format!(
        "{} seeds, {} steps, {:.1} s, {} failed\n",
        summary.seeds,
        summary.steps,
        start.elapsed().as_secs_f64(),
        summary.failed.len()
    ));
    // One of each kind is enough.
    let mut shown = Vec::new();
    for (seed, violation) in &summary.failed {
        if !shown.contains(&violation.invariant) {
            shown.push(violation.invariant);
            say(&report(variant, *seed));
        }
    }
    ExitCode::from(u8::from(!shown.is_empty()))
}

fn run_replicas(seeds: core::ops::Range<u64>, one: Option<u64>, threads: usize) -> ExitCode {
    if let Some(seed) = one {
        say(&replicas::report(seed));
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    let summary = replicas::explore(seeds, threads, 8, &|| {});
    say(&format!(
        "{} seeds, {:.1} s, {} failed; {:?}\n",
        summary.seeds,
        start.elapsed().as_secs_f64(),
        summary.failed.len(),
        summary.figures
    ));
    // One of each kind is enough.
    let mut shown = Vec::new();
    for (seed, violation) in &summary.failed {
        if !shown.contains(&violation.invariant) {
            shown.push(violation.invariant);
            say(&replicas::report(*seed));
        }
    }
    ExitCode::from(u8::from(!shown.is_empty()))
}

#[cfg(feature = "runtime")]
fn run_runtime(seeds: core::ops::Range<u64>, one: Option<u64>) -> ExitCode {
    use informer_tests::sim::runtime;
    if let Some(seed) = one {
        say(&runtime::report(seed));
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    let summary = runtime::explore(seeds, 1, || {});
    say(&format!(
        "{} seeds, {:.1} s, {} failed; {:?}\n",
        summary.seeds,
        start.elapsed().as_secs_f64(),
        summary.failed.len(),
        summary.figures
    ));
    for (seed, _) in &summary.failed {
        say(&runtime::report(*seed));
    }
    ExitCode::from(u8::from(!summary.failed.is_empty()))
}

#[cfg(not(feature = "runtime"))]
fn run_runtime(_seeds: core::ops::Range<u64>, _one: Option<u64>) -> ExitCode {
    say(
        "the simulation of the informer on tokio is not built here: it needs the feature `runtime`\n",
    );
    ExitCode::from(2)
}

/// Takes the power from journals on a disk and on a flash.
fn lose(seeds: core::ops::Range<u64>) -> ExitCode {
    use informer_tests::journal::{on_disk, on_flash};
    let mut crashes = 0;
    for seed in seeds {
        for run in [on_disk, on_flash] {
            match run(seed, 50) {
                Ok(ran) => crashes += ran.crashes,
                Err(what) => {
                    say(&format!("{what}\n"));
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    say(&format!(
        "the power went {crashes} times, and nothing was lost\n"
    ));
    ExitCode::SUCCESS
}

fn hunt(threads: usize, bug: Option<&str>) -> ExitCode {
    if BUGS.is_empty() {
        say("no bug is planted here: run `cargo run -p informer-planted`\n");
        return ExitCode::from(2);
    }
    if let Some(bug) = bug.filter(|bug| BUGS.iter().all(|known| known.name != *bug)) {
        say(&format!("there is no tests/planted/{bug}.patch\n"));
        return ExitCode::from(2);
    }
    let hunts = planted::hunt(threads, bug, &|hunt| say(&planted::line(hunt)));
    ExitCode::from(u8::from(!planted::is_good(&hunts)))
}

fn say(text: &str) {
    // Where nobody reads there is nobody to tell.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
