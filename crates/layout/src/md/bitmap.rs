//! The header of md's write-intent bitmap: the fields that a writer needs which does not maintain the bitmap.

const MAGIC: &[u8] = b"bitm";

/// The array's events when the bitmap was last written; none if there is no bitmap here.
///
/// md treats a bitmap whose count is lower than that of the superblocks as out of date (`md_bitmap_read_sb` in
/// drivers/md/md-bitmap.c): all its bits count as set, and no member is recovered in part. Writing to an
/// array without maintaining its bitmap therefore requires event counts above this one.
pub fn bitmap_events(head: &[u8]) -> Option<u64> {
    let events = head.get(24..32)?;
    head.starts_with(MAGIC).then(|| u64::from_le_bytes(events.try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bitmap_has_events() {
        let mut head = [0; 256];
        head[24..32].copy_from_slice(&7_u64.to_le_bytes());
        assert_eq!(bitmap_events(&head), None);
        head[..4].copy_from_slice(MAGIC);
        assert_eq!(bitmap_events(&head), Some(7));
        assert_eq!(bitmap_events(&head[..31]), None);
    }
}
