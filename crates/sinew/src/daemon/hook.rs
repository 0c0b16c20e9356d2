//! The hook: a program of the operator that is run for each event, one after the other, outside of the threads that serve.
//!
//! A hook that is slow delays later hooks and nothing else. Events beyond the limit of the queue are dropped, and the next
//! run gets the number of dropped events. A hook that exceeds its time limit is killed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::protocol::answer::EventView;

/// Events that wait for their run at most.
const WAITING_MAX: usize = 256;
/// The time that one run has.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time after the stop of the server within which runs still begin.
const LAST: Duration = Duration::from_secs(5);
/// How often the end of a run is looked for.
const PAUSE: Duration = Duration::from_millis(20);

/// What waits for the thread of the hook.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Value>,
    /// Events left out since the last run.
    left_out: u64,
    /// When the server has stopped: what waits is still run for a while, and then the thread ends.
    over_at: Option<Instant>,
}

/// A hook, and the events that wait for it. Dropping it waits for the runs that are left.
pub(crate) struct Hook {
    pool: String,
    shared: Arc<(Mutex<Queue>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

fn lock(shared: &(Mutex<Queue>, Condvar)) -> MutexGuard<'_, Queue> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hook {
    /// A hook of a pool: a program and its arguments.
    ///
    /// # Errors
    /// When there is no such program, or no thread can be started for it.
    pub(crate) fn start(command: Vec<OsString>, pool: String) -> anyhow::Result<Hook> {
        let program = Path::new(&command[0]);
        if program.components().count() > 1 && !program.is_file() {
            bail!("there is no hook {}", program.display());
        }
        let shared = Arc::new((Mutex::<Queue>::default(), Condvar::new()));
        let work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("sinew-hook".to_owned()).spawn(move || {
            while let Some((event, left_out)) = next(&work) {
                if let Err(why) = run(&command, &event, left_out) {
                    tracing::warn!("the hook {}: {why}", command[0].to_string_lossy());
                }
            }
        });
        let thread = thread.context("cannot start a thread for the hook")?;
        Ok(Hook { pool, shared, thread: Some(thread) })
    }

    /// Has the hook run for an event, when its turn comes.
    pub(crate) fn send(&self, event: &EventView) {
        let mut event = json!(event);
        event["pool"] = self.pool.as_str().into();
        let mut queue = lock(&self.shared);
        if queue.waiting.len() < WAITING_MAX {
            queue.waiting.push_back(event);
        } else {
            queue.left_out += 1;
        }
        self.shared.1.notify_one();
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        lock(&self.shared).over_at = Some(Instant::now());
        self.shared.1.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The next event, and the number of events that were left out before it; none when it is over.
fn next(shared: &(Mutex<Queue>, Condvar)) -> Option<(Value, u64)> {
    let mut queue = lock(shared);
    loop {
        if queue.over_at.is_some_and(|at| queue.waiting.is_empty() || at.elapsed() > LAST) {
            return None;
        }
        if let Some(event) = queue.waiting.pop_front() {
            return Some((event, std::mem::take(&mut queue.left_out)));
        }
        queue = shared.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Runs the hook for one event, which it gets as JSON on its standard input and in its environment.
///
/// # Errors
/// Why it failed, in words.
fn run(command: &[OsString], event: &Value, left_out: u64) -> Result<(), String> {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::null());
    for key in ["pool", "event", "severity", "text"] {
        program.env(format!("SINEW_{}", key.to_ascii_uppercase()), text(key));
    }
    program.env("SINEW_LEFT_OUT", left_out.to_string());
    // Ctrl-C at the terminal of the server is not for it.
    let mut child = program.process_group(0).spawn().map_err(|error| format!("cannot be run: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // It need not read it.
        let _ = input.write_all(format!("{event}\n").as_bytes());
    }
    match wait(&mut child) {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("ended with {status} for the event {}", text("event"))),
        None => Err(format!("did not end within {} s and was killed", PATIENCE.as_secs())),
    }
}

/// The end of a run; none if it had to be killed.
fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(PAUSE);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}
