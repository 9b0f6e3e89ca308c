//! What a report says, and what fails besides the checks: nothing misleads.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use informer_explore::{Explore, Failure, FaultKind, Objects, Process};
use informer_mock::json;
use tokio::time::sleep;

fn maps() -> Objects {
    Objects::new("configmaps", json!({ "metadata": { "namespace": "prod" } }))
}

fn rules() -> Explore {
    Explore::new().objects(maps())
}

/// Reads for ever.
async fn look(process: Process) {
    loop {
        let _ = process.client().list("configmaps", "prod").await;
        sleep(Duration::from_secs(1)).await;
    }
}

fn fails<F: Future<Output = ()> + 'static>(
    rules: &Explore,
    program: impl Fn(Process) -> F + Send + Sync + 'static,
) -> Failure {
    *rules.find(program).unwrap_err()
}

#[test]
fn a_run_that_fails_now_and_then_is_reported_as_it_was() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    async fn sometimes(process: Process) {
        let round = COUNT.fetch_add(1, Ordering::Relaxed);
        let map = json!({ "metadata": { "namespace": "prod", "name": format!("own-{round}") } });
        let _ = process.client().create("configmaps", &map).await;
        core::future::pending::<()>().await;
    }
    let rules = Explore::new()
        .faults([])
        .check("the fourth is never made", |world| {
            match world.get("configmaps", "prod", "own-3") {
                Some(_) => Err("there is the fourth".to_owned()),
                None => Ok(()),
            }
        });
    let failure = fails(&rules, sometimes);
    assert_eq!(failure.check, "the fourth is never made");
    assert_eq!(failure.what, "there is the fourth");
    assert_eq!((failure.fails, failure.runs), (1, 6));
    assert!(failure.difference.is_some());
    let text = failure.to_string();
    for part in [
        "NOT DETERMINISTIC: it has failed in 1 of 6 runs",
        "The first difference is line 0 of their requests",
        "a static variable",
        "\"own-3\"",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(failure.html().contains("in 1 of 6 runs"));
}

#[test]
fn runs_that_prove_nothing_fail() {
    async fn nothing(_: Process) {
        core::future::pending::<()>().await;
    }
    let failure = fails(&rules(), nothing);
    assert_eq!(failure.check, "the program sends requests");
    assert!(failure.what.contains("`process.client()`"), "{failure}");

    // The server refuses a label that is no text.
    let refused = json!({ "metadata": { "namespace": "prod", "labels": { "a": "not valid!" } } });
    let refused = Explore::new().objects(Objects::new("configmaps", refused));
    let failure = fails(&refused, look);
    assert_eq!(failure.check, "users can write their objects");
    assert!(failure.what.contains("configmaps"), "{failure}");
    assert!(failure.what.contains("422"), "{failure}");

    // The first is accepted, and the change is not.
    let changed = maps().changed(json!({ "metadata": { "labels": { "a": "not valid!" } } }));
    let failure = fails(&Explore::new().objects(changed), look);
    assert!(failure.what.contains("with the change"), "{failure}");

    let never = rules().faults([FaultKind::Conflict]).seeds(200);
    let failure = fails(&never, look);
    assert_eq!(failure.check, "each fault that was asked for occurs");
    assert!(failure.what.contains("Conflict"), "{failure}");
}

#[test]
fn panics_of_all_tasks_and_of_checks_are_failures() {
    async fn spawns(process: Process) {
        let _ = process.client().list("configmaps", "prod").await;
        tokio::spawn(async { panic!("a planted panic") });
        core::future::pending::<()>().await;
    }
    let failure = fails(&rules(), spawns);
    assert_eq!(failure.check, "it does not panic");
    assert!(
        failure.what.starts_with("a planted panic, at "),
        "{failure}"
    );

    async fn blocking(process: Process) {
        let _ = process.client().list("configmaps", "prod").await;
        let _ = tokio::task::spawn_blocking(|| panic!("a planted panic")).await;
        core::future::pending::<()>().await;
    }
    assert_eq!(fails(&rules(), blocking).check, "it does not panic");

    let asserts = rules().check("it is as planned", |_| panic!("a check that asserts"));
    let failure = fails(&asserts, look);
    assert_eq!(failure.check, "it is as planned");
    assert_eq!(
        failure.what,
        "the check panics: a check that asserts, at {place}".replace("{place}", &place(&failure))
    );
}

/// Returns the place that a text ends with.
fn place(failure: &Failure) -> String {
    let place = failure.what.rsplit(", at ").next();
    place.unwrap_or_default().to_owned()
}

