//! Rebuild: what a member lags behind in is computed and written there; and the first resync of an array whose members
//! were not zeros when it was made.
//!
//! What is left to do is in the regions, which are on the members, so both go on by themselves after a restart.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_layout::parity::{self, Column};

use crate::stripe::parity_plan::{Health, UnitRun};
use crate::{ArrayShard, RETRY_NS};

/// Stripes worked on at the same time.
const STRIPES_AT_ONCE: usize = 8;
/// Regions between records of how far it has come.
const REGIONS_PER_RECORD: usize = 16;

impl<I: Io> ArrayShard<I> {
    /// Rebuilds and resyncs whenever there is something to do, for ever.
    pub(crate) async fn run_rebuilder(self: Rc<Self>) {
        self.rebuilder.kick();
        loop {
            self.rebuilder.kicked().await;
            let mut done = 0;
            while !self.failed.get() {
                let stale = self.stale_here();
                let uneven = self.regions.borrow().uneven().ones().next();
                let worked = match (stale, uneven) {
                    (Some((member, region)), _) => self.rebuild_region(member, region).await,
                    (None, Some(region)) => self.even_region(region).await,
                    (None, None) => break,
                };
                done += usize::from(worked);
                if !worked {
                    self.io.mark(Mark::ArrayRebuildRetried);
                    self.io.sleep(RETRY_NS).await;
                } else if done % REGIONS_PER_RECORD == 0 {
                    let _ = self.flush().await;
                }
            }
            if done > 0 {
                let _ = self.flush().await;
            }
        }
    }

    /// A member that is there and lags behind, and a region in which it does.
    fn stale_here(&self) -> Option<(MemberId, usize)> {
        let regions = self.regions.borrow();
        let members = (0..self.slice().geometry.members()).map(|m| MemberId(m as u8));
        members
            .filter(|&m| self.members.is_active(m))
            .find_map(|m| Some((m, regions.stale(usize::from(m.0)).ones().next()?)))
    }

    /// Brings a member up to date in a region; false when that cannot be done now. It lags behind until the log needs
    /// nothing from before it came: what it lacks there must not pass for what was never appended (`replay`).
    async fn rebuild_region(&self, member: MemberId, region: usize) -> bool {
        let version = self.members.version();
        let stripes: Vec<u64> = self.slice().region_stripes(region).collect();
        for stripes in stripes.chunks(STRIPES_AT_ONCE) {
            let work = stripes.iter().map(|&stripe| self.rebuild_unit(stripe, member));
            if join_all(work).await.contains(&false) {
                return false;
            }
        }
        let settled = self.tail_past_changes().await && self.flush().await.is_ok();
        if !settled || self.members.lost_since(member, version) {
            self.io.mark(Mark::ArrayRebuildVoid);
            return false;
        }
        self.io.mark(Mark::ArrayRebuilt);
        self.regions.borrow_mut().renew(usize::from(member.0), region);
        true
    }

    async fn rebuild_unit(&self, stripe: u64, member: MemberId) -> bool {
        let find = || {
            let slice = self.slice();
            (0..slice.width(stripe)).find(|&unit| slice.member(stripe, unit) == member)
        };
        if find().is_none() {
            return true;
        }
        let chunk_blocks = self.slice().chunk_blocks;
        self.throttle.pay(&self.io, u64::from(chunk_blocks) * BLOCK_BYTES as u64).await;
        let _held = self.locks.alone(stripe).await;
        // It may have moved meanwhile.
        let Some(unit) = find() else { return true };
        let whole = UnitRun { unit, offset: 0, blocks: chunk_blocks };
        let Ok(mut content) = self.reconstruct(stripe, whole, &[unit]).await else {
            self.io.mark(Mark::ArrayRebuildUnreadable);
            return false;
        };
        let (at, mut offset) = self.place(stripe, unit, 0);
        if mutation::on(Mutation::RebuildShort) && whole.blocks > 1 {
            content = content.slice(BLOCK_BYTES, content.len() - BLOCK_BYTES);
            offset += BLOCK_BYTES as u64;
        }
        match self.members.write_at(at, offset, Rc::new([content])).await {
            Ok(()) => {
                self.counters.chunks_rebuilt.add(1);
                true
            }
            Err(error) => {
                self.io.mark(Mark::ArrayRebuildMemberLost);
                self.members.report_failure(at, error).await;
                false
            }
        }
    }

    /// The first resync of a region.
    async fn even_region(&self, region: usize) -> bool {
        let (stripes, version) = (self.slice().stripes, self.members.version());
        // Members that are out lack what is put right now.
        self.regions.borrow_mut().begin(region);
        let marked = if self.has_log() { self.mark(&[region]).await } else { Ok(()) };
        let resynced = marked.is_ok() && self.resync_region(region).await;
        self.regions.borrow_mut().end(region);
        // The array may have got more stripes meanwhile, some of them in this region.
        let same = self.slice().stripes == stripes && self.members.version() == version;
        let done = resynced && self.flush().await.is_ok() && same;
        if done {
            self.io.mark(Mark::ArrayEvened);
            self.regions.borrow_mut().set_even(region);
        }
        done
    }

