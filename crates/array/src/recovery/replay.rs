//! Replay: the state that the groups of the log amount to.
//!
//! An *after-image* is spread over the members like its stripe: its parity is in the ring of the member that the parity belongs
//! to, and nowhere else; its data is on f + 1 members with the head of the group, or, where it does not change, in its place.
//! So a missing member costs one unit of the after-image, as of the stripe.
//!
//! - Parity of a member that is out, or stale in the stripe's region, is not needed: no task reads it in its place before a
//!   rebuild has computed it.
//! - In a destage round that may have begun to change stripes, the members that count lack no more of an after-image than the
//!   array survives: all of it was durable before, and a member that was out since then counts as stale until the log needs
//!   no group from before its return (`Rebuild::rebuild_region`). So a missing unit is one that cannot be read any more. It is
//!   reconstructed from the others, as in a stripe, and is right if it has the checksum that the group has for it. It goes to
//!   the ring, durably, before any image goes to its place: the next recovery may find other members, and must decide alike.
//! - If more is missing, the group was not wholly appended and no stripe was changed: this after-image is void. Its blocks are
//!   still dirty.
//!
//! Images of rows that a growth changes are whole on each member that has the head.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::group_striping::PARITY_MAX;
use sinew_format::log_group::{Group, GroupRecord, IMAGE_OF_P, Part};
use sinew_format::model::form::Form;
use sinew_members::open_error::RecoverError;
use sinew_members::stripe_columns::StripeColumns;

use crate::bitmap::regions::{LongWork, Regions};
use crate::forms::page_of;
use crate::forms::pages::FormPages;
use crate::forms::table::FormTable;
use crate::journal::group_builder::each_stripe;
use crate::recovery::Recovery;
use crate::recovery::ring_group::RingGroup;

/// The place of a block of an image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImagePlace {
    pub(super) stripe: u64,
    /// As images number units.
    pub(super) unit: u16,
    pub(super) offset: u32,
}

/// The state that the groups amount to.
pub(super) struct Replayed {
    pub(super) regions: Regions,
    /// The forms, with the changes that the groups have.
    pub(super) forms: FormTable,
    pub(super) form_pages: FormPages,
    pub(super) work: LongWork,
    /// The last group with a state.
    pub(super) state: u64,
    /// Dirty blocks, by stripe and slot: their versions and the groups of these, oldest first.
    pub(super) data: BTreeMap<(u64, u32), Vec<(u64, Buf)>>,
    /// Images to be written to their places.
    pub(super) images: BTreeMap<ImagePlace, Buf>,
    /// Images that count once the log says that their rows have changed.
    changing: BTreeMap<ImagePlace, Buf>,
}

/// For each parity column of an after-image: its place in the log, and the content that was read there.
type FoundParity = [Option<(Part, Option<Buf>)>; PARITY_MAX];

/// A stripe's after-image, or a part of it.
struct AfterImage<'a> {
    stripe: u64,
    upto: u64,
    slots: &'a [(u32, u32)],
    offsets: &'a [(u32, u32)],
    parity: FoundParity,
}

fn each(runs: &[(u32, u32)]) -> impl Iterator<Item = u32> {
    runs.iter().flat_map(|&(first, count)| first..first + count)
}

fn block(data: &Buf, i: usize) -> Buf {
    data.slice(i * BLOCK_BYTES, BLOCK_BYTES)
}

fn within(runs: &[(u32, u32)], limit: u32) -> bool {
    runs.iter().all(|&(first, count)| first.checked_add(count).is_some_and(|end| end <= limit))
}

