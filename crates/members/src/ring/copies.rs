//! Copies of journal blocks that recovery makes, for as many members to have them as should.

use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::ids::MemberId;
use sinew_core::io::{Io, IoError};

use crate::marks::Mark;
use crate::members::Members;

/// Attempts when members have no space, a second in all.
const SPACE_ATTEMPTS: u32 = 50;

/// Writes the same content to the first `count` of these places that take it; returns to how many. Members without space are
/// passed over. If too few are left, this waits a while: then a pool is rather opened with fewer copies than not at all.
///
/// # Errors
/// The first member that fails otherwise.
pub async fn write_copies<I: Io>(
    members: &Members<I>,
    mut places: Vec<(MemberId, u64)>,
    count: usize,
    data: &Buf,
) -> Result<usize, MemberId> {
    let mut written = 0;
    for _ in 0..SPACE_ATTEMPTS {
        let mut full = Vec::new();
        for (member, offset) in places {
            if written == count {
                break;
            }
            match members.write_at(member, offset, Rc::new([data.clone()])).await {
                Ok(()) => written += 1,
                Err(IoError::NoSpace) => full.push((member, offset)),
                Err(_) => return Err(member),
            }
        }
        if written == count || full.is_empty() {
            return Ok(written);
        }
        members.io.mark(Mark::RecoveryAwaitsSpace);
        members.wait_for_space().await;
        places = full;
    }
    Ok(written)
}
