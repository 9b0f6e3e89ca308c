//! A fair lock for a fixed number of members.

use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::task::{Poll, Waker};

use heapless::Deque;

/// A lock for at most `M` members. They get it in the order in which they asked for it.
#[derive(Debug)]
pub(crate) struct Turns<const M: usize>(RefCell<State<M>>);

#[derive(Debug)]
struct State<const M: usize> {
    is_member: [bool; M],
    is_taken: bool,
    queue: Deque<usize, M>,
    wakers: [Option<Waker>; M],
}

impl<const M: usize> Turns<M> {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(State {
            is_member: [false; M],
            is_taken: false,
            queue: Deque::new(),
            wakers: [const { None }; M],
        }))
    }

    /// Adds a member; `None` if there are `M` already.
    pub(crate) fn join(&self) -> Option<Member<'_, M>> {
        let mut state = self.0.borrow_mut();
        let number = state.is_member.iter().position(|is_member| !is_member)?;
        *state.is_member.get_mut(number)? = true;
        Some(Member {
            turns: self,
            number,
        })
    }
}

/// A member, which may wait for its turn.
#[derive(Debug)]
pub(crate) struct Member<'a, const M: usize> {
    turns: &'a Turns<M>,
    number: usize,
}

impl<'a, const M: usize> Member<'a, M> {
    /// Waits for the turn. Dropping the future leaves the queue.
    pub(crate) fn wait(&self) -> impl Future<Output = Turn<'a, M>> + use<'a, M> {
        let place = Place {
            turns: self.turns,
            number: self.number,
        };
        poll_fn(move |cx| {
            // Captures `place` as a whole. Capturing its fields would copy them, and drop `place` at once.
            let place = &place;
            let mut state = place.turns.0.borrow_mut();
            if !state.queue.iter().any(|number| *number == place.number) {
                // Each member is in the queue at most once, so there is room.
                let _ = state.queue.push_back(place.number);
            }
            if !state.is_taken && state.queue.front() == Some(&place.number) {
                let _ = state.queue.pop_front();
                state.is_taken = true;
                return Poll::Ready(Turn(place.turns));
            }
            if let Some(waker) = state.wakers.get_mut(place.number) {
                *waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}

impl<const M: usize> Drop for Member<'_, M> {
    fn drop(&mut self) {
        if let Some(is_member) = self.turns.0.borrow_mut().is_member.get_mut(self.number) {
            *is_member = false;
        }
    }
}

/// A place in the queue. Dropping it leaves the queue.
struct Place<'a, const M: usize> {
    turns: &'a Turns<M>,
    number: usize,
}

impl<const M: usize> Drop for Place<'_, M> {
    fn drop(&mut self) {
        let mut state = self.turns.0.borrow_mut();
        let was_first = state.queue.front() == Some(&self.number);
        state.queue.retain(|number| *number != self.number);
        let next = if was_first { state.take_first() } else { None };
        drop(state);
        next.into_iter().for_each(Waker::wake);
    }
}

/// The turn. Dropping it ends the turn.
#[derive(Debug)]
pub(crate) struct Turn<'a, const M: usize>(&'a Turns<M>);

impl<const M: usize> Drop for Turn<'_, M> {
    fn drop(&mut self) {
        let mut state = self.0.0.borrow_mut();
        state.is_taken = false;
        let next = state.take_first();
        drop(state);
        next.into_iter().for_each(Waker::wake);
    }
}

impl<const M: usize> State<M> {
    /// Takes the waker of the first member in the queue, if it is its turn. It is woken after the state is no longer
    /// borrowed, since an executor may poll in `wake`.
    fn take_first(&mut self) -> Option<Waker> {
        let number = self.queue.front().filter(|_| !self.is_taken)?;
        self.wakers.get_mut(*number)?.take()
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use core::task::Context;
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn turns_go_round_in_the_order_of_asking() {
        let turns = Turns::<3>::new();
        let [a, b, c] = [
            turns.join().unwrap(),
            turns.join().unwrap(),
            turns.join().unwrap(),
        ];
        assert!(turns.join().is_none(), "there is no room for a fourth");
        let (count_b, count_c) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let (waker_b, waker_c) = (Waker::from(count_b.clone()), Waker::from(count_c.clone()));
        let mut noop = Context::from_waker(Waker::noop());
        let (mut cx_b, mut cx_c) = (Context::from_waker(&waker_b), Context::from_waker(&waker_c));

        let Poll::Ready(turn) = pin!(a.wait()).poll(&mut noop) else {
            panic!("nobody has it")
        };
        let (mut wait_b, mut wait_c) = (pin!(b.wait()), pin!(c.wait()));
        assert!(wait_b.as_mut().poll(&mut cx_b).is_pending());
        assert!(wait_c.as_mut().poll(&mut cx_c).is_pending());
        // The member that had the turn last is behind those that wait.
        drop(turn);
        let mut again = pin!(a.wait());
        assert!(again.as_mut().poll(&mut noop).is_pending());
        assert!(wait_c.as_mut().poll(&mut cx_c).is_pending());
        assert_eq!(count_b.0.load(Ordering::Relaxed), 1);
        let Poll::Ready(turn) = wait_b.as_mut().poll(&mut cx_b) else {
            panic!("it was woken")
        };
        assert_eq!(count_c.0.load(Ordering::Relaxed), 0);
        drop(turn);
        assert_eq!(count_c.0.load(Ordering::Relaxed), 1);
        let Poll::Ready(turn) = wait_c.as_mut().poll(&mut cx_c) else {
            panic!("it was woken")
        };
        drop(turn);
        assert!(again.as_mut().poll(&mut noop).is_ready());
        drop(a);
        assert!(turns.join().is_some(), "who leaves makes room");
    }

    #[test]
    fn a_dropped_wait_passes_its_turn_on() {
        let turns = Turns::<3>::new();
        let [a, b, c] = [
            turns.join().unwrap(),
            turns.join().unwrap(),
            turns.join().unwrap(),
        ];
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let (mut noop, mut cx) = (
            Context::from_waker(Waker::noop()),
            Context::from_waker(&waker),
        );
        let Poll::Ready(turn) = pin!(a.wait()).poll(&mut noop) else {
            panic!("nobody has it")
        };
        let mut last = pin!(c.wait());
        {
            let mut first = pin!(b.wait());
            assert!(first.as_mut().poll(&mut noop).is_pending());
            assert!(last.as_mut().poll(&mut cx).is_pending());
            // It is the first member's turn, and it does not take it.
            drop(turn);
            assert!(last.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(last.as_mut().poll(&mut cx).is_ready());
    }
}