    /// Makes parity match data, or copies each other, in a whole region; false where too little can be read for that.
    pub(crate) async fn resync_region(&self, region: usize) -> bool {
        let stripes: Vec<u64> = self.slice().region_stripes(region).collect();
        let mut whole = true;
        for stripes in stripes.chunks(STRIPES_AT_ONCE) {
            let resynced = join_all(stripes.iter().map(|&stripe| self.resync_stripe(stripe))).await;
            whole &= !resynced.contains(&false);
        }
        whole
    }

    async fn resync_stripe(&self, stripe: u64) -> bool {
        let bytes = u64::from(self.slice().chunk_blocks) * BLOCK_BYTES as u64;
        self.throttle.pay(&self.io, bytes * self.slice().w as u64).await;
        let _held = self.locks.alone(stripe).await;
        self.counters.stripes_resynced.add(1);
        self.compare(stripe, |_| ()).await
    }

    /// Compares a stripe's redundancy with what it should be and puts right what differs or cannot be read, telling of
    /// each such unit; false where too little can be read to say. Units that are not there, or lag behind, are left to
    /// rebuild, which needs the others to agree: data among them is what parity, P first, says. The caller holds the
    /// stripe alone.
    pub(crate) async fn compare(&self, stripe: u64, mut wrong: impl FnMut(usize)) -> bool {
        let whole = |unit| UnitRun { unit, offset: 0, blocks: self.slice().chunk_blocks };
        let mut bad = Vec::new();
        let (health, read) = loop {
            let health = self.health(stripe, &bad);
            let readable = |unit: &usize| health.readable[*unit];
            let there: Vec<UnitRun> = (0..self.slice().width(stripe)).filter(readable).map(whole).collect();
            let has_right = if self.slice().is_mirror() {
                !there.is_empty()
            } else {
                health.parity_for(health.lost_data()).is_ok()
            };
            if !has_right {
                self.io.mark(Mark::ArrayCompareVoid);
                return false;
            }
            match self.read_runs(stripe, &there).await {
                Ok(read) => break (health, read),
                Err(unit) => bad.push(unit),
            }
        };
        let right = self.right_units(&health, &read);
        let differs = |(run, buf): &&(UnitRun, Buf)| buf.bytes() != right[run.unit].bytes();
        let differing: Vec<usize> = read.iter().filter(differs).map(|(run, _)| run.unit).collect();
        for unit in differing.into_iter().chain(bad) {
            self.io.mark(Mark::ArrayDiffered);
            wrong(unit);
            self.mend(stripe, whole(unit), &right[unit]).await;
        }
        true
    }

    /// What each unit should hold, given what was read: the first copy, or the data, and what parity says of data that
    /// was not.
    fn right_units(&self, health: &Health, read: &[(UnitRun, Buf)]) -> Vec<Buf> {
        if self.slice().is_mirror() {
            return vec![read[0].1.clone(); self.slice().w];
        }
        let (k, m, bytes) = (health.k, self.slice().m, read[0].1.len());
        let lost: Vec<usize> = (0..k).filter(|&column| !health.readable[column]).collect();
        let mut known = vec![Column::Lost; k + m];
        read.iter().for_each(|(run, buf)| known[run.unit] = Column::Present(buf.bytes()));
        let mut recovered: Vec<Buf> = lost.iter().map(|_| Buf::stale(bytes)).collect();
        if !lost.is_empty() {
            self.io.mark(Mark::ArrayComparedWithout);
            let mut places: Vec<&mut [u8]> = recovered.iter_mut().map(Buf::bytes_mut).collect();
            parity::reconstruct(&known, k, m, &lost, &mut places)
                .expect("no more are lost than there is parity");
        }
        let mut units: Vec<Option<Buf>> = vec![None; k];
        read.iter()
            .filter(|(run, _)| run.unit < k)
            .for_each(|(run, buf)| units[run.unit] = Some(buf.clone()));
        lost.into_iter().zip(recovered).for_each(|(column, buf)| units[column] = Some(buf));
        let mut units: Vec<Buf> = units.into_iter().map(|unit| unit.expect("read or recovered")).collect();
        let mut parity: Vec<Buf> = (0..m).map(|_| Buf::stale(bytes)).collect();
        let columns: Vec<Option<&[u8]>> = units.iter().map(|buf| Some(buf.bytes())).collect();
        let mut places: Vec<&mut [u8]> = parity.iter_mut().map(Buf::bytes_mut).collect();
        parity::compute(&columns, &mut places);
        units.append(&mut parity);
        units
    }
}
