//! Disks of virtual machines: what their drivers ask for, and what hostile ones do.

mod harness;

use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use harness::machine::{FLUSH, FREE, Machine, NEXT, Part, QUEUE_SIZE, WRITE, session};
use harness::memory::MemoryVolume;
use proptest::prelude::*;
use sinew_core::volume::VolumeError;
use sinew_frontend::vhost::SessionEnd;
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserConfigFlags;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress};

const VOLUME: u64 = 4 << 20;
const MEMORY: u64 = 8 << 20;
const READ: u32 = 0;
const OUT: u32 = 1;
const FLUSHES: u32 = 4;
const SERIAL: u32 = 8;
const DISCARD: u32 = 11;
const ZEROES: u32 = 13;
const OK: u8 = 0;
const FAILED: u8 = 1;
const UNSUPPORTED: u8 = 2;

fn machine(volume: &MemoryVolume) -> Machine {
    Machine::new(volume, MEMORY, 2, 0, false)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 512 + i) as u8).collect()
}

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn a_driver_gets_what_it_asks_for() {
    let volume = MemoryVolume::new(VOLUME);
    let mut machine = machine(&volume);
    let data = pattern(40 << 9);
    for queue in [0, 1] {
        let at = 7 + 1000 * queue as u64;
        assert_eq!(machine.request(queue, OUT, at, &data, 0).0, OK);
        assert_eq!(machine.request(queue, READ, at, &[], 40 << 9), (OK, data.clone()));
    }
    assert_eq!(volume.counts(), (0, 0));
    assert_eq!(machine.request(0, FLUSHES, 0, &[], 0).0, OK);
    assert_eq!(volume.counts(), (1, 0));
    assert_eq!(machine.request(0, SERIAL, 0, &[], 20), (OK, b"a serial number that".to_vec()));
    assert_eq!(machine.request(0, DISCARD, 0, &range(8, 16, 0), 0).0, OK);
    assert_eq!(volume.discards(), 1);
    let (status, back) = machine.request(0, READ, 7, &[], 40 << 9);
    assert_eq!((status, &back[..512]), (OK, &data[..512]));
    assert!(back[512..17 << 9].iter().all(|byte| *byte == 0));
    assert_eq!(back[17 << 9..], data[17 << 9..]);
    for may_free in [0, 1] {
        assert_eq!(machine.request(1, ZEROES, 0, &range(1008, 3, may_free), 0).0, OK);
        let (_, back) = machine.request(1, READ, 1007, &[], 5 << 9);
        assert_eq!(back, [&data[..512], &[0; 3 << 9][..], &data[4 << 9..5 << 9]].concat());
        assert_eq!(machine.request(1, OUT, 1007, &data, 0).0, OK);
    }
    assert_eq!(machine.request(0, READ, VOLUME >> 9, &[], 512), (FAILED, vec![]));
    assert_eq!(machine.request(0, ZEROES, 0, &range((VOLUME >> 9) - 1, 2, 0), 0).0, FAILED);
    assert_eq!(machine.request(0, 77, 0, &[], 0).0, UNSUPPORTED);
    volume.fail(Some(VolumeError::NoSpace));
    assert_eq!(machine.request(0, OUT, 0, &data, 0).0, FAILED);
    volume.fail(Some(VolumeError::Unsupported));
    assert_eq!(machine.request(0, DISCARD, 0, &range(8, 16, 0), 0).0, UNSUPPORTED);
    volume.fail(None);
    let (_, config) =
        machine.control.get_config(0, 8, VhostUserConfigFlags::empty(), &[0; 8]).expect("config");
    assert_eq!(config, (VOLUME >> 9).to_le_bytes());
    assert!(machine.faults.lock().unwrap().is_empty());
    assert!(matches!(machine.end(), SessionEnd::Closed));
}