impl<I: Io> Recovery<I> {
    /// Replays groups, in order.
    ///
    /// # Errors
    /// When a record is impossible, or a member fails.
    pub(super) async fn replay(
        &mut self,
        chain: &[RingGroup],
        forms: FormTable,
        form_pages: FormPages,
    ) -> Result<Replayed, RecoverError> {
        let mut replayed = self.last_state(chain, forms, form_pages)?;
        let growing = self.layout.growth().is_some() || self.layout.changing().is_some();
        if growing && usize::from(replayed.work.moving_to) == self.layout.geometry.members() {
            self.layout.set_moved(replayed.work.moved);
        }
        for found in chain {
            let group = &found.group;
            let mut parity = self.read_parity(group).await.into_iter();
            let mut after_images: BTreeMap<usize, FoundParity> = BTreeMap::new();
            let mut data: BTreeMap<usize, Buf> = BTreeMap::new();
            for part in &group.parts {
                let bytes = part.blocks as usize * BLOCK_BYTES;
                if let Some((p, _)) = part.parity {
                    let read = parity.next().expect("one for each part");
                    after_images.entry(part.record).or_default()[p] = Some((*part, read));
                } else {
                    data.insert(part.record, found.bytes.slice(part.first as usize * BLOCK_BYTES, bytes));
                }
            }
            for (i, record) in group.records.iter().enumerate() {
                let parity = after_images.remove(&i).unwrap_or_default();
                let data = data.remove(&i).unwrap_or_else(|| Buf::zeroed(0));
                self.replay_record(group, record, &data, parity, &mut replayed).await?;
            }
        }
        Ok(replayed)
    }

    /// The last state and the progress of a growth. Records of every group are checked against these.
    fn last_state(
        &self,
        chain: &[RingGroup],
        forms: FormTable,
        form_pages: FormPages,
    ) -> Result<Replayed, RecoverError> {
        let geometry = self.layout.geometry;
        let mut replayed = Replayed {
            regions: self.first_regions(),
            forms,
            form_pages,
            work: LongWork::default(),
            state: 0,
            data: BTreeMap::new(),
            images: BTreeMap::new(),
            changing: BTreeMap::new(),
        };
        for group in chain.iter().map(|found| &found.group) {
            for record in &group.records {
                match record {
                    GroupRecord::State(bytes) => {
                        let redundant = self.layout.tolerates() > 0;
                        let decoded =
                            Regions::decode(bytes, self.layout.regions(), geometry.members(), redundant);
                        let (regions, work) = decoded.map_err(|error| self.damaged(&error.to_string()))?;
                        (replayed.regions, replayed.work) = (regions, work);
                        replayed.state = group.header.seq;
                    }
                    GroupRecord::Changed { to, upto, .. } => {
                        (replayed.work.moved, replayed.work.moving_to) = (*upto, *to);
                    }
                    _ => {}
                }
            }
        }
        Ok(replayed)
    }

    /// The regions of an array without any write. Without redundancy, and while the stripes of an elastic array are empty, there
    /// is nothing to resync; but members that were not zeros may hold content that takes space.
    fn first_regions(&self) -> Regions {
        let geometry = self.layout.geometry;
        let in_sync = geometry.zeroed || self.layout.is_elastic() || self.layout.tolerates() == 0;
        let mut regions = Regions::new(self.layout.regions(), geometry.members(), in_sync);
        if self.layout.is_elastic() && !geometry.zeroed {
            (0..self.layout.regions()).for_each(|region| regions.set_untidy(region));
        }
        regions
    }

    fn damaged(&self, what: &str) -> RecoverError {
        RecoverError::Damaged { shard: self.index, what: what.to_owned() }
    }

