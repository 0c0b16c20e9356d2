//! Every format, from small samples made by hand.

use std::io::{Cursor, Write};
use std::path::Path;

use proptest::prelude::*;
use sinew_workload::trace::{Format, ReadOptions, TraceReader};
use sinew_workload::{Kind, Problem, Request, Result};

const MSR: &str = "\
128166385295514663,hm,0,Write,9056014336,2048,2833
128166385295514878,hm,1,Write,11855351808,512,2617
128166385295515175,web,0,Read,5548077056,4096,2320
";
const SPC: &str = "0,20941264,8192,W,0.551706\n0,20939840,8192,r,0.554041,more\n2,3,512,R,1\n";
const TENCENT: &str = "1538323200,4247200,128,1,1058\n1538323199,13896880,128,0,1063\n1538323201,8,8,0,1\n";
const NORMALISED: &str = "\
ts_us,dev,op,offset_bytes,size_bytes
0,0,W,21981565952,512
242639,3,R,21981566464,4096
242640.5,3,D,0,1048576
242641,3,F,0,0
";
const BLKPARSE: &str = "  \
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  P   R [kjournald]
  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]
  8,0    3        4     0.000010000   697  D   W 223490 + 8 [kjournald]
  8,16   1        1     0.001000000   700  Q  RA 100 + 16 [a b]
  8,16   1        2     0.002000000   700  Q FWFS 64 + 8 [x]
  8,16   1        3     0.003000000   700  Q FWS [x]
  8,16   1        4     0.003000001     0  C   W 100 + 16 [0]
  8,16   1        5     0.004000000   700  Q DS 2048 + 2048 [fstrim]
  8,0    1        6     0.005000000     0  m   N cfq workload slice:100
CPU0 (sda):
 Reads Queued:           1,        8KiB  Writes Queued:           2,       16KiB
";
const IOLOG2: &str = "\
fio version 2 iolog
/dev/a add
/dev/a open
/dev/a read 61440 4096
/dev/a wait 1000 0
/dev/b trim 0 8192
/dev/a datasync 0 0
/dev/a close
";
const IOLOG3: &str = "\
fio version 3 iolog
21 f0 add
135 f0 open
139 f0 read 61440 4096
5640 f0 write 491520 4096
11897 f0 sync 954368 0
16832 f0 close
";
const VSCSI_TEXT: &str = "1 5642219703 2a 512 42932745\n1 5642219900 28 4096 7\n2 5642219901 35 0 0 99\n";
const MQSIM: &str = "938513000 4 264719034 16 0\n938828000 3 197570570 32 1\n";
const HEIMDALL: &str = "0.000 0 200626176 4096 0\n223.412 1 3159347200 36864 1\n";
const DISKSIM: &str = "0.551706 0 20941264 16 1\n10.554041 1 20939841 3 0\n";

