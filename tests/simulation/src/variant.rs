//! The storages on which a plan is run.

use core::fmt;

use informer_core::{Heap, Inline};

use super::coverage::Coverage;
use super::engine::engine;
use super::faults::FaultKind;
use super::journaled::Shelf;
use super::plan::{Action, Objects, Plan};
use super::run::{Outcome, Violation, run_with};
use super::runner::{Ran, Simulation};
use super::shrink::shrink;

/// The number of objects that fit into [`Variant::Small`].
pub const ROOM: usize = 2;

/// Fits all objects, and everything stored beside them.
type Roomy = Inline<16, 32, 4096>;
type Small = Inline<ROOM, 32, 4096>;

/// The storage on which a plan is run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Variant {
    /// Growing storage.
    Heap,
    /// Fixed storage with room for everything: it must behave like growing storage.
    Agree,
    /// Fixed storage with room for two objects.
    Small,
    /// Growing storage with a journal on a disk, in a process that dies repeatedly.
    Journal,
    /// Growing storage that requests protobuf: it must behave like one that requests JSON.
    Protobuf,
}

impl Variant {
    /// All variants.
    pub const ALL: [Self; 5] = [
        Self::Heap,
        Self::Agree,
        Self::Small,
        Self::Journal,
        Self::Protobuf,
    ];

    /// Returns its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Agree => "agree",
            Self::Small => "small",
            Self::Journal => "journal",
            Self::Protobuf => "protobuf",
        }
    }

    /// Returns the variant with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }
}

/// Counters of the runs.
#[derive(Default)]
pub struct Figures {
    /// The number of steps.
    pub steps: u64,
    /// Which fault met which state.
    pub coverage: Coverage,
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} steps", self.steps)
    }
}

impl Simulation for Variant {
    type Plan = Plan;
    type Figures = Figures;

    fn arguments(self) -> String {
        format!(" --variant {}", self.name())
    }

    fn plan(self, seed: u64) -> Plan {
        let mut plan = Plan::of_seed(seed);
        match self {
            Self::Heap => {}
            Self::Agree => {
                // Fixed storage always merges pending notifications. It walks the cache in an order of its choice, so
                // nothing may arrive in the middle of a walk.
                plan.world.merged = true;
                let all = Action::Pop(u8::MAX);
                let actions = plan.actions.into_iter().flat_map(|action| match action {
                    Action::Pop(_) | Action::JoinAmid(_) => [Some(all), None],
                    // Few passes at a time: there is room for eight.
                    Action::Join(1.., backlog, unchanged) => {
                        [Some(all), Some(Action::Join(120, backlog, unchanged))]
                    }
                    Action::Read(..) | Action::ReadAll(_) => [Some(action), Some(all)],
                    action => [Some(all), Some(action)],
                });
                plan.actions = actions.flatten().collect();
            }
            Self::Small => plan.world.room = 2,
            Self::Journal => {
                plan.world.scopes = &plan.world.scopes[..1];
                (plan.world.parts, plan.world.merged) = (false, false);
                plan.world.batched = false;
                plan.fill_disk(seed);
                let actions = plan.actions.into_iter().enumerate();
                let actions = actions.flat_map(|(number, action)| {
                    let dies = number % 23 == 22;
                    [dies.then_some(Action::Reborn), Some(action)]
                });
                plan.actions = actions.flatten().collect();
            }
            Self::Protobuf => plan.world.objects = Objects::Protobuf,
        }
        plan
    }

    fn run(self, plan: &Plan, trace: bool) -> Ran<Figures> {
        let mut outcome = match self {
            Self::Heap => run_with(plan, trace, &engine::<Heap>),
            Self::Agree => agree(plan, trace),
            Self::Small => run_with(plan, trace, &engine::<Small>),
            Self::Journal => {
                let shelf = Shelf::new(plan.world.seed);
                run_with(plan, trace, &move |world, seed| shelf.engine(world, seed))
            }
            Self::Protobuf => run_with(plan, trace, &engine::<Heap>)
                .and_then(|outcome| formats(plan, trace).map(|()| outcome)),
        }?;
        outcome
            .trace
            .push(format!("all of it: {:x}", outcome.digest));
        let (steps, coverage) = (outcome.steps as u64, outcome.coverage);
        Ok((Figures { steps, coverage }, outcome.trace))
    }

    fn add(sum: &mut Figures, one: Figures) {
        sum.steps += one.steps;
        sum.coverage.add(&one.coverage);
    }

    fn shrink(self, plan: Plan, fails: &mut dyn FnMut(&Plan) -> bool) -> (Plan, String) {
        let count = plan.actions.len();
        let small = shrink(plan, 2_000, fails);
        let said = format!(
            "{} of its {count} actions in {:?}",
            small.actions.len(),
            small.world
        );
        (small, said)
    }
}

/// Runs a plan on both storages. They must send the same requests and reports, and notify the same of each key.
fn agree(plan: &Plan, trace: bool) -> Result<Outcome, Box<Violation>> {
    let fixed = run_with(plan, trace, &engine::<Roomy>)?;
    let growing = run_with(plan, trace, &engine::<Heap>)?;
    same(&fixed, &growing, || Violation {
        invariant: "agree",
        source: "core/src/storage: one code path over both storages",
        what: "storage of a fixed size does something else than growing storage".to_owned(),
        step: fixed.steps,
        trace: Vec::new(),
    })?;
    Ok(fixed)
}

/// Runs a plan in both formats, without what depends on the number of bytes. The informers must send the same requests
/// and reports, and notify the same of each key.
fn formats(plan: &Plan, trace: bool) -> Result<(), Box<Violation>> {
    let mut plan = plan.clone();
    for action in &mut plan.actions {
        match action {
            Action::Read(source, _) => *action = Action::ReadAll(*source),
            Action::Fault(kind, _) | Action::PageFault(kind, _) if kind.depends_on_format() => {
                *kind = FaultKind::CutInObject;
            }
            _ => {}
        }
    }
    let protobuf = run_with(&plan, trace, &engine::<Heap>)?;
    plan.world.objects = Objects::Json;
    let json = run_with(&plan, trace, &engine::<Heap>)?;
    same(&protobuf, &json, || Violation {
        invariant: "formats",
        source: "core/src/wire: the same frames in both formats",
        what: "an informer in protobuf does something else than one in JSON".to_owned(),
        step: protobuf.steps,
        trace: Vec::new(),
    })
}

/// Compares two runs of a plan. The trace of a violation ends where they differ.
fn same(
    one: &Outcome,
    other: &Outcome,
    violation: impl FnOnce() -> Violation,
) -> Result<(), Box<Violation>> {
    if one.agreement == other.agreement {
        return Ok(());
    }
    let mut violation = violation();
    let at = (one.trace.iter().zip(&other.trace)).position(|(one, other)| one != other);
    violation.trace.clone_from(&one.trace);
    if let Some(at) = at {
        violation.trace.truncate(at + 1);
        let other = &other.trace[at];
        violation.trace.push(format!("where the other has {other}"));
    }
    Err(Box::new(violation))
}
