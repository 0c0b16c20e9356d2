//! Reading regions of members at recovery, so that an unreadable spot costs itself alone.

use std::cell::{Cell, RefCell};

use sinew_core::buf::Buf;
use sinew_core::coverage::MarkName;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::sync::join_all;

use crate::members::Members;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// The region of a member that is read.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Where it begins in the member's part of its device, in bytes.
    pub offset: u64,
    /// Its length in bytes, a multiple of the unit in which it is read.
    pub bytes: u64,
}

/// Coverage marks of reading regions in one kind of pool.
pub struct RegionMarks {
    /// A large read failed, and its units were read one by one.
    pub unit_by_unit: MarkName,
    /// A unit could not be read.
    pub unit_lost: MarkName,
}

/// A unit of a region.
#[derive(Debug)]
pub struct Unit {
    /// The member that it was read from.
    pub member: MemberId,
    /// Where it begins in the region, in bytes.
    pub at: u64,
    /// Its content.
    pub data: Buf,
}

/// Reads a region of each of these members in large pieces, one piece of a member at a time, and passes on each unit of `unit`
/// bytes that can be read. Where a piece cannot be read, its units are read one by one. Returns the number of bytes read.
pub async fn read_regions<I: Io>(
    members: &Members<I>,
    regions: impl IntoIterator<Item = (MemberId, Region)>,
    unit: usize,
    marks: RegionMarks,
    each: impl FnMut(Unit),
) -> u64 {
    let (each, bytes_read) = (&RefCell::new(each), &Cell::new(0));
    let take = move |member, at, buf: Buf| {
        bytes_read.set(bytes_read.get() + buf.len() as u64);
        for offset in (0..buf.len()).step_by(unit) {
            each.borrow_mut()(Unit { member, at: at + offset as u64, data: buf.slice(offset, unit) });
        }
    };
    let marks = &marks;
    let reads = regions.into_iter().map(|(member, Region { offset: start, bytes })| async move {
        for at in (0..bytes).step_by(READ_BYTES) {
            let len = (bytes - at).min(READ_BYTES as u64);
            if let Ok(buf) = members.read_at(member, start + at, len as usize).await {
                take(member, at, buf);
                continue;
            }
            members.io.mark(marks.unit_by_unit);
            for offset in (at..at + len).step_by(unit) {
                if let Ok(buf) = members.read_at(member, start + offset, unit).await {
                    take(member, offset, buf);
                } else {
                    members.io.mark(marks.unit_lost);
                }
            }
        }
    });
    join_all(reads).await;
    bytes_read.get()
}
