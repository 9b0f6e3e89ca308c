//! The driver: the one loop that joins a reflector to a transport, a clock and a cache.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use crate::object::ResourceVersion;
use crate::reflector::{Frame, Output, Reflector, RequestId, Target, Verb};
use crate::report::{Phase, Problem, Report};
use crate::storage::Storage;
use crate::time::{Instant, earliest};
use crate::transport::{Body, End, Failure, FailureKind, Get, Timer, Transport};
use crate::wire::FrameBuffer;

/// Takes what a driver finds: decodes it, applies it to a cache, and tells of it.
pub trait Sink<X> {
    /// After how many frames and chunks the driver lets other tasks run although there is more to read. A turn costs a
    /// wake and one more poll of the task, so that an executor with threads is served best by a hundred or so. On a
    /// device, where a frame takes a millisecond, fewer keep the others responsive.
    const TURN: u16 = 128;

    /// Takes a frame. It may be gathered until [`Sink::flush`].
    fn frame(&mut self, now: Instant, frame: Frame<'_, X>);

    /// Applies what was gathered; `version` is what the reflector has reached with it. It is called before the driver
    /// waits, so that many events that came at once are one batch.
    fn flush(&mut self, now: Instant, version: &ResourceVersion<X>);

    /// Called at the end of a turn, and when the driver is blocked on [`Sink::poll_ready`]. The default flushes; a sink
    /// with work under way on other threads may go on with that instead, and is flushed later in any case.
    fn pause(&mut self, now: Instant, version: &ResourceVersion<X>) {
        self.flush(now, version);
    }

    /// Takes a report.
    fn report(&mut self, now: Instant, report: Report<'_>);

    /// Hears what a transport says of its failure, before the report that follows from it.
    fn failure(&mut self, now: Instant, error: &dyn core::fmt::Display) {
        let _ = (now, error);
    }

    /// Hears what the driver is about, each time that may have changed. It is for showing, and asks for nothing.
    fn activity(&mut self, now: Instant, activity: Activity) {
        let _ = (now, activity);
    }

    /// Has the task of the driver polled again once other tasks have had their turn; the driver is pending until then. The
    /// default wakes the task at once, which is right for an executor that polls its tasks in a circle.
    fn end_turn(&mut self, cx: &mut Context<'_>) {
        cx.waker().wake_by_ref();
    }

    /// Waits for room for more frames. While there is none, nothing is read, and the server is held back.
    ///
    /// The driver may call this again in the same poll of its task, after [`Sink::pause`]. A sink that wants to give other
    /// tasks a turn sets [`Sink::TURN`] instead.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Waits for something the user wants.
    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Command>;

    /// When [`Sink::handle_timeout`] has something to do; `None` is never.
    fn deadline(&self) -> Option<Instant>;

    /// Does what is due, such as a resync.
    fn handle_timeout(&mut self, now: Instant);
}

/// What a user may want of a running driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// End.
    Stop,
    /// List again, after the delay for runs.
    Relist,
    /// List again, after the delay for runs, and watch on until then: see [`Reflector::refill`].
    Refill,
    /// List again, at the newest version: see [`Reflector::repair`].
    Repair,
    /// Look at the deadline again.
    Wake,
}

/// What a driver is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Activity {
    /// It lists: the request is on its way, or its answer is being read.
    Listing,
    /// It takes the initial state from a streaming list.
    Streaming,
    /// It has asked for a watch, or for a streaming list, and has no answer yet.
    Opening,
    /// It watches: the server has agreed, and what changes comes.
    Watching,
    /// It waits before the next attempt.
    Waiting {
        /// Until when; `None` is for ever.
        until: Option<Instant>,
    },
}

