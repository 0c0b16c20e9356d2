//! Issues the requests of a stream when they are due, and records what became of them.
//!
//! With a ledger, every write has a content of its own and every read is compared with what it may see; at the end all
//! that was written is read back. Without one, writes take their data from memory prepared before.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{Io, yield_now};
use sinew_uring::UringIo;
use sinew_workload::{Boxed, Content, Issue, Kind, Next, Pace, Recorder, Replay, Report, Request};

use super::ledger::{Ledger, Moment, Number, Range};
use super::target::{Failure, Target};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Data prepared for writes that are not verified.
const PREPARED_BYTES: u64 = 16 << 20;
/// The longest sleep without a look whether the replay was stopped.
const NAP_NS: u64 = 50_000_000;
/// Requests issued before those issued get their turn.
const BURST: u32 = 16;
/// Bytes read at once when all is read back.
const READ_BACK_BYTES: u64 = 1 << 20;
/// Differences that are described; all are counted.
const SHOWN_MAX: usize = 5;

/// How a replay is done.
pub(crate) struct Settings {
    pub(crate) pace: Pace,
    /// No request is due from then on.
    pub(crate) duration_ns: u64,
    /// The length of the report's spans of time.
    pub(crate) interval_ns: u64,
    pub(crate) verify: bool,
    pub(crate) content: Content,
}

/// Why no more requests were issued.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// All were, or the time was over.
    Done,
    /// Ctrl-C.
    Stopped,
    /// No request would have succeeded any more.
    Lost(Failure),
    /// The stream of requests is wrong; says how.
    Bad(String),
}

/// The progress of a replay.
pub(crate) struct Progress {
    /// Time since the start.
    pub(crate) elapsed_ns: u64,
    /// Requests completed.
    pub(crate) completed: u64,
}

/// The result of verification.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verified {
    /// Bytes of reads of the workload that were compared.
    pub(crate) bytes: u64,
    /// Bytes read back at the end and compared.
    pub(crate) bytes_read_back: u64,
    /// Whether all that was written was read back.
    pub(crate) complete: bool,
    /// Ranges of up to a MiB that could not be read back.
    pub(crate) unreadable: u64,
    /// Ranges that held what they must not.
    pub(crate) wrong: u64,
    /// The first of them, described.
    pub(crate) shown: Vec<String>,
}