#[test]
fn a_driver_without_flushes_gets_durable_writes() {
    let volume = MemoryVolume::new(VOLUME);
    let mut machine = Machine::new(&volume, MEMORY, 1, FLUSH, false);
    assert_eq!(machine.request(0, OUT, 0, &[1; 512], 0).0, OK);
    assert_eq!(volume.counts(), (0, 1));
    assert_eq!(machine.request(0, DISCARD, 0, &range(8, 16, 0), 0).0, OK);
    assert_eq!(volume.counts(), (1, 1));
    assert_eq!(machine.request(0, ZEROES, 0, &range(8, 16, 1), 0).0, OK);
    assert_eq!(volume.counts(), (1, 2));
    assert_eq!(machine.request(0, ZEROES, 0, &range(8, 16, 0), 0).0, OK);
    assert_eq!(volume.counts(), (2, 2));
}

#[test]
fn a_read_only_disk_says_so() {
    let volume = MemoryVolume::new(VOLUME);
    let mut machine = Machine::new(&volume, MEMORY, 1, 0, true);
    assert_ne!(machine.control.get_features().expect("features") & 1 << 5, 0);
    assert_eq!(machine.request(0, OUT, 0, &[1; 512], 0).0, FAILED);
    assert_eq!(machine.request(0, READ, 0, &[], 512), (OK, vec![0; 512]));
}

#[test]
fn a_stop_waits_for_requests_and_the_ring_goes_on_where_it_was() {
    let volume = MemoryVolume::new(VOLUME);
    let mut machine = machine(&volume);
    assert_eq!(machine.request(0, OUT, 0, &[7; 512], 0).0, OK);
    volume.hold();
    for head in [0, 4, 8] {
        machine.lay(0, head, FREE + u64::from(head) * 0x1000, READ, 0, &[Part::Room(512)]);
        machine.offer(0, head);
    }
    let waiting = || volume.held.lock().unwrap().as_ref().map_or(0, Vec::len);
    while waiting() < 3 {
        thread::sleep(Duration::from_millis(1));
    }
    let release = thread::spawn({
        let volume = volume.clone();
        move || {
            thread::sleep(Duration::from_millis(50));
            volume.release();
        }
    });
    assert_eq!(machine.control.get_vring_base(0).expect("base"), 4);
    assert_eq!(machine.unseen(0), 3);
    release.join().expect("released");
    // What is offered while the ring is stopped is taken when it is started.
    machine.lay(0, 12, FREE, READ, 0, &[Part::Room(512)]);
    machine.offer(0, 12);
    thread::sleep(Duration::from_millis(20));
    assert_eq!(machine.unseen(0), 3);
    machine.queues[0].available -= 1;
    machine.set_up(0);
    machine.queues[0].available += 1;
    let mut heads: Vec<u32> = (0..4).map(|_| machine.answer(0).0).collect();
    heads.sort_unstable();
    assert_eq!(heads, [0, 4, 8, 12]);
}

