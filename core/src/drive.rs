//! The driver: the one loop that joins a reflector to a transport, a clock and a cache.

mod sink;

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

pub use self::sink::{Activity, Command, Sink};
use crate::reflector::{Frame, Output, Purpose, Reflector, RequestId, Target};
use crate::report::{Phase, Problem, Report, RequestProblem};
use crate::storage::Storage;
use crate::time::{Instant, earliest};
use crate::transport::{Body, End, FailureKind, Get, Head, Timer, Transport, TransportFailure};
use crate::wire::{Appender, FrameBuffer};

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
    let driver = Driver {
        reflector,
        timer,
        sink,
        has_frames: false,
        read: 0,
        deadline: None,
    };
    driver.run(transport).await;
}

/// A reflector that is being driven.
struct Driver<'a, R, S: Storage, C, K> {
    reflector: &'a mut Reflector<R, S>,
    timer: &'a mut C,
    sink: &'a mut K,
    /// Whether the sink has frames that it has not applied.
    has_frames: bool,
    /// The number of frames and chunks since other tasks had a turn.
    read: u16,
    /// When the reflector or the sink has something to do.
    deadline: Option<Instant>,
}

/// What the reflector requests.
enum Next {
    /// To send a request.
    Send(Request),
    /// To abandon the current request.
    Cancel,
    /// To wait for the current request, or until this time.
    Wait(Option<Instant>),
}

/// A request that is ready to be sent.
struct Request {
    id: RequestId,
    purpose: Purpose,
    accept: &'static str,
}

/// The event that woke the driver.
enum Wake<O> {
    Io(O),
    Timer,
    Command(Command),
}

