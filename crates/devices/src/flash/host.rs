//! The host interface: commands on their way in, requests under way, completions on their way out.

use std::collections::VecDeque;

use super::config::{Config, Link};
use crate::calendar::{Lane, Server};
use crate::{Command, Completion, Kind, Ns, Outcome};

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) command: Command,
    submitted_at: Ns,
    /// Blocks of a write that have a place.
    pub(super) placed: u32,
    /// Units to be read or programmed before the request ends.
    pub(super) pending: u32,
    pub(super) outcome: Outcome,
    /// The request has arrived, and has no answer yet.
    pub(super) inside: bool,
}

/// What happens next at the interface, with the number of the request.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostEvent {
    /// The command of the request, and its data if it is a write, are in the drive.
    Arrived(u32),
    /// The host has the answer.
    Completed(u32),
}

/// Controller, link, and the requests between the host and the drive.
#[derive(Clone, Debug)]
pub(super) struct HostInterface {
    link: Link,
    queue_depth: u32,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    outstanding: u32,
    /// Commands beyond the queue depth, with the time of submission.
    held_back: VecDeque<(Ns, Command)>,
    controller: Server,
    link_in: Server,
    link_out: Server,
    /// Commands on their way in: writes with data, and the others.
    incoming_writes: Lane,
    incoming: Lane,
    /// Completions on their way out: reads with data, and the others.
    outgoing_reads: Lane,
    outgoing: Lane,
}

impl HostInterface {
    pub(super) fn new(config: &Config) -> HostInterface {
        HostInterface {
            link: config.link,
            queue_depth: config.queue_depth,
            requests: Vec::new(),
            free_requests: Vec::new(),
            outstanding: 0,
            held_back: VecDeque::new(),
            controller: Server::default(),
            link_in: Server::default(),
            link_out: Server::default(),
            incoming_writes: Lane::new(),
            incoming: Lane::new(),
            outgoing_reads: Lane::new(),
            outgoing: Lane::new(),
        }
    }

    #[inline]
    pub(super) fn request(&self, id: u32) -> &Request {
        &self.requests[id as usize]
    }

    #[inline]
    pub(super) fn request_mut(&mut self, id: u32) -> &mut Request {
        &mut self.requests[id as usize]
    }

    /// Takes a command of the host; returns whether it is on its way, or held back since the queue is full.
    #[inline]
    pub(super) fn submit(&mut self, now: Ns, command: Command) -> bool {
        let accepted = self.outstanding < self.queue_depth;
        if accepted {
            self.accept(now, now, command);
        } else {
            self.held_back.push_back((now, command));
        }
        accepted
    }

    fn accept(&mut self, now: Ns, submitted_at: Ns, command: Command) {
        self.outstanding += 1;
        let request =
            Request { command, submitted_at, placed: 0, pending: 0, outcome: Outcome::Done, inside: false };
        let id = match self.free_requests.pop() {
            Some(id) => {
                self.requests[id as usize] = request;
                id
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        };
        let taken = self.controller.serve(now, self.link.command_ns);
        if command.kind == Kind::Write {
            let arrived = self.link_in.serve(taken, u64::from(command.blocks) * self.link.block_ns);
            self.incoming_writes.push(arrived + self.link.latency_ns, id);
        } else {
            self.incoming.push(taken + self.link.latency_ns, id);
        }
    }

    /// The requests that have arrived and have no answer yet.
    pub(super) fn inside(&self) -> Vec<u32> {
        (0..self.requests.len() as u32).filter(|&id| self.requests[id as usize].inside).collect()
    }

    /// Answers a request that has no data for the host.
    #[inline]
    pub(super) fn acknowledge(&mut self, now: Ns, id: u32) {
        self.requests[id as usize].inside = false;
        self.outgoing.push(now, id);
    }

    /// Sends the data of a read to the host.
    #[inline]
    pub(super) fn send_data(&mut self, now: Ns, id: u32) {
        let request = &mut self.requests[id as usize];
        request.inside = false;
        let transfer_ns = u64::from(request.command.blocks) * self.link.block_ns;
        let link = if self.link.duplex { &mut self.link_out } else { &mut self.link_in };
        let sent = link.serve(now, transfer_ns);
        self.outgoing_reads.push(sent, id);
    }

    /// Ends a request. Returns its completion, and the held-back command that takes its place in the queue.
    #[inline]
    pub(super) fn complete(&mut self, now: Ns, id: u32) -> (Completion, Option<Command>) {
        let Request { command, submitted_at, outcome, .. } = self.requests[id as usize];
        let (tag, kind) = (command.tag, command.kind);
        let completion = Completion { tag, kind, outcome, submitted_at, completed_at: now };
        self.free_requests.push(id);
        self.outstanding -= 1;
        let next = self.held_back.pop_front().map(|(submitted_at, command)| {
            self.accept(now, submitted_at, command);
            command
        });
        (completion, next)
    }

    /// When something happens next at the interface; [`Ns::MAX`] if nothing will.
    #[inline]
    pub(super) fn next_event(&self) -> Ns {
        let incoming = self.incoming.next().min(self.incoming_writes.next());
        let outgoing = self.outgoing.next().min(self.outgoing_reads.next());
        incoming.min(outgoing)
    }

    /// Takes the event at `at`, which [`HostInterface::next_event`] has named. Of several, answers come first.
    #[inline]
    pub(super) fn take_event(&mut self, at: Ns) -> Option<HostEvent> {
        if self.outgoing.next() == at {
            self.outgoing.pop().map(HostEvent::Completed)
        } else if self.outgoing_reads.next() == at {
            self.outgoing_reads.pop().map(HostEvent::Completed)
        } else if self.incoming.next() == at {
            self.incoming.pop().map(HostEvent::Arrived)
        } else {
            self.incoming_writes.pop().map(HostEvent::Arrived)
        }
    }
}
