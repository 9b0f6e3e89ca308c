//! Shares one acquisition of a credential among all requests that need it.

use alloc::sync::Arc;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{FutureExt as _, Shared};
use tokio::time::{Instant, timeout};

use crate::credentials::{Credential, CredentialError, CredentialSource};

/// Acquires credentials from a [`CredentialSource`] for a transport and all its clones.
///
/// Requests that need a credential at the same time share one acquisition. The acquisition belongs to the transport
/// rather than to the requests: if all of them are dropped, the next request continues it, so a login that takes longer
/// than the deadline of a request still completes. It is dropped with the last clone of the transport.
pub(crate) struct Login {
    source: Arc<dyn CredentialSource>,
    limit: Option<Duration>,
    state: Arc<Mutex<Acquired>>,
}

#[derive(Default)]
struct Acquired {
    running: Option<Acquisition>,
    failed: Option<Failed>,
    /// The last credential that the source returned.
    current: Option<Credential>,
    renewal: Option<Renewal>,
}

/// The last acquisition that was to replace a refused credential.
///
/// If the server refuses its result too, the next one waits, since each may start a program or ask another server. A
/// credential that is not refused during this pause counts as accepted.
#[derive(Clone, Copy)]
struct Renewal {
    ended: Instant,
    pause: Duration,
    /// Whether its result was refused during the pause.
    was_refused: bool,
}

impl Renewal {
    fn is_over(&self) -> bool {
        self.ended.elapsed() >= self.pause
    }

    /// The pause after the next renewal.
    fn next_pause(&self) -> Duration {
        if self.was_refused {
            (self.pause * 2).min(LONGEST_PAUSE)
        } else {
            FIRST_PAUSE
        }
    }
}

#[derive(Clone)]
struct Acquisition {
    given: Shared<Given>,
    refused: Option<Credential>,
}

type Given = Pin<Box<dyn Future<Output = Result<Credential, CredentialError>> + Send>>;

/// A failed acquisition. It is not repeated for a short time, since each attempt may start a program.
struct Failed {
    error: CredentialError,
    at: Instant,
    /// Whether the acquisition was to replace a refused credential. If so, the source may still have one for other
    /// requests.
    is_renewal: bool,
}

impl Login {
    pub(crate) fn new(source: Arc<dyn CredentialSource>, limit: Option<Duration>) -> Self {
        Self {
            source,
            limit,
            state: Arc::default(),
        }
    }

    /// Returns the credential for a request. If `refused` is set, it is another one, provided that the source has one and
    /// that it is time to ask for it.
    pub(crate) async fn credential(
        &self,
        refused: Option<&Credential>,
    ) -> Result<Credential, CredentialError> {
        loop {
            let acquisition = match self.join(refused)? {
                Joined::Acquisition(acquisition) => acquisition,
                Joined::Known(credential) => return Ok(credential),
            };
            let given = acquisition.given.await;
            // An acquisition that began before the server refused the credential may return the same one.
            if refused.is_some()
                && acquisition.refused.as_ref() != refused
                && given.as_ref().ok() == refused
            {
                continue;
            }
            return given;
        }
    }

    /// Notes that the server has refused a credential that replaced a refused one.
    pub(crate) fn note_refused(&self, credential: &Credential) {
        let mut state = lock(&self.state);
        if state.current.as_ref() == Some(credential)
            && let Some(renewal) = &mut state.renewal
        {
            renewal.was_refused |= !renewal.is_over();
        }
    }

    /// Joins the running acquisition or begins one. No user code runs here.
    fn join(&self, refused: Option<&Credential>) -> Result<Joined, CredentialError> {
        let mut state = lock(&self.state);
        if let Some(running) = &state.running {
            return Ok(Joined::Acquisition(running.clone()));
        }
        if let Some(failed) = &state.failed
            && (refused.is_some() || !failed.is_renewal)
            && failed.at.elapsed() < FAILED_FOR
        {
            return Err(failed.error.clone());
        }
        let mut pause = FIRST_PAUSE;
        if let Some(refused) = refused {
            if let Some(current) = state.current.as_ref().filter(|current| *current != refused) {
                // Another request has replaced it.
                return Ok(Joined::Known(current.clone()));
            }
            if let Some(renewal) = &mut state.renewal {
                if !renewal.is_over() {
                    renewal.was_refused = true;
                    return Ok(Joined::Known(refused.clone()));
                }
                pause = renewal.next_pause();
            }
        }
        let begun = Acquisition {
            given: self.begin(refused.cloned(), pause).shared(),
            refused: refused.cloned(),
        };
        state.running = Some(begun.clone());
        Ok(Joined::Acquisition(begun))
    }

