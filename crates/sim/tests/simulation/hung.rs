//! Members that hang: while another has vanished and nothing was asked of that one since, or while orders fill the log of an array.
//!
//! Scenarios that show a deliberate defect say what is wrong instead of panicking.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::Volume;
use sinew_engine::pool::{Candidate, PoolKind};
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::{Level, Rotation};
use sinew_members::latency::SpikeAvoidance;
use sinew_sim::{CrashPolicy, OpenPool, World};

use crate::damage;
use crate::opening::made;

const SECOND: u64 = 1_000_000_000;
/// Longer than the I/O timeout.
const HANG_NS: u64 = 25 * SECOND;
/// Shorter than it.
const LATE_NS: u64 = 5 * SECOND;

struct Scene {
    world: World,
    members: Vec<Candidate>,
    pool: OpenPool,
}

impl Scene {
    /// An open pool with a volume whose first block is written. Nothing is read around slow members: that would find others gone.
    fn new(protection: Protection, members: usize) -> Scene {
        let world = World::new(1);
        let members =
            made(&world, members, PoolKind::Mapped { protection, data_columns: 0, checksums: true });
        let pool = world.block_on(OpenPool::open(world.io(), members.clone(), || false)).unwrap().unwrap();
        let control = Rc::clone(&pool.control);
        world
            .block_on(async move {
                control.create_volume("v", 1 << 20).await.unwrap();
                control.set_spike_avoidance(SpikeAvoidance::Off).await;
            })
            .unwrap();
        let volume = pool.volume("v").unwrap();
        let write = async move { volume.write(0, Buf::copy_of(&[7; BLOCK_BYTES]), true).await };
        world.block_on(write).unwrap().unwrap();
        world.run_for(SECOND).unwrap();
        Scene { world, members, pool }
    }

    fn silence(&self, member: usize) {
        self.world.device(self.members[member].device).silence(HANG_NS);
    }

    fn detach(&self, member: usize) {
        self.world.device(self.members[member].device).detach(CrashPolicy::KeepAll);
    }

    fn read(&self) -> Result<(), String> {
        let volume = self.pool.volume("v").unwrap();
        let read = self.world.block_on(async move { volume.read(0, BLOCK_BYTES as u32).await }).unwrap();
        let found = read.map_err(|error| error.to_string())?;
        assert_eq!(found[0].bytes(), [7; BLOCK_BYTES]);
        Ok(())
    }

    fn state(&self, member: usize) -> MemberState {
        self.pool.control.config().members[member].state
    }
}

/// The pool waits for a hung member that it needs, since another has vanished, whichever has the block.
pub(crate) fn other_members_are_asked() -> Result<(), String> {
    for hung in 0..3 {
        let scene = Scene::new(Protection::Parity1, 3);
        scene.silence(hung);
        scene.detach((hung + 1) % 3);
        scene.read().map_err(|error| format!("member {hung}: {error}"))?;
        assert_eq!(scene.state(hung), MemberState::Active);
    }
    Ok(())
}

/// The same while an order that takes another member out waits for the hung one.
pub(crate) fn outgoing_members_count() -> Result<(), String> {
    let scene = Scene::new(Protection::Mirror { copies: 3 }, 4);
    scene.silence(1);
    scene.detach(2);
    let control = Rc::clone(&scene.pool.control);
    scene.world.spawn(async move { drop(control.offline(0).await) });
    scene.world.run_for(HANG_NS + SECOND).unwrap();
    scene.read()?;
    assert_eq!(
        [0, 1, 2].map(|member| scene.state(member)),
        [MemberState::Offline, MemberState::Active, MemberState::Failed]
    );
    Ok(())
}

/// Orders of scrubs, given while the destager waits for a member that answers late, leave it the room that it needs in the log.
pub(crate) fn orders_leave_room_in_the_log() -> Result<(), String> {
    let scene = damage::Scene::new(damage::array(Level::Raid5(Rotation::LeftSymmetric), true));
    let control = Rc::clone(&scene.pool().control);
    scene.world.device(scene.candidates[0].device).silence(LATE_NS);
    for client in 0..8 {
        let volume = scene.pool().volume("v").unwrap();
        scene.world.spawn(async move {
            for block in (client..20 * damage::BLOCKS).step_by(8).map(|n| n % damage::BLOCKS) {
                let data = Buf::copy_of(&damage::content(block));
                let _ = volume.write(block * damage::BLOCK, data, false).await;
            }
        });
    }
    scene.world.spawn(async move {
        for order in 0..400 {
            let _ = control.scrub(order % 2 == 0).await;
        }
    });
    scene.world.run_for(LATE_NS + SECOND).unwrap();
    let (volume, is_written) = (scene.pool().volume("v").unwrap(), Rc::new(Cell::new(false)));
    let written = Rc::clone(&is_written);
    scene.world.spawn(async move {
        written.set(volume.write(0, Buf::copy_of(&damage::content(0)), true).await.is_ok());
    });
    scene.world.run_for(SECOND).unwrap();
    if is_written.get() { Ok(()) } else { Err("a write waits for room in the log".to_owned()) }
}

#[test]
fn orders_of_scrubs_leave_the_destager_room() {
    orders_leave_room_in_the_log().unwrap();
}

#[test]
fn a_hung_member_is_not_given_up_where_another_has_vanished() {
    other_members_are_asked().unwrap();
}

#[test]
fn a_hung_member_is_not_given_up_while_others_are_taken_out() {
    outgoing_members_count().unwrap();
}
