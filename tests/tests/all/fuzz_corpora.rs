//! Replays the corpora of the fuzzers and several thousand mutated inputs. See `docs/TESTING.md`.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use informer_simulation::entropy::Entropy;
use informer_simulation::fuzzing::TARGETS;
use informer_tests::say;

#[test]
fn inputs_of_the_corpora_cause_no_panic() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../fuzz/corpus")
            .join(name);
        let mut inputs = Vec::new();
        for entry in
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.expect("an entry of the folder").path();
            inputs.push((
                path.display().to_string(),
                fs::read(&path).expect("a file that can be read"),
            ));
        }
        inputs.sort();
        assert!(inputs.len() >= 10, "{name} has a corpus: {}", inputs.len());
        let mutants = mutants(&inputs, if name == "simulation" { 20 } else { 2_000 });
        for (path, input) in inputs.iter().chain(&mutants) {
            if catch_unwind(|| target(input)).is_err() {
                panic!("{name} fails on {path}: {input:?}");
            }
        }
        say(&format!(
            "{name}: {} inputs and {} made from them",
            inputs.len(),
            mutants.len()
        ));
    }
}

/// Returns inputs with a few bytes changed, removed, or inserted from another input; always the same ones.
fn mutants(inputs: &[(String, Vec<u8>)], count: usize) -> Vec<(String, Vec<u8>)> {
    let mut entropy = Entropy::of(7);
    let mut below = |bound: usize| entropy.below(u32::try_from(bound).unwrap_or(u32::MAX)) as usize;
    let made = (0..count).map(|number| {
        let (path, input) = &inputs[below(inputs.len())];
        let mut input = input.clone();
        for _ in 0..=below(4) {
            let at = below(input.len() + 1);
            let end = (at + below(8)).min(input.len());
            match below(3) {
                0 if at < input.len() => input[at] ^= 1 << below(8),
                1 => drop(input.drain(at..end)),
                _ => {
                    let other = &inputs[below(inputs.len())].1;
                    let from = below(other.len() + 1);
                    let to = (from + below(32)).min(other.len());
                    input.splice(at..at, other[from..to].iter().copied());
                }
            }
        }
        (format!("mutant {number} of {path}"), input)
    });
    made.collect()
}