/// How often requests of each kind failed for each reason, and the first message.
pub(crate) type Errors = BTreeMap<(Kind, &'static str), (u64, String)>;

/// The outcome of a replay.
pub(crate) struct Outcome {
    pub(crate) report: Report,
    pub(crate) end: End,
    pub(crate) errors: Errors,
    pub(crate) verified: Option<Verified>,
}

/// A replay under way.
pub(crate) struct Drive {
    io: UringIo,
    target: Target,
    sizes: Vec<u64>,
    content: Content,
    /// The same all the time, when nothing is verified.
    prepared: Option<Buf>,
    ledger: RefCell<Ledger>,
    started_ns: u64,
    replay: RefCell<Replay<Boxed>>,
    recorder: RefCell<Recorder>,
    end: RefCell<End>,
    errors: RefCell<Errors>,
    verified: RefCell<Verified>,
    completed: Cell<u64>,
    completion: (async_channel::Sender<()>, async_channel::Receiver<()>),
}

impl Drive {
    pub(crate) fn new(io: &UringIo, target: Target, requests: Boxed, settings: Settings) -> Rc<Drive> {
        let Settings { pace, duration_ns, interval_ns, verify, content } = settings;
        let prepared = (!verify).then(|| fill(&content, 0, 0, PREPARED_BYTES, 0));
        Rc::new(Drive {
            io: io.clone(),
            sizes: target.sizes(),
            target,
            content,
            prepared,
            ledger: RefCell::default(),
            started_ns: io.now(),
            replay: RefCell::new(Replay::new(requests, pace, 0).until(duration_ns)),
            recorder: RefCell::new(Recorder::new(0, interval_ns)),
            end: RefCell::new(End::Done),
            errors: RefCell::default(),
            verified: RefCell::default(),
            completed: Cell::new(0),
            // One place is enough: it says that a request has completed since the last check.
            completion: async_channel::bounded(1),
        })
    }

    /// The progress so far.
    pub(crate) fn progress(&self) -> Progress {
        Progress { elapsed_ns: self.now(), completed: self.completed.get() }
    }

    /// Has no more requests issued.
    pub(crate) fn stop(&self, why: End) {
        self.replay.borrow_mut().stop();
        let end = &mut *self.end.borrow_mut();
        if matches!(end, End::Done) {
            *end = why;
        }
        let _ = self.completion.0.try_send(());
    }

    fn now(&self) -> u64 {
        self.io.now() - self.started_ns
    }

    /// Issues everything, waits for it, and reads back what was written if that is to be verified.
    pub(crate) async fn run(self: &Rc<Self>) -> Outcome {
        self.issue_all().await;
        let ended_ns = self.now();
        if self.prepared.is_none() {
            self.read_back().await;
        }
        self.target.close().await;
        let report = self.recorder.replace(Recorder::new(0, 1)).finish(ended_ns);
        let (end, errors) = (self.end.borrow().clone(), self.errors.take());
        let verified = self.prepared.is_none().then(|| self.verified.take());
        Outcome { report, end, errors, verified }
    }

    async fn issue_all(self: &Rc<Self>) {
        let mut burst = 0u32;
        loop {
            let next = self.replay.borrow_mut().next(self.now());
            match next {
                Ok(Next::Issue(issue)) => {
                    if let Err(why) = self.check(&issue.request) {
                        self.stop(End::Bad(why));
                        let _ = self.replay.borrow_mut().complete(issue, self.now(), false);
                        continue;
                    }
                    self.io.spawn(Rc::clone(self).carry_out(issue));
                    burst += 1;
                    if burst.is_multiple_of(BURST) {
                        yield_now().await;
                    }
                }
                Ok(Next::At(at)) => self.io.sleep((at - self.now().min(at)).min(NAP_NS)).await,
                Ok(Next::AfterCompletion) => drop(self.completion.1.recv().await),
                Ok(Next::Done) => return,
                Err(error) => self.stop(End::Bad(error.to_string())),
            }
        }
    }

    fn check(&self, request: &Request) -> Result<(), String> {
        let Request { offset, len, volume, .. } = *request;
        let size = self.sizes[volume as usize];
        if offset.checked_add(len).is_none_or(|end| end > size) {
            let name = &self.target.names[volume as usize];
            return Err(format!(
                "a request for {len} bytes at {offset} reaches past the end of {name} at {size}; say --fold to bring \
                 addresses into the volume"
            ));
        }
        if request.kind != Kind::Discard && len > u64::from(u32::MAX) {
            return Err(format!("a request for {len} bytes; 4 GiB are too many"));
        }
        Ok(())
    }

    /// One request, from its issue to its record.
    async fn carry_out(self: Rc<Self>, issue: Issue) {
        let request = issue.request;
        let result = match &self.prepared {
            Some(prepared) => self.target.perform(&request, self.data(prepared, &request)).await.map(drop),
            None => self.carry_out_verified(&request, issue.number + 1).await,
        };
        let done = self.replay.borrow_mut().complete(issue, self.now(), result.is_ok());
        self.recorder.borrow_mut().record(&done);
        self.completed.set(self.completed.get() + 1);
        if let Err(failure) = result {
            let (kind, message) = ((request.kind, failure.kind), failure.message.clone());
            self.errors.borrow_mut().entry(kind).or_insert((0, message)).0 += 1;
            if failure.is_end {
                self.stop(End::Lost(failure));
            }
        }
        let _ = self.completion.0.try_send(());
    }

    /// Of a write, its data from the prepared memory: equal places get equal data.
    fn data(&self, prepared: &Buf, request: &Request) -> Buf {
        let Request { offset, len, .. } = *request;
        if request.kind != Kind::Write {
            return Buf::zeroed(0);
        }
        let Some(room) = (prepared.len() as u64).checked_sub(len) else {
            return fill(&self.content, request.volume, offset, len, 0);
        };
        let start = offset / BLOCK % (room / BLOCK + 1) * BLOCK;
        prepared.slice(start as usize, len as usize)
    }

    async fn carry_out_verified(&self, request: &Request, number: u64) -> Result<(), Failure> {
        let range = Range { volume: request.volume, from: request.offset, end: request.end() };
        match request.kind {
            Kind::Flush => self.target.perform(request, Buf::zeroed(0)).await.map(drop),
            Kind::Read => {
                let begun = self.ledger.borrow_mut().begin_read();
                let read = self.target.perform(request, Buf::zeroed(0)).await;
                let legal = self.ledger.borrow_mut().end_read(range, begun);
                let compared = self.compare(range, &read?, legal);
                self.verified.borrow_mut().bytes += compared;
                Ok(())
            }
            Kind::Write | Kind::Discard => {
                let number: Number = (request.kind == Kind::Write).then_some(number);
                let data = number.map_or_else(
                    || Buf::zeroed(0),
                    |number| fill(&self.content, request.volume, request.offset, request.len, number),
                );
                let begun: Moment = self.ledger.borrow_mut().begin_change(range, number);
                let result = self.target.perform(request, data).await;
                self.ledger.borrow_mut().end_change(range, begun, result.is_ok());
                result.map(drop)
            }
        }
    }

    /// Compares what was read with what may be there, block by block; gives how many bytes were compared.
    fn compare(&self, range: Range, read: &[Buf], legal: Vec<(Range, Vec<Number>)>) -> u64 {
        let whole: Vec<u8> = read.iter().flat_map(|part| part.bytes()).copied().collect();
        let unit = self.target.atomic_bytes(range.volume);
        let mut compared = 0;
        for (part, numbers) in legal.into_iter().filter(|(_, numbers)| !numbers.contains(&None)) {
            let mut from = part.from;
            while from < part.end {
                let end = part.end.min((from / BLOCK + 1) * BLOCK);
                let found = &whole[(from - range.from) as usize..(end - range.from) as usize];
                let version = |number: &u64| fill(&self.content, range.volume, from, end - from, *number);
                let versions: Vec<Buf> = numbers.iter().flatten().map(version).collect();
                if !is_made_of(found, &versions, unit) {
                    let numbers: Vec<String> = numbers.iter().flatten().map(u64::to_string).collect();
                    let why = format!("are not those of write {}", numbers.join(" or "));
                    self.blame(Range { volume: range.volume, from, end }, &why);
                    self.verified.borrow_mut().wrong += 1;
                }
                compared += end - from;
                from = end;
            }
        }
        compared
    }

    fn blame(&self, Range { volume, from, end }: Range, why: &str) {
        let mut verified = self.verified.borrow_mut();
        if verified.shown.len() < SHOWN_MAX {
            let name = &self.target.names[volume as usize];
            verified.shown.push(format!("{name}: bytes {from} to {end} {why}"));
        }
    }

    /// Reads all that was written, and compares.
    async fn read_back(self: &Rc<Self>) {
        if matches!(*self.end.borrow(), End::Lost(_)) {
            return;
        }
        let known = self.ledger.borrow().known();
        for Range { volume, from, end } in known {
            for offset in (from..end).step_by(READ_BACK_BYTES as usize) {
                let len = READ_BACK_BYTES.min(end - offset);
                let begun = self.ledger.borrow_mut().begin_read();
                let request = Request { at_ns: 0, offset, len, volume, kind: Kind::Read };
                let read = self.target.perform(&request, Buf::zeroed(0)).await;
                let range = Range { volume, from: offset, end: offset + len };
                let legal = self.ledger.borrow_mut().end_read(range, begun);
                match read {
                    Ok(read) => {
                        let compared = self.compare(range, &read, legal);
                        self.verified.borrow_mut().bytes_read_back += compared;
                    }
                    Err(failure) if failure.is_end => return self.stop(End::Lost(failure)),
                    Err(failure) => {
                        self.blame(range, &format!("cannot be read back: {}", failure.message));
                        self.verified.borrow_mut().unreadable += 1;
                    }
                }
            }
        }
        let verified = &mut *self.verified.borrow_mut();
        verified.complete = verified.unreadable == 0;
    }
}

/// Whether each unit of what was found is that of one of the versions, which are as long.
fn is_made_of(found: &[u8], versions: &[Buf], unit: usize) -> bool {
    let is_of_one = |from: usize, end: usize| {
        versions.iter().any(|version| version.bytes()[from..end] == found[from..end])
    };
    // Mixtures are rare, and units of a byte slow to compare.
    let end = found.len();
    is_of_one(0, end) || (0..end).step_by(unit).all(|from| is_of_one(from, end.min(from + unit)))
}

/// The content of a range as a write of this number makes it.
fn fill(content: &Content, volume: u32, offset: u64, len: u64, number: u64) -> Buf {
    let mut data = Buf::stale(len as usize);
    let mut block = [0; BLOCK_BYTES];
    let (mut at, end) = (offset, offset + len);
    while at < end {
        let (within, piece_end) = ((at % BLOCK) as usize, end.min((at / BLOCK + 1) * BLOCK));
        let place = &mut data.bytes_mut()[(at - offset) as usize..(piece_end - offset) as usize];
        if place.len() == BLOCK_BYTES {
            content.fill(volume, at / BLOCK, number, place);
        } else {
            content.fill(volume, at / BLOCK, number, &mut block);
            place.copy_from_slice(&block[within..within + place.len()]);
        }
        at = piece_end;
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two writes of four bytes; a reader of units of two bytes finds both halves of one or of each.
    #[test]
    fn a_mixture_is_made_of_whole_units() {
        let versions = [[1; 4], [2; 4]].map(|bytes| Buf::copy_of(&bytes));
        let is_made = |found: [u8; 4], unit| is_made_of(&found, &versions, unit);
        assert!(is_made([1; 4], 4) && is_made([2; 4], 4) && is_made([2; 4], 1));
        assert!(is_made([1, 1, 2, 2], 2) && is_made([1, 2, 2, 1], 1));
        assert!(!is_made([1, 1, 2, 2], 4) && !is_made([1, 2, 2, 2], 2) && !is_made([1, 2, 3, 1], 1));
        assert!(!is_made_of(&[1, 1, 2, 2], &versions[..1], 1));
    }
}