    /// Begins an acquisition. `pause` is the time from the end of a renewal to the next one.
    fn begin(&self, refused: Option<Credential>, pause: Duration) -> Given {
        let (source, limit) = (Arc::clone(&self.source), self.limit);
        // Only the state owns the acquisition, so it must not be owned by it.
        let state = Arc::downgrade(&self.state);
        Box::pin(async move {
            let asking = async { source.credential(refused.as_ref()).await };
            let asking = AssertUnwindSafe(asking).catch_unwind();
            let given = match limit {
                None => asking.await,
                Some(limit) => timeout(limit, asking).await.unwrap_or_else(|_elapsed| {
                    let why = format!("it took longer than {limit:?} (login_timeout)");
                    Ok(Err(CredentialError::new(why)))
                }),
            };
            let given = given.unwrap_or_else(|_panic| {
                Err(CredentialError::new("the credential source panicked"))
            });
            if let Some(state) = state.upgrade() {
                let mut state = lock(&state);
                state.running = None;
                if let Some(refused) = &refused {
                    state.renewal = Some(Renewal {
                        ended: Instant::now(),
                        pause,
                        was_refused: given.as_ref().is_ok_and(|given| given == refused),
                    });
                }
                if let Ok(credential) = &given {
                    state.current = Some(credential.clone());
                }
                state.failed = given.as_ref().err().map(|error| Failed {
                    error: error.clone(),
                    at: Instant::now(),
                    is_renewal: refused.is_some(),
                });
            }
            given
        })
    }
}

/// What a request waits for, or has.
enum Joined {
    Acquisition(Acquisition),
    Known(Credential),
}

fn lock(state: &Mutex<Acquired>) -> MutexGuard<'_, Acquired> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a failure is returned to further requests. It is longer than the first delays of an informer's backoff.
const FAILED_FOR: Duration = Duration::from_secs(10);