#[test]
fn programs_that_never_wait_are_failures() {
    async fn polled(process: Process) {
        let _ = process.client().list("configmaps", "prod").await;
        loop {
            tokio::task::yield_now().await;
        }
    }
    let failure = fails(&rules(), polled);
    assert_eq!(failure.check, "it waits between its rounds");
    assert!(
        failure.what.contains("100000 times at one instant"),
        "{failure}"
    );

    async fn spawned(process: Process) {
        let _ = process.client().list("configmaps", "prod").await;
        tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        core::future::pending::<()>().await;
    }
    let failure = fails(&rules(), spawned);
    assert_eq!(failure.check, "it waits between its rounds");
    assert!(
        failure.what.contains("of the processor at one instant"),
        "{failure}"
    );
    assert_eq!((failure.fails, failure.runs), (1, 1));
}

#[test]
fn a_composite_is_shrunk_as_a_whole() {
    /// Deletes what it has not seen for a minute: a watch that was cut is no silence.
    async fn create(process: Process) {
        let client = process.client();
        loop {
            for map in client.list("configmaps", "prod").await.unwrap_or_default() {
                let name = &map["metadata"]["name"];
                let secret = json!({ "metadata": { "namespace": "prod", "name": name } });
                let _ = client.create("secrets", &secret).await;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let rules = rules()
        .faults([FaultKind::Unobserved])
        .check("no Secret is made", |world| {
            if world.objects("secrets").is_empty() {
                Ok(())
            } else {
                Err("there is one".to_owned())
            }
        });
    let failure = fails(&rules, create);
    let what: Vec<_> = failure.actions.iter().map(|action| &*action.what).collect();
    // Either without the fault, or with all of it.
    let has = |part: &str| what.iter().any(|what| what.contains(part));
    assert_eq!(has("fall silent"), has("are reset"), "{failure}");
    assert_eq!(failure.actions.len(), 1, "{failure}");
}

#[test]
fn traces_have_bodies_of_reads_and_log_lines() {
    async fn logs(process: Process) {
        for _ in 0..3 {
            let maps = process.client().list("configmaps", "prod").await;
            tracing::info!(count = maps.unwrap_or_default().len(), "has read");
            tracing::debug!("is not shown");
            sleep(Duration::from_secs(1)).await;
        }
        core::future::pending::<()>().await;
    }
    let trace = rules().faults([]).trace(3, logs);
    let text = trace.to_string();
    for part in ["has read count=", "\"kind\":\"ConfigMapList\"", "|  INFO"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("is not shown"), "{text}");
}

#[test]
fn plans_that_have_failed_are_carried_out_first() {
    async fn create(process: Process) {
        let secret = json!({ "metadata": { "namespace": "prod", "name": "own" } });
        let _ = process.client().create("secrets", &secret).await;
        core::future::pending::<()>().await;
    }
    let path = std::env::temp_dir().join(format!("regressions-{}", std::process::id()));
    let rules = rules()
        .regressions(&path)
        .check("it makes no Secret", |world| {
            match world.objects("secrets").len() {
                0 => Ok(()),
                count => Err(format!("there are {count}")),
            }
        });
    let run = rules.faults([FaultKind::Slow]).seeds(3);
    let text = |rules: Explore| {
        let run = AssertUnwindSafe(|| rules.run(create));
        let panic = std::panic::catch_unwind(run).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    };
    let first = text(run.clone());
    assert!(first.contains("its plan is kept in"), "{first}");
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(kept.lines().count(), 2, "{kept}");
    let again = text(run.clone());
    assert!(
        again.starts_with("line 2 of the regressions fails"),
        "{again}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), kept);

    // A plan of other rules says what to do.
    std::fs::write(&path, kept.replace("\"steps\":[", "\"steps\":[{\"at\":{\"secs\":0,\"nanos\":0},\"actions\":[[{\"secs\":0,\"nanos\":0},{\"Person\":{\"resource\":0,\"which\":0,\"deletes\":true}}]]},")).unwrap();
    let other = text(run);
    assert!(
        other.contains("Remove the line if the rules have changed"),
        "{other}"
    );
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_exploration_counts_faults_and_deaths() {
    let explored = rules().seeds(40).find(look).unwrap();
    assert!(explored.deaths > 0, "{explored}");
    assert!(explored.faults[&FaultKind::Slow] > 0, "{explored}");
    assert_eq!(
        explored.faults[&FaultKind::Conflict],
        0,
        "it does not write"
    );
    let text = explored.to_string();
    assert!(text.contains("every check holds. Processes died"), "{text}");
    let (_, none) = text.split_once("; without an effect: ").unwrap();
    assert!(none.contains("Conflict"), "it does not write: {text}");
    assert!(!none.contains("Slow,"), "{text}");
}

/// Each run has a runtime with its own descriptors, and whatever the program leaves in tasks and wakers.
#[cfg(target_os = "linux")]
#[test]
fn runs_leave_no_descriptors_behind() {
    async fn leaves(process: Process) {
        let own = process.clone();
        tokio::spawn(async move {
            loop {
                look(own.clone()).await;
            }
        });
        look(process).await;
    }
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    rules().seeds(300).run(leaves);
    // Other tests run at the same time, and have some.
    let after = descriptors();
    assert!(
        after < before + 200,
        "{before} before, {after} after 300 runs"
    );
}

/// What the test below runs as a program of its own, since the environment is that of a whole program.
#[test]
fn run_by_another_test() {
    async fn hopes(process: Process) {
        let client = process.client();
        loop {
            let all = client.list("configmaps", "prod").await.unwrap_or_default();
            assert!(all.len() < 2, "there are two");
            sleep(Duration::from_secs(1)).await;
        }
    }
    #[expect(clippy::exit, reason = "it is what the test is about")]
    async fn exits(_: Process) {
        std::process::exit(3);
    }
    async fn idles(_: Process) {
        core::future::pending::<()>().await;
    }
    if std::env::var_os("EXIT").is_some() {
        rules().seeds(1).run(exits);
    } else if std::env::var_os("IDLE").is_some() {
        rules().run(idles);
    } else if std::env::var_os("EXPLORE_ALL").is_some() {
        rules().run(hopes);
    }
}

#[test]
fn an_exit_of_the_test_program_is_reported() {
    let program = std::env::current_exe().unwrap();
    let done = std::process::Command::new(program)
        .args(["--exact", "reports::run_by_another_test"])
        .env("EXIT", "1")
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(3));
    let text = String::from_utf8(done.stderr).unwrap();
    assert!(
        text.contains("in the run of seed 0. Let it return"),
        "{text}"
    );
}

#[test]
fn the_environment_changes_an_exploration() {
    let run = |without: &str, program_is_idle: bool| {
        let idle = program_is_idle.then_some(("IDLE", "1"));
        let program = std::env::current_exe().unwrap();
        let test = ["--exact", "reports::run_by_another_test", "--nocapture"];
        let variables = [
            ("EXPLORE_ALL", "1"),
            ("EXPLORE_SEEDS", "20"),
            ("EXPLORE_WITHOUT", without),
        ];
        let done = std::process::Command::new(program)
            .args(test)
            .envs(variables)
            .envs(idle)
            .output()
            .unwrap();
        assert!(!done.status.success());
        String::from_utf8(done.stderr).unwrap()
    };
    let text = run("", true);
    assert!(
        text.contains("the program sends requests: in all seeds"),
        "{text}"
    );
    let text = run("Silence, Converges", false);
    for part in [
        " of 20 seeds fail:",
        "  it does not panic: ",
        "there are two",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let text = run("Silense", false);
    assert!(
        text.contains("Silense is none of the faults [Stale, "),
        "{text}"
    );
}

/// `/proc/self/status` has the signals that the program handles.
#[test]
#[cfg(target_os = "linux")]
fn a_program_that_waits_for_signals_leaves_them_to_the_test() {
    async fn waits(process: Process) {
        let _ = process.client().list("configmaps", "prod").await;
        let _ = tokio::signal::ctrl_c().await;
    }
    // Programs of other tests wait for signals, too, so it runs in a process of its own.
    if std::env::var_os("ALONE").is_none() {
        let program = std::env::current_exe().unwrap();
        let test = "reports::a_program_that_waits_for_signals_leaves_them_to_the_test";
        let mut alone = std::process::Command::new(program);
        let done = alone
            .args(["--exact", test])
            .env("ALONE", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    rules().seeds(5).run(waits);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    assert_eq!(caught & (1 << (libc::SIGINT - 1)), 0, "{caught:x}");
}

#[test]
fn a_time_limits_an_exploration() {
    let explored = rules().time(Duration::ZERO).find(look).unwrap();
    assert!((1..100).contains(&explored.seeds), "{explored}");
}

/// Random bytes and the time of day follow from the seed, in spawned tasks as well.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn random_bytes_and_the_time_of_day_are_those_of_the_world() {
    async fn random(process: Process) {
        tokio::spawn(async move {
            loop {
                let keys = std::collections::HashMap::from([(1, "a"), (2, "b"), (3, "c")]);
                let order: String = keys.values().copied().collect();
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                let own = process.now().duration_since(UNIX_EPOCH).unwrap();
                assert_eq!(now.as_millis(), own.as_millis());
                let data = json!({ "order": order, "now": now.as_secs().to_string(), "dice": fastrand::u64(..).to_string() });
                let map = json!({ "metadata": { "namespace": "prod", "generateName": "own-" }, "data": data });
                let _ = process.client().create("secrets", &map).await;
                sleep(Duration::from_millis(fastrand::u64(1..5_000))).await;
            }
        });
        sleep(Duration::from_secs(300)).await;
    }
    let run = |seed| -> Vec<String> {
        let rules = rules().without(FaultKind::Crash);
        rules
            .patience(Duration::from_secs(60))
            .trace(seed, random)
            .requests()
            .collect()
    };
    let first = run(1);
    assert!(first.len() > 20, "{first:#?}");
    for _ in 0..10 {
        assert_eq!(run(1), first);
    }
    assert_ne!(run(2), first);
}