    /// The parity of a group's after-images, part by part; `None` for a part that cannot be read or has another checksum.
    async fn read_parity(&mut self, group: &Group) -> Vec<Option<Buf>> {
        let parts: Vec<&Part> = group.parts.iter().filter(|part| part.parity.is_some()).collect();
        let runs: Vec<&[&Part]> = parts.chunk_by(|a, b| member_of(a) == member_of(b)).collect();
        let reads = runs.iter().map(|run| async {
            let member = MemberId(member_of(run[0]));
            let blocks: u32 = run.iter().map(|part| part.blocks).sum();
            let there = usize::from(member.0) < self.members.count() && self.members.is_active(member);
            let offset = self.ring_offset(group, run[0].first);
            let bytes = blocks as usize * BLOCK_BYTES;
            if there { self.members.read_at(member, offset, bytes).await.ok() } else { None }
        });
        let reads = join_all(reads).await;
        let mut found = Vec::with_capacity(parts.len());
        for (run, read) in runs.iter().zip(reads) {
            self.report.bytes_read += read.as_ref().map_or(0, |buf| buf.len() as u64);
            found.extend(run.iter().map(|part| {
                let from = (part.first - run[0].first) as usize * BLOCK_BYTES;
                let buf = read.as_ref()?.slice(from, part.blocks as usize * BLOCK_BYTES);
                group.has(part.first, buf.bytes()).then_some(buf)
            }));
        }
        found
    }

    async fn replay_record(
        &self,
        group: &Group,
        record: &GroupRecord,
        data: &Buf,
        parity: FoundParity,
        replayed: &mut Replayed,
    ) -> Result<(), RecoverError> {
        let layout = &self.layout;
        match record {
            GroupRecord::State(_) | GroupRecord::Striped { .. } => {}
            GroupRecord::Data { stripe, slot, blocks } => {
                if *stripe >= layout.stripes || !within(&[(*slot, *blocks)], layout.stripe_slots()) {
                    return Err(self.damaged("the journal names blocks that the array does not have"));
                }
                for i in 0..*blocks {
                    let versions = replayed.data.entry((*stripe, slot + i)).or_default();
                    versions.push((group.header.seq, block(data, i as usize)));
                }
            }
            GroupRecord::Drain { stripe, upto, slots, offsets, parity: members } => {
                let possible = *stripe < layout.stripes
                    && within(slots, layout.stripe_slots())
                    && within(offsets, layout.chunk_blocks)
                    && members.iter().flatten().all(|&m| usize::from(m) < layout.geometry.members())
                    && members.iter().skip(layout.m).all(Option::is_none);
                if !possible {
                    return Err(self.damaged("the journal names a stripe that the array does not have"));
                }
                self.replay_after_image(
                    group,
                    AfterImage { stripe: *stripe, upto: *upto, slots, offsets, parity },
                    replayed,
                )
                .await?;
            }
            GroupRecord::Image { stripe, unit, offset, blocks } => {
                let is_unit =
                    usize::from(*unit) < layout.k || usize::from(unit.wrapping_sub(IMAGE_OF_P)) < layout.m;
                if *stripe >= layout.stripes
                    || !is_unit
                    || !within(&[(*offset, *blocks)], layout.chunk_blocks)
                {
                    return Err(self.damaged("the journal names a row that the array does not have"));
                }
                for i in 0..*blocks {
                    let place = ImagePlace { stripe: *stripe, unit: *unit, offset: offset + i };
                    replayed.changing.insert(place, block(data, i as usize));
                }
            }
            GroupRecord::Changed { rows, .. } => {
                let changed = |row: u64| {
                    rows.iter().any(|&(first, count)| {
                        (u64::from(first)..u64::from(first) + u64::from(count)).contains(&row)
                    })
                };
                // Their places have other roles now, and the former content is in them.
                replayed.images.retain(|place, _| !changed(place.stripe));
                replayed.data.retain(|&(row, _), _| !changed(row));
                let changing = std::mem::take(&mut replayed.changing);
                let images = changing.into_iter().filter(|(place, _)| changed(place.stripe));
                for (place, buf) in images {
                    self.io.mark(Mark::ArrayRecoverChanged);
                    replayed.images.insert(place, buf);
                }
            }
            GroupRecord::Form { to, stripes } => {
                let possible = |&(first, count): &(u64, u32)| {
                    first.checked_add(u64::from(count)).is_some_and(|end| end <= layout.stripes)
                };
                if !layout.is_elastic() || !stripes.iter().all(possible) {
                    return Err(
                        self.damaged("the journal changes the form of stripes that the array does not have")
                    );
                }
                replayed.change_forms(*to, stripes, group.header.seq);
            }
        }
        Ok(())
    }

