//! A unit test of a custom handler, without a network and without real time.

use clap::Parser;
use informer::handler::EventHandler;
use informer::{Entry, Informer, Raw, Resource};
use informer_examples::terminal::say;
use informer_mock::{FakeServer, Mock, TokioClock, json};

/// Tests a custom handler against a server in memory.
#[derive(Parser)]
struct Arguments {}

/// Counts the objects.
struct Count(tokio::sync::watch::Sender<i32>);

impl EventHandler<Raw> for Count {
    fn on_add(&mut self, _pod: &Entry<Raw>, _is_in_initial_list: bool) {
        self.0.send_modify(|count| *count += 1);
    }
    fn on_delete(&mut self, _pod: &Entry<Raw>, _final_state_unknown: bool) {
        self.0.send_modify(|count| *count -= 1);
    }
}

// In a test: #[tokio::test(start_paused = true)]
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let Arguments {} = Arguments::parse();
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    mock.create("pods", json!({ "metadata": { "name": "web" } }))?;
    let pods = Informer::<Raw>::builder_for(&mock.transport(), Resource::parse("pods")?).spawn();
    let (count, mut counted) = tokio::sync::watch::channel(0);
    pods.add_handler(Count(count)).synced().await?;
    assert_eq!(*counted.borrow_and_update(), 1);
    mock.delete("pods", "default", "web")?;
    assert_eq!(*counted.wait_for(|count| *count == 0).await?, 0);
    say("the handler counted the Pod, and its deletion");
    Ok(())
}
