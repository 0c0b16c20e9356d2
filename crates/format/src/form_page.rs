//! Form pages: the forms of an elastic array's stripes on the members, two bits each.
//!
//! Each page has two places on every member, for its even and its odd versions, so a torn write leaves the version before.
//! The log has every change of a form until the page with it is durable.

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::checksum::{is_sealed, seal};
use sinew_core::ids::Uuid;

use crate::codec::{DecodeError, Reader, Writer};
use crate::model::form::Form;

const MAGIC: u32 = u32::from_le_bytes(*b"SNFM");
/// Bytes before the forms; the last four are the CRC of the page.
const HEADER_BYTES: usize = 96;
const CRC_AT: usize = HEADER_BYTES - 4;
/// Forms of a page.
pub const FORMS_PER_PAGE: u64 = 16_000;
const _: () = assert!(HEADER_BYTES + FORMS_PER_PAGE as usize / 4 == BLOCK_BYTES);
/// Places of a page on each member.
pub const FORM_PAGE_VERSIONS: u64 = 2;

/// The header of a form page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormPageHeader {
    /// The identity of the array's logs, which only its superblocks contain.
    pub log: Uuid,
    /// The shard it belongs to.
    pub shard: u16,
    /// Its number.
    pub page: u32,
    /// Counts the writes of the page.
    pub version: u64,
}

/// Writes a page; stripes beyond the array are empty.
///
/// # Panics
/// When there are more forms than fit a page.
pub fn encode_form_page(header: &FormPageHeader, forms: impl Iterator<Item = Form>, page: &mut [u8]) {
    assert_eq!(page.len(), BLOCK_BYTES);
    let mut w = Writer::structure(MAGIC);
    w.u16(header.shard);
    w.bytes(&header.log);
    w.u32(header.page);
    w.u64(header.version);
    page.fill(0);
    page[..w.0.len()].copy_from_slice(&w.0);
    for (i, form) in forms.enumerate() {
        page[HEADER_BYTES..][i / 4] |= (form as u8) << (i % 4 * 2);
    }
    seal(page, CRC_AT);
}

/// Verifies a page and decodes it.
///
/// # Errors
/// When it is not an intact page of this format.
pub fn decode_form_page(page: &[u8]) -> Result<(FormPageHeader, Vec<Form>), DecodeError> {
    if page.len() != BLOCK_BYTES {
        return Err(DecodeError::Foreign);
    }
    let mut r = Reader::structure(page, MAGIC)?;
    let (shard, log) = (r.u16()?, r.uuid()?);
    let (number, version) = (r.u32()?, r.u64()?);
    if !is_sealed(page, CRC_AT) {
        return Err(DecodeError::Checksum);
    }
    let bits = |i: usize| page[HEADER_BYTES + i / 4] >> (i % 4 * 2) & 3;
    let forms = (0..FORMS_PER_PAGE as usize)
        .map(|i| Form::from_number(bits(i)).ok_or(DecodeError::Invalid("form of a stripe")))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((FormPageHeader { log, shard, page: number, version }, forms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_survives_its_bytes_and_a_damaged_one_is_refused() {
        let header = FormPageHeader { log: [7; 16], shard: 2, page: 9, version: 1 << 33 };
        let form = |i: u64| Form::ALL[(i * i % 3) as usize];
        let mut page = vec![1; BLOCK_BYTES];
        encode_form_page(&header, (0..10_000).map(form), &mut page);
        let (found, forms) = decode_form_page(&page).unwrap();
        assert_eq!((found, forms.len() as u64), (header, FORMS_PER_PAGE));
        assert!((0..10_000).all(|i| forms[i as usize] == form(i)) && forms[12_000] == Form::Empty);
        for at in [0, 5, 7, 20, 30, 95, 96, 4000, BLOCK_BYTES - 1] {
            let mut bad = page.clone();
            bad[at] ^= 0x40;
            assert!(decode_form_page(&bad).is_err(), "byte {at}");
        }
        // Two bits have a fourth value, which is no form.
        let mut bad = page.clone();
        bad[HEADER_BYTES] = 0xff;
        seal(&mut bad, CRC_AT);
        assert_eq!(decode_form_page(&bad).unwrap_err(), DecodeError::Invalid("form of a stripe"));
    }
}