    /// Notes the images that an after-image has for its places.
    async fn replay_after_image(
        &self,
        group: &Group,
        mut image: AfterImage<'_>,
        replayed: &mut Replayed,
    ) -> Result<(), RecoverError> {
        if !self.complete(group, &mut image, replayed).await? {
            self.io.mark(Mark::ArrayRecoverImageVoid);
            return Ok(());
        }
        for slot in each(image.slots) {
            replayed.take_data(image.stripe, slot, image.upto, self.layout.chunk_blocks);
        }
        for (p, parity) in image.parity.iter().enumerate() {
            let found = parity.as_ref().and_then(|(_, found)| found.as_ref());
            for (i, offset) in each(image.offsets).enumerate() {
                let place = ImagePlace { stripe: image.stripe, unit: IMAGE_OF_P + p as u16, offset };
                // Older images of a parity that was not written, or is not needed, are void.
                match found {
                    Some(buf) => drop(replayed.images.insert(place, block(buf, i))),
                    None => drop(replayed.images.remove(&place)),
                }
            }
        }
        Ok(())
    }

    /// Whether the member is active and up to date in the stripe's region, apart from content that is in the log.
    fn counts(&self, member: MemberId, stripe: u64, replayed: &Replayed) -> bool {
        let is_stale = replayed.regions.is_stale(usize::from(member.0), self.layout.region(stripe));
        self.members.is_active(member) && !is_stale
    }

    /// Reconstructs the parity that members of an after-image should have and lack; false when too much of it is missing.
    async fn complete(
        &self,
        group: &Group,
        image: &mut AfterImage<'_>,
        replayed: &Replayed,
    ) -> Result<bool, RecoverError> {
        let missing: Vec<(usize, Part)> = (0..PARITY_MAX)
            .filter_map(|p| match &image.parity[p] {
                Some((part, None)) => Some((p, *part)),
                _ => None,
            })
            .filter(|(_, part)| self.counts(MemberId(member_of(part)), image.stripe, replayed))
            .collect();
        if missing.is_empty() {
            return Ok(true);
        }
        let Some(made) = self.reconstruct_parity(image, &missing, replayed).await else { return Ok(false) };
        if missing.iter().zip(&made).any(|((_, part), buf)| !group.has(part.first, buf.bytes())) {
            return Ok(false);
        }
        for ((p, part), buf) in missing.into_iter().zip(made) {
            self.io.mark(Mark::ArrayRecoverImageMade);
            let data: Gather = Rc::new([buf.clone()]);
            self.write(MemberId(member_of(&part)), self.ring_offset(group, part.first), data).await?;
            image.parity[p] = Some((part, Some(buf)));
        }
        Ok(true)
    }

    /// The missing parity of an after-image, from its other units.
    async fn reconstruct_parity(
        &self,
        image: &AfterImage<'_>,
        missing: &[(usize, Part)],
        replayed: &Replayed,
    ) -> Option<Vec<Buf>> {
        let (k, m) = (self.layout.columns(image.stripe), self.layout.m);
        let columns = join_all((0..k).map(|column| self.column_after(image, column, replayed))).await;
        let found =
            image.parity[..m].iter().map(|parity| parity.as_ref().and_then(|(_, found)| found.clone()));
        let units: Vec<Option<Buf>> = columns.into_iter().chain(found).collect();
        let mut known = StripeColumns::new(k, m);
        for (unit, content) in units.iter().enumerate() {
            content.iter().for_each(|buf| known.set(unit, buf.bytes()));
        }
        let wanted: Vec<usize> = missing.iter().map(|(p, _)| k + p).collect();
        known.recover(&wanted, each(image.offsets).count() * BLOCK_BYTES).ok()
    }