/// How long a renewed credential that is refused is not renewed again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    use core::sync::atomic::{AtomicUsize, Ordering};

    use crate::credentials::CredentialFuture;

    /// Returns its number of calls as the token, after a delay. Some calls fail.
    struct Slow {
        calls: Arc<AtomicUsize>,
        takes: Duration,
        fails: fn(usize) -> Option<&'static str>,
    }

    impl CredentialSource for Slow {
        fn credential<'a>(&'a self, _refused: Option<&'a Credential>) -> CredentialFuture<'a> {
            let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            Box::pin(async move {
                tokio::time::sleep(self.takes).await;
                match (self.fails)(call) {
                    Some("panic") => panic!("as the test wants"),
                    Some(why) => Err(CredentialError::new(why)),
                    None => Credential::bearer(call.to_string()),
                }
            })
        }
    }

    fn login(
        takes: u64,
        limit: u64,
        fails: fn(usize) -> Option<&'static str>,
    ) -> (Arc<Login>, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let source = Slow {
            calls: Arc::clone(&calls),
            takes: Duration::from_secs(takes),
            fails,
        };
        let limit = Some(Duration::from_secs(limit));
        (Arc::new(Login::new(Arc::new(source), limit)), calls)
    }

    fn token(text: &str) -> Credential {
        Credential::bearer(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_that_outlasts_every_request_completes() {
        let (login, calls) = login(90, 300, |_| None);
        let patience = Duration::from_secs(60);
        assert!(timeout(patience, login.credential(None)).await.is_err());
        let given = timeout(patience, login.credential(None)).await.unwrap();
        assert_eq!(given, Ok(token("1")));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_at_the_same_time_share_an_acquisition() {
        let (login, calls) = login(1, 300, |_| None);
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let login = Arc::clone(&login);
                // Half of them replace a credential that the server refused.
                let refused = (number % 2 == 0).then(|| token("old"));
                tokio::spawn(async move { login.credential(refused.as_ref()).await })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), Ok(token("1")));
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_refused_credential_itself_is_not_an_answer() {
        let (login, calls) = login(1, 300, |_| None);
        let refused = token("1");
        let (first, other) = tokio::join!(login.credential(None), login.credential(Some(&refused)));
        assert_eq!((first, other), (Ok(token("1")), Ok(token("2"))));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_not_repeated_for_ten_seconds() {
        for why in ["the vault is sealed", "panic"] {
            let fails: fn(usize) -> _ = match why {
                "panic" => |call| (call == 1).then_some("panic"),
                _ => |call| (call == 1).then_some("the vault is sealed"),
            };
            let (login, calls) = login(1, 300, fails);
            let error = login.credential(None).await.unwrap_err();
            assert!(error.to_string().contains("vault") || error.to_string().contains("panicked"));
            tokio::time::advance(Duration::from_secs(9)).await;
            assert_eq!(login.credential(None).await, Err(error));
            assert_eq!(calls.load(Ordering::SeqCst), 1);
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(login.credential(None).await, Ok(token("2")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_fails_fails_no_other_request() {
        let (login, calls) = login(0, 300, |call| (call == 1).then_some("no other one"));
        let refused = token("0");
        assert!(login.credential(Some(&refused)).await.is_err());
        assert!(login.credential(Some(&refused)).await.is_err());
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(login.credential(None).await, Ok(token("2")));
    }

    /// Keeps its token until it is refused, like an exec plugin. Some return the same one again.
    struct Plugin {
        runs: Arc<Mutex<Vec<Duration>>>,
        began: Instant,
        renews: bool,
        kept: Mutex<Option<Credential>>,
    }

    impl CredentialSource for Plugin {
        fn credential<'a>(&'a self, refused: Option<&'a Credential>) -> CredentialFuture<'a> {
            Box::pin(async move {
                let mut kept = self.kept.lock().unwrap();
                if kept.is_none() || kept.as_ref() == refused {
                    let mut runs = self.runs.lock().unwrap();
                    runs.push(self.began.elapsed());
                    let number = if self.renews { runs.len() } else { 0 };
                    *kept = Some(token(&number.to_string()));
                }
                Ok(kept.clone().unwrap())
            })
        }
    }

    /// Sends a request as the transport does, to a server that refuses some credentials.
    async fn send(login: &Login, refuses: impl Fn(&Credential) -> bool) -> bool {
        let first = login.credential(None).await.unwrap();
        if !refuses(&first) {
            return true;
        }
        let renewed = login.credential(Some(&first)).await.unwrap();
        if renewed == first {
            return false;
        }
        if refuses(&renewed) {
            login.note_refused(&renewed);
            return false;
        }
        true
    }

    #[tokio::test(start_paused = true)]
    async fn a_credential_that_stays_refused_is_renewed_ever_less_often() {
        for renews in [true, false] {
            let runs = Arc::<Mutex<Vec<_>>>::default();
            let source = Plugin {
                runs: Arc::clone(&runs),
                began: Instant::now(),
                renews,
                kept: Mutex::default(),
            };
            let login = Arc::new(Login::new(Arc::new(source), None));
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    let login = Arc::clone(&login);
                    tokio::spawn(async move {
                        for _ in 0..1_000 {
                            assert!(!send(&login, |_| true).await);
                            tokio::time::sleep(Duration::from_secs(1)).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let runs: Vec<_> = runs.lock().unwrap().iter().map(Duration::as_secs).collect();
            // The first one, its renewal, and the pauses.
            assert_eq!(runs, [0, 0, 10, 30, 70, 150, 310, 610, 910], "{renews}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_credential_that_was_accepted_is_renewed_at_once() {
        let runs = Arc::<Mutex<Vec<_>>>::default();
        let source = Plugin {
            runs: Arc::clone(&runs),
            began: Instant::now(),
            renews: true,
            kept: Mutex::default(),
        };
        let login = Login::new(Arc::new(source), None);
        // Each token is valid until the next one was printed, a minute later.
        for number in 1..10 {
            let expired = token(&number.to_string());
            assert!(send(&login, |token| *token == expired).await);
            assert_eq!(runs.lock().unwrap().len(), number + 1);
            tokio::time::advance(Duration::from_secs(60)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_refusal_of_a_replaced_credential_renews_nothing() {
        let (login, calls) = login(0, 300, |_| None);
        let old = login.credential(None).await.unwrap();
        assert_eq!(login.credential(Some(&old)).await, Ok(token("2")));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(login.credential(Some(&old)).await, Ok(token("2")));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_has_a_limit_of_its_own() {
        let (login, _) = login(400, 300, |_| None);
        let error = login.credential(None).await.unwrap_err().to_string();
        assert_eq!(error, "it took longer than 300s (login_timeout)");
    }

    #[tokio::test(start_paused = true)]
    async fn an_acquisition_ends_with_the_transport() {
        let held = Arc::new(());
        let moved = Arc::clone(&held);
        struct Holding(Arc<()>);
        impl CredentialSource for Holding {
            fn credential<'a>(&'a self, _refused: Option<&'a Credential>) -> CredentialFuture<'a> {
                let _held = Arc::clone(&self.0);
                Box::pin(core::future::pending())
            }
        }
        let login = Login::new(Arc::new(Holding(moved)), None);
        let second = Duration::from_secs(1);
        assert!(timeout(second, login.credential(None)).await.is_err());
        drop(login);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
