//! A controller with a finalizer, a database in a cloud and a Pod, explored: thousands of runs with faults and crashes.
//!
//! ```sh
//! cargo run --release -p informer-examples-kube --example shops                               # 1,000 seeds
//! EXPLORE_SEEDS=100000 cargo run --release -p informer-examples-kube --example shops
//! cargo run --release -p informer-examples-kube --example shops -- --bug creates-twice-after-crash   # fails
//! EXPLORE_SEED=7 cargo run --release -p informer-examples-kube --example shops                # shows one run
//! ```

mod controller;
#[cfg(test)]
mod tests;
mod world;

use clap::Parser;
use informer_examples::terminal::say;

use controller::Bug;

/// Explores the controller of Shops.
#[derive(Parser)]
struct Arguments {
    /// Plants a bug.
    #[arg(long)]
    bug: Option<Bug>,
    /// Runs two replicas.
    #[arg(long)]
    replicas: bool,
    /// Elects a leader among the replicas.
    #[arg(long)]
    elected: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let replicas = if arguments.replicas { 2 } else { 1 };
    let program = world::program(arguments.bug, arguments.elected);
    let explored = world::rules().replicas(replicas).run(program);
    say(&explored.to_string());
}
