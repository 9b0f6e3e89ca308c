//! The driver: the one loop that joins a reflector to a transport, a clock and a cache.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use crate::object::ResourceVersion;
use crate::reflector::{Frame, Output, Purpose, Reflector, RequestId, Target};
use crate::report::{Phase, Problem, Report};
use crate::storage::Storage;
use crate::time::{Instant, earliest};
use crate::transport::{Body, End, FailureKind, Get, Timer, Transport, TransportFailure};
use crate::wire::{Format, FrameBuffer};

/// The receiver of a driver's output: it decodes frames, applies them to a cache and sends notifications.
pub trait Sink<X> {
    /// The number of frames and chunks after which the driver yields to other tasks although there is more to read. It
    /// also yields if more has arrived during [`Sink::flush`].
    ///
    /// A turn costs a wake and another poll of the task, so about a hundred suits an executor with threads. On a device
    /// a frame takes a millisecond, and a smaller value keeps the other tasks responsive.
    const TURN: u16 = 128;

    /// Receives a frame. The sink may collect frames until [`Sink::flush`].
    fn frame(&mut self, now: Instant, frame: Frame<'_, X>);

    /// Applies the collected frames; `version` is the version that the reflector has reached with them.
    ///
    /// The driver calls it before it waits, so that events that arrive together form one batch.
    fn flush(&mut self, now: Instant, version: &ResourceVersion<X>);

    /// Called at the end of a turn, and when the driver is blocked on [`Sink::poll_ready`].
    ///
    /// The default flushes. A sink with work on other threads may continue that work instead; it is flushed later in
    /// any case.
    fn pause(&mut self, now: Instant, version: &ResourceVersion<X>) {
        self.flush(now, version);
    }

    /// Receives a report.
    fn report(&mut self, now: Instant, report: Report<'_>);

    /// Receives the text of a transport failure, before the report that follows from it.
    fn failure(&mut self, now: Instant, error: &dyn core::fmt::Display) {
        let _ = (now, error);
    }

    /// Receives the activity of the driver, each time it may have changed. This is for display only.
    fn activity(&mut self, now: Instant, activity: Activity) {
        let _ = (now, activity);
    }

    /// Receives the number of bytes of a chunk and their format, before the frames in it. This is for display only.
    fn received(&mut self, format: Format, bytes: usize) {
        let _ = (format, bytes);
    }

    /// Waits until other tasks had a turn. `has_begun` is `false` in the first call of each turn, which is never ready.
    ///
    /// The default wakes the task immediately, which suits an executor that polls its tasks in turn.
    fn poll_turn(&mut self, cx: &mut Context<'_>, has_begun: bool) -> Poll<()> {
        if has_begun {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits until the sink can take more frames. Until then the driver reads nothing, and TCP flow control slows the
    /// server down.
    ///
    /// The driver may call this again in the same poll of its task, after [`Sink::pause`]. To give other tasks a turn,
    /// a sink sets [`Sink::TURN`] instead.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Waits for a command of the user.
    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Command>;

    /// Returns when [`Sink::handle_timeout`] must be called; `None` is never.
    fn deadline(&self) -> Option<Instant>;

    /// Does the work that is due, such as a resync.
    fn handle_timeout(&mut self, now: Instant);
}

/// A command to a running driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Stop the driver.
    Stop,
    /// Relist, after the delay between lists.
    Relist,
    /// Relist after the delay between lists, and continue the watch until then: see [`Reflector::refill`].
    Refill,
    /// Relist at the newest version: see [`Reflector::repair`].
    Repair,
    /// Check the deadline again.
    Wake,
}

/// The current activity of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Activity {
    /// Listing: the request was sent, or its answer is being read.
    Listing,
    /// Reading the initial state from a streaming list.
    Streaming,
    /// Opening a watch or a streaming list: there is no answer yet.
    Opening,
    /// Watching: the server accepted the watch.
    Watching,
    /// Waiting before the next attempt.
    Waiting {
        /// The end of the wait; `None` means that the wait has no end.
        until: Option<Instant>,
    },
}

/// The most warnings that are reported of one response, in case its transport never ends them.
const MOST_WARNINGS: usize = 100;

/// Runs a reflector until it is stopped: sends its requests, passes it the answers, and passes its frames to the sink.
///
/// The future is as cancel-safe as the transport: dropping it aborts all requests.
pub async fn drive<R, S, T, C, K>(
    reflector: &mut Reflector<R, S>,
    transport: &mut T,
    timer: &mut C,
    sink: &mut K,
) where
    R: Target,
    S: Storage,
    T: Transport,
    C: Timer,
    K: Sink<S::Text>,
{
    let mut body: Option<(RequestId, T::Body)> = None;
    // A request target is long, and there is one at a time: this buffer is reused for all of them.
    let mut target = Line::<S>(S::Line::default());
    let mut gathered = Gathered::default();
    loop {
        let mut step = advance(reflector, timer.now(), sink, Some(&mut target));
        if step.cancelled || step.send.is_some() {
            body = None;
        }
        if reflector.is_stopped() {
            gathered.flush(timer, sink, reflector);
            return;
        }
        if step.cancelled {
            continue;
        }
        if let Some(pending) = step.send.take() {
            let waiting = transport.ready();
            if !turn(reflector, timer, sink, &mut gathered, pending.id, waiting).await {
                continue;
            }
            sink.activity(timer.now(), pending.activity(None));
            let sending = pending.send(&target.0, transport);
            match exchange(reflector, timer, sink, &mut gathered, sending, &mut step).await {
                Some(Ok((head, mut new))) => {
                    let now = timer.now();
                    for _ in 0..MOST_WARNINGS {
                        let Some(text) = new.warning() else {
                            break;
                        };
                        sink.report(
                            now,
                            Report::about(pending.phase(), Problem::Warning { text }),
                        );
                    }
                    reflector.handle_head(now, pending.id, head);
                    sink.activity(now, pending.activity(Some(head)));
                    body = Some((pending.id, new));
                }
                Some(Err(error)) => {
                    let now = timer.now();
                    sink.failure(now, &error);
                    reflector.handle_end(
                        now,
                        pending.id,
                        End::Failed(TransportFailure::of(&error)),
                    );
                }
                None => {}
            }
        } else if let Some((id, reading)) = &mut body {
            let id = *id;
            let read = read(
                reflector,
                timer,
                sink,
                &mut gathered,
                id,
                reading,
                &mut step,
            )
            .await;
            match read {
                Some(true) => {}
                Some(false) | None => body = None,
            }
        } else {
            gathered.flush(timer, sink, reflector);
            sink.activity(timer.now(), Activity::Waiting { until: step.pause });
            match wake::<core::convert::Infallible, _, _, _>(
                timer,
                sink,
                core::future::pending(),
                step.deadline,
                &mut false,
            )
            .await
            {
                Wake::Command(command) => obey(reflector, timer.now(), command),
                Wake::Timer => {}
                Wake::Io(never) => match never {},
            }
        }
    }
}

/// A request that is ready to be sent.
struct Pending {
    id: RequestId,
    verb: Purpose,
    accept: &'static str,
}

impl Pending {
    async fn send<T: Transport>(
        &self,
        target: &impl FrameBuffer,
        transport: &mut T,
    ) -> Result<(crate::transport::Head, T::Body), T::Error> {
        // Only complete `&str`s are written to the buffer.
        let target = core::str::from_utf8(target.as_slice()).unwrap_or_default();
        let get = Get::new(target)
            .accept(self.accept)
            .watch(self.verb.is_watch());
        transport.send(get).await
    }

    const fn phase(&self) -> Phase {
        match self.verb {
            Purpose::List => Phase::List,
            Purpose::Watch => Phase::Watch,
            Purpose::Stream => Phase::Stream,
        }
    }

    /// Returns the activity after this request was sent, or after this answer to it.
    const fn activity(&self, head: Option<crate::transport::Head>) -> Activity {
        let agreed = match head {
            Some(head) => head.status / 100 == 2,
            None => false,
        };
        match self.verb {
            Purpose::List => Activity::Listing,
            Purpose::Stream if agreed => Activity::Streaming,
            Purpose::Watch if agreed => Activity::Watching,
            Purpose::Stream | Purpose::Watch => Activity::Opening,
        }
    }
}

/// The work since the last flush of the sink and since the last turn of other tasks.
#[derive(Default)]
struct Gathered {
    /// The sink has frames to apply.
    any: bool,
    /// Frames and chunks since the last turn of other tasks.
    read: u16,
}

impl Gathered {
    /// Counts a frame or a chunk, and lets other tasks run at the end of a turn.
    ///
    /// If the transport has all data in memory, the driver would otherwise never yield.
    async fn count<R: Target, S: Storage, K: Sink<S::Text>>(
        &mut self,
        timer: &mut impl Timer,
        sink: &mut K,
        reflector: &Reflector<R, S>,
    ) {
        self.read += 1;
        if self.read < K::TURN {
            return;
        }
        self.read = 0;
        sink.pause(timer.now(), reflector.version());
        let mut has_begun = false;
        poll_fn(|cx| sink.poll_turn(cx, core::mem::replace(&mut has_begun, true))).await;
    }

    fn flush<R: Target, S: Storage, K: Sink<S::Text>>(
        &mut self,
        timer: &mut impl Timer,
        sink: &mut K,
        reflector: &Reflector<R, S>,
    ) {
        if core::mem::take(&mut self.any) {
            sink.flush(timer.now(), reflector.version());
        }
    }

    /// Ends the turn with the next frame or chunk.
    const fn end_turn<X, K: Sink<X>>(&mut self) {
        self.read = K::TURN.saturating_sub(1);
    }
}

/// The next step that the reflector requests.
struct Requested {
    send: Option<Pending>,
    cancelled: bool,
    deadline: Option<Instant>,
    /// The deadline of the reflector, without that of the sink.
    pause: Option<Instant>,
}

/// Handles timeouts and the outputs of the reflector, until it waits or cancels the current request.
///
/// There is no `target` while a request that is being sent borrows the buffer.
fn advance<R: Target, S: Storage, K: Sink<S::Text>>(
    reflector: &mut Reflector<R, S>,
    now: Instant,
    sink: &mut K,
    mut target: Option<&mut Line<S>>,
) -> Requested {
    if sink.deadline().is_some_and(|deadline| now >= deadline) {
        sink.handle_timeout(now);
    }
    let mut step = Requested {
        send: None,
        cancelled: false,
        deadline: None,
        pause: None,
    };
    loop {
        match reflector.poll_output(now) {
            Output::Report(report) => sink.report(now, report),
            Output::Cancel(_) => {
                step.cancelled = true;
                return step;
            }
            Output::Send(request) => {
                let written = target.as_deref_mut().is_some_and(|target| {
                    target.0.clear();
                    request.write_target(target).is_ok()
                });
                if !written {
                    let id = request.id();
                    sink.report(now, Report::about(Phase::List, Problem::RequestTooLong));
                    reflector.handle_end(
                        now,
                        id,
                        End::Failed(TransportFailure::new(FailureKind::Request)),
                    );
                    continue;
                }
                step.send = Some(Pending {
                    id: request.id(),
                    verb: request.purpose(),
                    accept: request.accept(),
                });
            }
            Output::Wait(deadline) => {
                step.pause = deadline;
                step.deadline = earliest(deadline, sink.deadline());
                return step;
            }
        }
    }
}

fn obey<R: Target, S: Storage>(reflector: &mut Reflector<R, S>, now: Instant, command: Command) {
    match command {
        Command::Stop => reflector.stop(),
        Command::Relist => reflector.relist(now),
        Command::Refill => reflector.refill(now),
        Command::Repair => reflector.repair(now),
        Command::Wake => {}
    }
}

/// Waits until the transport can accept a request. Returns `false` if the request is obsolete by then.
///
/// The reflector's deadlines do not apply to this wait.
async fn turn<R, S, C, K>(
    reflector: &mut Reflector<R, S>,
    timer: &mut C,
    sink: &mut K,
    gathered: &mut Gathered,
    id: RequestId,
    waiting: impl Future<Output = ()>,
) -> bool
where
    R: Target,
    S: Storage,
    C: Timer,
    K: Sink<S::Text>,
{
    let mut waiting = pin!(waiting);
    if poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await {
        return true;
    }
    gathered.flush(timer, sink, reflector);
    loop {
        let deadline = sink.deadline();
        match wake(timer, sink, waiting.as_mut(), deadline, &mut false).await {
            Wake::Io(()) => {
                reflector.excuse_wait(timer.now(), id);
                return true;
            }
            Wake::Command(command @ (Command::Wake | Command::Refill)) => {
                obey(reflector, timer.now(), command);
            }
            Wake::Command(command @ (Command::Stop | Command::Relist | Command::Repair)) => {
                obey(reflector, timer.now(), command);
                return false;
            }
            Wake::Timer => {}
        }
        let now = timer.now();
        if sink.deadline().is_some_and(|deadline| now >= deadline) {
            sink.handle_timeout(now);
        }
    }
}

/// Waits for the answer to a request. Returns `None` if the request was cancelled.
async fn exchange<R, S, C, K, O>(
    reflector: &mut Reflector<R, S>,
    timer: &mut C,
    sink: &mut K,
    gathered: &mut Gathered,
    sending: impl Future<Output = O>,
    step: &mut Requested,
) -> Option<O>
where
    R: Target,
    S: Storage,
    C: Timer,
    K: Sink<S::Text>,
{
    let mut sending = pin!(sending);
    loop {
        // Data that is already available is read before frames are applied, so that the batch grows.
        let ready = poll_fn(|cx| Poll::Ready(poll_two(cx, sink, sending.as_mut()))).await;
        if let Some(Wake::Io(answer)) = ready {
            return Some(answer);
        }
        gathered.flush(timer, sink, reflector);
        if let Some(Wake::Command(command)) = ready {
            obey(reflector, timer.now(), command);
            *step = advance(reflector, timer.now(), sink, None);
            if step.cancelled || reflector.is_stopped() {
                return None;
            }
            continue;
        }
        let mut has_waited = false;
        match wake(
            timer,
            sink,
            sending.as_mut(),
            step.deadline,
            &mut has_waited,
        )
        .await
        {
            Wake::Io(answer) => {
                // It arrived while frames were applied. If the server is fast, the handlers are notified first.
                if !has_waited {
                    gathered.end_turn::<S::Text, K>();
                }
                return Some(answer);
            }
            Wake::Command(command) => obey(reflector, timer.now(), command),
            Wake::Timer => {}
        }
        *step = advance(reflector, timer.now(), sink, None);
        if step.cancelled || reflector.is_stopped() {
            return None;
        }
    }
}

/// Reads one chunk of a body and passes on its frames. Returns `Some(false)` at the end of the body, and `None` if the
/// request was cancelled.
async fn read<R, S, C, K, B>(
    reflector: &mut Reflector<R, S>,
    timer: &mut C,
    sink: &mut K,
    gathered: &mut Gathered,
    id: RequestId,
    body: &mut B,
    step: &mut Requested,
) -> Option<bool>
where
    R: Target,
    S: Storage,
    C: Timer,
    K: Sink<S::Text>,
    B: Body,
{
    let mut chunk = match exchange(reflector, timer, sink, gathered, body.chunk(), step).await? {
        Ok(Some(chunk)) => chunk,
        Ok(None) => {
            gathered.flush(timer, sink, reflector);
            reflector.handle_end(timer.now(), id, End::Clean);
            return Some(false);
        }
        Err(error) => {
            gathered.flush(timer, sink, reflector);
            let now = timer.now();
            sink.failure(now, &error);
            reflector.handle_end(now, id, End::Failed(TransportFailure::of(&error)));
            return Some(false);
        }
    };
    let mut now = timer.now();
    sink.received(reflector.format_of(chunk), chunk.len());
    gathered.any = true;
    gathered.count(timer, sink, reflector).await;
    loop {
        let held_back = {
            let Some(frame) = reflector.next_frame(now, id, &mut chunk) else {
                break;
            };
            match frame {
                Frame::Report(report) => sink.report(now, report),
                Frame::Begin
                | Frame::Object(_)
                | Frame::Bookmark { .. }
                | Frame::Complete { .. }
                | Frame::Internal => {
                    sink.frame(now, frame);
                }
            }
            poll_fn(|cx| Poll::Ready(sink.poll_ready(cx).is_pending())).await
        };
        gathered.count(timer, sink, reflector).await;
        if held_back {
            wait_for_room(reflector, timer, sink).await;
            now = timer.now();
            reflector.excuse_silence(now);
            if reflector.is_stopped() {
                return None;
            }
        }
    }
    Some(true)
}

async fn wait_for_room<R, S, C, K>(reflector: &mut Reflector<R, S>, timer: &mut C, sink: &mut K)
where
    R: Target,
    S: Storage,
    C: Timer,
    K: Sink<S::Text>,
{
    sink.pause(timer.now(), reflector.version());
    loop {
        let waited = poll_fn(|cx| match sink.poll_ready(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => sink.poll_command(cx).map(Some),
        });
        match waited.await {
            None => return,
            Some(Command::Stop) => return reflector.stop(),
            Some(command) => obey(reflector, timer.now(), command),
        }
    }
}

/// The event that woke the driver.
enum Wake<O> {
    Io(O),
    Timer,
    Command(Command),
}

/// Waits for the first of command, I/O and deadline. The timer is set only if neither of the others is ready, and
/// `has_waited` too.
async fn wake<O, C, X, K>(
    timer: &mut C,
    sink: &mut K,
    io: impl Future<Output = O>,
    deadline: Option<Instant>,
    has_waited: &mut bool,
) -> Wake<O>
where
    C: Timer,
    K: Sink<X>,
{
    let mut io = pin!(io);
    if let Some(ready) = poll_fn(|cx| Poll::Ready(poll_two(cx, sink, io.as_mut()))).await {
        return ready;
    }
    *has_waited = true;
    let Some(deadline) = deadline else {
        return poll_fn(|cx| poll_two(cx, sink, io.as_mut()).map_or(Poll::Pending, Poll::Ready))
            .await;
    };
    // The caller compares the clock: a sleep may end early or late.
    let mut sleep = pin!(timer.sleep_until(deadline));
    poll_fn(|cx| match poll_two(cx, sink, io.as_mut()) {
        Some(ready) => Poll::Ready(ready),
        None => sleep.as_mut().poll(cx).map(|()| Wake::Timer),
    })
    .await
}

fn poll_two<O, X>(
    cx: &mut Context<'_>,
    sink: &mut impl Sink<X>,
    io: Pin<&mut impl Future<Output = O>>,
) -> Option<Wake<O>> {
    if let Poll::Ready(command) = sink.poll_command(cx) {
        return Some(Wake::Command(command));
    }
    match io.poll(cx) {
        Poll::Ready(output) => Some(Wake::Io(output)),
        Poll::Pending => None,
    }
}

/// A buffer of fixed or growing size that text can be written to.
struct Line<S: Storage>(S::Line);

impl<S: Storage> core::fmt::Write for Line<S> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0
            .extend(text.as_bytes())
            .map_err(|()| core::fmt::Error)
    }
}
