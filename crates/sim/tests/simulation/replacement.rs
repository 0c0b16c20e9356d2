//! Power losses while a member is replaced by its own device.
//!
//! The scenario that shows a deliberate defect says what is wrong instead of panicking.

use std::ops::Range;
use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_format::model::config::MemberState;
use sinew_sim::{CrashPolicy, OpenPool, Rng, World};

use crate::opening::{made, mirror};

const CHUNK_BYTES: u32 = 64 << 10;
const REPLACED: usize = 0;
const OTHER: usize = 1;
/// Steps of the world in which the device is erased and written.
const STEPS: u64 = 32;
const SETTLED_NS: u64 = 60_000_000_000;
/// A time after which everything is rebuilt.
const REBUILT_NS: u64 = 60_000_000_000;

fn content(chunk: u64) -> Buf {
    Buf::copy_of(&[chunk as u8 + 1; CHUNK_BYTES as usize])
}

/// Power fails in a replacement. What then comes back as the member has all that the member held.
fn power_fails_in_a_replacement(seed: u64) -> Result<(), String> {
    let mut rng = Rng::stream(seed, "replacement", 0);
    let world = World::new(seed);
    let members = made(&world, 2, mirror(CHUNK_BYTES));
    let open = || world.block_on(OpenPool::open(world.io(), members.clone(), || false)).unwrap().unwrap();
    let pool = open();
    let (control, volume) = (Rc::clone(&pool.control), pool.volume("v").unwrap());
    let chunks = volume.size_bytes() / u64::from(CHUNK_BYTES);
    let io = world.io();
    let filled = async move {
        for chunk in 0..chunks {
            volume.write(chunk * u64::from(CHUNK_BYTES), content(chunk), false).await.unwrap();
        }
        volume.flush().await.unwrap();
        // Until no region counts as being written.
        io.sleep(SETTLED_NS).await;
        control.offline(REPLACED).await.unwrap();
    };
    world.block_on(filled).unwrap();
    let (control, device) = (Rc::clone(&pool.control), members[REPLACED].clone());
    world.spawn(async move { drop(control.replace(REPLACED, Some(device), true).await) });
    world.run_steps(rng.below(STEPS));
    drop(pool);
    world.crash(CrashPolicy::Mix { keep: 0.5, torn: 0.1 });

    let pool = open();
    let control = Rc::clone(&pool.control);
    if control.config().members[REPLACED].state != MemberState::Active {
        let device = members[REPLACED].clone();
        // It is refused once it is erased.
        if world.block_on(async move { control.online(REPLACED, device).await }).unwrap().is_err() {
            return Ok(());
        }
    }
    world.run_for(REBUILT_NS).unwrap();
    let (control, volume) = (Rc::clone(&pool.control), pool.volume("v").unwrap());
    let read = async move {
        control.offline(OTHER).await.unwrap();
        for chunk in 0..chunks {
            let read = volume.read(chunk * u64::from(CHUNK_BYTES), CHUNK_BYTES).await.unwrap();
            let bytes: Vec<u8> = read.iter().flat_map(|buf| buf.bytes()).copied().collect();
            if bytes != content(chunk).bytes() {
                return Err(format!("seed {seed}: the member is back without chunk {chunk}"));
            }
        }
        Ok(())
    };
    world.block_on(read).unwrap()
}

/// For mutations: power fails at one moment in each of these runs.
pub(crate) fn power_losses_leave_members_whole(seeds: Range<u64>) -> Result<(), String> {
    seeds.into_iter().try_for_each(power_fails_in_a_replacement)
}

#[test]
fn a_device_that_was_erased_in_part_does_not_come_back() {
    power_losses_leave_members_whole(0..64).unwrap();
}
