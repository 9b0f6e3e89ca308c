//! The writer on a real disk.

use core::future::poll_fn;
use core::task::Context;
use std::sync::{Arc, Mutex};

use informer_core::ResourceVersion;
use informer_journal::{Record, Recorder, Recording as _};

use crate::cache::entry::Key;

use super::outbox::{Op, WAITING};
use super::*;

/// Runs a writer on files in a separate folder. The list collects its reports.
fn start(folder: &std::path::Path) -> (Outbox, Arc<Mutex<Vec<String>>>) {
    use informer_journal::RecordLog as _;
    let pods = Resource::new("", "v1", "pods");
    let source = Journal::file(folder.join("pods")).of_source(&pods, 0, false);
    let mut log = source.open().unwrap();
    log.load(&source.identity, &mut |_| (), &mut |_| ())
        .unwrap();
    let (outbox, writer) = source.queue(Some(log), false, false);
    let reports = Arc::<Mutex<Vec<String>>>::default();
    let list = Arc::clone(&reports);
    tokio::spawn(writer.run(move |report| list.lock().unwrap().push(report.to_string())));
    (outbox, reports)
}

fn put(outbox: &mut Recorder<Outbox>, size: usize) {
    let (mut keys, mut objects) = ("prod/web".to_owned(), vec![b' '; size]);
    outbox.journal().at(Some(((0, keys.len()), (0, size))));
    let (key, object) = (keys.as_str(), objects.as_slice());
    outbox.append(Record::Put { key, object });
    outbox.journal().send(&mut keys, &mut objects);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_panics_is_reported_and_holds_nobody_back() {
    let folder = tempfile::tempdir().unwrap();
    let (outbox, reports) = start(folder.path());
    let mut outbox = Recorder::new(outbox);
    outbox.journal().ops.push(Op::Panic);
    put(&mut outbox, WAITING);
    assert!(*outbox.journal().state.waiting.borrow() >= WAITING);
    poll_fn(|cx| outbox.journal().poll_room(cx)).await;
    poll_fn(|cx| outbox.journal().poll_list(cx)).await;
    let reported = reports.lock().unwrap().join("; ");
    assert!(reported.contains("its writer panicked"), "{reported}");

    // The files are opened again, and the list makes the journal complete.
    outbox.begin();
    assert!(outbox.is_restarted());
    put(&mut outbox, 100);
    outbox.complete();
    outbox.reached(&ResourceVersion::<Key>::new("7"), true);
    outbox.journal().send(&mut String::new(), &mut Vec::new());
    while reports.lock().unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let reported = reports.lock().unwrap().join("; ");
    assert!(
        reported.ends_with("the journal is complete again"),
        "{reported}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_room_ends_with_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let pods = Resource::new("", "v1", "pods");
    let source = Journal::file(folder.path().join("pods")).of_source(&pods, 0, false);
    let (outbox, writer) = source.queue(None, true, true);
    let mut outbox = Recorder::new(outbox);
    put(&mut outbox, WAITING);
    let mut cx = Context::from_waker(core::task::Waker::noop());
    assert!(outbox.journal().poll_room(&mut cx).is_pending());
    drop(writer);
    poll_fn(|cx| outbox.journal().poll_room(cx)).await;
}
