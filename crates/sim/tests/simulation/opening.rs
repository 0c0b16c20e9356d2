//! Aborted openings, and the configuration that wins after them.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_layout::Level;
use sinew_sim::{DeviceConfig, EIO, Fault, OpKind, OpenPool, World};

fn filled(byte: u8) -> Buf {
    Buf::copy_of(&[byte; BLOCK_BYTES])
}

/// Opens the array on these members, writes and reads, and closes it.
fn serve(world: &World, members: &[Candidate], write: Option<u8>) -> Result<u8, String> {
    let (io, members) = (world.io(), members.to_vec());
    let served = world.block_on(async move {
        let opened = OpenPool::open(io.clone(), members, || false).await;
        let pool: Rc<OpenPool> = Rc::new(opened.map_err(|error| error.to_string())?);
        let volume = pool.volume("v").unwrap();
        if let Some(byte) = write {
            volume.write(0, filled(byte), true).await.unwrap();
        }
        let found = volume.read(0, BLOCK_BYTES as u32).await.unwrap();
        // Time for a rebuild.
        io.sleep(1_000_000_000).await;
        pool.control.close().await.unwrap();
        Ok(found[0].bytes()[0])
    });
    world.kill_process();
    served.unwrap()
}

/// An opening is stored on one member only, which fails meanwhile. The other member is opened alone. When both are back, in
/// any order, the winner must not depend on which configuration is newer: both openings have the same epoch.
#[test]
fn an_opening_that_did_not_come_about_counts_for_nothing() {
    for reversed in [false, true] {
        let world = World::new(3);
        let candidate = |i| Candidate {
            device: world.add_device(DeviceConfig::of_bytes(8 << 20)),
            path: format!("m{i}"),
        };
        let mut members: Vec<Candidate> = (0..2).map(candidate).collect();
        let (io, made) = (world.io(), members.clone());
        let array = ArraySpec {
            level: Level::Raid1,
            chunk_bytes: 65536,
            journal: false,
            spares: 0,
            zeroed: true,
            elastic: None,
        };
        let kind = PoolKind::Array(array);
        let spec = PoolSpec {
            name: "v".to_owned(),
            kind,
            shards: 1,
            journal_blocks: None,
            force: false,
            physical: None,
        };
        world.block_on(async move { pool::create(&io, &made, &spec).await.unwrap() }).unwrap();
        assert_eq!(serve(&world, &members, Some(1)), Ok(1));

        world.device(members[0].device).script(OpKind::Flush, None, Fault::Error(EIO));
        assert!(serve(&world, &members, None).unwrap_err().contains("m0"));
        assert_eq!(serve(&world, &members[1..], Some(2)), Ok(2));
        if reversed {
            members.reverse();
        }
        assert_eq!(serve(&world, &members, None), Ok(2));
        // The member that failed has been brought up to date.
        let failed = members.iter().find(|m| m.path == "m0").unwrap().clone();
        assert_eq!(serve(&world, &[failed], None), Ok(2));
    }
}
