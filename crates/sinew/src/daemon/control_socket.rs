//! The control socket: one JSON request per line, one JSON answer per line. docs/control-api.md describes it.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow, bail};
use sinew_core::io::Io;
use sinew_core::transport::Part;
use sinew_engine::control::{ControlError, VolumeOptions};
use sinew_engine::pool::Candidate;
use sinew_format::model::volume_limits::VolumeLimits;
use sinew_members::throttle::Limits;
use sinew_uring::net::{Listener, Stream};
use sinew_uring::{OpenError, OpenOptions};

use super::served::Served;
use super::settings::Settings;
use super::site::MetricsSite;
use super::{http, metrics};
use crate::pool::host::Open;
use crate::pool::members::{InUse, refuse_twice};
use crate::protocol::answer::{AddedMember, Answer, Commitment, Line};
use crate::protocol::request::REQUEST_BYTES_MAX;
use crate::protocol::{ElasticChange, Request, status};

/// How long, and how often, a device is opened again that another thread, or another process, has for a moment.
const REOPEN_NS: u64 = 2_000_000_000;
const REOPEN_PAUSE_NS: u64 = 5_000_000;
/// How long a connection may take to end that its client has closed.
const DISCONNECT_NS: u64 = 500_000_000;

/// Answers control connections until the daemon ends.
pub(super) async fn serve(served: Rc<Served>, listener: Listener) {
    while let Ok(stream) = listener.accept().await {
        let own = Rc::clone(&served);
        served.open.io.spawn(async move { converse(own, stream).await });
    }
}

async fn converse(served: Rc<Served>, stream: Stream) {
    let mut pending: Vec<u8> = Vec::new();
    loop {
        let (buf, got) = stream.recv(vec![0; 4096], 0).await;
        let Ok(got @ 1..) = got else { return };
        pending.extend_from_slice(&buf[..got]);
        if pending.len() > REQUEST_BYTES_MAX {
            return;
        }
        while let Some(end) = pending.iter().position(|&b| b == b'\n') {
            if pending.starts_with(b"GET ") || pending.starts_with(b"HEAD ") {
                let site = MetricsSite(Rc::clone(&served));
                http::converse(&served.open.io, &site, stream, pending).await;
                return;
            }
            let line: Vec<u8> = pending.drain(..=end).collect();
            let answer = match serde_json::from_slice::<Request>(&line) {
                Ok(request) => answer(&served, request).await,
                Err(error) => Err(anyhow!("not a request: {error}")),
            };
            let line = match answer {
                Ok(answer) => Line::Ok(answer),
                Err(error) => Line::Error(format!("{error:#}")),
            };
            let Ok(mut bytes) = serde_json::to_vec(&line) else { return };
            bytes.push(b'\n');
            if stream.send(vec![Part::Bytes(bytes)]).await.1.is_err() {
                return;
            }
        }
    }
}

async fn answer(served: &Served, request: Request) -> Result<Answer> {
    let answer = carry_out(served, request).await;
    let_go(&served.open);
    answer
}

async fn carry_out(served: &Served, request: Request) -> Result<Answer> {
    let open = &served.open;
    let control = &open.control;
    match request {
        Request::Status => return Ok(Answer::Status(Box::new(served.state().await?))),
        Request::Events { after, wait } => return Ok(Answer::Events(served.events(after, wait).await)),
        Request::History => return Ok(Answer::History(served.history())),
        Request::Damage => return Ok(Answer::Damage(status::damage(&control.damage()))),
        Request::Metrics => return Ok(Answer::Metrics(metrics::text(open, &served.stats).await?)),
        Request::VolumeCreate { name, bytes, limits, protection } => {
            let options = VolumeOptions { limits: limits.apply(VolumeLimits::NONE), protection };
            control.create_volume_with(&name, bytes, options).await?;
            return commitment(open).await;
        }
        Request::VolumeSet { name, limits, protection } => {
            if let Some(protection) = protection {
                control.set_volume_protection(&name, protection).await?;
            }
            let set = limits.apply(control.volume_limits(&name)?);
            if !limits.is_empty() {
                control.set_volume_limits(&name, set).await?;
            }
            return Ok(Answer::VolumeLimits(status::volume_limits(&set)));
        }
        Request::VolumeDelete { name, force } => {
            refuse_connected(open, &name, force).await?;
            control.delete_volume(&name).await?;
        }
        Request::VolumeResize { name, bytes, shrink, force } => {
            let current = control.config().volumes.iter().find(|v| v.name == name).map_or(0, |v| v.bytes);
            if bytes < current && !shrink {
                bail!(
                    "{name} has {current} bytes; the data beyond {bytes} would be lost: say --shrink to allow it"
                );
            }
            if bytes < current {
                refuse_connected(open, &name, force).await?;
            }
            control.resize_volume(&name, bytes).await?;
            return commitment(open).await;
        }
        Request::MemberOffline { member } => control.offline(member).await?,
        Request::MemberOnline { member, path } => {
            let known = control.config().members.get(member).map(|m| PathBuf::from(&m.path));
            let path = path.or(known).with_context(|| format!("there is no member {member}"))?;
            bring_online(open, member, path).await?;
        }
        Request::MemberReplace { member, path: None, force } => control.replace(member, None, force).await?,
        Request::MemberReplace { member, path: Some(path), force } => {
            let candidate = open_device(open, path).await?;
            keep(open, candidate.clone(), control.replace(member, Some(candidate), force).await)?;
        }
        Request::MemberAdd { path, force } => {
            let candidate = open_device(open, path).await?;
            let added = control.add(candidate.clone(), force).await;
            let member = added.as_ref().copied().unwrap_or_default();
            keep(open, candidate, added.map(drop))?;
            return Ok(Answer::Added(AddedMember { member }));
        }
        Request::MemberPhysical { member, bytes } => control.set_physical(member, bytes).await?,
        Request::MemberWeight { member, percent } => control.set_weight(member, percent).await?,
        Request::MemberRemove { member, cancel: false } => control.remove(member).await?,
        Request::MemberRemove { member, cancel: true } => control.keep(member).await?,
        Request::ArrayGrow { paths, method, force } => {
            refuse_twice(&paths)?;
            let mut candidates = Vec::with_capacity(paths.len());
            for path in paths {
                match open_device(open, path).await {
                    Ok(candidate) => candidates.push(candidate),
                    Err(error) => {
                        candidates.iter().for_each(|candidate| open.devices.close(candidate.device));
                        return Err(error);
                    }
                }
            }
            let grown = control.grow(&candidates, method, force).await;
            for candidate in candidates {
                keep(open, candidate, grown.clone())?;
            }
        }
        Request::ArrayShare { percent } => {
            let change = ElasticChange { share: Some(percent.into()), ..ElasticChange::default() };
            Settings { elastic: Some(change), ..Settings::default() }.apply(control).await?;
        }
        Request::ArrayPolicy { change } => {
            Settings { elastic: Some(change), ..Settings::default() }.apply(control).await?;
            return Ok(Answer::ElasticPolicy(status::elastic_policy(&control.elastic_policy())));
        }
        Request::Scrub { run } => control.scrub(run).await?,
        Request::Policy { change } => {
            let policy = Settings { policy: Some(change), ..Settings::default() }.apply(control).await?;
            return Ok(policy.map_or(Answer::Done, |policy| Answer::Policy(status::policy(&policy))));
        }
        Request::Latency { spike_avoidance, io_timeout } => {
            Settings { spike_avoidance, io_timeout, ..Settings::default() }.apply(control).await?;
        }
        Request::Throttle { bytes_per_second, pause_above_iops } => {
            let throttle = Some(Limits { bytes_per_second, pause_above_iops });
            Settings { throttle, ..Settings::default() }.apply(control).await?;
        }
    }
    Ok(Answer::Done)
}

