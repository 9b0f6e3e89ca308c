//! Signals that request a program to stop.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(not(unix))]
use tokio::signal::windows::{CtrlC, ctrl_c};

/// Waits for the signals that request a program to stop: SIGINT (Ctrl-C) and SIGTERM, which a Pod gets first. On
/// systems without Unix signals, it waits for Ctrl-C only.
///
/// Create it once, before any loop: it remembers a signal that arrives while nothing waits for it. From then on, these
/// signals no longer end the process by themselves, even after it is dropped.
///
/// ```
/// use informer_tokio::{Informer, Raw};
/// use informer_tokio::controller::{Controller, Next, StopSignal};
///
/// # async fn watch(pods: Informer<Raw>) -> Result<(), Box<dyn std::error::Error>> {
/// let mut signal = StopSignal::new()?;
/// let controller = Controller::new(&pods);
/// let handle = controller.handle();
/// tokio::spawn(async move {
///     signal.recv().await;
///     handle.stop(); // Running reconciliations may end; `run` returns after them.
/// });
/// controller.run(|task| async move { Ok::<_, std::io::Error>(Next::done()) }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StopSignal {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(not(unix))]
    interrupt: CtrlC,
}

impl StopSignal {
    /// Starts to listen for the signals.
    ///
    /// # Errors
    /// Fails if the system refuses to register a handler.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime, and in one without I/O enabled.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
            #[cfg(not(unix))]
            interrupt: ctrl_c()?,
        })
    }

    /// Waits for the next signal. No signal is lost if the future is dropped, so it fits into `select!` in a loop; several
    /// signals between two calls count as one.
    ///
    /// ```
    /// # async fn watch(pods: informer_tokio::Informer<informer_tokio::Raw>) -> std::io::Result<()> {
    /// let mut signal = informer_tokio::controller::StopSignal::new()?;
    /// signal.recv().await;
    /// pods.stop();
    /// tokio::select! {
    ///     () = pods.ended() => {} // All handlers have finished.
    ///     () = signal.recv() => {} // A second signal ends the wait.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn recv(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = self.interrupt.recv().await;
    }
}
