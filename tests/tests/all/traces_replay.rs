//! Replays the recorded behaviour of client-go's DeltaFIFO and Indexer, and requires the same results.
//!
//! A line of the fixture is a trace: random operations, and the state after each. `TRACES` names additional files,
//! separated by colons.

use core::fmt::{self, Write};
use core::ops::AddAssign;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use informer_core::storage::Storage;
use informer_core::{
    Heap,
    cache::{DeltaFifo, Indexer, KnownObjects},
    storage::{DeltaKind, Tombstone},
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/deltafifo.jsonl");

#[test]
#[expect(clippy::print_stdout, reason = "says what was covered")]
fn traces_of_client_go_replay_without_a_difference() {
    let more = std::env::var("TRACES").unwrap_or_default();
    let more = more.split(':').filter(|name| !name.is_empty());
    for file in [FIXTURE].into_iter().chain(more).map(PathBuf::from) {
        let stats = replay(&traces(&file)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        println!("{}: {stats:?}", file.display());
        assert!(stats.traces > 0 && stats.ops > 0, "{}", file.display());
    }
}

/// The fixture contains every operation and every type of delta, so each is tested.
#[test]
fn the_fixture_covers_everything() {
    let text = std::fs::read_to_string(FIXTURE).unwrap();
    for op in [
        "add",
        "update",
        "delete",
        "replace",
        "resync",
        "add_index",
        "pop",
        "drain",
    ] {
        assert!(text.contains(&format!(r#""op":"{op}""#)), "{op}");
    }
    for kind in ["Added", "Updated", "Deleted", "Replaced", "Sync"] {
        assert!(text.contains(&format!(r#""type":"{kind}""#)), "{kind}");
    }
    for (name, value) in ["known_objects", "emit_replaced"]
        .into_iter()
        .flat_map(|name| [(name, true), (name, false)])
    {
        assert!(text.contains(&format!(r#""{name}":{value}"#)), "{name}");
    }
    for place in [r#""tombstone":true"#, r#""last":{"#, r#""initial":true"#] {
        assert!(text.contains(place), "{place}");
    }
}

/// A change of any value in the result of an operation makes the replay fail.
#[test]
#[expect(clippy::print_stdout, reason = "says what was covered")]
fn a_trace_with_one_value_spoiled_fails() {
    let traces = traces(Path::new(FIXTURE));
    let mut spoiled = BTreeMap::<String, usize>::new();
    for (number, trace) in traces.iter().enumerate() {
        // A different operation in each trace, so that the changed value is not always an early one.
        let ops = trace["ops"].as_array().unwrap();
        let place = number * 7 % ops.len();
        let mut spoils = Vec::new();
        for member in ["popped", "queued", "has_synced", "stored", "indices"] {
            if let Some(value) = ops[place].get(member) {
                let any_order = member == "queued" && ops[place].get("any_order").is_some();
                all_spoils(value, member, any_order, &mut |name, value| {
                    spoils.push((name.to_owned(), member, value));
                });
            }
        }
        // One in seven, so that it does not take minutes.
        for (name, member, value) in spoils.into_iter().skip(number % 7).step_by(7) {
            let mut trace = trace.clone();
            trace["ops"][place][member] = value;
            let difference = replay(&[trace]).expect_err(&name);
            let place = format!("trace 1, op {} ", place + 1);
            assert!(difference.starts_with(&place), "{difference}, not {place}");
            *spoiled.entry(name).or_default() += 1;
        }
    }
    println!("{spoiled:?}");
    for name in [
        "popped",
        "popped.key",
        "popped.deltas",
        "popped.deltas.type",
        "popped.deltas.object.rv",
        "popped.deltas.object.node",
        "popped.deltas.object.zones",
        "popped.deltas.object.last",
        "popped.deltas.object.last.rv",
        "popped.initial",
        "queued",
        "has_synced",
        "stored",
        "indices",
    ] {
        assert!(
            spoiled.contains_key(name),
            "{name}: there is nothing to spoil"
        );
    }
}

/// Yields every variant that differs from this value in one place, with the names of the members that lead there.
fn all_spoils(value: &Value, name: &str, any_order: bool, give: &mut dyn FnMut(&str, Value)) {
    match value {
        Value::String(text) => {
            // The type of a delta must stay valid.
            let other = if text == "Added" { "Updated" } else { "Added" };
            let is_type = name.ends_with(".type");
            give(
                name,
                if is_type {
                    json!(other)
                } else {
                    json!(format!("{text}x"))
                },
            );
        }
        Value::Bool(flag) if !name.ends_with(".tombstone") => give(name, json!(!flag)),
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                all_spoils(item, name, any_order, &mut |name, item| {
                    let mut list = list.clone();
                    list[index] = item;
                    give(name, json!(list));
                });
            }
            if let [shorter @ .., _] = &**list {
                give(name, json!(shorter));
            }
            // The keys popped by a drain are compared as a set.
            if let [first, second, ..] = &**list
                && first != second
                && name != "popped"
                && !any_order
            {
                let mut list = list.clone();
                list.swap(0, 1);
                give(name, json!(list));
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let inner = if name.starts_with("indices") {
                    name
                } else {
                    &format!("{name}.{key}")
                };
                all_spoils(member, inner, any_order, &mut |name, member| {
                    let mut members = members.clone();
                    members.insert(key.clone(), member);
                    give(name, json!(members));
                });
            }
            if name.starts_with("indices") {
                for key in members.keys() {
                    let mut fewer = members.clone();
                    fewer.remove(key);
                    give(name, json!(fewer));
                }
            }
            if name == "popped" {
                give(name, Value::Null);
            }
            // The last state in a tombstone, or a tombstone as an object.
            if let Some(last) = members.get("last") {
                give(&format!("{name}.last"), last.clone());
                let mut without = members.clone();
                without.remove("last");
                give(&format!("{name}.last"), json!(without));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A difference names the trace and the operation.
#[test]
fn a_difference_says_where_it_is() {
    let mut traces = traces(Path::new(FIXTURE));
    let synced = &mut traces[2]["ops"][4]["has_synced"];
    *synced = json!(synced != true);
    let difference = replay(&traces).unwrap_err();
    assert!(
        difference.starts_with("trace 3, op 5 ("),
        "{difference}, in which the fifth operation of the third trace was spoiled"
    );
}

/// The keys of a store come from a hash map: client-go may queue them in any order. Nothing else may differ.
#[test]
fn only_unordered_keys_may_differ_in_a_trace() {
    let object = |key| json!({"key": key, "rv": "1", "node": "n", "zones": []});
    let indices = json!({"namespace": {"": ["p", "q"]}, "node": {"n": ["p", "q"]}});
    let trace = |listed: [&str; 4], later: [&str; 5]| {
        let mut replace = json!({"op": "replace", "items": [object("x"), object("y")], "rv": "2", "queued": listed});
        let mut add = json!({"op": "add", "object": object("z"), "queued": later});
        for op in [&mut replace, &mut add] {
            op["any_order"] = json!(true);
            op["has_synced"] = json!(false);
            op["stored"] = json!(["p", "q"]);
            op["indices"] = indices.clone();
        }
        let store = [object("p"), object("q")];
        json!({"known_objects": true, "emit_replaced": true, "store": store, "ops": [replace, add]})
    };
    let listed = ["x", "y", "p", "q"];
    let later = ["x", "y", "p", "q", "z"];
    for (listed, later) in [
        (listed, later),
        (["x", "y", "q", "p"], ["x", "y", "q", "p", "z"]),
    ] {
        replay(&[trace(listed, later)]).unwrap();
    }
    for (op, listed, later) in [
        (1, ["y", "x", "p", "q"], later),
        (1, ["x", "p", "y", "q"], later),
        (1, ["x", "y", "p", "p"], later),
        (2, listed, ["x", "y", "p", "z", "q"]),
        (2, listed, ["z", "x", "y", "p", "q"]),
    ] {
        let difference = replay(&[trace(listed, later)]).unwrap_err();
        let place = format!("trace 1, op {op} ");
        assert!(difference.starts_with(&place), "{difference}");
    }
}

fn traces(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            serde_json::from_str(line)
                .unwrap_or_else(|e| panic!("{}, line {number}: {e}", file.display()))
        })
        .collect()
}

/// Counters of the replay.
#[derive(Default, Debug)]
struct Stats {
    traces: usize,
    ops: usize,
    popped: usize,
    deltas: usize,
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.traces += other.traces;
        self.ops += other.ops;
        self.popped += other.popped;
        self.deltas += other.deltas;
    }
}

/// Replays traces; the error is the first difference, with the numbers of its trace and its operation.
fn replay(traces: &[Value]) -> Result<Stats, String> {
    let mut stats = Stats::default();
    for (number, trace) in (1..).zip(traces) {
        stats += replay_one(trace).map_err(|why| format!("trace {number}, {why}"))?;
    }
    Ok(stats)
}

fn replay_one(trace: &Value) -> Result<Stats, String> {
    let trace = Trace::deserialize(trace).map_err(|e| e.to_string())?;
    let mut player = Player::new(trace.known_objects, trace.emit_replaced);
    for object in trace.store {
        let stored = player.store.add(object);
        stored.map_err(|e| format!("store: {e}"))?;
    }
    for (number, op) in (1..).zip(&trace.ops) {
        let kind = op["op"].as_str().unwrap_or_default();
        Op::deserialize(op)
            .map_err(|e| e.to_string())
            .and_then(|op| player.play(op))
            .map_err(|why| format!("op {number} ({kind}): {why}"))?;
    }
    player.stats.traces = 1;
    Ok(player.stats)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    #[serde(rename = "trace", default)]
    _trace: Value,
    known_objects: bool,
    emit_replaced: bool,
    #[serde(default, deserialize_with = "or_default")]
    store: Vec<Object>,
    ops: Vec<Value>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    key: String,
    rv: String,
    node: String,
    #[serde(default, deserialize_with = "or_default")]
    zones: Vec<String>,
}

impl Object {
    fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_str(&self.key)
    }
}

/// The object in a delta, or the argument of a deletion.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
enum Carried {
    Tombstone(Gone),
    Object(Object),
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gone {
    key: String,
    tombstone: bool,
    #[serde(default)]
    last: Option<Object>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Op {
    op: String,
    object: Option<Carried>,
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Object>,
    #[serde(rename = "rv", default)]
    _rv: Value,
    index: Option<String>,
    #[serde(default)]
    popped: AllPopped,
    #[serde(default)]
    any_order: bool,
    #[serde(default, deserialize_with = "or_default")]
    queued: Vec<String>,
    has_synced: bool,
    #[serde(default, deserialize_with = "or_default")]
    stored: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    indices: Indices,
}

/// Name of an index, value, keys.
type Indices = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// The result of a pop (one or nothing) or of a drain (a list).
#[derive(Default)]
struct AllPopped(Vec<Popped>);

impl<'de> Deserialize<'de> for AllPopped {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let all = if value.is_object() {
            Popped::deserialize(value).map(|one| vec![one])
        } else {
            or_default(value)
        };
        all.map(Self).map_err(D::Error::custom)
    }
}

#[derive(PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Popped {
    key: String,
    deltas: Vec<Notified>,
    initial: bool,
}

#[derive(PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notified {
    #[serde(rename = "type")]
    kind: String,
    object: Carried,
}

/// Go encodes an empty list as null.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Our queue and store, driven by a trace.
struct Player {
    fifo: DeltaFifo<Object, Heap>,
    store: Indexer<Object, Heap>,
    known_objects: bool,
    /// The operation that queued a key, if it queued its keys in unspecified order.
    unordered: BTreeMap<String, usize>,
    stats: Stats,
}

impl Player {
    fn new(known_objects: bool, emit_replaced: bool) -> Self {
        let mut fifo = DeltaFifo::new(Object::write_key);
        fifo.set_emit_replaced(emit_replaced);
        let mut player = Self {
            fifo,
            store: Indexer::new(Object::write_key),
            known_objects,
            unordered: BTreeMap::new(),
            stats: Stats::default(),
        };
        // The index by namespace exists already.
        player.add_index("node").expect("there is none yet");
        player
    }

    fn play(&mut self, mut op: Op) -> Result<(), String> {
        let before: BTreeSet<String> = self.queued().into_iter().collect();
        let mut popped = Vec::new();
        let known = self
            .known_objects
            .then_some(&self.store as &dyn KnownObjects);
        let carried = || op.object.clone().ok_or("it has no object");
        let object = || match carried()? {
            Carried::Object(object) => Ok(object),
            Carried::Tombstone(_) => Err("a tombstone is not added"),
        };
        match op.op.as_str() {
            "add" => self.fifo.add(object()?),
            "update" => self.fifo.update(object()?),
            "delete" => match carried()? {
                Carried::Object(object) => self.fifo.delete(object, known),
                Carried::Tombstone(gone) => {
                    let (key, last) = (gone.key.as_str(), gone.last);
                    self.fifo.delete_tombstone(Tombstone { key, last }, known)
                }
            },
            "replace" => self.fifo.replace(op.items.clone(), known),
            "resync" => known.map_or(Ok(()), |known| self.fifo.resync(known)),
            "add_index" => {
                self.add_index(op.index.as_deref().unwrap_or_default())?;
                Ok(())
            }
            "pop" => {
                popped.extend(self.pop()?);
                Ok(())
            }
            "drain" => {
                while let Some(next) = self.pop()? {
                    popped.push(next);
                }
                Ok(())
            }
            _ => return Err("no such operation".to_string()),
        }
        .map_err(|e| e.to_string())?;
        self.stats.ops += 1;

        // A drain is compared by key; the order of our pops is checked against our queue with each pop.
        same(
            "popped",
            &by_key(popped)?,
            &by_key(core::mem::take(&mut op.popped.0))?,
        )?;
        self.note_unordered(&before, &op);
        let queued = self.queued();
        same("queued", &queued.len(), &self.fifo.len())?;
        if op.any_order {
            same("queued", &self.places(&queued), &self.places(&op.queued))?;
            same("queued", &sorted(queued), &sorted(op.queued))?;
        } else {
            same("queued", &queued, &op.queued)?;
        }
        same("has_synced", &self.fifo.has_synced(), &op.has_synced)?;
        let stored = self.store.keys().map(ToString::to_string).collect();
        same("stored", &sorted(stored), &op.stored)?;
        same("indices", &self.indices()?, &op.indices)
    }

    fn add_index(&mut self, name: &str) -> Result<(), String> {
        let function: <Heap as Storage>::IndexFn<Object> = match name {
            "node" => Box::new(|object, value| value(&object.node)),
            "zones" => Box::new(|object, value| object.zones.iter().for_each(|zone| value(zone))),
            _ => return Err(format!("index {name}: not known here")),
        };
        self.store
            .add_index(name, function)
            .map_err(|e| format!("index {name}: {e}"))
    }

    /// Pops a key, and applies its deltas to the store.
    fn pop(&mut self) -> Result<Option<Popped>, String> {
        let first = self.queued().into_iter().next();
        let popped = self.fifo.pop().ok();
        let key = popped
            .as_ref()
            .map(|popped| popped.deltas.key().to_string());
        same("popped key", &key, &first)?;
        let (Some(popped), Some(key)) = (popped, key) else {
            return Ok(None);
        };
        let mut stored = self.store.get(&key).cloned();
        let mut notified = Vec::new();
        for delta in popped.deltas.as_slice() {
            let object = delta.object(stored.as_ref()).cloned();
            stored = object.clone().filter(|_| delta.kind != DeltaKind::Deleted);
            let object = match object {
                last if delta.is_tombstone() => Carried::Tombstone(Gone {
                    key: key.clone(),
                    tombstone: true,
                    last,
                }),
                Some(object) => Carried::Object(object),
                None => return Err(format!("{key}: {} without an object", delta.kind)),
            };
            let kind = delta.kind.to_string();
            notified.push(Notified { kind, object });
        }
        self.stats.popped += 1;
        self.stats.deltas += notified.len();
        let initial = popped.is_in_initial_list;
        let applied = self.store.apply(popped.deltas);
        applied.map_err(|e| e.to_string())?;
        same(
            "stored after the deltas",
            &self.store.get(&key),
            &stored.as_ref(),
        )?;
        self.unordered.remove(&key);
        Ok(Some(Popped {
            key,
            deltas: notified,
            initial,
        }))
    }

    /// Records the keys that a resync or a list queued from the hash map, besides its own items.
    fn note_unordered(&mut self, before: &BTreeSet<String>, op: &Op) {
        if !matches!(op.op.as_str(), "replace" | "resync") {
            return;
        }
        let listed = |key: &String| op.items.iter().any(|item| item.key == *key);
        for key in self.queued() {
            if !before.contains(&key) && !listed(&key) {
                self.unordered.insert(key, self.stats.ops);
            }
        }
    }

    fn queued(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.fifo.for_each_queued(|key| keys.push(key.to_string()));
        keys
    }

    /// The queue as far as its order is specified: for keys in unspecified order, only their positions.
    fn places<'a>(&self, queued: &'a [String]) -> Vec<Result<&'a str, usize>> {
        let place = |key: &'a String| match self.unordered.get(key) {
            Some(&op) => Err(op),
            None => Ok(key.as_str()),
        };
        queued.iter().map(place).collect()
    }

    fn indices(&self) -> Result<Indices, String> {
        let mut indices = Indices::new();
        for name in self.store.index_names() {
            let mut values = Vec::new();
            self.store
                .index_values(name, |value| values.push(value.to_string()));
            let mut keys = BTreeMap::new();
            for value in values {
                let found = self.store.index_keys(name, &value);
                let found = found.map_err(|e| e.to_string())?;
                let found = found.into_iter().map(ToString::to_string).collect();
                if keys.insert(value.clone(), found).is_some() {
                    return Err(format!("index {name} tells {value} twice"));
                }
            }
            indices.insert(name.to_string(), keys);
        }
        Ok(indices)
    }
}

fn by_key(popped: Vec<Popped>) -> Result<BTreeMap<String, Popped>, String> {
    let mut all = BTreeMap::new();
    for one in popped {
        if let Some(other) = all.insert(one.key.clone(), one) {
            return Err(format!("{} was popped twice", other.key));
        }
    }
    Ok(all)
}

fn sorted(mut keys: Vec<String>) -> Vec<String> {
    keys.sort_unstable();
    keys
}

fn same<T: PartialEq + fmt::Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}:\n  ours   {ours:?}\n  theirs {theirs:?}"))
}
