//! Foreign metadata: the signatures of file systems, volume managers, RAID, swap and partition tables.
//!
//! A device is searched before it becomes a member, since what is overwritten is lost, and what is left behind comes to
//! life again: an md superblock at the end of a member has udev assemble the old array over the pool. The search looks where
//! `wipefs` looks: in the first and the last mebibyte, and at [the few places](extents) of copies elsewhere. Any byte at
//! either end that is not zero counts as content; the tables only give it a name. So a signature that is missing here leads
//! to a refusal in general words, never to data that is taken for free space.
//!
//! All of this is a pure function of the bytes that were read. No content makes it panic.

mod file_systems;
mod finding;
mod fixed;
mod image;
mod partitions;
mod volumes;

use std::iter;
use std::ops::Range;

pub use finding::{Content, Finding};
pub use image::{Extent, Image};

/// Bytes at either end of a device that must be zero, and are cleared when the device becomes a member.
pub const END_BYTES: u64 = 1 << 20;
/// Extents begin at multiples of this, and have such lengths except at the end of the device.
const ALIGN: u64 = 4096;

/// The two ends of a device, one range if they meet.
pub fn ends(bytes: u64) -> Vec<Range<u64>> {
    let tail = bytes.saturating_sub(END_BYTES) / ALIGN * ALIGN;
    let (head, tail) = if tail <= END_BYTES { (0..bytes, None) } else { (0..END_BYTES, Some(tail..bytes)) };
    iter::once(head).chain(tail).collect()
}

/// The places between the ends at which copies of signatures can lie.
pub fn places_between(bytes: u64) -> Vec<Range<u64>> {
    let promise = (bytes / 512).checked_sub(fixed::PROMISE_SECTORS_MAX).map(|sector| sector * 512);
    let mut places: Vec<u64> = volumes::LUKS2_SECOND_HEADERS.into_iter().chain(promise).collect();
    places.iter_mut().for_each(|place| *place = *place / ALIGN * ALIGN);
    let tail = bytes.saturating_sub(END_BYTES) / ALIGN * ALIGN;
    places.retain(|&place| place >= END_BYTES && place + ALIGN <= tail);
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|place| place..place + ALIGN).collect()
}

/// What has to be read of a device of this size, in order and without overlap.
pub fn extents(bytes: u64) -> Vec<Range<u64>> {
    let mut all = ends(bytes);
    all.extend(places_between(bytes));
    all.sort_unstable_by_key(|range| range.start);
    all
}

/// The signatures in what was read of a device, in the order of their places.
pub fn find(image: &Image<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    fixed::find(image, &mut found);
    file_systems::find(image, &mut found);
    volumes::find(image, &mut found);
    partitions::find(image, &mut found);
    found.sort_by_key(|finding| finding.offset);
    found
}

/// What the searched parts of a device hold.
pub fn content(bytes: u64, extents: &[Extent]) -> Content {
    let ends = ends(bytes);
    let is_end = |offset: u64| ends.iter().any(|end| end.contains(&offset));
    let first = |extent: &Extent| {
        let at = first_used(&extent.bytes)? as u64;
        Some(extent.offset + at).filter(|&offset| is_end(offset))
    };
    let first_byte = extents.iter().filter_map(first).min();
    Content { findings: find(&Image::new(bytes, extents)), first_byte }
}

/// The place of the first byte that is not 0. Most of what is searched are zeros, which are looked at by runs.
fn first_used(bytes: &[u8]) -> Option<usize> {
    const RUN: usize = 128;
    let is_used = |run: &[u8]| run.iter().fold(0, |all, byte| all | byte) != 0;
    let at = bytes.chunks(RUN).position(is_used)? * RUN;
    bytes[at..].iter().position(|&byte| byte != 0).map(|within| at + within)
}

#[cfg(test)]
mod tests;