/// Runs a reflector until it is stopped: sends what it asks for, hands what comes to it, and its frames to the sink.
///
/// The future is as cancel-safe as the transport: dropping it ends everything that is under way.
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
    // The request is long, and there is one at a time: it is written where it stays.
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
                Some(Ok((head, new))) => {
                    let now = timer.now();
                    reflector.handle_head(now, pending.id, head);
                    sink.activity(now, pending.activity(Some(head)));
                    body = Some((pending.id, new));
                }
                Some(Err(error)) => {
                    let now = timer.now();
                    sink.failure(now, &error);
                    reflector.handle_end(now, pending.id, End::Failed(Failure::of(&error)));
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
            // A pause.
            gathered.flush(timer, sink, reflector);
            sink.activity(timer.now(), Activity::Waiting { until: step.pause });
            match wake::<core::convert::Infallible, _, _, _>(
                timer,
                sink,
                core::future::pending(),
                step.deadline,
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

/// A request that is to be sent.
struct Pending {
    id: RequestId,
    verb: Verb,
    accept: &'static str,
}

impl Pending {
    async fn send<T: Transport>(
        &self,
        target: &impl FrameBuffer,
        transport: &mut T,
    ) -> Result<(crate::transport::Head, T::Body), T::Error> {
        // Only whole `&str`s are written into it.
        let target = core::str::from_utf8(target.as_slice()).unwrap_or_default();
        let get = Get::new(target)
            .accept(self.accept)
            .watch(self.verb.is_watch());
        transport.send(get).await
    }

    /// What it means that this request is sent, or that this is its answer.
    const fn activity(&self, head: Option<crate::transport::Head>) -> Activity {
        let agreed = match head {
            Some(head) => head.status / 100 == 2,
            None => false,
        };
        match self.verb {
            Verb::List => Activity::Listing,
            Verb::Stream if agreed => Activity::Streaming,
            Verb::Watch if agreed => Activity::Watching,
            Verb::Stream | Verb::Watch => Activity::Opening,
        }
    }
}

/// What was read since the sink was flushed, and since other tasks had a turn.
#[derive(Default)]
struct Gathered {
    /// The sink has frames to apply.
    any: bool,
    /// Frames and chunks since other tasks had a turn.
    read: u16,
}

impl Gathered {
    /// Counts a frame or a chunk, and lets other tasks run if it was the last of a turn.
    ///
    /// The transport may have everything at hand already, and then nothing else in the driver ever waits.
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
        let mut has_yielded = false;
        poll_fn(|cx| {
            if core::mem::replace(&mut has_yielded, true) {
                return Poll::Ready(());
            }
            sink.end_turn(cx);
            Poll::Pending
        })
        .await;
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
}

/// What the reflector wants after something happened.
struct Step {
    send: Option<Pending>,
    cancelled: bool,
    deadline: Option<Instant>,
    /// The deadline of the reflector alone.
    pause: Option<Instant>,
}

/// Lets time pass and takes what the reflector has to say, up to its wait, or to the end of what is under way. While that
/// borrows the text of a request there is no `target` for another one.
fn advance<R: Target, S: Storage, K: Sink<S::Text>>(
    reflector: &mut Reflector<R, S>,
    now: Instant,
    sink: &mut K,
    mut target: Option<&mut Line<S>>,
) -> Step {
    if sink.deadline().is_some_and(|deadline| now >= deadline) {
        sink.handle_timeout(now);
    }
    let mut step = Step {
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
                    reflector.handle_end(now, id, End::Failed(Failure::new(FailureKind::Other)));
                    continue;
                }
                step.send = Some(Pending {
                    id: request.id(),
                    verb: request.verb(),
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

/// Waits until the transport can take a request; `false` where there is none to be sent any more. No deadline of the
/// reflector counts meanwhile.
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
        match wake(timer, sink, waiting.as_mut(), deadline).await {
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

/// Waits for a request's answer. `None` where it was abandoned.
async fn exchange<R, S, C, K, O>(
    reflector: &mut Reflector<R, S>,
    timer: &mut C,
    sink: &mut K,
    gathered: &mut Gathered,
    sending: impl Future<Output = O>,
    step: &mut Step,
) -> Option<O>
where
    R: Target,
    S: Storage,
    C: Timer,
    K: Sink<S::Text>,
{
    let mut sending = pin!(sending);
    loop {
        // What is there already is taken before anything is applied.
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
        match wake(timer, sink, sending.as_mut(), step.deadline).await {
            Wake::Io(answer) => return Some(answer),
            Wake::Command(command) => obey(reflector, timer.now(), command),
            Wake::Timer => {}
        }
        *step = advance(reflector, timer.now(), sink, None);
        if step.cancelled || reflector.is_stopped() {
            return None;
        }
    }
}

/// Reads one chunk of a body and hands on what is in it. `Some(false)` at the body's end, `None` where it was
/// abandoned.
async fn read<R, S, C, K, B>(
    reflector: &mut Reflector<R, S>,
    timer: &mut C,
    sink: &mut K,
    gathered: &mut Gathered,
    id: RequestId,
    body: &mut B,
    step: &mut Step,
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
            reflector.handle_end(now, id, End::Failed(Failure::of(&error)));
            return Some(false);
        }
    };
    let mut now = timer.now();
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

/// What woke the driver.
enum Wake<O> {
    Io(O),
    Timer,
    Command(Command),
}

/// Waits for the first of three. The timer is set only where there is something to wait for.
async fn wake<O, C, X, K>(
    timer: &mut C,
    sink: &mut K,
    io: impl Future<Output = O>,
    deadline: Option<Instant>,
) -> Wake<O>
where
    C: Timer,
    K: Sink<X>,
{
    let mut io = pin!(io);
    if let Some(ready) = poll_fn(|cx| Poll::Ready(poll_two(cx, sink, io.as_mut()))).await {
        return ready;
    }
    let Some(deadline) = deadline else {
        return poll_fn(|cx| poll_two(cx, sink, io.as_mut()).map_or(Poll::Pending, Poll::Ready))
            .await;
    };
    // The clock is compared by the caller: a sleep may end early or late.
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

/// Writes text into a buffer of a fixed or growing size.
struct Line<S: Storage>(S::Line);

impl<S: Storage> core::fmt::Write for Line<S> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0
            .extend(text.as_bytes())
            .map_err(|()| core::fmt::Error)
    }
}
