//! CRC32C, the checksum of every block and of every structure on the members.

/// CRC32C (Castagnoli) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_answer() {
        // RFC 3720, appendix B.4: 32 bytes of zeros.
        assert_eq!(super::crc32c(&[0; 32]), 0x8a91_36aa);
    }
}
