//! The steps of recovery, in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::log_group::IMAGE_OF_P;
use sinew_format::model::array_shard_layout::ShardLayout;
use sinew_members::members::Members;
use sinew_members::open_error::RecoverError;
use sinew_members::pool_shard::OpenShard;
use sinew_members::recovery_report::RecoveryReport;

use crate::bitmap::regions::Regions;
use crate::forms::pages::FormPages;
use crate::forms::table::FormTable;
use crate::journal::dirty_blocks::DirtyBlocks;
use crate::journal::log::LogStart;
use crate::journal::progress::Resumed;
use crate::recovery::Recovery;
use crate::recovery::replay::{ImagePlace, Replayed};
use crate::recovery::ring_group::RingGroup;

/// Images written at once.
const IMAGES_AT_ONCE: usize = 64;

/// The state that recovery found, from which a shard is assembled.
pub(crate) struct Recovered<I> {
    pub(crate) io: I,
    pub(crate) layout: ShardLayout,
    pub(crate) members: Members<I>,
    pub(crate) regions: Regions,
    pub(crate) forms: FormTable,
    pub(crate) form_pages: FormPages,
    pub(crate) log: LogStart,
    pub(crate) dirty: DirtyBlocks,
    pub(crate) resumed: Resumed,
    /// Images for whose places members have no space.
    pub(crate) unplaced: Vec<UnplacedImage>,
    /// The stripes that have images.
    pub(crate) imaged: BTreeSet<u64>,
    pub(crate) report: RecoveryReport,
}

/// One block of an image that is not in its place.
pub(crate) struct UnplacedImage {
    pub(crate) stripe: u64,
    pub(crate) place: (MemberId, u64),
    pub(crate) data: Buf,
}

/// Reads the state of a shard of an array from its members.
///
/// # Errors
/// When the content of the active members is not enough, or impossible.
pub(crate) async fn recover<I: Io>(open: OpenShard<'_, I>) -> Result<Recovered<I>, RecoverError> {
    let OpenShard { io, index, config, devices, control, mode, .. } = open;
    let geometry = *config.geometry.array().expect("the pool is an array");
    let members = Members::new(io.clone(), index, control, &config.members, devices, mode);
    let report = RecoveryReport::default();
    let layout = ShardLayout::new(geometry, index);
    let mut recovery = Recovery { io, index, config, layout, members, report };
    let chain = if geometry.md.is_none() { recovery.whole_chain().await? } else { Vec::new() };
    let (table, form_pages) = recovery.read_forms().await?;
    let mut replayed = recovery.replay(&chain, table, form_pages).await?;
    let mut unplaced = Vec::new();
    if geometry.md.is_none() {
        // The next recovery goes by the content of the log as it is now.
        recovery.flush().await?;
        unplaced = recovery.write_images(&replayed.images).await?;
        recovery.flush().await?;
    }
    for member in 0..geometry.members() {
        if !recovery.members.is_active(MemberId(member as u8)) && !mutation::on(Mutation::ForgetStale) {
            replayed.regions.note_lost(member);
        }
    }
    Ok(recovery.into_state(&chain, replayed, unplaced))
}

impl<I: Io> Recovery<I> {
    /// Writes images to their places on every active member; returns those for which a member has no space.
    async fn write_images(
        &self,
        images: &BTreeMap<ImagePlace, Buf>,
    ) -> Result<Vec<UnplacedImage>, RecoverError> {
        let mut unplaced = Vec::new();
        if mutation::on(Mutation::SkipReplay) {
            return Ok(unplaced);
        }
        let images: Vec<_> = images.iter().collect();
        if !images.is_empty() {
            self.io.mark(Mark::ArrayRecoverImage);
        }
        for some in images.chunks(IMAGES_AT_ONCE) {
            let writes = some.iter().map(|(place, buf)| {
                let unit = match place.unit.checked_sub(IMAGE_OF_P) {
                    None => usize::from(place.unit),
                    Some(p) => self.layout.columns(place.stripe) + usize::from(p),
                };
                let (member, chunk) = self.layout.home(place.stripe, unit);
                let at = chunk + u64::from(place.offset) * BLOCK_BYTES as u64;
                let active = self.members.is_active(member);
                let image = UnplacedImage { stripe: place.stripe, place: (member, at), data: (*buf).clone() };
                async move { if active { self.write_image(image).await } else { Ok(None) } }
            });
            for written in join_all(writes).await {
                unplaced.extend(written?);
            }
        }
        Ok(unplaced)
    }

    /// Writes one block of an image; gives it back when its member has no space.
    async fn write_image(&self, image: UnplacedImage) -> Result<Option<UnplacedImage>, RecoverError> {
        let (member, offset) = image.place;
        let data: Gather = Rc::new([image.data.clone()]);
        match self.members.write_at(member, offset, data).await {
            Ok(()) => Ok(None),
            Err(IoError::NoSpace) => {
                self.io.mark(Mark::ArrayRecoverUnplaced);
                Ok(Some(image))
            }
            Err(_) => Err(self.lost(member)),
        }
    }

    fn into_state(
        self,
        chain: &[RingGroup],
        replayed: Replayed,
        unplaced: Vec<UnplacedImage>,
    ) -> Recovered<I> {
        let ring_blocks = self.layout.geometry.log_blocks;
        let imaged = replayed.images.keys().map(|place| place.stripe).collect();
        let mut dirty = DirtyBlocks::default();
        let mut newest: Vec<(u64, u64, u32, Buf)> = Vec::new();
        for ((stripe, slot), mut versions) in replayed.data {
            let Some((seq, data)) = versions.pop() else { continue };
            newest.push((seq, stripe, slot, data));
        }
        newest.sort_by_key(|&(seq, stripe, slot, _)| (seq, stripe, slot));
        for (seq, stripe, slot, data) in newest {
            dirty.insert(seq, stripe, slot, data);
        }
        // Numbers begin at one turn of the ring, so that 0 stands for no group.
        let (last, next, tail) = match (chain.first(), chain.last()) {
            (Some(first), Some(last)) => {
                let last = last.group.header;
                (last.seq, last.seq + u64::from(last.blocks), first.group.header.seq)
            }
            _ => (0, u64::from(ring_blocks), u64::from(ring_blocks)),
        };
        let log = LogStart {
            ring_blocks,
            client_blocks: self.layout.geometry.client_blocks(),
            epoch: self.config.epoch,
            last,
            next,
            tail,
            state: if replayed.state > 0 { replayed.state } else { tail },
        };
        let resumed = Resumed { scrub: replayed.work.scrub, moved: self.layout.moved() };
        Recovered {
            io: self.io,
            layout: self.layout,
            members: self.members,
            regions: replayed.regions,
            forms: replayed.forms,
            form_pages: replayed.form_pages,
            log,
            dirty,
            resumed,
            unplaced,
            imaged,
            report: self.report,
        }
    }
}