    /// A column's blocks at the offsets of an after-image, as they will be: from the log, else from their places.
    async fn column_after(&self, image: &AfterImage<'_>, column: usize, replayed: &Replayed) -> Option<Buf> {
        let chunk_blocks = self.layout.chunk_blocks;
        let (member, chunk) = self.layout.home(image.stripe, column);
        let mut content = Buf::stale(each(image.offsets).count() * BLOCK_BYTES);
        let mut places = content.bytes_mut().chunks_exact_mut(BLOCK_BYTES);
        for &(first, count) in image.offsets {
            let logged: Vec<Option<&Buf>> = (first..first + count)
                .map(|offset| {
                    let slot = column as u32 * chunk_blocks + offset;
                    let newest = || replayed.newest(image.stripe, slot, image.upto);
                    let new = each(image.slots).any(|s| s == slot).then(newest).flatten();
                    let place = ImagePlace { stripe: image.stripe, unit: column as u16, offset };
                    new.or_else(|| replayed.images.get(&place))
                })
                .collect();
            let mut old = None;
            if logged.iter().any(Option::is_none) {
                if !self.counts(member, image.stripe, replayed) {
                    return None;
                }
                let at = chunk + u64::from(first) * BLOCK_BYTES as u64;
                old = Some(self.members.read_at(member, at, count as usize * BLOCK_BYTES).await.ok()?);
            }
            let old = old.iter().flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES));
            let mut old = old.map(Some).chain(std::iter::repeat(None));
            for new in logged {
                let old = old.next().flatten();
                let bytes = new.map(Buf::bytes).or(old).expect("read where the log has none");
                places.next().expect("a place for each offset").copy_from_slice(bytes);
            }
        }
        drop(places);
        Some(content)
    }
}

fn member_of(part: &Part) -> u8 {
    part.parity.expect("parity is on one member").1
}

impl Replayed {
    /// The newest dirty content of a slot in groups up to `upto`.
    fn newest(&self, stripe: u64, slot: u32, upto: u64) -> Option<&Buf> {
        let versions = self.data.get(&(stripe, slot))?;
        let count = versions.partition_point(|(seq, _)| *seq <= upto);
        versions[..count].last().map(|(_, data)| data)
    }

    /// Stripes have changed their form. What was written to them in place before is durable, in the units of the new form, so
    /// older after-images do not apply; and what was written before a discard is gone.
    fn change_forms(&mut self, to: Form, stripes: &[(u64, u32)], group: u64) {
        for stripe in each_stripe(stripes) {
            self.forms.set(stripe, to);
            self.form_pages.note_replayed(page_of(stripe), group);
            let first = ImagePlace { stripe, unit: 0, offset: 0 };
            let last = ImagePlace { stripe, unit: u16::MAX, offset: u32::MAX };
            let void: Vec<ImagePlace> = self.images.range(first..=last).map(|(place, _)| *place).collect();
            if !mutation::on(Mutation::ForgetFormVoid) {
                void.iter().for_each(|place| drop(self.images.remove(place)));
            }
            if to == Form::Empty && !mutation::on(Mutation::EmptyRevives) {
                let void: Vec<(u64, u32)> =
                    self.data.range((stripe, 0)..=(stripe, u32::MAX)).map(|(slot, _)| *slot).collect();
                void.iter().for_each(|slot| drop(self.data.remove(slot)));
            }
        }
    }

    /// The newest content of a slot in groups up to `upto` becomes an image; older content is dropped.
    fn take_data(&mut self, stripe: u64, slot: u32, upto: u64, chunk_blocks: u32) {
        let Some(versions) = self.data.get_mut(&(stripe, slot)) else { return };
        let count = versions.partition_point(|(seq, _)| *seq <= upto);
        let taken = match mutation::on(Mutation::ReplayOutOfOrder) {
            true => versions.drain(..count).next(),
            false => versions.drain(..count).next_back(),
        };
        if let Some((_, data)) = taken {
            let unit = (slot / chunk_blocks) as u16;
            self.images.insert(ImagePlace { stripe, unit, offset: slot % chunk_blocks }, data);
        }
    }
}