/// What the volumes can hold in all, and what the pool can.
async fn commitment(open: &Open) -> Result<Answer> {
    let volumes = open.control.config().volumes;
    let provisioned: u64 = volumes.iter().filter(|v| !v.deleting).map(|v| v.bytes).sum();
    let capacity = open.control.status().await?.capacity_bytes;
    Ok(Answer::Commitment(Commitment { provisioned_bytes: provisioned, capacity_bytes: capacity }))
}

/// Refuses what would take data away from connected clients, unless it is forced. The end of a connection is noticed some
/// time after the client has closed it.
async fn refuse_connected(open: &Open, name: &str, force: bool) -> Result<()> {
    let connections = || open.control.catalog().get(name).map_or(0, |volume| volume.connections());
    let began = open.io.now();
    while !force && connections() > 0 {
        if open.io.now() - began > DISCONNECT_NS {
            let count = connections();
            bail!("{name} is in use: it has {count} client connection(s); end them first, or say --force");
        }
        open.io.sleep(REOPEN_PAUSE_NS).await;
    }
    Ok(())
}

/// Brings a member back.
///
/// # Errors
/// When the device cannot be opened, is not that member, or the member is not out.
pub(super) async fn bring_online(open: &Open, member: usize, path: PathBuf) -> Result<()> {
    let candidate = open_device(open, path).await?;
    keep(open, candidate.clone(), open.control.online(member, candidate).await)
}

/// Opens a device for the pool. One that this process still has open from before it went out is closed first.
async fn open_device(open: &Open, path: PathBuf) -> Result<Candidate> {
    let path = std::path::absolute(path)?;
    let name = path.display().to_string();
    let same = |known: &Candidate| known.path == name;
    if open.candidates.borrow().iter().any(|known| same(known) && open.control.uses(known.device)) {
        bail!("{name} is a member of this pool already");
    }
    for known in open.candidates.borrow_mut().extract_if(.., |known| same(known)) {
        open.devices.abandon(known.device);
    }
    // The threads let go of its descriptor one after the other, and the last of them once it has answered.
    let began = open.io.now();
    loop {
        match open.devices.open(&path, OpenOptions::default()) {
            Ok(device) => return Ok(Candidate { device, path: name }),
            Err(OpenError::InUse(_) | OpenError::Unanswered(_)) if open.io.now() - began < REOPEN_NS => {
                open.io.sleep(REOPEN_PAUSE_NS).await;
            }
            Err(OpenError::InUse(path)) => return Err(InUse::new(path).into()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Closes the devices that are no member's any more: those that were replaced, or have left the pool. Others can use them
/// once they have answered everything that they were asked.
fn let_go(open: &Open) {
    let is_held = |candidate: &Candidate| open.control.holds(candidate.device);
    for candidate in open.candidates.borrow_mut().extract_if(.., |candidate| !is_held(candidate)) {
        open.devices.abandon(candidate.device);
    }
}

/// Keeps a device that has become a member, and lets go of one that has not.
fn keep(open: &Open, candidate: Candidate, result: Result<(), ControlError>) -> Result<()> {
    match result {
        Ok(()) => open.candidates.borrow_mut().push(candidate),
        Err(_) => open.devices.close(candidate.device),
    }
    Ok(result?)
}
