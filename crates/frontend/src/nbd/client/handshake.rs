//! A client's side of the handshake.

use std::rc::Rc;

use sinew_core::buf::Buf;

use super::super::handshake::OPTION_BYTES_MAX;
use super::super::input::Input;
use super::super::proto::{
    self, Headers, Info, InfoRequest, OptionReplyHeader, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX, handshake_flag,
    info, option, option_reply,
};
use super::error::ClientError;
use super::export_terms::ExportTerms;
use crate::transport::{Part, Stream};

/// Replies to one option.
const REPLIES_MAX: usize = 64;
/// The payload that every server takes, if it does not say more.
const PAYLOAD_BYTES_DEFAULT: u32 = 32 << 20;

/// The words of one option's final reply.
type Answer = Result<(), (u32, String)>;

/// The greeting and the flags.
pub(super) async fn greet<S: Stream>(stream: &Rc<S>, input: &mut Input<S>) -> Result<(), ClientError> {
    let greeting = proto::decode_greeting(&input.header().await?);
    let flags = greeting.ok_or(ClientError::Violation("no greeting of an NBD server of the newstyle"))?;
    if flags & handshake_flag::FIXED_NEWSTYLE == 0 {
        return Err(ClientError::NoExport("it does not know the fixed newstyle handshake".into()));
    }
    let ours = flags & (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
    send(stream, u32::from(ours).to_be_bytes().to_vec()).await
}

/// Asks for TLS. What follows must come through it.
pub(super) async fn start_tls<S: Stream>(stream: &Rc<S>, input: &mut Input<S>) -> Result<(), ClientError> {
    match (Talk { stream, input }).ask(option::STARTTLS, &[], |_| Ok(())).await? {
        Ok(()) if input.unread().is_empty() => Ok(()),
        Ok(()) => Err(ClientError::Violation("data behind the answer to STARTTLS")),
        Err((_, message)) => {
            let why = "it does not offer TLS, and without it nothing is asked";
            let message = if message.is_empty() { why.to_owned() } else { format!("{why} ({message})") };
            Err(ClientError::NoExport(message))
        }
    }
}

/// Chooses an export.
pub(super) async fn choose<S: Stream>(
    stream: &Rc<S>,
    input: &mut Input<S>,
    export: &str,
) -> Result<ExportTerms, ClientError> {
    if export.len() > STRING_BYTES_MAX {
        return Err(ClientError::NoExport("the name of the export is too long".into()));
    }
    let mut talk = Talk { stream, input };
    let mut headers = Headers::Simple;
    // A server that does not know the option refuses it and is asked for less.
    for (code, wanted) in
        [(option::EXTENDED_HEADERS, Headers::Extended), (option::STRUCTURED_REPLY, Headers::Structured)]
    {
        if talk.ask(code, &[], |_| Ok(())).await?.is_ok() {
            headers = wanted;
            break;
        }
    }
    let mut data = Vec::new();
    InfoRequest::encode(&mut data, export, &[info::BLOCK_SIZE]);
    let (mut about, mut sizes) = (None, (1, PAYLOAD_BYTES_DEFAULT));
    let answer = talk.ask(option::GO, &data, |data| {
        match Info::decode(data) {
            Some(Info::Export(bytes, flags)) => about = Some((bytes, flags)),
            Some(Info::BlockSize(minimum, _, maximum)) => sizes = (minimum, maximum),
            Some(Info::Other) => {}
            None => return Err(ClientError::Violation("information about an export that makes no sense")),
        }
        Ok(())
    });
    if let Err((kind, message)) = answer.await? {
        return Err(ClientError::NoExport(why_not(export, kind, &message)));
    }
    let (bytes, flags) = about.ok_or(ClientError::Violation("an export without a size"))?;
    terms(bytes, flags, sizes, headers)
}

fn terms(
    bytes: u64,
    flags: u16,
    (minimum, maximum): (u32, u32),
    headers: Headers,
) -> Result<ExportTerms, ClientError> {
    // The protocol's bounds: powers of two up to 64 KiB, and a maximum that is a multiple.
    if !minimum.is_power_of_two() || minimum > 64 << 10 || maximum < minimum {
        return Err(ClientError::Violation("block sizes that make no sense"));
    }
    let payload_bytes_max = maximum.min(PAYLOAD_BYTES_MAX) / minimum * minimum;
    Ok(ExportTerms { bytes, flags, block_bytes: minimum, payload_bytes_max, headers })
}

fn why_not(export: &str, kind: u32, message: &str) -> String {
    let why = match kind {
        option_reply::ERR_UNKNOWN => format!("it has no export {export:?}"),
        option_reply::ERR_TLS_REQD => "it demands TLS; name an nbds:// URI".to_owned(),
        option_reply::ERR_UNSUP => "it is too old and knows no option GO".to_owned(),
        option_reply::ERR_POLICY => "its configuration forbids it".to_owned(),
        kind => format!("error {:#x}", kind & !option_reply::ERR),
    };
    if message.is_empty() { why } else { format!("{why} ({message})") }
}

async fn send<S: Stream>(stream: &Rc<S>, bytes: Vec<u8>) -> Result<(), ClientError> {
    stream.send(vec![Part::Bytes(bytes)]).await.1.map_err(|_| ClientError::Closed)
}

struct Talk<'a, S> {
    stream: &'a Rc<S>,
    input: &'a mut Input<S>,
}

impl<S: Stream> Talk<'_, S> {
    /// Sends an option and takes its replies; `told` gets the information in them.
    async fn ask(
        &mut self,
        code: u32,
        data: &[u8],
        mut told: impl FnMut(&[u8]) -> Result<(), ClientError>,
    ) -> Result<Answer, ClientError> {
        let mut out = Vec::new();
        proto::option(&mut out, code, data);
        send(self.stream, out).await?;
        for _ in 0..REPLIES_MAX {
            let (kind, data) = self.reply(code).await?;
            match kind {
                option_reply::ACK => return Ok(Ok(())),
                option_reply::INFO => told(data.bytes())?,
                kind if kind & option_reply::ERR != 0 => {
                    return Ok(Err((kind, String::from_utf8_lossy(data.bytes()).into_owned())));
                }
                _ => return Err(ClientError::Violation("a reply that does not belong to its option")),
            }
        }
        Err(ClientError::Violation("too many replies to an option"))
    }

    async fn reply(&mut self, code: u32) -> Result<(u32, Buf), ClientError> {
        let header = OptionReplyHeader::decode(&self.input.header().await?);
        let header = header.ok_or(ClientError::Violation("bad magic of a reply to an option"))?;
        if header.option != code || header.len as usize > OPTION_BYTES_MAX {
            return Err(ClientError::Violation("a reply to another option, or one that is too long"));
        }
        Ok((header.kind, self.input.payload(header.len as usize).await?))
    }
}
