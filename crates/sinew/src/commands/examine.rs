//! `sinew array examine`: what array of md's some devices are members of, and whether it can be served.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use sinew_core::ids::uuid_text;
use sinew_engine::pool::Candidate;
use sinew_engine::pool::md_arrays::{self, MdArray, MdOptions};
use sinew_format::model::array_geometry::{Access, ArrayGeometry};
use sinew_uring::{Devices, OpenOptions, UringIo};

use crate::out::say;
use crate::pool::{host, members};
use crate::units;

/// Looks at the members of an array of md's (mdadm) and says what it is and whether it can be served. Changes nothing.
///
/// `sinew serve --md MEMBER...` serves it.
#[derive(Args)]
pub(crate) struct ExamineArgs {
    /// Members of one array, in any order: files or block devices.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View {
    array: String,
    uuid: String,
    protection: String,
    chunk_bytes: u32,
    bytes: u64,
    events: u64,
    /// Parity and copies are right, as md says.
    clean: bool,
    bitmap: bool,
    /// By role; null where none is, or none that is up to date.
    members: Vec<Option<MemberView>>,
    warnings: Vec<String>,
    /// Why it cannot be served read-only, or read-write; null if it can.
    refused_read_only: Option<String>,
    refused_read_write: Option<String>,
}

#[derive(Serialize)]
struct MemberView {
    path: String,
    data_offset: u64,
}

/// Runs the command.
///
/// # Errors
/// When the members cannot be read, or are none of an array of md's.
pub(crate) fn run(args: &ExamineArgs) -> Result<()> {
    let devices = Devices::new();
    let options = OpenOptions { read_only: true, exclusive: false, ..OpenOptions::default() };
    let open = |path: &PathBuf| -> Result<Candidate> {
        Ok(Candidate { device: devices.open(path, options)?, path: path.display().to_string() })
    };
    let candidates = members::each(&args.members)?.iter().map(open).collect::<Result<Vec<_>>>()?;
    let view = host::run_alone(&devices, async |io| look(&io, &candidates).await)??;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&view)?);
    } else {
        print(&view);
    }
    Ok(())
}

async fn look(io: &UringIo, candidates: &[Candidate]) -> Result<View> {
    let MdArray { array, name, uuid, warnings, .. } = md_arrays::examine(io, candidates).await?;
    let refused = async |access| {
        let options = MdOptions { access, force: false, shards: 1, seconds: 0 };
        md_arrays::discover(io, candidates, &options).await.err().map(|error| error.to_string())
    };
    let (refused_read_only, refused_read_write) =
        (refused(Access::ReadOnly).await, refused(Access::ReadWrite).await);
    let geometry = ArrayGeometry::of_md(array.geometry, 1, true, Access::ReadOnly)?;
    let member = |seat: sinew_layout::md::Seat| MemberView {
        path: candidates[seat.index].path.clone(),
        data_offset: seat.data_offset,
    };
    Ok(View {
        array: name,
        uuid: uuid_text(&uuid),
        protection: geometry.name(),
        chunk_bytes: array.geometry.chunk_bytes(),
        bytes: geometry.data_bytes(),
        events: array.events,
        clean: array.resync_offset.is_none(),
        bitmap: array.has_bitmap,
        members: array.seats.iter().map(|seat| seat.map(member)).collect(),
        warnings,
        refused_read_only,
        refused_read_write,
    })
}

fn print(view: &View) {
    say!("array     {} ({}), {}", view.array, view.protection, units::bytes(view.bytes));
    say!("uuid      {}", view.uuid);
    say!("state     {}, {} events", if view.clean { "clean" } else { "not clean" }, view.events);
    for (role, member) in view.members.iter().enumerate() {
        match member {
            Some(member) => say!("member {role}  {}, data from byte {}", member.path, member.data_offset),
            None => say!("member {role}  missing"),
        }
    }
    view.warnings.iter().for_each(|warning| say!("note      {warning}"));
    for (how, refused) in [("read-only", &view.refused_read_only), ("read-write", &view.refused_read_write)] {
        match refused {
            None => say!("{how}: it can be served"),
            Some(why) => say!("{how}: {why}"),
        }
    }
}
