//! A minimal NBD client: one request at a time, simple replies.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_ERROR: u32 = 1 << 31;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;

pub(crate) struct Client {
    stream: UnixStream,
    pub(crate) size: u64,
    cookie: u64,
}

impl Client {
    /// Connects to a volume that must be there.
    pub(crate) fn connect(socket: &Path, volume: &str) -> Client {
        Client::try_connect(socket, volume).unwrap_or_else(|code| panic!("{volume}: option reply {code:#x}"))
    }

    /// Connects to a volume; an error is the option reply that refused it.
    pub(crate) fn try_connect(socket: &Path, volume: &str) -> Result<Client, u32> {
        let mut stream = UnixStream::connect(socket).expect("the server listens");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("a greeting");
        assert_eq!(&greeting[..8], b"NBDMAGIC");
        let mut hello = Vec::new();
        hello.extend(3u32.to_be_bytes());
        hello.extend(OPTION_MAGIC.to_be_bytes());
        hello.extend(OPT_GO.to_be_bytes());
        hello.extend((volume.len() as u32 + 6).to_be_bytes());
        hello.extend((volume.len() as u32).to_be_bytes());
        hello.extend(volume.as_bytes());
        hello.extend(0u16.to_be_bytes());
        stream.write_all(&hello).expect("the server takes options");
        let mut size = 0;
        loop {
            let mut header = [0; 20];
            stream.read_exact(&mut header).expect("an option reply");
            assert_eq!(header[..8], OPTION_REPLY_MAGIC.to_be_bytes());
            let kind = u32::from_be_bytes(header[12..16].try_into().unwrap());
            let mut body = vec![0; u32::from_be_bytes(header[16..].try_into().unwrap()) as usize];
            stream.read_exact(&mut body).expect("an option reply");
            match kind {
                REP_ACK => return Ok(Client { stream, size, cookie: 0 }),
                kind if kind & REP_ERROR != 0 => return Err(kind),
                _ if body[..2] == [0, 0] => size = u64::from_be_bytes(body[2..10].try_into().unwrap()),
                _ => {}
            }
        }
    }

    fn request(&mut self, command: u16, offset: u64, len: u32, payload: &[u8]) -> Result<(), u32> {
        self.cookie += 1;
        let mut request = Vec::with_capacity(28 + payload.len());
        request.extend(REQUEST_MAGIC.to_be_bytes());
        request.extend(0u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(payload);
        self.stream.write_all(&request).expect("the server takes requests");
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply[..4], REPLY_MAGIC.to_be_bytes());
        assert_eq!(reply[8..], self.cookie.to_be_bytes());
        match u32::from_be_bytes(reply[4..8].try_into().unwrap()) {
            0 => Ok(()),
            errno => Err(errno),
        }
    }

    /// Reads; an error is the errno of the reply.
    pub(crate) fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        self.request(READ, offset, len, &[])?;
        let mut data = vec![0; len as usize];
        self.stream.read_exact(&mut data).expect("the data");
        Ok(data)
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), u32> {
        self.request(WRITE, offset, data.len() as u32, data)
    }

    pub(crate) fn flush(&mut self) -> Result<(), u32> {
        self.request(FLUSH, 0, 0, &[])
    }
}
