//! A virtual machine with two queues on a memory volume, whose guest and hypervisor do what the fuzzer finds.
//!
//! The first byte chooses: messages on a control socket that nothing was said on yet, or acts of a guest whose rings run.
//! Whatever they do, the server must not panic, its session must end with the socket, and a second machine on the same
//! volume must be served.

#![no_main]

#[path = "../../crates/frontend/tests/harness/mod.rs"]
mod harness;

use std::io::Write;

use harness::machine::{Machine, session};
use harness::memory::MemoryVolume;
use libfuzzer_sys::fuzz_target;
use sinew_frontend::vhost::SessionEnd;
use sinew_fuzz::input::Input;
use vhost::VhostBackend;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress};

const VOLUME: u64 = 1 << 20;
const MEMORY: u64 = 1 << 20;
/// Acts of a guest in one run; each may wake the server.
const ACTS_MAX: usize = 64;

/// Says messages, each with a header that tells its length, on a new control socket.
fn messages(volume: &MemoryVolume, input: &mut Input<'_>) {
    let (mut socket, ended, _) = session(volume, false);
    while !input.is_empty() {
        let (request, flags) = (u32::from(input.u8()), u32::from(input.u8()));
        let body = input.bytes();
        let header = [request, flags, body.len() as u32].map(u32::to_le_bytes).concat();
        // The session may have ended already.
        let _ = socket.write_all(&header).and_then(|()| socket.write_all(body));
    }
    drop(socket);
    ended.join().expect("no panic");
}

/// One act of the guest.
fn act(machine: &mut Machine, input: &mut Input<'_>) {
    let choice = input.u8();
    let queue = usize::from(choice & 1);
    match choice >> 1 & 7 {
        0 => {
            let (at, bytes) = (u64::from(input.u32()) % MEMORY, input.bytes());
            let len = bytes.len().min((MEMORY - at) as usize);
            machine.memory.write_slice(&bytes[..len], GuestAddress(at)).expect("in memory");
        }
        1 => {
            let (index, at, len) = (u16::from(input.u8() & 15), input.u64(), input.u32());
            machine.put_descriptor(queue, index, Descriptor::new(at, len, input.u16(), input.u16()));
        }
        2 => machine.offer(queue, input.u16()),
        3 => machine.offer_with(queue, input.u16(), false),
        4 => machine.queues[queue].kick.write(1).expect("kicked"),
        5 => {
            let base = machine.control.get_vring_base(queue).expect("stopped");
            machine.queues[queue].available = base as u16;
            machine.set_up(queue);
        }
        // What a driver lays down, so that requests need not be found byte by byte.
        _ => {
            let (kind, sector, from) = (u32::from(input.u8() & 15), input.u64(), 0x10000);
            let part = match input.u8() {
                odd if odd & 1 == 1 => harness::machine::Part::Room(u32::from(odd) * 256),
                _ => harness::machine::Part::Filled(input.bytes()),
            };
            machine.lay(queue, 0, from, kind, sector, &[part]);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [choice, bytes @ ..] = data else { return };
    let mut input = Input(bytes);
    let mut volume = MemoryVolume::new(VOLUME);
    volume.yields = u64::from(choice >> 5);
    if choice & 1 == 1 {
        return messages(&volume, &mut input);
    }
    let mut machine = Machine::new(&volume, MEMORY, 2, 0, choice & 2 == 2);
    for _ in 0..ACTS_MAX {
        if input.is_empty() {
            break;
        }
        act(&mut machine, &mut input);
    }
    for queue in 0..2 {
        machine.control.get_vring_base(queue).expect("stopped");
    }
    assert!(matches!(machine.end(), SessionEnd::Closed));
    let mut second = Machine::new(&volume, MEMORY, 1, 0, false);
    assert_eq!(second.request(0, 0, 0, &[], 512).0, 0, "a second machine is not served");
    assert!(matches!(second.end(), SessionEnd::Closed));
});
