//! The conformance suite of a whole informer on virtual time, with the comparisons of `conformance/run.py`.

use core::fmt::Write as _;
use core::time::Duration;
use std::path::Path;

use informer_mock::{Mock, ScriptedServer, TokioClock};
use informer_tokio::decode::{Accept, Decode, Decoder, RawObject};
use informer_tokio::informer::Initial;
use informer_tokio::{Entry, Event, Informer, Raw, Resource};
use serde_json::{Map, Value, json};

/// How the initial state is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// By LIST.
    List,
    /// By a streaming list if the server supports it.
    Stream,
}

impl Mode {
    /// Returns the name used in file names.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Stream => "stream",
        }
    }
}

/// The informer that runs a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client {
    /// How it fetches the initial state.
    pub mode: Mode,
    /// It behaves as client-go does.
    pub client_go: bool,
    /// It accepts nothing but protobuf, and the scenario is translated.
    pub protobuf: bool,
}

/// Stores objects as received.
struct Received {
    protobuf: bool,
}

impl Decode for Received {
    type Value = Raw;
    type Error = <Decoder<Raw> as Decode>::Error;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Raw, Self::Error> {
        Decoder::<Raw>::new().decode(raw)
    }

    fn accept(&self) -> Accept {
        if self.protobuf {
            Accept::default().only_protobuf()
        } else {
            Accept::default()
        }
    }
}

/// A scenario, and the recorded behaviour of client-go.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The script as text, which preserves the order of members.
    pub text: String,
    /// The script.
    pub script: Value,
    /// The recording of client-go.
    pub expected: Value,
}

/// Reads the scenarios of a folder with `scenarios/` and `expected/`, sorted by name.
///
/// # Panics
/// If a file cannot be read or is not JSON.
#[must_use]
pub fn scenarios(folder: &Path, mode: Mode) -> Vec<Scenario> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let parse = |path: &Path, text: &str| -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let files = std::fs::read_dir(folder.join("scenarios"))
        .unwrap_or_else(|error| panic!("{}/scenarios: {error}", folder.display()));
    let mut paths: Vec<_> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    paths.sort();
    let scenario = |path: &std::path::PathBuf| {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let recorded = folder.join(format!("expected/{name}.{}.json", mode.as_str()));
        let text = read(path);
        Scenario {
            script: parse(path, &text),
            expected: parse(&recorded, &read(&recorded)),
            name,
            text,
        }
    };
    paths.iter().map(scenario).collect()
}

/// Runs the tokio informer against a scenario, on the paused time of the current runtime. The result has the format
/// of the files in `expected/`.
///
/// # Panics
/// If the script is invalid.
pub async fn run(scenario: &Scenario, client: Client) -> Value {
    let server = ScriptedServer::from_json(&scenario.text)
        .unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
        .in_protobuf();
    let mock = Mock::with_clock(server, TokioClock::new());
    let seconds = |member: &str| {
        Duration::from_secs_f64(scenario.script[member].as_f64().unwrap_or_default())
    };
    let pods = Resource::parse("pods").unwrap_or(Resource::new("", "v1", "pods"));
    let protobuf = client.protobuf;
    let builder = Informer::<Raw>::builder_with(mock.transport(), pods, Received { protobuf })
        .seed(1)
        .resync(seconds("resync"))
        .initial(match client.mode {
            Mode::List => Initial::List,
            Mode::Stream => Initial::Stream,
        });
    let (informer, driver) = if client.client_go {
        builder.client_go().build()
    } else {
        builder.build()
    };
    let mut subscription = informer.subscribe();
    let end = tokio::time::Instant::now() + seconds("seconds");
    let driver = tokio::spawn(driver.run());
    let mut events = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout_at(end, subscription.recv()).await {
        events.push(event);
    }
    let lines = mock.with(|server| server.log_lines());
    informer.stop();
    if let Err(panic) = driver.await {
        std::panic::resume_unwind(panic.into_panic());
    }
    let requests: Vec<Value> = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut found = notifications(&events);
    found["requests"] = requests.iter().map(request).collect();
    found["seconds_between_requests"] = gaps(&requests, &scenario.script).into();
    found
}

/// The compared parts of a request, like `normal` in `run.py`.
fn request(request: &Value) -> Value {
    const KEPT: [&str; 7] = [
        "resourceVersion",
        "resourceVersionMatch",
        "limit",
        "continue",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "watch",
    ];
    let mut query = Map::new();
    for (name, value) in request["query"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let value = match (name.as_str(), value) {
            (_, "") | ("limit", "0") => continue,
            ("watch", "1") => "true",
            (name, value) if KEPT.contains(&name) => value,
            _ => continue,
        };
        query.insert(name.clone(), value.into());
    }
    json!({
        "verb": request["verb"],
        "path": request["path"],
        "query": query,
        "has_timeout": !request["timeout"].is_null(),
    })
}

/// The compared parts of notifications, like `normal` in `run.py`.
fn notifications(events: &[Event<Raw>]) -> Value {
    let version = |entry: &Entry<Raw>| entry.resource_version().to_string();
    let (mut keys, mut late, mut synced) = (Map::new(), Vec::new(), false);
    for event in events {
        let (key, notified) = match event {
            Event::Synced => {
                synced = true;
                continue;
            }
            Event::Added {
                entry,
                is_in_initial_list,
            } => {
                if *is_in_initial_list && synced {
                    late.push(Value::from(entry.key().as_str()));
                }
                let when = if *is_in_initial_list {
                    "initial"
                } else {
                    "later"
                };
                (entry.key(), json!(["add", version(entry), when]))
            }
            Event::Updated { old, new } => {
                (new.key(), json!(["update", version(new), version(old)]))
            }
            Event::Replayed { entry, .. } => (
                entry.key(),
                json!(["update", version(entry), version(entry)]),
            ),
            Event::Deleted {
                entry,
                final_state_unknown: false,
            } => (entry.key(), json!(["delete", version(entry)])),
            Event::Deleted { entry, .. } => (
                entry.key(),
                json!(["delete", version(entry), "final state unknown"]),
            ),
            _ => continue,
        };
        let list = keys.entry(key.as_str()).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(notified);
        }
    }
    json!({ "notifications": keys, "synced": synced, "initial_told_after_synced": late })
}

