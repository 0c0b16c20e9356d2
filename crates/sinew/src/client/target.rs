//! A running pool as a command reaches it: over its control socket.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::protocol::Request;
use crate::protocol::socket::{directories, directory, is_alive};

/// How long the state of a pool is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a running pool is reached: `--control`, or the only socket there is.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Target {
    /// Control socket of the running pool; by default the only one in the runtime directory.
    #[arg(long, global = true, value_name = "PATH", env = "SINEW_CONTROL")]
    control: Option<PathBuf>,
    /// Name of the running pool, when several run.
    #[arg(long, global = true, value_name = "NAME", env = "SINEW_POOL")]
    pool: Option<String>,
}

impl Target {
    /// Sends one request and gives its answer.
    ///
    /// # Errors
    /// When no server answers, or it refuses the request.
    pub(crate) fn ask(&self, request: &Request) -> Result<Value> {
        let path = self.path()?;
        let mut stream = UnixStream::connect(&path).map_err(|error| {
            anyhow!(
                "no pool is served at {} ({error}); start it with `sinew serve` or `sinew up`",
                path.display()
            )
        })?;
        // What changes members can take as long as the devices do; a look at the state cannot.
        if matches!(request, Request::Status | Request::Metrics | Request::Damage) {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
        }
        stream.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => anyhow!(
                "the server at {} does not answer within {} s: it is stopped, or waits for a device; see its log",
                path.display(),
                PATIENCE.as_secs()
            ),
            _ => anyhow!("the server ended before it answered ({error})"),
        })?;
        let mut answer: Value = serde_json::from_str(&line).context("the server ended before it answered")?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => bail!("{error}"),
            None => Ok(answer["ok"].take()),
        }
    }

    /// A pool by its control socket.
    pub(crate) fn at(control: &Path) -> Target {
        Target { control: Some(control.to_owned()), pool: None }
    }

    /// The options that name the pool, behind a command that is to be run; nothing if none were given.
    pub(crate) fn options(&self) -> String {
        match (&self.control, &self.pool) {
            (Some(control), _) => format!(" --control {}", control.display()),
            (None, Some(pool)) => format!(" --pool {pool}"),
            (None, None) => String::new(),
        }
    }

    /// The same, or the running pool of this name where nothing was said.
    pub(crate) fn or_pool(&self, name: &str) -> Target {
        let pool = if self.control.is_none() { self.pool.clone().or(Some(name.to_owned())) } else { None };
        Target { control: self.control.clone(), pool }
    }

    /// The same, or this control socket where nothing was said.
    pub(crate) fn or_path(&self, path: &Path) -> Target {
        let control = if self.pool.is_none() { self.control.clone().or(Some(path.to_owned())) } else { None };
        Target { control, pool: self.pool.clone() }
    }

    fn path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.control {
            return Ok(path.clone());
        }
        if let Some(pool) = &self.pool {
            let places = directories().into_iter().map(|dir| dir.join(format!("{pool}.sock")));
            let alive = places.clone().find(|path| is_alive(path));
            return Ok(alive.unwrap_or_else(|| directory().join(format!("{pool}.sock"))));
        }
        match running()?.as_slice() {
            [one] => Ok(one.clone()),
            [] => {
                bail!("no pool is served; start one with `sinew serve` or `sinew up`, or say --control PATH")
            }
            many => {
                let names: Vec<_> = many.iter().filter_map(|p| p.file_stem()?.to_str()).collect();
                bail!("several pools are served: {}; say which with --pool NAME", names.join(", "))
            }
        }
    }
}

/// The control sockets of the pools that are served, those in the usual directories.
///
/// # Errors
/// When there is none, and one of the directories may not be read.
pub(crate) fn running() -> Result<Vec<PathBuf>> {
    let mut sockets = Vec::new();
    let mut closed = Vec::new();
    for dir in directories() {
        match std::fs::read_dir(&dir) {
            Ok(entries) => sockets.extend(entries.flatten().map(|e| e.path()).filter(|p| is_alive(p))),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                closed.push(dir.display().to_string())
            }
            Err(_) => {}
        }
    }
    if sockets.is_empty() && !closed.is_empty() {
        bail!(
            "this user serves no pool, and may not look for others in {}; run the command as the user of the server, or say \
             --control PATH",
            closed.join(", ")
        );
    }
    sockets.sort();
    Ok(sockets)
}
