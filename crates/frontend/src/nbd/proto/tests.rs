//! The coding of messages.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_request_survives_coding(flags: u16, command: u16, cookie: u64, offset: u64, len: u64) {
        let request = Request { flags, command, cookie, offset, len: len & 0xffff_ffff };
        let mut bytes = Vec::new();
        request.encode(&mut bytes, Headers::Structured);
        prop_assert_eq!(Request::decode(bytes.as_slice().try_into().unwrap()), Some(request));
        bytes.clear();
        let request = Request { len, ..request };
        request.encode(&mut bytes, Headers::Extended);
        let extended = bytes.as_slice().try_into().unwrap();
        prop_assert_eq!(Request::decode_extended(extended), Some(request));
        // The two do not pass for each other.
        prop_assert_eq!(Request::decode(bytes[..REQUEST_BYTES].try_into().unwrap()), None);
    }

    #[test]
    fn decoders_take_any_bytes(bytes: Vec<u8>) {
        let _ = InfoRequest::decode(&bytes).map(|info| info.wants(info::NAME));
        let _ = MetaRequest::decode(&bytes);
        let _ = Info::decode(&bytes);
        let _ = decode_error(&bytes);
    }

    #[test]
    fn replies_survive_coding(cookie: u64, error: u32, kind: u16, flags: u16, len: u32) {
        let mut bytes = Vec::new();
        simple_reply(&mut bytes, cookie, error);
        let simple = ReplyHeader::decode(bytes.as_slice().try_into().unwrap());
        prop_assert_eq!(simple, Some(ReplyHeader::Simple { cookie, error }));
        bytes.clear();
        chunk_header(&mut bytes, ReplyTo::Structured { cookie }, kind, flags, len);
        let (header, rest) = bytes.split_first_chunk().unwrap();
        prop_assert_eq!(ReplyHeader::decode(header), Some(ReplyHeader::Chunk { cookie, kind, flags }));
        prop_assert_eq!(rest, len.to_be_bytes());
        bytes.clear();
        chunk_header(&mut bytes, ReplyTo::Extended { cookie, offset: !cookie }, kind, flags, len);
        let header = ExtendedChunk::decode(bytes.as_slice().try_into().unwrap());
        let len = u64::from(len);
        prop_assert_eq!(header, Some(ExtendedChunk { flags, kind, cookie, offset: !cookie, len }));
    }
}

#[test]
fn a_query_count_beyond_the_data_is_refused() {
    let mut data = vec![0, 0, 0, 1, b'v'];
    data.extend_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(MetaRequest::decode(&data), None);
}

#[test]
fn info_kinds_must_fill_the_data() {
    assert!(InfoRequest::decode(&[0, 0, 0, 0, 0, 1, 0, 3]).is_some_and(|i| i.wants(info::BLOCK_SIZE)));
    assert_eq!(InfoRequest::decode(&[0, 0, 0, 0, 0, 1, 0, 3, 0]), None);
    assert_eq!(InfoRequest::decode(&[0, 0, 0, 9, 0, 1, 0, 3]), None);
}
