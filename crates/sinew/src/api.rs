//! The control socket: one JSON request per line, one JSON answer per line. docs/control-api.md describes it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sinew_engine::pool::Candidate;
use sinew_uring::net::{Listener, Part, Stream};
use sinew_uring::OpenOptions;

use crate::host::Open;
use crate::report;

/// The longest request accepted.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// What can be asked of a running pool.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    Status,
    VolumeCreate { name: String, bytes: u64 },
    VolumeDelete { name: String },
    VolumeResize { name: String, bytes: u64, shrink: bool },
    MemberOffline { member: usize },
    MemberOnline { member: usize, path: Option<PathBuf> },
    MemberReplace { member: usize, path: Option<PathBuf>, force: bool },
    Scrub { run: bool },
    Throttle { bytes_per_second: u64 },
}

/// Answers control connections for ever.
pub(crate) async fn serve(open: Rc<Open>, listener: Listener) {
    use sinew_engine::io::Io;
    while let Ok(stream) = listener.accept().await {
        let shared = Rc::clone(&open);
        open.io.spawn(async move { converse(shared, stream).await });
    }
}

async fn converse(open: Rc<Open>, stream: Stream) {
    let mut pending: Vec<u8> = Vec::new();
    loop {
        let (buf, got) = stream.recv(vec![0; 4096], 0).await;
        let Ok(got @ 1..) = got else { return };
        pending.extend_from_slice(&buf[..got]);
        if pending.len() > REQUEST_BYTES_MAX {
            return;
        }
        while let Some(end) = pending.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let answer = match serde_json::from_slice::<Request>(&line) {
                Ok(request) => answer(&open, request).await,
                Err(error) => Err(anyhow!("not a request: {error}")),
            };
            let answer = match answer {
                Ok(value) => json!({ "ok": value }),
                Err(error) => json!({ "error": format!("{error:#}") }),
            };
            let bytes = format!("{answer}\n").into_bytes();
            if stream.send(vec![Part::Bytes(bytes)]).await.1.is_err() {
                return;
            }
        }
    }
}

async fn answer(open: &Open, request: Request) -> Result<Value> {
    let control = &open.control;
    match request {
        Request::Status => return Ok(report::status(&control.config(), &control.status().await?)),
        Request::VolumeCreate { name, bytes } => drop(control.create_volume(&name, bytes).await?),
        Request::VolumeDelete { name } => control.delete_volume(&name).await?,
        Request::VolumeResize { name, bytes, shrink } => {
            let current = control.config().volumes.iter().find(|v| v.name == name).map_or(0, |v| v.bytes);
            if bytes < current && !shrink {
                bail!("{name} has {current} bytes; what is beyond {bytes} would be lost: say --shrink if that is meant");
            }
            control.resize_volume(&name, bytes).await?;
        }
        Request::MemberOffline { member } => control.offline(member).await?,
        Request::MemberOnline { member, path } => {
            let candidate = reopen(open, member, path)?;
            control.online(member, candidate).await?;
        }
        Request::MemberReplace { member, path, force } => {
            let candidate = path.map(|path| reopen(open, member, Some(path))).transpose()?;
            control.replace(member, candidate, force).await?;
        }
        Request::Scrub { run } => control.scrub(run).await?,
        Request::Throttle { bytes_per_second } => control.throttle(bytes_per_second).await,
    }
    Ok(Value::Null)
}

/// Opens a member's device anew: the one given, or the one it was last seen as.
fn reopen(open: &Open, member: usize, path: Option<PathBuf>) -> Result<Candidate> {
    let config = open.control.config();
    let known = config.members.get(member).map(|m| PathBuf::from(&m.path));
    let path = path.or(known).with_context(|| format!("there is no member {member}"))?;
    let name = path.display().to_string();
    // This process may still have it open, from before it went out; a device that came back needs a new descriptor.
    open.candidates.borrow_mut().retain(|known| {
        let is_old = known.path == name && !open.control.uses(known.device);
        if is_old {
            open.devices.close(known.device);
        }
        !is_old
    });
    let device = open.devices.open(&path, OpenOptions::default())?;
    let candidate = Candidate { device, path: name };
    open.candidates.borrow_mut().push(candidate.clone());
    Ok(candidate)
}

/// The directory of control sockets.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir).join("sinew"),
        _ => PathBuf::from("/run/sinew"),
    }
}

/// Where a running pool is reached: `--control`, or the only socket there is.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Target {
    /// Control socket of the running pool; by default the only one in the runtime directory.
    #[arg(long, global = true, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Name of the running pool, when several run.
    #[arg(long, global = true, value_name = "NAME")]
    pool: Option<String>,
}

impl Target {
    /// Sends one request and gives its answer.
    pub(crate) fn ask(&self, request: &Request) -> Result<Value> {
        let path = self.path()?;
        let none = || format!("no pool is served at {}; start one with `sinew serve` or `sinew up`", path.display());
        let mut stream = UnixStream::connect(&path).with_context(none)?;
        stream.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        let mut answer: Value = serde_json::from_str(&line).context("the server ended before it answered")?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => bail!("{error}"),
            None => Ok(answer["ok"].take()),
        }
    }

    fn path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.control {
            return Ok(path.clone());
        }
        let dir = directory();
        if let Some(pool) = &self.pool {
            return Ok(dir.join(format!("{pool}.sock")));
        }
        let sockets: Vec<PathBuf> = std::fs::read_dir(&dir)
            .map(|entries| entries.flatten().map(|e| e.path()).filter(|p| is_alive(p)).collect())
            .unwrap_or_default();
        match sockets.as_slice() {
            [one] => Ok(one.clone()),
            [] => bail!("no pool is served; start one with `sinew serve` or `sinew up`, or say --control PATH"),
            _ => bail!("several pools are served in {}; say --pool NAME", dir.display()),
        }
    }
}

/// Whether a server answers at a socket.
pub(crate) fn is_alive(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}
