//! Micro benchmarks of the core: `cargo bench -p informer-benches`. Each case processes a hundred Pods.

use divan::Bencher;
use informer_benches::cases::{CASES, Input, PODS};

fn main() {
    divan::main();
}

#[divan::bench(args = CASES.map(|(name, _)| name))]
fn case(bencher: Bencher<'_, '_>, name: &str) {
    let input = Input::new();
    if let Some((_, case)) = CASES.iter().find(|(known, _)| *known == name) {
        bencher
            .counter(divan::counter::ItemsCount::new(PODS))
            .bench_local(|| case(&input));
    }
}