impl<R, S, C, K> Driver<'_, R, S, C, K>
where
    R: Target,
    S: Storage,
    C: Timer,
    K: Sink<S::Text>,
{
    async fn run<T: Transport>(mut self, transport: &mut T) {
        let mut body: Option<(RequestId, T::Body)> = None;
        // A request target is long, and there is one at a time: this buffer is reused for all of them.
        let mut target = S::Line::default();
        loop {
            let next = self.advance(Some(&mut target));
            if !matches!(next, Next::Wait(_)) {
                body = None;
            }
            if self.reflector.is_stopped() {
                self.flush();
                return;
            }
            match (next, &mut body) {
                (Next::Send(request), _) => {
                    body = self.open(&request, &target, transport).await;
                }
                (Next::Cancel, _) => {}
                (Next::Wait(_), Some((id, reading))) => {
                    if !self.read(*id, reading).await {
                        body = None;
                    }
                }
                (Next::Wait(until), None) => self.rest(until).await,
            }
        }
    }

    /// Handles timeouts and the outputs of the reflector, until it waits or cancels the current request.
    ///
    /// There is no `target` while a request that is being sent borrows the buffer.
    fn advance(&mut self, mut target: Option<&mut S::Line>) -> Next {
        let now = self.timer.now();
        self.handle_timeout(now);
        let mut send = None;
        loop {
            match self.reflector.poll_output(now) {
                Output::Report(report) => self.sink.report(now, report),
                Output::Cancel(_) => return Next::Cancel,
                Output::Send(request) => {
                    let written = target.as_deref_mut().is_some_and(|target| {
                        target.clear();
                        request.write_target(&mut Appender(target)).is_ok()
                    });
                    if written {
                        send = Some(Request {
                            id: request.id(),
                            purpose: request.purpose(),
                            accept: request.accept(),
                        });
                    } else {
                        let id = request.id();
                        let report =
                            Report::about(Phase::List, RequestProblem::RequestTooLong.into());
                        self.sink.report(now, report);
                        let failure = TransportFailure::new(FailureKind::Request);
                        self.reflector.handle_end(now, id, End::Failed(failure));
                    }
                }
                Output::Wait(deadline) => {
                    self.deadline = earliest(deadline, self.sink.deadline());
                    return send.map_or(Next::Wait(deadline), Next::Send);
                }
            }
        }
    }

    /// Has the sink do what is due.
    fn handle_timeout(&mut self, now: Instant) {
        if self.sink.deadline().is_some_and(|deadline| now >= deadline) {
            self.sink.handle_timeout(now);
        }
    }

    fn handle_command(&mut self, command: Command) {
        let now = self.timer.now();
        match command {
            Command::Stop => self.reflector.stop(),
            Command::Relist => self.reflector.relist(now),
            Command::Refill => self.reflector.refill(now),
            Command::Repair => self.reflector.repair(now),
            Command::Wake => {}
        }
    }

    /// Sends a request. Returns the body of the response, or `None` if there is none or the request was cancelled.
    async fn open<T: Transport>(
        &mut self,
        request: &Request,
        target: &S::Line,
        transport: &mut T,
    ) -> Option<(RequestId, T::Body)> {
        if !self.wait_until_ready(request.id, transport.ready()).await {
            return None;
        }
        self.sink.activity(self.timer.now(), request.activity(None));
        let answer = self.exchange(request.send(target, transport)).await?;
        let now = self.timer.now();
        match answer {
            Ok((head, mut body)) => {
                for _ in 0..MOST_WARNINGS {
                    let Some(text) = body.warning() else {
                        break;
                    };
                    let report = Report::about(request.phase(), Problem::Warning { text });
                    self.sink.report(now, report);
                }
                self.reflector.handle_head(now, request.id, head);
                self.sink.activity(now, request.activity(Some(head)));
                Some((request.id, body))
            }
            Err(error) => {
                self.sink.failure(now, &error);
                let failure = TransportFailure::of(&error);
                self.reflector
                    .handle_end(now, request.id, End::Failed(failure));
                None
            }
        }
    }

    /// Waits until the transport can accept a request. Returns `false` if the request is obsolete by then.
    ///
    /// The reflector's deadlines do not apply to this wait.
    async fn wait_until_ready(&mut self, id: RequestId, ready: impl Future<Output = ()>) -> bool {
        let mut ready = pin!(ready);
        if poll_fn(|cx| Poll::Ready(ready.as_mut().poll(cx).is_ready())).await {
            return true;
        }
        self.flush();
        loop {
            let deadline = self.sink.deadline();
            match self.wake(ready.as_mut(), deadline, &mut false).await {
                Wake::Io(()) => {
                    self.reflector.excuse_wait(self.timer.now(), id);
                    return true;
                }
                Wake::Command(command @ (Command::Wake | Command::Refill)) => {
                    self.handle_command(command);
                }
                Wake::Command(command @ (Command::Stop | Command::Relist | Command::Repair)) => {
                    self.handle_command(command);
                    return false;
                }
                Wake::Timer => {}
            }
            self.handle_timeout(self.timer.now());
        }
    }

    /// Reads one chunk of a body and passes on its frames. Returns `false` if the body has ended or the request was
    /// cancelled.
    async fn read<B: Body>(&mut self, id: RequestId, body: &mut B) -> bool {
        let Some(answer) = self.exchange(body.chunk()).await else {
            return false;
        };
        let mut chunk = match answer {
            Ok(Some(chunk)) => chunk,
            Ok(None) => {
                self.flush();
                self.reflector.handle_end(self.timer.now(), id, End::Clean);
                return false;
            }
            Err(error) => {
                self.flush();
                let now = self.timer.now();
                self.sink.failure(now, &error);
                let failure = TransportFailure::of(&error);
                self.reflector.handle_end(now, id, End::Failed(failure));
                return false;
            }
        };
        let mut now = self.timer.now();
        self.sink
            .received(self.reflector.format_of(chunk), chunk.len());
        self.has_frames = true;
        self.count().await;
        loop {
            let Some(frame) = self.reflector.next_frame(now, id, &mut chunk) else {
                return true;
            };
            match frame {
                Frame::Report(report) => self.sink.report(now, report),
                Frame::Begin
                | Frame::Object(_)
                | Frame::Bookmark { .. }
                | Frame::Complete { .. }
                | Frame::Internal => self.sink.frame(now, frame),
            }
            let is_full = poll_fn(|cx| Poll::Ready(self.sink.poll_ready(cx).is_pending())).await;
            self.count().await;
            if is_full {
                self.wait_for_room().await;
                now = self.timer.now();
                self.reflector.excuse_silence(now);
                if self.reflector.is_stopped() {
                    return false;
                }
            }
        }
    }

    /// Waits for the transport. Returns `None` if the request was cancelled.
    async fn exchange<O>(&mut self, io: impl Future<Output = O>) -> Option<O> {
        let mut io = pin!(io);
        loop {
            // Data that is already available is read before frames are applied, so that the batch grows.
            let ready = poll_fn(|cx| Poll::Ready(poll_two(cx, self.sink, io.as_mut()))).await;
            if let Some(Wake::Io(answer)) = ready {
                return Some(answer);
            }
            self.flush();
            let mut has_waited = false;
            let event = match ready {
                Some(event) => event,
                None => {
                    let deadline = self.deadline;
                    self.wake(io.as_mut(), deadline, &mut has_waited).await
                }
            };
            match event {
                Wake::Io(answer) => {
                    // It arrived while frames were applied. If the server is fast, the handlers are notified first.
                    if !has_waited {
                        self.read = K::TURN.saturating_sub(1);
                    }
                    return Some(answer);
                }
                Wake::Command(command) => self.handle_command(command),
                Wake::Timer => {}
            }
            if matches!(self.advance(None), Next::Cancel) || self.reflector.is_stopped() {
                return None;
            }
        }
    }

    /// Waits between two requests.
    async fn rest(&mut self, until: Option<Instant>) {
        self.flush();
        self.sink
            .activity(self.timer.now(), Activity::Waiting { until });
        let never = pin!(core::future::pending::<core::convert::Infallible>());
        let deadline = self.deadline;
        match self.wake(never, deadline, &mut false).await {
            Wake::Command(command) => self.handle_command(command),
            Wake::Timer => {}
            Wake::Io(never) => match never {},
        }
    }

    async fn wait_for_room(&mut self) {
        self.sink.pause(self.timer.now(), self.reflector.version());
        loop {
            let waited = poll_fn(|cx| match self.sink.poll_ready(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => self.sink.poll_command(cx).map(Some),
            });
            match waited.await {
                None => return,
                Some(Command::Stop) => return self.reflector.stop(),
                Some(command) => self.handle_command(command),
            }
        }
    }

    /// Counts a frame or a chunk, and lets other tasks run at the end of a turn.
    ///
    /// If the transport has all data in memory, the driver would otherwise never yield.
    async fn count(&mut self) {
        self.read += 1;
        if self.read < K::TURN {
            return;
        }
        self.read = 0;
        self.sink.pause(self.timer.now(), self.reflector.version());
        let mut has_begun = false;
        poll_fn(|cx| {
            self.sink
                .poll_turn(cx, core::mem::replace(&mut has_begun, true))
        })
        .await;
    }

    /// Has the sink apply its frames.
    fn flush(&mut self) {
        if core::mem::take(&mut self.has_frames) {
            self.sink.flush(self.timer.now(), self.reflector.version());
        }
    }

    /// Waits for the first of command, I/O and deadline. The timer is set only if neither of the others is ready, and
    /// `has_waited` too.
    async fn wake<O>(
        &mut self,
        mut io: Pin<&mut impl Future<Output = O>>,
        deadline: Option<Instant>,
        has_waited: &mut bool,
    ) -> Wake<O> {
        let sink = &mut *self.sink;
        if let Some(ready) = poll_fn(|cx| Poll::Ready(poll_two(cx, sink, io.as_mut()))).await {
            return ready;
        }
        *has_waited = true;
        let Some(deadline) = deadline else {
            return poll_fn(|cx| {
                poll_two(cx, sink, io.as_mut()).map_or(Poll::Pending, Poll::Ready)
            })
            .await;
        };
        // The caller compares the clock: a sleep may end early or late.
        let mut sleep = pin!(self.timer.sleep_until(deadline));
        poll_fn(|cx| match poll_two(cx, sink, io.as_mut()) {
            Some(ready) => Poll::Ready(ready),
            None => sleep.as_mut().poll(cx).map(|()| Wake::Timer),
        })
        .await
    }
}

impl Request {
    async fn send<T: Transport>(
        &self,
        target: &impl FrameBuffer,
        transport: &mut T,
    ) -> Result<(Head, T::Body), T::Error> {
        // Only complete `&str`s are written to the buffer.
        let target = core::str::from_utf8(target.as_slice()).unwrap_or_default();
        let get = Get::new(target)
            .accept(self.accept)
            .watch(self.purpose.is_watch());
        transport.send(get).await
    }

    const fn phase(&self) -> Phase {
        match self.purpose {
            Purpose::List => Phase::List,
            Purpose::Watch => Phase::Watch,
            Purpose::Stream => Phase::Stream,
        }
    }

    /// Returns the activity after this request was sent, or after this answer to it.
    const fn activity(&self, head: Option<Head>) -> Activity {
        let agreed = match head {
            Some(head) => head.status / 100 == 2,
            None => false,
        };
        match self.purpose {
            Purpose::List => Activity::Listing,
            Purpose::Stream if agreed => Activity::Streaming,
            Purpose::Watch if agreed => Activity::Watching,
            Purpose::Stream | Purpose::Watch => Activity::Opening,
        }
    }
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
