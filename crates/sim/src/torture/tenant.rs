//! A tenant: makes a volume, uses it, resizes it and deletes it, while the other clients work.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::control::{ControlError, VolumeOptions};

use crate::host::OpenPool;
use crate::random::Rng;
use crate::torture::clients::{Work, flush, read, write};
use crate::torture::failure::{Kind, Wrong};

/// Blocks of a tenant's volume at most.
const BLOCKS_MAX: u64 = 600;

/// Whether a tenant's volume exists when the pool is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existence {
    /// Its creation or deletion was under way.
    Unknown,
    Certain,
}

/// The volumes of all tenancies so far that may still be there.
#[derive(Default)]
pub(crate) struct Tenancies {
    volumes: RefCell<BTreeMap<usize, Existence>>,
    begun: Cell<usize>,
}

fn name(volume: usize) -> String {
    format!("tenant-{volume}")
}

impl Tenancies {
    /// Tenancies so far.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.get() as u64
    }

    /// Finds the volumes that exist after the pool was opened.
    pub(crate) fn reopened(&self, work: &Work, pool: &OpenPool) -> Result<(), Wrong> {
        for (&volume, &existence) in &*self.volumes.borrow() {
            match pool.volume(&name(volume)) {
                Some(handle) => drop(work.volumes.borrow_mut().insert(volume, handle)),
                None if existence == Existence::Certain => {
                    return Err(Kind::WrongData.of(format!("volume {} is gone", name(volume))));
                }
                None => {}
            }
        }
        let is_known = |found: &String| {
            !found.starts_with("tenant") || self.volumes.borrow().keys().any(|&v| *found == name(v))
        };
        match pool.control.catalog().names().iter().find(|found| !is_known(found)) {
            Some(found) => Err(Kind::WrongData.of(format!("volume {found} was deleted and is there again"))),
            None => {
                self.volumes.borrow_mut().retain(|volume, _| work.volumes.borrow().contains_key(volume));
                Ok(())
            }
        }
    }

    /// The tenant of one opening: deletes the volumes of earlier openings, then creates and deletes one volume after another.
    pub(crate) async fn live(self: Rc<Self>, work: Rc<Work>, pool: Rc<OpenPool>, mut rng: Rng) {
        let left: Vec<usize> = self.volumes.borrow().keys().copied().collect();
        for volume in left {
            self.delete(&work, &pool, volume).await;
        }
        for _ in 0..work.plan.tenancies {
            if work.wrong.borrow().is_some() {
                break;
            }
            let volume = work.plan.volumes.len() + self.begun.get();
            self.begun.set(self.begun.get() + 1);
            if self.create(&work, &pool, volume, rng.between(1, BLOCKS_MAX)).await {
                for _ in 0..rng.between(1, 4) {
                    use_volume(&work, volume, &mut rng).await;
                    resize(&work, &pool, volume, rng.between(1, BLOCKS_MAX)).await;
                    protect(&work, &pool, volume, &mut rng).await;
                }
                use_volume(&work, volume, &mut rng).await;
                if rng.chance(0.8) {
                    self.delete(&work, &pool, volume).await;
                }
            }
        }
        work.at_work.set(work.at_work.get() - 1);
    }

    async fn create(&self, work: &Work, pool: &OpenPool, volume: usize, blocks: u64) -> bool {
        work.note(|| format!("making volume {volume} of {blocks} blocks"));
        self.volumes.borrow_mut().insert(volume, Existence::Unknown);
        let options =
            VolumeOptions { protection: work.plan.volume_protection(volume), ..VolumeOptions::default() };
        match pool.control.create_volume_with(&name(volume), blocks * BLOCK_BYTES as u64, options).await {
            Ok(_) => {
                self.volumes.borrow_mut().insert(volume, Existence::Certain);
                let handle = pool.volume(&name(volume));
                work.volumes.borrow_mut().insert(volume, handle.expect("a volume just made"));
                true
            }
            // The pool is small.
            Err(ControlError::VolumeSize { .. } | ControlError::NoRoomForMirrors) => false,
            Err(error) => {
                work.refuse(format!("making a volume: {error}"));
                false
            }
        }
    }

    async fn delete(&self, work: &Work, pool: &OpenPool, volume: usize) {
        work.note(|| format!("deleting volume {volume}"));
        self.volumes.borrow_mut().insert(volume, Existence::Unknown);
        let handle = work.volume(volume);
        if let Err(error) = pool.control.delete_volume(&name(volume)).await {
            return work.refuse(format!("deleting a volume: {error}"));
        }
        if handle.read(0, BLOCK_BYTES as u32).await.err() != Some(VolumeError::Gone) {
            work.complain(Kind::WrongAnswer, "a deleted volume can be read".to_owned());
        }
        self.volumes.borrow_mut().remove(&volume);
        work.volumes.borrow_mut().remove(&volume);
        work.oracle.borrow_mut().forget(volume);
    }
}

/// Changes the protection of a volume, the tenant's or one that the other clients use, where a pool offers several.
async fn protect(work: &Work, pool: &OpenPool, tenants: usize, rng: &mut Rng) {
    let Some(protections) = work.plan.volume_protections().filter(|_| rng.chance(0.7)) else { return };
    let protection = protections[rng.below(2) as usize];
    let others = work.plan.volumes.len() as u64;
    let name = match rng.below(others + 1) {
        other if other < others => format!("v{other}"),
        _ => name(tenants),
    };
    work.note(|| format!("{name} becomes {protection}"));
    match pool.control.set_volume_protection(&name, protection).await {
        Ok(()) | Err(ControlError::NoRoomForMirrors | ControlError::VolumeMoving(_)) => {}
        Err(error) => work.refuse(format!("changing the protection of {name}: {error}")),
    }
}

async fn use_volume(work: &Rc<Work>, volume: usize, rng: &mut Rng) {
    let size = work.volume(volume).size_bytes() / BLOCK_BYTES as u64;
    for _ in 0..rng.between(1, 8) {
        let start = rng.below(size);
        let count = rng.between(1, 100).min(size - start);
        write(work, volume, start, count, rng.chance(0.2)).await;
    }
    if rng.chance(0.3) {
        flush(work, volume).await;
    }
    read(work, volume, 0, size).await;
}

/// Resizes a volume. The blocks between the smaller and the larger size read as zeros from then on.
async fn resize(work: &Rc<Work>, pool: &OpenPool, volume: usize, blocks: u64) {
    let before = work.volume(volume).size_bytes() / BLOCK_BYTES as u64;
    let dropped = before.min(blocks)..before.max(blocks);
    dropped.clone().for_each(|n| work.oracle.borrow_mut().begin_zero((volume, n)));
    let result = pool.control.resize_volume(&name(volume), blocks * BLOCK_BYTES as u64).await;
    dropped.for_each(|n| work.oracle.borrow_mut().end((volume, n), result.is_ok()));
    match result {
        Ok(()) => {
            let past = work.volume(volume).read(blocks * BLOCK_BYTES as u64, BLOCK_BYTES as u32).await;
            if past.as_ref().err() != Some(&VolumeError::OutOfRange) {
                work.complain(Kind::WrongAnswer, format!("a read past the new end: {past:?}"));
            }
        }
        Err(ControlError::VolumeSize { .. }) => {}
        Err(error) => work.refuse(format!("resizing a volume: {error}")),
    }
}