/// VSCSI records: (version, opcode, bytes, sector, microseconds).
fn vscsi(records: &[(u16, u16, u32, u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(version, opcode, bytes, sector, us) in records {
        let tag = version << 8;
        if version == 1 {
            [7u32, bytes, 1].iter().for_each(|word| out.extend(word.to_le_bytes()));
            [opcode, tag].iter().for_each(|word| out.extend(word.to_le_bytes()));
        } else {
            [opcode, tag].iter().for_each(|word| out.extend(word.to_le_bytes()));
            [7u32, bytes, 1].iter().for_each(|word| out.extend(word.to_le_bytes()));
        }
        [sector, us].iter().for_each(|word| out.extend(word.to_le_bytes()));
        if version == 2 {
            out.extend(55u64.to_le_bytes());
        }
    }
    out
}

fn reader(bytes: &[u8], options: ReadOptions) -> Result<TraceReader> {
    TraceReader::from_reader("sample", Cursor::new(bytes.to_vec()), options)
}

fn read(bytes: &[u8]) -> (Format, Vec<Request>) {
    let reader = reader(bytes, ReadOptions::default()).expect("a known format");
    (reader.format(), reader.map(|r| r.expect("a good line")).collect())
}

fn request(at_ns: u64, volume: u32, kind: Kind, offset: u64, len: u64) -> Request {
    Request { at_ns, offset, len, volume, kind }
}

#[test]
fn each_format_is_recognised_and_read() {
    use Kind::{Discard, Flush, Read, Write};
    let binary = |version| {
        vscsi(&[
            (version, 0x2a, 512, 42_932_745, 10),
            (version, 0x88, 8192, 16, 12),
            (version, 0x35, 0, 0, 13),
        ])
    };
    let vscsi_requests = vec![
        request(0, 0, Write, 42_932_745 * 512, 512),
        request(2000, 0, Read, 8192, 8192),
        request(3000, 0, Flush, 0, 0),
    ];
    let cases: Vec<(Format, Vec<u8>, Vec<Request>)> = vec![
        (
            Format::Msr,
            MSR.into(),
            vec![
                request(0, 0, Write, 9_056_014_336, 2048),
                request(21_500, 1, Write, 11_855_351_808, 512),
                request(51_200, 2, Read, 5_548_077_056, 4096),
            ],
        ),
        (
            Format::Spc,
            SPC.into(),
            vec![
                request(0, 0, Write, 20_941_264 * 512, 8192),
                request(2_335_000, 0, Read, 20_939_840 * 512, 8192),
                request(448_294_000, 2, Read, 3 * 512, 512),
            ],
        ),
        (
            Format::Tencent,
            TENCENT.into(),
            vec![
                request(0, 1058, Write, 4_247_200 * 512, 65536),
                request(0, 1063, Read, 13_896_880 * 512, 65536),
                request(1_000_000_000, 1, Read, 4096, 4096),
            ],
        ),
        (
            Format::Normalised,
            NORMALISED.into(),
            vec![
                request(0, 0, Write, 21_981_565_952, 512),
                request(242_639_000, 3, Read, 21_981_566_464, 4096),
                request(242_640_500, 3, Discard, 0, 1 << 20),
                request(242_641_000, 3, Flush, 0, 0),
            ],
        ),
        (
            Format::Blkparse,
            BLKPARSE.into(),
            vec![
                request(0, 0, Write, 223_490 * 512, 4096),
                request(997_803, 1, Read, 51_200, 8192),
                request(1_997_803, 1, Flush, 0, 0),
                request(1_997_803, 1, Write, 32_768, 4096),
                request(2_997_803, 1, Flush, 0, 0),
                request(3_997_803, 1, Discard, 1 << 20, 1 << 20),
            ],
        ),
        (
            Format::Iolog,
            IOLOG2.into(),
            vec![
                request(0, 0, Read, 61_440, 4096),
                request(1_000_000, 1, Discard, 0, 8192),
                request(1_000_000, 0, Flush, 0, 0),
            ],
        ),
        (
            Format::Iolog,
            IOLOG3.into(),
            vec![
                request(0, 0, Read, 61_440, 4096),
                request(5_501_000, 0, Write, 491_520, 4096),
                request(11_758_000, 0, Flush, 0, 0),
            ],
        ),
        (
            Format::VscsiText,
            VSCSI_TEXT.into(),
            vec![
                request(0, 0, Write, 42_932_745 * 512, 512),
                request(197_000, 0, Read, 3584, 4096),
                request(198_000, 0, Flush, 0, 0),
            ],
        ),
        (
            Format::Mqsim,
            MQSIM.into(),
            vec![
                request(0, 4, Write, 264_719_034 * 512, 8192),
                request(315_000, 3, Read, 197_570_570 * 512, 16384),
            ],
        ),
        (
            Format::Heimdall,
            HEIMDALL.into(),
            vec![
                request(0, 0, Write, 200_626_176, 4096),
                request(223_412_000, 1, Read, 3_159_347_200, 36_864),
            ],
        ),
        (
            Format::Disksim,
            DISKSIM.into(),
            vec![
                request(0, 0, Read, 20_941_264 * 512, 8192),
                request(10_002_335, 1, Write, 20_939_841 * 512, 1536),
            ],
        ),
        (Format::Vscsi, binary(1), vscsi_requests.clone()),
        (Format::Vscsi, binary(2), vscsi_requests),
    ];
    for (format, bytes, expected) in cases {
        assert_eq!(read(&bytes), (format, expected.clone()));
        if format != Format::Vscsi {
            let windows = String::from_utf8(bytes).expect("text").replace('\n', "\r\n");
            assert_eq!(read(windows.as_bytes()), (format, expected));
        }
    }
}

#[test]
fn compressed_files_are_read_as_they_are() {
    let plain = SPC.repeat(1000).into_bytes();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).expect("compresses");
    let mut bzip = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip.write_all(&plain).expect("compresses");
    let gzip = gzip.finish().expect("compresses");
    let compressed = [
        plain.clone(),
        gzip.clone(),
        bzip.finish().expect("compresses"),
        zstd::encode_all(&plain[..], 1).expect("compresses"),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("trace");
    for bytes in compressed {
        std::fs::write(&path, bytes).expect("written");
        let reader = TraceReader::open(&path, ReadOptions::default()).expect("a known format");
        assert_eq!((reader.format(), reader.filter(Result::is_ok).count()), (Format::Spc, 3000));
    }
    std::fs::write(&path, &gzip[..gzip.len() / 2]).expect("written");
    let cut = TraceReader::open(&path, ReadOptions { format: Some(Format::Spc), skip_bad: true });
    let error = cut.and_then(|reader| reader.collect::<Result<Vec<_>>>()).expect_err("cut short");
    assert!(error.to_string().contains("trace: "), "{error}");
}

#[test]
fn a_bad_line_is_shown_with_its_place_and_what_was_expected() {
    let text = format!("{MSR}128166385295514663,hm,0,Wipe,1,512,1\n");
    let requests: Vec<_> = reader(text.as_bytes(), ReadOptions::default()).expect("msr").collect();
    let (good, bad) = requests.split_at(3);
    assert!(good.iter().all(Result::is_ok) && bad.len() == 1);
    let error = bad[0].as_ref().expect_err("Wipe");
    let expected =
        "sample:4: expected Read or Write (field 4 of 7), found \"128166385295514663,hm,0,Wipe,1,512,1\"";
    assert_eq!(error.to_string(), expected);
    assert!(matches!(error.problem(), Problem::Line { number: 4, .. }));
}

#[test]
fn bad_lines_are_skipped_and_counted_on_request() {
    let mut text = format!("# a comment\n{MQSIM}1 2 3\n99999999999999999999999 0 0 1 0\n5 0 0 0 1\n");
    text += "6 0 36028797018963968 1 1\n7 0 36028797018963967 2 1\n940000000 1 8 8 7\n940000000 1 8 8 1\n";
    let reader = reader(text.as_bytes(), ReadOptions { format: Some(Format::Mqsim), skip_bad: true });
    let mut reader = reader.expect("the format is given");
    assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 3);
    assert_eq!((reader.counts().skipped(), reader.counts().reordered()), (7, 0));
}

#[test]
fn time_never_goes_back() {
    let counted = reader(TENCENT.as_bytes(), ReadOptions::default()).expect("tencent");
    let counts = counted.counts();
    let times: Vec<u64> = counted.map(|r| r.expect("good").at_ns).collect();
    assert_eq!((times, counts.reordered()), (vec![0, 0, 1_000_000_000], 1));
}

#[test]
fn what_is_no_trace_is_refused_with_the_formats_there_are() {
    let error = reader(b"what is this?\n", ReadOptions::default()).err().expect("unknown");
    assert!(error.to_string().contains("msr, spc") && matches!(error.problem(), Problem::Unknown { .. }));
    let absent = TraceReader::open(Path::new("no/such/trace"), ReadOptions::default());
    assert!(absent.err().expect("absent").to_string().starts_with("no/such/trace: "));
    assert!(
        reader(b"", ReadOptions { format: Some(Format::Msr), skip_bad: false })
            .expect("empty")
            .next()
            .is_none()
    );
}

#[test]
fn a_record_cut_short_is_an_error() {
    let mut bytes = vscsi(&[(1, 0x2a, 512, 1, 1); 20]);
    bytes.pop();
    let requests: Vec<_> = reader(&bytes, ReadOptions::default()).expect("vscsi").collect();
    assert_eq!(requests.len(), 20);
    let error = requests[19].as_ref().expect_err("cut").to_string();
    assert!(error.starts_with("sample:20: expected a whole record"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Whatever stands in a file, a reader gives requests that lie in the address space, in order, or errors.
    #[test]
    fn damaged_files_are_survived(
        which in 0..12usize, cuts in prop::collection::vec((0..400usize, any::<u8>()), 0..12), skip_bad: bool,
    ) {
        let samples = [MSR, SPC, TENCENT, NORMALISED, BLKPARSE, IOLOG2, IOLOG3, VSCSI_TEXT, MQSIM, HEIMDALL, DISKSIM];
        let mut bytes = match samples.get(which) {
            Some(text) => text.as_bytes().to_vec(),
            None => vscsi(&[(1, 0x2a, 512, 9, 5); 4]),
        };
        for (at, byte) in cuts {
            let at = at % bytes.len();
            // Digits and separators get further into the parsers than random bytes.
            bytes[at] = if byte < 200 { b"0123456789,. +-RWFDQ\n"[byte as usize % 21] } else { byte };
        }
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            let Ok(reader) = reader(&bytes, ReadOptions { format, skip_bad }) else { continue };
            let mut last = 0;
            for r in reader.filter_map(Result::ok) {
                prop_assert!(r.offset.checked_add(r.len).is_some() && r.at_ns >= last);
                prop_assert_eq!(r.len == 0, r.kind == Kind::Flush);
                last = r.at_ns;
            }
        }
    }
}
