//! A superblock slot around any configuration: it decodes or not, and what decodes encodes to the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinew_format::superblock::{SLOT_BYTES, Superblock};
use sinew_fuzz::seal;

fuzz_target!(|data: &[u8]| {
    // As it is, too: most inputs lack the magic number, but some seeds do not.
    let _ = Superblock::decode(data);
    let Some((member, config)) = data.split_first() else { return };
    let slot = seal::superblock(u16::from(*member), config);
    if slot.len() > SLOT_BYTES {
        return;
    }
    let Ok(superblock) = Superblock::decode(&slot) else { return };
    let again = superblock.encode().expect("it came from a slot");
    assert!(again.len() <= slot.len());
    assert_eq!(Superblock::decode(again.bytes()), Ok(superblock));
});
