//! CRC32C, the checksum of every block and of every structure on the members.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC32C (Castagnoli) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Writes the CRC32C of a structure into it, at `at`. It is that of all bytes, with its own four taken as zeros.
pub fn seal(bytes: &mut [u8], at: usize) {
    bytes[at..at + 4].fill(0);
    let crc = crc32c(bytes);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Whether a structure is as it was when [`seal`] wrote its CRC32C at `at`.
pub fn is_sealed(bytes: &[u8], at: usize) -> bool {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    [&bytes[..at], &[0; 4], &bytes[at + 4..]].into_iter().for_each(|part| digest.update(part));
    bytes[at..at + 4] == (digest.finalize() as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_breaks_with_any_bit() {
        let mut bytes: Vec<u8> = (0..=255).collect();
        seal(&mut bytes, 60);
        assert_eq!(
            bytes[60..64],
            crc32c(&[&(0..60).collect::<Vec<u8>>()[..], &[0; 4], &(64..=255).collect::<Vec<u8>>()].concat())
                .to_le_bytes()
        );
        assert!(is_sealed(&bytes, 60));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_sealed(&bytes, 60), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn known_answer() {
        // RFC 3720, appendix B.4: 32 bytes of zeros.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }
}
