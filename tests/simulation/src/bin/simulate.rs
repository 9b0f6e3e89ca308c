//! Runs the simulation for any number of seeds: see `docs/TESTING.md`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use informer_simulation::bugs::BUGS;
use informer_simulation::runner::{Simulation, explore, report};
use informer_simulation::{Variant, planted};

const HELP: &str = "\
simulate [--seeds N] [--from N] [--threads N] [--table] [--variant V]   runs seeds
simulate --seed N [--variant V]                            runs one, and shows its trace
simulate --replicas [--seeds N] [--from N] [--threads N]   runs seeds of replicas that share keys
simulate --replicas --seed N                               runs one of these
simulate --runtime [--seeds N] [--from N] [--threads N]    runs seeds of the informer on tokio
simulate --runtime --seed N                                runs one of these
simulate --losses [--seeds N] [--from N]                   takes the power from journals, 50 times a seed
simulate --planted [--bug NAME]                            hunts planted bugs, where there are any (docs/TESTING.md)

V is heap (growing storage, the default), agree (storage of a fixed size has to do what growing storage does), small
(room for two objects), journal (a process that dies repeatedly, with a journal on a disk) or protobuf (the same as in JSON).
";

/// What the command line asks for.
struct Options {
    from: u64,
    seeds: u64,
    one: Option<u64>,
    threads: usize,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut options = Options {
        from: 0,
        seeds: 10_000,
        one: None,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let (mut flags, mut bug, mut variant) = (Vec::new(), None, Variant::Heap);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
        let known = match argument.as_str() {
            "--help" | "-h" => {
                say(HELP);
                return ExitCode::SUCCESS;
            }
            "--seeds" => number().map(|number| options.seeds = number),
            "--from" => number().map(|number| options.from = number),
            "--threads" => {
                number().map(|number| options.threads = usize::try_from(number).unwrap_or(1))
            }
            "--seed" => number().map(|number| options.one = Some(number)),
            "--variant" => arguments
                .next()
                .and_then(|name| Variant::named(&name))
                .map(|named| variant = named),
            "--bug" => arguments.next().map(|name| bug = Some(name)),
            "--table" | "--losses" | "--planted" | "--runtime" | "--replicas" => {
                flags.push(argument);
                Some(())
            }
            _ => None,
        };
        if known.is_none() {
            say(HELP);
            return ExitCode::from(2);
        }
    }
    let asks = |flag: &str| flags.iter().any(|given| given == flag);
    // The report of a violation contains the panic's message.
    std::panic::set_hook(Box::new(|_| {}));
    if asks("--planted") {
        hunt(options.threads, bug.as_deref())
    } else if asks("--replicas") {
        run_replicas(&options)
    } else if asks("--runtime") {
        run_runtime(&options)
    } else if asks("--losses") {
        lose(options.from..options.from + options.seeds)
    } else {
        run(variant, &options, |figures| {
            if asks("--table") {
                say(&figures.coverage.table());
            }
        })
    }
}

/// Runs one seed, or many and reports the failures.
fn run<S: Simulation>(
    simulation: S,
    options: &Options,
    show: impl FnOnce(&S::Figures),
) -> ExitCode {
    if let Some(seed) = options.one {
        say(&report(simulation, seed, None));
        return ExitCode::SUCCESS;
    }
    let (start, seeds) = (Instant::now(), options.from..options.from + options.seeds);
    let summary = explore(simulation, seeds, options.threads, 8, None);
    show(&summary.figures);
    say(&format!(
        "{} seeds, {:.1} s, {} failed; {:?}\n",
        summary.seeds,
        start.elapsed().as_secs_f64(),
        summary.failed.len(),
        summary.figures
    ));
    // One failure of each kind is enough.
    let mut shown = Vec::new();
    for (seed, violation) in &summary.failed {
        if !shown.contains(&violation.invariant) {
            shown.push(violation.invariant);
            say(&report(simulation, *seed, Some(violation)));
        }
    }
    ExitCode::from(u8::from(!shown.is_empty()))
}

#[cfg(feature = "runtime")]
fn run_runtime(options: &Options) -> ExitCode {
    run(informer_simulation::runtime::Runtime(None), options, |_| ())
}

#[cfg(feature = "runtime")]
fn run_replicas(options: &Options) -> ExitCode {
    run(informer_simulation::replicas::Replicas, options, |_| ())
}

#[cfg(not(feature = "runtime"))]
use run_runtime as run_replicas;

#[cfg(not(feature = "runtime"))]
fn run_runtime(_: &Options) -> ExitCode {
    say("this simulation is not built here: it needs the feature `runtime`\n");
    ExitCode::from(2)
}

/// Runs journals on a disk and on a flash through power losses.
fn lose(seeds: core::ops::Range<u64>) -> ExitCode {
    use informer_simulation::journal::{on_disk, on_flash};
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
    // A closed stdout is no reason to fail.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