#[test]
fn the_guest_is_told_of_answers() {
    let volume = MemoryVolume::new(VOLUME);
    let mut machine = machine(&volume);
    for _ in 0..3 {
        machine.request(0, READ, 0, &[], 512);
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while machine.queues[0].call.read().is_err() {
            assert!(std::time::Instant::now() < until, "not told");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn memory_comes_and_goes_under_running_rings() {
    let volume = MemoryVolume::new(VOLUME);
    let mut machine = machine(&volume);
    let file = tempfile::tempfile().expect("a file");
    file.set_len(1 << 20).expect("set_len");
    assert!(machine.control.get_max_mem_slots().expect("slots") >= 32);
    let region = machine.region(&file);
    machine.control.add_mem_region(&region).expect("added");
    machine.map(&file);
    machine.lay(0, 0, MEMORY + 512, OUT, 8, &[Part::Filled(&[9; 1024])]);
    machine.offer(0, 0);
    assert_eq!(machine.answer(0).0, 0);
    assert_eq!(machine.request(1, READ, 8, &[], 1024), (OK, vec![9; 1024]));
    machine.control.remove_mem_region(&region).expect("removed");
    assert_eq!(machine.request(1, READ, 8, &[], 1024).0, OK);
    machine.offer(0, 0);
    while machine.faults.lock().unwrap().is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(machine.faults.lock().unwrap()[0].contains("not in the memory"));
    assert!(machine.control.remove_mem_region(&region).is_err());
}

/// What a server leaves that ended while requests were in flight, and what the next one makes of it.
#[test]
fn a_server_that_comes_later_finds_what_is_in_flight() {
    let volume = MemoryVolume::new(VOLUME);
    let mut machine = machine(&volume);
    let (described, file) = machine.inflight(2);
    machine.control.set_inflight_fd(&described, file.as_raw_fd()).expect("set");
    assert_eq!(machine.request(0, OUT, 0, &[7; 512], 0).0, OK);
    volume.hold();
    for head in [12, 4, 8] {
        machine.lay(0, head, FREE + u64::from(head) * 0x1000, READ, 0, &[Part::Room(512)]);
        machine.offer(0, head);
    }
    let waiting = || volume.held.lock().unwrap().as_ref().map_or(0, Vec::len);
    while waiting() < 3 || !machine.awaits_kick(0) {
        thread::sleep(Duration::from_millis(1));
    }
    // The first server never gets further. Another one offers a request that no server has seen yet.
    let later = MemoryVolume::new(VOLUME);
    let mut machine = machine.connect_anew(&later);
    machine.lay(0, 0, FREE, OUT, 8, &[Part::Filled(&[3; 512])]);
    machine.offer_with(0, 0, false);
    machine.control.set_inflight_fd(&described, file.as_raw_fd()).expect("set");
    machine.set_up_from(0, 1);
    let heads: Vec<u32> = (0..4).map(|_| machine.answer(0).0).collect();
    assert_eq!(heads, [12, 4, 8, 0]);
    assert_eq!(machine.request(0, READ, 8, &[], 512), (OK, vec![3; 512]));
    // Nothing is left for a third one. It calls the guest, since the second may have ended between an answer and its call.
    machine.control.get_vring_base(0).expect("base");
    while machine.queues[0].call.read().is_ok() {}
    machine.control.set_inflight_fd(&described, file.as_raw_fd()).expect("set");
    machine.set_up(0);
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while machine.queues[0].call.read().is_err() {
        assert!(std::time::Instant::now() < until, "not called");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(machine.request(0, READ, 8, &[], 512), (OK, vec![3; 512]));
    assert_eq!(machine.unseen(0), 0);
    assert!(machine.faults.lock().unwrap().is_empty());
}

#[test]
fn data_in_flight_is_bounded() {
    let volume = MemoryVolume::new(256 << 20);
    let mut machine = Machine::new(&volume, 80 << 20, 1, 0, false);
    volume.hold();
    for head in [0, 4, 8] {
        // One after the other into the same memory.
        machine.lay(0, head, FREE, READ, 0, &[Part::Room(32 << 20)]);
        machine.offer(0, head);
    }
    let waiting = || volume.held.lock().unwrap().as_ref().map_or(0, Vec::len);
    while waiting() < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(30));
    assert_eq!(waiting(), 2);
    volume.release();
    let mut heads: Vec<u32> = (0..3).map(|_| machine.answer(0).0).collect();
    heads.sort_unstable();
    assert_eq!(heads, [0, 4, 8]);
}

/// A ring that breaks a rule is given up; the other one is served.
fn given_up(act: impl FnOnce(&mut Machine)) -> String {
    let volume = MemoryVolume::new(VOLUME);
    let mut machine = machine(&volume);
    machine.request(0, READ, 0, &[], 512);
    act(&mut machine);
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while machine.faults.lock().unwrap().is_empty() {
        assert!(std::time::Instant::now() < until, "not given up");
        thread::sleep(Duration::from_millis(1));
    }
    while machine.queues[0].error.read().is_err() {
        assert!(std::time::Instant::now() < until, "the guest is not told");
    }
    assert_eq!(machine.request(1, OUT, 0, &[1; 512], 0).0, OK);
    // Made anew, it works again.
    let base = machine.control.get_vring_base(0).expect("base");
    machine.queues[0].available = base as u16;
    let (_, available, _) = machine.places(0);
    machine.memory.write_obj(base as u16, GuestAddress(available + 2)).expect("in memory");
    machine.set_up(0);
    assert_eq!(machine.request(0, READ, 0, &[], 512), (OK, vec![1; 512]));
    let faults = machine.faults.lock().unwrap();
    assert_eq!(faults.len(), 1);
    faults[0].clone()
}

#[test]
fn a_guest_that_breaks_the_rules_loses_its_ring_alone() {
    let jumped = given_up(|machine| {
        let (_, available, _) = machine.places(0);
        machine.memory.store(QUEUE_SIZE + 2, GuestAddress(available + 2), Ordering::SeqCst).expect("stored");
        machine.queues[0].kick.write(1).expect("kicked");
    });
    assert!(jumped.contains("has jumped"), "{jumped}");
    let outside = given_up(|machine| machine.offer(0, QUEUE_SIZE));
    assert!(outside.contains("outside its table"), "{outside}");
    let endless = given_up(|machine| {
        machine.put_descriptor(0, 3, Descriptor::new(FREE, 16, NEXT, 3));
        machine.offer(0, 3);
    });
    assert!(endless.contains("loop"), "{endless}");
    let lost = given_up(|machine| {
        machine.put_descriptor(0, 3, Descriptor::new(u64::MAX - 5, 16, WRITE, 3));
        machine.offer(0, 3);
    });
    assert!(lost.contains("not in the memory"), "{lost}");
}

#[test]
fn a_descriptor_in_flight_is_not_used_twice() {
    let volume = MemoryVolume::new(VOLUME);
    let mut machine = machine(&volume);
    volume.hold();
    machine.lay(0, 0, FREE, READ, 0, &[Part::Room(512)]);
    machine.offer(0, 0);
    machine.offer(0, 0);
    while machine.faults.lock().unwrap().is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(machine.faults.lock().unwrap()[0].contains("in flight"));
    volume.release();
    assert!(matches!(machine.end(), SessionEnd::Closed));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_ring_harms_another(
        descriptors in proptest::collection::vec(
            (prop_oneof![0u64..MEMORY + 0x1000, any::<u64>()], prop_oneof![0u32..5000, any::<u32>()], 0u16..8, 0u16..20),
            QUEUE_SIZE as usize,
        ),
        heads in proptest::collection::vec(prop_oneof![9 => 0u16..QUEUE_SIZE, 1 => any::<u16>()], 1..20),
        kinds in proptest::collection::vec(0u32..16, 8),
        jump in prop_oneof![9 => Just(0u16), 1 => any::<u16>()],
    ) {
        let volume = MemoryVolume::new(VOLUME);
        let mut machine = machine(&volume);
        // Headers where descriptors may lead to.
        for (index, kind) in kinds.iter().enumerate() {
            machine.memory.write_obj(*kind, GuestAddress(FREE + index as u64 * 4096)).expect("in memory");
        }
        for (index, (at, len, flags, next)) in descriptors.iter().enumerate() {
            // Half of them begin where a header is.
            let at = if index % 2 == 0 { FREE + at % 8 * 4096 } else { *at };
            machine.put_descriptor(0, index as u16, Descriptor::new(at, *len, *flags, *next));
        }
        for head in heads {
            machine.offer(0, head);
        }
        let (_, available, _) = machine.places(0);
        let index = machine.queues[0].available.wrapping_add(jump);
        machine.memory.store(index, GuestAddress(available + 2), Ordering::SeqCst).expect("stored");
        machine.queues[0].kick.write(1).expect("kicked");
        // The guest may write anywhere in its memory, the other ring included: only that the server lives is certain.
        machine.control.get_vring_base(0).expect("stopped");
        machine.control.get_vring_base(1).expect("stopped");
        prop_assert!(matches!(machine.end(), SessionEnd::Closed));
    }

    #[test]
    fn no_message_harms(messages in proptest::collection::vec(
        (0u32..48, proptest::collection::vec(any::<u8>(), 0..100), any::<bool>()), 1..20,
    )) {
        let volume = MemoryVolume::new(VOLUME);
        let (mut socket, ended, _) = session(&volume, false);
        for (request, body, wants_reply) in messages {
            let flags = 1u32 | u32::from(wants_reply) << 3;
            let header = [request, flags, body.len() as u32].map(u32::to_le_bytes).concat();
            // The session may have ended already.
            let _ = socket.write_all(&header).and_then(|()| socket.write_all(&body));
        }
        drop(socket);
        prop_assert!(ended.join().is_ok());
    }
}
