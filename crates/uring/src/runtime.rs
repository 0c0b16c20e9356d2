//! The loop of one thread: run ready tasks, submit their requests to the ring, take completions.
//!
//! When nothing is ready it looks at the completion queue and at other threads' wakes for a short time, then sleeps in
//! the kernel until a completion, a timer or a wake. Dropping the runtime drops its tasks and waits for the kernel to
//! let go of their memory.

use std::future::Future;
use std::hint::spin_loop;
use std::io;
use std::mem;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::now;
use crate::config::Config;
use crate::core::Core;
use crate::executor::{Executor, MainWaker};
use crate::io::UringIo;
use crate::ring::Ring;

/// Tasks run between two readings of the clock.
const LOOK_TASKS: u32 = 8;

/// The executor and io_uring of the thread that made it.
pub struct Runtime {
    core: Rc<Core>,
}

impl Runtime {
    /// A runtime for the calling thread.
    ///
    /// # Errors
    /// When the kernel gives no eventfd or no io_uring, or is older than Linux 5.11.
    pub fn new(config: Config) -> io::Result<Runtime> {
        let executor = Executor::new()?;
        let ring = Ring::new(config.entries, executor.eventfd())?;
        config.devices.enlist(&executor);
        Ok(Runtime { core: Rc::new(Core::new(config, executor, ring)) })
    }

    /// The handle that tasks use.
    pub fn io(&self) -> UringIo {
        UringIo { core: Rc::clone(&self.core) }
    }

    /// Runs `future` to its end, and other tasks meanwhile. Those that have not ended go on in the next `block_on`.
    ///
    /// # Panics
    /// When a task panics, or when the kernel refuses the ring for good.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let main = MainWaker::new(&self.core.executor);
        let waker = Waker::from(main.clone());
        loop {
            if main.take()
                && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return output;
            }
            self.core.turn(&main);
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        for waker in mem::take(&mut *self.core.tasks.borrow_mut()).drain() {
            waker.wake();
        }
        self.core.executor.close();
        drop(mem::take(&mut *self.core.timers.borrow_mut()));
        self.core.ring.borrow_mut().shut_down();
    }
}

impl Core {
    fn turn(&self, main: &MainWaker) {
        self.inline_left.set(self.config.burst_bytes);
        for count in 0..self.config.burst {
            if count.is_multiple_of(LOOK_TASKS) {
                self.looked_at.set(now());
            }
            // Wake-ups from other threads must not wait for the end of a long turn.
            self.executor.accept_remote();
            let Some(task) = self.executor.pop() else { break };
            task.run();
        }
        self.fire_timers();
        self.forget_closed();
        let busy = main.is_ready() || !self.executor.is_idle();
        // An idle loop that will not spin submits and sleeps in one system call.
        if busy || self.polling.is_on() {
            self.reap();
        }
        if !self.has_work(main) && !self.spin(main) {
            self.sleep_in_kernel();
        }
    }

    fn has_work(&self, main: &MainWaker) -> bool {
        main.is_ready() || !self.executor.is_idle() || self.executor.is_pending()
    }

    /// Submits and takes completions without waiting.
    fn reap(&self) {
        {
            let mut ring = self.ring.borrow_mut();
            if ring.wants_enter() {
                ring.enter(false, None).expect("io_uring_enter");
            } else {
                ring.harvest();
            }
        }
        self.complete();
    }

    /// Passes completions to their slots.
    fn complete(&self) {
        let reaped = self.ring.borrow_mut().take_reaped();
        for &(user_data, result) in &reaped {
            let (waker, _payload) = self.ring.borrow_mut().complete(user_data, result);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        self.ring.borrow_mut().recycle(reaped);
    }

    fn fire_timers(&self) {
        if self.timers.borrow().next_deadline().is_none() {
            return;
        }
        let now = now();
        loop {
            let due = self.timers.borrow_mut().pop_due(now);
            let Some(waker) = due else { return };
            waker.wake();
        }
    }

    /// Polls for work for a short time. Returns whether there is some.
    fn spin(&self, main: &MainWaker) -> bool {
        if !self.polling.is_on() {
            return false;
        }
        let timer = self.timers.borrow().next_deadline().unwrap_or(u64::MAX);
        let give_up = now() + self.polling.ns();
        loop {
            for _ in 0..16 {
                let arrived = {
                    let mut ring = self.ring.borrow_mut();
                    ring.wants_enter() || ring.has_completions()
                };
                if arrived {
                    self.reap();
                }
                if self.has_work(main) {
                    return true;
                }
                spin_loop();
            }
            let now = now();
            if now >= timer {
                return true;
            }
            if now >= give_up {
                return false;
            }
        }
    }

    fn sleep_in_kernel(&self) {
        let deadline = self.timers.borrow().next_deadline();
        let asleep_at = now();
        let timeout = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(asleep_at)));
        if !self.executor.fall_asleep() {
            return;
        }
        let idle = !self.ring.borrow_mut().has_completions();
        self.ring.borrow_mut().enter(idle, timeout).expect("io_uring_enter");
        self.executor.wake_up();
        self.polling.note_sleep(now() - asleep_at);
        self.complete();
    }
}