/// The duration of the script's pauses in the answer to each request.
fn pauses(requests: &[Value], script: &Value) -> Vec<f64> {
    let mut used = Map::new();
    let mut pause = |request: &Value| {
        let verb = request["verb"].as_str().unwrap_or_default();
        let answers = match verb {
            "WATCH" => &script["watches"],
            "STREAM" => &script["streams"],
            _ => &script["lists"],
        };
        let answers = answers.as_array().map(Vec::as_slice).unwrap_or_default();
        let count = used.entry(verb).or_insert_with(|| 0.into());
        let index = count.as_u64().unwrap_or_default();
        *count = (index + 1).into();
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(answer) = answers.get(index).or_else(|| answers.last()) else {
            return 0.0;
        };
        let frames = answer["frames"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        answer["delay"].as_f64().unwrap_or_default()
            + frames.iter().filter_map(Value::as_f64).sum::<f64>()
    };
    requests.iter().map(&mut pause).collect()
}

/// Seconds from the end of each scripted answer to the next request, like `gaps` in `run.py`.
fn gaps(requests: &[Value], script: &Value) -> Vec<f64> {
    let times: Vec<f64> = requests
        .iter()
        .map(|request| request["t"].as_f64().unwrap_or_default())
        .collect();
    times
        .windows(2)
        .zip(pauses(requests, script))
        .map(|(pair, pause)| {
            let [before, after] = pair else { return 0.0 };
            ((after - before - pause) * 1000.0).round() / 1000.0
        })
        .collect()
}

/// A request within this time was sent at once; the margin covers rounding up to milliseconds.
const AT_ONCE: f64 = 0.02;
/// The limit of `run.py` between a request sent at once and one sent after a delay.
const DELAYED: f64 = 0.4;

/// Describes the differences between the recording and the result, like `differences` in `run.py`.
///
/// Nothing is late on virtual time: a request is sent either at once or after a delay. If `replays` is false, updates
/// with the same version on both sides are ignored: only handlers that want them are notified of a list's replays,
/// see `docs/DIFFERENCES.md`.
#[must_use]
pub fn differences(wanted: &Value, found: &Value, script: &Value, replays: bool) -> Vec<String> {
    let mut differences = Vec::new();
    let resync = script["resync"]
        .as_f64()
        .is_some_and(|seconds| seconds > 0.0);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (a, b) = (list(&wanted["requests"]), list(&found["requests"]));
    let first = (0..a.len().max(b.len())).find(|index| a.get(*index) != b.get(*index));
    if let Some(index) = first {
        let show = |requests: &[Value]| {
            requests
                .get(index)
                .map_or_else(|| "none".to_owned(), Value::to_string)
        };
        differences.push(format!(
            "request {}: wanted {}, got {}",
            index + 1,
            show(&a),
            show(&b)
        ));
    }
    let keys = |value: &Value| {
        value["notifications"]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
    let (a, b) = (keys(wanted), keys(found));
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let notified = |keys: &Map<String, Value>| {
            let mut notified = keys.get(name).map(list).unwrap_or_default();
            notified.retain(|event| replays || event[0] != "update" || event[1] != event[2]);
            notified
        };
        let (mut a, mut b) = (notified(&a), notified(&b));
        if resync && a.len().abs_diff(b.len()) <= 1 {
            // The clock may cause one resync more or less.
            let both = a.len().min(b.len());
            a.truncate(both);
            b.truncate(both);
        }
        if a != b {
            differences.push(format!("{name}: wanted {}, got {}", json!(a), json!(b)));
        }
    }
    for member in ["synced", "initial_told_after_synced"] {
        if wanted[member] != found[member] {
            differences.push(format!(
                "{member}: wanted {}, got {}",
                wanted[member], found[member]
            ));
        }
    }
    if differences.is_empty() {
        let (a, b) = (
            list(&wanted["seconds_between_requests"]),
            list(&found["seconds_between_requests"]),
        );
        let pauses = pauses(&list(&found["requests"]), script);
        for (index, ((a, b), pause)) in a.iter().zip(&b).zip(pauses).enumerate() {
            let (a, b) = (
                a.as_f64().unwrap_or_default(),
                b.as_f64().unwrap_or_default(),
            );
            let same = match (a < DELAYED, pause > 0.0) {
                // A client may leave in the middle of a pause, whose rest then counts as delay.
                (at_once, true) => (b < DELAYED) == at_once || (a - b).abs() <= 0.3,
                (true, false) => b < AT_ONCE,
                (false, false) => b >= DELAYED,
            };
            if !same {
                differences.push(format!(
                    "request {} came {b} s after the one before, client-go's {a} s after",
                    index + 2
                ));
            }
        }
    }
    differences
}

/// Runs scenarios one after another and describes the differences, each line with the scenario's name.
pub async fn failures(scenarios: &[Scenario], client: Client) -> String {
    let mut text = String::new();
    for scenario in scenarios {
        let found = run(scenario, client).await;
        let Scenario {
            expected, script, ..
        } = scenario;
        for difference in differences(expected, &found, script, client.client_go) {
            let mode = client.mode.as_str();
            // Writing into a `String` does not fail.
            let _ = writeln!(text, "{} ({mode}): {difference}", scenario.name);
        }
    }
    text
}
